/* Inside of schema. */
#ifndef RF_SCHEMA_SCHEMA_IMPL_H
#define RF_SCHEMA_SCHEMA_IMPL_H

#include "schema/schema.h"
#include "schema/store.h"

/* In `names`, a number with this bit is a later name of a column; without it, a column's id. */
#define NAME_LATER 0x80000000u

/* One name of a column that has had several, oldest first; the first one is found through the
 * column, the others are in `names`. */
struct column_name {
    const char *name;
    uint64_t from;
    _Atomic uint64_t until; /* the version that renamed it, or SCHEMA_NEVER. W: plane. R: any */
    uint32_t column;
    _Atomic uint32_t next; /* 0: this is the present name */
};

/* What a device's measurement is: 32 bytes, since there may be millions. */
struct series {
    const unsigned char *key; /* two bytes of length, little-endian, and the key */
    uint32_t column;
    uint32_t created_low;
    _Atomic uint32_t next; /* of the same device, in order of creation; 0: none */
    _Atomic uint32_t drop; /* number in schema.drops of the version without it, 0: never */
    /* Of a device's first series only. */
    uint32_t tail;           /* its last one. Plane only */
    uint8_t count;           /* saturates above INDEXED_FROM. Plane only */
    _Atomic uint8_t indexed; /* its series are in schema.series_slots. W: plane. R: any */
    uint8_t created_high;
    uint8_t unused;
};

/* A device with this many series gets them into a table of their own; below, its list is walked. */
#define INDEXED_FROM 9

_Static_assert(sizeof(struct schema_column) == 40, "the memory that the header promises");
_Static_assert(sizeof(struct series) == 32, "the memory that the header promises");

struct schema_table {
    struct schema *schema;
    const char *name;
    uint64_t incarnation;
    uint64_t created;
    uint32_t number;
    bool tree;
    /* W: plane. R: any. */
    _Atomic uint64_t dropped;
    _Atomic uint64_t mark; /* version << 1 | marked since then; before it, the opposite */
    _Atomic int64_t ttl;
    _Atomic uint64_t whole_changed; /* last version that set the TTL, creation apart, or renamed
                                       a TAG: no batch that was checked before it fits */
    _Atomic uint64_t taken;         /* last version that took anything away, or marked or set TTL */
    _Atomic uint32_t first_column, tag_count;
    _Atomic uint32_t tag[SCHEMA_TAGS_MAX];
    /* Plane only. */
    uint32_t last_column;
    uint64_t live_columns, live_series;
};

struct schema {
    uint32_t magic;
    struct store store;
    struct chunks tables; /* of struct schema_table *, by number from 1 */
    struct chunks columns, names, series, drops;
    struct slots name_slots, device_slots, series_slots, table_names, table_numbers;
    _Atomic uint32_t table_count; /* W: plane. R: any */
    uint32_t name_count, series_count, drop_count;
    /* W: plane. R: any, relaxed: figures. */
    _Atomic uint64_t live_tables, live_columns, live_series;
};

struct schema_table *schema_table_at(const struct schema *s, uint32_t number);
struct schema_column *schema_column_at(const struct schema *s, uint32_t id);
void schema_note_taken(struct schema_table *t, uint64_t version);
void schema_end_column(struct schema_table *t, struct schema_column *c, uint64_t version);
uint64_t schema_name_hash(uint32_t table_number, const char *name, size_t name_bytes);
/* Whether the stored text is these bytes. */
bool schema_name_is(const char *stored, const char *name, size_t name_bytes);
/* Tree model: whether the device has a series of this column at version. */
bool schema_has_series(const struct schema_table *t, const void *key, size_t key_bytes,
                       uint32_t column_id, uint64_t version);

/* The figures are the plane's alone to change, so a plain addition is enough. */
static inline void figure_add(_Atomic uint64_t *figure, uint64_t n)
{
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

#endif
