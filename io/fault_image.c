#include "io/fault_image.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES  4096u
#define CHUNK_PAGES 64u
#define CHUNK_BYTES ((uint64_t)PAGE_BYTES * CHUNK_PAGES)

struct image_page {
    _Atomic uint32_t refs;
    unsigned char data[PAGE_BYTES];
};

struct image_chunk {
    _Atomic uint32_t refs;
    struct image_page *pages[CHUNK_PAGES]; /* NULL: zeros */
};

void *fault_alloc(size_t count, size_t bytes)
{
    void *p = calloc(count, bytes);
    CHECK(p != NULL);
    return p;
}

void *fault_grow(void *array, size_t count, size_t bytes)
{
    void *p = realloc(array, count * bytes);
    CHECK(p != NULL);
    return p;
}

bool fault_is_zero(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    return bytes == 0 || (p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0);
}

/* ---- references ---- */

static void take_ref(_Atomic uint32_t *refs)
{
    /* Relaxed: who takes one holds one already, so it can't be the last. */
    (void)atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

/* Acquire and release pair with each other: what others did through their reference comes before
 * the last holder frees, and before a sole holder writes. */
static bool drop_ref(_Atomic uint32_t *refs)
{
    return atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

static bool is_shared(_Atomic uint32_t *refs)
{
    return atomic_load_explicit(refs, memory_order_acquire) != 1;
}

static void put_page(struct image_page *page)
{
    if (page != NULL && drop_ref(&page->refs)) free(page);
}

static void put_chunk(struct image_chunk *chunk)
{
    if (chunk == NULL || !drop_ref(&chunk->refs)) return;
    for (uint32_t i = 0; i < CHUNK_PAGES; i++)
        put_page(chunk->pages[i]);
    free(chunk);
}

/* The chunk, made or made our own. */
static struct image_chunk *own_chunk(struct image *image, uint64_t index)
{
    if (index >= image->chunk_count) {
        uint32_t room = (uint32_t)index + 1;
        image->chunks = fault_grow(image->chunks, room, sizeof(struct image_chunk *));
        memset(image->chunks + image->chunk_count, 0,
               (room - image->chunk_count) * sizeof(struct image_chunk *));
        image->chunk_count = room;
    }
    struct image_chunk *chunk = image->chunks[index];
    if (chunk != NULL && !is_shared(&chunk->refs)) return chunk;
    struct image_chunk *own = fault_alloc(1, sizeof *own);
    atomic_init(&own->refs, 1);
    if (chunk != NULL) {
        for (uint32_t i = 0; i < CHUNK_PAGES; i++) {
            own->pages[i] = chunk->pages[i];
            if (own->pages[i] != NULL) take_ref(&own->pages[i]->refs);
        }
        put_chunk(chunk);
    }
    image->chunks[index] = own;
    return own;
}

static struct image_page *own_page(struct image_page **slot)
{
    struct image_page *page = *slot;
    if (page != NULL && !is_shared(&page->refs)) return page;
    struct image_page *own = fault_alloc(1, sizeof *own);
    atomic_init(&own->refs, 1);
    if (page != NULL) {
        memcpy(own->data, page->data, PAGE_BYTES);
        put_page(page);
    }
    *slot = own;
    return own;
}

/* ---- images ---- */

void image_deinit(struct image *image)
{
    for (uint32_t i = 0; i < image->chunk_count; i++)
        put_chunk(image->chunks[i]);
    free(image->chunks);
    *image = (struct image){0};
}

void image_copy(struct image *to, const struct image *from)
{
    *to = (struct image){.bytes = from->bytes, .chunk_count = from->chunk_count};
    if (from->chunk_count == 0) return;
    to->chunks = fault_alloc(from->chunk_count, sizeof(struct image_chunk *));
    for (uint32_t i = 0; i < from->chunk_count; i++) {
        to->chunks[i] = from->chunks[i];
        if (to->chunks[i] != NULL) take_ref(&to->chunks[i]->refs);
    }
}

static void write_page(struct image *image, uint64_t offset, const unsigned char *data,
                       uint64_t bytes)
{
    uint64_t index = offset / CHUNK_BYTES;
    bool zeros = data == NULL || fault_is_zero(data, bytes);
    if (zeros && (index >= image->chunk_count || image->chunks[index] == NULL)) return;
    struct image_chunk *chunk = own_chunk(image, index);
    struct image_page **slot = &chunk->pages[offset % CHUNK_BYTES / PAGE_BYTES];
    if (zeros && (*slot == NULL || bytes == PAGE_BYTES)) {
        put_page(*slot);
        *slot = NULL;
        return;
    }
    struct image_page *page = own_page(slot);
    if (data == NULL)
        memset(page->data + offset % PAGE_BYTES, 0, bytes);
    else
        memcpy(page->data + offset % PAGE_BYTES, data, bytes);
}

void image_write(struct image *image, uint64_t offset, const void *data, uint64_t bytes)
{
    const unsigned char *from = data;
    while (bytes > 0) {
        uint64_t step = PAGE_BYTES - offset % PAGE_BYTES;
        if (step > bytes) step = bytes;
        write_page(image, offset, from, step);
        offset += step;
        bytes -= step;
        if (from != NULL) from += step;
    }
}

void image_read(const struct image *image, uint64_t offset, void *buf, uint64_t bytes)
{
    unsigned char *to = buf;
    while (bytes > 0) {
        uint64_t step = PAGE_BYTES - offset % PAGE_BYTES;
        if (step > bytes) step = bytes;
        uint64_t index = offset / CHUNK_BYTES;
        const struct image_chunk *chunk = index < image->chunk_count ? image->chunks[index] : NULL;
        const struct image_page *page =
            chunk != NULL ? chunk->pages[offset % CHUNK_BYTES / PAGE_BYTES] : NULL;
        if (page != NULL)
            memcpy(to, page->data + offset % PAGE_BYTES, step);
        else
            memset(to, 0, step);
        offset += step;
        bytes -= step;
        to += step;
    }
}

void image_resize(struct image *image, uint64_t bytes)
{
    if (bytes < image->bytes) {
        uint64_t chunks = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
        for (uint64_t i = chunks; i < image->chunk_count; i++)
            put_chunk(image->chunks[i]);
        if (chunks < image->chunk_count) image->chunk_count = (uint32_t)chunks;
        uint64_t held = image->chunk_count * CHUNK_BYTES;
        if (bytes < held) image_write(image, bytes, NULL, held - bytes);
    }
    image->bytes = bytes;
}
