/* Time partitions: floor division for every time, which no scan can tell from another division. */
#include "engine/engine_impl.h"
#include "tests/lib/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void partition_of__any_time__is_the_floor(void **state)
{
    (void)state;
    static const int64_t intervals[] = {
        1, 2, 3, 1000, INT64_C(604800000000000), INT64_MAX - 1, INT64_MAX};
    static const int64_t times[] = {
        INT64_MIN, INT64_MIN + 1, -1001, -1000, -999,          -2,       -1, 0,
        1,         999,           1000,  1001,  INT64_MAX - 1, INT64_MAX};
    for (size_t i = 0; i < sizeof intervals / sizeof *intervals; i++)
        for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
            __int128 p = partition_of(times[t], intervals[i]);
            assert_true(p * intervals[i] <= times[t]);
            assert_true(times[t] < (p + 1) * intervals[i]);
        }
    assert_true(partition_of(-1, 1000) == -1);
    assert_true(partition_of(0, 1000) == 0);
    assert_true(partition_of(INT64_MIN, 1) == INT64_MIN);
}

static void count_fragments(void *ctx, enum engine_step step, uint32_t fragment)
{
    (void)fragment;
    *(uint32_t *)ctx += step == STEP_FRAGMENT;
}

static void rf_write__rows_about_edges__one_fragment_a_partition(void **state)
{
    (void)state;
    char dir[TEMPDIR_BYTES];
    struct rf_options o;
    struct rf_engine *e;
    uint32_t fragments = 0;
    tempdir_make(dir);
    rf_options_init(&o);
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 8 << 20;
    o.partition_interval = 1000;
    assert_int_equal(rf_open(dir, &o, &e, NULL), 0);
    const int64_t times[] = {999, -1, 1000, -1500, INT64_MAX, 0, -1000, INT64_MIN, -1001};
    struct rf_column c = {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = times};
    struct rf_tablet t = {.size = sizeof t,
                          .table = "t",
                          .rows = sizeof times / sizeof *times,
                          .columns = 1,
                          .times = times,
                          .column = &c};
    engine_step_ctx = &fragments;
    engine_step_seam = count_fragments;
    int rc = rf_write(e, &t, NULL);
    engine_step_seam = NULL;
    assert_int_equal(rc, 0);
    /* The two ends, {-1500, -1001}, {-1000, -1}, {0, 999}, {1000}. */
    assert_int_equal(fragments, 6);
    assert_int_equal(rf_close(e), 0);
    tempdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(partition_of__any_time__is_the_floor),
        cmocka_unit_test(rf_write__rows_about_edges__one_fragment_a_partition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
