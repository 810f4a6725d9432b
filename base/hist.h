/* A latency histogram of fixed size: log-linear buckets, any value of uint64 (ns by use), each
 * value reported within 1 % of itself. Mergeable.
 *
 * Thread: hist_add by one writer at a time; readers and hist_merge any time (relaxed counts, a
 * snapshot may miss the newest). */
#ifndef RF_BASE_HIST_H
#define RF_BASE_HIST_H

#include <stdatomic.h>
#include <stdint.h>

/* 64 sub-buckets a power of two, reported at their middle: the error is at most 1/128. */
#define HIST_SUB_BITS 6
#define HIST_BUCKETS  ((64 - HIST_SUB_BITS + 1) << HIST_SUB_BITS)

struct hist {
    _Atomic uint64_t count[HIST_BUCKETS];
    _Atomic uint64_t total;
    _Atomic uint64_t sum;
    _Atomic uint64_t min; /* UINT64_MAX while empty */
    _Atomic uint64_t max;
};

void hist_init(struct hist *h);
void hist_add(struct hist *h, uint64_t value);
/* Adds from's counts to into's. */
void hist_merge(struct hist *into, const struct hist *from);
/* The value at quantile q in 0..1 (0.5 the median); 0 when empty; exact at 0 and 1. */
uint64_t hist_quantile(const struct hist *h, double q);
uint64_t hist_count(const struct hist *h);
double hist_mean(const struct hist *h);

#endif
