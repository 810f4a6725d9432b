/* ctest: concurrent timeout=120 */
/* A lane where the queue itself refuses, where a resume fails at each of its steps, and where a
 * writer is sent away: no room, no slot, no memory, closing. */
#include "base/alloc.h"
#include "base/clock.h"
#include "tests/lib/lane_rig.h"
#include "wal/lane_impl.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define NUMBERED "lane-00/0" /* paths of segments in use */

static int64_t in_ms(int64_t ms)
{
    return clock_read_ns(CLOCK_MONOTONIC) + ms * 1000000;
}

static struct rig *start(const struct rig_options *given)
{
    const struct fault_options fo = {.seed = 0, .record = given->is_fault};
    struct rig_options o = *given;
    assert_int_equal(fault_env_open(&fo, &o.env), 0);
    struct rig *rig = malloc(sizeof *rig);
    assert_non_null(rig);
    rig_init(rig, &o);
    assert_int_equal(rig_open(rig), 0);
    if (!o.threads) rig_run(rig, 10); /* the first segments, whole */
    return rig;
}

static void finish(struct rig *rig)
{
    struct io_env *env = rig->o.env;
    if (rig->lane != NULL) assert_int_equal(rig_close(rig), 0);
    io_env_close(env);
    free(rig);
}

static void add(struct rig *rig, enum fault_kind kind, unsigned targets, const char *path,
                uint64_t skip, uint64_t times)
{
    const struct fault_rule rule = {
        .kind = kind, .targets = targets, .path = path, .skip = skip, .times = times, .error = EIO};
    assert_int_equal(fault_add(rig->o.env, &rule), 0);
}

/* ---- the queue refuses ---- */

/* A large batch goes through the queue; the k-th submission is a write or the sync behind it. */
static void wal_lane_refused__queue_takes_nothing__latches_and_resumes(void **state)
{
    (void)state;
    uint32_t latched = 0;
    for (uint64_t k = 0; k < 6; k++) {
        struct rig *rig = start(&(struct rig_options){.mode = WAL_SYNC, .depth = 2});
        add(rig, FAULT_ERROR, FAULT_ON_SUBMIT, NULL, k, 1);
        for (uint32_t id = 1; id <= 3; id++)
            if (rig_reserve(rig, id, 200000) == 0) rig_publish(rig, id);
        rig_run(rig, 200);
        if (wal_latched(rig->lane) != 0) {
            latched++;
            assert_int_equal(wal_latched(rig->lane), -EIO);
            for (uint32_t id = 1; id <= 3; id++) {
                assert_true(rig_answered(rig, id));
                assert_true(rig->batch[id].code == 0 || rig->batch[id].code == -RFE_WAL_ERROR);
            }
            assert_int_equal(rig->batch[3].code, -RFE_WAL_ERROR);
            assert_int_equal(wal_lane_resume(rig->lane, in_ms(10000), NULL), 0);
        }
        fault_clear(rig->o.env);
        rig_run(rig, 10);
        assert_int_equal(rig_write(rig, 9, 200000), 0);
        rig_run(rig, 100);
        assert_true(rig_answered(rig, 9));
        assert_int_equal(rig->batch[9].code, 0);
        finish(rig);
    }
    assert_true(latched >= 2); /* a write's and a sync's */
}

static void wal_lane_refused__queue_cannot_be_waited_for__latches_and_resumes(void **state)
{
    (void)state;
    struct rig *rig = start(&(struct rig_options){.mode = WAL_SYNC, .depth = 2});
    add(rig, FAULT_ERROR, FAULT_ON_WAIT, NULL, 0, 1);
    assert_int_equal(rig_write(rig, 1, 200000), 0);
    rig_run(rig, 100);
    assert_int_equal(wal_latched(rig->lane), -EIO);
    assert_int_equal(wal_lane_resume(rig->lane, in_ms(10000), NULL), 0);
    assert_true(rig_answered(rig, 1));
    assert_int_equal(rig->batch[1].code, -RFE_WAL_ERROR);
    rig_run(rig, 10);
    assert_int_equal(rig_write(rig, 2, 100), 0);
    rig_run(rig, 10);
    assert_int_equal(rig->batch[2].code, 0);
    finish(rig);
}

/* ---- resuming ---- */

/* What is visible reaches over a segment's end and is not durable; the lane is latched. */
static struct rig *latched_rig(enum wal_mode mode)
{
    struct rig *rig =
        start(&(struct rig_options){.mode = mode, .is_fault = true, .segments_max = 8});
    for (uint32_t id = 1; id <= 4; id++) {
        for (bool did = true; did;)
            assert_int_equal(lane_prep_step(rig->lane, &did), 0);
        assert_int_equal(rig_reserve(rig, id, 300000), 0);
        rig_publish(rig, id);
    }
    assert_int_equal(rig_reserve(rig, 5, 1000), 0);
    lane_latch(rig->lane, -EIO, "test");
    rig_publish(rig, 5);
    return rig;
}

static void goes_on(struct rig *rig)
{
    rig_run(rig, 10);
    assert_int_equal(rig_write(rig, 20, 5000), 0);
    rig_run(rig, 100);
    assert_int_equal(wal_flush(rig->lane, in_ms(10000)), 0);
    lane_decide(rig->lane);
    assert_true(rig_answered(rig, 20));
    assert_int_equal(rig->batch[20].code, 0);
    finish(rig);
}

static void wal_lane_refused__kth_operation_of_a_resume_fails__the_next_one_works(void **state)
{
    (void)state;
    uint32_t failed = 0;
    for (int mode = WAL_SYNC; mode <= WAL_OFF; mode++) {
        bool hit = true;
        for (uint64_t k = 0; hit && k < 60; k++) {
            struct rig *rig = latched_rig((enum wal_mode)mode);
            struct err_msg msg = {0};
            uint64_t before = fault_operations(rig->o.env, FAULT_ON_ANY);
            add(rig, FAULT_ERROR, FAULT_ON_ANY, NUMBERED, k, 1);
            int rc = wal_lane_resume(rig->lane, in_ms(10000), &msg);
            hit = fault_operations(rig->o.env, FAULT_ON_ANY) - before > k && rc != 0;
            if (rc != 0) {
                failed++;
                assert_int_equal(rc, -EIO);
                assert_non_null(strstr(msg.text, "lane-00/"));
                assert_int_not_equal(wal_latched(rig->lane), 0);
            }
            fault_clear(rig->o.env);
            assert_int_equal(wal_lane_resume(rig->lane, in_ms(10000), &msg), 0);
            goes_on(rig);
        }
    }
    printf("%u resumes failed\n", failed);
    assert_true(failed > 12);
}

static void wal_lane_refused__kth_allocation_of_a_resume_fails__the_next_one_works(void **state)
{
    (void)state;
    for (uint64_t k = 1; k < 20; k++) {
        struct rig *rig = latched_rig(WAL_ASYNC);
        struct err_msg msg = {0};
        alloc_fail_at(k);
        int rc = wal_lane_resume(rig->lane, in_ms(10000), &msg);
        alloc_fail_at(0);
        if (rc != 0) {
            assert_int_equal(rc, -ENOMEM);
            assert_true(msg.text[0] != '\0');
            assert_int_equal(wal_lane_resume(rig->lane, in_ms(10000), NULL), 0);
        }
        goes_on(rig);
        if (rc == 0) {
            assert_true(k > 2); /* the headers' table, and blocks */
            return;
        }
    }
    fail_msg("a resume never came to its end");
}

/* It has begun, and takes longer than the caller waits: it goes on without him. */
static void wal_lane_refused__resume_outlasts_its_caller__is_done_for_the_next(void **state)
{
    (void)state;
    struct rig *rig = start(&(struct rig_options){.mode = WAL_SYNC, .threads = true});
    assert_int_equal(wal_lane_wait_prepared(rig->lane), 0);
    assert_int_equal(rig_write(rig, 1, 1000), 0);
    assert_int_equal(rig_wait(rig, 1), 0);
    add(rig, FAULT_ERROR, FAULT_ON_WRITE, NUMBERED, 0, 1);
    assert_int_equal(rig_write(rig, 2, 1000), 0);
    assert_int_equal(rig_wait(rig, 2), -RFE_WAL_ERROR);
    add(rig, FAULT_HANG, FAULT_ON_WRITE | FAULT_ON_SYNC, NUMBERED, 0, 1);
    struct err_msg msg = {0};
    assert_int_equal(wal_lane_resume(rig->lane, in_ms(100), &msg), -ETIMEDOUT);
    assert_int_equal(wal_lane_resume(rig->lane, in_ms(50), &msg), -ETIMEDOUT); /* it is under way */
    assert_int_not_equal(wal_latched(rig->lane), 0);
    fault_release(rig->o.env);
    assert_int_equal(wal_lane_resume(rig->lane, in_ms(10000), &msg), 0);
    assert_int_equal(wal_latched(rig->lane), 0);
    assert_int_equal(wal_lane_resume(rig->lane, in_ms(-1), &msg), 0); /* nothing to wait for */
    finish(rig);
}

/* ---- writers that are sent away ---- */

struct waiting {
    struct rig *rig;
    uint32_t id;
    int64_t wait_ms;
    int rc;
    pthread_t thread;
};

static void *wait_for_room(void *arg)
{
    struct waiting *w = arg;
    struct rig_batch *b = &w->rig->batch[w->id];
    w->rc = wal_reserve_wait(w->rig->lane, 300000, 64, atomic_load(&w->rig->view), &b->ticket,
                             in_ms(w->wait_ms), NULL, NULL, &b->r);
    return NULL;
}

static void begin_waiting(struct waiting *w, struct rig *rig, uint32_t id, int64_t wait_ms)
{
    *w = (struct waiting){.rig = rig, .id = id, .wait_ms = wait_ms};
    uint32_t before = atomic_load(&rig->lane->waiters);
    rig->batch[id] =
        (struct rig_batch){.ticket = {.done = rig->batch[1].ticket.done}, .rig = rig, .id = id};
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_room, w), 0);
    for (int i = 0; i < 5000 && atomic_load(&rig->lane->waiters) == before; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&rig->lane->waiters), before + 1);
}

/* Full to the writers' limit, and decided. Returns the first id that found no room. */
static uint32_t fill(struct rig *rig)
{
    uint32_t id = 1;
    assert_int_equal(wal_lane_wait_prepared(rig->lane), 0);
    for (; id < 60; id++) {
        int rc = rig_reserve(rig, id, 300000);
        for (int i = 0; rc == -EAGAIN && i < 100; i++) {
            usleep(2000);
            rc = rig_reserve(rig, id, 300000);
        }
        if (rc == -EAGAIN) break;
        assert_int_equal(rc, 0);
        rig_publish(rig, id);
        assert_int_equal(rig_wait(rig, id), 0);
    }
    assert_in_range(id, 5, 59);
    return id;
}

static void
wal_lane_refused__second_waiter_gives_up_first__the_others_keep_their_order(void **state)
{
    (void)state;
    struct rig *rig =
        start(&(struct rig_options){.mode = WAL_SYNC, .threads = true, .segments_max = 4});
    uint32_t id = fill(rig);
    struct waiting w[3];
    begin_waiting(&w[0], rig, id, 20000);
    begin_waiting(&w[1], rig, id + 1, 300);
    begin_waiting(&w[2], rig, id + 2, 600);
    assert_int_equal(
        wal_reserve(rig->lane, 8, 64, atomic_load(&rig->view), NULL, &(struct wal_reservation){0}),
        -EAGAIN); /* others are before it */
    pthread_join(w[1].thread, NULL);
    assert_int_equal(w[1].rc, -ETIMEDOUT);
    pthread_join(w[2].thread, NULL); /* the last of the list */
    assert_int_equal(w[2].rc, -ETIMEDOUT);
    assert_int_equal(rig_trim(rig), 0);
    pthread_join(w[0].thread, NULL);
    assert_int_equal(w[0].rc, 0);
    rig_give_up(rig, id);
    finish(rig);
}

static void wal_lane_refused__closing__waiters_and_newcomers_are_told(void **state)
{
    (void)state;
    struct rig *rig =
        start(&(struct rig_options){.mode = WAL_SYNC, .threads = true, .segments_max = 4});
    struct waiting w;
    begin_waiting(&w, rig, fill(rig), 20000);
    atomic_store(&rig->lane->closing, true); /* as the first thing of a close */
    lane_signal_room(rig->lane);
    pthread_join(w.thread, NULL);
    assert_int_equal(w.rc, -RFE_CLOSING);
    struct wal_reservation r;
    assert_int_equal(wal_reserve(rig->lane, 8, 64, atomic_load(&rig->view), NULL, &r),
                     -RFE_CLOSING);
    finish(rig);
}

/* What the wait's end is called says why there was no room. */
static void wal_lane_refused__no_segment_could_be_made__told_as_a_full_disk(void **state)
{
    (void)state;
    static const struct {
        int error, code;
    } why[] = {{-ENOSPC, -RFE_DISK_FULL},
               {-EDQUOT, -RFE_DISK_FULL},
               {-EFBIG, -RFE_DISK_FULL},
               {-EIO, -ETIMEDOUT}};
    struct rig *rig = start(&(struct rig_options){.mode = WAL_SYNC, .segments_max = 4});
    uint32_t id = 1;
    for (int rc = 0; rc == 0; id += rc == 0) {
        rc = rig_reserve(rig, id, 300000);
        if (rc == 0) rig_publish(rig, id);
        rig_run(rig, 100);
    }
    for (uint32_t i = 0; i < 4; i++) {
        struct rig_batch *b = &rig->batch[id];
        atomic_store(&rig->lane->space_error, why[i].error);
        assert_int_equal(wal_reserve_wait(rig->lane, 300000, 64, atomic_load(&rig->view),
                                          &b->ticket, in_ms(-1), NULL, NULL, &b->r),
                         why[i].code);
    }
    atomic_store(&rig->lane->space_error, 0);
    finish(rig);
}

static void wal_lane_refused__every_slot_taken__control_records_find_two(void **state)
{
    (void)state;
    struct rig *rig = start(&(struct rig_options){.mode = WAL_SYNC});
    uint32_t n = 1;
    while (n < RIG_BATCHES_MAX - 1 && rig_reserve(rig, n, 8) == 0)
        n++;
    assert_int_equal(n - 1, WAL_LANE_SLOTS - LANE_CONTROL_SLOTS);
    struct wal_reservation r;
    assert_int_equal(lane_reserve_control(rig->lane, 0, &r), 0);
    lane_publish_control(rig->lane, &r, WAL_RECORD_MARK);
    for (uint32_t id = 1; id < n; id++)
        rig_publish(rig, id);
    rig_run(rig, 1000);
    for (uint32_t id = 1; id < n; id++)
        assert_true(rig_answered(rig, id) && rig->batch[id].code == 0);
    assert_int_equal(rig_write(rig, n, 8), 0);
    finish(rig);
}

/* Zeros are still on their way to where the pad's header would go. */
static void wal_lane_refused__pad_where_zeros_will_land__the_writer_waits(void **state)
{
    (void)state;
    struct rig *rig = start(&(struct rig_options){.mode = WAL_SYNC});
    struct wal_lane *lane = rig->lane;
    assert_int_equal(rig_write(rig, 1, 600000), 0);
    rig_run(rig, 100);
    struct wal_seg *seg = lane->cur;
    uint64_t whole = atomic_load(&seg->filled_end);
    atomic_store(&seg->filled_end, lane->next_lsn - seg->number * lane->o.segment_bytes);
    assert_int_equal(rig_reserve(rig, 2, 600000), -EAGAIN);
    assert_int_equal(rig_reserve(rig, 2, 8), -EAGAIN);
    assert_ptr_equal(lane->cur, seg);
    atomic_store(&seg->filled_end, whole);
    assert_int_equal(rig_write(rig, 2, 600000), 0);
    rig_run(rig, 100);
    assert_int_equal(rig->batch[2].code, 0);
    finish(rig);
}

/* ---- sizes ---- */

static void wal_lane_refused__sizes_beyond_the_lane__each_is_refused(void **state)
{
    (void)state;
    struct wal_lane *lane;
    struct err_msg msg = {0};
    struct wal_lane_options o = {.segment_bytes = 1 << 20, .block_bytes = 4096};
    static const uint32_t wrong[] = {3, LANE_SEGMENTS_MAX - 4};
    for (uint32_t i = 0; i < 2; i++) {
        o.segments_max = wrong[i];
        assert_int_equal(wal_lane_create(&o, &lane, &msg), -EINVAL);
        assert_non_null(strstr(msg.text, "segments"));
    }
    o.segments_max = 4;
    alloc_fail_at(1);
    assert_int_equal(wal_lane_create(&o, &lane, &msg), -ENOMEM);
    struct rig *rig = start(&(struct rig_options){.mode = WAL_SYNC});
    struct wal_reservation r;
    assert_int_equal(wal_reserve(rig->lane, 8, 1 << 20, 1, NULL, &r), -RFE_ENTRY_TOO_LARGE);
    assert_int_equal(wal_reserve(rig->lane, 1 << 20, 64, 1, NULL, &r), -RFE_ENTRY_TOO_LARGE);
    assert_int_equal(rig_write(rig, 1, 100), 0);
    struct wal_image *image = rig->batch[1].r.image;
    assert_int_equal(wal_lane_replay_arena(rig->lane, image, image->arena_bytes), UINT32_MAX);
    uint32_t count = rig->lane->free_count;
    rig->lane->free_count = LANE_SEGMENTS_MAX;
    assert_int_equal(wal_lane_offer_free(rig->lane, NULL, 1), -ENOMEM);
    rig->lane->free_count = count;
    finish(rig);
}

/* ---- opening and closing ---- */

static void wal_lane_refused__kth_operation_of_a_start_fails__nothing_is_open(void **state)
{
    (void)state;
    bool hit = true;
    uint32_t failed = 0;
    for (uint64_t k = 0; hit && k < 100; k++) {
        const struct fault_options fo = {.seed = 0};
        struct rig_options o = {.mode = WAL_SYNC};
        assert_int_equal(fault_env_open(&fo, &o.env), 0);
        struct rig *rig = malloc(sizeof *rig);
        assert_non_null(rig);
        rig_init(rig, &o);
        add(rig, FAULT_ERROR, FAULT_ON_ANY, NULL, k, 1);
        int rc = rig_open(rig);
        hit = fault_operations(o.env, FAULT_ON_ANY) > k && rc != 0;
        fault_clear(o.env);
        if (rc != 0) {
            failed++;
            assert_int_equal(rig_open(rig), 0);
        }
        rig_run(rig, 10);
        assert_int_equal(rig_write(rig, 1, 100), 0);
        rig_run(rig, 10);
        assert_int_equal(rig->batch[1].code, 0);
        finish(rig);
    }
    assert_true(failed > 5);
}

static _Atomic int leaks;
static void note_leak(void *ctx, int level, const char *event, const char *fields)
{
    (void)ctx, (void)level, (void)fields;
    if (strcmp(event, "wal.close_leaked") == 0) atomic_fetch_add(&leaks, 1);
}

/* Without threads: the closing caller's own turns end at the deadline. */
static void wal_lane_refused__device_never_answers_a_caller__close_leaks_and_says_so(void **state)
{
    (void)state;
    static const struct log log = {.level = LOG_LEVEL_INFO, .callback = note_leak};
    struct rig *rig =
        start(&(struct rig_options){.mode = WAL_SYNC, .close_wait_ns = 50000000, .log = &log});
    add(rig, FAULT_DELAY, FAULT_ON_WRITE, NUMBERED, 0, UINT64_MAX);
    assert_int_equal(rig_write(rig, 1, 200000), 0);
    atomic_store(&leaks, 0);
    assert_int_equal(rig_close(rig), -ETIMEDOUT);
    assert_int_equal(atomic_load(&leaks), 1);
    /* Rig and environment stay with what the device still has. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_lane_refused__queue_takes_nothing__latches_and_resumes),
        cmocka_unit_test(wal_lane_refused__queue_cannot_be_waited_for__latches_and_resumes),
        cmocka_unit_test(wal_lane_refused__kth_operation_of_a_resume_fails__the_next_one_works),
        cmocka_unit_test(wal_lane_refused__kth_allocation_of_a_resume_fails__the_next_one_works),
        cmocka_unit_test(wal_lane_refused__resume_outlasts_its_caller__is_done_for_the_next),
        cmocka_unit_test(
            wal_lane_refused__second_waiter_gives_up_first__the_others_keep_their_order),
        cmocka_unit_test(wal_lane_refused__closing__waiters_and_newcomers_are_told),
        cmocka_unit_test(wal_lane_refused__no_segment_could_be_made__told_as_a_full_disk),
        cmocka_unit_test(wal_lane_refused__every_slot_taken__control_records_find_two),
        cmocka_unit_test(wal_lane_refused__pad_where_zeros_will_land__the_writer_waits),
        cmocka_unit_test(wal_lane_refused__sizes_beyond_the_lane__each_is_refused),
        cmocka_unit_test(wal_lane_refused__kth_operation_of_a_start_fails__nothing_is_open),
        cmocka_unit_test(wal_lane_refused__device_never_answers_a_caller__close_leaks_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
