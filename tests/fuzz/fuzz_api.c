/* The public calls by a script of bytes, on a small engine over the fault double.
 *
 * Each step is one byte with arguments behind it: writes of every shape, asynchronous ones, deletes,
 * scans read in part, changes of tables, the lease, trims, flushes, statistics, bad arguments, closes
 * and openings, a failing disk, a slow one, a full one, a power failure. A reference model that is
 * fed the same steps says what has to be there: every answer and every cell, as far as the header
 * promises it. What is not known (a batch in flight at a power failure, say) has to come out as a
 * prefix of what was written. At the end no byte of memory is left over. */
#include "tests/fuzz/api_script.h"

#include "base/alloc.h"
#include "base/check.h"

#include <errno.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Each is a life of an engine: see corpus_main.c. */
extern const unsigned fuzz_runs_a_file;
const unsigned fuzz_runs_a_file = 60;

/* ---- open and close ---- */

static bool is_external(const struct script *s)
{
    return s->rig.o.lease == RF_LEASE_EXTERNAL && (s->rig.o.flags & RF_READ_ONLY) == 0;
}

/* Whether waits are so short that a busy machine makes them run out. */
static bool is_impatient(const struct script *s)
{
    return s->rig.o.durable_wait_ms < 1000;
}

/* The plane may see only now that a lease is over, between the two calls: asks again then. */
static void resume_lease(struct script *s)
{
    int rc;
    if (!is_external(s)) return;
    do {
        expect_code(s, "rf_lease_ask", rf_lease_ask(s->rig.e, &s->requests[0]), 0);
        rc = rf_lease_resume(s->rig.e, &s->requests[0], 3600000);
    } while (rc == -ESTALE || (rc == -RF_CODE_UNKNOWN && is_impatient(s) && !s->delayed));
    if (rc != 0 && !s->hurt && !s->unsettled) script_fail(s, "rf_lease_resume: %d", rc);
}

static void mend_disk(struct script *s)
{
    fault_clear(s->env);
    fault_release(s->env);
    fault_set_space(s->env, UINT64_MAX);
    s->faulted = s->delayed = s->full = false;
}

/* Whether what needs the disk may fail. */
static bool is_sick(const struct script *s)
{
    return s->hurt || s->delayed || s->unsettled || is_impatient(s);
}

/* Opens with whatever the disk does, and then for certain. */
static void open_engine(struct script *s)
{
    int rc = engine_rig_open(&s->rig);
    if (rc != 0) {
        expect_documented(s, "rf_open", rc);
        if (!s->faulted && !s->full) script_fail(s, "rf_open: %d on a healthy disk", rc);
        mend_disk(s);
        expect_code(s, "rf_open", engine_rig_open(&s->rig), 0);
    }
    s->lapsed = true;
    s->hurt = s->faulted || s->full;
    expect_code(s, "rf_queue_open", rf_queue_open(s->rig.e, &s->queue), 0);
    resume_lease(s);
}

static void close_cursors(struct script *s)
{
    for (uint32_t i = 0; i < CURSORS; i++) {
        rf_scan_close(s->cursors[i].cursor);
        s->cursors[i] = (struct open_cursor){.cursor = NULL};
    }
}

static void completed(struct script *s, const struct rf_completion *c)
{
    struct entry *e = c->user;
    CHECK(e->state == ENTRY_IN_FLIGHT);
    expect_documented(s, "a completion", c->code);
    bool unknown = c->code == -RF_CODE_WAL_ERROR || c->code == -RF_CODE_UNKNOWN;
    e->state = c->code == 0 ? ENTRY_ACKED : unknown ? ENTRY_UNKNOWN : ENTRY_DEAD;
    e->stable = s->rig.o.sync == RF_SYNC_ALWAYS;
    e->wal_error = c->code == -RF_CODE_WAL_ERROR;
    s->unsettled = s->unsettled || unknown;
    s->stale = true;
    if (rf_queue_in_flight(s->queue) == 0) e->end = script_stats(s).position;
}

static void drain(struct script *s)
{
    struct rf_completion c[8];
    if (s->rig.e == NULL) return;
    while (rf_queue_in_flight(s->queue) > 0) {
        int n = rf_completions(s->queue, c, 8, 10000);
        if (n <= 0)
            script_fail(s, "rf_completions: %d with %u in flight", n, rf_queue_in_flight(s->queue));
        for (int i = 0; i < n; i++)
            completed(s, &c[i]);
    }
    uint64_t end = script_stats(s).position;
    for (uint32_t i = 0; i < s->entry_count; i++)
        if (s->entries[i].end == 0) s->entries[i].end = end;
}

/* 0: nothing can be lost any more. */
static int close_engine(struct script *s)
{
    close_cursors(s);
    drain(s);
    rf_queue_close(s->queue);
    s->queue = NULL;
    int rc = engine_rig_close(&s->rig);
    expect_documented(s, "rf_close", rc);
    if (rc != 0 && !is_sick(s)) script_fail(s, "rf_close: %d on a healthy disk", rc);
    return rc;
}

static void step_reopen(struct script *s)
{
    unsigned how = take(s);
    bool was_unsettled = s->unsettled;
    if (s->delayed) mend_disk(s);
    int rc = close_engine(s);
    if (rc == 0 && !was_unsettled) script_all_stable(s);
    if ((how & 1) != 0) mend_disk(s);
    if ((how & 6) == 6 && !s->faulted && engine_rig_verify(&s->rig) == RF_VERDICT_CORRUPT)
        script_fail(s, "rf_verify: corrupt");
    s->rig.o.flags = RF_CREATE;
    if ((how & 24) == 24 && rc == 0 && !s->faulted) s->rig.o.flags = RF_READ_ONLY;
    if ((how & 32) != 0) s->rig.o.sync = (enum rf_sync)(how / 64 % 3);
    open_engine(s);
    script_settle(s);
}

/* What was durable is there, what was not is there or not. */
static void step_power_failure(struct script *s)
{
    unsigned how = take(s);
    uint64_t seed = take(s);
    struct io_env *left;
    if (!s->plain) { /* what several lanes lose is not one order's end */
        drain(s);
        if (rf_flush(s->rig.e) == 0) script_all_stable(s);
    }
    fault_choice *choice = how % 3 == 0   ? fault_choice_drop
                           : how % 3 == 1 ? fault_choice_keep
                                          : fault_choice_seeded;
    const struct fault_options o = {.seed = how & 4, .record = true};
    CHECK(fault_crash(s->env, fault_trace_length(s->env), choice, &seed, &o, &left, NULL) == 0);
    /* Each completion that comes from here on is of the life that is over. */
    struct entry before[ENTRIES_MAX];
    memcpy(before, s->entries, sizeof before);
    bool unsettled = s->unsettled;
    mend_disk(s);
    s->hurt = true;
    (void)close_engine(s);
    memcpy(s->entries, before, sizeof before);
    s->stale = true;
    s->unsettled = unsettled;
    io_env_close(s->env);
    s->env = s->rig.env = left;
    s->rig.o.flags = RF_CREATE;
    open_engine(s);
    script_settle(s);
}

/* ---- writes ---- */

static bool is_read_only(const struct script *s)
{
    return (s->rig.o.flags & RF_READ_ONLY) != 0;
}

static bool makes_columns(struct script *s, const struct rf_tablet *t, uint32_t n)
{
    struct model *m = script_model(s);
    for (uint32_t i = 0; i < n; i++) {
        const char *name = t[i].table != NULL ? t[i].table : t[i].device;
        const struct model_relation *r = model_relation(m, name, t[i].device != NULL);
        if (!r->exists) return true;
        for (uint32_t c = 0; c < t[i].columns; c++)
            if (model_column(r, t[i].column[c].name) == NULL) return true;
    }
    return false;
}

/* Whether the first thing that the batch would have made is there: all of it is, or nothing. */
static bool was_made(struct script *s, const struct rf_tablet *t, uint32_t n)
{
    struct model *m = script_model(s);
    for (uint32_t i = 0; i < n; i++) {
        const char *name = t[i].table != NULL ? t[i].table : t[i].device;
        const struct model_relation *r = model_relation(m, name, t[i].device != NULL);
        struct rf_scan_options o;
        struct rf_tag_filter tag = {.value = "a"};
        const char *column;
        uint64_t rows;
        rf_scan_options_init(&o);
        o.table = t[i].table;
        o.device = t[i].device;
        bool asks = !r->exists;
        for (uint32_t c = 0; c < t[i].columns; c++) {
            if (model_column(r, t[i].column[c].name) != NULL) continue;
            asks = true;
            column = tag.name = t[i].column[c].name;
            if (t[i].column[c].category == RF_FIELD) {
                o.columns = &column;
                o.column_count = 1;
            } else {
                o.tags = &tag;
                o.tag_count = 1;
            }
            break;
        }
        if (!asks) continue;
        int rc = rf_count(s->rig.e, &o, &rows, &s->rig.error);
        if (rc == 0) return true;
        if (rc != -RF_CODE_NO_COLUMN && rc != -RF_CODE_NO_TABLE && rc != -RF_CODE_NO_DATABASE)
            script_fail(s, "rf_count: %d", rc);
        return false;
    }
    return false;
}

/* What a write may answer although the model would take it. */
static bool may_refuse(struct script *s, int rc)
{
    bool sick = s->hurt || s->unsettled;
    switch (-rc) {
    case RF_CODE_WRITE_REJECT: return true; /* waits are short here */
    case RF_CODE_LEASE_FENCED_RETRY: return s->rig.o.lease != RF_LEASE_OFF;
    case RF_CODE_SPANS_REGIONS: return s->rig.o.regions > 1;
    case RF_CODE_WAL_ERROR:
    case RF_CODE_LATCHED: return sick;
    case RF_CODE_DISK_FULL: return sick;
    case RF_CODE_UNKNOWN: return is_sick(s);
    case ENOMEM:
    case EIO: return sick;
    default: return false;
    }
}

static int expected_write(struct script *s, const struct rf_tablet *t, uint32_t n)
{
    if (is_read_only(s)) return -RF_CODE_READ_ONLY;
    if (s->rig.o.auto_create || !makes_columns(s, t, n))
        return model_expect_write(script_model(s), t, n);
    return INT32_MIN; /* by the first that is missing: any refusal that names it */
}

/* A change that nobody waits for any more is through when later ones are answered: the first may be
 * of its transaction, and fails before that is published. */
static void wait_for_plane(struct script *s)
{
    for (int i = 0; i < 3; i++) {
        int rc;
        do {
            rc = rf_table_drop(s->rig.e, "nothing", NULL);
        } while (rc == -RF_CODE_UNKNOWN);
        expect_code(s, "rf_table_drop", rc, -RF_CODE_NO_TABLE);
    }
}

/* A batch that was not taken: its columns may be there nevertheless. */
static void refused(struct script *s, const struct rf_tablet *t, uint32_t n, int rc)
{
    if (rc == -RF_CODE_LEASE_FENCED_RETRY || !makes_columns(s, t, n)) return;
    if (script_stats(s).fenced_now && is_external(s)) return;
    wait_for_plane(s);
    if (!was_made(s, t, n)) return;
    struct entry *e = script_entry(s, ENTRY_DATA, ENTRY_DEAD);
    e->tablets = t;
    e->tablet_count = n;
}

static bool judge_write(struct script *s, const char *call, const struct rf_tablet *t, uint32_t n,
                        int rc)
{
    int want = expected_write(s, t, n);
    expect_documented(s, call, rc);
    if (want == INT32_MIN) {
        if (rc == 0) script_fail(s, "%s made a column that it must not", call);
        return false;
    }
    bool fenced = rc == -RF_CODE_LEASE_FENCED_RETRY && s->rig.o.lease != RF_LEASE_OFF;
    bool good = rc == want || (want == 0 && may_refuse(s, rc)) || (!is_read_only(s) && fenced);
    if (!good) script_fail(s, "%s: %d, not %d", call, rc, want);
    return want == 0;
}

static void step_write(struct script *s)
{
    uint32_t n;
    const struct rf_tablet *t = script_tablets(s, &n);
    uint64_t begin = script_stats(s).position;
    if (s->full && makes_columns(s, t, n)) mend_disk(s);
    int rc = rf_write_batch(s->rig.e, t, n, &s->rig.error);
    if (!judge_write(s, "rf_write_batch", t, n, rc)) return;
    bool unknown = rc == -RF_CODE_WAL_ERROR || rc == -RF_CODE_UNKNOWN;
    if (rc != 0 && !unknown) {
        refused(s, t, n, rc);
        return;
    }
    struct entry *e = script_entry(s, ENTRY_DATA, unknown ? ENTRY_UNKNOWN : ENTRY_ACKED);
    e->tablets = t;
    e->tablet_count = n;
    e->begin = begin;
    e->end = script_stats(s).position;
    e->stable = s->rig.o.sync == RF_SYNC_ALWAYS && !unknown;
    e->wal_error = rc == -RF_CODE_WAL_ERROR;
    s->unsettled = s->unsettled || unknown;
}

static void step_write_async(struct script *s)
{
    uint32_t n;
    const struct rf_tablet *t = script_tablets(s, &n);
    uint64_t begin = script_stats(s).position;
    if (s->full && makes_columns(s, t, n)) mend_disk(s);
    struct entry *slot = &s->entries[s->entry_count];
    int rc = rf_write_async(s->queue, t, n, 0, NULL, slot, &s->rig.error);
    bool taken = judge_write(s, "rf_write_async", t, n, rc);
    if (rc != 0) {
        if (taken) refused(s, t, n, rc);
        return;
    }
    struct entry *e = script_entry(s, ENTRY_DATA, ENTRY_IN_FLIGHT);
    CHECK(e == slot);
    e->tablets = t;
    e->tablet_count = n;
    e->begin = begin;
    e->async = true;
}

static void step_completions(struct script *s)
{
    struct rf_completion c[4];
    unsigned how = take(s);
    uint32_t before = rf_queue_in_flight(s->queue);
    if ((how & 8) != 0 && rf_queue_eventfd(s->queue) < 0) script_fail(s, "rf_queue_eventfd");
    int n = rf_completions(s->queue, c, 1 + how % 4, (how & 16) != 0 && !s->delayed ? 5000 : 0);
    if (n < 0 || (uint32_t)n > before || (uint32_t)n > 1 + how % 4)
        script_fail(s, "rf_completions: %d of %u", n, before);
    if (rf_queue_in_flight(s->queue) != before - (uint32_t)n)
        script_fail(s, "rf_queue_in_flight: %u", rf_queue_in_flight(s->queue));
    for (int i = 0; i < n; i++)
        completed(s, &c[i]);
}

static void step_drain(struct script *s)
{
    if (s->delayed) return;
    drain(s);
    script_compare(s);
}

static void step_delete(struct script *s)
{
    struct script_aim a;
    script_aim(s, &a);
    struct rf_delete_options o;
    rf_delete_options_init(&o);
    o.table = a.tree ? NULL : a.name;
    o.device = a.tree ? a.name : NULL;
    o.time_from = a.from;
    o.time_to = a.to;
    struct rf_tag_filter *tags = arena_take(sizeof a.tags);
    const char **columns = arena_take(sizeof a.columns);
    memcpy(tags, a.tags, sizeof a.tags);
    memcpy(columns, a.columns, sizeof a.columns);
    o.tags = a.tag_count > 0 ? tags : NULL;
    o.tag_count = a.tag_count;
    o.columns = a.column_count > 0 ? columns : NULL;
    o.column_count = a.column_count;
    const struct model_relation *r = model_relation(script_model(s), a.name, a.tree);
    int want = is_read_only(s) ? -RF_CODE_READ_ONLY
               : !r->exists    ? (a.tree ? -RF_CODE_NO_DATABASE : -RF_CODE_NO_TABLE)
               : a.bogus       ? -RF_CODE_NO_COLUMN
                               : 0;
    uint64_t begin = script_stats(s).position;
    int rc = rf_delete(s->rig.e, &o, &s->rig.error);
    expect_documented(s, "rf_delete", rc);
    bool fenced = rc == -RF_CODE_LEASE_FENCED_RETRY && s->rig.o.lease != RF_LEASE_OFF;
    if (rc != want && !(want == 0 && may_refuse(s, rc)) && !(fenced && !is_read_only(s)))
        script_fail(s, "rf_delete: %d, not %d", rc, want);
    bool unknown = rc == -RF_CODE_WAL_ERROR || rc == -RF_CODE_UNKNOWN;
    if (rc != 0 && !unknown) return;
    struct entry *e = script_entry(s, ENTRY_DELETE, unknown ? ENTRY_UNKNOWN : ENTRY_ACKED);
    e->del = o;
    e->begin = begin;
    e->end = script_stats(s).position;
    e->stable = s->rig.o.sync == RF_SYNC_ALWAYS && !unknown;
    e->wal_error = rc == -RF_CODE_WAL_ERROR;
    s->unsettled = s->unsettled || unknown;
}

/* ---- reading ---- */

static void aim_scan(struct script *s, struct script_aim *a, struct rf_scan_options *o)
{
    script_aim(s, a);
    unsigned how = take(s);
    rf_scan_options_init(o);
    o->table = a->tree ? NULL : a->name;
    o->device = a->tree ? a->name : NULL;
    o->tags = a->tag_count > 0 ? a->tags : NULL;
    o->tag_count = a->tag_count;
    o->columns = a->column_count > 0 ? a->columns : NULL;
    o->column_count = a->column_count;
    o->time_from = a->from;
    o->time_to = a->to;
    o->descending = (how & 1) != 0;
    if ((how & 2) != 0) o->limit = how / 4;
}

static int expected_scan(struct script *s, const struct script_aim *a)
{
    const struct model_relation *r = model_relation(script_model(s), a->name, a->tree);
    if (!r->exists) return a->tree ? -RF_CODE_NO_DATABASE : -RF_CODE_NO_TABLE;
    return a->bogus ? -RF_CODE_NO_COLUMN : 0;
}

static void step_scan(struct script *s)
{
    struct script_aim a;
    struct rf_scan_options o;
    struct model_why why = {.text = ""};
    uint64_t rows;
    aim_scan(s, &a, &o);
    int want = expected_scan(s, &a);
    if (script_can_compare(s)) {
        if (want != -RF_CODE_NO_COLUMN && !model_compare_scan(script_model(s), s->rig.e, &o, &why))
            script_fail(s, "%s", why.text);
        if (want != 0) expect_code(s, "rf_count", rf_count(s->rig.e, &o, &rows, NULL), want);
        return;
    }
    int rc = rf_count(s->rig.e, &o, &rows, &s->rig.error);
    expect_documented(s, "rf_count", rc);
    if (is_external(s) && script_stats(s).fenced_now)
        expect_code(s, "rf_count", rc, -RF_CODE_LEASE_FENCED);
}

static void step_cursor_open(struct script *s)
{
    struct script_aim a;
    struct rf_scan_options o;
    struct open_cursor *c = &s->cursors[take(s) % CURSORS];
    aim_scan(s, &a, &o);
    rf_scan_close(c->cursor);
    *c = (struct open_cursor){.rows_expected = UINT64_MAX};
    bool sure = script_can_compare(s);
    uint64_t rows = UINT64_MAX;
    if (sure && rf_count(s->rig.e, &o, &rows, NULL) == 0) c->rows_expected = rows;
    int want = expected_scan(s, &a);
    int rc = rf_scan_open(s->rig.e, &o, &c->cursor, &s->rig.error);
    expect_documented(s, "rf_scan_open", rc);
    if (sure) expect_code(s, "rf_scan_open", rc, want);
    if (rc != 0) c->cursor = NULL;
}

/* Touches every byte that is lent. */
static unsigned touch(const struct rf_tablet *t)
{
    unsigned sum = 0;
    for (uint32_t i = 0; i < t->columns; i++) {
        const struct rf_column *c = &t->column[i];
        size_t bytes = c->values == NULL ? 0
                       : model_type_bytes(c->type) == 0
                           ? c->offsets[t->rows]
                           : (size_t)model_type_bytes(c->type) * t->rows;
        for (size_t k = 0; k < bytes; k++)
            sum += ((const uint8_t *)c->values)[k];
        sum += (unsigned)strlen(c->name);
    }
    return sum;
}

static void step_cursor_next(struct script *s)
{
    struct open_cursor *c = &s->cursors[take(s) % CURSORS];
    struct rf_tablet t;
    if (c->cursor == NULL) return;
    int rc = rf_scan_next(c->cursor, &t);
    if (rc == 1) {
        if (c->ended != 0) script_fail(s, "rf_scan_next: rows behind the end");
        if (t.rows == 0) script_fail(s, "rf_scan_next: a chunk without rows");
        if (touch(&t) == UINT32_MAX) return; /* of no meaning: it is there to be computed */
        c->rows += t.rows;
        return;
    }
    if (rc != 0 && rc != -RF_CODE_LEASE_FENCED && rc != -RF_CODE_SCHEMA_CHANGED)
        script_fail(s, "rf_scan_next: %d", rc);
    if (c->ended < 0) expect_code(s, "rf_scan_next again", rc, c->ended);
    if (rc == 0 && c->ended == 0 && c->rows_expected != UINT64_MAX && c->rows != c->rows_expected)
        script_fail(s, "a scan of %llu rows found %llu", (unsigned long long)c->rows_expected,
                    (unsigned long long)c->rows);
    if (c->ended == 0) c->ended = rc == 0 ? 1 : rc;
}

static void step_cursor_close(struct script *s)
{
    struct open_cursor *c = &s->cursors[take(s) % CURSORS];
    rf_scan_close(c->cursor);
    *c = (struct open_cursor){.cursor = NULL};
}

static void step_tables(struct script *s)
{
    struct model_why why = {.text = ""};
    if (script_stats(s).fenced_now || (s->rig.o.lease == RF_LEASE_EMBEDDED && s->lapsed)) return;
    if (!model_compare_tables(script_model(s), s->rig.e, &why)) script_fail(s, "%s", why.text);
}

/* An allocation fails while the engine reads. */
static void step_no_memory(struct script *s)
{
    struct script_aim a;
    struct rf_scan_options o;
    uint64_t rows;
    aim_scan(s, &a, &o);
    alloc_fail_at(1 + take(s) % 16);
    int rc = rf_count(s->rig.e, &o, &rows, &s->rig.error);
    alloc_fail_at(0);
    expect_documented(s, "rf_count without memory", rc);
}

/* ---- changes ---- */

/* Whether the journal takes it. A change whose wait ran out may come yet: the script ends. */
static bool judge_change(struct script *s, const char *call, int rc, int want)
{
    if (is_read_only(s)) want = -RF_CODE_READ_ONLY;
    if (rc == -RF_CODE_UNKNOWN && is_impatient(s)) {
        s->at = s->end;
        s->gave_up = true;
        return false;
    }
    expect_code(s, call, rc, want);
    return rc == 0;
}

static void change_table(struct script *s, bool create)
{
    bool tree;
    const char *table = script_relation(take(s) % 2, &tree);
    const struct rf_column_def *defs;
    uint32_t n = script_defs(s, &defs);
    const struct model_relation *r = model_relation(script_model(s), table, false);
    int want = r->exists == create ? (create ? -RF_CODE_TABLE_EXISTS : -RF_CODE_NO_TABLE) : 0;
    for (uint32_t i = 0; i < n && want == 0; i++)
        if (!create && model_column(r, defs[i].name) != NULL) want = -RF_CODE_COLUMN_EXISTS;
    int rc = create ? rf_table_create(s->rig.e, table, defs, n, 0, &s->rig.error)
                    : rf_table_add_columns(s->rig.e, table, defs, n, &s->rig.error);
    if (!judge_change(s, create ? "rf_table_create" : "rf_table_add_columns", rc, want)) return;
    struct entry *e = script_entry(s, create ? ENTRY_CREATE_TABLE : ENTRY_ADD_COLUMNS, ENTRY_ACKED);
    *e = (struct entry){.kind = e->kind,
                        .state = ENTRY_ACKED,
                        .stable = true,
                        .table = table,
                        .defs = defs,
                        .def_count = n,
                        .end = 1};
}

/* A field's name, or one of a tag, for what only fields may be asked. */
static const char *some_column(unsigned byte)
{
    return byte % 5 == 4 ? script_tags[0] : script_fields[byte % 5];
}

static void change_drop_column(struct script *s)
{
    bool tree;
    const char *table = script_relation(take(s) % 2, &tree), *name = some_column(take(s));
    const struct model_relation *r = model_relation(script_model(s), table, false);
    const struct model_column *c = model_column(r, name);
    int want = !r->exists              ? -RF_CODE_NO_TABLE
               : c == NULL             ? -RF_CODE_NO_COLUMN
               : c->category == RF_TAG ? -RF_CODE_SEMANTIC_ERROR
                                       : 0;
    int rc = rf_table_drop_column(s->rig.e, table, name, &s->rig.error);
    if (!judge_change(s, "rf_table_drop_column", rc, want)) return;
    struct entry *e = script_entry(s, ENTRY_DROP_COLUMN, ENTRY_ACKED);
    e->table = table;
    e->name = name;
    e->stable = true;
}

static void change_rename(struct script *s)
{
    bool tree;
    const char *table = script_relation(take(s) % 2, &tree);
    const char *from = some_column(take(s)), *to = script_fields[take(s) % 4];
    const struct model_relation *r = model_relation(script_model(s), table, false);
    const struct model_column *c = model_column(r, from);
    if (c != NULL && c->category == RF_TAG) to = script_tags[1]; /* keeps the two pools apart */
    bool taken = strcmp(from, to) != 0 && model_column(r, to) != NULL;
    int want = !r->exists  ? -RF_CODE_NO_TABLE
               : c == NULL ? -RF_CODE_NO_COLUMN
               : taken     ? -RF_CODE_COLUMN_EXISTS
                           : 0;
    int rc = rf_table_rename_column(s->rig.e, table, from, to, &s->rig.error);
    if (!judge_change(s, "rf_table_rename_column", rc, want)) return;
    struct entry *e = script_entry(s, ENTRY_RENAME_COLUMN, ENTRY_ACKED);
    e->table = table;
    e->name = from;
    e->to = to;
    e->stable = true;
}

/* A table's or a database's name. */
static const char *some_table(struct script *s, bool *there)
{
    static const char *const names[] = {"cpu", "mem", "root.ln", "root.sg"};
    static const char *const relations[] = {"cpu", "mem", "root.ln.d0", "root.sg.d0"};
    unsigned i = take(s) % 4;
    *there = model_relation(script_model(s), relations[i], i >= 2)->exists;
    return names[i];
}

static void change_drop_table(struct script *s)
{
    bool there;
    const char *table = some_table(s, &there);
    int rc = rf_table_drop(s->rig.e, table, &s->rig.error);
    if (!judge_change(s, "rf_table_drop", rc, there ? 0 : -RF_CODE_NO_TABLE)) return;
    struct entry *e = script_entry(s, ENTRY_DROP_TABLE, ENTRY_ACKED);
    e->table = table;
    e->stable = true;
}

static void change_ttl(struct script *s)
{
    static const int64_t ttls[] = {0, -5, INT64_MAX, WALL_NS, WALL_NS + 1000, 1000000000};
    bool there;
    const char *table = some_table(s, &there);
    int64_t ttl = ttls[take(s) % 6];
    int rc = rf_table_set_ttl(s->rig.e, table, ttl, &s->rig.error);
    if (!judge_change(s, "rf_table_set_ttl", rc, there ? 0 : -RF_CODE_NO_TABLE)) return;
    struct entry *e = script_entry(s, ENTRY_SET_TTL, ENTRY_ACKED);
    e->table = table;
    e->ttl = ttl;
    e->stable = true;
}

static void change_series(struct script *s, bool drop)
{
    static const enum rf_type types[] = {RF_BOOLEAN, RF_INT32, RF_DOUBLE, RF_STRING};
    bool tree;
    const char *device = script_relation(2 + take(s) % 3, &tree);
    unsigned pick = take(s);
    const char *name = script_fields[pick % 4];
    enum rf_type type = types[pick / 4 % 4];
    const struct model_relation *r = model_relation(script_model(s), device, true);
    bool there = model_column(r, name) != NULL;
    int want = drop ? (!r->exists ? -RF_CODE_NO_TABLE
                       : there    ? 0
                                  : -RF_CODE_NO_COLUMN)
                    : (there ? -RF_CODE_COLUMN_EXISTS : 0);
    int rc = drop ? rf_series_drop(s->rig.e, device, name, &s->rig.error)
                  : rf_series_create(s->rig.e, device, name, type, &s->rig.error);
    if (!judge_change(s, drop ? "rf_series_drop" : "rf_series_create", rc, want)) return;
    struct entry *e = script_entry(s, drop ? ENTRY_DROP_COLUMN : ENTRY_CREATE_SERIES, ENTRY_ACKED);
    e->table = device;
    e->name = name;
    e->type = type;
    e->stable = true;
}

static void step_change(struct script *s)
{
    if (s->delayed || s->full) mend_disk(s); /* the catalog is on the same disk */
    switch (take(s) % 8) {
    case 0: change_table(s, true); break;
    case 1: change_table(s, false); break;
    case 2: change_drop_column(s); break;
    case 3: change_rename(s); break;
    case 4: change_drop_table(s); break;
    case 5: change_ttl(s); break;
    case 6: change_series(s, false); break;
    default: change_series(s, true); break;
    }
}

/* ---- the lease ---- */

static void step_fence(struct script *s)
{
    int rc = rf_lease_fence(s->rig.e);
    expect_documented(s, "rf_lease_fence", rc);
    bool off = s->rig.o.lease == RF_LEASE_OFF || is_read_only(s);
    if (off)
        expect_code(s, "rf_lease_fence", rc, -EINVAL);
    else if (rc != 0 && !is_sick(s))
        script_fail(s, "rf_lease_fence: %d on a healthy disk", rc);
    if (rc == 0 && is_external(s) && !script_stats(s).fenced_now)
        script_fail(s, "not fenced after rf_lease_fence");
    s->lapsed = true;
}

static void step_lease(struct script *s)
{
    static const int64_t ttls[] = {0, -1, 1, 1000, 3600000, INT64_MAX};
    unsigned what = take(s), arg = take(s);
    struct rf_lease_request *r = &s->requests[arg % REQUESTS];
    int64_t ttl = ttls[arg / REQUESTS % 6];
    int rc = 0;
    switch (what % 4) {
    case 0: rc = rf_lease_ask(s->rig.e, r); break;
    case 1: rc = rf_lease_grant(s->rig.e, r, ttl); break;
    case 2: rc = rf_lease_resume(s->rig.e, r, ttl); break;
    default:
        if (s->rig.o.lease == RF_LEASE_EXTERNAL && !s->delayed) resume_lease(s);
        return;
    }
    expect_documented(s, "a lease call", rc);
    if (!is_external(s)) expect_code(s, "a lease call", rc, -EINVAL);
    bool grants = what % 4 != 0;
    if (grants && rc == 0 && (ttl <= 0 || ttl == INT64_MAX))
        script_fail(s, "granted for %lld ms", (long long)ttl);
}

static void step_clock(struct script *s)
{
    static const int64_t by[] = {1, 1000000, INT64_C(5000000000), INT64_C(7200000000000)};
    unsigned how = take(s);
    /* A fixed offset between them would do; they go together, as a machine's do. */
    for (int i = 0; i < 3; i++)
        s->now_ns[i] += by[how % 4];
    s->lapsed = true;
    for (uint32_t i = 0; i < CURSORS; i++) /* a TTL may hide more or less */
        s->cursors[i].rows_expected = UINT64_MAX;
}

/* ---- upkeep ---- */

static void step_flush(struct script *s)
{
    int rc = rf_flush(s->rig.e);
    expect_documented(s, "rf_flush", rc);
    if (rc != 0 && !is_sick(s)) script_fail(s, "rf_flush: %d on a healthy disk", rc);
    if (rc != 0) return;
    if (rf_queue_in_flight(s->queue) == 0 && !s->unsettled) script_all_stable(s);
    struct rf_stats stats = script_stats(s);
    if (rf_queue_in_flight(s->queue) == 0 && stats.durable_position < stats.position)
        script_fail(s, "rf_flush left something that is not durable");
}

/* What is durable and unanswered is decided a moment later. */
static void wait_decided(struct script *s)
{
    const struct timespec nap = {.tv_nsec = 100000};
    for (int naps = 0; naps < 20000; naps++) {
        struct rf_stats stats = script_stats(s);
        if (stats.position >= stats.durable_position) return;
        nanosleep(&nap, NULL);
    }
}

static void step_resume(struct script *s)
{
    if ((take(s) & 1) != 0) mend_disk(s);
    if (s->delayed) return;
    bool latched = script_stats(s).latched;
    int rc = rf_resume(s->rig.e, &s->rig.error);
    expect_documented(s, "rf_resume", rc);
    if (rc != 0 && !s->faulted && !s->full && !is_impatient(s))
        script_fail(s, "rf_resume: %d on a healthy disk", rc);
    if (rc != 0) return;
    s->hurt = s->faulted || s->full;
    drain(s);
    for (uint32_t i = 0; i < s->entry_count && latched; i++)
        if (s->entries[i].state == ENTRY_UNKNOWN && s->entries[i].wal_error)
            s->entries[i].state = ENTRY_DEAD;
    resume_lease(s);
    if (rf_flush(s->rig.e) != 0) return;
    wait_decided(s);
    script_settle(s);
}

static void step_trim(struct script *s)
{
    unsigned how = take(s);
    struct rf_trim_options o;
    struct rf_stats stats;
    uint64_t reached = 0;
    if (!s->plain || s->delayed || s->unsettled) return;
    drain(s);
    if (s->unsettled) return;
    const uint64_t segment = s->rig.o.segment_bytes;
    for (uint32_t i = 0; i < s->entry_count; i++) { /* in which segment it lies is not told */
        const struct entry *e = &s->entries[i];
        if (e->async && e->begin / segment != e->end / segment) return;
    }
    stats = script_stats(s);
    rf_trim_options_init(&o);
    if ((how & 1) != 0) o.before_position = (how & 2) != 0 ? UINT64_MAX : stats.position;
    o.by_time = (how & 4) != 0;
    o.before_time = how >= 128 ? INT64_MAX : (int64_t)how;
    int rc = rf_trim(s->rig.e, &o, &reached);
    expect_documented(s, "rf_trim", rc);
    if (is_read_only(s)) expect_code(s, "rf_trim", rc, -RF_CODE_READ_ONLY);
    if ((how & 5) == 0 && rc == 0) script_fail(s, "rf_trim by nothing");
    if (script_stats(s).oldest_position > stats.oldest_position) s->stale = true;
    reached = script_stats(s).oldest_position / segment * segment;
    for (uint32_t i = 0; i < s->entry_count; i++) {
        struct entry *e = &s->entries[i];
        bool logged = e->kind == ENTRY_DATA || e->kind == ENTRY_DELETE;
        if (logged && e->state == ENTRY_ACKED && e->end <= reached + 4096) e->state = ENTRY_DEAD;
    }
    script_compare(s);
}

static void step_stats(struct script *s)
{
    struct rf_stats stats = {.size = take(s) % (sizeof stats + 1)};
    int rc = rf_stats(s->rig.e, &stats);
    expect_code(s, "rf_stats", rc, stats.size < sizeof(size_t) ? -EINVAL : 0);
    stats = script_stats(s);
    if (stats.durable_position < stats.oldest_position || stats.position < stats.oldest_position)
        script_fail(s, "rf_stats: positions out of order");
    if (stats.segments * stats.segment_bytes != stats.log_bytes) script_fail(s, "rf_stats: bytes");
}

/* ---- a disk that fails ---- */

static void step_fault(struct script *s)
{
    static const struct fault_rule rules[] = {
        {.targets = FAULT_ON_WRITE, .path = "lane-", .times = 1, .error = EIO},
        {.targets = FAULT_ON_SYNC, .path = "lane-", .times = 1, .error = EIO},
        {.targets = FAULT_ON_WRITE, .path = "lane-", .times = 3, .error = ENOSPC},
        {.kind = FAULT_SHORT,
         .targets = FAULT_ON_WRITE,
         .path = "lane-",
         .times = 2,
         .short_bytes = 512},
        {.targets = FAULT_ON_OPEN | FAULT_ON_NAME | FAULT_ON_SIZE,
         .path = "lane-",
         .times = 1,
         .error = EIO},
        {.targets = FAULT_ON_ANY, .path = "manifest", .times = 2, .error = EIO},
        {.targets = FAULT_ON_READ, .path = "lane-", .times = 1, .error = EIO},
        {.targets = FAULT_ON_ANY, .path = "lane-", .times = 1, .error = EIO},
    };
    unsigned how = take(s);
    if (!s->plain) return;
    struct fault_rule rule = rules[how % 8];
    rule.skip = how / 8 % 8;
    if (fault_add(s->env, &rule) == 0) s->faulted = s->hurt = true;
}

static void step_disk(struct script *s)
{
    unsigned how = take(s);
    if (how % 4 == 0 || !s->plain) {
        mend_disk(s);
    } else if (how % 4 == 1) {
        fault_set_space(s->env, UINT64_C(65536) * (how / 4));
        s->full = s->hurt = true;
    } else if (is_impatient(s)) {
        const struct fault_rule rule = {
            .kind = FAULT_DELAY, .targets = FAULT_ON_WRITE, .path = "lane-", .times = UINT64_MAX};
        if (fault_add(s->env, &rule) == 0) s->delayed = true;
    }
}

/* ---- callers that count wrong ---- */

static int bad_tablet(struct script *s, unsigned what)
{
    static const int64_t times[2] = {1, 2};
    static const uint32_t falling[3] = {0, 2, 1};
    static const uint8_t two[2] = {2, 0};
    struct rf_column c[2] = {
        {.name = "f0", .type = RF_INT64, .category = RF_FIELD, .values = times},
        {.name = "f1", .type = RF_INT64, .category = RF_FIELD, .values = times}};
    struct rf_tablet t = {
        .size = sizeof t, .table = "bad", .rows = 2, .columns = 2, .times = times, .column = c};
    switch (what % 16) {
    case 0: t.rows = 0; break;
    case 1: t.device = "root.bad.d"; break;
    case 2: t.table = NULL; break;
    case 3: c[1].name = "f0"; break;
    case 4:
        c[1].type = RF_TEXT;
        c[1].values = "ab";
        c[1].offsets = falling;
        break;
    case 5: c[1].name = "a\nb"; break;
    case 6: c[1].name = ""; break;
    case 7: c[1].name = NULL; break;
    case 8: c[1].name = "\xc3("; break;
    case 9: c[0].type = (enum rf_type)99; break;
    case 10: c[0].category = RF_TAG; break;
    case 11: t.times = NULL; break;
    case 12: t.size = 1; break;
    case 13: t.column = NULL; break;
    case 14:
        c[0].type = RF_BOOLEAN;
        c[0].values = two;
        break;
    default: t.rows = (1u << 24) + 1; break;
    }
    return what >= 128 ? rf_write_async(s->queue, &t, 1, 0, NULL, NULL, &s->rig.error)
                       : rf_write(s->rig.e, &t, &s->rig.error);
}

static int bad_other(struct script *s, unsigned what)
{
    static const struct rf_column_def twice[2] = {{"a", RF_INT32, RF_FIELD},
                                                  {"a", RF_INT32, RF_FIELD}};
    static const struct rf_column_def tag = {"a", RF_INT32, RF_TAG};
    struct rf_engine *e = s->rig.e;
    struct rf_error *error = &s->rig.error;
    struct rf_scan_options o;
    struct rf_delete_options d;
    struct rf_trim_options t;
    uint64_t rows;
    rf_scan_options_init(&o);
    rf_delete_options_init(&d);
    rf_trim_options_init(&t);
    switch (what % 14) {
    case 0: return rf_write_batch(e, NULL, 0, error);
    case 1: return rf_count(e, &o, &rows, error);
    case 2: return o.size = 0, o.table = "cpu", rf_count(e, &o, &rows, error);
    case 3: return o.tag_count = 1, o.table = "cpu", rf_count(e, &o, &rows, error);
    case 4: return o.table = "cpu", o.device = "root.ln.d0", rf_count(e, &o, &rows, error);
    case 5: return d.table = "cpu", d.column_count = 3, rf_delete(e, &d, error);
    case 6: return rf_delete(e, &d, error);
    case 7: return rf_trim(e, &t, NULL);
    case 8: return rf_table_create(e, "bad", twice, 2, 0, error);
    case 9: return rf_table_create(e, "", NULL, 0, 0, error);
    case 10: return rf_table_create(e, "bad", &tag, 1, 0, error);
    case 11: return rf_series_create(e, "cpu", "f0", RF_INT32, error);
    case 12: return rf_series_create(e, "root.ln.d0", "f0", (enum rf_type)77, error);
    default: return rf_table_add_columns(e, "bad", NULL, 2, error);
    }
}

static void step_bad(struct script *s)
{
    unsigned what = take(s);
    rf_scan_close(NULL);
    rf_queue_close(NULL);
    int rc = what % 2 == 0 ? bad_tablet(s, what / 2) : bad_other(s, what / 2);
    expect_documented(s, "a bad call", rc);
    if (rc == 0) script_fail(s, "a bad call, number %u, passed", what);
}

/* ---- a script ---- */

static void (*const steps[])(struct script *s) = {
    step_write,       step_write,       step_write,       step_write_async,  step_write_async,
    step_delete,      step_completions, step_drain,       step_scan,         step_scan,
    step_cursor_open, step_cursor_next, step_cursor_next, step_cursor_close, step_tables,
    step_change,      step_change,      step_fence,       step_lease,        step_clock,
    step_flush,       step_trim,        step_stats,       step_reopen,       step_power_failure,
    step_fault,       step_resume,      step_disk,        step_no_memory,    step_bad,
};

static void begin(struct script *s)
{
    unsigned how = take(s), lease = take(s);
    struct rf_options *o = &s->rig.o;
    const struct fault_options fo = {.seed = how & 1, .fua = (how & 2) != 0, .record = true};
    CHECK(fault_env_open(&fo, &s->env) == 0);
    engine_rig_init(&s->rig, s->env);
    for (int i = 0; i < 3; i++)
        s->now_ns[i] = WALL_NS;
    s->clock.test_ns = s->now_ns;
    s->rig.clock = &s->clock;
    o->sync = (enum rf_sync)(how / 4 % 4 % 3);
    o->lanes = (how & 48) == 48 ? 2 : 1;
    o->regions = (how & 48) == 48 ? 2 + (how >> 6) : 1;
    o->memory_bytes *= o->lanes;
    o->queue_depth = 1 + how / 64;
    o->partition_interval = 1000;
    o->lease = (enum rf_lease_mode)(lease % 3);
    o->auto_create = (lease & 4) == 0 || (lease & 8) == 0;
    o->stages = (lease & 16) != 0;
    o->write_wait_ms = 1;
    o->durable_wait_ms = (lease & 96) == 96 ? 15 : 20000;
    s->plain = o->lanes == 1 && o->regions == 1;
    s->stale = true;
    open_engine(s);
}

static void end(struct script *s)
{
    mend_disk(s);
    bool was_unsettled = s->unsettled;
    int rc = close_engine(s);
    if (rc == 0 && !was_unsettled) script_all_stable(s);
    if (!s->gave_up) {
        s->rig.o.flags = RF_CREATE;
        s->rig.o.durable_wait_ms = 20000;
        open_engine(s);
        script_settle(s);
        CHECK(close_engine(s) == 0);
    }
    io_env_close(s->env);
    if (s->model != NULL) model_destroy(s->model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct script s;
    int64_t in_use = alloc_bytes_in_use(), mapped = alloc_mapped_bytes();
    memset(&s, 0, sizeof s);
    arena_reset();
    s.at = data;
    s.end = data + bytes;
    begin(&s);
    for (uint32_t n = 0; n < STEPS_MAX && s.at < s.end && !arena_is_low(); n++)
        steps[take(&s) % (sizeof steps / sizeof steps[0])](&s);
    end(&s);
    CHECK(alloc_bytes_in_use() == in_use);
    CHECK(alloc_mapped_bytes() == mapped);
    return 0;
}
