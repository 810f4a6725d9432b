/* The end of a lane.
 *
 * A device that never answers must not hold the process for ever, and memory that the kernel may
 * still read or write must not be freed. So the close has a limit, and behind it everything the
 * lane has is left where it is, on purpose: its threads, images and files. */
#include "wal/lane_impl.h"

#include <errno.h>
#include <inttypes.h>

/* Reachable from here, so that a leak checker knows that they are meant. */
static struct wal_lane *_Atomic leaked;

static int leak(struct wal_lane *lane, const char *what)
{
    log_error(lane->o.log, "wal.close_leaked",
              "lane=%" PRIu32 " what=\"%s\" writes_in_flight=%" PRIu32 " durable=%" PRIu64,
              lane->o.lane, what, lane->writes_in_flight, wal_durable(lane));
    /* Nobody will join them: they end by themselves if the device answers after all. */
    if (lane->thread_started) CHECK(pthread_detach(lane->thread) == 0);
    if (lane->prep_started) CHECK(pthread_detach(lane->prep_thread) == 0);
    lane->leaked_next = atomic_load(&leaked);
    while (!atomic_compare_exchange_weak(&leaked, &lane->leaked_next, lane)) {
    }
    return -ETIMEDOUT;
}

/* Waits until *ended is set; false when that is not so by the deadline. */
static bool wait_ended(_Atomic uint32_t *ended, int64_t deadline_ns)
{
    while (atomic_load(ended) == 0) {
        int64_t left_ns = deadline_ns - clock_read_ns(CLOCK_MONOTONIC);
        if (left_ns <= 0) return false;
        (void)futex_wait(ended, 0, left_ns);
    }
    return true;
}

/* Without threads: the turns are ours. */
static bool step_to_end(struct wal_lane *lane, int64_t deadline_ns)
{
    while (atomic_load(&lane->ended) == 0) {
        (void)lane_step(lane);
        if (clock_read_ns(CLOCK_MONOTONIC) > deadline_ns) return false;
    }
    return true;
}

static void free_memory(struct wal_lane *lane, bool abandon)
{
    lane_segments_free(lane, abandon);
    if (!abandon) { /* some thread of the parent may have held them when it forked */
        lock_deinit(&lane->waiters_lock);
        lock_deinit(&lane->prep_lock);
    }
    lane->magic = 0;
    mem_free(lane);
}

/* Both threads are told before either is waited for. */
static int stop_threads(struct wal_lane *lane, int64_t deadline_ns)
{
    atomic_store(&lane->stop, true);
    lane_wake(lane);
    bool steps = lane->o.no_threads && lane->queue != NULL;
    if (lane->thread_started && !wait_ended(&lane->ended, deadline_ns))
        return leak(lane, "the device does not answer");
    if (steps && !step_to_end(lane, deadline_ns)) return leak(lane, "the device does not answer");
    if (lane->thread_started) thread_join(lane->thread);
    lane->thread_started = false;
    atomic_store(&lane->prep_stop, true);
    lane_prep_kick(lane);
    if (lane->prep_started && !wait_ended(&lane->prep_ended, deadline_ns))
        return leak(lane, "a segment being prepared does not come to an end");
    if (lane->prep_started) thread_join(lane->prep_thread);
    lane->prep_started = false;
    return 0;
}

int wal_lane_close(struct wal_lane *lane, bool abandon)
{
    CHECK(lane->magic == LANE_MAGIC);
    if (abandon) {
        io_queue_close(lane->queue); /* in a forked child: memory only */
        free_memory(lane, true);
        return 0;
    }
    int64_t wait_ns = lane->o.close_wait_ns != 0 ? lane->o.close_wait_ns : LANE_CLOSE_WAIT_NS;
    int64_t deadline_ns = clock_read_ns(CLOCK_MONOTONIC) + wait_ns;
    atomic_store(&lane->closing, true);
    lane_signal_room(lane);
    int rc = 0;
    if (lane->queue != NULL && (lane->thread_started || lane->o.no_threads))
        rc = wal_flush(lane, deadline_ns);
    int stopped = stop_threads(lane, deadline_ns);
    if (stopped != 0) return stopped;
    if (rc == 0) rc = atomic_load(&lane->latched);
    if (rc == 0 && lane->queue != NULL) lane_give_back(lane);
    io_queue_close(lane->queue);
    free_memory(lane, false);
    return rc;
}
