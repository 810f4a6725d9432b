/* Opening a scan: which extents and which deletes of a snapshot concern one device and one range of
 * time. Payloads are not looked into, but for the deletes of the device's table. */
#include "base/alloc.h"
#include "memtable/scan_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for one more of `width` bytes behind count. */
static int make_room(void **items, uint32_t count, uint32_t *room, size_t width)
{
    if (count < *room) return 0;
    if (count >= UINT32_MAX / 2) return -ENOMEM;
    uint32_t larger = count < 16 ? 16 : 2 * count;
    void *moved = mem_realloc(*items, larger * width);
    if (moved == NULL) return -ENOMEM;
    *items = moved;
    *room = larger;
    return 0;
}

static int add_run(struct memtable_scan *scan, const struct memtable_segment *segment, uint32_t off)
{
    const struct memtable_extent *extent = extent_at(segment, off);
    void *runs = scan->runs;
    int rc = make_room(&runs, scan->run_count, &scan->run_room, sizeof *scan->runs);
    scan->runs = runs;
    if (rc != 0) return rc;
    scan->runs[scan->run_count++] = (struct scan_run){
        .lsn = node_at(segment, extent->node)->lsn,
        .payload = segment->image + extent->payload_off,
        .time_min = extent->time_min,
        .time_max = extent->time_max,
        .at = off,
        .group = extent->group,
        .row_first = extent->row_first,
        .rows = extent->rows,
    };
    return 0;
}

/* Chains go from new to old; what comes in order of time comes out so. */
static void reverse_runs(struct scan_run *runs, uint32_t count)
{
    for (uint32_t i = 0, j = count; i + 1 < j; i++) {
        struct scan_run run = runs[i];
        runs[i] = runs[--j];
        runs[j] = run;
    }
}

static int gather_runs(struct memtable_scan *scan, const struct memtable_snapshot *snapshot,
                       uint32_t device)
{
    for (uint32_t s = 0; s < snapshot->segment_count; s++) {
        const struct memtable_segment *segment = snapshot->segments[s];
        uint32_t first = scan->run_count;
        uint32_t off = memtable_newest(segment, device);
        while (off != 0) {
            const struct memtable_extent *extent = extent_at(segment, off);
            if (extent->time_max >= scan->time_from && extent->time_min <= scan->time_to &&
                node_is_visible(node_at(segment, extent->node), snapshot->visible)) {
                int rc = add_run(scan, segment, off);
                if (rc != 0) return rc;
            }
            off = extent->next;
        }
        if (scan->run_count != first) reverse_runs(scan->runs + first, scan->run_count - first);
    }
    return 0;
}

static int add_delete(struct memtable_scan *scan, const struct memtable_segment *segment,
                      const struct memtable_deletion *deletion, const struct memtable_query *query)
{
    const uint8_t *payload = segment->image + deletion->payload_off;
    struct batch_delete delete_;
    batch_open_delete(payload, &delete_);
    if (!batch_delete_covers(payload, &delete_, query->key, query->key_bytes)) return 0;
    void *deletes = scan->deletes;
    int rc = make_room(&deletes, scan->delete_count, &scan->delete_room, sizeof *scan->deletes);
    scan->deletes = deletes;
    if (rc != 0) return rc;
    scan->deletes[scan->delete_count++] = (struct scan_delete){
        .lsn = node_at(segment, deletion->node)->lsn,
        .time_from = delete_.time_from,
        .time_to = delete_.time_to,
        .columns = delete_.columns,
        .column_count = delete_.column_count,
    };
    return 0;
}

/* A delete below every run covers nothing here. */
static uint64_t oldest_run(const struct memtable_scan *scan)
{
    uint64_t lsn = UINT64_MAX;
    for (uint32_t i = 0; i < scan->run_count; i++)
        if (scan->runs[i].lsn < lsn) lsn = scan->runs[i].lsn;
    return lsn;
}

static int gather_deletes(struct memtable_scan *scan, const struct memtable_snapshot *snapshot,
                          const struct memtable_query *query)
{
    uint64_t oldest = oldest_run(scan);
    for (uint32_t s = 0; s < snapshot->segment_count; s++) {
        const struct memtable_segment *segment = snapshot->segments[s];
        uint32_t off = memtable_newest_delete(segment);
        while (off != 0) {
            const struct memtable_deletion *deletion = deletion_at(segment, off);
            const struct memtable_node *node = node_at(segment, deletion->node);
            off = deletion->next;
            if (deletion->incarnation != query->incarnation || node->lsn < oldest ||
                deletion->time_to < scan->time_from || deletion->time_from > scan->time_to ||
                deletion->time_from > deletion->time_to ||
                !node_is_visible(node, snapshot->visible))
                continue;
            int rc = add_delete(scan, segment, deletion, query);
            if (rc != 0) return rc;
        }
    }
    return 0;
}

static int runs_by_time_min(const void *a, const void *b)
{
    const struct scan_run *x = a, *y = b;
    return (x->time_min > y->time_min) - (x->time_min < y->time_min);
}
static int runs_by_time_max_down(const void *a, const void *b)
{
    const struct scan_run *x = a, *y = b;
    return (x->time_max < y->time_max) - (x->time_max > y->time_max);
}
static int deletes_by_from(const void *a, const void *b)
{
    const struct scan_delete *x = a, *y = b;
    return (x->time_from > y->time_from) - (x->time_from < y->time_from);
}
static int deletes_by_to_down(const void *a, const void *b)
{
    const struct scan_delete *x = a, *y = b;
    return (x->time_to < y->time_to) - (x->time_to > y->time_to);
}
static int wants_by_id(const void *a, const void *b)
{
    const struct scan_want *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Rows mostly arrive in order of time, so that there is nothing to sort. */
static void sort_runs(struct memtable_scan *scan)
{
    if (scan->run_count == 0) return;
    if (scan->descending) reverse_runs(scan->runs, scan->run_count);
    int (*compare)(const void *, const void *) =
        scan->descending ? runs_by_time_max_down : runs_by_time_min;
    for (uint32_t i = 1; i < scan->run_count; i++) {
        if (compare(&scan->runs[i - 1], &scan->runs[i]) <= 0) continue;
        qsort(scan->runs, scan->run_count, sizeof *scan->runs, compare);
        return;
    }
}

static int prepare_wants(struct memtable_scan *scan, const struct memtable_query *query)
{
    scan->want_count = query->want_count;
    scan->sorted = mem_zalloc_array((size_t)query->want_count + 1, sizeof *scan->sorted);
    if (scan->sorted == NULL) return -ENOMEM;
    for (uint32_t w = 0; w < query->want_count; w++)
        scan->sorted[w] =
            (struct scan_want){.id = query->wants[w].id, .index = w, .type = query->wants[w].type};
    qsort(scan->sorted, query->want_count, sizeof *scan->sorted, wants_by_id);
    return 0;
}

static int prepare_deletes(struct memtable_scan *scan)
{
    if (scan->delete_count == 0) return 0;
    scan->covering = mem_zalloc_array(scan->delete_count, sizeof *scan->covering);
    scan->active = mem_zalloc_array(scan->delete_count, sizeof *scan->active);
    scan->cell_lsn = mem_zalloc_array((size_t)scan->want_count + 1, sizeof *scan->cell_lsn);
    if (scan->covering == NULL || scan->active == NULL || scan->cell_lsn == NULL) return -ENOMEM;
    qsort(scan->deletes, scan->delete_count, sizeof *scan->deletes,
          scan->descending ? deletes_by_to_down : deletes_by_from);
    return 0;
}

int memtable_scan_open(const struct memtable_snapshot *snapshot, const struct memtable_query *query,
                       struct memtable_scan **scan_out)
{
    struct memtable_scan *scan = mem_zalloc(sizeof *scan);
    if (scan == NULL) return -ENOMEM;
    scan->time_from = query->time_from;
    scan->time_to = query->time_to;
    scan->descending = query->descending;
    scan->rows_without_cells = query->rows_without_cells;
    scan->live = query->live;
    scan->live_count = query->live_count;
    int rc = prepare_wants(scan, query);
    if (rc == 0 && scan->time_from <= scan->time_to)
        rc = gather_runs(scan, snapshot, query->device);
    if (rc == 0 && scan->run_count != 0) rc = gather_deletes(scan, snapshot, query);
    if (rc == 0) rc = prepare_deletes(scan);
    if (rc != 0) {
        memtable_scan_close(scan);
        return rc;
    }
    sort_runs(scan);
    *scan_out = scan;
    return 0;
}

void memtable_scan_close(struct memtable_scan *scan)
{
    if (scan == NULL) return;
    for (uint32_t i = 0; i < scan->stream_count; i++)
        mem_free(scan->streams[i].pairs);
    mem_free(scan->streams);
    mem_free(scan->unused);
    mem_free(scan->heap);
    mem_free(scan->covering);
    mem_free(scan->active);
    mem_free(scan->cell_lsn);
    mem_free(scan->deletes);
    mem_free(scan->runs);
    mem_free(scan->places);
    mem_free(scan->sorted);
    mem_free(scan);
}
