/* Reading and replacing the manifest's file. */
#include "wal/manifest.h"

#include "base/alloc.h"

#include <errno.h>
#include <inttypes.h>

int wal_manifest_read(struct io_env *env, struct err_msg *msg, struct wal_manifest *m_out)
{
    struct io_file *file = NULL;
    int rc = io_open(env, WAL_MANIFEST_NAME, IO_READ, &file);
    if (rc != 0) return rc;
    uint8_t *bytes = NULL;
    uint64_t n = 0;
    size_t got = 0;
    rc = io_size(file, &n);
    if (rc != 0) goto close_file;
    if (n > WAL_MANIFEST_BYTES_MAX) {
        rc = err_set(msg, -RFE_CORRUPT,
                     "%s: offset 0: expected at most %" PRIu64 " bytes, found %" PRIu64,
                     WAL_MANIFEST_NAME, WAL_MANIFEST_BYTES_MAX, n);
        goto close_file;
    }
    rc = -ENOMEM;
    bytes = mem_alloc(n != 0 ? n : 1);
    if (bytes == NULL) goto close_file;
    rc = io_pread(file, bytes, n, 0, &got);
    if (rc == 0) rc = wal_manifest_decode(bytes, got, WAL_MANIFEST_NAME, msg, m_out);
    mem_free(bytes);
close_file:
    io_close(file);
    return rc;
}

static int write_tmp(struct io_env *env, const uint8_t *bytes, size_t n)
{
    struct io_file *file = NULL;
    int rc = io_open(env, WAL_MANIFEST_TMP_NAME, IO_WRITE | IO_CREATE, &file);
    if (rc != 0) return rc;
    rc = io_truncate(file, 0);
    if (rc == 0) rc = io_pwrite(file, bytes, n, 0, 0, NULL);
    if (rc == 0) rc = io_sync(file);
    io_close(file);
    return rc;
}

int wal_manifest_write(struct io_env *env, const struct wal_manifest *m, struct err_msg *msg)
{
    uint8_t *bytes = NULL;
    size_t n = 0;
    int rc = wal_manifest_encode(m, msg, &bytes, &n);
    if (rc != 0) return rc;
    rc = write_tmp(env, bytes, n);
    mem_free(bytes);
    if (rc == 0) rc = io_rename(env, WAL_MANIFEST_TMP_NAME, WAL_MANIFEST_NAME);
    if (rc == 0) rc = io_sync_dir(env, ".");
    if (rc != 0) err_set(msg, rc, "%s: %s", WAL_MANIFEST_NAME, err_text(rc));
    return rc;
}
