/* What a write costs besides its work: no allocation, no lock, at most one wake and one wait as
 * system calls, none on an ASYNC lane that is awake. System calls and locks are counted by standing
 * in for the libc functions that make them, on threads that ask for it; a lock tells whose it is by
 * its rank. */
#include "api/handle.h"
#include "base/alloc.h"
#include "base/lock.h"
#include "base/thread.h"
#include "engine/engine_impl.h"
#include "ringfence/ringfence.h"
#include "tests/lib/tempdir.h"
#include "wal/lane_impl.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTED false /* the sanitizers stand in for the same functions */
#else
#define COUNTED true
#endif

/* ---- counting ---- */

struct calls {
    uint32_t waits, wakes, others, locks;
    uint32_t waiter_locks; /* of locks: those of a lane's queue of waiting writers */
    uint32_t yields;       /* by a spinning lock whose holder was taken off its processor */
};
static _Thread_local struct calls calls;
static _Thread_local bool counting;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void *next(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (f == NULL) abort();
    return f;
}

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (real == NULL) *(void **)&real = next("syscall");
    if (counting && number == SYS_futex) {
        if ((a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT)
            calls.waits++;
        else
            calls.wakes++;
    } else if (counting) {
        calls.others++;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

ssize_t write(int fd, const void *bytes, size_t n) /* the lane's eventfd, the queue's */
{
    static ssize_t (*real)(int, const void *, size_t);
    if (real == NULL) *(void **)&real = next("write");
    if (counting) calls.wakes++;
    return real(fd, bytes, n);
}

ssize_t read(int fd, void *bytes, size_t n)
{
    static ssize_t (*real)(int, void *, size_t);
    if (real == NULL) *(void **)&real = next("read");
    if (counting) calls.others++;
    return real(fd, bytes, n);
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    static int (*real)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
    if (real == NULL) *(void **)&real = next("ppoll");
    if (counting) calls.waits++;
    return real(fds, n, timeout, mask);
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    static int (*real)(const struct timespec *, struct timespec *);
    if (real == NULL) *(void **)&real = next("nanosleep");
    if (counting) calls.waits++;
    return real(time, left);
}

int sched_yield(void)
{
    static int (*real)(void);
    if (real == NULL) *(void **)&real = next("sched_yield");
    if (counting) calls.yields++;
    return real();
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*real)(pthread_mutex_t *);
    if (real == NULL) *(void **)&real = next("pthread_mutex_lock");
    if (counting) {
        const struct lock *lock = (const struct lock *)mutex; /* its first member, if it is ours */
        calls.locks++;
        calls.waiter_locks += lock->rank == LOCK_RANK_WAITERS;
    }
    return real(mutex);
}
#endif

/* ---- an engine and a tablet ---- */

static char dir[TEMPDIR_BYTES];
static struct rf_engine *e;

static int setup(void **state)
{
    (void)state;
    tempdir_make(dir);
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    assert_int_equal(rf_close(e), 0);
    tempdir_remove(dir);
    return 0;
}

static void open_with(enum rf_sync sync, uint64_t segment_bytes)
{
    struct rf_options o;
    struct rf_error error = {.text = ""};
    rf_options_init(&o);
    o.memory_bytes = UINT64_C(400) << 20;
    o.sync = sync;
    o.segment_bytes = segment_bytes;
    o.wait_prepared = true;
    o.log_level = RF_LOG_ERROR;
    int rc = rf_open(dir, &o, &e, &error);
    if (rc != 0) fail_msg("rf_open: %d %s", rc, error.text);
}

#define ROWS_MAX 65536u
#define FIELDS   10u

static int64_t times[ROWS_MAX];
static double values[ROWS_MAX];
static uint32_t offsets[ROWS_MAX + 1];
static char hosts[ROWS_MAX];
static char names[FIELDS][12];
static struct rf_column columns[FIELDS + 1];

/* Rows of four hosts, not in order, over some partitions when `spread`. */
static struct rf_tablet tablet(uint32_t rows, uint32_t fields, bool spread)
{
    for (uint32_t i = 0; i < rows; i++) {
        times[i] = (int64_t)(i * 7919u % rows) * (spread ? INT64_C(100000000000000) : 1000);
        values[i] = i;
        hosts[i] = "abcd"[i % 4];
        offsets[i + 1] = i + 1;
    }
    columns[0] = (struct rf_column){
        .name = "host", .type = RF_STRING, .category = RF_TAG, .values = hosts, .offsets = offsets};
    for (uint32_t i = 0; i < fields; i++) {
        snprintf(names[i], sizeof names[i], "f%u", i);
        columns[1 + i] = (struct rf_column){
            .name = names[i], .type = RF_DOUBLE, .category = RF_FIELD, .values = values};
    }
    return (struct rf_tablet){.size = sizeof(struct rf_tablet),
                              .table = "t",
                              .rows = rows,
                              .columns = 1 + fields,
                              .times = times,
                              .column = columns};
}

/* ---- allocations ---- */

static void no_allocation(const struct rf_tablet *t, uint32_t n, const char *what)
{
    struct rf_queue *q;
    assert_int_equal(rf_queue_open(e, &q), 0);
    for (int i = 0; i < 3; i++) /* columns, devices and scratch have their size then */
        assert_int_equal(rf_write(e, t, NULL), 0);
    uint64_t before = alloc_calls();
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(rf_write(e, t, NULL), 0);
    uint64_t blocking = alloc_calls() - before;
    before = alloc_calls();
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(rf_write_async(q, t, 1, 10000, NULL, NULL, NULL), 0);
    while (rf_queue_in_flight(q) > 0)
        assert_true(rf_completions(q, NULL, 64, -1) > 0);
    uint64_t async = alloc_calls() - before;
    rf_queue_close(q);
    print_message("%s: %u + %u batches, %u and %u allocations\n", what, n, n, (unsigned)blocking,
                  (unsigned)async);
    assert_int_equal(blocking, 0);
    assert_int_equal(async, 0);
}

static void rf_write__steady_state__allocates_nothing(void **state)
{
    (void)state;
    open_with(RF_SYNC_ALWAYS, UINT64_C(64) << 20);
    struct rf_tablet t = tablet(100, 10, true);
    no_allocation(&t, 200, "100 rows x 10, out of order, many partitions");
    t = tablet(1, 1, false);
    no_allocation(&t, 200, "1 row x 1");
    t = tablet(65536, 2, false);
    no_allocation(&t, 10, "65,536 rows x 2, out of order");
}

/* ---- system calls ---- */

static void need_counts(void)
{
    if (COUNTED) return;
    print_message("skipped: a sanitizer stands in for the calls that are counted\n");
    skip();
}

static void count_blocking(const struct rf_tablet *t, uint32_t n, const char *what)
{
    struct calls all = {0}, most = {0};
    assert_int_equal(rf_write(e, t, NULL), 0);
    for (uint32_t i = 0; i < n; i++) {
        memset(&calls, 0, sizeof calls);
        counting = true;
        int rc = rf_write(e, t, NULL);
        counting = false;
        assert_int_equal(rc, 0);
        all.waits += calls.waits;
        all.wakes += calls.wakes;
        all.others += calls.others;
        all.locks += calls.locks;
        if (calls.waits > most.waits) most.waits = calls.waits;
        if (calls.wakes > most.wakes) most.wakes = calls.wakes;
    }
    print_message("%s: %u writes, %u wakes, %u waits, %u others, %u locks; at most %u and %u\n",
                  what, n, all.wakes, all.waits, all.others, all.locks, most.wakes, most.waits);
    assert_int_equal(all.others, 0);
    assert_int_equal(all.locks, 0);
    assert_true(most.wakes <= 1);
    assert_true(most.waits <= 1);
}

static void rf_write__blocking__one_wake_and_one_wait_at_most(void **state)
{
    (void)state;
    open_with(RF_SYNC_ALWAYS, UINT64_C(64) << 20);
    need_counts();
    struct rf_tablet t = tablet(100, 10, true);
    count_blocking(&t, 300, "always");
    assert_int_equal(rf_close(e), 0);
    open_with(RF_SYNC_ASYNC, UINT64_C(64) << 20);
    count_blocking(&t, 1000, "async");
    assert_int_equal(rf_close(e), 0);
    open_with(RF_SYNC_OFF, UINT64_C(64) << 20);
    count_blocking(&t, 1000, "off");
}

_Static_assert(offsetof(struct lock, mutex) == 0, "what the stand-in for the mutex looks behind");

/* One batch, and what is answered by then. Returns as rf_write_async. */
static int one_async(struct rf_queue *q, const struct rf_tablet *t, struct calls *made_out,
                     uint32_t *collected)
{
    memset(&calls, 0, sizeof calls);
    counting = true;
    int rc = rf_write_async(q, t, 1, 0, NULL, NULL, NULL);
    int got = rf_completions(q, NULL, 16, 0);
    counting = false;
    assert_true(got >= 0);
    *collected += (uint32_t)got;
    *made_out = calls;
    return rc;
}

/* A batch that finds room takes no lock and waits for nothing. One that finds none at first, since
 * the next segment is not ready, or all slots wait for the device, joins those who wait, by a lock
 * that only they and the lane take. A wake is made for a lane that has gone to sleep, one for each
 * time that it has: who finds it awake makes no system call. */
#define SMALL_SEGMENT (UINT64_C(1) << 20) /* some batches go to the next one */

static void finds_room(const char *what)
{
    struct wal_lane *lane = atomic_load(&e->engine)->lane[0];
    struct rf_tablet t = tablet(10, 2, false);
    struct rf_queue *q;
    assert_int_equal(rf_queue_open(e, &q), 0);
    assert_int_equal(rf_write(e, &t, NULL), 0);
    uint32_t n = 20000, wakes = 0, collected = 0, full = 0, waited = 0, locks = 0, yields = 0;
    uint64_t sleeps = atomic_load(&lane->stat_sleeps);
    for (uint32_t i = 0; i < n; i++) {
        struct calls made;
        uint64_t waits = atomic_load(&lane->stat_room_waits);
        int rc = one_async(q, &t, &made, &collected);
        bool found_room = atomic_load(&lane->stat_room_waits) == waits;
        assert_int_equal(made.locks, made.waiter_locks); /* none of the plane's, ever */
        if (found_room) {
            assert_int_equal(made.locks + made.waits + made.others, 0);
            assert_true(made.wakes <= 1);
            wakes += made.wakes;
        }
        locks += made.locks;
        yields += made.yields;
        waited += !found_room;
        if (rc == -RF_CODE_WRITE_REJECT) {
            full++;
            i--;
            usleep(1000);
            continue;
        }
        assert_int_equal(rc, 0);
    }
    sleeps = atomic_load(&lane->stat_sleeps) - sleeps;
    print_message(
        "%s: %u batches, %u wakes of a lane that went to sleep %u times; %u found no room at "
        "first, %u locks; %u rejected\n",
        what, n, wakes, (unsigned)sleeps, waited, locks, full);
    assert_true(wakes <= sleeps + 1); /* it may have slept before */
    assert_true(wakes < n / 2);       /* or this was no busy lane */
    assert_true(locks <= 8 * waited);
    assert_true(yields <= n / 100);
    assert_int_equal(collected + rf_queue_in_flight(q), n);
    rf_queue_close(q);
}

static void rf_write_async__finds_room_and_the_lane_awake__no_lock_no_system_call(void **state)
{
    (void)state;
    open_with(RF_SYNC_ASYNC, SMALL_SEGMENT);
    need_counts();
    finds_room("async");
    assert_int_equal(rf_close(e), 0);
    tempdir_remove(dir);
    tempdir_make(dir);
    open_with(RF_SYNC_OFF, SMALL_SEGMENT);
    finds_room("off");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(rf_write__steady_state__allocates_nothing),
        CASE(rf_write__blocking__one_wake_and_one_wait_at_most),
        CASE(rf_write_async__finds_room_and_the_lane_awake__no_lock_no_system_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
