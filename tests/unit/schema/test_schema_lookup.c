#include "base/alloc.h"
#include "schema/schema.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- helpers ---- */

static struct schema *new_schema(void)
{
    struct schema *s;
    assert_int_equal(schema_create(&s), 0);
    return s;
}

static struct schema_table *add_table(struct schema *s, const char *name, uint64_t incarnation,
                                      bool tree, uint64_t version)
{
    struct schema_table *t;
    assert_int_equal(schema_add_table(s, name, strlen(name), incarnation, tree, 0, version, &t), 0);
    return t;
}

static void add_column(struct schema_table *t, const char *name, uint32_t id, int type,
                       int category, uint64_t version)
{
    assert_int_equal(schema_add_column(t, name, strlen(name), id, type, category, version), 0);
}

static void add_field(struct schema_table *t, const char *name, uint32_t id, uint64_t version)
{
    add_column(t, name, id, SCHEMA_DOUBLE, SCHEMA_FIELD, version);
}

static void rename_column(struct schema_table *t, uint32_t id, const char *to, uint64_t version)
{
    assert_int_equal(schema_rename_column(t, id, to, strlen(to), version), 0);
}

static void add_series(struct schema_table *t, const char *key, uint32_t column, uint64_t version)
{
    assert_int_equal(schema_add_series(t, key, strlen(key), column, version), 0);
}

/* The id of what is found, 0: nothing. */
static uint32_t find(const struct schema_table *t, const char *name, uint64_t version)
{
    const struct schema_column *c = schema_find_column(t, name, strlen(name), version);
    struct schema_place place = {.next = 0};
    for (int i = 0; i < 3; i++) /* whatever the place says, the answer is the same */
        assert_ptr_equal(schema_next_column(t, name, strlen(name), version, &place), c);
    return c != NULL ? c->id : 0;
}

static uint32_t find_series(const struct schema_table *t, const char *key, const char *name,
                            uint64_t version)
{
    const struct schema_column *c =
        schema_find_series(t, key, strlen(key), name, strlen(name), version);
    struct schema_place place = {.next = 0};
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(
            schema_next_series(t, key, strlen(key), name, strlen(name), version, &place), c);
    return c != NULL ? c->id : 0;
}

static uint64_t find_table(const struct schema *s, const char *name, uint64_t version)
{
    const struct schema_table *t = schema_find_table(s, name, strlen(name), version);
    return t != NULL ? schema_table_incarnation(t) : 0;
}

static bool fits(const struct schema_table *t, uint32_t id, uint64_t then, uint64_t now)
{
    return schema_still_fits(t, NULL, 0, &id, 1, then, now);
}

struct list {
    uint64_t item[64];
    size_t count, stop_at;
};

static int note_column(void *ctx, const struct schema_column *c)
{
    struct list *l = ctx;
    l->item[l->count++] = c->id;
    return l->count == l->stop_at ? 77 : 0;
}

static int note_table(void *ctx, const struct schema_table *t)
{
    struct list *l = ctx;
    l->item[l->count++] = schema_table_incarnation(t);
    return l->count == l->stop_at ? 77 : 0;
}

static void assert_list(const struct list *l, size_t count, const uint64_t *items)
{
    assert_int_equal(l->count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(l->item[i], items[i]);
}

/* ---- tables ---- */

static void schema_find_table__dropped_and_made_again__each_in_its_versions(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *first = add_table(s, "cpu", 7, false, 3);
    schema_drop_table(first, 5);
    struct schema_table *second = add_table(s, "cpu", 9, true, 6);
    assert_int_equal(find_table(s, "cpu", 2), 0);
    assert_int_equal(find_table(s, "cpu", 3), 7);
    assert_int_equal(find_table(s, "cpu", 4), 7);
    assert_int_equal(find_table(s, "cpu", 5), 0);
    assert_int_equal(find_table(s, "cpu", 6), 9);
    assert_int_equal(find_table(s, "cp", 6), 0);
    assert_int_equal(find_table(s, "cpu0", 6), 0);
    assert_ptr_equal(schema_table_by_incarnation(s, 7), first);
    assert_ptr_equal(schema_table_to_change(s, 9), second);
    assert_null(schema_table_by_incarnation(s, 8));
    assert_false(schema_table_exists(first, 5));
    assert_true(schema_table_exists(second, 6));
    assert_string_equal(schema_table_name(first), "cpu");
    assert_false(schema_table_is_tree(first));
    assert_true(schema_table_is_tree(second));
    struct list l = {0};
    assert_int_equal(schema_each_table(s, 4, note_table, &l), 0);
    assert_list(&l, 1, (const uint64_t[]){7});
    schema_destroy(s);
}

static void schema_each_table__callback_stops__its_value_returned(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    for (uint64_t i = 1; i <= 200; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", (int)i);
        add_table(s, name, i * 10, false, i);
    }
    struct list l = {.stop_at = 3};
    assert_int_equal(schema_each_table(s, 50, note_table, &l), 77);
    assert_list(&l, 3, (const uint64_t[]){10, 20, 30});
    assert_int_equal(find_table(s, "t200", 200), 2000);
    struct schema_counts counts;
    schema_count(s, &counts);
    assert_int_equal(counts.tables, 200);
    schema_destroy(s);
}

static void schema_table_is_marked__marker_and_rollback__by_version(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "t", 1, false, 1);
    assert_false(schema_table_is_marked(t, 1));
    schema_mark_table(t, 4);
    assert_false(schema_table_is_marked(t, 3));
    assert_true(schema_table_is_marked(t, 4));
    schema_unmark_table(t, 6);
    assert_true(schema_table_is_marked(t, 5));
    assert_false(schema_table_is_marked(t, 6));
    schema_mark_table(t, 9);
    assert_false(schema_table_is_marked(t, 8));
    assert_true(schema_table_is_marked(t, 9));
    schema_destroy(s);
}

static void schema_table_ttl__set__newest_value(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t;
    assert_int_equal(schema_add_table(s, "t", 1, 1, false, 500, 1, &t), 0);
    assert_int_equal(schema_table_ttl(t), 500);
    schema_set_ttl(t, 70, 2);
    assert_int_equal(schema_table_ttl(t), 70);
    schema_destroy(s);
}

/* ---- columns ---- */

static void schema_find_column__added_and_dropped__by_version(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "t", 1, false, 1);
    struct schema_table *other = add_table(s, "u", 2, false, 1);
    add_field(t, "a", 1, 2);
    add_field(other, "a", 2, 2);
    schema_drop_column(t, 1, 4);
    add_column(t, "a", 3, SCHEMA_INT32, SCHEMA_FIELD, 6);
    assert_int_equal(find(t, "a", 1), 0);
    assert_int_equal(find(t, "a", 2), 1);
    assert_int_equal(find(t, "a", 3), 1);
    assert_int_equal(find(t, "a", 5), 0);
    assert_int_equal(find(t, "a", 6), 3);
    assert_int_equal(find(other, "a", 6), 2);
    assert_int_equal(find(t, "b", 6), 0);
    const struct schema_column *c = schema_column_by_id(s, 1);
    assert_non_null(c); /* also dropped */
    assert_int_equal(c->type, SCHEMA_DOUBLE);
    assert_int_equal(c->category, SCHEMA_FIELD);
    assert_int_equal(schema_column_created(c), 2);
    assert_true(schema_column_exists(c, 3));
    assert_false(schema_column_exists(c, 4));
    assert_ptr_equal(schema_table_of_column(s, 2), other);
    assert_null(schema_column_by_id(s, 4));
    assert_null(schema_column_by_id(s, 0));
    assert_null(schema_column_by_id(s, SCHEMA_COLUMN_ID_MAX));
    assert_null(schema_table_of_column(s, 4));
    schema_destroy(s);
}

static void schema_find_column__versions_of_forty_bits__compared_whole(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "t", 1, false, 1);
    uint64_t version = ((uint64_t)0xab << 32) + 1;
    add_field(t, "a", 1, version);
    assert_int_equal(find(t, "a", 0xffffffff), 0);
    assert_int_equal(find(t, "a", version - 1), 0);
    assert_int_equal(find(t, "a", version), 1);
    assert_int_equal(find(t, "a", SCHEMA_VERSION_MAX), 1);
    schema_destroy(s);
}

static void schema_rename_column__several_times__each_name_in_its_versions(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "t", 1, false, 1);
    add_field(t, "a", 1, 2);
    rename_column(t, 1, "b", 5);
    rename_column(t, 1, "a", 8);
    rename_column(t, 1, "c", 9);
    add_field(t, "a", 2, 9);
    static const char names[] = "-aaabbbac";
    const struct schema_column *c = schema_column_by_id(s, 1);
    for (uint64_t v = 1; v <= 9; v++) {
        assert_int_equal(find(t, "b", v), v >= 5 && v < 8 ? 1 : 0);
        assert_int_equal(find(t, "c", v), v >= 9 ? 1 : 0);
        assert_int_equal(find(t, "a", v), v == 9 ? 2 : v >= 2 && (v < 5 || v == 8) ? 1 : 0);
        if (v >= 2 && names[v - 1] != '-') {
            const char *expected = v < 5 ? "a" : v < 8 ? "b" : v == 8 ? "a" : "c";
            assert_string_equal(schema_column_name(t, c, v), expected);
        }
    }
    assert_string_equal(c->name, "c");
    schema_drop_column(t, 1, 12);
    assert_int_equal(find(t, "c", 11), 1);
    assert_int_equal(find(t, "c", 12), 0);
    schema_destroy(s);
}

static void schema_tag__tags_among_fields__in_order_of_creation(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "t", 1, false, 1);
    add_column(t, "host", 1, SCHEMA_STRING, SCHEMA_TAG, 1);
    add_field(t, "f", 2, 1);
    add_column(t, "rack", 3, SCHEMA_STRING, SCHEMA_TAG, 4);
    assert_int_equal(schema_tag(t, 0, 1)->id, 1);
    assert_null(schema_tag(t, 1, 3));
    assert_int_equal(schema_tag(t, 1, 4)->id, 3);
    assert_int_equal(schema_tag(t, 1, 4)->tag_index, 1);
    assert_null(schema_tag(t, 2, 4));
    schema_destroy(s);
}

static void schema_each_column__some_dropped__those_of_the_version_in_order(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "t", 1, false, 1);
    add_field(t, "a", 5, 2);
    add_field(t, "b", 3, 3);
    add_field(t, "c", 9, 3);
    schema_drop_column(t, 3, 4);
    struct list l = {0};
    assert_int_equal(schema_each_column(t, 3, note_column, &l), 0);
    assert_list(&l, 3, (const uint64_t[]){5, 3, 9});
    l.count = 0;
    assert_int_equal(schema_each_column(t, 4, note_column, &l), 0);
    assert_list(&l, 2, (const uint64_t[]){5, 9});
    l = (struct list){.stop_at = 1};
    assert_int_equal(schema_each_column(t, 4, note_column, &l), 77);
    assert_int_equal(l.count, 1);
    schema_destroy(s);
}

/* ---- series ---- */

static void schema_find_series__two_devices__two_types_of_one_measurement(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "root.db", 1, true, 1);
    struct schema_table *other = add_table(s, "root.other", 2, true, 1);
    add_column(t, "s1", 1, SCHEMA_INT32, SCHEMA_FIELD, 2);
    add_series(t, "d1", 1, 2);
    add_column(t, "s1", 2, SCHEMA_DOUBLE, SCHEMA_FIELD, 3);
    add_series(t, "d2", 2, 3);
    add_series(t, "", 1, 4);
    add_column(other, "s1", 3, SCHEMA_TEXT, SCHEMA_FIELD, 3);
    add_series(other, "d1", 3, 3);
    assert_int_equal(find_series(t, "d1", "s1", 1), 0);
    assert_int_equal(find_series(t, "d1", "s1", 2), 1);
    assert_int_equal(find_series(t, "d2", "s1", 2), 0);
    assert_int_equal(find_series(t, "d2", "s1", 3), 2);
    assert_int_equal(find_series(t, "", "s1", 4), 1);
    assert_int_equal(find_series(t, "d3", "s1", 4), 0);
    assert_int_equal(find_series(t, "d1", "s2", 4), 0);
    assert_int_equal(find_series(other, "d1", "s1", 3), 3);
    const struct schema_column *c = schema_find_measurement(t, "s1", 2, SCHEMA_DOUBLE, 3);
    assert_int_equal(c->id, 2);
    assert_null(schema_find_measurement(t, "s1", 2, SCHEMA_DOUBLE, 2));
    assert_null(schema_find_measurement(t, "s1", 2, SCHEMA_TEXT, 3));
    schema_destroy(s);
}

static void schema_drop_series__made_again__another_column(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "root.db", 1, true, 1);
    add_column(t, "s1", 1, SCHEMA_INT32, SCHEMA_FIELD, 2);
    add_series(t, "d1", 1, 2);
    add_series(t, "d2", 1, 2);
    assert_int_equal(schema_drop_series(t, "d1", 2, 1, 5), 0);
    add_column(t, "s1", 2, SCHEMA_INT32, SCHEMA_FIELD, 5);
    add_series(t, "d1", 2, 5);
    assert_int_equal(find_series(t, "d1", "s1", 4), 1);
    assert_int_equal(find_series(t, "d1", "s1", 5), 2);
    assert_int_equal(find_series(t, "d2", "s1", 5), 1);
    assert_int_equal(schema_find_measurement(t, "s1", 2, SCHEMA_INT32, 5)->id, 2);
    /* The column goes with its last series. */
    assert_true(schema_column_exists(schema_column_by_id(s, 1), 6));
    assert_int_equal(schema_drop_series(t, "d2", 2, 1, 6), 0);
    assert_false(schema_column_exists(schema_column_by_id(s, 1), 6));
    struct list l = {0};
    assert_int_equal(schema_each_column(t, 6, note_column, &l), 0);
    assert_list(&l, 1, (const uint64_t[]){2});
    schema_destroy(s);
}

/* Through the walk of a list (few series) into the table of series (many), and back in versions. */
static void schema_find_series__a_device_grows__found_at_every_size(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "root.db", 1, true, 1);
    enum { SERIES = 40 };
    char name[16];
    for (uint32_t i = 1; i <= SERIES; i++) {
        snprintf(name, sizeof name, "m%u", i);
        add_column(t, name, i, SCHEMA_DOUBLE, SCHEMA_FIELD, i);
        add_series(t, "d1", i, i);
        if (i % 4 == 0) assert_int_equal(schema_drop_series(t, "d1", 2, i, i + 1), 0);
        for (uint32_t j = 1; j <= i; j++) {
            snprintf(name, sizeof name, "m%u", j);
            assert_int_equal(find_series(t, "d1", name, j), j);
            assert_int_equal(find_series(t, "d1", name, j - 1), 0);
            assert_int_equal(find_series(t, "d1", name, i + 1), j % 4 == 0 ? 0 : j);
        }
    }
    struct list l = {0};
    assert_int_equal(schema_each_series(t, "d1", 2, 9, note_column, &l), 0);
    assert_list(&l, 7, (const uint64_t[]){1, 2, 3, 5, 6, 7, 9});
    l = (struct list){.stop_at = 2};
    assert_int_equal(schema_each_series(t, "d1", 2, 9, note_column, &l), 77);
    l = (struct list){0};
    assert_int_equal(schema_each_series(t, "d9", 2, 9, note_column, &l), 0);
    assert_int_equal(l.count, 0);
    struct schema_counts counts;
    schema_count(s, &counts);
    assert_int_equal(counts.series, 30);
    assert_int_equal(counts.columns, 30);
    schema_drop_table(t, 99);
    schema_count(s, &counts);
    assert_int_equal(counts.tables + counts.series + counts.columns, 0);
    schema_destroy(s);
}

/* ---- still_fits ---- */

static void schema_still_fits__only_additions__fits(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "t", 1, false, 1);
    add_field(t, "a", 1, 2);
    add_field(t, "b", 2, 3);
    assert_true(fits(t, 1, 2, 3));
    schema_destroy(s);
}

static void schema_still_fits__something_taken_away__only_who_wrote_it_is_refused(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "t", 1, false, 1);
    for (uint32_t id = 1; id <= 4; id++) {
        const char name[] = {(char)('a' + id), 0};
        add_field(t, name, id, 2);
    }
    schema_drop_column(t, 1, 4);
    rename_column(t, 2, "z", 6);
    assert_false(fits(t, 1, 3, 4));
    assert_true(fits(t, 1, 2, 3)); /* the drop is of a version behind */
    assert_true(fits(t, 3, 3, 6));
    assert_true(fits(t, 2, 4, 5));
    assert_false(fits(t, 2, 5, 6));
    assert_true(fits(t, 2, 6, 6));
    assert_false(schema_still_fits(t, NULL, 0, (const uint32_t[]){3, 2}, 2, 5, 6));
    schema_set_ttl(t, 5, 8);
    assert_false(fits(t, 3, 7, 8));
    assert_true(fits(t, 3, 8, 8));
    schema_mark_table(t, 10);
    assert_true(fits(t, 3, 8, 9));
    assert_false(fits(t, 3, 9, 10));
    schema_unmark_table(t, 11);
    assert_true(fits(t, 3, 9, 11));
    schema_drop_table(t, 13);
    assert_true(fits(t, 3, 11, 12));
    assert_false(fits(t, 3, 11, 13));
    schema_destroy(s);
}

static void schema_still_fits__series_dropped__refused_for_that_device(void **state)
{
    (void)state;
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "root.db", 1, true, 1);
    add_column(t, "s1", 1, SCHEMA_INT32, SCHEMA_FIELD, 2);
    add_series(t, "d1", 1, 2);
    add_series(t, "d2", 1, 2);
    assert_int_equal(schema_drop_series(t, "d1", 2, 1, 4), 0);
    const uint32_t id = 1;
    assert_false(schema_still_fits(t, "d1", 2, &id, 1, 3, 4));
    assert_true(schema_still_fits(t, "d1", 2, &id, 1, 2, 3));
    assert_true(schema_still_fits(t, "d2", 2, &id, 1, 3, 4));
    schema_destroy(s);
}

/* ---- no memory ---- */

/* Everything that allocates, with the k-th allocation refused: -ENOMEM, nothing changed, and the
 * same call works when it is made again. */
static int change(struct schema *s, struct schema_table *t, struct schema_table *tree, int what)
{
    switch (what) {
    case 0: return schema_add_table(s, "new", 3, 77, false, 0, 3, NULL);
    case 1: return schema_add_column(t, "new", 3, 500, SCHEMA_INT64, SCHEMA_FIELD, 3);
    case 2: return schema_rename_column(t, 1, "renamed", 7, 3);
    case 3: return schema_add_series(tree, "dnew", 4, 2, 3);
    default: return schema_drop_series(tree, "d1", 2, 2, 3);
    }
}

static bool is_changed(struct schema *s, struct schema_table *t, struct schema_table *tree,
                       int what)
{
    switch (what) {
    case 0: return find_table(s, "new", 3) != 0 || schema_table_by_incarnation(s, 77) != NULL;
    case 1: return find(t, "new", 3) != 0 || schema_column_by_id(s, 500) != NULL;
    case 2: return find(t, "renamed", 3) != 0 || find(t, "a", 3) == 0;
    case 3: return find_series(tree, "dnew", "s", 3) != 0;
    default: return find_series(tree, "d1", "s", 3) == 0;
    }
}

static void schema_changes__no_memory__nothing_changed(void **state)
{
    (void)state;
    for (int what = 0; what < 5; what++) {
        uint64_t failures = 0;
        for (uint64_t k = 1;; k++) {
            struct schema *s = new_schema();
            struct schema_table *t = add_table(s, "t", 1, false, 1);
            struct schema_table *tree = add_table(s, "root", 2, true, 1);
            add_field(t, "a", 1, 2);
            add_column(tree, "s", 2, SCHEMA_INT32, SCHEMA_FIELD, 2);
            add_series(tree, "d1", 2, 2);
            for (int i = 2; i <= 63; i++) { /* the next one needs a new chunk */
                char key[16];
                snprintf(key, sizeof key, "d%d", i);
                add_series(tree, key, 2, 2);
            }
            uint64_t calls = alloc_calls();
            alloc_fail_at(k);
            int rc = change(s, t, tree, what);
            alloc_fail_at(0);
            if (rc == 0) {
                assert_true(alloc_calls() - calls < k);
                assert_true(is_changed(s, t, tree, what));
                schema_destroy(s);
                break;
            }
            failures++;
            assert_int_equal(rc, -ENOMEM);
            assert_false(is_changed(s, t, tree, what));
            assert_int_equal(change(s, t, tree, what), 0);
            assert_true(is_changed(s, t, tree, what));
            schema_destroy(s);
        }
        assert_true(failures > 0);
    }
    struct schema *s = NULL;
    alloc_fail_at(1);
    assert_int_equal(schema_create(&s), -ENOMEM);
    alloc_fail_at(0);
    assert_null(s);
}

static void schema_destroy__after_everything__all_memory_back(void **state)
{
    (void)state;
    int64_t before = alloc_bytes_in_use();
    struct schema *s = new_schema();
    struct schema_table *t = add_table(s, "t", 1, false, 1);
    for (uint32_t id = 1; id <= 3000; id++) {
        char name[16];
        snprintf(name, sizeof name, "c%u", id);
        add_field(t, name, id, 2);
    }
    rename_column(t, 1, "renamed", 3);
    struct schema_counts counts;
    schema_count(s, &counts);
    assert_int_equal(counts.columns, 3000);
    assert_true(counts.bytes >= 3000 * 40);
    int64_t in_use = alloc_bytes_in_use() - before;
    assert_true(in_use >= (int64_t)counts.bytes && in_use <= (int64_t)counts.bytes + 64);
    schema_destroy(s);
    assert_int_equal(alloc_bytes_in_use(), before);
    schema_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schema_find_table__dropped_and_made_again__each_in_its_versions),
        cmocka_unit_test(schema_each_table__callback_stops__its_value_returned),
        cmocka_unit_test(schema_table_is_marked__marker_and_rollback__by_version),
        cmocka_unit_test(schema_table_ttl__set__newest_value),
        cmocka_unit_test(schema_find_column__added_and_dropped__by_version),
        cmocka_unit_test(schema_find_column__versions_of_forty_bits__compared_whole),
        cmocka_unit_test(schema_rename_column__several_times__each_name_in_its_versions),
        cmocka_unit_test(schema_tag__tags_among_fields__in_order_of_creation),
        cmocka_unit_test(schema_each_column__some_dropped__those_of_the_version_in_order),
        cmocka_unit_test(schema_find_series__two_devices__two_types_of_one_measurement),
        cmocka_unit_test(schema_drop_series__made_again__another_column),
        cmocka_unit_test(schema_find_series__a_device_grows__found_at_every_size),
        cmocka_unit_test(schema_still_fits__only_additions__fits),
        cmocka_unit_test(schema_still_fits__something_taken_away__only_who_wrote_it_is_refused),
        cmocka_unit_test(schema_still_fits__series_dropped__refused_for_that_device),
        cmocka_unit_test(schema_changes__no_memory__nothing_changed),
        cmocka_unit_test(schema_destroy__after_everything__all_memory_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
