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
 *                                       record, and all between, can pass with it
 *   lapsed, or another epoch            everything reserved and undecided is void, published or
 *                                       not: one fence record "from V to here", reserved while the
 *                                       section is held; V stops there until the fence record is
 *                                       past the mark, then everybody below it is answered
 *
 * So whatever makes a batch below V void stands below V itself, and a log that ends at V, after a
 * crash or a resume, says the same of each batch as its caller was told.
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
    int64_t began_ns, now_ns; /* with stages */
};

bool lane_section_enter(struct wal_lane *lane)
{
    uint64_t s = atomic_load(&lane->section);
    /* Sequentially consistent: L3 of lease/view.h, a full fence between taking the section and the
     * look at the view. Either the plane, after publishing a view, sees the section taken and waits
     * for it, or the look below sees that view. */
    return (s & 1) == 0 && atomic_compare_exchange_strong(&lane->section, &s, s + 1);
}

void lane_section_leave(struct wal_lane *lane)
{
    atomic_fetch_add(&lane->section, 1);
}

static bool is_batch(const struct slot *s)
{
    return wal_record_is_batch(atomic_load_explicit(&s->type, memory_order_relaxed));
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
        if (lane->o.mode != WAL_SYNC) t->durable_mono_ns = a->began_ns;
        t->decided_mono_ns = a->now_ns;
    }
    t->next = NULL;
    *a->tail = t;
    a->tail = &t->next;
}

static void give_answers(struct wal_lane *lane, struct answers *a)
{
    if (a->head != NULL && lane->o.hooks.answered != NULL) {
        lane->o.hooks.answered(lane->o.hooks.ctx, a->head);
        return;
    }
    for (struct wal_ticket *t = a->head, *next; t != NULL; t = next) {
        next = t->next;
        t->done(t);
    }
}

static void void_slot(struct wal_lane *lane, struct answers *a, struct slot *s, int code)
{
    if (!is_batch(s)) return;
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

/* Reserves and publishes "void from V to here"; false when there is no room. */
static bool fence(struct wal_lane *lane)
{
    struct wal_reservation r;
    if (lane_reserve_control(lane, WAL_FENCE_PAYLOAD_BYTES, &r) != 0) return false;
    wal_fence_encode(r.payload, atomic_load_explicit(&lane->visible, memory_order_relaxed));
    lane->fence_pending = true;
    lane->fence_seq = r.seq;
    lane_publish_control(lane, &r, WAL_RECORD_FENCE);
    return true;
}

static bool fits_now(struct wal_lane *lane, struct slot *s, uint64_t view)
{
    const uint8_t *payload =
        s->image->base + lsn_offset(s->lsn, lane->o.segment_bytes) + WAL_RECORD_HEAD_BYTES;
    return s->view == view ||
           lane->o.hooks.fits(lane->o.hooks.ctx, s->image, payload, s->payload_bytes,
                              atomic_load_explicit(&s->type, memory_order_relaxed), s->view, view);
}

#define WAIT_NOBODY UINT64_MAX

enum step {
    STEP_PASS,
    STEP_STOP,  /* waits for wait_seq to be past the mark */
    STEP_FENCE, /* lapsed, or another epoch */
};

/* One group: what the section saw, and where it stands. */
struct group {
    uint64_t seq;     /* first undecided */
    uint64_t visible; /* V behind what was passed */
    uint64_t durable;
    uint64_t view;
    bool live;
    enum step stopped;  /* why the walk ended; STEP_PASS: at the mark */
    uint64_t wait_seq;  /* of STEP_STOP; WAIT_NOBODY: no room for a record just now */
    uint64_t whole_end; /* slots before this were found to pass together */
    bool latched;       /* as seen inside */
};

/* Of one abort record; more are named by more of them. */
#define NAMES_MAX 512u

/* Names the first NAMES_MAX unfit batches from *from on that the mark has passed, and moves *from
 * behind them. Returns false when there were none, or no room for the record. */
static bool name_some(struct wal_lane *lane, const struct group *g, uint64_t *from)
{
    uint64_t lsns[NAMES_MAX], seqs[NAMES_MAX];
    uint32_t n = 0;
    uint64_t seq = *from;
    for (; n < NAMES_MAX; seq++) {
        struct slot *s = lane_slot(lane, seq);
        if (!past_mark(lane, s, seq, g->durable)) break;
        if (!is_batch(s) || s->named_by != SLOT_NOT_NAMED) continue;
        if (!same_epoch(lane, s->view, g->view) || fits_now(lane, s, g->view)) continue;
        lsns[n] = s->lsn;
        seqs[n++] = seq;
    }
    struct wal_reservation r;
    if (n == 0 || lane_reserve_control(lane, wal_abort_payload_bytes(n), &r) != 0) return false;
    wal_abort_encode(r.payload, lsns, n);
    for (uint32_t i = 0; i < n; i++)
        lane_slot(lane, seqs[i])->named_by = r.seq;
    lane_publish_control(lane, &r, WAL_RECORD_ABORT);
    *from = seq;
    return true;
}

static bool name_unfit(struct wal_lane *lane, const struct group *g, uint64_t from)
{
    bool any = false;
    while (name_some(lane, g, &from))
        any = true;
    return any;
}

enum unit { UNIT_WHOLE, UNIT_WAITS, UNIT_HAS_UNNAMED, UNIT_FENCED };

/* Whether everything from the unfit batch at seq to the abort record that names it, and those that
 * name others in between, may pass now. */
static enum unit look_at_unit(struct wal_lane *lane, struct group *g, uint64_t seq)
{
    uint64_t end = seq;
    for (; seq <= end; seq++) {
        struct slot *s = lane_slot(lane, seq);
        if (!past_mark(lane, s, seq, g->durable)) {
            g->wait_seq = seq;
            return UNIT_WAITS;
        }
        if (!is_batch(s)) continue;
        if (!g->live || !same_epoch(lane, s->view, g->view)) return UNIT_FENCED;
        if (s->named_by != SLOT_NOT_NAMED)
            end = s->named_by > end ? s->named_by : end;
        else if (!fits_now(lane, s, g->view))
            return UNIT_HAS_UNNAMED;
    }
    g->whole_end = seq;
    return UNIT_WHOLE;
}

static enum step judge_unfit(struct wal_lane *lane, struct group *g, uint64_t seq)
{
    enum unit unit = look_at_unit(lane, g, seq);
    if (unit == UNIT_HAS_UNNAMED && name_unfit(lane, g, seq)) unit = look_at_unit(lane, g, seq);
    if (unit == UNIT_HAS_UNNAMED) g->wait_seq = WAIT_NOBODY;
    if (unit == UNIT_FENCED) return STEP_FENCE;
    return unit == UNIT_WHOLE ? STEP_PASS : STEP_STOP;
}

/* One published slot past the mark, no fence pending over it. */
static enum step judge(struct wal_lane *lane, struct answers *a, struct group *g, uint64_t seq)
{
    struct slot *s = lane_slot(lane, seq);
    if (!is_batch(s)) return STEP_PASS;
    if (seq >= g->whole_end) {
        if (!g->live || !same_epoch(lane, s->view, g->view)) return STEP_FENCE;
        if (s->named_by != SLOT_NOT_NAMED || !fits_now(lane, s, g->view)) {
            enum step step = judge_unfit(lane, g, seq);
            if (step != STEP_PASS) return step;
        }
    }
    if (s->named_by != SLOT_NOT_NAMED)
        void_slot(lane, a, s, -RFE_SCHEMA_CHANGED);
    else
        answer(lane, a, s, 0);
    return STEP_PASS;
}

static void walk(struct wal_lane *lane, struct answers *a, struct group *g)
{
    for (uint64_t n = 0; n < WAL_LANE_SLOTS; n++) {
        struct slot *s = lane_slot(lane, g->seq);
        if (!past_mark(lane, s, g->seq, g->durable)) return;
        g->stopped = judge(lane, a, g, g->seq);
        if (g->stopped != STEP_PASS) return;
        g->visible = s->lsn + s->covered_bytes;
        g->seq++;
    }
}

/* Everybody up to the fence record, once that and all below it is past the mark. (In an ASYNC lane
 * a writer below it may still copy.) */
static void pass_fenced(struct wal_lane *lane, struct answers *a, struct group *g)
{
    for (uint64_t seq = g->seq; seq <= lane->fence_seq; seq++) {
        g->wait_seq = seq;
        if (!past_mark(lane, lane_slot(lane, seq), seq, g->durable)) return;
    }
    for (; g->seq <= lane->fence_seq; g->seq++) {
        struct slot *s = lane_slot(lane, g->seq);
        void_slot(lane, a, s, -RFE_LEASE_FENCED_RETRY);
        g->visible = s->lsn + s->covered_bytes;
    }
    g->wait_seq = g->seq;
    lane->fence_pending = false;
}

/* Latched: nothing undecided will ever be visible; whoever has published is answered, also behind a
 * slot that never will be. */
static void pass_latched(struct wal_lane *lane, struct answers *a, struct group *g)
{
    uint64_t next = atomic_load_explicit(&lane->next_seq, memory_order_acquire); /* S2; final */
    lane->fence_pending = false;
    bool whole = true;
    for (uint64_t seq = g->seq; seq != next; seq++) {
        struct slot *s = lane_slot(lane, seq);
        if (!slot_is(s, seq, SLOT_PUBLISHED)) {
            whole = false;
            continue;
        }
        if (s->named_by != SLOT_ANSWERED) void_slot(lane, a, s, -RFE_WAL_ERROR);
        s->named_by = SLOT_ANSWERED;
        if (whole) g->seq = seq + 1;
    }
    g->wait_seq = g->seq;
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

/* Decides one group inside the section. */
static void decide_group(struct wal_lane *lane, struct answers *a, struct group *g)
{
    *g = (struct group){
        .seq = atomic_load_explicit(&lane->decided_seq, memory_order_relaxed), /* the section's */
        .visible = atomic_load_explicit(&lane->visible, memory_order_relaxed),
        .durable = atomic_load_explicit(&lane->durable, memory_order_acquire), /* D1 */
        .latched = atomic_load_explicit(&lane->latched, memory_order_acquire) != 0,
    };
    a->began_ns = lane->o.stages ? clock_read_ns(CLOCK_MONOTONIC) : 0;
    g->live = lane->o.hooks.look(lane->o.hooks.ctx, &g->view);
    a->now_ns = lane->o.stages ? clock_read_ns(CLOCK_MONOTONIC) : 0;
    /* Latched, a SYNC lane still answers for what is durable; in others nothing more comes up. */
    bool walks = !g->latched || lane->o.mode == WAL_SYNC;
    if (!lane->fence_pending && walks) {
        walk(lane, a, g);
        show(lane, g->visible);
        if (g->stopped == STEP_PASS) g->wait_seq = g->seq;
        /* Without room for the record, whoever makes a segment ready wakes the lane. */
        if (fence_is_due(lane, g) && !fence(lane)) g->wait_seq = WAIT_NOBODY;
    }
    if (lane->fence_pending && walks) {
        pass_fenced(lane, a, g);
        show(lane, g->visible);
    }
    if (g->latched) pass_latched(lane, a, g);
    atomic_store_explicit(&lane->decided_seq, g->seq, memory_order_release); /* slots free again */
}

static bool has_more(struct wal_lane *lane, const struct group *g)
{
    const struct slot *s = lane_slot(lane, g->wait_seq);
    if (g->latched) return slot_is(s, g->wait_seq, SLOT_PUBLISHED);
    if (atomic_load(&lane->latched) != 0) return true;
    return g->wait_seq != WAIT_NOBODY &&
           past_mark(lane, s, g->wait_seq, atomic_load(&lane->durable));
}

void lane_decide(struct wal_lane *lane)
{
    for (bool again = true; again && lane_section_enter(lane);) {
        struct answers a = {.head = NULL, .tail = &a.head};
        struct group g;
        uint64_t from = atomic_load_explicit(&lane->decided_seq, memory_order_relaxed);
        decide_group(lane, &a, &g);
        RF_PROBE3(decide, lane->o.lane, g.visible, g.seq - from);
        lane_section_leave(lane);
        give_answers(lane, &a);
        if (g.seq != from) lane_signal_room(lane);
        /* Who published, moved the durable mark or latched while the section was held went on: look
         * again for them. Sequentially consistent with lane_section_enter of theirs that failed: there
         * is a full fence before it in announce() and in lane_durable_moved(). */
        again = has_more(lane, &g);
    }
}

bool wal_view_is_closed(struct wal_lane *lane, uint64_t view)
{
    fence_full(); /* L3: the caller's store of the view before the look at the section */
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
