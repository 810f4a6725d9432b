/* Mutexes with a rank. A thread takes locks in rising rank only; debug builds check it. The hot
 * path (reserve to publish) takes the lane's spin lock at most. */
#ifndef RF_BASE_LOCK_H
#define RF_BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum lock_rank {
    LOCK_RANK_NONE,
    LOCK_RANK_API,      /* handle open and close */
    LOCK_RANK_PLANE,    /* the plane's request queue */
    LOCK_RANK_ENGINE,   /* scratch pools, device registration */
    LOCK_RANK_SCHEMA,   /* growth of the schema tables */
    LOCK_RANK_WAL,      /* segment preparation, trim */
    LOCK_RANK_MANIFEST, /* replacing the manifest */
    LOCK_RANK_WAITERS,  /* a lane's queue of waiting writers */
    LOCK_RANK_IO,       /* the POSIX back end's queue, the fault double */
    LOCK_RANK_LOG,
};

struct lock {
    pthread_mutex_t mutex;
    enum lock_rank rank;
};

void lock_init(struct lock *l, enum lock_rank rank);
void lock_deinit(struct lock *l);
void lock_acquire(struct lock *l);
void lock_release(struct lock *l);

/* A spin lock held for a few instructions; yields after a bounded spin, so that a preempted holder
 * costs a time slice, not a core. */
struct spin {
    _Atomic uint32_t word;
};
void spin_acquire_slow(struct spin *s);
static inline void spin_acquire(struct spin *s)
{
    uint32_t free_word = 0;
    if (!atomic_compare_exchange_strong_explicit(&s->word, &free_word, 1, memory_order_acquire,
                                                 memory_order_relaxed))
        spin_acquire_slow(s);
}
static inline void spin_release(struct spin *s)
{
    atomic_store_explicit(&s->word, 0, memory_order_release);
}

#endif
