/* Crashes of the fault double: what is durable, what is not, and what a power failure may leave.
 * The random test holds every crash image against a model that shares nothing with the double: it
 * derives what each sector may hold from the printed facts of the trace alone. */
#include "io/fault.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECTOR 512u
#define BLOCK  4096u

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

/* A file whose name is durable. */
static struct io_file *named_file(struct io_env *env, const char *path)
{
    struct io_file *file = open_file(env, path);
    assert_int_equal(io_sync_dir(env, "."), 0);
    return file;
}

static void put(struct io_file *file, const char *text, uint64_t offset, unsigned flags)
{
    assert_int_equal(io_pwrite(file, text, strlen(text), offset, flags, NULL), 0);
}

/* What `path` holds after a crash at `at`; "(none)" when it is not there. */
static const char *after(struct io_env *env, uint64_t at, fault_choice *choice, const char *path)
{
    static char text[64];
    struct io_env *crashed;
    struct io_file *file;
    memset(text, 0, sizeof text);
    assert_int_equal(fault_crash(env, at, choice, NULL, NULL, &crashed, NULL), 0);
    int rc = io_open(crashed, path, IO_READ, &file);
    if (rc == 0) {
        assert_int_equal(io_pread(file, text, sizeof text - 1, 0, NULL), 0);
        io_close(file);
    } else {
        assert_int_equal(rc, -ENOENT);
        strcpy(text, "(none)");
    }
    io_env_close(crashed);
    return text;
}

static const char *dropped_now(struct io_env *env, const char *path)
{
    return after(env, fault_trace_length(env), fault_choice_drop, path);
}

static const char *kept_now(struct io_env *env, const char *path)
{
    return after(env, fault_trace_length(env), fault_choice_keep, path);
}

/* ---- data ---- */

static void fault_crash__write_without_sync__is_dropped_or_kept(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = named_file(env, "f");
    put(file, "old", 0, IO_DSYNC);
    put(file, "new", 0, 0);
    uint64_t undecided;
    struct io_env *crashed;
    assert_int_equal(fault_crash(env, fault_trace_length(env), fault_choice_keep, NULL, NULL,
                                 &crashed, &undecided),
                     0);
    io_env_close(crashed);
    assert_int_equal(undecided, 1);
    assert_string_equal(dropped_now(env, "f"), "old");
    assert_string_equal(kept_now(env, "f"), "new");
    assert_int_equal(io_sync(file), 0);
    assert_string_equal(dropped_now(env, "f"), "new");
    put(file, "dsy", 0, IO_DSYNC);
    assert_string_equal(dropped_now(env, "f"), "dsy");
    io_close(file);
}

static struct io_queue *open_queue(struct io_env *env)
{
    const struct io_queue_options options = {.depth = 8};
    struct io_queue *queue;
    assert_int_equal(io_queue_open(env, &options, &queue), 0);
    return queue;
}

static void drain(struct io_queue *queue)
{
    struct io_event event;
    while (io_queue_in_flight(queue) > 0)
        assert_int_equal(io_queue_wait(queue, &event, 1, -1), 1);
}

static void fault_crash__write_completed_after_the_sync_was_submitted__is_not_durable(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = named_file(env, "f");
    struct io_queue *queue = open_queue(env);
    put(file, "old", 0, IO_DSYNC);
    /* In one call, in this order: both are in flight when the sync begins. */
    struct io_request two[2] = {
        {.op = IO_OP_WRITE, .file = file, .buf = (char[]){"new"}, .bytes = 3},
        {.op = IO_OP_SYNC, .file = file}};
    assert_int_equal(io_queue_submit(queue, two, 2), 0);
    drain(queue);
    assert_string_equal(dropped_now(env, "f"), "old");
    /* One more sync, submitted after the write had completed. */
    assert_int_equal(io_queue_submit(queue, &two[1], 1), 0);
    drain(queue);
    assert_string_equal(dropped_now(env, "f"), "new");
    io_queue_close(queue);
    io_close(file);
}

static void fault_crash__write_held_in_flight_during_a_sync__is_not_durable(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = named_file(env, "f");
    struct io_queue *queue = open_queue(env);
    put(file, "old", 0, IO_DSYNC);
    const struct fault_rule rule = {.kind = FAULT_DELAY, .targets = FAULT_ON_WRITE, .times = 1};
    assert_int_equal(fault_add(env, &rule), 0);
    struct io_request write = {.op = IO_OP_WRITE, .file = file, .buf = (char[]){"new"}, .bytes = 3};
    assert_int_equal(io_queue_submit(queue, &write, 1), 0);
    assert_int_equal(io_sync(file), 0);
    assert_string_equal(dropped_now(env, "f"), "old");
    assert_string_equal(kept_now(env, "f"), "new"); /* in flight, it may have landed */
    fault_release(env);
    drain(queue);
    assert_string_equal(dropped_now(env, "f"), "old");
    assert_int_equal(io_sync(file), 0);
    assert_string_equal(dropped_now(env, "f"), "new");
    io_queue_close(queue);
    io_close(file);
}

static void fault_crash__sync_failed_once__a_later_sync_does_not_make_up_for_it(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = named_file(env, "f");
    put(file, "old", 0, IO_DSYNC);
    put(file, "new", 0, 0);
    const struct fault_rule rule = {
        .kind = FAULT_ERROR, .targets = FAULT_ON_SYNC, .times = 1, .error = EIO};
    assert_int_equal(fault_add(env, &rule), 0);
    assert_int_equal(io_sync(file), -EIO);
    assert_int_equal(io_sync(file), 0);
    assert_string_equal(dropped_now(env, "f"), "old");
    assert_string_equal(kept_now(env, "f"), "new");
    put(file, "NEW", 0, 0); /* written again, a sync covers it */
    assert_int_equal(io_sync(file), 0);
    assert_string_equal(dropped_now(env, "f"), "NEW");
    io_close(file);
}

static void fault_crash__failed_and_short_writes__leave_what_they_did(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = named_file(env, "f");
    put(file, "......", 0, IO_DSYNC);
    struct fault_rule rule = {
        .kind = FAULT_ERROR, .targets = FAULT_ON_WRITE, .times = 1, .error = EIO};
    assert_int_equal(fault_add(env, &rule), 0);
    assert_int_equal(io_pwrite(file, "failed", 6, 0, IO_DSYNC, NULL), -EIO);
    assert_string_equal(kept_now(env, "f"), "......");
    /* While it was in flight it might have landed. */
    assert_string_equal(after(env, fault_trace_length(env) - 1, fault_choice_keep, "f"), "failed");
    rule.kind = FAULT_SHORT;
    rule.short_bytes = 3;
    assert_int_equal(fault_add(env, &rule), 0);
    assert_int_equal(io_pwrite(file, "partly", 6, 0, IO_DSYNC, NULL), -EIO);
    /* What it did is there to be read; durable it is by a sync. */
    assert_string_equal(dropped_now(env, "f"), "......");
    assert_string_equal(kept_now(env, "f"), "par...");
    assert_int_equal(io_sync(file), 0);
    assert_string_equal(dropped_now(env, "f"), "par...");
    io_close(file);
}

static void fault_crash__durable_write_over_an_unsynced_one__wins(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = named_file(env, "f");
    put(file, "aaaaaa", 0, 0);
    put(file, "bb", 2, IO_DSYNC);
    /* The same sector: what was in the cache for it landed with it, but the size is the durable
     * write's. */
    assert_string_equal(dropped_now(env, "f"), "aabb");
    assert_string_equal(kept_now(env, "f"), "aabbaa");
    static char wide[3 * SECTOR];
    memset(wide, 'w', sizeof wide);
    assert_int_equal(io_pwrite(file, wide, sizeof wide, 0, 0, NULL), 0);
    put(file, "cc", 0, IO_DSYNC); /* covers the first sector of the three alone */
    assert_string_equal(dropped_now(env, "f"), "ccww");
    struct io_env *crashed;
    for (int keep = 0; keep < 2; keep++) {
        char second[2];
        assert_int_equal(fault_crash(env, fault_trace_length(env),
                                     keep != 0 ? fault_choice_keep : fault_choice_drop, NULL, NULL,
                                     &crashed, NULL),
                         0);
        assert_int_equal(fault_peek(crashed, "f", SECTOR, second, 2), 0);
        assert_int_equal(second[0], keep != 0 ? 'w' : 0);
        assert_int_equal(fault_peek(crashed, "f", 0, second, 2), 0);
        assert_memory_equal(second, "cc", 2); /* never undone by the older one */
        io_env_close(crashed);
    }
    io_close(file);
}

/* Keeps things by the bits of a mask. */
static enum fault_fate by_mask(void *ctx, uint64_t index, bool is_name)
{
    (void)is_name;
    return (*(const uint64_t *)ctx >> index & 1) != 0 ? FAULT_KEEP : FAULT_DROP;
}

static void fault_crash__two_writes_to_one_sector__the_later_brings_the_earlier(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = named_file(env, "f");
    put(file, "......", 0, IO_DSYNC);
    put(file, "aa", 0, 0);
    put(file, "bb", 3, 0);
    static const char *const expected[] = {"......", "aa....", "aa.bb.", "aa.bb."};
    for (uint64_t mask = 0; mask < 4; mask++) {
        struct io_env *crashed;
        char back[7] = "";
        uint64_t undecided;
        assert_int_equal(
            fault_crash(env, fault_trace_length(env), by_mask, &mask, NULL, &crashed, &undecided),
            0);
        assert_int_equal(undecided, 2);
        assert_int_equal(fault_peek(crashed, "f", 0, back, 6), 0);
        assert_string_equal(back, expected[mask]);
        io_env_close(crashed);
    }
    io_close(file);
}

static void fault_crash__a_wide_write__each_block_has_its_own_fate(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = named_file(env, "f");
    static unsigned char wide[4 * BLOCK];
    memset(wide, 1, sizeof wide);
    assert_int_equal(io_pwrite(file, wide, sizeof wide, 0, IO_DSYNC, NULL), 0);
    memset(wide, 2, sizeof wide);
    assert_int_equal(io_pwrite(file, wide, sizeof wide, 0, 0, NULL), 0);
    for (uint64_t mask = 0; mask < 16; mask++) {
        struct io_env *crashed;
        uint64_t undecided;
        assert_int_equal(
            fault_crash(env, fault_trace_length(env), by_mask, &mask, NULL, &crashed, &undecided),
            0);
        assert_int_equal(undecided, 4);
        assert_int_equal(fault_peek(crashed, "f", 0, wide, sizeof wide), 0);
        for (size_t at = 0; at < sizeof wide; at++)
            assert_int_equal(wide[at], (mask >> (at / BLOCK) & 1) != 0 ? 2 : 1);
        io_env_close(crashed);
    }
    io_close(file);
}

static enum fault_fate always_tear(void *ctx, uint64_t index, bool is_name)
{
    (void)ctx;
    (void)index;
    (void)is_name;
    return FAULT_TEAR;
}

/* Bits of the sectors of a torn block that are new. */
static unsigned torn_sectors(struct io_env *env, uint64_t seed)
{
    const struct fault_options options = {.seed = seed};
    struct io_env *crashed;
    unsigned char block[BLOCK];
    unsigned sectors = 0;
    assert_int_equal(
        fault_crash(env, fault_trace_length(env), always_tear, NULL, &options, &crashed, NULL), 0);
    assert_int_equal(fault_peek(crashed, "f", 0, block, BLOCK), 0);
    for (size_t at = 0; at < BLOCK; at++) {
        assert_in_range(block[at], 1, 2);
        assert_int_equal(block[at], block[at / SECTOR * SECTOR]); /* whole sectors */
        if (block[at] == 2) sectors |= 1u << at / SECTOR;
    }
    io_env_close(crashed);
    return sectors;
}

static void fault_crash__torn_block__keeps_some_sectors_whole(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = named_file(env, "f");
    unsigned char block[BLOCK];
    memset(block, 1, BLOCK);
    assert_int_equal(io_pwrite(file, block, BLOCK, 0, IO_DSYNC, NULL), 0);
    memset(block, 2, BLOCK);
    assert_int_equal(io_pwrite(file, block, BLOCK, 0, 0, NULL), 0);
    bool seen[256] = {false};
    unsigned different = 0;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        unsigned sectors = torn_sectors(env, seed);
        assert_in_range(sectors, 1, 254); /* neither whole nor absent */
        assert_int_equal(sectors, torn_sectors(env, seed));
        different += seen[sectors] ? 0 : 1;
        seen[sectors] = true;
    }
    assert_true(different > 200);
    io_close(file);
}

/* ---- sizes ---- */

static uint64_t size_after(struct io_env *env, fault_choice *choice)
{
    struct io_env *crashed;
    struct io_file *file;
    uint64_t bytes;
    assert_int_equal(fault_crash(env, fault_trace_length(env), choice, NULL, NULL, &crashed, NULL),
                     0);
    assert_int_equal(io_open(crashed, "f", IO_READ, &file), 0);
    assert_int_equal(io_size(file, &bytes), 0);
    io_close(file);
    io_env_close(crashed);
    return bytes;
}

static void fault_crash__size_without_sync__is_dropped_or_kept(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = named_file(env, "f");
    put(file, "abc", 0, IO_DSYNC);
    assert_int_equal(size_after(env, fault_choice_drop), 3);
    assert_int_equal(io_truncate(file, 100000), 0);
    assert_int_equal(size_after(env, fault_choice_drop), 3);
    assert_int_equal(size_after(env, fault_choice_keep), 100000);
    assert_int_equal(io_sync(file), 0);
    assert_int_equal(size_after(env, fault_choice_drop), 100000);
    assert_int_equal(io_truncate(file, 1), 0);
    assert_int_equal(size_after(env, fault_choice_drop), 100000);
    assert_string_equal(dropped_now(env, "f"), "abc");
    assert_string_equal(kept_now(env, "f"), "a");
    assert_int_equal(io_sync(file), 0);
    assert_string_equal(dropped_now(env, "f"), "a");
    put(file, "xyz", 9000, 0); /* a kept block takes the size with it */
    assert_int_equal(size_after(env, fault_choice_drop), 1);
    assert_int_equal(size_after(env, fault_choice_keep), 9003);
    put(file, "xyz", 20000, IO_DSYNC);
    assert_int_equal(size_after(env, fault_choice_drop), 20003);
    io_close(file);
}

/* ---- names ---- */

static void fault_crash__name_without_a_directory_sync__is_dropped_or_kept(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = open_file(env, "f");
    put(file, "data", 0, IO_DSYNC);
    assert_string_equal(dropped_now(env, "f"), "(none)"); /* durable bytes without a name */
    assert_string_equal(kept_now(env, "f"), "data");
    assert_int_equal(io_sync(file), 0);
    assert_string_equal(dropped_now(env, "f"), "(none)"); /* a sync of the file is not enough */
    assert_int_equal(io_sync_dir(env, "."), 0);
    assert_string_equal(dropped_now(env, "f"), "data");

    assert_int_equal(io_rename(env, "f", "g"), 0);
    assert_string_equal(dropped_now(env, "f"), "data"); /* the old name is still there */
    assert_string_equal(dropped_now(env, "g"), "(none)");
    assert_string_equal(kept_now(env, "f"), "(none)");
    assert_string_equal(kept_now(env, "g"), "data");
    assert_int_equal(io_sync_dir(env, "."), 0);
    assert_string_equal(dropped_now(env, "f"), "(none)");
    assert_string_equal(dropped_now(env, "g"), "data");

    assert_int_equal(io_unlink(env, "g"), 0);
    assert_string_equal(dropped_now(env, "g"), "data");
    assert_string_equal(kept_now(env, "g"), "(none)");
    assert_int_equal(io_sync_dir(env, "."), 0);
    assert_string_equal(dropped_now(env, "g"), "(none)");
    io_close(file);
}

static void fault_crash__replaced_by_rename__is_old_or_new_and_never_neither(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = named_file(env, "manifest");
    put(file, "old", 0, IO_DSYNC);
    io_close(file);
    file = open_file(env, "manifest.tmp");
    put(file, "new", 0, 0);
    assert_int_equal(io_sync(file), 0);
    io_close(file);
    assert_int_equal(io_rename(env, "manifest.tmp", "manifest"), 0);
    for (uint64_t at = 6; at <= fault_trace_length(env); at++)
        for (uint64_t seed = 0; seed < 50; seed++) {
            struct io_env *crashed;
            char back[4] = "";
            uint64_t random = seed;
            assert_int_equal(
                fault_crash(env, at, fault_choice_seeded, &random, NULL, &crashed, NULL), 0);
            assert_int_equal(fault_peek(crashed, "manifest", 0, back, 3), 0);
            assert_true(strcmp(back, "old") == 0 || strcmp(back, "new") == 0);
            io_env_close(crashed);
        }
    assert_string_equal(dropped_now(env, "manifest"), "old");
    assert_string_equal(kept_now(env, "manifest"), "new");
}

static void fault_crash__rename_across_directories__wants_both_synced(void **state)
{
    struct io_env *env = *state;
    assert_int_equal(io_mkdir(env, "a"), 0);
    assert_int_equal(io_mkdir(env, "b"), 0);
    assert_int_equal(io_sync_dir(env, "."), 0);
    struct io_file *file = open_file(env, "a/f");
    put(file, "data", 0, IO_DSYNC);
    assert_int_equal(io_sync_dir(env, "a"), 0);
    assert_int_equal(io_rename(env, "a/f", "b/g"), 0);
    assert_int_equal(io_sync_dir(env, "b"), 0);
    assert_string_equal(dropped_now(env, "a/f"), "data");
    assert_string_equal(dropped_now(env, "b/g"), "(none)");
    assert_int_equal(io_sync_dir(env, "a"), 0);
    assert_string_equal(dropped_now(env, "a/f"), "(none)");
    assert_string_equal(dropped_now(env, "b/g"), "data");
    io_close(file);
}

static void fault_crash__directory_without_sync__goes_with_what_is_in_it(void **state)
{
    struct io_env *env = *state;
    assert_int_equal(io_mkdir(env, "d"), 0);
    struct io_file *file = open_file(env, "d/f");
    put(file, "data", 0, IO_DSYNC);
    assert_int_equal(io_sync_dir(env, "d"), 0);
    assert_string_equal(dropped_now(env, "d/f"), "(none)");
    assert_string_equal(kept_now(env, "d/f"), "data");
    struct io_env *crashed;
    assert_int_equal(
        fault_crash(env, fault_trace_length(env), fault_choice_drop, NULL, NULL, &crashed, NULL),
        0);
    assert_int_equal(io_mkdir(crashed, "d"), 0); /* it is not there */
    assert_int_equal(io_unlink(crashed, "d/f"), -ENOENT);
    io_env_close(crashed);
    io_close(file);
}

/* ---- environments made from others ---- */

static void fault_crash__of_a_crash__goes_on_from_there(void **state)
{
    struct io_env *env = *state, *second, *third;
    const struct fault_options options = {.record = true};
    struct io_file *file = named_file(env, "f");
    put(file, "one", 0, IO_DSYNC);
    put(file, "lost", 0, 0);
    io_close(file);
    assert_int_equal(
        fault_crash(env, fault_trace_length(env), fault_choice_drop, NULL, &options, &second, NULL),
        0);
    file = open_file(second, "f");
    assert_int_equal(fault_trace_length(second), 0);
    put(file, "two", 3, IO_DSYNC);
    put(file, "three", 6, 0);
    io_close(file);
    assert_int_equal(fault_crash(second, 2, fault_choice_drop, NULL, NULL, &third, NULL), 0);
    io_env_close(second); /* each lives on its own */
    char back[9] = "";
    assert_int_equal(fault_peek(third, "f", 0, back, 8), 0);
    assert_memory_equal(back, "onetwo\0\0", 8);
    io_env_close(third);
    assert_string_equal(kept_now(env, "f"), "lost");
}

static void fault_clone__changed__leaves_the_other_alone(void **state)
{
    struct io_env *env = *state, *copy;
    struct io_file *file = named_file(env, "f");
    put(file, "durable", 0, IO_DSYNC);
    put(file, "VOL", 0, 0);
    assert_int_equal(fault_clone(env, &copy), 0);
    assert_string_equal(dropped_now(copy, "f"), "durable");
    assert_string_equal(kept_now(copy, "f"), "VOLable");
    assert_int_equal(fault_poke(copy, "f", 3, "xx", 2), 0);
    assert_int_equal(fault_poke(copy, "none", 0, "x", 1), -ENOENT);
    char back[8] = "";
    assert_int_equal(fault_peek(copy, "f", 0, back, 7), 0);
    assert_string_equal(back, "VOLxxle");
    assert_int_equal(fault_peek(env, "f", 0, back, 7), 0);
    assert_string_equal(back, "VOLable");
    assert_int_equal(io_unlink(copy, "f"), 0);
    assert_string_equal(kept_now(env, "f"), "VOLable");
    io_env_close(copy);
    io_close(file);
}

static void fault_poke__damage__is_in_both_images(void **state)
{
    struct io_env *env = *state;
    struct io_file *file = named_file(env, "f");
    put(file, "abcdef", 0, IO_DSYNC);
    assert_int_equal(fault_poke(env, "f", 2, "?", 1), 0);
    assert_string_equal(dropped_now(env, "f"), "ab?def");
    char back[9];
    assert_int_equal(fault_peek(env, "f", 4, back, 9), 0);
    assert_memory_equal(back, "ef\0\0\0\0\0\0\0", 9);
    io_close(file);
}

/* ---- against a model, at random ---- */

#define FILES        3u
#define FILE_SECTORS 32u
#define STEPS        600u

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

struct story {
    struct io_env *env;
    struct io_file *files[FILES];
    struct io_queue *queue;
    unsigned char *bufs[8]; /* of the requests in flight */
    bool used[8];
};

/* Every sector says which write it comes from: the trace's op, which counts from the start. */
static void fill(unsigned char *buf, uint64_t sectors, uint64_t op)
{
    memset(buf, 0, sectors * SECTOR);
    for (uint64_t i = 0; i < sectors; i++)
        memcpy(buf + i * SECTOR, &op, sizeof op);
}

static void step_wait(struct story *s)
{
    struct io_event events[8];
    int n = io_queue_wait(s->queue, events, 8, 0);
    for (int i = 0; i < n; i++)
        s->used[events[i].user] = false;
}

/* One random operation. op: the number that the double gives to the next write or sync. */
static void step(struct story *s, uint64_t *random, uint64_t *op)
{
    uint64_t r = next_random(random);
    struct io_file *file = s->files[r % FILES];
    uint64_t sectors = 1 + r / 8 % 12, first = r / 128 % (FILE_SECTORS - sectors + 1);
    uint64_t slot = 0;
    while (slot < 8 && s->used[slot])
        slot++;
    unsigned kind = (unsigned)(r >> 32) % 10;
    if (kind < 6 && slot < 8) {
        fill(s->bufs[slot], sectors, (*op)++ + 1);
        struct io_request request = {.op = IO_OP_WRITE,
                                     .flags = kind == 0 ? IO_DSYNC : 0,
                                     .file = file,
                                     .buf = s->bufs[slot],
                                     .bytes = (uint32_t)(sectors * SECTOR),
                                     .offset = first * SECTOR,
                                     .user = slot};
        assert_int_equal(io_queue_submit(s->queue, &request, 1), 0);
        s->used[slot] = true;
    } else if (kind == 6 && slot < 8) {
        struct io_request request = {.op = IO_OP_SYNC, .file = file, .user = slot};
        (*op)++;
        assert_int_equal(io_queue_submit(s->queue, &request, 1), 0);
        s->used[slot] = true;
    } else if (kind == 7) {
        (*op)++;
        (void)!io_sync(file); /* fails at times */
    } else {
        step_wait(s);
    }
}

static struct io_env *make_story(uint64_t seed)
{
    const struct fault_options options = {.seed = seed, .record = true};
    struct story s = {0};
    uint64_t random = seed | 1, op = 0;
    assert_int_equal(fault_env_open(&options, &s.env), 0);
    for (uint32_t i = 0; i < FILES; i++)
        s.files[i] = open_file(s.env, (const char *[]){"a", "b", "c"}[i]);
    assert_int_equal(io_sync_dir(s.env, "."), 0);
    s.queue = open_queue(s.env);
    for (uint32_t i = 0; i < 8; i++)
        s.bufs[i] = mem_alloc_aligned(SECTOR, FILE_SECTORS * SECTOR);
    const struct fault_rule rule = {
        .kind = FAULT_ERROR, .targets = FAULT_ON_SYNC, .skip = 9, .times = 1, .error = EIO};
    for (int i = 0; i < 5; i++)
        assert_int_equal(fault_add(s.env, &rule), 0);
    for (uint32_t i = 0; i < STEPS; i++)
        step(&s, &random, &op);
    io_queue_close(s.queue);
    for (uint32_t i = 0; i < FILES; i++)
        io_close(s.files[i]);
    for (uint32_t i = 0; i < 8; i++)
        mem_free(s.bufs[i]);
    return s.env;
}

#define NEVER UINT64_MAX
struct version {                       /* of one sector: one write to it */
    uint64_t op, submitted, completed; /* completed: NEVER, or a point of the trace */
    bool durable;
};

/* Whether a write without IO_DSYNC that completed at `completed` is durable before `at`: the first
 * sync of its file that began afterwards and ended before `at` decides. */
static bool is_synced(const struct fault_event *events, uint64_t at, const char *path,
                      uint64_t completed)
{
    uint64_t ends[64], end_count = 0;
    for (uint64_t begin = completed + 1; begin < at; begin++) {
        if (events[begin].kind != FAULT_EVENT_SYNC_SUBMITTED) continue;
        if (strcmp(events[begin].path, path) != 0 || end_count == 64) continue;
        for (uint64_t end = begin + 1; end < at; end++)
            if (events[end].kind == FAULT_EVENT_SYNC_COMPLETED &&
                events[end].op == events[begin].op) {
                ends[end_count++] = end;
                break;
            }
    }
    uint64_t first = NEVER;
    for (uint64_t i = 0; i < end_count; i++)
        if (ends[i] < first) first = ends[i];
    return first != NEVER && events[first].result == 0;
}

/* The versions of one sector that exist at `at`, in the order of the trace. */
static uint32_t versions_of(const struct fault_event *events, uint64_t at, const char *path,
                            uint64_t sector, struct version *versions)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < at; i++) {
        const struct fault_event *e = &events[i];
        if (e->kind != FAULT_EVENT_WRITE_SUBMITTED || strcmp(e->path, path) != 0) continue;
        if (sector * SECTOR < e->offset || sector * SECTOR >= e->offset + e->bytes) continue;
        struct version v = {.op = e->op, .submitted = i, .completed = NEVER};
        for (uint64_t j = i + 1; j < at && v.completed == NEVER; j++)
            if (events[j].kind == FAULT_EVENT_WRITE_COMPLETED && events[j].op == e->op)
                v.completed = j;
        if (v.completed != NEVER)
            v.durable = (e->flags & IO_DSYNC) != 0 || is_synced(events, at, path, v.completed);
        versions[n++] = v;
    }
    return n;
}

/* Checks one sector of the three crash images at `at`. Returns how many versions it could have. */
static uint32_t check_sector(const struct fault_event *events, uint64_t at, const char *path,
                             uint64_t sector, uint64_t dropped, uint64_t kept, uint64_t seeded)
{
    static struct version versions[STEPS];
    uint32_t n = versions_of(events, at, path, sector, versions);
    const struct version *durable = NULL, *last_done = NULL, *last_in_flight = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const struct version *v = &versions[i];
        if (v->durable && (durable == NULL || v->completed > durable->completed)) durable = v;
        if (v->completed == NEVER)
            last_in_flight = v;
        else if (last_done == NULL || v->completed > last_done->completed)
            last_done = v;
    }
    uint64_t base = durable == NULL ? 0 : durable->op + 1;
    assert_int_equal(dropped, base);
    const struct version *last = last_in_flight != NULL ? last_in_flight : last_done;
    assert_int_equal(kept, last == NULL ? 0 : last->op + 1);
    uint32_t allowed = 1;
    bool found = seeded == base;
    for (uint32_t i = 0; i < n; i++) {
        const struct version *v = &versions[i];
        if (v == durable) continue;
        if (durable != NULL && v->completed < durable->completed) continue; /* overwritten */
        allowed++;
        found = found || seeded == v->op + 1;
    }
    assert_true(found);
    return allowed;
}

static uint64_t sector_value(struct io_env *env, const char *path, uint64_t sector)
{
    uint64_t value;
    assert_int_equal(fault_peek(env, path, sector * SECTOR, &value, sizeof value), 0);
    return value;
}

static void check_crash(struct io_env *env, const struct fault_event *events, uint64_t at,
                        uint64_t *random, uint64_t *open_sectors)
{
    struct io_env *dropped, *kept, *seeded;
    const struct fault_options options = {.seed = *random};
    assert_int_equal(fault_crash(env, at, fault_choice_drop, NULL, NULL, &dropped, NULL), 0);
    assert_int_equal(fault_crash(env, at, fault_choice_keep, NULL, NULL, &kept, NULL), 0);
    assert_int_equal(fault_crash(env, at, fault_choice_seeded, random, &options, &seeded, NULL), 0);
    static const char *const paths[FILES] = {"a", "b", "c"};
    for (uint32_t file = 0; file < FILES && at > FILES; file++)
        for (uint64_t sector = 0; sector < FILE_SECTORS; sector++)
            *open_sectors += check_sector(events, at, paths[file], sector,
                                          sector_value(dropped, paths[file], sector),
                                          sector_value(kept, paths[file], sector),
                                          sector_value(seeded, paths[file], sector)) > 1;
    io_env_close(dropped);
    io_env_close(kept);
    io_env_close(seeded);
}

static uint64_t base_seed(void)
{
    const char *text = getenv("RF_SEED");
    uint64_t seed =
        text != NULL ? strtoull(text, NULL, 0) : (uint64_t)clock_read_ns(CLOCK_REALTIME);
    print_message("RF_SEED=%" PRIu64 "\n", seed);
    return seed;
}

static void fault_crash__random_story__agrees_with_the_model(void **state)
{
    (void)state;
    uint64_t seed = base_seed(), open_sectors = 0, crashes = 0;
    for (uint64_t round = 0; round < 6; round++) {
        struct io_env *env = make_story(seed + round);
        uint64_t length = fault_trace_length(env), random = seed + round;
        struct fault_event *events = calloc(length, sizeof *events);
        assert_non_null(events);
        for (uint64_t at = 0; at < length; at++)
            fault_trace_event(env, at, &events[at]);
        for (uint64_t at = round % 13; at <= length; at += 13) {
            check_crash(env, events, at, &random, &open_sectors);
            crashes++;
        }
        free(events);
        io_env_close(env);
    }
    print_message("%" PRIu64 " points, %" PRIu64 " sectors with more than one outcome\n", crashes,
                  open_sectors);
    assert_true(open_sectors > 1000);
}

/* A number for everything in an image. */
static uint64_t digest(struct io_env *env)
{
    uint64_t sum = 0;
    for (uint32_t file = 0; file < FILES; file++) {
        unsigned char bytes[FILE_SECTORS * SECTOR];
        if (fault_peek(env, (const char *[]){"a", "b", "c"}[file], 0, bytes, sizeof bytes) != 0)
            continue;
        for (size_t i = 0; i < sizeof bytes; i++)
            sum = sum * 31 + bytes[i];
    }
    return sum;
}

static uint64_t digest_at(struct io_env *env, uint64_t at, uint64_t seed)
{
    struct io_env *crashed;
    const struct fault_options options = {.seed = seed};
    assert_int_equal(fault_crash(env, at, fault_choice_seeded, &seed, &options, &crashed, NULL), 0);
    uint64_t sum = digest(crashed);
    io_env_close(crashed);
    return sum;
}

static void fault_crash__same_point_and_seed__is_the_same_image_in_any_order(void **state)
{
    (void)state;
    uint64_t seed = base_seed();
    struct io_env *env = make_story(seed);
    uint64_t length = fault_trace_length(env), different = 0;
    uint64_t *forward = calloc(length + 1, sizeof *forward);
    assert_non_null(forward);
    for (uint64_t at = 0; at <= length; at++)
        forward[at] = digest_at(env, at, seed);
    for (uint64_t at = length + 1; at-- > 0;) /* backwards: by way of the checkpoints */
        assert_int_equal(digest_at(env, at, seed), forward[at]);
    for (uint64_t i = 0, random = seed | 1; i < 200; i++) {
        uint64_t at = next_random(&random) % (length + 1);
        assert_int_equal(digest_at(env, at, seed), forward[at]);
        different += digest_at(env, at, seed + 1) != forward[at] ? 1 : 0;
    }
    assert_true(different > 50);
    free(forward);
    io_env_close(env);
    /* The whole story again: the same images. */
    env = make_story(seed);
    assert_int_equal(fault_trace_length(env), length);
    uint64_t first = digest_at(env, length / 2, seed);
    io_env_close(env);
    env = make_story(seed);
    assert_int_equal(digest_at(env, length / 2, seed), first);
    io_env_close(env);
}

/* Tens of thousands of images of files of several MiB: said, and bounded generously. */
static void fault_crash__many_images_of_large_files__are_cheap(void **state)
{
    struct io_env *env = *state;
    const size_t bytes = 4u << 20;
    unsigned char *block = mem_alloc_aligned(BLOCK, BLOCK), *all = malloc(bytes);
    assert_non_null(all);
    memset(all, 3, bytes);
    struct io_file *files[4];
    for (int i = 0; i < 4; i++) {
        files[i] = named_file(env, (const char *[]){"1", "2", "3", "4"}[i]);
        assert_int_equal(io_pwrite(files[i], all, bytes, 0, IO_DSYNC, NULL), 0);
    }
    free(all);
    for (uint64_t i = 0; i < 2500; i++) {
        memset(block, (int)i, BLOCK);
        assert_int_equal(io_pwrite(files[i % 4], block, BLOCK, i % 1024 * BLOCK,
                                   i % 3 != 0 ? IO_DSYNC : 0, NULL),
                         0);
        if (i % 64 == 0) assert_int_equal(io_sync(files[i % 4]), 0);
    }
    int64_t before = clock_read_ns(CLOCK_MONOTONIC);
    uint64_t images = 0, seed = 1;
    for (uint64_t at = 0; at <= fault_trace_length(env); at++)
        for (int i = 0; i < 2; i++, images++) {
            struct io_env *crashed;
            assert_int_equal(fault_crash(env, at, fault_choice_seeded, &seed, NULL, &crashed, NULL),
                             0);
            io_env_close(crashed);
        }
    int64_t took_us = (clock_read_ns(CLOCK_MONOTONIC) - before) / 1000;
    print_message("%" PRIu64 " crash images of 16 MiB in %" PRId64 " us\n", images, took_us);
    assert_true(images > 10000);
    assert_true(took_us / (int64_t)images < 20000); /* copying 16 MiB would take as long */
    for (int i = 0; i < 4; i++)
        io_close(files[i]);
    mem_free(block);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(fault_crash__write_without_sync__is_dropped_or_kept),
        CASE(fault_crash__write_completed_after_the_sync_was_submitted__is_not_durable),
        CASE(fault_crash__write_held_in_flight_during_a_sync__is_not_durable),
        CASE(fault_crash__sync_failed_once__a_later_sync_does_not_make_up_for_it),
        CASE(fault_crash__failed_and_short_writes__leave_what_they_did),
        CASE(fault_crash__durable_write_over_an_unsynced_one__wins),
        CASE(fault_crash__two_writes_to_one_sector__the_later_brings_the_earlier),
        CASE(fault_crash__a_wide_write__each_block_has_its_own_fate),
        CASE(fault_crash__torn_block__keeps_some_sectors_whole),
        CASE(fault_crash__size_without_sync__is_dropped_or_kept),
        CASE(fault_crash__name_without_a_directory_sync__is_dropped_or_kept),
        CASE(fault_crash__replaced_by_rename__is_old_or_new_and_never_neither),
        CASE(fault_crash__rename_across_directories__wants_both_synced),
        CASE(fault_crash__directory_without_sync__goes_with_what_is_in_it),
        CASE(fault_crash__of_a_crash__goes_on_from_there),
        CASE(fault_clone__changed__leaves_the_other_alone),
        CASE(fault_poke__damage__is_in_both_images),
        CASE(fault_crash__random_story__agrees_with_the_model),
        CASE(fault_crash__same_point_and_seed__is_the_same_image_in_any_order),
        CASE(fault_crash__many_images_of_large_files__are_cheap),
    };
    return cmocka_run_group_tests_name("crash", tests, NULL, NULL);
}
