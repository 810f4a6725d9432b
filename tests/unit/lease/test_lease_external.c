/* A lease that the host feeds: asking, granting, fencing, resuming, and each refusal. */
#include "lease_rig.h"

#include "base/errors.h"
#include "lease/external.h"

#include <errno.h>

static struct lease_request ask_at(struct rig *r, int64_t now_ns)
{
    struct lease_request q;
    rig_time(r, now_ns);
    assert_int_equal(lease_external_ask(&r->h, now_ns, &q), 0);
    return q;
}
static int grant(struct rig *r, const struct lease_request *q, int64_t ttl_ms)
{
    struct lease_actions acts;
    int rc = lease_external_grant(&r->h, q, ttl_ms, rig_now(r), &acts);
    rig_do(r, &acts);
    return rc;
}
static int resume(struct rig *r, uint64_t version, const struct lease_request *q, int64_t ttl_ms)
{
    struct lease_actions acts;
    int rc = lease_external_resume(&r->h, version, q, ttl_ms, rig_now(r), &acts);
    rig_do(r, &acts);
    return rc;
}
static void change(struct rig *r, uint64_t version)
{
    struct lease_actions acts;
    lease_external_change(&r->h, version, rig_now(r), &acts);
    rig_do(r, &acts);
}
/* Boot 9 at version 4, resumed at 100 s with 10 s. */
static void begin(struct rig *r)
{
    rig_init(r, 100 * SECOND);
    rig_register(r, 9, 4);
    struct lease_request q = ask_at(r, 100 * SECOND);
    assert_int_equal(resume(r, 4, &q, 10000), 0);
    assert_int_equal(r->h.state, HOLDER_NORMAL);
}

static void lease_external__begins__fenced_until_resumed(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 100 * SECOND);
    struct lease_request q;
    assert_int_equal(lease_external_ask(&r.h, 100 * SECOND, &q), -EAGAIN);
    q = (struct lease_request){.asked_ns = 1}; /* boot 0, as this holder has it until then */
    assert_int_equal(grant(&r, &q, 10000), -EINVAL);
    assert_int_equal(resume(&r, 4, &q, 10000), -EINVAL);
    rig_register(&r, 9, 4);
    q = ask_at(&r, 100 * SECOND);
    assert_int_equal(q.boot, 9);
    assert_int_equal(q.asked_ns, 100 * SECOND);
    assert_int_equal(grant(&r, &q, 10000), -RFE_LEASE_FENCED);
    assert_false(rig_live(&r));
    assert_int_equal(resume(&r, 4, &q, 10000), 0);
    assert_true(rig_live(&r));
    assert_int_equal(rig_deadline(&r), 110 * SECOND);
    assert_int_equal(rig_view(&r), view_make(1, 4));
}

static void lease_external__grant__from_the_asking_and_only_extends(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    struct lease_request first = ask_at(&r, 103 * SECOND), second = ask_at(&r, 104 * SECOND);
    rig_time(&r, 109 * SECOND);
    assert_int_equal(grant(&r, &second, 10000), 0);
    assert_int_equal(rig_deadline(&r), 114 * SECOND); /* not 119: nothing counts from now */
    assert_int_equal(grant(&r, &first, 10000), 0);
    assert_int_equal(rig_deadline(&r), 114 * SECOND);
    assert_int_equal(grant(&r, &second, 1), 0);
    assert_int_equal(rig_deadline(&r), 114 * SECOND);
    assert_int_equal(resume(&r, 4, &second, 11000), 0); /* nothing to resume: a grant */
    assert_int_equal(rig_deadline(&r), 115 * SECOND);
}

static void expect_refused(struct rig *r, const struct lease_request *q, int64_t ttl_ms, int rc)
{
    struct holder before = r->h;
    assert_int_equal(grant(r, q, ttl_ms), rc);
    assert_int_equal(resume(r, 4, q, ttl_ms), rc);
    assert_memory_equal(&before, &r->h, sizeof(before));
}

static void lease_external__refusals__leave_no_trace(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    const struct lease_request ok = ask_at(&r, 103 * SECOND);
    struct lease_request q = ok;
    expect_refused(&r, &ok, 0, -EINVAL);
    expect_refused(&r, &ok, -1, -EINVAL);
    expect_refused(&r, &ok, INT64_MAX, -EINVAL);
    expect_refused(&r, &ok, (INT64_MAX - 1 - ok.asked_ns) / MS + 1, -EINVAL);
    q.asked_ns++;
    expect_refused(&r, &q, 1000, -EINVAL); /* the future */
    q.asked_ns = -1;
    expect_refused(&r, &q, 1000, -EINVAL);
    q = ok, q.boot = 8;
    expect_refused(&r, &q, 1000, -EINVAL);
    q = ok, q.view = view_make(1, 5);
    expect_refused(&r, &q, 1000, -EINVAL); /* a view that never was */
    q = ok, q.view = view_make(0, 4);
    expect_refused(&r, &q, 1000, -ESTALE);
    assert_int_equal(grant(&r, &ok, (INT64_MAX - 1 - ok.asked_ns) / MS), 0); /* the longest */
    assert_true(rig_deadline(&r) > INT64_MAX - 2 * MS && rig_deadline(&r) < LEASE_OFF);
}

static void lease_external__asked_before_a_fence__of_no_use_after_it(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    struct lease_request before = ask_at(&r, 103 * SECOND);
    rig_simple(&r, HOLDER_FENCE);
    assert_false(rig_live(&r));
    assert_true(r.h.closed);
    assert_int_equal(grant(&r, &before, 10000), -ESTALE);
    assert_int_equal(resume(&r, 4, &before, 10000), -ESTALE);
    struct lease_request between = ask_at(&r, 104 * SECOND);
    rig_simple(&r, HOLDER_FENCE); /* again: what was asked in between is stale as well */
    assert_int_equal(resume(&r, 4, &between, 10000), -ESTALE);
    struct lease_request after = ask_at(&r, 105 * SECOND);
    assert_int_equal(grant(&r, &after, 10000), -RFE_LEASE_FENCED);
    assert_int_equal(resume(&r, 4, &after, 10000), 0);
    assert_int_equal(rig_deadline(&r), 115 * SECOND);
    assert_int_equal(view_epoch(rig_view(&r)), 3);
}

static void lease_external__lapse__noticed_by_the_grant_itself(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    struct lease_request q = ask_at(&r, 109 * SECOND);
    rig_time(&r, 110 * SECOND);
    assert_int_equal(grant(&r, &q, 10000), -ESTALE); /* the epoch ended with the lease */
    assert_int_equal(r.h.state, HOLDER_FENCED);
    assert_int_equal(rig_deadline(&r), LEASE_FENCED);
    assert_int_equal(rig_view(&r), view_make(2, 4));
}

static void lease_external__resume__needs_closing_caches_and_time(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    r.closes = r.empties = r.applies = false;
    rig_simple(&r, HOLDER_FENCE);
    struct lease_request q = ask_at(&r, 104 * SECOND);
    assert_int_equal(resume(&r, 4, &q, 10000), -EAGAIN);
    rig_closed(&r);
    assert_int_equal(resume(&r, 4, &q, 10000), -EAGAIN);
    rig_feed(&r, &(struct holder_event){.type = HOLDER_EMPTIED, .ok = true});
    rig_time(&r, 114 * SECOND);
    assert_int_equal(resume(&r, 4, &q, 10000), -RFE_LEASE_FENCED); /* over already */
    q = ask_at(&r, 114 * SECOND);
    assert_int_equal(resume(&r, 4, &q, 10000), 0);
    assert_int_equal(resume(&r, 4, &q, 10000), -EAGAIN); /* under way */
    assert_false(rig_live(&r));
    rig_applied(&r, true);
    assert_true(rig_live(&r));
    rig_simple(&r, HOLDER_STOP);
    rig_closed(&r);
    rig_feed(&r, &(struct holder_event){.type = HOLDER_EMPTIED, .ok = true});
    q = ask_at(&r, 115 * SECOND);
    assert_int_equal(resume(&r, 4, &q, 10000), -RFE_LEASE_FENCED); /* it stops */
}

/* The epochs are used up: a next fence could not be told from this one. */
static void lease_external__resume_in_the_last_epoch__stays_fenced(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    r.h.epoch = VIEW_EPOCH_MAX - 1;
    rig_simple(&r, HOLDER_FENCE);
    assert_int_equal(r.h.epoch, VIEW_EPOCH_MAX);
    struct lease_request q = ask_at(&r, 104 * SECOND);
    assert_int_equal(resume(&r, 4, &q, 10000), -RFE_LEASE_FENCED);
    assert_false(rig_live(&r));
}

static void lease_external__own_change__does_not_make_a_request_stale(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    struct lease_request q = ask_at(&r, 103 * SECOND);
    change(&r, 5);
    assert_int_equal(rig_view(&r), view_make(1, 5));
    assert_true(holder_has_promised(&r.h, 5));
    assert_int_equal(rig_deadline(&r), 110 * SECOND); /* a change is no grant */
    assert_int_equal(grant(&r, &q, 10000), 0);
    assert_int_equal(rig_deadline(&r), 113 * SECOND);
    /* A change that is not closed holds the extension up, and closing lets it in. */
    r.closes = false;
    change(&r, 6);
    q = ask_at(&r, 105 * SECOND);
    assert_int_equal(grant(&r, &q, 10000), 0);
    assert_int_equal(rig_deadline(&r), 113 * SECOND);
    rig_closed(&r);
    assert_int_equal(rig_deadline(&r), 115 * SECOND);
}

static void lease_external__change_while_fenced__comes_with_the_resume(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    rig_simple(&r, HOLDER_FENCE);
    change(&r, 5);
    assert_false(rig_live(&r));
    assert_true(holder_has_promised(&r.h, 5)); /* nothing is decided below it any more */
    struct lease_request q = ask_at(&r, 104 * SECOND);
    assert_int_equal(resume(&r, 5, &q, 10000), 0);
    assert_int_equal(rig_view(&r), view_make(2, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lease_external__begins__fenced_until_resumed),
        cmocka_unit_test(lease_external__grant__from_the_asking_and_only_extends),
        cmocka_unit_test(lease_external__refusals__leave_no_trace),
        cmocka_unit_test(lease_external__asked_before_a_fence__of_no_use_after_it),
        cmocka_unit_test(lease_external__lapse__noticed_by_the_grant_itself),
        cmocka_unit_test(lease_external__resume__needs_closing_caches_and_time),
        cmocka_unit_test(lease_external__resume_in_the_last_epoch__stays_fenced),
        cmocka_unit_test(lease_external__own_change__does_not_make_a_request_stale),
        cmocka_unit_test(lease_external__change_while_fenced__comes_with_the_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
