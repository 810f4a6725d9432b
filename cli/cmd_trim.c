#include "cli/commands.h"
#include "cli/json.h"

#include <inttypes.h>
#include <stdio.h>

static const char help[] =
    "usage: ringfence trim --dir DIR --before TIME [OPTION]...\n"
    "\n"
    "Frees whole segments from the log's oldest end, as long as every row in them is older than\n"
    "TIME. The rows in them are gone then; a row of that age in a younger segment stays.\n"
    "\n"
    "  --dir DIR      the directory\n"
    "  --before TIME  2026-01-31, 2026-01-31T12:30:00Z, or an integer in the directory's unit\n"
    "  --json         the result as JSON\n"
    "  --wait S       seconds to wait for a directory that is in use; 30\n"
    "\n"
    "examples\n"
    "  ringfence trim --dir data --before 2026-01-01\n"
    "  ringfence trim --dir data --before \"$(date -u -d '30 days ago' +%Y-%m-%dT%H:%M:%SZ)\"\n";

struct trim {
    struct store_options store;
    const char *before;
    bool json;
};

static bool parse(struct trim *t, int argc, char **argv, bool *help_out)
{
    const struct arg args[] = {
        {"--dir", ARG_TEXT, &t->store.dir, 0, 0, NULL},
        {"--before", ARG_TEXT, &t->before, 0, 0, NULL},
        {"--json", ARG_FLAG, &t->json, 0, 0, NULL},
        {"--wait", ARG_SECONDS, &t->store.lock_wait_ms, 0, 0, NULL},
    };
    return args_parse("trim", argc, argv, args, sizeof args / sizeof args[0], NULL, help_out);
}

static void print_result(const struct trim *t, uint64_t position, uint64_t freed)
{
    struct json j = {stdout, false};
    if (!t->json) {
        printf("freed %" PRIu64 " MiB of the log; it begins at position %" PRIu64 "\n", freed >> 20,
               position);
        return;
    }
    json_open(&j, NULL, '{');
    json_string(&j, "dir", t->store.dir);
    json_u64(&j, "position", position);
    json_u64(&j, "bytes_freed", freed);
    json_close(&j, '}');
    json_end_line(&j);
}

static enum exit_code trim_before(const struct trim *t, struct store *store)
{
    struct timefmt f = {store->unit, store->unit, TIME_CEIL, NULL};
    struct rf_stats before = {.size = sizeof before};
    struct rf_trim_options options;
    struct bad bad = {0};
    uint64_t position = 0;
    rf_trim_options_init(&options);
    options.by_time = true;
    if (!timefmt_parse(&f, text_of(t->before), 0, &options.before_time, &bad))
        return usage("trim", "--before: %s", bad.why);
    int rc = rf_stats(store->engine, &before);
    if (rc == 0) rc = rf_trim(store->engine, &options, &position);
    if (rc != 0) return report("trim", rc, NULL);
    print_result(t, position,
                 position > before.oldest_position ? position - before.oldest_position : 0);
    return EXIT_OK;
}

static enum exit_code run(struct trim *t)
{
    struct store store;
    if (t->before == NULL) return usage("trim", "--before TIME is needed");
    enum exit_code code = store_open("trim", &t->store, &store);
    if (code != EXIT_OK) return code;
    return store_close("trim", &store, trim_before(t, &store));
}

enum exit_code command_trim(int argc, char **argv)
{
    struct trim t = {0};
    bool wants_help;
    store_options_init(&t.store, 0);
    if (!parse(&t, argc, argv, &wants_help)) return EXIT_USAGE;
    enum exit_code code = EXIT_OK;
    if (wants_help)
        fputs(help, stdout);
    else
        code = run(&t);
    return finish_stdout("trim", code);
}
