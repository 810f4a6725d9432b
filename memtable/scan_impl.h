/* Inside of a scan: what scan.c gathers and scan_merge.c walks.
 *
 *   runs      the device's visible extents in range, in order of their first time (descending: last)
 *   deletes   those that touch the device, in order of the time where the scan meets them
 *   streams   the runs that reach the time where the scan is, with their place in them
 *   heap      a stream each, the next time first, of one time the newest first
 *
 * Invariants between two rows: every run before run_next is a stream or used up; every delete before
 * delete_next is active or passed. So a failed allocation loses nothing. */
#ifndef RF_MEMTABLE_SCAN_IMPL_H
#define RF_MEMTABLE_SCAN_IMPL_H

#include "memtable/memtable_impl.h"

#define SCAN_NO_WANT UINT32_MAX

struct scan_run {
    uint64_t lsn;
    const uint8_t *payload;
    int64_t time_min;
    int64_t time_max;
    uint32_t at; /* in its arena; of one batch the higher is newer */
    uint32_t group;
    uint32_t row_first;
    uint32_t rows;
};
_Static_assert(sizeof(struct scan_run) == 48, "promised in memtable.h");

struct scan_delete {
    uint64_t lsn;
    int64_t time_from;
    int64_t time_to;
    const uint32_t *columns; /* in the image */
    uint32_t column_count;   /* 0: whole rows */
    uint32_t zero;
};

/* A wanted column that a stream has values of. */
struct scan_pair {
    uint32_t want;
    uint32_t width; /* 0: positions and bytes */
    uint32_t values_off;
    uint32_t nulls_off; /* 0: no bitmap */
};

struct scan_stream {
    uint64_t lsn;
    const uint8_t *payload;
    const int64_t *times; /* of the group */
    struct scan_pair *pairs;
    uint32_t pair_count, pair_room;
    uint32_t at;
    uint32_t low, high; /* the rows that are left, [low, high) */
    uint32_t rows;      /* of the group */
    uint32_t column_count, columns_off;
};

struct scan_head {
    int64_t time;
    uint32_t stream;
};

/* What the last group had in a place: the same in the next group nearly always. */
struct scan_place {
    uint32_t id;
    uint32_t sorted; /* first in `sorted` with that id, or SCAN_NO_WANT */
};

struct scan_want {
    uint32_t id;
    uint32_t index; /* in the caller's order */
    uint8_t type;
};

struct memtable_scan {
    uint32_t want_count;
    int64_t time_from, time_to;
    bool descending;
    bool rows_without_cells;
    const uint32_t *live; /* the caller's */
    uint32_t live_count;
    struct scan_want *sorted; /* by id */
    struct scan_place *places;
    uint32_t place_count;

    struct scan_run *runs;
    uint32_t run_count, run_room, run_next;

    struct scan_delete *deletes;
    uint32_t delete_count, delete_room, delete_next;
    uint32_t *covering; /* a heap of deletes of whole rows; room for all */
    uint32_t *active;   /* deletes of columns; room for all */
    uint32_t covering_count, active_count;
    int64_t active_edge; /* where the first of the active ends, in the scan's direction */
    uint64_t row_lsn;    /* rows below it are deleted here */
    uint64_t *cell_lsn;  /* a want: cells below it are deleted here */

    struct scan_stream *streams;
    uint32_t *unused; /* streams without a run, the last first */
    uint32_t stream_count, unused_count;
    struct scan_head *heap; /* room for stream_count */
    uint32_t heap_count;
};

#endif
