/* The lease of an embedder that has a coordinator of its own: the pure part of rf_lease_ask,
 * _grant, _fence and _resume.
 *
 * The request is made before the coordinator is asked and comes back with its answer, so a lease is
 * dated by the moment of asking and by nothing else: there is no way to extend one "from now".
 * A fence begins a new epoch, and a request of an earlier epoch is of no use any more, however late
 * its answer comes. The version in the view is not compared: changes of our own catalog happen
 * between asking and answering all the time, are closed by their own calls, and say nothing about
 * what the coordinator knows.
 *
 * rf_lease_fence is the event HOLDER_FENCE, and returns when holder.closed is set again.
 * Thread: the plane's. */
#ifndef RF_LEASE_EXTERNAL_H
#define RF_LEASE_EXTERNAL_H

#include "lease/holder.h"

/* The host's coordinator has terms of its own, and we never see them: the process registers, and is
 * granted, under this one. */
#define LEASE_EXTERNAL_TERM 1u

struct lease_request {
    int64_t asked_ns; /* CLOCK_BOOTTIME */
    uint64_t view;
    uint64_t boot;
};

/* Returns 0, or -EAGAIN: the process is not registered yet. */
RF_NODISCARD int lease_external_ask(const struct holder *h, int64_t now_ns,
                                    struct lease_request *request_out);

/* The deadline becomes the later of what it is and asked + ttl; it never moves back. actions_out is
 * always written, and always to be done: a lease that is over ends here, too.
 *
 * Returns 0; -EINVAL: another boot, ttl 0 or below, asked + ttl overflows, a request from the
 * future or of a view that never was; -ESTALE: a view from before a fence; -RFE_LEASE_FENCED:
 * fenced, and this is not a resume. */
RF_NODISCARD int lease_external_grant(struct holder *h, const struct lease_request *request,
                                      int64_t ttl_ms, int64_t now_ns,
                                      struct lease_actions *actions_out);

/* Ends a fence, once the host has reloaded what it trusts; a grant when there is none. version: the
 * catalog's newest. On 0 the holder is NORMAL once HOLDER_APPLIED was fed.
 *
 * As lease_external_grant; and -EAGAIN: the fence's views are not closed, or a cache could not be
 * emptied, or a resume is under way; -RFE_LEASE_FENCED: the lease is over already, or the process
 * stops. */
RF_NODISCARD int lease_external_resume(struct holder *h, uint64_t version,
                                       const struct lease_request *request, int64_t ttl_ms,
                                       int64_t now_ns, struct lease_actions *actions_out);

/* The catalog's own change was committed as `version`. NORMAL: applies it, and
 * holder_has_promised() says when it is closed; fenced: what resumes will have it. */
void lease_external_change(struct holder *h, uint64_t version, int64_t now_ns,
                           struct lease_actions *actions_out);

#endif
