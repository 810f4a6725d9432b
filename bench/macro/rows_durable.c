/* The durable rows of the design's table, and the same beside busy threads. */
#include "bench/macro/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK          4096u
#define IN_FLIGHT      64u
#define LOAD_BYTES_MAX (10 * 64 * MIB)
#define SWEEP_BEST     4u

struct durable {
    const struct bench *bench;
    struct target target;
    struct device *device;
    struct tablets tablets; /* main */
    double seconds;         /* of one side of a pair */
    uint32_t runs, runs_max;
    struct device_shape own; /* how the engine writes with 64 in flight */
};

static uint32_t whole_blocks(double bytes)
{
    return (uint32_t)ceil(bytes / BLOCK) * BLOCK;
}

static struct load_side load_of(struct durable *d, const struct shape *shape, uint32_t in_flight)
{
    return (struct load_side){.target = &d->target,
                              .load = {.shape = shape,
                                       .in_flight = in_flight,
                                       .bytes_max = LOAD_BYTES_MAX,
                                       .seconds_max = d->seconds}};
}

static void pair(struct durable *d, enum row row, struct load_side *a, measure *b, void *b_ctx)
{
    pair_run(d->bench, row, (struct side){measure_load, a}, (struct side){b, b_ctx}, d->runs,
             d->runs_max);
}

/* ---- the best bare loop ---- */

struct swept {
    struct device_shape shape;
    double rate;
};

static int by_rate(const void *a, const void *b)
{
    double x = ((const struct swept *)a)->rate, y = ((const struct swept *)b)->rate;
    return (x < y) - (x > y);
}

static void report_sweep(const struct swept *swept, uint32_t count)
{
    char *json = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&json, &bytes);
    if (out == NULL) die("no memory for the report");
    fputc('[', out);
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "%s{\"block\":%u,\"depth\":%u,\"way\":\"%s\",\"bytes_per_s\":%.0f}",
                i > 0 ? "," : "", swept[i].shape.block_bytes, swept[i].shape.depth,
                device_way_name(swept[i].shape.way), swept[i].rate);
    fputc(']', out);
    fclose(out);
    report_extra("device", json);
}

/* Every shape: 64 KiB to 4 MiB, depth 1 to 8, both durable ways. bytes_max: most that may wait at
 * once, begun and not durable; 0: no limit. */
static uint32_t sweep(struct durable *d, uint64_t bytes_max, struct swept *swept)
{
    uint32_t count = 0;
    double seconds = d->bench->quick ? 0.04 : 0.25;
    for (uint32_t block = 65536; block <= 4 * MIB; block *= d->bench->quick ? 4 : 2)
        for (uint32_t depth = 1; depth <= 8; depth *= 2)
            for (int way = WAY_SYNC; way <= WAY_DSYNC; way++) {
                struct device_shape s = {.block_bytes = block, .depth = depth, .way = way};
                s.outstanding = (uint32_t)(bytes_max / block);
                if (bytes_max != 0 && s.outstanding < depth) continue;
                swept[count++] = (struct swept){s, device_rate(d->device, &s, seconds, NULL)};
            }
    return count;
}

/* The best few of a sweep once more, in turns, since the device is not the same one second later. */
static struct device_shape best_loop(struct durable *d, uint64_t bytes_max)
{
    struct swept swept[64];
    double seconds = d->bench->quick ? 0.08 : 0.5, rates[SWEEP_BEST][3];
    uint32_t count = sweep(d, bytes_max, swept);
    if (bytes_max == 0) report_sweep(swept, count);
    qsort(swept, count, sizeof *swept, by_rate);
    for (int round = 0; round < 3; round++)
        for (uint32_t i = 0; i < SWEEP_BEST; i++)
            rates[i][round] = device_rate(d->device, &swept[i].shape, seconds, NULL);
    for (uint32_t i = 0; i < SWEEP_BEST; i++)
        swept[i].rate = median(rates[i], 3);
    qsort(swept, SWEEP_BEST, sizeof *swept, by_rate);
    return swept[0].shape;
}

/* The size of the engine's writes, its depth, its way. */
static struct device_shape own_shape(struct durable *d)
{
    struct load_side a = load_of(d, &shape_main, IN_FLIGHT);
    struct sample s;
    measure_load(&a, &s);
    measure_load(&a, &s); /* by then the engine has found the size that this device likes */
    double bytes = (double)a.last.device_bytes / (double)a.last.device_writes;
    return (struct device_shape){.block_bytes = whole_blocks(bytes),
                                 .depth = 4,
                                 .way = a.last.device_syncs > 0 ? WAY_SYNC : WAY_DSYNC};
}

/* ---- rows ---- */

static void pair_loop(struct durable *d, enum row row, struct device_shape shape)
{
    struct load_side a = load_of(d, &shape_main, IN_FLIGHT);
    struct device_side b = {.device = d->device,
                            .seconds = d->seconds,
                            .per_byte = (double)d->tablets.points / (double)d->tablets.bytes,
                            .shape = shape};
    row_note(row, "%u KiB, depth %u, %s", shape.block_bytes / 1024, shape.depth,
             device_way_name(shape.way));
    pair(d, row, &a, measure_device, &b);
}

static void row_in_flight(struct durable *d)
{
    if (row_wanted(d->bench, ROW_DURABLE_64)) pair_loop(d, ROW_DURABLE_64, best_loop(d, 0));
    /* A loop that waits for no answer has 32 MiB in flight; 64 tablets are 5.4. */
    if (row_wanted(d->bench, ROW_DURABLE_64_BOUND))
        pair_loop(d, ROW_DURABLE_64_BOUND, best_loop(d, IN_FLIGHT * d->tablets.bytes));
    pair_loop(d, ROW_DURABLE_64_SHAPE, d->own);
}

static struct device_shape best_at_depth_1(struct durable *d, uint32_t block_bytes)
{
    const struct device_shape shapes[] = {
        {.block_bytes = block_bytes, .depth = 1, .way = WAY_BLOCKING},
        {.block_bytes = block_bytes, .depth = 1, .way = WAY_SYNC, .strict = true},
        {.block_bytes = block_bytes, .depth = 1, .way = WAY_DSYNC}};
    return device_best_of(d->device, shapes, 3, d->seconds);
}

static void row_blocking(struct durable *d)
{
    if (!row_wanted(d->bench, ROW_DURABLE_1)) return;
    uint32_t block = whole_blocks((double)d->tablets.bytes);
    struct load_side a = load_of(d, &shape_main, 0);
    struct device_side b = {.device = d->device,
                            .seconds = d->seconds,
                            .shape = best_at_depth_1(d, block),
                            .per_byte = (double)d->tablets.points / block};
    row_note(ROW_DURABLE_1, "bare: %s", device_way_name(b.shape.way));
    pair(d, ROW_DURABLE_1, &a, measure_device, &b);
}

/* The fastest of a list, in three rounds; the others are closed. */
static struct peer *best_peer(struct peer **peers, uint32_t count, double seconds)
{
    enum { ROUNDS = 3, PEERS_MAX = 8 };
    double rates[PEERS_MAX][ROUNDS];
    uint32_t best = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < count; i++) {
            struct peer_side side = {.peer = peers[i], .seconds = seconds};
            struct sample s;
            measure_peer(&side, &s);
            rates[i][round] = s.value;
        }
    for (uint32_t i = 1; i < count; i++)
        if (median(rates[i], ROUNDS) > median(rates[best], ROUNDS)) best = i;
    for (uint32_t i = 0; i < count; i++)
        if (i != best) peer_close(peers[i]);
    return peers[best];
}

static void pair_peer(struct durable *d, enum row row, uint32_t in_flight, struct peer *peer)
{
    struct load_side a = load_of(d, &shape_main, in_flight);
    struct peer_side b = {.peer = peer, .seconds = d->seconds};
    row_note(row, "%s", peer->name);
    pair(d, row, &a, measure_peer, &b);
    peer_close(peer);
}

static struct peer *rocks(struct durable *d, bool rows, uint32_t threads, uint32_t tablets_a_put)
{
    const struct rocks_options o = {
        .rows = rows, .sync = true, .threads = threads, .tablets_a_put = tablets_a_put};
    return peer_rocksdb(d->bench->dir, &d->tablets, &o);
}

static void rows_peers(struct durable *d)
{
    const char *dir = d->bench->dir;
    if (row_wanted(d->bench, ROW_DURABLE_1_LMDB)) {
        struct peer *peers[] = {peer_lmdb(dir, &d->tablets, 1, false),
                                peer_lmdb(dir, &d->tablets, 1, true)};
        pair_peer(d, ROW_DURABLE_1_LMDB, 0, best_peer(peers, 2, d->seconds));
    }
    /* Many in flight, each with an answer of its own: threads. LMDB has one writer at a time, so its
     * best is the one above; RocksDB makes groups of what waits. */
    if (row_wanted(d->bench, ROW_DURABLE_64_PEERS)) {
        struct peer *peers[] = {peer_lmdb(dir, &d->tablets, 1, false),
                                peer_lmdb(dir, &d->tablets, 1, true), rocks(d, false, 8, 1),
                                rocks(d, false, 32, 1), rocks(d, false, IN_FLIGHT, 1)};
        pair_peer(d, ROW_DURABLE_64_PEERS, IN_FLIGHT, best_peer(peers, 5, d->seconds));
    }
    /* One transaction is one answer for 64 tablets, whole or not at all: another promise. */
    if (row_wanted(d->bench, ROW_BATCHED_PEERS)) {
        struct peer *peers[] = {peer_lmdb(dir, &d->tablets, IN_FLIGHT, false),
                                peer_lmdb(dir, &d->tablets, IN_FLIGHT, true),
                                rocks(d, false, 1, IN_FLIGHT)};
        pair_peer(d, ROW_BATCHED_PEERS, IN_FLIGHT, best_peer(peers, 3, d->seconds));
    }
    if (row_wanted(d->bench, ROW_SQLITE))
        pair_peer(d, ROW_SQLITE, 0, peer_sqlite(dir, &d->tablets));
    if (row_wanted(d->bench, ROW_ROCKS_BLOB))
        pair_peer(d, ROW_ROCKS_BLOB, 0, rocks(d, false, 1, 1));
    if (row_wanted(d->bench, ROW_ROCKS_ROWS)) pair_peer(d, ROW_ROCKS_ROWS, 0, rocks(d, true, 1, 1));
}

/* ---- one small record ---- */

struct percentiles {
    struct hist a, b;                 /* all samples */
    double group_p50[BENCH_RUNS_MAX]; /* of the baseline, group by group */
    double group_p99[BENCH_RUNS_MAX];
    uint32_t groups;
};

static void report_latency(const struct percentiles *p)
{
    char *json = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&json, &bytes);
    if (out == NULL) die("no memory for the report");
    fputs("{\"engine\":[", out);
    for (int side = 0; side < 2; side++) {
        if (side == 1) fputs("],\"device\":[", out);
        for (int i = 0; i < 40; i++) {
            double q = 1 - pow(10, -i / 10.0);
            const struct hist *h = side == 0 ? &p->a : &p->b;
            fprintf(out, "%s[%.6f,%.2f]", i > 0 ? "," : "", q, (double)hist_quantile(h, q) / 1e3);
        }
    }
    fputs("]}", out);
    fclose(out);
    report_extra("small_latency_us", json);
}

static double self(const double *values, uint32_t count)
{
    double ratios[BENCH_RUNS_MAX], off[BENCH_RUNS_MAX];
    for (uint32_t i = 0; i + 1 < count; i++)
        ratios[i] = values[i + 1] / values[i];
    double middle = median(ratios, count - 1);
    for (uint32_t i = 0; i + 1 < count; i++)
        off[i] = fabs(ratios[i] - middle);
    return 1.96 * 1.2533 * 1.4826 * median(off, count - 1) / sqrt(count - 1);
}

/* 20,000 samples a side (quick: 5,000), in turns of 250; groups of 1,000 give the spread. */
static void row_small(struct durable *d)
{
    if (!row_wanted(d->bench, ROW_SMALL_P50) && !row_wanted(d->bench, ROW_SMALL_P99)) return;
    enum { TURN = 250, TURNS_A_GROUP = 4, GROUPS = 20, GROUPS_QUICK = 5 };
    uint32_t groups = d->bench->quick ? GROUPS_QUICK : GROUPS;
    struct percentiles *p = xalloc(sizeof *p);
    struct hist *group = xalloc(sizeof *group);
    struct tablets small;
    tablets_make(&small, &shape_small, 0);
    hist_init(&p->a);
    hist_init(&p->b);
    struct load load = {.shape = &shape_small,
                        .bytes_max = (TURN - 1) * small.bytes,
                        .seconds_max = 60,
                        .latency = &p->a};
    for (; p->groups < groups; p->groups++) {
        hist_init(group);
        for (int turn = 0; turn < TURNS_A_GROUP; turn++) {
            struct outcome out;
            target_load(&d->target, &load, &out);
            device_writes(d->device, BLOCK, TURN, group);
        }
        hist_merge(&p->b, group);
        p->group_p50[p->groups] = (double)hist_quantile(group, 0.5);
        p->group_p99[p->groups] = (double)hist_quantile(group, 0.99);
    }
    uint32_t samples = (uint32_t)hist_count(&p->a);
    row_note(ROW_SMALL_P50, "%u and %u samples", samples, (uint32_t)hist_count(&p->b));
    row_set(ROW_SMALL_P50, (double)hist_quantile(&p->a, 0.5) / 1e3,
            (double)hist_quantile(&p->b, 0.5) / 1e3, self(p->group_p50, groups), groups);
    row_set(ROW_SMALL_P99, (double)hist_quantile(&p->a, 0.99) / 1e3,
            (double)hist_quantile(&p->b, 0.99) / 1e3, self(p->group_p99, groups), groups);
    report_latency(p);
    tablets_free(&small);
    free(group);
    free(p);
}

/* ---- many small ones ---- */

/* The bare device writing groups of the sizes that the engine wrote, as many at once as the batches
 * in flight make, in the best of its ways. */
static struct device_side groups_of(struct durable *d, const struct outcome *o, uint32_t in_flight)
{
    double a_write = (double)o->batches / (double)o->device_writes;
    uint32_t block = whole_blocks((double)o->device_bytes / (double)o->device_writes);
    uint32_t depth = (uint32_t)(in_flight / a_write + 0.5);
    if (depth < 1) depth = 1;
    const struct device_shape shapes[] = {
        {.block_bytes = block, .depth = 1, .way = WAY_BLOCKING},
        {.block_bytes = block, .depth = 1, .way = WAY_SYNC, .strict = true},
        {.block_bytes = block, .depth = depth, .way = WAY_SYNC, .strict = true},
        {.block_bytes = block, .depth = depth, .way = WAY_DSYNC}};
    return (struct device_side){.device = d->device,
                                .seconds = d->seconds,
                                .shape = device_best_of(d->device, shapes, 4, d->seconds),
                                .per_byte = a_write / block};
}

static void rows_groups(struct durable *d)
{
    static const struct {
        enum row row;
        uint32_t in_flight, writers;
    } rows[] = {{ROW_SMALL_64, IN_FLIGHT, 0}, {ROW_SMALL_32_THREADS, 0, 32}};
    for (int i = 0; i < 2; i++) {
        if (!row_wanted(d->bench, rows[i].row)) continue;
        struct load_side a = load_of(d, &shape_small, rows[i].in_flight);
        a.load.writers = rows[i].writers;
        a.what = RATE_BATCHES;
        struct sample s;
        measure_load(&a, &s);
        measure_load(&a, &s);
        struct device_side b = groups_of(d, &a.last, rows[i].writers != 0 ? 32 : IN_FLIGHT);
        const struct outcome *o = &a.last;
        row_note(rows[i].row,
                 "%.1f batches and %.1f KiB a write; bare: %s, depth %u; a commit: %.2f sleeps and "
                 "wake-ups, %.2f preemptions, %.3f device writes",
                 (double)o->batches / (double)o->device_writes,
                 (double)o->device_bytes / (double)o->device_writes / 1024,
                 device_way_name(b.shape.way), b.shape.depth,
                 (double)o->sleeps / (double)o->batches,
                 (double)o->preemptions / (double)o->batches,
                 (double)o->device_writes / (double)o->batches);
        pair(d, rows[i].row, &a, measure_device, &b);
    }
}

/* ---- beside busy threads ---- */

static void loaded_blocking(struct durable *d, enum row row, const struct shape *shape,
                            uint32_t block)
{
    if (!row_wanted(d->bench, row)) return;
    struct load_side a = load_of(d, shape, 0);
    a.what = P50_US;
    struct device_side b = {.device = d->device,
                            .seconds = d->seconds,
                            .p50_us = true,
                            .shape = {.block_bytes = block, .depth = 1, .way = WAY_BLOCKING}};
    pair(d, row, &a, measure_device, &b);
}

static void rows_loaded(struct durable *d)
{
    struct busy *busy = busy_start();
    loaded_blocking(d, ROW_LOADED_SMALL, &shape_small, BLOCK);
    loaded_blocking(d, ROW_LOADED_DURABLE_1, &shape_main, whole_blocks((double)d->tablets.bytes));
    if (row_wanted(d->bench, ROW_LOADED_DURABLE_64)) {
        struct load_side a = load_of(d, &shape_main, IN_FLIGHT);
        a.what = TIME_BATCH_US;
        struct device_side b = {.device = d->device,
                                .seconds = d->seconds,
                                .shape = d->own,
                                .per_byte = 1 / (double)d->tablets.bytes,
                                .time_us = true};
        pair(d, ROW_LOADED_DURABLE_64, &a, measure_device, &b);
    }
    if (row_wanted(d->bench, ROW_LOADED_SMALL_64)) {
        struct load_side a = load_of(d, &shape_small, IN_FLIGHT);
        struct sample s;
        a.what = TIME_BATCH_US;
        measure_load(&a, &s);
        struct device_side b = groups_of(d, &a.last, IN_FLIGHT);
        b.time_us = true;
        row_note(ROW_LOADED_SMALL_64, "%.1f batches a write; bare: %s, depth %u",
                 (double)a.last.batches / (double)a.last.device_writes,
                 device_way_name(b.shape.way), b.shape.depth);
        pair(d, ROW_LOADED_SMALL_64, &a, measure_device, &b);
    }
    busy_stop(busy);
}

static bool any_wanted(const struct bench *bench)
{
    for (enum row row = ROW_DURABLE_64; row <= ROW_LOADED_SMALL_64; row++)
        if (row_wanted(bench, row)) return true;
    for (enum row row = ROW_SQLITE; row <= ROW_ROCKS_ROWS; row++)
        if (row_wanted(bench, row)) return true;
    return false;
}

void rows_durable(const struct bench *bench)
{
    if (!any_wanted(bench)) return;
    struct durable d = {.bench = bench,
                        .seconds = bench->quick ? 0.15 : 0.6,
                        .runs = bench->quick ? 4 : 15,
                        .runs_max = bench->quick ? 7 : 40};
    const struct target_options o = {.sync = RF_SYNC_ALWAYS};
    tablets_make(&d.tablets, &shape_main, 0);
    d.device = device_open(bench);
    target_open(&d.target, bench, "durable", &o);
    d.own = own_shape(&d);
    row_in_flight(&d);
    row_blocking(&d);
    rows_peers(&d);
    row_small(&d);
    rows_groups(&d);
    rows_loaded(&d);
    target_close(&d.target);
    device_close(d.device);
    tablets_free(&d.tablets);
}
