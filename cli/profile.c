#include "cli/profile.h"

#include "cli/memory.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>

void profile_part_init(struct profile_part *p, size_t newest_capacity)
{
    *p = (struct profile_part){.newest_capacity = newest_capacity};
    for (int i = 0; i < RF_STAGES; i++)
        hist_init(&p->stage[i]);
    hist_init(&p->total);
    p->newest = need_zalloc((newest_capacity + 1) * sizeof *p->newest);
}

void profile_part_deinit(struct profile_part *p)
{
    mem_free(p->slow);
    mem_free(p->newest);
}

/* ---- the slowest, as a heap ---- */

static void sink(struct profile_batch *heap, size_t count)
{
    struct profile_batch b = heap[0];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1].total_ns < heap[child].total_ns) child++;
        if (heap[child].total_ns >= b.total_ns) break;
        heap[at] = heap[child];
    }
    heap[at] = b;
}

static void rise(struct profile_batch *heap, size_t at)
{
    struct profile_batch b = heap[at];
    for (size_t parent; at > 0 && heap[parent = (at - 1) / 2].total_ns > b.total_ns; at = parent)
        heap[at] = heap[parent];
    heap[at] = b;
}

static void keep_slow(struct profile_part *p, const struct profile_batch *b)
{
    if (p->slow_count == PROFILE_SLOWEST) {
        if (b->total_ns <= p->slow[0].total_ns) return;
        p->slow[0] = *b;
        sink(p->slow, p->slow_count);
        return;
    }
    need_room(&p->slow, &p->slow_capacity, p->slow_count + 1, sizeof *p->slow);
    p->slow[p->slow_count] = *b;
    rise(p->slow, p->slow_count++);
}

void profile_part_add(struct profile_part *p, const struct profile_batch *b)
{
    for (int i = 0; i < RF_STAGES; i++) {
        hist_add(&p->stage[i], (uint64_t)b->stage_ns[i]);
        p->stage_sum[i] += b->stage_ns[i];
    }
    hist_add(&p->total, (uint64_t)b->total_ns);
    keep_slow(p, b);
    if (p->newest_capacity > 0) p->newest[p->newest_count++ % p->newest_capacity] = *b;
}

/* ---- together ---- */

static int slowest_first(const void *a, const void *b)
{
    const struct profile_batch *x = a, *y = b;
    return (x->total_ns < y->total_ns) - (x->total_ns > y->total_ns);
}

void profile_sum(struct profile *p, const struct profile_part *parts, size_t count)
{
    size_t capacity = 0, kept = 0;
    *p = (struct profile){0};
    for (int i = 0; i < RF_STAGES; i++)
        hist_init(&p->stage[i]);
    hist_init(&p->total);
    for (size_t n = 0; n < count; n++) {
        const struct profile_part *part = &parts[n];
        for (int i = 0; i < RF_STAGES; i++) {
            hist_merge(&p->stage[i], &part->stage[i]);
            p->stage_sum[i] += part->stage_sum[i];
        }
        hist_merge(&p->total, &part->total);
        need_room(&p->slow, &capacity, kept + part->slow_count, sizeof *p->slow);
        if (part->slow_count > 0)
            memcpy(p->slow + kept, part->slow, part->slow_count * sizeof *p->slow);
        kept += part->slow_count;
    }
    p->batches = hist_count(&p->total);
    if (kept > 0) qsort(p->slow, kept, sizeof *p->slow, slowest_first);
    uint64_t wanted = (p->batches + 999) / 1000;
    /* The slowest so many of a writer are kept: of all of them together, at least as many. */
    p->slow_is_cut = wanted > PROFILE_SLOWEST;
    if (p->slow_is_cut) wanted = PROFILE_SLOWEST;
    p->slow_count = wanted < kept ? wanted : kept;
    for (size_t n = 0; n < p->slow_count; n++) {
        for (int i = 0; i < RF_STAGES; i++)
            p->slow_sum[i] += p->slow[n].stage_ns[i];
        p->slow_total += p->slow[n].total_ns;
    }
}

void profile_deinit(struct profile *p)
{
    mem_free(p->slow);
}

/* ---- tables ---- */

static double us(const struct hist *h, double q)
{
    return (double)hist_quantile(h, q) / 1e3;
}

static int64_t sum_of_all(const struct profile *p)
{
    int64_t sum = 0;
    for (int i = 0; i < RF_STAGES; i++)
        sum += p->stage_sum[i];
    return sum;
}

static void text_row(FILE *f, const char *name, const struct hist *h, double share, double slow)
{
    fprintf(f, "%-9s", name);
    for (int i = 0; i < PERCENTILES; i++)
        fprintf(f, " %10.1f", us(h, bench_percentiles[i].quantile));
    fprintf(f, " %7.1f %%  %7.1f %%\n", 100 * share, 100 * slow);
}

void profile_text(const struct profile *p, FILE *f)
{
    double all = (double)sum_of_all(p);
    fprintf(f, "\nstage, us");
    for (int i = 0; i < PERCENTILES; i++)
        fprintf(f, " %10s", bench_percentiles[i].name);
    fprintf(f, "  of time  of slowest\n");
    for (uint32_t i = 0; i < RF_STAGES; i++)
        text_row(f, rf_stage_name(i), &p->stage[i], bench_ratio((double)p->stage_sum[i], all),
                 bench_ratio((double)p->slow_sum[i], (double)p->slow_total));
    text_row(f, "total", &p->total, all > 0, p->slow_total > 0);
    fprintf(f, "\nThe slowest %s: %zu batches, from %.3f to %.3f ms.\n",
            p->slow_is_cut ? "that were kept" : "0.1 %", p->slow_count,
            p->slow_count > 0 ? (double)p->slow[p->slow_count - 1].total_ns / 1e6 : 0,
            p->slow_count > 0 ? (double)p->slow[0].total_ns / 1e6 : 0);
}

static void json_row(struct json *j, const char *name, const struct hist *h, double share,
                     double slow)
{
    json_open(j, NULL, '{');
    json_string(j, "stage", name);
    json_u64(j, "count", hist_count(h));
    for (int i = 0; i < PERCENTILES; i++)
        json_double(j, bench_percentiles[i].name, us(h, bench_percentiles[i].quantile));
    json_double(j, "mean", hist_mean(h) / 1e3);
    json_double(j, "share", share);
    json_double(j, "share_of_slowest", slow);
    json_close(j, '}');
}

void profile_json(const struct profile *p, struct json *j)
{
    double all = (double)sum_of_all(p);
    json_open(j, "stages_us", '[');
    for (uint32_t i = 0; i < RF_STAGES; i++)
        json_row(j, rf_stage_name(i), &p->stage[i], bench_ratio((double)p->stage_sum[i], all),
                 bench_ratio((double)p->slow_sum[i], (double)p->slow_total));
    json_row(j, "total", &p->total, all > 0, p->slow_total > 0);
    json_close(j, ']');
    json_open(j, "slowest", '{');
    json_u64(j, "batches", p->slow_count);
    json_bool(j, "is_cut", p->slow_is_cut);
    json_double(j, "mean_us", bench_ratio((double)p->slow_total / 1e3, (double)p->slow_count));
    json_close(j, '}');
}
