/* What a profile keeps and adds up. */
#include "cli/bench_source.h" /* random numbers */
#include "cli/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct profile_part *new_parts(size_t count, size_t newest)
{
    struct profile_part *parts = calloc(count, sizeof *parts);
    assert_non_null(parts);
    for (size_t i = 0; i < count; i++)
        profile_part_init(&parts[i], newest);
    return parts;
}

static void free_parts(struct profile_part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        profile_part_deinit(&parts[i]);
    free(parts);
}

/* All of the time in one stage. */
static struct profile_batch batch(uint32_t writer, int64_t start_ns, uint32_t stage, int64_t ns)
{
    struct profile_batch b = {
        .start_ns = start_ns, .writer = writer, .position = (uint64_t)start_ns, .total_ns = ns};
    b.stage_ns[stage] = ns;
    return b;
}

static uint64_t seed_of_test(void)
{
    const char *given = getenv("RF_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 20261130;
    printf("RF_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static int falling(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

static void profile__slowest__are_those_of_all_writers(void **state)
{
    (void)state;
    enum { PARTS = 3, EACH = 20000 };
    uint64_t random = seed_of_test();
    struct profile_part *parts = new_parts(PARTS, 0);
    struct profile p;
    int64_t *all = calloc(PARTS * EACH, sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < PARTS * EACH; i++) {
        all[i] = (int64_t)(bench_random(&random) % 1000000000);
        struct profile_batch b = batch(i % PARTS, (int64_t)i, (uint32_t)(i % RF_STAGES), all[i]);
        profile_part_add(&parts[i % PARTS], &b);
    }
    qsort(all, PARTS * EACH, sizeof *all, falling);
    profile_sum(&p, parts, PARTS);
    assert_int_equal(p.batches, PARTS * EACH);
    assert_int_equal(p.slow_count, PARTS * EACH / 1000);
    assert_false(p.slow_is_cut);
    int64_t total = 0, stages = 0;
    for (size_t i = 0; i < p.slow_count; i++) {
        assert_int_equal(p.slow[i].total_ns, all[i]);
        total += all[i];
    }
    for (int i = 0; i < RF_STAGES; i++)
        stages += p.slow_sum[i];
    assert_int_equal(p.slow_total, total);
    assert_int_equal(stages, total);
    profile_deinit(&p);
    free_parts(parts, PARTS);
    free(all);
}

static void profile__few_batches__one_is_the_slowest(void **state)
{
    (void)state;
    struct profile_part *parts = new_parts(1, 0);
    struct profile p;
    for (int i = 0; i < 10; i++) {
        struct profile_batch b = batch(0, i, 3, 100 * (i + 1));
        profile_part_add(&parts[0], &b);
    }
    profile_sum(&p, parts, 1);
    assert_int_equal(p.slow_count, 1);
    assert_int_equal(p.slow[0].total_ns, 1000);
    assert_int_equal(p.slow_sum[3], 1000);
    assert_int_equal(hist_count(&p.stage[3]), 10);
    assert_int_equal(hist_quantile(&p.total, 1), 1000);
    profile_deinit(&p);
    free_parts(parts, 1);
}

static void profile__no_batches__all_outputs_are_complete(void **state)
{
    (void)state;
    struct profile_part *parts = new_parts(2, 10);
    struct profile p;
    char *text = NULL;
    size_t bytes = 0;
    profile_sum(&p, parts, 2);
    assert_int_equal(p.slow_count, 0);
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    profile_text(&p, f);
    profile_svg(&p, "a < b & c", f);
    assert_int_equal(profile_trace(parts, 2, &p, false, f), 0);
    fclose(f);
    assert_non_null(strstr(text, "a &lt; b &amp; c"));
    assert_non_null(strstr(text, "</svg>\n{"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    free(text);
    profile_deinit(&p);
    free_parts(parts, 2);
}

static void profile__more_slow_ones_than_are_kept__is_said(void **state)
{
    (void)state;
    struct profile_part *parts = new_parts(1, 0);
    struct profile p;
    for (int i = 0; i < PROFILE_SLOWEST + 100; i++) {
        struct profile_batch b = batch(0, i, 0, i + 1);
        profile_part_add(&parts[0], &b);
    }
    assert_int_equal(parts[0].slow_count, PROFILE_SLOWEST);
    assert_int_equal(parts[0].slow[0].total_ns, 101); /* the quickest that is kept */
    profile_sum(&p, parts, 1);
    assert_int_equal(p.slow_count, (PROFILE_SLOWEST + 100 + 999) / 1000);
    assert_false(p.slow_is_cut);
    profile_deinit(&p);
    free_parts(parts, 1);
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)) != NULL; text += strlen(what))
        n++;
    return n;
}

static void profile__trace__has_the_newest_and_the_slowest_once(void **state)
{
    (void)state;
    enum { NEWEST = 5, BATCHES = 100 };
    struct profile_part *parts = new_parts(1, NEWEST);
    struct profile p;
    char *text = NULL;
    size_t bytes = 0;
    for (int i = 0; i < BATCHES; i++) {
        struct profile_batch b = batch(0, 1000 + 10000 * i, 0, i == 7 ? 9000 : 100);
        profile_part_add(&parts[0], &b);
    }
    profile_sum(&p, parts, 1);
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    assert_int_equal(profile_trace(parts, 1, &p, true, f), NEWEST + 1);
    fclose(f);
    assert_int_equal(count_of(text, "\"name\":\"validate\",\"ph\":\"X\""), NEWEST + 1);
    assert_int_equal(count_of(text, "\"dur\":9,"), 1);
    assert_int_equal(count_of(text, "\"name\":\"batch\",\"ph\":\"b\""), NEWEST + 1);
    assert_int_equal(count_of(text, "\"name\":\"batch\",\"ph\":\"e\""), NEWEST + 1);
    free(text);
    profile_deinit(&p);
    free_parts(parts, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profile__slowest__are_those_of_all_writers),
        cmocka_unit_test(profile__few_batches__one_is_the_slowest),
        cmocka_unit_test(profile__no_batches__all_outputs_are_complete),
        cmocka_unit_test(profile__more_slow_ones_than_are_kept__is_said),
        cmocka_unit_test(profile__trace__has_the_newest_and_the_slowest_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
