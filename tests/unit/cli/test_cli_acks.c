#include "cli/acks.h"
#include "cli/bad_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

static int make_file(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/ringfence-acks-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0) return -1;
    ssize_t n = write(fd, "old\n", 4);
    close(fd);
    return n == 4 ? 0 : -1;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void expect_file(const char *expected)
{
    char text[4096];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    assert_string_equal(text, expected);
}

static void write__grown_or_not__a_line_each_time_it_grew(void **state)
{
    (void)state;
    struct acks acks;
    assert_int_equal(acks_init(&acks, path), 0);
    expect_file("");
    assert_int_equal(acks_write(&acks, 0), 0);
    assert_int_equal(acks_write(&acks, 10), 0);
    assert_int_equal(acks_write(&acks, 10), 0);
    assert_int_equal(acks_write(&acks, 25), 0);
    expect_file("10\n25\n");
    acks_deinit(&acks);
}

static void init__a_folder_that_is_not_there__errno(void **state)
{
    (void)state;
    struct acks acks;
    assert_int_equal(acks_init(&acks, "/nonexistent/acks"), -ENOENT);
    acks_deinit(&acks);
    assert_int_equal(acks_init(&acks, NULL), 0);
    assert_int_equal(acks_write(&acks, 5), 0);
    acks_deinit(&acks);
}

static void write__a_full_device__enospc(void **state)
{
    (void)state;
    struct acks acks;
    assert_int_equal(acks_init(&acks, "/dev/full"), 0);
    assert_int_equal(acks_write(&acks, 5), -ENOSPC);
    acks_deinit(&acks);
}

static void done__any_order__only_the_leading_part_counts(void **state)
{
    (void)state;
    const char *given = getenv("RF_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    printf("RF_SEED=%" PRIu64 "\n", seed);
    enum { BLOCKS = 3000 };
    static uint64_t order[BLOCKS];
    static uint8_t done[BLOCKS];
    for (uint64_t i = 0; i < BLOCKS; i++)
        order[i] = i;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t j = i + (seed >> 33) % (BLOCKS - i < 700 ? BLOCKS - i : 700), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    struct acks acks;
    assert_int_equal(acks_init(&acks, NULL), 0);
    uint64_t leading = 0;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        acks_done(&acks, order[i], (order[i] + 1) * 10);
        done[order[i]] = 1;
        while (leading < BLOCKS && done[leading])
            leading++;
        assert_int_equal(acks.next, leading);
        assert_int_equal(acks.lines_done, leading * 10);
    }
    acks_deinit(&acks);
}

static void bad_lines__kept_behind_one_header__appended_to(void **state)
{
    (void)state;
    struct bad_lines b;
    struct text header = text_of("time,v");
    assert_int_equal(truncate(path, 0), 0);
    for (int turn = 0; turn < 2; turn++) {
        assert_int_equal(bad_lines_init(&b, path), 0);
        assert_int_equal(bad_lines_add(&b, &header, text_of("1,x\r"), "a:2: why"), 0);
        assert_int_equal(bad_lines_add(&b, &header, text_of("2,\"y\nz\""), "a:3: why"), 0);
        assert_int_equal(b.count, 2);
        assert_int_equal(bad_lines_sync(&b), 0);
        bad_lines_deinit(&b);
    }
    expect_file("time,v\n1,x\r\n2,\"y\nz\"\n1,x\r\n2,\"y\nz\"\n");
}

static void bad_lines__a_full_device__enospc(void **state)
{
    (void)state;
    struct bad_lines b;
    assert_int_equal(bad_lines_init(&b, "/dev/full"), 0);
    assert_int_equal(bad_lines_add(&b, NULL, text_of("x"), "a:1: why"), -ENOSPC);
    bad_lines_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write__grown_or_not__a_line_each_time_it_grew),
        cmocka_unit_test(init__a_folder_that_is_not_there__errno),
        cmocka_unit_test(write__a_full_device__enospc),
        cmocka_unit_test(done__any_order__only_the_leading_part_counts),
        cmocka_unit_test(bad_lines__kept_behind_one_header__appended_to),
        cmocka_unit_test(bad_lines__a_full_device__enospc),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
