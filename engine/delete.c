/* Deletes: one record a region, which names the devices that match now, or all of the table. */
#include "engine/scan.h"

struct delete_job {
    struct engine *e;
    const struct rf_delete_options *o;
    struct rf_error *error;
    struct scan_target target;
    uint64_t view;
    struct batch_key *keys; /* by region, inside one by key, as the devices */
    uint32_t *region_first; /* those of region r: from [r] up to [r + 1] */
    bool all; /* no filter: every device of the table, later born ones of older records included */
    uint32_t *ids;
    struct op **ops; /* published and not yet waited for, one a region at most */
    uint32_t op_count;
};

static struct batch_key key_of(const struct delete_job *j, uint32_t number)
{
    struct batch_key k;
    uint64_t incarnation;
    devices_key(j->e->devices, number, &incarnation, &k.data, &k.bytes);
    return k;
}

/* A stable counting sort by region. */
static int collect(struct delete_job *j)
{
    uint32_t *numbers = NULL, count = 0;
    j->all = !j->target.tree && j->o->tag_count == 0;
    if (j->all) return 0;
    int rc = scan_target_devices(&j->target, j->e, &numbers, &count);
    if (rc != 0) return rc;
    j->keys = mem_zalloc_array((size_t)count + 1, sizeof *j->keys);
    uint32_t *first = mem_zalloc_array((size_t)j->e->regions + 2, sizeof *first);
    j->region_first = first;
    if (j->keys == NULL || first == NULL) {
        mem_free(numbers);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct batch_key k = key_of(j, numbers[i]);
        first[engine_region(j->e, k.data, k.bytes) + 2]++;
    }
    for (uint32_t r = 0; r < j->e->regions; r++)
        first[r + 2] += first[r + 1];
    for (uint32_t i = 0; i < count; i++) { /* first[r + 1] moves from r's start to its end */
        struct batch_key k = key_of(j, numbers[i]);
        j->keys[first[engine_region(j->e, k.data, k.bytes) + 1]++] = k;
    }
    mem_free(numbers);
    return 0;
}

static int prepare(struct delete_job *j)
{
    engine_step(STEP_TOKEN, 0);
    struct lease_look look = lease_look(j->e->o.words, j->e->o.clock);
    if (!look.live) return -RFE_LEASE_FENCED_RETRY;
    engine_step(STEP_CHECK, 0);
    j->view = look.view;
    struct scan_names names = {.table = j->o->table,
                               .device = j->o->device,
                               .tags = j->o->tags,
                               .tag_count = j->o->tag_count,
                               .columns = j->o->columns,
                               .column_count = j->o->column_count};
    int rc = scan_target_init(&j->target, j->e, &names, view_version(j->view), j->error);
    if (rc != 0) return rc;
    if (schema_table_is_marked(j->target.table, view_version(j->view)))
        return engine_fail(j->error, -RFE_SEMANTIC_ERROR, RF_NONE, RF_NONE, RF_NONE,
                           "\"%s\" is being dropped", schema_table_name(j->target.table));
    j->ids = mem_zalloc_array((size_t)j->target.want_count + 1, sizeof *j->ids);
    j->ops = mem_zalloc_array(j->e->regions, sizeof(struct op *));
    if (j->ids == NULL || j->ops == NULL) return -ENOMEM;
    for (uint32_t i = 0; i < j->target.want_count; i++)
        j->ids[i] = j->target.wants[i].id;
    return collect(j);
}

/* Appends one record; its answer is waited for with those of the other regions, so that a delete
 * takes one wait for the device and not one a region. */
static int append(struct delete_job *j, const struct batch_delete *d, const struct batch_key *keys,
                  int64_t deadline)
{
    struct engine *e = j->e;
    struct op *op;
    int64_t began = mono_ns();
    int rc = op_acquire(e, deadline, j->error, &op);
    if (rc != 0) return rc;
    op->start_ns = began;
    op->rows = op->points = 0;
    struct reserve_want want = {.lane = e->o.dir->manifest.region_lane[d->region],
                                .payload_bytes = batch_delete_bytes(d, keys),
                                .arena_bytes = memtable_batch_bytes(1),
                                .view = j->view,
                                .deadline_mono_ns = deadline};
    op->bytes = want.payload_bytes;
    struct wal_reservation r;
    engine_step(STEP_RESERVE, 0);
    rc =
        want.payload_bytes == 0 ? -RFE_ENTRY_TOO_LARGE : engine_reserve(e, &want, op, j->error, &r);
    if (rc != 0) {
        op_release(op);
        return rc;
    }
    engine_step(STEP_FRAME, 0);
    memtable_begin(r.image->owner, r.arena_at, r.lsn);
    engine_step(STEP_FRAGMENT, 0);
    if (!lease_check(e->o.words, e->o.clock, j->view)) {
        memtable_void(r.image->owner, r.arena_at);
        wal_publish_void(e->lane[want.lane], &r);
        op_release(op);
        return -RFE_LEASE_FENCED_RETRY;
    }
    batch_encode_delete(r.payload, d, keys);
    memtable_link_delete(r.image->owner, r.arena_at, (uint32_t)(r.payload - r.image->base),
                         r.payload_bytes);
    engine_step(STEP_PUBLISH, 0);
    wal_publish(e->lane[want.lane], &r, WAL_RECORD_DELETE);
    j->ops[j->op_count++] = op;
    return 0;
}

/* The record of one region: all devices, or those of the keys that lie in it. */
static int delete_in_region(struct delete_job *j, uint32_t region, int64_t deadline)
{
    struct batch_delete d = {.region = region,
                             .incarnation = j->target.incarnation,
                             .column_count = j->o->columns != NULL ? j->target.want_count : 0,
                             .columns = j->ids,
                             .all_devices = j->all,
                             .time_from = j->o->time_from,
                             .time_to = j->o->time_to};
    if (j->all) return append(j, &d, NULL, deadline);
    uint32_t from = j->region_first[region];
    d.device_count = j->region_first[region + 1] - from;
    return d.device_count == 0 ? 0 : append(j, &d, j->keys + from, deadline);
}

static int try_delete(struct delete_job *j, int64_t deadline)
{
    int rc = prepare(j);
    for (uint32_t region = 0; region < j->e->regions && rc == 0; region++)
        rc = delete_in_region(j, region, deadline);
    if (j->op_count > 0) engine_step(STEP_WAIT, 0);
    for (uint32_t i = 0; i < j->op_count; i++) {
        int answer = op_wait(j->ops[i]);
        if (rc == 0) rc = answer;
    }
    if (j->op_count > 0) engine_step(STEP_ANSWER, 0);
    mem_free(j->ops);
    mem_free(j->ids);
    mem_free(j->keys);
    mem_free(j->region_first);
    scan_target_deinit(&j->target);
    return rc;
}

int engine_delete(struct engine *e, const struct rf_delete_options *o, struct rf_error *error)
{
    if (e->o.read_only)
        return engine_fail(error, -RFE_READ_ONLY, RF_NONE, RF_NONE, RF_NONE, "opened read-only");
    if (o == NULL || o->size < sizeof *o || (o->column_count > 0) != (o->columns != NULL) ||
        (o->tag_count > 0 && o->tags == NULL))
        return engine_fail(error, -EINVAL, RF_NONE, RF_NONE, RF_NONE,
                           "use rf_delete_options_init; counts and arrays must fit");
    if (o->column_count > SCHEMA_COLUMNS_MAX)
        return engine_fail(error, -RFE_LIMIT, RF_NONE, RF_NONE, RF_NONE,
                           "%" PRIu32 " columns: a table has at most %d", o->column_count,
                           SCHEMA_COLUMNS_MAX);
    int64_t deadline = deadline_after(e->o.write_wait_ns);
    struct rf_error why;
    bool again;
    int rc;
    do {
        why.code = 0;
        struct delete_job j = {.e = e, .o = o, .error = &why};
        rc = try_delete(&j, deadline);
        again = (rc == -RFE_LEASE_FENCED_RETRY && engine_wait_live(e, deadline)) ||
                (rc == -RFE_SCHEMA_CHANGED && mono_ns() < deadline);
    } while (again);
    engine_count_answer(e, rc);
    if (rc == 0) return 0;
    if (why.code == 0) return engine_fail(error, rc, RF_NONE, RF_NONE, RF_NONE, "%s", err_text(rc));
    if (error != NULL) *error = why;
    return rc;
}
