/* Inside a lane. See lane.h for the face.
 *
 *   lane.c           life, the thread's loop, sleeping and waking, flush
 *   lane_reserve.c   reservation, publishing, the queue of those who wait for room
 *   lane_write.c     published prefix -> device -> durable mark
 *   lane_decide.c    the section: durable or published mark -> V, fence and abort records
 *   lane_segments.c  segments made ready behind, trim
 *   lane_resume.c    after a latch
 *   lane_stages.c    when what happened to a batch
 *   lane_close.c     the end, with a limit
 *
 * Who may hold what while taking what: the section (a word, never waited for inside) > reserve
 * lock (spin, a few instructions). prep_lock (a mutex) is for segments and never taken under
 * either. */
#ifndef RF_WAL_LANE_IMPL_H
#define RF_WAL_LANE_IMPL_H

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/fence.h"
#include "base/lock.h"
#include "base/probe.h"
#include "base/thread.h"
#include "wal/durable_way.h"
#include "wal/lane.h"
#include "wal/record.h"

/* Kept free among the slots, and (lane_control_bytes) at a segment's end, for fence, abort, mark and
 * close records. Each batch is named by one abort record at most, 8 bytes each; a fence voids all
 * that is undecided, and the next one needs a batch reserved since. So what writers can't reserve
 * any more takes one slot's worth of names, and a block for each of the few records that are
 * written before there is room again. */
#define LANE_CONTROL_SLOTS  64u
#define LANE_CONTROL_BLOCKS 6u
/* A second write starts only when this many bytes wait. */
#define LANE_SECOND_WRITE_BYTES 65536u
/* A lone group up to this size is one blocking durable write. */
#define LANE_LONE_BYTES       131072u
#define LANE_WRITE_BYTES_MIN  65536u
#define LANE_WRITE_BYTES_MAX  4194304u
#define LANE_WRITE_SLOW_NS    INT64_C(2000000)
#define LANE_WRITE_FAST_NS    INT64_C(700000)
#define LANE_WRITES_SLOW      4u
#define LANE_FLIGHTS          256u /* writes submitted and not yet known durable */
#define LANE_FIRST_FILL_BYTES 4194304u
#define LANE_SEGMENTS_MAX     4096u
#define LANE_READY_AT_REST    2u /* behind the current one */
#define LANE_STUCK_LOOKS      100u
#define LANE_STUCK_LOOK_NS    INT64_C(100000000)
#define LANE_MARK_AFTER_NS    INT64_C(1000000000)
/* A write that comes back short without a whole block done is tried again this often. */
#define LANE_STALLS_MAX    16u
#define LANE_CLOSE_WAIT_NS INT64_C(60000000000)
#define LANE_TRIM_WAIT_NS  INT64_C(10000000000)
#define LANE_MAGIC         UINT64_C(0x4c414e4552494e47)

/* A slot's word: seq * 4 + state. The seq in it tells lives of the slot apart, so nothing has to
 * be reset when it is used again. */
enum slot_state { SLOT_RESERVED = 1, SLOT_PUBLISHED = 2 };

struct slot {
    _Alignas(RF_CACHE_LINE) _Atomic uint64_t
        word; /* W: who reserved (release). R: lane, deciders (acquire). Pair S1 */
    uint64_t lsn;
    uint64_t view;
    struct wal_image *image;
    struct wal_ticket *ticket; /* NULL: pad, void, control records */
    uint32_t covered_bytes;
    uint32_t payload_bytes;
    uint32_t arena_at;
    _Atomic uint8_t type; /* enum wal_record_type; a batch says DATA from reserve on; final when
                             published. Relaxed: the word orders it */
    uint64_t named_by;    /* SLOT_NOT_NAMED, or seq of the abort record that names this batch, or
                             SLOT_ANSWERED after a latch. W, R: deciders inside the section */
};
#define SLOT_NOT_NAMED UINT64_MAX
#define SLOT_ANSWERED  (UINT64_MAX - 1)
_Static_assert(sizeof(struct slot) == 64, "one line a slot");

struct wal_seg {
    uint64_t number;
    struct io_file *file;
    struct wal_image *image;
    struct wal_segment_head head;
    uint64_t salt;               /* in force where the log goes on: the header's, or a cut's */
    uint32_t arena_next;         /* under the reserve lock once it is current */
    _Atomic uint64_t filled_end; /* file bytes that are zero-filled or older: writers stop there */
    uint64_t seal_file_end;      /* lane thread: file bytes to write of a full segment; 0: open */
    bool renamed;                /* preparing thread: retired, and has its free name */
};

enum flight_state { FLIGHT_SUBMITTED, FLIGHT_COMPLETED, FLIGHT_SYNCING, FLIGHT_DURABLE };
struct flight {
    enum flight_state state;
    struct wal_seg *seg;
    uint64_t file_offset; /* of what is left to write */
    uint32_t bytes;       /* left to write */
    uint32_t bytes_all;
    uint32_t beside; /* other writes in flight when it was submitted */
    uint32_t stalls;
    bool dsync;         /* durable when it completes, unless it was short */
    bool was_short;     /* a durable write that was: a sync has to follow */
    uint64_t end_lsn;   /* the log is complete up to here once this is durable */
    uint64_t bound_lsn; /* an end of a record at or below end_lsn */
    int64_t submit_ns;
};

struct free_file {
    struct io_file *file;
    uint64_t number;
};

struct waiter {
    _Atomic uint32_t word;
    struct waiter *next;
};

struct wal_lane {
    uint64_t magic;
    struct wal_lane_options o;
    struct io_queue *queue;
    pthread_t thread, prep_thread;
    bool thread_started, prep_started;
    uint32_t arena_room; /* bytes of an arena that batches may take; before any thread starts */

    /* ---- reservation: under reserve_lock, but for the atomics, which others may read ---- */
    _Alignas(RF_CACHE_LINE) struct spin reserve_lock;
    uint64_t next_lsn;
    struct wal_seg *cur;
    _Atomic uint64_t next_seq;     /* W: reserve_lock. R: any (acquire). Pair S2 */
    _Atomic uint64_t reserved_lsn; /* = next_lsn, for readers */
    _Atomic uint64_t ready_number; /* highest numbered segment. W: prep. R: reserve. Pair R1 */
    _Atomic uint64_t cur_number;
    uint64_t late_number;           /* of the last segment that segments_late has counted */
    _Atomic uint64_t segments_late; /* W: reserve_lock. R: prep, statistics; a count, relaxed */
    _Atomic int latched;            /* 0 or -errno. W: lane thread, under reserve_lock */
    _Atomic bool closing;

    /* ---- publishing ---- */
    _Alignas(RF_CACHE_LINE) _Atomic uint64_t published_bytes; /* ever; also the wake-up's fence */
    _Atomic uint64_t ring_wake_at; /* of published_bytes; W: lane thread */
    _Atomic uint32_t sleep_word;   /* LANE_AWAKE, LANE_ON_FUTEX, LANE_IN_RING */

    /* ---- marks ---- */
    _Alignas(
        RF_CACHE_LINE) _Atomic uint64_t durable; /* W: lane thread (release). R: any. Pair D1 */
    _Atomic uint64_t durable_bound; /* an end of a record at or below it. Written before it */
    _Atomic uint64_t visible;       /* V. W: in the section (release). R: any. Pair V1 */
    _Atomic uint64_t decided_seq;   /* slots below it are free for reuse. W: section. R: reserve */
    _Atomic uint64_t scanned_seq;   /* likewise, W: lane thread */
    _Atomic uint64_t
        head_number; /* oldest live segment. W: trim under prep_lock. R: any. Pair H1 */

    /* ---- the section: odd while a decider is inside ---- */
    _Alignas(RF_CACHE_LINE) _Atomic uint64_t section;
    uint64_t fence_seq; /* in the section: seq of the pending fence record */
    bool fence_pending;
    _Atomic uint64_t close_view; /* plane's thread: what it is closing */
    _Atomic uint64_t close_seq;  /* everything reserved before it was published; W: plane */
    uint64_t close_section;      /* plane only */

    /* ---- lane thread only ---- */
    uint64_t scan_lsn;      /* behind the last record of the published prefix */
    uint64_t scan_bound;    /* the last end of a record at or below scan_lsn's whole blocks */
    uint64_t scanned_bytes; /* ever; a part of published_bytes */
    uint64_t submit_lsn;
    uint64_t submit_bound; /* bound_lsn of the last flight */
    struct wal_seg *submit_seg;
    struct flight flights[LANE_FLIGHTS];
    uint64_t flight_head, flight_tail; /* [head, tail) */
    uint32_t writes_in_flight;
    bool sync_in_flight;
    struct durable_way way;
    uint32_t write_bytes_max;
    uint32_t writes_slow; /* in a row */
    uint64_t stuck_seq;
    uint32_t stuck_looks;
    int64_t stuck_look_ns;
    uint64_t stage_submit_seq, stage_durable_seq; /* stages: slots before them have their stamps */
    uint64_t marked_lsn; /* the largest mark that some record on disk carries */
    int64_t durable_moved_ns;
    /* What the present turn saw of what others store; different at bedtime: another turn. */
    uint64_t seen_bytes;
    uint32_t seen_resume;
    bool seen_stop;
    bool close_written;
    _Atomic uint32_t ended; /* futex: 1 once the thread has nothing more to do */

    /* ---- resume: asked by any, done by the lane thread (lane_resume.c) ---- */
    _Atomic uint32_t resume_state; /* futex: enum resume_state */
    int resume_rc;                 /* W: lane thread, before resume_state says DONE */
    struct err_msg resume_msg;

    _Atomic uint64_t flush_target; /* OFF lanes write up to here. W: any, only raised */
    _Atomic uint32_t durable_word; /* futex: bumped when durable or latched moves */
    _Atomic uint32_t durable_waiters;
    _Atomic bool stop;

    /* ---- those who wait for room ---- */
    struct lock waiters_lock;
    struct waiter *waiters_head, *waiters_tail;
    _Atomic uint32_t waiters;

    /* ---- segments: prep_lock ---- */
    struct lock prep_lock;
    _Atomic uint32_t prep_word; /* futex */
    _Atomic bool prep_stop;
    _Atomic uint32_t prep_ended; /* futex */
    _Atomic int space_error;     /* -ENOSPC and the like, until a segment could be made */
    uint32_t ready_kept; /* segments that are kept ready. W, R: prep, but for the first value */
    uint64_t late_seen;  /* of segments_late, by prep */
    struct wal_seg *segs[LANE_SEGMENTS_MAX]; /* by number % LANE_SEGMENTS_MAX; slot written before
                                                ready_number says so */
    struct wal_seg *retired[LANE_SEGMENTS_MAX]; /* trimmed, image perhaps still pinned */
    _Atomic uint32_t retired_count;             /* W: prep_lock */
    struct free_file free_files[LANE_SEGMENTS_MAX];
    uint32_t free_count;
    uint64_t free_number;
    struct wal_image *images[LANE_SEGMENTS_MAX];
    uint32_t images_count;
    struct wal_image *images_free[LANE_SEGMENTS_MAX];
    uint32_t images_free_count;
    _Atomic bool all_prepared;
    _Atomic uint64_t prepared_ns;
    int64_t started_ns;

    struct slot slots[WAL_LANE_SLOTS];

    _Atomic uint64_t stat_writes, stat_syncs, stat_bytes, stat_pad_bytes;
    _Atomic uint64_t stat_room_waits; /* batches that found no room at first */
    _Atomic uint64_t
        stat_sleeps; /* times that the lane's thread said it would sleep; tests count by it */
    _Atomic uint64_t stat_prep_sleeps; /* of the preparing thread */
    struct wal_lane *leaked_next;      /* lane_close.c */
};

enum { LANE_AWAKE = 0, LANE_ON_FUTEX = 1, LANE_IN_RING = 2 };

static inline struct slot *lane_slot(struct wal_lane *lane, uint64_t seq)
{
    return &lane->slots[seq % WAL_LANE_SLOTS];
}
/* S1: with the release store of who filled the slot and its range. If relaxed, the lane could send
 * bytes to the device, or decide over fields, that are not there yet. */
static inline bool slot_is(const struct slot *s, uint64_t seq, enum slot_state state)
{
    return atomic_load_explicit(&s->word, memory_order_acquire) == seq * 4 + state;
}
static inline struct wal_seg *lane_seg(struct wal_lane *lane, uint64_t number)
{
    return lane->segs[number % LANE_SEGMENTS_MAX];
}
static inline uint64_t seg_end_lsn(const struct wal_lane *lane, uint64_t number)
{
    return lsn_end(number, lane->o.segment_bytes, lane->o.block_bytes);
}
static inline uint64_t seg_first_lsn(const struct wal_lane *lane, uint64_t number)
{
    return lsn_first(number, lane->o.segment_bytes, lane->o.block_bytes);
}

static inline uint64_t lane_control_bytes(const struct wal_lane *lane)
{
    return WAL_LANE_SLOTS * 10u + LANE_CONTROL_BLOCKS * (uint64_t)lane->o.block_bytes;
}
/* The mark that records and headers carry: an end of a record, all below it durable. (The durable
 * mark itself can stand inside a long record. As a mark it would say, after a crash that loses the
 * rest of that record, that something durable is gone.) In a SYNC lane that is V, which follows the
 * durable mark; in others V runs ahead of it. */
static inline uint64_t lane_mark(const struct wal_lane *lane)
{
    /* D1, and V1: what is named durable here was so before the device was told of this record. */
    return atomic_load_explicit(lane->o.mode == WAL_SYNC ? &lane->visible : &lane->durable_bound,
                                memory_order_acquire);
}

/* lane_reserve.c */
/* Reserves a record of the lane's own; always finds room (LANE_CONTROL_*), or the lane is latched
 * or the next segment is not there: -EAGAIN. */
RF_NODISCARD int lane_reserve_control(struct wal_lane *lane, uint32_t payload_bytes,
                                      struct wal_reservation *out);
void lane_publish_control(struct wal_lane *lane, const struct wal_reservation *r, uint8_t type);
/* Completes a part block at published_lsn by a pad when nothing is reserved behind it; returns
 * whether it did. */
bool lane_pad_block(struct wal_lane *lane, uint64_t published_lsn);
void lane_signal_room(struct wal_lane *lane);

/* lane_write.c */
/* Returns true when there is more to write at once, after what became durable is decided. */
bool lane_write_step(struct wal_lane *lane);
void lane_handle_event(struct wal_lane *lane, const struct io_event *event);
void lane_latch(struct wal_lane *lane, int error, const char *what);
void lane_sync_step(struct wal_lane *lane);
bool lane_has_unscanned(struct wal_lane *lane);
void lane_check_stuck(struct wal_lane *lane);

/* lane_stages.c: with options.stages. Batches up to end_lsn are on their way; up to durable they are
 * durable, before the mark says so. */
void lane_stages_submitted(struct wal_lane *lane, uint64_t end_lsn, int64_t taken_ns,
                           int64_t submit_ns);
void lane_stages_durable(struct wal_lane *lane, uint64_t durable, int64_t now_ns);

/* lane_decide.c */
void lane_decide(struct wal_lane *lane);
bool lane_section_enter(struct wal_lane *lane); /* false: somebody is inside */
void lane_section_leave(struct wal_lane *lane);

/* lane.c */
void lane_wake(struct wal_lane *lane);
void lane_durable_moved(struct wal_lane *lane);
/* One turn of the lane's thread. Without threads (options.no_threads) a test takes it in small
 * bites: everything but sleeping. Returns true when there may be more to do. */
bool lane_step(struct wal_lane *lane);
RF_NODISCARD int lane_flush_to(struct wal_lane *lane, uint64_t lsn, int64_t deadline_mono_ns);
/* Every log position from lsn on is free: the marks stand there, nothing is in flight. */
void lane_place(struct wal_lane *lane, uint64_t lsn);

/* lane_resume.c */
enum resume_state {
    RESUME_NONE,
    RESUME_ASKED,     /* W: who asks, from NONE; takes it back at his deadline */
    RESUME_RUNNING,   /* W: lane thread, from ASKED */
    RESUME_UNWATCHED, /* W: who asked, from RUNNING: nobody waits for the answer any more */
    RESUME_DONE,      /* W: lane thread, from RUNNING; NONE again by who asked */
};
void lane_resume_step(struct wal_lane *lane);

/* lane_segments.c */
RF_NODISCARD int lane_prepare_first(struct wal_lane *lane, struct err_msg *msg);
void *lane_prep_run(void *arg);
/* One piece of the preparing thread's work; *did_out: there may be more at once. */
RF_NODISCARD int lane_prep_step(struct wal_lane *lane, bool *did_out);
void lane_prep_kick(struct wal_lane *lane);
/* Before the threads are there, and when they are gone: what is ready beyond two becomes free again,
 * from the last one down. */
void lane_give_back(struct wal_lane *lane);
/* At the start: the ring has room for what the log has already, and no image beyond it. */
void lane_fit_ring(struct wal_lane *lane);
/* The segment behind the current one is not there, and nothing is known to keep it from coming. */
bool lane_successor_comes(struct wal_lane *lane);
void lane_segments_free(struct wal_lane *lane, bool abandon);
RF_NODISCARD int lane_image_take(struct wal_lane *lane, struct wal_image **image_out);

#endif
