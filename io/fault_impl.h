/* Inside the fault double. fault.c has files, names and rules; fault_queue.c the queues;
 * fault_trace.c the trace, crashes and damage; fault_disk.c what is durable; fault_image.c bytes. */
#ifndef RF_IO_FAULT_IMPL_H
#define RF_IO_FAULT_IMPL_H

#include "base/lock.h"
#include "io/fault_disk.h"
#include "io/io_impl.h"

#define FAULT_RULES_MAX       64u
#define FAULT_TARGETS         11u  /* bits of fault_target */
#define FAULT_CHECKPOINT_STEP 256u /* events between disks kept for crashes at any point */

struct fault_file {
    struct io_file base;
    uint32_t node;
    unsigned flags;
    int lock; /* 0 none, 1 shared, 2 exclusive */
};

struct fault_node { /* the volatile side; the index is the same as on the disk */
    bool is_dir;
    struct image image;
    struct shared *path; /* the newest */
    uint32_t links, opens;
    uint32_t lock_shared;
    bool lock_exclusive;
};

struct fault_checkpoint {
    uint64_t at;
    struct disk disk; /* before event `at` */
};

struct fault_rule_state {
    struct fault_rule rule;
    uint64_t passed, used;
};

struct fault_env {
    struct io_env base;
    struct fault_options options;
    struct lock lock; /* all below */
    struct fault_node *nodes;
    uint32_t node_count;
    size_t node_room;
    struct names names;
    uint64_t space;
    uint64_t random;
    uint64_t next_op;
    uint32_t open_files;
    struct fault_rule_state rules[FAULT_RULES_MAX];
    uint32_t rule_count;
    uint64_t releases; /* calls of fault_release so far */
    uint64_t operations[FAULT_TARGETS];
    struct fault_queue *queues;
    struct disk disk;  /* now */
    struct disk start; /* before the first event; with record */
    struct event *events;
    size_t event_count, event_room;
    struct fault_checkpoint *checkpoints;
    size_t checkpoint_count, checkpoint_room;
    struct fault_checkpoint cursor; /* where the last crash looked */
    bool has_cursor;
};

extern const struct io_env_ops fault_ops;

static inline struct fault_env *fault_env_of(struct io_env *env)
{
    CHECK(env != NULL && env->magic == IO_ENV_MAGIC && env->ops == &fault_ops);
    return (struct fault_env *)env;
}

/* What the rules say of one operation. */
struct fault_verdict {
    int error;                  /* 0 or a negative errno */
    bool is_short, delay, hang; /* is_short: at most short_bytes */
    uint32_t short_bytes;
    int short_error; /* negative */
};

/* All of these: the environment's lock is held. */
struct fault_verdict fault_judge_locked(struct fault_env *env, enum fault_target target,
                                        const char *path, const char *other_path);
/* Takes over the event's references, tells the disk and the trace. */
void fault_emit_locked(struct fault_env *env, struct event event);

/* A write in two steps. Begin notes the submission; end applies the first `done` bytes, or, with a
 * negative errno, nothing, and notes the completion. */
struct fault_write {
    uint64_t op;
    uint32_t node;
    unsigned flags;
    uint64_t offset, bytes;
    struct shared *data; /* exactly the bytes asked */
};
struct fault_write fault_write_begin_locked(struct fault_env *env, uint32_t node, const void *buf,
                                            uint64_t bytes, uint64_t offset, unsigned flags);
void fault_write_end_locked(struct fault_env *env, struct fault_write *write, int64_t done);
/* How much of a write there is room for: bytes, or -ENOSPC when none. */
int64_t fault_room_locked(const struct fault_env *env, uint32_t node, uint64_t bytes,
                          uint64_t offset);
/* The volatile bytes; returns how many there were. */
uint64_t fault_read_locked(struct fault_env *env, uint32_t node, void *buf, uint64_t bytes,
                           uint64_t offset);
/* 0, or the errno of a transfer that the file's mode or alignment forbids. */
int fault_check_transfer(const struct fault_env *env, const struct fault_file *file, bool is_write,
                         const void *buf, uint64_t bytes, uint64_t offset);
/* The node of a path, or a negative errno. */
int64_t fault_find_locked(struct fault_env *env, const char *path);

int fault_queue_open(struct io_env *env, const struct io_queue_options *options,
                     struct io_queue **queue_out);
/* Completes what rules hold back, in every queue. */
void fault_release_queues_locked(struct fault_env *env);

/* An environment whose durable side is *disk (taken over), and its volatile side the same. */
struct fault_env *fault_env_make(const struct fault_options *options, struct disk *disk);
void fault_unload(struct fault_env *env); /* frees the volatile side */
void fault_trace_free(struct fault_env *env);

#endif
