/* Checks of our own invariants. CHECK is always on: a broken invariant stops the process before it
 * can reach the disk. DCHECK is for costly ones and exists in debug builds only. Damaged bytes and
 * bad requests are never checked this way: they are errors. */
#ifndef RF_BASE_CHECK_H
#define RF_BASE_CHECK_H

__attribute__((noreturn, cold)) void check_failed(const char *file, int line, const char *text);

#define CHECK(x)                                                             \
    do {                                                                     \
        if (__builtin_expect(!(x), 0)) check_failed(__FILE__, __LINE__, #x); \
    } while (0)

#ifdef NDEBUG
#define DCHECK(x) ((void)sizeof(!(x)))
#else
#define DCHECK(x) CHECK(x)
#endif

#define RF_NODISCARD   __attribute__((warn_unused_result))
#define RF_LIKELY(x)   __builtin_expect(!!(x), 1)
#define RF_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RF_CACHE_LINE  64

#endif
