/* Each error that a caller can provoke: its code, the place it names, and that nothing is left of
 * what was refused. Then the limits at their largest, which are accepted. */
#include "rf_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[KIT_PATH_BYTES];
static struct rf_engine *e;

static int setup(void **state)
{
    (void)state;
    struct rf_options o;
    kit_dir(dir);
    kit_options(&o);
    o.write_wait_ms = 2000;
    e = kit_open(dir, &o);
    kit_write(e, "t", "h0", 1, 1);
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    if (e != NULL) assert_int_equal(rf_close(e), 0);
    e = NULL;
    kit_remove(dir);
    return 0;
}
static int setup_dir(void **state)
{
    (void)state;
    kit_dir(dir);
    e = NULL;
    return 0;
}

static void reopen(void (*change)(struct rf_options *o))
{
    struct rf_options o;
    if (e != NULL) assert_int_equal(rf_close(e), 0);
    e = NULL;
    kit_options(&o);
    change(&o);
    e = kit_open(dir, &o);
}

/* ---- a refused batch ---- */

struct place {
    int code;
    uint32_t tablet, column, row;
    const char *text; /* a part of it */
};

static void check_place(const struct rf_error *error, int rc, const struct place *want)
{
    if (rc != -want->code || error->code != rc)
        fail_msg("%d (error.code %d: %s), not %d", rc, error->code, error->text, -want->code);
    if (error->tablet != want->tablet || error->column != want->column || error->row != want->row)
        fail_msg("place %d/%d/%d, not %d/%d/%d: %s", (int)error->tablet, (int)error->column,
                 (int)error->row, (int)want->tablet, (int)want->column, (int)want->row,
                 error->text);
    if (strstr(error->text, want->text) == NULL)
        fail_msg("\"%s\" does not name \"%s\"", error->text, want->text);
}

static void refuse_batch(const struct rf_tablet *t, uint32_t n, struct place want)
{
    struct rf_error error = {.text = ""};
    struct rf_stats before = kit_stats(e);
    check_place(&error, rf_write_batch(e, t, n, &error), &want);
    struct rf_queue *queue;
    assert_int_equal(rf_queue_open(e, &queue), 0);
    memset(&error, 0, sizeof error);
    check_place(&error, rf_write_async(queue, t, n, 0, NULL, NULL, &error), &want);
    assert_int_equal(rf_queue_in_flight(queue), 0);
    assert_int_equal(rf_completions(queue, NULL, 1, -1), 0);
    rf_queue_close(queue);
    struct rf_stats after = kit_stats(e);
    assert_int_equal(after.batches, before.batches);
    assert_int_equal(after.rows, before.rows);
    assert_int_equal(after.points, before.points);
    assert_int_equal(after.tables, before.tables);
    assert_int_equal(after.columns, before.columns);
    assert_int_equal(after.devices, before.devices);
    assert_int_equal(after.schema_version, before.schema_version);
    assert_int_equal(after.position, before.position);
    assert_int_equal(rf_write_batch(e, t, n, NULL), -want.code); /* no error asked for */
}

static void refuse(const struct rf_tablet *t, struct place want)
{
    refuse_batch(t, 1, want);
}

#define NOWHERE RF_NONE, RF_NONE, RF_NONE

static const int64_t times[] = {1, 2, 3, 4};
static const double doubles[] = {1, 2, 3, 4};
static const int64_t longs[] = {1, 2, 3, 4};

/* A good tablet of table `new`, which is not there: four rows of one column. */
static struct rf_tablet good(struct rf_column *c)
{
    *c =
        (struct rf_column){.name = "d", .type = RF_DOUBLE, .category = RF_FIELD, .values = doubles};
    return (struct rf_tablet){.size = sizeof(struct rf_tablet),
                              .table = "new",
                              .rows = 4,
                              .columns = 1,
                              .times = times,
                              .column = c};
}

static void rf_write__bad_shape__bad_tablet(void **state)
{
    (void)state;
    struct rf_column c;
    struct rf_tablet t = good(&c);
    t.size = 8;
    refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, RF_NONE, RF_NONE, "size is 8"});
    t = good(&c);
    t.device = "root.a.b";
    refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, RF_NONE, RF_NONE, "either table or device"});
    t.table = t.device = NULL;
    refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, RF_NONE, RF_NONE, "either table or device"});
    t = good(&c);
    t.rows = 0;
    refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, RF_NONE, RF_NONE, "0 rows"});
    t.rows = (1 << 24) + 1;
    refuse(&t, (struct place){RF_CODE_LIMIT, 0, RF_NONE, RF_NONE, "16777217 rows"});
    t = good(&c);
    t.columns = 65536;
    refuse(&t, (struct place){RF_CODE_LIMIT, 0, RF_NONE, RF_NONE, "65536 columns"});
    t = good(&c);
    t.times = NULL;
    refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, RF_NONE, RF_NONE, "times"});
    t = good(&c);
    t.column = NULL;
    refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, RF_NONE, RF_NONE, "columns are missing"});
    t = good(&c);
    t.table = NULL;
    t.device = "root.db.d1";
    t.columns = 0;
    refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, RF_NONE, RF_NONE, "needs a column"});
    t = good(&c);
    refuse_batch(&t, 0, (struct place){RF_CODE_LIMIT, NOWHERE, "0 tablets"});
    refuse_batch(&t, 65536, (struct place){RF_CODE_LIMIT, NOWHERE, "65536 tablets"});
    refuse_batch(NULL, 3, (struct place){RF_CODE_BAD_TABLET, NOWHERE, "3 tablets"});
}

/* Of columns that are there, in every order, and in either model. */
static void rf_write__known_column_twice__names_it(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c"};
    struct rf_column c[3];
    for (int model = 0; model < 2; model++) {
        struct rf_tablet t = good(c);
        t.table = model == 0 ? "twice" : NULL;
        t.device = model == 0 ? NULL : "root.twice.d";
        t.columns = 3;
        for (int i = 0; i < 3; i++) {
            c[i] = c[0];
            c[i].name = names[i];
        }
        assert_int_equal(rf_write(e, &t, NULL), 0);
        for (int order = 0; order < 27; order++) {
            int digit[] = {order % 3, order / 3 % 3, order / 9};
            for (int i = 0; i < 3; i++)
                c[i].name = names[digit[i]];
            uint32_t again = digit[1] == digit[0] ? 1 : 2;
            if (again == 2 && digit[2] != digit[0] && digit[2] != digit[1])
                assert_int_equal(rf_write(e, &t, NULL), 0);
            else
                refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, again, RF_NONE, "stands twice"});
        }
    }
}

static void rf_write__bad_column__names_it(void **state)
{
    (void)state;
    struct rf_column c[3];
    struct rf_tablet t = good(c);
    c[0].name = NULL;
    refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, 0, RF_NONE, "column 0 has no name"});
    const int no_types[] = {6, 7, 12, -1, 1000};
    for (int i = 0; i < 5; i++) {
        t = good(c);
        c[0].type = (enum rf_type)no_types[i];
        refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, 0, RF_NONE, "\"d\""});
    }
    t = good(c);
    c[0].category = (enum rf_category)2;
    refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, 0, RF_NONE, "no category"});
    t = good(c);
    c[1] = c[0];
    c[1].name = "e";
    c[2] = c[0];
    t.columns = 3;
    refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, 2, RF_NONE, "\"d\" stands twice"});
    t = good(c);
    c[0].category = RF_TAG;
    refuse(&t, (struct place){RF_CODE_TYPE_MISMATCH, 0, 0, RF_NONE, "\"d\""});
    t = good(c);
    t.table = NULL;
    t.device = "root.db.d1";
    c[0].category = RF_TAG;
    c[0].type = RF_STRING;
    refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, 0, RF_NONE, "no tags"});
}

static void rf_write__bad_name__says_which(void **state)
{
    (void)state;
    static char longest[257];
    memset(longest, 'n', 256);
    const char *bad[] = {"", longest, "a\nb", "a\x7f", "\xff", "\xc3", "\xed\xa0\x80", "\xc0\x80"};
    struct rf_column c[2];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rf_tablet t = good(c);
        c[1] = c[0];
        c[1].name = bad[i];
        t.columns = 2;
        refuse(&t, (struct place){RF_CODE_BAD_NAME, 0, 1, RF_NONE, "column 1"});
        t.columns = 1;
        t.table = bad[i];
        refuse(&t, (struct place){RF_CODE_BAD_NAME, 0, RF_NONE, RF_NONE, "table name"});
    }
    const char *paths[] = {"",         "root",     "root.",     "root.db",     "root..d",
                           "x.db.d1",  "root.db.", "root.db..", "root.db..d1", "root.db.d1.",
                           "roots.a.b"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct rf_tablet t = good(c);
        t.table = NULL;
        t.device = paths[i];
        refuse(&t, (struct place){RF_CODE_BAD_NAME, 0, RF_NONE, RF_NONE, "no device"});
    }
    struct rf_tablet t = good(c); /* 255 bytes are a name */
    longest[255] = '\0';
    t.table = c[0].name = longest;
    assert_int_equal(rf_write(e, &t, NULL), 0);
    assert_int_equal(kit_count(e, longest), 4);
}

static void rf_write__bad_values__names_column_and_row(void **state)
{
    (void)state;
    struct rf_column c[2];
    const uint8_t booleans[] = {1, 0, 2, 1}, third_null[] = {1 << 2}, fourth_null[] = {1 << 3};
    for (int there = 0; there < 2; there++) { /* a new column, then one that is there */
        struct rf_tablet t = good(c);
        c[0] = (struct rf_column){
            .name = "b", .type = RF_BOOLEAN, .category = RF_FIELD, .values = booleans};
        refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, 0, 2, "not 2"});
        c[0].nulls = fourth_null;
        refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, 0, 2, "\"b\""});
        const uint32_t falling[] = {0, 2, 1, 3, 3};
        c[1] = (struct rf_column){.name = "s",
                                  .type = RF_STRING,
                                  .category = RF_FIELD,
                                  .values = "abc",
                                  .offsets = falling};
        c[0].nulls = third_null;
        t.columns = 2;
        refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, 1, 1, "fall from 2 to 1"});
        c[1].offsets = NULL;
        refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, 1, RF_NONE, "needs offsets"});
        const uint32_t rising[] = {0, 1, 1, 2, 3};
        c[1].offsets = rising;
        c[1].values = NULL;
        refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, 1, RF_NONE, "no values"});
        c[1].category = RF_TAG;
        c[1].name = "host";
        refuse(&t, (struct place){RF_CODE_BAD_TABLET, 0, 1, RF_NONE, "\"host\""});
        c[1].category = RF_FIELD;
        c[1].name = "s";
        c[1].values = "abc";
        assert_int_equal(rf_write(e, &t, NULL), 0); /* a null row's BOOLEAN is not looked at */
    }
    assert_int_equal(kit_count(e, "new"), 4);
}

static void rf_write__other_type__names_both(void **state)
{
    (void)state;
    struct rf_column c;
    struct rf_tablet t = good(&c);
    t.table = "t";
    c.name = "v";
    refuse(&t, (struct place){RF_CODE_TYPE_MISMATCH, 0, 0, RF_NONE, "INT64, not a FIELD of type"});
    c.name = "host";
    refuse(&t, (struct place){RF_CODE_TYPE_MISMATCH, 0, 0, RF_NONE, "\"host\" is a TAG"});
    const uint32_t offsets[] = {0, 1, 2, 3, 4};
    c = (struct rf_column){
        .name = "v", .type = RF_STRING, .category = RF_TAG, .values = "abcd", .offsets = offsets};
    refuse(&t, (struct place){RF_CODE_TYPE_MISMATCH, 0, 0, RF_NONE, "\"v\" is a FIELD"});
    t = good(&c);
    t.table = NULL;
    t.device = "root.db.d1";
    assert_int_equal(rf_write(e, &t, NULL), 0);
    c.type = RF_INT64;
    c.values = longs;
    refuse(&t, (struct place){RF_CODE_TYPE_MISMATCH, 0, 0, RF_NONE, "DOUBLE"});
    t.device = NULL;
    t.table = "root.db";
    refuse(&t, (struct place){RF_CODE_SEMANTIC_ERROR, 0, RF_NONE, RF_NONE, "other model"});
    /* Two tablets that want one new column as two. */
    struct rf_column two[2];
    struct rf_tablet both[] = {good(&two[0]), good(&two[1])};
    two[1].type = RF_INT64;
    refuse_batch(both, 2, (struct place){RF_CODE_TYPE_MISMATCH, NOWHERE, "\"d\""});
}

static void rf_write_batch__second_tablet_bad__first_leaves_nothing(void **state)
{
    (void)state;
    struct rf_column c[2];
    struct rf_tablet t[] = {good(&c[0]), good(&c[1])};
    t[1].table = "newer";
    t[1].rows = 0;
    refuse_batch(t, 2, (struct place){RF_CODE_BAD_TABLET, 1, RF_NONE, RF_NONE, "0 rows"});
    t[1] = good(&c[1]);
    c[1].type = RF_BOOLEAN;
    c[1].name = "b";
    c[1].values = "\1\0\1\7";
    refuse_batch(t, 2, (struct place){RF_CODE_BAD_TABLET, 1, 0, 3, "not 7"});
    uint64_t rows;
    struct rf_scan_options o;
    rf_scan_options_init(&o);
    o.table = "new";
    assert_int_equal(rf_count(e, &o, &rows, NULL), -RF_CODE_NO_TABLE);
    assert_int_equal(kit_count(e, "t"), 1);
}

/* ---- limits ---- */

/* Sixteen tags and a field; the last tag is `bytes` long. */
static int write_tags(uint32_t tags, uint32_t bytes, struct rf_error *error)
{
    static char names[17][16];
    static char value[8192];
    uint32_t shortest[] = {0, 1}, longest[] = {0, bytes};
    struct rf_column c[18];
    memset(value, 'k', sizeof value);
    for (uint32_t i = 0; i < tags; i++) {
        snprintf(names[i], sizeof names[i], "tag%u", i);
        c[i] = (struct rf_column){.name = names[i],
                                  .type = RF_STRING,
                                  .category = RF_TAG,
                                  .values = value,
                                  .offsets = i + 1 == tags ? longest : shortest};
    }
    c[tags] =
        (struct rf_column){.name = "d", .type = RF_DOUBLE, .category = RF_FIELD, .values = doubles};
    struct rf_tablet t = {.size = sizeof t,
                          .table = "tags",
                          .rows = 1,
                          .columns = tags + 1,
                          .times = times,
                          .column = c};
    return rf_write(e, &t, error);
}

static void rf_write__keys__to_4096_bytes_and_16_tags(void **state)
{
    (void)state;
    struct rf_error error = {.text = ""};
    uint64_t tables = kit_stats(e).tables;
    assert_int_equal(write_tags(17, 1, &error), -RF_CODE_LIMIT);
    assert_int_equal(error.column, 16);
    assert_non_null(strstr(error.text, "16 TAG"));
    assert_int_equal(write_tags(16, 4096 - 15 * 3 - 2 + 1, &error), -RF_CODE_LIMIT);
    assert_int_equal(error.row, 0);
    assert_non_null(strstr(error.text, "4096"));
    assert_int_equal(kit_stats(e).tables, tables);
    assert_int_equal(write_tags(16, 4096 - 15 * 3 - 2, &error), 0);
    assert_int_equal(write_tags(17, 1, &error), -RF_CODE_LIMIT);
    assert_int_equal(kit_count(e, "tags"), 1);

    static char path[16 + 4097];
    struct rf_column c;
    struct rf_tablet t = good(&c);
    for (size_t i = 0; i < sizeof path - 1; i++) /* each node of a path is a name */
        path[i] = i % 200 == 199 ? '.' : 'd';
    memcpy(path, "root.db.", 8);
    path[8 + 4097] = '\0';
    t.table = NULL;
    t.device = path;
    refuse(&t, (struct place){RF_CODE_LIMIT, 0, RF_NONE, RF_NONE, "4097 bytes"});
    path[8 + 4096] = '\0';
    assert_int_equal(rf_write(e, &t, &error), 0);
    struct rf_scan_options o;
    uint64_t rows;
    rf_scan_options_init(&o);
    o.device = path;
    assert_int_equal(rf_count(e, &o, &rows, NULL), 0);
    assert_int_equal(rows, 4);
}

static void rf_write__columns__to_65535(void **state)
{
    (void)state;
    static char names[65536][8];
    struct rf_column *c = calloc(65536, sizeof *c);
    assert_non_null(c);
    for (uint32_t i = 0; i < 65536; i++) {
        snprintf(names[i], sizeof names[i], "c%u", i);
        c[i] = (struct rf_column){
            .name = names[i], .type = RF_BOOLEAN, .category = RF_FIELD, .values = "\1"};
    }
    struct rf_tablet t = {.size = sizeof t,
                          .table = "wide",
                          .rows = 1,
                          .columns = 65535,
                          .times = times,
                          .column = c};
    struct rf_error error = {.text = ""};
    struct rf_options o; /* the catalog's commit of so many may take its time here */
    assert_int_equal(rf_close(e), 0);
    kit_options(&o);
    o.segment_bytes = 8 << 20;
    o.write_wait_ms = 60000;
    kit_remove(dir);
    kit_dir(dir);
    o.memory_bytes = 64 << 20;
    o.log_bytes_max = 0;
    e = kit_open(dir, &o);
    int rc = rf_write(e, &t, &error);
    if (rc != 0) fail_msg("%d %s", rc, error.text);
    assert_int_equal(kit_count(e, "wide"), 1);
    struct rf_scan_options s;
    struct rf_cursor *cursor;
    struct rf_tablet row;
    rf_scan_options_init(&s);
    s.table = "wide";
    assert_int_equal(rf_scan_open(e, &s, &cursor, NULL), 0);
    assert_int_equal(rf_scan_next(cursor, &row), 1);
    assert_int_equal(row.columns, 65535);
    for (uint32_t i = 0; i < 65535; i++) {
        assert_string_equal(row.column[i].name, names[i]);
        assert_int_equal(*(const uint8_t *)row.column[i].values, 1);
    }
    assert_int_equal(rf_scan_next(cursor, &row), 0);
    rf_scan_close(cursor);
    t.column = &c[65535]; /* one more */
    t.columns = 1;
    refuse(&t, (struct place){RF_CODE_LIMIT, NOWHERE, "65,535"});
    t.column = &c[17];
    assert_int_equal(rf_write(e, &t, &error), 0);
    free(c);
}

static void rf_write_batch__65535_tablets__one_batch(void **state)
{
    (void)state;
    struct rf_tablet *t = calloc(65535, sizeof *t);
    assert_non_null(t);
    struct rf_column c;
    for (uint32_t i = 0; i < 65535; i++) {
        t[i] = good(&c);
        t[i].rows = 1;
    }
    struct rf_error error = {.text = ""};
    struct rf_options o;
    assert_int_equal(rf_close(e), 0);
    kit_options(&o);
    o.segment_bytes = 64 << 20;
    o.memory_bytes = UINT64_C(400) << 20;
    o.log_bytes_max = 0;
    kit_remove(dir);
    kit_dir(dir);
    e = kit_open(dir, &o);
    int rc = rf_write_batch(e, t, 65535, &error);
    if (rc != 0) fail_msg("%d %s", rc, error.text);
    assert_int_equal(kit_count(e, "new"), 1); /* all of them the same row */
    assert_int_equal(kit_stats(e).batches, 1);
    free(t);
}

static void rf_write__larger_than_a_segment__entry_too_large(void **state)
{
    (void)state;
    uint32_t rows = 200000;
    int64_t *many = calloc(rows, sizeof *many);
    assert_non_null(many);
    struct rf_column c;
    struct rf_tablet t = good(&c);
    t.rows = rows;
    t.times = many;
    c.values = many;
    refuse(&t, (struct place){RF_CODE_ENTRY_TOO_LARGE, 0, RF_NONE, RF_NONE, "split"});
    for (uint32_t i = 0; i < rows; i++) /* small, but in a great many partitions */
        many[i] = ((int64_t)(i % 20000) - 10000) * INT64_C(604800000000000);
    t.rows = 20000;
    t.columns = 0;
    refuse(&t, (struct place){RF_CODE_ENTRY_TOO_LARGE, NOWHERE, "fragments"});
    free(many);
    kit_write(e, "t", "h0", 2, 2);
    assert_int_equal(kit_count(e, "t"), 2);
}

static void rf_write__blob_of_20_mib__comes_back(void **state)
{
    (void)state;
    struct rf_options o;
    assert_int_equal(rf_close(e), 0);
    kit_options(&o);
    o.segment_bytes = 64 << 20;
    o.memory_bytes = UINT64_C(400) << 20;
    o.log_bytes_max = 0;
    kit_remove(dir);
    kit_dir(dir);
    uint32_t bytes = 20 << 20;
    uint32_t offsets[] = {0, bytes};
    uint8_t *blob = malloc(bytes);
    assert_non_null(blob);
    for (uint32_t i = 0; i < bytes; i++)
        blob[i] = (uint8_t)(i * 2654435761u >> 24);
    struct rf_column c = {
        .name = "b", .type = RF_BLOB, .category = RF_FIELD, .values = blob, .offsets = offsets};
    struct rf_tablet t = {
        .size = sizeof t, .table = "new", .rows = 1, .columns = 1, .times = times, .column = &c};
    e = kit_open(dir, &o);
    assert_int_equal(rf_write(e, &t, NULL), 0);
    for (int again = 0; again < 2; again++) {
        struct rf_scan_options s;
        struct rf_cursor *cursor;
        struct rf_tablet rows;
        rf_scan_options_init(&s);
        s.table = "new";
        assert_int_equal(rf_scan_open(e, &s, &cursor, NULL), 0);
        assert_int_equal(rf_scan_next(cursor, &rows), 1);
        assert_int_equal(rows.column[0].offsets[1] - rows.column[0].offsets[0], bytes);
        assert_memory_equal(rows.column[0].values, blob, bytes);
        rf_scan_close(cursor);
        assert_int_equal(rf_close(e), 0);
        e = kit_open(dir, &o);
    }
    free(blob);
}

static void rf_write__older_than_ttl__names_the_row(void **state)
{
    (void)state;
    struct rf_column c;
    struct rf_tablet t = good(&c);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t fresh = now.tv_sec * INT64_C(1000000000), day = INT64_C(86400000000000);
    int64_t some[] = {fresh, fresh - day / 2, fresh - 2 * day, fresh};
    t.times = some;
    assert_int_equal(rf_write(e, &t, NULL), 0);
    assert_int_equal(rf_table_set_ttl(e, "new", day, NULL), 0);
    assert_int_equal(kit_count(e, "new"), 2); /* two rows at one time, one hidden */
    refuse(&t, (struct place){RF_CODE_OUT_OF_TTL, 0, RF_NONE, 2, "TTL"});
    assert_int_equal(rf_table_set_ttl(e, "new", INT64_MAX, NULL), 0);
    assert_int_equal(rf_write(e, &t, NULL), 0);
    some[3] = INT64_MIN;
    refuse(&t, (struct place){RF_CODE_OUT_OF_TTL, 0, RF_NONE, 3, "row 3"});
    assert_int_equal(rf_table_set_ttl(e, "new", 0, NULL), 0);
    assert_int_equal(rf_write(e, &t, NULL), 0);
    assert_int_equal(kit_count(e, "new"), 4);
}

/* ---- openings of another kind ---- */

static void no_auto_create(struct rf_options *o)
{
    o->auto_create = false;
}

static void rf_write__no_auto_create__names_what_is_missing(void **state)
{
    (void)state;
    reopen(no_auto_create);
    struct rf_column c;
    struct rf_tablet t = good(&c);
    refuse(&t, (struct place){RF_CODE_NO_TABLE, 0, RF_NONE, RF_NONE, "\"new\""});
    t.table = "t";
    refuse(&t, (struct place){RF_CODE_NO_COLUMN, 0, 0, RF_NONE, "\"d\" in t"});
    t.table = NULL;
    t.device = "root.db.d1";
    refuse(&t, (struct place){RF_CODE_NO_DATABASE, 0, RF_NONE, RF_NONE, "root.db"});
    assert_int_equal(rf_series_create(e, "root.db.d1", "x", RF_INT32, NULL), 0);
    refuse(&t, (struct place){RF_CODE_NO_COLUMN, 0, 0, RF_NONE, "root.db.d1"});
    assert_int_equal(rf_series_create(e, "root.db.d1", "d", RF_DOUBLE, NULL), 0);
    assert_int_equal(rf_write(e, &t, NULL), 0);
}

static void rf_write__devices_of_two_regions__spans_regions(void **state)
{
    (void)state;
    struct rf_options o;
    assert_int_equal(rf_close(e), 0);
    kit_remove(dir);
    kit_dir(dir);
    kit_options(&o);
    o.lanes = 2;
    o.regions = 64;
    e = kit_open(dir, &o);
    struct rf_column c[2];
    struct rf_tablet t = good(c);
    const uint32_t offsets[] = {0, 1, 2, 3, 4};
    c[1] = (struct rf_column){.name = "host",
                              .type = RF_STRING,
                              .category = RF_TAG,
                              .values = "abcd",
                              .offsets = offsets};
    t.columns = 2;
    refuse(&t, (struct place){RF_CODE_SPANS_REGIONS, 0, RF_NONE, RF_NONE, "64 regions"});
    struct rf_column each[8];
    struct rf_tablet eight[8];
    char names[8][24];
    for (int i = 0; i < 8; i++) {
        eight[i] = good(&each[i]);
        snprintf(names[i], sizeof names[i], "root.db.d%d", i / 7);
        eight[i].table = NULL;
        eight[i].device = names[i];
    }
    refuse_batch(eight, 8, (struct place){RF_CODE_SPANS_REGIONS, 7, RF_NONE, RF_NONE, "split"});
    assert_int_equal(rf_write_batch(e, eight, 7, NULL), 0); /* all of one device */
    c[1].values = "aaaa";
    assert_int_equal(rf_write(e, &t, NULL), 0);
    assert_int_equal(kit_count(e, "new"), 4);
}

static void read_only(struct rf_options *o)
{
    o->flags = RF_READ_ONLY;
}

static void rf_open__read_only__reads_and_refuses(void **state)
{
    (void)state;
    reopen(read_only);
    struct rf_column c;
    struct rf_tablet t = good(&c);
    struct rf_error error = {.text = ""};
    struct rf_delete_options d;
    struct rf_trim_options trim;
    const struct rf_column_def def = {"x", RF_INT32, RF_FIELD};
    refuse(&t, (struct place){RF_CODE_READ_ONLY, NOWHERE, "read-only"});
    rf_delete_options_init(&d);
    d.table = "t";
    assert_int_equal(rf_delete(e, &d, &error), -RF_CODE_READ_ONLY);
    rf_trim_options_init(&trim);
    trim.before_position = UINT64_MAX;
    assert_int_equal(rf_trim(e, &trim, NULL), -RF_CODE_READ_ONLY);
    assert_int_equal(rf_table_create(e, "x", &def, 1, 0, &error), -RF_CODE_READ_ONLY);
    assert_int_equal(rf_table_add_columns(e, "t", &def, 1, &error), -RF_CODE_READ_ONLY);
    assert_int_equal(rf_table_drop_column(e, "t", "v", &error), -RF_CODE_READ_ONLY);
    assert_int_equal(rf_table_rename_column(e, "t", "v", "w", &error), -RF_CODE_READ_ONLY);
    assert_int_equal(rf_table_set_ttl(e, "t", 1, &error), -RF_CODE_READ_ONLY);
    assert_int_equal(rf_table_drop(e, "t", &error), -RF_CODE_READ_ONLY);
    assert_int_equal(rf_series_create(e, "root.a.b", "c", RF_INT32, &error), -RF_CODE_READ_ONLY);
    assert_int_equal(rf_series_drop(e, "root.a.b", "c", &error), -RF_CODE_READ_ONLY);
    assert_int_equal(rf_flush(e), 0);
    assert_int_equal(rf_resume(e, &error), 0);
    assert_int_equal(kit_count(e, "t"), 1);
}

static void small_log(struct rf_options *o)
{
    o->memory_bytes = 1; /* the least: four segments */
    o->write_wait_ms = 0;
}

static void rf_write__log_full__rejected_and_trimmed(void **state)
{
    (void)state;
    reopen(small_log);
    static int64_t some[8192];
    struct rf_column c;
    struct rf_tablet t = good(&c);
    struct rf_error error = {.text = ""};
    uint64_t rows = 0;
    int rc = 0;
    t.rows = 8192;
    t.times = some;
    c.values = some;
    for (int i = 0; i < 4000 && rc != -RF_CODE_WRITE_REJECT; i++) {
        for (int k = 0; k < 8192; k++)
            some[k] = (int64_t)rows + k;
        struct rf_stats s = kit_stats(e);
        bool all = s.segments + s.segments_ready == s.log_bytes_max / s.segment_bytes;
        rc = rf_write(e, &t, &error);
        if (rc == 0) rows += 8192;
        /* A segment may not be ready yet, with no wait allowed: full is when all were there. */
        if (rc == -RF_CODE_WRITE_REJECT && !all) {
            usleep(10000);
            rc = 0;
        }
    }
    assert_int_equal(rc, -RF_CODE_WRITE_REJECT);
    assert_int_equal(rf_code_is_retryable(rc), 1);
    assert_non_null(strstr(error.text, "lane 0"));
    assert_true(kit_stats(e).rejected > 0);
    assert_int_equal(kit_count(e, "new"), rows);
    struct rf_trim_options o;
    rf_trim_options_init(&o);
    assert_int_equal(rf_trim(e, &o, NULL), -EINVAL); /* by neither */
    o.before_position = UINT64_MAX;
    assert_int_equal(rf_trim(e, &o, NULL), 0);
    for (int i = 0; i < 500 && (rc = rf_write(e, &t, &error)) == -RF_CODE_WRITE_REJECT; i++)
        usleep(10000);
    assert_int_equal(rc, 0);
}

/* ---- options and directories ---- */

static void check_option(void (*change)(struct rf_options *o), const char *name)
{
    struct rf_options o;
    struct rf_error error = {.text = ""};
    struct rf_engine *none = NULL;
    kit_options(&o);
    change(&o);
    int rc = rf_open(dir, &o, &none, &error);
    if (rc != -EINVAL || error.code != rc || strstr(error.text, name) == NULL)
        fail_msg("%s: %d %s", name, rc, error.text);
    assert_null(none);
}

#define OPTION(name, field, value)               \
    static void set_##name(struct rf_options *o) \
    {                                            \
        o->field = value;                        \
    }
OPTION(segment_small, segment_bytes, 1 << 19)
OPTION(segment_large, segment_bytes, UINT64_C(1) << 31)
OPTION(segment_odd, segment_bytes, (1 << 20) + 4096)
OPTION(segment_huge, segment_bytes, UINT64_MAX)
OPTION(lanes_none, lanes, 0)
OPTION(lanes_many, lanes, 17)
OPTION(regions_none, regions, 0)
OPTION(regions_many, regions, 1025)
OPTION(partition, partition_interval, -1)
OPTION(unit, time_unit, (enum rf_time_unit)3)
OPTION(sync, sync, (enum rf_sync)3)
OPTION(backend, backend, (enum rf_backend)9)
OPTION(depth_none, queue_depth, 0)
OPTION(depth_many, queue_depth, 65)
OPTION(lease, lease, (enum rf_lease_mode)3)
OPTION(lease_short, lease_ms, 99)
OPTION(lease_long, lease_ms, INT64_MAX)
OPTION(level, log_level, (enum rf_log_level)7)
OPTION(write_wait, write_wait_ms, -1)
OPTION(durable_wait, durable_wait_ms, 0)
OPTION(lock_wait, lock_wait_ms, -2)
OPTION(flags, flags, 8)
OPTION(size, size, 3)

static void rf_open__options_out_of_range__named(void **state)
{
    (void)state;
    check_option(set_segment_small, "segment_bytes");
    check_option(set_segment_large, "segment_bytes");
    check_option(set_segment_odd, "power of two");
    check_option(set_segment_huge, "segment_bytes");
    check_option(set_lanes_none, "lanes");
    check_option(set_lanes_many, "lanes");
    check_option(set_regions_none, "regions");
    check_option(set_regions_many, "regions");
    check_option(set_partition, "partition_interval");
    check_option(set_unit, "time_unit");
    check_option(set_sync, "sync");
    check_option(set_backend, "backend");
    check_option(set_depth_none, "queue_depth");
    check_option(set_depth_many, "queue_depth");
    check_option(set_lease, "lease");
    check_option(set_lease_short, "lease_ms");
    check_option(set_lease_long, "lease_ms");
    check_option(set_level, "log_level");
    check_option(set_write_wait, "write_wait_ms");
    check_option(set_durable_wait, "durable_wait_ms");
    check_option(set_lock_wait, "lock_wait_ms");
    check_option(set_flags, "flags");
    check_option(set_size, "size");
    char name[128];
    struct stat st; /* refused before the directory was looked at */
    snprintf(name, sizeof name, "%s/manifest", dir);
    assert_int_equal(stat(name, &st), -1);
}

/* Tries to open path; fails the test unless the answer is code and the text names `text`. */
static void open_refused(const char *path, uint32_t flags, int code, const char *text)
{
    struct rf_options o;
    struct rf_error error = {.text = ""};
    struct rf_engine *none = NULL;
    kit_options(&o);
    o.flags = flags;
    o.lock_wait_ms = 50;
    int rc = rf_open(path, &o, &none, &error);
    if (rc != code || error.code != code || strstr(error.text, text) == NULL)
        fail_msg("%s: %d, not %d: %s", path, rc, code, error.text);
}

static void rf_open__no_directory_of_ours__says_why(void **state)
{
    (void)state;
    char name[128];
    snprintf(name, sizeof name, "%s/none", dir);
    open_refused(name, 0, -ENOENT, name);
    open_refused(name, RF_READ_ONLY, -ENOENT, name);
    snprintf(name, sizeof name, "%s/none/deeper", dir);
    open_refused(name, RF_CREATE, -ENOENT, name);
    open_refused("", RF_CREATE, -EINVAL, "no name");
    open_refused(dir, 0, -RF_CODE_UNFINISHED, dir);
    open_refused(dir, RF_READ_ONLY, -RF_CODE_UNFINISHED, dir);
    snprintf(name, sizeof name, "%s/letter.txt", dir);
    int fd = open(name, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "dear", 4), 4);
    assert_int_equal(close(fd), 0);
    open_refused(dir, RF_CREATE, -RF_CODE_NOT_OURS, "letter.txt");
    open_refused(dir, 0, -RF_CODE_NOT_OURS, "letter.txt");
    open_refused(name, RF_CREATE, -RF_CODE_NOT_OURS, "not a directory");
    assert_int_equal(access(name, F_OK), 0);
}

static void rf_open__in_use__names_the_owner(void **state)
{
    (void)state;
    char owner[32];
    snprintf(owner, sizeof owner, "%d", (int)getpid());
    open_refused(dir, RF_CREATE, -RF_CODE_IN_USE, owner); /* this very process */
    open_refused(dir, RF_READ_ONLY, -RF_CODE_IN_USE, owner);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rf_options o;
        struct rf_error error = {.text = ""};
        struct rf_engine *none = NULL;
        kit_options(&o);
        o.lock_wait_ms = 50;
        int rc = rf_open(dir, &o, &none, &error);
        _exit(rc == -RF_CODE_IN_USE && strstr(error.text, owner) != NULL ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    kit_write(e, "t", "h0", 7, 7);
    open_refused(dir, RF_CREATE | RF_EXCLUSIVE, -RF_CODE_IN_USE, dir);
    assert_int_equal(rf_close(e), 0);
    e = NULL;
    open_refused(dir, RF_CREATE | RF_EXCLUSIVE, -EEXIST, "already");
    struct rf_options o;
    kit_options(&o);
    e = kit_open(dir, &o);
    assert_int_equal(kit_count(e, "t"), 2);
}

static void poke(const char *file, long offset, const void *bytes, size_t n)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", dir, file);
    int fd = open(name, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n, offset), (ssize_t)n);
    assert_int_equal(close(fd), 0);
}

static void rf_open__newer_catalog_or_damage__refuses(void **state)
{
    (void)state;
    assert_int_equal(rf_close(e), 0);
    e = NULL;
    char name[128];
    unsigned char version[4];
    snprintf(name, sizeof name, "%s/catalog.db", dir);
    int fd = open(name, O_RDONLY);
    assert_int_equal(pread(fd, version, 4, 60), 4); /* SQLite's user_version */
    assert_int_equal(close(fd), 0);
    poke("catalog.db", 60, "\0\0\0\143", 4);
    open_refused(dir, RF_CREATE, -RF_CODE_NEWER_VERSION, "99");
    open_refused(dir, RF_READ_ONLY, -RF_CODE_NEWER_VERSION, "99");
    poke("catalog.db", 60, version, 4);
    struct rf_options o;
    kit_options(&o);
    e = kit_open(dir, &o);
    assert_int_equal(kit_count(e, "t"), 1);
    assert_int_equal(rf_close(e), 0);
    e = NULL;
    poke("manifest", 20, "\xee\xee\xee\xee", 4);
    open_refused(dir, RF_CREATE, -RF_CODE_CORRUPT, "manifest");
}

static void rf_open__unprivileged__eacces(void **state)
{
    (void)state;
    if (getuid() != 0) {
        print_message("skipped: needs root to become somebody without rights\n");
        skip();
    }
    char closed[128];
    snprintf(closed, sizeof closed, "%s/closed", dir);
    assert_int_equal(mkdir(closed, 0555), 0);
    assert_int_equal(chmod(dir, 0755), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rf_options o;
        struct rf_error error = {.text = ""};
        struct rf_engine *none = NULL;
        if (setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
        kit_options(&o);
        int rc = rf_open(closed, &o, &none, &error);
        bool good = rc == -EACCES && strstr(error.text, closed) != NULL;
        if (!good) fprintf(stderr, "%d %s\n", rc, error.text);
        char deeper[160];
        snprintf(deeper, sizeof deeper, "%s/new", closed);
        rc = rf_open(deeper, &o, &none, &error);
        good = good && rc == -EACCES && strstr(error.text, deeper) != NULL;
        if (!good) fprintf(stderr, "%d %s\n", rc, error.text);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- reading, deleting, changing ---- */

static void scan_refused(const struct rf_scan_options *o, struct place want)
{
    struct rf_error error = {.text = ""};
    struct rf_cursor *cursor;
    uint64_t rows;
    check_place(&error, rf_scan_open(e, o, &cursor, &error), &want);
    memset(&error, 0, sizeof error);
    check_place(&error, rf_count(e, o, &rows, &error), &want);
    struct rf_delete_options d;
    rf_delete_options_init(&d);
    d.size = o->size == sizeof *o ? sizeof d : 1;
    d.table = o->table;
    d.device = o->device;
    d.tags = o->tags;
    d.tag_count = o->tag_count;
    d.columns = o->columns;
    d.column_count = o->column_count;
    memset(&error, 0, sizeof error);
    uint64_t before = kit_stats(e).position;
    check_place(&error, rf_delete(e, &d, &error), &want);
    assert_int_equal(kit_stats(e).position, before);
}

static void rf_scan_open__bad_options__says_which(void **state)
{
    (void)state;
    struct rf_scan_options o;
    rf_scan_options_init(&o);
    scan_refused(&o, (struct place){EINVAL, NOWHERE, "either table or device"});
    o.table = "t";
    o.device = "root.a.b";
    scan_refused(&o, (struct place){EINVAL, NOWHERE, "either table or device"});
    o.device = NULL;
    o.size = 1;
    scan_refused(&o, (struct place){EINVAL, NOWHERE, "options_init"});
    rf_scan_options_init(&o);
    o.table = "none";
    scan_refused(&o, (struct place){RF_CODE_NO_TABLE, NOWHERE, "\"none\""});
    o.table = NULL;
    o.device = "root.none.d";
    scan_refused(&o, (struct place){RF_CODE_NO_DATABASE, NOWHERE, "root.none"});
    o.device = "none";
    scan_refused(&o, (struct place){RF_CODE_BAD_NAME, NOWHERE, "\"none\""});
    rf_scan_options_init(&o);
    o.table = "t";
    o.column_count = 1;
    scan_refused(&o, (struct place){EINVAL, NOWHERE, "arrays"});
    const char *columns[] = {"v", "none"};
    o.columns = columns;
    o.column_count = 2;
    scan_refused(&o, (struct place){RF_CODE_NO_COLUMN, RF_NONE, 1, RF_NONE, "\"none\" in t"});
    columns[1] = "host"; /* a tag comes anyway, and is no field */
    scan_refused(&o, (struct place){RF_CODE_NO_COLUMN, RF_NONE, 1, RF_NONE, "\"host\""});
    columns[1] = NULL;
    scan_refused(&o, (struct place){RF_CODE_NO_COLUMN, RF_NONE, 1, RF_NONE, "t"});
    rf_scan_options_init(&o);
    o.table = "t";
    o.tag_count = 1;
    scan_refused(&o, (struct place){EINVAL, NOWHERE, "arrays"});
    struct rf_tag_filter tags[] = {{"none", "x"}, {"host", "h0"}};
    o.tags = tags;
    scan_refused(&o, (struct place){RF_CODE_NO_COLUMN, NOWHERE, "\"none\""});
    tags[0] = (struct rf_tag_filter){"v", "1"};
    scan_refused(&o, (struct place){RF_CODE_NO_COLUMN, NOWHERE, "\"v\""});
    tags[0] = (struct rf_tag_filter){"host", NULL};
    o.tag_count = 2;
    scan_refused(&o, (struct place){EINVAL, NOWHERE, "twice"});
    tags[0].name = NULL;
    scan_refused(&o, (struct place){RF_CODE_NO_COLUMN, NOWHERE, "tag"});
    assert_int_equal(kit_count(e, "t"), 1);
}

static void change_refused(int rc, const struct rf_error *error, int code, const char *text)
{
    if (rc != -code || error->code != rc || strstr(error->text, text) == NULL)
        fail_msg("%d, not %d: %s, not %s", rc, -code, error->text, text);
}

static void rf_table__bad_changes__refused(void **state)
{
    (void)state;
    struct rf_error x = {.text = ""};
    struct rf_column_def d[2] = {{"a", RF_INT32, RF_FIELD}, {"b", RF_INT32, RF_FIELD}};
    uint64_t version = kit_stats(e).schema_version;
    change_refused(rf_table_create(e, "t", d, 2, 0, &x), &x, RF_CODE_TABLE_EXISTS, "\"t\"");
    change_refused(rf_table_create(e, "", d, 2, 0, &x), &x, RF_CODE_BAD_NAME, "table");
    change_refused(rf_table_create(e, NULL, d, 2, 0, &x), &x, RF_CODE_BAD_NAME, "table");
    change_refused(rf_table_create(e, "u", NULL, 2, 0, &x), &x, EINVAL, "2 columns");
    d[1].name = "a";
    change_refused(rf_table_create(e, "u", d, 2, 0, &x), &x, RF_CODE_COLUMN_EXISTS, "\"a\"");
    d[1].name = NULL;
    change_refused(rf_table_create(e, "u", d, 2, 0, &x), &x, RF_CODE_BAD_NAME, "column");
    d[1] = (struct rf_column_def){"b", (enum rf_type)6, RF_FIELD};
    change_refused(rf_table_create(e, "u", d, 2, 0, &x), &x, RF_CODE_SEMANTIC_ERROR, "\"b\"");
    d[1] = (struct rf_column_def){"b", (enum rf_type)300, RF_FIELD};
    change_refused(rf_table_create(e, "u", d, 2, 0, &x), &x, RF_CODE_SEMANTIC_ERROR, "\"b\"");
    d[1] = (struct rf_column_def){"b", RF_INT32, RF_TAG};
    change_refused(rf_table_create(e, "u", d, 2, 0, &x), &x, RF_CODE_SEMANTIC_ERROR, "\"b\"");
    d[1] = (struct rf_column_def){"v", RF_INT64, RF_FIELD};
    change_refused(rf_table_add_columns(e, "t", d, 2, &x), &x, RF_CODE_COLUMN_EXISTS, "\"v\"");
    change_refused(rf_table_add_columns(e, "u", d, 2, &x), &x, RF_CODE_NO_TABLE, "\"u\"");
    change_refused(rf_table_drop_column(e, "t", "x", &x), &x, RF_CODE_NO_COLUMN, "\"x\"");
    change_refused(rf_table_drop_column(e, "t", "host", &x), &x, RF_CODE_SEMANTIC_ERROR, "TAG");
    change_refused(rf_table_drop_column(e, "t", NULL, &x), &x, RF_CODE_BAD_NAME, "column");
    change_refused(rf_table_rename_column(e, "t", "v", "host", &x), &x, RF_CODE_COLUMN_EXISTS,
                   "\"host\"");
    change_refused(rf_table_rename_column(e, "t", "v", "\n", &x), &x, RF_CODE_BAD_NAME, "name");
    change_refused(rf_table_set_ttl(e, "u", 1, &x), &x, RF_CODE_NO_TABLE, "\"u\"");
    change_refused(rf_table_drop(e, "u", &x), &x, RF_CODE_NO_TABLE, "\"u\"");
    change_refused(rf_series_create(e, "d", "s", RF_INT32, &x), &x, RF_CODE_BAD_NAME, "\"d\"");
    change_refused(rf_series_create(e, NULL, "s", RF_INT32, &x), &x, RF_CODE_BAD_NAME, "device");
    change_refused(rf_series_create(e, "root.a.b", "", RF_INT32, &x), &x, RF_CODE_BAD_NAME,
                   "column");
    change_refused(rf_series_drop(e, "root.a.b", "s", &x), &x, RF_CODE_NO_TABLE, "root.a");
    assert_int_equal(kit_stats(e).schema_version, version);
    assert_int_equal(kit_stats(e).tables, 1);
    assert_int_equal(rf_table_drop(e, "u", NULL), -RF_CODE_NO_TABLE); /* no error asked for */
}

static void rf_lease__wrong_mode_or_numbers__einval(void **state)
{
    (void)state;
    struct rf_lease_request r = {.boot = 1};
    assert_int_equal(rf_lease_ask(e, &r), -EINVAL); /* embedded: nobody feeds it */
    assert_int_equal(rf_lease_grant(e, &r, 1000), -EINVAL);
    assert_int_equal(rf_lease_resume(e, &r, 1000), -EINVAL);
    struct rf_options o;
    assert_int_equal(rf_close(e), 0);
    kit_options(&o);
    o.lease = RF_LEASE_OFF;
    e = kit_open(dir, &o);
    assert_int_equal(rf_lease_fence(e), -EINVAL);
    kit_write(e, "t", "h0", 2, 2);
    assert_int_equal(rf_close(e), 0);
    o.lease = RF_LEASE_EXTERNAL;
    o.write_wait_ms = 10;
    e = kit_open(dir, &o);
    assert_true(kit_stats(e).fenced_now);
    assert_int_equal(rf_write(e, kit_row("t", "h0", 3, 3), NULL), -RF_CODE_LEASE_FENCED_RETRY);
    assert_int_equal(rf_lease_ask(e, &r), 0);
    assert_int_equal(rf_lease_grant(e, &r, 1000), -RF_CODE_LEASE_FENCED); /* ends no fencing */
    assert_int_equal(rf_lease_resume(e, &r, 0), -EINVAL);
    assert_int_equal(rf_lease_resume(e, &r, -1), -EINVAL);
    assert_int_equal(rf_lease_resume(e, &r, INT64_MAX), -EINVAL);
    struct rf_lease_request other = r;
    other.asked_boot_ns += INT64_C(3600000000000);
    assert_int_equal(rf_lease_resume(e, &other, 1000), -EINVAL); /* from the future */
    other = r;
    other.boot++;
    assert_int_equal(rf_lease_resume(e, &other, 1000), -EINVAL);
    assert_int_equal(rf_lease_resume(e, &r, 60000), 0);
    for (int i = 0; i < 1000 && kit_stats(e).fenced_now; i++)
        usleep(1000);
    kit_write(e, "t", "h0", 3, 3);
    assert_true(kit_stats(e).lease_left_ms > 50000);
    assert_int_equal(rf_lease_grant(e, &r, 0), -EINVAL);
    assert_int_equal(rf_lease_grant(e, &r, INT64_MAX), -EINVAL);
    assert_int_equal(kit_count(e, "t"), 3);
}

/* ---- every bit comes back ---- */

static void rf_write__extremes__bit_for_bit(void **state)
{
    (void)state;
    const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX - 1, INT64_MAX};
    const uint64_t bits[] = {UINT64_C(0x7ff8000000000001), UINT64_C(0xfff0000000000000),
                             UINT64_C(0x7ff0000000000000), UINT64_C(0x8000000000000000),
                             UINT64_C(0x7ff0000000000001), UINT64_C(0xffffffffffffffff)};
    struct rf_column c = {.name = "d", .type = RF_DOUBLE, .category = RF_FIELD, .values = bits};
    struct rf_tablet t = {
        .size = sizeof t, .table = "new", .rows = 6, .columns = 1, .times = ends, .column = &c};
    assert_int_equal(rf_write(e, &t, NULL), 0);
    for (int again = 0; again < 2; again++) {
        struct rf_scan_options o;
        struct rf_cursor *cursor;
        struct rf_tablet rows;
        rf_scan_options_init(&o);
        o.table = "new";
        assert_int_equal(rf_scan_open(e, &o, &cursor, NULL), 0);
        assert_int_equal(rf_scan_next(cursor, &rows), 1);
        assert_int_equal(rows.rows, 6);
        assert_memory_equal(rows.times, ends, sizeof ends);
        assert_memory_equal(rows.column[0].values, bits, sizeof bits);
        assert_int_equal(rf_scan_next(cursor, &rows), 0);
        rf_scan_close(cursor);
        struct rf_options options;
        kit_options(&options);
        assert_int_equal(rf_close(e), 0);
        e = kit_open(dir, &options);
    }
}

static void rf__after_fork__the_child_is_told(void **state)
{
    (void)state;
    struct rf_queue *queue;
    struct rf_cursor *cursor;
    struct rf_scan_options o;
    rf_scan_options_init(&o);
    o.table = "t";
    assert_int_equal(rf_queue_open(e, &queue), 0);
    assert_int_equal(rf_scan_open(e, &o, &cursor, NULL), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rf_stats s = {.size = sizeof s};
        struct rf_tablet t;
        uint64_t rows;
        bool good = rf_write(e, kit_row("t", "h0", 9, 9), NULL) == -RF_CODE_FORKED &&
                    rf_stats(e, &s) == -RF_CODE_FORKED &&
                    rf_count(e, &o, &rows, NULL) == -RF_CODE_FORKED &&
                    rf_scan_next(cursor, &t) == -RF_CODE_FORKED && rf_flush(e) == -RF_CODE_FORKED &&
                    rf_completions(queue, NULL, 1, 0) == -RF_CODE_FORKED &&
                    rf_table_drop(e, "t", NULL) == -RF_CODE_FORKED;
        rf_scan_close(cursor);
        rf_queue_close(queue);
        _exit(good && rf_close(e) == 0 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    struct rf_tablet t;
    assert_int_equal(rf_scan_next(cursor, &t), 1);
    rf_scan_close(cursor);
    rf_queue_close(queue);
    kit_write(e, "t", "h0", 2, 2);
    assert_int_equal(kit_count(e, "t"), 2);
}

#define CASE(f)     cmocka_unit_test_setup_teardown(f, setup, teardown)
#define CASE_DIR(f) cmocka_unit_test_setup_teardown(f, setup_dir, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(rf_write__bad_shape__bad_tablet),
        CASE(rf_write__known_column_twice__names_it),
        CASE(rf_write__bad_column__names_it),
        CASE(rf_write__bad_name__says_which),
        CASE(rf_write__bad_values__names_column_and_row),
        CASE(rf_write__other_type__names_both),
        CASE(rf_write_batch__second_tablet_bad__first_leaves_nothing),
        CASE(rf_write__keys__to_4096_bytes_and_16_tags),
        CASE(rf_write__columns__to_65535),
        CASE(rf_write_batch__65535_tablets__one_batch),
        CASE(rf_write__larger_than_a_segment__entry_too_large),
        CASE(rf_write__blob_of_20_mib__comes_back),
        CASE(rf_write__older_than_ttl__names_the_row),
        CASE(rf_write__no_auto_create__names_what_is_missing),
        CASE(rf_write__devices_of_two_regions__spans_regions),
        CASE(rf_open__read_only__reads_and_refuses),
        CASE(rf_write__log_full__rejected_and_trimmed),
        CASE_DIR(rf_open__options_out_of_range__named),
        CASE_DIR(rf_open__no_directory_of_ours__says_why),
        CASE(rf_open__in_use__names_the_owner),
        CASE(rf_open__newer_catalog_or_damage__refuses),
        CASE_DIR(rf_open__unprivileged__eacces),
        CASE(rf_scan_open__bad_options__says_which),
        CASE(rf_table__bad_changes__refused),
        CASE(rf_lease__wrong_mode_or_numbers__einval),
        CASE(rf_write__extremes__bit_for_bit),
        CASE(rf__after_fork__the_child_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
