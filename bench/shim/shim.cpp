// Behind shim.h. The main program is Google Benchmark's own, with its options.
#include "bench/shim/shim.h"

#include <benchmark/benchmark.h>

struct bench_state {
    benchmark::State *state;
};

extern "C" {

bool bench_next(struct bench_state *state)
{
    return state->state->KeepRunning();
}

int64_t bench_arg(const struct bench_state *state, unsigned index)
{
    return state->state->range(index);
}

void bench_pause(struct bench_state *state)
{
    state->state->PauseTiming();
}

void bench_resume(struct bench_state *state)
{
    state->state->ResumeTiming();
}

void bench_items(struct bench_state *state, int64_t items)
{
    state->state->SetItemsProcessed(items);
}

void bench_bytes(struct bench_state *state, int64_t bytes)
{
    state->state->SetBytesProcessed(bytes);
}

int64_t bench_rounds(const struct bench_state *state)
{
    return static_cast<int64_t>(state->state->iterations());
}

void bench_fail(struct bench_state *state, const char *text)
{
    state->state->SkipWithError(text);
}

void bench_register(const char *name, bench_run *run, const int64_t *args, unsigned count)
{
    auto *one = benchmark::RegisterBenchmark(name, [run](benchmark::State &state) {
        bench_state face{&state};
        run(&face);
    });
    if (count == 0) one->Arg(0);
    for (unsigned i = 0; i < count; i++)
        one->Arg(args[i]);
}

} // extern "C"

BENCHMARK_MAIN();
