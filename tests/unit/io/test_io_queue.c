/* ctest: concurrent
 *
 * The promises of a completion queue, the same program of tests over each back end. */
#include "io/fault.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "tests/lib/child.h"
#include "tests/lib/tempdir.h"

#include <errno.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define BLOCK 4096u
#define MS    INT64_C(1000000)

struct backend {
    const char *name;
    enum io_backend choice;
    bool sqpoll;
    bool is_double;
    uint64_t seed; /* of the double */
};
static struct backend uring = {.name = "uring", .choice = IO_BACKEND_URING};
static struct backend polled = {.name = "uring", .choice = IO_BACKEND_URING, .sqpoll = true};
static struct backend posix = {.name = "posix", .choice = IO_BACKEND_POSIX};
static struct backend in_order = {.name = "fault", .is_double = true, .seed = 0};
static struct backend by_seed = {.name = "fault", .is_double = true, .seed = 1};

struct fixture {
    const struct backend *backend;
    char dir[TEMPDIR_BYTES];
    struct io_env *env;
    struct io_file *file;
    struct io_queue *queue;
};

static struct io_queue *open_queue(struct fixture *f, uint32_t depth)
{
    const struct io_queue_options options = {
        .backend = f->backend->choice, .depth = depth, .sqpoll = f->backend->sqpoll};
    struct io_queue *queue;
    assert_int_equal(io_queue_open(f->env, &options, &queue), 0);
    assert_string_equal(io_queue_backend(queue), f->backend->name);
    return queue;
}

/* Without the queue: for tests whose child opens one. A child of a process with threads could not
 * start any under ThreadSanitizer. */
static int setup_files(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->backend = *state;
    if (f->backend->is_double) {
        const struct fault_options options = {.seed = f->backend->seed};
        assert_int_equal(fault_env_open(&options, &f->env), 0);
    } else {
        tempdir_make(f->dir);
        assert_int_equal(io_env_open(f->dir, &f->env), 0);
    }
    assert_int_equal(io_open(f->env, "data", IO_READ | IO_WRITE | IO_CREATE | IO_DIRECT, &f->file),
                     0);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    int rc = setup_files(state);
    struct fixture *f = *state;
    f->queue = open_queue(f, 16);
    return rc;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    io_queue_close(f->queue);
    io_close(f->file);
    io_env_close(f->env);
    if (f->dir[0] != '\0') tempdir_remove(f->dir);
    free(f);
    return 0;
}

static unsigned char *block_of(unsigned char fill, size_t blocks)
{
    unsigned char *buf = mem_alloc_aligned(BLOCK, blocks * BLOCK);
    assert_non_null(buf);
    memset(buf, fill, blocks * BLOCK);
    return buf;
}

static struct io_request request(enum io_op op, struct io_file *file, void *buf, uint32_t bytes,
                                 uint64_t offset, uint64_t user)
{
    return (struct io_request){
        .op = op, .file = file, .buf = buf, .bytes = bytes, .offset = offset, .user = user};
}

/* Submits one request and returns its result. */
static int32_t run_one(struct io_queue *queue, struct io_request r)
{
    struct io_event event;
    assert_int_equal(io_queue_submit(queue, &r, 1), 0);
    assert_int_equal(io_queue_wait(queue, &event, 1, -1), 1);
    assert_int_equal(event.user, r.user);
    return event.result;
}

/* Waits for n events and marks each user's place; every one comes once. */
static void collect(struct io_queue *queue, uint32_t n, int32_t *results)
{
    bool seen[256] = {false};
    for (uint32_t got = 0; got < n;) {
        struct io_event events[3]; /* fewer than there may be: the rest must stay */
        int rc = io_queue_wait(queue, events, 3, 5000 * MS);
        assert_in_range(rc, 1, 3);
        for (int i = 0; i < rc; i++) {
            assert_true(events[i].user < n);
            assert_false(seen[events[i].user]);
            seen[events[i].user] = true;
            results[events[i].user] = events[i].result;
        }
        got += (uint32_t)rc;
    }
    assert_int_equal(io_queue_in_flight(queue), 0);
}

static void io_queue_submit__full_depth_of_writes__each_completes_once(void **state)
{
    struct fixture *f = *state;
    unsigned char *bufs[16];
    struct io_request requests[16];
    int32_t results[16];
    for (uint32_t i = 0; i < 16; i++) {
        bufs[i] = block_of((unsigned char)('a' + i), 1);
        requests[i] = request(IO_OP_WRITE, f->file, bufs[i], BLOCK, (uint64_t)i * BLOCK, i);
        requests[i].flags = i % 2 == 0 ? IO_DSYNC : 0;
    }
    assert_int_equal(io_queue_submit(f->queue, requests, 16), 0);
    assert_int_equal(io_queue_in_flight(f->queue), 16);
    collect(f->queue, 16, results);
    for (uint32_t i = 0; i < 16; i++)
        assert_int_equal(results[i], BLOCK);
    assert_int_equal(run_one(f->queue, request(IO_OP_SYNC, f->file, NULL, 0, 0, 7)), 0);

    for (uint32_t i = 0; i < 16; i++) {
        memset(bufs[i], 0, BLOCK);
        requests[i].op = IO_OP_READ;
        requests[i].flags = 0;
    }
    assert_int_equal(io_queue_submit(f->queue, requests, 16), 0);
    collect(f->queue, 16, results);
    for (uint32_t i = 0; i < 16; i++) {
        assert_int_equal(results[i], BLOCK);
        for (uint32_t at = 0; at < BLOCK; at++)
            assert_int_equal(bufs[i][at], 'a' + i);
        mem_free(bufs[i]);
    }
}

static void io_queue_submit__a_thousand_through_depth_two__none_is_lost(void **state)
{
    struct fixture *f = *state;
    struct io_queue *queue = open_queue(f, 2);
    unsigned char *buf = block_of('x', 1);
    uint32_t sent = 0, done = 0;
    while (done < 1000) {
        while (sent < 1000 && io_queue_in_flight(queue) < 2) {
            struct io_request r =
                request(IO_OP_WRITE, f->file, buf, BLOCK, (uint64_t)(sent % 64) * BLOCK, sent);
            assert_int_equal(io_queue_submit(queue, &r, 1), 0);
            sent++;
        }
        struct io_event events[2];
        int rc = io_queue_wait(queue, events, 2, -1);
        assert_in_range(rc, 1, 2);
        for (int i = 0; i < rc; i++)
            assert_int_equal(events[i].result, BLOCK);
        done += (uint32_t)rc;
    }
    assert_int_equal(io_queue_in_flight(queue), 0);
    io_queue_close(queue);
    mem_free(buf);
}

static void io_queue_wait__read_past_the_end__comes_back_short(void **state)
{
    struct fixture *f = *state;
    unsigned char *buf = block_of('s', 4);
    assert_int_equal(io_pwrite(f->file, buf, 2 * BLOCK, 0, 0, NULL), 0);
    assert_int_equal(run_one(f->queue, request(IO_OP_READ, f->file, buf, 4 * BLOCK, BLOCK, 1)),
                     BLOCK);
    assert_int_equal(run_one(f->queue, request(IO_OP_READ, f->file, buf, BLOCK, 2 * BLOCK, 2)), 0);
    mem_free(buf);
}

static void io_queue_wait__failed_request__reports_its_errno(void **state)
{
    struct fixture *f = *state;
    struct io_file *read_only;
    assert_int_equal(io_open(f->env, "data", IO_READ, &read_only), 0);
    unsigned char *buf = block_of('e', 1);
    assert_int_equal(run_one(f->queue, request(IO_OP_WRITE, read_only, buf, BLOCK, 0, 1)), -EBADF);
    /* The queue goes on after it. */
    assert_int_equal(run_one(f->queue, request(IO_OP_WRITE, f->file, buf, BLOCK, 0, 2)), BLOCK);
    io_close(read_only);
    mem_free(buf);
}

static void io_queue_wait__nothing_there__returns_after_the_timeout(void **state)
{
    struct fixture *f = *state;
    struct io_event event;
    int64_t before = clock_read_ns(CLOCK_MONOTONIC);
    assert_int_equal(io_queue_wait(f->queue, &event, 1, 0), 0);
    assert_true(clock_read_ns(CLOCK_MONOTONIC) - before < 1000 * MS);
    before = clock_read_ns(CLOCK_MONOTONIC);
    assert_int_equal(io_queue_wait(f->queue, &event, 1, 30 * MS), 0);
    int64_t took = clock_read_ns(CLOCK_MONOTONIC) - before;
    assert_true(took >= 30 * MS && took < 5000 * MS);
}

static void io_queue_wait__zero_timeout__finds_what_has_completed(void **state)
{
    struct fixture *f = *state;
    unsigned char *buf = block_of('z', 1);
    struct io_request r = request(IO_OP_WRITE, f->file, buf, BLOCK, 0, 9);
    struct io_event event;
    assert_int_equal(io_queue_submit(f->queue, &r, 1), 0);
    int64_t limit = clock_read_ns(CLOCK_MONOTONIC) + 10000 * MS;
    int rc;
    do
        rc = io_queue_wait(f->queue, &event, 1, 0);
    while (rc == 0 && clock_read_ns(CLOCK_MONOTONIC) < limit);
    assert_int_equal(rc, 1);
    assert_int_equal(event.user, 9);
    mem_free(buf);
}

/* ---- waking ---- */

static void io_queue_wake__before_the_wait__ends_one_wait(void **state)
{
    struct fixture *f = *state;
    struct io_event event;
    io_queue_wake(f->queue);
    io_queue_wake(f->queue);
    io_queue_wake(f->queue);
    assert_int_equal(io_queue_wait(f->queue, &event, 1, -1), 0); /* would hang without the wake */
    int64_t before = clock_read_ns(CLOCK_MONOTONIC);
    assert_int_equal(io_queue_wait(f->queue, &event, 1, 20 * MS), 0);
    assert_true(clock_read_ns(CLOCK_MONOTONIC) - before >= 20 * MS); /* three count as one */
    io_queue_wake(f->queue);
    assert_int_equal(io_queue_wait(f->queue, &event, 1, -1), 0);
}

struct waker {
    struct io_queue *queue;
    uint64_t stored; /* plain: the wake alone publishes it */
};

static void *wake_later(void *arg)
{
    struct waker *waker = arg;
    const struct timespec pause = {.tv_nsec = 20 * MS};
    nanosleep(&pause, NULL);
    waker->stored = 42;
    io_queue_wake(waker->queue);
    return NULL;
}

static void io_queue_wake__from_another_thread__ends_the_wait_and_publishes(void **state)
{
    struct fixture *f = *state;
    struct waker waker = {.queue = f->queue};
    pthread_t thread;
    struct io_event event;
    assert_int_equal(thread_start(&thread, "waker", wake_later, &waker), 0);
    assert_int_equal(io_queue_wait(f->queue, &event, 1, -1), 0);
    assert_int_equal(waker.stored, 42);
    thread_join(thread);
}

#define ROUNDS 3000u
struct ping_pong {
    struct io_queue *queue;
    _Atomic uint32_t asked, answered;
};

static void *ask_and_wait(void *arg)
{
    struct ping_pong *p = arg;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        atomic_store(&p->asked, round);
        io_queue_wake(p->queue);
        for (;;) {
            uint32_t answered = atomic_load(&p->answered);
            if (answered == round) break;
            (void)futex_wait(&p->answered, answered, -1);
        }
    }
    return NULL;
}

/* Each round hangs when one wake is lost, with and without writes in flight. */
static void io_queue_wake__thousands_beside_writes__none_is_lost(void **state)
{
    struct fixture *f = *state;
    unsigned char *buf = block_of('p', 1);
    struct ping_pong p = {.queue = f->queue};
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "asker", ask_and_wait, &p), 0);
    for (uint32_t answered = 0; answered < ROUNDS;) {
        if (io_queue_in_flight(f->queue) < 2 && answered % 3 == 0) {
            struct io_request r = request(IO_OP_WRITE, f->file, buf, BLOCK, 0, 1);
            assert_int_equal(io_queue_submit(f->queue, &r, 1), 0);
        }
        struct io_event events[4];
        assert_true(io_queue_wait(f->queue, events, 4, -1) >= 0);
        uint32_t asked = atomic_load(&p.asked);
        if (asked == answered) continue;
        answered = asked;
        atomic_store(&p.answered, answered);
        futex_wake_all(&p.answered);
    }
    thread_join(thread);
    while (io_queue_in_flight(f->queue) > 0) {
        struct io_event event;
        assert_true(io_queue_wait(f->queue, &event, 1, -1) >= 0);
    }
    mem_free(buf);
}

/* ---- closing, threads, forks ---- */

static void io_queue_close__writes_in_flight__waits_for_them(void **state)
{
    struct fixture *f = *state;
    struct io_queue *queue = open_queue(f, 8);
    unsigned char *bufs[8];
    struct io_request requests[8];
    for (uint32_t i = 0; i < 8; i++) {
        bufs[i] = block_of((unsigned char)(1 + i), 64);
        requests[i] =
            request(IO_OP_WRITE, f->file, bufs[i], 64 * BLOCK, (uint64_t)i * 64 * BLOCK, i);
    }
    assert_int_equal(io_queue_submit(queue, requests, 8), 0);
    io_queue_close(queue);
    for (uint32_t i = 0; i < 8; i++) { /* overwritten: a late write would store this */
        memset(bufs[i], 0xee, 64 * BLOCK);
        mem_free(bufs[i]);
    }
    unsigned char *back = block_of(0, 8 * 64);
    size_t done;
    assert_int_equal(io_pread(f->file, back, 8 * 64 * BLOCK, 0, &done), 0);
    assert_int_equal(done, 8 * 64 * BLOCK);
    for (size_t at = 0; at < done; at++)
        assert_int_equal(back[at], 1 + at / (64 * BLOCK));
    mem_free(back);
}

struct owner {
    struct fixture *f;
    struct io_queue *queue;
    unsigned char *buf;
};

static void *own(void *arg)
{
    struct owner *owner = arg;
    struct io_request requests[4];
    for (uint32_t i = 0; i < 4; i++)
        requests[i] = request(IO_OP_WRITE, owner->f->file, owner->buf, 64 * BLOCK,
                              (uint64_t)i * 64 * BLOCK, i);
    struct io_event event;
    CHECK(io_queue_wait(owner->queue, &event, 1, 0) == 0);
    CHECK(io_queue_submit(owner->queue, requests, 4) == 0);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(io_queue_wait(owner->queue, &event, 1, -1) == 1);
        CHECK(event.result == (int32_t)(64 * BLOCK));
    }
    return NULL;
}

static void io_queue_open__by_another_thread_than_the_owner__works(void **state)
{
    struct fixture *f = *state;
    struct owner owner = {.f = f, .queue = open_queue(f, 4), .buf = block_of('o', 64)};
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "owner", own, &owner), 0);
    thread_join(thread);
    io_queue_close(owner.queue);
    mem_free(owner.buf);
}

static void *submit_and_leave(void *arg)
{
    struct owner *owner = arg;
    struct io_request r = request(IO_OP_WRITE, owner->f->file, owner->buf, BLOCK, 0, 1);
    CHECK(io_queue_submit(owner->queue, &r, 1) == 0);
    return NULL;
}

static int close_for_an_owner_that_left(void *ctx)
{
    struct fixture *f = ctx;
    const struct io_queue_options options = {.backend = f->backend->choice, .depth = 1};
    struct fixture own_fixture = {.backend = f->backend};
    struct owner owner = {.f = &own_fixture, .buf = mem_alloc_aligned(BLOCK, BLOCK)};
    CHILD_CHECK(io_env_open(f->dir, &own_fixture.env) == 0);
    CHILD_CHECK(io_open(own_fixture.env, "data", IO_READ | IO_WRITE, &own_fixture.file) == 0);
    CHILD_CHECK(io_queue_open(own_fixture.env, &options, &owner.queue) == 0);
    pthread_t thread;
    CHILD_CHECK(thread_start(&thread, "owner", submit_and_leave, &owner) == 0);
    thread_join(thread);
    (void)!freopen("/dev/null", "w", stderr); /* the message is expected */
    io_queue_close(owner.queue);
    return 0;
}

static void io_queue_close__owner_left_with_writes_in_flight__is_a_broken_invariant(void **state)
{
    assert_int_equal(child_run(close_for_an_owner_that_left, *state), -1 - SIGABRT);
}

static int use_in_child(void *ctx)
{
    struct fixture *f = ctx;
    static unsigned char buf[BLOCK];
    struct io_request r = request(IO_OP_WRITE, f->file, buf, BLOCK, 0, 1);
    struct io_event event;
    CHILD_CHECK(io_queue_submit(f->queue, &r, 1) == -RFE_FORKED);
    CHILD_CHECK(io_queue_wait(f->queue, &event, 1, -1) == -RFE_FORKED);
    io_queue_wake(f->queue); /* nobody is woken, and nothing breaks */
    io_queue_close(f->queue);
    io_close(f->file);
    io_env_close(f->env);
    return 0;
}

static void io_queue_submit__in_a_forked_child__is_refused_and_the_parent_goes_on(void **state)
{
    struct fixture *f = *state;
    unsigned char *buf = block_of('f', 1);
    struct io_request r = request(IO_OP_WRITE, f->file, buf, BLOCK, 0, 5);
    struct io_event event;
    assert_int_equal(run_one(f->queue, r), BLOCK);
    assert_int_equal(io_queue_submit(f->queue, &r, 1), 0); /* in flight across the fork */
    assert_int_equal(child_run(use_in_child, f), 0);
    assert_int_equal(io_queue_wait(f->queue, &event, 1, -1), 1);
    assert_int_equal(event.user, 5);
    assert_int_equal(event.result, BLOCK);
    assert_int_equal(run_one(f->queue, r), BLOCK);
    mem_free(buf);
}

static int overfill(void *ctx)
{
    struct fixture *f = ctx;
    const struct io_queue_options options = {.backend = f->backend->choice, .depth = 1};
    struct io_queue *queue;
    /* The child's own environment: the parent's files are not the child's. */
    struct io_env *env;
    struct io_file *file;
    CHILD_CHECK(io_env_open(f->dir, &env) == 0);
    CHILD_CHECK(io_open(env, "data", IO_READ, &file) == 0);
    CHILD_CHECK(io_queue_open(env, &options, &queue) == 0);
    static unsigned char buf[2][BLOCK];
    struct io_request two[2] = {request(IO_OP_READ, file, buf[0], 1, 0, 0),
                                request(IO_OP_READ, file, buf[1], 1, 0, 1)};
    (void)!freopen("/dev/null", "w", stderr); /* the message is expected */
    (void)!io_queue_submit(queue, two, 2);
    return 0;
}

static void io_queue_submit__more_than_the_depth__is_a_broken_invariant(void **state)
{
    assert_int_equal(child_run(overfill, *state), -1 - SIGABRT);
}

/* ---- registration ---- */

static void io_queue_register__memory_and_file__requests_work_as_before(void **state)
{
    struct fixture *f = *state;
    const size_t blocks = 64;
    struct io_memory region = {.base = mem_map(blocks * BLOCK), .bytes = blocks * BLOCK};
    assert_non_null(region.base);
    unsigned char *inside = region.base;
    unsigned char *outside = block_of('q', 1);
    io_queue_register_memory(f->queue, &region, 1);
    io_queue_register_file(f->queue, f->file);
    for (uint32_t i = 0; i < blocks; i++)
        memset(inside + (size_t)i * BLOCK, (int)(i + 1), BLOCK);
    struct io_request whole =
        request(IO_OP_WRITE, f->file, inside, (uint32_t)(blocks * BLOCK), 0, 1);
    whole.flags = IO_DSYNC;
    assert_int_equal(run_one(f->queue, whole), blocks * BLOCK);
    assert_int_equal(run_one(f->queue, request(IO_OP_WRITE, f->file, outside, BLOCK, 2 * BLOCK, 2)),
                     BLOCK);
    assert_int_equal(run_one(f->queue, request(IO_OP_SYNC, f->file, NULL, 0, 0, 3)), 0);
    io_queue_forget_file(f->queue, f->file);
    assert_int_equal(run_one(f->queue, request(IO_OP_READ, f->file, inside, 3 * BLOCK, BLOCK, 4)),
                     3 * BLOCK);
    assert_int_equal(inside[0], 2);
    assert_int_equal(inside[BLOCK], 'q');
    assert_int_equal(inside[2 * BLOCK], 4);
    io_queue_close(f->queue); /* first: the kernel may have the region pinned */
    mem_unmap(region.base, region.bytes);
    f->queue = open_queue(f, 1);
    mem_free(outside);
}

static void io_queue_forget_file__locked_file__close_then_frees_the_lock(void **state)
{
    struct fixture *f = *state;
    struct io_file *a, *b;
    unsigned char *buf = block_of('l', 1);
    assert_int_equal(io_open(f->env, "locked", IO_READ | IO_WRITE | IO_CREATE, &a), 0);
    assert_int_equal(io_lock(a, true), 0);
    io_queue_register_file(f->queue, a);
    assert_int_equal(run_one(f->queue, request(IO_OP_WRITE, a, buf, BLOCK, 0, 1)), BLOCK);
    io_queue_forget_file(f->queue, a);
    io_close(a);
    assert_int_equal(io_open(f->env, "locked", IO_READ | IO_WRITE, &b), 0);
    int rc;
    for (int tries = 0; (rc = io_lock(b, true)) == -EAGAIN && tries < 100; tries++) {
        struct io_event event; /* older kernels let go of it when the owner comes by */
        assert_int_equal(io_queue_wait(f->queue, &event, 1, 10 * MS), 0);
    }
    assert_int_equal(rc, 0);
    io_close(b);
    mem_free(buf);
}

static bool has_kernel_poller(void)
{
    glob_t found;
    bool has = false;
    if (glob("/proc/self/task/*/comm", 0, NULL, &found) != 0) return false;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char comm[32] = "";
        FILE *file = fopen(found.gl_pathv[i], "r");
        if (file == NULL) continue; /* ended meanwhile */
        (void)!fgets(comm, sizeof comm, file);
        (void)fclose(file);
        has = has || strncmp(comm, "iou-sqp", 7) == 0;
    }
    globfree(&found);
    return has;
}

static void io_queue_open__sqpoll__is_there_only_when_asked_for(void **state)
{
    struct fixture *f = *state;
    struct io_event event;
    assert_int_equal(io_queue_wait(f->queue, &event, 1, 0), 0); /* enables the ring */
    assert_int_equal(has_kernel_poller(), f->backend->sqpoll);
}

/* ---- what only the real file system can be made to do ---- */

static int write_over_the_limit(void *ctx)
{
    struct fixture *f = ctx;
    const struct io_queue_options options = {.backend = f->backend->choice, .depth = 1};
    struct io_env *env;
    struct io_file *file;
    struct io_queue *queue;
    CHILD_CHECK(io_env_open(f->dir, &env) == 0);
    CHILD_CHECK(io_open(env, "limited", IO_READ | IO_WRITE | IO_CREATE, &file) == 0);
    CHILD_CHECK(io_queue_open(env, &options, &queue) == 0);
    const struct rlimit limit = {.rlim_cur = 6000, .rlim_max = 6000};
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHILD_CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR); /* a ring's owner blocks or ignores it */
    static unsigned char buf[2 * BLOCK];
    struct io_request r = request(IO_OP_WRITE, file, buf, 2 * BLOCK, 0, 1);
    struct io_event event;
    CHILD_CHECK(io_queue_submit(queue, &r, 1) == 0);
    CHILD_CHECK(io_queue_wait(queue, &event, 1, -1) == 1 && event.result == 6000);
    r.offset = 6000;
    CHILD_CHECK(io_queue_submit(queue, &r, 1) == 0);
    CHILD_CHECK(io_queue_wait(queue, &event, 1, -1) == 1 && event.result == -EFBIG);
    io_queue_close(queue);
    io_close(file);
    io_env_close(env);
    return 0;
}

static void io_queue_wait__write_over_the_size_limit__is_short_then_efbig(void **state)
{
    assert_int_equal(child_run(write_over_the_limit, *state), 0);
}

#define CHILD_CASE(test, backend) \
    cmocka_unit_test_prestate_setup_teardown(test, setup_files, teardown, &backend)
#define CASE(test, backend) \
    cmocka_unit_test_prestate_setup_teardown(test, setup, teardown, &backend)
#define CASES(backend)                                                                        \
    CASE(io_queue_submit__full_depth_of_writes__each_completes_once, backend),                \
        CASE(io_queue_submit__a_thousand_through_depth_two__none_is_lost, backend),           \
        CASE(io_queue_wait__read_past_the_end__comes_back_short, backend),                    \
        CASE(io_queue_wait__failed_request__reports_its_errno, backend),                      \
        CASE(io_queue_wait__nothing_there__returns_after_the_timeout, backend),               \
        CASE(io_queue_wait__zero_timeout__finds_what_has_completed, backend),                 \
        CASE(io_queue_wake__before_the_wait__ends_one_wait, backend),                         \
        CASE(io_queue_wake__from_another_thread__ends_the_wait_and_publishes, backend),       \
        CASE(io_queue_wake__thousands_beside_writes__none_is_lost, backend),                  \
        CASE(io_queue_close__writes_in_flight__waits_for_them, backend),                      \
        CASE(io_queue_open__by_another_thread_than_the_owner__works, backend),                \
        CASE(io_queue_submit__in_a_forked_child__is_refused_and_the_parent_goes_on, backend), \
        CASE(io_queue_register__memory_and_file__requests_work_as_before, backend),           \
        CASE(io_queue_forget_file__locked_file__close_then_frees_the_lock, backend)
#define REAL_CASES(backend)                                                                 \
    CHILD_CASE(io_queue_submit__more_than_the_depth__is_a_broken_invariant, backend),       \
        CHILD_CASE(io_queue_close__owner_left_with_writes_in_flight__is_a_broken_invariant, \
                   backend),                                                                \
        CHILD_CASE(io_queue_wait__write_over_the_size_limit__is_short_then_efbig, backend)

int main(void)
{
    const char *seed = getenv("RF_SEED");
    by_seed.seed = seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)clock_read_ns(CLOCK_REALTIME);
    if (by_seed.seed == 0) by_seed.seed = 1;
    printf("RF_SEED=%llu\n", (unsigned long long)by_seed.seed);
    const struct CMUnitTest on_uring[] = {
        CASES(uring), REAL_CASES(uring),
        CASE(io_queue_open__sqpoll__is_there_only_when_asked_for, uring)};
    const struct CMUnitTest on_polled_uring[] = {
        CASES(polled), CASE(io_queue_open__sqpoll__is_there_only_when_asked_for, polled)};
    const struct CMUnitTest on_posix[] = {CASES(posix), REAL_CASES(posix)};
    const struct CMUnitTest on_double_in_order[] = {CASES(in_order)};
    const struct CMUnitTest on_double_by_seed[] = {CASES(by_seed)};
    int failed = cmocka_run_group_tests_name("posix", on_posix, NULL, NULL);
    failed += cmocka_run_group_tests_name("uring", on_uring, NULL, NULL);
    failed += cmocka_run_group_tests_name("uring, polled", on_polled_uring, NULL, NULL);
    failed += cmocka_run_group_tests_name("fault in order", on_double_in_order, NULL, NULL);
    failed += cmocka_run_group_tests_name("fault by seed", on_double_by_seed, NULL, NULL);
    return failed;
}
