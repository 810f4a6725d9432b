/* Every bound of the two tables that a log stands on, from both sides: the manifest's and the
 * segment header's. */
#include "base/bytes.h"
#include "base/errors.h"
#include "base/hash.h"
#include "io/fault.h"
#include "wal/manifest.h"
#include "wal/segment.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* ---- the manifest ---- */

struct whole {
    struct wal_manifest m;
    uint32_t region_lane[3];
    struct wal_sealed sealed[2];
    struct wal_sealed_file file;
    struct wal_kept_delete deletes[2];
};

static char name_buf[WAL_FILE_NAME_MAX + 2];

static void good(struct whole *w)
{
    memset(w, 0, sizeof *w);
    strcpy(name_buf, "f");
    w->file = (struct wal_sealed_file){.name = name_buf};
    w->sealed[0] =
        (struct wal_sealed){.region = 0, .partition = 5, .file_count = 1, .files = &w->file};
    w->sealed[1] = (struct wal_sealed){.region = 0, .partition = 6};
    w->deletes[0] = (struct wal_kept_delete){.region = 1, .lsn = 64};
    w->deletes[1] = (struct wal_kept_delete){.region = 1, .lsn = 128};
    w->m = (struct wal_manifest){.segment_bytes = 1 << 20,
                                 .block_bytes = 4096,
                                 .lanes = 2,
                                 .partition_interval = 1,
                                 .sequence = 1,
                                 .head = {1, 1},
                                 .regions = 3,
                                 .region_lane = w->region_lane,
                                 .sealed_count = 2,
                                 .sealed = w->sealed,
                                 .delete_count = 2,
                                 .deletes = w->deletes};
}

static void expect_limit(const struct whole *w, const char *what)
{
    struct err_msg msg = {0};
    assert_int_equal(wal_manifest_check(&w->m, &msg), -RFE_LIMIT);
    if (strstr(msg.text, what) == NULL) fail_msg("\"%s\" is not named: %s", what, msg.text);
}
static void expect_good(const struct whole *w)
{
    assert_int_equal(wal_manifest_check(&w->m, NULL), 0);
}

#define BAD(w, field, value, what) \
    do {                           \
        good(&(w));                \
        (w).m.field = (value);     \
        expect_limit(&(w), what);  \
    } while (0)
#define GOOD(w, field, value)  \
    do {                       \
        good(&(w));            \
        (w).m.field = (value); \
        expect_good(&(w));     \
    } while (0)

static void wal_bounds__manifest__each_field_from_both_sides(void **state)
{
    (void)state;
    static uint32_t many[WAL_REGIONS_MAX + 1];
    struct whole w;
    good(&w);
    expect_good(&w);
    GOOD(w, segment_bytes, WAL_SEGMENT_BYTES_MAX);
    BAD(w, segment_bytes, WAL_SEGMENT_BYTES_MAX * 2, "segment_bytes");
    BAD(w, segment_bytes, WAL_SEGMENT_BYTES_MIN / 2, "segment_bytes");
    BAD(w, segment_bytes, WAL_SEGMENT_BYTES_MIN * 3, "segment_bytes");
    GOOD(w, block_bytes, WAL_BLOCK_BYTES_MIN);
    GOOD(w, block_bytes, WAL_BLOCK_BYTES_MAX);
    BAD(w, block_bytes, WAL_BLOCK_BYTES_MIN / 2, "block_bytes");
    BAD(w, block_bytes, WAL_BLOCK_BYTES_MAX * 2, "block_bytes");
    BAD(w, block_bytes, 5000, "block_bytes");
    BAD(w, lanes, 0, "lanes");
    BAD(w, lanes, WAL_LANES_MAX + 1, "lanes");
    GOOD(w, time_unit, WAL_TIME_MS);
    BAD(w, time_unit, (enum wal_time_unit)(WAL_TIME_MS + 1), "time_unit");
    BAD(w, partition_interval, 0, "partition_interval");
    BAD(w, sequence, 0, "sequence");
    BAD(w, head[1], 0, "head");
    GOOD(w, head[1], WAL_SEGMENT_NUMBER_MAX);
    BAD(w, head[1], WAL_SEGMENT_NUMBER_MAX + 1, "head");
    BAD(w, regions, 0, "regions");
    good(&w);
    w.m.region_lane = many;
    w.m.regions = WAL_REGIONS_MAX;
    expect_good(&w);
    w.m.regions++;
    expect_limit(&w, "regions");
    GOOD(w, region_lane[2], 1);
    BAD(w, region_lane[2], 2, "lane");
}

static void wal_bounds__manifest_lists__orders_and_names(void **state)
{
    (void)state;
    struct whole w;
    BAD(w, sealed[1].region, 3, "sealed region");
    BAD(w, sealed[0].region, 1, "order of sealed");
    BAD(w, sealed[1].partition, 5, "order of sealed");
    good(&w);
    w.sealed[1] = (struct wal_sealed){.region = 1, .partition = 5};
    expect_good(&w);
    BAD(w, deletes[1].region, 3, "delete's region");
    BAD(w, deletes[0].region, 2, "order of deletes");
    BAD(w, deletes[1].lsn, 64, "order of deletes");
    good(&w);
    w.deletes[0].region = 0;
    w.deletes[1].lsn = 1; /* of another lane, so of no order with the first */
    expect_good(&w);
    good(&w);
    name_buf[0] = '\0';
    expect_limit(&w, "file name");
    memset(name_buf, 'n', WAL_FILE_NAME_MAX);
    name_buf[WAL_FILE_NAME_MAX] = '\0';
    expect_good(&w);
    name_buf[WAL_FILE_NAME_MAX] = 'n';
    name_buf[WAL_FILE_NAME_MAX + 1] = '\0';
    expect_limit(&w, "file name");
}

static void wal_bounds__manifest_of_more_than_a_gib__not_written_and_not_read(void **state)
{
    (void)state;
    struct whole w;
    uint8_t *bytes;
    size_t n;
    struct err_msg msg = {0};
    good(&w);
    w.deletes[0].payload_bytes = w.deletes[1].payload_bytes = 600u << 20;
    assert_int_equal(wal_manifest_encode(&w.m, &msg, &bytes, &n), -RFE_LIMIT);
    assert_non_null(strstr(msg.text, "too many"));
    struct io_env *env;
    struct io_file *file;
    const struct fault_options o = {.seed = 0};
    struct wal_manifest read;
    assert_int_equal(fault_env_open(&o, &env), 0);
    assert_int_equal(io_open(env, WAL_MANIFEST_NAME, IO_WRITE | IO_CREATE, &file), 0);
    assert_int_equal(io_truncate(file, WAL_MANIFEST_BYTES_MAX + 1), 0);
    io_close(file);
    msg = (struct err_msg){0};
    assert_int_equal(wal_manifest_read(env, &msg, &read), -RFE_CORRUPT);
    assert_non_null(strstr(msg.text, "expected at most"));
    io_env_close(env);
}

/* ---- the segment's header ---- */

static struct wal_segment_head good_head(void)
{
    struct wal_segment_head h = {.segment_bytes = 1 << 20,
                                 .block_bytes = 4096,
                                 .lane = 1,
                                 .number = 7,
                                 .generation = 1,
                                 .salt = 99};
    memset(h.uuid, 3, sizeof h.uuid);
    return h;
}

/* The writer takes no bad header, so the bytes are changed in a good one; offsets as in
 * docs/format/wal.md. */
static bool is_valid(uint32_t at, uint32_t width, uint64_t value)
{
    static uint8_t block[WAL_BLOCK_BYTES_MAX * 2];
    enum { BLOCK_AT = 40, CHECKSUM_AT = 88 };
    const struct wal_segment_head h = good_head();
    struct wal_segment_head out;
    memset(block, 0, sizeof block);
    wal_segment_head_encode(block, &h);
    if (width == 4)
        store_u32(block + at, (uint32_t)value);
    else
        store_u64(block + at, value);
    store_u64(block + CHECKSUM_AT, hash64(block, CHECKSUM_AT, 0));
    uint32_t bytes = at == BLOCK_AT ? (uint32_t)value : h.block_bytes;
    return wal_segment_head_decode(block, bytes, &out) == WAL_SEGMENT_HEAD_VALID;
}

static void wal_bounds__segment_header__each_field_from_both_sides(void **state)
{
    (void)state;
    static const struct {
        uint32_t at, width;
        uint64_t value;
        bool valid;
    } cases[] = {
        {12, 4, 0, true}, /* lane */
        {12, 4, WAL_LANES_MAX - 1, true},
        {12, 4, WAL_LANES_MAX, false},
        {32, 8, WAL_SEGMENT_BYTES_MAX, true}, /* segment_bytes */
        {32, 8, WAL_SEGMENT_BYTES_MAX * 2, false},
        {32, 8, WAL_SEGMENT_BYTES_MIN / 2, false},
        {32, 8, WAL_SEGMENT_BYTES_MIN * 3, false},
        {40, 4, 512, true}, /* block_bytes */
        {40, 4, WAL_BLOCK_BYTES_MAX, true},
        {40, 4, WAL_BLOCK_BYTES_MAX * 2, false},
        {40, 4, 256, false},
        {40, 4, 4095, false},
        {48, 8, 0, false}, /* number */
        {48, 8, 1, true},
        {48, 8, WAL_SEGMENT_NUMBER_MAX, true},
        {48, 8, WAL_SEGMENT_NUMBER_MAX + 1, false},
        {56, 8, 0, false}, /* generation */
        {64, 8, 0, false}, /* salt */
        {44, 4, 1, false}, /* reserved */
        {8, 4, 0, false},  /* version */
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (is_valid(cases[i].at, cases[i].width, cases[i].value) != cases[i].valid)
            fail_msg("case %u", i);
}

/* A whole header, of another segment than the one that it is read as. */
static void wal_bounds__segment_header_of_another__each_difference_is_seen(void **state)
{
    (void)state;
    struct io_env *env;
    struct io_file *file;
    const struct fault_options o = {.seed = 0};
    assert_int_equal(fault_env_open(&o, &env), 0);
    assert_int_equal(io_open(env, "s", IO_READ | IO_WRITE | IO_CREATE, &file), 0);
    assert_int_equal(io_truncate(file, 1 << 20), 0);
    const struct wal_segment_head h = good_head();
    assert_int_equal(wal_segment_head_write_new(file, &h), 0);
    for (int i = 0; i < 6; i++) {
        struct wal_segment_id id = {.segment_bytes = h.segment_bytes,
                                    .block_bytes = h.block_bytes,
                                    .lane = h.lane,
                                    .number = h.number};
        memcpy(id.uuid, h.uuid, sizeof id.uuid);
        if (i == 1) id.uuid[15] ^= 1;
        if (i == 2) id.segment_bytes = 1 << 21;
        if (i == 3) id.block_bytes = 8192;
        if (i == 4) id.lane++;
        if (i == 5) id.number++;
        struct wal_segment_head out;
        struct err_msg msg = {0};
        int weak;
        int rc = wal_segment_head_read(file, &id, "s", &msg, &out, &weak);
        if (i == 0) assert_int_equal(rc, 0);
        if (i > 0) assert_int_not_equal(rc, 0);
        if (i > 0) assert_true(msg.text[0] != '\0');
    }
    io_close(file);
    io_env_close(env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_bounds__manifest__each_field_from_both_sides),
        cmocka_unit_test(wal_bounds__manifest_lists__orders_and_names),
        cmocka_unit_test(wal_bounds__manifest_of_more_than_a_gib__not_written_and_not_read),
        cmocka_unit_test(wal_bounds__segment_header__each_field_from_both_sides),
        cmocka_unit_test(wal_bounds__segment_header_of_another__each_difference_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
