/* The choice between the two durable writes of a disk with FUA. */
#include "wal/durable_way.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Writes of `bytes`, until a choice is made; how many it took. */
static uint32_t until_chosen(struct durable_way *way, uint32_t bytes, int64_t dsync_ns,
                             int64_t sync_ns)
{
    for (uint32_t n = 1; n < 100000; n++)
        if (durable_way_done(way, way->dsync, bytes, way->dsync ? dsync_ns : sync_ns)) return n;
    fail_msg("no choice was made");
    return 0;
}

static void durable_way__no_fua__always_write_and_sync(void **state)
{
    (void)state;
    struct durable_way way;
    durable_way_init(&way, false);
    for (uint32_t i = 0; i < 2 * DURABLE_WAY_HOLD_WRITES; i++) {
        assert_false(way.dsync);
        assert_false(durable_way_done(&way, false, 4096, 1000));
    }
}

static void durable_way__trial__both_in_turns_then_the_faster(void **state)
{
    (void)state;
    struct durable_way way;
    durable_way_init(&way, true);
    assert_true(way.dsync);
    for (int i = 0; i < DURABLE_WAY_TURN_WRITES; i++) {
        assert_true(way.dsync);
        assert_false(durable_way_done(&way, true, 4096, 1000));
    }
    assert_false(way.dsync); /* the other's turn */
    durable_way_init(&way, true);
    assert_int_equal(until_chosen(&way, 65536, 300000, 200000),
                     DURABLE_WAY_TURNS * DURABLE_WAY_TURN_WRITES);
    assert_false(way.dsync);
    assert_int_equal(durable_way_wait_ns(&way, true), 300000);
    assert_int_equal(durable_way_wait_ns(&way, false), 200000);
    durable_way_init(&way, true);
    until_chosen(&way, 65536, 200000, 300000);
    assert_true(way.dsync);
}

static void durable_way__after_long__tried_again(void **state)
{
    (void)state;
    struct durable_way way;
    durable_way_init(&way, true);
    until_chosen(&way, 4096, 90000, 200000);
    for (uint32_t i = 1; i < DURABLE_WAY_HOLD_WRITES; i++) {
        assert_true(way.dsync);
        assert_false(durable_way_done(&way, true, 4096, 90000));
    }
    assert_int_equal(until_chosen(&way, 4096, 400000, 200000),
                     1 + DURABLE_WAY_TURNS * DURABLE_WAY_TURN_WRITES);
    assert_false(way.dsync);
}

static void durable_way__end_of_the_other_turn__does_not_count(void **state)
{
    (void)state;
    struct durable_way way;
    durable_way_init(&way, true);
    /* What settles, and what was submitted in the turn before, may take as long as it likes. */
    for (int turn = 0; turn < DURABLE_WAY_TURNS; turn++) {
        bool dsync = way.dsync;
        for (int i = 0; i < DURABLE_WAY_TURN_WRITES; i++) {
            assert_false(durable_way_done(&way, !dsync, 1 << 20, 900000000));
            bool settles = i < DURABLE_WAY_SETTLE_WRITES;
            (void)durable_way_done(&way, dsync, 4096, settles ? 800000000 : dsync ? 1000 : 2000);
        }
    }
    assert_int_equal(way.turn, DURABLE_WAY_TURNS);
    assert_int_equal(durable_way_wait_ns(&way, true), 1000);
    assert_int_equal(durable_way_wait_ns(&way, false), 2000);
    assert_true(way.dsync);
}

static void durable_way__longest_waits_and_largest_writes__do_not_overflow(void **state)
{
    (void)state;
    struct durable_way way;
    durable_way_init(&way, true);
    until_chosen(&way, 4 << 20, INT64_MAX, 999999999);
    assert_false(way.dsync);
    assert_int_equal(durable_way_wait_ns(&way, true), 1000000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durable_way__no_fua__always_write_and_sync),
        cmocka_unit_test(durable_way__trial__both_in_turns_then_the_faster),
        cmocka_unit_test(durable_way__after_long__tried_again),
        cmocka_unit_test(durable_way__end_of_the_other_turn__does_not_count),
        cmocka_unit_test(durable_way__longest_waits_and_largest_writes__do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
