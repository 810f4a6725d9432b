/* Scans and replay of what an engine holds: 1,000 rows x 10 doubles a tablet. */
#include "bench/micro/engine.h"

enum { TABLETS = 400, ROWS = 1000, COLUMNS = 10 };

static bool fill(struct micro_engine *m, struct bench_state *state, uint32_t devices)
{
    struct micro_tablet t;
    if (!micro_tablet(&t, ROWS, COLUMNS, devices, false)) return false;
    int64_t *times = (int64_t *)(uintptr_t)t.tablet.times;
    int rc = 0;
    for (int i = 0; i < TABLETS && rc == 0; i++) {
        rc = rf_write(m->handle, &t.tablet, NULL);
        for (uint32_t r = 0; r < ROWS; r++)
            times[r] += ROWS * INT64_C(1000000);
    }
    if (rc == 0) rc = rf_flush(m->handle);
    micro_tablet_free(&t);
    if (rc != 0) bench_fail(state, "not filled");
    return rc == 0;
}

/* Argument: devices; 0 the tree model's one. */
static void scan(struct bench_state *state)
{
    struct micro_engine m;
    uint32_t devices = (uint32_t)bench_arg(state, 0);
    if (!micro_open(&m, state, RF_SYNC_OFF)) return;
    bool ready = fill(&m, state, devices);
    struct rf_scan_options o;
    rf_scan_options_init(&o);
    if (devices > 0)
        o.table = "micro";
    else
        o.device = "root.micro.d0";
    uint64_t rows = 0;
    while (bench_next(state) && ready) {
        struct rf_cursor *cursor = NULL;
        struct rf_tablet lent = {.size = sizeof lent};
        if (rf_scan_open(m.handle, &o, &cursor, NULL) != 0) {
            bench_fail(state, "no scan");
            break;
        }
        while (rf_scan_next(cursor, &lent) == 1)
            rows += lent.rows;
        rf_scan_close(cursor);
    }
    bench_items(state, (int64_t)rows);
    micro_close(&m);
}
BENCH(scan, 0, 10, 1000)

static void replay(struct bench_state *state)
{
    struct micro_engine m;
    if (!micro_open(&m, state, RF_SYNC_OFF)) return;
    bool ready = fill(&m, state, (uint32_t)bench_arg(state, 0));
    int64_t bytes = 0;
    (void)rf_close(m.handle);
    while (bench_next(state) && ready) {
        struct rf_options options;
        struct rf_stats s = {.size = sizeof s};
        rf_options_init(&options);
        options.lease = RF_LEASE_OFF;
        options.flags = RF_READ_ONLY;
        if (rf_open(m.dir, &options, &m.handle, NULL) != 0) {
            bench_fail(state, "no replay");
            break;
        }
        if (rf_stats(m.handle, &s) == 0) bytes += (int64_t)s.replayed_bytes;
        bench_pause(state);
        (void)rf_close(m.handle);
        bench_resume(state);
    }
    bench_bytes(state, bytes);
    if (rf_open(m.dir, NULL, &m.handle, NULL) == 0) micro_close(&m);
}
BENCH(replay, 0, 1000)
