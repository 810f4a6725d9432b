#include "cli/commands.h"
#include "cli/json.h"

#include <stdio.h>

static const char help[] =
    "usage: ringfence verify --dir DIR [OPTION]...\n"
    "\n"
    "Reads everything and writes nothing. Says clean (closed in order) or cut (ended by a crash:\n"
    "nothing acknowledged is missing) and exits with 0; or names each fault, with file, offset,\n"
    "what was expected and what was found, and exits with 1.\n"
    "\n"
    "  --dir DIR  the directory\n"
    "  --json     as one JSON object\n"
    "  --wait S   seconds to wait for a directory that is in use; 1\n"
    "\n"
    "example\n"
    "  ringfence verify --dir data || ringfence salvage --dir data --to rescued\n";

struct verify {
    const char *dir;
    int64_t wait_ms;
    bool json;
    struct json out;
    uint64_t faults;
};

static void fault(void *ctx, const char *text)
{
    struct verify *v = ctx;
    v->faults++;
    if (v->json)
        json_string(&v->out, NULL, text);
    else
        printf("fault: %s\n", text);
}

static enum exit_code conclude(struct verify *v, enum rf_verdict verdict)
{
    static const char *const names[] = {"clean", "cut", "corrupt", "unfinished"};
    static const char *const texts[] = {
        "clean: it was closed in order",
        "cut: it was not closed in order; all that was acknowledged is there",
        "damaged: see the faults above; `ringfence salvage` copies what is whole",
        "empty: its creation did not finish",
    };
    if (v->json) {
        json_close(&v->out, ']');
        json_string(&v->out, "verdict", names[verdict]);
        json_close(&v->out, '}');
        json_end_line(&v->out);
    } else {
        printf("%s\n", texts[verdict]);
    }
    return verdict == RF_VERDICT_CORRUPT ? EXIT_REFUSED : EXIT_OK;
}

static enum exit_code run(struct verify *v)
{
    struct rf_error error = {0};
    enum rf_verdict verdict;
    if (v->dir == NULL) return usage("verify", "--dir DIR is needed");
    if (v->json) {
        json_open(&v->out, NULL, '{');
        json_string(&v->out, "dir", v->dir);
        json_open(&v->out, "faults", '[');
    }
    int rc = rf_verify(v->dir, v->wait_ms, fault, v, &verdict, &error);
    if (rc == 0) return conclude(v, verdict);
    if (v->json) {
        json_close(&v->out, ']');
        json_string(&v->out, "error", rf_code_name(rc));
        json_close(&v->out, '}');
        json_end_line(&v->out);
    }
    return report("verify", rc, &error);
}

enum exit_code command_verify(int argc, char **argv)
{
    struct verify v = {.wait_ms = 1000, .out = {stdout, false}};
    bool wants_help;
    const struct arg args[] = {
        {"--dir", ARG_TEXT, &v.dir, 0, 0, NULL},
        {"--json", ARG_FLAG, &v.json, 0, 0, NULL},
        {"--wait", ARG_SECONDS, &v.wait_ms, 0, 0, NULL},
    };
    if (!args_parse("verify", argc, argv, args, sizeof args / sizeof args[0], NULL, &wants_help))
        return EXIT_USAGE;
    enum exit_code code = EXIT_OK;
    if (wants_help)
        fputs(help, stdout);
    else
        code = run(&v);
    return finish_stdout("verify", code);
}
