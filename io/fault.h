/* The fault double: an environment in memory for tests, also the seam of the proofs.
 *
 * Every file and directory has two images. The volatile one is what calls read back; the durable
 * one is what a power failure leaves for certain. A write enters the volatile image when it
 * completes and the durable one by IO_DSYNC or a later sync; a name enters the durable directory by
 * io_sync_dir. Everything is recorded in a trace, in order of submission and of completion.
 *
 * fault_crash makes the environment that a power failure at one point of the trace could leave:
 * what was durable there is kept; each unsynced block, in flight or completed, and each unsynced
 * name is kept, dropped or torn at 512-byte bounds, as the choice says.
 *
 * Threads: as io.h says; the double locks itself. */
#ifndef RF_IO_FAULT_H
#define RF_IO_FAULT_H

#include "io/io.h"

struct fault_options {
    uint64_t seed;        /* of reordering and delays; 0: complete in order at once */
    uint32_t block_bytes; /* geometry to report; 0: 4096 */
    bool fua;
    bool record; /* keep a trace; needs memory for every byte written */
};

RF_NODISCARD int fault_env_open(const struct fault_options *options, struct io_env **env_out);

/* ---- scripted faults ---- */

enum fault_kind {
    FAULT_ERROR, /* the operation fails with error (a positive errno) and does nothing */
    FAULT_SHORT, /* a read, write or queue write does only short_bytes (< asked) and says so */
    FAULT_DELAY, /* a queue request completes only after fault_release() */
};
enum fault_target { /* bits */
                    FAULT_ON_OPEN = 1,
                    FAULT_ON_READ = 2,
                    FAULT_ON_WRITE = 4,
                    FAULT_ON_SYNC = 8,
                    FAULT_ON_NAME = 16, /* rename, unlink, mkdir, list */
                    FAULT_ON_SYNC_DIR = 32,
                    FAULT_ON_SIZE = 64, /* truncate, size */
                    FAULT_ON_LOCK = 128,
                    FAULT_ON_QUEUE_OPEN = 256,
                    FAULT_ON_ANY = 511,
};
struct fault_rule {
    enum fault_kind kind;
    unsigned targets; /* bits of fault_target */
    const char *path; /* only paths that contain this; NULL: all. Borrowed until fault_clear */
    uint64_t skip;    /* matching operations that pass first */
    uint64_t times;   /* then this many fail; UINT64_MAX: for good */
    int error;
    uint32_t short_bytes;
};
RF_NODISCARD int fault_add(struct io_env *env, const struct fault_rule *rule);
void fault_clear(struct io_env *env);
void fault_release(struct io_env *env); /* completes what FAULT_DELAY holds */
uint64_t fault_operations(const struct io_env *env, unsigned targets); /* how many matched so far */
void fault_set_space(struct io_env *env, uint64_t bytes); /* further growth beyond this: -ENOSPC */

/* ---- the trace and crashes ---- */

enum fault_event_kind {
    FAULT_EVENT_WRITE_SUBMITTED,
    FAULT_EVENT_WRITE_COMPLETED,
    FAULT_EVENT_SYNC_SUBMITTED,
    FAULT_EVENT_SYNC_COMPLETED,
    FAULT_EVENT_TRUNCATE,
    FAULT_EVENT_NAME, /* create, rename, unlink, mkdir */
    FAULT_EVENT_SYNC_DIR,
    FAULT_EVENT_MARK, /* fault_mark(): a point that the test names */
};
uint64_t fault_trace_length(const struct io_env *env);
enum fault_event_kind fault_trace_kind(const struct io_env *env, uint64_t at);
/* Writes value into the trace at its present end; fault_trace_mark reads it back. */
void fault_mark(struct io_env *env, uint64_t value);
uint64_t fault_trace_mark(const struct io_env *env, uint64_t at);

enum fault_fate { FAULT_DROP, FAULT_KEEP, FAULT_TEAR };
/* Asked once for each thing that is not durable at the crash, in trace order; index counts from 0.
 * is_name: a directory change, which is kept or dropped, never torn. */
typedef enum fault_fate fault_choice(void *ctx, uint64_t index, bool is_name);

/* A new environment (recording or not, as options say) with what a crash just before event `at`
 * leaves; at = trace length: now. undecided_out (may be NULL): how many things were not durable. */
RF_NODISCARD int fault_crash(const struct io_env *env, uint64_t at, fault_choice *choice, void *ctx,
                             const struct fault_options *options, struct io_env **env_out,
                             uint64_t *undecided_out);
/* Ready choices: ctx is NULL for these two; for fault_choice_seeded a uint64_t * (moved on). */
fault_choice fault_choice_drop, fault_choice_keep, fault_choice_seeded;

/* ---- damage, for tests of the verdict ---- */

/* Changes both images. */
RF_NODISCARD int fault_poke(struct io_env *env, const char *path, uint64_t offset,
                            const void *bytes, size_t n);
RF_NODISCARD int fault_peek(struct io_env *env, const char *path, uint64_t offset, void *bytes,
                            size_t n);
/* A copy of everything, trace and rules left out. */
RF_NODISCARD int fault_clone(const struct io_env *env, struct io_env **env_out);

#endif
