/* The lane's one decision.
 *
 * A decider takes the section (a word, by compare-and-swap: a full fence), looks once at deadline,
 * view and clock, and walks the slots from the last decided one up to the mark (durable in a SYNC
 * lane, published in an ASYNC or OFF one). Nothing inside can block. Then, by one release store, V
 * passes the group; what is visible is final.
 *
 *   live, the batch's own view          passes
 *   live, same epoch, other version     passes when it fits the new schema; else it is void alone:
 *                                       an abort record names it, V stops below it until that
 *                                       record is itself past the mark
 *   lapsed, or another epoch            everything reserved and undecided is void, published or
 *                                       not: one fence record "from V to here", reserved while the
 *                                       section is held; V stops there until the fence record is
 *                                       past the mark, then everybody below it is answered
 *
 * The fence voids by position. So a writer still copying below it has nothing to say any more, and
 * one that comes behind it is judged for itself.
 *
 * Whoever finds the section taken goes on: the holder looks again after letting go. */
#include "wal/lane_impl.h"

#include <errno.h>
#include <inttypes.h>

/* A group's answers, given after the section is left. */
struct answers {
    struct wal_ticket *head, **tail;
    int64_t now_ns;
};

static bool section_enter(struct wal_lane *lane)
{
    uint64_t s = atomic_load(&lane->section);
    /* Sequentially consistent: L3 of lease/view.h, a full fence between taking the section and the
     * look at the view. Either the plane, after publishing a view, sees the section taken and waits
     * for it, or the look below sees that view. */
    return (s & 1) == 0 && atomic_compare_exchange_strong(&lane->section, &s, s + 1);
}

static void section_leave(struct wal_lane *lane)
{
    atomic_fetch_add(&lane->section, 1);
}

static bool same_epoch(const struct wal_lane *lane, uint64_t a, uint64_t b)
{
    return a >> lane->o.hooks.epoch_shift == b >> lane->o.hooks.epoch_shift;
}

static void answer(struct wal_lane *lane, struct answers *a, struct slot *s, int code)
{
    struct wal_ticket *t = s->ticket;
    if (t == NULL) return;
    s->ticket = NULL;
    t->code = code;
    if (lane->o.stages) {
        t->submit_mono_ns = lane->group_submit_ns;
        t->durable_mono_ns = lane->group_durable_ns;
        t->decided_mono_ns = a->now_ns;
    }
    t->next = NULL;
    *a->tail = t;
    a->tail = &t->next;
}

static void give_answers(struct answers *a)
{
    for (struct wal_ticket *t = a->head, *next; t != NULL; t = next) {
        next = t->next;
        t->done(t);
    }
}

static void void_slot(struct wal_lane *lane, struct answers *a, struct slot *s, int code)
{
    if (!wal_record_is_batch(s->type)) return;
    lane->o.hooks.void_batch(lane->o.hooks.ctx, s->image, s->arena_at);
    answer(lane, a, s, code);
}

/* Whether the mark has passed this published slot. */
static bool past_mark(struct wal_lane *lane, const struct slot *s, uint64_t seq, uint64_t durable)
{
    if (!slot_is(s, seq, SLOT_PUBLISHED)) return false;
    return lane->o.mode != WAL_SYNC || s->lsn + s->covered_bytes <= durable;
}

/* Is anything reserved at or behind seq a batch of another epoch than `view`, or any batch at all
 * when not live? Under the reserve lock: types and views of reserved slots are stable there. */
static bool undecided_locked(struct wal_lane *lane, uint64_t seq, bool live, uint64_t view)
{
    uint64_t next = atomic_load_explicit(&lane->next_seq, memory_order_relaxed); /* locked */
    for (; seq != next; seq++) {
        struct slot *s = lane_slot(lane, seq);
        uint8_t type = atomic_load_explicit(&s->type, memory_order_relaxed);
        if (wal_record_is_batch(type) && (!live || !same_epoch(lane, s->view, view))) return true;
    }
    return false;
}

static bool needs_fence(struct wal_lane *lane, uint64_t seq, bool live, uint64_t view)
{
    spin_acquire(&lane->reserve_lock);
    bool yes = undecided_locked(lane, seq, live, view);
    spin_release(&lane->reserve_lock);
    return yes;
}

/* Reserves and publishes "void from V to here". */
static void fence(struct wal_lane *lane)
{
    struct wal_reservation r;
    if (lane_reserve_control(lane, WAL_FENCE_PAYLOAD_BYTES, &r) != 0) return; /* looked at again */
    wal_fence_encode(r.payload, atomic_load_explicit(&lane->visible, memory_order_relaxed));
    lane->fence_pending = true;
    lane->fence_seq = r.seq;
    lane_publish_control(lane, &r, WAL_RECORD_FENCE);
}

/* Names every unfit batch from seq on that the mark has passed, in one abort record. */
static void abort_unfit(struct wal_lane *lane, uint64_t seq, uint64_t durable, uint64_t view)
{
    uint64_t lsns[64];
    uint32_t n = 0;
    for (; n < 64; seq++) {
        struct slot *s = lane_slot(lane, seq);
        if (!past_mark(lane, s, seq, durable)) break;
        if (!wal_record_is_batch(s->type) || s->view == view || !same_epoch(lane, s->view, view))
            continue;
        const uint8_t *payload =
            s->image->base + lsn_offset(s->lsn, lane->o.segment_bytes) + WAL_RECORD_HEAD_BYTES;
        if (lane->o.hooks.fits(lane->o.hooks.ctx, s->image, payload, s->payload_bytes, s->type,
                               s->view, view))
            continue;
        s->unfit = true;
        lsns[n++] = s->lsn;
    }
    struct wal_reservation r;
    if (n == 0 || lane_reserve_control(lane, wal_abort_payload_bytes(n), &r) != 0) return;
    wal_abort_encode(r.payload, lsns, n);
    lane->abort_pending = true;
    lane->abort_seq = r.seq;
    lane_publish_control(lane, &r, WAL_RECORD_ABORT);
}

static bool fits_now(struct wal_lane *lane, struct slot *s, uint64_t view)
{
    const uint8_t *payload =
        s->image->base + lsn_offset(s->lsn, lane->o.segment_bytes) + WAL_RECORD_HEAD_BYTES;
    return lane->o.hooks.fits(lane->o.hooks.ctx, s->image, payload, s->payload_bytes, s->type,
                              s->view, view);
}

enum step {
    STEP_PASS,
    STEP_STOP,  /* waits for the abort record, or for room for one */
    STEP_FENCE, /* lapsed, or another epoch */
};

/* One published slot past the mark, no fence pending over it. */
static enum step judge(struct wal_lane *lane, struct answers *a, struct slot *s, uint64_t seq,
                       uint64_t durable, bool live, uint64_t view)
{
    if (!wal_record_is_batch(s->type)) return STEP_PASS;
    if (s->unfit && lane->abort_pending) {
        struct slot *abort_slot = lane_slot(lane, lane->abort_seq);
        if (!past_mark(lane, abort_slot, lane->abort_seq, durable)) return STEP_STOP;
        void_slot(lane, a, s, -RFE_SCHEMA_CHANGED);
        return STEP_PASS;
    }
    if (!live || !same_epoch(lane, s->view, view)) return STEP_FENCE;
    if (s->unfit || (s->view != view && !fits_now(lane, s, view))) {
        if (!lane->abort_pending) abort_unfit(lane, seq, durable, view);
        return STEP_STOP;
    }
    answer(lane, a, s, 0);
    return STEP_PASS;
}

/* One group: what the section saw, and where it stands. */
struct group {
    uint64_t seq;     /* first undecided */
    uint64_t visible; /* V behind what was passed */
    uint64_t durable;
    uint64_t view;
    bool live;
    enum step stopped; /* why the walk ended; STEP_PASS: at the mark */
};

static void walk(struct wal_lane *lane, struct answers *a, struct group *g)
{
    for (uint64_t n = 0; n < WAL_LANE_SLOTS; n++) {
        struct slot *s = lane_slot(lane, g->seq);
        if (!past_mark(lane, s, g->seq, g->durable)) return;
        g->stopped = judge(lane, a, s, g->seq, g->durable, g->live, g->view);
        if (g->stopped != STEP_PASS) return;
        if (lane->abort_pending && g->seq == lane->abort_seq) lane->abort_pending = false;
        g->visible = s->lsn + s->covered_bytes;
        g->seq++;
    }
}

/* Everybody up to the fence record, once that is past the mark. */
static void pass_fenced(struct wal_lane *lane, struct answers *a, struct group *g)
{
    if (!past_mark(lane, lane_slot(lane, lane->fence_seq), lane->fence_seq, g->durable)) return;
    for (; g->seq <= lane->fence_seq; g->seq++) {
        struct slot *s = lane_slot(lane, g->seq);
        if (!slot_is(s, g->seq, SLOT_PUBLISHED)) return; /* ASYNC: its writer still copies */
        if (lane->abort_pending && g->seq == lane->abort_seq) lane->abort_pending = false;
        void_slot(lane, a, s, -RFE_LEASE_FENCED_RETRY);
        g->visible = s->lsn + s->covered_bytes;
    }
    lane->fence_pending = false;
}

/* Latched: nothing undecided will ever be visible; whoever has published is answered. */
static void pass_latched(struct wal_lane *lane, struct answers *a, struct group *g)
{
    lane->fence_pending = lane->abort_pending = false;
    for (; slot_is(lane_slot(lane, g->seq), g->seq, SLOT_PUBLISHED); g->seq++)
        void_slot(lane, a, lane_slot(lane, g->seq), -RFE_WAL_ERROR);
}

/* V1: the one store by which a group becomes visible, and final. A reader that loads it sees every
 * extent linked, and every void state stored, before. */
static void show(struct wal_lane *lane, uint64_t visible)
{
    if (visible != atomic_load_explicit(&lane->visible, memory_order_relaxed)) /* the section's */
        atomic_store_explicit(&lane->visible, visible, memory_order_release);
}

/* A fence is due when the walk met a batch of another epoch, and also for what is only reserved
 * when nothing is live, or while the plane waits for an older view to be closed. */
static bool fence_is_due(struct wal_lane *lane, const struct group *g)
{
    bool closing = atomic_load(&lane->close_view) == g->view && g->seq < lane->close_seq;
    if (g->stopped != STEP_FENCE && g->live && !closing) return false;
    return needs_fence(lane, g->seq, g->live, g->view);
}

#define WAIT_NOBODY UINT64_MAX

/* Decides one group inside the section. Returns the seq that has to be past the mark before there
 * is more to do, or WAIT_NOBODY when that takes more than a publish or a durable mark. */
static uint64_t decide_group(struct wal_lane *lane, struct answers *a, bool *moved_out)
{
    uint64_t from = atomic_load_explicit(&lane->decided_seq, memory_order_relaxed); /* section's */
    struct group g = {
        .seq = from,
        .visible = atomic_load_explicit(&lane->visible, memory_order_relaxed),
        .durable = atomic_load_explicit(&lane->durable, memory_order_acquire), /* D1 */
    };
    g.live = lane->o.hooks.look(lane->o.hooks.ctx, &g.view);
    a->now_ns = lane->o.stages ? clock_read_ns(CLOCK_MONOTONIC) : 0;
    if (!lane->fence_pending) {
        walk(lane, a, &g);
        show(lane, g.visible);
        if (fence_is_due(lane, &g)) fence(lane);
    }
    if (lane->fence_pending) {
        pass_fenced(lane, a, &g);
        show(lane, g.visible);
    }
    if (atomic_load_explicit(&lane->latched, memory_order_acquire) != 0) pass_latched(lane, a, &g);
    *moved_out = g.seq != from;
    atomic_store_explicit(&lane->decided_seq, g.seq, memory_order_release); /* slots free again */
    if (lane->fence_pending && g.seq <= lane->fence_seq) {
        struct slot *s = lane_slot(lane, lane->fence_seq);
        return past_mark(lane, s, lane->fence_seq, g.durable) ? g.seq : lane->fence_seq;
    }
    if (g.stopped == STEP_STOP) return lane->abort_pending ? lane->abort_seq : WAIT_NOBODY;
    if (g.stopped == STEP_FENCE) return WAIT_NOBODY; /* no room for its record yet */
    return g.seq;
}

void lane_decide(struct wal_lane *lane)
{
    for (bool again = true; again && section_enter(lane);) {
        struct answers a = {.head = NULL, .tail = &a.head};
        bool moved;
        uint64_t wait_seq = decide_group(lane, &a, &moved);
        section_leave(lane);
        give_answers(&a);
        if (moved) lane_signal_room(lane);
        /* Who published, or moved the durable mark, while the section was held went on: look again
         * for them. Sequentially consistent with section_enter of theirs that failed. */
        again = wait_seq != WAIT_NOBODY &&
                past_mark(lane, lane_slot(lane, wait_seq), wait_seq, atomic_load(&lane->durable));
    }
}

bool wal_view_is_closed(struct wal_lane *lane, uint64_t view)
{
    if (atomic_load(&lane->close_view) != view) {
        spin_acquire(&lane->reserve_lock);
        lane->close_seq = atomic_load_explicit(&lane->next_seq, memory_order_relaxed);
        spin_release(&lane->reserve_lock);
        lane->close_section = atomic_load(&lane->section);
        atomic_store(&lane->close_view, view);
    }
    uint64_t section = atomic_load(&lane->section);
    if ((lane->close_section & 1) != 0 && section == lane->close_section) return false;
    uint64_t seq = atomic_load_explicit(&lane->decided_seq, memory_order_acquire);
    if (seq >= lane->close_seq) return true;
    lane_decide(lane); /* so that a fence record is there even when nobody publishes */
    lane_wake(lane);
    spin_acquire(&lane->reserve_lock);
    seq = atomic_load_explicit(&lane->decided_seq, memory_order_acquire);
    bool older = seq < lane->close_seq && undecided_locked(lane, seq, true, view);
    spin_release(&lane->reserve_lock);
    return !older;
}
