/* ctest: concurrent
 *
 * Asynchronous writes: many in flight from one thread, completions in order, an eventfd that says
 * when to collect, columns that are free at once, many queues at once. */
#include "rf_kit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#define ROWS 50

static char dir[KIT_PATH_BYTES];
static struct rf_engine *e;

static void open_with(enum rf_sync sync, uint64_t memory_bytes, uint32_t lanes)
{
    struct rf_options o;
    kit_options(&o);
    o.sync = sync;
    o.memory_bytes = memory_bytes;
    o.log_bytes_max = 0;
    o.lanes = o.regions = lanes;
    o.write_wait_ms = 20000;
    e = kit_open(dir, &o);
}

static int setup(void **state)
{
    (void)state;
    kit_dir(dir);
    open_with(RF_SYNC_ALWAYS, 64 << 20, 1);
    kit_write(e, "t", "warm", -1, 0); /* table and columns are there */
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

/* A tablet whose columns can be overwritten at once: rows first.. of one host. */
struct batch {
    int64_t times[ROWS], values[ROWS];
    char hosts[ROWS * 8];
    uint32_t offsets[ROWS + 1];
    struct rf_column columns[2];
    struct rf_tablet tablet;
};

static void fill(struct batch *b, const char *host, int64_t first)
{
    size_t n = strlen(host);
    b->offsets[0] = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        b->times[i] = first + i;
        b->values[i] = 3 * (first + i);
        memcpy(b->hosts + i * n, host, n);
        b->offsets[i + 1] = (uint32_t)((i + 1) * n);
    }
    b->columns[0] = (struct rf_column){
        .name = "v", .type = RF_INT64, .category = RF_FIELD, .values = b->values};
    b->columns[1] = (struct rf_column){.name = "host",
                                       .type = RF_STRING,
                                       .category = RF_TAG,
                                       .values = b->hosts,
                                       .offsets = b->offsets};
    b->tablet = (struct rf_tablet){.size = sizeof b->tablet,
                                   .table = "t",
                                   .rows = ROWS,
                                   .columns = 2,
                                   .times = b->times,
                                   .column = b->columns};
}

static int begin(struct rf_queue *q, const char *host, int64_t first, void *user,
                 void (*done)(void *user, int code))
{
    struct batch b;
    fill(&b, host, first);
    int rc = rf_write_async(q, &b.tablet, 1, 20000, done, user, NULL);
    memset(&b, 0x5a, sizeof b); /* the columns are ours again */
    return rc;
}

/* Every row of host up to `rows` is there, as it was when the write was begun. */
static void check_rows(const char *host, uint64_t rows)
{
    struct rf_scan_options o;
    struct rf_cursor *c;
    struct rf_tablet t;
    struct rf_tag_filter tag = {"host", host};
    rf_scan_options_init(&o);
    o.table = "t";
    o.tags = &tag;
    o.tag_count = 1;
    assert_int_equal(rf_scan_open(e, &o, &c, NULL), 0);
    uint64_t seen = 0;
    int rc;
    while ((rc = rf_scan_next(c, &t)) == 1)
        for (uint32_t i = 0; i < t.rows; i++, seen++) {
            assert_true(t.times[i] == (int64_t)seen);
            assert_true(((const int64_t *)t.column[1].values)[i] == 3 * (int64_t)seen);
        }
    assert_int_equal(rc, 0);
    assert_int_equal(seen, rows);
    rf_scan_close(c);
}

/* ---- one thread ---- */

static void rf_write_async__hundreds_in_flight__complete_in_order(void **state)
{
    (void)state;
    struct rf_queue *q;
    uint32_t most = 0;
    assert_int_equal(rf_queue_open(e, &q), 0);
    uintptr_t begun = 0, collected = 0;
    while (collected < 2000) {
        for (; begun < 2000 && rf_queue_in_flight(q) < 400; begun++)
            assert_int_equal(begin(q, "a", (int64_t)begun * ROWS, (void *)begun, NULL), 0);
        if (rf_queue_in_flight(q) > most) most = rf_queue_in_flight(q);
        struct rf_completion c[64];
        int n = rf_completions(q, c, 64, -1);
        assert_in_range(n, 1, 64);
        for (int i = 0; i < n; i++, collected++) {
            assert_int_equal(c[i].code, 0);
            assert_true(c[i].user == (void *)collected); /* one lane: as they were begun */
        }
    }
    assert_int_equal(most, 400);
    assert_int_equal(rf_queue_in_flight(q), 0);
    assert_int_equal(rf_completions(q, NULL, 1, -1), 0); /* nothing to wait for */
    rf_queue_close(q);
    check_rows("a", 2000 * ROWS);
    print_message("2000 batches, %u in flight, %llu syncs\n", most,
                  (unsigned long long)kit_stats(e).device_syncs);
}

static pthread_t collector;
static _Atomic bool collecting;
static _Atomic uint32_t called, called_wrongly;

static void note(void *user, int code)
{
    bool wrong = !atomic_load(&collecting) || !pthread_equal(pthread_self(), collector);
    atomic_fetch_add(&called_wrongly, wrong || code != 0 || user != &called);
    atomic_fetch_add(&called, 1);
}

static void rf_write_async__callbacks__inside_rf_completions_alone(void **state)
{
    (void)state;
    struct rf_queue *q;
    for (int mode = RF_SYNC_ALWAYS; mode <= RF_SYNC_OFF; mode++) {
        assert_int_equal(rf_close(e), 0);
        open_with((enum rf_sync)mode, 32 << 20, 1);
        collector = pthread_self();
        atomic_store(&called, 0);
        assert_int_equal(rf_queue_open(e, &q), 0);
        for (int i = 0; i < 100; i++)
            assert_int_equal(begin(q, "b", i * ROWS, &called, note), 0);
        usleep(100000); /* all of them could have been called by now */
        assert_int_equal(atomic_load(&called), 0);
        for (uint32_t got = 0; got < 100;) {
            atomic_store(&collecting, true);
            int n = rf_completions(q, NULL, 7, -1); /* callbacks alone */
            atomic_store(&collecting, false);
            assert_in_range(n, 1, 7);
            got += (uint32_t)n;
            assert_int_equal(atomic_load(&called), got);
        }
        assert_int_equal(atomic_load(&called_wrongly), 0);
        rf_queue_close(q);
    }
    check_rows("b", 100 * ROWS);
}

static void begin_another(void *user, int code)
{
    struct rf_queue *q = user;
    static int left = 20;
    assert_int_equal(code, 0);
    if (left-- > 0) assert_int_equal(begin(q, "c", (20 - left - 1) * ROWS, q, begin_another), 0);
}

static void rf_completions__callback_begins_a_write__goes_on(void **state)
{
    (void)state;
    struct rf_queue *q;
    assert_int_equal(rf_queue_open(e, &q), 0);
    assert_int_equal(begin(q, "c", 0, q, begin_another), 0);
    int all = 0;
    while (rf_queue_in_flight(q) > 0)
        all += rf_completions(q, NULL, 1, -1);
    assert_int_equal(all, 21);
    rf_queue_close(q);
    check_rows("c", 20 * ROWS);
}

/* ---- the eventfd ---- */

static bool readable(int epoll, int wait_ms)
{
    struct epoll_event event;
    int n = epoll_wait(epoll, &event, 1, wait_ms);
    assert_true(n >= 0);
    return n == 1;
}

static void rf_queue_eventfd__readable_exactly_while_completions_wait(void **state)
{
    (void)state;
    struct rf_queue *q;
    assert_int_equal(rf_queue_open(e, &q), 0);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    assert_true(epoll >= 0);
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, rf_queue_eventfd(q), &event), 0);
    assert_false(readable(epoll, 0));
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 5; i++)
            assert_int_equal(begin(q, "d", (round * 5 + i) * ROWS, NULL, NULL), 0);
        int got = 0;
        while (got < 5) {
            assert_true(readable(epoll, 20000));
            struct rf_completion c;
            assert_int_equal(rf_completions(q, &c, 1, 0), 1); /* never none when readable */
            assert_int_equal(c.code, 0);
            got++;
            /* One more waits or is on its way: then it has to become readable. */
        }
        assert_false(readable(epoll, 0));
        assert_int_equal(rf_completions(q, NULL, 1, 0), 0);
    }
    assert_int_equal(close(epoll), 0);
    rf_queue_close(q);
    check_rows("d", 250 * ROWS);
}

/* Asked for late, when some answers are collected and some are not. */
static void rf_queue_eventfd__asked_for_between_completions__readable_until_the_last(void **state)
{
    (void)state;
    struct rf_queue *q;
    struct rf_completion c;
    assert_int_equal(rf_queue_open(e, &q), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(begin(q, "e", i * ROWS, NULL, NULL), 0);
    assert_int_equal(rf_flush(e), 0);
    assert_int_equal(rf_completions(q, &c, 1, 20000), 1);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    assert_true(epoll >= 0);
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, rf_queue_eventfd(q), &event), 0);
    for (int left = 2; left > 0; left--) {
        assert_true(readable(epoll, 20000));
        assert_int_equal(rf_completions(q, &c, 1, 0), 1);
    }
    assert_false(readable(epoll, 0));
    assert_int_equal(close(epoll), 0);
    rf_queue_close(q);
    check_rows("e", 3 * ROWS);
}

/* The thread that opens and closes is the host's: its calls come back when they have something to
 * say, and not with EINTR for a ring of ours that has come to its end some milliseconds before. */
static void rf_open_and_close__host_waits_in_epoll__is_not_interrupted(void **state)
{
    (void)state;
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_true(epoll >= 0);
    for (int round = 0; round < 3; round++) {
        enum rf_verdict verdict;
        assert_int_equal(rf_close(e), 0);
        e = NULL;
        assert_false(readable(epoll, 120));
        assert_int_equal(rf_verify(dir, 1000, NULL, NULL, &verdict, NULL), 0);
        assert_false(readable(epoll, 120));
        open_with(RF_SYNC_ALWAYS, 64 << 20, 1);
        assert_false(readable(epoll, 120));
    }
    assert_int_equal(close(epoll), 0);
}

static void rf_completions__timeout__is_kept(void **state)
{
    (void)state;
    struct rf_queue *q;
    struct rf_completion c;
    int64_t began = kit_now_ns();
    assert_int_equal(rf_queue_open(e, &q), 0);
    assert_int_equal(rf_completions(q, &c, 1, 10000), 0); /* nothing is in flight: at once */
    assert_true(kit_now_ns() - began < INT64_C(5000000000));
    assert_int_equal(begin(q, "e", 0, NULL, NULL), 0);
    int n = rf_completions(q, &c, 1, 20000);
    assert_int_equal(n, 1);
    assert_int_equal(rf_completions(q, &c, 0, -1), 0); /* room for none */
    rf_queue_close(q);
}

/* ---- no room ---- */

/* No further segment can come: all that the log may have are there. */
static bool log_has_all(void)
{
    struct rf_stats s = kit_stats(e);
    return s.segments + s.segments_ready == s.log_bytes_max / s.segment_bytes;
}

static void rf_write_async__full_and_no_wait__rejected_at_once(void **state)
{
    (void)state;
    assert_int_equal(rf_close(e), 0);
    open_with(RF_SYNC_ALWAYS, 1, 1); /* the least: four segments */
    static struct batch b;
    static int64_t many[20000];
    struct rf_queue *q;
    assert_int_equal(rf_queue_open(e, &q), 0);
    fill(&b, "f", 0);
    b.columns[0].values = many;
    b.tablet.rows = 20000;
    b.tablet.columns = 1;
    b.tablet.times = many;
    struct rf_error error = {.text = ""};
    int rc = 0, accepted = 0;
    for (bool all = false; !all || rc == 0;) {
        all = log_has_all(); /* before the try: after it one more could come */
        rc = rf_write_async(q, &b.tablet, 1, 0, NULL, NULL, &error);
        accepted += rc == 0;
        if (rc == 0) continue;
        assert_int_equal(rc, -RF_CODE_WRITE_REJECT);
        usleep(2000); /* the next segment is being made ready */
    }
    assert_int_equal(error.code, rc);
    int64_t began = kit_now_ns();
    assert_int_equal(rf_write_async(q, &b.tablet, 1, 0, NULL, NULL, NULL), rc);
    int64_t at_once = kit_now_ns() - began;
    began = kit_now_ns();
    assert_int_equal(rf_write_async(q, &b.tablet, 1, 200, NULL, NULL, NULL), rc);
    int64_t waited = kit_now_ns() - began;
    print_message("refused in %.3f ms without a wait, in %.1f ms with one of 200\n",
                  (double)at_once / 1e6, (double)waited / 1e6);
    assert_true(waited >= INT64_C(190000000));
    assert_true(at_once < INT64_C(150000000));
    assert_true(rf_queue_in_flight(q) <= (uint32_t)accepted);
    for (int n; accepted > 0; accepted -= n) {
        n = rf_completions(q, NULL, 64, 20000);
        assert_true(n > 0);
    }
    rf_queue_close(q);
}

/* ---- a burst ---- */

#define RING 10 /* segments */

/* Blocking writes of 320 KB, which wait for no device. */
static void burst(uint64_t mib)
{
    static struct batch b;
    static int64_t many[20000];
    fill(&b, "s", 0);
    b.columns[0].values = many;
    b.tablet.rows = 20000;
    b.tablet.columns = 1;
    b.tablet.times = many;
    for (uint64_t i = 0; i < mib * 3; i++) /* three of 320 KB fill a segment */
        assert_int_equal(rf_write(e, &b.tablet, NULL), 0);
}

/* Until the preparing thread has no more to do. */
static struct rf_stats at_rest(void)
{
    struct rf_trim_options trim;
    rf_trim_options_init(&trim);
    trim.before_position = UINT64_MAX;
    assert_int_equal(rf_flush(e), 0);
    assert_int_equal(rf_trim(e, &trim, NULL), 0);
    struct rf_stats s = kit_stats(e);
    uint64_t ready = UINT64_MAX;
    for (int same = 0; same < 10; usleep(20000)) {
        s = kit_stats(e);
        same = s.segments_ready == ready && s.segments + s.segments_free >= RING ? same + 1 : 0;
        ready = s.segments_ready;
    }
    return s;
}

/* Each time that a burst comes to a segment that is not ready, twice as many are kept from then on:
 * a burst that fits those waits for none. */
static void rf_write__burst_after_bursts__waits_for_no_segment(void **state)
{
    (void)state;
    assert_int_equal(rf_close(e), 0);
    open_with(RF_SYNC_ASYNC, (RING * UINT64_C(1280) + 640) << 10, 1);
    struct rf_stats before = at_rest(), after = before;
    assert_int_equal(before.segments_ready, 2);
    int64_t until = kit_now_ns() + INT64_C(20000000000);
    while (kit_now_ns() < until && after.segments_ready < 8) {
        burst(RING - 2);
        after = at_rest();
    }
    print_message("%llu segments were late, %llu are ready\n",
                  (unsigned long long)after.segments_late,
                  (unsigned long long)after.segments_ready);
    if (after.segments_late == 0) {
        print_message("skipped: here segments are made as fast as they are filled\n");
        skip();
    }
    assert_true(after.segments_ready >= 4);
    before = after;
    burst(before.segments_ready - 1); /* the last one is the successor of the one before it */
    after = kit_stats(e);
    assert_int_equal(after.segments_late, before.segments_late);
    assert_int_equal(after.room_waits, before.room_waits);
}

static void rf_queue_close__in_flight__waits_and_drops(void **state)
{
    (void)state;
    atomic_store(&called, 0);
    struct rf_queue *q;
    assert_int_equal(rf_queue_open(e, &q), 0);
    for (int i = 0; i < 300; i++)
        assert_int_equal(begin(q, "g", i * ROWS, &called, note), 0);
    rf_queue_close(q);
    assert_int_equal(atomic_load(&called), 0); /* dropped, not called */
    check_rows("g", 300 * ROWS);               /* and every one of them written */
}

/* ---- many threads ---- */

#define THREADS 8
#define BATCHES 150

struct worker {
    pthread_t thread;
    char host[16];
    uint32_t failed;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    for (int round = 0; round < 3; round++) { /* queues come and go */
        struct rf_queue *q;
        if (rf_queue_open(e, &q) != 0) {
            w->failed++;
            return NULL;
        }
        for (int i = 0; i < BATCHES / 3; i++) {
            int64_t first = (round * (BATCHES / 3) + i) * (int64_t)ROWS;
            w->failed += begin(q, w->host, first, w, NULL) != 0;
            struct rf_completion c[4];
            int n = rf_queue_in_flight(q) > 30 ? rf_completions(q, c, 4, -1) : 0;
            for (int k = 0; k < n; k++)
                w->failed += c[k].code != 0 || c[k].user != w;
        }
        if (round == 1)
            while (rf_queue_in_flight(q) > 0)
                (void)rf_completions(q, NULL, 100, -1);
        rf_queue_close(q); /* waits for the rest */
    }
    return NULL;
}

static void many_queues(enum rf_sync mode, uint32_t lanes)
{
    static struct worker workers[THREADS];
    memset(workers, 0, sizeof workers);
    assert_int_equal(rf_close(e), 0);
    e = NULL;
    kit_remove(dir);
    kit_dir(dir);
    open_with(mode, 64 << 20, lanes);
    for (int i = 0; i < THREADS; i++) {
        snprintf(workers[i].host, sizeof workers[i].host, "h%d", i);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(workers[i].failed, 0);
            check_rows(workers[i].host, (uint64_t)BATCHES * ROWS);
        }
        assert_int_equal(kit_stats(e).unknown, 0);
        assert_int_equal(rf_close(e), 0);
        open_with(mode, 64 << 20, lanes);
    }
}

static void rf_write_async__many_queues_in_many_threads__all_there(void **state)
{
    (void)state;
    many_queues(RF_SYNC_ALWAYS, 1);
    many_queues(RF_SYNC_ALWAYS, 2);
    many_queues(RF_SYNC_ASYNC, 2);
    many_queues(RF_SYNC_OFF, 1);
}

/* ---- threads that end, and that are ended ---- */

static _Atomic uint64_t rows_written;

static void close_queue(void *ctx)
{
    rf_queue_close(ctx);
}

/* Writes in both ways, with an eventfd that is raised and lowered. */
static void write_on(struct rf_queue *q, int64_t time)
{
    struct rf_completion c[8];
    (void)rf_queue_eventfd(q);
    for (int i = 0; i < 20; i++, time += 2) { /* no more: the log is small */
        int rc = rf_write_async(q, kit_row("t", "x", time, 1), 1, 1000, NULL, NULL, NULL);
        if (rc == 0) rc = rf_write(e, kit_row("t", "x", time + 1, 1), NULL);
        if (rc == 0) atomic_fetch_add(&rows_written, 1);
        if (rf_completions(q, c, 8, rf_queue_in_flight(q) > 4 ? 1000 : 0) < 0) break;
        pthread_testcancel();
    }
    for (;;)
        pause();
}

static void *write_until_cancelled(void *arg)
{
    struct rf_queue *q;
    if (rf_queue_open(e, &q) != 0) return NULL;
    pthread_cleanup_push(close_queue, q);
    write_on(q, (int64_t)(intptr_t)arg * 1000000);
    pthread_cleanup_pop(1);
    return NULL;
}

/* pthread_cancel ends a thread between calls: never one that holds what others wait for. */
static void threads_are_cancelled(enum rf_sync sync)
{
    enum { COMERS = 200, AT_ONCE = 2 };
    assert_int_equal(rf_close(e), 0);
    open_with(sync, 64 << 20, 1);
    atomic_store(&rows_written, 0);
    for (intptr_t i = 0; i < COMERS; i += AT_ONCE) {
        pthread_t threads[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++)
            assert_int_equal(
                pthread_create(&threads[k], NULL, write_until_cancelled, (void *)(i + k + 1)), 0);
        usleep((useconds_t)(i % 37) * 20);
        for (int k = 0; k < AT_ONCE; k++)
            assert_int_equal(pthread_cancel(threads[k]), 0);
        for (int k = 0; k < AT_ONCE; k++)
            assert_int_equal(pthread_join(threads[k], NULL), 0);
    }
    kit_write(e, "t", "x", 0, 0);
    assert_int_equal(rf_flush(e), 0);
    assert_true(kit_count(e, "t") > atomic_load(&rows_written));
    print_message("sync %d: %d threads cancelled, %llu rows of theirs acknowledged\n", (int)sync,
                  COMERS, (unsigned long long)atomic_load(&rows_written));
    assert_true(atomic_load(&rows_written) > 0);
}

static void rf_calls__threads_cancelled__others_go_on(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    print_message(
        "left out: ThreadSanitizer loses sight of a thread that is cancelled in its hands\n");
    skip();
#endif
    threads_are_cancelled(RF_SYNC_ASYNC);
    threads_are_cancelled(RF_SYNC_ALWAYS);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(rf_write_async__hundreds_in_flight__complete_in_order),
        CASE(rf_write_async__callbacks__inside_rf_completions_alone),
        CASE(rf_completions__callback_begins_a_write__goes_on),
        CASE(rf_queue_eventfd__readable_exactly_while_completions_wait),
        CASE(rf_queue_eventfd__asked_for_between_completions__readable_until_the_last),
        CASE(rf_open_and_close__host_waits_in_epoll__is_not_interrupted),
        CASE(rf_completions__timeout__is_kept),
        CASE(rf_write_async__full_and_no_wait__rejected_at_once),
        CASE(rf_write__burst_after_bursts__waits_for_no_segment),
        CASE(rf_queue_close__in_flight__waits_and_drops),
        CASE(rf_write_async__many_queues_in_many_threads__all_there),
        CASE(rf_calls__threads_cancelled__others_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
