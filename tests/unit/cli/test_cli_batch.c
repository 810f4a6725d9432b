#include "cli/batch.h"
#include "cli/lp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct timefmt in_ns = {UNIT_NS, UNIT_NS, TIME_EXACT, NULL};

static bool add(struct batch *b, const char *line, uint32_t record, struct bad *bad)
{
    struct row row = {0};
    assert_int_equal(lp_parse(text_of(line), &in_ns, &row, bad), LP_ROW);
    bool ok = batch_add(b, &row, record, bad);
    row_deinit(&row);
    return ok;
}

static void add_ok(struct batch *b, const char *line, uint32_t record)
{
    struct bad bad = {0};
    if (!add(b, line, record, &bad)) fail_msg("%s", bad.why);
}

static const struct rf_column *column_named(const struct rf_tablet *t, const char *name)
{
    for (uint32_t i = 0; i < t->columns; i++)
        if (strcmp(t->column[i].name, name) == 0) return &t->column[i];
    return NULL;
}

static bool is_null(const struct rf_column *c, uint32_t row)
{
    return c->nulls != NULL && (c->nulls[row / 8] >> row % 8 & 1) != 0;
}

static void finish__columns_of_all_rows__unioned_with_nulls(void **state)
{
    (void)state;
    struct batch b = {0};
    batch_begin(&b);
    add_ok(&b, "cpu,host=a v=1,n=5i 10", 0);
    add_ok(&b, "mem,host=a free=7i 10", 1);
    add_ok(&b, "cpu,rack=r v=2,s=\"xy\" 9", 2);
    add_ok(&b, "cpu up=t 11", 4);
    add_ok(&b, "cpu s=\"\" 12", 5);
    batch_finish(&b);
    assert_int_equal(b.tablet_count, 2);
    assert_int_equal(b.rows, 5);
    assert_int_equal(b.points, 7);

    const struct rf_tablet *t = &b.tablet[0];
    assert_string_equal(t->table, "cpu");
    assert_int_equal(t->size, sizeof *t);
    assert_int_equal(t->rows, 4);
    assert_int_equal(t->columns, 6);
    static const int64_t times[] = {10, 9, 11, 12};
    assert_memory_equal(t->times, times, sizeof times);
    const struct rf_column *c = column_named(t, "v");
    assert_int_equal(c->type, RF_DOUBLE);
    assert_true(((const double *)c->values)[1] == 2);
    assert_false(is_null(c, 0) || is_null(c, 1));
    assert_true(is_null(c, 2) && is_null(c, 3));
    c = column_named(t, "host");
    assert_int_equal(c->category, RF_TAG);
    assert_true(!is_null(c, 0) && is_null(c, 1) && is_null(c, 3));
    c = column_named(t, "s");
    static const uint32_t offsets[] = {0, 0, 2, 2, 2};
    assert_memory_equal(c->offsets, offsets, sizeof offsets);
    assert_memory_equal(c->values, "xy", 2);
    assert_true(is_null(c, 0) && !is_null(c, 1) && is_null(c, 2) && !is_null(c, 3));
    assert_int_equal(b.tablet[1].rows, 1);

    assert_int_equal(batch_record_of_row(&b, 0, 2), 4);
    assert_int_equal(batch_record_of_row(&b, 0, 4), UINT32_MAX);
    assert_int_equal(batch_record_of_row(&b, 2, 0), UINT32_MAX);
    uint32_t row = 0;
    uint32_t s = (uint32_t)(column_named(t, "s") - t->column);
    assert_int_equal(batch_record_of_column(&b, 0, s, &row), 2);
    row++;
    assert_int_equal(batch_record_of_column(&b, 0, s, &row), 5);
    row++;
    assert_int_equal(batch_record_of_column(&b, 0, s, &row), UINT32_MAX);
    batch_deinit(&b);
}

static void begin__again__nothing_of_the_last_batch_is_left(void **state)
{
    (void)state;
    struct batch b = {0};
    batch_begin(&b);
    for (int i = 0; i < 100; i++)
        add_ok(&b, i % 2 != 0 ? "cpu,host=a v=1,w=2 10" : "cpu s=\"abc\" 3", 0);
    batch_finish(&b);
    batch_begin(&b);
    add_ok(&b, "cpu v=\"now text\" 10", 3);
    batch_finish(&b);
    assert_int_equal(b.tablet_count, 1);
    assert_int_equal(b.tablet[0].columns, 1);
    assert_int_equal(b.tablet[0].column[0].type, RF_STRING);
    assert_null(b.tablet[0].column[0].nulls);
    assert_int_equal(b.tablet[0].column[0].offsets[1], 8);
    assert_memory_equal(b.tablet[0].column[0].values, "now text", 8);
    assert_int_equal(b.points, 1);
    batch_deinit(&b);
}

static void add__an_empty_text_alone__is_no_null_array(void **state)
{
    (void)state;
    struct batch b = {0};
    batch_begin(&b);
    add_ok(&b, "cpu v=\"\" 10", 3);
    batch_finish(&b);
    assert_non_null(b.tablet[0].column[0].values);
    batch_deinit(&b);
}

static void add__what_does_not_fit__refused_with_the_column(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        size_t column;
        const char *why;
    } cases[] = {
        {"cpu a=1,v=2,a=3 10", 13, "twice"},
        {"cpu,host=x,host=y v=2 10", 12, "twice"},
        {"cpu,host=x v=2,host=3 10", 16, "twice"},
        {"cpu v=2i 10", 5, "INT64 here and DOUBLE"},
        {"cpu host=2 10", 5, "a field here and a tag"},
        {"cpu,v=a x=2 10", 5, "a tag here and a field"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct batch b = {0};
        struct bad bad = {0};
        batch_begin(&b);
        add_ok(&b, "cpu,host=a v=1 10", 0);
        assert_false(add(&b, cases[i].line, 1, &bad));
        assert_int_equal(bad.column, cases[i].column);
        if (strstr(bad.why, cases[i].why) == NULL) fail_msg("%s", bad.why);
        batch_deinit(&b);
    }
}

static void add__thousands_of_columns_in_any_order__each_keeps_its_values(void **state)
{
    (void)state;
    enum { COLUMNS = 3000 };
    struct batch b = {0};
    batch_begin(&b);
    for (uint32_t r = 0; r < 4; r++) {
        struct row row = {.table = {"wide", 4}, .time = r};
        static char names[COLUMNS][16];
        struct bad bad = {0};
        for (uint32_t i = 0; i < COLUMNS; i++) {
            uint32_t n = r % 2 != 0 ? COLUMNS - 1 - i : i * 7 % COLUMNS;
            if (r == 2 && n % 3 == 0) continue;
            snprintf(names[i], sizeof names[i], "c%u", n);
            struct cell *cell = row_add(&row);
            cell->name = text_of(names[i]);
            cell->category = RF_FIELD;
            cell->type = RF_INT64;
            cell->i64 = (int64_t)r * COLUMNS + n;
        }
        assert_true(batch_add(&b, &row, r, &bad));
        row_deinit(&row);
    }
    batch_finish(&b);
    assert_int_equal(b.tablet[0].columns, COLUMNS);
    for (uint32_t i = 0; i < COLUMNS; i++) {
        const struct rf_column *c = &b.tablet[0].column[i];
        int64_t n = atoi(c->name + 1);
        for (uint32_t r = 0; r < 4; r++) {
            assert_int_equal(is_null(c, r), r == 2 && n % 3 == 0);
            if (!is_null(c, r)) assert_true(((const int64_t *)c->values)[r] == r * COLUMNS + n);
        }
    }
    batch_deinit(&b);
}

static void declare__before_rows__columns_in_that_order(void **state)
{
    (void)state;
    struct batch b = {0};
    batch_begin(&b);
    batch_declare(&b, text_of("cpu"), text_of("w"));
    batch_declare(&b, text_of("cpu"), text_of("unused"));
    batch_declare(&b, text_of("cpu"), text_of("v"));
    add_ok(&b, "cpu v=1,w=2,x=3 10", 0);
    batch_finish(&b);
    assert_int_equal(b.tablet[0].columns, 3);
    assert_string_equal(b.tablet[0].column[0].name, "w");
    assert_string_equal(b.tablet[0].column[1].name, "v");
    assert_string_equal(b.tablet[0].column[2].name, "x");
    batch_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(declare__before_rows__columns_in_that_order),
        cmocka_unit_test(finish__columns_of_all_rows__unioned_with_nulls),
        cmocka_unit_test(begin__again__nothing_of_the_last_batch_is_left),
        cmocka_unit_test(add__an_empty_text_alone__is_no_null_array),
        cmocka_unit_test(add__what_does_not_fit__refused_with_the_column),
        cmocka_unit_test(add__thousands_of_columns_in_any_order__each_keeps_its_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
