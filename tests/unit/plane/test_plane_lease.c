/* ctest: concurrent
 *
 * The lease in the plane's hands: views closed, a stuck plane, epochs, the host's own lease. */
#include "base/thread.h"
#include "tests/lib/plane_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_NS ((int64_t)1000000000)

static int set_up(void **state)
{
    struct plane_rig *rig = plane_rig_create();
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    plane_rig_destroy(*state);
    return 0;
}

/* Time that only the test moves. */
static void open_on_test_clock(struct plane_rig *rig, enum plane_lease lease)
{
    for (int i = 0; i < 3; i++)
        atomic_store(&rig->test_ns[i], 1000 * SECOND_NS);
    rig->clock.test_ns = rig->test_ns;
    rig->o.lease = lease;
    plane_rig_open(rig);
}

static void move_clock(struct plane_rig *rig, int64_t ns)
{
    atomic_fetch_add(&rig->test_ns[0], ns);
}

static int64_t deadline_ns(struct plane_rig *rig)
{
    return atomic_load_explicit(&rig->words.deadline_ns, memory_order_acquire);
}

static uint64_t fences(struct plane_rig *rig)
{
    struct plane_stats stats;
    plane_get_stats(rig->plane, &stats);
    return stats.fences;
}

/* ---- a call in a thread of its own ---- */

enum call { CALL_CREATE_TABLE, CALL_DROP_TABLE, CALL_FENCE, CALL_RESUME, CALL_ADD_IF_MISSING };

struct caller {
    struct plane_rig *rig;
    enum call call;
    struct plane_lease_request request;
    int rc;
    _Atomic bool returned;
    pthread_t thread;
};

static void *make_call(void *arg)
{
    struct caller *c = arg;
    switch (c->call) {
    case CALL_CREATE_TABLE: c->rc = rig_create_table(c->rig, "t"); break;
    case CALL_DROP_TABLE: c->rc = rig_drop_table(c->rig, "t"); break;
    case CALL_FENCE: c->rc = plane_lease_fence(c->rig->plane); break;
    case CALL_RESUME: c->rc = plane_lease_resume(c->rig->plane, &c->request, 5000); break;
    case CALL_ADD_IF_MISSING:
        c->rc = rig_add_column_of(c->rig, "t", "a", SCHEMA_INT32, SCHEMA_FIELD, true);
        break;
    }
    atomic_store(&c->returned, true);
    return NULL;
}

static void begin(struct caller *c, struct plane_rig *rig, enum call call)
{
    *c = (struct caller){.rig = rig, .call = call};
    assert_int_equal(thread_start(&c->thread, "caller", make_call, c), 0);
}

static int end(struct caller *c)
{
    thread_join(c->thread);
    return c->rc;
}

/* ---- embedded ---- */

static void plane_open__embedded__live_in_epoch_one(void **state)
{
    struct plane_rig *rig = *state;
    plane_rig_open(rig);
    assert_int_equal(rig_view(rig), view_make(1, 0));
    assert_true(rig_is_live(rig));
    int64_t left = deadline_ns(rig) - clock_boot_ns(&rig->clock);
    assert_true(left > 18 * SECOND_NS && left <= 20 * SECOND_NS);
    struct plane_lease_request r = {0};
    assert_int_equal(plane_lease_ask(rig->plane, &r), -EOPNOTSUPP);
    assert_int_equal(plane_lease_grant(rig->plane, &r, 1), -EOPNOTSUPP);
    assert_int_equal(plane_lease_resume(rig->plane, &r, 1), -EOPNOTSUPP);
    plane_rig_close(rig);
    assert_int_equal(deadline_ns(rig), LEASE_FENCED); /* the grantor is gone */
}

static void plane_change__older_view_in_use__published_and_not_answered(void **state)
{
    struct plane_rig *rig = *state;
    struct caller c;
    plane_rig_open(rig);
    atomic_store(&rig->open_views, true);
    begin(&c, rig, CALL_CREATE_TABLE);
    RIG_AWAIT(rig_version(rig) == 1);
    assert_int_not_equal(rig_table(rig, "t"), 0);
    RIG_AWAIT(atomic_load(&rig->asked_view) == view_make(1, 1));
    uint64_t asked = atomic_load(&rig->asked_count);
    RIG_AWAIT(atomic_load(&rig->asked_count) > asked + 20); /* every millisecond or less */
    assert_false(atomic_load(&c.returned));
    assert_true(rig_is_live(rig));
    atomic_store(&rig->open_views, false);
    assert_int_equal(end(&c), 0);
}

static void plane_change__if_missing__answered_without_closing(void **state)
{
    struct plane_rig *rig = *state;
    plane_rig_open(rig);
    atomic_store(&rig->open_views, true);
    assert_int_equal(rig_add_column_of(rig, "t", "a", SCHEMA_INT32, SCHEMA_FIELD, true), 0);
    assert_int_not_equal(rig_column(rig, "t", "a"), 0); /* in the view that a new token takes */
}

static void plane_change__drop_table__marker_is_closed_before_the_tombstone(void **state)
{
    struct plane_rig *rig = *state;
    struct caller c;
    plane_rig_open(rig);
    assert_int_equal(rig_create_table(rig, "t"), 0);
    const struct schema_table *t = schema_find_table(rig->schema, "t", 1, 1);
    atomic_store(&rig->open_views, true);
    begin(&c, rig, CALL_DROP_TABLE);
    RIG_AWAIT(rig_version(rig) == 2);
    assert_true(schema_table_is_marked(t, 2));
    rig_sleep_ms(50);
    assert_int_equal(rig_version(rig), 2);
    /* Whoever writes to it is refused, and it is not made again. */
    assert_int_equal(rig_add_column_of(rig, "t", "a", SCHEMA_INT32, SCHEMA_FIELD, true),
                     -RFE_SEMANTIC_ERROR);
    assert_int_equal(rig_create_table(rig, "t"), -RFE_SEMANTIC_ERROR);
    assert_int_equal(rig_set_ttl(rig, "t", 5), -RFE_SEMANTIC_ERROR);
    assert_false(atomic_load(&c.returned));
    atomic_store(&rig->open_views, false);
    assert_int_equal(end(&c), 0);
    assert_int_equal(rig_version(rig), 3);
    assert_int_equal(rig_table(rig, "t"), 0);
}

static void plane_lease__time_passes__renewed_by_the_thread(void **state)
{
    struct plane_rig *rig = *state;
    open_on_test_clock(rig, PLANE_LEASE_EMBEDDED);
    int64_t before = deadline_ns(rig);
    for (int i = 0; i < 50; i++) {
        move_clock(rig, SECOND_NS);
        int64_t now = clock_boot_ns(&rig->clock);
        RIG_AWAIT(deadline_ns(rig) == now + 20 * SECOND_NS);
    }
    assert_true(deadline_ns(rig) >= before + 50 * SECOND_NS);
    assert_int_equal(fences(rig), 0);
    assert_int_equal(view_epoch(rig_view(rig)), 1);
}

static void plane_hold__longer_than_the_lease__writers_fenced_then_the_next_epoch(void **state)
{
    struct plane_rig *rig = *state;
    open_on_test_clock(rig, PLANE_LEASE_EMBEDDED);
    uint64_t token = rig_view(rig);
    plane_hold(rig->plane, true);
    move_clock(rig, 19 * SECOND_NS);
    rig_sleep_ms(20);
    assert_true(lease_check(&rig->words, &rig->clock, token));
    move_clock(rig, 2 * SECOND_NS);
    assert_false(lease_check(&rig->words, &rig->clock, token)); /* nobody renewed */
    assert_false(rig_is_live(rig));
    atomic_store(&rig->open_views, true);
    plane_hold(rig->plane, false);
    RIG_AWAIT(view_epoch(rig_view(rig)) == 2);
    assert_int_equal(deadline_ns(rig), LEASE_FENCED);
    rig_sleep_ms(30);
    assert_false(rig_is_live(rig)); /* the old views are not closed yet */
    atomic_store(&rig->open_views, false);
    RIG_AWAIT(rig_is_live(rig));
    assert_false(lease_check(&rig->words, &rig->clock, token));
    assert_int_equal(fences(rig), 1);
    assert_int_equal(atomic_load(&rig->log_fenced), 1);
}

static void plane_hold__change_waits__answered_unknown_then_done(void **state)
{
    struct plane_rig *rig = *state;
    rig->o.commit_wait_ns = 50 * 1000000;
    plane_rig_open(rig);
    plane_hold(rig->plane, true);
    assert_int_equal(rig_create_table(rig, "t"), -RFE_UNKNOWN);
    assert_int_equal(rig_table(rig, "t"), 0);
    plane_hold(rig->plane, false);
    RIG_AWAIT(rig_table(rig, "t") != 0);
}

static void plane_change__fenced__automatic_refused_named_done(void **state)
{
    struct plane_rig *rig = *state;
    struct caller f, c;
    plane_rig_open(rig);
    atomic_store(&rig->open_views, true);
    begin(&f, rig, CALL_FENCE);
    RIG_AWAIT(view_epoch(rig_view(rig)) == 2);
    assert_int_equal(rig_add_column_of(rig, "t", "a", SCHEMA_INT32, SCHEMA_FIELD, true),
                     -RFE_LEASE_FENCED);
    begin(&c, rig, CALL_CREATE_TABLE);
    RIG_AWAIT(plane_version(rig->plane) == 1);
    rig_sleep_ms(20);
    assert_false(atomic_load(&f.returned));
    assert_false(atomic_load(&c.returned));
    atomic_store(&rig->open_views, false);
    assert_int_equal(end(&f), 0);
    assert_int_equal(end(&c), 0);
    RIG_AWAIT(rig_is_live(rig));
    assert_int_equal(rig_view(rig), view_make(2, 1));
    assert_int_not_equal(rig_table(rig, "t"), 0);
}

static void plane_lease_fence__embedded__back_by_itself_in_the_next_epoch(void **state)
{
    struct plane_rig *rig = *state;
    plane_rig_open(rig);
    uint64_t token = rig_view(rig);
    for (uint32_t epoch = 2; epoch < 4; epoch++) {
        assert_int_equal(plane_lease_fence(rig->plane), 0);
        assert_false(lease_check(&rig->words, &rig->clock, token));
        assert_true(view_epoch(rig_view(rig)) == epoch);
        RIG_AWAIT(rig_is_live(rig));
    }
    assert_int_equal(fences(rig), 2);
}

static void plane_lease_fence__views_stay_open__unknown(void **state)
{
    struct plane_rig *rig = *state;
    rig->o.commit_wait_ns = 50 * 1000000;
    plane_rig_open(rig);
    atomic_store(&rig->open_views, true);
    assert_int_equal(plane_lease_fence(rig->plane), -RFE_UNKNOWN);
    assert_false(rig_is_live(rig));
    atomic_store(&rig->open_views, false);
    RIG_AWAIT(rig_is_live(rig));
}

static void plane_close__callers_still_wait__closing_or_unknown(void **state)
{
    struct plane_rig *rig = *state;
    struct caller held, published;
    plane_rig_open(rig);
    atomic_store(&rig->open_views, true);
    begin(&published, rig, CALL_CREATE_TABLE);
    RIG_AWAIT(rig_version(rig) == 1);
    plane_hold(rig->plane, true);
    begin(&held, rig, CALL_ADD_IF_MISSING);
    rig_sleep_ms(50);
    plane_close(rig->plane);
    assert_int_equal(end(&held), -RFE_CLOSING);
    assert_int_equal(end(&published), -RFE_UNKNOWN);
    schema_destroy(rig->schema);
    rig->plane = NULL;
    plane_rig_open(rig);
    assert_int_not_equal(rig_table(rig, "t"), 0);
}

/* ---- off ---- */

static void plane_open__off__live_for_ever(void **state)
{
    struct plane_rig *rig = *state;
    open_on_test_clock(rig, PLANE_LEASE_OFF);
    assert_int_equal(deadline_ns(rig), LEASE_OFF);
    move_clock(rig, 1000000 * SECOND_NS);
    rig_sleep_ms(20);
    assert_true(rig_is_live(rig));
    assert_int_equal(deadline_ns(rig), LEASE_OFF);
    assert_int_equal(plane_lease_fence(rig->plane), -EOPNOTSUPP);
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_int_equal(rig_view(rig), view_make(1, 1));
    assert_int_equal(fences(rig), 0);
}

/* ---- the host's own lease ---- */

static struct plane_lease_request ask(struct plane_rig *rig)
{
    struct plane_lease_request r;
    assert_int_equal(plane_lease_ask(rig->plane, &r), 0);
    return r;
}

static void plane_lease__external__fenced_until_resumed_then_granted(void **state)
{
    struct plane_rig *rig = *state;
    open_on_test_clock(rig, PLANE_LEASE_EXTERNAL);
    assert_false(rig_is_live(rig));
    struct plane_lease_request r = ask(rig);
    assert_int_equal(plane_lease_grant(rig->plane, &r, 5000), -RFE_LEASE_FENCED);
    /* A host that reloads makes tables while it is fenced; what is automatic is not made. */
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_int_equal(rig_add_column_of(rig, "t", "a", SCHEMA_INT32, SCHEMA_FIELD, true),
                     -RFE_LEASE_FENCED);
    move_clock(rig, SECOND_NS);
    assert_int_equal(plane_lease_resume(rig->plane, &r, 5000), 0);
    assert_true(rig_is_live(rig));
    assert_int_equal(rig_view(rig), view_make(1, 1));
    assert_int_not_equal(rig_table(rig, "t"), 0);
    /* Dated by the asking, not by the answer. */
    assert_int_equal(deadline_ns(rig), r.asked_boot_ns + 5 * SECOND_NS);
    r = ask(rig);
    move_clock(rig, SECOND_NS);
    assert_int_equal(plane_lease_grant(rig->plane, &r, 5000), 0);
    assert_int_equal(deadline_ns(rig), r.asked_boot_ns + 5 * SECOND_NS);
    assert_int_equal(plane_lease_grant(rig->plane, &r, 1000), 0); /* never back */
    assert_int_equal(deadline_ns(rig), r.asked_boot_ns + 5 * SECOND_NS);
    assert_int_equal(plane_lease_resume(rig->plane, &r, 6000), 0); /* not fenced: a grant */
    assert_int_equal(deadline_ns(rig), r.asked_boot_ns + 6 * SECOND_NS);
}

/* The version that the catalog has when it is opened is no leader's term. */
static void plane_lease__external_over_an_older_catalog__resumed(void **state)
{
    struct plane_rig *rig = *state;
    open_on_test_clock(rig, PLANE_LEASE_EXTERNAL);
    const char *const tables[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(rig_create_table(rig, tables[i]), 0);
    plane_rig_close(rig);
    open_on_test_clock(rig, PLANE_LEASE_EXTERNAL);
    struct plane_lease_request before = ask(rig);
    assert_int_equal(plane_lease_fence(rig->plane), 0); /* fenced already, and yet an epoch ends */
    assert_int_equal(plane_lease_resume(rig->plane, &before, 5000), -ESTALE);
    struct plane_lease_request r = ask(rig);
    assert_int_equal(plane_lease_resume(rig->plane, &r, 5000), 0);
    assert_true(rig_is_live(rig));
    assert_int_equal(rig_view(rig), view_make(2, 3));
    assert_int_equal(rig_create_table(rig, "d"), 0);
    assert_int_equal(plane_lease_grant(rig->plane, &r, 6000), 0);
}

static void plane_lease_grant__bad_requests__refused_and_nothing_moves(void **state)
{
    struct plane_rig *rig = *state;
    open_on_test_clock(rig, PLANE_LEASE_EXTERNAL);
    struct plane_lease_request good = ask(rig), r;
    assert_int_equal(plane_lease_resume(rig->plane, &good, 5000), 0);
    int64_t deadline = deadline_ns(rig);
    for (int resume = 0; resume < 2; resume++) {
        int (*call)(struct plane *, const struct plane_lease_request *, int64_t) =
            resume ? plane_lease_resume : plane_lease_grant;
        assert_int_equal(call(rig->plane, &good, 0), -EINVAL);
        assert_int_equal(call(rig->plane, &good, -1), -EINVAL);
        assert_int_equal(call(rig->plane, &good, INT64_MAX), -EINVAL);
        assert_int_equal(call(rig->plane, &good, INT64_MAX / 1000000), -EINVAL);
        r = good;
        r.asked_boot_ns += 1; /* later than the clock */
        assert_int_equal(call(rig->plane, &r, 9000), -EINVAL);
        r = good;
        r.boot++;
        assert_int_equal(call(rig->plane, &r, 9000), -EINVAL);
        r = good;
        r.view = view_make(view_epoch(good.view) + 1, 0);
        assert_int_equal(call(rig->plane, &r, 9000), -EINVAL);
        r = good;
        r.view = view_make(0, 0);
        assert_int_equal(call(rig->plane, &r, 9000), -ESTALE);
    }
    assert_int_equal(deadline_ns(rig), deadline);
    assert_int_equal(view_epoch(rig_view(rig)), 1);
}

static void plane_lease__external_lapses__fenced_in_time_and_older_requests_stale(void **state)
{
    struct plane_rig *rig = *state;
    open_on_test_clock(rig, PLANE_LEASE_EXTERNAL);
    struct plane_lease_request old = ask(rig);
    assert_int_equal(plane_lease_resume(rig->plane, &old, 5000), 0);
    move_clock(rig, 5 * SECOND_NS);
    assert_false(rig_is_live(rig));
    RIG_AWAIT(view_epoch(rig_view(rig)) == 2); /* by its own timer */
    assert_int_equal(plane_lease_grant(rig->plane, &old, 60000), -ESTALE);
    assert_int_equal(plane_lease_resume(rig->plane, &old, 60000), -ESTALE);
    struct plane_lease_request new = ask(rig);
    move_clock(rig, 6 * SECOND_NS);
    assert_int_equal(plane_lease_resume(rig->plane, &new, 5000), -RFE_LEASE_FENCED); /* over */
    assert_int_equal(plane_lease_resume(rig->plane, &new, 60000), 0);
    assert_true(rig_is_live(rig));
    assert_int_equal(fences(rig), 1);
}

static void plane_lease__another_life__its_requests_refused(void **state)
{
    struct plane_rig *rig = *state;
    open_on_test_clock(rig, PLANE_LEASE_EXTERNAL);
    struct plane_lease_request old = ask(rig);
    plane_rig_close(rig);
    plane_rig_open(rig);
    assert_int_equal(plane_lease_resume(rig->plane, &old, 5000), -EINVAL);
    assert_int_not_equal(ask(rig).boot, old.boot);
}

static void plane_lease_resume__fence_not_closed__waits(void **state)
{
    struct plane_rig *rig = *state;
    struct caller f, c;
    open_on_test_clock(rig, PLANE_LEASE_EXTERNAL);
    struct plane_lease_request r = ask(rig);
    assert_int_equal(plane_lease_resume(rig->plane, &r, 60000), 0);
    atomic_store(&rig->open_views, true);
    begin(&f, rig, CALL_FENCE);
    RIG_AWAIT(view_epoch(rig_view(rig)) == 2);
    assert_false(rig_is_live(rig));
    c = (struct caller){.rig = rig, .call = CALL_RESUME, .request = ask(rig)};
    assert_int_equal(thread_start(&c.thread, "caller", make_call, &c), 0);
    rig_sleep_ms(30);
    assert_false(atomic_load(&f.returned));
    assert_false(atomic_load(&c.returned));
    assert_false(rig_is_live(rig));
    atomic_store(&rig->open_views, false);
    assert_int_equal(end(&f), 0);
    assert_int_equal(end(&c), 0);
    assert_true(rig_is_live(rig));
    assert_int_equal(view_epoch(rig_view(rig)), 2);
}

static void plane_change__external_and_live__view_moves_on(void **state)
{
    struct plane_rig *rig = *state;
    open_on_test_clock(rig, PLANE_LEASE_EXTERNAL);
    struct plane_lease_request r = ask(rig);
    assert_int_equal(plane_lease_resume(rig->plane, &r, 5000), 0);
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_int_equal(rig_add_column_of(rig, "t", "a", SCHEMA_INT32, SCHEMA_FIELD, true), 0);
    assert_int_equal(rig_view(rig), view_make(1, 2));
    assert_true(rig_is_live(rig));
    /* A change of our own between asking and answering makes no difference. */
    assert_int_equal(plane_lease_grant(rig->plane, &r, 7000), 0);
    assert_int_equal(deadline_ns(rig), r.asked_boot_ns + 7 * SECOND_NS);
}

/* ---- at rest ---- */

static void plane_thread__nothing_to_do__wakes_once_a_heartbeat(void **state)
{
    struct plane_rig *rig = *state;
    plane_rig_open(rig);
    assert_int_equal(rig_create_table(rig, "t"), 0);
    rig_sleep_ms(200);
    struct plane_stats before, after;
    int64_t begin_ns = clock_read_ns(CLOCK_MONOTONIC);
    plane_get_stats(rig->plane, &before);
    rig_sleep_ms(2500);
    plane_get_stats(rig->plane, &after);
    uint64_t heartbeats = (uint64_t)((clock_read_ns(CLOCK_MONOTONIC) - begin_ns) / SECOND_NS) + 1;
    assert_true(after.turns - before.turns >= 2);
    /* A sleep may end a little early, and the turn that is due follows. */
    assert_true(after.turns - before.turns <= 2 * heartbeats + 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(plane_open__embedded__live_in_epoch_one),
        TEST(plane_change__older_view_in_use__published_and_not_answered),
        TEST(plane_change__if_missing__answered_without_closing),
        TEST(plane_change__drop_table__marker_is_closed_before_the_tombstone),
        TEST(plane_lease__time_passes__renewed_by_the_thread),
        TEST(plane_hold__longer_than_the_lease__writers_fenced_then_the_next_epoch),
        TEST(plane_hold__change_waits__answered_unknown_then_done),
        TEST(plane_change__fenced__automatic_refused_named_done),
        TEST(plane_lease_fence__embedded__back_by_itself_in_the_next_epoch),
        TEST(plane_lease_fence__views_stay_open__unknown),
        TEST(plane_close__callers_still_wait__closing_or_unknown),
        TEST(plane_open__off__live_for_ever),
        TEST(plane_lease__external__fenced_until_resumed_then_granted),
        TEST(plane_lease__external_over_an_older_catalog__resumed),
        TEST(plane_lease_grant__bad_requests__refused_and_nothing_moves),
        TEST(plane_lease__external_lapses__fenced_in_time_and_older_requests_stale),
        TEST(plane_lease__another_life__its_requests_refused),
        TEST(plane_lease_resume__fence_not_closed__waits),
        TEST(plane_change__external_and_live__view_moves_on),
        TEST(plane_thread__nothing_to_do__wakes_once_a_heartbeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
