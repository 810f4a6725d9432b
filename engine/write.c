/* The write path as a whole: token, check, order, reserve, apply, publish, wait; and what is tried
 * again within the caller's wait (a lapsed lease, a log without room, a schema that changed). */
#include "engine/engine_impl.h"

void (*engine_step_seam)(void *ctx, enum engine_step step, uint32_t fragment);
void *engine_step_ctx;

/* ---- waiting ---- */

bool engine_nap(int64_t *nap_ns, int64_t deadline)
{
    int64_t left = deadline - mono_ns();
    if (left <= 0) return false;
    *nap_ns = *nap_ns == 0 ? 200000 : *nap_ns < 5000000 ? *nap_ns * 2 : *nap_ns;
    struct timespec t = {.tv_nsec = left < *nap_ns ? left : *nap_ns};
    THREAD_NOT_CANCELLED();
    nanosleep(&t, NULL);
    return true;
}

bool engine_wait_live(struct engine *e, int64_t deadline)
{
    int64_t nap_ns = 0;
    while (!lease_look(e->o.words, e->o.clock).live)
        if (!engine_nap(&nap_ns, deadline)) return false;
    return true;
}

struct keep_on {
    struct engine *e;
    uint64_t view;
};

/* Asked while waiting for room: is the token still of the present epoch, and the lease live? */
static bool still_live(void *ctx)
{
    struct keep_on *k = ctx;
    return lease_check(k->e->o.words, k->e->o.clock, k->view);
}

int engine_reserve(struct engine *e, const struct reserve_want *w, struct op *op,
                   struct rf_error *error, struct wal_reservation *out)
{
    struct keep_on k = {.e = e, .view = w->view};
    int rc = wal_reserve_wait(e->lane[w->lane], (uint32_t)w->payload_bytes, w->arena_bytes, w->view,
                              &op->ticket, w->deadline_mono_ns, still_live, &k, out);
    switch (rc) {
    case 0: return 0;
    case -ECANCELED: return -RFE_LEASE_FENCED_RETRY;
    case -ETIMEDOUT:
        return engine_fail(error, -RFE_WRITE_REJECT, RF_NONE, RF_NONE, RF_NONE,
                           "lane %" PRIu32 ": no room in the log for %" PRIu64
                           " bytes within the wait: trim it, or give it more segments",
                           w->lane, w->payload_bytes);
    case -RFE_DISK_FULL:
        return engine_fail(error, rc, RF_NONE, RF_NONE, RF_NONE,
                           "lane %" PRIu32 ": the disk is full, no further segment could be made",
                           w->lane);
    case -RFE_ENTRY_TOO_LARGE:
        return engine_fail(error, rc, RF_NONE, RF_NONE, RF_NONE,
                           "the batch takes %" PRIu64 " bytes, more than a segment of %" PRIu64
                           " holds: split it",
                           w->payload_bytes, e->segment_bytes);
    default:
        return engine_fail(error, rc, RF_NONE, RF_NONE, RF_NONE, "lane %" PRIu32 ": %s", w->lane,
                           err_text(rc));
    }
}

/* ---- one try ---- */

/* Asks the plane for what is missing. It may take a commit of the catalog, whatever the caller's
 * wait for room is: an asynchronous write that waits for no room still gets its new columns. */
static int create(struct prepared *p, const struct engine_want *wants, uint32_t n)
{
    struct engine *e = p->engine;
    struct err_msg msg = {.code = 0};
    int rc = e->o.hooks.create(e->o.hooks.ctx, wants, n, e->o.write_wait_ns, &msg);
    if (rc == 0) return 0;
    if (rc == -RFE_LEASE_FENCED) return -RFE_LEASE_FENCED_RETRY;
    if (rc == -RFE_UNKNOWN) /* of the columns; the batch is not stored, that is known */
        return engine_fail(p->error, -RFE_WRITE_REJECT, RF_NONE, RF_NONE, RF_NONE,
                           "new tables or columns were not made within the wait");
    return engine_fail(p->error, rc, RF_NONE, RF_NONE, RF_NONE, "%s",
                       msg.code != 0 ? msg.text : err_text(rc));
}

/* Looks the tablets up in the token's version; what is missing is made and the token taken anew. */
static int check_and_create(struct prepared *p, const struct rf_tablet *tablets, uint32_t n)
{
    struct engine *e = p->engine;
    for (;;) {
        engine_step(STEP_TOKEN, 0);
        struct lease_look look = lease_look(e->o.words, e->o.clock);
        if (!look.live) return -RFE_LEASE_FENCED_RETRY;
        engine_step(STEP_CHECK, 0);
        p->view = look.view;
        p->version = view_version(look.view);
        p->rows = p->points = p->key_bytes = 0;
        p->new_tags = (struct new_tags){.slots = 0};
        p->device_count = p->device_room = p->fragment_count = p->fragment_room = 0;
        struct engine_want *wants;
        uint32_t want_count;
        int rc = tablets_check(p, tablets, n, &wants, &want_count);
        if (rc != 0 || want_count == 0) return rc;
        rc = tablets_order(p);
        if (rc == 0) rc = tablets_plan(p);
        if (rc == 0) rc = create(p, wants, want_count);
        if (rc != 0) return rc;
        scratch_reset(p->scratch);
    }
}

/* Reserve, apply, publish. */
static int append(struct prepared *p, struct op *op, int64_t deadline)
{
    struct engine *e = p->engine;
    struct reserve_want want = {
        .lane = e->o.dir->manifest.region_lane[p->region],
        .payload_bytes = p->payload_bytes,
        .arena_bytes = memtable_batch_bytes(p->fragment_count),
        .view = p->view,
        .deadline_mono_ns = deadline,
    };
    struct wal_reservation r;
    engine_step(STEP_RESERVE, 0);
    int rc = engine_reserve(e, &want, op, p->error, &r);
    if (rc != 0) return rc;
    engine_step(STEP_FRAME, 0);
    STAGE_END(p, STAGE_RESERVE, reserve);
    op->rows = p->rows;
    op->points = p->points;
    op->bytes = p->payload_bytes;
    rc = tablets_apply(p, &r);
    if (rc != 0) {
        wal_publish_void(e->lane[want.lane], &r);
        return rc;
    }
    engine_step(STEP_PUBLISH, 0);
    struct op_times *times = op->times;
    if (RF_UNLIKELY(times != NULL)) {
        times->copied_ns = p->mark_ns;
        times->lane = want.lane;
        times->published_ns = p->mark_ns;
    }
    wal_publish(e->lane[want.lane], &r, WAL_RECORD_DATA);
    /* It may be answered by now, but it is collected, and used again, by this thread alone: later. */
    RF_PROBE1(publish, op);
    if (RF_UNLIKELY(times != NULL)) times->published_ns = mono_ns();
    return 0;
}

static int try_once(struct prepared *p, struct op *op, const struct rf_tablet *tablets, uint32_t n,
                    int64_t deadline)
{
    stages_begin(p);
    int rc = check_and_create(p, tablets, n);
    STAGE_END(p, STAGE_VALIDATE, validate);
    engine_step(STEP_ORDER, 0);
    if (rc == 0) rc = tablets_order(p);
    if (rc == 0) rc = tablets_plan(p);
    if (rc == 0) rc = tablets_intern(p);
    STAGE_END(p, STAGE_SPLIT, split);
    if (rc == 0) rc = append(p, op, deadline);
    if (rc == -ENOMEM) return engine_fail(p->error, rc, RF_NONE, RF_NONE, RF_NONE, "out of memory");
    return rc;
}

/* ---- with retries ---- */

int engine_begin(struct engine *e, struct op *op, const struct rf_tablet *tablets, uint32_t n,
                 int64_t deadline, struct rf_error *error)
{
    if (e->o.read_only)
        return engine_fail(error, -RFE_READ_ONLY, RF_NONE, RF_NONE, RF_NONE, "opened read-only");
    struct scratch *scratch = scratch_acquire(&e->scratches);
    if (scratch == NULL)
        return engine_fail(error, -ENOMEM, RF_NONE, RF_NONE, RF_NONE, "out of memory");
    int rc;
    do {
        scratch_reset(scratch);
        struct prepared p = {.engine = e, .scratch = scratch, .error = error, .op = op};
        rc = try_once(&p, op, tablets, n, deadline);
        if (rc != -RFE_LEASE_FENCED_RETRY) break;
    } while (engine_wait_live(e, deadline));
    scratch_release(&e->scratches, scratch);
    if (rc == -RFE_LEASE_FENCED_RETRY)
        return engine_fail(error, rc, RF_NONE, RF_NONE, RF_NONE, "%s", err_text(rc));
    return rc;
}

/* Whether an answered op is worth another try: nothing of it is stored. */
static bool again(int code)
{
    return code == -RFE_LEASE_FENCED_RETRY || code == -RFE_SCHEMA_CHANGED;
}

static int answer_text(struct rf_error *error, int rc)
{
    return rc == 0 ? 0 : engine_fail(error, rc, RF_NONE, RF_NONE, RF_NONE, "%s", err_text(rc));
}

static int write_and_wait(struct engine *e, const struct rf_tablet *tablets, uint32_t n,
                          struct rf_error *error)
{
    int64_t began = mono_ns(), deadline = deadline_after(e->o.write_wait_ns);
    for (;;) {
        struct op *op;
        int rc = op_acquire(e, deadline, error, &op);
        if (rc != 0) return rc;
        op->start_ns = began;
        rc = engine_begin(e, op, tablets, n, deadline, error);
        if (rc != 0) {
            op_release(op);
            return rc;
        }
        engine_step(STEP_WAIT, 0);
        rc = op_wait(op);
        engine_step(STEP_ANSWER, 0);
        if (!again(rc) || mono_ns() >= deadline) return answer_text(error, rc);
        if (rc == -RFE_LEASE_FENCED_RETRY && !engine_wait_live(e, deadline))
            return answer_text(error, rc);
    }
}

int engine_write(struct engine *e, const struct rf_tablet *tablets, uint32_t n,
                 struct rf_error *error)
{
    int rc = write_and_wait(e, tablets, n, error);
    engine_count_answer(e, rc);
    return rc;
}
