#include "cli/dump_walk.h"

#include "cli/dump_payload.h"

#include "base/bytes.h"

#include <inttypes.h>
#include <stdarg.h>

struct walk {
    FILE *f;
    const struct dump_lane *lane;
    const struct dump_manifest *m;
    struct dump_result result;
    size_t segment; /* index */
    uint64_t offset;
    uint64_t salt;
    uint64_t durable;   /* H so far: the highest mark seen */
    uint32_t last_type; /* of the newest record that is no pad */
    bool newer;         /* a later version's record ended the walk */
};

static uint64_t usable_end(const struct walk *w)
{
    return w->m->segment_bytes - w->m->block_bytes;
}

static uint64_t lsn_of(const struct walk *w, size_t segment, uint64_t offset)
{
    return w->lane->segment[segment].number * w->m->segment_bytes + offset;
}

static uint64_t position(const struct walk *w)
{
    return lsn_of(w, w->segment, w->offset);
}

/* A place at or behind a segment's last usable byte is the first one of the next segment. */
static uint64_t settled(const struct walk *w, uint64_t lsn)
{
    uint64_t number = lsn / w->m->segment_bytes, offset = lsn % w->m->segment_bytes;
    if (offset >= usable_end(w)) return (number + 1) * w->m->segment_bytes + w->m->block_bytes;
    if (offset < w->m->block_bytes) return number * w->m->segment_bytes + w->m->block_bytes;
    return lsn;
}

static void note_mark(struct walk *w, uint64_t mark)
{
    if (mark != 0 && settled(w, mark) > w->durable) w->durable = settled(w, mark);
}

static void put_place(struct walk *w, size_t segment, uint64_t offset)
{
    fprintf(w->f, "lane-%02" PRIu32 "/%010" PRIu64 " offset %" PRIu64, w->lane->index,
            w->lane->segment[segment].number, offset);
}

__attribute__((format(printf, 4, 5))) static void fault(struct walk *w, size_t segment,
                                                        uint64_t offset, const char *fmt, ...)
{
    va_list args;
    w->result.faults++;
    fputs("fault: ", w->f);
    put_place(w, segment, offset);
    fputs(": ", w->f);
    va_start(args, fmt);
    vfprintf(w->f, fmt, args);
    va_end(args);
    putc('\n', w->f);
}

/* ---- records ---- */

static enum dump_state decode(const struct walk *w, size_t segment, uint64_t offset, uint64_t salt,
                              struct dump_record *r)
{
    return dump_record_decode(w->lane->segment[segment].bytes + offset, usable_end(w) - offset,
                              salt, lsn_of(w, segment, offset), r);
}

static void print_line(struct walk *w, size_t segment, uint64_t offset, const struct dump_record *r)
{
    put_place(w, segment, offset);
    fprintf(w->f, " lsn %" PRIu64 " %s, covers %" PRIu32 ", payload %" PRIu32 ", mark %" PRIu64,
            r->lsn, dump_type_name(r->type), r->covered_bytes, r->payload_bytes, r->mark);
}

static void print_data(struct walk *w, const struct dump_record *r)
{
    struct dump_counts counts;
    struct bad why = {0};
    if (!dump_data_check(r->payload, r->payload_bytes, &counts, &why)) {
        putc('\n', w->f);
        fault(w, w->segment, w->offset + DUMP_HEAD_BYTES + why.column, "data payload: %s", why.why);
        return;
    }
    fprintf(w->f,
            ", region %" PRIu32 ", %" PRIu64 " rows of %" PRIu64 " devices in %" PRIu64 " tables\n",
            load_u32(r->payload + 4), counts.rows, counts.devices, counts.groups);
    if (w->lane->payloads || w->lane->rows)
        dump_data_print(w->f, r->payload, r->payload_bytes, (enum time_unit)w->m->time_unit,
                        w->lane->rows);
}

static void print_delete(struct walk *w, const struct dump_record *r)
{
    struct bad why = {0};
    putc('\n', w->f);
    if (!dump_delete_print(w->f, r->payload, r->payload_bytes, (enum time_unit)w->m->time_unit,
                           w->lane->payloads || w->lane->rows, &why))
        fault(w, w->segment, w->offset + DUMP_HEAD_BYTES + why.column, "delete payload: %s",
              why.why);
}

static void print_fence(struct walk *w, const struct dump_record *r)
{
    bool ok = r->payload_bytes == 8 && load_u64(r->payload) <= r->lsn;
    if (ok)
        fprintf(w->f, ", void from %" PRIu64 "\n", load_u64(r->payload));
    else
        putc('\n', w->f);
    if (!ok) fault(w, w->segment, w->offset + DUMP_HEAD_BYTES, "fence payload");
}

static void print_abort(struct walk *w, const struct dump_record *r)
{
    uint32_t n = r->payload_bytes >= 8 ? load_u32(r->payload) : 0;
    bool ok = n >= 1 && n <= 65536 && r->payload_bytes == 8 + 8 * (uint64_t)n &&
              load_u32(r->payload + 4) == 0;
    for (uint32_t i = 0; ok && i < n; i++)
        ok = load_u64(r->payload + 8 + 8 * (size_t)i) < r->lsn;
    for (uint32_t i = 0; ok && i < n; i++)
        fprintf(w->f, "%s%" PRIu64, i == 0 ? ", void " : " ",
                load_u64(r->payload + 8 + 8 * (size_t)i));
    putc('\n', w->f);
    if (!ok) fault(w, w->segment, w->offset + DUMP_HEAD_BYTES, "abort payload");
}

static void print_record(struct walk *w, const struct dump_record *r)
{
    print_line(w, w->segment, w->offset, r);
    switch (r->type) {
    case DUMP_DATA: print_data(w, r); break;
    case DUMP_DELETE: print_delete(w, r); break;
    case DUMP_FENCE: print_fence(w, r); break;
    case DUMP_ABORT: print_abort(w, r); break;
    default: putc('\n', w->f); break;
    }
}

static void enter_segment(struct walk *w, size_t segment)
{
    const struct dump_header *h = &w->lane->segment[segment].header;
    w->segment = segment;
    w->offset = w->m->block_bytes;
    w->salt = h->salt;
    put_place(w, segment, 0);
    fprintf(w->f, " header, generation %" PRIu64 ", salt %016" PRIx64 ", mark %" PRIu64,
            h->generation, h->salt, h->mark);
    if (h->cut != 0) fprintf(w->f, ", the segment before it ends at %" PRIu64, h->cut);
    putc('\n', w->f);
}

/* ---- the cut ---- */

/* The two copies of a cut record for the present position. */
struct pair {
    uint64_t offset; /* of the first copy; 0: no two blocks are left */
    bool whole[2];
    uint64_t salt[2];
};

static bool cut_names(const struct dump_record *r, uint64_t lsn)
{
    return r->type == DUMP_CUT && r->payload_bytes == 16 && load_u64(r->payload) == lsn &&
           load_u64(r->payload + 8) != 0;
}

static struct pair look_for_cut(const struct walk *w)
{
    struct pair pair = {0};
    uint64_t block = w->m->block_bytes, first = align_up(w->offset, block);
    if (first + 2 * block > usable_end(w)) return pair;
    pair.offset = first;
    for (int i = 0; i < 2; i++) {
        struct dump_record r;
        if (decode(w, w->segment, first + (uint64_t)i * block, w->salt, &r) != DUMP_WHOLE) continue;
        pair.whole[i] = cut_names(&r, position(w));
        if (pair.whole[i]) pair.salt[i] = load_u64(r.payload + 8);
    }
    return pair;
}

static bool pass_cut(struct walk *w)
{
    struct pair pair = look_for_cut(w);
    if (!pair.whole[0] || !pair.whole[1] || pair.salt[0] != pair.salt[1]) return false;
    put_place(w, w->segment, w->offset);
    fprintf(w->f, " cut: discarded up to offset %" PRIu64 ", salt %016" PRIx64 " from here on\n",
            pair.offset + 2 * (uint64_t)w->m->block_bytes, pair.salt[0]);
    w->salt = pair.salt[0];
    w->offset = pair.offset + 2 * (uint64_t)w->m->block_bytes;
    return true;
}

static bool holds_headers(const struct walk *w, size_t segment, uint64_t from, uint64_t salt)
{
    struct dump_record r;
    for (uint64_t at = from; at < usable_end(w); at += 64) {
        enum dump_state state = decode(w, segment, at, salt, &r);
        if (state == DUMP_WHOLE || state == DUMP_BROKEN) return true;
    }
    return false;
}

/* One copy alone, with records under its salt behind it: the pair was whole once. */
static void check_broken_pair(struct walk *w)
{
    struct pair pair = look_for_cut(w);
    uint64_t behind = pair.offset + 2 * (uint64_t)w->m->block_bytes;
    if (pair.offset == 0) return;
    for (int i = 0; i < 2; i++)
        if (pair.whole[i] && holds_headers(w, w->segment, behind, pair.salt[i])) {
            fault(w, w->segment, pair.offset, "one copy of a cut pair is damaged");
            return;
        }
}

/* ---- the walk ---- */

/* False at the log's end. */
static bool step(struct walk *w)
{
    const struct dump_segment *next =
        w->segment + 1 < w->lane->count ? &w->lane->segment[w->segment + 1] : NULL;
    struct dump_record r;
    if (next != NULL && next->header.cut == position(w)) {
        enter_segment(w, w->segment + 1);
        return true;
    }
    if (w->offset >= usable_end(w)) {
        if (next == NULL) return false;
        if (next->header.cut != 0)
            fault(w, w->segment + 1, 80,
                  "the header names a cut at %" PRIu64 ", which the log has passed",
                  next->header.cut);
        enter_segment(w, w->segment + 1);
        return true;
    }
    enum dump_state state = decode(w, w->segment, w->offset, w->salt, &r);
    w->newer = state == DUMP_NEWER;
    if (state == DUMP_WHOLE && r.type != DUMP_CUT) {
        print_record(w, &r);
        note_mark(w, r.mark);
        w->result.records++;
        if (r.type != DUMP_PAD) w->last_type = r.type;
        w->offset += r.covered_bytes;
        return true;
    }
    return pass_cut(w);
}

/* Valid headers behind the end: discarded, but their marks count. */
static void scan_behind(struct walk *w, size_t segment, uint64_t from, uint64_t salt)
{
    struct dump_record r;
    for (uint64_t at = from; at < usable_end(w); at += 64) {
        enum dump_state state = decode(w, segment, at, salt, &r);
        if (state == DUMP_NONE) continue;
        print_line(w, segment, at, &r);
        fprintf(w->f, ": behind the end%s\n",
                state == DUMP_WHOLE    ? ""
                : state == DUMP_BROKEN ? ", not whole"
                                       : ", of a later version");
        note_mark(w, r.mark);
        w->result.discarded++;
        bool is_last = segment + 1 == w->lane->count && w->lane->count > 1;
        if (is_last && segment > w->segment)
            fault(w, segment, at, "a record in the last segment, which must be empty");
    }
}

static void conclude(struct walk *w)
{
    uint64_t end = position(w), settled_end = settled(w, end);
    for (size_t i = 0; i < w->lane->count; i++) {
        note_mark(w, w->lane->segment[i].header.mark);
        if (i > 0) note_mark(w, w->lane->segment[i].header.cut);
    }
    put_place(w, w->segment, w->offset);
    fprintf(w->f, " the log ends\n");
    check_broken_pair(w);
    scan_behind(w, w->segment, align_up(w->offset, 64), w->salt);
    for (size_t i = w->segment + 1; i < w->lane->count; i++)
        scan_behind(w, i, w->m->block_bytes, w->lane->segment[i].header.salt);
    if (w->newer) fault(w, w->segment, w->offset, "a record of a later version");
    if (settled_end < w->durable)
        fault(w, w->segment, w->offset,
              "no whole record, but everything below %" PRIu64 " was durable", w->durable);
    if (w->segment + 1 == w->lane->count && w->offset > w->m->block_bytes)
        fault(w, w->segment, w->m->block_bytes,
              "a record in the last segment, which must be empty");
    if (w->segment + 1 < w->lane->count && w->lane->segment[w->segment + 1].header.cut != 0)
        fault(w, w->segment + 1, 80,
              "the header names a cut at %" PRIu64 ", which the log does not reach",
              w->lane->segment[w->segment + 1].header.cut);
    w->result.clean = w->result.faults == 0 && w->last_type == DUMP_CLOSE &&
                      w->result.discarded == 0 && w->offset % w->m->block_bytes == 0;
}

void dump_lane_print(FILE *f, const struct dump_lane *lane, struct dump_result *result_out)
{
    struct walk w = {.f = f, .lane = lane, .m = lane->manifest};
    enter_segment(&w, 0);
    while (step(&w))
        continue;
    conclude(&w);
    *result_out = w.result;
}
