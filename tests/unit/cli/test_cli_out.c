#include "cli/json.h"
#include "cli/out.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char *written;
static size_t written_bytes;

static void expect(FILE *f, const char *text)
{
    fclose(f);
    if (strcmp(written, text) != 0) fail_msg("got:\n%s\nexpected:\n%s", written, text);
    free(written);
}

static FILE *begin(void)
{
    FILE *f = open_memstream(&written, &written_bytes);
    assert_non_null(f);
    return f;
}

/* Two rows of every type; the second is null where it can be. */
static struct rf_tablet two_rows(void)
{
    static const int64_t times[] = {1764547200000000000, -1};
    static const uint8_t boolean[] = {1, 0}, nulls[] = {2};
    static const int32_t i32[] = {INT32_MIN, 0}, date[] = {20240229, 0};
    static const int64_t i64[] = {INT64_MAX, 0}, stamp[] = {0, 0};
    static const float f32[] = {0.1f, 0};
    static const double f64[] = {0.1, NAN};
    static const uint32_t ends[] = {0, 4, 4}, blob_ends[] = {0, 2, 2};
    static const struct rf_column columns[] = {
        {"k", RF_STRING, RF_TAG, "a,\"b", ends, nulls},
        {"b", RF_BOOLEAN, RF_FIELD, boolean, NULL, nulls},
        {"i", RF_INT32, RF_FIELD, i32, NULL, nulls},
        {"l", RF_INT64, RF_FIELD, i64, NULL, nulls},
        {"f", RF_FLOAT, RF_FIELD, f32, NULL, nulls},
        {"d", RF_DOUBLE, RF_FIELD, f64, NULL, NULL},
        {"t", RF_TEXT, RF_FIELD, "x\ny ", ends, NULL},
        {"z", RF_TIMESTAMP, RF_FIELD, stamp, NULL, nulls},
        {"y", RF_DATE, RF_FIELD, date, NULL, nulls},
        {"x", RF_BLOB, RF_FIELD, "\x00\xff", blob_ends, NULL},
        {"n", RF_INT64, RF_FIELD, NULL, NULL, NULL},
    };
    return (struct rf_tablet){sizeof(struct rf_tablet), "t", NULL, 2, 11, times, columns};
}

static void csv__every_type_and_null__quoted_only_where_needed(void **state)
{
    (void)state;
    static const char *const names[] = {"k", "odd,name"};
    struct out out = {begin(), UNIT_NS, false};
    struct rf_tablet rows = two_rows();
    out_csv_header(&out, names, 2);
    out_csv_rows(&out, &rows);
    expect(out.file,
           "time,k,\"odd,name\"\n"
           "2025-12-01T00:00:00Z,\"a,\"\"b\",true,-2147483648,9223372036854775807,0.1,0.1,"
           "\"x\ny \",1970-01-01T00:00:00Z,2024-02-29,0x00ff,\n"
           "1969-12-31T23:59:59.999999999Z,,,,,,NaN,\"\",,,0x,\n");
}

static void csv__integer_times__in_the_unit(void **state)
{
    (void)state;
    struct out out = {begin(), UNIT_MS, true};
    struct rf_tablet rows = two_rows();
    rows.columns = 0;
    out_csv_rows(&out, &rows);
    expect(out.file, "1764547200000000000\n-1\n");
}

static void json__every_type_and_null__one_object_a_line(void **state)
{
    (void)state;
    struct out out = {begin(), UNIT_NS, false};
    struct rf_tablet rows = two_rows();
    out_json_rows(&out, &rows);
    expect(out.file,
           "{\"time\":\"2025-12-01T00:00:00Z\",\"k\":\"a,\\\"b\",\"b\":true,\"i\":-2147483648,"
           "\"l\":9223372036854775807,\"f\":0.1,\"d\":0.1,\"t\":\"x\\ny \","
           "\"z\":\"1970-01-01T00:00:00Z\",\"y\":\"2024-02-29\",\"x\":\"0x00ff\",\"n\":null}\n"
           "{\"time\":\"1969-12-31T23:59:59.999999999Z\",\"k\":null,\"b\":null,\"i\":null,"
           "\"l\":null,\"f\":null,\"d\":\"NaN\",\"t\":\"\",\"z\":null,\"y\":null,\"x\":\"0x\","
           "\"n\":null}\n");
}

static void json__text__escaped_and_always_valid_utf8(void **state)
{
    (void)state;
    struct json j = {begin(), false};
    json_open(&j, NULL, '[');
    json_string(&j, NULL, "\"\\\n\t\x01\x7f");
    json_string(&j, NULL, "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
    json_string(&j, NULL, "a\xff\xc3(\xe2\x82");
    json_double(&j, NULL, -INFINITY);
    json_close(&j, ']');
    json_end_line(&j);
    expect(j.file, "[\"\\\"\\\\\\n\\t\\u0001\\u007f\",\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\","
                   "\"a\\ufffd\\ufffd(\\ufffd\\ufffd\",\"-inf\"]\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv__every_type_and_null__quoted_only_where_needed),
        cmocka_unit_test(csv__integer_times__in_the_unit),
        cmocka_unit_test(json__every_type_and_null__one_object_a_line),
        cmocka_unit_test(json__text__escaped_and_always_valid_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
