#include "base/alloc.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* All relaxed: each is a figure of its own, nothing is published through it. */
static _Atomic uint64_t calls;
static _Atomic uint64_t failing_call; /* the number of the call that fails; one gone by: none */
static _Atomic int64_t bytes_in_use;
static _Atomic int64_t mapped_bytes;

/* Counts one call; true when it has to fail: its turn, or more bytes than any object may have. */
static bool refused(size_t bytes)
{
    uint64_t n = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1;
    return n == atomic_load_explicit(&failing_call, memory_order_relaxed) || bytes > PTRDIFF_MAX;
}

static void *counted(void *p)
{
    if (p != NULL)
        atomic_fetch_add_explicit(&bytes_in_use, (int64_t)malloc_usable_size(p),
                                  memory_order_relaxed);
    return p;
}

static size_t at_least_one(size_t bytes)
{
    return bytes != 0 ? bytes : 1;
}

void *mem_alloc(size_t bytes)
{
    return refused(bytes) ? NULL : counted(malloc(at_least_one(bytes)));
}

void *mem_zalloc(size_t bytes)
{
    return refused(bytes) ? NULL : counted(calloc(1, at_least_one(bytes)));
}

void *mem_zalloc_array(size_t count, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) all = SIZE_MAX; /* refused there */
    return mem_zalloc(all);
}

void *mem_alloc_aligned(size_t align, size_t bytes)
{
    CHECK(align >= 16 && (align & (align - 1)) == 0);
    if (refused(bytes)) return NULL;
    void *p;
    return posix_memalign(&p, align, at_least_one(bytes)) == 0 ? counted(p) : NULL;
}

void *mem_realloc(void *p, size_t bytes)
{
    if (p == NULL) return mem_alloc(bytes);
    if (refused(bytes)) return NULL;
    size_t before = malloc_usable_size(p);
    void *moved = realloc(p, at_least_one(bytes));
    if (moved == NULL) return NULL;
    atomic_fetch_sub_explicit(&bytes_in_use, (int64_t)before, memory_order_relaxed);
    return counted(moved);
}

char *mem_strndup(const char *s, size_t bytes)
{
    size_t length = strnlen(s, bytes);
    char *copy = mem_alloc(length + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, s, length);
    copy[length] = '\0';
    return copy;
}

void mem_free(void *p)
{
    if (p == NULL) return;
    atomic_fetch_sub_explicit(&bytes_in_use, (int64_t)malloc_usable_size(p), memory_order_relaxed);
    free(p);
}

size_t mem_usable_bytes(const void *p)
{
    return malloc_usable_size((void *)(uintptr_t)p); /* it only looks, whatever its type says */
}

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) & ~(page - 1);
}

/* The kernel aligns large anonymous maps by itself only since 6.7, so a huge page more is mapped,
 * and what stands out at both ends is given back. */
static char *map_aligned(size_t bytes)
{
    size_t slack = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : 0;
    char *base =
        mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    if (slack == 0) return base;
    size_t front = -(uintptr_t)base & (HUGE_PAGE_BYTES - 1);
    if (front != 0) CHECK(munmap(base, front) == 0);
    if (front != slack) CHECK(munmap(base + front + bytes, slack - front) == 0);
    return base + front;
}

void *mem_map(size_t bytes)
{
    CHECK(bytes > 0);
    if (refused(bytes)) return NULL;
    bytes = whole_pages(bytes);
    char *p = map_aligned(bytes);
    if (p == NULL) return NULL;
    if (madvise(p, bytes, MADV_DONTFORK) != 0) {
        /* A child that inherits the images would pay for a copy of each page written. */
        CHECK(munmap(p, bytes) == 0);
        return NULL;
    }
    (void)madvise(p, bytes, MADV_HUGEPAGE); /* a kernel without huge pages is only slower */
    atomic_fetch_add_explicit(&mapped_bytes, (int64_t)bytes, memory_order_relaxed);
    return p;
}

/* Without the kernel's help: writes each page's first byte as it is. Atomic, so that no store of
 * another thread gets lost between; ThreadSanitizer takes it for a race with plain stores, which
 * the hardware orders. */
__attribute__((no_sanitize("thread"))) static void touch_by_hand(uint8_t *p, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < bytes; at += page)
        (void)__atomic_fetch_or(p + at, 0, __ATOMIC_RELAXED);
}

void mem_touch(void *p, size_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    if (madvise(p, bytes, MADV_POPULATE_WRITE) == 0) return; /* from Linux 5.14 on */
#endif
    touch_by_hand(p, bytes);
}

void mem_unmap(void *p, size_t bytes)
{
    if (p == NULL) return;
    bytes = whole_pages(bytes);
    CHECK(munmap(p, bytes) == 0);
    atomic_fetch_sub_explicit(&mapped_bytes, (int64_t)bytes, memory_order_relaxed);
}

void alloc_fail_at(uint64_t k)
{
    /* k of 0 names a call that has been. */
    uint64_t n = atomic_load_explicit(&calls, memory_order_relaxed) + k;
    atomic_store_explicit(&failing_call, n, memory_order_relaxed);
}

uint64_t alloc_calls(void)
{
    return atomic_load_explicit(&calls, memory_order_relaxed);
}

int64_t alloc_bytes_in_use(void)
{
    return atomic_load_explicit(&bytes_in_use, memory_order_relaxed);
}

int64_t alloc_mapped_bytes(void)
{
    return atomic_load_explicit(&mapped_bytes, memory_order_relaxed);
}
