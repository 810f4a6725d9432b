/* The plane: one thread that owns the catalog (SQLite) and the lease, beside the hot path and never
 * in it. What it decides reaches the hot path through the lease's two words and the schema; it never
 * sees data. SQLite runs in a worker thread, so that a slow disk delays a change and not the lease.
 *
 * A turn of the loop: take what was asked; do what the worker has committed to the schema; feed the
 * lease; ask whether older views are closed; answer; give the worker what has queued meanwhile, all
 * of it as one transaction and one version. Then sleep until somebody asks, the worker is done, or
 * the lease is due: an idle plane wakes once a heartbeat.
 *
 *   a change   queued -> in the worker's transaction -> committed -> entries in the schema -> view
 *              published (then a full fence) -> older views closed -> answered
 *   DropTable  the same twice: a marker, under which writes are refused, then the tombstone
 *
 * A crash between the two leaves a marker, and the next opening finishes the drop.
 *
 * The lease's epoch begins at 1 in each opening and is stored nowhere: words, lanes and tokens are of
 * one life of the process, and a request of an external lease names its boot.
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
    uint64_t version_min; /* highest version the manifest says was obeyed; a lower one, or no
                             catalog at all, when it is not 0: -RFE_WRONG_CATALOG */
    enum plane_lease lease;
    int64_t lease_ns;       /* T */
    int64_t commit_wait_ns; /* longest wait of a change for the disk, then -RFE_UNKNOWN */
    const struct clock *clock;
    const struct log *log;
    struct schema *schema;     /* filled by plane_open, then changed by the plane alone */
    struct lease_words *words; /* published by the plane alone */
    /* Set before plane_open, asked at any time after it. True once no lane is inside its deciding section with a view older than this one and, when
     * the epoch rose, each lane's fence record is durable or it has nothing undecided. Asked again
     * every millisecond or less until true; called on the plane's thread. */
    bool (*view_is_closed)(void *ctx, uint64_t view);
    void *ctx;
};

/* Opens or makes the catalog, finishes what a crash left of a DropTable, fills the schema, and
 * starts the lease: EMBEDDED is live on return, EXTERNAL fenced, OFF (and read_only) never fenced.
 *
 * Returns 0, or -RFE_WRONG_CATALOG (missing or empty too), -RFE_NEWER_VERSION, -RFE_CORRUPT (with
 * table and row), -RFE_IN_USE (a shell has it open), -RFE_DISK_FULL, -RFE_METADATA_ERROR (SQLite's
 * own), -EACCES and other errnos of opening the file, -EINVAL (lease_ns below 1 ms), -ENOMEM,
 * -EAGAIN (no thread). On failure the schema may be filled in part: destroy it. */
RF_NODISCARD int plane_open(const struct plane_options *options, struct plane **plane_out,
                            struct err_msg *msg);
/* Fences (unless OFF), waits for a commit under way, and ends both threads. Changes that were not
 * begun get -RFE_CLOSING; those committed but not yet answered -RFE_UNKNOWN. Lanes are closed
 * before: what they have not decided would be void. NULL is allowed. */
void plane_close(struct plane *plane);
/* In the child of a fork, where neither thread exists: frees memory, touches no file. */
void plane_abandon(struct plane *plane);

/* ---- changes ---- */

enum plane_change_kind {
    PLANE_CREATE_TABLE,  /* table, columns, ttl */
    PLANE_ADD_COLUMNS,   /* table, columns */
    PLANE_DROP_COLUMN,   /* table, column */
    PLANE_RENAME_COLUMN, /* table, column, to */
    PLANE_SET_TTL,       /* table, ttl */
    PLANE_DROP_TABLE,    /* table: marker, closing, tombstone */
    PLANE_CREATE_SERIES, /* table (tree database, made when it is missing), key, columns: each
                            becomes a series */
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
 * They are copied: the caller's memory is borrowed for this call alone.
 *
 * wait_ns   longest wait, below 0 or above commit_wait_ns: commit_wait_ns
 * Returns 0, or -RFE_TABLE_EXISTS, _NO_TABLE, _NO_COLUMN, _COLUMN_EXISTS, _TYPE_MISMATCH, _LIMIT,
 * _BAD_NAME, _SEMANTIC_ERROR (being dropped, the other model, a TAG that is no STRING or is to be
 * dropped, PLANE_DROP_TABLE beside another change), _UNKNOWN (the wait ran out: the change goes on;
 * or the disk failed in the commit), _LEASE_FENCED (all are if_missing and the lease is over),
 * _DISK_FULL, _METADATA_ERROR (SQLite's own; also whatever follows a failed commit, until the next
 * opening), _CLOSING, _READ_ONLY; -EINVAL (n is 0), -ENOMEM.
 * A PLANE_DROP_TABLE that fails behind its marker leaves it: drop again, or open again.
 * Durable  when it returns 0 */
RF_NODISCARD int plane_change(struct plane *plane, const struct plane_change *changes, uint32_t n,
                              int64_t wait_ns, struct err_msg *msg);

/* ---- the lease ---- */

struct plane_lease_request {
    int64_t asked_boot_ns;
    uint64_t view;
    uint64_t boot;
};
/* PLANE_LEASE_EXTERNAL; see rf_lease_ask and the rest in the public header. All four return
 * -EOPNOTSUPP in another mode, unless they say otherwise, and those that wait do so for
 * commit_wait_ns at most, then -RFE_UNKNOWN. -ENOMEM, -RFE_CLOSING. */

/* Never waits. */
RF_NODISCARD int plane_lease_ask(struct plane *plane, struct plane_lease_request *request_out);
/* The deadline becomes the later of what it is and asked + ttl. -EINVAL: another boot, ttl 0 or
 * below, overflow, a request from the future or of a view that never was; -ESTALE: a view from
 * before a fence; -RFE_LEASE_FENCED: fenced, which only a resume ends. */
RF_NODISCARD int plane_lease_grant(struct plane *plane, const struct plane_lease_request *request,
                                   int64_t ttl_ms);
/* EMBEDDED too (a test, an operator): fences now, returns when the old view is closed; an embedded
 * plane then comes back by itself with the next epoch. -RFE_UNKNOWN: fenced, not known to be
 * closed. */
RF_NODISCARD int plane_lease_fence(struct plane *plane);
/* A grant that also ends a fence, once the views before it are closed. As grant, and
 * -RFE_LEASE_FENCED: asked + ttl is over already. */
RF_NODISCARD int plane_lease_resume(struct plane *plane, const struct plane_lease_request *request,
                                    int64_t ttl_ms);

/* ---- figures, and a seam ---- */

/* The newest committed version, for the manifest. */
uint64_t plane_version(const struct plane *plane);

struct plane_stats {
    uint64_t commits; /* transactions that changed something, since open */
    uint64_t changes; /* requests that were answered 0 */
    uint64_t fences;  /* from normal to fenced */
    uint64_t turns;   /* of the loop: how often the thread woke */
};
void plane_get_stats(const struct plane *plane, struct plane_stats *stats_out);

/* A test seam: while held, the plane's thread does nothing at all (a stuck plane). Returns when it
 * stands still, or goes on. */
void plane_hold(struct plane *plane, bool hold);

#endif
