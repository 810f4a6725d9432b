/* The bytes of a batch: the payload of a data record, which is also what the memtable reads. The
 * only file that knows them besides docs/format/wal.md.
 *
 * Batch payload v1. Little-endian; offsets count from the payload's first byte (64-aligned in the
 * image), every part starts on a multiple of 8, gaps are zero.
 *
 *   head             32 bytes
 *     0  2  version          1
 *     2  2  group_count      tablets, 1..65,535
 *     4  4  region
 *     8  4  device_count
 *    12  4  fragment_count
 *    16  4  devices_off      device_count entries of 16 bytes
 *    20  4  fragments_off    fragment_count entries of 40 bytes
 *    24  8  zero
 *   groups           at 32, group_count entries of 32 bytes: one tablet's rows, ordered by device,
 *                    then time, stable
 *     0  8  incarnation      of the table
 *     8  4  rows             1..2^24
 *    12  4  columns          FIELD columns alone: tags are in the device's key
 *    16  4  columns_off      columns entries of 16 bytes
 *    20  4  times_off        rows int64
 *    24  4  fragment_first   its fragments are fragment_first .. + fragment_count - 1
 *    28  4  fragment_count
 *   column           16 bytes
 *     0  4  id
 *     4  1  type             IoTDB's code
 *     5  1  flags            1: has a null bitmap; 2: null in every row (no values, no bitmap)
 *     6  2  zero
 *     8  4  values_off       rows values; TEXT, STRING, BLOB: rows + 1 uint32 positions, then,
 *                            behind padding to 8, the bytes they point into
 *    12  4  nulls_off        bitmap of rows bits, bit set: null; 0: none
 *   device           16 bytes
 *     0  4  key_off          bytes; not aligned
 *     4  4  key_bytes        0..4096
 *     8  4  group            whose table it is of
 *    12  4  zero
 *   fragment         40 bytes: rows of one device in one time partition
 *     0  4  group
 *     4  4  device
 *     8  4  row_first        in the group
 *    12  4  rows
 *    16  8  partition
 *    24  8  time_min
 *    32  8  time_max
 *
 * A fragment is a run of its group's rows, so each column of a tablet is one array however many
 * fragments there are, and a tablet that comes in order is copied column by column in one piece.
 *
 * Delete payload v1 (head 32 bytes, then column ids, devices as above, keys)
 *     0  2  version          1
 *     2  2  flags            1: all devices of the table
 *     4  4  region
 *     8  8  incarnation
 *    16  4  column_count     0: whole rows
 *    20  4  device_count     0 with flag 1
 *    24  4  columns_off      column_count uint32
 *    28  4  devices_off
 *    32  8  time_from        inclusive
 *    40  8  time_to          inclusive
 */
#ifndef RF_MEMTABLE_BATCH_H
#define RF_MEMTABLE_BATCH_H

#include "base/check.h"
#include "base/errors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BATCH_HEAD_BYTES       32u
#define BATCH_GROUP_BYTES      32u
#define BATCH_COLUMN_BYTES     16u
#define BATCH_DEVICE_BYTES     16u
#define BATCH_FRAGMENT_BYTES   40u
#define BATCH_DELETE_BYTES     48u
#define BATCH_COLUMN_HAS_NULLS 1u
#define BATCH_COLUMN_ALL_NULL  2u

/* ---- laying out: sizes first, then bytes ---- */

struct batch_column_plan {
    uint32_t id;
    uint8_t type;
    uint8_t flags;
    uint32_t value_bytes; /* fixed types: of all rows; others: of the bytes behind the positions */
    uint32_t values_off;  /* filled by batch_plan */
    uint32_t nulls_off;   /* filled by batch_plan */
};
struct batch_group_plan {
    uint64_t incarnation;
    uint32_t rows;
    uint32_t column_count;
    struct batch_column_plan *columns;
    uint32_t fragment_count;
    uint32_t columns_off, times_off, fragment_first; /* filled by batch_plan */
};
struct batch_plan {
    uint32_t region;
    uint32_t group_count;
    struct batch_group_plan *groups;
    uint32_t device_count;
    uint32_t key_bytes; /* of all devices */
    uint32_t fragment_count;
    uint32_t devices_off, fragments_off, keys_off; /* filled by batch_plan */
};

/* Fills the offsets and returns the payload's size in bytes, or 0 when it exceeds 2^32 - 64. */
RF_NODISCARD uint64_t batch_plan(struct batch_plan *plan);

/* Writes head, groups and column entries, and zeros the gaps; devices, fragments, keys, times and
 * values are the caller's next steps. */
void batch_encode_frame(uint8_t *payload, const struct batch_plan *plan);
void batch_encode_device(uint8_t *payload, const struct batch_plan *plan, uint32_t device,
                         uint32_t group, uint32_t key_off, const void *key, uint32_t key_bytes);

struct batch_fragment {
    uint32_t group;
    uint32_t device;
    uint32_t row_first;
    uint32_t rows;
    int64_t partition;
    int64_t time_min;
    int64_t time_max;
};
void batch_encode_fragment(uint8_t *payload, const struct batch_plan *plan, uint32_t index,
                           const struct batch_fragment *fragment);

/* ---- reading: a payload whose checksum has been verified, or has just been written ---- */

struct batch_view {
    const uint8_t *payload;
    uint32_t bytes;
    uint32_t region;
    uint32_t group_count, device_count, fragment_count;
};
struct batch_group {
    uint64_t incarnation;
    uint32_t rows;
    uint32_t column_count;
    uint32_t columns_off;
    const int64_t *times;
    uint32_t fragment_first, fragment_count;
};
struct batch_column {
    uint32_t id;
    uint8_t type;
    bool all_null;
    const uint8_t *nulls;    /* NULL: none */
    const void *values;      /* NULL when all_null; fixed types: rows values */
    const uint32_t *offsets; /* TEXT, STRING, BLOB: rows + 1, into data; else NULL */
    const uint8_t *data;
};

/* Checks every count, offset, order and size of the payload against its length, so that nothing
 * read through the calls below can leave it: rows sorted inside a fragment, fragments covering
 * their group without gap, known types, positions never falling. msg names the offset.
 * Returns 0, -RFE_CORRUPT, -RFE_NEWER_VERSION. */
RF_NODISCARD int batch_check(const uint8_t *payload, uint32_t bytes, struct err_msg *msg);
void batch_open(struct batch_view *view, const uint8_t *payload, uint32_t bytes);
void batch_read_group(const struct batch_view *view, uint32_t group, struct batch_group *out);
void batch_read_column(const struct batch_view *view, const struct batch_group *group,
                       uint32_t index, struct batch_column *out);
/* The column with this id, looked for at hint first; false when the group has none. */
bool batch_find_column(const struct batch_view *view, const struct batch_group *group, uint32_t id,
                       uint32_t hint, struct batch_column *out);
void batch_read_device(const struct batch_view *view, uint32_t device, uint32_t *group_out,
                       const void **key_out, uint32_t *key_bytes_out);
void batch_read_fragment(const struct batch_view *view, uint32_t index, struct batch_fragment *out);

/* ---- deletes ---- */

struct batch_delete {
    uint32_t region;
    uint64_t incarnation;
    uint32_t column_count;
    const uint32_t *columns; /* encode: any; decode: points into the payload */
    bool all_devices;
    uint32_t device_count;
    int64_t time_from, time_to;
    uint32_t devices_off; /* decode */
};
struct batch_key {
    const void *data;
    uint32_t bytes;
};
RF_NODISCARD uint64_t batch_delete_bytes(const struct batch_delete *delete_,
                                         const struct batch_key *keys);
void batch_encode_delete(uint8_t *payload, const struct batch_delete *delete_,
                         const struct batch_key *keys);
/* 0, -RFE_CORRUPT, -RFE_NEWER_VERSION: checks everything. */
RF_NODISCARD int batch_decode_delete(const uint8_t *payload, uint32_t bytes,
                                     struct batch_delete *delete_out, struct err_msg *msg);
void batch_read_delete_key(const uint8_t *payload, const struct batch_delete *delete_,
                           uint32_t device, struct batch_key *key_out);

#endif
