/* The bytes of a batch: the payload of a data record, which is also what the memtable reads. The
 * only files that know them are memtable/batch*.c and docs/format/wal.md.
 *
 * Both payloads are little-endian, and so is the machine: numbers are read where they stand.
 * Offsets count from the payload's first byte, which is 8-aligned in memory (64-aligned in an
 * image). Every part starts at the first multiple of 8 behind the part before it, in the order of
 * the tables, and gaps are zero; so a payload has exactly one form, and its length is a multiple
 * of 8. A reader refuses any other form.
 *
 * Batch payload v1
 *
 *   head             32 bytes
 *     0  2  version          1
 *     2  2  group_count      tablets, 1..65,535
 *     4  4  region
 *     8  4  device_count     at least 1
 *    12  4  fragment_count   at least 1
 *    16  4  devices_off      device_count entries of 16 bytes
 *    20  4  fragments_off    fragment_count entries of 40 bytes
 *    24  8  zero
 *   groups           group_count entries of 32 bytes: one tablet's rows, ordered by device, then
 *                    time, stable
 *     0  8  incarnation      of the table
 *     8  4  rows             1..2^24
 *    12  4  columns          0..65,535; FIELD columns alone: tags are in the device's key
 *    16  4  columns_off      columns entries of 16 bytes
 *    20  4  times_off        rows int64
 *    24  4  fragment_first   its fragments are fragment_first .. + fragment_count - 1; the groups'
 *    28  4  fragment_count   fragments follow each other without gap; at least 1
 *   devices          device_count entries of 16 bytes
 *     0  4  key_off          not aligned
 *     4  4  key_bytes        0..4096
 *     8  4  group            whose table it is of; fragments of other groups of the same table
 *    12  4  zero             may name it too
 *   fragments        fragment_count entries of 40 bytes: rows of one device in one partition
 *     0  4  group
 *     4  4  device
 *     8  4  row_first        in the group: the row behind the fragment before it
 *    12  4  rows             at least 1; their times never fall
 *    16  8  partition
 *    24  8  time_min         of its first row
 *    32  8  time_max         of its last row
 *   columns          of every group in turn, 16 bytes each; an id once a group
 *     0  4  id
 *     4  1  type             IoTDB's code
 *     5  1  flags            1: has a null bitmap; 2: null in every row (no values, no bitmap)
 *     6  2  zero
 *     8  4  values_off       0 with flag 2
 *    12  4  nulls_off        0 without flag 1
 *   keys             of every device in turn, one right behind the other
 *   data             of every group in turn: its times; then of each of its columns
 *     bitmap         with flag 1: row r is null when bit r % 8 of byte r / 8 is set; bits from rows
 *                    on are zero
 *     values         without flag 2: BOOLEAN 1 byte a row, INT32, FLOAT, DATE 4, INT64, DOUBLE,
 *                    TIMESTAMP 8. TEXT, STRING, BLOB: rows + 1 uint32 positions, from 0, never
 *                    falling; behind them, as a part of its own, the bytes: row r's are those from
 *                    position r up to position r + 1. What stands where a row is null has no
 *                    meaning
 *
 * A fragment is a run of its group's rows, so each column of a tablet is one array however many
 * fragments there are, and a tablet that comes in order is copied column by column in one piece.
 * Of two rows of a batch with one device and time, the one in the later fragment, inside a fragment
 * the later row, is newer.
 *
 * Delete payload v1
 *
 *   head             48 bytes
 *     0  2  version          1
 *     2  2  flags            1: all devices of the table
 *     4  4  region
 *     8  8  incarnation
 *    16  4  column_count     0..65,535; 0: whole rows
 *    20  4  device_count     0 with flag 1, else at least 1
 *    24  4  columns_off      column_count uint32 ids
 *    28  4  devices_off      device_count entries of 16 bytes
 *    32  8  time_from        inclusive; a range that ends before it starts covers nothing
 *    40  8  time_to          inclusive
 *   columns          uint32 ids
 *   devices          16 bytes each; keys rise (as memcmp orders them, a prefix first), none twice
 *     0  4  key_off
 *     4  4  key_bytes        0..4096
 *     8  8  zero
 *   keys             one right behind the other
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
#define BATCH_DELETE_ALL       1u
#define BATCH_GROUPS_MAX       65535u
#define BATCH_COLUMNS_MAX      65535u
#define BATCH_ROWS_MAX         (1u << 24)
#define BATCH_KEY_BYTES_MAX    4096u
#define BATCH_BYTES_MAX        (UINT32_MAX - 63u)

/* Bytes of one value: 1, 4, 8; 0 for TEXT, STRING, BLOB; -1 for no type at all. */
static inline int batch_type_bytes(uint8_t type)
{
    static const int8_t bytes[12] = {
        [0] = 1,           /* BOOLEAN */
        [1] = 4,           /* INT32 */
        [2] = 8,           /* INT64 */
        [3] = 4,           /* FLOAT */
        [4] = 8,           /* DOUBLE */
        [5] = 0,           /* TEXT */
        [6] = -1,          /* of no value */
        [7] = -1, [8] = 8, /* TIMESTAMP */
        [9] = 4,           /* DATE */
        [10] = 0,          /* BLOB */
        [11] = 0,          /* STRING */
    };
    return type < sizeof bytes ? bytes[type] : -1;
}

/* ---- laying out: sizes first, then bytes ---- */

struct batch_column_plan {
    uint32_t id;
    uint8_t type;
    uint8_t flags;
    uint32_t value_bytes; /* fixed types: of all rows; others: of the bytes behind the positions;
                             0 when null in every row */
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

/* Fills the offsets and returns the payload's size in bytes, a multiple of 8, or 0 when it exceeds
 * BATCH_BYTES_MAX (the offsets have no meaning then). CHECKs that counts, types and flags keep the
 * table above. */
RF_NODISCARD uint64_t batch_plan(struct batch_plan *plan);

/* Writes head, groups and column entries, and zeros the gaps; devices, fragments, keys, times,
 * bitmaps and values are the caller's next steps. Of a group they stand at times_off, of a column
 * at nulls_off ((rows + 7) / 8 bytes) and values_off; of TEXT, STRING, BLOB the positions are at
 * values_off and their bytes at batch_data_off(). */
void batch_encode_frame(uint8_t *payload, const struct batch_plan *plan);
/* Where the bytes of a TEXT, STRING or BLOB column stand, given where its positions do. */
static inline uint32_t batch_data_off(uint32_t values_off, uint32_t rows)
{
    return values_off + ((4u * (rows + 1u) + 7u) & ~7u);
}
/* Writes the entry and the key. key_off: plan->keys_off for device 0, then the end of the key
 * before. */
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
    uint32_t devices_off, fragments_off;
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

/* Whether the payload has the one form of the table above, so that nothing read through the calls
 * below can leave it. (An id that stands twice in a group is not looked for: the first counts.)
 * Takes time in proportion to bytes, whatever they say. payload: 8-aligned. msg (may be NULL) names
 * offset, expected and found.
 * Returns 0, -RFE_CORRUPT, -RFE_NEWER_VERSION. Thread: any; never allocates. */
RF_NODISCARD int batch_check(const uint8_t *payload, uint32_t bytes, struct err_msg *msg);
void batch_open(struct batch_view *view, const uint8_t *payload, uint32_t bytes);
void batch_read_group(const struct batch_view *view, uint32_t group, struct batch_group *out);
void batch_read_column(const struct batch_view *view, const struct batch_group *group,
                       uint32_t index, struct batch_column *out);
/* What replay asks of a column, without the rest. */
void batch_read_column_type(const struct batch_view *view, const struct batch_group *group,
                            uint32_t index, uint32_t *id_out, uint8_t *type_out);
/* The column with this id, looked for at hint first; false when the group has none. */
bool batch_find_column(const struct batch_view *view, const struct batch_group *group, uint32_t id,
                       uint32_t hint, struct batch_column *out);
void batch_read_device(const struct batch_view *view, uint32_t device, uint32_t *group_out,
                       const void **key_out, uint32_t *key_bytes_out);
void batch_read_fragment(const struct batch_view *view, uint32_t index, struct batch_fragment *out);

/* ---- deletes; payloads of them 8-aligned too ---- */

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
/* The payload's size, or 0 when it exceeds BATCH_BYTES_MAX. */
RF_NODISCARD uint64_t batch_delete_bytes(const struct batch_delete *delete_,
                                         const struct batch_key *keys);
/* keys: device_count, ordered by batch_key_compare, each once (as devices_of_table yields them);
 * CHECKed. */
void batch_encode_delete(uint8_t *payload, const struct batch_delete *delete_,
                         const struct batch_key *keys);
/* 0, -RFE_CORRUPT, -RFE_NEWER_VERSION: checks everything, as batch_check does. */
RF_NODISCARD int batch_decode_delete(const uint8_t *payload, uint32_t bytes,
                                     struct batch_delete *delete_out, struct err_msg *msg);
/* As batch_decode_delete, of a payload that is known to be whole. */
void batch_open_delete(const uint8_t *payload, struct batch_delete *delete_out);
void batch_read_delete_key(const uint8_t *payload, const struct batch_delete *delete_,
                           uint32_t device, struct batch_key *key_out);
/* Whether the delete names this device: all of the table's, or one of its keys. */
bool batch_delete_covers(const uint8_t *payload, const struct batch_delete *delete_,
                         const void *key, uint32_t key_bytes);
/* < 0, 0, > 0: as memcmp orders them, a prefix first. */
int batch_key_compare(const void *a, uint32_t a_bytes, const void *b, uint32_t b_bytes);

#endif
