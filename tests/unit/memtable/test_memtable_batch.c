/* The bytes of batches and deletes: golden bytes, and what the checks let through. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "memtable/batch.h"
#include "tests/lib/make_batch.h"
#include "tests/lib/read_batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const double doubles[] = {1.5, -2.25, 0.0};
static const uint32_t ints[] = {7, 8, 9};
#define VALUE(x)        \
    {                   \
        &(x), sizeof(x) \
    }

/* Two tablets: three rows of two devices (one of which spans two partitions) with a double, a text
 * with a null and a column that is null in every row; one row without columns. */
static uint32_t sample(uint8_t **payload_out)
{
    const struct make_value keys[] = {{"aa", 2}, {"b", 1}};
    const struct make_row rows0[] = {{0, -1}, {0, 0}, {1, INT64_MAX}};
    const struct make_value column0[] = {VALUE(doubles[0]), VALUE(doubles[1]), VALUE(doubles[2])};
    const struct make_value column1[] = {{"xyz", 3}, {NULL, 0}, {"", 0}};
    const struct make_column columns0[] = {{11, 4, column0}, {12, 5, column1}, {13, 1, NULL}};
    const struct make_row rows1[] = {{1, INT64_MIN}};
    const struct make_tablet tablets[] = {
        {.incarnation = 5, .row_count = 3, .rows = rows0, .column_count = 3, .columns = columns0},
        {.incarnation = 5, .row_count = 1, .rows = rows1},
    };
    const struct make_batch batch = {.region = 3,
                                     .tablet_count = 2,
                                     .tablets = tablets,
                                     .interval = 100,
                                     .device_count = 2,
                                     .keys = keys};
    return make_batch(&batch, payload_out);
}

static uint32_t sample_delete(uint8_t **payload_out, bool all, uint32_t column_count)
{
    static const uint32_t columns[] = {21, 22, 23};
    const struct batch_key keys[] = {{"", 0}, {"a", 1}, {"ab", 2}, {"b", 1}};
    const struct batch_delete delete_ = {
        .region = 2,
        .incarnation = 9,
        .column_count = column_count,
        .columns = columns,
        .all_devices = all,
        .device_count = all ? 0 : 4,
        .time_from = INT64_MIN,
        .time_to = 1000,
    };
    uint64_t bytes = batch_delete_bytes(&delete_, keys);
    uint8_t *payload = mem_alloc_aligned(64, bytes);
    assert_non_null(payload);
    memset(payload, 0xa5, bytes);
    batch_encode_delete(payload, &delete_, keys);
    *payload_out = payload;
    return (uint32_t)bytes;
}

/* Numbers of w bytes at offsets, as the table in batch.h has them. */
struct golden {
    uint32_t off;
    uint32_t width;
    uint64_t value;
};

static void check_golden(const uint8_t *payload, const struct golden *golden, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t found = 0;
        for (uint32_t b = golden[i].width; b-- > 0;)
            found = found << 8 | payload[golden[i].off + b];
        if (found != golden[i].value)
            fail_msg("offset %u: expected %llx, found %llx", golden[i].off,
                     (unsigned long long)golden[i].value, (unsigned long long)found);
    }
}

static void batch_encode__sample__bytes_of_the_table(void **state)
{
    (void)state;
    uint8_t *payload;
    uint32_t bytes = sample(&payload);
    /* head 32, groups 64 -> 96, devices 32 -> 128, fragments 4 * 40 -> 288, columns 48 -> 336,
     * keys 3 -> 344, group 0: times 24 -> 368, doubles -> 392, bitmap -> 400, positions -> 416,
     * text -> 424, group 1: times -> 432 */
    static const struct golden golden[] = {
        {0, 2, 1},
        {2, 2, 2},
        {4, 4, 3},
        {8, 4, 2},
        {12, 4, 4},
        {16, 4, 96},
        {20, 4, 128},
        {24, 8, 0},
        /* groups */
        {32, 8, 5},
        {40, 4, 3},
        {44, 4, 3},
        {48, 4, 288},
        {52, 4, 344},
        {56, 4, 0},
        {60, 4, 3},
        {64, 8, 5},
        {72, 4, 1},
        {76, 4, 0},
        {80, 4, 336},
        {84, 4, 424},
        {88, 4, 3},
        {92, 4, 1},
        /* devices */
        {96, 4, 336},
        {100, 4, 2},
        {104, 4, 0},
        {108, 4, 0},
        {112, 4, 338},
        {116, 4, 1},
        {120, 4, 0},
        {124, 4, 0},
        /* fragments */
        {128, 4, 0},
        {132, 4, 0},
        {136, 4, 0},
        {140, 4, 1},
        {144, 8, UINT64_MAX},
        {152, 8, UINT64_MAX},
        {160, 8, UINT64_MAX},
        {168, 4, 0},
        {172, 4, 0},
        {176, 4, 1},
        {180, 4, 1},
        {184, 8, 0},
        {192, 8, 0},
        {200, 8, 0},
        {208, 4, 0},
        {212, 4, 1},
        {216, 4, 2},
        {220, 4, 1},
        {224, 8, INT64_MAX / 100},
        {232, 8, INT64_MAX},
        {240, 8, INT64_MAX},
        {248, 4, 1},
        {252, 4, 1},
        {256, 4, 0},
        {260, 4, 1},
        {264, 8, (uint64_t)(INT64_MIN / 100 - 1)},
        {272, 8, (uint64_t)INT64_MIN},
        {280, 8, (uint64_t)INT64_MIN},
        /* columns */
        {288, 4, 11},
        {292, 1, 4},
        {293, 1, 0},
        {294, 2, 0},
        {296, 4, 368},
        {300, 4, 0},
        {304, 4, 12},
        {308, 1, 5},
        {309, 1, 1},
        {310, 2, 0},
        {312, 4, 400},
        {316, 4, 392},
        {320, 4, 13},
        {324, 1, 1},
        {325, 1, 2},
        {326, 2, 0},
        {328, 4, 0},
        {332, 4, 0},
        /* keys "aa" "b" and a gap */
        {336, 8, 0x626161},
        /* data */
        {344, 8, UINT64_MAX},
        {352, 8, 0},
        {360, 8, INT64_MAX},
        {368, 8, 0x3ff8000000000000},
        {376, 8, 0xc002000000000000},
        {384, 8, 0},
        {392, 8, 2},
        {400, 4, 0},
        {404, 4, 3},
        {408, 4, 3},
        {412, 4, 3},
        {416, 8, 0x7a7978},
        {424, 8, (uint64_t)INT64_MIN},
    };
    assert_int_equal(bytes, 432);
    check_golden(payload, golden, sizeof golden / sizeof golden[0]);
    assert_int_equal(batch_check(payload, bytes, NULL), 0);
    mem_free(payload);
}

static void batch_encode_delete__sample__bytes_of_the_table(void **state)
{
    (void)state;
    uint8_t *payload;
    uint32_t bytes = sample_delete(&payload, false, 3);
    /* head 48, ids 12 -> 64, devices 64 -> 128, keys 4 -> 136 */
    static const struct golden golden[] = {
        {0, 2, 1},     {2, 2, 0},   {4, 4, 2},
        {8, 8, 9},     {16, 4, 3},  {20, 4, 4},
        {24, 4, 48},   {28, 4, 64}, {32, 8, (uint64_t)INT64_MIN},
        {40, 8, 1000}, {48, 4, 21}, {52, 4, 22},
        {56, 4, 23},   {60, 4, 0},  {64, 4, 128},
        {68, 4, 0},    {72, 8, 0},  {80, 4, 128},
        {84, 4, 1},    {88, 8, 0},  {96, 4, 129},
        {100, 4, 2},   {104, 8, 0}, {112, 4, 131},
        {116, 4, 1},   {120, 8, 0}, {128, 8, 0x62626161},
    };
    assert_int_equal(bytes, 136);
    check_golden(payload, golden, sizeof golden / sizeof golden[0]);
    struct batch_delete read;
    assert_int_equal(batch_decode_delete(payload, bytes, &read, NULL), 0);
    assert_true(batch_delete_covers(payload, &read, "", 0));
    assert_true(batch_delete_covers(payload, &read, "a", 1));
    assert_true(batch_delete_covers(payload, &read, "ab", 2));
    assert_true(batch_delete_covers(payload, &read, "b", 1));
    assert_false(batch_delete_covers(payload, &read, "aa", 2));
    assert_false(batch_delete_covers(payload, &read, "c", 1));
    mem_free(payload);
    bytes = sample_delete(&payload, true, 0);
    assert_int_equal(bytes, 48);
    assert_int_equal(batch_decode_delete(payload, bytes, &read, NULL), 0);
    assert_true(read.all_devices);
    assert_true(batch_delete_covers(payload, &read, "zz", 2));
    mem_free(payload);
}

static void batch_read__sample__what_was_written(void **state)
{
    (void)state;
    uint8_t *payload;
    uint32_t bytes = sample(&payload);
    struct batch_view view;
    struct batch_group group;
    struct batch_column column;
    struct batch_fragment fragment;
    batch_open(&view, payload, bytes);
    assert_int_equal(view.group_count, 2);
    batch_read_group(&view, 0, &group);
    assert_int_equal(group.times[2], INT64_MAX);
    assert_true(batch_find_column(&view, &group, 12, 0, &column));
    assert_memory_equal(column.data + column.offsets[0], "xyz", 3);
    assert_int_equal(column.nulls[0], 2);
    assert_true(batch_find_column(&view, &group, 13, 99, &column));
    assert_true(column.all_null);
    assert_null(column.values);
    assert_false(batch_find_column(&view, &group, 14, 2, &column));
    batch_read_fragment(&view, 3, &fragment);
    assert_int_equal(fragment.time_min, INT64_MIN);
    uint32_t device_group, key_bytes;
    const void *key;
    batch_read_device(&view, 1, &device_group, &key, &key_bytes);
    assert_int_equal(key_bytes, 1);
    assert_memory_equal(key, "b", 1);
    mem_free(payload);
}

static void batch_plan__too_large__zero(void **state)
{
    (void)state;
    struct batch_column_plan columns[40];
    for (uint32_t i = 0; i < 40; i++)
        columns[i] = (struct batch_column_plan){.id = i, .type = 4, .value_bytes = 8u << 24};
    struct batch_group_plan group = {
        .incarnation = 1, .rows = 1u << 24, .columns = columns, .fragment_count = 1};
    struct batch_plan plan = {
        .group_count = 1, .groups = &group, .device_count = 1, .key_bytes = 1, .fragment_count = 1};
    group.column_count = 30;
    assert_int_not_equal(batch_plan(&plan), 0);
    group.column_count = 31; /* times and 31 columns: 2^32 */
    assert_int_equal(batch_plan(&plan), 0);
    group.column_count = 40;
    assert_int_equal(batch_plan(&plan), 0);
    group.column_count = 1;
    columns[0] = (struct batch_column_plan){.type = 5, .value_bytes = UINT32_MAX};
    assert_int_equal(batch_plan(&plan), 0);
}

/* A copy that ends where its memory does, so that a sanitizer sees the first byte too far. */
static uint8_t *exact_copy(const uint8_t *payload, uint32_t bytes)
{
    uint8_t *copy = mem_alloc_aligned(16, bytes == 0 ? 1 : bytes);
    assert_non_null(copy);
    memcpy(copy, payload, bytes);
    return copy;
}

static int check_any(bool is_delete, const uint8_t *payload, uint32_t bytes)
{
    struct err_msg msg = {0};
    struct batch_delete read;
    int rc = is_delete ? batch_decode_delete(payload, bytes, &read, &msg)
                       : batch_check(payload, bytes, &msg);
    assert_true(rc == 0 || rc == -RFE_CORRUPT || rc == -RFE_NEWER_VERSION);
    assert_int_equal(msg.code, rc);
    if (rc != 0) assert_non_null(strstr(msg.text, "found"));
    if (rc == 0 && is_delete) (void)read_whole_delete(payload);
    if (rc == 0 && !is_delete) (void)read_whole_batch(payload, bytes);
    return rc;
}

static void check_every_truncation(bool is_delete, const uint8_t *payload, uint32_t bytes)
{
    for (uint32_t cut = 0; cut < bytes; cut++) {
        uint8_t *copy = exact_copy(payload, cut);
        assert_int_equal(check_any(is_delete, copy, cut), -RFE_CORRUPT);
        mem_free(copy);
    }
    uint8_t *longer = mem_alloc_aligned(16, bytes + 8);
    memcpy(longer, payload, bytes);
    memset(longer + bytes, 0, 8);
    assert_int_equal(check_any(is_delete, longer, bytes + 8), -RFE_CORRUPT);
    mem_free(longer);
}

/* Every byte set to every value; returns how many were let through. */
static uint32_t check_every_byte(bool is_delete, const uint8_t *payload, uint32_t bytes)
{
    uint32_t passed = 0;
    uint8_t *copy = exact_copy(payload, bytes);
    for (uint32_t off = 0; off < bytes; off++) {
        for (uint32_t value = 0; value < 256; value++) {
            copy[off] = (uint8_t)value;
            if (check_any(is_delete, copy, bytes) == 0 && value != payload[off]) passed++;
        }
        copy[off] = payload[off];
    }
    mem_free(copy);
    return passed;
}

/* Every uint32 that stands on a multiple of 4 set to values that are likely to hurt. */
static void check_every_word(bool is_delete, const uint8_t *payload, uint32_t bytes)
{
    uint8_t *copy = exact_copy(payload, bytes);
    for (uint32_t off = 0; off + 4 <= bytes; off += 4) {
        const uint32_t own = load_u32(payload + off);
        const uint32_t words[] = {0,          1,          own + 1,        own - 1,    own + 8,
                                  own - 8,    bytes,      bytes - 8,      bytes + 8,  0x7fffffff,
                                  0x80000000, UINT32_MAX, UINT32_MAX - 7, 0x10000000, 0x20000001};
        for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
            store_u32(copy + off, words[i]);
            (void)check_any(is_delete, copy, bytes);
        }
        store_u32(copy + off, own);
    }
    mem_free(copy);
}

static void batch_check__every_truncation_byte_and_word__refused_or_readable(void **state)
{
    (void)state;
    uint8_t *payload;
    uint32_t bytes = sample(&payload);
    assert_int_equal(check_any(false, payload, bytes), 0);
    check_every_truncation(false, payload, bytes);
    uint32_t passed = check_every_byte(false, payload, bytes);
    printf("batch: %u of %u changed payloads are batches too\n", passed, bytes * 255);
    assert_true(passed > 0);
    /* Region, incarnations, partitions, ids, keys, values, text and bitmaps are free; all else is
     * fixed. */
    assert_in_range(passed, 1, (uint32_t)(4 + 32 + 12 + 3 + 3 + 24 + 3 + 24 + 1 + 3) * 255);
    check_every_word(false, payload, bytes);
    mem_free(payload);
}

static void batch_decode_delete__every_truncation_byte_and_word__refused_or_readable(void **state)
{
    (void)state;
    for (int all = 0; all < 2; all++) {
        uint8_t *payload;
        uint32_t bytes = sample_delete(&payload, all != 0, 3);
        assert_int_equal(check_any(true, payload, bytes), 0);
        check_every_truncation(true, payload, bytes);
        assert_true(check_every_byte(true, payload, bytes) > 0);
        check_every_word(true, payload, bytes);
        mem_free(payload);
    }
}

/* One change a row: what is at off, and whether the message names that offset. */
static void expect_corrupt(uint32_t off, uint32_t width, uint64_t value, const char *text)
{
    uint8_t *payload;
    uint32_t bytes = sample(&payload);
    struct err_msg msg = {0};
    for (uint32_t b = 0; b < width; b++)
        payload[off + b] = (uint8_t)(value >> (8 * b));
    int rc = batch_check(payload, bytes, &msg);
    if (rc != -RFE_CORRUPT || strstr(msg.text, text) == NULL)
        fail_msg("offset %u: %d \"%s\" lacks \"%s\"", off, rc, msg.text, text);
    mem_free(payload);
}

static void batch_check__one_field_wrong__named_with_its_offset(void **state)
{
    (void)state;
    expect_corrupt(2, 2, 0, "offset 2: group_count");
    expect_corrupt(8, 4, 0, "offset 8: device_count");
    expect_corrupt(12, 4, 0, "offset 12: fragment_count");
    expect_corrupt(16, 4, 104, "offset 16: devices_off");
    expect_corrupt(24, 8, 1, "offset 24: reserved");
    expect_corrupt(40, 4, 0, "offset 40: rows");
    expect_corrupt(40, 4, (1u << 24) + 1, "offset 40: rows");
    expect_corrupt(52, 4, 336, "offset 52: times_off");
    expect_corrupt(60, 4, 2, "fragment_first");
    expect_corrupt(88, 4, 0, "offset 88: fragment_first");
    expect_corrupt(104, 4, 2, "offset 104: group of device");
    expect_corrupt(100, 4, 5000, "offset 100: key_bytes");
    expect_corrupt(64, 8, 6, "offset 252: table of device");
    expect_corrupt(136, 4, 1, "offset 136: row_first");
    expect_corrupt(140, 4, 9, "offset 140: rows of fragment");
    expect_corrupt(152, 8, 0, "offset 152: time_min");
    expect_corrupt(160, 8, 0, "offset 160: time_max");
    expect_corrupt(292, 1, 6, "offset 292: type");
    expect_corrupt(309, 1, 3, "offset 309: flags");
    expect_corrupt(309, 1, 0, "offset 316: nulls_off");
    expect_corrupt(312, 4, 408, "offset 312: values_off");
    expect_corrupt(339, 1, 1, "offset 339: gap");
    expect_corrupt(392, 1, 8, "offset 392: bits behind");
    expect_corrupt(393, 1, 1, "offset 393: gap");
    expect_corrupt(400, 4, 1, "offset 400: first position");
    expect_corrupt(408, 4, 2, "offset 408: position");
}

static void batch_check__newer_version__newer_version(void **state)
{
    (void)state;
    uint8_t *payload;
    struct err_msg msg = {0};
    struct batch_delete read;
    uint32_t bytes = sample(&payload);
    payload[0] = 2;
    assert_int_equal(batch_check(payload, bytes, &msg), -RFE_NEWER_VERSION);
    assert_non_null(strstr(msg.text, "expected 1, found 2"));
    mem_free(payload);
    bytes = sample_delete(&payload, false, 1);
    payload[0] = 2;
    assert_int_equal(batch_decode_delete(payload, bytes, &read, NULL), -RFE_NEWER_VERSION);
    mem_free(payload);
}

static void batch_check__rows_of_a_fragment_fall__corrupt(void **state)
{
    (void)state;
    const struct make_value keys[] = {{"a", 1}};
    const struct make_row falls[][3] = {{{0, 5}, {0, 4}, {0, 6}}, {{0, 3}, {0, 5}, {0, 4}}};
    const struct make_value values[] = {VALUE(ints[0]), VALUE(ints[1]), VALUE(ints[0])};
    const struct make_column column = {1, 1, values};
    for (uint32_t i = 0; i < 2; i++) {
        const struct make_tablet tablet = {1, 3, falls[i], 1, &column};
        const struct make_batch batch = {0, 1, &tablet, 100, 1, keys};
        uint8_t *payload;
        struct err_msg msg = {0};
        uint32_t bytes = make_batch(&batch, &payload);
        assert_int_equal(batch_check(payload, bytes, &msg), -RFE_CORRUPT);
        assert_non_null(strstr(msg.text, "time: expected at least 5, found 4"));
        mem_free(payload);
    }
}

static void batch_decode_delete__keys_not_rising__corrupt(void **state)
{
    (void)state;
    uint8_t *payload;
    struct batch_delete read;
    struct err_msg msg = {0};
    uint32_t bytes = sample_delete(&payload, false, 0);
    payload[bytes - 8] = 'b'; /* "", "b", "ab", "b" */
    assert_int_equal(batch_decode_delete(payload, bytes, &read, &msg), -RFE_CORRUPT);
    assert_non_null(strstr(msg.text, "behind key 1"));
    mem_free(payload);
    const struct batch_key twice[] = {{"a", 1}, {"b", 1}};
    const struct batch_delete delete_ = {.device_count = 2};
    _Alignas(8) uint8_t two[BATCH_DELETE_BYTES + 2 * BATCH_DEVICE_BYTES + 8];
    assert_int_equal(batch_delete_bytes(&delete_, twice), sizeof two);
    batch_encode_delete(two, &delete_, twice);
    assert_int_equal(batch_decode_delete(two, sizeof two, &read, NULL), 0);
    two[sizeof two - 7] = 'a';
    assert_int_equal(batch_decode_delete(two, sizeof two, &read, NULL), -RFE_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_encode__sample__bytes_of_the_table),
        cmocka_unit_test(batch_encode_delete__sample__bytes_of_the_table),
        cmocka_unit_test(batch_read__sample__what_was_written),
        cmocka_unit_test(batch_plan__too_large__zero),
        cmocka_unit_test(batch_check__every_truncation_byte_and_word__refused_or_readable),
        cmocka_unit_test(batch_decode_delete__every_truncation_byte_and_word__refused_or_readable),
        cmocka_unit_test(batch_check__one_field_wrong__named_with_its_offset),
        cmocka_unit_test(batch_check__newer_version__newer_version),
        cmocka_unit_test(batch_check__rows_of_a_fragment_fall__corrupt),
        cmocka_unit_test(batch_decode_delete__keys_not_rising__corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
