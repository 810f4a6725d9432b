/* What a scan hands out: how much at once, and what an error leaves of it. */
#include "api/handle.h"
#include "engine/engine_impl.h"
#include "engine/scan.h"
#include "tests/lib/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
    char dir[TEMPDIR_BYTES];
    struct rf_engine *e;
    struct rf_error error;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    tempdir_make(f->dir);
    struct rf_options o;
    rf_options_init(&o);
    o.segment_bytes = 8 << 20;
    o.memory_bytes = 80 << 20;
    o.sync = RF_SYNC_OFF;
    o.lease = RF_LEASE_OFF;
    int rc = rf_open(f->dir, &o, &f->e, &f->error);
    if (rc != 0) fail_msg("rf_open: %d %s", rc, f->error.text);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(rf_close(f->e), 0);
    tempdir_remove(f->dir);
    free(f);
    return 0;
}

static struct rf_cursor *scan(struct fixture *f, const char *table, bool descending, uint64_t limit)
{
    struct rf_scan_options s;
    struct rf_cursor *cursor;
    rf_scan_options_init(&s);
    s.table = table;
    s.descending = descending;
    s.limit = limit;
    int rc = rf_scan_open(f->e, &s, &cursor, &f->error);
    if (rc != 0) fail_msg("rf_scan_open: %d %s", rc, f->error.text);
    return cursor;
}

/* ---- how much at once ---- */

enum { BLOB = 1 << 20, BLOBS = 20, HUGE = 6 << 20 };

static void write_blobs(struct fixture *f)
{
    uint8_t *blob = malloc(HUGE);
    assert_non_null(blob);
    for (int64_t i = 0; i < BLOBS; i++) { /* one of them is larger than a chunk */
        uint32_t bytes = i == 7 ? HUGE : BLOB;
        memset(blob, (int)i, bytes);
        const uint32_t offsets[] = {0, bytes};
        struct rf_column c = {
            .name = "b", .type = RF_BLOB, .category = RF_FIELD, .values = blob, .offsets = offsets};
        struct rf_tablet t = {
            .size = sizeof t, .table = "blobs", .rows = 1, .columns = 1, .times = &i, .column = &c};
        int rc = rf_write(f->e, &t, &f->error);
        if (rc != 0) fail_msg("%d %s", rc, f->error.text);
    }
    free(blob);
}

static void check_blobs(struct fixture *f, bool descending, uint64_t limit)
{
    struct rf_cursor *cursor = scan(f, "blobs", descending, limit);
    struct rf_tablet t;
    int64_t rows = 0;
    int rc;
    while ((rc = rf_scan_next(cursor, &t)) == 1) {
        const struct rf_column *b = &t.column[0];
        assert_true(t.rows == 1 || b->offsets[t.rows] <= SCAN_CHUNK_BYTES);
        for (uint32_t r = 0; r < t.rows; r++, rows++) {
            int64_t i = descending ? BLOBS - 1 - rows : rows;
            const uint8_t *value = (const uint8_t *)b->values + b->offsets[r];
            assert_int_equal(t.times[r], i);
            assert_int_equal(b->offsets[r + 1] - b->offsets[r], i == 7 ? HUGE : BLOB);
            assert_int_equal(value[0], i);
            assert_memory_equal(value, value + 1, b->offsets[r + 1] - b->offsets[r] - 1);
        }
    }
    assert_int_equal(rc, 0);
    assert_int_equal(rows, limit < BLOBS ? limit : BLOBS);
    rf_scan_close(cursor);
}

static void rf_scan_next__large_values__few_at_once(void **state)
{
    write_blobs(*state);
    check_blobs(*state, false, UINT64_MAX);
    check_blobs(*state, true, UINT64_MAX);
    check_blobs(*state, false, 6); /* ends inside of a chunk that was held back */
}

/* ---- errors ---- */

static void write_rows(struct fixture *f, uint32_t rows)
{
    int64_t *v = calloc(rows, sizeof *v);
    assert_non_null(v);
    for (uint32_t i = 0; i < rows; i++)
        v[i] = i;
    struct rf_column c[] = {
        {.name = "host", .type = RF_STRING, .category = RF_TAG},
        {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = v},
    };
    struct rf_tablet t = {
        .size = sizeof t, .table = "rows", .rows = rows, .columns = 2, .times = v, .column = c};
    int rc = rf_write(f->e, &t, &f->error);
    if (rc != 0) fail_msg("%d %s", rc, f->error.text);
    free(v);
}

/* The lease lapses inside of a call and is there again by the next one: the rows that the call had
 * taken were never handed out, so going on would leave a hole. */
static void rf_scan_next__after_an_error__same_error(void **state)
{
    struct fixture *f = *state;
    write_rows(f, 5000);
    struct rf_cursor *cursor = scan(f, "rows", false, UINT64_MAX);
    struct rf_tablet t;
    assert_int_equal(rf_scan_next(cursor, &t), 1);
    lease_publish_deadline(&f->e->words, 1);
    assert_int_equal(rf_scan_next(cursor, &t), -RF_CODE_LEASE_FENCED);
    lease_publish_deadline(&f->e->words, LEASE_OFF);
    assert_int_equal(rf_scan_next(cursor, &t), -RF_CODE_LEASE_FENCED);
    rf_scan_close(cursor);
}

/* Whatever allocation fails: all rows in order, or an error that stays. */
static void rf_scan__each_allocation_fails__whole_or_an_error(void **state)
{
    struct fixture *f = *state;
    write_rows(f, 3000);
    for (uint64_t k = 1;; k++) {
        struct rf_scan_options s;
        struct rf_cursor *cursor;
        struct rf_tablet t;
        int64_t rows = 0;
        rf_scan_options_init(&s);
        s.table = "rows";
        uint64_t before = alloc_calls();
        alloc_fail_at(k);
        int rc = rf_scan_open(f->e, &s, &cursor, &f->error);
        if (rc == 0) {
            while ((rc = rf_scan_next(cursor, &t)) == 1)
                for (uint32_t r = 0; r < t.rows; r++, rows++)
                    assert_int_equal(t.times[r], rows);
            if (rc != 0) assert_int_equal(rf_scan_next(cursor, &t), rc);
            rf_scan_close(cursor);
        }
        bool failed = alloc_calls() - before >= k;
        alloc_fail_at(0);
        assert_true(rc == 0 ? rows == 3000 : rc == -ENOMEM && failed);
        if (!failed) break;
        assert_true(k < 1000);
    }
}

/* ---- what it resolved ---- */

static void rf_scan_next__tag_renamed__schema_changed(void **state)
{
    struct fixture *f = *state;
    write_rows(f, 3000);
    struct rf_cursor *cursor = scan(f, "rows", false, UINT64_MAX);
    struct rf_tablet t;
    assert_int_equal(rf_scan_next(cursor, &t), 1);
    assert_string_equal(t.column[0].name, "host");
    assert_int_equal(rf_table_rename_column(f->e, "rows", "host", "node", &f->error), 0);
    assert_int_equal(rf_scan_next(cursor, &t), -RF_CODE_SCHEMA_CHANGED);
    rf_scan_close(cursor);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(rf_scan_next__large_values__few_at_once),
        CASE(rf_scan_next__after_an_error__same_error),
        CASE(rf_scan__each_allocation_fails__whole_or_an_error),
        CASE(rf_scan_next__tag_renamed__schema_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
