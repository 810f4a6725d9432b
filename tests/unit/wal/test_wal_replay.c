/* Replay and the cut on real files: what comes back, what is refused, and that it can be done twice.
 */
#include "wal/replay.h"

#include "base/alloc.h"
#include "tests/lib/log_builder.h"
#include "tests/lib/tempdir.h"
#include "wal/cut.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { SEGMENT = 1 << 20, BLOCK = 4096 };

struct folder {
    char path[TEMPDIR_BYTES];
    struct io_env *env;
};
static struct folder make_folder(void)
{
    struct folder f;
    tempdir_make(f.path);
    assert_int_equal(io_env_open(f.path, &f.env), 0);
    return f;
}
static void remove_folder(struct folder *f)
{
    io_env_close(f->env);
    tempdir_remove(f->path);
}

/* What a replay hands out: the payloads joined, lsns checked to rise. */
struct seen {
    char text[512];
    uint64_t last_lsn;
    int fail_at; /* the call that answers -ECANCELED; 0: none */
    int calls;
};
static int note(void *ctx, const struct wal_record_head *h, const uint8_t *payload, uint64_t lsn)
{
    struct seen *s = ctx;
    if (++s->calls == s->fail_at) return -ECANCELED;
    assert_int_equal(lsn, h->lsn);
    assert_true(lsn > s->last_lsn);
    s->last_lsn = lsn;
    strncat(s->text, (const char *)payload, h->payload_bytes);
    return 0;
}

static int replay(const struct log_builder *b, struct builder_lane *l, struct seen *s,
                  struct err_msg *msg, struct wal_replay_result *r)
{
    struct wal_replay_options o = builder_replay(b, l);
    memset(s, 0, sizeof *s);
    o.record = note;
    o.ctx = s;
    return wal_replay(&o, msg, r);
}

/* Opens the files, replays, expects this text and verdict, closes. */
static void expect(const struct log_builder *b, struct io_env *env, enum wal_verdict_kind kind,
                   const char *text)
{
    struct builder_lane l;
    struct seen s;
    struct wal_replay_result r;
    struct err_msg msg = {0};
    builder_lane_open(&l, b, env);
    int rc = replay(b, &l, &s, &msg, &r);
    if (rc != 0) fail_msg("refused: %s", msg.text);
    assert_int_equal(r.verdict.kind, kind);
    assert_string_equal(s.text, text);
    wal_replay_result_deinit(&r);
    builder_lane_close(&l);
}

static void expect_refused(const struct log_builder *b, struct io_env *env, int code,
                           const char *part)
{
    struct builder_lane l;
    struct seen s;
    struct wal_replay_result r;
    struct err_msg msg = {0};
    builder_lane_open(&l, b, env);
    assert_int_equal(replay(b, &l, &s, &msg, &r), -code);
    if (strstr(msg.text, part) == NULL) fail_msg("'%s' is not in '%s'", part, msg.text);
    assert_int_equal(s.calls, 0);
    wal_replay_result_deinit(&r);
    builder_lane_close(&l);
}

static struct log_builder three_segments(void)
{
    struct log_builder b;
    builder_init(&b, SEGMENT, BLOCK, 4, 6, 99, true);
    builder_data(&b, "a");
    builder_group(&b);
    uint64_t fenced = builder_data(&b, "b");
    builder_fence(&b, fenced);
    builder_next_segment(&b);
    builder_data(&b, "c");
    uint64_t aborted = builder_data(&b, "d");
    builder_abort(&b, &aborted, 1);
    builder_void(&b, 4096);
    builder_next_segment(&b);
    builder_data(&b, "e");
    builder_group(&b);
    return b;
}

static void wal_replay__three_segments__come_back_in_order(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct log_builder b = three_segments();
    builder_write_files(&b, f.env);
    struct builder_lane l;
    struct seen s;
    struct wal_replay_result r;
    for (int times = 0; times < 2; times++) { /* a replay changes nothing */
        builder_lane_open(&l, &b, f.env);
        assert_int_equal(replay(&b, &l, &s, NULL, &r), 0);
        assert_string_equal(s.text, "ace");
        assert_int_equal(r.applied, 3);
        assert_int_equal(r.voided, 2);
        assert_int_equal(r.bytes_read, 4 * SEGMENT);
        assert_int_equal(r.verdict.end_lsn, b.lsn);
        for (uint32_t i = 0; i < 4; i++) {
            assert_memory_equal(l.segment[i].image, b.image[i], SEGMENT);
            assert_memory_equal(&l.segment[i].head, &b.head[i], sizeof b.head[i]);
            assert_int_equal(l.segment[i].weak_copy, -1);
        }
        wal_replay_result_deinit(&r);
        builder_lane_close(&l);
    }
    builder_close(&b);
    builder_group(&b);
    builder_write_files(&b, f.env);
    expect(&b, f.env, WAL_VERDICT_CLEAN, "ace");
    builder_deinit(&b);
    remove_folder(&f);
}

static void wal_replay__callback_fails__ends_it(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct log_builder b = three_segments();
    builder_write_files(&b, f.env);
    struct builder_lane l;
    struct wal_replay_result r;
    struct seen s = {.fail_at = 2};
    builder_lane_open(&l, &b, f.env);
    struct wal_replay_options o = builder_replay(&b, &l);
    o.record = note;
    o.ctx = &s;
    assert_int_equal(wal_replay(&o, NULL, &r), -ECANCELED);
    assert_int_equal(s.calls, 2);
    assert_int_equal(r.applied, 1);
    wal_replay_result_deinit(&r);
    builder_lane_close(&l);
    builder_deinit(&b);
    remove_folder(&f);
}

/* ---- handed out before the verdict ---- */

enum { MANY = 24000 }; /* more than the queue between the two threads holds */

struct handed {
    uint64_t *lsns;
    uint32_t count;
    uint32_t fail_at; /* the call of keep that answers -ECANCELED; 0: none */
    uint64_t *back;
    uint32_t back_count;
    struct timespec nap; /* of each 1000th call */
};
static int keep(void *ctx, const struct wal_record_head *h, const uint8_t *payload, uint64_t lsn)
{
    struct handed *s = ctx;
    if (h->lsn != lsn || h->payload_bytes != 6 || memcmp(payload, "tuple", 6) != 0) return -EBADMSG;
    if (s->count > 0 && s->lsns[s->count - 1] >= lsn) return -EBADMSG;
    if (s->count + 1 == s->fail_at) return -ECANCELED;
    s->lsns[s->count++] = lsn;
    if (s->count % 1000 == 0) nanosleep(&s->nap, NULL);
    return 0;
}
static int give_back(void *ctx, const struct wal_record_head *h, const uint8_t *payload,
                     uint64_t lsn)
{
    struct handed *s = ctx;
    (void)payload;
    if (h->lsn != lsn) return -EBADMSG;
    s->back[s->back_count++] = lsn;
    return 0;
}

/* Many batches over some segments, a few of them fenced or aborted later. */
static struct log_builder long_log(uint64_t seed)
{
    struct log_builder b;
    uint64_t recent[64], random = seed;
    builder_init(&b, SEGMENT, BLOCK, 7, 6, seed, true);
    for (uint32_t i = 0; i < MANY; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint32_t dice = (uint32_t)(random >> 33);
        recent[i % 64] = builder_data(&b, "tuple");
        if (i >= 64 && dice % 500 == 0) builder_fence(&b, recent[(i + 1 + dice / 500 % 64) % 64]);
        if (i >= 64 && dice % 500 == 1) builder_abort(&b, &recent[dice / 500 % 64], 1);
        if (dice % 50 == 2) builder_group(&b);
    }
    builder_group(&b);
    return b;
}

static int replay_into(const struct log_builder *b, struct io_env *env, bool early,
                       struct handed *s, struct wal_replay_result *r)
{
    struct builder_lane l;
    struct err_msg msg = {0};
    builder_lane_open(&l, b, env);
    struct wal_replay_options o = builder_replay(b, &l);
    o.record = keep;
    o.take_back = early ? give_back : NULL;
    o.ctx = s;
    int rc = wal_replay(&o, &msg, r);
    builder_lane_close(&l);
    return rc;
}

static void handed_init(struct handed *s)
{
    memset(s, 0, sizeof *s);
    s->lsns = mem_zalloc_array(MANY, sizeof *s->lsns);
    s->back = mem_zalloc_array(MANY, sizeof *s->back);
    assert_true(s->lsns != NULL && s->back != NULL);
}
static void handed_deinit(struct handed *s)
{
    mem_free(s->lsns);
    mem_free(s->back);
}

/* What was handed out early, without what was taken back, is what is handed out late. */
static void compare_early(const struct log_builder *b, struct io_env *env, long nap_ns)
{
    struct handed late, early;
    struct wal_replay_result r, s;
    handed_init(&late);
    handed_init(&early);
    early.nap.tv_nsec = nap_ns;
    assert_int_equal(replay_into(b, env, false, &late, &r), 0);
    assert_int_equal(replay_into(b, env, true, &early, &s), 0);
    assert_int_equal(early.count, MANY);
    assert_true(early.back_count > 0);
    assert_int_equal(early.back_count, r.voided);
    assert_int_equal(s.voided, r.voided);
    assert_int_equal(s.applied, r.applied);
    assert_int_equal(late.count, r.applied);
    uint32_t back = 0, kept = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        if (back < early.back_count && early.back[back] == early.lsns[i])
            back++;
        else
            assert_int_equal(early.lsns[i], late.lsns[kept++]);
    }
    assert_int_equal(back, early.back_count);
    assert_int_equal(kept, late.count);
    wal_replay_result_deinit(&r);
    wal_replay_result_deinit(&s);
    handed_deinit(&late);
    handed_deinit(&early);
}

static void wal_replay__handed_out_early__what_is_left_counts(void **state)
{
    (void)state;
    const char *given = getenv("RF_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    printf("RF_SEED=%llu\n", (unsigned long long)seed);
    struct folder f = make_folder();
    struct log_builder b = long_log(seed);
    builder_write_files(&b, f.env);
    compare_early(&b, f.env, 0);
    compare_early(&b, f.env, 2000000); /* applying is slower than reading */
    builder_deinit(&b);
    remove_folder(&f);
}

static void wal_replay__early_callback_fails__damage_behind_it_comes_first(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct log_builder b = long_log(7);
    struct handed s;
    struct wal_replay_result r;
    handed_init(&s);
    builder_write_files(&b, f.env);
    s.fail_at = 1500;
    assert_int_equal(replay_into(&b, f.env, true, &s, &r), -ECANCELED);
    assert_int_equal(s.count, 1499); /* and nothing behind it */
    assert_int_equal(r.applied, 1499);
    assert_int_equal(s.back_count, 0);
    wal_replay_result_deinit(&r);

    struct folder damaged = make_folder();
    for (uint32_t i = 0; i < 32; i++) /* some records of the next segment */
        builder_at(&b, s.lsns[1400] + SEGMENT)[64 * i] ^= 1;
    builder_write_files(&b, damaged.env);
    s.count = 0;
    assert_int_equal(replay_into(&b, damaged.env, true, &s, &r), -RFE_CORRUPT);
    assert_int_equal(s.count, 1499);
    assert_int_equal(s.back_count, 0);
    wal_replay_result_deinit(&r);
    handed_deinit(&s);
    builder_deinit(&b);
    remove_folder(&damaged);
    remove_folder(&f);
}

static void wal_replay__headers__one_copy_is_enough(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct log_builder b = three_segments(), bad;
    uint64_t last = SEGMENT - BLOCK;
    for (uint32_t i = 0; i < 4; i++) {
        builder_copy(&bad, &b);
        bad.image[i][0] ^= 1;
        builder_write_files(&bad, f.env);
        expect(&b, f.env, WAL_VERDICT_CUT, "ace");
        bad.image[i][last] ^= 1;
        builder_write_files(&bad, f.env);
        expect_refused(&b, f.env, RFE_CORRUPT, "found no valid copy");
        builder_deinit(&bad);
    }
    builder_copy(&bad, &b);
    uint8_t *swapped = bad.image[1];
    bad.image[1] = bad.image[2];
    bad.image[2] = swapped;
    builder_write_files(&bad, f.env);
    expect_refused(&b, f.env, RFE_CORRUPT, "lane-00/0000000007: offset 0: expected the header");
    builder_deinit(&bad);
    builder_deinit(&b);
    remove_folder(&f);
}

static void wal_replay__file_cut_or_grown__is_refused(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct log_builder b = three_segments();
    static const uint64_t sizes[] = {0, 1, BLOCK, SEGMENT - 1, SEGMENT + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct io_file *file = NULL;
        builder_write_files(&b, f.env);
        assert_int_equal(io_open(f.env, "lane-00/0000000008", IO_WRITE, &file), 0);
        assert_int_equal(io_truncate(file, sizes[i]), 0);
        io_close(file);
        expect_refused(&b, f.env, RFE_CORRUPT, "lane-00/0000000008: offset");
    }
    builder_deinit(&b);
    remove_folder(&f);
}

/* Each segment left out: a gap, a missing head, or a missing successor. */
static void wal_replay__segment_missing__is_refused(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct log_builder b = three_segments();
    builder_write_files(&b, f.env);
    static const char *const place[] = {"lane-00/0000000006", "lane-00/0000000007",
                                        "lane-00/0000000008", "lane-00/0000000009"};
    for (uint32_t missing = 0; missing < 4; missing++) {
        struct builder_lane l;
        struct seen s;
        struct wal_replay_result r;
        struct err_msg msg = {0};
        builder_lane_open(&l, &b, f.env);
        struct wal_live_segment left[4];
        struct wal_replay_options o = builder_replay(&b, &l);
        o.count = 0;
        for (uint32_t i = 0; i < 4; i++)
            if (i != missing) left[o.count++] = l.segment[i];
        o.segments = left;
        memset(&s, 0, sizeof s);
        o.record = note;
        o.ctx = &s;
        assert_int_equal(wal_replay(&o, &msg, &r), -RFE_CORRUPT);
        assert_non_null(strstr(msg.text, place[missing]));
        assert_int_equal(s.calls, 0);
        wal_replay_result_deinit(&r);
        builder_lane_close(&l);
    }
    builder_deinit(&b);
    remove_folder(&f);
}

/* ---- the cut ---- */

/* Replays, makes the lane ready for appending, and goes on in a builder from there. */
static void cut_and_continue(struct log_builder *b, struct io_env *env, struct wal_append_point *at)
{
    struct builder_lane l;
    struct seen s;
    struct wal_replay_result r;
    builder_lane_open(&l, b, env);
    assert_int_equal(replay(b, &l, &s, NULL, &r), 0);
    struct wal_cut_options o = builder_cut_options(b, &l);
    assert_int_equal(wal_cut_after_replay(&o, &r.verdict, NULL, at), 0);
    for (uint32_t i = 0; i < b->count; i++) {
        b->head[i] = l.segment[i].head;
        memcpy(b->image[i], l.segment[i].image, SEGMENT);
    }
    builder_heads(b);
    b->lsn = at->lsn;
    b->salt = at->salt;
    b->mark = at->lsn;
    wal_replay_result_deinit(&r);
    builder_lane_close(&l);
}

static void wal_cut__hole__what_was_discarded_stays_away(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct log_builder b;
    builder_init(&b, SEGMENT, BLOCK, 3, 6, 99, true);
    builder_data(&b, "a");
    uint64_t lost = builder_data(&b, "lost");
    builder_data(&b, "x");
    builder_group(&b);
    b.mark = lost; /* in flight side by side: published before anything of it was durable */
    builder_data(&b, "y");
    builder_next_segment(&b);
    builder_data(&b, "z");
    *builder_at(&b, lost) ^= 1;
    builder_write_files(&b, f.env);
    uint64_t salt = b.head[0].salt, later_salt = b.head[1].salt;

    struct wal_append_point at;
    cut_and_continue(&b, f.env, &at);
    assert_true(at.salt != salt && at.salt != later_salt && at.salt != 0); /* "y" is under salt */
    assert_int_equal(at.lsn, 6 * (uint64_t)SEGMENT + 4 * BLOCK);
    assert_true(b.head[1].salt != later_salt && b.head[2].salt != b.head[1].salt);
    assert_int_equal(b.head[1].mark, lost);
    expect(&b, f.env, WAL_VERDICT_CUT, "a");
    builder_data(&b, "b");
    builder_write_files(&b, f.env);
    expect(&b, f.env, WAL_VERDICT_CUT, "ab");
    cut_and_continue(&b, f.env, &at);
    builder_data(&b, "c");
    builder_next_segment(&b);
    builder_data(&b, "d");
    builder_write_files(&b, f.env);
    expect(&b, f.env, WAL_VERDICT_CUT, "abcd");
    builder_deinit(&b);
    remove_folder(&f);
}

/* Opened and killed again and again without a write, the log does not grow. */
static void wal_cut__nothing_written_since__is_not_repeated(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct log_builder b;
    builder_init(&b, SEGMENT, BLOCK, 2, 1, 99, false);
    builder_write_files(&b, f.env);
    struct wal_append_point first, again;
    cut_and_continue(&b, f.env, &first);
    assert_int_equal(first.lsn, SEGMENT + BLOCK); /* no record, no cut */
    builder_data(&b, "a");
    builder_write_files(&b, f.env);
    cut_and_continue(&b, f.env, &first);
    assert_int_equal(first.lsn, SEGMENT + 4 * BLOCK);
    cut_and_continue(&b, f.env, &again);
    assert_int_equal(again.lsn, first.lsn);
    assert_true(again.salt == first.salt);
    builder_close(&b);
    builder_group(&b);
    builder_write_files(&b, f.env);
    expect(&b, f.env, WAL_VERDICT_CLEAN, "a");
    cut_and_continue(&b, f.env, &again); /* closed in order: no cut, the same salt goes on */
    assert_int_equal(again.lsn, first.lsn + BLOCK);
    assert_true(again.salt == first.salt);
    builder_deinit(&b);
    remove_folder(&f);
}

static void wal_cut__at_every_place_of_a_segment__goes_on(void **state)
{
    (void)state;
    struct folder f = make_folder();
    uint64_t first = lsn_first(3, SEGMENT, BLOCK), end = lsn_end(3, SEGMENT, BLOCK);
    struct {
        uint64_t p;
        uint64_t append;
        enum wal_cut_kind kind;
    } places[] = {
        {first, first, WAL_CUT_SALT},
        {first + 64, first + 3 * BLOCK, WAL_CUT_PAIR},
        {first + BLOCK, first + 3 * BLOCK, WAL_CUT_PAIR},
        {end - 2 * BLOCK - 64, end + 2 * BLOCK, WAL_CUT_PAIR}, /* the pair fills the segment */
        {end - 2 * BLOCK, end + 2 * BLOCK, WAL_CUT_PAIR},
        {end - 2 * BLOCK + 64, end + 2 * BLOCK, WAL_CUT_HEADER},
        {end - 64, end + 2 * BLOCK, WAL_CUT_HEADER},
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct log_builder b;
        builder_init(&b, SEGMENT, BLOCK, 4, 3, 99, true);
        if (places[i].p > first) builder_void(&b, (uint32_t)(places[i].p - first));
        assert_int_equal(b.lsn, places[i].p);
        uint64_t lost = builder_append(&b, WAL_RECORD_MARK, NULL, 0);
        builder_next_segment(&b);
        builder_data(&b, "ghost");
        assert_int_equal(lost, places[i].p);
        *builder_at(&b, lost) ^= 1;
        builder_write_files(&b, f.env);
        struct wal_cut_plan plan = wal_cut_plan(places[i].p, SEGMENT, BLOCK, false);
        assert_int_equal(plan.kind, places[i].kind);
        assert_int_equal(plan.append_lsn, places[i].append);
        struct wal_append_point at;
        cut_and_continue(&b, f.env, &at);
        assert_int_equal(at.lsn, places[i].append);
        expect(&b, f.env, WAL_VERDICT_CUT, "");
        builder_data(&b, "new");
        builder_write_files(&b, f.env);
        expect(&b, f.env, WAL_VERDICT_CUT, "new");
        builder_deinit(&b);
    }
    remove_folder(&f);
}

static void wal_cut__resume__ends_the_old_segment_in_the_header(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct log_builder b;
    builder_init(&b, SEGMENT, BLOCK, 3, 6, 99, true);
    builder_data(&b, "a");
    builder_group(&b);
    uint64_t durable = b.lsn;
    builder_data(&b, "landed all the same");
    builder_write_files(&b, f.env);

    struct builder_lane l;
    struct seen s;
    struct wal_replay_result r;
    builder_lane_open(&l, &b, f.env);
    assert_int_equal(replay(&b, &l, &s, NULL, &r), 0);
    struct wal_cut_options o = builder_cut_options(&b, &l);
    o.p_lsn = durable;
    o.salt = b.salt;
    o.resume = true;
    struct wal_append_point at;
    assert_int_equal(wal_cut_write(&o, NULL, &at), 0);
    assert_int_equal(at.lsn, 7 * (uint64_t)SEGMENT + BLOCK);
    assert_true(at.salt == l.segment[1].head.salt);
    assert_int_equal(l.segment[1].head.cut_lsn, durable);
    wal_replay_result_deinit(&r);
    builder_lane_close(&l);
    expect(&b, f.env, WAL_VERDICT_CUT, "a");

    builder_lane_open(&l, &b, f.env); /* no next segment: refused before anything is written */
    l.segment[0].head = b.head[0];
    o.segments = l.segment;
    o.count = 1;
    assert_int_equal(wal_cut_write(&o, NULL, &at), -ENOENT);
    builder_lane_close(&l);
    builder_deinit(&b);
    remove_folder(&f);
}

static void wal_cut__stale_header_copy__is_healed_before_the_first_append(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct log_builder b = three_segments();
    b.image[0][0] ^= 1;
    b.image[3][SEGMENT - BLOCK] ^= 1;
    builder_write_files(&b, f.env);
    struct wal_append_point at;
    struct builder_lane l;
    struct seen s;
    struct wal_replay_result r;
    struct log_builder after;
    builder_copy(&after, &b);
    cut_and_continue(&after, f.env, &at);
    builder_lane_open(&l, &b, f.env);
    assert_int_equal(replay(&b, &l, &s, NULL, &r), 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(l.segment[i].weak_copy, -1);
    wal_replay_result_deinit(&r);
    builder_lane_close(&l);
    builder_deinit(&after);
    builder_deinit(&b);
    remove_folder(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_replay__three_segments__come_back_in_order),
        cmocka_unit_test(wal_replay__callback_fails__ends_it),
        cmocka_unit_test(wal_replay__handed_out_early__what_is_left_counts),
        cmocka_unit_test(wal_replay__early_callback_fails__damage_behind_it_comes_first),
        cmocka_unit_test(wal_replay__headers__one_copy_is_enough),
        cmocka_unit_test(wal_replay__file_cut_or_grown__is_refused),
        cmocka_unit_test(wal_replay__segment_missing__is_refused),
        cmocka_unit_test(wal_cut__hole__what_was_discarded_stays_away),
        cmocka_unit_test(wal_cut__nothing_written_since__is_not_repeated),
        cmocka_unit_test(wal_cut__at_every_place_of_a_segment__goes_on),
        cmocka_unit_test(wal_cut__resume__ends_the_old_segment_in_the_header),
        cmocka_unit_test(wal_cut__stale_header_copy__is_healed_before_the_first_append),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
