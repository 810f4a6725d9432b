/* Embedding: open a directory, write a tablet durably, read it back.
 *
 *     cc embed.c $(pkg-config --cflags --libs ringfence) && ./a.out */
#include <ringfence/ringfence.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct rf_engine *engine;
    struct rf_error error;
    int rc = rf_open(argc > 1 ? argv[1] : "data", NULL, &engine, &error);
    if (rc != 0) return fprintf(stderr, "%s\n", error.text), 1;

    /* Two rows of the table "cpu", column by column: whose they are, then what was measured. */
    const int64_t times[] = {1764547200000000000, 1764547201000000000};
    const uint32_t ends[] = {0, 2, 4};
    const double usage[] = {0.64, 0.71};
    const struct rf_column columns[] = {
        {.name = "host", .type = RF_STRING, .category = RF_TAG, .values = "h1h2", .offsets = ends},
        {.name = "usage", .type = RF_DOUBLE, .category = RF_FIELD, .values = usage}};
    const struct rf_tablet tablet = {sizeof tablet, "cpu", NULL, 2, 2, times, columns};
    rc = rf_write(engine, &tablet, &error); /* 0: on stable storage, whole */

    struct rf_cursor *cursor = NULL;
    struct rf_scan_options scan;
    struct rf_tablet rows = {.size = sizeof rows};
    rf_scan_options_init(&scan);
    scan.table = "cpu";
    if (rc == 0) rc = rf_scan_open(engine, &scan, &cursor, &error);
    if (rc != 0) fprintf(stderr, "%s\n", error.text);
    while (cursor != NULL && (rc = rf_scan_next(cursor, &rows)) == 1)
        for (uint32_t i = 0; i < rows.rows; i++)
            printf("%lld %g\n", (long long)rows.times[i],
                   ((const double *)rows.column[1].values)[i]);
    rf_scan_close(cursor);
    return rf_close(engine) != 0 || rc != 0;
}
