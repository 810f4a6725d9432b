/* Pairs, ratios, spreads; and what all the files share. */
#include "bench/macro/bench.h"

#include <ftw.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct row_text row_texts[ROWS] = {
#define ROW(name, id, what, against, unit, kind, goal, explained) \
    [ROW_##name] = {id, what, against, unit, kind, goal, explained},
#include "bench/rows.def"
#undef ROW
};
struct row_result row_results[ROWS];

/* ---- shared ---- */

void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("bench: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void check_rc(int rc, const char *what, const struct rf_error *error)
{
    if (rc == 0) return;
    const char *text = error != NULL && error->code != 0 ? error->text : rf_strerror(rc);
    die("%s: %s", what, text);
}

void *xalloc(size_t bytes)
{
    void *p = calloc(1, bytes == 0 ? 1 : bytes);
    if (p == NULL) die("no memory for %zu bytes", bytes);
    return p;
}

void path_join(char out[BENCH_PATH_BYTES], const char *dir, const char *name)
{
    int n = snprintf(out, BENCH_PATH_BYTES, "%s/%s", dir, name);
    if (n < 0 || n >= (int)BENCH_PATH_BYTES) die("the path %s/%s is too long", dir, name);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

bool row_wanted(const struct bench *bench, enum row row)
{
    return bench->only == NULL || strncmp(row_texts[row].id, bench->only, strlen(bench->only)) == 0;
}

void row_note(enum row row, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(row_results[row].note, sizeof row_results[row].note, fmt, args);
    va_end(args);
}

/* ---- statistics ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *values, uint32_t count, double q)
{
    double sorted[2 * BENCH_RUNS_MAX];
    if (count == 0) return 0;
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    double at = q * (count - 1);
    uint32_t low = (uint32_t)at, high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (at - low) * (sorted[high] - sorted[low]);
}

double median(const double *values, uint32_t count)
{
    return quantile(values, count, 0.5);
}

/* Half of the 95 % interval of the median of b(i+1) / b(i): 1.96 times 1.2533 sigma / sqrt(n), sigma
 * taken from the quartiles, which a few stalls of the device do not move. */
static double self_spread(const double *b, uint32_t count)
{
    double self[BENCH_RUNS_MAX];
    if (count < 3) return INFINITY;
    for (uint32_t i = 0; i + 1 < count; i++)
        self[i] = b[i + 1] / b[i];
    uint32_t n = count - 1;
    double sigma = (quantile(self, n, 0.75) - quantile(self, n, 0.25)) / 1.349;
    return 1.96 * 1.2533 * sigma / sqrt(n);
}

/* How much noise a goal bears. */
static double margin(const struct row_text *text)
{
    switch (text->kind) {
    case AT_LEAST:
    case AT_MOST: {
        double off = fabs(1 - text->goal);
        return off < 0.05 ? (off > 0 ? off : 0.05) : off > 0.5 ? 0.5 : off;
    }
    default: return 0.25;
    }
}

/* ---- rows ---- */

enum verdict row_verdict(enum row row)
{
    const struct row_text *text = &row_texts[row];
    const struct row_result *r = &row_results[row];
    bool met = true;
    switch (text->kind) {
    case NONE: return VERDICT_NONE;
    case AT_LEAST: met = r->ratio >= text->goal; break;
    case AT_MOST: met = r->ratio <= text->goal; break;
    case LESS_BY: met = r->value - r->base <= text->goal; break;
    case VALUE_AT_MOST: met = r->value <= text->goal; break;
    }
    if (met) return VERDICT_MET;
    return text->explained != NULL ? VERDICT_EXPLAINED : VERDICT_MISSED;
}

void row_set(enum row row, double value, double base, double spread, uint32_t runs)
{
    struct row_result *r = &row_results[row];
    r->measured = true;
    r->value = value;
    r->base = base;
    r->ratio = base != 0 ? value / base : 0;
    r->spread = spread;
    r->runs = runs;
    r->too_noisy = spread > margin(&row_texts[row]);
    report_row(row);
}

static double pair_ratio(const struct row_result *r)
{
    double ratios[BENCH_RUNS_MAX];
    for (uint32_t i = 0; i < r->a_count; i++)
        ratios[i] = r->a[i] / ((r->b[i] + r->b[i + 1]) / 2);
    return median(ratios, r->a_count);
}

void pair_run(const struct bench *bench, enum row row, struct side a, struct side b, uint32_t runs,
              uint32_t runs_max)
{
    if (!row_wanted(bench, row)) return;
    struct row_result *r = &row_results[row];
    struct sample s;
    double cpu_a = 0, cpu_b = 0;
    if (runs_max > BENCH_RUNS_MAX) runs_max = BENCH_RUNS_MAX;
    a.run(a.ctx, &s); /* warm-up */
    b.run(b.ctx, &s);
    r->b[r->b_count++] = s.value;
    while (r->a_count < runs ||
           (r->a_count < runs_max && self_spread(r->b, r->b_count) > margin(&row_texts[row]))) {
        a.run(a.ctx, &s);
        r->a[r->a_count++] = s.value;
        cpu_a += s.cpu_s_per_mpoint;
        b.run(b.ctx, &s);
        r->b[r->b_count++] = s.value;
        cpu_b += s.cpu_s_per_mpoint;
    }
    r->cpu_s_per_mpoint = cpu_a / r->a_count;
    r->base_cpu_s_per_mpoint = cpu_b / r->a_count;
    double ratio = pair_ratio(r);
    r->measured = true;
    r->value = median(r->a, r->a_count);
    r->base = median(r->b, r->b_count);
    r->ratio = ratio;
    r->spread = self_spread(r->b, r->b_count);
    r->runs = r->a_count;
    r->too_noisy = r->spread > margin(&row_texts[row]);
    report_row(row);
}
