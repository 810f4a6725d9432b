/* What a struct rf_engine is: the environment, the directory, schema and lease words, the plane and
 * the engine, wired together. */
#ifndef RF_API_HANDLE_H
#define RF_API_HANDLE_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "engine/engine.h"
#include "lease/view.h"
#include "plane/plane.h"
#include "ringfence/ringfence.h"
#include "wal/dir.h"

#include <stdatomic.h>
#include <stdbool.h>

#define HANDLE_MAGIC UINT64_C(0x524648414e444c45)

/* Test seams, set before rf_open by tests that see the library's insides. */
struct handle_seams {
    struct io_env *env; /* instead of the real one; stays the test's */
    const char *vfs;    /* of SQLite */
    const struct clock *clock;
    int64_t close_wait_ns; /* longest that closing waits for a device; 0: as it is */
};
extern struct handle_seams handle_seams;

struct rf_engine {
    uint64_t magic;
    uint32_t fork_generation;
    struct rf_options options; /* complete */
    struct io_env *env;
    bool env_is_ours;
    struct clock clock;
    struct log log;
    struct wal_dir dir;
    bool dir_open;
    struct schema *schema;
    struct lease_words words;
    struct plane *plane;
    struct engine *_Atomic engine; /* NULL until it is open: nothing is decided before */
    bool started;                  /* its lanes; false: only good for closing */
    struct rf_engine *left_next;   /* handle_open.c */
};

/* 0, or -RFE_FORKED in a child of the process that opened the handle. CHECKs the magic. */
int handle_check(const struct rf_engine *h);
uint32_t handle_fork_generation(void);

/* Fills error from an internal message. Returns code. */
int handle_error(struct rf_error *error, int code, const struct err_msg *msg);

/* handle_open.c */
RF_NODISCARD int handle_open(const char *dir, const struct rf_options *options,
                             struct rf_engine **handle_out, struct err_msg *msg);
int handle_close(struct rf_engine *h);

/* catalog_copy.c: a private copy of catalog.db and its journal for reading; *path_out and the
 * folder it lies in are the caller's: catalog_copy_remove. */
RF_NODISCARD int catalog_copy_make(struct io_env *env, char **path_out, struct err_msg *msg);
void catalog_copy_remove(char *path);

#endif
