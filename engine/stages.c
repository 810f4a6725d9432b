/* Where a batch's time goes, with rf_options.stages. What the writer does is measured on its
 * thread, each stage from the end of the one before, so that nothing lies between them; what
 * happens behind publishing is read off the ticket's stamps when the answer is collected. So the
 * stages of a batch add up to its time from call to answer. */
#include "engine/engine_impl.h"

void stages_begin_timed(struct prepared *p)
{
    struct op_times *t = p->op->times;
    memset(t->stage_ns, 0, sizeof t->stage_ns);
    t->published_ns = 0;
    p->mark_ns = mono_ns();
    /* Of a second try: the first one, and the wait for the lease that ended it. */
    t->stage_ns[STAGE_LEASE] = p->mark_ns - p->op->start_ns;
}

void stage_end_timed(struct prepared *p, enum stage stage)
{
    int64_t now = mono_ns();
    p->op->times->stage_ns[stage] += now - p->mark_ns;
    p->mark_ns = now;
}

/* The stage ends at `to`; what is before the end of the one before it took no time. */
static void step(struct op_times *t, int64_t *at, enum stage stage, int64_t to)
{
    if (to <= *at) return;
    t->stage_ns[stage] += to - *at;
    *at = to;
}

/* From the copied batch to its answer. A stamp that is 0 (an ASYNC lane sends no batch anywhere
 * before it is decided; a latched one never) leaves its stage empty. */
static void add_ticket(struct op *op, int64_t now)
{
    struct op_times *t = op->times;
    const struct wal_ticket *k = &op->ticket;
    int64_t at = t->copied_ns;
    /* The writer may come back from waking the lane when the lane is far ahead already. */
    int64_t next = k->taken_mono_ns != 0 ? k->taken_mono_ns : k->durable_mono_ns;
    if (next == 0) next = t->done_ns;
    step(t, &at, STAGE_CHECKSUM, k->sealed_mono_ns);
    step(t, &at, STAGE_PUBLISH, t->published_ns < next ? t->published_ns : next);
    step(t, &at, STAGE_QUEUE, k->taken_mono_ns);
    step(t, &at, STAGE_SUBMIT, k->submit_mono_ns);
    step(t, &at, STAGE_DEVICE, k->taken_mono_ns != 0 ? k->durable_mono_ns : 0);
    step(t, &at, STAGE_DECIDE, k->decided_mono_ns);
    step(t, &at, STAGE_VISIBLE, t->done_ns);
    step(t, &at, STAGE_WAKE, now);
}

void stages_collected_timed(struct op *op)
{
    struct engine *e = op->engine;
    struct op_times *t = op->times;
    if (t->published_ns == 0) return; /* a delete */
    add_ticket(op, mono_ns());
    t->published_ns = 0;
    spin_acquire(&e->hist_lock);
    for (int i = 0; i < RF_STAGES; i++)
        hist_add(&e->stage_hist[i], (uint64_t)t->stage_ns[i]);
    spin_release(&e->hist_lock);
    if (e->o.trace == NULL) return;
    struct rf_trace trace = {
        .size = sizeof trace,
        .code = op->code,
        .lane = t->lane,
        .position = op->ticket.lsn,
        .rows = op->rows,
        .points = op->points,
        .bytes = op->bytes,
        .start_ns = op->start_ns,
    };
    memcpy(trace.stage_ns, t->stage_ns, sizeof trace.stage_ns);
    e->o.trace(e->o.trace_ctx, &trace);
}
