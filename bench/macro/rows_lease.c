/* What the lease costs, and a rollback. */
#include "api/handle.h"
#include "bench/macro/bench.h"
#include "engine/engine_impl.h"

#include <math.h>
#include <stdlib.h>

static void row_lease(const struct bench *bench)
{
    if (!row_wanted(bench, ROW_LEASE)) return;
    struct target on, off;
    const struct target_options with = {.sync = RF_SYNC_ASYNC, .lease = RF_LEASE_EMBEDDED};
    const struct target_options without = {.sync = RF_SYNC_ASYNC, .lease = RF_LEASE_OFF};
    target_open(&on, bench, "lease-on", &with);
    target_open(&off, bench, "lease-off", &without);
    struct load_side a = {
        .target = &on, .load = {.shape = &shape_main, .bytes_max = 128 * MIB, .seconds_max = 30}};
    struct load_side b = a;
    b.target = &off;
    pair_run(bench, ROW_LEASE, (struct side){measure_load, &a}, (struct side){measure_load, &b},
             bench->quick ? 31 : 101, bench->quick ? 61 : BENCH_RUNS_MAX);
    target_close(&on);
    target_close(&off);
}

/* ---- one check ---- */

enum { CHECKS = 200000, CHECK_RUNS = 41 };

static double time_checks(const struct lease_words *words, const struct clock *clock, uint64_t view)
{
    bool live = true;
    int64_t began = mono_ns();
    for (int i = 0; i < CHECKS; i++)
        live &= lease_check(words, clock, view);
    double ns = (double)(mono_ns() - began) / CHECKS;
    if (!live) die("the lease ended under a benchmark");
    return ns;
}

static double time_clock(const struct clock *clock)
{
    volatile int64_t last;
    int64_t began = mono_ns();
    for (int i = 0; i < CHECKS; i++)
        last = clock_boot_ns(clock);
    (void)last;
    return (double)(mono_ns() - began) / CHECKS;
}

static void row_check(const struct bench *bench)
{
    if (!row_wanted(bench, ROW_LEASE_CHECK)) return;
    struct clock clock = {.test_ns = NULL};
    struct lease_words words = {.view = 0};
    uint64_t view = view_make(1, 1);
    lease_publish_view(&words, view);
    lease_publish_deadline(&words, clock_boot_ns(&clock) + INT64_C(3600000000000));
    double check[CHECK_RUNS], read[CHECK_RUNS], self[CHECK_RUNS];
    for (int i = 0; i < CHECK_RUNS; i++) {
        read[i] = time_clock(&clock);
        check[i] = time_checks(&words, &clock, view);
    }
    double middle = median(read, CHECK_RUNS);
    for (int i = 0; i < CHECK_RUNS; i++)
        self[i] = fabs(read[i] / middle - 1);
    row_set(ROW_LEASE_CHECK, median(check, CHECK_RUNS), middle, median(self, CHECK_RUNS),
            CHECK_RUNS);
}

/* ---- rollback ---- */

struct undo {
    struct engine *engine;
    struct tablets tablets;
    struct op *op;
};

/* One batch on the write path's own steps: applied, then given up. */
static void apply_and_roll_back(struct undo *u, int64_t *apply_ns, int64_t *rollback_ns)
{
    struct engine *e = u->engine;
    struct scratch *scratch = scratch_acquire(&e->scratches);
    struct lease_look look = lease_look(e->o.words, e->o.clock);
    struct prepared p = {.engine = e,
                         .scratch = scratch,
                         .op = u->op,
                         .view = look.view,
                         .version = view_version(look.view)};
    struct engine_want *wants;
    uint32_t want_count = 0;
    int rc = tablets_check(&p, &u->tablets.tablet[0], 1, &wants, &want_count);
    if (rc == 0) rc = tablets_order(&p);
    if (rc == 0) rc = tablets_plan(&p);
    if (rc == 0) rc = tablets_intern(&p);
    if (rc != 0 || want_count != 0) die("a batch for rollback: %d", rc);
    if (p.fragment_count != 64) die("%u fragments, not 64", p.fragment_count);
    const struct reserve_want want = {.payload_bytes = p.payload_bytes,
                                      .arena_bytes = memtable_batch_bytes(p.fragment_count),
                                      .view = p.view,
                                      .deadline_mono_ns = deadline_after(1000000000)};
    struct wal_reservation r;
    check_rc(engine_reserve(e, &want, u->op, NULL, &r), "reserve", NULL);
    int64_t began = mono_ns();
    rc = tablets_apply(&p, &r);
    int64_t applied = mono_ns();
    memtable_void(r.image->owner, r.arena_at);
    wal_publish_void(e->lane[0], &r);
    *rollback_ns = mono_ns() - applied;
    *apply_ns = applied - began;
    if (rc != 0) die("a batch for rollback: %d", rc);
    scratch_release(&e->scratches, scratch);
}

static void row_rollback(const struct bench *bench)
{
    if (!row_wanted(bench, ROW_ROLLBACK)) return;
    enum { BATCHES = 1000 };
    struct target target;
    const struct target_options o = {.sync = RF_SYNC_ASYNC, .memory_bytes = 8 * 80 * MIB};
    target_open(&target, bench, "rollback", &o);
    struct undo u = {.engine = target.engine->engine};
    tablets_make(&u.tablets, &shape_partitions, 0);
    check_rc(rf_write(target.engine, &u.tablets.tablet[0], NULL), "the first tablet", NULL);
    check_rc(op_acquire(u.engine, deadline_after(1000000000), NULL, &u.op), "op_acquire", NULL);
    struct hist *apply = xalloc(sizeof *apply), *rollback = xalloc(sizeof *rollback);
    hist_init(apply);
    hist_init(rollback);
    for (int i = 0; i < BATCHES; i++) {
        int64_t apply_ns = 0, rollback_ns = 0;
        apply_and_roll_back(&u, &apply_ns, &rollback_ns);
        hist_add(apply, (uint64_t)apply_ns);
        hist_add(rollback, (uint64_t)rollback_ns);
        if (i % 100 == 99) target_rest(&target);
    }
    op_release(u.op);
    row_set(ROW_ROLLBACK, (double)hist_quantile(rollback, 0.5) / 1e3,
            (double)hist_quantile(apply, 0.5) / 1e3, 0, BATCHES);
    free(apply);
    free(rollback);
    tablets_free(&u.tablets);
    target_close(&target);
}

void rows_lease(const struct bench *bench)
{
    row_lease(bench);
    row_check(bench);
    row_rollback(bench);
}
