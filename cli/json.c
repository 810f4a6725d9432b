#include "cli/json.h"

#include <inttypes.h>
#include <math.h>

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* One character that can't stand as it is, or one beyond ASCII; returns its bytes. What is no valid
 * UTF-8 becomes U+FFFD, since JSON can't hold it. */
static size_t put_special(FILE *f, struct text t)
{
    unsigned char c = (unsigned char)t.at[0];
    if (c == '"' || c == '\\')
        fprintf(f, "\\%c", c);
    else if (c == '\n')
        fputs("\\n", f);
    else if (c == '\t')
        fputs("\\t", f);
    else if (c < 0x80)
        fprintf(f, "\\u%04x", c);
    if (c < 0x80) return 1;
    for (size_t bytes = 2; bytes <= 4 && bytes <= t.bytes; bytes++) {
        if (text_utf8_length((struct text){t.at, bytes}) != bytes) continue;
        fwrite_unlocked(t.at, 1, bytes, f);
        return bytes;
    }
    fputs("\\ufffd", f);
    return 1;
}

static void put_quoted(FILE *f, struct text t)
{
    putc_unlocked('"', f);
    while (t.bytes > 0) {
        size_t used = 0;
        while (used < t.bytes && is_plain((unsigned char)t.at[used]))
            used++;
        if (used > 0)
            fwrite_unlocked(t.at, 1, used, f);
        else
            used = put_special(f, t);
        t.at += used;
        t.bytes -= used;
    }
    putc_unlocked('"', f);
}

static void begin(struct json *j, const char *key)
{
    if (j->needs_comma) putc_unlocked(',', j->file);
    j->needs_comma = true;
    if (key == NULL) return;
    put_quoted(j->file, text_of(key));
    putc_unlocked(':', j->file);
}

void json_open(struct json *j, const char *key, char bracket)
{
    begin(j, key);
    putc_unlocked(bracket, j->file);
    j->needs_comma = false;
}

void json_close(struct json *j, char bracket)
{
    putc_unlocked(bracket, j->file);
    j->needs_comma = true;
}

void json_text(struct json *j, const char *key, struct text value)
{
    begin(j, key);
    put_quoted(j->file, value);
}

void json_string(struct json *j, const char *key, const char *value)
{
    json_text(j, key, text_of(value));
}

void json_i64(struct json *j, const char *key, int64_t value)
{
    begin(j, key);
    fprintf(j->file, "%" PRId64, value);
}

void json_u64(struct json *j, const char *key, uint64_t value)
{
    begin(j, key);
    fprintf(j->file, "%" PRIu64, value);
}

void json_bool(struct json *j, const char *key, bool value)
{
    begin(j, key);
    fputs(value ? "true" : "false", j->file);
}

void json_null(struct json *j, const char *key)
{
    begin(j, key);
    fputs("null", j->file);
}

static void put_number(struct json *j, const char *key, const char *text, bool finite)
{
    begin(j, key);
    fprintf(j->file, finite ? "%s" : "\"%s\"", text);
}

void json_double(struct json *j, const char *key, double value)
{
    char out[NUMBER_TEXT_BYTES];
    text_from_double(out, value);
    put_number(j, key, out, isfinite(value));
}

void json_float(struct json *j, const char *key, float value)
{
    char out[NUMBER_TEXT_BYTES];
    text_from_float(out, value);
    put_number(j, key, out, isfinite(value));
}

void put_hex(FILE *f, struct text bytes)
{
    static const char digits[] = "0123456789abcdef";
    fputs_unlocked("0x", f);
    for (size_t i = 0; i < bytes.bytes; i++) {
        putc_unlocked(digits[(unsigned char)bytes.at[i] >> 4], f);
        putc_unlocked(digits[(unsigned char)bytes.at[i] & 15], f);
    }
}

void json_blob(struct json *j, const char *key, struct text bytes)
{
    begin(j, key);
    putc_unlocked('"', j->file);
    put_hex(j->file, bytes);
    putc_unlocked('"', j->file);
}

void json_end_line(struct json *j)
{
    putc_unlocked('\n', j->file);
    j->needs_comma = false;
}
