/* Inside io: the table that each environment and each queue fills. */
#ifndef RF_IO_IO_IMPL_H
#define RF_IO_IO_IMPL_H

#include "io/io.h"

struct io_env_ops {
    void (*close)(struct io_env *env);
    int (*open)(struct io_env *env, const char *path, unsigned flags, struct io_file **file_out);
    void (*file_close)(struct io_file *file);
    int (*pread)(struct io_file *file, void *buf, size_t bytes, uint64_t offset, size_t *done_out);
    int (*pwrite)(struct io_file *file, const void *buf, size_t bytes, uint64_t offset,
                  unsigned flags, size_t *done_out);
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
    const struct io_env_ops *ops;
};

struct io_file {
    struct io_env *env;
};

struct io_queue_ops {
    const char *name;
    void (*close)(struct io_queue *queue);
    int (*submit)(struct io_queue *queue, const struct io_request *requests, uint32_t n);
    int (*wait)(struct io_queue *queue, struct io_event *events, uint32_t max, int64_t timeout_ns);
    void (*wake)(struct io_queue *queue);
    void (*register_memory)(struct io_queue *queue, const struct io_memory *regions, uint32_t n);
};

struct io_queue {
    const struct io_queue_ops *ops;
    uint32_t depth;
    uint32_t in_flight;
};

#endif
