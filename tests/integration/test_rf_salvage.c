/* Directories judged and saved, by the public header alone. */
#include <ringfence/ringfence.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char base[64], dir[96], saved[96];

static int setup(void **state)
{
    (void)state;
    strcpy(base, "/var/tmp/rf-salvage-XXXXXX");
    if (mkdtemp(base) == NULL) return -1;
    snprintf(dir, sizeof dir, "%s/data", base);
    snprintf(saved, sizeof saved, "%s/saved", base);
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", base);
    return system(command);
}

static struct rf_engine *open_engine(const char *path)
{
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error;
    rf_options_init(&o);
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 16 << 20;
    int rc = rf_open(path, &o, &e, &error);
    if (rc != 0) fail_msg("rf_open: %d %s", rc, error.text);
    return e;
}

#define ROWS 500

static void write_rows(struct rf_engine *e, int64_t first)
{
    int64_t times[ROWS];
    double v[ROWS];
    uint32_t offsets[ROWS + 1], text_offsets[ROWS + 1];
    uint8_t nulls[(ROWS + 7) / 8] = {0};
    char tags[2 * ROWS], text[3 * ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        times[i] = first + i;
        v[i] = (double)(first + i);
        offsets[i] = 2 * i;
        text_offsets[i] = 3 * i;
        memcpy(tags + 2 * i, i % 2 ? "h1" : "h0", 2);
        memcpy(text + 3 * i, "abc", 3);
        if (i % 5 == 0) nulls[i / 8] |= (uint8_t)(1 << i % 8);
    }
    offsets[ROWS] = 2 * ROWS;
    text_offsets[ROWS] = 3 * ROWS;
    struct rf_column table[] = {
        {.name = "host", .type = RF_STRING, .category = RF_TAG, .values = tags, .offsets = offsets},
        {.name = "v", .type = RF_DOUBLE, .category = RF_FIELD, .values = v, .nulls = nulls},
        {.name = "s",
         .type = RF_STRING,
         .category = RF_FIELD,
         .values = text,
         .offsets = text_offsets}};
    struct rf_column tree[] = {
        {.name = "v", .type = RF_DOUBLE, .category = RF_FIELD, .values = v, .nulls = nulls}};
    struct rf_tablet t[] = {{.size = sizeof t[0],
                             .table = "cpu",
                             .rows = ROWS,
                             .columns = 3,
                             .times = times,
                             .column = table},
                            {.size = sizeof t[0],
                             .device = "root.db.d1.x",
                             .rows = ROWS,
                             .columns = 1,
                             .times = times,
                             .column = tree}};
    struct rf_error error;
    int rc = rf_write_batch(e, t, 2, &error);
    if (rc != 0) fail_msg("rf_write_batch: %d %s", rc, error.text);
}

/* Everything a scan returns, as one text. */
static char *dump(struct rf_engine *e, const char *table, const char *device)
{
    struct rf_scan_options s;
    struct rf_cursor *c;
    struct rf_tablet t;
    size_t room = 16 << 20, at = 0;
    char *out = malloc(room);
    rf_scan_options_init(&s);
    s.table = table;
    s.device = device;
    assert_int_equal(rf_scan_open(e, &s, &c, NULL), 0);
    int rc;
    while ((rc = rf_scan_next(c, &t)) == 1)
        for (uint32_t r = 0; r < t.rows; r++) {
            at += (size_t)snprintf(out + at, room - at, "%lld", (long long)t.times[r]);
            for (uint32_t i = 0; i < t.columns; i++) {
                const struct rf_column *col = &t.column[i];
                if (col->nulls != NULL && (col->nulls[r / 8] >> r % 8 & 1))
                    at += (size_t)snprintf(out + at, room - at, ",null");
                else if (col->type == RF_DOUBLE)
                    at += (size_t)snprintf(out + at, room - at, ",%g",
                                           ((const double *)col->values)[r]);
                else
                    at += (size_t)snprintf(out + at, room - at, ",%.*s",
                                           (int)(col->offsets[r + 1] - col->offsets[r]),
                                           (const char *)col->values + col->offsets[r]);
            }
            at += (size_t)snprintf(out + at, room - at, "\n");
        }
    assert_int_equal(rc, 0);
    rf_scan_close(c);
    out[at] = '\0';
    return out;
}

static uint32_t told;
static char last[512];
static void hear(void *ctx, const char *text)
{
    (void)ctx;
    told++;
    snprintf(last, sizeof last, "%s", text);
}

static enum rf_verdict verify(const char *path)
{
    enum rf_verdict v;
    struct rf_error error;
    told = 0;
    int rc = rf_verify(path, -1, hear, NULL, &v, &error);
    if (rc != 0) fail_msg("rf_verify: %d %s", rc, error.text);
    return v;
}

static void fill(uint32_t batches)
{
    struct rf_engine *e = open_engine(dir);
    for (uint32_t i = 0; i < batches; i++)
        write_rows(e, (int64_t)i * 300 - 1000);
    struct rf_delete_options d;
    rf_delete_options_init(&d);
    d.table = "cpu";
    d.time_from = 100;
    d.time_to = 120;
    struct rf_tag_filter host = {.name = "host", .value = "h1"};
    d.tags = &host;
    d.tag_count = 1;
    assert_int_equal(rf_delete(e, &d, NULL), 0);
    rf_delete_options_init(&d);
    d.device = "root.db.d1.x";
    const char *column = "v";
    d.columns = &column;
    d.column_count = 1;
    d.time_to = -900;
    assert_int_equal(rf_delete(e, &d, NULL), 0);
    assert_int_equal(rf_close(e), 0);
}

static void rf_salvage__undamaged__the_same_rows(void **state)
{
    (void)state;
    fill(60);
    assert_int_equal(verify(dir), RF_VERDICT_CLEAN);
    struct rf_salvage_report report = {.size = sizeof report};
    struct rf_error error;
    told = 0;
    int rc = rf_salvage(dir, saved, hear, NULL, &report, &error);
    if (rc != 0) fail_msg("rf_salvage: %d %s", rc, error.text);
    assert_int_equal(told, 0);
    assert_int_equal(report.batches, 62);
    assert_int_equal(verify(saved), RF_VERDICT_CLEAN);
    struct rf_engine *a = open_engine(dir), *b = open_engine(saved);
    char *x = dump(a, "cpu", NULL), *y = dump(b, "cpu", NULL);
    assert_string_equal(x, y);
    free(x), free(y);
    x = dump(a, NULL, "root.db.d1.x"), y = dump(b, NULL, "root.db.d1.x");
    assert_true(strlen(x) > 1000);
    assert_string_equal(x, y);
    free(x), free(y);
    assert_int_equal(rf_close(a), 0);
    assert_int_equal(rf_close(b), 0);
}

static void flip(const char *file, long offset)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, offset, SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, offset, SEEK_SET), 0);
    fputc(c ^ 0x10, f);
    fclose(f);
}

static void rf_salvage__damage_in_the_middle__all_else_is_saved(void **state)
{
    (void)state;
    fill(60);
    flip("lane-00/0000000001", 50000);
    assert_int_equal(verify(dir), RF_VERDICT_CORRUPT);
    assert_int_equal(told, 1);
    assert_non_null(strstr(last, "lane-00/0000000001"));
    struct rf_engine *e;
    struct rf_error error;
    assert_int_equal(rf_open(dir, NULL, &e, &error), -RF_CODE_CORRUPT);
    assert_non_null(strstr(error.text, "lane-00/0000000001"));
    struct rf_salvage_report report = {.size = sizeof report};
    told = 0;
    assert_int_equal(rf_salvage(dir, saved, hear, NULL, &report, &error), 0);
    assert_int_equal(told, 1);
    assert_int_equal(report.batches, 61);
    assert_int_equal(report.places, 1);
    assert_int_equal(verify(saved), RF_VERDICT_CLEAN);
    assert_int_equal(verify(dir), RF_VERDICT_CORRUPT); /* the damaged one is left as it was */
    assert_int_equal(rf_salvage(dir, saved, hear, NULL, NULL, &error), -17 /* EEXIST */);
}

/* What is left of the log deletes from a database whose rows are all lost. */
static void rf_salvage__only_deletes_are_whole__they_have_nothing_to_do(void **state)
{
    (void)state;
    fill(1);
    flip("lane-00/0000000001", 8192);
    struct rf_salvage_report report = {.size = sizeof report};
    struct rf_error error;
    told = 0;
    int rc = rf_salvage(dir, saved, hear, NULL, &report, &error);
    if (rc != 0) fail_msg("rf_salvage: %d %s", rc, error.text);
    assert_int_equal(told, 1);
    assert_int_equal(report.batches, 2);
    assert_int_equal(report.rows, 0);
    assert_int_equal(verify(saved), RF_VERDICT_CLEAN);
}

/* One tablet of the tree model in as many partitions as a record holds: what takes a column's entry
 * once there must not take one a partition when it is written again. */
static void rf_salvage__tree_tablet_of_many_partitions__fits_again(void **state)
{
    (void)state;
    enum { PARTS = 3000, COLUMNS = 25 };
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error;
    rf_options_init(&o);
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 16 << 20;
    o.partition_interval = 1;
    assert_int_equal(rf_open(dir, &o, &e, &error), 0);
    static int64_t times[PARTS];
    static char names[COLUMNS][8];
    struct rf_column c[COLUMNS];
    for (int i = 0; i < PARTS; i++)
        times[i] = i;
    for (int i = 0; i < COLUMNS; i++) {
        snprintf(names[i], sizeof names[i], "c%d", i);
        c[i] = (struct rf_column){
            .name = names[i], .type = RF_INT64, .category = RF_FIELD, .values = times};
    }
    struct rf_tablet t = {.size = sizeof t,
                          .device = "root.db.d",
                          .rows = PARTS,
                          .columns = COLUMNS,
                          .times = times,
                          .column = c};
    int rc = rf_write(e, &t, &error);
    if (rc != 0) fail_msg("rf_write: %d %s", rc, error.text);
    assert_int_equal(rf_close(e), 0);
    struct rf_salvage_report report = {.size = sizeof report};
    told = 0;
    rc = rf_salvage(dir, saved, hear, NULL, &report, &error);
    if (rc != 0) fail_msg("rf_salvage: %d %s", rc, error.text);
    assert_int_equal(told, 0);
    assert_int_equal(report.rows, PARTS);
}

/* A segment that is gone is a place without records, and is told as one. */
static void rf_salvage__segment_missing__told_and_the_rest_saved(void **state)
{
    (void)state;
    fill(150); /* several segments */
    char path[160];
    snprintf(path, sizeof path, "%s/lane-00/0000000002", dir);
    assert_int_equal(remove(path), 0);
    assert_int_equal(verify(dir), RF_VERDICT_CORRUPT);
    assert_int_equal(told, 1);
    struct rf_salvage_report report = {.size = sizeof report};
    struct rf_error error;
    told = 0;
    int rc = rf_salvage(dir, saved, hear, NULL, &report, &error);
    if (rc != 0) fail_msg("rf_salvage: %d %s", rc, error.text);
    assert_int_equal(told, 1);
    assert_non_null(strstr(last, "lane-00/0000000002"));
    assert_int_equal(report.places, 1);
    assert_true(report.bytes_lost >= 1 << 20);
    assert_true(report.batches > 20 && report.batches < 152);
    assert_int_equal(verify(saved), RF_VERDICT_CLEAN);
}

static void rf_verify__missing_directory__is_an_error(void **state)
{
    (void)state;
    enum rf_verdict v;
    struct rf_error error;
    assert_int_equal(rf_verify(dir, 0, NULL, NULL, &v, &error), -2 /* ENOENT */);
    assert_non_null(strstr(error.text, dir));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rf_salvage__undamaged__the_same_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(rf_salvage__damage_in_the_middle__all_else_is_saved, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(rf_salvage__only_deletes_are_whole__they_have_nothing_to_do,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(rf_salvage__tree_tablet_of_many_partitions__fits_again,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(rf_salvage__segment_missing__told_and_the_rest_saved, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(rf_verify__missing_directory__is_an_error, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
