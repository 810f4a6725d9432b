/* Rows of a scan on a stream: CSV, or JSON with one object a line.
 *
 * CSV   a header, then time, tags, fields, LF. Quotes stand only around what needs them: commas,
 *       quotes, line ends, blanks at an end, and the empty text, which is no null. Null is nothing.
 * JSON  {"time":"2026-01-01T00:00:00Z","host":"h1","v":1.5}; a null cell is null.
 * Both  times as ISO 8601, or as integers of the directory's unit; dates as 2026-01-31; doubles as
 *       the shortest text that reads back the same, NaN, inf, -inf; BLOB as 0x and hexadecimal.
 *       What `query` writes as CSV, `load --format csv` reads.
 * Thread   one at a time */
#ifndef RF_CLI_OUT_H
#define RF_CLI_OUT_H

#include "cli/timefmt.h"

#include "ringfence/ringfence.h"

#include <stdio.h>

struct out {
    FILE *file;
    enum time_unit unit;
    bool integer_times;
};

void out_csv_header(const struct out *out, const char *const *names, size_t count);
void out_csv_rows(const struct out *out, const struct rf_tablet *rows);
void out_json_rows(const struct out *out, const struct rf_tablet *rows);

/* ---- shared by both ---- */

static inline bool out_is_null(const struct rf_column *c, uint32_t row)
{
    return c->values == NULL || (c->nulls != NULL && (c->nulls[row / 8] >> row % 8 & 1) != 0);
}
/* The bytes of a TEXT, STRING or BLOB. */
static inline struct text out_bytes(const struct rf_column *c, uint32_t row)
{
    return (struct text){(const char *)c->values + c->offsets[row],
                         c->offsets[row + 1] - c->offsets[row]};
}
size_t out_time(const struct out *out, char text[TIME_TEXT_BYTES], int64_t time);

#endif
