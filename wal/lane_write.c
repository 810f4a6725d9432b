/* From the published prefix to the durable mark.
 *
 * The thread scans slots in order up to the first that is not published, writes whole blocks of
 * what lies there, and keeps each write as a flight until it is known to be durable. Behind writes
 * that are not durable by themselves (durable_way.h) a sync follows, one in flight, covering those
 * that were complete when it was submitted.
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

/* The segment is complete in memory up to its end. Of a long pad only the block with its header is
 * written. */
static void scan_seal(struct wal_lane *lane, const struct slot *s, uint64_t number)
{
    uint64_t end = s->lsn + s->covered_bytes;
    uint64_t last = atomic_load_explicit(&s->type, memory_order_relaxed) == WAL_RECORD_PAD
                        ? s->lsn + WAL_RECORD_HEAD_BYTES
                        : end;
    lane_seg(lane, number)->seal_file_end =
        align_up(lsn_offset(last, lane->o.segment_bytes), lane->o.block_bytes);
    lane->scan_lsn = lane->scan_bound = seg_first_lsn(lane, number + 1);
    lane_prep_kick(lane); /* not by the writer: it makes no system call but a wake of the lane */
}

/* Moves scan_lsn over published slots. Not held up by what is not submitted yet: the slots are
 * wanted back, and an OFF lane submits nothing until it must. */
static void scan(struct wal_lane *lane)
{
    uint64_t seq = atomic_load_explicit(&lane->scanned_seq, memory_order_relaxed); /* ours */
    uint64_t from = seq;
    for (struct slot *s; slot_is(s = lane_slot(lane, seq), seq, SLOT_PUBLISHED); seq++) {
        CHECK(s->lsn == lane->scan_lsn);
        uint64_t end = s->lsn + s->covered_bytes;
        uint64_t number = lsn_segment(s->lsn, lane->o.segment_bytes);
        uint64_t whole = align_down(end, lane->o.block_bytes);
        if (whole > align_down(s->lsn, lane->o.block_bytes))
            lane->scan_bound = whole == end ? end : s->lsn;
        lane->scan_lsn = end;
        lane->scanned_bytes += s->covered_bytes;
        if (end == seg_end_lsn(lane, number)) scan_seal(lane, s, number);
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
        .flags = f->dsync ? IO_DSYNC : 0,
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

static void durable_set(struct wal_lane *lane, uint64_t durable, uint64_t bound)
{
    durable = lsn_normal(durable, lane->o.segment_bytes, lane->o.block_bytes);
    lane->durable_moved_ns = clock_read_ns(CLOCK_MONOTONIC);
    RF_PROBE2(device, lane->o.lane, durable);
    if (lane->o.stages) lane_stages_durable(lane, durable, lane->durable_moved_ns);
    /* D1: whoever reads these marks and names one in a record, or decides by it, does so after the
     * device said that the bytes are there. */
    atomic_store_explicit(&lane->durable_bound, bound, memory_order_release);
    atomic_store_explicit(&lane->durable, durable, memory_order_release);
    lane_durable_moved(lane);
}

static void flight_durable(struct wal_lane *lane, struct flight *f)
{
    f->state = FLIGHT_DURABLE;
    if (!lane->way.fua) return;
    int64_t wait_ns = clock_read_ns(CLOCK_MONOTONIC) - f->submit_ns;
    if (!durable_way_done(&lane->way, f->dsync, f->bytes_all, wait_ns)) return;
    log_info(lane->o.log, "wal.durable_way",
             "lane=%" PRIu32 " way=%s dsync_ns=%" PRIu64 " fdatasync_ns=%" PRIu64, lane->o.lane,
             lane->way.dsync ? "dsync" : "fdatasync", durable_way_wait_ns(&lane->way, true),
             durable_way_wait_ns(&lane->way, false));
}

static void durable_advance(struct wal_lane *lane)
{
    uint64_t durable = 0, bound = 0;
    while (lane->flight_head != lane->flight_tail) {
        struct flight *f = &lane->flights[lane->flight_head % LANE_FLIGHTS];
        if (f->state != FLIGHT_DURABLE) break;
        durable = f->end_lsn;
        bound = f->bound_lsn;
        lane->flight_head++;
    }
    if (durable != 0 && lane->latched == 0) durable_set(lane, durable, bound);
}

void lane_sync_step(struct wal_lane *lane)
{
    if (lane->sync_in_flight || lane->latched != 0) return;
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
        if (f->state == FLIGHT_SYNCING) flight_durable(lane, f);
    }
    durable_advance(lane);
}

/* A write is at most what the device takes in about a millisecond. Its share of the time counts,
 * since others were in flight beside it, and a few in a row, since one can wait for a processor. */
static void adapt(struct wal_lane *lane, const struct flight *f)
{
    if (lane->o.write_bytes != 0 || f->bytes_all < lane->write_bytes_max) return;
    int64_t took_ns = (clock_read_ns(CLOCK_MONOTONIC) - f->submit_ns) / (f->beside + 1);
    bool slow = took_ns > LANE_WRITE_SLOW_NS, fast = took_ns < LANE_WRITE_FAST_NS;
    lane->writes_slow = slow ? lane->writes_slow + 1 : 0;
    if (lane->writes_slow >= LANE_WRITES_SLOW && lane->write_bytes_max > LANE_WRITE_BYTES_MIN) {
        lane->write_bytes_max /= 2;
        lane->writes_slow = 0;
    }
    if (fast && lane->write_bytes_max < LANE_WRITE_BYTES_MAX) lane->write_bytes_max *= 2;
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
        /* From the last whole block: a direct write begins at a block. What a durable write did
         * before it fell short is made durable by a sync of its own. */
        uint32_t whole = (uint32_t)align_down((uint32_t)result, lane->o.block_bytes);
        f->was_short = true;
        if (whole == 0 && ++f->stalls > LANE_STALLS_MAX) {
            f->state = FLIGHT_COMPLETED;
            lane_latch(lane, -EIO, "write comes back short");
            return;
        }
        f->file_offset += whole;
        f->bytes -= whole;
        flight_submit(lane, f, id);
        return;
    }
    adapt(lane, f);
    f->state = FLIGHT_COMPLETED;
    if (!f->dsync || f->was_short) return;
    flight_durable(lane, f);
    durable_advance(lane);
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
    uint64_t bound_lsn;
    bool seals; /* the segment is complete with it */
    bool all;   /* nothing waits behind it */
};

/* File bytes of the segment being submitted that may be written: whole blocks. */
static uint64_t file_end(const struct wal_lane *lane)
{
    uint64_t sealed = lane->submit_seg->seal_file_end;
    if (sealed != 0) return sealed;
    uint64_t base = lane->submit_seg->number * lane->o.segment_bytes;
    return align_down(lane->scan_lsn - base, lane->o.block_bytes);
}

/* The next whole blocks that wait, at most write_bytes_max; 0 bytes when there are none. */
static struct span next_span(struct wal_lane *lane)
{
    uint64_t base = lane->submit_seg->number * lane->o.segment_bytes;
    struct span s = {.file_offset = lane->submit_lsn - base};
    if (lane->submit_seg->seal_file_end == 0 && lane->scan_lsn % lane->o.block_bytes != 0 &&
        lane_pad_block(lane, lane->scan_lsn))
        scan(lane);
    bool sealed = lane->submit_seg->seal_file_end != 0;
    uint64_t end = file_end(lane);
    if (end <= s.file_offset) return s;
    uint64_t bytes = end - s.file_offset;
    bool all = bytes <= lane->write_bytes_max;
    if (!all) bytes = lane->write_bytes_max;
    s.bytes = (uint32_t)bytes;
    s.seals = sealed && all;
    s.end_lsn = s.bound_lsn = seg_first_lsn(lane, lane->submit_seg->number + 1);
    if (s.seals) return s;
    s.end_lsn = base + s.file_offset + bytes;
    /* Where the write is cut short inside a long run, the last end that is known has to do. */
    s.bound_lsn = all ? lane->scan_bound : lane->submit_bound;
    s.all = all;
    return s;
}

/* The span is on its way: goes on behind it, in the next segment when this one is complete. */
static void pass_span(struct wal_lane *lane, const struct span *s)
{
    lane->submit_lsn = lane->submit_seg->number * lane->o.segment_bytes + s->file_offset + s->bytes;
    lane->submit_bound = s->bound_lsn;
    atomic_fetch_add_explicit(&lane->stat_bytes, s->bytes, memory_order_relaxed);
    if (!s->seals) return;
    uint64_t next = lane->submit_seg->number + 1;
    lane->submit_seg = lane_seg(lane, next);
    CHECK(lane->submit_seg != NULL && lane->submit_seg->number == next);
    lane->submit_lsn = seg_first_lsn(lane, next);
}

/* A lone small group, nothing in flight and nothing queued: one blocking durable write costs less
 * than a hop through the ring. */
static bool is_lone(const struct wal_lane *lane, const struct span *s)
{
    return lane->o.mode == WAL_SYNC && lane->flight_head == lane->flight_tail &&
           !lane->sync_in_flight && s->bytes <= LANE_LONE_BYTES &&
           (s->all || (s->seals && lane->scan_lsn == s->end_lsn));
}

static void write_lone(struct wal_lane *lane, const struct span *s)
{
    RF_PROBE3(queue, lane->o.lane, s->end_lsn, s->bytes);
    if (lane->o.stages) {
        int64_t now_ns = clock_read_ns(CLOCK_MONOTONIC);
        lane_stages_submitted(lane, s->end_lsn, now_ns, clock_read_ns(CLOCK_MONOTONIC));
    }
    RF_PROBE3(submit, lane->o.lane, s->end_lsn, s->bytes);
    int rc = io_pwrite(lane->submit_seg->file, lane->submit_seg->image->base + s->file_offset,
                       s->bytes, s->file_offset, IO_DSYNC, NULL);
    atomic_fetch_add_explicit(&lane->stat_writes, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&lane->stat_syncs, 1, memory_order_relaxed);
    pass_span(lane, s);
    if (rc != 0)
        lane_latch(lane, rc, "write");
    else
        durable_set(lane, s->end_lsn, s->bound_lsn);
}

static void write_queued(struct wal_lane *lane, const struct span *s)
{
    uint64_t id = lane->flight_tail++;
    RF_PROBE3(queue, lane->o.lane, s->end_lsn, s->bytes);
    struct flight *f = &lane->flights[id % LANE_FLIGHTS];
    *f = (struct flight){
        .state = FLIGHT_SUBMITTED,
        .seg = lane->submit_seg,
        .file_offset = s->file_offset,
        .bytes = s->bytes,
        .bytes_all = s->bytes,
        .end_lsn = s->end_lsn,
        .bound_lsn = s->bound_lsn,
        .beside = lane->writes_in_flight,
        .dsync = lane->way.dsync,
        .submit_ns = clock_read_ns(CLOCK_MONOTONIC),
    };
    int64_t taken_ns = f->submit_ns;
    flight_submit(lane, f, id);
    RF_PROBE3(submit, lane->o.lane, s->end_lsn, s->bytes);
    if (lane->o.stages && lane->latched == 0)
        lane_stages_submitted(lane, s->end_lsn, taken_ns, clock_read_ns(CLOCK_MONOTONIC));
    pass_span(lane, s);
}

static bool may_write(struct wal_lane *lane)
{
    if (lane->latched != 0) return false;
    if (lane->writes_in_flight >= lane->o.depth) return false;
    if (lane->flight_tail - lane->flight_head >= LANE_FLIGHTS) return false;
    /* An OFF lane writes what is asked for (flush, close, trim) and nothing else. */
    return lane->o.mode != WAL_OFF || lane->submit_lsn < atomic_load(&lane->flush_target);
}

/* Beside a write in flight, another one starts only for a full segment or LANE_SECOND_WRITE. */
static bool is_worth(const struct wal_lane *lane)
{
    if (lane->submit_seg->seal_file_end != 0) return true;
    uint64_t waiting = lane->scan_lsn - lane->submit_lsn;
    return waiting >= (lane->writes_in_flight > 0 ? LANE_SECOND_WRITE_BYTES : 1);
}

bool lane_write_step(struct wal_lane *lane)
{
    scan(lane);
    while (may_write(lane) && is_worth(lane)) {
        struct span s = next_span(lane);
        if (s.bytes == 0) break;
        if (is_lone(lane, &s)) {
            /* Its writers are answered before anybody else's write begins. */
            write_lone(lane, &s);
            return true;
        }
        write_queued(lane, &s);
        scan(lane);
    }
    lane_sync_step(lane);
    return false;
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
    if (!slot_is(lane_slot(lane, seq), seq, SLOT_RESERVED)) {
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
