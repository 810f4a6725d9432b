/* The real file system: names, locks, geometry, limits. */
#include "io/real_impl.h"

#include "base/alloc.h"
#include "tests/lib/child.h"
#include "tests/lib/tempdir.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char dir[TEMPDIR_BYTES];
    struct io_env *env;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    tempdir_make(f->dir);
    assert_int_equal(io_env_open(f->dir, &f->env), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    io_env_close(f->env);
    tempdir_remove(f->dir);
    free(f);
    return 0;
}

static struct io_file *open_file(struct io_env *env, const char *path, unsigned flags)
{
    struct io_file *file;
    assert_int_equal(io_open(env, path, flags, &file), 0);
    return file;
}

static void make_file(struct io_env *env, const char *path)
{
    io_close(open_file(env, path, IO_WRITE | IO_CREATE | IO_EXCL));
}

/* ---- names ---- */

static int note_name(void *ctx, const char *name, bool is_dir)
{
    char *seen = ctx;
    strcat(seen, name);
    strcat(seen, is_dir ? "/ " : " ");
    return strcmp(name, "stop") == 0 ? 77 : 0;
}

static void io_list__mixed_directory__comes_by_name(void **state)
{
    struct fixture *f = *state;
    make_file(f->env, "b");
    make_file(f->env, "a10");
    make_file(f->env, "a9");
    assert_int_equal(io_mkdir(f->env, "c"), 0);
    make_file(f->env, "c/inside");
    char seen[256] = "";
    assert_int_equal(io_list(f->env, ".", note_name, seen), 0);
    assert_string_equal(seen, "a10 a9 b c/ ");
    seen[0] = '\0';
    assert_int_equal(io_list(f->env, "c", note_name, seen), 0);
    assert_string_equal(seen, "inside ");
}

static void io_list__callback_stops__its_value_is_returned(void **state)
{
    struct fixture *f = *state;
    make_file(f->env, "a");
    make_file(f->env, "stop");
    make_file(f->env, "z");
    char seen[256] = "";
    assert_int_equal(io_list(f->env, ".", note_name, seen), 77);
    assert_string_equal(seen, "a stop ");
}

static void io_rename__over_another_name__replaces_it(void **state)
{
    struct fixture *f = *state;
    struct io_file *file = open_file(f->env, "new", IO_WRITE | IO_CREATE);
    assert_int_equal(io_pwrite(file, "fresh", 5, 0, 0, NULL), 0);
    io_close(file);
    make_file(f->env, "old");
    assert_int_equal(io_rename(f->env, "new", "old"), 0);
    assert_int_equal(io_sync_dir(f->env, "."), 0);
    char back[8] = "";
    size_t done;
    file = open_file(f->env, "old", IO_READ);
    assert_int_equal(io_pread(file, back, sizeof back, 0, &done), 0);
    assert_int_equal(done, 5);
    assert_string_equal(back, "fresh");
    io_close(file);
    assert_int_equal(io_rename(f->env, "new", "other"), -ENOENT);
}

static void io_open__missing_existing_unreadable__say_so(void **state)
{
    struct fixture *f = *state;
    struct io_file *file;
    assert_int_equal(io_open(f->env, "none", IO_READ, &file), -ENOENT);
    assert_int_equal(io_open(f->env, "", IO_READ, &file), -ENOENT);
    assert_int_equal(io_unlink(f->env, "none"), -ENOENT);
    assert_int_equal(io_sync_dir(f->env, "none"), -ENOENT);
    assert_int_equal(io_list(f->env, "none", note_name, NULL), -ENOENT);
    make_file(f->env, "there");
    assert_int_equal(io_open(f->env, "there", IO_WRITE | IO_CREATE | IO_EXCL, &file), -EEXIST);
    assert_int_equal(io_mkdir(f->env, "there"), -EEXIST);
    assert_int_equal(io_unlink(f->env, "there"), 0);
    assert_int_equal(io_open(f->env, "there", IO_READ, &file), -ENOENT);
}

static void io_env_open__root_not_there_yet__mkdir_of_dot_makes_it(void **state)
{
    struct fixture *f = *state;
    char root[TEMPDIR_BYTES + 8];
    snprintf(root, sizeof root, "%s/later", f->dir);
    struct io_env *env;
    struct io_file *file;
    assert_int_equal(io_env_open(root, &env), 0);
    assert_int_equal(io_open(env, "x", IO_WRITE | IO_CREATE, &file), -ENOENT);
    assert_int_equal(io_mkdir(env, "."), 0);
    assert_int_equal(io_mkdir(env, "."), -EEXIST);
    assert_int_equal(io_sync_dir(env, ".."), 0); /* the root's own name */
    make_file(env, "x");
    /* Renamed while open, it is the same directory still. */
    assert_int_equal(io_rename(f->env, "later", "moved"), 0);
    make_file(env, "y");
    io_env_close(env);
    assert_int_equal(io_open(f->env, "moved/y", IO_READ, &file), 0);
    io_close(file);
}

static void io_open__absolute_path__is_taken_as_it_is(void **state)
{
    struct fixture *f = *state;
    char path[TEMPDIR_BYTES + 8];
    snprintf(path, sizeof path, "%s/abs", f->dir);
    struct io_env *elsewhere;
    assert_int_equal(io_env_open("/nowhere/at/all", &elsewhere), 0);
    make_file(elsewhere, path);
    io_env_close(elsewhere);
    io_close(open_file(f->env, "abs", IO_READ));
}

/* ---- contents ---- */

static void io_pread__past_the_end__is_short_and_no_error(void **state)
{
    struct fixture *f = *state;
    static const unsigned modes[] = {0, IO_DIRECT};
    for (size_t i = 0; i < 2; i++) {
        struct io_file *file = open_file(f->env, "f", IO_READ | IO_WRITE | IO_CREATE | modes[i]);
        unsigned char *buf = mem_alloc_aligned(4096, 3 * 4096);
        memset(buf, 7, 3 * 4096);
        assert_int_equal(io_pwrite(file, buf, 2 * 4096, 0, IO_DSYNC, NULL), 0);
        assert_int_equal(io_truncate(file, 4096 + 1000), 0); /* the end lies inside a block */
        size_t done = 99;
        assert_int_equal(io_pread(file, buf, 3 * 4096, 0, &done), 0);
        assert_int_equal(done, 4096 + 1000);
        assert_int_equal(io_pread(file, buf, 4096, 2 * 4096, &done), 0);
        assert_int_equal(done, 0);
        uint64_t bytes;
        assert_int_equal(io_size(file, &bytes), 0);
        assert_int_equal(bytes, 4096 + 1000);
        assert_int_equal(io_sync(file), 0);
        io_close(file);
        mem_free(buf);
    }
}

static void io_truncate__to_a_larger_size__reads_as_zeros(void **state)
{
    struct fixture *f = *state;
    struct io_file *file = open_file(f->env, "f", IO_READ | IO_WRITE | IO_CREATE);
    assert_int_equal(io_truncate(file, 10000), 0);
    char buf[100];
    memset(buf, 1, sizeof buf);
    size_t done;
    assert_int_equal(io_pread(file, buf, sizeof buf, 9900, &done), 0);
    assert_int_equal(done, 100);
    for (size_t i = 0; i < sizeof buf; i++)
        assert_int_equal(buf[i], 0);
    io_close(file);
}

static void io_pwrite__read_only_file__fails_with_nothing_done(void **state)
{
    struct fixture *f = *state;
    make_file(f->env, "f");
    struct io_file *file = open_file(f->env, "f", IO_READ);
    size_t done = 99;
    assert_int_equal(io_pwrite(file, "x", 1, 0, 0, &done), -EBADF);
    assert_int_equal(done, 0);
    io_close(file);
}

/* ---- syncs ---- */

/* A device without storage and a file system without a disk refuse: so it is the kernel that was
 * asked. */
static void io_sync__kernel_refuses__is_an_error(void **state)
{
    struct fixture *f = *state;
    struct io_file *file = open_file(f->env, "/dev/null", IO_WRITE);
    assert_int_equal(io_sync(file), -EINVAL);
    io_close(file);
    assert_int_equal(io_sync_dir(f->env, "/proc"), -EINVAL);
    assert_int_equal(io_sync_dir(f->env, "not-there"), -ENOENT);
    assert_int_equal(io_sync_dir(f->env, "."), 0);
}

/* ---- locks ---- */

struct contest {
    const char *dir;
    bool exclusive;
    bool on_dir;
};

/* 0: got it; 1: somebody else has it; 2: something else. */
static int try_lock(void *ctx)
{
    const struct contest *contest = ctx;
    struct io_env *env;
    struct io_file *file;
    if (io_env_open(contest->dir, &env) != 0) return 2;
    int rc;
    if (contest->on_dir) {
        rc = io_lock_dir(env, ".", contest->exclusive, &file);
    } else {
        if (io_open(env, "locked", IO_READ | IO_WRITE, &file) != 0) return 2;
        rc = io_lock(file, contest->exclusive);
    }
    return rc == 0 ? 0 : rc == -EAGAIN ? 1 : 2;
}

static void io_lock__held_by_one_process__another_gets_eagain(void **state)
{
    struct fixture *f = *state;
    struct contest exclusive = {.dir = f->dir, .exclusive = true};
    struct contest shared = {.dir = f->dir, .exclusive = false};
    make_file(f->env, "locked");
    struct io_file *file = open_file(f->env, "locked", IO_READ | IO_WRITE);
    assert_int_equal(io_lock(file, true), 0);
    assert_int_equal(child_run(try_lock, &exclusive), 1);
    assert_int_equal(child_run(try_lock, &shared), 1);
    assert_int_equal(io_lock(file, false), 0); /* down to shared */
    assert_int_equal(child_run(try_lock, &exclusive), 1);
    assert_int_equal(child_run(try_lock, &shared), 0);
    /* Through this very descriptor: another one of the same process competes too, and closing it
     * takes nothing away. */
    struct io_file *second = open_file(f->env, "locked", IO_READ | IO_WRITE);
    assert_int_equal(io_lock(second, true), -EAGAIN);
    io_close(second);
    assert_int_equal(child_run(try_lock, &exclusive), 1);
    io_close(file);
    assert_int_equal(child_run(try_lock, &exclusive), 0);
}

static void io_lock_dir__held_by_one_process__another_gets_eagain(void **state)
{
    struct fixture *f = *state;
    struct contest exclusive = {.dir = f->dir, .exclusive = true, .on_dir = true};
    struct contest shared = {.dir = f->dir, .exclusive = false, .on_dir = true};
    struct io_file *file;
    assert_int_equal(io_lock_dir(f->env, ".", true, &file), 0);
    assert_int_equal(child_run(try_lock, &exclusive), 1);
    assert_int_equal(child_run(try_lock, &shared), 1);
    io_close(file);
    assert_int_equal(io_lock_dir(f->env, ".", false, &file), 0);
    assert_int_equal(child_run(try_lock, &exclusive), 1);
    assert_int_equal(child_run(try_lock, &shared), 0);
    io_close(file);
    assert_int_equal(child_run(try_lock, &exclusive), 0);
}

static void io_lock__forked_child_lives_on__does_not_keep_the_lock(void **state)
{
    struct fixture *f = *state;
    make_file(f->env, "locked");
    struct io_file *file = open_file(f->env, "locked", IO_READ | IO_WRITE), *dir;
    assert_int_equal(io_lock(file, true), 0);
    assert_int_equal(io_lock_dir(f->env, ".", true, &dir), 0);
    int pipe_fds[2], ready_fds[2];
    char byte = 0;
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(pipe(ready_fds), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool refused = io_pwrite(file, "x", 1, 0, 0, NULL) == -RFE_FORKED &&
                       io_sync(file) == -RFE_FORKED && io_lock(file, true) == -RFE_FORKED;
        (void)!write(ready_fds[1], &byte, 1);
        (void)close(pipe_fds[1]);
        (void)!read(pipe_fds[0], &byte, 1); /* until the parent is done */
        _exit(refused ? 0 : 1);
    }
    assert_int_equal(read(ready_fds[0], &byte, 1), 1); /* the child is out of fork() */
    io_close(file);
    io_close(dir);
    struct contest exclusive = {.dir = f->dir, .exclusive = true};
    assert_int_equal(try_lock(&exclusive), 0);
    exclusive.on_dir = true;
    assert_int_equal(try_lock(&exclusive), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(close(pipe_fds[i]), 0);
        assert_int_equal(close(ready_fds[i]), 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- direct I/O and geometry ---- */

static void io_geometry__here__is_a_usable_block(void **state)
{
    struct fixture *f = *state;
    struct io_file *file = open_file(f->env, "f", IO_READ | IO_WRITE | IO_CREATE | IO_DIRECT);
    struct io_geometry g;
    assert_int_equal(io_geometry(file, &g), 0);
    print_message("block_bytes=%u memory_align=%u direct=%d fua=%d\n", g.block_bytes,
                  g.memory_align, g.direct, g.fua);
    assert_in_range(g.block_bytes, 512, 65536);
    assert_int_equal(g.block_bytes & (g.block_bytes - 1), 0);
    assert_in_range(g.memory_align, 1, g.block_bytes);
    unsigned char *buf = mem_alloc_aligned(g.block_bytes, g.block_bytes);
    memset(buf, 3, g.block_bytes);
    assert_int_equal(io_pwrite(file, buf, g.block_bytes, g.block_bytes, IO_DSYNC, NULL), 0);
    mem_free(buf);
    io_close(file);
    file = open_file(f->env, "f", IO_READ);
    assert_int_equal(io_geometry(file, &g), 0);
    assert_false(g.direct);
    io_close(file);
}

static int open_where_direct_is_refused(void *ctx)
{
    const struct fixture *f = ctx;
    struct io_env *env;
    struct io_file *file;
    CHILD_CHECK(io_env_open(f->dir, &env) == 0);
    CHILD_CHECK(child_refuse_open_flags(O_DIRECT, EINVAL) == 0);
    CHILD_CHECK(io_open(env, "f", IO_READ | IO_WRITE | IO_CREATE | IO_EXCL | IO_DIRECT, &file) ==
                0);
    struct io_geometry g;
    CHILD_CHECK(io_geometry(file, &g) == 0 && !g.direct);
    char back[8] = "";
    size_t done;
    CHILD_CHECK(io_pwrite(file, "abc", 3, 5, IO_DSYNC, NULL) == 0);
    CHILD_CHECK(io_pread(file, back, 3, 5, &done) == 0 && done == 3 && strcmp(back, "abc") == 0);
    io_close(file);
    io_env_close(env);
    return 0;
}

static void io_open__direct_refused_at_open__goes_on_without_and_says_so(void **state)
{
    assert_int_equal(child_run(open_where_direct_is_refused, *state), 0);
}

/* What a file system does that takes the flag at open and refuses at the first transfer. */
static void real_direct_refused__aligned_transfer__turns_direct_off(void **state)
{
    struct fixture *f = *state;
    struct io_file *file = open_file(f->env, "f", IO_READ | IO_WRITE | IO_CREATE | IO_DIRECT);
    struct real_file *real = (struct real_file *)file;
    struct io_geometry g;
    assert_int_equal(io_geometry(file, &g), 0);
    if (!g.direct) {
        print_message("skipped: no direct I/O in %s\n", f->dir);
        io_close(file);
        skip();
    }
    unsigned char *buf = mem_alloc_aligned(g.block_bytes, 2 * (size_t)g.block_bytes);
    /* Not aligned: the EINVAL is the caller's fault, and stays an error. */
    assert_false(real_direct_refused(real, buf, g.block_bytes - 1, 0));
    assert_false(real_direct_refused(real, buf, g.block_bytes, 1));
    assert_true((fcntl(real->fd.fd, F_GETFL) & O_DIRECT) != 0);
    assert_true(real_direct_refused(real, buf, g.block_bytes, g.block_bytes));
    assert_true((fcntl(real->fd.fd, F_GETFL) & O_DIRECT) == 0);
    assert_int_equal(io_geometry(file, &g), 0);
    assert_false(g.direct);
    assert_false(real_direct_refused(real, buf, g.block_bytes, 0)); /* once: no endless retry */
    assert_int_equal(io_pwrite(file, "odd", 3, 1, 0, NULL), 0);
    mem_free(buf);
    io_close(file);
}

/* ---- limits ---- */

static int write_over_file_size_limit(void *ctx)
{
    const struct fixture *f = ctx;
    struct io_env *env;
    struct io_file *file;
    CHILD_CHECK(io_env_open(f->dir, &env) == 0);
    CHILD_CHECK(io_open(env, "f", IO_READ | IO_WRITE | IO_CREATE, &file) == 0);
    const struct rlimit limit = {.rlim_cur = 6000, .rlim_max = 6000};
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    static char buf[8192];
    size_t done;
    CHILD_CHECK(io_pwrite(file, buf, sizeof buf, 0, 0, &done) == -EFBIG && done == 6000);
    CHILD_CHECK(io_truncate(file, 7000) == -EFBIG);
    /* SIGXFSZ was neither delivered, which would have ended this process, nor left pending. */
    sigset_t pending;
    CHILD_CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 0);
    io_close(file);
    io_env_close(env);
    return 0;
}

static void io_pwrite__over_the_file_size_limit__is_efbig_and_no_signal(void **state)
{
    assert_int_equal(child_run(write_over_file_size_limit, *state), 0);
}

static int open_over_descriptor_limit(void *ctx)
{
    const struct fixture *f = ctx;
    struct io_env *env;
    struct io_file *file, *dir;
    CHILD_CHECK(io_env_open(f->dir, &env) == 0);
    CHILD_CHECK(io_mkdir(env, "d") == 0); /* the root's descriptor is there from now on */
    const struct rlimit limit = {.rlim_cur = 3, .rlim_max = 3};
    CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHILD_CHECK(io_open(env, "f", IO_READ | IO_WRITE | IO_CREATE, &file) == -EMFILE);
    CHILD_CHECK(io_sync_dir(env, ".") == -EMFILE);
    CHILD_CHECK(io_lock_dir(env, ".", true, &dir) == -EMFILE);
    const struct io_queue_options options = {.backend = IO_BACKEND_URING, .depth = 4};
    struct io_queue *queue;
    CHILD_CHECK(io_queue_open(env, &options, &queue) == -EMFILE);
    io_env_close(env);
    return 0;
}

static void io_open__over_the_descriptor_limit__is_emfile(void **state)
{
    assert_int_equal(child_run(open_over_descriptor_limit, *state), 0);
}

static void io_open__allocation_fails__is_enomem(void **state)
{
    struct fixture *f = *state;
    struct io_file *file;
    make_file(f->env, "f");
    alloc_fail_at(1);
    assert_int_equal(io_open(f->env, "f", IO_READ, &file), -ENOMEM);
    alloc_fail_at(1);
    struct io_env *env;
    assert_int_equal(io_env_open(f->dir, &env), -ENOMEM);
    alloc_fail_at(2);
    assert_int_equal(io_env_open(f->dir, &env), -ENOMEM);
    char seen[64] = "";
    for (uint64_t k = 1; k <= 2; k++) {
        alloc_fail_at(k);
        assert_int_equal(io_list(f->env, ".", note_name, seen), -ENOMEM);
    }
    for (int backend = IO_BACKEND_URING; backend <= IO_BACKEND_POSIX; backend++) {
        const struct io_queue_options options = {.backend = (enum io_backend)backend, .depth = 1};
        struct io_queue *queue;
        alloc_fail_at(1);
        assert_int_equal(io_queue_open(f->env, &options, &queue), -ENOMEM);
    }
    alloc_fail_at(0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(io_list__mixed_directory__comes_by_name),
        CASE(io_list__callback_stops__its_value_is_returned),
        CASE(io_rename__over_another_name__replaces_it),
        CASE(io_open__missing_existing_unreadable__say_so),
        CASE(io_env_open__root_not_there_yet__mkdir_of_dot_makes_it),
        CASE(io_open__absolute_path__is_taken_as_it_is),
        CASE(io_pread__past_the_end__is_short_and_no_error),
        CASE(io_truncate__to_a_larger_size__reads_as_zeros),
        CASE(io_pwrite__read_only_file__fails_with_nothing_done),
        CASE(io_lock__held_by_one_process__another_gets_eagain),
        CASE(io_lock_dir__held_by_one_process__another_gets_eagain),
        CASE(io_lock__forked_child_lives_on__does_not_keep_the_lock),
        CASE(io_sync__kernel_refuses__is_an_error),
        CASE(io_geometry__here__is_a_usable_block),
        CASE(io_open__direct_refused_at_open__goes_on_without_and_says_so),
        CASE(real_direct_refused__aligned_transfer__turns_direct_off),
        CASE(io_pwrite__over_the_file_size_limit__is_efbig_and_no_signal),
        CASE(io_open__over_the_descriptor_limit__is_emfile),
        CASE(io_open__allocation_fails__is_enomem),
    };
    return cmocka_run_group_tests_name("real", tests, NULL, NULL);
}
