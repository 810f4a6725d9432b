#include "tests/lib/gate_vfs.h"

#include "base/check.h"
#include "base/thread.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <string.h>

struct gate_file {
    sqlite3_file base;
    sqlite3_file *real; /* behind this struct, in the same memory */
};

static sqlite3_vfs *real_vfs;
static _Atomic uint32_t shut, waiting; /* futexes */
static _Atomic uint32_t count[GATE_OPERATIONS];
static _Atomic uint32_t fail_from[GATE_OPERATIONS];
static _Atomic int fail_code[GATE_OPERATIONS];

static int verdict(enum gate_operation operation)
{
    uint32_t n = atomic_fetch_add(&count[operation], 1);
    int code = atomic_load(&fail_code[operation]);
    return code != 0 && n >= atomic_load(&fail_from[operation]) ? code : SQLITE_OK;
}

static sqlite3_file *real_of(sqlite3_file *f)
{
    return ((struct gate_file *)f)->real;
}

static int gate_close(sqlite3_file *f)
{
    return real_of(f)->pMethods->xClose(real_of(f));
}
static int gate_read(sqlite3_file *f, void *buf, int bytes, sqlite3_int64 at)
{
    return real_of(f)->pMethods->xRead(real_of(f), buf, bytes, at);
}
static int gate_write(sqlite3_file *f, const void *buf, int bytes, sqlite3_int64 at)
{
    sqlite3_int64 size = 0;
    int code = real_of(f)->pMethods->xFileSize(real_of(f), &size);
    if (code == SQLITE_OK) code = verdict(GATE_WRITE);
    if (code == SQLITE_OK && at + bytes > size) code = verdict(GATE_GROW);
    return code != SQLITE_OK ? code : real_of(f)->pMethods->xWrite(real_of(f), buf, bytes, at);
}
static int gate_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    int code = verdict(GATE_TRUNCATE);
    return code != SQLITE_OK ? code : real_of(f)->pMethods->xTruncate(real_of(f), size);
}
static int gate_sync(sqlite3_file *f, int flags)
{
    while (atomic_load(&shut) != 0) {
        atomic_store(&waiting, 1);
        futex_wake_all(&waiting);
        (void)futex_wait(&shut, 1, -1);
    }
    int code = verdict(GATE_SYNC);
    return code != SQLITE_OK ? code : real_of(f)->pMethods->xSync(real_of(f), flags);
}
static int gate_size(sqlite3_file *f, sqlite3_int64 *size)
{
    return real_of(f)->pMethods->xFileSize(real_of(f), size);
}
static int gate_lock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xLock(real_of(f), level);
}
static int gate_unlock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xUnlock(real_of(f), level);
}
static int gate_check_lock(sqlite3_file *f, int *out)
{
    return real_of(f)->pMethods->xCheckReservedLock(real_of(f), out);
}
static int gate_control(sqlite3_file *f, int op, void *arg)
{
    return real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}
static int gate_sector(sqlite3_file *f)
{
    return real_of(f)->pMethods->xSectorSize(real_of(f));
}
static int gate_device(sqlite3_file *f)
{
    return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = gate_close,
    .xRead = gate_read,
    .xWrite = gate_write,
    .xTruncate = gate_truncate,
    .xSync = gate_sync,
    .xFileSize = gate_size,
    .xLock = gate_lock,
    .xUnlock = gate_unlock,
    .xCheckReservedLock = gate_check_lock,
    .xFileControl = gate_control,
    .xSectorSize = gate_sector,
    .xDeviceCharacteristics = gate_device,
};

static int gate_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out)
{
    (void)vfs;
    struct gate_file *g = (struct gate_file *)f;
    g->real = (sqlite3_file *)(void *)(g + 1);
    memset(g->real, 0, (size_t)real_vfs->szOsFile);
    int rc = real_vfs->xOpen(real_vfs, name, g->real, flags, out);
    g->base.pMethods = rc == SQLITE_OK ? &methods : NULL;
    return rc;
}

void gate_vfs_reset(void)
{
    static sqlite3_vfs vfs;
    if (real_vfs == NULL) {
        real_vfs = sqlite3_vfs_find(NULL);
        CHECK(real_vfs != NULL);
        vfs = *real_vfs; /* what is not replaced works on names alone */
        vfs.pNext = NULL;
        vfs.zName = GATE_VFS;
        vfs.szOsFile = (int)sizeof(struct gate_file) + real_vfs->szOsFile;
        vfs.xOpen = gate_open;
        CHECK(sqlite3_vfs_register(&vfs, 0) == SQLITE_OK);
    }
    for (int i = 0; i < GATE_OPERATIONS; i++) {
        atomic_store(&count[i], 0);
        atomic_store(&fail_code[i], 0);
    }
    gate_vfs_shut(false);
    atomic_store(&waiting, 0);
}

void gate_vfs_shut(bool on)
{
    atomic_store(&waiting, 0);
    atomic_store(&shut, on);
    futex_wake_all(&shut);
}

void gate_vfs_await(void)
{
    while (atomic_load(&waiting) == 0)
        (void)futex_wait(&waiting, 0, -1);
}

void gate_vfs_fail(enum gate_operation operation, uint32_t skip, int code)
{
    atomic_store(&fail_from[operation], atomic_load(&count[operation]) + skip);
    atomic_store(&fail_code[operation], code);
}

uint32_t gate_vfs_count(enum gate_operation operation)
{
    return atomic_load(&count[operation]);
}
