/* The file's tables: how they are made, and how they are read at open. What is read is checked row
 * by row: a damaged catalog is refused, naming the row. */
#include "plane/catalog_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define LIVES(alias) alias ".dropped IS NULL"

static const char make_text[] =
    "CREATE TABLE meta(only INTEGER PRIMARY KEY CHECK(only = 1), format INTEGER NOT NULL,"
    " uuid TEXT NOT NULL, generation INTEGER NOT NULL, version INTEGER NOT NULL,"
    " next_incarnation INTEGER NOT NULL, next_column INTEGER NOT NULL) STRICT;"

    "CREATE TABLE tables(incarnation INTEGER PRIMARY KEY, name TEXT NOT NULL,"
    " tree INTEGER NOT NULL, ttl INTEGER NOT NULL, columns INTEGER NOT NULL,"
    " tags INTEGER NOT NULL, created INTEGER NOT NULL, marked INTEGER, dropped INTEGER) STRICT;"
    "CREATE UNIQUE INDEX tables_name ON tables(name) WHERE dropped IS NULL;"

    "CREATE TABLE columns(id INTEGER PRIMARY KEY, incarnation INTEGER NOT NULL,"
    " name TEXT NOT NULL, type INTEGER NOT NULL, category INTEGER NOT NULL, tag_index INTEGER,"
    " series INTEGER NOT NULL, created INTEGER NOT NULL, dropped INTEGER) STRICT;"
    "CREATE INDEX columns_name ON columns(incarnation, name) WHERE dropped IS NULL;"

    "CREATE TABLE series(incarnation INTEGER NOT NULL, key BLOB NOT NULL,"
    " column_id INTEGER NOT NULL, number INTEGER NOT NULL, created INTEGER NOT NULL,"
    " dropped INTEGER, PRIMARY KEY(incarnation, key, column_id)) STRICT, WITHOUT ROWID;"

    "CREATE TABLE types(code INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;"
    "INSERT INTO types VALUES(0,'BOOLEAN'),(1,'INT32'),(2,'INT64'),(3,'FLOAT'),(4,'DOUBLE'),"
    "(5,'TEXT'),(8,'TIMESTAMP'),(9,'DATE'),(10,'BLOB'),(11,'STRING');"

    "CREATE VIEW table_list AS SELECT name, iif(tree, 'tree', 'table') AS model, columns, tags, "
    "ttl,"
    " iif(marked IS NULL, 'normal', 'being dropped') AS state, incarnation, created"
    " FROM tables WHERE dropped IS NULL;"
    "CREATE VIEW column_list AS SELECT t.name AS table_name, c.name AS column_name,"
    " y.name AS type, iif(c.category = 0, 'TAG', 'FIELD') AS category, c.id, c.created"
    " FROM columns c JOIN tables t USING(incarnation) JOIN types y ON y.code = c.type"
    " WHERE NOT t.tree AND " LIVES("c") " AND " LIVES(
        "t") ";"
             "CREATE VIEW series_list AS SELECT t.name AS database_name, CAST(s.key AS TEXT) AS "
             "device,"
             " c.name AS measurement, y.name AS type, c.id AS column_id, s.created"
             " FROM series s JOIN tables t USING(incarnation) JOIN columns c ON c.id = s.column_id"
             " JOIN types y ON y.code = c.type WHERE " LIVES("s") " AND " LIVES(
                 "t") ";"
                      "CREATE VIEW tombstones AS"
                      " SELECT 'table' AS what, name AS table_name, NULL AS device, NULL AS "
                      "column_name,"
                      " incarnation AS number, created, dropped FROM tables WHERE dropped IS NOT "
                      "NULL"
                      " UNION ALL SELECT 'column', t.name, NULL, c.name, c.id, c.created, c.dropped"
                      " FROM columns c JOIN tables t USING(incarnation) WHERE c.dropped IS NOT NULL"
                      " UNION ALL SELECT 'series', t.name, CAST(s.key AS TEXT), c.name, c.id, "
                      "s.created, s.dropped"
                      " FROM series s JOIN tables t USING(incarnation) JOIN columns c ON c.id = "
                      "s.column_id"
                      " WHERE s.dropped IS NOT NULL;";

static int run_text(struct catalog *c, const char *text, struct err_msg *msg)
{
    if (sqlite3_exec(c->db, text, NULL, NULL, NULL) == SQLITE_OK) return 0;
    return catalog_sql_error(c, msg, "making the catalog");
}

int catalog_make(struct catalog *c, const struct catalog_options *o, struct err_msg *msg)
{
    char uuid[33], row[512];
    for (int i = 0; i < 16; i++)
        snprintf(uuid + 2 * i, 3, "%02x", o->uuid[i]);
    snprintf(row, sizeof row,
             "INSERT INTO meta VALUES(1, %d, '%s', %" PRId64 ", 0, 1, 1);"
             "PRAGMA application_id = %d; PRAGMA user_version = %d",
             CATALOG_FORMAT, uuid, (int64_t)o->generation, CATALOG_APPLICATION_ID, CATALOG_FORMAT);
    int rc = run_text(c, "BEGIN IMMEDIATE", msg);
    if (rc == 0) rc = run_text(c, make_text, msg);
    if (rc == 0) rc = run_text(c, row, msg);
    return rc != 0 ? rc : run_text(c, "COMMIT", msg);
}

/* ---- reading ---- */

static int damaged(struct catalog *c, const char *table, int64_t row, const char *what,
                   struct err_msg *msg)
{
    return err_set(msg, -RFE_CORRUPT, "%s: table %s, row %" PRId64 ": %s", c->path, table, row,
                   what);
}

static int no_memory(struct catalog *c, struct err_msg *msg)
{
    return err_set(msg, -ENOMEM, "%s: out of memory while reading", c->path);
}

/* created and dropped of a row, at columns `at` and `at` + 1; NULL reads as "never". */
static bool read_life(const struct catalog *c, sqlite3_stmt *s, int at, uint64_t *created_out,
                      uint64_t *dropped_out)
{
    uint64_t created = (uint64_t)sqlite3_column_int64(s, at), dropped = SCHEMA_NEVER;
    if (sqlite3_column_type(s, at + 1) != SQLITE_NULL) {
        dropped = (uint64_t)sqlite3_column_int64(s, at + 1);
        if (dropped > c->version || dropped < created) return false;
    }
    *created_out = created;
    *dropped_out = dropped;
    return created >= 1 && created <= c->version;
}

static int read_table(struct catalog *c, struct schema *schema, sqlite3_stmt *s,
                      struct err_msg *msg)
{
    int64_t incarnation = sqlite3_column_int64(s, 0);
    const char *name = (const char *)sqlite3_column_text(s, 1);
    int name_bytes = sqlite3_column_bytes(s, 1);
    uint64_t created, dropped;
    struct schema_table *t;
    if (incarnation < 1 || (uint64_t)incarnation >= c->next_incarnation)
        return damaged(c, "tables", incarnation, "the incarnation was never given", msg);
    if (schema_check_name(name, (size_t)name_bytes) != 0)
        return damaged(c, "tables", incarnation, "no usable name", msg);
    if (!read_life(c, s, 4, &created, &dropped))
        return damaged(c, "tables", incarnation, "created or dropped is no version", msg);
    if (schema_add_table(schema, name, (size_t)name_bytes, (uint64_t)incarnation,
                         sqlite3_column_int(s, 2) != 0, sqlite3_column_int64(s, 3), created,
                         &t) != 0)
        return no_memory(c, msg);
    if (sqlite3_column_type(s, 6) != SQLITE_NULL)
        schema_mark_table(t, (uint64_t)sqlite3_column_int64(s, 6));
    return 0;
}

static int read_column(struct catalog *c, struct schema *schema, sqlite3_stmt *s,
                       struct err_msg *msg)
{
    int64_t id = sqlite3_column_int64(s, 0);
    struct schema_table *t = schema_table_to_change(schema, (uint64_t)sqlite3_column_int64(s, 1));
    const char *name = (const char *)sqlite3_column_text(s, 2);
    int name_bytes = sqlite3_column_bytes(s, 2);
    int type = sqlite3_column_int(s, 3), category = sqlite3_column_int(s, 4);
    uint64_t created, dropped;
    if (id < 1 || id >= (int64_t)c->next_column)
        return damaged(c, "columns", id, "the id was never given", msg);
    if (t == NULL) return damaged(c, "columns", id, "no such table", msg);
    if (schema_check_name(name, (size_t)name_bytes) != 0)
        return damaged(c, "columns", id, "no usable name", msg);
    if (schema_type_bytes(type) < 0) return damaged(c, "columns", id, "no such type", msg);
    if (!read_life(c, s, 6, &created, &dropped))
        return damaged(c, "columns", id, "created or dropped is no version", msg);
    bool tag = category == SCHEMA_TAG;
    if (!tag && category != SCHEMA_FIELD) return damaged(c, "columns", id, "no such category", msg);
    if (tag && (schema_table_is_tree(t) || dropped != SCHEMA_NEVER ||
                sqlite3_column_int64(s, 5) != schema_table_tags(t) ||
                schema_table_tags(t) >= SCHEMA_TAGS_MAX))
        return damaged(c, "columns", id, "a TAG column out of order", msg);
    if (schema_add_column(t, name, (size_t)name_bytes, (uint32_t)id, type, category, created) != 0)
        return no_memory(c, msg);
    /* A column of the tree model goes with its last series. */
    if (dropped != SCHEMA_NEVER && !schema_table_is_tree(t))
        schema_drop_column(t, (uint32_t)id, dropped);
    return 0;
}

/* The table of a row of `series`, NULL when the row makes no sense. */
static struct schema_table *table_of_series(struct schema *schema, sqlite3_stmt *s)
{
    struct schema_table *t = schema_table_to_change(schema, (uint64_t)sqlite3_column_int64(s, 1));
    int64_t column = sqlite3_column_int64(s, 3);
    if (t == NULL || !schema_table_is_tree(t)) return NULL;
    if (sqlite3_column_bytes(s, 2) > SCHEMA_KEY_BYTES_MAX) return NULL;
    if (column < 1 || column > SCHEMA_COLUMN_ID_MAX) return NULL;
    return schema_table_of_column(schema, (uint32_t)column) == t ? t : NULL;
}

static int read_series(struct catalog *c, struct schema *schema, sqlite3_stmt *s,
                       struct err_msg *msg)
{
    int64_t number = sqlite3_column_int64(s, 0);
    struct schema_table *t = table_of_series(schema, s);
    uint64_t created, dropped;
    if (number < 1) return damaged(c, "series", number, "no number", msg);
    if (t == NULL) return damaged(c, "series", number, "no such table and column", msg);
    if (!read_life(c, s, 4, &created, &dropped))
        return damaged(c, "series", number, "created or dropped is no version", msg);
    int rc = schema_add_series(t, sqlite3_column_blob(s, 2), (size_t)sqlite3_column_bytes(s, 2),
                               (uint32_t)sqlite3_column_int64(s, 3), created);
    if (rc != 0) return no_memory(c, msg);
    c->next_series = (uint64_t)number + 1;
    return 0;
}

/* After all have been added: a column counts its series, and ends when the last is dropped. */
static int read_series_drop(struct catalog *c, struct schema *schema, sqlite3_stmt *s,
                            struct err_msg *msg)
{
    struct schema_table *t = table_of_series(schema, s);
    int rc = schema_drop_series(t, sqlite3_column_blob(s, 2), (size_t)sqlite3_column_bytes(s, 2),
                                (uint32_t)sqlite3_column_int64(s, 3),
                                (uint64_t)sqlite3_column_int64(s, 5));
    return rc != 0 ? no_memory(c, msg) : 0;
}

/* Last: a table counts what it had. */
static int read_table_drop(struct catalog *c, struct schema *schema, sqlite3_stmt *s,
                           struct err_msg *msg)
{
    (void)c;
    (void)msg;
    struct schema_table *t = schema_table_to_change(schema, (uint64_t)sqlite3_column_int64(s, 0));
    schema_drop_table(t, (uint64_t)sqlite3_column_int64(s, 1));
    return 0;
}

typedef int read_row(struct catalog *c, struct schema *schema, sqlite3_stmt *s,
                     struct err_msg *msg);

static int read_rows(struct catalog *c, struct schema *schema, const char *sql, read_row *row,
                     struct err_msg *msg)
{
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(c->db, sql, -1, &s, NULL) != SQLITE_OK)
        return catalog_sql_error(c, msg, sql);
    int rc;
    do {
        rc = catalog_step(c, s, msg);
        if (rc == 1) {
            int failed = row(c, schema, s, msg);
            if (failed != 0) rc = failed;
        }
    } while (rc == 1);
    (void)sqlite3_finalize(s); /* rc has what is to be told */
    return rc;
}

int catalog_load(struct catalog *c, struct schema *schema, struct err_msg *msg)
{
    static const struct {
        const char *sql;
        read_row *row;
    } parts[] = {
        {"SELECT incarnation, name, tree, ttl, created, dropped, marked FROM tables"
         " ORDER BY incarnation",
         read_table},
        {"SELECT id, incarnation, name, type, category, tag_index, created, dropped FROM columns"
         " ORDER BY id",
         read_column},
        {"SELECT number, incarnation, key, column_id, created, dropped FROM series"
         " ORDER BY number",
         read_series},
        {"SELECT number, incarnation, key, column_id, created, dropped FROM series"
         " WHERE dropped IS NOT NULL ORDER BY dropped, number",
         read_series_drop},
        {"SELECT incarnation, dropped FROM tables WHERE dropped IS NOT NULL ORDER BY dropped",
         read_table_drop},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        int rc = read_rows(c, schema, parts[i].sql, parts[i].row, msg);
        if (rc != 0) return rc;
    }
    return 0;
}
