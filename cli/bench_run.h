/* One run: the engine opened, writers, and beside them a watch (figures, stalls, progress) and an
 * upkeep (the lease, trimming). */
#ifndef RF_CLI_BENCH_RUN_H
#define RF_CLI_BENCH_RUN_H

#include "cli/bench_options.h"

#include "base/hist.h"

#include <sys/resource.h>

/* Batches that took longer than --stall, of times that overlap: the one that took longest. */
struct bench_stall {
    int64_t at_ns; /* when it was meant to begin, from the beginning of what counts */
    int64_t took_ns;
    uint64_t batches;   /* that the stall held up */
    int64_t late_ns;    /* of that, until the call: the batches before it held it up */
    int64_t in_call_ns; /* of that, inside the call that began it */
    uint32_t writer;
    const char *cause;
};

/* One second of the run. */
struct bench_second {
    uint64_t batches, points;
};

struct bench_result {
    enum exit_code code;
    int64_t prepared_ns;                   /* until every image and segment was ready */
    int64_t ns;                            /* from the first batch that counts to the last answer */
    uint64_t batches, rows, points, bytes; /* answered with 0, of what counts */
    uint64_t refused, unknown;             /* answers that were not 0 */
    uint64_t not_begun; /* open loop: too late to begin before the end; in no percentile */
    uint64_t fences;
    struct hist latency; /* ns, from the intended start to the answer being with the writer */
    struct rf_stats before, after;
    struct rusage usage_before, usage_after;
    uint64_t trims;
    int64_t flush_ns;          /* at the end, in the modes that do not wait for the disk */
    uint64_t slow_batches;     /* longer than --stall */
    struct bench_stall *stall; /* in order of time */
    size_t stall_count;
    struct bench_second *second;
    size_t second_count;
    bool stopped; /* by a signal, in order */
};
void bench_result_deinit(struct bench_result *r);

/* Merges stalls whose times overlap into one, in order of time; returns how many are left. */
size_t bench_merge_stalls(struct bench_stall *stall, size_t count);

/* Told of each batch, with its stages, on its writer's thread; counts: it is behind the warm-up. */
struct bench_trace {
    void (*batch)(void *ctx, uint32_t writer, bool counts, const struct rf_trace *trace);
    void *ctx;
};

/* Runs. trace NULL: stages are off. Messages of failures are printed; the code is in result_out. */
void bench_run(const struct bench_options *o, const struct bench_trace *trace,
               struct bench_result *result_out);

#endif
