#include "lease/embedded.h"

#define HEARTBEAT_NS_MAX ((int64_t)1000000000)

/* Long enough to outlast any process, short enough that a sum with a clock does not overflow. */
#define TTL_OFF_NS (INT64_MAX / 4)

void lease_embedded_init(struct lease_embedded *e, int64_t ttl_ns, uint64_t version)
{
    CHECK(ttl_ns >= 4 && version <= LEASE_VERSION_MAX);
    bool off = ttl_ns == LEASE_OFF;
    CHECK(off || ttl_ns <= TTL_OFF_NS);
    *e = (struct lease_embedded){
        .off = off,
        .ttl_ns = off ? TTL_OFF_NS : ttl_ns,
        /* Four chances a lease. */
        .heartbeat_ns = ttl_ns / 4 < HEARTBEAT_NS_MAX ? ttl_ns / 4 : HEARTBEAT_NS_MAX,
        .version = version,
    };
    holder_init(&e->holder, e->heartbeat_ns, 0);
}

/* The offer that a grantor of this process would make: it has read the status at this moment. */
static struct holder_event offer(const struct lease_embedded *e, int64_t now_ns,
                                 enum lease_content content)
{
    return (struct holder_event){
        .type = HOLDER_OFFER,
        .offer =
            {
                .term = 1,
                .boot = LEASE_EMBEDDED_BOOT,
                .asked_ns = now_ns,
                .ttl_ns = e->ttl_ns,
                .version = e->version,
                .content = content,
                .base = content == LEASE_CONTENT_DELTA ? e->holder.applied : 0,
            },
    };
}

bool lease_embedded_next(struct lease_embedded *e, int64_t now_ns, struct holder_event *event_out)
{
    const struct holder *h = &e->holder;
    if (h->boot == 0) {
        *event_out = (struct holder_event){
            .type = HOLDER_REGISTERED,
            .registered = {.boot = LEASE_EMBEDDED_BOOT, .term = 1, .version = e->version},
        };
        return true;
    }
    if (h->stopping) return false;
    bool lapsed = h->state == HOLDER_NORMAL && now_ns >= h->deadline_ns;
    bool behind = h->state == HOLDER_NORMAL && h->applied < e->version && !h->applying;
    if (lapsed || behind || (h->state == HOLDER_NORMAL && now_ns >= e->renew_due_ns)) {
        e->renew_due_ns = now_ns + e->heartbeat_ns;
        *event_out = offer(e, now_ns, behind ? LEASE_CONTENT_DELTA : LEASE_CONTENT_NONE);
        return true;
    }
    if (h->state == HOLDER_NORMAL) {
        e->recover_due_ns = now_ns; /* only a recovery that failed waits for the next heartbeat */
        return false;
    }
    if (now_ns < e->recover_due_ns) return false;
    if (!h->caches_empty) { /* they could not be emptied: once more */
        e->recover_due_ns = now_ns + e->heartbeat_ns;
        *event_out = (struct holder_event){.type = HOLDER_TICK};
        return true;
    }
    if (!h->closed || h->state == HOLDER_PULLING) return false;
    e->recover_due_ns = now_ns + e->heartbeat_ns;
    *event_out = offer(e, now_ns, LEASE_CONTENT_SNAPSHOT);
    return true;
}

int64_t lease_embedded_due_ns(const struct lease_embedded *e)
{
    const struct holder *h = &e->holder;
    if (h->state == HOLDER_PULLING || !h->closed) return INT64_MAX; /* an event will come */
    if (h->state != HOLDER_NORMAL) return e->recover_due_ns;
    return h->deadline_ns < e->renew_due_ns ? h->deadline_ns : e->renew_due_ns;
}

void lease_embedded_change(struct lease_embedded *e, uint64_t version)
{
    CHECK(version > e->version && version <= LEASE_VERSION_MAX);
    e->version = version;
}
