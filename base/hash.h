/* The hash of every checksum and table: XXH3-64 with a seed, in the widest form that the CPU has.
 */
#ifndef RF_BASE_HASH_H
#define RF_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Equal bytes and seed give equal values on every machine. data may be NULL when bytes is 0.
 * Thread: any; never allocates. */
uint64_t hash64(const void *data, size_t bytes, uint64_t seed);

/* "avx512", "avx2", "sse2" or "portable": the form that hash64 uses here. */
const char *hash_form(void);

#endif
