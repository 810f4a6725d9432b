/* Caches that register, are emptied, and fail to be. */
#include "lease/caches.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct box {
    struct lease_cache cache;
    int emptied;
    int rc;
};
static int empty_box(void *ctx)
{
    struct box *b = ctx;
    b->emptied++;
    return b->rc;
}
static void box_init(struct box *b, const char *name)
{
    *b = (struct box){.cache = {.name = name, .empty = empty_box, .ctx = b}};
}

static void lease_caches__registered__each_is_emptied(void **state)
{
    (void)state;
    struct lease_caches caches;
    struct box a, b;
    lease_caches_init(&caches);
    assert_int_equal(lease_caches_empty(&caches, NULL), 0); /* none */
    box_init(&a, "a");
    box_init(&b, "b");
    assert_int_equal(lease_caches_register(&caches, &a.cache), 0);
    assert_int_equal(lease_caches_register(&caches, &b.cache), 0);
    assert_int_equal(lease_caches_register(&caches, &a.cache), -EEXIST);
    assert_int_equal(lease_caches_empty(&caches, NULL), 0);
    assert_int_equal(a.emptied, 1);
    assert_int_equal(b.emptied, 1);
    assert_int_equal(lease_caches_unregister(&caches, &a.cache), 0);
    assert_int_equal(lease_caches_unregister(&caches, &a.cache), -ENOENT);
    assert_int_equal(lease_caches_empty(&caches, NULL), 0);
    assert_int_equal(a.emptied, 1);
    assert_int_equal(b.emptied, 2);
}

static void lease_caches__one_fails__all_are_called_and_it_is_named(void **state)
{
    (void)state;
    struct lease_caches caches;
    struct box boxes[3];
    static const char *const names[] = {"first", "second", "third"};
    lease_caches_init(&caches);
    for (int i = 0; i < 3; i++) {
        box_init(&boxes[i], names[i]);
        assert_int_equal(lease_caches_register(&caches, &boxes[i].cache), 0);
    }
    boxes[1].rc = -EIO;
    boxes[0].rc = -ENOMEM; /* called later: the first failure is reported */
    const char *failed = NULL;
    assert_int_equal(lease_caches_empty(&caches, &failed), -EIO);
    assert_string_equal(failed, "second");
    for (int i = 0; i < 3; i++)
        assert_int_equal(boxes[i].emptied, 1);
    assert_int_equal(lease_caches_empty(&caches, NULL), -EIO); /* whoever wants no name */
    for (int i = 0; i < 3; i++)
        assert_int_equal(boxes[i].emptied, 2);
    boxes[0].rc = boxes[1].rc = 0;
    failed = NULL;
    assert_int_equal(lease_caches_empty(&caches, &failed), 0);
    assert_null(failed);
}

static void lease_caches__fetched_value__kept_if_not_overtaken(void **state)
{
    (void)state;
    uint64_t asked = view_make(3, 7);
    assert_true(lease_cache_admits(view_make(3, 7), asked, 7));
    assert_true(lease_cache_admits(view_make(3, 8), asked, 8));
    assert_true(lease_cache_admits(view_make(3, 8), asked, 9)); /* newer than what is applied */
    assert_false(lease_cache_admits(view_make(3, 8), asked, 7));
    assert_false(lease_cache_admits(view_make(4, 7), asked, 7)); /* fenced in between */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lease_caches__registered__each_is_emptied),
        cmocka_unit_test(lease_caches__one_fails__all_are_called_and_it_is_named),
        cmocka_unit_test(lease_caches__fetched_value__kept_if_not_overtaken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
