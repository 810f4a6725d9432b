/* ctest: concurrent
 *
 * The fault double: that it is a file system, that rules do what they say, space, and the trace. */
#include "io/fault.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "tests/lib/child.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define BLOCK 4096u
#define MS    INT64_C(1000000)

static int setup(void **state)
{
    const struct fault_options options = {.record = true};
    struct io_env *env;
    assert_int_equal(fault_env_open(&options, &env), 0);
    *state = env;
    return 0;
}

static int teardown(void **state)
{
    io_env_close(*state);
    return 0;
}

static struct io_file *open_file(struct io_env *env, const char *path)
{
    struct io_file *file;
    assert_int_equal(io_open(env, path, IO_READ | IO_WRITE | IO_CREATE, &file), 0);
    return file;
}

static void make_file(struct io_env *env, const char *path, const char *text)
{
    struct io_file *file = open_file(env, path);
    assert_int_equal(io_pwrite(file, text, strlen(text), 0, 0, NULL), 0);
    io_close(file);
}

static void assert_text(struct io_env *env, const char *path, const char *text)
{
    struct io_file *file;
    char back[128] = "";
    size_t done;
    assert_int_equal(io_open(env, path, IO_READ, &file), 0);
    assert_int_equal(io_pread(file, back, sizeof back - 1, 0, &done), 0);
    assert_string_equal(back, text);
    assert_int_equal(done, strlen(text));
    io_close(file);
}

static int note_name(void *ctx, const char *name, bool is_dir)
{
    char *seen = ctx;
    strcat(seen, name);
    strcat(seen, is_dir ? "/ " : " ");
    return 0;
}

static void add_error(struct io_env *env, unsigned targets, const char *path, uint64_t skip,
                      uint64_t times, int error)
{
    const struct fault_rule rule = {.kind = FAULT_ERROR,
                                    .targets = targets,
                                    .path = path,
                                    .skip = skip,
                                    .times = times,
                                    .error = error};
    assert_int_equal(fault_add(env, &rule), 0);
}

static struct io_queue *open_queue(struct io_env *env, uint32_t depth)
{
    const struct io_queue_options options = {.depth = depth};
    struct io_queue *queue;
    assert_int_equal(io_queue_open(env, &options, &queue), 0);
    return queue;
}

static int32_t run_one(struct io_queue *queue, struct io_request r)
{
    struct io_event event;
    assert_int_equal(io_queue_submit(queue, &r, 1), 0);
    assert_int_equal(io_queue_wait(queue, &event, 1, -1), 1);
    return event.result;
}

/* ---- it is a file system ---- */

static void fault__names__behave_as_on_a_file_system(void **state)
{
    struct io_env *env = *state;
    struct io_file *file;
    assert_int_equal(io_mkdir(env, "."), -EEXIST);
    assert_int_equal(io_mkdir(env, "lane"), 0);
    assert_int_equal(io_mkdir(env, "lane"), -EEXIST);
    make_file(env, "lane/b", "second");
    make_file(env, "./lane/a", "first");
    make_file(env, "/top", "t");
    char seen[128] = "";
    assert_int_equal(io_list(env, "lane", note_name, seen), 0);
    assert_string_equal(seen, "a b ");
    seen[0] = '\0';
    assert_int_equal(io_list(env, ".", note_name, seen), 0);
    assert_string_equal(seen, "lane/ top ");
    assert_int_equal(io_rename(env, "lane/a", "lane/b"), 0);
    assert_text(env, "lane/b", "first");
    assert_int_equal(io_open(env, "lane/a", IO_READ, &file), -ENOENT);
    assert_int_equal(io_rename(env, "lane/a", "x"), -ENOENT);
    assert_int_equal(io_open(env, "top/x", IO_READ, &file), -ENOTDIR);
    assert_int_equal(io_open(env, "lane", IO_READ, &file), -EISDIR);
    assert_int_equal(io_open(env, "none/x", IO_WRITE | IO_CREATE, &file), -ENOENT);
    assert_int_equal(io_open(env, "top", IO_WRITE | IO_CREATE | IO_EXCL, &file), -EEXIST);
    assert_int_equal(io_unlink(env, "none"), -ENOENT);
    assert_int_equal(io_sync_dir(env, "none"), -ENOENT);
    assert_int_equal(io_sync_dir(env, "top"), -ENOTDIR);
    assert_int_equal(io_sync_dir(env, ".."), 0);
    /* Unlinked, it lives until it is closed. */
    assert_int_equal(io_open(env, "top", IO_READ | IO_WRITE, &file), 0);
    assert_int_equal(io_unlink(env, "top"), 0);
    char byte;
    size_t done;
    assert_int_equal(io_pread(file, &byte, 1, 0, &done), 0);
    assert_int_equal(byte, 't');
    io_close(file);
    assert_int_equal(io_open(env, "top", IO_READ, &file), -ENOENT);
}

static void fault__contents__grow_shrink_and_read_as_zeros(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = open_file(env, "f");
    uint64_t bytes;
    char buf[8] = "zzzzzzz";
    size_t done;
    assert_int_equal(io_pwrite(file, "abc", 3, 1000000, 0, &done), 0);
    assert_int_equal(done, 3);
    assert_int_equal(io_size(file, &bytes), 0);
    assert_int_equal(bytes, 1000003);
    assert_int_equal(io_pread(file, buf, 8, 999999, &done), 0);
    assert_int_equal(done, 4);
    assert_memory_equal(buf, "\0abc", 4);
    assert_int_equal(io_truncate(file, 1000001), 0);
    assert_int_equal(io_truncate(file, 2000000), 0);
    assert_int_equal(io_pread(file, buf, 4, 999999, &done), 0);
    assert_memory_equal(buf, "\0a\0\0", 4); /* what was cut does not come back */
    io_close(file);
    assert_int_equal(io_open(env, "f", IO_READ, &file), 0);
    assert_int_equal(io_pwrite(file, "x", 1, 0, 0, NULL), -EBADF);
    io_close(file);
}

static void fault__direct_file__insists_on_its_alignment(void **state)
{
    struct io_env *env = *state;
    struct io_file *file;
    unsigned char *buf = mem_alloc_aligned(BLOCK, 2 * BLOCK);
    memset(buf, 1, 2 * BLOCK);
    assert_int_equal(io_open(env, "f", IO_READ | IO_WRITE | IO_CREATE | IO_DIRECT, &file), 0);
    struct io_geometry g;
    assert_int_equal(io_geometry(file, &g), 0);
    assert_int_equal(g.block_bytes, BLOCK);
    assert_true(g.direct);
    assert_int_equal(io_pwrite(file, buf, BLOCK, 0, 0, NULL), 0);
    assert_int_equal(io_pwrite(file, buf, 512, 0, 0, NULL), -EINVAL);
    assert_int_equal(io_pwrite(file, buf, BLOCK, 512, 0, NULL), -EINVAL);
    assert_int_equal(io_pwrite(file, buf + 8, BLOCK, 0, 0, NULL), -EINVAL);
    assert_int_equal(io_pread(file, buf, 100, 0, NULL), -EINVAL);
    struct io_queue *queue = open_queue(env, 1);
    struct io_request r = {.op = IO_OP_WRITE, .file = file, .buf = buf, .bytes = 512};
    assert_int_equal(run_one(queue, r), -EINVAL);
    io_queue_close(queue);
    io_close(file);
    mem_free(buf);
}

static void fault__locks__are_exclusive_in_one_environment(void **state)
{
    struct io_env *env = *state;
    struct io_file *a = open_file(env, "f"), *b = open_file(env, "f"), *dir, *dir2;
    assert_int_equal(io_lock(a, true), 0);
    assert_int_equal(io_lock(b, true), -EAGAIN);
    assert_int_equal(io_lock(b, false), -EAGAIN);
    assert_int_equal(io_lock(a, false), 0);
    assert_int_equal(io_lock(b, false), 0);
    assert_int_equal(io_lock(a, true), -EAGAIN);
    io_close(b);
    assert_int_equal(io_lock(a, true), 0);
    io_close(a);
    assert_int_equal(io_lock_dir(env, ".", true, &dir), 0);
    assert_int_equal(io_lock_dir(env, ".", true, &dir2), -EAGAIN);
    assert_int_equal(io_lock_dir(env, ".", false, &dir2), -EAGAIN);
    io_close(dir);
    assert_int_equal(io_lock_dir(env, ".", false, &dir), 0);
    assert_int_equal(io_lock_dir(env, ".", false, &dir2), 0);
    io_close(dir);
    io_close(dir2);
}

/* ---- rules ---- */

/* Calls the operation that a target stands for; returns its error. */
static int operate(struct io_env *env, struct io_file *file, enum fault_target target, int way)
{
    char buf[4];
    struct io_file *other;
    struct io_queue *queue;
    const struct io_queue_options options = {.depth = 1};
    uint64_t bytes;
    int rc;
    switch (target) {
    case FAULT_ON_OPEN:
        rc = io_open(env, "new", IO_WRITE | IO_CREATE, &other);
        if (rc == 0) io_close(other);
        return rc;
    case FAULT_ON_READ: return io_pread(file, buf, 4, 0, NULL);
    case FAULT_ON_WRITE: return io_pwrite(file, "over", 4, 0, 0, NULL);
    case FAULT_ON_SYNC: return io_sync(file);
    case FAULT_ON_NAME:
        if (way == 0) return io_rename(env, "f", "g");
        if (way == 1) return io_unlink(env, "f");
        if (way == 2) return io_mkdir(env, "d");
        buf[0] = '\0';
        return io_list(env, ".", note_name, (char[256]){""});
    case FAULT_ON_SYNC_DIR: return io_sync_dir(env, ".");
    case FAULT_ON_SIZE: return way == 0 ? io_truncate(file, 1) : io_size(file, &bytes);
    case FAULT_ON_LOCK:
        if (way == 0) return io_lock(file, true);
        rc = io_lock_dir(env, ".", true, &other);
        if (rc == 0) io_close(other);
        return rc;
    case FAULT_ON_QUEUE_OPEN:
        rc = io_queue_open(env, &options, &queue);
        if (rc == 0) io_queue_close(queue);
        return rc;
    case FAULT_ON_SUBMIT:
    case FAULT_ON_WAIT:
        rc = io_queue_open(env, &options, &queue);
        if (rc == 0) {
            const struct io_request sync = {.op = IO_OP_SYNC, .file = file};
            struct io_event event;
            rc = io_queue_submit(queue, &sync, 1);
            assert_int_equal(io_queue_in_flight(queue), rc == 0 ? 1 : 0);
            if (rc == 0) rc = io_queue_wait(queue, &event, 1, -1);
            if (rc == 1) rc = event.result;
            io_queue_close(queue);
        }
        return rc;
    case FAULT_ON_ANY: break;
    }
    return -ENOTSUP;
}

static void fault_add__error__fails_each_kind_and_does_nothing(void **state)
{
    struct io_env *env = *state;
    for (unsigned target = 1; target <= FAULT_ON_WAIT; target <<= 1)
        for (int way = 0; way < 4; way++) {
            struct io_env *copy;
            make_file(env, "f", "kept");
            assert_int_equal(fault_clone(env, &copy), 0);
            struct io_file *file = open_file(copy, "f");
            uint64_t before = fault_trace_length(copy), count = fault_operations(copy, target);
            add_error(copy, target, NULL, 0, 1, EIO);
            assert_int_equal(operate(copy, file, (enum fault_target)target, way), -EIO);
            assert_int_equal(fault_operations(copy, target), count + 1);
            assert_text(copy, "f", "kept");
            if (target != FAULT_ON_WRITE && target != FAULT_ON_SYNC && target != FAULT_ON_WAIT)
                assert_int_equal(fault_trace_length(copy), before);
            assert_int_equal(operate(copy, file, (enum fault_target)target, way), 0); /* once */
            io_close(file);
            io_env_close(copy);
        }
}

static void fault_add__skip_and_times__count_matching_operations(void **state)
{
    struct io_env *env = *state;
    struct io_file *a = open_file(env, "a"), *b = open_file(env, "bbb");
    add_error(env, FAULT_ON_WRITE, "bb", 2, 3, EIO);
    add_error(env, FAULT_ON_WRITE | FAULT_ON_SYNC, NULL, 5, UINT64_MAX, ENOSPC);
    for (int i = 0; i < 2; i++)
        assert_int_equal(io_pwrite(b, "x", 1, 0, 0, NULL), 0); /* the first rule lets pass */
    for (int i = 0; i < 3; i++)
        assert_int_equal(io_pwrite(b, "x", 1, 0, 0, NULL), -EIO);
    for (int i = 0; i < 5; i++) /* the first one is used up: now the second counts */
        assert_int_equal(i % 2 == 0 ? io_pwrite(a, "x", 1, 0, 0, NULL) : io_sync(b), 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(io_pwrite(b, "x", 1, 0, 0, NULL), -ENOSPC);
    assert_int_equal(io_sync(a), -ENOSPC);
    fault_clear(env);
    assert_int_equal(io_sync(a), 0);
    assert_int_equal(fault_operations(env, FAULT_ON_WRITE), 18);
    assert_int_equal(fault_operations(env, FAULT_ON_SYNC | FAULT_ON_OPEN), 2 + 2 + 2);
    io_close(a);
    io_close(b);
    const struct fault_rule rule = {.kind = FAULT_DELAY, .targets = FAULT_ON_ANY, .times = 1};
    for (int i = 0; i < 64; i++)
        assert_int_equal(fault_add(env, &rule), 0);
    assert_int_equal(fault_add(env, &rule), -ENOSPC);
}

static void *write_one(void *file)
{
    assert_int_equal(io_pwrite(file, "x", 1, 0, 0, NULL), 0);
    return NULL;
}

static void fault_add__hang__a_call_comes_back_after_the_release(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = open_file(env, "f");
    const struct fault_rule rule = {.kind = FAULT_HANG, .targets = FAULT_ON_WRITE, .times = 1};
    assert_int_equal(fault_add(env, &rule), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_one, file), 0);
    while (fault_operations(env, FAULT_ON_WRITE) == 0)
        sched_yield();
    uint64_t bytes;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_int_equal(io_size(file, &bytes), 0); /* others go on */
    assert_int_equal(bytes, 0);
    fault_release(env);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(io_size(file, &bytes), 0);
    assert_int_equal(bytes, 1);
    io_close(file);
}

static void fault_add__path_rule__follows_a_renamed_file(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = open_file(env, "free-1");
    add_error(env, FAULT_ON_WRITE, "0000001", 0, UINT64_MAX, EIO);
    assert_int_equal(io_pwrite(file, "x", 1, 0, 0, NULL), 0);
    assert_int_equal(io_rename(env, "free-1", "0000001"), 0);
    assert_int_equal(io_pwrite(file, "x", 1, 0, 0, NULL), -EIO);
    io_close(file);
}

static void fault_add__short__does_a_part_and_says_so(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = open_file(env, "f");
    struct io_queue *queue = open_queue(env, 4);
    char buf[16] = "0123456789abcdef", back[16];
    const struct fault_rule rule = {.kind = FAULT_SHORT,
                                    .targets = FAULT_ON_READ | FAULT_ON_WRITE,
                                    .times = 4,
                                    .short_bytes = 5};
    assert_int_equal(fault_add(env, &rule), 0);
    struct io_request r = {.op = IO_OP_WRITE, .file = file, .buf = buf, .bytes = 16};
    assert_int_equal(run_one(queue, r), 5);
    uint64_t bytes;
    assert_int_equal(io_size(file, &bytes), 0);
    assert_int_equal(bytes, 5);
    size_t done;
    assert_int_equal(io_pwrite(file, buf, 16, 0, 0, &done), -ENOSPC);
    assert_int_equal(done, 5);
    r.op = IO_OP_READ;
    r.buf = back;
    r.bytes = 4; /* not less than asked: the whole of it */
    assert_int_equal(run_one(queue, r), 4);
    assert_int_equal(io_pread(file, back, 16, 0, &done), 0);
    assert_int_equal(done, 5);
    assert_int_equal(io_pwrite(file, buf, 16, 0, 0, &done), 0); /* used up */
    io_queue_close(queue);
    io_close(file);
}

static void fault_add__error_in_a_queue__is_the_event_s_result(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = open_file(env, "f");
    struct io_queue *queue = open_queue(env, 4);
    char buf[4] = "abc";
    add_error(env, FAULT_ON_WRITE, NULL, 1, 1, EIO);
    add_error(env, FAULT_ON_READ, NULL, 0, 1, EAGAIN);
    add_error(env, FAULT_ON_SYNC, NULL, 0, 1, EIO);
    struct io_request r = {.op = IO_OP_WRITE, .file = file, .buf = buf, .bytes = 4};
    assert_int_equal(run_one(queue, r), 4);
    r.offset = 4;
    assert_int_equal(run_one(queue, r), -EIO);
    uint64_t bytes;
    assert_int_equal(io_size(file, &bytes), 0);
    assert_int_equal(bytes, 4);
    r.op = IO_OP_READ;
    assert_int_equal(run_one(queue, r), -EAGAIN);
    r.op = IO_OP_SYNC;
    assert_int_equal(run_one(queue, r), -EIO);
    assert_int_equal(run_one(queue, r), 0);
    io_queue_close(queue);
    io_close(file);
}

static void *release_later(void *arg)
{
    const struct timespec pause = {.tv_nsec = 20 * MS};
    nanosleep(&pause, NULL);
    fault_release(arg);
    return NULL;
}

static void fault_add__delay__holds_until_released(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = open_file(env, "f");
    struct io_queue *queue = open_queue(env, 4);
    const struct fault_rule rule = {
        .kind = FAULT_DELAY, .targets = FAULT_ON_WRITE, .skip = 1, .times = 1};
    assert_int_equal(fault_add(env, &rule), 0);
    char buf[3][4] = {"abc", "def", "ghi"};
    struct io_request r[3];
    for (uint64_t i = 0; i < 3; i++)
        r[i] = (struct io_request){
            .op = IO_OP_WRITE, .file = file, .buf = buf[i], .bytes = 3, .offset = 3 * i, .user = i};
    struct io_event events[3];
    assert_int_equal(io_queue_submit(queue, r, 3), 0);
    assert_int_equal(io_queue_wait(queue, events, 3, -1), 2);
    assert_int_equal(events[0].user, 0);
    assert_int_equal(events[1].user, 2);
    assert_int_equal(io_queue_wait(queue, events, 3, 10 * MS), 0);
    char seen[10];
    assert_int_equal(fault_peek(env, "f", 0, seen, sizeof seen), 0);
    assert_memory_equal(seen, "abc\0\0\0ghi\0", sizeof seen); /* not in the file yet */
    pthread_t thread;
    assert_int_equal(thread_start(&thread, "releaser", release_later, env), 0);
    assert_int_equal(io_queue_wait(queue, events, 3, -1), 1);
    assert_int_equal(events[0].user, 1);
    thread_join(thread);
    assert_text(env, "f", "abcdefghi");
    fault_clear(env);
    const struct fault_rule all = {.kind = FAULT_DELAY, .targets = FAULT_ON_ANY, .times = 9};
    assert_int_equal(fault_add(env, &all), 0);
    memcpy(buf[0], "ABC", 3);
    assert_int_equal(io_queue_submit(queue, r, 1), 0);
    io_queue_close(queue); /* waits for everything in flight, so it ends a delay */
    assert_text(env, "f", "ABCdefghi");
    io_close(file);
}

static void fault_set_space__no_room__is_enospc_until_something_goes(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = open_file(env, "f"), *other = open_file(env, "other");
    struct io_queue *queue = open_queue(env, 1);
    static char buf[8 * 512];
    size_t done;
    assert_int_equal(io_pwrite(other, buf, 1024, 0, 0, NULL), 0);
    fault_set_space(env, 2 * 512);
    struct io_request r = {.op = IO_OP_WRITE, .file = file, .buf = buf, .bytes = 4 * 512};
    assert_int_equal(run_one(queue, r), 2 * 512);
    r.offset = 2 * 512;
    assert_int_equal(run_one(queue, r), -ENOSPC);
    assert_int_equal(io_pwrite(file, buf, 512, 512, 0, &done), 0); /* what is there has room */
    assert_int_equal(io_truncate(file, 8 * 512), -ENOSPC);
    io_close(other);
    assert_int_equal(io_unlink(env, "other"), 0);
    assert_int_equal(io_pwrite(file, buf, 3 * 512, 1024, 0, &done), -ENOSPC);
    assert_int_equal(done, 1024);
    assert_int_equal(io_truncate(file, 0), 0);
    assert_int_equal(io_pwrite(file, buf, 4 * 512, 0, 0, &done), 0);
    assert_int_equal(io_pwrite(file, buf, 1, 4 * 512, 0, &done), -ENOSPC);
    fault_set_space(env, UINT64_MAX);
    assert_int_equal(io_pwrite(file, buf, 1, 4 * 512, 0, &done), 0);
    io_queue_close(queue);
    io_close(file);
}

static int change_a_buffer_in_flight(void *ctx)
{
    struct io_env *env = ctx;
    struct io_file *file;
    struct io_queue *queue;
    const struct io_queue_options options = {.depth = 1};
    const struct fault_rule rule = {.kind = FAULT_DELAY, .targets = FAULT_ON_WRITE, .times = 1};
    char buf[4] = "abc";
    CHILD_CHECK(fault_add(env, &rule) == 0);
    CHILD_CHECK(io_open(env, "f", IO_WRITE | IO_CREATE, &file) == 0);
    CHILD_CHECK(io_queue_open(env, &options, &queue) == 0);
    struct io_request r = {.op = IO_OP_WRITE, .file = file, .buf = buf, .bytes = 4};
    CHILD_CHECK(io_queue_submit(queue, &r, 1) == 0);
    buf[1] = 'X';
    (void)!freopen("/dev/null", "w", stderr); /* the message is expected */
    fault_release(env);
    return 0;
}

static void fault__buffer_changed_in_flight__is_stopped(void **state)
{
    assert_int_equal(child_run(change_a_buffer_in_flight, *state), -1 - SIGABRT);
}

/* ---- the trace ---- */

static void fault_trace__a_small_story__is_recorded_in_order(void **state)
{
    struct io_env *env = *state;
    struct io_queue *queue = open_queue(env, 4);
    assert_int_equal(io_mkdir(env, "lane"), 0);
    struct io_file *file = open_file(env, "lane/free");
    assert_int_equal(io_sync_dir(env, "lane"), 0);
    assert_int_equal(io_truncate(file, 8192), 0);
    assert_int_equal(io_pwrite(file, "abc", 3, 100, IO_DSYNC, NULL), 0);
    fault_mark(env, 77);
    add_error(env, FAULT_ON_SYNC, NULL, 1, 1, EIO);
    struct io_request two[2] = {
        {.op = IO_OP_WRITE, .file = file, .buf = (char[]){"xy"}, .bytes = 2, .offset = 4096},
        {.op = IO_OP_SYNC, .file = file}};
    struct io_event events[4];
    assert_int_equal(io_queue_submit(queue, two, 2), 0);
    assert_int_equal(io_queue_wait(queue, events, 4, -1), 2);
    assert_int_equal(io_rename(env, "lane/free", "lane/1"), 0);
    assert_int_equal(io_sync(file), -EIO);
    assert_int_equal(io_unlink(env, "lane/1"), 0);
    static const char *const expected[] = {
        "0 name lane",
        "1 name lane/free",
        "2 sync dir lane",
        "3 truncate lane/free size=8192",
        "4 write submitted lane/free op=0 offset=100 bytes=3 dsync result=0",
        "5 write completed lane/free op=0 offset=100 bytes=3 dsync result=3",
        "6 mark 77",
        "7 write submitted lane/free op=1 offset=4096 bytes=2 result=0",
        "8 sync submitted lane/free op=2 result=0",
        "9 write completed lane/free op=1 offset=4096 bytes=2 result=2",
        "10 sync completed lane/free op=2 result=0",
        "11 name lane/1",
        "12 sync submitted lane/1 op=3 result=0",
        "13 sync completed lane/1 op=3 result=-5",
        "14 name lane/1",
    };
    assert_int_equal(fault_trace_length(env), sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char text[512];
        fault_trace_describe(env, i, text, sizeof text);
        assert_string_equal(text, expected[i]);
    }
    assert_int_equal(fault_trace_kind(env, 6), FAULT_EVENT_MARK);
    assert_int_equal(fault_trace_mark(env, 6), 77);
    io_queue_close(queue);
    io_close(file);
}

/* The order and the moments of completions as one number. */
static uint64_t story_of(uint64_t seed)
{
    const struct fault_options options = {.seed = seed, .record = true};
    struct io_env *env;
    assert_int_equal(fault_env_open(&options, &env), 0);
    struct io_file *file = open_file(env, "f");
    struct io_queue *queue = open_queue(env, 8);
    static char buf[512];
    uint64_t story = 0;
    for (uint64_t sent = 0, done = 0; done < 200;) {
        while (sent < 200 && io_queue_in_flight(queue) < 8) {
            struct io_request r = {
                .op = IO_OP_WRITE, .file = file, .buf = buf, .bytes = 512, .user = sent++};
            assert_int_equal(io_queue_submit(queue, &r, 1), 0);
        }
        struct io_event events[8];
        int n = io_queue_wait(queue, events, 8, -1);
        assert_true(n >= 1);
        for (int i = 0; i < n; i++)
            story = story * 31 + events[i].user;
        story = story * 37 + (uint64_t)n;
        done += (uint64_t)n;
    }
    for (uint64_t at = 0; at < fault_trace_length(env); at++) {
        struct fault_event e;
        fault_trace_event(env, at, &e);
        story = story * 41 + e.op * 8 + e.kind;
    }
    io_queue_close(queue);
    io_close(file);
    io_env_close(env);
    return story;
}

static void fault_env_open__seed__decides_the_order(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++)
        assert_true(story_of(seed) == story_of(seed));
    assert_true(story_of(1) != story_of(2));
    assert_true(story_of(1) != story_of(0));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(fault__names__behave_as_on_a_file_system),
        CASE(fault__contents__grow_shrink_and_read_as_zeros),
        CASE(fault__direct_file__insists_on_its_alignment),
        CASE(fault__locks__are_exclusive_in_one_environment),
        CASE(fault_add__error__fails_each_kind_and_does_nothing),
        CASE(fault_add__skip_and_times__count_matching_operations),
        CASE(fault_add__hang__a_call_comes_back_after_the_release),
        CASE(fault_add__path_rule__follows_a_renamed_file),
        CASE(fault_add__short__does_a_part_and_says_so),
        CASE(fault_add__error_in_a_queue__is_the_event_s_result),
        CASE(fault_add__delay__holds_until_released),
        CASE(fault_set_space__no_room__is_enospc_until_something_goes),
        CASE(fault__buffer_changed_in_flight__is_stopped),
        CASE(fault_trace__a_small_story__is_recorded_in_order),
        CASE(fault_env_open__seed__decides_the_order),
    };
    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
