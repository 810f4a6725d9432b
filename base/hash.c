#include "base/hash.h"

#include "base/hash_impl.h"

#include <stdatomic.h>

#if defined(__x86_64__)
#define BASELINE_NAME "sse2"
static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}
#else
#define BASELINE_NAME "portable"
#endif
static bool always(void)
{
    return true;
}

static const struct hash_variant variants[] = {
#if defined(__x86_64__)
    {"avx512", hash64_avx512, has_avx512},
    {"avx2", hash64_avx2, has_avx2},
#endif
    {BASELINE_NAME, hash64_baseline, always},
};

const struct hash_variant *hash_variants(size_t *count_out)
{
    *count_out = sizeof variants / sizeof variants[0];
    return variants;
}

/* Relaxed everywhere: the table is constant, and threads that race to look choose the same row. */
static const struct hash_variant *_Atomic chosen;

static const struct hash_variant *choose(void)
{
    const struct hash_variant *v = variants;
    while (!v->runs())
        v++;
    atomic_store_explicit(&chosen, v, memory_order_relaxed);
    return v;
}

static inline const struct hash_variant *variant(void)
{
    const struct hash_variant *v = atomic_load_explicit(&chosen, memory_order_relaxed);
    return __builtin_expect(v != NULL, 1) ? v : choose();
}

uint64_t hash64(const void *data, size_t bytes, uint64_t seed)
{
    return variant()->hash(bytes != 0 ? data : "", bytes, seed);
}

const char *hash_form(void)
{
    return variant()->name;
}
