/* Row numbers sorted by time: held against a sort that tells equal times apart by their place. */
#include "base/clock.h"
#include "engine/sort.h"
#include "tests/lib/make_batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS_MAX (1u << 16)

static int64_t times[ROWS_MAX];
static uint32_t rows[ROWS_MAX], expected[ROWS_MAX], tmp[ROWS_MAX], count[ROWS_MAX + 1];

/* Row numbers rise in what is sorted, so that among equal times the lower one comes first. */
static int by_time_and_row(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (times[x] != times[y]) return times[x] < times[y] ? -1 : 1;
    return (x > y) - (x < y);
}

static void check(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        rows[i] = expected[i] = i;
    qsort(expected, n, sizeof *expected, by_time_and_row);
    memset(tmp, 0xee, sizeof tmp);
    memset(count, 0xee, sizeof count);
    sort_rows(rows, n, times, tmp, count);
    assert_memory_equal(rows, expected, n * sizeof *rows);
}

enum kind { EVEN, FEW_VALUES, CROWDED, EXTREME, ANY, FALLING, EQUAL, KINDS };

static void fill(struct make_random *random, enum kind kind, uint32_t n)
{
    int64_t base = (int64_t)make_random(random);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = make_random(random);
        switch (kind) {
        case EVEN: times[i] = INT64_C(1764547200000000000) + (int64_t)(x % n) * 1000000000; break;
        case FEW_VALUES: times[i] = base / 2 + (int64_t)(x % 5); break;
        case CROWDED: times[i] = i == n / 2 ? INT64_MIN : (int64_t)(x % 1000); break;
        case EXTREME:
            times[i] = x % 3 == 0 ? INT64_MIN : x % 3 == 1 ? INT64_MAX : (int64_t)x;
            break;
        case ANY: times[i] = (int64_t)x; break;
        case FALLING: times[i] = base / 2 - i; break;
        default: times[i] = base; break;
        }
    }
}

static void sort_rows__any_times__are_in_order_and_equal_ones_keep_theirs(void **state)
{
    (void)state;
    struct make_random random = {.state = make_seed(__func__)};
    for (int kind = 0; kind < KINDS; kind++) {
        for (uint32_t n = 0; n < 300; n++) {
            fill(&random, kind, n > 0 ? n : 1);
            check(n);
        }
        fill(&random, kind, ROWS_MAX);
        check(ROWS_MAX);
    }
}

/* Two outermost times and two in the middle of the range: the ends of the first and last bucket. */
static void sort_rows__ends_of_the_range__are_in_order(void **state)
{
    (void)state;
    static const int64_t ranges[] = {
        1,        15, 16, 17, UINT32_MAX, INT64_C(1) << 32, (INT64_C(1) << 32) + 1, INT64_MAX - 1,
        INT64_MAX};
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++)
        for (uint32_t n = 16; n < 80; n++) {
            for (uint32_t i = 0; i < n; i++)
                times[i] = INT64_MIN / 2 + (i % 4 == 0   ? ranges[r]
                                            : i % 4 == 1 ? 0
                                            : i % 4 == 2 ? ranges[r] / 2
                                                         : ranges[r] - 1);
            check(n);
        }
}

static int64_t fastest_ns(void)
{
    int64_t best = INT64_MAX;
    for (int run = 0; run < 5; run++) {
        for (uint32_t i = 0; i < ROWS_MAX; i++)
            rows[i] = i;
        int64_t began = clock_read_ns(CLOCK_MONOTONIC);
        sort_rows(rows, ROWS_MAX, times, tmp, count);
        int64_t took = clock_read_ns(CLOCK_MONOTONIC) - began;
        best = took < best ? took : best;
    }
    return best;
}

/* 65,536 rows in one bucket, put right by insertion, take 1,000 times as long as even ones. */
static void sort_rows__times_in_a_crowd__take_no_square(void **state)
{
    (void)state;
    struct make_random random = {.state = make_seed(__func__)};
    fill(&random, EVEN, ROWS_MAX);
    int64_t even_ns = fastest_ns();
    fill(&random, CROWDED, ROWS_MAX);
    int64_t crowded_ns = fastest_ns();
    print_message("even %lld us, crowded %lld us\n", (long long)even_ns / 1000,
                  (long long)crowded_ns / 1000);
    assert_true(crowded_ns < 50 * even_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sort_rows__any_times__are_in_order_and_equal_ones_keep_theirs),
        cmocka_unit_test(sort_rows__ends_of_the_range__are_in_order),
        cmocka_unit_test(sort_rows__times_in_a_crowd__take_no_square),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
