/* The schema as the hot path sees it: tables, columns and series with the versions between which
 * each exists.
 *
 * Nothing is ever moved or freed while the engine is open, and one writer (the plane) adds and
 * marks; so a look-up takes no lock and needs no grace period. A snapshot is just a version: an
 * entry exists in version v when created <= v < dropped. The plane first adds what version v+1
 * brings (invisible to everybody at v), then publishes v+1 in the lease's view. Who acquired that
 * view sees everything of v+1 and below; what it sees of later versions makes no difference to it.
 *
 * Words: a table of the table model has TAG and FIELD columns. A database of the tree model is a
 * table, the rest of a device's path is its key; its columns are pairs (measurement name, type),
 * and which of them a device's measurement is stands in a series.
 *
 * Inside: entries lie in chunks of 64 that never move, tables by number, columns by id, series by
 * number. They are found through open-addressed tables of 32-bit numbers, filled to 13/16
 * at most; a full one is replaced by one of twice the size, built aside and published, and kept
 * until the end, since readers may stand in it: all of a table's predecessors together are as large
 * as itself. A column or series takes at most 40 bytes + 19.7 of such tables + 0.6.
 *
 *   names     (table, name)               -> column, or one of the later names of a column
 *   devices   (table, key)                -> first series of the device; the others follow it
 *   series    (table, key, measurement)   -> series, only of devices that have more than eight
 *   by name, by number                    -> table
 *
 * Threads  look-ups: any. Changes: one thread at a time, the plane's, beside look-ups.
 * Memory   at most 64 bytes a column or series, names and keys apart. */
#ifndef RF_SCHEMA_SCHEMA_H
#define RF_SCHEMA_SCHEMA_H

#include "base/check.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCHEMA_NEVER          UINT64_MAX
#define SCHEMA_VERSION_MAX    (((uint64_t)1 << 40) - 1)
#define SCHEMA_COLUMN_ID_MAX  INT32_MAX
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
static inline int schema_type_bytes(int type)
{
    static const int8_t bytes[] = {
        [SCHEMA_BOOLEAN] = 1,   [SCHEMA_INT32] = 4, [SCHEMA_INT64] = 8, [SCHEMA_FLOAT] = 4,
        [SCHEMA_DOUBLE] = 8,    [SCHEMA_TEXT] = 0,  [6] = -1,           [7] = -1,
        [SCHEMA_TIMESTAMP] = 8, [SCHEMA_DATE] = 4,  [SCHEMA_BLOB] = 0,  [SCHEMA_STRING] = 0,
    };
    return type >= 0 && (size_t)type < sizeof bytes ? bytes[type] : -1;
}

struct schema;
struct schema_table; /* inside: schema_impl.h */

/* 40 bytes, since there may be millions. What never changes is written before the column can be
 * found, so it needs no order of its own. */
struct schema_column {
    const char *_Atomic name; /* the one that it was created under or renamed to last; the name at a
                                 version: schema_column_name. W: plane. R: any */
    _Atomic uint64_t dropped; /* first version without it, or SCHEMA_NEVER. W: plane. R: any */
    uint32_t id;              /* unique in the catalog, never reused; its type never changes */
    uint32_t created_low;     /* first version that has it: schema_column_created */
    uint32_t table;           /* inside: schema_table_of_column */
    _Atomic uint32_t next;    /* inside: the next column of the table, 0: none */
    union {
        _Atomic uint32_t names; /* inside, table model: the names that it had, 0: one */
        uint32_t series;        /* inside, tree model: series that name it now. Plane only */
    };
    uint8_t created_high;
    uint8_t type;      /* enum schema_type */
    uint8_t category;  /* enum schema_category */
    uint8_t tag_index; /* TAG: its place in a device's key, 0.. */
};

static inline uint64_t schema_column_created(const struct schema_column *column)
{
    return (uint64_t)column->created_high << 32 | column->created_low;
}
/* Of the column alone: its table may be gone. */
static inline bool schema_column_exists(const struct schema_column *column, uint64_t version)
{
    /* Relaxed: who acquired the view of a version sees all marks up to it, and later ones make no
     * difference to that version. */
    return schema_column_created(column) <= version &&
           version < atomic_load_explicit(&column->dropped, memory_order_relaxed);
}

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
/* Its name at a version at which it exists; lasts as long as the schema. */
const char *schema_column_name(const struct schema_table *table, const struct schema_column *column,
                               uint64_t version);
/* Tree model: the newest column that is (measurement, type). */
const struct schema_column *schema_find_measurement(const struct schema_table *table,
                                                    const char *measurement,
                                                    size_t measurement_bytes, int type,
                                                    uint64_t version);
/* Tree model: the column that this device's measurement is. */
const struct schema_column *schema_find_series(const struct schema_table *table, const void *key,
                                               size_t key_bytes, const char *measurement,
                                               size_t measurement_bytes, uint64_t version);
/* The same two for many names of one table or device: a look goes first to the column or series that
 * was made next after the one found last, so names in order of creation need no hash. Zeroed at the
 * start, and for one table, device and version only. */
struct schema_place {
    uint32_t next; /* of the column or series to look at; 0: the first */
};
const struct schema_column *schema_next_column(const struct schema_table *table, const char *name,
                                               size_t name_bytes, uint64_t version,
                                               struct schema_place *place);
const struct schema_column *schema_next_series(const struct schema_table *table, const void *key,
                                               size_t key_bytes, const char *measurement,
                                               size_t measurement_bytes, uint64_t version,
                                               struct schema_place *place);
/* Also one that is dropped. */
const struct schema_column *schema_column_by_id(const struct schema *schema, uint32_t id);
/* Whether two columns are of one table. */
static inline bool schema_column_is_beside(const struct schema_column *a,
                                           const struct schema_column *b)
{
    return a->table == b->table;
}
/* The table that a column id belongs to. */
const struct schema_table *schema_table_of_column(const struct schema *schema, uint32_t id);
/* TAG columns at the newest version. */
uint32_t schema_table_tags(const struct schema_table *table);
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
 * neither dropped, marked, nor has another TTL or a TAG renamed; none of the columns was dropped
 * or renamed, no series dropped. A compare when nothing of the table was taken away since `then`. */
bool schema_still_fits(const struct schema_table *table, const void *key, size_t key_bytes,
                       const uint32_t *column_ids, uint32_t column_count, uint64_t then,
                       uint64_t now);

/* ---- changes, the plane's ----
 *
 * Each takes effect at `version`, which is at least that of any change before it, and not below
 * anything that a reader holds. Names and keys are copied. Names are distinct and columns and series
 * exist: the catalog has checked that. Returns 0, or -ENOMEM with nothing changed; what returns
 * nothing can't fail. */

/* incarnation: above 0, new. */
RF_NODISCARD int schema_add_table(struct schema *schema, const char *name, size_t name_bytes,
                                  uint64_t incarnation, bool tree, int64_t ttl, uint64_t version,
                                  struct schema_table **table_out);
/* id: 1..SCHEMA_COLUMN_ID_MAX, new. */
RF_NODISCARD int schema_add_column(struct schema_table *table, const char *name, size_t name_bytes,
                                   uint32_t id, int type, int category, uint64_t version);
/* Tree model: makes the series (key, name of the column) of an existing column of the table. A
 * series that was dropped and comes again is made of another column, so that its old cells stay
 * gone. */
RF_NODISCARD int schema_add_series(struct schema_table *table, const void *key, size_t key_bytes,
                                   uint32_t column_id, uint64_t version);
void schema_mark_table(struct schema_table *table, uint64_t version);   /* pre-delete marker */
void schema_unmark_table(struct schema_table *table, uint64_t version); /* its rollback */
void schema_drop_table(struct schema_table *table, uint64_t version);
/* Table model, FIELD. */
void schema_drop_column(struct schema_table *table, uint32_t id, uint64_t version);
/* Table model. */
RF_NODISCARD int schema_rename_column(struct schema_table *table, uint32_t id, const char *to,
                                      size_t to_bytes, uint64_t version);
/* The series of this device that is of this column. A column that no series names any more is
 * dropped with the last. */
RF_NODISCARD int schema_drop_series(struct schema_table *table, const void *key, size_t key_bytes,
                                    uint32_t column_id, uint64_t version);
void schema_set_ttl(struct schema_table *table, int64_t ttl, uint64_t version);
/* The same entries for the plane, which may change them. */
struct schema_table *schema_table_to_change(struct schema *schema, uint64_t incarnation);

struct schema_counts {
    uint64_t tables, columns, series; /* that exist in the newest version */
    uint64_t bytes;                   /* heap, as the allocator rounds it */
};
void schema_count(const struct schema *schema, struct schema_counts *counts_out);

/* 0, or -RFE_BAD_NAME: 1..255 bytes of valid UTF-8 without control characters. */
int schema_check_name(const char *name, size_t name_bytes);

#endif
