/* The verdict on logs of several segments: where they end, what is refused, what is void. */
#include "wal/verdict.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "tests/lib/log_builder.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEGMENT = 16384, BLOCK = 1024 };

static struct log_builder small(uint32_t segments, bool stale)
{
    struct log_builder b;
    builder_init(&b, SEGMENT, BLOCK, segments, 3, 42, stale);
    return b;
}

static void expect_end(const struct log_builder *b, enum wal_verdict_kind kind, uint64_t end_lsn,
                       uint64_t records, uint64_t discarded)
{
    struct wal_verdict v;
    struct err_msg msg = {0};
    int rc = builder_judge(b, &msg, &v);
    if (rc != 0) fail_msg("refused: %s", msg.text);
    assert_int_equal(v.kind, kind);
    assert_int_equal(v.end_lsn, end_lsn);
    assert_int_equal(v.records, records);
    assert_int_equal(v.discarded_records, discarded);
    wal_verdict_deinit(&v);
}

static void expect_refused(const struct log_builder *b, int code, const char *part)
{
    struct wal_verdict v;
    struct err_msg msg = {0};
    assert_int_equal(builder_judge(b, &msg, &v), -code);
    assert_int_equal(msg.code, -code);
    if (strstr(msg.text, part) == NULL) fail_msg("'%s' is not in '%s'", part, msg.text);
    assert_int_equal(v.kind, code == RFE_CORRUPT ? WAL_VERDICT_CORRUPT : WAL_VERDICT_NEWER);
    wal_verdict_deinit(&v);
}

/* The payloads of the batches that are applied, joined. */
static void applied(const struct log_builder *b, char *text, size_t room)
{
    struct wal_verdict_segment views[BUILDER_SEGMENTS_MAX];
    const struct wal_verdict_input in = builder_input(b, views);
    struct wal_verdict v;
    assert_int_equal(wal_verdict_judge(&in, NULL, &v), 0);
    for (int checked = 0; checked < 2; checked++) { /* both ways of walking see the same */
        struct wal_cursor c;
        struct wal_record_head h;
        const uint8_t *payload = NULL;
        char seen[512] = "";
        if (checked)
            wal_cursor_init(&c, &in);
        else
            wal_cursor_init_judged(&c, &in, &v);
        while (wal_cursor_next(&c, &h, &payload) == WAL_STEP_RECORD)
            if (wal_verdict_applies(&v, &h)) strcat(seen, (const char *)payload);
        assert_int_equal(wal_cursor_lsn(&c), v.end_lsn);
        if (checked) assert_string_equal(seen, text);
        snprintf(text, room, "%s", seen);
    }
    wal_verdict_deinit(&v);
}

static void expect_applied(const struct log_builder *b, const char *wanted)
{
    char text[512];
    applied(b, text, sizeof text);
    assert_string_equal(text, wanted);
}

static void wal_verdict__empty_log__is_cut_at_its_start(void **state)
{
    (void)state;
    for (int stale = 0; stale < 2; stale++) {
        struct log_builder b = small(2, stale);
        struct wal_verdict v;
        assert_int_equal(builder_judge(&b, NULL, &v), 0);
        assert_int_equal(v.kind, WAL_VERDICT_CUT);
        assert_int_equal(v.end_lsn, 3 * SEGMENT + BLOCK);
        assert_false(v.cut_needed); /* no record can be there */
        assert_true(v.salt == b.salt);
        wal_verdict_deinit(&v);
        builder_deinit(&b);
    }
}

static void wal_verdict__closed_log__is_clean(void **state)
{
    (void)state;
    struct log_builder b = small(2, true);
    builder_data(&b, "a");
    builder_group(&b);
    builder_close(&b);
    builder_group(&b);
    expect_end(&b, WAL_VERDICT_CLEAN, b.lsn, 4, 0);
    struct wal_verdict v;
    assert_int_equal(builder_judge(&b, NULL, &v), 0);
    assert_false(v.cut_needed);
    wal_verdict_deinit(&v);
    builder_data(&b, "b"); /* open again: the close record is in the middle now */
    expect_end(&b, WAL_VERDICT_CUT, b.lsn, 5, 0);
    builder_deinit(&b);
}

/* The power fails while the close record's block is written, torn behind the record itself: appending
 * goes on at a block's end, which is not there. */
static void wal_verdict__close_record_without_its_pad__is_cut(void **state)
{
    (void)state;
    struct log_builder b = small(2, false);
    builder_data(&b, "a");
    builder_group(&b);
    builder_close(&b);
    uint64_t end = b.lsn;
    builder_group(&b);
    memset(builder_at(&b, end), 0, WAL_RECORD_HEAD_BYTES);
    struct wal_verdict v;
    assert_int_equal(builder_judge(&b, NULL, &v), 0);
    assert_int_equal(v.kind, WAL_VERDICT_CUT);
    assert_int_equal(v.end_lsn, end);
    assert_true(v.cut_needed);
    wal_verdict_deinit(&v);
    builder_deinit(&b);
}

static void wal_verdict__several_segments__are_walked_in_order(void **state)
{
    (void)state;
    struct log_builder b = small(4, true);
    char name[2] = "a";
    for (int i = 0; i < 9; i++, name[0]++) {
        builder_data(&b, name);
        if (i % 2 == 0) builder_group(&b);
        if (i % 4 == 3) builder_next_segment(&b);
    }
    expect_applied(&b, "abcdefghi");
    struct wal_verdict v;
    assert_int_equal(builder_judge(&b, NULL, &v), 0);
    assert_int_equal(v.end_lsn, b.lsn);
    assert_int_equal(lsn_segment(v.end_lsn, SEGMENT), 5);
    assert_true(v.salt == b.salt && v.cut_needed);
    wal_verdict_deinit(&v);
    builder_deinit(&b);
}

/* A void record's and a long pad's bodies are old bytes, records of this very life among them. */
static void wal_verdict__void_and_pad_bodies__are_never_read(void **state)
{
    (void)state;
    struct log_builder b = small(2, true);
    struct log_builder other;
    builder_data(&b, "a");
    builder_copy(&other, &b);
    builder_data(&other, "inside");
    uint64_t inside = other.lsn;
    builder_data(&other, "inside too");
    memcpy(builder_at(&b, inside), builder_at(&other, inside), 128);
    builder_void(&b, 512);
    builder_data(&b, "b");
    expect_applied(&b, "ab");
    builder_deinit(&other);
    builder_deinit(&b);
}

static void wal_verdict__hole_above_the_marks__ends_the_log(void **state)
{
    (void)state;
    struct log_builder b = small(3, true);
    builder_data(&b, "a");
    builder_group(&b);
    uint64_t lost = builder_data(&b, "lost");
    builder_data(&b, "behind");
    builder_next_segment(&b);
    builder_data(&b, "far behind");
    memset(builder_at(&b, lost), 0xa5, 64);
    expect_end(&b, WAL_VERDICT_CUT, lost, 2, 2);
    builder_deinit(&b);
}

static void wal_verdict__damage_below_a_mark__is_refused(void **state)
{
    (void)state;
    struct log_builder b = small(3, true);
    uint64_t a = builder_data(&b, "a");
    builder_group(&b);
    builder_data(&b, "b");
    *(builder_at(&b, a) + 64) ^= 1; /* the payload */
    expect_refused(&b, RFE_CORRUPT, "lane-00/0000000003: offset 1024: expected a whole record");
    *(builder_at(&b, a) + 64) ^= 1;
    *builder_at(&b, a) ^= 1; /* the header */
    expect_refused(&b, RFE_CORRUPT, "found no record header that verifies");
    builder_deinit(&b);
}

/* The mark that convicts may stand behind the hole, in another segment, in a header, or in a record
 * whose payload is gone. */
static void wal_verdict__mark_far_behind__convicts(void **state)
{
    (void)state;
    struct log_builder b = small(3, true), bad;
    uint64_t a = builder_data(&b, "a");
    builder_group(&b);
    uint64_t durable = b.mark;
    b.mark = a;
    builder_data(&b, "b");
    builder_next_segment(&b);
    uint64_t c = builder_data(&b, "c");
    builder_copy(&bad, &b);
    memset(builder_at(&bad, a), 0, 64);
    expect_end(&bad, WAL_VERDICT_CUT, a, 0, 2);
    bad.head[2].mark = durable;
    expect_refused(&bad, RFE_CORRUPT, "offset 1024");
    builder_deinit(&bad);

    b.lsn = c;
    b.mark = durable;
    builder_data(&b, "c");
    memset(builder_at(&b, a), 0, 64);
    *(builder_at(&b, c) + 64) ^= 1; /* its payload is not whole: its mark counts all the same */
    expect_refused(&b, RFE_CORRUPT, "offset 1024");
    builder_deinit(&b);
}

/* A mark that stands at the very end of a segment and a log that ends at the next one's start are
 * the same place. */
static void wal_verdict__mark_at_a_segment_end__is_met(void **state)
{
    (void)state;
    struct log_builder b = small(3, false);
    builder_data(&b, "a");
    builder_next_segment(&b);
    b.head[2].mark = 4 * SEGMENT - BLOCK;
    expect_end(&b, WAL_VERDICT_CUT, 4 * SEGMENT + BLOCK, 2, 0);
    b.head[2].mark = 4 * SEGMENT + BLOCK;
    expect_end(&b, WAL_VERDICT_CUT, 4 * SEGMENT + BLOCK, 2, 0);
    b.head[2].mark = 4 * SEGMENT + BLOCK + 64;
    expect_refused(&b, RFE_CORRUPT, "lane-00/0000000004: offset 1024");
    builder_deinit(&b);
}

static void wal_verdict__numbers__must_have_no_gap(void **state)
{
    (void)state;
    struct log_builder b = small(3, false);
    struct wal_verdict_segment views[BUILDER_SEGMENTS_MAX];
    struct wal_verdict v;
    builder_data(&b, "a");

    struct wal_verdict_input in = builder_input(&b, views);
    in.head_number = 2;
    struct err_msg msg = {0};
    assert_int_equal(wal_verdict_judge(&in, &msg, &v), -RFE_CORRUPT);
    assert_non_null(strstr(msg.text, "lane-00/0000000002"));
    wal_verdict_deinit(&v);

    in = builder_input(&b, views);
    in.count = 0;
    msg.code = 0;
    assert_int_equal(wal_verdict_judge(&in, &msg, &v), -RFE_CORRUPT);
    assert_non_null(strstr(msg.text, "found no segment"));
    wal_verdict_deinit(&v);

    in = builder_input(&b, views);
    views[1] = views[2];
    in.count = 2;
    msg.code = 0;
    assert_int_equal(wal_verdict_judge(&in, &msg, &v), -RFE_CORRUPT);
    assert_non_null(strstr(msg.text, "lane-00/0000000004"));
    wal_verdict_deinit(&v);
    builder_deinit(&b);
}

static void wal_verdict__records_without_successor__are_refused(void **state)
{
    (void)state;
    struct log_builder b = small(1, false);
    expect_end(&b, WAL_VERDICT_CUT, 3 * SEGMENT + BLOCK, 0, 0);
    uint64_t a = builder_data(&b, "a");
    expect_refused(&b, RFE_CORRUPT, "lane-00/0000000004");
    *builder_at(&b, a) ^= 1;
    expect_end(&b, WAL_VERDICT_CUT, a, 0, 0);
    *builder_at(&b, a) ^= 1;
    builder_data(&b, "b"); /* behind a hole it is a record too */
    *builder_at(&b, a) ^= 1;
    expect_refused(&b, RFE_CORRUPT, "lane-00/0000000004");
    builder_deinit(&b);
}

static void wal_verdict__segments_swapped__are_refused(void **state)
{
    (void)state;
    struct log_builder b = small(4, false);
    builder_data(&b, "a");
    builder_next_segment(&b);
    builder_group(&b);
    b.mark = b.lsn;
    builder_data(&b, "b");
    builder_next_segment(&b);
    b.mark = b.lsn;
    builder_data(&b, "c");
    expect_applied(&b, "abc");
    uint8_t *first = b.image[0];
    b.image[0] = b.image[1]; /* bodies alone: headers of the files would not pass */
    b.image[1] = first;
    expect_refused(&b, RFE_CORRUPT, "lane-00/0000000003: offset 1024");
    builder_deinit(&b);
}

/* ---- cuts ---- */

static void wal_verdict__cut__is_walked_over(void **state)
{
    (void)state;
    struct log_builder b = small(3, true);
    builder_data(&b, "a");
    uint64_t p = builder_data(&b, "lost");
    builder_data(&b, "discarded");
    *(builder_at(&b, p) + 64) ^= 1; /* its header is whole, its payload is not */
    expect_end(&b, WAL_VERDICT_CUT, p, 1, 1);
    builder_cut(&b, p);
    struct wal_verdict v;
    assert_int_equal(builder_judge(&b, NULL, &v), 0);
    assert_int_equal(v.end_lsn, b.lsn);
    assert_true(v.salt == b.salt);
    assert_false(v.cut_needed); /* nothing of the new salt was ever written */
    assert_int_equal(v.discarded_records, 0);
    wal_verdict_deinit(&v);
    builder_data(&b, "b");
    builder_next_segment(&b);
    builder_data(&b, "c");
    expect_applied(&b, "abc");
    builder_deinit(&b);
}

static void wal_verdict__one_cut_copy__is_unfinished_or_damage(void **state)
{
    (void)state;
    for (int copy = 0; copy < 2; copy++) {
        struct log_builder b = small(3, true);
        builder_data(&b, "a");
        uint64_t p = b.lsn;
        uint64_t pair = align_up(p, BLOCK);
        builder_cut(&b, p);
        *builder_at(&b, pair + (uint64_t)copy * BLOCK) ^= 1;
        struct wal_verdict v;
        assert_int_equal(builder_judge(&b, NULL, &v), 0);
        assert_int_equal(v.end_lsn, p);
        assert_true(v.cut_needed);
        wal_verdict_deinit(&v);
        b.mark = p; /* as low as it can be: the record's salt alone convicts */
        builder_data(&b, "b");
        char place[64];
        snprintf(place, sizeof place, "offset %d: expected the equal", 2 * BLOCK + copy * BLOCK);
        expect_refused(&b, RFE_CORRUPT, place);
        builder_deinit(&b);
    }
}

/* Two whole copies of two cuts that were both never finished: no pair, no damage. */
static void wal_verdict__two_different_cut_copies__are_no_pair(void **state)
{
    (void)state;
    struct log_builder b = small(3, true);
    builder_data(&b, "a");
    uint64_t p = b.lsn;
    uint64_t pair = align_up(p, BLOCK);
    builder_cut(&b, p);
    uint64_t first = b.salt;
    struct wal_cut_plan plan = wal_cut_plan(p, SEGMENT, BLOCK, false);
    uint8_t blocks[2 * BLOCK];
    wal_cut_render(blocks, &plan, BLOCK, b.head[0].salt, 77);
    memcpy(builder_at(&b, pair + BLOCK), blocks + BLOCK, BLOCK);
    expect_end(&b, WAL_VERDICT_CUT, p, 1, 0);
    struct log_builder second;
    builder_copy(&second, &b);
    b.salt = first;
    builder_data(&b, "b");
    expect_refused(&b, RFE_CORRUPT, "expected the equal");
    second.salt = 77;
    builder_data(&second, "b");
    expect_refused(&second, RFE_CORRUPT, "expected the equal");
    builder_deinit(&second);
    builder_deinit(&b);
}

static void wal_verdict__cut_near_the_end__stands_in_the_next_header(void **state)
{
    (void)state;
    struct log_builder b = small(3, true);
    builder_data(&b, "a");
    builder_void(&b, SEGMENT - 4 * BLOCK); /* less than two blocks are left */
    uint64_t p = builder_data(&b, "lost");
    builder_next_segment(&b);
    builder_data(&b, "discarded");
    *builder_at(&b, p) ^= 1;
    expect_end(&b, WAL_VERDICT_CUT, p, 2, 1);
    builder_cut(&b, p);
    assert_int_equal(b.head[1].cut_lsn, p);
    expect_end(&b, WAL_VERDICT_CUT, 4 * SEGMENT + BLOCK, 2, 0);
    builder_data(&b, "b");
    expect_applied(&b, "ab");
    b.head[1].cut_lsn = p + 64;
    expect_refused(&b, RFE_CORRUPT, "lane-00/0000000003");
    b.head[1].cut_lsn = p - 64;
    expect_refused(&b, RFE_CORRUPT, "lane-00/0000000003");
    builder_deinit(&b);
}

/* After a resume the old segment's writes may have landed behind the cut, whole. */
static void wal_verdict__header_cut_before_whole_records__hides_them(void **state)
{
    (void)state;
    struct log_builder b = small(3, true);
    builder_data(&b, "a");
    uint64_t p = builder_data(&b, "answered unknown");
    b.head[1].cut_lsn = p;
    b.head[1].mark = p;
    b.lsn = 4 * SEGMENT + BLOCK;
    b.salt = b.head[1].salt;
    b.mark = b.lsn;
    builder_data(&b, "b");
    expect_applied(&b, "ab");
    b.head[1].cut_lsn = p + 64; /* inside a record */
    expect_refused(&b, RFE_CORRUPT, "lane-00/0000000003");
    builder_deinit(&b);
}

static void wal_verdict__header_cut_passed__is_refused(void **state)
{
    (void)state;
    struct log_builder b = small(3, true);
    builder_data(&b, "a");
    builder_next_segment(&b);
    builder_data(&b, "b");
    b.head[1].cut_lsn = 3 * SEGMENT + BLOCK + 64;
    expect_refused(&b, RFE_CORRUPT, "lane-00/0000000004: offset 0: expected a header that names");
    b.head[1].cut_lsn = 4 * SEGMENT - BLOCK; /* the segment's own end: the same as none */
    expect_applied(&b, "ab");
    builder_deinit(&b);
}

static void wal_verdict__stale_tail_under_another_salt__is_nothing(void **state)
{
    (void)state;
    struct log_builder b = small(3, true), older;
    builder_copy(&older, &b);
    older.salt = 0x5151;
    for (int i = 0; i < 20; i++)
        builder_data(&older, "older life");
    memcpy(b.image[0] + BLOCK, older.image[0] + BLOCK, SEGMENT - 2 * BLOCK);
    builder_data(&b, "a");
    expect_end(&b, WAL_VERDICT_CUT, b.lsn, 1, 0);
    builder_deinit(&older);
    builder_deinit(&b);
}

/* ---- void ---- */

static void wal_verdict__fence_and_abort__take_batches_out(void **state)
{
    (void)state;
    struct log_builder b = small(3, true);
    builder_data(&b, "a");
    uint64_t from = builder_data(&b, "b");
    uint64_t inner = builder_fence(&b, from);
    uint64_t c = builder_data(&b, "c");
    builder_data(&b, "d");
    builder_append(&b, WAL_RECORD_MARK, NULL, 0);
    uint64_t names[2] = {c, 0};
    names[1] = builder_append(&b, WAL_RECORD_DELETE, "e", 2);
    expect_applied(&b, "acde");
    builder_abort(&b, names, 2);
    expect_applied(&b, "ad");
    uint64_t outer = builder_fence(&b, inner); /* over the fence and the abort: they keep force */
    expect_applied(&b, "a");
    builder_data(&b, "f");
    builder_fence(&b, outer); /* from a fence on: f */
    builder_data(&b, "g");
    expect_applied(&b, "ag");
    builder_deinit(&b);
}

static void wal_verdict__fence_behind_a_hole__has_no_force(void **state)
{
    (void)state;
    struct log_builder b = small(3, true);
    uint64_t a = builder_data(&b, "a");
    uint64_t lost = builder_data(&b, "lost");
    builder_fence(&b, a);
    *builder_at(&b, lost) ^= 1;
    expect_applied(&b, "a");
    builder_deinit(&b);
}

static void wal_verdict__control_payload_out_of_form__is_refused(void **state)
{
    (void)state;
    struct log_builder b = small(3, true);
    builder_data(&b, "a");
    uint64_t ahead = b.lsn + 4096;
    uint8_t payload[8];
    store_u64(payload, ahead);
    builder_append(&b, WAL_RECORD_FENCE, payload, 8);
    expect_refused(&b, RFE_CORRUPT, "expected a fence or abort payload");
    builder_deinit(&b);
}

static void wal_verdict__newer_record__is_refused(void **state)
{
    (void)state;
    struct log_builder b = small(3, true);
    builder_data(&b, "a");
    uint64_t lsn = builder_data(&b, "b");
    uint8_t *at = builder_at(&b, lsn);
    at[41] = 2;

    store_u64(at, hash64(at + 8, 56, b.salt));
    expect_refused(&b, RFE_NEWER_VERSION, "lane-00/0000000003: offset 1152");
    builder_deinit(&b);
}

static void wal_verdict__void_set__answers_by_position(void **state)
{
    (void)state;
    struct wal_void_set s = {0};
    uint8_t payload[WAL_FENCE_PAYLOAD_BYTES];
    static const uint64_t ranges[][2] = {{640, 700}, {64, 128}, {100, 192}, {640, 660}, {192, 256}};
    assert_false(wal_void_has(&s, 0));
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        struct wal_record_head h = {
            .lsn = ranges[i][1], .type = WAL_RECORD_FENCE, .payload_bytes = sizeof payload};
        wal_fence_encode(payload, ranges[i][0]);
        assert_int_equal(wal_void_add(&s, &h, payload), 0);
    }
    wal_void_seal(&s);
    for (uint64_t lsn = 0; lsn < 800; lsn++) {
        bool in = (lsn >= 64 && lsn < 256) || (lsn >= 640 && lsn < 700);
        assert_int_equal(wal_void_has(&s, lsn), in);
    }
    wal_void_deinit(&s);
}

/* ---- damage everywhere ---- */

/* A log whose every byte below `durable` is covered by a mark. */
static struct log_builder marked_log(uint64_t *durable_out)
{
    struct log_builder b = small(3, false);
    builder_data(&b, "a");
    builder_group(&b);
    builder_data(&b, "bb");
    builder_fence(&b, b.lsn);
    builder_group(&b);
    *durable_out = b.lsn;
    builder_data(&b, "c");
    return b;
}

static bool in_checked_bytes(struct log_builder *b, uint64_t lsn, uint64_t at)
{
    struct wal_record_head h;
    assert_int_equal(wal_record_decode(builder_at(b, lsn), b->salt, lsn, &h), WAL_RECORD_VALID);
    return at < lsn + WAL_RECORD_HEAD_BYTES + h.payload_bytes;
}

/* Every bit of the log, one by one: of a checked byte below the marks it is refused; of bytes that
 * have no meaning (behind a payload, in a pad's body) nothing changes; in the last record the log
 * ends before it. */
static void wal_verdict__every_bit_flipped__is_found(void **state)
{
    (void)state;
    uint64_t durable = 0;
    struct log_builder b = marked_log(&durable);
    unsigned refused = 0, unseen = 0, cut = 0;
    uint64_t first = 3 * SEGMENT + BLOCK, lsn = first;
    for (uint64_t at = first; at < b.lsn; at++) {
        struct wal_record_head h;
        wal_record_decode(builder_at(&b, lsn), b.salt, lsn, &h);
        if (at == lsn + h.covered_bytes) lsn = at;
        bool checked = in_checked_bytes(&b, lsn, at);
        for (int bit = 0; bit < 8; bit++) {
            *builder_at(&b, at) ^= (uint8_t)(1 << bit);
            struct wal_verdict v;
            int rc = builder_judge(&b, NULL, &v);
            *builder_at(&b, at) ^= (uint8_t)(1 << bit);
            if (checked && at < durable) {
                assert_int_equal(rc, -RFE_CORRUPT);
                assert_int_equal(v.fault_offset, lsn - 3 * SEGMENT);
                refused++;
            } else {
                assert_int_equal(rc, 0);
                assert_int_equal(v.end_lsn, checked ? durable : b.lsn);
                if (checked)
                    cut++;
                else
                    unseen++;
            }
            wal_verdict_deinit(&v);
        }
    }
    print_message("bits: refused %u, log ends earlier %u, without meaning %u\n", refused, cut,
                  unseen);
    assert_int_equal(refused, 8 * (64 + 2 + 64 + 64 + 3 + 64 + 8 + 64));
    assert_int_equal(cut, 8 * (64 + 2));
    builder_deinit(&b);
}

/* The first record of b that t does not hold whole any more. */
static uint64_t first_difference(struct log_builder *b, struct log_builder *t)
{
    uint64_t lsn = 3 * SEGMENT + BLOCK;
    while (lsn < b->lsn) {
        struct wal_record_head h;
        assert_int_equal(wal_record_decode(builder_at(b, lsn), b->salt, lsn, &h), WAL_RECORD_VALID);
        size_t checked = WAL_RECORD_HEAD_BYTES + h.payload_bytes;
        if (memcmp(builder_at(b, lsn), builder_at(t, lsn), checked) != 0) break;
        lsn += h.covered_bytes;
    }
    return lsn;
}

/* The log's tail zeroed from every byte on: no mark is left behind that could convict, so the log
 * ends with its last whole record. */
static void wal_verdict__cut_at_every_byte__keeps_what_is_whole(void **state)
{
    (void)state;
    uint64_t durable = 0;
    struct log_builder b = marked_log(&durable), t;
    builder_copy(&t, &b);
    unsigned cuts = 0;
    for (uint64_t at = b.lsn; at-- > 3 * SEGMENT + BLOCK; cuts++) {
        *builder_at(&t, at) = 0;
        struct wal_verdict v;
        assert_int_equal(builder_judge(&t, NULL, &v), 0);
        assert_int_equal(v.kind, WAL_VERDICT_CUT);
        assert_int_equal(v.end_lsn, first_difference(&b, &t));
        wal_verdict_deinit(&v);
    }
    print_message("cuts: %u\n", cuts);
    builder_deinit(&t);
    builder_deinit(&b);
}

/* Five full blocks in two segments, all but the last two below a mark. */
enum { DAMAGE_BLOCKS = 5, DAMAGE_DURABLE = 3 };
static struct log_builder blocks_log(uint64_t *at)
{
    struct log_builder b = small(3, false);
    char text[BLOCK - 64];
    memset(text, '.', sizeof text);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < DAMAGE_BLOCKS; i++) {
        text[0] = (char)('a' + i);
        text[1] = '\0';
        if (i == 2) builder_next_segment(&b);
        if (i <= DAMAGE_DURABLE) b.mark = b.lsn;
        at[i] = builder_append(&b, WAL_RECORD_DATA, text, sizeof text);
    }
    return b;
}

static unsigned long damage_refused, damage_cut;

/* After block j took other bytes: below the marks it is found; else the log ends before it. */
static void expect_found(struct log_builder *b, const uint64_t *at, int i, int j)
{
    struct wal_verdict v;
    int first = i < j ? i : j;
    int rc = builder_judge(b, NULL, &v);
    if (first < DAMAGE_DURABLE) {
        assert_int_equal(rc, -RFE_CORRUPT);
        damage_refused++;
    } else {
        assert_int_equal(rc, 0);
        assert_int_equal(v.end_lsn, at[first]);
        damage_cut++;
    }
    wal_verdict_deinit(&v);
}

static void wal_verdict__blocks_zeroed_swapped_copied__are_found(void **state)
{
    (void)state;
    uint64_t at[DAMAGE_BLOCKS];
    for (int i = 0; i < DAMAGE_BLOCKS; i++) {
        struct log_builder b = blocks_log(at);
        memset(builder_at(&b, at[i]), 0, BLOCK);
        expect_found(&b, at, i, i);
        builder_deinit(&b);
        for (int j = 0; j < DAMAGE_BLOCKS; j++) {
            if (i == j) continue;
            b = blocks_log(at);
            uint8_t kept[BLOCK];
            memcpy(kept, builder_at(&b, at[j]), BLOCK);
            memcpy(builder_at(&b, at[j]), builder_at(&b, at[i]), BLOCK);
            expect_found(&b, at, j, j); /* i copied over j */
            memcpy(builder_at(&b, at[i]), kept, BLOCK);
            expect_found(&b, at, i, j); /* swapped */
            builder_deinit(&b);
        }
    }
    print_message("blocks: refused %lu, log ends earlier %lu\n", damage_refused, damage_cut);
    assert_int_equal(damage_refused + damage_cut, DAMAGE_BLOCKS * (1 + 2 * (DAMAGE_BLOCKS - 1)));
}

/* ---- images that are still being read ---- */

struct arriving {
    const struct log_builder *from;
    uint8_t *to[BUILDER_SEGMENTS_MAX];
    uint64_t there[BUILDER_SEGMENTS_MAX];
    unsigned calls, fail_at;
};
static int arrive(void *ctx, uint32_t index, uint64_t bytes)
{
    struct arriving *a = ctx;
    if (++a->calls == a->fail_at) return -EIO;
    assert_true(bytes <= SEGMENT);
    for (uint32_t i = 0; i <= index; i++) { /* in rising order: what is before is there too */
        uint64_t upto = i < index ? SEGMENT : bytes;
        if (upto <= a->there[i]) continue;
        memcpy(a->to[i] + a->there[i], a->from->image[i] + a->there[i], upto - a->there[i]);
        a->there[i] = upto;
    }
    return 0;
}

/* Nothing is looked at before it was asked for: the verdict is that on the whole images. And when
 * reading fails, at whatever step, it says so. */
static void wal_verdict__images_arrive_late__are_asked_for_first(void **state)
{
    (void)state;
    struct log_builder b = small(4, true);
    builder_data(&b, "a");
    builder_fence(&b, b.lsn);
    uint64_t lost = builder_data(&b, "lost");
    *builder_at(&b, lost) ^= 1;
    builder_cut(&b, lost);
    builder_data(&b, "b");
    builder_next_segment(&b);
    builder_data(&b, "c");
    lost = builder_data(&b, "lost");
    builder_data(&b, "discarded");
    builder_next_segment(&b);
    builder_data(&b, "discarded too");
    *builder_at(&b, lost) ^= 1;
    struct wal_verdict whole, v;
    assert_int_equal(builder_judge(&b, NULL, &whole), 0);

    struct wal_verdict_segment views[BUILDER_SEGMENTS_MAX];
    unsigned failures = 0;
    for (unsigned fail_at = 1;; fail_at++) {
        struct arriving a = {.from = &b, .fail_at = fail_at};
        struct wal_verdict_input in = builder_input(&b, views);
        for (uint32_t i = 0; i < b.count; i++) {
            a.to[i] = mem_alloc_aligned(4096, SEGMENT);
            memset(a.to[i], 0xe7, SEGMENT);
            views[i].image = a.to[i];
        }
        in.need = arrive;
        in.ctx = &a;
        int rc = wal_verdict_judge(&in, NULL, &v);
        for (uint32_t i = 0; i < b.count; i++)
            mem_free(a.to[i]);
        if (rc == 0) break;
        assert_int_equal(rc, -EIO);
        failures++;
    }
    assert_int_equal(v.end_lsn, whole.end_lsn);
    assert_int_equal(v.records, whole.records);
    assert_int_equal(v.discarded_records, 2);
    assert_int_equal(v.mark_lsn, whole.mark_lsn);
    assert_int_equal(v.cut_count, 1);
    assert_true(failures >= 8);
    wal_verdict_deinit(&v);
    wal_verdict_deinit(&whole);
    builder_deinit(&b);
}

static void wal_verdict__no_memory__is_said(void **state)
{
    (void)state;
    struct log_builder b = small(3, false);
    builder_data(&b, "a");
    builder_fence(&b, b.lsn);
    uint64_t name = b.head[0].number * SEGMENT + BLOCK;
    builder_abort(&b, &name, 1);
    struct wal_verdict v;
    unsigned failures = 0;
    for (uint64_t k = 1;; k++) {
        alloc_fail_at(k);
        int rc = builder_judge(&b, NULL, &v);
        alloc_fail_at(0);
        if (rc == 0) break;
        assert_int_equal(rc, -ENOMEM);
        failures++;
    }
    wal_verdict_deinit(&v);
    assert_int_equal(failures, 2);
    builder_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_verdict__empty_log__is_cut_at_its_start),
        cmocka_unit_test(wal_verdict__closed_log__is_clean),
        cmocka_unit_test(wal_verdict__close_record_without_its_pad__is_cut),
        cmocka_unit_test(wal_verdict__several_segments__are_walked_in_order),
        cmocka_unit_test(wal_verdict__void_and_pad_bodies__are_never_read),
        cmocka_unit_test(wal_verdict__hole_above_the_marks__ends_the_log),
        cmocka_unit_test(wal_verdict__damage_below_a_mark__is_refused),
        cmocka_unit_test(wal_verdict__mark_far_behind__convicts),
        cmocka_unit_test(wal_verdict__mark_at_a_segment_end__is_met),
        cmocka_unit_test(wal_verdict__numbers__must_have_no_gap),
        cmocka_unit_test(wal_verdict__records_without_successor__are_refused),
        cmocka_unit_test(wal_verdict__segments_swapped__are_refused),
        cmocka_unit_test(wal_verdict__cut__is_walked_over),
        cmocka_unit_test(wal_verdict__one_cut_copy__is_unfinished_or_damage),
        cmocka_unit_test(wal_verdict__two_different_cut_copies__are_no_pair),
        cmocka_unit_test(wal_verdict__cut_near_the_end__stands_in_the_next_header),
        cmocka_unit_test(wal_verdict__header_cut_before_whole_records__hides_them),
        cmocka_unit_test(wal_verdict__header_cut_passed__is_refused),
        cmocka_unit_test(wal_verdict__stale_tail_under_another_salt__is_nothing),
        cmocka_unit_test(wal_verdict__fence_and_abort__take_batches_out),
        cmocka_unit_test(wal_verdict__fence_behind_a_hole__has_no_force),
        cmocka_unit_test(wal_verdict__control_payload_out_of_form__is_refused),
        cmocka_unit_test(wal_verdict__newer_record__is_refused),
        cmocka_unit_test(wal_verdict__void_set__answers_by_position),
        cmocka_unit_test(wal_verdict__every_bit_flipped__is_found),
        cmocka_unit_test(wal_verdict__cut_at_every_byte__keeps_what_is_whole),
        cmocka_unit_test(wal_verdict__blocks_zeroed_swapped_copied__are_found),
        cmocka_unit_test(wal_verdict__images_arrive_late__are_asked_for_first),
        cmocka_unit_test(wal_verdict__no_memory__is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
