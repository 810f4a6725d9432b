/* Cursors: a snapshot, the devices that match, and one chunk of rows at a time. */
#ifndef RF_ENGINE_SCAN_H
#define RF_ENGINE_SCAN_H

#include "engine/engine_impl.h"

#define SCAN_CHUNK_ROWS  1024u
#define SCAN_CHUNK_CELLS 65536u
/* Of TEXT, STRING and BLOB, TAGs included; one row may be larger by itself. */
#define SCAN_CHUNK_BYTES (UINT64_C(4) << 20)

/* What is asked for, resolved at one version. */
struct scan_target {
    const struct schema_table *table;
    bool tree;
    uint64_t incarnation;
    uint8_t key[SCHEMA_KEY_BYTES_MAX]; /* tree: the device's */
    uint32_t key_bytes;
    struct memtable_want *wants; /* owned */
    const char **want_names;     /* owned array; names are the schema's */
    uint32_t want_count, want_room;
    uint32_t *live; /* tree: columns of all the device's series, rising; owned */
    uint32_t live_count, live_room;
    const char *tag_names[SCHEMA_TAGS_MAX]; /* the schema's */
    uint32_t tag_count;
    bool tag_filtered[SCHEMA_TAGS_MAX];
    struct {
        bool null;
        uint8_t *value; /* owned */
        uint32_t bytes;
    } filter[SCHEMA_TAGS_MAX];
};

/* Resolves table or device, columns and filters. Names of columns NULL: all fields. Deinit it
 * whatever the answer. Errors as rf_scan_open. */
struct scan_names {
    const char *table;
    const char *device;
    const struct rf_tag_filter *tags;
    uint32_t tag_count;
    const char *const *columns;
    uint32_t column_count;
};
RF_NODISCARD int scan_target_init(struct scan_target *t, struct engine *e,
                                  const struct scan_names *names, uint64_t version,
                                  struct rf_error *error);
void scan_target_deinit(struct scan_target *t);
/* Whether what was resolved at `then` holds at `now`. */
bool scan_target_fits(const struct scan_target *t, uint64_t then, uint64_t now);
/* The devices of the target that exist now and pass the filters, by key; the caller's to free. */
RF_NODISCARD int scan_target_devices(const struct scan_target *t, struct engine *e,
                                     uint32_t **numbers_out, uint32_t *count_out);
/* Rows in columns, lent until the next fill. */
struct scan_chunk {
    uint32_t rows_max;
    bool has_variable; /* some want is TEXT, STRING or BLOB */
    int64_t *times;
    struct memtable_cell *cells; /* rows_max * want_count */
    struct rf_column *columns;   /* tags, then wants */
    uint8_t *nulls;              /* a bitmap of rows_max bits a column */
    uint32_t *offsets;           /* rows_max + 1 a column */
    uint8_t *values;             /* 8 * rows_max a want */
    uint8_t *bytes;              /* of variable values; grows */
    size_t bytes_room;
};
RF_NODISCARD int scan_chunk_init(struct scan_chunk *c, const struct scan_target *t);
void scan_chunk_deinit(struct scan_chunk *c);
/* Rows of the chunk, all of the device with this key. */
struct scan_rows {
    const void *key;
    uint32_t key_bytes;
    uint32_t first, count;
};
/* Shortens rows->count to what SCAN_CHUNK_BYTES hold, at least one, and turns those rows of times
 * and cells into rows_out. -ENOMEM. */
RF_NODISCARD int scan_chunk_fill(struct scan_chunk *c, const struct scan_target *t,
                                 struct scan_rows *rows, struct rf_tablet *rows_out);

#endif
