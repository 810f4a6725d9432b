#include "tests/lib/lane_rig.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/thread.h"
#include "wal/lane_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LANE_FOLDER "lane-00"
/* The head stands in for the manifest: the largest number among the names in here. */
#define HEAD_FOLDER "heads"
#define ARENA_FIRST 64u
#define NODE_BYTES  64u
#define FILES_MAX   64u

static const struct clock real_clock;
static const struct log quiet = {.level = LOG_LEVEL_OFF};

/* ---- hooks ---- */

static void inside(struct rig *rig, const char *hook)
{
    if (rig->inside != NULL) rig->inside(rig, hook);
}

static bool look(void *ctx, uint64_t *view_out)
{
    struct rig *rig = ctx;
    bool live = atomic_load(&rig->live); /* the deadline, before the view */
    inside(rig, "deadline");
    *view_out = atomic_load(&rig->view);
    inside(rig, "view");
    return live;
}

static bool fits(void *ctx, const struct wal_image *image, const uint8_t *payload,
                 uint32_t payload_bytes, uint8_t type, uint64_t then, uint64_t now)
{
    (void)payload_bytes, (void)type, (void)now;
    struct rig *rig = ctx;
    uint64_t offset = (uint64_t)(payload - image->base) - WAL_RECORD_HEAD_BYTES;
    /* Whoever asks has not let anybody see it. */
    CHECK(image->number * rig->o.segment_bytes + offset >= wal_visible(rig->lane));
    if (load_u32(payload) >= atomic_load(&rig->fits_always_from)) return true;
    return then >= atomic_load(&rig->fits_from);
}

static void void_batch(void *ctx, struct wal_image *image, uint32_t arena_at)
{
    struct rig *rig = ctx;
    atomic_fetch_add(&rig->void_calls, 1);
    uint32_t id = load_u32(image->arena + arena_at);
    CHECK(rig->batch[id].r.lsn >= wal_visible(rig->lane)); /* void before V passes it */
    image->arena[arena_at + 4] = 1;
}

static uint32_t attached(void *ctx, struct wal_image *image, uint64_t image_lsn)
{
    (void)image, (void)image_lsn;
    struct rig *rig = ctx;
    atomic_fetch_add(&rig->attach_calls, 1);
    return ARENA_FIRST;
}

static bool pinned(void *ctx, const struct wal_image *image)
{
    (void)image;
    struct rig *rig = ctx;
    return atomic_load(&rig->pins) != 0;
}

static int head_moved(void *ctx, uint32_t lane, uint64_t head)
{
    (void)lane;
    struct rig *rig = ctx;
    int rc = atomic_load(&rig->head_error);
    char path[64];
    (void)snprintf(path, sizeof path, HEAD_FOLDER "/%" PRIu64, head);
    struct io_file *file;
    if (rc == 0) rc = io_open(rig->o.env, path, IO_READ | IO_WRITE | IO_CREATE, &file);
    if (rc != 0) return rc;
    io_close(file);
    return io_sync_dir(rig->o.env, HEAD_FOLDER);
}

/* ---- opening ---- */

void rig_init(struct rig *rig, const struct rig_options *options)
{
    memset(rig, 0, sizeof *rig);
    rig->o = *options;
    if (rig->o.segment_bytes == 0) rig->o.segment_bytes = WAL_SEGMENT_BYTES_MIN;
    if (rig->o.block_bytes == 0) rig->o.block_bytes = 4096;
    if (rig->o.segments_max == 0) rig->o.segments_max = 6;
    if (rig->o.depth == 0) rig->o.depth = 4;
    if (rig->o.log == NULL) rig->o.log = &quiet;
    atomic_store(&rig->view, (UINT64_C(1) << RIG_EPOCH_SHIFT) | 1);
    atomic_store(&rig->live, true);
    atomic_store(&rig->fits_always_from, UINT32_MAX);
}

struct found {
    struct rig *rig;
    uint64_t head;
    uint64_t live[FILES_MAX], spare[FILES_MAX];
    uint32_t live_count, spare_count;
    struct wal_live_segment segments[FILES_MAX];
};

static int see_head(void *ctx, const char *name, bool is_dir)
{
    (void)is_dir;
    struct found *f = ctx;
    uint64_t head = strtoull(name, NULL, 10);
    if (head > f->head) f->head = head;
    return 0;
}

static int see_file(void *ctx, const char *name, bool is_dir)
{
    (void)is_dir;
    struct found *f = ctx;
    uint64_t number;
    enum wal_name_kind kind = wal_segment_parse_name(name, &number);
    CHECK(kind != WAL_NAME_OTHER);
    if (kind == WAL_NAME_SEGMENT && number >= f->head) {
        CHECK(f->live_count < FILES_MAX);
        f->live[f->live_count++] = number;
    } else {
        CHECK(f->spare_count < FILES_MAX);
        f->spare[f->spare_count++] = number;
        /* Below the head it was being freed: it is freed again. */
        if (kind == WAL_NAME_SEGMENT) return wal_segment_retire(f->rig->o.env, 0, number);
    }
    return 0;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int find_files(struct rig *rig, struct found *f)
{
    struct io_env *env = rig->o.env;
    int rc = io_mkdir(env, LANE_FOLDER);
    if (rc == 0 || rc == -EEXIST) rc = io_mkdir(env, HEAD_FOLDER);
    if (rc == 0 || rc == -EEXIST) rc = io_sync_dir(env, ".");
    f->head = 1;
    if (rc == 0) rc = io_list(env, HEAD_FOLDER, see_head, f);
    if (rc == 0) rc = io_list(env, LANE_FOLDER, see_file, f);
    qsort(f->live, f->live_count, sizeof f->live[0], compare);
    return rc;
}

static int open_locked(struct rig *rig, const char *path, struct io_file **file_out)
{
    struct io_file *file;
    int rc = io_open(rig->o.env, path, IO_READ | IO_WRITE | IO_DIRECT, &file);
    if (rc != 0) return rc;
    rc = io_lock(file, true);
    /* A ring's last references to a file go behind its end; wal/dir.c tries again too. */
    for (int i = 0; i < 5000 && rc == -EAGAIN; i++) {
        const struct timespec nap = {.tv_nsec = 1000000};
        (void)nanosleep(&nap, NULL);
        rc = io_lock(file, true);
    }
    if (rc == 0)
        *file_out = file;
    else
        io_close(file);
    return rc;
}

static int adopt(struct rig *rig, struct found *f)
{
    char path[WAL_PATH_BYTES];
    for (uint32_t i = 0; i < f->live_count; i++) {
        struct wal_found found = {.head.number = f->live[i]};
        wal_segment_path(path, 0, f->live[i]);
        int rc = open_locked(rig, path, &found.file);
        if (rc != 0) return rc;
        struct wal_image *image;
        CHECK(wal_lane_adopt(rig->lane, &found, &image) == 0);
        f->segments[i] = (struct wal_live_segment){
            .number = f->live[i], .file = found.file, .image = image->base};
    }
    for (uint32_t i = 0; i < f->spare_count; i++) {
        struct io_file *file;
        uint64_t bytes = 0;
        wal_free_path(path, 0, f->spare[i]);
        int rc = open_locked(rig, path, &file);
        if (rc != 0) return rc;
        rc = io_size(file, &bytes);
        if (rc == 0 && bytes == rig->o.segment_bytes) {
            CHECK(wal_lane_offer_free(rig->lane, file, f->spare[i]) == 0);
            continue;
        }
        io_close(file); /* not finished when the power failed */
        if (rc == 0) rc = io_unlink(rig->o.env, path);
        if (rc != 0) return rc;
    }
    return 0;
}

static uint8_t pattern(uint32_t id, uint32_t at)
{
    return (uint8_t)(id * 31 + at * 7 + (at >> 8));
}

static int replay_record(void *ctx, const struct wal_record_head *h, const uint8_t *payload,
                         uint64_t lsn)
{
    struct rig *rig = ctx;
    CHECK(h->payload_bytes >= 8);
    uint32_t id = load_u32(payload);
    CHECK(id > 0 && id < RIG_BATCHES_MAX && load_u32(payload + 4) == h->payload_bytes);
    for (uint32_t i = 8; i < h->payload_bytes; i++)
        CHECK(payload[i] == pattern(id, i));
    CHECK(rig->replayed_count < RIG_BATCHES_MAX);
    rig->replayed_lsn[rig->replayed_count] = lsn;
    rig->replayed[rig->replayed_count++] = id;
    return 0;
}

static int replay(struct rig *rig, struct found *f, struct wal_append_point *point)
{
    struct wal_replay_options o = {.env = rig->o.env,
                                   .segment_bytes = rig->o.segment_bytes,
                                   .block_bytes = rig->o.block_bytes,
                                   .head_number = f->head,
                                   .segments = f->segments,
                                   .count = f->live_count,
                                   .record = replay_record,
                                   .ctx = rig};
    struct wal_replay_result result;
    int rc = wal_replay(&o, &rig->msg, &result);
    rig->verdict = result.verdict.kind;
    if (rc == 0) {
        struct wal_cut_options cut = {.segment_bytes = rig->o.segment_bytes,
                                      .block_bytes = rig->o.block_bytes,
                                      .segments = f->segments,
                                      .count = f->live_count};
        rc = wal_cut_after_replay(&cut, &result.verdict, &rig->msg, point);
    }
    wal_replay_result_deinit(&result);
    return rc;
}

static int open_lane(struct rig *rig, struct found *f)
{
    int rc = find_files(rig, f);
    if (rc == 0) rc = adopt(rig, f);
    struct wal_append_point point = {.lsn = 0};
    if (rc == 0 && f->live_count > 0) rc = replay(rig, f, &point);
    for (uint32_t i = 0; rc == 0 && i < f->live_count; i++)
        wal_lane_settle(rig->lane, &f->segments[i].head, rig->o.segment_bytes);
    struct wal_start start = {.end_lsn = point.lsn, .salt = point.salt, .free_number = 1};
    for (uint32_t i = 0; i < f->spare_count; i++)
        if (f->spare[i] >= start.free_number) start.free_number = f->spare[i] + 1;
    for (uint32_t i = 0; i < f->spare_count; i++)
        if (f->spare[i] >= start.free_number) start.free_number = f->spare[i] + 1;
    return rc == 0 ? wal_lane_start(rig->lane, &start, &rig->msg) : rc;
}

int rig_open(struct rig *rig)
{
    const struct wal_lane_options o = {
        .env = rig->o.env,
        .segment_bytes = rig->o.segment_bytes,
        .block_bytes = rig->o.block_bytes,
        .segments_max = rig->o.segments_max,
        .depth = rig->o.depth,
        .write_bytes = rig->o.write_bytes,
        .mode = rig->o.mode,
        .no_threads = !rig->o.threads,
        .close_wait_ns = rig->o.close_wait_ns,
        .clock = &real_clock,
        .log = rig->o.log,
        .hooks = {.ctx = rig,
                  .look = look,
                  .epoch_shift = RIG_EPOCH_SHIFT,
                  .fits = fits,
                  .void_batch = void_batch,
                  .attached = attached,
                  .pinned = pinned,
                  .head_moved = head_moved},
    };
    rig->replayed_count = 0;
    CHECK(wal_lane_create(&o, &rig->lane, &rig->msg) == 0);
    struct found *f = calloc(1, sizeof *f);
    CHECK(f != NULL);
    f->rig = rig;
    int rc = open_lane(rig, f);
    free(f);
    if (rc == 0) return 0;
    /* Not started: what there is of it is freed. */
    rig->lane->o.no_threads = false;
    int closed = wal_lane_close(rig->lane, false);
    CHECK(closed == 0);
    rig->lane = NULL;
    return rc;
}

int rig_close(struct rig *rig)
{
    int rc = wal_lane_close(rig->lane, false);
    if (rc != -ETIMEDOUT) rig->lane = NULL; /* else it lives on */
    return rc;
}

/* ---- writing ---- */

static void tell(struct rig *rig, enum rig_told told, uint64_t value)
{
    if (rig->o.is_fault) fault_mark(rig->o.env, value * 8 + told);
}

static void done(struct wal_ticket *ticket)
{
    struct rig_batch *b = (struct rig_batch *)ticket;
    b->code = ticket->code;
    b->answered_lsn = wal_reserved(b->rig->lane);
    enum rig_told told = RIG_TOLD_UNKNOWN;
    if (b->code == 0) told = RIG_TOLD_ACK;
    if (b->code == -RFE_LEASE_FENCED_RETRY || b->code == -RFE_SCHEMA_CHANGED)
        told = RIG_TOLD_REFUSED;
    tell(b->rig, told, b->id);
    CHECK(atomic_exchange(&b->answered, 1) == 0); /* once */
    futex_wake_all(&b->answered);
}

int rig_reserve(struct rig *rig, uint32_t id, uint32_t bytes)
{
    CHECK(id > 0 && id < RIG_BATCHES_MAX && bytes >= 8);
    struct rig_batch *b = &rig->batch[id];
    *b = (struct rig_batch){.ticket.done = done, .rig = rig, .id = id};
    int rc = wal_reserve(rig->lane, bytes, NODE_BYTES, atomic_load(&rig->view), &b->ticket, &b->r);
    if (rc != 0) return rc;
    store_u32(b->r.payload, id);
    store_u32(b->r.payload + 4, bytes);
    for (uint32_t i = 8; i < bytes; i++)
        b->r.payload[i] = pattern(id, i);
    store_u32(b->r.image->arena + b->r.arena_at, id);
    b->r.image->arena[b->r.arena_at + 4] = 0;
    return 0;
}

void rig_publish(struct rig *rig, uint32_t id)
{
    wal_publish(rig->lane, &rig->batch[id].r, WAL_RECORD_DATA);
}

void rig_give_up(struct rig *rig, uint32_t id)
{
    struct rig_batch *b = &rig->batch[id];
    b->given_up = true;
    b->r.image->arena[b->r.arena_at + 4] = 1;
    tell(rig, RIG_TOLD_GIVEN_UP, id);
    wal_publish_void(rig->lane, &b->r);
}

bool rig_answered(struct rig *rig, uint32_t id)
{
    return atomic_load(&rig->batch[id].answered) != 0;
}

static void prepare(struct rig *rig)
{
    bool did = true;
    while (did && lane_prep_step(rig->lane, &did) == 0)
        continue;
}

/* All that a turn can change. */
struct progress {
    uint64_t durable, visible, published, writes, syncs;
    uint32_t in_flight;
};

static struct progress progress(struct rig *rig)
{
    struct wal_lane *lane = rig->lane;
    return (struct progress){
        .durable = wal_durable(lane),
        .visible = wal_visible(lane),
        .published = atomic_load(&lane->published_bytes),
        .writes = atomic_load(&lane->stat_writes),
        .syncs = atomic_load(&lane->stat_syncs),
        .in_flight = io_queue_in_flight(lane->queue),
    };
}

void rig_run(struct rig *rig, uint32_t turns)
{
    CHECK(!rig->o.threads);
    prepare(rig);
    /* With a seed, a turn may complete nothing of what is in flight: a few of those are no end. */
    for (uint32_t empty = 0; empty < 24 && turns > 0; turns--) {
        struct progress before = progress(rig);
        bool again = lane_step(rig->lane);
        if (wal_durable(rig->lane) != before.durable)
            tell(rig, RIG_TOLD_DURABLE, wal_durable(rig->lane));
        struct progress after = progress(rig);
        if (memcmp(&before, &after, sizeof before) != 0)
            empty = 0;
        else
            empty += again ? 1 : 8;
    }
    prepare(rig);
}

int rig_trim(struct rig *rig)
{
    int rc = wal_trim(rig->lane, wal_visible(rig->lane));
    tell(rig, RIG_TOLD_TRIMMED, wal_oldest(rig->lane));
    return rc;
}

int rig_write(struct rig *rig, uint32_t id, uint32_t bytes)
{
    int rc = rig_reserve(rig, id, bytes);
    if (rc == -EAGAIN && !rig->o.threads) {
        rig_run(rig, 64);
        rc = rig_reserve(rig, id, bytes);
    }
    for (int tries = 0; rc == -EAGAIN && tries < 200; tries++) {
        int trimmed = rig_trim(rig);
        if (trimmed != 0) return trimmed;
        if (rig->o.threads) {
            struct timespec t = {.tv_nsec = 1000000};
            nanosleep(&t, NULL);
        } else {
            rig_run(rig, 64);
        }
        rc = rig_reserve(rig, id, bytes);
    }
    if (rc == 0) rig_publish(rig, id);
    return rc;
}

int rig_wait(struct rig *rig, uint32_t id)
{
    struct rig_batch *b = &rig->batch[id];
    int64_t deadline_ns = clock_read_ns(CLOCK_MONOTONIC) + INT64_C(20000000000);
    while (atomic_load(&b->answered) == 0) {
        int64_t left_ns = deadline_ns - clock_read_ns(CLOCK_MONOTONIC);
        if (left_ns <= 0) return -ETIMEDOUT;
        (void)futex_wait(&b->answered, 0, left_ns);
    }
    return b->code;
}

/* ---- what was told ---- */

void rig_fates(struct rig *rig, uint64_t at, enum rig_fate *fates, uint64_t *trimmed_lsn_out)
{
    struct io_env *env = rig->o.env;
    bool at_once = rig->o.mode == WAL_SYNC;
    memset(fates, 0, RIG_BATCHES_MAX * sizeof fates[0]);
    *trimmed_lsn_out = 0;
    for (uint64_t i = 0; i < at; i++) {
        if (fault_trace_kind(env, i) != FAULT_EVENT_MARK) continue;
        uint64_t mark = fault_trace_mark(env, i), value = mark / 8;
        enum rig_told told = (enum rig_told)(mark % 8);
        switch (told) {
        case RIG_TOLD_ACK: fates[value] = RIG_ACKNOWLEDGED; break;
        case RIG_TOLD_GIVEN_UP: fates[value] = RIG_REFUSED; break;
        case RIG_TOLD_REFUSED: fates[value] = at_once ? RIG_REFUSED : RIG_REFUSED_SOON; break;
        case RIG_TOLD_UNKNOWN: fates[value] = RIG_UNKNOWN; break;
        case RIG_TOLD_TRIMMED: *trimmed_lsn_out = value; break;
        case RIG_TOLD_DURABLE:
        case RIG_TOLD_RESUMED:
            for (uint32_t id = 0; id < RIG_BATCHES_MAX; id++) {
                bool resumed = told == RIG_TOLD_RESUMED;
                bool durable = resumed || rig->batch[id].answered_lsn <= value;
                if (fates[id] == RIG_REFUSED_SOON && durable) fates[id] = RIG_REFUSED;
                if (fates[id] == RIG_UNKNOWN && resumed) fates[id] = RIG_REFUSED;
            }
            break;
        }
    }
}

static bool wrong(const char *what, uint32_t id, uint64_t lsn)
{
    printf("batch %" PRIu32 " at lsn %" PRIu64 " %s\n", id, lsn, what);
    return false;
}

bool rig_check(const struct rig *replayed, const struct rig *told, const enum rig_fate *fates,
               uint64_t trimmed_lsn)
{
    static bool here[RIG_BATCHES_MAX];
    memset(here, 0, sizeof here);
    uint64_t last_acknowledged = 0, previous = 0;
    for (uint32_t i = 0; i < replayed->replayed_count; i++) {
        uint32_t id = replayed->replayed[i];
        uint64_t lsn = replayed->replayed_lsn[i];
        if (here[id]) return wrong("is there twice", id, lsn);
        here[id] = true;
        if (lsn <= previous) return wrong("is out of order", id, lsn);
        previous = lsn;
        if (fates[id] == RIG_REFUSED) return wrong("was refused and is there", id, lsn);
        if (told->batch[id].r.lsn != lsn) return wrong("stands where it was not written", id, lsn);
        if (fates[id] == RIG_ACKNOWLEDGED) last_acknowledged = lsn;
    }
    for (uint32_t id = 1; id < RIG_BATCHES_MAX; id++) {
        uint64_t lsn = told->batch[id].r.lsn;
        if (fates[id] != RIG_ACKNOWLEDGED || here[id] || lsn < trimmed_lsn) continue;
        if (told->o.mode == WAL_SYNC) return wrong("was acknowledged and is lost", id, lsn);
        if (lsn < last_acknowledged) return wrong("is a hole in the middle", id, lsn);
    }
    return true;
}

/* ---- what was synced, from the trace alone ---- */

struct event_log {
    struct fault_event *events;
    uint64_t count;
};

/* The end of the sync, by op, that began at event `at`; UINT64_MAX: none that went well. */
static uint64_t sync_end(const struct event_log *log, uint64_t at)
{
    for (uint64_t i = at + 1; i < log->count; i++)
        if (log->events[i].kind == FAULT_EVENT_SYNC_COMPLETED &&
            log->events[i].op == log->events[at].op)
            return log->events[i].result == 0 ? i : UINT64_MAX;
    return UINT64_MAX;
}

/* Whether the write completed at event `at` was durable before event `by`. */
static bool durable_by(const struct event_log *log, uint64_t at, uint64_t by)
{
    if ((log->events[at].flags & IO_DSYNC) != 0) return true;
    for (uint64_t i = at + 1; i < by; i++)
        if (log->events[i].kind == FAULT_EVENT_SYNC_SUBMITTED &&
            strcmp(log->events[i].path, log->events[at].path) == 0 && sync_end(log, i) < by)
            return true;
    return false;
}

static bool covered(const struct event_log *log, const char *path, uint64_t from, uint64_t to,
                    uint64_t by)
{
    while (from < to) {
        uint64_t reached = from;
        for (uint64_t i = 0; i < by; i++) {
            const struct fault_event *e = &log->events[i];
            if (e->kind != FAULT_EVENT_WRITE_COMPLETED || e->result <= 0) continue;
            uint64_t end = e->offset + (uint64_t)e->result;
            if (e->offset > from || end <= reached || strcmp(e->path, path) != 0) continue;
            if (durable_by(log, i, by)) reached = end;
        }
        if (reached == from) return false;
        from = reached;
    }
    return true;
}

bool rig_was_synced(struct rig *rig, uint32_t *acknowledged_out)
{
    struct event_log log = {.count = fault_trace_length(rig->o.env)};
    log.events = malloc((log.count + 1) * sizeof log.events[0]);
    CHECK(log.events != NULL);
    for (uint64_t i = 0; i < log.count; i++)
        fault_trace_event(rig->o.env, i, &log.events[i]);
    bool good = true;
    *acknowledged_out = 0;
    for (uint64_t i = 0; i < log.count && good; i++) {
        const struct fault_event *e = &log.events[i];
        if (e->kind != FAULT_EVENT_MARK || e->mark % 8 != RIG_TOLD_ACK) continue;
        const struct rig_batch *b = &rig->batch[e->mark / 8];
        uint64_t offset = lsn_offset(b->r.lsn, rig->o.segment_bytes);
        char path[WAL_PATH_BYTES];
        wal_segment_path(path, 0, lsn_segment(b->r.lsn, rig->o.segment_bytes));
        good = covered(&log, path, offset, offset + wal_record_covered(b->r.payload_bytes), i);
        if (!good) (void)wrong("was acknowledged before it was synced", b->id, b->r.lsn);
        ++*acknowledged_out;
    }
    free(log.events);
    return good;
}
