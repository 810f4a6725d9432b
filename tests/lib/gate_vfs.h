/* An SQLite VFS over the default one, on which syncs can be held back and operations made to fail:
 * a disk that is slow, full, or broken. One in a process. */
#ifndef RF_TESTS_GATE_VFS_H
#define RF_TESTS_GATE_VFS_H

#include <stdbool.h>
#include <stdint.h>

#define GATE_VFS "gate"

enum gate_operation {
    GATE_WRITE,
    GATE_GROW, /* a write that makes its file longer: what a full disk refuses */
    GATE_SYNC,
    GATE_TRUNCATE,
    GATE_OPERATIONS,
};

/* Registers it on first use, and forgets holds, faults and counts. */
void gate_vfs_reset(void);
/* While shut, a sync waits. */
void gate_vfs_shut(bool shut);
/* Returns once somebody waits at the gate. */
void gate_vfs_await(void);
/* The operation fails with this SQLite code, after `skip` of them and until told otherwise; code 0:
 * no more. */
void gate_vfs_fail(enum gate_operation operation, uint32_t skip, int code);
uint32_t gate_vfs_count(enum gate_operation operation);

#endif
