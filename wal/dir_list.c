/* What is in a directory, and whether a log without a manifest holds records. */
#include "wal/dir_impl.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "wal/record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_file_of_ours(const char *name)
{
    static const char *const names[] = {"owner",          WAL_MANIFEST_TMP_NAME,
                                        "catalog.db",     "catalog.db-journal",
                                        "catalog.db-wal", "catalog.db-shm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return false;
}

/* folder: "" for the root. */
static void note_other(struct wal_listing *found, const char *folder, const char *name)
{
    if (!found->other)
        snprintf(found->other_name, sizeof found->other_name, "%s%s%s", folder,
                 folder[0] != '\0' ? "/" : "", name);
    found->other = true;
}

static bool parse_lane(const char *name, uint32_t *lane_out)
{
    char path[WAL_PATH_BYTES];
    for (uint32_t lane = 0; lane < WAL_LANES_MAX; lane++) {
        wal_lane_path(path, lane);
        if (strcmp(name, path) != 0) continue;
        *lane_out = lane;
        return true;
    }
    return false;
}

static int each_in_root(void *ctx, const char *name, bool is_dir)
{
    struct wal_listing *found = ctx;
    uint32_t lane = 0;
    if (is_dir && parse_lane(name, &lane))
        found->lanes |= 1u << lane;
    else if (!is_dir && strcmp(name, WAL_MANIFEST_NAME) == 0)
        found->manifest = true;
    else if (is_dir || !is_file_of_ours(name))
        note_other(found, "", name);
    return 0;
}

struct lane_listing {
    struct wal_listing *found;
    uint32_t lane;
};

static int each_in_lane(void *ctx, const char *name, bool is_dir)
{
    struct lane_listing *l = ctx;
    struct wal_listing *found = l->found;
    uint64_t number = 0;
    enum wal_name_kind kind = is_dir ? WAL_NAME_OTHER : wal_segment_parse_name(name, &number);
    if (kind == WAL_NAME_OTHER) {
        char folder[WAL_PATH_BYTES];
        wal_lane_path(folder, l->lane);
        note_other(found, folder, name);
        return 0;
    }
    if (found->file_count == found->file_room) {
        uint32_t room = found->file_room != 0 ? found->file_room * 2 : 64;
        struct wal_listed_file *files = mem_realloc(found->files, room * sizeof *files);
        if (files == NULL) return -ENOMEM;
        found->files = files;
        found->file_room = room;
    }
    found->files[found->file_count++] =
        (struct wal_listed_file){.lane = l->lane, .spare = kind == WAL_NAME_FREE, .number = number};
    return 0;
}

/* By name, so files of a lane come with their numbers rising, numbered ones before free ones. */
int wal_listing_read(struct io_env *env, struct wal_listing *found)
{
    memset(found, 0, sizeof *found);
    int rc = io_list(env, ".", each_in_root, found);
    for (uint32_t lane = 0; lane < WAL_LANES_MAX && rc == 0; lane++) {
        if (!(found->lanes >> lane & 1)) continue;
        struct lane_listing l = {found, lane};
        char folder[WAL_PATH_BYTES];
        wal_lane_path(folder, lane);
        rc = io_list(env, folder, each_in_lane, &l);
    }
    return rc;
}

void wal_listing_deinit(struct wal_listing *found)
{
    for (uint32_t i = 0; i < found->file_count; i++)
        if (found->files[i].file != NULL) io_close(found->files[i].file);
    mem_free(found->files);
    memset(found, 0, sizeof *found);
}

/* ---- records without a manifest ---- */

/* The header of a file whose block size nobody has said: every block size is tried. */
static bool find_head(struct io_file *file, uint8_t *block, struct wal_segment_head *head_out)
{
    size_t got = 0;
    if (io_pread(file, block, WAL_BLOCK_BYTES_MAX, 0, &got) != 0) return false;
    for (uint32_t bytes = WAL_BLOCK_BYTES_MIN; bytes <= got; bytes *= 2)
        if (wal_segment_head_decode(block, bytes, head_out) == WAL_SEGMENT_HEAD_VALID) return true;
    return false;
}

static int scan_for_record(struct io_file *file, const struct wal_segment_head *head, uint8_t *buf,
                           size_t buf_bytes, uint64_t *offset_out)
{
    for (uint64_t base = 0; base < head->segment_bytes; base += buf_bytes) {
        size_t got = 0;
        int rc = io_pread(file, buf, buf_bytes, base, &got);
        if (rc != 0) return rc;
        for (size_t at = 0; at + WAL_RECORD_HEAD_BYTES <= got; at += WAL_RECORD_ALIGN) {
            struct wal_record_head h;
            uint64_t lsn = head->number * head->segment_bytes + base + at;
            if (wal_record_decode(buf + at, head->salt, lsn, &h) == WAL_RECORD_INVALID) continue;
            *offset_out = base + at;
            return 1;
        }
        if (got < buf_bytes) break;
    }
    return 0;
}

static int file_holds_record(struct io_env *env, const struct wal_listed_file *f, uint8_t *buf,
                             size_t buf_bytes, struct err_msg *msg)
{
    char path[WAL_PATH_BYTES];
    wal_segment_path(path, f->lane, f->number);
    struct io_file *file = NULL;
    int rc = io_open(env, path, IO_READ, &file);
    if (rc != 0) return err_set(msg, rc, "%s: %s", path, err_text(rc));
    struct wal_segment_head head;
    uint64_t offset = 0;
    if (find_head(file, buf, &head)) rc = scan_for_record(file, &head, buf, buf_bytes, &offset);
    io_close(file);
    if (rc == 1)
        err_set(msg, -RFE_NOT_OURS,
                "%s: offset %" PRIu64
                ": expected no record in a directory without a manifest, found one",
                path, offset);
    return rc;
}

int wal_listing_holds_record(struct io_env *env, const struct wal_listing *found,
                             struct err_msg *msg, bool *holds_out)
{
    const size_t buf_bytes = (size_t)1 << 20;
    uint8_t *buf = mem_alloc_aligned(4096, buf_bytes);
    if (buf == NULL) return -ENOMEM;
    int rc = 0;
    for (uint32_t i = 0; i < found->file_count && rc == 0; i++)
        if (!found->files[i].spare)
            rc = file_holds_record(env, &found->files[i], buf, buf_bytes, msg);
    mem_free(buf);
    if (rc < 0) return rc;
    *holds_out = rc == 1;
    return 0;
}
