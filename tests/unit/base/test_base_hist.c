#include "base/hist.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static struct hist h, other;

static uint64_t seed_of_this_run(void)
{
    const char *given = getenv("RF_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    printf("RF_SEED=%" PRIu64 "\n", seed);
    return seed;
}

static uint64_t next_random(uint64_t *x)
{
    *x += 0x9e3779b97f4a7c15u;
    uint64_t z = *x;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void assert_within_one_percent(uint64_t got, uint64_t want)
{
    if (fabs((double)got - (double)want) > 0.01 * (double)want)
        fail_msg("got %" PRIu64 ", want %" PRIu64, got, want);
}

static void hist_quantile__empty__zero(void **state)
{
    (void)state;
    hist_init(&h);
    assert_int_equal(hist_count(&h), 0);
    assert_int_equal(hist_quantile(&h, 0), 0);
    assert_int_equal(hist_quantile(&h, 0.5), 0);
    assert_int_equal(hist_quantile(&h, 1), 0);
    assert_true(hist_mean(&h) == 0);
}

/* A value in the middle of two others is reported by its bucket alone, without min and max. */
static void hist_quantile__value_of_any_size__within_one_percent(void **state)
{
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t low = UINT64_C(1) << bit;
        for (unsigned k = 0; k < 130; k++) {
            uint64_t value = low + (low >> 7) * k;
            if (value < low) break;
            hist_init(&h);
            hist_add(&h, 0);
            hist_add(&h, value);
            hist_add(&h, UINT64_MAX);
            assert_within_one_percent(hist_quantile(&h, 0.5), value);
        }
    }
}

static void hist_quantile__ends__exact(void **state)
{
    (void)state;
    hist_init(&h);
    hist_add(&h, 1234567);
    hist_add(&h, 999999999);
    hist_add(&h, 5000000);
    assert_int_equal(hist_quantile(&h, 0), 1234567);
    assert_int_equal(hist_quantile(&h, 1), 999999999);
    assert_int_equal(hist_count(&h), 3);
    hist_add(&h, (1 << 30) + 16777215); /* the last value of its bucket */
    assert_int_equal(hist_quantile(&h, 1), (1 << 30) + 16777215);
}

static void hist_quantile__one_value__never_outside_what_was_added(void **state)
{
    (void)state;
    hist_init(&h);
    hist_add(&h, 1000001);
    assert_int_equal(hist_quantile(&h, 0.001), 1000001);
    assert_int_equal(hist_quantile(&h, 0.5), 1000001);
    assert_int_equal(hist_quantile(&h, 0.999), 1000001);
}

static void hist_quantile__sixty_values__rank_is_the_share(void **state)
{
    (void)state;
    hist_init(&h);
    for (uint64_t v = 1; v <= 60; v++)
        hist_add(&h, v); /* small values have a bucket each, so ranks show exactly */
    assert_int_equal(hist_quantile(&h, 0.5), 30);
    assert_int_equal(hist_quantile(&h, 0.51), 31);
    assert_int_equal(hist_quantile(&h, 0.1), 6);
    assert_true(hist_mean(&h) == 30.5);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void hist_quantile__random_values__within_one_percent_of_the_sorted(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    static uint64_t values[COUNT];
    uint64_t seed = seed_of_this_run();
    hist_init(&h);
    for (unsigned i = 0; i < COUNT; i++) {
        values[i] = next_random(&seed) >> next_random(&seed) % 64;
        hist_add(&h, values[i]);
    }
    qsort(values, COUNT, sizeof values[0], by_value);
    for (unsigned rank = 1; rank < COUNT; rank += 37)
        assert_within_one_percent(hist_quantile(&h, (rank - 0.5) / COUNT), values[rank - 1]);
}

static void hist_merge__two_halves__same_as_all_in_one(void **state)
{
    (void)state;
    static struct hist all;
    hist_init(&h);
    hist_init(&other);
    hist_init(&all);
    uint64_t seed = 42;
    for (unsigned i = 0; i < 5000; i++) {
        uint64_t value = next_random(&seed) >> 20;
        hist_add(i % 3 == 0 ? &h : &other, value);
        hist_add(&all, value);
    }
    hist_add(&other, 3);
    hist_add(&all, 3);
    hist_add(&other, UINT64_C(1) << 60);
    hist_add(&all, UINT64_C(1) << 60);
    hist_merge(&h, &other);
    assert_int_equal(hist_count(&h), hist_count(&all));
    assert_true(hist_mean(&h) == hist_mean(&all));
    for (double q = 0; q <= 1; q += 0.01)
        assert_int_equal(hist_quantile(&h, q), hist_quantile(&all, q));
}

static void hist_merge__empty_one__changes_nothing(void **state)
{
    (void)state;
    hist_init(&h);
    hist_init(&other);
    hist_add(&h, 77);
    hist_merge(&h, &other);
    assert_int_equal(hist_count(&h), 1);
    assert_int_equal(hist_quantile(&h, 0), 77);
    assert_int_equal(hist_quantile(&h, 1), 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hist_quantile__empty__zero),
        cmocka_unit_test(hist_quantile__value_of_any_size__within_one_percent),
        cmocka_unit_test(hist_quantile__ends__exact),
        cmocka_unit_test(hist_quantile__one_value__never_outside_what_was_added),
        cmocka_unit_test(hist_quantile__sixty_values__rank_is_the_share),
        cmocka_unit_test(hist_quantile__random_values__within_one_percent_of_the_sorted),
        cmocka_unit_test(hist_merge__two_halves__same_as_all_in_one),
        cmocka_unit_test(hist_merge__empty_one__changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
