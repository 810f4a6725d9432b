#include "cli/acks.h"

#include "cli/memory.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

int acks_init(struct acks *acks, const char *file)
{
    *acks = (struct acks){.fd = -1};
    if (file == NULL) return 0;
    acks->fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    return acks->fd < 0 ? -errno : 0;
}

void acks_deinit(struct acks *acks)
{
    if (acks->fd >= 0) close(acks->fd);
    acks->fd = -1;
    mem_free(acks->lines);
    acks->lines = NULL;
    acks->capacity = 0;
}

/* Room for blocks next .. next + count - 1. */
static void grow(struct acks *acks, uint64_t count)
{
    uint64_t capacity = acks->capacity == 0 ? 64 : acks->capacity;
    while (capacity < count)
        capacity *= 2;
    if (capacity == acks->capacity) return;
    uint64_t *lines = need_zalloc(capacity * sizeof *lines);
    for (uint64_t i = 0; i < acks->capacity; i++) {
        uint64_t block = acks->next + i;
        lines[block & (capacity - 1)] = acks->lines[block & (acks->capacity - 1)];
    }
    mem_free(acks->lines);
    acks->lines = lines;
    acks->capacity = capacity;
}

void acks_done(struct acks *acks, uint64_t block, uint64_t lines_through)
{
    CHECK(block >= acks->next && lines_through > 0);
    grow(acks, block - acks->next + 1);
    acks->lines[block & (acks->capacity - 1)] = lines_through;
    for (;;) {
        uint64_t *next = &acks->lines[acks->next & (acks->capacity - 1)];
        if (*next == 0) return;
        acks->lines_done = *next;
        *next = 0;
        acks->next++;
    }
}

int acks_write(struct acks *acks, uint64_t lines)
{
    char line[32];
    if (acks->fd < 0 || lines <= acks->lines_written) return 0;
    int bytes = snprintf(line, sizeof line, "%" PRIu64 "\n", lines);
    ssize_t n;
    do
        n = write(acks->fd, line, (size_t)bytes);
    while (n < 0 && errno == EINTR);
    if (n < 0) return -errno;
    if (n != bytes) return -ENOSPC; /* a file takes a few bytes whole unless there is no room */
    acks->lines_written = lines;
    return 0;
}
