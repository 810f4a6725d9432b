#include "cli/bench_run_impl.h"

#include "cli/memory.h"
#include "cli/stop.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void bench_fail(struct run *run, int code, const struct rf_error *error)
{
    pthread_mutex_lock(&run->failure_lock);
    bool first = run->failure == 0;
    if (first) run->failure = code;
    pthread_mutex_unlock(&run->failure_lock);
    atomic_store_explicit(&run->stop, true, memory_order_relaxed);
    if (first) run->result->code = report(run->o->command, code, error);
}

/* ---- the directory ---- */

/* Only what an earlier run made may be freed. */
static int refuse_others(void *ctx, const struct rf_table_info *info)
{
    const char **other = ctx;
    if (strcmp(info->name, "bench") == 0 || strcmp(info->name, "root.bench") == 0) return 0;
    *other = "tables that are not of a run";
    return 1;
}

static enum exit_code free_earlier(struct run *run)
{
    const char *other = NULL;
    struct rf_trim_options t;
    int rc = rf_tables(run->engine, refuse_others, (void *)&other);
    if (rc == 1) {
        fprintf(stderr, "ringfence %s: %s holds %s: nothing there is touched\n", run->o->command,
                run->o->dir, other);
        return EXIT_REFUSED;
    }
    rf_trim_options_init(&t);
    t.before_position = UINT64_MAX;
    if (rc == 0) rc = rf_trim(run->engine, &t, NULL);
    return rc == 0 ? EXIT_OK : report(run->o->command, rc, NULL);
}

static enum exit_code open_engine(struct run *run)
{
    const struct bench_options *o = run->o;
    struct rf_options options;
    struct rf_error error = {0};
    rf_options_init(&options);
    options.flags = RF_CREATE | (o->reuse ? 0 : RF_EXCLUSIVE);
    options.sync = (enum rf_sync)o->sync;
    options.backend = (enum rf_backend)o->backend;
    options.lease = o->lease == 1           ? RF_LEASE_OFF
                    : o->fence_every_ms > 0 ? RF_LEASE_EXTERNAL
                                            : RF_LEASE_EMBEDDED;
    options.buffered = o->buffered;
    options.queue_depth = (uint32_t)o->depth;
    options.lanes = (uint32_t)o->lanes;
    options.regions = (uint32_t)o->lanes;
    options.write_wait_ms = o->write_wait_ms;
    options.memory_bytes = o->memory_bytes;
    options.log_bytes_max = o->log_bytes_max;
    if (o->segment_bytes != 0) options.segment_bytes = o->segment_bytes;
    options.wait_prepared = true;
    if (run->trace != NULL) {
        options.stages = true;
        options.trace = bench_writer_trace;
        options.trace_ctx = run;
    }
    int64_t before = bench_now_ns();
    int rc = rf_open(o->dir, &options, &run->engine, &error);
    run->result->prepared_ns = bench_now_ns() - before;
    if (rc == -EEXIST) {
        fprintf(stderr,
                "ringfence %s: %s is there already; --reuse runs in it, if an earlier run made it, "
                "and frees what that left\n",
                o->command, o->dir);
        return EXIT_REFUSED;
    }
    if (rc != 0) return report(o->command, rc, &error);
    if (o->fence_every_ms > 0) rc = bench_lease_resume(run); /* it starts fenced */
    if (rc != 0) return report(o->command, rc, NULL);
    return o->reuse ? free_earlier(run) : EXIT_OK;
}

/* ---- writers ---- */

static void make_writers(struct run *run)
{
    struct rf_stats stats = {.size = sizeof stats};
    int rc = rf_stats(run->engine, &stats);
    if (rc != 0) bench_fail(run, rc, NULL);
    size_t bytes = run->o->writers * sizeof *run->writer;
    run->writer = mem_alloc_aligned(64, bytes);
    if (run->writer == NULL) run->writer = need_zalloc(bytes); /* says so and ends */
    memset(run->writer, 0, bytes);
    for (uint32_t i = 0; i < run->o->writers; i++) {
        struct writer *w = &run->writer[i];
        w->run = run;
        w->number = i;
        w->latency = need_zalloc(sizeof *w->latency);
        hist_init(w->latency);
        w->source = bench_source_create(run->o, i, stats.partition_interval, run->replay);
    }
}

static void free_writers(struct run *run)
{
    for (uint32_t i = 0; run->writer != NULL && i < run->o->writers; i++) {
        struct writer *w = &run->writer[i];
        bench_source_destroy(w->source);
        mem_free(w->latency);
        mem_free(w->flights);
        mem_free(w->stall);
    }
    mem_free(run->writer);
}

static bool all_ended(struct run *run, const bool *ended)
{
    for (uint64_t i = 0; i < run->o->writers; i++)
        if (!ended[i]) return false;
    return true;
}

/* Looks after the run from beside until its writers have ended. */
static void watch(struct run *run)
{
    bool *ended = need_zalloc(run->o->writers);
    while (!all_ended(run, ended)) {
        int64_t left = run->counts_from_ns - bench_now_ns();
        struct timespec t = {.tv_nsec = left > 0 && left < WATCH_NS ? left : WATCH_NS};
        nanosleep(&t, NULL);
        bench_watch(run, bench_now_ns());
        if (stop_requested()) {
            run->result->stopped = true;
            atomic_store_explicit(&run->stop, true, memory_order_relaxed);
        }
        for (uint64_t i = 0; i < run->o->writers; i++)
            ended[i] = ended[i] || pthread_tryjoin_np(run->writer[i].thread, NULL) == 0;
    }
    bench_watch_end(run, bench_now_ns());
    mem_free(ended);
}

static void start_and_watch(struct run *run)
{
    const struct bench_options *o = run->o;
    uint64_t started = 0;
    run->start_ns = bench_now_ns() + 1000000;
    run->counts_from_ns = run->start_ns + o->warmup_ms * 1000000;
    run->end_ns = o->points != 0 ? INT64_MAX : run->counts_from_ns + o->seconds_ms * 1000000;
    if (pthread_create(&run->upkeep, NULL, bench_upkeep_run, run) != 0) {
        bench_fail(run, -EAGAIN, NULL);
        return;
    }
    if (o->warmup_ms == 0) bench_watch_begin(run);
    for (; started < o->writers; started++)
        if (pthread_create(&run->writer[started].thread, NULL, bench_writer_run,
                           &run->writer[started]) != 0)
            break;
    if (started == o->writers) {
        watch(run);
    } else {
        bench_fail(run, -EAGAIN, NULL);
        for (uint64_t i = 0; i < started; i++)
            pthread_join(run->writer[i].thread, NULL);
    }
    atomic_store_explicit(&run->upkeep_stop, true, memory_order_relaxed);
    pthread_join(run->upkeep, NULL);
}

/* ---- summing up ---- */

static int by_time(const void *a, const void *b)
{
    const struct bench_stall *x = a, *y = b;
    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

size_t bench_merge_stalls(struct bench_stall *stall, size_t count)
{
    size_t merged = 0;
    int64_t end_ns = INT64_MIN;
    if (count > 0) qsort(stall, count, sizeof *stall, by_time);
    for (size_t i = 0; i < count; i++) {
        struct bench_stall s = stall[i];
        if (s.at_ns < end_ns) {
            struct bench_stall *last = &stall[merged - 1];
            uint64_t batches = last->batches + s.batches;
            if (s.took_ns > last->took_ns) *last = s;
            last->batches = batches;
        } else {
            stall[merged++] = s;
        }
        if (s.at_ns + s.took_ns > end_ns) end_ns = s.at_ns + s.took_ns;
    }
    return merged;
}

static void sum_stalls(struct run *run)
{
    struct bench_result *r = run->result;
    size_t capacity = 0, count = 0;
    for (uint32_t i = 0; i < run->o->writers; i++) {
        const struct writer *w = &run->writer[i];
        need_room(&r->stall, &capacity, count + w->stall_count, sizeof *r->stall);
        if (w->stall_count > 0)
            memcpy(r->stall + count, w->stall, w->stall_count * sizeof *w->stall);
        count += w->stall_count;
    }
    for (size_t i = 0; i < count; i++)
        r->slow_batches += r->stall[i].batches;
    r->stall_count = bench_merge_stalls(r->stall, count);
    for (size_t i = 0; i < r->stall_count; i++)
        r->stall[i].cause = bench_cause(run, &r->stall[i]);
}

static void sum_up(struct run *run)
{
    struct bench_result *r = run->result;
    int64_t last_ns = run->counts_from_ns;
    for (uint32_t i = 0; i < run->o->writers; i++) {
        const struct writer *w = &run->writer[i];
        r->batches += w->batches;
        r->rows += w->rows;
        r->points += w->points;
        r->bytes += w->bytes;
        r->refused += w->refused;
        r->unknown += w->unknown;
        r->not_begun += w->not_begun;
        hist_merge(&r->latency, w->latency);
        if (w->last_ns > last_ns) last_ns = w->last_ns;
    }
    r->ns = last_ns - run->counts_from_ns;
    r->trims = atomic_load(&run->trims);
    r->fences = atomic_load(&run->fences);
    sum_stalls(run);
}

void bench_result_deinit(struct bench_result *r)
{
    mem_free(r->stall);
    mem_free(r->second);
}

static void flush_and_close(struct run *run)
{
    struct bench_result *r = run->result;
    int64_t before = bench_now_ns();
    int rc = run->failure == 0 && run->o->sync != RF_SYNC_ALWAYS ? rf_flush(run->engine) : 0;
    r->flush_ns = bench_now_ns() - before;
    int closed = rf_close(run->engine);
    if (rc == 0) rc = closed;
    if (rc != 0 && r->code == EXIT_OK) r->code = report(run->o->command, rc, NULL);
}

void bench_run(const struct bench_options *o, const struct bench_trace *trace,
               struct bench_result *result_out)
{
    struct run run = {
        .o = o,
        .trace = trace,
        .result = result_out,
        .failure_lock = PTHREAD_MUTEX_INITIALIZER,
    };
    *result_out = (struct bench_result){.code = EXIT_OK};
    hist_init(&result_out->latency);
    stop_install();
    if (o->replay != NULL) result_out->code = bench_replay_load(o, RF_TIME_NS, &run.replay);
    if (result_out->code == EXIT_OK) result_out->code = open_engine(&run);
    if (result_out->code == EXIT_OK) {
        make_writers(&run);
        start_and_watch(&run);
        sum_up(&run);
    }
    if (run.engine != NULL) flush_and_close(&run);
    if (result_out->code == EXIT_OK && result_out->stopped) result_out->code = EXIT_STOPPED;
    free_writers(&run);
    bench_replay_destroy(run.replay);
    mem_free(run.sample);
}
