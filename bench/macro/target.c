/* An engine under load: in bursts that fit its ring, with the log trimmed between them. */
#include "bench/macro/bench.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MEMORY_DEFAULT   (20 * 80 * MIB)
#define WRITE_WAIT_MS    10000
#define REST_LOOKS       4000
#define SETTLE_SECONDS   0.05
#define WRITERS_MAX      64u
#define COMPLETIONS_EACH 64u

double now_seconds(void)
{
    return (double)clock_read_ns(CLOCK_MONOTONIC) / 1e9;
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

double cpu_seconds(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return seconds_of(r.ru_utime) + seconds_of(r.ru_stime);
}

static void switches(uint64_t *sleeps_out, uint64_t *preemptions_out)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    *sleeps_out = (uint64_t)r.ru_nvcsw;
    *preemptions_out = (uint64_t)r.ru_nivcsw;
}

static struct rf_stats stats_of(struct target *t)
{
    struct rf_stats s = {.size = sizeof s};
    check_rc(rf_stats(t->engine, &s), "rf_stats", NULL);
    return s;
}

void target_open(struct target *t, const struct bench *bench, const char *name,
                 const struct target_options *o)
{
    struct rf_options options;
    struct rf_error error = {.code = 0};
    rf_options_init(&options);
    options.sync = o->sync;
    options.lease = o->lease;
    options.memory_bytes = o->memory_bytes != 0 ? o->memory_bytes : MEMORY_DEFAULT;
    options.wait_prepared = true;
    options.write_wait_ms = WRITE_WAIT_MS;
    *t = (struct target){.keep = o->keep};
    path_join(t->dir, bench->dir, name);
    check_rc(rf_open(t->dir, &options, &t->engine, &error), t->dir, &error);
    check_rc(rf_queue_open(t->engine, &t->queue), "rf_queue_open", NULL);
    struct rf_stats s = stats_of(t);
    t->segments = s.segments + s.segments_free;
}

void target_close(struct target *t)
{
    rf_queue_close(t->queue);
    check_rc(rf_close(t->engine), "rf_close", NULL);
    if (!t->keep) remove_tree(t->dir);
}

void target_rest(struct target *t)
{
    check_rc(rf_flush(t->engine), "rf_flush", NULL);
    struct rf_trim_options trim;
    rf_trim_options_init(&trim);
    trim.before_position = UINT64_MAX;
    check_rc(rf_trim(t->engine, &trim, NULL), "rf_trim", NULL);
    double last_ready_at = now_seconds();
    uint64_t ready = 0;
    for (int i = 0; i < REST_LOOKS; i++) {
        struct rf_stats s = stats_of(t);
        if (s.segments_ready != ready) last_ready_at = now_seconds();
        ready = s.segments_ready;
        /* The next segments get their headers and names, one after the other. */
        if (s.segments <= 2 && s.segments + s.segments_free >= t->segments &&
            now_seconds() - last_ready_at > SETTLE_SECONDS)
            return;
        usleep(1000);
    }
    die("the ring of %s was not ready again in time", t->dir);
}

/* ---- one writer ---- */

struct writer {
    struct target *target;
    const struct load *load;
    struct tablets tablets;
    uint64_t bytes_max;
    double end;
    uint64_t batches;
    pthread_barrier_t *start;
    struct rf_queue *queue;
};

static void write_blocking(struct writer *w)
{
    struct rf_error error = {.code = 0};
    uint64_t limit = w->bytes_max / w->tablets.bytes + 1;
    while (w->batches < limit && (w->batches % 8 != 0 || now_seconds() < w->end)) {
        const struct rf_tablet *tablet = tablets_next(&w->tablets, w->batches);
        int64_t before = w->load->latency != NULL ? clock_read_ns(CLOCK_MONOTONIC) : 0;
        check_rc(rf_write(w->target->engine, tablet, &error), "rf_write", &error);
        if (w->load->latency != NULL)
            hist_add(w->load->latency, (uint64_t)(clock_read_ns(CLOCK_MONOTONIC) - before));
        w->batches++;
    }
}

static void collect(struct writer *w, int64_t timeout_ms)
{
    struct rf_completion done[COMPLETIONS_EACH];
    int n = rf_completions(w->queue, done, COMPLETIONS_EACH, timeout_ms);
    if (n < 0) check_rc(n, "rf_completions", NULL);
    for (int i = 0; i < n; i++)
        check_rc(done[i].code, "a batch", NULL);
}

static void write_queued(struct writer *w)
{
    struct rf_error error = {.code = 0};
    uint64_t limit = w->bytes_max / w->tablets.bytes + 1;
    while (w->batches < limit && now_seconds() < w->end) {
        while (rf_queue_in_flight(w->queue) < w->load->in_flight && w->batches < limit) {
            const struct rf_tablet *tablet = tablets_next(&w->tablets, w->batches);
            int rc = rf_write_async(w->queue, tablet, 1, WRITE_WAIT_MS, NULL, NULL, &error);
            check_rc(rc, "rf_write_async", &error);
            w->batches++;
        }
        collect(w, -1);
    }
    while (rf_queue_in_flight(w->queue) > 0)
        collect(w, -1);
}

static void *write_thread(void *arg)
{
    struct writer *w = arg;
    if (w->start != NULL) pthread_barrier_wait(w->start);
    if (w->load->in_flight > 0)
        write_queued(w);
    else
        write_blocking(w);
    return NULL;
}

/* ---- a load ---- */

static void run_writers(struct writer *writers, uint32_t count, double *began_out)
{
    pthread_barrier_t start;
    pthread_t threads[WRITERS_MAX];
    pthread_barrier_init(&start, NULL, count + 1);
    for (uint32_t i = 0; i < count; i++) {
        writers[i].start = &start;
        if (pthread_create(&threads[i], NULL, write_thread, &writers[i]) != 0)
            die("no thread for a writer");
    }
    pthread_barrier_wait(&start);
    *began_out = now_seconds();
    for (uint32_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
}

/* Before anything is timed: tables and columns exist. */
static void make_schema(struct target *t, struct tablets *tablets)
{
    struct rf_error error = {.code = 0};
    check_rc(rf_write(t->engine, &tablets->tablet[0], &error), "the first tablet", &error);
}

void target_load(struct target *t, const struct load *load, struct outcome *out)
{
    uint32_t count = load->writers != 0 ? load->writers : 1;
    if (count > WRITERS_MAX) die("too many writers");
    struct writer *writers = xalloc(count * sizeof *writers);
    for (uint32_t i = 0; i < count; i++) {
        writers[i] = (struct writer){
            .target = t, .load = load, .queue = t->queue, .bytes_max = load->bytes_max / count};
        tablets_make(&writers[i].tablets, load->shape, i);
        make_schema(t, &writers[i].tablets);
    }
    target_rest(t);
    struct rf_stats before = stats_of(t);
    uint64_t sleeps, preemptions;
    switches(&sleeps, &preemptions);
    double cpu = cpu_seconds(), began = now_seconds();
    for (uint32_t i = 0; i < count; i++)
        writers[i].end = began + load->seconds_max;
    if (load->writers == 0)
        (void)write_thread(&writers[0]);
    else
        run_writers(writers, count, &began);
    *out = (struct outcome){.seconds = now_seconds() - began, .cpu_s = cpu_seconds() - cpu};
    switches(&out->sleeps, &out->preemptions);
    out->sleeps -= sleeps;
    out->preemptions -= preemptions;
    struct rf_stats after = stats_of(t);
    out->device_writes = after.device_writes - before.device_writes;
    out->device_syncs = after.device_syncs - before.device_syncs;
    out->device_bytes = after.device_bytes - before.device_bytes;
    for (uint32_t i = 0; i < count; i++) {
        out->batches += writers[i].batches;
        out->points += writers[i].batches * writers[i].tablets.points;
        out->bytes += writers[i].batches * writers[i].tablets.bytes;
        tablets_free(&writers[i].tablets);
    }
    free(writers);
}

void measure_load(void *ctx, struct sample *out)
{
    struct load_side *side = ctx;
    struct hist *latency = NULL;
    if (side->what == P50_US) {
        latency = xalloc(sizeof *latency);
        hist_init(latency);
        side->load.latency = latency;
    }
    target_load(side->target, &side->load, &side->last);
    const struct outcome *o = &side->last;
    switch (side->what) {
    case RATE_POINTS: out->value = (double)o->points / o->seconds; break;
    case RATE_BATCHES: out->value = (double)o->batches / o->seconds; break;
    case TIME_BATCH_US: out->value = o->seconds * 1e6 / (double)o->batches; break;
    case P50_US: out->value = (double)hist_quantile(latency, 0.5) / 1e3; break;
    }
    out->cpu_s_per_mpoint = o->cpu_s * 1e6 / (double)o->points;
    side->load.latency = NULL;
    free(latency);
}
