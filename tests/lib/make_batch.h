/* Batches for tests, from rows as a person would write them down. */
#ifndef RF_TESTS_MAKE_BATCH_H
#define RF_TESTS_MAKE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

struct make_value {
    const void *data; /* NULL: null */
    uint32_t bytes;   /* of fixed types: their width */
};
struct make_column {
    uint32_t id;
    uint8_t type;
    const struct make_value *values; /* one a row; NULL: null in every row (flag 2) */
};
struct make_row {
    uint32_t device; /* index in keys */
    int64_t time;
};
struct make_tablet {
    uint64_t incarnation;
    uint32_t row_count;
    const struct make_row *rows; /* ordered by device, then time */
    uint32_t column_count;
    const struct make_column *columns;
};
struct make_batch {
    uint32_t region;
    uint32_t tablet_count;
    const struct make_tablet *tablets;
    int64_t interval; /* of partitions, > 0 */
    uint32_t device_count;
    const struct make_value *keys; /* each of the table of the first tablet that names it, or 0 */
};

int64_t make_partition(int64_t time, int64_t interval);
/* Lays out and writes the batch; *payload_out is the caller's to mem_free. Returns its bytes. */
uint32_t make_batch(const struct make_batch *batch, uint8_t **payload_out);

/* A small generator for tests: the same numbers for the same seed everywhere. */
struct make_random {
    uint64_t state;
};
/* The seed of this run: RF_SEED, or one from the clock; printed once a call. */
uint64_t make_seed(const char *test);
uint64_t make_random(struct make_random *random);
/* 0..below-1. */
uint32_t make_below(struct make_random *random, uint32_t below);

#endif
