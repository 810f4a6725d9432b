/* The holder's side of the metadata lease, as pure steps: (state, event, now) to (state, actions).
 *
 * No clock, lock, file or socket inside: the plane's thread feeds events, with the time as an
 * argument, and does what the step asks for. docs/lease.md has the rules and why they are enough;
 * the numbers here are its numbers.
 *
 *            offer with a snapshot, views closed,            applied, its lease not over
 *            caches empty                                    and nothing newer shown
 *   FENCED ------------------------------> PULLING --------------------------------> NORMAL
 *     ^ ^                                     |                                         |
 *     | +---- could not apply, too late, -----+                                         |
 *     |       something newer shown                                                     |
 *     +---- the clock passes the deadline; a change can't be applied; told to; ---------+
 *           an offer's floor is above what it promised (alarm)
 *
 *   FENCED   deadline 0, an epoch that no token has. A process starts here.
 *   PULLING  as FENCED; a snapshot is being applied.
 *   NORMAL   deadline above the clock of the last step; applied >= promise >= floor of any offer.
 *
 * Invariants, checked by every step: promise never falls; a deadline is never 0 in NORMAL and never
 * other than 0 outside; applied never falls; the epoch grows by one at a fence and at nothing else.
 */
#ifndef RF_LEASE_HOLDER_H
#define RF_LEASE_HOLDER_H

#include "lease/messages.h"

enum holder_state { HOLDER_FENCED, HOLDER_PULLING, HOLDER_NORMAL };

enum holder_event_type {
    HOLDER_TICK,       /* the time has come that holder_next_ns() named, or any other */
    HOLDER_REGISTERED, /* registered: committed by the grantor's store */
    HOLDER_OFFER,      /* offer */
    HOLDER_APPLIED,    /* applied.ticket, .ok: answers LEASE_APPLY_CONTENT */
    HOLDER_CLOSED,     /* view: answers LEASE_CLOSE_VIEWS */
    HOLDER_EMPTIED,    /* ok: answers LEASE_EMPTY_CACHES */
    HOLDER_FENCE, /* told to: a new epoch even if fenced, so that what was asked before is of no
                     use afterwards */
    HOLDER_STOP   /* stops for good: fences itself and promises everything */
};

struct holder_event {
    enum holder_event_type type;
    union {
        struct {
            uint64_t boot;    /* 1 and up */
            uint64_t term;    /* of the leader that committed it: an earlier one knows nothing */
            uint64_t version; /* the newest when it was registered */
        } registered;
        struct lease_offer offer;
        struct {
            uint64_t ticket;
            bool ok; /* false: nothing of it was published */
        } applied;
        uint64_t view;
        bool ok;
    };
};

/* Why an offer was refused as a whole; the state is as it was. A log line names it. */
enum holder_answer {
    HOLDER_TAKEN,
    HOLDER_REFUSED_BOOT,   /* for another boot, or before this one is registered */
    HOLDER_REFUSED_TERM,   /* of a leader that a later one has followed */
    HOLDER_REFUSED_RANGE,  /* a number outside its range, or asked + ttl overflows */
    HOLDER_REFUSED_FUTURE, /* dated later than this clock */
    HOLDER_REFUSED_BACK    /* a later term that lacks versions which were obeyed */
};

/* Leases that wait until their version is promised, lowest version first. Four are enough to use
 * the older ones while changes follow each other faster than views close; of more, the last two
 * become one with the later figures of both, which is harder to use and so is safe. */
#define HOLDER_WAITING_MAX 4
struct holder_waiting {
    uint64_t version;
    int64_t until_ns;
};

struct holder {
    enum holder_state state;
    bool stopping;
    bool closed;       /* nobody decides under a view of an epoch before this one */
    bool caches_empty; /* since the last fence */
    uint32_t epoch;
    uint64_t boot;    /* 0: not registered */
    uint64_t term;    /* the highest obeyed */
    uint64_t applied; /* the version that the published view names */
    uint64_t promise; /* nothing below it is trusted, ever again, not even fenced */
    uint64_t shown;   /* the highest version that any message has named */
    int64_t deadline_ns;
    uint64_t ticket; /* of the last LEASE_APPLY_CONTENT */
    bool applying;   /* content is being applied */
    uint64_t applying_version;
    int64_t applying_until_ns;
    int64_t heartbeat_ns;
    int64_t status_due_ns;
    struct holder_waiting waiting[HOLDER_WAITING_MAX];
    size_t waiting_count;
};

/* A process that begins: FENCED in epoch 1, nobody deciding, caches empty.
 *
 * heartbeat_ns  how often it speaks by its own timer; above 0
 * obeyed        the highest version that this node obeyed in an earlier life (from the manifest),
 *               or 0: nothing below it is taken from a grantor whose store was set back
 * The words must hold view_make(1, 0) and LEASE_FENCED when the first step runs. */
void holder_init(struct holder *h, int64_t heartbeat_ns, uint64_t obeyed);

/* One step. now_ns: CLOCK_BOOTTIME, read after the event was received. actions_out: replaced.
 * Thread: the plane's. */
enum holder_answer holder_step(struct holder *h, const struct holder_event *e, int64_t now_ns,
                               struct lease_actions *actions_out);

/* When the next HOLDER_TICK is due at the latest. Never far: a heartbeat. */
int64_t holder_next_ns(const struct holder *h);

/* Whether everything up to `version` is promised: then a change has reached this process, and no
 * batch is decided below it. */
static inline bool holder_has_promised(const struct holder *h, uint64_t version)
{
    return h->promise >= version;
}

#endif
