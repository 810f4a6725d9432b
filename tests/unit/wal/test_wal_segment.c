/* Positions, names, and the two copies of a segment's header. */
#include "wal/segment.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "io/fault.h"
#include "tests/lib/tempdir.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { BLOCK = 4096, SEGMENT = 1 << 20 };

static struct wal_segment_head sample(void)
{
    struct wal_segment_head h = {.segment_bytes = SEGMENT,
                                 .block_bytes = BLOCK,
                                 .lane = 2,
                                 .number = 9,
                                 .generation = 3,
                                 .salt = 0x1122334455667788,
                                 .mark = 9 * (uint64_t)SEGMENT - 12800,
                                 .cut_lsn = 9 * (uint64_t)SEGMENT - 12800};
    memset(h.uuid, 0x5c, sizeof h.uuid);
    return h;
}

static struct wal_segment_id id_of(const struct wal_segment_head *h)
{
    struct wal_segment_id id = {.segment_bytes = h->segment_bytes,
                                .block_bytes = h->block_bytes,
                                .lane = h->lane,
                                .number = h->number};
    memcpy(id.uuid, h->uuid, sizeof id.uuid);
    return id;
}

static void wal_segment__positions__count_from_the_blocks(void **state)
{
    (void)state;
    assert_int_equal(lsn_segment(5 * SEGMENT + 17, SEGMENT), 5);
    assert_int_equal(lsn_offset(5 * SEGMENT + 17, SEGMENT), 17);
    assert_int_equal(lsn_first(5, SEGMENT, BLOCK), 5 * SEGMENT + BLOCK);
    assert_int_equal(lsn_end(5, SEGMENT, BLOCK), 6 * SEGMENT - BLOCK);
    assert_int_equal(lsn_normal(6 * SEGMENT - BLOCK, SEGMENT, BLOCK), 6 * SEGMENT + BLOCK);
    assert_int_equal(lsn_normal(6 * SEGMENT - BLOCK - 64, SEGMENT, BLOCK),
                     6 * SEGMENT - BLOCK - 64);
    assert_int_equal(lsn_normal(6 * SEGMENT, SEGMENT, BLOCK), 6 * SEGMENT + BLOCK);
    assert_int_equal(lsn_normal(6 * SEGMENT + BLOCK, SEGMENT, BLOCK), 6 * SEGMENT + BLOCK);
    uint64_t last = lsn_end(WAL_SEGMENT_NUMBER_MAX, WAL_SEGMENT_BYTES_MAX, 512);
    assert_true(last < UINT64_C(1) << 63);
}

static void wal_segment__header__reads_back_as_the_table(void **state)
{
    (void)state;
    struct wal_segment_head h = sample(), back;
    uint8_t b[BLOCK];
    memset(b, 0xee, sizeof b);
    wal_segment_head_encode(b, &h);
    assert_int_equal(wal_segment_head_decode(b, BLOCK, &back), WAL_SEGMENT_HEAD_VALID);
    assert_memory_equal(&back, &h, sizeof h);
    assert_memory_equal(b, "RFSEGMT1", 8);
    assert_int_equal(load_u32(b + 8), 1);
    assert_int_equal(load_u32(b + 12), 2);
    assert_memory_equal(b + 16, h.uuid, 16);
    assert_int_equal(load_u64(b + 32), SEGMENT);
    assert_int_equal(load_u32(b + 40), BLOCK);
    assert_int_equal(load_u64(b + 48), 9);
    assert_int_equal(load_u64(b + 56), 3);
    assert_true(load_u64(b + 64) == h.salt);
    assert_int_equal(load_u64(b + 72), h.mark);
    assert_int_equal(load_u64(b + 80), h.cut_lsn);
    assert_true(load_u64(b + 88) == hash64(b, 88, 0));
}

static void wal_segment__every_bit_of_the_block_flipped__is_refused(void **state)
{
    (void)state;
    struct wal_segment_head h = sample(), back;
    uint8_t b[BLOCK];
    wal_segment_head_encode(b, &h);
    int refused = 0;
    for (int bit = 0; bit < 8 * BLOCK; bit++) {
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
        refused += wal_segment_head_decode(b, BLOCK, &back) == WAL_SEGMENT_HEAD_INVALID;
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(refused, 8 * BLOCK);
}

static void wal_segment__header_out_of_bounds__is_refused(void **state)
{
    (void)state;
    struct {
        int off, bytes;
        uint64_t value;
        enum wal_segment_head_state wanted;
    } bad[] = {
        {8, 4, 0, WAL_SEGMENT_HEAD_INVALID},
        {8, 4, 2, WAL_SEGMENT_HEAD_NEWER},
        {12, 4, 16, WAL_SEGMENT_HEAD_INVALID},
        {32, 8, SEGMENT + 4096, WAL_SEGMENT_HEAD_INVALID},
        {32, 8, SEGMENT / 2, WAL_SEGMENT_HEAD_INVALID},
        {32, 8, UINT64_C(1) << 31, WAL_SEGMENT_HEAD_INVALID},
        {40, 4, 2048, WAL_SEGMENT_HEAD_INVALID}, /* another block size than it was read with */
        {44, 4, 1, WAL_SEGMENT_HEAD_INVALID},
        {48, 8, 0, WAL_SEGMENT_HEAD_INVALID},
        {48, 8, WAL_SEGMENT_NUMBER_MAX + 1, WAL_SEGMENT_HEAD_INVALID},
        {56, 8, 0, WAL_SEGMENT_HEAD_INVALID},
        {64, 8, 0, WAL_SEGMENT_HEAD_INVALID},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wal_segment_head h = sample(), back;
        uint8_t b[BLOCK];
        wal_segment_head_encode(b, &h);
        if (bad[i].bytes == 4)
            store_u32(b + bad[i].off, (uint32_t)bad[i].value);
        else
            store_u64(b + bad[i].off, bad[i].value);
        store_u64(b + 88, hash64(b, 88, 0));
        assert_int_equal(wal_segment_head_decode(b, BLOCK, &back), bad[i].wanted);
    }
}

static void wal_segment__two_copies__the_newest_valid_one_counts(void **state)
{
    (void)state;
    struct wal_segment_head old = sample(), fresh = sample(), head;
    struct wal_segment_id id = id_of(&old);
    fresh.generation = 4;
    fresh.salt = 5;
    uint8_t a[BLOCK], b[BLOCK], none[BLOCK] = {0};
    int weak = 7;
    wal_segment_head_encode(a, &old);
    wal_segment_head_encode(b, &fresh);
    assert_int_equal(wal_segment_choose(a, a, &id, "f", NULL, &head, &weak), 0);
    assert_int_equal(weak, -1);
    assert_int_equal(wal_segment_choose(a, b, &id, "f", NULL, &head, &weak), 0);
    assert_int_equal(head.generation, 4);
    assert_int_equal(weak, 0);
    assert_int_equal(wal_segment_choose(b, a, &id, "f", NULL, &head, &weak), 0);
    assert_int_equal(head.generation, 4);
    assert_int_equal(weak, 1);
    assert_int_equal(wal_segment_choose(none, a, &id, "f", NULL, &head, &weak), 0);
    assert_int_equal(head.generation, 3);
    assert_int_equal(weak, 0);
    assert_int_equal(wal_segment_choose(a, none, &id, "f", NULL, &head, &weak), 0);
    assert_int_equal(weak, 1);
}

static void wal_segment__no_copy_for_this_place__is_corruption(void **state)
{
    (void)state;
    struct wal_segment_head h = sample(), head;
    uint8_t a[BLOCK], none[BLOCK] = {0};
    int weak;
    struct err_msg msg = {0};
    struct wal_segment_id id = id_of(&h);
    wal_segment_head_encode(a, &h);
    assert_int_equal(wal_segment_choose(none, none, &id, "lane-02/0000000009", &msg, &head, &weak),
                     -RFE_CORRUPT);
    assert_non_null(strstr(msg.text, "lane-02/0000000009: offset 0 and offset 1044480: expected"));
    for (int what = 0; what < 5; what++) {
        id = id_of(&h);
        id.number += what == 0;
        id.lane += what == 1;
        id.uuid[15] ^= what == 2;
        id.segment_bytes *= what == 3 ? 2 : 1;
        msg.code = 0;
        if (what == 4) { /* a newer copy in either place */
            store_u32(a + 8, 2);
            store_u64(a + 88, hash64(a, 88, 0));
            assert_int_equal(wal_segment_choose(none, a, &id, "f", &msg, &head, &weak),
                             -RFE_NEWER_VERSION);
            continue;
        }
        assert_int_equal(wal_segment_choose(a, a, &id, "f", &msg, &head, &weak), -RFE_CORRUPT);
        assert_non_null(strstr(msg.text, "found segment 9 of lane 2"));
        assert_int_equal(strstr(msg.text, "another directory") != NULL, what == 2);
    }
}

static void wal_segment__names__are_read_in_one_form_only(void **state)
{
    (void)state;
    char path[WAL_PATH_BYTES];
    wal_lane_path(path, 15);
    assert_string_equal(path, "lane-15");
    wal_segment_path(path, 0, 1);
    assert_string_equal(path, "lane-00/0000000001");
    wal_free_path(path, 7, WAL_SEGMENT_NUMBER_MAX);
    assert_string_equal(path, "lane-07/free-8000000000");
    uint64_t number = 0;
    assert_int_equal(wal_segment_parse_name("0000000012", &number), WAL_NAME_SEGMENT);
    assert_int_equal(number, 12);
    assert_int_equal(wal_segment_parse_name("free-8000000000", &number), WAL_NAME_FREE);
    assert_int_equal(number, WAL_SEGMENT_NUMBER_MAX);
    static const char *const others[] = {
        "",      "12",      "00000000012", "000000001x",  "0000000000", "8000000001",
        "free-", "free-12", "+000000012",  "0000000012~", " 000000012", "FREE-0000000001"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(wal_segment_parse_name(others[i], &number), WAL_NAME_OTHER);
    assert_int_equal(number, WAL_SEGMENT_NUMBER_MAX);
}

static void wal_segment__salts__differ(void **state)
{
    (void)state;
    uint64_t a = 0, b = 0;
    assert_int_equal(wal_salt_new(&a), 0);
    assert_int_equal(wal_salt_new(&b), 0);
    assert_true(a != 0 && b != 0 && a != b);
}

/* ---- in files ---- */

struct folder {
    char path[TEMPDIR_BYTES];
    struct io_env *env;
    struct io_file *file;
};

static struct folder with_segment(const struct wal_segment_head *h)
{
    struct folder f;
    tempdir_make(f.path);
    assert_int_equal(io_env_open(f.path, &f.env), 0);
    assert_int_equal(io_mkdir(f.env, "lane-02"), 0);
    assert_int_equal(wal_segment_file_create(f.env, "lane-02/free-0000000001", &f.file), 0);
    assert_int_equal(wal_segment_fill(f.file, 0, SEGMENT), 0);
    assert_int_equal(wal_segment_head_write_new(f.file, h), 0);
    return f;
}

static void remove_folder(struct folder *f)
{
    io_close(f->file);
    io_env_close(f->env);
    tempdir_remove(f->path);
}

static void wal_segment__file__carries_the_header_through_its_life(void **state)
{
    (void)state;
    struct wal_segment_head h = sample(), back;
    struct wal_segment_id id = id_of(&h);
    struct folder f = with_segment(&h);
    int weak = 7;
    struct err_msg msg = {0};
    assert_int_equal(wal_segment_head_read(f.file, &id, "f", &msg, &back, &weak), 0);
    assert_memory_equal(&back, &h, sizeof h);
    assert_int_equal(weak, -1);

    struct io_file *again = NULL;
    assert_int_equal(wal_segment_file_create(f.env, "lane-02/free-0000000001", &again), -EEXIST);
    assert_int_equal(wal_segment_publish(f.env, 2, 1, 9), 0);
    assert_int_equal(io_open(f.env, "lane-02/0000000009", IO_READ, &again), 0);
    assert_int_equal(io_lock(again, false), -EAGAIN); /* locked by the one that writes it */
    io_close(again);
    assert_int_equal(wal_segment_retire(f.env, 2, 9), 0);
    assert_int_equal(io_open(f.env, "lane-02/free-0000000009", IO_READ, &again), 0);
    io_close(again);

    h.generation++;
    h.salt = 99;
    assert_int_equal(wal_segment_head_rewrite(f.file, &h, -1), 0);
    assert_int_equal(wal_segment_head_read(f.file, &id, "f", &msg, &back, &weak), 0);
    assert_memory_equal(&back, &h, sizeof h);
    assert_int_equal(weak, -1);
    remove_folder(&f);
}

/* Whatever copy a torn rewriting or damage has taken, healing makes both equal to what counts. */
static void wal_segment__heal__makes_both_copies_equal(void **state)
{
    (void)state;
    for (int copy = 0; copy < 2; copy++) {
        struct wal_segment_head h = sample(), back;
        struct wal_segment_id id = id_of(&h);
        struct folder f = with_segment(&h);
        uint8_t *junk = mem_alloc_aligned(4096, BLOCK);
        memset(junk, 0x77, BLOCK);
        int weak = 7;
        uint64_t at = copy == 0 ? 0 : SEGMENT - BLOCK;
        assert_int_equal(io_pwrite(f.file, junk, BLOCK, at, 0, NULL), 0);
        assert_int_equal(wal_segment_head_read(f.file, &id, "f", NULL, &back, &weak), 0);
        assert_int_equal(weak, copy);
        assert_int_equal(wal_segment_head_heal(f.file, &back, weak), 0);
        assert_int_equal(wal_segment_head_read(f.file, &id, "f", NULL, &back, &weak), 0);
        assert_int_equal(weak, -1);
        assert_memory_equal(&back, &h, sizeof h);
        mem_free(junk);
        remove_folder(&f);
    }
}

/* The copy that counts is not written to before the other one is whole, and synced. */
static void wal_segment__rewriting_ends_half_way__copy_that_counted_stands(void **state)
{
    (void)state;
    for (int copy = 0; copy < 2; copy++)
        for (uint64_t writes = 0; writes < 2; writes++) {
            struct wal_segment_head h = sample(), back;
            struct fault_options fo = {.block_bytes = BLOCK};
            struct io_env *env;
            struct io_file *file;
            assert_int_equal(fault_env_open(&fo, &env), 0);
            assert_int_equal(wal_segment_file_create(env, "f", &file), 0);
            assert_int_equal(io_truncate(file, SEGMENT), 0);
            assert_int_equal(wal_segment_head_write_new(file, &h), 0);
            struct fault_rule rule = {.kind = FAULT_ERROR,
                                      .targets = writes == 0 ? FAULT_ON_SYNC : FAULT_ON_WRITE,
                                      .skip = writes,
                                      .times = UINT64_MAX,
                                      .error = EIO};
            assert_int_equal(fault_add(env, &rule), 0);
            struct wal_segment_head newer = h;
            newer.generation++;
            assert_int_equal(wal_segment_head_rewrite(file, &newer, copy), -EIO);
            fault_clear(env);
            uint8_t *block = mem_alloc_aligned(4096, BLOCK);
            for (int i = 0; i < 2; i++) {
                size_t got;
                assert_int_equal(io_pread(file, block, BLOCK, i == 0 ? 0 : SEGMENT - BLOCK, &got),
                                 0);
                assert_int_equal(wal_segment_head_decode(block, BLOCK, &back),
                                 WAL_SEGMENT_HEAD_VALID);
                assert_memory_equal(&back, i == copy ? &newer : &h, sizeof h);
            }
            mem_free(block);
            io_close(file);
            io_env_close(env);
        }
}

static void wal_segment__file_of_another_size__is_corruption(void **state)
{
    (void)state;
    struct wal_segment_head h = sample(), back;
    struct wal_segment_id id = id_of(&h);
    struct folder f = with_segment(&h);
    int weak;
    struct err_msg msg = {0};
    assert_int_equal(io_truncate(f.file, SEGMENT - 1), 0);
    assert_int_equal(wal_segment_head_read(f.file, &id, "f", &msg, &back, &weak), -RFE_CORRUPT);
    assert_non_null(strstr(msg.text, "expected a file of 1048576 bytes, found 1048575"));
    remove_folder(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_segment__positions__count_from_the_blocks),
        cmocka_unit_test(wal_segment__header__reads_back_as_the_table),
        cmocka_unit_test(wal_segment__every_bit_of_the_block_flipped__is_refused),
        cmocka_unit_test(wal_segment__header_out_of_bounds__is_refused),
        cmocka_unit_test(wal_segment__two_copies__the_newest_valid_one_counts),
        cmocka_unit_test(wal_segment__no_copy_for_this_place__is_corruption),
        cmocka_unit_test(wal_segment__names__are_read_in_one_form_only),
        cmocka_unit_test(wal_segment__salts__differ),
        cmocka_unit_test(wal_segment__file__carries_the_header_through_its_life),
        cmocka_unit_test(wal_segment__heal__makes_both_copies_equal),
        cmocka_unit_test(wal_segment__rewriting_ends_half_way__copy_that_counted_stands),
        cmocka_unit_test(wal_segment__file_of_another_size__is_corruption),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
