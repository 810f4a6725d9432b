/* LMDB at its best: a tablet is one value, written in place (MDB_RESERVE), keys in turn over a range
 * that is filled before, so that the file does not grow while it is measured; default sync, with
 * MDB_WRITEMAP or without, whichever is faster; one writer at a time is its design, so many in flight
 * is many tablets in one transaction. */
#include "bench/macro/bench.h"

#include <lmdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define KEYS 1024u

struct lmdb {
    MDB_env *env;
    MDB_dbi dbi;
    uint8_t *value;
    size_t value_bytes;
    uint64_t next;
    char dir[BENCH_PATH_BYTES];
};

static void checked(int rc, const char *what)
{
    if (rc != 0) die("LMDB: %s: %s", what, mdb_strerror(rc));
}

static void put(struct peer *peer, uint32_t thread)
{
    (void)thread;
    struct lmdb *l = peer->state;
    MDB_txn *txn;
    checked(mdb_txn_begin(l->env, NULL, 0, &txn), "mdb_txn_begin");
    for (uint32_t i = 0; i < peer->tablets_a_put; i++) {
        uint64_t number = __builtin_bswap64(l->next++ % KEYS);
        MDB_val key = {sizeof number, &number}, value = {l->value_bytes, NULL};
        checked(mdb_put(txn, l->dbi, &key, &value, MDB_RESERVE), "mdb_put");
        memcpy(value.mv_data, l->value, l->value_bytes);
    }
    checked(mdb_txn_commit(txn), "mdb_txn_commit");
}

static void close_lmdb(struct peer *peer)
{
    struct lmdb *l = peer->state;
    mdb_env_close(l->env);
    remove_tree(l->dir);
    free(l->value);
    free(l);
}

struct peer *peer_lmdb(const char *dir, const struct tablets *tablets, uint32_t tablets_a_put,
                       bool write_map)
{
    struct peer *peer = xalloc(sizeof *peer);
    struct lmdb *l = xalloc(sizeof *l);
    *peer = (struct peer){.threads = 1,
                          .tablets_a_put = tablets_a_put,
                          .points = tablets->points,
                          .state = l,
                          .put = put,
                          .close = close_lmdb};
    (void)snprintf(peer->name, sizeof peer->name, "LMDB%s, %u a transaction",
                   write_map ? " WRITEMAP" : "", tablets_a_put);
    char name[64];
    (void)snprintf(name, sizeof name, "lmdb-%u-%d", tablets_a_put, write_map);
    path_join(l->dir, dir, name);
    if (mkdir(l->dir, 0755) != 0) die("%s: can't be made", l->dir);
    l->value = tablet_value(tablets, &l->value_bytes);
    MDB_txn *txn;
    checked(mdb_env_create(&l->env), "mdb_env_create");
    checked(mdb_env_set_mapsize(l->env, 4 * KEYS * ((l->value_bytes >> 12) + 2) << 12),
            "mdb_env_set_mapsize");
    checked(mdb_env_open(l->env, l->dir, write_map ? MDB_WRITEMAP : 0, 0644), "mdb_env_open");
    checked(mdb_txn_begin(l->env, NULL, 0, &txn), "mdb_txn_begin");
    checked(mdb_dbi_open(txn, NULL, MDB_CREATE, &l->dbi), "mdb_dbi_open");
    checked(mdb_txn_commit(txn), "mdb_txn_commit");
    /* Twice over the range: the pages that go round are there then. */
    for (uint32_t i = 0; i < 2 * KEYS / 64; i++) {
        struct peer filling = *peer;
        filling.tablets_a_put = 64;
        put(&filling, 0);
    }
    return peer;
}
