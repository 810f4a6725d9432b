/* Another writer comes between a look at a slot and the swap behind it.
 *
 * The loads of memtable/index.c are taken over by a hook, which lets one more link be made right
 * behind the first of them. So that of two at a time none is lost is tested, and does not wait for
 * two processors to meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/check.h"
#include "memtable/memtable_impl.h"

#include <string.h>

static void behind_load(void);
static inline uint64_t load_slot(const _Atomic uint64_t *p)
{
    uint64_t value = atomic_load(p);
    behind_load();
    return value;
}
static inline uint32_t load_word(const _Atomic uint32_t *p)
{
    uint32_t value = atomic_load(p);
    behind_load();
    return value;
}
#undef atomic_load_explicit
#define atomic_load_explicit(p, order) \
    _Generic((p),                           \
        const _Atomic uint64_t *: load_slot, \
        _Atomic uint64_t *: load_slot,       \
        const _Atomic uint32_t *: load_word, \
        _Atomic uint32_t *: load_word)(p)

#include "memtable/index.c"

#define ARENA_BYTES 1024u
#define DEVICES     64u

static struct memtable_segment segment;
static uint8_t *arena;
static _Alignas(64) uint8_t image[BATCH_DELETE_BYTES];
static uint32_t next_at;
static uint32_t comes;  /* device that is linked behind the next load; DEVICES: none */
static bool is_deleted; /* and a delete */

static uint32_t begin(void)
{
    uint32_t at = next_at;
    next_at += memtable_batch_bytes(1);
    memtable_begin(&segment, at, 5000 + at);
    return at;
}

static uint32_t link_one(uint32_t device)
{
    uint32_t at = begin();
    struct batch_fragment fragment = {.rows = 1};
    memtable_link(&segment, at, 0, 0, &fragment, device);
    return at;
}

static void behind_load(void)
{
    uint32_t device = comes;
    bool deleted = is_deleted;
    comes = DEVICES;
    is_deleted = false;
    if (device != DEVICES) (void)link_one(device);
    if (deleted) memtable_link_delete(&segment, begin(), 0, BATCH_DELETE_BYTES);
}

static void start(void)
{
    const struct batch_delete delete_ = {.all_devices = true};
    batch_encode_delete(image, &delete_, NULL);
    comes = DEVICES;
    is_deleted = false;
    memset(arena, 0xff, ARENA_BYTES);
    memtable_attach(&segment, image, 4096, arena, ARENA_BYTES);
    next_at = memtable_index_bytes(ARENA_BYTES);
}

static uint32_t links_of(uint32_t device)
{
    uint32_t links = 0;
    for (uint32_t off = memtable_newest(&segment, device); off != 0;
         off = extent_at(&segment, off)->next)
        links++;
    return links;
}

static int setup(void **state)
{
    (void)state;
    arena = mem_alloc_aligned(64, ARENA_BYTES);
    return arena == NULL;
}
static int teardown(void **state)
{
    (void)state;
    mem_free(arena);
    return 0;
}

/* The same device, or one whose home is the same slot, or another; in a slot that is empty or not. */
static void memtable_link__another_comes_in_between__both_are_there(void **state)
{
    (void)state;
    for (uint32_t before = 0; before < 2; before++)
        for (uint32_t a = 0; a < DEVICES; a++)
            for (uint32_t b = 0; b < DEVICES; b++) {
                start();
                for (uint32_t i = 0; i < before; i++)
                    (void)link_one(a);
                comes = b;
                (void)link_one(a);
                assert_int_equal(comes, DEVICES);
                assert_int_equal(links_of(a), before + 1 + (a == b ? 1 : 0));
                assert_int_equal(links_of(b), a == b ? before + 2 : 1);
                assert_int_equal(memtable_extents(&segment), before + 2);
            }
}

static void memtable_link_delete__another_comes_in_between__both_are_there(void **state)
{
    (void)state;
    start();
    is_deleted = true;
    memtable_link_delete(&segment, begin(), 0, BATCH_DELETE_BYTES);
    assert_false(is_deleted);
    uint32_t newest = memtable_newest_delete(&segment);
    assert_int_not_equal(newest, 0);
    uint32_t older = deletion_at(&segment, newest)->next;
    assert_int_not_equal(older, 0);
    assert_int_equal(deletion_at(&segment, older)->next, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memtable_link__another_comes_in_between__both_are_there,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            memtable_link_delete__another_comes_in_between__both_are_there, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
