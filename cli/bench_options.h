/* What `ringfence bench` and `ringfence profile` are asked to do. */
#ifndef RF_CLI_BENCH_OPTIONS_H
#define RF_CLI_BENCH_OPTIONS_H

#include "cli/store.h"

enum bench_shape { SHAPE_CONSTANT, SHAPE_WALK, SHAPE_RANDOM };
enum bench_model { MODEL_TABLE, MODEL_TREE };
enum { BENCH_TYPES_MAX = 16, BENCH_WRITERS_MAX = 256, BENCH_FLIGHTS_MAX = 4096 };

struct bench_options {
    const char *command; /* "bench" or "profile", in messages */

    /* where */
    const char *dir;
    bool reuse; /* a directory of an earlier run may be used, and what is in it freed */
    const char *json, *trace, *svg;
    uint64_t trace_batches;

    /* how */
    uint64_t writers, in_flight;
    uint64_t rate; /* batches a second of all writers together; 0: closed loop */
    int64_t seconds_ms, warmup_ms;
    uint64_t points; /* ends the run; 0: seconds do */
    int64_t stall_ms;
    uint64_t seed;

    /* what */
    uint64_t devices, tablet_devices, columns, rows, partitions, text_bytes;
    double out_of_order, nulls;
    int shape, model;
    const char *types;
    enum rf_type type[BENCH_TYPES_MAX]; /* out of types */
    size_t type_count;
    const char *replay; /* a file of line protocol instead */

    /* the engine */
    int sync, backend;
    int lease; /* 0: on, 1: off */
    int64_t fence_every_ms;
    bool buffered;
    uint64_t depth, lanes;
    uint64_t memory_bytes, segment_bytes, log_bytes_max;
    int64_t write_wait_ms;
};

/* Reads the words; "profile" has options of its own. False: a message was printed, or *help_out. */
RF_NODISCARD bool bench_options_parse(struct bench_options *o, const char *command, int argc,
                                      char **argv, bool *help_out);
/* What does not go together: EXIT_OK, or EXIT_USAGE with a message. Fills type[]. */
RF_NODISCARD enum exit_code bench_options_check(struct bench_options *o);

struct bench_command {
    const char *name;
    const char *help, *examples; /* before and behind the lines on options that both share */
    enum exit_code (*run)(struct bench_options *o); /* what was read and goes together */
};
/* Both of these, then the command; or its help. */
enum exit_code bench_command_run(const struct bench_command *command, int argc, char **argv);

#endif
