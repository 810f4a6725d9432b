#include "cli/commands.h"
#include "cli/memory.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>

static const char help[] =
    "usage: ringfence delete --dir DIR --table T | --device D [OPTION]...\n"
    "\n"
    "Deletes rows, durably. What is written later in the same range stays.\n"
    "\n"
    "  --dir DIR         the directory\n"
    "  --table T         a table (table model)\n"
    "  --device D        a device (tree model), as root.db.d1\n"
    "  --where TAG=VALUE of the devices with this tag value alone; may be repeated\n"
    "  --columns A,B     these fields alone; whole rows\n"
    "  --from TIME       first time, inclusive; all\n"
    "  --to TIME         end, exclusive; all\n"
    "  --wait S          seconds to wait for a directory that is in use; 30\n"
    "\n"
    "examples\n"
    "  ringfence delete --dir data --table cpu --where host=h1\n"
    "  ringfence delete --dir data --table cpu --from 2026-01-01 --to 2026-02-01\n";

struct deletion {
    struct store_options store;
    const char *table, *device, *columns, *from, *to;
    struct arg_list where;
};

static bool parse(struct deletion *d, int argc, char **argv, bool *help_out)
{
    const struct arg args[] = {
        {"--dir", ARG_TEXT, &d->store.dir, 0, 0, NULL},
        {"--table", ARG_TEXT, &d->table, 0, 0, NULL},
        {"--device", ARG_TEXT, &d->device, 0, 0, NULL},
        {"--where", ARG_LIST, &d->where, 0, 0, NULL},
        {"--columns", ARG_TEXT, &d->columns, 0, 0, NULL},
        {"--from", ARG_TEXT, &d->from, 0, 0, NULL},
        {"--to", ARG_TEXT, &d->to, 0, 0, NULL},
        {"--wait", ARG_SECONDS, &d->store.lock_wait_ms, 0, 0, NULL},
    };
    return args_parse("delete", argc, argv, args, sizeof args / sizeof args[0], NULL, help_out);
}

/* NUL-terminated names out of "a,b"; the array and the names are one piece of memory. */
static const char **columns_of(const char *list, uint32_t *count_out)
{
    size_t count;
    struct text *pieces = split_commas(list, &count);
    const char **names = need_zalloc(count * sizeof *names + strlen(list) + 1);
    char *at = (char *)(names + count);
    for (size_t i = 0; i < count; i++) {
        memcpy(at, pieces[i].at, pieces[i].bytes);
        names[i] = at;
        at += pieces[i].bytes + 1;
    }
    mem_free(pieces);
    *count_out = (uint32_t)count;
    return names;
}

/* How many rows there are to delete, for the report; a delete of columns leaves the rows. */
static int rows_there(struct rf_engine *engine, const struct rf_delete_options *d, uint64_t *rows,
                      struct rf_error *error)
{
    struct rf_scan_options scan;
    rf_scan_options_init(&scan);
    scan.table = d->table;
    scan.device = d->device;
    scan.tags = d->tags;
    scan.tag_count = d->tag_count;
    scan.columns = d->columns;
    scan.column_count = d->column_count;
    scan.time_from = d->time_from;
    scan.time_to = d->time_to;
    return rf_count(engine, &scan, rows, error);
}

static enum exit_code delete_rows(struct store *store, const struct deletion *d,
                                  struct rf_delete_options *options)
{
    struct rf_error error = {0};
    uint64_t rows = 0;
    bool empty;
    if (!parse_range("delete", d->from, d->to, store->unit, &options->time_from, &options->time_to,
                     &empty))
        return EXIT_USAGE;
    if (empty) {
        printf("deleted 0 rows: no time lies between --from and --to\n");
        return EXIT_OK;
    }
    int rc = rows_there(store->engine, options, &rows, &error);
    if (rc == 0) rc = rf_delete(store->engine, options, &error);
    if (rc != 0) return report("delete", rc, &error);
    if (d->columns != NULL)
        printf("deleted %s in %" PRIu64 " rows\n", d->columns, rows);
    else
        printf("deleted %" PRIu64 " rows\n", rows);
    return EXIT_OK;
}

static enum exit_code run(struct deletion *d)
{
    struct store store;
    struct rf_delete_options options;
    struct rf_tag_filter *tags = NULL;
    char *memory = NULL;
    rf_delete_options_init(&options);
    if ((d->table == NULL) == (d->device == NULL))
        return usage("delete", "either --table or --device is needed");
    if (!parse_where("delete", &d->where, &tags, &memory)) return EXIT_USAGE;
    const char **columns =
        d->columns != NULL ? columns_of(d->columns, &options.column_count) : NULL;
    options.table = d->table;
    options.device = d->device;
    options.tags = tags;
    options.tag_count = (uint32_t)d->where.count;
    options.columns = columns;
    enum exit_code code = store_open("delete", &d->store, &store);
    if (code == EXIT_OK) code = store_close("delete", &store, delete_rows(&store, d, &options));
    mem_free(columns);
    mem_free(tags);
    mem_free(memory);
    return code;
}

enum exit_code command_delete(int argc, char **argv)
{
    struct deletion d = {0};
    bool wants_help;
    store_options_init(&d.store, 0);
    enum exit_code code = EXIT_USAGE;
    if (parse(&d, argc, argv, &wants_help)) {
        code = EXIT_OK;
        if (wants_help)
            fputs(help, stdout);
        else
            code = run(&d);
        code = finish_stdout("delete", code);
    }
    arg_list_deinit(&d.where);
    return code;
}
