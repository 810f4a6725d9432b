/* The C face of Google Benchmark: what the files of micro/ is written on. shim.cpp behind it is the one C++
 * file of the project.
 *
 *     static void lookup(struct bench_state *state)
 *     {
 *         struct thing *thing = thing_make(bench_arg(state, 0));
 *         while (bench_next(state))
 *             bench_use(thing_find(thing, 7));
 *         thing_free(thing);
 *     }
 *     BENCH(lookup, 10, 1000)
 *
 * Thread   all of it: the thread that runs the benchmark */
#ifndef RF_BENCH_SHIM_H
#define RF_BENCH_SHIM_H

#ifdef __cplusplus
extern "C" {
#else
#include <stdbool.h>
#endif

#include <stddef.h>
#include <stdint.h>

struct bench_state;
typedef void bench_run(struct bench_state *state);

/* True while another round is to be timed; the loop's condition, called nowhere else. */
bool bench_next(struct bench_state *state);
/* What the benchmark was registered with; index 0. */
int64_t bench_arg(const struct bench_state *state, unsigned index);
/* Between these two nothing is timed. A pair costs about a microsecond itself. */
void bench_pause(struct bench_state *state);
void bench_resume(struct bench_state *state);
/* Of all rounds together: shown as a rate. */
void bench_items(struct bench_state *state, int64_t items);
void bench_bytes(struct bench_state *state, int64_t bytes);
/* Rounds that were timed. */
int64_t bench_rounds(const struct bench_state *state);
/* Ends the benchmark as failed; the loop's condition is false from then on. text: lasting. */
void bench_fail(struct bench_state *state, const char *text);

/* run with each of the arguments in turn; with none once, its argument 0. */
void bench_register(const char *name, bench_run *run, const int64_t *args, unsigned count);

/* Keeps a value alive for the compiler's eyes. */
static inline void bench_use(uint64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

#ifdef __cplusplus
}
#else
#define BENCH(function, ...)                                                      \
    __attribute__((constructor)) static void function##_register(void)            \
    {                                                                             \
        static const int64_t args[] = {__VA_ARGS__};                              \
        bench_register(#function, function, args, sizeof args / sizeof(int64_t)); \
    }
#endif

#endif
