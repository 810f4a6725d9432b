#include "cli/text.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static uint64_t seed_of_run(void)
{
    const char *given = getenv("RF_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    printf("RF_SEED=%" PRIu64 "\n", seed);
    return seed;
}

static uint64_t next_random(uint64_t *s)
{
    *s += 0x9e3779b97f4a7c15u;
    uint64_t z = (*s ^ (*s >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void utf8_length__valid_and_broken_sequences__stops_at_the_first_bad_byte(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t valid;
    } cases[] = {
        {"", 0},
        {"plain ascii, long enough for words of eight", 43},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9},
        {"12345678\xc3", 8},
        {"a\xc0\xaf", 1},        /* overlong */
        {"\xed\xa0\x80", 0},     /* surrogate */
        {"\xf4\x90\x80\x80", 0}, /* above U+10FFFF */
        {"ab\x80", 2},           /* continuation alone */
        {"\xe2\x82\xac\xe2\x82", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(text_utf8_length(text_of(cases[i].text)), cases[i].valid);
}

static void check_name__bad_names__refused_with_their_place(void **state)
{
    (void)state;
    char long_name[258];
    memset(long_name, 'x', 256);
    long_name[256] = '\0';
    struct bad bad = {0};
    assert_false(text_check_name(text_of(""), "tag", 7, &bad));
    assert_int_equal(bad.column, 7);
    bad = (struct bad){0};
    assert_false(text_check_name(text_of(long_name), "tag", 1, &bad));
    assert_non_null(strstr(bad.why, "256"));
    bad = (struct bad){0};
    assert_false(text_check_name(text_of("ab\tc"), "field", 5, &bad));
    assert_int_equal(bad.column, 7);
    assert_non_null(strstr(bad.why, "0x09"));
    bad = (struct bad){0};
    assert_false(text_check_name(text_of("a\xc2\x85"), "field", 1, &bad));
    assert_int_equal(bad.column, 2);
    bad = (struct bad){0};
    assert_false(text_check_name(text_of("a\xff"), "field", 1, &bad));
    assert_int_equal(bad.column, 2);
    bad = (struct bad){0};
    assert_false(text_check_name(text_of("time"), "field", 1, &bad));
    bad = (struct bad){0};
    assert_true(text_check_name(text_of("time"), "table", 1, &bad));
    long_name[255] = '\0';
    assert_true(text_check_name(text_of(long_name), "tag", 1, &bad));
    assert_true(text_check_name(text_of("Temp\xc3\xa9rature \xc2\xb0"
                                        "C"),
                                "tag", 1, &bad));
    assert_string_equal(bad.why, "");
}

static void to_i64__whole_range__read_and_beyond_refused(void **state)
{
    (void)state;
    int64_t v = 77;
    assert_true(text_to_i64(text_of("9223372036854775807"), &v));
    assert_true(v == INT64_MAX);
    assert_true(text_to_i64(text_of("-9223372036854775808"), &v));
    assert_true(v == INT64_MIN);
    assert_true(text_to_i64(text_of("+5"), &v));
    assert_true(v == 5);
    v = 77;
    static const char *const refused[] = {"9223372036854775808",
                                          "-9223372036854775809",
                                          "",
                                          "-",
                                          "+",
                                          "1.0",
                                          "0x10",
                                          " 1",
                                          "1 ",
                                          "--1"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_false(text_to_i64(text_of(refused[i]), &v));
    assert_true(v == 77);
}

static void to_double__grammar__exact_or_refused(void **state)
{
    (void)state;
    static const char *const good[] = {"0",
                                       "-0",
                                       "1",
                                       "+1.5",
                                       ".5",
                                       "5.",
                                       "1e5",
                                       "1E-5",
                                       "1e+22",
                                       "123456789012345678901234567890",
                                       "0.1",
                                       "2.2250738585072011e-308",
                                       "4.9e-324",
                                       "1.7976931348623157e308",
                                       "9007199254740993",
                                       "0.000000000000000000000000000001e30",
                                       "00000000000000000000001.5",
                                       "1e-400"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double v, expected = strtod(good[i], NULL);
        assert_int_equal(text_to_double(text_of(good[i]), &v), NUMBER_OK);
        assert_memory_equal(&v, &expected, sizeof v);
    }
    static const char *const none[] = {"",      ".",  "+",  "e5",  "1e",    "1e+", "nan",   "inf",
                                       "0x1p3", "1 ", " 1", "1,5", "1.2.3", "--1", "1e5.0", "12a"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        double v;
        assert_int_equal(text_to_double(text_of(none[i]), &v), NUMBER_NONE);
    }
    double v;
    assert_int_equal(text_to_double(text_of("1e309"), &v), NUMBER_RANGE);
    assert_int_equal(text_to_double(text_of("-1e99999999999"), &v), NUMBER_RANGE);
}

static void to_nonfinite__spellings__accepted(void **state)
{
    (void)state;
    double v;
    assert_true(text_to_nonfinite(text_of("NaN"), &v) && isnan(v));
    assert_true(text_to_nonfinite(text_of("-inf"), &v) && v == -INFINITY);
    assert_true(text_to_nonfinite(text_of("+Infinity"), &v) && v == INFINITY);
    assert_false(text_to_nonfinite(text_of("infinite"), &v));
    assert_false(text_to_nonfinite(text_of("1"), &v));
}

static void doubles__random_bits__text_reads_back_the_same_and_no_shorter_one_does(void **state)
{
    (void)state;
    uint64_t seed = seed_of_run();
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = next_random(&seed);
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (i % 3 == 0) value = (double)(int64_t)(bits % 2000000) / 1000.0 - 1000.0;
        if (isnan(value)) continue;
        char out[NUMBER_TEXT_BYTES], shorter[320];
        size_t bytes = text_from_double(out, value);
        if (isinf(value)) continue;
        assert_int_equal(text_to_double((struct text){out, bytes}, &back), NUMBER_OK);
        assert_memory_equal(&back, &value, sizeof back);
        int digits = 0; /* significant ones */
        for (char *p = out; *p != '\0' && *p != 'e'; p++)
            digits += *p >= (digits == 0 ? '1' : '0') && *p <= '9';
        if (digits <= 15) continue; /* trailing zeros may be among them */
        snprintf(shorter, sizeof shorter, "%.*g", digits - 1, value);
        assert_true(strtod(shorter, NULL) != value);
    }
}

static void floats__every_tenth_of_a_thousand__shortest_text(void **state)
{
    (void)state;
    char out[NUMBER_TEXT_BYTES], expected[NUMBER_TEXT_BYTES];
    for (int i = 1; i < 10000; i++) {
        float value = (float)i / 10.0f;
        text_from_float(out, value);
        if (i % 10 == 0)
            snprintf(expected, sizeof expected, "%d", i / 10);
        else
            snprintf(expected, sizeof expected, "%d.%d", i / 10, i % 10);
        assert_string_equal(out, expected);
    }
}

static void from_double__special_values__spelled(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"},
                 {0.0, "0"},
                 {-0.0, "-0"},
                 {1e300, "1e+300"},
                 {100000, "100000"},
                 {5e-324, "5e-324"},
                 {NAN, "NaN"},
                 {INFINITY, "inf"},
                 {-INFINITY, "-inf"},
                 {1.0 / 3, "0.3333333333333333"},
                 {0.1 + 0.2, "0.30000000000000004"}};
    char out[NUMBER_TEXT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(text_from_double(out, cases[i].value), strlen(cases[i].text));
        assert_string_equal(out, cases[i].text);
    }
}

static void nearest__a_slip_of_the_finger__named_and_far_words_not(void **state)
{
    (void)state;
    static const char *const words[] = {"--dir", "--table", "--format", "--time-format"};
    assert_string_equal(text_nearest("--tabel", words, 4), "--table");
    assert_string_equal(text_nearest("--fromat", words, 4), "--format");
    assert_null(text_nearest("--xyzzyq", words, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_length__valid_and_broken_sequences__stops_at_the_first_bad_byte),
        cmocka_unit_test(check_name__bad_names__refused_with_their_place),
        cmocka_unit_test(to_i64__whole_range__read_and_beyond_refused),
        cmocka_unit_test(to_double__grammar__exact_or_refused),
        cmocka_unit_test(to_nonfinite__spellings__accepted),
        cmocka_unit_test(doubles__random_bits__text_reads_back_the_same_and_no_shorter_one_does),
        cmocka_unit_test(floats__every_tenth_of_a_thousand__shortest_text),
        cmocka_unit_test(from_double__special_values__spelled),
        cmocka_unit_test(nearest__a_slip_of_the_finger__named_and_far_words_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
