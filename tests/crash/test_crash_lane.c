/* ctest: timeout=300 */
/* The power fails at every event of what a lane does, over the fault double: what was durable stays,
 * every block and name that was not is kept, dropped or torn. Then replay, and a second life on top
 * of what was discarded, and a second failure. */
#include "base/clock.h"
#include "tests/lib/lane_rig.h"
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

#include <cmocka.h>

#define OPEN_MAX 3u /* batches reserved and not published */

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

struct life {
    struct rig *rig;
    uint64_t seed;
    uint32_t next_id;
    uint32_t open[OPEN_MAX];
    bool faults; /* now and then a write or a sync fails */
    uint32_t resumes;
};

static uint32_t dice(struct life *l, uint32_t sides)
{
    return (uint32_t)(mix(l->seed++) % sides);
}

static void begin_batch(struct life *l)
{
    uint32_t slot = dice(l, OPEN_MAX);
    if (l->open[slot] != 0) return;
    static const uint32_t sizes[] = {8, 100, 3000, 4032, 4033, 20000, 90000, 300000};
    uint32_t bytes = sizes[dice(l, 8)];
    int rc = rig_reserve(l->rig, l->next_id, bytes);
    if (rc == -EAGAIN && wal_latched(l->rig->lane) == 0) (void)rig_trim(l->rig);
    if (rc == 0) l->open[slot] = l->next_id++;
}

static void end_batch(struct life *l)
{
    uint32_t slot = dice(l, OPEN_MAX);
    if (l->open[slot] == 0) return;
    if (dice(l, 12) == 0)
        rig_give_up(l->rig, l->open[slot]);
    else
        rig_publish(l->rig, l->open[slot]);
    l->open[slot] = 0;
}

static void end_all(struct life *l)
{
    for (uint32_t i = 0; i < OPEN_MAX; i++) {
        if (l->open[i] != 0) rig_publish(l->rig, l->open[i]);
        l->open[i] = 0;
    }
}

static void resume(struct life *l)
{
    end_all(l);
    fault_clear(l->rig->o.env);
    int64_t deadline_ns = clock_read_ns(CLOCK_MONOTONIC) + INT64_C(10000000000);
    struct err_msg msg = {0};
    int rc = wal_lane_resume(l->rig->lane, deadline_ns, &msg);
    if (rc != 0) printf("resume: %s\n", msg.text);
    assert_int_equal(rc, 0);
    fault_mark(l->rig->o.env, RIG_TOLD_RESUMED);
    l->resumes++;
}

static void one_fault(struct life *l)
{
    static const int errors[] = {EIO, ENOSPC};
    struct fault_rule rule = {.kind = FAULT_ERROR,
                              .targets = dice(l, 2) == 0 ? FAULT_ON_WRITE : FAULT_ON_SYNC,
                              .path = "lane-00/0",
                              .skip = dice(l, 3),
                              .times = 1,
                              .error = errors[dice(l, 2)]};
    assert_int_equal(fault_add(l->rig->o.env, &rule), 0);
}

static void act(struct life *l)
{
    struct rig *rig = l->rig;
    uint32_t what = dice(l, 100);
    uint64_t view = atomic_load(&rig->view);
    if (what < 35)
        begin_batch(l);
    else if (what < 65)
        end_batch(l);
    else if (what < 88)
        rig_run(rig, 1 + dice(l, 5));
    else if (what < 90)
        atomic_store(&rig->view, view + 1);
    else if (what < 92) {
        atomic_store(&rig->view, view + 1);
        atomic_store(&rig->fits_from, view + 1);
    } else if (what < 94)
        atomic_store(&rig->view, ((view >> RIG_EPOCH_SHIFT) + 1) << RIG_EPOCH_SHIFT);
    else if (what < 96)
        atomic_store(&rig->live, !atomic_load(&rig->live));
    else if (what < 98)
        (void)wal_view_is_closed(rig->lane, atomic_load(&rig->view));
    else if (l->faults)
        one_fault(l);
    if (wal_latched(rig->lane) != 0 && dice(l, 3) == 0) resume(l);
}

static void live(struct life *l, uint32_t acts, bool to_the_end)
{
    for (uint32_t i = 0; i < acts; i++)
        act(l);
    if (!to_the_end) return;
    end_all(l);
    atomic_store(&l->rig->live, true);
    rig_run(l->rig, 4000);
    if (wal_latched(l->rig->lane) != 0) resume(l);
    for (uint32_t id = 1; id < l->next_id; id++)
        if (!l->rig->batch[id].given_up && l->rig->batch[id].rig != NULL)
            assert_true(rig_answered(l->rig, id));
}

/* Segments of a ring: few, so that it is full at times; or many, all of them ready. */
#define RING_FEW  5u
#define RING_MANY 12u

static struct rig *rig_new(struct io_env *env, enum wal_mode mode, uint32_t depth, uint32_t ring)
{
    struct rig *rig = malloc(sizeof *rig);
    assert_non_null(rig);
    const struct rig_options o = {.env = env,
                                  .is_fault = true,
                                  .mode = mode,
                                  .depth = depth,
                                  .write_bytes = 65536, /* long records take several */
                                  .segments_max = ring};
    rig_init(rig, &o);
    return rig;
}

static void rig_end(struct rig *rig)
{
    if (rig->lane != NULL) (void)rig_close(rig);
    free(rig);
}

struct failure {
    struct life *life;
    uint64_t at;
    uint64_t seed; /* of the choices; 0: drop, 1: keep */
};

static struct io_env *crash(struct io_env *env, const struct failure *f, bool record)
{
    uint64_t state = f->seed;
    struct io_env *left;
    const struct fault_options o = {.seed = f->seed, .record = record};
    fault_choice *choice = f->seed == 0   ? fault_choice_drop
                           : f->seed == 1 ? fault_choice_keep
                                          : fault_choice_seeded;
    assert_int_equal(fault_crash(env, f->at, choice, &state, &o, &left, NULL), 0);
    return left;
}

/* Replays what a failure left and compares. */
static struct rig *replay_checked(struct io_env *left, struct rig *told, const enum rig_fate *fates,
                                  uint64_t trimmed, const struct failure *f)
{
    struct rig *rig = rig_new(left, told->o.mode, told->o.depth, told->o.segments_max);
    int rc = rig_open(rig);
    if (rc != 0 || !rig_check(rig, told, fates, trimmed)) {
        printf("at event %" PRIu64 ", choices %" PRIu64 ": %s %s\n", f->at, f->seed,
               rc != 0 ? err_name(rc) : "", rig->msg.text);
        for (uint64_t i = f->at < 24 ? 0 : f->at - 24; i < f->at; i++) {
            char text[200];
            fault_trace_describe(told->o.env, i, text, sizeof text);
            printf("  %s\n", text);
        }
        fail();
    }
    return rig;
}

/* What a replay brought up has to stay; what it did not may not come back. */
static void settle_fates(const struct rig *replayed, const enum rig_fate *before,
                         enum rig_fate *after)
{
    for (uint32_t id = 0; id < RIG_BATCHES_MAX; id++)
        after[id] = before[id] == RIG_NONE ? RIG_NONE : RIG_REFUSED;
    for (uint32_t i = 0; i < replayed->replayed_count; i++)
        after[replayed->replayed[i]] = RIG_ACKNOWLEDGED;
}

static enum rig_fate fates[RIG_BATCHES_MAX], settled[RIG_BATCHES_MAX], later[RIG_BATCHES_MAX];

/* A second life on what the first failure left, and a second failure in it. */
static void second_life(const struct failure *first, struct rig *told, uint64_t trimmed,
                        uint64_t *images)
{
    struct io_env *left = crash(told->o.env, first, true);
    struct rig *rig = replay_checked(left, told, fates, trimmed, first);
    settle_fates(rig, fates, settled);
    for (uint32_t id = 1; id < RIG_BATCHES_MAX; id++)
        rig->batch[id].r.lsn = told->batch[id].r.lsn;
    struct life l = {.rig = rig, .seed = mix(first->at * 7 + first->seed), .next_id = 2000};
    live(&l, 16, false);
    uint64_t length = fault_trace_length(left);
    for (int n = 0; n < 4; n++) {
        struct failure second = {.at = mix(l.seed++) % (length + 1), .seed = (uint64_t)n};
        uint64_t trimmed_later;
        rig_fates(rig, second.at, later, &trimmed_later);
        for (uint32_t id = 0; id < RIG_BATCHES_MAX; id++)
            if (later[id] == RIG_NONE) later[id] = settled[id];
        struct io_env *left_again = crash(left, &second, false);
        if (trimmed_later < trimmed) trimmed_later = trimmed;
        rig_end(replay_checked(left_again, rig, later, trimmed_later, &second));
        io_env_close(left_again);
        ++*images;
    }
    end_all(&l);
    rig_end(rig);
    io_env_close(left);
}

/* Where few blocks and names were not durable: each subset of them kept, the others dropped. */
enum { FEW = 5 };

static enum fault_fate as_masked(void *ctx, uint64_t index, bool is_name)
{
    const uint64_t *mask = ctx;
    (void)is_name;
    return index < FEW && (*mask >> index & 1) != 0 ? FAULT_KEEP : FAULT_DROP;
}

static void every_subset(struct rig *told, uint64_t at, uint64_t trimmed, uint64_t *subsets)
{
    const struct fault_options o = {.seed = 0};
    uint64_t undecided = 1;
    for (uint64_t mask = 0; mask < UINT64_C(1) << undecided; mask++) {
        struct io_env *left;
        struct failure f = {.at = at, .seed = mask};
        assert_int_equal(fault_crash(told->o.env, at, as_masked, &mask, &o, &left, &undecided), 0);
        if (undecided > FEW) undecided = 0; /* the seeded choices look at some of them */
        if (undecided != 0) {
            rig_end(replay_checked(left, told, fates, trimmed, &f));
            ++*subsets;
        }
        io_env_close(left);
    }
}

static void fail_everywhere(struct rig *told, uint64_t seed, uint64_t *images, uint64_t *subsets)
{
    uint64_t length = fault_trace_length(told->o.env);
    for (uint64_t at = 0; at <= length; at++) {
        uint64_t trimmed;
        rig_fates(told, at, fates, &trimmed);
        if ((at + seed) % 2 == 0) every_subset(told, at, trimmed, subsets);
        for (uint64_t choices = 0; choices < 4; choices++) {
            struct failure f = {.at = at, .seed = choices < 2 ? choices : seed + at * 4 + choices};
            if ((at + choices) % 3 == 0 && choices != 0) continue;
            struct io_env *left = crash(told->o.env, &f, false);
            rig_end(replay_checked(left, told, fates, trimmed, &f));
            io_env_close(left);
            ++*images;
            if ((at + choices) % 7 == 0) second_life(&f, told, trimmed, images);
        }
    }
}

static uint64_t first_seed(void)
{
    const char *text = getenv("RF_SEED");
    return text != NULL ? strtoull(text, NULL, 10) : 20261130;
}

/* As in a lane whose writers have often come to a segment that was not ready. */
static void keep_all_ready(struct rig *rig)
{
    rig->lane->ready_kept = rig->o.segments_max;
    rig_run(rig, 1);
    assert_int_equal(atomic_load(&rig->lane->ready_number), rig->o.segments_max);
}

static void lives(enum wal_mode mode, bool faults, uint32_t ring, uint32_t rounds)
{
    uint64_t images = 0, subsets = 0, resumes = 0, given = first_seed();
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t seed = given + i;
        printf("mode %d, RF_SEED=%" PRIu64 "\n", mode, seed);
        struct io_env *env;
        const struct fault_options fo = {
            .seed = seed % 3 == 0 ? 0 : seed, .fua = seed % 5 == 0, .record = true};
        assert_int_equal(fault_env_open(&fo, &env), 0);
        static const uint32_t depths[] = {4, 1, 2};
        struct rig *rig = rig_new(env, mode, depths[seed % 3], ring);
        assert_int_equal(rig_open(rig), 0);
        if (ring == RING_MANY) keep_all_ready(rig);
        struct life l = {.rig = rig, .seed = seed * 1000003, .next_id = 1, .faults = faults};
        live(&l, 110, true);
        if (seed % 2 == 0 || ring == RING_MANY) assert_int_equal(rig_close(rig), 0);
        if (mode == WAL_SYNC) {
            uint32_t acknowledged;
            assert_true(rig_was_synced(rig, &acknowledged));
            assert_true(acknowledged > 0);
        }
        fail_everywhere(rig, seed, &images, &subsets);
        resumes += l.resumes;
        rig_end(rig);
        io_env_close(env);
    }
    printf("mode %d: %" PRIu64 " crash images, %" PRIu64 " of every subset, %" PRIu64 " resumes\n",
           mode, images + subsets, subsets, resumes);
    assert_true(images > 100);
    if (faults) assert_true(resumes > 0);
}

static void crash_lane__sync_at_every_event__acknowledged_is_there(void **state)
{
    (void)state;
    lives(WAL_SYNC, false, RING_FEW, 4);
}
static void crash_lane__async_and_off_at_every_event__prefix_is_there(void **state)
{
    (void)state;
    lives(WAL_ASYNC, false, RING_FEW, 2);
    lives(WAL_OFF, false, RING_FEW, 1);
}
static void crash_lane__failed_writes_and_resumes__unknown_is_absent(void **state)
{
    (void)state;
    lives(WAL_SYNC, true, RING_FEW, 4);
    lives(WAL_ASYNC, true, RING_FEW, 3);
}

/* More segments ready than are written: the chain has no gap while they are made, given back at the
 * close, or given back at the next open. */
static void crash_lane__many_segments_ready__chain_has_no_gap(void **state)
{
    (void)state;
    lives(WAL_SYNC, false, RING_MANY, 1);
    lives(WAL_ASYNC, true, RING_MANY, 2);
    lives(WAL_OFF, false, RING_MANY, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crash_lane__sync_at_every_event__acknowledged_is_there),
        cmocka_unit_test(crash_lane__async_and_off_at_every_event__prefix_is_there),
        cmocka_unit_test(crash_lane__failed_writes_and_resumes__unknown_is_absent),
        cmocka_unit_test(crash_lane__many_segments_ready__chain_has_no_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
