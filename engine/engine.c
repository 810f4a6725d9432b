/* The engine's life, upkeep and statistics. */
#include "engine/engine_impl.h"

/* ---- life ---- */

static uint32_t segments_max(const struct engine_options *o)
{
    uint64_t bytes = o->dir->manifest.segment_bytes;
    uint64_t n = o->memory_bytes / o->dir->manifest.lanes / wal_image_bytes(bytes);
    if (o->log_bytes_max != 0 && o->log_bytes_max / o->dir->manifest.lanes / bytes < n)
        n = o->log_bytes_max / o->dir->manifest.lanes / bytes;
    if (n < 4) n = 4;
    return n > 4000 ? 4000 : (uint32_t)n;
}

static int lanes_create(struct engine *e, struct err_msg *msg)
{
    const struct wal_manifest *m = &e->o.dir->manifest;
    for (; e->lanes < m->lanes; e->lanes++) {
        struct wal_lane_options o = {
            .env = e->o.dir->env,
            .lane = e->lanes,
            .segment_bytes = m->segment_bytes,
            .block_bytes = m->block_bytes,
            .segments_max = segments_max(&e->o),
            .depth = e->o.depth,
            .mode = e->o.mode,
            .backend = e->o.backend,
            .buffered = e->o.buffered,
            .stages = e->o.stages,
            .clock = e->o.clock,
            .log = e->o.log,
            .close_wait_ns = e->o.close_wait_ns,
            .hooks = engine_lane_hooks(e),
        };
        memcpy(o.uuid, m->uuid, WAL_UUID_BYTES);
        int rc = wal_lane_create(&o, &e->lane[e->lanes], msg);
        if (rc != 0) return rc;
    }
    return 0;
}

static int stages_create(struct engine *e)
{
    hist_init(&e->write_hist);
    if (!e->o.stages) return 0;
    e->stage_hist = mem_zalloc_array(RF_STAGES, sizeof *e->stage_hist);
    if (e->stage_hist == NULL) return -ENOMEM;
    for (int i = 0; i < RF_STAGES; i++)
        hist_init(&e->stage_hist[i]);
    return 0;
}

int engine_create(const struct engine_options *options, struct engine **engine_out,
                  struct err_msg *msg)
{
    struct engine *e = mem_alloc_aligned(RF_CACHE_LINE, sizeof *e);
    if (e == NULL) return err_set(msg, -ENOMEM, "no memory for the engine");
    memset(e, 0, sizeof *e);
    e->magic = ENGINE_MAGIC;
    e->o = *options;
    const struct wal_manifest *m = &options->dir->manifest;
    e->segment_bytes = m->segment_bytes;
    e->partition_interval = m->partition_interval;
    e->regions = m->regions;
    lock_init(&e->manifest_lock, LOCK_RANK_MANIFEST);
    scratch_pool_init(&e->scratches);
    int rc = devices_create(&e->devices);
    if (rc == 0) rc = stages_create(e);
    if (rc == 0) rc = lanes_create(e, msg);
    if (rc == 0) rc = ops_create(e);
    if (rc != 0) {
        if (rc == -ENOMEM) (void)err_set(msg, rc, "no memory for the engine");
        (void)engine_close(e, false);
        return rc;
    }
    *engine_out = e;
    return 0;
}

int engine_close(struct engine *e, bool abandon)
{
    CHECK(e->magic == ENGINE_MAGIC);
    int rc = 0;
    bool stays = false;
    for (uint32_t i = 0; i < e->lanes; i++) {
        int one = wal_lane_close(e->lane[i], abandon);
        if (rc == 0) rc = one;
        stays = stays || one == -ETIMEDOUT;
    }
    if (stays) return -ETIMEDOUT; /* a late completion still decides, and answers ops of ours */
    ops_destroy(e);
    scratch_pool_deinit(&e->scratches);
    if (e->devices != NULL) devices_destroy(e->devices);
    mem_free(e->stage_hist);
    lock_deinit(&e->manifest_lock);
    e->magic = 0;
    mem_free(e);
    return rc;
}

int engine_wait_prepared(struct engine *e)
{
    for (uint32_t i = 0; i < e->lanes; i++) {
        int rc = wal_lane_wait_prepared(e->lane[i]);
        if (rc != 0) return rc;
    }
    return 0;
}

/* ---- upkeep ---- */

int engine_flush(struct engine *e)
{
    int64_t deadline = deadline_after(e->o.durable_wait_ns);
    for (uint32_t i = 0; i < e->lanes && !e->o.read_only; i++) {
        int rc = wal_flush(e->lane[i], deadline);
        if (rc == -ETIMEDOUT) return -RFE_UNKNOWN;
        if (rc != 0) return -RFE_WAL_ERROR;
    }
    return 0;
}

int engine_resume(struct engine *e, struct err_msg *msg)
{
    int64_t deadline = deadline_after(e->o.durable_wait_ns);
    for (uint32_t i = 0; i < e->lanes && !e->o.read_only; i++) {
        int rc = wal_lane_resume(e->lane[i], deadline, msg);
        if (rc != 0) return rc;
    }
    return 0;
}

int engine_images(struct wal_lane *lane, struct wal_image ***images_out, uint32_t *count_out)
{
    uint32_t room = wal_images(lane, NULL, 0) + 2, n;
    struct wal_image **images = NULL;
    for (;; room = n + 2) { /* more than once when segments begin meanwhile */
        struct wal_image **more = mem_realloc(images, room * sizeof(*more));
        if (more == NULL) {
            mem_free(images);
            return -ENOMEM;
        }
        images = more;
        n = wal_images(lane, images, room);
        if (n <= room) break;
    }
    *images_out = images;
    *count_out = n;
    return 0;
}

/* How far a lane may be trimmed by time: up to the first segment with a row at or above it. */
static int trim_lsn_by_time(struct engine *e, uint32_t lane, int64_t before, uint64_t *lsn_out)
{
    struct wal_image **images;
    uint32_t n;
    *lsn_out = wal_visible(e->lane[lane]);
    int rc = engine_images(e->lane[lane], &images, &n);
    if (rc != 0) return rc;
    for (uint32_t i = 0; i < n; i++) {
        struct memtable_segment *s = images[i]->owner;
        if (memtable_extents(s) == 0 || memtable_time_max(s) < before) continue;
        *lsn_out = images[i]->number * e->segment_bytes;
        break;
    }
    mem_free(images);
    return 0;
}

int engine_trim(struct engine *e, const struct rf_trim_options *o, uint64_t *position_out)
{
    if (e->o.read_only) return -RFE_READ_ONLY;
    if (o->before_position == 0 && !o->by_time) return -EINVAL;
    /* The segments that are looked into. By position none is: no cursor can be in the way. */
    struct pin *pin = o->by_time ? pins_acquire(&e->pins) : NULL;
    if (o->by_time && pin == NULL) return -RFE_LIMIT;
    uint64_t target[WAL_LANES_MAX];
    int rc = 0;
    for (uint32_t i = 0; i < e->lanes && rc == 0; i++) {
        target[i] = UINT64_MAX;
        if (o->by_time) rc = trim_lsn_by_time(e, i, o->before_time, &target[i]);
        if (o->before_position != 0 && o->before_position < target[i])
            target[i] = o->before_position;
    }
    if (pin != NULL) pins_release(pin);
    for (uint32_t i = 0; i < e->lanes && rc == 0; i++)
        rc = wal_trim(e->lane[i], target[i]);
    if (position_out != NULL) *position_out = wal_oldest(e->lane[0]);
    return rc;
}

/* ---- statistics ---- */

static struct rf_latency latency(const struct hist *h)
{
    return (struct rf_latency){
        .count = hist_count(h),
        .p50_ns = hist_quantile(h, 0.5),
        .p90_ns = hist_quantile(h, 0.9),
        .p99_ns = hist_quantile(h, 0.99),
        .p999_ns = hist_quantile(h, 0.999),
        .p9999_ns = hist_quantile(h, 0.9999),
        .max_ns = hist_quantile(h, 1.0),
        .mean_ns = hist_mean(h),
    };
}

static void lane_stats(struct engine *e, uint32_t lane, struct rf_stats *s)
{
    struct wal_lane_stats l;
    wal_lane_stats(e->lane[lane], &l);
    s->device_writes += l.writes;
    s->device_syncs += l.syncs;
    s->device_bytes += l.bytes;
    s->segments += l.segments_live;
    s->segments_free += l.segments_ready + l.segments_free;
    s->segments_ready += l.segments_ready;
    s->segments_late += l.segments_late;
    s->room_waits += l.room_waits;
    s->log_bytes += l.segments_live * e->segment_bytes;
    s->log_bytes_max += l.segments_max * e->segment_bytes;
    s->memory_bytes += l.mapped_bytes;
    s->latched = s->latched || wal_latched(e->lane[lane]) != 0;
    if (l.prepared_ns > s->prepared_ns) s->prepared_ns = l.prepared_ns;
    s->backend = l.backend;
}

void engine_stats(struct engine *e, struct rf_stats *s)
{
    s->batches = atomic_load(&e->totals.batches);
    s->rows = atomic_load(&e->totals.rows);
    s->points = atomic_load(&e->totals.points);
    s->bytes = atomic_load(&e->totals.bytes);
    s->rejected = atomic_load(&e->totals.rejected);
    s->fenced = atomic_load(&e->totals.fenced);
    s->unknown = atomic_load(&e->totals.unknown);
    for (uint32_t i = 0; i < e->lanes; i++)
        lane_stats(e, i, s);
    s->heap_bytes = (uint64_t)alloc_bytes_in_use();
    s->devices = devices_count(e->devices);
    s->position = wal_visible(e->lane[0]);
    s->durable_position = wal_durable(e->lane[0]);
    s->oldest_position = wal_oldest(e->lane[0]);
    s->write = latency(&e->write_hist);
    for (uint32_t i = 0; i < RF_STAGES && e->stage_hist != NULL; i++)
        s->stage[i] = latency(&e->stage_hist[i]);
    s->replayed_batches = e->replayed_batches;
    s->replayed_bytes = e->replayed_bytes;
    s->discarded_records = e->discarded_records;
    s->replay_ns = e->replay_ns;
    s->opened_clean = e->opened_clean;
}
