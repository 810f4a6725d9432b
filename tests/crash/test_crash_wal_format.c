/* Power failures and errors while the log's own files are written: the cut, segment headers, the
 * manifest, a creation. At every write, sync and rename of a recorded run the power fails, with what
 * was not durable kept, dropped or torn; then everything is done again and must come to the same.
 * ctest: timeout=300 */
#include "io/fault.h"
#include "tests/lib/log_builder.h"
#include "wal/cut.h"
#include "wal/dir.h"
#include "wal/replay.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEGMENT = 1 << 20, BLOCK = 4096, SEEDED = 6 };

static uint64_t seed;

static struct io_env *fault_env(bool record)
{
    const struct fault_options o = {.block_bytes = BLOCK, .record = record};
    struct io_env *env = NULL;
    assert_int_equal(fault_env_open(&o, &env), 0);
    return env;
}

/* What a crash leaves just before event `at`; way 0 drops, 1 keeps, others are seeded. */
static struct io_env *crash(struct io_env *env, uint64_t at, int way)
{
    const struct fault_options o = {.block_bytes = BLOCK};
    struct io_env *left = NULL;
    uint64_t state = seed + at * 1000003 + (uint64_t)way;
    fault_choice *choice = way == 0   ? fault_choice_drop
                           : way == 1 ? fault_choice_keep
                                      : fault_choice_seeded;
    assert_int_equal(fault_crash(env, at, choice, way > 1 ? &state : NULL, &o, &left, NULL), 0);
    return left;
}

/* ---- replay, cut, go on ---- */

struct text {
    char text[256];
};
static int note(void *ctx, const struct wal_record_head *h, const uint8_t *payload, uint64_t lsn)
{
    (void)lsn;
    strncat(((struct text *)ctx)->text, (const char *)payload, h->payload_bytes);
    return 0;
}

/* Replays and makes ready for appending (cut) or not. On success text_out is what came up. With
 * append, a batch of that text is written where the log goes on, durably. */
static struct wal_append_point last_point; /* of the last open_lane that cut */

static int open_lane(const struct log_builder *b, struct io_env *env, bool cut, const char *append,
                     char *text_out)
{
    struct builder_lane l;
    struct wal_replay_result r;
    struct text t = {""};
    struct err_msg msg = {0};
    builder_lane_open(&l, b, env);
    struct wal_replay_options o = builder_replay(b, &l);
    o.record = note;
    o.ctx = &t;
    int rc = wal_replay(&o, &msg, &r);
    struct wal_append_point at = {0};
    struct wal_cut_options c = builder_cut_options(b, &l);
    if (rc == 0 && cut) rc = wal_cut_after_replay(&c, &r.verdict, &msg, &at);
    last_point = at;
    if (rc == 0 && append != NULL) {
        uint64_t index = at.lsn / SEGMENT - l.segment[0].number;
        uint8_t *to = l.segment[index].image + at.lsn % SEGMENT;
        uint32_t n = (uint32_t)strlen(append) + 1;
        memcpy(to + WAL_RECORD_HEAD_BYTES, append, n);
        const struct wal_record_head h = {.lsn = at.lsn,
                                          .mark = at.lsn,
                                          .payload_checksum =
                                              wal_payload_checksum(append, n, at.salt),
                                          .payload_bytes = n,
                                          .covered_bytes = BLOCK,
                                          .type = WAL_RECORD_DATA,
                                          .version = WAL_RECORD_VERSION};
        wal_record_encode(to, &h, at.salt);
        rc = io_pwrite(l.segment[index].file, to, BLOCK, at.lsn % SEGMENT, 0, NULL);
        if (rc == 0) rc = io_sync(l.segment[index].file);
    }
    if (rc == -RFE_CORRUPT) print_message("%s\n", msg.text);
    if (rc == 0) snprintf(text_out, sizeof t.text, "%s", t.text);
    wal_replay_result_deinit(&r);
    builder_lane_close(&l);
    return rc;
}

/* The logs to be cut: what is whole reads "a", then a hole, then ghosts, up to the next segment. */
struct scenario {
    const char *name;
    struct log_builder b;
    const char *whole;
};

static void make_scenario(struct scenario *s, int which)
{
    static const char *const names[] = {"pair", "header", "salt", "pair over half a pair"};
    struct log_builder *b = &s->b;
    s->name = names[which];
    s->whole = "a";
    builder_init(b, SEGMENT, BLOCK, 3, 2, 77, true);
    if (which == 2) {
        s->whole = "";
    } else {
        builder_data(b, "a");
        builder_group(b);
    }
    if (which == 1) builder_void(b, SEGMENT - 4 * BLOCK);
    if (which == 3) builder_void(b, 64);
    uint64_t mark = b->mark, p = b->lsn;
    uint64_t lost = builder_data(b, "lost");
    b->mark = mark;
    builder_data(b, "ghost");
    builder_next_segment(b);
    builder_data(b, "ghost too");
    assert_int_equal(lost, p);
    *builder_at(b, lost) ^= 1;
    if (which != 3) return;
    /* One copy of a cut that was never finished is already there. */
    uint8_t blocks[2 * BLOCK];
    struct wal_cut_plan plan = wal_cut_plan(p, SEGMENT, BLOCK, false);
    wal_cut_render(blocks, &plan, BLOCK, b->head[0].salt, 0x4444);
    memcpy(builder_at(b, plan.pair_lsn), blocks, BLOCK);
}

/* After a crash: what came up before comes up again, the cut is finished, a batch appended, and
 * that is all there is. */
static void expect_continues(const struct scenario *s, struct io_env *left)
{
    char text[256], wanted[256];
    assert_int_equal(open_lane(&s->b, left, false, NULL, text), 0);
    assert_string_equal(text, s->whole);
    assert_int_equal(open_lane(&s->b, left, true, "b", text), 0);
    assert_string_equal(text, s->whole);
    snprintf(wanted, sizeof wanted, "%sb", s->whole);
    assert_int_equal(open_lane(&s->b, left, true, "c", text), 0);
    assert_string_equal(text, wanted);
    strcat(wanted, "c");
    assert_int_equal(open_lane(&s->b, left, true, NULL, text), 0);
    assert_string_equal(text, wanted);
}

static void crash_cut__power_fails_at_every_step__comes_to_the_same(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        struct scenario s;
        char text[256];
        make_scenario(&s, which);
        struct io_env *env = fault_env(true);
        builder_write_files(&s.b, env);
        uint64_t begin = fault_trace_length(env);
        assert_int_equal(open_lane(&s.b, env, true, NULL, text), 0);
        struct wal_append_point point = last_point;
        uint64_t end = fault_trace_length(env);
        struct io_env *done = crash(env, end, 0); /* durable, so it stands, with nothing kept */
        assert_int_equal(open_lane(&s.b, done, true, NULL, text), 0);
        assert_int_equal(last_point.lsn, point.lsn);
        assert_true(last_point.salt == point.salt);
        io_env_close(done);
        unsigned crashes = 0;
        for (uint64_t at = begin; at <= end; at++) {
            for (int way = 0; way < 2 + SEEDED; way++, crashes++) {
                struct io_env *left = crash(env, at, way);
                expect_continues(&s, left);
                io_env_close(left);
            }
        }
        print_message("cut, %s: events %lu, crashes %u\n", s.name, (unsigned long)(end - begin),
                      crashes);
        assert_true(end - begin > 8);
        io_env_close(env);
        builder_deinit(&s.b);
    }
}

/* The k-th operation fails: replay and cut say so, and the next try comes to the same. */
static void crash_cut__kth_operation_fails__is_said_and_can_be_repeated(void **state)
{
    (void)state;
    static const int errors[] = {EIO, ENOSPC, EINVAL};
    static const unsigned targets[] = {FAULT_ON_READ, FAULT_ON_WRITE, FAULT_ON_SYNC, FAULT_ON_SIZE,
                                       FAULT_ON_QUEUE_OPEN};
    for (int which = 0; which < 4; which++) {
        struct scenario s;
        make_scenario(&s, which);
        unsigned failures = 0;
        for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
            for (uint64_t k = 0, failed = 1; failed; k++) {
                failed = 0;
                for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
                    struct io_env *env = fault_env(false);
                    builder_write_files(&s.b, env);
                    const struct fault_rule rule = {.kind = FAULT_ERROR,
                                                    .targets = targets[t],
                                                    .skip = k,
                                                    .times = 1,
                                                    .error = errors[e]};
                    assert_int_equal(fault_add(env, &rule), 0);
                    char text[256];
                    int rc = open_lane(&s.b, env, true, NULL, text);
                    assert_true(rc == 0 || rc == -errors[e]);
                    failed |= rc != 0;
                    failures += rc != 0;
                    fault_clear(env);
                    expect_continues(&s, env);
                    io_env_close(env);
                }
            }
        }
        print_message("cut, %s: failures %u\n", s.name, failures);
        assert_true(failures > 40);
        builder_deinit(&s.b);
    }
}

/* Reads and writes that come back short are gone on with. */
static void crash_cut__short_results__are_gone_on_with(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 512, 4095, 4096, 5000, 65536, SEGMENT - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct scenario s;
        make_scenario(&s, 0);
        struct io_env *env = fault_env(false);
        builder_write_files(&s.b, env);
        const struct fault_rule rule = {.kind = FAULT_SHORT,
                                        .targets = FAULT_ON_READ,
                                        .skip = 6, /* the headers of three segments */
                                        .times = 5,
                                        .short_bytes = sizes[i]};
        assert_int_equal(fault_add(env, &rule), 0);
        expect_continues(&s, env);
        io_env_close(env);
        builder_deinit(&s.b);
    }
}

/* Bytes that only a cache holds: replay must sync before it relies on them. After a replay, what it
 * brought up survives a power failure that drops everything unsynced. */
static void crash_replay__unsynced_bytes_read__are_durable_afterwards(void **state)
{
    (void)state;
    struct log_builder b;
    char text[256];
    builder_init(&b, SEGMENT, BLOCK, 2, 1, 7, false);
    struct io_env *env = fault_env(true);
    builder_write_files(&b, env);
    builder_data(&b, "cached");
    builder_group(&b);
    struct io_file *file = NULL;
    assert_int_equal(io_open(env, "lane-00/0000000001", IO_WRITE, &file), 0);
    assert_int_equal(io_pwrite(file, b.image[0] + BLOCK, BLOCK, BLOCK, 0, NULL), 0);
    io_close(file);
    struct io_env *before = crash(env, fault_trace_length(env), 0);
    assert_int_equal(open_lane(&b, before, false, NULL, text), 0);
    assert_string_equal(text, ""); /* the double forgets it indeed */
    assert_int_equal(open_lane(&b, env, false, NULL, text), 0);
    assert_string_equal(text, "cached");
    struct io_env *left = crash(env, fault_trace_length(env), 0);
    assert_int_equal(open_lane(&b, left, false, NULL, text), 0);
    assert_string_equal(text, "cached");
    io_env_close(left);
    io_env_close(before);
    io_env_close(env);
    builder_deinit(&b);
}

/* ---- headers ---- */

static void crash_header__power_fails_in_a_rewriting__leaves_one_of_the_two(void **state)
{
    (void)state;
    struct log_builder b;
    builder_init(&b, SEGMENT, BLOCK, 2, 1, 7, false);
    for (int weak = -1; weak < 2; weak++) {
        struct io_env *env = fault_env(true);
        builder_write_files(&b, env);
        struct wal_segment_head h = b.head[0], got;
        struct io_file *file = NULL;
        assert_int_equal(io_open(env, "lane-00/0000000001", IO_READ | IO_WRITE, &file), 0);
        if (weak >= 0) { /* the other copy is the only one that is whole */
            uint8_t junk[BLOCK];
            memset(junk, 3, sizeof junk);
            uint64_t at = weak == 0 ? 0 : SEGMENT - BLOCK;
            assert_int_equal(io_pwrite(file, junk, BLOCK, at, IO_DSYNC, NULL), 0);
        }
        h.generation++;
        h.salt = 1234;
        uint64_t begin = fault_trace_length(env);
        assert_int_equal(wal_segment_head_rewrite(file, &h, weak), 0);
        io_close(file);
        unsigned syncs = 0, writes = 0; /* one copy, sync, the other, sync */
        for (uint64_t at = begin; at < fault_trace_length(env); at++) {
            enum fault_event_kind kind = fault_trace_kind(env, at);
            if (kind == FAULT_EVENT_WRITE_SUBMITTED) assert_int_equal(syncs, writes++);
            if (kind == FAULT_EVENT_SYNC_COMPLETED) assert_int_equal(++syncs, writes);
        }
        assert_int_equal(syncs, 2);
        struct wal_segment_id id = {.segment_bytes = SEGMENT, .block_bytes = BLOCK, .number = 1};
        memcpy(id.uuid, h.uuid, sizeof id.uuid);
        unsigned news = 0, olds = 0;
        for (uint64_t at = begin; at <= fault_trace_length(env); at++) {
            for (int way = 0; way < 2 + SEEDED; way++) {
                struct io_env *left = crash(env, at, way);
                int weak_copy;
                assert_int_equal(io_open(left, "lane-00/0000000001", IO_READ, &file), 0);
                assert_int_equal(wal_segment_head_read(file, &id, "f", NULL, &got, &weak_copy), 0);
                assert_true(got.salt == h.salt || got.salt == b.head[0].salt);
                if (at == fault_trace_length(env)) assert_true(got.salt == h.salt);
                news += got.salt == h.salt;
                olds += got.salt != h.salt;
                io_close(file);
                io_env_close(left);
            }
        }
        assert_true(news > 0 && olds > 0);
        io_env_close(env);
    }
    builder_deinit(&b);
}

/* ---- the manifest and a creation ---- */

static struct wal_dir_options dir_options(struct io_env *env)
{
    return (struct wal_dir_options){
        .env = env, .create = true, .wait_ns = 0, .fresh = {.segment_bytes = SEGMENT, .lanes = 2}};
}

static void crash_dir__power_fails_in_a_creation__starts_over_or_is_there(void **state)
{
    (void)state;
    struct io_env *env = fault_env(true);
    struct wal_dir_options o = dir_options(env);
    struct wal_dir dir;
    uint64_t begin = fault_trace_length(env);
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    uint8_t uuid[16];
    memcpy(uuid, dir.manifest.uuid, 16);
    wal_dir_close(&dir);
    uint64_t end = fault_trace_length(env);
    unsigned over = 0, there = 0;
    for (uint64_t at = begin; at <= end; at++) {
        for (int way = 0; way < 2 + SEEDED; way++) {
            struct io_env *left = crash(env, at, way);
            struct err_msg msg = {0};
            o.env = left;
            if (wal_dir_open(&o, &msg, &dir) != 0) fail_msg("%s", msg.text);
            assert_int_equal(dir.lane[0].live_count, 2);
            assert_int_equal(dir.lane[1].live_count, 2);
            over += dir.created;
            there += !dir.created;
            if (!dir.created) assert_memory_equal(dir.manifest.uuid, uuid, 16);
            if (at == end) assert_false(dir.created && way == 0);
            struct wal_segment_id id = {.segment_bytes = SEGMENT,
                                        .block_bytes = dir.manifest.block_bytes,
                                        .lane = 1,
                                        .number = 2};
            memcpy(id.uuid, dir.manifest.uuid, 16);
            struct wal_segment_head head;
            int weak;
            assert_int_equal(
                wal_segment_head_read(dir.lane[1].live[1].file, &id, "f", &msg, &head, &weak), 0);
            wal_dir_close(&dir);
            io_env_close(left);
        }
    }
    print_message("creation: events %lu, started over %u, there %u\n", (unsigned long)(end - begin),
                  over, there);
    assert_true(over > 0 && there > 0);
    io_env_close(env);
}

static void crash_dir__kth_operation_fails_in_a_creation__can_be_repeated(void **state)
{
    (void)state;
    unsigned failures = 0;
    static const unsigned targets[] = {FAULT_ON_OPEN, FAULT_ON_WRITE,    FAULT_ON_SYNC,
                                       FAULT_ON_NAME, FAULT_ON_SYNC_DIR, FAULT_ON_SIZE};
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        for (uint64_t k = 0, failed = 1; failed || k < 3; k++) {
            struct io_env *env = fault_env(false);
            struct wal_dir_options o = dir_options(env);
            struct wal_dir dir;
            struct err_msg msg = {0};
            const struct fault_rule rule = {
                .kind = FAULT_ERROR, .targets = targets[t], .skip = k, .times = 1, .error = ENOSPC};
            assert_int_equal(fault_add(env, &rule), 0);
            int rc = wal_dir_open(&o, &msg, &dir);
            failed = rc != 0;
            failures += rc != 0;
            if (rc != 0) {
                assert_int_equal(rc, -ENOSPC);
                assert_int_equal(msg.code, -ENOSPC);
            } else {
                wal_dir_close(&dir);
            }
            fault_clear(env);
            assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
            wal_dir_close(&dir);
            io_env_close(env);
        }
    }
    print_message("creation: failures %u\n", failures);
    assert_true(failures > 20);
}

static void crash_manifest__power_fails_in_a_replacement__is_the_old_or_the_new(void **state)
{
    (void)state;
    struct io_env *env = fault_env(true);
    struct wal_dir_options o = dir_options(env);
    struct wal_dir dir;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    uint64_t begin = fault_trace_length(env);
    dir.manifest.sequence++;
    dir.manifest.version_obeyed = 9;
    assert_int_equal(wal_manifest_write(env, &dir.manifest, NULL), 0);
    uint64_t end = fault_trace_length(env);
    unsigned olds = 0, news = 0;
    for (uint64_t at = begin; at <= end; at++) {
        for (int way = 0; way < 2 + SEEDED; way++) {
            struct io_env *left = crash(env, at, way);
            struct wal_manifest m;
            assert_int_equal(wal_manifest_read(left, NULL, &m), 0);
            olds += m.sequence == 1;
            news += m.sequence == 2;
            assert_int_equal(m.version_obeyed, m.sequence == 2 ? 9 : 0);
            if (at == end) assert_int_equal(m.sequence, 2);
            wal_manifest_deinit(&m);
            io_env_close(left);
        }
    }
    assert_true(olds > 0 && news > 0);
    assert_int_equal(olds + news, (end - begin + 1) * (2 + SEEDED));
    wal_dir_close(&dir);
    io_env_close(env);
}

int main(void)
{
    const char *given = getenv("RF_SEED");
    seed = given != NULL ? strtoull(given, NULL, 0) : 20261130;
    print_message("RF_SEED=%llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crash_cut__power_fails_at_every_step__comes_to_the_same),
        cmocka_unit_test(crash_cut__kth_operation_fails__is_said_and_can_be_repeated),
        cmocka_unit_test(crash_cut__short_results__are_gone_on_with),
        cmocka_unit_test(crash_replay__unsynced_bytes_read__are_durable_afterwards),
        cmocka_unit_test(crash_header__power_fails_in_a_rewriting__leaves_one_of_the_two),
        cmocka_unit_test(crash_dir__power_fails_in_a_creation__starts_over_or_is_there),
        cmocka_unit_test(crash_dir__kth_operation_fails_in_a_creation__can_be_repeated),
        cmocka_unit_test(crash_manifest__power_fails_in_a_replacement__is_the_old_or_the_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
