#include "base/errors.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void err_find__own_code__row_with_class_and_retry(void **state)
{
    (void)state;
    const struct err_row *row = err_find(-536);
    assert_non_null(row);
    assert_int_equal(row->number, RFE_LEASE_FENCED_RETRY);
    assert_int_equal(row->cls, ERR_CLASS_RETRY);
    assert_int_equal(row->retry, ERR_RETRY_UNTIL_SUCCESS);
    assert_ptr_equal(err_find(536), row);
    assert_int_equal(err_find(-535)->retry, ERR_RETRY_NONE);
    assert_int_equal(err_find(-RFE_CORRUPT)->cls, ERR_CLASS_FATAL);
}

static void err_find__errno_zero_or_stranger__null(void **state)
{
    (void)state;
    assert_null(err_find(-EIO));
    assert_null(err_find(0));
    assert_null(err_find(-9999));
    assert_null(err_find(INT_MIN));
}

static void err_text__any_code__never_null(void **state)
{
    (void)state;
    assert_string_equal(err_text(-RFE_NO_TABLE), "no such table");
    assert_string_equal(err_text(RFE_NO_TABLE), "no such table");
    assert_string_equal(err_text(-ENOENT), "No such file or directory");
    assert_string_equal(err_text(0), "ok");
    assert_string_equal(err_text(-199), "unknown error");
    assert_string_equal(err_text(-9999), "unknown error");
    assert_string_equal(err_text(INT_MIN), "unknown error");
}

static void err_name__any_code__never_null(void **state)
{
    (void)state;
    assert_string_equal(err_name(-RFE_NO_TABLE), "NO_TABLE");
    assert_string_equal(err_name(-ENOENT), "ENOENT");
    assert_string_equal(err_name(0), "OK");
    assert_string_equal(err_name(-9999), "UNKNOWN_CODE");
    assert_string_equal(err_name(INT_MIN), "UNKNOWN_CODE");
}

/* Read independently of errors.c, so that a row added in the wrong range is found. */
static void errors_def__every_row__unique_number_in_range_and_text(void **state)
{
    (void)state;
    static const struct {
        int number;
        const char *name;
        const char *text;
    } rows[] = {
#define RF_E(name, number, cls, retry, text) {(number), #name, text},
#include "base/errors.def"
#undef RF_E
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(rows[i].number >= ERR_NUMBER_MIN);
        assert_true(rows[i].text[0] != '\0');
        assert_string_equal(err_name(-rows[i].number), rows[i].name);
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(rows[i].number, rows[k].number);
            assert_string_not_equal(rows[i].name, rows[k].name);
        }
    }
}

static void err_set__first_error__stored_and_returned(void **state)
{
    (void)state;
    struct err_msg msg = {0};
    assert_int_equal(err_set(&msg, -RFE_CORRUPT, "%s: offset %d", "seg", 64), -RFE_CORRUPT);
    assert_int_equal(msg.code, -RFE_CORRUPT);
    assert_string_equal(msg.text, "seg: offset 64");
}

static void err_set__second_error__first_one_kept(void **state)
{
    (void)state;
    struct err_msg msg = {0};
    err_set(&msg, -EIO, "first");
    assert_int_equal(err_set(&msg, -RFE_CORRUPT, "second"), -RFE_CORRUPT);
    assert_int_equal(msg.code, -EIO);
    assert_string_equal(msg.text, "first");
}

static void err_set__no_message_wanted__code_returned(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, -EIO, "nobody reads this"), -EIO);
}

static void err_set__long_text__cut_to_the_buffer(void **state)
{
    (void)state;
    struct err_msg msg = {0};
    err_set(&msg, -EIO, "%0*d", ERR_MSG_BYTES * 2, 7);
    assert_int_equal(strlen(msg.text), ERR_MSG_BYTES - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_find__own_code__row_with_class_and_retry),
        cmocka_unit_test(err_find__errno_zero_or_stranger__null),
        cmocka_unit_test(err_text__any_code__never_null),
        cmocka_unit_test(err_name__any_code__never_null),
        cmocka_unit_test(errors_def__every_row__unique_number_in_range_and_text),
        cmocka_unit_test(err_set__first_error__stored_and_returned),
        cmocka_unit_test(err_set__second_error__first_one_kept),
        cmocka_unit_test(err_set__no_message_wanted__code_returned),
        cmocka_unit_test(err_set__long_text__cut_to_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
