/* Scratch memory of one write or scan: a bump allocator whose memory is kept and reused, so that a
 * batch of a size seen before allocates nothing.
 *
 * Thread: a pool any; a scratch one at a time. */
#ifndef RF_ENGINE_SCRATCH_H
#define RF_ENGINE_SCRATCH_H

#include "base/check.h"
#include "base/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scratch;

struct scratch_pool {
    struct spin lock;
    struct scratch *free;
    uint32_t free_count;
};

/* Of a fresh block. A test that wants each piece to be an allocation of its own makes it 16. */
extern size_t scratch_block_bytes;

void scratch_pool_init(struct scratch_pool *pool);
void scratch_pool_deinit(struct scratch_pool *pool);

/* NULL when memory is out. */
RF_NODISCARD struct scratch *scratch_acquire(struct scratch_pool *pool);
void scratch_release(struct scratch_pool *pool, struct scratch *scratch);

/* 16-aligned, contents undefined, until reset or release. NULL when memory is out. */
RF_NODISCARD void *scratch_alloc(struct scratch *scratch, size_t bytes);
/* count * bytes, the overflow checked. */
RF_NODISCARD void *scratch_array(struct scratch *scratch, size_t count, size_t bytes);
/* Room for one more behind `count` items of `bytes` each: items itself, or a copy in twice the room.
 * NULL when memory is out. */
RF_NODISCARD void *scratch_grow(struct scratch *scratch, void *items, uint32_t count,
                                uint32_t *room, size_t bytes);
/* Gives everything back; what was allocated beyond the block makes the block larger. */
void scratch_reset(struct scratch *scratch);

#endif
