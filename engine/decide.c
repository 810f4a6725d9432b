/* What a lane asks of the engine when it decides, frees and begins segments. */
#include "engine/engine_impl.h"

/* An idle scan that stands in the way of freeing for so long takes a new snapshot. */
#define PIN_IDLE_NS INT64_C(2000000000)

static bool look(void *ctx, uint64_t *view_out)
{
    const struct engine *e = ctx;
    struct lease_look l = lease_look(e->o.words, e->o.clock);
    *view_out = l.view;
    return l.live;
}

/* A batch's columns in pieces, so that nothing is allocated. */
#define IDS_AT_ONCE 64u

static bool columns_fit(const struct schema_table *table, const void *key, uint32_t key_bytes,
                        const struct batch_view *v, const struct batch_group *g, uint64_t then,
                        uint64_t now)
{
    uint32_t ids[IDS_AT_ONCE], n = 0;
    for (uint32_t i = 0; i < g->column_count; i++) {
        struct batch_column c;
        batch_read_column(v, g, i, &c);
        ids[n++] = c.id;
        if (n < IDS_AT_ONCE && i + 1 < g->column_count) continue;
        if (!schema_still_fits(table, key, key_bytes, ids, n, then, now)) return false;
        n = 0;
    }
    return g->column_count > 0 || schema_still_fits(table, key, key_bytes, NULL, 0, then, now);
}

static bool data_fits(const struct engine *e, const uint8_t *payload, uint32_t bytes, uint64_t then,
                      uint64_t now)
{
    struct batch_view v;
    batch_open(&v, payload, bytes);
    for (uint32_t i = 0; i < v.group_count; i++) {
        struct batch_group g;
        batch_read_group(&v, i, &g);
        const struct schema_table *table = schema_table_by_incarnation(e->o.schema, g.incarnation);
        if (table == NULL) return false;
        const void *key = NULL;
        uint32_t key_bytes = 0, group;
        if (schema_table_is_tree(table)) { /* one device a tablet */
            struct batch_fragment f;
            batch_read_fragment(&v, g.fragment_first, &f);
            batch_read_device(&v, f.device, &group, &key, &key_bytes);
        }
        if (!columns_fit(table, key, key_bytes, &v, &g, then, now)) return false;
    }
    return true;
}

static bool delete_fits(const struct engine *e, const uint8_t *payload, uint64_t then, uint64_t now)
{
    struct batch_delete d;
    batch_open_delete(payload, &d);
    const struct schema_table *table = schema_table_by_incarnation(e->o.schema, d.incarnation);
    if (table == NULL) return false;
    struct batch_key key = {.data = NULL};
    if (schema_table_is_tree(table) && d.device_count > 0)
        batch_read_delete_key(payload, &d, 0, &key);
    return schema_still_fits(table, key.data, key.bytes, d.columns, d.column_count, then, now);
}

static bool fits(void *ctx, const struct wal_image *image, const uint8_t *payload,
                 uint32_t payload_bytes, uint8_t type, uint64_t then, uint64_t now)
{
    (void)image;
    const struct engine *e = ctx;
    then = view_version(then);
    now = view_version(now);
    if (type == WAL_RECORD_DELETE) return delete_fits(e, payload, then, now);
    return data_fits(e, payload, payload_bytes, then, now);
}

static void void_batch(void *ctx, struct wal_image *image, uint32_t arena_at)
{
    (void)ctx;
    memtable_void(image->owner, arena_at);
}

/* An image's memtable segment stands behind its arena for all of the image's lives. */
static uint32_t attached(void *ctx, struct wal_image *image, uint64_t image_lsn)
{
    (void)ctx;
    if (image->owner == NULL) { /* its first life: a fresh map */
        image->arena_bytes -= (uint32_t)align_up(sizeof(struct memtable_segment), RF_CACHE_LINE);
        image->owner = image->arena + image->arena_bytes;
        memtable_attach_zeroed(image->owner, image->base, image_lsn, image->arena,
                               image->arena_bytes);
    } else {
        memtable_attach(image->owner, image->base, image_lsn, image->arena, image->arena_bytes);
    }
    return memtable_index_bytes(image->arena_bytes);
}

static bool pinned(void *ctx, const struct wal_image *image)
{
    struct engine *e = ctx;
    return pins_hold(&e->pins, image->lane, image->number, mono_ns(), PIN_IDLE_NS);
}

/* Replaces the manifest with what it says now; the lock is held. */
static int write_manifest(struct engine *e)
{
    struct wal_manifest *m = &e->o.dir->manifest;
    struct err_msg msg = {.code = 0};
    uint64_t before = m->version_obeyed;
    m->sequence++;
    m->version_obeyed = e->o.hooks.version(e->o.hooks.ctx);
    int rc = wal_manifest_write(e->o.dir->env, m, &msg);
    if (rc == 0) return 0;
    m->version_obeyed = before;
    log_warn(e->o.log, "engine.manifest_not_written", "error=%s", err_name(rc));
    return rc;
}

static int head_moved(void *ctx, uint32_t lane, uint64_t head_segment)
{
    struct engine *e = ctx;
    struct wal_manifest *m = &e->o.dir->manifest;
    lock_acquire(&e->manifest_lock);
    uint64_t before = m->head[lane];
    m->head[lane] = head_segment;
    int rc = write_manifest(e);
    if (rc != 0) m->head[lane] = before;
    lock_release(&e->manifest_lock);
    return rc;
}

int engine_save_version(struct engine *e)
{
    int rc = 0;
    if (e->o.read_only) return 0;
    lock_acquire(&e->manifest_lock);
    if (e->o.hooks.version(e->o.hooks.ctx) != e->o.dir->manifest.version_obeyed)
        rc = write_manifest(e);
    lock_release(&e->manifest_lock);
    return rc;
}

struct wal_hooks engine_lane_hooks(struct engine *e)
{
    return (struct wal_hooks){
        .ctx = e,
        .look = look,
        .epoch_shift = VIEW_VERSION_BITS,
        .fits = fits,
        .void_batch = void_batch,
        .attached = attached,
        .pinned = pinned,
        .answered = ops_answered,
        .head_moved = head_moved,
    };
}

bool engine_view_is_closed(struct engine *e, uint64_t view)
{
    bool closed = true; /* every lane is asked, so that each begins to decide */
    for (uint32_t i = 0; i < e->lanes; i++)
        if (!wal_view_is_closed(e->lane[i], view)) closed = false;
    return closed;
}
