#include "cli/commands.h"
#include "cli/json.h"
#include "cli/loader.h"
#include "cli/memory.h"
#include "cli/stop.h"

#include "base/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "usage: ringfence load --dir DIR [OPTION]... FILE...\n"
    "\n"
    "Reads files, plain or gzip, or - for the standard input, and stores their rows. A row is "
    "known\n"
    "by its table, tags and time: loading a file twice leaves the data as it was. DIR is made when "
    "it\n"
    "is missing.\n"
    "\n"
    "  --dir DIR           the directory\n"
    "  --format lp|csv     lp: line protocol; csv when --table is given or all names end in .csv\n"
    "  --time-unit ns      unit of integers in the input: ns, us, ms, s; a new directory counts in "
    "it\n"
    "  --batch-rows 1000   lines that become one atomic batch\n"
    "  --writers 1         batches on their way at a time; the input's order is kept\n"
    "  --sync always       when a batch counts as stored. always: on stable storage;\n"
    "                      async: in memory, written behind; off: written when the load ends\n"
    "  --acks FILE         after each batch, a line with the number of leading input lines that "
    "are\n"
    "                      safely stored; after a kill that many are there\n"
    "  --skip-bad FILE     put lines that are refused into FILE and go on; without it, stop\n"
    "  --json              the summary as JSON\n"
    "\n"
    "CSV: the first line is the header\n"
    "  --table T           the table\n"
    "  --time COL          the time's column; time\n"
    "  --time-format F     its format, as strptime has it, and %f for a fraction; ISO 8601 or "
    "integer\n"
    "  --tags A,B          columns that are tags: they say whose a row is\n"
    "  --types C=INT64,... types of columns: BOOLEAN INT32 INT64 FLOAT DOUBLE TEXT STRING BLOB\n"
    "                      TIMESTAMP DATE; else the table's, else a number is DOUBLE, true and "
    "false\n"
    "                      BOOLEAN, all else STRING\n"
    "  --null ''           the text that stands for no value\n"
    "\n"
    "The directory\n"
    "  --memory SIZE       of the log's images, like 256M; 1G, or a quarter of the machine\n"
    "  --log-max SIZE      most that the log takes on disk; as much as the memory holds\n"
    "  --segment 64M       size of a log segment, of a new directory\n"
    "  --backend auto      of the log's writes: auto, uring, posix\n"
    "  --wait S            seconds to wait for a directory that is in use; 30\n"
    "  --write-wait S      seconds to wait for room in the log; 10\n"
    "\n"
    "Line protocol is measurement,tag=value field=value time: the measurement is the table; 5i is\n"
    "INT64, t and f BOOLEAN, \"text\" STRING, all else DOUBLE; the time must be there.\n"
    "\n"
    "A first ^C ends the load in order and says what is stored; a second one kills.\n"
    "\n"
    "examples\n"
    "  ringfence load --dir data metrics.lp\n"
    "  zcat old.lp.gz | ringfence load --dir data --writers 4 --acks acks.txt -\n"
    "  ringfence load --dir data --table temps --time date --time-format '%Y/%m/%d %H:%M:%S' \\\n"
    "      sf-temps-hourly.csv\n"
    "  ringfence load --dir data --skip-bad bad.lp metrics.lp && ls -l bad.lp\n";

struct load {
    struct store_options store;
    struct arg_list files;
    int format, time_unit, sync;
    uint64_t batch_rows, writers;
    const char *table, *tags, *time, *time_format, *null, *types;
    const char *acks, *bad;
    bool json;
    struct csv_type *csv_types; /* out of types */
    size_t csv_type_count;
};

enum { FORMAT_UNSET, FORMAT_LP, FORMAT_CSV };

static bool parse(struct load *l, int argc, char **argv, bool *help_out)
{
    static const char *const formats[] = {"", "lp", "csv", NULL};
    static const char *const units[] = {"ns", "us", "ms", "s", NULL};
    static const char *const syncs[] = {"always", "async", "off", NULL};
    static const char *const backends[] = {"auto", "uring", "posix", NULL};
    const uint64_t size_max = UINT64_C(1) << 50;
    const struct arg args[] = {
        {"--dir", ARG_TEXT, &l->store.dir, 0, 0, NULL},
        {"--format", ARG_CHOICE, &l->format, 0, 0, formats},
        {"--time-unit", ARG_CHOICE, &l->time_unit, 0, 0, units},
        {"--batch-rows", ARG_COUNT, &l->batch_rows, 1, 1 << 24, NULL},
        {"--writers", ARG_COUNT, &l->writers, 1, 64, NULL},
        {"--sync", ARG_CHOICE, &l->sync, 0, 0, syncs},
        {"--acks", ARG_TEXT, &l->acks, 0, 0, NULL},
        {"--skip-bad", ARG_TEXT, &l->bad, 0, 0, NULL},
        {"--json", ARG_FLAG, &l->json, 0, 0, NULL},
        {"--table", ARG_TEXT, &l->table, 0, 0, NULL},
        {"--time", ARG_TEXT, &l->time, 0, 0, NULL},
        {"--time-format", ARG_TEXT, &l->time_format, 0, 0, NULL},
        {"--tags", ARG_TEXT, &l->tags, 0, 0, NULL},
        {"--types", ARG_TEXT, &l->types, 0, 0, NULL},
        {"--null", ARG_TEXT, &l->null, 0, 0, NULL},
        {"--memory", ARG_BYTES, &l->store.memory_bytes, 1 << 20, size_max, NULL},
        {"--log-max", ARG_BYTES, &l->store.log_bytes_max, 1 << 20, size_max, NULL},
        {"--segment", ARG_BYTES, &l->store.segment_bytes, 1 << 20, 1 << 30, NULL},
        {"--backend", ARG_CHOICE, &l->store.backend, 0, 0, backends},
        {"--wait", ARG_SECONDS, &l->store.lock_wait_ms, 0, 0, NULL},
        {"--write-wait", ARG_SECONDS, &l->store.write_wait_ms, 0, 0, NULL},
    };
    return args_parse("load", argc, argv, args, sizeof args / sizeof args[0], &l->files, help_out);
}

/* ---- what goes together ---- */

static bool ends_with(const char *s, const char *end)
{
    size_t a = strlen(s), b = strlen(end);
    return a >= b && strcmp(s + a - b, end) == 0;
}

static void choose_format(struct load *l)
{
    if (l->format != FORMAT_UNSET) return;
    l->format = l->table != NULL ? FORMAT_CSV : FORMAT_LP;
    for (size_t i = 0; i < l->files.count && l->table == NULL; i++) {
        bool is_csv = ends_with(l->files.item[i], ".csv") || ends_with(l->files.item[i], ".csv.gz");
        l->format = is_csv ? FORMAT_CSV : FORMAT_LP;
        if (!is_csv) break;
    }
}

/* A file that is written must not be one that is read: emptied or growing under the reader. */
static bool is_an_input(const struct load *l, const char *written)
{
    struct stat a, b;
    if (written == NULL || stat(written, &a) != 0) return false;
    for (size_t i = 0; i < l->files.count; i++) {
        bool ok = strcmp(l->files.item[i], "-") == 0 ? fstat(STDIN_FILENO, &b) == 0
                                                     : stat(l->files.item[i], &b) == 0;
        if (ok && S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino) return true;
    }
    return false;
}

static enum exit_code check(struct load *l)
{
    if (l->store.dir == NULL) return usage("load", "--dir DIR is needed");
    if (l->files.count == 0) return usage("load", "name a file, or - for the standard input");
    choose_format(l);
    bool has_csv_option = l->table != NULL || l->tags != NULL || l->time != NULL ||
                          l->time_format != NULL || l->types != NULL || l->null != NULL;
    if (l->format == FORMAT_LP && has_csv_option)
        return usage("load", "--table, --tags, --time, --time-format, --types and --null are for "
                             "--format csv");
    if (l->format == FORMAT_CSV && l->table == NULL) return usage("load", "CSV needs --table T");
    struct bad bad = {0};
    if (l->table != NULL && !text_check_name(text_of(l->table), "table", 0, &bad))
        return usage("load", "--table: %s", bad.why);
    if (is_an_input(l, l->acks)) return usage("load", "--acks %s is an input file", l->acks);
    if (is_an_input(l, l->bad)) return usage("load", "--skip-bad %s is an input file", l->bad);
    return EXIT_OK;
}

/* ---- CSV's options ---- */

struct known {
    const char *table;
    struct csv_type *type;
    size_t count, capacity;
};

static int take_known(void *ctx, const struct rf_table_info *info)
{
    struct known *k = ctx;
    if (info->tree || strcmp(info->name, k->table) != 0) return 0;
    for (uint32_t i = 0; i < info->column_count; i++) {
        const struct rf_column_def *c = &info->columns[i];
        if (c->category != RF_FIELD) continue;
        need_room(&k->type, &k->capacity, k->count + 1, sizeof *k->type);
        size_t bytes = strlen(c->name);
        k->type[k->count++] = (struct csv_type){{need_strndup(c->name, bytes), bytes}, c->type};
    }
    return 0;
}

static enum exit_code parse_types(struct load *l)
{
    size_t count;
    if (l->types == NULL) return EXIT_OK;
    struct text *pieces = split_commas(l->types, &count);
    struct csv_type *types = need_zalloc(count * sizeof *types);
    enum exit_code code = EXIT_OK;
    for (size_t i = 0; i < count && code == EXIT_OK; i++) {
        const char *equals = memrchr(pieces[i].at, '=', pieces[i].bytes);
        struct text name = {pieces[i].at, equals != NULL ? (size_t)(equals - pieces[i].at) : 0};
        types[i].column = name;
        if (equals == NULL || name.bytes == 0) {
            code = usage("load", "--types %s: column=TYPE,... is expected", l->types);
            break;
        }
        struct text type = {equals + 1, pieces[i].bytes - name.bytes - 1};
        if (!type_from_name(type, &types[i].type))
            code = usage("load", "--types: there is no type \"%.*s\"", (int)type.bytes, type.at);
    }
    mem_free(pieces);
    l->csv_types = types;
    l->csv_type_count = count;
    return code;
}

static enum exit_code make_csv(const struct load *l, const struct store *store,
                               struct csv_options *csv, struct known *known)
{
    struct text *tags = NULL;
    *csv = (struct csv_options){
        .table = text_of(l->table),
        .time = text_of(l->time != NULL ? l->time : "time"),
        .time_format = {(enum time_unit)l->time_unit, store->unit, TIME_EXACT, l->time_format},
        .null = text_of(l->null != NULL ? l->null : ""),
        .types = l->csv_types,
        .type_count = l->csv_type_count,
    };
    if (l->tags != NULL) tags = split_commas(l->tags, &csv->tag_count);
    csv->tags = tags;
    known->table = l->table;
    int rc = rf_tables(store->engine, take_known, known);
    csv->known = known->type;
    csv->known_count = known->count;
    return rc == 0 ? EXIT_OK : report("load", rc, NULL);
}

static void free_csv(struct csv_options *csv, struct known *known)
{
    mem_free((void *)(uintptr_t)csv->tags);
    for (size_t i = 0; i < known->count; i++)
        mem_free((void *)(uintptr_t)known->type[i].column.at);
    mem_free(known->type);
}

/* ---- the summary ---- */

static double ms(const struct load_result *r, double q)
{
    return (double)hist_quantile(&r->latency, q) / 1e6;
}

static const char *stored_how(const struct load *l)
{
    static const char *const how[] = {
        "on stable storage when acknowledged",
        "acknowledged in memory, on stable storage now",
        "acknowledged in memory, on stable storage now",
    };
    return how[l->sync];
}

static void print_summary(const struct load *l, const struct load_result *r)
{
    double seconds = (double)r->ns / 1e9;
    printf("loaded  %" PRIu64 " rows, %" PRIu64 " points in %" PRIu64 " batches, from %" PRIu64
           " lines\n",
           r->rows, r->points, r->batches, r->lines);
    if (r->lines_bad > 0) printf("skipped %" PRIu64 " lines, kept in %s\n", r->lines_bad, l->bad);
    printf("took    %.3f s: %.0f rows/s, %.0f points/s\n", seconds, (double)r->rows / seconds,
           (double)r->points / seconds);
    printf("latency of a batch p50 %.2f ms, p99 %.2f ms, max %.2f ms\n", ms(r, 0.5), ms(r, 0.99),
           ms(r, 1));
    printf("stored  in %s, %s\n", l->store.dir, stored_how(l));
    if (r->table[0] == '\0') return;
    printf("next    ringfence query --dir '%s' --table '%s' --limit 5\n", l->store.dir, r->table);
}

static void print_json(const struct load *l, const struct load_result *r)
{
    struct json j = {stdout, false};
    double seconds = (double)r->ns / 1e9;
    json_open(&j, NULL, '{');
    json_string(&j, "dir", l->store.dir);
    json_i64(&j, "exit_code", r->code);
    if (r->why[0] != '\0') json_string(&j, "error", r->why);
    json_u64(&j, "rows", r->rows);
    json_u64(&j, "points", r->points);
    json_u64(&j, "batches", r->batches);
    json_u64(&j, "lines_stored", r->lines);
    json_u64(&j, "lines_skipped", r->lines_bad);
    json_double(&j, "seconds", seconds);
    json_double(&j, "rows_per_second", (double)r->rows / seconds);
    json_double(&j, "points_per_second", (double)r->points / seconds);
    json_double(&j, "latency_p50_ms", ms(r, 0.5));
    json_double(&j, "latency_p99_ms", ms(r, 0.99));
    json_double(&j, "latency_max_ms", ms(r, 1));
    json_close(&j, '}');
    json_end_line(&j);
}

static void print_ending(const struct load_result *r)
{
    if (r->code == EXIT_STOPPED)
        fprintf(stderr, "ringfence load: stopped by a signal\n");
    else
        fprintf(stderr, "ringfence load: %s\n", r->why);
    if (r->advice != NULL) fprintf(stderr, "ringfence load: %s\n", r->advice);
    fprintf(stderr,
            "ringfence load: the first %" PRIu64 " lines of the input are stored (%" PRIu64
            " rows in %" PRIu64 " batches)%s\n",
            r->lines, r->rows, r->batches,
            r->code == EXIT_STOPPED ? "; the same command goes on: nothing is stored twice" : "");
}

/* ---- running ---- */

static enum exit_code load_into(const struct load *l, struct store *store)
{
    struct csv_options csv = {0};
    struct known known = {0};
    struct load_options o = {
        .files = l->files.item,
        .file_count = l->files.count,
        .csv = l->format == FORMAT_CSV ? &csv : NULL,
        .time = {(enum time_unit)l->time_unit, store->unit, TIME_EXACT, NULL},
        .batch_rows = l->batch_rows,
        .writers = l->writers,
        .is_durable = l->store.sync == RF_SYNC_ALWAYS,
        .wait_ms = l->store.write_wait_ms >= 0 ? l->store.write_wait_ms : 10000,
        .acks_file = l->acks,
        .bad_file = l->bad,
        .wants_progress = !l->json,
    };
    enum exit_code code = o.csv != NULL ? make_csv(l, store, &csv, &known) : EXIT_OK;
    if (code == EXIT_OK) {
        struct load_result *r = need_zalloc(sizeof *r);
        load_run(store->engine, &o, r);
        code = r->code;
        if (code != EXIT_OK) print_ending(r);
        if (l->json)
            print_json(l, r);
        else if (code == EXIT_OK)
            print_summary(l, r);
        mem_free(r);
    }
    free_csv(&csv, &known);
    return code;
}

static enum exit_code run(struct load *l)
{
    struct store store;
    static const enum rf_time_unit made_in[] = {RF_TIME_NS, RF_TIME_US, RF_TIME_MS, RF_TIME_NS};
    enum exit_code code = check(l);
    if (code == EXIT_OK) code = parse_types(l);
    if (code != EXIT_OK) return code;
    l->store.unit = made_in[l->time_unit];
    l->store.sync = (enum rf_sync)l->sync;
    stop_install();
    code = store_open("load", &l->store, &store);
    if (code != EXIT_OK) return code;
    code = load_into(l, &store);
    return store_close("load", &store, code);
}

enum exit_code command_load(int argc, char **argv)
{
    struct load l = {.batch_rows = 1000, .writers = 1};
    bool wants_help;
    store_options_init(&l.store, RF_CREATE);
    enum exit_code code = EXIT_USAGE;
    if (parse(&l, argc, argv, &wants_help)) {
        code = EXIT_OK;
        if (wants_help)
            fputs(help, stdout);
        else
            code = run(&l);
        code = finish_stdout("load", code);
    }
    arg_list_deinit(&l.files);
    mem_free(l.csv_types);
    return code;
}
