/* The verdict: a walk to the first position without a whole record, a scan of what lies behind it,
 * and the rule of wal/verdict.h. */
#include "wal/verdict.h"

#include "base/alloc.h"
#include "base/bytes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- walking ---- */

static uint64_t usable_end(const struct wal_verdict_input *in)
{
    return in->segment_bytes - in->block_bytes;
}

static const uint8_t *image_at(const struct wal_verdict_input *in, uint32_t index, uint64_t offset)
{
    return in->segments[index].image + offset;
}

static uint64_t lsn_at(const struct wal_verdict_input *in, uint32_t index, uint64_t offset)
{
    return in->segments[index].head.number * in->segment_bytes + offset;
}

/* True when the image at the cursor may be looked at below `bytes`. */
static bool ready(struct wal_cursor *c, uint64_t bytes)
{
    if (RF_LIKELY(bytes <= c->ready_bytes)) return true;
    if (c->in->need != NULL && c->judged == NULL)
        c->failure = c->in->need(c->in->ctx, c->index, bytes);
    if (c->failure != 0) return false;
    c->ready_bytes = bytes;
    return true;
}

static void enter_segment(struct wal_cursor *c, uint32_t index)
{
    c->ready_bytes = 0;
    c->index = index;
    c->offset = c->in->block_bytes;
    c->salt = c->in->segments[index].head.salt;
    c->records_under_salt = 0;
}

void wal_cursor_init(struct wal_cursor *c, const struct wal_verdict_input *in)
{
    CHECK(in->count > 0 && in->block_bytes % WAL_RECORD_ALIGN == 0);
    CHECK(in->segment_bytes % in->block_bytes == 0 && in->segment_bytes >= 4 * in->block_bytes);
    memset(c, 0, sizeof *c);
    c->in = in;
    enter_segment(c, 0);
}

void wal_cursor_init_judged(struct wal_cursor *c, const struct wal_verdict_input *in,
                            const struct wal_verdict *v)
{
    CHECK(v->kind == WAL_VERDICT_CLEAN || v->kind == WAL_VERDICT_CUT);
    wal_cursor_init(c, in);
    c->judged = v;
}

/* A header at a place of the image, and whether its record lies inside the segment. */
static enum wal_record_state decode_at(const struct wal_verdict_input *in, uint32_t index,
                                       uint64_t offset, uint64_t salt, struct wal_record_head *h)
{
    enum wal_record_state s =
        wal_record_decode(image_at(in, index, offset), salt, lsn_at(in, index, offset), h);
    if (s == WAL_RECORD_VALID && h->covered_bytes > usable_end(in) - offset)
        return WAL_RECORD_INVALID;
    return s;
}

/* What the two blocks behind a position hold of a cut that names it. */
struct cut_pair {
    uint64_t offset; /* of the first copy */
    bool room;       /* both blocks lie inside the segment */
    bool whole[2];
    uint64_t salt[2];
};

static void look_for_cut(const struct wal_cursor *c, struct cut_pair *pair)
{
    const struct wal_verdict_input *in = c->in;
    memset(pair, 0, sizeof *pair);
    pair->offset = align_up(c->offset, in->block_bytes);
    pair->room = pair->offset + 2 * (uint64_t)in->block_bytes <= usable_end(in);
    if (!pair->room) return;
    for (int i = 0; i < 2; i++) {
        uint64_t at = pair->offset + (uint64_t)i * in->block_bytes;
        struct wal_record_head h;
        if (decode_at(in, c->index, at, c->salt, &h) != WAL_RECORD_VALID) continue;
        const uint8_t *payload = image_at(in, c->index, at) + WAL_RECORD_HEAD_BYTES;
        uint64_t p = 0, salt = 0;
        if (h.type != WAL_RECORD_CUT || !wal_payload_whole(&h, payload, c->salt)) continue;
        if (!wal_cut_decode(payload, h.payload_bytes, h.lsn, &p, &salt)) continue;
        if (p != wal_cursor_lsn(c)) continue;
        pair->whole[i] = true;
        pair->salt[i] = salt;
    }
}

static bool cut_complete(const struct cut_pair *pair)
{
    return pair->whole[0] && pair->whole[1] && pair->salt[0] == pair->salt[1];
}

/* Whether the record whose header is at the cursor is whole. Payloads of a judged log were verified
 * once; there the verdict says where a record was none and a cut took its place. */
static bool is_whole(const struct wal_cursor *c, enum wal_record_state s,
                     const struct wal_record_head *h, const uint8_t *payload)
{
    if (s != WAL_RECORD_VALID || h->type == WAL_RECORD_CUT) return false;
    const struct wal_verdict *v = c->judged;
    if (v == NULL) return wal_payload_whole(h, payload, c->salt);
    return c->cuts_passed == v->cut_count || v->cut_lsns[c->cuts_passed] != h->lsn;
}

enum look { LOOK_RECORD, LOOK_END, LOOK_NEWER, LOOK_CORRUPT, LOOK_MOVED, LOOK_CUT, LOOK_FAILED };

/* Looks at one position. For LOOK_MOVED and LOOK_CUT the cursor has gone over a segment's end or a
 * pair of cut records, and must look again. */
static enum look look(struct wal_cursor *c, struct wal_record_head *h, const uint8_t **payload)
{
    const struct wal_verdict_input *in = c->in;
    bool has_next = c->index + 1 < in->count;
    if (c->judged != NULL && wal_cursor_lsn(c) >= c->judged->end_lsn) return LOOK_END;
    /* The header's cut comes before the record here: after a resume the old segment's writes may
     * have landed behind the cut, whole, and they are not part of the log. */
    if (has_next && in->segments[c->index + 1].head.cut_lsn == wal_cursor_lsn(c)) {
        enter_segment(c, c->index + 1);
        return LOOK_MOVED;
    }
    if (c->offset == usable_end(in)) {
        if (!has_next) return LOOK_END;
        if (in->segments[c->index + 1].head.cut_lsn != 0) return LOOK_CORRUPT;
        enter_segment(c, c->index + 1);
        return LOOK_MOVED;
    }
    if (!ready(c, c->offset + WAL_RECORD_HEAD_BYTES)) return LOOK_FAILED;
    enum wal_record_state s = decode_at(in, c->index, c->offset, c->salt, h);
    if (s == WAL_RECORD_NEWER) return LOOK_NEWER;
    if (s == WAL_RECORD_VALID && !ready(c, c->offset + WAL_RECORD_HEAD_BYTES + h->payload_bytes))
        return LOOK_FAILED;
    *payload = image_at(in, c->index, c->offset) + WAL_RECORD_HEAD_BYTES;
    if (is_whole(c, s, h, *payload)) {
        c->offset += h->covered_bytes;
        c->records_under_salt++;
        return LOOK_RECORD;
    }
    struct cut_pair pair;
    if (!ready(c, usable_end(in))) return LOOK_FAILED; /* rare: all that a cut could need */
    look_for_cut(c, &pair);
    if (!cut_complete(&pair)) return LOOK_END;
    c->offset = pair.offset + 2 * (uint64_t)in->block_bytes;
    c->salt = pair.salt[0];
    c->records_under_salt = 0;
    c->cuts_passed++;
    return LOOK_CUT;
}

enum wal_step wal_cursor_next(struct wal_cursor *c, struct wal_record_head *head_out,
                              const uint8_t **payload_out)
{
    struct wal_record_head h;
    const uint8_t *payload = NULL;
    for (;;) { /* ends: every turn moves the cursor forward */
        switch (look(c, &h, &payload)) {
        case LOOK_RECORD:
            *head_out = h;
            *payload_out = payload;
            return WAL_STEP_RECORD;
        case LOOK_END: return WAL_STEP_END;
        case LOOK_NEWER: return WAL_STEP_NEWER;
        case LOOK_CORRUPT: return WAL_STEP_CORRUPT;
        case LOOK_MOVED:
        case LOOK_CUT: break;
        case LOOK_FAILED: CHECK(c->failure == 0); break; /* images are there */
        }
    }
}

/* ---- what is void ---- */

void wal_void_deinit(struct wal_void_set *s)
{
    mem_free(s->ranges);
    mem_free(s->lsns);
    memset(s, 0, sizeof *s);
}

/* Room for `more` items behind count; the array may move. */
static int grow(void **array, uint32_t count, uint32_t *room, uint32_t more, size_t item_bytes)
{
    if (count + more <= *room) return 0;
    uint32_t wanted = *room * 2 > count + more ? *room * 2 : count + more + 14;
    void *p = mem_realloc(*array, wanted * item_bytes);
    if (p == NULL) return -ENOMEM;
    *array = p;
    *room = wanted;
    return 0;
}

int wal_void_add(struct wal_void_set *s, const struct wal_record_head *h, const uint8_t *payload)
{
    if (h->type == WAL_RECORD_FENCE) {
        uint64_t from = 0;
        if (!wal_fence_decode(payload, h->payload_bytes, h->lsn, &from)) return -RFE_CORRUPT;
        int rc = grow((void **)&s->ranges, s->range_count, &s->range_room, 1, sizeof *s->ranges);
        if (rc != 0) return rc;
        s->ranges[s->range_count++] = (struct wal_void_range){from, h->lsn};
    } else if (h->type == WAL_RECORD_ABORT) {
        uint32_t n = 0;
        if (!wal_abort_decode(payload, h->payload_bytes, h->lsn, &n)) return -RFE_CORRUPT;
        int rc = grow((void **)&s->lsns, s->lsn_count, &s->lsn_room, n, sizeof *s->lsns);
        if (rc != 0) return rc;
        for (uint32_t i = 0; i < n; i++)
            s->lsns[s->lsn_count++] = wal_abort_lsn(payload, i);
    }
    return 0;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct wal_void_range *x = a, *y = b;
    return (x->from_lsn > y->from_lsn) - (x->from_lsn < y->from_lsn);
}

static int compare_lsns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void wal_void_seal(struct wal_void_set *s)
{
    if (s->lsn_count > 1) qsort(s->lsns, s->lsn_count, sizeof *s->lsns, compare_lsns);
    if (s->range_count < 2) return;
    qsort(s->ranges, s->range_count, sizeof *s->ranges, compare_ranges);
    uint32_t last = 0;
    for (uint32_t i = 1; i < s->range_count; i++) {
        if (s->ranges[i].from_lsn > s->ranges[last].end_lsn)
            s->ranges[++last] = s->ranges[i];
        else if (s->ranges[i].end_lsn > s->ranges[last].end_lsn)
            s->ranges[last].end_lsn = s->ranges[i].end_lsn;
    }
    s->range_count = last + 1;
}

bool wal_void_has(const struct wal_void_set *s, uint64_t lsn)
{
    uint32_t low = 0, high = s->range_count;
    while (low < high) { /* the last range that begins at or below lsn is the one before `low` */
        uint32_t mid = low + (high - low) / 2;
        if (s->ranges[mid].from_lsn <= lsn)
            low = mid + 1;
        else
            high = mid;
    }
    if (low > 0 && lsn < s->ranges[low - 1].end_lsn) return true;
    return s->lsn_count > 0 &&
           bsearch(&lsn, s->lsns, s->lsn_count, sizeof *s->lsns, compare_lsns) != NULL;
}

/* ---- scanning behind the end ---- */

/* What lies at or behind the end, seen without trusting any neighbour. */
struct scan {
    uint64_t mark;      /* largest seen */
    uint64_t discarded; /* whole batches */
    bool seen;          /* any header that verifies */
    bool seen_last;     /* one in the last segment */
    bool under_half;    /* one under the salt of a cut that has one whole copy */
    uint64_t salt[3];   /* in force at the end, then those of single cut copies */
    uint32_t salt_count;
};

/* A header in a later segment is known by that segment's salt. Salts that cut records in there
 * begin need no tracking: such a record's own mark lies above the end, and that is enough. */
static void scan_segment(const struct wal_verdict_input *in, uint32_t index, uint64_t offset,
                         const uint64_t *salts, uint32_t salt_count, struct scan *s)
{
    const uint8_t *image = in->segments[index].image;
    uint64_t base = lsn_at(in, index, 0);
    for (uint64_t step; offset < usable_end(in); offset += step) {
        step = WAL_RECORD_ALIGN;
        if (RF_LIKELY(load_u64(image + offset + 8) != base + offset)) continue;
        for (uint32_t i = 0; i < salt_count; i++) {
            struct wal_record_head h;
            enum wal_record_state state = decode_at(in, index, offset, salts[i], &h);
            if (state == WAL_RECORD_INVALID) continue;
            s->seen = true;
            if (index + 1 == in->count) s->seen_last = true;
            if (h.mark > s->mark) s->mark = h.mark;
            if (i > 0) s->under_half = true;
            if (state != WAL_RECORD_VALID) break;
            if (!wal_payload_whole(&h, image + offset + WAL_RECORD_HEAD_BYTES, salts[i])) break;
            if (wal_record_is_batch(h.type)) s->discarded++;
            step = h.covered_bytes;
            break;
        }
    }
}

static int scan_behind(struct wal_cursor *end, const struct cut_pair *pair, struct scan *s)
{
    s->salt[s->salt_count++] = end->salt;
    for (int i = 0; i < 2; i++)
        if (pair->whole[i]) s->salt[s->salt_count++] = pair->salt[i];
    if (!ready(end, usable_end(end->in))) return end->failure;
    scan_segment(end->in, end->index, end->offset, s->salt, s->salt_count, s);
    struct wal_cursor later = *end;
    for (uint32_t i = end->index + 1; i < end->in->count; i++) {
        enter_segment(&later, i);
        if (!ready(&later, usable_end(end->in))) return later.failure;
        scan_segment(end->in, i, end->in->block_bytes, &later.salt, 1, s);
    }
    return 0;
}

/* ---- judging ---- */

static int corrupt(struct wal_verdict *v, const struct wal_verdict_input *in, uint64_t number,
                   uint64_t offset, struct err_msg *msg, const char *expected, const char *found)
{
    char path[WAL_PATH_BYTES];
    wal_segment_path(path, in->lane, number);
    v->kind = WAL_VERDICT_CORRUPT;
    v->fault_number = number;
    v->fault_offset = offset;
    return err_set(msg, -RFE_CORRUPT, "%s: offset %" PRIu64 ": expected %s, found %s", path, offset,
                   expected, found);
}

int wal_verdict_number(uint32_t lane, uint64_t head_number, uint32_t index, uint64_t number,
                       struct err_msg *msg)
{
    char path[WAL_PATH_BYTES], found[64] = "no segment";
    if (number == head_number + index) return 0;
    wal_segment_path(path, lane, head_number + index);
    if (number != 0)
        snprintf(found, sizeof found, "segment %" PRIu64 " as the %s", number,
                 index == 0 ? "oldest" : "next");
    return err_set(msg, -RFE_CORRUPT, "%s: offset 0: expected %s, found %s", path,
                   index == 0 ? "the segment that the manifest names head"
                              : "a segment of this number",
                   found);
}

/* The chain of numbers, before any image is looked at. */
static int judge_numbers(const struct wal_verdict_input *in, struct err_msg *msg,
                         struct wal_verdict *v)
{
    for (uint32_t i = 0; i < in->count || i == 0; i++) {
        uint64_t number = in->count != 0 ? in->segments[i].head.number : 0;
        int rc = wal_verdict_number(in->lane, in->head_number, i, number, msg);
        if (rc == 0) continue;
        v->kind = WAL_VERDICT_CORRUPT;
        v->fault_number = in->head_number + i;
        v->fault_offset = 0;
        return rc;
    }
    return 0;
}

static int note_cut(struct wal_verdict *v, uint64_t p_lsn)
{
    int rc = grow((void **)&v->cut_lsns, v->cut_count, &v->cut_room, 1, sizeof *v->cut_lsns);
    if (rc == 0) v->cut_lsns[v->cut_count++] = p_lsn;
    return rc;
}

static int note_record(const struct wal_verdict_input *in, const struct wal_record_head *h,
                       const uint8_t *payload, struct err_msg *msg, struct wal_verdict *v)
{
    v->records++;
    if (h->mark > v->mark_lsn) v->mark_lsn = h->mark;
    int rc = wal_void_add(&v->void_set, h, payload);
    if (rc == 0 && in->record != NULL) in->record(in->ctx, h, payload);
    if (rc != -RFE_CORRUPT) return rc;
    return corrupt(v, in, lsn_segment(h->lsn, in->segment_bytes),
                   lsn_offset(h->lsn, in->segment_bytes), msg,
                   "a fence or abort payload in its form", "one that is not");
}

/* Walks to the end of the log: counts, marks, the void set, the cuts. end_out: why it ended. */
static int walk(struct wal_cursor *c, struct err_msg *msg, struct wal_verdict *v,
                uint8_t *last_type_out, bool *in_last_out, enum look *end_out)
{
    struct wal_record_head h;
    const uint8_t *payload = NULL;
    for (;;) {
        uint64_t lsn = wal_cursor_lsn(c);
        enum look seen = look(c, &h, &payload);
        int rc = 0;
        if (seen == LOOK_RECORD) {
            if (h.type != WAL_RECORD_PAD) *last_type_out = h.type;
            if (c->index + 1 == c->in->count) *in_last_out = true;
            rc = note_record(c->in, &h, payload, msg, v);
        } else if (seen == LOOK_CUT) {
            rc = note_cut(v, lsn);
        } else if (seen == LOOK_FAILED) {
            rc = c->failure;
        } else if (seen != LOOK_MOVED) {
            *end_out = seen;
            break;
        }
        if (rc != 0) return rc;
    }
    if (c->records_under_salt == 0) *last_type_out = 0;
    return 0;
}

/* What a reader finds at the end of a log that should go on. */
static const char *what_is_there(const struct wal_cursor *c)
{
    struct wal_record_head h;
    if (c->offset == usable_end(c->in)) return "the end of the segment";
    if (decode_at(c->in, c->index, c->offset, c->salt, &h) != WAL_RECORD_VALID)
        return "no record header that verifies";
    if (h.type == WAL_RECORD_CUT) return "a cut record without its equal";
    return "a record whose payload does not verify";
}

static int judge_end(const struct wal_cursor *c, const struct cut_pair *pair, const struct scan *s,
                     bool records_in_last, struct err_msg *msg, struct wal_verdict *v)
{
    const struct wal_verdict_input *in = c->in;
    uint64_t number = in->segments[c->index].head.number;
    uint64_t p = wal_cursor_lsn(c);
    if (s->under_half) {
        int bad = pair->whole[0] ? 1 : 0; /* with two different copies, the one written last */
        return corrupt(v, in, number, pair->offset + (uint64_t)bad * in->block_bytes, msg,
                       "the equal of the cut record beside it", "no such record");
    }
    uint64_t mark = lsn_normal(v->mark_lsn, in->segment_bytes, in->block_bytes);
    if (p < mark) {
        char expected[96];
        snprintf(expected, sizeof expected,
                 "a whole record (the log was durable up to lsn %" PRIu64 ")", v->mark_lsn);
        return corrupt(v, in, number, c->offset, msg, expected, what_is_there(c));
    }
    if (c->index + 1 < in->count && in->segments[c->index + 1].head.cut_lsn != 0)
        return corrupt(v, in, number, c->offset, msg,
                       "the end of the log that the next segment's header names",
                       "a log that does not end there");
    if (records_in_last || s->seen_last)
        return corrupt(v, in, in->segments[in->count - 1].head.number + 1, 0, msg,
                       "a segment behind one that holds records", "no such file");
    return 0;
}

static int judge_newer(const struct wal_cursor *c, struct err_msg *msg, struct wal_verdict *v)
{
    char path[WAL_PATH_BYTES];
    v->kind = WAL_VERDICT_NEWER;
    v->fault_number = c->in->segments[c->index].head.number;
    v->fault_offset = c->offset;
    wal_segment_path(path, c->in->lane, v->fault_number);
    const uint8_t *at = image_at(c->in, c->index, c->offset);
    return err_set(msg, -RFE_NEWER_VERSION,
                   "%s: offset %" PRIu64 ": expected a record of version %u, found type %u of "
                   "version %u",
                   path, c->offset, WAL_RECORD_VERSION, at[40], at[41]);
}

static int judge(const struct wal_verdict_input *in, struct err_msg *msg, struct wal_verdict *v)
{
    int rc = judge_numbers(in, msg, v);
    if (rc != 0) return rc;
    for (uint32_t i = 0; i < in->count; i++) {
        const struct wal_segment_head *h = &in->segments[i].head;
        if (h->mark > v->mark_lsn) v->mark_lsn = h->mark;
        if (h->cut_lsn > v->mark_lsn && i > 0) v->mark_lsn = h->cut_lsn;
    }
    struct wal_cursor c;
    wal_cursor_init(&c, in);
    uint8_t last_type = 0;
    bool records_in_last = false;
    enum look end = LOOK_END;
    rc = walk(&c, msg, v, &last_type, &records_in_last, &end);
    v->end_lsn = wal_cursor_lsn(&c);
    v->salt = c.salt;
    if (rc != 0) return rc;
    if (end == LOOK_NEWER) return judge_newer(&c, msg, v);
    if (end == LOOK_CORRUPT)
        return corrupt(v, in, in->segments[c.index + 1].head.number, 0, msg,
                       "a header that names a cut where a record ends", "another cut");

    struct cut_pair pair;
    look_for_cut(&c, &pair);
    struct scan s = {.mark = v->mark_lsn};
    rc = scan_behind(&c, &pair, &s);
    if (rc != 0) return rc;
    v->mark_lsn = s.mark;
    v->discarded_records = s.discarded;
    rc = judge_end(&c, &pair, &s, records_in_last, msg, v);
    if (rc != 0) return rc;
    /* A close record whose block has no pad up to its end: closing was never finished. Records are
     * appended at block boundaries only, so this one has to be cut like any other end. */
    bool block_whole = v->end_lsn % in->block_bytes == 0;
    bool clean = last_type == WAL_RECORD_CLOSE && !s.seen && block_whole;
    v->kind = clean ? WAL_VERDICT_CLEAN : WAL_VERDICT_CUT;
    v->cut_needed = v->kind == WAL_VERDICT_CUT && (s.seen || c.records_under_salt > 0);
    return 0;
}

void wal_verdict_deinit(struct wal_verdict *v)
{
    wal_void_deinit(&v->void_set);
    mem_free(v->cut_lsns);
    v->cut_lsns = NULL;
}

int wal_verdict_judge(const struct wal_verdict_input *in, struct err_msg *msg,
                      struct wal_verdict *v_out)
{
    struct wal_verdict v = {0};
    int rc = judge(in, msg, &v);
    if (rc != 0 && v.kind != WAL_VERDICT_CORRUPT && v.kind != WAL_VERDICT_NEWER) {
        wal_verdict_deinit(&v);
        return rc;
    }
    wal_void_seal(&v.void_set);
    *v_out = v;
    return rc;
}
