/* The manifest: what is written comes back, every flipped bit and every cut is refused. */
#include "wal/manifest.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "tests/lib/tempdir.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* One of everything, on the stack: not to be deinit'ed. */
struct sample {
    struct wal_manifest m;
    uint32_t region_lane[3];
    struct wal_sealed sealed[3];
    struct wal_sealed_file files[2];
    struct wal_kept_delete deletes[2];
};

static char name_1[] = "data/r0/p-1-1.tsfile", name_2[] = "x", no_name[] = "";
static uint8_t payload[] = "bytes";

static void init_sample(struct sample *s)
{
    memset(s, 0, sizeof *s);
    memset(s->m.uuid, 0xab, sizeof s->m.uuid);
    s->m.segment_bytes = 1 << 20;
    s->m.block_bytes = 4096;
    s->m.lanes = 2;
    s->m.time_unit = WAL_TIME_US;
    s->m.partition_interval = 604800000000;
    s->m.sequence = 17;
    s->m.catalog_generation = 0xcafe;
    s->m.version_obeyed = 12;
    s->m.head[0] = 4;
    s->m.head[1] = 1;
    s->m.regions = 3;
    s->m.region_lane = s->region_lane;
    s->region_lane[1] = 1;
    s->files[0] = (struct wal_sealed_file){name_1, 4711, 0x1234};
    s->files[1] = (struct wal_sealed_file){name_2, 0, 0};
    s->sealed[0] = (struct wal_sealed){.partition = -1, .through_lsn = 99, .file_count = 2};
    s->sealed[0].files = s->files;
    s->sealed[1] = (struct wal_sealed){.partition = 5, .through_lsn = 100};
    s->sealed[2] = (struct wal_sealed){.region = 2, .partition = INT64_MIN, .through_lsn = 3};
    s->m.sealed = s->sealed;
    s->m.sealed_count = 3;
    s->deletes[0] = (struct wal_kept_delete){1, 64, 5, payload};
    s->deletes[1] = (struct wal_kept_delete){1, 128, 0, payload};
    s->m.deletes = s->deletes;
    s->m.delete_count = 2;
}

static void expect_equal(const struct wal_manifest *a, const struct wal_manifest *b)
{
    assert_memory_equal(a->uuid, b->uuid, 16);
    assert_int_equal(a->segment_bytes, b->segment_bytes);
    assert_int_equal(a->block_bytes, b->block_bytes);
    assert_int_equal(a->lanes, b->lanes);
    assert_int_equal(a->time_unit, b->time_unit);
    assert_int_equal(a->partition_interval, b->partition_interval);
    assert_int_equal(a->sequence, b->sequence);
    assert_int_equal(a->catalog_generation, b->catalog_generation);
    assert_int_equal(a->version_obeyed, b->version_obeyed);
    assert_memory_equal(a->head, b->head, sizeof a->head);
    assert_int_equal(a->regions, b->regions);
    assert_memory_equal(a->region_lane, b->region_lane, a->regions * sizeof(uint32_t));
    assert_int_equal(a->sealed_count, b->sealed_count);
    for (uint32_t i = 0; i < a->sealed_count; i++) {
        assert_int_equal(a->sealed[i].region, b->sealed[i].region);
        assert_int_equal(a->sealed[i].partition, b->sealed[i].partition);
        assert_int_equal(a->sealed[i].through_lsn, b->sealed[i].through_lsn);
        assert_int_equal(a->sealed[i].file_count, b->sealed[i].file_count);
        for (uint32_t f = 0; f < a->sealed[i].file_count; f++) {
            assert_string_equal(a->sealed[i].files[f].name, b->sealed[i].files[f].name);
            assert_int_equal(a->sealed[i].files[f].bytes, b->sealed[i].files[f].bytes);
            assert_int_equal(a->sealed[i].files[f].checksum, b->sealed[i].files[f].checksum);
        }
    }
    assert_int_equal(a->delete_count, b->delete_count);
    for (uint32_t i = 0; i < a->delete_count; i++) {
        assert_int_equal(a->deletes[i].region, b->deletes[i].region);
        assert_int_equal(a->deletes[i].lsn, b->deletes[i].lsn);
        assert_int_equal(a->deletes[i].payload_bytes, b->deletes[i].payload_bytes);
        assert_memory_equal(a->deletes[i].payload, b->deletes[i].payload,
                            a->deletes[i].payload_bytes);
    }
}

static uint8_t *encode(const struct wal_manifest *m, size_t *n)
{
    uint8_t *bytes = NULL;
    struct err_msg msg = {0};
    int rc = wal_manifest_encode(m, &msg, &bytes, n);
    if (rc != 0) fail_msg("%s", msg.text);
    return bytes;
}

static void wal_manifest__written__reads_back(void **state)
{
    (void)state;
    struct sample s;
    struct wal_manifest back;
    size_t n = 0;
    init_sample(&s);
    uint8_t *bytes = encode(&s.m, &n);
    assert_int_equal(wal_manifest_decode(bytes, n, "manifest", NULL, &back), 0);
    expect_equal(&s.m, &back);
    wal_manifest_deinit(&back);
    assert_null(back.sealed);
    mem_free(bytes);
}

static void wal_manifest__layout__is_the_table(void **state)
{
    (void)state;
    struct sample s;
    size_t n = 0;
    init_sample(&s);
    uint8_t *b = encode(&s.m, &n);
    assert_memory_equal(b, "RFMANIF1", 8);
    assert_int_equal(load_u32(b + 8), 1);
    assert_int_equal(load_u32(b + 12), 0);
    assert_int_equal(load_u64(b + 16), n);
    assert_memory_equal(b + 24, s.m.uuid, 16);
    assert_int_equal(load_u64(b + 40), 1 << 20);
    assert_int_equal(load_u32(b + 48), 4096);
    assert_int_equal(load_u16(b + 52), 2);
    assert_int_equal(load_u16(b + 54), 1);
    assert_int_equal(load_u64(b + 56), 604800000000);
    assert_int_equal(load_u64(b + 64), 17);
    assert_int_equal(load_u64(b + 72), 0xcafe);
    assert_int_equal(load_u64(b + 80), 12);
    assert_int_equal(load_u32(b + 88), 3);
    assert_int_equal(load_u32(b + 92), 3);
    assert_int_equal(load_u32(b + 96), 2);
    assert_int_equal(load_u64(b + 104), 4);
    assert_int_equal(load_u64(b + 112), 1);
    assert_int_equal(load_u32(b + 124), 1);
    const uint8_t *sealed = b + 132;
    assert_int_equal(load_u32(sealed + 4), 2);
    assert_int_equal(load_i64(sealed + 8), -1);
    assert_int_equal(load_u64(sealed + 16), 99);
    assert_int_equal(load_u16(sealed + 24), 20);
    assert_memory_equal(sealed + 26, "data/r0/p-1-1.tsfile", 20);
    assert_int_equal(load_u64(sealed + 46), 4711);
    assert_int_equal(load_u64(sealed + 54), 0x1234);
    assert_int_equal(n, 132 + 3 * 24 + 2 * 18 + 21 + 2 * 16 + 5 + 8);
    assert_true(load_u64(b + n - 8) == hash64(b, n - 8, 0));
    mem_free(b);
}

static void wal_manifest__every_bit_flipped__is_refused(void **state)
{
    (void)state;
    struct sample s;
    struct wal_manifest back;
    size_t n = 0;
    init_sample(&s);
    uint8_t *b = encode(&s.m, &n);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
        struct err_msg msg = {0};
        int rc = wal_manifest_decode(b, n, "manifest", &msg, &back);
        assert_int_equal(rc, bit < 64 ? -RFE_NOT_OURS : -RFE_CORRUPT);
        assert_non_null(strstr(msg.text, "manifest: offset "));
        b[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    mem_free(b);
}

/* Cut at every byte, and cut there with a right checksum put under it: lists must not run over. */
static void wal_manifest__cut_at_every_byte__is_refused(void **state)
{
    (void)state;
    struct sample s;
    struct wal_manifest back;
    size_t n = 0;
    init_sample(&s);
    uint8_t *b = encode(&s.m, &n);
    for (size_t at = 0; at < n; at++) {
        uint8_t *part = mem_alloc(at + 1); /* exact, so that a sanitizer sees any byte beyond */
        memcpy(part, b, at);
        struct err_msg msg = {0};
        int rc = wal_manifest_decode(part, at, "manifest", &msg, &back);
        assert_int_equal(rc, at < 8 ? -RFE_NOT_OURS : -RFE_CORRUPT);
        if (at >= 112) {
            store_u64(part + 16, at);
            store_u64(part + at - 8, hash64(part, at - 8, 0));
            assert_int_equal(wal_manifest_decode(part, at, "manifest", NULL, &back), -RFE_CORRUPT);
        }
        mem_free(part);
    }
    mem_free(b);
}

static void wal_manifest__fields_out_of_range__are_refused_both_ways(void **state)
{
    (void)state;
    struct sample s;
    struct err_msg msg = {0};
    uint8_t *bytes = NULL;
    size_t n = 0;
    char long_name[300];
    memset(long_name, 'n', sizeof long_name);
    long_name[256] = 0;
    for (int what = 0; what < 20; what++) {
        init_sample(&s);
        struct wal_manifest *m = &s.m;
        switch (what) {
        case 0: m->segment_bytes = 1 << 19; break;
        case 1: m->segment_bytes = UINT64_C(1) << 31; break;
        case 2: m->segment_bytes = 3 << 20; break;
        case 3: m->block_bytes = 256; break;
        case 4: m->block_bytes = 1 << 17; break;
        case 5: m->lanes = 0; break;
        case 6: m->lanes = 17; break;
        case 7: m->time_unit = 3; break;
        case 8: m->partition_interval = 0; break;
        case 9: m->sequence = 0; break;
        case 10: m->head[1] = 0; break;
        case 11: m->head[0] = WAL_SEGMENT_NUMBER_MAX + 1; break;
        case 12: m->regions = 0; break;
        case 13: s.region_lane[2] = 2; break;
        case 14: s.sealed[2].region = 3; break;
        case 15: s.sealed[1].partition = -1; break; /* twice the same */
        case 16: s.files[0].name = no_name; break;
        case 17: s.files[0].name = long_name; break;
        case 18: s.deletes[1].lsn = 64; break;
        case 19: s.deletes[0].region = 3; break;
        }
        msg.code = 0;
        assert_int_equal(wal_manifest_check(m, &msg), -RFE_LIMIT);
        assert_int_equal(wal_manifest_encode(m, &msg, &bytes, &n), -RFE_LIMIT);
    }
    struct {
        size_t off, bytes;
        uint64_t value;
        int code;
    } bad[] = {{8, 4, 0, RFE_CORRUPT},           {8, 4, 2, RFE_NEWER_VERSION},
               {12, 4, 1, RFE_CORRUPT},          {16, 8, 5, RFE_CORRUPT},
               {52, 2, 0, RFE_CORRUPT},          {52, 2, 17, RFE_CORRUPT},
               {88, 4, 0, RFE_CORRUPT},          {88, 4, 70000, RFE_CORRUPT},
               {92, 4, UINT32_MAX, RFE_CORRUPT}, {96, 4, UINT32_MAX, RFE_CORRUPT},
               {100, 4, 1, RFE_CORRUPT},         {136, 4, UINT32_MAX, RFE_CORRUPT},
               {56, 8, 0, RFE_CORRUPT},          {96, 4, 1, RFE_CORRUPT},
               {54, 2, 3, RFE_CORRUPT}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wal_manifest back;
        init_sample(&s);
        uint8_t *b = encode(&s.m, &n);
        for (size_t k = 0; k < bad[i].bytes; k++)
            b[bad[i].off + k] = (uint8_t)(bad[i].value >> (8 * k));
        store_u64(b + n - 8, hash64(b, n - 8, 0));
        assert_int_equal(wal_manifest_decode(b, n, "manifest", NULL, &back), -bad[i].code);
        mem_free(b);
    }
}

static void wal_manifest__no_memory__is_said(void **state)
{
    (void)state;
    struct sample s;
    struct wal_manifest back;
    size_t n = 0;
    init_sample(&s);
    uint8_t *b = encode(&s.m, &n);
    int64_t in_use = alloc_bytes_in_use();
    unsigned failures = 0;
    for (uint64_t k = 1;; k++, failures++) {
        alloc_fail_at(k);
        int rc = wal_manifest_decode(b, n, "manifest", NULL, &back);
        alloc_fail_at(0);
        if (rc == 0) break;
        assert_int_equal(rc, -ENOMEM);
        assert_int_equal(alloc_bytes_in_use(), in_use);
    }
    wal_manifest_deinit(&back);
    assert_int_equal(failures, 8);
    assert_int_equal(alloc_bytes_in_use(), in_use);
    alloc_fail_at(1);
    uint8_t *again = NULL;
    assert_int_equal(wal_manifest_encode(&s.m, NULL, &again, &n), -ENOMEM);
    alloc_fail_at(0);
    mem_free(b);
}

static void wal_manifest__replaced__is_the_new_one(void **state)
{
    (void)state;
    char path[TEMPDIR_BYTES];
    struct io_env *env = NULL;
    struct sample s;
    struct wal_manifest back;
    init_sample(&s);
    tempdir_make(path);
    assert_int_equal(io_env_open(path, &env), 0);
    assert_int_equal(wal_manifest_read(env, NULL, &back), -ENOENT);
    assert_int_equal(wal_manifest_write(env, &s.m, NULL), 0);
    s.m.sequence++;
    s.m.sealed_count = 0;
    assert_int_equal(wal_manifest_write(env, &s.m, NULL), 0);
    assert_int_equal(wal_manifest_read(env, NULL, &back), 0);
    expect_equal(&s.m, &back);
    wal_manifest_deinit(&back);
    struct io_file *file = NULL;
    assert_int_equal(io_open(env, WAL_MANIFEST_TMP_NAME, IO_READ, &file), -ENOENT);

    assert_int_equal(io_open(env, WAL_MANIFEST_NAME, IO_WRITE, &file), 0);
    assert_int_equal(io_truncate(file, 0), 0);
    io_close(file);
    struct err_msg msg = {0};
    assert_int_equal(wal_manifest_read(env, &msg, &back), -RFE_NOT_OURS);
    io_env_close(env);
    tempdir_remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_manifest__written__reads_back),
        cmocka_unit_test(wal_manifest__layout__is_the_table),
        cmocka_unit_test(wal_manifest__every_bit_flipped__is_refused),
        cmocka_unit_test(wal_manifest__cut_at_every_byte__is_refused),
        cmocka_unit_test(wal_manifest__fields_out_of_range__are_refused_both_ways),
        cmocka_unit_test(wal_manifest__no_memory__is_said),
        cmocka_unit_test(wal_manifest__replaced__is_the_new_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
