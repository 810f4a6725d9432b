/* The manifest: one small checksummed file that says what a directory is and what must outlive the
 * log. It is replaced whole; a directory without one has not finished its creation.
 *
 * Manifest v1, little-endian, no padding:
 *   off  size  field
 *     0     8  magic               "RFMANIF1"
 *     8     4  version             1
 *    12     4  reserved            zero
 *    16     8  file_bytes          of the whole file
 *    24    16  uuid
 *    40     8  segment_bytes       a power of two, 1 MiB..1 GiB
 *    48     4  block_bytes         a power of two, 512..65536
 *    52     2  lanes               1..16
 *    54     2  time_unit           0 ns, 1 us, 2 ms
 *    56     8  partition_interval  in time units, > 0
 *    64     8  sequence            1.., grows by one with each replacement
 *    72     8  catalog_generation  of the catalog that belongs to this log
 *    80     8  version_obeyed      the highest version of metadata ever obeyed
 *    88     4  regions             1..65536
 *    92     4  sealed              number of sealed entries
 *    96     4  deletes             number of kept deletes
 *   100     4  reserved            zero
 *   104        lanes   times  head u64: number of the lane's oldest live segment
 *              regions times  lane u32: the lane of the region
 *              sealed  times  region u32, files u32, partition i64, through u64 (lsn), then files
 *                             times: name_bytes u16, name, bytes u64, checksum u64
 *              deletes times  region u32, payload_bytes u32, lsn u64, payload (of the record)
 *  last     8  checksum            XXH3-64 of all bytes before it, seed 0
 *
 * Sealed entries rise by (region, partition), deletes by (region, lsn); names are 1..255 bytes. */
#ifndef RF_WAL_MANIFEST_H
#define RF_WAL_MANIFEST_H

#include "base/check.h"
#include "base/errors.h"
#include "io/io.h"
#include "wal/segment.h"

#include <stddef.h>
#include <stdint.h>

#define WAL_MANIFEST_VERSION   1u
#define WAL_MANIFEST_BYTES_MAX (UINT64_C(1) << 30)
#define WAL_REGIONS_MAX        65536u
#define WAL_FILE_NAME_MAX      255u

enum wal_time_unit { WAL_TIME_NS, WAL_TIME_US, WAL_TIME_MS };

struct wal_sealed_file {
    char *name; /* owned; relative to the directory */
    uint64_t bytes;
    uint64_t checksum;
};
struct wal_sealed {
    uint32_t region;
    int64_t partition;
    uint64_t through_lsn; /* everything of the partition below it is in the files */
    uint32_t file_count;
    struct wal_sealed_file *files; /* owned */
};
struct wal_kept_delete {
    uint32_t region;
    uint64_t lsn;
    uint32_t payload_bytes;
    uint8_t *payload; /* owned; the payload of the delete record */
};

struct wal_manifest {
    uint8_t uuid[WAL_UUID_BYTES];
    uint64_t segment_bytes;
    uint32_t block_bytes;
    uint32_t lanes;
    enum wal_time_unit time_unit;
    int64_t partition_interval;
    uint64_t sequence;
    uint64_t catalog_generation;
    uint64_t version_obeyed;
    uint64_t head[WAL_LANES_MAX]; /* the first `lanes` count */
    uint32_t regions;
    uint32_t *region_lane; /* owned, one a region */
    uint32_t sealed_count;
    struct wal_sealed *sealed; /* owned */
    uint32_t delete_count;
    struct wal_kept_delete *deletes; /* owned */
};

/* Frees what m owns and clears it. A zeroed manifest is allowed. */
void wal_manifest_deinit(struct wal_manifest *m);

/* Checks every bound of the table. Returns 0, or -RFE_LIMIT with the field's name in msg. */
RF_NODISCARD int wal_manifest_check(const struct wal_manifest *m, struct err_msg *msg);

/* *bytes_out is freed with mem_free by the caller. Returns 0, -RFE_LIMIT, -ENOMEM. */
RF_NODISCARD int wal_manifest_encode(const struct wal_manifest *m, struct err_msg *msg,
                                     uint8_t **bytes_out, size_t *n_out);
/* name: of the file, for messages. Returns 0, -RFE_CORRUPT (damaged: file, offset, expected,
 * found), -RFE_NOT_OURS (another magic), -RFE_NEWER_VERSION, -ENOMEM. */
RF_NODISCARD int wal_manifest_decode(const uint8_t *bytes, size_t n, const char *name,
                                     struct err_msg *msg, struct wal_manifest *m_out);

#define WAL_MANIFEST_NAME     "manifest"
#define WAL_MANIFEST_TMP_NAME "manifest.tmp"

/* Reads and decodes the directory's manifest. Also -ENOENT and errors of io. */
RF_NODISCARD int wal_manifest_read(struct io_env *env, struct err_msg *msg,
                                   struct wal_manifest *m_out);

/* Replaces the directory's manifest: writes a file beside it, syncs, renames, syncs the directory.
 * The caller has raised m->sequence.
 * Durable: yes, when it returns 0. After an error the old or the new one is in force; which, is
 * known after the next success. */
RF_NODISCARD int wal_manifest_write(struct io_env *env, const struct wal_manifest *m,
                                    struct err_msg *msg);

#endif
