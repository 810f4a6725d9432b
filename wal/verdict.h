/* Replay's verdict on one lane: where its log ends, and whether that is an end or damage.
 *
 * Pure: it looks at images of segments in memory and at their headers. Reading them is replay's
 * (wal/replay.h); tests drive this part through every image that a crash can leave.
 *
 * The rule. Writes are in flight side by side, so a crash leaves holes with whole records behind
 * them; that alone is no damage. Every record and every segment header carries a mark, an lsn below
 * which all was durable when it was written. Let H be the largest mark that still verifies, those
 * behind a hole included, and p the first position without a whole record. Then
 *   p < H    something that was durable is gone: corruption;
 *   p >= H   what is behind p was never acknowledged: the log ends at p, the rest is discarded.
 * A cut, written by an earlier replay, names the p at which it ended the log: two equal cut records
 * in the first two blocks at or behind p, or the header of the next segment. There the log goes on
 * behind the cut, under the cut's salt.
 *   One whole copy of a pair and records under its salt: the pair was durable once, so this is
 *   corruption of the other copy. One copy and no such record: the cut was never finished.
 * Corruption too: a gap in the numbers, a missing head, records in a segment without a successor,
 * and a header that names a cut where no record ends.
 *
 * Units    lsns; counts of records
 * Errors   0, -RFE_CORRUPT, -RFE_NEWER_VERSION, -ENOMEM, and what need() answers
 * Owner    the images stay the caller's; a verdict owns its void set
 * Thread   any, no shared state */
#ifndef RF_WAL_VERDICT_H
#define RF_WAL_VERDICT_H

#include "base/check.h"
#include "base/errors.h"
#include "wal/record.h"
#include "wal/segment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wal_verdict_segment {
    struct wal_segment_head head; /* the copy that counts */
    const uint8_t *image;         /* segment_bytes; borrowed */
};

struct wal_verdict_input {
    uint32_t lane;
    uint64_t segment_bytes; /* of all segments; multiple of block_bytes, at least 4 blocks */
    uint32_t block_bytes;   /* multiple of 64 */
    uint64_t head_number;   /* of the oldest live segment, from the manifest */
    const struct wal_verdict_segment *segments; /* rising by number; borrowed */
    uint32_t count;
    /* NULL: the images are there. Else called before anything below `bytes` of an image is looked
     * at, in rising order, so that judging goes on while images are still being read; non-zero ends
     * the judging and is returned. */
    int (*need)(void *ctx, uint32_t index, uint64_t bytes);
    /* NULL, or called for each record of the log in order, as soon as it is known to be one: what
     * voids it, or damage behind it, may still come. */
    void (*record)(void *ctx, const struct wal_record_head *h, const uint8_t *payload);
    void *ctx;
};

/* ---- walking ---- */

struct wal_verdict;

/* A position in the log and the salt in force there. */
struct wal_cursor {
    const struct wal_verdict_input *in;
    uint32_t index;  /* of the segment in in->segments */
    uint64_t offset; /* in its file */
    uint64_t salt;
    uint64_t records_under_salt;      /* passed since the salt in force began */
    const struct wal_verdict *judged; /* NULL: payloads are verified on the way */
    uint64_t ready_bytes;             /* of the image at index: asked for */
    int failure;                      /* what need() answered */
    uint32_t cuts_passed;
};

enum wal_step {
    WAL_STEP_RECORD,  /* a whole record; the cursor stands behind it */
    WAL_STEP_END,     /* no whole record at the cursor, and no cut that is complete */
    WAL_STEP_NEWER,   /* a record of a newer version at the cursor */
    WAL_STEP_CORRUPT, /* the next segment's header names a cut that the log has passed */
};

/* At the oldest segment's first position; payloads are verified, and a record whose payload does not
 * is WAL_STEP_END. All images are there. */
void wal_cursor_init(struct wal_cursor *c, const struct wal_verdict_input *in);
/* The same for a log that was judged clean or cut: payloads are not looked at again, and the
 * verdict's end is WAL_STEP_END. v is borrowed. */
void wal_cursor_init_judged(struct wal_cursor *c, const struct wal_verdict_input *in,
                            const struct wal_verdict *v);
static inline uint64_t wal_cursor_lsn(const struct wal_cursor *c)
{
    return c->in->segments[c->index].head.number * c->in->segment_bytes + c->offset;
}
/* Goes to the next record, over segment ends and complete cuts; cut records themselves are not
 * reported. Outputs are written for WAL_STEP_RECORD: payload_out points into the image. */
enum wal_step wal_cursor_next(struct wal_cursor *c, struct wal_record_head *head_out,
                              const uint8_t **payload_out);

/* ---- what is void ---- */

struct wal_void_range {
    uint64_t from_lsn, end_lsn; /* batches with from <= lsn < end */
};
/* Zeroed: empty. */
struct wal_void_set {
    struct wal_void_range *ranges; /* owned; disjoint and rising once sealed */
    uint64_t *lsns;                /* owned; rising once sealed */
    uint32_t range_count, range_room;
    uint32_t lsn_count, lsn_room;
};
void wal_void_deinit(struct wal_void_set *s);
/* Of fence and abort records; other types add nothing. Returns 0, -RFE_CORRUPT (the payload does
 * not keep its table), -ENOMEM. */
RF_NODISCARD int wal_void_add(struct wal_void_set *s, const struct wal_record_head *h,
                              const uint8_t *payload);
/* Orders the set; before the first wal_void_has, after the last wal_void_add. */
void wal_void_seal(struct wal_void_set *s);
/* True when a batch at lsn is void. */
bool wal_void_has(const struct wal_void_set *s, uint64_t lsn);

/* ---- the verdict ---- */

/* One link of the chain of numbers, for who needs a chain without a gap before there are images:
 * `number` (0: none) is that of the index-th live segment. Returns 0 or -RFE_CORRUPT. */
RF_NODISCARD int wal_verdict_number(uint32_t lane, uint64_t head_number, uint32_t index,
                                    uint64_t number, struct err_msg *msg);

enum wal_verdict_kind {
    WAL_VERDICT_CLEAN,   /* ends with a close record and at a block's end, nothing behind it */
    WAL_VERDICT_CUT,     /* ends at end_lsn */
    WAL_VERDICT_CORRUPT, /* damage; the message says where */
    WAL_VERDICT_NEWER,   /* a newer version's record */
};

struct wal_verdict {
    enum wal_verdict_kind kind;
    uint64_t end_lsn;           /* p: where the first record that is not whole would be */
    uint64_t mark_lsn;          /* H; of a corrupt log, the largest that was seen */
    uint64_t salt;              /* in force at end_lsn */
    uint64_t records;           /* whole records of the log, cut records not counted */
    uint64_t discarded_records; /* whole batches behind end_lsn */
    bool cut_needed; /* before the first append a cut must be written (wal/cut.h): a record of the
                        salt in force, or an unfinished cut, could be there */
    struct wal_void_set void_set; /* owned, sealed */
    uint64_t *cut_lsns;           /* owned, rising: where cut records end the log and it goes on */
    uint32_t cut_count, cut_room;
    /* Of WAL_VERDICT_CORRUPT and _NEWER: the place. */
    uint64_t fault_number;
    uint64_t fault_offset;
};

void wal_verdict_deinit(struct wal_verdict *v);

/* Judges. Returns 0 (clean or cut), -RFE_CORRUPT or -RFE_NEWER_VERSION (msg names file, offset,
 * expected, found): then *v_out is written, and is to be deinit'ed. Or -ENOMEM, or what in->need()
 * answered: then it is not. */
RF_NODISCARD int wal_verdict_judge(const struct wal_verdict_input *in, struct err_msg *msg,
                                   struct wal_verdict *v_out);

/* True when a batch of the log at h->lsn is to be applied. */
static inline bool wal_verdict_applies(const struct wal_verdict *v, const struct wal_record_head *h)
{
    return wal_record_is_batch(h->type) && !wal_void_has(&v->void_set, h->lsn);
}

#endif
