/* Walking a scan: one row a time out of all the extents that reach it.
 *
 * Every row version of a time is met newest first: by LSN, inside a batch by extent, inside an
 * extent by row. A cell is the first that is not null and not covered by a later delete; a version
 * below the newest delete of whole rows is as if it had never been. */
#include "base/alloc.h"
#include "memtable/scan_impl.h"

#include "memtable/batch_impl.h"

#include <errno.h>
#include <string.h>

/* ---- the heap ---- */

/* Whether head a is met before head b. */
static bool is_before(const struct memtable_scan *scan, const struct scan_head *a,
                      const struct scan_head *b)
{
    if (a->time != b->time) return (a->time < b->time) != scan->descending;
    const struct scan_stream *x = &scan->streams[a->stream], *y = &scan->streams[b->stream];
    if (x->lsn != y->lsn) return x->lsn > y->lsn;
    return x->at > y->at;
}

static void push_head(struct memtable_scan *scan, struct scan_head head)
{
    uint32_t i = scan->heap_count++;
    while (i > 0) {
        uint32_t parent = (i - 1) / 2;
        if (!is_before(scan, &head, &scan->heap[parent])) break;
        scan->heap[i] = scan->heap[parent];
        i = parent;
    }
    scan->heap[i] = head;
}

/* Puts head in the top's place and where it belongs. */
static void sink_head(struct memtable_scan *scan, struct scan_head head)
{
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= scan->heap_count) break;
        if (child + 1 < scan->heap_count &&
            is_before(scan, &scan->heap[child + 1], &scan->heap[child]))
            child++;
        if (!is_before(scan, &scan->heap[child], &head)) break;
        scan->heap[i] = scan->heap[child];
        i = child;
    }
    scan->heap[i] = head;
}

static int64_t head_time(const struct memtable_scan *scan, const struct scan_stream *stream)
{
    return stream->times[scan->descending ? stream->high - 1 : stream->low];
}

/* The top stream has moved on: puts it back, or gives it up at its end. */
static void settle_top(struct memtable_scan *scan)
{
    uint32_t index = scan->heap[0].stream;
    const struct scan_stream *stream = &scan->streams[index];
    if (stream->low < stream->high) {
        sink_head(scan, (struct scan_head){head_time(scan, stream), index});
        return;
    }
    scan->unused[scan->unused_count++] = index;
    struct scan_head last = scan->heap[--scan->heap_count];
    if (scan->heap_count != 0) sink_head(scan, last);
}

/* ---- from runs to streams ---- */

static int grow_streams(struct memtable_scan *scan)
{
    uint32_t count = scan->stream_count == 0 ? 4 : 2 * scan->stream_count;
    struct scan_stream *streams = mem_realloc(scan->streams, count * sizeof *streams);
    if (streams == NULL) return -ENOMEM;
    scan->streams = streams;
    uint32_t *unused = mem_realloc(scan->unused, count * sizeof *unused);
    if (unused == NULL) return -ENOMEM;
    scan->unused = unused;
    struct scan_head *heap = mem_realloc(scan->heap, count * sizeof *heap);
    if (heap == NULL) return -ENOMEM;
    scan->heap = heap;
    for (uint32_t i = count; i-- > scan->stream_count;) {
        scan->streams[i] = (struct scan_stream){0};
        scan->unused[scan->unused_count++] = i;
    }
    scan->stream_count = count;
    return 0;
}

static uint32_t first_sorted(const struct memtable_scan *scan, uint32_t id)
{
    uint32_t low = 0, high = scan->want_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (scan->sorted[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < scan->want_count && scan->sorted[low].id == id ? low : SCAN_NO_WANT;
}

static int reserve_places(struct memtable_scan *scan, uint32_t count)
{
    if (count <= scan->place_count) return 0;
    struct scan_place *places = mem_realloc(scan->places, count * sizeof *places);
    if (places == NULL) return -ENOMEM;
    scan->places = places;
    for (uint32_t c = scan->place_count; c < count; c++)
        places[c] = (struct scan_place){.id = 0, .sorted = first_sorted(scan, 0)};
    scan->place_count = count;
    return 0;
}

static int add_pair(struct scan_stream *stream, uint32_t want, const uint8_t *entry)
{
    if (stream->pair_count == stream->pair_room) {
        uint32_t room = stream->pair_room == 0 ? 4 : 2 * stream->pair_room;
        struct scan_pair *pairs = mem_realloc(stream->pairs, room * sizeof *pairs);
        if (pairs == NULL) return -ENOMEM;
        stream->pairs = pairs;
        stream->pair_room = room;
    }
    stream->pairs[stream->pair_count++] = (struct scan_pair){
        .want = want,
        .width = (uint32_t)batch_type_bytes(entry[COLUMN_TYPE]),
        .values_off = load_u32(entry + COLUMN_VALUES_OFF),
        .nulls_off = load_u32(entry + COLUMN_NULLS_OFF),
    };
    return 0;
}

/* Which of the group's columns are wanted. */
static int pair_columns(struct memtable_scan *scan, struct scan_stream *stream)
{
    int rc = scan->want_count == 0 ? 0 : reserve_places(scan, stream->column_count);
    stream->pair_count = 0;
    if (scan->want_count == 0) return 0;
    for (uint32_t c = 0; rc == 0 && c < stream->column_count; c++) {
        const uint8_t *entry =
            stream->payload + stream->columns_off + (uint64_t)c * BATCH_COLUMN_BYTES;
        uint32_t id = load_u32(entry + COLUMN_ID);
        struct scan_place *place = &scan->places[c];
        if (place->id != id) *place = (struct scan_place){id, first_sorted(scan, id)};
        if ((entry[COLUMN_FLAGS] & BATCH_COLUMN_ALL_NULL) != 0) continue;
        for (uint32_t s = place->sorted;
             rc == 0 && s < scan->want_count && scan->sorted[s].id == id; s++)
            if (scan->sorted[s].type == entry[COLUMN_TYPE])
                rc = add_pair(stream, scan->sorted[s].index, entry);
    }
    return rc;
}

/* First row of [low, high) at or behind time. */
static uint32_t lower_row(const int64_t *times, uint32_t low, uint32_t high, int64_t time)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (times[middle] < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The rows of the run that the query asks for. */
static void limit_rows(const struct memtable_scan *scan, const struct scan_run *run,
                       struct scan_stream *stream)
{
    stream->low = run->row_first;
    stream->high = run->row_first + run->rows;
    if (run->time_min < scan->time_from)
        stream->low = lower_row(stream->times, stream->low, stream->high, scan->time_from);
    if (run->time_max > scan->time_to)
        stream->high = lower_row(stream->times, stream->low, stream->high, scan->time_to + 1);
}

static int open_stream(struct memtable_scan *scan, const struct scan_run *run)
{
    if (scan->unused_count == 0) {
        int rc = grow_streams(scan);
        if (rc != 0) return rc;
    }
    uint32_t index = scan->unused[scan->unused_count - 1];
    struct scan_stream *stream = &scan->streams[index];
    struct batch_view view;
    struct batch_group group;
    batch_open(&view, run->payload, 0); /* its length matters to a check alone */
    batch_read_group(&view, run->group, &group);
    stream->lsn = run->lsn;
    stream->payload = run->payload;
    stream->times = group.times;
    stream->at = run->at;
    stream->rows = group.rows;
    stream->column_count = group.column_count;
    stream->columns_off = group.columns_off;
    limit_rows(scan, run, stream);
    if (stream->low == stream->high) return 0; /* all its rows lie outside the range */
    int rc = pair_columns(scan, stream);
    if (rc != 0) return rc;
    scan->unused_count--;
    push_head(scan, (struct scan_head){head_time(scan, stream), index});
    return 0;
}

/* Opens every run that may hold a row at or before the next one that is known. */
static int open_streams(struct memtable_scan *scan)
{
    while (scan->run_next < scan->run_count) {
        const struct scan_run *run = &scan->runs[scan->run_next];
        if (scan->heap_count != 0) {
            int64_t next = scan->heap[0].time;
            if (scan->descending ? run->time_max < next : run->time_min > next) break;
        }
        int rc = open_stream(scan, run);
        if (rc != 0) return rc;
        scan->run_next++;
    }
    return 0;
}

/* ---- deletes ----
 *
 * Those of whole rows that the scan has met stand in a heap, the newest first; one that has passed
 * leaves it when it comes to the top. Those of columns stand in a list, which is gone through when
 * the first of them ends. */

static bool has_passed(const struct memtable_scan *scan, const struct scan_delete *delete_,
                       int64_t time)
{
    return scan->descending ? delete_->time_from > time : delete_->time_to < time;
}

static uint64_t covering_lsn(const struct memtable_scan *scan, uint32_t i)
{
    return scan->deletes[scan->covering[i]].lsn;
}

static void push_covering(struct memtable_scan *scan, uint32_t index)
{
    uint32_t i = scan->covering_count++;
    for (; i > 0; i = (i - 1) / 2) {
        if (covering_lsn(scan, (i - 1) / 2) >= scan->deletes[index].lsn) break;
        scan->covering[i] = scan->covering[(i - 1) / 2];
    }
    scan->covering[i] = index;
}

static void pop_covering(struct memtable_scan *scan)
{
    uint32_t last = scan->covering[--scan->covering_count];
    uint32_t i = 0, child;
    for (; (child = 2 * i + 1) < scan->covering_count; i = child) {
        if (child + 1 < scan->covering_count &&
            covering_lsn(scan, child + 1) > covering_lsn(scan, child))
            child++;
        if (covering_lsn(scan, child) <= scan->deletes[last].lsn) break;
        scan->covering[i] = scan->covering[child];
    }
    scan->covering[i] = last;
}

/* Notes a delete of columns as active, and what it covers. */
static void add_active(struct memtable_scan *scan, uint32_t index)
{
    const struct scan_delete *delete_ = &scan->deletes[index];
    int64_t edge = scan->descending ? delete_->time_from : delete_->time_to;
    if (scan->active_count == 0 ||
        (scan->descending ? edge > scan->active_edge : edge < scan->active_edge))
        scan->active_edge = edge;
    scan->active[scan->active_count++] = index;
    for (uint32_t c = 0; c < delete_->column_count; c++) {
        uint32_t id = delete_->columns[c];
        for (uint32_t s = first_sorted(scan, id); s < scan->want_count && scan->sorted[s].id == id;
             s++) {
            uint64_t *lsn = &scan->cell_lsn[scan->sorted[s].index];
            if (delete_->lsn > *lsn) *lsn = delete_->lsn;
        }
    }
}

static void drop_passed(struct memtable_scan *scan, int64_t time)
{
    uint32_t count = scan->active_count;
    scan->active_count = 0;
    memset(scan->cell_lsn, 0, scan->want_count * sizeof *scan->cell_lsn);
    for (uint32_t i = 0; i < count; i++)
        if (!has_passed(scan, &scan->deletes[scan->active[i]], time))
            add_active(scan, scan->active[i]); /* at or before place i */
}

/* Brings what is deleted to `time`. */
static void sweep_deletes(struct memtable_scan *scan, int64_t time)
{
    if (scan->active_count != 0 &&
        (scan->descending ? scan->active_edge > time : scan->active_edge < time))
        drop_passed(scan, time);
    for (; scan->delete_next < scan->delete_count; scan->delete_next++) {
        const struct scan_delete *delete_ = &scan->deletes[scan->delete_next];
        if (scan->descending ? delete_->time_to < time : delete_->time_from > time) break;
        if (has_passed(scan, delete_, time)) continue;
        if (delete_->column_count == 0)
            push_covering(scan, scan->delete_next);
        else
            add_active(scan, scan->delete_next);
    }
    while (scan->covering_count != 0 && has_passed(scan, &scan->deletes[scan->covering[0]], time))
        pop_covering(scan);
    scan->row_lsn = scan->covering_count != 0 ? covering_lsn(scan, 0) : 0;
}

/* Whether a later delete covers this column's cells of this lsn here, wanted or not. */
static bool cell_is_deleted(const struct memtable_scan *scan, uint32_t id, uint64_t lsn)
{
    for (uint32_t i = 0; i < scan->active_count; i++) {
        const struct scan_delete *delete_ = &scan->deletes[scan->active[i]];
        if (delete_->lsn <= lsn) continue;
        for (uint32_t c = 0; c < delete_->column_count; c++)
            if (delete_->columns[c] == id) return true;
    }
    return false;
}

/* ---- rows ---- */

static bool bit_is_set(const uint8_t *bits, uint32_t row)
{
    return (bits[row / 8] >> (row % 8) & 1) != 0;
}

static bool is_live(const struct memtable_scan *scan, uint32_t id)
{
    if (scan->live == NULL) return true;
    uint32_t low = 0, high = scan->live_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (scan->live[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < scan->live_count && scan->live[low] == id;
}

/* Whether the row has any cell at all, also of columns that nobody asked for. */
static bool row_has_cell(const struct memtable_scan *scan, const struct scan_stream *stream,
                         uint32_t row)
{
    for (uint32_t c = 0; c < stream->column_count; c++) {
        const uint8_t *entry =
            stream->payload + stream->columns_off + (uint64_t)c * BATCH_COLUMN_BYTES;
        uint32_t nulls_off = load_u32(entry + COLUMN_NULLS_OFF);
        if ((entry[COLUMN_FLAGS] & BATCH_COLUMN_ALL_NULL) != 0) continue;
        if (nulls_off != 0 && bit_is_set(stream->payload + nulls_off, row)) continue;
        uint32_t id = load_u32(entry + COLUMN_ID);
        if (is_live(scan, id) && !cell_is_deleted(scan, id, stream->lsn)) return true;
    }
    return false;
}

static struct memtable_cell read_cell(const struct scan_stream *stream,
                                      const struct scan_pair *pair, uint32_t row)
{
    const uint8_t *values = stream->payload + pair->values_off;
    if (pair->width != 0)
        return (struct memtable_cell){values + (uint64_t)row * pair->width, pair->width};
    uint32_t from = load_u32(values + 4u * (uint64_t)row);
    uint32_t to = load_u32(values + 4u * ((uint64_t)row + 1));
    return (struct memtable_cell){
        stream->payload + batch_data_off(pair->values_off, stream->rows) + from, to - from};
}

/* Fills what is still missing from one version of the row; returns whether the row exists by it. */
static bool merge_version(const struct memtable_scan *scan, const struct scan_stream *stream,
                          uint32_t row, struct memtable_cell *cells, uint32_t *missing)
{
    if (stream->lsn < scan->row_lsn) return false;
    bool found = false;
    for (uint32_t p = 0; p < stream->pair_count && *missing != 0; p++) {
        const struct scan_pair *pair = &stream->pairs[p];
        if (cells[pair->want].data != NULL) continue;
        if (pair->nulls_off != 0 && bit_is_set(stream->payload + pair->nulls_off, row)) continue;
        if (scan->active_count != 0 && stream->lsn < scan->cell_lsn[pair->want]) continue;
        cells[pair->want] = read_cell(stream, pair, row);
        --*missing;
        found = true;
    }
    return found || scan->rows_without_cells || row_has_cell(scan, stream, row);
}

/* Takes every version of the row at `time` off the heap. Returns whether there is such a row. */
static bool merge_row(struct memtable_scan *scan, int64_t time, struct memtable_cell *cells)
{
    uint32_t missing = scan->want_count;
    bool exists = false;
    if (missing != 0) memset(cells, 0, missing * sizeof *cells);
    do {
        struct scan_stream *stream = &scan->streams[scan->heap[0].stream];
        uint32_t end;
        if (scan->descending) {
            end = stream->high;
            while (stream->high > stream->low && stream->times[stream->high - 1] == time)
                stream->high--;
            for (uint32_t row = end; row-- > stream->high && (!exists || missing != 0);)
                exists |= merge_version(scan, stream, row, cells, &missing);
        } else {
            end = stream->low;
            while (stream->low < stream->high && stream->times[stream->low] == time)
                stream->low++;
            for (uint32_t row = stream->low; row-- > end && (!exists || missing != 0);)
                exists |= merge_version(scan, stream, row, cells, &missing);
        }
        settle_top(scan);
    } while (scan->heap_count != 0 && scan->heap[0].time == time);
    return exists;
}

int64_t memtable_scan_next(struct memtable_scan *scan, int64_t *times, struct memtable_cell *cells,
                           uint32_t max_rows)
{
    uint32_t count = 0;
    while (count < max_rows) {
        int rc = open_streams(scan);
        if (rc != 0 && count == 0) return rc;
        if (rc != 0 || scan->heap_count == 0) break; /* the next call fails or ends in its turn */
        int64_t time = scan->heap[0].time;
        if (scan->delete_count != 0) sweep_deletes(scan, time);
        struct memtable_cell *row =
            scan->want_count != 0 ? cells + (size_t)count * scan->want_count : NULL;
        if (merge_row(scan, time, row)) times[count++] = time;
    }
    return count;
}
