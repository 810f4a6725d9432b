/* ctest: concurrent
 *
 * What a caller is told after retries and waits, and how it is counted. */
#include "api/handle.h"
#include "engine/engine_impl.h"
#include "tests/lib/tempdir.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
    char dir[TEMPDIR_BYTES];
    struct rf_engine *e;
    struct rf_error error;
    enum engine_step at; /* what happens before this step, once */
    void (*act)(struct fixture *f);
    uint32_t acted;
};

static void on_step(void *ctx, enum engine_step step, uint32_t fragment)
{
    struct fixture *f = ctx;
    (void)fragment;
    if (step != f->at || f->act == NULL) return;
    void (*act)(struct fixture * f) = f->act;
    f->act = NULL;
    f->acted++;
    act(f);
}

static void before(struct fixture *f, enum engine_step at, void (*act)(struct fixture *f))
{
    f->at = at;
    f->act = act;
    engine_step_ctx = f;
    engine_step_seam = on_step;
}

static void open_with(struct fixture *f, int64_t write_wait_ms, bool auto_create, bool stages)
{
    struct rf_options o;
    rf_options_init(&o);
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 16 << 20;
    o.lease = RF_LEASE_OFF;
    o.write_wait_ms = write_wait_ms;
    o.auto_create = auto_create;
    o.stages = stages;
    int rc = rf_open(f->dir, &o, &f->e, &f->error);
    if (rc != 0) fail_msg("rf_open: %d %s", rc, f->error.text);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    tempdir_make(f->dir);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    engine_step_seam = NULL;
    assert_int_equal(rf_close(f->e), 0);
    tempdir_remove(f->dir);
    free(f);
    return 0;
}

static const uint32_t HOST_AT[] = {0, 2};

static int write_row(struct fixture *f, int64_t time)
{
    struct rf_column c[] = {{.name = "host", .type = RF_STRING, .values = "h1", .offsets = HOST_AT},
                            {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = &time}};
    struct rf_tablet t = {
        .size = sizeof t, .table = "t", .rows = 1, .columns = 2, .times = &time, .column = c};
    return rf_write(f->e, &t, &f->error);
}

static struct rf_stats stats_of(struct fixture *f)
{
    struct rf_stats s = {.size = sizeof s};
    assert_int_equal(rf_stats(f->e, &s), 0);
    return s;
}

/* ---- counting ---- */

static void next_epoch(struct fixture *f)
{
    uint64_t view = atomic_load(&f->e->words.view);
    lease_publish_view(&f->e->words, view_make(view_epoch(view) + 1, view_version(view)));
}

static void rf_stats__fenced_and_written_again__no_answer_of_536(void **state)
{
    struct fixture *f = *state;
    open_with(f, 10000, true, false);
    assert_int_equal(write_row(f, 1), 0);
    static const enum engine_step steps[] = {STEP_CHECK, STEP_FRAME, STEP_FRAGMENT, STEP_PUBLISH};
    for (uint32_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        before(f, steps[i], next_epoch);
        assert_int_equal(write_row(f, 2 + i), 0);
        assert_int_equal(f->acted, i + 1);
    }
    struct rf_stats s = stats_of(f);
    assert_int_equal(s.fenced, 0);
    assert_int_equal(s.batches, 5);
    assert_int_equal(s.rows, 5);
}

static void rf_stats__lapsed__one_answer_of_536(void **state)
{
    struct fixture *f = *state;
    open_with(f, 10000, true, false);
    assert_int_equal(write_row(f, 1), 0); /* makes the table */
    assert_int_equal(rf_close(f->e), 0);
    open_with(f, 30, true, false);
    lease_publish_deadline(&f->e->words, 1);
    assert_int_equal(write_row(f, 2), -RF_CODE_LEASE_FENCED_RETRY);
    assert_int_equal(stats_of(f).fenced, 1);
    struct rf_delete_options d;
    rf_delete_options_init(&d);
    d.table = "t";
    assert_int_equal(rf_delete(f->e, &d, &f->error), -RF_CODE_LEASE_FENCED_RETRY);
    assert_int_equal(stats_of(f).fenced, 2);
    lease_publish_deadline(&f->e->words, LEASE_OFF);
    assert_int_equal(write_row(f, 2), 0);
    struct rf_stats s = stats_of(f);
    assert_int_equal(s.fenced, 2);
    assert_int_equal(s.batches, 1);
}

/* A delete has no stage of its own to tell; it must not be told with what its op did before. */
static void rf_stats__deletes_between_writes__stages_of_writes_alone(void **state)
{
    struct fixture *f = *state;
    open_with(f, 10000, true, true);
    struct rf_delete_options d;
    rf_delete_options_init(&d);
    d.table = "t";
    for (int64_t i = 0; i < 5; i++) {
        assert_int_equal(write_row(f, i), 0);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        assert_int_equal(rf_delete(f->e, &d, &f->error), 0);
    }
    struct rf_stats s = stats_of(f);
    uint32_t queue = 0;
    while (strcmp(rf_stage_name(queue), "queue") != 0)
        queue++;
    assert_int_equal(s.stage[queue].count, 5);
    assert_int_equal(s.write.count, 10);
}

/* ---- deletes of many regions ---- */

static uint32_t steps_seen[STEPS];
static void count_step(void *ctx, enum engine_step step, uint32_t fragment)
{
    (void)ctx, (void)fragment;
    steps_seen[step]++;
}

/* One record a region, and one wait for all of them. */
static void rf_delete__many_regions__waits_once(void **state)
{
    struct fixture *f = *state;
    struct rf_options o;
    rf_options_init(&o);
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 16 << 20;
    o.lease = RF_LEASE_OFF;
    o.lanes = 2;
    o.regions = 16;
    assert_int_equal(rf_open(f->dir, &o, &f->e, &f->error), 0);
    for (int64_t i = 0; i < 64; i++) {
        char host[24];
        snprintf(host, sizeof host, "%lld", (long long)i);
        const uint32_t offsets[] = {0, (uint32_t)strlen(host)};
        struct rf_column c[] = {
            {.name = "host", .type = RF_STRING, .values = host, .offsets = offsets},
            {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = &i}};
        struct rf_tablet t = {
            .size = sizeof t, .table = "t", .rows = 1, .columns = 2, .times = &i, .column = c};
        assert_int_equal(rf_write(f->e, &t, &f->error), 0);
    }
    struct rf_delete_options d;
    struct rf_scan_options s;
    uint64_t rows;
    const struct rf_tag_filter host = {.name = "host", .value = "7"};
    rf_delete_options_init(&d);
    rf_scan_options_init(&s);
    d.table = s.table = "t";
    d.tags = &host;
    d.tag_count = 1;
    memset(steps_seen, 0, sizeof steps_seen);
    engine_step_seam = count_step;
    assert_int_equal(rf_delete(f->e, &d, &f->error), 0);
    assert_int_equal(steps_seen[STEP_PUBLISH], 1); /* the region of this device alone */
    assert_int_equal(rf_count(f->e, &s, &rows, &f->error), 0);
    assert_int_equal(rows, 63);
    d.tag_count = 0;
    memset(steps_seen, 0, sizeof steps_seen);
    assert_int_equal(rf_delete(f->e, &d, &f->error), 0);
    assert_int_equal(steps_seen[STEP_PUBLISH], 16);
    assert_int_equal(steps_seen[STEP_WAIT], 1);
    assert_int_equal(steps_seen[STEP_ANSWER], 1);
    assert_int_equal(rf_count(f->e, &s, &rows, &f->error), 0);
    assert_int_equal(rows, 0);
}

/* ---- as many as there are slots ---- */

struct collector {
    struct rf_queue *queue;
    uint32_t collected;
};

static void *collect(void *arg)
{
    struct collector *c = arg;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    for (int n; (n = rf_completions(c->queue, NULL, 64, 1000)) > 0;)
        c->collected += (uint32_t)n;
    return NULL;
}

static void rf_write__all_slots_uncollected__waits_for_one(void **state)
{
    struct fixture *f = *state;
    open_with(f, 10000, true, false);
    assert_int_equal(write_row(f, 0), 0);
    struct collector c = {.collected = 0};
    assert_int_equal(rf_queue_open(f->e, &c.queue), 0);
    uint32_t begun = 0;
    for (;; begun++) {
        int64_t time = begun;
        struct rf_column v = {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = &time};
        struct rf_tablet t = {
            .size = sizeof t, .table = "t", .rows = 1, .columns = 1, .times = &time, .column = &v};
        int64_t wait_ms = begun < WAL_LANE_SLOTS ? 10000 : 0;
        int rc = rf_write_async(c.queue, &t, 1, wait_ms, NULL, NULL, &f->error);
        if (rc == -RF_CODE_WRITE_REJECT) break;
        assert_int_equal(rc, 0);
    }
    assert_int_equal(begun, WAL_LANE_SLOTS);
    assert_int_equal(stats_of(f).rejected, 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, collect, &c), 0);
    assert_int_equal(write_row(f, 1), 0); /* once the other thread has collected one */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(c.collected, begun);
    assert_int_equal(stats_of(f).rejected, 1);
    rf_queue_close(c.queue);
}

/* ---- a schema that changes under way ---- */

static void rename_host(struct fixture *f)
{
    assert_int_equal(rf_table_rename_column(f->e, "t", "host", "node", &f->error), 0);
}

/* The batch was checked when its TAG had another name: what it wrote into is not what it named. */
static void rf_write__tag_renamed_before_the_decision__checked_again(void **state)
{
    struct fixture *f = *state;
    open_with(f, 10000, true, false);
    assert_int_equal(write_row(f, 1), 0);
    assert_int_equal(rf_close(f->e), 0);
    open_with(f, 10000, false, false);
    before(f, STEP_RESERVE, rename_host);
    assert_int_equal(write_row(f, 2), -RF_CODE_NO_COLUMN);
    assert_int_equal(f->acted, 1);
    uint64_t rows;
    struct rf_scan_options s;
    rf_scan_options_init(&s);
    s.table = "t";
    assert_int_equal(rf_count(f->e, &s, &rows, &f->error), 0);
    assert_int_equal(rows, 1);
    assert_int_equal(stats_of(f).batches, 0);
}

#define MANY 70u /* columns: more than are looked at in one piece */

static void drop_last(struct fixture *f)
{
    assert_int_equal(rf_table_drop_column(f->e, "u", "c69", &f->error), 0);
}

/* What does not fit any more is the last column of the last table of the batch. */
static void rf_write_batch__last_column_dropped_before_the_decision__refused(void **state)
{
    struct fixture *f = *state;
    open_with(f, 10000, true, false);
    int64_t v = 1;
    char names[MANY][8];
    struct rf_column c[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "c%02u", i);
        c[i] = (struct rf_column){
            .name = names[i], .type = RF_INT64, .category = RF_FIELD, .values = &v};
    }
    struct rf_tablet t[] = {
        {.size = sizeof t[0], .table = "t", .rows = 1, .columns = 1, .times = &v, .column = c},
        {.size = sizeof t[0], .table = "u", .rows = 1, .columns = MANY, .times = &v, .column = c}};
    assert_int_equal(rf_write_batch(f->e, t, 2, &f->error), 0);
    assert_int_equal(rf_close(f->e), 0);
    open_with(f, 10000, false, false);
    before(f, STEP_RESERVE, drop_last);
    v = 2;
    assert_int_equal(rf_write_batch(f->e, t, 2, &f->error), -RF_CODE_NO_COLUMN);
    assert_int_equal(f->acted, 1);
    uint64_t rows;
    struct rf_scan_options s;
    rf_scan_options_init(&s);
    s.table = "t";
    assert_int_equal(rf_count(f->e, &s, &rows, &f->error), 0);
    assert_int_equal(rows, 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(rf_stats__fenced_and_written_again__no_answer_of_536),
        CASE(rf_stats__lapsed__one_answer_of_536),
        CASE(rf_stats__deletes_between_writes__stages_of_writes_alone),
        CASE(rf_delete__many_regions__waits_once),
        CASE(rf_write__all_slots_uncollected__waits_for_one),
        CASE(rf_write__tag_renamed_before_the_decision__checked_again),
        CASE(rf_write_batch__last_column_dropped_before_the_decision__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
