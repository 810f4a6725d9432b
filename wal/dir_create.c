/* The creation of a directory: everything first, the manifest last. */
#include "wal/dir_impl.h"

#include "base/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

enum { SEGMENTS = 2 }; /* a lane's: the first takes a record only when the second is ready */

static int remove_leftovers(struct io_env *env, struct wal_listing *found)
{
    static const char *const names[] = {WAL_MANIFEST_TMP_NAME, "catalog.db", "catalog.db-journal",
                                        "catalog.db-wal", "catalog.db-shm"};
    int rc = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && rc == 0; i++) {
        rc = io_unlink(env, names[i]);
        if (rc == -ENOENT) rc = 0;
    }
    for (uint32_t i = 0; i < found->file_count && rc == 0; i++) {
        char path[WAL_PATH_BYTES];
        const struct wal_listed_file *f = &found->files[i];
        if (f->spare)
            wal_free_path(path, f->lane, f->number);
        else
            wal_segment_path(path, f->lane, f->number);
        rc = io_unlink(env, path);
    }
    wal_listing_deinit(found);
    return rc;
}

static int64_t default_interval(enum wal_time_unit unit)
{
    static const int64_t a_second[] = {
        [WAL_TIME_NS] = 1000000000, [WAL_TIME_US] = 1000000, [WAL_TIME_MS] = 1000};
    return INT64_C(7) * 24 * 3600 * a_second[unit];
}

/* The manifest of a new directory, but for the block size that the device has not named yet. */
static int init_manifest(const struct wal_dir_fresh *fresh, struct wal_manifest *m,
                         struct err_msg *msg)
{
    m->segment_bytes = fresh->segment_bytes != 0 ? fresh->segment_bytes : UINT64_C(64) << 20;
    m->block_bytes = fresh->block_bytes != 0 ? fresh->block_bytes : 4096;
    m->lanes = fresh->lanes != 0 ? fresh->lanes : 1;
    m->time_unit = fresh->time_unit;
    if ((unsigned)m->time_unit > WAL_TIME_MS)
        return err_set(msg, -RFE_LIMIT, "time unit %d is unknown", (int)m->time_unit);
    m->partition_interval =
        fresh->partition_interval != 0 ? fresh->partition_interval : default_interval(m->time_unit);
    m->sequence = 1;
    for (uint32_t i = 0; i < m->lanes && i < WAL_LANES_MAX; i++)
        m->head[i] = 1;
    uint32_t regions = fresh->regions != 0 ? fresh->regions : 1;
    if (regions > WAL_REGIONS_MAX)
        return err_set(msg, -RFE_LIMIT, "%" PRIu32 " regions are too many", regions);
    m->region_lane = mem_zalloc_array(regions, sizeof *m->region_lane);
    if (m->region_lane == NULL) return -ENOMEM;
    m->regions = regions;
    for (uint32_t i = 0; i < regions; i++)
        m->region_lane[i] =
            fresh->region_lane != NULL ? fresh->region_lane[i] : i % (m->lanes != 0 ? m->lanes : 1);
    if (getrandom(m->uuid, sizeof m->uuid, 0) != (ssize_t)sizeof m->uuid) return -EIO;
    return wal_manifest_check(m, msg);
}

static int make_segment(const struct wal_dir_options *o, uint32_t lane, uint64_t number,
                        struct wal_dir *dir, struct err_msg *msg)
{
    struct wal_manifest *m = &dir->manifest;
    struct wal_dir_file *f = &dir->lane[lane].live[dir->lane[lane].live_count];
    char path[WAL_PATH_BYTES];
    wal_segment_path(path, lane, number);
    int rc = wal_segment_file_create(o->env, path, &f->file);
    if (rc != 0) return err_set(msg, rc, "%s: %s", path, err_text(rc));
    f->number = number;
    dir->lane[lane].live_count++;
    if (lane == 0 && number == 1) {
        rc = io_geometry(f->file, &dir->geometry);
        if (o->fresh.block_bytes == 0 && dir->geometry.block_bytes >= WAL_BLOCK_BYTES_MIN)
            m->block_bytes = dir->geometry.block_bytes;
    }
    uint64_t filled = number == 1 ? WAL_DIR_FILLED_BYTES : 0;
    if (filled > m->segment_bytes) filled = m->segment_bytes;
    struct wal_segment_head h = {.segment_bytes = m->segment_bytes,
                                 .block_bytes = m->block_bytes,
                                 .lane = lane,
                                 .number = number,
                                 .generation = 1};
    memcpy(h.uuid, m->uuid, WAL_UUID_BYTES);
    if (rc == 0) rc = wal_salt_new(&h.salt);
    if (rc == 0) rc = io_truncate(f->file, m->segment_bytes);
    if (rc == 0) rc = wal_segment_fill(f->file, 0, filled);
    if (rc == 0) rc = wal_segment_head_write_new(f->file, &h);
    return rc == 0 ? 0 : err_set(msg, rc, "%s: %s", path, err_text(rc));
}

static int make_lane(const struct wal_dir_options *o, uint32_t lane, struct wal_dir *dir,
                     struct err_msg *msg)
{
    char folder[WAL_PATH_BYTES];
    wal_lane_path(folder, lane);
    int rc = io_mkdir(o->env, folder);
    if (rc != 0 && rc != -EEXIST) return err_set(msg, rc, "%s: %s", folder, err_text(rc));
    dir->lane[lane].live = mem_zalloc_array(SEGMENTS, sizeof *dir->lane[lane].live);
    if (dir->lane[lane].live == NULL) return -ENOMEM;
    for (uint64_t number = 1; number <= SEGMENTS; number++) {
        rc = make_segment(o, lane, number, dir, msg);
        if (rc != 0) return rc;
    }
    rc = io_sync_dir(o->env, folder);
    return rc == 0 ? 0 : err_set(msg, rc, "%s: %s", folder, err_text(rc));
}

int wal_dir_create(const struct wal_dir_options *o, struct wal_listing *found, struct err_msg *msg,
                   struct wal_dir *dir)
{
    struct wal_manifest *m = &dir->manifest;
    int rc = init_manifest(&o->fresh, m, msg);
    if (rc != 0) return rc;
    rc = remove_leftovers(o->env, found);
    if (rc != 0) return err_set(msg, rc, "an unfinished creation: %s", err_text(rc));
    for (uint32_t lane = 0; lane < m->lanes && rc == 0; lane++)
        rc = make_lane(o, lane, dir, msg);
    if (rc == 0) rc = io_sync_dir(o->env, ".");
    if (rc == 0 && o->fresh.before_manifest != NULL) rc = o->fresh.before_manifest(o->fresh.ctx, m);
    if (rc != 0) return rc;
    rc = wal_manifest_write(o->env, m, msg);
    if (rc == 0) dir->created = true;
    return rc;
}
