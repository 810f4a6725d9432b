#include "cli/json.h"
#include "cli/out.h"

#include <inttypes.h>

size_t out_time(const struct out *out, char text[TIME_TEXT_BYTES], int64_t time)
{
    if (!out->integer_times) return timefmt_iso(text, time, out->unit);
    return (size_t)snprintf(text, TIME_TEXT_BYTES, "%" PRId64, time);
}

static bool needs_quotes(struct text t)
{
    if (t.bytes == 0) return true;
    if (t.at[0] == ' ' || t.at[0] == '\t') return true;
    if (t.at[t.bytes - 1] == ' ' || t.at[t.bytes - 1] == '\t') return true;
    for (size_t i = 0; i < t.bytes; i++)
        if (t.at[i] == ',' || t.at[i] == '"' || t.at[i] == '\n' || t.at[i] == '\r') return true;
    return false;
}

static void put_text(FILE *f, struct text t)
{
    if (!needs_quotes(t)) {
        fwrite_unlocked(t.at, 1, t.bytes, f);
        return;
    }
    putc_unlocked('"', f);
    for (size_t i = 0; i < t.bytes; i++) {
        if (t.at[i] == '"') putc_unlocked('"', f);
        putc_unlocked(t.at[i], f);
    }
    putc_unlocked('"', f);
}

static void put_cell(const struct out *out, const struct rf_column *c, uint32_t row)
{
    char text[TIME_TEXT_BYTES];
    FILE *f = out->file;
    switch (c->type) {
    case RF_BOOLEAN: fputs_unlocked(((const uint8_t *)c->values)[row] ? "true" : "false", f); break;
    case RF_INT32: fprintf(f, "%" PRId32, ((const int32_t *)c->values)[row]); break;
    case RF_INT64: fprintf(f, "%" PRId64, ((const int64_t *)c->values)[row]); break;
    case RF_FLOAT:
        fwrite_unlocked(text, 1, text_from_float(text, ((const float *)c->values)[row]), f);
        break;
    case RF_DOUBLE:
        fwrite_unlocked(text, 1, text_from_double(text, ((const double *)c->values)[row]), f);
        break;
    case RF_TIMESTAMP:
        fwrite_unlocked(text, 1, out_time(out, text, ((const int64_t *)c->values)[row]), f);
        break;
    case RF_DATE:
        fwrite_unlocked(text, 1, timefmt_date(text, ((const int32_t *)c->values)[row]), f);
        break;
    case RF_TEXT:
    case RF_STRING: put_text(f, out_bytes(c, row)); break;
    case RF_BLOB: put_hex(f, out_bytes(c, row)); break;
    }
}

void out_csv_header(const struct out *out, const char *const *names, size_t count)
{
    fputs_unlocked("time", out->file);
    for (size_t i = 0; i < count; i++) {
        putc_unlocked(',', out->file);
        put_text(out->file, text_of(names[i]));
    }
    putc_unlocked('\n', out->file);
}

void out_csv_rows(const struct out *out, const struct rf_tablet *rows)
{
    char text[TIME_TEXT_BYTES];
    for (uint32_t row = 0; row < rows->rows; row++) {
        fwrite_unlocked(text, 1, out_time(out, text, rows->times[row]), out->file);
        for (uint32_t i = 0; i < rows->columns; i++) {
            putc_unlocked(',', out->file);
            if (!out_is_null(&rows->column[i], row)) put_cell(out, &rows->column[i], row);
        }
        putc_unlocked('\n', out->file);
    }
}
