/* A lane: one endless log, its segments on disk, their images in memory, and one thread.
 *
 * What a record goes through, and the mark that has passed it then:
 *
 *   wal_reserve   a range of an image, arena room and a slot          reserved
 *   (copying)     the caller fills the range; nothing may wait here
 *   wal_publish   checksum, header, slot state                        published
 *   lane thread   whole blocks to the device, then a sync             durable
 *   decide        lease, view, fit: V moves past it, or it is void    visible, V
 *
 * The lsn orders everything. V follows the durable mark (WAL_SYNC) or the published mark (WAL_ASYNC,
 * WAL_OFF). Each decision is made once, in lsn order, inside the lane's section (lane_decide.c).
 *
 * A lane that failed to write or sync is latched: what is durable stays, what is undecided is void
 * in memory and answered with -RFE_WAL_ERROR, reads go on, until wal_lane_resume.
 *
 * Threads   wal_reserve, wal_publish*, wal_wait_*, the readers of marks: any. The rest says.
 * Ownership images and arenas are the lane's; a ticket is the caller's until its done() is called. */
#ifndef RF_WAL_LANE_H
#define RF_WAL_LANE_H

#include "base/clock.h"
#include "base/errors.h"
#include "base/hist.h"
#include "base/log.h"
#include "io/io.h"
#include "wal/segment.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wal_lane;

enum wal_mode { WAL_SYNC, WAL_ASYNC, WAL_OFF };

#define WAL_LANE_SLOTS 4096u

/* One image: a segment's bytes in memory, its arena behind them. */
struct wal_image {
    uint8_t *base;
    uint8_t *arena;
    uint32_t arena_bytes;
    uint32_t lane;
    uint32_t index;         /* of the image in its lane */
    uint64_t number;        /* of the segment it holds; 0: none */
    uint64_t touched_bytes; /* from base on, that have their memory. W, R: preparing thread */
    void *owner;            /* the engine's, one for the image's life */
};

struct wal_ticket;
typedef void wal_done(struct wal_ticket *ticket);

/* A batch on its way. done runs on the decider's thread (the lane's, one that asks
 * wal_view_is_closed, or a writer's in WAL_ASYNC and WAL_OFF), once, after code is final; it must not wait, and may free the ticket. */
struct wal_ticket {
    wal_done *done;
    int code; /* 0, -RFE_LEASE_FENCED_RETRY, -RFE_SCHEMA_CHANGED (unfit), -RFE_WAL_ERROR */
    uint64_t lsn;
    uint64_t view; /* that it was checked under */
    /* With options.stages, else 0; in the order of time. Of the middle three only durable is filled
     * in an ASYNC or OFF lane, and says when the decider began. */
    int64_t sealed_mono_ns;  /* checksum and header are written */
    int64_t taken_mono_ns;   /* the lane began to make the write that it ends in */
    int64_t submit_mono_ns;  /* that write was handed to the kernel */
    int64_t durable_mono_ns; /* the durable mark passed it */
    int64_t decided_mono_ns; /* the look at lease and view that decided it */
    struct wal_ticket *next; /* the lane's */
};

/* What the lane asks of those above. All may be called on any thread that decides; none may wait,
 * but for attached. */
struct wal_hooks {
    void *ctx;
    /* Whether anything may be decided now, and under which view: deadline, view, clock, in this
     * order. epoch_shift: views with equal bits above it are of one epoch. */
    bool (*look)(void *ctx, uint64_t *view_out);
    uint32_t epoch_shift;
    /* A batch checked under `then` (same epoch, other version): does it fit `now`? */
    bool (*fits)(void *ctx, const struct wal_image *image, const uint8_t *payload,
                 uint32_t payload_bytes, uint8_t type, uint64_t then, uint64_t now);
    /* The batch whose node stands at arena_at is void: never to be seen. Before V passes it, if it
     * ever does. */
    void (*void_batch)(void *ctx, struct wal_image *image, uint32_t arena_at);
    /* An image begins the life of segment `number`: clear its index. Nobody looks at it. Returns
     * the arena bytes that are taken from the start. */
    uint32_t (*attached)(void *ctx, struct wal_image *image, uint64_t image_lsn);
    /* Whether a scan still holds the image of a segment that is being freed. */
    bool (*pinned)(void *ctx, const struct wal_image *image);
    /* The answers of one group, chained by next in LSN order, codes final: once for all of them in
     * place of each one's done, and under its rules. NULL: done. */
    void (*answered)(void *ctx, struct wal_ticket *first);
    /* The manifest with this lane's new head is to be durable when it returns 0. */
    int (*head_moved)(void *ctx, uint32_t lane, uint64_t head_segment);
};

struct wal_lane_options {
    struct io_env *env;
    uint8_t uuid[WAL_UUID_BYTES];
    uint32_t lane;
    uint64_t segment_bytes;
    uint32_t block_bytes;
    uint32_t segments_max; /* live and ready ones together, at least 4; a log that is longer gets
                              some more */
    uint32_t depth;        /* writes in flight */
    uint32_t write_bytes;  /* most of one write, whole blocks; 0: what takes about 1 ms */
    enum wal_mode mode;
    enum io_backend backend;
    bool buffered;
    bool stages;
    bool no_threads;       /* for tests: the caller steps the lane (wal/lane_impl.h) */
    int64_t close_wait_ns; /* longest that wal_lane_close waits for the device; 0: 60 s */
    const struct clock *clock;
    const struct log *log;
    struct wal_hooks hooks;
};

/* Memory of one image with its arena. */
static inline uint64_t wal_image_bytes(uint64_t segment_bytes)
{
    return segment_bytes + segment_bytes / 4;
}

/* A live segment as replay found it, file open (and locked) for writing, oldest first. */
struct wal_found {
    struct io_file *file;
    struct wal_segment_head head;
};

/* ---- life ----
 * wal_lane_create, then for each live segment wal_lane_adopt (which gives the image to replay
 * into), replay, wal_lane_start. Or, for a new lane, wal_lane_create and wal_lane_start alone. */

RF_NODISCARD int wal_lane_create(const struct wal_lane_options *options, struct wal_lane **lane_out,
                                 struct err_msg *msg);
/* The image of the next live segment, attached; the numbers rise by one (checked). -ENOMEM. The file
 * stays the caller's on failure. */
RF_NODISCARD int wal_lane_adopt(struct wal_lane *lane, const struct wal_found *found,
                                struct wal_image **image_out);
/* After replay and cut, before the start: the header as it stands on disk now, and how much of the
 * file is filled (segment_bytes, but for the segments of a directory that has just been made). */
void wal_lane_settle(struct wal_lane *lane, const struct wal_segment_head *head,
                     uint64_t filled_bytes);
/* Arena room for a replayed batch; UINT32_MAX when the arena is full (never, for what was written
 * with the same arena size). */
uint32_t wal_lane_replay_arena(struct wal_lane *lane, struct wal_image *image,
                               uint32_t arena_bytes);
/* Offers a free file, open for writing, that is full of zeros or of older lives. */
RF_NODISCARD int wal_lane_offer_free(struct wal_lane *lane, struct io_file *file,
                                     uint64_t free_number);

struct wal_start {
    bool read_only;       /* no threads, no files: only what was adopted, visible to end_lsn */
    uint64_t end_lsn;     /* where the log goes on; 0: a new lane, starting at segment 1 */
    uint64_t salt;        /* in force at end_lsn */
    uint64_t free_number; /* greater than that of any free file there */
};
/* Makes the first segments ready, starts the lane's threads. */
RF_NODISCARD int wal_lane_start(struct wal_lane *lane, const struct wal_start *start,
                                struct err_msg *msg);
/* Waits until every image is touched and every segment allowed is made, or an error. */
RF_NODISCARD int wal_lane_wait_prepared(struct wal_lane *lane);
/* Writes what is published, a close record, syncs; ends the threads. All tickets must be answered,
 * and nobody may wait for room. Returns the first error. Never started: frees only. After fork
 * (abandon): memory only.
 * -ETIMEDOUT: the device did not answer within options.close_wait_ns. Then what the lane has stays
 * where it is, since the kernel may still use it: its memory, threads and files are never freed, and
 * the environment must not be closed. */
int wal_lane_close(struct wal_lane *lane, bool abandon);

/* ---- writing ---- */

struct wal_reservation {
    struct wal_image *image;
    uint8_t *record; /* header; the payload stands behind it */
    uint8_t *payload;
    uint32_t payload_bytes;
    uint32_t arena_at;
    uint64_t lsn;
    uint64_t seq; /* the lane's */
};

/* Whether a record of this size can ever be reserved. */
bool wal_record_fits(const struct wal_lane *lane, uint32_t payload_bytes, uint32_t arena_bytes);
/* Reserves. The payload's bytes are undefined (an older life's).
 * Returns 0, -EAGAIN (no room just now, or others wait before: wal_wait_room), -RFE_ENTRY_TOO_LARGE,
 * -RFE_LATCHED, -RFE_CLOSING. Never blocks, never allocates. Between this and wal_publish the
 * caller may not wait for anything. */
RF_NODISCARD int wal_reserve(struct wal_lane *lane, uint32_t payload_bytes, uint32_t arena_bytes,
                             uint64_t view, struct wal_ticket *ticket,
                             struct wal_reservation *reservation_out);

/* As wal_reserve, but waits for room in order of arrival until deadline_mono_ns. Wakes up at least
 * every 50 ms to ask keep_on(ctx) (may be NULL); false ends it with -ECANCELED.
 * Returns also -ETIMEDOUT; with a full disk as the cause -RFE_DISK_FULL. */
RF_NODISCARD int wal_reserve_wait(struct wal_lane *lane, uint32_t payload_bytes,
                                  uint32_t arena_bytes, uint64_t view, struct wal_ticket *ticket,
                                  int64_t deadline_mono_ns, bool (*keep_on)(void *ctx), void *ctx,
                                  struct wal_reservation *reservation_out);

/* Seals and publishes; the batch is the lane's now. type: WAL_RECORD_DATA or _DELETE.
 * durable mark, checksum and header are written here. */
void wal_publish(struct wal_lane *lane, const struct wal_reservation *reservation, uint8_t type);
/* Gives the reservation up: a void record. The ticket is not called; the node must be void. */
void wal_publish_void(struct wal_lane *lane, const struct wal_reservation *reservation);

/* ---- marks: lsns, never falling; any thread, one load ---- */

uint64_t wal_visible(const struct wal_lane *lane);
uint64_t wal_durable(const struct wal_lane *lane);
uint64_t wal_reserved(const struct wal_lane *lane);
/* First record position of the oldest live segment. */
uint64_t wal_oldest(const struct wal_lane *lane);
int wal_latched(const struct wal_lane *lane); /* 0 or the error */

/* Live segments' images, oldest first, into images[0..max); returns how many there are. Stable for
 * a caller that holds a pin taken before the call (see hooks.pinned). */
uint32_t wal_images(const struct wal_lane *lane, struct wal_image **images, uint32_t max);

/* ---- the plane's side of the section ---- */

/* True once no decider that entered before this call's view was published can still be inside, and
 * (fenced) a fence record reserved under it is durable, or nothing of an older epoch is undecided.
 * Asked again until true; never waits. Makes the lane decide when it has to. */
bool wal_view_is_closed(struct wal_lane *lane, uint64_t view);

/* ---- upkeep ---- */

/* Everything published before is durable when it returns 0; -ETIMEDOUT, or the latch's error. */
RF_NODISCARD int wal_flush(struct wal_lane *lane, int64_t deadline_mono_ns);
/* Frees whole segments from the oldest end that end at or below lsn, and are decided and durable.
 * Never the one being written. In an ASYNC or OFF lane waits, at most 10 s, until what is visible
 * there is written. Memory of a segment that a scan holds is used again when the scan lets go.
 * wal_oldest says how far it went. Returns 0 or an error of the manifest. */
RF_NODISCARD int wal_trim(struct wal_lane *lane, uint64_t lsn);
/* Goes on after a latch: in a new segment, behind a header that says where the old log ends. What was
 * answered with -RFE_WAL_ERROR is absent from then on. What is visible stays: an ASYNC or OFF lane
 * first makes it durable. 0 also when the lane is not latched. -ETIMEDOUT: writes are still in
 * flight, or somebody has reserved and not published; other errors: of io. The lane is latched then
 * as before, and may be asked again.
 * Durable: everything visible, when it returns 0. */
RF_NODISCARD int wal_lane_resume(struct wal_lane *lane, int64_t deadline_mono_ns,
                                 struct err_msg *msg);

struct wal_lane_stats {
    uint64_t writes, syncs, bytes; /* device */
    uint64_t pads_bytes;
    uint64_t segments_live, segments_ready, segments_free, segments_max;
    uint64_t segments_late; /* that were not ready when a record came to them, with room for them */
    uint64_t room_waits;    /* calls of wal_reserve_wait that found no room at first */
    uint64_t mapped_bytes;
    uint64_t prepared_ns; /* from start to everything ready; 0: not yet */
    const char *backend;
};
void wal_lane_stats(struct wal_lane *lane, struct wal_lane_stats *stats_out);

#endif
