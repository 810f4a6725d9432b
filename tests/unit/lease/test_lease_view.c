/* The two words and the check.
 * ctest: concurrent */
#include "lease_rig.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
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

/* L3 on the machine's own orders. In each round the plane publishes a view and looks at the decider's
 * slot, while the decider takes the slot and looks at the view: never does each miss the other. On
 * x86 the fence behind the store is all that keeps the plane's look from coming first. */
#define DUEL_ROUNDS  300000u
#define DUEL_TIME_NS INT64_C(2000000000)

struct duel {
    struct lease_words words;
    _Alignas(RF_CACHE_LINE) _Atomic uint64_t slot; /* odd: taken */
    _Alignas(RF_CACHE_LINE) _Atomic uint64_t arrived;
    _Atomic bool over;
    uint64_t view_seen;
};

/* Who is told first by how much is the machine's; so each waits a little longer or less in turn. */
static void duel_hesitate(uint64_t steps)
{
    for (uint64_t i = 0; i < steps; i++)
        atomic_signal_fence(memory_order_seq_cst);
}

/* Returns when both are there, with nothing of an earlier round under way. */
static void duel_meet(struct duel *d, uint64_t both)
{
    atomic_fetch_add(&d->arrived, 1);
    for (uint32_t spins = 1; atomic_load(&d->arrived) < both; spins++)
        if (spins % 4096 == 0) sched_yield();
}

static void *duel_decide(void *arg)
{
    struct duel *d = arg;
    for (uint64_t round = 1;; round++) {
        duel_meet(d, 4 * round - 2);
        if (atomic_load(&d->over)) return NULL;
        uint64_t slot = 2 * round - 2;
        duel_hesitate(round / 64 % 64);
        CHECK(atomic_compare_exchange_strong(&d->slot, &slot, slot + 1));
        d->view_seen = atomic_load_explicit(&d->words.view, memory_order_acquire);
        duel_meet(d, 4 * round);
    }
}

static void lease_view__published_beside_a_decider__one_sees_the_other(void **state)
{
    (void)state;
    struct duel *d = mem_alloc_aligned(RF_CACHE_LINE, sizeof *d);
    assert_non_null(d);
    memset(d, 0, sizeof *d);
    pthread_t decider;
    assert_int_equal(pthread_create(&decider, NULL, duel_decide, d), 0);
    int64_t until_ns = clock_read_ns(CLOCK_MONOTONIC) + DUEL_TIME_NS;
    uint64_t round = 1, missed = 0, met = 0;
    for (;; round++) {
        bool over = round > DUEL_ROUNDS || clock_read_ns(CLOCK_MONOTONIC) > until_ns;
        atomic_store(&d->over, over);
        duel_meet(d, 4 * round - 2);
        if (over) break;
        duel_hesitate(round % 64);
        lease_publish_view(&d->words, round);
        bool taken = (atomic_load(&d->slot) & 1) != 0;
        duel_meet(d, 4 * round);
        bool new_view = d->view_seen == round;
        missed += !taken && !new_view;
        met += taken && new_view; /* so they did run side by side */
        atomic_fetch_add(&d->slot, 1);
    }
    assert_int_equal(pthread_join(decider, NULL), 0);
    print_message("rounds=%" PRIu64 " side_by_side=%" PRIu64 "\n", round - 1, met);
    assert_int_equal(missed, 0);
    mem_free(d);
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
        cmocka_unit_test(lease_view__published_beside_a_decider__one_sees_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
