/* When the batches of an open loop are to begin: evenly, writers in turn, whatever happened to
 * those before. Latency counts from there, so that a stall shows in every batch that it delayed. */
#ifndef RF_CLI_BENCH_PACE_H
#define RF_CLI_BENCH_PACE_H

#include "base/check.h"

#include <stdint.h>

struct bench_pace {
    int64_t start_ns;
    uint64_t rate; /* batches a second, 1..10^9 */
    uint64_t writers;
};

/* The k-th batch of a writer, both counted from 0. */
static inline int64_t bench_pace_ns(const struct bench_pace *p, uint64_t writer, uint64_t k)
{
    CHECK(p->rate > 0);
    uint64_t n = k * p->writers + writer;
    uint64_t second = UINT64_C(1000000000);
    /* In two parts: n * 10^9 overflows after half a minute at the highest rate. */
    return p->start_ns + (int64_t)(n / p->rate * second + n % p->rate * second / p->rate);
}

/* About how many batches of one writer are to begin from from_ns, which is one's time, to end_ns. */
static inline uint64_t bench_pace_left(const struct bench_pace *p, int64_t from_ns, int64_t end_ns)
{
    double each_ns = 1e9 * (double)p->writers / (double)p->rate;
    return end_ns <= from_ns ? 0 : (uint64_t)((double)(end_ns - from_ns) / each_ns + 0.5);
}

#endif
