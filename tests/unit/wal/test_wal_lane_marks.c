/* The marks that a lane leaves on the disk: with all else intact, each kind alone convicts a log of
 * which something durable is gone. Without it that loss would pass for the end of the log. */
#include "tests/lib/lane_rig.h"
#include "wal/lane_impl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rig *open_on(struct io_env *env, int *rc_out)
{
    const struct rig_options o = {.env = env, .is_fault = true, .mode = WAL_SYNC};
    struct rig *rig = malloc(sizeof *rig);
    assert_non_null(rig);
    rig_init(rig, &o);
    *rc_out = rig_open(rig);
    return rig;
}

static struct rig *start(void)
{
    const struct fault_options fo = {.record = true};
    struct io_env *env;
    assert_int_equal(fault_env_open(&fo, &env), 0);
    int rc;
    struct rig *rig = open_on(env, &rc);
    assert_int_equal(rc, 0);
    rig_run(rig, 10); /* the first segments, whole */
    return rig;
}

static void write_one(struct rig *rig, uint32_t id, uint32_t bytes)
{
    assert_int_equal(rig_write(rig, id, bytes), 0);
    rig_run(rig, 100);
    assert_true(rig_answered(rig, id));
}

/* What a power failure leaves now, with the file of this segment zero in [from, to). */
static struct io_env *lose(struct rig *rig, uint64_t number, uint64_t from, uint64_t to,
                           struct io_env *left)
{
    struct io_env *env = rig->o.env;
    if (left == NULL)
        assert_int_equal(
            fault_crash(env, fault_trace_length(env), fault_choice_drop, NULL, NULL, &left, NULL),
            0);
    char path[WAL_PATH_BYTES];
    wal_segment_path(path, 0, number);
    struct io_file *file;
    assert_int_equal(io_open(left, path, IO_READ | IO_WRITE, &file), 0);
    uint8_t *zeros = calloc(1, to - from);
    assert_non_null(zeros);
    assert_int_equal(io_pwrite(file, zeros, to - from, from, 0, NULL), 0);
    assert_int_equal(io_sync(file), 0);
    io_close(file);
    free(zeros);
    return left;
}

static void is_refused(struct rig *rig, struct io_env *left)
{
    int rc;
    struct rig *again = open_on(left, &rc);
    assert_int_equal(rc, -RFE_CORRUPT);
    assert_int_equal(again->verdict, WAL_VERDICT_CORRUPT);
    assert_non_null(strstr(again->msg.text, "lane-00/0000000001: offset "));
    free(again);
    io_env_close(left);
    struct io_env *env = rig->o.env;
    assert_int_equal(rig_close(rig), 0);
    io_env_close(env);
    free(rig);
}

static uint64_t offset_of(const struct rig *rig, uint32_t id)
{
    return lsn_offset(rig->batch[id].ticket.lsn, rig->o.segment_bytes);
}

/* Batch 2 was published when batch 1 was durable, and says so. */
static void wal_lane_marks__record_behind_the_loss__convicts(void **state)
{
    (void)state;
    struct rig *rig = start();
    write_one(rig, 1, 5000);
    write_one(rig, 2, 100);
    uint64_t at = offset_of(rig, 1);
    is_refused(rig, lose(rig, 1, at, at + 4096, NULL));
}

/* The segment that was made ready last says how far the log was durable then. All records are gone
 * but the first, which carries the mark of an empty log. */
static void wal_lane_marks__header_of_a_later_segment__convicts(void **state)
{
    (void)state;
    struct rig *rig = start();
    uint32_t id = 1;
    while (lsn_segment(wal_reserved(rig->lane), rig->o.segment_bytes) < 2)
        write_one(rig, id++, 300000);
    rig_run(rig, 10);
    uint64_t ready = atomic_load(&rig->lane->ready_number);
    assert_true(ready >= 4);
    uint64_t end = rig->o.segment_bytes - rig->o.block_bytes;
    struct io_env *left = lose(rig, 1, offset_of(rig, 2), end, NULL);
    for (uint64_t number = 2; number <= ready; number++)
        left = lose(rig, number, rig->o.block_bytes, end, left);
    is_refused(rig, left);
}

/* The last batch has nobody behind it: once nothing else comes, a record of its own says that it was
 * durable. */
static void wal_lane_marks__nothing_written_for_a_second__last_batch_is_named(void **state)
{
    (void)state;
    struct rig *rig = start();
    write_one(rig, 1, 100);
    rig->lane->durable_moved_ns -= LANE_MARK_AFTER_NS; /* a second later */
    rig_run(rig, 10);
    uint64_t at = offset_of(rig, 1);
    is_refused(rig, lose(rig, 1, at, at + 4096, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_lane_marks__record_behind_the_loss__convicts),
        cmocka_unit_test(wal_lane_marks__header_of_a_later_segment__convicts),
        cmocka_unit_test(wal_lane_marks__nothing_written_for_a_second__last_batch_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
