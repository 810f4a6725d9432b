/* Replay, and an engine at rest. */
#include "bench/macro/bench.h"

#include "base/alloc.h"
#include "io/io.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEGMENT_BYTES   (64 * MIB)
#define SEGMENTS_MAX    64u
#define READ_BYTES      (1u << 20)
#define READS_IN_FLIGHT 8u

struct replay_side {
    char dir[BENCH_PATH_BYTES];
    uint64_t batches;
};

/* ---- replay ---- */

static void measure_replay(void *ctx, struct sample *out)
{
    struct replay_side *side = ctx;
    struct rf_options options;
    struct rf_engine *engine;
    struct rf_error error = {.code = 0};
    rf_options_init(&options);
    options.memory_bytes = 20 * 80 * MIB;
    double cpu = cpu_seconds();
    check_rc(rf_open(side->dir, &options, &engine, &error), "open for replay", &error);
    cpu = cpu_seconds() - cpu;
    struct rf_stats s = {.size = sizeof s};
    check_rc(rf_stats(engine, &s), "rf_stats", NULL);
    if (s.replayed_batches < side->batches) die("replay found fewer batches than were written");
    *out = (struct sample){.value = (double)(s.segments * SEGMENT_BYTES) / 1e6 /
                                    ((double)s.replay_ns / 1e9)};
    check_rc(rf_close(engine), "close after replay", NULL);
    (void)cpu;
}

/* ---- reading alone ---- */

struct reading {
    struct io_env *env;
    struct io_queue *queue;
    struct io_file *file[SEGMENTS_MAX];
    uint8_t *image[SEGMENTS_MAX];
    uint32_t count;
};

static void open_segments(struct reading *r, const char *dir)
{
    char lane[BENCH_PATH_BYTES];
    path_join(lane, dir, "lane-00");
    DIR *folder = opendir(lane);
    if (folder == NULL) die("%s can't be read", lane);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || r->count == SEGMENTS_MAX) continue;
        char path[BENCH_PATH_BYTES];
        path_join(path, "lane-00", entry->d_name);
        check_rc(io_open(r->env, path, IO_READ | IO_WRITE | IO_DIRECT, &r->file[r->count]), path,
                 NULL);
        r->count++;
    }
    closedir(folder);
}

/* The way of replay: each segment synced, then 1 MiB reads, eight in flight, into fresh images. */
static void read_segments(struct reading *r)
{
    uint64_t reads = r->count * (SEGMENT_BYTES / READ_BYTES), next = 0, done = 0;
    while (done < reads) {
        struct io_request requests[READS_IN_FLIGHT];
        uint32_t n = 0;
        for (; next < reads && next - done < READS_IN_FLIGHT; next++, n++) {
            uint64_t segment = next / (SEGMENT_BYTES / READ_BYTES);
            uint64_t offset = next % (SEGMENT_BYTES / READ_BYTES) * READ_BYTES;
            requests[n] = (struct io_request){.op = IO_OP_READ,
                                              .file = r->file[segment],
                                              .buf = r->image[segment] + offset,
                                              .bytes = READ_BYTES,
                                              .offset = offset};
        }
        if (n > 0) check_rc(io_queue_submit(r->queue, requests, n), "a read", NULL);
        struct io_event events[READS_IN_FLIGHT];
        int got = io_queue_wait(r->queue, events, READS_IN_FLIGHT, -1);
        for (int i = 0; i < got; i++)
            if (events[i].result != (int32_t)READ_BYTES) die("a read came back short");
        if (got > 0) done += (uint64_t)got;
    }
}

static void measure_reading(void *ctx, struct sample *out)
{
    const struct replay_side *side = ctx;
    struct reading r = {.count = 0};
    check_rc(io_env_open(side->dir, &r.env), "io_env_open", NULL);
    open_segments(&r, side->dir);
    const struct io_queue_options o = {.depth = READS_IN_FLIGHT};
    check_rc(io_queue_open(r.env, &o, &r.queue), "io_queue_open", NULL);
    double began = now_seconds();
    for (uint32_t i = 0; i < r.count; i++) {
        r.image[i] = mem_map(SEGMENT_BYTES + SEGMENT_BYTES / 4);
        if (r.image[i] == NULL) die("no memory to read into");
        check_rc(io_sync(r.file[i]), "io_sync", NULL);
    }
    read_segments(&r);
    double seconds = now_seconds() - began;
    *out = (struct sample){.value = (double)(r.count * SEGMENT_BYTES) / 1e6 / seconds};
    io_queue_close(r.queue);
    for (uint32_t i = 0; i < r.count; i++) {
        mem_unmap(r.image[i], SEGMENT_BYTES + SEGMENT_BYTES / 4);
        io_close(r.file[i]);
    }
    io_env_close(r.env);
}

static void row_replay(const struct bench *bench)
{
    if (!row_wanted(bench, ROW_REPLAY)) return;
    struct replay_side side;
    struct target target;
    const struct target_options o = {.sync = RF_SYNC_ASYNC, .keep = true};
    struct outcome out;
    target_open(&target, bench, "replay", &o);
    const struct load load = {
        .shape = &shape_main, .bytes_max = 14 * SEGMENT_BYTES, .seconds_max = 60};
    target_load(&target, &load, &out);
    memcpy(side.dir, target.dir, sizeof side.dir);
    side.batches = out.batches;
    target_close(&target);
    pair_run(bench, ROW_REPLAY, (struct side){measure_replay, &side},
             (struct side){measure_reading, &side}, bench->quick ? 5 : 15, bench->quick ? 9 : 41);
    remove_tree(side.dir);
}

/* ---- at rest ---- */

static void row_idle(const struct bench *bench)
{
    if (!row_wanted(bench, ROW_IDLE)) return;
    struct target target;
    const struct target_options o = {.sync = RF_SYNC_ALWAYS, .memory_bytes = 8 * 80 * MIB};
    struct outcome out;
    target_open(&target, bench, "idle", &o);
    const struct load load = {.shape = &shape_main, .bytes_max = 64 * MIB, .seconds_max = 10};
    target_load(&target, &load, &out);
    target_rest(&target);
    sleep(2); /* the mark that follows the last write is written, and whatever else follows */
    double cpu = cpu_seconds(), began = now_seconds();
    sleep(bench->quick ? 4 : 20);
    double cores = (cpu_seconds() - cpu) / (now_seconds() - began);
    row_set(ROW_IDLE, cores, 1, 0, 1);
    target_close(&target);
}

void rows_other(const struct bench *bench)
{
    row_replay(bench);
    row_idle(bench);
}
