/* Queues of the fault double. No threads: what is in flight completes in the owner's calls, in an
 * order and at moments that the seed decides, or when a held request is released. */
#include "io/fault_impl.h"

#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fault_pending {
    struct io_request request;
    struct fault_verdict verdict;
    struct fault_write write; /* of a write that the disk saw submitted */
    uint64_t op;              /* of a sync */
    int refusal;              /* it never reached the disk */
    bool held;
};

struct fault_queue {
    struct io_queue base;
    struct fault_queue *next;                         /* the environment's lock, as all below */
    struct fault_pending pending[IO_QUEUE_DEPTH_MAX]; /* in order of submission */
    uint32_t pending_count;
    struct io_event done[IO_QUEUE_DEPTH_MAX];
    uint32_t done_count;
    _Atomic uint32_t news; /* raised after done or woken changed: the owner sleeps on it */
    _Atomic bool woken;    /* W: any thread sets it, the owner clears it */
};

static const struct io_queue_ops fault_queue_ops;

static struct fault_queue *queue_of(struct io_queue *queue)
{
    return (struct fault_queue *)queue;
}

static uint64_t next_random(struct fault_env *env)
{
    return fault_mix(env->random++);
}

/* ---- completing ---- */

static int64_t limit_by(const struct fault_verdict *verdict, int64_t bytes)
{
    return verdict->is_short && verdict->short_bytes < bytes ? verdict->short_bytes : bytes;
}

static int32_t complete_write(struct fault_env *env, struct fault_pending *pending)
{
    const struct io_request *request = &pending->request;
    const struct shared *data = pending->write.data;
    if (data == NULL) return pending->verdict.error; /* of no bytes */
    bool same = data->zero ? fault_is_zero(request->buf, request->bytes)
                           : memcmp(request->buf, data->data, request->bytes) == 0;
    CHECK(same); /* the buffer is the kernel's until the event: nobody may write to it */
    int64_t done = pending->verdict.error;
    if (done == 0)
        done = fault_room_locked(env, pending->write.node, request->bytes, request->offset);
    if (done > 0) done = limit_by(&pending->verdict, done);
    fault_write_end_locked(env, &pending->write, done);
    return (int32_t)done;
}

static int32_t complete_sync(struct fault_env *env, const struct fault_pending *pending)
{
    uint32_t node = ((const struct fault_file *)pending->request.file)->node;
    fault_emit_locked(env, (struct event){
                               .kind = FAULT_EVENT_SYNC_COMPLETED,
                               .op = pending->op,
                               .node = node,
                               .result = pending->verdict.error,
                               .path = shared_ref(env->nodes[node].path),
                           });
    return pending->verdict.error;
}

static int32_t complete_read(struct fault_env *env, const struct fault_pending *pending)
{
    const struct io_request *request = &pending->request;
    if (pending->verdict.error != 0) return pending->verdict.error;
    uint64_t bytes = (uint64_t)limit_by(&pending->verdict, request->bytes);
    uint32_t node = ((const struct fault_file *)request->file)->node;
    return (int32_t)fault_read_locked(env, node, request->buf, bytes, request->offset);
}

static void complete(struct fault_env *env, struct fault_queue *queue, uint32_t at)
{
    struct fault_pending pending = queue->pending[at];
    queue->pending_count--;
    memmove(&queue->pending[at], &queue->pending[at + 1],
            (queue->pending_count - at) * sizeof queue->pending[0]);
    int32_t result = pending.refusal;
    if (result == 0) {
        switch (pending.request.op) {
        case IO_OP_WRITE: result = complete_write(env, &pending); break;
        case IO_OP_READ: result = complete_read(env, &pending); break;
        case IO_OP_SYNC: result = complete_sync(env, &pending); break;
        }
    }
    CHECK(queue->done_count < IO_QUEUE_DEPTH_MAX);
    queue->done[queue->done_count++] =
        (struct io_event){.user = pending.request.user, .result = result};
}

/* The n-th of those in flight that are not held back. */
static uint32_t ready_at(const struct fault_queue *queue, uint32_t n)
{
    for (uint32_t i = 0;; i++) {
        CHECK(i < queue->pending_count);
        if (!queue->pending[i].held && n-- == 0) return i;
    }
}

static uint32_t ready_count(const struct fault_queue *queue)
{
    uint32_t ready = 0;
    for (uint32_t i = 0; i < queue->pending_count; i++)
        ready += queue->pending[i].held ? 0 : 1;
    return ready;
}

/* Completes some of what is ready: by seed any number of them in any order, else all in order. */
static void complete_some(struct fault_env *env, struct fault_queue *queue, uint32_t at_least)
{
    uint32_t ready = ready_count(queue), n = ready;
    if (ready == 0) return;
    if (env->options.seed != 0) {
        n = (uint32_t)(next_random(env) % (ready + 1));
        if (n < at_least) n = at_least;
    }
    for (; n > 0; n--, ready--) {
        uint32_t pick = env->options.seed != 0 ? (uint32_t)(next_random(env) % ready) : 0;
        complete(env, queue, ready_at(queue, pick));
    }
}

static void raise_news(struct fault_queue *queue)
{
    (void)atomic_fetch_add(&queue->news, 1);
    futex_wake_one(&queue->news);
}

void fault_release_queues_locked(struct fault_env *env)
{
    for (struct fault_queue *queue = env->queues; queue != NULL; queue = queue->next) {
        for (uint32_t at = 0; at < queue->pending_count;) {
            if (queue->pending[at].held)
                complete(env, queue, at);
            else
                at++;
        }
        raise_news(queue);
    }
}

/* ---- the queue's calls ---- */

static const enum fault_target target_of[] = {
    [IO_OP_WRITE] = FAULT_ON_WRITE,
    [IO_OP_READ] = FAULT_ON_READ,
    [IO_OP_SYNC] = FAULT_ON_SYNC,
};

static void submit_one(struct fault_env *env, struct fault_queue *queue,
                       const struct io_request *request)
{
    const struct fault_file *file = (const struct fault_file *)request->file;
    struct shared *path = env->nodes[file->node].path;
    struct fault_pending *pending = &queue->pending[queue->pending_count++];
    *pending = (struct fault_pending){.request = *request};
    pending->verdict = fault_judge_locked(env, target_of[request->op], shared_str(path), NULL);
    pending->held = pending->verdict.delay;
    if (request->op != IO_OP_SYNC)
        pending->refusal = fault_check_transfer(env, file, request->op == IO_OP_WRITE, request->buf,
                                                request->bytes, request->offset);
    if (pending->refusal != 0) return;
    if (request->op == IO_OP_WRITE && request->bytes > 0) {
        pending->write = fault_write_begin_locked(env, file->node, request->buf, request->bytes,
                                                  request->offset, request->flags);
    } else if (request->op == IO_OP_SYNC) {
        pending->op = env->next_op++;
        fault_emit_locked(env, (struct event){
                                   .kind = FAULT_EVENT_SYNC_SUBMITTED,
                                   .op = pending->op,
                                   .node = file->node,
                                   .path = shared_ref(path),
                               });
    }
}

static int queue_submit(struct io_queue *base, const struct io_request *requests, uint32_t n)
{
    struct fault_queue *queue = queue_of(base);
    struct fault_env *env = fault_env_of(base->env);
    lock_acquire(&env->lock);
    uint32_t node = ((const struct fault_file *)requests[0].file)->node;
    int rc =
        fault_judge_locked(env, FAULT_ON_SUBMIT, shared_str(env->nodes[node].path), NULL).error;
    for (uint32_t i = 0; i < n && rc == 0; i++)
        submit_one(env, queue, &requests[i]);
    /* After all of them, so that a sync does not cover a write of the same call. */
    if (env->options.seed == 0 && rc == 0) complete_some(env, queue, 0);
    lock_release(&env->lock);
    return rc;
}

static uint32_t take_events(struct fault_queue *queue, struct io_event *events, uint32_t max)
{
    uint32_t n = queue->done_count < max ? queue->done_count : max;
    memcpy(events, queue->done, n * sizeof *events);
    queue->done_count -= n;
    memmove(queue->done, queue->done + n, queue->done_count * sizeof *events);
    return n;
}

static int queue_wait(struct io_queue *base, struct io_event *events, uint32_t max,
                      int64_t timeout_ns)
{
    struct fault_queue *queue = queue_of(base);
    struct fault_env *env = fault_env_of(base->env);
    int64_t deadline_ns = timeout_ns > 0 ? clock_read_ns(CLOCK_MONOTONIC) + timeout_ns : 0;
    for (;;) {
        uint32_t seen = atomic_load(&queue->news);
        /* Cleared before the caller looks at what the waker stored: a later wake sets it again. */
        bool woken = atomic_exchange(&queue->woken, false);
        lock_acquire(&env->lock);
        int rc = fault_judge_locked(env, FAULT_ON_WAIT, NULL, NULL).error;
        if (rc != 0) {
            lock_release(&env->lock);
            return rc;
        }
        complete_some(env, queue, timeout_ns != 0 && !woken && queue->done_count == 0 ? 1 : 0);
        uint32_t n = take_events(queue, events, max);
        lock_release(&env->lock);
        if (n > 0 || woken || timeout_ns == 0) return (int)n;
        int64_t left_ns = -1;
        if (timeout_ns > 0) {
            left_ns = deadline_ns - clock_read_ns(CLOCK_MONOTONIC);
            if (left_ns <= 0) return 0;
        }
        (void)futex_wait(&queue->news, seen, left_ns); /* the loop looks again, time included */
    }
}

static void queue_wake(struct io_queue *base)
{
    struct fault_queue *queue = queue_of(base);
    if (!atomic_exchange(&queue->woken, true)) raise_news(queue);
}

static void queue_close(struct io_queue *base)
{
    struct fault_queue *queue = queue_of(base);
    struct fault_env *env = fault_env_of(base->env);
    lock_acquire(&env->lock);
    while (queue->pending_count > 0) {
        queue->done_count = 0; /* nobody will ask for these events */
        complete(env, queue, 0);
    }
    struct fault_queue **link = &env->queues;
    while (*link != queue)
        link = &(*link)->next;
    *link = queue->next;
    lock_release(&env->lock);
    base->magic = 0;
    free(queue);
}

static void queue_abandon(struct io_queue *base)
{
    struct fault_queue *queue = queue_of(base); /* the child's copy: nobody else uses it */
    struct fault_env *env = fault_env_of(base->env);
    struct fault_queue **link = &env->queues;
    while (*link != queue)
        link = &(*link)->next;
    *link = queue->next;
    for (uint32_t i = 0; i < queue->pending_count; i++)
        shared_put(queue->pending[i].write.data);
    base->magic = 0;
    free(queue);
}

int fault_queue_open(struct io_env *base, const struct io_queue_options *options,
                     struct io_queue **queue_out)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    int rc = fault_judge_locked(env, FAULT_ON_QUEUE_OPEN, NULL, NULL).error;
    if (rc == 0) {
        struct fault_queue *queue = fault_alloc(1, sizeof *queue);
        io_queue_init(&queue->base, &fault_queue_ops, base, options->depth);
        queue->next = env->queues;
        env->queues = queue;
        *queue_out = &queue->base;
    }
    lock_release(&env->lock);
    return rc;
}

static const struct io_queue_ops fault_queue_ops = {
    .name = "fault",
    .close = queue_close,
    .abandon = queue_abandon,
    .submit = queue_submit,
    .wait = queue_wait,
    .wake = queue_wake,
};
