/* The bytes of one file of the fault double: sparse pages, shared between images until one of them
 * is written to. A copy costs one pointer for each 256 KiB, so tens of thousands of crash images
 * can be made of one trace.
 *
 * Memory  by fault_alloc, not base/alloc.h: a test that makes the engine's k-th allocation fail, or
 *         counts its bytes, is not to hit the double's.
 * Thread  an image is one thread's at a time; pages shared by images of several threads are safe. */
#ifndef RF_IO_FAULT_IMAGE_H
#define RF_IO_FAULT_IMAGE_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-filled; never NULL: a double without memory ends the process. free() gives it back. */
void *fault_alloc(size_t count, size_t bytes);
/* As realloc of an array to room for `count` elements of `bytes`. */
void *fault_grow(void *array, size_t count, size_t bytes);
bool fault_is_zero(const void *data, size_t bytes);

struct image_chunk;
struct image {
    uint64_t bytes; /* the file's size; what lies behind is zero */
    uint32_t chunk_count;
    struct image_chunk **chunks; /* NULL: zeros */
};

void image_deinit(struct image *image);
/* *to becomes a copy; what it held is not looked at. */
void image_copy(struct image *to, const struct image *from);
/* Within or behind the size, which stays. data NULL: zeros. */
void image_write(struct image *image, uint64_t offset, const void *data, uint64_t bytes);
void image_read(const struct image *image, uint64_t offset, void *buf, uint64_t bytes);
void image_resize(struct image *image, uint64_t bytes);

#endif
