/* The real file system. Files are found from a descriptor of the root, so a directory that is
 * renamed while it is in use stays the same directory. */
#include "io/real_impl.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static const struct io_env_ops real_ops;

static struct real_env *env_of(struct io_env *env)
{
    CHECK(env->ops == &real_ops);
    return (struct real_env *)env;
}

static struct real_file *file_of(struct io_file *file)
{
    return (struct real_file *)file;
}

/* ---- small helpers around system calls ---- */

static int open_at(int dir, const char *path, int flags)
{
    for (;;) {
        int fd = openat(dir, path, flags | O_CLOEXEC, 0644);
        if (fd >= 0) return fd;
        if (errno != EINTR) return -errno;
    }
}

/* For a loop around one system call: whether the errno in rc is worth another try. */
static bool try_again(int64_t rc, unsigned *tries)
{
    if (rc == -EINTR) return true;
    if (rc != -EAGAIN || ++*tries > IO_AGAIN_TRIES) return false;
    const struct timespec pause = {.tv_nsec = IO_AGAIN_SLEEP_NS};
    (void)nanosleep(&pause, NULL);
    return true;
}

/* Growing a file past RLIMIT_FSIZE is an error for us to report, but the kernel also sends SIGXFSZ,
 * which would end a host that never asked for it. So it is blocked meanwhile, and taken back.
 * Threads of ours block all signals anyway: for them this is one cheap call. */
struct xfsz_guard {
    sigset_t before;
};

static void xfsz_block(struct xfsz_guard *guard)
{
    sigset_t xfsz;
    sigemptyset(&xfsz);
    sigaddset(&xfsz, SIGXFSZ);
    CHECK(pthread_sigmask(SIG_BLOCK, &xfsz, &guard->before) == 0);
}

static void xfsz_restore(const struct xfsz_guard *guard, bool too_big)
{
    if (sigismember(&guard->before, SIGXFSZ) == 1) return;
    if (too_big) {
        const struct timespec now = {0};
        sigset_t xfsz;
        sigemptyset(&xfsz);
        sigaddset(&xfsz, SIGXFSZ);
        while (sigtimedwait(&xfsz, NULL, &now) < 0 && errno == EINTR)
            continue;
    }
    CHECK(pthread_sigmask(SIG_SETMASK, &guard->before, NULL) == 0);
}

/* ---- the environment ---- */

int io_env_open(const char *root, struct io_env **env_out)
{
    CHECK(root != NULL);
    if (root[0] == '\0') return -ENOENT;
    struct real_env *env = mem_zalloc(sizeof *env);
    if (env == NULL) return -ENOMEM;
    int rc = -ENOMEM;
    env->root = mem_strndup(root, strlen(root));
    if (env->root == NULL) goto free_env;
    /* Kept, so that a relative root means the same place however late it is made. */
    fork_hold();
    int start = open_at(AT_FDCWD, ".", O_PATH | O_DIRECTORY);
    if (start >= 0) {
        fork_fd_add(&env->start_fd, start);
        fork_fd_add(&env->root_fd, -1);
    }
    fork_let_go();
    if (start < 0) {
        rc = start;
        goto free_root;
    }
    io_env_init(&env->base, &real_ops);
    lock_init(&env->lock, LOCK_RANK_IO);
    *env_out = &env->base;
    return 0;
free_root:
    mem_free(env->root);
free_env:
    mem_free(env);
    return rc;
}

static void real_env_close(struct io_env *base)
{
    struct real_env *env = env_of(base);
    fork_fd_close(&env->root_fd);
    fork_fd_close(&env->start_fd);
    lock_deinit(&env->lock);
    base->magic = 0;
    mem_free(env->root);
    mem_free(env);
}

/* The descriptor that path starts from, or a negative error. */
static int start_of(struct real_env *env, const char *path)
{
    if (env->start_fd.fd < 0) return -RFE_FORKED;
    if (path[0] == '/') return env->start_fd.fd;
    lock_acquire(&env->lock);
    int fd = env->root_fd.fd;
    if (fd < 0) {
        fd = open_at(env->start_fd.fd, env->root, O_PATH | O_DIRECTORY);
        if (fd >= 0) env->root_fd.fd = fd; /* a fork in between leaks it to that child: O_PATH */
    }
    lock_release(&env->lock);
    return fd;
}

/* ---- geometry ---- */

/* One number from the disk's queue; a partition has its disk's a directory up. -1: not known. */
static long read_queue_number(dev_t device, const char *name)
{
    static const char *const up[] = {"", "../"};
    for (size_t i = 0; i < sizeof up / sizeof up[0]; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "/sys/dev/block/%u:%u/%squeue/%s", major(device),
                       minor(device), up[i], name);
        FILE *f = fopen(path, "re");
        if (f == NULL) continue;
        long value;
        int got = fscanf(f, "%ld", &value);
        (void)fclose(f);
        if (got == 1) return value;
    }
    return -1;
}

static struct real_disk disk_of(struct real_env *env, dev_t device)
{
    lock_acquire(&env->lock);
    if (!env->disk.known || env->disk.device != device) {
        long block = read_queue_number(device, "physical_block_size");
        env->disk = (struct real_disk){
            .device = device,
            .known = true,
            .fua = read_queue_number(device, "fua") == 1,
            .physical_block_bytes = block > 0 && block <= IO_BLOCK_BYTES_MAX ? (uint32_t)block : 0,
        };
    }
    struct real_disk disk = env->disk;
    lock_release(&env->lock);
    return disk;
}

static bool is_block_size(uint64_t bytes)
{
    return bytes >= IO_BLOCK_BYTES_MIN && bytes <= IO_BLOCK_BYTES_MAX && (bytes & (bytes - 1)) == 0;
}

static int read_geometry(struct real_env *env, int fd, struct io_geometry *geometry_out)
{
    struct stat st;
    struct statfs fs;
    if (fstat(fd, &st) != 0 || fstatfs(fd, &fs) != 0) return -errno;
    struct real_disk disk = disk_of(env, st.st_dev);
    uint64_t candidates[] = {(uint64_t)fs.f_bsize, disk.physical_block_bytes, 0};
    uint32_t memory_align = 0;
#ifdef STATX_DIOALIGN
    struct statx stx;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
        (stx.stx_mask & STATX_DIOALIGN) != 0) {
        candidates[2] = stx.stx_dio_offset_align;
        memory_align = stx.stx_dio_mem_align;
    }
#endif
    uint32_t block = IO_BLOCK_BYTES_MIN;
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        if (is_block_size(candidates[i]) && candidates[i] > block) block = (uint32_t)candidates[i];
    /* Without an answer from statx (0, or a kernel before 6.1) a whole block suits every disk. */
    *geometry_out = (struct io_geometry){
        .block_bytes = block,
        .memory_align = memory_align != 0 && memory_align <= block ? memory_align : block,
        .fua = disk.fua,
    };
    return 0;
}

static int real_geometry(struct io_file *base, struct io_geometry *geometry_out)
{
    struct real_file *file = file_of(base);
    struct io_geometry geometry = file->geometry;
    /* Relaxed: the flag is one word of advice, and orders nothing. */
    geometry.direct = atomic_load_explicit(&file->direct, memory_order_relaxed);
    *geometry_out = geometry;
    return 0;
}

/* ---- files ---- */

static int open_fd(struct real_env *env, const char *path, unsigned flags, bool *direct_out)
{
    int dir = start_of(env, path);
    if (dir < 0) return dir;
    int how = (flags & IO_WRITE) == 0 ? O_RDONLY : (flags & IO_READ) == 0 ? O_WRONLY : O_RDWR;
    if ((flags & IO_CREATE) != 0) how |= O_CREAT;
    if ((flags & IO_EXCL) != 0) how |= O_EXCL;
    if ((flags & IO_DIRECT) != 0) {
        int fd = open_at(dir, path, how | O_DIRECT);
        *direct_out = true;
        if (fd != -EINVAL) return fd;
        /* Refused only after the file was made (open(2), BUGS): it must not be "there" now. */
        how &= ~O_EXCL;
    }
    *direct_out = false;
    return open_at(dir, path, how);
}

static int real_open(struct io_env *base, const char *path, unsigned flags,
                     struct io_file **file_out)
{
    struct real_env *env = env_of(base);
    struct real_file *file = mem_zalloc(sizeof *file);
    if (file == NULL) return -ENOMEM;
    bool direct;
    fork_hold();
    int fd = open_fd(env, path, flags, &direct);
    if (fd >= 0) fork_fd_add(&file->fd, fd);
    fork_let_go();
    if (fd < 0) {
        mem_free(file);
        return fd;
    }
    int rc = read_geometry(env, fd, &file->geometry);
    if (rc != 0) {
        fork_fd_close(&file->fd); /* rc names the cause; nothing was written */
        mem_free(file);
        return rc;
    }
    io_file_init(&file->base, base);
    atomic_init(&file->direct, direct);
    *file_out = &file->base;
    return 0;
}

static void real_close(struct io_file *base)
{
    struct real_file *file = file_of(base);
    /* A ring that still had it registered would keep the file, and its lock, without us. */
    CHECK(file->registered == NULL || file->fd.fd < 0);
    fork_fd_close(&file->fd);
    base->magic = 0;
    mem_free(file);
}

bool real_direct_refused(struct real_file *file, const void *buf, size_t bytes, uint64_t offset)
{
    if (!atomic_load_explicit(&file->direct, memory_order_relaxed)) return false;
    uint32_t block = file->geometry.block_bytes;
    if (bytes % block != 0 || offset % block != 0) return false;
    if ((uintptr_t)buf % file->geometry.memory_align != 0) return false;
    int flags = fcntl(file->fd.fd, F_GETFL);
    if (flags < 0 || fcntl(file->fd.fd, F_SETFL, flags & ~O_DIRECT) != 0) return false;
    atomic_store_explicit(&file->direct, false, memory_order_relaxed);
    return true;
}

int64_t real_read_once(struct real_file *file, void *buf, size_t bytes, uint64_t offset)
{
    int fd = real_fd(file);
    if (fd < 0) return fd;
    for (unsigned tries = 0;;) {
        ssize_t got = pread(fd, buf, bytes, (off_t)offset);
        if (got >= 0) return got;
        int64_t rc = -errno;
        if (rc == -EINVAL && real_direct_refused(file, buf, bytes, offset)) continue;
        if (!try_again(rc, &tries)) return rc;
    }
}

int64_t real_write_once(struct real_file *file, const void *buf, size_t bytes, uint64_t offset,
                        unsigned flags)
{
    int fd = real_fd(file);
    if (fd < 0) return fd;
    union {
        const void *from;
        void *base;
    } data = {.from = buf};
    const struct iovec iov = {.iov_base = data.base, .iov_len = bytes};
    int how = (flags & IO_DSYNC) != 0 ? RWF_DSYNC : 0;
    struct xfsz_guard guard;
    xfsz_block(&guard);
    int64_t rc;
    for (unsigned tries = 0;;) {
        ssize_t put = pwritev2(fd, &iov, 1, (off_t)offset, how);
        rc = put >= 0 ? put : -errno;
        if (rc >= 0) break;
        if (rc == -EINVAL && real_direct_refused(file, buf, bytes, offset)) continue;
        if (!try_again(rc, &tries)) break;
    }
    xfsz_restore(&guard, rc == -EFBIG);
    return rc;
}

/* Where a transfer goes on that came back short. Direct I/O goes on at a block's start only: the
 * block that was done in part is done again whole. */
static size_t resume_at(struct real_file *file, size_t done)
{
    bool direct = atomic_load_explicit(&file->direct, memory_order_relaxed);
    return direct ? done - done % file->geometry.block_bytes : done;
}

static int real_pread(struct io_file *base, void *buf, size_t bytes, uint64_t offset,
                      size_t *done_out)
{
    struct real_file *file = file_of(base);
    size_t done = 0;
    while (done < bytes) {
        size_t from = resume_at(file, done);
        int64_t got = real_read_once(file, (char *)buf + from, bytes - from, offset + from);
        if (got < 0) {
            *done_out = done;
            return (int)got;
        }
        /* No further than before: the end of the file, in or before this block. */
        if (from + (size_t)got <= done) break;
        done = from + (size_t)got;
    }
    *done_out = done;
    return 0;
}

static int real_pwrite(struct io_file *base, const void *buf, size_t bytes, uint64_t offset,
                       unsigned flags, size_t *done_out)
{
    struct real_file *file = file_of(base);
    size_t done = 0;
    int rc = 0;
    while (done < bytes && rc == 0) {
        size_t from = resume_at(file, done);
        int64_t put =
            real_write_once(file, (const char *)buf + from, bytes - from, offset + from, flags);
        if (put < 0)
            rc = (int)put;
        else if (from + (size_t)put <= done)
            rc = -EIO; /* neither an error nor progress: no kernel should, and no loop may */
        else
            done = from + (size_t)put;
    }
    *done_out = done;
    return rc;
}

int real_sync(struct io_file *base)
{
    int fd = real_fd(file_of(base));
    if (fd < 0) return fd;
    return fdatasync(fd) == 0 ? 0 : -errno;
}

static int real_truncate(struct io_file *base, uint64_t bytes)
{
    int fd = real_fd(file_of(base));
    if (fd < 0) return fd;
    struct xfsz_guard guard;
    xfsz_block(&guard);
    int rc;
    do
        rc = ftruncate(fd, (off_t)bytes) == 0 ? 0 : -errno;
    while (rc == -EINTR);
    xfsz_restore(&guard, rc == -EFBIG);
    return rc;
}

static int real_size(struct io_file *base, uint64_t *bytes_out)
{
    int fd = real_fd(file_of(base));
    if (fd < 0) return fd;
    struct stat st;
    if (fstat(fd, &st) != 0) return -errno;
    *bytes_out = (uint64_t)st.st_size;
    return 0;
}

static int real_lock(struct io_file *base, bool exclusive)
{
    int fd = real_fd(file_of(base));
    if (fd < 0) return fd;
    struct flock whole = {
        .l_type = exclusive ? F_WRLCK : F_RDLCK,
        .l_whence = SEEK_SET,
    };
    if (fcntl(fd, F_OFD_SETLK, &whole) == 0) return 0;
    return errno == EACCES ? -EAGAIN : -errno; /* POSIX allows both for a lock that is held */
}

/* ---- names ---- */

static int real_rename(struct io_env *base, const char *from, const char *to)
{
    struct real_env *env = env_of(base);
    int from_dir = start_of(env, from);
    if (from_dir < 0) return from_dir;
    int to_dir = start_of(env, to);
    if (to_dir < 0) return to_dir;
    return renameat(from_dir, from, to_dir, to) == 0 ? 0 : -errno;
}

static int real_unlink(struct io_env *base, const char *path)
{
    int dir = start_of(env_of(base), path);
    if (dir < 0) return dir;
    return unlinkat(dir, path, 0) == 0 ? 0 : -errno;
}

static int real_mkdir(struct io_env *base, const char *path)
{
    struct real_env *env = env_of(base);
    int dir = start_of(env, path);
    const char *name = path;
    if (dir == -ENOENT && strcmp(path, ".") == 0) { /* the root itself */
        dir = env->start_fd.fd;
        name = env->root;
    }
    if (dir < 0) return dir;
    return mkdirat(dir, name, 0755) == 0 ? 0 : -errno;
}

static int open_dir(struct real_env *env, const char *path)
{
    int dir = start_of(env, path);
    return dir < 0 ? dir : open_at(dir, path, O_RDONLY | O_DIRECTORY);
}

static int real_sync_dir(struct io_env *base, const char *path)
{
    int fd = open_dir(env_of(base), path);
    if (fd < 0) return fd;
    int rc = fsync(fd) == 0 ? 0 : -errno;
    (void)close(fd); /* a directory's descriptor has nothing left to write */
    return rc;
}

struct listing {
    struct listed {
        char *name;
        bool is_dir;
    } * entries;
    size_t count, room;
};

static int listing_add(struct listing *listing, const char *name, bool is_dir)
{
    if (listing->count == listing->room) {
        size_t room = listing->room == 0 ? 64 : listing->room * 2;
        struct listed *more = mem_realloc(listing->entries, room * sizeof *more);
        if (more == NULL) return -ENOMEM;
        listing->entries = more;
        listing->room = room;
    }
    char *copy = mem_strndup(name, strlen(name));
    if (copy == NULL) return -ENOMEM;
    listing->entries[listing->count++] = (struct listed){.name = copy, .is_dir = is_dir};
    return 0;
}

static int entry_is_dir(DIR *dir, const struct dirent *entry, bool *is_dir_out)
{
    *is_dir_out = entry->d_type == DT_DIR;
    if (entry->d_type != DT_UNKNOWN) return 0;
    struct stat st;
    if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) return -errno;
    *is_dir_out = S_ISDIR(st.st_mode);
    return 0;
}

static int listing_read(struct listing *listing, DIR *dir)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) return -errno;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        bool is_dir;
        int rc = entry_is_dir(dir, entry, &is_dir);
        if (rc == -ENOENT) continue; /* gone meanwhile */
        if (rc == 0) rc = listing_add(listing, entry->d_name, is_dir);
        if (rc != 0) return rc;
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct listed *)a)->name, ((const struct listed *)b)->name);
}

static int real_list(struct io_env *base, const char *path,
                     int (*each)(void *ctx, const char *name, bool is_dir), void *ctx)
{
    int fd = open_dir(env_of(base), path);
    if (fd < 0) return fd;
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        int rc = -errno;
        (void)close(fd); /* rc names the cause */
        return rc;
    }
    struct listing listing = {0};
    int rc = listing_read(&listing, dir);
    (void)closedir(dir); /* only read from */
    if (rc == 0 && listing.count > 1)
        qsort(listing.entries, listing.count, sizeof listing.entries[0], by_name);
    for (size_t i = 0; i < listing.count; i++) {
        if (rc == 0) rc = each(ctx, listing.entries[i].name, listing.entries[i].is_dir);
        mem_free(listing.entries[i].name);
    }
    mem_free(listing.entries);
    return rc;
}

static int real_lock_dir(struct io_env *base, const char *path, bool exclusive,
                         struct io_file **file_out)
{
    struct real_file *file = mem_zalloc(sizeof *file);
    if (file == NULL) return -ENOMEM;
    fork_hold();
    int fd = open_dir(env_of(base), path), rc = fd;
    if (fd >= 0) fork_fd_add(&file->fd, fd);
    fork_let_go();
    if (fd < 0) goto free_file;
    do
        rc = flock(fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0 ? 0 : -errno;
    while (rc == -EINTR);
    if (rc != 0) goto close_fd;
    io_file_init(&file->base, base);
    *file_out = &file->base;
    return 0;
close_fd:
    fork_fd_close(&file->fd); /* rc names the cause */
free_file:
    mem_free(file);
    return rc;
}

/* ---- queues ---- */

/* What a kernel, a sandbox or a limit answers where it has no io_uring for us. */
static bool is_refusal(int rc)
{
    return rc == -ENOSYS || rc == -EPERM || rc == -EACCES || rc == -ENOMEM || rc == -EINVAL;
}

static int real_queue_open(struct io_env *base, const struct io_queue_options *options,
                           struct io_queue **queue_out)
{
    struct real_env *env = env_of(base);
    if (options->backend == IO_BACKEND_URING) return uring_queue_open(env, options, queue_out);
    if (options->backend == IO_BACKEND_POSIX) return posix_queue_open(env, options, queue_out);
    struct io_queue *queue;
    int refusal = uring_queue_open(env, options, &queue);
    int rc = refusal;
    if (is_refusal(refusal)) {
        atomic_store_explicit(&env->uring_refused, true, memory_order_relaxed); /* only advice */
        rc = posix_queue_open(env, options, &queue);
    }
    if (rc != 0) return rc;
    if (!atomic_exchange_explicit(&env->backend_announced, true, memory_order_relaxed)) {
        if (refusal == 0)
            log_info(options->log, "io.backend", "name=%s", io_queue_backend(queue));
        else
            log_info(options->log, "io.backend", "name=%s io_uring_setup=%s",
                     io_queue_backend(queue), err_name(refusal));
    }
    *queue_out = queue;
    return 0;
}

static const struct io_env_ops real_ops = {
    .close = real_env_close,
    .open = real_open,
    .file_close = real_close,
    .pread = real_pread,
    .pwrite = real_pwrite,
    .sync = real_sync,
    .truncate = real_truncate,
    .size = real_size,
    .geometry = real_geometry,
    .lock = real_lock,
    .rename = real_rename,
    .unlink = real_unlink,
    .mkdir = real_mkdir,
    .sync_dir = real_sync_dir,
    .list = real_list,
    .lock_dir = real_lock_dir,
    .queue_open = real_queue_open,
};
