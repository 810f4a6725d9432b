/* Inside of the memtable: what stands in a segment's arena.
 *
 *   0                  index      index_slots of 8 bytes: device << 32 | offset of newest extent
 *   memtable_index_bytes()        batches, each at a multiple of 64, where its writer reserved
 *     at               node
 *     at + 16 + 40 * i extent i, or the one deletion of a delete record
 *
 * Offsets count from the arena's first byte; 0 is the index and so never an extent: it ends chains
 * and marks an empty slot. Nothing here is ever on disk. */
#ifndef RF_MEMTABLE_MEMTABLE_IMPL_H
#define RF_MEMTABLE_MEMTABLE_IMPL_H

#include "memtable/memtable.h"

struct memtable_node {
    uint64_t lsn;
    _Atomic uint32_t state; /* enum memtable_state. W: its writer, the lane. R: any */
    uint32_t links;         /* extents, or the deletion. W: its writer. R: memtable_seek alone */
};

/* Of two extents of one batch the one at the higher offset is newer. */
struct memtable_extent {
    uint32_t next; /* of the same device, linked before this one */
    uint32_t node;
    uint32_t payload_off; /* in the image */
    uint32_t group;
    uint32_t row_first;
    uint32_t rows;
    int64_t time_min;
    int64_t time_max;
};

struct memtable_deletion {
    uint32_t next; /* of the segment, linked before this one */
    uint32_t node;
    uint32_t payload_off;
    uint32_t payload_bytes;
    uint64_t incarnation;
    int64_t time_from;
    int64_t time_to;
};

_Static_assert(sizeof(struct memtable_node) == MEMTABLE_NODE_BYTES, "node");
_Static_assert(sizeof(struct memtable_extent) == MEMTABLE_EXTENT_BYTES, "extent");
_Static_assert(sizeof(struct memtable_deletion) <= MEMTABLE_EXTENT_BYTES,
               "a delete's entry fits where an extent does");
_Static_assert(MEMTABLE_NODE_BYTES <= 32 && MEMTABLE_EXTENT_BYTES <= 96, "promised sizes");
_Static_assert(MEMTABLE_NODE_BYTES + MEMTABLE_EXTENT_BYTES <= RF_CACHE_LINE,
               "a batch of one fragment is one cache line");

static inline struct memtable_node *node_at(const struct memtable_segment *segment, uint32_t at)
{
    return (struct memtable_node *)(void *)(segment->arena + at);
}
static inline struct memtable_extent *extent_at(const struct memtable_segment *segment, uint32_t at)
{
    return (struct memtable_extent *)(void *)(segment->arena + at);
}
static inline struct memtable_deletion *deletion_at(const struct memtable_segment *segment,
                                                    uint32_t at)
{
    return (struct memtable_deletion *)(void *)(segment->arena + at);
}

/* The node's lsn is plain: written before the link whose release the reader acquired. */
static inline bool node_is_visible(const struct memtable_node *node, uint64_t visible)
{
    /* Relaxed: a node below V became void, if ever, before V passed it; the reader loaded V with
     * acquire and so sees that store. At or above V the state does not matter. */
    return node->lsn < visible &&
           atomic_load_explicit(&node->state, memory_order_relaxed) == MEMTABLE_LIVE;
}

/* Offset of the device's newest extent, 0: none here. */
uint32_t memtable_newest(const struct memtable_segment *segment, uint32_t device);
/* Offset of the segment's newest deletion, 0: none. */
uint32_t memtable_newest_delete(const struct memtable_segment *segment);

#endif
