/* ctest: timeout=400 concurrent */
/* Between any two steps of the write path the lease ends (a fence, or the clock passes the deadline),
 * or a change of the table is acknowledged; with 1 to 64 fragments, in a SYNC and in an ASYNC lane,
 * by a blocking write with and without a wait, an asynchronous write, and a delete.
 *
 * Each case says what the answer and the rows may be then. Afterwards everything is counted again:
 * in the same life, after a power failure, and in the next life.
 *
 * RF_FRAGMENTS=n  only batches of n fragments (default: 1, 2, 7, 64; 0: every number from 1 to 64) */
#include "api/handle.h"
#include "engine/engine_impl.h"
#include "tests/lib/child.h"
#include "tests/lib/engine_rig.h"
#include "tests/lib/tempdir.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__)
/* Children of a process that had threads start some of their own. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
#endif

#define FRAGMENTS_MAX 64u
#define CASES_MAX     4000u
#define TTL_MS        INT64_C(1000000)
#define PAST_TTL_NS   (INT64_C(2) * TTL_MS * 1000000)

enum event { EV_FENCE, EV_CLOCK, EV_DROP_COLUMN, EV_RENAME, EV_DROP_TABLE, EV_ADD_COLUMN, EVENTS };
enum call { CALL_WRITE, CALL_ASYNC, CALL_DELETE, CALLS };
static const char *const event_names[] = {"fence",  "clock",      "drop column",
                                          "rename", "drop table", "add column"};
static const char *const call_names[] = {"write", "async write", "delete"};

struct place {
    enum engine_step step;
    uint32_t fragment;
};

static struct engine_rig rig;
static _Atomic int64_t test_ns[3];
static const struct clock test_clock = {.test_ns = test_ns};
static uint64_t case_count, images;
static uint32_t rows_expected[CASES_MAX]; /* of the table "t<case>" */

/* ---- the lease ---- */

static void nap_ms(int64_t ms)
{
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&nap, NULL);
}

static bool try_resume(struct rf_engine *e, int64_t ttl_ms)
{
    for (int i = 0; i < 5000; i++) { /* the plane may have to see the lapse first */
        struct rf_lease_request request;
        if (rf_lease_ask(e, &request) == 0 && rf_lease_resume(e, &request, ttl_ms) == 0)
            return true;
        nap_ms(1);
    }
    return false;
}

static void resume_lease(struct rf_engine *e)
{
    if (!try_resume(e, TTL_MS)) fail_msg("the lease did not come back");
}

static bool is_live(struct rf_engine *e)
{
    return lease_look(&e->words, &e->clock).live;
}

/* ---- one case ---- */

struct scene {
    struct rf_engine *e;
    enum event event;
    enum call call;
    struct place at;
    bool waits; /* write_wait_ms is not 0 */
    bool done;  /* the event has been */
    bool again; /* and another try has begun */
    bool went_on;
    struct place last; /* that a try reached whose lease was over */
    bool helps;        /* a thread is to be joined */
    pthread_t helper;
    char table[32];
    uint32_t fragments;
};

static void *fence_main(void *ctx)
{
    struct scene *s = ctx;
    if (rf_lease_fence(s->e) != 0) abort();
    if (s->waits) resume_lease(s->e);
    return NULL;
}

static void *resume_main(void *ctx)
{
    struct scene *s = ctx;
    nap_ms(1);
    resume_lease(s->e);
    return NULL;
}

static void help(struct scene *s, void *(*body)(void *ctx))
{
    if (pthread_create(&s->helper, NULL, body, s) != 0) abort();
    s->helps = true;
}

static void fence_now(struct scene *s)
{
    uint64_t epoch = view_epoch(atomic_load(&s->e->words.view));
    help(s, fence_main);
    /* Not until it returns: that takes the writer, who stands here. */
    while (is_live(s->e) && view_epoch(atomic_load(&s->e->words.view)) == epoch)
        sched_yield();
}

static void pass_deadline(struct scene *s)
{
    for (int i = 0; i < 3; i++)
        atomic_fetch_add(&test_ns[i], PAST_TTL_NS);
    if (s->waits) help(s, resume_main);
}

static void change_table(struct scene *s)
{
    static const struct rf_column_def more = {"more", RF_DOUBLE, RF_FIELD};
    struct rf_error error;
    int rc = 0;
    switch (s->event) {
    case EV_DROP_COLUMN: rc = rf_table_drop_column(s->e, s->table, "v", &error); break;
    case EV_RENAME: rc = rf_table_rename_column(s->e, s->table, "v", "u", &error); break;
    case EV_DROP_TABLE: rc = rf_table_drop(s->e, s->table, &error); break;
    default: rc = rf_table_add_columns(s->e, s->table, &more, 1, &error); break;
    }
    if (rc != 0) {
        printf("a change while a writer stands at step %d: %d %s\n", (int)s->at.step, rc,
               error.text);
        abort();
    }
}

/* A try whose lease has ended takes no token, applies no further fragment and publishes nothing. */
static void note_going_on(struct scene *s, enum engine_step step, uint32_t fragment)
{
    if (s->again || (s->event != EV_FENCE && s->event != EV_CLOCK)) return;
    if (step == STEP_TOKEN) {
        s->again = true;
        return;
    }
    if (s->at.step >= STEP_PUBLISH || step == STEP_ORDER) return; /* told of a failed look too */
    if (s->at.step == STEP_TOKEN && s->waits) return; /* the next lease may be there by then */
    bool checks = s->at.step != STEP_TOKEN && s->at.step != STEP_FRAGMENT; /* a check comes yet */
    if (s->went_on || (checks && step < STEP_PUBLISH && fragment == 0)) return;
    s->went_on = true;
    s->last = (struct place){step, fragment};
}

/* On the writer's thread, between two steps. The changes return here: they wait for nobody who
 * stands still. */
static void seam(void *ctx, enum engine_step step, uint32_t fragment)
{
    struct scene *s = ctx;
    if (s->done) note_going_on(s, step, fragment);
    if (s->done || step != s->at.step || fragment != s->at.fragment) return;
    s->done = true;
    if (s->event == EV_FENCE)
        fence_now(s);
    else if (s->event == EV_CLOCK)
        pass_deadline(s);
    else
        change_table(s);
}

static int write_rows(struct scene *s, bool async)
{
    int64_t times[FRAGMENTS_MAX], v[FRAGMENTS_MAX];
    uint32_t offsets[FRAGMENTS_MAX + 1] = {0};
    char tags[FRAGMENTS_MAX];
    for (uint32_t i = 0; i < s->fragments; i++) {
        times[i] = (int64_t)i * STORY_INTERVAL;
        v[i] = i;
        tags[i] = 'x';
        offsets[i + 1] = i + 1;
    }
    struct rf_column columns[] = {
        {.name = "w", .type = RF_STRING, .category = RF_TAG, .values = tags, .offsets = offsets},
        {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = v}};
    struct rf_tablet t = {.size = sizeof t,
                          .table = s->table,
                          .rows = s->fragments,
                          .columns = 2,
                          .times = times,
                          .column = columns};
    if (!async) return rf_write(s->e, &t, &rig.error);
    struct rf_queue *queue;
    struct rf_completion c = {.code = 1};
    assert_int_equal(rf_queue_open(s->e, &queue), 0);
    int rc = rf_write_async(queue, &t, 1, 0, NULL, NULL, &rig.error);
    if (rc == 0) assert_int_equal(rf_completions(queue, &c, 1, 20000), 1);
    rf_queue_close(queue);
    return rc == 0 ? c.code : rc;
}

static int delete_rows(struct scene *s)
{
    struct rf_tag_filter tag = {.name = "w", .value = "x"};
    struct rf_delete_options o;
    rf_delete_options_init(&o);
    o.table = s->table;
    o.tags = &tag;
    o.tag_count = 1;
    return rf_delete(s->e, &o, &rig.error);
}

static uint32_t count_rows(struct rf_engine *e, const char *table)
{
    struct rf_scan_options o;
    uint64_t rows;
    rf_scan_options_init(&o);
    o.table = table;
    int rc = rf_count(e, &o, &rows, &rig.error);
    if (rc == -RF_CODE_NO_TABLE) return 0;
    if (rc != 0) fail_msg("%s: %d %s", table, rc, rig.error.text);
    return (uint32_t)rows;
}

/* ---- what may come of it ---- */

/* Whether what is under way still fits the table after the event. */
static bool still_fits(const struct scene *s)
{
    if (s->event == EV_ADD_COLUMN) return true;
    if (s->event == EV_DROP_TABLE) return false;
    return s->call == CALL_DELETE; /* of whole rows: it names no column */
}

static int refused_by_schema(const struct scene *s)
{
    return s->event == EV_DROP_TABLE ? -RF_CODE_NO_TABLE : -RF_CODE_NO_COLUMN;
}

static bool is_allowed(const struct scene *s, int code)
{
    bool lease = s->event == EV_FENCE || s->event == EV_CLOCK;
    if (s->at.step == STEP_ANSWER) return code == 0;
    /* Published: decided before the event, or after it; in an ASYNC lane too, where the writer
     * leaves the decision to whoever holds the section just then. */
    if (s->at.step == STEP_WAIT && code == 0) return true;
    if (lease) return code == (s->waits && s->call != CALL_ASYNC ? 0 : -RF_CODE_LEASE_FENCED_RETRY);
    if (still_fits(s)) return code == 0;
    if (s->at.step == STEP_TOKEN) return code == refused_by_schema(s);
    /* Void by an abort record; who may wait is told what the new schema says of it. */
    if (s->waits && s->call != CALL_ASYNC) return code == refused_by_schema(s);
    return code == -RF_CODE_SCHEMA_CHANGED;
}

static uint32_t rows_after(const struct scene *s, int code)
{
    if (s->event == EV_DROP_TABLE) return 0;
    if (s->call == CALL_DELETE) return code == 0 ? 0 : s->fragments;
    return code == 0 ? s->fragments : 0;
}

static void wrong(const struct scene *s, const char *what, int64_t got)
{
    fail_msg("%s, %s at step %d fragment %u of %u, %s, mode %d: %s %" PRId64, call_names[s->call],
             event_names[s->event], (int)s->at.step, s->at.fragment, s->fragments,
             s->waits ? "waits" : "does not wait", (int)rig.o.sync, what, got);
}

static void open_rig(struct io_env *env, enum rf_sync sync, int64_t write_wait_ms)
{
    engine_rig_init(&rig, env);
    rig.clock = &test_clock;
    rig.o.sync = sync;
    rig.o.segment_bytes = 16 << 20;
    rig.o.memory_bytes = 6 * ((16 << 20) + (4 << 20));
    rig.o.write_wait_ms = write_wait_ms;
    rig.o.auto_create = false;
    rig.o.lease = RF_LEASE_EXTERNAL;
    if (engine_rig_open(&rig) != 0) fail_msg("rf_open: %s", rig.error.text);
    resume_lease(rig.e);
}

/* Closes what a failure left, and goes on in the life before. */
static void back_to(const struct engine_rig *before, struct io_env *left)
{
    assert_int_equal(engine_rig_close(&rig), 0);
    io_env_close(left);
    rig = *before;
    handle_seams = (struct handle_seams){.env = rig.env, .vfs = rig.vfs, .clock = rig.clock};
}

static fault_choice keep_the_first;
static enum fault_fate keep_the_first(void *ctx, uint64_t index, bool is_name)
{
    (void)is_name;
    return index < *(const uint64_t *)ctx ? FAULT_KEEP : FAULT_DROP;
}

#define KEPT_MAX 8u

/* The power fails in the moment of the answer, with the first 0, 1, ... of what was not durable. */
static void fail_at_the_answer(const struct scene *s, int code, uint64_t at)
{
    struct engine_rig before = rig;
    uint64_t undecided = 1;
    for (uint64_t kept = 0; kept <= undecided && kept <= KEPT_MAX; kept++) {
        struct io_env *left;
        assert_int_equal(
            fault_crash(before.env, at, keep_the_first, &kept, NULL, &left, &undecided), 0);
        open_rig(left, before.o.sync, 0);
        uint32_t rows = count_rows(rig.e, s->table);
        if (rows != rows_after(s, code)) wrong(s, "rows after a failure at the answer", rows);
        back_to(&before, left);
        images++;
    }
}

static void one_case(enum event event, enum call call, struct place at, uint32_t fragments)
{
    static const struct rf_column_def columns[] = {{"w", RF_STRING, RF_TAG},
                                                   {"v", RF_INT64, RF_FIELD}};
    struct scene s = {.e = rig.e,
                      .event = event,
                      .call = call,
                      .at = at,
                      .waits = rig.o.write_wait_ms != 0,
                      .fragments = fragments};
    assert_true(case_count < CASES_MAX);
    snprintf(s.table, sizeof s.table, "t%" PRIu64, case_count);
    assert_int_equal(rf_table_create(s.e, s.table, columns, 2, 0, &rig.error), 0);
    if (call == CALL_DELETE) assert_int_equal(write_rows(&s, false), 0);
    engine_step_ctx = &s;
    engine_step_seam = seam;
    int code = call == CALL_DELETE ? delete_rows(&s) : write_rows(&s, call == CALL_ASYNC);
    uint64_t answered = fault_trace_length(rig.env);
    engine_step_seam = NULL;
    if (s.helps) assert_int_equal(pthread_join(s.helper, NULL), 0);
    if (!s.done) wrong(&s, "the step was not reached; answer", code);
    if (!is_allowed(&s, code)) wrong(&s, "answered", code);
    if (s.went_on) wrong(&s, "went on without a lease to step", (int64_t)s.last.step);
    if (!is_live(s.e)) resume_lease(s.e);
    rows_expected[case_count++] = rows_after(&s, code);
    uint32_t rows = count_rows(s.e, s.table);
    if (rows != rows_after(&s, code)) wrong(&s, "rows", rows);
    bool all = getenv("RF_FRAGMENTS") != NULL; /* else the few that take the least time */
    if (rig.o.sync == RF_SYNC_ALWAYS && (all || (fragments == 1 && !s.waits)))
        fail_at_the_answer(&s, code, answered);
}

static void every_step(enum event event, enum call call, uint32_t fragments)
{
    enum engine_step last = call == CALL_ASYNC ? STEP_PUBLISH : STEP_ANSWER;
    uint32_t places = call == CALL_DELETE ? 1 : fragments;
    for (uint32_t step = STEP_TOKEN; step <= last; step++) {
        if (call == CALL_DELETE && step == STEP_ORDER) continue;
        for (uint32_t f = 0; f < (step == STEP_FRAGMENT ? places : 1); f++)
            one_case(event, call, (struct place){(enum engine_step)step, f}, fragments);
    }
}

/* ---- lives ---- */

static void count_everything(const char *when)
{
    for (uint64_t i = 0; i < case_count; i++) {
        char table[32];
        snprintf(table, sizeof table, "t%" PRIu64, i);
        uint32_t rows = count_rows(rig.e, table);
        if (rows != rows_expected[i])
            fail_msg("%s: case %" PRIu64 " has %u rows, not %u", when, i, rows, rows_expected[i]);
    }
}

static void after_power_failure(struct io_env *env, fault_choice *choice)
{
    struct engine_rig before = rig;
    struct io_env *left;
    assert_int_equal(fault_crash(env, fault_trace_length(env), choice, NULL, NULL, &left, NULL), 0);
    open_rig(left, before.o.sync, 0);
    count_everything("after a power failure");
    back_to(&before, left);
}

/* A life in which batches of so many fragments meet every event at every step. */
static uint64_t every_case(enum rf_sync sync, int64_t write_wait_ms, uint32_t fragments)
{
    struct io_env *env;
    const struct fault_options fo = {.record = true};
    assert_int_equal(fault_env_open(&fo, &env), 0);
    for (int i = 0; i < 3; i++)
        atomic_store(&test_ns[i], INT64_C(1000000000000));
    case_count = 0;
    open_rig(env, sync, write_wait_ms);
    for (uint32_t event = 0; event < EVENTS; event++)
        for (uint32_t call = 0; call < CALLS; call++) {
            /* An asynchronous write waits for what it is told, not for write_wait_ms. */
            if (write_wait_ms != 0 && call == CALL_ASYNC) continue;
            every_step((enum event)event, (enum call)call, fragments);
        }
    count_everything("in the same life");
    if (sync == RF_SYNC_ALWAYS) {
        after_power_failure(env, fault_choice_drop);
        after_power_failure(env, fault_choice_keep);
    }
    assert_int_equal(engine_rig_close(&rig), 0);
    open_rig(env, sync, write_wait_ms);
    count_everything("in the next life");
    assert_int_equal(engine_rig_close(&rig), 0);
    io_env_close(env);
    return case_count;
}

static void every_size(enum rf_sync sync, int64_t write_wait_ms)
{
    static const uint32_t some[] = {1, 2, 7, 64};
    const char *text = getenv("RF_FRAGMENTS");
    uint32_t only = text != NULL ? (uint32_t)strtoul(text, NULL, 10) : UINT32_MAX;
    uint64_t cases = 0;
    if (only != UINT32_MAX && only != 0) {
        cases = every_case(sync, write_wait_ms, only);
    } else {
        for (uint32_t i = 0; i < (only == 0 ? FRAGMENTS_MAX : 4); i++)
            cases += every_case(sync, write_wait_ms, only == 0 ? i + 1 : some[i]);
    }
    printf("mode %d, write_wait_ms %" PRId64 ": %" PRIu64 " cases, %" PRIu64
           " failures at the answer\n",
           (int)sync, write_wait_ms, cases, images);
    images = 0;
}

static void crash_lease__between_any_two_steps__one_of_what_is_allowed(void **state)
{
    (void)state;
    every_size(RF_SYNC_ALWAYS, 0);
    every_size(RF_SYNC_ALWAYS, 5000);
    every_size(RF_SYNC_ASYNC, 0);
}

/* ---- 32 writers stand still ---- */

#define STANDING 32u

struct standing {
    struct rf_engine *e;
    struct place at;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint32_t arrived;
    bool open;
    int codes[STANDING];
};

struct standing_writer {
    struct standing *standing;
    uint32_t index;
};

static void stand(void *ctx, enum engine_step step, uint32_t fragment)
{
    struct standing *s = ctx;
    if (step != s->at.step || fragment != s->at.fragment) return;
    pthread_mutex_lock(&s->lock);
    s->arrived++;
    pthread_cond_broadcast(&s->moved);
    while (!s->open)
        pthread_cond_wait(&s->moved, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

static void *standing_main(void *ctx)
{
    struct standing_writer *w = ctx;
    struct story_tablet t;
    struct rf_error error;
    story_tablet(&t, w->index % STORY_WRITERS, 1 + w->index / STORY_WRITERS, 10, 0);
    w->standing->codes[w->index] = rf_write(w->standing->e, &t.tablet, &error);
    story_free(&t);
    return NULL;
}

/* Every kind of change returns while all of them stand there: it waits for none of them, and so
 * takes no lock that one holds. */
static void change_everything(struct rf_engine *e)
{
    static const struct rf_column_def columns[] = {
        {"w", RF_STRING, RF_TAG}, {"v", RF_INT64, RF_FIELD}, {"y", RF_INT64, RF_FIELD}};
    struct rf_error error;
    int64_t began = clock_read_ns(CLOCK_MONOTONIC);
    assert_int_equal(rf_table_create(e, "other", columns, 2, 0, &error), 0);
    assert_int_equal(rf_table_add_columns(e, "other", columns + 2, 1, &error), 0);
    assert_int_equal(rf_table_rename_column(e, "other", "y", "z", &error), 0);
    assert_int_equal(rf_table_drop_column(e, "other", "z", &error), 0);
    assert_int_equal(rf_table_set_ttl(e, "other", 0, &error), 0);
    assert_int_equal(rf_table_drop(e, "other", &error), 0);
    assert_int_equal(rf_series_create(e, "root.db.d", "s", RF_INT32, &error), 0);
    assert_int_equal(rf_series_drop(e, "root.db.d", "s", &error), 0);
    assert_true(clock_read_ns(CLOCK_MONOTONIC) - began < INT64_C(20000000000));
    /* And one that they all stumble over. */
    assert_int_equal(rf_table_drop_column(e, STORY_TABLE, "blob", &error), 0);
}

static void stand_at(struct place at)
{
    struct standing s = {.e = rig.e, .at = at};
    struct standing_writer writers[STANDING];
    pthread_t threads[STANDING];
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.moved, NULL);
    engine_step_ctx = &s;
    engine_step_seam = stand;
    for (uint32_t i = 0; i < STANDING; i++) {
        writers[i] = (struct standing_writer){&s, i};
        assert_int_equal(pthread_create(&threads[i], NULL, standing_main, &writers[i]), 0);
    }
    pthread_mutex_lock(&s.lock);
    while (s.arrived < STANDING)
        pthread_cond_wait(&s.moved, &s.lock);
    pthread_mutex_unlock(&s.lock);
    change_everything(rig.e);
    pthread_mutex_lock(&s.lock);
    s.open = true;
    pthread_cond_broadcast(&s.moved);
    pthread_mutex_unlock(&s.lock);
    for (uint32_t i = 0; i < STANDING; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    engine_step_seam = NULL;
    for (uint32_t i = 0; i < STANDING; i++) {
        int code = s.codes[i];
        bool decided = at.step == STEP_ANSWER || (at.step == STEP_WAIT && code == 0);
        if (code != (decided ? 0 : -RF_CODE_NO_COLUMN))
            fail_msg("writer %u at step %d fragment %u: %d", i, (int)at.step, at.fragment, code);
    }
    pthread_cond_destroy(&s.moved);
    pthread_mutex_destroy(&s.lock);
}

static void crash_lease__32_writers_stand_between_two_steps__changes_return(void **state)
{
    (void)state;
    static const struct rf_column_def columns[] = {
        {"w", RF_STRING, RF_TAG}, {"n", RF_INT64, RF_FIELD}, {"blob", RF_BLOB, RF_FIELD}};
    struct io_env *env;
    const struct fault_options fo = {.seed = 0};
    assert_int_equal(fault_env_open(&fo, &env), 0);
    open_rig(env, RF_SYNC_ALWAYS, 5000);
    uint32_t places = 0;
    for (uint32_t step = STEP_TOKEN; step < STEPS; step++) {
        uint32_t fragments = step == STEP_FRAGMENT ? 1 + STORY_HIGH : 1;
        for (uint32_t f = 0; f < fragments; f++, places++) {
            assert_int_equal(rf_table_create(rig.e, STORY_TABLE, columns, 3, 0, &rig.error), 0);
            stand_at((struct place){(enum engine_step)step, f});
            assert_int_equal(rf_table_drop(rig.e, STORY_TABLE, &rig.error), 0);
        }
    }
    printf("%u places, %u writers, 9 changes each\n", places, STANDING);
    assert_int_equal(engine_rig_close(&rig), 0);
    io_env_close(env);
}

/* ---- a plane that is stuck ---- */

static void crash_lease__plane_is_stuck__writers_fenced_within_t_then_go_on(void **state)
{
    (void)state;
    struct io_env *env;
    struct story_tablet t;
    const int64_t lease_ms = 400;
    const struct fault_options fo = {.seed = 0};
    assert_int_equal(fault_env_open(&fo, &env), 0);
    engine_rig_init(&rig, env);
    rig.o.write_wait_ms = 0;
    rig.o.lease_ms = lease_ms;
    assert_int_equal(engine_rig_open(&rig), 0);
    story_tablet(&t, 0, 1, 10, 0);
    struct rf_column_def columns[] = {
        {"w", RF_STRING, RF_TAG}, {"n", RF_INT64, RF_FIELD}, {"blob", RF_BLOB, RF_FIELD}};
    assert_int_equal(rf_table_create(rig.e, STORY_TABLE, columns, 3, 0, &rig.error), 0);
    assert_int_equal(rf_write(rig.e, &t.tablet, &rig.error), 0);
    plane_hold(rig.e->plane, true);
    int64_t held = clock_read_ns(CLOCK_BOOTTIME), last_good = held, begun;
    int rc;
    do {
        begun = clock_read_ns(CLOCK_BOOTTIME);
        rc = rf_write(rig.e, &t.tablet, &rig.error);
        if (rc == 0) last_good = begun;
        nap_ms(1); /* the log is small */
    } while (rc == 0 && begun - held < 10 * lease_ms * 1000000);
    assert_int_equal(rc, -RF_CODE_LEASE_FENCED_RETRY);
    /* Its last grant was before it stood still. */
    assert_true(last_good - held < lease_ms * 1000000);
    uint64_t rows;
    struct rf_scan_options o;
    rf_scan_options_init(&o);
    o.table = STORY_TABLE;
    assert_int_equal(rf_count(rig.e, &o, &rows, &rig.error), -RF_CODE_LEASE_FENCED);
    plane_hold(rig.e->plane, false);
    int64_t let_go = clock_read_ns(CLOCK_BOOTTIME);
    while ((rc = rf_write(rig.e, &t.tablet, &rig.error)) == -RF_CODE_LEASE_FENCED_RETRY &&
           clock_read_ns(CLOCK_BOOTTIME) - let_go < INT64_C(20000000000))
        ;
    assert_int_equal(rc, 0);
    assert_int_equal(rf_count(rig.e, &o, &rows, &rig.error), 0);
    assert_int_equal(rows, STORY_ROWS);
    story_free(&t);
    assert_int_equal(engine_rig_close(&rig), 0);
    io_env_close(env);
}

/* ---- SIGSTOP across the end ---- */

#define STOP_TTL_MS 300

struct stopping {
    const char *dir;
    struct place at;
    enum rf_sync sync;
};

static void stop_here(void *ctx, enum engine_step step, uint32_t fragment)
{
    const struct stopping *s = ctx;
    if (step != s->at.step || fragment != s->at.fragment) return;
    engine_step_seam = NULL;
    (void)raise(SIGSTOP);
}

/* In the child: a process that is stopped between two steps, and goes on when its lease is over. */
static int stopped_body(void *ctx)
{
    struct stopping *s = ctx;
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error;
    struct story_tablet t;
    handle_seams = (struct handle_seams){.env = NULL};
    rf_options_init(&o);
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 5 << 20;
    o.lease = RF_LEASE_EXTERNAL;
    o.sync = s->sync;
    o.write_wait_ms = 0;
    o.log_level = RF_LOG_OFF;
    CHILD_CHECK(rf_open(s->dir, &o, &e, &error) == 0);
    CHILD_CHECK(try_resume(e, 60000));
    static const struct rf_column_def columns[] = {
        {"w", RF_STRING, RF_TAG}, {"n", RF_INT64, RF_FIELD}, {"blob", RF_BLOB, RF_FIELD}};
    int made = rf_table_create(e, STORY_TABLE, columns, 3, 0, &error);
    CHILD_CHECK(made == 0 || made == -RF_CODE_TABLE_EXISTS);
    CHILD_CHECK(rf_lease_fence(e) == 0); /* what was granted before counts no more */
    CHILD_CHECK(try_resume(e, STOP_TTL_MS));
    story_tablet(&t, 0, 1, 10, 0);
    engine_step_ctx = s;
    engine_step_seam = stop_here;
    int rc = rf_write(e, &t.tablet, &error);
    story_free(&t);
    CHILD_CHECK(try_resume(e, 60000));
    struct story_found found;
    CHILD_CHECK(story_scan(e, &found));
    CHILD_CHECK((found.rows != 0) == (rc == 0));
    CHILD_CHECK(rf_close(e) == 0);
    return rc == 0 ? 10 : rc == -RF_CODE_LEASE_FENCED_RETRY ? 11 : 12;
}

static int stop_and_go_on(struct stopping *s)
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(stopped_body(s));
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    if (!WIFSTOPPED(status)) fail_msg("not stopped: status %x", (unsigned)status);
    nap_ms(STOP_TTL_MS + 100);
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status)) fail_msg("status %x", (unsigned)status);
    return WEXITSTATUS(status);
}

static void crash_lease__stopped_across_its_end__judged_by_the_decisions_clock(void **state)
{
    (void)state;
    char dir[TEMPDIR_BYTES];
    uint32_t runs = 0;
    for (uint32_t step = STEP_TOKEN; step < STEPS; step++)
        for (int sync = RF_SYNC_ALWAYS; sync <= RF_SYNC_ASYNC; sync++, runs++) {
            tempdir_make(dir);
            struct stopping s = {.dir = dir, .at = {(enum engine_step)step, 0}, .sync = sync};
            int code = stop_and_go_on(&s);
            /* Decided before the stop: final, though the answer comes late. Else: fenced. */
            bool decided = step == STEP_ANSWER, either = step == STEP_WAIT;
            if (!(either ? code == 10 || code == 11 : code == (decided ? 10 : 11)))
                fail_msg("stopped at step %u, mode %d: %d", step, sync, code);
            tempdir_remove(dir);
        }
    printf("%u processes stopped\n", runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crash_lease__between_any_two_steps__one_of_what_is_allowed),
        cmocka_unit_test(crash_lease__32_writers_stand_between_two_steps__changes_return),
        cmocka_unit_test(crash_lease__plane_is_stuck__writers_fenced_within_t_then_go_on),
        cmocka_unit_test(crash_lease__stopped_across_its_end__judged_by_the_decisions_clock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
