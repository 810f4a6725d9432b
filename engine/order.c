/* From tablets to runs: which device each row is of, the rows' order by device and time, the
 * fragments, and the layout of the record. */
#include "engine/engine_impl.h"
#include "engine/sort.h"

/* ---- devices ---- */

int tablets_too_large(const struct prepared *p, uint32_t tablet, uint64_t bytes, const char *what)
{
    return engine_fail(p->error, -RFE_ENTRY_TOO_LARGE, tablet, RF_NONE, RF_NONE,
                       "the %s up to this tablet take %" PRIu64
                       " bytes, more than a segment of %" PRIu64 " holds: split the batch",
                       what, bytes, p->engine->segment_bytes);
}

static int device_add(struct prepared *p, uint32_t group, uint32_t hash, const uint8_t *key,
                      uint32_t key_bytes)
{
    p->key_bytes += key_bytes;
    if (p->key_bytes > p->engine->segment_bytes)
        return tablets_too_large(p, group, p->key_bytes, "devices' keys");
    struct tablet_device *all =
        scratch_grow(p->scratch, p->devices, p->device_count, &p->device_room, sizeof *all);
    if (all == NULL) return -ENOMEM;
    p->devices = all;
    all[p->device_count++] =
        (struct tablet_device){.key = key, .key_bytes = key_bytes, .group = group, .hash = hash};
    return 0;
}

int tablets_intern(struct prepared *p)
{
    for (uint32_t i = 0; i < p->device_count; i++) {
        struct tablet_device *d = &p->devices[i];
        uint64_t incarnation = schema_table_incarnation(p->groups[d->group].table);
        int rc = devices_intern_hashed(p->engine->devices, d->hash, incarnation, d->key,
                                       d->key_bytes, &d->number);
        if (rc != 0) return rc;
    }
    return 0;
}

/* Of the group's table; one that is not made yet has no devices to be found, and any hash will do. */
static uint32_t hash_in_group(const struct tablet_group *g, const uint8_t *key, uint32_t key_bytes)
{
    return devices_hash(g->table != NULL ? schema_table_incarnation(g->table) : 0, key, key_bytes);
}

static bool tag_is_null(const struct rf_column *tag, uint32_t row)
{
    return tag == NULL || tag->offsets == NULL ||
           (tag->nulls != NULL && (tag->nulls[row / 8] >> (row % 8) & 1));
}

/* The row's key into out (SCHEMA_KEY_BYTES_MAX + 2 bytes a tag); UINT32_MAX: too long. */
static uint32_t key_of_row(const struct tablet_group *g, uint32_t row, uint8_t *out)
{
    uint32_t bytes = 0, end = 0; /* end: behind the last tag that is not null */
    for (uint32_t i = 0; i < g->tag_count; i++) {
        const struct rf_column *tag = g->tags[i];
        if (tag_is_null(tag, row)) {
            store_u16(out + bytes, 0);
            bytes += 2;
            continue;
        }
        uint32_t n = tag->offsets[row + 1] - tag->offsets[row];
        if (bytes + 2 + (uint64_t)n > SCHEMA_KEY_BYTES_MAX) return UINT32_MAX;
        const uint8_t *value = (const uint8_t *)tag->values;
        bytes += key_put(out + bytes, n > 0 ? value + tag->offsets[row] : NULL, n);
        end = bytes;
    }
    return end;
}

static bool same_tags(const struct tablet_group *g, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < g->tag_count; i++) {
        const struct rf_column *tag = g->tags[i];
        bool null = tag_is_null(tag, a);
        if (null != tag_is_null(tag, b)) return false;
        if (null) continue;
        uint32_t n = tag->offsets[a + 1] - tag->offsets[a];
        if (n != tag->offsets[b + 1] - tag->offsets[b]) return false;
        const uint8_t *v = tag->values;
        if (n > 0 && memcmp(v + tag->offsets[a], v + tag->offsets[b], n) != 0) return false;
    }
    return true;
}

/* Devices of one group by key: open-addressed, index from device_first + 1; 0 is empty. */
struct device_set {
    uint32_t *slot;
    uint32_t slots;
};

static int set_grow(struct prepared *p, const struct tablet_group *g, struct device_set *set)
{
    uint32_t slots = set->slots == 0 ? 64 : 4 * set->slots;
    uint32_t *slot = scratch_array(p->scratch, slots, sizeof *slot);
    if (slot == NULL) return -ENOMEM;
    memset(slot, 0, slots * sizeof *slot);
    for (uint32_t i = 0; i < g->device_count; i++) {
        uint32_t at = p->devices[g->device_first + i].hash & (slots - 1);
        while (slot[at] != 0)
            at = (at + 1) & (slots - 1);
        slot[at] = i + 1;
    }
    *set = (struct device_set){.slot = slot, .slots = slots};
    return 0;
}

/* Finds the key's device in the group or adds it; *index_out from device_first. */
static int set_find(struct prepared *p, uint32_t group, struct device_set *set, const uint8_t *key,
                    uint32_t key_bytes, uint32_t *index_out)
{
    struct tablet_group *g = &p->groups[group];
    if (2 * g->device_count >= set->slots) {
        int rc = set_grow(p, g, set);
        if (rc != 0) return rc;
    }
    uint32_t hash = hash_in_group(g, key, key_bytes), at = hash & (set->slots - 1);
    for (; set->slot[at] != 0; at = (at + 1) & (set->slots - 1)) {
        const struct tablet_device *d = &p->devices[g->device_first + set->slot[at] - 1];
        if (d->hash != hash || d->key_bytes != key_bytes || memcmp(d->key, key, key_bytes) != 0)
            continue;
        *index_out = set->slot[at] - 1;
        return 0;
    }
    uint8_t *copy = scratch_alloc(p->scratch, key_bytes);
    if (copy == NULL) return -ENOMEM;
    memcpy(copy, key, key_bytes);
    int rc = device_add(p, group, hash, copy, key_bytes);
    if (rc != 0) return rc;
    set->slot[at] = ++g->device_count;
    *index_out = g->device_count - 1;
    return 0;
}

static int key_too_long(struct prepared *p, uint32_t group, uint32_t row)
{
    return engine_fail(p->error, -RFE_LIMIT, group, RF_NONE, row,
                       "row %" PRIu32 ": its tags take more than %d bytes", row,
                       SCHEMA_KEY_BYTES_MAX);
}

/* One look at whole arrays instead of one at each row: often a tablet is of one device. False also
 * when it would take more to know. */
static bool rows_are_alike(const struct tablet_group *g)
{
    for (uint32_t i = 0; i < g->tag_count; i++) {
        const struct rf_column *tag = g->tags[i];
        if (tag == NULL || tag->offsets == NULL) continue; /* null in every row */
        if (tag->nulls != NULL) return false;
        const uint32_t *offsets = tag->offsets;
        uint32_t rows = g->in->rows, n = offsets[1] - offsets[0], other = 0;
        for (uint32_t r = 1; r < rows; r++)
            other |= (offsets[r + 1] - offsets[r]) ^ n;
        if (other != 0) return false;
        const uint8_t *first = n > 0 ? (const uint8_t *)tag->values + offsets[0] : NULL;
        /* Each value equals the one before it. */
        if (n > 0 && memcmp(first, first + n, (size_t)n * (rows - 1)) != 0) return false;
    }
    return true;
}

static int devices_of_rows(struct prepared *p, uint32_t group)
{
    struct tablet_group *g = &p->groups[group];
    uint8_t key[SCHEMA_KEY_BYTES_MAX + 2 * SCHEMA_TAGS_MAX];
    struct device_set set = {.slots = 0};
    uint32_t rows = rows_are_alike(g) ? 1 : g->in->rows, index = 0;
    for (uint32_t r = 0; r < rows; r++) {
        if (r > 0 && same_tags(g, r, r - 1)) {
            if (g->row_device != NULL) g->row_device[r] = index;
            continue;
        }
        uint32_t bytes = key_of_row(g, r, key);
        if (bytes == UINT32_MAX) return key_too_long(p, group, r);
        int rc = set_find(p, group, &set, key, bytes, &index);
        if (rc != 0) return rc;
        if (r > 0 && g->row_device == NULL) { /* the first row of a second device */
            g->row_device = scratch_array(p->scratch, rows, sizeof *g->row_device);
            if (g->row_device == NULL) return -ENOMEM;
            memset(g->row_device, 0, r * sizeof *g->row_device);
        }
        if (g->row_device != NULL) g->row_device[r] = index;
    }
    return 0;
}

static int find_devices(struct prepared *p, uint32_t group)
{
    struct tablet_group *g = &p->groups[group];
    g->device_first = p->device_count;
    if (g->tag_count > 0) return devices_of_rows(p, group);
    g->device_count = 1;
    uint32_t hash = hash_in_group(g, g->tree_key, g->tree_key_bytes);
    return device_add(p, group, hash, g->tree_key, g->tree_key_bytes);
}

/* ---- order of rows ---- */

static bool in_order(const struct tablet_group *g)
{
    const int64_t *t = g->in->times;
    const uint32_t *d = g->row_device;
    uint32_t rows = g->in->rows;
    if (d == NULL) {
        for (uint32_t r = 1; r < rows; r++)
            if (t[r] < t[r - 1]) return false;
        return true;
    }
    for (uint32_t r = 1; r < rows; r++)
        if (d[r] < d[r - 1] || (d[r] == d[r - 1] && t[r] < t[r - 1])) return false;
    return true;
}

static int order_rows(struct prepared *p, uint32_t group)
{
    struct tablet_group *g = &p->groups[group];
    uint32_t rows = g->in->rows, devices = g->device_count;
    if (in_order(g)) return 0;
    uint32_t *tmp = scratch_array(p->scratch, rows, sizeof *tmp);
    uint32_t *start = scratch_array(p->scratch, (size_t)devices + 1, sizeof *start);
    uint32_t *count = scratch_array(p->scratch, (size_t)rows + 1, sizeof *count);
    g->order = scratch_array(p->scratch, rows, sizeof *g->order);
    if (g->order == NULL || tmp == NULL || start == NULL || count == NULL) return -ENOMEM;
    memset(start, 0, ((size_t)devices + 1) * sizeof *start);
    for (uint32_t r = 0; r < rows; r++)
        start[(g->row_device != NULL ? g->row_device[r] : 0) + 1]++;
    for (uint32_t d = 0; d < devices; d++)
        start[d + 1] += start[d];
    for (uint32_t r = 0; r < rows; r++) /* a stable counting sort by device */
        g->order[start[g->row_device != NULL ? g->row_device[r] : 0]++] = r;
    for (uint32_t d = 0, at = 0; d < devices; at = start[d++]) /* start[d] is now d's end */
        sort_rows(g->order + at, start[d] - at, g->in->times, tmp, count);
    return 0;
}

/* ---- fragments ---- */

static int fragment_add(struct prepared *p, const struct batch_fragment *f)
{
    struct batch_fragment *all =
        scratch_grow(p->scratch, p->fragments, p->fragment_count, &p->fragment_room, sizeof *all);
    if (all == NULL) return -ENOMEM;
    p->fragments = all;
    all[p->fragment_count++] = *f;
    return 0;
}

static inline uint32_t row_at(const struct tablet_group *g, uint32_t i)
{
    return g->order != NULL ? g->order[i] : i;
}

/* The last time of a partition. */
static int64_t partition_last(int64_t partition, int64_t interval)
{
    int64_t next;
    if (__builtin_add_overflow(partition, 1, &next) ||
        __builtin_mul_overflow(next, interval, &next))
        return INT64_MAX;
    return next - 1;
}

/* Where the run of rows that begins at i ends: at the first of another device or behind `last`. */
static uint32_t run_end(const struct tablet_group *g, uint32_t i, int64_t last)
{
    const int64_t *times = g->in->times;
    const uint32_t *devices = g->row_device;
    uint32_t end = g->in->rows;
    if (devices != NULL) {
        uint32_t device = devices[row_at(g, i)];
        for (uint32_t at = i + 1; at < end; at++)
            if (times[row_at(g, at)] > last || devices[row_at(g, at)] != device) return at;
        return end;
    }
    if (times[row_at(g, end - 1)] <= last) return end;
    for (uint32_t low = i; low + 1 < end;) { /* times rise: low is inside, end is behind */
        uint32_t mid = low + (end - low) / 2;
        if (times[row_at(g, mid)] <= last)
            low = mid;
        else
            end = mid;
    }
    return end;
}

static int split(struct prepared *p, uint32_t group)
{
    struct tablet_group *g = &p->groups[group];
    const int64_t *times = g->in->times;
    int64_t interval = p->engine->partition_interval;
    g->fragment_first = p->fragment_count;
    for (uint32_t i = 0; i < g->in->rows;) {
        uint32_t row = row_at(g, i);
        uint32_t device = g->row_device != NULL ? g->row_device[row] : 0;
        struct batch_fragment f = {.group = group,
                                   .device = g->device_first + device,
                                   .row_first = i,
                                   .partition = partition_of(times[row], interval),
                                   .time_min = times[row]};
        i = run_end(g, i, partition_last(f.partition, interval));
        f.rows = i - f.row_first;
        f.time_max = times[row_at(g, i - 1)];
        int rc = fragment_add(p, &f);
        if (rc != 0) return rc;
    }
    g->fragment_count = p->fragment_count - g->fragment_first;
    return 0;
}

/* ---- the whole ---- */

/* Not keyed by the process: a device's region is as durable as its rows. */
uint32_t engine_region(const struct engine *e, const void *key, uint32_t key_bytes)
{
    return e->regions == 1 ? 0 : (uint32_t)(hash64(key, key_bytes, 1) % e->regions);
}

static int check_region(struct prepared *p)
{
    p->region = engine_region(p->engine, p->devices[0].key, p->devices[0].key_bytes);
    for (uint32_t i = 1; i < p->device_count && p->engine->regions > 1; i++) {
        const struct tablet_device *d = &p->devices[i];
        if (engine_region(p->engine, d->key, d->key_bytes) != p->region)
            return engine_fail(p->error, -RFE_SPANS_REGIONS, d->group, RF_NONE, RF_NONE,
                               "the batch's devices lie in more than one of %" PRIu32
                               " regions: split it by device",
                               p->engine->regions);
    }
    return 0;
}

int tablets_order(struct prepared *p)
{
    for (uint32_t i = 0; i < p->group_count; i++) {
        int rc = find_devices(p, i);
        if (rc == 0) rc = order_rows(p, i);
        if (rc != 0) return rc;
    }
    STAGE_END(p, STAGE_ORDER, order);
    for (uint32_t i = 0; i < p->group_count; i++) {
        int rc = split(p, i);
        if (rc != 0) return rc;
    }
    return check_region(p);
}

int tablets_plan(struct prepared *p)
{
    struct batch_plan *plan = &p->plan;
    *plan = (struct batch_plan){.region = p->region,
                                .group_count = p->group_count,
                                .device_count = p->device_count,
                                .key_bytes = (uint32_t)p->key_bytes, /* at most a segment */
                                .fragment_count = p->fragment_count};
    plan->groups = scratch_array(p->scratch, p->group_count, sizeof *plan->groups);
    if (plan->groups == NULL) return -ENOMEM;
    for (uint32_t i = 0; i < p->group_count; i++) {
        struct tablet_group *g = &p->groups[i];
        struct batch_column_plan *columns =
            scratch_array(p->scratch, g->column_count, sizeof *columns);
        if (columns == NULL) return -ENOMEM;
        for (uint32_t c = 0; c < g->column_count; c++)
            columns[c] = (struct batch_column_plan){.id = g->columns[c].id,
                                                    .type = g->columns[c].type,
                                                    .flags = g->columns[c].flags,
                                                    .value_bytes = g->columns[c].value_bytes};
        plan->groups[i] = (struct batch_group_plan){
            .incarnation = g->table != NULL ? schema_table_incarnation(g->table) : 0,
            .rows = g->in->rows,
            .column_count = g->column_count,
            .columns = columns,
            .fragment_count = g->fragment_count,
        };
    }
    p->payload_bytes = batch_plan(plan);
    if (p->payload_bytes == 0 || p->payload_bytes > UINT32_MAX - 4096)
        return engine_fail(p->error, -RFE_ENTRY_TOO_LARGE, RF_NONE, RF_NONE, RF_NONE,
                           "the batch would take more than 4 GiB");
    const struct engine *e = p->engine;
    if (!wal_record_fits(e->lane[e->o.dir->manifest.region_lane[p->region]],
                         (uint32_t)p->payload_bytes, memtable_batch_bytes(p->fragment_count)))
        return engine_fail(p->error, -RFE_ENTRY_TOO_LARGE, RF_NONE, RF_NONE, RF_NONE,
                           "the batch takes %" PRIu64 " bytes in %" PRIu32
                           " fragments, more than a segment of %" PRIu64 " holds: split it",
                           p->payload_bytes, p->fragment_count, e->segment_bytes);
    return 0;
}
