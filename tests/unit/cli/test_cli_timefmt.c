#include "cli/timefmt.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static const struct timefmt plain_ns = {UNIT_NS, UNIT_NS, TIME_EXACT, NULL};

static int64_t read_time(const struct timefmt *f, const char *text)
{
    struct bad bad = {0};
    int64_t time = 0;
    if (!timefmt_parse(f, text_of(text), 1, &time, &bad)) fail_msg("%s", bad.why);
    return time;
}

static void refuse(const struct timefmt *f, const char *text, const char *why)
{
    struct bad bad = {0};
    int64_t time = 42;
    assert_false(timefmt_parse(f, text_of(text), 9, &time, &bad));
    assert_int_equal(bad.column, 9);
    if (strstr(bad.why, why) == NULL) fail_msg("\"%s\" does not say \"%s\"", bad.why, why);
}

static void parse__iso_forms__all_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t time;
    } cases[] = {
        {"1970-01-01", 0},
        {"1970-01-01T00:00:01Z", 1000000000},
        {"1970-01-01 00:01", 60000000000},
        {"1969-12-31T23:59:59.999999999Z", -1},
        {"1970-01-01T00:00:00.5", 500000000},
        {"1970-01-01T02:00:00+02:00", 0},
        {"1969-12-31t19:30:00-0430", 0},
        {"1970-01-01T01:00:00+01", 0},
        {"2026-11-30T20:47:00z", INT64_C(1796071620000000000)},
        {"2000-02-29", INT64_C(951782400000000000)},
        {"1958-03-29", INT64_C(-371174400000000000)},
        {"1677-09-21T00:12:43.145224192Z", INT64_MIN},
        {"2262-04-11T23:47:16.854775807Z", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"9223372036854775807", INT64_MAX},
        {"-1", -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(read_time(&plain_ns, cases[i].text) == cases[i].time);
}

static void parse__malformed__refused_with_place_and_text(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "x",
                                      "2026",
                                      "2026-1-1x",
                                      "2026-13-01",
                                      "2026-02-29",
                                      "2026-01-01T",
                                      "2026-01-01T24:00:00Z",
                                      "2026-01-01T00:60:00Z",
                                      "2026-01-01T00:00:60Z",
                                      "2026-01-01T00:00:00.Z",
                                      "2026-01-01T00:00:00.1234567890Z",
                                      "2026-01-01T00:00:00+2",
                                      "2026-01-01T00:00:00Zx",
                                      "1.5",
                                      "+2026-1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (strcmp(bad[i], "2026") == 0) continue; /* an integer */
        refuse(&plain_ns, bad[i], "is no time");
    }
    refuse(&plain_ns, "2262-04-11T23:47:16.854775808Z", "outside");
    refuse(&plain_ns, "1677-09-21T00:12:43.145224191Z", "outside");
    refuse(&plain_ns, "9223372036854775808", "outside");
    refuse(&plain_ns, "9999-12-31", "outside");
}

static void parse__other_units__scaled_exactly_or_refused(void **state)
{
    (void)state;
    struct timefmt s_to_ns = {UNIT_S, UNIT_NS, TIME_EXACT, NULL};
    assert_true(read_time(&s_to_ns, "-7") == -7000000000);
    refuse(&s_to_ns, "9223372037", "outside");
    struct timefmt ns_to_ms = {UNIT_NS, UNIT_MS, TIME_EXACT, NULL};
    assert_true(read_time(&ns_to_ms, "-3000000") == -3);
    refuse(&ns_to_ms, "3000001", "whole number of ms");
    refuse(&ns_to_ms, "1970-01-01T00:00:00.0005Z", "whole number of ms");
    struct timefmt bound = {UNIT_MS, UNIT_MS, TIME_CEIL, NULL};
    assert_true(read_time(&bound, "1970-01-01T00:00:00.0005Z") == 1);
    assert_true(read_time(&bound, "1969-12-31T23:59:59.9995Z") == 0);
    assert_true(read_time(&bound, "1969-12-31T23:59:59.998Z") == -2);
}

static void parse__patterns__as_strptime_with_fractions(void **state)
{
    (void)state;
    struct timefmt f = {UNIT_NS, UNIT_NS, TIME_EXACT, "%Y/%m/%d %H:%M:%S"};
    assert_true(read_time(&f, "2010/01/01 01:00:00") == INT64_C(1262307600000000000));
    refuse(&f, "2010/02/30 01:00:00", "does not match");
    refuse(&f, "2010/01/01 01:00:00 x", "does not match");
    refuse(&f, "12", "does not match");
    f.pattern = "%Y%m%d";
    assert_true(read_time(&f, "19580329") == INT64_C(-371174400000000000));
    f.pattern = "%d.%m.%Y %H:%M:%S.%f %z";
    assert_true(read_time(&f, "01.01.1970 01:00:00.25 +0100") == 250000000);
    refuse(&f, "01.01.1970 01:00:00. +0100", "does not match");
    f.pattern = "%H%%f%M"; /* a percent sign, then the letter f */
    assert_true(read_time(&f, "01%f30") == INT64_C(5400000000000));
}

static void iso__random_and_extreme_times__read_back_in_every_unit(void **state)
{
    (void)state;
    const char *given = getenv("RF_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    printf("RF_SEED=%" PRIu64 "\n", seed);
    for (int unit = UNIT_NS; unit <= UNIT_MS; unit++) {
        struct timefmt f = {UNIT_NS, (enum time_unit)unit, TIME_EXACT, NULL};
        for (int i = 0; i < 100000; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            int64_t time = (int64_t)(seed ^ seed >> 29) >> (i % 50);
            if (i == 0) time = INT64_MIN;
            if (i == 1) time = INT64_MAX;
            char out[TIME_TEXT_BYTES];
            size_t bytes = timefmt_iso(out, time, (enum time_unit)unit);
            assert_true(bytes < TIME_TEXT_BYTES && out[bytes] == '\0');
            assert_true(read_time(&f, out) == time);
        }
    }
}

static void iso__known_times__as_few_digits_as_needed(void **state)
{
    (void)state;
    static const struct {
        int64_t time;
        enum time_unit unit;
        const char *text;
    } cases[] = {
        {0, UNIT_NS, "1970-01-01T00:00:00Z"},
        {-1, UNIT_NS, "1969-12-31T23:59:59.999999999Z"},
        {1000, UNIT_NS, "1970-01-01T00:00:00.000001Z"},
        {1000000, UNIT_NS, "1970-01-01T00:00:00.001Z"},
        {-1, UNIT_MS, "1969-12-31T23:59:59.999Z"},
        {INT64_MIN, UNIT_NS, "1677-09-21T00:12:43.145224192Z"},
        {INT64_MAX, UNIT_MS, "+292278994-08-17T07:12:55.807Z"},
        {INT64_MIN, UNIT_MS, "-292275055-05-16T16:47:04.192Z"},
    };
    char out[TIME_TEXT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        timefmt_iso(out, cases[i].time, cases[i].unit);
        assert_string_equal(out, cases[i].text);
    }
}

static void dates__text_and_number__round_trip(void **state)
{
    (void)state;
    int32_t date = 0;
    char out[TIME_TEXT_BYTES];
    assert_true(timefmt_parse_date(text_of("2024-02-29"), &date));
    assert_int_equal(date, 20240229);
    timefmt_date(out, date);
    assert_string_equal(out, "2024-02-29");
    assert_true(timefmt_parse_date(text_of("19991231"), &date));
    assert_int_equal(date, 19991231);
    assert_false(timefmt_parse_date(text_of("2023-02-29"), &date));
    assert_false(timefmt_parse_date(text_of("2023-0229"), &date));
    assert_false(timefmt_parse_date(text_of("202302-28"), &date));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__iso_forms__all_read),
        cmocka_unit_test(parse__malformed__refused_with_place_and_text),
        cmocka_unit_test(parse__other_units__scaled_exactly_or_refused),
        cmocka_unit_test(parse__patterns__as_strptime_with_fractions),
        cmocka_unit_test(iso__random_and_extreme_times__read_back_in_every_unit),
        cmocka_unit_test(iso__known_times__as_few_digits_as_needed),
        cmocka_unit_test(dates__text_and_number__round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
