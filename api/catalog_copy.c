/* Reading a catalog without writing beside it: SQLite rolls a hot journal back, so a private copy
 * of both files is read instead. */
#include "api/handle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPY_CHUNK_BYTES (1u << 20)

static int copy_file(struct io_env *env, const char *name, const char *to)
{
    struct io_file *from;
    int rc = io_open(env, name, IO_READ, &from);
    if (rc != 0) return rc;
    FILE *out = fopen(to, "wbe");
    uint8_t *buffer = mem_alloc(COPY_CHUNK_BYTES);
    rc = out == NULL ? -errno : buffer == NULL ? -ENOMEM : 0;
    uint64_t at = 0;
    for (size_t n = 1; rc == 0 && n > 0; at += n) {
        rc = io_pread(from, buffer, COPY_CHUNK_BYTES, at, &n);
        if (rc == 0 && n > 0 && fwrite(buffer, 1, n, out) != n) rc = errno != 0 ? -errno : -EIO;
    }
    if (out != NULL && fclose(out) != 0 && rc == 0) rc = -errno;
    mem_free(buffer);
    io_close(from);
    return rc;
}

/* A folder of our own, in the first place that takes one: the machine may be read-only but for one. */
static int make_folder(char *folder, size_t bytes, struct err_msg *msg)
{
    const char *tmp = getenv("TMPDIR");
    const char *const places[] = {tmp != NULL && *tmp != '\0' ? tmp : "/tmp", "/tmp", "/var/tmp",
                                  "/dev/shm"};
    int first = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int n = snprintf(folder, bytes, "%s/ringfence-XXXXXX", places[i]);
        if (n > 0 && (size_t)n < bytes && mkdtemp(folder) != NULL) return 0;
        if (first == 0) first = n > 0 && (size_t)n < bytes ? -errno : -ENAMETOOLONG;
    }
    return err_set(msg, first, "%s: no room for a private copy of the catalog: %s", places[0],
                   err_text(first));
}

int catalog_copy_make(struct io_env *env, char **path_out, struct err_msg *msg)
{
    char folder[512], file[600], journal[640];
    int rc = make_folder(folder, sizeof folder, msg);
    if (rc != 0) return rc;
    snprintf(file, sizeof file, "%s/catalog.db", folder);
    snprintf(journal, sizeof journal, "%s-journal", file);
    rc = copy_file(env, "catalog.db", file);
    if (rc == 0) {
        rc = copy_file(env, "catalog.db-journal", journal);
        if (rc == -ENOENT) rc = 0;
    }
    char *path = rc == 0 ? mem_strndup(file, strlen(file)) : NULL;
    if (rc == 0 && path == NULL) rc = -ENOMEM;
    if (rc != 0) {
        (void)unlink(file);
        (void)unlink(journal);
        (void)rmdir(folder);
        if (rc == -ENOENT) rc = -RFE_WRONG_CATALOG;
        return err_set(msg, rc, "catalog.db: %s", err_text(rc));
    }
    *path_out = path;
    return 0;
}

void catalog_copy_remove(char *path)
{
    char journal[640];
    snprintf(journal, sizeof journal, "%s-journal", path);
    (void)unlink(path);
    (void)unlink(journal);
    *strrchr(path, '/') = '\0';
    (void)rmdir(path);
    mem_free(path);
}
