/* ctest: concurrent
 *
 * Trim, flush and fence of a whole engine, over several lanes and a disk that fails. */
#include "engine/engine_impl.h"
#include "tests/lib/engine_rig.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ROWS 8000u /* of a batch: a tenth of a segment or so */

static struct engine_rig rig;
static int64_t times[ROWS];

static void open_new(uint32_t lanes, enum rf_sync sync, enum rf_lease_mode lease)
{
    const struct fault_options fo = {.record = true};
    struct io_env *env;
    assert_int_equal(fault_env_open(&fo, &env), 0);
    engine_rig_init(&rig, env);
    rig.o.memory_bytes *= lanes;
    rig.o.lanes = rig.o.regions = lanes;
    rig.o.sync = sync;
    rig.o.lease = lease;
    assert_int_equal(engine_rig_open(&rig), 0);
}

static void open_again(void)
{
    assert_int_equal(engine_rig_close(&rig), 0);
    assert_int_equal(engine_rig_open(&rig), 0);
}

static void end(void)
{
    struct io_env *env = rig.env;
    assert_int_equal(engine_rig_close(&rig), 0);
    io_env_close(env);
}

/* Rows at ROWS * batch and on; host: one letter. */
static int write_rows(int64_t batch, char host, uint32_t rows)
{
    static char hosts[ROWS];
    static uint32_t offsets[ROWS + 1];
    for (uint32_t i = 0; i < rows; i++) {
        times[i] = batch * ROWS + i;
        hosts[i] = host;
        offsets[i + 1] = i + 1;
    }
    struct rf_column c[] = {
        {.name = "host", .type = RF_STRING, .values = hosts, .offsets = offsets},
        {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = times}};
    struct rf_tablet t = {
        .size = sizeof t, .table = "t", .rows = rows, .columns = 2, .times = times, .column = c};
    return rf_write(rig.e, &t, &rig.error);
}

static uint64_t count_rows(void)
{
    struct rf_scan_options o;
    uint64_t rows;
    rf_scan_options_init(&o);
    o.table = "t";
    assert_int_equal(rf_count(rig.e, &o, &rows, &rig.error), 0);
    return rows;
}

static uint64_t segments(void)
{
    struct rf_stats s = {.size = sizeof s};
    assert_int_equal(rf_stats(rig.e, &s), 0);
    return s.segments;
}

static int trim_before(int64_t time)
{
    struct rf_trim_options o;
    rf_trim_options_init(&o);
    o.by_time = true;
    o.before_time = time;
    return rf_trim(rig.e, &o, NULL);
}

/* Batches of two devices in turn, until the newest is the first of segment n; returns how many. */
static int64_t write_until_segment(uint64_t n)
{
    int64_t batches = 0;
    while (segments() < n) {
        assert_int_equal(write_rows(batches, batches % 2 == 0 ? 'a' : 'c', ROWS), 0);
        batches++;
    }
    return batches;
}

static void rf_trim__row_at_that_time__its_segment_stays(void **state)
{
    (void)state;
    open_new(1, RF_SYNC_ALWAYS, RF_LEASE_OFF);
    int64_t batches = write_until_segment(2);
    int64_t last = (batches - 1) * ROWS - 1; /* row of the first segment */
    assert_int_equal(trim_before(last), 0);
    assert_int_equal(count_rows(), batches * ROWS);
    assert_int_equal(trim_before(last + 1), 0);
    assert_int_equal(count_rows(), ROWS);
    end();
}

/* The next manifest that is written must not say what the lane does not know. */
static void rf_trim__manifest_not_written__nothing_is_lost_later(void **state)
{
    (void)state;
    open_new(1, RF_SYNC_ALWAYS, RF_LEASE_OFF);
    int64_t batches = write_until_segment(3);
    struct fault_rule rule = {.kind = FAULT_ERROR,
                              .targets = FAULT_ON_WRITE,
                              .path = WAL_MANIFEST_TMP_NAME,
                              .times = 1,
                              .error = EIO};
    assert_int_equal(fault_add(rig.env, &rule), 0);
    assert_int_not_equal(trim_before(INT64_MAX), 0);
    fault_clear(rig.env);
    assert_int_equal(count_rows(), batches * ROWS);
    static const struct rf_column_def v = {"v", RF_INT64, RF_FIELD};
    assert_int_equal(rf_table_create(rig.e, "u", &v, 1, 0, &rig.error), 0);
    open_again(); /* closing writes a manifest with the new version */
    assert_int_equal(count_rows(), batches * ROWS);
    end();
}

/* What a cursor has to read stays where it is, also when the log is trimmed and has room for nothing
 * else; the second device is looked up when the log has long gone on. (The cursor is called now and
 * then, so that it does not count as forgotten.) */
static void rf_scan_next__trimmed_behind_it__rows_as_they_were(void **state)
{
    (void)state;
    open_new(1, RF_SYNC_ALWAYS, RF_LEASE_OFF);
    int64_t batches = write_until_segment(3), rows = 0, seen = 0;
    assert_int_equal(engine_rig_close(&rig), 0);
    rig.o.write_wait_ms = 300;
    assert_int_equal(engine_rig_open(&rig), 0);
    struct rf_scan_options o;
    struct rf_cursor *cursor;
    struct rf_tablet t;
    rf_scan_options_init(&o);
    o.table = "t";
    assert_int_equal(rf_scan_open(rig.e, &o, &cursor, &rig.error), 0);
    bool room = true;
    for (int64_t more = 0; rf_scan_next(cursor, &t) == 1; more++) {
        const int64_t *v = NULL;
        for (uint32_t c = 0; c < t.columns; c++)
            if (strcmp(t.column[c].name, "v") == 0) v = t.column[c].values;
        assert_non_null(v);
        rows += t.rows;
        for (uint32_t r = 0; r < t.rows; r++)
            seen += v[r] == t.times[r];
        if (more == 0) assert_int_equal(trim_before(INT64_MAX), 0);
        for (int i = 0; room && i < 3; i++)
            room = write_rows(batches + 3 * more + i, 'b', ROWS) == 0;
    }
    rf_scan_close(cursor);
    assert_false(room); /* it ended: nothing that the cursor reads was used again */
    assert_int_equal(rows, batches * ROWS);
    assert_int_equal(seen, rows);
    end();
}

/* Its bytes may be on the disk: only a new life, or a resume, tells. */
static void rf_write__log_write_fails__unknown_and_not_tried_again(void **state)
{
    (void)state;
    open_new(1, RF_SYNC_ALWAYS, RF_LEASE_OFF);
    assert_int_equal(write_rows(0, 'a', 10), 0);
    struct fault_rule rule = {.kind = FAULT_ERROR,
                              .targets = FAULT_ON_WRITE,
                              .path = "lane-00/0",
                              .times = 1,
                              .error = EIO};
    assert_int_equal(fault_add(rig.env, &rule), 0);
    assert_int_equal(write_rows(1, 'a', 10), -RF_CODE_WAL_ERROR);
    fault_clear(rig.env);
    struct rf_stats s = {.size = sizeof s};
    assert_int_equal(rf_stats(rig.e, &s), 0);
    assert_int_equal(s.unknown, 1);
    assert_int_equal(rf_resume(rig.e, &rig.error), 0);
    assert_int_equal(count_rows(), 10);
    end();
}

static struct wal_segment_head head_of(struct io_env *env, uint64_t number)
{
    static uint8_t block[4096];
    char path[WAL_PATH_BYTES];
    struct io_file *file;
    struct wal_segment_head head;
    wal_segment_path(path, 0, number);
    assert_int_equal(io_open(env, path, IO_READ, &file), 0);
    assert_int_equal(io_pread(file, block, sizeof block, 0, NULL), 0);
    io_close(file);
    assert_int_equal(wal_segment_head_decode(block, sizeof block, &head), WAL_SEGMENT_HEAD_VALID);
    return head;
}

/* Whatever the crash has left behind the end is under salts that are in force no more. */
static void rf_open__log_that_was_not_closed__is_cut(void **state)
{
    (void)state;
    open_new(1, RF_SYNC_ALWAYS, RF_LEASE_OFF);
    assert_int_equal(write_rows(0, 'a', 10), 0);
    uint64_t at = fault_trace_length(rig.env);
    struct io_env *env = rig.env, *left;
    assert_int_equal(fault_crash(env, at, fault_choice_drop, NULL, NULL, &left, NULL), 0);
    end();
    rig.env = left;
    struct wal_segment_head before = head_of(left, 2);
    assert_int_equal(engine_rig_open(&rig), 0);
    struct wal_segment_head after = head_of(left, 2);
    assert_true(after.salt != before.salt && after.generation > before.generation);
    assert_int_equal(count_rows(), 10);
    open_again();
    assert_true(head_of(left, 2).salt == after.salt); /* closed: nothing to cut */
    end();
}

/* Every letter, so that each lane has devices. */
static void write_letters(int64_t batch)
{
    for (char host = 'a'; host <= 'z'; host++)
        assert_int_equal(write_rows(batch, host, 1), 0);
}

static void rf_flush__several_lanes__all_are_durable(void **state)
{
    (void)state;
    for (int sync = RF_SYNC_ASYNC; sync <= RF_SYNC_OFF; sync++) {
        open_new(3, (enum rf_sync)sync, RF_LEASE_OFF);
        write_letters(0);
        assert_int_equal(rf_flush(rig.e), 0);
        uint64_t at = fault_trace_length(rig.env);
        struct io_env *env = rig.env, *left;
        assert_int_equal(fault_crash(env, at, fault_choice_drop, NULL, NULL, &left, NULL), 0);
        end();
        rig.env = left;
        assert_int_equal(engine_rig_open(&rig), 0);
        assert_int_equal(count_rows(), 26);
        end();
    }
}

/* ---- a fence over several lanes ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static bool stands, may_go, fenced;

static void stand(void *ctx, enum engine_step step, uint32_t fragment)
{
    (void)ctx, (void)fragment;
    if (step != STEP_PUBLISH) return;
    pthread_mutex_lock(&lock);
    stands = true;
    pthread_cond_broadcast(&moved);
    while (!may_go)
        pthread_cond_wait(&moved, &lock);
    pthread_mutex_unlock(&lock);
}

static void *write_and_stand(void *arg)
{
    (void)write_rows(1, *(const char *)arg, 1);
    return NULL;
}

static void *fence(void *arg)
{
    (void)arg;
    if (rf_lease_fence(rig.e) != 0) abort();
    pthread_mutex_lock(&lock);
    fenced = true;
    pthread_mutex_unlock(&lock);
    return NULL;
}

static bool is_fenced(void)
{
    pthread_mutex_lock(&lock);
    bool is = fenced;
    pthread_mutex_unlock(&lock);
    return is;
}

/* Whatever lane he stands in, a writer who has reserved under the old epoch holds up the fence. */
static void rf_lease_fence__writer_stands_in_any_lane__waits_for_him(void **state)
{
    (void)state;
    open_new(3, RF_SYNC_ALWAYS, RF_LEASE_EMBEDDED);
    rig.o.write_wait_ms = 0;
    write_letters(0);
    static const char hosts[] = "abcdefgh"; /* of all three lanes */
    for (const char *host = hosts; *host != '\0'; host++) {
        stands = may_go = fenced = false;
        engine_step_seam = stand;
        pthread_t writer, fencer;
        assert_int_equal(pthread_create(&writer, NULL, write_and_stand, (void *)(uintptr_t)host),
                         0);
        pthread_mutex_lock(&lock);
        while (!stands)
            pthread_cond_wait(&moved, &lock);
        pthread_mutex_unlock(&lock);
        assert_int_equal(pthread_create(&fencer, NULL, fence, NULL), 0);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        bool early = is_fenced();
        pthread_mutex_lock(&lock);
        may_go = true;
        engine_step_seam = NULL;
        pthread_cond_broadcast(&moved);
        pthread_mutex_unlock(&lock);
        assert_int_equal(pthread_join(writer, NULL), 0);
        assert_int_equal(pthread_join(fencer, NULL), 0);
        assert_false(early);
        assert_true(is_fenced());
    }
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rf_trim__row_at_that_time__its_segment_stays),
        cmocka_unit_test(rf_trim__manifest_not_written__nothing_is_lost_later),
        cmocka_unit_test(rf_scan_next__trimmed_behind_it__rows_as_they_were),
        cmocka_unit_test(rf_write__log_write_fails__unknown_and_not_tried_again),
        cmocka_unit_test(rf_open__log_that_was_not_closed__is_cut),
        cmocka_unit_test(rf_flush__several_lanes__all_are_durable),
        cmocka_unit_test(rf_lease_fence__writer_stands_in_any_lane__waits_for_him),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
