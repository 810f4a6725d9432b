#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct seen {
    int count;
    int level;
    char event[64];
    char fields[2048];
};

static void remember(void *ctx, int level, const char *event, const char *fields)
{
    struct seen *seen = ctx;
    seen->count++;
    seen->level = level;
    snprintf(seen->event, sizeof seen->event, "%s", event);
    snprintf(seen->fields, sizeof seen->fields, "%s", fields);
}

static void log_event__callback_set__gets_level_event_and_fields(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct log log = {.level = LOG_LEVEL_INFO, .callback = remember, .ctx = &seen};
    log_warn(&log, "wal.sync_slow", "segment=%d took_us=%d", 7, 1500);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.level, LOG_LEVEL_WARN);
    assert_string_equal(seen.event, "wal.sync_slow");
    assert_string_equal(seen.fields, "segment=7 took_us=1500");
}

static void log_event__below_the_level__not_passed_on(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct log log = {.level = LOG_LEVEL_WARN, .callback = remember, .ctx = &seen};
    log_debug(&log, "a.b", "x=%d", 1);
    log_info(&log, "a.b", "x=%d", 1);
    assert_int_equal(seen.count, 0);
    log_warn(&log, "a.b", "x=%d", 1);
    log_error(&log, "a.b", "x=%d", 1);
    assert_int_equal(seen.count, 2);
    log.level = LOG_LEVEL_OFF;
    log_error(&log, "a.b", "x=%d", 1);
    assert_int_equal(seen.count, 2);
}

static void log_event__no_log__nothing_happens(void **state)
{
    (void)state;
    log_error(NULL, "a.b", "x=%d", 1);
}

static void log_event__fields_too_long__cut_and_marked(void **state)
{
    (void)state;
    struct seen seen = {0};
    struct log log = {.level = LOG_LEVEL_INFO, .callback = remember, .ctx = &seen};
    log_info(&log, "a.b", "x=%03000d", 1);
    assert_int_equal(strlen(seen.fields), 1023);
    assert_string_equal(seen.fields + 1020, "...");
    log_info(&log, "a.b", "x=%01021d", 1);
    assert_int_equal(strlen(seen.fields), 1023);
    assert_string_equal(seen.fields + 1020, "001");
}

/* What an event leaves on stderr, in text. */
static void on_stderr(const struct log *log, const char *fields, char *text, size_t bytes)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_int_equal(dup2(pipes[1], STDERR_FILENO), STDERR_FILENO);
    log_error(log, "io.backend", "%s", fields);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
    close(pipes[1]);
    ssize_t n = read(pipes[0], text, bytes - 1);
    close(pipes[0]);
    assert_true(n > 0);
    text[n] = '\0';
}

static void log_event__no_callback__one_line_on_stderr(void **state)
{
    (void)state;
    struct log log = {.level = LOG_LEVEL_INFO};
    char text[2048];
    on_stderr(&log, "name=posix errno=1", text, sizeof text);
    unsigned year;
    assert_int_equal(sscanf(text, "%4u-%*2u-%*2uT%*2u:%*2u:%*2u.%*6uZ", &year), 1);
    assert_true(year >= 2024);
    assert_string_equal(text + 27, " error io.backend name=posix errno=1\n");
    on_stderr(&log, "", text, sizeof text);
    assert_string_equal(text + 27, " error io.backend\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_event__callback_set__gets_level_event_and_fields),
        cmocka_unit_test(log_event__below_the_level__not_passed_on),
        cmocka_unit_test(log_event__no_log__nothing_happens),
        cmocka_unit_test(log_event__fields_too_long__cut_and_marked),
        cmocka_unit_test(log_event__no_callback__one_line_on_stderr),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
