/* The public header alone: write, read back, reopen. */
#include <ringfence/ringfence.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char dir[64];

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/var/tmp/rf-basic-XXXXXX");
    return mkdtemp(dir) == NULL;
}
static int teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static struct rf_engine *open_engine(void)
{
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error;
    rf_options_init(&o);
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 8 << 20;
    int rc = rf_open(dir, &o, &e, &error);
    if (rc != 0) fail_msg("rf_open: %d %s", rc, error.text);
    return e;
}

static void write_rows(struct rf_engine *e, int64_t first, uint32_t rows)
{
    int64_t times[1000];
    double v[1000];
    uint32_t offsets[1001];
    char tags[4000];
    for (uint32_t i = 0; i < rows; i++) {
        times[i] = first + i;
        v[i] = (double)(first + i) / 2;
        offsets[i] = 2 * i;
        memcpy(tags + 2 * i, i % 2 ? "h1" : "h0", 2);
    }
    offsets[rows] = 2 * rows;
    struct rf_column c[] = {
        {.name = "host", .type = RF_STRING, .category = RF_TAG, .values = tags, .offsets = offsets},
        {.name = "usage", .type = RF_DOUBLE, .category = RF_FIELD, .values = v}};
    struct rf_tablet t = {
        .size = sizeof t, .table = "cpu", .rows = rows, .columns = 2, .times = times, .column = c};
    struct rf_error error;
    int rc = rf_write(e, &t, &error);
    if (rc != 0) fail_msg("rf_write: %d %s", rc, error.text);
}

static uint64_t count(struct rf_engine *e)
{
    struct rf_scan_options s;
    uint64_t rows;
    struct rf_error error;
    rf_scan_options_init(&s);
    s.table = "cpu";
    int rc = rf_count(e, &s, &rows, &error);
    if (rc != 0) fail_msg("rf_count: %d %s", rc, error.text);
    return rows;
}

static void rf_write__then_scan__rows_by_device_then_time(void **state)
{
    (void)state;
    struct rf_engine *e = open_engine();
    write_rows(e, -500, 1000);
    assert_int_equal(count(e), 1000);
    struct rf_scan_options s;
    struct rf_cursor *c;
    struct rf_tablet t;
    rf_scan_options_init(&s);
    s.table = "cpu";
    assert_int_equal(rf_scan_open(e, &s, &c, NULL), 0);
    uint64_t rows = 0;
    int rc;
    while ((rc = rf_scan_next(c, &t)) == 1) {
        assert_int_equal(t.columns, 2);
        for (uint32_t i = 0; i < t.rows; i++, rows++) {
            int64_t time = rows < 500 ? -500 + 2 * (int64_t)rows : -499 + 2 * ((int64_t)rows - 500);
            assert_true(t.times[i] == time);
            const char *host = (const char *)t.column[0].values + t.column[0].offsets[i];
            assert_memory_equal(host, rows < 500 ? "h0" : "h1", 2);
            assert_true(((const double *)t.column[1].values)[i] == (double)time / 2);
        }
    }
    assert_int_equal(rc, 0);
    assert_int_equal(rows, 1000);
    rf_scan_close(c);
    assert_int_equal(rf_close(e), 0);
}

static void rf_open__again__rows_are_there(void **state)
{
    (void)state;
    struct rf_engine *e = open_engine();
    for (int i = 0; i < 50; i++)
        write_rows(e, i * 1000, 1000);
    assert_int_equal(count(e), 50000);
    assert_int_equal(rf_close(e), 0);
    e = open_engine();
    assert_int_equal(count(e), 50000);
    write_rows(e, 0, 1000);
    write_rows(e, 50000, 1000);
    assert_int_equal(count(e), 51000);
    struct rf_stats stats = {.size = sizeof stats};
    assert_int_equal(rf_stats(e, &stats), 0);
    assert_true(stats.opened_clean);
    assert_int_equal(stats.replayed_batches, 50);
    assert_int_equal(rf_close(e), 0);
}

/* What is fixed when a directory is made is not taken from a later opening: rows would be looked for
 * in partitions and lanes in which they do not lie. */
static void rf_open__other_fixed_options__the_directory_counts(void **state)
{
    (void)state;
    struct rf_options o;
    struct rf_engine *e;
    struct rf_stats was = {.size = sizeof was}, is = {.size = sizeof is};
    e = open_engine();
    for (int i = 0; i < 5; i++)
        write_rows(e, i * 1000, 1000);
    assert_int_equal(rf_stats(e, &was), 0);
    assert_int_equal(rf_close(e), 0);
    rf_options_init(&o);
    o.partition_interval = 7;
    o.segment_bytes = 4 << 20;
    o.lanes = 3;
    o.regions = 5;
    o.time_unit = RF_TIME_MS;
    assert_int_equal(rf_open(dir, &o, &e, NULL), 0);
    assert_int_equal(rf_stats(e, &is), 0);
    assert_true(is.partition_interval == was.partition_interval && is.time_unit == was.time_unit);
    assert_true(is.lanes == was.lanes && is.regions == was.regions);
    assert_true(is.segment_bytes == was.segment_bytes);
    assert_int_equal(count(e), 5000);
    write_rows(e, 2000, 1000);
    write_rows(e, 5000, 1000);
    assert_int_equal(count(e), 6000);
    assert_int_equal(rf_close(e), 0);
}

static void shell(const char *format)
{
    char command[512];
    snprintf(command, sizeof command, format, dir, dir);
    assert_int_equal(system(command), 0);
}

static void rf_open__an_older_catalog_in_its_place__refused(void **state)
{
    (void)state;
    struct rf_engine *e = open_engine();
    write_rows(e, 0, 10);
    assert_int_equal(rf_close(e), 0);
    shell("cp %s/catalog.db %s.older");
    e = open_engine();
    assert_int_equal(rf_table_set_ttl(e, "cpu", 0, NULL), 0);
    struct rf_column_def more = {.name = "idle", .type = RF_INT64, .category = RF_FIELD};
    assert_int_equal(rf_table_add_columns(e, "cpu", &more, 1, NULL), 0);
    assert_int_equal(rf_close(e), 0);
    shell("mv %s/catalog.db %s.newer");
    shell("mv %s.older %s/catalog.db");
    struct rf_error error;
    assert_int_equal(rf_open(dir, NULL, &e, &error), -RF_CODE_WRONG_CATALOG);
    shell("mv %s.newer %s/catalog.db");
    e = open_engine();
    assert_int_equal(count(e), 10);
    assert_int_equal(rf_close(e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rf_write__then_scan__rows_by_device_then_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(rf_open__again__rows_are_there, setup, teardown),
        cmocka_unit_test_setup_teardown(rf_open__other_fixed_options__the_directory_counts, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(rf_open__an_older_catalog_in_its_place__refused, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
