#include "cli/json.h"
#include "cli/out.h"

static void put_time(const struct out *out, struct json *j, const char *key, int64_t time)
{
    char text[TIME_TEXT_BYTES];
    if (out->integer_times)
        json_i64(j, key, time);
    else
        json_text(j, key, (struct text){text, out_time(out, text, time)});
}

static void put_cell(const struct out *out, struct json *j, const struct rf_column *c, uint32_t row)
{
    char text[TIME_TEXT_BYTES];
    switch (c->type) {
    case RF_BOOLEAN: json_bool(j, c->name, ((const uint8_t *)c->values)[row] != 0); break;
    case RF_INT32: json_i64(j, c->name, ((const int32_t *)c->values)[row]); break;
    case RF_INT64: json_i64(j, c->name, ((const int64_t *)c->values)[row]); break;
    case RF_FLOAT: json_float(j, c->name, ((const float *)c->values)[row]); break;
    case RF_DOUBLE: json_double(j, c->name, ((const double *)c->values)[row]); break;
    case RF_TIMESTAMP: put_time(out, j, c->name, ((const int64_t *)c->values)[row]); break;
    case RF_DATE: {
        size_t bytes = timefmt_date(text, ((const int32_t *)c->values)[row]);
        json_text(j, c->name, (struct text){text, bytes});
        break;
    }
    case RF_TEXT:
    case RF_STRING: json_text(j, c->name, out_bytes(c, row)); break;
    case RF_BLOB: json_blob(j, c->name, out_bytes(c, row)); break;
    }
}

void out_json_rows(const struct out *out, const struct rf_tablet *rows)
{
    struct json j = {out->file, false};
    for (uint32_t row = 0; row < rows->rows; row++) {
        json_open(&j, NULL, '{');
        put_time(out, &j, "time", rows->times[row]);
        for (uint32_t i = 0; i < rows->columns; i++) {
            if (out_is_null(&rows->column[i], row))
                json_null(&j, rows->column[i].name);
            else
                put_cell(out, &j, &rows->column[i], row);
        }
        json_close(&j, '}');
        json_end_line(&j);
    }
}
