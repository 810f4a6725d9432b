/* The holder's steps; the rules are numbered as in docs/lease.md. */
#include "lease/holder.h"

#include "base/check.h"

static int64_t later_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static uint64_t higher_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct lease_action *ask(struct lease_actions *out, enum lease_action_type type)
{
    CHECK(out->count < LEASE_ACTIONS_MAX);
    struct lease_action *a = &out->items[out->count++];
    *a = (struct lease_action){.type = type};
    return a;
}

static uint64_t view_now(const struct holder *h)
{
    return view_make(h->epoch, h->applied);
}

/* A status is dated here, by the clock of this step, before it can leave. */
static void send_status(struct holder *h, int64_t now_ns, bool pull, struct lease_actions *out)
{
    h->status_due_ns = now_ns + h->heartbeat_ns;
    if (h->boot == 0) return;
    ask(out, LEASE_SEND_STATUS)->status = (struct lease_status){
        .boot = h->boot,
        .asked_ns = now_ns,
        .promise = h->promise,
        .term = h->term,
        .pull = pull && !h->stopping,
    };
}

static void raise_alarm(enum lease_alarm alarm, struct lease_actions *out)
{
    ask(out, LEASE_RAISE_ALARM)->alarm = alarm;
}

/* Rule 3: what may be promised now. With the old views closed a fenced process trusts nothing, so
 * it can promise whatever it has been shown; before that somebody may still decide under the old
 * one. */
static void raise_promise(struct holder *h)
{
    if (h->state == HOLDER_NORMAL || !h->closed) return;
    h->promise = higher_of(h->promise, h->stopping ? LEASE_PROMISE_ALL : h->shown);
}

/* Rule 4. The deadline goes first: whoever sees the new view sees that it is not live. */
static void fence(struct holder *h, struct lease_actions *out)
{
    h->state = HOLDER_FENCED;
    h->deadline_ns = LEASE_FENCED;
    h->closed = false;
    h->caches_empty = false;
    h->applying = false; /* what is being applied is answered under an old ticket, and ignored */
    h->waiting_count = 0;
    if (h->epoch < VIEW_EPOCH_MAX) h->epoch++;
    if (h->epoch == VIEW_EPOCH_MAX) raise_alarm(LEASE_ALARM_EPOCHS_ENDED, out);
    ask(out, LEASE_PUBLISH_DEADLINE)->deadline_ns = LEASE_FENCED;
    ask(out, LEASE_PUBLISH_VIEW)->view = view_now(h);
    ask(out, LEASE_EMPTY_CACHES);
    ask(out, LEASE_CLOSE_VIEWS)->view = view_now(h);
}

/* Rule 1, the half that waits: kept in order of version, so that the first ones are usable first.
 */
static void keep_grant(struct holder *h, uint64_t version, int64_t until_ns)
{
    struct holder_waiting *w = h->waiting;
    size_t n = h->waiting_count, at = 0;
    while (at < n && w[at].version < version)
        at++;
    if (at < n && w[at].version == version) {
        w[at].until_ns = later_of(w[at].until_ns, until_ns);
        return;
    }
    if (n == HOLDER_WAITING_MAX) {
        struct holder_waiting *last = &w[n - 1];
        last->version = higher_of(last->version, version);
        last->until_ns = later_of(last->until_ns, until_ns);
        return;
    }
    for (size_t i = n; i > at; i--)
        w[i] = w[i - 1];
    w[at] = (struct holder_waiting){.version = version, .until_ns = until_ns};
    h->waiting_count = n + 1;
}

/* Rule 1: the latest end among the leases whose version is promised; they leave the list. */
static int64_t take_grants(struct holder *h)
{
    int64_t until_ns = LEASE_FENCED;
    size_t used = 0;
    while (used < h->waiting_count && h->waiting[used].version <= h->promise)
        until_ns = later_of(until_ns, h->waiting[used++].until_ns);
    for (size_t i = used; i < h->waiting_count; i++)
        h->waiting[i - used] = h->waiting[i];
    h->waiting_count -= used;
    return until_ns;
}

static void extend(struct holder *h, struct lease_actions *out)
{
    if (h->state != HOLDER_NORMAL) return;
    int64_t until_ns = take_grants(h);
    if (until_ns <= h->deadline_ns) return;
    h->deadline_ns = until_ns;
    ask(out, LEASE_PUBLISH_DEADLINE)->deadline_ns = until_ns;
}

static void begin_apply(struct holder *h, const struct lease_offer *o, struct lease_actions *out)
{
    h->applying = true;
    h->applying_version = o->version;
    h->applying_until_ns = o->ttl_ns > 0 ? o->asked_ns + o->ttl_ns : LEASE_FENCED;
    struct lease_action *a = ask(out, LEASE_APPLY_CONTENT);
    a->apply.content = o->content;
    a->apply.base = o->base;
    a->apply.version = o->version;
    a->apply.ticket = ++h->ticket;
}

static enum holder_answer judge_offer(const struct holder *h, const struct lease_offer *o,
                                      int64_t now_ns)
{
    if (h->boot == 0 || o->boot != h->boot) return HOLDER_REFUSED_BOOT;
    if (o->term < h->term) return HOLDER_REFUSED_TERM;
    if (o->version > LEASE_VERSION_MAX || o->floor > o->version) return HOLDER_REFUSED_RANGE;
    if (o->asked_ns < 0 || o->ttl_ns < 0 || o->asked_ns > INT64_MAX - 1 - o->ttl_ns)
        return HOLDER_REFUSED_RANGE;
    if (o->asked_ns > now_ns) return HOLDER_REFUSED_FUTURE;
    /* An older message of one term may name an older version. A later leader has everything that
     * an earlier one had committed before it told anybody. */
    if (o->term > h->term && o->version < h->shown) return HOLDER_REFUSED_BACK;
    return HOLDER_TAKEN;
}

static void offer_while_normal(struct holder *h, const struct lease_offer *o, int64_t now_ns,
                               struct lease_actions *out)
{
    bool gap = false;
    if (o->content != LEASE_CONTENT_NONE && o->version > h->applied && !h->applying) {
        gap = o->content == LEASE_CONTENT_DELTA && o->base != h->applied;
        if (!gap) begin_apply(h, o, out);
    }
    if (o->ttl_ns > 0) keep_grant(h, o->version, o->asked_ns + o->ttl_ns);
    extend(h, out);
    /* While content is on its way in, the status that counts is the one after its promise. */
    if (!h->applying || o->content == LEASE_CONTENT_NONE) send_status(h, now_ns, gap, out);
}

/* Rule 4: back only by an offer with everything in it, not below what was shown, whose lease is not
 * over; and only after the old views are closed and the caches are empty. */
static bool ends_the_fence(const struct holder *h, const struct lease_offer *o, int64_t now_ns)
{
    if (h->stopping || !h->closed || !h->caches_empty || h->epoch == VIEW_EPOCH_MAX) return false;
    if (o->content != LEASE_CONTENT_SNAPSHOT || o->version < h->promise) return false;
    return o->ttl_ns > 0 && o->asked_ns + o->ttl_ns > now_ns;
}

static void offer_while_fenced(struct holder *h, const struct lease_offer *o, int64_t now_ns,
                               struct lease_actions *out)
{
    raise_promise(h);
    if (h->state == HOLDER_PULLING) {
        if (o->ttl_ns > 0) keep_grant(h, o->version, o->asked_ns + o->ttl_ns);
        if (o->content == LEASE_CONTENT_NONE) send_status(h, now_ns, false, out);
        return;
    }
    if (ends_the_fence(h, o, now_ns)) {
        h->state = HOLDER_PULLING;
        begin_apply(h, o, out);
        return;
    }
    /* Content that was of no use is not answered by a wish for more: that would be a storm. */
    send_status(h, now_ns, o->content == LEASE_CONTENT_NONE, out);
}

static enum holder_answer on_offer(struct holder *h, const struct lease_offer *o, int64_t now_ns,
                                   struct lease_actions *out)
{
    enum holder_answer answer = judge_offer(h, o, now_ns);
    if (answer == HOLDER_REFUSED_BACK) raise_alarm(LEASE_ALARM_STORE_BACK, out);
    if (answer != HOLDER_TAKEN) return answer;
    h->term = o->term;
    h->shown = higher_of(h->shown, o->version);
    if (h->state == HOLDER_NORMAL && h->promise < o->floor) {
        raise_alarm(LEASE_ALARM_OVERTAKEN, out);
        fence(h, out);
    }
    if (h->state == HOLDER_NORMAL)
        offer_while_normal(h, o, now_ns, out);
    else
        offer_while_fenced(h, o, now_ns, out);
    return HOLDER_TAKEN;
}

static void pulled(struct holder *h, int64_t until_ns, int64_t now_ns, struct lease_actions *out)
{
    h->state = HOLDER_FENCED;
    /* Something newer was shown and promised meanwhile: what was pulled is already untrusted. */
    if (h->applied >= h->shown) {
        h->promise = h->applied;
        until_ns = later_of(until_ns, take_grants(h));
        if (until_ns > now_ns) {
            h->state = HOLDER_NORMAL;
            h->deadline_ns = until_ns;
            ask(out, LEASE_PUBLISH_DEADLINE)->deadline_ns = until_ns;
        }
    }
    if (h->state == HOLDER_FENCED) h->waiting_count = 0;
    send_status(h, now_ns, h->state == HOLDER_FENCED, out);
}

static void on_applied(struct holder *h, uint64_t ticket, bool ok, int64_t now_ns,
                       struct lease_actions *out)
{
    if (!h->applying || ticket != h->ticket) return;
    uint64_t version = h->applying_version;
    h->applying = false;
    if (!ok) {
        if (h->state == HOLDER_NORMAL) {
            fence(h, out);
        } else { /* the next heartbeat or tick pulls again */
            h->state = HOLDER_FENCED;
            h->waiting_count = 0;
        }
        return;
    }
    CHECK(version >= h->applied);
    h->applied = version;
    ask(out, LEASE_PUBLISH_VIEW)->view = view_now(h);
    if (h->state == HOLDER_NORMAL)
        ask(out, LEASE_CLOSE_VIEWS)->view = view_now(h);
    else
        pulled(h, h->applying_until_ns, now_ns, out);
}

static void on_closed(struct holder *h, uint64_t view, int64_t now_ns, struct lease_actions *out)
{
    CHECK(view <= view_now(h));
    uint64_t before = h->promise;
    /* Nobody decides under a version below the closed view's, whatever was fenced since. */
    h->promise = higher_of(h->promise, view_version(view));
    if (view_epoch(view) == h->epoch) h->closed = true;
    raise_promise(h);
    extend(h, out);
    if (h->promise != before || h->state == HOLDER_FENCED)
        send_status(h, now_ns, h->state == HOLDER_FENCED, out);
}

static void on_registered(struct holder *h, uint64_t boot, uint64_t term, uint64_t version,
                          int64_t now_ns, struct lease_actions *out)
{
    CHECK(boot != 0 && version <= LEASE_VERSION_MAX);
    if (h->boot != 0) {
        CHECK(h->boot == boot); /* a boot is one life of a process: it has one number */
        return;
    }
    h->boot = boot;
    h->term = higher_of(h->term, term);
    /* It registered with a store that lacks what it obeyed in an earlier life. */
    if (version < h->shown) raise_alarm(LEASE_ALARM_STORE_BACK, out);
    h->shown = higher_of(h->shown, version);
    raise_promise(h);
    send_status(h, now_ns, true, out);
}

static void on_tick(struct holder *h, int64_t now_ns, struct lease_actions *out)
{
    /* A cache could not be emptied: once more, unless this very step fenced and has asked. */
    if (!h->caches_empty && out->count == 0) ask(out, LEASE_EMPTY_CACHES);
    bool ready = h->state == HOLDER_FENCED && h->closed && h->caches_empty;
    if (now_ns >= h->status_due_ns) send_status(h, now_ns, ready, out);
}

static void on_stop(struct holder *h, int64_t now_ns, struct lease_actions *out)
{
    h->stopping = true;
    if (h->state == HOLDER_NORMAL) fence(h, out);
    h->state = HOLDER_FENCED;
    h->applying = false;
    if (!h->closed) return; /* what closes the views promises */
    raise_promise(h);
    send_status(h, now_ns, false, out);
}

static void check_holder(const struct holder *h)
{
    CHECK((h->state == HOLDER_NORMAL) == (h->deadline_ns != LEASE_FENCED));
    CHECK(h->state != HOLDER_NORMAL || (h->promise <= h->applied && !h->stopping));
    CHECK(h->state != HOLDER_PULLING || (h->closed && h->applying));
    CHECK(h->promise <= h->shown || h->promise == LEASE_PROMISE_ALL);
}

void holder_init(struct holder *h, int64_t heartbeat_ns, uint64_t obeyed)
{
    CHECK(heartbeat_ns > 0 && obeyed <= LEASE_VERSION_MAX);
    *h = (struct holder){
        .state = HOLDER_FENCED,
        .closed = true,
        .caches_empty = true,
        .epoch = 1,
        .shown = obeyed,
        .heartbeat_ns = heartbeat_ns,
    };
}

enum holder_answer holder_step(struct holder *h, const struct holder_event *e, int64_t now_ns,
                               struct lease_actions *actions_out)
{
    enum holder_answer answer = HOLDER_TAKEN;
    uint64_t promise_before = h->promise;
    actions_out->count = 0;
    /* A lease that is over is over, whatever the event brings: nothing extends it from behind. */
    if (h->state == HOLDER_NORMAL && now_ns >= h->deadline_ns) fence(h, actions_out);
    switch (e->type) {
    case HOLDER_TICK: on_tick(h, now_ns, actions_out); break;
    case HOLDER_REGISTERED:
        on_registered(h, e->registered.boot, e->registered.term, e->registered.version, now_ns,
                      actions_out);
        break;
    case HOLDER_OFFER: answer = on_offer(h, &e->offer, now_ns, actions_out); break;
    case HOLDER_APPLIED:
        on_applied(h, e->applied.ticket, e->applied.ok, now_ns, actions_out);
        break;
    case HOLDER_CLOSED: on_closed(h, e->view, now_ns, actions_out); break;
    case HOLDER_EMPTIED: h->caches_empty |= e->ok; break;
    case HOLDER_FENCE: fence(h, actions_out); break;
    case HOLDER_STOP: on_stop(h, now_ns, actions_out); break;
    }
    CHECK(h->promise >= promise_before);
    check_holder(h);
    return answer;
}

int64_t holder_next_ns(const struct holder *h)
{
    if (h->state == HOLDER_NORMAL && h->deadline_ns < h->status_due_ns) return h->deadline_ns;
    return h->status_due_ns;
}
