/* The power fails at every point of a recorded life of the catalog, with what was not synced kept,
 * dropped, or torn. The oracle: what was answered is there; a version is there whole; numbers that
 * an answer has shown are never given again. */
#include "base/alloc.h"
#include "base/hash.h"
#include "io/fault.h"
#include "plane/catalog.h"
#include "tests/lib/fault_vfs.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define PATH         "dir/catalog.db"
#define VERSIONS_MAX 64

static uint64_t seed_of_this_run(void)
{
    const char *given = getenv("RF_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    printf("RF_SEED=%" PRIu64 "\n", seed);
    return seed;
}

/* ---- the story ---- */

struct story {
    struct io_env *env;
    uint64_t begin;    /* of the trace: the directory is there */
    uint64_t answered; /* the newest version that was */
    /* Of each version: what is in it, and the highest numbers given so far. */
    uint64_t digest[VERSIONS_MAX], table_max[VERSIONS_MAX], column_max[VERSIONS_MAX];
};

struct digest {
    const struct schema *schema;
    const struct schema_table *table;
    uint64_t version, sum, table_max, column_max;
};

static int digest_column(void *ctx, const struct schema_column *c)
{
    struct digest *d = ctx;
    char text[400];
    int n = snprintf(text, sizeof text, "%s/%s/%d/%d/%d/%d", schema_table_name(d->table),
                     schema_column_name(d->table, c, d->version), (int)c->id, c->type, c->category,
                     c->tag_index);
    d->sum += hash64(text, (size_t)n, 0);
    if (c->id > d->column_max) d->column_max = c->id;
    return 0;
}

static int digest_table(void *ctx, const struct schema_table *t)
{
    struct digest *d = ctx;
    char text[400];
    uint64_t incarnation = schema_table_incarnation(t);
    int n = snprintf(text, sizeof text, "%s/%d/%d/%d", schema_table_name(t), (int)incarnation,
                     schema_table_is_tree(t), schema_table_is_marked(t, d->version));
    d->sum += hash64(text, (size_t)n, 1);
    if (incarnation > d->table_max) d->table_max = incarnation;
    d->table = t;
    schema_each_column(t, d->version, digest_column, d);
    for (char key[] = "d0"; key[1] <= '3'; key[1]++) {
        d->sum = d->sum * 31 + (uint64_t)key[1];
        schema_each_series(t, key, 2, d->version, digest_column, d);
    }
    return 0;
}

static struct digest digest_of(const struct schema *schema, uint64_t version)
{
    struct digest d = {.schema = schema, .version = version};
    schema_each_table(schema, version, digest_table, &d);
    return d;
}

static int open_catalog(const char *vfs, bool create, struct schema **schema_out,
                        struct catalog **catalog_out, struct err_msg *msg)
{
    struct catalog_options o = {
        .path = PATH, .vfs = vfs, .create = create, .uuid = {7}, .generation = 1};
    assert_int_equal(schema_create(schema_out), 0);
    int rc = catalog_open(&o, *schema_out, catalog_out, msg);
    if (rc != 0) schema_destroy(*schema_out);
    return rc;
}

/* One change, in a transaction of its own; true when it made a version. */
static bool run_change(struct catalog *catalog, const struct plane_change *change, bool finish_drop,
                       uint64_t *version_out)
{
    struct catalog_request r = {.changes = change, .change_count = 1, .finish_drop = finish_drop};
    bool committed = catalog_run(catalog, &r, version_out);
    if (r.rc != 0) fail_msg("%s", r.msg.text);
    mem_free(r.effects);
    return committed;
}

static struct plane_change make_change(enum plane_change_kind kind, const char *table)
{
    return (struct plane_change){.kind = kind, .table = table, .table_bytes = strlen(table)};
}

static void tell(struct story *s, struct catalog *catalog, const struct plane_change *c,
                 bool finish_drop)
{
    uint64_t version;
    assert_true(run_change(catalog, c, finish_drop, &version));
    assert_int_equal(version, ++s->answered);
    fault_mark(s->env, version);
}

static void tell_columns(struct story *s, struct catalog *catalog, const char *table,
                         const char *column, int category)
{
    struct plane_column columns[40];
    char names[40][16];
    struct plane_change c = make_change(PLANE_ADD_COLUMNS, table);
    /* Enough for several pages, so that a transaction has something to tear. */
    for (int i = 0; i < 40; i++) {
        int n = snprintf(names[i], sizeof names[i], "%s%d", column, i);
        columns[i] = (struct plane_column){names[i], (size_t)n, SCHEMA_DOUBLE, SCHEMA_FIELD};
    }
    columns[0].category = (uint8_t)category;
    if (category == SCHEMA_TAG) columns[0].type = SCHEMA_STRING;
    c.if_missing = true;
    c.columns = columns;
    c.column_count = 40;
    tell(s, catalog, &c, false);
}

static void tell_series(struct story *s, struct catalog *catalog, const char *key, bool drop)
{
    struct plane_column m = {"speed", 5, SCHEMA_INT64, SCHEMA_FIELD};
    struct plane_change c = make_change(drop ? PLANE_DROP_SERIES : PLANE_CREATE_SERIES, "root.db");
    c.tree = true;
    c.if_missing = !drop;
    c.key = key;
    c.key_bytes = 2;
    c.columns = &m;
    c.column_count = 1;
    c.column = "speed";
    c.column_bytes = 5;
    tell(s, catalog, &c, false);
}

static void tell_column(struct story *s, struct catalog *catalog, enum plane_change_kind kind,
                        const char *column, const char *to)
{
    struct plane_change c = make_change(kind, "a");
    c.column = column;
    c.column_bytes = strlen(column);
    c.to = to;
    c.to_bytes = to != NULL ? strlen(to) : 0;
    tell(s, catalog, &c, false);
}

static void tell_drop_table(struct story *s, struct catalog *catalog, const char *table)
{
    struct plane_change c = make_change(PLANE_DROP_TABLE, table);
    tell(s, catalog, &c, false);
    tell(s, catalog, &c, true);
}

static void note_versions(struct story *s, const struct schema *schema)
{
    assert_true(s->answered < VERSIONS_MAX);
    uint64_t table_max = 0, column_max = 0;
    for (uint64_t v = 0; v <= s->answered; v++) {
        struct digest d = digest_of(schema, v);
        table_max = d.table_max > table_max ? d.table_max : table_max;
        column_max = d.column_max > column_max ? d.column_max : column_max;
        s->digest[v] = d.sum;
        s->table_max[v] = table_max;
        s->column_max[v] = column_max;
    }
}

/* Renames are not kept by version in the file, so a story has a rename only where the name before
 * is of no version that a crash can leave: the whole story is read version by version as it grows. */
static void note_now(struct story *s, const char *vfs)
{
    struct schema *schema;
    struct catalog *catalog;
    assert_int_equal(open_catalog(vfs, false, &schema, &catalog, NULL), 0);
    assert_int_equal(catalog_version(catalog), s->answered);
    struct digest d = digest_of(schema, s->answered);
    s->digest[s->answered] = d.sum;
    catalog_close(catalog);
    schema_destroy(schema);
}

static void make_story(struct story *s)
{
    const struct fault_options options = {.record = true};
    struct schema *schema;
    struct catalog *catalog;
    *s = (struct story){0};
    assert_int_equal(fault_env_open(&options, &s->env), 0);
    assert_int_equal(io_mkdir(s->env, "dir"), 0);
    assert_int_equal(io_sync_dir(s->env, "."), 0);
    s->begin = fault_trace_length(s->env);
    fault_vfs_register("story", s->env);
    assert_int_equal(open_catalog("story", true, &schema, &catalog, NULL), 0);
    fault_mark(s->env, 0);
    tell_columns(s, catalog, "a", "x", SCHEMA_TAG);
    tell_columns(s, catalog, "b", "y", SCHEMA_FIELD);
    tell_series(s, catalog, "d1", false);
    tell_series(s, catalog, "d2", false);
    tell_column(s, catalog, PLANE_DROP_COLUMN, "x5", NULL);
    tell_series(s, catalog, "d1", true);
    tell_drop_table(s, catalog, "b");
    tell_series(s, catalog, "d1", false);
    tell_columns(s, catalog, "b", "z", SCHEMA_FIELD);
    tell_series(s, catalog, "d2", true);
    tell_drop_table(s, catalog, "a");
    tell_columns(s, catalog, "a", "w", SCHEMA_TAG);
    catalog_close(catalog);
    schema_destroy(schema);
    assert_int_equal(open_catalog("story", false, &schema, &catalog, NULL), 0);
    note_versions(s, schema);
    tell_column(s, catalog, PLANE_RENAME_COLUMN, "w3", "renamed");
    catalog_close(catalog);
    schema_destroy(schema);
    uint64_t v = s->answered;
    s->table_max[v] = s->table_max[v - 1];
    s->column_max[v] = s->column_max[v - 1];
    note_now(s, "story");
    fault_vfs_unregister("story");
}

/* ---- crashes ---- */

/* The newest version that was answered before `at`, -1: not even the catalog's making. */
static int64_t answered_before(const struct story *s, uint64_t at)
{
    while (at-- > 0)
        if (fault_trace_kind(s->env, at) == FAULT_EVENT_MARK)
            return (int64_t)fault_trace_mark(s->env, at);
    return -1;
}

/* Numbers that go on behind those that a version has shown. */
static void assert_new_numbers(const struct story *s, struct catalog *catalog, uint64_t version)
{
    struct plane_column column = {"new", 3, SCHEMA_INT32, SCHEMA_FIELD};
    struct plane_change c = make_change(PLANE_CREATE_TABLE, "new");
    c.columns = &column;
    c.column_count = 1;
    struct catalog_request r = {.changes = &c, .change_count = 1};
    uint64_t made;
    assert_true(catalog_run(catalog, &r, &made));
    assert_int_equal(r.rc, 0);
    assert_int_equal(made, version + 1);
    assert_int_equal(r.effect_count, 2);
    assert_true(r.effects[0].incarnation > s->table_max[version]);
    assert_true(r.effects[1].id > s->column_max[version]);
    mem_free(r.effects);
}

static void check_crash(const struct story *s, uint64_t at, fault_choice *choice, void *ctx)
{
    struct io_env *crashed;
    struct schema *schema;
    struct catalog *catalog;
    struct err_msg msg = {0};
    int64_t answered = answered_before(s, at);
    assert_int_equal(fault_crash(s->env, at, choice, ctx, NULL, &crashed, NULL), 0);
    fault_vfs_register("crashed", crashed);
    /* Before its making was answered the directory has no manifest, and open makes it anew. */
    int rc = open_catalog("crashed", answered < 0, &schema, &catalog, &msg);
    if (rc != 0) fail_msg("event %" PRIu64 ": %s", at, msg.text);
    uint64_t version = catalog_version(catalog);
    if ((int64_t)version < answered || version > s->answered)
        fail_msg("event %" PRIu64 ": version %" PRIu64 ", answered %" PRId64, at, version,
                 answered);
    if (digest_of(schema, version).sum != s->digest[version])
        fail_msg("event %" PRIu64 ": version %" PRIu64 " is not what it was", at, version);
    assert_new_numbers(s, catalog, version);
    catalog_close(catalog);
    schema_destroy(schema);
    fault_vfs_unregister("crashed");
    io_env_close(crashed);
}

static void catalog__power_fails_at_every_point__answered_versions_whole(void **state)
{
    (void)state;
    static struct story s;
    uint64_t seed = seed_of_this_run(), crashes = 0;
    make_story(&s);
    uint64_t length = fault_trace_length(s.env);
    for (uint64_t at = s.begin; at <= length; at++) {
        uint64_t moved = seed + at;
        check_crash(&s, at, fault_choice_drop, NULL);
        check_crash(&s, at, fault_choice_keep, NULL);
        check_crash(&s, at, fault_choice_seeded, &moved);
        crashes += 3;
    }
    printf("%" PRIu64 " events, %" PRIu64 " crashes, %" PRIu64 " versions\n", length, crashes,
           s.answered);
    io_env_close(s.env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(catalog__power_fails_at_every_point__answered_versions_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
