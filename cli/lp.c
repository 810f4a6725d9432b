#include "cli/lp.h"

#include <stdio.h>

struct lp {
    const char *line;
    size_t at, bytes;
    struct row *row;
    struct bad *bad;
};

static bool at_end(const struct lp *p)
{
    return p->at == p->bytes;
}

static bool next_is(const struct lp *p, char c)
{
    return p->at < p->bytes && p->line[p->at] == c;
}

static size_t column(const struct lp *p)
{
    return p->at + 1;
}

static void skip_spaces(struct lp *p)
{
    while (next_is(p, ' ') || next_is(p, '\t'))
        p->at++;
}

static bool is_escapable(char c)
{
    return c == ',' || c == '=' || c == ' ' || c == '"' || c == '\\';
}

static bool bad_control(struct lp *p, const char *what)
{
    return bad_set(p->bad, column(p), "control character 0x%02x in the %s",
                   (unsigned char)p->line[p->at], what);
}

/* From the first backslash of a piece on it goes through the scratch. */
static bool take_escaped(struct lp *p, size_t begin, const char *stops, const char *what,
                         struct text *piece_out)
{
    char *to = p->row->scratch + p->row->scratch_used;
    size_t n = p->at - begin;
    memcpy(to, p->line + begin, n);
    for (; !at_end(p); p->at++) {
        char c = p->line[p->at];
        if (strchr(stops, c) != NULL && c != '\0') break;
        if ((unsigned char)c < 0x20 || c == 0x7f) return bad_control(p, what);
        if (c == '\\') {
            if (p->at + 1 == p->bytes || !is_escapable(p->line[p->at + 1]))
                return bad_set(p->bad, column(p),
                               "a backslash in the %s must stand before one of "
                               ", = space \" \\",
                               what);
            c = p->line[++p->at];
        }
        to[n++] = c;
    }
    p->row->scratch_used += n;
    *piece_out = (struct text){to, n};
    return true;
}

/* Takes bytes up to one of stops or the line's end. */
static bool take_piece(struct lp *p, const char *stops, const char *what, struct text *piece_out)
{
    size_t begin = p->at;
    for (; !at_end(p); p->at++) {
        char c = p->line[p->at];
        if (c == '\\') return take_escaped(p, begin, stops, what, piece_out);
        if ((unsigned char)c < 0x20 || c == 0x7f) return bad_control(p, what);
        if (strchr(stops, c) != NULL) break;
    }
    *piece_out = (struct text){p->line + begin, p->at - begin};
    return true;
}

static bool take_name(struct lp *p, const char *stops, const char *what, struct text *name_out)
{
    size_t begin = column(p);
    char place[32];
    snprintf(place, sizeof place, "%s's name", what);
    if (!take_piece(p, stops, place, name_out)) return false;
    return text_check_name(*name_out, what, begin, p->bad);
}

static bool take_tag(struct lp *p)
{
    struct text name, value;
    size_t begin = column(p);
    if (!take_name(p, ",= ", "tag", &name)) return false;
    if (!next_is(p, '='))
        return bad_set(p->bad, column(p), "the tag \"%.*s\" has no value: tag=value is expected",
                       (int)name.bytes, name.at);
    p->at++;
    size_t value_column = column(p);
    if (!take_piece(p, ",= ", "tag's value", &value)) return false;
    if (next_is(p, '='))
        return bad_set(p->bad, column(p), "an = in a tag's value needs a backslash before it");
    if (value.bytes == 0)
        return bad_set(p->bad, value_column, "the tag \"%.*s\" has an empty value", (int)name.bytes,
                       name.at);
    size_t valid = text_utf8_length(value);
    if (valid < value.bytes)
        return bad_set(p->bad, value_column + valid, "byte 0x%02x in the tag's value is not UTF-8",
                       (unsigned char)value.at[valid]);
    struct cell *cell = row_add(p->row);
    cell->name = name;
    cell->column = begin;
    cell->category = RF_TAG;
    cell->type = RF_STRING;
    cell->text = value;
    return true;
}

/* The text between quotes; p stands behind the first one. */
static bool take_quoted(struct lp *p, struct cell *cell)
{
    size_t open = p->at; /* in columns from 1 this is the quote's */
    size_t begin = p->at;
    char *to = NULL;
    size_t n = 0;
    for (; !at_end(p) && p->line[p->at] != '"'; p->at++) {
        bool escape = p->line[p->at] == '\\' && p->at + 1 < p->bytes &&
                      (p->line[p->at + 1] == '"' || p->line[p->at + 1] == '\\');
        if (escape && to == NULL) {
            to = p->row->scratch + p->row->scratch_used;
            n = p->at - begin;
            memcpy(to, p->line + begin, n);
        }
        p->at += escape;
        if (to != NULL) to[n++] = p->line[p->at];
    }
    if (at_end(p)) return bad_set(p->bad, open, "the quote is not closed on this line");
    cell->type = RF_STRING;
    cell->text = (struct text){p->line + begin, p->at - begin};
    p->at++;
    if (to != NULL) {
        cell->text = (struct text){to, n};
        p->row->scratch_used += n;
    }
    size_t valid = text_utf8_length(cell->text);
    if (valid < cell->text.bytes)
        return bad_set(p->bad, open, "byte %zu of the text, 0x%02x, is not UTF-8", valid + 1,
                       (unsigned char)cell->text.at[valid]);
    return true;
}

static bool parse_boolean(struct text t, struct cell *cell)
{
    static const char *const yes[] = {"t", "T", "true", "True", "TRUE"};
    static const char *const no[] = {"f", "F", "false", "False", "FALSE"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (!text_is(t, yes[i]) && !text_is(t, no[i])) continue;
        cell->type = RF_BOOLEAN;
        cell->boolean = text_is(t, yes[i]);
        return true;
    }
    return false;
}

static bool looks_like_integer(struct text t)
{
    size_t i = t.bytes > 0 && (t.at[0] == '-' || t.at[0] == '+');
    if (i == t.bytes) return false;
    for (; i < t.bytes; i++)
        if (t.at[i] < '0' || t.at[i] > '9') return false;
    return true;
}

static bool parse_integer(struct lp *p, struct text t, size_t begin, struct cell *cell)
{
    char suffix = t.at[t.bytes - 1];
    struct text digits = {t.at, t.bytes - 1};
    bool is_sound = looks_like_integer(digits) && !(suffix == 'u' && digits.at[0] == '-');
    if (!is_sound)
        return bad_set(p->bad, begin, "\"%.*s\" is no integer", (int)(t.bytes > 60 ? 60 : t.bytes),
                       t.at);
    cell->type = RF_INT64;
    if (!text_to_i64(digits, &cell->i64))
        return bad_set(p->bad, begin, "%.*s lies outside what INT64 holds",
                       (int)(t.bytes > 60 ? 60 : t.bytes), t.at);
    return true;
}

static bool parse_double(struct lp *p, struct text t, size_t begin, struct cell *cell)
{
    int shown = (int)(t.bytes > 60 ? 60 : t.bytes);
    double nonfinite;
    cell->type = RF_DOUBLE;
    switch (text_to_double(t, &cell->f64)) {
    case NUMBER_OK: return true;
    case NUMBER_RANGE:
        return bad_set(p->bad, begin, "%.*s lies outside what DOUBLE holds", shown, t.at);
    case NUMBER_NONE: break;
    }
    if (text_to_nonfinite(t, &nonfinite))
        return bad_set(p->bad, begin, "line protocol has no %.*s", shown, t.at);
    return bad_set(p->bad, begin, "\"%.*s\" is no number, boolean or quoted text", shown, t.at);
}

static bool take_value(struct lp *p, struct cell *cell)
{
    if (next_is(p, '"')) {
        p->at++;
        return take_quoted(p, cell);
    }
    size_t begin = column(p);
    while (!at_end(p) && !next_is(p, ',') && !next_is(p, ' '))
        p->at++;
    struct text t = {p->line + begin - 1, p->at + 1 - begin};
    if (t.bytes == 0)
        return bad_set(p->bad, begin, "the field \"%.*s\" has no value", (int)cell->name.bytes,
                       cell->name.at);
    if (parse_boolean(t, cell)) return true;
    char last = t.at[t.bytes - 1];
    if (last == 'i' || last == 'u') return parse_integer(p, t, begin, cell);
    return parse_double(p, t, begin, cell);
}

static bool take_field(struct lp *p)
{
    struct text name;
    size_t begin = column(p);
    if (!take_name(p, ",= ", "field", &name)) return false;
    if (!next_is(p, '='))
        return bad_set(p->bad, column(p),
                       "the field \"%.*s\" has no value: field=value is expected", (int)name.bytes,
                       name.at);
    p->at++;
    struct cell *cell = row_add(p->row);
    cell->name = name;
    cell->column = begin;
    cell->category = RF_FIELD;
    if (!take_value(p, cell)) return false;
    if (!at_end(p) && !next_is(p, ',') && !next_is(p, ' '))
        return bad_set(p->bad, column(p), "a comma or a space is expected behind the value");
    return true;
}

static bool take_time(struct lp *p, const struct timefmt *time)
{
    skip_spaces(p);
    if (at_end(p))
        return bad_set(p->bad, column(p),
                       "the line has no time: a row is known by its tags and "
                       "its time");
    size_t begin = p->at;
    while (!at_end(p) && !next_is(p, ' ') && !next_is(p, '\t'))
        p->at++;
    struct text t = {p->line + begin, p->at - begin};
    if (!looks_like_integer(t))
        return bad_set(p->bad, begin + 1, "the time \"%.*s\" is no integer",
                       (int)(t.bytes > 60 ? 60 : t.bytes), t.at);
    if (!timefmt_parse(time, t, begin + 1, &p->row->time, p->bad)) return false;
    skip_spaces(p);
    if (!at_end(p)) return bad_set(p->bad, column(p), "nothing is expected behind the time");
    return true;
}

static bool take_line(struct lp *p, const struct timefmt *time)
{
    if (!take_name(p, ", ", "table", &p->row->table)) return false;
    while (next_is(p, ',')) {
        p->at++;
        if (!take_tag(p)) return false;
    }
    skip_spaces(p);
    if (at_end(p)) return bad_set(p->bad, column(p), "the line has no fields and no time");
    for (;;) {
        if (!take_field(p)) return false;
        if (!next_is(p, ',')) break;
        p->at++;
    }
    return take_time(p, time);
}

enum lp_result lp_parse(struct text line, const struct timefmt *time, struct row *row_out,
                        struct bad *bad)
{
    if (line.bytes > 0 && line.at[line.bytes - 1] == '\r') line.bytes--;
    struct lp p = {line.at, 0, line.bytes, row_out, bad};
    row_begin(row_out, line.bytes);
    skip_spaces(&p);
    if (at_end(&p) || next_is(&p, '#')) return LP_NOTHING;
    return take_line(&p, time) ? LP_ROW : LP_BAD;
}
