#include "base/lock.h"

#include "base/check.h"
#include "base/fence.h"

#include <sched.h>

#ifndef NDEBUG
/* What this thread holds, in the order taken, which is the order of ranks. */
#define HELD_MAX 16
static _Thread_local enum lock_rank held[HELD_MAX];
static _Thread_local unsigned held_count;

static void note_acquire(enum lock_rank rank)
{
    CHECK(held_count < HELD_MAX);
    CHECK(held_count == 0 || held[held_count - 1] < rank); /* else two threads may deadlock */
    held[held_count++] = rank;
}

static void note_release(enum lock_rank rank)
{
    unsigned i = held_count;
    while (i > 0 && held[i - 1] != rank)
        i--;
    CHECK(i > 0); /* released by a thread that does not hold it */
    for (held_count--; i <= held_count; i++)
        held[i - 1] = held[i];
}
#else
static void note_acquire(enum lock_rank rank)
{
    (void)rank;
}
static void note_release(enum lock_rank rank)
{
    (void)rank;
}
#endif

void lock_init(struct lock *l, enum lock_rank rank)
{
    CHECK(rank > LOCK_RANK_NONE);
    CHECK(pthread_mutex_init(&l->mutex, NULL) == 0);
    l->rank = rank;
}

void lock_deinit(struct lock *l)
{
    CHECK(pthread_mutex_destroy(&l->mutex) == 0);
    l->rank = LOCK_RANK_NONE;
}

void lock_acquire(struct lock *l)
{
    note_acquire(l->rank);
    CHECK(pthread_mutex_lock(&l->mutex) == 0);
}

void lock_release(struct lock *l)
{
    note_release(l->rank);
    CHECK(pthread_mutex_unlock(&l->mutex) == 0);
}

/* Looks with plain loads, so that waiters share the line and do not take it from the holder. */
void spin_acquire_slow(struct spin *s)
{
    enum { LOOKS_BEFORE_YIELD = 128 };
    for (;;) {
        for (unsigned look = 0; look < LOOKS_BEFORE_YIELD; look++) {
            uint32_t word = atomic_load_explicit(&s->word, memory_order_relaxed);
            /* Acquire pairs with the release in spin_release: what the last holder wrote is seen.
             */
            if (word == 0 && atomic_compare_exchange_weak_explicit(
                                 &s->word, &word, 1, memory_order_acquire, memory_order_relaxed))
                return;
            cpu_relax();
        }
        sched_yield();
    }
}
