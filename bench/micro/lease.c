/* A check of the lease, and the read of the clock that is most of it. */
#include "bench/shim/shim.h"
#include "lease/view.h"

static void clock_read(struct bench_state *state)
{
    struct clock clock = {.test_ns = NULL};
    while (bench_next(state))
        bench_use((uint64_t)clock_boot_ns(&clock));
}
BENCH(clock_read)

static void lease_checks(struct bench_state *state)
{
    struct clock clock = {.test_ns = NULL};
    struct lease_words words = {.view = 0};
    uint64_t view = view_make(1, 1);
    lease_publish_view(&words, view);
    /* Argument 1: leases are off, and no clock is read. */
    lease_publish_deadline(&words, bench_arg(state, 0) != 0
                                       ? LEASE_OFF
                                       : clock_boot_ns(&clock) + INT64_C(3600000000000));
    while (bench_next(state))
        bench_use(lease_check(&words, &clock, view));
}
BENCH(lease_checks, 0, 1)
