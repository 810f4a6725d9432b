/* Macro benchmarks: pairs of the engine and what it is held against, interleaved in one process on
 * one file system.
 *
 *   run.c      pairs, their ratio and spread; rows
 *   report.c   the table, bench-report.json
 *   shape.c    tablets
 *   target.c   an engine under load
 *   device.c   the bare device and bare memory
 *   rows_*.c   the rows themselves
 *   ../peers   LMDB, RocksDB, SQLite
 *
 * Units    seconds and bytes, and rates a second, as double, unless a name says otherwise
 * Errors   a benchmark that can't go on says why and ends the process: nothing half measured is
 *          reported
 * Threads  the main thread, unless said */
#ifndef RF_BENCH_BENCH_H
#define RF_BENCH_BENCH_H

#include "base/hist.h"
#include "ringfence/ringfence.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_RUNS_MAX   128u
#define BENCH_PATH_BYTES 512u
#define MIB              (UINT64_C(1) << 20)

struct bench {
    const char *dir;  /* everything lies below it */
    const char *only; /* rows whose id begins with it; NULL: all */
    bool quick;
};

/* ---- rows ---- */

enum goal_kind { NONE, AT_LEAST, AT_MOST, LESS_BY, VALUE_AT_MOST };
enum row {
#define ROW(name, id, what, against, unit, kind, goal, explained) ROW_##name,
#include "bench/rows.def"
#undef ROW
    ROWS
};
struct row_text {
    const char *id, *what, *against, *unit;
    enum goal_kind kind;
    double goal;
    const char *explained;
};
extern const struct row_text row_texts[ROWS];

struct row_result {
    bool measured;
    double value, base, ratio, spread;
    uint32_t runs;
    bool too_noisy;
    double cpu_s_per_mpoint, base_cpu_s_per_mpoint; /* 0: not counted */
    char note[256];
    uint32_t a_count, b_count;
    double a[BENCH_RUNS_MAX], b[BENCH_RUNS_MAX + 1]; /* as they were measured, in order */
};
extern struct row_result row_results[ROWS];

bool row_wanted(const struct bench *bench, enum row row);
__attribute__((format(printf, 2, 3))) void row_note(enum row row, const char *fmt, ...);

/* ---- pairs (run.c) ---- */

struct sample {
    double value;            /* a rate or a time, as the row's unit says */
    double cpu_s_per_mpoint; /* 0: not counted */
};
typedef void measure(void *ctx, struct sample *out);
struct side {
    measure *run;
    void *ctx;
};

/* B A B A ... B: each A is held against the mean of the two B around it; the ratio is the median.
 * The spread is that of the baseline against itself: half the width of the 95 % interval of the
 * median of B(i+1) / B(i). While it exceeds the goal's margin, the row runs on, up to runs_max. */
void pair_run(const struct bench *bench, enum row row, struct side a, struct side b, uint32_t runs,
              uint32_t runs_max);
/* A row whose value, baseline and spread were found in another way. */
void row_set(enum row row, double value, double base, double spread, uint32_t runs);
double median(const double *values, uint32_t count);

enum verdict { VERDICT_NONE, VERDICT_MET, VERDICT_MISSED, VERDICT_EXPLAINED };
enum verdict row_verdict(enum row row);

/* ---- report.c ---- */

/* Extra parts of the report, each a JSON value, kept until the end. */
void report_extra(const char *key, char *json); /* json: malloc'ed, taken over */
void report_row(enum row row);                  /* one line of the table */
void report_write(const struct bench *bench, const char *path);

/* ---- shape.c ---- */

struct shape {
    const char *name;
    uint32_t rows, columns;
    uint32_t text_bytes; /* 0: doubles */
    uint32_t devices;    /* in a tablet, row by row in turn; 0: tree model, one device */
    uint32_t turns;      /* that many devices, one a tablet in turn */
    bool disorder;       /* half of the rows out of order */
    bool partitions;     /* every 16 rows in a time partition of their own */
};
extern const struct shape shape_main, shape_small, shape_wide, shape_narrow, shape_text,
    shape_fleet, shape_turns, shape_disorder, shape_partitions;

struct piece {
    const void *data;
    size_t bytes;
};
#define TABLETS 4u
struct tablets {
    const struct shape *shape;
    struct rf_tablet tablet[TABLETS]; /* differ in their times */
    uint64_t points, bytes;           /* of one; bytes: of all pieces */
    struct piece *pieces;             /* what a copy of the first one copies */
    uint32_t piece_count;
    uint64_t *tag_values; /* turns: rows words, overwritten for every tablet */
    void *heap[8];
    uint32_t heap_count;
};
/* writer: tablets of different writers are of different devices. */
void tablets_make(struct tablets *tablets, const struct shape *shape, uint32_t writer);
void tablets_free(struct tablets *tablets);
const struct rf_tablet *tablets_next(struct tablets *tablets, uint64_t number);

/* ---- target.c ---- */

struct target_options {
    enum rf_sync sync;
    enum rf_lease_mode lease;
    uint64_t memory_bytes; /* 0: 20 images of 64 MiB with their arenas */
    bool keep;             /* the directory outlives the target */
};
struct target {
    struct rf_engine *engine;
    struct rf_queue *queue;
    uint64_t segments; /* the log can hold */
    char dir[BENCH_PATH_BYTES];
    bool keep;
};
void target_open(struct target *target, const struct bench *bench, const char *name,
                 const struct target_options *options);
void target_close(struct target *target);
/* Everything written, the log trimmed, the ring ready again. */
void target_rest(struct target *target);

struct load {
    const struct shape *shape;
    uint32_t in_flight; /* 0: blocking */
    uint32_t writers;   /* threads; 0: the caller alone */
    uint64_t bytes_max; /* of payload */
    double seconds_max;
    struct hist *latency; /* blocking, one writer: ns of each call; or NULL */
};
struct outcome {
    uint64_t batches, points, bytes;
    double seconds, cpu_s;
    uint64_t device_writes, device_syncs, device_bytes;
    uint64_t sleeps,
        preemptions; /* switches of the process's threads: each sleep ends by a wake-up */
};
/* Ends when everything is acknowledged; rests before it begins. */
void target_load(struct target *target, const struct load *load, struct outcome *out);
double cpu_seconds(void);
double now_seconds(void);

struct load_side { /* for pairs: rate or time of a load */
    struct target *target;
    struct load load;
    enum { RATE_POINTS, RATE_BATCHES, TIME_BATCH_US, P50_US } what;
    struct outcome last;
};
measure measure_load;

/* ---- device.c ---- */

enum durable_way { WAY_SYNC, WAY_DSYNC, WAY_BLOCKING };
struct device_shape {
    uint32_t block_bytes;
    uint32_t depth;
    enum durable_way
        way;     /* write + fdatasync; DSYNC through the ring; pwritev2 DSYNC, one a time */
    bool strict; /* WAY_SYNC: the sync ends before the next write begins */
    uint32_t outstanding; /* most writes begun and not durable yet; 0: as many as the ring holds */
};
struct device;
struct device *device_open(const struct bench *bench);
void device_close(struct device *device);
/* Durable bytes a second. */
double device_rate(struct device *device, const struct device_shape *shape, double seconds,
                   struct hist *latency);
/* count blocking durable writes, one after the other; ns of each into latency. */
void device_writes(struct device *device, uint32_t block_bytes, uint32_t count,
                   struct hist *latency);
const char *device_way_name(enum durable_way way);
struct device_shape device_best_of(struct device *device, const struct device_shape *shapes,
                                   uint32_t count, double seconds);

struct device_side {
    struct device *device;
    struct device_shape shape;
    double seconds;
    double per_byte; /* the value is bytes/s times this */
    bool time_us;    /* ... or its inverse in us */
    bool p50_us;     /* ... or the p50 of one write */
};
measure measure_device;

struct copy_side {
    struct tablets *tablets;
    uint8_t *images;
    uint64_t image_bytes, images_bytes, bytes_max;
};
measure measure_copy;
uint8_t *copy_images(uint64_t bytes); /* mapped as the engine's, touched */
void copy_images_free(uint8_t *images, uint64_t bytes);

/* One thread a core that does nothing but run. */
struct busy;
struct busy *busy_start(void);
void busy_stop(struct busy *busy);

/* ---- ../peers ---- */

struct peer {
    char name[64];
    uint32_t threads;
    uint32_t tablets_a_put;
    uint64_t points; /* of a tablet */
    void *state;
    void (*put)(struct peer *peer, uint32_t thread); /* durable, if it is to be, when it returns */
    void (*close)(struct peer *peer);
};
struct peer *peer_lmdb(const char *dir, const struct tablets *tablets, uint32_t tablets_a_put,
                       bool write_map);
struct rocks_options {
    bool rows; /* one key a row; else a tablet is one value, in blob files */
    bool sync;
    uint32_t threads;
    uint32_t tablets_a_put;
};
struct peer *peer_rocksdb(const char *dir, const struct tablets *tablets,
                          const struct rocks_options *options);
struct peer *peer_sqlite(const char *dir, const struct tablets *tablets);
void peer_close(struct peer *peer);
/* For the peers: the bytes of one tablet in one piece, malloc'ed. */
uint8_t *tablet_value(const struct tablets *tablets, size_t *bytes_out);

struct peer_side {
    struct peer *peer;
    double seconds;
};
measure measure_peer;

/* ---- rows_*.c ---- */

void rows_durable(const struct bench *bench);
void rows_burst(const struct bench *bench);
void rows_lease(const struct bench *bench);
void rows_other(const struct bench *bench);

/* ---- ends the process with a message ---- */

__attribute__((noreturn, format(printf, 1, 2))) void die(const char *fmt, ...);
void check_rc(int rc, const char *what, const struct rf_error *error); /* rc != 0: dies */
void *xalloc(size_t bytes);                                            /* zeroed */
void path_join(char out[BENCH_PATH_BYTES], const char *dir, const char *name);
void remove_tree(const char *path);

#endif
