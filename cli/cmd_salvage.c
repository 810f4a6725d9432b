#include "cli/commands.h"
#include "cli/json.h"
#include "cli/memory.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>

static const char help[] =
    "usage: ringfence salvage --dir DIR [--to NEW] [OPTION]...\n"
    "\n"
    "Copies every whole record outside damage into a new directory, which opens clean. DIR is "
    "only\n"
    "read, and stays as it is. What can't be saved is listed, with file and offset.\n"
    "\n"
    "  --dir DIR  the damaged directory\n"
    "  --to NEW   the new one; must not exist; DIR.salvaged\n"
    "  --json     the result as JSON\n"
    "\n"
    "Exits with 0 when NEW is made, whatever was lost: --json says how much.\n"
    "\n"
    "example\n"
    "  ringfence salvage --dir data --to rescued && mv data broken && mv rescued data\n";

struct salvage {
    const char *dir, *to;
    bool json;
    struct json out;
};

static void lost(void *ctx, const char *text)
{
    struct salvage *s = ctx;
    if (s->json)
        json_string(&s->out, NULL, text);
    else
        printf("lost: %s\n", text);
}

static void print_result(struct salvage *s, const char *to, const struct rf_salvage_report *r)
{
    if (!s->json) {
        printf("saved %" PRIu64 " rows in %" PRIu64 " batches to %s; lost %" PRIu64
               " bytes in %" PRIu64 " places\n",
               r->rows, r->batches, to, r->bytes_lost, r->places);
        return;
    }
    json_close(&s->out, ']');
    json_string(&s->out, "to", to);
    json_u64(&s->out, "batches", r->batches);
    json_u64(&s->out, "rows", r->rows);
    json_u64(&s->out, "bytes_lost", r->bytes_lost);
    json_u64(&s->out, "places", r->places);
    json_close(&s->out, '}');
    json_end_line(&s->out);
}

static enum exit_code salvage_to(struct salvage *s, const char *to)
{
    struct rf_error error = {0};
    struct rf_salvage_report result = {.size = sizeof result};
    if (s->json) {
        json_open(&s->out, NULL, '{');
        json_string(&s->out, "dir", s->dir);
        json_open(&s->out, "lost", '[');
    }
    int rc = rf_salvage(s->dir, to, lost, s, &result, &error);
    if (rc == 0) {
        print_result(s, to, &result);
        return EXIT_OK;
    }
    if (s->json) {
        json_close(&s->out, ']');
        json_string(&s->out, "error", rf_code_name(rc));
        json_close(&s->out, '}');
        json_end_line(&s->out);
    }
    return report("salvage", rc, &error);
}

static enum exit_code run(struct salvage *s)
{
    if (s->dir == NULL) return usage("salvage", "--dir DIR is needed");
    if (s->to != NULL) return salvage_to(s, s->to);
    size_t bytes = strlen(s->dir);
    while (bytes > 1 && s->dir[bytes - 1] == '/')
        bytes--;
    char *to = need_zalloc(bytes + sizeof ".salvaged");
    memcpy(to, s->dir, bytes);
    memcpy(to + bytes, ".salvaged", sizeof ".salvaged");
    enum exit_code code = salvage_to(s, to);
    mem_free(to);
    return code;
}

enum exit_code command_salvage(int argc, char **argv)
{
    struct salvage s = {.out = {stdout, false}};
    bool wants_help;
    const struct arg args[] = {
        {"--dir", ARG_TEXT, &s.dir, 0, 0, NULL},
        {"--to", ARG_TEXT, &s.to, 0, 0, NULL},
        {"--json", ARG_FLAG, &s.json, 0, 0, NULL},
    };
    if (!args_parse("salvage", argc, argv, args, sizeof args / sizeof args[0], NULL, &wants_help))
        return EXIT_USAGE;
    enum exit_code code = EXIT_OK;
    if (wants_help)
        fputs(help, stdout);
    else
        code = run(&s);
    return finish_stdout("salvage", code);
}
