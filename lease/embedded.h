/* Grantor and holder in one process: the plane's thread renews its own lease, and so a plane that
 * is stuck fences the writers.
 *
 * A pure helper around struct holder: it says which event the plane feeds next. The plane's loop,
 * at each turn:
 *
 *     while (lease_embedded_next(&e, now_ns, &event)) {
 *         holder_step(&e.holder, &event, now_ns, &actions);
 *         ... do the actions; feed HOLDER_EMPTIED, HOLDER_APPLIED, HOLDER_CLOSED as they come ...
 *     }
 *
 * now_ns is read at the head of the turn, and never from a thread that can go on when the plane's
 * can't. Statuses need no sending. A change of metadata: commit it, then lease_embedded_change();
 * holder_has_promised() says when the call that made it may return.
 * Thread: the plane's. */
#ifndef RF_LEASE_EMBEDDED_H
#define RF_LEASE_EMBEDDED_H

#include "lease/holder.h"

#define LEASE_EMBEDDED_BOOT 1u

struct lease_embedded {
    struct holder holder;
    bool off;
    int64_t ttl_ns;
    int64_t heartbeat_ns;
    uint64_t version; /* the newest, committed in the catalog */
    int64_t renew_due_ns;
    int64_t recover_due_ns;
};

/* ttl_ns    T, at least 4; LEASE_OFF: leases are off, nothing lapses
 * version   the catalog's newest; 0..LEASE_VERSION_MAX */
void lease_embedded_init(struct lease_embedded *e, int64_t ttl_ns, uint64_t version);

/* The next event to feed at now_ns, CLOCK_BOOTTIME. False: nothing until lease_embedded_due_ns(),
 * or until another event was fed. */
bool lease_embedded_next(struct lease_embedded *e, int64_t now_ns, struct holder_event *event_out);
/* INT64_MAX: an answer to an action is awaited, and no time. */
int64_t lease_embedded_due_ns(const struct lease_embedded *e);

/* A change was committed as `version`, above the newest: what lease_embedded_next() gives carries
 * it at once. */
void lease_embedded_change(struct lease_embedded *e, uint64_t version);

/* What to publish for a LEASE_PUBLISH_DEADLINE: with leases off, LEASE_OFF instead of a time. */
static inline int64_t lease_embedded_deadline_ns(const struct lease_embedded *e,
                                                 int64_t deadline_ns)
{
    return e->off && deadline_ns != LEASE_FENCED ? LEASE_OFF : deadline_ns;
}

#endif
