/* The lease's two words, and the check that every fragment, decision and read makes.
 *
 * The plane's thread alone writes them; writers, readers and the decider of a lane read them.
 *
 *   view         what this process trusts: the epoch (24 bits, counts fencings) above the version
 *                of its metadata (40 bits). As plain numbers, a later view is a larger one.
 *   deadline_ns  until when, in CLOCK_BOOTTIME, which counts suspends. LEASE_FENCED: not at all.
 *                LEASE_OFF: for ever, and then nobody reads a clock.
 *
 * There is no flag that says "expired": a flag is true of the moment when it was set, and whoever
 * is stopped between that moment and the use of it acts too late. The clock is read at each check.
 *
 * Thread: lease_check, lease_look any; lease_publish_* the plane's.
 *
 * Orders. Two stores make a fence: deadline 0, then the view of the next epoch; two end it: the
 * view, then the new deadline. A check loads deadline, view, clock, in this order:
 *
 *   L1  lease_publish_deadline (release) with the first load of a check (acquire): who sees the
 *       deadline that ended a fence also sees the view that was stored before it, and so refuses a
 *       token of the epoch before. Loaded the other way round, or relaxed, a check could join the old
 *       view to the new deadline, and let in what was checked against emptied caches.
 *   L2  lease_publish_view (release) with the load of the view (acquire): who sees a view sees the
 *       schema snapshot that was published before it. And who sees the view of a fence sees the
 *       deadline 0 stored before it: that is the second load of the deadline in lease_look.
 *   L3  lease_publish_view ends with a full fence, and the decider enters its slot with one: either
 *       the plane sees the slot taken and waits, or the decider sees the new view.
 *
 * The clock is read after both loads: an acquire load lets nothing behind it pass, and the vDSO reads
 * its counter in order. So a thread that was stopped between the loads and the clock finds out. */
#ifndef RF_LEASE_VIEW_H
#define RF_LEASE_VIEW_H

#include "base/check.h"
#include "base/clock.h"
#include "base/fence.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define VIEW_EPOCH_BITS   24
#define VIEW_VERSION_BITS 40
#define VIEW_EPOCH_MAX    (((uint32_t)1 << VIEW_EPOCH_BITS) - 1)
#define VIEW_VERSION_MAX  (((uint64_t)1 << VIEW_VERSION_BITS) - 1)

#define LEASE_FENCED ((int64_t)0)
#define LEASE_OFF    INT64_MAX

_Static_assert(VIEW_EPOCH_BITS + VIEW_VERSION_BITS == 64, "a view fills one word");

/* epoch 0..VIEW_EPOCH_MAX, version 0..VIEW_VERSION_MAX; anything else stops the process: a number
 * that wrapped would make an old view look new. */
static inline uint64_t view_make(uint32_t epoch, uint64_t version)
{
    CHECK(epoch <= VIEW_EPOCH_MAX && version <= VIEW_VERSION_MAX);
    return (uint64_t)epoch << VIEW_VERSION_BITS | version;
}
static inline uint32_t view_epoch(uint64_t view)
{
    return (uint32_t)(view >> VIEW_VERSION_BITS);
}
static inline uint64_t view_version(uint64_t view)
{
    return view & VIEW_VERSION_MAX;
}

/* One cache line of its own: it is read at every fragment and written once a heartbeat. */
struct lease_words {
    _Alignas(RF_CACHE_LINE) _Atomic uint64_t view; /* W: plane. R: any. Pairs L2, L3 */
    _Atomic int64_t deadline_ns;                   /* W: plane. R: any. Pair L1 */
};

_Static_assert(sizeof(struct lease_words) == RF_CACHE_LINE, "the words share no line");

/* Whether what was checked under `token_view` may still be acted on: the token's epoch is the
 * present one, and the clock stands before the deadline. The version is not compared: a fragment
 * goes on under another version, and the decider looks at it. */
static inline bool lease_check(const struct lease_words *w, const struct clock *c,
                               uint64_t token_view)
{
    int64_t deadline_ns = atomic_load_explicit(&w->deadline_ns, memory_order_acquire); /* L1 */
    uint64_t view = atomic_load_explicit(&w->view, memory_order_acquire);              /* L2 */
    if (RF_UNLIKELY(view_epoch(view) != view_epoch(token_view))) return false;
    if (deadline_ns == LEASE_OFF) return true;
    return clock_boot_ns(c) < deadline_ns;
}

struct lease_look {
    bool live;
    uint64_t view;
};

/* What a writer takes as its token, and what the decider judges by.
 *
 * A fence stores the deadline 0 before its view. Whoever loaded the old deadline and then the
 * fence's view would otherwise hold a token of an epoch that has not begun, so the deadline is
 * loaded once more behind the view: it is 0 then, or the epoch has begun. lease_check needs no
 * second load, because no token of such an epoch exists. */
static inline struct lease_look lease_look(const struct lease_words *w, const struct clock *c)
{
    int64_t deadline_ns = atomic_load_explicit(&w->deadline_ns, memory_order_acquire); /* L1 */
    struct lease_look look = {.view =
                                  atomic_load_explicit(&w->view, memory_order_acquire)}; /* L2 */
    int64_t again_ns = atomic_load_explicit(&w->deadline_ns, memory_order_acquire);      /* L2 */
    if (again_ns == LEASE_FENCED) return look;
    look.live = deadline_ns == LEASE_OFF || clock_boot_ns(c) < deadline_ns;
    return look;
}

static inline void lease_publish_view(struct lease_words *w, uint64_t view)
{
    atomic_store_explicit(&w->view, view, memory_order_release); /* L2 */
    fence_full();                                                /* L3 */
}
static inline void lease_publish_deadline(struct lease_words *w, int64_t deadline_ns)
{
    atomic_store_explicit(&w->deadline_ns, deadline_ns, memory_order_release); /* L1, L2 */
}

#endif
