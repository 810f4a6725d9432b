/* Devices: numbers, memory, order, no memory, and many threads at once.
 * ctest: concurrent */
#include "base/alloc.h"
#include "base/thread.h"
#include "memtable/memtable.h"
#include "tests/lib/make_batch.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SLOWER 10u
#else
#define SLOWER 1u
#endif

static uint32_t key_of(char key[32], uint64_t i)
{
    return (uint32_t)snprintf(key, 32, "host_%" PRIu64, i);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void devices_intern__same_key_and_table__same_number(void **state)
{
    (void)state;
    struct devices *devices;
    uint32_t a, b, c, d;
    assert_int_equal(devices_create(&devices), 0);
    assert_int_equal(devices_find(devices, 1, "x", 1), UINT32_MAX);
    assert_int_equal(devices_intern(devices, 1, "x", 1, &a), 0);
    assert_int_equal(devices_intern(devices, 1, "x", 1, &b), 0);
    assert_int_equal(a, b);
    assert_int_equal(devices_intern(devices, 2, "x", 1, &b), 0);
    assert_int_not_equal(a, b);
    assert_int_equal(devices_intern(devices, 1, "x\0", 2, &c), 0);
    assert_int_not_equal(a, c);
    assert_int_equal(devices_intern(devices, 1, NULL, 0, &d), 0);
    assert_int_equal(devices_count(devices), 4);
    uint32_t hashed;
    assert_int_equal(devices_intern_hashed(devices, devices_hash(1, "x", 1), 1, "x", 1, &hashed),
                     0);
    assert_int_equal(hashed, a);
    assert_int_equal(devices_intern_hashed(devices, devices_hash(3, "y", 1), 3, "y", 1, &hashed),
                     0);
    assert_int_equal(devices_find(devices, 3, "y", 1), hashed);
    assert_int_equal(devices_find(devices, 1, "x", 1), a);
    assert_int_equal(devices_find(devices, 2, "x", 1), b);
    assert_int_equal(devices_find(devices, 1, "", 0), d);
    assert_int_equal(devices_find(devices, 3, "x", 1), UINT32_MAX);
    assert_true(a < 4 && b < 4 && c < 4 && d < 4);
    devices_destroy(devices);
}

/* So many that some share the 32 bits of hash that the table goes by. */
static void devices_intern__one_key_in_many_tables__a_number_each(void **state)
{
    (void)state;
    struct devices *devices;
    uint32_t number;
    assert_int_equal(devices_create(&devices), 0);
    for (uint32_t i = 0; i < 200000; i++) {
        assert_int_equal(devices_intern(devices, i, "k", 1, &number), 0);
        assert_int_equal(number, i);
    }
    for (uint32_t i = 0; i < 200000; i++)
        assert_int_equal(devices_find(devices, i, "k", 1), i);
    devices_destroy(devices);
}

static void devices_intern__longest_keys__kept_whole(void **state)
{
    (void)state;
    struct devices *devices;
    char key[BATCH_KEY_BYTES_MAX];
    uint32_t number;
    assert_int_equal(devices_create(&devices), 0);
    for (uint32_t i = 0; i < 100; i++) {
        memset(key, (int)i, sizeof key);
        assert_int_equal(devices_intern(devices, 9, key, sizeof key - i % 3, &number), 0);
        assert_int_equal(number, i);
    }
    for (uint32_t i = 0; i < 100; i++) {
        uint64_t incarnation;
        uint32_t bytes;
        const void *found;
        memset(key, (int)i, sizeof key);
        devices_key(devices, i, &incarnation, &found, &bytes);
        assert_int_equal(incarnation, 9);
        assert_int_equal(bytes, sizeof key - i % 3);
        assert_memory_equal(found, key, bytes);
        assert_int_equal(devices_find(devices, 9, key, bytes), i);
    }
    devices_destroy(devices);
}

/* Every number found again, and the bytes a device takes, keys apart. */
static void check_many(uint32_t count)
{
    struct devices *devices;
    char key[32];
    uint64_t key_bytes = 0;
    uint32_t number;
    assert_int_equal(devices_create(&devices), 0);
    int64_t empty = alloc_bytes_in_use();
    uint64_t began = now_ns();
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bytes = key_of(key, i);
        key_bytes += bytes;
        assert_int_equal(devices_intern(devices, 1 + i % 3, key, bytes, &number), 0);
        assert_int_equal(number, i);
    }
    uint64_t interned = now_ns();
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bytes = key_of(key, i);
        assert_int_equal(devices_find(devices, 1 + i % 3, key, bytes), i);
        assert_int_equal(devices_find(devices, 1 + (i + 1) % 3, key, bytes), UINT32_MAX);
    }
    uint64_t found = now_ns();
    double each = (double)(alloc_bytes_in_use() - empty - (int64_t)key_bytes) / count;
    printf("%u devices: %.1f bytes each, keys apart; intern %.0f ns, two look-ups %.0f ns\n", count,
           each, (double)(interned - began) / count, (double)(found - interned) / count);
    assert_true(each <= 64.0);
    assert_true((double)devices_bytes(devices) / count <= 64.0);
    assert_int_equal(devices_count(devices), count);
    devices_destroy(devices);
}

static void devices_intern__many__found_again_in_64_bytes_each(void **state)
{
    (void)state;
    int64_t before = alloc_bytes_in_use();
    static const uint32_t counts[] = {1000, 1025, 6145, 12289, 100000, 786433, 1000000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i] <= 2000000 / SLOWER) check_many(counts[i]);
    assert_int_equal(alloc_bytes_in_use(), before);
}

static void devices_of_table__many_tables__own_devices_in_order(void **state)
{
    (void)state;
    struct make_random random = {make_seed("devices_of_table")};
    struct devices *devices;
    uint32_t number, *numbers, count, total = 0;
    assert_int_equal(devices_create(&devices), 0);
    for (uint32_t i = 0; i < 20000; i++) {
        char key[12];
        uint32_t bytes = make_below(&random, sizeof key);
        for (uint32_t b = 0; b < bytes; b++)
            key[b] = (char)(make_below(&random, 3) - 1); /* -1, 0, 1: zeros and high bytes */
        uint64_t incarnation = 1 + make_below(&random, 3000);
        if (make_below(&random, 2) == 0) incarnation = UINT64_MAX;
        assert_int_equal(devices_intern(devices, incarnation, key, bytes, &number), 0);
    }
    for (uint64_t t = 0; t < 3002; t++) {
        uint64_t incarnation = t == 3001 ? UINT64_MAX : t;
        struct batch_key before = {0};
        assert_int_equal(devices_of_table(devices, incarnation, &numbers, &count), 0);
        assert_non_null(numbers);
        for (uint32_t i = 0; i < count; i++) {
            uint64_t found;
            struct batch_key key;
            devices_key(devices, numbers[i], &found, &key.data, &key.bytes);
            assert_int_equal(found, incarnation);
            if (i > 0)
                assert_true(batch_key_compare(before.data, before.bytes, key.data, key.bytes) < 0);
            before = key;
        }
        if (t == 0) assert_int_equal(count, 0);
        total += count;
        mem_free(numbers);
    }
    assert_int_equal(total, devices_count(devices));
    devices_destroy(devices);
}

/* The k-th allocation fails: nothing is registered, and the same call passes afterwards. */
static void devices_intern__no_memory__nothing_registered(void **state)
{
    (void)state;
    struct devices *devices;
    char key[32];
    uint32_t number, failures = 0;
    int64_t before = alloc_bytes_in_use();
    for (uint64_t k = 1; k <= 3; k++) {
        alloc_fail_at(k);
        assert_int_equal(devices_create(&devices), -ENOMEM);
    }
    alloc_fail_at(0);
    assert_int_equal(alloc_bytes_in_use(), before);
    assert_int_equal(devices_create(&devices), 0);
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t bytes = key_of(key, i);
        alloc_fail_at(1 + i % 2);
        int rc = devices_intern(devices, i / 500, key, bytes, &number);
        alloc_fail_at(0);
        if (rc != 0) {
            assert_int_equal(rc, -ENOMEM);
            failures++;
            assert_int_equal(devices_count(devices), i);
            assert_int_equal(devices_find(devices, i / 500, key, bytes), UINT32_MAX);
            assert_int_equal(devices_intern(devices, i / 500, key, bytes, &number), 0);
        }
        assert_int_equal(number, i);
    }
    printf("%u calls without memory\n", failures);
    assert_true(failures > 50);
    uint32_t *numbers, count;
    for (uint64_t k = 1; k <= 2; k++) {
        alloc_fail_at(k);
        assert_int_equal(devices_of_table(devices, 0, &numbers, &count), -ENOMEM);
    }
    alloc_fail_at(0);
    devices_destroy(devices);
    assert_int_equal(alloc_bytes_in_use(), before);
}

/* ---- many threads ---- */

#define THREADS 4u

struct crowd {
    struct devices *devices;
    uint32_t keys;
    _Atomic uint32_t ready;
    uint32_t *numbers[THREADS];
};
struct member {
    struct crowd *crowd;
    uint32_t index;
    bool reads;
    uint64_t found;
};

/* Registers every key in an order of its own, and looks up what it has registered. */
static void *register_all(void *arg)
{
    struct member *me = arg;
    struct crowd *crowd = me->crowd;
    char key[32];
    atomic_fetch_add(&crowd->ready, 1);
    while (atomic_load(&crowd->ready) < THREADS)
        ;
    for (uint32_t i = 0; i < crowd->keys; i++) {
        uint32_t k = me->index % 2 == 0 ? i : crowd->keys - 1 - i;
        uint32_t bytes = key_of(key, k), number;
        CHECK(devices_intern(crowd->devices, k % 5, key, bytes, &number) == 0);
        crowd->numbers[me->index][k] = number;
        CHECK(devices_find(crowd->devices, k % 5, key, bytes) == number);
    }
    return NULL;
}

/* Reads whatever is there: every number that is found leads to the right key. */
static void *read_all(void *arg)
{
    struct member *me = arg;
    struct crowd *crowd = me->crowd;
    char key[32];
    while (devices_count(crowd->devices) < crowd->keys) {
        for (uint32_t k = me->index; k < crowd->keys; k += 97) {
            uint32_t bytes = key_of(key, k), key_bytes, *numbers, count;
            uint32_t number = devices_find(crowd->devices, k % 5, key, bytes);
            if (number == UINT32_MAX) continue;
            uint64_t incarnation;
            const void *found;
            devices_key(crowd->devices, number, &incarnation, &found, &key_bytes);
            CHECK(incarnation == k % 5 && key_bytes == bytes && memcmp(found, key, bytes) == 0);
            if (me->found++ % 997 != 0) continue;
            CHECK(devices_of_table(crowd->devices, k % 5, &numbers, &count) == 0);
            CHECK(count >= 1);
            mem_free(numbers);
        }
    }
    return NULL;
}

static void devices_intern__many_threads__one_number_a_key(void **state)
{
    (void)state;
    struct crowd crowd = {.keys = 60000 / SLOWER};
    struct member members[THREADS + 1];
    pthread_t threads[THREADS + 1];
    assert_int_equal(devices_create(&crowd.devices), 0);
    for (uint32_t i = 0; i <= THREADS; i++) {
        members[i] = (struct member){.crowd = &crowd, .index = i};
        if (i < THREADS) crowd.numbers[i] = mem_zalloc_array(crowd.keys, sizeof(uint32_t));
        assert_int_equal(thread_start(&threads[i], "devices", i < THREADS ? register_all : read_all,
                                      &members[i]),
                         0);
    }
    for (uint32_t i = 0; i <= THREADS; i++)
        thread_join(threads[i]);
    assert_int_equal(devices_count(crowd.devices), crowd.keys);
    uint8_t *seen = mem_zalloc(crowd.keys);
    for (uint32_t k = 0; k < crowd.keys; k++) {
        for (uint32_t i = 1; i < THREADS; i++)
            assert_int_equal(crowd.numbers[i][k], crowd.numbers[0][k]);
        assert_true(crowd.numbers[0][k] < crowd.keys);
        assert_int_equal(seen[crowd.numbers[0][k]]++, 0);
    }
    mem_free(seen);
    for (uint32_t i = 0; i < THREADS; i++)
        mem_free(crowd.numbers[i]);
    devices_destroy(crowd.devices);
}

/* ---- two threads, the same key at the same moment ---- */

#define PAIRED_KEYS 20000u

struct pair {
    struct devices *devices;
    _Atomic uint32_t arrived;
    uint32_t numbers[2][PAIRED_KEYS];
};
struct half {
    struct pair *pair;
    uint32_t index;
};

static void *register_paired(void *arg)
{
    struct half *half = arg;
    struct pair *pair = half->pair;
    char key[32];
    for (uint32_t k = 0; k < PAIRED_KEYS; k++) {
        uint32_t bytes = key_of(key, k);
        atomic_fetch_add(&pair->arrived, 1);
        for (uint32_t spins = 0; atomic_load(&pair->arrived) < 2 * (k + 1); spins++)
            if (spins > 1000) sched_yield();
        CHECK(devices_intern(pair->devices, 1, key, bytes, &pair->numbers[half->index][k]) == 0);
    }
    return NULL;
}

static void devices_intern__same_key_at_the_same_moment__one_number(void **state)
{
    (void)state;
    struct pair *pair = mem_zalloc(sizeof *pair);
    struct half halves[2];
    pthread_t threads[2];
    assert_int_equal(devices_create(&pair->devices), 0);
    for (uint32_t i = 0; i < 2; i++) {
        halves[i] = (struct half){pair, i};
        assert_int_equal(thread_start(&threads[i], "pair", register_paired, &halves[i]), 0);
    }
    for (uint32_t i = 0; i < 2; i++)
        thread_join(threads[i]);
    assert_int_equal(devices_count(pair->devices), PAIRED_KEYS);
    assert_memory_equal(pair->numbers[0], pair->numbers[1], sizeof pair->numbers[0]);
    devices_destroy(pair->devices);
    mem_free(pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_intern__same_key_and_table__same_number),
        cmocka_unit_test(devices_intern__longest_keys__kept_whole),
        cmocka_unit_test(devices_intern__many__found_again_in_64_bytes_each),
        cmocka_unit_test(devices_of_table__many_tables__own_devices_in_order),
        cmocka_unit_test(devices_intern__no_memory__nothing_registered),
        cmocka_unit_test(devices_intern__one_key_in_many_tables__a_number_each),
        cmocka_unit_test(devices_intern__many_threads__one_number_a_key),
        cmocka_unit_test(devices_intern__same_key_at_the_same_moment__one_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
