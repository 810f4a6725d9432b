/* The completion queue on io_uring. The only file that knows liburing.
 *
 * Set-up  The ring is made disabled and enabled by its owner's first call, which makes that thread
 *         the single issuer; so any thread may open the queue. Flags step down to what the kernel
 *         has. A kernel, sandbox or limit that refuses is found at open, never later.
 * Host    When a ring ends, the kernel interrupts every thread that has made it or used it and that
 *         is still there: an epoll_wait of the host's would come back with EINTR, some milliseconds
 *         after the close. So the ring is made by a thread of ours that ends at once, and its owner
 *         is to be one that ends before the close.
 * Limits  The ring has room for `depth` requests and the wake's read; every slot has at most one
 *         entry in it, so the submission ring is never full and the completion ring never
 *         overflows.
 * Wake    An eventfd whose read is kept armed in the ring. `wake_sent` says that a write to it was
 *         made and not seen yet.
 * Close   Drains: a request of a ring that is gone would still write from memory that is freed. The
 *         wake's read is left to the kernel to cancel. */
#include "io/real_impl.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define WAKE_TAG         UINT64_MAX
#define SQPOLL_IDLE_MS   50u /* after that without work the kernel's thread sleeps */
#define NOMEM_TRIES      5u  /* a process that just died gives its rings' memory back late */
#define NOMEM_SLEEP_NS   1000000
#define REGION_BYTES_MAX ((size_t)1 << 30) /* the kernel's limit for one registered buffer */

struct uring_slot {
    struct io_request request;
    uint32_t again; /* times it was sent again */
    bool fresh;     /* of the submission that is being made */
};

struct uring_queue {
    struct io_queue base;
    struct io_uring ring;
    struct fork_fd ring_fd, wake_fd;
    bool enabled;
    bool armed; /* the wake's read is in the ring, or in the submission ring */
    bool woken; /* a wake was seen, and no wait has returned since */
    bool pause; /* before the next submission: something came back with EAGAIN */
    _Atomic bool wake_sent;
    uint32_t used; /* slots taken */
    uint32_t free_count, done_count, done_head;
    uint16_t free[IO_QUEUE_DEPTH_MAX];
    struct io_event done[IO_QUEUE_DEPTH_MAX]; /* reaped, not handed out yet */
    struct uring_slot slots[IO_QUEUE_DEPTH_MAX];
    struct iovec *regions; /* registered, by address */
    uint32_t region_count;
    bool has_file_table;
    struct io_file *files[IO_REGISTERED_FILES];
};

static const struct io_queue_ops uring_ops;

/* What armed reads read into, and nobody looks at. Not part of a queue: the read may outlive it by
 * the time that the kernel takes to end a closed ring. */
static uint64_t wake_sink;

static struct uring_queue *queue_of(struct io_queue *queue)
{
    return (struct uring_queue *)queue;
}

static void pause_ns(long ns)
{
    const struct timespec pause = {.tv_nsec = ns};
    (void)nanosleep(&pause, NULL);
}

/* ---- slots and events ---- */

static void put_slot(struct uring_queue *queue, uint16_t slot)
{
    CHECK(queue->free_count < IO_QUEUE_DEPTH_MAX);
    queue->free[queue->free_count++] = slot;
    queue->used--;
}

static uint16_t take_slot(struct uring_queue *queue)
{
    CHECK(queue->free_count > 0);
    queue->used++;
    return queue->free[--queue->free_count];
}

static void finish(struct uring_queue *queue, uint16_t slot, int32_t result)
{
    CHECK(queue->done_count < IO_QUEUE_DEPTH_MAX);
    uint32_t at = (queue->done_head + queue->done_count++) % IO_QUEUE_DEPTH_MAX;
    queue->done[at] = (struct io_event){.user = queue->slots[slot].request.user, .result = result};
    put_slot(queue, slot);
}

static uint32_t take_events(struct uring_queue *queue, struct io_event *events, uint32_t max)
{
    uint32_t n = 0;
    while (n < max && queue->done_count > 0) {
        events[n++] = queue->done[queue->done_head];
        queue->done_head = (queue->done_head + 1) % IO_QUEUE_DEPTH_MAX;
        queue->done_count--;
    }
    return n;
}

/* ---- entries ---- */

/* The registered region that holds the buffer whole, or -1. */
static int find_region(const struct uring_queue *queue, const void *buf, size_t bytes)
{
    uint32_t low = 0, high = queue->region_count;
    while (low < high) { /* the last region that starts at or below buf */
        uint32_t middle = low + (high - low) / 2;
        if ((uintptr_t)queue->regions[middle].iov_base <= (uintptr_t)buf)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return -1;
    const struct iovec *region = &queue->regions[low - 1];
    size_t from = (uintptr_t)buf - (uintptr_t)region->iov_base;
    return from <= region->iov_len && bytes <= region->iov_len - from ? (int)low - 1 : -1;
}

static struct io_uring_sqe *next_entry(struct uring_queue *queue)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&queue->ring);
    CHECK(sqe != NULL); /* see Limits above */
    return sqe;
}

static void prepare(struct uring_queue *queue, uint16_t slot)
{
    const struct io_request *request = &queue->slots[slot].request;
    const struct real_file *file = (const struct real_file *)request->file;
    struct io_uring_sqe *sqe = next_entry(queue);
    int fd = file->fd.fd, region = -1;
    if (request->op != IO_OP_SYNC) region = find_region(queue, request->buf, request->bytes);
    switch (request->op) {
    case IO_OP_WRITE:
        if (region < 0)
            io_uring_prep_write(sqe, fd, request->buf, request->bytes, request->offset);
        else
            io_uring_prep_write_fixed(sqe, fd, request->buf, request->bytes, request->offset,
                                      region);
        if ((request->flags & IO_DSYNC) != 0) sqe->rw_flags = RWF_DSYNC;
        break;
    case IO_OP_READ:
        if (region < 0)
            io_uring_prep_read(sqe, fd, request->buf, request->bytes, request->offset);
        else
            io_uring_prep_read_fixed(sqe, fd, request->buf, request->bytes, request->offset,
                                     region);
        break;
    case IO_OP_SYNC: io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC); break;
    }
    if (file->registered == &queue->base) {
        sqe->fd = (int)file->registered_slot;
        io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    }
    io_uring_sqe_set_data64(sqe, slot);
}

static void arm_wake(struct uring_queue *queue)
{
    if (queue->armed) return;
    struct io_uring_sqe *sqe = next_entry(queue);
    io_uring_prep_read(sqe, queue->wake_fd.fd, &wake_sink, sizeof wake_sink, 0);
    io_uring_sqe_set_data64(sqe, WAKE_TAG);
    queue->armed = true;
}

/* ---- completions ---- */

/* Whether the request is to be sent again, and not reported. */
static bool is_again(struct uring_queue *queue, struct uring_slot *slot, int32_t result)
{
    const struct io_request *request = &slot->request;
    if (request->op == IO_OP_SYNC) return false;
    if (result == -EINVAL)
        return real_direct_refused((struct real_file *)request->file, request->buf, request->bytes,
                                   request->offset);
    if (result != -EAGAIN && result != -EINTR) return false;
    queue->pause = queue->pause || result == -EAGAIN;
    return ++slot->again <= IO_AGAIN_TRIES;
}

static void complete(struct uring_queue *queue, uint64_t tag, int32_t result)
{
    if (tag == WAKE_TAG) {
        /* Acquire, the pair of the exchange in uring_wake: what the waker stored is seen by
         * whoever returns from the wait. Cleared before that return, so a later wake writes. */
        (void)atomic_exchange_explicit(&queue->wake_sent, false, memory_order_acq_rel);
        queue->armed = false;
        queue->woken = true;
        return;
    }
    CHECK(tag < IO_QUEUE_DEPTH_MAX);
    struct uring_slot *slot = &queue->slots[tag];
    if (is_again(queue, slot, result))
        prepare(queue, (uint16_t)tag);
    else
        finish(queue, (uint16_t)tag, result);
}

static void reap(struct uring_queue *queue)
{
    struct io_uring_cqe *cqe;
    unsigned head, n = 0;
    io_uring_for_each_cqe(&queue->ring, head, cqe)
    {
        complete(queue, cqe->user_data, cqe->res);
        n++;
    }
    io_uring_cq_advance(&queue->ring, n);
}

/* As reap, after the kernel has posted what it has finished: with DEFER_TASKRUN that waits for the
 * owner to come by. */
static void reap_deferred(struct uring_queue *queue)
{
    unsigned flags = __atomic_load_n(queue->ring.sq.kflags, __ATOMIC_RELAXED);
    if ((flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0)
        (void)io_uring_get_events(&queue->ring); /* a failure shows again at the next wait */
    reap(queue);
}

/* ---- submission ---- */

/* Enables the ring for the calling thread, once. */
static int become_owner(struct uring_queue *queue)
{
    if (queue->enabled) return 0;
    /* By its raw call: liburing 2.3 declares io_uring_enable_rings but does not export it. */
    int rc =
        io_uring_register((unsigned)queue->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
    if (rc < 0) return rc;
    queue->enabled = true;
    return 0;
}

static bool is_sqpoll(const struct uring_queue *queue)
{
    return (queue->ring.flags & IORING_SETUP_SQPOLL) != 0;
}

/* Hands everything in the submission ring over. A kernel short of memory or with a full completion
 * ring wants to be reaped first. */
static int push(struct uring_queue *queue)
{
    for (unsigned tries = 0; io_uring_sq_ready(&queue->ring) > 0;) {
        if (queue->pause) pause_ns(IO_AGAIN_SLEEP_NS);
        queue->pause = false;
        int rc = io_uring_submit(&queue->ring);
        /* The kernel's thread has them, or will, and they can't be taken back: should it not have
         * been woken just now, the next wait does that, or says why not. */
        if (is_sqpoll(queue)) return 0;
        if (rc > 0 || rc == -EINTR) continue;
        if (rc != 0 && rc != -EAGAIN && rc != -EBUSY) return rc;
        if (++tries > IO_AGAIN_TRIES) return rc != 0 ? rc : -EAGAIN;
        queue->pause = true;
        reap_deferred(queue);
    }
    return 0;
}

/* Takes back what the kernel has not taken from the submission ring. Entries of the submission
 * that is being made are counted; any other is finished with rc. */
static uint32_t take_back(struct uring_queue *queue, int rc, uint16_t *fresh)
{
    struct io_uring_sq *sq = &queue->ring.sq;
    unsigned from = __atomic_load_n(sq->khead, __ATOMIC_ACQUIRE), to = sq->sqe_tail;
    uint32_t n = 0;
    for (unsigned at = from; at != to; at++) {
        uint64_t tag = sq->sqes[at & sq->ring_mask].user_data;
        if (tag == WAKE_TAG)
            queue->armed = false;
        else if (queue->slots[tag].fresh)
            fresh[n++] = (uint16_t)tag;
        else
            finish(queue, (uint16_t)tag, rc);
    }
    sq->sqe_head = sq->sqe_tail = from;
    __atomic_store_n(sq->ktail, from, __ATOMIC_RELEASE);
    return n;
}

static int uring_submit(struct io_queue *base, const struct io_request *requests, uint32_t n)
{
    struct uring_queue *queue = queue_of(base);
    int rc = become_owner(queue);
    if (rc != 0) return rc;
    for (uint32_t i = 0; i < n; i++)
        if (real_fd((const struct real_file *)requests[i].file) < 0) return -RFE_FORKED;
    uint16_t sent[IO_QUEUE_DEPTH_MAX];
    for (uint32_t i = 0; i < n; i++) {
        sent[i] = take_slot(queue);
        queue->slots[sent[i]] = (struct uring_slot){.request = requests[i], .fresh = true};
        prepare(queue, sent[i]);
    }
    rc = push(queue);
    if (rc != 0) {
        uint16_t back[IO_QUEUE_DEPTH_MAX];
        uint32_t back_count = take_back(queue, rc, back);
        bool none = back_count == n;
        for (uint32_t i = 0; i < back_count; i++) {
            if (none)
                put_slot(queue, back[i]);
            else
                finish(queue, back[i], rc);
        }
        if (!none) rc = 0;
    }
    for (uint32_t i = 0; i < n; i++)
        queue->slots[sent[i]].fresh = false;
    return rc;
}

/* ---- waiting ---- */

/* One sleep in the ring, at most left_ns (negative: no limit). Returns 0 also when time is up. */
static int sleep_in_ring(struct uring_queue *queue, int64_t left_ns)
{
    if (queue->pause) { /* what came back with EAGAIN is sent again, a little later */
        int rc = push(queue);
        if (rc != 0) return rc;
    }
    struct __kernel_timespec limit = {.tv_sec = left_ns / 1000000000,
                                      .tv_nsec = left_ns % 1000000000};
    struct io_uring_cqe *cqe;
    int rc =
        io_uring_submit_and_wait_timeout(&queue->ring, &cqe, 1, left_ns < 0 ? NULL : &limit, NULL);
    if (rc >= 0 || rc == -ETIME || rc == -EINTR) return 0;
    if (rc != -EAGAIN && rc != -EBUSY) return rc;
    reap_deferred(queue);
    pause_ns(IO_AGAIN_SLEEP_NS);
    return 0;
}

static int uring_wait(struct io_queue *base, struct io_event *events, uint32_t max,
                      int64_t timeout_ns)
{
    struct uring_queue *queue = queue_of(base);
    int rc = become_owner(queue);
    if (rc != 0) return rc;
    int64_t deadline_ns = timeout_ns > 0 ? clock_read_ns(CLOCK_MONOTONIC) + timeout_ns : 0;
    for (bool last = false;;) {
        reap_deferred(queue);
        uint32_t n = take_events(queue, events, max);
        if (n > 0 || queue->woken || last) {
            queue->woken = false;
            return (int)n;
        }
        arm_wake(queue);
        int64_t left_ns = -1;
        if (timeout_ns > 0) left_ns = deadline_ns - clock_read_ns(CLOCK_MONOTONIC);
        last = timeout_ns == 0 || (timeout_ns > 0 && left_ns <= 0);
        rc = last ? push(queue) : sleep_in_ring(queue, left_ns);
        if (rc != 0) return rc;
    }
}

static void uring_wake(struct io_queue *base)
{
    struct uring_queue *queue = queue_of(base);
    /* Release, the pair of the exchange in complete(). An earlier wake that is not seen yet ends
     * the wait for us too, since the owner takes it back before it looks. */
    if (atomic_exchange_explicit(&queue->wake_sent, true, memory_order_acq_rel)) return;
    const uint64_t one = 1;
    THREAD_NOT_CANCELLED(); /* a writer wakes the lane between reserving and publishing */
    /* Cannot fail: the counter is far from its end and the descriptor is ours. */
    CHECK(write(queue->wake_fd.fd, &one, sizeof one) == (ssize_t)sizeof one);
}

/* ---- registration ---- */

static int by_address(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct iovec *)a)->iov_base;
    uintptr_t y = (uintptr_t)((const struct iovec *)b)->iov_base;
    return (x > y) - (x < y);
}

static void uring_register_memory(struct io_queue *base, const struct io_memory *regions,
                                  uint32_t n)
{
    struct uring_queue *queue = queue_of(base);
    if (queue->regions != NULL) return;
    size_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += (regions[i].bytes + REGION_BYTES_MAX - 1) / REGION_BYTES_MAX;
    struct iovec *iov = mem_zalloc_array(count, sizeof *iov);
    if (iov == NULL) return;
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++)
        for (size_t from = 0; from < regions[i].bytes; from += REGION_BYTES_MAX) {
            size_t left = regions[i].bytes - from;
            iov[at++] = (struct iovec){
                .iov_base = (char *)regions[i].base + from,
                .iov_len = left < REGION_BYTES_MAX ? left : REGION_BYTES_MAX,
            };
        }
    qsort(iov, count, sizeof *iov, by_address);
    if (io_uring_register_buffers(&queue->ring, iov, (unsigned)count) != 0) {
        mem_free(iov); /* over the memlock limit, or too many: requests pin as they go */
        return;
    }
    queue->regions = iov;
    queue->region_count = (uint32_t)count;
}

static void uring_register_file(struct io_queue *base, struct io_file *file_base)
{
    struct uring_queue *queue = queue_of(base);
    struct real_file *file = (struct real_file *)file_base;
    CHECK(file->registered == NULL);
    if (become_owner(queue) != 0) return; /* the next submit says why */
    if (!queue->has_file_table) {
        if (io_uring_register_files_sparse(&queue->ring, IO_REGISTERED_FILES) != 0) return;
        queue->has_file_table = true;
    }
    for (uint32_t slot = 0; slot < IO_REGISTERED_FILES; slot++) {
        if (queue->files[slot] != NULL) continue;
        int fd = file->fd.fd;
        if (io_uring_register_files_update(&queue->ring, slot, &fd, 1) != 1) return;
        queue->files[slot] = file_base;
        file->registered = base;
        file->registered_slot = slot;
        return;
    }
}

static void uring_forget_file(struct io_queue *base, struct io_file *file_base)
{
    struct uring_queue *queue = queue_of(base);
    struct real_file *file = (struct real_file *)file_base;
    if (file->registered != base) return;
    int none = -1;
    int rc = io_uring_register_files_update(&queue->ring, file->registered_slot, &none, 1);
    CHECK(rc == 1); /* taking an entry out of our own table needs nothing that can be refused */
    queue->files[file->registered_slot] = NULL;
    file->registered = NULL;
}

/* ---- open and close ---- */

static int set_up(struct io_uring *ring, uint32_t entries, bool sqpoll)
{
    if (sqpoll) {
        struct io_uring_params params = {.flags = IORING_SETUP_SQPOLL | IORING_SETUP_SUBMIT_ALL |
                                                  IORING_SETUP_R_DISABLED,
                                         .sq_thread_idle = SQPOLL_IDLE_MS};
        if (io_uring_queue_init_params(entries, ring, &params) == 0) return 0;
    }
    static const unsigned steps[] = {
        IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
            IORING_SETUP_SUBMIT_ALL,                                                     /* 6.1 */
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL, /* 5.19 */
        IORING_SETUP_SUBMIT_ALL,                                                         /* 5.18 */
        0,                                                                               /* 5.11 */
    };
    int rc = -EINVAL;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && rc == -EINVAL; i++) {
        struct io_uring_params params = {.flags = steps[i] | IORING_SETUP_R_DISABLED};
        rc = io_uring_queue_init_params(entries, ring, &params);
    }
    return rc;
}

/* Whether the ring can be used, not only made: a sandbox may refuse the other two calls, and an old
 * kernel lacks waits with a timeout. Returns 0 or the refusal. */
static int probe(struct io_uring *ring)
{
    const unsigned needed = IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP;
    if ((ring->features & needed) != needed) return -EINVAL;
    int rc = io_uring_enter((unsigned)ring->ring_fd, 0, 0, 0, NULL);
    if (rc < 0 && rc != -EBADFD) return rc; /* EBADFD: disabled still, so allowed */
    struct io_uring_probe *ops = io_uring_get_probe_ring(ring);
    if (ops == NULL) {
        /* liburing does not say why; asked again for the errno. */
        rc = io_uring_register((unsigned)ring->ring_fd, IORING_UNREGISTER_EVENTFD, NULL, 0);
        return rc == -ENXIO || rc >= 0 ? -EINVAL : rc;
    }
    bool enough = io_uring_opcode_supported(ops, IORING_OP_READ) &&
                  io_uring_opcode_supported(ops, IORING_OP_WRITE) &&
                  io_uring_opcode_supported(ops, IORING_OP_WRITE_FIXED) &&
                  io_uring_opcode_supported(ops, IORING_OP_FSYNC);
    io_uring_free_probe(ops);
    return enough ? 0 : -EINVAL;
}

/* One try. No fork comes before the ring is on the list of what a child closes, and its mapping,
 * which would keep the ring and its registered files alive there, is not inherited. */
static int set_up_unshared(struct uring_queue *queue, uint32_t entries, bool sqpoll)
{
    fork_hold();
    int rc = set_up(&queue->ring, entries, sqpoll);
    if (rc == 0) {
        rc = io_uring_ring_dontfork(&queue->ring);
        if (rc != 0)
            io_uring_queue_exit(&queue->ring);
        else
            fork_fd_add(&queue->ring_fd, queue->ring.ring_fd);
    }
    fork_let_go();
    return rc;
}

static int make_wake_fd(struct uring_queue *queue)
{
    fork_hold();
    int fd = eventfd(0, EFD_CLOEXEC), rc = fd < 0 ? -errno : 0;
    if (fd >= 0) fork_fd_add(&queue->wake_fd, fd);
    fork_let_go();
    return rc;
}

static void take_down(struct uring_queue *queue)
{
    fork_fd_close(&queue->ring_fd);
    queue->ring.ring_fd = -1; /* closed just now, under the list's mutex */
    io_uring_queue_exit(&queue->ring);
}

/* The rings of a process that was just killed are freed late, and count against memlock so long. */
static int set_up_patiently(struct uring_queue *queue, const struct io_queue_options *options,
                            bool patient)
{
    uint32_t entries = options->depth + 1; /* the wake's read is one */
    long sleep_ns = NOMEM_SLEEP_NS;
    for (unsigned tries = 1;; tries++) {
        int rc = set_up_unshared(queue, entries, options->sqpoll);
        if (rc != -ENOMEM || !patient || tries == NOMEM_TRIES) return rc;
        pause_ns(sleep_ns);
        sleep_ns *= 2;
    }
}

struct set_up_call {
    struct uring_queue *queue;
    const struct io_queue_options *options;
    bool patient;
    int rc;
};

static void *set_up_run(void *arg)
{
    struct set_up_call *call = arg;
    call->rc = set_up_patiently(call->queue, call->options, call->patient);
    return NULL;
}

/* By a thread that ends: see Host above. Without one the caller does it. */
static int set_up_apart(struct uring_queue *queue, const struct io_queue_options *options,
                        bool patient)
{
    struct set_up_call call = {.queue = queue, .options = options, .patient = patient};
    pthread_t thread;
    if (thread_start(&thread, "rf-ring", set_up_run, &call) == 0)
        thread_join(thread);
    else
        (void)set_up_run(&call);
    return call.rc;
}

int uring_queue_open(struct real_env *env, const struct io_queue_options *options,
                     struct io_queue **queue_out)
{
    struct uring_queue *queue = mem_zalloc(sizeof *queue);
    if (queue == NULL) return -ENOMEM;
    io_queue_init(&queue->base, &uring_ops, &env->base, options->depth);
    for (uint16_t slot = 0; slot < IO_QUEUE_DEPTH_MAX; slot++)
        queue->free[queue->free_count++] = slot;
    bool patient = !atomic_load_explicit(&env->uring_refused, memory_order_relaxed);
    int rc = set_up_apart(queue, options, patient);
    if (rc != 0) goto free_queue;
    rc = probe(&queue->ring);
    if (rc == 0) rc = make_wake_fd(queue);
    if (rc != 0) goto exit_ring;
    *queue_out = &queue->base;
    return 0;
exit_ring:
    take_down(queue);
free_queue:
    mem_free(queue);
    return rc;
}

/* Only the owner gets here with anything in flight (io.c): completions of a ring whose owner has
 * ended are never posted, so nobody could tell when the kernel is done with the buffers. */
static void drain(struct uring_queue *queue)
{
    while (queue->used > 0) {
        queue->done_count = 0; /* nobody will ask for these events */
        CHECK(sleep_in_ring(queue, -1) == 0);
        reap(queue);
    }
}

static void free_queue(struct uring_queue *queue)
{
    for (uint32_t slot = 0; slot < IO_REGISTERED_FILES; slot++)
        if (queue->files[slot] != NULL) ((struct real_file *)queue->files[slot])->registered = NULL;
    mem_free(queue->regions);
    queue->base.magic = 0;
    mem_free(queue);
}

static void uring_close(struct io_queue *base)
{
    struct uring_queue *queue = queue_of(base);
    drain(queue);
    for (uint32_t slot = 0; slot < IO_REGISTERED_FILES; slot++)
        if (queue->files[slot] != NULL) ((struct real_file *)queue->files[slot])->registered = NULL;
    fork_fd_close(&queue->wake_fd);
    take_down(queue);
    free_queue(queue);
}

static void uring_abandon(struct io_queue *base)
{
    struct uring_queue *queue = queue_of(base);
    /* The ring's mappings were not inherited, so what lies at their place now is somebody else's;
     * and the registered files may be freed by now. */
    fork_fd_close(&queue->wake_fd);
    fork_fd_close(&queue->ring_fd);
    free_queue(queue);
}

static const struct io_queue_ops uring_ops = {
    .name = "uring",
    .close = uring_close,
    .abandon = uring_abandon,
    .submit = uring_submit,
    .wait = uring_wait,
    .wake = uring_wake,
    .register_memory = uring_register_memory,
    .register_file = uring_register_file,
    .forget_file = uring_forget_file,
};
