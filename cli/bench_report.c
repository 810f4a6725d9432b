#include "cli/bench_report.h"

#include "cli/row.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/utsname.h>
#include <unistd.h>

const struct bench_percentile bench_percentiles[PERCENTILES] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1}};

static const char *const sync_names[] = {"always", "async", "off"};
static const char *const shape_names[] = {"constant", "walk", "random"};

FILE *bench_file_open(const char *command, const char *file)
{
    FILE *f = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
    if (f == NULL) fprintf(stderr, "ringfence %s: %s: %s\n", command, file, rf_strerror(-errno));
    return f;
}

enum exit_code bench_file_close(const char *command, const char *file, FILE *f,
                                enum exit_code so_far)
{
    if (f == stdout) return finish_stdout(command, so_far);
    bool failed = ferror(f) != 0;
    failed = fclose(f) != 0 || failed;
    if (!failed) return so_far;
    fprintf(stderr, "ringfence %s: %s: %s\n", command, file, rf_strerror(-errno));
    return so_far != EXIT_OK ? so_far : EXIT_ENVIRONMENT;
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

double bench_cpu_seconds(const struct rusage *before, const struct rusage *after)
{
    return seconds_of(after->ru_utime) - seconds_of(before->ru_utime) +
           seconds_of(after->ru_stime) - seconds_of(before->ru_stime);
}

/* ---- what is worked out of the counts ---- */

struct figures {
    double seconds, points_per_s, batches_per_s, bytes_per_s;
    double written_per_given, batches_per_write, cpu_per_million, switches_per_batch;
    uint64_t device_writes, device_syncs, device_bytes;
};

/* The counters of the engine are read a moment beside those of the writers: what the device did is
 * set against what the engine counted in the same time. */
static struct figures work_out(const struct bench_result *r)
{
    const struct rf_stats *a = &r->before, *b = &r->after;
    const struct rusage *u = &r->usage_before, *v = &r->usage_after;
    double seconds = (double)r->ns / 1e9;
    double share = bench_ratio((double)(b->points - a->points), (double)r->points);
    uint64_t batches = b->batches - a->batches;
    return (struct figures){
        .seconds = seconds,
        .points_per_s = bench_ratio((double)r->points, seconds),
        .batches_per_s = bench_ratio((double)r->batches, seconds),
        .bytes_per_s = bench_ratio((double)r->bytes, seconds),
        .device_writes = b->device_writes - a->device_writes,
        .device_syncs = b->device_syncs - a->device_syncs,
        .device_bytes = b->device_bytes - a->device_bytes,
        .written_per_given =
            bench_ratio((double)(b->device_bytes - a->device_bytes), share * (double)r->bytes),
        .batches_per_write =
            bench_ratio((double)batches, (double)(b->device_writes - a->device_writes)),
        .cpu_per_million =
            bench_ratio(bench_cpu_seconds(u, v) * 1e6, (double)(b->points - a->points)),
        .switches_per_batch = bench_ratio(
            (double)(v->ru_nvcsw - u->ru_nvcsw + v->ru_nivcsw - u->ru_nivcsw), (double)batches),
    };
}

/* ---- for people ---- */

static void print_what(const struct bench_options *o, const struct bench_result *r, FILE *f)
{
    fprintf(f, "what      %" PRIu64 " writer%s, ", o->writers, o->writers == 1 ? "" : "s");
    if (o->rate != 0) fprintf(f, "%" PRIu64 " batches/s offered, ", o->rate);
    fprintf(f, "%" PRIu64 " in flight each", o->in_flight);
    if (o->replay != NULL)
        fprintf(f, "; %s in tablets of %" PRIu64 " lines\n", o->replay, o->rows);
    else
        fprintf(f, "; %" PRIu64 " rows x %" PRIu64 " columns (%s, %s), %" PRIu64 " device%s\n",
                o->rows, o->columns, o->types != NULL ? o->types : "DOUBLE", shape_names[o->shape],
                o->devices, o->devices == 1 ? "" : "s");
    fprintf(f,
            "engine    sync %s, %s, %s, %" PRIu64 " writes deep, %" PRIu32 " lane%s, %" PRIu64
            " MiB of images\n",
            sync_names[o->sync], r->after.backend != NULL ? r->after.backend : "none",
            o->buffered ? "buffered" : "direct", o->depth, r->after.lanes,
            r->after.lanes == 1 ? "" : "s", r->after.memory_bytes >> 20);
    fprintf(f, "prepared  %.2f s, until every image and segment was ready\n",
            (double)r->prepared_ns / 1e9);
}

static void print_stalls(const struct bench_options *o, const struct bench_result *r, FILE *f)
{
    enum { LINES = 10 };
    fprintf(f, "stalls    %zu longer than %" PRId64 " ms, %" PRIu64 " batches in them\n",
            r->stall_count, o->stall_ms, r->slow_batches);
    for (size_t i = 0; i < r->stall_count && i < LINES; i++) {
        const struct bench_stall *s = &r->stall[i];
        fprintf(f, "            at %.3f s, %.1f ms, %" PRIu64 " batches: %s\n",
                (double)s->at_ns / 1e9, (double)s->took_ns / 1e6, s->batches, s->cause);
    }
    if (r->stall_count > LINES) fprintf(f, "            and so on; --json has all\n");
}

void bench_report_text(const struct bench_options *o, const struct bench_result *r, FILE *f)
{
    struct figures x = work_out(r);
    print_what(o, r, f);
    fprintf(f,
            "took      %.3f s after %.1f s of warm-up: %" PRIu64 " batches, %" PRIu64 " points\n",
            x.seconds, (double)o->warmup_ms / 1e3, r->batches, r->points);
    fprintf(f, "rate      %.3f million points/s, %.0f batches/s, %.1f MB/s given\n",
            x.points_per_s / 1e6, x.batches_per_s, x.bytes_per_s / 1e6);
    fprintf(f, "latency  ");
    for (int i = 0; i < PERCENTILES; i++)
        fprintf(f, " %s %.3f", bench_percentiles[i].name,
                (double)hist_quantile(&r->latency, bench_percentiles[i].quantile) / 1e6);
    fprintf(f, " ms\n");
    fprintf(f,
            "device    %.3f bytes written per byte given, %.2f batches a write; %" PRIu64
            " writes, %" PRIu64 " syncs, %.1f MB/s\n",
            x.written_per_given, x.batches_per_write, x.device_writes, x.device_syncs,
            bench_ratio((double)x.device_bytes / 1e6, x.seconds));
    fprintf(f, "cpu       %.4f s per million points, %.2f context switches a batch\n",
            x.cpu_per_million, x.switches_per_batch);
    if (r->flush_ns > 0 && o->sync != RF_SYNC_ALWAYS)
        fprintf(f, "flush     %.3f s at the end, until all was on stable storage\n",
                (double)r->flush_ns / 1e9);
    if (r->fences > 0) fprintf(f, "lease     fenced %" PRIu64 " times\n", r->fences);
    if (r->refused + r->unknown > 0)
        fprintf(f, "refused   %" PRIu64 " batches, outcome unknown of %" PRIu64 "\n", r->refused,
                r->unknown);
    if (r->not_begun > 0)
        fprintf(f, "too late  %" PRIu64 " batches that were offered had not begun at the end\n",
                r->not_begun);
    if (r->trims > 0)
        fprintf(f, "log       trimmed %" PRIu64 " times: the run outgrew it\n", r->trims);
    uint64_t late = r->after.segments_late - r->before.segments_late;
    if (late > 0)
        fprintf(f, "segments  %" PRIu64 " were not ready yet when a writer came to them\n", late);
    print_stalls(o, r, f);
    fprintf(f, "data      stays in %s\n", o->dir);
}

/* ---- JSON ---- */

static void put_options(const struct bench_options *o, struct json *j)
{
    static const char *const backends[] = {"auto", "uring", "posix"};
    json_open(j, "options", '{');
    json_u64(j, "writers", o->writers);
    json_u64(j, "in_flight", o->in_flight);
    json_u64(j, "rate", o->rate);
    json_double(j, "seconds", (double)o->seconds_ms / 1e3);
    json_double(j, "warmup", (double)o->warmup_ms / 1e3);
    json_u64(j, "points", o->points);
    json_u64(j, "seed", o->seed);
    json_u64(j, "rows", o->rows);
    json_u64(j, "columns", o->columns);
    json_string(j, "types", o->types != NULL ? o->types : "DOUBLE");
    json_u64(j, "text_bytes", o->text_bytes);
    json_string(j, "values", shape_names[o->shape]);
    json_double(j, "nulls", o->nulls);
    json_u64(j, "devices", o->devices);
    json_u64(j, "tablet_devices", o->tablet_devices);
    json_u64(j, "partitions", o->partitions);
    json_double(j, "out_of_order", o->out_of_order);
    json_string(j, "model", o->model == MODEL_TREE ? "tree" : "table");
    if (o->replay != NULL) json_string(j, "replay", o->replay);
    json_string(j, "sync", sync_names[o->sync]);
    json_string(j, "lease", o->lease == 1 ? "off" : "on");
    json_double(j, "fence_every", (double)o->fence_every_ms / 1e3);
    json_string(j, "backend", backends[o->backend]);
    json_bool(j, "buffered", o->buffered);
    json_u64(j, "depth", o->depth);
    json_u64(j, "lanes", o->lanes);
    json_close(j, '}');
}

static void put_machine(struct json *j)
{
    struct utsname u;
    json_open(j, "machine", '{');
    if (uname(&u) == 0) {
        json_string(j, "kernel", u.release);
        json_string(j, "processor", u.machine);
    }
    json_i64(j, "cores", sysconf(_SC_NPROCESSORS_ONLN));
    json_i64(j, "memory_bytes", sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    json_close(j, '}');
}

static void put_stalls(const struct bench_options *o, const struct bench_result *r, struct json *j)
{
    json_open(j, "stalls", '{');
    json_double(j, "limit_ms", (double)o->stall_ms);
    json_u64(j, "slow_batches", r->slow_batches);
    json_open(j, "stalls", '[');
    for (size_t i = 0; i < r->stall_count; i++) {
        const struct bench_stall *s = &r->stall[i];
        json_open(j, NULL, '{');
        json_double(j, "at_seconds", (double)s->at_ns / 1e9);
        json_double(j, "ms", (double)s->took_ns / 1e6);
        json_u64(j, "batches", s->batches);
        json_string(j, "cause", s->cause);
        json_close(j, '}');
    }
    json_close(j, ']');
    json_close(j, '}');
}

static void put_counts(const struct bench_result *r, struct json *j)
{
    struct figures x = work_out(r);
    json_double(j, "prepared_seconds", (double)r->prepared_ns / 1e9);
    json_double(j, "seconds", x.seconds);
    json_u64(j, "batches", r->batches);
    json_u64(j, "rows", r->rows);
    json_u64(j, "points", r->points);
    json_u64(j, "bytes_given", r->bytes);
    json_double(j, "points_per_second", x.points_per_s);
    json_double(j, "batches_per_second", x.batches_per_s);
    json_double(j, "bytes_given_per_second", x.bytes_per_s);
    json_u64(j, "device_writes", x.device_writes);
    json_u64(j, "device_syncs", x.device_syncs);
    json_u64(j, "device_bytes", x.device_bytes);
    json_double(j, "bytes_written_per_byte_given", x.written_per_given);
    json_double(j, "batches_per_device_write", x.batches_per_write);
    json_double(j, "cpu_seconds", bench_cpu_seconds(&r->usage_before, &r->usage_after));
    json_double(j, "cpu_seconds_per_million_points", x.cpu_per_million);
    json_double(j, "context_switches_per_batch", x.switches_per_batch);
    json_double(j, "flush_seconds", (double)r->flush_ns / 1e9);
    json_u64(j, "refused", r->refused);
    json_u64(j, "unknown", r->unknown);
    json_u64(j, "not_begun", r->not_begun);
    json_u64(j, "fences", r->fences);
    json_u64(j, "trims", r->trims);
    json_u64(j, "segments_late", r->after.segments_late - r->before.segments_late);
    json_u64(j, "room_waits", r->after.room_waits - r->before.room_waits);
}

void bench_report_json(const struct bench_options *o, const struct bench_result *r, struct json *j)
{
    json_string(j, "command", o->command);
    json_string(j, "version", rf_version());
    json_i64(j, "exit_code", r->code);
    put_machine(j);
    put_options(o, j);
    json_string(j, "backend", r->after.backend != NULL ? r->after.backend : "none");
    put_counts(r, j);
    json_open(j, "latency_us", '{');
    for (int i = 0; i < PERCENTILES; i++)
        json_double(j, bench_percentiles[i].name,
                    (double)hist_quantile(&r->latency, bench_percentiles[i].quantile) / 1e3);
    json_double(j, "mean", hist_mean(&r->latency) / 1e3);
    json_u64(j, "count", hist_count(&r->latency));
    json_close(j, '}');
    put_stalls(o, r, j);
    json_open(j, "points_each_second", '[');
    for (size_t i = 0; i < r->second_count; i++)
        json_u64(j, NULL, r->second[i].points);
    json_close(j, ']');
}
