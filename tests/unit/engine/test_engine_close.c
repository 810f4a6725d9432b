/* Closing with a device that does not answer. */
#include "api/handle.h"
#include "tests/lib/engine_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* A row that is too large to be written by one blocking call: it goes through the queue, where the
 * double can hold it. */
static int write_row(struct engine_rig *rig, int64_t time)
{
    static uint8_t blob[200000];
    const uint32_t offsets[] = {0, sizeof blob};
    struct rf_column v = {
        .name = "v", .type = RF_BLOB, .category = RF_FIELD, .values = blob, .offsets = offsets};
    struct rf_tablet t = {
        .size = sizeof t, .table = "t", .rows = 1, .columns = 1, .times = &time, .column = &v};
    return rf_write(rig->e, &t, &rig->error);
}

static void open_rig(struct engine_rig *rig)
{
    rig->o.durable_wait_ms = 100;
    rig->o.wait_prepared = true;
    if (engine_rig_open(rig) != 0) fail_msg("rf_open: %s", rig->error.text);
    assert_int_equal(write_row(rig, 1), 0);
}

static void delay_writes(struct io_env *env)
{
    const struct fault_rule rule = {.kind = FAULT_DELAY,
                                    .targets = FAULT_ON_WRITE | FAULT_ON_SYNC,
                                    .path = "lane-00/00",
                                    .times = UINT64_MAX};
    assert_int_equal(fault_add(env, &rule), 0);
}

/* Told once that the outcome is unknown, counted once; the late answer makes it a batch after all. */
static void rf_write__device_answers_late__unknown_once(void **state)
{
    (void)state;
    const struct fault_options fault = {.seed = 1};
    struct io_env *env;
    struct engine_rig rig;
    assert_int_equal(fault_env_open(&fault, &env), 0);
    engine_rig_init(&rig, env);
    open_rig(&rig);
    delay_writes(env);
    assert_int_equal(write_row(&rig, 2), -RF_CODE_UNKNOWN);
    struct rf_stats s = {.size = sizeof s};
    assert_int_equal(rf_stats(rig.e, &s), 0);
    assert_int_equal(s.unknown, 1);
    assert_int_equal(s.rows, 1);
    fault_clear(env);
    fault_release(env);
    assert_int_equal(write_row(&rig, 3), 0); /* behind it in the log */
    assert_int_equal(rf_stats(rig.e, &s), 0);
    assert_int_equal(s.unknown, 1);
    assert_int_equal(s.rows, 3);
    assert_int_equal(engine_rig_close(&rig), 0);
    io_env_close(env);
}

/* A queue is not held by a device that does not answer; the answer finds it gone. */
static void rf_queue_close__device_answers_later__left_within_the_wait(void **state)
{
    (void)state;
    const struct fault_options fault = {.seed = 1};
    struct io_env *env;
    struct engine_rig rig;
    struct rf_queue *queue;
    assert_int_equal(fault_env_open(&fault, &env), 0);
    engine_rig_init(&rig, env);
    open_rig(&rig);
    assert_int_equal(rf_queue_open(rig.e, &queue), 0);
    delay_writes(env);
    int64_t before = clock_read_ns(CLOCK_MONOTONIC);
    static uint8_t blob[200000];
    const uint32_t offsets[] = {0, sizeof blob};
    for (int64_t time = 10; time < 12; time++) {
        struct rf_column v = {
            .name = "v", .type = RF_BLOB, .category = RF_FIELD, .values = blob, .offsets = offsets};
        struct rf_tablet t = {
            .size = sizeof t, .table = "t", .rows = 1, .columns = 1, .times = &time, .column = &v};
        assert_int_equal(rf_write_async(queue, &t, 1, 1000, NULL, NULL, &rig.error), 0);
    }
    rf_queue_close(queue);
    assert_true(clock_read_ns(CLOCK_MONOTONIC) - before < INT64_C(5000000000));
    fault_clear(env);
    fault_release(env);
    assert_int_equal(write_row(&rig, 12), 0); /* behind them */
    struct rf_stats s = {.size = sizeof s};
    assert_int_equal(rf_stats(rig.e, &s), 0);
    assert_int_equal(s.rows, 4);
    assert_int_equal(engine_rig_close(&rig), 0);
    io_env_close(env);
}

/* The answer comes when the engine is closed already: it decides, and answers a writer that is gone.
 * What it looks at must still be there, so this case is worth most under AddressSanitizer. */
static void rf_close__device_answers_later__nothing_is_touched_that_was_freed(void **state)
{
    (void)state;
    const struct fault_options fault = {.seed = 1};
    struct io_env *env; /* never closed: the lane's threads still use it */
    struct engine_rig rig;
    assert_int_equal(fault_env_open(&fault, &env), 0);
    engine_rig_init(&rig, env);
    rig.close_wait_ns = 300000000;
    open_rig(&rig);
    delay_writes(env);
    assert_int_equal(write_row(&rig, 2), -RF_CODE_UNKNOWN);
    assert_true(engine_rig_close(&rig) < 0);
    fault_clear(env);
    uint64_t before = fault_operations(env, FAULT_ON_ANY);
    fault_release(env);
    for (int i = 0; i < 200 && fault_operations(env, FAULT_ON_ANY) == before; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* the thread comes to its end */
    assert_true(fault_operations(env, FAULT_ON_ANY) > before);
    /* Its directory stays locked as long as the process lives. */
    engine_rig_init(&rig, env);
    rig.o.lock_wait_ms = 10;
    assert_int_equal(engine_rig_open(&rig), -RF_CODE_IN_USE);
}

static _Atomic uint32_t leak_events;
static void count_leaks(void *ctx, enum rf_log_level level, const char *event, const char *fields)
{
    (void)ctx, (void)level, (void)fields;
    if (strcmp(event, "engine.close_leaked") == 0) leak_events++;
}

/* Lane 1 is damaged, and a file that lane 0 makes meanwhile does not come to an end. */
static void open_damaged(struct io_env *env)
{
    struct engine_rig rig;
    engine_rig_init(&rig, env);
    rig.o.lanes = rig.o.regions = 2;
    assert_int_equal(engine_rig_open(&rig), 0);
    assert_int_equal(engine_rig_close(&rig), 0);
    struct io_file *file;
    assert_int_equal(io_open(env, "lane-01/0000000001", IO_READ | IO_WRITE, &file), 0);
    assert_int_equal(io_truncate(file, 4096), 0);
    io_close(file);
    const struct fault_rule rule = {.kind = FAULT_HANG,
                                    .targets = FAULT_ON_WRITE | FAULT_ON_SYNC,
                                    .path = "lane-00/free-",
                                    .times = UINT64_MAX};
    assert_int_equal(fault_add(env, &rule), 0);
    rig.close_wait_ns = 200000000;
    rig.o.log = count_leaks;
    rig.o.log_level = RF_LOG_ERROR;
    assert_int_equal(engine_rig_open(&rig), -RF_CODE_CORRUPT);
}

static void rf_open__fails_while_a_device_hangs__nothing_is_touched_that_was_freed(void **state)
{
    (void)state;
    const struct fault_options fault = {.seed = 1};
    struct io_env *env = NULL; /* the last one is never closed: the lane's threads still use it */
    leak_events = 0;
    for (int i = 0; i < 50 && leak_events == 0;
         i++) { /* lane 0 may be told to end before it begins */
        if (env != NULL) io_env_close(env);
        assert_int_equal(fault_env_open(&fault, &env), 0);
        open_damaged(env);
    }
    assert_int_equal(leak_events, 1);
    fault_clear(env);
    uint64_t before = fault_operations(env, FAULT_ON_ANY);
    fault_release(env);
    for (int i = 0; i < 200 && fault_operations(env, FAULT_ON_ANY) == before; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* the thread comes to its end */
    assert_true(fault_operations(env, FAULT_ON_ANY) > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rf_write__device_answers_late__unknown_once),
        cmocka_unit_test(rf_queue_close__device_answers_later__left_within_the_wait),
        cmocka_unit_test(rf_close__device_answers_later__nothing_is_touched_that_was_freed),
        cmocka_unit_test(rf_open__fails_while_a_device_hangs__nothing_is_touched_that_was_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
