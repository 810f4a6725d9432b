/* ctest: concurrent timeout=240 */
/* Histories of one device under writers, deleters and readers that run side by side, beside fences
 * and changes of its table, are linearizable: acknowledged writes, deletes and scans fit into one
 * order in real time. A device's rows are a row of cells (linear.h), of two columns at four times; a
 * tablet writes several of them at once, a scan reads several at once.
 *
 * RF_HISTORIES  of each setting (default 100)
 * RF_SEED       decides what the threads do, not how they meet; a history that is not linearizable
 *               is printed whole */
#include "linear.h"
#include "rf_kit.h"

#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the checker, on histories made by hand ---- */

#define W(t, b, e, c, v)                                                                        \
    {                                                                                           \
        .kind = LINEAR_WRITE, .thread = t, .begin = b, .end = e, .cells = 1u << (c), .value = { \
            [c] = v                                                                             \
        }                                                                                       \
    }
#define R(t, b, e, c, v)                                                                       \
    {                                                                                          \
        .kind = LINEAR_READ, .thread = t, .begin = b, .end = e, .cells = 1u << (c), .value = { \
            [c] = v                                                                            \
        }                                                                                      \
    }
#define D(t, b, e, c)                                                                \
    {                                                                                \
        .kind = LINEAR_DELETE, .thread = t, .begin = b, .end = e, .cells = 1u << (c) \
    }
/* Cells 0 and 1 at once. */
#define W2(t, b, e, v)                                                                         \
    {                                                                                          \
        .kind = LINEAR_WRITE, .thread = t, .begin = b, .end = e, .cells = 3, .value = { v, v } \
    }
#define R2(t, b, e, v, w)                                                                     \
    {                                                                                         \
        .kind = LINEAR_READ, .thread = t, .begin = b, .end = e, .cells = 3, .value = { v, w } \
    }
static void linear_check__histories_made_by_hand__as_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        enum linear_answer answer;
        uint32_t n;
        struct linear_op op[6];
    } histories[] = {
        {"one after another",
         LINEAR_YES,
         4,
         {W(0, 1, 2, 0, 7), R(0, 3, 4, 0, 7), D(0, 5, 6, 0), R(0, 7, 8, 0, 0)}},
        {"read beside a write: before it", LINEAR_YES, 2, {W(0, 1, 5, 0, 7), R(1, 2, 3, 0, 0)}},
        {"read beside a write: behind it", LINEAR_YES, 2, {W(0, 1, 5, 0, 7), R(1, 2, 3, 0, 7)}},
        {"side by side, the other order",
         LINEAR_YES,
         3,
         {W(0, 1, 9, 0, 7), W(1, 2, 8, 0, 8), R(2, 10, 11, 0, 7)}},
        {"unknown and never there", LINEAR_YES, 2, {W(0, 1, LINEAR_NEVER, 0, 7), R(1, 5, 6, 0, 0)}},
        {"unknown and there later",
         LINEAR_YES,
         3,
         {W(0, 1, LINEAR_NEVER, 0, 7), R(1, 5, 6, 0, 0), R(1, 7, 8, 0, 7)}},
        {"a delete beside a write, in either order",
         LINEAR_YES,
         3,
         {W(0, 1, 9, 0, 7), D(1, 2, 8, 0), R(2, 10, 11, 0, 7)}},
        {"whole, then whole",
         LINEAR_YES,
         4,
         {W2(0, 1, 9, 7), R2(1, 2, 3, 0, 0), R2(1, 4, 5, 7, 7), R2(1, 10, 11, 7, 7)}},

        {"acknowledged and not there", LINEAR_NO, 2, {W(0, 1, 2, 0, 7), R(1, 3, 4, 0, 0)}},
        {"an older value", LINEAR_NO, 3, {W(0, 1, 2, 0, 7), W(0, 3, 4, 0, 8), R(1, 5, 6, 0, 7)}},
        {"from nowhere", LINEAR_NO, 2, {W(0, 1, 2, 0, 7), R(1, 3, 4, 0, 9)}},
        {"seen before it was begun", LINEAR_NO, 2, {R(1, 1, 2, 0, 7), W(0, 3, 4, 0, 7)}},
        {"deleted and there", LINEAR_NO, 3, {W(0, 1, 2, 0, 7), D(0, 3, 4, 0), R(1, 5, 6, 0, 7)}},
        {"deleted, gone, and there again",
         LINEAR_NO,
         4,
         {W(0, 1, 2, 0, 7), D(0, 3, 9, 0), R(1, 4, 5, 0, 0), R(1, 6, 7, 0, 7)}},
        {"seen, then not, beside one write",
         LINEAR_NO,
         3,
         {W(0, 1, 9, 0, 7), R(1, 2, 3, 0, 7), R(1, 4, 5, 0, 0)}},
        {"unknown, seen, gone",
         LINEAR_NO,
         3,
         {W(0, 1, LINEAR_NEVER, 0, 7), R(1, 2, 3, 0, 7), R(1, 4, 5, 0, 0)}},
        {"two readers, two orders",
         LINEAR_NO,
         6,
         {W(0, 1, 20, 0, 7), W(1, 1, 20, 0, 8), R(2, 2, 3, 0, 7), R(2, 4, 5, 0, 8),
          R(3, 6, 7, 0, 7), R(3, 8, 9, 0, 8)}},
        {"a batch in part", LINEAR_NO, 2, {W2(0, 1, 9, 7), R2(1, 2, 3, 7, 0)}},
        {"two batches mixed", LINEAR_NO, 3, {W2(0, 1, 9, 7), W2(1, 1, 9, 8), R2(2, 10, 11, 7, 8)}},
        {"a snapshot of two moments",
         LINEAR_NO,
         3,
         {W(0, 1, 2, 0, 7), W(0, 3, 4, 1, 8), R2(1, 1, 9, 0, 8)}},
    };
    for (size_t i = 0; i < sizeof histories / sizeof histories[0]; i++)
        if (linear_check(histories[i].op, histories[i].n) != histories[i].answer)
            fail_msg("judged otherwise: %s", histories[i].what);
}

/* ---- recording ---- */

enum { TIMES = LINEAR_CELLS / 2, WRITERS = 3, READERS = 2, EACH = 40, FLIGHT = 4 };

static char dir[KIT_PATH_BYTES];
static struct rf_engine *engine;
static char host[16]; /* the device of this history */
static _Atomic int32_t next_value;
static _Atomic bool stop;
static struct linear_op history[LINEAR_OPS_MAX];
static _Atomic uint32_t history_count;
static _Atomic uint32_t refused, unknown, faults;

struct random {
    uint64_t state;
};

static uint32_t below(struct random *r, uint32_t n)
{
    r->state = r->state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)((r->state >> 33) % n);
}

static void fault(const char *what, int rc)
{
    if (atomic_fetch_add(&faults, 1) == 0)
        fprintf(stderr, "%s: %d %s\n", what, rc, rf_strerror(rc));
}

static void record(const struct linear_op *op)
{
    uint32_t at = atomic_fetch_add(&history_count, 1);
    if (at < LINEAR_OPS_MAX) history[at] = *op;
}

/* What an answer says of a change: done, certainly not done, or not known. */
static void answered(struct linear_op *op, int rc)
{
    op->end = kit_now_ns();
    switch (rc) {
    case 0: record(op); return;
    case -RF_CODE_LEASE_FENCED_RETRY:
    case -RF_CODE_SCHEMA_CHANGED:
    case -RF_CODE_WRITE_REJECT:
        atomic_fetch_add(&refused,
                         1); /* nothing was stored: a read that finds it is from nowhere */
        if (op->kind == LINEAR_WRITE) return;
        break;
    case -RF_CODE_UNKNOWN: break;
    default: fault("a change", rc); break;
    }
    atomic_fetch_add(&unknown, 1);
    op->end = LINEAR_NEVER;
    record(op);
}

/* A tablet of the rows that `cells` touch: cell 2 t is column a at time t, 2 t + 1 column b. */
struct rows {
    struct rf_tablet tablet;
    struct rf_column column[3];
    int64_t times[TIMES], a[TIMES], b[TIMES];
    uint32_t offsets[TIMES + 1];
    uint8_t no_a, no_b;
    char hosts[TIMES * sizeof host];
};

static void make_rows(struct rows *r, const struct linear_op *op)
{
    uint32_t n = 0, bytes = (uint32_t)strlen(host);
    memset(r, 0, sizeof *r);
    for (uint32_t t = TIMES; t-- > 0;) { /* not in the order of time */
        uint32_t two = op->cells >> 2 * t & 3;
        if (two == 0) continue;
        r->times[n] = t;
        r->a[n] = op->value[2 * t];
        r->b[n] = op->value[2 * t + 1];
        if ((two & 1) == 0) r->no_a |= (uint8_t)(1u << n);
        if ((two & 2) == 0) r->no_b |= (uint8_t)(1u << n);
        memcpy(r->hosts + (size_t)n * bytes, host, bytes);
        n++;
    }
    for (uint32_t i = 0; i <= n; i++)
        r->offsets[i] = i * bytes;
    r->column[0] = (struct rf_column){.name = "host",
                                      .type = RF_STRING,
                                      .category = RF_TAG,
                                      .values = r->hosts,
                                      .offsets = r->offsets};
    r->column[1] = (struct rf_column){
        .name = "a", .type = RF_INT64, .category = RF_FIELD, .values = r->a, .nulls = &r->no_a};
    r->column[2] = (struct rf_column){
        .name = "b", .type = RF_INT64, .category = RF_FIELD, .values = r->b, .nulls = &r->no_b};
    r->tablet = (struct rf_tablet){.size = sizeof r->tablet,
                                   .table = "t",
                                   .rows = n,
                                   .columns = 3,
                                   .times = r->times,
                                   .column = r->column};
}

struct worker {
    struct random random;
    int thread;
    struct rf_queue *queue;
    struct linear_op flight[FLIGHT]; /* begun on the queue; kind is LINEAR_WRITE while so */
    bool in_flight[FLIGHT];
};

static void collect(struct worker *w, int64_t timeout_ms)
{
    struct rf_completion c[FLIGHT];
    int n = rf_completions(w->queue, c, FLIGHT, timeout_ms);
    if (n < 0) fault("rf_completions", n);
    for (int i = 0; i < n; i++) {
        struct linear_op *op = c[i].user;
        w->in_flight[op - w->flight] = false;
        answered(op, c[i].code);
    }
}

static void write_cells(struct worker *w)
{
    struct rows rows;
    struct linear_op op = {.kind = LINEAR_WRITE, .thread = w->thread};
    int32_t value = atomic_fetch_add(&next_value, 1);
    op.cells = 1 + below(&w->random, (1u << LINEAR_CELLS) - 1);
    if (below(&w->random, 3) == 0) op.cells = (1u << LINEAR_CELLS) - 1;
    for (uint32_t i = 0; i < LINEAR_CELLS; i++)
        op.value[i] = value;
    make_rows(&rows, &op);
    uint32_t at = below(&w->random, FLIGHT);
    if (w->in_flight[at] || below(&w->random, 2) == 0) {
        op.begin = kit_now_ns();
        int rc = rf_write(engine, &rows.tablet, NULL);
        answered(&op, rc);
        return;
    }
    op.begin = kit_now_ns();
    w->flight[at] = op;
    w->in_flight[at] = true;
    int rc = rf_write_async(w->queue, &rows.tablet, 1, 1000, NULL, &w->flight[at], NULL);
    if (rc == 0) return;
    w->in_flight[at] = false;
    answered(&op, rc);
}

static void delete_cells(struct worker *w)
{
    static const char *const a = "a", *const b = "b";
    struct rf_delete_options o;
    struct rf_tag_filter tag = {.name = "host", .value = host};
    struct linear_op op = {.kind = LINEAR_DELETE, .thread = w->thread};
    uint32_t from = below(&w->random, TIMES), to = from + below(&w->random, TIMES - from);
    uint32_t which = below(&w->random, 4); /* 0: column a, 1: column b, else rows */
    rf_delete_options_init(&o);
    o.table = "t";
    o.tags = &tag;
    o.tag_count = 1;
    o.time_from = from;
    o.time_to = to;
    o.columns = which == 0 ? &a : &b;
    if (which > 1) o.columns = NULL;
    o.column_count = which > 1 ? 0 : 1;
    for (uint32_t t = from; t <= to; t++)
        op.cells |= (which == 0 ? 1u : which == 1 ? 2u : 3u) << 2 * t;
    op.begin = kit_now_ns();
    int rc = rf_delete(engine, &o, NULL);
    answered(&op, rc);
}

static void *change(void *ctx)
{
    struct worker *w = ctx;
    int rc = rf_queue_open(engine, &w->queue);
    if (rc != 0) {
        fault("rf_queue_open", rc);
        return NULL;
    }
    for (int i = 0; i < EACH; i++) {
        if (below(&w->random, 4) == 0)
            delete_cells(w);
        else
            write_cells(w);
        collect(w, 0);
    }
    while (rf_queue_in_flight(w->queue) > 0)
        collect(w, 5000);
    rf_queue_close(w->queue);
    return NULL;
}

static void take_cell(struct linear_op *op, const struct rf_column *c, uint32_t row, uint32_t cell)
{
    if (c->values == NULL || (c->nulls != NULL && (c->nulls[row / 8] >> row % 8 & 1) != 0)) return;
    op->value[cell] = (int32_t)((const int64_t *)c->values)[row];
}

static void read_cells(struct worker *w)
{
    static const char *const columns[] = {"a", "b"};
    struct rf_scan_options o;
    struct rf_tag_filter tag = {.name = "host", .value = host};
    struct rf_cursor *cursor;
    struct rf_tablet t;
    struct linear_op op = {.kind = LINEAR_READ, .thread = w->thread};
    uint32_t from = below(&w->random, TIMES), to = from + below(&w->random, TIMES - from);
    if (below(&w->random, 2) == 0) from = 0, to = TIMES - 1;
    rf_scan_options_init(&o);
    o.table = "t";
    o.tags = &tag;
    o.tag_count = 1;
    o.columns = columns;
    o.column_count = 2;
    o.time_from = from;
    o.time_to = to;
    o.descending = below(&w->random, 2) == 0;
    for (uint32_t i = from; i <= to; i++)
        op.cells |= 3u << 2 * i;
    op.begin = kit_now_ns();
    int rc = rf_scan_open(engine, &o, &cursor, NULL);
    if (rc == 0) {
        while ((rc = rf_scan_next(cursor, &t)) == 1)
            for (uint32_t i = 0; i < t.rows; i++) {
                take_cell(&op, &t.column[1], i, 2 * (uint32_t)t.times[i]);
                take_cell(&op, &t.column[2], i, 2 * (uint32_t)t.times[i] + 1);
            }
        rf_scan_close(cursor);
    }
    op.end = kit_now_ns();
    if (rc == 0)
        record(&op);
    else if (rc != -RF_CODE_LEASE_FENCED && rc != -RF_CODE_SCHEMA_CHANGED)
        fault("a scan", rc);
}

static void *look(void *ctx)
{
    struct worker *w = ctx;
    for (int i = 0; i < EACH; i++)
        read_cells(w);
    return NULL;
}

/* Fences, and changes of the table in which everything still fits. */
static void *disturb(void *ctx)
{
    struct worker *w = ctx;
    char name[32];
    while (!atomic_load(&stop)) {
        int rc = 0;
        if (below(&w->random, 3) == 0) {
            rc = rf_lease_fence(engine);
        } else {
            snprintf(name, sizeof name, "%s_%u", host, below(&w->random, 1000000));
            const struct rf_column_def column = {name, RF_DOUBLE, RF_FIELD};
            rc = rf_table_add_columns(engine, "t", &column, 1, NULL);
            if (rc == 0) rc = rf_table_drop_column(engine, "t", name, NULL);
        }
        if (rc != 0 && rc != -RF_CODE_UNKNOWN && rc != -RF_CODE_COLUMN_EXISTS)
            fault("a disturbance", rc);
        usleep(200 + below(&w->random, 2000));
    }
    return NULL;
}

static void record_history(uint64_t seed, uint32_t number)
{
    enum { THREADS = WRITERS + READERS + 1 };
    static struct worker workers[THREADS];
    pthread_t threads[THREADS];
    snprintf(host, sizeof host, "d%u", number);
    atomic_store(&next_value, 1);
    atomic_store(&stop, false);
    atomic_store(&history_count, 0);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.random.state = seed * 100 + (uint64_t)i, .thread = i};
        void *(*body)(void *) = i < WRITERS ? change : i < WRITERS + READERS ? look : disturb;
        assert_int_equal(pthread_create(&threads[i], NULL, body, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        if (i == THREADS - 1) atomic_store(&stop, true);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&faults), 0);
}

/* The log is small: what earlier histories wrote may go. */
static void make_room(void)
{
    struct rf_trim_options trim;
    rf_trim_options_init(&trim);
    trim.before_position = kit_stats(engine).position;
    if (trim.before_position != 0) assert_int_equal(rf_trim(engine, &trim, NULL), 0);
}

/* That the check would notice: a read that sees what is only written after it, and a write that
 * somebody saw taken out. */
static uint32_t break_it(uint32_t n)
{
    static struct linear_op broken[LINEAR_OPS_MAX];
    for (uint32_t r = 0; r < n; r++) {
        if (history[r].kind != LINEAR_READ || (history[r].cells & 1) == 0) continue;
        for (uint32_t w = 0; w < n; w++) {
            bool later = history[w].kind == LINEAR_WRITE && history[w].begin > history[r].end;
            bool seen = history[w].kind == LINEAR_WRITE && (history[w].cells & 1) != 0 &&
                        history[w].value[0] == history[r].value[0];
            if (!later && !seen) continue;
            memcpy(broken, history, n * sizeof broken[0]);
            if (later)
                broken[r].value[0] = history[w].value[0];
            else
                broken[w].cells = 0;
            if (linear_check(broken, n) != LINEAR_NO) fail_msg("a broken history passes");
            return 1;
        }
    }
    return 0;
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

static void histories(enum rf_sync sync, uint32_t lanes)
{
    uint64_t seed = number_of("RF_SEED", (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid());
    uint32_t wanted = (uint32_t)number_of("RF_HISTORIES", 100), gave_up = 0, broken = 0;
    uint64_t operations = 0;
    struct rf_options o;
    kit_dir(dir);
    kit_options(&o);
    o.sync = sync;
    o.lanes = lanes;
    o.regions = lanes;
    o.partition_interval = 2; /* the four times lie in two partitions */
    engine = kit_open(dir, &o);
    static const struct rf_column_def columns[] = {
        {"host", RF_STRING, RF_TAG}, {"a", RF_INT64, RF_FIELD}, {"b", RF_INT64, RF_FIELD}};
    assert_int_equal(rf_table_create(engine, "t", columns, 3, 0, NULL), 0);
    atomic_store(&refused, 0);
    atomic_store(&unknown, 0);
    print_message("sync %d, %u lanes: RF_SEED=%" PRIu64 "\n", (int)sync, lanes, seed);
    for (uint32_t i = 0; i < wanted; i++) {
        record_history(seed + i, i);
        uint32_t n = atomic_load(&history_count);
        assert_true(n <= LINEAR_OPS_MAX);
        enum linear_answer answer = linear_check(history, n);
        if (answer == LINEAR_NO) {
            linear_print(history, n);
            fail_msg("history %u of RF_SEED=%" PRIu64 " is not linearizable", i, seed);
        }
        gave_up += answer == LINEAR_GAVE_UP;
        if (i % 8 == 0 && answer == LINEAR_YES) broken += break_it(n);
        operations += n;
        if (i % 8 == 7) make_room();
    }
    print_message("%u histories, %" PRIu64 " operations, %u refused, %u unknown; %u too wide to be "
                  "judged; %u broken on purpose and found\n",
                  wanted, operations, atomic_load(&refused), atomic_load(&unknown), gave_up,
                  broken);
    assert_true(gave_up * 10 <= wanted && broken > 0);
    assert_int_equal(rf_close(engine), 0);
    kit_remove(dir);
}

static void rf_linear__always__every_history_has_an_order(void **state)
{
    (void)state;
    histories(RF_SYNC_ALWAYS, 1);
}
static void rf_linear__async__every_history_has_an_order(void **state)
{
    (void)state;
    histories(RF_SYNC_ASYNC, 2);
}
static void rf_linear__off__every_history_has_an_order(void **state)
{
    (void)state;
    histories(RF_SYNC_OFF, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_check__histories_made_by_hand__as_they_are),
        cmocka_unit_test(rf_linear__always__every_history_has_an_order),
        cmocka_unit_test(rf_linear__async__every_history_has_an_order),
        cmocka_unit_test(rf_linear__off__every_history_has_an_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
