/* ctest: serial timeout=300
 *
 * Memory and start: what a device, a column and a series cost, a hundred thousand devices and a
 * million extents, how fast an empty directory opens and columns come. Prints what it measures. The
 * times are judged in an optimised build without sanitizers, as the best of several runs: a busy
 * machine makes a run slow, never fast. */
#include "rf_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TIMES_JUDGED true
#else
#define TIMES_JUDGED false
#endif

static char dir[KIT_PATH_BYTES];

static int setup(void **state)
{
    (void)state;
    kit_dir(dir);
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    kit_remove(dir);
    return 0;
}

static void judge_ms(const char *what, double ms, double most)
{
    print_message("%s: %.1f ms, allowed are %.1f%s\n", what, ms, most,
                  TIMES_JUDGED ? "" : " (not judged: no optimised build)");
    if (TIMES_JUDGED && ms > most) fail_msg("%s: %.1f ms", what, ms);
}

static double ms_since(int64_t began)
{
    return (double)(kit_now_ns() - began) / 1e6;
}

/* ---- memory ---- */

#define AT_ONCE 1000u

/* A tablet of AT_ONCE devices with one row each. */
static void write_devices(struct rf_engine *e, uint32_t first, int64_t time)
{
    static int64_t times[AT_ONCE], values[AT_ONCE];
    static uint32_t offsets[AT_ONCE + 1];
    static char hosts[AT_ONCE * 8];
    char host[16];
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        times[i] = time;
        values[i] = first + i;
        snprintf(host, sizeof host, "h%07u", first + i);
        memcpy(hosts + 8 * i, host, 8);
        offsets[i + 1] = 8 * (i + 1);
    }
    struct rf_column c[] = {{.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = values},
                            {.name = "host",
                             .type = RF_STRING,
                             .category = RF_TAG,
                             .values = hosts,
                             .offsets = offsets}};
    struct rf_tablet t = {.size = sizeof t,
                          .table = "fleet",
                          .rows = AT_ONCE,
                          .columns = 2,
                          .times = times,
                          .column = c};
    struct rf_error error = {.text = ""};
    int rc = rf_write(e, &t, &error);
    if (rc != 0) fail_msg("rf_write: %d %s", rc, error.text);
}

static void check_fleet(struct rf_engine *e, uint64_t rows)
{
    int64_t began = kit_now_ns();
    assert_int_equal(kit_count(e, "fleet"), rows);
    print_message("%" PRIu64 " rows counted in %.0f ms\n", rows, ms_since(began));
    struct rf_scan_options o;
    struct rf_tag_filter tag = {"host", "h0077777"};
    struct rf_cursor *c;
    struct rf_tablet t;
    rf_scan_options_init(&o);
    o.table = "fleet";
    o.tags = &tag;
    o.tag_count = 1;
    assert_int_equal(rf_scan_open(e, &o, &c, NULL), 0);
    uint64_t seen = 0;
    while (rf_scan_next(c, &t) == 1)
        for (uint32_t i = 0; i < t.rows; i++, seen++)
            assert_true(((const int64_t *)t.column[1].values)[i] == 77777);
    rf_scan_close(c);
    assert_int_equal(seen, rows / 100000);
}

static void rf_limits__100000_devices_a_million_extents__64_bytes_a_device(void **state)
{
    (void)state;
    struct rf_options o;
    kit_options(&o);
    o.segment_bytes = 64 << 20;
    o.memory_bytes = UINT64_C(640) << 20;
    o.log_bytes_max = 0;
    o.sync = RF_SYNC_OFF;
    o.partition_interval = 1000;
    o.wait_prepared = true;
    o.write_wait_ms = 60000;
    struct rf_engine *e = kit_open(dir, &o);
    write_devices(e, 0, 0);
    write_devices(e, 0, 1); /* scratch has its size, the first blocks are there */
    uint64_t before = kit_stats(e).heap_bytes;
    for (uint32_t first = AT_ONCE; first < 100000; first += AT_ONCE)
        write_devices(e, first, 0);
    uint64_t devices = kit_stats(e).devices, keys = 10 * (100000 - AT_ONCE);
    uint64_t bytes = kit_stats(e).heap_bytes - before;
    double each = (double)(bytes - keys) / (100000 - AT_ONCE);
    print_message("100,000 devices: %" PRIu64 " bytes, keys apart %.1f each\n", bytes, each);
    assert_int_equal(devices, 100000);
    assert_true(each <= 64);
    for (int64_t partition = 1; partition < 10; partition++)
        for (uint32_t first = 0; first < 100000; first += AT_ONCE)
            write_devices(e, first, partition * 1000);
    struct rf_stats s = kit_stats(e);
    print_message("a million extents: %" PRIu64 " bytes more on the heap, %" PRIu64
                  " segments of 64 MiB, position %" PRIu64 " MiB\n",
                  s.heap_bytes - before - bytes, s.segments, s.position >> 20);
    assert_true(s.heap_bytes - before - bytes < (1 << 20)); /* they lie in the arenas */
    check_fleet(e, 1000000 + AT_ONCE);
    assert_int_equal(rf_close(e), 0);
    int64_t began = kit_now_ns();
    o.wait_prepared = false;
    e = kit_open(dir, &o);
    print_message("opened again in %.0f ms\n", ms_since(began));
    check_fleet(e, 1000000 + AT_ONCE);
    assert_int_equal(kit_stats(e).devices, 100000);
    assert_int_equal(rf_close(e), 0);
}

#define WIDE 2000u

/* WIDE columns from `first` on, of a table or of a device of the tree model. */
static double write_wide(struct rf_engine *e, const char *table, const char *device, uint32_t first,
                         uint32_t n)
{
    static char names[10000][12];
    static struct rf_column columns[10000];
    int64_t time = 5;
    for (uint32_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "c%07u", first + i);
        columns[i] = (struct rf_column){
            .name = names[i], .type = RF_BOOLEAN, .category = RF_FIELD, .values = "\1"};
    }
    struct rf_tablet t = {.size = sizeof t,
                          .table = table,
                          .device = device,
                          .rows = 1,
                          .columns = n,
                          .times = &time,
                          .column = columns};
    struct rf_error error = {.text = ""};
    int64_t began = kit_now_ns();
    int rc = rf_write(e, &t, &error);
    if (rc != 0) fail_msg("rf_write: %d %s", rc, error.text);
    return ms_since(began);
}

static struct rf_engine *open_for_columns(void)
{
    struct rf_options o;
    kit_options(&o);
    o.segment_bytes = 16 << 20;
    o.memory_bytes = 96 << 20;
    o.log_bytes_max = 0;
    o.sync = RF_SYNC_ASYNC; /* the batch itself waits for no device: the catalog's commit does */
    o.write_wait_ms = 60000;
    o.wait_prepared = true;
    return kit_open(dir, &o);
}

static void rf_limits__columns_and_series__64_bytes_each(void **state)
{
    (void)state;
    struct rf_engine *e = open_for_columns();
    (void)write_wide(e, "wide", NULL, 0, WIDE);
    (void)write_wide(e, "wide", NULL, 0, WIDE);
    uint64_t before = kit_stats(e).heap_bytes;
    for (uint32_t first = WIDE; first < 50000; first += WIDE)
        (void)write_wide(e, "wide", NULL, first, WIDE);
    uint64_t bytes = kit_stats(e).heap_bytes - before, n = 50000 - WIDE;
    double each = (double)(bytes - 9 * n) / (double)n;
    print_message("%" PRIu64 " columns: %" PRIu64 " bytes, names apart %.1f each\n", n, bytes,
                  each);
    assert_true(each <= 64);

    char device[32];
    (void)write_wide(e, NULL, "root.db.d0", 0, WIDE); /* the columns that the series share */
    before = kit_stats(e).heap_bytes;
    uint64_t keys = 0;
    for (uint32_t d = 1; d <= 25; d++) {
        snprintf(device, sizeof device, "root.db.d%u", d);
        (void)write_wide(e, NULL, device, 0, WIDE);
        keys += 64 + strlen(device);
    }
    bytes = kit_stats(e).heap_bytes - before - keys;
    each = (double)bytes / (25.0 * WIDE);
    print_message("%u series: %" PRIu64 " bytes, devices apart %.1f each\n", 25 * WIDE, bytes,
                  each);
    assert_true(each <= 64);
    assert_int_equal(rf_close(e), 0);
}

/* ---- start ---- */

/* What the device takes for 4 MiB of zeros and ten durable writes. */
static double device_ms(void)
{
    static char zeros[4 << 20];
    char name[128];
    snprintf(name, sizeof name, "%s.probe", dir);
    int64_t began = kit_now_ns();
    int fd = open(name, O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, zeros, sizeof zeros), sizeof zeros);
    assert_int_equal(fdatasync(fd), 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(pwrite(fd, zeros, 4096, i * 4096), 4096);
        assert_int_equal(fdatasync(fd), 0);
    }
    double ms = ms_since(began);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(name), 0);
    return ms;
}

static void rf_open__empty_directory__150_ms_beyond_the_device(void **state)
{
    (void)state;
    double best = 1e9;
    for (int i = 0; i < 7; i++) {
        struct rf_options o;
        rf_options_init(&o); /* as a user has them: 64 MiB segments, a GiB of images */
        double device = device_ms();
        int64_t began = kit_now_ns();
        struct rf_engine *e = kit_open(dir, &o);
        double ours = ms_since(began);
        kit_write(e, "t", "h", 1, 1);
        assert_int_equal(rf_close(e), 0);
        kit_remove(dir);
        kit_dir(dir);
        print_message("open %.1f ms, device %.1f ms\n", ours, device);
        if (ours - device < best) best = ours - device;
    }
    judge_ms("opening an empty directory beyond the device's time", best, 150);
}

/* ---- columns that come ---- */

static void rf_write__10000_new_columns__one_commit_and_100_ms(void **state)
{
    (void)state;
    struct rf_engine *e = open_for_columns();
    (void)write_wide(e, "t0", NULL, 0, 1);
    double one = 1e9, many = 1e9;
    for (uint32_t i = 0; i < 5; i++) {
        char table[16];
        snprintf(table, sizeof table, "t%u", i + 1);
        double ms = write_wide(e, "t0", NULL, 1 + i, 1);
        if (ms < one) one = ms;
        uint64_t version = kit_stats(e).schema_version;
        ms = write_wide(e, table, NULL, 0, 10000);
        assert_int_equal(kit_stats(e).schema_version, version + 1); /* one commit */
        if (ms < many) many = ms;
    }
    print_message("one column %.1f ms, 10,000 columns %.1f ms\n", one, many);
    judge_ms("10,000 new columns beyond one", many - one, 100);
    assert_int_equal(rf_close(e), 0);
}

#define WRITERS 32

static struct rf_engine *shared_engine;
static pthread_barrier_t barrier;
static _Atomic uint32_t failures;

struct writer {
    pthread_t thread;
    char column[32];
};

static void *add_one_column(void *arg)
{
    struct writer *w = arg;
    int64_t time = 1;
    struct rf_column c = {
        .name = w->column, .type = RF_INT64, .category = RF_FIELD, .values = &time};
    struct rf_tablet t = {
        .size = sizeof t, .table = "t", .rows = 1, .columns = 1, .times = &time, .column = &c};
    (void)pthread_barrier_wait(&barrier);
    if (rf_write(shared_engine, &t, NULL) != 0) atomic_fetch_add(&failures, 1);
    return NULL;
}

static void rf_write__32_writers_add_a_column_each__four_commits(void **state)
{
    (void)state;
    struct rf_engine *e = shared_engine = open_for_columns();
    struct writer w[WRITERS];
    double commit = 0, all = 1e9, ratio = 1e9;
    uint64_t commits = UINT64_MAX;
    kit_write(e, "t", NULL, 1, 1);
    assert_int_equal(pthread_barrier_init(&barrier, NULL, WRITERS + 1), 0);
    for (int round = 0; round < 6; round++) {
        char name[32];
        snprintf(name, sizeof name, "alone%d", round);
        struct rf_column_def def = {name, RF_INT64, RF_FIELD};
        int64_t began = kit_now_ns();
        assert_int_equal(rf_table_add_columns(e, "t", &def, 1, NULL), 0);
        double alone = ms_since(began);
        for (int i = 0; i < WRITERS; i++) {
            snprintf(w[i].column, sizeof w[i].column, "r%dw%d", round, i);
            assert_int_equal(pthread_create(&w[i].thread, NULL, add_one_column, &w[i]), 0);
        }
        uint64_t version = kit_stats(e).schema_version;
        (void)pthread_barrier_wait(&barrier);
        began = kit_now_ns();
        for (int i = 0; i < WRITERS; i++)
            assert_int_equal(pthread_join(w[i].thread, NULL), 0);
        double ms = ms_since(began);
        uint64_t n = kit_stats(e).schema_version - version;
        print_message("a commit %.1f ms; 32 writers %.1f ms, %" PRIu64 " commits\n", alone, ms, n);
        if (n < commits) commits = n;
        if (ms / alone < ratio) {
            ratio = ms / alone;
            all = ms;
            commit = alone;
        }
    }
    assert_int_equal(atomic_load(&failures), 0);
    assert_true(commits <= 4);
    judge_ms("32 writers with a new column each", all, 4 * commit);
    assert_int_equal(pthread_barrier_destroy(&barrier), 0);
    assert_int_equal(rf_close(e), 0);
}

/* ---- an engine that has nothing to do ---- */

static double cpu_ms(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void rf_limits__idle__half_a_percent_of_a_core(void **state)
{
    (void)state;
    struct rf_options o;
    const struct timespec idle = {.tv_sec = 4};
    rf_options_init(&o); /* as a user has them: a lease that is renewed each second */
    o.wait_prepared = true;
    struct rf_engine *e = kit_open(dir, &o);
    kit_write(e, "t", "h", 1, 1);
    assert_int_equal(rf_flush(e), 0);
    double before = cpu_ms();
    int64_t began = kit_now_ns();
    nanosleep(&idle, NULL);
    judge_ms("4 s of nothing to do, of one core", cpu_ms() - before, ms_since(began) / 200);
    assert_int_equal(rf_close(e), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(rf_limits__100000_devices_a_million_extents__64_bytes_a_device),
        CASE(rf_limits__columns_and_series__64_bytes_each),
        CASE(rf_open__empty_directory__150_ms_beyond_the_device),
        CASE(rf_write__10000_new_columns__one_commit_and_100_ms),
        CASE(rf_write__32_writers_add_a_column_each__four_commits),
        CASE(rf_limits__idle__half_a_percent_of_a_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
