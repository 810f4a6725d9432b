/* SQLite at its best for durable appends: WAL, synchronous FULL, a row a key, one transaction a
 * tablet, a prepared statement, keys in order, checkpoints far apart. */
#include "bench/macro/bench.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

struct sqlite {
    sqlite3 *db;
    sqlite3_stmt *begin, *insert, *commit;
    const struct tablets *tablets;
    uint64_t next;
    char path[BENCH_PATH_BYTES];
};

static void checked(const struct sqlite *s, int rc, const char *what)
{
    if (rc != SQLITE_OK && rc != SQLITE_DONE) die("SQLite: %s: %s", what, sqlite3_errmsg(s->db));
}

static void put(struct peer *peer, uint32_t thread)
{
    (void)thread;
    struct sqlite *s = peer->state;
    const struct rf_tablet *t = &s->tablets->tablet[0];
    checked(s, sqlite3_step(s->begin), "BEGIN");
    sqlite3_reset(s->begin);
    for (uint32_t row = 0; row < t->rows; row++) {
        sqlite3_bind_int64(s->insert, 1, (sqlite3_int64)(s->next++));
        for (uint32_t c = 0; c < t->columns; c++)
            sqlite3_bind_double(s->insert, (int)c + 2, ((const double *)t->column[c].values)[row]);
        checked(s, sqlite3_step(s->insert), "INSERT");
        sqlite3_reset(s->insert);
    }
    checked(s, sqlite3_step(s->commit), "COMMIT");
    sqlite3_reset(s->commit);
}

static void remove_files(const struct sqlite *s)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        char path[BENCH_PATH_BYTES + 8];
        (void)snprintf(path, sizeof path, "%s%s", s->path, ends[i]);
        remove(path);
    }
}

static void close_sqlite(struct peer *peer)
{
    struct sqlite *s = peer->state;
    sqlite3_finalize(s->begin);
    sqlite3_finalize(s->insert);
    sqlite3_finalize(s->commit);
    sqlite3_close(s->db);
    remove_files(s);
    free(s);
}

static void prepare(const struct sqlite *s, const char *sql, sqlite3_stmt **out)
{
    checked(s, sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL), sql);
}

struct peer *peer_sqlite(const char *dir, const struct tablets *tablets)
{
    struct peer *peer = xalloc(sizeof *peer);
    struct sqlite *s = xalloc(sizeof *s);
    *peer = (struct peer){.threads = 1,
                          .tablets_a_put = 1,
                          .points = tablets->points,
                          .state = s,
                          .put = put,
                          .close = close_sqlite};
    (void)snprintf(peer->name, sizeof peer->name, "SQLite by rows, WAL, FULL");
    s->tablets = tablets;
    if (tablets->tablet[0].columns != 10) die("SQLite is given 10 columns");
    path_join(s->path, dir, "sqlite");
    remove_files(s);
    if (sqlite3_open(s->path, &s->db) != SQLITE_OK) die("SQLite: %s", sqlite3_errmsg(s->db));
    checked(s,
            sqlite3_exec(s->db,
                         "PRAGMA page_size = 16384; PRAGMA journal_mode = WAL;"
                         "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 8000;"
                         "PRAGMA cache_size = -262144; PRAGMA locking_mode = EXCLUSIVE;"
                         "CREATE TABLE t (time INTEGER PRIMARY KEY, s0, s1, s2, s3, s4, s5, s6, s7,"
                         " s8, s9)",
                         NULL, NULL, NULL),
            "set-up");
    prepare(s, "BEGIN IMMEDIATE", &s->begin);
    prepare(s, "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", &s->insert);
    prepare(s, "COMMIT", &s->commit);
    return peer;
}
