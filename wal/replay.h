/* Replay of one lane: sync, read, judge, hand out.
 *
 * Every segment is synced before a byte of it is trusted: what the page cache or the disk's cache
 * holds can be read, relied on, and lost with the next power failure. Then the files are read with
 * large reads side by side, straight into the segment images that become the memtable again, the
 * verdict is given (wal/verdict.h), and every batch that counts is handed out in LSN order. Replay
 * writes nothing; wal_cut_after_replay does what must be done before the first append.
 *
 * Errors   -RFE_CORRUPT, -RFE_NEWER_VERSION (msg: file, offset, expected, found), -ENOMEM, errors
 *          of io, and what the callback returns
 * Owner    segments, files and images stay the caller's; the result owns its void set
 * Thread   one at a time for a lane; different lanes side by side */
#ifndef RF_WAL_REPLAY_H
#define RF_WAL_REPLAY_H

#include "base/check.h"
#include "base/errors.h"
#include "io/io.h"
#include "wal/cut.h"
#include "wal/verdict.h"

#include <stdbool.h>
#include <stdint.h>

/* A batch of the log: payload lies in the segment's image and stays there. lsn is h->lsn. Non-zero
 * ends the replay and is returned. */
typedef int wal_replay_record(void *ctx, const struct wal_record_head *h, const uint8_t *payload,
                              uint64_t lsn);

struct wal_replay_options {
    struct io_env *env;
    enum io_backend backend;
    const struct log *log;
    uint8_t uuid[WAL_UUID_BYTES];
    uint32_t lane;
    uint64_t segment_bytes;
    uint32_t block_bytes;
    uint64_t head_number; /* from the manifest */
    /* All numbered segments from the head on, rising; number, file and image are set. head and
     * weak_copy are written. */
    struct wal_live_segment *segments;
    uint32_t count;
    bool read_only;            /* a sync that a read-only file system refuses is no error */
    wal_replay_record *record; /* may be NULL */
    /* All calls are made on threads of replay's own. take_back is NULL: record is called when the
     * verdict is given, for batches that count. Else it is called while the log is still being read
     * and judged, for all batches, in order; take_back is called for those among them that are void,
     * in order, when all have been handed out and the verdict allows to open. Of an error of both,
     * the verdict's is returned. */
    wal_replay_record *take_back;
    void *ctx;
};

struct wal_replay_result {
    struct wal_verdict verdict;
    uint64_t applied; /* batches handed out, and not taken back */
    uint64_t voided;  /* whole batches that a fence or an abort names */
    uint64_t bytes_read;
};
void wal_replay_result_deinit(struct wal_replay_result *r);

/* *result_out is written when the answer is 0, -RFE_CORRUPT or -RFE_NEWER_VERSION of the verdict,
 * or the callback's; its kind is WAL_VERDICT_CORRUPT also when a header refused. Deinit it always;
 * in other cases it is zeroed. */
RF_NODISCARD int wal_replay(const struct wal_replay_options *o, struct err_msg *msg,
                            struct wal_replay_result *result_out);

#endif
