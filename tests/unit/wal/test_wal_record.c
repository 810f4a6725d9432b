/* The record header and the log's own payloads: what is written comes back, and nothing else does.
 */
#include "wal/record.h"

#include "base/bytes.h"
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SALT 0x9e3779b97f4a7c15u
#define LSN  (UINT64_C(3) << 20 | 4096)

static struct wal_record_head sample(void)
{
    return (struct wal_record_head){.lsn = LSN,
                                    .mark = LSN - 640,
                                    .payload_checksum = wal_payload_checksum("payload", 7, SALT),
                                    .payload_bytes = 7,
                                    .covered_bytes = 128,
                                    .type = WAL_RECORD_DATA,
                                    .version = WAL_RECORD_VERSION};
}

/* Puts a right checksum under bytes that a newer or a broken writer might have left. */
static void reseal(uint8_t b[WAL_RECORD_HEAD_BYTES])
{
    uint64_t sum = hash64(b + 8, 56, SALT);
    store_u64(b, sum != 0 ? sum : 1);
}

static void wal_record__written__reads_back(void **state)
{
    (void)state;
    struct wal_record_head h = sample(), back;
    uint8_t b[WAL_RECORD_HEAD_BYTES];
    memset(b, 0xaa, sizeof b);
    wal_record_encode(b, &h, SALT);
    assert_int_equal(wal_record_decode(b, SALT, LSN, &back), WAL_RECORD_VALID);
    assert_int_equal(back.lsn, h.lsn);
    assert_int_equal(back.mark, h.mark);
    assert_true(back.payload_checksum == h.payload_checksum);
    assert_int_equal(back.payload_bytes, 7);
    assert_int_equal(back.covered_bytes, 128);
    assert_int_equal(back.type, WAL_RECORD_DATA);
    assert_int_equal(back.version, 1);
    assert_true(wal_payload_whole(&back, "payload", SALT));
    assert_false(wal_payload_whole(&back, "paylaod", SALT));
    assert_false(wal_payload_whole(&back, "payload", SALT + 1));
}

/* The table of wal/record.h, byte by byte: a reader written from it must find this. */
static void wal_record__layout__is_the_table(void **state)
{
    (void)state;
    struct wal_record_head h = sample();
    uint8_t b[WAL_RECORD_HEAD_BYTES];
    wal_record_encode(b, &h, SALT);
    uint64_t sum = hash64(b + 8, 56, SALT);
    assert_true(load_u64(b) == sum);
    assert_true(load_u64(b + 8) == LSN);
    assert_true(load_u64(b + 16) == LSN - 640);
    assert_true(load_u64(b + 24) == hash64("payload", 7, SALT));
    assert_int_equal(load_u32(b + 32), 7);
    assert_int_equal(load_u32(b + 36), 128);
    assert_int_equal(b[40], 1);
    assert_int_equal(b[41], 1);
    for (int i = 42; i < 64; i++)
        assert_int_equal(b[i], 0);
}

static void wal_record__every_bit_flipped__is_refused(void **state)
{
    (void)state;
    struct wal_record_head h = sample(), back;
    uint8_t b[WAL_RECORD_HEAD_BYTES];
    wal_record_encode(b, &h, SALT);
    int refused = 0;
    for (int bit = 0; bit < 512; bit++) {
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
        refused += wal_record_decode(b, SALT, LSN, &back) == WAL_RECORD_INVALID;
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(refused, 512);
    assert_int_equal(wal_record_decode(b, SALT, LSN, &back), WAL_RECORD_VALID);
}

static void wal_record__zeros_other_salt_other_place__are_refused(void **state)
{
    (void)state;
    struct wal_record_head h = sample(), back;
    uint8_t b[WAL_RECORD_HEAD_BYTES];
    for (unsigned salt = 0; salt < 1000; salt++) {
        memset(b, 0, sizeof b);
        assert_int_equal(wal_record_decode(b, salt, 0, &back), WAL_RECORD_INVALID);
    }
    wal_record_encode(b, &h, SALT);
    assert_int_equal(wal_record_decode(b, SALT ^ 1, LSN, &back), WAL_RECORD_INVALID);
    assert_int_equal(wal_record_decode(b, SALT, LSN + 64, &back), WAL_RECORD_INVALID);
}

static void wal_record__newer_writer__is_told_apart(void **state)
{
    (void)state;
    struct wal_record_head h = sample(), back;
    struct {
        int off;
        uint8_t value;
    } changes[] = {{40, 10}, {40, 255}, {40, 0}, {41, 0}, {41, 2}, {42, 1}, {63, 0x80}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        uint8_t b[WAL_RECORD_HEAD_BYTES];
        wal_record_encode(b, &h, SALT);
        b[changes[i].off] = changes[i].value;
        reseal(b);
        assert_int_equal(wal_record_decode(b, SALT, LSN, &back), WAL_RECORD_NEWER);
        assert_int_equal(back.mark, h.mark);
    }
}

static void wal_record__absurd_sizes__are_refused(void **state)
{
    (void)state;
    struct wal_record_head h = sample(), back;
    struct {
        uint32_t payload, covered;
        uint8_t type;
    } bad[] = {
        {7, 0, WAL_RECORD_DATA},          {7, 64, WAL_RECORD_DATA},
        {65, 128, WAL_RECORD_DATA},       {7, 129, WAL_RECORD_DATA},
        {7, 96, WAL_RECORD_DATA},         {7, (1u << 30) + 64, WAL_RECORD_DATA},
        {7, 128, WAL_RECORD_VOID},        {7, 128, WAL_RECORD_PAD},
        {7, 128, WAL_RECORD_CLOSE},       {7, 128, WAL_RECORD_MARK},
        {0, 128, WAL_RECORD_DATA},        {UINT32_MAX, 128, WAL_RECORD_DATA},
        {7, UINT32_MAX, WAL_RECORD_DATA},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint8_t b[WAL_RECORD_HEAD_BYTES];
        wal_record_encode(b, &h, SALT);
        store_u32(b + 32, bad[i].payload);
        store_u32(b + 36, bad[i].covered);
        b[40] = bad[i].type;
        reseal(b);
        assert_int_equal(wal_record_decode(b, SALT, LSN, &back), WAL_RECORD_INVALID);
    }
}

static void wal_record__limits__fit(void **state)
{
    (void)state;
    uint8_t b[WAL_RECORD_HEAD_BYTES];
    struct wal_record_head back, h = sample();
    h.lsn = UINT64_MAX - 63;
    h.mark = UINT64_MAX;
    h.payload_bytes = (1u << 30) - 64;
    h.covered_bytes = 1u << 30;
    wal_record_encode(b, &h, 0);
    assert_int_equal(wal_record_decode(b, 0, h.lsn, &back), WAL_RECORD_VALID);
    assert_int_equal(back.covered_bytes, 1u << 30);
    for (unsigned n = 0; n < 300; n++) {
        assert_int_equal(wal_record_covered(n) % 64, 0);
        assert_true(wal_record_covered(n) >= n + 64 && wal_record_covered(n) < n + 128);
    }
    for (uint8_t type = WAL_RECORD_VOID; type <= WAL_RECORD_CLOSE; type++) {
        struct wal_record_head v = {.lsn = 64, .covered_bytes = 64, .type = type, .version = 1};
        wal_record_encode(b, &v, SALT);
        assert_int_equal(wal_record_decode(b, SALT, 64, &back), WAL_RECORD_VALID);
        assert_true(wal_payload_whole(&back, NULL, SALT));
        assert_string_not_equal(wal_record_type_name(type), "unknown");
    }
    assert_string_equal(wal_record_type_name(0), "unknown");
    assert_string_equal(wal_record_type_name(10), "unknown");
}

static void wal_record__fence_payload__keeps_its_table(void **state)
{
    (void)state;
    uint8_t b[16];
    uint64_t from = 0;
    wal_fence_encode(b, 4096);
    assert_true(wal_fence_decode(b, 8, 4096, &from));
    assert_int_equal(from, 4096);
    assert_false(wal_fence_decode(b, 8, 4095, &from));
    assert_false(wal_fence_decode(b, 7, 8192, &from));
    assert_false(wal_fence_decode(b, 9, 8192, &from));
    assert_false(wal_fence_decode(b, 0, 8192, &from));
}

static void wal_record__abort_payload__keeps_its_table(void **state)
{
    (void)state;
    uint64_t lsns[3] = {64, 1 << 20, 128};
    uint8_t b[8 + 8 * 4] = {0};
    uint32_t n = 0;
    wal_abort_encode(b, lsns, 3);
    assert_int_equal(wal_abort_payload_bytes(3), 32);
    assert_true(wal_abort_decode(b, 32, (1 << 20) + 64, &n));
    assert_int_equal(n, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(wal_abort_lsn(b, i), lsns[i]);
    assert_false(wal_abort_decode(b, 32, 1 << 20, &n)); /* names a batch that is not below it */
    assert_false(wal_abort_decode(b, 31, 1 << 21, &n));
    assert_false(wal_abort_decode(b, 40, 1 << 21, &n));
    assert_false(wal_abort_decode(b, 0, 1 << 21, &n));
    b[4] = 1;
    assert_false(wal_abort_decode(b, 32, 1 << 21, &n));
    b[4] = 0;
    store_u32(b, 0);
    assert_false(wal_abort_decode(b, 8, 1 << 21, &n));
    store_u32(b, 0x20000003); /* 8 * n would wrap to the same length */
    assert_false(wal_abort_decode(b, 32, 1 << 21, &n));
}

static void wal_record__cut_payload__keeps_its_table(void **state)
{
    (void)state;
    uint8_t b[16];
    uint64_t p = 0, salt = 0;
    wal_cut_encode(b, 4160, SALT);
    assert_true(wal_cut_decode(b, 16, 8192, &p, &salt));
    assert_int_equal(p, 4160);
    assert_true(salt == SALT);
    assert_true(wal_cut_decode(b, 16, 4160, &p, &salt));
    assert_false(wal_cut_decode(b, 16, 4159, &p, &salt));
    assert_false(wal_cut_decode(b, 15, 8192, &p, &salt));
    store_u64(b + 8, 0);
    assert_false(wal_cut_decode(b, 16, 8192, &p, &salt));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_record__written__reads_back),
        cmocka_unit_test(wal_record__layout__is_the_table),
        cmocka_unit_test(wal_record__every_bit_flipped__is_refused),
        cmocka_unit_test(wal_record__zeros_other_salt_other_place__are_refused),
        cmocka_unit_test(wal_record__newer_writer__is_told_apart),
        cmocka_unit_test(wal_record__absurd_sizes__are_refused),
        cmocka_unit_test(wal_record__limits__fit),
        cmocka_unit_test(wal_record__fence_payload__keeps_its_table),
        cmocka_unit_test(wal_record__abort_payload__keeps_its_table),
        cmocka_unit_test(wal_record__cut_payload__keeps_its_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
