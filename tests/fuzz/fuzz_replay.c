/* The verdict on logs that are built, cut and damaged as the input says.
 *
 * The input is a row of steps, one byte each with arguments behind it. Whatever comes of it, the
 * verdict reads nothing outside the images, gives the same answer twice, and its log is the same
 * walked with and without a look at the payloads. */
#include "tests/lib/log_builder.h"
#include "wal/verdict.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { SEGMENT = 8192, BLOCK = 512, SEGMENTS = 3 };

struct input {
    const uint8_t *at, *end;
};
static unsigned take(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* A position in the log so far, picked by one byte. */
static uint64_t pick_lsn(const struct log_builder *b, unsigned byte)
{
    uint64_t first = lsn_first(b->head[0].number, SEGMENT, BLOCK);
    uint64_t span = (b->lsn - first) / WAL_RECORD_ALIGN;
    return first + (span != 0 ? byte * WAL_RECORD_ALIGN % (span * WAL_RECORD_ALIGN) : 0);
}

/* Room for a record and the pad before the segment's end, and a segment behind it. */
static bool room_left(const struct log_builder *b)
{
    return b->lsn < lsn_end(b->head[SEGMENTS - 1].number - 1, SEGMENT, BLOCK) - 1024;
}

static void damage(struct log_builder *b, struct input *in)
{
    uint32_t segment = take(in) % SEGMENTS;
    size_t offset = (take(in) << 8 | take(in)) % SEGMENT;
    unsigned what = take(in);
    if (what == 0)
        memset(b->image[segment] + offset / BLOCK * BLOCK, 0, BLOCK);
    else
        b->image[segment][offset] ^= (uint8_t)what;
}

static void cut_at(struct log_builder *b, uint64_t p)
{
    uint64_t number = lsn_segment(p, SEGMENT);
    if (p < lsn_first(number, SEGMENT, BLOCK) || p > lsn_end(number, SEGMENT, BLOCK)) return;
    if (number + 1 > b->head[SEGMENTS - 1].number) return;
    builder_cut(b, p);
}

static void step(struct log_builder *b, struct input *in)
{
    static const uint8_t text[255];
    unsigned op = take(in) % 12;
    if (op < 7 && !room_left(b)) return;
    uint64_t named;
    switch (op) {
    case 0: builder_append(b, WAL_RECORD_DATA, text, take(in)); break;
    case 1: builder_append(b, WAL_RECORD_DELETE, text, take(in)); break;
    case 2: builder_fence(b, pick_lsn(b, take(in))); break;
    case 3:
        named = pick_lsn(b, take(in));
        builder_abort(b, &named, 1);
        break;
    case 4: builder_group(b); break;
    case 5: builder_close(b); break;
    case 6: builder_next_segment(b); break;
    case 7: damage(b, in); break;
    case 8: cut_at(b, pick_lsn(b, take(in))); break;
    case 9: b->mark = pick_lsn(b, take(in)); break;
    case 10: b->head[take(in) % SEGMENTS].mark = pick_lsn(b, take(in)); break;
    default: b->head[take(in) % SEGMENTS].cut_lsn = pick_lsn(b, take(in)); break;
    }
}

/* lsns of the batches that are applied, mixed into one number. */
static uint64_t walk(const struct wal_verdict_input *in, const struct wal_verdict *v, bool check)
{
    struct wal_cursor c;
    struct wal_record_head h;
    const uint8_t *payload = NULL;
    uint64_t mixed = 0, last = 0;
    if (check)
        wal_cursor_init(&c, in);
    else
        wal_cursor_init_judged(&c, in, v);
    while (wal_cursor_next(&c, &h, &payload) == WAL_STEP_RECORD) {
        CHECK(h.lsn > last);
        last = h.lsn;
        if (wal_verdict_applies(v, &h)) mixed = mixed * 31 + h.lsn;
    }
    CHECK(wal_cursor_lsn(&c) == v->end_lsn);
    return mixed;
}

static void judge(const struct log_builder *b)
{
    struct wal_verdict_segment views[BUILDER_SEGMENTS_MAX];
    const struct wal_verdict_input in = builder_input(b, views);
    struct wal_verdict v, again;
    struct err_msg msg = {0};
    int rc = wal_verdict_judge(&in, &msg, &v);
    if (rc != 0) CHECK(msg.code == rc);
    CHECK(wal_verdict_judge(&in, NULL, &again) == rc);
    CHECK(again.end_lsn == v.end_lsn && again.kind == v.kind && again.salt == v.salt);
    if (rc == 0) {
        CHECK(lsn_normal(v.end_lsn, SEGMENT, BLOCK) == v.end_lsn);
        CHECK(walk(&in, &v, true) == walk(&in, &v, false));
    }
    wal_verdict_deinit(&v);
    wal_verdict_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct input in = {data, data + bytes};
    struct log_builder b;
    builder_init(&b, SEGMENT, BLOCK, SEGMENTS, 1, 9, bytes % 2 != 0);
    for (unsigned steps = 0; in.at < in.end && steps < 64; steps++)
        step(&b, &in);
    judge(&b);
    builder_deinit(&b);
    return 0;
}
