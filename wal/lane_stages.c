/* When a batch's write began, was handed over and was durable, written into its ticket; in a SYNC
 * lane with options.stages alone. A ticket there is nobody else's until the durable mark passes it
 * (D1), and that mark is this thread's: so it may be written to up to the store of the mark. */
#include "wal/lane_impl.h"

/* Calls stamp for the tickets of the published slots from *seq on that end at or below end_lsn, and
 * moves *seq behind them. A slot that has a newer life is passed over: it was answered, after a
 * latch, without being written. */
static void each(struct wal_lane *lane, uint64_t *seq, uint64_t end_lsn,
                 void (*stamp)(struct wal_ticket *t, const int64_t *ns), const int64_t *ns)
{
    uint64_t scanned = atomic_load_explicit(&lane->scanned_seq, memory_order_relaxed); /* ours */
    for (; *seq != scanned; ++*seq) {
        struct slot *s = lane_slot(lane, *seq);
        if (!slot_is(s, *seq, SLOT_PUBLISHED)) continue;
        if (s->lsn + s->covered_bytes > end_lsn) return;
        if (s->ticket != NULL) stamp(s->ticket, ns);
    }
}

static void stamp_submit(struct wal_ticket *t, const int64_t *ns)
{
    t->taken_mono_ns = ns[0];
    t->submit_mono_ns = ns[1];
}

static void stamp_durable(struct wal_ticket *t, const int64_t *ns)
{
    t->durable_mono_ns = ns[0];
}

void lane_stages_submitted(struct wal_lane *lane, uint64_t end_lsn, int64_t taken_ns,
                           int64_t submit_ns)
{
    if (lane->o.mode != WAL_SYNC) return;
    const int64_t ns[] = {taken_ns, submit_ns};
    each(lane, &lane->stage_submit_seq, end_lsn, stamp_submit, ns);
}

void lane_stages_durable(struct wal_lane *lane, uint64_t durable, int64_t now_ns)
{
    if (lane->o.mode != WAL_SYNC) return;
    each(lane, &lane->stage_durable_seq, durable, stamp_durable, &now_ns);
}
