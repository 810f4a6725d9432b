/* Any bytes as CSV: the first line is the header, the rest of the lines are records. */
#include "cli/batch.h"
#include "cli/csv.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static struct text take_line(const char **at, size_t *bytes)
{
    const char *lf = memchr(*at, '\n', *bytes);
    struct text line = {*at, lf != NULL ? (size_t)(lf - *at) : *bytes};
    *at += line.bytes + (lf != NULL);
    *bytes -= line.bytes + (lf != NULL);
    return line;
}

static void parse_all(struct csv_header *header, const char *at, size_t bytes)
{
    struct csv_record scratch = {0};
    struct row row = {0};
    struct batch batch = {0};
    batch_begin(&batch);
    while (bytes > 0) {
        struct text line = take_line(&at, &bytes);
        struct bad bad = {0};
        csv_settle(header, line, &scratch);
        enum csv_result result = csv_parse(header, line, &scratch, &row, &bad);
        CHECK((result == CSV_BAD) == (bad.why[0] != '\0'));
        CHECK(bad.column <= line.bytes + 1);
        if (result == CSV_ROW) CHECK(batch_add(&batch, &row, 0, &bad));
    }
    batch_finish(&batch);
    batch_deinit(&batch);
    row_deinit(&row);
    csv_record_deinit(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct text tag = text_of("host");
    struct csv_type types[] = {{text_of("i"), RF_INT32}, {text_of("b"), RF_BLOB},
                               {text_of("d"), RF_DATE},  {text_of("z"), RF_TIMESTAMP},
                               {text_of("f"), RF_FLOAT}, {text_of("o"), RF_BOOLEAN}};
    struct csv_options options = {
        .table = text_of("t"),
        .tags = &tag,
        .tag_count = 1,
        .time = text_of("time"),
        .time_format = {UNIT_NS, UNIT_NS, TIME_EXACT, NULL},
        .null = text_of(""),
        .known = types,
        .known_count = sizeof types / sizeof types[0],
    };
    const char *at = (const char *)data;
    struct text first = take_line(&at, &bytes);
    struct csv_header header;
    struct bad bad = {0};
    if (!csv_header_init(&header, &options, first, &bad)) return 0;
    parse_all(&header, at, bytes);
    csv_header_deinit(&header);
    return 0;
}
