/* The durable cut: what a replay discarded can't come back when the log grows over it.
 *
 * Behind the end p of a log that was not closed there may be whole records that nobody was answered
 * for. Before the first append,
 *   1. every later segment gets a fresh salt in its header (and p as its mark), the last one first;
 *   2. the rest of p's own segment gets one too, by the first of these that applies:
 *      salt    p is the first position of its segment: the segment's own header is rewritten;
 *      pair    two blocks are left behind p: two equal cut records, one a block, both durable;
 *      header  else, and after a resume: the next segment's header names p as the cut.
 * A crash at any write leaves a log whose verdict has the same end and the same records; doing it
 * again is allowed at any time.
 *
 * Units    bytes and lsns
 * Errors   errors of io; then do not append: open again
 * Thread   one at a time for a lane; the lane has nothing in flight */
#ifndef RF_WAL_CUT_H
#define RF_WAL_CUT_H

#include "base/check.h"
#include "base/errors.h"
#include "io/io.h"
#include "wal/segment.h"
#include "wal/verdict.h"

#include <stdbool.h>
#include <stdint.h>

/* A numbered segment as an open lane holds it. */
struct wal_live_segment {
    uint64_t number;
    struct io_file *file;         /* the caller's, locked, open for what is asked of it */
    uint8_t *image;               /* the caller's: segment_bytes, aligned to 4096 */
    struct wal_segment_head head; /* the copy that counts; written by replay, kept by wal_cut_* */
    int weak_copy;                /* as wal_segment_choose says; -1 when both are equal */
};

/* ---- where a cut goes: pure ---- */

enum wal_cut_kind { WAL_CUT_SALT, WAL_CUT_PAIR, WAL_CUT_HEADER };
struct wal_cut_plan {
    enum wal_cut_kind kind;
    uint64_t p_lsn;
    uint64_t pair_lsn;   /* of the first copy; WAL_CUT_PAIR only */
    uint64_t append_lsn; /* where the next record goes */
};
/* resume: the old segment is not written any more, so the next one's header names the cut. */
struct wal_cut_plan wal_cut_plan(uint64_t p_lsn, uint64_t segment_bytes, uint32_t block_bytes,
                                 bool resume);

/* Writes the two copies of a WAL_CUT_PAIR: blocks, 2 * block_bytes. */
void wal_cut_render(uint8_t *blocks, const struct wal_cut_plan *plan, uint32_t block_bytes,
                    uint64_t old_salt, uint64_t new_salt);

/* ---- writing it ---- */

struct wal_cut_options {
    uint32_t lane;
    uint64_t segment_bytes;
    uint32_t block_bytes;
    struct wal_live_segment *segments; /* all live ones, rising; heads are kept up to date */
    uint32_t count;
    uint64_t p_lsn; /* the log's end; everything below it is durable */
    uint64_t salt;  /* in force at p */
    bool resume;
};
struct wal_append_point {
    uint64_t lsn;  /* where the next record goes */
    uint64_t salt; /* in force there */
};
/* Durable: the cut, when it returns 0. -ENOENT when the plan needs a next segment that is not
 * there, before anything is written. */
RF_NODISCARD int wal_cut_write(const struct wal_cut_options *o, struct err_msg *msg,
                               struct wal_append_point *point_out);

/* What stands between a replay and the first append: heals segment headers whose copies differ,
 * and cuts if the verdict asks for it. v is clean or cut; o->p_lsn, salt and resume are ignored.
 * Durable: yes, when it returns 0. */
RF_NODISCARD int wal_cut_after_replay(const struct wal_cut_options *o, const struct wal_verdict *v,
                                      struct err_msg *msg, struct wal_append_point *point_out);

#endif
