#include "cli/bench_report.h"
#include "cli/commands.h"
#include "cli/memory.h"

#include "base/alloc.h"

static const char help[] =
    "usage: ringfence bench --dir DIR [OPTION]...\n"
    "\n"
    "Writes tablets into a new directory for some seconds, and says how fast that went: rates,\n"
    "percentiles of latency, what the device was given, CPU, and stalls with their causes. "
    "Nothing\n"
    "is measured before every image and segment of the log is ready. A run that outgrows the log\n"
    "frees the oldest of it as it goes.\n"
    "\n";

static const char examples[] =
    "\n"
    "Causes of a stall: device (the disk took long), room (the log was full), segment (the log\n"
    "had room, but the next segment was not ready), lease (it had run out), machine (this process\n"
    "got no CPU), earlier (a batch before it was late).\n"
    "\n"
    "examples\n"
    "  ringfence bench --dir bench.data\n"
    "  ringfence bench --dir bench.data --reuse --in-flight 1 --rows 1      one small durable "
    "record\n"
    "  ringfence bench --dir bench.data --reuse --rate 500 --json bench.json      open loop\n"
    "  ringfence bench --dir bench.data --reuse --sync async --values random --types DOUBLE,INT64\n"
    "  ringfence bench --dir fleet.data --replay examples/data/fleet.lp --rows 100\n";

static enum exit_code write_json(const struct bench_options *o, const struct bench_result *r)
{
    FILE *f = bench_file_open(o->command, o->json);
    if (f == NULL) return EXIT_ENVIRONMENT;
    struct json j = {f, false};
    json_open(&j, NULL, '{');
    bench_report_json(o, r, &j);
    json_close(&j, '}');
    json_end_line(&j);
    return bench_file_close(o->command, o->json, f, r->code);
}

static enum exit_code run(struct bench_options *o)
{
    struct bench_result *r = need_zalloc(sizeof *r);
    bench_run(o, NULL, r);
    enum exit_code code = r->code;
    bool ran = code == EXIT_OK || code == EXIT_STOPPED;
    bool json_on_stdout = o->json != NULL && strcmp(o->json, "-") == 0;
    if (ran && !json_on_stdout) bench_report_text(o, r, stdout);
    if (ran && o->json != NULL) code = write_json(o, r);
    bench_result_deinit(r);
    mem_free(r);
    return code;
}

enum exit_code command_bench(int argc, char **argv)
{
    static const struct bench_command command = {"bench", help, examples, run};
    return bench_command_run(&command, argc, argv);
}
