/* From the log back to the memtable: each lane's segments are read into the images that they will
 * be written from, judged, linked, and the log is cut where it ended. */
#include "engine/engine_impl.h"

#include "wal/cut.h"
#include "wal/replay.h"

struct lane_replay {
    struct engine *e;
    struct wal_lane *lane;
    struct err_msg *msg;
    struct err_msg why;        /* of what the records say; the verdict's msg goes before it */
    struct wal_image **images; /* of the live segments, rising */
    struct wal_live_segment *segments;
    uint32_t count;
    struct wal_image *back_image; /* where batches are being taken back */
    uint32_t back_at;
};

static struct wal_image *image_of(const struct lane_replay *r, uint64_t lsn)
{
    uint64_t number = lsn_segment(lsn, r->e->segment_bytes);
    return r->images[number - r->segments[0].number];
}

static int link_fragment(struct lane_replay *r, const struct batch_view *v, struct wal_image *image,
                         uint32_t at, uint32_t index)
{
    struct batch_fragment f;
    struct batch_group g;
    const void *key;
    uint32_t key_bytes, group, number;
    batch_read_fragment(v, index, &f);
    batch_read_group(v, f.group, &g);
    batch_read_device(v, f.device, &group, &key, &key_bytes);
    int rc = devices_intern(r->e->devices, g.incarnation, key, key_bytes, &number);
    if (rc != 0) return rc;
    memtable_link(image->owner, at, index, (uint32_t)(v->payload - image->base), &f, number);
    return 0;
}

static int arena_full(struct lane_replay *r, uint64_t lsn)
{
    return err_set(&r->why, -RFE_CORRUPT,
                   "lane %" PRIu32 ", the record at position %" PRIu64
                   ": more fragments than its segment's arena holds",
                   image_of(r, lsn)->lane, lsn);
}

static int replay_data(struct lane_replay *r, const struct wal_record_head *h,
                       const uint8_t *payload)
{
    struct batch_view v;
    batch_open(&v, payload, h->payload_bytes);
    struct wal_image *image = image_of(r, h->lsn);
    uint32_t at = wal_lane_replay_arena(r->lane, image, memtable_batch_bytes(v.fragment_count));
    if (at == UINT32_MAX) return arena_full(r, h->lsn);
    memtable_begin(image->owner, at, h->lsn);
    int rc = 0;
    for (uint32_t i = 0; i < v.fragment_count && rc == 0; i++)
        rc = link_fragment(r, &v, image, at, i);
    return rc;
}

static int replay_delete(struct lane_replay *r, const struct wal_record_head *h,
                         const uint8_t *payload)
{
    struct wal_image *image = image_of(r, h->lsn);
    uint32_t at = wal_lane_replay_arena(r->lane, image, memtable_batch_bytes(1));
    if (at == UINT32_MAX) return arena_full(r, h->lsn);
    memtable_begin(image->owner, at, h->lsn);
    memtable_link_delete(image->owner, at, (uint32_t)(payload - image->base), h->payload_bytes);
    return 0;
}

/* What is wholly of tables that are gone is hidden, and counted. */
static int replay_record(void *ctx, const struct wal_record_head *h, const uint8_t *payload,
                         uint64_t lsn)
{
    struct lane_replay *r = ctx;
    struct err_msg why = {.code = 0};
    bool gone;
    (void)lsn;
    int rc = engine_check_record(r->e->o.schema, h->type, payload, h->payload_bytes, &gone, &why);
    if (rc != 0)
        return err_set(&r->why, rc, "lane %" PRIu32 ", the record at position %" PRIu64 ": %s",
                       image_of(r, h->lsn)->lane, h->lsn, why.text);
    if (gone)
        r->e->dropped_batches++;
    else
        rc = h->type == WAL_RECORD_DELETE ? replay_delete(r, h, payload)
                                          : replay_data(r, h, payload);
    if (rc != 0) return rc;
    r->e->replayed_batches++;
    r->e->replayed_bytes += h->payload_bytes;
    return 0;
}

/* A batch that was linked, or dropped with its table, before the fence or the abort behind it was
 * read. */
static int take_back(void *ctx, const struct wal_record_head *h, const uint8_t *payload,
                     uint64_t lsn)
{
    struct lane_replay *r = ctx;
    struct wal_image *image = image_of(r, lsn);
    (void)payload;
    if (image != r->back_image) {
        r->back_image = image;
        r->back_at = memtable_index_bytes(image->arena_bytes);
    }
    uint32_t end = wal_lane_replay_arena(r->lane, image, 0);
    if (memtable_seek(image->owner, &r->back_at, end, lsn))
        memtable_void(image->owner, r->back_at);
    else
        r->e->dropped_batches--;
    r->e->replayed_batches--;
    r->e->replayed_bytes -= h->payload_bytes;
    return 0;
}

/* ---- one lane ---- */

/* Hands the directory's files to the lane: live ones get an image, free ones wait. A lane takes only
 * a chain without a gap, so this part of the verdict comes first. */
static int adopt_files(struct lane_replay *r, uint32_t lane, struct wal_dir_lane *files)
{
    uint64_t head = r->e->o.dir->manifest.head[lane];
    for (uint32_t i = 0; i < files->live_count || i == 0; i++) {
        uint64_t number = files->live_count != 0 ? files->live[i].number : 0;
        int rc = wal_verdict_number(lane, head, i, number, r->msg);
        if (rc != 0) return rc;
    }
    for (uint32_t i = 0; i < files->live_count; i++) {
        struct wal_found found = {.file = files->live[i].file,
                                  .head.number = files->live[i].number};
        int rc = wal_lane_adopt(r->lane, &found, &r->images[i]);
        if (rc != 0) return err_set(r->msg, rc, "no memory for the image of a segment");
        r->segments[i] = (struct wal_live_segment){.number = files->live[i].number,
                                                   .file = files->live[i].file,
                                                   .image = r->images[i]->base};
        files->live[i].file = NULL;
    }
    for (uint32_t i = 0; i < files->spare_count; i++) {
        int rc = wal_lane_offer_free(r->lane, files->spare[i].file, files->spare[i].number);
        if (rc != 0) return err_set(r->msg, rc, "too many free segments");
        files->spare[i].file = NULL;
    }
    return 0;
}

/* A directory made by this very open holds nothing: its headers are read, and that is all. */
static int read_fresh(struct lane_replay *r, uint32_t lane, struct wal_append_point *point)
{
    const struct wal_manifest *m = &r->e->o.dir->manifest;
    for (uint32_t i = 0; i < r->count; i++) {
        int rc = wal_dir_read_head(r->e->o.dir, lane, &r->segments[i], r->msg);
        if (rc != 0) return rc;
    }
    point->lsn = lsn_first(r->segments[0].number, m->segment_bytes, m->block_bytes);
    point->salt = r->segments[0].head.salt;
    return 0;
}

static int read_log(struct lane_replay *r, uint32_t lane, struct wal_append_point *point)
{
    struct engine *e = r->e;
    const struct wal_manifest *m = &e->o.dir->manifest;
    struct wal_replay_options o = {
        .env = e->o.dir->env,
        .backend = e->o.backend,
        .log = e->o.log,
        .lane = lane,
        .segment_bytes = m->segment_bytes,
        .block_bytes = m->block_bytes,
        .head_number = m->head[lane],
        .segments = r->segments,
        .count = r->count,
        .read_only = e->o.read_only,
        .record = replay_record,
        .take_back = take_back,
        .ctx = r,
    };
    memcpy(o.uuid, m->uuid, WAL_UUID_BYTES);
    struct wal_replay_result result;
    int rc = wal_replay(&o, r->msg, &result);
    if (rc != 0 && rc == r->why.code) (void)err_set(r->msg, rc, "%s", r->why.text);
    e->discarded_records += result.verdict.discarded_records;
    if (result.verdict.kind != WAL_VERDICT_CLEAN) e->opened_clean = false;
    *point = (struct wal_append_point){.lsn = result.verdict.end_lsn, .salt = result.verdict.salt};
    if (rc == 0 && !e->o.read_only) {
        struct wal_cut_options cut = {.lane = lane,
                                      .segment_bytes = m->segment_bytes,
                                      .block_bytes = m->block_bytes,
                                      .segments = r->segments,
                                      .count = r->count};
        rc = wal_cut_after_replay(&cut, &result.verdict, r->msg, point);
    }
    wal_replay_result_deinit(&result);
    return rc;
}

static int settle_and_start(struct lane_replay *r, const struct wal_append_point *point,
                            uint64_t free_number)
{
    struct engine *e = r->e;
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t filled = e->segment_bytes;
        if (e->o.dir->created)
            filled = i == 0 ? WAL_DIR_FILLED_BYTES : e->o.dir->manifest.block_bytes;
        if (filled > e->segment_bytes) filled = e->segment_bytes;
        wal_lane_settle(r->lane, &r->segments[i].head, filled);
    }
    struct wal_start start = {.read_only = e->o.read_only,
                              .end_lsn = point->lsn,
                              .salt = point->salt,
                              .free_number = free_number};
    return wal_lane_start(r->lane, &start, r->msg);
}

static int replay_lane(struct engine *e, uint32_t lane, struct err_msg *msg)
{
    struct wal_dir_lane *files = &e->o.dir->lane[lane];
    struct lane_replay r = {.e = e, .lane = e->lane[lane], .msg = msg, .count = files->live_count};
    uint64_t free_number = 1;
    for (uint32_t i = 0; i < files->spare_count; i++)
        if (files->spare[i].number >= free_number) free_number = files->spare[i].number + 1;
    r.images = mem_zalloc_array(r.count + 1, sizeof(struct wal_image *));
    r.segments = mem_zalloc_array(r.count + 1, sizeof *r.segments);
    struct wal_append_point point = {.lsn = 0};
    int rc = r.images == NULL || r.segments == NULL ? -ENOMEM : adopt_files(&r, lane, files);
    if (rc == 0) rc = e->o.dir->created ? read_fresh(&r, lane, &point) : read_log(&r, lane, &point);
    if (rc == 0) rc = settle_and_start(&r, &point, free_number);
    mem_free(r.segments);
    mem_free(r.images);
    return rc;
}

int engine_start(struct engine *e, struct err_msg *msg)
{
    int64_t began = mono_ns();
    e->opened_clean = true;
    for (uint32_t i = 0; i < e->lanes; i++) {
        int rc = replay_lane(e, i, msg);
        if (rc != 0) return rc;
    }
    e->replay_ns = (uint64_t)(mono_ns() - began);
    if (e->dropped_batches != 0)
        log_info(e->o.log, "engine.batches_hidden", "batches=%" PRIu64 " why=\"tables dropped\"",
                 e->dropped_batches);
    return 0;
}
