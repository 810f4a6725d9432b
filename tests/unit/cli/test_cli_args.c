#include "cli/args.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"

struct values {
    bool flag, help;
    const char *text;
    struct arg_list list, rest;
    uint64_t count, bytes;
    int64_t ms;
    int choice;
};

static char messages[2000];

/* Parses words up to NULL; what goes to stderr is in `messages`. */
static bool parse(struct values *v, bool takes_rest, char **words)
{
    static const char *const choices[] = {"red", "green", NULL};
    const struct arg args[] = {
        {"--flag", ARG_FLAG, &v->flag, 0, 0, NULL},
        {"--text", ARG_TEXT, &v->text, 0, 0, NULL},
        {"--list", ARG_LIST, &v->list, 0, 0, NULL},
        {"--count", ARG_COUNT, &v->count, 2, 10, NULL},
        {"--bytes", ARG_BYTES, &v->bytes, 1, UINT64_C(1) << 40, NULL},
        {"--wait", ARG_SECONDS, &v->ms, 0, 0, NULL},
        {"--colour", ARG_CHOICE, &v->choice, 0, 0, choices},
    };
    int argc = 0;
    while (words[argc] != NULL)
        argc++;
    FILE *capture = tmpfile();
    assert_non_null(capture);
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    dup2(fileno(capture), STDERR_FILENO);
    bool ok = args_parse("test", argc, words, args, sizeof args / sizeof args[0],
                         takes_rest ? &v->rest : NULL, &v->help);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(capture);
    messages[fread(messages, 1, sizeof messages - 1, capture)] = '\0';
    fclose(capture);
    return ok;
}
#define PARSE(v, rest, ...) parse(v, rest, (char *[]){__VA_ARGS__, NULL})

static void values_deinit(struct values *v)
{
    arg_list_deinit(&v->list);
    arg_list_deinit(&v->rest);
}

static char flag[] = "--flag", text[] = "--text=a=b", list[] = "--list", one[] = "k=1",
            two[] = "k=2";

static void parse__every_kind__set(void **state)
{
    (void)state;
    char count[] = "--count=10", bytes[] = "--bytes", size[] = "64M", wait[] = "--wait=1.5";
    char colour[] = "--colour", green[] = "green", file[] = "file", dash[] = "-";
    char end[] = "--", odd[] = "--odd";
    struct values v = {0};
    assert_true(PARSE(&v, true, flag, text, list, one, list, two, count, bytes, size, wait, colour,
                      green, file, dash, end, odd));
    assert_true(v.flag && !v.help);
    assert_string_equal(v.text, "a=b");
    assert_int_equal(v.list.count, 2);
    assert_string_equal(v.list.item[1], "k=2");
    assert_int_equal(v.count, 10);
    assert_int_equal(v.bytes, 64 << 20);
    assert_int_equal(v.ms, 1500);
    assert_int_equal(v.choice, 1);
    assert_int_equal(v.rest.count, 3);
    assert_string_equal(v.rest.item[1], "-");
    assert_string_equal(v.rest.item[2], "--odd");
    assert_string_equal(messages, "");
    values_deinit(&v);
}

static void parse__wrong__refused_with_a_hint(void **state)
{
    (void)state;
    static const struct {
        const char *word, *value, *message;
    } cases[] = {
        {"--txet", "x", "there is no option --txet; did you mean --text?"},
        {"--zzzzzzzzzz", "x", "see `ringfence test --help`"},
        {"--text", NULL, "--text needs a value"},
        {"--flag=1", NULL, "--flag takes no value"},
        {"--count", "1", "a number between 2 and 10"},
        {"--count", "11", "a number between 2 and 10"},
        {"--count", "-3", "a number between 2 and 10"},
        {"--count", "99999999999999999999", "a number between 2 and 10"},
        {"--bytes", "5X", "a size like 64M"},
        {"--bytes", "9000000000G", "a size like 64M"},
        {"--bytes", "", "a size like 64M"},
        {"--wait", "soon", "seconds are expected"},
        {"--wait", "-1", "seconds are expected"},
        {"--colour", "blue", "one of red, green is expected"},
        {"word", NULL, "\"word\" is one word too many"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct values v = {0};
        char word[64], value[64];
        snprintf(word, sizeof word, "%s", cases[i].word);
        snprintf(value, sizeof value, "%s", cases[i].value != NULL ? cases[i].value : "");
        assert_false(PARSE(&v, false, word, cases[i].value != NULL ? value : NULL));
        if (strstr(messages, cases[i].message) == NULL) fail_msg("%s: %s", word, messages);
        values_deinit(&v);
    }
}

static void parse__help__ends_the_reading(void **state)
{
    (void)state;
    char help[] = "--help", odd[] = "--odd";
    struct values v = {0};
    assert_true(PARSE(&v, false, flag, help, odd));
    assert_true(v.help && v.flag);
}

static void split__commas__pieces_and_empty_ones(void **state)
{
    (void)state;
    size_t count;
    struct text *pieces = split_commas("a,,b c", &count);
    assert_int_equal(count, 3);
    assert_true(text_is(pieces[0], "a") && text_is(pieces[1], "") && text_is(pieces[2], "b c"));
    mem_free(pieces);
    pieces = split_commas("", &count);
    assert_int_equal(count, 1);
    mem_free(pieces);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse__every_kind__set),
        cmocka_unit_test(parse__wrong__refused_with_a_hint),
        cmocka_unit_test(parse__help__ends_the_reading),
        cmocka_unit_test(split__commas__pieces_and_empty_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
