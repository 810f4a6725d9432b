/* Whole records in damaged segments. A record is recognised at any 64-byte boundary by its own
 * salted checksum, so the walk goes on behind damage until one is met. */
#include "api/salvage.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct walk {
    struct inspect *in;
    struct salvage_lane *out;
    void (*unreadable)(void *ctx, const char *text);
    void *ctx;
    struct wal_void_set voids;
    uint64_t segment_bytes;
    uint32_t block_bytes;
};

static int grow(void **array, uint32_t *room, size_t bytes)
{
    uint32_t more = *room == 0 ? 64 : 2 * *room;
    void *p = mem_realloc(*array, more * bytes);
    if (p == NULL) return -ENOMEM;
    *array = p;
    *room = more;
    return 0;
}

static int add_record(struct salvage_lane *l, const struct wal_record_head *h,
                      const uint8_t *payload)
{
    if (l->record_count == l->record_room) {
        int rc = grow((void **)&l->records, &l->record_room, sizeof *l->records);
        if (rc != 0) return rc;
    }
    l->records[l->record_count++] = (struct salvage_record){.head = *h, .payload = payload};
    return 0;
}

static int add_hole(struct salvage_lane *l, uint64_t lsn, uint64_t bytes, bool told)
{
    if (bytes == 0) return 0;
    if (l->hole_count == l->hole_room) {
        int rc = grow((void **)&l->holes, &l->hole_room, sizeof *l->holes);
        if (rc != 0) return rc;
    }
    l->holes[l->hole_count++] = (struct salvage_hole){.lsn = lsn, .bytes = bytes, .told = told};
    return 0;
}

/* What lies from p on was discarded by an older replay. */
static void discard_from(struct salvage_lane *l, uint64_t p)
{
    while (l->record_count > 0 && l->records[l->record_count - 1].head.lsn >= p)
        l->record_count--;
    while (l->hole_count > 0 && l->holes[l->hole_count - 1].lsn >= p)
        l->hole_count--;
}

/* One whole record; *salt moves on at a cut. */
static int take(struct walk *w, const struct wal_record_head *h, const uint8_t *payload,
                uint64_t *salt)
{
    uint64_t p, new_salt;
    if (h->mark > w->out->mark_lsn) w->out->mark_lsn = h->mark;
    if (wal_record_is_batch(h->type)) return add_record(w->out, h, payload);
    if (h->type == WAL_RECORD_CUT) {
        /* The second copy lies in the next block, under the old salt too: it is stepped over as
         * bytes that the new salt does not know, and is no hole. */
        if (!wal_cut_decode(payload, h->payload_bytes, h->lsn, &p, &new_salt)) return 0;
        discard_from(w->out, p);
        *salt = new_salt;
        return 0;
    }
    int rc = wal_void_add(&w->voids, h, payload);
    return rc == -RFE_CORRUPT ? 0 : rc;
}

static bool is_record(const struct walk *w, const uint8_t *image, uint64_t base, uint64_t at,
                      uint64_t salt, struct wal_record_head *h)
{
    uint64_t end = w->segment_bytes - w->block_bytes;
    if (at + WAL_RECORD_HEAD_BYTES > end) return false;
    if (wal_record_decode(image + at, salt, base + at, h) != WAL_RECORD_VALID) return false;
    if (at + h->covered_bytes > end) return false;
    return wal_payload_whole(h, image + at + WAL_RECORD_HEAD_BYTES, salt);
}

static int walk_segment(struct walk *w, const struct wal_live_segment *s)
{
    uint64_t base = s->number * w->segment_bytes, end = w->segment_bytes - w->block_bytes;
    uint64_t salt = s->head.salt, at = w->block_bytes, hole = at, after_cut = 0;
    int rc = 0;
    while (at < end && rc == 0) {
        struct wal_record_head h;
        if (!is_record(w, s->image, base, at, salt, &h)) {
            at += WAL_RECORD_ALIGN;
            continue;
        }
        if (at > hole && hole != after_cut) rc = add_hole(w->out, base + hole, at - hole, false);
        if (rc == 0) rc = take(w, &h, s->image + at + WAL_RECORD_HEAD_BYTES, &salt);
        at += h.covered_bytes;
        hole = at;
        if (h.type == WAL_RECORD_CUT) after_cut = hole;
    }
    if (rc == 0 && hole < end) rc = add_hole(w->out, base + hole, end - hole, false);
    return rc;
}

static int read_segment(struct walk *w, uint32_t lane, struct wal_live_segment *s,
                        struct err_msg *msg)
{
    int rc = wal_dir_read_head(&w->in->dir, lane, s, msg);
    return rc != 0 ? rc : io_pread(s->file, s->image, w->segment_bytes, 0, NULL);
}

/* Drops void records, and what lies behind a hole above the largest mark: it was never
 * acknowledged. Holes above the mark are no loss. */
static void settle(struct walk *w)
{
    struct salvage_lane *l = w->out;
    uint64_t end = UINT64_MAX;
    for (uint32_t i = 0; i < l->hole_count; i++)
        if (l->holes[i].lsn >= l->mark_lsn && l->holes[i].lsn < end) end = l->holes[i].lsn;
    uint32_t holes = 0, kept = 0;
    for (uint32_t i = 0; i < l->hole_count; i++)
        if (l->holes[i].lsn < l->mark_lsn) l->holes[holes++] = l->holes[i];
    l->hole_count = holes;
    wal_void_seal(&w->voids);
    for (uint32_t i = 0; i < l->record_count; i++)
        if (l->records[i].head.lsn < end && !wal_void_has(&w->voids, l->records[i].head.lsn))
            l->records[kept++] = l->records[i];
    l->record_count = kept;
}

/* The numbers from *next up to the segment's: files that are not there. */
static int note_missing(struct walk *w, uint32_t lane, uint64_t *next, uint64_t number)
{
    uint64_t from = *next;
    *next = number + 1;
    if (from >= number) return 0;
    char path[WAL_PATH_BYTES], text[256];
    wal_segment_path(path, lane, from);
    snprintf(text, sizeof text, "%s: missing, %" PRIu64 " segments from this one on", path,
             number - from);
    w->unreadable(w->ctx, text);
    return add_hole(w->out, from * w->segment_bytes, (number - from) * w->segment_bytes, true);
}

static int find_in_segment(struct walk *w, uint32_t lane, struct wal_live_segment *s)
{
    struct err_msg msg = {.code = 0};
    int rc = read_segment(w, lane, s, &msg);
    if (rc == -RFE_CORRUPT || rc == -RFE_NEWER_VERSION || rc == -EIO) {
        w->unreadable(w->ctx, msg.code != 0 ? msg.text : err_text(rc));
        return add_hole(w->out, s->number * w->segment_bytes, w->segment_bytes, true);
    }
    if (rc != 0) return rc;
    if (s->head.mark > w->out->mark_lsn) w->out->mark_lsn = s->head.mark;
    if (s->head.cut_lsn != 0) discard_from(w->out, s->head.cut_lsn);
    return walk_segment(w, s);
}

int salvage_find(struct inspect *in, uint32_t lane, struct inspect_lane *images,
                 void (*unreadable)(void *ctx, const char *text), void *ctx,
                 struct salvage_lane *out)
{
    memset(out, 0, sizeof *out);
    struct walk w = {.in = in,
                     .out = out,
                     .unreadable = unreadable,
                     .ctx = ctx,
                     .segment_bytes = in->dir.manifest.segment_bytes,
                     .block_bytes = in->dir.manifest.block_bytes};
    uint64_t next = in->dir.manifest.head[lane];
    int rc = inspect_lane_init(in, lane, images);
    for (uint32_t i = 0; i < images->count && rc == 0; i++) {
        rc = note_missing(&w, lane, &next, images->segments[i].number);
        if (rc == 0) rc = find_in_segment(&w, lane, &images->segments[i]);
    }
    if (rc == 0) settle(&w);
    wal_void_deinit(&w.voids);
    return rc;
}

void salvage_lane_deinit(struct salvage_lane *l)
{
    mem_free(l->records);
    mem_free(l->holes);
}
