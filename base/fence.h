/* A full memory fence that ThreadSanitizer can follow. Where a fence orders two words (the lane's
 * slot against the published view), both sides use this macro and say which pair it is. */
#ifndef RF_BASE_FENCE_H
#define RF_BASE_FENCE_H

#include <stdatomic.h>

/* TSan does not model atomic_thread_fence; a read-modify-write on one shared word that both sides
 * touch is a fence it does model. In other builds it is the plain instruction. */
#if defined(__SANITIZE_THREAD__)
extern _Atomic unsigned fence_word;
#define fence_full() ((void)atomic_fetch_add_explicit(&fence_word, 1, memory_order_seq_cst))
#else
#define fence_full() atomic_thread_fence(memory_order_seq_cst)
#endif

static inline void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
