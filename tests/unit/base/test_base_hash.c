#include "base/hash.h"
#include "base/hash_impl.h"
#include "tests/lib/child.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

/* Longer than XXH3's stripes, blocks (1 KiB) and its limits for short inputs. */
#define BYTES_MAX 9000
static unsigned char data[BYTES_MAX + 64];

static void fill(void)
{
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < sizeof data; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        data[i] = (unsigned char)x;
    }
}

/* Published values of XXH3-64: the format stands or falls with them, on every machine. */
static void hash64__known_inputs__published_values(void **state)
{
    (void)state;
    assert_true(hash64("", 0, 0) == 0x2d06800538d394c2u);
    assert_true(hash64(NULL, 0, 0) == 0x2d06800538d394c2u);
    assert_true(hash64("a", 1, 0) == 0xe6c632b61e964e1fu);
    assert_true(hash64("abc", 3, 0) == 0x78af5f94892f3950u);
}

/* Computed with the packaged library; they must never change, since they are on disks. */
static void hash64__long_inputs_with_seeds__values_that_disks_hold(void **state)
{
    (void)state;
    static unsigned char counting[4096];
    for (size_t i = 0; i < sizeof counting; i++)
        counting[i] = (unsigned char)(i * 7 + (i >> 8));
    assert_true(hash64(counting, 56, 1) == 0xe0590b2cf4ce20f8u);
    assert_true(hash64(counting, 240, 2) == 0x2216b8870afa7bd8u);
    assert_true(hash64(counting, 4096, UINT64_MAX) == 0x0ba63261554d3ac3u);
}

static void hash_variants__all_lengths_offsets_seeds__same_value_in_each_form(void **state)
{
    (void)state;
    size_t count;
    const struct hash_variant *v = hash_variants(&count);
    assert_true(v[count - 1].runs());
    for (size_t i = 0; i + 1 < count; i++) {
        if (!v[i].runs()) {
            printf("form %s not compared: this CPU has not got it\n", v[i].name);
            continue;
        }
        for (size_t bytes = 0; bytes <= BYTES_MAX; bytes += bytes < 1200 ? 1 : 61) {
            const void *p = data + bytes % 64;
            uint64_t seed = bytes * 0x9e3779b97f4a7c15u;
            assert_true(v[i].hash(p, bytes, seed) == hash64_baseline(p, bytes, seed));
            assert_true(v[i].hash(p, bytes, 0) == hash64_baseline(p, bytes, 0));
        }
    }
}

static void hash_form__this_cpu__widest_form_that_runs(void **state)
{
    (void)state;
    size_t count;
    const struct hash_variant *v = hash_variants(&count);
    while (!v->runs())
        v++;
    assert_string_equal(hash_form(), v->name);
    assert_true(hash64(data, 5000, 3) == v->hash(data, 5000, 3));
}

static void hash64__one_bit_or_the_seed_differs__another_value(void **state)
{
    (void)state;
    uint64_t whole = hash64(data, 300, 5);
    for (size_t bit = 0; bit < 300 * 8; bit++) {
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_true(hash64(data, 300, 5) != whole);
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_true(hash64(data, 300, 6) != whole);
    assert_true(hash64(data, 299, 5) != whole);
}

static int first_value(void *ctx)
{
    uint64_t *value = ctx;
    *value = hash_keyed("name", 4, 0);
    return hash_keyed("name", 4, 0) == *value && hash_keyed("name", 4, 1) != *value &&
                   hash_keyed("nam", 3, 0) != *value && *value != hash64("name", 4, 0)
               ? 0
               : 1;
}

/* Before this process draws its own: each child draws one. */
static void hash_keyed__two_processes__values_of_their_own(void **state)
{
    (void)state;
    uint64_t *values = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(values != MAP_FAILED);
    assert_int_equal(child_run(first_value, &values[0]), 0);
    assert_int_equal(child_run(first_value, &values[1]), 0);
    assert_true(values[0] != values[1]);
    assert_int_equal(munmap(values, 4096), 0);
}

int main(void)
{
    fill();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_keyed__two_processes__values_of_their_own),
        cmocka_unit_test(hash64__known_inputs__published_values),
        cmocka_unit_test(hash64__long_inputs_with_seeds__values_that_disks_hold),
        cmocka_unit_test(hash_variants__all_lengths_offsets_seeds__same_value_in_each_form),
        cmocka_unit_test(hash_form__this_cpu__widest_form_that_runs),
        cmocka_unit_test(hash64__one_bit_or_the_seed_differs__another_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
