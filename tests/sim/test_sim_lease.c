/* The lease, simulated: two ConfigNodes of which one leads, three machines with DataNode processes,
 * each machine with a clock of its own, and a network that delays, loses, doubles and reorders. All
 * in one thread, from one seed; the steps are those of lease/, the words and the look those that
 * writers use.
 *
 * The oracle, at any moment:
 *   trust      no process looks live below a complete change, nor with contents that have a gap;
 *   decision   nothing becomes visible under a version below what its process has promised, nor
 *              under an epoch that a later NORMAL has followed;
 *   alarms     no holder is overtaken and no store seems set back, since the clocks keep to rho;
 *   calm       when the network is well again, every change completes and every process is NORMAL.
 *
 * Then each rule is broken, here in the driver and one at a time, and the oracle must find it:
 * a simulator that finds nothing proves nothing.
 *
 *   RF_SEED=n       runs this seed alone, and tells what happens
 *   RF_SIM_SEEDS=n  how many seeds for the rules as they are (2,000); with RF_SEED, from there on
 *
 * ctest: timeout=300 */
#include "lease/grantor.h"
#include "lease/holder.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MACHINES   3
#define PROCS      6 /* two a machine: a copy can be started twice */
#define CONFIGS    2
#define CHANGES    60
#define EVENTS_MAX 8192
#define BOOTS_MAX  256

/* In ticks of true time, which the steps take for nanoseconds. */
#define TTL       2000
#define HEARTBEAT 100
#define RHO_PPM   100000
#define STORM     (16 * TTL) /* how long the network and the machines are unwell */
#define CALM      (6 * TTL)

enum rule {
    AS_THEY_ARE,
    RENEW_AT_RECEIPT,     /* a lease is dated by the moment when its offer arrives */
    COUNT_LAST_ANSWER,    /* that, and the grantor counts from the last status it read */
    ANY_VERSION,          /* a lease is used whatever version it is for */
    FENCED_NO_PROMISE,    /* a fenced process counts as safe, and promises nothing by it */
    PROMISE_UNCLOSED,     /* a change is acknowledged while somebody decides under the old view */
    PROMISE_BY_NODE,      /* a promise counts for all boots of its node */
    DELTA_OVER_GAP,       /* a delta is applied to whatever is there */
    WALL_TIME,            /* the holder trusts a clock that is set back */
    LEADER_WAITS_NOT,     /* a new leader takes nobody as granted */
    LEADER_WITHOUT_END,   /* an old leader goes on granting */
    REMOVED_NOT_AWAITED,  /* a removed node is forgotten at once */
    NO_MARGIN,            /* clocks are taken to be alike */
    UNREGISTERED,         /* an old leader grants to a boot that it has not committed */
    CACHED_TIME,          /* the grantor dates a status by its loop's time, not by a clock */
    FIGURE_OF_OTHER_BOOT, /* offers are not addressed to a boot, but to a machine */
    RULES
};

static const char *const rule_names[RULES] = {
    "as they are",
    "renew at receipt",
    "count from the last answer",
    "grants for any version",
    "fenced without a promise",
    "promised without closing",
    "promises by node",
    "a delta over a gap",
    "wall time",
    "a new leader does not wait",
    "an old leader has no end",
    "a removed node is not waited for",
    "no margin",
    "granted before registered",
    "a loop's cached time",
    "an offer for another boot",
};

enum event_type {
    TO_CONFIG,   /* status arrives */
    TO_PROC,     /* offer arrives */
    REGISTER,    /* a process asks for a number */
    REGISTERED,  /* and gets it */
    CONFIG_TICK, /* offers, verdicts */
    CONFIRMED,   /* an entry of a leader is committed */
    PROC_TICK,
    CLOSE_POLL, /* the plane looks at the lane's slot */
    APPLIED,
    EMPTIED,
    DECIDE, /* the decider looks */
    SHOW,   /* and makes visible what it decided */
    CHAOS   /* one of the things that go wrong, or a change */
};

struct event {
    int64_t at;
    uint64_t order; /* of two at one time the earlier made goes first */
    enum event_type type;
    int target;
    uint64_t life; /* of the process; an event for an earlier life is lost */
    union {
        struct lease_status status;
        struct lease_offer offer;
        struct {
            uint64_t boot, term, version;
        } registered;
        struct {
            uint64_t term;
            int64_t proposed;
        } confirmed;
        struct {
            uint64_t ticket, base, version;
            enum lease_content content;
        } apply;
        uint64_t view;
    };
};

struct machine {
    int64_t since, local; /* its clock showed `local` at the true time `since` */
    int64_t rate_ppm;
    int64_t wall_offset;
    uint64_t node; /* its number in the cluster; another after it was removed */
};

struct proc {
    bool alive;
    uint64_t life;
    int machine;
    int64_t paused_until;
    struct holder h;
    struct lease_words words;
    _Atomic int64_t time_ns[3];
    uint64_t contents; /* bit v - 1: change v is in it */
    bool inside;       /* the lane's slot is taken */
    struct lease_look look;
    uint64_t token;
    bool has_token;
};

struct config {
    struct grantor g;
    bool runs;
    int64_t paused_until;
    int64_t loop_ns; /* its loop's idea of the time */
    int machine;     /* whose clock it has, MACHINES and up */
};

/* What the ConfigNodes agree on. */
struct store {
    uint64_t term;
    int leader;
    uint64_t version, floor;
    uint64_t next_boot;
    struct grantor_registration boots[BOOTS_MAX];
    size_t boot_count;
};

struct totals {
    uint64_t events, decided, shown, fences, normals, by_promise, by_expiry, leaders, boots;
    uint64_t paused, removed, refused;
};

struct sim {
    enum rule broken;
    bool tells;
    uint64_t random;
    int64_t now; /* true time */
    uint64_t orders, lives;
    struct event heap[EVENTS_MAX];
    size_t heap_count;
    struct machine machines[MACHINES + CONFIGS];
    struct proc procs[PROCS];
    struct config configs[CONFIGS];
    struct store store;
    bool calm;
    int loss_percent, double_percent;
    int content_loss_percent; /* content has a way of its own, which can be worse */
    int64_t delay_max, pause_max, linger;
    bool single_deltas; /* a broadcast carries the newest change alone */
    const char *fault;  /* what the oracle found */
    struct totals totals;
};

/* ---- chance, time ---- */

static uint64_t draw(struct sim *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random * UINT64_C(0x2545f4914f6cdd1d);
}
static int64_t below(struct sim *s, int64_t n)
{
    return (int64_t)((draw(s) >> 11) % (uint64_t)n);
}
static bool chance(struct sim *s, int percent)
{
    return below(s, 100) < percent;
}

static int64_t clock_at(const struct machine *m, int64_t now)
{
    return m->local + (now - m->since) * m->rate_ppm / 1000000;
}
static void set_rate(struct sim *s, struct machine *m)
{
    static const int64_t rates[] = {900000, 1000000, 1100000};
    m->local = clock_at(m, s->now);
    m->since = s->now;
    m->rate_ppm = chance(s, 70) ? rates[below(s, 3)] : 900000 + below(s, 200001);
}
static int64_t config_now(struct sim *s, const struct config *c)
{
    return clock_at(&s->machines[c->machine], s->now);
}

static void tell(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(struct sim *s, const char *format, ...)
{
    if (!s->tells) return;
    va_list args;
    va_start(args, format);
    printf("%8" PRId64 "  ", s->now);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}
static void find_fault(struct sim *s, const char *what)
{
    tell(s, "FAULT: %s", what);
    if (s->fault == NULL) s->fault = what;
}

/* ---- the queue of events ---- */

static bool before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}
static void push(struct sim *s, struct event e)
{
    assert_true(s->heap_count < EVENTS_MAX);
    e.order = s->orders++;
    size_t i = s->heap_count++;
    for (; i > 0 && before(&e, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
}
static struct event pop(struct sim *s)
{
    struct event top = s->heap[0], e = s->heap[--s->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= s->heap_count) break;
        if (child + 1 < s->heap_count && before(&s->heap[child + 1], &s->heap[child])) child++;
        if (!before(&s->heap[child], &e)) break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = e;
    return top;
}

static void later(struct sim *s, struct event e, int64_t delay)
{
    e.at = s->now + delay;
    push(s, e);
}

/* Over the network: late, lost, twice. */
static void send(struct sim *s, struct event e)
{
    if (chance(s, s->calm ? 0 : s->loss_percent)) return;
    int copies = chance(s, s->calm ? 0 : s->double_percent) ? 2 : 1;
    for (int i = 0; i < copies; i++)
        later(s, e, 1 + below(s, s->calm ? 5 : chance(s, 70) ? HEARTBEAT / 4 : s->delay_max));
}

/* ---- a process ---- */

static int64_t proc_time(struct sim *s, struct proc *p)
{
    const struct machine *m = &s->machines[p->machine];
    int64_t now = clock_at(m, s->now) + (s->broken == WALL_TIME ? m->wall_offset : 0);
    atomic_store_explicit(&p->time_ns[0], now, memory_order_relaxed); /* one thread */
    return now;
}

static struct lease_look look_now(struct sim *s, struct proc *p)
{
    struct clock c = {.test_ns = p->time_ns};
    (void)proc_time(s, p);
    return lease_look(&p->words, &c);
}

static uint64_t contents_of(uint64_t version)
{
    return version == 0 ? 0 : ~UINT64_C(0) >> (64 - version);
}

/* The oracle: whoever looks live trusts all of what is complete, without a gap. */
static void check_trust(struct sim *s, struct proc *p)
{
    struct lease_look look = look_now(s, p);
    if (!look.live) return;
    uint64_t version = view_version(look.view);
    if (version < s->store.floor) find_fault(s, "live below a complete change");
    if ((p->contents & contents_of(version)) != contents_of(version))
        find_fault(s, "live with a gap");
}

static void feed(struct sim *s, struct proc *p, struct holder_event e);

static void send_status(struct sim *s, struct proc *p, struct lease_status status)
{
    if (s->broken == FENCED_NO_PROMISE && p->h.state != HOLDER_NORMAL &&
        status.promise != LEASE_PROMISE_ALL) {
        if (status.promise < p->h.shown) status.promise = p->h.shown;
        p->h.promise = p->h.applied;
        p->h.shown = p->h.applying ? p->h.applying_version : p->h.applied;
    }
    for (int c = 0; c < CONFIGS; c++)
        send(s, (struct event){.type = TO_CONFIG, .target = c, .status = status});
}

static void act(struct sim *s, struct proc *p, const struct lease_action *a)
{
    struct event e = {.target = (int)(p - s->procs), .life = p->life};
    switch (a->type) {
    case LEASE_PUBLISH_DEADLINE: lease_publish_deadline(&p->words, a->deadline_ns); return;
    case LEASE_PUBLISH_VIEW: lease_publish_view(&p->words, a->view); return;
    case LEASE_SEND_STATUS: send_status(s, p, a->status); return;
    case LEASE_RAISE_ALARM:
        tell(s, "proc %d alarm %d", e.target, (int)a->alarm);
        if (s->broken == AS_THEY_ARE) find_fault(s, "an alarm while all clocks keep to rho");
        return;
    case LEASE_EMPTY_CACHES: e.type = EMPTIED; break;
    case LEASE_CLOSE_VIEWS:
        e.type = CLOSE_POLL;
        e.view = a->view;
        break;
    case LEASE_APPLY_CONTENT:
        e.type = APPLIED;
        e.apply.ticket = a->apply.ticket;
        e.apply.base = a->apply.base;
        e.apply.version = a->apply.version;
        e.apply.content = a->apply.content;
        break;
    }
    later(s, e, 1 + below(s, s->calm || chance(s, 80) ? 3 : HEARTBEAT));
}

static void feed(struct sim *s, struct proc *p, struct holder_event e)
{
    struct lease_actions actions;
    enum holder_state was = p->h.state;
    enum holder_answer answer = holder_step(&p->h, &e, proc_time(s, p), &actions);
    s->totals.refused += answer != HOLDER_TAKEN;
    for (size_t i = 0; i < actions.count; i++) {
        const struct lease_action *a = &actions.items[i];
        if (a->type == LEASE_CLOSE_VIEWS && s->broken == PROMISE_UNCLOSED)
            feed(s, p, (struct holder_event){.type = HOLDER_CLOSED, .view = a->view});
        else
            act(s, p, a);
    }
    if (was != p->h.state)
        tell(s, "proc %d: state %d, epoch %" PRIu32 ", applied %" PRIu64 ", promise %" PRIu64,
             (int)(p - s->procs), (int)p->h.state, p->h.epoch, p->h.applied, p->h.promise);
    s->totals.fences += was == HOLDER_NORMAL && p->h.state != HOLDER_NORMAL;
    s->totals.normals += was != HOLDER_NORMAL && p->h.state == HOLDER_NORMAL;
    check_trust(s, p);
}

static void start_proc(struct sim *s, int machine)
{
    for (int i = 0; i < PROCS; i++) {
        struct proc *p = &s->procs[i];
        if (p->alive) continue;
        memset(p, 0, sizeof(*p));
        p->alive = true;
        p->life = ++s->lives;
        p->machine = machine;
        holder_init(&p->h, HEARTBEAT, 0);
        lease_publish_view(&p->words, view_make(1, 0));
        struct event e = {.target = i, .life = p->life};
        e.type = REGISTER;
        later(s, e, 1 + below(s, HEARTBEAT));
        e.type = PROC_TICK;
        later(s, e, 1 + below(s, HEARTBEAT));
        e.type = DECIDE;
        later(s, e, 1 + below(s, HEARTBEAT));
        s->totals.boots++;
        tell(s, "proc %d started on machine %d", i, machine);
        return;
    }
}

/* Content is told apart by the changes in it, so that a gap shows. */
static void on_applied(struct sim *s, struct proc *p, const struct event *e)
{
    bool ok = s->calm || chance(s, 95);
    if (p->h.applying && e->apply.ticket == p->h.ticket && ok) {
        if (e->apply.content == LEASE_CONTENT_SNAPSHOT) p->contents = 0;
        uint64_t delta = contents_of(e->apply.version);
        if (e->apply.content == LEASE_CONTENT_DELTA) delta &= ~contents_of(e->apply.base);
        p->contents |= delta;
    }
    feed(s, p,
         (struct holder_event){.type = HOLDER_APPLIED,
                               .applied = {.ticket = e->apply.ticket, .ok = ok}});
}

/* An offer with its rule broken, where one is. */
static void on_offer(struct sim *s, struct proc *p, struct lease_offer o)
{
    uint64_t base = o.base;
    if (s->broken == RENEW_AT_RECEIPT || s->broken == COUNT_LAST_ANSWER) {
        o.asked_ns = proc_time(s, p);
        o.ttl_ns = TTL;
    }
    if (s->broken == FIGURE_OF_OTHER_BOOT) o.boot = p->h.boot;
    if (s->broken == DELTA_OVER_GAP && o.content == LEASE_CONTENT_DELTA) o.base = p->h.applied;
    if (s->broken == ANY_VERSION && o.version > p->h.promise) {
        struct lease_offer grant = o;
        grant.version = p->h.promise;
        grant.floor = 0;
        grant.content = LEASE_CONTENT_NONE;
        feed(s, p, (struct holder_event){.type = HOLDER_OFFER, .offer = grant});
    }
    uint64_t ticket = p->h.ticket;
    feed(s, p, (struct holder_event){.type = HOLDER_OFFER, .offer = o});
    /* What the bytes of a delta are does not change by calling its base another. */
    if (s->broken == DELTA_OVER_GAP && p->h.ticket != ticket)
        for (size_t i = 0; i < s->heap_count; i++)
            if (s->heap[i].type == APPLIED && s->heap[i].life == p->life &&
                s->heap[i].apply.ticket == p->h.ticket)
                s->heap[i].apply.base = base;
}

/* The plane waits until nobody is inside with an older view. */
static void on_close_poll(struct sim *s, struct proc *p, const struct event *e)
{
    if (p->inside && p->look.view < e->view)
        later(s, *e, 2);
    else
        feed(s, p, (struct holder_event){.type = HOLDER_CLOSED, .view = e->view});
}

/* ---- a decider ---- */

static void on_decide(struct sim *s, struct proc *p, struct event e)
{
    check_trust(s, p);
    p->look = look_now(s, p);
    bool fits = p->has_token && p->look.live && view_epoch(p->token) == view_epoch(p->look.view);
    if (fits) {
        p->inside = true;
        s->totals.decided++;
        e.type = SHOW;
    } else if (p->look.live) {
        p->token = p->look.view;
    }
    p->has_token = p->look.live && !fits;
    later(s, e, 1 + below(s, HEARTBEAT / 2));
}

static void on_show(struct sim *s, struct proc *p, struct event e)
{
    uint64_t promise = p->h.promise;
    if (promise == LEASE_PROMISE_ALL || view_version(p->look.view) < promise)
        find_fault(s, "visible under a version below a promise");
    if (view_epoch(p->look.view) < p->h.epoch && p->h.state == HOLDER_NORMAL)
        find_fault(s, "visible under an epoch that a later one has followed");
    p->inside = false;
    s->totals.shown++;
    e.type = DECIDE;
    later(s, e, 1 + below(s, HEARTBEAT / 2));
}

/* ---- the ConfigNodes ---- */

static bool leads(const struct sim *s, int config)
{
    const struct config *c = &s->configs[config];
    return s->store.leader == config && c->runs && c->g.leads && c->g.term == s->store.term;
}

static void begin_to_lead(struct sim *s, int config)
{
    struct config *c = &s->configs[config];
    struct grantor_config conf = {.ttl_ns = TTL,
                                  .linger_ns = s->linger,
                                  .margin_ns = grantor_margin_min_ns(TTL, s->linger, RHO_PPM),
                                  .rho_ppm = RHO_PPM,
                                  .heartbeat_ns = HEARTBEAT,
                                  .rebroadcast_ns = HEARTBEAT,
                                  .single = s->broken == LEADER_WITHOUT_END};
    if (c->runs) grantor_deinit(&c->g);
    assert_int_equal(grantor_init(&c->g, &conf), 0);
    if (s->broken == NO_MARGIN) c->g.config.margin_ns = 0;
    c->runs = true;
    s->store.leader = config;
    s->store.term++;
    struct grantor_store have = {.version = s->store.version,
                                 .floor = s->store.floor,
                                 .ttl_longest_ns = TTL,
                                 .boots = s->store.boots,
                                 .boot_count = s->store.boot_count};
    int64_t now = config_now(s, c);
    /* Without a margin the store is one that init would refuse, so it is asked with one. */
    c->g.config.margin_ns = conf.margin_ns;
    assert_int_equal(grantor_lead(&c->g, s->store.term, &have, now), 0);
    if (s->broken == NO_MARGIN) c->g.config.margin_ns = 0;
    if (s->broken == LEADER_WAITS_NOT) {
        for (size_t i = 0; i < c->g.boot_count; i++)
            c->g.boots[i].granted_until_ns = 0;
        for (size_t i = 0; i < c->g.change_count; i++)
            c->g.changes[i].figure_count = 0;
    }
    s->totals.leaders++;
    tell(s, "config %d leads, term %" PRIu64, config, s->store.term);
}

static void on_status(struct sim *s, int config, const struct lease_status *status)
{
    struct config *c = &s->configs[config];
    if (!c->runs) return;
    int64_t now = s->broken == CACHED_TIME ? c->loop_ns : config_now(s, c);
    if (s->broken == CACHED_TIME) c->g.now_ns = c->loop_ns;
    int rc = grantor_read_status(&c->g, status, now);
    if (c->g.halt == GRANTOR_PROMISE_ABOVE && s->broken == AS_THEY_ARE)
        find_fault(s, "a store seems set back");
    if (rc != 0) return;
    const struct grantor_boot *b = grantor_find(&c->g, status->boot);
    if (s->broken != PROMISE_BY_NODE || b == NULL) return;
    for (size_t i = 0; i < c->g.boot_count; i++) {
        struct grantor_boot *other = &c->g.boots[i];
        if (other->registered.node == b->registered.node && other->promise < b->promise)
            other->promise = b->promise;
    }
}

static bool complete_by_last_answer(const struct config *c, uint64_t version, int64_t now)
{
    for (size_t i = 0; i < c->g.boot_count; i++) {
        const struct grantor_boot *b = &c->g.boots[i];
        if (b->promise >= version || b->asked_ns < 0) continue;
        if (now <= b->read_ns + TTL + c->g.config.margin_ns) return false;
    }
    return true;
}

static void judge(struct sim *s, struct config *c)
{
    uint64_t version = s->store.floor + 1;
    if (version > c->g.version) return;
    int64_t now = config_now(s, c);
    bool by_promise = true;
    for (size_t i = 0; i < c->g.boot_count; i++)
        by_promise &= c->g.boots[i].promise >= version;
    if (s->broken == COUNT_LAST_ANSWER) {
        if (!complete_by_last_answer(c, version, now)) return;
        c->g.floor = version;
    } else {
        if (grantor_verdict(&c->g, version, false, now) != GRANTOR_PROCEED) return;
        assert_int_equal(grantor_complete(&c->g, version, now), 0);
    }
    s->store.floor = version;
    *(by_promise ? &s->totals.by_promise : &s->totals.by_expiry) += 1;
    tell(s, "change %" PRIu64 " is complete, by %s", version, by_promise ? "promise" : "expiry");
    for (int i = 0; i < PROCS; i++)
        if (s->procs[i].alive) check_trust(s, &s->procs[i]);
}

static void forget(struct sim *s, struct config *c)
{
    uint64_t boot;
    while (grantor_forget(&c->g, config_now(s, c), &boot))
        for (size_t i = 0; i < s->store.boot_count; i++)
            if (s->store.boots[i].boot == boot) {
                s->store.boot_count--;
                for (size_t k = i; k < s->store.boot_count; k++)
                    s->store.boots[k] = s->store.boots[k + 1];
                break;
            }
}

static void on_config_tick(struct sim *s, int config, struct event e)
{
    struct config *c = &s->configs[config];
    later(s, e, HEARTBEAT / 4 + below(s, HEARTBEAT / 4));
    if (!c->runs) return;
    c->loop_ns = config_now(s, c);
    struct lease_offer o;
    while (grantor_next_offer(&c->g, config_now(s, c), &o)) {
        if (o.content == LEASE_CONTENT_DELTA && s->single_deltas) o.base = o.version - 1;
        for (int i = 0; i < PROCS; i++) {
            struct proc *p = &s->procs[i];
            bool same = p->h.boot == o.boot;
            if (s->broken == FIGURE_OF_OTHER_BOOT && p->h.boot != 0)
                same |= p->machine == (int)(o.boot % MACHINES);
            bool lost =
                o.content != LEASE_CONTENT_NONE && !s->calm && chance(s, s->content_loss_percent);
            if (p->alive && same && !lost)
                send(s, (struct event){.type = TO_PROC, .target = i, .life = p->life, .offer = o});
        }
    }
    if (!leads(s, config)) return;
    judge(s, c);
    forget(s, c);
    struct event entry = {.type = CONFIRMED, .target = config};
    entry.confirmed.term = c->g.term;
    entry.confirmed.proposed = config_now(s, c);
    later(s, entry, 1 + below(s, HEARTBEAT / 4));
}

static void on_register(struct sim *s, struct proc *p, struct event e)
{
    if (!leads(s, s->store.leader) || s->store.boot_count == BOOTS_MAX) {
        later(s, e, HEARTBEAT);
        return;
    }
    struct grantor_registration r = {.node = s->machines[p->machine].node,
                                     .boot = ++s->store.next_boot,
                                     .version = s->store.version};
    s->store.boots[s->store.boot_count++] = r;
    assert_int_equal(grantor_register(&s->configs[s->store.leader].g, &r), 0);
    if (s->broken == UNREGISTERED) {
        struct grantor *old = &s->configs[1 - s->store.leader].g;
        struct grantor_registration early = r;
        early.version = old->version;
        if (s->configs[1 - s->store.leader].runs && grantor_register(old, &early) == 0)
            tell(s, "the old leader knows boot %" PRIu64 " too", r.boot);
    }
    e.type = REGISTERED;
    e.registered.boot = r.boot;
    e.registered.version = s->broken == UNREGISTERED ? 0 : r.version;
    e.registered.term = s->broken == UNREGISTERED ? 0 : s->store.term;
    tell(s, "proc %d is boot %" PRIu64, e.target, r.boot);
    later(s, e, 1 + below(s, HEARTBEAT));
}

/* ---- what goes wrong ---- */

static void change(struct sim *s)
{
    if (!leads(s, s->store.leader) || s->store.version >= CHANGES) return;
    assert_int_equal(grantor_change_begin(&s->configs[s->store.leader].g, s->store.version + 1), 0);
    s->store.version++;
    tell(s, "change %" PRIu64, s->store.version);
}

static void remove_node(struct sim *s)
{
    struct machine *m = &s->machines[below(s, MACHINES)];
    if (!leads(s, s->store.leader)) return;
    struct grantor *g = &s->configs[s->store.leader].g;
    grantor_remove_node(g, m->node);
    for (size_t i = 0; i < s->store.boot_count; i++)
        if (s->store.boots[i].node == m->node) s->store.boots[i].removed = true;
    if (s->broken == REMOVED_NOT_AWAITED)
        for (size_t i = g->boot_count; i-- > 0;)
            if (g->boots[i].registered.removed) {
                g->boot_count--;
                for (size_t k = i; k < g->boot_count; k++)
                    g->boots[k] = g->boots[k + 1];
            }
    m->node += MACHINES;
    s->totals.removed++;
    tell(s, "node %" PRIu64 " removed", m->node - MACHINES);
}

static void kill_proc(struct sim *s, struct proc *p)
{
    if (!p->alive) return;
    p->alive = false;
    tell(s, "proc %d killed", (int)(p - s->procs));
}

static void on_chaos(struct sim *s, struct event e)
{
    if (s->calm) return;
    later(s, e, 1 + below(s, TTL / 8));
    struct proc *p = &s->procs[below(s, PROCS)];
    struct config *c = &s->configs[below(s, CONFIGS)];
    int64_t what = below(s, 100);
    if (what < 40) {
        change(s);
    } else if (what < 55) {
        p->paused_until = s->now + below(s, s->pause_max);
        s->totals.paused++;
        tell(s, "proc %d paused until %" PRId64, (int)(p - s->procs), p->paused_until);
    } else if (what < 60) {
        c->paused_until = s->now + below(s, s->pause_max);
        tell(s, "config %d paused until %" PRId64, (int)(c - s->configs), c->paused_until);
    } else if (what < 75) {
        set_rate(s, &s->machines[below(s, MACHINES + CONFIGS)]);
    } else if (what < 80) {
        kill_proc(s, p);
    } else if (what < 86) {
        start_proc(s, (int)below(s, MACHINES));
    } else if (what < 91) {
        begin_to_lead(s, (int)below(s, CONFIGS));
    } else if (what < 94) {
        remove_node(s);
    } else if (what < 96) {
        s->machines[below(s, MACHINES)].wall_offset -= TTL / 4 + below(s, TTL);
    } else if (what < 98) {
        if (p->alive && p->paused_until <= s->now)
            feed(s, p,
                 (struct holder_event){.type = below(s, 3) == 0 ? HOLDER_STOP : HOLDER_FENCE});
    } else if (c->runs && s->broken != NO_MARGIN) {
        assert_int_equal(grantor_set_ttl(&c->g, chance(s, 50) ? TTL : TTL / 2), 0);
    }
}

/* ---- the run ---- */

static bool deferred(struct sim *s, const struct event *e)
{
    int64_t until = 0;
    if (e->type == TO_CONFIG || e->type == CONFIG_TICK || e->type == CONFIRMED)
        until = s->configs[e->target].paused_until;
    else if (e->type != CHAOS && e->type != REGISTER)
        until = s->procs[e->target].paused_until;
    if (until <= s->now) return false;
    /* A loop that wakes reads its sockets before it looks at its timers. */
    later(s, *e, until - s->now + (e->type == CONFIG_TICK));
    return true;
}

static void handle(struct sim *s, struct event e)
{
    struct proc *p = &s->procs[e.target];
    bool to_config = e.type == TO_CONFIG || e.type == CONFIG_TICK || e.type == CONFIRMED;
    if (!to_config && e.type != CHAOS && (!p->alive || p->life != e.life)) return;
    if (deferred(s, &e)) return;
    s->totals.events++;
    switch (e.type) {
    case TO_CONFIG: on_status(s, e.target, &e.status); break;
    case TO_PROC: on_offer(s, p, e.offer); break;
    case REGISTER: on_register(s, p, e); break;
    case REGISTERED:
        feed(s, p,
             (struct holder_event){.type = HOLDER_REGISTERED,
                                   .registered = {.boot = e.registered.boot,
                                                  .term = e.registered.term,
                                                  .version = e.registered.version}});
        break;
    case CONFIG_TICK: on_config_tick(s, e.target, e); break;
    case CONFIRMED: /* a deposed leader's entries are committed no more */
        if (s->store.term == e.confirmed.term)
            grantor_confirm(&s->configs[e.target].g, e.confirmed.term, e.confirmed.proposed);
        break;
    case PROC_TICK:
        feed(s, p, (struct holder_event){.type = HOLDER_TICK});
        later(s, e, 1 + below(s, HEARTBEAT));
        break;
    case CLOSE_POLL: on_close_poll(s, p, &e); break;
    case APPLIED: on_applied(s, p, &e); break;
    case EMPTIED:
        feed(s, p, (struct holder_event){.type = HOLDER_EMPTIED, .ok = s->calm || chance(s, 95)});
        break;
    case DECIDE: on_decide(s, p, e); break;
    case SHOW: on_show(s, p, e); break;
    case CHAOS: on_chaos(s, e); break;
    }
}

static void set_up(struct sim *s, enum rule broken, uint64_t seed, bool tells)
{
    static const int content_losses[] = {0, 50, 95};
    static const int64_t delays[] = {HEARTBEAT, TTL / 2, 2 * TTL};
    memset(s, 0, sizeof(*s));
    s->broken = broken;
    s->tells = tells;
    s->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < 4; i++)
        (void)draw(s);
    s->loss_percent = (int)below(s, 30);
    s->double_percent = (int)below(s, 30);
    s->content_loss_percent = content_losses[below(s, 3)];
    s->delay_max = delays[below(s, 3)];
    s->pause_max = chance(s, 50) ? TTL / 2 : 2 * TTL;
    s->linger = chance(s, 70) ? TTL / 10 : TTL;
    s->single_deltas = chance(s, 50);
    for (int i = 0; i < MACHINES + CONFIGS; i++) {
        s->machines[i].local = 10 * TTL + below(s, 10 * TTL);
        s->machines[i].node = 1 + (uint64_t)i;
        s->machines[i].rate_ppm = 1000000;
        set_rate(s, &s->machines[i]);
    }
    for (int i = 0; i < CONFIGS; i++) {
        s->configs[i].machine = MACHINES + i;
        later(s, (struct event){.type = CONFIG_TICK, .target = i}, 1);
    }
    begin_to_lead(s, 0);
    for (int i = 0; i < MACHINES; i++)
        start_proc(s, i);
    later(s, (struct event){.type = CHAOS}, TTL / 2);
}

static void run_until(struct sim *s, int64_t until)
{
    while (s->heap_count > 0 && s->heap[0].at <= until && s->fault == NULL) {
        struct event e = pop(s);
        s->now = e.at;
        handle(s, e);
    }
}

static void check_calm(struct sim *s)
{
    if (s->store.floor != s->store.version) find_fault(s, "a change never completes");
    for (int i = 0; i < PROCS; i++) {
        const struct proc *p = &s->procs[i];
        if (!p->alive || p->h.stopping || p->h.state == HOLDER_NORMAL) continue;
        const struct grantor_boot *b = grantor_find(&s->configs[s->store.leader].g, p->h.boot);
        if (b == NULL || b->registered.removed) continue; /* its node was removed */
        find_fault(s, "a process never comes back");
    }
}

/* One seed. Returns what the oracle found, or NULL. */
static const char *run(struct sim *s, enum rule broken, uint64_t seed, bool tells)
{
    set_up(s, broken, seed, tells);
    run_until(s, STORM);
    if (s->fault == NULL && broken == AS_THEY_ARE) {
        s->calm = true;
        if (!leads(s, s->store.leader) || s->configs[s->store.leader].g.halt != GRANTOR_RUNS)
            begin_to_lead(s, s->store.leader);
        tell(s, "calm");
        run_until(s, STORM + CALM);
        if (s->fault == NULL) check_calm(s);
    }
    for (int i = 0; i < CONFIGS; i++)
        if (s->configs[i].runs) grantor_deinit(&s->configs[i].g);
    return s->fault;
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    if (text == NULL) return otherwise;
    char *end;
    uint64_t n = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0') {
        print_error("%s: not a number: %s\n", name, text);
        fail();
    }
    return n;
}

static struct sim sim; /* too large for a stack */

static void add_totals(struct totals *sum, const struct totals *one)
{
    uint64_t *a = (uint64_t *)sum;
    const uint64_t *b = (const uint64_t *)one;
    for (size_t i = 0; i < sizeof(*sum) / sizeof(*a); i++)
        a[i] += b[i];
}

static void sim_lease__rules_as_they_are__nothing_found(void **state)
{
    (void)state;
    /* A seed alone is told step by step. */
    bool one = getenv("RF_SEED") != NULL && getenv("RF_SIM_SEEDS") == NULL;
    uint64_t first = number_from("RF_SEED", 1);
    uint64_t count = one ? 1 : number_from("RF_SIM_SEEDS", 2000);
    struct totals t = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        const char *fault = run(&sim, AS_THEY_ARE, seed, one);
        add_totals(&t, &sim.totals);
        if (fault == NULL) continue;
        print_error("RF_SEED=%" PRIu64 ": %s\n", seed, fault);
        fail();
    }
    print_message("seeds %" PRIu64 "..%" PRIu64 ": %" PRIu64 " events, %" PRIu64
                  " decided, %" PRIu64 " fences, %" PRIu64
                  " recoveries, complete by promise %" PRIu64 " and by expiry %" PRIu64 ", %" PRIu64
                  " leaders, %" PRIu64 " boots, %" PRIu64 " pauses, %" PRIu64
                  " nodes removed, %" PRIu64 " offers refused\n",
                  first, first + count - 1, t.events, t.decided, t.fences, t.normals, t.by_promise,
                  t.by_expiry, t.leaders, t.boots, t.paused, t.removed, t.refused);
    if (count < 100) return; /* too few to have seen everything */
    const uint64_t *each = (const uint64_t *)&t;
    for (size_t i = 0; i < sizeof(t) / sizeof(*each); i++)
        assert_true(each[i] > 0); /* a kind of event that never happened tests nothing */
}

/* Each broken rule within this many seeds; most show in the first few. */
#define SEEDS_TO_FIND 10000

static void sim_lease__each_rule_broken__found(void **state)
{
    (void)state;
    unsigned missed = 0;
    uint64_t first = number_from("RF_SEED", 1);
    for (int rule = AS_THEY_ARE + 1; rule < RULES; rule++) {
        uint64_t seed = first, events = 0;
        const char *fault = NULL;
        for (; fault == NULL && seed < first + SEEDS_TO_FIND; seed++) {
            fault = run(&sim, (enum rule)rule, seed, false);
            events += sim.totals.events;
        }
        print_message("%-34s %s%s after %" PRIu64 " seeds, %" PRIu64 " events\n", rule_names[rule],
                      fault == NULL ? "NOT FOUND" : "found: ", fault == NULL ? "" : fault,
                      seed - first, events);
        missed += fault == NULL;
    }
    assert_int_equal(missed, 0);
}

/* test_sim_lease '*broken*' runs what fits the pattern. */
int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim_lease__rules_as_they_are__nothing_found),
        cmocka_unit_test(sim_lease__each_rule_broken__found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
