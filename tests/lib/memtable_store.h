/* A lane's worth of segments for tests of the memtable: batches and deletes are appended one after
 * the other, as a writer or replay would link them. */
#ifndef RF_TESTS_MEMTABLE_STORE_H
#define RF_TESTS_MEMTABLE_STORE_H

#include "memtable/memtable.h"

#include <stdint.h>

#define STORE_SEGMENTS_MAX 64u

struct store {
    uint32_t image_bytes, arena_bytes;
    struct memtable_segment *segments[STORE_SEGMENTS_MAX];
    uint32_t segment_count;
    uint32_t image_used, arena_used; /* of the newest */
    uint64_t visible;                /* behind all that was appended */
    struct devices *devices;
};
/* Where a batch stands. */
struct store_place {
    struct memtable_segment *segment;
    uint32_t at;
    uint32_t payload_off;
    uint64_t lsn;
};

void store_init(struct store *store, uint32_t image_bytes, uint32_t arena_bytes);
void store_deinit(struct store *store);
/* Goes on in a new segment, whose arena is full of an older life's bytes. */
void store_next(struct store *store);
/* Image and arena room for a record, with its node. */
struct store_place store_reserve(struct store *store, uint32_t bytes, uint32_t fragments);
/* Appends a batch; its devices are interned by the keys in the payload. */
struct store_place store_batch(struct store *store, const uint8_t *payload, uint32_t bytes);
/* Links every fragment of the batch that stands at the place. */
void store_link(struct store *store, const struct store_place *place, uint32_t bytes);
struct store_place store_delete(struct store *store, const struct batch_delete *delete_,
                                const struct batch_key *keys);
/* All that is visible now. */
struct memtable_snapshot store_snapshot(const struct store *store);

#endif
