/* ctest: concurrent timeout=120 */
/* A lane over the fault double: every write and sync fails, comes back short or late; the disk is
 * full; the device never answers. */
#include "base/clock.h"
#include "base/thread.h"
#include "tests/lib/lane_rig.h"
#include "tests/lib/tempdir.h"
#include "wal/durable_way.h"
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
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#define NUMBERED "lane-00/0" /* paths of segments in use */

static int64_t in_ms(int64_t ms)
{
    return clock_read_ns(CLOCK_MONOTONIC) + ms * 1000000;
}

struct setting {
    enum wal_mode mode;
    bool fua;
    bool threads;
    bool record;
    uint64_t seed;
    uint32_t segments_max;
    uint32_t depth;
    int64_t close_wait_ns;
    const struct log *log;
};

static struct rig *start(const struct setting *s)
{
    const struct fault_options fo = {.seed = s->seed, .fua = s->fua, .record = s->record};
    struct io_env *env;
    assert_int_equal(fault_env_open(&fo, &env), 0);
    const struct rig_options o = {.env = env,
                                  .is_fault = s->record,
                                  .mode = s->mode,
                                  .threads = s->threads,
                                  .segments_max = s->segments_max,
                                  .depth = s->depth,
                                  .close_wait_ns = s->close_wait_ns,
                                  .log = s->log};
    struct rig *rig = malloc(sizeof *rig);
    assert_non_null(rig);
    rig_init(rig, &o);
    assert_int_equal(rig_open(rig), 0);
    if (!s->threads) rig_run(rig, 10); /* the first segments, whole */
    return rig;
}

static void finish(struct rig *rig)
{
    struct io_env *env = rig->o.env;
    if (rig->lane != NULL) assert_int_equal(rig_close(rig), 0);
    io_env_close(env);
    free(rig);
}

static void add(struct rig *rig, struct fault_rule rule)
{
    assert_int_equal(fault_add(rig->o.env, &rule), 0);
}

/* Opens again what is there, or what a power failure at this event of the trace leaves of it, and
 * compares with what was answered. */
static void check_as_of(struct rig *rig, bool after_failure, uint64_t at)
{
    static enum rig_fate fates[RIG_BATCHES_MAX];
    memset(fates, 0, sizeof fates);
    for (uint32_t id = 1; id < RIG_BATCHES_MAX; id++) {
        const struct rig_batch *b = &rig->batch[id];
        if (b->rig == NULL || !atomic_load(&b->answered)) continue;
        fates[id] = b->code == 0 ? RIG_ACKNOWLEDGED : RIG_REFUSED;
        if (b->code == -RFE_WAL_ERROR && after_failure) fates[id] = RIG_UNKNOWN;
    }
    struct io_env *left = rig->o.env;
    if (after_failure)
        assert_int_equal(fault_crash(left, at, fault_choice_drop, NULL, NULL, &left, NULL), 0);
    struct rig_options o = rig->o;
    o.env = left;
    o.threads = false;
    struct rig *again = malloc(sizeof *again);
    assert_non_null(again);
    rig_init(again, &o);
    int rc = rig_open(again);
    if (rc != 0) printf("%s\n", again->msg.text);
    assert_int_equal(rc, 0);
    uint64_t trimmed = rig->lane != NULL ? wal_oldest(rig->lane) : 0;
    assert_true(rig_check(again, rig, fates, trimmed));
    assert_int_equal(rig_close(again), 0);
    if (after_failure) io_env_close(left);
    free(again);
}

static void check_again(struct rig *rig, bool after_failure)
{
    check_as_of(rig, after_failure, after_failure ? fault_trace_length(rig->o.env) : 0);
}

/* ---- closing ---- */

/* The mark that a second of idleness is due comes while the close record is on its way. */
static void wal_lane_faults__mark_due_while_closing__log_ends_clean(void **state)
{
    (void)state;
    struct rig *rig = start(&(struct setting){.seed = 1, .mode = WAL_ASYNC});
    assert_int_equal(rig_write(rig, 1, 100), 0);
    rig_run(rig, 50);
    assert_int_equal(wal_durable(rig->lane), wal_reserved(rig->lane));
    usleep(1100 * 1000); /* nobody runs the lane meanwhile */
    assert_int_equal(rig_close(rig), 0);
    assert_int_equal(rig_open(rig), 0);
    assert_int_equal(rig->verdict, WAL_VERDICT_CLEAN);
    finish(rig);
}

/* ---- every write and every sync fails ---- */

static const uint32_t sizes[] = {100, 5000, 200000, 64, 150000, 300000, 9000, 180000};

static void write_some(struct rig *rig, uint32_t *next_id, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int rc = rig_reserve(rig, *next_id, sizes[*next_id % 8]);
        if (rc == -RFE_LATCHED || rc == -EAGAIN) return; /* no next segment could be made */
        assert_int_equal(rc, 0);
        rig_publish(rig, (*next_id)++);
        if (i % 3 != 0) rig_run(rig, 100);
    }
    rig_run(rig, 100);
}

static void all_are_answered(struct rig *rig, uint32_t from, uint32_t to, bool well)
{
    for (uint32_t id = from; id < to; id++) {
        const struct rig_batch *b = &rig->batch[id];
        assert_true(rig_answered(rig, id));
        if (well) assert_int_equal(b->code, 0);
        assert_true(b->code == 0 || b->code == -RFE_WAL_ERROR);
        if (b->code == 0) assert_true(wal_visible(rig->lane) > b->ticket.lsn);
        if (b->code != 0) assert_int_equal(b->r.image->arena[b->r.arena_at + 4], 1);
    }
}

/* Returns false when the fault was never met. */
static bool fail_one(const struct setting *s, struct fault_rule rule, bool for_good)
{
    struct rig *rig = start(s);
    rule.times = for_good ? UINT64_MAX : 1;
    add(rig, rule);
    uint32_t next_id = 1;
    write_some(rig, &next_id, 9);
    bool off_flushed = s->mode != WAL_OFF || wal_flush(rig->lane, in_ms(10000)) == 0;
    bool latched = wal_latched(rig->lane) != 0;
    assert_true(latched || off_flushed);
    if (latched) {
        assert_int_equal(wal_latched(rig->lane), -rule.error);
        all_are_answered(rig, 1, next_id, false);
        assert_int_equal(rig_reserve(rig, next_id, 100), -RFE_LATCHED);
        struct err_msg msg = {0};
        uint64_t visible = wal_visible(rig->lane);
        if (for_good) {
            assert_int_not_equal(wal_lane_resume(rig->lane, in_ms(10000), &msg), 0);
            assert_true(msg.text[0] != 0);
            assert_int_not_equal(wal_latched(rig->lane), 0);
            assert_int_equal(wal_visible(rig->lane), visible);
        }
        fault_clear(rig->o.env);
        assert_int_equal(wal_lane_resume(rig->lane, in_ms(10000), &msg), 0);
        assert_int_equal(wal_latched(rig->lane), 0);
        assert_true(wal_visible(rig->lane) > visible);
    }
    fault_clear(rig->o.env);
    uint32_t from = next_id;
    rig_run(rig, 10);
    write_some(rig, &next_id, 4);
    assert_int_equal(next_id, from + 4);
    all_are_answered(rig, from, next_id, true);
    assert_int_equal(rig_close(rig), 0);
    check_again(rig, false);
    finish(rig);
    return latched;
}

static void fail_each(enum wal_mode mode, bool fua)
{
    static const int errors[] = {EIO, ENOSPC, EAGAIN, EBUSY, EINTR, EINVAL, ECANCELED};
    static const unsigned targets[] = {FAULT_ON_WRITE, FAULT_ON_SYNC};
    uint32_t latches = 0, runs = 0;
    for (uint32_t t = 0; t < 2; t++)
        for (uint64_t k = 0; k < 12; k++)
            for (uint32_t e = 0; e < 7; e++) {
                if (k > 1 && e != k % 7) continue;
                const struct setting s = {
                    .mode = mode, .fua = fua, .depth = 1u << (k % 3), .seed = k % 2 * (k + 1)};
                const struct fault_rule rule = {.kind = FAULT_ERROR,
                                                .targets = targets[t],
                                                .path = NUMBERED,
                                                .skip = k,
                                                .error = errors[e]};
                latches += fail_one(&s, rule, false) ? 1 : 0;
                latches += fail_one(&s, rule, true) ? 1 : 0;
                runs += 2;
            }
    printf("mode %d fua %d: %" PRIu32 " latches in %" PRIu32 " runs\n", mode, fua, latches, runs);
    assert_true(latches > runs / 8);
}

static void wal_lane_faults__each_write_and_sync_fails__latches_resumes_goes_on(void **state)
{
    (void)state;
    for (int mode = WAL_SYNC; mode <= WAL_OFF; mode++) {
        fail_each((enum wal_mode)mode, false);
        fail_each((enum wal_mode)mode, true);
    }
}

/* ---- short and late ---- */

static void wal_lane_faults__short_by_any_size__nothing_is_lost(void **state)
{
    (void)state;
    static const uint32_t shorts[] = {1,    511,  512,   513,   4095,  4096,   4097,
                                      8192, 9000, 65536, 65600, 98304, 196608, 200703};
    for (uint32_t i = 0; i < sizeof shorts / sizeof shorts[0]; i++)
        for (uint32_t n = 0; n < 12; n++) {
            const struct setting s = {.mode = n % 2 == 0 ? WAL_SYNC : WAL_ASYNC,
                                      .fua = n % 4 < 2,
                                      .record = true,
                                      .seed = n % 3 * 7,
                                      .depth = 4};
            struct rig *rig = start(&s);
            add(rig, (struct fault_rule){.kind = FAULT_SHORT,
                                         .targets = FAULT_ON_WRITE,
                                         .path = NUMBERED,
                                         .skip = n / 4,
                                         .times = 1 + n % 5,
                                         .short_bytes = shorts[i]});
            for (uint32_t id = 1; id <= 4; id++) {
                assert_int_equal(rig_write(rig, id, 200000), 0);
                if (n >= 6) rig_run(rig, 100);
            }
            rig_run(rig, 200);
            assert_int_equal(wal_flush(rig->lane, in_ms(10000)), 0);
            all_are_answered(rig, 1, 5, true);
            fault_clear(rig->o.env);
            check_again(rig, true);
            finish(rig);
        }
}

static void wal_lane_faults__always_short_of_a_block__latches(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_SYNC};
    struct rig *rig = start(&s);
    add(rig, (struct fault_rule){.kind = FAULT_SHORT,
                                 .targets = FAULT_ON_WRITE,
                                 .path = NUMBERED,
                                 .times = UINT64_MAX,
                                 .short_bytes = 512});
    assert_int_equal(rig_write(rig, 1, 200000), 0);
    rig_run(rig, 1000);
    assert_int_equal(wal_latched(rig->lane), -EIO);
    all_are_answered(rig, 1, 2, false);
    fault_clear(rig->o.env);
    assert_int_equal(wal_lane_resume(rig->lane, in_ms(10000), NULL), 0);
    finish(rig);
}

static void wal_lane_faults__completions_in_any_order__mark_passes_no_hole(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        const struct setting s = {.mode = WAL_SYNC,
                                  .fua = seed % 2 == 0,
                                  .record = true,
                                  .seed = seed,
                                  .depth = 1u << (seed % 3)};
        struct rig *rig = start(&s);
        for (uint32_t id = 1; id <= 9; id++) {
            assert_int_equal(rig_write(rig, id, 70000 + 10000 * (id % 5)), 0);
            rig_run(rig, 1 + (uint32_t)(seed + id) % 3);
            /* Every acknowledged batch is there when all that is not durable is dropped. */
            if (id % 3 == 0) check_again(rig, true);
        }
        rig_run(rig, 1000);
        all_are_answered(rig, 1, 10, true);
        check_again(rig, true);
        finish(rig);
    }
}

static void wal_lane_faults__first_write_is_late__later_ones_wait_for_it(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_SYNC, .fua = true, .depth = 4};
    struct rig *rig = start(&s);
    add(rig, (struct fault_rule){
                 .kind = FAULT_DELAY, .targets = FAULT_ON_WRITE, .path = NUMBERED, .times = 1});
    uint64_t durable = wal_durable(rig->lane);
    for (uint32_t id = 1; id <= 3; id++) {
        assert_int_equal(rig_write(rig, id, 150000), 0);
        rig_run(rig, 100);
    }
    assert_int_equal(io_queue_in_flight(rig->lane->queue), 1);
    assert_int_equal(wal_durable(rig->lane), durable);
    for (uint32_t id = 1; id <= 3; id++)
        assert_false(rig_answered(rig, id));
    fault_release(rig->o.env);
    rig_run(rig, 100);
    all_are_answered(rig, 1, 4, true);
    finish(rig);
}

static void wal_lane_faults__resume_while_a_write_is_in_flight__times_out_then_works(void **state)
{
    (void)state;
    for (int slot_first = 0; slot_first <= 1; slot_first++) {
        const struct setting s = {.mode = WAL_SYNC, .depth = 2};
        struct rig *rig = start(&s);
        add(rig, (struct fault_rule){
                     .kind = FAULT_DELAY, .targets = FAULT_ON_WRITE, .path = NUMBERED, .times = 1});
        add(rig, (struct fault_rule){.kind = FAULT_ERROR,
                                     .targets = FAULT_ON_WRITE,
                                     .path = NUMBERED,
                                     .times = 1,
                                     .error = EIO});
        assert_int_equal(rig_write(rig, 1, 150000), 0);
        rig_run(rig, 10);
        assert_int_equal(rig_write(rig, 2, 150000), 0);
        assert_int_equal(rig_reserve(rig, 3, 100), 0);
        rig_run(rig, 10);
        assert_int_equal(wal_latched(rig->lane), -EIO);
        struct err_msg msg = {0};
        assert_int_equal(wal_lane_resume(rig->lane, in_ms(30), &msg), -ETIMEDOUT);
        assert_non_null(strstr(msg.text, "in flight"));
        /* Either of the two that it waits for is enough. */
        if (slot_first)
            rig_publish(rig, 3);
        else
            fault_release(rig->o.env);
        assert_int_equal(wal_lane_resume(rig->lane, in_ms(30), &msg), -ETIMEDOUT);
        if (slot_first)
            fault_release(rig->o.env);
        else
            rig_publish(rig, 3);
        assert_int_equal(wal_lane_resume(rig->lane, in_ms(10000), &msg), 0);
        for (uint32_t id = 1; id <= 3; id++) {
            assert_true(rig_answered(rig, id));
            assert_int_equal(rig->batch[id].code, -RFE_WAL_ERROR);
        }
        assert_int_equal(rig_close(rig), 0);
        check_again(rig, false);
        finish(rig);
    }
}

/* V stands in one segment, what was reserved behind it reaches into the next, or the one behind. */
static void wal_lane_faults__resume_over_segments_of_void__log_goes_on_behind_them(void **state)
{
    (void)state;
    for (int mode = WAL_SYNC; mode <= WAL_OFF; mode++)
        for (uint32_t n = 4; n <= 7; n += 3) {
            const struct setting s = {
                .mode = (enum wal_mode)mode, .record = true, .segments_max = 8};
            struct rig *rig = start(&s);
            assert_int_equal(rig_write(rig, 1, 100000), 0);
            rig_run(rig, 100);
            assert_int_equal(rig_reserve(rig, 2, 100000), 0);
            for (uint32_t id = 3; id < 3 + n; id++) {
                for (bool did = true; did;) /* segments to go on in, and nothing else */
                    assert_int_equal(lane_prep_step(rig->lane, &did), 0);
                assert_int_equal(rig_reserve(rig, id, 300000), 0);
                rig_publish(rig, id);
            }
            uint64_t last = lsn_segment(wal_reserved(rig->lane), rig->o.segment_bytes);
            assert_int_equal(last, n == 4 ? 2 : 3);
            lane_latch(rig->lane, -EIO, "test");
            rig_publish(rig, 2);
            assert_int_equal(wal_lane_resume(rig->lane, in_ms(10000), NULL), 0);
            for (uint32_t id = 2; id < 3 + n; id++)
                assert_int_equal(rig->batch[id].code, -RFE_WAL_ERROR);
            assert_int_equal(lsn_segment(wal_visible(rig->lane), rig->o.segment_bytes), last + 1);
            assert_int_equal(rig_write(rig, 100, 5000), 0);
            rig_run(rig, 100);
            assert_int_equal(wal_flush(rig->lane, in_ms(10000)), 0);
            all_are_answered(rig, 100, 101, true);
            for (uint32_t id = 1; id < 3 + n; id++)
                if (rig->batch[id].code == -RFE_WAL_ERROR)
                    rig->batch[id].code = -RFE_SCHEMA_CHANGED;
            check_again(rig, true);
            finish(rig);
        }
}

static void wal_lane_faults__resume_on_real_files__log_opens_clean(void **state)
{
    (void)state;
    for (int mode = WAL_SYNC; mode <= WAL_OFF; mode++) {
        char dir[TEMPDIR_BYTES];
        tempdir_make(dir);
        struct io_env *env;
        assert_int_equal(io_env_open(dir, &env), 0);
        const struct rig_options o = {.env = env, .mode = (enum wal_mode)mode};
        struct rig *rig = malloc(sizeof *rig);
        assert_non_null(rig);
        rig_init(rig, &o);
        assert_int_equal(rig_open(rig), 0);
        for (uint32_t id = 1; id <= 3; id++)
            assert_int_equal(rig_write(rig, id, 200000), 0);
        if (mode == WAL_SYNC) assert_int_equal(wal_flush(rig->lane, in_ms(20000)), 0);
        lane_decide(rig->lane);
        assert_int_equal(rig_reserve(rig, 4, 5000), 0);
        lane_latch(rig->lane, -EIO, "test");
        rig_publish(rig, 4);
        struct err_msg msg = {0};
        assert_int_equal(wal_lane_resume(rig->lane, in_ms(20000), &msg), 0);
        assert_int_equal(rig_write(rig, 5, 9000), 0);
        assert_int_equal(wal_flush(rig->lane, in_ms(20000)), 0);
        lane_decide(rig->lane);
        all_are_answered(rig, 1, 4, true);
        assert_int_equal(rig->batch[4].code, -RFE_WAL_ERROR);
        all_are_answered(rig, 5, 6, true);
        assert_int_equal(rig_close(rig), 0);
        check_again(rig, false);
        finish(rig);
        tempdir_remove(dir);
    }
}

/* A segment takes a record only when its successor is there: else a crash that loses the last
 * segment would leave no gap. Also right behind a resume. */
static void wal_lane_faults__no_successor_yet__segment_takes_no_record(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_SYNC, .segments_max = 8};
    struct rig *rig = start(&s);
    uint32_t id = 1;
    while (rig_reserve(rig, id, 300000) == 0)
        rig_publish(rig, id++);
    struct wal_lane *lane = rig->lane;
    assert_int_equal(atomic_load(&lane->ready_number), 3);
    assert_int_equal(lsn_segment(rig->batch[id - 1].r.lsn, rig->o.segment_bytes), 2);
    assert_int_equal(atomic_load(&lane->cur_number), 2);
    lane_latch(lane, -EIO, "test");
    assert_int_equal(wal_lane_resume(lane, in_ms(10000), NULL), 0);
    assert_int_equal(atomic_load(&lane->cur_number), 3);
    assert_int_equal(rig_reserve(rig, id, 100), -EAGAIN);
    rig_run(rig, 10);
    assert_int_equal(rig_write(rig, id, 100), 0);
    rig_run(rig, 10);
    all_are_answered(rig, id, id + 1, true);
    finish(rig);
}

/* A new lane's second segment is handed out before it is full of zeros: nobody writes where they are
 * still to land. */
static void wal_lane_faults__zeros_not_there_yet__writers_wait_for_them(void **state)
{
    (void)state;
    struct io_env *env;
    const struct fault_options fo = {.seed = 0};
    assert_int_equal(fault_env_open(&fo, &env), 0);
    const struct rig_options o = {.env = env};
    struct rig *rig = malloc(sizeof *rig);
    assert_non_null(rig);
    rig_init(rig, &o);
    assert_int_equal(rig_open(rig), 0);
    bool did = false;
    assert_int_equal(lane_prep_step(rig->lane, &did), 0); /* the third segment */
    assert_int_equal(atomic_load(&rig->lane->ready_number), 3);
    uint32_t id = 1;
    while (rig_reserve(rig, id, 300000) == 0)
        rig_publish(rig, id++);
    assert_int_equal(lsn_segment(rig->batch[id - 1].r.lsn, rig->o.segment_bytes), 1);
    while (did && atomic_load(&lane_seg(rig->lane, 2)->filled_end) < rig->o.segment_bytes)
        assert_int_equal(lane_prep_step(rig->lane, &did), 0);
    assert_int_equal(rig_reserve(rig, id, 300000), 0);
    assert_int_equal(lsn_segment(rig->batch[id].r.lsn, rig->o.segment_bytes), 2);
    rig_publish(rig, id);
    rig_run(rig, 100);
    all_are_answered(rig, 1, id + 1, true);
    finish(rig);
}

/* A blocking write is for a group that is alone: with more behind it, the queue has it all. */
static void
wal_lane_faults__more_waits_than_a_lone_write_takes__goes_through_the_queue(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_SYNC};
    struct rig *rig = start(&s);
    rig->lane->write_bytes_max = LANE_LONE_BYTES;
    for (uint32_t id = 1; id <= 4; id++)
        assert_int_equal(rig_write(rig, id, 100000), 0);
    uint64_t syncs = atomic_load(&rig->lane->stat_syncs);
    rig_run(rig, 100);
    all_are_answered(rig, 1, 5, true);
    /* One sync for the three writes side by side, one with the rest that then is alone. */
    assert_int_equal(atomic_load(&rig->lane->stat_writes), 4);
    assert_int_equal(atomic_load(&rig->lane->stat_syncs), syncs + 2);
    finish(rig);
}

/* ---- how many are kept ready ---- */

/* Writes as a burst does, faster than any segment is made, until the next one is not ready. Returns
 * how many batches that took. */
static uint32_t burst(struct rig *rig, uint32_t *next_id)
{
    uint32_t n = 0;
    for (; rig_reserve(rig, *next_id, 300000) == 0; n++)
        rig_publish(rig, (*next_id)++);
    return n;
}

static uint64_t ready(const struct rig *rig)
{
    return atomic_load(&rig->lane->ready_number) - atomic_load(&rig->lane->cur_number);
}

static uint64_t late(struct rig *rig)
{
    struct wal_lane_stats stats;
    wal_lane_stats(rig->lane, &stats);
    return stats.segments_late;
}

static int see_numbered(void *ctx, const char *name, bool is_dir)
{
    (void)is_dir;
    uint64_t number;
    uint32_t *count = ctx;
    *count += wal_segment_parse_name(name, &number) == WAL_NAME_SEGMENT;
    return 0;
}

static uint32_t numbered_files(struct io_env *env)
{
    uint32_t count = 0;
    assert_int_equal(io_list(env, "lane-00", see_numbered, &count), 0);
    return count;
}

/* A lane whose writers have met a segment that was not ready often enough: all of the ring's free
 * ones are. */
static struct rig *with_all_ready(const struct setting *s, uint32_t *next_id)
{
    struct rig *rig = start(s);
    for (int round = 0; round < 12 && ready(rig) + 1 < s->segments_max; round++) {
        (void)burst(rig, next_id);
        rig_run(rig, 400);
        assert_int_equal(rig_trim(rig), 0);
        rig_run(rig, 400);
    }
    assert_int_equal(ready(rig) + 1, s->segments_max);
    return rig;
}

static void wal_lane_faults__writer_came_to_a_late_segment__twice_as_many_are_kept(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_ASYNC, .segments_max = 24};
    struct rig *rig = start(&s);
    uint32_t id = 1;
    uint64_t kept = LANE_READY_AT_REST;
    assert_int_equal(late(rig), 0);
    for (uint64_t round = 1; kept < s.segments_max; round++) {
        assert_int_equal(ready(rig), kept); /* and no more of them than that */
        (void)burst(rig, &id);
        assert_int_equal(late(rig), round);
        assert_int_equal(rig_reserve(rig, id, 300000), -EAGAIN); /* the same one: not another */
        assert_int_equal(late(rig), round);
        rig_run(rig, 400);
        assert_int_equal(rig_trim(rig), 0);
        rig_run(rig, 400);
        kept *= 2;
    }
    assert_int_equal(ready(rig) + 1, s.segments_max);
    finish(rig);
}

static void wal_lane_faults__second_burst_that_fits_the_ring__finds_each_segment_ready(void **state)
{
    (void)state;
    for (int mode = WAL_ASYNC; mode <= WAL_OFF; mode++) {
        const struct setting s = {.mode = (enum wal_mode)mode, .segments_max = 12};
        uint32_t id = 1;
        struct rig *rig = with_all_ready(&s, &id);
        uint64_t before = late(rig);
        /* Three of 300,000 bytes fit a segment; the last one waits for a successor that the ring
         * has no room for. */
        assert_in_range(burst(rig, &id), 3 * (s.segments_max - 2), 3 * (s.segments_max - 1));
        assert_int_equal(late(rig), before); /* the ring is full: nothing was late */
        rig_run(rig, 400);
        all_are_answered(rig, 1, id, true);
        assert_int_equal(late(rig), before);
        finish(rig);
    }
}

static void wal_lane_faults__many_ready__given_back_at_close(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_ASYNC, .record = true, .segments_max = 12};
    uint32_t id = 1;
    struct rig *rig = with_all_ready(&s, &id);
    assert_int_equal(numbered_files(rig->o.env), s.segments_max);
    assert_int_equal(rig_close(rig), 0);
    assert_int_equal(numbered_files(rig->o.env), 1 + LANE_READY_AT_REST);
    assert_int_equal(rig_open(rig), 0);
    assert_int_equal(rig->verdict, WAL_VERDICT_CLEAN);
    assert_int_equal(rig->lane->o.segments_max, s.segments_max);
    rig_run(rig, 100);
    id = 3000;
    (void)burst(rig, &id);
    rig_run(rig, 100);
    all_are_answered(rig, 3000, id, true);
    finish(rig);
}

/* A power failure while all are ready: the next open reads them, gives them back, and neither ring
 * nor memory grows; also into a ring that is smaller than it was. */
static void wal_lane_faults__power_fails_with_many_ready__given_back_at_open(void **state)
{
    (void)state;
    static const uint32_t rings[] = {12, 6};
    for (uint32_t i = 0; i < 2; i++) {
        const struct setting s = {.mode = WAL_ASYNC, .record = true, .segments_max = 12};
        uint32_t id = 1;
        struct rig *rig = with_all_ready(&s, &id);
        struct io_env *left;
        uint64_t end = fault_trace_length(rig->o.env);
        assert_int_equal(fault_crash(rig->o.env, end, fault_choice_drop, NULL, NULL, &left, NULL),
                         0);
        assert_int_equal(numbered_files(left), s.segments_max);
        struct rig_options o = rig->o;
        o.env = left;
        o.segments_max = rings[i];
        struct rig *again = malloc(sizeof *again);
        assert_non_null(again);
        rig_init(again, &o);
        assert_int_equal(rig_open(again), 0);
        assert_int_equal(numbered_files(left), 1 + LANE_READY_AT_REST);
        assert_int_equal(again->lane->o.segments_max, rings[i]);
        assert_true(again->lane->images_count <= rings[i]);
        rig_run(again, 100);
        assert_int_equal(again->lane->images_count, rings[i]);
        id = 3000;
        (void)burst(again, &id);
        rig_run(again, 100);
        all_are_answered(again, 3000, id, true);
        finish(again);
        finish(rig);
    }
}

/* What can't be given back stays, in a chain without a gap, and stops neither close nor open. */
static void wal_lane_faults__giving_back_fails__chain_has_no_gap(void **state)
{
    (void)state;
    static const unsigned targets[] = {FAULT_ON_NAME, FAULT_ON_SYNC_DIR};
    for (uint32_t k = 0; k < 12; k++) {
        const struct setting s = {.mode = WAL_SYNC, .record = true, .segments_max = 8};
        uint32_t id = 1;
        struct rig *rig = with_all_ready(&s, &id);
        bool at_open = k >= 6;
        const struct fault_rule rule = {.kind = FAULT_ERROR,
                                        .targets = targets[k % 2],
                                        .path = k % 2 == 0 ? "lane-00/free" : "lane-00",
                                        .skip = k % 6 / 2,
                                        .times = 1,
                                        .error = EIO};
        uint64_t seed = k;
        struct io_env *left = NULL;
        if (!at_open) add(rig, rule);
        if (!at_open) assert_int_equal(rig_close(rig), 0);
        const struct fault_options fo = {.record = true};
        assert_int_equal(fault_crash(rig->o.env, fault_trace_length(rig->o.env),
                                     fault_choice_seeded, &seed, &fo, &left, NULL),
                         0);
        struct rig_options o = rig->o;
        o.env = left;
        struct rig *again = malloc(sizeof *again);
        assert_non_null(again);
        rig_init(again, &o);
        if (at_open) assert_int_equal(fault_add(left, &rule), 0);
        int rc = rig_open(again);
        if (rc != 0) printf("%s\n", again->msg.text);
        assert_int_equal(rc, 0);
        fault_clear(left);
        for (uint32_t n = 3000; n < 3040; n++) { /* around the ring */
            assert_int_equal(rig_write(again, n, 300000), 0);
            rig_run(again, 100);
        }
        all_are_answered(again, 3000, 3040, true);
        check_again(again, true);
        finish(again);
        finish(rig);
    }
}

static void wal_lane_faults__prepared__each_image_has_its_memory(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_SYNC, .threads = true, .segments_max = 6};
    struct rig *rig = start(&s);
    assert_int_equal(wal_lane_wait_prepared(rig->lane), 0);
    uint64_t bytes = wal_image_bytes(rig->o.segment_bytes);
    static unsigned char here[2048];
    assert_true(bytes / 4096 <= sizeof here);
    assert_int_equal(rig->lane->images_count, s.segments_max);
    for (uint32_t i = 0; i < rig->lane->images_count; i++) {
        assert_int_equal(mincore(rig->lane->images[i]->base, bytes, here), 0);
        for (uint64_t page = 0; page < bytes / 4096; page++)
            assert_true((here[page] & 1) != 0);
    }
    finish(rig);
}

/* ---- slots that are never published ---- */

static void wal_lane_faults__slot_never_published__latches_and_answers_those_behind(void **state)
{
    (void)state;
    for (int mode = WAL_SYNC; mode <= WAL_OFF; mode++) {
        const struct setting s = {.mode = (enum wal_mode)mode};
        struct rig *rig = start(&s);
        assert_int_equal(rig_reserve(rig, 1, 100), 0);
        assert_int_equal(rig_write(rig, 2, 100), 0);
        rig_run(rig, 10);
        assert_false(rig_answered(rig, 2));
        assert_int_equal(rig->lane->stuck_looks, 1);
        rig->lane->stuck_looks = LANE_STUCK_LOOKS - 1; /* 99 looks later */
        rig->lane->stuck_look_ns -= LANE_STUCK_LOOK_NS;
        rig_run(rig, 10);
        assert_int_equal(wal_latched(rig->lane), -ETIMEDOUT);
        assert_true(rig_answered(rig, 2));
        assert_int_equal(rig->batch[2].code, -RFE_WAL_ERROR);
        assert_false(rig_answered(rig, 1));
        rig_publish(rig, 1);
        rig_run(rig, 10);
        assert_int_equal(rig->batch[1].code, -RFE_WAL_ERROR);
        assert_int_equal(atomic_load(&rig->void_calls), 2);
        assert_int_equal(wal_lane_resume(rig->lane, in_ms(10000), NULL), 0);
        assert_int_equal(rig_close(rig), 0);
        check_again(rig, false);
        finish(rig);
    }
}

/* A slot is handed out again when its batch is decided and its bytes are on their way: until the
 * lane's thread has passed it, it stands for a part of the log. */
static void wal_lane_faults__slots_decided_and_not_passed__are_not_handed_out(void **state)
{
    (void)state;
    for (int mode = WAL_ASYNC; mode <= WAL_OFF; mode++) {
        const struct setting s = {.mode = (enum wal_mode)mode};
        struct rig *rig = start(&s);
        uint32_t id = 1;
        int rc = 0;
        while (id < RIG_BATCHES_MAX && (rc = rig_reserve(rig, id, 8)) == 0)
            rig_publish(rig, id++); /* decided at once */
        assert_int_equal(rc, -EAGAIN);
        assert_in_range(id, 1000, WAL_LANE_SLOTS);
        all_are_answered(rig, 1, id, true);
        rig_run(rig, 1000);
        assert_int_equal(rig_write(rig, id, 100), 0);
        assert_int_equal(wal_flush(rig->lane, in_ms(10000)), 0);
        all_are_answered(rig, id, id + 1, true);
        finish(rig);
    }
}

/* ---- views that are closed ---- */

/* Whoever is told that a view is closed answers for it to others: what was undecided then does not
 * come up behind a power failure either, so the record that voids it is durable. */
static void wal_lane_faults__view_is_closed__what_it_fenced_never_comes_up(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_SYNC, .record = true};
    struct rig *rig = start(&s);
    assert_int_equal(rig_write(rig, 1, 5000), 0);
    for (uint32_t turn = 0; turn < 100 && wal_durable(rig->lane) < wal_reserved(rig->lane); turn++)
        (void)lane_write_step(rig->lane); /* durable, and nobody has decided */
    assert_int_equal(wal_durable(rig->lane), wal_reserved(rig->lane));
    assert_false(rig_answered(rig, 1));
    assert_int_equal(rig_reserve(rig, 2, 100), 0);
    uint64_t view = atomic_load(&rig->view) + (UINT64_C(1) << RIG_EPOCH_SHIFT);
    atomic_store(&rig->live, false);
    atomic_store(&rig->view, view);
    assert_false(wal_view_is_closed(rig->lane, view));
    rig_publish(rig, 2);
    uint32_t turns = 0;
    for (; !wal_view_is_closed(rig->lane, view); turns++) {
        assert_true(turns < 1000);
        (void)lane_step(rig->lane);
    }
    uint64_t closed_at = fault_trace_length(rig->o.env);
    rig_run(rig, 100);
    for (uint32_t id = 1; id <= 2; id++) {
        assert_true(rig_answered(rig, id));
        assert_int_equal(rig->batch[id].code, -RFE_LEASE_FENCED_RETRY);
    }
    check_as_of(rig, true, closed_at);
    atomic_store(&rig->live, true);
    finish(rig);
}

/* ---- batches that fit no more ---- */

static void wal_lane_faults__many_unfit_batches__all_are_named(void **state)
{
    (void)state;
    for (int mode = WAL_SYNC; mode <= WAL_ASYNC; mode++) {
        const struct setting s = {.mode = (enum wal_mode)mode};
        struct rig *rig = start(&s);
        uint32_t n = 1500;
        for (uint32_t id = 1; id <= n; id++)
            assert_int_equal(rig_reserve(rig, id, 8), 0);
        uint64_t view = atomic_load(&rig->view);
        atomic_store(&rig->view, view + 1);
        atomic_store(&rig->fits_from, view + 1);
        for (uint32_t id = n; id >= 1; id--)
            rig_publish(rig, id);
        rig_run(rig, 1000);
        for (uint32_t id = 1; id <= n; id++) {
            assert_true(rig_answered(rig, id));
            assert_int_equal(rig->batch[id].code, -RFE_SCHEMA_CHANGED);
        }
        assert_int_equal(rig_write(rig, n + 1, 100), 0);
        assert_int_equal(rig_close(rig), 0);
        check_again(rig, false);
        finish(rig);
    }
}

static void wal_lane_faults__unfit_while_an_abort_record_is_on_its_way__named_too(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_SYNC, .fua = true, .record = true, .depth = 2};
    struct rig *rig = start(&s);
    uint64_t view = atomic_load(&rig->view);
    assert_int_equal(rig_write(rig, 1, 150000), 0); /* under view */
    atomic_store(&rig->view, view + 1);
    assert_int_equal(rig_write(rig, 2, 150000), 0); /* under view + 1 */
    atomic_store(&rig->fits_from, view + 1);
    (void)lane_step(rig->lane); /* both are durable; the abort record of 1 is reserved */
    (void)lane_step(rig->lane);
    assert_false(rig_answered(rig, 1));
    atomic_store(&rig->view, view + 2);
    atomic_store(&rig->fits_from, view + 2);
    rig_run(rig, 100);
    for (uint32_t id = 1; id <= 2; id++) {
        assert_true(rig_answered(rig, id));
        assert_int_equal(rig->batch[id].code, -RFE_SCHEMA_CHANGED);
    }
    check_again(rig, true);
    finish(rig);
}

static _Atomic int ways_chosen;
static void note_way(void *ctx, int level, const char *event, const char *fields)
{
    (void)ctx, (void)level, (void)fields;
    if (strcmp(event, "wal.durable_way") == 0) atomic_fetch_add(&ways_chosen, 1);
}

/* Both durable writes in turns, then one of them: whichever it is, what is answered was synced. */
static void wal_lane_faults__fua__both_ways_are_tried_and_each_is_durable(void **state)
{
    (void)state;
    static const struct log log = {.level = LOG_LEVEL_INFO, .callback = note_way};
    enum { BATCHES = DURABLE_WAY_TURNS * DURABLE_WAY_TURN_WRITES + 20 };
    for (uint64_t seed = 0; seed < 4; seed++) {
        const struct setting s = {
            .mode = WAL_SYNC, .fua = true, .record = true, .seed = seed, .depth = 4, .log = &log};
        atomic_store(&ways_chosen, 0);
        struct rig *rig = start(&s);
        for (uint32_t id = 1; id <= BATCHES; id++) { /* a write each */
            assert_int_equal(rig_write(rig, id, 150000), 0);
            for (int i = 0; i < 100 && !rig_answered(rig, id); i++)
                rig_run(rig, 1);
        }
        all_are_answered(rig, 1, BATCHES + 1, true);
        assert_int_equal(atomic_load(&ways_chosen), 1);
        uint32_t plain = 0, dsync = 0, acknowledged = 0;
        for (uint64_t i = 0; i < fault_trace_length(rig->o.env); i++) {
            struct fault_event e;
            fault_trace_event(rig->o.env, i, &e);
            if (e.kind != FAULT_EVENT_WRITE_SUBMITTED || e.bytes < 150000) continue;
            if (strstr(e.path, NUMBERED) == NULL) continue;
            if ((e.flags & IO_DSYNC) != 0)
                dsync++;
            else
                plain++;
        }
        assert_true(plain >= 40 && dsync >= 40);
        assert_true(rig_was_synced(rig, &acknowledged));
        assert_int_equal(acknowledged, BATCHES);
        finish(rig);
    }
}

/* The log is full to the writers' limit, and nothing of it is decided: what has to be said of those
 * batches still finds room. */
static void wal_lane_faults__log_is_full__fence_and_abort_records_find_room(void **state)
{
    (void)state;
    for (uint32_t blocks = 0; blocks < 3; blocks++)
        for (uint32_t how = 0; how < 3; how++) {
            static const uint32_t block_bytes[] = {4096, 512, 65536};
            struct io_env *env;
            const struct fault_options fo = {.seed = 0, .block_bytes = block_bytes[blocks]};
            assert_int_equal(fault_env_open(&fo, &env), 0);
            const struct rig_options o = {.env = env,
                                          .segment_bytes = UINT64_C(4) << 20,
                                          .block_bytes = block_bytes[blocks],
                                          .segments_max = 4};
            struct rig *rig = malloc(sizeof *rig);
            assert_non_null(rig);
            rig_init(rig, &o);
            assert_int_equal(rig_open(rig), 0);
            uint32_t id = 1;
            for (uint32_t bytes = 200000; bytes >= 200; bytes /= 1000)
                while (id < 4000) {
                    for (bool did = true; did;)
                        assert_int_equal(lane_prep_step(rig->lane, &did), 0);
                    if (rig_reserve(rig, id, bytes) != 0) break;
                    rig_publish(rig, id++);
                }
            assert_in_range(id, 100, 3999);
            uint64_t view = atomic_load(&rig->view);
            if (how == 0) atomic_store(&rig->live, false);
            if (how == 1) atomic_store(&rig->view, view + (UINT64_C(1) << RIG_EPOCH_SHIFT));
            if (how == 2) atomic_store(&rig->view, view + 1);
            if (how == 2) atomic_store(&rig->fits_from, view + 1);
            rig_run(rig, 2000);
            int code = how == 2 ? -RFE_SCHEMA_CHANGED : -RFE_LEASE_FENCED_RETRY;
            for (uint32_t i = 1; i < id; i++) {
                assert_true(rig_answered(rig, i));
                assert_int_equal(rig->batch[i].code, code);
            }
            atomic_store(&rig->live, true);
            assert_int_equal(rig_write(rig, 4000, 1000), 0);
            rig_run(rig, 100);
            all_are_answered(rig, 4000, 4001, true);
            finish(rig);
        }
}

/* ---- space ---- */

static void wal_lane_faults__disk_full__waits_time_out_and_go_on_with_space(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_SYNC, .threads = true, .segments_max = 8};
    const struct fault_options fo = {.seed = 0};
    struct io_env *env;
    assert_int_equal(fault_env_open(&fo, &env), 0);
    fault_set_space(env, (UINT64_C(3) << 20) + 100000); /* three segments */
    const struct rig_options o = {.env = env, .mode = s.mode, .threads = true, .segments_max = 8};
    struct rig *rig = malloc(sizeof *rig);
    assert_non_null(rig);
    rig_init(rig, &o);
    assert_int_equal(rig_open(rig), 0);
    uint32_t id = 1;
    int rc = 0;
    for (; rc == 0 && id < 60; id++) {
        struct rig_batch *b = &rig->batch[id];
        rc = rig_reserve(rig, id, 200000);
        if (rc == -EAGAIN)
            rc = wal_reserve_wait(rig->lane, 200000, 64, atomic_load(&rig->view), &b->ticket,
                                  in_ms(150), NULL, NULL, &b->r);
        if (rc == 0) {
            rig_publish(rig, id);
            assert_int_equal(rig_wait(rig, id), 0);
        }
    }
    assert_int_equal(rc, -RFE_DISK_FULL);
    assert_in_range(id, 6, 16);
    assert_int_equal(wal_latched(rig->lane), 0);
    fault_set_space(env, UINT64_C(64) << 20);
    struct rig_batch *b = &rig->batch[id];
    *b = (struct rig_batch){.ticket = {.done = rig->batch[1].ticket.done}, .rig = rig, .id = id};
    assert_int_equal(wal_reserve_wait(rig->lane, 200000, 64, atomic_load(&rig->view), &b->ticket,
                                      in_ms(10000), NULL, NULL, &b->r),
                     0);
    rig_give_up(rig, id);
    finish(rig);
}

static void wal_lane_faults__names_that_are_not_synced__segments_are_made_again(void **state)
{
    (void)state;
    static const unsigned targets[] = {FAULT_ON_NAME, FAULT_ON_SYNC_DIR, FAULT_ON_OPEN,
                                       FAULT_ON_SIZE, FAULT_ON_SYNC,     FAULT_ON_WRITE};
    for (uint32_t t = 0; t < 6; t++)
        for (uint64_t k = 0; k < 6; k++) {
            const struct setting s = {.mode = WAL_SYNC, .record = true, .segments_max = 4};
            struct rig *rig = start(&s);
            add(rig, (struct fault_rule){.kind = FAULT_ERROR,
                                         .targets = targets[t],
                                         .path = t == 1 ? "lane-00" : "lane-00/free",
                                         .skip = k,
                                         .times = 2,
                                         .error = EIO});
            for (uint32_t id = 1; id <= 30; id++) { /* several times around the ring */
                assert_int_equal(rig_write(rig, id, 300000), 0);
                rig_run(rig, 100);
            }
            all_are_answered(rig, 1, 31, true);
            assert_int_equal(wal_latched(rig->lane), 0);
            fault_clear(rig->o.env);
            finish(rig);
        }
}

static void wal_lane_faults__manifest_is_not_written__nothing_is_freed(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_SYNC};
    struct rig *rig = start(&s);
    for (uint32_t id = 1; id <= 8; id++) {
        assert_int_equal(rig_write(rig, id, 300000), 0);
        rig_run(rig, 100);
    }
    uint64_t oldest = wal_oldest(rig->lane);
    atomic_store(&rig->head_error, -EIO);
    assert_int_equal(rig_trim(rig), -EIO);
    rig_run(rig, 10);
    assert_int_equal(wal_oldest(rig->lane), oldest);
    atomic_store(&rig->head_error, 0);
    assert_int_equal(rig_trim(rig), 0);
    assert_true(wal_oldest(rig->lane) > oldest);
    finish(rig);
}

/* More than a segment is visible and not durable, then durable and not visible: nothing of it goes. */
static void wal_lane_faults__trim_above_a_mark__frees_nothing(void **state)
{
    (void)state;
    for (int mode = WAL_SYNC; mode <= WAL_ASYNC; mode++) {
        const struct setting s = {.mode = (enum wal_mode)mode, .record = true, .segments_max = 8};
        struct rig *rig = start(&s);
        for (uint32_t id = 1; id <= 5; id++) {
            for (bool did = true; did;)
                assert_int_equal(lane_prep_step(rig->lane, &did), 0);
            assert_int_equal(rig_reserve(rig, id, 300000), 0);
            rig_publish(rig, id);
        }
        uint64_t oldest = wal_oldest(rig->lane), end = wal_reserved(rig->lane);
        assert_true(lsn_segment(end, rig->o.segment_bytes) > 1);
        struct io_event event;
        for (uint32_t turn = 0; mode == WAL_SYNC && turn < 1000 && wal_durable(rig->lane) < end;
             turn++) {
            (void)lane_write_step(rig->lane); /* and nobody decides */
            if (io_queue_wait(rig->lane->queue, &event, 1, 0) == 1)
                lane_handle_event(rig->lane, &event);
        }
        /* A flush that would come before the trim has no use. */
        if (mode == WAL_ASYNC) lane_latch(rig->lane, -EIO, "test");
        assert_int_equal(wal_durable(rig->lane) >= end, mode == WAL_SYNC);
        assert_int_equal(wal_visible(rig->lane) >= end, mode == WAL_ASYNC);
        assert_int_equal(wal_trim(rig->lane, UINT64_MAX), 0);
        assert_int_equal(wal_oldest(rig->lane), oldest);
        assert_int_equal(wal_lane_resume(rig->lane, in_ms(10000), NULL), 0);
        rig_run(rig, 100);
        all_are_answered(rig, 1, 6, true);
        check_again(rig, true);
        assert_int_equal(wal_trim(rig->lane, UINT64_MAX), 0);
        assert_true(wal_oldest(rig->lane) > oldest);
        finish(rig);
    }
}

static void wal_lane_faults__scan_holds_an_image__it_is_not_used_again(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_SYNC, .segments_max = 4};
    struct rig *rig = start(&s);
    assert_int_equal(rig_write(rig, 1, 300000), 0);
    rig_run(rig, 100);
    struct wal_image *image = rig->batch[1].r.image;
    uint64_t number = image->number;
    atomic_store(&rig->pins, 1);
    uint32_t id = 2;
    while (rig_reserve(rig, id, 300000) == 0) {
        rig_publish(rig, id++);
        rig_run(rig, 100);
        assert_int_equal(rig_trim(rig), 0);
    }
    assert_true(id > 7);
    assert_true(wal_oldest(rig->lane) > rig->batch[1].ticket.lsn);
    assert_int_equal(image->number, number);
    assert_int_equal(image->base[rig->batch[1].r.payload - image->base], 1); /* its id */
    atomic_store(&rig->pins, 0);
    assert_int_equal(rig_write(rig, id, 300000), 0);
    rig_run(rig, 100);
    assert_true(rig_answered(rig, id));
    finish(rig);
}

/* ---- the end ---- */

static _Atomic int leak_events;
static void note_leak(void *ctx, int level, const char *event, const char *fields)
{
    (void)ctx, (void)level, (void)fields;
    if (strcmp(event, "wal.close_leaked") == 0) atomic_fetch_add(&leak_events, 1);
}

static void wal_lane_faults__device_never_answers__close_leaks_and_says_so(void **state)
{
    (void)state;
    static const struct log log = {.level = LOG_LEVEL_INFO, .callback = note_leak};
    const struct setting s = {
        .mode = WAL_SYNC, .threads = true, .close_wait_ns = 200000000, .log = &log};
    struct rig *rig = start(&s);
    add(rig,
        (struct fault_rule){
            .kind = FAULT_DELAY, .targets = FAULT_ON_WRITE, .path = NUMBERED, .times = UINT64_MAX});
    assert_int_equal(wal_lane_wait_prepared(rig->lane), 0);
    assert_int_equal(rig_write(rig, 1, 200000), 0);
    assert_int_equal(wal_flush(rig->lane, in_ms(50)), -ETIMEDOUT);
    int64_t began_ns = clock_read_ns(CLOCK_MONOTONIC);
    assert_int_equal(rig_close(rig), -ETIMEDOUT);
    assert_true(clock_read_ns(CLOCK_MONOTONIC) - began_ns < INT64_C(2000000000));
    assert_int_equal(atomic_load(&leak_events), 1);
    /* The lane's memory is still the device's: it can answer. Rig and environment stay with it. */
    fault_release(rig->o.env);
    assert_int_equal(rig_wait(rig, 1), 0);
}

static void wal_lane_faults__closed_and_forked__no_writes_from_the_child(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_ASYNC};
    struct rig *rig = start(&s);
    assert_int_equal(rig_write(rig, 1, 1000), 0);
    rig_run(rig, 100);
    uint64_t writes = fault_operations(rig->o.env, FAULT_ON_WRITE);
    assert_int_equal(wal_lane_close(rig->lane, true), 0); /* as a forked child does */
    rig->lane = NULL;
    assert_int_equal(fault_operations(rig->o.env, FAULT_ON_WRITE), writes);
    finish(rig);
}

/* ---- what a lane does not do ---- */

static void wal_lane_faults__off__writes_at_flush_trim_and_close_only(void **state)
{
    (void)state;
    const struct setting s = {.mode = WAL_OFF};
    struct rig *rig = start(&s);
    rig_run(rig, 100);
    uint64_t before = atomic_load(&rig->lane->stat_writes);
    for (uint32_t id = 1; id <= 8; id++) { /* more than a segment */
        assert_int_equal(rig_write(rig, id, 200000), 0);
        rig_run(rig, 100);
        assert_true(rig_answered(rig, id));
    }
    assert_int_equal(atomic_load(&rig->lane->stat_writes), before);
    assert_int_equal(rig_trim(rig), 0);
    assert_true(wal_oldest(rig->lane) > rig->batch[1].ticket.lsn);
    assert_true(wal_durable(rig->lane) < rig->batch[8].ticket.lsn);
    assert_int_equal(wal_flush(rig->lane, in_ms(10000)), 0);
    assert_true(wal_durable(rig->lane) > rig->batch[8].ticket.lsn);
    assert_int_equal(rig_write(rig, 9, 100), 0);
    finish(rig);
}

static int64_t cpu_ns(void)
{
    struct rusage u;
    assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000000) +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * INT64_C(1000);
}

static void wal_lane_faults__idle__nobody_wakes_up(void **state)
{
    (void)state;
    for (int mode = WAL_SYNC; mode <= WAL_OFF; mode++) {
        const struct setting s = {.mode = (enum wal_mode)mode, .threads = true};
        struct rig *rig = start(&s);
        for (uint32_t id = 1; id <= 5; id++) {
            assert_int_equal(rig_write(rig, id, 10000), 0);
            assert_int_equal(rig_wait(rig, id), 0);
        }
        assert_int_equal(wal_lane_wait_prepared(rig->lane), 0);
        usleep(1300000); /* the mark record */
        uint64_t sleeps = atomic_load(&rig->lane->stat_sleeps);
        uint64_t prep_sleeps = atomic_load(&rig->lane->stat_prep_sleeps);
        int64_t cpu = cpu_ns();
        usleep(1500000);
        assert_int_equal(atomic_load(&rig->lane->stat_sleeps), sleeps);
        assert_int_equal(atomic_load(&rig->lane->stat_prep_sleeps), prep_sleeps);
        assert_true(cpu_ns() - cpu < INT64_C(1500000000) / 200); /* 0.5 % of a core */
        finish(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_lane_faults__mark_due_while_closing__log_ends_clean),
        cmocka_unit_test(wal_lane_faults__always_short_of_a_block__latches),
        cmocka_unit_test(wal_lane_faults__completions_in_any_order__mark_passes_no_hole),
        cmocka_unit_test(wal_lane_faults__first_write_is_late__later_ones_wait_for_it),
        cmocka_unit_test(wal_lane_faults__resume_while_a_write_is_in_flight__times_out_then_works),
        cmocka_unit_test(
            wal_lane_faults__more_waits_than_a_lone_write_takes__goes_through_the_queue),
        cmocka_unit_test(wal_lane_faults__resume_on_real_files__log_opens_clean),
        cmocka_unit_test(wal_lane_faults__zeros_not_there_yet__writers_wait_for_them),
        cmocka_unit_test(wal_lane_faults__no_successor_yet__segment_takes_no_record),
        cmocka_unit_test(wal_lane_faults__resume_over_segments_of_void__log_goes_on_behind_them),
        cmocka_unit_test(wal_lane_faults__writer_came_to_a_late_segment__twice_as_many_are_kept),
        cmocka_unit_test(
            wal_lane_faults__second_burst_that_fits_the_ring__finds_each_segment_ready),
        cmocka_unit_test(wal_lane_faults__many_ready__given_back_at_close),
        cmocka_unit_test(wal_lane_faults__power_fails_with_many_ready__given_back_at_open),
        cmocka_unit_test(wal_lane_faults__giving_back_fails__chain_has_no_gap),
        cmocka_unit_test(wal_lane_faults__prepared__each_image_has_its_memory),
        cmocka_unit_test(wal_lane_faults__slot_never_published__latches_and_answers_those_behind),
        cmocka_unit_test(wal_lane_faults__slots_decided_and_not_passed__are_not_handed_out),
        cmocka_unit_test(wal_lane_faults__view_is_closed__what_it_fenced_never_comes_up),
        cmocka_unit_test(wal_lane_faults__many_unfit_batches__all_are_named),
        cmocka_unit_test(wal_lane_faults__unfit_while_an_abort_record_is_on_its_way__named_too),
        cmocka_unit_test(wal_lane_faults__disk_full__waits_time_out_and_go_on_with_space),
        cmocka_unit_test(wal_lane_faults__names_that_are_not_synced__segments_are_made_again),
        cmocka_unit_test(wal_lane_faults__fua__both_ways_are_tried_and_each_is_durable),
        cmocka_unit_test(wal_lane_faults__log_is_full__fence_and_abort_records_find_room),
        cmocka_unit_test(wal_lane_faults__manifest_is_not_written__nothing_is_freed),
        cmocka_unit_test(wal_lane_faults__trim_above_a_mark__frees_nothing),
        cmocka_unit_test(wal_lane_faults__scan_holds_an_image__it_is_not_used_again),
        cmocka_unit_test(wal_lane_faults__device_never_answers__close_leaks_and_says_so),
        cmocka_unit_test(wal_lane_faults__closed_and_forked__no_writes_from_the_child),
        cmocka_unit_test(wal_lane_faults__off__writes_at_flush_trim_and_close_only),
        cmocka_unit_test(wal_lane_faults__idle__nobody_wakes_up),
        cmocka_unit_test(wal_lane_faults__short_by_any_size__nothing_is_lost),
        cmocka_unit_test(wal_lane_faults__each_write_and_sync_fails__latches_resumes_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
