/* ctest: timeout=400 */
/* The power fails at every event of what a whole engine does, its catalog in the same trace: what
 * was not durable is kept, dropped or torn. Then rf_verify, rf_open, and a comparison with what the
 * callers were told; a second life on top of what was discarded, a second failure, and a look again.
 *
 * Acknowledged = present, once, in order; not acknowledged = whole or absent; answered 536 = absent;
 * an acknowledged change of a table is there. ASYNC and OFF lanes may lose the newest, never one
 * from the middle, and nothing that a flush has covered.
 *
 * RF_CRASH_EVERY  every n-th event (default: such that a workload takes about RF_CRASH_IMAGES)
 * RF_CRASH_IMAGES images a workload (default 60)
 * RF_CRASH_ROUNDS each workload so many times, by rising seeds (default 1)
 * RF_SEED         of the first round */
#include "tests/lib/engine_rig.h"
#include "tests/lib/make_batch.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ACTIONS_MAX 65536u
#define STATES_MAX  64u
#define STATE_BYTES 1024u

enum kind { DO_WRITE, DO_DELETE, DO_FLUSH, DO_TRIM, DO_DDL };

/* One call: its place in the trace, and what came back. */
struct action {
    enum kind kind;
    uint32_t writer, batch; /* DO_DDL: batch counts the changes, from 1 */
    uint64_t begin;         /* the trace's length before the call */
    _Atomic uint64_t end;   /* and after the answer; UINT64_MAX: none yet */
    int code;
};

struct life {
    struct engine_rig rig;
    struct make_random random;
    pthread_mutex_t lock;
    struct action action[ACTIONS_MAX];
    uint32_t action_count;
    uint32_t first_batch[STORY_WRITERS]; /* of this life; what lies before is settled */
    char state[STATES_MAX][STATE_BYTES]; /* of the tables "d...", after each change */
    uint32_t state_count;
    uint64_t opened_at; /* the trace's length when rf_open had answered */
    uint64_t writers_left;
    _Atomic uint32_t fenced; /* answers of 536 */
    uint32_t writers, batches;
    bool async;
    bool big; /* more than the log holds: it is trimmed, its segments used again */
    uint64_t segments_freed;
    char tables; /* in the names of those that this life changes */
};

/* ---- a life ---- */

static struct action *begin(struct life *l, enum kind kind, uint32_t writer, uint32_t batch)
{
    pthread_mutex_lock(&l->lock);
    assert_true(l->action_count < ACTIONS_MAX);
    struct action *a = &l->action[l->action_count];
    *a = (struct action){.kind = kind, .writer = writer, .batch = batch};
    a->end = UINT64_MAX;
    a->begin = fault_trace_length(l->rig.env);
    l->action_count++;
    pthread_mutex_unlock(&l->lock);
    return a;
}

static void end(struct life *l, struct action *a, int code)
{
    a->code = code;
    if (code == -RF_CODE_LEASE_FENCED_RETRY) l->fenced++;
    fault_mark(l->rig.env, (uint64_t)(a - l->action));
    a->end = fault_trace_length(l->rig.env);
}

/* Whether a call may end so while nothing is broken. */
static bool is_expected(int code)
{
    return code == 0 || code == -RF_CODE_LEASE_FENCED_RETRY || code == -RF_CODE_WRITE_REJECT ||
           code == -RF_CODE_NO_TABLE;
}

struct writer {
    struct life *life;
    uint32_t index;
    uint64_t seed;
    struct rf_queue *queue;
    uint32_t acknowledged; /* newest batch whose low rows are there */
};

static void collect(struct writer *w, int64_t timeout_ms)
{
    struct rf_completion c[16];
    int n = rf_completions(w->queue, c, 16, timeout_ms);
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        struct action *a = c[i].user;
        end(w->life, a, c[i].code);
        if (!is_expected(c[i].code)) fail_msg("an asynchronous write: %d", c[i].code);
        if (c[i].code == 0 && a->batch > w->acknowledged) w->acknowledged = a->batch;
    }
}

static void write_one(struct writer *w, struct make_random *random, uint32_t batch)
{
    static const uint32_t sizes[] = {0, 10, 500, 600, 3000, 9000, 30000},
                          big_sizes[] = {10, 30000, 30000, 50000, 60000, 80000, 100000};
    static _Thread_local struct story_tablet t;
    struct rf_error error;
    struct life *l = w->life;
    uint32_t extra = make_below(random, 8) == 0 ? 1 + make_below(random, 12) : 0;
    uint32_t size = make_below(random, 7);
    story_tablet(&t, w->index, batch, l->big ? big_sizes[size] : sizes[size], extra);
    struct action *a = begin(l, DO_WRITE, w->index, batch);
    int rc;
    if (w->queue != NULL) {
        rc = rf_write_async(w->queue, &t.tablet, 1, 2000, NULL, a, &error);
        if (rc != 0) end(l, a, rc);
        collect(w, rf_queue_in_flight(w->queue) > 6 ? 5000 : 0);
    } else {
        rc = rf_write(l->rig.e, &t.tablet, &error);
        end(l, a, rc);
        if (rc == 0) w->acknowledged = batch;
    }
    if (!is_expected(rc)) fail_msg("rf_write: %d %s", rc, error.text);
    story_free(&t);
}

static void delete_one(struct writer *w)
{
    struct rf_delete_options o;
    struct rf_tag_filter tag;
    struct rf_error error;
    char text[4];
    struct life *l = w->life;
    if (w->acknowledged == 0) return;
    story_delete(&o, &tag, text, w->index, w->acknowledged);
    struct action *a = begin(l, DO_DELETE, w->index, w->acknowledged);
    int rc = rf_delete(l->rig.e, &o, &error);
    end(l, a, rc);
    if (!is_expected(rc)) fail_msg("rf_delete: %d %s", rc, error.text);
}

static void *writer_main(void *ctx)
{
    struct writer *w = ctx;
    struct life *l = w->life;
    struct make_random random = {.state = w->seed};
    bool async = l->async && w->index % 2 == 0;
    if (async) assert_int_equal(rf_queue_open(l->rig.e, &w->queue), 0);
    for (uint32_t i = 0; i < l->batches; i++) {
        write_one(w, &random, l->first_batch[w->index] + i);
        if (make_below(&random, 6) == 0) delete_one(w);
    }
    while (async && rf_queue_in_flight(w->queue) > 0)
        collect(w, 5000);
    if (async) rf_queue_close(w->queue);
    __atomic_fetch_sub(&l->writers_left, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* The next change of the tables "d...", in an order that creates, changes and drops. */
static int change_tables(struct life *l, uint32_t n)
{
    static const struct rf_column_def two[] = {{"w", RF_STRING, RF_TAG}, {"a", RF_INT32, RF_FIELD}},
                                      more[] = {{"b", RF_DOUBLE, RF_FIELD},
                                                {"c", RF_TEXT, RF_FIELD}};
    struct rf_engine *e = l->rig.e;
    char name[8];
    snprintf(name, sizeof name, "d%c%u", l->tables, n / 6 % 2);
    switch (n % 6) {
    case 0: return rf_table_create(e, name, two, 2, 0, &l->rig.error);
    case 1: return rf_table_add_columns(e, name, more, 2, &l->rig.error);
    case 2: return rf_table_drop_column(e, name, "b", &l->rig.error);
    case 3: return rf_table_rename_column(e, name, "c", "renamed", &l->rig.error);
    case 4: return rf_table_add_columns(e, name, more, 1, &l->rig.error);
    default: return n / 6 % 3 == 2 ? 0 : rf_table_drop(e, name, &l->rig.error);
    }
}

static void ddl_one(struct life *l)
{
    uint32_t n = l->state_count - 1;
    if (l->state_count == STATES_MAX || n >= 17) return; /* a cycle ends with a table left */
    struct action *a = begin(l, DO_DDL, 0, l->state_count);
    int rc = change_tables(l, n);
    end(l, a, rc);
    if (rc != 0) fail_msg("change %u: %d %s", n, rc, l->rig.error.text);
    story_tables(l->rig.e, 'd', l->state[l->state_count++], STATE_BYTES);
}

static void flush_one(struct life *l)
{
    struct action *a = begin(l, DO_FLUSH, 0, 0);
    int rc = rf_flush(l->rig.e);
    end(l, a, rc);
    assert_int_equal(rc, 0);
}

static void trim_one(struct life *l)
{
    struct rf_stats stats = {.size = sizeof stats};
    struct rf_trim_options o;
    rf_trim_options_init(&o);
    assert_int_equal(rf_stats(l->rig.e, &stats), 0);
    struct action *a = begin(l, DO_TRIM, 0, 0);
    o.before_position = stats.position;
    if (o.before_position == 0) return;
    int rc = rf_trim(l->rig.e, &o, NULL);
    end(l, a, rc);
    assert_int_equal(rc, 0);
    assert_int_equal(rf_stats(l->rig.e, &stats), 0);
    l->segments_freed = stats.oldest_position / stats.segment_bytes - 1;
}

/* What the engine's owner does while its writers write. */
static void disturb(struct life *l)
{
    struct timespec nap = {.tv_nsec = 300000};
    uint32_t turn = 0;
    while (__atomic_load_n(&l->writers_left, __ATOMIC_SEQ_CST) > 0) {
        nanosleep(&nap, NULL);
        /* Asynchronous writes are not tried again: until one of them is refused, fence. */
        if (l->async && l->fenced == 0) assert_int_equal(rf_lease_fence(l->rig.e), 0);
        if (l->big && turn % 4 == 3) trim_one(l);
        switch (turn++ < 4 ? turn - 1 : make_below(&l->random, 12)) {
        case 0:
        case 4:
        case 5: ddl_one(l); break;
        case 1:
        case 6:
        case 7:
        case 8: assert_int_equal(rf_lease_fence(l->rig.e), 0); break;
        case 2: flush_one(l); break;
        case 3: trim_one(l); break;
        default: break;
        }
    }
}

static void run_life(struct life *l)
{
    struct writer writers[STORY_WRITERS];
    pthread_t threads[STORY_WRITERS];
    l->writers_left = l->writers;
    l->fenced = 0;
    for (uint32_t i = 0; i < l->writers; i++) {
        writers[i] = (struct writer){.life = l, .index = i, .seed = make_random(&l->random)};
        assert_int_equal(pthread_create(&threads[i], NULL, writer_main, &writers[i]), 0);
    }
    disturb(l);
    for (uint32_t i = 0; i < l->writers; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void open_life(struct life *l)
{
    if (engine_rig_open(&l->rig) != 0) fail_msg("rf_open: %s", l->rig.error.text);
    l->opened_at = fault_trace_length(l->rig.env);
    story_tables(l->rig.e, 'd', l->state[0], STATE_BYTES);
    l->state_count = 1;
}

/* ---- what was told, at one point of the trace ---- */

struct told {
    struct story_told story;
    uint32_t state_min, state_max;
};

static void settle(struct told *told, const struct story_found *found)
{
    story_settle(&told->story, found);
    told->state_min = told->state_max = 0;
}

static void apply_write(struct told *told, const struct action *a, bool answered, bool sync)
{
    uint8_t fate = FATE_EITHER;
    if (answered && a->code == 0 && sync) fate = FATE_PRESENT;
    /* The record that voids a refused batch lies behind it: durable before the answer only in a
     * SYNC lane. A rejected one was never there. */
    if (answered && a->code == -RF_CODE_WRITE_REJECT) fate = FATE_ABSENT;
    if (answered && a->code == -RF_CODE_LEASE_FENCED_RETRY && sync) fate = FATE_ABSENT;
    told->story.high[a->writer][a->batch] = fate;
    told->story.low[a->writer][a->batch] = FATE_PRESENT;
}

static void apply_delete(struct told *told, const struct action *a, bool answered, bool sync)
{
    if (answered && a->code != 0 && a->code != -RF_CODE_LEASE_FENCED_RETRY) return;
    bool surely = answered && a->code == 0 && sync;
    if (answered && a->code != 0 && sync) return;
    uint8_t *low = &told->story.low[a->writer][a->batch];
    if (*low != FATE_ABSENT) *low = surely ? FATE_ABSENT : FATE_EITHER;
}

/* What was answered before is durable now, or may be gone now, by what this call did. */
static void apply_upkeep(struct told *told, const struct life *l, const struct action *a,
                         bool answered)
{
    for (const struct action *b = l->action; b < a; b++) {
        if (b->end > a->begin || b->code != 0) continue;
        if (a->kind == DO_FLUSH && answered && b->kind == DO_WRITE &&
            told->story.high[b->writer][b->batch] == FATE_EITHER)
            told->story.high[b->writer][b->batch] = FATE_PRESENT;
        if (a->kind == DO_FLUSH && answered && b->kind == DO_DELETE)
            told->story.low[b->writer][b->batch] = FATE_ABSENT;
    }
}

static void apply_trims(struct told *told, const struct life *l, uint64_t at)
{
    for (uint32_t i = 0; i < l->action_count; i++) {
        const struct action *t = &l->action[i];
        if (t->kind != DO_TRIM || t->begin >= at) continue;
        for (uint32_t w = 0; w < STORY_WRITERS; w++)
            for (uint32_t b = 1; b < l->first_batch[w]; b++)
                if (told->story.high[w][b] == FATE_PRESENT) told->story.high[w][b] = FATE_EITHER;
        for (uint32_t k = 0; k < i; k++) {
            const struct action *a = &l->action[k];
            if (a->kind == DO_WRITE && told->story.high[a->writer][a->batch] == FATE_PRESENT)
                told->story.high[a->writer][a->batch] = FATE_EITHER;
        }
    }
}

/* told comes with what was settled before this life. */
static void tell(struct told *told, const struct life *l, uint64_t at)
{
    bool sync = l->rig.o.sync == RF_SYNC_ALWAYS;
    told->state_min = told->state_max = 0;
    for (uint32_t i = 0; i < l->action_count; i++) {
        const struct action *a = &l->action[i];
        bool answered = a->end <= at;
        if (a->begin >= at) {
            if (a->kind == DO_WRITE) told->story.high[a->writer][a->batch] = FATE_ABSENT;
            continue;
        }
        switch (a->kind) {
        case DO_WRITE: apply_write(told, a, answered, sync); break;
        case DO_DELETE: apply_delete(told, a, answered, sync); break;
        case DO_FLUSH: apply_upkeep(told, l, a, answered); break;
        case DO_TRIM: break;
        case DO_DDL:
            told->state_max = a->batch;
            if (answered) told->state_min = a->batch;
            break;
        }
    }
    apply_trims(told, l, at);
}

/* ---- comparison ---- */

/* ASYNC, OFF: what is there of this life is a prefix of the order of each lane. Order is known
 * between an answer and a later call; across writers only with one lane. */
static bool prefix_is_right(const struct life *l, const struct story_found *f, uint64_t at)
{
    for (uint32_t i = 0; i < l->action_count; i++) {
        const struct action *a = &l->action[i];
        if (a->kind == DO_TRIM && a->begin < at) return true; /* the oldest may be gone as well */
    }
    for (uint32_t i = 0; i < l->action_count; i++) {
        const struct action *a = &l->action[i];
        if (a->kind != DO_WRITE || a->code != 0 || a->end > at) continue;
        if (f->high[a->writer][a->batch] != 0) continue;
        for (uint32_t k = 0; k < l->action_count; k++) {
            const struct action *b = &l->action[k];
            if (b->kind != DO_WRITE || b->begin < a->end || f->high[b->writer][b->batch] == 0)
                continue;
            if (b->writer == a->writer || l->rig.o.lanes == 1)
                return story_wrong("lost from the middle", a->writer, a->batch, b->batch);
        }
    }
    return true;
}

static bool tables_are_right(struct rf_engine *e, const struct life *l, const struct told *told)
{
    char text[STATE_BYTES];
    story_tables(e, 'd', text, sizeof text);
    for (uint32_t i = told->state_min; i <= told->state_max; i++)
        if (i < l->state_count && strcmp(text, l->state[i]) == 0) return true;
    /* A change of several steps (a marker, then a tombstone) shows nothing in between: what is being
     * dropped is finished by the next opening. */
    printf("tables: %s\nnone of the states %u..%u: %s\n", text, told->state_min, told->state_max,
           l->state[told->state_min]);
    return false;
}

/* ---- failures ---- */

struct failure {
    uint64_t at, choices; /* choices 0: drop, 1: keep, else torn and mixed by this seed */
};

static struct io_env *crash(struct io_env *env, const struct failure *f, bool record)
{
    uint64_t state = f->choices;
    struct io_env *left;
    const struct fault_options o = {.seed = f->choices, .record = record};
    fault_choice *choice = f->choices == 0   ? fault_choice_drop
                           : f->choices == 1 ? fault_choice_keep
                                             : fault_choice_seeded;
    assert_int_equal(fault_crash(env, f->at, choice, &state, &o, &left, NULL), 0);
    return left;
}

static void give_up(const struct life *l, const struct failure *f, const char *what)
{
    printf("%s: at event %" PRIu64 " of %" PRIu64 ", choices %" PRIu64 "\n", what, f->at,
           fault_trace_length(l->rig.env), f->choices);
    for (uint64_t i = f->at < 30 ? 0 : f->at - 30; i < f->at; i++) {
        char text[200];
        fault_trace_describe(l->rig.env, i, text, sizeof text);
        printf("  %s\n", text);
    }
    fail();
}

static struct story_found found;

/* Opens what a failure left and compares. The rig stays open. */
static void look_at(const struct life *l, struct told *told, struct engine_rig *rig,
                    const struct failure *f)
{
    engine_rig_init(rig, rig->env);
    rig->o.sync = l->rig.o.sync;
    rig->o.lanes = l->rig.o.lanes;
    rig->o.regions = l->rig.o.regions;
    rig->o.queue_depth = l->rig.o.queue_depth;
    enum rf_verdict verdict = engine_rig_verify(rig);
    if (verdict == RF_VERDICT_CORRUPT ||
        (verdict == RF_VERDICT_UNFINISHED && f->at >= l->opened_at))
        give_up(l, f, "verdict");
    if (engine_rig_open(rig) != 0) {
        printf("rf_open: %s\n", rig->error.text);
        give_up(l, f, "open");
    }
    if (!story_scan(rig->e, &found)) give_up(l, f, "scan");
    if (!story_is_right(&told->story, &found) || !tables_are_right(rig->e, l, told) ||
        (l->rig.o.sync != RF_SYNC_ALWAYS && !prefix_is_right(l, &found, f->at)))
        give_up(l, f, "content");
}

static struct life second;
static struct told told_first, told_second;

/* A short life on what a failure left, appended over what was discarded, then failures in it. */
static void second_life(const struct life *first, const struct failure *f, uint64_t *images)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct told settled = told_first;
    second.lock = lock;
    second.action_count = 0;
    second.random.state = f->at * 1000 + f->choices;
    second.writers = 2;
    second.batches = 3;
    second.async = first->async;
    second.tables = 'b';
    second.rig.env = crash(first->rig.env, f, true);
    look_at(first, &settled, &second.rig, f);
    settle(&settled, &found);
    bool was_there = f->at >= first->opened_at;
    second.opened_at = was_there ? 0 : fault_trace_length(second.rig.env);
    story_tables(second.rig.e, 'd', second.state[0], STATE_BYTES);
    second.state_count = 1;
    for (uint32_t w = 0; w < STORY_WRITERS; w++)
        second.first_batch[w] = STORY_BATCHES / 2;
    run_life(&second);
    bool close = f->at % 2 == 0;
    if (close) assert_int_equal(engine_rig_close(&second.rig), 0);
    uint64_t length = fault_trace_length(second.rig.env);
    for (uint64_t n = 0; n < 3; n++) {
        struct failure again = {.at = make_random(&second.random) % (length + 1), .choices = n};
        struct engine_rig rig = {.env = crash(second.rig.env, &again, false)};
        told_second = settled;
        tell(&told_second, &second, again.at);
        look_at(&second, &told_second, &rig, &again);
        assert_int_equal(engine_rig_close(&rig), 0);
        io_env_close(rig.env);
        ++*images;
    }
    assert_int_equal(engine_rig_close(&second.rig), 0);
    io_env_close(second.rig.env);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t fail_everywhere(const struct life *l)
{
    uint64_t length = fault_trace_length(l->rig.env), images = 0;
    uint64_t every = number_of("RF_CRASH_EVERY", 0);
    uint64_t wanted = number_of("RF_CRASH_IMAGES", 60);
    if (every == 0) every = length / wanted + 1;
    /* Which of the k events of a step is looked at moves with the seed. */
    for (uint64_t at = l->random.state % every; at <= length; at += every) {
        uint64_t turn = at / every;
        struct failure f = {.at = at, .choices = turn % 3 == 2 ? at + 2 : turn % 3};
        struct engine_rig rig = {.env = crash(l->rig.env, &f, false)};
        memset(&told_first, 0, sizeof told_first);
        tell(&told_first, l, at);
        look_at(l, &told_first, &rig, &f);
        assert_int_equal(engine_rig_close(&rig), 0);
        if (turn % 3 == 0) { /* opened again: the same */
            story_settle(&told_first.story, &found);
            look_at(l, &told_first, &rig, &f);
            assert_int_equal(engine_rig_close(&rig), 0);
        }
        io_env_close(rig.env);
        images++;
        if (turn % 5 == 0) second_life(l, &f, &images);
    }
    return images;
}

/* ---- workloads ---- */

static struct life first;
static uint32_t refused; /* batches answered 536, in all workloads */

struct workload {
    enum rf_sync sync;
    uint32_t lanes, depth, writers, batches;
    bool async, big;
};

static uint32_t answered(const struct life *l, enum kind kind, int code)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->action_count; i++)
        if (l->action[i].kind == kind && l->action[i].code == code) n++;
    return n;
}

static uint64_t one_workload(const struct workload *w, uint64_t seed)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct io_env *env;
    const struct fault_options fo = {
        .seed = seed % 3 == 0 ? 0 : seed, .fua = seed % 4 == 1, .record = true};
    assert_int_equal(fault_env_open(&fo, &env), 0);
    engine_rig_init(&first.rig, env);
    first.rig.o.sync = w->sync;
    first.rig.o.lanes = first.rig.o.regions = w->lanes;
    first.rig.o.queue_depth = w->depth;
    first.lock = lock;
    first.random.state = seed;
    first.action_count = 0;
    first.writers = w->writers;
    first.batches = w->batches;
    first.async = w->async;
    first.big = w->big;
    first.segments_freed = 0;
    first.tables = 'a';
    for (uint32_t i = 0; i < STORY_WRITERS; i++)
        first.first_batch[i] = 1;
    open_life(&first);
    run_life(&first);
    struct action *a = begin(&first, DO_FLUSH, 0, 0); /* a close covers what a flush does */
    int rc = engine_rig_close(&first.rig);
    end(&first, a, rc);
    assert_int_equal(rc, 0);
    uint64_t length = fault_trace_length(env), images = fail_everywhere(&first);
    printf("mode %d, %u lanes, depth %u, %u writers, RF_SEED=%" PRIu64 ": %" PRIu64
           " events, %u batches, %u fenced, %u deletes, %u changes of tables, %" PRIu64
           " segments freed, %" PRIu64 " images\n",
           w->sync, w->lanes, w->depth, w->writers, seed, length, answered(&first, DO_WRITE, 0),
           answered(&first, DO_WRITE, -RF_CODE_LEASE_FENCED_RETRY), answered(&first, DO_DELETE, 0),
           first.state_count - 1, first.segments_freed, images);
    refused += answered(&first, DO_WRITE, -RF_CODE_LEASE_FENCED_RETRY);
    io_env_close(env);
    return images;
}

static void all_of(const struct workload *workloads, uint32_t n)
{
    uint64_t images = 0, rounds = number_of("RF_CRASH_ROUNDS", 1);
    uint64_t seed = number_of("RF_SEED", 20261130);
    for (uint64_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < n; i++)
            images += one_workload(&workloads[i], seed + round * n + i);
    printf("%" PRIu64 " crash images, %u batches fenced\n", images, refused);
    assert_true(images > 0);
}

static void crash_engine__always_at_every_event__acknowledged_is_there(void **state)
{
    (void)state;
    static const struct workload w[] = {
        {RF_SYNC_ALWAYS, 1, 4, 1, 30, false, false}, {RF_SYNC_ALWAYS, 1, 1, 3, 16, true, false},
        {RF_SYNC_ALWAYS, 2, 2, 4, 14, true, false},  {RF_SYNC_ALWAYS, 2, 4, 2, 20, false, false},
        {RF_SYNC_ALWAYS, 1, 2, 2, 16, true, true},
    };
    all_of(w, sizeof w / sizeof w[0]);
}

static void crash_engine__async_and_off_at_every_event__prefix_is_there(void **state)
{
    (void)state;
    static const struct workload w[] = {
        {RF_SYNC_ASYNC, 1, 4, 3, 24, true, false}, {RF_SYNC_ASYNC, 2, 2, 4, 16, false, false},
        {RF_SYNC_ASYNC, 1, 4, 2, 16, true, true},  {RF_SYNC_OFF, 1, 1, 2, 30, true, false},
        {RF_SYNC_OFF, 2, 4, 3, 16, false, false},
    };
    all_of(w, sizeof w / sizeof w[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crash_engine__always_at_every_event__acknowledged_is_there),
        cmocka_unit_test(crash_engine__async_and_off_at_every_event__prefix_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
