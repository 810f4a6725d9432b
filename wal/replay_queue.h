/* Inside of replay.c: records go from the thread that reads and judges to one that applies them, in
 * order, so that neither waits for the other's memory. A log of few records starts no thread, and
 * where none can be started the caller's does it all.
 *
 * Errors   of the record's callback
 * Owner    payloads lie in the images, which stay until the end
 * Thread   push, full and end are one thread's; record runs on another */
#ifndef RF_WAL_REPLAY_QUEUE_H
#define RF_WAL_REPLAY_QUEUE_H

#include "wal/replay.h"

#include <stdbool.h>
#include <stdint.h>

struct replay_queue;

RF_NODISCARD int replay_queue_begin(wal_replay_record *record, void *ctx,
                                    struct replay_queue **queue_out);
/* True when a push would wait: the caller may have better to do meanwhile. */
bool replay_queue_full(const struct replay_queue *q);
/* Sleeps while it is full. */
void replay_queue_push(struct replay_queue *q, const struct wal_record_head *h,
                       const uint8_t *payload);
/* Waits until all is applied, and frees q. Returns 0, or the first error that record returned;
 * nothing was applied behind it. *applied_out is written in either case. */
RF_NODISCARD int replay_queue_end(struct replay_queue *q, uint64_t *applied_out);

#endif
