/* ctest: timeout=400 */
/* A whole engine on the fault double while one thing fails: the k-th operation on files (by each
 * errno, once or for good, or short), or the k-th allocation, in each phase of a life. Every k until
 * the phase runs through without the fault.
 *
 * Then: an error that the header names, or success; what was acknowledged is there, what was not is
 * whole or absent; after rf_resume the engine takes writes again, or opens again; no memory is left
 * over; and a power failure after all of it takes nothing acknowledged back.
 *
 * RF_FAULT_ALL=1  each k with each errno (default: the errnos in turn)
 * RF_SEED         which errno and which size is the first one's (default 0) */
#include "base/alloc.h"
#include "tests/lib/engine_rig.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct life {
    struct engine_rig rig;
    struct story_told told;
    uint32_t next; /* batch */
    char what[160];
};

/* ---- phases ---- */

/* What a call may return while something fails. */
static bool is_named(int rc)
{
    switch (-rc) {
    case 0:
    case RF_CODE_WAL_ERROR:
    case RF_CODE_DISK_FULL:
    case RF_CODE_WRITE_REJECT:
    case RF_CODE_UNKNOWN:
    case RF_CODE_LATCHED:
    case RF_CODE_METADATA_ERROR:
    case RF_CODE_LEASE_FENCED_RETRY:
    case RF_CODE_LEASE_FENCED:
    case RF_CODE_NO_TABLE:
    case RF_CODE_LIMIT:
    case RF_CODE_CORRUPT: /* a file that can't be read as a whole */
    case RF_CODE_NOT_OURS:
    case RF_CODE_IN_USE: return true;
    default: return rc > -RF_CODE_EXECUTE_ERROR && rc < 0; /* an errno */
    }
}

static int write_batch(struct life *l, uint32_t blob_bytes, uint32_t extra)
{
    static struct story_tablet t;
    uint32_t b = l->next++;
    story_tablet(&t, 0, b, blob_bytes, extra);
    int rc = rf_write(l->rig.e, &t.tablet, &l->rig.error);
    story_free(&t);
    l->told.low[0][b] = FATE_PRESENT;
    bool unknown = rc == -RF_CODE_WAL_ERROR || rc == -RF_CODE_UNKNOWN;
    l->told.high[0][b] = rc == 0 ? FATE_PRESENT : unknown ? FATE_EITHER : FATE_ABSENT;
    return rc;
}

static int do_open(struct life *l)
{
    return engine_rig_open(&l->rig);
}
static int do_first_write(struct life *l)
{
    return write_batch(l, 100, 0);
}
static int do_writes(struct life *l)
{
    static const uint32_t sizes[] = {10, 30000, 90000, 0, 60000};
    int first = 0;
    for (uint32_t i = 0; i < 5; i++) {
        int rc = write_batch(l, sizes[i], 0);
        if (first == 0) first = rc;
    }
    return first;
}
static int do_new_column(struct life *l)
{
    return write_batch(l, 10, 1 + l->next);
}
static int do_scan(struct life *l)
{
    struct rf_scan_options o;
    struct rf_cursor *c;
    struct rf_tablet rows;
    rf_scan_options_init(&o);
    o.table = STORY_TABLE;
    int rc = rf_scan_open(l->rig.e, &o, &c, &l->rig.error);
    if (rc != 0) return rc;
    while ((rc = rf_scan_next(c, &rows)) == 1)
        ;
    rf_scan_close(c);
    return rc;
}
static int do_delete(struct life *l)
{
    struct rf_delete_options o;
    struct rf_tag_filter tag;
    char text[4];
    story_delete(&o, &tag, text, 0, 1);
    int rc = rf_delete(l->rig.e, &o, &l->rig.error);
    bool unknown = rc == -RF_CODE_WAL_ERROR || rc == -RF_CODE_UNKNOWN;
    if (rc == 0) l->told.low[0][1] = FATE_ABSENT;
    if (unknown) l->told.low[0][1] = FATE_EITHER;
    return rc;
}
static int do_ddl(struct life *l)
{
    static const struct rf_column_def tag = {"w", RF_STRING, RF_TAG},
                                      field = {"a", RF_INT32, RF_FIELD};
    struct rf_engine *e = l->rig.e;
    int first = rf_table_create(e, "d", &tag, 1, 0, &l->rig.error), rc;
    rc = rf_table_add_columns(e, "d", &field, 1, &l->rig.error);
    if (first == 0) first = rc;
    rc = rf_table_rename_column(e, "d", "a", "b", &l->rig.error);
    if (first == 0) first = rc;
    rc = rf_table_drop(e, "d", &l->rig.error);
    return first == 0 ? rc : first;
}
static int do_trim(struct life *l)
{
    struct rf_trim_options o;
    struct rf_stats stats = {.size = sizeof stats};
    rf_trim_options_init(&o);
    assert_int_equal(rf_stats(l->rig.e, &stats), 0);
    o.before_position = stats.position;
    for (uint32_t b = 1; b < l->next; b++)
        if (l->told.high[0][b] == FATE_PRESENT) l->told.high[0][b] = FATE_EITHER;
    return rf_trim(l->rig.e, &o, NULL);
}
static int do_flush(struct life *l)
{
    return rf_flush(l->rig.e);
}
static int do_close(struct life *l)
{
    return engine_rig_close(&l->rig);
}

struct phase {
    const char *name;
    int (*run)(struct life *l);
};
static const struct phase phases[] = {
    {"open", do_open},
    {"first write", do_first_write},
    {"writes", do_writes},
    {"scan", do_scan},
    {"new column", do_new_column},
    {"delete", do_delete},
    {"tables", do_ddl},
    {"writes on", do_writes},
    {"trim", do_trim},
    {"flush", do_flush},
    {"close", do_close},
    {"open again", do_open},
    {"close again", do_close},
};
#define PHASES (sizeof phases / sizeof phases[0])

/* ---- one life with one fault ---- */

static struct story_found found;

static void life_begin(struct life *l, struct io_env *env, uint32_t phase)
{
    memset(l, 0, sizeof *l);
    engine_rig_init(&l->rig, env);
    l->rig.o.memory_bytes = 7 * ((1 << 20) + (1 << 18));
    l->rig.o.write_wait_ms = 1000;
    l->next = 1;
    for (uint32_t i = 0; i < phase; i++) {
        int rc = phases[i].run(l);
        if (rc != 0) fail_msg("%s without a fault: %d %s", phases[i].name, rc, l->rig.error.text);
    }
}

static void must(const struct life *l, bool holds, const char *what)
{
    if (!holds) fail_msg("%s: %s: %s", l->what, what, l->rig.error.text);
}

static void look(struct life *l)
{
    must(l, story_scan(l->rig.e, &found), "scan");
    must(l, story_is_right(&l->told, &found), "content");
}

/* The fault is over: goes on in this life as far as that is promised, then in a next one, then
 * after a power failure. */
static void life_end(struct life *l)
{
    if (l->rig.e != NULL) {
        must(l, rf_resume(l->rig.e, &l->rig.error) == 0, "resume");
        look(l);
        int rc = write_batch(l, 10, 0);
        must(l, rc == 0 || rc == -RF_CODE_METADATA_ERROR, "a write after the fault");
        look(l);
        must(l, engine_rig_close(&l->rig) == 0, "close");
    }
    enum rf_verdict verdict = engine_rig_verify(&l->rig);
    must(l, verdict != RF_VERDICT_CORRUPT, "verdict");
    l->rig.o.write_wait_ms = 10000;
    must(l, engine_rig_open(&l->rig) == 0, "open after the fault");
    look(l);
    story_settle(&l->told, &found);
    must(l, write_batch(l, 10, 200) == 0, "a write in the next life");
    look(l);
    struct io_env *env = l->rig.env, *left;
    assert_int_equal(
        fault_crash(env, fault_trace_length(env), fault_choice_drop, NULL, NULL, &left, NULL), 0);
    must(l, engine_rig_close(&l->rig) == 0, "close of the next life");
    l->rig.env = left;
    must(l, engine_rig_open(&l->rig) == 0, "open after a power failure");
    look(l);
    must(l, engine_rig_close(&l->rig) == 0, "the last close");
    io_env_close(left);
    l->rig.env = env;
}

static struct io_env *fresh(uint64_t seed)
{
    struct io_env *env;
    const struct fault_options o = {.seed = seed, .record = true};
    assert_int_equal(fault_env_open(&o, &env), 0);
    return env;
}

/* Runs the phase with the k-th operation failing; false: there was no k-th one. */
static bool operation_fails(uint32_t phase, const struct fault_rule *fault, uint64_t *failed)
{
    static struct life l;
    struct io_env *env = fresh(0);
    int64_t bytes = alloc_bytes_in_use(), mapped = alloc_mapped_bytes();
    life_begin(&l, env, phase);
    uint64_t before = fault_operations(env, fault->targets);
    snprintf(l.what, sizeof l.what, "%s, operation %" PRIu64 " of %x, kind %d, %s, %s",
             phases[phase].name, fault->skip, fault->targets, fault->kind, strerror(fault->error),
             fault->times == 1 ? "once" : "for good");
    assert_int_equal(fault_add(env, fault), 0);
    int rc = phases[phase].run(&l);
    bool hit = fault_operations(env, fault->targets) - before > fault->skip;
    fault_clear(env);
    must(&l, is_named(rc), "an error of another kind");
    if (rc != 0) ++*failed;
    life_end(&l);
    must(&l, alloc_bytes_in_use() == bytes && alloc_mapped_bytes() == mapped, "memory left over");
    io_env_close(env);
    return hit;
}

/* Which errno or size the k-th one gets: each seed turns the wheel by one, so that as many rounds as
 * it has places see them all. */
static uint64_t turned(void)
{
    const char *text = getenv("RF_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : 0;
    printf("RF_SEED=%" PRIu64 "\n", seed);
    return seed;
}

static void crash_fault__kth_operation_fails__clean_error_nothing_lost(void **state)
{
    (void)state;
    static const int errors[] = {EIO,    ENOSPC, EDQUOT, EFBIG, EINTR,    EAGAIN,
                                 EINVAL, EROFS,  ENOMEM, EBUSY, ECANCELED};
    uint32_t n = sizeof errors / sizeof errors[0];
    bool all = getenv("RF_FAULT_ALL") != NULL;
    uint64_t cases = 0, failed = 0, seed = turned();
    for (uint32_t phase = 0; phase < PHASES; phase++) {
        bool hit = true;
        uint64_t k = 0;
        for (; hit && k < 400; k++) {
            for (uint32_t i = 0; i < (all ? 2 * n : 1) && hit; i++, cases++) {
                uint32_t turn = all ? i : (uint32_t)((k + seed) % (2 * n));
                struct fault_rule rule = {.kind = FAULT_ERROR,
                                          .targets = FAULT_ON_ANY,
                                          .skip = k,
                                          .times = turn / n % 2 == 0 ? 1 : 40,
                                          .error = errors[turn % n]};
                hit = operation_fails(phase, &rule, &failed);
            }
        }
        printf("%s: %" PRIu64 " operations\n", phases[phase].name, k - 1);
    }
    printf("%" PRIu64 " cases, %" PRIu64 " calls failed\n", cases, failed);
    assert_true(failed > 0);
}

/* One short transfer each of these. Reads of the catalog are left out: SQLite takes a short read
 * for the end of its file, and a file that ends in its middle is not what a disk does. */
static const struct fault_rule shorts[] = {
    {.kind = FAULT_SHORT, .targets = FAULT_ON_WRITE},
    {.kind = FAULT_SHORT, .targets = FAULT_ON_READ, .path = "lane-"},
    {.kind = FAULT_SHORT, .targets = FAULT_ON_READ, .path = "manifest"},
};

static void crash_fault__kth_transfer_comes_back_short__clean_error_nothing_lost(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 511, 512, 4096, 4097, 12288, 65536};
    uint32_t n = sizeof sizes / sizeof sizes[0], kinds = sizeof shorts / sizeof shorts[0];
    bool all = getenv("RF_FAULT_ALL") != NULL;
    uint64_t cases = 0, failed = 0, seed = turned();
    for (uint32_t at = 0; at < PHASES * kinds; at++) {
        bool hit = true;
        for (uint64_t k = 0; hit && k < 400; k++)
            for (uint32_t i = 0; i < (all ? n : 1) && hit; i++, cases++) {
                struct fault_rule rule = shorts[at % kinds];
                rule.skip = k;
                rule.times = (k + seed) % 3 == 2 ? 30 : 1;
                rule.short_bytes = sizes[all ? i : (k + at + seed) % n];
                hit = operation_fails(at / kinds, &rule, &failed);
            }
    }
    printf("%" PRIu64 " cases, %" PRIu64 " calls failed\n", cases, failed);
    assert_true(failed > 0 && failed < cases);
}

/* As operation_fails, of the k-th allocation. */
static bool allocation_fails(uint32_t phase, uint64_t k, uint64_t *failed)
{
    static struct life l;
    struct io_env *env = fresh(0);
    int64_t bytes = alloc_bytes_in_use(), mapped = alloc_mapped_bytes();
    life_begin(&l, env, phase);
    snprintf(l.what, sizeof l.what, "%s, allocation %" PRIu64, phases[phase].name, k);
    uint64_t before = alloc_calls();
    alloc_fail_at(k);
    int rc = phases[phase].run(&l);
    bool hit = alloc_calls() - before >= k;
    alloc_fail_at(0);
    if (rc != 0 && rc != -ENOMEM && !is_named(rc)) must(&l, false, "an error of another kind");
    if (rc != 0) ++*failed;
    life_end(&l);
    must(&l, alloc_bytes_in_use() == bytes && alloc_mapped_bytes() == mapped, "memory left over");
    io_env_close(env);
    return hit;
}

static void crash_fault__kth_allocation_fails__clean_error_nothing_lost(void **state)
{
    (void)state;
    uint64_t cases = 0, failed = 0;
    for (uint32_t phase = 0; phase < PHASES; phase++) {
        uint64_t k = 1;
        while (allocation_fails(phase, k, &failed) && k < 1000)
            k++;
        printf("%s: %" PRIu64 " allocations\n", phases[phase].name, k - 1);
        cases += k;
    }
    printf("%" PRIu64 " cases, %" PRIu64 " calls failed\n", cases, failed);
    assert_true(failed > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crash_fault__kth_operation_fails__clean_error_nothing_lost),
        cmocka_unit_test(crash_fault__kth_transfer_comes_back_short__clean_error_nothing_lost),
        cmocka_unit_test(crash_fault__kth_allocation_fails__clean_error_nothing_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
