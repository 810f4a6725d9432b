#include "wal/durable_way.h"

#include <string.h>

/* The longest wait that counts: a device that stalls is not to decide alone. It also keeps the sums
 * of a trial of 4 MiB writes below 2^64. */
#define WAIT_MAX_NS INT64_C(1000000000)

static void trial_begin(struct durable_way *way)
{
    way->dsync = true;
    way->turn = way->writes = 0;
    memset(way->waited, 0, sizeof way->waited);
}

void durable_way_init(struct durable_way *way, bool fua)
{
    memset(way, 0, sizeof *way);
    way->fua = fua;
    if (fua) trial_begin(way);
}

uint64_t durable_way_wait_ns(const struct durable_way *way, bool dsync)
{
    uint64_t bytes = way->waited[dsync].bytes;
    return bytes == 0 ? 0 : way->waited[dsync].byte_ns / bytes;
}

bool durable_way_done(struct durable_way *way, bool dsync, uint32_t bytes, int64_t wait_ns)
{
    if (!way->fua || dsync != way->dsync) return false;
    way->writes++;
    if (way->turn == DURABLE_WAY_TURNS) {
        if (way->writes >= DURABLE_WAY_HOLD_WRITES) trial_begin(way);
        return false;
    }
    if (way->writes > DURABLE_WAY_SETTLE_WRITES) {
        int64_t counted_ns = wait_ns < WAIT_MAX_NS ? wait_ns : WAIT_MAX_NS;
        way->waited[dsync].byte_ns += bytes * (uint64_t)counted_ns;
        way->waited[dsync].bytes += bytes;
    }
    if (way->writes < DURABLE_WAY_TURN_WRITES) return false;
    way->writes = 0;
    way->dsync = !way->dsync;
    if (++way->turn < DURABLE_WAY_TURNS) return false;
    way->dsync = durable_way_wait_ns(way, true) < durable_way_wait_ns(way, false);
    return true;
}
