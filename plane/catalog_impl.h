/* Inside of the catalog: the connection and its statements. */
#ifndef RF_PLANE_CATALOG_IMPL_H
#define RF_PLANE_CATALOG_IMPL_H

#include "plane/catalog.h"

#include <sqlite3.h>
#include <stdio.h>

#define CATALOG_FORMAT         1
#define CATALOG_APPLICATION_ID 0x52466374 /* "RFct" */

/* Every statement is prepared once, at open. */
#define CATALOG_STATEMENTS(X)                                                                         \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                       \
    X(COMMIT, "COMMIT")                                                                               \
    X(ROLLBACK, "ROLLBACK")                                                                           \
    X(SAVEPOINT, "SAVEPOINT request")                                                                 \
    X(RELEASE, "RELEASE request")                                                                     \
    X(ROLLBACK_TO, "ROLLBACK TO request")                                                             \
    X(META, "SELECT version, next_incarnation, next_column FROM meta")                                \
    X(SET_META, "UPDATE meta SET version = ?1, next_incarnation = ?2, next_column = ?3")              \
    X(FIND_TABLE, "SELECT incarnation, tree, ttl, columns, tags, marked FROM tables"                  \
                  " WHERE name = ?1 AND dropped IS NULL")                                             \
    X(ADD_TABLE, "INSERT INTO tables(incarnation, name, tree, ttl, columns, tags, created)"           \
                 " VALUES(?1, ?2, ?3, ?4, 0, 0, ?5)")                                                 \
    X(SET_COUNTS, "UPDATE tables SET columns = ?2, tags = ?3 WHERE incarnation = ?1")                 \
    X(SET_TTL, "UPDATE tables SET ttl = ?2 WHERE incarnation = ?1")                                   \
    X(MARK_TABLE, "UPDATE tables SET marked = ?2 WHERE incarnation = ?1")                             \
    X(DROP_TABLE, "UPDATE tables SET dropped = ?2 WHERE incarnation = ?1")                            \
    X(MARKED_TABLES, "SELECT incarnation, name FROM tables"                                           \
                     " WHERE marked IS NOT NULL AND dropped IS NULL")                                 \
    X(FIND_COLUMN, "SELECT id, type, category FROM columns"                                           \
                   " WHERE incarnation = ?1 AND name = ?2 AND dropped IS NULL")                       \
    X(ADD_COLUMN, "INSERT INTO columns(id, incarnation, name, type, category, tag_index, series,"     \
                  " created) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")                                 \
    X(RENAME_COLUMN, "UPDATE columns SET name = ?2 WHERE id = ?1")                                    \
    X(DROP_COLUMN, "UPDATE columns SET dropped = ?2 WHERE id = ?1")                                   \
    /* The live columns of a measurement, newest first, and the device's series of each: NULL (it   \
     * never had one), 0 (dropped), 1 (lives). */ \
    X(FIND_MEASUREMENTS, "SELECT c.id, c.type, (SELECT s.dropped IS NULL FROM series s"               \
                         " WHERE s.incarnation = ?1 AND s.key = ?2 AND s.column_id = c.id)"           \
                         " FROM columns c WHERE c.incarnation = ?1 AND c.name = ?3"                   \
                         " AND c.dropped IS NULL ORDER BY c.id DESC")                                 \
    X(ADD_SERIES, "INSERT INTO series(incarnation, key, column_id, number, created)"                  \
                  " VALUES(?1, ?2, ?3, ?4, ?5)")                                                      \
    X(COUNT_SERIES, "UPDATE columns SET series = series + ?2 WHERE id = ?1 RETURNING series")         \
    X(DROP_SERIES, "UPDATE series SET dropped = ?4"                                                   \
                   " WHERE incarnation = ?1 AND key = ?2 AND column_id = ?3 AND dropped IS NULL")

enum catalog_statement {
#define X(name, text) SQL_##name,
    CATALOG_STATEMENTS(X)
#undef X
        SQL_COUNT
};

struct catalog {
    uint32_t magic;
    sqlite3 *db;
    const char *path; /* a copy, for messages */
    sqlite3_stmt *statement[SQL_COUNT];
    bool latched;     /* a COMMIT failed in a way that leaves its outcome unknown */
    uint64_t version; /* committed */
    /* Committed, except inside catalog_run, where they run ahead. */
    uint64_t next_incarnation;
    uint32_t next_column;
    uint64_t next_series; /* only an order: rows of series are never deleted, so it goes on from
                             the largest */
};

/* The code for SQLite's present error, with its text in msg. */
int catalog_sql_error(struct catalog *c, struct err_msg *msg, const char *doing);

/* A statement, reset and ready for its parameters. */
sqlite3_stmt *catalog_statement(struct catalog *c, enum catalog_statement which);
/* Runs it: 1 (a row is there), 0 (done, and reset), or a negative code. */
int catalog_step(struct catalog *c, sqlite3_stmt *s, struct err_msg *msg);
/* Runs one that gives no rows. */
int catalog_do(struct catalog *c, enum catalog_statement which, struct err_msg *msg);

/* Creates the tables of an empty file, in one transaction. */
int catalog_make(struct catalog *c, const struct catalog_options *options, struct err_msg *msg);
/* Fills the schema from the file. */
int catalog_load(struct catalog *c, struct schema *schema, struct err_msg *msg);

/* Does the changes of one request, inside a transaction, as of `version`. 0 or its code. */
int catalog_change(struct catalog *c, struct catalog_request *r, uint64_t version);
/* Writes the tombstone of a table. */
int catalog_drop_table(struct catalog *c, uint64_t incarnation, uint64_t version,
                       struct err_msg *msg);

#endif
