#include "cli/lp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct timefmt in_ns = {UNIT_NS, UNIT_NS, TIME_EXACT, NULL};
static struct row row;

static void accept(const char *line)
{
    struct bad bad = {0};
    /* In memory of its exact size, so that a sanitizer sees a read past its end. */
    size_t bytes = strlen(line);
    static char *copy;
    free(copy);
    copy = malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy, line, bytes);
    enum lp_result result = lp_parse((struct text){copy, bytes}, &in_ns, &row, &bad);
    if (result != LP_ROW) fail_msg("refused: %zu: %s", bad.column, bad.why);
}

static void refuse(const char *line, size_t column, const char *why)
{
    struct bad bad = {0};
    assert_int_equal(lp_parse(text_of(line), &in_ns, &row, &bad), LP_BAD);
    if (bad.column != column || strstr(bad.why, why) == NULL)
        fail_msg("%s: got %zu: %s, expected %zu: ...%s...", line, bad.column, bad.why, column, why);
}

static const struct cell *cell_named(const char *name)
{
    for (size_t i = 0; i < row.cell_count; i++)
        if (text_is(row.cell[i].name, name)) return &row.cell[i];
    fail_msg("no cell %s", name);
    return NULL;
}

static void parse__every_kind_of_value__typed_by_its_spelling(void **state)
{
    (void)state;
    accept("cpu,host=h1,rack=r7 a=1.5,b=-8i,c=8u,d=t,e=FALSE,f=\"x y,z=\",g=1e3,h=7 -1");
    assert_true(text_is(row.table, "cpu"));
    assert_int_equal(row.time, -1);
    assert_int_equal(row.cell_count, 10);
    assert_int_equal(cell_named("host")->category, RF_TAG);
    assert_true(text_is(cell_named("host")->text, "h1"));
    assert_int_equal(cell_named("rack")->column, 13);
    assert_int_equal(cell_named("a")->category, RF_FIELD);
    assert_int_equal(cell_named("a")->type, RF_DOUBLE);
    assert_true(cell_named("a")->f64 == 1.5);
    assert_int_equal(cell_named("b")->type, RF_INT64);
    assert_true(cell_named("b")->i64 == -8);
    assert_true(cell_named("c")->i64 == 8);
    assert_int_equal(cell_named("d")->type, RF_BOOLEAN);
    assert_int_equal(cell_named("d")->boolean, 1);
    assert_int_equal(cell_named("e")->boolean, 0);
    assert_int_equal(cell_named("f")->type, RF_STRING);
    assert_true(text_is(cell_named("f")->text, "x y,z="));
    assert_true(cell_named("g")->f64 == 1000);
    assert_int_equal(cell_named("h")->type, RF_DOUBLE);
}

static void parse__extreme_times_and_integers__bit_for_bit(void **state)
{
    (void)state;
    accept("m v=-9223372036854775808i -9223372036854775808");
    assert_true(row.time == INT64_MIN);
    assert_true(cell_named("v")->i64 == INT64_MIN);
    accept("m v=9223372036854775807u 9223372036854775807");
    assert_true(row.time == INT64_MAX);
    assert_true(cell_named("v")->i64 == INT64_MAX);
}

static void parse__escapes__taken_literally(void **state)
{
    (void)state;
    accept("my\\ cpu\\,x,ho\\=st=a\\,b\\ c\\=\\\"\\\\ fi\\ eld=\"say \\\"hi\\\" \\\\ \\n\" 5");
    assert_true(text_is(row.table, "my cpu,x"));
    assert_true(text_is(cell_named("ho=st")->text, "a,b c=\"\\"));
    assert_true(text_is(cell_named("fi eld")->text, "say \"hi\" \\ \\n"));
    accept("m=x \"q\"=1 5");
    assert_true(text_is(row.table, "m=x"));
    assert_true(cell_named("\"q\"")->f64 == 1);
}

static void parse__spaces_and_cr_around__passed_over(void **state)
{
    (void)state;
    accept("  m  v=1   7  \r");
    assert_int_equal(row.time, 7);
    accept("m v=\"\" 7");
    assert_int_equal(cell_named("v")->text.bytes, 0);
    accept("m v=\"tab\there\" 7");
}

static void parse__nothing_in_it__says_so(void **state)
{
    (void)state;
    static const char *const lines[] = {"", " ", "\r", "# m v=1 7", "  #x", "\t"};
    struct bad bad = {0};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_int_equal(lp_parse(text_of(lines[i]), &in_ns, &row, &bad), LP_NOTHING);
}

static void parse__malformed__refused_with_the_column(void **state)
{
    (void)state;
    refuse("m v=1", 6, "no time");
    refuse("m v=1 ", 7, "no time");
    refuse("m", 2, "no fields");
    refuse("m,a=b", 6, "no fields");
    refuse("m 5", 4, "has no value");
    refuse("m v=NaN 5", 5, "has no NaN");
    refuse("m v=-inf 5", 5, "has no -inf");
    refuse("m v= 5", 5, "has no value");
    refuse("m v=1e999 5", 5, "outside");
    refuse("m v=1,v2=x 5", 10, "no number");
    refuse("m v=9223372036854775808i 5", 5, "outside what INT64");
    refuse("m v=18446744073709551615u 5", 5, "outside what INT64");
    refuse("m v=-1u 5", 5, "no integer");
    refuse("m v=1.5i 5", 5, "no integer");
    refuse("m v=0x10 5", 5, "no number");
    refuse("m v=\"abc 5", 5, "not closed");
    refuse("m v=\"abc\\\" 5", 5, "not closed");
    refuse("m v=\"a\"b 5", 8, "a comma or a space");
    refuse("m v=1 5 6", 9, "nothing is expected");
    refuse("m v=1 5x", 7, "no integer");
    refuse("m v=1 2026-01-01", 7, "no integer");
    refuse("m v=1 9223372036854775808", 7, "outside");
    refuse("m,a v=1 5", 4, "has no value");
    refuse("m,a= v=1 5", 5, "empty value");
    refuse("m,=x v=1 5", 3, "name is empty");
    refuse(",a=b v=1 5", 1, "name is empty");
    refuse("m v=1, 5", 7, "name is empty");
    refuse("m,a=b=c v=1 5", 6, "needs a backslash");
    refuse("m\\x v=1 5", 2, "backslash");
    refuse("m,a\\tb=c v=1 5", 4, "backslash");
    refuse("m,a=c\\ v=1 5", 9, "needs a backslash");
    refuse("m,a=c\\n v=1 5", 6, "backslash");
    refuse("m v\\", 4, "backslash");
    refuse("m\x01 v=1 5", 2, "control character 0x01");
    refuse("m,a\tb=c v=1 5", 4, "control character 0x09");
    refuse("m,ab=c\x7f v=1 5", 7, "control character 0x7f");
    refuse("m a\\,b\x02=1 5", 7, "control character 0x02");
    refuse("m\xff v=1 5", 2, "not UTF-8");
    refuse("m,a=\xc3 v=1 5", 5, "not UTF-8");
    refuse("m v=\"\xc3\" 5", 5, "not UTF-8");
    refuse("m,time=a v=1 5", 3, "can't be named");
    refuse("m time=1 5", 3, "can't be named");
}

static void parse__coarser_unit__whole_units_only(void **state)
{
    (void)state;
    struct timefmt f = {UNIT_NS, UNIT_MS, TIME_EXACT, NULL};
    struct bad bad = {0};
    assert_int_equal(lp_parse(text_of("m v=1 5000000"), &f, &row, &bad), LP_ROW);
    assert_int_equal(row.time, 5);
    assert_int_equal(lp_parse(text_of("m v=1 5000001"), &f, &row, &bad), LP_BAD);
    assert_int_equal(bad.column, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__every_kind_of_value__typed_by_its_spelling),
        cmocka_unit_test(parse__extreme_times_and_integers__bit_for_bit),
        cmocka_unit_test(parse__escapes__taken_literally),
        cmocka_unit_test(parse__spaces_and_cr_around__passed_over),
        cmocka_unit_test(parse__nothing_in_it__says_so),
        cmocka_unit_test(parse__malformed__refused_with_the_column),
        cmocka_unit_test(parse__coarser_unit__whole_units_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
