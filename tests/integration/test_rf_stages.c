/* ctest: concurrent
 *
 * The stages of the write path: each batch is told once, its stages add up to its time, and nothing
 * is told or counted without the option. */
#include <ringfence/ringfence.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { ROWS = 200, BATCHES = 200, THREADS = 3 };

enum { VALIDATE, ORDER, SPLIT, RESERVE, LEASE, COPY, CHECKSUM, PUBLISH };
enum { QUEUE = PUBLISH + 1, SUBMIT, DEVICE, DECIDE, VISIBLE, WAKE };

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CALL_NS 100000.0
#else
#define CALL_NS 1000.0
#endif

static char dir[64];

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/var/tmp/rf-stages-XXXXXX");
    return mkdtemp(dir) == NULL;
}
static int teardown(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What the trace was told; under the lock. */
struct told {
    pthread_mutex_t lock;
    uint64_t count, rows, points;
    int64_t stage_ns[RF_STAGES], sum_ns;
    int64_t last_start_ns, last_sum_ns;
    pthread_t thread;
    int bad;
};

static void tell(void *ctx, const struct rf_trace *t)
{
    struct told *told = ctx;
    int64_t sum = 0;
    pthread_mutex_lock(&told->lock);
    for (int i = 0; i < RF_STAGES; i++) {
        told->bad += t->stage_ns[i] < 0;
        told->stage_ns[i] += t->stage_ns[i];
        sum += t->stage_ns[i];
    }
    told->bad += t->code != 0 || t->size != sizeof *t || t->lane != 0 || t->bytes == 0;
    told->count++;
    told->rows += t->rows;
    told->points += t->points;
    told->sum_ns += sum;
    told->last_start_ns = t->start_ns;
    told->last_sum_ns = sum;
    told->thread = pthread_self();
    pthread_mutex_unlock(&told->lock);
}

static struct rf_engine *open_engine(enum rf_sync sync, bool stages, struct told *told)
{
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error;
    memset(told, 0, sizeof *told);
    pthread_mutex_init(&told->lock, NULL);
    rf_options_init(&o);
    o.segment_bytes = 1 << 20;
    o.memory_bytes = 16 << 20;
    o.sync = sync;
    o.stages = stages;
    o.trace = tell;
    o.trace_ctx = told;
    int rc = rf_open(dir, &o, &e, &error);
    if (rc != 0) fail_msg("rf_open: %d %s", rc, error.text);
    return e;
}

struct rows {
    int64_t time[ROWS];
    double value[ROWS];
    struct rf_column column;
    struct rf_tablet tablet;
};

/* From the last time to the first, so that there is something to order. */
static void make(struct rows *r, const char *device, int64_t first)
{
    for (int i = 0; i < ROWS; i++) {
        r->time[i] = first + ROWS - i;
        r->value[i] = i;
    }
    r->column = (struct rf_column){
        .name = "v", .type = RF_DOUBLE, .category = RF_FIELD, .values = r->value};
    r->tablet = (struct rf_tablet){.size = sizeof r->tablet,
                                   .device = device,
                                   .rows = ROWS,
                                   .columns = 1,
                                   .times = r->time,
                                   .column = &r->column};
}

static void check_counts(struct rf_engine *e, uint64_t expected)
{
    struct rf_stats s = {.size = sizeof s};
    assert_int_equal(rf_stats(e, &s), 0);
    for (int i = 0; i < RF_STAGES; i++) {
        assert_int_equal(s.stage[i].count, expected);
        assert_true(s.stage[i].p50_ns <= s.stage[i].max_ns);
    }
}

static void write_some(struct rf_engine *e, struct told *told, bool timed)
{
    struct rows *r = calloc(1, sizeof *r);
    assert_non_null(r);
    int64_t called_ns = 0;
    int short_of = 0;
    for (int i = 0; i < BATCHES; i++) {
        make(r, "root.s.d", (int64_t)i * ROWS);
        int64_t before = now_ns();
        assert_int_equal(rf_write(e, &r->tablet, NULL), 0);
        int64_t after = now_ns();
        called_ns += after - before;
        if (!timed) continue;
        assert_true(told->last_start_ns >= before);
        assert_true(told->last_start_ns + told->last_sum_ns <= after);
        /* All of the call is in some stage, within a few per cent: what is outside is the call
         * itself and the counting, a microsecond, and more of it under a sanitizer. A few calls may
         * lose their processor just there. */
        short_of += (double)told->last_sum_ns < 0.95 * (double)(after - before) - CALL_NS;
    }
    free(r);
    if (!timed) return;
    assert_int_equal(told->bad, 0);
    assert_int_equal(told->count, BATCHES);
    assert_int_equal(told->rows, BATCHES * ROWS);
    assert_int_equal(told->points, BATCHES * ROWS);
    printf("stages add up to %.1f %% of the calls' time; less of %d calls\n",
           100 * (double)told->sum_ns / (double)called_ns, short_of);
    assert_true(short_of < BATCHES / 10);
}

static void rf_stages__blocking_sync__add_up_to_the_call(void **state)
{
    (void)state;
    struct told told;
    struct rf_engine *e = open_engine(RF_SYNC_ALWAYS, true, &told);
    write_some(e, &told, true);
    for (int i = 0; i < RF_STAGES; i++)
        if (i != SUBMIT) assert_true(told.stage_ns[i] > 0);
    assert_true(told.stage_ns[DEVICE] > told.stage_ns[DECIDE]);
    assert_true(pthread_equal(told.thread, pthread_self()));
    check_counts(e, BATCHES);
    assert_int_equal(rf_close(e), 0);
}

static void no_device(enum rf_sync sync)
{
    struct told told;
    struct rf_engine *e = open_engine(sync, true, &told);
    write_some(e, &told, true);
    assert_int_equal(told.stage_ns[QUEUE] + told.stage_ns[SUBMIT] + told.stage_ns[DEVICE], 0);
    assert_true(told.stage_ns[COPY] > 0 && told.stage_ns[CHECKSUM] > 0);
    assert_true(told.stage_ns[DECIDE] > 0);
    check_counts(e, BATCHES);
    assert_int_equal(rf_close(e), 0);
}
static void rf_stages__async__no_time_is_the_devices(void **state)
{
    (void)state;
    no_device(RF_SYNC_ASYNC);
}
static void rf_stages__off__no_time_is_the_devices(void **state)
{
    (void)state;
    no_device(RF_SYNC_OFF);
}

struct flow {
    struct rf_engine *engine;
    int number;
    int failures;
};

/* Many in flight from each of several threads. Times are kept by the batch. */
static void *flow(void *arg)
{
    struct flow *f = arg;
    struct rf_queue *q;
    struct rows *r = calloc(1, sizeof *r);
    char device[32];
    static const uint32_t depth = 16;
    snprintf(device, sizeof device, "root.s.f%d", f->number);
    f->failures += r == NULL || rf_queue_open(f->engine, &q) != 0;
    if (f->failures != 0) return NULL;
    for (int i = 0; i < BATCHES; i++) {
        struct rf_completion c;
        while (rf_queue_in_flight(q) >= depth)
            f->failures += rf_completions(q, &c, 1, -1) != 1 || c.code != 0;
        make(r, device, (int64_t)i * ROWS);
        f->failures += rf_write_async(q, &r->tablet, 1, 10000, NULL, NULL, NULL) != 0;
    }
    while (rf_queue_in_flight(q) > 0) {
        struct rf_completion c;
        f->failures += rf_completions(q, &c, 1, -1) != 1 || c.code != 0;
    }
    rf_queue_close(q);
    free(r);
    return NULL;
}

static void rf_stages__many_in_flight__each_is_told_once(void **state)
{
    (void)state;
    struct told told;
    struct rf_engine *e = open_engine(RF_SYNC_ALWAYS, true, &told);
    struct flow flows[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        flows[i] = (struct flow){.engine = e, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, flow, &flows[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(flows[i].failures, 0);
    }
    assert_int_equal(told.bad, 0);
    assert_int_equal(told.count, THREADS * BATCHES);
    assert_true(told.stage_ns[DEVICE] > 0 && told.stage_ns[QUEUE] > 0);
    assert_true(told.stage_ns[WAKE] > 0);
    check_counts(e, THREADS * BATCHES);
    assert_int_equal(rf_close(e), 0);
}

static void rf_stages__delete_and_refused_batch__are_not_told(void **state)
{
    (void)state;
    struct told told;
    struct rf_engine *e = open_engine(RF_SYNC_ALWAYS, true, &told);
    write_some(e, &told, true);
    struct rf_delete_options d;
    rf_delete_options_init(&d);
    d.device = "root.s.d";
    d.time_to = 100;
    for (int i = 0; i < 10; i++)
        assert_int_equal(rf_delete(e, &d, NULL), 0);
    struct rows *r = calloc(1, sizeof *r);
    make(r, "root.s.d", 0);
    r->column.type = RF_INT32; /* was DOUBLE */
    assert_int_equal(rf_write(e, &r->tablet, NULL), -RF_CODE_TYPE_MISMATCH);
    free(r);
    assert_int_equal(told.count, BATCHES);
    check_counts(e, BATCHES);
    assert_int_equal(rf_close(e), 0);
}

static void rf_stages__without_the_option__nothing_is_told(void **state)
{
    (void)state;
    struct told told;
    struct rf_engine *e = open_engine(RF_SYNC_ALWAYS, false, &told);
    write_some(e, &told, false);
    assert_int_equal(told.count, 0);
    check_counts(e, 0);
    assert_int_equal(rf_close(e), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(rf_stages__blocking_sync__add_up_to_the_call),
        TEST(rf_stages__async__no_time_is_the_devices),
        TEST(rf_stages__off__no_time_is_the_devices),
        TEST(rf_stages__many_in_flight__each_is_told_once),
        TEST(rf_stages__delete_and_refused_batch__are_not_told),
        TEST(rf_stages__without_the_option__nothing_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
