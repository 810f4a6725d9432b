/* ctest: concurrent timeout=180 */
/* Writers, a plane that fences and changes metadata, trims, failing writes and resumes, all at once.
 * At the end the log must say of each batch what its caller was told. */
#include "base/clock.h"
#include "base/thread.h"
#include "tests/lib/lane_rig.h"
#include "tests/lib/tempdir.h"
#include "wal/lane_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define WRITERS    4u
#define EACH       120u
#define IN_FLIGHT  8u
#define LAST_WAIT  INT64_C(20000000000)
#define EPOCH_STEP (UINT64_C(1) << RIG_EPOCH_SHIFT)

struct stress {
    struct rig *rig;
    _Atomic bool stop;
    _Atomic uint32_t writers_done;
    /* What stood below V when an epoch was closed; nothing of an older one may come up behind. */
    _Atomic uint64_t closed_view, closed_visible;
    _Atomic uint32_t fences, changes, resumes;
};

struct writer {
    struct stress *s;
    uint32_t first_id;
    uint64_t random;
};

static uint64_t mix(uint64_t *state)
{
    uint64_t x = (*state += UINT64_C(0x9e3779b97f4a7c15));
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static void pause_us(uint32_t us)
{
    struct timespec t = {.tv_nsec = us * 1000};
    nanosleep(&t, NULL);
}

static void write_one(struct writer *w, uint32_t id)
{
    static const uint32_t sizes[] = {8, 64, 1000, 5000, 40000, 100000};
    int64_t deadline_ns = clock_read_ns(CLOCK_MONOTONIC) + LAST_WAIT;
    uint32_t bytes = sizes[mix(&w->random) % 6];
    for (;;) {
        int rc = rig_reserve(w->s->rig, id, bytes);
        if (rc == 0) break;
        CHECK(rc == -EAGAIN || rc == -RFE_LATCHED);
        CHECK(clock_read_ns(CLOCK_MONOTONIC) < deadline_ns);
        if (rc == -EAGAIN) CHECK(rig_trim(w->s->rig) == 0);
        pause_us(200);
    }
    if (mix(&w->random) % 20 == 0)
        rig_give_up(w->s->rig, id);
    else
        rig_publish(w->s->rig, id);
}

static void *writer_run(void *arg)
{
    struct writer *w = arg;
    struct rig *rig = w->s->rig;
    for (uint32_t i = 0; i < EACH; i++) {
        write_one(w, w->first_id + i);
        if (i >= IN_FLIGHT && !rig->batch[w->first_id + i - IN_FLIGHT].given_up)
            CHECK(rig_wait(rig, w->first_id + i - IN_FLIGHT) != -ETIMEDOUT);
    }
    for (uint32_t i = EACH - IN_FLIGHT; i < EACH; i++)
        if (!rig->batch[w->first_id + i].given_up)
            CHECK(rig_wait(rig, w->first_id + i) != -ETIMEDOUT);
    atomic_fetch_add(&w->s->writers_done, 1);
    return NULL;
}

static void close_view(struct stress *s, uint64_t view)
{
    int64_t deadline_ns = clock_read_ns(CLOCK_MONOTONIC) + LAST_WAIT;
    while (!wal_view_is_closed(s->rig->lane, view)) {
        CHECK(clock_read_ns(CLOCK_MONOTONIC) < deadline_ns);
        pause_us(50);
    }
}

static void *plane_run(void *arg)
{
    struct stress *s = arg;
    struct rig *rig = s->rig;
    uint64_t random = 7;
    while (!atomic_load(&s->stop)) {
        uint64_t view = atomic_load(&rig->view), what = mix(&random) % 8;
        if (what == 0) {
            view = (view & ~(EPOCH_STEP - 1)) + EPOCH_STEP;
            atomic_store(&rig->live, false);
            atomic_store(&rig->view, view);
            close_view(s, view);
            atomic_store(&s->closed_visible, wal_visible(rig->lane));
            atomic_store(&s->closed_view, view);
            atomic_store(&rig->live, true);
            atomic_fetch_add(&s->fences, 1);
        } else if (what < 3) {
            if (what == 1) atomic_store(&rig->fits_from, view + 1);
            atomic_store(&rig->view, view + 1);
            close_view(s, view + 1);
            atomic_fetch_add(&s->changes, 1);
        }
        pause_us(1000);
    }
    return NULL;
}

/* One write or sync fails, now and then; then the lane is resumed. */
static void trouble(struct stress *s, bool faults)
{
    uint64_t random = 11;
    while (atomic_load(&s->writers_done) < WRITERS) {
        pause_us(3000);
        if (!faults) continue;
        if (wal_latched(s->rig->lane) == 0) {
            fault_clear(s->rig->o.env);
            struct fault_rule rule = {.kind = FAULT_ERROR,
                                      .targets =
                                          mix(&random) % 2 == 0 ? FAULT_ON_WRITE : FAULT_ON_SYNC,
                                      .path = "lane-00/0",
                                      .skip = mix(&random) % 8,
                                      .times = 1,
                                      .error = EIO};
            CHECK(fault_add(s->rig->o.env, &rule) == 0);
            continue;
        }
        fault_clear(s->rig->o.env);
        struct err_msg msg = {0};
        int rc = wal_lane_resume(s->rig->lane, clock_read_ns(CLOCK_MONOTONIC) + LAST_WAIT, &msg);
        if (rc != 0) printf("%s\n", msg.text);
        assert_int_equal(rc, 0);
        atomic_fetch_add(&s->resumes, 1);
    }
}

/* Whether the lane has, or can make, a segment behind the one that is written. */
static bool may_grow(struct rig *rig)
{
    struct wal_lane_stats stats;
    wal_lane_stats(rig->lane, &stats);
    return stats.segments_ready > 0 || stats.segments_live < stats.segments_max;
}

static void check_all(struct stress *s)
{
    static enum rig_fate fates[RIG_BATCHES_MAX];
    struct rig *rig = s->rig;
    uint64_t oldest = wal_oldest(rig->lane);
    memset(fates, 0, sizeof fates);
    uint32_t acknowledged = 0;
    for (uint32_t id = 1; id <= WRITERS * EACH; id++) {
        const struct rig_batch *b = &rig->batch[id];
        fates[id] = !b->given_up && b->code == 0 ? RIG_ACKNOWLEDGED : RIG_REFUSED;
        if (fates[id] != RIG_ACKNOWLEDGED) continue;
        acknowledged++;
        uint64_t closed = atomic_load(&s->closed_view) >> RIG_EPOCH_SHIFT;
        if (b->ticket.lsn >= atomic_load(&s->closed_visible))
            assert_true(b->ticket.view >> RIG_EPOCH_SHIFT >= closed);
    }
    bool room = may_grow(rig); /* for the successor that a segment with a close record needs */
    assert_int_equal(rig_close(rig), 0);
    struct rig_options o = rig->o;
    o.threads = false;
    struct rig *again = malloc(sizeof *again);
    assert_non_null(again);
    rig_init(again, &o);
    assert_int_equal(rig_open(again), 0);
    if (room) assert_int_equal(again->verdict, WAL_VERDICT_CLEAN);
    assert_true(rig_check(again, rig, fates, oldest));
    assert_int_equal(rig_close(again), 0);
    free(again);
    printf("mode %d: %" PRIu32 " acknowledged, %" PRIu32 " fences, %" PRIu32 " changes, %" PRIu32
           " resumes\n",
           rig->o.mode, acknowledged, atomic_load(&s->fences), atomic_load(&s->changes),
           atomic_load(&s->resumes));
    assert_true(acknowledged > 0);
}

static void stress(struct io_env *env, bool is_fault, enum wal_mode mode, uint32_t depth)
{
    struct rig *rig = malloc(sizeof *rig);
    assert_non_null(rig);
    const struct rig_options o = {
        .env = env, .mode = mode, .depth = depth, .threads = true, .segments_max = 5};
    rig_init(rig, &o);
    assert_int_equal(rig_open(rig), 0);
    struct stress s = {.rig = rig};
    struct writer writers[WRITERS];
    pthread_t threads[WRITERS], plane;
    assert_int_equal(thread_start(&plane, "plane", plane_run, &s), 0);
    for (uint32_t i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){&s, 1 + i * EACH, i * 1000 + mode};
        assert_int_equal(thread_start(&threads[i], "writer", writer_run, &writers[i]), 0);
    }
    trouble(&s, is_fault);
    for (uint32_t i = 0; i < WRITERS; i++)
        thread_join(threads[i]);
    atomic_store(&s.stop, true);
    thread_join(plane);
    if (is_fault) fault_clear(env);
    struct err_msg msg = {0};
    assert_int_equal(wal_lane_resume(rig->lane, clock_read_ns(CLOCK_MONOTONIC) + LAST_WAIT, &msg),
                     0);
    check_all(&s);
    free(rig);
}

static void wal_lane_threads__all_at_once_over_faults__log_says_what_was_told(void **state)
{
    (void)state;
    for (int mode = WAL_SYNC; mode <= WAL_OFF; mode++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            const struct fault_options fo = {.seed = seed, .fua = seed == 2};
            struct io_env *env;
            assert_int_equal(fault_env_open(&fo, &env), 0);
            stress(env, true, (enum wal_mode)mode, 1u << seed);
            io_env_close(env);
        }
}

static void wal_lane_threads__all_at_once_on_files__log_says_what_was_told(void **state)
{
    (void)state;
    for (int mode = WAL_SYNC; mode <= WAL_OFF; mode++) {
        char dir[TEMPDIR_BYTES];
        tempdir_make(dir);
        struct io_env *env;
        assert_int_equal(io_env_open(dir, &env), 0);
        stress(env, false, (enum wal_mode)mode, 4);
        io_env_close(env);
        tempdir_remove(dir);
    }
}

/* ---- waiting for room ---- */

struct queued {
    struct rig *rig;
    uint32_t id, bytes;
    int rc;
    _Atomic bool served;
};

static void *queued_run(void *arg)
{
    struct queued *q = arg;
    struct rig_batch *b = &q->rig->batch[q->id];
    q->rc = wal_reserve_wait(q->rig->lane, q->bytes, 64, atomic_load(&q->rig->view), &b->ticket,
                             clock_read_ns(CLOCK_MONOTONIC) + LAST_WAIT, NULL, NULL, &b->r);
    if (q->rc == 0) rig_give_up(q->rig, q->id);
    atomic_store(&q->served, true);
    return NULL;
}

static void wal_lane_threads__waiters_for_room__served_in_order_of_arrival(void **state)
{
    (void)state;
    struct io_env *env;
    const struct fault_options fo = {.seed = 0};
    assert_int_equal(fault_env_open(&fo, &env), 0);
    struct rig *rig = malloc(sizeof *rig);
    assert_non_null(rig);
    const struct rig_options o = {.env = env, .threads = true, .segments_max = 4};
    rig_init(rig, &o);
    assert_int_equal(rig_open(rig), 0);
    assert_int_equal(wal_lane_wait_prepared(rig->lane), 0);
    uint32_t id = 1;
    for (;;) {
        struct wal_lane_stats stats;
        wal_lane_stats(rig->lane, &stats); /* before: no segment comes once all are there */
        if (rig_reserve(rig, id, 100000) == 0) {
            rig_publish(rig, id);
            assert_int_equal(rig_wait(rig, id++), 0);
        } else if (stats.segments_live + stats.segments_ready == stats.segments_max) {
            break;
        }
    }
    enum { N = 6 };
    struct queued queued[N];
    pthread_t threads[N];
    for (uint32_t i = 0; i < N; i++) {
        uint32_t before = atomic_load(&rig->lane->waiters);
        /* The later ones would find room as it is. */
        queued[i] = (struct queued){.rig = rig, .id = 1000 + i, .bytes = i < 3 ? 100000 : 8};
        rig->batch[1000 + i] = (struct rig_batch){
            .ticket.done = rig->batch[1].ticket.done, .rig = rig, .id = 1000 + i};
        assert_int_equal(thread_start(&threads[i], "queued", queued_run, &queued[i]), 0);
        while (atomic_load(&rig->lane->waiters) == before && !atomic_load(&queued[i].served))
            pause_us(100);
    }
    assert_int_equal(rig_reserve(rig, id, 8), -EAGAIN); /* a small one does not overtake */
    pause_us(150000);                                   /* those who wait look every 50 ms */
    for (uint32_t i = 0; i < N; i++)
        assert_false(atomic_load(&queued[i].served));
    assert_int_equal(rig_trim(rig), 0);
    for (uint32_t i = 0; i < N; i++)
        thread_join(threads[i]);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(queued[i].rc, 0);
        if (i > 0) assert_true(rig->batch[1000 + i].r.lsn > rig->batch[1000 + i - 1].r.lsn);
    }
    assert_int_equal(rig_close(rig), 0);
    io_env_close(env);
    free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_lane_threads__all_at_once_over_faults__log_says_what_was_told),
        cmocka_unit_test(wal_lane_threads__all_at_once_on_files__log_says_what_was_told),
        cmocka_unit_test(wal_lane_threads__waiters_for_room__served_in_order_of_arrival),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
