/* Inside a lane. See lane.h for the face.
 *
 *   lane.c           life, the thread's loop, sleeping and waking, flush
 *   lane_reserve.c   reservation, publishing, the queue of those who wait for room
 *   lane_write.c     published prefix -> device -> durable mark
 *   lane_decide.c    the section: durable or published mark -> V, fence and abort records
 *   lane_segments.c  segments made ready behind, trim
 *   lane_resume.c    after a latch
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
#include "base/thread.h"
#include "wal/lane.h"
#include "wal/record.h"

/* Kept free at a segment's end and among the slots for fence, abort, mark and close records: each
 * fence needs an undecided batch, so their number is bounded by the writers' slots. */
#define LANE_CONTROL_BYTES 65536u
#define LANE_CONTROL_SLOTS 64u
/* A second write starts only when this many bytes wait. */
#define LANE_SECOND_WRITE_BYTES 65536u
/* A lone group up to this size is one blocking durable write. */
#define LANE_LONE_BYTES       131072u
#define LANE_WRITE_BYTES_MIN  65536u
#define LANE_WRITE_BYTES_MAX  4194304u
#define LANE_FLIGHTS          256u /* writes submitted and not yet known durable */
#define LANE_FIRST_FILL_BYTES 4194304u
#define LANE_SEGMENTS_MAX     4096u
#define LANE_STUCK_LOOKS      100u
#define LANE_STUCK_LOOK_NS    INT64_C(100000000)
#define LANE_MARK_AFTER_NS    INT64_C(1000000000)
#define LANE_MAGIC            UINT64_C(0x4c414e4552494e47)

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
    bool unfit;           /* W, R: deciders inside the section */
};
_Static_assert(sizeof(struct slot) == 64, "one line a slot");

struct wal_seg {
    uint64_t number;
    struct io_file *file;
    struct wal_image *image;
    struct wal_segment_head head;
    uint64_t salt;               /* in force where the log goes on: the header's, or a cut's */
    uint32_t arena_next;         /* under the reserve lock once it is current */
    _Atomic uint64_t filled_end; /* file bytes that are zero-filled or older: writers stop there */
    uint64_t free_number;
};

enum flight_state { FLIGHT_SUBMITTED, FLIGHT_COMPLETED, FLIGHT_SYNCING, FLIGHT_DURABLE };
struct flight {
    enum flight_state state;
    struct wal_seg *seg;
    uint64_t file_offset; /* of what is left to write */
    uint32_t bytes;       /* left to write */
    uint32_t bytes_all;
    uint64_t end_lsn; /* the log is complete up to here once this is durable */
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
    bool dsync_writes;   /* FUA: each write is durable by itself */

    /* ---- reservation: under reserve_lock, but for the atomics, which others may read ---- */
    _Alignas(RF_CACHE_LINE) struct spin reserve_lock;
    uint64_t next_lsn;
    struct wal_seg *cur;
    _Atomic uint64_t next_seq;     /* W: reserve_lock. R: any (acquire). Pair S2 */
    _Atomic uint64_t reserved_lsn; /* = next_lsn, for readers */
    _Atomic uint64_t ready_number; /* highest numbered segment. W: prep. R: reserve. Pair R1 */
    _Atomic uint64_t cur_number;
    _Atomic int latched; /* 0 or -errno. W: lane thread, under reserve_lock */
    _Atomic bool closing;

    /* ---- publishing ---- */
    _Alignas(RF_CACHE_LINE) _Atomic uint64_t published_bytes; /* ever; also the wake-up's fence */
    _Atomic uint64_t ring_wake_at; /* of published_bytes; W: lane thread */
    _Atomic uint32_t sleep_word;   /* LANE_AWAKE, LANE_ON_FUTEX, LANE_IN_RING */

    /* ---- marks ---- */
    _Alignas(
        RF_CACHE_LINE) _Atomic uint64_t durable; /* W: lane thread (release). R: any. Pair D1 */
    _Atomic uint64_t visible;     /* V. W: in the section (release). R: any. Pair V1 */
    _Atomic uint64_t decided_seq; /* slots below it are free for reuse. W: section. R: reserve */
    _Atomic uint64_t scanned_seq; /* likewise, W: lane thread */
    _Atomic uint64_t
        head_number; /* oldest live segment. W: trim under prep_lock. R: any. Pair H1 */

    /* ---- the section: odd while a decider is inside ---- */
    _Alignas(RF_CACHE_LINE) _Atomic uint64_t section;
    uint64_t fence_seq; /* in the section: seq of the pending fence record */
    bool fence_pending;
    uint64_t abort_seq; /* in the section: seq of the pending abort record */
    bool abort_pending;
    int64_t group_submit_ns, group_durable_ns; /* W: lane thread; stages only */
    _Atomic uint64_t close_view;               /* plane's thread: what it is closing */
    _Atomic uint64_t close_seq; /* everything reserved before it was published; W: plane */
    uint64_t close_section;     /* plane only */

    /* ---- lane thread only ---- */
    uint64_t scan_lsn;
    uint64_t submit_lsn;
    struct wal_seg *submit_seg;
    bool seal_pending;      /* the scan stopped behind a segment's last pad */
    uint64_t seal_file_end; /* file offset up to which that segment is written */
    struct flight flights[LANE_FLIGHTS];
    uint64_t flight_head, flight_tail; /* [head, tail) */
    uint32_t writes_in_flight;
    bool sync_in_flight;
    uint32_t write_bytes_max;
    uint64_t stuck_seq;
    uint32_t stuck_looks;
    int64_t stuck_look_ns;
    uint64_t marked_lsn; /* the largest mark that some record on disk carries */
    int64_t durable_moved_ns;
    bool close_written;

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
    _Atomic int space_error; /* -ENOSPC and the like, until a segment could be made */
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
void lane_write_step(struct wal_lane *lane);
void lane_handle_event(struct wal_lane *lane, const struct io_event *event);
void lane_latch(struct wal_lane *lane, int error, const char *what);
void lane_sync_step(struct wal_lane *lane);
bool lane_has_unscanned(struct wal_lane *lane);
void lane_check_stuck(struct wal_lane *lane);

/* lane_decide.c */
void lane_decide(struct wal_lane *lane);

/* lane.c */
void lane_wake(struct wal_lane *lane);
void lane_durable_moved(struct wal_lane *lane);

/* lane_segments.c */
RF_NODISCARD int lane_prepare_first(struct wal_lane *lane, struct err_msg *msg);
void *lane_prep_run(void *arg);
void lane_prep_kick(struct wal_lane *lane);
void lane_segments_free(struct wal_lane *lane, bool abandon);
RF_NODISCARD int lane_image_take(struct wal_lane *lane, struct wal_image **image_out);

#endif
