/* A catalog that is not the log's: opening refuses it, verify names it, and both say the same. */
#include "api/handle.h"
#include "tests/lib/tempdir.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int open_dir(const char *dir, uint32_t flags, struct rf_engine **e, struct rf_error *error)
{
    struct rf_options o;
    rf_options_init(&o);
    o.flags = flags;
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 8 << 20;
    o.log_level = RF_LOG_OFF;
    return rf_open(dir, &o, e, error);
}

/* Two tables with a column each, rows in both, and a delete of a column; a third that has a delete
 * and nothing else. */
static void make_dir(const char *dir)
{
    struct rf_engine *e;
    struct rf_error error;
    int64_t v = 1;
    struct rf_column c = {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = &v};
    struct rf_tablet t = {
        .size = sizeof t, .table = "a", .rows = 1, .columns = 1, .times = &v, .column = &c};
    assert_int_equal(open_dir(dir, RF_CREATE, &e, &error), 0);
    assert_int_equal(rf_write(e, &t, &error), 0);
    t.table = "b";
    assert_int_equal(rf_write(e, &t, &error), 0);
    struct rf_delete_options d;
    const char *const columns[] = {"v"};
    rf_delete_options_init(&d);
    d.table = "a";
    d.columns = columns;
    d.column_count = 1;
    assert_int_equal(rf_delete(e, &d, &error), 0);
    static const struct rf_column_def v_of_c = {"v", RF_INT64, RF_FIELD};
    assert_int_equal(rf_table_create(e, "c", &v_of_c, 1, 0, &error), 0);
    rf_delete_options_init(&d);
    d.table = "c";
    assert_int_equal(rf_delete(e, &d, &error), 0);
    assert_int_equal(rf_close(e), 0);
}

static void change_catalog(const char *dir, const char *sql)
{
    char path[TEMPDIR_BYTES + 32];
    sqlite3 *db;
    char *why = NULL;
    snprintf(path, sizeof path, "%s/catalog.db", dir);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) fail_msg("%s: %s", sql, why);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

struct faults {
    uint32_t count;
    char text[512];
};
static void note_fault(void *ctx, const char *text)
{
    struct faults *f = ctx;
    f->count++;
    snprintf(f->text, sizeof f->text, "%s", text);
}

static void check_refused(const char *sql, const char *word)
{
    char dir[TEMPDIR_BYTES];
    struct rf_engine *e;
    struct rf_error error;
    struct faults faults = {.count = 0};
    enum rf_verdict verdict;
    tempdir_make(dir);
    make_dir(dir);
    assert_int_equal(rf_verify(dir, 1000, note_fault, &faults, &verdict, &error), 0);
    assert_int_equal(verdict, RF_VERDICT_CLEAN);
    change_catalog(dir, sql);
    static const uint32_t flags[] = {RF_CREATE, RF_READ_ONLY};
    for (int i = 0; i < 2; i++) {
        int rc = open_dir(dir, flags[i], &e, &error);
        if (rc != -RF_CODE_WRONG_CATALOG) fail_msg("%s: %d %s", sql, rc, error.text);
        if (strstr(error.text, word) == NULL) fail_msg("%s: \"%s\"", sql, error.text);
    }
    assert_int_equal(rf_verify(dir, 1000, note_fault, &faults, &verdict, &error), 0);
    if (verdict != RF_VERDICT_CORRUPT) fail_msg("%s: verify finds no fault", sql);
    if (strstr(faults.text, word) == NULL) fail_msg("%s: \"%s\"", sql, faults.text);
    tempdir_remove(dir);
}

static void engine_check_record__catalog_of_another_log__refused_and_told(void **state)
{
    (void)state;
    check_refused("DELETE FROM columns WHERE incarnation = 2", "column");
    check_refused("UPDATE columns SET type = 4 WHERE incarnation = 2", "type");
    check_refused("UPDATE columns SET incarnation = 3 - incarnation WHERE incarnation < 3",
                  "another table");
    check_refused("DELETE FROM columns WHERE incarnation = 2;"
                  " DELETE FROM tables WHERE incarnation = 2",
                  "names table 2");
    check_refused("DELETE FROM columns WHERE incarnation = 3;"
                  " DELETE FROM tables WHERE incarnation = 3",
                  "names table 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_check_record__catalog_of_another_log__refused_and_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
