#include "lease/external.h"

#include "base/errors.h"

#include <errno.h>

#define MILLISECOND_NS ((int64_t)1000000)

int lease_external_ask(const struct holder *h, int64_t now_ns, struct lease_request *request_out)
{
    if (h->boot == 0) return -EAGAIN;
    *request_out = (struct lease_request){
        .asked_ns = now_ns,
        .view = view_make(h->epoch, h->applied),
        .boot = h->boot,
    };
    return 0;
}

static int judge_request(const struct holder *h, const struct lease_request *r, int64_t ttl_ms,
                         int64_t now_ns)
{
    if (h->boot == 0 || r->boot != h->boot) return -EINVAL;
    if (r->asked_ns < 0 || r->asked_ns > now_ns) return -EINVAL;
    if (ttl_ms <= 0 || ttl_ms > (INT64_MAX - 1 - r->asked_ns) / MILLISECOND_NS) return -EINVAL;
    if (r->view > view_make(h->epoch, h->applied)) return -EINVAL;
    if (view_epoch(r->view) != h->epoch) return -ESTALE;
    return 0;
}

static void feed_offer(struct holder *h, const struct lease_offer *offer, int64_t now_ns,
                       struct lease_actions *actions_out)
{
    struct holder_event e = {.type = HOLDER_OFFER, .offer = *offer};
    CHECK(holder_step(h, &e, now_ns, actions_out) == HOLDER_TAKEN);
}

/* Notices a lapse before the request is judged: a lease that is over is not extended. */
static void notice_lapse(struct holder *h, int64_t now_ns, struct lease_actions *actions_out)
{
    actions_out->count = 0;
    if (h->state != HOLDER_NORMAL || now_ns < h->deadline_ns) return;
    struct holder_event e = {.type = HOLDER_TICK};
    CHECK(holder_step(h, &e, now_ns, actions_out) == HOLDER_TAKEN);
}

static struct lease_offer offer_of(const struct holder *h, const struct lease_request *r,
                                   int64_t ttl_ms)
{
    return (struct lease_offer){
        .term = LEASE_EXTERNAL_TERM,
        .boot = h->boot,
        .asked_ns = r->asked_ns,
        .ttl_ns = ttl_ms * MILLISECOND_NS,
        .version = h->shown,
    };
}

int lease_external_grant(struct holder *h, const struct lease_request *request, int64_t ttl_ms,
                         int64_t now_ns, struct lease_actions *actions_out)
{
    notice_lapse(h, now_ns, actions_out);
    int rc = judge_request(h, request, ttl_ms, now_ns);
    if (rc != 0) return rc;
    if (h->state != HOLDER_NORMAL) return -RFE_LEASE_FENCED;
    struct lease_offer offer = offer_of(h, request, ttl_ms);
    feed_offer(h, &offer, now_ns, actions_out);
    return 0;
}

int lease_external_resume(struct holder *h, uint64_t version, const struct lease_request *request,
                          int64_t ttl_ms, int64_t now_ns, struct lease_actions *actions_out)
{
    CHECK(version >= h->shown && version <= LEASE_VERSION_MAX);
    notice_lapse(h, now_ns, actions_out);
    int rc = judge_request(h, request, ttl_ms, now_ns);
    if (rc != 0) return rc;
    if (h->state == HOLDER_NORMAL)
        return lease_external_grant(h, request, ttl_ms, now_ns, actions_out);
    if (h->stopping || h->epoch == VIEW_EPOCH_MAX) return -RFE_LEASE_FENCED;
    if (!h->closed || !h->caches_empty || h->state == HOLDER_PULLING) return -EAGAIN;
    struct lease_offer offer = offer_of(h, request, ttl_ms);
    if (offer.asked_ns + offer.ttl_ns <= now_ns) return -RFE_LEASE_FENCED;
    offer.version = version;
    offer.content = LEASE_CONTENT_SNAPSHOT;
    feed_offer(h, &offer, now_ns, actions_out);
    CHECK(h->state == HOLDER_PULLING);
    return 0;
}

void lease_external_change(struct holder *h, uint64_t version, int64_t now_ns,
                           struct lease_actions *actions_out)
{
    CHECK(version > h->shown && version <= LEASE_VERSION_MAX && h->boot != 0);
    struct lease_offer offer = {
        .term = LEASE_EXTERNAL_TERM,
        .boot = h->boot,
        .asked_ns = now_ns,
        .version = version,
        .content = h->state == HOLDER_NORMAL ? LEASE_CONTENT_DELTA : LEASE_CONTENT_NONE,
        .base = h->applied,
    };
    feed_offer(h, &offer, now_ns, actions_out);
}
