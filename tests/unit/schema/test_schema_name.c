#include "base/errors.h"
#include "schema/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static int check(const char *name)
{
    return schema_check_name(name, strlen(name));
}

static void schema_check_name__good_names__taken(void **state)
{
    (void)state;
    static const char *const good[] = {
        "a",
        " ",
        "a.b",
        "with \"quotes\"",
        "\xc3\xa4",
        "\xe2\x82\xac",
        "\xf0\x9f\x98\x80",
        "\xc2\xa0",
        "\xed\x9f\xbf",
        "\xee\x80\x80",
        "\xf4\x8f\xbf\xbf",
        "\x7e",
        "\xef\xbf\xbf",
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(check(good[i]), 0);
    char longest[256];
    memset(longest, 'x', sizeof longest);
    assert_int_equal(schema_check_name(longest, 255), 0);
    assert_int_equal(schema_check_name(longest, 256), -RFE_BAD_NAME);
}

static void schema_check_name__bad_names__refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",                 /* nothing */
        "a\nb",             /* C0 */
        "\x1f",             /* the last of C0 */
        "\x7f",             /* DEL */
        "\xc2\x80",         /* C1 */
        "\xc2\x9f",         /* the last of C1 */
        "\x80",             /* a continuation alone */
        "\xc3",             /* cut off */
        "\xe2\x82",         /* cut off */
        "\xf0\x9f\x98",     /* cut off */
        "\xc3\x28",         /* no continuation */
        "\xc0\xaf",         /* too long a form */
        "\xe0\x9f\xbf",     /* too long a form */
        "\xf0\x8f\xbf\xbf", /* too long a form */
        "\xed\xa0\x80",     /* a surrogate */
        "\xed\xbf\xbf",     /* the last surrogate */
        "\xf4\x90\x80\x80", /* above U+10FFFF */
        "\xf8\x88\x80\x80\x80",
        "\xff",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(check(bad[i]), -RFE_BAD_NAME);
    assert_int_equal(schema_check_name("a\0b", 3), -RFE_BAD_NAME);
    assert_int_equal(schema_check_name(NULL, 3), -RFE_BAD_NAME);
}

static void schema_type_bytes__every_code__its_size_or_none(void **state)
{
    (void)state;
    static const int bytes[] = {1, 4, 8, 4, 8, 0, -1, -1, 8, 4, 0, 0, -1, -1};
    for (int type = 0; type < 14; type++)
        assert_int_equal(schema_type_bytes(type), bytes[type]);
    assert_int_equal(schema_type_bytes(-1), -1);
    assert_int_equal(schema_type_bytes(256), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schema_check_name__good_names__taken),
        cmocka_unit_test(schema_check_name__bad_names__refused),
        cmocka_unit_test(schema_type_bytes__every_code__its_size_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
