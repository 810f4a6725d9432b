/* Every interleaving of one check or look with the plane's stores around two fences.
 *
 * The loads of lease/view.h are taken over by a hook, which lets the plane do some of its stores
 * before each of them. So the order of the loads, and the second load of the deadline in lease_look,
 * are tested and not only argued: with any of them changed, a schedule is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void before_load(void);
static inline uint64_t load_view(const _Atomic uint64_t *p)
{
    before_load();
    return atomic_load(p);
}
static inline int64_t load_ns(const _Atomic int64_t *p)
{
    before_load();
    return atomic_load(p);
}
#undef atomic_load
#undef atomic_load_explicit
#define atomic_load_explicit(p, order) \
    _Generic((p),                             \
        const _Atomic uint64_t *: load_view,  \
        _Atomic uint64_t *: load_view,        \
        const _Atomic int64_t *: load_ns,     \
        _Atomic int64_t *: load_ns)(p)
#define atomic_load(p) atomic_load_explicit(p, memory_order_seq_cst)

#include "lease/view.h"

/* The plane, store by store. Epoch e begins when the clock shows 10 e and ends at 10 e + 5. */
#define CYCLE  5
#define CYCLES 2
#define STEPS  (CYCLE * CYCLES)
#define LOADS  4

static struct lease_words words;
static _Atomic int64_t time_ns[3];
static const struct clock test_clock = {.test_ns = time_ns};
static unsigned done;                /* stores of the plane so far */
static uint32_t begun;               /* the newest epoch that is NORMAL */
static int64_t now_ns, loaded_at_ns; /* the clock; as it was at the last load */
static unsigned plan[LOADS], loads;  /* how many stores before each load */

static void plane_step(void)
{
    uint32_t e = 2 + done / CYCLE;
    switch (done++ % CYCLE) {
    case 0: /* the first fence is one that the process was told to make, the second a lapse */
        if (e > 2) now_ns = 10 * (int64_t)e - 3;
        break;
    case 1: lease_publish_deadline(&words, LEASE_FENCED); break;
    case 2: lease_publish_view(&words, view_make(e, 0)); break;
    case 3: now_ns = 10 * (int64_t)e; break;
    case 4:
        begun = e;
        lease_publish_deadline(&words, 10 * (int64_t)e + 5);
        break;
    }
    atomic_store(&time_ns[0], now_ns);
}

static void before_load(void)
{
    while (loads < LOADS && done < plan[loads])
        plane_step();
    loads++;
    loaded_at_ns = now_ns;
}

static void reset(void)
{
    done = 0;
    loads = 0;
    begun = 1;
    now_ns = 10;
    atomic_store(&time_ns[0], now_ns);
    lease_publish_view(&words, view_make(1, 0));
    lease_publish_deadline(&words, 15);
}

/* The clock is the last load of both, so loaded_at_ns is what they judged by. */
static unsigned check_once(void)
{
    unsigned let_in = 0;
    for (uint32_t epoch = 1; epoch <= 3; epoch++) {
        reset();
        while (begun < epoch && done < plan[0]) /* the token was taken when its epoch had begun */
            plane_step();
        if (begun != epoch) continue;
        if (!lease_check(&words, &test_clock, view_make(epoch, 0))) continue;
        let_in++;
        assert_true(loaded_at_ns < 10 * (int64_t)epoch + 5);
    }
    reset();
    struct lease_look look = lease_look(&words, &test_clock);
    if (look.live) {
        let_in++;
        assert_true(view_epoch(look.view) <= begun);
        assert_true(loaded_at_ns < 10 * (int64_t)view_epoch(look.view) + 5);
    }
    return let_in;
}

static void lease_interleave__every_schedule__joins_no_two_epochs(void **state)
{
    (void)state;
    unsigned schedules = 0, let_in = 0;
    for (plan[0] = 0; plan[0] <= STEPS; plan[0]++)
        for (plan[1] = plan[0]; plan[1] <= STEPS; plan[1]++)
            for (plan[2] = plan[1]; plan[2] <= STEPS; plan[2]++)
                for (plan[3] = plan[2]; plan[3] <= STEPS; plan[3]++) {
                    schedules++;
                    let_in += check_once();
                }
    assert_int_equal(schedules, 1001);
    print_message("schedules=%u let_in=%u\n", schedules, let_in);
    assert_true(let_in > 100); /* the test is no test if nothing is ever live */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lease_interleave__every_schedule__joins_no_two_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
