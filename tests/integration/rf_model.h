/* A reference model of the engine: plain arrays, no cleverness, fed the same calls.
 *
 * It knows what the public header promises and nothing of how it is kept: rows are found by (device,
 * time), the last write wins cell by cell, a null overwrites nothing. In the table model a row exists
 * once it is written, in the tree model while one of its cells does.
 *
 * Memory is never checked: a test that runs out of it dies. Thread: one. */
#ifndef RF_MODEL_H
#define RF_MODEL_H

#include <ringfence/ringfence.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_TAGS_MAX 16u

struct model_cell {
    bool there;
    uint32_t bytes;
    union {
        uint64_t bits; /* of a type with a width */
        uint8_t *data; /* owned: TEXT, STRING, BLOB */
    };
};

struct model_row {
    int64_t time;
    bool written; /* and not deleted as a whole since */
    struct model_cell *cells;
    uint32_t cell_room;
};

struct model_device {
    uint8_t *key; /* each tag: length + 1 in two bytes, 0 for null; trailing nulls cut */
    uint32_t key_bytes;
    struct model_row *rows; /* by time */
    uint32_t row_count, row_room;
};

struct model_column {
    char name[32];
    enum rf_type type;
    enum rf_category category;
    bool dropped;
    uint32_t tag_index;
};

/* A table, or one device of the tree model. */
struct model_relation {
    char name[64];
    bool tree;
    bool exists;                  /* table: is there; device: its database is there */
    int64_t ttl;                  /* of the table, or of the device's database */
    uint64_t born;                /* position of lane 0 when it was created */
    struct model_column *columns; /* dropped ones keep their place */
    uint32_t column_count, column_room;
    struct model_device *devices;
    uint32_t device_count, device_room;
};

struct model {
    struct model_relation *relations;
    uint32_t relation_count;
    int64_t now; /* for TTL: the wall clock, at the time unit */
    bool shared; /* others have tables in the engine too, which the model does not know */
};

struct model *model_create(void);
void model_destroy(struct model *model);

/* The relation of this name; made, not existing, when it is new. The pointer lasts until the next
 * relation is made. */
struct model_relation *model_relation(struct model *model, const char *name, bool tree);
/* Length of "root.db" in "root.db.d1". */
size_t model_database_bytes(const char *device);
bool model_same_database(const struct model_relation *relation, const char *database,
                         size_t database_bytes);

/* The live column, or NULL. */
struct model_column *model_column(const struct model_relation *relation, const char *name);
uint32_t model_live_columns(const struct model_relation *relation);
uint32_t model_tags(const struct model_relation *relation);
uint32_t model_type_bytes(enum rf_type type); /* 0: variable */

/* What rf_write_batch has to answer by the names and types, TTL included, when columns may be
 * created: 0, -RF_CODE_TYPE_MISMATCH or -RF_CODE_OUT_OF_TTL, in the order in which tablets are
 * checked. */
int model_expect_write(struct model *model, const struct rf_tablet *tablets, uint32_t n);
/* Applies an acknowledged batch. position: the lane's before it. */
void model_write(struct model *model, const struct rf_tablet *tablets, uint32_t n,
                 uint64_t position);
void model_delete(struct model *model, const struct rf_delete_options *options);

/* Acknowledged changes. */
void model_create_table(struct model *model, const char *table, const struct rf_column_def *columns,
                        uint32_t n, int64_t ttl, uint64_t position);
void model_add_columns(struct model *model, const char *name, const struct rf_column_def *columns,
                       uint32_t n);
void model_drop_column(struct model *model, const char *name, const char *column);
void model_rename_column(struct model *model, const char *table, const char *from, const char *to);
void model_drop_table(struct model *model, const char *name); /* or a database */
void model_set_ttl(struct model *model, const char *name, int64_t ttl);
void model_create_series(struct model *model, const char *device, const char *measurement,
                         enum rf_type type, uint64_t position);

struct model_why {
    char text[512];
};
/* Runs the scan and rf_count and compares row by row, cell by cell. False: why says where. */
bool model_compare_scan(struct model *model, struct rf_engine *engine,
                        const struct rf_scan_options *options, struct model_why *why);
/* Tables, their columns in order, and TTLs. */
bool model_compare_tables(struct model *model, struct rf_engine *engine, struct model_why *why);
/* Everything, in both directions. */
bool model_compare_all(struct model *model, struct rf_engine *engine, struct model_why *why);
uint64_t model_rows(const struct model *model);

/* ---- random numbers: splitmix64, so that a seed means the same everywhere ---- */

struct model_random {
    uint64_t state;
};
static inline uint64_t model_random(struct model_random *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
static inline uint32_t model_below(struct model_random *r, uint32_t n)
{
    return (uint32_t)(model_random(r) % n);
}
static inline bool model_chance(struct model_random *r, uint32_t percent)
{
    return model_below(r, 100) < percent;
}

#endif
