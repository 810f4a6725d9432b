/* ctest: concurrent timeout=240 */
/* A host that feeds the lease itself is stopped (SIGSTOP) again and again, at random and for longer
 * than its lease lasts, while it writes. What counts is the clock of the decision, as the stages of
 * each batch tell it: an acknowledged batch was decided before the newest deadline that had been
 * granted, and not in a later epoch than the one it was checked in. What was acknowledged is there,
 * what was fenced is not, when all is over and after opening again.
 *
 * RF_STOPS  how often (default 60)
 * RF_SEED   when, and for how long */
#include "rf_kit.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { WRITERS = 3, BATCHES_MAX = 60000, PARTS = 3, TTL_MS = 25, RESUMES_MAX = 4096 };
enum { VALIDATE = 0, LEASE = 4, PUBLISH = 7, DECIDE = 11 }; /* rf_stage_name */

/* Shared by the test and the host. */
static struct {
    _Atomic bool stop;
    _Atomic uint32_t ready, wrong;
    _Atomic uint64_t acknowledged, fenced, late;
    char text[256]; /* of the first thing that is wrong */
} * shared;

static char dir[KIT_PATH_BYTES];

/* ---- in the host ---- */

static struct rf_engine *engine;
static enum rf_sync mode;
static int64_t boot_offset_ns; /* CLOCK_BOOTTIME less CLOCK_MONOTONIC */
static _Atomic int64_t granted_until_ns;
static struct {
    int64_t begin_ns, end_ns;
} resumes[RESUMES_MAX];
static _Atomic uint32_t resume_count;
static int code_of[WRITERS][BATCHES_MAX];
static uint32_t written[WRITERS];

static int64_t now_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void wrong(const char *what, int64_t a, int64_t b)
{
    if (atomic_fetch_add(&shared->wrong, 1) == 0)
        snprintf(shared->text, sizeof shared->text, "%s (%" PRId64 ", %" PRId64 ")", what, a, b);
}

/* One batch's way. Its token was taken before it was validated, at the latest when all that is told as
 * `lease` (waits and earlier tries come first) and `validate` was over. The decision's clock was read
 * when the stage before `decide` had ended; in an ASYNC lane another writer may take the decision
 * before this one has looked at the end of its own publishing, so there when that began. */
static void look_at(void *ctx, const struct rf_trace *t)
{
    (void)ctx;
    if (t->code != 0) return;
    int64_t token_ns = t->start_ns + t->stage_ns[LEASE] + t->stage_ns[VALIDATE];
    int64_t decide_ns = t->start_ns;
    for (int i = 0; i < (mode == RF_SYNC_ALWAYS ? DECIDE : PUBLISH); i++)
        decide_ns += t->stage_ns[i];
    int64_t until_ns = atomic_load(&granted_until_ns) - boot_offset_ns;
    if (decide_ns >= until_ns) wrong("decided when the lease was over", decide_ns, until_ns);
    uint32_t n = atomic_load(&resume_count);
    for (uint32_t i = n > 8 ? n - 8 : 0; i < n; i++)
        if (token_ns < resumes[i].begin_ns && decide_ns > resumes[i].end_ns)
            wrong("checked in one epoch, decided in another", token_ns, decide_ns);
    if (t->start_ns + INT64_C(1000000) * TTL_MS < now_ns(CLOCK_MONOTONIC))
        atomic_fetch_add(&shared->late, 1); /* the answer came when its lease was long over */
}

/* Asks, and grants what it asked for a moment later: as a coordinator would answer. The figure of
 * the grant is there before the grant is. */
static void *feed(void *ctx)
{
    (void)ctx;
    while (!atomic_load(&shared->stop)) {
        struct rf_lease_request request;
        if (rf_lease_ask(engine, &request) != 0) continue;
        int64_t until_ns = request.asked_boot_ns + INT64_C(1000000) * TTL_MS;
        usleep(1000);
        if (until_ns > atomic_load(&granted_until_ns)) atomic_store(&granted_until_ns, until_ns);
        if (rf_lease_grant(engine, &request, TTL_MS) == 0) {
            usleep(TTL_MS * 300);
            continue;
        }
        uint32_t n = atomic_load(&resume_count);
        if (n == RESUMES_MAX) break;
        resumes[n].begin_ns = now_ns(CLOCK_MONOTONIC);
        if (rf_lease_resume(engine, &request, TTL_MS) != 0) continue;
        resumes[n].end_ns = now_ns(CLOCK_MONOTONIC);
        atomic_store(&resume_count, n + 1);
    }
    return NULL;
}

/* Batch n of writer w: a row in each of three partitions. */
static int write_batch(uint32_t w, uint32_t n)
{
    int64_t times[PARTS], values[PARTS];
    uint32_t offsets[PARTS + 1];
    char tags[PARTS];
    for (uint32_t i = 0; i < PARTS; i++) {
        times[i] = (int64_t)i * BATCHES_MAX + n;
        values[i] = n;
        tags[i] = (char)('a' + w);
        offsets[i] = i;
    }
    offsets[PARTS] = PARTS;
    struct rf_column c[] = {
        {.name = "w", .type = RF_STRING, .category = RF_TAG, .values = tags, .offsets = offsets},
        {.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = values}};
    struct rf_tablet t = {
        .size = sizeof t, .table = "t", .rows = PARTS, .columns = 2, .times = times, .column = c};
    return rf_write(engine, &t, NULL);
}

static void *write_on(void *ctx)
{
    uint32_t w = (uint32_t)(uintptr_t)ctx;
    while (!atomic_load(&shared->stop) && written[w] < BATCHES_MAX) {
        int rc = write_batch(w, written[w]);
        code_of[w][written[w]++] = rc;
        if (rc == 0)
            atomic_fetch_add(&shared->acknowledged, 1);
        else if (rc == -RF_CODE_LEASE_FENCED_RETRY)
            atomic_fetch_add(&shared->fenced, 1);
        else if (rc != -RF_CODE_WRITE_REJECT)
            wrong("a write", rc, 0);
        if (rc != 0) usleep(500);
        if (mode != RF_SYNC_ALWAYS && written[w] % 4 == 0) usleep(100); /* the log is not endless */
    }
    return NULL;
}

static void count_rows(const char *when)
{
    static uint8_t rows[WRITERS][BATCHES_MAX];
    struct rf_scan_options o;
    struct rf_cursor *cursor;
    struct rf_tablet t;
    rf_scan_options_init(&o);
    o.table = "t";
    memset(rows, 0, sizeof rows);
    int rc = rf_scan_open(engine, &o, &cursor, NULL);
    if (rc == 0) {
        while ((rc = rf_scan_next(cursor, &t)) == 1)
            for (uint32_t i = 0; i < t.rows; i++) {
                const struct rf_column *tag = &t.column[0];
                int w = ((const char *)tag->values)[tag->offsets[i]] - 'a';
                rows[w][((const int64_t *)t.column[1].values)[i]]++;
            }
        rf_scan_close(cursor);
    }
    if (rc != 0) wrong(when, rc, 0);
    for (uint32_t w = 0; w < WRITERS; w++)
        for (uint32_t n = 0; n < written[w]; n++)
            if (rows[w][n] != (code_of[w][n] == 0 ? PARTS : 0))
                wrong(when, code_of[w][n], rows[w][n]);
}

static int open_engine(enum rf_sync sync)
{
    struct rf_options o;
    rf_options_init(&o);
    o.segment_bytes = 4 << 20;
    o.memory_bytes = 200 << 20;
    o.partition_interval = BATCHES_MAX;
    o.lease = RF_LEASE_EXTERNAL;
    o.sync = sync;
    o.write_wait_ms = 0;
    o.stages = true;
    o.trace = look_at;
    o.log_level = RF_LOG_OFF;
    return rf_open(dir, &o, &engine, NULL);
}

/* So that the rows can be looked at. */
static bool come_back(void)
{
    for (int i = 0; i < 5000; i++) {
        struct rf_lease_request request;
        if (rf_lease_ask(engine, &request) == 0 && rf_lease_resume(engine, &request, 60000) == 0)
            return true;
        usleep(1000);
    }
    return false;
}

static int host(enum rf_sync sync)
{
    static const struct rf_column_def columns[] = {{"w", RF_STRING, RF_TAG},
                                                   {"v", RF_INT64, RF_FIELD}};
    pthread_t feeder, writers[WRITERS];
    mode = sync;
    boot_offset_ns = now_ns(CLOCK_BOOTTIME) - now_ns(CLOCK_MONOTONIC);
    if (open_engine(sync) != 0) return 2;
    if (!come_back() || rf_table_create(engine, "t", columns, 2, 0, NULL) != 0) return 3;
    if (rf_lease_fence(engine) != 0) return 4;
    if (pthread_create(&feeder, NULL, feed, NULL) != 0) return 5;
    for (uint32_t w = 0; w < WRITERS; w++)
        if (pthread_create(&writers[w], NULL, write_on, (void *)(uintptr_t)w) != 0) return 6;
    atomic_store(&shared->ready, 1);
    (void)pthread_join(feeder, NULL);
    for (uint32_t w = 0; w < WRITERS; w++)
        (void)pthread_join(writers[w], NULL);
    if (rf_lease_fence(engine) != 0 || !come_back()) return 7;
    count_rows("rows at the end");
    if (rf_close(engine) != 0 || open_engine(sync) != 0 || !come_back()) return 8;
    count_rows("rows after opening again");
    return rf_close(engine) != 0 ? 9 : 0;
}

/* ---- the test ---- */

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

static uint32_t below(uint64_t *random, uint32_t n)
{
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)((*random >> 33) % n);
}

static void stopped_at_random(enum rf_sync sync)
{
    uint64_t seed = number_of("RF_SEED", (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid());
    uint64_t random = seed, stops = number_of("RF_STOPS", 60);
    int status;
    kit_dir(dir);
    memset(shared, 0, sizeof *shared);
    print_message("sync %d: RF_SEED=%" PRIu64 "\n", (int)sync, seed);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(host(sync));
    while (atomic_load(&shared->ready) == 0 && waitpid(pid, &status, WNOHANG) == 0)
        usleep(1000);
    for (uint64_t i = 0; i < stops && atomic_load(&shared->wrong) == 0; i++) {
        usleep(below(&random, 40000));
        assert_int_equal(kill(pid, SIGSTOP), 0);
        usleep(below(&random, 2 * TTL_MS * 1000));
        assert_int_equal(kill(pid, SIGCONT), 0);
    }
    atomic_store(&shared->stop, true);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    print_message("%" PRIu64 " stops at random: %" PRIu64 " batches acknowledged, %" PRIu64
                  " of them after their lease, %" PRIu64 " fenced\n",
                  stops, (uint64_t)atomic_load(&shared->acknowledged),
                  (uint64_t)atomic_load(&shared->late), (uint64_t)atomic_load(&shared->fenced));
    if (atomic_load(&shared->wrong) != 0) fail_msg("%s", shared->text);
    assert_int_equal(status, 0);
    assert_true(atomic_load(&shared->acknowledged) > 0 && atomic_load(&shared->fenced) > 0);
    kit_remove(dir);
}

static void rf_lease__stopped_at_random_always__judged_by_the_decision(void **state)
{
    (void)state;
    stopped_at_random(RF_SYNC_ALWAYS);
}
static void rf_lease__stopped_at_random_async__judged_by_the_decision(void **state)
{
    (void)state;
    stopped_at_random(RF_SYNC_ASYNC);
}

int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rf_lease__stopped_at_random_always__judged_by_the_decision),
        cmocka_unit_test(rf_lease__stopped_at_random_async__judged_by_the_decision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
