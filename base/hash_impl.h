/* Inside of hash.c: the forms of XXH3, one a file, each compiled for its own instruction set. A
 * form may be called only where its runs() says so. */
#ifndef RF_BASE_HASH_IMPL_H
#define RF_BASE_HASH_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_variant {
    const char *name;
    uint64_t (*hash)(const void *data, size_t bytes, uint64_t seed);
    bool (*runs)(void); /* whether this CPU and this kernel have the instructions */
};

#if defined(__x86_64__)
uint64_t hash64_avx512(const void *data, size_t bytes, uint64_t seed);
uint64_t hash64_avx2(const void *data, size_t bytes, uint64_t seed);
#endif
/* For the least that the target has: SSE2 on x86-64, NEON on arm64, plain C elsewhere. */
uint64_t hash64_baseline(const void *data, size_t bytes, uint64_t seed);

/* All forms compiled in, widest first; the last one runs everywhere. */
const struct hash_variant *hash_variants(size_t *count_out);

/* Test seam: hash64 uses this one from now on, so that instructions can be counted and compared on
 * different machines. Before any other thread hashes. */
void hash_use(const struct hash_variant *variant);

#endif
