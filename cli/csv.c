#include "cli/csv.h"

#include "cli/memory.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>

void csv_record_deinit(struct csv_record *record)
{
    mem_free(record->field);
    mem_free(record->scratch);
    *record = (struct csv_record){0};
}

/* ---- a record in pieces ---- */

struct split {
    struct text text;
    size_t at;
    struct csv_record *record;
    size_t scratch_used;
    struct bad *bad;
};

static bool take_quoted(struct split *s, struct csv_field *field)
{
    const char *line = s->text.at;
    size_t open = s->at++;
    char *to = s->record->scratch + s->scratch_used;
    size_t n = 0;
    for (;; s->at++) {
        if (s->at == s->text.bytes) return bad_set(s->bad, open + 1, "the quote is never closed");
        if (line[s->at] == '"') {
            if (s->at + 1 == s->text.bytes || line[s->at + 1] != '"') break;
            s->at++;
        }
        to[n++] = line[s->at];
    }
    s->at++;
    if (s->at < s->text.bytes && line[s->at] != ',')
        return bad_set(s->bad, s->at + 1, "a comma or the line's end is expected behind the quote");
    s->scratch_used += n;
    field->text = (struct text){to, n};
    field->quoted = true;
    return true;
}

static bool take_plain(struct split *s, struct csv_field *field)
{
    size_t begin = s->at;
    for (; s->at < s->text.bytes && s->text.at[s->at] != ','; s->at++)
        if (s->text.at[s->at] == '"')
            return bad_set(s->bad, s->at + 1,
                           "a quote inside a field that does not begin with one");
    field->text = (struct text){s->text.at + begin, s->at - begin};
    field->quoted = false;
    return true;
}

bool csv_split(struct text text, struct csv_record *record_out, struct bad *bad)
{
    if (text.bytes > 0 && text.at[text.bytes - 1] == '\r') text.bytes--;
    struct split s = {text, 0, record_out, 0, bad};
    record_out->count = 0;
    need_room(&record_out->scratch, &record_out->scratch_bytes, text.bytes + 1, 1);
    for (;;) {
        need_room(&record_out->field, &record_out->capacity, record_out->count + 1,
                  sizeof *record_out->field);
        struct csv_field *field = &record_out->field[record_out->count++];
        field->column = s.at + 1;
        bool is_quoted = s.at < text.bytes && text.at[s.at] == '"';
        if (!(is_quoted ? take_quoted(&s, field) : take_plain(&s, field))) return false;
        if (s.at == text.bytes) return true;
        s.at++; /* the comma */
    }
}

static bool is_empty_line(struct text text)
{
    return text.bytes == 0 || (text.bytes == 1 && text.at[0] == '\r');
}

/* ---- the header ---- */

static bool contains(const struct text *list, size_t count, struct text name)
{
    for (size_t i = 0; i < count; i++)
        if (text_equal(list[i], name)) return true;
    return false;
}

static const struct csv_type *type_of(const struct csv_type *list, size_t count, struct text name)
{
    for (size_t i = 0; i < count; i++)
        if (text_equal(list[i].column, name)) return &list[i];
    return NULL;
}

static void give_type(struct csv_header *header, struct csv_column *c, enum rf_type type)
{
    c->type = type;
    c->settled = true;
    header->unsettled--;
}

static void role_and_type(struct csv_header *header, struct csv_column *c)
{
    const struct csv_options *o = header->options;
    c->role = CSV_FIELD;
    header->unsettled++;
    if (text_equal(c->name, o->time)) {
        c->role = CSV_TIME;
        give_type(header, c, RF_TIMESTAMP);
        return;
    }
    if (contains(o->tags, o->tag_count, c->name)) {
        c->role = CSV_TAG;
        give_type(header, c, RF_STRING);
        return;
    }
    const struct csv_type *type = type_of(o->types, o->type_count, c->name);
    if (type == NULL) type = type_of(o->known, o->known_count, c->name);
    if (type != NULL) give_type(header, c, type->type);
}

static bool header_has(const struct csv_header *header, struct text name)
{
    for (size_t i = 0; i < header->count; i++)
        if (text_equal(header->column[i].name, name)) return true;
    return false;
}

static bool read_names(struct csv_header *header, const struct csv_record *record, struct bad *bad)
{
    size_t used = 0;
    for (size_t i = 0; i < record->count; i++) {
        const struct csv_field *f = &record->field[i];
        struct text name = f->quoted ? f->text : text_trim(f->text);
        bool is_time = text_equal(name, header->options->time);
        if (!is_time && !text_check_name(name, "column", f->column, bad)) return false;
        if (header_has(header, name))
            return bad_set(bad, f->column, "the column \"%.*s\" is there twice", (int)name.bytes,
                           name.at);
        memcpy(header->names + used, name.at, name.bytes);
        struct csv_column *c = &header->column[header->count++];
        c->name = (struct text){header->names + used, name.bytes};
        used += name.bytes;
        role_and_type(header, c);
    }
    return true;
}

static bool wants_are_there(const struct csv_header *header, struct bad *bad)
{
    const struct csv_options *o = header->options;
    if (!header_has(header, o->time))
        return bad_set(bad, 1, "the header has no column \"%.*s\" for the time: name it by --time",
                       (int)o->time.bytes, o->time.at);
    for (size_t i = 0; i < o->tag_count; i++)
        if (!header_has(header, o->tags[i]))
            return bad_set(bad, 1, "the header has no column \"%.*s\", which --tags names",
                           (int)o->tags[i].bytes, o->tags[i].at);
    for (size_t i = 0; i < o->type_count; i++)
        if (!header_has(header, o->types[i].column))
            return bad_set(bad, 1, "the header has no column \"%.*s\", which --types names",
                           (int)o->types[i].column.bytes, o->types[i].column.at);
    return true;
}

bool csv_header_init(struct csv_header *header, const struct csv_options *options, struct text text,
                     struct bad *bad)
{
    struct csv_record record = {0};
    *header = (struct csv_header){.options = options};
    header->names = need_zalloc(text.bytes + 1);
    bool ok = csv_split(text, &record, bad);
    if (ok) {
        header->column = need_zalloc(record.count * sizeof *header->column);
        ok = read_names(header, &record, bad) && wants_are_there(header, bad);
    }
    csv_record_deinit(&record);
    if (!ok) csv_header_deinit(header);
    return ok;
}

void csv_header_deinit(struct csv_header *header)
{
    mem_free(header->names);
    mem_free(header->column);
    *header = (struct csv_header){0};
}

/* ---- types out of values ---- */

static bool is_null(const struct csv_header *header, const struct csv_field *f,
                    const struct csv_column *c)
{
    if (!text_equal(f->text, header->options->null)) return false;
    if (!f->quoted) return true;
    bool is_text = c->type == RF_STRING || c->type == RF_TEXT || c->type == RF_BLOB;
    return c->settled && !is_text;
}

static enum rf_type looks_like(struct text t)
{
    double value;
    t = text_trim(t);
    if (text_is_nocase(t, "true") || text_is_nocase(t, "false")) return RF_BOOLEAN;
    if (text_to_double(t, &value) != NUMBER_NONE || text_to_nonfinite(t, &value)) return RF_DOUBLE;
    return RF_STRING;
}

void csv_settle(struct csv_header *header, struct text text, struct csv_record *scratch)
{
    struct bad bad = {0};
    if (is_empty_line(text) || !csv_split(text, scratch, &bad)) return;
    if (scratch->count != header->count) return;
    for (size_t i = 0; i < header->count; i++) {
        struct csv_column *c = &header->column[i];
        const struct csv_field *f = &scratch->field[i];
        if (!c->settled && !is_null(header, f, c)) give_type(header, c, looks_like(f->text));
    }
}

/* ---- values ---- */

static bool mismatch(const struct csv_column *c, const struct csv_field *f, struct bad *bad)
{
    const char *hint = c->type == RF_DOUBLE || c->type == RF_BOOLEAN ? "; see --types, --null" : "";
    return bad_set(bad, f->column, "\"%.*s\" in column \"%.*s\" is no %s%s",
                   (int)(f->text.bytes > 60 ? 60 : f->text.bytes), f->text.at, (int)c->name.bytes,
                   c->name.at, type_name(c->type), hint);
}

static bool parse_boolean(struct text t, uint8_t *out)
{
    static const char *const yes[] = {"true", "t", "1"}, *const no[] = {"false", "f", "0"};
    for (size_t i = 0; i < 3; i++)
        if (text_is_nocase(t, yes[i]) || text_is_nocase(t, no[i])) {
            *out = text_is_nocase(t, yes[i]);
            return true;
        }
    return false;
}

static bool parse_double(struct text t, double *out)
{
    return text_to_double(t, out) == NUMBER_OK || text_to_nonfinite(t, out);
}

static bool parse_float(struct text t, float *out)
{
    double value;
    if (!parse_double(t, &value)) return false;
    char copy[64];
    if (t.bytes >= sizeof copy) {
        *out = (float)value;
    } else { /* rounding twice could end one float beside the right one */
        memcpy(copy, t.at, t.bytes);
        copy[t.bytes] = '\0';
        *out = strtof(copy, NULL);
    }
    return isfinite(value) == isfinite(*out);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* In place of the digits, of which there are two a byte: in the row's scratch. */
static bool parse_blob(struct text t, struct row *row, struct text *out)
{
    if (t.bytes < 2 || t.bytes % 2 != 0 || t.at[0] != '0' || (t.at[1] != 'x' && t.at[1] != 'X'))
        return false;
    char *to = row->scratch + row->scratch_used;
    size_t n = 0;
    for (size_t i = 2; i < t.bytes; i += 2) {
        int high = hex_digit(t.at[i]), low = hex_digit(t.at[i + 1]);
        if (high < 0 || low < 0) return false;
        to[n++] = (char)(high * 16 + low);
    }
    row->scratch_used += n;
    *out = (struct text){to, n};
    return true;
}

static bool parse_text(const struct csv_field *f, struct text *out, struct bad *bad)
{
    size_t valid = text_utf8_length(f->text);
    if (valid < f->text.bytes)
        return bad_set(bad, f->column, "byte %zu of the text, 0x%02x, is not UTF-8", valid + 1,
                       (unsigned char)f->text.at[valid]);
    *out = f->text;
    return true;
}

static bool parse_tag(const struct csv_field *f, struct cell *cell, struct bad *bad)
{
    for (size_t i = 0; i < f->text.bytes; i++) {
        unsigned char c = (unsigned char)f->text.at[i];
        if (c < 0x20 || c == 0x7f)
            return bad_set(bad, f->column, "control character 0x%02x in a tag's value", c);
    }
    return parse_text(f, &cell->text, bad);
}

static bool parse_value(const struct csv_header *header, const struct csv_column *c,
                        const struct csv_field *f, struct row *row, struct cell *cell,
                        struct bad *bad)
{
    struct text t = text_trim(f->text);
    struct timefmt time = header->options->time_format;
    bool ok = false;
    int64_t i64 = 0;
    time.pattern = NULL;
    switch (c->type) {
    case RF_BOOLEAN: ok = parse_boolean(t, &cell->boolean); break;
    case RF_INT32:
        ok = text_to_i64(t, &i64) && i64 >= INT32_MIN && i64 <= INT32_MAX;
        cell->i32 = (int32_t)i64;
        break;
    case RF_INT64: ok = text_to_i64(t, &cell->i64); break;
    case RF_FLOAT: ok = parse_float(t, &cell->f32); break;
    case RF_DOUBLE: ok = parse_double(t, &cell->f64); break;
    case RF_DATE: ok = timefmt_parse_date(t, &cell->i32); break;
    case RF_TIMESTAMP: return timefmt_parse(&time, t, f->column, &cell->i64, bad);
    case RF_BLOB: ok = parse_blob(t, row, &cell->text); break;
    case RF_TEXT:
    case RF_STRING: return parse_text(f, &cell->text, bad);
    }
    return ok || mismatch(c, f, bad);
}

static bool parse_field(const struct csv_header *header, size_t i, const struct csv_field *f,
                        struct row *row, struct bad *bad)
{
    const struct csv_column *c = &header->column[i];
    if (c->role == CSV_TIME) {
        struct text t = text_trim(f->text);
        if (t.bytes == 0)
            return bad_set(bad, f->column,
                           "the line has no time: a row is known by its tags and "
                           "its time");
        return timefmt_parse(&header->options->time_format, t, f->column, &row->time, bad);
    }
    if (is_null(header, f, c)) return true;
    struct cell *cell = row_add(row);
    cell->name = c->name;
    cell->column = f->column;
    cell->category = c->role == CSV_TAG ? RF_TAG : RF_FIELD;
    cell->type = c->type;
    if (c->role == CSV_TAG) return parse_tag(f, cell, bad);
    return parse_value(header, c, f, row, cell, bad);
}

enum csv_result csv_parse(const struct csv_header *header, struct text text,
                          struct csv_record *scratch, struct row *row_out, struct bad *bad)
{
    if (is_empty_line(text)) return CSV_NOTHING;
    row_begin(row_out, text.bytes);
    row_out->table = header->options->table;
    if (!csv_split(text, scratch, bad)) return CSV_BAD;
    if (scratch->count != header->count) {
        size_t column =
            scratch->count > header->count ? scratch->field[header->count].column : text.bytes + 1;
        bad_set(bad, column, "%zu fields, the header has %zu", scratch->count, header->count);
        return CSV_BAD;
    }
    for (size_t i = 0; i < header->count; i++)
        if (!parse_field(header, i, &scratch->field[i], row_out, bad)) return CSV_BAD;
    return CSV_ROW;
}
