/* From the published prefix to the durable mark.
 *
 * The thread scans slots in order up to the first that is not published, writes whole blocks of
 * what lies there, and keeps each write as a flight until it is known to be durable. Without FUA a
 * sync follows, one in flight, covering the writes that were complete when it was submitted.
 * Completions come in any order; the durable mark passes only what is durable without a hole.
 *
 * A short write goes on from its last whole block. A failed write or sync latches the lane: it is
 * never retried into success. */
#include "wal/lane_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define SYNC_USER UINT64_MAX

bool lane_has_unscanned(struct wal_lane *lane)
{
    uint64_t seq = atomic_load_explicit(&lane->scanned_seq, memory_order_relaxed); /* ours */
    return seq != atomic_load_explicit(&lane->next_seq, memory_order_acquire);     /* S2 */
}

/* Moves scan_lsn over published slots; stops behind a segment's end until that is submitted. */
static void scan(struct wal_lane *lane)
{
    uint64_t seq = atomic_load_explicit(&lane->scanned_seq, memory_order_relaxed); /* ours */
    uint64_t from = seq;
    while (!lane->seal_pending) {
        struct slot *s = lane_slot(lane, seq);
        if (!slot_is(s, seq, SLOT_PUBLISHED)) break;
        uint64_t end = s->lsn + s->covered_bytes;
        uint64_t number = lsn_segment(s->lsn, lane->o.segment_bytes);
        CHECK(number == lane->submit_seg->number); /* the last record of a segment seals it */
        lane->scan_lsn = end;
        if (end == seg_end_lsn(lane, number)) {
            /* Of a long pad only the block with its header is written. */
            uint64_t last = s->type == WAL_RECORD_PAD ? s->lsn + WAL_RECORD_HEAD_BYTES : end;
            last = align_up(lsn_offset(last, lane->o.segment_bytes), lane->o.block_bytes);
            lane->seal_pending = true;
            lane->seal_file_end = last;
        }
        seq++;
    }
    if (seq == from) return;
    /* Release: reserve() may hand the slots out again once it sees this; their fields were read. */
    atomic_store_explicit(&lane->scanned_seq, seq, memory_order_release);
    if (lane->o.mode != WAL_SYNC) lane_signal_room(lane);
}

/* ---- flights ---- */

static void flight_submit(struct wal_lane *lane, struct flight *f, uint64_t id)
{
    struct io_request r = {
        .op = IO_OP_WRITE,
        .flags = lane->dsync_writes ? IO_DSYNC : 0,
        .file = f->seg->file,
        .buf = f->seg->image->base + f->file_offset,
        .bytes = f->bytes,
        .offset = f->file_offset,
        .user = id,
    };
    int rc = io_queue_submit(lane->queue, &r, 1);
    if (rc != 0) {
        f->state = FLIGHT_COMPLETED;
        lane_latch(lane, rc, "submit");
        return;
    }
    lane->writes_in_flight++;
    atomic_fetch_add_explicit(&lane->stat_writes, 1, memory_order_relaxed);
}

static void durable_advance(struct wal_lane *lane)
{
    uint64_t durable = 0;
    while (lane->flight_head != lane->flight_tail) {
        struct flight *f = &lane->flights[lane->flight_head % LANE_FLIGHTS];
        if (f->state != FLIGHT_DURABLE) break;
        durable = f->end_lsn;
        lane->group_submit_ns = f->submit_ns;
        lane->flight_head++;
    }
    if (durable == 0 || lane->latched != 0) return;
    durable = lsn_normal(durable, lane->o.segment_bytes, lane->o.block_bytes);
    /* D1: whoever reads this mark and names it in a record, or decides by it, does so after the
     * device said that the bytes are there. */
    atomic_store_explicit(&lane->durable, durable, memory_order_release);
    lane->durable_moved_ns = clock_read_ns(CLOCK_MONOTONIC);
    lane->group_durable_ns = lane->durable_moved_ns;
    lane_durable_moved(lane);
}

void lane_sync_step(struct wal_lane *lane)
{
    if (lane->dsync_writes || lane->sync_in_flight || lane->latched != 0) return;
    struct wal_seg *seg = NULL;
    for (uint64_t i = lane->flight_head; i != lane->flight_tail; i++) {
        struct flight *f = &lane->flights[i % LANE_FLIGHTS];
        if (f->state != FLIGHT_COMPLETED || (seg != NULL && f->seg != seg)) continue;
        seg = f->seg;
        f->state = FLIGHT_SYNCING; /* complete before the sync is submitted: covered by it */
    }
    if (seg == NULL) return;
    struct io_request r = {.op = IO_OP_SYNC, .file = seg->file, .user = SYNC_USER};
    int rc = io_queue_submit(lane->queue, &r, 1);
    if (rc != 0) {
        lane_latch(lane, rc, "sync submit");
        return;
    }
    lane->sync_in_flight = true;
    atomic_fetch_add_explicit(&lane->stat_syncs, 1, memory_order_relaxed);
}

static void sync_done(struct wal_lane *lane, int32_t result)
{
    lane->sync_in_flight = false;
    if (result < 0) {
        lane_latch(lane, result, "sync");
        return;
    }
    for (uint64_t i = lane->flight_head; i != lane->flight_tail; i++) {
        struct flight *f = &lane->flights[i % LANE_FLIGHTS];
        if (f->state == FLIGHT_SYNCING) f->state = FLIGHT_DURABLE;
    }
    durable_advance(lane);
}

/* A write is at most what the device takes in about a millisecond. */
static void adapt(struct wal_lane *lane, const struct flight *f)
{
    int64_t took_ns = clock_read_ns(CLOCK_MONOTONIC) - f->submit_ns;
    if (f->bytes_all < lane->write_bytes_max || took_ns <= 0) return;
    if (took_ns > 2000000 && lane->write_bytes_max > LANE_WRITE_BYTES_MIN)
        lane->write_bytes_max /= 2;
    if (took_ns < 700000 && lane->write_bytes_max < LANE_WRITE_BYTES_MAX)
        lane->write_bytes_max *= 2;
}

static void write_done(struct wal_lane *lane, uint64_t id, int32_t result)
{
    struct flight *f = &lane->flights[id % LANE_FLIGHTS];
    CHECK(id >= lane->flight_head && id < lane->flight_tail && f->state == FLIGHT_SUBMITTED);
    lane->writes_in_flight--;
    if (result <= 0) {
        f->state = FLIGHT_COMPLETED;
        lane_latch(lane, result == 0 ? -EIO : result, "write");
        return;
    }
    if ((uint32_t)result < f->bytes) {
        /* From the last whole block: a direct write begins at a block, and a durable one has to be
         * made durable again. */
        uint32_t whole = (uint32_t)align_down((uint32_t)result, lane->o.block_bytes);
        f->file_offset += whole;
        f->bytes -= whole;
        flight_submit(lane, f, id);
        return;
    }
    adapt(lane, f);
    f->state = lane->dsync_writes ? FLIGHT_DURABLE : FLIGHT_COMPLETED;
    if (lane->dsync_writes) durable_advance(lane);
}

void lane_handle_event(struct wal_lane *lane, const struct io_event *event)
{
    if (event->user == SYNC_USER)
        sync_done(lane, event->result);
    else
        write_done(lane, event->user, event->result);
}

/* ---- what to write next ---- */

struct span {
    uint64_t file_offset;
    uint32_t bytes;
    uint64_t end_lsn;
    bool seals; /* the segment is complete with it */
};

/* The next whole blocks that wait, at most write_bytes_max; 0 bytes when there are none. */
static struct span next_span(struct wal_lane *lane)
{
    uint64_t segment_bytes = lane->o.segment_bytes;
    uint64_t base = lane->submit_seg->number * segment_bytes;
    struct span s = {.file_offset = lane->submit_lsn - base};
    if (!lane->seal_pending && lane->scan_lsn % lane->o.block_bytes != 0 &&
        lane_pad_block(lane, lane->scan_lsn))
        scan(lane);
    uint64_t file_end = lane->seal_pending ? lane->seal_file_end
                                           : align_down(lane->scan_lsn - base, lane->o.block_bytes);
    if (file_end <= s.file_offset) {
        s.seals = lane->seal_pending;
        return s;
    }
    uint64_t bytes = file_end - s.file_offset;
    if (bytes > lane->write_bytes_max) bytes = lane->write_bytes_max;
    s.bytes = (uint32_t)bytes;
    s.seals = lane->seal_pending && s.file_offset + bytes == file_end;
    s.end_lsn = base + s.file_offset + bytes;
    if (s.seals) s.end_lsn = seg_first_lsn(lane, lane->submit_seg->number + 1);
    return s;
}

/* The span is on its way: goes on behind it, in the next segment when this one is complete. */
static void pass_span(struct wal_lane *lane, const struct span *s)
{
    lane->submit_lsn = lane->submit_seg->number * lane->o.segment_bytes + s->file_offset + s->bytes;
    atomic_fetch_add_explicit(&lane->stat_bytes, s->bytes, memory_order_relaxed);
    if (!s->seals) return;
    uint64_t next = lane->submit_seg->number + 1;
    lane->submit_seg = lane_seg(lane, next);
    CHECK(lane->submit_seg != NULL && lane->submit_seg->number == next);
    lane->seal_pending = false;
    lane->submit_lsn = lane->scan_lsn = seg_first_lsn(lane, next);
}

/* A lone small group, nothing in flight and nothing queued: one blocking durable write costs less
 * than a hop through the ring. */
static bool write_lone(struct wal_lane *lane, const struct span *s)
{
    if (lane->o.mode != WAL_SYNC || lane->flight_head != lane->flight_tail ||
        lane->sync_in_flight || s->bytes > LANE_LONE_BYTES)
        return false;
    lane->group_submit_ns = clock_read_ns(CLOCK_MONOTONIC);
    int rc = io_pwrite(lane->submit_seg->file, lane->submit_seg->image->base + s->file_offset,
                       s->bytes, s->file_offset, IO_DSYNC, NULL);
    atomic_fetch_add_explicit(&lane->stat_writes, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&lane->stat_syncs, 1, memory_order_relaxed);
    pass_span(lane, s);
    if (rc != 0) {
        lane_latch(lane, rc, "write");
        return true;
    }
    uint64_t durable = lsn_normal(s->end_lsn, lane->o.segment_bytes, lane->o.block_bytes);
    atomic_store_explicit(&lane->durable, durable, memory_order_release); /* D1 */
    lane->durable_moved_ns = lane->group_durable_ns = clock_read_ns(CLOCK_MONOTONIC);
    lane_durable_moved(lane);
    return true;
}

static void write_queued(struct wal_lane *lane, const struct span *s)
{
    uint64_t id = lane->flight_tail++;
    struct flight *f = &lane->flights[id % LANE_FLIGHTS];
    *f = (struct flight){
        .state = FLIGHT_SUBMITTED,
        .seg = lane->submit_seg,
        .file_offset = s->file_offset,
        .bytes = s->bytes,
        .bytes_all = s->bytes,
        .end_lsn = s->end_lsn,
        .submit_ns = clock_read_ns(CLOCK_MONOTONIC),
    };
    flight_submit(lane, f, id);
    pass_span(lane, s);
}

static bool may_write(struct wal_lane *lane)
{
    if (lane->latched != 0) return false;
    if (lane->writes_in_flight >= lane->o.depth) return false;
    if (lane->flight_tail - lane->flight_head >= LANE_FLIGHTS) return false;
    if (lane->o.mode == WAL_OFF && !lane->seal_pending &&
        lane->submit_lsn >= atomic_load_explicit(&lane->flush_target, memory_order_acquire))
        return false;
    return true;
}

void lane_write_step(struct wal_lane *lane)
{
    scan(lane);
    while (may_write(lane)) {
        uint64_t waiting = lane->scan_lsn - lane->submit_lsn;
        if (waiting == 0 && !lane->seal_pending) break;
        if (lane->writes_in_flight > 0 && waiting < LANE_SECOND_WRITE_BYTES && !lane->seal_pending)
            break;
        struct span s = next_span(lane);
        if (s.bytes == 0 && !s.seals) break;
        if (s.bytes == 0)
            pass_span(lane, &s); /* full to the byte: nothing is left to write */
        else if (!write_lone(lane, &s))
            write_queued(lane, &s);
        scan(lane);
    }
    lane_sync_step(lane);
}

/* ---- failure ---- */

void lane_latch(struct wal_lane *lane, int error, const char *what)
{
    if (lane->latched != 0) return;
    /* Under the reserve lock: nobody reserves behind it once it is set. */
    spin_acquire(&lane->reserve_lock);
    atomic_store_explicit(&lane->latched, error, memory_order_release);
    spin_release(&lane->reserve_lock);
    log_error(lane->o.log, "wal.latched", "lane=%" PRIu32 " what=\"%s\" error=%s durable=%" PRIu64,
              lane->o.lane, what, err_name(error), lane->durable);
    lane_durable_moved(lane);
    lane_signal_room(lane);
}

/* A slot that stays unpublished latches the lane: everybody behind it would wait for ever. */
void lane_check_stuck(struct wal_lane *lane)
{
    uint64_t seq = atomic_load_explicit(&lane->scanned_seq, memory_order_relaxed); /* ours */
    if (lane->seal_pending || !slot_is(lane_slot(lane, seq), seq, SLOT_RESERVED)) {
        lane->stuck_looks = 0;
        return;
    }
    int64_t now = clock_read_ns(CLOCK_MONOTONIC);
    if (lane->stuck_seq != seq || lane->stuck_looks == 0) {
        lane->stuck_seq = seq;
        lane->stuck_looks = 1;
        lane->stuck_look_ns = now;
        return;
    }
    if (now - lane->stuck_look_ns < LANE_STUCK_LOOK_NS) return;
    lane->stuck_look_ns = now;
    if (++lane->stuck_looks < LANE_STUCK_LOOKS) return;
    log_error(lane->o.log, "wal.slot_stuck", "lane=%" PRIu32 " seq=%" PRIu64 " lsn=%" PRIu64,
              lane->o.lane, seq, lane_slot(lane, seq)->lsn);
    lane_latch(lane, -ETIMEDOUT, "a reserved slot was never published");
}
