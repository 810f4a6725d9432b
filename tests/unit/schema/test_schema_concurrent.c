/* ctest: concurrent
 *
 * One writer beside readers. What version v holds is a function of v, so each reader checks each
 * look-up against the version it acquired, whatever the writer has added since. */
#include "base/thread.h"
#include "schema/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define READERS     3
#define VERSIONS    20000
#define DROP_AFTER  40 /* a column of a multiple of three lives so many versions */
#define DEVICES     16
#define TABLE_EVERY 50

/* Version v brings column v of table 1, "c<v>"; every third is dropped, every fifth renamed to
 * "r<v>"; series (device v % DEVICES, "m<v>") of column VERSIONS + v in the tree; and with every
 * fiftieth a table "t<v>". */
static struct schema *schema;
static struct schema_table *table, *tree;
static _Atomic uint64_t published;
static _Atomic uint32_t wrong;
static _Atomic uint64_t looks; /* while the writer was at work */

static bool is_dropped(uint64_t v, uint64_t now)
{
    return v % 3 == 0 && now >= v + DROP_AFTER;
}
static bool is_renamed(uint64_t v, uint64_t now)
{
    return v % 5 == 0 && now >= v + DROP_AFTER / 2;
}

static void *write_versions(void *arg)
{
    char name[24], key[24];
    for (uint64_t v = 2; v <= VERSIONS; v++) {
        size_t n = (size_t)snprintf(name, sizeof name, "c%d", (int)v);
        int rc = schema_add_column(table, name, n, (uint32_t)v, SCHEMA_INT64, SCHEMA_FIELD, v);
        n = (size_t)snprintf(name, sizeof name, "m%d", (int)v);
        rc |= schema_add_column(tree, name, n, (uint32_t)(VERSIONS + v), SCHEMA_FLOAT, SCHEMA_FIELD,
                                v);
        n = (size_t)snprintf(key, sizeof key, "d%d", (int)(v % DEVICES));
        rc |= schema_add_series(tree, key, n, (uint32_t)(VERSIONS + v), v);
        if (v > DROP_AFTER + 2 && (v - DROP_AFTER) % 3 == 0) {
            schema_drop_column(table, (uint32_t)(v - DROP_AFTER), v);
            n = (size_t)snprintf(key, sizeof key, "d%d", (int)((v - DROP_AFTER) % DEVICES));
            rc |= schema_drop_series(tree, key, n, (uint32_t)(VERSIONS + v - DROP_AFTER), v);
        }
        if (v > DROP_AFTER / 2 + 2 && (v - DROP_AFTER / 2) % 5 == 0) {
            n = (size_t)snprintf(name, sizeof name, "r%d", (int)(v - DROP_AFTER / 2));
            rc |= schema_rename_column(table, (uint32_t)(v - DROP_AFTER / 2), name, n, v);
        }
        if (v % TABLE_EVERY == 0) {
            n = (size_t)snprintf(name, sizeof name, "t%d", (int)v);
            rc |= schema_add_table(schema, name, n, 100 + v, false, 0, v, NULL);
        }
        if (rc != 0) atomic_fetch_add(&wrong, 1);
        /* As the view does: pairs with the acquire in read_versions. */
        atomic_store_explicit(&published, v, memory_order_release);
    }
    return arg;
}

static uint32_t id_of(const struct schema_column *c)
{
    return c != NULL ? c->id : 0;
}

/* Everything about column v as version `now` has it. */
static bool column_is_right(uint64_t v, uint64_t now)
{
    char first[24], second[24];
    size_t n = (size_t)snprintf(first, sizeof first, "c%d", (int)v);
    size_t m = (size_t)snprintf(second, sizeof second, "r%d", (int)v);
    bool there = v <= now && !is_dropped(v, now);
    uint32_t by_first = there && !is_renamed(v, now) ? (uint32_t)v : 0;
    uint32_t by_second = there && is_renamed(v, now) ? (uint32_t)v : 0;
    if (id_of(schema_find_column(table, first, n, now)) != by_first) return false;
    if (id_of(schema_find_column(table, second, m, now)) != by_second) return false;
    if (!there) return true;
    const struct schema_column *c = schema_column_by_id(schema, (uint32_t)v);
    if (c == NULL || c->type != SCHEMA_INT64 || schema_table_of_column(schema, c->id) != table)
        return false;
    return strcmp(schema_column_name(table, c, now), by_second != 0 ? second : first) == 0;
}

static bool series_is_right(uint64_t v, uint64_t now)
{
    char key[24], name[24];
    size_t n = (size_t)snprintf(key, sizeof key, "d%d", (int)(v % DEVICES));
    size_t m = (size_t)snprintf(name, sizeof name, "m%d", (int)v);
    uint32_t expected = v <= now && !is_dropped(v, now) ? (uint32_t)(VERSIONS + v) : 0;
    return id_of(schema_find_series(tree, key, n, name, m, now)) == expected;
}

static int count_one(void *ctx, const struct schema_column *c)
{
    (void)c;
    ++*(uint64_t *)ctx;
    return 0;
}

static bool whole_is_right(uint64_t now)
{
    uint64_t expected = 0, columns = 0, series = 0;
    for (uint64_t v = 2; v <= now; v++)
        expected += !is_dropped(v, now);
    schema_each_column(table, now, count_one, &columns);
    for (int d = 0; d < DEVICES; d++) {
        char key[24];
        size_t n = (size_t)snprintf(key, sizeof key, "d%d", d);
        schema_each_series(tree, key, n, now, count_one, &series);
    }
    return columns == expected && series == expected;
}

/* A column that was there at `then` fits unless its end or its other name came since. */
static bool fit_is_right(uint64_t v, uint64_t then, uint64_t now)
{
    if (v > then || is_dropped(v, then)) return true;
    uint32_t id = (uint32_t)v;
    bool expected = !is_dropped(v, now) && is_renamed(v, then) == is_renamed(v, now);
    return schema_still_fits(table, NULL, 0, &id, 1, then, now) == expected;
}

static bool table_is_right(uint64_t v, uint64_t now)
{
    char name[24];
    size_t n = (size_t)snprintf(name, sizeof name, "t%d", (int)v);
    const struct schema_table *t = schema_find_table(schema, name, n, now);
    return (t != NULL) == (v <= now && v % TABLE_EVERY == 0 && v > 1);
}

static void *read_versions(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg, now, rounds = 0;
    do {
        now = atomic_load_explicit(&published, memory_order_acquire);
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t v = 2 + (random >> 33) % (now + 8),
                 recent = now > 50 ? now - (random >> 20) % 50 : 2;
        uint64_t then = now > 30 ? now - (random >> 40) % 30 : 1;
        bool right = column_is_right(v, now) && column_is_right(recent, now) &&
                     series_is_right(v, now) && series_is_right(recent, now) &&
                     fit_is_right(recent, then, now) && table_is_right(v - v % TABLE_EVERY, now);
        if (rounds++ % 64 == 0) right = right && whole_is_right(now);
        if (!right) atomic_fetch_add(&wrong, 1);
    } while (now < VERSIONS);
    atomic_fetch_add(&looks, rounds);
    return NULL;
}

static void schema_lookups__beside_the_writer__each_as_its_version_says(void **state)
{
    (void)state;
    assert_int_equal(schema_create(&schema), 0);
    assert_int_equal(schema_add_table(schema, "t", 1, 1, false, 0, 1, &table), 0);
    assert_int_equal(schema_add_table(schema, "root", 4, 2, true, 0, 1, &tree), 0);
    atomic_store(&published, 1);
    pthread_t reader[READERS], writer;
    for (uintptr_t i = 0; i < READERS; i++)
        assert_int_equal(thread_start(&reader[i], "reader", read_versions, (void *)(i + 1)), 0);
    assert_int_equal(thread_start(&writer, "writer", write_versions, NULL), 0);
    thread_join(writer);
    for (uintptr_t i = 0; i < READERS; i++)
        thread_join(reader[i]);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_true(atomic_load(&looks) > 100);
    assert_true(whole_is_right(VERSIONS));
    schema_destroy(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schema_lookups__beside_the_writer__each_as_its_version_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
