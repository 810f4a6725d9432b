/* A directory: made, recognised, locked, opened again, refused.
 * ctest: serial */
#include "wal/dir.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "tests/lib/log_builder.h"
#include "tests/lib/tempdir.h"
#include "wal/replay.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { SEGMENT = 1 << 20 };

struct folder {
    char path[TEMPDIR_BYTES];
    struct io_env *env;
};
static struct folder make_folder(void)
{
    struct folder f;
    tempdir_make(f.path);
    assert_int_equal(io_env_open(f.path, &f.env), 0);
    return f;
}
static void remove_folder(struct folder *f)
{
    io_env_close(f->env);
    tempdir_remove(f->path);
}

static struct wal_dir_options options(struct io_env *env)
{
    return (struct wal_dir_options){.env = env,
                                    .create = true,
                                    .wait_ns = 0,
                                    .fresh = {.segment_bytes = SEGMENT, .lanes = 2, .regions = 3}};
}

static void make_dir(struct io_env *env)
{
    struct wal_dir_options o = options(env);
    struct wal_dir dir;
    struct err_msg msg = {0};
    int rc = wal_dir_open(&o, &msg, &dir);
    if (rc != 0) fail_msg("%s", msg.text);
    assert_true(dir.created);
    wal_dir_close(&dir);
}

static void put_file(struct io_env *env, const char *path, const void *bytes, size_t n)
{
    struct io_file *file = NULL;
    assert_int_equal(io_open(env, path, IO_WRITE | IO_CREATE, &file), 0);
    assert_int_equal(io_pwrite(file, bytes, n, 0, 0, NULL), 0);
    io_close(file);
}

static void put_segment_sized(struct io_env *env, const char *path)
{
    struct io_file *file = NULL;
    assert_int_equal(io_open(env, path, IO_WRITE | IO_CREATE, &file), 0);
    assert_int_equal(io_truncate(file, SEGMENT), 0);
    io_close(file);
}

static bool exists(struct io_env *env, const char *path)
{
    struct io_file *file = NULL;
    if (io_open(env, path, IO_READ, &file) != 0) return false;
    io_close(file);
    return true;
}

static void expect_refused(const struct wal_dir_options *o, int code, const char *part)
{
    struct wal_dir dir;
    struct err_msg msg = {0};
    int rc = wal_dir_open(o, &msg, &dir);
    if (rc != code) fail_msg("%d instead of %d: %s", rc, code, msg.text);
    assert_int_equal(msg.code, code);
    if (strstr(msg.text, part) == NULL) fail_msg("'%s' is not in '%s'", part, msg.text);
}

static void wal_dir__created__has_two_empty_segments_a_lane(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct wal_dir_options o = options(f.env);
    struct wal_dir dir;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    assert_true(dir.created);
    assert_int_equal(dir.manifest.lanes, 2);
    assert_int_equal(dir.manifest.regions, 3);
    assert_int_equal(dir.manifest.region_lane[2], 0);
    assert_int_equal(dir.manifest.region_lane[1], 1);
    assert_int_equal(dir.manifest.partition_interval, INT64_C(604800000000000));
    assert_true(dir.manifest.block_bytes >= 512);
    for (uint32_t lane = 0; lane < 2; lane++) {
        assert_int_equal(dir.lane[lane].live_count, 2);
        assert_int_equal(dir.lane[lane].spare_count, 0);
        uint64_t salt = 0;
        for (uint32_t i = 0; i < 2; i++) {
            struct wal_segment_id id = {.segment_bytes = SEGMENT,
                                        .block_bytes = dir.manifest.block_bytes,
                                        .lane = lane,
                                        .number = i + 1};
            memcpy(id.uuid, dir.manifest.uuid, sizeof id.uuid);
            struct wal_segment_head head;
            int weak = 7;
            assert_int_equal(dir.lane[lane].live[i].number, i + 1);
            assert_int_equal(
                wal_segment_head_read(dir.lane[lane].live[i].file, &id, "f", NULL, &head, &weak),
                0);
            assert_int_equal(weak, -1);
            assert_true(head.salt != salt);
            salt = head.salt;
        }
    }
    struct wal_manifest first = dir.manifest;
    wal_dir_close(&dir);
    assert_true(exists(f.env, "owner"));
    assert_false(exists(f.env, "manifest.tmp"));

    o.create = false; /* and again: the same directory */
    o.fresh = (struct wal_dir_fresh){0};
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    assert_false(dir.created);
    assert_memory_equal(dir.manifest.uuid, first.uuid, sizeof first.uuid);
    assert_int_equal(dir.lane[1].live_count, 2);
    assert_true(dir.geometry.block_bytes >= 512);
    wal_dir_close(&dir);
    remove_folder(&f);
}

static void wal_dir__created__replays_as_empty(void **state)
{
    (void)state;
    struct folder f = make_folder();
    make_dir(f.env);
    struct wal_dir_options o = options(f.env);
    struct wal_dir dir;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    struct wal_live_segment live[2] = {0};
    for (int i = 0; i < 2; i++) {
        live[i].number = dir.lane[0].live[i].number;
        live[i].file = dir.lane[0].live[i].file;
        live[i].image = aligned_alloc(4096, SEGMENT);
    }
    struct wal_replay_options r = {.env = f.env,
                                   .segment_bytes = SEGMENT,
                                   .block_bytes = dir.manifest.block_bytes,
                                   .head_number = dir.manifest.head[0],
                                   .segments = live,
                                   .count = 2};
    memcpy(r.uuid, dir.manifest.uuid, sizeof r.uuid);
    struct wal_replay_result result;
    assert_int_equal(wal_replay(&r, NULL, &result), 0);
    assert_int_equal(result.verdict.end_lsn, SEGMENT + dir.manifest.block_bytes);
    assert_false(result.verdict.cut_needed);
    wal_replay_result_deinit(&result);
    for (int i = 0; i < 2; i++)
        free(live[i].image);
    wal_dir_close(&dir);
    remove_folder(&f);
}

static int refuse(void *ctx, struct wal_manifest *m)
{
    (void)m;
    ++*(int *)ctx;
    return -ECANCELED;
}
static int set_generation(void *ctx, struct wal_manifest *m)
{
    m->catalog_generation = *(uint64_t *)ctx;
    m->version_obeyed = 3;
    return 0;
}

static void wal_dir__creation_interrupted__starts_over(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct wal_dir_options o = options(f.env);
    int calls = 0;
    o.fresh.before_manifest = refuse;
    o.fresh.ctx = &calls;
    struct wal_dir dir;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), -ECANCELED);
    assert_int_equal(calls, 1);
    assert_true(exists(f.env, "lane-01/0000000002"));
    put_file(f.env, "catalog.db", "half", 4);
    put_file(f.env, "catalog.db-journal", "half", 4);
    put_file(f.env, "manifest.tmp", "half", 4);
    put_file(f.env, "owner", "pid 1\n", 6);
    put_file(f.env, "lane-00/free-0000000003", "half", 4);

    struct wal_dir_options ro = o;
    ro.read_only = true;
    expect_refused(&ro, -RFE_UNFINISHED, "its creation did not finish");
    assert_true(exists(f.env, "manifest.tmp")); /* read-only writes nothing */
    struct wal_dir_options no_create = o;
    no_create.create = false;
    expect_refused(&no_create, -RFE_UNFINISHED, "its creation did not finish");

    uint64_t generation = 4711;
    o.fresh.before_manifest = set_generation;
    o.fresh.ctx = &generation;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    assert_true(dir.created);
    assert_int_equal(dir.manifest.catalog_generation, 4711);
    wal_dir_close(&dir);
    assert_false(exists(f.env, "catalog.db"));
    assert_false(exists(f.env, "lane-00/free-0000000003"));
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    assert_false(dir.created);
    assert_int_equal(dir.manifest.catalog_generation, 4711);
    assert_int_equal(dir.manifest.version_obeyed, 3);
    wal_dir_close(&dir);
    remove_folder(&f);
}

static void wal_dir__empty_or_missing__is_said(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct wal_dir_options o = options(f.env);
    o.read_only = true;
    expect_refused(&o, -RFE_UNFINISHED, "its creation did not finish");
    remove_folder(&f);

    f = make_folder();
    char path[TEMPDIR_BYTES + 8];
    snprintf(path, sizeof path, "%s/new", f.path);
    struct io_env *env = NULL;
    assert_int_equal(io_env_open(path, &env), 0);
    o = options(env);
    o.create = false;
    expect_refused(&o, -ENOENT, "");
    o.create = true;
    struct wal_dir dir;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0); /* load makes a missing directory */
    wal_dir_close(&dir);
    io_env_close(env);
    remove_folder(&f);
}

static void wal_dir__somebody_elses__is_left_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"notes.txt", "lane-16", "lane-0", "Manifest"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct folder f = make_folder();
        struct wal_dir_options o = options(f.env);
        put_file(f.env, names[i], "x", 1);
        expect_refused(&o, -RFE_NOT_OURS, names[i]);
        assert_false(exists(f.env, "lane-00/0000000001"));
        assert_false(exists(f.env, "owner"));
        remove_folder(&f);
    }
    struct folder f = make_folder();
    struct wal_dir_options o = options(f.env);
    assert_int_equal(io_mkdir(f.env, "lane-00"), 0);
    put_file(f.env, "lane-00/thing", "x", 1);
    expect_refused(&o, -RFE_NOT_OURS, "lane-00/thing");
    remove_folder(&f);
    f = make_folder();
    o = options(f.env);
    put_file(f.env, "manifest", "something else altogether, and long", 35);
    expect_refused(&o, -RFE_NOT_OURS, "manifest: offset 0");
    remove_folder(&f);
}

/* A manifest that was lost must not cost the records: the directory is refused, not started over. */
static void wal_dir__records_without_manifest__are_not_started_over(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct log_builder b;
    builder_init(&b, SEGMENT, 512, 2, 1, 5, false);
    builder_write_files(&b, f.env);
    struct wal_dir_options o = options(f.env);
    o.create = false;
    expect_refused(&o, -RFE_UNFINISHED, "did not finish"); /* headers, but no record */
    builder_void(&b, 64 * 1000);
    memset(builder_at(&b, SEGMENT + 512), 0, 64); /* behind a hole it is a record all the same */
    builder_data(&b, "x");
    builder_write_files(&b, f.env);
    o.create = true;
    expect_refused(&o, -RFE_NOT_OURS, "lane-00/0000000001: offset 64512: expected no record");
    assert_true(exists(f.env, "lane-00/0000000001"));
    builder_deinit(&b);
    remove_folder(&f);
}

static void wal_dir__newer_version__is_said(void **state)
{
    (void)state;
    struct folder f = make_folder();
    make_dir(f.env);
    struct wal_manifest m;
    uint8_t *bytes = NULL;
    size_t n = 0;
    assert_int_equal(wal_manifest_read(f.env, NULL, &m), 0);
    assert_int_equal(wal_manifest_encode(&m, NULL, &bytes, &n), 0);
    bytes[8] = 2;

    store_u64(bytes + n - 8, hash64(bytes, n - 8, 0));
    put_file(f.env, "manifest", bytes, n);
    struct wal_dir_options o = options(f.env);
    expect_refused(&o, -RFE_NEWER_VERSION, "version 2, known up to 1");
    o.read_only = true;
    expect_refused(&o, -RFE_NEWER_VERSION, "version 2");
    bytes[8] = 1;
    put_file(f.env, "manifest", bytes, n);
    expect_refused(&o, -RFE_CORRUPT, "expected checksum");
    mem_free(bytes);
    wal_manifest_deinit(&m);
    remove_folder(&f);
}

static void wal_dir__bad_parameters__are_refused(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct wal_dir_options o = options(f.env);
    o.fresh.lanes = 17;
    expect_refused(&o, -RFE_LIMIT, "lanes");
    o = options(f.env);
    o.fresh.segment_bytes = 3 << 20;
    expect_refused(&o, -RFE_LIMIT, "segment_bytes");
    o = options(f.env);
    o.fresh.partition_interval = -1;
    expect_refused(&o, -RFE_LIMIT, "partition_interval");
    o = options(f.env);
    static const uint32_t lanes[3] = {0, 1, 2};
    o.fresh.region_lane = lanes;
    expect_refused(&o, -RFE_LIMIT, "lane");
    o = options(f.env);
    o.fresh.regions = 100000;
    expect_refused(&o, -RFE_LIMIT, "regions");
    o = options(f.env);
    o.fresh.time_unit = 9;
    expect_refused(&o, -RFE_LIMIT, "time unit");
    make_dir(f.env);
    remove_folder(&f);
}

/* ---- locks ---- */

static void wal_dir__in_use__names_the_owner(void **state)
{
    (void)state;
    struct folder f = make_folder();
    struct wal_dir_options o = options(f.env);
    struct wal_dir dir;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    char owner[64];
    snprintf(owner, sizeof owner, "in use (last opened by pid %ld)", (long)getpid());
    expect_refused(&o, -RFE_IN_USE, owner);
    struct wal_dir_options ro = o;
    ro.read_only = true;
    expect_refused(&ro, -RFE_IN_USE, owner);
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    ro.wait_ns = 100000000;
    expect_refused(&ro, -RFE_IN_USE, owner);
    clock_gettime(CLOCK_MONOTONIC, &b);
    assert_true((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec >= 100000000);
    wal_dir_close(&dir);

    struct wal_dir one, two;
    ro.wait_ns = 0;
    assert_int_equal(wal_dir_open(&ro, NULL, &one), 0); /* readers share */
    assert_int_equal(wal_dir_open(&ro, NULL, &two), 0);
    expect_refused(&o, -RFE_IN_USE, owner);
    wal_dir_close(&one);
    wal_dir_close(&two);
    assert_int_equal(wal_dir_open(&o, NULL, &one), 0);
    wal_dir_close(&one);
    remove_folder(&f);
}

/* The directory's lock is gone, a segment's is not: a killed owner's writes may still land. */
static void wal_dir__one_segment_locked__is_waited_for(void **state)
{
    (void)state;
    struct folder f = make_folder();
    make_dir(f.env);
    assert_int_equal(io_rename(f.env, "lane-01/0000000001", "lane-01/keep"), 0);
    assert_int_equal(io_rename(f.env, "lane-01/keep", "lane-01/0000000001"), 0);
    static const char *const held[] = {"lane-00/0000000001", "lane-01/0000000002",
                                       "lane-00/free-0000000009"};
    put_segment_sized(f.env, held[2]);
    for (size_t i = 0; i < 3; i++) {
        struct io_file *file = NULL;
        struct wal_dir_options o = options(f.env);
        struct wal_dir dir;
        assert_int_equal(io_open(f.env, held[i], IO_READ | IO_WRITE, &file), 0);
        assert_int_equal(io_lock(file, true), 0);
        expect_refused(&o, -RFE_IN_USE, "in use");
        io_close(file);
        assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
        assert_int_equal(dir.lane[0].spare_count, 1);
        wal_dir_close(&dir);
    }
    remove_folder(&f);
}

static void wal_dir__owner_killed__is_taken_over(void **state)
{
    (void)state;
    struct folder f = make_folder();
    make_dir(f.env);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct io_env *env = NULL;
        struct wal_dir dir;
        if (io_env_open(f.path, &env) != 0) _exit(1);
        struct wal_dir_options o = options(env);
        if (wal_dir_open(&o, NULL, &dir) != 0) _exit(2);
        if (write(ready[1], "r", 1) != 1) _exit(3);
        pause();
        _exit(0);
    }
    char c;
    assert_int_equal(read(ready[0], &c, 1), 1);
    char owner[64];
    snprintf(owner, sizeof owner, "in use (last opened by pid %ld)", (long)pid);
    struct wal_dir_options o = options(f.env);
    expect_refused(&o, -RFE_IN_USE, owner);
    kill(pid, SIGKILL);
    struct wal_dir dir;
    o.wait_ns = -1; /* the default wait outlasts the dying process */
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    wal_dir_close(&dir);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(ready[0]);
    close(ready[1]);
    remove_folder(&f);
}

/* Several processes race for a directory that is not there: one makes it, the others are told. */
static void wal_dir__race_of_creators__has_one_winner(void **state)
{
    (void)state;
    enum { RACERS = 6 };
    struct folder f = make_folder();
    int go[2], done[2];
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(done), 0);
    pid_t pids[RACERS];
    for (int i = 0; i < RACERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            char c;
            struct io_env *env = NULL;
            struct wal_dir dir;
            if (read(go[0], &c, 1) != 1 || io_env_open(f.path, &env) != 0) _exit(9);
            struct wal_dir_options o = options(env);
            int rc = wal_dir_open(&o, NULL, &dir);
            c = rc == 0 && dir.created ? 'w' : rc == -RFE_IN_USE ? 'l' : '?';
            if (write(done[1], &c, 1) != 1) _exit(9);
            pause();
        }
    }
    assert_int_equal(write(go[1], "gggggg", RACERS), RACERS);
    int winners = 0, losers = 0;
    for (int i = 0; i < RACERS; i++) {
        char c;
        assert_int_equal(read(done[0], &c, 1), 1);
        winners += c == 'w';
        losers += c == 'l';
    }
    for (int i = 0; i < RACERS; i++) {
        kill(pids[i], SIGKILL);
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    }
    assert_int_equal(winners, 1);
    assert_int_equal(losers, RACERS - 1);
    for (int i = 0; i < 2; i++) {
        close(go[i]);
        close(done[i]);
    }
    remove_folder(&f);
}

/* ---- files of a lane ---- */

static void wal_dir__numbered_below_the_head__is_freed_again(void **state)
{
    (void)state;
    struct folder f = make_folder();
    make_dir(f.env);
    struct wal_manifest m;
    assert_int_equal(wal_manifest_read(f.env, NULL, &m), 0);
    m.head[0] = 2;
    m.sequence++;
    assert_int_equal(wal_manifest_write(f.env, &m, NULL), 0);
    wal_manifest_deinit(&m);
    struct wal_dir_options o = options(f.env);
    struct wal_dir dir;
    o.read_only = true;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    assert_int_equal(dir.lane[0].live_count, 1);
    assert_int_equal(dir.lane[0].spare_count, 0);
    wal_dir_close(&dir);
    assert_true(exists(f.env, "lane-00/0000000001"));
    o.read_only = false;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    assert_int_equal(dir.lane[0].live_count, 1);
    assert_int_equal(dir.lane[0].live[0].number, 2);
    assert_int_equal(dir.lane[0].spare_count, 1);
    assert_int_equal(dir.lane[0].spare[0].number, 1);
    wal_dir_close(&dir);
    assert_true(exists(f.env, "lane-00/free-0000000001"));
    assert_false(exists(f.env, "lane-00/0000000001"));
    remove_folder(&f);
}

static void wal_dir__free_file_half_filled__is_removed(void **state)
{
    (void)state;
    struct folder f = make_folder();
    make_dir(f.env);
    put_segment_sized(f.env, "lane-00/free-0000000007");
    put_file(f.env, "lane-00/free-0000000008", "", 0);
    put_file(f.env, "lane-01/free-0000000009", "half", 4);
    struct wal_dir_options o = options(f.env);
    struct wal_dir dir;
    o.read_only = true;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    assert_int_equal(dir.lane[0].spare_count, 1);
    assert_int_equal(dir.lane[1].spare_count, 0);
    wal_dir_close(&dir);
    assert_true(exists(f.env, "lane-01/free-0000000009"));
    o.read_only = false;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    assert_int_equal(dir.lane[0].spare_count, 1);
    assert_int_equal(dir.lane[0].spare[0].number, 7);
    wal_dir_close(&dir);
    assert_true(exists(f.env, "lane-00/free-0000000007"));
    assert_false(exists(f.env, "lane-00/free-0000000008"));
    assert_false(exists(f.env, "lane-01/free-0000000009"));
    remove_folder(&f);
}

static void wal_dir__lane_that_the_manifest_lacks__is_corruption(void **state)
{
    (void)state;
    struct folder f = make_folder();
    make_dir(f.env);
    assert_int_equal(io_mkdir(f.env, "lane-05"), 0);
    struct wal_dir_options o = options(f.env);
    struct wal_dir dir;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0); /* an empty folder means nothing */
    wal_dir_close(&dir);
    put_file(f.env, "lane-05/0000000001", "x", 1);
    expect_refused(&o, -RFE_CORRUPT, "lane-05");
    remove_folder(&f);
}

/* In a process without the right to write there: 0 when it went as it should, else the step. */
static int open_unprivileged(const char *path)
{
    struct io_env *env = NULL;
    struct wal_dir dir;
    struct err_msg msg = {0};
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 1;
    if (io_env_open(path, &env) != 0) return 2;
    struct wal_dir_options o = options(env);
    int rc = wal_dir_open(&o, &msg, &dir);
    if (rc != -EACCES || strstr(msg.text, "lane-00") == NULL) return 3;
    o.read_only = true;
    if (wal_dir_open(&o, &msg, &dir) != 0) return 4;
    wal_dir_close(&dir);
    io_env_close(env);
    return 0;
}

static void wal_dir__no_right_to_write__can_be_read(void **state)
{
    (void)state;
    struct folder f = make_folder();
    make_dir(f.env);
    char cmd[TEMPDIR_BYTES + 32];
    snprintf(cmd, sizeof cmd, "chmod -R a+rX,a-w '%s'", f.path);
    assert_int_equal(system(cmd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(open_unprivileged(f.path));
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    snprintf(cmd, sizeof cmd, "chmod -R u+w '%s'", f.path);
    assert_int_equal(system(cmd), 0);
    remove_folder(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_dir__created__has_two_empty_segments_a_lane),
        cmocka_unit_test(wal_dir__created__replays_as_empty),
        cmocka_unit_test(wal_dir__creation_interrupted__starts_over),
        cmocka_unit_test(wal_dir__empty_or_missing__is_said),
        cmocka_unit_test(wal_dir__somebody_elses__is_left_alone),
        cmocka_unit_test(wal_dir__records_without_manifest__are_not_started_over),
        cmocka_unit_test(wal_dir__newer_version__is_said),
        cmocka_unit_test(wal_dir__bad_parameters__are_refused),
        cmocka_unit_test(wal_dir__in_use__names_the_owner),
        cmocka_unit_test(wal_dir__one_segment_locked__is_waited_for),
        cmocka_unit_test(wal_dir__owner_killed__is_taken_over),
        cmocka_unit_test(wal_dir__race_of_creators__has_one_winner),
        cmocka_unit_test(wal_dir__numbered_below_the_head__is_freed_again),
        cmocka_unit_test(wal_dir__free_file_half_filled__is_removed),
        cmocka_unit_test(wal_dir__lane_that_the_manifest_lacks__is_corruption),
        cmocka_unit_test(wal_dir__no_right_to_write__can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
