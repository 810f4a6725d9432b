#include "cli/commands.h"
#include "cli/dump_files.h"
#include "cli/dump_walk.h"
#include "cli/memory.h"

#include "base/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static const char help[] = "usage: ringfence dump --dir DIR [OPTION]...\n"
                           "\n"
                           "Prints the log record by record, with offsets, as it lies in the "
                           "files: it reads them by itself,\n"
                           "as docs/format/wal.md says, and opens nothing. It goes on behind "
                           "damage. Exits with 1 when there\n"
                           "is any.\n"
                           "\n"
                           "  --dir DIR   the directory\n"
                           "  --lane N    this lane alone; all\n"
                           "  --payloads  with tables, columns and devices of each batch, by their "
                           "numbers in the catalog\n"
                           "  --rows      and with every row\n"
                           "  --wait S    seconds to wait for a directory that is in use; 1\n"
                           "\n"
                           "examples\n"
                           "  ringfence dump --dir data | less\n"
                           "  ringfence dump --dir data --rows | grep 'device (\"h1\"'\n";

struct dump {
    const char *dir;
    uint64_t lane; /* UINT64_MAX: all */
    bool payloads, rows;
    int64_t wait_ms;
    uint64_t faults;
};

__attribute__((format(printf, 2, 3))) static void fault(struct dump *d, const char *fmt, ...)
{
    va_list args;
    d->faults++;
    fputs("fault: ", stdout);
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

static enum exit_code report_msg(const struct err_msg *msg)
{
    struct rf_error error = {.code = msg->code};
    snprintf(error.text, sizeof error.text, "%.*s", (int)sizeof error.text - 1, msg->text);
    return report("dump", msg->code, &error);
}

/* ---- the manifest ---- */

static void print_manifest(const struct dump_manifest *m, size_t bytes)
{
    printf("manifest, %zu bytes, sequence %" PRIu64 ", uuid ", bytes, m->sequence);
    for (size_t i = 0; i < sizeof m->uuid; i++)
        printf("%02x", m->uuid[i]);
    printf("\n  segments of %" PRIu64 " bytes, blocks of %" PRIu32 ", %" PRIu32 " lanes, %" PRIu32
           " regions, time unit %s\n",
           m->segment_bytes, m->block_bytes, m->lanes, m->regions,
           timefmt_unit_name((enum time_unit)m->time_unit));
    printf("  partition interval %" PRId64 ", catalog generation %" PRIu64
           ", version obeyed %" PRIu64 ", %" PRIu32 " sealed, %" PRIu32 " deletes kept\n",
           m->partition_interval, m->catalog_generation, m->version_obeyed, m->sealed_count,
           m->delete_count);
    for (uint32_t i = 0; i < m->lanes; i++)
        printf("  lane-%02" PRIu32 " begins with segment %" PRIu64 "\n", i, m->head[i]);
}

static enum exit_code read_manifest(struct dump *d, struct dump_files *files,
                                    struct dump_manifest *m)
{
    struct err_msg msg = {0};
    struct dump_file file;
    struct bad why = {0};
    int rc = dump_files_map(files, "manifest", &file, &msg);
    if (rc == -ENOENT) {
        fprintf(stderr,
                "ringfence dump: %s has no manifest: its creation did not finish, or it is "
                "not a Ringfence directory\n",
                d->dir);
        return EXIT_ENVIRONMENT;
    }
    if (rc != 0) return report_msg(&msg);
    bool ok = dump_manifest_decode(file.at, file.bytes, m, &why);
    if (ok)
        print_manifest(m, file.bytes);
    else
        fault(d, "manifest offset %zu: %s", why.column, why.why);
    dump_file_unmap(&file);
    return ok ? EXIT_OK : EXIT_REFUSED;
}

/* ---- a lane ---- */

/* Of two valid copies the one of the higher generation counts; one is enough. */
static bool choose_header(struct dump *d, const struct dump_manifest *m, uint32_t lane,
                          const struct dump_file *file, struct dump_header *out)
{
    struct dump_header copy[2];
    struct bad why[2] = {0};
    size_t last = m->segment_bytes - m->block_bytes;
    bool first_ok = dump_header_decode(file->at, m, lane, file->number, &copy[0], &why[0]);
    bool last_ok = dump_header_decode(file->at + last, m, lane, file->number, &copy[1], &why[1]);
    if (first_ok != last_ok)
        printf("lane-%02" PRIu32 "/%010" PRIu64 " one copy of the header is not valid: offset %zu: "
               "%s\n",
               lane, file->number, first_ok ? last + why[1].column : why[0].column,
               first_ok ? why[1].why : why[0].why);
    if (!first_ok && !last_ok) {
        fault(d, "lane-%02" PRIu32 "/%010" PRIu64 " offset %zu: no valid header: %s", lane,
              file->number, why[0].column, why[0].why);
        return false;
    }
    bool use_first = first_ok && (!last_ok || copy[0].generation >= copy[1].generation);
    *out = copy[use_first ? 0 : 1];
    return true;
}

/* The segments from the head on, as far as they follow each other and can be read. */
static size_t take_segments(struct dump *d, const struct dump_manifest *m, uint32_t lane,
                            const struct dump_file *list, size_t count, struct dump_segment *out)
{
    size_t taken = 0;
    if (count == 0 || list[0].number != m->head[lane])
        fault(d, "lane-%02" PRIu32 ": the head, segment %" PRIu64 ", is missing", lane,
              m->head[lane]);
    for (size_t i = 0; i < count; i++) {
        struct dump_segment segment = {.number = list[i].number, .bytes = list[i].at};
        if (i > 0 && list[i].number != list[i - 1].number + 1)
            fault(d, "lane-%02" PRIu32 ": a gap between segments %" PRIu64 " and %" PRIu64, lane,
                  list[i - 1].number, list[i].number);
        if (list[i].bytes != m->segment_bytes) {
            fault(d, "lane-%02" PRIu32 "/%010" PRIu64 ": %zu bytes, expected %" PRIu64, lane,
                  list[i].number, list[i].bytes, m->segment_bytes);
            continue;
        }
        if (choose_header(d, m, lane, &list[i], &segment.header)) out[taken++] = segment;
    }
    return taken;
}

/* Walks each run of segments without a gap: behind a missing one there may still be records. */
static void walk_runs(struct dump *d, struct dump_lane *lane, const struct dump_segment *segment,
                      size_t count)
{
    for (size_t from = 0, i = 1; from < count; i++) {
        if (i < count && segment[i].number == segment[i - 1].number + 1) continue;
        struct dump_result result;
        lane->segment = segment + from;
        lane->count = i - from;
        dump_lane_print(stdout, lane, &result);
        d->faults += result.faults;
        printf("lane-%02" PRIu32 ": %" PRIu64 " records, %" PRIu64 " behind the end, %s\n",
               lane->index, result.records, result.discarded,
               result.faults > 0 ? "damaged"
               : result.clean    ? "clean"
                                 : "not closed in order");
        from = i;
    }
}

static enum exit_code dump_lane(struct dump *d, struct dump_files *files,
                                const struct dump_manifest *m, uint32_t index)
{
    struct err_msg msg = {0};
    struct dump_file *list;
    size_t count;
    int rc = dump_files_lane(files, index, m->head[index], &list, &count, &msg);
    if (rc == -ENOENT) {
        fault(d, "lane-%02" PRIu32 " is missing", index);
        return EXIT_OK;
    }
    if (rc != 0) return report_msg(&msg);
    struct dump_lane lane = {
        .manifest = m, .index = index, .payloads = d->payloads, .rows = d->rows};
    struct dump_segment *segment = need_zalloc((count + 1) * sizeof *segment);
    walk_runs(d, &lane, segment, take_segments(d, m, index, list, count, segment));
    mem_free(segment);
    dump_lane_free(list, count);
    return EXIT_OK;
}

static enum exit_code run(struct dump *d)
{
    struct err_msg msg = {0};
    struct dump_files files;
    struct dump_manifest m;
    if (d->dir == NULL) return usage("dump", "--dir DIR is needed");
    if (dump_files_open(d->dir, d->wait_ms, &files, &msg) != 0) return report_msg(&msg);
    enum exit_code code = read_manifest(d, &files, &m);
    if (code == EXIT_OK && d->lane != UINT64_MAX && d->lane >= m.lanes)
        code = usage("dump", "--lane: there are %" PRIu32 " lanes", m.lanes);
    for (uint32_t i = 0; code == EXIT_OK && i < m.lanes; i++)
        if (d->lane == UINT64_MAX || d->lane == i) code = dump_lane(d, &files, &m, i);
    dump_files_close(&files);
    return code == EXIT_OK && d->faults > 0 ? EXIT_REFUSED : code;
}

enum exit_code command_dump(int argc, char **argv)
{
    struct dump d = {.lane = UINT64_MAX, .wait_ms = 1000};
    bool wants_help;
    const struct arg args[] = {
        {"--dir", ARG_TEXT, &d.dir, 0, 0, NULL},
        {"--lane", ARG_COUNT, &d.lane, 0, 15, NULL},
        {"--payloads", ARG_FLAG, &d.payloads, 0, 0, NULL},
        {"--rows", ARG_FLAG, &d.rows, 0, 0, NULL},
        {"--wait", ARG_SECONDS, &d.wait_ms, 0, 0, NULL},
    };
    if (!args_parse("dump", argc, argv, args, sizeof args / sizeof args[0], NULL, &wants_help))
        return EXIT_USAGE;
    enum exit_code code = EXIT_OK;
    if (wants_help)
        fputs(help, stdout);
    else
        code = run(&d);
    return finish_stdout("dump", code);
}
