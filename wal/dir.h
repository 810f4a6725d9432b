/* A directory: whose it is, whether it is finished, who may use it, and what files it has.
 *
 *   owner                 text: pid and time of the last opener; locks nothing
 *   manifest              the last file of a creation (wal/manifest.h)
 *   catalog.db            the plane's
 *   lane-00/0000000001    a segment in use        lane-00/free-0000000001   one ready for use
 *
 * Opening locks first: flock on the directory settles a race of two, creation included; then an OFD
 * lock on every segment file, free ones too, through the descriptor that writes it, so that the
 * lock outlives a killed process for as long as its writes still land; only then the manifest is
 * read. All of it is tried again until the wait is over.
 *
 * Without a manifest, a directory that is empty or holds only names of ours and no record is a
 * creation that did not finish: it is started over. Anything else is not ours.
 *
 * Errors   -RFE_IN_USE (names the last opener's pid), -RFE_NOT_OURS, -RFE_UNFINISHED (nothing to
 *          read yet), -RFE_NEWER_VERSION, -RFE_CORRUPT, -RFE_LIMIT (bad parameters of a creation),
 *          -ENOENT (no directory), -ENOMEM, errors of io
 * Thread   one thread for a struct wal_dir */
#ifndef RF_WAL_DIR_H
#define RF_WAL_DIR_H

#include "base/check.h"
#include "base/errors.h"
#include "base/log.h"
#include "io/io.h"
#include "wal/manifest.h"

#include <stdbool.h>
#include <stdint.h>

#define WAL_DIR_WAIT_NS           (INT64_C(30) * 1000000000)
#define WAL_DIR_WAIT_READ_ONLY_NS (INT64_C(1) * 1000000000)
/* So much of a lane's first segment is filled with zeros before a creation returns. */
#define WAL_DIR_FILLED_BYTES (UINT64_C(4) << 20)

/* What a new directory is made with; fixed for its life. 0 or NULL: the default. */
struct wal_dir_fresh {
    uint64_t segment_bytes;      /* 64 MiB */
    uint32_t block_bytes;        /* as the device says */
    uint32_t lanes;              /* 1 */
    uint32_t regions;            /* 1 */
    const uint32_t *region_lane; /* NULL: region i in lane i % lanes */
    int64_t partition_interval;  /* 7 days in the time unit */
    enum wal_time_unit time_unit;
    /* Called once the segments are there and before the manifest: the catalog is made here, and
     * what of its facts the manifest holds is set (catalog_generation, version_obeyed). NULL:
     * nothing. Non-zero ends the creation and is returned. */
    int (*before_manifest)(void *ctx, struct wal_manifest *m);
    void *ctx;
};

struct wal_dir_options {
    struct io_env *env;
    bool read_only;  /* shared locks, writes nothing */
    bool create;     /* make a directory, or finish a creation, when there is none */
    int64_t wait_ns; /* for locks; negative: WAL_DIR_WAIT_NS, or _READ_ONLY_NS */
    const struct log *log;
    struct wal_dir_fresh fresh;
};

/* A file of a lane, open and locked. Whoever takes the descriptor over sets file to NULL. */
struct wal_dir_file {
    uint64_t number;
    struct io_file *file;
};
struct wal_dir_lane {
    struct wal_dir_file *live; /* owned; numbered files from the head on, rising */
    uint32_t live_count;
    struct wal_dir_file *spare; /* owned; free files, rising by the number in their names */
    uint32_t spare_count;
};

struct wal_dir {
    struct io_env *env;
    bool read_only;
    bool created; /* by this very open: every lane has two empty segments, of which only
                     WAL_DIR_FILLED_BYTES of the first are filled with zeros */
    struct io_file *lock;
    struct io_geometry geometry; /* of a segment file */
    struct wal_manifest manifest;
    struct wal_dir_lane lane[WAL_LANES_MAX]; /* the first manifest.lanes count */
};

/* Numbered files below a lane's head were being freed when the last owner ended: they get free
 * names here, or are left out when read_only. Free files that are shorter than a segment were still
 * being filled: they are removed, or left out. Gaps and missing heads are the verdict's to find.
 * Durable: a creation, when it returns 0. */
RF_NODISCARD int wal_dir_open(const struct wal_dir_options *o, struct err_msg *msg,
                              struct wal_dir *dir_out);

/* Reads the header of one of its segments: number and file are set, head and weak_copy are written.
 * Errors of wal_segment_head_read. */
struct wal_live_segment;
RF_NODISCARD int wal_dir_read_head(const struct wal_dir *dir, uint32_t lane,
                                   struct wal_live_segment *segment, struct err_msg *msg);

/* Closes the files that are still the directory's and gives the locks back. */
void wal_dir_close(struct wal_dir *dir);

#endif
