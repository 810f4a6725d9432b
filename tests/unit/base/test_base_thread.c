/* ctest: concurrent */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fence.h"
#include "base/lock.h"
#include "base/thread.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- threads ---- */

struct facts {
    char name[32];
    sigset_t mask;
    size_t stack_bytes;
};

static void *look_around(void *arg)
{
    struct facts *facts = arg;
    pthread_getname_np(pthread_self(), facts->name, sizeof facts->name);
    pthread_sigmask(SIG_SETMASK, NULL, &facts->mask);
    pthread_attr_t attr;
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        pthread_attr_getstacksize(&attr, &facts->stack_bytes);
        pthread_attr_destroy(&attr);
    }
    return arg;
}

static void thread_start__any_thread__named_and_deaf_to_signals(void **state)
{
    (void)state;
    struct facts facts = {0};
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    int64_t in_use = alloc_bytes_in_use();
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "rf-fifteen-byte", look_around, &facts), 0);
    thread_join(thread);
    assert_string_equal(facts.name, "rf-fifteen-byte");
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPROF, SIGCHLD, SIGPIPE};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        assert_int_equal(sigismember(&facts.mask, signals[i]), 1);
        /* TSan makes every stack larger; otherwise the size is the one that the header names. */
#if defined(__SANITIZE_THREAD__)
    assert_true(facts.stack_bytes >= 256 << 10);
#else
    assert_int_equal(facts.stack_bytes, 256 << 10);
#endif
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int sig = 1; sig < 32; sig++)
        assert_int_equal(sigismember(&before, sig), sigismember(&after, sig));
    assert_int_equal(alloc_bytes_in_use(), in_use);
}

static void thread_start__no_memory__enomem_and_output_untouched(void **state)
{
    (void)state;
    pthread_t thread = pthread_self();
    alloc_fail_at(1);
    assert_int_equal(thread_start(&thread, "none", look_around, NULL), -ENOMEM);
    assert_true(pthread_equal(thread, pthread_self()));
}

/* In a child, as a user without the right to pass the limit. */
static void thread_start__no_threads_left__eagain(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit none = {0, 0};
        pthread_t thread;
        struct facts facts;
        int64_t in_use = alloc_bytes_in_use();
        if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(2);
        if (geteuid() == 0 && setuid(65534) != 0) _exit(3);
        if (thread_start(&thread, "none", look_around, &facts) != -EAGAIN) _exit(4);
        _exit(alloc_bytes_in_use() == in_use ? 0 : 5);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- futex ---- */

static void futex_wait__word_differs__zero_at_once(void **state)
{
    (void)state;
    _Atomic uint32_t word = 5;
    assert_int_equal(futex_wait(&word, 4, -1), 0);
}

static void futex_wait__nobody_wakes__etimedout_not_before(void **state)
{
    (void)state;
    _Atomic uint32_t word = 5;
    int64_t begin = clock_read_ns(CLOCK_MONOTONIC);
    int rc;
    do {
        rc = futex_wait(&word, 5, 20000000);
    } while (rc == 0);
    assert_int_equal(rc, -ETIMEDOUT);
    assert_true(clock_read_ns(CLOCK_MONOTONIC) - begin >= 20000000);
    assert_int_equal(futex_wait(&word, 5, 0), -ETIMEDOUT);
}

struct gate {
    _Atomic uint32_t open;
    _Atomic uint32_t through;
};

static void *pass(void *arg)
{
    struct gate *gate = arg;
    while (atomic_load(&gate->open) == 0)
        if (futex_wait(&gate->open, 0, -1) != 0) return NULL;
    atomic_fetch_add(&gate->through, 1);
    return arg;
}

static void futex_wake_all__four_sleepers__all_go_on(void **state)
{
    (void)state;
    struct gate gate = {0};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(thread_start(&threads[i], "sleeper", pass, &gate), 0);
    atomic_store(&gate.open, 1);
    futex_wake_all(&gate.open);
    for (int i = 0; i < 4; i++)
        thread_join(threads[i]);
    assert_int_equal(atomic_load(&gate.through), 4);
}

struct ball {
    _Atomic uint32_t turn;
};

static void *play_odd(void *arg)
{
    struct ball *ball = arg;
    for (uint32_t i = 1; i < 200; i += 2) {
        uint32_t turn;
        while ((turn = atomic_load(&ball->turn)) != i)
            (void)futex_wait(&ball->turn, turn, -1);
        atomic_store(&ball->turn, i + 1);
        futex_wake_one(&ball->turn);
    }
    return arg;
}

static void futex_wake_one__two_threads_in_turn__no_wake_is_lost(void **state)
{
    (void)state;
    struct ball ball = {0};
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "odd", play_odd, &ball), 0);
    for (uint32_t i = 0; i < 200; i += 2) {
        uint32_t turn;
        while ((turn = atomic_load(&ball.turn)) != i)
            assert_int_equal(futex_wait(&ball.turn, turn, 30000000000), 0);
        atomic_store(&ball.turn, i + 1);
        futex_wake_one(&ball.turn);
    }
    thread_join(thread);
    assert_int_equal(atomic_load(&ball.turn), 200);
}

/* ---- locks ---- */

enum { ROUNDS = 20000 };
struct shared {
    struct lock lock;
    struct spin spin;
    long by_lock;
    long by_spin;
};

static void *count_up(void *arg)
{
    struct shared *shared = arg;
    for (int i = 0; i < ROUNDS; i++) {
        lock_acquire(&shared->lock);
        shared->by_lock++;
        lock_release(&shared->lock);
        spin_acquire(&shared->spin);
        shared->by_spin++;
        spin_release(&shared->spin);
    }
    return arg;
}

static void lock_and_spin__three_threads__no_count_is_lost(void **state)
{
    (void)state;
    struct shared shared = {0};
    lock_init(&shared.lock, LOCK_RANK_ENGINE);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(thread_start(&threads[i], "counter", count_up, &shared), 0);
    for (int i = 0; i < 3; i++)
        thread_join(threads[i]);
    assert_int_equal(shared.by_lock, 3 * ROUNDS);
    assert_int_equal(shared.by_spin, 3 * ROUNDS);
    lock_deinit(&shared.lock);
}

static void lock_acquire__rising_ranks_any_release_order__allowed(void **state)
{
    (void)state;
    struct lock a, b, c;
    lock_init(&a, LOCK_RANK_API);
    lock_init(&b, LOCK_RANK_WAL);
    lock_init(&c, LOCK_RANK_LOG);
    lock_acquire(&a);
    lock_acquire(&b);
    lock_release(&a);
    lock_acquire(&c);
    lock_release(&b);
    lock_release(&c);
    lock_acquire(&a);
    lock_release(&a);
    lock_deinit(&a);
    lock_deinit(&b);
    lock_deinit(&c);
}

#ifndef NDEBUG
static void wrong_order(void)
{
    struct lock low, high;
    lock_init(&low, LOCK_RANK_API);
    lock_init(&high, LOCK_RANK_IO);
    lock_acquire(&high);
    lock_acquire(&low);
}

static void same_rank_twice(void)
{
    struct lock a, b;
    lock_init(&a, LOCK_RANK_IO);
    lock_init(&b, LOCK_RANK_IO);
    lock_acquire(&a);
    lock_acquire(&b);
}

static void release_what_is_not_held(void)
{
    struct lock a;
    lock_init(&a, LOCK_RANK_IO);
    lock_release(&a);
}

static void dcheck_false(void)
{
    DCHECK(1 > 2);
}
#endif

static void check_false(void)
{
    CHECK(1 > 2);
}

/* The child's message goes to a pipe, so that the test's own output stays clean. */
static void assert_aborts(void (*body)(void), const char *message)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        signal(SIGABRT, SIG_DFL);
        if (setrlimit(RLIMIT_CORE, &no_core) == 0 && dup2(pipes[1], STDERR_FILENO) >= 0) body();
        _exit(0);
    }
    close(pipes[1]);
    char text[1024] = "";
    ssize_t n = read(pipes[0], text, sizeof text - 1);
    close(pipes[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_true(n > 0);
    assert_non_null(strstr(text, message));
}

static void check__false__aborts_and_names_the_place(void **state)
{
    (void)state;
    assert_aborts(check_false, "broken invariant: 1 > 2");
    assert_aborts(check_false, "test_base_thread.c:");
    CHECK(2 > 1);
    int evaluated = 0;
    DCHECK(++evaluated > 0);
#ifdef NDEBUG
    assert_int_equal(evaluated, 0);
#else
    assert_int_equal(evaluated, 1);
    assert_aborts(dcheck_false, "broken invariant: 1 > 2");
#endif
}

static void lock_acquire__falling_rank_in_debug__aborts(void **state)
{
    (void)state;
#ifdef NDEBUG
    print_message("ranks are checked in debug builds only\n");
    skip();
#else
    assert_aborts(wrong_order, "held");
    assert_aborts(same_rank_twice, "held");
    assert_aborts(release_what_is_not_held, "i > 0");
#endif
}

/* ---- fences and clocks ---- */

struct dekker {
    _Atomic uint32_t want[2];
    _Atomic uint32_t round;
    _Atomic uint32_t done;
    bool saw_none[2];
};

/* Store, fence, load: with the fence at most one of the two sides can miss the other's store. */
static bool other_is_absent(struct dekker *d, int me)
{
    atomic_store_explicit(&d->want[me], 1, memory_order_relaxed);
    fence_full();
    return atomic_load_explicit(&d->want[1 - me], memory_order_relaxed) == 0;
}

enum { DEKKER_ROUNDS = 20000 };
static void *second_side(void *arg)
{
    struct dekker *d = arg;
    for (uint32_t round = 1; round <= DEKKER_ROUNDS; round++) {
        for (unsigned look = 0; atomic_load(&d->round) != round; look++)
            look % 256 == 255 ? (void)sched_yield() : cpu_relax();
        d->saw_none[1] = other_is_absent(d, 1);
        atomic_store(&d->done, round);
    }
    return arg;
}

static void fence_full__store_then_load_on_both_sides__one_sees_the_other(void **state)
{
    (void)state;
    struct dekker d = {0};
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "second", second_side, &d), 0);
    for (uint32_t round = 1; round <= DEKKER_ROUNDS; round++) {
        atomic_store(&d.want[0], 0);
        atomic_store(&d.want[1], 0);
        atomic_store(&d.round, round);
        d.saw_none[0] = other_is_absent(&d, 0);
        for (unsigned look = 0; atomic_load(&d.done) != round; look++)
            look % 256 == 255 ? (void)sched_yield() : cpu_relax();
        if (d.saw_none[0] && d.saw_none[1]) fail_msg("both sides missed in round %u", round);
    }
    thread_join(thread);
}

static void clock__test_values__only_they_are_read(void **state)
{
    (void)state;
    _Atomic int64_t values[3] = {11, 22, 33};
    struct clock clock = {.test_ns = values};
    assert_int_equal(clock_boot_ns(&clock), 11);
    assert_int_equal(clock_mono_ns(&clock), 22);
    assert_int_equal(clock_wall_ns(&clock), 33);
    atomic_store(&values[0], 12);
    assert_int_equal(clock_boot_ns(&clock), 12);
}

static void clock__no_test_values__the_systems_clocks(void **state)
{
    (void)state;
    struct clock clock = {0};
    int64_t boot = clock_read_ns(CLOCK_BOOTTIME);
    assert_true(clock_boot_ns(&clock) >= boot);
    int64_t mono = clock_read_ns(CLOCK_MONOTONIC);
    assert_in_range(clock_mono_ns(&clock), mono, mono + 60000000000);
    int64_t wall = clock_read_ns(CLOCK_REALTIME);
    assert_in_range(clock_wall_ns(&clock), wall - 60000000000, wall + 60000000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_start__any_thread__named_and_deaf_to_signals),
        cmocka_unit_test(thread_start__no_memory__enomem_and_output_untouched),
        cmocka_unit_test(thread_start__no_threads_left__eagain),
        cmocka_unit_test(futex_wait__word_differs__zero_at_once),
        cmocka_unit_test(futex_wait__nobody_wakes__etimedout_not_before),
        cmocka_unit_test(futex_wake_all__four_sleepers__all_go_on),
        cmocka_unit_test(futex_wake_one__two_threads_in_turn__no_wake_is_lost),
        cmocka_unit_test(lock_and_spin__three_threads__no_count_is_lost),
        cmocka_unit_test(lock_acquire__rising_ranks_any_release_order__allowed),
        cmocka_unit_test(check__false__aborts_and_names_the_place),
        cmocka_unit_test(lock_acquire__falling_rank_in_debug__aborts),
        cmocka_unit_test(fence_full__store_then_load_on_both_sides__one_sees_the_other),
        cmocka_unit_test(clock__test_values__only_they_are_read),
        cmocka_unit_test(clock__no_test_values__the_systems_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
