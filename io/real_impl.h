/* Inside the real environment: its files as its two queues see them. */
#ifndef RF_IO_REAL_IMPL_H
#define RF_IO_REAL_IMPL_H

#include "base/lock.h"
#include "io/fork.h"
#include "io/io_impl.h"

#include <stdatomic.h>
#include <sys/types.h>

/* What a disk says of itself, asked once for each device number. */
struct real_disk {
    dev_t device;
    bool known;
    bool fua;
    uint32_t physical_block_bytes; /* 0: it does not say */
};

struct real_env {
    struct io_env base;
    char *root;
    struct fork_fd start_fd;        /* the working directory when the environment was opened */
    struct fork_fd root_fd;         /* -1 until the root exists */
    struct lock lock;               /* over root_fd's opening and disk */
    struct real_disk disk;          /* the last one asked */
    _Atomic bool uring_refused;     /* the kernel said no once: asked again, but not waited for */
    _Atomic bool backend_announced; /* by log_info, once an environment */
};

struct real_file {
    struct io_file base;
    struct fork_fd fd;
    struct io_geometry geometry; /* but for direct, fixed when opened */
    _Atomic bool direct;         /* cleared by the first transfer that the file system refuses */
    struct io_queue *registered; /* W, R: that queue's owner. NULL: in none */
    uint32_t registered_slot;
};

/* The file's descriptor, or -RFE_FORKED in a forked child. */
static inline int real_fd(const struct real_file *file)
{
    return file->fd.fd >= 0 ? file->fd.fd : -RFE_FORKED;
}

/* One transfer as the kernel does it, so possibly short; EINTR, EAGAIN and a refusal of direct I/O
 * are dealt with. Returns bytes or a negative errno. Thread: any. */
int64_t real_read_once(struct real_file *file, void *buf, size_t bytes, uint64_t offset);
int64_t real_write_once(struct real_file *file, const void *buf, size_t bytes, uint64_t offset,
                        unsigned flags);
int real_sync(struct io_file *file);

/* After an EINVAL for this transfer: whether direct I/O is to blame, since the transfer is aligned.
 * Then the file goes on through the page cache, and the transfer is to be done again. */
bool real_direct_refused(struct real_file *file, const void *buf, size_t bytes, uint64_t offset);

int uring_queue_open(struct real_env *env, const struct io_queue_options *options,
                     struct io_queue **queue_out);
int posix_queue_open(struct real_env *env, const struct io_queue_options *options,
                     struct io_queue **queue_out);

#endif
