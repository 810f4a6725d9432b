/* A directory of format version 1 that was written once and is kept: every later version reads it.
 *
 * `test_wal_golden make DIR` writes such a directory anew, for the record of how this one was made;
 * the kept one is never rewritten. */
#include "tests/lib/log_builder.h"
#include "tests/lib/tempdir.h"
#include "wal/dir.h"
#include "wal/replay.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEGMENT = 1 << 20, BLOCK = 4096, FIRST = 2, SEGMENTS = 4 };

/* ---- how it was made ---- */

static void make_log(struct log_builder *b)
{
    builder_init(b, SEGMENT, BLOCK, SEGMENTS, FIRST, 20261130, false);
    builder_data(b, "one");
    builder_group(b);
    uint64_t fenced = builder_data(b, "fenced");
    builder_append(b, WAL_RECORD_DELETE, "fenced too", 11);
    builder_fence(b, fenced);
    uint64_t aborted = builder_data(b, "aborted");
    builder_abort(b, &aborted, 1);
    builder_void(b, 256);
    builder_append(b, WAL_RECORD_MARK, NULL, 0);
    builder_group(b);
    uint64_t torn = builder_data(b, "torn");
    uint64_t durable = b->mark;
    builder_group(b);
    b->mark = durable;
    builder_data(b, "discarded");
    *(builder_at(b, torn) + WAL_RECORD_HEAD_BYTES) ^= 0x20;
    builder_cut(b, torn);
    builder_data(b, "two");
    builder_next_segment(b);
    builder_data(b, "three");
    builder_group(b);
    uint64_t resumed = b->lsn;
    builder_data(b, "answered unknown");
    b->head[2].cut_lsn = resumed;
    b->head[2].mark = resumed;
    b->head[2].generation++;
    builder_heads(b);
    b->lsn = lsn_first(FIRST + 2, SEGMENT, BLOCK);
    b->salt = b->head[2].salt;
    b->mark = resumed;
    builder_append(b, WAL_RECORD_DELETE, "four", 5);
    builder_close(b);
    builder_group(b);
}

static void make_manifest(struct io_env *env, const struct log_builder *b)
{
    static uint32_t region_lane[2] = {0, 0};
    static char name[] = "r0-p-1.tsfile";
    static uint8_t payload[] = {1, 2, 3};
    struct wal_sealed_file file = {name, 4096, 0x0123456789abcdef};
    struct wal_sealed sealed = {
        .region = 1, .partition = -1, .through_lsn = 3 * SEGMENT, .file_count = 1, .files = &file};
    struct wal_kept_delete kept = {1, 5000, sizeof payload, payload};
    struct wal_manifest m = {.segment_bytes = SEGMENT,
                             .block_bytes = BLOCK,
                             .lanes = 1,
                             .time_unit = WAL_TIME_MS,
                             .partition_interval = 604800000,
                             .sequence = 3,
                             .catalog_generation = 77,
                             .version_obeyed = 5,
                             .head = {FIRST},
                             .regions = 2,
                             .region_lane = region_lane,
                             .sealed_count = 1,
                             .sealed = &sealed,
                             .delete_count = 1,
                             .deletes = &kept};
    memcpy(m.uuid, b->head[0].uuid, sizeof m.uuid);
    CHECK(wal_manifest_write(env, &m, NULL) == 0);
}

static int make(const char *path)
{
    struct log_builder b;
    struct io_env *env = NULL;
    make_log(&b);
    CHECK(io_env_open(path, &env) == 0);
    int rc = io_mkdir(env, ".");
    CHECK(rc == 0 || rc == -EEXIST);
    builder_write_files(&b, env);
    make_manifest(env, &b);
    io_env_close(env);
    builder_deinit(&b);
    return 0;
}

/* ---- reading it ---- */

static int note(void *ctx, const struct wal_record_head *h, const uint8_t *payload, uint64_t lsn)
{
    char *text = ctx;
    snprintf(text + strlen(text), 64, "%s %s %lu\n", wal_record_type_name(h->type),
             (const char *)payload, (unsigned long)lsn);
    return 0;
}

static void replay_lane(const struct wal_dir *dir, bool read_only, char *text,
                        struct wal_replay_result *r)
{
    const struct wal_dir_lane *lane = &dir->lane[0];
    struct wal_live_segment live[SEGMENTS];
    assert_int_equal(lane->live_count, SEGMENTS);
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        live[i] = (struct wal_live_segment){.number = lane->live[i].number,
                                            .file = lane->live[i].file,
                                            .image = aligned_alloc(4096, SEGMENT)};
        assert_non_null(live[i].image);
    }
    struct wal_replay_options o = {.env = dir->env,
                                   .segment_bytes = dir->manifest.segment_bytes,
                                   .block_bytes = dir->manifest.block_bytes,
                                   .head_number = dir->manifest.head[0],
                                   .segments = live,
                                   .count = SEGMENTS,
                                   .read_only = read_only,
                                   .record = note,
                                   .ctx = text};
    memcpy(o.uuid, dir->manifest.uuid, sizeof o.uuid);
    struct err_msg msg = {0};
    text[0] = '\0';
    if (wal_replay(&o, &msg, r) != 0) fail_msg("%s", msg.text);
    for (uint32_t i = 0; i < SEGMENTS; i++)
        free(live[i].image);
}

static const char wanted[] = "data one 2101248\n"
                             "data two 2117632\n"
                             "data three 3149824\n"
                             "delete four 4198400\n";

static void expect_contents(const char *path, bool read_only)
{
    struct io_env *env = NULL;
    struct wal_dir dir;
    struct err_msg msg = {0};
    assert_int_equal(io_env_open(path, &env), 0);
    struct wal_dir_options o = {.env = env, .read_only = read_only, .wait_ns = 5000000000};
    if (wal_dir_open(&o, &msg, &dir) != 0) fail_msg("%s", msg.text);
    const struct wal_manifest *m = &dir.manifest;
    assert_int_equal(m->time_unit, WAL_TIME_MS);
    assert_int_equal(m->partition_interval, 604800000);
    assert_int_equal(m->catalog_generation, 77);
    assert_int_equal(m->version_obeyed, 5);
    assert_int_equal(m->regions, 2);
    assert_int_equal(m->sealed_count, 1);
    assert_int_equal(m->sealed[0].partition, -1);
    assert_string_equal(m->sealed[0].files[0].name, "r0-p-1.tsfile");
    assert_int_equal(m->sealed[0].files[0].checksum, 0x0123456789abcdef);
    assert_int_equal(m->delete_count, 1);
    assert_int_equal(m->deletes[0].payload[2], 3);

    char text[1024];
    struct wal_replay_result r;
    replay_lane(&dir, read_only, text, &r);
    assert_string_equal(text, wanted);
    assert_int_equal(r.verdict.kind, WAL_VERDICT_CLEAN);
    assert_int_equal(r.voided, 3);
    assert_int_equal(r.verdict.end_lsn, 4 * SEGMENT + 2 * BLOCK);
    wal_replay_result_deinit(&r);
    wal_dir_close(&dir);
    io_env_close(env);
}

static void wal_golden__version_1__is_read(void **state)
{
    (void)state;
    expect_contents(RF_SOURCE_DIR "/tests/golden/wal-v1", true);
}

/* A copy, opened for writing: its locks, owner file and header check do no harm to it. */
static void wal_golden__version_1__is_opened_for_writing(void **state)
{
    (void)state;
    char path[TEMPDIR_BYTES], command[2 * TEMPDIR_BYTES + 128];
    tempdir_make(path);
    snprintf(command, sizeof command, "cp -r '%s/tests/golden/wal-v1/.' '%s' && chmod -R u+w '%s'",
             RF_SOURCE_DIR, path, path);
    assert_int_equal(system(command), 0);
    expect_contents(path, false);
    expect_contents(path, true);
    tempdir_remove(path);
}

/* What is written today is byte for byte what was kept: the format has not moved by accident. */
static void wal_golden__version_1__is_what_is_written_today(void **state)
{
    (void)state;
    char path[TEMPDIR_BYTES], command[2 * TEMPDIR_BYTES + 128];
    tempdir_make(path);
    assert_int_equal(make(path), 0);
    snprintf(command, sizeof command, "diff -r '%s/tests/golden/wal-v1' '%s'", RF_SOURCE_DIR, path);
    assert_int_equal(system(command), 0);
    tempdir_remove(path);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "make") == 0) return make(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_golden__version_1__is_read),
        cmocka_unit_test(wal_golden__version_1__is_opened_for_writing),
        cmocka_unit_test(wal_golden__version_1__is_what_is_written_today),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
