/* The newest batches, and the slowest, in Chrome's trace format: a JSON object with traceEvents,
 * times in microseconds. Perfetto (ui.perfetto.dev) and chrome://tracing open it.
 *
 *   writers   a track a thread. Its own stages, and a writer's wait when it waits for each batch,
 *             are complete events ("X")
 *   lanes     a track a lane: submit, decide and visible of each group of batches, once
 *   batches   what goes on beside while a batch is under way (queue to wake), as nested
 *             asynchronous events ("b", "e"), since batches overlap */
#include "cli/profile.h"

#include "cli/memory.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>

enum { PID = 1, LANE_TID = 1000 };
enum {
    STAGE_QUEUE = 8,
    STAGE_SUBMIT = 9,
    STAGE_DEVICE = 10,
    STAGE_DECIDE = 11,
    STAGE_VISIBLE = 12
};

struct tracer {
    struct json j;
    int64_t zero_ns;
    bool blocking;
    int64_t lane_end_ns[64]; /* what was shown on a lane's track ends there */
    bool lane_named[64];
};

static void begin_event(struct tracer *t, const char *name, const char *phase, int64_t at_ns,
                        int64_t tid)
{
    json_open(&t->j, NULL, '{');
    json_string(&t->j, "name", name);
    json_string(&t->j, "ph", phase);
    json_double(&t->j, "ts", (double)(at_ns - t->zero_ns) / 1e3);
    json_i64(&t->j, "pid", PID);
    json_i64(&t->j, "tid", tid);
}

static void complete(struct tracer *t, const char *name, int64_t at_ns, int64_t ns, int64_t tid,
                     uint64_t position)
{
    if (ns <= 0) return;
    begin_event(t, name, "X", at_ns, tid);
    json_double(&t->j, "dur", (double)ns / 1e3);
    json_string(&t->j, "cat", "stage");
    json_open(&t->j, "args", '{');
    json_u64(&t->j, "position", position);
    json_close(&t->j, '}');
    json_close(&t->j, '}');
}

static void name_track(struct tracer *t, const char *kind, uint32_t number, int64_t tid)
{
    char name[32];
    snprintf(name, sizeof name, "%s %" PRIu32, kind, number);
    json_open(&t->j, NULL, '{');
    json_string(&t->j, "name", "thread_name");
    json_string(&t->j, "ph", "M");
    json_i64(&t->j, "pid", PID);
    json_i64(&t->j, "tid", tid);
    json_open(&t->j, "args", '{');
    json_string(&t->j, "name", name);
    json_close(&t->j, '}');
    json_close(&t->j, '}');
}

static void asynchronous(struct tracer *t, const struct profile_batch *b, const char *name,
                         const char *phase, int64_t at_ns)
{
    char id[32];
    snprintf(id, sizeof id, "%" PRIu32 ":%" PRIx64, b->lane, b->position);
    begin_event(t, name, phase, at_ns, b->writer);
    json_string(&t->j, "cat", "batch");
    json_string(&t->j, "id", id);
    json_close(&t->j, '}');
}

/* What the lane's thread did for a whole group comes with each batch of it: shown once. */
static void lane_event(struct tracer *t, const struct profile_batch *b, const char *name,
                       int64_t at_ns, int64_t ns)
{
    uint32_t lane = b->lane % 64;
    if (!t->lane_named[lane]) {
        name_track(t, "lane", b->lane, LANE_TID + (int64_t)b->lane);
        t->lane_named[lane] = true;
    }
    if (ns <= 0 || at_ns < t->lane_end_ns[lane]) return;
    t->lane_end_ns[lane] = at_ns + ns;
    complete(t, name, at_ns, ns, LANE_TID + (int64_t)b->lane, b->position);
}

static void put_batch(struct tracer *t, const struct profile_batch *b)
{
    int64_t at = b->start_ns;
    for (uint32_t i = 0; i < STAGE_QUEUE; at += b->stage_ns[i], i++)
        complete(t, rf_stage_name(i), at, b->stage_ns[i], b->writer, b->position);
    int64_t end = b->start_ns + b->total_ns;
    if (t->blocking) complete(t, "wait", at, end - at, b->writer, b->position);
    asynchronous(t, b, "batch", "b", at);
    for (uint32_t i = STAGE_QUEUE; i < RF_STAGES; at += b->stage_ns[i], i++) {
        if (b->stage_ns[i] <= 0) continue;
        asynchronous(t, b, rf_stage_name(i), "b", at);
        asynchronous(t, b, rf_stage_name(i), "e", at + b->stage_ns[i]);
    }
    asynchronous(t, b, "batch", "e", end);
}

/* In the order of time on the lane's track, not of the batches' beginning. */
struct lane_piece {
    int64_t at_ns, ns;
    const struct profile_batch *batch;
    uint32_t stage;
};

static int by_time(const void *a, const void *b)
{
    const struct lane_piece *x = a, *y = b;
    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static void put_lanes(struct tracer *t, const struct profile_batch *batches, size_t count)
{
    static const uint32_t shown[] = {STAGE_SUBMIT, STAGE_DECIDE, STAGE_VISIBLE};
    struct lane_piece *piece = need_zalloc((3 * count + 1) * sizeof *piece);
    size_t pieces = 0;
    for (size_t n = 0; n < count; n++) {
        const struct profile_batch *b = &batches[n];
        int64_t at = b->start_ns;
        for (uint32_t i = 0, next = 0; i < RF_STAGES && next < 3; at += b->stage_ns[i], i++)
            if (i == shown[next]) {
                piece[pieces++] = (struct lane_piece){at, b->stage_ns[i], b, i};
                next++;
            }
    }
    qsort(piece, pieces, sizeof *piece, by_time);
    for (size_t n = 0; n < pieces; n++)
        lane_event(t, piece[n].batch, rf_stage_name(piece[n].stage), piece[n].at_ns, piece[n].ns);
    mem_free(piece);
}

/* ---- which batches ---- */

static int by_start(const void *a, const void *b)
{
    const struct profile_batch *x = a, *y = b;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    return (x->writer > y->writer) - (x->writer < y->writer);
}

/* The newest of each writer and the slowest of all, each once, in the order of their beginning. */
static size_t choose(const struct profile_part *parts, size_t count, const struct profile *p,
                     struct profile_batch **out)
{
    struct profile_batch *all = NULL;
    size_t capacity = 0, kept = 0, distinct = 0;
    for (size_t n = 0; n < count; n++) {
        const struct profile_part *part = &parts[n];
        size_t have =
            part->newest_count < part->newest_capacity ? part->newest_count : part->newest_capacity;
        need_room(&all, &capacity, kept + have + 1, sizeof *all);
        memcpy(all + kept, part->newest, have * sizeof *all);
        kept += have;
    }
    need_room(&all, &capacity, kept + p->slow_count + 1, sizeof *all);
    if (p->slow_count > 0) memcpy(all + kept, p->slow, p->slow_count * sizeof *all);
    kept += p->slow_count;
    qsort(all, kept, sizeof *all, by_start);
    for (size_t n = 0; n < kept; n++)
        if (n == 0 || by_start(&all[n], &all[distinct - 1]) != 0) all[distinct++] = all[n];
    *out = all;
    return distinct;
}

size_t profile_trace(const struct profile_part *parts, size_t count, const struct profile *p,
                     bool blocking, FILE *f)
{
    struct profile_batch *batches;
    size_t chosen = choose(parts, count, p, &batches);
    struct tracer *t = need_zalloc(sizeof *t);
    t->j = (struct json){f, false};
    t->blocking = blocking;
    t->zero_ns = chosen > 0 ? batches[0].start_ns : 0;
    json_open(&t->j, NULL, '{');
    json_string(&t->j, "displayTimeUnit", "ns");
    json_open(&t->j, "traceEvents", '[');
    for (uint32_t n = 0; n < count; n++)
        name_track(t, "writer", n, n);
    for (size_t n = 0; n < chosen; n++)
        put_batch(t, &batches[n]);
    put_lanes(t, batches, chosen);
    json_close(&t->j, ']');
    json_close(&t->j, '}');
    json_end_line(&t->j);
    mem_free(t);
    mem_free(batches);
    return chosen;
}
