/* ctest: timeout=500 concurrent */
/* Real processes on the real disk: killed under load and reopened at once, racing for a directory,
 * forking, never closing, with signals, small stacks, limits, and without what they would like to
 * have.
 *
 * RF_KILL_ROUNDS  kills under load (default 50)
 * RF_SEED         of their moments and settings
 * TMPDIR          where the directories are made: a disk, to mean anything
 *
 * test_crash_process write DIR BACKEND N   writes N batches, one at a time, and after each answer
 *                                          "ack <n>" to standard output, by one write, and to the
 *                                          file RF_TRACE_MARKER; for test_crash_synced.py */
#include "tests/lib/child.h"
#include "tests/lib/engine_rig.h"
#include "tests/lib/make_batch.h"
#include "tests/lib/tempdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#if defined(__SANITIZE_THREAD__)
/* Children of a process that had threads start some of their own. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
#endif

static char dir[TEMPDIR_BYTES];

static int setup(void **state)
{
    (void)state;
    tempdir_make(dir);
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    tempdir_remove(dir);
    return 0;
}

static void small_options(struct rf_options *o)
{
    rf_options_init(o);
    o->segment_bytes = 4 << 20;
    o->memory_bytes = 40u * ((4u << 20) + (1u << 20));
    o->partition_interval = STORY_INTERVAL;
    o->log_level = RF_LOG_OFF;
}

static struct rf_engine *open_now(const struct rf_options *options)
{
    struct rf_engine *e;
    struct rf_error error;
    int rc = rf_open(dir, options, &e, &error);
    if (rc != 0) fail_msg("rf_open: %d %s", rc, error.text);
    return e;
}

static int write_story(struct rf_engine *e, uint32_t writer, uint32_t batch, uint32_t blob_bytes)
{
    struct story_tablet t;
    struct rf_error error;
    story_tablet(&t, writer, batch, blob_bytes, 0);
    int rc = rf_write(e, &t.tablet, &error);
    story_free(&t);
    return rc;
}

static void nap_ns(int64_t ns)
{
    struct timespec nap = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    nanosleep(&nap, NULL);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

/* A child that runs body(ctx) and leaves with its value. */
static pid_t start(int (*body)(void *ctx), void *ctx)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(body(ctx));
    return pid;
}

static int finish(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1 - WTERMSIG(status);
}

/* ---- killed under load ---- */

#define KILL_WRITERS 4u

struct message { /* in one write: whole or not at all */
    uint32_t writer, batch;
    int32_t code;
    bool answered;
};

struct load {
    int pipe[2];
    struct rf_options o;
    bool async;
    uint32_t first[KILL_WRITERS];
    struct rf_engine *e;
    uint64_t seed;
};

struct load_writer {
    struct load *load;
    uint32_t index;
};

static void say(const struct load *l, uint32_t writer, uint32_t batch, int code, bool answered)
{
    struct message m = {writer, batch, code, answered};
    if (write(l->pipe[1], &m, sizeof m) != sizeof m) _exit(3);
}

static uint32_t load_blob(struct make_random *r)
{
    static const uint32_t sizes[] = {0, 10, 500, 3000, 8000};
    return sizes[make_below(r, 5)];
}

static void load_blocking(const struct load_writer *w, struct make_random *r)
{
    for (uint32_t b = w->load->first[w->index]; b < STORY_BATCHES; b++) {
        say(w->load, w->index, b, 0, false);
        int rc = write_story(w->load->e, w->index, b, load_blob(r));
        say(w->load, w->index, b, rc, true);
    }
}

static void load_collect(const struct load_writer *w, struct rf_queue *queue, int64_t timeout_ms)
{
    struct rf_completion c[32];
    int n = rf_completions(queue, c, 32, timeout_ms);
    for (int i = 0; i < n; i++)
        say(w->load, w->index, (uint32_t)(uintptr_t)c[i].user, c[i].code, true);
}

static void load_async(const struct load_writer *w, struct make_random *r)
{
    struct rf_queue *queue;
    struct story_tablet t;
    if (rf_queue_open(w->load->e, &queue) != 0) _exit(4);
    for (uint32_t b = w->load->first[w->index]; b < STORY_BATCHES; b++) {
        story_tablet(&t, w->index, b, load_blob(r), 0);
        say(w->load, w->index, b, 0, false);
        int rc = rf_write_async(queue, &t.tablet, 1, 10000, NULL, (void *)(uintptr_t)b, NULL);
        if (rc != 0) say(w->load, w->index, b, rc, true);
        story_free(&t);
        load_collect(w, queue, rf_queue_in_flight(queue) >= 16 ? 10000 : 0);
    }
    while (rf_queue_in_flight(queue) > 0)
        load_collect(w, queue, 10000);
    rf_queue_close(queue);
}

static void *load_main(void *ctx)
{
    const struct load_writer *w = ctx;
    struct make_random random = {.state = w->load->seed + w->index};
    if (w->load->async && w->index % 2 == 0)
        load_async(w, &random);
    else
        load_blocking(w, &random);
    return NULL;
}

/* Writes until it is killed. */
static int load_body(void *ctx)
{
    struct load *l = ctx;
    struct load_writer writers[KILL_WRITERS];
    pthread_t threads[KILL_WRITERS];
    struct rf_error error;
    CHILD_CHECK(rf_open(dir, &l->o, &l->e, &error) == 0);
    say(l, UINT32_MAX, 0, 0, true);
    for (uint32_t i = 0; i < KILL_WRITERS; i++) {
        writers[i] = (struct load_writer){l, i};
        CHILD_CHECK(pthread_create(&threads[i], NULL, load_main, &writers[i]) == 0);
    }
    for (uint32_t i = 0; i < KILL_WRITERS; i++)
        CHILD_CHECK(pthread_join(threads[i], NULL) == 0);
    for (;;)
        pause();
}

static struct story_told told;
static struct story_found found;

static void hear(const struct message *m, bool sync, uint64_t *acks)
{
    if (m->writer == UINT32_MAX) return;
    uint8_t *fate = &told.high[m->writer][m->batch];
    told.low[m->writer][m->batch] = FATE_PRESENT;
    if (!m->answered) {
        *fate = FATE_EITHER;
        return;
    }
    if (m->code != 0) fail_msg("a write under load: %d", m->code);
    ++*acks;
    if (sync) *fate = FATE_PRESENT;
}

/* Listens for so long, kills, hears the rest. */
static void listen_and_kill(struct load *l, pid_t pid, int64_t life_ns, uint64_t *acks)
{
    bool killed = false, begun = false, sync = l->o.sync == RF_SYNC_ALWAYS;
    int64_t until = INT64_MAX;
    struct message m;
    for (;;) {
        int64_t left = until - clock_read_ns(CLOCK_MONOTONIC);
        if (!killed && left <= 0) {
            assert_int_equal(kill(pid, SIGKILL), 0);
            killed = true;
        }
        struct pollfd p = {.fd = l->pipe[0], .events = POLLIN};
        int64_t ms = killed || !begun ? 1000 : left / 1000000 + 1;
        if (poll(&p, 1, (int)ms) <= 0) continue;
        ssize_t n = read(l->pipe[0], &m, sizeof m);
        if (n == 0) break;
        assert_int_equal(n, sizeof m);
        hear(&m, sync, acks);
        if (!begun) until = clock_read_ns(CLOCK_MONOTONIC) + life_ns;
        begun = true;
    }
    assert_true(killed);
}

static void check_after_kill(struct load *l)
{
    struct rf_engine *e = open_now(&l->o);
    bool good = story_scan(e, &found) && story_is_right(&told, &found);
    if (!good) fail_msg("after a kill: sync %d, backend %d", (int)l->o.sync, (int)l->o.backend);
    for (uint32_t w = 0; w < KILL_WRITERS && l->o.sync != RF_SYNC_ALWAYS; w++)
        for (uint32_t b = l->first[w] + 1; b < STORY_BATCHES; b++)
            if (found.high[w][b] != 0 && found.high[w][b - 1] == 0)
                fail_msg("writer %u: batch %u is lost from the middle", w, b - 1);
    story_settle(&told, &found);
    assert_int_equal(rf_close(e), 0);
}

static void crash_process__killed_under_load__acknowledged_is_there(void **state)
{
    (void)state;
    struct make_random random = {.state = make_seed("kill")};
    uint64_t rounds = number_of("RF_KILL_ROUNDS", 50), acks = 0, cut = 0;
    static struct load l;
    for (uint64_t round = 0; round < rounds; round++) {
        if (round % 8 == 0) {
            if (round != 0) tempdir_remove(dir);
            if (round != 0) tempdir_make(dir);
            memset(&told, 0, sizeof told);
            memset(&l, 0, sizeof l);
            small_options(&l.o);
            l.o.lanes = l.o.regions = 1 + make_below(&random, 2);
        }
        l.seed = make_random(&random);
        l.async = make_below(&random, 2) == 0;
        l.o.sync = make_below(&random, 4) == 0 ? RF_SYNC_ASYNC : RF_SYNC_ALWAYS;
        l.o.backend = make_below(&random, 2) == 0 ? RF_BACKEND_POSIX : RF_BACKEND_AUTO;
        l.o.buffered = make_below(&random, 4) == 0;
        l.o.queue_depth = 1 + make_below(&random, 8);
        for (uint32_t w = 0; w < KILL_WRITERS; w++) {
            l.first[w] = 1;
            for (uint32_t b = 1; b < STORY_BATCHES; b++)
                if (told.high[w][b] != FATE_NONE) l.first[w] = b + 1;
        }
        assert_int_equal(pipe(l.pipe), 0);
        pid_t pid = start(load_body, &l);
        close(l.pipe[1]);
        listen_and_kill(&l, pid, (int64_t)make_below(&random, 120) * 1000000, &acks);
        assert_int_equal(finish(pid), -1 - SIGKILL);
        close(l.pipe[0]);
        check_after_kill(&l); /* at once */
        cut++;
    }
    printf("%" PRIu64 " kills, %" PRIu64 " acknowledgements\n", cut, acks);
    assert_true(acks > 0);
}

/* ---- killed with megabytes in flight ---- */

static int flood_body(void *ctx)
{
    struct load *l = ctx;
    struct rf_queue *queue;
    struct story_tablet t;
    CHILD_CHECK(rf_open(dir, &l->o, &l->e, NULL) == 0);
    CHILD_CHECK(rf_queue_open(l->e, &queue) == 0);
    for (uint32_t b = 1; b < STORY_BATCHES; b++) {
        story_tablet(&t, 0, b, 100000, 0);
        int rc = rf_write_async(queue, &t.tablet, 1, 10000, NULL, NULL, NULL);
        story_free(&t);
        CHILD_CHECK(rc == 0);
        if (b == 8) say(l, 0, 0, 0, true); /* 5 MiB are under way */
        struct rf_completion c[32];
        (void)rf_completions(queue, c, 32, 0);
    }
    for (;;)
        pause();
}

/* A sum over every byte of every segment that there is. */
static uint64_t sum_of_log(void)
{
    static uint8_t bytes[1 << 16];
    char path[TEMPDIR_BYTES + 300];
    uint64_t sum = 0;
    snprintf(path, sizeof path, "%s/lane-00", dir);
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort);
    assert_true(n > 2);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/lane-00/%s", dir, names[i]->d_name);
        int fd = names[i]->d_name[0] == '.' ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        for (ssize_t got; fd >= 0 && (got = read(fd, bytes, sizeof bytes)) > 0;)
            for (ssize_t at = 0; at < got; at++)
                sum = sum * 31 + bytes[at];
        if (fd >= 0) close(fd);
        free(names[i]);
    }
    free(names);
    return sum;
}

static void crash_process__killed_with_megabytes_in_flight__log_moves_no_more(void **state)
{
    (void)state;
    static struct load l;
    static const enum rf_backend backends[] = {RF_BACKEND_AUTO, RF_BACKEND_POSIX};
    for (int round = 0; round < 6; round++) {
        memset(&l, 0, sizeof l);
        small_options(&l.o);
        l.o.backend = backends[round % 2];
        l.o.queue_depth = 32;
        assert_int_equal(pipe(l.pipe), 0);
        pid_t pid = start(flood_body, &l);
        close(l.pipe[1]);
        struct message m;
        assert_int_equal(read(l.pipe[0], &m, sizeof m), sizeof m);
        assert_int_equal(kill(pid, SIGKILL), 0);
        /* Not waited for: the next owner is there before the dead one is gone. */
        struct rf_options o;
        small_options(&o);
        o.flags = RF_READ_ONLY;
        o.lock_wait_ms = 30000;
        struct rf_engine *e = open_now(&o);
        uint64_t first = sum_of_log();
        nap_ns(400000000); /* writes of a dead process were seen to land 177 ms late */
        assert_true(sum_of_log() == first);
        assert_true(story_scan(e, &found));
        assert_int_equal(rf_close(e), 0);
        assert_int_equal(finish(pid), -1 - SIGKILL);
        close(l.pipe[0]);
        tempdir_remove(dir);
        tempdir_make(dir);
    }
}

/* ---- a race for a directory ---- */

#define RACERS 6

struct race {
    int go[2], told[2], end[2];
};
struct race_result {
    pid_t pid;
    int32_t code;
};

static int racer_body(void *ctx)
{
    struct race *r = ctx;
    char byte;
    struct rf_options o;
    struct rf_engine *e;
    small_options(&o);
    o.lock_wait_ms = 0;
    close(r->go[1]);
    close(r->end[1]);
    CHILD_CHECK(read(r->go[0], &byte, 1) == 0); /* all at once: the end of the pipe */
    struct race_result result = {.pid = getpid()};
    result.code = rf_open(dir, &o, &e, NULL);
    CHILD_CHECK(write(r->told[1], &result, sizeof result) == sizeof result);
    CHILD_CHECK(read(r->end[0], &byte, 1) == 0);
    if (result.code == 0) CHILD_CHECK(rf_close(e) == 0);
    return 0;
}

static void one_race(void)
{
    struct race r;
    pid_t pids[RACERS], winner = 0;
    assert_int_equal(pipe(r.go) | pipe(r.told) | pipe(r.end), 0);
    for (int i = 0; i < RACERS; i++)
        pids[i] = start(racer_body, &r);
    close(r.go[0]);
    close(r.go[1]);
    for (int i = 0; i < RACERS; i++) {
        struct race_result result;
        assert_int_equal(read(r.told[0], &result, sizeof result), sizeof result);
        if (result.code == 0 && winner != 0) fail_msg("two have it");
        if (result.code == 0)
            winner = result.pid;
        else
            assert_int_equal(result.code, -RF_CODE_IN_USE);
    }
    assert_true(winner != 0);
    /* Whoever comes now is told who has it. */
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error;
    char expected[64];
    small_options(&o);
    o.lock_wait_ms = 0;
    assert_int_equal(rf_open(dir, &o, &e, &error), -RF_CODE_IN_USE);
    snprintf(expected, sizeof expected, "in use (last opened by pid %d", (int)winner);
    if (strstr(error.text, expected) == NULL) fail_msg("%s, not: %s", error.text, expected);
    o.flags = RF_READ_ONLY;
    assert_int_equal(rf_open(dir, &o, &e, &error), -RF_CODE_IN_USE);
    close(r.end[0]);
    close(r.end[1]);
    for (int i = 0; i < RACERS; i++)
        assert_int_equal(finish(pids[i]), 0);
    close(r.told[0]);
    close(r.told[1]);
}

static void crash_process__race_for_a_directory__one_wins_others_are_told(void **state)
{
    (void)state;
    for (int round = 0; round < 8; round++) {
        one_race(); /* for one that has to be made */
        one_race(); /* for one that is there */
        tempdir_remove(dir);
        tempdir_make(dir);
    }
}

/* ---- locks ---- */

/* Whether this process could lock the file that another one owns. */
static bool can_lock(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int rc = fcntl(fd, F_OFD_SETLK, &lock);
    assert_true(rc == 0 || errno == EAGAIN || errno == EACCES);
    close(fd);
    return rc == 0;
}

static uint32_t count_lockable(uint32_t lane, uint32_t *files_out)
{
    char path[TEMPDIR_BYTES + 300];
    uint32_t lockable = 0;
    struct dirent **names;
    snprintf(path, sizeof path, "%s/lane-%02u", dir, lane);
    int n = scandir(path, &names, NULL, alphasort);
    assert_true(n > 2);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/lane-%02u/%s", dir, lane, names[i]->d_name);
        bool is_file = names[i]->d_name[0] != '.';
        lockable += is_file && can_lock(path);
        *files_out += is_file;
        free(names[i]);
    }
    free(names);
    return lockable;
}

/* The lock is on the descriptor that writes: it goes when the last write of a dead process has
 * landed, and not before. A kill can't show that it is there: mostly all is over at once. */
static void crash_process__open_engine__every_segment_file_is_locked(void **state)
{
    (void)state;
    struct rf_options o;
    uint32_t files = 0;
    small_options(&o);
    o.memory_bytes = 2 * 6u * ((4u << 20) + (1u << 20));
    o.lanes = o.regions = 2;
    o.wait_prepared = true;
    for (int life = 0; life < 2; life++) { /* as made, and as found */
        struct rf_engine *e = open_now(&o);
        for (uint32_t b = 1; b <= 12; b++) /* into a second segment */
            assert_int_equal(write_story(e, 0, (uint32_t)life * 100 + b, 60000), 0);
        assert_int_equal(count_lockable(0, &files) + count_lockable(1, &files), 0);
        assert_int_equal(rf_close(e), 0);
    }
    uint32_t free_now = count_lockable(0, &files) + count_lockable(1, &files);
    assert_true(free_now >= 4); /* and given back */
    printf("%u files looked at\n", files);
}

/* ---- a host that forks ---- */

struct forked {
    struct rf_engine *e;
    struct rf_queue *queue;
    struct rf_cursor *cursor;
    int go_on;
};

static int forked_body(void *ctx)
{
    struct forked *f = ctx;
    const int forked = -RF_CODE_FORKED;
    struct rf_error error;
    struct rf_tablet rows;
    struct rf_scan_options scan;
    struct rf_delete_options del;
    struct rf_trim_options trim;
    struct rf_stats stats = {.size = sizeof stats};
    struct rf_completion c;
    struct rf_cursor *cursor;
    struct rf_queue *queue;
    struct story_tablet t;
    uint64_t n;
    rf_scan_options_init(&scan);
    rf_delete_options_init(&del);
    rf_trim_options_init(&trim);
    scan.table = del.table = STORY_TABLE;
    story_tablet(&t, 1, 1, 10, 0);
    CHILD_CHECK(rf_write(f->e, &t.tablet, &error) == forked && error.code == forked);
    CHILD_CHECK(rf_write_async(f->queue, &t.tablet, 1, 0, NULL, NULL, NULL) == forked);
    CHILD_CHECK(rf_completions(f->queue, &c, 1, -1) == forked);
    CHILD_CHECK(rf_queue_open(f->e, &queue) == forked);
    CHILD_CHECK(rf_scan_open(f->e, &scan, &cursor, NULL) == forked);
    CHILD_CHECK(rf_scan_next(f->cursor, &rows) == forked);
    CHILD_CHECK(rf_count(f->e, &scan, &n, NULL) == forked);
    CHILD_CHECK(rf_delete(f->e, &del, NULL) == forked);
    CHILD_CHECK(rf_table_create(f->e, "x", NULL, 0, 0, NULL) == forked);
    CHILD_CHECK(rf_table_drop(f->e, STORY_TABLE, NULL) == forked);
    CHILD_CHECK(rf_series_drop(f->e, "root.db.d", "s", NULL) == forked);
    CHILD_CHECK(rf_tables(f->e, NULL, NULL) == forked);
    CHILD_CHECK(rf_lease_fence(f->e) == forked);
    CHILD_CHECK(rf_flush(f->e) == forked);
    CHILD_CHECK(rf_resume(f->e, NULL) == forked);
    CHILD_CHECK(rf_trim(f->e, &trim, NULL) == forked);
    CHILD_CHECK(rf_stats(f->e, &stats) == forked);
    story_free(&t);
    rf_scan_close(f->cursor);
    rf_queue_close(f->queue);
    CHILD_CHECK(rf_close(f->e) == 0);
    char byte;
    CHILD_CHECK(read(f->go_on, &byte, 1) == 0); /* lives on while the parent closes */
    return 0;
}

static void crash_process__host_forks__child_is_told_parent_goes_on_locks_go(void **state)
{
    (void)state;
    static const enum rf_backend backends[] = {RF_BACKEND_AUTO, RF_BACKEND_POSIX};
    for (int i = 0; i < 2; i++) {
        struct rf_options o;
        struct rf_scan_options scan;
        int hold[2];
        small_options(&o);
        o.backend = backends[i];
        o.wait_prepared = SANITIZED; /* and no thread of ours allocates then: see below */
        struct forked f = {.e = open_now(&o)};
        assert_int_equal(write_story(f.e, 0, 1, 1000), 0);
        rf_scan_options_init(&scan);
        scan.table = STORY_TABLE;
        assert_int_equal(rf_queue_open(f.e, &f.queue), 0);
        assert_int_equal(rf_scan_open(f.e, &scan, &f.cursor, NULL), 0);
        assert_int_equal(pipe(hold), 0);
        f.go_on = hold[0];
        fflush(NULL);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            close(hold[1]);
            _exit(forked_body(&f));
        }
        assert_int_equal(write_story(f.e, 0, 2, 1000), 0);
        assert_int_equal(rf_table_create(f.e, "x", NULL, 0, 0, NULL), 0);
        assert_int_equal(rf_table_drop(f.e, "x", NULL), 0);
        rf_scan_close(f.cursor);
        rf_queue_close(f.queue);
        assert_int_equal(rf_close(f.e), 0);
        o.lock_wait_ms = 2000; /* the child lives on and holds none of our locks */
        struct rf_engine *e = open_now(&o);
        assert_true(story_scan(e, &found));
        assert_int_equal(found.rows, 1 + 2 * (STORY_ROWS - 1));
        assert_int_equal(rf_close(e), 0);
        close(hold[1]);
        assert_int_equal(finish(pid), 0);
        close(hold[0]);
        tempdir_remove(dir);
        tempdir_make(dir);
    }
}

struct busy {
    struct rf_engine *e;
    uint32_t writer;
    _Atomic bool *stop;
    int code;
};

static void *busy_main(void *ctx)
{
    struct busy *b = ctx;
    for (uint32_t batch = 1; batch < STORY_BATCHES && b->code == 0 && !*b->stop; batch++)
        b->code = write_story(b->e, b->writer, batch, 300);
    return NULL;
}

/* A sanitizer's allocator may be locked by another thread when it is forked, and stays so in the
 * child, where closing then waits for ever. Those of libc and jemalloc look after that. */
static int busy_child(struct rf_engine *e)
{
    if (rf_flush(e) != -RF_CODE_FORKED) return 1;
    return SANITIZED || rf_close(e) == 0 ? 0 : 2;
}

static void crash_process__host_forks_under_load__nothing_stops(void **state)
{
    (void)state;
    struct rf_options o;
    struct busy busy[KILL_WRITERS];
    pthread_t threads[KILL_WRITERS];
    static _Atomic bool stop;
    small_options(&o);
    struct rf_engine *e = open_now(&o);
    stop = false;
    for (uint32_t i = 0; i < KILL_WRITERS; i++) {
        busy[i] = (struct busy){.e = e, .writer = i, .stop = &stop};
        assert_int_equal(pthread_create(&threads[i], NULL, busy_main, &busy[i]), 0);
    }
    for (int i = 0; i < 25; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) _exit(busy_child(e));
        assert_int_equal(finish(pid), 0);
    }
    if (SANITIZED)
        printf("the children do not close: a sanitizer's allocator is not made for forks\n");
    stop = true;
    for (uint32_t i = 0; i < KILL_WRITERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(busy[i].code, 0);
    }
    assert_int_equal(rf_close(e), 0);
}

struct forking {
    _Atomic bool stop;
    pid_t children[300];
    uint32_t count;
};

static void *forking_main(void *ctx)
{
    struct forking *f = ctx;
    while (!f->stop && f->count < 300) {
        pid_t pid = fork();
        if (pid == 0)
            for (;;)
                pause();
        if (pid > 0) f->children[f->count++] = pid;
    }
    return NULL;
}

/* A child that is forked between the call that opens a file and whatever notes it would keep the
 * file, and the lock on it, for as long as it lives. */
static void crash_process__forks_while_files_are_opened__children_hold_no_lock(void **state)
{
    (void)state;
    static struct forking f;
    uint32_t opened = 0;
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        struct rf_options o;
        small_options(&o);
        o.lock_wait_ms = 5000; /* for children that have not yet run at all */
        o.memory_bytes = 6u * ((4u << 20) + (1u << 20));
        memset(&f, 0, sizeof f);
        fflush(NULL);
        assert_int_equal(pthread_create(&thread, NULL, forking_main, &f), 0);
        int rc = 0;
        struct rf_error error;
        struct rf_engine *e;
        for (int i = 0; i < 12 && rc == 0; i++, opened++) {
            rc = rf_open(dir, &o, &e, &error);
            if (rc == 0) rc = rf_close(e);
        }
        f.stop = true;
        assert_int_equal(pthread_join(thread, NULL), 0);
        for (uint32_t i = 0; i < f.count; i++) {
            assert_int_equal(kill(f.children[i], SIGKILL), 0);
            assert_int_equal(finish(f.children[i]), -1 - SIGKILL);
        }
        if (rc != 0) fail_msg("after %u openings: %d %s", opened, rc, error.text);
    }
}

/* ---- a host that never closes ---- */

enum leaving { LEAVE_EXIT, LEAVE_QUICK, LEAVE_ABORT };

static int leaving_body(void *ctx)
{
    struct rf_options o;
    struct rf_engine *e;
    small_options(&o);
    CHILD_CHECK(rf_open(dir, &o, &e, NULL) == 0);
    for (uint32_t b = 1; b <= 5; b++)
        CHILD_CHECK(write_story(e, 0, b, 2000) == 0);
    static const struct rlimit no_core = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)signal(SIGABRT, SIG_DFL);
    switch (*(enum leaving *)ctx) {
    case LEAVE_EXIT: exit(0); /* with all that atexit and destructors do beside our threads */
    case LEAVE_QUICK: _exit(0);
    default: abort();
    }
}

static void crash_process__host_never_closes__acknowledged_is_there(void **state)
{
    (void)state;
    static enum leaving ways[] = {LEAVE_EXIT, LEAVE_QUICK, LEAVE_ABORT};
    for (int i = 0; i < 3; i++) {
        struct rf_options o;
        if (SANITIZED && ways[i] == LEAVE_EXIT) {
            printf("exit without close: left out, the leak check at exit would speak of it\n");
            continue;
        }
        int code = finish(start(leaving_body, &ways[i]));
        assert_int_equal(code, ways[i] == LEAVE_ABORT ? -1 - SIGABRT : 0);
        small_options(&o);
        struct rf_engine *e = open_now(&o);
        assert_true(story_scan(e, &found));
        assert_int_equal(found.rows, 1 + 5 * (STORY_ROWS - 1));
        assert_int_equal(rf_close(e), 0);
    }
}

/* ---- signals and stacks ---- */

static _Atomic uint64_t alarms;
static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

static int storm_body(void *ctx)
{
    const enum rf_backend *backend = ctx;
    struct rf_options o;
    struct rf_engine *e;
    struct rf_trim_options trim;
    struct sigaction action = {.sa_handler =
                                   on_alarm}; /* no SA_RESTART: every call is broken off */
    struct itimerval storm = {.it_interval.tv_usec = 300, .it_value.tv_usec = 300};
    small_options(&o);
    o.backend = *backend;
    CHILD_CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHILD_CHECK(setitimer(ITIMER_REAL, &storm, NULL) == 0);
    for (uint32_t life = 0; life < 2; life++) {
        CHILD_CHECK(rf_open(dir, &o, &e, NULL) == 0);
        for (uint32_t b = 1; b <= 60; b++)
            CHILD_CHECK(write_story(e, 0, life * 100 + b, b % 7 == 0 ? 20000 : 100) == 0);
        CHILD_CHECK(rf_table_create(e, "x", NULL, 0, 0, NULL) == 0);
        CHILD_CHECK(rf_table_drop(e, "x", NULL) == 0);
        CHILD_CHECK(story_scan(e, &found));
        CHILD_CHECK(found.rows == 1 + (life + 1) * 60 * (STORY_ROWS - 1));
        rf_trim_options_init(&trim);
        trim.before_position = 1;
        CHILD_CHECK(rf_trim(e, &trim, NULL) == 0);
        CHILD_CHECK(rf_flush(e) == 0);
        CHILD_CHECK(rf_close(e) == 0);
    }
    CHILD_CHECK(alarms > 10);
    return 0;
}

static void crash_process__storm_of_alarms__every_call_succeeds(void **state)
{
    (void)state;
    static enum rf_backend backends[] = {RF_BACKEND_AUTO, RF_BACKEND_POSIX};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(child_run(storm_body, &backends[i]), 0);
        tempdir_remove(dir);
        tempdir_make(dir);
    }
}

/* As a host's thread would: its arrays are not on its stack. */
static void *small_stack_main(void *ctx)
{
    struct busy *b = ctx;
    static struct story_tablet t;
    struct rf_scan_options scan;
    struct rf_delete_options del;
    struct rf_cursor *cursor;
    struct rf_tablet rows;
    struct rf_error error;
    story_tablet(&t, 0, 1, 5000, 3);
    b->code = rf_write(b->e, &t.tablet, &error);
    story_free(&t);
    rf_scan_options_init(&scan);
    rf_delete_options_init(&del);
    scan.table = del.table = STORY_TABLE;
    if (b->code == 0) b->code = rf_scan_open(b->e, &scan, &cursor, &error);
    if (b->code != 0) return NULL;
    while ((b->code = rf_scan_next(cursor, &rows)) == 1)
        ;
    rf_scan_close(cursor);
    if (b->code == 0) b->code = rf_delete(b->e, &del, &error);
    if (b->code == 0) b->code = rf_table_create(b->e, "x", NULL, 0, 0, &error);
    if (b->code == 0) b->code = rf_table_drop(b->e, "x", &error);
    if (b->code == 0) b->code = rf_flush(b->e);
    return NULL;
}

static void crash_process__stacks_of_32_kib__every_call_succeeds(void **state)
{
    (void)state;
    static const enum rf_sync modes[] = {RF_SYNC_ALWAYS, RF_SYNC_ASYNC};
    if (SANITIZED) {
        printf("stacks of 32 KiB: not with a sanitizer, whose frames are several times as large\n");
        skip();
    }
    for (int i = 0; i < 2; i++) {
        struct rf_options o;
        pthread_attr_t attr;
        pthread_t thread;
        small_options(&o);
        o.sync = modes[i]; /* in ASYNC the writer takes the decision itself */
        struct busy b = {.e = open_now(&o)};
        assert_int_equal(pthread_attr_init(&attr), 0);
        assert_int_equal(pthread_attr_setstacksize(&attr, 32768), 0);
        assert_int_equal(pthread_create(&thread, &attr, small_stack_main, &b), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(b.code, 0);
        pthread_attr_destroy(&attr);
        assert_int_equal(rf_close(b.e), 0);
    }
}

/* ---- read-only, and as nobody ---- */

static void make_story(uint32_t batches)
{
    struct rf_options o;
    small_options(&o);
    struct rf_engine *e = open_now(&o);
    for (uint32_t b = 1; b <= batches; b++)
        assert_int_equal(write_story(e, 0, b, 100), 0);
    assert_int_equal(rf_close(e), 0);
}

static void check_read_only(void)
{
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error;
    enum rf_verdict verdict;
    small_options(&o);
    o.flags = RF_READ_ONLY;
    int rc = rf_open(dir, &o, &e, &error);
    if (rc != 0) dprintf(2, "read-only: %d %s\n", rc, error.text);
    CHILD_CHECK(rc == 0);
    CHILD_CHECK(story_scan(e, &found) && found.rows == 1 + 5 * (STORY_ROWS - 1));
    CHILD_CHECK(write_story(e, 0, 9, 10) == -RF_CODE_READ_ONLY);
    CHILD_CHECK(rf_table_create(e, "x", NULL, 0, 0, NULL) == -RF_CODE_READ_ONLY);
    CHILD_CHECK(rf_close(e) == 0);
    CHILD_CHECK(rf_verify(dir, 1000, NULL, NULL, &verdict, NULL) == 0);
    CHILD_CHECK(verdict == RF_VERDICT_CLEAN);
}

static int nobody_body(void *ctx)
{
    (void)ctx;
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error;
    CHILD_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    check_read_only();
    small_options(&o);
    CHILD_CHECK(rf_open(dir, &o, &e, &error) == -EACCES);
    CHILD_CHECK(strstr(error.text, dir) != NULL);
    return 0;
}

/* ---- a real file system that fills up, and has room again ---- */

/* Up to so many bytes, or until the file system is full. */
static void fill(const char *path, uint64_t bytes_max)
{
    static const char bytes[65536];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHILD_CHECK(fd >= 0);
    uint64_t done = 0;
    while (done < bytes_max && write(fd, bytes, sizeof bytes) > 0)
        done += sizeof bytes;
    CHILD_CHECK(done >= bytes_max || errno == ENOSPC);
    close(fd);
}

/* Until a write is refused, or, when it must be done, until one succeeds. */
static uint32_t write_until(struct rf_engine *e, uint32_t batch, bool refused)
{
    for (uint32_t tries = 0; tries < 400; tries++) {
        int rc = write_story(e, 0, batch, 20000);
        told.high[0][batch] = rc == 0 ? FATE_PRESENT : FATE_ABSENT;
        told.low[0][batch] = FATE_PRESENT;
        CHILD_CHECK(rc == 0 || rc == -RF_CODE_DISK_FULL || rc == -RF_CODE_WRITE_REJECT);
        if ((rc == 0) != refused) return batch + (rc == 0);
        if (rc == 0) batch++;
        CHILD_CHECK(batch < STORY_BATCHES);
    }
    dprintf(2, "no write %s\n", refused ? "is refused" : "succeeds again");
    _exit(1);
}

static int full_disk_body(void *ctx)
{
    struct rf_options o;
    struct rf_engine *e;
    char data[TEMPDIR_BYTES + 8], filler[4][TEMPDIR_BYTES + 24];
    (void)ctx;
    if (unshare(CLONE_NEWNS) != 0) return 77;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return 77;
    if (mount("none", dir, "tmpfs", 0, "size=14m") != 0) return 77;
    snprintf(data, sizeof data, "%s/data", dir);
    /* A piece is freed in each round. They are there before the engine, which takes what it finds
     * for its ring as soon as it can. */
    for (int i = 0; i < 4; i++) {
        snprintf(filler[i], sizeof filler[i], "%s/filler-%d", dir, i);
        if (i < 3) fill(filler[i], 3 << 20);
    }
    memset(&told, 0, sizeof told);
    rf_options_init(&o);
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 40 << 20; /* more than the file system holds */
    o.partition_interval = STORY_INTERVAL;
    o.write_wait_ms = 100;
    o.log_level = RF_LOG_OFF;
    CHILD_CHECK(rf_open(data, &o, &e, NULL) == 0);
    uint32_t batch = write_until(e, 1, false);
    for (int round = 0; round < 3; round++) {
        fill(filler[3], UINT64_MAX); /* the rest, before the ring is whole */
        batch = write_until(e, batch, true);
        CHILD_CHECK(story_scan(e, &found)); /* reads go on */
        CHILD_CHECK(unlink(filler[round]) == 0);
        if (round == 1) { /* room, and a new life */
            CHILD_CHECK(rf_close(e) == 0);
            CHILD_CHECK(rf_open(data, &o, &e, NULL) == 0);
        }
        batch = write_until(e, batch, false);
        CHILD_CHECK(story_scan(e, &found) && story_is_right(&told, &found));
    }
    CHILD_CHECK(rf_close(e) == 0);
    CHILD_CHECK(rf_open(data, &o, &e, NULL) == 0);
    CHILD_CHECK(story_scan(e, &found) && story_is_right(&told, &found));
    CHILD_CHECK(rf_close(e) == 0);
    printf("3 times full, %u batches there\n", batch);
    fflush(stdout);
    return 0;
}

static void crash_process__disk_full_and_freed__refused_then_goes_on(void **state)
{
    (void)state;
    int code = child_run(full_disk_body, NULL);
    if (code == 77) printf("a small tmpfs: this place allows no mounts\n");
    assert_true(code == 0 || code == 77);
}

static int read_only_mount_body(void *ctx)
{
    (void)ctx;
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error;
    if (unshare(CLONE_NEWNS) != 0) return 77;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return 77;
    if (mount(dir, dir, NULL, MS_BIND, NULL) != 0) return 77;
    if (mount(NULL, dir, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0) return 77;
    check_read_only();
    small_options(&o);
    CHILD_CHECK(rf_open(dir, &o, &e, &error) == -EROFS);
    CHILD_CHECK(strstr(error.text, dir) != NULL);
    return 0;
}

static void crash_process__read_only_as_nobody_and_on_a_read_only_mount__reads(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        printf("read-only mount, another uid: only as root\n");
        skip();
    }
    make_story(5);
    assert_int_equal(chmod(dir, 0755), 0);
    assert_int_equal(child_run(nobody_body, NULL), 0);
    int code = child_run(read_only_mount_body, NULL);
    if (code == 77) printf("read-only mount: this place allows no mounts\n");
    assert_true(code == 0 || code == 77);
}

/* ---- limits ---- */

static bool is_full(int rc)
{
    return rc == -EFBIG || rc == -RF_CODE_DISK_FULL || rc == -ENOSPC;
}

static int file_size_body(void *ctx)
{
    const rlim_t *bytes = ctx;
    struct rlimit limit = {*bytes, RLIM_INFINITY};
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error;
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0); /* SIGXFSZ is left to end the process */
    small_options(&o);
    o.write_wait_ms = 300;
    int rc = rf_open(dir, &o, &e, &error);
    CHILD_CHECK(rc == 0 || is_full(rc));
    if (rc == 0) {
        CHILD_CHECK(write_story(e, 0, 1, 100) == 0 || *bytes < 4 << 20);
        (void)rf_close(e);
    }
    limit.rlim_cur = RLIM_INFINITY;
    o.write_wait_ms = 10000;
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHILD_CHECK(rf_open(dir, &o, &e, &error) == 0);
    CHILD_CHECK(write_story(e, 0, 2, 100) == 0);
    CHILD_CHECK(rf_close(e) == 0);
    return 0;
}

static int descriptors_body(void *ctx)
{
    const rlim_t *count = ctx;
    struct rlimit limit = {*count, 1024};
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error;
    CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    small_options(&o);
    o.memory_bytes = 4u * ((4u << 20) + (1u << 20));
    o.write_wait_ms = 300;
    int rc = rf_open(dir, &o, &e, &error);
    if (rc != 0 && rc != -EMFILE)
        dprintf(2, "%d descriptors: %d %s\n", (int)*count, rc, error.text);
    CHILD_CHECK(rc == 0 || rc == -EMFILE);
    int answer = rc == 0 ? 10 : 11;
    if (rc == 0) {
        rc = write_story(e, 0, 1, 100);
        if (rc != 0) dprintf(2, "%d descriptors, write: %d\n", (int)*count, rc);
        CHILD_CHECK(rc == 0 || rc == -EMFILE || rc == -RF_CODE_METADATA_ERROR ||
                    rc == -RF_CODE_WRITE_REJECT);
        (void)rf_close(e);
    }
    limit.rlim_cur = 1024;
    o.write_wait_ms = 10000;
    CHILD_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHILD_CHECK(rf_open(dir, &o, &e, &error) == 0);
    CHILD_CHECK(write_story(e, 0, 2, 100) == 0);
    CHILD_CHECK(rf_close(e) == 0);
    return answer;
}

static int locked_memory_body(void *ctx)
{
    (void)ctx;
    static const struct rlimit none = {0, 0};
    struct rf_options o;
    struct rf_engine *e;
    if (geteuid() == 0) CHILD_CHECK(setgid(65534) == 0 && setuid(65534) == 0);
    CHILD_CHECK(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    small_options(&o);
    CHILD_CHECK(rf_open(dir, &o, &e, NULL) == 0);
    for (uint32_t b = 1; b < 10; b++)
        CHILD_CHECK(write_story(e, 0, b, 10000) == 0);
    CHILD_CHECK(rf_close(e) == 0);
    return 0;
}

static void fresh_dir(void)
{
    tempdir_remove(dir);
    tempdir_make(dir);
}

static void crash_process__limits__clean_errors_and_on_without_them(void **state)
{
    (void)state;
    static const rlim_t sizes[] = {0, 4096, 100000, (4 << 20) - 1, 4 << 20};
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++, fresh_dir()) {
        rlim_t bytes = sizes[i];
        int code = child_run(file_size_body, &bytes);
        if (code != 0) fail_msg("RLIMIT_FSIZE %ju: %d", (uintmax_t)bytes, code);
    }
    uint32_t refused = 0, opened = 0;
    for (rlim_t count = 3; count < 40; count++, fresh_dir()) {
        int code = child_run(descriptors_body, &count);
        if (code != 10 && code != 11) fail_msg("RLIMIT_NOFILE %ju: %d", (uintmax_t)count, code);
        refused += code == 11;
        opened += code == 10;
    }
    assert_true(refused > 0 && opened > 0);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(child_run(locked_memory_body, NULL), 0);
    printf("%u limits of descriptors refused, %u enough\n", refused, opened);
}

/* ---- without io_uring ---- */

static _Atomic uint32_t backend_events;
static void count_backend(void *ctx, enum rf_log_level level, const char *event, const char *fields)
{
    (void)ctx, (void)level, (void)fields;
    if (strcmp(event, "io.backend") == 0) backend_events++;
}

static int no_ring_body(void *ctx)
{
    const int *error = ctx;
    struct rf_options o;
    struct rf_engine *e;
    struct rf_stats stats = {.size = sizeof stats};
    int rc = child_refuse_calls(SYS_io_uring_setup, SYS_io_uring_register, *error);
    if (rc != 0) return 77;
    small_options(&o);
    o.lanes = o.regions = 2;
    o.log = count_backend;
    o.log_level = RF_LOG_INFO;
    CHILD_CHECK(rf_open(dir, &o, &e, NULL) == 0);
    for (uint32_t b = 1; b < 10; b++)
        CHILD_CHECK(write_story(e, 0, b, 1000) == 0);
    CHILD_CHECK(rf_stats(e, &stats) == 0 && strcmp(stats.backend, "posix") == 0);
    CHILD_CHECK(backend_events == 1);
    CHILD_CHECK(story_scan(e, &found) && found.rows == 1 + 9 * (STORY_ROWS - 1));
    CHILD_CHECK(rf_close(e) == 0);
    o.backend = RF_BACKEND_URING;
    CHILD_CHECK(rf_open(dir, &o, &e, NULL) == -*error);
    return 0;
}

static void crash_process__io_uring_forbidden__falls_back_and_says_so_once(void **state)
{
    (void)state;
    static int errors[] = {EPERM, ENOSYS, EACCES, ENOMEM};
    for (int i = 0; i < 4; i++, fresh_dir()) {
        int code = child_run(no_ring_body, &errors[i]);
        if (code == 77) {
            printf("seccomp: not allowed here\n");
            skip();
        }
        if (code != 0) fail_msg("io_uring_setup fails with %d: %d", errors[i], code);
    }
}

/* ---- for the check of syncs ---- */

static int write_and_tell(char **argv)
{
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error;
    small_options(&o);
    o.backend = strcmp(argv[3], "posix") == 0 ? RF_BACKEND_POSIX : RF_BACKEND_AUTO;
    o.wait_prepared = true; /* nothing but the log's writes from here on */
    if (rf_open(argv[2], &o, &e, &error) != 0) {
        dprintf(2, "%s\n", error.text);
        return 1;
    }
    uint32_t n = (uint32_t)strtoul(argv[4], NULL, 10);
    const char *marker = getenv("RF_TRACE_MARKER");
    int marks = marker != NULL ? open(marker, O_WRONLY | O_CLOEXEC) : -1;
    for (uint32_t b = 1; b <= n; b++) {
        /* Small ones, and every third one too large for the path of a lone small group. */
        if (write_story(e, 0, b, b % 3 == 0 ? 40000 : 50) != 0) return 1;
        if (marks >= 0) dprintf(marks, "ack %u\n", b);
        dprintf(1, "ack %u\n", b);
    }
    if (marks >= 0) close(marks);
    struct rf_stats stats = {.size = sizeof stats};
    if (rf_stats(e, &stats) == 0) dprintf(1, "backend %s\n", stats.backend);
    return rf_close(e) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "write") == 0) return write_and_tell(argv);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(crash_process__killed_under_load__acknowledged_is_there),
        TEST(crash_process__killed_with_megabytes_in_flight__log_moves_no_more),
        TEST(crash_process__race_for_a_directory__one_wins_others_are_told),
        TEST(crash_process__open_engine__every_segment_file_is_locked),
        TEST(crash_process__host_forks__child_is_told_parent_goes_on_locks_go),
        TEST(crash_process__host_forks_under_load__nothing_stops),
        TEST(crash_process__forks_while_files_are_opened__children_hold_no_lock),
        TEST(crash_process__host_never_closes__acknowledged_is_there),
        TEST(crash_process__storm_of_alarms__every_call_succeeds),
        TEST(crash_process__stacks_of_32_kib__every_call_succeeds),
        TEST(crash_process__read_only_as_nobody_and_on_a_read_only_mount__reads),
        TEST(crash_process__disk_full_and_freed__refused_then_goes_on),
        TEST(crash_process__limits__clean_errors_and_on_without_them),
        TEST(crash_process__io_uring_forbidden__falls_back_and_says_so_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
