#include "tests/lib/plane_rig.h"

#include "base/alloc.h"

#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static bool view_is_closed(void *ctx, uint64_t view)
{
    struct plane_rig *rig = ctx;
    atomic_store(&rig->asked_view, view);
    atomic_fetch_add(&rig->asked_count, 1);
    return !atomic_load(&rig->open_views);
}

static void count_event(void *ctx, int level, const char *event, const char *fields)
{
    struct plane_rig *rig = ctx;
    (void)level;
    (void)fields;
    if (strcmp(event, "plane.fenced") == 0) atomic_fetch_add(&rig->log_fenced, 1);
    if (strcmp(event, "plane.late_failure") == 0) atomic_fetch_add(&rig->log_late, 1);
}

struct plane_rig *plane_rig_create(void)
{
    struct plane_rig *rig = mem_alloc_aligned(RF_CACHE_LINE, sizeof *rig);
    assert_non_null(rig);
    memset(rig, 0, sizeof *rig);
    tempdir_make(rig->dir);
    snprintf(rig->path, sizeof rig->path, "%s/catalog.db", rig->dir);
    rig->log = (struct log){.level = LOG_LEVEL_INFO, .callback = count_event, .ctx = rig};
    rig->o = (struct plane_options){
        .catalog_path = rig->path,
        .create = true,
        .uuid = {1, 2, 3, 0xab},
        .generation = 5,
        .lease = PLANE_LEASE_EMBEDDED,
        .lease_ns = 20000000000,
        .commit_wait_ns = 10000000000,
        .clock = &rig->clock,
        .log = &rig->log,
        .words = &rig->words,
        .view_is_closed = view_is_closed,
        .ctx = rig,
    };
    return rig;
}

int plane_rig_try_open(struct plane_rig *rig, struct err_msg *msg)
{
    assert_null(rig->plane);
    assert_int_equal(schema_create(&rig->schema), 0);
    rig->o.schema = rig->schema;
    int rc = plane_open(&rig->o, &rig->plane, msg);
    if (rc != 0) {
        assert_null(rig->plane);
        schema_destroy(rig->schema);
        rig->schema = NULL;
    }
    return rc;
}

void plane_rig_open(struct plane_rig *rig)
{
    struct err_msg msg = {0};
    int rc = plane_rig_try_open(rig, &msg);
    if (rc != 0) fail_msg("plane_open: %s: %s", err_name(rc), msg.text);
}

void plane_rig_close(struct plane_rig *rig)
{
    plane_close(rig->plane);
    schema_destroy(rig->schema);
    rig->plane = NULL;
    rig->schema = NULL;
}

void plane_rig_destroy(struct plane_rig *rig)
{
    if (rig->plane != NULL) plane_rig_close(rig);
    tempdir_remove(rig->dir);
    mem_free(rig);
}

uint64_t rig_view(struct plane_rig *rig)
{
    return atomic_load_explicit(&rig->words.view, memory_order_acquire);
}
uint64_t rig_version(struct plane_rig *rig)
{
    return view_version(rig_view(rig));
}
bool rig_is_live(struct plane_rig *rig)
{
    return lease_look(&rig->words, &rig->clock).live;
}

/* ---- changes ---- */

static int change(struct plane_rig *rig, const struct plane_change *c)
{
    struct err_msg msg = {0};
    int rc = plane_change(rig->plane, c, 1, -1, &msg);
    assert_int_equal(msg.code, rc);
    assert_true((rc == 0) == (msg.text[0] == '\0')); /* a failure says why */
    return rc;
}

static struct plane_change about(enum plane_change_kind kind, const char *table)
{
    return (struct plane_change){.kind = kind, .table = table, .table_bytes = strlen(table)};
}

int rig_create_table(struct plane_rig *rig, const char *table)
{
    struct plane_change c = about(PLANE_CREATE_TABLE, table);
    return change(rig, &c);
}

int rig_add_column_of(struct plane_rig *rig, const char *table, const char *column, int type,
                      int category, bool if_missing)
{
    struct plane_change c = about(PLANE_ADD_COLUMNS, table);
    struct plane_column col = {column, strlen(column), (uint8_t)type, (uint8_t)category};
    c.columns = &col;
    c.column_count = 1;
    c.if_missing = if_missing;
    return change(rig, &c);
}

int rig_add_column(struct plane_rig *rig, const char *table, const char *column)
{
    return rig_add_column_of(rig, table, column, SCHEMA_DOUBLE, SCHEMA_FIELD, false);
}

int rig_drop_column(struct plane_rig *rig, const char *table, const char *column)
{
    struct plane_change c = about(PLANE_DROP_COLUMN, table);
    c.column = column;
    c.column_bytes = strlen(column);
    return change(rig, &c);
}

int rig_rename_column(struct plane_rig *rig, const char *table, const char *from, const char *to)
{
    struct plane_change c = about(PLANE_RENAME_COLUMN, table);
    c.column = from;
    c.column_bytes = strlen(from);
    c.to = to;
    c.to_bytes = strlen(to);
    return change(rig, &c);
}

int rig_set_ttl(struct plane_rig *rig, const char *table, int64_t ttl)
{
    struct plane_change c = about(PLANE_SET_TTL, table);
    c.ttl = ttl;
    return change(rig, &c);
}

int rig_drop_table(struct plane_rig *rig, const char *table)
{
    struct plane_change c = about(PLANE_DROP_TABLE, table);
    return change(rig, &c);
}

int rig_create_series(struct plane_rig *rig, const char *database, const char *key,
                      const char *measurement, int type, bool if_missing)
{
    struct plane_change c = about(PLANE_CREATE_SERIES, database);
    struct plane_column col = {measurement, strlen(measurement), (uint8_t)type, SCHEMA_FIELD};
    c.tree = true;
    c.key = key;
    c.key_bytes = strlen(key);
    c.columns = &col;
    c.column_count = 1;
    c.if_missing = if_missing;
    return change(rig, &c);
}

int rig_drop_series(struct plane_rig *rig, const char *database, const char *key,
                    const char *measurement)
{
    struct plane_change c = about(PLANE_DROP_SERIES, database);
    c.tree = true;
    c.key = key;
    c.key_bytes = strlen(key);
    c.column = measurement;
    c.column_bytes = strlen(measurement);
    return change(rig, &c);
}

/* ---- look-ups ---- */

static const struct schema_table *table_of(struct plane_rig *rig, const char *name)
{
    return schema_find_table(rig->schema, name, strlen(name), rig_version(rig));
}

uint64_t rig_table(struct plane_rig *rig, const char *table)
{
    const struct schema_table *t = table_of(rig, table);
    return t != NULL ? schema_table_incarnation(t) : 0;
}

uint32_t rig_column(struct plane_rig *rig, const char *table, const char *column)
{
    const struct schema_table *t = table_of(rig, table);
    if (t == NULL) return 0;
    const struct schema_column *c = schema_find_column(t, column, strlen(column), rig_version(rig));
    return c != NULL ? c->id : 0;
}

uint32_t rig_series(struct plane_rig *rig, const char *database, const char *key,
                    const char *measurement)
{
    const struct schema_table *t = table_of(rig, database);
    if (t == NULL) return 0;
    const struct schema_column *c =
        schema_find_series(t, key, strlen(key), measurement, strlen(measurement), rig_version(rig));
    return c != NULL ? c->id : 0;
}

int64_t rig_sql(struct plane_rig *rig, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(rig->path, &db), SQLITE_OK);
    int64_t value = -1;
    while (*sql != '\0') {
        if (sqlite3_prepare_v2(db, sql, -1, &s, &sql) != SQLITE_OK)
            fail_msg("%s", sqlite3_errmsg(db));
        int rc = sqlite3_step(s);
        if (rc == SQLITE_ROW) value = sqlite3_column_int64(s, 0);
        assert_true(rc == SQLITE_ROW || rc == SQLITE_DONE);
        sqlite3_finalize(s);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return value;
}

void rig_sleep_ms(int64_t ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}
