/* The completion queue where io_uring is absent or forbidden: threads of its own, each doing one
 * blocking call at a time.
 *
 * One lock covers both rings of request slots. Two futex words tell sleepers of news: `work` the
 * threads, `news` the owner. Each is raised after its ring was changed, under the lock or (a wake)
 * after `woken` was set, and read before the ring is looked at; so what a sleeper did not see in
 * the ring has raised the word it sleeps on, and the sleep returns at once. */
#include "io/real_impl.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct posix_ring { /* indices of slots, first in first out */
    uint16_t index[IO_QUEUE_DEPTH_MAX];
    uint32_t head, count;
};

struct posix_slot {
    struct io_request request;
    int32_t result;
};

struct posix_queue {
    struct io_queue base;
    struct lock lock;
    struct posix_slot slots[IO_QUEUE_DEPTH_MAX]; /* a slot is of whoever took it from a ring */
    struct posix_ring free, asked, done;         /* lock */
    bool stopping;                               /* lock */
    uint32_t idle;                               /* lock: threads that sleep, or are about to */
    _Atomic uint32_t work;
    _Atomic uint32_t news;
    _Atomic bool woken; /* W: any thread sets it, the owner clears it */
    uint32_t thread_count;
    pthread_t threads[IO_POSIX_THREADS_MAX];
};

static struct posix_queue *queue_of(struct io_queue *queue)
{
    return (struct posix_queue *)queue;
}

static void ring_put(struct posix_ring *ring, uint16_t slot)
{
    CHECK(ring->count < IO_QUEUE_DEPTH_MAX);
    ring->index[(ring->head + ring->count++) % IO_QUEUE_DEPTH_MAX] = slot;
}

static uint16_t ring_take(struct posix_ring *ring)
{
    CHECK(ring->count > 0);
    uint16_t slot = ring->index[ring->head];
    ring->head = (ring->head + 1) % IO_QUEUE_DEPTH_MAX;
    ring->count--;
    return slot;
}

/* Sequentially consistent, as every use of the two words: a raise is a full fence between the news
 * and the futex call's own look at the sleepers. */
static void raise_word(_Atomic uint32_t *word)
{
    (void)atomic_fetch_add(word, 1);
}

static int32_t perform(const struct io_request *request)
{
    struct real_file *file = (struct real_file *)request->file;
    switch (request->op) {
    case IO_OP_WRITE:
        return (int32_t)real_write_once(file, request->buf, request->bytes, request->offset,
                                        request->flags);
    case IO_OP_READ:
        return (int32_t)real_read_once(file, request->buf, request->bytes, request->offset);
    case IO_OP_SYNC: return real_sync(request->file);
    }
    CHECK(false);
}

static void *run_thread(void *arg)
{
    struct posix_queue *queue = arg;
    lock_acquire(&queue->lock);
    for (;;) {
        if (queue->asked.count > 0) {
            uint16_t slot = ring_take(&queue->asked);
            lock_release(&queue->lock);
            queue->slots[slot].result = perform(&queue->slots[slot].request);
            lock_acquire(&queue->lock);
            ring_put(&queue->done, slot);
            raise_word(&queue->news);
            futex_wake_one(&queue->news);
            continue;
        }
        if (queue->stopping) break;
        uint32_t seen = atomic_load(&queue->work);
        queue->idle++;
        lock_release(&queue->lock);
        (void)futex_wait(&queue->work, seen, -1); /* whatever woke it, the ring says what to do */
        lock_acquire(&queue->lock);
        queue->idle--;
    }
    lock_release(&queue->lock);
    return NULL;
}

static int posix_submit(struct io_queue *base, const struct io_request *requests, uint32_t n)
{
    struct posix_queue *queue = queue_of(base);
    lock_acquire(&queue->lock);
    for (uint32_t i = 0; i < n; i++) {
        uint16_t slot = ring_take(&queue->free);
        queue->slots[slot].request = requests[i];
        ring_put(&queue->asked, slot);
    }
    uint32_t wakes = n < queue->idle ? n : queue->idle;
    raise_word(&queue->work);
    lock_release(&queue->lock);
    for (uint32_t i = 0; i < wakes; i++)
        futex_wake_one(&queue->work);
    return 0;
}

static uint32_t take_events(struct posix_queue *queue, struct io_event *events, uint32_t max)
{
    uint32_t n = 0;
    lock_acquire(&queue->lock);
    while (n < max && queue->done.count > 0) {
        uint16_t slot = ring_take(&queue->done);
        events[n].user = queue->slots[slot].request.user;
        events[n++].result = queue->slots[slot].result;
        ring_put(&queue->free, slot);
    }
    lock_release(&queue->lock);
    return n;
}

static int posix_wait(struct io_queue *base, struct io_event *events, uint32_t max,
                      int64_t timeout_ns)
{
    struct posix_queue *queue = queue_of(base);
    int64_t deadline_ns = timeout_ns > 0 ? clock_read_ns(CLOCK_MONOTONIC) + timeout_ns : 0;
    for (;;) {
        uint32_t seen = atomic_load(&queue->news);
        /* Cleared before the ring is looked at and before the caller looks at what the waker
         * stored: a wake that comes later sets it again and ends the next wait. */
        bool woken = atomic_exchange(&queue->woken, false);
        uint32_t n = take_events(queue, events, max);
        if (n > 0 || woken || timeout_ns == 0) return (int)n;
        int64_t left_ns = -1;
        if (timeout_ns > 0) {
            left_ns = deadline_ns - clock_read_ns(CLOCK_MONOTONIC);
            if (left_ns <= 0) return 0;
        }
        (void)futex_wait(&queue->news, seen, left_ns); /* the loop looks again, time included */
    }
}

static void posix_wake(struct io_queue *base)
{
    struct posix_queue *queue = queue_of(base);
    if (atomic_exchange(&queue->woken, true)) return; /* the earlier wake is still to be seen */
    raise_word(&queue->news);
    futex_wake_one(&queue->news);
}

static void stop_threads(struct posix_queue *queue)
{
    lock_acquire(&queue->lock);
    queue->stopping = true;
    raise_word(&queue->work);
    lock_release(&queue->lock);
    futex_wake_all(&queue->work);
    for (uint32_t i = 0; i < queue->thread_count; i++)
        thread_join(queue->threads[i]);
}

static void free_queue(struct posix_queue *queue)
{
    queue->base.magic = 0;
    mem_free(queue);
}

static void posix_close(struct io_queue *base)
{
    struct posix_queue *queue = queue_of(base);
    stop_threads(queue); /* a thread ends only when nothing is asked for: this drains */
    lock_deinit(&queue->lock);
    free_queue(queue);
}

static void posix_abandon(struct io_queue *base)
{
    free_queue(queue_of(base)); /* its threads are the parent's, and the lock may be taken */
}

static const struct io_queue_ops posix_ops = {
    .name = "posix",
    .close = posix_close,
    .abandon = posix_abandon,
    .submit = posix_submit,
    .wait = posix_wait,
    .wake = posix_wake,
};

int posix_queue_open(struct real_env *env, const struct io_queue_options *options,
                     struct io_queue **queue_out)
{
    struct posix_queue *queue = mem_zalloc(sizeof *queue);
    if (queue == NULL) return -ENOMEM;
    io_queue_init(&queue->base, &posix_ops, &env->base, options->depth);
    lock_init(&queue->lock, LOCK_RANK_IO);
    for (uint16_t slot = 0; slot < IO_QUEUE_DEPTH_MAX; slot++)
        ring_put(&queue->free, slot);
    uint32_t wanted = options->depth < IO_POSIX_THREADS_MAX ? options->depth : IO_POSIX_THREADS_MAX;
    int rc = 0;
    while (rc == 0 && queue->thread_count < wanted) {
        char name[16];
        (void)snprintf(name, sizeof name, "rf-io-%u", queue->thread_count);
        rc = thread_start(&queue->threads[queue->thread_count], name, run_thread, queue);
        if (rc == 0) queue->thread_count++;
    }
    if (queue->thread_count == 0) { /* fewer threads than wanted still keep every promise */
        lock_deinit(&queue->lock);
        free_queue(queue);
        return rc;
    }
    *queue_out = &queue->base;
    return 0;
}
