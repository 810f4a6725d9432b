/* The two words and the check.
 * ctest: concurrent */
#include "lease_rig.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void lease_view__parts__come_back(void **state)
{
    (void)state;
    uint64_t v = view_make(VIEW_EPOCH_MAX, VIEW_VERSION_MAX);
    assert_int_equal(v, UINT64_MAX);
    assert_int_equal(view_epoch(v), 0xffffff);
    assert_int_equal(view_version(v), ((uint64_t)1 << 40) - 1);
    v = view_make(7, 9);
    assert_int_equal(view_epoch(v), 7);
    assert_int_equal(view_version(v), 9);
    assert_true(view_make(8, 0) > view_make(7, VIEW_VERSION_MAX));
}

/* A number that wrapped would make an old view look new: the process stops instead. */
static void expect_abort(uint32_t epoch, uint64_t version)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL) _exit(2);
        volatile uint64_t v = view_make(epoch, version);
        (void)v;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) > 2));
}
static void lease_view__out_of_range__stops_the_process(void **state)
{
    (void)state;
    expect_abort(VIEW_EPOCH_MAX + 1, 0);
    expect_abort(0, VIEW_VERSION_MAX + 1);
}

static void lease_view__check__epoch_and_deadline(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 100);
    lease_publish_view(&r.words, view_make(3, 5));
    lease_publish_deadline(&r.words, 200);
    uint64_t token = view_make(3, 4);
    assert_true(lease_check(&r.words, &r.clock, token)); /* another version goes on */
    assert_false(lease_check(&r.words, &r.clock, view_make(2, 5)));
    assert_false(lease_check(&r.words, &r.clock, view_make(4, 5)));
    rig_time(&r, 199);
    assert_true(lease_check(&r.words, &r.clock, token));
    assert_true(rig_live(&r));
    rig_time(&r, 200); /* at the deadline it is over */
    assert_false(lease_check(&r.words, &r.clock, token));
    assert_false(rig_live(&r));
    lease_publish_deadline(&r.words, LEASE_FENCED);
    rig_time(&r, 0);
    assert_false(lease_check(&r.words, &r.clock, token));
    struct lease_look look = lease_look(&r.words, &r.clock);
    assert_false(look.live);
    assert_int_equal(look.view, view_make(3, 5));
}

static void lease_view__off__reads_no_clock(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, 0);
    lease_publish_deadline(&r.words, LEASE_OFF);
    /* A clock that would crash if it were read: its values lie at address 8, which the compiler
     * may not know, since it refuses code that would read there. */
    volatile uintptr_t nowhere = 8;
    struct clock none = {.test_ns = (_Atomic int64_t *)nowhere};
    assert_true(lease_check(&r.words, &none, view_make(1, 0)));
    assert_false(lease_check(&r.words, &none, view_make(2, 0)));
    assert_true(lease_look(&r.words, &none).live);
}

static void lease_view__words__fill_one_line(void **state)
{
    (void)state;
    struct lease_words two[2];
    assert_int_equal((uintptr_t)&two[0] % RF_CACHE_LINE, 0);
    assert_int_equal((uintptr_t)&two[1] - (uintptr_t)&two[0], RF_CACHE_LINE);
}

/* Every interleaving of a check and a fence is in test_lease_interleave.c; this is the same with
 * real threads, for ThreadSanitizer and for the machine's own orders.
 *
 * A plane that lapses, fences and comes back as fast as it can, and two threads that check. Epoch e
 * begins when the clock shows 10 e and ends at 10 e + 5. Who joined the view of one epoch to the
 * deadline of another would show it here: a live look names no epoch that has not begun, and what
 * is checked under a token whose time was over before the check began is refused. */
struct storm {
    struct lease_words words;
    _Atomic int64_t time_ns[3];
    struct clock clock;
    _Atomic uint32_t begun; /* the newest epoch that is NORMAL, stored before its deadline */
    _Atomic bool stop;
};
static void *storm_check(void *arg)
{
    struct storm *s = arg;
    uintptr_t wrong = 0;
    while (!atomic_load(&s->stop)) {
        struct lease_look look = lease_look(&s->words, &s->clock);
        if (look.live && view_epoch(look.view) > atomic_load(&s->begun)) wrong++;
        uint32_t epoch = atomic_load(&s->begun);
        bool over = clock_boot_ns(&s->clock) >= 10 * (int64_t)epoch + 5;
        if (lease_check(&s->words, &s->clock, view_make(epoch, 0)) && over) wrong++;
    }
    return (void *)wrong;
}
static void lease_view__fences_beside_checks__never_joins_two_epochs(void **state)
{
    (void)state;
    struct storm *s = test_calloc(1, sizeof(*s) + 64);
    struct storm *aligned = (struct storm *)(((uintptr_t)s + 63) & ~(uintptr_t)63);
    aligned->clock.test_ns = aligned->time_ns;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, storm_check, aligned), 0);
    for (uint32_t e = 1; e < 50000; e++) {
        atomic_store(&aligned->time_ns[0], 10 * (int64_t)e - 3);
        lease_publish_deadline(&aligned->words, LEASE_FENCED);
        lease_publish_view(&aligned->words, view_make(e, 0));
        atomic_store(&aligned->begun, e);
        atomic_store(&aligned->time_ns[0], 10 * (int64_t)e);
        lease_publish_deadline(&aligned->words, 10 * (int64_t)e + 5);
    }
    atomic_store(&aligned->stop, true);
    for (int i = 0; i < 2; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_int_equal((uintptr_t)wrong, 0);
    }
    test_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lease_view__parts__come_back),
        cmocka_unit_test(lease_view__out_of_range__stops_the_process),
        cmocka_unit_test(lease_view__check__epoch_and_deadline),
        cmocka_unit_test(lease_view__off__reads_no_clock),
        cmocka_unit_test(lease_view__words__fill_one_line),
        cmocka_unit_test(lease_view__fences_beside_checks__never_joins_two_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
