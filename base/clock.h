/* Clocks. Leases are judged by CLOCK_BOOTTIME, which counts suspends; a grantor counts by
 * CLOCK_MONOTONIC; TTL by wall time. A test clock replaces all three with values that only the
 * test moves.
 *
 * Thread: any. clock_boot_ns is a vDSO call, about 25 ns. */
#ifndef RF_BASE_CLOCK_H
#define RF_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

struct clock {
    _Atomic int64_t *test_ns; /* NULL: the real clocks. Else [0] boot, [1] monotonic, [2] wall */
};

static inline int64_t clock_read_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static inline int64_t clock_boot_ns(const struct clock *c)
{
    if (__builtin_expect(c->test_ns != NULL, 0)) return atomic_load(&c->test_ns[0]);
    return clock_read_ns(CLOCK_BOOTTIME);
}
static inline int64_t clock_mono_ns(const struct clock *c)
{
    if (__builtin_expect(c->test_ns != NULL, 0)) return atomic_load(&c->test_ns[1]);
    return clock_read_ns(CLOCK_MONOTONIC);
}
static inline int64_t clock_wall_ns(const struct clock *c)
{
    if (__builtin_expect(c->test_ns != NULL, 0)) return atomic_load(&c->test_ns[2]);
    return clock_read_ns(CLOCK_REALTIME);
}

#endif
