/* XXH3 for AVX-512: compiled with that instruction set, called only on a CPU that has it. */
#include "base/hash_impl.h"

#if defined(__x86_64__)
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash64_avx512(const void *data, size_t bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, bytes, seed);
}
#endif
