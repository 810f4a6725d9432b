/* Segments: file names, positions, and the header that names a segment's life.
 *
 * A lane's log is an endless row of bytes cut into segments of equal size. An lsn is
 * number * segment_bytes + offset in the file. The first and the last block of a file hold the two
 * copies of its header, so no record has a position there: records lie in
 * [block_bytes, segment_bytes - block_bytes).
 *
 * A numbered file always has a valid header; a free-* file is one that is ready for use, or still
 * being filled with zeros when it is shorter than a segment. The number in a free file's name only
 * keeps the names apart.
 *
 * Segment header v1: one block, little-endian, twice (first and last block of the file).
 *   off  size  field
 *     0     8  magic          "RFSEGMT1"
 *     8     4  version        1
 *    12     4  lane           0..WAL_LANES_MAX-1
 *    16    16  uuid           the directory's
 *    32     8  segment_bytes
 *    40     4  block_bytes
 *    44     4  reserved       zero
 *    48     8  number         1..
 *    56     8  generation     1.., grows by one with each rewriting
 *    64     8  salt           of the records in this segment, up to a cut; not zero
 *    72     8  mark           a durable lsn of the lane when this copy was written
 *    80     8  cut            lsn at which the segment before this one ends; 0 = at its own end
 *    88     8  checksum       XXH3-64 of bytes 0..87, seed 0
 *    96        zero up to the block's end; a reader refuses anything else
 * The copy of the highest generation counts, of those that are valid and name this directory, lane
 * and number. One is enough; none is corruption. */
#ifndef RF_WAL_SEGMENT_H
#define RF_WAL_SEGMENT_H

#include "base/check.h"
#include "base/errors.h"
#include "io/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WAL_SEGMENT_VERSION   1u
#define WAL_SEGMENT_BYTES_MIN (UINT64_C(1) << 20)
#define WAL_SEGMENT_BYTES_MAX (UINT64_C(1) << 30)
#define WAL_BLOCK_BYTES_MIN   512u
#define WAL_BLOCK_BYTES_MAX   65536u
#define WAL_LANES_MAX         16u
#define WAL_UUID_BYTES        16u
/* So that every lsn stays below 2^63 at any segment size. */
#define WAL_SEGMENT_NUMBER_MAX UINT64_C(8000000000)

/* ---- positions ---- */

static inline uint64_t lsn_segment(uint64_t lsn, uint64_t segment_bytes)
{
    return lsn / segment_bytes;
}
static inline uint64_t lsn_offset(uint64_t lsn, uint64_t segment_bytes)
{
    return lsn % segment_bytes;
}
/* Of the first record of a segment. */
static inline uint64_t lsn_first(uint64_t number, uint64_t segment_bytes, uint32_t block_bytes)
{
    return number * segment_bytes + block_bytes;
}
/* Behind the last record of a full segment. */
static inline uint64_t lsn_end(uint64_t number, uint64_t segment_bytes, uint32_t block_bytes)
{
    return (number + 1) * segment_bytes - block_bytes;
}
/* The same place as the next record sees it: a position at or behind a segment's last usable byte,
 * or in front of its first, becomes the first usable position of the segment it belongs to. */
static inline uint64_t lsn_normal(uint64_t lsn, uint64_t segment_bytes, uint32_t block_bytes)
{
    uint64_t number = lsn / segment_bytes;
    if (lsn < lsn_first(number, segment_bytes, block_bytes))
        return lsn_first(number, segment_bytes, block_bytes);
    if (lsn >= lsn_end(number, segment_bytes, block_bytes))
        return lsn_first(number + 1, segment_bytes, block_bytes);
    return lsn;
}

/* ---- the header ---- */

struct wal_segment_head {
    uint8_t uuid[WAL_UUID_BYTES];
    uint64_t segment_bytes;
    uint32_t block_bytes;
    uint32_t lane;
    uint64_t number;
    uint64_t generation;
    uint64_t salt;
    uint64_t mark;
    uint64_t cut_lsn; /* 0: none */
};

/* block: h->block_bytes bytes, all written. CHECKs that h keeps the table. */
void wal_segment_head_encode(uint8_t *block, const struct wal_segment_head *h);

enum wal_segment_head_state {
    WAL_SEGMENT_HEAD_VALID,
    WAL_SEGMENT_HEAD_INVALID,
    WAL_SEGMENT_HEAD_NEWER, /* whole, but of a later version */
};
/* *out is written for WAL_SEGMENT_HEAD_VALID only. */
enum wal_segment_head_state wal_segment_head_decode(const uint8_t *block, uint32_t block_bytes,
                                                    struct wal_segment_head *out);

/* What a reader expects of a numbered file before it has read it. */
struct wal_segment_id {
    uint8_t uuid[WAL_UUID_BYTES];
    uint64_t segment_bytes;
    uint32_t block_bytes;
    uint32_t lane;
    uint64_t number;
};

/* Chooses among the two copies. first, last: blocks of id->block_bytes bytes.
 * weak_copy_out  0 (first block) or 1 (last block): the copy to write first in a rewriting, so that
 *                the one that counts survives a torn write; -1 when both are equal (then any)
 * name           of the file, for the message
 * Returns 0, -RFE_CORRUPT (no valid copy for this id), -RFE_NEWER_VERSION */
RF_NODISCARD int wal_segment_choose(const uint8_t *first, const uint8_t *last,
                                    const struct wal_segment_id *id, const char *name,
                                    struct err_msg *msg, struct wal_segment_head *head_out,
                                    int *weak_copy_out);

/* Reads both blocks of a file and chooses. Returns also -RFE_CORRUPT for a file of another size,
 * -ENOMEM, and errors of io. */
RF_NODISCARD int wal_segment_head_read(struct io_file *file, const struct wal_segment_id *id,
                                       const char *name, struct err_msg *msg,
                                       struct wal_segment_head *head_out, int *weak_copy_out);

/* Writes both copies for the first time, into a file of h->segment_bytes bytes that nobody trusts
 * yet (a free one), and syncs the file.
 * Durable: yes, all of the file's bytes, when it returns 0. */
RF_NODISCARD int wal_segment_head_write_new(struct io_file *file, const struct wal_segment_head *h);

/* Rewrites both copies: the weak one (see wal_segment_choose; -1: the last), sync, the other, sync.
 * A crash at any point leaves at least one whole copy, the old one or this one. The caller has
 * raised h->generation.
 * Durable: yes, when it returns 0. After an error either header may be in force: do not append. */
RF_NODISCARD int wal_segment_head_rewrite(struct io_file *file, const struct wal_segment_head *h,
                                          int weak_copy);

/* Makes the weak copy equal to the one that counts, so that no older header can take its place
 * when a block is damaged later. Nothing when weak_copy is -1. Before the first append, always. */
RF_NODISCARD int wal_segment_head_heal(struct io_file *file, const struct wal_segment_head *h,
                                       int weak_copy);

/* Makes a file that is not there yet, for direct reads and writes, and locks it through the very
 * descriptor that will write it. Its size is 0, its name not yet durable.
 * Returns 0, -EEXIST, -EAGAIN (locked by somebody else), errors of io. */
RF_NODISCARD int wal_segment_file_create(struct io_env *env, const char *path,
                                         struct io_file **file_out);

/* Writes zeros to [from, to), multiples of 4096: durable writes to written space are twice as fast
 * as to space that is merely allocated. Not durable until the next sync. */
RF_NODISCARD int wal_segment_fill(struct io_file *file, uint64_t from, uint64_t to);

/* A salt from the system's random source; never zero. Returns 0 or -errno. */
RF_NODISCARD int wal_salt_new(uint64_t *salt_out);

/* ---- names ---- */

#define WAL_PATH_BYTES 48u /* of every path below, the NUL included */

/* "lane-00" */
void wal_lane_path(char out[WAL_PATH_BYTES], uint32_t lane);
/* "lane-00/0000000001" */
void wal_segment_path(char out[WAL_PATH_BYTES], uint32_t lane, uint64_t number);
/* "lane-00/free-0000000001" */
void wal_free_path(char out[WAL_PATH_BYTES], uint32_t lane, uint64_t number);

enum wal_name_kind { WAL_NAME_OTHER, WAL_NAME_SEGMENT, WAL_NAME_FREE };
/* name: without its folder. *number_out is written unless the answer is WAL_NAME_OTHER. Only the
 * very form that the calls above write is taken. */
enum wal_name_kind wal_segment_parse_name(const char *name, uint64_t *number_out);

/* Gives a free file its number: the header must be durable in it. Renames, syncs the folder. */
RF_NODISCARD int wal_segment_publish(struct io_env *env, uint32_t lane, uint64_t free_number,
                                     uint64_t number);
/* Takes a numbered file out of the log; the manifest must not name it any more, durably. Its free
 * name has its own number. Renames, syncs the folder. */
RF_NODISCARD int wal_segment_retire(struct io_env *env, uint32_t lane, uint64_t number);

#endif
