#include "base/hist.h"

#define SUBS (1u << HIST_SUB_BITS)

/* One writer: a load and a store do, and cost no locked instruction. */
static void add_relaxed(_Atomic uint64_t *word, uint64_t n)
{
    atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* Values below SUBS have a bucket each. Above, each power of two has SUBS of equal width. */
static unsigned bucket_of(uint64_t value)
{
    if (value < SUBS) return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HIST_SUB_BITS;
    return ((shift + 1) << HIST_SUB_BITS) + ((unsigned)(value >> shift) & (SUBS - 1));
}

static uint64_t middle_of(unsigned bucket)
{
    if (bucket < SUBS) return bucket;
    unsigned shift = (bucket >> HIST_SUB_BITS) - 1;
    uint64_t low = (uint64_t)(SUBS + (bucket & (SUBS - 1))) << shift;
    return low + ((UINT64_C(1) << shift) >> 1);
}

void hist_init(struct hist *h)
{
    for (unsigned i = 0; i < HIST_BUCKETS; i++)
        atomic_store_explicit(&h->count[i], 0, memory_order_relaxed);
    atomic_store_explicit(&h->total, 0, memory_order_relaxed);
    atomic_store_explicit(&h->sum, 0, memory_order_relaxed);
    atomic_store_explicit(&h->min, UINT64_MAX, memory_order_relaxed);
    atomic_store_explicit(&h->max, 0, memory_order_relaxed);
}

static void widen(struct hist *h, uint64_t low, uint64_t high)
{
    if (low < get(&h->min)) atomic_store_explicit(&h->min, low, memory_order_relaxed);
    if (high > get(&h->max)) atomic_store_explicit(&h->max, high, memory_order_relaxed);
}

void hist_add(struct hist *h, uint64_t value)
{
    add_relaxed(&h->count[bucket_of(value)], 1);
    add_relaxed(&h->total, 1);
    add_relaxed(&h->sum, value);
    widen(h, value, value);
}

void hist_merge(struct hist *into, const struct hist *from)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        uint64_t n = get(&from->count[i]);
        if (n == 0) continue;
        add_relaxed(&into->count[i], n);
        total += n;
    }
    if (total == 0) return;
    /* The buckets' own sum, not from's total: from's writer may be between the two. */
    add_relaxed(&into->total, total);
    add_relaxed(&into->sum, get(&from->sum));
    widen(into, get(&from->min), get(&from->max));
}

static uint64_t clamp(const struct hist *h, uint64_t value)
{
    uint64_t low = get(&h->min);
    uint64_t high = get(&h->max);
    if (value < low) return low;
    return value > high ? high : value;
}

uint64_t hist_quantile(const struct hist *h, double q)
{
    uint64_t total = get(&h->total);
    if (total == 0) return 0;
    if (q <= 0) return get(&h->min);
    if (q >= 1) return get(&h->max);
    /* The rank of the value, from 1: the least count that covers the share q. */
    double share = q * (double)total;
    uint64_t rank = (uint64_t)share;
    if ((double)rank < share || rank == 0) rank++;
    uint64_t seen = 0;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        seen += get(&h->count[i]);
        if (seen >= rank) return clamp(h, middle_of(i));
    }
    return get(&h->max);
}

uint64_t hist_count(const struct hist *h)
{
    return get(&h->total);
}

double hist_mean(const struct hist *h)
{
    uint64_t total = get(&h->total);
    return total != 0 ? (double)get(&h->sum) / (double)total : 0;
}
