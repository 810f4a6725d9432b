#include "tests/lib/memtable_store.h"

#include "base/alloc.h"
#include "base/check.h"

#include <string.h>

void store_next(struct store *store)
{
    CHECK(store->segment_count < STORE_SEGMENTS_MAX);
    struct memtable_segment *segment = mem_zalloc(sizeof *segment);
    uint8_t *image = mem_map(store->image_bytes);
    uint8_t *arena = mem_map(store->arena_bytes);
    CHECK(segment != NULL && image != NULL && arena != NULL);
    memset(arena, 0x5a, store->arena_bytes);
    memtable_attach(segment, image, ((uint64_t)store->segment_count + 1) * store->image_bytes,
                    arena, store->arena_bytes);
    store->segments[store->segment_count++] = segment;
    store->image_used = 4096;
    store->arena_used = memtable_index_bytes(store->arena_bytes);
}

void store_init(struct store *store, uint32_t image_bytes, uint32_t arena_bytes)
{
    *store = (struct store){.image_bytes = image_bytes, .arena_bytes = arena_bytes};
    CHECK(devices_create(&store->devices) == 0);
    store_next(store);
}

void store_deinit(struct store *store)
{
    for (uint32_t s = 0; s < store->segment_count; s++) {
        mem_unmap(store->segments[s]->image, store->image_bytes);
        mem_unmap(store->segments[s]->arena, store->arena_bytes);
        mem_free(store->segments[s]);
    }
    devices_destroy(store->devices);
}

struct store_place store_reserve(struct store *store, uint32_t bytes, uint32_t fragments)
{
    uint32_t record = (64 + bytes + 63) & ~63u;
    if (store->image_used + record > store->image_bytes ||
        store->arena_used + memtable_batch_bytes(fragments) > store->arena_bytes)
        store_next(store);
    struct store_place place = {
        .segment = store->segments[store->segment_count - 1],
        .at = store->arena_used,
        .payload_off = store->image_used + 64,
    };
    place.lsn = place.segment->image_lsn + store->image_used;
    store->image_used += record;
    store->arena_used += memtable_batch_bytes(fragments);
    CHECK(store->image_used <= store->image_bytes && store->arena_used <= store->arena_bytes);
    memtable_begin(place.segment, place.at, place.lsn);
    store->visible = place.segment->image_lsn + store->image_used;
    return place;
}

void store_link(struct store *store, const struct store_place *place, uint32_t bytes)
{
    struct batch_view view;
    batch_open(&view, place->segment->image + place->payload_off, bytes);
    for (uint32_t f = 0; f < view.fragment_count; f++) {
        struct batch_fragment fragment;
        struct batch_group group;
        uint32_t number, group_index, key_bytes;
        const void *key;
        batch_read_fragment(&view, f, &fragment);
        batch_read_group(&view, fragment.group, &group);
        batch_read_device(&view, fragment.device, &group_index, &key, &key_bytes);
        CHECK(devices_intern(store->devices, group.incarnation, key, key_bytes, &number) == 0);
        memtable_link(place->segment, place->at, f, place->payload_off, &fragment, number);
    }
}

struct store_place store_batch(struct store *store, const uint8_t *payload, uint32_t bytes)
{
    struct batch_view view;
    batch_open(&view, payload, bytes);
    struct store_place place = store_reserve(store, bytes, view.fragment_count);
    memcpy(place.segment->image + place.payload_off, payload, bytes);
    store_link(store, &place, bytes);
    return place;
}

struct store_place store_delete(struct store *store, const struct batch_delete *delete_,
                                const struct batch_key *keys)
{
    uint32_t bytes = (uint32_t)batch_delete_bytes(delete_, keys);
    struct store_place place = store_reserve(store, bytes, 1);
    batch_encode_delete(place.segment->image + place.payload_off, delete_, keys);
    memtable_link_delete(place.segment, place.at, place.payload_off, bytes);
    return place;
}

struct memtable_snapshot store_snapshot(const struct store *store)
{
    return (struct memtable_snapshot){.segments = store->segments,
                                      .segment_count = store->segment_count,
                                      .visible = store->visible};
}
