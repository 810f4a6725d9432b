/* Opening a directory: locks, then whose it is, then the manifest. */
#include "wal/dir.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "wal/cut.h"
#include "wal/dir_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RETRY_PAUSE_NS 5000000
#define OWNER_NAME     "owner"

/* ---- the owner file ---- */

static void write_owner(const struct wal_dir_options *o)
{
    char text[96];
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    int n = snprintf(text, sizeof text, "pid %ld\ntime ", (long)getpid());
    n += (int)strftime(text + n, sizeof text - (size_t)n, "%Y-%m-%dT%H:%M:%SZ\n", &tm);
    struct io_file *file = NULL;
    int rc = io_open(o->env, OWNER_NAME, IO_WRITE | IO_CREATE, &file);
    if (rc == 0) {
        rc = io_truncate(file, 0);
        if (rc == 0) rc = io_pwrite(file, text, (size_t)n, 0, 0, NULL);
        io_close(file);
    }
    /* It only names a pid in somebody's message: no reason to refuse the directory. */
    if (rc != 0) log_warn(o->log, "wal.owner_not_written", "error=%s", err_text(rc));
}

static long read_owner(struct io_env *env)
{
    struct io_file *file = NULL;
    char text[96] = {0};
    size_t got = 0;
    if (io_open(env, OWNER_NAME, IO_READ, &file) != 0) return 0;
    int rc = io_pread(file, text, sizeof text - 1, 0, &got);
    io_close(file);
    if (rc != 0 || strncmp(text, "pid ", 4) != 0) return 0;
    return strtol(text + 4, NULL, 10);
}

static int in_use(struct io_env *env, struct err_msg *msg)
{
    long pid = read_owner(env);
    if (pid > 0) return err_set(msg, -RFE_IN_USE, "in use (last opened by pid %ld)", pid);
    return err_set(msg, -RFE_IN_USE, "in use");
}

/* ---- locks ---- */

static int open_and_lock(const struct wal_dir_options *o, struct wal_listed_file *f,
                         struct err_msg *msg)
{
    char path[WAL_PATH_BYTES];
    if (f->spare)
        wal_free_path(path, f->lane, f->number);
    else
        wal_segment_path(path, f->lane, f->number);
    unsigned flags = IO_READ | IO_DIRECT | (o->read_only ? 0 : (unsigned)IO_WRITE);
    int rc = io_open(o->env, path, flags, &f->file);
    if (rc == 0) rc = io_lock(f->file, !o->read_only);
    if (rc != 0 && rc != -EAGAIN) err_set(msg, rc, "%s: %s", path, err_text(rc));
    return rc;
}

/* One try for everything: the directory, the listing under its lock, every segment file. -EAGAIN
 * when somebody holds any of it; then nothing is held. */
static int try_locks(const struct wal_dir_options *o, struct err_msg *msg,
                     struct wal_listing *found, struct io_file **lock_out)
{
    struct io_file *lock = NULL;
    memset(found, 0, sizeof *found);
    int rc = io_lock_dir(o->env, ".", !o->read_only, &lock);
    if (rc != 0) return rc;
    rc = wal_listing_read(o->env, found);
    for (uint32_t i = 0; i < found->file_count && rc == 0; i++)
        rc = open_and_lock(o, &found->files[i], msg);
    if (rc == 0) {
        *lock_out = lock;
        return 0;
    }
    wal_listing_deinit(found);
    io_close(lock);
    return rc;
}

static int wait_for_locks(const struct wal_dir_options *o, struct err_msg *msg,
                          struct wal_listing *found, struct io_file **lock_out)
{
    int64_t wait_ns = o->wait_ns;
    if (wait_ns < 0) wait_ns = o->read_only ? WAL_DIR_WAIT_READ_ONLY_NS : WAL_DIR_WAIT_NS;
    int64_t start_ns = clock_read_ns(CLOCK_MONOTONIC);
    for (;;) {
        int rc = try_locks(o, msg, found, lock_out);
        if (rc != -EAGAIN) {
            if (rc != 0) err_set(msg, rc, "%s", err_text(rc));
            return rc;
        }
        if (clock_read_ns(CLOCK_MONOTONIC) - start_ns >= wait_ns) return in_use(o->env, msg);
        const struct timespec pause = {.tv_nsec = RETRY_PAUSE_NS};
        nanosleep(&pause, NULL);
    }
}

/* ---- an existing directory ---- */

/* A free file of another size than a segment's was still being filled when its maker ended: a writer
 * removes it, a reader has no use for free files of any size. true in *keep_out: it is whole. */
static int settle_spare(const struct wal_dir_options *o, const struct wal_manifest *m,
                        const struct wal_listed_file *f, bool *keep_out)
{
    uint64_t bytes = 0;
    int rc = io_size(f->file, &bytes);
    if (rc != 0) return rc;
    *keep_out = bytes == m->segment_bytes;
    if (*keep_out || o->read_only) return 0;
    char path[WAL_PATH_BYTES];
    wal_free_path(path, f->lane, f->number);
    return io_unlink(o->env, path);
}

/* Moves the files that were found into the lanes' lists; what is below a head gets a free name. */
static int sort_files(const struct wal_dir_options *o, struct wal_listing *found,
                      struct wal_dir *dir, struct err_msg *msg)
{
    for (uint32_t i = 0; i < found->file_count; i++) {
        struct wal_listed_file *f = &found->files[i];
        if (f->lane >= dir->manifest.lanes)
            return err_set(msg, -RFE_CORRUPT,
                           "lane-%02" PRIu32 ": offset 0: expected no such lane (the manifest has "
                           "%" PRIu32 "), found one with files",
                           f->lane, dir->manifest.lanes);
        if (f->spare) {
            bool keep = false;
            int rc = settle_spare(o, &dir->manifest, f, &keep);
            if (rc != 0) return err_set(msg, rc, "an unfinished free segment: %s", err_text(rc));
            if (!keep) continue; /* closed with the listing */
        }
        bool freed = !f->spare && f->number < dir->manifest.head[f->lane];
        if (freed && o->read_only) continue;
        if (freed) {
            int rc = wal_segment_retire(o->env, f->lane, f->number);
            if (rc != 0) return err_set(msg, rc, "freeing a segment again: %s", err_text(rc));
        }
        struct wal_dir_lane *lane = &dir->lane[f->lane];
        struct wal_dir_file *to =
            freed || f->spare ? &lane->spare[lane->spare_count++] : &lane->live[lane->live_count++];
        *to = (struct wal_dir_file){f->number, f->file};
        f->file = NULL;
    }
    return 0;
}

static int compare_files(const void *a, const void *b)
{
    const struct wal_dir_file *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int adopt(const struct wal_dir_options *o, struct wal_listing *found, struct err_msg *msg,
                 struct wal_dir *dir)
{
    int rc = wal_manifest_read(o->env, msg, &dir->manifest);
    if (rc != 0) return err_set(msg, rc, "%s: %s", WAL_MANIFEST_NAME, err_text(rc));
    for (uint32_t i = 0; i < dir->manifest.lanes; i++) {
        dir->lane[i].live = mem_zalloc_array(found->file_count + 1, sizeof *dir->lane[i].live);
        dir->lane[i].spare = mem_zalloc_array(found->file_count + 1, sizeof *dir->lane[i].spare);
        if (dir->lane[i].live == NULL || dir->lane[i].spare == NULL) return -ENOMEM;
    }
    rc = sort_files(o, found, dir, msg);
    for (uint32_t i = 0; i < dir->manifest.lanes && rc == 0; i++) {
        struct wal_dir_lane *lane = &dir->lane[i];
        qsort(lane->live, lane->live_count, sizeof *lane->live, compare_files);
        qsort(lane->spare, lane->spare_count, sizeof *lane->spare, compare_files);
        if (i == 0 && lane->live_count > 0) rc = io_geometry(lane->live[0].file, &dir->geometry);
    }
    return rc;
}

/* ---- opening ---- */

/* No manifest: an unfinished creation, or nothing of ours. */
static int begin_or_refuse(const struct wal_dir_options *o, struct wal_listing *found,
                           struct err_msg *msg, struct wal_dir *dir)
{
    if (found->other)
        return err_set(msg, -RFE_NOT_OURS, "not a Ringfence directory: no manifest, but %s",
                       found->other_name);
    bool holds = false;
    int rc = wal_listing_holds_record(o->env, found, msg, &holds);
    if (rc != 0) return rc;
    if (holds) return -RFE_NOT_OURS;
    if (o->read_only || !o->create)
        return err_set(msg, -RFE_UNFINISHED, "%s", err_text(-RFE_UNFINISHED));
    return wal_dir_create(o, found, msg, dir);
}

static int make_root(const struct wal_dir_options *o, struct err_msg *msg)
{
    if (o->read_only || !o->create) return 0;
    int rc = io_mkdir(o->env, ".");
    if (rc == -EEXIST) return 0;
    if (rc != 0) return err_set(msg, rc, "making the directory: %s", err_text(rc));
    /* Its own name is durable only once its parent is; a parent that can't be synced (no right to
     * read it) is no reason to refuse. */
    (void)!io_sync_dir(o->env, "..");
    return 0;
}

int wal_dir_open(const struct wal_dir_options *o, struct err_msg *msg, struct wal_dir *dir_out)
{
    struct wal_dir dir = {.env = o->env, .read_only = o->read_only};
    struct wal_listing found;
    int rc = make_root(o, msg);
    if (rc != 0) return rc;
    rc = wait_for_locks(o, msg, &found, &dir.lock);
    if (rc != 0) return rc;
    if (found.manifest)
        rc = adopt(o, &found, msg, &dir);
    else
        rc = begin_or_refuse(o, &found, msg, &dir);
    wal_listing_deinit(&found);
    if (rc != 0) {
        wal_dir_close(&dir);
        return err_set(msg, rc, "%s", err_text(rc)); /* unless somebody closer has said it */
    }
    if (!o->read_only) write_owner(o);
    *dir_out = dir;
    return 0;
}

static void close_files(struct wal_dir_file *files, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (files[i].file != NULL) io_close(files[i].file);
    mem_free(files);
}

int wal_dir_read_head(const struct wal_dir *dir, uint32_t lane, struct wal_live_segment *s,
                      struct err_msg *msg)
{
    const struct wal_manifest *m = &dir->manifest;
    struct wal_segment_id id = {.segment_bytes = m->segment_bytes,
                                .block_bytes = m->block_bytes,
                                .lane = lane,
                                .number = s->number};
    char name[WAL_PATH_BYTES];
    memcpy(id.uuid, m->uuid, WAL_UUID_BYTES);
    wal_segment_path(name, lane, s->number);
    return wal_segment_head_read(s->file, &id, name, msg, &s->head, &s->weak_copy);
}

void wal_dir_close(struct wal_dir *dir)
{
    for (uint32_t i = 0; i < WAL_LANES_MAX; i++) {
        close_files(dir->lane[i].live, dir->lane[i].live_count);
        close_files(dir->lane[i].spare, dir->lane[i].spare_count);
    }
    wal_manifest_deinit(&dir->manifest);
    if (dir->lock != NULL) io_close(dir->lock); /* last: the next opener finds our files closed */
    memset(dir, 0, sizeof *dir);
}
