#include "cli/commands.h"
#include "cli/json.h"

#include <inttypes.h>
#include <stdio.h>

static const char help[] = "usage: ringfence stat --dir DIR [OPTION]...\n"
                           "\n"
                           "Opens the directory to read, and says what it found: the log's size "
                           "and positions, tables and\n"
                           "devices, how the last opening ended. Reads only.\n"
                           "\n"
                           "  --dir DIR  the directory\n"
                           "  --json     as one JSON object\n"
                           "  --wait S   seconds to wait for a directory that is in use; 1\n"
                           "\n"
                           "example\n"
                           "  ringfence stat --dir data --json\n";

struct stat_options {
    struct store_options store;
    bool json;
};

static bool parse(struct stat_options *s, int argc, char **argv, bool *help_out)
{
    const struct arg args[] = {
        {"--dir", ARG_TEXT, &s->store.dir, 0, 0, NULL},
        {"--json", ARG_FLAG, &s->json, 0, 0, NULL},
        {"--wait", ARG_SECONDS, &s->store.lock_wait_ms, 0, 0, NULL},
    };
    return args_parse("stat", argc, argv, args, sizeof args / sizeof args[0], NULL, help_out);
}

static void print_text(const struct rf_stats *s)
{
    printf("made with   time unit %s, %" PRIu32 " lanes, %" PRIu32 " regions, segments of %" PRIu64
           " MiB\n",
           timefmt_unit_name((enum time_unit)s->time_unit), s->lanes, s->regions,
           s->segment_bytes >> 20);
    printf("last close  %s\n", s->opened_clean ? "clean" : "not in order: the log was cut");
    printf("log         %" PRIu64 " segments, %" PRIu64 " MiB, %" PRIu64 " free, %" PRIu64
           " of them ready\n",
           s->segments, s->log_bytes >> 20, s->segments_free, s->segments_ready);
    printf("positions   %" PRIu64 " to %" PRIu64 "\n", s->oldest_position, s->position);
    printf("holds       %" PRIu64 " tables, %" PRIu64 " columns, %" PRIu64 " devices\n", s->tables,
           s->columns, s->devices);
    printf("replayed    %" PRIu64 " batches, %" PRIu64 " bytes in %.3f s; %" PRIu64
           " records discarded\n",
           s->replayed_batches, s->replayed_bytes, (double)s->replay_ns / 1e9,
           s->discarded_records);
    printf("memory      %" PRIu64 " MiB of images, %" PRIu64 " KiB of heap\n",
           s->memory_bytes >> 20, s->heap_bytes >> 10);
    printf("back end    %s\n", s->backend);
}

static void print_json(const char *dir, const struct rf_stats *s)
{
    struct json j = {stdout, false};
    json_open(&j, NULL, '{');
    json_string(&j, "dir", dir);
    json_string(&j, "time_unit", timefmt_unit_name((enum time_unit)s->time_unit));
    json_u64(&j, "lanes", s->lanes);
    json_u64(&j, "regions", s->regions);
    json_u64(&j, "segment_bytes", s->segment_bytes);
    json_i64(&j, "partition_interval", s->partition_interval);
    json_bool(&j, "opened_clean", s->opened_clean);
    json_u64(&j, "segments", s->segments);
    json_u64(&j, "segments_free", s->segments_free);
    json_u64(&j, "segments_ready", s->segments_ready);
    json_u64(&j, "log_bytes", s->log_bytes);
    json_u64(&j, "log_bytes_max", s->log_bytes_max);
    json_u64(&j, "oldest_position", s->oldest_position);
    json_u64(&j, "position", s->position);
    json_u64(&j, "durable_position", s->durable_position);
    json_u64(&j, "tables", s->tables);
    json_u64(&j, "columns", s->columns);
    json_u64(&j, "devices", s->devices);
    json_u64(&j, "schema_version", s->schema_version);
    json_u64(&j, "replayed_batches", s->replayed_batches);
    json_u64(&j, "replayed_bytes", s->replayed_bytes);
    json_u64(&j, "discarded_records", s->discarded_records);
    json_double(&j, "replay_seconds", (double)s->replay_ns / 1e9);
    json_u64(&j, "memory_bytes", s->memory_bytes);
    json_u64(&j, "heap_bytes", s->heap_bytes);
    json_string(&j, "backend", s->backend);
    json_close(&j, '}');
    json_end_line(&j);
}

static enum exit_code run(struct stat_options *o)
{
    struct store store;
    struct rf_stats stats = {.size = sizeof stats};
    enum exit_code code = store_open("stat", &o->store, &store);
    if (code != EXIT_OK || store.engine == NULL) return code;
    int rc = rf_stats(store.engine, &stats);
    if (rc != 0)
        code = report("stat", rc, NULL);
    else if (o->json)
        print_json(o->store.dir, &stats);
    else
        print_text(&stats);
    return store_close("stat", &store, code);
}

enum exit_code command_stat(int argc, char **argv)
{
    struct stat_options o = {0};
    bool wants_help;
    store_options_init(&o.store, RF_READ_ONLY);
    if (!parse(&o, argc, argv, &wants_help)) return EXIT_USAGE;
    enum exit_code code = EXIT_OK;
    if (wants_help)
        fputs(help, stdout);
    else
        code = run(&o);
    return finish_stdout("stat", code);
}
