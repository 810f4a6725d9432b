/* Tablets to write: made out of a seed, or read from a file of line protocol.
 *
 * Values are made once, in a few variants that take turns, so that making them costs nothing while
 * the run is measured; a batch gets new times, and its devices. No (device, time) comes twice.
 * Thread   a source belongs to one writer; a replay's tablets are only read, by all of them */
#ifndef RF_CLI_BENCH_SOURCE_H
#define RF_CLI_BENCH_SOURCE_H

#include "cli/bench_options.h"

struct bench_source;
struct bench_replay;

/* One batch, lent until the source's next. */
struct bench_batch {
    const struct rf_tablet *tablets;
    uint32_t tablet_count;
    uint64_t rows;
    uint64_t points; /* cells of fields that are not null */
    uint64_t bytes;  /* given: 8 a row for its time, each value that is not null, each tag */
};

/* interval: of a time partition. replay: NULL, or what to write instead. Never NULL. */
struct bench_source *bench_source_create(const struct bench_options *o, uint64_t writer,
                                         int64_t interval, const struct bench_replay *replay);
void bench_source_destroy(struct bench_source *s);
void bench_source_next(struct bench_source *s, struct bench_batch *batch_out);

/* Reads the file, batches of o->rows lines. EXIT_OK, or a message was printed. */
RF_NODISCARD enum exit_code bench_replay_load(const struct bench_options *o, enum rf_time_unit unit,
                                              struct bench_replay **replay_out);
void bench_replay_destroy(struct bench_replay *replay);
size_t bench_replay_batches(const struct bench_replay *replay);
const struct bench_batch *bench_replay_batch(const struct bench_replay *replay, size_t i);

/* ---- random numbers: splitmix64 ---- */

static inline uint64_t bench_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
/* 0 <= x < 1 */
static inline double bench_random_share(uint64_t *state)
{
    return (double)(bench_random(state) >> 11) * 0x1p-53;
}

#endif
