#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void mem_alloc__then_free__bytes_counted_and_given_back(void **state)
{
    (void)state;
    int64_t before = alloc_bytes_in_use();
    void *p = mem_alloc(1000);
    assert_non_null(p);
    assert_in_range(alloc_bytes_in_use() - before, 1000, 2000);
    mem_free(p);
    assert_int_equal(alloc_bytes_in_use(), before);
    mem_free(NULL);
    assert_int_equal(alloc_bytes_in_use(), before);
}

static void mem_alloc__zero_bytes__memory_of_its_own(void **state)
{
    (void)state;
    void *a = mem_alloc(0);
    void *b = mem_zalloc(0);
    assert_non_null(a);
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    mem_free(a);
    mem_free(b);
}

static void mem_zalloc__memory_used_before__all_zero(void **state)
{
    (void)state;
    unsigned char *dirty = mem_alloc(4096);
    assert_non_null(dirty);
    memset(dirty, 0xff, 4096);
    mem_free(dirty);
    unsigned char *p = mem_zalloc_array(64, 64);
    assert_non_null(p);
    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(p[i], 0);
    mem_free(p);
}

static void mem_zalloc_array__product_overflows__null(void **state)
{
    (void)state;
    int64_t before = alloc_bytes_in_use();
    assert_null(mem_zalloc_array(SIZE_MAX / 2, 3));
    assert_null(mem_zalloc_array(SIZE_MAX, SIZE_MAX));
    assert_int_equal(alloc_bytes_in_use(), before);
}

static void mem_alloc_aligned__each_power_of_two__address_aligned(void **state)
{
    (void)state;
    int64_t before = alloc_bytes_in_use();
    for (size_t align = 16; align <= 65536; align *= 2) {
        void *p = mem_alloc_aligned(align, 100);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        mem_free(p);
    }
    assert_int_equal(alloc_bytes_in_use(), before);
}

static void mem_realloc__grown_and_shrunk__contents_and_count_kept(void **state)
{
    (void)state;
    int64_t before = alloc_bytes_in_use();
    char *p = mem_realloc(NULL, 16);
    assert_non_null(p);
    memcpy(p, "fifteen letters", 16);
    p = mem_realloc(p, 100000);
    assert_non_null(p);
    assert_string_equal(p, "fifteen letters");
    assert_in_range(alloc_bytes_in_use() - before, 100000, 200000);
    p = mem_realloc(p, 16);
    assert_non_null(p);
    assert_string_equal(p, "fifteen letters");
    assert_in_range(alloc_bytes_in_use() - before, 16, 99999);
    mem_free(p);
    assert_int_equal(alloc_bytes_in_use(), before);
}

static void mem_realloc__fails__old_memory_stays(void **state)
{
    (void)state;
    char *p = mem_alloc(8);
    assert_non_null(p);
    memcpy(p, "seven..", 8);
    int64_t before = alloc_bytes_in_use();
    alloc_fail_at(1);
    assert_null(mem_realloc(p, 1000));
    assert_string_equal(p, "seven..");
    assert_int_equal(alloc_bytes_in_use(), before);
    mem_free(p);
}

static void mem_strndup__nul_or_limit_first__copy_ends_there(void **state)
{
    (void)state;
    char *a = mem_strndup("abcdef", 3);
    char *b = mem_strndup("ab", 10);
    assert_string_equal(a, "abc");
    assert_string_equal(b, "ab");
    mem_free(a);
    mem_free(b);
}

static void alloc_fail_at__third_call__only_that_one_fails(void **state)
{
    (void)state;
    void *p[4];
    uint64_t calls = alloc_calls();
    alloc_fail_at(3);
    for (int i = 0; i < 4; i++)
        p[i] = mem_alloc(10);
    assert_int_equal(alloc_calls() - calls, 4);
    for (int i = 0; i < 4; i++) {
        if (i == 2)
            assert_null(p[i]);
        else
            assert_non_null(p[i]);
        mem_free(p[i]);
    }
}

static void alloc_fail_at__zero__ends_it(void **state)
{
    (void)state;
    alloc_fail_at(1);
    alloc_fail_at(0);
    void *p = mem_alloc(10);
    assert_non_null(p);
    mem_free(p);
}

static void alloc_fail_at__each_kind_of_call__null_and_nothing_counted(void **state)
{
    (void)state;
    int64_t before = alloc_bytes_in_use();
    alloc_fail_at(1);
    assert_null(mem_alloc(1));
    alloc_fail_at(1);
    assert_null(mem_zalloc(1));
    alloc_fail_at(1);
    assert_null(mem_zalloc_array(2, 2));
    alloc_fail_at(1);
    assert_null(mem_alloc_aligned(64, 64));
    alloc_fail_at(1);
    assert_null(mem_realloc(NULL, 1));
    alloc_fail_at(1);
    assert_null(mem_strndup("x", 1));
    alloc_fail_at(1);
    assert_null(mem_map(4096));
    assert_int_equal(alloc_bytes_in_use(), before);
    assert_int_equal(alloc_mapped_bytes(), 0);
}

static void mem_map__then_unmap__zeros_aligned_and_counted_apart(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 4096, 5000, 2 << 20, (4 << 20) + 1};
    int64_t in_use = alloc_bytes_in_use();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *p = mem_map(sizes[i]);
        assert_non_null(p);
        size_t align = sizes[i] >= 2 << 20 ? 2 << 20 : page;
        assert_int_equal((uintptr_t)p % align, 0);
        for (size_t k = 0; k < sizes[i]; k += 512)
            assert_int_equal(p[k], 0);
        p[0] = 1;
        p[sizes[i] - 1] = 2;
        assert_int_equal(alloc_mapped_bytes(), (sizes[i] + page - 1) / page * page);
        mem_unmap(p, sizes[i]);
        assert_int_equal(alloc_mapped_bytes(), 0);
    }
    mem_unmap(NULL, 4096);
    assert_int_equal(alloc_bytes_in_use(), in_use);
}

static void mem_map__child_of_fork__does_not_inherit_it(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *p = mem_map(page);
    assert_non_null(p);
    p[0] = 1;
    unsigned char resident;
    assert_int_equal(mincore(p, page, &resident), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(mincore(p, page, &resident) != 0 ? 0 : 1); /* ENOMEM: not mapped */
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    mem_unmap(p, page);
}

static void mem_map__more_than_the_address_space__null(void **state)
{
    (void)state;
    assert_null(mem_map((size_t)1 << 62));
    assert_null(mem_map(SIZE_MAX));
    assert_int_equal(alloc_mapped_bytes(), 0);
}

static void mem_touch__pages_of_a_map__get_their_memory_and_keep_their_bytes(void **state)
{
    (void)state;
    enum { PAGE = 4096, PAGES = 2048 };
    uint8_t *p = mem_map(PAGES * PAGE);
    assert_non_null(p);
    p[0] = 7;
    p[PAGE * 5 + 9] = 11;
    mem_touch(p, PAGES * PAGE);
    unsigned char there[PAGES];
    assert_int_equal(mincore(p, PAGES * PAGE, there), 0);
    for (int i = 0; i < PAGES; i++)
        assert_int_equal(there[i] & 1, 1);
    for (int i = 0; i < PAGES * PAGE; i++)
        assert_int_equal(p[i], i == 0 ? 7 : i == PAGE * 5 + 9 ? 11 : 0);
    mem_unmap(p, PAGES * PAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mem_touch__pages_of_a_map__get_their_memory_and_keep_their_bytes),
        cmocka_unit_test(mem_alloc__then_free__bytes_counted_and_given_back),
        cmocka_unit_test(mem_alloc__zero_bytes__memory_of_its_own),
        cmocka_unit_test(mem_zalloc__memory_used_before__all_zero),
        cmocka_unit_test(mem_zalloc_array__product_overflows__null),
        cmocka_unit_test(mem_alloc_aligned__each_power_of_two__address_aligned),
        cmocka_unit_test(mem_realloc__grown_and_shrunk__contents_and_count_kept),
        cmocka_unit_test(mem_realloc__fails__old_memory_stays),
        cmocka_unit_test(mem_strndup__nul_or_limit_first__copy_ends_there),
        cmocka_unit_test(alloc_fail_at__third_call__only_that_one_fails),
        cmocka_unit_test(alloc_fail_at__zero__ends_it),
        cmocka_unit_test(alloc_fail_at__each_kind_of_call__null_and_nothing_counted),
        cmocka_unit_test(mem_map__then_unmap__zeros_aligned_and_counted_apart),
        cmocka_unit_test(mem_map__child_of_fork__does_not_inherit_it),
        cmocka_unit_test(mem_map__more_than_the_address_space__null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
