/* Which leading part of the input is stored, when its blocks are acknowledged in any order; and the
 * file that says so. See cli/loader.h.
 * Thread   one at a time */
#ifndef RF_CLI_ACKS_H
#define RF_CLI_ACKS_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct acks {
    int fd;                 /* -1: no file */
    uint64_t next;          /* the first block that is not done */
    uint64_t *lines;        /* by block % capacity: 0, or lines_through */
    uint64_t capacity;      /* a power of two, or 0 */
    uint64_t lines_done;    /* of the leading blocks that are done */
    uint64_t lines_written; /* as the file says */
};

/* file: NULL for none; made, or emptied. 0 or a negative errno. */
RF_NODISCARD int acks_init(struct acks *acks, const char *file);
void acks_deinit(struct acks *acks);

/* Block `block` (counted from 0) is done; the input up to its end has lines_through >= 1 lines. Once
 * for each block. Blocks may be done in any order; memory grows with how far one is left behind. */
void acks_done(struct acks *acks, uint64_t block, uint64_t lines_through);

/* Says `lines` in the file when that is more than it said before. 0 or a negative errno. */
RF_NODISCARD int acks_write(struct acks *acks, uint64_t lines);

#endif
