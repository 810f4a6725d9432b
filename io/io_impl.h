/* Inside io: the table that each environment and each queue fills. io.c checks arguments and magic,
 * counts what is in flight, and refuses a forked child; the tables' functions need not. */
#ifndef RF_IO_IO_IMPL_H
#define RF_IO_IO_IMPL_H

#include "io/io.h"

#define IO_ENV_MAGIC   0x696f656e76303031u
#define IO_FILE_MAGIC  0x696f66696c653031u
#define IO_QUEUE_MAGIC 0x696f717565303031u

#define IO_QUEUE_DEPTH_MAX   256u
#define IO_BLOCK_BYTES_MIN   512u
#define IO_BLOCK_BYTES_MAX   65536u
#define IO_AGAIN_TRIES       64u /* EAGAIN is retried this often, IO_AGAIN_SLEEP_NS apart */
#define IO_AGAIN_SLEEP_NS    500000
#define IO_REGISTERED_FILES  64u
#define IO_POSIX_THREADS_MAX 8u

struct io_env_ops {
    void (*close)(struct io_env *env);
    int (*open)(struct io_env *env, const char *path, unsigned flags, struct io_file **file_out);
    void (*file_close)(struct io_file *file);
    int (*pread)(struct io_file *file, void *buf, size_t bytes, uint64_t offset, size_t *done_out);
    int (*pwrite)(struct io_file *file, const void *buf, size_t bytes, uint64_t offset,
                  unsigned flags, size_t *done_out); /* done_out is never NULL in these two */
    int (*sync)(struct io_file *file);
    int (*truncate)(struct io_file *file, uint64_t bytes);
    int (*size)(struct io_file *file, uint64_t *bytes_out);
    int (*geometry)(struct io_file *file, struct io_geometry *geometry_out);
    int (*lock)(struct io_file *file, bool exclusive);
    int (*rename)(struct io_env *env, const char *from, const char *to);
    int (*unlink)(struct io_env *env, const char *path);
    int (*mkdir)(struct io_env *env, const char *path);
    int (*sync_dir)(struct io_env *env, const char *path);
    int (*list)(struct io_env *env, const char *path,
                int (*each)(void *ctx, const char *name, bool is_dir), void *ctx);
    int (*lock_dir)(struct io_env *env, const char *path, bool exclusive,
                    struct io_file **file_out);
    int (*queue_open)(struct io_env *env, const struct io_queue_options *options,
                      struct io_queue **queue_out);
};

struct io_env {
    uint64_t magic;
    const struct io_env_ops *ops;
};

struct io_file {
    uint64_t magic;
    struct io_env *env;
};

struct io_queue_ops {
    const char *name;
    void (*close)(struct io_queue *queue);
    void (*abandon)(struct io_queue *queue); /* close in a forked child: frees memory only */
    int (*submit)(struct io_queue *queue, const struct io_request *requests, uint32_t n);
    int (*wait)(struct io_queue *queue, struct io_event *events, uint32_t max, int64_t timeout_ns);
    void (*wake)(struct io_queue *queue);
    /* NULL in these three: nothing to register. */
    void (*register_memory)(struct io_queue *queue, const struct io_memory *regions, uint32_t n);
    void (*register_file)(struct io_queue *queue, struct io_file *file);
    void (*forget_file)(struct io_queue *queue, struct io_file *file);
};

struct io_queue {
    uint64_t magic;
    const struct io_queue_ops *ops;
    struct io_env *env;
    uint64_t fork_stamp; /* of the process that opened it */
    const void *owner;   /* stands for the thread that submits and waits; NULL: none yet */
    uint32_t depth;
    uint32_t in_flight; /* W, R: the owner, in io.c */
};

static inline void io_env_init(struct io_env *env, const struct io_env_ops *ops)
{
    env->magic = IO_ENV_MAGIC;
    env->ops = ops;
}

static inline void io_file_init(struct io_file *file, struct io_env *env)
{
    file->magic = IO_FILE_MAGIC;
    file->env = env;
}

/* The caller fills the rest of its queue; io.c fills fork_stamp and owner. */
static inline void io_queue_init(struct io_queue *queue, const struct io_queue_ops *ops,
                                 struct io_env *env, uint32_t depth)
{
    queue->magic = IO_QUEUE_MAGIC;
    queue->ops = ops;
    queue->env = env;
    queue->owner = NULL;
    queue->depth = depth;
    queue->in_flight = 0;
}

#endif
