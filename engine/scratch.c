#include "engine/scratch.h"

#include "base/alloc.h"

#include <string.h>

/* What a pool keeps: enough for the writers that run at once, and blocks up to this size. */
#define POOL_MAX        64u
#define BLOCK_BYTES_MAX (16u << 20)

size_t scratch_block_bytes = 256u << 10;

struct overflow {
    struct overflow *next;
    max_align_t data[];
};

struct scratch {
    struct scratch *next;
    uint8_t *block;
    size_t block_bytes;
    size_t used;
    size_t wanted; /* used, and what went to overflow */
    struct overflow *overflow;
};

void scratch_pool_init(struct scratch_pool *pool)
{
    *pool = (struct scratch_pool){.free = NULL};
}

static void destroy(struct scratch *s)
{
    mem_free(s->block);
    mem_free(s);
}

void scratch_pool_deinit(struct scratch_pool *pool)
{
    while (pool->free != NULL) {
        struct scratch *s = pool->free;
        pool->free = s->next;
        destroy(s);
    }
}

struct scratch *scratch_acquire(struct scratch_pool *pool)
{
    spin_acquire(&pool->lock);
    struct scratch *s = pool->free;
    if (s != NULL) {
        pool->free = s->next;
        pool->free_count--;
    }
    spin_release(&pool->lock);
    if (s != NULL) return s;
    s = mem_zalloc(sizeof *s);
    if (s == NULL) return NULL;
    s->block = mem_alloc_aligned(64, scratch_block_bytes);
    if (s->block == NULL) {
        mem_free(s);
        return NULL;
    }
    s->block_bytes = scratch_block_bytes;
    return s;
}

void scratch_release(struct scratch_pool *pool, struct scratch *s)
{
    scratch_reset(s);
    spin_acquire(&pool->lock);
    bool keep = pool->free_count < POOL_MAX;
    if (keep) {
        s->next = pool->free;
        pool->free = s;
        pool->free_count++;
    }
    spin_release(&pool->lock);
    if (!keep) destroy(s);
}

void *scratch_alloc(struct scratch *s, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    s->wanted += bytes;
    if (s->used + bytes <= s->block_bytes) {
        void *p = s->block + s->used;
        s->used += bytes;
        return p;
    }
    struct overflow *o = mem_alloc(sizeof *o + bytes);
    if (o == NULL) return NULL;
    o->next = s->overflow;
    s->overflow = o;
    return o->data;
}

void *scratch_array(struct scratch *s, size_t count, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    return scratch_alloc(s, all);
}

void *scratch_grow(struct scratch *s, void *items, uint32_t count, uint32_t *room, size_t bytes)
{
    if (count < *room) return items;
    uint32_t more = *room == 0 ? 64 : 2 * *room;
    void *all = scratch_array(s, more, bytes);
    if (all == NULL) return NULL;
    if (count > 0) memcpy(all, items, count * bytes);
    *room = more;
    return all;
}

void scratch_reset(struct scratch *s)
{
    bool grow = s->overflow != NULL && s->wanted <= BLOCK_BYTES_MAX;
    while (s->overflow != NULL) {
        struct overflow *o = s->overflow;
        s->overflow = o->next;
        mem_free(o);
    }
    if (grow) {
        size_t bytes = s->block_bytes;
        while (bytes < s->wanted)
            bytes *= 2;
        uint8_t *block = mem_alloc_aligned(64, bytes);
        if (block != NULL) { /* without it the old block goes on */
            mem_free(s->block);
            s->block = block;
            s->block_bytes = bytes;
        }
    }
    s->used = s->wanted = 0;
}
