/* What a fork must not share. A child that kept our descriptors would keep the locks on, and a
 * child that used the parent's ring would take the parent's completions. So every descriptor of
 * ours is on a list that fork() closes in the child, and every queue carries the stamp of its
 * process.
 *
 * Thread: any. */
#ifndef RF_IO_FORK_H
#define RF_IO_FORK_H

#include "base/check.h"

#include <stdbool.h>
#include <stdint.h>

struct fork_fd {
    int fd; /* -1 in a child of the process that added it */
    struct fork_fd *prev, *next;
};

/* From the call that makes a descriptor to fork_fd_add no fork may come: its child would keep the
 * descriptor, and a lock on it, for life. fork_hold keeps forks waiting until fork_let_go: for the
 * few system calls in between, which must not call into this header but for fork_fd_add. */
void fork_hold(void);
void fork_let_go(void);
/* Puts fd on the list; entry is the caller's memory until fork_fd_close. Between fork_hold and
 * fork_let_go. */
void fork_fd_add(struct fork_fd *entry, int fd);
/* Takes it off the list and closes it, if this process has it open. */
void fork_fd_close(struct fork_fd *entry);

/* A number that no other process in this line of forks has, never 0. The kernel wipes it in the
 * child, whatever call made the child. Returns 0 or -errno. */
RF_NODISCARD int fork_stamp(uint64_t *stamp_out);
/* Whether this process is not the one that had the stamp. A load and a compare. */
bool fork_is_other(uint64_t stamp);

#endif
