/* The fault double: an environment in memory for tests, also the seam of the proofs.
 *
 * Every file and directory has two images. The volatile one is what calls read back; the durable
 * one is what a power failure leaves for certain. A write enters the volatile image when it
 * completes and the durable one at the same moment with IO_DSYNC, else at the end of a sync that
 * was submitted after it completed. A durable write that comes back short is as an ordinary one: what
 * it did waits for a sync. A size is as a write. A name enters the durable directory by
 * io_sync_dir (a rename across directories by both). A sync that fails makes nothing durable, and
 * no later sync makes up for it. Everything is recorded in a trace, in order of submission and of
 * completion.
 *
 * fault_crash makes the environment that a power failure at one point of the trace could leave:
 * what was durable there is kept; each unsynced block, in flight or completed, and each unsynced
 * name is kept, dropped or torn at 512-byte bounds, as the choice says. A block that reaches behind
 * the durable size takes the size with it when it is kept.
 *
 * The root is there from the start, "/" and ".." mean it too, and paths have no links. Direct files
 * insist on the alignment that io_geometry states. A write's buffer is compared at its completion
 * with what was submitted: who changed it in flight broke the rule, and is stopped.
 *
 * Threads: as io.h says; the double locks itself. An environment made from another one shares
 * memory with it but may be used and closed apart. */
#ifndef RF_IO_FAULT_H
#define RF_IO_FAULT_H

#include "io/io.h"

struct fault_options {
    /* Of the order and the moment of completions in queues: each wait completes some of what is in
     * flight. 0: everything completes in order within io_queue_submit. Also of torn blocks. */
    uint64_t seed;
    uint32_t block_bytes; /* geometry to report; 0: 4096 */
    bool fua;
    bool record; /* keep a trace; needs memory for every byte written but zeros */
};

RF_NODISCARD int fault_env_open(const struct fault_options *options, struct io_env **env_out);

/* ---- scripted faults ---- */

enum fault_kind {
    FAULT_ERROR, /* the operation fails with error (a positive errno) and does nothing */
    FAULT_SHORT, /* a read or write does only short_bytes, if that is less than asked. A queue and
                    io_pread say so; io_pwrite then fails with error (0: ENOSPC), as a disk does
                    that fills up half way */
    FAULT_DELAY, /* a queue request completes only after fault_release() or at the queue's close */
    FAULT_HANG,  /* the same, and any other call comes back, and does its work, only then */
};
enum fault_target { /* bits */
                    FAULT_ON_OPEN = 1,
                    FAULT_ON_READ = 2,
                    FAULT_ON_WRITE = 4,
                    FAULT_ON_SYNC = 8,
                    FAULT_ON_NAME =
                        16, /* rename, unlink, mkdir, list; rules see a rename's both paths */
                    FAULT_ON_SYNC_DIR = 32,
                    FAULT_ON_SIZE = 64, /* truncate, size */
                    FAULT_ON_LOCK = 128,
                    FAULT_ON_QUEUE_OPEN = 256,
                    FAULT_ON_ANY = 511,
                    /* Of a queue itself, and not among ANY: how often an owner looks is chance. */
                    FAULT_ON_SUBMIT = 512, /* io_queue_submit, whose path is its first request's */
                    FAULT_ON_WAIT = 1024,  /* io_queue_wait, before it looks */
};
struct fault_rule {
    enum fault_kind kind;
    unsigned targets; /* bits of fault_target */
    const char *path; /* only paths that contain this; NULL: all. Borrowed until fault_clear. A
                         file's path is the one it has now, from the root */
    uint64_t skip;    /* matching operations that pass first */
    uint64_t times;   /* then this many fail; UINT64_MAX: for good */
    int error;
    uint32_t short_bytes;
};
/* Of several rules that match an operation, the first added that is not used up decides, and only
 * that one counts it. -ENOSPC: 64 rules are there already. */
RF_NODISCARD int fault_add(struct io_env *env, const struct fault_rule *rule);
void fault_clear(struct io_env *env);   /* of rules; what is held stays so */
void fault_release(struct io_env *env); /* completes what FAULT_DELAY and FAULT_HANG hold */
/* How many operations of these kinds there were so far. */
uint64_t fault_operations(struct io_env *env, unsigned targets);
/* Files may grow by this much more, in sum; then -ENOSPC. What is cut or unlinked gives back. */
void fault_set_space(struct io_env *env, uint64_t bytes);

/* ---- the trace and crashes ---- */

enum fault_event_kind {
    FAULT_EVENT_WRITE_SUBMITTED,
    FAULT_EVENT_WRITE_COMPLETED,
    FAULT_EVENT_SYNC_SUBMITTED,
    FAULT_EVENT_SYNC_COMPLETED,
    FAULT_EVENT_TRUNCATE,
    FAULT_EVENT_NAME, /* create, rename, unlink, mkdir: done at once, as TRUNCATE */
    FAULT_EVENT_SYNC_DIR,
    FAULT_EVENT_MARK, /* fault_mark(): a point that the test names */
};
uint64_t fault_trace_length(struct io_env *env); /* 0 without `record` */
enum fault_event_kind fault_trace_kind(struct io_env *env, uint64_t at);
/* Writes value into the trace at its present end; fault_trace_mark reads it back. */
void fault_mark(struct io_env *env, uint64_t value);
uint64_t fault_trace_mark(struct io_env *env, uint64_t at);

struct fault_event {
    enum fault_event_kind kind;
    char path[256];  /* of the file or directory when it happened; of a rename, the new one */
    uint64_t op;     /* the same number in a submission and its completion */
    unsigned flags;  /* IO_DSYNC */
    int32_t result;  /* of a completion: bytes, 0 for a sync, or a negative errno */
    uint64_t offset; /* TRUNCATE: the new size */
    uint64_t bytes;
    uint64_t mark;
};
void fault_trace_event(struct io_env *env, uint64_t at, struct fault_event *event_out);
/* One line for people, without a newline. */
void fault_trace_describe(struct io_env *env, uint64_t at, char *text, size_t bytes);

enum fault_fate { FAULT_DROP, FAULT_KEEP, FAULT_TEAR };
/* Asked once for each thing that is not durable at the crash, in trace order (of submission); index
 * counts from 0. A thing is one block of a write, a new size, or a name. is_name: a directory
 * change, which is kept or dropped; torn means dropped there, and for a size. */
typedef enum fault_fate fault_choice(void *ctx, uint64_t index, bool is_name);

/* A new environment (recording or not, as options say; NULL: none of them) with what a crash just
 * before event `at` leaves, all of it durable; at = trace length: now. undecided_out (may be NULL):
 * how many things were not durable. Cheap when `at` rises from call to call. */
RF_NODISCARD int fault_crash(struct io_env *env, uint64_t at, fault_choice *choice, void *ctx,
                             const struct fault_options *options, struct io_env **env_out,
                             uint64_t *undecided_out);
/* Ready choices: ctx is NULL for these two; for fault_choice_seeded a uint64_t * (moved on). */
fault_choice fault_choice_drop, fault_choice_keep, fault_choice_seeded;

/* ---- damage, for tests of the verdict ---- */

/* Changes both images, and is in the trace as a durable write. No rule sees these two. -ENOENT. */
RF_NODISCARD int fault_poke(struct io_env *env, const char *path, uint64_t offset,
                            const void *bytes, size_t n);
/* Behind the end: zeros. */
RF_NODISCARD int fault_peek(struct io_env *env, const char *path, uint64_t offset, void *bytes,
                            size_t n);
/* A copy of everything with the same options; trace, rules, locks and open files left out. */
RF_NODISCARD int fault_clone(struct io_env *env, struct io_env **env_out);

#endif
