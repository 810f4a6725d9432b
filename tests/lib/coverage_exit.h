/* Included before all else by every test of the preset coverage: a child that ends by _exit leaves
 * its counts as one that returns does. */
#ifndef RF_TESTS_COVERAGE_EXIT_H
#define RF_TESTS_COVERAGE_EXIT_H

#include <unistd.h>

extern void __gcov_dump(void);
static inline __attribute__((noreturn)) void exit_counted(int code)
{
    __gcov_dump();
    _exit(code);
}
#define _exit(code) exit_counted(code)

#endif
