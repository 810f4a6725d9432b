/* Drives the lease's pure steps: feeds events, does the actions. */
#include "plane/plane_impl.h"

#include <errno.h>
#include <inttypes.h>

#define CLOSING_POLL_NS_MIN ((int64_t)20000)
#define CLOSING_POLL_NS_MAX ((int64_t)1000000)
#define TEST_CLOCK_POLL_NS  ((int64_t)1000000)
#define HEARTBEAT_NS        ((int64_t)1000000000)

static int64_t now_of(const struct plane *p)
{
    return clock_boot_ns(p->o.clock);
}

/* ---- actions ---- */

static void close_views(struct plane *p, uint64_t view)
{
    /* A later view closes the earlier ones too, so the last place can be taken over. */
    if (p->closing_count == VIEWS_CLOSING_MAX) p->closing_count--;
    p->closing_view[p->closing_count++] = view;
    p->closing_poll_ns = 0;
}

static void raise_alarm(struct plane *p, enum lease_alarm alarm)
{
    static const char *const names[] = {
        [LEASE_ALARM_OVERTAKEN] = "overtaken",
        [LEASE_ALARM_STORE_BACK] = "store_back",
        [LEASE_ALARM_EPOCHS_ENDED] = "epochs_ended",
    };
    log_error(p->o.log, "plane.lease_alarm", "alarm=%s", names[alarm]);
}

static void act(struct plane *p, const struct lease_actions *actions)
{
    for (size_t i = 0; i < actions->count; i++) {
        const struct lease_action *a = &actions->items[i];
        switch (a->type) {
        case LEASE_PUBLISH_DEADLINE:
            lease_publish_deadline(p->o.words,
                                   p->holder == &p->embedded.holder
                                       ? lease_embedded_deadline_ns(&p->embedded, a->deadline_ns)
                                       : a->deadline_ns);
            break;
        case LEASE_PUBLISH_VIEW: lease_publish_view(p->o.words, a->view); break;
        case LEASE_CLOSE_VIEWS: close_views(p, a->view); break;
        case LEASE_EMPTY_CACHES: p->empty_asked = true; break;
        case LEASE_APPLY_CONTENT:
            /* Only what the schema has is ever offered. */
            CHECK(a->apply.version <= p->applied_version);
            p->apply_asked = true;
            p->apply_ticket = a->apply.ticket;
            break;
        case LEASE_SEND_STATUS: break; /* grantor and holder are one, or the host asks */
        case LEASE_RAISE_ALARM: raise_alarm(p, a->alarm); break;
        }
    }
}

static void step(struct plane *p, const struct holder_event *event)
{
    struct lease_actions actions;
    enum holder_answer answer = holder_step(p->holder, event, now_of(p), &actions);
    CHECK(answer == HOLDER_TAKEN); /* offers come from this file alone */
    act(p, &actions);
}

static void note_state(struct plane *p, enum holder_state before)
{
    if (before == p->holder->state) return;
    if (before == HOLDER_NORMAL) {
        atomic_fetch_add_explicit(&p->fences, 1, memory_order_relaxed);
        log_warn(p->o.log, "plane.fenced", "epoch=%" PRIu32, p->holder->epoch);
    } else if (p->holder->state == HOLDER_NORMAL) {
        log_info(p->o.log, "plane.normal", "epoch=%" PRIu32 " version=%" PRIu64, p->holder->epoch,
                 p->holder->applied);
    }
}

/* Answers what the actions asked for. The one cache that an embedded process has is the schema,
 * and its plane is the one who changes it: there is nothing to empty. */
static void settle(struct plane *p)
{
    while (p->empty_asked || p->apply_asked) {
        struct holder_event event;
        if (p->empty_asked) {
            p->empty_asked = false;
            event = (struct holder_event){.type = HOLDER_EMPTIED, .ok = true};
        } else {
            p->apply_asked = false;
            event = (struct holder_event){.type = HOLDER_APPLIED,
                                          .applied = {.ticket = p->apply_ticket, .ok = true}};
        }
        step(p, &event);
    }
}

static void feed(struct plane *p, const struct holder_event *event)
{
    enum holder_state before = p->holder->state;
    step(p, event);
    settle(p);
    note_state(p, before);
}

/* ---- parts of a turn ---- */

void plane_lease_turn(struct plane *p)
{
    struct holder_event event;
    if (p->o.lease == PLANE_LEASE_EXTERNAL) {
        if (now_of(p) >= holder_next_ns(p->holder))
            feed(p, &(struct holder_event){.type = HOLDER_TICK});
        return;
    }
    while (lease_embedded_next(&p->embedded, now_of(p), &event))
        feed(p, &event);
}

void plane_lease_changed(struct plane *p)
{
    uint64_t version = atomic_load_explicit(&p->version, memory_order_relaxed);
    if (version == p->applied_version) return;
    p->applied_version = version;
    if (p->o.lease != PLANE_LEASE_EXTERNAL) {
        lease_embedded_change(&p->embedded, version);
        return;
    }
    struct lease_actions actions;
    enum holder_state before = p->holder->state;
    lease_external_change(p->holder, version, now_of(p), &actions);
    act(p, &actions);
    settle(p);
    note_state(p, before);
}

void plane_lease_poll_closing(struct plane *p)
{
    if (p->closing_count == 0) return;
    unsigned closed = p->closing_count;
    while (closed > 0 && !p->o.view_is_closed(p->o.ctx, p->closing_view[closed - 1]))
        closed--;
    if (closed == 0) {
        int64_t next_ns = p->closing_poll_ns * 2;
        if (next_ns < CLOSING_POLL_NS_MIN) next_ns = CLOSING_POLL_NS_MIN;
        p->closing_poll_ns = next_ns < CLOSING_POLL_NS_MAX ? next_ns : CLOSING_POLL_NS_MAX;
        return;
    }
    uint64_t view = p->closing_view[closed - 1];
    for (unsigned i = closed; i < p->closing_count; i++)
        p->closing_view[i - closed] = p->closing_view[i];
    p->closing_count -= closed;
    feed(p, &(struct holder_event){.type = HOLDER_CLOSED, .view = view});
}

static int64_t shorter(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t plane_lease_wait_ns(struct plane *p)
{
    int64_t due_ns = p->o.lease == PLANE_LEASE_EXTERNAL ? holder_next_ns(p->holder)
                                                        : lease_embedded_due_ns(&p->embedded);
    int64_t wait_ns = shorter(due_ns - now_of(p), HEARTBEAT_NS);
    /* A fenced holder that waits for its views is due all the time; what it waits for is polled. */
    if (wait_ns < CLOSING_POLL_NS_MAX && p->holder->state != HOLDER_NORMAL)
        wait_ns = CLOSING_POLL_NS_MAX;
    if (p->closing_count != 0) wait_ns = shorter(wait_ns, p->closing_poll_ns);
    if (p->lease_requests.first != NULL) wait_ns = shorter(wait_ns, CLOSING_POLL_NS_MAX);
    /* A test clock moves without waking anybody. */
    if (p->o.clock->test_ns != NULL) wait_ns = shorter(wait_ns, TEST_CLOCK_POLL_NS);
    return wait_ns > 0 ? wait_ns : 0;
}

/* ---- requests ---- */

/* Its code, or -EAGAIN: it has to wait. */
static int serve(struct plane *p, struct request *r)
{
    struct lease_actions actions = {0};
    enum holder_state before = p->holder->state;
    int rc = 0;
    switch (r->kind) {
    case REQUEST_GRANT:
        rc = lease_external_grant(p->holder, &r->lease, r->ttl_ms, now_of(p), &actions);
        break;
    case REQUEST_RESUME:
        rc = lease_external_resume(p->holder, p->applied_version, &r->lease, r->ttl_ms, now_of(p),
                                   &actions);
        break;
    case REQUEST_FENCE:
        /* Fenced already or not: what was asked before this call is of no use after it. */
        if (r->version == 0) feed(p, &(struct holder_event){.type = HOLDER_FENCE});
        r->version = 1; /* it has been told */
        return p->holder->closed ? 0 : -EAGAIN;
    case REQUEST_CHANGE: CHECK(false);
    }
    act(p, &actions);
    settle(p);
    note_state(p, before);
    return rc;
}

void plane_lease_answer(struct plane *p)
{
    struct request_list still = p->lease_requests;
    p->lease_requests = (struct request_list){0};
    for (struct request *r; (r = list_take(&still)) != NULL;) {
        int rc = serve(p, r);
        if (rc == -EAGAIN)
            list_add(&p->lease_requests, r);
        else
            plane_answer(p, r, rc);
    }
}

/* ---- begin and end ---- */

void plane_lease_init(struct plane *p)
{
    bool external = p->o.lease == PLANE_LEASE_EXTERNAL;
    p->applied_version = atomic_load_explicit(&p->version, memory_order_relaxed);
    /* Relaxed: no other thread has the words yet. */
    atomic_store_explicit(&p->o.words->deadline_ns, LEASE_FENCED, memory_order_relaxed);
    atomic_store_explicit(&p->o.words->view, view_make(1, 0), memory_order_relaxed);
    if (!external) {
        p->holder = &p->embedded.holder;
        lease_embedded_init(&p->embedded, p->o.lease == PLANE_LEASE_OFF ? LEASE_OFF : p->o.lease_ns,
                            p->applied_version);
        plane_lease_turn(p);
        return;
    }
    p->holder = &p->external;
    holder_init(p->holder, HEARTBEAT_NS, 0);
    feed(p, &(struct holder_event){.type = HOLDER_REGISTERED,
                                   .registered = {.boot = p->boot,
                                                  .term = LEASE_EXTERNAL_TERM,
                                                  .version = p->applied_version}});
}

void plane_lease_stop(struct plane *p)
{
    if (p->o.lease == PLANE_LEASE_OFF) return;
    step(p, &(struct holder_event){.type = HOLDER_STOP});
}
