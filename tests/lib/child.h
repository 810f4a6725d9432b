/* Running a part of a test in a child process, where limits, filters and identities end with it. */
#ifndef RF_TESTS_CHILD_H
#define RF_TESTS_CHILD_H

#include <stdint.h>
#include <sys/types.h>

/* Runs body(ctx) in a forked child and returns its value (0..255), or -1 - signal if one ended it.
 * In the child cmocka's assertions must not be used: there is nobody to catch them. */
int child_run(int (*body)(void *ctx), void *ctx);

/* In a child: says which line failed, on stderr, and leaves with 1. */
#define CHILD_CHECK(x)                                                                     \
    do {                                                                                   \
        if (!(x)) {                                                                        \
            dprintf(2, "%s:%d: does not hold in the child: %s\n", __FILE__, __LINE__, #x); \
            _exit(1);                                                                      \
        }                                                                                  \
    } while (0)

/* Makes the system calls numbered first..last answer with error from now on; error 0: they end the
 * process with SIGSYS. Returns 0 or -errno. */
int child_refuse_calls(long first, long last, int error);
/* The same for openat with any of the bits in its flags. */
int child_refuse_open_flags(uint32_t bits, int error);

#endif
