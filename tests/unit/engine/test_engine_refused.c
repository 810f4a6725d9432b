/* ctest: timeout=120 */
/* An engine that runs out of memory at each allocation of each call, of room, of slots, of patience;
 * and callers at the edges of what a call takes. */
#include "api/handle.h"
#include "base/alloc.h"
#include "engine/engine_impl.h"
#include "tests/lib/engine_rig.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct io_env *fresh_env(bool fua)
{
    struct io_env *env;
    const struct fault_options fo = {.seed = 0, .fua = fua};
    assert_int_equal(fault_env_open(&fo, &env), 0);
    return env;
}

static void begin(struct engine_rig *rig)
{
    engine_rig_init(rig, fresh_env(false));
    rig->o.wait_prepared = true;
    rig->o.lease = RF_LEASE_OFF;
}

static void open_it(struct engine_rig *rig)
{
    int rc = engine_rig_open(rig);
    if (rc != 0) fail_msg("rf_open: %d %s", rc, rig->error.text);
}

static void finish(struct engine_rig *rig)
{
    struct io_env *env = rig->env;
    assert_int_equal(engine_rig_close(rig), 0);
    io_env_close(env);
}

/* ---- tablets ---- */

#define ROWS 96u
static int64_t times[ROWS];
static uint32_t offsets[ROWS + 1], tag_offsets[ROWS + 1];
static double numbers[ROWS];
static uint8_t bytes[ROWS], nulls[ROWS / 8];
static char tags[ROWS];

/* Four devices, rows in no order, one in eight null. */
static void fill_columns(void)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        times[i] = (int64_t)(i * 37 % ROWS) * 100000 - 3000000;
        numbers[i] = i;
        bytes[i] = (uint8_t)(i & 1);
        tags[i] = (char)('a' + i % 4);
        offsets[i + 1] = i + 1;
        tag_offsets[i + 1] = i + 1;
        nulls[i / 8] = 0x10;
    }
}

static struct rf_tablet tablet_of(struct rf_column c[5], const char *table, const char *device)
{
    fill_columns();
    uint32_t n = 0;
    if (table != NULL)
        c[n++] = (struct rf_column){
            .name = "host", .type = RF_STRING, .values = tags, .offsets = tag_offsets};
    c[n++] = (struct rf_column){
        .name = "d", .type = RF_DOUBLE, .category = RF_FIELD, .values = numbers, .nulls = nulls};
    c[n++] =
        (struct rf_column){.name = "i", .type = RF_INT32, .category = RF_FIELD, .values = numbers};
    c[n++] =
        (struct rf_column){.name = "b", .type = RF_BOOLEAN, .category = RF_FIELD, .values = bytes};
    c[n++] = (struct rf_column){
        .name = "t", .type = RF_TEXT, .category = RF_FIELD, .values = tags, .offsets = offsets};
    return (struct rf_tablet){.size = sizeof(struct rf_tablet),
                              .table = table,
                              .device = device,
                              .rows = ROWS,
                              .columns = n,
                              .times = times,
                              .column = c};
}

static int write_both(struct engine_rig *rig)
{
    struct rf_column c[2][5];
    const struct rf_tablet t[2] = {tablet_of(c[0], "cpu", NULL), tablet_of(c[1], NULL, "root.a.b")};
    return rf_write_batch(rig->e, t, 2, &rig->error);
}

/* ---- memory ---- */

static int do_write(struct engine_rig *rig)
{
    return write_both(rig);
}
static int do_write_async(struct engine_rig *rig)
{
    struct rf_queue *q;
    struct rf_column c[5];
    struct rf_completion done;
    const struct rf_tablet t = tablet_of(c, "cpu", NULL);
    int rc = rf_queue_open(rig->e, &q);
    if (rc != 0) return rc;
    rc = rf_write_async(q, &t, 1, 1000, NULL, NULL, &rig->error);
    if (rc == 0) {
        assert_int_equal(rf_completions(q, &done, 1, -1), 1);
        rc = done.code;
    }
    rf_queue_close(q);
    return rc;
}
/* More names of tags than the table of a batch's new ones begins with. */
static int do_write_new_tags(struct engine_rig *rig)
{
    static char names[80][8];
    struct rf_column c[80];
    struct rf_tablet t[80];
    fill_columns();
    for (uint32_t i = 0; i < 80; i++) {
        snprintf(names[i], sizeof names[i], "n%u", i);
        c[i] = (struct rf_column){
            .name = i % 2 == 0 ? "x" : "y", .type = RF_STRING, .values = tags, .offsets = offsets};
        t[i] = (struct rf_tablet){.size = sizeof t[i],
                                  .table = names[i],
                                  .rows = 8,
                                  .columns = 1,
                                  .times = times,
                                  .column = &c[i]};
    }
    return rf_write_batch(rig->e, t, 80, &rig->error);
}
static int scan_with(struct engine_rig *rig, const struct rf_scan_options *o)
{
    struct rf_cursor *cursor;
    struct rf_tablet rows;
    int rc = rf_scan_open(rig->e, o, &cursor, &rig->error);
    if (rc != 0) return rc;
    while ((rc = rf_scan_next(cursor, &rows)) == 1)
        ;
    rf_scan_close(cursor);
    return rc;
}
static const struct rf_tag_filter host_a = {.name = "host", .value = "a"};
static int do_scan(struct engine_rig *rig)
{
    static const char *const columns[] = {"t", "d"};
    struct rf_scan_options o;
    rf_scan_options_init(&o);
    o.table = "cpu";
    o.tags = &host_a;
    o.tag_count = 1;
    o.columns = columns;
    o.column_count = 2;
    return scan_with(rig, &o);
}
static int do_scan_tree(struct engine_rig *rig)
{
    struct rf_scan_options o;
    rf_scan_options_init(&o);
    o.device = "root.a.b";
    o.descending = true;
    return scan_with(rig, &o);
}
static int do_count(struct engine_rig *rig)
{
    struct rf_scan_options o;
    uint64_t rows;
    rf_scan_options_init(&o);
    o.table = "cpu";
    return rf_count(rig->e, &o, &rows, &rig->error);
}
static int do_delete(struct engine_rig *rig)
{
    static const char *const columns[] = {"t", "d"};
    struct rf_delete_options o;
    rf_delete_options_init(&o);
    o.table = "cpu";
    o.tags = &host_a;
    o.tag_count = 1;
    o.columns = columns;
    o.column_count = 2;
    return rf_delete(rig->e, &o, &rig->error);
}
static int do_trim(struct engine_rig *rig)
{
    struct rf_trim_options o;
    rf_trim_options_init(&o);
    o.by_time = true;
    o.before_time = INT64_MIN;
    return rf_trim(rig->e, &o, NULL);
}
static int seen_table(void *ctx, const struct rf_table_info *info)
{
    (void)ctx, (void)info;
    return 0;
}
static int do_tables(struct engine_rig *rig)
{
    return rf_tables(rig->e, seen_table, NULL);
}

/* Every piece of scratch memory is an allocation of its own. */
static void shrink_scratch(struct engine_rig *rig)
{
    struct engine *e = atomic_load(&rig->e->engine);
    scratch_pool_deinit(&e->scratches); /* nobody uses any: the next one is made anew */
    scratch_pool_init(&e->scratches);
    scratch_block_bytes = 16;
}

static void engine_refused__kth_allocation_of_each_call_fails__same_call_works_after(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int (*run)(struct engine_rig *rig);
    } calls[] = {
        {"write", do_write},       {"async", do_write_async},   {"new tags", do_write_new_tags},
        {"scan", do_scan},         {"scan tree", do_scan_tree}, {"count", do_count},
        {"delete", do_delete},     {"trim", do_trim},           {"tables", do_tables},
        {"write again", do_write},
    };
    uint32_t failed = 0;
    struct engine_rig rig;
    begin(&rig);
    open_it(&rig);
    for (uint32_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        uint64_t k = 1;
        for (bool hit = true; hit && k < 1200; k++) {
            shrink_scratch(&rig);
            uint64_t before = alloc_calls();
            alloc_fail_at(k);
            int rc = calls[i].run(&rig);
            hit = alloc_calls() - before >= k;
            alloc_fail_at(0);
            if (rc == 0) continue;
            failed++;
            /* The plane's worker may have been the one that had no memory. */
            if (rc != -ENOMEM && rc != -RF_CODE_METADATA_ERROR)
                fail_msg("%s, allocation %u: %d %s", calls[i].name, (unsigned)k, rc,
                         rig.error.text);
        }
        int rc = calls[i].run(&rig);
        if (rc == -RF_CODE_METADATA_ERROR) { /* until it is opened again */
            assert_int_equal(engine_rig_close(&rig), 0);
            open_it(&rig);
            rc = calls[i].run(&rig);
        }
        if (rc != 0) fail_msg("%s, with memory: %d %s", calls[i].name, rc, rig.error.text);
        printf("%s: %u allocations\n", calls[i].name, (unsigned)(k - 2));
    }
    assert_true(failed > 60);
    scratch_block_bytes = 256u << 10;
    finish(&rig);
}

static void engine_refused__kth_allocation_of_an_open_with_stages_fails__opens_after(void **state)
{
    (void)state;
    struct engine_rig rig;
    begin(&rig);
    rig.o.stages = true;
    open_it(&rig);
    assert_int_equal(write_both(&rig), 0);
    assert_int_equal(engine_rig_close(&rig), 0);
    uint32_t failed = 0;
    for (uint64_t k = 1; k < 400; k++) {
        alloc_fail_at(k);
        int rc = engine_rig_open(&rig);
        alloc_fail_at(0);
        if (rc != 0) failed++;
        if (rc == 0) assert_int_equal(engine_rig_close(&rig), 0);
    }
    assert_true(failed > 20);
    open_it(&rig);
    finish(&rig);
}

/* ---- room ---- */

static void engine_refused__no_room_for_the_batch__says_why(void **state)
{
    (void)state;
    struct engine_rig rig;
    begin(&rig);
    rig.o.write_wait_ms = 20;
    rig.o.log_bytes_max = 1; /* four segments at least */
    open_it(&rig);
    static char large[1200000];
    static uint32_t ends[2] = {0, sizeof large};
    struct rf_column c = {
        .name = "blob", .type = RF_BLOB, .category = RF_FIELD, .values = large, .offsets = ends};
    fill_columns();
    struct rf_tablet t = {
        .size = sizeof t, .table = "big", .rows = 1, .columns = 1, .times = times, .column = &c};
    assert_int_equal(rf_write(rig.e, &t, &rig.error), -RF_CODE_ENTRY_TOO_LARGE);
    assert_non_null(strstr(rig.error.text, "split it"));
    ends[1] = 300000;
    int rc = 0;
    for (int i = 0; i < 40 && rc == 0; i++)
        rc = rf_write(rig.e, &t, &rig.error);
    assert_int_equal(rc, -RF_CODE_WRITE_REJECT);
    struct rf_stats stats = {.size = sizeof stats};
    assert_int_equal(rf_stats(rig.e, &stats), 0);
    assert_true(stats.segments <= 4 && stats.rejected > 0);
    finish(&rig);
}

static void engine_refused__disk_full__told_apart_from_a_full_log(void **state)
{
    (void)state;
    struct engine_rig rig;
    begin(&rig);
    rig.o.wait_prepared = false;
    rig.o.memory_bytes *= 8; /* more segments than the disk has room for, whenever they are made */
    rig.o.write_wait_ms = 1500;
    fault_set_space(rig.env, UINT64_C(6) << 20);
    open_it(&rig);
    struct story_tablet t;
    int rc = 0;
    for (uint32_t b = 1; b < 60 && rc != -RF_CODE_DISK_FULL; b++) { /* 606: not tried yet */
        story_tablet(&t, 0, b, 30000, 0);
        rc = rf_write(rig.e, &t.tablet, &rig.error);
        story_free(&t);
    }
    assert_int_equal(rc, -RF_CODE_DISK_FULL);
    assert_non_null(strstr(rig.error.text, "disk is full"));
    fault_set_space(rig.env, UINT64_MAX);
    finish(&rig);
}

/* ---- a lane that stopped ---- */

static void engine_refused__latched__flush_trim_resume_say_so(void **state)
{
    (void)state;
    struct engine_rig rig;
    begin(&rig);
    open_it(&rig);
    assert_int_equal(write_both(&rig), 0);
    const struct fault_rule rule = {.kind = FAULT_ERROR,
                                    .targets = FAULT_ON_WRITE | FAULT_ON_SYNC,
                                    .path = "lane-",
                                    .times = UINT64_MAX,
                                    .error = EIO};
    assert_int_equal(fault_add(rig.env, &rule), 0);
    assert_int_equal(write_both(&rig), -RF_CODE_WAL_ERROR);
    assert_int_equal(rf_flush(rig.e), -RF_CODE_WAL_ERROR);
    assert_int_not_equal(rf_resume(rig.e, &rig.error), 0);
    assert_int_equal(write_both(&rig), -RF_CODE_LATCHED);
    struct rf_stats stats = {.size = sizeof stats};
    assert_int_equal(rf_stats(rig.e, &stats), 0);
    assert_true(stats.latched);
    fault_clear(rig.env);
    assert_int_equal(rf_resume(rig.e, &rig.error), 0);
    assert_int_equal(write_both(&rig), 0);
    finish(&rig);
}

/* ---- a table that is being dropped ---- */

/* The catalog's disk fails behind the marker: the table stays marked, and takes nothing. */
static void engine_refused__drop_failed_behind_its_marker__table_takes_nothing(void **state)
{
    (void)state;
    uint32_t marked = 0;
    for (uint64_t k = 0; k < 40; k++) {
        struct engine_rig rig;
        begin(&rig);
        open_it(&rig);
        assert_int_equal(write_both(&rig), 0);
        const struct fault_rule rule = {.kind = FAULT_ERROR,
                                        .targets = FAULT_ON_WRITE | FAULT_ON_SYNC | FAULT_ON_NAME,
                                        .path = "catalog",
                                        .skip = k,
                                        .times = UINT64_MAX,
                                        .error = EIO};
        assert_int_equal(fault_add(rig.env, &rule), 0);
        int dropped = rf_table_drop(rig.e, "cpu", &rig.error);
        fault_clear(rig.env);
        int rc = do_delete(&rig);
        if (rc == -RF_CODE_SEMANTIC_ERROR) {
            marked++;
            assert_int_not_equal(dropped, 0);
            assert_int_equal(write_both(&rig), -RF_CODE_SEMANTIC_ERROR);
            assert_non_null(strstr(rig.error.text, "dropped"));
        }
        assert_int_equal(engine_rig_close(&rig), 0);
        open_it(&rig); /* what was marked is dropped now */
        if (marked == 1 && rc == -RF_CODE_SEMANTIC_ERROR)
            assert_int_equal(do_delete(&rig), -RF_CODE_NO_TABLE);
        finish(&rig);
        if (dropped == 0) break;
    }
    assert_true(marked > 0);
}

/* ---- times and sizes at their ends ---- */

static void engine_refused__waits_without_end__are_taken(void **state)
{
    (void)state;
    struct engine_rig rig;
    begin(&rig);
    rig.o.durable_wait_ms = INT64_MAX / 1000000;
    rig.o.write_wait_ms = INT64_MAX / 1000000;
    open_it(&rig);
    assert_int_equal(write_both(&rig), 0);
    assert_int_equal(rf_flush(rig.e), 0);
    struct rf_queue *q;
    struct rf_completion done;
    struct rf_column c[5];
    const struct rf_tablet t = tablet_of(c, "cpu", NULL);
    assert_int_equal(rf_queue_open(rig.e, &q), 0);
    static const int64_t waits[] = {-1, INT64_MAX, INT64_MIN, 0, INT64_MAX / 1000000};
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(rf_write_async(q, &t, 1, waits[i], NULL, &rig, &rig.error), 0);
        int64_t timeout_ms = waits[i] == 0 ? 5000 : waits[i];
        assert_int_equal(rf_completions(q, &done, 1, timeout_ms), 1);
        assert_int_equal(done.code, 0);
        assert_ptr_equal(done.user, &rig);
    }
    assert_int_equal(rf_write_async(q, &t, 1, 0, NULL, NULL, NULL), 0);
    rf_queue_close(q); /* waits for it, without end */
    finish(&rig);
}

static void engine_refused__names_at_their_ends__each_has_its_code(void **state)
{
    (void)state;
    struct engine_rig rig;
    begin(&rig);
    open_it(&rig);
    assert_int_equal(write_both(&rig), 0);
    static char path[6000], value[6000];
    memset(path, 'x', sizeof path - 1);
    memset(value, 'v', sizeof value - 1);
    for (size_t i = 7; i < sizeof path - 1; i += 100)
        path[i] = '.';
    memcpy(path, "root.a.", 7);
    struct rf_scan_options o;
    uint64_t rows = 99;
    rf_scan_options_init(&o);
    o.device = path;
    int rc = rf_count(rig.e, &o, &rows, &rig.error);
    assert_true(rc == -RF_CODE_LIMIT || rc == -RF_CODE_BAD_NAME);
    o.device = "root.a.b";
    o.tags = &host_a;
    o.tag_count = 1;
    assert_int_equal(rf_count(rig.e, &o, &rows, &rig.error), -EINVAL);
    const struct rf_tag_filter long_value = {.name = "host", .value = value};
    o.device = NULL;
    o.table = "cpu";
    o.tags = &long_value;
    assert_int_equal(rf_count(rig.e, &o, &rows, &rig.error), 0); /* no row is of it */
    assert_int_equal(rows, 0);
    assert_int_equal(rf_count(rig.e, NULL, &rows, &rig.error), -EINVAL);
    o.table = "root.a"; /* a database of the tree model */
    assert_int_equal(rf_count(rig.e, &o, &rows, &rig.error), -RF_CODE_NO_TABLE);
    assert_int_equal(rf_delete(rig.e, NULL, NULL), -EINVAL);
    struct rf_delete_options d;
    rf_delete_options_init(&d);
    d.table = "none";
    assert_int_equal(rf_delete(rig.e, &d, NULL), -RF_CODE_NO_TABLE);
    finish(&rig);
}

/* More series than the list of a device's live ones begins with, and one of them asked for. */
static void engine_refused__many_series__rows_are_there_while_one_is(void **state)
{
    (void)state;
    struct engine_rig rig;
    begin(&rig);
    open_it(&rig);
    static char names[100][8];
    struct rf_column c[100];
    fill_columns();
    for (uint32_t i = 0; i < 100; i++) {
        snprintf(names[i], sizeof names[i], "s%02u", i);
        c[i] = (struct rf_column){
            .name = names[i], .type = RF_DOUBLE, .category = RF_FIELD, .values = numbers};
    }
    const struct rf_tablet t = {.size = sizeof t,
                                .device = "root.a.b",
                                .rows = 8,
                                .columns = 100,
                                .times = times,
                                .column = c};
    assert_int_equal(rf_write(rig.e, &t, &rig.error), 0);
    for (uint32_t i = 0; i < 99; i++)
        assert_int_equal(rf_series_drop(rig.e, "root.a.b", names[i], &rig.error), 0);
    struct rf_scan_options o;
    uint64_t rows;
    rf_scan_options_init(&o);
    o.device = "root.a.b";
    assert_int_equal(rf_count(rig.e, &o, &rows, &rig.error), 0);
    assert_int_equal(rows, 8);
    assert_int_equal(rf_series_drop(rig.e, "root.a.b", names[99], &rig.error), 0);
    assert_int_equal(rf_count(rig.e, &o, &rows, &rig.error), 0);
    assert_int_equal(rows, 0);
    finish(&rig);
}

static void engine_refused__all_pins_taken__trim_by_time_is_refused(void **state)
{
    (void)state;
    struct engine_rig rig;
    begin(&rig);
    open_it(&rig);
    assert_int_equal(write_both(&rig), 0);
    static struct rf_cursor *cursors[1025];
    struct rf_scan_options o;
    rf_scan_options_init(&o);
    o.table = "cpu";
    uint32_t n = 0;
    int rc = 0;
    while (n < 1025 && (rc = rf_scan_open(rig.e, &o, &cursors[n], &rig.error)) == 0)
        n++;
    assert_int_equal(n, 1024);
    assert_int_equal(rc, -RF_CODE_LIMIT);
    assert_int_equal(do_trim(&rig), -RF_CODE_LIMIT);
    for (uint32_t i = 0; i < n; i++)
        rf_scan_close(cursors[i]);
    rf_scan_close(NULL);
    assert_int_equal(do_trim(&rig), 0);
    finish(&rig);
}

/* ---- other ways of writing ---- */

static void engine_refused__each_mode_with_stages__adds_up(void **state)
{
    (void)state;
    for (int n = 0; n < 6; n++) {
        struct engine_rig rig;
        engine_rig_init(&rig, fresh_env(n % 2 == 0));
        rig.o.sync = (enum rf_sync)(n / 2);
        rig.o.stages = true;
        rig.o.buffered = n % 2 == 0;
        rig.o.wait_prepared = true;
        open_it(&rig);
        struct rf_queue *q;
        assert_int_equal(rf_queue_open(rig.e, &q), 0);
        struct story_tablet t;
        for (uint32_t b = 1; b <= 8; b++) { /* more than a lone write takes */
            story_tablet(&t, 0, b, 20000, 0);
            assert_int_equal(rf_write_async(q, &t.tablet, 1, 5000, NULL, NULL, &rig.error), 0);
            story_free(&t);
        }
        struct rf_completion done[8];
        for (int got = 0; got < 8;) {
            int more = rf_completions(q, done, 8, 10000);
            assert_true(more > 0);
            for (int i = 0; i < more; i++)
                assert_int_equal(done[i].code, 0);
            got += more;
        }
        struct rf_stats stats = {.size = sizeof stats};
        assert_int_equal(rf_stats(rig.e, &stats), 0);
        for (uint32_t i = 0; i < RF_STAGES; i++)
            assert_int_equal(stats.stage[i].count, 8);
        rf_queue_close(q);
        finish(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_refused__kth_allocation_of_each_call_fails__same_call_works_after),
        cmocka_unit_test(engine_refused__kth_allocation_of_an_open_with_stages_fails__opens_after),
        cmocka_unit_test(engine_refused__no_room_for_the_batch__says_why),
        cmocka_unit_test(engine_refused__disk_full__told_apart_from_a_full_log),
        cmocka_unit_test(engine_refused__latched__flush_trim_resume_say_so),
        cmocka_unit_test(engine_refused__drop_failed_behind_its_marker__table_takes_nothing),
        cmocka_unit_test(engine_refused__waits_without_end__are_taken),
        cmocka_unit_test(engine_refused__names_at_their_ends__each_has_its_code),
        cmocka_unit_test(engine_refused__many_series__rows_are_there_while_one_is),
        cmocka_unit_test(engine_refused__all_pins_taken__trim_by_time_is_refused),
        cmocka_unit_test(engine_refused__each_mode_with_stages__adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
