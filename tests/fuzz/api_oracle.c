/* What has to come of a script: the journal of what it did, the reference model made from it, and
 * the comparison with the engine. */
#include "tests/fuzz/api_script.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void script_fail(const struct script *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "fuzz_api: ");
    vfprintf(stderr, fmt, args);
    fprintf(stderr, " (last error: %d %s; %zu bytes of the script left)\n", s->rig.error.code,
            s->rig.error.text, (size_t)(s->end - s->at));
    va_end(args);
    abort();
}

/* ---- codes ---- */

void expect_code(const struct script *s, const char *call, int rc, int want)
{
    if (rc != want) script_fail(s, "%s: %d, not %d", call, rc, want);
}

void expect_documented(const struct script *s, const char *call, int rc)
{
    static const int codes[] = {
        0,
        RF_CODE_NO_DATABASE,
        RF_CODE_METADATA_ERROR,
        RF_CODE_LEASE_FENCED,
        RF_CODE_LEASE_FENCED_RETRY,
        RF_CODE_NO_TABLE,
        RF_CODE_TABLE_EXISTS,
        RF_CODE_READ_ONLY,
        RF_CODE_WRITE_REJECT,
        RF_CODE_OUT_OF_TTL,
        RF_CODE_WAL_ERROR,
        RF_CODE_DISK_FULL,
        RF_CODE_TYPE_MISMATCH,
        RF_CODE_NO_COLUMN,
        RF_CODE_COLUMN_EXISTS,
        RF_CODE_ENTRY_TOO_LARGE,
        RF_CODE_SEMANTIC_ERROR,
        RF_CODE_UNKNOWN,
        RF_CODE_SCHEMA_CHANGED,
        RF_CODE_BAD_NAME,
        RF_CODE_BAD_TABLET,
        RF_CODE_LIMIT,
        RF_CODE_SPANS_REGIONS,
        RF_CODE_LATCHED,
        EINVAL,
        ESTALE,
        ETIMEDOUT,
        ENOMEM,
        ENOSPC,
        EIO,
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (rc == -codes[i]) return;
    script_fail(s, "%s: %d is no code of its own", call, rc);
}

/* ---- the journal ---- */

struct entry *script_entry(struct script *s, enum entry_kind kind, enum entry_state state)
{
    if (s->entry_count == ENTRIES_MAX) abort(); /* a step makes three at most */
    struct entry *e = &s->entries[s->entry_count++];
    *e = (struct entry){.kind = kind, .state = state};
    s->stale = true;
    return e;
}

/* Of a batch without fate nothing but its columns. */
static void apply_data(struct model *m, const struct entry *e)
{
    struct rf_tablet t[8];
    bool there = e->state == ENTRY_ACKED;
    for (uint32_t i = 0; i < e->tablet_count; i++) {
        t[i] = e->tablets[i];
        if (!there) t[i].rows = 0;
    }
    model_write(m, t, e->tablet_count, e->begin);
}

static void apply(struct model *m, const struct entry *e)
{
    switch (e->kind) {
    case ENTRY_DATA: apply_data(m, e); break;
    case ENTRY_DELETE:
        if (e->state == ENTRY_ACKED) model_delete(m, &e->del);
        break;
    case ENTRY_CREATE_TABLE:
        model_create_table(m, e->table, e->defs, e->def_count, e->ttl, 0);
        break;
    case ENTRY_ADD_COLUMNS: model_add_columns(m, e->table, e->defs, e->def_count); break;
    case ENTRY_DROP_COLUMN: model_drop_column(m, e->table, e->name); break;
    case ENTRY_RENAME_COLUMN: model_rename_column(m, e->table, e->name, e->to); break;
    case ENTRY_DROP_TABLE: model_drop_table(m, e->table); break;
    case ENTRY_SET_TTL: model_set_ttl(m, e->table, e->ttl); break;
    case ENTRY_CREATE_SERIES: model_create_series(m, e->table, e->name, e->type, 0); break;
    }
}

struct model *script_model(struct script *s)
{
    if (!s->stale) {
        s->model->now = s->now_ns[2];
        return s->model;
    }
    if (s->model != NULL) model_destroy(s->model);
    s->model = model_create();
    s->model->now = s->now_ns[2];
    for (unsigned i = 0; i < 5; i++) { /* each has its place, so that pointers stay good */
        bool tree;
        const char *name = script_relation(i, &tree);
        (void)model_relation(s->model, name, tree);
    }
    for (uint32_t i = 0; i < s->entry_count; i++)
        apply(s->model, &s->entries[i]);
    s->stale = false;
    return s->model;
}

void script_all_stable(struct script *s)
{
    for (uint32_t i = 0; i < s->entry_count; i++)
        if (s->entries[i].state == ENTRY_ACKED) s->entries[i].stable = true;
}

/* ---- comparing ---- */

struct rf_stats script_stats(struct script *s)
{
    struct rf_stats stats = {.size = sizeof stats};
    expect_code(s, "rf_stats", rf_stats(s->rig.e, &stats), 0);
    return stats;
}

/* An embedded lease comes back by itself. */
static void wait_live(struct script *s)
{
    const struct timespec nap = {.tv_nsec = 200000};
    for (int i = 0; i < 50000; i++) {
        if (!script_stats(s).fenced_now) {
            s->lapsed = false;
            return;
        }
        nanosleep(&nap, NULL);
    }
    script_fail(s, "an embedded lease did not come back");
}

bool script_can_compare(struct script *s)
{
    if (s->rig.e == NULL || s->unsettled) return false;
    if (s->queue != NULL && rf_queue_in_flight(s->queue) != 0) return false;
    if (s->rig.o.lease == RF_LEASE_EMBEDDED && s->lapsed) wait_live(s);
    return !script_stats(s).fenced_now;
}

void script_compare(struct script *s)
{
    struct model_why why = {.text = ""};
    if (!script_can_compare(s)) return;
    if (!model_compare_all(script_model(s), s->rig.e, &why)) script_fail(s, "%s", why.text);
}

static bool is_open_question(const struct entry *e)
{
    return e->state == ENTRY_UNKNOWN || e->state == ENTRY_IN_FLIGHT ||
           (e->state == ENTRY_ACKED && !e->stable);
}

/* What is lost is the end of one order: tries every place for it, the longest first. */
void script_settle(struct script *s)
{
    struct model_why why = {.text = ""};
    uint32_t open[ENTRIES_MAX], n = 0;
    for (uint32_t i = 0; i < s->entry_count; i++) {
        if (!is_open_question(&s->entries[i])) continue;
        open[n++] = i;
        s->entries[i].state = ENTRY_ACKED;
    }
    for (s->unsettled = false;; n--) {
        s->stale = true;
        if (!script_can_compare(s)) script_fail(s, "fenced while comparing");
        if (model_compare_all(script_model(s), s->rig.e, &why)) break;
        if (n == 0) script_fail(s, "nothing that may have been lost explains it: %s", why.text);
        s->entries[open[n - 1]].state = ENTRY_DEAD;
    }
    script_all_stable(s);
}
