/* A SQLite VFS over an io_env: a catalog in the fault double has its database and journal there,
 * and its writes, syncs and names in the double's trace.
 *
 * Syncs are those of SQLite's own "unix" VFS: xSync is io_sync, and of a journal that was just made
 * also io_sync_dir; xDelete syncs the directory when SQLite asks for it. So what holds here after a
 * crash holds on a real disk, and what needs synchronous=EXTRA there needs it here.
 *
 * Locks are not modelled: one connection a database at a time. WAL mode is not there (no shared
 * memory); use journal_mode=DELETE, TRUNCATE or PERSIST.
 * Paths are the environment's. Thread: as SQLite and io_env; register and unregister apart. */
#ifndef RF_TESTS_FAULT_VFS_H
#define RF_TESTS_FAULT_VFS_H

#include "io/io.h"

/* Makes the VFS `name` known, not the default one. env is borrowed until unregister. Fails the test
 * when SQLite refuses. */
void fault_vfs_register(const char *name, struct io_env *env);
/* All of its connections must be closed. */
void fault_vfs_unregister(const char *name);

#endif
