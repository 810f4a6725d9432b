/* The table on the terminal, a row as soon as it is measured, and bench-report.json. */
#include "bench/macro/bench.h"

#include "base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define EXTRAS_MAX 8u

static struct {
    const char *key;
    char *json;
} extras[EXTRAS_MAX];
static uint32_t extra_count;

void report_extra(const char *key, char *json)
{
    if (extra_count == EXTRAS_MAX) die("too many parts in the report");
    extras[extra_count].key = key;
    extras[extra_count++].json = json;
}

/* ---- the table ---- */

static const char *verdict_text(enum row row)
{
    switch (row_verdict(row)) {
    case VERDICT_NONE: return "";
    case VERDICT_MET: return "met";
    case VERDICT_MISSED: return "MISSED";
    case VERDICT_EXPLAINED: return "explained";
    }
    return "";
}

static void goal_text(enum row row, char out[32])
{
    const struct row_text *t = &row_texts[row];
    switch (t->kind) {
    case NONE: out[0] = 0; break;
    case AT_LEAST: (void)snprintf(out, 32, ">= %g x", t->goal); break;
    case AT_MOST: (void)snprintf(out, 32, "<= %g x", t->goal); break;
    case LESS_BY: (void)snprintf(out, 32, "<= + %g %s", t->goal, t->unit); break;
    case VALUE_AT_MOST: (void)snprintf(out, 32, "<= %g %s", t->goal, t->unit); break;
    }
}

static void number_text(double value, char out[32])
{
    if (value >= 1e6)
        (void)snprintf(out, 32, "%.1f M", value / 1e6);
    else if (value >= 1e4)
        (void)snprintf(out, 32, "%.1f k", value / 1e3);
    else
        (void)snprintf(out, 32, "%.4g", value);
}

void report_row(enum row row)
{
    static bool headed;
    const struct row_text *t = &row_texts[row];
    const struct row_result *r = &row_results[row];
    char value[32], base[32], goal[32];
    if (!headed)
        printf("%-20s %10s %10s %-9s %7s %-12s %-9s %4s %7s  %s\n", "row", "value", "against",
               "unit", "ratio", "goal", "", "runs", "spread",
               "CPU s/Mpoint (theirs / ours), what it is");
    headed = true;
    number_text(r->value, value);
    number_text(r->base, base);
    goal_text(row, goal);
    printf("%-20s %10s %10s %-9s %7.3f %-12s %-9s %4u %6.1f%%  ", t->id, value, base, t->unit,
           r->ratio, goal, verdict_text(row), r->runs, 100 * r->spread);
    if (r->cpu_s_per_mpoint > 0) printf("%.4f ", r->cpu_s_per_mpoint);
    if (r->cpu_s_per_mpoint > 0 && r->base_cpu_s_per_mpoint > 0)
        printf("(%.2f) ", r->base_cpu_s_per_mpoint / r->cpu_s_per_mpoint);
    printf("%s%s; against %s%s%s%s\n", r->too_noisy ? "TOO NOISY: " : "", t->what, t->against,
           r->note[0] != 0 ? " (" : "", r->note, r->note[0] != 0 ? ")" : "");
    fflush(stdout);
}

/* ---- JSON ---- */

static void put_string(FILE *out, const char *s)
{
    fputc('"', out);
    for (; *s != 0; s++) {
        if (*s == '"' || *s == '\\') fputc('\\', out);
        if ((unsigned char)*s >= 0x20) fputc(*s, out);
    }
    fputc('"', out);
}

static void put_number(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, "%.8g", value);
    else
        fputs("null", out);
}

static void put_list(FILE *out, const char *key, const double *values, uint32_t count)
{
    fprintf(out, ",\"%s\":[", key);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) fputc(',', out);
        put_number(out, values[i]);
    }
    fputc(']', out);
}

static void put_row(FILE *out, enum row row)
{
    static const char *const kinds[] = {"none", "at least", "at most", "less by", "value at most"};
    const struct row_text *t = &row_texts[row];
    const struct row_result *r = &row_results[row];
    enum verdict verdict = row_verdict(row);
    fprintf(out, "{\"id\":\"%s\",\"what\":", t->id);
    put_string(out, t->what);
    fputs(",\"value\":", out);
    put_number(out, r->value);
    fprintf(out, ",\"unit\":\"%s\",\"against\":", t->unit);
    put_string(out, t->against);
    fputs(",\"against_value\":", out);
    put_number(out, r->base);
    fputs(",\"ratio\":", out);
    put_number(out, r->ratio);
    fprintf(out, ",\"goal_kind\":\"%s\",\"goal\":", kinds[t->kind]);
    if (t->kind == NONE)
        fputs("null", out);
    else
        put_number(out, t->goal);
    fprintf(out, ",\"met\":%s",
            verdict == VERDICT_MET      ? "true"
            : verdict == VERDICT_MISSED ? "false"
            : verdict == VERDICT_NONE   ? "null"
                                        : "\"explained\"");
    if (verdict == VERDICT_EXPLAINED)
        fprintf(out, ",\"explained\":\"docs/performance.md#%s\"", t->explained);
    fprintf(out, ",\"runs\":%u,\"spread\":", r->runs);
    put_number(out, r->spread);
    fprintf(out, ",\"too_noisy\":%s,\"note\":", r->too_noisy ? "true" : "false");
    put_string(out, r->note);
    fputs(",\"cpu_s_per_mpoint\":", out);
    put_number(out, r->cpu_s_per_mpoint);
    fputs(",\"against_cpu_s_per_mpoint\":", out);
    put_number(out, r->base_cpu_s_per_mpoint);
    /* As a ratio of speeds: above 1 the engine takes less of the processor than its baseline. */
    fputs(",\"cpu_ratio\":", out);
    if (r->cpu_s_per_mpoint > 0 && r->base_cpu_s_per_mpoint > 0)
        put_number(out, r->base_cpu_s_per_mpoint / r->cpu_s_per_mpoint);
    else
        fputs("null", out);
    put_list(out, "values", r->a, r->a_count);
    put_list(out, "against_values", r->b, r->b_count);
    fputc('}', out);
}

static void cpu_name(char *out, size_t bytes)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];
    (void)snprintf(out, bytes, "unknown");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL) {
            (void)snprintf(out, bytes, "%s", strchr(line, ':') + 2);
            out[strcspn(out, "\n")] = 0;
            break;
        }
    if (f != NULL) fclose(f);
}

static void put_machine(FILE *out, const struct bench *bench)
{
    struct utsname u;
    char cpu[256], when[64];
    double loads[3] = {0};
    time_t now = time(NULL);
    struct tm tm;
    uname(&u);
    cpu_name(cpu, sizeof cpu);
    (void)getloadavg(loads, 3);
    gmtime_r(&now, &tm);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    fputs("\"machine\":{\"cpu\":", out);
    put_string(out, cpu);
    fprintf(out, ",\"cores\":%ld,\"memory_bytes\":%lld,\"kernel\":", sysconf(_SC_NPROCESSORS_ONLN),
            (long long)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    put_string(out, u.release);
    fprintf(out, ",\"hash\":\"%s\",\"compiler\":", hash_form());
    put_string(out, __VERSION__);
    fprintf(out, ",\"load_at_end\":%.2f},\"when\":\"%s\",\"quick\":%s,\"version\":\"%s\"", loads[0],
            when, bench->quick ? "true" : "false", rf_version());
}

void report_write(const struct bench *bench, const char *path)
{
    FILE *out = fopen(path, "we");
    if (out == NULL) die("%s can't be written", path);
    fputc('{', out);
    put_machine(out, bench);
    fputs(",\"rows\":[\n", out);
    bool first = true;
    for (enum row row = 0; row < ROWS; row++) {
        if (!row_results[row].measured) continue;
        if (!first) fputs(",\n", out);
        first = false;
        put_row(out, row);
    }
    fputs("]", out);
    for (uint32_t i = 0; i < extra_count; i++) {
        fprintf(out, ",\n\"%s\":%s", extras[i].key, extras[i].json);
        free(extras[i].json);
    }
    fputs("}\n", out);
    if (fclose(out) != 0) die("%s can't be written", path);
}
