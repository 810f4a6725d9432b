/* RocksDB through its C API. Best for this load: no compression, large write buffers, logs recycled,
 * no compaction while it is measured; a tablet as one value in a blob file, or one key a row in one
 * WriteBatch a tablet. Many in flight is many threads, whose writes RocksDB groups by itself, or
 * many tablets in a WriteBatch. */
#include "bench/macro/bench.h"

#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_BYTES_MAX 256u

struct rocks {
    rocksdb_t *db;
    rocksdb_options_t *options;
    rocksdb_writeoptions_t *write_options;
    const struct tablets *tablets;
    struct rocks_options o;
    uint8_t *value;
    size_t value_bytes;
    _Atomic uint64_t next;
    char dir[BENCH_PATH_BYTES];
};

static void checked(char *error, const char *what)
{
    if (error != NULL) die("RocksDB: %s: %s", what, error);
}

static void add_rows(const struct rocks *r, rocksdb_writebatch_t *batch, uint64_t number)
{
    const struct rf_tablet *t = &r->tablets->tablet[0];
    for (uint32_t row = 0; row < t->rows; row++) {
        uint64_t key[2] = {__builtin_bswap64(number), __builtin_bswap64((uint64_t)t->times[row])};
        double value[VALUE_BYTES_MAX / sizeof(double)];
        for (uint32_t c = 0; c < t->columns; c++)
            value[c] = ((const double *)t->column[c].values)[row];
        rocksdb_writebatch_put(batch, (const char *)key, sizeof key, (const char *)value,
                               t->columns * sizeof(double));
    }
}

static void put(struct peer *peer, uint32_t thread)
{
    (void)thread;
    struct rocks *r = peer->state;
    char *error = NULL;
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    for (uint32_t i = 0; i < r->o.tablets_a_put; i++) {
        uint64_t number = atomic_fetch_add(&r->next, 1), key = __builtin_bswap64(number);
        if (r->o.rows)
            add_rows(r, batch, number);
        else
            rocksdb_writebatch_put(batch, (const char *)&key, sizeof key, (const char *)r->value,
                                   r->value_bytes);
    }
    rocksdb_write(r->db, r->write_options, batch, &error);
    checked(error, "rocksdb_write");
    rocksdb_writebatch_destroy(batch);
}

static void close_rocks(struct peer *peer)
{
    struct rocks *r = peer->state;
    rocksdb_cancel_all_background_work(r->db, 1);
    rocksdb_close(r->db);
    rocksdb_options_destroy(r->options);
    rocksdb_writeoptions_destroy(r->write_options);
    remove_tree(r->dir);
    free(r->value);
    free(r);
}

static rocksdb_options_t *options_of(const struct rocks_options *o)
{
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_compression(options, rocksdb_no_compression);
    rocksdb_options_set_write_buffer_size(options, 256 * MIB);
    rocksdb_options_set_max_write_buffer_number(options, 6);
    rocksdb_options_set_recycle_log_file_num(options, 4);
    rocksdb_options_set_disable_auto_compactions(options, 1);
    rocksdb_options_set_level0_slowdown_writes_trigger(options, 1000);
    rocksdb_options_set_level0_stop_writes_trigger(options, 2000);
    rocksdb_options_increase_parallelism(options, 2);
    if (!o->rows) {
        rocksdb_options_set_enable_blob_files(options, 1);
        rocksdb_options_set_min_blob_size(options, 1024);
        rocksdb_options_set_blob_compression_type(options, rocksdb_no_compression);
    }
    return options;
}

struct peer *peer_rocksdb(const char *dir, const struct tablets *tablets,
                          const struct rocks_options *o)
{
    struct peer *peer = xalloc(sizeof *peer);
    struct rocks *r = xalloc(sizeof *r);
    *peer = (struct peer){.threads = o->threads,
                          .tablets_a_put = o->tablets_a_put,
                          .points = tablets->points,
                          .state = r,
                          .put = put,
                          .close = close_rocks};
    (void)snprintf(peer->name, sizeof peer->name, "RocksDB %s, %u threads, %u a batch",
                   o->rows ? "by rows" : "blobs", o->threads, o->tablets_a_put);
    r->o = *o;
    r->tablets = tablets;
    if (tablets->tablet[0].columns * sizeof(double) > VALUE_BYTES_MAX) die("too wide for RocksDB");
    r->value = tablet_value(tablets, &r->value_bytes);
    char name[64];
    (void)snprintf(name, sizeof name, "rocksdb-%d-%d-%u-%u", o->rows, o->sync, o->threads,
                   o->tablets_a_put);
    path_join(r->dir, dir, name);
    r->options = options_of(o);
    r->write_options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(r->write_options, o->sync);
    char *error = NULL;
    r->db = rocksdb_open(r->options, r->dir, &error);
    checked(error, "rocksdb_open");
    return peer;
}
