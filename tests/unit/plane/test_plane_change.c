/* ctest: concurrent
 *
 * Changes: what each does, every error, restarts, numbers, groups. */
#include "base/alloc.h"
#include "base/thread.h"
#include "tests/lib/child.h"
#include "tests/lib/plane_rig.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int set_up(void **state)
{
    struct plane_rig *rig = plane_rig_create();
    plane_rig_open(rig);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    plane_rig_destroy(*state);
    return 0;
}

/* ---- each change ---- */

static void plane_change__create_table__found_in_the_new_view(void **state)
{
    struct plane_rig *rig = *state;
    struct plane_column columns[] = {
        {"host", 4, SCHEMA_STRING, SCHEMA_TAG},
        {"usage", 5, SCHEMA_DOUBLE, SCHEMA_FIELD},
        {"rack", 4, SCHEMA_STRING, SCHEMA_TAG},
    };
    struct plane_change c = {.kind = PLANE_CREATE_TABLE,
                             .table = "cpu",
                             .table_bytes = 3,
                             .columns = columns,
                             .column_count = 3,
                             .ttl = 77};
    assert_int_equal(plane_change(rig->plane, &c, 1, -1, NULL), 0);
    assert_int_equal(rig_version(rig), 1);
    assert_int_equal(plane_version(rig->plane), 1);
    const struct schema_table *t = schema_find_table(rig->schema, "cpu", 3, 1);
    assert_non_null(t);
    assert_int_equal(schema_table_ttl(t), 77);
    assert_string_equal(schema_tag(t, 0, 1)->name, "host");
    assert_string_equal(schema_tag(t, 1, 1)->name, "rack");
    assert_int_equal(schema_tag(t, 1, 1)->tag_index, 1);
    assert_int_equal(schema_find_column(t, "usage", 5, 1)->type, SCHEMA_DOUBLE);
    assert_int_equal(rig_create_table(rig, "cpu"), -RFE_TABLE_EXISTS);
    assert_int_equal(rig_version(rig), 1); /* what changes nothing makes no version */
}

static void plane_change__columns__added_renamed_dropped(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_int_equal(rig_add_column(rig, "t", "a"), 0);
    assert_int_equal(rig_add_column(rig, "t", "b"), 0);
    uint32_t a = rig_column(rig, "t", "a");
    assert_int_not_equal(a, 0);
    assert_int_equal(rig_add_column(rig, "t", "a"), -RFE_COLUMN_EXISTS);
    assert_int_equal(rig_rename_column(rig, "t", "a", "b"), -RFE_COLUMN_EXISTS);
    assert_int_equal(rig_rename_column(rig, "t", "x", "y"), -RFE_NO_COLUMN);
    assert_int_equal(rig_rename_column(rig, "t", "a", "a"), 0);
    uint64_t before = rig_version(rig);
    assert_int_equal(rig_rename_column(rig, "t", "a", "c"), 0);
    assert_int_equal(rig_version(rig), before + 1);
    assert_int_equal(rig_column(rig, "t", "c"), a);
    assert_int_equal(rig_column(rig, "t", "a"), 0);
    assert_int_equal(rig_drop_column(rig, "t", "c"), 0);
    assert_int_equal(rig_column(rig, "t", "c"), 0);
    assert_int_equal(rig_drop_column(rig, "t", "c"), -RFE_NO_COLUMN);
    assert_int_equal(rig_add_column(rig, "t", "c"), 0);
    assert_true(rig_column(rig, "t", "c") > a);
    assert_int_equal(rig_set_ttl(rig, "t", 99), 0);
    const struct schema_table *t = schema_find_table(rig->schema, "t", 1, rig_version(rig));
    assert_int_equal(schema_table_ttl(t), 99);
    assert_int_equal(rig_set_ttl(rig, "t", -4), 0);
    assert_int_equal(schema_table_ttl(t), 0);
}

static void plane_change__drop_table__made_again_under_another_number(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_int_equal(rig_add_column(rig, "t", "a"), 0);
    uint64_t first = rig_table(rig, "t"), version = rig_version(rig);
    uint32_t a = rig_column(rig, "t", "a");
    assert_int_equal(rig_drop_table(rig, "t"), 0);
    assert_int_equal(rig_version(rig), version + 2); /* the marker, the tombstone */
    assert_int_equal(rig_table(rig, "t"), 0);
    const struct schema_table *t = schema_table_by_incarnation(rig->schema, first);
    assert_true(schema_table_is_marked(t, version + 1));
    assert_true(schema_table_exists(t, version + 1));
    assert_int_equal(rig_drop_table(rig, "t"), -RFE_NO_TABLE);
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_true(rig_table(rig, "t") > first);
    assert_int_equal(rig_column(rig, "t", "a"), 0);
    assert_int_equal(rig_add_column(rig, "t", "a"), 0);
    assert_true(rig_column(rig, "t", "a") > a);
}

static void plane_change__series__another_column_when_made_again(void **state)
{
    struct plane_rig *rig = *state;
    /* The database comes with its first series, asked for or not. */
    assert_int_equal(rig_create_series(rig, "root.db", "d1", "s", SCHEMA_INT32, false), 0);
    assert_int_equal(rig_create_series(rig, "root.db", "d1", "s", SCHEMA_INT32, true), 0);
    assert_int_equal(rig_create_series(rig, "root.db", "d2", "s", SCHEMA_INT32, false), 0);
    assert_int_equal(rig_create_series(rig, "root.db", "d3", "s", SCHEMA_TEXT, false), 0);
    uint32_t first = rig_series(rig, "root.db", "d1", "s");
    assert_int_not_equal(first, 0);
    assert_int_equal(rig_series(rig, "root.db", "d2", "s"), first);
    assert_int_not_equal(rig_series(rig, "root.db", "d3", "s"), first);
    assert_int_equal(rig_create_series(rig, "root.db", "d1", "s", SCHEMA_INT32, false),
                     -RFE_COLUMN_EXISTS);
    assert_int_equal(rig_create_series(rig, "root.db", "d1", "s", SCHEMA_INT32, true), 0);
    assert_int_equal(rig_create_series(rig, "root.db", "d1", "s", SCHEMA_INT64, true),
                     -RFE_TYPE_MISMATCH);
    assert_int_equal(rig_drop_series(rig, "root.db", "d1", "s"), 0);
    assert_int_equal(rig_drop_series(rig, "root.db", "d1", "s"), -RFE_NO_COLUMN);
    assert_int_equal(rig_series(rig, "root.db", "d1", "s"), 0);
    assert_int_equal(rig_series(rig, "root.db", "d2", "s"), first);
    /* Its old cells carry the old id, which d2 still uses. */
    assert_int_equal(rig_create_series(rig, "root.db", "d1", "s", SCHEMA_INT32, false), 0);
    uint32_t second = rig_series(rig, "root.db", "d1", "s");
    assert_true(second > first);
    assert_int_equal(rig_drop_series(rig, "root.db", "d2", "s"), 0);
    assert_false(schema_column_exists(schema_column_by_id(rig->schema, first), rig_version(rig)));
    assert_int_equal(rig_create_series(rig, "root.db", "d2", "s", SCHEMA_INT32, false), 0);
    assert_int_equal(rig_series(rig, "root.db", "d2", "s"), second);
    plane_rig_close(rig);
    plane_rig_open(rig);
    assert_int_equal(rig_series(rig, "root.db", "d1", "s"), second);
    assert_int_equal(rig_series(rig, "root.db", "d2", "s"), second);
    assert_false(schema_column_exists(schema_column_by_id(rig->schema, first), rig_version(rig)));
}

static void plane_change__if_missing__makes_what_is_not_there_and_no_more(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_add_column_of(rig, "t", "a", SCHEMA_INT64, SCHEMA_FIELD, true), 0);
    assert_int_equal(rig_version(rig), 1);
    uint32_t a = rig_column(rig, "t", "a");
    assert_int_not_equal(a, 0);
    assert_int_equal(rig_add_column_of(rig, "t", "a", SCHEMA_INT64, SCHEMA_FIELD, true), 0);
    assert_int_equal(rig_version(rig), 1);
    assert_int_equal(rig_column(rig, "t", "a"), a);
    assert_int_equal(rig_add_column_of(rig, "t", "a", SCHEMA_INT32, SCHEMA_FIELD, true),
                     -RFE_TYPE_MISMATCH);
    assert_int_equal(rig_add_column_of(rig, "t", "a", SCHEMA_STRING, SCHEMA_TAG, true),
                     -RFE_TYPE_MISMATCH);
    struct plane_change c = {
        .kind = PLANE_CREATE_TABLE, .if_missing = true, .table = "t", .table_bytes = 1};
    assert_int_equal(plane_change(rig->plane, &c, 1, -1, NULL), 0);
    assert_int_equal(rig_version(rig), 1);
}

/* ---- refusals ---- */

static void plane_change__bad_requests__each_its_code_and_no_trace(void **state)
{
    struct plane_rig *rig = *state;
    char longest[257];
    memset(longest, 'n', 256);
    longest[256] = '\0';
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_int_equal(rig_add_column_of(rig, "t", "tag", SCHEMA_STRING, SCHEMA_TAG, false), 0);
    assert_int_equal(rig_create_series(rig, "root", "d", "s", SCHEMA_INT32, true), 0);
    uint64_t version = rig_version(rig);

    assert_int_equal(rig_create_table(rig, ""), -RFE_BAD_NAME);
    assert_int_equal(rig_create_table(rig, longest), -RFE_BAD_NAME);
    assert_int_equal(rig_add_column(rig, "t", "a\n"), -RFE_BAD_NAME);
    assert_int_equal(rig_rename_column(rig, "t", "tag", "\xff"), -RFE_BAD_NAME);
    assert_int_equal(rig_drop_column(rig, "t", longest), -RFE_BAD_NAME);
    assert_int_equal(rig_drop_series(rig, "root", "d", ""), -RFE_BAD_NAME);
    assert_int_equal(rig_add_column(rig, "none", "a"), -RFE_NO_TABLE);
    assert_int_equal(rig_drop_column(rig, "none", "a"), -RFE_NO_TABLE);
    assert_int_equal(rig_set_ttl(rig, "none", 1), -RFE_NO_TABLE);
    assert_int_equal(rig_drop_series(rig, "none", "d", "s"), -RFE_NO_TABLE);
    assert_int_equal(rig_drop_series(rig, "root", "e", "s"), -RFE_NO_COLUMN);
    assert_int_equal(rig_drop_column(rig, "t", "tag"), -RFE_SEMANTIC_ERROR);
    assert_int_equal(rig_add_column_of(rig, "t", "x", SCHEMA_INT32, SCHEMA_TAG, false),
                     -RFE_SEMANTIC_ERROR);
    assert_int_equal(rig_add_column_of(rig, "t", "x", 6, SCHEMA_FIELD, false), -RFE_SEMANTIC_ERROR);
    assert_int_equal(rig_add_column_of(rig, "t", "x", SCHEMA_INT32, 2, false), -RFE_SEMANTIC_ERROR);
    /* The other model. */
    assert_int_equal(rig_add_column(rig, "root", "x"), -RFE_SEMANTIC_ERROR);
    assert_int_equal(rig_create_series(rig, "t", "d", "s", SCHEMA_INT32, true),
                     -RFE_SEMANTIC_ERROR);
    assert_int_equal(rig_drop_series(rig, "t", "d", "tag"), -RFE_SEMANTIC_ERROR);
    struct plane_change c = {.kind = PLANE_CREATE_SERIES, .table = "root", .table_bytes = 4};
    assert_int_equal(plane_change(rig->plane, &c, 1, -1, NULL), -RFE_SEMANTIC_ERROR);
    struct plane_change d[2] = {
        {.kind = PLANE_DROP_TABLE, .table = "t", .table_bytes = 1},
        {.kind = PLANE_SET_TTL, .table = "root", .table_bytes = 4, .ttl = 5},
    };
    assert_int_equal(plane_change(rig->plane, d, 2, -1, NULL), -RFE_SEMANTIC_ERROR);
    assert_int_equal(plane_change(rig->plane, d, 0, -1, NULL), -EINVAL);
    d[0].kind = (enum plane_change_kind)99;
    assert_int_equal(plane_change(rig->plane, d, 1, -1, NULL), -RFE_SEMANTIC_ERROR);
    assert_int_equal(rig_version(rig), version);
    struct schema_counts counts;
    schema_count(rig->schema, &counts);
    assert_int_equal(counts.tables, 2);
    assert_int_equal(counts.columns, 2);
}

static void plane_change__over_a_limit__refused(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    char name[16];
    for (int i = 0; i < SCHEMA_TAGS_MAX; i++) {
        snprintf(name, sizeof name, "tag%d", i);
        assert_int_equal(rig_add_column_of(rig, "t", name, SCHEMA_STRING, SCHEMA_TAG, false), 0);
    }
    assert_int_equal(rig_add_column_of(rig, "t", "more", SCHEMA_STRING, SCHEMA_TAG, false),
                     -RFE_LIMIT);
    char *key = test_calloc(1, SCHEMA_KEY_BYTES_MAX + 1);
    struct plane_column s = {"s", 1, SCHEMA_INT32, SCHEMA_FIELD};
    struct plane_change c = {.kind = PLANE_CREATE_SERIES,
                             .if_missing = true,
                             .table = "root",
                             .table_bytes = 4,
                             .tree = true,
                             .key = key,
                             .key_bytes = SCHEMA_KEY_BYTES_MAX + 1,
                             .columns = &s,
                             .column_count = 1};
    assert_int_equal(plane_change(rig->plane, &c, 1, -1, NULL), -RFE_LIMIT);
    c.key_bytes--;
    assert_int_equal(plane_change(rig->plane, &c, 1, -1, NULL), 0);
    test_free(key);
}

static struct plane_column *many_columns(uint32_t n, const char *prefix)
{
    enum { NAME_BYTES = 24 };
    struct plane_column *columns = test_calloc(n, sizeof *columns + NAME_BYTES);
    char *names = (char *)(columns + n);
    for (uint32_t i = 0; i < n; i++) {
        char *name = names + (size_t)i * NAME_BYTES;
        int bytes = snprintf(name, NAME_BYTES, "%s%" PRIu32, prefix, i);
        columns[i] = (struct plane_column){name, (size_t)bytes, SCHEMA_DOUBLE, SCHEMA_FIELD};
    }
    return columns;
}

static double seconds(void)
{
    return (double)clock_read_ns(CLOCK_MONOTONIC) / 1e9;
}

static uint64_t commits(struct plane_rig *rig)
{
    struct plane_stats stats;
    plane_get_stats(rig->plane, &stats);
    return stats.commits;
}

static void plane_change__as_many_columns_as_there_may_be__one_more_refused(void **state)
{
    struct plane_rig *rig = *state;
    struct plane_column *columns = many_columns(SCHEMA_COLUMNS_MAX + 1, "c");
    struct plane_change c = {.kind = PLANE_ADD_COLUMNS,
                             .if_missing = true,
                             .table = "t",
                             .table_bytes = 1,
                             .columns = columns,
                             .column_count = SCHEMA_COLUMNS_MAX + 1};
    assert_int_equal(plane_change(rig->plane, &c, 1, -1, NULL), -RFE_LIMIT);
    assert_int_equal(rig_table(rig, "t"), 0); /* all or none */
    c.column_count--;
    assert_int_equal(plane_change(rig->plane, &c, 1, -1, NULL), 0);
    assert_int_equal(rig_add_column(rig, "t", "more"), -RFE_LIMIT);
    assert_int_equal(rig_drop_column(rig, "t", "c5"), 0);
    assert_int_equal(rig_add_column(rig, "t", "more"), 0);
    test_free(columns);
}

/* Seconds that one change takes; it must be one commit. */
static double time_of(struct plane_rig *rig, const struct plane_change *c)
{
    uint64_t before = commits(rig);
    double start = seconds();
    assert_int_equal(plane_change(rig->plane, c, 1, -1, NULL), 0);
    double taken = seconds() - start;
    assert_int_equal(commits(rig), before + 1);
    return taken;
}

static void plane_change__ten_thousand_columns__one_commit_and_little_more(void **state)
{
    struct plane_rig *rig = *state;
    struct plane_column *columns = many_columns(10000, "column_");
    double one = 1e9, table = 1e9, tree = 1e9;
    for (int i = 0; i < 5; i++) { /* the best of five: the machine has other work */
        char name[3][16];
        struct plane_change c[3];
        for (int j = 0; j < 3; j++) {
            snprintf(name[j], sizeof name[j], "%c%d", "otr"[j], i);
            c[j] = (struct plane_change){.kind = PLANE_ADD_COLUMNS,
                                         .if_missing = true,
                                         .table = name[j],
                                         .table_bytes = strlen(name[j]),
                                         .columns = columns,
                                         .column_count = j == 0 ? 1 : 10000};
        }
        c[2].kind = PLANE_CREATE_SERIES;
        c[2].tree = true;
        c[2].key = "d1";
        c[2].key_bytes = 2;
        double taken[3];
        for (int j = 0; j < 3; j++)
            taken[j] = time_of(rig, &c[j]);
        one = taken[0] < one ? taken[0] : one;
        table = taken[1] < table ? taken[1] : table;
        tree = taken[2] < tree ? taken[2] : tree;
        assert_int_not_equal(rig_column(rig, name[1], "column_9999"), 0);
        assert_int_not_equal(rig_series(rig, name[2], "d1", "column_9999"), 0);
    }
    printf("one column %.1f ms; 10,000 columns %.1f ms; 10,000 series %.1f ms\n", one * 1e3,
           table * 1e3, tree * 1e3);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    printf("the times are not judged: this build has a sanitizer\n");
#else
    assert_true(table - one <= 0.1);
    assert_true(tree - one <= 0.1);
#endif
    test_free(columns);
}

static void plane_change__one_of_several_fails__none_happens(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    struct plane_column a = {"a", 1, SCHEMA_DOUBLE, SCHEMA_FIELD};
    struct plane_change c[2] = {
        {.kind = PLANE_ADD_COLUMNS,
         .table = "t",
         .table_bytes = 1,
         .columns = &a,
         .column_count = 1},
        {.kind = PLANE_DROP_COLUMN,
         .table = "t",
         .table_bytes = 1,
         .column = "none",
         .column_bytes = 4},
    };
    assert_int_equal(plane_change(rig->plane, c, 2, -1, NULL), -RFE_NO_COLUMN);
    assert_int_equal(rig_column(rig, "t", "a"), 0);
    c[1].column = "a";
    c[1].column_bytes = 1;
    assert_int_equal(plane_change(rig->plane, c, 2, -1, NULL), 0); /* made and dropped at once */
    assert_int_equal(rig_column(rig, "t", "a"), 0);
    assert_int_equal(rig_add_column(rig, "t", "a"), 0);
    /* The failed one's numbers were given to nobody, the other's are used up. */
    assert_int_equal(rig_column(rig, "t", "a"), 2);
}

/* ---- restarts ---- */

static void plane_open__again__everything_as_it_was(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_int_equal(rig_add_column_of(rig, "t", "h", SCHEMA_STRING, SCHEMA_TAG, false), 0);
    assert_int_equal(rig_add_column(rig, "t", "a"), 0);
    assert_int_equal(rig_add_column(rig, "t", "b"), 0);
    assert_int_equal(rig_rename_column(rig, "t", "a", "z"), 0);
    assert_int_equal(rig_drop_column(rig, "t", "b"), 0);
    assert_int_equal(rig_create_table(rig, "gone"), 0);
    assert_int_equal(rig_add_column(rig, "gone", "g"), 0);
    uint64_t gone = rig_table(rig, "gone");
    uint32_t g = rig_column(rig, "gone", "g");
    assert_int_equal(rig_drop_table(rig, "gone"), 0);
    assert_int_equal(rig_create_series(rig, "root", "d1", "s", SCHEMA_INT32, true), 0);
    uint32_t z = rig_column(rig, "t", "z"), s = rig_series(rig, "root", "d1", "s");
    uint64_t version = rig_version(rig), t = rig_table(rig, "t");
    struct schema_counts before, after;
    schema_count(rig->schema, &before);
    plane_rig_close(rig);
    rig->o.version_min = version;
    plane_rig_open(rig);
    schema_count(rig->schema, &after);
    assert_int_equal(before.tables, after.tables);
    assert_int_equal(before.columns, after.columns);
    assert_int_equal(before.series, after.series);
    assert_int_equal(rig_version(rig), version);
    assert_int_equal(rig_table(rig, "t"), t);
    assert_int_equal(rig_column(rig, "t", "z"), z);
    assert_int_equal(rig_column(rig, "t", "a") + rig_column(rig, "t", "b"), 0);
    assert_int_equal(rig_series(rig, "root", "d1", "s"), s);
    /* Tombstones are known: replay hides what they name. */
    const struct schema_table *dead = schema_table_by_incarnation(rig->schema, gone);
    assert_non_null(dead);
    assert_false(schema_table_exists(dead, version));
    assert_ptr_equal(schema_table_of_column(rig->schema, g), dead);
    /* No number comes back. */
    assert_int_equal(rig_create_table(rig, "new"), 0);
    assert_true(rig_table(rig, "new") > gone && rig_table(rig, "new") > t);
    assert_int_equal(rig_add_column(rig, "new", "n"), 0);
    assert_true(rig_column(rig, "new", "n") > s);
}

static void plane_open__marker_left_by_a_crash__drop_is_finished(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_int_equal(rig_create_table(rig, "u"), 0);
    uint64_t version = rig_version(rig), incarnation = rig_table(rig, "t");
    plane_rig_close(rig);
    rig_sql(rig, "UPDATE meta SET version = version + 1;"
                 "UPDATE tables SET marked = (SELECT version FROM meta) WHERE name = 't'");
    plane_rig_open(rig);
    assert_int_equal(rig_version(rig), version + 2);
    assert_int_equal(rig_table(rig, "t"), 0);
    assert_int_not_equal(rig_table(rig, "u"), 0);
    const struct schema_table *t = schema_table_by_incarnation(rig->schema, incarnation);
    assert_true(schema_table_exists(t, version + 1));
    assert_false(schema_table_exists(t, version + 2));
    plane_rig_close(rig);
    plane_rig_open(rig);
    assert_int_equal(rig_version(rig), version + 2);
}

static void plane_open__sqlite_shell__reads_names_and_tombstones(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_int_equal(rig_add_column_of(rig, "t", "h", SCHEMA_STRING, SCHEMA_TAG, false), 0);
    assert_int_equal(rig_add_column(rig, "t", "a"), 0);
    assert_int_equal(rig_add_column(rig, "t", "b"), 0);
    assert_int_equal(rig_drop_column(rig, "t", "b"), 0);
    assert_int_equal(rig_create_series(rig, "root", "d1", "s", SCHEMA_INT32, true), 0);
    assert_int_equal(rig_create_series(rig, "root", "d1", "r", SCHEMA_INT32, true), 0);
    assert_int_equal(rig_drop_series(rig, "root", "d1", "r"), 0);
    plane_rig_close(rig);
    assert_int_equal(rig_sql(rig, "SELECT count(*) FROM table_list"), 2);
    assert_int_equal(rig_sql(rig, "SELECT columns FROM table_list WHERE name = 't'"), 2);
    assert_int_equal(rig_sql(rig, "SELECT count(*) FROM column_list WHERE table_name = 't' AND"
                                  " (column_name, type, category) IN"
                                  " (('h','STRING','TAG'), ('a','DOUBLE','FIELD'))"),
                     2);
    assert_int_equal(rig_sql(rig, "SELECT count(*) FROM series_list WHERE database_name = 'root'"
                                  " AND device = 'd1' AND measurement = 's' AND type = 'INT32'"),
                     1);
    assert_int_equal(rig_sql(rig, "SELECT count(*) FROM tombstones"), 3); /* b, r, r's column */
    assert_int_equal(rig_sql(rig, "SELECT uuid = '010203ab000000000000000000000000' AND"
                                  " generation = 5 AND format = 1 FROM meta"),
                     1);
}

static void plane_open__not_this_directorys_catalog__refused(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    plane_rig_close(rig);
    struct err_msg msg = {0};
    rig->o.uuid[0] ^= 1;
    assert_int_equal(plane_rig_try_open(rig, &msg), -RFE_WRONG_CATALOG);
    assert_non_null(strstr(msg.text, "uuid"));
    rig->o.uuid[0] ^= 1;
    rig->o.generation++;
    msg.code = 0;
    assert_int_equal(plane_rig_try_open(rig, &msg), -RFE_WRONG_CATALOG);
    assert_non_null(strstr(msg.text, "generation: expected 6, found 5"));
    rig->o.generation--;
    rig->o.version_min = 2;
    msg.code = 0;
    assert_int_equal(plane_rig_try_open(rig, &msg), -RFE_WRONG_CATALOG);
    assert_non_null(strstr(msg.text, "expected at least 2, found 1"));
    rig->o.version_min = 1;
    plane_rig_open(rig);
    plane_rig_close(rig);
    rig_sql(rig, "PRAGMA user_version = 2");
    msg.code = 0;
    assert_int_equal(plane_rig_try_open(rig, &msg), -RFE_NEWER_VERSION);
    rig_sql(rig, "PRAGMA user_version = 1; PRAGMA application_id = 7");
    assert_int_equal(plane_rig_try_open(rig, NULL), -RFE_WRONG_CATALOG);
}

static void plane_open__missing_or_empty__made_only_when_told(void **state)
{
    struct plane_rig *rig = *state;
    plane_rig_close(rig);
    rig->o.create = false;
    plane_rig_open(rig);
    plane_rig_close(rig);
    assert_int_equal(remove(rig->path), 0);
    assert_int_equal(plane_rig_try_open(rig, NULL), -RFE_WRONG_CATALOG);
    rig->o.create = true;
    rig->o.version_min = 3; /* a log that has seen versions has lost its catalog */
    assert_int_equal(plane_rig_try_open(rig, NULL), -RFE_WRONG_CATALOG);
    rig->o.version_min = 0;
    FILE *f = fopen(rig->path, "w"); /* a creation that was cut short */
    assert_non_null(f);
    fclose(f);
    plane_rig_open(rig);
    plane_rig_close(rig);
    f = fopen(rig->path, "w");
    assert_non_null(f);
    for (int i = 0; i < 4096; i++)
        fputs("no database ", f);
    fclose(f);
    assert_int_equal(plane_rig_try_open(rig, NULL), -RFE_CORRUPT);
    rig->o.lease_ns = 999999;
    assert_int_equal(plane_rig_try_open(rig, NULL), -EINVAL);
}

static void plane_open__damaged_rows__refused_with_their_place(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_int_equal(rig_add_column_of(rig, "t", "h", SCHEMA_STRING, SCHEMA_TAG, false), 0);
    assert_int_equal(rig_create_series(rig, "root", "d1", "s", SCHEMA_INT32, true), 0);
    plane_rig_close(rig);
    static const struct {
        const char *damage, *repair, *place;
    } cases[] = {
        {"UPDATE columns SET type = 6 WHERE id = 1", "UPDATE columns SET type = 11 WHERE id = 1",
         "columns, row 1"},
        {"UPDATE columns SET category = 5 WHERE id = 1",
         "UPDATE columns SET category = 0 WHERE id = 1", "columns, row 1"},
        {"UPDATE columns SET tag_index = 3 WHERE id = 1",
         "UPDATE columns SET tag_index = 0 WHERE id = 1", "columns, row 1"},
        {"UPDATE columns SET incarnation = 9 WHERE id = 1",
         "UPDATE columns SET incarnation = 1 WHERE id = 1", "columns, row 1"},
        {"UPDATE columns SET name = '' WHERE id = 1", "UPDATE columns SET name = 'h' WHERE id = 1",
         "columns, row 1"},
        {"UPDATE columns SET created = 99 WHERE id = 1",
         "UPDATE columns SET created = 2 WHERE id = 1", "columns, row 1"},
        {"UPDATE columns SET dropped = 1 WHERE id = 1",
         "UPDATE columns SET dropped = NULL WHERE id = 1", "columns, row 1"},
        {"UPDATE tables SET created = 0 WHERE name = 't'",
         "UPDATE tables SET created = 1 WHERE name = 't'", "tables, row 1"},
        {"UPDATE tables SET name = char(10) WHERE name = 't'",
         "UPDATE tables SET name = 't' WHERE incarnation = 1", "tables, row 1"},
        {"UPDATE meta SET next_incarnation = 1", "UPDATE meta SET next_incarnation = 3",
         "tables, row 1"},
        {"UPDATE meta SET next_column = 1", "UPDATE meta SET next_column = 3", "columns, row 1"},
        {"UPDATE meta SET next_column = 0", "UPDATE meta SET next_column = 3", "meta"},
        {"UPDATE series SET column_id = 1", "UPDATE series SET column_id = 2", "series, row 1"},
        {"UPDATE series SET created = 0", "UPDATE series SET created = 3", "series, row 1"},
        {"UPDATE series SET incarnation = 1", "UPDATE series SET incarnation = 2", "series, row 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err_msg msg = {0};
        rig_sql(rig, cases[i].damage);
        assert_int_equal(plane_rig_try_open(rig, &msg), -RFE_CORRUPT);
        if (strstr(msg.text, cases[i].place) == NULL || strstr(msg.text, "catalog.db") == NULL)
            fail_msg("%s: %s", cases[i].damage, msg.text);
        rig_sql(rig, cases[i].repair);
    }
    plane_rig_open(rig);
}

static void plane_open__a_shell_reads__in_use(void **state)
{
    struct plane_rig *rig = *state;
    plane_rig_close(rig);
    /* A second plane stands for the shell: it holds the lock as well. */
    struct plane_rig *other = plane_rig_create();
    other->o.catalog_path = rig->path;
    plane_rig_open(other);
    assert_int_equal(plane_rig_try_open(rig, NULL), -RFE_IN_USE);
    plane_rig_close(other);
    plane_rig_open(rig);
    plane_rig_destroy(other);
}

static void plane_open__read_only__reads_and_changes_nothing(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    plane_rig_close(rig);
    rig_sql(rig, "UPDATE meta SET version = 2; UPDATE tables SET marked = 2");
    rig->o.read_only = true;
    rig->o.create = false;
    plane_rig_open(rig);
    assert_int_equal(rig_version(rig), 2);
    assert_true(rig_is_live(rig));
    assert_int_not_equal(rig_table(rig, "t"), 0);
    assert_int_equal(rig_create_table(rig, "u"), -RFE_READ_ONLY);
    assert_int_equal(plane_lease_fence(rig->plane), -EOPNOTSUPP);
    plane_rig_close(rig);
    assert_int_equal(rig_sql(rig, "SELECT version FROM meta"), 2);
}

/* ---- groups ---- */

#define WRITERS 32

struct writer {
    struct plane_rig *rig;
    int number, rc;
    pthread_t thread;
};

static void *add_one(void *arg)
{
    struct writer *w = arg;
    char name[16];
    snprintf(name, sizeof name, "c%d", w->number);
    struct plane_column col = {name, strlen(name), SCHEMA_DOUBLE, SCHEMA_FIELD};
    struct plane_change c = {.kind = PLANE_ADD_COLUMNS,
                             .if_missing = w->number >= 0,
                             .table = w->number >= 0 ? "t" : "none",
                             .table_bytes = w->number >= 0 ? 1 : 4,
                             .columns = &col,
                             .column_count = 1};
    w->rc = plane_change(w->rig->plane, &c, 1, -1, NULL);
    return NULL;
}

static void plane_change__many_writers_at_once__few_commits(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    uint64_t before = commits(rig);
    struct writer w[WRITERS];
    plane_hold(rig->plane, true); /* so that they have all queued, however slow this machine */
    for (int i = 0; i < WRITERS; i++) {
        /* Every eighth asks for something that fails: alone. */
        w[i] = (struct writer){.rig = rig, .number = i % 8 == 7 ? -1 : i};
        assert_int_equal(thread_start(&w[i].thread, "writer", add_one, &w[i]), 0);
    }
    rig_sleep_ms(100);
    plane_hold(rig->plane, false);
    for (int i = 0; i < WRITERS; i++) {
        thread_join(w[i].thread);
        assert_int_equal(w[i].rc, i % 8 == 7 ? -RFE_NO_TABLE : 0);
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        assert_true((rig_column(rig, "t", name) != 0) == (i % 8 != 7));
    }
    uint64_t made = commits(rig) - before;
    printf("%d writers: %" PRIu64 " commits\n", WRITERS, made);
    assert_true(made >= 1 && made <= 4);
}

static void plane_change__many_writers_unheld__all_there(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    uint64_t before = commits(rig);
    struct writer w[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        w[i] = (struct writer){.rig = rig, .number = i};
        assert_int_equal(thread_start(&w[i].thread, "writer", add_one, &w[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        thread_join(w[i].thread);
        assert_int_equal(w[i].rc, 0);
        char name[16];
        snprintf(name, sizeof name, "c%d", i);
        assert_int_not_equal(rig_column(rig, "t", name), 0);
    }
    printf("%d writers: %" PRIu64 " commits\n", WRITERS, commits(rig) - before);
}

/* ---- memory ---- */

static void plane_change__no_memory_somewhere__an_error_or_done_and_no_loss(void **state)
{
    struct plane_rig *rig = *state;
    uint64_t refused = 0;
    for (uint64_t k = 1; k <= 12; k++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", (int)k);
        alloc_fail_at(k);
        int rc = rig_create_table(rig, name);
        alloc_fail_at(0);
        assert_true(rc == 0 || rc == -ENOMEM);
        assert_true((rig_table(rig, name) != 0) == (rc == 0));
        refused += rc != 0;
    }
    assert_true(refused > 0);
    for (uint64_t k = 1;; k++) {
        plane_rig_close(rig);
        assert_int_equal(schema_create(&rig->schema), 0);
        rig->o.schema = rig->schema;
        alloc_fail_at(k);
        int rc = plane_open(&rig->o, &rig->plane, NULL);
        alloc_fail_at(0);
        if (rc == 0) break;
        assert_int_equal(rc, -ENOMEM);
        schema_destroy(rig->schema);
        plane_rig_open(rig);
    }
}

static void plane_close__everything_done__all_memory_back(void **state)
{
    struct plane_rig *rig = *state;
    plane_rig_close(rig);
    int64_t before = alloc_bytes_in_use();
    plane_rig_open(rig);
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_int_equal(rig_add_column(rig, "t", "a"), 0);
    assert_int_equal(rig_add_column(rig, "t", "a"), -RFE_COLUMN_EXISTS);
    assert_int_equal(rig_drop_table(rig, "t"), 0);
    plane_rig_close(rig);
    assert_int_equal(alloc_bytes_in_use(), before);
    plane_close(NULL);
}

/* ---- fork ---- */

static int abandon_in_child(void *ctx)
{
    struct plane_rig *rig = ctx;
    int64_t before = alloc_bytes_in_use();
    plane_abandon(NULL);
    plane_abandon(rig->plane);
    CHILD_CHECK(alloc_bytes_in_use() < before);
    return 0;
}

static void plane_abandon__in_the_child_of_a_fork__the_parent_goes_on(void **state)
{
    struct plane_rig *rig = *state;
    assert_int_equal(rig_create_table(rig, "t"), 0);
    assert_int_equal(child_run(abandon_in_child, rig), 0);
    assert_int_equal(rig_add_column(rig, "t", "a"), 0);
    plane_rig_close(rig);
    plane_rig_open(rig);
    assert_int_not_equal(rig_column(rig, "t", "a"), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(plane_change__create_table__found_in_the_new_view),
        TEST(plane_change__columns__added_renamed_dropped),
        TEST(plane_change__drop_table__made_again_under_another_number),
        TEST(plane_change__series__another_column_when_made_again),
        TEST(plane_change__if_missing__makes_what_is_not_there_and_no_more),
        TEST(plane_change__bad_requests__each_its_code_and_no_trace),
        TEST(plane_change__over_a_limit__refused),
        TEST(plane_change__as_many_columns_as_there_may_be__one_more_refused),
        TEST(plane_change__ten_thousand_columns__one_commit_and_little_more),
        TEST(plane_change__one_of_several_fails__none_happens),
        TEST(plane_open__again__everything_as_it_was),
        TEST(plane_open__marker_left_by_a_crash__drop_is_finished),
        TEST(plane_open__sqlite_shell__reads_names_and_tombstones),
        TEST(plane_open__not_this_directorys_catalog__refused),
        TEST(plane_open__missing_or_empty__made_only_when_told),
        TEST(plane_open__damaged_rows__refused_with_their_place),
        TEST(plane_open__a_shell_reads__in_use),
        TEST(plane_open__read_only__reads_and_changes_nothing),
        TEST(plane_change__many_writers_at_once__few_commits),
        TEST(plane_change__many_writers_unheld__all_there),
        TEST(plane_change__no_memory_somewhere__an_error_or_done_and_no_loss),
        TEST(plane_close__everything_done__all_memory_back),
        TEST(plane_abandon__in_the_child_of_a_fork__the_parent_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
