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

static int wrong_catalog(struct lane_replay *r, uint64_t lsn, const char *what, uint64_t number)
{
    return err_set(&r->why, -RFE_WRONG_CATALOG,
                   "the record at position %" PRIu64 " names %s %" PRIu64
                   ", which this catalog never had",
                   lsn, what, number);
}

/* A number with a tombstone is a table's or a column's that is gone: hidden, and counted. One with
 * neither row nor tombstone means that this catalog is not this log's. */
static int check_table(struct lane_replay *r, uint64_t lsn, uint64_t incarnation, bool *gone_out)
{
    const struct schema_table *table = schema_table_by_incarnation(r->e->o.schema, incarnation);
    if (table == NULL) return wrong_catalog(r, lsn, "table", incarnation);
    *gone_out = !schema_table_exists(table, SCHEMA_VERSION_MAX);
    return 0;
}

static int check_columns(struct lane_replay *r, uint64_t lsn, const struct batch_view *v,
                         const struct batch_group *g)
{
    for (uint32_t i = 0; i < g->column_count; i++) {
        uint32_t id;
        uint8_t type;
        batch_read_column_type(v, g, i, &id, &type);
        const struct schema_column *sc = schema_column_by_id(r->e->o.schema, id);
        if (sc == NULL) return wrong_catalog(r, lsn, "column", id);
        if (sc->type != type) return wrong_catalog(r, lsn, "another type for column", id);
    }
    return 0;
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
                   "the record at position %" PRIu64 " does not fit its segment's arena", lsn);
}

static int replay_data(struct lane_replay *r, const struct wal_record_head *h,
                       const uint8_t *payload)
{
    struct batch_view v;
    struct err_msg why = {.code = 0};
    int rc = batch_check(payload, h->payload_bytes, &why);
    if (rc != 0)
        return err_set(&r->why, rc, "lane %" PRIu32 ", record at position %" PRIu64 ": %s",
                       r->lane != NULL ? image_of(r, h->lsn)->lane : 0, h->lsn, why.text);
    batch_open(&v, payload, h->payload_bytes);
    bool all_gone = true;
    for (uint32_t i = 0; i < v.group_count; i++) {
        struct batch_group g;
        bool gone;
        batch_read_group(&v, i, &g);
        rc = check_table(r, h->lsn, g.incarnation, &gone);
        if (rc == 0) rc = check_columns(r, h->lsn, &v, &g);
        if (rc != 0) return rc;
        all_gone = all_gone && gone;
    }
    if (all_gone) {
        r->e->dropped_batches++;
        return 0;
    }
    struct wal_image *image = image_of(r, h->lsn);
    uint32_t at = wal_lane_replay_arena(r->lane, image, memtable_batch_bytes(v.fragment_count));
    if (at == UINT32_MAX) return arena_full(r, h->lsn);
    memtable_begin(image->owner, at, h->lsn);
    for (uint32_t i = 0; i < v.fragment_count && rc == 0; i++)
        rc = link_fragment(r, &v, image, at, i);
    return rc;
}

static int replay_delete(struct lane_replay *r, const struct wal_record_head *h,
                         const uint8_t *payload)
{
    struct batch_delete d;
    struct err_msg why = {.code = 0};
    int rc = batch_decode_delete(payload, h->payload_bytes, &d, &why);
    if (rc != 0)
        return err_set(&r->why, rc, "record at position %" PRIu64 ": %s", h->lsn, why.text);
    bool gone;
    rc = check_table(r, h->lsn, d.incarnation, &gone);
    if (rc != 0 || gone) return rc;
    struct wal_image *image = image_of(r, h->lsn);
    uint32_t at = wal_lane_replay_arena(r->lane, image, memtable_batch_bytes(1));
    if (at == UINT32_MAX) return arena_full(r, h->lsn);
    memtable_begin(image->owner, at, h->lsn);
    memtable_link_delete(image->owner, at, (uint32_t)(payload - image->base), h->payload_bytes);
    return 0;
}

static int replay_record(void *ctx, const struct wal_record_head *h, const uint8_t *payload,
                         uint64_t lsn)
{
    struct lane_replay *r = ctx;
    (void)lsn;
    int rc =
        h->type == WAL_RECORD_DELETE ? replay_delete(r, h, payload) : replay_data(r, h, payload);
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
    else if (h->type == WAL_RECORD_DATA)
        r->e->dropped_batches--;
    r->e->replayed_batches--;
    r->e->replayed_bytes -= h->payload_bytes;
    return 0;
}

/* ---- one lane ---- */

/* Hands the directory's files to the lane: live ones get an image, free ones wait. */
static int adopt_files(struct lane_replay *r, struct wal_dir_lane *files)
{
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
        struct wal_live_segment *s = &r->segments[i];
        struct wal_segment_id id = {.segment_bytes = m->segment_bytes,
                                    .block_bytes = m->block_bytes,
                                    .lane = lane,
                                    .number = s->number};
        char name[WAL_PATH_BYTES];
        memcpy(id.uuid, m->uuid, WAL_UUID_BYTES);
        wal_segment_path(name, lane, s->number);
        int rc = wal_segment_head_read(s->file, &id, name, r->msg, &s->head, &s->weak_copy);
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
    int rc = r.images == NULL || r.segments == NULL ? -ENOMEM : adopt_files(&r, files);
    if (rc == 0) rc = e->o.dir->created ? read_fresh(&r, lane, &point) : read_log(&r, lane, &point);
    if (rc == 0) rc = settle_and_start(&r, &point, free_number);
    mem_free(r.segments);
    mem_free(r.images);
    return rc;
}

int engine_replay(struct engine *e, struct err_msg *msg)
{
    int64_t began = mono_ns();
    e->opened_clean = true;
    for (uint32_t i = 0; i < e->lanes; i++) {
        int rc = replay_lane(e, i, msg);
        if (rc != 0) return rc;
    }
    e->replay_ns = (uint64_t)(mono_ns() - began);
    return 0;
}
