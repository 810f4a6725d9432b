/* What test_instructions.py counts: BATCHES writes of a shape, on a machine that is the same
 * everywhere: the portable form of the hash, no io_uring (valgrind may not know it), a lane that
 * writes nothing by itself, no lease's clock. All writes run through engine_begin, where callgrind
 * counts on its caller's thread: check, order, split, reserve, copy, checksum, publish, decide.
 *
 *     hot_path DIR SHAPE BATCHES      SHAPE: main (1000 x 10 doubles), small (1 x 10), fleet (one row
 *                                     each of 1000 devices x 10) */
#include "base/hash_impl.h"
#include "ringfence/ringfence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS   10u
#define ROWS_MAX  1000u
#define TAG_BYTES 8u

static double values[COLUMNS][ROWS_MAX];
static int64_t times[ROWS_MAX];
static char tags[ROWS_MAX * TAG_BYTES + 1];
static uint32_t offsets[ROWS_MAX + 1];
static char names[COLUMNS][8];

static int fail(const char *what, int rc, const struct rf_error *error)
{
    fprintf(stderr, "hot_path: %s: %s\n", what, error->code != 0 ? error->text : rf_strerror(rc));
    return 1;
}

static struct rf_tablet make_tablet(struct rf_column *columns, uint32_t rows, bool fleet)
{
    columns[0] = (struct rf_column){.name = "device",
                                    .type = RF_STRING,
                                    .category = RF_TAG,
                                    .values = tags,
                                    .offsets = offsets};
    for (uint32_t i = 0; i < COLUMNS; i++) {
        (void)snprintf(names[i], sizeof names[i], "s%u", i % 100);
        columns[1 + i] = (struct rf_column){
            .name = names[i], .type = RF_DOUBLE, .category = RF_FIELD, .values = values[i]};
    }
    for (uint32_t r = 0; r < rows; r++) {
        (void)snprintf(tags + (size_t)r * TAG_BYTES, TAG_BYTES + 1, "d%07u", r % 10000000);
        offsets[r + 1] = (r + 1) * TAG_BYTES;
        times[r] = (int64_t)r * 1000000000;
        for (uint32_t i = 0; i < COLUMNS; i++)
            values[i][r] = i + r / 4.0;
    }
    return (struct rf_tablet){.size = sizeof(struct rf_tablet),
                              .table = fleet ? "fleet" : NULL,
                              .device = fleet ? NULL : "root.perf.d0",
                              .rows = rows,
                              .columns = fleet ? COLUMNS + 1 : COLUMNS,
                              .times = times,
                              .column = fleet ? columns : columns + 1};
}

int main(int argc, char **argv)
{
    if (argc != 4) return fputs("hot_path DIR SHAPE BATCHES\n", stderr), 2;
    size_t variants = 0;
    const struct hash_variant *variant = hash_variants(&variants);
    hash_use(&variant[variants - 1]);

    struct rf_options options;
    struct rf_error error = {.code = 0};
    struct rf_engine *engine = NULL;
    struct rf_column columns[COLUMNS + 1];
    rf_options_init(&options);
    options.sync = RF_SYNC_OFF;
    options.backend = RF_BACKEND_POSIX;
    options.lease = RF_LEASE_OFF;
    options.segment_bytes = UINT64_C(8) << 20;
    options.memory_bytes = UINT64_C(40) << 20;
    options.wait_prepared = true;
    int rc = rf_open(argv[1], &options, &engine, &error);
    if (rc != 0) return fail(argv[1], rc, &error);

    struct rf_tablet tablet = make_tablet(columns, strcmp(argv[2], "small") == 0 ? 1 : ROWS_MAX,
                                          strcmp(argv[2], "fleet") == 0);
    long batches = strtol(argv[3], NULL, 10);
    for (long i = 0; i < batches && rc == 0; i++)
        rc = rf_write(engine, &tablet, &error);
    if (rc != 0) return fail("rf_write", rc, &error);
    rc = rf_close(engine);
    return rc == 0 ? 0 : fail("rf_close", rc, &error);
}
