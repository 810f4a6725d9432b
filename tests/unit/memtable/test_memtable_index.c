/* A segment's index: sizes, what is reachable, and writers beside readers.
 * ctest: concurrent */
#include "base/alloc.h"
#include "base/thread.h"
#include "memtable/memtable_impl.h"
#include "tests/lib/make_batch.h"

#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__)
#define BATCHES 1500u
#else
#define BATCHES 12000u
#endif

static void memtable_batch_bytes__promises__kept(void **state)
{
    (void)state;
    /* One fragment is one cache line; an extent never more than 96 bytes, node apart. */
    assert_int_equal(memtable_batch_bytes(1), 64);
    for (uint32_t n = 1; n < 100000; n = n * 3 / 2 + 1) {
        uint32_t bytes = memtable_batch_bytes(n);
        assert_int_equal(bytes % 64, 0);
        assert_true(bytes >= MEMTABLE_NODE_BYTES + n * MEMTABLE_EXTENT_BYTES);
        assert_true(bytes <= 32 + n * 96);
    }
    assert_int_equal(memtable_batch_bytes(UINT32_MAX), 0);
    for (uint32_t arena = 64 << 10; arena <= 256u << 20; arena *= 2) {
        uint32_t index = memtable_index_bytes(arena);
        assert_int_equal(index % 64, 0);
        /* At most two thirds of the slots are ever taken, and the index is a quarter at most. */
        uint64_t extents_max = (arena - index) / MEMTABLE_EXTENT_BYTES;
        assert_true(3 * extents_max <= 2 * (uint64_t)(index / 8));
        assert_true(index <= arena / 4);
    }
}

static void fill_segment(struct memtable_segment *segment, uint8_t *image, uint8_t *arena,
                         uint32_t arena_bytes, uint64_t lsn)
{
    memset(arena, 0xff, arena_bytes);
    memtable_attach(segment, image, lsn, arena, arena_bytes);
}

/* Every byte of the arena behind the index is extents, each of a device of its own. */
static void memtable_link__arena_full_of_devices__all_reachable(void **state)
{
    (void)state;
    const uint32_t arena_bytes = 1 << 20;
    uint8_t *arena = mem_alloc_aligned(64, arena_bytes);
    uint8_t image[64];
    struct memtable_segment segment;
    fill_segment(&segment, image, arena, arena_bytes, 4096);
    uint32_t at = memtable_index_bytes(arena_bytes), count = 0;
    for (uint32_t fragments = 700; fragments != 0;) {
        if (at + memtable_batch_bytes(fragments) > arena_bytes) {
            fragments /= 2;
            continue;
        }
        memtable_begin(&segment, at, 5000 + count);
        for (uint32_t f = 0; f < fragments; f++, count++) {
            struct batch_fragment fragment = {.rows = 1, .time_min = count, .time_max = count};
            memtable_link(&segment, at, f, 0, &fragment, count * 64); /* numbers far apart too */
        }
        at += memtable_batch_bytes(fragments);
    }
    assert_int_equal(at, arena_bytes);
    assert_int_equal(memtable_extents(&segment), count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t off = memtable_newest(&segment, i * 64);
        assert_int_not_equal(off, 0);
        assert_int_equal(extent_at(&segment, off)->time_min, i);
        assert_int_equal(extent_at(&segment, off)->next, 0);
        assert_int_equal(memtable_newest(&segment, i * 64 + 1), 0);
    }
    printf("%u extents in %u slots\n", count, segment.index_slots);
    /* The next life knows nothing of this one. */
    memtable_attach(&segment, image, 1 << 20, arena, arena_bytes);
    assert_int_equal(memtable_extents(&segment), 0);
    assert_int_equal(memtable_newest(&segment, 0), 0);
    mem_free(arena);
}

/* Chains that run over the end of a small index go on at its start. */
static void memtable_link__any_device_numbers__all_reachable(void **state)
{
    (void)state;
    struct make_random random = {make_seed("memtable_link")};
    const uint32_t arena_bytes = 1024;
    uint8_t *arena = mem_alloc_aligned(64, arena_bytes);
    _Alignas(64) uint8_t image[BATCH_DELETE_BYTES];
    struct memtable_segment segment;
    const struct batch_delete delete_ = {.all_devices = true};
    batch_encode_delete(image, &delete_, NULL);
    for (uint32_t round = 0; round < 2000; round++) {
        fill_segment(&segment, image, arena, arena_bytes, 4096);
        assert_int_equal(memtable_newest_delete(&segment), 0);
        uint32_t at = memtable_index_bytes(arena_bytes), devices[32], count = 0;
        uint32_t room = (arena_bytes - at - 64 - MEMTABLE_NODE_BYTES) / MEMTABLE_EXTENT_BYTES;
        memtable_begin(&segment, at, 5000);
        memtable_link_delete(&segment, at, 0, BATCH_DELETE_BYTES);
        at += 64;
        memtable_begin(&segment, at, 5001);
        for (; count < room; count++) {
            struct batch_fragment fragment = {.rows = 1, .time_max = count};
            devices[count] = (uint32_t)make_random(&random) << 5 | count; /* each once */
            memtable_link(&segment, at, count, 0, &fragment, devices[count]);
        }
        for (uint32_t i = 0; i < count; i++) {
            uint32_t off = memtable_newest(&segment, devices[i]);
            assert_int_equal(extent_at(&segment, off)->time_max, i);
        }
        assert_int_equal(memtable_extents(&segment), count);
        assert_int_not_equal(memtable_newest_delete(&segment), 0);
    }
    mem_free(arena);
}

static void memtable_time_max__void_and_live__of_the_live(void **state)
{
    (void)state;
    const uint32_t arena_bytes = 64 << 10;
    uint8_t *arena = mem_alloc_aligned(64, arena_bytes);
    uint8_t image[64];
    struct memtable_segment segment;
    fill_segment(&segment, image, arena, arena_bytes, 0);
    uint32_t at = memtable_index_bytes(arena_bytes);
    assert_int_equal(memtable_time_max(&segment), INT64_MIN);
    static const int64_t times[] = {-5, 10, 30, 20};
    for (uint32_t i = 0; i < 4; i++) {
        struct batch_fragment fragment = {
            .rows = 1, .time_min = times[i] - 1, .time_max = times[i]};
        memtable_begin(&segment, at + i * 64, i);
        memtable_link(&segment, at + i * 64, 0, 0, &fragment, i % 2);
    }
    assert_int_equal(memtable_time_max(&segment), 30);
    memtable_void(&segment, at + 2 * 64);
    assert_true(memtable_is_void(&segment, at + 2 * 64));
    assert_false(memtable_is_void(&segment, at + 3 * 64));
    assert_int_equal(memtable_time_max(&segment), 20);
    assert_int_equal(memtable_extents(&segment), 4);
    mem_free(arena);
}

static void memtable_seek__batches_of_all_sizes__each_is_found(void **state)
{
    (void)state;
    const uint32_t arena_bytes = 256 << 10;
    uint8_t *arena = mem_alloc_aligned(64, arena_bytes);
    uint8_t image[64];
    struct memtable_segment segment;
    fill_segment(&segment, image, arena, arena_bytes, 0);
    uint32_t first = memtable_index_bytes(arena_bytes), at[40], end = first;
    for (uint32_t i = 0; i < 40; i++) { /* at lsn 10, 20, ...; of 1 to 40 fragments */
        const struct batch_fragment fragment = {.rows = 1};
        at[i] = end;
        memtable_begin(&segment, end, 10 * (i + 1));
        for (uint32_t k = 0; k <= i; k++)
            memtable_link(&segment, end, k, 0, &fragment, k);
        end += memtable_batch_bytes(i + 1);
    }
    uint32_t place = first;
    for (uint32_t i = 0; i < 40; i += 3) { /* going on from one to the next */
        assert_true(memtable_seek(&segment, &place, end, 10 * (i + 1)));
        assert_int_equal(place, at[i]);
        assert_false(memtable_seek(&segment, &place, end, 10 * (i + 1) + 1));
        assert_int_equal(place, i + 1 < 40 ? at[i + 1] : end);
    }
    assert_false(memtable_seek(&segment, &place, end, 500));
    assert_int_equal(place, end);
    mem_free(arena);
}

/* ---- writers beside readers ----
 *
 * Writers take numbers; number i is a batch of one row at time i for each of DEVICES devices, or,
 * each 50th, a delete of a few of the rows before it. Every 7th is void. They finish out of order;
 * a decider moves V over what is published without gap. So what a reader must see follows from V
 * alone: all devices the same rows. */

#define WRITERS 3u
#define READERS 2u
#define DEVICES 3u

struct arena_test {
    struct memtable_segment segment;
    struct memtable_segment *segments[1];
    uint8_t *payload; /* of every batch, but for times and values */
    uint32_t payload_bytes, record_bytes, batch_bytes;
    uint32_t arena_first;
    _Atomic uint32_t taken;   /* W: writers */
    _Atomic uint32_t visible; /* V, as a number of batches. W: decider, release. R: acquire */
    _Atomic uint8_t published[BATCHES];
    uint64_t scans[READERS];
};

static bool is_delete(uint32_t i)
{
    return i % 50 == 49;
}
static bool is_void(uint32_t i)
{
    return i % 7 == 3;
}
static int64_t value_of(uint32_t i, uint32_t device)
{
    return (int64_t)i * 10 + device;
}
/* Whether row i is there when the first `visible` numbers count. */
static bool row_shows(uint32_t i, uint32_t visible)
{
    if (i >= visible || is_delete(i) || is_void(i)) return false;
    uint32_t deleter = i / 50 * 50 + 49; /* deletes the rows 10 to 5 before it */
    return deleter >= visible || is_void(deleter) || i < deleter - 10 || i > deleter - 5;
}

static void write_batch(struct arena_test *test, uint32_t i, uint32_t at, uint32_t payload_off)
{
    uint8_t *payload = test->segment.image + payload_off;
    struct batch_view view;
    memcpy(payload, test->payload, test->payload_bytes);
    batch_open(&view, payload, test->payload_bytes);
    for (uint32_t f = 0; f < view.fragment_count; f++) {
        struct batch_fragment fragment;
        struct batch_group group;
        struct batch_column column;
        batch_read_fragment(&view, f, &fragment);
        batch_read_group(&view, fragment.group, &group);
        CHECK(batch_find_column(&view, &group, 7, 0, &column));
        int64_t value = value_of(i, f), time = i;
        memcpy((uint8_t *)(uintptr_t)column.values + f * 8, &value, 8);
        memcpy((uint8_t *)(uintptr_t)group.times + f * 8, &time, 8);
        fragment.time_min = fragment.time_max = time;
        memtable_link(&test->segment, at, f, payload_off, &fragment, fragment.device);
        if (i % 16 == 5) sched_yield();
    }
}

static void write_delete(struct arena_test *test, uint32_t i, uint32_t at, uint32_t payload_off)
{
    struct batch_delete delete_ = {.incarnation = 1,
                                   .all_devices = true,
                                   .time_from = (int64_t)i - 10,
                                   .time_to = (int64_t)i - 5};
    batch_encode_delete(test->segment.image + payload_off, &delete_, NULL);
    memtable_link_delete(&test->segment, at, payload_off, BATCH_DELETE_BYTES);
}

static void *write_some(void *arg)
{
    struct arena_test *test = arg;
    for (;;) {
        uint32_t i = atomic_fetch_add_explicit(&test->taken, 1, memory_order_relaxed);
        if (i >= BATCHES) return NULL;
        uint32_t at = test->arena_first + i * test->batch_bytes;
        uint32_t image_off = i * test->record_bytes;
        memtable_begin(&test->segment, at, test->segment.image_lsn + image_off);
        if (is_delete(i))
            write_delete(test, i, at, image_off + 64);
        else
            write_batch(test, i, at, image_off + 64);
        if (is_void(i)) memtable_void(&test->segment, at);
        atomic_store_explicit(&test->published[i], 1, memory_order_release);
    }
}

static void *decide_all(void *arg)
{
    struct arena_test *test = arg;
    for (uint32_t i = 0; i < BATCHES; i++) {
        while (atomic_load_explicit(&test->published[i], memory_order_acquire) == 0)
            sched_yield();
        if (i % 3 == 0 || i + 1 == BATCHES)
            atomic_store_explicit(&test->visible, i + 1, memory_order_release);
    }
    return NULL;
}

static void check_device(struct arena_test *test, uint32_t visible, uint32_t device)
{
    static const struct memtable_want want = {7, 2};
    struct memtable_snapshot snapshot = {.segments = test->segments,
                                         .segment_count = 1,
                                         .visible = test->segment.image_lsn +
                                                    (uint64_t)visible * test->record_bytes};
    struct memtable_query query = {.device = device,
                                   .incarnation = 1,
                                   .key = "",
                                   .wants = &want,
                                   .want_count = 1,
                                   .time_from = INT64_MIN,
                                   .time_to = INT64_MAX,
                                   .descending = visible % 2 != 0};
    struct memtable_scan *scan;
    int64_t times[64];
    struct memtable_cell cells[64];
    int64_t count = 0, place = 0;
    CHECK(memtable_scan_open(&snapshot, &query, &scan) == 0);
    for (uint32_t n = 0; n < visible; n++) {
        uint32_t i = query.descending ? visible - 1 - n : n;
        if (!row_shows(i, visible)) continue;
        if (place == count) {
            count = memtable_scan_next(scan, times, cells, 64);
            CHECK(count > 0);
            place = 0;
        }
        int64_t value;
        CHECK(times[place] == i && cells[place].bytes == 8);
        memcpy(&value, cells[place].data, 8);
        CHECK(value == value_of(i, device));
        place++;
    }
    CHECK(place == count && memtable_scan_next(scan, times, cells, 64) == 0);
    memtable_scan_close(scan);
}

struct reader {
    struct arena_test *test;
    uint32_t index;
};

static void *read_some(void *arg)
{
    struct reader *reader = arg;
    struct arena_test *test = reader->test;
    for (uint32_t visible = 0; visible < BATCHES;) {
        visible = atomic_load_explicit(&test->visible, memory_order_acquire);
        for (uint32_t d = 0; d < DEVICES; d++)
            check_device(test, visible, d);
        test->scans[reader->index]++;
    }
    return NULL;
}

static void prepare(struct arena_test *test)
{
    static const int64_t zero;
    struct make_value keys[DEVICES], values[DEVICES];
    struct make_row rows[DEVICES];
    for (uint32_t d = 0; d < DEVICES; d++) {
        keys[d] = (struct make_value){&"abc"[d], 1};
        values[d] = (struct make_value){&zero, 8};
        rows[d] = (struct make_row){d, 0};
    }
    const struct make_column column = {7, 2, values};
    const struct make_tablet tablet = {1, DEVICES, rows, 1, &column};
    const struct make_batch batch = {0, 1, &tablet, 100, DEVICES, keys};
    test->payload_bytes = make_batch(&batch, &test->payload);
    test->record_bytes = (64 + test->payload_bytes + 63) & ~63u;
    test->batch_bytes = memtable_batch_bytes(DEVICES);
    uint32_t arena_bytes = 1 << 16;
    while (memtable_index_bytes(arena_bytes) + BATCHES * test->batch_bytes > arena_bytes)
        arena_bytes *= 2;
    uint8_t *arena = mem_map(arena_bytes);
    uint8_t *image = mem_map((size_t)BATCHES * test->record_bytes);
    assert_true(arena != NULL && image != NULL);
    memset(arena, 0xff, arena_bytes);
    memtable_attach(&test->segment, image, 1 << 20, arena, arena_bytes);
    test->segments[0] = &test->segment;
    test->arena_first = memtable_index_bytes(arena_bytes);
}

static void memtable_scan__beside_writers__whole_batches_below_v(void **state)
{
    (void)state;
    struct arena_test *test = mem_zalloc(sizeof *test);
    pthread_t threads[WRITERS + READERS + 1];
    struct reader readers[READERS];
    uint32_t count = 0;
    prepare(test);
    for (uint32_t i = 0; i < READERS; i++) {
        readers[i] = (struct reader){test, i};
        assert_int_equal(thread_start(&threads[count++], "reader", read_some, &readers[i]), 0);
    }
    for (uint32_t i = 0; i < WRITERS; i++)
        assert_int_equal(thread_start(&threads[count++], "writer", write_some, test), 0);
    assert_int_equal(thread_start(&threads[count++], "decider", decide_all, test), 0);
    for (uint32_t i = 0; i < count; i++)
        thread_join(threads[i]);
    printf("%u batches; readers took %" PRIu64 " and %" PRIu64 " snapshots\n", BATCHES,
           test->scans[0], test->scans[1]);
    assert_true(test->scans[0] > 1 || test->scans[1] > 1);
    mem_unmap(test->segment.image, (size_t)BATCHES * test->record_bytes);
    mem_unmap(test->segment.arena, test->segment.arena_bytes);
    mem_free(test->payload);
    mem_free(test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memtable_batch_bytes__promises__kept),
        cmocka_unit_test(memtable_link__arena_full_of_devices__all_reachable),
        cmocka_unit_test(memtable_link__any_device_numbers__all_reachable),
        cmocka_unit_test(memtable_time_max__void_and_live__of_the_live),
        cmocka_unit_test(memtable_seek__batches_of_all_sizes__each_is_found),
        cmocka_unit_test(memtable_scan__beside_writers__whole_batches_below_v),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
