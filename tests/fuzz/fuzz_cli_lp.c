/* Any bytes as lines of line protocol: every row that comes out keeps what a row promises, and goes
 * into a batch or is refused with a place inside its line. */
#include "cli/batch.h"
#include "cli/lp.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_row(const struct row *row)
{
    struct bad bad = {0};
    CHECK(text_check_name(row->table, "table", 1, &bad));
    for (size_t i = 0; i < row->cell_count; i++) {
        CHECK(text_check_name(row->cell[i].name, "field", 1, &bad));
        if (row->cell[i].type == RF_STRING)
            CHECK(text_utf8_length(row->cell[i].text) == row->cell[i].text.bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct timefmt time = {UNIT_NS, UNIT_MS, TIME_EXACT, NULL};
    struct row row = {0};
    struct batch batch = {0};
    const char *at = (const char *)data;
    uint32_t record = 0;
    batch_begin(&batch);
    while (bytes > 0) {
        const char *lf = memchr(at, '\n', bytes);
        size_t line = lf != NULL ? (size_t)(lf - at) : bytes;
        struct bad bad = {0};
        enum lp_result result = lp_parse((struct text){at, line}, &time, &row, &bad);
        CHECK((result == LP_BAD) == (bad.why[0] != '\0'));
        CHECK(bad.column <= line + 1);
        if (result == LP_ROW) {
            check_row(&row);
            if (!batch_add(&batch, &row, record++, &bad)) batch_begin(&batch);
            CHECK(bad.column <= line);
        }
        at += line + (lf != NULL);
        bytes -= line + (lf != NULL);
    }
    batch_finish(&batch);
    batch_deinit(&batch);
    row_deinit(&row);
    return 0;
}
