/* The steps of a write on an engine: check and look-up, splitting (devices, fragments, layout),
 * ordering, append (reserve, copy, publish), and the whole of it. */
#include "bench/micro/engine.h"

struct path {
    struct micro_engine m;
    struct micro_tablet t;
    struct prepared p;
    bool open;
};

static bool path_open(struct path *path, struct bench_state *state, uint32_t rows, uint32_t columns,
                      uint32_t devices, bool disorder)
{
    if (!micro_open(&path->m, state, RF_SYNC_OFF)) return false;
    path->p.scratch = scratch_acquire(&path->m.engine->scratches);
    if (op_acquire(path->m.engine, INT64_MAX, NULL, &path->p.op) == 0 &&
        micro_tablet(&path->t, rows, columns, devices, disorder) && path->p.scratch != NULL &&
        rf_write(path->m.handle, &path->t.tablet, NULL) == 0)
        return true;
    bench_fail(state, "the first tablet was refused");
    micro_close(&path->m);
    return false;
}

static void path_close(struct path *path)
{
    op_release(path->p.op);
    scratch_release(&path->m.engine->scratches, path->p.scratch);
    micro_tablet_free(&path->t);
    micro_close(&path->m);
}

/* Argument: columns of a tablet of 10,000 points. */
static void check_tablet(struct bench_state *state)
{
    struct path path;
    uint32_t columns = (uint32_t)bench_arg(state, 0);
    if (!path_open(&path, state, 10000 / columns, columns, 0, false)) return;
    while (bench_next(state))
        if (micro_check(&path.m, &path.t.tablet, &path.p) != 0) bench_fail(state, "refused");
    bench_items(state, bench_rounds(state) * 10000);
    path_close(&path);
}
BENCH(check_tablet, 1, 10, 1000)

static void time_order(struct bench_state *state, uint32_t devices, bool disorder)
{
    struct path path;
    if (!path_open(&path, state, 1000, 10, devices, disorder)) return;
    while (bench_next(state)) {
        int rc = micro_check(&path.m, &path.t.tablet, &path.p);
        if (rc == 0) rc = tablets_order(&path.p);
        if (rc == 0) rc = tablets_plan(&path.p);
        if (rc == 0) rc = tablets_intern(&path.p);
        if (rc != 0) bench_fail(state, "refused");
    }
    bench_items(state, bench_rounds(state) * 1000);
    path_close(&path);
}

/* Checked and split; argument: devices of 1,000 rows, 0 the tree model's one. */
static void split(struct bench_state *state)
{
    time_order(state, (uint32_t)bench_arg(state, 0), false);
}
BENCH(split, 0, 1, 10, 1000)

/* The same with every row out of order. */
static void order(struct bench_state *state)
{
    time_order(state, (uint32_t)bench_arg(state, 0), true);
}
BENCH(order, 0, 10)

/* Reserve, copy, checksum and publish of a tablet that is checked and laid out; argument: its rows. */
static void append(struct bench_state *state)
{
    struct path path;
    uint32_t rows = (uint32_t)bench_arg(state, 0);
    if (!path_open(&path, state, rows, 10, 0, false)) return;
    struct engine *e = path.m.engine;
    int rc = micro_check(&path.m, &path.t.tablet, &path.p);
    if (rc == 0) rc = tablets_order(&path.p);
    if (rc == 0) rc = tablets_plan(&path.p);
    if (rc == 0) rc = tablets_intern(&path.p);
    const struct reserve_want want = {.payload_bytes = path.p.payload_bytes,
                                      .arena_bytes = memtable_batch_bytes(path.p.fragment_count),
                                      .view = path.p.view,
                                      .deadline_mono_ns = INT64_MAX};
    uint64_t bytes = 0;
    while (bench_next(state)) {
        struct wal_reservation r;
        struct op *op = path.p.op;
        if (rc == 0) rc = engine_reserve(e, &want, op, NULL, &r);
        if (rc == 0) rc = tablets_apply(&path.p, &r);
        if (rc == 0) {
            wal_publish(e->lane[0], &r, WAL_RECORD_DATA);
            rc = op_wait(op);
            if (rc == 0) rc = op_acquire(e, INT64_MAX, NULL, &path.p.op);
        }
        if (rc != 0) {
            bench_fail(state, "refused");
            break;
        }
        bytes += path.p.payload_bytes;
        if (bytes % (UINT64_C(32) << 20) < path.p.payload_bytes) {
            bench_pause(state);
            micro_rest(&path.m);
            bench_resume(state);
        }
    }
    bench_bytes(state, (int64_t)bytes);
    path_close(&path);
}
BENCH(append, 1, 100, 1000)

static void write_async(struct bench_state *state)
{
    struct path path;
    uint32_t rows = (uint32_t)bench_arg(state, 0);
    if (!path_open(&path, state, rows, 10, 0, false)) return;
    uint64_t bytes = 0, each = (uint64_t)rows * 88;
    while (bench_next(state)) {
        if (rf_write(path.m.handle, &path.t.tablet, NULL) != 0) bench_fail(state, "refused");
        bytes += each;
        if (bytes % (UINT64_C(32) << 20) < each) {
            bench_pause(state);
            micro_rest(&path.m);
            bench_resume(state);
        }
    }
    bench_items(state, bench_rounds(state) * rows * 10);
    path_close(&path);
}
BENCH(write_async, 1, 100, 1000)

/* Group commit: a round is so many durable batches of one row, begun together, all answered. */
static void group_commit(struct bench_state *state)
{
    struct micro_engine m;
    struct micro_tablet t;
    struct rf_queue *queue = NULL;
    uint32_t n = (uint32_t)bench_arg(state, 0);
    if (!micro_open(&m, state, RF_SYNC_ALWAYS)) return;
    if (!micro_tablet(&t, 1, 10, 0, false) || rf_write(m.handle, &t.tablet, NULL) != 0 ||
        rf_queue_open(m.handle, &queue) != 0)
        bench_fail(state, "no set-up");
    uint64_t batches = 0;
    while (bench_next(state)) {
        for (uint32_t i = 0; i < n; i++)
            if (rf_write_async(queue, &t.tablet, 1, 1000, NULL, NULL, NULL) != 0)
                bench_fail(state, "refused");
        while (rf_queue_in_flight(queue) > 0)
            (void)rf_completions(queue, NULL, n, -1);
        batches += n;
        if (batches % 8192 < n) {
            bench_pause(state);
            micro_rest(&m);
            bench_resume(state);
        }
    }
    bench_items(state, (int64_t)batches);
    rf_queue_close(queue);
    micro_tablet_free(&t);
    micro_close(&m);
}
BENCH(group_commit, 1, 8, 64)
