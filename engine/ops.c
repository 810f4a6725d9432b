/* What is under way: one op a batch, from before its reservation to its answer. All are made at
 * open, so that writing allocates nothing. A blocking writer that stops waiting abandons its op;
 * the lane gives it back then. */
#include "engine/engine_impl.h"

#include <sys/eventfd.h>
#include <unistd.h>

int ops_create(struct engine *e)
{
    size_t n = (size_t)e->lanes * WAL_LANE_SLOTS;
    e->ops_all = mem_zalloc_array(n, sizeof *e->ops_all);
    if (e->ops_all == NULL) return -ENOMEM;
    if (e->o.stages) {
        e->times_all = mem_zalloc_array(n, sizeof *e->times_all);
        if (e->times_all == NULL) return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        struct op *op = &e->ops_all[i];
        op->engine = e;
        op->times = e->times_all != NULL ? &e->times_all[i] : NULL;
        op->next = e->ops_free;
        e->ops_free = op;
    }
    return 0;
}

void ops_destroy(struct engine *e)
{
    mem_free(e->ops_all);
    mem_free(e->times_all);
}

static struct op *take_free(struct engine *e)
{
    spin_acquire(&e->ops_lock);
    struct op *op = e->ops_free;
    if (op != NULL) e->ops_free = op->next;
    spin_release(&e->ops_lock);
    return op;
}

int op_acquire(struct engine *e, int64_t deadline, struct rf_error *error, struct op **op_out)
{
    struct op *op;
    for (int64_t nap_ns = 0; (op = take_free(e)) == NULL;)
        if (!engine_nap(&nap_ns, deadline))
            return engine_fail(error, -RFE_WRITE_REJECT, RF_NONE, RF_NONE, RF_NONE,
                               "as many batches are under way, or not yet collected from their "
                               "queues, as the log has slots");
    op->next = NULL;
    op->queue = NULL;
    if (op->times != NULL) op->times->published_ns = 0; /* a delete's stages are not timed */
    atomic_store_explicit(&op->state, OP_WAITING, memory_order_relaxed);
    *op_out = op;
    return 0;
}

void op_release(struct op *op)
{
    struct engine *e = op->engine;
    spin_acquire(&e->ops_lock);
    op->next = e->ops_free;
    e->ops_free = op;
    spin_release(&e->ops_lock);
}

/* ---- counting ---- */

static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void engine_count_answer(struct engine *e, int code)
{
    if (code == -RFE_WRITE_REJECT)
        add(&e->totals.rejected, 1);
    else if (code == -RFE_LEASE_FENCED_RETRY)
        add(&e->totals.fenced, 1);
    else if (code == -RFE_WAL_ERROR || code == -RFE_UNKNOWN)
        add(&e->totals.unknown, 1);
}

static struct op *op_of(struct wal_ticket *ticket)
{
    return (struct op *)ticket;
}

/* A group at once: one look at the clock, one time under the lock. */
static void count_group(struct engine *e, struct wal_ticket *first)
{
    uint64_t batches = 0, rows = 0, points = 0, bytes = 0;
    int64_t now_ns = mono_ns();
    spin_acquire(&e->hist_lock);
    for (struct wal_ticket *t = first; t != NULL; t = t->next) {
        const struct op *op = op_of(t);
        if (t->code != 0) continue;
        batches++;
        rows += op->rows;
        points += op->points;
        bytes += op->bytes;
        int64_t took_ns = now_ns - op->start_ns;
        hist_add(&e->write_hist, took_ns > 0 ? (uint64_t)took_ns : 0);
    }
    spin_release(&e->hist_lock);
    add(&e->totals.batches, batches);
    add(&e->totals.rows, rows);
    add(&e->totals.points, points);
    add(&e->totals.bytes, bytes);
}

/* ---- the answer ---- */

static void queue_push(struct engine_queue *q, struct op *first, struct op *last);

static void answer_blocking(struct op *op)
{
    /* Acquire and release: the waiter reads code after it sees DONE; we see that it has left. Once
     * DONE is stored the op may be reused: only its address is used below, which stays mapped. Who
     * has not gone to sleep yet will see it without a system call. */
    uint32_t was = atomic_exchange_explicit(&op->state, OP_DONE, memory_order_acq_rel);
    if (was == OP_ABANDONED) op_release(op);
    if (was == OP_SLEEPING) futex_wake_one(&op->state);
}

/* Those of one queue that follow one another are pushed together: each push takes a lock that the
 * collecting thread wants meanwhile. */
void ops_answered(void *ctx, struct wal_ticket *first)
{
    struct engine *e = ctx;
    count_group(e, first);
    for (struct wal_ticket *t = first; t != NULL;) {
        struct op *head = op_of(t), *last = NULL;
        struct engine_queue *queue = head->queue;
        do {
            struct op *op = op_of(t);
            t = t->next;
            op->code = op->ticket.code;
            op->next = NULL;
            RF_PROBE3(visible, op, op->ticket.lsn, op->code);
            if (op->times != NULL) op->times->done_ns = mono_ns();
            if (queue != NULL) engine_count_answer(e, op->code);
            if (last != NULL) last->next = op;
            last = op;
        } while (queue != NULL && t != NULL && op_of(t)->queue == queue);
        if (queue != NULL)
            queue_push(queue, head, last);
        else
            answer_blocking(head);
    }
}

int op_wait(struct op *op)
{
    int64_t deadline = deadline_after(op->engine->o.durable_wait_ns);
    for (;;) {
        uint32_t state = atomic_load_explicit(&op->state, memory_order_acquire);
        if (state == OP_DONE) break;
        if (state == OP_WAITING && !atomic_compare_exchange_strong(&op->state, &state, OP_SLEEPING))
            break; /* race: done meanwhile */
        int64_t left = deadline == INT64_MAX ? -1 : deadline - mono_ns();
        if (deadline != INT64_MAX && left <= 0) {
            uint32_t sleeping = OP_SLEEPING;
            if (atomic_compare_exchange_strong(&op->state, &sleeping, OP_ABANDONED))
                return -RFE_UNKNOWN;
            break;
        }
        (void)futex_wait(&op->state, OP_SLEEPING, left);
    }
    int code = op->code;
    RF_PROBE1(wake, op);
    stages_collected(op);
    op_release(op);
    return code;
}

/* ---- queues of asynchronous writes ---- */

/* The descriptor is written and read only for a host that asked for it: whoever collects by polling
 * or by waiting here makes no system call while answers come faster than they are collected. */
struct engine_queue {
    struct engine *engine;
    int eventfd;
    uint32_t in_flight; /* owner's thread: begun and not collected */
    struct spin lock;
    struct op *head, **tail; /* answered, in order, behind those taken */
    struct op *taken;        /* owner's thread: answered, the oldest */
    bool watched;            /* the host knows the descriptor. W: owner's thread, under the lock */
    bool raised;             /* it is readable; only while watched */
    _Atomic uint32_t sleeping; /* futex: 1 while the owner waits for a first answer */
    bool left;                 /* closed before all was answered: the last answer frees it */
    uint32_t unanswered;       /* once it is left */
};

int engine_queue_open(struct engine *e, struct engine_queue **queue_out)
{
    struct engine_queue *q = mem_zalloc(sizeof *q);
    if (q == NULL) return -ENOMEM;
    q->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->eventfd < 0) {
        int rc = -errno;
        mem_free(q);
        return rc;
    }
    q->engine = e;
    q->tail = &q->head;
    *queue_out = q;
    return 0;
}

/* Under the lock: readable exactly while answers wait, which the caller knows. It never blocks,
 * whatever its counter. */
static void raise_locked(struct engine_queue *q)
{
    uint64_t one = 1;
    if (q->raised || !q->watched) return;
    THREAD_NOT_CANCELLED(); /* a writer that decides has the lane's slot here */
    q->raised = write(q->eventfd, &one, sizeof one) == (ssize_t)sizeof one;
}
static void lower_locked(struct engine_queue *q)
{
    uint64_t value;
    if (q->head != NULL || !q->raised) return;
    THREAD_NOT_CANCELLED();
    ssize_t n = read(q->eventfd, &value, sizeof value);
    (void)n; /* nothing to read means lowered already */
    q->raised = false;
}

static void queue_free(struct engine_queue *q)
{
    THREAD_NOT_CANCELLED();
    (void)close(q->eventfd);
    mem_free(q);
}

/* Answers that nobody waits for any more. The lock is held, and let go. */
static void push_to_left(struct engine_queue *q, struct op *first)
{
    uint32_t count = 0;
    for (const struct op *op = first; op != NULL; op = op->next)
        count++;
    q->unanswered -= count;
    bool last = q->unanswered == 0;
    spin_release(&q->lock);
    for (struct op *op = first, *next; op != NULL; op = next) {
        next = op->next;
        op_release(op);
    }
    if (last) queue_free(q);
}

static void queue_push(struct engine_queue *q, struct op *first, struct op *last)
{
    spin_acquire(&q->lock);
    if (RF_UNLIKELY(q->left)) {
        push_to_left(q, first);
        return;
    }
    *q->tail = first;
    q->tail = &last->next;
    /* Inside the lock: once it is let go, the owner may collect these, close the queue and free it.
     * Nothing here blocks. */
    raise_locked(q);
    if (atomic_load_explicit(&q->sleeping, memory_order_relaxed) != 0) {
        atomic_store_explicit(&q->sleeping, 0, memory_order_relaxed); /* the lock orders both */
        futex_wake_one(&q->sleeping);
    }
    spin_release(&q->lock);
}

/* The oldest answer. What has come is taken over whole, so that who gives answers and who collects
 * them seldom meet at the lock. */
static struct op *pop(struct engine_queue *q)
{
    if (q->taken == NULL) {
        spin_acquire(&q->lock);
        q->taken = q->head;
        q->head = NULL;
        q->tail = &q->head;
        spin_release(&q->lock);
    }
    struct op *op = q->taken;
    if (op == NULL) return NULL;
    q->taken = op->next;
    if (q->taken == NULL && q->watched) {
        spin_acquire(&q->lock);
        lower_locked(q);
        spin_release(&q->lock);
    }
    return op;
}

/* False: the deadline has passed. Else there may be an answer. */
static bool wait_answer(struct engine_queue *q, int64_t deadline)
{
    int64_t left = deadline == INT64_MAX ? -1 : deadline - mono_ns();
    if (deadline != INT64_MAX && left <= 0) return false;
    spin_acquire(&q->lock);
    bool none = q->head == NULL;
    atomic_store_explicit(&q->sleeping, none, memory_order_relaxed);
    spin_release(&q->lock);
    if (!none) return true;
    (void)futex_wait(&q->sleeping, 1, left);
    return true;
}

int engine_completions(struct engine_queue *q, struct rf_completion *out, uint32_t max,
                       int64_t timeout_ms)
{
    int64_t deadline =
        timeout_ms < 0
            ? INT64_MAX
            : deadline_after(timeout_ms > INT64_MAX / 1000000 ? INT64_MAX : timeout_ms * 1000000);
    uint32_t n = 0;
    while (n < max) {
        struct op *op = pop(q);
        if (op == NULL) {
            if (n > 0 || q->in_flight == 0 || timeout_ms == 0 || !wait_answer(q, deadline)) break;
            continue;
        }
        struct rf_completion c = {.user = op->user, .code = op->code};
        void (*done)(void *user, int code) = op->done;
        RF_PROBE1(wake, op);
        stages_collected(op);
        op_release(op);
        q->in_flight--;
        if (out != NULL) out[n] = c;
        n++;
        if (done != NULL) done(c.user, c.code);
    }
    return (int)n;
}

int engine_queue_eventfd(struct engine_queue *q)
{
    spin_acquire(&q->lock);
    q->watched = true;
    if (q->head != NULL || q->taken != NULL) raise_locked(q);
    spin_release(&q->lock);
    return q->eventfd;
}

uint32_t engine_queue_in_flight(const struct engine_queue *q)
{
    return q->in_flight;
}

/* Past the wait the queue is left to the answers that are still to come: a device that gives none
 * must not hold who closes. */
void engine_queue_close(struct engine_queue *q)
{
    int64_t deadline = deadline_after(q->engine->o.durable_wait_ns);
    bool waits = true;
    while (q->in_flight > 0) {
        struct op *op = pop(q);
        if (op != NULL) {
            op_release(op);
            q->in_flight--;
            continue;
        }
        if (waits) {
            waits = wait_answer(q, deadline);
            continue;
        }
        spin_acquire(&q->lock);
        q->unanswered = q->in_flight;
        q->left = q->head == NULL; /* else one has just come: take it */
        bool left = q->left;
        spin_release(&q->lock);
        if (left) return;
    }
    queue_free(q);
}

static int write_async(struct engine_queue *q, const struct rf_tablet *tablets, uint32_t n,
                       int64_t deadline, void (*done)(void *user, int code), void *user,
                       struct rf_error *error)
{
    struct op *op;
    int64_t began = mono_ns();
    int rc = op_acquire(q->engine, deadline, error, &op);
    if (rc != 0) return rc;
    op->queue = q;
    op->done = done;
    op->user = user;
    op->start_ns = began;
    rc = engine_begin(q->engine, op, tablets, n, deadline, error);
    if (rc != 0) op_release(op);
    return rc;
}

int engine_write_async(struct engine_queue *q, const struct rf_tablet *tablets, uint32_t n,
                       int64_t wait_ns, void (*done)(void *user, int code), void *user,
                       struct rf_error *error)
{
    int rc = write_async(q, tablets, n, deadline_after(wait_ns), done, user, error);
    if (rc == 0)
        q->in_flight++;
    else
        engine_count_answer(q->engine, rc);
    return rc;
}
