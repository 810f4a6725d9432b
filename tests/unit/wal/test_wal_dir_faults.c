/* A directory on the fault double: each operation and each allocation of its making and opening
 * fails; what else lies there; who holds it when nobody says so. */
#include "base/alloc.h"
#include "io/fault.h"
#include "tests/lib/child.h"
#include "wal/dir.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include <cmocka.h>

static struct io_env *fresh_env(void)
{
    struct io_env *env;
    const struct fault_options o = {.seed = 0};
    assert_int_equal(fault_env_open(&o, &env), 0);
    return env;
}

static struct wal_dir_options options(struct io_env *env)
{
    return (struct wal_dir_options){
        .env = env, .create = true, .fresh = {.segment_bytes = 1 << 20, .lanes = 2, .regions = 3}};
}

static void make(struct io_env *env)
{
    struct wal_dir_options o = options(env);
    struct wal_dir dir;
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    wal_dir_close(&dir);
}

static void put(struct io_env *env, const char *path, const char *text, uint64_t bytes)
{
    struct io_file *file;
    assert_int_equal(io_open(env, path, IO_WRITE | IO_CREATE, &file), 0);
    assert_int_equal(io_truncate(file, bytes), 0);
    assert_int_equal(io_pwrite(file, text, strlen(text), 0, 0, NULL), 0);
    io_close(file);
}

/* ---- each step fails ---- */

static void wal_dir_faults__kth_operation_fails__said_and_opened_after(void **state)
{
    (void)state;
    uint32_t failed = 0;
    for (int again = 0; again < 2; again++) {
        bool hit = true;
        for (uint64_t k = 0; hit && k < 300; k++) {
            struct io_env *env = fresh_env();
            if (again) make(env);
            const int64_t in_use = alloc_bytes_in_use();
            struct wal_dir_options o = options(env);
            struct wal_dir dir;
            struct err_msg msg = {0};
            uint64_t before = fault_operations(env, FAULT_ON_ANY);
            const struct fault_rule rule = {
                .kind = FAULT_ERROR, .targets = FAULT_ON_ANY, .skip = k, .times = 1, .error = EIO};
            assert_int_equal(fault_add(env, &rule), 0);
            int rc = wal_dir_open(&o, &msg, &dir);
            hit = fault_operations(env, FAULT_ON_ANY) - before > k;
            if (rc == 0) {
                wal_dir_close(&dir);
            } else {
                failed++;
                assert_true(msg.text[0] != '\0');
            }
            fault_clear(env);
            assert_int_equal(alloc_bytes_in_use(), in_use);
            rc = wal_dir_open(&o, &msg, &dir);
            if (rc != 0) fail_msg("operation %u: %s", (unsigned)k, msg.text);
            assert_int_equal(dir.manifest.lanes, 2);
            assert_int_equal(dir.lane[1].live_count, 2);
            wal_dir_close(&dir);
            io_env_close(env);
        }
    }
    printf("%u openings failed\n", failed);
    assert_true(failed > 40);
}

static void wal_dir_faults__kth_allocation_fails__enomem_and_nothing_left_over(void **state)
{
    (void)state;
    uint32_t failed = 0;
    for (int again = 0; again < 2; again++) {
        struct io_env *env = fresh_env();
        if (again) make(env);
        const int64_t in_use = alloc_bytes_in_use();
        for (uint64_t k = 1; k < 100; k++) {
            struct wal_dir_options o = options(env);
            struct wal_dir dir;
            alloc_fail_at(k);
            int rc = wal_dir_open(&o, NULL, &dir);
            alloc_fail_at(0);
            if (rc == 0) {
                wal_dir_close(&dir);
                break;
            }
            failed++;
            assert_int_equal(rc, -ENOMEM);
            assert_int_equal(alloc_bytes_in_use(), in_use);
        }
        io_env_close(env);
    }
    assert_true(failed > 10);
}

static int open_without_random_numbers(void *ctx)
{
    struct wal_dir_options o = options(ctx);
    struct wal_dir dir;
    if (child_refuse_calls(SYS_getrandom, SYS_getrandom, EPERM) != 0) return 2;
    return wal_dir_open(&o, NULL, &dir) == -EIO ? 0 : 1;
}

static void wal_dir_faults__no_random_numbers__no_directory(void **state)
{
    (void)state;
    struct io_env *env = fresh_env();
    assert_int_equal(child_run(open_without_random_numbers, env), 0);
    io_env_close(env);
}

/* ---- what nobody asked for ---- */

static void wal_dir_faults__nothing_said__defaults_and_the_devices_block(void **state)
{
    (void)state;
    static const uint32_t blocks[] = {4096, 512, 65536};
    for (uint32_t i = 0; i < 3; i++) {
        struct io_env *env;
        const struct fault_options fo = {.block_bytes = blocks[i]};
        assert_int_equal(fault_env_open(&fo, &env), 0);
        struct wal_dir_options o = {.env = env, .create = true};
        struct wal_dir dir;
        assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
        assert_int_equal(dir.manifest.segment_bytes, 64 << 20);
        assert_int_equal(dir.manifest.block_bytes, blocks[i]);
        assert_int_equal(dir.manifest.lanes, 1);
        assert_int_equal(dir.manifest.regions, 1);
        wal_dir_close(&dir);
        io_env_close(env);
    }
}

static void wal_dir_faults__given_lanes_of_regions__are_kept(void **state)
{
    (void)state;
    static const uint32_t lanes[] = {1, 1, 0};
    struct io_env *env = fresh_env();
    struct wal_dir_options o = options(env);
    struct wal_dir dir;
    o.fresh.region_lane = lanes;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(dir.manifest.region_lane[i], lanes[i]);
        wal_dir_close(&dir);
    }
    io_env_close(env);
}

/* ---- what else lies there ---- */

static void wal_dir_faults__something_elses__is_named_and_left_alone(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *in, *file, *named;
    } cases[] = {
        {"stuff", NULL, NULL, "stuff"},
        {"manifest", NULL, NULL, "manifest"}, /* a folder of that name is none of ours */
        {"lane-99", NULL, NULL, "lane-99"},
        {NULL, NULL, "lane-00", "lane-00"}, /* nor a file of this one */
        {"lane-00", "lane-00/0000000001", NULL, "lane-00/0000000001"},
        {"lane-00", NULL, "lane-00/notes", "lane-00/notes"},
        {"a", "b", "c", "a"}, /* the first of several */
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct io_env *env = fresh_env();
        struct wal_dir_options o = options(env);
        struct wal_dir dir;
        struct err_msg msg = {0};
        if (cases[i].folder != NULL) assert_int_equal(io_mkdir(env, cases[i].folder), 0);
        if (cases[i].in != NULL) assert_int_equal(io_mkdir(env, cases[i].in), 0);
        if (cases[i].file != NULL) put(env, cases[i].file, "x", 1);
        assert_int_equal(wal_dir_open(&o, &msg, &dir), -RFE_NOT_OURS);
        if (strstr(msg.text, cases[i].named) == NULL)
            fail_msg("\"%s\" is not named: %s", cases[i].named, msg.text);
        io_env_close(env);
    }
}

static void wal_dir_faults__many_free_files__all_are_found(void **state)
{
    (void)state;
    struct io_env *env = fresh_env();
    struct wal_dir_options o = options(env);
    struct wal_dir dir;
    make(env);
    for (uint64_t n = 1; n <= 150; n++) {
        char path[WAL_PATH_BYTES];
        wal_free_path(path, 1, n);
        put(env, path, "x", 1 << 20);
    }
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    assert_int_equal(dir.lane[1].spare_count, 150);
    assert_int_equal(dir.lane[1].live_count, 2);
    wal_dir_close(&dir);
    io_env_close(env);
}

/* ---- who holds it ---- */

static void wal_dir_faults__held_and_the_owner_does_not_say__in_use_all_the_same(void **state)
{
    (void)state;
    struct io_env *env = fresh_env();
    struct wal_dir_options o = options(env);
    struct wal_dir dir, other;
    struct err_msg msg = {0};
    assert_int_equal(wal_dir_open(&o, NULL, &dir), 0);
    assert_int_equal(wal_dir_open(&o, &msg, &other), -RFE_IN_USE);
    assert_non_null(strstr(msg.text, "pid "));
    for (int i = 0; i < 3; i++) {
        const struct fault_rule unread = {.kind = FAULT_ERROR,
                                          .targets = FAULT_ON_READ,
                                          .path = "owner",
                                          .times = 1,
                                          .error = EIO};
        if (i == 0) assert_int_equal(fault_add(env, &unread), 0);
        if (i == 1) put(env, "owner", "nobody knows", 12);
        if (i == 2) assert_int_equal(io_unlink(env, "owner"), 0);
        msg = (struct err_msg){0};
        assert_int_equal(wal_dir_open(&o, &msg, &other), -RFE_IN_USE);
        assert_non_null(strstr(msg.text, "in use"));
        assert_null(strstr(msg.text, "pid "));
    }
    wal_dir_close(&dir);
    io_env_close(env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_dir_faults__kth_operation_fails__said_and_opened_after),
        cmocka_unit_test(wal_dir_faults__kth_allocation_fails__enomem_and_nothing_left_over),
        cmocka_unit_test(wal_dir_faults__no_random_numbers__no_directory),
        cmocka_unit_test(wal_dir_faults__nothing_said__defaults_and_the_devices_block),
        cmocka_unit_test(wal_dir_faults__given_lanes_of_regions__are_kept),
        cmocka_unit_test(wal_dir_faults__something_elses__is_named_and_left_alone),
        cmocka_unit_test(wal_dir_faults__many_free_files__all_are_found),
        cmocka_unit_test(wal_dir_faults__held_and_the_owner_does_not_say__in_use_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
