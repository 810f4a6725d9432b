/* The holder's steps, rule by rule, and each refusal. */
#include "lease_rig.h"

/* ---- rule 1: grants ---- */

static void lease_holder__begins__fenced(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 5 * SECOND);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    assert_false(rig_live(&r));
    rig_simple(&r, HOLDER_TICK);
    assert_int_equal(r.statuses, 0); /* not registered: nobody would know it */
    assert_int_equal(holder_next_ns(&r.h), 6 * SECOND);
    rig_register(&r, 1, 4);
    assert_int_equal(r.statuses, 1);
    assert_true(r.status.pull);
    assert_int_equal(r.status.promise, 4); /* never given less than when it registered */
    assert_int_equal(r.status.asked_ns, 5 * SECOND);
}

static void lease_holder__grant__dated_by_the_asking(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    assert_int_equal(rig_deadline(&r), 30 * SECOND);
    assert_int_equal(rig_view(&r), view_make(1, 3));
    rig_time(&r, 25 * SECOND); /* fifteen seconds on the way: they count */
    struct lease_offer o = rig_heartbeat(12 * SECOND, 3);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(rig_deadline(&r), 32 * SECOND);
    assert_int_equal(r.status.asked_ns, 25 * SECOND);
}

static void lease_holder__older_grant__never_moves_back(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    struct lease_offer o = rig_heartbeat(4 * SECOND, 3);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(rig_deadline(&r), 30 * SECOND);
    o = rig_heartbeat(10 * SECOND, 3);
    o.ttl_ns = 0; /* no lease in it */
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(rig_deadline(&r), 30 * SECOND);
}

static void lease_holder__grant_of_a_newer_version__waits_for_its_promise(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    r.closes = false;
    rig_time(&r, 15 * SECOND);
    struct lease_offer o = rig_delta(14 * SECOND, 3, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(rig_view(&r), view_make(1, 4)); /* published, and not closed */
    assert_int_equal(r.h.promise, 3);
    assert_int_equal(rig_deadline(&r), 30 * SECOND);
    o = rig_heartbeat(15 * SECOND, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(rig_deadline(&r), 30 * SECOND);
    rig_closed(&r);
    assert_int_equal(r.h.promise, 4);
    assert_int_equal(r.status.promise, 4);
    assert_int_equal(rig_deadline(&r), 35 * SECOND);
}

static void lease_holder__view_that_does_not_close__loses_the_lease(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    r.closes = false;
    struct lease_offer o = rig_delta(10 * SECOND, 3, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    for (int64_t t = 11; t < 30; t++) {
        rig_time(&r, t * SECOND);
        o = rig_heartbeat(t * SECOND, 4);
        assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
        assert_int_equal(r.h.state, HOLDER_NORMAL);
    }
    rig_time(&r, 30 * SECOND);
    o = rig_heartbeat(30 * SECOND, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    assert_int_equal(r.h.promise, 3);
}

static void lease_holder__many_waiting_grants__the_usable_ones_are_used(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 1);
    rig_time(&r, 20 * SECOND);
    /* Reordered, and one more version than there is room for: the last two merge into the harder
     * one, and both are used once that is promised. */
    const struct {
        uint64_t version;
        int64_t asked_s;
    } offers[] = {{4, 13}, {2, 11}, {5, 17}, {3, 12}, {6, 16}, {4, 14}};
    for (size_t i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
        struct lease_offer o = rig_heartbeat(offers[i].asked_s * SECOND, offers[i].version);
        assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    }
    assert_int_equal(r.h.waiting_count, HOLDER_WAITING_MAX);
    assert_int_equal(rig_deadline(&r), 30 * SECOND);
    const int64_t ends_s[] = {31, 32, 34, 34, 37};
    for (uint64_t v = 2; v <= 6; v++) {
        struct lease_offer o = rig_delta(0, v - 1, v);
        o.ttl_ns = 0;
        assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
        assert_int_equal(rig_deadline(&r), ends_s[v - 2] * SECOND);
    }
    assert_int_equal(r.h.waiting_count, 0);
}

/* ---- refusals: the state stays as it was ---- */

static void expect_refused(struct rig *r, const struct lease_offer *o, enum holder_answer answer)
{
    struct holder before = r->h;
    assert_int_equal(rig_offer(r, o), answer);
    assert_memory_equal(&before, &r->h, sizeof(before));
}

static void lease_holder__refusals__leave_no_trace(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    struct lease_offer o = rig_heartbeat(10 * SECOND + 1, 3);
    expect_refused(&r, &o, HOLDER_REFUSED_FUTURE);
    o = rig_heartbeat(10 * SECOND, 3);
    o.boot = 2;
    expect_refused(&r, &o, HOLDER_REFUSED_BOOT);
    o = rig_heartbeat(10 * SECOND, 3);
    o.term = 0;
    expect_refused(&r, &o, HOLDER_REFUSED_TERM);
    o = rig_heartbeat(-1, 3);
    expect_refused(&r, &o, HOLDER_REFUSED_RANGE);
    o = rig_heartbeat(10 * SECOND, 3);
    o.ttl_ns = -1;
    expect_refused(&r, &o, HOLDER_REFUSED_RANGE);
    o.ttl_ns = INT64_MAX - 10 * SECOND; /* would be LEASE_OFF */
    expect_refused(&r, &o, HOLDER_REFUSED_RANGE);
    o.ttl_ns = INT64_MAX;
    expect_refused(&r, &o, HOLDER_REFUSED_RANGE);
    o = rig_heartbeat(10 * SECOND, LEASE_VERSION_MAX + 1);
    expect_refused(&r, &o, HOLDER_REFUSED_RANGE);
    o = rig_heartbeat(10 * SECOND, 3);
    o.floor = 4;
    expect_refused(&r, &o, HOLDER_REFUSED_RANGE);
    assert_int_equal(r.alarms, 0);
}

static void lease_holder__edge_values__are_taken(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    struct lease_offer o = rig_heartbeat(10 * SECOND, 3);
    o.ttl_ns = INT64_MAX - 1 - 10 * SECOND;
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(rig_deadline(&r), INT64_MAX - 1);
    o = rig_snapshot(10 * SECOND, LEASE_VERSION_MAX);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(rig_view(&r), view_make(1, LEASE_VERSION_MAX));
    assert_int_equal(r.h.promise, LEASE_VERSION_MAX);
}

static void lease_holder__not_registered__refuses_offers(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, SECOND);
    struct lease_offer o = rig_snapshot(SECOND, 3);
    o.boot = 0;
    expect_refused(&r, &o, HOLDER_REFUSED_BOOT);
    o.boot = 1;
    expect_refused(&r, &o, HOLDER_REFUSED_BOOT);
}

static void lease_holder__later_term_with_fewer_versions__refused_with_alarm(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    struct lease_offer o = rig_heartbeat(10 * SECOND, 2);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN); /* same term: only late */
    o.term = 2;
    expect_refused(&r, &o, HOLDER_REFUSED_BACK);
    assert_int_equal(r.alarm, LEASE_ALARM_STORE_BACK);

    /* And what an earlier life had obeyed counts. */
    holder_init(&r.h, SECOND, 9);
    r.alarms = 0;
    rig_register(&r, 2, 5);
    assert_int_equal(r.alarms, 1);
    assert_int_equal(r.alarm, LEASE_ALARM_STORE_BACK);
    assert_int_equal(r.status.promise, 9);
    o = rig_snapshot(10 * SECOND, 8);
    o.boot = 2;
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    o.version = 9;
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_NORMAL);
}

/* ---- versions: no gap ---- */

static void lease_holder__delta_over_a_gap__not_applied_and_pulled(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    size_t applies = r.applies_asked;
    struct lease_offer o = rig_delta(10 * SECOND, 4, 5);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.applies_asked, applies);
    assert_int_equal(r.h.applied, 3);
    assert_int_equal(r.h.promise, 3);
    assert_true(r.status.pull);
    o = rig_delta(10 * SECOND, 2, 5); /* base below what is applied: no base of ours either */
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.applies_asked, applies);
    o = rig_snapshot(10 * SECOND, 5);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.promise, 5);
}

static void lease_holder__content_twice_or_older__applied_once(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    struct lease_offer o = rig_delta(10 * SECOND, 3, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    size_t applies = r.applies_asked, statuses = r.statuses;
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.applies_asked, applies);
    assert_int_equal(r.statuses, statuses + 1); /* the acknowledgement may have been lost */
    o = rig_snapshot(10 * SECOND, 2);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.applies_asked, applies);
    assert_int_equal(r.h.applied, 4);
}

/* ---- rule 3: promises ---- */

static void lease_holder__fenced_not_closed__promises_nothing_new(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    r.closes = false;
    rig_simple(&r, HOLDER_FENCE);
    struct lease_offer o = rig_heartbeat(10 * SECOND, 7);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.status.promise, 3); /* somebody may still decide under 3 */
    rig_closed(&r);
    assert_int_equal(r.status.promise, 7); /* shown while it was fenced */
    assert_true(r.status.pull);
}

static void lease_holder__fenced__not_normal_below_what_was_shown(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    rig_simple(&r, HOLDER_FENCE);
    struct lease_offer o = rig_heartbeat(10 * SECOND, 7);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.promise, 7);
    size_t applies = r.applies_asked;
    o = rig_snapshot(10 * SECOND, 6); /* an older pull's answer, late */
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.applies_asked, applies);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    o = rig_snapshot(10 * SECOND, 7);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_NORMAL);
}

static void lease_holder__newer_shown_while_pulling__pulls_again(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    rig_simple(&r, HOLDER_FENCE);
    r.applies = false;
    struct lease_offer o = rig_snapshot(10 * SECOND, 6);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_PULLING);
    assert_false(rig_live(&r));
    o = rig_heartbeat(10 * SECOND, 8);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.status.promise, 8);
    rig_applied(&r, true);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    assert_int_equal(r.h.applied, 6);
    assert_false(rig_live(&r));
    assert_true(r.status.pull);
}

static void lease_holder__late_close_of_a_version__still_promises_it(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    r.closes = false;
    struct lease_offer o = rig_delta(10 * SECOND, 3, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    uint64_t first = r.close_asked;
    rig_simple(&r, HOLDER_FENCE);
    rig_feed(&r, &(struct holder_event){.type = HOLDER_CLOSED, .view = first});
    assert_int_equal(r.h.promise, 4);
    assert_false(r.h.closed); /* the fence's own view is not */
    o = rig_snapshot(10 * SECOND, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    rig_closed(&r);
    assert_true(r.h.closed);
}

static void lease_holder__stop__promises_everything_once_closed(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    r.closes = false;
    rig_simple(&r, HOLDER_STOP);
    assert_false(rig_live(&r));
    assert_int_equal(r.h.promise, 3);
    rig_closed(&r);
    assert_int_equal(r.h.promise, LEASE_PROMISE_ALL);
    assert_int_equal(r.status.promise, LEASE_PROMISE_ALL);
    assert_false(r.status.pull);
    struct lease_offer o = rig_snapshot(10 * SECOND, 5);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED); /* for good */

    rig_normal(&r, 10 * SECOND, 3); /* fenced and closed already: at once */
    rig_simple(&r, HOLDER_FENCE);
    rig_simple(&r, HOLDER_STOP);
    assert_int_equal(r.status.promise, LEASE_PROMISE_ALL);
}

/* ---- rule 4: fences ---- */

static void lease_holder__lapse__noticed_by_any_event(void **state)
{
    (void)state;
    for (int which = 0; which < 4; which++) {
        struct rig r;
        rig_normal(&r, 10 * SECOND, 3);
        size_t emptied = r.empties_asked;
        uint64_t token = rig_view(&r);
        rig_time(&r, 30 * SECOND);
        struct lease_offer o = rig_heartbeat(29 * SECOND, 3);
        if (which == 0) rig_simple(&r, HOLDER_TICK);
        if (which == 1) assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
        if (which == 2) rig_feed(&r, &(struct holder_event){.type = HOLDER_EMPTIED, .ok = true});
        if (which == 3) {
            o.boot = 9; /* a refused message carries the time as well */
            assert_int_equal(rig_offer(&r, &o), HOLDER_REFUSED_BOOT);
        }
        assert_int_equal(r.h.state, HOLDER_FENCED);
        assert_int_equal(rig_deadline(&r), LEASE_FENCED);
        assert_int_equal(rig_view(&r), view_make(2, 3));
        assert_int_equal(r.empties_asked, emptied + 1);
        rig_time(&r, 0);
        assert_false(lease_check(&r.words, &r.clock, token));
    }
}

static void lease_holder__lapse__actions_in_order(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    struct lease_actions acts;
    struct holder_event e = {.type = HOLDER_TICK};
    assert_int_equal(holder_step(&r.h, &e, 29 * SECOND + 999999999, &acts), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_NORMAL);
    assert_int_equal(holder_step(&r.h, &e, 30 * SECOND, &acts), HOLDER_TAKEN);
    assert_true(acts.count >= 4);
    assert_int_equal(acts.items[0].type, LEASE_PUBLISH_DEADLINE);
    assert_int_equal(acts.items[0].deadline_ns, LEASE_FENCED);
    assert_int_equal(acts.items[1].type, LEASE_PUBLISH_VIEW);
    assert_int_equal(acts.items[1].view, view_make(2, 3));
    assert_int_equal(acts.items[2].type, LEASE_EMPTY_CACHES);
    assert_int_equal(acts.items[3].type, LEASE_CLOSE_VIEWS);
    assert_int_equal(acts.items[3].view, view_make(2, 3));
}

/* A lease that waited for its promise when the fence came was asked for before it. */
static void lease_holder__waiting_grant__does_not_survive_a_fence(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    rig_time(&r, 20 * SECOND);
    struct lease_offer o = rig_heartbeat(20 * SECOND, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    rig_simple(&r, HOLDER_FENCE);
    o = rig_snapshot(20 * SECOND, 4);
    o.ttl_ns = 5 * SECOND;
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_NORMAL);
    assert_int_equal(rig_deadline(&r), 25 * SECOND);
}

static void lease_holder__below_the_floor__fenced_with_alarm(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    struct lease_offer o = rig_heartbeat(10 * SECOND, 5);
    o.floor = 3;
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_NORMAL);
    o.floor = 4; /* complete without it, and yet its clock says that the lease goes on */
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    assert_int_equal(r.alarms, 1);
    assert_int_equal(r.alarm, LEASE_ALARM_OVERTAKEN);
    assert_int_equal(rig_deadline(&r), LEASE_FENCED);
}

/* It has the version, but somebody may still decide under the one before: for others it is past. */
static void lease_holder__applied_and_not_promised_at_the_floor__fenced_with_alarm(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    r.closes = false;
    struct lease_offer o = rig_delta(10 * SECOND, 3, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.applied, 4);
    assert_int_equal(r.h.promise, 3);
    o = rig_heartbeat(10 * SECOND, 4);
    o.floor = 4;
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    assert_int_equal(r.alarm, LEASE_ALARM_OVERTAKEN);
}

static void lease_holder__change_that_can_not_be_applied__fences(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    r.applies = false;
    struct lease_offer o = rig_delta(10 * SECOND, 3, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    rig_applied(&r, false);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    assert_int_equal(r.h.applied, 3);
    assert_int_equal(r.status.promise, 4); /* and so is safe: one sick node stops nobody */
}

static void lease_holder__pull_that_fails__stays_fenced_and_tries_again(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    rig_simple(&r, HOLDER_FENCE);
    uint32_t epoch = r.h.epoch;
    r.applies = false;
    struct lease_offer o = rig_snapshot(10 * SECOND, 6);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    rig_applied(&r, false);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    assert_int_equal(r.h.epoch, epoch);
    rig_time(&r, 11 * SECOND);
    rig_simple(&r, HOLDER_TICK);
    assert_true(r.status.pull);
    assert_int_equal(r.status.asked_ns, 11 * SECOND);
    r.applies = true;
    o = rig_snapshot(11 * SECOND, 6);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_NORMAL);
}

static void lease_holder__answer_under_an_old_ticket__ignored(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    r.applies = false;
    struct lease_offer o = rig_delta(10 * SECOND, 3, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    uint64_t old = r.ticket;
    rig_simple(&r, HOLDER_FENCE);
    o = rig_snapshot(10 * SECOND, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_PULLING);
    assert_int_not_equal(r.ticket, old);
    rig_feed(
        &r, &(struct holder_event){.type = HOLDER_APPLIED, .applied = {.ticket = old, .ok = true}});
    assert_int_equal(r.h.state, HOLDER_PULLING);
    assert_int_equal(r.h.applied, 3);
}

static void lease_holder__recovery__needs_content_closing_caches_and_time(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    r.closes = r.empties = false;
    rig_simple(&r, HOLDER_FENCE);
    struct lease_offer o = rig_snapshot(10 * SECOND, 3);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED); /* neither closed nor empty */
    rig_closed(&r);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED); /* a cache is full */
    rig_feed(&r, &(struct holder_event){.type = HOLDER_EMPTIED, .ok = false});
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    size_t asked = r.empties_asked;
    rig_simple(&r, HOLDER_TICK); /* asked again */
    assert_int_equal(r.empties_asked, asked + 1);
    rig_feed(&r, &(struct holder_event){.type = HOLDER_EMPTIED, .ok = true});
    struct lease_offer none = rig_heartbeat(10 * SECOND, 3);
    assert_int_equal(rig_offer(&r, &none), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED); /* nothing in it */
    struct lease_offer delta = rig_delta(10 * SECOND, 3, 4);
    delta.version = 3;
    assert_int_equal(rig_offer(&r, &delta), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED); /* recovery replaces everything */
    rig_time(&r, 30 * SECOND);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED); /* its lease is over */
    o = rig_snapshot(29 * SECOND, 3);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_NORMAL);
    assert_int_equal(rig_deadline(&r), 49 * SECOND);
    assert_int_equal(rig_view(&r), view_make(2, 3));
}

static void lease_holder__pull_that_takes_longer_than_its_lease__stays_fenced(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    rig_simple(&r, HOLDER_FENCE);
    r.applies = false;
    struct lease_offer o = rig_snapshot(10 * SECOND, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    rig_time(&r, 30 * SECOND);
    rig_applied(&r, true);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    assert_false(rig_live(&r));
    /* A heartbeat that came meanwhile carries it over, as it is for no newer version. */
    o = rig_snapshot(30 * SECOND, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    o = rig_heartbeat(45 * SECOND, 4);
    rig_time(&r, 45 * SECOND);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    rig_time(&r, 55 * SECOND);
    rig_applied(&r, true);
    assert_int_equal(r.h.state, HOLDER_NORMAL);
    assert_int_equal(rig_deadline(&r), 65 * SECOND);
}

static void lease_holder__told_to_fence_twice__two_epochs(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    rig_simple(&r, HOLDER_FENCE);
    assert_int_equal(rig_view(&r), view_make(2, 3));
    rig_simple(&r, HOLDER_FENCE);
    assert_int_equal(rig_view(&r), view_make(3, 3));
}

/* The last epoch is one that nobody ever holds a token of. */
static void lease_holder__epochs_used_up__fenced_for_good(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    r.h.epoch = VIEW_EPOCH_MAX - 1;
    rig_simple(&r, HOLDER_FENCE);
    assert_int_equal(rig_view(&r), view_make(VIEW_EPOCH_MAX, 3));
    assert_int_equal(r.alarm, LEASE_ALARM_EPOCHS_ENDED);
    struct lease_offer o = rig_snapshot(10 * SECOND, 3);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    rig_simple(&r, HOLDER_FENCE); /* and does not wrap */
    assert_int_equal(rig_view(&r), view_make(VIEW_EPOCH_MAX, 3));
}

/* ---- timers ---- */

static void lease_holder__ticks__a_status_a_heartbeat(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    size_t statuses = r.statuses;
    rig_time(&r, 10 * SECOND + 500 * MS);
    rig_simple(&r, HOLDER_TICK);
    assert_int_equal(r.statuses, statuses);
    assert_int_equal(holder_next_ns(&r.h), 11 * SECOND);
    rig_time(&r, 11 * SECOND);
    rig_simple(&r, HOLDER_TICK);
    assert_int_equal(r.statuses, statuses + 1);
    assert_false(r.status.pull);
    rig_time(&r, 29 * SECOND + 500 * MS);
    rig_simple(&r, HOLDER_TICK);
    assert_int_equal(holder_next_ns(&r.h), 30 * SECOND); /* the deadline comes first */
}

static void lease_holder__registered_twice__same_number_is_nothing(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    struct holder before = r.h;
    rig_register(&r, 1, 2);
    assert_memory_equal(&before, &r.h, sizeof(before));
}

/* ---- what comes while content is on its way ---- */

static void lease_holder__offers_while_applying__one_content_at_a_time(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    r.applies = false;
    size_t asked = r.applies_asked, statuses = r.statuses;
    struct lease_offer o = rig_delta(10 * SECOND, 3, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.applies_asked, asked + 1);
    assert_int_equal(r.statuses, statuses); /* the one that counts comes after the promise */
    o = rig_delta(10 * SECOND, 3, 5);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.applies_asked, asked + 1);
    o = rig_heartbeat(10 * SECOND, 5); /* a heartbeat is answered whatever goes on */
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.statuses, statuses + 1);
    rig_applied(&r, true);
    assert_int_equal(rig_view(&r), view_make(1, 4));
}

static void lease_holder__offers_while_pulling__kept_and_answered_by_kind(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 10 * SECOND);
    r.applies = false;
    rig_register(&r, 1, 0);
    struct lease_offer o = rig_snapshot(10 * SECOND, 3);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_PULLING);
    size_t statuses = r.statuses;
    rig_time(&r, 15 * SECOND);
    o = rig_snapshot(14 * SECOND, 3); /* content again: not answered */
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.statuses, statuses);
    o = rig_heartbeat(15 * SECOND, 3);
    o.ttl_ns = 0; /* no lease in it */
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.statuses, statuses + 1);
    rig_applied(&r, true);
    assert_int_equal(rig_deadline(&r), 34 * SECOND); /* of the later offer */
}

static void lease_holder__snapshot_without_a_lease__does_not_end_the_fence(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 50 * SECOND);
    rig_register(&r, 1, 0);
    struct lease_offer o = rig_snapshot(50 * SECOND, 3);
    o.ttl_ns = 0;
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    o = rig_snapshot(30 * SECOND, 3); /* over at this very moment */
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_FENCED);
    o = rig_snapshot(30 * SECOND + 1, 3);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    assert_int_equal(r.h.state, HOLDER_NORMAL);
}

static void lease_holder__answers_that_are_not_awaited__change_nothing(void **state)
{
    (void)state;
    struct rig r;
    rig_normal(&r, 10 * SECOND, 3);
    struct holder before = r.h;
    rig_applied(&r, true); /* a second time */
    assert_memory_equal(&before, &r.h, sizeof before);
    r.applies = false;
    struct lease_offer o = rig_delta(10 * SECOND, 3, 4);
    assert_int_equal(rig_offer(&r, &o), HOLDER_TAKEN);
    before = r.h;
    r.ticket--; /* of another content */
    rig_applied(&r, true);
    assert_memory_equal(&before, &r.h, sizeof before);
    r.ticket++;
    rig_applied(&r, true);
    size_t statuses = r.statuses;
    rig_closed(&r); /* what is closed and promised already sends nothing */
    assert_int_equal(r.statuses, statuses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lease_holder__begins__fenced),
        cmocka_unit_test(lease_holder__grant__dated_by_the_asking),
        cmocka_unit_test(lease_holder__older_grant__never_moves_back),
        cmocka_unit_test(lease_holder__grant_of_a_newer_version__waits_for_its_promise),
        cmocka_unit_test(lease_holder__view_that_does_not_close__loses_the_lease),
        cmocka_unit_test(lease_holder__many_waiting_grants__the_usable_ones_are_used),
        cmocka_unit_test(lease_holder__refusals__leave_no_trace),
        cmocka_unit_test(lease_holder__edge_values__are_taken),
        cmocka_unit_test(lease_holder__not_registered__refuses_offers),
        cmocka_unit_test(lease_holder__later_term_with_fewer_versions__refused_with_alarm),
        cmocka_unit_test(lease_holder__delta_over_a_gap__not_applied_and_pulled),
        cmocka_unit_test(lease_holder__content_twice_or_older__applied_once),
        cmocka_unit_test(lease_holder__fenced_not_closed__promises_nothing_new),
        cmocka_unit_test(lease_holder__fenced__not_normal_below_what_was_shown),
        cmocka_unit_test(lease_holder__newer_shown_while_pulling__pulls_again),
        cmocka_unit_test(lease_holder__late_close_of_a_version__still_promises_it),
        cmocka_unit_test(lease_holder__stop__promises_everything_once_closed),
        cmocka_unit_test(lease_holder__lapse__noticed_by_any_event),
        cmocka_unit_test(lease_holder__lapse__actions_in_order),
        cmocka_unit_test(lease_holder__waiting_grant__does_not_survive_a_fence),
        cmocka_unit_test(lease_holder__below_the_floor__fenced_with_alarm),
        cmocka_unit_test(lease_holder__applied_and_not_promised_at_the_floor__fenced_with_alarm),
        cmocka_unit_test(lease_holder__change_that_can_not_be_applied__fences),
        cmocka_unit_test(lease_holder__pull_that_fails__stays_fenced_and_tries_again),
        cmocka_unit_test(lease_holder__answer_under_an_old_ticket__ignored),
        cmocka_unit_test(lease_holder__recovery__needs_content_closing_caches_and_time),
        cmocka_unit_test(lease_holder__pull_that_takes_longer_than_its_lease__stays_fenced),
        cmocka_unit_test(lease_holder__told_to_fence_twice__two_epochs),
        cmocka_unit_test(lease_holder__epochs_used_up__fenced_for_good),
        cmocka_unit_test(lease_holder__ticks__a_status_a_heartbeat),
        cmocka_unit_test(lease_holder__registered_twice__same_number_is_nothing),
        cmocka_unit_test(lease_holder__offers_while_applying__one_content_at_a_time),
        cmocka_unit_test(lease_holder__offers_while_pulling__kept_and_answered_by_kind),
        cmocka_unit_test(lease_holder__snapshot_without_a_lease__does_not_end_the_fence),
        cmocka_unit_test(lease_holder__answers_that_are_not_awaited__change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
