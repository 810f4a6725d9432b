/* Grantor and holder in one process: renewals, a plane that is stuck, changes, leases off. */
#include "lease_rig.h"

#include "lease/embedded.h"

/* The plane's loop. r.h is not used: the holder is inside e. */
struct loop {
    struct lease_embedded e;
    struct rig r;
    bool closes, empties, applies;
    size_t deltas, snapshots;
};

static void perform(struct loop *l, const struct lease_actions *acts);
static void step(struct loop *l, const struct holder_event *e)
{
    struct lease_actions acts;
    assert_int_equal(holder_step(&l->e.holder, e, rig_now(&l->r), &acts), HOLDER_TAKEN);
    perform(l, &acts);
}
static void perform(struct loop *l, const struct lease_actions *acts)
{
    for (size_t i = 0; i < acts->count; i++) {
        const struct lease_action *a = &acts->items[i];
        struct holder_event e = {0};
        if (a->type == LEASE_PUBLISH_DEADLINE)
            lease_publish_deadline(&l->r.words, lease_embedded_deadline_ns(&l->e, a->deadline_ns));
        if (a->type == LEASE_PUBLISH_VIEW) lease_publish_view(&l->r.words, a->view);
        if (a->type == LEASE_APPLY_CONTENT) {
            l->deltas += a->apply.content == LEASE_CONTENT_DELTA;
            l->snapshots += a->apply.content == LEASE_CONTENT_SNAPSHOT;
            e = (struct holder_event){.type = HOLDER_APPLIED,
                                      .applied = {a->apply.ticket, l->applies}};
            step(l, &e);
        }
        if (a->type == LEASE_EMPTY_CACHES) {
            e = (struct holder_event){.type = HOLDER_EMPTIED, .ok = l->empties};
            step(l, &e);
        }
        if (a->type == LEASE_CLOSE_VIEWS) {
            l->r.close_asked = a->view;
            e = (struct holder_event){.type = HOLDER_CLOSED, .view = a->view};
            if (l->closes) step(l, &e);
        }
    }
}
static void turn(struct loop *l, int64_t now_ns)
{
    rig_time(&l->r, now_ns);
    struct holder_event e;
    int turns = 0;
    while (lease_embedded_next(&l->e, now_ns, &e)) {
        step(l, &e);
        assert_true(++turns < 10); /* it ends */
    }
}
static void loop_init(struct loop *l, int64_t ttl_ns, uint64_t version)
{
    memset(l, 0, sizeof(*l));
    rig_init(&l->r, 0);
    l->closes = l->empties = l->applies = true;
    lease_embedded_init(&l->e, ttl_ns, version);
}
static bool live(struct loop *l, int64_t now_ns)
{
    rig_time(&l->r, now_ns);
    return rig_live(&l->r);
}

static void lease_embedded__first_turn__normal(void **state)
{
    (void)state;
    struct loop l;
    loop_init(&l, 20 * SECOND, 6);
    assert_false(live(&l, 100 * SECOND));
    turn(&l, 100 * SECOND);
    assert_true(live(&l, 100 * SECOND));
    assert_int_equal(rig_deadline(&l.r), 120 * SECOND);
    assert_int_equal(rig_view(&l.r), view_make(1, 6));
    assert_int_equal(l.snapshots, 1);
    assert_int_equal(lease_embedded_due_ns(&l.e), 101 * SECOND);
}

static void lease_embedded__heartbeats__renew_with_T(void **state)
{
    (void)state;
    struct loop l;
    loop_init(&l, 20 * SECOND, 6);
    for (int64_t t = 100; t < 200; t++) {
        turn(&l, t * SECOND);
        assert_int_equal(rig_deadline(&l.r), (t + 20) * SECOND);
    }
    assert_int_equal(view_epoch(rig_view(&l.r)), 1);
    turn(&l, 199 * SECOND + 1); /* not a heartbeat yet */
    assert_int_equal(rig_deadline(&l.r), 219 * SECOND);
    /* A short T has four chances as well. */
    loop_init(&l, 400 * MS, 6);
    turn(&l, 100 * SECOND);
    assert_int_equal(lease_embedded_due_ns(&l.e), 100 * SECOND + 100 * MS);
}

static void lease_embedded__stuck_plane__fences_the_writers(void **state)
{
    (void)state;
    struct loop l;
    loop_init(&l, 20 * SECOND, 6);
    turn(&l, 100 * SECOND);
    uint64_t token = rig_view(&l.r);
    assert_true(live(&l, 120 * SECOND - 1));
    assert_false(live(&l, 120 * SECOND)); /* nothing ran, and yet it is over */
    turn(&l, 130 * SECOND);
    assert_true(live(&l, 130 * SECOND));
    assert_int_equal(rig_view(&l.r), view_make(2, 6));
    assert_false(lease_check(&l.r.words, &l.r.clock, token));
    assert_int_equal(l.snapshots, 2);
}

/* The renewal that falls due last comes half a heartbeat after the deadline: the deadline counts. */
static void lease_embedded__lapse_between_heartbeats__noticed_at_the_deadline(void **state)
{
    (void)state;
    struct loop l;
    loop_init(&l, 20 * SECOND, 6);
    turn(&l, 100 * SECOND);
    l.closes = false;
    lease_embedded_change(&l.e, 7);
    turn(&l, 119 * SECOND + 500 * MS);
    assert_int_equal(lease_embedded_due_ns(&l.e), 120 * SECOND);
    turn(&l, 120 * SECOND);
    assert_int_equal(l.e.holder.state, HOLDER_FENCED);
}

static void lease_embedded__fence_that_does_not_close__stays_fenced(void **state)
{
    (void)state;
    struct loop l;
    loop_init(&l, 20 * SECOND, 6);
    turn(&l, 100 * SECOND);
    l.closes = false;
    for (int64_t t = 130; t < 160; t++)
        turn(&l, t * SECOND);
    assert_false(live(&l, 160 * SECOND));
    assert_int_equal(lease_embedded_due_ns(&l.e), INT64_MAX); /* closing is awaited, no time */
    struct holder_event e = {.type = HOLDER_CLOSED, .view = l.r.close_asked};
    step(&l, &e);
    turn(&l, 160 * SECOND);
    assert_true(live(&l, 160 * SECOND));
}

static void lease_embedded__caches_that_do_not_empty__tried_each_heartbeat(void **state)
{
    (void)state;
    struct loop l;
    loop_init(&l, 20 * SECOND, 6);
    turn(&l, 100 * SECOND);
    l.empties = false;
    turn(&l, 130 * SECOND);
    turn(&l, 131 * SECOND);
    assert_false(live(&l, 131 * SECOND));
    l.empties = true;
    turn(&l, 132 * SECOND);
    turn(&l, 133 * SECOND);
    assert_true(live(&l, 133 * SECOND));
}

static void lease_embedded__change__closed_before_it_is_promised(void **state)
{
    (void)state;
    struct loop l;
    loop_init(&l, 20 * SECOND, 6);
    turn(&l, 100 * SECOND);
    l.closes = false;
    lease_embedded_change(&l.e, 7);
    turn(&l, 100 * SECOND + 5);
    assert_int_equal(l.deltas, 1);
    assert_int_equal(rig_view(&l.r), view_make(1, 7));
    assert_false(holder_has_promised(&l.e.holder, 7));
    turn(&l, 101 * SECOND + 5); /* and the lease is not extended meanwhile */
    assert_int_equal(rig_deadline(&l.r), 120 * SECOND);
    struct holder_event e = {.type = HOLDER_CLOSED, .view = l.r.close_asked};
    step(&l, &e);
    assert_true(holder_has_promised(&l.e.holder, 7));
    assert_int_equal(rig_deadline(&l.r), 121 * SECOND + 5);
    l.closes = true;
    lease_embedded_change(&l.e, 12); /* several at once, in one transaction's version or more */
    turn(&l, 102 * SECOND);
    assert_true(holder_has_promised(&l.e.holder, 12));
    assert_int_equal(l.deltas, 2);
}

static void lease_embedded__change_while_fenced__comes_with_the_recovery(void **state)
{
    (void)state;
    struct loop l;
    loop_init(&l, 20 * SECOND, 6);
    turn(&l, 100 * SECOND);
    l.closes = false;
    turn(&l, 130 * SECOND);
    lease_embedded_change(&l.e, 7);
    turn(&l, 131 * SECOND);
    assert_false(holder_has_promised(&l.e.holder, 7));
    struct holder_event e = {.type = HOLDER_CLOSED, .view = l.r.close_asked};
    step(&l, &e);
    turn(&l, 132 * SECOND);
    assert_true(holder_has_promised(&l.e.holder, 7));
    assert_int_equal(rig_view(&l.r), view_make(2, 7));
}

static void lease_embedded__snapshot_that_fails__tried_each_heartbeat(void **state)
{
    (void)state;
    struct loop l;
    loop_init(&l, 20 * SECOND, 6);
    l.applies = false;
    turn(&l, 100 * SECOND);
    turn(&l, 100 * SECOND + 1);
    assert_int_equal(l.snapshots, 1);
    l.applies = true;
    turn(&l, 101 * SECOND);
    assert_int_equal(l.snapshots, 2);
    assert_true(live(&l, 101 * SECOND));
}

static void lease_embedded__off__never_lapses_and_still_closes_changes(void **state)
{
    (void)state;
    struct loop l;
    loop_init(&l, LEASE_OFF, 6);
    turn(&l, 100 * SECOND);
    assert_int_equal(rig_deadline(&l.r), LEASE_OFF);
    assert_true(live(&l, INT64_MAX / 2));
    turn(&l, 40000000 * SECOND); /* more than a year later */
    assert_int_equal(view_epoch(rig_view(&l.r)), 1);
    lease_embedded_change(&l.e, 7);
    turn(&l, 40000001 * SECOND);
    assert_true(holder_has_promised(&l.e.holder, 7));
    assert_int_equal(rig_deadline(&l.r), LEASE_OFF);
}

/* Only a recovery that failed waits; one after another that succeeded goes on at once. */
static void lease_embedded__fences_in_one_heartbeat__recover_each(void **state)
{
    (void)state;
    struct loop l;
    loop_init(&l, 20 * SECOND, 6);
    turn(&l, 100 * SECOND);
    for (uint32_t epoch = 2; epoch < 6; epoch++) {
        struct holder_event e = {.type = HOLDER_FENCE};
        step(&l, &e);
        assert_false(live(&l, 100 * SECOND));
        turn(&l, 100 * SECOND);
        assert_true(live(&l, 100 * SECOND));
        assert_int_equal(view_epoch(rig_view(&l.r)), epoch);
    }
}

/* The answers to its actions come in later turns, as those of a slow schema do. */
static void lease_embedded__content_on_its_way__nothing_is_asked_again(void **state)
{
    (void)state;
    struct lease_embedded e;
    struct holder_event event;
    struct lease_actions acts;
    int64_t now_ns = 100 * SECOND;
    lease_embedded_init(&e, 20 * SECOND, 6);
    assert_true(lease_embedded_next(&e, now_ns, &event)); /* the registration */
    (void)holder_step(&e.holder, &event, now_ns, &acts);
    assert_true(lease_embedded_next(&e, now_ns, &event)); /* the snapshot */
    (void)holder_step(&e.holder, &event, now_ns, &acts);
    assert_int_equal(e.holder.state, HOLDER_PULLING);
    assert_int_equal(lease_embedded_due_ns(&e), INT64_MAX);
    assert_false(lease_embedded_next(&e, now_ns + SECOND, &event));
    event = (struct holder_event){.type = HOLDER_APPLIED, .applied = {e.holder.ticket, true}};
    (void)holder_step(&e.holder, &event, now_ns, &acts);
    assert_int_equal(e.holder.state, HOLDER_NORMAL);
    (void)lease_embedded_next(&e, now_ns, &event); /* the first heartbeat, if it is due */
    lease_embedded_change(&e, 7);
    assert_true(lease_embedded_next(&e, now_ns, &event));
    assert_int_equal(event.offer.content, LEASE_CONTENT_DELTA);
    (void)holder_step(&e.holder, &event, now_ns, &acts);
    assert_true(e.holder.applying);
    assert_false(lease_embedded_next(&e, now_ns, &event));
    assert_true(lease_embedded_next(&e, now_ns + SECOND, &event)); /* a heartbeat, no delta */
    assert_int_equal(event.offer.content, LEASE_CONTENT_NONE);
}

static void lease_embedded__off_and_fenced__publishes_the_fence(void **state)
{
    (void)state;
    struct lease_embedded e;
    lease_embedded_init(&e, LEASE_OFF, 6);
    assert_int_equal(lease_embedded_deadline_ns(&e, 5), LEASE_OFF);
    assert_int_equal(lease_embedded_deadline_ns(&e, LEASE_FENCED), LEASE_FENCED);
    lease_embedded_init(&e, SECOND, 6);
    assert_int_equal(lease_embedded_deadline_ns(&e, 5), 5);
}

static void lease_embedded__stopped__gives_nothing_more(void **state)
{
    (void)state;
    struct loop l;
    loop_init(&l, 20 * SECOND, 6);
    turn(&l, 100 * SECOND);
    struct holder_event e = {.type = HOLDER_STOP};
    step(&l, &e);
    assert_false(live(&l, 100 * SECOND));
    assert_false(lease_embedded_next(&l.e, 200 * SECOND, &e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lease_embedded__first_turn__normal),
        cmocka_unit_test(lease_embedded__heartbeats__renew_with_T),
        cmocka_unit_test(lease_embedded__stuck_plane__fences_the_writers),
        cmocka_unit_test(lease_embedded__lapse_between_heartbeats__noticed_at_the_deadline),
        cmocka_unit_test(lease_embedded__fence_that_does_not_close__stays_fenced),
        cmocka_unit_test(lease_embedded__caches_that_do_not_empty__tried_each_heartbeat),
        cmocka_unit_test(lease_embedded__change__closed_before_it_is_promised),
        cmocka_unit_test(lease_embedded__change_while_fenced__comes_with_the_recovery),
        cmocka_unit_test(lease_embedded__snapshot_that_fails__tried_each_heartbeat),
        cmocka_unit_test(lease_embedded__off__never_lapses_and_still_closes_changes),
        cmocka_unit_test(lease_embedded__fences_in_one_heartbeat__recover_each),
        cmocka_unit_test(lease_embedded__content_on_its_way__nothing_is_asked_again),
        cmocka_unit_test(lease_embedded__off_and_fenced__publishes_the_fence),
        cmocka_unit_test(lease_embedded__stopped__gives_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
