/* Inside the engine. */
#ifndef RF_ENGINE_ENGINE_IMPL_H
#define RF_ENGINE_ENGINE_IMPL_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/errors.h"
#include "base/hash.h"
#include "base/hist.h"
#include "base/lock.h"
#include "base/probe.h"
#include "base/thread.h"
#include "engine/engine.h"
#include "engine/pins.h"
#include "engine/scratch.h"
#include "memtable/batch.h"
#include "memtable/memtable.h"
#include "wal/record.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define ENGINE_MAGIC UINT64_C(0x52464e47494e4531)

/* Stages of the write path, as rf_stage_name() names them. */
enum stage {
    STAGE_VALIDATE,
    STAGE_ORDER,
    STAGE_SPLIT,
    STAGE_RESERVE,
    STAGE_LEASE,
    STAGE_COPY,
    STAGE_CHECKSUM,
    STAGE_PUBLISH,
    STAGE_QUEUE,
    STAGE_SUBMIT,
    STAGE_DEVICE,
    STAGE_DECIDE,
    STAGE_VISIBLE,
    STAGE_WAKE,
};
_Static_assert(STAGE_WAKE + 1 == RF_STAGES, "one list of stages");

struct engine_queue;

/* A test seam: called, when set, before each step of a writer's path on the writer's thread, so that
 * a test can end the lease, change the schema, or stand still there. A delete takes the same steps,
 * with one fragment and no STEP_ORDER. `fragment` counts from 0 at STEP_FRAGMENT. Set while no
 * writer runs. */
enum engine_step {
    STEP_TOKEN,    /* before the view is taken */
    STEP_CHECK,    /* the token is taken, nothing looked up */
    STEP_ORDER,    /* checked */
    STEP_RESERVE,  /* ordered, split, planned */
    STEP_FRAME,    /* reserved */
    STEP_FRAGMENT, /* before each fragment's lease check */
    STEP_PUBLISH,  /* applied */
    STEP_WAIT,     /* published */
    STEP_ANSWER,   /* answered, before the caller is told */
    STEPS,
};
extern void (*engine_step_seam)(void *ctx, enum engine_step step, uint32_t fragment);
extern void *engine_step_ctx;
static inline void engine_step(enum engine_step step, uint32_t fragment)
{
    if (RF_UNLIKELY(engine_step_seam != NULL)) engine_step_seam(engine_step_ctx, step, fragment);
}

/* A batch's way in time (stages.c). W: its writer, but for done_ns. */
struct op_times {
    int64_t stage_ns[RF_STAGES]; /* durations */
    int64_t copied_ns;           /* when its bytes and links were complete */
    int64_t published_ns;        /* when the writer came back from publishing; 0: not timed */
    int64_t done_ns;             /* when it was answered. W: who decides, before the answer */
    uint32_t lane;
};

/* A batch under way: made before it is reserved, given back when it is answered. */
enum op_state { OP_WAITING, OP_SLEEPING, OP_DONE, OP_ABANDONED };
struct op {
    struct wal_ticket ticket; /* first: a ticket is its op */
    struct engine *engine;
    struct op *next;            /* free list, or the queue's completions */
    _Atomic uint32_t state;     /* futex of a blocking writer */
    struct engine_queue *queue; /* NULL: blocking */
    void (*done)(void *user, int code);
    void *user;
    int code;
    uint64_t rows, points, bytes;
    int64_t start_ns;
    struct op_times *times; /* NULL: stages are off */
};

struct engine_totals {
    _Atomic uint64_t batches, rows, points, bytes, rejected, fenced, unknown;
};

struct engine {
    uint64_t magic;
    struct engine_options o;
    struct devices *devices;
    uint32_t lanes;
    struct wal_lane *lane[WAL_LANES_MAX];
    uint64_t segment_bytes;
    int64_t partition_interval;
    uint32_t regions;
    struct lock manifest_lock;
    struct pins pins;
    struct scratch_pool scratches;
    struct spin ops_lock;
    struct op *ops_free;
    struct op *ops_all;         /* one block */
    struct op_times *times_all; /* with stages: one an op */
    struct engine_totals totals;
    struct spin hist_lock;
    struct hist write_hist;
    struct hist *stage_hist; /* RF_STAGES, under hist_lock; NULL: off */
    uint64_t replayed_batches, replayed_bytes, discarded_records, replay_ns;
    uint64_t dropped_batches; /* of tables that are gone */
    bool opened_clean;
};

/* ---- errors ---- */

/* Fills error (may be NULL) and returns code. column, row: RF_NONE when none. */
__attribute__((format(printf, 6, 7))) int engine_fail(struct rf_error *error, int code,
                                                      uint32_t tablet, uint32_t column,
                                                      uint32_t row, const char *fmt, ...);

/* ---- tablets (tablet.c) ---- */

struct tablet_column {
    const struct rf_column *in;
    uint32_t index; /* in the tablet */
    uint32_t id;
    uint8_t type;
    uint8_t width;       /* bytes a value; 0: variable */
    uint8_t flags;       /* BATCH_COLUMN_* */
    uint32_t bytes_done; /* variable: bytes copied so far */
    uint32_t value_bytes;
};

struct tablet_device {
    const uint8_t *key;
    uint32_t key_bytes;
    uint32_t number; /* the engine's */
    uint32_t group;
    uint32_t hash; /* devices_hash() */
};

struct tablet_group {
    const struct rf_tablet *in;
    const struct schema_table *table;
    const struct rf_column *tags[SCHEMA_TAGS_MAX]; /* by tag_index; NULL: not in the tablet */
    uint32_t tag_count;
    const uint8_t *tree_key;
    uint32_t tree_key_bytes;
    struct tablet_column *columns;
    uint32_t column_count;
    uint32_t device_first, device_count;
    uint32_t *row_device; /* NULL: one device; index from device_first */
    uint32_t *order;      /* NULL: as the tablet has them */
    uint32_t fragment_first, fragment_count;
    uint64_t points;
};

/* TAG columns that a batch is about to make (new_tags.c). */
struct new_tags {
    struct new_tag *slot;
    uint32_t slots, used;
};

/* A batch on its way from tablets to a record. All memory is the scratch's. */
struct prepared {
    struct engine *engine;
    struct scratch *scratch;
    struct rf_error *error;
    uint64_t view;
    uint64_t version;
    struct tablet_group *groups;
    uint32_t group_count;
    struct tablet_device *devices;
    uint32_t device_count, device_room;
    uint64_t key_bytes; /* of all devices */
    struct new_tags new_tags;
    struct batch_fragment *fragments;
    uint32_t fragment_count, fragment_room;
    struct batch_plan plan;
    uint64_t payload_bytes;
    uint32_t region;
    uint64_t rows, points;
    struct op *op;
    int64_t mark_ns; /* stages: end of the last one */
};

/* Checks the tablets in full and looks them up at p->version. What is missing and may be created is
 * left in *wants_out (scratch; n > 0): the answer is 0 then, and p is good for judging order and
 * size, not for applying: such columns have id 0, such tables are NULL. */
RF_NODISCARD int tablets_check(struct prepared *p, const struct rf_tablet *tablets, uint32_t n,
                               struct engine_want **wants_out, uint32_t *want_count_out);
/* The place in a device's key of a TAG column that the table does not have yet; existing: TAGs that
 * it has. -ENOMEM. */
RF_NODISCARD int new_tag_place(struct prepared *p, const char *table, const char *tag,
                               uint32_t existing, uint32_t *place_out);
/* Appends one TAG value to a key: length + 1 in two bytes (0: null), then the bytes. */
static inline uint32_t key_put(uint8_t *key, const void *value, uint32_t bytes)
{
    store_u16(key, (uint16_t)(bytes + 1));
    if (bytes != 0) memcpy(key + 2, value, bytes);
    return 2 + bytes;
}

/* ---- stages (stages.c) ---- */

/* Cold: without stages a compare is all that they cost. */
__attribute__((cold)) void stages_begin_timed(struct prepared *p);
__attribute__((cold)) void stage_end_timed(struct prepared *p, enum stage stage);
__attribute__((cold)) void stages_collected_timed(struct op *op);
/* Before the first stage of each try; op->start_ns is set. */
static inline void stages_begin(struct prepared *p)
{
    if (RF_UNLIKELY(p->op->times != NULL)) stages_begin_timed(p);
}
/* The answer is with the caller, whose thread this is: counts the stages, and tells the trace. */
static inline void stages_collected(struct op *op)
{
    if (RF_UNLIKELY(op->times != NULL)) stages_collected_timed(op);
}
/* The stage of a writer's thread ends here and the next one begins. */
#define STAGE_END(p, stage, probe)                                              \
    do {                                                                        \
        RF_PROBE1(probe, (p)->op);                                              \
        if (RF_UNLIKELY((p)->op->times != NULL)) stage_end_timed((p), (stage)); \
    } while (0)

/* ---- order (order.c) ---- */

/* Devices, order of rows, fragments, of every group. -RFE_LIMIT, -RFE_SPANS_REGIONS. */
RF_NODISCARD int tablets_order(struct prepared *p);
/* The layout: p->plan and p->payload_bytes. -RFE_ENTRY_TOO_LARGE. */
RF_NODISCARD int tablets_plan(struct prepared *p);
/* The devices' numbers: last, so that a batch that is refused leaves no device behind. */
RF_NODISCARD int tablets_intern(struct prepared *p);
static inline int64_t partition_of(int64_t time, int64_t interval)
{
    int64_t q = time / interval;
    return q - (time % interval < 0); /* floor; can't overflow: |q| shrinks, or interval is 1 */
}
/* A part of the batch is larger than a segment by itself: known before the rest is looked at, so
 * that a batch beyond all measure costs neither its time nor its memory. */
RF_NODISCARD int tablets_too_large(const struct prepared *p, uint32_t tablet, uint64_t bytes,
                                   const char *what);
uint32_t engine_region(const struct engine *e, const void *key, uint32_t key_bytes);

/* ---- apply (apply.c) ---- */

/* Fragment by fragment: lease check, copy, link. 0, or -RFE_LEASE_FENCED_RETRY with everything
 * rolled back (the node is void; the caller publishes a void record). */
RF_NODISCARD int tablets_apply(struct prepared *p, const struct wal_reservation *r);

/* ---- ops (ops.c) ---- */

RF_NODISCARD int ops_create(struct engine *e);
void ops_destroy(struct engine *e);
/* All in use is as a full log: waited for until the deadline, then 606 in error. */
RF_NODISCARD int op_acquire(struct engine *e, int64_t deadline_mono_ns, struct rf_error *error,
                            struct op **op_out);
void op_release(struct op *op);
/* Waits for a blocking op, then gives it back. Its code, or -RFE_UNKNOWN past the wait. */
int op_wait(struct op *op);
/* What a lane calls when a group is answered; ctx is the engine. */
void ops_answered(void *ctx, struct wal_ticket *first);

/* Everything from the tablets to the published record (write.c). op is the caller's again when it
 * fails; else its answer comes. 536 and a schema that changed under way are tried again up to the
 * deadline. */
RF_NODISCARD int engine_begin(struct engine *e, struct op *op, const struct rf_tablet *tablets,
                              uint32_t n, int64_t deadline_mono_ns, struct rf_error *error);

/* ---- hooks of the lanes (decide.c) ---- */

struct wal_hooks engine_lane_hooks(struct engine *e);

/* Waits until the lease is live, or until deadline. False: it is not. */
bool engine_wait_live(struct engine *e, int64_t deadline_mono_ns);

/* Sleeps for what it is told, which grows from 0.2 to 5 ms from one look to the next. False, and
 * not a moment, when the deadline has passed. Begin with *nap_ns 0. */
bool engine_nap(int64_t *nap_ns, int64_t deadline_mono_ns);

/* Counts what a caller is told: once a call, however often it was tried. */
void engine_count_answer(struct engine *e, int code);

/* Reserves in a lane within the wait, asking for the lease at each wake-up. Errors: 606, 611, 536,
 * 620, latched, closing. */
struct reserve_want {
    uint32_t lane;
    uint64_t payload_bytes;
    uint32_t arena_bytes;
    uint64_t view;
    int64_t deadline_mono_ns;
};
RF_NODISCARD int engine_reserve(struct engine *e, const struct reserve_want *want, struct op *op,
                                struct rf_error *error, struct wal_reservation *out);

static inline int64_t mono_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}
static inline int64_t deadline_after(int64_t wait_ns)
{
    int64_t now = mono_ns();
    return wait_ns < 0 || wait_ns > INT64_MAX - now ? INT64_MAX : now + wait_ns;
}

/* The oldest time that a TTL leaves, by the wall clock; false: it leaves all. */
bool engine_oldest_time(const struct engine *e, int64_t ttl, int64_t *oldest_out);

/* The live segments' images, oldest first; *images_out is the caller's to mem_free. Under a pin that
 * was widened before. */
RF_NODISCARD int engine_images(struct wal_lane *lane, struct wal_image ***images_out,
                               uint32_t *count_out);

#endif
