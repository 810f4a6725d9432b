/* The schema as the hot path sees it: tables, columns and series with the versions between which
 * each exists.
 *
 * Nothing is ever moved or freed while the engine is open, and one writer (the plane) adds and
 * marks; so a look-up takes no lock and needs no grace period. A snapshot is just a version: an
 * entry exists in version v when created <= v < dropped. The plane first adds what version v+1
 * brings (invisible to everybody at v), then publishes v+1 in the lease's view.
 *
 * Words: a table of the table model has TAG and FIELD columns. A database of the tree model is a
 * table, the rest of a device's path is its key; its columns are pairs (measurement name, type),
 * and which of them a device's measurement is stands in a series.
 *
 * Threads  look-ups: any. schema_add_*, schema_drop_*, ...: one thread at a time, the plane's.
 * Memory   at most 64 bytes a column or series, names apart. */
#ifndef RF_SCHEMA_SCHEMA_H
#define RF_SCHEMA_SCHEMA_H

#include "base/check.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCHEMA_NEVER          UINT64_MAX
#define SCHEMA_NAME_BYTES_MAX 255
#define SCHEMA_COLUMNS_MAX    65535
#define SCHEMA_TAGS_MAX       16
#define SCHEMA_KEY_BYTES_MAX  4096

/* Apache IoTDB's type codes, as in the public header. */
enum schema_type {
    SCHEMA_BOOLEAN = 0,
    SCHEMA_INT32 = 1,
    SCHEMA_INT64 = 2,
    SCHEMA_FLOAT = 3,
    SCHEMA_DOUBLE = 4,
    SCHEMA_TEXT = 5,
    SCHEMA_TIMESTAMP = 8,
    SCHEMA_DATE = 9,
    SCHEMA_BLOB = 10,
    SCHEMA_STRING = 11,
};
enum schema_category { SCHEMA_TAG = 0, SCHEMA_FIELD = 1 };

/* Bytes of one value: 1, 4, 8; 0 for TEXT, STRING, BLOB; -1 for no type at all. */
int schema_type_bytes(int type);

struct schema;
struct schema_table; /* inside: schema_impl.h */

struct schema_column {
    const char *name;         /* the one that it was created under or renamed to last */
    uint32_t id;              /* unique in the catalog, never reused; its type never changes */
    uint8_t type;             /* enum schema_type */
    uint8_t category;         /* enum schema_category */
    uint8_t tag_index;        /* TAG: its place in a device's key, 0.. */
    _Atomic uint64_t created; /* first version that has it. W: plane. R: any */
    _Atomic uint64_t dropped; /* first version without it, or SCHEMA_NEVER */
    _Atomic uint64_t changed; /* last version that dropped or renamed it, 0: none */
};

RF_NODISCARD int schema_create(struct schema **schema_out);
void schema_destroy(struct schema *schema);

/* ---- look-ups at a version; NULL when there is none. Never allocate, never block. ---- */

const struct schema_table *schema_find_table(const struct schema *schema, const char *name,
                                             size_t name_bytes, uint64_t version);
/* Also one that is dropped: for replay. */
const struct schema_table *schema_table_by_incarnation(const struct schema *schema,
                                                       uint64_t incarnation);
/* Table model. */
const struct schema_column *schema_find_column(const struct schema_table *table, const char *name,
                                               size_t name_bytes, uint64_t version);
/* Tree model: the column that this device's measurement is. */
const struct schema_column *schema_find_series(const struct schema_table *table, const void *key,
                                               size_t key_bytes, const char *measurement,
                                               size_t measurement_bytes, uint64_t version);
/* Also one that is dropped. */
const struct schema_column *schema_column_by_id(const struct schema *schema, uint32_t id);
/* The table that a column id belongs to. */
const struct schema_table *schema_table_of_column(const struct schema *schema, uint32_t id);
/* The i-th TAG column in order of creation (0..), or NULL at the end. */
const struct schema_column *schema_tag(const struct schema_table *table, uint32_t i,
                                       uint64_t version);
/* Every column that exists at version, in order of creation; a non-zero return stops. Tree model:
 * the columns that at least one series names. */
int schema_each_column(const struct schema_table *table, uint64_t version,
                       int (*each)(void *ctx, const struct schema_column *column), void *ctx);
/* Tree model: every series of one device, in order of creation. */
int schema_each_series(const struct schema_table *table, const void *key, size_t key_bytes,
                       uint64_t version, int (*each)(void *ctx, const struct schema_column *column),
                       void *ctx);
int schema_each_table(const struct schema *schema, uint64_t version,
                      int (*each)(void *ctx, const struct schema_table *table), void *ctx);

const char *schema_table_name(const struct schema_table *table);
uint64_t schema_table_incarnation(const struct schema_table *table);
bool schema_table_is_tree(const struct schema_table *table);
/* TTL at the newest version, in time units; <= 0: none. */
int64_t schema_table_ttl(const struct schema_table *table);
/* A DropTable is under way at version: writes are refused with 701. */
bool schema_table_is_marked(const struct schema_table *table, uint64_t version);
bool schema_table_exists(const struct schema_table *table, uint64_t version);

/* Whether what was checked at version `then` still holds at `now` for a batch that wrote these
 * columns of the table (table model) or of these series (tree model: key given): the table is
 * neither dropped, marked, nor has another TTL; no column was dropped or renamed, no series
 * dropped. A compare when nothing of the table was taken away since `then`. */
bool schema_still_fits(const struct schema_table *table, const void *key, size_t key_bytes,
                       const uint32_t *column_ids, uint32_t column_count, uint64_t then,
                       uint64_t now);

/* ---- changes, the plane's; each takes effect at `version`. 0, or -ENOMEM with nothing changed
 * ---- */

RF_NODISCARD int schema_add_table(struct schema *schema, const char *name, size_t name_bytes,
                                  uint64_t incarnation, bool tree, int64_t ttl, uint64_t version,
                                  struct schema_table **table_out);
RF_NODISCARD int schema_add_column(struct schema_table *table, const char *name, size_t name_bytes,
                                   uint32_t id, int type, int category, uint64_t version);
/* Tree model: makes the series (key, measurement) of an existing column (same table). */
RF_NODISCARD int schema_add_series(struct schema_table *table, const void *key, size_t key_bytes,
                                   uint32_t column_id, uint64_t version);
void schema_mark_table(struct schema_table *table, uint64_t version);   /* pre-delete marker */
void schema_unmark_table(struct schema_table *table, uint64_t version); /* its rollback */
void schema_drop_table(struct schema_table *table, uint64_t version);
void schema_drop_column(struct schema_table *table, uint32_t id, uint64_t version);
RF_NODISCARD int schema_rename_column(struct schema_table *table, uint32_t id, const char *to,
                                      size_t to_bytes, uint64_t version);
void schema_drop_series(struct schema_table *table, const void *key, size_t key_bytes,
                        const char *measurement, size_t measurement_bytes, uint64_t version);
void schema_set_ttl(struct schema_table *table, int64_t ttl, uint64_t version);

struct schema_counts {
    uint64_t tables, columns, series;
    uint64_t bytes; /* heap, as the allocator rounds it */
};
void schema_count(const struct schema *schema, struct schema_counts *counts_out);

/* 0, or -RFE_BAD_NAME: 1..255 bytes of valid UTF-8 without control characters. */
int schema_check_name(const char *name, size_t name_bytes);

#endif
