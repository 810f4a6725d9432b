/* The grantor's steps, rule by rule, the verdict, and each refusal. */
#include "lease_rig.h"

#include "base/alloc.h"

#include <errno.h>

/* ---- a grantor that leads alone, at version 10, all of it complete ---- */

static struct grantor_store store_at(uint64_t version)
{
    return (struct grantor_store){
        .version = version, .floor = version, .ttl_longest_ns = 20 * SECOND};
}

static void begin(struct grantor *g)
{
    struct grantor_config c;
    grantor_config_init(&c);
    c.single = true;
    assert_int_equal(grantor_init(g, &c), 0);
    struct grantor_store s = store_at(10);
    assert_int_equal(grantor_lead(g, 1, &s, 1000 * SECOND), 0);
}

static void add(struct grantor *g, uint64_t node, uint64_t boot)
{
    struct grantor_registration r = {.node = node, .boot = boot, .version = g->version};
    assert_int_equal(grantor_register(g, &r), 0);
}

static int tell(struct grantor *g, uint64_t boot, int64_t asked_ns, uint64_t promise,
                int64_t now_ns)
{
    struct lease_status s = {.boot = boot, .asked_ns = asked_ns, .promise = promise, .term = 1};
    return grantor_read_status(g, &s, now_ns);
}

static struct lease_offer offer(struct grantor *g, uint64_t boot, int64_t now_ns)
{
    struct lease_offer o;
    assert_int_equal(grantor_offer(g, boot, LEASE_CONTENT_NONE, 0, now_ns, &o), 0);
    return o;
}

static int64_t until(const struct grantor *g, uint64_t boot)
{
    return grantor_find(g, boot)->granted_until_ns;
}

/* ---- the margin ---- */

static void lease_grantor__margin__rounds_up_and_has_limits(void **state)
{
    (void)state;
    /* 2 * 0.1 * 22 s / 0.9 = 4.888... s */
    assert_int_equal(grantor_margin_min_ns(20 * SECOND, 2 * SECOND, 100000), 4888888889);
    assert_int_equal(grantor_margin_min_ns(9, 0, 100000), 2);
    assert_int_equal(grantor_margin_min_ns(20 * SECOND, 2 * SECOND, 0), 0);
    assert_int_equal(grantor_margin_min_ns(SECOND, SECOND, 1000000), INT64_MAX);
    assert_int_equal(grantor_margin_min_ns(-1, SECOND, 1), INT64_MAX);
    assert_int_equal(grantor_margin_min_ns(SECOND, -1, 1), INT64_MAX);
    assert_int_equal(grantor_margin_min_ns(INT64_MAX, INT64_MAX, 999999), INT64_MAX);
}

static void lease_grantor__init__refuses_what_is_unsound(void **state)
{
    (void)state;
    struct grantor g;
    struct grantor_config ok, c;
    grantor_config_init(&ok);
    assert_int_equal(ok.ttl_ns, 20 * SECOND);
    assert_int_equal(ok.margin_ns, 5 * SECOND);
    assert_int_equal(grantor_init(&g, &ok), 0);
    c = ok, c.margin_ns = 4888888889;
    assert_int_equal(grantor_init(&g, &c), 0);
    c.margin_ns--;
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
    c = ok, c.ttl_ns = 0;
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
    c = ok, c.ttl_ns = INT64_MAX;
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
    c = ok, c.linger_ns = 0;
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
    c = ok, c.heartbeat_ns = 0;
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
    c = ok, c.rebroadcast_ns = -1;
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
    c = ok, c.linger_ns = INT64_MAX / 16 + 1;
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
    c = ok, c.heartbeat_ns = INT64_MAX / 16 + 1;
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
    c = ok, c.rebroadcast_ns = INT64_MAX / 16 + 1;
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
    c = ok, c.margin_ns = INT64_MAX / 16 + 1;
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
    c = ok, c.rho_ppm = 1000000;
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
    c = ok, c.rho_ppm = 0, c.margin_ns = 0;
    assert_int_equal(grantor_init(&g, &c), -EINVAL);
}

/* ---- rule 2: the bound ---- */

static void lease_grantor__offer__bound_is_the_reading_and_T(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    add(&g, 1, 7);
    assert_int_equal(until(&g, 7), 0);
    struct lease_offer o = offer(&g, 7, 1001 * SECOND);
    assert_int_equal(o.ttl_ns, 0); /* it has asked for nothing yet */
    assert_int_equal(until(&g, 7), 0);
    assert_int_equal(tell(&g, 7, 55, 0, 1002 * SECOND), 0);
    assert_int_equal(until(&g, 7), 0); /* read, not offered */
    o = offer(&g, 7, 1009 * SECOND);
    assert_int_equal(o.asked_ns, 55);
    assert_int_equal(o.ttl_ns, 20 * SECOND);
    assert_int_equal(o.term, 1);
    assert_int_equal(o.boot, 7);
    assert_int_equal(o.version, 10);
    assert_int_equal(o.floor, 10);
    assert_int_equal(until(&g, 7), 1022 * SECOND);
    /* The same status again is not newer for coming twice. */
    assert_int_equal(tell(&g, 7, 55, 0, 1010 * SECOND), 0);
    (void)offer(&g, 7, 1011 * SECOND);
    assert_int_equal(until(&g, 7), 1022 * SECOND);
    assert_int_equal(tell(&g, 7, 54, 0, 1012 * SECOND), 0); /* an older one, late */
    o = offer(&g, 7, 1012 * SECOND);
    assert_int_equal(o.asked_ns, 55);
    assert_int_equal(until(&g, 7), 1022 * SECOND);
    o = offer(&g, 7, 1022 * SECOND); /* of no use any more */
    assert_int_equal(o.ttl_ns, 0);
    grantor_deinit(&g);
}

/* A driver whose clock ran back does not move a figure back. */
static void lease_grantor__time_that_runs_back__is_not_believed(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    add(&g, 1, 7);
    assert_int_equal(tell(&g, 7, 55, 0, 1010 * SECOND), 0);
    assert_int_equal(tell(&g, 7, 56, 0, 1001 * SECOND), 0);
    (void)offer(&g, 7, 1002 * SECOND);
    assert_int_equal(until(&g, 7), 1030 * SECOND);
    grantor_deinit(&g);
}

/* ---- rules 5 and 7: boots and completeness ---- */

static void lease_grantor__verdict__promise_or_the_kept_figure(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    add(&g, 1, 1);
    add(&g, 2, 2);
    for (uint64_t b = 1; b <= 2; b++) {
        assert_int_equal(tell(&g, b, 100, 10, 1000 * SECOND), 0);
        (void)offer(&g, b, 1000 * SECOND);
    }
    assert_int_equal(grantor_change_begin(&g, 11), 0);
    assert_int_equal(grantor_verdict(&g, 11, false, 1001 * SECOND), GRANTOR_WAIT);
    assert_int_equal(grantor_verdict(&g, 11, true, 1001 * SECOND), GRANTOR_FAIL);
    assert_int_equal(tell(&g, 1, 200, 11, 1002 * SECOND), 0);
    uint64_t unsafe[2] = {0, 0};
    assert_int_equal(grantor_unsafe(&g, 11, 1002 * SECOND, unsafe, 2), 1);
    assert_int_equal(unsafe[0], 2);
    assert_int_equal(grantor_unsafe(&g, 11, 1002 * SECOND, NULL, 0), 1);
    assert_int_equal(tell(&g, 1, 150, 10, 1003 * SECOND),
                     0); /* an older status takes nothing back */
    assert_int_equal(grantor_unsafe(&g, 11, 1003 * SECOND, NULL, 0), 1);
    /* Boot 2 goes on asking and being offered; for this change that moves nothing. */
    assert_int_equal(tell(&g, 2, 300, 10, 1015 * SECOND), 0);
    struct lease_offer o = offer(&g, 2, 1015 * SECOND);
    assert_int_equal(o.version, 11);
    assert_int_equal(o.floor, 10);
    assert_int_equal(until(&g, 2), 1035 * SECOND);
    int64_t over = 1020 * SECOND + 5 * SECOND;
    assert_int_equal(grantor_verdict(&g, 11, false, over), GRANTOR_WAIT);
    assert_int_equal(grantor_complete(&g, 11, over), -EAGAIN);
    assert_int_equal(grantor_verdict(&g, 11, false, over + 1), GRANTOR_PROCEED);
    assert_true(over + 1 - 1001 * SECOND <= grantor_budget_ns(&g));
    assert_int_equal(grantor_complete(&g, 12, over + 1), -EINVAL);
    assert_int_equal(grantor_complete(&g, 11, over + 1), 0);
    assert_int_equal(g.floor, 11);
    assert_int_equal(g.change_count, 0);
    assert_int_equal(offer(&g, 2, over + 2).floor, 11);
    assert_int_equal(grantor_verdict(&g, 11, false, over + 2), GRANTOR_PROCEED);
    grantor_deinit(&g);
}

static void lease_grantor__two_changes__each_keeps_its_figure(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    add(&g, 1, 1);
    assert_int_equal(tell(&g, 1, 100, 10, 1000 * SECOND), 0);
    (void)offer(&g, 1, 1000 * SECOND);
    assert_int_equal(grantor_change_begin(&g, 11), 0);
    assert_int_equal(tell(&g, 1, 200, 11, 1003 * SECOND), 0);
    (void)offer(&g, 1, 1003 * SECOND);
    assert_int_equal(grantor_change_begin(&g, 12), 0);
    assert_int_equal(grantor_verdict(&g, 11, false, 1004 * SECOND), GRANTOR_PROCEED);
    assert_int_equal(grantor_verdict(&g, 12, false, 1028 * SECOND), GRANTOR_WAIT);
    assert_int_equal(grantor_verdict(&g, 12, false, 1028 * SECOND + 1), GRANTOR_PROCEED);
    assert_int_equal(grantor_complete(&g, 11, 1004 * SECOND), 0);
    assert_int_equal(g.change_count, 1);
    /* A later one complete makes all before it complete. */
    assert_int_equal(grantor_change_begin(&g, 13), 0);
    assert_int_equal(tell(&g, 1, 300, 13, 1005 * SECOND), 0);
    assert_int_equal(grantor_complete(&g, 13, 1005 * SECOND), 0);
    assert_int_equal(g.floor, 13);
    assert_int_equal(g.change_count, 0);
    grantor_deinit(&g);
}

static void lease_grantor__boot_after_the_change__is_not_waited_for(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    assert_int_equal(grantor_change_begin(&g, 11), 0);
    add(&g, 1, 1);
    assert_int_equal(tell(&g, 1, 100, 11, 1000 * SECOND), 0);
    (void)offer(&g, 1, 1000 * SECOND);
    assert_int_equal(grantor_verdict(&g, 11, false, 1000 * SECOND), GRANTOR_PROCEED);
    /* And one that registered before, and was never granted anything, is safe too. */
    add(&g, 2, 2);
    assert_int_equal(tell(&g, 1, 100, 12, 1000 * SECOND), -ESTALE); /* more than there is */
    grantor_deinit(&g);
    begin(&g);
    add(&g, 2, 2);
    assert_int_equal(grantor_change_begin(&g, 11), 0);
    assert_int_equal(grantor_verdict(&g, 11, false, 1000 * SECOND), GRANTOR_PROCEED);
    grantor_deinit(&g);
}

static void lease_grantor__new_boot_of_a_node__ends_nothing_of_the_older(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    add(&g, 1, 1);
    assert_int_equal(tell(&g, 1, 100, 10, 1000 * SECOND), 0);
    (void)offer(&g, 1, 1000 * SECOND);
    add(&g, 1, 2);
    assert_int_equal(grantor_change_begin(&g, 11), 0);
    assert_int_equal(tell(&g, 2, 5, 11, 1001 * SECOND), 0);
    assert_int_equal(grantor_verdict(&g, 11, false, 1002 * SECOND), GRANTOR_WAIT);
    uint64_t boot;
    assert_false(grantor_forget(&g, 1025 * SECOND, &boot));
    assert_true(grantor_forget(&g, 1025 * SECOND + 1, &boot));
    assert_int_equal(boot, 1);
    assert_false(grantor_forget(&g, 1025 * SECOND + 1, &boot));
    assert_int_equal(grantor_verdict(&g, 11, false, 1025 * SECOND + 1), GRANTOR_PROCEED);
    assert_int_equal(tell(&g, 1, 300, 11, 1026 * SECOND), -ENOENT);
    grantor_deinit(&g);
}

static void lease_grantor__stopped_boot__promised_everything_and_is_forgotten(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    add(&g, 1, 1);
    assert_int_equal(tell(&g, 1, 100, 10, 1000 * SECOND), 0);
    (void)offer(&g, 1, 1000 * SECOND);
    assert_int_equal(grantor_change_begin(&g, 11), 0);
    assert_int_equal(tell(&g, 1, 101, LEASE_PROMISE_ALL, 1001 * SECOND), 0);
    assert_int_equal(g.halt, GRANTOR_RUNS); /* not a version above the store's */
    assert_int_equal(grantor_verdict(&g, 11, false, 1001 * SECOND), GRANTOR_PROCEED);
    uint64_t boot;
    assert_true(grantor_forget(&g, 1001 * SECOND, &boot));
    grantor_deinit(&g);
}

static void lease_grantor__removed_node__offered_nothing_and_waited_for(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    add(&g, 1, 1);
    assert_int_equal(tell(&g, 1, 100, 10, 1000 * SECOND), 0);
    (void)offer(&g, 1, 1000 * SECOND);
    grantor_remove_node(&g, 1);
    struct lease_offer o;
    assert_int_equal(grantor_offer(&g, 1, LEASE_CONTENT_NONE, 0, 1001 * SECOND, &o), -ENOENT);
    assert_false(grantor_next_offer(&g, 1005 * SECOND, &o));
    assert_int_equal(grantor_change_begin(&g, 11), 0);
    assert_int_equal(grantor_verdict(&g, 11, false, 1025 * SECOND), GRANTOR_WAIT);
    assert_int_equal(grantor_verdict(&g, 11, false, 1025 * SECOND + 1), GRANTOR_PROCEED);
    uint64_t boot;
    assert_true(grantor_forget(&g, 1025 * SECOND + 1, &boot));
    grantor_deinit(&g);
}

static void lease_grantor__register__refusals(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    struct grantor_registration r = {.node = 1, .boot = 0, .version = 10};
    assert_int_equal(grantor_register(&g, &r), -EINVAL);
    r.boot = 5;
    r.version = 9;
    assert_int_equal(grantor_register(&g, &r), -EINVAL);
    r.version = 10;
    assert_int_equal(grantor_register(&g, &r), 0);
    assert_int_equal(grantor_register(&g, &r), -EINVAL); /* a number is never used twice */
    r.boot = 4;
    assert_int_equal(grantor_register(&g, &r), -EINVAL);
    grantor_resign(&g);
    r.boot = 6;
    assert_int_equal(grantor_register(&g, &r), -EAGAIN);
    assert_int_equal(grantor_change_begin(&g, 11), -EAGAIN);
    assert_int_equal(tell(&g, 5, 1, 10, 1000 * SECOND), -EAGAIN);
    struct lease_offer o;
    assert_int_equal(grantor_offer(&g, 5, LEASE_CONTENT_NONE, 0, 1000 * SECOND, &o), -EAGAIN);
    assert_int_equal(grantor_verdict(&g, 10, false, 1000 * SECOND), GRANTOR_WAIT);
    grantor_deinit(&g);
}

static void lease_grantor__change__numbers_without_a_gap(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    assert_int_equal(grantor_change_begin(&g, 10), -EINVAL);
    assert_int_equal(grantor_change_begin(&g, 12), -EINVAL);
    assert_int_equal(grantor_change_begin(&g, 11), 0);
    assert_int_equal(grantor_verdict(&g, 12, false, 1000 * SECOND), GRANTOR_WAIT);
    grantor_deinit(&g);
    struct grantor_config c;
    grantor_config_init(&c);
    assert_int_equal(grantor_init(&g, &c), 0);
    struct grantor_store s = store_at(LEASE_VERSION_MAX);
    assert_int_equal(grantor_lead(&g, 1, &s, 0), 0);
    assert_int_equal(grantor_change_begin(&g, LEASE_VERSION_MAX + 1), -EOVERFLOW);
    grantor_deinit(&g);
}

/* ---- rule 6: leaders ---- */

static void lease_grantor__leader__grants_only_while_confirmed(void **state)
{
    (void)state;
    struct grantor g;
    struct grantor_config c;
    grantor_config_init(&c);
    assert_int_equal(grantor_init(&g, &c), 0);
    assert_false(grantor_may_grant(&g, 0));
    struct grantor_registration boots[] = {{.node = 1, .boot = 1, .version = 4}};
    struct grantor_store s = store_at(10);
    s.boots = boots;
    s.boot_count = 1;
    assert_int_equal(grantor_lead(&g, 3, &s, 100 * SECOND), 0);
    assert_false(grantor_may_grant(&g, 100 * SECOND));
    grantor_confirm(&g, 2, 100 * SECOND); /* an entry of an earlier term says nothing */
    assert_false(grantor_may_grant(&g, 100 * SECOND));
    grantor_confirm(&g, 3, 100 * SECOND);
    assert_true(grantor_may_grant(&g, 102 * SECOND - 1));
    assert_false(grantor_may_grant(&g, 102 * SECOND));
    struct lease_offer o;
    assert_int_equal(grantor_offer(&g, 1, LEASE_CONTENT_NONE, 0, 102 * SECOND, &o), -EAGAIN);
    assert_false(grantor_next_offer(&g, 102 * SECOND, &o));
    grantor_confirm(&g, 3, 101 * SECOND);
    assert_int_equal(grantor_offer(&g, 1, LEASE_CONTENT_NONE, 0, 102 * SECOND, &o), 0);
    grantor_resign(&g);
    assert_false(grantor_may_grant(&g, 102 * SECOND));
    grantor_deinit(&g);
}

static void lease_grantor__new_leader__waits_for_what_may_have_been_granted(void **state)
{
    (void)state;
    struct grantor g;
    struct grantor_config c;
    grantor_config_init(&c);
    c.ttl_ns = 10 * SECOND;
    assert_int_equal(grantor_init(&g, &c), 0);
    struct grantor_registration boots[] = {{.node = 1, .boot = 1, .version = 4},
                                           {.node = 2, .boot = 3, .version = 9}};
    struct grantor_store s = {.version = 9,
                              .floor = 6,
                              .ttl_longest_ns = 20 * SECOND, /* longer than today's T */
                              .boots = boots,
                              .boot_count = 2};
    assert_int_equal(grantor_lead(&g, 3, &s, 100 * SECOND), 0);
    assert_int_equal(until(&g, 1), 122 * SECOND);
    uint64_t unsafe[2];
    /* Boot 3 registered at 9 and is never given less; boot 1 holds up all three. */
    for (uint64_t v = 7; v <= 9; v++) {
        assert_int_equal(grantor_unsafe(&g, v, 127 * SECOND, unsafe, 2), 1);
        assert_int_equal(unsafe[0], 1);
        assert_int_equal(grantor_verdict(&g, v, false, 127 * SECOND), GRANTOR_WAIT);
        assert_int_equal(grantor_verdict(&g, v, false, 127 * SECOND + 1), GRANTOR_PROCEED);
    }
    /* A promise counts for what it covers, and the change left keeps the figure. */
    assert_int_equal(tell(&g, 1, 50, 8, 101 * SECOND), 0);
    assert_int_equal(grantor_complete(&g, 8, 101 * SECOND), 0);
    assert_int_equal(g.floor, 8);
    assert_int_equal(grantor_verdict(&g, 9, false, 127 * SECOND), GRANTOR_WAIT);
    grantor_deinit(&g);
}

static void lease_grantor__lead__refusals(void **state)
{
    (void)state;
    struct grantor g;
    struct grantor_config c;
    grantor_config_init(&c);
    assert_int_equal(grantor_init(&g, &c), 0);
    struct grantor_store s = store_at(10);
    assert_int_equal(grantor_lead(&g, 0, &s, 0), -EINVAL);
    s.floor = 11;
    assert_int_equal(grantor_lead(&g, 1, &s, 0), -EINVAL);
    s = store_at(10);
    s.ttl_longest_ns = 20 * SECOND - 1; /* today's T has not been stored */
    assert_int_equal(grantor_lead(&g, 1, &s, 0), -EINVAL);
    s.ttl_longest_ns = 21 * SECOND; /* asks for a margin above 5 s */
    assert_int_equal(grantor_lead(&g, 1, &s, 0), -EINVAL);
    s = store_at(LEASE_VERSION_MAX + 1);
    assert_int_equal(grantor_lead(&g, 1, &s, 0), -EINVAL);
    struct grantor_registration boots[] = {{.boot = 2, .version = 1}, {.boot = 2, .version = 1}};
    s = store_at(10);
    s.boots = boots;
    s.boot_count = 2;
    assert_int_equal(grantor_lead(&g, 1, &s, 0), -EINVAL);
    boots[0].boot = 0; /* no number of a boot */
    assert_int_equal(grantor_lead(&g, 1, &s, 0), -EINVAL);
    boots[0].boot = 2;
    boots[1].boot = 3;
    boots[1].version = 11;
    assert_int_equal(grantor_lead(&g, 1, &s, 0), -EINVAL);
    assert_false(g.leads);
    boots[1].version = 10;
    assert_int_equal(grantor_lead(&g, 1, &s, 0), 0);
    assert_int_equal(grantor_lead(&g, 1, &s, 0), -EINVAL); /* a term has one beginning */
    assert_int_equal(grantor_lead(&g, 2, &s, 0), 0);
    grantor_deinit(&g);
}

static void lease_grantor__hears_of_more__halts_and_says_why(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    add(&g, 1, 1);
    struct lease_status s = {.boot = 1, .asked_ns = 5, .promise = 10, .term = 2};
    assert_int_equal(grantor_read_status(&g, &s, 1000 * SECOND), -ESTALE);
    assert_int_equal(g.halt, GRANTOR_TERM_ABOVE);
    assert_int_equal(g.halt_boot, 1);
    assert_int_equal(g.halt_number, 2);
    assert_false(grantor_may_grant(&g, 1000 * SECOND));
    assert_int_equal(grantor_change_begin(&g, 11), 0);
    assert_int_equal(grantor_verdict(&g, 11, false, 2000 * SECOND), GRANTOR_WAIT);
    grantor_deinit(&g);
    begin(&g);
    add(&g, 1, 1);
    assert_int_equal(tell(&g, 1, 5, 11, 1000 * SECOND), -ESTALE);
    assert_int_equal(g.halt, GRANTOR_PROMISE_ABOVE);
    assert_int_equal(g.halt_number, 11);
    grantor_deinit(&g);
}

static void lease_grantor__status__refusals(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    add(&g, 1, 1);
    assert_int_equal(tell(&g, 2, 5, 10, 1000 * SECOND), -ENOENT);
    assert_int_equal(tell(&g, 1, -1, 10, 1000 * SECOND), -EINVAL);
    assert_int_equal(tell(&g, 1, 5, LEASE_PROMISE_ALL + 1, 1000 * SECOND), -EINVAL);
    assert_int_equal(grantor_find(&g, 1)->asked_ns, -1);
    grantor_deinit(&g);
}

/* ---- T ---- */

static void lease_grantor__longer_T__stored_before_it_is_used(void **state)
{
    (void)state;
    struct grantor g;
    struct grantor_config c;
    grantor_config_init(&c);
    c.single = true;
    c.margin_ns = 10 * SECOND;
    assert_int_equal(grantor_init(&g, &c), 0);
    struct grantor_store s = store_at(10);
    assert_int_equal(grantor_lead(&g, 1, &s, 1000 * SECOND), 0);
    add(&g, 1, 1);
    assert_int_equal(tell(&g, 1, 5, 10, 1000 * SECOND), 0);
    assert_int_equal(grantor_set_ttl(&g, 30 * SECOND), 1);
    assert_int_equal(offer(&g, 1, 1000 * SECOND).ttl_ns, 20 * SECOND);
    assert_int_equal(grantor_ttl_stored(&g, 30 * SECOND), 0);
    assert_int_equal(offer(&g, 1, 1000 * SECOND).ttl_ns, 30 * SECOND);
    assert_int_equal(grantor_set_ttl(&g, 5 * SECOND), 0); /* shorter: at once */
    assert_int_equal(offer(&g, 1, 1000 * SECOND).ttl_ns, 5 * SECOND);
    assert_int_equal(until(&g, 1), 1030 * SECOND); /* the longer one may still be held */
    assert_int_equal(grantor_budget_ns(&g), (30 + 2 + 10 + 1) * SECOND);
    assert_int_equal(grantor_set_ttl(&g, 0), -EINVAL);
    assert_int_equal(grantor_set_ttl(&g, 44 * SECOND), -EINVAL); /* margin 10 s: up to 43 s */
    assert_int_equal(grantor_ttl_stored(&g, 44 * SECOND), -EINVAL);
    assert_int_equal(grantor_set_ttl(&g, 43 * SECOND), 1);
    grantor_deinit(&g);
}

/* ---- what is due ---- */

static void lease_grantor__next_offer__pulls_broadcasts_heartbeats(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    add(&g, 1, 1);
    struct lease_offer o;
    int64_t t = 1000 * SECOND;
    assert_true(grantor_next_offer(&g, t, &o));
    assert_int_equal(o.content, LEASE_CONTENT_NONE);
    assert_false(grantor_next_offer(&g, t, &o));
    assert_int_equal(grantor_next_ns(&g), t + SECOND);
    struct lease_status s = {.boot = 1, .asked_ns = 5, .promise = 10, .term = 1, .pull = true};
    assert_int_equal(grantor_read_status(&g, &s, t), 0);
    assert_true(grantor_next_offer(&g, t, &o));
    assert_int_equal(o.content, LEASE_CONTENT_SNAPSHOT);
    assert_false(grantor_next_offer(&g, t, &o)); /* answered once */
    assert_int_equal(grantor_change_begin(&g, 11), 0);
    assert_true(grantor_next_offer(&g, t, &o)); /* told at once */
    assert_int_equal(o.content, LEASE_CONTENT_DELTA);
    assert_int_equal(o.base, 10);
    assert_int_equal(o.version, 11);
    assert_false(grantor_next_offer(&g, t + SECOND - 1, &o));
    assert_true(grantor_next_offer(&g, t + SECOND, &o)); /* told again each second */
    assert_int_equal(o.content, LEASE_CONTENT_DELTA);
    assert_int_equal(tell(&g, 1, 6, 11, t + SECOND), 0);
    assert_true(grantor_next_offer(&g, t + 2 * SECOND, &o));
    assert_int_equal(o.content, LEASE_CONTENT_NONE);
    grantor_deinit(&g);
}

static void lease_grantor__next_time__the_earliest_of_those_who_are_told(void **state)
{
    (void)state;
    struct grantor g;
    struct lease_offer o;
    int64_t t = 1000 * SECOND;
    struct grantor_config c;
    grantor_config_init(&c);
    c.single = true;
    c.heartbeat_ns = 3 * SECOND; /* rarer than a version that lags is told again */
    assert_int_equal(grantor_init(&g, &c), 0);
    struct grantor_store s = store_at(10);
    assert_int_equal(grantor_lead(&g, 1, &s, t), 0);
    add(&g, 1, 1);
    add(&g, 2, 2);
    while (grantor_next_offer(&g, t, &o))
        ;
    assert_int_equal(grantor_next_ns(&g), t + 3 * SECOND);
    assert_int_equal(grantor_change_begin(&g, 11), 0);
    assert_true(grantor_next_ns(&g) <= t); /* nobody has been told of it */
    while (grantor_next_offer(&g, t, &o))
        ;
    assert_int_equal(grantor_next_ns(&g), t + SECOND);
    assert_int_equal(tell(&g, 1, 5, 11, t), 0);
    assert_int_equal(grantor_next_ns(&g), t + SECOND); /* boot 2 lags yet */
    struct lease_status pull = {.boot = 2, .asked_ns = 6, .promise = 10, .term = 1, .pull = true};
    assert_int_equal(grantor_read_status(&g, &pull, t + 2500 * MS), 0);
    assert_true(
        grantor_next_offer(&g, t + 2500 * MS, &o));      /* told again so late that its heartbeat */
    assert_int_equal(o.content, LEASE_CONTENT_SNAPSHOT); /* moved with it */
    assert_int_equal(grantor_next_ns(&g), t + 3 * SECOND); /* boot 1's, before boot 2's next */
    grantor_remove_node(&g, 2);
    assert_int_equal(grantor_next_ns(&g), t + 3 * SECOND); /* it is told nothing any more */
    grantor_deinit(&g);
}

static void lease_grantor__confirmed_for_another_term__is_of_no_use(void **state)
{
    (void)state;
    struct grantor g;
    struct grantor_config c;
    uint64_t boot;
    grantor_config_init(&c);
    assert_int_equal(grantor_init(&g, &c), 0);
    struct grantor_store s = store_at(10);
    assert_int_equal(grantor_lead(&g, 3, &s, 1000 * SECOND), 0);
    grantor_confirm(&g, 2, 1000 * SECOND);
    assert_false(grantor_may_grant(&g, 1000 * SECOND));
    grantor_confirm(&g, 3, 1000 * SECOND);
    assert_true(grantor_may_grant(&g, 1000 * SECOND));
    grantor_resign(&g);
    grantor_confirm(&g, 3, 1001 * SECOND); /* late: it leads no more */
    assert_int_equal(g.confirmed_ns, 1000 * SECOND);
    assert_false(grantor_forget(&g, 2000 * SECOND, &boot));
    grantor_deinit(&g);
}

/* More boots and changes than there was room for at first. */
static void lease_grantor__many_boots__each_is_kept(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    for (uint64_t b = 1; b <= 20; b++)
        add(&g, b, b);
    for (uint64_t v = 11; v <= 30; v++)
        assert_int_equal(grantor_change_begin(&g, v), 0);
    for (uint64_t b = 1; b <= 20; b++) {
        assert_int_equal(grantor_find(&g, b)->registered.node, b);
        assert_int_equal(tell(&g, b, 5, 10, 1000 * SECOND), 0);
    }
    assert_int_equal(g.change_count, 20);
    assert_int_equal(grantor_complete(&g, 30, 1000 * SECOND), 0); /* nobody was granted anything */
    assert_int_equal(g.change_count, 0);
    grantor_deinit(&g);
}

/* ---- memory ---- */

static void lease_grantor__no_memory__says_so_and_can_be_repeated(void **state)
{
    (void)state;
    struct grantor g;
    begin(&g);
    struct grantor_registration r = {.node = 1, .boot = 1, .version = 10};
    alloc_fail_at(1);
    assert_int_equal(grantor_register(&g, &r), -ENOMEM);
    assert_int_equal(g.boot_count, 0);
    assert_int_equal(grantor_register(&g, &r), 0);
    for (uint64_t k = 1; k <= 2; k++) {
        alloc_fail_at(k);
        assert_int_equal(grantor_change_begin(&g, 11), -ENOMEM);
        assert_int_equal(g.version, 10);
        alloc_fail_at(0);
        grantor_deinit(&g);
        begin(&g);
        r.boot = 1;
        assert_int_equal(grantor_register(&g, &r), 0);
    }
    assert_int_equal(grantor_change_begin(&g, 11), 0);
    grantor_deinit(&g);

    struct grantor_config c;
    grantor_config_init(&c);
    struct grantor_store s = store_at(10);
    s.floor = 9;
    s.boots = &r;
    s.boot_count = 1;
    for (uint64_t k = 1; k <= 3; k++) {
        assert_int_equal(grantor_init(&g, &c), 0);
        alloc_fail_at(k);
        assert_int_equal(grantor_lead(&g, 1, &s, 0), -ENOMEM);
        alloc_fail_at(0);
        assert_false(g.leads);
        assert_int_equal(grantor_lead(&g, 2, &s, 0), 0);
        grantor_deinit(&g);
    }
}

static void lease_grantor__deinit__takes_a_zeroed_one(void **state)
{
    (void)state;
    struct grantor g = {0};
    grantor_deinit(&g);
    assert_false(grantor_may_grant(&g, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lease_grantor__margin__rounds_up_and_has_limits),
        cmocka_unit_test(lease_grantor__init__refuses_what_is_unsound),
        cmocka_unit_test(lease_grantor__offer__bound_is_the_reading_and_T),
        cmocka_unit_test(lease_grantor__time_that_runs_back__is_not_believed),
        cmocka_unit_test(lease_grantor__verdict__promise_or_the_kept_figure),
        cmocka_unit_test(lease_grantor__two_changes__each_keeps_its_figure),
        cmocka_unit_test(lease_grantor__boot_after_the_change__is_not_waited_for),
        cmocka_unit_test(lease_grantor__new_boot_of_a_node__ends_nothing_of_the_older),
        cmocka_unit_test(lease_grantor__stopped_boot__promised_everything_and_is_forgotten),
        cmocka_unit_test(lease_grantor__removed_node__offered_nothing_and_waited_for),
        cmocka_unit_test(lease_grantor__register__refusals),
        cmocka_unit_test(lease_grantor__change__numbers_without_a_gap),
        cmocka_unit_test(lease_grantor__leader__grants_only_while_confirmed),
        cmocka_unit_test(lease_grantor__new_leader__waits_for_what_may_have_been_granted),
        cmocka_unit_test(lease_grantor__lead__refusals),
        cmocka_unit_test(lease_grantor__hears_of_more__halts_and_says_why),
        cmocka_unit_test(lease_grantor__status__refusals),
        cmocka_unit_test(lease_grantor__longer_T__stored_before_it_is_used),
        cmocka_unit_test(lease_grantor__next_offer__pulls_broadcasts_heartbeats),
        cmocka_unit_test(lease_grantor__next_time__the_earliest_of_those_who_are_told),
        cmocka_unit_test(lease_grantor__confirmed_for_another_term__is_of_no_use),
        cmocka_unit_test(lease_grantor__many_boots__each_is_kept),
        cmocka_unit_test(lease_grantor__no_memory__says_so_and_can_be_repeated),
        cmocka_unit_test(lease_grantor__deinit__takes_a_zeroed_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
