/* The shortest counterexamples that Spin finds when a rule is taken out of tests/sim/lease.pml, step
 * by step on the real steps, which still have the rule. Each test is named after the BREAK of the
 * model; at the step where the model went wrong the real step refuses, waits or fences.
 *
 * The model's unit of time is 10 s here: T = 2 units, margin and S 1 unit unless said. Its versions 0
 * and 1 are 10 and 11. */
#include "lease_rig.h"

#include <errno.h>

#define UNIT (10 * SECOND)

enum { OLD, NEW };

struct world {
    struct grantor g[2]; /* the leader of term 1, and that of term 2 */
    struct rig boot[3];  /* [1] and [2]: by their numbers */
    int64_t now_ns;      /* one clock for all: the model's traces need no drift */
};

static struct grantor_config config_with(int64_t linger_ns, int64_t margin_ns)
{
    struct grantor_config c;
    grantor_config_init(&c);
    c.ttl_ns = 2 * UNIT;
    c.linger_ns = linger_ns;
    c.margin_ns = margin_ns;
    return c;
}

static void pass(struct world *w, int64_t ns)
{
    w->now_ns += ns;
    for (int b = 1; b <= 2; b++)
        rig_time(&w->boot[b], w->now_ns);
}

/* A status, sent now. */
static struct lease_status status_of(struct world *w, int boot)
{
    struct rig *r = &w->boot[boot];
    r->h.status_due_ns = w->now_ns;
    rig_simple(r, HOLDER_TICK);
    assert_int_equal(r->status.asked_ns, w->now_ns);
    return r->status;
}
static int read_by(struct world *w, int leader, const struct lease_status *s)
{
    return grantor_read_status(&w->g[leader], s, w->now_ns);
}
static void confirm(struct world *w, int leader)
{
    grantor_confirm(&w->g[leader], (uint64_t)leader + 1, w->now_ns);
}
static struct lease_offer offer_by(struct world *w, int leader, int boot,
                                   enum lease_content content)
{
    struct lease_offer o;
    assert_int_equal(grantor_offer(&w->g[leader], (uint64_t)boot, content, 10, w->now_ns, &o), 0);
    return o;
}
static enum holder_answer arrives(struct world *w, const struct lease_offer *o)
{
    return rig_offer(&w->boot[o->boot], o);
}
static void change_by(struct world *w, int leader)
{
    assert_int_equal(grantor_change_begin(&w->g[leader], 11), 0);
}
static enum grantor_verdict verdict_of(struct world *w, int leader)
{
    return grantor_verdict(&w->g[leader], 11, false, w->now_ns);
}
static bool live(struct world *w, int boot)
{
    return rig_live(&w->boot[boot]);
}

/* The model's first state: boot 1 is NORMAL, with all of T left, granted by the leader of term 1. */
static void begin(struct world *w, struct grantor_config c)
{
    memset(w, 0, sizeof(*w));
    rig_init(&w->boot[1], 0);
    rig_init(&w->boot[2], 0);
    pass(w, 100 * UNIT);
    assert_int_equal(grantor_init(&w->g[OLD], &c), 0);
    struct grantor_store s = {.version = 10, .floor = 10, .ttl_longest_ns = 2 * UNIT};
    assert_int_equal(grantor_lead(&w->g[OLD], 1, &s, w->now_ns), 0);
    struct grantor_registration r = {.node = 1, .boot = 1, .version = 10};
    assert_int_equal(grantor_register(&w->g[OLD], &r), 0);
    confirm(w, OLD);
    rig_register(&w->boot[1], 1, 10);
    struct lease_status st = status_of(w, 1);
    assert_int_equal(read_by(w, OLD, &st), 0);
    struct lease_offer o = offer_by(w, OLD, 1, LEASE_CONTENT_SNAPSHOT);
    assert_int_equal(arrives(w, &o), HOLDER_TAKEN);
    assert_true(live(w, 1));
    assert_int_equal(rig_deadline(&w->boot[1]), w->now_ns + 2 * UNIT);
    assert_int_equal(grantor_find(&w->g[OLD], 1)->granted_until_ns, w->now_ns + 2 * UNIT);
}
/* The other ConfigNode is elected; what is committed is what the old one had. */
static void elect(struct world *w, struct grantor_config c)
{
    struct grantor_registration r = {.node = 1, .boot = 1, .version = 10};
    struct grantor_store s = {
        .version = 10, .floor = 10, .ttl_longest_ns = 2 * UNIT, .boots = &r, .boot_count = 1};
    assert_int_equal(grantor_init(&w->g[NEW], &c), 0);
    assert_int_equal(grantor_lead(&w->g[NEW], 2, &s, w->now_ns), 0);
    confirm(w, NEW);
}
static void end(struct world *w)
{
    grantor_deinit(&w->g[OLD]);
    grantor_deinit(&w->g[NEW]);
}

/* The old offer comes again and again; renewed at its receipt, it would never end. The grantor, which
 * counts from the status and not from what arrives, completes the change meanwhile. */
static void lease_traces__break_1_and_7__a_doubled_offer_renews_nothing(void **state)
{
    (void)state;
    struct world w;
    begin(&w, config_with(UNIT, UNIT));
    struct lease_offer again = offer_by(&w, OLD, 1, LEASE_CONTENT_NONE);
    pass(&w, UNIT);
    assert_int_equal(arrives(&w, &again), HOLDER_TAKEN);
    assert_true(live(&w, 1));
    pass(&w, UNIT);
    assert_int_equal(arrives(&w, &again), HOLDER_TAKEN);
    assert_false(live(&w, 1)); /* the model had it live here, for T from the receipt */
    pass(&w, UNIT);
    change_by(&w, OLD);
    assert_int_equal(verdict_of(&w, OLD), GRANTOR_WAIT);
    pass(&w, 1);
    assert_int_equal(verdict_of(&w, OLD), GRANTOR_PROCEED);
    assert_false(live(&w, 1));
    end(&w);
}

/* Fenced, it pulled; a change came, and it promised that; then the pull's answer, from before. */
static void lease_traces__break_2__an_older_pull_is_not_let_in(void **state)
{
    (void)state;
    struct world w;
    begin(&w, config_with(UNIT, UNIT));
    pass(&w, 2 * UNIT);
    confirm(&w, OLD);
    struct lease_status s = status_of(&w, 1);
    assert_int_equal(w.boot[1].h.state, HOLDER_FENCED);
    assert_int_equal(read_by(&w, OLD, &s), 0);
    struct lease_offer pulled = offer_by(&w, OLD, 1, LEASE_CONTENT_SNAPSHOT);
    change_by(&w, OLD);
    struct lease_offer heartbeat = offer_by(&w, OLD, 1, LEASE_CONTENT_NONE);
    assert_int_equal(arrives(&w, &heartbeat), HOLDER_TAKEN);
    s = status_of(&w, 1);
    assert_int_equal(s.promise, 11);
    assert_int_equal(read_by(&w, OLD, &s), 0);
    assert_int_equal(arrives(&w, &pulled), HOLDER_TAKEN);
    assert_int_equal(w.boot[1].h.state, HOLDER_FENCED); /* the model had it NORMAL, at 10 */
    assert_int_equal(verdict_of(&w, OLD), GRANTOR_PROCEED);
    assert_false(live(&w, 1));
    end(&w);
}

/* Heartbeats of the new version arrive, its content does not. */
static void lease_traces__break_3__a_lease_for_a_newer_version_is_not_used(void **state)
{
    (void)state;
    struct world w;
    begin(&w, config_with(UNIT, UNIT));
    int64_t deadline = rig_deadline(&w.boot[1]);
    pass(&w, UNIT / 2);
    for (int i = 0; i < 2; i++) {
        struct lease_status s = status_of(&w, 1);
        assert_int_equal(read_by(&w, OLD, &s), 0);
        if (i == 0) change_by(&w, OLD);
        confirm(&w, OLD);
        struct lease_offer o = offer_by(&w, OLD, 1, LEASE_CONTENT_NONE);
        assert_int_equal(o.ttl_ns, 2 * UNIT);
        assert_int_equal(arrives(&w, &o), HOLDER_TAKEN);
        assert_int_equal(rig_deadline(&w.boot[1]), deadline); /* the model moved it */
        pass(&w, UNIT);
    }
    pass(&w, UNIT / 2 + 1);
    assert_int_equal(verdict_of(&w, OLD), GRANTOR_PROCEED);
    assert_false(live(&w, 1));
    end(&w);
}

/* Another boot of the node promises; the first one still lives. */
static void lease_traces__break_4__a_promise_is_of_its_boot_alone(void **state)
{
    (void)state;
    struct world w;
    begin(&w, config_with(UNIT, UNIT));
    change_by(&w, OLD);
    struct grantor_registration r = {.node = 1, .boot = 2, .version = 11};
    assert_int_equal(grantor_register(&w.g[OLD], &r), 0);
    rig_register(&w.boot[2], 2, 11);
    struct lease_offer o = offer_by(&w, OLD, 2, LEASE_CONTENT_NONE);
    assert_int_equal(arrives(&w, &o), HOLDER_TAKEN);
    struct lease_status s = status_of(&w, 2);
    assert_int_equal(s.promise, 11);
    assert_int_equal(read_by(&w, OLD, &s), 0);
    assert_int_equal(verdict_of(&w, OLD), GRANTOR_WAIT); /* the model was complete here */
    assert_true(live(&w, 1));
    /* And what is offered to the new boot is of no use to the old one. */
    assert_int_equal(rig_offer(&w.boot[1], &o), HOLDER_REFUSED_BOOT);
    end(&w);
}

/* The old leader grants for S more, from a status that only it has read. */
static void lease_traces__break_5__a_new_leader_waits_for_the_old_one(void **state)
{
    (void)state;
    struct world w;
    struct grantor_config c = config_with(3 * UNIT, 12 * SECOND);
    begin(&w, c);
    elect(&w, c);
    pass(&w, 2 * UNIT);
    struct lease_status s = status_of(&w, 1);
    assert_int_equal(read_by(&w, OLD, &s), 0);
    struct lease_offer o = offer_by(&w, OLD, 1, LEASE_CONTENT_SNAPSHOT);
    pass(&w, UNIT + 3 * SECOND); /* T + margin after the election, the model's broken wait */
    assert_int_equal(arrives(&w, &o), HOLDER_TAKEN);
    assert_true(live(&w, 1));
    change_by(&w, NEW);
    assert_int_equal(verdict_of(&w, NEW), GRANTOR_WAIT); /* the model was complete here */
    pass(&w, 4 * UNIT);
    assert_int_equal(verdict_of(&w, NEW), GRANTOR_PROCEED);
    assert_false(live(&w, 1));
    end(&w);
}

/* A change right after the election. */
static void lease_traces__break_6__a_new_leader_waits_for_the_old_leases(void **state)
{
    (void)state;
    struct world w;
    struct grantor_config c = config_with(UNIT, UNIT);
    begin(&w, c);
    elect(&w, c);
    change_by(&w, NEW);
    assert_int_equal(verdict_of(&w, NEW), GRANTOR_WAIT); /* the model was complete here */
    assert_true(live(&w, 1));
    end(&w);
}

/* A change, and the node is removed. */
static void lease_traces__break_9__a_removed_node_is_waited_for(void **state)
{
    (void)state;
    struct world w;
    begin(&w, config_with(UNIT, UNIT));
    change_by(&w, OLD);
    grantor_remove_node(&w.g[OLD], 1);
    uint64_t boot;
    assert_false(grantor_forget(&w.g[OLD], w.now_ns, &boot));
    assert_int_equal(verdict_of(&w, OLD), GRANTOR_WAIT); /* the model was complete here */
    assert_true(live(&w, 1));
    pass(&w, 3 * UNIT + 1);
    assert_int_equal(verdict_of(&w, OLD), GRANTOR_PROCEED);
    assert_false(live(&w, 1));
    end(&w);
}

/* Long after the election, the old leader reads a status. */
static void lease_traces__break_12__an_old_leader_ends_by_its_own_clock(void **state)
{
    (void)state;
    struct world w;
    struct grantor_config c = config_with(UNIT, UNIT);
    begin(&w, c);
    elect(&w, c);
    pass(&w, 4 * UNIT);
    struct lease_status s = status_of(&w, 1);
    assert_int_equal(read_by(&w, OLD, &s), 0);
    struct lease_offer o;
    assert_int_equal(grantor_offer(&w.g[OLD], 1, LEASE_CONTENT_SNAPSHOT, 0, w.now_ns, &o), -EAGAIN);
    assert_false(live(&w, 1)); /* the model's came back here, by the old leader's offer */
    end(&w);
}

/* A boot that only the new leader has committed asks the old one. */
static void lease_traces__break_14__no_grant_before_the_registration(void **state)
{
    (void)state;
    struct world w;
    struct grantor_config c = config_with(UNIT, UNIT);
    begin(&w, c);
    elect(&w, c);
    change_by(&w, NEW);
    struct lease_status s = status_of(&w, 1);
    assert_int_equal(read_by(&w, NEW, &s), 0);
    struct lease_offer o = offer_by(&w, NEW, 1, LEASE_CONTENT_SNAPSHOT);
    assert_int_equal(arrives(&w, &o), HOLDER_TAKEN);
    s = status_of(&w, 1);
    assert_int_equal(read_by(&w, NEW, &s), 0);
    assert_int_equal(verdict_of(&w, NEW), GRANTOR_PROCEED);
    struct grantor_registration r = {.node = 2, .boot = 2, .version = 11};
    assert_int_equal(grantor_register(&w.g[NEW], &r), 0);
    rig_feed(&w.boot[2],
             &(struct holder_event){.type = HOLDER_REGISTERED,
                                    .registered = {.boot = 2, .term = 2, .version = 11}});
    s = status_of(&w, 2);
    s.term = 1; /* even if it did not say whom it has heard of */
    s.promise = 10;
    assert_int_equal(read_by(&w, OLD, &s), -ENOENT);
    assert_int_equal(grantor_offer(&w.g[OLD], 2, LEASE_CONTENT_SNAPSHOT, 0, w.now_ns, &o), -ENOENT);
    /* The model's old leader sent this, and the boot was NORMAL at 10 while 11 was complete. */
    o = (struct lease_offer){.term = 1,
                             .boot = 2,
                             .asked_ns = w.now_ns,
                             .ttl_ns = 2 * UNIT,
                             .version = 10,
                             .floor = 10,
                             .content = LEASE_CONTENT_SNAPSHOT};
    assert_int_equal(arrives(&w, &o), HOLDER_REFUSED_TERM);
    o.term = 2; /* nor by the new one, were it possible: it was registered at 11 */
    assert_int_equal(arrives(&w, &o), HOLDER_TAKEN);
    assert_false(live(&w, 2));
    end(&w);
}

/* M = 0 with DRIFT: the holder's clock loses, the grantor's does not wait. */
static void lease_traces__no_margin__is_refused_and_the_least_is_enough(void **state)
{
    (void)state;
    struct grantor g;
    struct grantor_config c = config_with(UNIT, 0);
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
    /* The holder's clock at 1 - rho, the grantor's at 1 + rho, for T and for S + T. In true time a
     * lease lasts (T + S) / (1 - rho); the grantor counts (T + S + margin) / (1 + rho). */
    const int64_t rates_ppm[] = {1, 500, 100000, 500000, 900000};
    for (size_t i = 0; i < sizeof(rates_ppm) / sizeof(rates_ppm[0]); i++)
        for (int64_t sum = 1; sum < 100 * SECOND; sum = sum * 3 + 1) {
            int64_t rho = rates_ppm[i];
            int64_t margin = grantor_margin_min_ns(sum, 0, (uint32_t)rho);
            __int128 held = (__int128)sum * (1000000 + rho);
            assert_true((__int128)(sum + margin) * (1000000 - rho) >= held);
            assert_true((__int128)(sum + margin - 1) * (1000000 - rho) < held); /* and no more */
        }
}

/* A clock that stands still is outside of what is assumed. What then ends the damage, at the first
 * message, is the floor (BREAK 21 takes that away). */
static void lease_traces__break_20__a_clock_that_stood_still_is_found_out(void **state)
{
    (void)state;
    struct world w;
    begin(&w, config_with(UNIT, UNIT));
    int64_t stood_at_ns = w.now_ns;
    pass(&w, 3 * UNIT + 1);
    rig_time(&w.boot[1], stood_at_ns);
    change_by(&w, OLD);
    assert_int_equal(verdict_of(&w, OLD), GRANTOR_PROCEED);
    assert_int_equal(grantor_complete(&w.g[OLD], 11, w.now_ns), 0);
    assert_true(live(&w, 1)); /* below a complete change */
    confirm(&w, OLD);
    struct lease_offer o = offer_by(&w, OLD, 1, LEASE_CONTENT_NONE);
    assert_int_equal(arrives(&w, &o), HOLDER_TAKEN);
    assert_false(live(&w, 1));
    assert_int_equal(w.boot[1].alarm, LEASE_ALARM_OVERTAKEN);
    end(&w);
}

/* An offer of the old leader arrives after one of the new. */
static void lease_traces__break_11__an_older_term_is_refused(void **state)
{
    (void)state;
    struct world w;
    struct grantor_config c = config_with(UNIT, UNIT);
    begin(&w, c);
    struct lease_offer old = offer_by(&w, OLD, 1, LEASE_CONTENT_NONE);
    elect(&w, c);
    struct lease_offer o = offer_by(&w, NEW, 1, LEASE_CONTENT_NONE);
    assert_int_equal(arrives(&w, &o), HOLDER_TAKEN);
    assert_int_equal(arrives(&w, &old), HOLDER_REFUSED_TERM);
    struct lease_status s = status_of(&w, 1);
    assert_int_equal(read_by(&w, OLD, &s), -ESTALE); /* and so the old one hears of it */
    assert_int_equal(w.g[OLD].halt, GRANTOR_TERM_ABOVE);
    end(&w);
}

/* Part 2, CLOSE 0: the lane is inside with the view of 10 when the change is published. */
static void lease_traces__close_0__no_promise_while_somebody_decides(void **state)
{
    (void)state;
    struct world w;
    begin(&w, config_with(UNIT, UNIT));
    struct rig *r = &w.boot[1];
    r->closes = false;
    struct lease_look inside = lease_look(&r->words, &r->clock);
    change_by(&w, OLD);
    struct lease_offer o = offer_by(&w, OLD, 1, LEASE_CONTENT_DELTA);
    assert_int_equal(arrives(&w, &o), HOLDER_TAKEN);
    struct lease_status s = status_of(&w, 1);
    assert_int_equal(read_by(&w, OLD, &s), 0);
    assert_int_equal(verdict_of(&w, OLD), GRANTOR_WAIT); /* the model had promised here */
    assert_true(inside.live && view_version(inside.view) == 10);
    rig_closed(r); /* the lane has left */
    assert_int_equal(read_by(&w, OLD, &r->status), 0);
    assert_int_equal(verdict_of(&w, OLD), GRANTOR_PROCEED);
    end(&w);
}

/* Part 2, GATE 0: the lease for 11 comes while the lane is inside with 10, and would let the decision
 * under 10 outlive what was granted for 10. */
static void lease_traces__gate_0__no_use_of_a_lease_before_its_promise(void **state)
{
    (void)state;
    struct world w;
    begin(&w, config_with(UNIT, UNIT));
    struct rig *r = &w.boot[1];
    int64_t deadline = rig_deadline(r);
    r->closes = false;
    pass(&w, UNIT / 2);
    struct lease_status s = status_of(&w, 1);
    assert_int_equal(read_by(&w, OLD, &s), 0);
    change_by(&w, OLD);
    struct lease_offer o = offer_by(&w, OLD, 1, LEASE_CONTENT_DELTA);
    assert_int_equal(arrives(&w, &o), HOLDER_TAKEN);
    assert_int_equal(view_version(rig_view(r)), 11); /* published */
    assert_int_equal(rig_deadline(r), deadline);     /* the model moved it here */
    rig_closed(r);
    assert_int_equal(rig_deadline(r), deadline + UNIT / 2);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lease_traces__break_1_and_7__a_doubled_offer_renews_nothing),
        cmocka_unit_test(lease_traces__break_2__an_older_pull_is_not_let_in),
        cmocka_unit_test(lease_traces__break_3__a_lease_for_a_newer_version_is_not_used),
        cmocka_unit_test(lease_traces__break_4__a_promise_is_of_its_boot_alone),
        cmocka_unit_test(lease_traces__break_5__a_new_leader_waits_for_the_old_one),
        cmocka_unit_test(lease_traces__break_6__a_new_leader_waits_for_the_old_leases),
        cmocka_unit_test(lease_traces__break_9__a_removed_node_is_waited_for),
        cmocka_unit_test(lease_traces__break_11__an_older_term_is_refused),
        cmocka_unit_test(lease_traces__break_12__an_old_leader_ends_by_its_own_clock),
        cmocka_unit_test(lease_traces__break_14__no_grant_before_the_registration),
        cmocka_unit_test(lease_traces__break_20__a_clock_that_stood_still_is_found_out),
        cmocka_unit_test(lease_traces__no_margin__is_refused_and_the_least_is_enough),
        cmocka_unit_test(lease_traces__close_0__no_promise_while_somebody_decides),
        cmocka_unit_test(lease_traces__gate_0__no_use_of_a_lease_before_its_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
