#include "cli/csv.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct csv_record scratch;
static struct row row;

static struct csv_options options_of(const char *time)
{
    return (struct csv_options){
        .table = text_of("t"),
        .time = text_of(time),
        .time_format = {UNIT_NS, UNIT_NS, TIME_EXACT, NULL},
        .null = text_of(""),
    };
}

static struct csv_header header_of(const struct csv_options *options, const char *line)
{
    struct csv_header header;
    struct bad bad = {0};
    if (!csv_header_init(&header, options, text_of(line), &bad)) fail_msg("%s", bad.why);
    return header;
}

static void accept(struct csv_header *header, const char *line)
{
    struct bad bad = {0};
    csv_settle(header, text_of(line), &scratch);
    if (csv_parse(header, text_of(line), &scratch, &row, &bad) != CSV_ROW)
        fail_msg("refused: %zu: %s", bad.column, bad.why);
}

static void refuse(struct csv_header *header, const char *line, size_t column, const char *why)
{
    struct bad bad = {0};
    csv_settle(header, text_of(line), &scratch);
    assert_int_equal(csv_parse(header, text_of(line), &scratch, &row, &bad), CSV_BAD);
    if (bad.column != column || strstr(bad.why, why) == NULL)
        fail_msg("%s: got %zu: %s, expected %zu: ...%s...", line, bad.column, bad.why, column, why);
}

static void split__quotes_and_empty_fields__in_pieces(void **state)
{
    (void)state;
    struct bad bad = {0};
    assert_true(csv_split(text_of("a,,\"b,\"\"c\"\"\n\",\"\", d \r"), &scratch, &bad));
    assert_int_equal(scratch.count, 5);
    assert_true(text_is(scratch.field[0].text, "a"));
    assert_true(text_is(scratch.field[1].text, ""));
    assert_false(scratch.field[1].quoted);
    assert_int_equal(scratch.field[1].column, 3);
    assert_true(text_is(scratch.field[2].text, "b,\"c\"\n"));
    assert_true(scratch.field[3].quoted);
    assert_true(text_is(scratch.field[4].text, " d "));
    assert_true(csv_split(text_of("a,"), &scratch, &bad));
    assert_int_equal(scratch.count, 2);
}

static void split__misplaced_quotes__refused_with_the_column(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t column;
    } cases[] = {{"a,b\"c", 4}, {"a,\"b", 3}, {"a,\"b\"c,d", 6}, {"\"a\" ,b", 4}, {"\"", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bad bad = {0};
        assert_false(csv_split(text_of(cases[i].text), &scratch, &bad));
        assert_int_equal(bad.column, cases[i].column);
    }
}

static void parse__no_types_given__inferred_from_the_first_value(void **state)
{
    (void)state;
    struct csv_options o = options_of("when");
    struct csv_header h = header_of(&o, "a,b,c,when,d,e");
    accept(&h, "1.5,true,x,5,,NaN");
    assert_int_equal(row.time, 5);
    assert_int_equal(row.cell_count, 4);
    assert_int_equal(row.cell[0].type, RF_DOUBLE);
    assert_true(row.cell[0].f64 == 1.5);
    assert_int_equal(row.cell[1].type, RF_BOOLEAN);
    assert_int_equal(row.cell[1].boolean, 1);
    assert_int_equal(row.cell[2].type, RF_STRING);
    assert_true(isnan(row.cell[3].f64));
    assert_int_equal(h.unsettled, 1);
    accept(&h, ",FALSE,,6,2026-01-01,-inf");
    assert_int_equal(h.unsettled, 0);
    assert_int_equal(row.cell_count, 3);
    assert_int_equal(row.cell[0].boolean, 0);
    assert_int_equal(row.cell[1].type, RF_STRING);
    assert_true(row.cell[2].f64 == -INFINITY);
    refuse(&h, "abc,true,x,7,,", 1, "no DOUBLE");
    refuse(&h, "1,maybe,x,7,,", 3, "no BOOLEAN");
    refuse(&h, "1e999,,x,7,,", 1, "no DOUBLE");
    csv_header_deinit(&h);
}

static void parse__types_asked_for__kept(void **state)
{
    (void)state;
    struct csv_type types[] = {
        {text_of("i"), RF_INT32}, {text_of("l"), RF_INT64},     {text_of("f"), RF_FLOAT},
        {text_of("s"), RF_TEXT},  {text_of("z"), RF_TIMESTAMP}, {text_of("d"), RF_DATE},
        {text_of("b"), RF_BLOB},  {text_of("o"), RF_BOOLEAN},
    };
    struct csv_options o = options_of("time");
    o.types = types;
    o.type_count = 8;
    struct csv_header h = header_of(&o, "time,i,l,f,s,z,d,b,o");
    accept(&h, "1970-01-01,-5,9223372036854775807,0.1,12,1970-01-01T00:00:01Z,2024-02-29,0x00fF,1");
    assert_int_equal(row.cell[0].i32, -5);
    assert_true(row.cell[1].i64 == INT64_MAX);
    assert_true(row.cell[2].f32 == 0.1f);
    assert_int_equal(row.cell[3].type, RF_TEXT);
    assert_true(text_is(row.cell[3].text, "12"));
    assert_true(row.cell[4].i64 == 1000000000);
    assert_int_equal(row.cell[5].i32, 20240229);
    assert_int_equal(row.cell[6].text.bytes, 2);
    assert_memory_equal(row.cell[6].text.at, "\x00\xff", 2);
    assert_int_equal(row.cell[7].boolean, 1);
    refuse(&h, "0,2147483648,,,,,,,", 3, "no INT32");
    refuse(&h, "0,,1.5,,,,,,", 4, "no INT64");
    refuse(&h, "0,,,1e39,,,,,", 5, "no FLOAT");
    refuse(&h, "0,,,,,x,,,", 7, "is no time");
    refuse(&h, "0,,,,,,2023-02-29,,", 8, "no DATE");
    refuse(&h, "0,,,,,,,0x1,", 9, "no BLOB");
    refuse(&h, "0,,,,\xff,,,,", 6, "not UTF-8");
    csv_header_deinit(&h);
}

static void parse__type_of_the_table__used_for_columns_not_asked_for(void **state)
{
    (void)state;
    struct csv_type known[] = {{text_of("a"), RF_STRING}, {text_of("gone"), RF_INT32}};
    struct csv_options o = options_of("time");
    o.known = known;
    o.known_count = 2;
    struct csv_header h = header_of(&o, "time,a");
    accept(&h, "0,12");
    assert_int_equal(row.cell[0].type, RF_STRING);
    csv_header_deinit(&h);
}

static void parse__nulls__unquoted_text_alone_except_where_no_text_fits(void **state)
{
    (void)state;
    struct csv_type types[] = {{text_of("n"), RF_DOUBLE}};
    struct csv_options o = options_of("time");
    o.types = types;
    o.type_count = 1;
    struct csv_header h = header_of(&o, "time,s,n");
    accept(&h, "0,x,1");
    accept(&h, "0,\"\",\"\"");
    assert_int_equal(row.cell_count, 1);
    assert_int_equal(row.cell[0].text.bytes, 0);
    csv_header_deinit(&h);
    o.null = text_of("NA");
    h = header_of(&o, "time,s,n");
    accept(&h, "0,NA,NA");
    assert_int_equal(row.cell_count, 0);
    accept(&h, "0,,NA");
    assert_int_equal(row.cell_count, 1);
    refuse(&h, "0,x,", 5, "no DOUBLE");
    csv_header_deinit(&h);
}

static void parse__tags_and_time_anywhere__in_their_roles(void **state)
{
    (void)state;
    struct text tags[] = {text_of("host")};
    struct csv_options o = options_of("date");
    o.tags = tags;
    o.tag_count = 1;
    o.time_format.pattern = "%Y/%m/%d %H:%M:%S";
    struct csv_header h = header_of(&o, "\"temp\", date ,host");
    accept(&h, "47.8,2010/01/01 00:00:00,12");
    assert_int_equal(row.cell_count, 2);
    assert_int_equal(row.cell[1].category, RF_TAG);
    assert_int_equal(row.cell[1].type, RF_STRING);
    assert_true(text_is(row.cell[1].text, "12"));
    refuse(&h, "47.8,2010/13/01 00:00:00,12", 6, "does not match");
    refuse(&h, "47.8,,12", 6, "no time");
    refuse(&h, "47.8,2010/01/01 00:00:00", 25, "2 fields");
    refuse(&h, "47.8,2010/01/01 00:00:00,1,2", 28, "4 fields");
    refuse(&h, "47.8,2010/01/01 00:00:00,\"a\nb\"", 26, "control character 0x0a");
    struct bad bad = {0};
    assert_int_equal(csv_parse(&h, text_of("\r"), &scratch, &row, &bad), CSV_NOTHING);
    csv_header_deinit(&h);
}

static void header__absurd__refused_with_the_column(void **state)
{
    (void)state;
    struct csv_options o = options_of("time");
    static const struct {
        const char *line;
        size_t column;
        const char *why;
    } cases[] = {
        {"time,a,a", 8, "twice"},         {"time,,a", 6, "empty"},
        {"a,b", 1, "no column \"time\""}, {"time,a\tb", 7, "control"},
        {"time,\"a", 6, "never closed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bad bad = {0};
        struct csv_header h;
        assert_false(csv_header_init(&h, &o, text_of(cases[i].line), &bad));
        assert_int_equal(bad.column, cases[i].column);
        assert_non_null(strstr(bad.why, cases[i].why));
    }
    struct text tags[] = {text_of("host")};
    struct csv_type types[] = {{text_of("x"), RF_INT32}};
    struct bad bad = {0};
    struct csv_header h;
    o.tags = tags;
    o.tag_count = 1;
    assert_false(csv_header_init(&h, &o, text_of("time,a"), &bad));
    assert_non_null(strstr(bad.why, "--tags"));
    o.tag_count = 0;
    o.types = types;
    o.type_count = 1;
    bad = (struct bad){0};
    assert_false(csv_header_init(&h, &o, text_of("time,a"), &bad));
    assert_non_null(strstr(bad.why, "--types"));
    o.type_count = 0;
    o.time = text_of("date");
    bad = (struct bad){0};
    assert_false(csv_header_init(&h, &o, text_of("date,time"), &bad));
    assert_non_null(strstr(bad.why, "can't be named"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split__quotes_and_empty_fields__in_pieces),
        cmocka_unit_test(split__misplaced_quotes__refused_with_the_column),
        cmocka_unit_test(parse__no_types_given__inferred_from_the_first_value),
        cmocka_unit_test(parse__types_asked_for__kept),
        cmocka_unit_test(parse__type_of_the_table__used_for_columns_not_asked_for),
        cmocka_unit_test(parse__nulls__unquoted_text_alone_except_where_no_text_fits),
        cmocka_unit_test(parse__tags_and_time_anywhere__in_their_roles),
        cmocka_unit_test(header__absurd__refused_with_the_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
