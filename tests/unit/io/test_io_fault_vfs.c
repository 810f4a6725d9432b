/* SQLite in the fault double: what it has committed is there after a crash at every point. */
#include "io/fault.h"
#include "tests/lib/fault_vfs.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#define COMMITS 12

struct mode {
    const char *locking, *journal, *synchronous;
};
static const struct mode delete_extra = {"NORMAL", "DELETE", "EXTRA"};
static const struct mode delete_full = {"NORMAL", "DELETE", "FULL"};
static const struct mode truncate_full = {"EXCLUSIVE", "TRUNCATE", "FULL"};
static const struct mode truncate_off = {"EXCLUSIVE", "TRUNCATE", "OFF"};
/* In exclusive locking SQLite keeps the journal and cuts it, also where it is to delete it. */
static const struct mode exclusive_extra = {"EXCLUSIVE", "DELETE", "EXTRA"};

static sqlite3 *open_db(const char *vfs, const struct mode *mode)
{
    sqlite3 *db;
    char sql[256];
    assert_int_equal(
        sqlite3_open_v2("dir/catalog.db", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs),
        SQLITE_OK);
    snprintf(sql, sizeof sql,
             "PRAGMA locking_mode=%s; PRAGMA journal_mode=%s; PRAGMA synchronous=%s;",
             mode->locking, mode->journal, mode->synchronous);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static int run(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

/* One number, -1 when the statement can't be run (no such table). */
static int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement;
    int64_t value = -1;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return value;
}

static void assert_sound(sqlite3 *db)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
}

/* An environment with a recorded story: mark n says that commit n was acknowledged. Commit 0 makes
 * the table, commit n > 0 puts row n and a page of filling in, and changes all earlier rows. */
static struct io_env *make_story(const struct mode *mode)
{
    const struct fault_options options = {.record = true};
    struct io_env *env;
    assert_int_equal(fault_env_open(&options, &env), 0);
    assert_int_equal(io_mkdir(env, "dir"), 0);
    assert_int_equal(io_sync_dir(env, "."), 0);
    fault_vfs_register("story", env);
    sqlite3 *db = open_db("story", mode);
    assert_int_equal(run(db, "CREATE TABLE t (id INTEGER PRIMARY KEY, seen INT, filling BLOB)"),
                     SQLITE_OK);
    fault_mark(env, 0);
    for (int i = 1; i <= COMMITS; i++) {
        char sql[256];
        snprintf(sql, sizeof sql,
                 "BEGIN; INSERT INTO t VALUES (%d, 0, zeroblob(3000)); UPDATE t SET seen = %d; "
                 "COMMIT;",
                 i, i);
        assert_int_equal(run(db, sql), SQLITE_OK);
        fault_mark(env, (uint64_t)i);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    fault_vfs_unregister("story");
    return env;
}

/* The newest acknowledged commit before `at`, -1: none. */
static int64_t acknowledged(struct io_env *env, uint64_t at)
{
    while (at-- > 0)
        if (fault_trace_kind(env, at) == FAULT_EVENT_MARK)
            return (int64_t)fault_trace_mark(env, at);
    return -1;
}

/* The newest commit that a crash leaves. Checks that the database is sound and that each commit is
 * there whole or not at all. */
static int64_t commit_after(struct io_env *env, uint64_t at, fault_choice *choice, void *ctx)
{
    struct io_env *crashed;
    assert_int_equal(fault_crash(env, at, choice, ctx, NULL, &crashed, NULL), 0);
    fault_vfs_register("crashed", crashed);
    sqlite3 *db;
    int64_t rows = -1;
    int rc = sqlite3_open_v2("dir/catalog.db", &db, SQLITE_OPEN_READWRITE, "crashed");
    if (rc == SQLITE_OK) { /* else its name never was durable */
        assert_sound(db);
        rows = number(db, "SELECT count(*) FROM t");
        if (rows > 0) {
            assert_int_equal(number(db, "SELECT max(id) FROM t"), rows);
            assert_int_equal(number(db, "SELECT min(seen) FROM t"), rows);
            assert_int_equal(number(db, "SELECT max(seen) FROM t"), rows);
        }
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    fault_vfs_unregister("crashed");
    io_env_close(crashed);
    return rows;
}

static void check_every_point(const struct mode *mode)
{
    struct io_env *env = make_story(mode);
    uint64_t length = fault_trace_length(env), seed = 1;
    const char *text = getenv("RF_SEED");
    if (text != NULL) seed = strtoull(text, NULL, 0);
    print_message("%s, %s, %s: %" PRIu64 " points, RF_SEED=%" PRIu64 "\n", mode->locking,
                  mode->journal, mode->synchronous, length, seed);
    for (uint64_t at = 0; at <= length; at++) {
        int64_t promised = acknowledged(env, at);
        for (int way = 0; way < 4; way++) { /* all dropped, all kept, and two at random */
            fault_choice *choice = way == 0   ? fault_choice_drop
                                   : way == 1 ? fault_choice_keep
                                              : fault_choice_seeded;
            int64_t found = commit_after(env, at, choice, &seed);
            if (found < promised || found > promised + 1)
                fail_msg("at %" PRIu64 " way %d: commit %" PRId64 " where %" PRId64
                         " was acknowledged",
                         at, way, found, promised);
        }
    }
    io_env_close(env);
}

static void fault_vfs__delete_and_extra__committed_rows_survive_every_crash(void **state)
{
    (void)state;
    check_every_point(&delete_extra);
}

static void fault_vfs__truncate_and_full__committed_rows_survive_every_crash(void **state)
{
    (void)state;
    check_every_point(&truncate_full);
}

/* That the double is as strict as a disk: with less than is needed, something is lost. */
static int64_t lost_with(const struct mode *mode)
{
    struct io_env *env = make_story(mode);
    int64_t lost = 0;
    for (uint64_t at = 0; at <= fault_trace_length(env); at++)
        lost += commit_after(env, at, fault_choice_drop, NULL) < acknowledged(env, at) ? 1 : 0;
    io_env_close(env);
    return lost;
}

static void fault_vfs__too_little_synced__loses_commits(void **state)
{
    (void)state;
    assert_true(lost_with(&delete_full) > 0); /* the journal's removal is not synced */
    assert_true(lost_with(&truncate_off) > 0);
    assert_int_equal(lost_with(&truncate_full), 0);
}

static void fault_vfs__exclusive_and_extra__committed_rows_survive_every_crash(void **state)
{
    (void)state;
    check_every_point(&exclusive_extra);
}

static void fault_vfs__sync_fails__the_commit_is_refused(void **state)
{
    (void)state;
    struct io_env *env = make_story(&truncate_full);
    fault_vfs_register("failing", env);
    sqlite3 *db = open_db("failing", &truncate_full);
    const struct fault_rule rule = {.kind = FAULT_ERROR,
                                    .targets = FAULT_ON_SYNC,
                                    .path = "catalog.db",
                                    .times = 1,
                                    .error = EIO};
    assert_int_equal(fault_add(env, &rule), 0);
    assert_int_equal(run(db, "DELETE FROM t"), SQLITE_IOERR);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), COMMITS);
    fault_clear(env);
    fault_set_space(env, 0);
    assert_int_equal(run(db, "INSERT INTO t VALUES (99, 0, zeroblob(100000))"), SQLITE_FULL);
    fault_set_space(env, UINT64_MAX);
    assert_int_equal(number(db, "SELECT count(*) FROM t"), COMMITS);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    fault_vfs_unregister("failing");
    io_env_close(env);
}

static void fault_vfs__same_story__same_trace(void **state)
{
    (void)state;
    struct io_env *a = make_story(&delete_extra), *b = make_story(&delete_extra);
    assert_int_equal(fault_trace_length(a), fault_trace_length(b));
    for (uint64_t at = 0; at < fault_trace_length(a); at++) {
        char x[512], y[512];
        fault_trace_describe(a, at, x, sizeof x);
        fault_trace_describe(b, at, y, sizeof y);
        assert_string_equal(x, y);
    }
    io_env_close(a);
    io_env_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_vfs__delete_and_extra__committed_rows_survive_every_crash),
        cmocka_unit_test(fault_vfs__truncate_and_full__committed_rows_survive_every_crash),
        cmocka_unit_test(fault_vfs__exclusive_and_extra__committed_rows_survive_every_crash),
        cmocka_unit_test(fault_vfs__too_little_synced__loses_commits),
        cmocka_unit_test(fault_vfs__sync_fails__the_commit_is_refused),
        cmocka_unit_test(fault_vfs__same_story__same_trace),
    };
    return cmocka_run_group_tests_name("fault_vfs", tests, NULL, NULL);
}
