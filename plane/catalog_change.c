/* The changes, one request at a time, inside the transaction that catalog_run holds. Everything is
 * checked against the file as the requests before it left it. */
#include "base/alloc.h"
#include "plane/catalog_impl.h"

#include <errno.h>
#include <inttypes.h>

/* One change under way, and the table that it is about. */
struct work {
    struct catalog *c;
    struct catalog_request *r;
    const struct plane_change *change;
    uint64_t version;
    struct {
        uint64_t incarnation; /* 0: there is none */
        bool tree, marked;
        int64_t ttl;
        int64_t columns, tags;
    } table;
};

struct found_column {
    uint32_t id; /* 0: none */
    int type, category;
};

#define NAME_FMT       "\"%.*s\""
#define NAME_ARG(p, n) (int)(n), (p)

static int refuse(struct work *w, int code, const char *what)
{
    return err_set(&w->r->msg, code, "table " NAME_FMT ": %s",
                   NAME_ARG(w->change->table, w->change->table_bytes), what);
}

static int refuse_column(struct work *w, int code, const char *name, size_t name_bytes,
                         const char *what)
{
    return err_set(&w->r->msg, code, "table " NAME_FMT ", column " NAME_FMT ": %s",
                   NAME_ARG(w->change->table, w->change->table_bytes), NAME_ARG(name, name_bytes),
                   what);
}

static void bind_number(sqlite3_stmt *s, int at, uint64_t value)
{
    CHECK(sqlite3_bind_int64(s, at, (sqlite3_int64)value) == SQLITE_OK);
}

/* Text and keys outlive the step, so SQLite need not copy them. An empty key is a blob, not NULL. */
static void bind_text(sqlite3_stmt *s, int at, const char *text, size_t bytes)
{
    CHECK(sqlite3_bind_text(s, at, text, (int)bytes, SQLITE_STATIC) == SQLITE_OK);
}
static void bind_key(sqlite3_stmt *s, int at, const void *key, size_t bytes)
{
    CHECK(sqlite3_bind_blob(s, at, bytes != 0 ? key : "", (int)bytes, SQLITE_STATIC) == SQLITE_OK);
}

static int note(struct work *w, struct catalog_effect effect)
{
    struct catalog_request *r = w->r;
    if (r->effect_count == r->effect_room) {
        uint32_t room = r->effect_room != 0 ? r->effect_room * 2 : 4;
        struct catalog_effect *more = mem_realloc(r->effects, room * sizeof *more);
        if (more == NULL) return err_set(&r->msg, -ENOMEM, "out of memory for %u effects", room);
        r->effects = more;
        r->effect_room = room;
    }
    effect.incarnation = w->table.incarnation;
    r->effects[r->effect_count++] = effect;
    return 0;
}

/* ---- tables ---- */

static int find_table(struct work *w)
{
    sqlite3_stmt *s = catalog_statement(w->c, SQL_FIND_TABLE);
    bind_text(s, 1, w->change->table, w->change->table_bytes);
    int rc = catalog_step(w->c, s, &w->r->msg);
    w->table.incarnation = 0;
    if (rc <= 0) return rc;
    w->table.incarnation = (uint64_t)sqlite3_column_int64(s, 0);
    w->table.tree = sqlite3_column_int(s, 1) != 0;
    w->table.ttl = sqlite3_column_int64(s, 2);
    w->table.columns = sqlite3_column_int64(s, 3);
    w->table.tags = sqlite3_column_int64(s, 4);
    w->table.marked = sqlite3_column_type(s, 5) != SQLITE_NULL;
    sqlite3_reset(s);
    return 0;
}

static int add_table(struct work *w)
{
    const struct plane_change *ch = w->change;
    int64_t ttl = ch->ttl > 0 ? ch->ttl : 0;
    sqlite3_stmt *s = catalog_statement(w->c, SQL_ADD_TABLE);
    w->table.incarnation = w->c->next_incarnation;
    w->table.tree = ch->tree;
    w->table.marked = false;
    w->table.ttl = ttl;
    w->table.columns = w->table.tags = 0;
    bind_number(s, 1, w->table.incarnation);
    bind_text(s, 2, ch->table, ch->table_bytes);
    bind_number(s, 3, ch->tree);
    bind_number(s, 4, (uint64_t)ttl);
    bind_number(s, 5, w->version);
    int rc = catalog_step(w->c, s, &w->r->msg);
    if (rc != 0) return rc;
    w->c->next_incarnation++;
    return note(w, (struct catalog_effect){.kind = EFFECT_ADD_TABLE,
                                           .text = ch->table,
                                           .text_bytes = ch->table_bytes,
                                           .tree = ch->tree,
                                           .ttl = ttl});
}

/* The table that the change is about, which must be there and not be being dropped. */
static int need_table(struct work *w)
{
    int rc = find_table(w);
    if (rc != 0) return rc;
    if (w->table.incarnation == 0) return refuse(w, -RFE_NO_TABLE, "no such table");
    if (w->table.marked) return refuse(w, -RFE_SEMANTIC_ERROR, "it is being dropped");
    return 0;
}

static int check_model(struct work *w)
{
    if (w->table.tree != w->change->tree)
        return refuse(w, -RFE_SEMANTIC_ERROR,
                      w->table.tree ? "it is a database of the tree model"
                                    : "it is a table of the table model");
    return 0;
}

/* The table to add to: of the change's model, and made if it may be. A database of the tree model
 * has no other way to come about than its first series. */
static int table_to_fill(struct work *w)
{
    int rc = find_table(w);
    if (rc != 0) return rc;
    if (w->table.incarnation == 0 && (w->change->if_missing || w->change->tree))
        return add_table(w);
    rc = need_table(w);
    return rc != 0 ? rc : check_model(w);
}

static int store_counts(struct work *w)
{
    sqlite3_stmt *s = catalog_statement(w->c, SQL_SET_COUNTS);
    bind_number(s, 1, w->table.incarnation);
    bind_number(s, 2, (uint64_t)w->table.columns);
    bind_number(s, 3, (uint64_t)w->table.tags);
    return catalog_step(w->c, s, &w->r->msg);
}

/* Sets one number of the table: a mark or the TTL. */
static int set_of_table(struct work *w, enum catalog_statement which, uint64_t value)
{
    sqlite3_stmt *s = catalog_statement(w->c, which);
    bind_number(s, 1, w->table.incarnation);
    bind_number(s, 2, value);
    return catalog_step(w->c, s, &w->r->msg);
}

int catalog_drop_table(struct catalog *c, uint64_t incarnation, uint64_t version,
                       struct err_msg *msg)
{
    sqlite3_stmt *s = catalog_statement(c, SQL_DROP_TABLE);
    bind_number(s, 1, incarnation);
    bind_number(s, 2, version);
    return catalog_step(c, s, msg);
}

static int drop_table(struct work *w)
{
    int rc = find_table(w);
    if (rc != 0) return rc;
    if (w->table.incarnation == 0) return refuse(w, -RFE_NO_TABLE, "no such table");
    if (w->r->finish_drop) {
        rc = catalog_drop_table(w->c, w->table.incarnation, w->version, &w->r->msg);
        return rc != 0 ? rc : note(w, (struct catalog_effect){.kind = EFFECT_DROP_TABLE});
    }
    if (w->table.marked) return 0; /* by a drop whose second step failed: this one goes on */
    rc = set_of_table(w, SQL_MARK_TABLE, w->version);
    return rc != 0 ? rc : note(w, (struct catalog_effect){.kind = EFFECT_MARK_TABLE});
}

static int set_ttl(struct work *w)
{
    int64_t ttl = w->change->ttl > 0 ? w->change->ttl : 0;
    int rc = need_table(w);
    if (rc != 0 || w->table.ttl == ttl) return rc;
    rc = set_of_table(w, SQL_SET_TTL, (uint64_t)ttl);
    return rc != 0 ? rc : note(w, (struct catalog_effect){.kind = EFFECT_SET_TTL, .ttl = ttl});
}

/* ---- columns ---- */

static int check_name(struct work *w, const char *name, size_t name_bytes, const char *what)
{
    if (schema_check_name(name, name_bytes) == 0) return 0;
    return err_set(&w->r->msg, -RFE_BAD_NAME,
                   "the %s name is no 1 to %d bytes of UTF-8 without control characters", what,
                   SCHEMA_NAME_BYTES_MAX);
}

static int find_column(struct work *w, const char *name, size_t name_bytes,
                       struct found_column *found_out)
{
    sqlite3_stmt *s = catalog_statement(w->c, SQL_FIND_COLUMN);
    bind_number(s, 1, w->table.incarnation);
    bind_text(s, 2, name, name_bytes);
    int rc = catalog_step(w->c, s, &w->r->msg);
    *found_out = (struct found_column){0};
    if (rc <= 0) return rc;
    found_out->id = (uint32_t)sqlite3_column_int64(s, 0);
    found_out->type = sqlite3_column_int(s, 1);
    found_out->category = sqlite3_column_int(s, 2);
    sqlite3_reset(s);
    return 0;
}

static int check_room(struct work *w, const struct plane_column *col)
{
    if (w->table.columns >= SCHEMA_COLUMNS_MAX)
        return refuse(w, -RFE_LIMIT, "it has 65,535 columns already");
    if (col->category == SCHEMA_TAG && w->table.tags >= SCHEMA_TAGS_MAX)
        return refuse(w, -RFE_LIMIT, "it has 16 TAG columns already");
    if (w->c->next_column > SCHEMA_COLUMN_ID_MAX)
        return refuse(w, -RFE_LIMIT, "the catalog is out of column numbers");
    return 0;
}

/* Inserts a column of the next number; series: how many name it (tree model). */
static int insert_column(struct work *w, const struct plane_column *col, uint64_t series,
                         uint32_t *id_out)
{
    int rc = check_room(w, col);
    if (rc != 0) return rc;
    uint32_t id = w->c->next_column;
    sqlite3_stmt *s = catalog_statement(w->c, SQL_ADD_COLUMN);
    bind_number(s, 1, id);
    bind_number(s, 2, w->table.incarnation);
    bind_text(s, 3, col->name, col->name_bytes);
    bind_number(s, 4, col->type);
    bind_number(s, 5, col->category);
    if (col->category == SCHEMA_TAG)
        bind_number(s, 6, (uint64_t)w->table.tags);
    else
        CHECK(sqlite3_bind_null(s, 6) == SQLITE_OK);
    bind_number(s, 7, series);
    bind_number(s, 8, w->version);
    rc = catalog_step(w->c, s, &w->r->msg);
    if (rc != 0) return rc;
    w->c->next_column++;
    w->table.columns++;
    w->table.tags += col->category == SCHEMA_TAG;
    *id_out = id;
    return note(w, (struct catalog_effect){.kind = EFFECT_ADD_COLUMN,
                                           .id = id,
                                           .text = col->name,
                                           .text_bytes = col->name_bytes,
                                           .type = col->type,
                                           .category = col->category});
}

static int check_column(struct work *w, const struct plane_column *col)
{
    int rc = check_name(w, col->name, col->name_bytes, "column's");
    if (rc != 0) return rc;
    if (schema_type_bytes(col->type) < 0)
        return refuse_column(w, -RFE_SEMANTIC_ERROR, col->name, col->name_bytes, "no such type");
    if (col->category != SCHEMA_TAG && col->category != SCHEMA_FIELD)
        return refuse_column(w, -RFE_SEMANTIC_ERROR, col->name, col->name_bytes,
                             "no such category");
    if (col->category == SCHEMA_TAG && col->type != SCHEMA_STRING)
        return refuse_column(w, -RFE_SEMANTIC_ERROR, col->name, col->name_bytes,
                             "a TAG column is a STRING");
    return 0;
}

static int add_column(struct work *w, const struct plane_column *col)
{
    struct found_column found;
    int rc = check_column(w, col);
    if (rc != 0) return rc;
    rc = find_column(w, col->name, col->name_bytes, &found);
    if (rc != 0) return rc;
    if (found.id == 0) return insert_column(w, col, 0, &found.id);
    if (!w->change->if_missing)
        return refuse_column(w, -RFE_COLUMN_EXISTS, col->name, col->name_bytes,
                             "the column exists already");
    if (found.type != col->type || found.category != col->category)
        return refuse_column(w, -RFE_TYPE_MISMATCH, col->name, col->name_bytes,
                             "the column exists with another type or category");
    return 0;
}

static int add_columns(struct work *w)
{
    int64_t before = w->table.columns;
    for (uint32_t i = 0; i < w->change->column_count; i++) {
        int rc = add_column(w, &w->change->columns[i]);
        if (rc != 0) return rc;
    }
    return w->table.columns != before ? store_counts(w) : 0;
}

static int create_table(struct work *w)
{
    const struct plane_change *ch = w->change;
    int rc = find_table(w);
    if (rc != 0) return rc;
    if (ch->tree && ch->column_count != 0)
        return refuse(w, -RFE_SEMANTIC_ERROR, "a database of the tree model has series");
    if (w->table.incarnation != 0 && !ch->if_missing)
        return w->table.marked ? refuse(w, -RFE_SEMANTIC_ERROR, "it is being dropped")
                               : refuse(w, -RFE_TABLE_EXISTS, "the table exists already");
    rc = w->table.incarnation != 0 ? table_to_fill(w) : add_table(w);
    return rc != 0 ? rc : add_columns(w);
}

static int alter_add_columns(struct work *w)
{
    if (w->change->tree)
        return refuse(w, -RFE_SEMANTIC_ERROR, "a database of the tree model has series");
    int rc = table_to_fill(w);
    return rc != 0 ? rc : add_columns(w);
}

/* The table and the column that a change names; the column must be there. */
static int need_column(struct work *w, struct found_column *found_out)
{
    const struct plane_change *ch = w->change;
    if (ch->tree) return refuse(w, -RFE_SEMANTIC_ERROR, "a database of the tree model has series");
    int rc = check_name(w, ch->column, ch->column_bytes, "column's");
    if (rc == 0) rc = need_table(w);
    if (rc == 0) rc = check_model(w);
    if (rc != 0) return rc;
    rc = find_column(w, ch->column, ch->column_bytes, found_out);
    if (rc != 0 || found_out->id != 0) return rc;
    return refuse_column(w, -RFE_NO_COLUMN, ch->column, ch->column_bytes, "no such column");
}

static int tombstone_column(struct work *w, uint32_t id)
{
    sqlite3_stmt *s = catalog_statement(w->c, SQL_DROP_COLUMN);
    bind_number(s, 1, id);
    bind_number(s, 2, w->version);
    int rc = catalog_step(w->c, s, &w->r->msg);
    if (rc != 0) return rc;
    w->table.columns--;
    return store_counts(w);
}

static int drop_column(struct work *w)
{
    const struct plane_change *ch = w->change;
    struct found_column found;
    int rc = need_column(w, &found);
    if (rc != 0) return rc;
    if (found.category == SCHEMA_TAG)
        return refuse_column(w, -RFE_SEMANTIC_ERROR, ch->column, ch->column_bytes,
                             "a TAG column can't be dropped");
    rc = tombstone_column(w, found.id);
    if (rc != 0) return rc;
    return note(w, (struct catalog_effect){.kind = EFFECT_DROP_COLUMN, .id = found.id});
}

static int rename_column(struct work *w)
{
    const struct plane_change *ch = w->change;
    struct found_column found, other;
    int rc = check_name(w, ch->to, ch->to_bytes, "new");
    if (rc != 0) return rc;
    rc = need_column(w, &found);
    if (rc != 0) return rc;
    rc = find_column(w, ch->to, ch->to_bytes, &other);
    if (rc != 0 || other.id == found.id) return rc;
    if (other.id != 0)
        return refuse_column(w, -RFE_COLUMN_EXISTS, ch->to, ch->to_bytes,
                             "the column exists already");
    sqlite3_stmt *s = catalog_statement(w->c, SQL_RENAME_COLUMN);
    bind_number(s, 1, found.id);
    bind_text(s, 2, ch->to, ch->to_bytes);
    rc = catalog_step(w->c, s, &w->r->msg);
    if (rc != 0) return rc;
    return note(w, (struct catalog_effect){.kind = EFFECT_RENAME_COLUMN,
                                           .id = found.id,
                                           .text = ch->to,
                                           .text_bytes = ch->to_bytes});
}

/* ---- series ---- */

struct found_series {
    uint32_t column_id; /* of the series that lives, 0: none */
    int type;           /* its type */
    /* The column that a new series of the type asked for is of: the newest one, unless this device
     * had a series of it that was dropped: its old cells would come back. 0: none, make one. */
    uint32_t usable_id;
};

static int find_series(struct work *w, const char *name, size_t name_bytes, int type,
                       struct found_series *found_out)
{
    sqlite3_stmt *s = catalog_statement(w->c, SQL_FIND_MEASUREMENTS);
    bind_number(s, 1, w->table.incarnation);
    bind_key(s, 2, w->change->key, w->change->key_bytes);
    bind_text(s, 3, name, name_bytes);
    *found_out = (struct found_series){0};
    bool newest = true;
    int rc;
    while ((rc = catalog_step(w->c, s, &w->r->msg)) == 1) {
        uint32_t id = (uint32_t)sqlite3_column_int64(s, 0);
        int column_type = sqlite3_column_int(s, 1);
        bool had = sqlite3_column_type(s, 2) != SQLITE_NULL;
        if (had && sqlite3_column_int(s, 2) != 0) {
            found_out->column_id = id;
            found_out->type = column_type;
        }
        if (column_type != type) continue;
        if (newest && !had) found_out->usable_id = id;
        newest = false;
    }
    return rc;
}

static int count_series(struct work *w, uint32_t column_id, int more, int64_t *count_out)
{
    sqlite3_stmt *s = catalog_statement(w->c, SQL_COUNT_SERIES);
    bind_number(s, 1, column_id);
    bind_number(s, 2, (uint64_t)(int64_t)more);
    int rc = catalog_step(w->c, s, &w->r->msg);
    if (rc == 1) *count_out = sqlite3_column_int64(s, 0);
    sqlite3_reset(s);
    return rc < 0 ? rc : 0;
}

static int insert_series(struct work *w, uint32_t column_id)
{
    const struct plane_change *ch = w->change;
    sqlite3_stmt *s = catalog_statement(w->c, SQL_ADD_SERIES);
    bind_number(s, 1, w->table.incarnation);
    bind_key(s, 2, ch->key, ch->key_bytes);
    bind_number(s, 3, column_id);
    bind_number(s, 4,
                w->c->next_series++); /* a number that a rollback leaves unused harms nobody */
    bind_number(s, 5, w->version);
    int rc = catalog_step(w->c, s, &w->r->msg);
    if (rc != 0) return rc;
    return note(w, (struct catalog_effect){.kind = EFFECT_ADD_SERIES,
                                           .id = column_id,
                                           .key = ch->key,
                                           .key_bytes = ch->key_bytes});
}

static int add_series(struct work *w, const struct plane_column *wanted)
{
    const struct plane_column col = {wanted->name, wanted->name_bytes, wanted->type, SCHEMA_FIELD};
    struct found_series found;
    int rc = check_column(w, &col);
    if (rc == 0) rc = find_series(w, col.name, col.name_bytes, col.type, &found);
    if (rc != 0) return rc;
    if (found.column_id != 0 && !w->change->if_missing)
        return refuse_column(w, -RFE_COLUMN_EXISTS, col.name, col.name_bytes,
                             "the series exists already");
    if (found.column_id != 0 && found.type != col.type)
        return refuse_column(w, -RFE_TYPE_MISMATCH, col.name, col.name_bytes,
                             "the series exists with another type");
    if (found.column_id != 0) return 0;
    int64_t count;
    rc = found.usable_id != 0 ? count_series(w, found.usable_id, 1, &count)
                              : insert_column(w, &col, 1, &found.usable_id);
    return rc != 0 ? rc : insert_series(w, found.usable_id);
}

static int check_key(struct work *w)
{
    if (!w->change->tree)
        return refuse(w, -RFE_SEMANTIC_ERROR, "series belong to databases of the tree model");
    if (w->change->key_bytes > SCHEMA_KEY_BYTES_MAX)
        return refuse(w, -RFE_LIMIT, "the device's key is longer than 4,096 bytes");
    return 0;
}

static int create_series(struct work *w)
{
    int rc = check_key(w);
    if (rc == 0) rc = table_to_fill(w);
    if (rc != 0) return rc;
    int64_t before = w->table.columns;
    for (uint32_t i = 0; i < w->change->column_count; i++) {
        rc = add_series(w, &w->change->columns[i]);
        if (rc != 0) return rc;
    }
    return w->table.columns != before ? store_counts(w) : 0;
}

static int drop_series(struct work *w)
{
    const struct plane_change *ch = w->change;
    struct found_series found;
    int rc = check_key(w);
    if (rc == 0) rc = check_name(w, ch->column, ch->column_bytes, "measurement's");
    if (rc == 0) rc = need_table(w);
    if (rc == 0) rc = check_model(w);
    if (rc != 0) return rc;
    rc = find_series(w, ch->column, ch->column_bytes, -1, &found);
    if (rc != 0) return rc;
    if (found.column_id == 0)
        return refuse_column(w, -RFE_NO_COLUMN, ch->column, ch->column_bytes, "no such series");
    sqlite3_stmt *s = catalog_statement(w->c, SQL_DROP_SERIES);
    bind_number(s, 1, w->table.incarnation);
    bind_key(s, 2, ch->key, ch->key_bytes);
    bind_number(s, 3, found.column_id);
    bind_number(s, 4, w->version);
    rc = catalog_step(w->c, s, &w->r->msg);
    if (rc != 0) return rc;
    int64_t left = 1;
    rc = count_series(w, found.column_id, -1, &left);
    if (rc != 0) return rc;
    rc = left == 0 ? tombstone_column(w, found.column_id) : 0;
    if (rc != 0) return rc;
    return note(w, (struct catalog_effect){.kind = EFFECT_DROP_SERIES,
                                           .id = found.column_id,
                                           .key = ch->key,
                                           .key_bytes = ch->key_bytes});
}

/* ---- */

static int change_one(struct work *w)
{
    int rc = check_name(w, w->change->table, w->change->table_bytes, "table's");
    if (rc != 0) return rc;
    switch (w->change->kind) {
    case PLANE_CREATE_TABLE: return create_table(w);
    case PLANE_ADD_COLUMNS: return alter_add_columns(w);
    case PLANE_DROP_COLUMN: return drop_column(w);
    case PLANE_RENAME_COLUMN: return rename_column(w);
    case PLANE_SET_TTL: return set_ttl(w);
    case PLANE_DROP_TABLE: return drop_table(w);
    case PLANE_CREATE_SERIES: return create_series(w);
    case PLANE_DROP_SERIES: return drop_series(w);
    }
    return refuse(w, -RFE_SEMANTIC_ERROR, "no such change");
}

int catalog_change(struct catalog *c, struct catalog_request *r, uint64_t version)
{
    for (uint32_t i = 0; i < r->change_count; i++) {
        struct work w = {.c = c, .r = r, .change = &r->changes[i], .version = version};
        int rc = change_one(&w);
        if (rc != 0) return rc;
    }
    return 0;
}
