/* Threads and sleeping. Our threads block all signals: a host's handlers never run on them. */
#ifndef RF_BASE_THREAD_H
#define RF_BASE_THREAD_H

#include "base/check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

/* name: at most 15 bytes, shown by ps and perf, set before run begins. The stack is 256 KiB.
 * thread_out is written on success only. Returns 0, -EAGAIN (no more threads) or -ENOMEM. */
RF_NODISCARD int thread_start(pthread_t *thread_out, const char *name, void *(*run)(void *),
                              void *arg);
void thread_join(pthread_t thread);

/* From here to the end of the block pthread_cancel() waits. A host may cancel its threads; one that
 * ended inside a call of ours would take along locks, a decider's slot or a reservation for which
 * others wait. So this stands around each call of libc that is a cancellation point and that a host's
 * thread can reach. (futex_wait, mutexes and memory are none.) */
#define THREAD_NOT_CANCELLED()                                                      \
    __attribute__((unused, cleanup(thread_allow_cancel))) int cancel_state_before = \
        thread_refuse_cancel()
static inline int thread_refuse_cancel(void)
{
    int before;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before) == 0);
    return before;
}
static inline void thread_allow_cancel(const int *before)
{
    int ignored;
    CHECK(pthread_setcancelstate(*before, &ignored) == 0);
}

/* Sleeps while *word == expected, at most timeout_ns (negative: without limit). Returns 0 when
 * woken or when the word differed, -ETIMEDOUT. Spurious returns of 0 happen: look again. */
int futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns);
void futex_wake_one(_Atomic uint32_t *word);
void futex_wake_all(_Atomic uint32_t *word);

#endif
