#include "cli/input.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];
static char why[300];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/ringfence-input-XXXXXX");
    return mkdtemp(dir) != NULL ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command);
}

static const char *file_with(const char *name, const void *bytes, size_t count)
{
    static char paths[8][100];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void gzip(const char *path)
{
    char command[300];
    snprintf(command, sizeof command, "gzip -c %s > %s.gz && mv %s.gz %s", path, path, path, path);
    assert_int_equal(system(command), 0);
}

static void expect_record(const struct block *block, size_t i, uint64_t line, const char *text)
{
    assert_true(i < block->record_count);
    assert_int_equal(block->record[i].line, line);
    struct text got = block_text(block, i);
    if (!text_is(got, text)) fail_msg("got \"%.*s\"", (int)got.bytes, got.at);
}

static void next__several_files__blocks_of_whole_lines_that_never_span_files(void **state)
{
    (void)state;
    const char *files[] = {file_with("a", "l1\nl2\nl3", 8), file_with("b", "", 0),
                           file_with("c", "\xef\xbb\xbf\nx\r\n", 7)};
    struct input *input = input_create(files, 3, ENDS_WITH_LINE);
    struct block block = {0};
    assert_true(input_check(input, why, sizeof why));
    assert_int_equal(input_bytes_total(input), 15);
    assert_int_equal(input_next(input, 2, &block, why, sizeof why), INPUT_BLOCK);
    assert_int_equal(block.record_count, 2);
    expect_record(&block, 0, 1, "l1");
    expect_record(&block, 1, 2, "l2");
    assert_int_equal(block.lines_through, 2);
    assert_int_equal(input_next(input, 2, &block, why, sizeof why), INPUT_BLOCK);
    assert_int_equal(block.record_count, 1);
    expect_record(&block, 0, 3, "l3");
    assert_int_equal(input_next(input, 5, &block, why, sizeof why), INPUT_BLOCK);
    assert_string_equal(block.file, files[2]);
    assert_int_equal(block.file_index, 2);
    expect_record(&block, 0, 1, "");
    expect_record(&block, 1, 2, "x\r");
    assert_int_equal(block.lines_through, 5);
    assert_int_equal(input_next(input, 2, &block, why, sizeof why), INPUT_END);
    assert_int_equal(block.lines_through, 5);
    assert_int_equal(input_bytes_done(input), 15);
    block_deinit(&block);
    input_destroy(input);
}

static void next__quotes_over_lines__one_record(void **state)
{
    (void)state;
    static const char text[] = "h,i\n\"a\nb\"\"\n\",1\nx\"y,2\n\"\",3\n";
    const char *files[] = {file_with("q", text, sizeof text - 1)};
    struct input *input = input_create(files, 1, ENDS_OUTSIDE_QUOTES);
    struct block block = {0};
    assert_int_equal(input_next(input, 9, &block, why, sizeof why), INPUT_BLOCK);
    assert_int_equal(block.record_count, 4);
    expect_record(&block, 0, 1, "h,i");
    expect_record(&block, 1, 2, "\"a\nb\"\"\n\",1");
    expect_record(&block, 2, 5, "x\"y,2");
    expect_record(&block, 3, 6, "\"\",3");
    assert_int_equal(block.lines_through, 6);
    block_deinit(&block);
    input_destroy(input);
}

static void next__a_quote_never_closed__first_line_alone(void **state)
{
    (void)state;
    static const char text[] = "h\n1,\"open\n2,x\n3,y\n";
    const char *files[] = {file_with("open", text, sizeof text - 1)};
    struct input *input = input_create(files, 1, ENDS_OUTSIDE_QUOTES);
    struct block block = {0};
    assert_int_equal(input_next(input, 9, &block, why, sizeof why), INPUT_BLOCK);
    assert_int_equal(block.record_count, 4);
    expect_record(&block, 1, 2, "1,\"open");
    expect_record(&block, 2, 3, "2,x");
    expect_record(&block, 3, 4, "3,y");
    block_deinit(&block);
    input_destroy(input);
}

static void read_all(const char *const *files, size_t count, size_t total)
{
    struct input *input = input_create(files, count, ENDS_WITH_LINE);
    struct block block = {0};
    size_t seen = 0;
    int rc;
    while ((rc = input_next(input, 777, &block, why, sizeof why)) == INPUT_BLOCK) {
        for (size_t i = 0; i < block.record_count; i++, seen++) {
            char expected[32];
            snprintf(expected, sizeof expected, "line %zu", seen % total);
            struct text got = block_text(&block, i);
            if (!text_is(got, expected)) fail_msg("%.*s", (int)got.bytes, got.at);
        }
    }
    assert_int_equal(rc, INPUT_END);
    assert_int_equal(seen, total * count);
    assert_int_equal(block.lines_through, total * count);
    block_deinit(&block);
    input_destroy(input);
}

static void next__large_plain_gzip_and_two_members__the_same_lines(void **state)
{
    (void)state;
    enum { LINES = 100000 };
    char *text = malloc(LINES * 16);
    assert_non_null(text);
    size_t n = 0;
    for (int i = 0; i < LINES; i++)
        n += (size_t)sprintf(text + n, "line %d\n", i);
    const char *files[2] = {file_with("plain", text, n), file_with("packed", text, n)};
    gzip(files[1]);
    read_all(files, 2, LINES);
    size_t half = n / 2;
    const char *first = file_with("m1", text, half),
               *second = file_with("m2", text + half, n - half);
    gzip(first);
    gzip(second);
    char command[300];
    snprintf(command, sizeof command, "cat %s >> %s", second, first);
    assert_int_equal(system(command), 0);
    read_all(&first, 1, LINES);
    free(text);
}

static void next__damaged_gzip__named_with_the_reason(void **state)
{
    (void)state;
    char text[5000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 80 == 79 ? '\n' : (char)('a' + i * i * i / 7 % 23);
    const char *files[] = {file_with("short.gz", text, sizeof text)};
    gzip(files[0]);
    struct stat st;
    assert_int_equal(stat(files[0], &st), 0);
    assert_true(st.st_size > 300);
    assert_int_equal(truncate(files[0], 300), 0);
    struct input *input = input_create(files, 1, ENDS_WITH_LINE);
    struct block block = {0};
    int rc;
    while ((rc = input_next(input, 1000, &block, why, sizeof why)) == INPUT_BLOCK)
        continue;
    assert_int_equal(rc, INPUT_FAILED);
    assert_non_null(strstr(why, "short.gz"));
    assert_non_null(strstr(why, "ends too early"));
    input_destroy(input);
    block_deinit(&block);
}

static void check__missing_file_or_directory__named(void **state)
{
    (void)state;
    const char *files[] = {"/nonexistent/x.lp", dir};
    struct input *input = input_create(files, 1, ENDS_WITH_LINE);
    assert_false(input_check(input, why, sizeof why));
    assert_non_null(strstr(why, "/nonexistent/x.lp: No such file"));
    input_destroy(input);
    input = input_create(files + 1, 1, ENDS_WITH_LINE);
    assert_false(input_check(input, why, sizeof why));
    assert_non_null(strstr(why, "directory"));
    input_destroy(input);
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
}

static void next__a_signal_while_waiting__interrupted_and_nothing_lost(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int saved = dup(STDIN_FILENO);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(write(ends[1], "a\nb\n", 4), 4);
    struct sigaction action = {.sa_handler = on_alarm}, old;
    assert_int_equal(sigaction(SIGALRM, &action, &old), 0);

    const char *files[] = {"-"};
    struct input *input = input_create(files, 1, ENDS_WITH_LINE);
    struct block block = {0};
    assert_int_equal(input_next(input, 1, &block, why, sizeof why), INPUT_BLOCK);
    expect_record(&block, 0, 1, "a");
    ualarm(50000, 0);
    assert_int_equal(input_next(input, 2, &block, why, sizeof why), INPUT_INTERRUPTED);
    assert_int_equal(write(ends[1], "c", 1), 1);
    close(ends[1]);
    assert_int_equal(input_next(input, 9, &block, why, sizeof why), INPUT_BLOCK);
    expect_record(&block, 0, 2, "b");
    expect_record(&block, 1, 3, "c");
    assert_int_equal(block.lines_through, 3);

    assert_int_equal(sigaction(SIGALRM, &old, NULL), 0);
    dup2(saved, STDIN_FILENO);
    close(saved);
    close(ends[0]);
    block_deinit(&block);
    input_destroy(input);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next__several_files__blocks_of_whole_lines_that_never_span_files),
        cmocka_unit_test(next__quotes_over_lines__one_record),
        cmocka_unit_test(next__a_quote_never_closed__first_line_alone),
        cmocka_unit_test(next__large_plain_gzip_and_two_members__the_same_lines),
        cmocka_unit_test(next__damaged_gzip__named_with_the_reason),
        cmocka_unit_test(check__missing_file_or_directory__named),
        cmocka_unit_test(next__a_signal_while_waiting__interrupted_and_nothing_lost),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
