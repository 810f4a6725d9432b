/* Ends the process where there is no memory: nothing that the command does can go on without. */
#include "cli/memory.h"

#include "base/alloc.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *checked(void *p, size_t bytes)
{
    if (p != NULL) return p;
    fprintf(stderr, "ringfence: out of memory (%zu bytes asked for)\n", bytes);
    _exit(3);
}

void *need_realloc(void *p, size_t bytes)
{
    return checked(mem_realloc(p, bytes), bytes);
}

void *need_zalloc(size_t bytes)
{
    return checked(mem_zalloc(bytes), bytes);
}

char *need_strndup(const char *s, size_t bytes)
{
    return checked(mem_strndup(s, bytes), bytes);
}

void need_room(void *array, size_t *capacity, size_t count, size_t size)
{
    if (count <= *capacity) return;
    size_t grown = *capacity * 2 > count ? *capacity * 2 : count;
    if (grown < 8) grown = 8;
    size_t bytes;
    void *p;
    memcpy(&p, array, sizeof p); /* array is the address of a pointer of any type */
    if (__builtin_mul_overflow(grown, size, &bytes))
        p = checked(NULL, SIZE_MAX);
    else
        p = need_realloc(p, bytes);
    memcpy(array, &p, sizeof p);
    *capacity = grown;
}
