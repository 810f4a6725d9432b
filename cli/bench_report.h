/* The result of a run, for people and as JSON. */
#ifndef RF_CLI_BENCH_REPORT_H
#define RF_CLI_BENCH_REPORT_H

#include "cli/bench_run.h"
#include "cli/json.h"

/* Opens FILE for writing; a message on failure. "-" is the standard output. */
RF_NODISCARD FILE *bench_file_open(const char *command, const char *file);
/* Flushes and closes it; so_far, or EXIT_ENVIRONMENT and a message. */
RF_NODISCARD enum exit_code bench_file_close(const char *command, const char *file, FILE *f,
                                             enum exit_code so_far);

void bench_report_text(const struct bench_options *o, const struct bench_result *r, FILE *f);
/* Members of an object that the caller opens and closes. */
void bench_report_json(const struct bench_options *o, const struct bench_result *r, struct json *j);

enum { PERCENTILES = 6 };
struct bench_percentile {
    const char *name; /* "p50" */
    double quantile;
};
extern const struct bench_percentile bench_percentiles[PERCENTILES]; /* p50 to p99.99, max */

/* CPU seconds, user and system, of the process between the two. */
double bench_cpu_seconds(const struct rusage *before, const struct rusage *after);
/* a / b, 0 when b is 0. */
static inline double bench_ratio(double a, double b)
{
    return b != 0 ? a / b : 0;
}

#endif
