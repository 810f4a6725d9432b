/* The one door to files. An io_env is a file system as one engine sees it: the real one, or the
 * fault double (io/fault.h), which keeps a durable and a volatile image of every file and of the
 * directory, records a trace, and fails, shortens, delays and reorders what a script asks for.
 * An io_queue is a completion queue on such an environment: io_uring where the kernel allows it,
 * else the POSIX back end with threads of its own, else the double's. All three keep the same
 * promises and run the same tests.
 *
 * Errors   0 or a negative errno. EINTR, and EAGAIN up to a bound, are retried inside, but for a
 *          sync: no failure of one is ever retried, since what it was to make durable may be gone.
 * Paths    relative ones are taken from the environment's root, absolute ones as they are.
 * Threads  blocking calls: any thread. A queue may be opened by any thread; its owner is the one
 *          that submits or waits first, and from then on no other thread may use it (checked), but
 *          for io_queue_wake and, with nothing in flight, io_queue_close.
 * Fork     the child keeps none of our descriptors (it would hold the locks on): files and queues
 *          of the parent answer -RFE_FORKED there, and may be closed, which frees memory only.
 * Durable  a write is durable after a successful io_sync submitted after it completed, or when it
 *          carried IO_DSYNC and did not come back short from a queue; a name after io_sync_dir of its
 *          directory. */
#ifndef RF_IO_IO_H
#define RF_IO_IO_H

#include "base/check.h"
#include "base/errors.h"
#include "base/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct io_env;
struct io_file;
struct io_queue;

/* ---- environments ---- */

/* The real file system. root: directory that relative paths start from (it need not exist yet:
 * io_mkdir(env, ".") makes it). */
RF_NODISCARD int io_env_open(const char *root, struct io_env **env_out);
/* All files and queues must be closed. NULL is allowed. */
void io_env_close(struct io_env *env);

/* ---- files, blocking ---- */

enum io_open_flags {
    IO_READ = 1,
    IO_WRITE = 2,
    IO_CREATE = 4, /* mode 0644 */
    IO_EXCL = 8,
    IO_DIRECT = 16, /* bypass the page cache; refused by the file system: opened without, and
                       io_geometry says so */
};

/* Files are opened O_CLOEXEC. -ENOENT, -EACCES, -EMFILE, ... */
RF_NODISCARD int io_open(struct io_env *env, const char *path, unsigned flags,
                         struct io_file **file_out);
void io_close(struct io_file *file);

/* Reads or writes until all bytes are done, an error, or the end of file. *done_out (may be NULL)
 * is how many were, on failure too. Returns 0 also for a short read at the end of file. On a file
 * opened with IO_DIRECT, offset and bytes are multiples of block_bytes and buf is aligned to
 * memory_align (io_geometry), else -EINVAL. */
#define IO_DSYNC 1u
RF_NODISCARD int io_pread(struct io_file *file, void *buf, size_t bytes, uint64_t offset,
                          size_t *done_out);
RF_NODISCARD int io_pwrite(struct io_file *file, const void *buf, size_t bytes, uint64_t offset,
                           unsigned flags, size_t *done_out);
RF_NODISCARD int io_sync(struct io_file *file); /* fdatasync; data and what is needed to read it */
RF_NODISCARD int io_truncate(struct io_file *file, uint64_t bytes);
RF_NODISCARD int io_size(struct io_file *file, uint64_t *bytes_out);

struct io_geometry {
    uint32_t block_bytes;  /* the larger of the file system's and the disk's physical block, 512..64
                              KiB */
    uint32_t memory_align; /* of buffers for direct I/O */
    bool direct;           /* writes bypass the page cache */
    bool fua;              /* the disk's queue has FUA: a durable direct write needs no flush */
};
RF_NODISCARD int io_geometry(struct io_file *file, struct io_geometry *geometry_out);

/* OFD lock on the whole file, through this very descriptor, so that it is held until writes in
 * flight have landed even if the process dies. -EAGAIN: somebody else holds it. */
RF_NODISCARD int io_lock(struct io_file *file, bool exclusive);

/* ---- names, blocking ---- */

RF_NODISCARD int io_rename(struct io_env *env, const char *from, const char *to);
RF_NODISCARD int io_unlink(struct io_env *env, const char *path);
RF_NODISCARD int io_mkdir(struct io_env *env, const char *path); /* -EEXIST when it is there */
RF_NODISCARD int io_sync_dir(struct io_env *env, const char *path);
/* Calls each(ctx, name, is_dir) for every entry but "." and ".."; a non-zero return stops and is
 * returned. Order: by name. */
RF_NODISCARD int io_list(struct io_env *env, const char *path,
                         int (*each)(void *ctx, const char *name, bool is_dir), void *ctx);
/* flock on a directory, held by the descriptor inside *file_out until io_close, the one call that
 * *file_out is for. -EAGAIN: held. */
RF_NODISCARD int io_lock_dir(struct io_env *env, const char *path, bool exclusive,
                             struct io_file **file_out);

/* ---- completion queues ---- */

enum io_backend { IO_BACKEND_AUTO, IO_BACKEND_URING, IO_BACKEND_POSIX };

struct io_queue_options {
    enum io_backend backend; /* AUTO: io_uring, else POSIX, said once by log_info "io.backend" */
    uint32_t depth;          /* most requests in flight, 1..256 */
    bool sqpoll;             /* io_uring only: a thread of the kernel looks for submissions. Spares
                                the owner's system calls and spends most of a core: off unless
                                measured. Where the kernel has none of it, without */
    const struct log *log;
};

enum io_op { IO_OP_WRITE, IO_OP_READ, IO_OP_SYNC };

struct io_request {
    enum io_op op;
    unsigned flags; /* IO_DSYNC on writes */
    struct io_file *file;
    void
        *buf; /* the kernel's until its event; aligned for direct I/O; not written by IO_OP_WRITE */
    uint32_t bytes;
    uint64_t offset;
    uint64_t user; /* comes back in the event */
};

struct io_event {
    uint64_t user;
    int32_t result; /* bytes done (may be short), 0 for a sync, or a negative errno */
};

/* -ENOSYS, -EPERM, -EACCES, -ENOMEM, -EINVAL only when backend is URING; AUTO falls back. */
RF_NODISCARD int io_queue_open(struct io_env *env, const struct io_queue_options *options,
                               struct io_queue **queue_out);
/* Waits for everything in flight, then frees. By the owner, or, when nothing is in flight and the
 * owner has ended or will not use it again, by any thread (checked). */
void io_queue_close(struct io_queue *queue);

/* Hands over n requests (n + in flight <= depth, checked). They may run and complete in any order.
 * Returns 0, or the errno of the submission itself: then none of the n is in flight. When only some
 * could be handed over, the result is 0 and each of the others comes back as an event with the
 * errno. */
RF_NODISCARD int io_queue_submit(struct io_queue *queue, const struct io_request *requests,
                                 uint32_t n);

/* Sleeps until at least one event is there, io_queue_wake was called, or timeout_ns passed
 * (0: only look; negative: no limit). Returns the number of events stored, 0..max, or -errno.
 * max >= 1. Nothing in flight does not end the wait: a sleeper without a limit needs a waker. */
RF_NODISCARD int io_queue_wait(struct io_queue *queue, struct io_event *events, uint32_t max,
                               int64_t timeout_ns);

/* Makes a present or the next io_queue_wait return; several calls before that count as one. What
 * the caller stored before is visible to the owner after that return. Thread: any, as long as the
 * queue is open; async-signal-safe. */
void io_queue_wake(struct io_queue *queue);

/* Requests handed over whose event was not stored by io_queue_wait yet. */
uint32_t io_queue_in_flight(const struct io_queue *queue);
const char *io_queue_backend(const struct io_queue *queue); /* "uring", "posix", "fault" */

/* Offers memory (the images) for registration with the kernel: requests whose buffer lies in one of
 * the regions then skip pinning it. Advisory: where the back end or the memlock limit has none of
 * it, nothing changes. Once for a queue, before its owner's first use or by the owner. The memory
 * stays mapped until the queue is closed. */
struct io_memory {
    void *base;
    size_t bytes;
};
void io_queue_register_memory(struct io_queue *queue, const struct io_memory *regions, uint32_t n);

/* The same for one file, which spares the look-up of its descriptor; at most 64 in a queue, one
 * queue a file. The kernel then holds the file (and its lock) until io_queue_forget_file, which
 * must come before io_close, with none of the file's requests in flight. Thread: the owner. */
void io_queue_register_file(struct io_queue *queue, struct io_file *file);
void io_queue_forget_file(struct io_queue *queue, struct io_file *file);

#endif
