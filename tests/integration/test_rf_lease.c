/* ctest: concurrent
 *
 * The lease from outside: it runs out, it is ended under writers and readers, it comes back; and a
 * stuck host fences itself. What was acknowledged is there, what was answered 536 is not. */
#include "rf_kit.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[KIT_PATH_BYTES];
static struct rf_engine *e;
static _Atomic uint32_t faults;

static void open_with(enum rf_sync sync, uint32_t lanes, int64_t write_wait_ms)
{
    struct rf_options o;
    kit_options(&o);
    o.memory_bytes = 64 << 20;
    o.log_bytes_max = 0;
    o.sync = sync;
    o.lanes = o.regions = lanes;
    o.lease = RF_LEASE_EXTERNAL;
    o.write_wait_ms = write_wait_ms;
    e = kit_open(dir, &o);
}

static void resume(int64_t ttl_ms)
{
    struct rf_lease_request r;
    assert_int_equal(rf_lease_ask(e, &r), 0);
    assert_int_equal(rf_lease_resume(e, &r, ttl_ms), 0);
}

static int setup(void **state)
{
    (void)state;
    kit_dir(dir);
    e = NULL;
    atomic_store(&faults, 0);
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

static struct rf_scan_options all_of(const char *table)
{
    struct rf_scan_options o;
    rf_scan_options_init(&o);
    o.table = table;
    return o;
}

static void rf_lease__runs_out__writes_536_reads_535(void **state)
{
    (void)state;
    open_with(RF_SYNC_ASYNC, 1, 3000);
    resume(60000);
    kit_write(e, "t", "a", 1, 1);
    struct rf_scan_options o = all_of("t");
    struct rf_cursor *c, *idle;
    struct rf_tablet t;
    uint64_t rows;
    struct rf_lease_request r;
    assert_int_equal(rf_lease_fence(e), 0);
    assert_int_equal(rf_lease_ask(e, &r), 0);
    assert_int_equal(rf_lease_resume(e, &r, 500), 0);
    int64_t left = kit_stats(e).lease_left_ms;
    assert_in_range(left, 1, 500);
    assert_int_equal(rf_scan_open(e, &o, &idle, NULL), 0);
    assert_int_equal(rf_lease_ask(e, &r), 0);
    usleep(600000);
    assert_true(kit_stats(e).fenced_now);
    assert_int_equal(kit_stats(e).lease_left_ms, 0);
    assert_int_equal(rf_scan_next(idle, &t), -RF_CODE_LEASE_FENCED);
    assert_int_equal(rf_scan_open(e, &o, &c, NULL), -RF_CODE_LEASE_FENCED);
    assert_int_equal(rf_count(e, &o, &rows, NULL), -RF_CODE_LEASE_FENCED);
    /* What was asked for before it ended is of no use: nothing is dated by its receipt. */
    int rc = rf_lease_grant(e, &r, 60000);
    assert_true(rc == -ESTALE || rc == -RF_CODE_LEASE_FENCED);
    struct rf_queue *q;
    assert_int_equal(rf_queue_open(e, &q), 0);
    rc = rf_write_async(q, kit_row("t", "a", 2, 2), 1, 0, NULL, NULL, NULL);
    assert_int_equal(rc, -RF_CODE_LEASE_FENCED_RETRY);
    rf_queue_close(q);
    resume(60000);
    assert_int_equal(kit_count(e, "t"), 1);
    assert_int_equal(rf_scan_next(idle, &t), -RF_CODE_LEASE_FENCED); /* of the old epoch for good */
    rf_scan_close(idle);
    kit_write(e, "t", "a", 2, 2);
    assert_int_equal(kit_count(e, "t"), 2);
}

/* ---- a write waits for the lease ---- */

static void *resume_soon(void *arg)
{
    (void)arg;
    usleep(300000);
    struct rf_lease_request r;
    bool good = rf_lease_ask(e, &r) == 0 && rf_lease_resume(e, &r, 60000) == 0;
    atomic_fetch_add(&faults, !good);
    return NULL;
}

static void rf_write__lease_comes_back_within_the_wait__written(void **state)
{
    (void)state;
    open_with(RF_SYNC_ALWAYS, 1, 20000);
    resume(60000);
    kit_write(e, "t", "a", 1, 1);
    pthread_t thread;
    assert_int_equal(rf_lease_fence(e), 0);
    assert_int_equal(pthread_create(&thread, NULL, resume_soon, NULL), 0);
    int64_t began = kit_now_ns();
    kit_write(e, "t", "a", 2, 2);
    assert_true(kit_now_ns() - began > INT64_C(250000000));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&faults), 0);
    assert_int_equal(kit_count(e, "t"), 2);
}

/* ---- a write waits for room ---- */

static void *fence_soon(void *arg)
{
    (void)arg;
    usleep(300000);
    atomic_fetch_add(&faults, rf_lease_fence(e) != 0);
    return NULL;
}

/* The lease ends while it waits: it is told that, and not that there was no room. */
static void rf_write__fenced_while_it_waits_for_room__says_so(void **state)
{
    (void)state;
    struct rf_options o;
    kit_options(&o);
    o.memory_bytes = 5 << 20; /* four segments */
    o.sync = RF_SYNC_ASYNC;
    o.lease = RF_LEASE_EXTERNAL;
    o.write_wait_ms = 1500;
    e = kit_open(dir, &o);
    resume(60000);
    int rc = 0;
    for (int64_t i = 0; rc == 0; i++)
        rc = rf_write(e, kit_row("t", "a", i, i), NULL);
    assert_int_equal(rc, -RF_CODE_WRITE_REJECT);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fence_soon, NULL), 0);
    assert_int_equal(rf_write(e, kit_row("t", "a", 1, 1), NULL), -RF_CODE_LEASE_FENCED_RETRY);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&faults), 0);
}

/* ---- ended under writers ---- */

#define WRITERS 6

static _Atomic bool done;

struct writer {
    pthread_t thread;
    char host[16];
    uint64_t acknowledged, fenced;
    int64_t *times; /* of what was acknowledged, rising */
};

static void *write_on(void *arg)
{
    struct writer *w = arg;
    for (int64_t n = 0; !atomic_load(&done) && n < 200000; n++) {
        int rc = rf_write(e, kit_row("t", w->host, n, n), NULL);
        if (rc == 0)
            w->times[w->acknowledged++] = n;
        else if (rc == -RF_CODE_LEASE_FENCED_RETRY)
            w->fenced++;
        else if (rc != -RF_CODE_WRITE_REJECT) /* no room just now, and no wait allowed */
            atomic_fetch_add(&faults, 1);
        if (rc != 0) usleep(200);
    }
    return NULL;
}

/* Exactly what was acknowledged. */
static void check_writer(const struct writer *w)
{
    struct rf_scan_options o = all_of("t");
    struct rf_tag_filter tag = {"host", w->host};
    struct rf_cursor *c;
    struct rf_tablet t;
    uint64_t seen = 0;
    o.tags = &tag;
    o.tag_count = 1;
    assert_int_equal(rf_scan_open(e, &o, &c, NULL), 0);
    int rc;
    while ((rc = rf_scan_next(c, &t)) == 1)
        for (uint32_t i = 0; i < t.rows; i++, seen++)
            if (seen >= w->acknowledged || t.times[i] != w->times[seen])
                fail_msg("%s: row at %" PRId64 " was never acknowledged", w->host, t.times[i]);
    assert_int_equal(rc, 0);
    assert_int_equal(seen, w->acknowledged);
    rf_scan_close(c);
}

static void fence_writers(enum rf_sync sync, uint32_t lanes)
{
    static struct writer w[WRITERS];
    memset(w, 0, sizeof w);
    open_with(sync, lanes, 0);
    resume(60000);
    struct rf_column_def defs[] = {{"host", RF_STRING, RF_TAG}, {"v", RF_INT64, RF_FIELD}};
    assert_int_equal(rf_table_create(e, "t", defs, 2, 0, NULL), 0);
    atomic_store(&done, false);
    for (int i = 0; i < WRITERS; i++) {
        snprintf(w[i].host, sizeof w[i].host, "h%d", i);
        w[i].times = malloc(200000 * sizeof *w[i].times);
        assert_non_null(w[i].times);
        assert_int_equal(pthread_create(&w[i].thread, NULL, write_on, &w[i]), 0);
    }
    for (int round = 0; round < 25; round++) {
        usleep(10000);
        assert_int_equal(rf_lease_fence(e), 0);
        usleep(3000);
        assert_true(kit_stats(e).fenced_now);
        resume(60000);
    }
    usleep(10000);
    atomic_store(&done, true);
    uint64_t acknowledged = 0, fenced = 0;
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
        acknowledged += w[i].acknowledged;
        fenced += w[i].fenced;
    }
    print_message("sync %d, %u lanes: %" PRIu64 " acknowledged, %" PRIu64 " fenced\n", (int)sync,
                  lanes, acknowledged, fenced);
    assert_int_equal(atomic_load(&faults), 0);
    assert_true(acknowledged > 0 && fenced > 0);
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < WRITERS; i++)
            check_writer(&w[i]);
        assert_int_equal(rf_close(e), 0);
        open_with(sync, lanes, 0);
        resume(60000);
    }
    for (int i = 0; i < WRITERS; i++)
        free(w[i].times);
    assert_int_equal(rf_close(e), 0);
    e = NULL;
    kit_remove(dir);
    kit_dir(dir);
}

static void rf_lease_fence__under_writers__acknowledged_there_fenced_absent(void **state)
{
    (void)state;
    fence_writers(RF_SYNC_ALWAYS, 1);
    fence_writers(RF_SYNC_ALWAYS, 2);
    fence_writers(RF_SYNC_ASYNC, 1);
    fence_writers(RF_SYNC_OFF, 2);
}

/* ---- tables that go under a cursor ---- */

static void rf_scan_next__table_dropped__schema_changed(void **state)
{
    (void)state;
    open_with(RF_SYNC_ASYNC, 1, 3000);
    resume(60000);
    for (int64_t i = 0; i < 3000; i++)
        kit_write(e, "t", i % 2 != 0 ? "a" : "b", i, i);
    struct rf_scan_options o = all_of("t");
    struct rf_cursor *c, *unread;
    struct rf_tablet t;
    assert_int_equal(rf_scan_open(e, &o, &c, NULL), 0);
    assert_int_equal(rf_scan_open(e, &o, &unread, NULL), 0);
    assert_int_equal(rf_scan_next(c, &t), 1);
    assert_int_equal(rf_table_drop(e, "t", NULL), 0);
    assert_int_equal(rf_scan_next(c, &t), -RF_CODE_SCHEMA_CHANGED);
    assert_int_equal(rf_scan_next(c, &t), -RF_CODE_SCHEMA_CHANGED);
    kit_write(e, "t", "a", 1, 1); /* another table of that name */
    assert_int_equal(rf_scan_next(unread, &t), -RF_CODE_SCHEMA_CHANGED);
    rf_scan_close(c);
    rf_scan_close(unread);
    assert_int_equal(kit_count(e, "t"), 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(rf_lease__runs_out__writes_536_reads_535),
        CASE(rf_write__lease_comes_back_within_the_wait__written),
        CASE(rf_write__fenced_while_it_waits_for_room__says_so),
        CASE(rf_lease_fence__under_writers__acknowledged_there_fenced_absent),
        CASE(rf_scan_next__table_dropped__schema_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
