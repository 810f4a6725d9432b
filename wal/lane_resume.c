/* Going on after a latch.
 *
 * A latched lane has the marks of the moment at which it failed: V, and the durable mark D. All that
 * is undecided was made void in memory and answered with -RFE_WAL_ERROR, so nothing at or above V
 * may ever come back, and everything below V must stay: its readers have seen it.
 *
 * Resume waits until nothing is in flight, every reserved slot is published and every batch is
 * answered. Then nobody writes to an image, no late write can land, and V stands still. It
 *
 *   1. writes, in an ASYNC or OFF lane, what is visible and not durable, [D, V), once more from its
 *      images to where it belongs, and syncs. In a SYNC lane V <= D: there is nothing to do.
 *   2. cuts the log at p = V (wal/cut.h, resume): each later segment gets a fresh salt, the next one
 *      last, whose header names p. From that write on, what lies behind p is not in the log.
 *   3. goes on in the segment behind the last one that was reserved in, so that no image is used
 *      again. The segments between, of which nothing is in the log now, each become one long pad.
 *   4. V, D and the place of the next reservation move there, and the latch is taken away.
 *
 * Why step 1 writes in place, and not new records at the end. The extents of a visible batch point
 * into its image at its lsn, and a published byte never changes: image, extents and record are the
 * same thing before and after, so V, order, replay and trim need no second rule. New records would
 * need room for as much as the whole ring holds (an OFF lane may have written nothing at all), would
 * give a batch two lsns, and would put it behind the deletes that had come after it. Nothing durable
 * is touched: D is a block's boundary. No sync is retried into success either: every byte since the
 * last good sync is written again before the new one.
 *
 * A crash anywhere: before the header of step 2 is in force the old log ends at or above V, as after
 * any crash, and nobody was told that the lane goes on. After it, the log ends at p or behind, with
 * empty or padded segments. A resume that fails changes no mark; the next one begins at the top,
 * with the headers as they stand on the disk. */
#include "wal/lane_impl.h"

#include "wal/cut.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static bool is_quiet(struct wal_lane *lane)
{
    if (lane->writes_in_flight > 0 || lane->sync_in_flight) return false;
    uint64_t next = atomic_load_explicit(&lane->next_seq, memory_order_acquire); /* S2; final */
    return atomic_load_explicit(&lane->decided_seq, memory_order_acquire) == next &&
           atomic_load_explicit(&lane->scanned_seq, memory_order_relaxed) == next;
}

static int failed(struct wal_lane *lane, uint64_t number, const char *what, int rc)
{
    char path[WAL_PATH_BYTES];
    wal_segment_path(path, lane->o.lane, number);
    return err_set(&lane->resume_msg, rc, "%s: %s: %s", path, what, err_text(rc));
}

/* ---- step 1 ---- */

/* Where the bytes of a segment below V end in its file. */
static uint64_t visible_file_end(struct wal_lane *lane, const struct wal_seg *seg, uint64_t visible)
{
    if (visible >= seg_end_lsn(lane, seg->number)) return seg->seal_file_end;
    return align_up(visible - seg->number * lane->o.segment_bytes, lane->o.block_bytes);
}

static int write_again(struct wal_lane *lane, struct wal_seg *seg, uint64_t from, uint64_t to)
{
    int rc = 0;
    while (rc == 0 && from < to) {
        uint64_t n = to - from < LANE_WRITE_BYTES_MAX ? to - from : LANE_WRITE_BYTES_MAX;
        rc = io_pwrite(seg->file, seg->image->base + from, n, from, 0, NULL);
        from += n;
    }
    if (rc == 0) rc = io_sync(seg->file);
    return rc == 0 ? 0 : failed(lane, seg->number, "writing what is visible again", rc);
}

static int write_visible(struct wal_lane *lane)
{
    uint64_t visible = wal_visible(lane), durable = wal_durable(lane);
    if (visible <= durable) return 0;
    uint64_t first = lsn_segment(durable, lane->o.segment_bytes);
    uint64_t last = lsn_segment(visible, lane->o.segment_bytes);
    for (uint64_t number = first; number <= last; number++) {
        struct wal_seg *seg = lane_seg(lane, number);
        uint64_t from =
            number == first ? lsn_offset(durable, lane->o.segment_bytes) : lane->o.block_bytes;
        int rc = write_again(lane, seg, from, visible_file_end(lane, seg, visible));
        if (rc != 0) return rc;
    }
    return 0;
}

/* ---- step 2 ---- */

/* The headers as they are on the disk: an earlier resume may have failed between two writes. */
static int read_heads(struct wal_lane *lane, struct wal_live_segment *segments, uint64_t first,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct wal_seg *seg = lane_seg(lane, first + i);
        struct wal_segment_id id = {.segment_bytes = lane->o.segment_bytes,
                                    .block_bytes = lane->o.block_bytes,
                                    .lane = lane->o.lane,
                                    .number = seg->number};
        memcpy(id.uuid, lane->o.uuid, WAL_UUID_BYTES);
        char path[WAL_PATH_BYTES];
        wal_segment_path(path, lane->o.lane, seg->number);
        struct wal_live_segment *s = &segments[i];
        *s = (struct wal_live_segment){.number = seg->number, .file = seg->file};
        int rc =
            wal_segment_head_read(seg->file, &id, path, &lane->resume_msg, &s->head, &s->weak_copy);
        if (rc != 0) return rc;
    }
    return 0;
}

static int cut(struct wal_lane *lane, uint64_t p)
{
    uint64_t first = lsn_segment(p, lane->o.segment_bytes);
    uint32_t count = (uint32_t)(atomic_load(&lane->ready_number) - first + 1);
    struct wal_live_segment *segments = mem_zalloc_array(count, sizeof *segments);
    if (segments == NULL) return failed(lane, first, "resuming", -ENOMEM);
    int rc = read_heads(lane, segments, first, count);
    const struct wal_cut_options o = {
        .lane = lane->o.lane,
        .segment_bytes = lane->o.segment_bytes,
        .block_bytes = lane->o.block_bytes,
        .segments = segments,
        .count = count,
        .p_lsn = p,
        .resume = true,
    };
    struct wal_append_point point;
    if (rc == 0) rc = wal_cut_write(&o, &lane->resume_msg, &point);
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        struct wal_seg *seg = lane_seg(lane, first + i);
        seg->head = segments[i].head;
        seg->salt = seg->head.salt;
    }
    mem_free(segments);
    return rc;
}

/* ---- step 3 ---- */

/* Not from the image: what was published there stays as it is. */
static int write_pad(struct wal_lane *lane, struct wal_seg *seg, uint64_t p)
{
    uint8_t *block = mem_alloc_aligned(4096, lane->o.block_bytes);
    if (block == NULL) return failed(lane, seg->number, "resuming", -ENOMEM);
    memset(block, 0, lane->o.block_bytes);
    uint64_t lsn = seg_first_lsn(lane, seg->number);
    const struct wal_record_head h = {
        .lsn = lsn,
        .mark = p,
        .covered_bytes = (uint32_t)(seg_end_lsn(lane, seg->number) - lsn),
        .type = WAL_RECORD_PAD,
        .version = WAL_RECORD_VERSION,
    };
    wal_record_encode(block, &h, seg->salt);
    int rc = io_pwrite(seg->file, block, lane->o.block_bytes, lane->o.block_bytes, 0, NULL);
    if (rc == 0) rc = io_sync(seg->file);
    mem_free(block);
    return rc == 0 ? 0 : failed(lane, seg->number, "writing a pad", rc);
}

static int write_pads(struct wal_lane *lane, uint64_t p, uint64_t last)
{
    for (uint64_t n = lsn_segment(p, lane->o.segment_bytes) + 1; n <= last; n++) {
        int rc = write_pad(lane, lane_seg(lane, n), p);
        if (rc != 0) return rc;
    }
    return 0;
}

/* ---- step 4 ---- */

static void go_on(struct wal_lane *lane, uint64_t number)
{
    while (!lane_section_enter(lane)) /* who is inside finds nothing to decide, and leaves */
        cpu_relax();                  /* race: somebody is inside at this moment */
    spin_acquire(&lane->reserve_lock);
    lane_place(lane, seg_first_lsn(lane, number));
    lane->flight_head = lane->flight_tail;
    lane->fence_pending = false;
    lane->stuck_looks = 0;
    lane->durable_moved_ns = clock_read_ns(CLOCK_MONOTONIC);
    atomic_store_explicit(&lane->latched, 0, memory_order_release);
    spin_release(&lane->reserve_lock);
    lane_section_leave(lane);
}

/* prep_lock held: no trim, and no segment handed out, meanwhile. */
static int resume_locked(struct wal_lane *lane)
{
    int rc = write_visible(lane);
    if (rc != 0) return rc;
    uint64_t p = wal_visible(lane);
    /* V at the very end of a segment that a trim has freed: the log begins behind it. */
    if (lsn_segment(p, lane->o.segment_bytes) < atomic_load(&lane->head_number))
        p = lsn_normal(p, lane->o.segment_bytes, lane->o.block_bytes);
    uint64_t last = atomic_load(&lane->cur_number);
    rc = cut(lane, p);
    if (rc == 0) rc = write_pads(lane, p, last);
    if (rc != 0) return rc;
    go_on(lane, last + 1);
    log_info(lane->o.log, "wal.resumed", "lane=%" PRIu32 " cut=%" PRIu64 " segment=%" PRIu64,
             lane->o.lane, p, last + 1);
    return 0;
}

static int resume(struct wal_lane *lane)
{
    lane->resume_msg = (struct err_msg){0};
    if (lane->latched == 0) return 0;
    lock_acquire(&lane->prep_lock);
    int rc = resume_locked(lane);
    lock_release(&lane->prep_lock);
    if (rc != 0) /* what has a place of its own was said there */
        return err_set(&lane->resume_msg, rc, "lane %" PRIu32 ": resuming: %s", lane->o.lane,
                       err_text(rc));
    lane_durable_moved(lane);
    lane_signal_room(lane);
    lane_prep_kick(lane);
    return 0;
}

void lane_resume_step(struct wal_lane *lane)
{
    lane->seen_resume = atomic_load(&lane->resume_state);
    if (lane->seen_resume != RESUME_ASKED || !is_quiet(lane)) return;
    uint32_t state = RESUME_ASKED;
    if (!atomic_compare_exchange_strong(&lane->resume_state, &state, RESUME_RUNNING)) return;
    lane->resume_rc = resume(lane);
    state = RESUME_RUNNING;
    if (!atomic_compare_exchange_strong(&lane->resume_state, &state, RESUME_DONE))
        atomic_store(&lane->resume_state, RESUME_NONE);
    futex_wake_all(&lane->resume_state);
}

/* ---- asking ---- */

static void wait_for_change(struct wal_lane *lane, uint32_t state, int64_t left_ns)
{
    if (lane->o.no_threads)
        (void)lane_step(lane);
    else
        (void)futex_wait(&lane->resume_state, state, left_ns);
}

/* Takes the question back; false when it has been answered meanwhile. */
static bool give_up(struct wal_lane *lane)
{
    uint32_t state = RESUME_ASKED;
    if (atomic_compare_exchange_strong(&lane->resume_state, &state, RESUME_NONE)) {
        futex_wake_all(&lane->resume_state);
        return true;
    }
    state = RESUME_RUNNING;
    return atomic_compare_exchange_strong(&lane->resume_state, &state, RESUME_UNWATCHED);
}

static int late(struct wal_lane *lane, struct err_msg *msg)
{
    return err_set(msg, -ETIMEDOUT,
                   "lane %" PRIu32 ": still waiting for writes in flight, or for a batch that was "
                   "begun and not ended",
                   lane->o.lane);
}

int wal_lane_resume(struct wal_lane *lane, int64_t deadline_mono_ns, struct err_msg *msg)
{
    bool asked = false;
    for (;;) {
        if (!asked && atomic_load(&lane->latched) == 0) return 0;
        uint32_t state = RESUME_NONE;
        if (!asked && atomic_compare_exchange_strong(&lane->resume_state, &state, RESUME_ASKED)) {
            asked = true;
            state = RESUME_ASKED;
            lane_wake(lane);
        } else if (asked) {
            state = atomic_load(&lane->resume_state);
        }
        if (asked && state == RESUME_DONE) break;
        int64_t left_ns = deadline_mono_ns - clock_read_ns(CLOCK_MONOTONIC);
        if (left_ns <= 0 && (!asked || give_up(lane))) return late(lane, msg);
        wait_for_change(lane, state, left_ns > 0 ? left_ns : 0);
    }
    int rc = lane->resume_rc;
    if (rc != 0 && msg != NULL) *msg = lane->resume_msg;
    atomic_store(&lane->resume_state, RESUME_NONE);
    futex_wake_all(&lane->resume_state);
    return rc;
}
