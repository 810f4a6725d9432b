/* Callers that mean no good, or count wrong: each gets a code, and nothing is left behind. */
#include "api/handle.h"
#include "engine/engine_impl.h"
#include "tests/lib/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
    char dir[TEMPDIR_BYTES];
    struct rf_engine *e;
    struct rf_error error;
};

static void open_with(struct fixture *f, bool auto_create)
{
    struct rf_options o;
    rf_options_init(&o);
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 8 << 20;
    o.sync = RF_SYNC_OFF;
    o.lease = RF_LEASE_OFF;
    o.auto_create = auto_create;
    int rc = rf_open(f->dir, &o, &f->e, &f->error);
    if (rc != 0) fail_msg("rf_open: %d %s", rc, f->error.text);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    tempdir_make(f->dir);
    open_with(f, true);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    engine_step_seam = NULL;
    assert_int_equal(rf_close(f->e), 0);
    tempdir_remove(f->dir);
    free(f);
    return 0;
}

static const int64_t ONE = 1;

static struct rf_tablet one_row(const char *table, const struct rf_column *c, uint32_t columns)
{
    return (struct rf_tablet){.size = sizeof(struct rf_tablet),
                              .table = table,
                              .rows = 1,
                              .columns = columns,
                              .times = &ONE,
                              .column = c};
}

static int write_v(struct fixture *f, const char *table, const char *device)
{
    static const double v = 1;
    struct rf_column c = {.name = "v", .type = RF_DOUBLE, .category = RF_FIELD, .values = &v};
    struct rf_tablet t = one_row(table, &c, 1);
    t.device = device;
    return rf_write(f->e, &t, &f->error);
}

/* ---- sizes ---- */

/* Many tablets over the same arrays: 4.5 GB of keys out of 70 kB. */
static void engine_write__keys_beyond_4_gib__entry_too_large(void **state)
{
    struct fixture *f = *state;
    enum { ROWS = 17, VALUE = 4000, TABLETS = 65535 };
    static char tags[ROWS * VALUE];
    static int64_t times[ROWS];
    uint32_t offsets[ROWS + 1];
    for (uint32_t r = 0; r <= ROWS; r++) {
        offsets[r] = r * VALUE;
        if (r < ROWS) memset(tags + r * VALUE, 'a' + (int)r, VALUE);
    }
    struct rf_column c = {
        .name = "host", .type = RF_STRING, .category = RF_TAG, .values = tags, .offsets = offsets};
    struct rf_tablet *t = calloc(TABLETS, sizeof *t);
    assert_non_null(t);
    for (uint32_t i = 0; i < TABLETS; i++) {
        t[i] = one_row("k", &c, 1);
        t[i].rows = ROWS;
        t[i].times = times;
    }
    assert_int_equal(rf_write_batch(f->e, t, TABLETS, &f->error), -RF_CODE_ENTRY_TOO_LARGE);
    struct rf_stats s = {.size = sizeof s};
    assert_int_equal(rf_stats(f->e, &s), 0);
    assert_int_equal(s.tables, 0);
    assert_int_equal(s.devices, 0);
    free(t);
}

/* Refused by its rows alone, before any of them is looked at. */
static void engine_write__more_rows_than_a_segment__entry_too_large(void **state)
{
    struct fixture *f = *state;
    enum { TABLETS = 1000, ROWS = 1 << 16 };
    static int64_t times[ROWS];
    struct rf_tablet *t = calloc(TABLETS, sizeof *t);
    assert_non_null(t);
    for (uint32_t i = 0; i < TABLETS; i++) {
        t[i] = one_row("r", NULL, 0);
        t[i].rows = ROWS;
        t[i].times = times;
    }
    assert_int_equal(rf_write_batch(f->e, t, TABLETS, &f->error), -RF_CODE_ENTRY_TOO_LARGE);
    assert_int_equal(f->error.tablet, 2); /* 3 * 65,536 * 8 bytes are more than 1 MiB */
    free(t);
}

static void engine_write__65535_tablets_of_one_row__all_there(void **state)
{
    struct fixture *f = *state;
    /* A record has 32 + 40 + 16 + 8 bytes and more a tablet: about 6 MB for all. */
    assert_int_equal(rf_close(f->e), 0);
    struct rf_options o;
    tempdir_remove(f->dir);
    tempdir_make(f->dir);
    rf_options_init(&o);
    o.segment_bytes = 16 << 20;
    o.memory_bytes = 80 << 20;
    o.sync = RF_SYNC_OFF;
    assert_int_equal(rf_open(f->dir, &o, &f->e, &f->error), 0);
    enum { TABLETS = 65535, DEVICES = 251 };
    struct rf_tablet *t = calloc(TABLETS, sizeof *t);
    int64_t *v = calloc(TABLETS, sizeof *v), *times = calloc(TABLETS, sizeof *times);
    struct rf_column *c = calloc(2 * TABLETS, sizeof *c);
    static const uint32_t offsets[] = {0, 4};
    static char names[DEVICES][5];
    assert_true(t != NULL && v != NULL && times != NULL && c != NULL);
    for (uint32_t i = 0; i < TABLETS; i++) {
        v[i] = i;
        times[i] = i / (2 * DEVICES); /* each cell twice: the later tablet wins */
        snprintf(names[i % DEVICES], sizeof names[0], "%04u", i % DEVICES);
        c[2 * i] = (struct rf_column){.name = "host",
                                      .type = RF_STRING,
                                      .category = RF_TAG,
                                      .values = names[i % DEVICES],
                                      .offsets = offsets};
        c[2 * i + 1] = (struct rf_column){
            .name = "v", .type = RF_INT64, .category = RF_FIELD, .values = &v[i]};
        t[i] = one_row("many", &c[2 * i], 2);
        t[i].times = &times[i];
    }
    int rc = rf_write_batch(f->e, t, TABLETS, &f->error);
    if (rc != 0) fail_msg("%d %s", rc, f->error.text);
    struct rf_scan_options s;
    struct rf_cursor *cursor;
    struct rf_tablet got;
    uint64_t rows = 0;
    rf_scan_options_init(&s);
    s.table = "many";
    assert_int_equal(rf_scan_open(f->e, &s, &cursor, &f->error), 0);
    while ((rc = rf_scan_next(cursor, &got)) == 1)
        for (uint32_t r = 0; r < got.rows; r++, rows++) {
            uint32_t device =
                (uint32_t)strtoul((const char[5]){((const char *)got.column[0].values)[0],
                                                  ((const char *)got.column[0].values)[1],
                                                  ((const char *)got.column[0].values)[2],
                                                  ((const char *)got.column[0].values)[3], 0},
                                  NULL, 10);
            uint64_t last = (uint64_t)got.times[r] * 2 * DEVICES + DEVICES + device;
            if (last >= TABLETS) last -= DEVICES;
            assert_int_equal(((const int64_t *)got.column[1].values)[r], last);
        }
    assert_int_equal(rc, 0);
    rf_scan_close(cursor);
    uint64_t want = 0;
    for (uint32_t d = 0; d < DEVICES; d++)
        want += (TABLETS - 1 - d) / (2 * DEVICES) + 1;
    assert_int_equal(rows, want);
    free(t);
    free(v);
    free(times);
    free(c);
}

static void engine_delete__more_columns_than_a_table__limit(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(write_v(f, "d", NULL), 0);
    enum { COLUMNS = 65536 };
    const char **names = calloc(COLUMNS, sizeof *names);
    assert_non_null(names);
    for (uint32_t i = 0; i < COLUMNS; i++)
        names[i] = "v";
    struct rf_delete_options o;
    rf_delete_options_init(&o);
    o.table = "d";
    o.columns = names;
    o.column_count = COLUMNS;
    assert_int_equal(rf_delete(f->e, &o, &f->error), -RF_CODE_LIMIT);
    free(names);
}

/* ---- names, types ---- */

static void rf_table_create__type_beyond_a_byte__refused(void **state)
{
    struct fixture *f = *state;
    struct rf_column_def c = {.name = "v", .type = (enum rf_type)257, .category = RF_FIELD};
    assert_int_equal(rf_table_create(f->e, "t", &c, 1, 0, &f->error), -RF_CODE_SEMANTIC_ERROR);
    c = (struct rf_column_def){
        .name = "v", .type = RF_INT32, .category = (enum rf_category)(256 + RF_FIELD)};
    assert_int_equal(rf_table_create(f->e, "t", &c, 1, 0, &f->error), -RF_CODE_SEMANTIC_ERROR);
    assert_int_equal(
        rf_series_create(f->e, "root.db.d", "v", (enum rf_type)(256 + RF_INT32), &f->error),
        -RF_CODE_SEMANTIC_ERROR);
    assert_int_equal(rf_table_create(f->e, "t", NULL, 0, 0, &f->error), 0); /* it was not made */
}

static void engine_write__device_path__refused_or_taken(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {
        "",
        "root",
        "root.",
        "root.db",
        "root.db.",
        "root..d",
        "root.db..d",
        "root.db.d.",
        "Root.db.d",
        "db.d.s",
        "root.db.\x01",
        "root.db.a\x7f",
        "root.db.\xff",
        "root.\xc0\x80.d",
        "root.db.d\xc2\x85.e",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (write_v(f, NULL, bad[i]) != -RF_CODE_BAD_NAME) fail_msg("\"%s\" was taken", bad[i]);
        if (rf_series_create(f->e, bad[i], "v", RF_DOUBLE, &f->error) != -RF_CODE_BAD_NAME)
            fail_msg("\"%s\" was made", bad[i]);
    }
    assert_int_equal(write_v(f, NULL, "root.db.a\nb"), -RF_CODE_BAD_NAME);
    assert_null(strchr(f->error.text, '\n')); /* one line, as promised */
    /* A node of a path is a name: 255 bytes at most. */
    char path[600];
    memcpy(path, "root.db.", 8);
    memset(path + 8, 'n', 256);
    path[8 + 256] = '\0';
    assert_int_equal(write_v(f, NULL, path), -RF_CODE_BAD_NAME);
    path[8 + 255] = '\0';
    assert_int_equal(write_v(f, NULL, path), 0);
    path[8 + 255] = '.';
    memset(path + 8 + 256, 'm', 255);
    path[8 + 256 + 255] = '\0';
    assert_int_equal(write_v(f, NULL, path), 0);
    assert_int_equal(write_v(f, NULL, "root.db.\xc3\xa4.\xf0\x9f\x98\x80"), 0);
    struct rf_stats s = {.size = sizeof s};
    assert_int_equal(rf_stats(f->e, &s), 0);
    assert_int_equal(s.tables, 1);
    assert_int_equal(s.devices, 3);
}

static void engine_write__name_of_the_other_model__refused(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(write_v(f, "root.clash", NULL), 0);
    assert_int_equal(write_v(f, NULL, "root.clash.d"), -RF_CODE_SEMANTIC_ERROR);
    assert_int_equal(write_v(f, NULL, "root.other.d"), 0);
    assert_int_equal(write_v(f, "root.other", NULL), -RF_CODE_SEMANTIC_ERROR);
    /* Both in one batch, neither there before: nothing is made. */
    double v = 1;
    struct rf_column c = {.name = "v", .type = RF_DOUBLE, .category = RF_FIELD, .values = &v};
    struct rf_tablet t[2] = {one_row("root.both", &c, 1), one_row(NULL, &c, 1)};
    t[1].device = "root.both.d";
    assert_true(rf_write_batch(f->e, t, 2, &f->error) < 0);
    struct rf_stats s = {.size = sizeof s};
    assert_int_equal(rf_stats(f->e, &s), 0);
    assert_int_equal(s.tables, 2);
}

/* Two tablets that each bring a TAG of their own: where a device lies depends on both. */
static void engine_write__new_tags_of_two_tablets__refused_before_they_are_made(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(rf_close(f->e), 0);
    tempdir_remove(f->dir);
    tempdir_make(f->dir);
    struct rf_options o;
    rf_options_init(&o);
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 8 << 20;
    o.regions = 8;
    o.sync = RF_SYNC_OFF;
    assert_int_equal(rf_open(f->dir, &o, &f->e, &f->error), 0);
    uint32_t made = 0, refused = 0;
    for (uint32_t i = 0; i < 64; i++) {
        char table[16], value[16];
        snprintf(table, sizeof table, "t%u", i);
        snprintf(value, sizeof value, "%u", i);
        const uint32_t offsets[] = {0, (uint32_t)strlen(value)};
        struct rf_column a = {.name = "a", .type = RF_STRING, .values = value, .offsets = offsets};
        struct rf_column b = a;
        b.name = "b";
        struct rf_tablet t[2] = {one_row(table, &a, 1), one_row(table, &b, 1)};
        int rc = rf_write_batch(f->e, t, 2, &f->error);
        if (rc != 0) assert_int_equal(rc, -RF_CODE_SPANS_REGIONS);
        made += rc == 0;
        refused += rc != 0;
        struct rf_stats s = {.size = sizeof s};
        assert_int_equal(rf_stats(f->e, &s), 0);
        assert_int_equal(s.tables, made);
    }
    assert_true(made > 0 && refused > 0);
}

/* ---- arrays ---- */

/* Offsets that begin anywhere, values of null rows that are not there, one device in two tablets. */
static void engine_write__odd_arrays__bit_for_bit(void **state)
{
    struct fixture *f = *state;
    static const int64_t times[] = {3, 1, 2};
    static const uint32_t text_at[] = {5, 7, 7, 10}, empty_at[] = {9, 9, 9, 9};
    static const uint8_t all = 0xff, second = 0x02;
    static char doubles[1 + 3 * sizeof(double)]; /* their addresses are odd */
    for (int i = 0; i < 3; i++)
        memcpy(doubles + 1 + (size_t)i * sizeof(double), &(double){(double)times[i]},
               sizeof(double));
    static const char host[] = "xxAAA";
    static const uint32_t host_at[] = {2, 3, 4, 5};
    struct rf_column c[] = {
        {.name = "host", .type = RF_STRING, .values = host, .offsets = host_at},
        {.name = "text",
         .type = RF_TEXT,
         .category = RF_FIELD,
         .values = "-----ab?cd",
         .offsets = text_at,
         .nulls = &second},
        {.name = "empty", .type = RF_BLOB, .category = RF_FIELD, .offsets = empty_at},
        {.name = "none", .type = RF_INT32, .category = RF_FIELD},
        {.name = "all", .type = RF_BOOLEAN, .category = RF_FIELD, .nulls = &all},
        {.name = "area", .type = RF_STRING, .category = RF_TAG},
        {.name = "d", .type = RF_DOUBLE, .category = RF_FIELD, .values = doubles + 1},
    };
    struct rf_tablet t[2] = {one_row("odd", c, 7), one_row("odd", c, 7)};
    t[0].rows = t[1].rows = 3;
    t[0].times = t[1].times = times;
    struct rf_column newer[7];
    memcpy(newer, c, sizeof c);
    newer[1].values = "-----AB?CD";
    t[1].column = newer;
    int rc = rf_write_batch(f->e, t, 2, &f->error);
    if (rc != 0) fail_msg("%d %s", rc, f->error.text);
    struct rf_scan_options s;
    struct rf_cursor *cursor;
    struct rf_tablet got;
    rf_scan_options_init(&s);
    s.table = "odd";
    assert_int_equal(rf_scan_open(f->e, &s, &cursor, &f->error), 0);
    assert_int_equal(rf_scan_next(cursor, &got), 1);
    assert_int_equal(got.rows, 3);
    assert_int_equal(got.columns, 7);
    const struct rf_column *text = &got.column[2], *empty = &got.column[3];
    assert_string_equal(text->name, "text");
    assert_int_equal(text->nulls[0] & 7, 1); /* time 1 was row 1 */
    assert_int_equal(text->offsets[3], 5);
    assert_memory_equal(text->values, "?CDAB", 5); /* times 2 and 3, of the later tablet */
    assert_non_null(empty->values);                /* empty, which is not null */
    assert_true(empty->nulls == NULL || (empty->nulls[0] & 7) == 0);
    assert_int_equal(got.column[4].nulls[0] & 7, 7);
    assert_int_equal(got.column[5].nulls[0] & 7, 7);
    for (int i = 0; i < 3; i++)
        assert_true(((const double *)got.column[6].values)[i] == i + 1);
    /* What comes out goes in again. */
    assert_int_equal(rf_write(f->e, &got, &f->error), 0);
    rf_scan_close(cursor);
    uint64_t rows;
    assert_int_equal(rf_count(f->e, &s, &rows, &f->error), 0);
    assert_int_equal(rows, 3);
}

/* ---- the ends of time ---- */

/* Every row back, in order, once, whatever its partition is; and after replay. */
static void engine_write__times_at_their_ends__all_there(void **state)
{
    struct fixture *f = *state;
    static const int64_t intervals[] = {1, 2, 3, INT64_MAX - 1, INT64_MAX};
    static const int64_t times[] = {INT64_MAX,     INT64_MIN, 0, -1, 1, INT64_MAX - 1,
                                    INT64_MIN + 1, -2,        2, -3, 3, INT64_MIN + 2,
                                    INT64_MAX - 2};
    enum { ROWS = sizeof times / sizeof times[0] };
    for (size_t k = 0; k < sizeof intervals / sizeof intervals[0]; k++) {
        for (size_t i = 0; i < ROWS; i++) {
            int64_t q = partition_of(times[i], intervals[k]);
            __int128 first = (__int128)q * intervals[k];
            assert_true(first <= times[i] && times[i] < first + intervals[k]);
        }
        assert_int_equal(rf_close(f->e), 0);
        tempdir_remove(f->dir);
        tempdir_make(f->dir);
        struct rf_options o;
        rf_options_init(&o);
        o.segment_bytes = 1 << 20;
        o.memory_bytes = 8 << 20;
        o.partition_interval = intervals[k];
        o.lease = RF_LEASE_OFF;
        assert_int_equal(rf_open(f->dir, &o, &f->e, &f->error), 0);
        struct rf_column c = {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = times};
        struct rf_tablet t = one_row("ends", &c, 1);
        t.rows = ROWS;
        t.times = times;
        int rc = rf_write(f->e, &t, &f->error);
        if (rc != 0) fail_msg("%d %s", rc, f->error.text);
        for (int again = 0; again < 2; again++) {
            struct rf_scan_options s;
            struct rf_cursor *cursor;
            struct rf_tablet got;
            rf_scan_options_init(&s);
            s.table = "ends";
            assert_int_equal(rf_scan_open(f->e, &s, &cursor, &f->error), 0);
            assert_int_equal(rf_scan_next(cursor, &got), 1);
            assert_int_equal(got.rows, ROWS);
            for (uint32_t r = 0; r < ROWS; r++) {
                assert_true(got.times[r] == ((const int64_t *)got.column[0].values)[r]);
                assert_true(r == 0 || got.times[r - 1] < got.times[r]);
            }
            assert_int_equal(rf_scan_next(cursor, &got), 0);
            rf_scan_close(cursor);
            assert_int_equal(rf_close(f->e), 0);
            assert_int_equal(rf_open(f->dir, &o, &f->e, &f->error), 0);
        }
    }
}

/* ---- structs of another age ---- */

/* What lies behind the size that the caller gives is not looked at, and not written. */
static void rf_options__of_an_older_caller__defaults_for_the_rest(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(rf_close(f->e), 0);
    struct rf_options o;
    memset(&o, 0xff, sizeof o);
    o.size = offsetof(struct rf_options, segment_bytes);
    o.flags = RF_CREATE;
    assert_int_equal(rf_open(f->dir, &o, &f->e, &f->error), 0);
    struct rf_stats s;
    memset(&s, 0xee, sizeof s);
    s.size = offsetof(struct rf_stats, rejected);
    assert_int_equal(rf_stats(f->e, &s), 0);
    assert_int_equal(s.batches, 0);
    assert_true(s.rejected == 0xeeeeeeeeeeeeeeeeu && s.partition_interval != 0);
    assert_int_equal(s.size, offsetof(struct rf_stats, rejected));
    s.size = 4;
    assert_int_equal(rf_stats(f->e, &s), -EINVAL);
    o.size = 4;
    struct rf_engine *none;
    assert_int_equal(rf_open(f->dir, &o, &none, &f->error), -EINVAL);
}

/* The private copy of the catalog needs a place, and takes another one. */
static void rf_open__read_only_without_a_tmpdir__opens(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(write_v(f, "t", NULL), 0);
    assert_int_equal(rf_close(f->e), 0);
    const char *before = getenv("TMPDIR");
    char *kept = before != NULL ? strdup(before) : NULL;
    assert_int_equal(setenv("TMPDIR", "/nowhere/at/all", 1), 0);
    struct rf_options o;
    rf_options_init(&o);
    o.flags = RF_READ_ONLY;
    int rc = rf_open(f->dir, &o, &f->e, &f->error);
    if (kept != NULL)
        assert_int_equal(setenv("TMPDIR", kept, 1), 0);
    else
        assert_int_equal(unsetenv("TMPDIR"), 0);
    free(kept);
    if (rc != 0) fail_msg("%d %s", rc, f->error.text);
    assert_int_equal(write_v(f, "t", NULL), -RF_CODE_READ_ONLY);
    assert_int_equal(rf_table_drop(f->e, "t", &f->error), -RF_CODE_READ_ONLY);
    struct rf_scan_options s;
    uint64_t rows;
    rf_scan_options_init(&s);
    s.table = "t";
    assert_int_equal(rf_count(f->e, &s, &rows, &f->error), 0);
    assert_int_equal(rows, 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(engine_write__more_rows_than_a_segment__entry_too_large),
        CASE(engine_write__65535_tablets_of_one_row__all_there),
        CASE(engine_write__keys_beyond_4_gib__entry_too_large),
        CASE(engine_delete__more_columns_than_a_table__limit),
        CASE(rf_table_create__type_beyond_a_byte__refused),
        CASE(engine_write__device_path__refused_or_taken),
        CASE(engine_write__name_of_the_other_model__refused),
        CASE(engine_write__new_tags_of_two_tablets__refused_before_they_are_made),
        CASE(engine_write__odd_arrays__bit_for_bit),
        CASE(engine_write__times_at_their_ends__all_there),
        CASE(rf_open__read_only_without_a_tmpdir__opens),
        CASE(rf_options__of_an_older_caller__defaults_for_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
