/* Log records: the 64-byte header and the small payloads that the log itself understands.
 *
 * A record starts on a 64-byte boundary with a header that has a salted checksum of its own, so it
 * can be recognised at any boundary without trusting a neighbour. Every life of a segment has its
 * own salt; what an older life left there does not verify. All-zero bytes never do.
 *
 * WAL record header v1: 64 bytes, little-endian.
 *   off  size  field
 *     0     8  header_checksum   XXH3-64 of bytes 8..63, seed = salt; never zero (0 is stored as 1)
 *     8     8  lsn               of this header's first byte
 *    16     8  mark              the lane's durable lsn when this record was published
 *    24     8  payload_checksum  XXH3-64 of the payload, seed = salt; 0 when payload_bytes is 0
 *    32     4  payload_bytes     0 for void, pad, mark and close
 *    36     4  covered_bytes     a multiple of 64: distance to the next record, header included
 *    40     1  type              enum wal_record_type
 *    41     1  version           1
 *    42    22  reserved          zero; a reader refuses anything else
 *
 * Bytes between the payload's end and the covered range's end have no meaning and no checksum.
 *
 * Units    bytes; an lsn is a byte position in a lane's endless log (wal/segment.h)
 * Thread   all calls are pure: any thread, no allocation */
#ifndef RF_WAL_RECORD_H
#define RF_WAL_RECORD_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WAL_RECORD_HEAD_BYTES 64u
#define WAL_RECORD_ALIGN      64u
#define WAL_RECORD_VERSION    1u
/* No record is longer than the largest segment. */
#define WAL_RECORD_COVERED_MAX (1u << 30)

enum wal_record_type {
    WAL_RECORD_DATA = 1,   /* a batch; its payload is the engine's */
    WAL_RECORD_DELETE = 2, /* a delete, a batch of its own; its payload is the engine's */
    WAL_RECORD_VOID = 3,   /* a reservation given up; its range is never read */
    WAL_RECORD_PAD = 4,    /* as void: fills a gap before a block's or a segment's end */
    WAL_RECORD_FENCE = 5,  /* every batch from `from` to here is void, published or not */
    WAL_RECORD_ABORT = 6,  /* the batches named are void */
    WAL_RECORD_CUT = 7,    /* what lies from p to here is no damage; a new salt behind it */
    WAL_RECORD_MARK = 8,   /* carries its mark only */
    WAL_RECORD_CLOSE = 9,  /* the log was closed in order */
};
#define WAL_RECORD_TYPE_LAST WAL_RECORD_CLOSE

struct wal_record_head {
    uint64_t lsn;
    uint64_t mark;
    uint64_t payload_checksum; /* wal_payload_checksum(); 0 when payload_bytes is 0 */
    uint32_t payload_bytes;
    uint32_t covered_bytes;
    uint8_t type; /* enum wal_record_type */
    uint8_t version;
};

/* Writes the header; CHECKs that h keeps the table above (type known, version 1, sizes fit). */
void wal_record_encode(uint8_t out[WAL_RECORD_HEAD_BYTES], const struct wal_record_head *h,
                       uint64_t salt);

enum wal_record_state {
    WAL_RECORD_VALID,   /* the header is whole and of this version; *out is written */
    WAL_RECORD_INVALID, /* not a header under this salt at this lsn, or one with absurd sizes */
    WAL_RECORD_NEWER,   /* its checksum and lsn hold, but type, version or reserved bytes are not
                           ours: a newer writer's. *out is written; only lsn and mark are to be
                           trusted */
};
/* expected_lsn: the position that in was read from. *out is not written for WAL_RECORD_INVALID. */
enum wal_record_state wal_record_decode(const uint8_t in[WAL_RECORD_HEAD_BYTES], uint64_t salt,
                                        uint64_t expected_lsn, struct wal_record_head *out);

/* payload may be NULL when payload_bytes is 0; the answer is 0 then. */
uint64_t wal_payload_checksum(const void *payload, size_t payload_bytes, uint64_t salt);

/* True when the payload is what the header says. payload: h->payload_bytes bytes. */
bool wal_payload_whole(const struct wal_record_head *h, const void *payload, uint64_t salt);

/* The covered length of a record with this payload: header and payload, rounded up to 64. */
static inline uint64_t wal_record_covered(uint64_t payload_bytes)
{
    return (WAL_RECORD_HEAD_BYTES + payload_bytes + WAL_RECORD_ALIGN - 1) &
           ~(uint64_t)(WAL_RECORD_ALIGN - 1);
}

/* A batch is what a fence or an abort can make void: data and deletes. */
static inline bool wal_record_is_batch(uint8_t type)
{
    return type == WAL_RECORD_DATA || type == WAL_RECORD_DELETE;
}

/* "data", "fence", ...; "unknown" for any other number. Static storage. */
const char *wal_record_type_name(uint8_t type);

/* ---- the log's own payloads ----
 *
 * fence   off 0  size 8  from: batches with from <= lsn < the fence's own lsn are void
 * abort   off 0  size 4  n, 1..WAL_ABORT_LSNS_MAX
 *             4       4  reserved, zero
 *             8     8*n  lsns of the batches, each below the abort's own
 * cut     off 0  size 8  p: the log was cut here; p <= the cut's own lsn
 *             8       8  the salt of the records behind the cut, not zero
 *
 * Decoders return true and write their outputs, or false when the bytes do not keep the table:
 * wrong length, reserved bytes, or an lsn that lies on the wrong side of own_lsn. */
#define WAL_FENCE_PAYLOAD_BYTES 8u
#define WAL_CUT_PAYLOAD_BYTES   16u
#define WAL_ABORT_LSNS_MAX      65536u
static inline uint32_t wal_abort_payload_bytes(uint32_t n)
{
    return 8u + 8u * n;
}

void wal_fence_encode(uint8_t out[WAL_FENCE_PAYLOAD_BYTES], uint64_t from_lsn);
RF_NODISCARD bool wal_fence_decode(const uint8_t *in, uint32_t payload_bytes, uint64_t own_lsn,
                                   uint64_t *from_lsn_out);

/* out: wal_abort_payload_bytes(n) bytes. */
void wal_abort_encode(uint8_t *out, const uint64_t *lsns, uint32_t n);
RF_NODISCARD bool wal_abort_decode(const uint8_t *in, uint32_t payload_bytes, uint64_t own_lsn,
                                   uint32_t *n_out);
/* The i-th lsn of a payload that wal_abort_decode accepted; i < n. */
uint64_t wal_abort_lsn(const uint8_t *in, uint32_t i);

void wal_cut_encode(uint8_t out[WAL_CUT_PAYLOAD_BYTES], uint64_t p_lsn, uint64_t new_salt);
RF_NODISCARD bool wal_cut_decode(const uint8_t *in, uint32_t payload_bytes, uint64_t own_lsn,
                                 uint64_t *p_lsn_out, uint64_t *new_salt_out);

#endif
