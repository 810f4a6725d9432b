/* The plane: one thread that owns the catalog (SQLite) and the embedded lease, beside the hot path
 * and never in it. What it decides reaches the hot path through the lease's two words and the
 * schema; it never sees data. SQLite runs in a worker thread, so that a slow disk delays a change
 * and not the lease.
 *
 * Threads  every call: any, unless it says otherwise. Callers wait on their own request, in order
 * of arrival; requests that queue while a commit runs go into the next one together. */
#ifndef RF_PLANE_PLANE_H
#define RF_PLANE_PLANE_H

#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "lease/view.h"
#include "schema/schema.h"

#include <stdbool.h>
#include <stdint.h>

struct plane;

enum plane_lease { PLANE_LEASE_EMBEDDED, PLANE_LEASE_EXTERNAL, PLANE_LEASE_OFF };

struct plane_options {
    const char *catalog_path; /* of catalog.db; made when missing and create is true */
    const char *vfs;          /* SQLite VFS by name, NULL: the default */
    bool create;
    bool read_only;       /* reads a private copy made by the caller; no worker, no changes */
    uint8_t uuid[16];     /* of the directory; another in the catalog: -RFE_WRONG_CATALOG */
    uint64_t generation;  /* as the manifest has it; another: -RFE_WRONG_CATALOG */
    uint64_t version_min; /* highest version the manifest says was obeyed; a lower one:
                             -RFE_WRONG_CATALOG */
    enum plane_lease lease;
    int64_t lease_ns;       /* T */
    int64_t commit_wait_ns; /* longest wait of a change for the disk, then -RFE_UNKNOWN */
    const struct clock *clock;
    const struct log *log;
    struct schema *schema;     /* filled by plane_open, then changed by the plane alone */
    struct lease_words *words; /* published by the plane alone */
    /* True once no lane is inside its deciding section with a view older than this one and, when
     * the epoch rose, each lane's fence record is durable or it has nothing undecided. Asked again
     * every millisecond or less until true; called on the plane's thread. */
    bool (*view_is_closed)(void *ctx, uint64_t view);
    void *ctx;
};

RF_NODISCARD int plane_open(const struct plane_options *options, struct plane **plane_out,
                            struct err_msg *msg);
/* Ends both threads; changes that still wait get -RFE_CLOSING. */
void plane_close(struct plane *plane);

/* ---- changes ---- */

enum plane_change_kind {
    PLANE_CREATE_TABLE,  /* table, columns, ttl */
    PLANE_ADD_COLUMNS,   /* table, columns */
    PLANE_DROP_COLUMN,   /* table, column */
    PLANE_RENAME_COLUMN, /* table, column, to */
    PLANE_SET_TTL,       /* table, ttl */
    PLANE_DROP_TABLE,    /* table: marker, closing, tombstone */
    PLANE_CREATE_SERIES, /* table (tree database), key, columns: each becomes a series */
    PLANE_DROP_SERIES,   /* table, key, column */
};

struct plane_column {
    const char *name;
    size_t name_bytes;
    uint8_t type;
    uint8_t category;
};

struct plane_change {
    enum plane_change_kind kind;
    bool if_missing; /* automatic creation: what exists with the same type is left as it is, a
                       missing table (or tree database) is made; another type: -RFE_TYPE_MISMATCH */
    const char *table;
    size_t table_bytes;
    bool tree;
    const void *key; /* series: the device's key */
    size_t key_bytes;
    const struct plane_column *columns;
    uint32_t column_count;
    const char *column; /* drop, rename */
    size_t column_bytes;
    const char *to;
    size_t to_bytes;
    int64_t ttl;
};

/* Commits the changes in one transaction with whatever else waits, all or none of this request,
 * publishes one new view, and, unless all are if_missing, waits until the older view is closed.
 * The changes are borrowed until it returns (copied inside when the wait runs out).
 * Returns 0, or -RFE_TABLE_EXISTS, _NO_TABLE, _NO_COLUMN, _COLUMN_EXISTS, _TYPE_MISMATCH, _LIMIT,
 * _BAD_NAME, _SEMANTIC_ERROR (table marked), _UNKNOWN (the wait ran out), _LEASE_FENCED,
 * _DISK_FULL, _METADATA_ERROR (SQLite's own), _CLOSING */
RF_NODISCARD int plane_change(struct plane *plane, const struct plane_change *changes, uint32_t n,
                              int64_t wait_ns, struct err_msg *msg);

/* ---- the lease ---- */

struct plane_lease_request {
    int64_t asked_boot_ns;
    uint64_t view;
    uint64_t boot;
};
/* PLANE_LEASE_EXTERNAL; see rf_lease_ask and the rest in the public header. */
RF_NODISCARD int plane_lease_ask(struct plane *plane, struct plane_lease_request *request_out);
RF_NODISCARD int plane_lease_grant(struct plane *plane, const struct plane_lease_request *request,
                                   int64_t ttl_ns);
/* EMBEDDED too (a test, an operator): fences now, returns when the old view is closed; an embedded
 * plane then comes back by itself with the next epoch. */
RF_NODISCARD int plane_lease_fence(struct plane *plane);
RF_NODISCARD int plane_lease_resume(struct plane *plane, const struct plane_lease_request *request,
                                    int64_t ttl_ns);

/* The newest committed version, for the manifest. */
uint64_t plane_version(const struct plane *plane);
/* A test seam: while held, the plane's thread does nothing at all (a stuck plane). */
void plane_hold(struct plane *plane, bool hold);

#endif
