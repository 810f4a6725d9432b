#include "io/fork.h"
#include "io/io_impl.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static const unsigned open_flags_all = IO_READ | IO_WRITE | IO_CREATE | IO_EXCL | IO_DIRECT;

static const struct io_env_ops *env_ops(const struct io_env *env)
{
    CHECK(env != NULL && env->magic == IO_ENV_MAGIC);
    return env->ops;
}

static const struct io_env_ops *file_ops(const struct io_file *file)
{
    CHECK(file != NULL && file->magic == IO_FILE_MAGIC);
    return env_ops(file->env);
}

static const struct io_queue_ops *queue_ops(const struct io_queue *queue)
{
    CHECK(queue != NULL && queue->magic == IO_QUEUE_MAGIC);
    return queue->ops;
}

/* Paths come from configuration and from directories, so a bad one is an error, not a broken
 * invariant. */
static int check_path(const char *path)
{
    CHECK(path != NULL);
    if (path[0] == '\0') return -ENOENT;
    return strlen(path) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* ---- environments and files ---- */

void io_env_close(struct io_env *env)
{
    if (env == NULL) return;
    env_ops(env)->close(env);
}

int io_open(struct io_env *env, const char *path, unsigned flags, struct io_file **file_out)
{
    CHECK((flags & ~open_flags_all) == 0 && (flags & (IO_READ | IO_WRITE)) != 0);
    CHECK((flags & IO_EXCL) == 0 || (flags & IO_CREATE) != 0);
    CHECK((flags & IO_CREATE) == 0 || (flags & IO_WRITE) != 0);
    int rc = check_path(path);
    return rc != 0 ? rc : env_ops(env)->open(env, path, flags, file_out);
}

void io_close(struct io_file *file)
{
    if (file == NULL) return;
    const struct io_env_ops *ops = file_ops(file);
    ops->file_close(file);
}

int io_pread(struct io_file *file, void *buf, size_t bytes, uint64_t offset, size_t *done_out)
{
    CHECK(bytes <= INT64_MAX && offset <= INT64_MAX - bytes);
    size_t done = 0;
    int rc = file_ops(file)->pread(file, buf, bytes, offset, &done);
    if (done_out != NULL) *done_out = done;
    return rc;
}

int io_pwrite(struct io_file *file, const void *buf, size_t bytes, uint64_t offset, unsigned flags,
              size_t *done_out)
{
    CHECK((flags & ~IO_DSYNC) == 0);
    CHECK(bytes <= INT64_MAX && offset <= INT64_MAX - bytes);
    size_t done = 0;
    int rc = file_ops(file)->pwrite(file, buf, bytes, offset, flags, &done);
    if (done_out != NULL) *done_out = done;
    return rc;
}

int io_sync(struct io_file *file)
{
    return file_ops(file)->sync(file);
}

int io_truncate(struct io_file *file, uint64_t bytes)
{
    CHECK(bytes <= INT64_MAX);
    return file_ops(file)->truncate(file, bytes);
}

int io_size(struct io_file *file, uint64_t *bytes_out)
{
    return file_ops(file)->size(file, bytes_out);
}

int io_geometry(struct io_file *file, struct io_geometry *geometry_out)
{
    return file_ops(file)->geometry(file, geometry_out);
}

int io_lock(struct io_file *file, bool exclusive)
{
    return file_ops(file)->lock(file, exclusive);
}

/* ---- names ---- */

int io_rename(struct io_env *env, const char *from, const char *to)
{
    int rc = check_path(from);
    if (rc == 0) rc = check_path(to);
    return rc != 0 ? rc : env_ops(env)->rename(env, from, to);
}

int io_unlink(struct io_env *env, const char *path)
{
    int rc = check_path(path);
    return rc != 0 ? rc : env_ops(env)->unlink(env, path);
}

int io_mkdir(struct io_env *env, const char *path)
{
    int rc = check_path(path);
    return rc != 0 ? rc : env_ops(env)->mkdir(env, path);
}

int io_sync_dir(struct io_env *env, const char *path)
{
    int rc = check_path(path);
    return rc != 0 ? rc : env_ops(env)->sync_dir(env, path);
}

int io_list(struct io_env *env, const char *path,
            int (*each)(void *ctx, const char *name, bool is_dir), void *ctx)
{
    int rc = check_path(path);
    return rc != 0 ? rc : env_ops(env)->list(env, path, each, ctx);
}

int io_lock_dir(struct io_env *env, const char *path, bool exclusive, struct io_file **file_out)
{
    int rc = check_path(path);
    return rc != 0 ? rc : env_ops(env)->lock_dir(env, path, exclusive, file_out);
}

/* ---- queues ---- */

/* Whether the caller may use the queue. The address of a thread's own byte stands for the thread: a
 * compare, and no system call. */
static bool is_owner(const struct io_queue *queue, const void **here_out)
{
    static _Thread_local const char here;
    *here_out = &here;
    return queue->owner == NULL || queue->owner == &here;
}

static void check_owner(struct io_queue *queue)
{
    const void *here;
    CHECK(is_owner(queue, &here));
    queue->owner = here;
}

int io_queue_open(struct io_env *env, const struct io_queue_options *options,
                  struct io_queue **queue_out)
{
    CHECK(options->depth >= 1 && options->depth <= IO_QUEUE_DEPTH_MAX);
    CHECK(options->backend <= IO_BACKEND_POSIX);
    uint64_t stamp;
    int rc = fork_stamp(&stamp);
    if (rc != 0) return rc;
    struct io_queue *queue;
    rc = env_ops(env)->queue_open(env, options, &queue);
    if (rc != 0) return rc;
    queue->fork_stamp = stamp;
    *queue_out = queue;
    return 0;
}

void io_queue_close(struct io_queue *queue)
{
    if (queue == NULL) return;
    const struct io_queue_ops *ops = queue_ops(queue);
    if (fork_is_other(queue->fork_stamp)) {
        ops->abandon(queue);
        return;
    }
    const void *here;
    CHECK(queue->in_flight == 0 || is_owner(queue, &here));
    ops->close(queue);
}

static void check_request(const struct io_queue *queue, const struct io_request *request)
{
    CHECK(request->op <= IO_OP_SYNC);
    CHECK(request->file != NULL && request->file->magic == IO_FILE_MAGIC);
    CHECK(request->file->env == queue->env);
    CHECK((request->flags & ~IO_DSYNC) == 0);
    CHECK(request->flags == 0 || request->op == IO_OP_WRITE);
    CHECK(request->bytes <= INT32_MAX && request->offset <= (uint64_t)INT64_MAX - request->bytes);
}

int io_queue_submit(struct io_queue *queue, const struct io_request *requests, uint32_t n)
{
    const struct io_queue_ops *ops = queue_ops(queue);
    if (fork_is_other(queue->fork_stamp)) return -RFE_FORKED;
    check_owner(queue);
    CHECK(n <= queue->depth - queue->in_flight);
    for (uint32_t i = 0; i < n; i++)
        check_request(queue, &requests[i]);
    if (n == 0) return 0;
    int rc = ops->submit(queue, requests, n);
    if (rc == 0) queue->in_flight += n;
    return rc;
}

int io_queue_wait(struct io_queue *queue, struct io_event *events, uint32_t max, int64_t timeout_ns)
{
    const struct io_queue_ops *ops = queue_ops(queue);
    if (fork_is_other(queue->fork_stamp)) return -RFE_FORKED;
    check_owner(queue);
    CHECK(max >= 1);
    int n = ops->wait(queue, events, max, timeout_ns);
    if (n > 0) {
        CHECK((uint32_t)n <= queue->in_flight && (uint32_t)n <= max);
        queue->in_flight -= (uint32_t)n;
    }
    return n;
}

void io_queue_wake(struct io_queue *queue)
{
    const struct io_queue_ops *ops = queue_ops(queue);
    if (fork_is_other(queue->fork_stamp)) return;
    ops->wake(queue);
}

uint32_t io_queue_in_flight(const struct io_queue *queue)
{
    (void)queue_ops(queue);
    return queue->in_flight;
}

const char *io_queue_backend(const struct io_queue *queue)
{
    return queue_ops(queue)->name;
}

void io_queue_register_memory(struct io_queue *queue, const struct io_memory *regions, uint32_t n)
{
    const struct io_queue_ops *ops = queue_ops(queue);
    if (fork_is_other(queue->fork_stamp) || ops->register_memory == NULL || n == 0) return;
    ops->register_memory(queue, regions, n);
}

void io_queue_register_file(struct io_queue *queue, struct io_file *file)
{
    const struct io_queue_ops *ops = queue_ops(queue);
    CHECK(file != NULL && file->magic == IO_FILE_MAGIC && file->env == queue->env);
    if (fork_is_other(queue->fork_stamp) || ops->register_file == NULL) return;
    check_owner(queue);
    ops->register_file(queue, file);
}

void io_queue_forget_file(struct io_queue *queue, struct io_file *file)
{
    const struct io_queue_ops *ops = queue_ops(queue);
    CHECK(file != NULL && file->magic == IO_FILE_MAGIC);
    if (fork_is_other(queue->fork_stamp) || ops->forget_file == NULL) return;
    check_owner(queue);
    ops->forget_file(queue, file);
}
