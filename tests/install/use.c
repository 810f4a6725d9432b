/* A program outside the tree: opens, writes, counts. Valid as C and as C++. */
#include <ringfence/ringfence.h>

#include <stdio.h>
#include <string.h>

static int fail(const char *what, int code, const struct rf_error *error)
{
    fprintf(stderr, "%s: %s: %s\n", what, rf_code_name(code), error->text);
    return 1;
}

static int write_one(struct rf_engine *engine, struct rf_error *error)
{
    int64_t times[2] = {1, 2};
    double values[2] = {0.5, 1.5};
    struct rf_column column;
    memset(&column, 0, sizeof column);
    column.name = "value";
    column.type = RF_DOUBLE;
    column.category = RF_FIELD;
    column.values = values;
    struct rf_tablet tablet;
    memset(&tablet, 0, sizeof tablet);
    tablet.size = sizeof tablet;
    tablet.table = "used";
    tablet.rows = 2;
    tablet.columns = 1;
    tablet.times = times;
    tablet.column = &column;
    return rf_write(engine, &tablet, error);
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    struct rf_options options;
    struct rf_engine *engine = NULL;
    struct rf_error error;
    rf_options_init(&options);
    options.segment_bytes = 1 << 20;
    options.memory_bytes = 8 << 20;
    int rc = rf_open(argv[1], &options, &engine, &error);
    if (rc != 0) return fail("open", rc, &error);
    rc = write_one(engine, &error);
    if (rc != 0) return fail("write", rc, &error);

    struct rf_scan_options scan;
    uint64_t rows = 0;
    rf_scan_options_init(&scan);
    scan.table = "used";
    rc = rf_count(engine, &scan, &rows, &error);
    if (rc != 0) return fail("count", rc, &error);
    rc = rf_close(engine);
    printf("ringfence %s: %d rows\n", rf_version(), (int)rows);
    return rc == 0 && rows == 2 ? 0 : 1;
}
