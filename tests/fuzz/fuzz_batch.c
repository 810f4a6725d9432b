/* Bytes as the payload of a data record and of a delete record: refused, or readable to the last
 * byte; and what is let through can be linked and scanned. */
#include "base/check.h"
#include "memtable/batch.h"
#include "memtable/memtable.h"
#include "tests/lib/read_batch.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { ARENA_BYTES = 16 << 10, WANTS_MAX = 8 };
static _Alignas(64) uint8_t arena[ARENA_BYTES];
static volatile uint8_t sink; /* what was read goes here, so that it is read */

/* As replay does, with the payload's own device indices as numbers. False when there is no room. */
static bool link_batch(struct memtable_segment *segment, const struct batch_view *view)
{
    uint32_t at = memtable_index_bytes(ARENA_BYTES);
    uint32_t room = memtable_batch_bytes(view->fragment_count);
    if (room == 0 || room > ARENA_BYTES - at) return false;
    memtable_begin(segment, at, 1);
    for (uint32_t f = 0; f < view->fragment_count; f++) {
        struct batch_fragment fragment;
        batch_read_fragment(view, f, &fragment);
        memtable_link(segment, at, f, 0, &fragment, fragment.device);
    }
    return true;
}

/* The first columns of the first tablet. */
static uint32_t some_wants(const struct batch_view *view, struct memtable_want *wants)
{
    struct batch_group group;
    struct batch_column column;
    batch_read_group(view, 0, &group);
    uint32_t count = group.column_count < WANTS_MAX ? group.column_count : WANTS_MAX;
    for (uint32_t c = 0; c < count; c++) {
        batch_read_column(view, &group, c, &column);
        wants[c] = (struct memtable_want){column.id, column.type};
    }
    return count;
}

static uint64_t scan_device(const struct memtable_snapshot *snapshot,
                            const struct memtable_query *query)
{
    struct memtable_scan *scan;
    struct memtable_cell cells[4 * WANTS_MAX];
    int64_t times[4], count, before = 0;
    uint64_t rows = 0;
    if (memtable_scan_open(snapshot, query, &scan) != 0) return 0;
    while ((count = memtable_scan_next(scan, times, cells, 4)) > 0) {
        for (int64_t i = 0; i < count; i++, rows++) {
            CHECK(rows == 0 || (query->descending ? times[i] < before : times[i] > before));
            before = times[i];
        }
        for (int64_t i = 0; i < count * query->want_count; i++)
            for (uint32_t b = 0; b < cells[i].bytes; b++)
                sink = (uint8_t)(sink ^ cells[i].data[b]);
    }
    memtable_scan_close(scan);
    return rows;
}

static void scan_all(const uint8_t *payload, uint32_t bytes)
{
    struct batch_view view;
    struct memtable_segment segment = {0};
    struct memtable_segment *const segments[] = {&segment};
    struct memtable_snapshot snapshot = {segments, 1, UINT64_MAX};
    struct memtable_want wants[WANTS_MAX];
    batch_open(&view, payload, bytes);
    memtable_attach(&segment, (uint8_t *)(uintptr_t)payload, 0, arena, ARENA_BYTES);
    if (!link_batch(&segment, &view)) return;
    struct memtable_query query = {.wants = wants,
                                   .want_count = some_wants(&view, wants),
                                   .time_from = INT64_MIN,
                                   .time_to = INT64_MAX};
    for (uint32_t d = 0; d < view.device_count && d < 64; d++) {
        query.device = d;
        query.rows_without_cells = d % 2 == 0;
        query.descending = false;
        uint64_t up = scan_device(&snapshot, &query);
        query.descending = true;
        CHECK(scan_device(&snapshot, &query) == up);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct err_msg msg = {0};
    struct batch_delete delete_;
    if (bytes > BATCH_BYTES_MAX) return 0;
    uint8_t *payload = malloc(bytes != 0 ? bytes : 1); /* aligned, and ends where its bytes end */
    if (payload == NULL) return 0;
    if (bytes != 0) memcpy(payload, data, bytes);
    if (batch_check(payload, (uint32_t)bytes, &msg) == 0) {
        (void)read_whole_batch(payload, (uint32_t)bytes);
        scan_all(payload, (uint32_t)bytes);
    }
    if (batch_decode_delete(payload, (uint32_t)bytes, &delete_, NULL) == 0)
        (void)read_whole_delete(payload);
    free(payload);
    return 0;
}
