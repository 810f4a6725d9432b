#include "io/fork.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

/* Plain, not a ranked lock: fork() may be called by a host thread at any point, and nothing is
 * taken while it is held. */
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t hooks_once = PTHREAD_ONCE_INIT;
static struct fork_fd list = {.fd = -1, .prev = &list, .next = &list}; /* list_mutex */

/* One page that the kernel hands to a child as zeros. W: under list_mutex. R: any. */
static _Atomic(_Atomic uint64_t *) stamp_page;

static void before_fork(void)
{
    CHECK(pthread_mutex_lock(&list_mutex) == 0);
}

static void after_fork_in_parent(void)
{
    CHECK(pthread_mutex_unlock(&list_mutex) == 0);
}

static void after_fork_in_child(void)
{
    for (struct fork_fd *entry = list.next; entry != &list; entry = entry->next) {
        if (entry->fd >= 0) (void)close(entry->fd);
        entry->fd = -1;
    }
    CHECK(pthread_mutex_unlock(&list_mutex) == 0);
}

static void install_hooks(void)
{
    CHECK(pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0);
}

void fork_hold(void)
{
    CHECK(pthread_once(&hooks_once, install_hooks) == 0);
    CHECK(pthread_mutex_lock(&list_mutex) == 0);
}

void fork_let_go(void)
{
    CHECK(pthread_mutex_unlock(&list_mutex) == 0);
}

void fork_fd_add(struct fork_fd *entry, int fd)
{
    entry->fd = fd;
    entry->prev = list.prev;
    entry->next = &list;
    list.prev->next = entry;
    list.prev = entry;
}

void fork_fd_close(struct fork_fd *entry)
{
    /* Closed under the mutex: a child forked between taking it off and closing would keep it. */
    CHECK(pthread_mutex_lock(&list_mutex) == 0);
    entry->prev->next = entry->next;
    entry->next->prev = entry->prev;
    if (entry->fd >= 0) (void)close(entry->fd);
    entry->fd = -1;
    CHECK(pthread_mutex_unlock(&list_mutex) == 0);
}

static int map_stamp_page(void)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return -errno;
    if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
        int rc = -errno;
        (void)munmap(page, bytes);
        return rc;
    }
    atomic_store_explicit(&stamp_page, page, memory_order_release); /* pairs with fork_is_other */
    return 0;
}

int fork_stamp(uint64_t *stamp_out)
{
    int rc = 0;
    CHECK(pthread_mutex_lock(&list_mutex) == 0);
    if (atomic_load_explicit(&stamp_page, memory_order_relaxed) == NULL) rc = map_stamp_page();
    if (rc == 0) {
        _Atomic uint64_t *stamp = atomic_load_explicit(&stamp_page, memory_order_relaxed);
        /* The clock alone could repeat in children forked in one tick; the pid, below 2^22 and
         * never 0, tells them apart. */
        if (atomic_load_explicit(stamp, memory_order_relaxed) == 0)
            atomic_store_explicit(
                stamp, ((uint64_t)clock_read_ns(CLOCK_MONOTONIC) << 22) | (uint64_t)getpid(),
                memory_order_relaxed);
        *stamp_out = atomic_load_explicit(stamp, memory_order_relaxed);
    }
    CHECK(pthread_mutex_unlock(&list_mutex) == 0);
    return rc;
}

bool fork_is_other(uint64_t stamp)
{
    /* Pairs with the release in map_stamp_page: a stamp exists only once the page does. */
    _Atomic uint64_t *page = atomic_load_explicit(&stamp_page, memory_order_acquire);
    return page == NULL || atomic_load_explicit(page, memory_order_relaxed) != stamp;
}
