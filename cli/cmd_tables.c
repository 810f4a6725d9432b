#include "cli/commands.h"
#include "cli/json.h"
#include "cli/row.h"

#include <inttypes.h>
#include <stdio.h>

static const char help[] = "usage: ringfence tables --dir DIR [OPTION]...\n"
                           "\n"
                           "Lists the tables by name, each with its columns in the order in which "
                           "they were made. Of a tree\n"
                           "database only the name is shown. Reads only.\n"
                           "\n"
                           "  --dir DIR  the directory\n"
                           "  --json     one JSON object a table and line\n"
                           "  --wait S   seconds to wait for a directory that is in use; 1\n"
                           "\n"
                           "example\n"
                           "  ringfence tables --dir data\n"
                           "  cpu\n"
                           "    host   TAG    STRING\n"
                           "    usage  FIELD  DOUBLE\n";

struct tables {
    struct store_options store;
    bool json;
};

static bool parse(struct tables *t, int argc, char **argv, bool *help_out)
{
    const struct arg args[] = {
        {"--dir", ARG_TEXT, &t->store.dir, 0, 0, NULL},
        {"--json", ARG_FLAG, &t->json, 0, 0, NULL},
        {"--wait", ARG_SECONDS, &t->store.lock_wait_ms, 0, 0, NULL},
    };
    return args_parse("tables", argc, argv, args, sizeof args / sizeof args[0], NULL, help_out);
}

static const char *category_name(enum rf_category category)
{
    return category == RF_TAG ? "TAG" : "FIELD";
}

static int print_table(void *ctx, const struct rf_table_info *info)
{
    int width = 0;
    (void)ctx;
    printf("%s%s\n", info->name, info->tree ? "  (tree database)" : "");
    if (info->ttl > 0) printf("  ttl %" PRId64 "\n", info->ttl);
    for (uint32_t i = 0; i < info->column_count; i++) {
        int bytes = (int)strlen(info->columns[i].name);
        width = bytes > width ? bytes : width;
    }
    for (uint32_t i = 0; i < info->column_count; i++) {
        const struct rf_column_def *c = &info->columns[i];
        printf("  %-*s  %-5s  %s\n", width, c->name, category_name(c->category),
               type_name(c->type));
    }
    return 0;
}

static int print_json(void *ctx, const struct rf_table_info *info)
{
    struct json j = {stdout, false};
    (void)ctx;
    json_open(&j, NULL, '{');
    json_string(&j, "name", info->name);
    json_string(&j, "model", info->tree ? "tree" : "table");
    if (info->ttl > 0)
        json_i64(&j, "ttl", info->ttl);
    else
        json_null(&j, "ttl");
    json_u64(&j, "incarnation", info->incarnation);
    json_open(&j, "columns", '[');
    for (uint32_t i = 0; i < info->column_count; i++) {
        json_open(&j, NULL, '{');
        json_string(&j, "name", info->columns[i].name);
        json_string(&j, "category", category_name(info->columns[i].category));
        json_string(&j, "type", type_name(info->columns[i].type));
        json_close(&j, '}');
    }
    json_close(&j, ']');
    json_close(&j, '}');
    json_end_line(&j);
    return 0;
}

static enum exit_code run(struct tables *t)
{
    struct store store;
    enum exit_code code = store_open("tables", &t->store, &store);
    if (code != EXIT_OK || store.engine == NULL) return code;
    int rc = rf_tables(store.engine, t->json ? print_json : print_table, NULL);
    if (rc != 0) code = report("tables", rc, NULL);
    return store_close("tables", &store, code);
}

enum exit_code command_tables(int argc, char **argv)
{
    struct tables t = {0};
    bool wants_help;
    store_options_init(&t.store, RF_READ_ONLY);
    if (!parse(&t, argc, argv, &wants_help)) return EXIT_USAGE;
    enum exit_code code = EXIT_OK;
    if (wants_help)
        fputs(help, stdout);
    else
        code = run(&t);
    return finish_stdout("tables", code);
}
