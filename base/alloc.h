/* The one way to memory. malloc underneath: jemalloc when the host links it.
 *
 * Every call may return NULL (out of memory); a test makes the k-th call fail with
 * alloc_fail_at(k). Bytes in use are counted, as the allocator rounds them. A request for 0 bytes
 * yields memory of its own, as one for 1 byte does.
 * Thread: any. */
#ifndef RF_BASE_ALLOC_H
#define RF_BASE_ALLOC_H

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

RF_NODISCARD void *mem_alloc(size_t bytes);
RF_NODISCARD void *mem_zalloc(size_t bytes);
/* count * bytes with the overflow checked (NULL then). */
RF_NODISCARD void *mem_zalloc_array(size_t count, size_t bytes);
/* align: a power of two, at least 16; contents undefined. */
RF_NODISCARD void *mem_alloc_aligned(size_t align, size_t bytes);
/* As realloc: p may be NULL; on failure p stays valid. */
RF_NODISCARD void *mem_realloc(void *p, size_t bytes);
/* The first bytes of s, or up to its NUL if that comes before, and a NUL. */
RF_NODISCARD char *mem_strndup(const char *s, size_t bytes);
/* Of memory from any call above; NULL is allowed. */
void mem_free(void *p);
/* What such memory takes, as the allocator rounds it; 0 for NULL. */
size_t mem_usable_bytes(const void *p);

/* Page-aligned memory for segment images: mmap, huge-page advised, MADV_DONTFORK, zero-filled,
 * not touched. From 2 MiB on the address is a multiple of 2 MiB, so that huge pages fit. NULL when
 * the system has none. bytes > 0. Counted apart, in whole pages. */
RF_NODISCARD void *mem_map(size_t bytes);
/* Gives every page of [p, p + bytes), inside such a map, its memory now, so that no later store waits
 * for it. Changes no byte: others may read and write there meanwhile. p is page-aligned. */
void mem_touch(void *p, size_t bytes);
/* bytes as given to mem_map; p may be NULL. */
void mem_unmap(void *p, size_t bytes);

/* Test seam and accounting. alloc_fail_at: the k-th call from now (1 = next) returns NULL, once;
 * 0 ends it. alloc_calls counts calls since the process began. */
void alloc_fail_at(uint64_t k);
uint64_t alloc_calls(void);
int64_t alloc_bytes_in_use(void);
int64_t alloc_mapped_bytes(void);

#endif
