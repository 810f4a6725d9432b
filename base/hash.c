#include "base/hash.h"

#include "base/hash_impl.h"

#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>

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

void hash_use(const struct hash_variant *v)
{
    atomic_store_explicit(&chosen, v, memory_order_relaxed);
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

/* 0: not drawn yet. Relaxed: it is all there is to see, and who loses the race takes the winner's. */
static _Atomic uint64_t process_key;

static uint64_t draw_key(void)
{
    uint64_t key = 0, none = 0;
    if (getrandom(&key, sizeof key, GRND_NONBLOCK) != (ssize_t)sizeof key) {
        struct timespec t; /* early in a boot: better than the same for everybody */
        clock_gettime(CLOCK_BOOTTIME, &t);
        key = (uint64_t)t.tv_nsec * 0x9e3779b97f4a7c15u ^ (uint64_t)(uintptr_t)&t;
    }
    key |= 1; /* never 0 */
    return atomic_compare_exchange_strong_explicit(&process_key, &none, key, memory_order_relaxed,
                                                   memory_order_relaxed)
               ? key
               : none;
}

uint64_t hash_keyed(const void *data, size_t bytes, uint64_t seed)
{
    uint64_t key = atomic_load_explicit(&process_key, memory_order_relaxed);
    if (__builtin_expect(key == 0, 0)) key = draw_key();
    return hash64(data, bytes, seed ^ key);
}

const char *hash_form(void)
{
    return variant()->name;
}
