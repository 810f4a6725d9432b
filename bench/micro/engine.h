/* An engine in a directory of its own, for the micro benchmarks that need one whole: leases off, so
 * that nothing ends while it is timed, and a small ring. */
#ifndef RF_BENCH_MICRO_ENGINE_H
#define RF_BENCH_MICRO_ENGINE_H

#include "bench/shim/shim.h"
#include "engine/engine_impl.h"
#include "ringfence/ringfence.h"

struct micro_engine {
    struct rf_engine *handle;
    struct engine *engine;
    char dir[64];
};
/* False: bench_fail was called. sync: RF_SYNC_OFF writes nothing while it is timed. */
bool micro_open(struct micro_engine *m, struct bench_state *state, enum rf_sync sync);
void micro_close(struct micro_engine *m);
/* The log trimmed and ready again. */
void micro_rest(struct micro_engine *m);

/* A tablet of one device, or, devices > 0, of the table "micro" with a TAG column: row i is of
 * device i % devices. disorder: the rows' times fall. */
struct micro_tablet {
    struct rf_tablet tablet;
    void *heap;
};
bool micro_tablet(struct micro_tablet *t, uint32_t rows, uint32_t columns, uint32_t devices,
                  bool disorder);
void micro_tablet_free(struct micro_tablet *t);

/* The first steps of the write path, up to what the benchmark is about. p->scratch and p->op are acquired. */
int micro_check(struct micro_engine *m, const struct rf_tablet *tablet, struct prepared *p);

#endif
