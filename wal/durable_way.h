/* Which way a disk with FUA is given its durable writes.
 *
 * Both are right: DSYNC writes, which such a disk need not flush behind, and plain writes with an
 * fdatasync that covers those completed before it. Which is faster is the disk's: with a cache that
 * outlives a power failure DSYNC saves the flush; without one it was seen 2.4 times slower than
 * write and flush. So a lane tries both on the writes that it has to make anyway, under the load
 * that there is: turns of one way and the other, and the way on which a byte waited less, from its
 * submission until it was durable, is taken. Later it is tried again, for disks and loads change.
 *
 * Without FUA it is always write and fdatasync: an asynchronous DSYNC write ends there in a kernel
 * worker that busy processors hold up for milliseconds.
 *
 * Threads: of one lane's thread. */
#ifndef RF_WAL_DURABLE_WAY_H
#define RF_WAL_DURABLE_WAY_H

#include <stdbool.h>
#include <stdint.h>

enum {
    DURABLE_WAY_TURNS = 8,          /* of a trial, DSYNC first, then in turns */
    DURABLE_WAY_TURN_WRITES = 16,   /* that complete in a turn's own way */
    DURABLE_WAY_SETTLE_WRITES = 4,  /* of those, the first, beside which the other way's end */
    DURABLE_WAY_HOLD_WRITES = 65536 /* with the chosen way, until the next trial */
};

struct durable_way {
    bool fua;
    bool dsync;      /* what the next write is */
    uint32_t turn;   /* of the trial; DURABLE_WAY_TURNS: a way is chosen */
    uint32_t writes; /* complete, in this turn or since the choice */
    struct {
        uint64_t byte_ns, bytes;
    } waited[2]; /* [dsync] */
};

void durable_way_init(struct durable_way *way, bool fua);
/* A write submitted as dsync says is durable after wait_ns from its submission. True when this ended
 * a trial: way->dsync is what was chosen. */
bool durable_way_done(struct durable_way *way, bool dsync, uint32_t bytes, int64_t wait_ns);
/* Mean wait of a byte in the last trial, in ns; 0: that way was not tried. */
uint64_t durable_way_wait_ns(const struct durable_way *way, bool dsync);

#endif
