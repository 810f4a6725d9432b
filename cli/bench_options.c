#include "cli/bench_options.h"

#include "cli/row.h"

#include "base/alloc.h"

#include <stdio.h>

static const char options_help[] =
    "  --dir DIR            a directory that is not there yet; it stays\n"
    "  --reuse              run in the directory of an earlier run; frees what that left\n"
    "  --json FILE          the result as JSON\n"
    "\n"
    "How\n"
    "  --seconds 10         how long, after the warm-up; or\n"
    "  --points N           so many points\n"
    "  --warmup 1           seconds before anything counts\n"
    "  --writers 1          threads that write\n"
    "  --in-flight 64       batches that a writer has under way; 1: it waits for each (rf_write)\n"
    "  --rate N             open loop: so many batches a second of all writers together, latency\n"
    "                       counted from the intended start; without it, each as soon as it can\n"
    "  --stall 0.1          seconds; batches that take longer are listed with a cause\n"
    "  --seed 1             of all that is random\n"
    "\n"
    "What\n"
    "  --rows 1000          rows a tablet (a batch is one tablet)\n"
    "  --columns 10         fields\n"
    "  --types DOUBLE       types of the fields, in turn: DOUBLE,INT64,...\n"
    "  --text-bytes 16      length of TEXT, STRING and BLOB\n"
    "  --values walk        constant; walk: steps of two decimals; random: random bits\n"
    "  --nulls 0            share of the cells that are null, 0..1\n"
    "  --devices 1          devices in all, written to in turn\n"
    "  --tablet-devices 1   devices a tablet; its rows go round them\n"
    "  --partitions 1       time partitions that a tablet's rows lie in\n"
    "  --out-of-order 0     share of a tablet's rows that are out of the order of time, 0..1\n"
    "  --model table        table: devices by a TAG; tree: by a path\n"
    "  --replay FILE        instead: tablets of --rows lines of line protocol, over and over\n"
    "\n"
    "The engine\n"
    "  --sync always        always, async, off\n"
    "  --lease on           on, off\n"
    "  --fence-every S      fence and resume every S seconds, 0.001 and up\n"
    "  --backend auto       auto, uring, posix\n"
    "  --buffered           through the page cache, not direct\n"
    "  --depth 4            device writes in flight\n"
    "  --lanes 1            logs side by side\n"
    "  --memory SIZE        of the log's images, like 256M; 1G, or a quarter of the machine\n"
    "  --segment 64M        size of a log segment\n"
    "  --log-max SIZE       most that the log takes on disk; as much as the memory holds\n"
    "  --write-wait 10      seconds to wait for room or the lease\n";

static void set_defaults(struct bench_options *o, const char *command)
{
    *o = (struct bench_options){
        .command = command,
        .trace_batches = 5000,
        .writers = 1,
        .in_flight = 64,
        .seconds_ms = 10000,
        .warmup_ms = 1000,
        .stall_ms = 100,
        .seed = 1,
        .devices = 1,
        .tablet_devices = 1,
        .columns = 10,
        .rows = 1000,
        .partitions = 1,
        .text_bytes = 16,
        .shape = SHAPE_WALK,
        .depth = 4,
        .lanes = 1,
        .write_wait_ms = 10000,
    };
}

enum { ARGS_SHARED = 34, ARGS_MAX = ARGS_SHARED + 3 };

static size_t list_args(struct bench_options *o, struct arg *out)
{
    static const char *const shapes[] = {"constant", "walk", "random", NULL};
    static const char *const models[] = {"table", "tree", NULL};
    static const char *const syncs[] = {"always", "async", "off", NULL};
    static const char *const leases[] = {"on", "off", NULL};
    static const char *const backends[] = {"auto", "uring", "posix", NULL};
    const uint64_t size_max = UINT64_C(1) << 50;
    const struct arg args[] = {
        {"--dir", ARG_TEXT, &o->dir, 0, 0, NULL},
        {"--reuse", ARG_FLAG, &o->reuse, 0, 0, NULL},
        {"--json", ARG_TEXT, &o->json, 0, 0, NULL},
        {"--seconds", ARG_SECONDS, &o->seconds_ms, 0, 0, NULL},
        {"--points", ARG_COUNT, &o->points, 1, UINT64_C(1) << 60, NULL},
        {"--warmup", ARG_SECONDS, &o->warmup_ms, 0, 0, NULL},
        {"--writers", ARG_COUNT, &o->writers, 1, BENCH_WRITERS_MAX, NULL},
        {"--in-flight", ARG_COUNT, &o->in_flight, 1, BENCH_FLIGHTS_MAX, NULL},
        {"--rate", ARG_COUNT, &o->rate, 1, 1000000000, NULL},
        {"--stall", ARG_SECONDS, &o->stall_ms, 0, 0, NULL},
        {"--seed", ARG_COUNT, &o->seed, 0, INT64_MAX, NULL},
        {"--rows", ARG_COUNT, &o->rows, 1, 1 << 24, NULL},
        {"--columns", ARG_COUNT, &o->columns, 1, 65000, NULL},
        {"--types", ARG_TEXT, &o->types, 0, 0, NULL},
        {"--text-bytes", ARG_COUNT, &o->text_bytes, 0, 1 << 20, NULL},
        {"--values", ARG_CHOICE, &o->shape, 0, 0, shapes},
        {"--nulls", ARG_SHARE, &o->nulls, 0, 0, NULL},
        {"--devices", ARG_COUNT, &o->devices, 1, 10000000, NULL},
        {"--tablet-devices", ARG_COUNT, &o->tablet_devices, 1, 10000000, NULL},
        {"--partitions", ARG_COUNT, &o->partitions, 1, 100000, NULL},
        {"--out-of-order", ARG_SHARE, &o->out_of_order, 0, 0, NULL},
        {"--model", ARG_CHOICE, &o->model, 0, 0, models},
        {"--replay", ARG_TEXT, &o->replay, 0, 0, NULL},
        {"--sync", ARG_CHOICE, &o->sync, 0, 0, syncs},
        {"--lease", ARG_CHOICE, &o->lease, 0, 0, leases},
        {"--fence-every", ARG_SECONDS, &o->fence_every_ms, 0, 0, NULL},
        {"--backend", ARG_CHOICE, &o->backend, 0, 0, backends},
        {"--buffered", ARG_FLAG, &o->buffered, 0, 0, NULL},
        {"--depth", ARG_COUNT, &o->depth, 1, 64, NULL},
        {"--lanes", ARG_COUNT, &o->lanes, 1, 16, NULL},
        {"--memory", ARG_BYTES, &o->memory_bytes, 1 << 20, size_max, NULL},
        {"--segment", ARG_BYTES, &o->segment_bytes, 1 << 20, 1 << 30, NULL},
        {"--log-max", ARG_BYTES, &o->log_bytes_max, 1 << 20, size_max, NULL},
        {"--write-wait", ARG_SECONDS, &o->write_wait_ms, 0, 0, NULL},
    };
    _Static_assert(sizeof args / sizeof args[0] == ARGS_SHARED, "as many as there is room for");
    memcpy(out, args, sizeof args);
    return ARGS_SHARED;
}

bool bench_options_parse(struct bench_options *o, const char *command, int argc, char **argv,
                         bool *help_out)
{
    struct arg args[ARGS_MAX];
    set_defaults(o, command);
    size_t count = list_args(o, args);
    if (strcmp(command, "profile") == 0) {
        args[count++] = (struct arg){"--trace", ARG_TEXT, &o->trace, 0, 0, NULL};
        args[count++] = (struct arg){"--svg", ARG_TEXT, &o->svg, 0, 0, NULL};
        args[count++] =
            (struct arg){"--trace-batches", ARG_COUNT, &o->trace_batches, 1, 10000000, NULL};
    }
    return args_parse(command, argc, argv, args, count, NULL, help_out);
}

static enum exit_code parse_types(struct bench_options *o)
{
    size_t count;
    enum exit_code code = EXIT_OK;
    struct text *pieces = split_commas(o->types != NULL ? o->types : "DOUBLE", &count);
    if (count > BENCH_TYPES_MAX)
        code = usage(o->command, "--types: at most %d types", BENCH_TYPES_MAX);
    for (size_t i = 0; i < count && code == EXIT_OK; i++)
        if (!type_from_name(pieces[i], &o->type[i]))
            code = usage(o->command, "--types: there is no type \"%.*s\"", (int)pieces[i].bytes,
                         pieces[i].at);
    o->type_count = count;
    mem_free(pieces);
    return code;
}

enum exit_code bench_options_check(struct bench_options *o)
{
    if (o->dir == NULL) return usage(o->command, "--dir DIR is needed");
    if (o->points == 0 && o->seconds_ms == 0)
        return usage(o->command, "--seconds: how long, like 0.5");
    if (o->tablet_devices > o->rows)
        return usage(o->command, "--tablet-devices: a device needs a row, and --rows is %llu",
                     (unsigned long long)o->rows);
    if (o->tablet_devices > o->devices) o->devices = o->tablet_devices;
    if (o->partitions > o->rows)
        return usage(o->command, "--partitions: a partition needs a row, and --rows is %llu",
                     (unsigned long long)o->rows);
    if (o->rows * o->text_bytes > INT32_MAX)
        return usage(o->command, "--text-bytes: a column of a tablet would have more than 2 GiB");
    if (o->model == MODEL_TREE && o->tablet_devices > 1)
        return usage(o->command, "--tablet-devices: a tablet of the tree model has one device");
    if (o->lanes > 1 && (o->tablet_devices > 1 || o->replay != NULL))
        return usage(o->command, "--lanes: a batch lies in one lane, so a tablet needs one device");
    if (o->lease == 1 && o->fence_every_ms > 0)
        return usage(o->command, "--fence-every: there is no lease to fence with --lease off");
    return parse_types(o);
}

enum exit_code bench_command_run(const struct bench_command *command, int argc, char **argv)
{
    struct bench_options o;
    bool wants_help;
    if (!bench_options_parse(&o, command->name, argc, argv, &wants_help)) return EXIT_USAGE;
    enum exit_code code = EXIT_OK;
    if (wants_help) {
        fputs(command->help, stdout);
        fputs(options_help, stdout);
        fputs(command->examples, stdout);
    } else {
        code = bench_options_check(&o);
        if (code == EXIT_OK) code = command->run(&o);
    }
    return finish_stdout(command->name, code);
}
