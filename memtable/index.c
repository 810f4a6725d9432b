/* A segment's index: from a device to its chain of extents; and the segment's chain of deletes.
 *
 * A slot is claimed and a chain is grown by one compare-and-swap on one word, the device's number
 * and the newest extent's offset side by side. A slot never changes its device while the segment
 * lives, so whoever looks for a device stops at the first empty slot behind its home.
 *
 * What orders a writer's stores before a reader's loads (pair L):
 *   the writer fills payload, node and extent, then its compare-and-swap releases;
 *   the reader loads the slot with acquire and follows `next` by plain loads.
 * Every change of a slot is a compare-and-swap, a read-modify-write, so all of them belong to the
 * release sequences of all earlier ones: a reader that sees the newest link also sees what every
 * earlier link released, whoever made it. With relaxed in place of either side, a reader on arm64
 * could follow an offset into bytes of the arena's last life.
 *
 * That no visible extent is missed is not the index's doing: a batch is linked before its record is
 * published, published (release) before the decider looks (acquire), decided before V moves
 * (release), and V is what the reader loaded first (acquire). */
#include "base/check.h"
#include "memtable/memtable_impl.h"

#include <string.h>

#define BATCH_ALIGN 64u

typedef _Atomic uint64_t slot_word;

static slot_word *slots_of(const struct memtable_segment *segment)
{
    return (slot_word *)(void *)segment->arena;
}

/* Slots s with 8 s bytes before extents of 40 that fill two thirds of them at most:
 * (bytes - 8 s) / 40 <= 2 s / 3, so s >= 3 bytes / 104. */
uint32_t memtable_index_bytes(uint32_t arena_bytes)
{
    uint64_t slots = (3u * (uint64_t)arena_bytes + 103u) / 104u;
    uint64_t bytes = slots * sizeof(slot_word);
    return (uint32_t)((bytes + BATCH_ALIGN - 1) & ~(uint64_t)(BATCH_ALIGN - 1));
}

uint32_t memtable_batch_bytes(uint32_t fragments)
{
    uint64_t bytes = MEMTABLE_NODE_BYTES + (uint64_t)fragments * MEMTABLE_EXTENT_BYTES;
    bytes = (bytes + BATCH_ALIGN - 1) & ~(uint64_t)(BATCH_ALIGN - 1);
    return bytes > UINT32_MAX ? 0 : (uint32_t)bytes;
}

void memtable_attach_zeroed(struct memtable_segment *segment, uint8_t *image, uint64_t image_lsn,
                            uint8_t *arena, uint32_t arena_bytes)
{
    CHECK((uintptr_t)arena % BATCH_ALIGN == 0);
    uint32_t index_bytes = memtable_index_bytes(arena_bytes);
    CHECK(index_bytes < arena_bytes);
    segment->image = image;
    segment->image_lsn = image_lsn;
    segment->arena = arena;
    segment->arena_bytes = arena_bytes;
    segment->index_slots = index_bytes / (uint32_t)sizeof(slot_word);
    /* Relaxed: nobody else looks before the caller publishes the segment. */
    atomic_store_explicit(&segment->deletes, 0, memory_order_relaxed);
}

void memtable_attach(struct memtable_segment *segment, uint8_t *image, uint64_t image_lsn,
                     uint8_t *arena, uint32_t arena_bytes)
{
    memtable_attach_zeroed(segment, image, image_lsn, arena, arena_bytes);
    memset(arena, 0, memtable_index_bytes(arena_bytes)); /* plain, for the same reason */
}

void memtable_begin(struct memtable_segment *segment, uint32_t at, uint64_t lsn)
{
    CHECK(at % BATCH_ALIGN == 0 && at >= segment->index_slots * sizeof(slot_word) &&
          (uint64_t)at + BATCH_ALIGN <= segment->arena_bytes);
    struct memtable_node *node = node_at(segment, at);
    node->lsn = lsn;
    node->links = 0;
    /* Relaxed: reachable only by the links to come, which release it. */
    atomic_store_explicit(&node->state, MEMTABLE_LIVE, memory_order_relaxed);
}

/* Where the search for a device starts. Numbers are dense; the factor spreads them, and the second
 * product maps 32 bits onto any number of slots. */
static uint32_t home_slot(const struct memtable_segment *segment, uint32_t device)
{
    uint32_t spread = device * 0x9e3779b1u;
    return (uint32_t)(((uint64_t)spread * segment->index_slots) >> 32);
}

static uint32_t slot_behind(const struct memtable_segment *segment, uint32_t slot)
{
    return slot + 1 == segment->index_slots ? 0 : slot + 1;
}

/* The 40 bytes of link `index` of the batch at `at`. */
static uint32_t entry_off(const struct memtable_segment *segment, uint32_t at, uint32_t index)
{
    uint64_t off = at + MEMTABLE_NODE_BYTES + (uint64_t)index * MEMTABLE_EXTENT_BYTES;
    CHECK(off + MEMTABLE_EXTENT_BYTES <= segment->arena_bytes);
    return (uint32_t)off;
}

static void push_extent(struct memtable_segment *segment, uint32_t device, uint32_t off)
{
    struct memtable_extent *extent = extent_at(segment, off);
    slot_word *slots = slots_of(segment);
    uint32_t slot = home_slot(segment, device);
    uint32_t looked_at = 0;
    uint64_t word = ((uint64_t)device << 32) | off;
    /* Relaxed: the older extent is not looked into here. */
    uint64_t seen = atomic_load_explicit(&slots[slot], memory_order_relaxed);
    for (;;) {
        if (seen != 0 && (uint32_t)(seen >> 32) != device) {
            CHECK(++looked_at < segment->index_slots);
            slot = slot_behind(segment, slot);
            seen = atomic_load_explicit(&slots[slot], memory_order_relaxed);
            continue;
        }
        extent->next = (uint32_t)seen;
        /* Pair L, release side. On failure `seen` is the slot's new word, perhaps by now another
         * device's. */
        if (atomic_compare_exchange_weak_explicit(&slots[slot], &seen, word, memory_order_release,
                                                  memory_order_relaxed))
            return;
    }
}

void memtable_link(struct memtable_segment *segment, uint32_t at, uint32_t index,
                   uint32_t payload_off, const struct batch_fragment *fragment, uint32_t device)
{
    uint32_t off = entry_off(segment, at, index);
    *extent_at(segment, off) = (struct memtable_extent){
        .node = at,
        .payload_off = payload_off,
        .group = fragment->group,
        .row_first = fragment->row_first,
        .rows = fragment->rows,
        .time_min = fragment->time_min,
        .time_max = fragment->time_max,
    };
    node_at(segment, at)->links = index + 1;
    push_extent(segment, device, off);
}

void memtable_link_delete(struct memtable_segment *segment, uint32_t at, uint32_t payload_off,
                          uint32_t payload_bytes)
{
    uint32_t off = entry_off(segment, at, 0);
    node_at(segment, at)->links = 1;
    struct memtable_deletion *deletion = deletion_at(segment, off);
    struct batch_delete delete_;
    batch_open_delete(segment->image + payload_off, &delete_);
    *deletion = (struct memtable_deletion){
        .node = at,
        .payload_off = payload_off,
        .payload_bytes = payload_bytes,
        .incarnation = delete_.incarnation,
        .time_from = delete_.time_from,
        .time_to = delete_.time_to,
    };
    uint32_t seen = atomic_load_explicit(&segment->deletes, memory_order_relaxed);
    do {
        deletion->next = seen;
        /* Pair L, as for extents; the acquire is in memtable_newest_delete(). */
    } while (!atomic_compare_exchange_weak_explicit(&segment->deletes, &seen, off,
                                                    memory_order_release, memory_order_relaxed));
}

void memtable_void(struct memtable_segment *segment, uint32_t at)
{
    /* Relaxed: see node_is_visible(). The writer voids before it publishes, the lane before it
     * moves V; both of those release. */
    atomic_store_explicit(&node_at(segment, at)->state, MEMTABLE_VOID, memory_order_relaxed);
}

bool memtable_is_void(const struct memtable_segment *segment, uint32_t at)
{
    /* Relaxed: the decider acquired the publish that the writer's store came before. */
    return atomic_load_explicit(&node_at(segment, at)->state, memory_order_relaxed) ==
           MEMTABLE_VOID;
}

bool memtable_seek(const struct memtable_segment *segment, uint32_t *at, uint32_t end, uint64_t lsn)
{
    while (*at < end && node_at(segment, *at)->lsn < lsn)
        *at += memtable_batch_bytes(node_at(segment, *at)->links);
    return *at < end && node_at(segment, *at)->lsn == lsn;
}

uint32_t memtable_newest(const struct memtable_segment *segment, uint32_t device)
{
    slot_word *slots = slots_of(segment);
    uint32_t slot = home_slot(segment, device);
    for (uint32_t looked_at = 0; looked_at < segment->index_slots; looked_at++) {
        /* Pair L, acquire side. */
        uint64_t word = atomic_load_explicit(&slots[slot], memory_order_acquire);
        if (word == 0) return 0;
        if ((uint32_t)(word >> 32) == device) return (uint32_t)word;
        slot = slot_behind(segment, slot);
    }
    return 0;
}

uint32_t memtable_newest_delete(const struct memtable_segment *segment)
{
    return atomic_load_explicit(&segment->deletes, memory_order_acquire); /* pair L */
}

int64_t memtable_time_max(const struct memtable_segment *segment)
{
    int64_t time_max = INT64_MIN;
    for (uint32_t slot = 0; slot < segment->index_slots; slot++) {
        uint64_t word = atomic_load_explicit(&slots_of(segment)[slot], memory_order_acquire);
        for (uint32_t off = (uint32_t)word; off != 0; off = extent_at(segment, off)->next) {
            const struct memtable_extent *extent = extent_at(segment, off);
            if (extent->time_max > time_max && !memtable_is_void(segment, extent->node))
                time_max = extent->time_max;
        }
    }
    return time_max;
}

uint32_t memtable_extents(const struct memtable_segment *segment)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < segment->index_slots; slot++) {
        uint64_t word = atomic_load_explicit(&slots_of(segment)[slot], memory_order_acquire);
        for (uint32_t off = (uint32_t)word; off != 0; off = extent_at(segment, off)->next)
            count++;
    }
    return count;
}
