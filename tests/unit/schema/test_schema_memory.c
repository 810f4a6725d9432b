/* The memory that the header promises, at sizes where the tables of numbers have just grown. */
#include "base/alloc.h"
#include "schema/schema.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BYTES_MAX 64.0

static void report(const char *what, uint32_t count, int64_t bytes, uint64_t text)
{
    double each = (double)(bytes - (int64_t)text) / count;
    printf("%s: %" PRIu32 " take %.1f bytes each, names and keys apart\n", what, count, each);
    assert_true(each <= BYTES_MAX);
}

static void columns(uint32_t count)
{
    struct schema *s;
    struct schema_table *t;
    assert_int_equal(schema_create(&s), 0);
    assert_int_equal(schema_add_table(s, "t", 1, 1, false, 0, 1, &t), 0);
    int64_t before = alloc_bytes_in_use();
    uint64_t text = 0;
    for (uint32_t id = 1; id <= count; id++) {
        char name[24];
        size_t bytes = (size_t)snprintf(name, sizeof name, "column_%u", id);
        assert_int_equal(schema_add_column(t, name, bytes, id, SCHEMA_DOUBLE, SCHEMA_FIELD, 1), 0);
        text += bytes;
    }
    report("columns", count, alloc_bytes_in_use() - before, text);
    for (uint32_t id = 1; id <= count; id += 97) {
        char name[24];
        size_t bytes = (size_t)snprintf(name, sizeof name, "column_%u", id);
        assert_int_equal(schema_find_column(t, name, bytes, 1)->id, id);
    }
    schema_destroy(s);
}

/* devices x series_each series, of series_each columns. */
static void series(uint32_t devices, uint32_t series_each)
{
    struct schema *s;
    struct schema_table *t;
    assert_int_equal(schema_create(&s), 0);
    assert_int_equal(schema_add_table(s, "root.db", 7, 1, true, 0, 1, &t), 0);
    for (uint32_t id = 1; id <= series_each; id++) {
        char name[24];
        size_t bytes = (size_t)snprintf(name, sizeof name, "m%u", id);
        assert_int_equal(schema_add_column(t, name, bytes, id, SCHEMA_DOUBLE, SCHEMA_FIELD, 1), 0);
    }
    int64_t before = alloc_bytes_in_use();
    uint64_t text = 0;
    for (uint32_t d = 0; d < devices; d++) {
        char key[24];
        size_t bytes = (size_t)snprintf(key, sizeof key, "plant.line%u", d);
        text += bytes;
        for (uint32_t id = 1; id <= series_each; id++)
            assert_int_equal(schema_add_series(t, key, bytes, id, 1), 0);
    }
    report("series", devices * series_each, alloc_bytes_in_use() - before, text);
    for (uint32_t d = 0; d < devices; d += 101) {
        char key[24], name[24];
        size_t bytes = (size_t)snprintf(key, sizeof key, "plant.line%u", d);
        uint32_t id = 1 + d % series_each;
        size_t name_bytes = (size_t)snprintf(name, sizeof name, "m%u", id);
        assert_int_equal(schema_find_series(t, key, bytes, name, name_bytes, 1)->id, id);
    }
    schema_destroy(s);
}

static void schema_memory__columns__within_the_promise(void **state)
{
    (void)state;
    columns(100000);
    columns(53249); /* 13/16 of 65,536, and one */
    columns(106497);
}

static void schema_memory__a_million_series__within_the_promise(void **state)
{
    (void)state;
    series(100000, 10);
    series(106497, 1);
    series(11834, 9); /* one more than is walked; 106,506 series */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schema_memory__columns__within_the_promise),
        cmocka_unit_test(schema_memory__a_million_series__within_the_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
