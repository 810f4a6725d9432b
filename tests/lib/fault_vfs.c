#include "tests/lib/fault_vfs.h"

#include "base/clock.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#define PATH_BYTES   512
#define SECTOR_BYTES 4096 /* what "unix" reports */

struct fault_vfs {
    sqlite3_vfs base; /* pAppData is the environment */
    char name[64];
    _Atomic uint64_t random;
    _Atomic uint32_t temporary;
};

struct vfs_file {
    sqlite3_file base;
    struct io_env *env;
    struct io_file *file;
    char path[PATH_BYTES];
    bool sync_dir; /* a journal just made: its name is synced with its first bytes */
    bool delete_on_close;
    int lock;
};

static struct io_env *env_of(sqlite3_vfs *vfs)
{
    return vfs->pAppData;
}

static struct vfs_file *file_of(sqlite3_file *file)
{
    return (struct vfs_file *)file;
}

/* The directory that a path's name is in. */
static int sync_dir_of(struct io_env *env, const char *path)
{
    char dir[PATH_BYTES];
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        strcpy(dir, ".");
    else
        snprintf(dir, sizeof dir, "%.*s", (int)(slash == path ? 1 : slash - path), path);
    return io_sync_dir(env, dir);
}

/* ---- files ---- */

static int vfs_close(sqlite3_file *base)
{
    struct vfs_file *file = file_of(base);
    io_close(file->file);
    file->file = NULL;
    if (!file->delete_on_close) return SQLITE_OK;
    return io_unlink(file->env, file->path) == 0 ? SQLITE_OK : SQLITE_IOERR_DELETE;
}

static int vfs_read(sqlite3_file *base, void *buf, int bytes, sqlite3_int64 offset)
{
    size_t done;
    int rc = io_pread(file_of(base)->file, buf, (size_t)bytes, (uint64_t)offset, &done);
    if (rc != 0) return SQLITE_IOERR_READ;
    if (done == (size_t)bytes) return SQLITE_OK;
    memset((char *)buf + done, 0, (size_t)bytes - done); /* as SQLite asks */
    return SQLITE_IOERR_SHORT_READ;
}

static int vfs_write(sqlite3_file *base, const void *buf, int bytes, sqlite3_int64 offset)
{
    int rc = io_pwrite(file_of(base)->file, buf, (size_t)bytes, (uint64_t)offset, 0, NULL);
    return rc == 0 ? SQLITE_OK : rc == -ENOSPC ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

static int vfs_truncate(sqlite3_file *base, sqlite3_int64 bytes)
{
    return io_truncate(file_of(base)->file, (uint64_t)bytes) == 0 ? SQLITE_OK
                                                                  : SQLITE_IOERR_TRUNCATE;
}

static int vfs_sync(sqlite3_file *base, int flags)
{
    struct vfs_file *file = file_of(base);
    (void)flags; /* normal and full are one on Linux */
    if (io_sync(file->file) != 0) return SQLITE_IOERR_FSYNC;
    if (!file->sync_dir) return SQLITE_OK;
    file->sync_dir = false; /* as "unix": once, whether it worked or not */
    return sync_dir_of(file->env, file->path) == 0 ? SQLITE_OK : SQLITE_IOERR_DIR_FSYNC;
}

static int vfs_file_size(sqlite3_file *base, sqlite3_int64 *bytes_out)
{
    uint64_t bytes;
    if (io_size(file_of(base)->file, &bytes) != 0) return SQLITE_IOERR_FSTAT;
    *bytes_out = (sqlite3_int64)bytes;
    return SQLITE_OK;
}

static int vfs_lock(sqlite3_file *base, int level)
{
    if (file_of(base)->lock < level) file_of(base)->lock = level;
    return SQLITE_OK;
}

static int vfs_unlock(sqlite3_file *base, int level)
{
    if (file_of(base)->lock > level) file_of(base)->lock = level;
    return SQLITE_OK;
}

static int vfs_check_reserved_lock(sqlite3_file *base, int *reserved_out)
{
    *reserved_out = file_of(base)->lock >= SQLITE_LOCK_RESERVED;
    return SQLITE_OK;
}

static int vfs_file_control(sqlite3_file *base, int op, void *arg)
{
    (void)base;
    (void)op;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int vfs_sector_size(sqlite3_file *base)
{
    (void)base;
    return SECTOR_BYTES;
}

static int vfs_characteristics(sqlite3_file *base)
{
    (void)base;
    /* True of the double: a write never changes what lies beside it. */
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 1, /* no shared memory, so no WAL mode */
    .xClose = vfs_close,
    .xRead = vfs_read,
    .xWrite = vfs_write,
    .xTruncate = vfs_truncate,
    .xSync = vfs_sync,
    .xFileSize = vfs_file_size,
    .xLock = vfs_lock,
    .xUnlock = vfs_unlock,
    .xCheckReservedLock = vfs_check_reserved_lock,
    .xFileControl = vfs_file_control,
    .xSectorSize = vfs_sector_size,
    .xDeviceCharacteristics = vfs_characteristics,
};

/* ---- the VFS ---- */

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *base, int flags,
                    int *flags_out)
{
    struct vfs_file *file = file_of(base);
    *file = (struct vfs_file){.env = env_of(vfs)};
    if (path == NULL)
        snprintf(file->path, sizeof file->path, "sqlite-temporary-%u",
                 atomic_fetch_add(&((struct fault_vfs *)vfs)->temporary, 1));
    else if (snprintf(file->path, sizeof file->path, "%s", path) >= (int)sizeof file->path)
        return SQLITE_CANTOPEN;
    unsigned how = IO_READ;
    if ((flags & SQLITE_OPEN_READWRITE) != 0) how |= IO_WRITE;
    if ((flags & SQLITE_OPEN_CREATE) != 0) how |= IO_CREATE;
    if ((flags & SQLITE_OPEN_EXCLUSIVE) != 0) how |= IO_EXCL;
    if (io_open(file->env, file->path, how, &file->file) != 0) return SQLITE_CANTOPEN;
    const int journals = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
    file->sync_dir = (flags & SQLITE_OPEN_CREATE) != 0 && (flags & journals) != 0;
    file->delete_on_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
    file->base.pMethods = &file_methods;
    if (flags_out != NULL) *flags_out = flags;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int sync_dir)
{
    int rc = io_unlink(env_of(vfs), path);
    if (rc == -ENOENT) return SQLITE_IOERR_DELETE_NOENT;
    if (rc != 0) return SQLITE_IOERR_DELETE;
    if (sync_dir == 0) return SQLITE_OK;
    return sync_dir_of(env_of(vfs), path) == 0 ? SQLITE_OK : SQLITE_IOERR_DIR_FSYNC;
}

/* As "unix": an empty file does not exist. */
static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *there_out)
{
    struct io_file *file;
    uint64_t bytes = 0;
    int rc = io_open(env_of(vfs), path, IO_READ, &file);
    *there_out = 0;
    if (rc == -ENOENT) return SQLITE_OK;
    if (rc != 0) return SQLITE_IOERR_ACCESS;
    rc = io_size(file, &bytes);
    io_close(file);
    if (rc != 0) return SQLITE_IOERR_ACCESS;
    *there_out = flags != SQLITE_ACCESS_EXISTS || bytes > 0;
    return SQLITE_OK;
}

static int vfs_full_pathname(sqlite3_vfs *vfs, const char *path, int bytes, char *out)
{
    (void)vfs; /* the environment's paths are full enough: there is no working directory */
    return snprintf(out, (size_t)bytes, "%s", path) < bytes ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int vfs_randomness(sqlite3_vfs *vfs, int bytes, char *out)
{
    /* Repeatable, so that a trace is. */
    for (int i = 0; i < bytes; i++)
        out[i] = (char)(atomic_fetch_add(&((struct fault_vfs *)vfs)->random, 1) * 167 + 13);
    return bytes;
}

static int vfs_sleep(sqlite3_vfs *vfs, int microseconds)
{
    (void)vfs;
    return microseconds; /* nobody else is there to wait for */
}

static int vfs_current_time(sqlite3_vfs *vfs, double *days_out)
{
    (void)vfs;
    const double unix_epoch_days = 2440587.5; /* in SQLite's Julian days */
    *days_out = unix_epoch_days + (double)clock_read_ns(CLOCK_REALTIME) / 86400e9;
    return SQLITE_OK;
}

static int vfs_last_error(sqlite3_vfs *vfs, int bytes, char *out)
{
    (void)vfs;
    (void)bytes;
    (void)out;
    return 0;
}

void fault_vfs_register(const char *name, struct io_env *env)
{
    struct fault_vfs *vfs = calloc(1, sizeof *vfs);
    assert_non_null(vfs);
    assert_true(strlen(name) < sizeof vfs->name);
    strcpy(vfs->name, name);
    vfs->base = (sqlite3_vfs){
        .iVersion = 1,
        .szOsFile = sizeof(struct vfs_file),
        .mxPathname = PATH_BYTES - 1,
        .zName = vfs->name,
        .pAppData = env,
        .xOpen = vfs_open,
        .xDelete = vfs_delete,
        .xAccess = vfs_access,
        .xFullPathname = vfs_full_pathname,
        .xRandomness = vfs_randomness,
        .xSleep = vfs_sleep,
        .xCurrentTime = vfs_current_time,
        .xGetLastError = vfs_last_error,
    };
    assert_int_equal(sqlite3_vfs_register(&vfs->base, 0), SQLITE_OK);
}

void fault_vfs_unregister(const char *name)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(name);
    assert_non_null(vfs);
    assert_int_equal(sqlite3_vfs_unregister(vfs), SQLITE_OK);
    free(vfs);
}
