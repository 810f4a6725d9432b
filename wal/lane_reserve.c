/* Reservation and publishing.
 *
 * One lock, held for a few instructions, yields the range, the arena room and the slot together, so
 * that seq order is lsn order. A record never crosses a segment: what is left of one becomes a pad
 * in a slot of its own, which its reserver publishes too. */
#include "wal/lane_impl.h"

#include <errno.h>
#include <string.h>

/* What one call takes under the lock. */
struct taken {
    struct wal_reservation r;
    bool padded; /* the rest of the older segment, to be published by the caller */
    uint64_t pad_seq;
};

static uint64_t slots_busy(struct wal_lane *lane, uint64_t next_seq)
{
    /* Acquire: who reads that a slot was passed also sees that its last user's fields were read. */
    uint64_t decided = atomic_load_explicit(&lane->decided_seq, memory_order_acquire);
    uint64_t scanned = atomic_load_explicit(&lane->scanned_seq, memory_order_acquire);
    return next_seq - (decided < scanned ? decided : scanned);
}

static struct slot *take_slot(struct wal_lane *lane, uint64_t seq, uint64_t lsn, uint32_t covered)
{
    struct slot *s = lane_slot(lane, seq);
    s->lsn = lsn;
    s->covered_bytes = covered;
    s->payload_bytes = 0;
    s->arena_at = 0;
    s->image = lane->cur->image;
    s->ticket = NULL;
    s->view = 0;
    s->named_by = SLOT_NOT_NAMED;
    atomic_store_explicit(&s->type, WAL_RECORD_PAD, memory_order_relaxed);
    atomic_store_explicit(&s->word, seq * 4 + SLOT_RESERVED, memory_order_release);
    return s;
}

static void advance(struct wal_lane *lane, uint64_t seq, uint64_t lsn)
{
    lane->next_lsn = lsn;
    /* S2: readers that see the seq see the slot's word and fields written above. */
    atomic_store_explicit(&lane->next_seq, seq, memory_order_release);
    atomic_store_explicit(&lane->reserved_lsn, lsn, memory_order_release);
}

/* Zeros have landed there: nobody writes behind them. */
static bool filled(const struct wal_lane *lane, uint64_t covered)
{
    const struct wal_seg *seg = lane->cur;
    uint64_t filled_end = atomic_load_explicit(&seg->filled_end, memory_order_acquire);
    return lane->next_lsn - seg->number * lane->o.segment_bytes + covered <= filled_end;
}

/* A segment that the ring has room for is not ready yet: counts it, once. Lock held. */
static void note_late(struct wal_lane *lane, uint64_t ready)
{
    uint64_t live = ready - atomic_load_explicit(&lane->head_number, memory_order_relaxed) + 1;
    if (live >= lane->o.segments_max || lane->late_number == ready + 1) return;
    lane->late_number = ready + 1;
    atomic_fetch_add_explicit(&lane->segments_late, 1, memory_order_relaxed);
}

/* Goes to the next segment; the rest of the present one becomes a pad. Lock held. */
static int next_segment(struct wal_lane *lane, struct taken *t)
{
    struct wal_seg *seg = lane->cur;
    /* R1: the segment's fields were written before ready_number said that it is there. Segment n
     * takes its first record only when n + 1 is there: a lost segment always leaves a gap. */
    uint64_t ready = atomic_load_explicit(&lane->ready_number, memory_order_acquire);
    if (ready < seg->number + 2) {
        note_late(lane, ready);
        return -EAGAIN;
    }
    if (lane->next_lsn < seg_end_lsn(lane, seg->number) && !filled(lane, WAL_RECORD_HEAD_BYTES))
        return -EAGAIN; /* the pad's header would be overwritten by zeros */
    uint64_t seq = atomic_load_explicit(&lane->next_seq, memory_order_relaxed); /* ours: locked */
    uint64_t end = seg_end_lsn(lane, seg->number);
    if (lane->next_lsn < end) {
        take_slot(lane, seq, lane->next_lsn, (uint32_t)(end - lane->next_lsn));
        t->padded = true;
        t->pad_seq = seq;
        seq++;
    }
    struct wal_seg *next = lane_seg(lane, seg->number + 1);
    CHECK(next != NULL && next->number == seg->number + 1);
    lane->cur = next;
    atomic_store_explicit(&lane->cur_number, next->number, memory_order_release);
    advance(lane, seq, seg_first_lsn(lane, next->number));
    return 0;
}

static bool fits(const struct wal_lane *lane, uint64_t covered, uint32_t arena_bytes, bool control)
{
    const struct wal_seg *seg = lane->cur;
    uint64_t end = seg_end_lsn(lane, seg->number);
    if (!control) end -= lane_control_bytes(lane);
    return lane->next_lsn + covered <= end &&
           seg->arena_next + arena_bytes <= seg->image->arena_bytes;
}

/* What is asked for. */
struct wish {
    uint32_t payload_bytes;
    uint32_t arena_bytes;
    bool control;
    uint64_t view;
    struct wal_ticket *ticket;
};

static int take_locked(struct wal_lane *lane, const struct wish *w, struct taken *t)
{
    uint64_t covered = wal_record_covered(w->payload_bytes);
    int latched =
        atomic_load_explicit(&lane->latched, memory_order_relaxed); /* set under the lock */
    if (latched != 0) return -RFE_LATCHED;
    uint64_t seq = atomic_load_explicit(&lane->next_seq, memory_order_relaxed);
    uint32_t spare = w->control ? 2 : LANE_CONTROL_SLOTS;
    if (slots_busy(lane, seq) + spare >= WAL_LANE_SLOTS) return -EAGAIN;
    /* R1. Only after a resume can the present segment be one whose successor is not there yet. */
    if (atomic_load_explicit(&lane->ready_number, memory_order_acquire) <= lane->cur->number)
        return -EAGAIN;
    if (!fits(lane, covered, w->arena_bytes, w->control)) {
        int rc = next_segment(lane, t);
        if (rc != 0) return rc;
        seq = atomic_load_explicit(&lane->next_seq, memory_order_relaxed);
    }
    if (!filled(lane, covered)) return -EAGAIN;
    struct wal_seg *seg = lane->cur;
    struct slot *s = take_slot(lane, seq, lane->next_lsn, (uint32_t)covered);
    s->arena_at = seg->arena_next;
    s->payload_bytes = w->payload_bytes;
    s->ticket = w->ticket;
    s->view = w->view;
    /* A batch from here on: a fence may void it. */
    if (!w->control) atomic_store_explicit(&s->type, WAL_RECORD_DATA, memory_order_relaxed);
    seg->arena_next += w->arena_bytes;
    t->r.image = seg->image;
    t->r.record = seg->image->base + (lane->next_lsn - seg->number * lane->o.segment_bytes);
    t->r.payload = t->r.record + WAL_RECORD_HEAD_BYTES;
    t->r.arena_at = s->arena_at;
    t->r.lsn = lane->next_lsn;
    t->r.seq = seq;
    advance(lane, seq + 1, lane->next_lsn + covered);
    return 0;
}

static void seal(struct wal_lane *lane, uint64_t lsn, uint32_t covered, uint32_t payload_bytes,
                 uint8_t type)
{
    struct wal_seg *seg = lane_seg(lane, lsn_segment(lsn, lane->o.segment_bytes));
    uint8_t *record = seg->image->base + lsn_offset(lsn, lane->o.segment_bytes);
    struct wal_record_head h = {
        .lsn = lsn,
        .mark = lane_mark(lane),
        .payload_bytes = payload_bytes,
        .covered_bytes = covered,
        .type = type,
        .version = WAL_RECORD_VERSION,
    };
    h.payload_checksum =
        wal_payload_checksum(record + WAL_RECORD_HEAD_BYTES, payload_bytes, seg->salt);
    wal_record_encode(record, &h, seg->salt);
}

/* Whether a lane asleep wants to hear of this slot. An OFF lane only takes slots back until it is
 * asked to write, and whoever asks wakes it: a quarter of its slots at a time is soon enough. Should
 * it sleep over the slots behind a late one, who finds none left wakes it (wal_reserve_wait). Behind
 * a pad the segment is another one, and the next one is to be made. (The slot of the pad may have
 * been used again by now: then somebody else has told the lane.) */
static bool is_news(struct wal_lane *lane, uint64_t seq)
{
    return lane->o.mode != WAL_OFF || seq % (WAL_LANE_SLOTS / 4) == 0 ||
           atomic_load_explicit(&lane->waiters, memory_order_relaxed) != 0 ||
           atomic_load_explicit(&lane_slot(lane, seq - 1)->type, memory_order_relaxed) ==
               WAL_RECORD_PAD;
}

/* Wakes the lane when it has to know: always from the futex, in the ring only when enough waits. */
static void announce(struct wal_lane *lane, uint64_t seq, uint64_t bytes)
{
    /* Sequentially consistent: a full fence between the slot's release store and the load of
     * sleep_word. The lane stores sleep_word, fences, then looks at published_bytes again: one of
     * the two sees the other, so no publish is slept over. */
    uint64_t before = atomic_fetch_add(&lane->published_bytes, bytes);
    uint32_t sleep = atomic_load(&lane->sleep_word);
    if (sleep == LANE_ON_FUTEX && is_news(lane, seq)) {
        uint32_t expected = LANE_ON_FUTEX;
        if (atomic_compare_exchange_strong(&lane->sleep_word, &expected, LANE_AWAKE))
            futex_wake_one(&lane->sleep_word);
    } else if (sleep == LANE_IN_RING && before + bytes >= atomic_load(&lane->ring_wake_at)) {
        /* The first that gets it over the line wakes. While a slot in front is not published the
         * line is passed already, and who fills that gap must wake too: so no look at `before`. */
        uint32_t expected = LANE_IN_RING;
        if (atomic_compare_exchange_strong(&lane->sleep_word, &expected, LANE_AWAKE))
            io_queue_wake(lane->queue);
    }
}

/* Returns the bytes to announce. */
static uint64_t set_published(struct wal_lane *lane, uint64_t seq, uint8_t type)
{
    struct slot *s = lane_slot(lane, seq);
    atomic_store_explicit(&s->type, type, memory_order_relaxed); /* S1 orders it */
    uint64_t bytes = s->covered_bytes; /* the slot may be reused once the word is out */
    atomic_store_explicit(&s->word, seq * 4 + SLOT_PUBLISHED, memory_order_release); /* S1 */
    return bytes;
}

static void publish_slot(struct wal_lane *lane, uint64_t seq, uint8_t type)
{
    announce(lane, seq, set_published(lane, seq, type));
}

/* followed: the caller publishes a record behind it at once, which wakes for both. */
static void publish_pad(struct wal_lane *lane, const struct taken *t, bool followed)
{
    if (!t->padded) return;
    struct slot *s = lane_slot(lane, t->pad_seq);
    atomic_fetch_add_explicit(&lane->stat_pad_bytes, s->covered_bytes, memory_order_relaxed);
    seal(lane, s->lsn, s->covered_bytes, 0, WAL_RECORD_PAD);
    uint64_t bytes = set_published(lane, t->pad_seq, WAL_RECORD_PAD);
    if (followed) /* a lane about to sleep sees that there is more; one asleep is woken soon */
        atomic_fetch_add(&lane->published_bytes, bytes);
    else
        announce(lane, t->pad_seq, bytes);
}

static int reserve(struct wal_lane *lane, const struct wish *w, struct wal_reservation *out)
{
    struct taken t = {.padded = false};
    spin_acquire(&lane->reserve_lock);
    int rc = take_locked(lane, w, &t);
    spin_release(&lane->reserve_lock);
    publish_pad(lane, &t, rc == 0);
    if (rc != 0) return rc;
    t.r.payload_bytes = w->payload_bytes;
    struct wal_ticket *ticket = w->ticket;
    if (ticket != NULL) {
        ticket->lsn = t.r.lsn;
        ticket->view = w->view;
        ticket->code = 0;
        ticket->next = NULL;
        ticket->sealed_mono_ns = ticket->taken_mono_ns = ticket->submit_mono_ns = 0;
        ticket->durable_mono_ns = ticket->decided_mono_ns = 0;
    }
    *out = t.r;
    return 0;
}

bool wal_record_fits(const struct wal_lane *lane, uint32_t payload_bytes, uint32_t arena_bytes)
{
    uint64_t room =
        lane->o.segment_bytes - 2 * (uint64_t)lane->o.block_bytes - lane_control_bytes(lane);
    return wal_record_covered(payload_bytes) <= room && arena_bytes <= lane->arena_room;
}

int wal_reserve(struct wal_lane *lane, uint32_t payload_bytes, uint32_t arena_bytes, uint64_t view,
                struct wal_ticket *ticket, struct wal_reservation *reservation_out)
{
    if (atomic_load_explicit(&lane->closing, memory_order_relaxed)) return -RFE_CLOSING;
    if (!wal_record_fits(lane, payload_bytes, arena_bytes)) return -RFE_ENTRY_TOO_LARGE;
    if (atomic_load_explicit(&lane->waiters, memory_order_relaxed) != 0) return -EAGAIN;
    const struct wish w = {payload_bytes, arena_bytes, false, view, ticket};
    int rc = reserve(lane, &w, reservation_out);
    if (rc == -EAGAIN) lane_prep_kick(lane);
    return rc;
}

int lane_reserve_control(struct wal_lane *lane, uint32_t payload_bytes, struct wal_reservation *out)
{
    const struct wish w = {.payload_bytes = payload_bytes, .control = true};
    return reserve(lane, &w, out);
}

void lane_publish_control(struct wal_lane *lane, const struct wal_reservation *r, uint8_t type)
{
    uint32_t covered = (uint32_t)wal_record_covered(r->payload_bytes);
    seal(lane, r->lsn, covered, r->payload_bytes, type);
    struct wal_ticket *ticket = lane_slot(lane, r->seq)->ticket;
    RF_PROBE2(checksum, ticket, r->lsn);
    if (RF_UNLIKELY(lane->o.stages) && ticket != NULL)
        ticket->sealed_mono_ns = clock_read_ns(CLOCK_MONOTONIC);
    publish_slot(lane, r->seq, type);
}

void wal_publish(struct wal_lane *lane, const struct wal_reservation *r, uint8_t type)
{
    lane_publish_control(lane, r, type);
    if (lane->o.mode != WAL_SYNC) lane_decide(lane);
}

void wal_publish_void(struct wal_lane *lane, const struct wal_reservation *r)
{
    uint32_t covered = (uint32_t)wal_record_covered(r->payload_bytes);
    lane_slot(lane, r->seq)->ticket = NULL;
    seal(lane, r->lsn, covered, 0, WAL_RECORD_VOID);
    publish_slot(lane, r->seq, WAL_RECORD_VOID);
    if (lane->o.mode != WAL_SYNC) lane_decide(lane);
}

bool lane_pad_block(struct wal_lane *lane, uint64_t published_lsn)
{
    uint64_t end = align_up(published_lsn, lane->o.block_bytes);
    struct taken t = {.padded = false};
    spin_acquire(&lane->reserve_lock);
    uint64_t seq = atomic_load_explicit(&lane->next_seq, memory_order_relaxed);
    if (lane->next_lsn == published_lsn && end > published_lsn &&
        slots_busy(lane, seq) < WAL_LANE_SLOTS) {
        take_slot(lane, seq, published_lsn, (uint32_t)(end - published_lsn));
        t.padded = true;
        t.pad_seq = seq;
        advance(lane, seq + 1, end);
    }
    spin_release(&lane->reserve_lock);
    publish_pad(lane, &t, false);
    return t.padded;
}

/* ---- waiting for room, in order of arrival ---- */

static void waiter_join(struct wal_lane *lane, struct waiter *w)
{
    atomic_init(&w->word, 0);
    w->next = NULL;
    lock_acquire(&lane->waiters_lock);
    if (lane->waiters_tail != NULL)
        lane->waiters_tail->next = w;
    else
        lane->waiters_head = w;
    lane->waiters_tail = w;
    /* Sequentially consistent: against lane_signal_room, which frees room first and then looks. */
    atomic_fetch_add(&lane->waiters, 1);
    lock_release(&lane->waiters_lock);
}

static void waiter_leave(struct wal_lane *lane, struct waiter *w)
{
    lock_acquire(&lane->waiters_lock);
    struct waiter **at = &lane->waiters_head, *previous = NULL;
    while (*at != w) {
        previous = *at;
        at = &(*at)->next;
    }
    *at = w->next;
    if (lane->waiters_tail == w) lane->waiters_tail = previous;
    atomic_fetch_sub(&lane->waiters, 1);
    lock_release(&lane->waiters_lock);
    lane_signal_room(lane); /* whoever is first now looks for himself */
}

static bool waiter_is_first(struct wal_lane *lane, const struct waiter *w)
{
    lock_acquire(&lane->waiters_lock);
    bool first = lane->waiters_head == w;
    lock_release(&lane->waiters_lock);
    return first;
}

void lane_signal_room(struct wal_lane *lane)
{
    fence_full(); /* the freed room before the look at waiters; pairs with waiter_join */
    if (atomic_load(&lane->waiters) == 0) return;
    lock_acquire(&lane->waiters_lock);
    struct waiter *w = lane->waiters_head;
    if (w != NULL) {
        atomic_store(&w->word, 1);
        futex_wake_one(&w->word); /* under the lock: the waiter can't leave, and free, before */
    }
    lock_release(&lane->waiters_lock);
}

static int no_room_code(struct wal_lane *lane)
{
    int space = atomic_load(&lane->space_error);
    if (space == -ENOSPC || space == -EDQUOT || space == -EFBIG) return -RFE_DISK_FULL;
    return -ETIMEDOUT;
}

int wal_reserve_wait(struct wal_lane *lane, uint32_t payload_bytes, uint32_t arena_bytes,
                     uint64_t view, struct wal_ticket *ticket, int64_t deadline_mono_ns,
                     bool (*keep_on)(void *ctx), void *ctx, struct wal_reservation *out)
{
    int rc = wal_reserve(lane, payload_bytes, arena_bytes, view, ticket, out);
    if (rc != -EAGAIN) return rc;
    atomic_fetch_add_explicit(&lane->stat_room_waits, 1, memory_order_relaxed);
    const struct wish wish = {payload_bytes, arena_bytes, false, view, ticket};
    struct waiter w;
    waiter_join(lane, &w);
    for (;;) {
        atomic_store(&w.word, 0);
        rc = -EAGAIN;
        if (atomic_load(&lane->closing))
            rc = -RFE_CLOSING;
        else if (waiter_is_first(lane, &w))
            rc = reserve(lane, &wish, out);
        if (rc != -EAGAIN) break;
        lane_prep_kick(lane);
        if (lane->o.mode == WAL_OFF) lane_wake(lane);
        int64_t left = deadline_mono_ns - clock_read_ns(CLOCK_MONOTONIC);
        if (left <= 0) {
            rc = no_room_code(lane);
            break;
        }
        (void)futex_wait(&w.word, 0, left < 50000000 ? left : 50000000);
        if (keep_on != NULL && !keep_on(ctx)) {
            rc = -ECANCELED;
            break;
        }
    }
    waiter_leave(lane, &w);
    return rc;
}
