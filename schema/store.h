/* Inside of schema: memory that never moves, and tables of numbers over it. One writer, any number
 * of readers.
 *
 * A reader may see a number (in a slot, in a list) and then the entry behind it. Pair S1: the
 * writer fills entry, chunk and directory before it stores the number with release; the reader
 * loads the number with acquire. Relaxed, a reader on arm64 could follow a number into an entry
 * that is still zero.
 * Pair S2: a table or directory is copied aside and published by a release store; the acquire load
 * of it sees the copy whole. A reader that still holds the older one finds there everything that
 * was published before it took its view. */
#ifndef RF_SCHEMA_STORE_H
#define RF_SCHEMA_STORE_H

#include "base/check.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counts every byte, as the allocator rounds it, and holds the text of names and keys. */
struct store {
    _Atomic uint64_t bytes; /* W: plane. R: any, relaxed: a figure */
    struct store_text *text;
    size_t text_used;
};

RF_NODISCARD void *store_alloc(struct store *store, size_t bytes); /* zeroed, or NULL */
void store_free(struct store *store, void *p);
/* Memory for text that stays until store_deinit; NULL: none. */
RF_NODISCARD char *store_text(struct store *store, size_t bytes);
void store_deinit(struct store *store);

/* ---- entries by number, in chunks of 64 ---- */

#define CHUNK_BITS    6
#define CHUNK_ENTRIES (1u << CHUNK_BITS)

struct chunk_directory {
    struct chunk_directory *older;
    size_t capacity;
    void *_Atomic chunk[];
};
struct chunks {
    size_t entry_bytes;
    struct chunk_directory *_Atomic directory;
};

/* Makes the place of entry `number`; 0 or -ENOMEM. */
RF_NODISCARD int chunks_make(struct store *store, struct chunks *c, uint32_t number);
void chunks_deinit(struct store *store, struct chunks *c);

/* The entry, all zero if nobody filled it, or NULL when its chunk was never made. */
static inline void *chunks_get(const struct chunks *c, uint32_t number)
{
    const struct chunk_directory *d = atomic_load_explicit(&c->directory, memory_order_acquire);
    size_t at = number >> CHUNK_BITS;
    if (d == NULL || at >= d->capacity) return NULL;
    char *chunk = atomic_load_explicit(&d->chunk[at], memory_order_acquire); /* S2 */
    if (chunk == NULL) return NULL;
    return chunk + (number & (CHUNK_ENTRIES - 1)) * c->entry_bytes;
}

/* ---- numbers by hash ---- */

struct slot_table {
    struct slot_table *older;
    uint64_t mask;
    _Atomic uint32_t *cell; /* apart from this head, so that it is a power of two large */
};
struct slots {
    struct slot_table *_Atomic table;
    uint64_t used; /* W, R: plane */
};

/* Room for `more` numbers. hash_of gives the hash of one that is already in. 0 or -ENOMEM. */
RF_NODISCARD int slots_reserve(struct store *store, struct slots *s, uint64_t more,
                               uint64_t (*hash_of)(const void *ctx, uint32_t number),
                               const void *ctx);
/* number: not 0; room was reserved. */
void slots_put(struct slots *s, uint64_t hash, uint32_t number);
void slots_deinit(struct store *store, struct slots *s);

/* A walk over the numbers whose hash may be the one asked for:
 *     struct probe p = probe_begin(s, hash);
 *     for (uint32_t number; (number = probe_next(&p)) != 0;) ... */
struct probe {
    const struct slot_table *table;
    uint64_t at;
};
static inline struct probe probe_begin(const struct slots *s, uint64_t hash)
{
    return (struct probe){atomic_load_explicit(&s->table, memory_order_acquire), hash}; /* S2 */
}
static inline uint32_t probe_next(struct probe *p)
{
    if (p->table == NULL) return 0;
    return atomic_load_explicit(&p->table->cell[p->at++ & p->table->mask],
                                memory_order_acquire); /* S1 */
}

#endif
