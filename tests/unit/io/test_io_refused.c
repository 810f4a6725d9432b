/* Where io_uring is absent, forbidden or over a limit: the queue falls back and says so once. */
#include "io/io.h"

#include "tests/lib/child.h"
#include "tests/lib/tempdir.h"

#include <errno.h>
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define NOBODY 65534

struct refusal {
    char dir[TEMPDIR_BYTES];
    long first, last; /* system calls refused */
    int error;
};

struct seen {
    int count;
    char fields[256];
};

static void remember(void *ctx, int level, const char *event, const char *fields)
{
    (void)level;
    struct seen *seen = ctx;
    if (strcmp(event, "io.backend") != 0) return;
    seen->count++;
    snprintf(seen->fields, sizeof seen->fields, "%s", fields);
}

static int setup(void **state)
{
    struct refusal *r = calloc(1, sizeof *r);
    assert_non_null(r);
    tempdir_make(r->dir);
    assert_int_equal(chmod(r->dir, 0777), 0); /* some tests give their identity up */
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct refusal *r = *state;
    tempdir_remove(r->dir);
    free(r);
    return 0;
}

/* In a child: a write and a read through the queue. */
static void use(struct io_env *env, struct io_queue *queue)
{
    struct io_file *file;
    CHILD_CHECK(io_open(env, "f", IO_READ | IO_WRITE | IO_CREATE, &file) == 0);
    char out[] = "through whatever there is", back[sizeof out] = "";
    struct io_event event;
    struct io_request r = {.op = IO_OP_WRITE,
                           .flags = IO_DSYNC,
                           .file = file,
                           .buf = out,
                           .bytes = sizeof out,
                           .user = 1};
    CHILD_CHECK(io_queue_submit(queue, &r, 1) == 0);
    CHILD_CHECK(io_queue_wait(queue, &event, 1, -1) == 1 && event.result == (int)sizeof out);
    r = (struct io_request){.op = IO_OP_READ, .file = file, .buf = back, .bytes = sizeof back};
    CHILD_CHECK(io_queue_submit(queue, &r, 1) == 0);
    CHILD_CHECK(io_queue_wait(queue, &event, 1, -1) == 1 && event.result == (int)sizeof back);
    CHILD_CHECK(memcmp(out, back, sizeof out) == 0);
    io_close(file);
}

/* In a child: two queues by AUTO work, are "posix", and one line says so and why. */
static int fall_back(const struct refusal *r)
{
    struct io_env *env;
    struct seen seen = {0};
    const struct log log = {.level = LOG_LEVEL_DEBUG, .callback = remember, .ctx = &seen};
    const struct io_queue_options options = {.backend = IO_BACKEND_AUTO, .depth = 4, .log = &log};
    CHILD_CHECK(io_env_open(r->dir, &env) == 0);
    for (int i = 0; i < 2; i++) {
        struct io_queue *queue;
        CHILD_CHECK(io_queue_open(env, &options, &queue) == 0);
        CHILD_CHECK(strcmp(io_queue_backend(queue), "posix") == 0);
        use(env, queue);
        io_queue_close(queue);
    }
    char expected[64];
    snprintf(expected, sizeof expected, "name=posix io_uring_setup=%s", err_name(-r->error));
    CHILD_CHECK(seen.count == 1);
    CHILD_CHECK(strcmp(seen.fields, expected) == 0);
    const struct io_queue_options only_uring = {.backend = IO_BACKEND_URING, .depth = 4};
    struct io_queue *queue;
    CHILD_CHECK(io_queue_open(env, &only_uring, &queue) == -r->error);
    io_env_close(env);
    return 0;
}

static int fall_back_under_filter(void *ctx)
{
    const struct refusal *r = ctx;
    CHILD_CHECK(child_refuse_calls(r->first, r->last, r->error) == 0);
    return fall_back(r);
}

static void io_queue_open__calls_refused__falls_back_and_says_so_once(void **state)
{
    struct refusal *r = *state;
    static const int errors[] = {ENOSYS, EPERM, EACCES, ENOMEM, EINVAL};
    /* All three, and each alone: a sandbox may know only one of them. */
    static const long calls[][2] = {{SYS_io_uring_setup, SYS_io_uring_register},
                                    {SYS_io_uring_setup, SYS_io_uring_setup},
                                    {SYS_io_uring_enter, SYS_io_uring_enter},
                                    {SYS_io_uring_register, SYS_io_uring_register}};
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++)
        for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
            r->error = errors[e];
            r->first = calls[c][0];
            r->last = calls[c][1];
            if (child_run(fall_back_under_filter, r) != 0)
                fail_msg("%s on system calls %ld to %ld", err_name(-r->error), r->first, r->last);
        }
}

static int never_asks(void *ctx)
{
    const struct refusal *r = ctx;
    CHILD_CHECK(child_refuse_calls(SYS_io_uring_setup, SYS_io_uring_register, 0) == 0);
    struct io_env *env;
    struct io_queue *queue;
    const struct io_queue_options options = {.backend = IO_BACKEND_POSIX, .depth = 4};
    CHILD_CHECK(io_env_open(r->dir, &env) == 0);
    CHILD_CHECK(io_queue_open(env, &options, &queue) == 0);
    use(env, queue);
    io_queue_close(queue);
    io_env_close(env);
    return 0;
}

static void io_queue_open__posix_chosen__no_io_uring_call_is_made(void **state)
{
    /* One such call would end the child with SIGSYS. */
    assert_int_equal(child_run(never_asks, *state), 0);
}

/* ---- the memlock limit, which does not bind root ---- */

static void become_nobody(rlim_t memlock_bytes)
{
    const struct rlimit limit = {.rlim_cur = memlock_bytes, .rlim_max = memlock_bytes};
    CHILD_CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    if (geteuid() != 0) return; /* already somebody without privileges */
    CHILD_CHECK(setgroups(0, NULL) == 0);
    CHILD_CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0);
    CHILD_CHECK(setresuid(NOBODY, NOBODY, NOBODY) == 0);
}

static int fall_back_without_memlock(void *ctx)
{
    struct refusal *r = ctx;
    become_nobody(0);
    struct io_env *env;
    struct io_queue *queue;
    const struct io_queue_options options = {.backend = IO_BACKEND_URING, .depth = 4};
    CHILD_CHECK(io_env_open(r->dir, &env) == 0);
    int rc = io_queue_open(env, &options, &queue);
    if (rc == 0) return 77; /* a kernel from 5.12 to 6.13 does not charge rings */
    io_env_close(env);
    r->error = -rc;
    CHILD_CHECK(rc == -ENOMEM || rc == -EPERM);
    return fall_back(r);
}

static void io_queue_open__no_memlock_as_nobody__falls_back(void **state)
{
    int rc = child_run(fall_back_without_memlock, *state);
    if (rc == 77) {
        print_message("skipped: this kernel does not charge rings to RLIMIT_MEMLOCK\n");
        skip();
    }
    assert_int_equal(rc, 0);
}

#define MANY 60
static int open_many(void *ctx)
{
    const struct refusal *r = ctx;
    become_nobody(1 << 20);
    struct io_env *env;
    static struct io_queue *queues[MANY];
    const struct io_queue_options options = {.backend = IO_BACKEND_AUTO, .depth = 256};
    CHILD_CHECK(io_env_open(r->dir, &env) == 0);
    for (int i = 0; i < MANY; i++)
        CHILD_CHECK(io_queue_open(env, &options, &queues[i]) == 0);
    for (int i = 0; i < MANY; i++)
        use(env, queues[i]);
    for (int i = 0; i < MANY; i++)
        io_queue_close(queues[i]);
    io_env_close(env);
    return 0;
}

static void io_queue_open__more_than_memlock_has_room_for__all_work(void **state)
{
    assert_int_equal(child_run(open_many, *state), 0);
}

static int leave_rings_behind(void *ctx)
{
    const struct refusal *r = ctx;
    become_nobody(8 << 20);
    struct io_env *env;
    struct io_file *file;
    static char memory[1 << 20];
    const struct io_queue_options options = {.backend = IO_BACKEND_AUTO, .depth = 256};
    CHILD_CHECK(io_env_open(r->dir, &env) == 0);
    CHILD_CHECK(io_open(env, "big", IO_READ | IO_WRITE | IO_CREATE, &file) == 0);
    for (int i = 0; i < 20; i++) {
        struct io_queue *queue;
        CHILD_CHECK(io_queue_open(env, &options, &queue) == 0);
        use(env, queue);
        struct io_request request = {
            .op = IO_OP_WRITE, .file = file, .buf = memory, .bytes = sizeof memory};
        CHILD_CHECK(io_queue_submit(queue, &request, 1) == 0);
    }
    return kill(getpid(), SIGKILL);
}

/* The rings of the killed process are freed late: the next one finds the limit used up at first. */
static void io_queue_open__right_after_a_kill__works(void **state)
{
    for (int round = 0; round < 8; round++)
        assert_int_equal(child_run(leave_rings_behind, *state), -1 - SIGKILL);
}

static int register_over_memlock(void *ctx)
{
    const struct refusal *r = ctx;
    become_nobody(512 << 10);
    struct io_env *env;
    struct io_queue *queue;
    const struct io_queue_options options = {.backend = IO_BACKEND_AUTO, .depth = 4};
    CHILD_CHECK(io_env_open(r->dir, &env) == 0);
    CHILD_CHECK(io_queue_open(env, &options, &queue) == 0);
    static char memory[4 << 20];
    const struct io_memory region = {.base = memory, .bytes = sizeof memory};
    io_queue_register_memory(queue, &region, 1);
    struct io_file *file;
    CHILD_CHECK(io_open(env, "f", IO_READ | IO_WRITE | IO_CREATE, &file) == 0);
    struct io_request request = {
        .op = IO_OP_WRITE, .file = file, .buf = memory, .bytes = sizeof memory};
    struct io_event event;
    CHILD_CHECK(io_queue_submit(queue, &request, 1) == 0);
    CHILD_CHECK(io_queue_wait(queue, &event, 1, -1) == 1 && event.result == sizeof memory);
    io_close(file);
    io_queue_close(queue);
    io_env_close(env);
    return 0;
}

static void io_queue_register_memory__over_memlock__requests_go_on_without(void **state)
{
    assert_int_equal(child_run(register_over_memlock, *state), 0);
}

/* ---- refused later ---- */

static int refuse_after_open(void *ctx)
{
    const struct refusal *r = ctx;
    struct io_env *env;
    struct io_file *file;
    struct io_queue *queue;
    const struct io_queue_options options = {.backend = IO_BACKEND_URING, .depth = 4};
    CHILD_CHECK(io_env_open(r->dir, &env) == 0);
    CHILD_CHECK(io_open(env, "f", IO_READ | IO_WRITE | IO_CREATE, &file) == 0);
    CHILD_CHECK(io_queue_open(env, &options, &queue) == 0);
    use(env, queue);
    CHILD_CHECK(child_refuse_calls(SYS_io_uring_enter, SYS_io_uring_enter, r->error) == 0);
    char byte = 'x';
    struct io_request requests[4];
    for (uint32_t i = 0; i < 4; i++)
        requests[i] = (struct io_request){
            .op = IO_OP_WRITE, .file = file, .buf = &byte, .bytes = 1, .offset = 5000, .user = i};
    struct io_event event;
    /* Twice: the first must have left nothing behind, in the ring or in the count. */
    for (int round = 0; round < 2; round++) {
        CHILD_CHECK(io_queue_submit(queue, requests, 4) == -r->error);
        CHILD_CHECK(io_queue_in_flight(queue) == 0);
    }
    int rc = io_queue_wait(queue, &event, 1, 0);
    CHILD_CHECK(rc == 0 || rc == -r->error); /* whether it has to enter is its own affair */
    uint64_t bytes;
    CHILD_CHECK(io_size(file, &bytes) == 0 && bytes < 5000);
    io_queue_close(queue);
    io_close(file);
    io_env_close(env);
    return 0;
}

static void io_queue_submit__kernel_refuses__errno_and_nothing_in_flight(void **state)
{
    struct refusal *r = *state;
    static const int errors[] = {EAGAIN, EBUSY, EPERM};
    for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
        r->error = errors[e];
        if (child_run(refuse_after_open, r) != 0) fail_msg("%s", err_name(-r->error));
    }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(io_queue_open__calls_refused__falls_back_and_says_so_once),
        CASE(io_queue_open__posix_chosen__no_io_uring_call_is_made),
        CASE(io_queue_open__no_memlock_as_nobody__falls_back),
        CASE(io_queue_open__more_than_memlock_has_room_for__all_work),
        CASE(io_queue_open__right_after_a_kill__works),
        CASE(io_queue_register_memory__over_memlock__requests_go_on_without),
        CASE(io_queue_submit__kernel_refuses__errno_and_nothing_in_flight),
    };
    return cmocka_run_group_tests_name("refused", tests, NULL, NULL);
}
