#include "cli/commands.h"
#include "cli/memory.h"
#include "cli/profile.h"

#include "base/alloc.h"

#include <inttypes.h>

static const char help[] =
    "usage: ringfence profile --dir DIR [OPTION]...\n"
    "\n"
    "The run of `ringfence bench`, with the time of every stage of the write path: a table of\n"
    "percentiles a stage, and of what the slowest 0.1 % of the batches spent their time on. The\n"
    "stages of a batch add up to the time from the call to its answer.\n"
    "\n"
    "  --trace FILE         the newest batches, and the slowest, for https://ui.perfetto.dev\n"
    "  --trace-batches 5000 how many of the newest\n"
    "  --svg FILE           a picture of both tables\n";

static const char examples[] =
    "\n"
    "stages: validate order split reserve lease copy checksum publish (the writer), queue submit\n"
    "device decide visible (the log's thread and the disk), wake (until the writer has the "
    "answer)\n"
    "\n"
    "examples\n"
    "  ringfence profile --dir bench.data\n"
    "  ringfence profile --dir bench.data --reuse --in-flight 1 --trace trace.json --svg "
    "stages.svg\n"
    "  ringfence profile --dir bench.data --reuse --rate 500 --seconds 30 --json profile.json\n";

struct profiling {
    struct profile_part *part;
};

static void take(void *ctx, uint32_t writer, bool counts, const struct rf_trace *t)
{
    struct profiling *p = ctx;
    if (!counts || t->code != 0) return;
    struct profile_batch b = {.start_ns = t->start_ns,
                              .position = t->position,
                              .writer = writer,
                              .lane = t->lane,
                              .code = t->code};
    for (int i = 0; i < RF_STAGES; i++) {
        b.stage_ns[i] = t->stage_ns[i];
        b.total_ns += t->stage_ns[i];
    }
    profile_part_add(&p->part[writer], &b);
}

/* ---- what is written ---- */

static enum exit_code write_json(const struct bench_options *o, const struct bench_result *r,
                                 const struct profile *p)
{
    FILE *f = bench_file_open(o->command, o->json);
    if (f == NULL) return EXIT_ENVIRONMENT;
    struct json j = {f, false};
    json_open(&j, NULL, '{');
    bench_report_json(o, r, &j);
    profile_json(p, &j);
    json_close(&j, '}');
    json_end_line(&j);
    return bench_file_close(o->command, o->json, f, EXIT_OK);
}

static enum exit_code write_svg(const struct bench_options *o, const struct bench_result *r,
                                const struct profile *p)
{
    static const char *const syncs[] = {"always", "async", "off"};
    char title[256];
    FILE *f = bench_file_open(o->command, o->svg);
    if (f == NULL) return EXIT_ENVIRONMENT;
    snprintf(title, sizeof title,
             "%" PRIu64 " batches of %" PRIu64 " rows x %" PRIu64 " columns, %" PRIu64
             " writer%s with %" PRIu64 " in flight each, sync %s, %s",
             p->batches, o->rows, o->columns, o->writers, o->writers == 1 ? "" : "s", o->in_flight,
             syncs[o->sync], r->after.backend != NULL ? r->after.backend : "none");
    profile_svg(p, title, f);
    return bench_file_close(o->command, o->svg, f, EXIT_OK);
}

static enum exit_code write_trace(const struct bench_options *o, const struct profiling *all,
                                  const struct profile *p, bool quiet)
{
    FILE *f = bench_file_open(o->command, o->trace);
    if (f == NULL) return EXIT_ENVIRONMENT;
    size_t batches = profile_trace(all->part, o->writers, p, o->in_flight == 1, f);
    enum exit_code code = bench_file_close(o->command, o->trace, f, EXIT_OK);
    if (code == EXIT_OK && !quiet)
        printf("trace     %zu batches in %s: open it in https://ui.perfetto.dev\n", batches,
               o->trace);
    return code;
}

static enum exit_code write_all(const struct bench_options *o, const struct bench_result *r,
                                const struct profiling *all)
{
    struct profile *p = need_zalloc(sizeof *p);
    bool quiet = (o->json != NULL && strcmp(o->json, "-") == 0) ||
                 (o->svg != NULL && strcmp(o->svg, "-") == 0) ||
                 (o->trace != NULL && strcmp(o->trace, "-") == 0);
    profile_sum(p, all->part, o->writers);
    if (!quiet) {
        bench_report_text(o, r, stdout);
        profile_text(p, stdout);
    }
    enum exit_code code = EXIT_OK, each;
    if (o->json != NULL && (each = write_json(o, r, p)) != EXIT_OK) code = each;
    if (o->svg != NULL && (each = write_svg(o, r, p)) != EXIT_OK) code = each;
    if (o->trace != NULL && (each = write_trace(o, all, p, quiet)) != EXIT_OK) code = each;
    profile_deinit(p);
    mem_free(p);
    return code != EXIT_OK ? code : r->code;
}

static enum exit_code run(struct bench_options *o)
{
    struct bench_result *r = need_zalloc(sizeof *r);
    struct profiling all = {need_zalloc(o->writers * sizeof(struct profile_part))};
    size_t newest = o->trace != NULL ? (o->trace_batches + o->writers - 1) / o->writers : 0;
    for (uint64_t i = 0; i < o->writers; i++)
        profile_part_init(&all.part[i], newest);
    const struct bench_trace trace = {take, &all};
    bench_run(o, &trace, r);
    enum exit_code code = r->code;
    if (code == EXIT_OK || code == EXIT_STOPPED) code = write_all(o, r, &all);
    for (uint64_t i = 0; i < o->writers; i++)
        profile_part_deinit(&all.part[i]);
    mem_free(all.part);
    bench_result_deinit(r);
    mem_free(r);
    return code;
}

enum exit_code command_profile(int argc, char **argv)
{
    static const struct bench_command command = {"profile", help, examples, run};
    return bench_command_run(&command, argc, argv);
}
