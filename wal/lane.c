/* A lane's life, its thread's loop, sleeping and waking. */
#include "wal/lane_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- life ---- */

int wal_lane_create(const struct wal_lane_options *options, struct wal_lane **lane_out,
                    struct err_msg *msg)
{
    if (options->segments_max < 4 || options->segments_max >= LANE_SEGMENTS_MAX - 4)
        return err_set(msg, -EINVAL, "a lane takes 4 to %" PRIu32 " segments, not %" PRIu32,
                       LANE_SEGMENTS_MAX - 5, options->segments_max);
    struct wal_lane *lane = mem_alloc_aligned(RF_CACHE_LINE, sizeof *lane);
    if (lane == NULL) return err_set(msg, -ENOMEM, "no memory for a lane");
    memset(lane, 0, sizeof *lane);
    lane->magic = LANE_MAGIC;
    lane->o = *options;
    lock_init(&lane->waiters_lock, LOCK_RANK_WAITERS);
    lock_init(&lane->prep_lock, LOCK_RANK_WAL);
    lane->write_bytes_max = options->write_bytes != 0 ? options->write_bytes : 1u << 20;
    lane->ready_kept = LANE_READY_AT_REST;
    lane->started_ns = clock_read_ns(CLOCK_MONOTONIC);
    atomic_init(&lane->close_view, UINT64_MAX);
    *lane_out = lane;
    return 0;
}

int wal_lane_adopt(struct wal_lane *lane, const struct wal_found *found,
                   struct wal_image **image_out)
{
    struct wal_seg *seg = mem_zalloc(sizeof *seg);
    if (seg == NULL) return -ENOMEM;
    int rc = lane_image_take(lane, &seg->image);
    if (rc != 0) {
        mem_free(seg);
        return rc;
    }
    seg->number = found->head.number;
    seg->file = found->file;
    seg->head = found->head;
    seg->salt = found->head.salt;
    atomic_init(&seg->filled_end, lane->o.segment_bytes);
    seg->image->number = seg->number;
    seg->arena_next =
        lane->o.hooks.attached(lane->o.hooks.ctx, seg->image, seg->number * lane->o.segment_bytes);
    if (lane->arena_room == 0) lane->arena_room = seg->image->arena_bytes - seg->arena_next;
    lane->segs[seg->number % LANE_SEGMENTS_MAX] = seg;
    if (atomic_load(&lane->head_number) == 0) atomic_store(&lane->head_number, seg->number);
    CHECK(atomic_load(&lane->ready_number) == 0 ||
          atomic_load(&lane->ready_number) + 1 == seg->number);
    atomic_store(&lane->ready_number, seg->number);
    *image_out = seg->image;
    return 0;
}

void wal_lane_settle(struct wal_lane *lane, const struct wal_segment_head *head,
                     uint64_t filled_bytes)
{
    struct wal_seg *seg = lane_seg(lane, head->number);
    CHECK(seg != NULL && seg->number == head->number);
    seg->head = *head;
    seg->salt = head->salt;
    atomic_store(&seg->filled_end, filled_bytes);
}

uint32_t wal_lane_replay_arena(struct wal_lane *lane, struct wal_image *image, uint32_t arena_bytes)
{
    struct wal_seg *seg = lane_seg(lane, image->number);
    if (seg->arena_next + arena_bytes > image->arena_bytes) return UINT32_MAX;
    uint32_t at = seg->arena_next;
    seg->arena_next += arena_bytes;
    return at;
}

int wal_lane_offer_free(struct wal_lane *lane, struct io_file *file, uint64_t free_number)
{
    if (lane->free_count == LANE_SEGMENTS_MAX) return -ENOMEM;
    lane->free_files[lane->free_count++] = (struct free_file){.file = file, .number = free_number};
    return 0;
}

void lane_place(struct wal_lane *lane, uint64_t lsn)
{
    lane->next_lsn = lane->scan_lsn = lane->submit_lsn = lane->marked_lsn = lsn;
    lane->scan_bound = lane->submit_bound = lsn;
    atomic_store(&lane->reserved_lsn, lsn);
    atomic_store(&lane->durable_bound, lsn);
    atomic_store(&lane->durable, lsn);
    atomic_store(&lane->visible, lsn);
    uint64_t number = lsn_segment(lsn, lane->o.segment_bytes);
    lane->cur = lane->submit_seg = lane_seg(lane, number);
    atomic_store(&lane->cur_number, number);
    CHECK(lane->cur != NULL && lane->cur->number == number);
    CHECK(lsn % lane->o.block_bytes == 0);
}

static void *lane_run(void *arg);

/* Whether a durable write may need no flush behind it. */
static int probe(struct wal_lane *lane)
{
    struct io_geometry g;
    int rc = io_geometry(lane->cur->file, &g);
    if (rc == 0) durable_way_init(&lane->way, g.fua && g.direct);
    return rc;
}

static int start_threads(struct wal_lane *lane)
{
    char name[16];
    snprintf(name, sizeof name, "rf-prep-%02" PRIu32, lane->o.lane);
    int rc = thread_start(&lane->prep_thread, name, lane_prep_run, lane);
    if (rc != 0) return rc;
    lane->prep_started = true;
    snprintf(name, sizeof name, "rf-lane-%02" PRIu32, lane->o.lane);
    rc = thread_start(&lane->thread, name, lane_run, lane);
    if (rc == 0) lane->thread_started = true;
    return rc;
}

int wal_lane_start(struct wal_lane *lane, const struct wal_start *start, struct err_msg *msg)
{
    lane->free_number = start->free_number;
    bool fresh = start->end_lsn == 0;
    uint64_t end = fresh ? seg_first_lsn(lane, 1)
                         : lsn_normal(start->end_lsn, lane->o.segment_bytes, lane->o.block_bytes);
    if (fresh) atomic_store(&lane->head_number, 1);
    atomic_store(&lane->cur_number, lsn_segment(end, lane->o.segment_bytes));
    if (start->read_only) {
        /* The log may end at the very end of its last segment. */
        uint64_t ready = atomic_load(&lane->ready_number);
        if (atomic_load(&lane->cur_number) > ready) atomic_store(&lane->cur_number, ready);
        atomic_store(&lane->visible, end);
        atomic_store(&lane->durable, end);
        atomic_store(&lane->reserved_lsn, end);
        lane_fit_ring(lane);
        return 0;
    }
    int rc = lane_prepare_first(lane, msg);
    if (rc != 0) return rc;
    lane_place(lane, end);
    lane_give_back(lane);
    lane_fit_ring(lane);
    /* A segment that a cut in its middle gave a new salt goes on under it. */
    if (!fresh && lsn_segment(start->end_lsn, lane->o.segment_bytes) == lane->cur->number)
        lane->cur->salt = start->salt;
    lane->durable_moved_ns = clock_read_ns(CLOCK_MONOTONIC);
    rc = probe(lane);
    if (rc != 0) return err_set(msg, rc, "lane %" PRIu32 ": %s", lane->o.lane, err_text(rc));
    struct io_queue_options qo = {
        .backend = lane->o.backend, .depth = lane->o.depth + 1, .log = lane->o.log};
    rc = io_queue_open(lane->o.env, &qo, &lane->queue);
    if (rc != 0)
        return err_set(msg, rc, "lane %" PRIu32 ": no queue: %s", lane->o.lane, err_text(rc));
    if (lane->o.no_threads) return 0;
    rc = start_threads(lane);
    if (rc != 0)
        return err_set(msg, rc, "lane %" PRIu32 ": no thread: %s", lane->o.lane, err_text(rc));
    return 0;
}

/* ---- waking ---- */

void lane_wake(struct wal_lane *lane)
{
    uint32_t sleep = atomic_exchange(&lane->sleep_word, LANE_AWAKE);
    if (sleep == LANE_ON_FUTEX) futex_wake_one(&lane->sleep_word);
    if (sleep == LANE_IN_RING) io_queue_wake(lane->queue);
}

void lane_durable_moved(struct wal_lane *lane)
{
    atomic_fetch_add(&lane->durable_word, 1); /* full fence before the look at the waiters */
    if (atomic_load(&lane->durable_waiters) != 0) futex_wake_all(&lane->durable_word);
}

/* ---- the thread ---- */

/* A record of the lane's own with no payload; room is not promised to it. */
static bool note(struct wal_lane *lane, uint8_t type, uint64_t *lsn_out)
{
    struct wal_reservation r;
    if (lane_reserve_control(lane, 0, &r) != 0) return false;
    lane_publish_control(lane, &r, type);
    *lsn_out = r.lsn;
    return true;
}

static bool mark_is_due(struct wal_lane *lane)
{
    return lane->o.mode != WAL_OFF && lane->latched == 0 && !lane->close_written &&
           lane_mark(lane) > lane->marked_lsn;
}

/* After a second without writes, the newest durable mark goes to disk in a record of its own; not
 * behind the close record, which is the last one of a clean log however long its sync takes. */
static void mark_step(struct wal_lane *lane)
{
    if (lane->close_written || !mark_is_due(lane) || lane_has_unscanned(lane)) return;
    if (clock_read_ns(CLOCK_MONOTONIC) - lane->durable_moved_ns < LANE_MARK_AFTER_NS) return;
    uint64_t lsn;
    if (!note(lane, WAL_RECORD_MARK, &lsn)) return;
    /* The mark record and its pad become durable too; nothing new is to be told about those. */
    lane->marked_lsn = align_up(lsn + WAL_RECORD_HEAD_BYTES, lane->o.block_bytes);
}

/* Longest sleep: for a mark to come, for a slot that is not published, else without limit. */
static int64_t sleep_ns(struct wal_lane *lane)
{
    if (atomic_load(&lane->decided_seq) != atomic_load(&lane->next_seq)) return LANE_STUCK_LOOK_NS;
    if (mark_is_due(lane)) return LANE_MARK_AFTER_NS + 10000000;
    return -1;
}

static void take_events(struct wal_lane *lane, int64_t timeout_ns)
{
    struct io_event events[64];
    int n = io_queue_wait(lane->queue, events, 64, timeout_ns);
    atomic_store(&lane->sleep_word, LANE_AWAKE);
    if (n < 0) {
        lane_latch(lane, n, "wait");
        return;
    }
    for (int i = 0; i < n; i++)
        lane_handle_event(lane, &events[i]);
}

static void sleep_in_ring(struct wal_lane *lane)
{
    /* Publishers wake when what is published and not submitted, slots behind a gap included, is
     * LANE_SECOND_WRITE_BYTES. */
    uint64_t waiting = lane->scan_lsn - lane->submit_lsn;
    uint64_t at = UINT64_MAX;
    if (waiting < LANE_SECOND_WRITE_BYTES && lane->writes_in_flight < lane->o.depth)
        at = lane->scanned_bytes + LANE_SECOND_WRITE_BYTES - waiting;
    atomic_store(&lane->ring_wake_at, at);
    atomic_fetch_add_explicit(&lane->stat_sleeps, 1, memory_order_relaxed); /* before any wake */
    atomic_store(&lane->sleep_word, LANE_IN_RING); /* full fence; pairs with announce() */
    uint64_t published = atomic_load(&lane->published_bytes);
    /* With a gap in front of them those bytes are of no use yet; its filler wakes the lane. */
    bool look_again = published >= at && published != lane->seen_bytes;
    take_events(lane, look_again ? 0 : LANE_STUCK_LOOK_NS);
}

/* Something that the present turn has not seen, and that wants another one. */
static bool has_news(struct wal_lane *lane)
{
    if (atomic_load(&lane->published_bytes) != lane->seen_bytes) return true;
    if (atomic_load(&lane->stop) != lane->seen_stop) return true;
    if (lane->latched != 0) return atomic_load(&lane->resume_state) != lane->seen_resume;
    return lane->o.mode == WAL_OFF && lane->scan_lsn > lane->submit_lsn &&
           lane->submit_lsn < atomic_load(&lane->flush_target);
}

static void sleep_on_futex(struct wal_lane *lane)
{
    int64_t timeout_ns = sleep_ns(lane);
    if (lane->seen_stop && timeout_ns < 0) timeout_ns = LANE_STUCK_LOOK_NS;
    atomic_fetch_add_explicit(&lane->stat_sleeps, 1, memory_order_relaxed); /* before any wake */
    atomic_store(&lane->sleep_word, LANE_ON_FUTEX); /* full fence; pairs with announce() */
    if (!has_news(lane)) (void)futex_wait(&lane->sleep_word, LANE_ON_FUTEX, timeout_ns);
    atomic_store(&lane->sleep_word, LANE_AWAKE);
}

/* Everything is decided, written and durable, or never will be. */
static bool at_rest(struct wal_lane *lane)
{
    if (lane->writes_in_flight > 0 || lane->sync_in_flight) return false;
    if (lane->latched != 0) return true;
    return lane->scan_lsn == lane->submit_lsn && lane->flight_head == lane->flight_tail &&
           !lane_has_unscanned(lane);
}

/* Once all is written, the close record goes behind it; once that is durable too, true. */
static bool may_stop(struct wal_lane *lane)
{
    if (!lane->seen_stop || !at_rest(lane)) return false;
    if (lane->latched != 0 || lane->close_written) return true;
    atomic_store(&lane->flush_target, UINT64_MAX);
    uint64_t lsn;
    lane->close_written = note(lane, WAL_RECORD_CLOSE, &lsn);
    if (lane->close_written) return false;
    /* Behind a resume the next segment may be under way still. In a log that is full the log ends
     * without the record, as after a crash. */
    if (lane->o.no_threads || !lane_successor_comes(lane)) return true;
    lane_prep_kick(lane);
    return false;
}

/* All of a turn that does not wait. */
static bool work(struct wal_lane *lane)
{
    lane->seen_bytes = atomic_load(&lane->published_bytes);
    lane->seen_stop = atomic_load(&lane->stop);
    bool again = lane_write_step(lane);
    lane_decide(lane);
    lane_check_stuck(lane);
    lane_resume_step(lane);
    return again;
}

static void *lane_run(void *arg)
{
    struct wal_lane *lane = arg;
    for (;;) {
        bool again = work(lane);
        if (may_stop(lane)) break;
        if (lane->writes_in_flight > 0 || lane->sync_in_flight)
            sleep_in_ring(lane);
        else if (!again)
            sleep_on_futex(lane);
        mark_step(lane);
    }
    atomic_store(&lane->ended, 1);
    futex_wake_all(&lane->ended);
    return NULL;
}

bool lane_step(struct wal_lane *lane)
{
    bool again = work(lane);
    if (may_stop(lane)) {
        atomic_store(&lane->ended, 1);
        return false;
    }
    if (lane->writes_in_flight > 0 || lane->sync_in_flight) {
        take_events(lane, 0);
        again = true;
    }
    mark_step(lane);
    return again || has_news(lane);
}

/* ---- marks and flush ---- */

uint64_t wal_visible(const struct wal_lane *lane)
{
    return atomic_load_explicit(&lane->visible, memory_order_acquire); /* V1 */
}
uint64_t wal_durable(const struct wal_lane *lane)
{
    return atomic_load_explicit(&lane->durable, memory_order_acquire);
}
uint64_t wal_reserved(const struct wal_lane *lane)
{
    return atomic_load_explicit(&lane->reserved_lsn, memory_order_acquire);
}
uint64_t wal_oldest(const struct wal_lane *lane)
{
    return seg_first_lsn(lane, atomic_load(&lane->head_number));
}
int wal_latched(const struct wal_lane *lane)
{
    return atomic_load_explicit(&lane->latched, memory_order_acquire);
}

static void raise(_Atomic uint64_t *word, uint64_t value)
{
    uint64_t was = atomic_load(word);
    while (was < value && !atomic_compare_exchange_weak(word, &was, value)) {
    }
}

int lane_flush_to(struct wal_lane *lane, uint64_t lsn, int64_t deadline_mono_ns)
{
    raise(&lane->flush_target, lsn);
    lane_wake(lane);
    atomic_fetch_add(&lane->durable_waiters, 1);
    int rc = 0;
    for (;;) {
        uint32_t word = atomic_load(&lane->durable_word);
        if (wal_durable(lane) >= lsn) break;
        rc = atomic_load(&lane->latched);
        if (rc != 0) break;
        int64_t left_ns = deadline_mono_ns - clock_read_ns(CLOCK_MONOTONIC);
        if (left_ns <= 0) {
            rc = -ETIMEDOUT;
            break;
        }
        if (lane->o.no_threads)
            (void)lane_step(lane);
        else
            (void)futex_wait(&lane->durable_word, word, left_ns);
    }
    atomic_fetch_sub(&lane->durable_waiters, 1);
    return rc;
}

int wal_flush(struct wal_lane *lane, int64_t deadline_mono_ns)
{
    return lane_flush_to(lane, wal_reserved(lane), deadline_mono_ns);
}

void wal_lane_stats(struct wal_lane *lane, struct wal_lane_stats *s)
{
    uint64_t cur = atomic_load(&lane->cur_number), ready = atomic_load(&lane->ready_number);
    uint64_t head = atomic_load(&lane->head_number);
    lock_acquire(&lane->prep_lock);
    *s = (struct wal_lane_stats){
        .writes = atomic_load(&lane->stat_writes),
        .syncs = atomic_load(&lane->stat_syncs),
        .bytes = atomic_load(&lane->stat_bytes),
        .pads_bytes = atomic_load(&lane->stat_pad_bytes),
        .segments_live = cur - head + 1,
        .segments_ready = ready - cur,
        .segments_free = lane->free_count,
        .segments_max = lane->o.segments_max,
        .segments_late = atomic_load_explicit(&lane->segments_late, memory_order_relaxed),
        .room_waits = atomic_load_explicit(&lane->stat_room_waits, memory_order_relaxed),
        .mapped_bytes = lane->images_count * wal_image_bytes(lane->o.segment_bytes),
        .prepared_ns = atomic_load(&lane->prepared_ns),
        .backend = lane->queue != NULL ? io_queue_backend(lane->queue) : "none",
    };
    lock_release(&lane->prep_lock);
}
