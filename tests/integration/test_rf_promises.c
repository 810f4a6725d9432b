/* Small sentences of the public header, each held to its word. */
#include <ringfence/ringfence.h>

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    char base[64], dir[96];
    struct rf_engine *e;
};

static int open_flags(struct fixture *f, uint32_t flags, struct rf_engine **e,
                      struct rf_error *error)
{
    struct rf_options o;
    rf_options_init(&o);
    o.flags = flags;
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 8 << 20;
    o.sync = RF_SYNC_OFF;
    o.log_level = RF_LOG_OFF;
    return rf_open(f->dir, &o, e, error);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    strcpy(f->base, "/var/tmp/rf-promises-XXXXXX");
    assert_non_null(mkdtemp(f->base));
    snprintf(f->dir, sizeof f->dir, "%s/data", f->base);
    assert_int_equal(open_flags(f, RF_CREATE, &f->e, NULL), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[128];
    assert_int_equal(rf_close(f->e), 0);
    snprintf(command, sizeof command, "rm -rf %s", f->base);
    free(f);
    return system(command);
}

static int write_v(struct fixture *f, const char *table, int64_t time, int64_t value,
                   struct rf_error *error)
{
    struct rf_column c = {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = &value};
    struct rf_tablet t = {
        .size = sizeof t, .table = table, .rows = 1, .columns = 1, .times = &time, .column = &c};
    return rf_write(f->e, &t, error);
}

/* ---- codes and names ---- */

static void rf_strerror__every_number__one_line_and_a_name(void **state)
{
    (void)state;
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", RF_VERSION_MAJOR, RF_VERSION_MINOR,
             RF_VERSION_PATCH);
    assert_string_equal(rf_version(), version);
    for (int code = -20000; code <= 20000; code++) {
        const char *text = rf_strerror(code), *name = rf_code_name(code);
        assert_true(text != NULL && text[0] != '\0' && strchr(text, '\n') == NULL);
        assert_true(name != NULL && name[0] != '\0' && strchr(name, ' ') == NULL);
        assert_ptr_equal(text, rf_strerror(-code)); /* static, whatever the sign */
        int retryable = rf_code_is_retryable(code);
        assert_true(retryable == 0 || retryable == 1);
    }
    assert_string_equal(rf_code_name(-RF_CODE_NO_TABLE), "NO_TABLE");
    assert_string_equal(rf_code_name(-ENOSPC), "ENOSPC");
    static const int again[] = {RF_CODE_WRITE_REJECT, RF_CODE_LEASE_FENCED_RETRY, RF_CODE_UNKNOWN,
                                RF_CODE_WAL_ERROR, RF_CODE_SCHEMA_CHANGED};
    static const int never[] = {RF_CODE_BAD_TABLET, RF_CODE_TYPE_MISMATCH, RF_CODE_ENTRY_TOO_LARGE,
                                RF_CODE_CORRUPT, RF_CODE_OUT_OF_TTL};
    for (size_t i = 0; i < sizeof again / sizeof again[0]; i++)
        if (!rf_code_is_retryable(-again[i])) fail_msg("%d is not retryable", again[i]);
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        if (rf_code_is_retryable(-never[i])) fail_msg("%d is retryable", never[i]);
    for (uint32_t i = 0; i < RF_STAGES; i++)
        assert_non_null(rf_stage_name(i));
    assert_null(rf_stage_name(RF_STAGES));
    assert_null(rf_stage_name(UINT32_MAX));
}

/* ---- what is written, and when ---- */

/* Outputs on success only, the error on failure only. */
static void rf_calls__outputs__on_success_only(void **state)
{
    struct fixture *f = *state;
    struct rf_error error, untouched;
    memset(&untouched, 0x5a, sizeof untouched);
    error = untouched;
    assert_int_equal(write_v(f, "t", 1, 1, &error), 0);
    struct rf_delete_options d;
    rf_delete_options_init(&d);
    d.table = "t";
    assert_int_equal(rf_delete(f->e, &d, &error), 0);
    struct rf_scan_options s;
    struct rf_cursor *cursor;
    rf_scan_options_init(&s);
    s.table = "t";
    assert_int_equal(rf_scan_open(f->e, &s, &cursor, &error), 0);
    rf_scan_close(cursor);
    uint64_t rows = 77;
    assert_int_equal(rf_count(f->e, &s, &rows, &error), 0);
    assert_int_equal(rows, 0);
    assert_int_equal(rf_table_set_ttl(f->e, "t", 0, &error), 0);
    assert_int_equal(rf_resume(f->e, &error), 0);
    assert_memory_equal(&error, &untouched, sizeof error);

    int mark;
    rows = 77;
    s.table = "none";
    cursor = (struct rf_cursor *)(void *)&mark;
    assert_int_equal(rf_scan_open(f->e, &s, &cursor, &error), -RF_CODE_NO_TABLE);
    assert_ptr_equal(cursor, &mark);
    assert_int_equal(error.code, -RF_CODE_NO_TABLE);
    assert_true(error.tablet == RF_NONE && error.column == RF_NONE && error.row == RF_NONE);
    assert_int_equal(rf_count(f->e, &s, &rows, &error), -RF_CODE_NO_TABLE);
    assert_int_equal(rows, 77);
    struct rf_engine *e = (struct rf_engine *)(void *)&mark;
    assert_int_equal(open_flags(f, RF_CREATE | RF_READ_ONLY, &e, &error), -RF_CODE_IN_USE);
    assert_ptr_equal(e, &mark);
    uint64_t position = 77;
    struct rf_trim_options t;
    rf_trim_options_init(&t);
    assert_int_equal(rf_trim(f->e, &t, &position), -EINVAL); /* by nothing */
    assert_int_equal(position, 77);
}

static void rf_close__null__is_allowed(void **state)
{
    (void)state;
    assert_int_equal(rf_close(NULL), 0);
    rf_scan_close(NULL);
    rf_queue_close(NULL);
}

static void rf_open__exclusive__only_what_is_new(void **state)
{
    struct fixture *f = *state;
    struct rf_engine *e;
    struct rf_error error;
    assert_int_equal(write_v(f, "t", 1, 1, NULL), 0);
    assert_int_equal(rf_close(f->e), 0);
    assert_int_equal(open_flags(f, RF_CREATE | RF_EXCLUSIVE, &e, &error), -EEXIST);
    assert_int_equal(open_flags(f, 0, &f->e, &error), 0); /* it was left as it was, and is closed */
    struct rf_stats s = {.size = sizeof s};
    assert_int_equal(rf_stats(f->e, &s), 0);
    assert_int_equal(s.replayed_batches, 1);
    assert_true(s.opened_clean);
}

/* ---- tables ---- */

struct seen {
    char text[256];
    uint32_t left;
};
static int note_table(void *ctx, const struct rf_table_info *info)
{
    struct seen *s = ctx;
    size_t at = strlen(s->text);
    at += (size_t)snprintf(s->text + at, sizeof s->text - at, "%s%s(", info->name,
                           info->tree ? "*" : "");
    for (uint32_t i = 0; i < info->column_count; i++)
        at += (size_t)snprintf(s->text + at, sizeof s->text - at, "%s%s", i > 0 ? "," : "",
                               info->columns[i].name);
    snprintf(s->text + at, sizeof s->text - at, ")%lld ", (long long)info->ttl);
    return --s->left == 0 ? -4711 : 0;
}

static void rf_tables__by_name__until_told_to_stop(void **state)
{
    struct fixture *f = *state;
    const struct rf_column_def columns[] = {
        {"z", RF_DOUBLE, RF_FIELD}, {"host", RF_STRING, RF_TAG}, {"a", RF_INT32, RF_FIELD}};
    assert_int_equal(rf_table_create(f->e, "b", columns, 3, 5, NULL), 0);
    assert_int_equal(rf_table_create(f->e, "\xc3\xa4", columns, 1, -3, NULL), 0);
    assert_int_equal(rf_table_create(f->e, "B", NULL, 0, 0, NULL), 0);
    assert_int_equal(rf_series_create(f->e, "root.db.d", "m", RF_TEXT, NULL), 0);
    assert_int_equal(rf_table_rename_column(f->e, "b", "z", "y", NULL), 0);
    struct seen all = {.left = 100}, two = {.left = 2};
    assert_int_equal(rf_tables(f->e, note_table, &all), 0);
    assert_string_equal(all.text, "B()0 b(y,host,a)5 root.db*()0 \xc3\xa4(z)0 ");
    assert_int_equal(rf_tables(f->e, note_table, &two), -4711);
    assert_string_equal(two.text, "B()0 b(y,host,a)5 ");
}

/* ---- rows ---- */

static void rf_delete__written_later__stays(void **state)
{
    struct fixture *f = *state;
    struct rf_delete_options d;
    struct rf_scan_options s;
    struct rf_cursor *cursor;
    struct rf_tablet got;
    uint64_t rows;
    for (int64_t time = 0; time < 10; time++)
        assert_int_equal(write_v(f, "t", time, 1, NULL), 0);
    rf_delete_options_init(&d);
    d.table = "t";
    d.time_from = 3;
    d.time_to = 6; /* both inclusive */
    assert_int_equal(rf_delete(f->e, &d, NULL), 0);
    assert_int_equal(write_v(f, "t", 5, 2, NULL), 0);
    rf_scan_options_init(&s);
    s.table = "t";
    assert_int_equal(rf_scan_open(f->e, &s, &cursor, NULL), 0);
    assert_int_equal(rf_scan_next(cursor, &got), 1);
    static const int64_t left[] = {0, 1, 2, 5, 7, 8, 9};
    assert_int_equal(got.rows, 7);
    assert_memory_equal(got.times, left, sizeof left);
    assert_int_equal(((const int64_t *)got.column[0].values)[3], 2);
    rf_scan_close(cursor);
    s.limit = 0;
    assert_int_equal(rf_count(f->e, &s, &rows, NULL), 0);
    assert_int_equal(rows, 0);
    s.limit = 5;
    s.time_from = 2;
    s.time_to = 8;
    assert_int_equal(rf_count(f->e, &s, &rows, NULL), 0);
    assert_int_equal(rows, 4);
    s.time_from = 9;
    assert_int_equal(rf_count(f->e, &s, &rows, NULL), 0); /* from behind to */
    assert_int_equal(rows, 0);
}

/* A column that was dropped and comes again has none of its old cells, in either model. */
static void rf_table_drop_column__made_again__empty(void **state)
{
    struct fixture *f = *state;
    struct rf_scan_options s;
    struct rf_cursor *cursor;
    struct rf_tablet got;
    int64_t time = 1;
    struct rf_column c = {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = &time};
    struct rf_tablet t = {.size = sizeof t,
                          .device = "root.db.d",
                          .rows = 1,
                          .columns = 1,
                          .times = &time,
                          .column = &c};
    assert_int_equal(write_v(f, "t", 1, 1, NULL), 0);
    assert_int_equal(rf_table_drop_column(f->e, "t", "v", NULL), 0);
    assert_int_equal(write_v(f, "t", 2, 2, NULL), 0);
    assert_int_equal(rf_write(f->e, &t, NULL), 0);
    assert_int_equal(rf_series_drop(f->e, "root.db.d", "v", NULL), 0);
    time = 2;
    assert_int_equal(rf_write(f->e, &t, NULL), 0);
    for (int again = 0; again < 2; again++) {
        rf_scan_options_init(&s);
        s.table = "t";
        assert_int_equal(rf_scan_open(f->e, &s, &cursor, NULL), 0);
        assert_int_equal(rf_scan_next(cursor, &got), 1);
        assert_int_equal(got.rows, 2); /* a row of a table is there by its time */
        assert_int_equal(got.column[0].nulls[0] & 3, 1);
        rf_scan_close(cursor);
        s.table = NULL;
        s.device = "root.db.d";
        assert_int_equal(rf_scan_open(f->e, &s, &cursor, NULL), 0);
        assert_int_equal(rf_scan_next(cursor, &got), 1);
        assert_int_equal(got.rows, 1); /* one of a device by its cells */
        assert_int_equal(got.times[0], 2);
        rf_scan_close(cursor);
        assert_int_equal(rf_close(f->e), 0);
        assert_int_equal(open_flags(f, RF_CREATE, &f->e, NULL), 0);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rf_strerror__every_number__one_line_and_a_name),
        cmocka_unit_test(rf_close__null__is_allowed),
        CASE(rf_calls__outputs__on_success_only),
        CASE(rf_open__exclusive__only_what_is_new),
        CASE(rf_tables__by_name__until_told_to_stop),
        CASE(rf_delete__written_later__stays),
        CASE(rf_table_drop_column__made_again__empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
