/* The lane: reservation to visible, over the real file system. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "wal/lane.h"
#include "wal/record.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SEGMENT_BYTES (UINT64_C(1) << 20)
#define BLOCK_BYTES   4096u

struct fixture {
    char dir[64];
    struct io_env *env;
    struct wal_lane *lane;
    _Atomic uint64_t view;
    _Atomic bool live;
    _Atomic uint64_t unfit_view; /* batches checked under this view fit no other */
    _Atomic uint32_t voided;
};

static bool look(void *ctx, uint64_t *view_out)
{
    struct fixture *f = ctx;
    *view_out = atomic_load(&f->view);
    return atomic_load(&f->live);
}
static bool fits(void *ctx, const struct wal_image *image, const uint8_t *payload,
                 uint32_t payload_bytes, uint8_t type, uint64_t then, uint64_t now)
{
    (void)image, (void)payload, (void)payload_bytes, (void)type, (void)now;
    struct fixture *f = ctx;
    return then != atomic_load(&f->unfit_view);
}
static void void_batch(void *ctx, struct wal_image *image, uint32_t arena_at)
{
    (void)image, (void)arena_at;
    struct fixture *f = ctx;
    atomic_fetch_add(&f->voided, 1);
}
static uint32_t attached(void *ctx, struct wal_image *image, uint64_t image_lsn)
{
    (void)ctx, (void)image, (void)image_lsn;
    return 4096;
}
static bool pinned(void *ctx, const struct wal_image *image)
{
    (void)ctx, (void)image;
    return false;
}
static int head_moved(void *ctx, uint32_t lane, uint64_t head)
{
    (void)ctx, (void)lane, (void)head;
    return 0;
}

static const struct clock real_clock;
static const struct log quiet = {.level = LOG_LEVEL_OFF};

static struct wal_lane_options options(struct fixture *f, enum wal_mode mode)
{
    return (struct wal_lane_options){
        .env = f->env,
        .segment_bytes = SEGMENT_BYTES,
        .block_bytes = BLOCK_BYTES,
        .segments_max = 8,
        .depth = 4,
        .mode = mode,
        .clock = &real_clock,
        .log = &quiet,
        .hooks = {.ctx = f,
                  .look = look,
                  .epoch_shift = 40,
                  .fits = fits,
                  .void_batch = void_batch,
                  .attached = attached,
                  .pinned = pinned,
                  .head_moved = head_moved},
    };
}

static struct fixture *setup_hooked(enum wal_mode mode,
                                    void (*answered)(void *ctx, struct wal_ticket *first))
{
    struct fixture *f = calloc(1, sizeof *f);
    snprintf(f->dir, sizeof f->dir, "/var/tmp/rf-lane-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_int_equal(io_env_open(f->dir, &f->env), 0);
    assert_int_equal(io_mkdir(f->env, "lane-00"), 0);
    atomic_store(&f->view, (UINT64_C(1) << 40) | 1);
    atomic_store(&f->live, true);
    struct wal_lane_options o = options(f, mode);
    o.hooks.answered = answered;
    assert_int_equal(wal_lane_create(&o, &f->lane, NULL), 0);
    struct wal_start start = {0};
    assert_int_equal(wal_lane_start(f->lane, &start, NULL), 0);
    return f;
}

static struct fixture *setup(enum wal_mode mode)
{
    return setup_hooked(mode, NULL);
}

static void teardown(struct fixture *f)
{
    if (f->lane != NULL) assert_int_equal(wal_lane_close(f->lane, false), 0);
    io_env_close(f->env);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
}

struct blocking {
    struct wal_ticket t;
    _Atomic uint32_t word;
};
static void blocking_done(struct wal_ticket *t)
{
    struct blocking *b = (struct blocking *)t;
    atomic_store(&b->word, 1);
    futex_wake_one(&b->word);
}
static int write_one(struct fixture *f, uint64_t view, uint32_t bytes, uint64_t *lsn_out)
{
    struct blocking b = {.t.done = blocking_done};
    struct wal_reservation r;
    int64_t deadline = clock_read_ns(CLOCK_MONOTONIC) + INT64_C(20000000000);
    int rc = wal_reserve_wait(f->lane, bytes, 128, view, &b.t, deadline, NULL, NULL, &r);
    if (rc != 0) return rc;
    memset(r.payload, (int)(r.lsn / 64), bytes);
    wal_publish(f->lane, &r, WAL_RECORD_DATA);
    while (atomic_load(&b.word) == 0)
        (void)futex_wait(&b.word, 0, -1);
    if (lsn_out != NULL) *lsn_out = r.lsn;
    return b.t.code;
}

static void wal_lane__one_write__visible_and_durable(void **state)
{
    (void)state;
    struct fixture *f = setup(WAL_SYNC);
    uint64_t lsn;
    assert_int_equal(write_one(f, atomic_load(&f->view), 1000, &lsn), 0);
    assert_true(wal_visible(f->lane) > lsn);
    assert_true(wal_durable(f->lane) > lsn);
    teardown(f);
}

struct writer {
    struct fixture *f;
    uint32_t count;
    uint32_t bytes;
};
static void *writer_run(void *arg)
{
    struct writer *w = arg;
    for (uint32_t i = 0; i < w->count; i++) {
        int rc = write_one(w->f, atomic_load(&w->f->view), w->bytes + i % 300, NULL);
        assert_int_equal(rc, 0);
        if (i % 16 == 0) assert_int_equal(wal_trim(w->f->lane, wal_visible(w->f->lane)), 0);
    }
    return NULL;
}

static void many_writers(enum wal_mode mode)
{
    struct fixture *f = setup(mode);
    struct writer w = {.f = f, .count = 400, .bytes = 20000};
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        assert_int_equal(thread_start(&threads[i], "writer", writer_run, &w), 0);
    for (int i = 0; i < 6; i++)
        thread_join(threads[i]);
    assert_int_equal(wal_flush(f->lane, INT64_MAX), 0);
    assert_true(wal_durable(f->lane) >= wal_visible(f->lane));
    teardown(f);
}
static void wal_lane__many_writers_over_the_ring__all_visible(void **state)
{
    (void)state;
    many_writers(WAL_SYNC);
    many_writers(WAL_ASYNC);
    many_writers(WAL_OFF);
}

static void wal_lane__another_epoch__answered_536_and_void(void **state)
{
    (void)state;
    struct fixture *f = setup(WAL_SYNC);
    uint64_t old = atomic_load(&f->view);
    assert_int_equal(write_one(f, old, 100, NULL), 0);
    uint64_t fresh = (UINT64_C(2) << 40) | 1;
    atomic_store(&f->view, fresh);
    assert_int_equal(write_one(f, old, 100, NULL), -RFE_LEASE_FENCED_RETRY);
    assert_int_equal(atomic_load(&f->voided), 1);
    assert_int_equal(write_one(f, fresh, 100, NULL), 0);
    for (int i = 0; i < 1000 && !wal_view_is_closed(f->lane, fresh); i++)
        usleep(1000);
    assert_true(wal_view_is_closed(f->lane, fresh));
    teardown(f);
}

static void wal_lane__lapsed_lease__answered_536(void **state)
{
    (void)state;
    struct fixture *f = setup(WAL_SYNC);
    atomic_store(&f->live, false);
    assert_int_equal(write_one(f, atomic_load(&f->view), 100, NULL), -RFE_LEASE_FENCED_RETRY);
    atomic_store(&f->live, true);
    assert_int_equal(write_one(f, atomic_load(&f->view), 100, NULL), 0);
    teardown(f);
}

static void wal_lane__other_version_that_does_not_fit__void_alone(void **state)
{
    (void)state;
    for (int mode = WAL_SYNC; mode <= WAL_OFF; mode++) {
        struct fixture *f = setup((enum wal_mode)mode);
        uint64_t old = atomic_load(&f->view);
        atomic_store(&f->view, old + 1);
        assert_int_equal(write_one(f, old, 100, NULL), 0); /* fits */
        atomic_store(&f->unfit_view, old);
        assert_int_equal(write_one(f, old, 100, NULL), -RFE_SCHEMA_CHANGED);
        assert_int_equal(atomic_load(&f->voided), 1);
        assert_int_equal(write_one(f, old + 1, 100, NULL), 0);
        teardown(f);
    }
}

static void wal_lane__too_large__refused(void **state)
{
    (void)state;
    struct fixture *f = setup(WAL_SYNC);
    assert_int_equal(write_one(f, 1, (uint32_t)SEGMENT_BYTES, NULL), -RFE_ENTRY_TOO_LARGE);
    teardown(f);
}

static void wal_lane__full_log__times_out_and_goes_on_after_trim(void **state)
{
    (void)state;
    struct fixture *f = setup(WAL_SYNC);
    uint64_t view = atomic_load(&f->view);
    struct blocking b[64];
    uint32_t n = 0;
    int rc = 0;
    for (; n < 64; n++) {
        struct wal_reservation r;
        b[n] = (struct blocking){.t.done = blocking_done};
        int64_t deadline = clock_read_ns(CLOCK_MONOTONIC) + 300000000;
        rc = wal_reserve_wait(f->lane, 500000, 128, view, &b[n].t, deadline, NULL, NULL, &r);
        if (rc != 0) break;
        wal_publish(f->lane, &r, WAL_RECORD_DATA);
    }
    assert_int_equal(rc, -ETIMEDOUT);
    assert_in_range(n, 5, 16);
    for (uint32_t i = 0; i < n; i++)
        while (atomic_load(&b[i].word) == 0)
            (void)futex_wait(&b[i].word, 0, -1);
    assert_int_equal(wal_trim(f->lane, wal_visible(f->lane)), 0);
    assert_int_equal(write_one(f, view, 500000, NULL), 0);
    teardown(f);
}

/* ---- answers of a group at once ---- */

static struct {
    _Atomic uint32_t calls, count;
    struct wal_ticket *ticket[8];
    int code[8];
} told;

static void answered(void *ctx, struct wal_ticket *first)
{
    (void)ctx;
    for (struct wal_ticket *t = first; t != NULL; t = t->next) {
        uint32_t n = atomic_load(&told.count);
        assert_true(n < 8);
        told.ticket[n] = t;
        told.code[n] = t->code;
        atomic_store(&told.count, n + 1);
        futex_wake_all(&told.count);
    }
    atomic_fetch_add(&told.calls, 1);
}

static void never_done(struct wal_ticket *t)
{
    (void)t;
    fail_msg("done() was called beside answered()");
}

/* Three records, the first of them published last, so that all become one group. */
static void wal_hooks__answered__whole_group_at_once_in_lsn_order(void **state)
{
    (void)state;
    struct fixture *f = setup_hooked(WAL_SYNC, answered);
    struct wal_ticket t[3] = {{.done = never_done}, {.done = never_done}, {.done = never_done}};
    struct wal_reservation r[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wal_reserve(f->lane, 100, 128, atomic_load(&f->view), &t[i], &r[i]), 0);
        memset(r[i].payload, i, 100);
    }
    for (int i = 2; i >= 0; i--)
        wal_publish(f->lane, &r[i], WAL_RECORD_DATA);
    for (uint32_t n; (n = atomic_load(&told.count)) < 3;)
        (void)futex_wait(&told.count, n, -1);
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(told.ticket[i], &t[i]);
        assert_int_equal(told.code[i], 0);
    }
    teardown(f); /* behind the close no decider runs any more */
    assert_int_equal(atomic_load(&told.calls), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wal_hooks__answered__whole_group_at_once_in_lsn_order),
        cmocka_unit_test(wal_lane__one_write__visible_and_durable),
        cmocka_unit_test(wal_lane__many_writers_over_the_ring__all_visible),
        cmocka_unit_test(wal_lane__another_epoch__answered_536_and_void),
        cmocka_unit_test(wal_lane__lapsed_lease__answered_536),
        cmocka_unit_test(wal_lane__other_version_that_does_not_fit__void_alone),
        cmocka_unit_test(wal_lane__too_large__refused),
        cmocka_unit_test(wal_lane__full_log__times_out_and_goes_on_after_trim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
