/* XXH3 for the least that the target has. */
#include "base/hash_impl.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash64_baseline(const void *data, size_t bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, bytes, seed);
}
