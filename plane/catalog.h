/* The catalog: what the plane knows of tables, columns and series, in one SQLite file.
 *
 * Format 1 (PRAGMA user_version; application_id "RFct"). Tables, all STRICT:
 *
 *   meta     one row: format, uuid (32 hexadecimal digits), generation, version, and the next free
 *            incarnation and column id
 *   tables   incarnation, name, tree (0, 1), ttl (0: none), columns and tags (how many live now),
 *            created, marked, dropped
 *   columns  id, incarnation of its table, name, type and category (see types), tag_index, series
 *            (tree: how many name it now), created, dropped
 *   series   incarnation, key (a device's), column_id, number (the order in which they were made),
 *            created, dropped
 *   types    code and name of each type
 *
 * and for people the views table_list, column_list, series_list and tombstones. created, marked and
 * dropped are versions; NULL: not. A row that was dropped stays as its own tombstone, so that replay
 * knows what to hide.
 *
 * Rules
 *  - One transaction a step, and a step is one version: 1 more than the last.
 *  - Numbers are committed with their rows before anybody uses them, taken from `meta`, and never
 *    taken again, whatever is dropped later.
 *  - A series that was dropped never gets its column back: old cells carry that column's id.
 *  - The file is opened with locking_mode EXCLUSIVE, journal_mode TRUNCATE and synchronous EXTRA: a
 *    commit has returned only when journal and file are synced, and one file and one journal are
 *    all there is to copy.
 *  - A COMMIT that the disk failed latches the catalog: what it did is unknown, and it is not tried
 *    again. Only "disk full" is taken back, checked, and forgotten.
 *
 * Threads  one at a time. SQLite's own header is seen by catalog*.c alone. */
#ifndef RF_PLANE_CATALOG_H
#define RF_PLANE_CATALOG_H

#include "base/errors.h"
#include "plane/plane.h"

struct catalog;

struct catalog_options {
    const char *path;
    const char *vfs; /* NULL: the default */
    bool create;
    bool read_only;
    uint8_t uuid[16];
    uint64_t generation;
    uint64_t version_min;
};

/* Opens or makes the catalog, checks that it is the right one, and fills `schema`. A table whose
 * DropTable was under way is dropped first, in a version of its own, unless read_only.
 * Errors as plane_open. */
RF_NODISCARD int catalog_open(const struct catalog_options *options, struct schema *schema,
                              struct catalog **catalog_out, struct err_msg *msg);
void catalog_close(struct catalog *catalog); /* NULL is allowed */

/* The newest committed version. */
uint64_t catalog_version(const struct catalog *catalog);

/* What a change did, to be done to the schema once it is committed. Text and key are the change's
 * own memory. */
enum catalog_effect_kind {
    EFFECT_ADD_TABLE,  /* text, tree, ttl */
    EFFECT_ADD_COLUMN, /* id, text, type, category */
    EFFECT_ADD_SERIES, /* id, key */
    EFFECT_MARK_TABLE,
    EFFECT_DROP_TABLE,
    EFFECT_DROP_COLUMN,   /* id */
    EFFECT_RENAME_COLUMN, /* id, text */
    EFFECT_DROP_SERIES,   /* id, key */
    EFFECT_SET_TTL,       /* ttl */
};
struct catalog_effect {
    enum catalog_effect_kind kind;
    uint8_t type, category;
    bool tree;
    uint32_t id;
    uint64_t incarnation;
    const char *text;
    size_t text_bytes;
    const void *key;
    size_t key_bytes;
    int64_t ttl;
};

/* One request; all of its changes happen or none. */
struct catalog_request {
    const struct plane_change *changes; /* the caller's until the effects are done */
    uint32_t change_count;
    bool finish_drop; /* PLANE_DROP_TABLE: the tombstone, else the marker */
    struct catalog_request *next;
    /* Written by catalog_run. */
    int rc;
    struct err_msg msg;
    struct catalog_effect *effects; /* mem_alloc; the caller frees them */
    uint32_t effect_count, effect_room;
};

/* Runs the requests, in order, in one transaction; each sees what those before it did. One that
 * fails is rolled back alone, with its code in rc; the others go on. If the transaction itself
 * fails, all that had not failed get its code: -RFE_DISK_FULL, -ENOMEM, -RFE_METADATA_ERROR,
 * -RFE_CORRUPT, or -RFE_UNKNOWN when the disk failed in COMMIT; after that every run ends in
 * -RFE_METADATA_ERROR until the catalog is opened again.
 *
 * version_out  the version that the effects belong to; the newest one if there are none
 * Returns true when it committed something. */
bool catalog_run(struct catalog *catalog, struct catalog_request *first, uint64_t *version_out);

/* Gives the memory of SQLite's page cache back. */
void catalog_idle(struct catalog *catalog);

#endif
