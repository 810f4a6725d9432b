/* A lane with what stands around it in an engine: a folder with a head, replay and cut before the
 * start, batches that are known by an id and can be checked to the byte, and a lease to end.
 *
 * Batches, and what their callers were told, are also written as marks into the trace of a fault
 * double, so that a crash at any point can be compared with what had been answered by then. */
#ifndef RF_TESTS_LANE_RIG_H
#define RF_TESTS_LANE_RIG_H

#include "io/fault.h"
#include "wal/lane.h"
#include "wal/replay.h"

#include <stdbool.h>
#include <stdint.h>

#define RIG_BATCHES_MAX 4096u

enum rig_fate {
    RIG_NONE,    /* no such batch */
    RIG_UNKNOWN, /* not answered yet, or with -RFE_WAL_ERROR */
    RIG_ACKNOWLEDGED,
    RIG_REFUSED,      /* void: fenced, unfit, or given up by its writer */
    RIG_REFUSED_SOON, /* void, but the record that says so is not durable yet */
};

struct rig;
struct rig_batch {
    struct wal_ticket ticket; /* first */
    struct rig *rig;
    struct wal_reservation r;
    uint32_t id;
    _Atomic uint32_t answered; /* futex: 1 once code is there */
    int code;
    bool given_up;
    uint64_t answered_lsn; /* what was reserved when it was answered: its answer stands below */
};

struct rig_options {
    struct io_env *env; /* borrowed; has a trace or not */
    bool is_fault;
    enum wal_mode mode;
    uint64_t segment_bytes; /* 0: 1 MiB */
    uint32_t block_bytes;   /* 0: 4096 */
    uint32_t segments_max;  /* 0: 6 */
    uint32_t depth;         /* 0: 4 */
    uint32_t write_bytes;   /* as of the lane */
    bool threads;           /* else rig_run does the lane's work */
    int64_t close_wait_ns;
    const struct log *log; /* NULL: none */
};

struct rig {
    struct rig_options o;
    struct wal_lane *lane;
    struct err_msg msg; /* of the last error */
    /* The lease. */
    _Atomic uint64_t view;
    _Atomic bool live;
    _Atomic uint64_t fits_from;        /* batches checked under an older view fit no other one */
    _Atomic uint32_t fits_always_from; /* but batches of these ids fit every one */
    void (*inside)(struct rig *rig, const char *hook); /* called in the section; may be NULL */
    void *inside_ctx;
    /* What was replayed when it was opened, in order. */
    uint32_t replayed_count;
    uint32_t replayed[RIG_BATCHES_MAX];
    uint64_t replayed_lsn[RIG_BATCHES_MAX];
    enum wal_verdict_kind verdict;
    struct rig_batch batch[RIG_BATCHES_MAX]; /* by id; id 0 is not used */
    _Atomic uint32_t void_calls, attach_calls, pins;
    _Atomic int head_error; /* that head_moved returns */
};

#define RIG_EPOCH_SHIFT 40

/* ---- life ---- */

/* Zeroes the rig; view (1, 1), live. It is large: not on the stack. */
void rig_init(struct rig *rig, const struct rig_options *options);
/* Makes the lane's folder if it is not there, replays, cuts, starts. On failure nothing is open, and
 * rig->msg says why. */
int rig_open(struct rig *rig);
int rig_close(struct rig *rig); /* as wal_lane_close */

/* ---- writing ---- */

/* Reserves and fills a batch, whose payload is a pattern of its id; -EAGAIN when there is no room. */
int rig_reserve(struct rig *rig, uint32_t id, uint32_t bytes);
void rig_publish(struct rig *rig, uint32_t id);
void rig_give_up(struct rig *rig, uint32_t id); /* publishes it as void */
/* Both in one; without room runs the lane's work, and trims if that does not help. */
int rig_write(struct rig *rig, uint32_t id, uint32_t bytes);
bool rig_answered(struct rig *rig, uint32_t id);

/* Without threads: the lane's and the preparing thread's work, until neither has anything to do, or
 * `turns` of the lane's. Never waits: what a fault double holds back stays in flight. */
void rig_run(struct rig *rig, uint32_t turns);
/* With threads: waits until the batch is answered, at most 20 s; returns its code. */
int rig_wait(struct rig *rig, uint32_t id);
int rig_trim(struct rig *rig); /* all that may go */

/* ---- what was told, in a trace ---- */

enum rig_told {
    RIG_TOLD_ACK = 1, /* id */
    RIG_TOLD_GIVEN_UP,
    RIG_TOLD_REFUSED,
    RIG_TOLD_UNKNOWN,
    RIG_TOLD_RESUMED, /* 0 */
    RIG_TOLD_TRIMMED, /* lsn: below it nothing has to be there */
    RIG_TOLD_DURABLE, /* lsn */
};
/* The fate of each batch as of event `at` of the trace of rig's environment: fates[RIG_BATCHES_MAX].
 * A batch that is UNKNOWN when the lane has resumed counts as REFUSED. In an ASYNC or OFF lane a
 * refusal counts once it is durable. */
void rig_fates(struct rig *rig, uint64_t at, enum rig_fate *fates, uint64_t *trimmed_lsn_out);

/* Whether, as the trace tells it, each batch was synced when it was acknowledged: every byte of its
 * record lies in writes that by then were complete, and durable of themselves or by a sync submitted
 * after their completion. Prints the first that was not. For SYNC lanes. */
bool rig_was_synced(struct rig *rig, uint32_t *acknowledged_out);

/* What replay brought up (rig->replayed) against what was told, lsns from `told`. SYNC: every
 * acknowledged batch is there; else those that are there are a prefix of them. Nothing refused is
 * there, nothing twice, all in order, all whole. Prints the first thing that is wrong and returns
 * false. */
bool rig_check(const struct rig *replayed, const struct rig *told, const enum rig_fate *fates,
               uint64_t trimmed_lsn);

#endif
