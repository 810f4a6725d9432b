/* Inside a run: bench_run.c opens, starts and sums up; bench_writer.c writes; bench_watch.c is what
 * goes on beside. */
#ifndef RF_CLI_BENCH_RUN_IMPL_H
#define RF_CLI_BENCH_RUN_IMPL_H

#include "cli/bench_run.h"
#include "cli/bench_source.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>

struct bench_flight {
    int64_t intended_ns, called_ns, returned_ns;
    uint64_t rows, points, bytes;
    struct bench_flight *next; /* free ones */
};

struct run;
struct writer {
    _Alignas(64) struct run *run;
    uint32_t number;
    pthread_t thread;
    struct bench_source *source;
    struct rf_queue *queue; /* NULL: it waits for each batch */
    struct bench_flight *flights, *flights_free;
    uint64_t issued;

    /* R: the watch, for progress and the seconds; relaxed: figures for the eye. */
    _Atomic uint64_t batches_done, points_done;

    /* Of what counts. */
    uint64_t batches, rows, points, bytes, refused, unknown, not_begun;
    int64_t last_ns; /* of the last answer */
    struct hist *latency;
    struct bench_stall *stall;
    size_t stall_count, stall_capacity;
};

/* What the watch saw at one time. */
struct sample {
    int64_t at_ns;
    bool fenced, full;
    uint64_t segments_late;
};

struct run {
    const struct bench_options *o;
    const struct bench_trace *trace;
    struct bench_result *result;
    struct rf_engine *engine;
    struct bench_replay *replay;
    struct writer *writer;
    int64_t start_ns, counts_from_ns, end_ns; /* end_ns INT64_MAX: points end it */
    _Atomic uint64_t points_begun;            /* of what counts */
    /* W: any thread. R: all. Relaxed: it says when to stop, and orders nothing. */
    atomic_bool stop;
    pthread_mutex_t failure_lock;
    int failure; /* under failure_lock: the first code that ends the run */

    pthread_t upkeep;
    atomic_bool upkeep_stop;
    atomic_bool wants_trim; /* W: watch sets, upkeep clears */
    _Atomic uint64_t trims, fences;

    /* The watch's own. */
    struct sample *sample;
    size_t sample_count, sample_capacity;
    size_t second_capacity;
    struct bench_second so_far;
    int64_t next_second_ns, shown_ns;
    bool counts, is_shown;
};

static inline int64_t bench_now_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}
static inline bool bench_stopping(struct run *run)
{
    return atomic_load_explicit(&run->stop, memory_order_relaxed);
}

/* Ends the run; the first failure is reported, once. */
void bench_fail(struct run *run, int code, const struct rf_error *error);

/* bench_writer.c */
void *bench_writer_run(void *writer);
/* The trace of the library: hands on with the writer's number. */
void bench_writer_trace(void *run, const struct rf_trace *trace);

/* bench_watch.c */
enum { WATCH_NS = 10000000 };
/* The counters of the engine and of the process, from here on. */
void bench_watch_begin(struct run *run);
/* One look, every WATCH_NS. */
void bench_watch(struct run *run, int64_t now_ns);
void bench_watch_end(struct run *run, int64_t now_ns);
void *bench_upkeep_run(void *run);
/* Holds the lease of an external grantor; 0 or a code. */
int bench_lease_resume(struct run *run);
/* What held a batch up: "lease", "room", "machine", "earlier", "device". */
const char *bench_cause(const struct run *run, const struct bench_stall *stall);

#endif
