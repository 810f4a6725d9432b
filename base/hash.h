/* The hash of every checksum and table: XXH3-64 with a seed, in the widest form that the CPU has.
 */
#ifndef RF_BASE_HASH_H
#define RF_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Equal bytes and seed give equal values on every machine. data may be NULL when bytes is 0.
 * Thread: any; never allocates. */
uint64_t hash64(const void *data, size_t bytes, uint64_t seed);

/* Of tables in memory: as hash64, but under a key that this process drew by chance, so that nobody
 * can choose names that all fall into one place. A value means nothing to another process: never
 * store it. Thread: any; never allocates. */
uint64_t hash_keyed(const void *data, size_t bytes, uint64_t seed);

/* "avx512", "avx2", "sse2" or "portable": the form that hash64 uses here. */
const char *hash_form(void);

#endif
