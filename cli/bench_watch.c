#include "cli/bench_run_impl.h"

#include "cli/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* ---- the watch ---- */

static struct bench_second done_so_far(struct run *run)
{
    struct bench_second s = {0};
    for (uint64_t i = 0; i < run->o->writers; i++) {
        s.batches += atomic_load_explicit(&run->writer[i].batches_done, memory_order_relaxed);
        s.points += atomic_load_explicit(&run->writer[i].points_done, memory_order_relaxed);
    }
    return s;
}

static void end_second(struct run *run)
{
    struct bench_result *r = run->result;
    struct bench_second now = done_so_far(run);
    need_room(&r->second, &run->second_capacity, r->second_count + 1, sizeof *r->second);
    r->second[r->second_count++] =
        (struct bench_second){now.batches - run->so_far.batches, now.points - run->so_far.points};
    run->so_far = now;
    run->next_second_ns += 1000000000;
}

static void show(struct run *run, int64_t now_ns, const struct rf_stats *stats)
{
    if (now_ns - run->shown_ns < 200000000 || !isatty(STDERR_FILENO)) return;
    double seconds = (double)(now_ns - run->counts_from_ns) / 1e9;
    run->shown_ns = now_ns;
    run->is_shown = true;
    if (!run->counts) {
        fprintf(stderr, "\r\033[Kwarming up, %.1f s left", -seconds);
    } else {
        struct bench_second now = done_so_far(run);
        struct bench_second last = run->result->second_count > 0
                                       ? run->result->second[run->result->second_count - 1]
                                       : now;
        fprintf(stderr,
                "\r\033[K%.1f s, %.2f million points/s, %" PRIu64 " batches/s, log %" PRIu64
                " of %" PRIu64 " MiB",
                seconds, (double)last.points / 1e6, last.batches, stats->log_bytes >> 20,
                stats->log_bytes_max >> 20);
    }
    fflush(stderr);
}

void bench_watch_begin(struct run *run)
{
    struct rf_stats stats = {.size = sizeof stats};
    int rc = rf_stats(run->engine, &stats);
    if (rc != 0) bench_fail(run, rc, NULL);
    run->counts = true;
    run->result->before = stats;
    (void)getrusage(RUSAGE_SELF, &run->result->usage_before);
    run->so_far = done_so_far(run);
    run->next_second_ns = run->counts_from_ns + 1000000000;
}

void bench_watch(struct run *run, int64_t now_ns)
{
    struct rf_stats stats = {.size = sizeof stats};
    int rc = rf_stats(run->engine, &stats);
    if (rc != 0) bench_fail(run, rc, NULL);
    if (!run->counts && now_ns >= run->counts_from_ns) bench_watch_begin(run);
    if (run->counts && now_ns >= run->next_second_ns) end_second(run);
    need_room(&run->sample, &run->sample_capacity, run->sample_count + 1, sizeof *run->sample);
    run->sample[run->sample_count++] = (struct sample){
        .at_ns = now_ns,
        .fenced = stats.fenced_now,
        .full = stats.log_bytes + 2 * stats.segment_bytes > stats.log_bytes_max,
        .segments_late = stats.segments_late,
    };
    if (stats.log_bytes > stats.log_bytes_max / 2)
        atomic_store_explicit(&run->wants_trim, true, memory_order_relaxed);
    show(run, now_ns, &stats);
}

void bench_watch_end(struct run *run, int64_t now_ns)
{
    struct rf_stats stats = {.size = sizeof stats};
    (void)now_ns;
    int rc = rf_stats(run->engine, &stats);
    if (rc != 0) bench_fail(run, rc, NULL);
    if (!run->counts) bench_watch_begin(run);
    run->result->after = stats;
    (void)getrusage(RUSAGE_SELF, &run->result->usage_after);
    if (run->is_shown) fputs("\r\033[K", stderr);
}

/* ---- why a batch took long ---- */

/* The first sample at or after a time. */
static size_t first_from(const struct run *run, int64_t at_ns)
{
    size_t low = 0, high = run->sample_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (run->sample[middle].at_ns < at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const char *bench_cause(const struct run *run, const struct bench_stall *s)
{
    int64_t begin = s->at_ns + run->counts_from_ns, end = begin + s->took_ns;
    int64_t gap = 0;
    bool fenced = false, full = false, late = false;
    for (size_t i = first_from(run, begin); i < run->sample_count; i++) {
        const struct sample *p = &run->sample[i];
        if (p->at_ns > end + WATCH_NS) break;
        fenced = fenced || p->fenced;
        full = full || p->full;
        late = late || (i > 0 && p->segments_late != run->sample[i - 1].segments_late);
        if (i > 0 && p->at_ns - run->sample[i - 1].at_ns > gap)
            gap = p->at_ns - run->sample[i - 1].at_ns;
    }
    if (s->late_ns > s->took_ns / 2) return "earlier";
    if (fenced) return "lease";
    /* Who looks every 10 ms was kept from looking as well. */
    if (gap > s->took_ns / 2 && gap > 3 * WATCH_NS) return "machine";
    bool in_call = s->in_call_ns > s->took_ns / 2;
    if (late && in_call && !full) return "segment";
    if (full || in_call) return "room";
    return "device";
}

/* ---- the upkeep ---- */

static const int64_t LEASE_TTL_MS = 60000;

int bench_lease_resume(struct run *run)
{
    struct rf_lease_request request;
    int rc = rf_lease_ask(run->engine, &request);
    return rc != 0 ? rc : rf_lease_resume(run->engine, &request, LEASE_TTL_MS);
}

static int renew(struct run *run)
{
    struct rf_lease_request request;
    int rc = rf_lease_ask(run->engine, &request);
    return rc != 0 ? rc : rf_lease_grant(run->engine, &request, LEASE_TTL_MS);
}

static int fence(struct run *run)
{
    int rc = rf_lease_fence(run->engine);
    atomic_fetch_add_explicit(&run->fences, 1, memory_order_relaxed);
    return rc != 0 ? rc : bench_lease_resume(run);
}

/* Frees all that is stored: half of the log at a time, since each time the manifest is written. */
static int trim(struct run *run)
{
    struct rf_trim_options t;
    rf_trim_options_init(&t);
    t.before_position = UINT64_MAX;
    atomic_fetch_add_explicit(&run->trims, 1, memory_order_relaxed);
    return rf_trim(run->engine, &t, NULL);
}

void *bench_upkeep_run(void *arg)
{
    struct run *run = arg;
    int64_t fence_ns = run->o->fence_every_ms * 1000000;
    int64_t next_fence = bench_now_ns() + fence_ns, next_grant = bench_now_ns() + 1000000000;
    pthread_setname_np(pthread_self(), "bench-upkeep");
    while (!atomic_load_explicit(&run->upkeep_stop, memory_order_relaxed)) {
        int rc = 0;
        int64_t now = bench_now_ns();
        if (fence_ns > 0 && now >= next_fence) {
            rc = fence(run);
            next_fence = now + fence_ns;
        } else if (fence_ns > 0 && now >= next_grant) {
            rc = renew(run);
            next_grant = now + 1000000000;
        }
        if (rc == 0 && atomic_exchange_explicit(&run->wants_trim, false, memory_order_relaxed))
            rc = trim(run);
        if (rc != 0) {
            bench_fail(run, rc, NULL);
            break;
        }
        int64_t nap_ns = fence_ns > 0 && fence_ns < 2000000 ? fence_ns / 2 : 1000000;
        struct timespec t = {.tv_nsec = nap_ns};
        nanosleep(&t, NULL);
    }
    return NULL;
}
