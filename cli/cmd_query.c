#include "cli/commands.h"
#include "cli/memory.h"
#include "cli/out.h"
#include "cli/stop.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdio.h>

static const char help[] =
    "usage: ringfence query --dir DIR --table T | --device D [OPTION]...\n"
    "\n"
    "Prints rows, ordered by tags, then time: time, tags, fields. Reads only: it works on a\n"
    "read-only mount, and not while another process has the directory open.\n"
    "\n"
    "  --dir DIR         the directory\n"
    "  --table T         a table (table model)\n"
    "  --device D        a device (tree model), as root.db.d1\n"
    "  --where TAG=VALUE rows with this tag value alone; may be repeated; TAG= without the tag\n"
    "  --columns A,B     these fields, in this order; all\n"
    "  --from TIME       first time, inclusive; all\n"
    "  --to TIME         end, exclusive; all\n"
    "  --limit N         at most so many rows; all\n"
    "  --descending      newest first within a device\n"
    "  --format csv|json csv: a header, then rows; json: one object a line\n"
    "  --times iso|int   how times are printed; int: in the directory's unit\n"
    "  --count           print the number of rows alone\n"
    "  --wait S          seconds to wait for a directory that is in use; 1\n"
    "\n"
    "TIME is 2026-01-31, 2026-01-31T12:30:00.5Z, with +02:00 for a zone, or an integer in the\n"
    "directory's unit (ns unless it was made with another one).\n"
    "\n"
    "examples\n"
    "  ringfence query --dir data --table cpu --limit 10\n"
    "  ringfence query --dir data --table cpu --where host=h1 --columns usage --from 2026-01-01\n"
    "  ringfence query --dir data --table cpu --format json | head\n"
    "  ringfence query --dir data --table cpu --count\n";

struct query {
    struct store_options store;
    const char *table, *device, *columns, *from, *to;
    struct arg_list where;
    uint64_t limit;
    bool descending, count;
    int format, times;
};

enum { FORMAT_CSV, FORMAT_JSON };

static bool parse(struct query *q, int argc, char **argv, bool *help_out)
{
    static const char *const formats[] = {"csv", "json", NULL}, *const times[] = {"iso", "int",
                                                                                  NULL};
    const struct arg args[] = {
        {"--dir", ARG_TEXT, &q->store.dir, 0, 0, NULL},
        {"--table", ARG_TEXT, &q->table, 0, 0, NULL},
        {"--device", ARG_TEXT, &q->device, 0, 0, NULL},
        {"--where", ARG_LIST, &q->where, 0, 0, NULL},
        {"--columns", ARG_TEXT, &q->columns, 0, 0, NULL},
        {"--from", ARG_TEXT, &q->from, 0, 0, NULL},
        {"--to", ARG_TEXT, &q->to, 0, 0, NULL},
        {"--limit", ARG_COUNT, &q->limit, 0, INT64_MAX, NULL},
        {"--descending", ARG_FLAG, &q->descending, 0, 0, NULL},
        {"--format", ARG_CHOICE, &q->format, 0, 0, formats},
        {"--times", ARG_CHOICE, &q->times, 0, 0, times},
        {"--count", ARG_FLAG, &q->count, 0, 0, NULL},
        {"--wait", ARG_SECONDS, &q->store.lock_wait_ms, 0, 0, NULL},
    };
    return args_parse("query", argc, argv, args, sizeof args / sizeof args[0], NULL, help_out);
}

/* ---- columns ---- */

struct names {
    const char *table; /* whose columns are looked for */
    const char **item;
    size_t count, capacity;
    enum rf_category category; /* of those that are taken */
};

static int take_names(void *ctx, const struct rf_table_info *info)
{
    struct names *n = ctx;
    if (info->tree || strcmp(info->name, n->table) != 0) return 0;
    for (uint32_t i = 0; i < info->column_count; i++) {
        if (info->columns[i].category != n->category) continue;
        need_room(&n->item, &n->capacity, n->count + 1, sizeof *n->item);
        const char *name = info->columns[i].name;
        n->item[n->count++] = need_strndup(name, strlen(name));
    }
    return 0;
}

static void names_deinit(struct names *n)
{
    for (size_t i = 0; i < n->count; i++)
        mem_free((void *)(uintptr_t)n->item[i]);
    mem_free(n->item);
}

static bool has_name(const struct names *n, const char *name)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->item[i], name) == 0) return true;
    return false;
}

/* The fields that --columns names. Tags come with every row, so naming one asks for nothing. */
static void take_columns(struct rf_engine *engine, const struct query *q, struct names *fields)
{
    size_t count;
    struct names tags = {.table = q->table, .category = RF_TAG};
    struct text *pieces = split_commas(q->columns, &count);
    if (q->table != NULL) (void)rf_tables(engine, take_names, &tags);
    for (size_t i = 0; i < count; i++) {
        char *name = need_strndup(pieces[i].at, pieces[i].bytes);
        if (has_name(&tags, name)) {
            mem_free(name);
            continue;
        }
        need_room(&fields->item, &fields->capacity, fields->count + 1, sizeof *fields->item);
        fields->item[fields->count++] = name;
    }
    names_deinit(&tags);
    mem_free(pieces);
}

/* ---- printing ---- */

/* The header of an answer without rows: a table's columns are known all the same. */
static void print_bare_header(struct rf_engine *engine, const struct query *q,
                              const struct names *asked, const struct out *out)
{
    struct names all = {.table = q->table, .category = RF_TAG};
    if (q->table != NULL) {
        (void)rf_tables(engine, take_names, &all);
        all.category = RF_FIELD;
        if (q->columns == NULL) (void)rf_tables(engine, take_names, &all);
    }
    for (size_t i = 0; i < asked->count; i++) {
        need_room(&all.item, &all.capacity, all.count + 1, sizeof *all.item);
        all.item[all.count++] = need_strndup(asked->item[i], strlen(asked->item[i]));
    }
    out_csv_header(out, all.item, all.count);
    names_deinit(&all);
}

static void print_header(const struct rf_tablet *rows, const struct out *out)
{
    const char **names = need_zalloc((rows->columns + 1) * sizeof *names);
    for (uint32_t i = 0; i < rows->columns; i++)
        names[i] = rows->column[i].name;
    out_csv_header(out, names, rows->columns);
    mem_free(names);
}

static enum exit_code print_rows(struct store *store, const struct query *q,
                                 const struct rf_scan_options *scan, const struct names *asked)
{
    struct out out = {stdout, store->unit, q->times == 1};
    struct rf_error error = {0};
    struct rf_cursor *cursor;
    struct rf_tablet rows = {.size = sizeof rows};
    bool has_header = false;
    int rc = rf_scan_open(store->engine, scan, &cursor, &error);
    if (rc != 0) return report("query", rc, &error);
    while (!stop_requested() && (rc = rf_scan_next(cursor, &rows)) == 1) {
        if (q->format == FORMAT_JSON) {
            out_json_rows(&out, &rows);
            continue;
        }
        if (!has_header) print_header(&rows, &out);
        has_header = true;
        out_csv_rows(&out, &rows);
    }
    rf_scan_close(cursor);
    if (rc < 0) return report("query", rc, NULL);
    if (!has_header && q->format == FORMAT_CSV) print_bare_header(store->engine, q, asked, &out);
    return stop_requested() ? EXIT_STOPPED : EXIT_OK;
}

static enum exit_code print_count(struct store *store, const struct rf_scan_options *scan)
{
    struct rf_error error = {0};
    uint64_t rows;
    int rc = rf_count(store->engine, scan, &rows, &error);
    if (rc != 0) return report("query", rc, &error);
    printf("%" PRIu64 "\n", rows);
    return EXIT_OK;
}

static enum exit_code answer(struct store *store, const struct query *q,
                             const struct rf_scan_options *scan, const struct names *asked,
                             bool empty)
{
    if (!empty) return q->count ? print_count(store, scan) : print_rows(store, q, scan, asked);
    /* No time fits, but a table that is not there is an error all the same. */
    struct rf_error error = {0};
    struct rf_scan_options none = *scan;
    struct rf_cursor *cursor;
    none.limit = 0;
    int rc = rf_scan_open(store->engine, &none, &cursor, &error);
    if (rc != 0) return report("query", rc, &error);
    rf_scan_close(cursor);
    if (q->count)
        printf("0\n");
    else if (q->format == FORMAT_CSV)
        print_bare_header(store->engine, q, asked, &(struct out){stdout, store->unit, false});
    return EXIT_OK;
}

static enum exit_code run(struct query *q)
{
    struct store store;
    struct rf_scan_options scan;
    struct names asked = {0};
    struct rf_tag_filter *tags = NULL;
    char *memory = NULL;
    bool empty;

    if ((q->table == NULL) == (q->device == NULL))
        return usage("query", "either --table or --device is needed");
    if (!parse_where("query", &q->where, &tags, &memory)) return EXIT_USAGE;
    enum exit_code code = store_open("query", &q->store, &store);
    if (code == EXIT_OK && store.engine == NULL && q->count) printf("0\n");
    if (code != EXIT_OK || store.engine == NULL) goto free_tags;

    rf_scan_options_init(&scan);
    code = EXIT_USAGE;
    if (!parse_range("query", q->from, q->to, store.unit, &scan.time_from, &scan.time_to, &empty))
        goto close_store;
    if (q->columns != NULL) take_columns(store.engine, q, &asked);
    scan.table = q->table;
    scan.device = q->device;
    scan.tags = tags;
    scan.tag_count = (uint32_t)q->where.count;
    scan.columns = q->columns != NULL ? asked.item : NULL;
    scan.column_count = (uint32_t)asked.count;
    scan.limit = q->limit;
    scan.descending = q->descending;
    if (q->columns != NULL && asked.count == 0)
        code = usage("query", "--columns %s: tags are always printed; name a field", q->columns);
    else
        code = answer(&store, q, &scan, &asked, empty);
close_store:
    names_deinit(&asked);
    code = store_close("query", &store, code);
free_tags:
    mem_free(tags);
    mem_free(memory);
    return code;
}

enum exit_code command_query(int argc, char **argv)
{
    struct query q = {.limit = UINT64_MAX};
    bool wants_help;
    store_options_init(&q.store, RF_READ_ONLY);
    enum exit_code code = EXIT_USAGE;
    if (parse(&q, argc, argv, &wants_help)) {
        code = EXIT_OK;
        if (wants_help)
            fputs(help, stdout);
        else {
            setvbuf(stdout, NULL, _IOFBF, 1 << 18);
            stop_install();
            code = run(&q);
        }
        code = finish_stdout("query", code);
    }
    arg_list_deinit(&q.where);
    return code;
}
