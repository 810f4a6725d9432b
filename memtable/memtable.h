/* The memtable: an index over what stands in the segment images. It holds no data of its own; an
 * extent points at a run of rows of one device inside one record of one image.
 *
 * Memory. Each image has an arena of its own beside it. At its head stands the segment's index, an
 * open-addressed table from a device to its newest extent there; behind it batch nodes and extents
 * grow, in room that the writer reserved together with its record. Nothing is unlinked or moved
 * while the segment lives; arena and index are cleared whole when it is recycled.
 *
 * Visibility. A batch's node has its LSN and a state. A reader takes V of the lane and sees exactly
 * the extents whose node's LSN is below V and whose state is not void. A node becomes void only
 * before V passes it, so what was once visible stays so. Link order means nothing.
 *
 * Threads  linking: any number of writers beside any number of readers, no locks, no waiting.
 *          attach and recycle of one segment: nobody else may look at it (the engine's pins).
 *          Registering a new device takes a lock of its own; looking one up does not. */
#ifndef RF_MEMTABLE_MEMTABLE_H
#define RF_MEMTABLE_MEMTABLE_H

#include "base/check.h"
#include "memtable/batch.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- devices: (table incarnation, key) -> dense number, for all lanes ---- */

struct devices;
RF_NODISCARD int devices_create(struct devices **devices_out);
void devices_destroy(struct devices *devices);
/* The number, or UINT32_MAX when it has none. Any thread; never blocks, never allocates. */
uint32_t devices_find(const struct devices *devices, uint64_t incarnation, const void *key,
                      uint32_t key_bytes);
/* Finds or registers. key_bytes up to BATCH_KEY_BYTES_MAX. -ENOMEM (nothing is registered then; also
 * when 2^30 devices are). Any thread; a lock only for a new device. */
RF_NODISCARD int devices_intern(struct devices *devices, uint64_t incarnation, const void *key,
                                uint32_t key_bytes, uint32_t *number_out);
/* The hash by which a device is looked up; of this process alone. For who needs it too: the same
 * look-up without another hash. */
uint32_t devices_hash(uint64_t incarnation, const void *key, uint32_t key_bytes);
RF_NODISCARD int devices_intern_hashed(struct devices *devices, uint32_t hash, uint64_t incarnation,
                                       const void *key, uint32_t key_bytes, uint32_t *number_out);
/* Of a number that find, intern or of_table gave; *key_out lives as long as devices. */
void devices_key(const struct devices *devices, uint32_t number, uint64_t *incarnation_out,
                 const void **key_out, uint32_t *key_bytes_out);
uint32_t devices_count(const struct devices *devices);
/* Every device of a table that exists now, ordered by batch_key_compare: *numbers_out is the
 * caller's to mem_free (never NULL on success). -ENOMEM. Any thread; takes no lock; time as the
 * table's own devices need it, whatever the others have. */
RF_NODISCARD int devices_of_table(const struct devices *devices, uint64_t incarnation,
                                  uint32_t **numbers_out, uint32_t *count_out);
/* Heap bytes beyond those of an empty one, without the blocks that keys are packed in: at most 64 a
 * device from a thousand devices on. */
uint64_t devices_bytes(const struct devices *devices);

/* ---- one segment ---- */

struct memtable_segment {
    uint8_t *image;     /* segment_bytes */
    uint64_t image_lsn; /* LSN of the image's first byte; W: attach */
    uint8_t *arena;
    uint32_t arena_bytes;
    uint32_t index_slots;     /* not a power of two: as many as the arena's extents need */
    _Atomic uint32_t deletes; /* newest entry of the list of deletes, 0: none. W: any writer, by
                                 compare-and-swap */
};

#define MEMTABLE_NODE_BYTES   16u
#define MEMTABLE_EXTENT_BYTES 40u

/* Bytes at the arena's head that the index takes, a multiple of 64: the first that a reservation may
 * hand out. 8 a slot, and so many slots that the extents that fit behind them fill at most two
 * thirds: the index is never full. About 23 % of the arena. */
uint32_t memtable_index_bytes(uint32_t arena_bytes);
/* Arena bytes that a batch with so many fragments needs (one node, its extents), a multiple of 64:
 * one cache line for one fragment. A delete counts as one fragment. 0 when it exceeds 2^32 - 64. */
uint32_t memtable_batch_bytes(uint32_t fragments);
/* Begins a life: clears the index (not the rest). arena: 64-aligned. */
void memtable_attach(struct memtable_segment *segment, uint8_t *image, uint64_t image_lsn,
                     uint8_t *arena, uint32_t arena_bytes);
/* The same for an arena of zeros, which is not touched: a fresh map costs nothing before its use. */
void memtable_attach_zeroed(struct memtable_segment *segment, uint8_t *image, uint64_t image_lsn,
                            uint8_t *arena, uint32_t arena_bytes);

enum memtable_state { MEMTABLE_LIVE = 0, MEMTABLE_VOID = 1 };

/* Makes the batch's node at arena offset `at`, a multiple of 64 from memtable_index_bytes() on,
 * where memtable_batch_bytes() are reserved; before its first link. lsn: the record's. */
void memtable_begin(struct memtable_segment *segment, uint32_t at, uint64_t lsn);
/* Links fragment `index` (each once, below the count reserved for) of the batch whose payload stands
 * at payload_off in the image: frame, times and values of the fragment's rows are written already,
 * since the extent is reachable from here on (readers skip it while it is at or above V).
 * device: from devices_intern. */
void memtable_link(struct memtable_segment *segment, uint32_t at, uint32_t index,
                   uint32_t payload_off, const struct batch_fragment *fragment, uint32_t device);
/* Links a delete record's payload, written already, as one entry of the segment's list of deletes. */
void memtable_link_delete(struct memtable_segment *segment, uint32_t at, uint32_t payload_off,
                          uint32_t payload_bytes);
/* Rollback, abort and fence: one store. After memtable_begin, before V passes the batch. */
void memtable_void(struct memtable_segment *segment, uint32_t at);
bool memtable_is_void(const struct memtable_segment *segment, uint32_t at);
/* For replay, whose batches stand one directly behind another by rising LSN, every fragment linked in
 * order: moves *at, where one of them stands, up to the first at or above lsn, or to end. True: it
 * is the one at lsn. */
bool memtable_seek(const struct memtable_segment *segment, uint32_t *at, uint32_t end,
                   uint64_t lsn);

/* ---- reading one device ---- */

/* A snapshot's segments of one lane, oldest first, and V (loaded with acquire, after the pin, from
 * the word that the decider stores with release). The caller keeps them pinned. */
struct memtable_snapshot {
    struct memtable_segment *const *segments;
    uint32_t segment_count;
    uint64_t visible; /* V */
};

/* A column as the reader wants it. */
struct memtable_want {
    uint32_t id;
    uint8_t type;
};

struct memtable_scan; /* rows of one device, merged; see memtable_scan_open */

struct memtable_query {
    uint32_t device;
    uint64_t incarnation;
    const void *key; /* for deletes */
    uint32_t key_bytes;
    const struct memtable_want *wants;
    uint32_t want_count;
    int64_t time_from, time_to; /* inclusive */
    bool descending;
    bool rows_without_cells; /* table model: a row exists by its time even when every cell is null
                                or deleted cell by cell; tree model: only with at least one cell,
                                wanted or not */
    const uint32_t *live;    /* without rows_without_cells: the columns whose cells let a row exist,
                             rising; NULL: all that it was written with. Lent until the scan is
                             closed */
    uint32_t live_count;
};

/* Opens a scan: gathers the device's visible extents and the deletes that touch it. Key and wants
 * are borrowed for this call. A want whose type is not the column's is null in every row; one asked
 * for twice is answered twice. A delete covers the cells, or whole rows, of lower LSN in its range.
 * -ENOMEM. Thread: any; one scan belongs to one thread at a time. Memory: at most twice 48 bytes an
 * extent of the device in range and as much a delete, 20 a want, 8 for each column of the widest
 * tablet; and for each extent that is open at once, about 100 bytes and 16 to 32 for each of its
 * columns that is wanted. */
RF_NODISCARD int memtable_scan_open(const struct memtable_snapshot *snapshot,
                                    const struct memtable_query *query,
                                    struct memtable_scan **scan_out);
void memtable_scan_close(struct memtable_scan *scan);

/* A cell: where it stands in an image; lent while the snapshot is pinned. */
struct memtable_cell {
    const uint8_t *data; /* NULL: null */
    uint32_t bytes;      /* 1, 4, 8, or the length */
};

/* The next rows, at most max_rows (at least 1), in order of time, no time twice: times and cells
 * (row-major: row * want_count + want). A call goes on exactly behind the row where the one before
 * ended. Returns the number of rows, 0 at the end, or -ENOMEM (no row is lost: call again, or close).
 * Each cell comes from the newest extent
 * (by LSN, inside a batch by row) where it is not null, unless a later delete covers it. */
RF_NODISCARD int64_t memtable_scan_next(struct memtable_scan *scan, int64_t *times,
                                        struct memtable_cell *cells, uint32_t max_rows);

/* ---- for trim, TTL and statistics ---- */

/* Largest time of any row in the segment that is not void, INT64_MIN when it has none; and the number
 * of extents, void ones included. Both walk the index. Any thread, while it is pinned; rows of
 * batches at or above V count as well. */
int64_t memtable_time_max(const struct memtable_segment *segment);
uint32_t memtable_extents(const struct memtable_segment *segment);

#endif
