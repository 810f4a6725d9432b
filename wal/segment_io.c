/* Segment headers in files, salts, and the renames that give and take a segment's number. */
#include "wal/segment.h"

#include "base/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

int wal_segment_head_read(struct io_file *file, const struct wal_segment_id *id, const char *name,
                          struct err_msg *msg, struct wal_segment_head *head_out,
                          int *weak_copy_out)
{
    uint64_t bytes = 0;
    int rc = io_size(file, &bytes);
    if (rc != 0) return err_set(msg, rc, "%s: %s", name, err_text(rc));
    if (bytes != id->segment_bytes)
        return err_set(msg, -RFE_CORRUPT,
                       "%s: offset %" PRIu64 ": expected a file of %" PRIu64
                       " bytes, found %" PRIu64,
                       name, bytes, id->segment_bytes, bytes);
    uint8_t *blocks = mem_alloc_aligned(4096, 2 * (size_t)id->block_bytes);
    if (blocks == NULL) return -ENOMEM;
    uint8_t *last = blocks + id->block_bytes;
    size_t got_first = 0, got_last = 0;
    rc = io_pread(file, blocks, id->block_bytes, 0, &got_first);
    if (rc == 0)
        rc = io_pread(file, last, id->block_bytes, id->segment_bytes - id->block_bytes, &got_last);
    if (rc == 0 && (got_first != id->block_bytes || got_last != id->block_bytes)) rc = -EIO;
    if (rc != 0)
        err_set(msg, rc, "%s: reading the segment header: %s", name, err_text(rc));
    else
        rc = wal_segment_choose(blocks, last, id, name, msg, head_out, weak_copy_out);
    mem_free(blocks);
    return rc;
}

static uint64_t copy_offset(const struct wal_segment_head *h, int copy)
{
    return copy == 0 ? 0 : h->segment_bytes - h->block_bytes;
}

/* Encodes h into a fresh aligned block; NULL when there is no memory. */
static uint8_t *encode_block(const struct wal_segment_head *h)
{
    uint8_t *block = mem_alloc_aligned(4096, h->block_bytes);
    if (block != NULL) wal_segment_head_encode(block, h);
    return block;
}

int wal_segment_head_write_new(struct io_file *file, const struct wal_segment_head *h)
{
    uint8_t *block = encode_block(h);
    if (block == NULL) return -ENOMEM;
    int rc = io_pwrite(file, block, h->block_bytes, copy_offset(h, 0), 0, NULL);
    if (rc == 0) rc = io_pwrite(file, block, h->block_bytes, copy_offset(h, 1), 0, NULL);
    if (rc == 0) rc = io_sync(file);
    mem_free(block);
    return rc;
}

int wal_segment_head_rewrite(struct io_file *file, const struct wal_segment_head *h, int weak_copy)
{
    uint8_t *block = encode_block(h);
    if (block == NULL) return -ENOMEM;
    int copy = weak_copy < 0 ? 1 : weak_copy;
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++, copy = 1 - copy) {
        rc = io_pwrite(file, block, h->block_bytes, copy_offset(h, copy), 0, NULL);
        if (rc == 0) rc = io_sync(file);
    }
    mem_free(block);
    return rc;
}

int wal_segment_head_heal(struct io_file *file, const struct wal_segment_head *h, int weak_copy)
{
    if (weak_copy < 0) return 0;
    uint8_t *block = encode_block(h);
    if (block == NULL) return -ENOMEM;
    int rc = io_pwrite(file, block, h->block_bytes, copy_offset(h, weak_copy), 0, NULL);
    if (rc == 0) rc = io_sync(file);
    mem_free(block);
    return rc;
}

int wal_segment_file_create(struct io_env *env, const char *path, struct io_file **file_out)
{
    struct io_file *file = NULL;
    int rc = io_open(env, path, IO_READ | IO_WRITE | IO_CREATE | IO_EXCL | IO_DIRECT, &file);
    if (rc != 0) return rc;
    rc = io_lock(file, true);
    if (rc != 0) {
        io_close(file);
        return rc;
    }
    *file_out = file;
    return 0;
}

int wal_segment_fill(struct io_file *file, uint64_t from, uint64_t to)
{
    const size_t chunk = (size_t)1 << 20;
    CHECK(from % 4096 == 0 && to % 4096 == 0);
    uint8_t *zeros = mem_alloc_aligned(4096, chunk);
    if (zeros == NULL) return -ENOMEM;
    memset(zeros, 0, chunk);
    int rc = 0;
    while (from < to && rc == 0) {
        size_t bytes = to - from < chunk ? (size_t)(to - from) : chunk;
        rc = io_pwrite(file, zeros, bytes, from, 0, NULL);
        from += bytes;
    }
    mem_free(zeros);
    return rc;
}

int wal_salt_new(uint64_t *salt_out)
{
    uint64_t salt = 0;
    while (salt == 0) {
        ssize_t n = getrandom(&salt, sizeof salt, 0);
        if (n < 0 && errno != EINTR) return -errno;
        if (n != (ssize_t)sizeof salt) salt = 0;
    }
    *salt_out = salt;
    return 0;
}

static int rename_in_lane(struct io_env *env, uint32_t lane, const char *from, const char *to)
{
    int rc = io_rename(env, from, to);
    if (rc != 0) return rc;
    char folder[WAL_PATH_BYTES];
    wal_lane_path(folder, lane);
    return io_sync_dir(env, folder);
}

int wal_segment_publish(struct io_env *env, uint32_t lane, uint64_t free_number, uint64_t number)
{
    char from[WAL_PATH_BYTES], to[WAL_PATH_BYTES];
    wal_free_path(from, lane, free_number);
    wal_segment_path(to, lane, number);
    return rename_in_lane(env, lane, from, to);
}

int wal_segment_retire(struct io_env *env, uint32_t lane, uint64_t number)
{
    char from[WAL_PATH_BYTES], to[WAL_PATH_BYTES];
    wal_segment_path(from, lane, number);
    wal_free_path(to, lane, number);
    return rename_in_lane(env, lane, from, to);
}
