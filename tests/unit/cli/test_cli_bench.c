/* The arithmetic of a run: when an open loop's batches begin, what a source makes, what stalls are
 * merged into, and what goes together among the options. */
#include "cli/bench_pace.h"
#include "cli/bench_report.h"
#include "cli/bench_run_impl.h"
#include "cli/bench_source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- pace ---- */

static void bench_pace__each_writer_in_turn__evenly_from_the_start(void **state)
{
    (void)state;
    const struct bench_pace p = {.start_ns = 1000, .rate = 1000, .writers = 4};
    for (uint64_t k = 0; k < 100; k++)
        for (uint64_t w = 0; w < 4; w++)
            assert_int_equal(bench_pace_ns(&p, w, k), 1000 + (int64_t)(4 * k + w) * 1000000);
}

static void bench_pace__rate_that_does_not_divide_a_second__never_drifts(void **state)
{
    (void)state;
    const struct bench_pace p = {.start_ns = 0, .rate = 7, .writers = 1};
    for (uint64_t second = 0; second < 1000; second++)
        assert_int_equal(bench_pace_ns(&p, 0, 7 * second), (int64_t)second * 1000000000);
    int64_t before = -1;
    for (uint64_t k = 0; k < 1000; k++) {
        int64_t at = bench_pace_ns(&p, 0, k);
        assert_true(at > before);
        before = at;
    }
}

static void bench_pace__highest_rate_for_a_day__does_not_overflow(void **state)
{
    (void)state;
    const struct bench_pace p = {.start_ns = 5, .rate = 1000000000, .writers = 256};
    uint64_t k = UINT64_C(86400) * 1000000000 / 256;
    assert_int_equal(bench_pace_ns(&p, 0, k), 5 + (int64_t)(k * 256));
    const struct bench_pace slow = {.start_ns = 0, .rate = 1, .writers = 1};
    assert_int_equal(bench_pace_ns(&slow, 0, 86400 * 365), INT64_C(86400) * 365 * 1000000000);
}

static void bench_pace__left__is_what_has_not_begun(void **state)
{
    (void)state;
    const struct bench_pace p = {.start_ns = 0, .rate = 1000, .writers = 4};
    assert_int_equal(bench_pace_left(&p, bench_pace_ns(&p, 1, 10), 1000000000), 240);
    assert_int_equal(bench_pace_left(&p, 5, 5), 0);
    assert_int_equal(bench_pace_left(&p, 6, 5), 0);
}

/* ---- options ---- */

static bool parse(struct bench_options *o, const char *words)
{
    static char text[500];
    static char *argv[64];
    int argc = 0;
    bool help;
    snprintf(text, sizeof text, "%s", words);
    for (char *at = text; (argv[argc] = strsep(&at, " ")) != NULL;)
        argc++;
    return bench_options_parse(o, "bench", argc, argv, &help);
}

static enum exit_code check(const char *words)
{
    struct bench_options o;
    if (!parse(&o, words)) return EXIT_USAGE;
    return bench_options_check(&o);
}

static void bench_options__what_does_not_go_together__is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "--rows 10",
        "--dir d --rows 10 --tablet-devices 11",
        "--dir d --rows 10 --partitions 11",
        "--dir d --model tree --tablet-devices 2",
        "--dir d --lanes 2 --tablet-devices 2",
        "--dir d --lanes 2 --replay f",
        "--dir d --lease off --fence-every 1",
        "--dir d --seconds 0",
        "--dir d --types DOUBLE,FLOATING",
        "--dir d --types "
        "INT32,INT32,INT32,INT32,INT32,INT32,INT32,INT32,INT32,INT32,INT32,INT32,INT32,INT32,"
        "INT32,INT32,INT32",
        "--dir d --rows 16777216 --text-bytes 1000 --types TEXT",
        "--dir d --nulls 1.1",
        "--dir d --nulls -0.1",
        "--dir d --out-of-order x",
        "--dir d --writers 0",
        "--dir d --trace f",
    };
    assert_non_null(freopen("/dev/null", "w", stderr));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (check(bad[i]) != EXIT_USAGE) fail_msg("%s is not refused", bad[i]);
    assert_int_equal(check("--dir d"), EXIT_OK);
    assert_int_equal(check("--dir d --seconds 0 --points 5"), EXIT_OK);
    assert_int_equal(check("--dir d --nulls 1 --out-of-order 0.5 --rows 10 --partitions 10"),
                     EXIT_OK);
}

static void bench_options__words__are_what_they_say(void **state)
{
    (void)state;
    struct bench_options o;
    assert_true(parse(&o, "--dir d --rate 500 --seconds 2.5 --warmup 0.25 --stall 0.05 --nulls "
                          "0.125 --values random --sync off --types INT32,TEXT --memory 64M "
                          "--tablet-devices 3 --fence-every 0.002 --buffered"));
    assert_int_equal(bench_options_check(&o), EXIT_OK);
    assert_int_equal(o.rate, 500);
    assert_int_equal(o.seconds_ms, 2500);
    assert_int_equal(o.warmup_ms, 250);
    assert_int_equal(o.stall_ms, 50);
    assert_true(o.nulls == 0.125);
    assert_int_equal(o.shape, SHAPE_RANDOM);
    assert_int_equal(o.sync, RF_SYNC_OFF);
    assert_int_equal(o.type_count, 2);
    assert_int_equal(o.type[0], RF_INT32);
    assert_int_equal(o.type[1], RF_TEXT);
    assert_int_equal(o.memory_bytes, 64 << 20);
    assert_int_equal(o.devices, 3); /* at least as many as one tablet has */
    assert_int_equal(o.fence_every_ms, 2);
    assert_true(o.buffered);
}

/* ---- sources ---- */

enum { INTERVAL = 1000000000, BATCHES = 40 };

struct seen {
    int64_t time;
    char device[16];
};

static int by_key(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return memcmp(x->device, y->device, sizeof x->device);
}

static void see(struct seen *s, const struct rf_tablet *t, uint32_t row)
{
    memset(s, 0, sizeof *s);
    s->time = t->times[row];
    if (t->table == NULL) {
        snprintf(s->device, sizeof s->device, "%.15s", t->device + strlen("root.bench."));
        return;
    }
    const struct rf_column *tag = &t->column[t->columns - 1];
    memcpy(s->device, (const char *)tag->values + tag->offsets[row],
           tag->offsets[row + 1] - tag->offsets[row]);
}

/* All rows of three writers' first batches; the caller's to free. */
static struct seen *see_all(struct bench_options *o, size_t *count_out)
{
    size_t count = 0;
    struct seen *all = calloc(o->writers * BATCHES * o->rows, sizeof *all);
    assert_non_null(all);
    for (uint64_t w = 0; w < o->writers; w++) {
        struct bench_source *s = bench_source_create(o, w, INTERVAL, NULL);
        for (int i = 0; i < BATCHES; i++) {
            struct bench_batch b;
            bench_source_next(s, &b);
            assert_int_equal(b.rows, o->rows);
            for (uint32_t row = 0; row < o->rows; row++)
                see(&all[count++], b.tablets, row);
        }
        bench_source_destroy(s);
    }
    *count_out = count;
    return all;
}

static void bench_source__any_shape__no_device_has_a_time_twice(void **state)
{
    (void)state;
    static const char *const shapes[] = {
        "--dir d --rows 100 --writers 3",
        "--dir d --rows 100 --writers 3 --devices 7 --tablet-devices 5",
        "--dir d --rows 100 --writers 2 --partitions 4 --out-of-order 0.5 --devices 3",
        "--dir d --rows 100 --writers 2 --devices 100 --tablet-devices 100",
        "--dir d --rows 1 --writers 3 --devices 10 --model tree",
    };
    for (size_t n = 0; n < sizeof shapes / sizeof shapes[0]; n++) {
        struct bench_options o;
        size_t count;
        assert_true(parse(&o, shapes[n]));
        assert_int_equal(bench_options_check(&o), EXIT_OK);
        struct seen *all = see_all(&o, &count);
        qsort(all, count, sizeof *all, by_key);
        for (size_t i = 1; i < count; i++)
            if (by_key(&all[i - 1], &all[i]) == 0)
                fail_msg("%s: %s twice at %lld", shapes[n], all[i].device, (long long)all[i].time);
        free(all);
    }
}

static void bench_source__devices__are_all_written_to(void **state)
{
    (void)state;
    struct bench_options o;
    size_t count;
    bool there[20] = {false};
    assert_true(parse(&o, "--dir d --rows 10 --writers 2 --devices 20 --tablet-devices 5"));
    assert_int_equal(bench_options_check(&o), EXIT_OK);
    struct seen *all = see_all(&o, &count);
    for (size_t i = 0; i < count; i++) {
        long device = strtol(all[i].device + 1, NULL, 10);
        assert_in_range(device, 0, 19);
        there[device] = true;
    }
    for (int i = 0; i < 20; i++)
        assert_true(there[i]);
    free(all);
}

static void bench_source__shares__are_met(void **state)
{
    (void)state;
    struct bench_options o;
    struct bench_batch b;
    assert_true(parse(&o, "--dir d --rows 10000 --columns 2 --nulls 0.25 --out-of-order 0.5 "
                          "--partitions 8 --types INT64,TEXT --text-bytes 10"));
    assert_int_equal(bench_options_check(&o), EXIT_OK);
    struct bench_source *s = bench_source_create(&o, 0, INTERVAL, NULL);
    bench_source_next(s, &b);
    const struct rf_tablet *t = b.tablets;
    uint64_t nulls[2] = {0}, displaced = 0;
    int64_t partition_min = INT64_MAX, partition_max = 0;
    for (uint32_t row = 0; row < 10000; row++) {
        for (int c = 0; c < 2; c++)
            nulls[c] += t->column[c].nulls[row / 8] >> row % 8 & 1;
        int64_t in_order = (int64_t)row * 8 / 10000 * INTERVAL + row;
        displaced += t->times[row] != in_order;
        if (t->times[row] / INTERVAL < partition_min) partition_min = t->times[row] / INTERVAL;
        if (t->times[row] / INTERVAL > partition_max) partition_max = t->times[row] / INTERVAL;
    }
    for (int c = 0; c < 2; c++)
        assert_in_range(nulls[c], 2300, 2700);
    assert_in_range(displaced, 3500, 5000); /* some rows change places twice */
    assert_int_equal(partition_min, 0);
    assert_int_equal(partition_max, 7);
    assert_int_equal(b.points, 20000 - nulls[0] - nulls[1]);
    /* times; INT64; TEXT of 10 bytes; the TAG of 10 bytes */
    assert_int_equal(b.bytes, 80000 + 8 * (10000 - nulls[0]) + 10 * (10000 - nulls[1]) + 100000);
    bench_source_destroy(s);
}

static uint64_t digest(const char *words)
{
    struct bench_options o;
    struct bench_batch b;
    uint64_t sum = 0;
    assert_true(parse(&o, words));
    assert_int_equal(bench_options_check(&o), EXIT_OK);
    struct bench_source *s = bench_source_create(&o, 0, INTERVAL, NULL);
    bench_source_next(s, &b);
    const double *v = b.tablets->column[0].values;
    for (uint32_t i = 0; i < b.rows; i++) {
        uint64_t bits;
        memcpy(&bits, &v[i], sizeof bits);
        sum = sum * 31 + bits;
    }
    bench_source_destroy(s);
    return sum;
}

static void bench_source__seed__decides_the_values(void **state)
{
    (void)state;
    assert_int_equal(digest("--dir d --seed 5"), digest("--dir d --seed 5"));
    assert_int_not_equal(digest("--dir d --seed 5"), digest("--dir d --seed 6"));
    assert_int_not_equal(digest("--dir d --values random"), digest("--dir d"));
    assert_int_equal(digest("--dir d --values constant --seed 1"),
                     digest("--dir d --values constant --seed 2"));
}

static void bench_source__walk__has_two_decimals(void **state)
{
    (void)state;
    struct bench_options o;
    struct bench_batch b;
    assert_true(parse(&o, "--dir d"));
    assert_int_equal(bench_options_check(&o), EXIT_OK);
    struct bench_source *s = bench_source_create(&o, 0, INTERVAL, NULL);
    bench_source_next(s, &b);
    const double *v = b.tablets->column[3].values;
    for (uint32_t i = 0; i < b.rows; i++) {
        char text[32];
        snprintf(text, sizeof text, "%.2f", v[i]);
        assert_true(strtod(text, NULL) == v[i]);
        if (i > 0) assert_true(v[i] - v[i - 1] < 1.01 && v[i - 1] - v[i] < 1.01);
    }
    bench_source_destroy(s);
}

/* ---- stalls ---- */

static void bench_stalls__that_overlap__are_one(void **state)
{
    (void)state;
    struct bench_stall s[] = {
        {.at_ns = 500, .took_ns = 10, .batches = 1},
        {.at_ns = 100, .took_ns = 50, .batches = 1},
        {.at_ns = 120, .took_ns = 100, .batches = 1, .writer = 7},
        {.at_ns = 219, .took_ns = 5, .batches = 1},
        {.at_ns = 224, .took_ns = 5, .batches = 1},
    };
    assert_int_equal(bench_merge_stalls(s, 5), 3);
    assert_int_equal(s[0].at_ns, 120);
    assert_int_equal(s[0].took_ns, 100);
    assert_int_equal(s[0].batches, 3);
    assert_int_equal(s[0].writer, 7);
    assert_int_equal(s[1].at_ns, 224);
    assert_int_equal(s[1].batches, 1);
    assert_int_equal(s[2].at_ns, 500);
    assert_int_equal(bench_merge_stalls(NULL, 0), 0);
}

static void bench_cause__by_what_was_seen_meanwhile(void **state)
{
    (void)state;
    const int64_t ms = 1000000;
    struct sample calm[60], fenced[60], full[60], away[2];
    for (int i = 0; i < 60; i++) {
        calm[i] = fenced[i] = full[i] = (struct sample){.at_ns = i * WATCH_NS};
        fenced[i].fenced = full[i].full = i == 20;
    }
    away[0] = (struct sample){.at_ns = 100 * ms};
    away[1] = (struct sample){.at_ns = 400 * ms};
    struct run run = {.sample = calm, .sample_count = 60};
    struct bench_stall s = {.at_ns = 100 * ms, .took_ns = 300 * ms};
    assert_string_equal(bench_cause(&run, &s), "device");
    s.in_call_ns = 200 * ms;
    assert_string_equal(bench_cause(&run, &s), "room");
    s.late_ns = 200 * ms;
    assert_string_equal(bench_cause(&run, &s), "earlier");
    s.late_ns = s.in_call_ns = 0;
    run.sample = fenced;
    assert_string_equal(bench_cause(&run, &s), "lease");
    run.sample = full;
    assert_string_equal(bench_cause(&run, &s), "room");
    s.at_ns = 300 * ms; /* it was full before that */
    assert_string_equal(bench_cause(&run, &s), "device");
    s.at_ns = 100 * ms;
    run.sample = away;
    run.sample_count = 2;
    assert_string_equal(bench_cause(&run, &s), "machine");
}

static void bench_cpu_seconds__is_user_and_system_together(void **state)
{
    (void)state;
    const struct rusage a = {.ru_utime = {1, 900000}, .ru_stime = {0, 500000}};
    const struct rusage b = {.ru_utime = {3, 100000}, .ru_stime = {1, 0}};
    double seconds = bench_cpu_seconds(&a, &b);
    assert_true(seconds > 1.6999 && seconds < 1.7001);
    assert_true(bench_ratio(1, 0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bench_pace__each_writer_in_turn__evenly_from_the_start),
        cmocka_unit_test(bench_pace__rate_that_does_not_divide_a_second__never_drifts),
        cmocka_unit_test(bench_pace__highest_rate_for_a_day__does_not_overflow),
        cmocka_unit_test(bench_pace__left__is_what_has_not_begun),
        cmocka_unit_test(bench_options__words__are_what_they_say),
        cmocka_unit_test(bench_source__any_shape__no_device_has_a_time_twice),
        cmocka_unit_test(bench_source__devices__are_all_written_to),
        cmocka_unit_test(bench_source__shares__are_met),
        cmocka_unit_test(bench_source__seed__decides_the_values),
        cmocka_unit_test(bench_source__walk__has_two_decimals),
        cmocka_unit_test(bench_stalls__that_overlap__are_one),
        cmocka_unit_test(bench_cause__by_what_was_seen_meanwhile),
        cmocka_unit_test(bench_cpu_seconds__is_user_and_system_together),
        cmocka_unit_test(bench_options__what_does_not_go_together__is_refused), /* takes stderr */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
