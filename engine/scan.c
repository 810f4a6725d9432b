/* Cursors.
 *
 * In this order: the pin, the view, then V of each lane; then view and clock once more. So the
 * answer is the state at V, under a lease that held. Each hand-over of rows checks epoch and clock
 * again, and that the tables read are what they were. */
#include "engine/scan.h"

struct engine_cursor {
    struct engine *e;
    struct pin *pin;
    struct scan_target target;
    char *table; /* for rows_out */
    char *device;
    uint64_t view;
    struct memtable_segment **segments[WAL_LANES_MAX];
    struct memtable_snapshot snapshot[WAL_LANES_MAX];
    uint32_t *devices;
    uint32_t device_count, device_next;
    struct memtable_scan *scan; /* of devices[device_next - 1] */
    bool has_last;
    int64_t last_time;               /* handed out last, of that device */
    uint32_t held_first, held_count; /* rows of the chunk that are not handed out yet */
    int failed; /* the first error, which ends the scan: rows may have been passed over */
    int64_t time_from, time_to;
    uint64_t limit;
    bool descending;
    struct scan_chunk chunk;
};

/* ---- snapshots ---- */

static int take_lane(struct engine_cursor *c, uint32_t lane)
{
    struct wal_lane *l = c->e->lane[lane];
    struct wal_image **images = NULL;
    uint64_t visible = wal_visible(l); /* before the images: all that lies below it is in them */
    uint32_t n;
    int rc = engine_images(l, &images, &n);
    if (rc != 0) return rc;
    if (n > 0) pin_narrow(c->pin, lane, images[0]->number);
    /* In place: the owner of each image is its memtable segment. */
    struct memtable_segment **segments = (struct memtable_segment **)(void *)images;
    for (uint32_t i = 0; i < n; i++)
        segments[i] = images[i]->owner;
    mem_free(c->segments[lane]);
    c->segments[lane] = segments;
    c->snapshot[lane] =
        (struct memtable_snapshot){.segments = segments, .segment_count = n, .visible = visible};
    return 0;
}

static int take_snapshot(struct engine_cursor *c)
{
    pin_widen(c->pin, c->e->lanes);
    for (uint32_t i = 0; i < c->e->lanes; i++) {
        int rc = take_lane(c, i);
        if (rc != 0) return rc;
    }
    return 0;
}

/* 0, -RFE_LEASE_FENCED, or -RFE_SCHEMA_CHANGED: what was resolved does not hold any more. */
static int check_view(struct engine_cursor *c)
{
    struct lease_look look = lease_look(c->e->o.words, c->e->o.clock);
    if (!look.live || view_epoch(look.view) != view_epoch(c->view)) return -RFE_LEASE_FENCED;
    if (look.view == c->view) return 0;
    if (!scan_target_fits(&c->target, view_version(c->view), view_version(look.view)))
        return -RFE_SCHEMA_CHANGED;
    return 0;
}

static void hide_expired(struct engine_cursor *c)
{
    int64_t oldest;
    if (engine_oldest_time(c->e, schema_table_ttl(c->target.table), &oldest) &&
        c->time_from < oldest)
        c->time_from = oldest;
}

/* ---- opening ---- */

static int try_open(struct engine_cursor *c, const struct rf_scan_options *o,
                    struct rf_error *error)
{
    struct lease_look look = lease_look(c->e->o.words, c->e->o.clock);
    if (!look.live) return -RFE_LEASE_FENCED;
    c->view = look.view;
    struct scan_names names = {.table = o->table,
                               .device = o->device,
                               .tags = o->tags,
                               .tag_count = o->tag_count,
                               .columns = o->columns,
                               .column_count = o->column_count};
    int rc = scan_target_init(&c->target, c->e, &names, view_version(c->view), error);
    if (rc == 0) rc = take_snapshot(c);
    if (rc == 0) rc = scan_target_devices(&c->target, c->e, &c->devices, &c->device_count);
    if (rc == 0) rc = check_view(c);
    if (rc != 0) return rc;
    hide_expired(c);
    return scan_chunk_init(&c->chunk, &c->target);
}

static void forget(struct engine_cursor *c)
{
    scan_chunk_deinit(&c->chunk);
    memset(&c->chunk, 0, sizeof c->chunk);
    scan_target_deinit(&c->target);
    memset(&c->target, 0, sizeof c->target);
    mem_free(c->devices);
    c->devices = NULL;
    c->device_count = 0;
}

static int check_options(const struct rf_scan_options *o, struct rf_error *error)
{
    if (o == NULL || o->size < sizeof *o)
        return engine_fail(error, -EINVAL, RF_NONE, RF_NONE, RF_NONE,
                           "size is %zu: use rf_scan_options_init", o != NULL ? o->size : 0);
    if ((o->column_count > 0) != (o->columns != NULL) || (o->tag_count > 0 && o->tags == NULL))
        return engine_fail(error, -EINVAL, RF_NONE, RF_NONE, RF_NONE,
                           "counts and arrays of columns or tags do not fit");
    return 0;
}

int engine_scan_open(struct engine *e, const struct rf_scan_options *o,
                     struct engine_cursor **cursor_out, struct rf_error *error)
{
    int rc = check_options(o, error);
    if (rc != 0) return rc;
    struct engine_cursor *c = mem_zalloc(sizeof *c);
    if (c == NULL) return engine_fail(error, -ENOMEM, RF_NONE, RF_NONE, RF_NONE, "out of memory");
    c->e = e;
    c->time_from = o->time_from;
    c->time_to = o->time_to;
    c->limit = o->limit;
    c->descending = o->descending;
    c->pin = pins_acquire(&e->pins);
    if (c->pin == NULL) {
        mem_free(c);
        return engine_fail(error, -RFE_LIMIT, RF_NONE, RF_NONE, RF_NONE,
                           "%u scans are open already", PINS_MAX);
    }
    for (;;) {
        rc = try_open(c, o, error);
        if (rc != -RFE_SCHEMA_CHANGED) break;
        forget(c); /* no row was handed out: start over */
    }
    const char *name = o->table != NULL ? o->table : o->device;
    char *copy = rc == 0 ? mem_strndup(name, strlen(name)) : NULL;
    if (rc == 0 && copy == NULL) rc = -ENOMEM;
    if (o->table != NULL)
        c->table = copy;
    else
        c->device = copy;
    if (rc != 0) {
        engine_scan_close(c);
        if (rc == -ENOMEM || rc == -RFE_LEASE_FENCED || rc == -RFE_LIMIT)
            return engine_fail(error, rc, RF_NONE, RF_NONE, RF_NONE, "%s", err_text(rc));
        return rc;
    }
    pin_idle(c->pin, mono_ns());
    *cursor_out = c;
    return 0;
}

void engine_scan_close(struct engine_cursor *c)
{
    if (c == NULL) return;
    if (c->scan != NULL) memtable_scan_close(c->scan);
    forget(c);
    for (uint32_t i = 0; i < c->e->lanes; i++)
        mem_free(c->segments[i]);
    pins_release(c->pin);
    mem_free(c->table);
    mem_free(c->device);
    mem_free(c);
}

/* ---- going on ---- */

/* Opens the scan of devices[device_next - 1], behind the last row handed out if there was one. */
static int open_device(struct engine_cursor *c)
{
    uint64_t incarnation;
    const void *key;
    uint32_t key_bytes, number = c->devices[c->device_next - 1];
    devices_key(c->e->devices, number, &incarnation, &key, &key_bytes);
    struct memtable_query q = {
        .device = number,
        .incarnation = incarnation,
        .key = key,
        .key_bytes = key_bytes,
        .wants = c->target.wants,
        .want_count = c->target.want_count,
        .time_from = c->time_from,
        .time_to = c->time_to,
        .descending = c->descending,
        .rows_without_cells = !c->target.tree,
        .live = c->target.live,
        .live_count = c->target.live_count,
    };
    if (c->has_last && !c->descending) {
        if (c->last_time == INT64_MAX) return 0;
        q.time_from = c->last_time + 1;
    } else if (c->has_last) {
        if (c->last_time == INT64_MIN) return 0;
        q.time_to = c->last_time - 1;
    }
    if (q.time_from > q.time_to) return 0;
    uint32_t region = engine_region(c->e, key, key_bytes);
    uint32_t lane = c->e->o.dir->manifest.region_lane[region];
    return memtable_scan_open(&c->snapshot[lane], &q, &c->scan);
}

/* The next run of rows of one device in chunk.times and chunk.cells: how many, 0 at the end. */
static int64_t next_rows(struct engine_cursor *c)
{
    uint32_t max = c->chunk.rows_max;
    if (c->limit < max) max = (uint32_t)c->limit;
    while (max > 0) {
        if (c->scan != NULL) {
            int64_t n = memtable_scan_next(c->scan, c->chunk.times, c->chunk.cells, max);
            if (n != 0) return n;
            memtable_scan_close(c->scan);
            c->scan = NULL;
        }
        if (c->device_next == c->device_count) return 0;
        c->device_next++;
        c->has_last = false;
        int rc = open_device(c);
        if (rc != 0) return rc;
    }
    return 0;
}

/* A pin that was revoked while idle: a new snapshot, from behind the last row. */
static int go_on(struct engine_cursor *c)
{
    if (pin_busy(c->pin)) return 0;
    bool inside = c->scan != NULL;
    c->held_count = 0;
    if (inside) memtable_scan_close(c->scan);
    c->scan = NULL;
    int rc = take_snapshot(c);
    return rc == 0 && inside ? open_device(c) : rc;
}

static int next_chunk(struct engine_cursor *c, struct rf_tablet *rows_out)
{
    int rc = go_on(c);
    if (rc != 0) return rc;
    if (c->held_count == 0) {
        int64_t n = next_rows(c);
        if (n < 0) return (int)n;
        c->held_first = 0;
        c->held_count = (uint32_t)n;
    }
    rc = check_view(c);
    if (rc != 0 || c->held_count == 0) return rc;
    uint64_t incarnation;
    struct scan_rows rows = {.first = c->held_first, .count = c->held_count};
    devices_key(c->e->devices, c->devices[c->device_next - 1], &incarnation, &rows.key,
                &rows.key_bytes);
    rc = scan_chunk_fill(&c->chunk, &c->target, &rows, rows_out);
    if (rc != 0) return rc;
    rows_out->table = c->table;
    rows_out->device = c->device;
    c->held_first += rows.count;
    c->held_count -= rows.count;
    c->has_last = true;
    c->last_time = c->chunk.times[c->held_first - 1];
    c->limit -= rows.count;
    return 1;
}

int engine_scan_next(struct engine_cursor *c, struct rf_tablet *rows_out)
{
    if (c->failed != 0) return c->failed;
    int rc = next_chunk(c, rows_out);
    if (rc < 0) c->failed = rc;
    pin_idle(c->pin, mono_ns());
    return rc;
}

static int count_once(struct engine *e, const struct rf_scan_options *o, uint64_t *rows_out,
                      struct rf_error *error)
{
    struct engine_cursor *c;
    int rc = engine_scan_open(e, o, &c, error);
    if (rc != 0) return rc;
    c->target.want_count = 0; /* the names were checked; no cell is needed to count rows */
    uint64_t rows = 0;
    rc = go_on(c);
    for (int64_t n = 1; rc == 0 && n > 0;) {
        n = next_rows(c);
        if (n < 0)
            rc = (int)n;
        else
            rows += (uint64_t)n;
        if (rc == 0) c->limit -= (uint64_t)n;
    }
    if (rc == 0) rc = check_view(c);
    engine_scan_close(c);
    if (rc != 0) return engine_fail(error, rc, RF_NONE, RF_NONE, RF_NONE, "%s", err_text(rc));
    *rows_out = rows;
    return 0;
}

int engine_count(struct engine *e, const struct rf_scan_options *o, uint64_t *rows_out,
                 struct rf_error *error)
{
    int rc;
    do { /* a table that changes meanwhile: no row was handed out, so it starts over */
        rc = count_once(e, o, rows_out, error);
    } while (rc == -RFE_SCHEMA_CHANGED);
    return rc;
}
