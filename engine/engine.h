/* The engine: tablets in, rows out, between the schema above and the log below.
 *
 *   tablet.c   what a tablet is, checked in full and looked up at one version of the schema
 *   new_tags.c TAG columns that a batch itself will make
 *   order.c    rows by device, then time; runs of one device and partition
 *   apply.c    lease check, copy, link, fragment by fragment; rollback
 *   write.c    the write path as a whole, waits and retries; ops.c what is under way
 *   decide.c   what the lane asks when it decides
 *   stages.c   where a batch's time goes
 *   scan.c     snapshots, cursors, rows by device key, then time
 *   delete.c   deletes as records
 *   replay.c   from the log back to the memtable
 *   numbers.c  whether a catalog knows what a record names
 *
 * It never sees the plane: columns that are missing are asked for through a hook. The structs of
 * the public header are its own words for tablets, scans and errors.
 *
 * Threads  every call: any, unless it says otherwise. */
#ifndef RF_ENGINE_ENGINE_H
#define RF_ENGINE_ENGINE_H

#include "base/clock.h"
#include "base/log.h"
#include "io/io.h"
#include "lease/view.h"
#include "ringfence/ringfence.h"
#include "schema/schema.h"
#include "wal/dir.h"
#include "wal/lane.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;

/* What a tablet needs that the schema does not have: one entry a table and device. */
struct engine_column_want {
    const char *name;
    size_t name_bytes;
    uint8_t type;
    uint8_t category;
};
struct engine_want {
    const char *table;
    size_t table_bytes;
    bool tree;
    const void *key; /* tree: whose series */
    size_t key_bytes;
    const struct engine_column_want *columns;
    uint32_t column_count;
};

struct engine_hooks {
    void *ctx;
    /* Makes what is missing; returns once it is committed and published, or an error with msg. The
     * one place where a writer waits for the plane. */
    int (*create)(void *ctx, const struct engine_want *wants, uint32_t n, int64_t wait_ns,
                  struct err_msg *msg);
    /* The highest version of metadata that was ever obeyed, for the manifest. */
    uint64_t (*version)(void *ctx);
};

struct engine_options {
    struct wal_dir *dir; /* open, locked; its files become the lanes' */
    struct schema *schema;
    const struct lease_words *words;
    const struct clock *clock;
    const struct log *log;
    enum wal_mode mode;
    enum io_backend backend;
    bool buffered;
    bool auto_create;
    bool stages;
    bool read_only;
    uint32_t depth;
    uint64_t memory_bytes;
    uint64_t log_bytes_max; /* 0: as many segments as memory_bytes holds */
    int64_t write_wait_ns;
    int64_t durable_wait_ns;
    int64_t close_wait_ns; /* of each lane, see wal/lane.h; 0: its own */
    struct engine_hooks hooks;
    void (*trace)(void *ctx, const struct rf_trace *trace); /* with stages; NULL: none */
    void *trace_ctx;
};

/* The engine and its lanes, in memory alone: nothing is read, no thread runs. */
RF_NODISCARD int engine_create(const struct engine_options *options, struct engine **engine_out,
                               struct err_msg *msg);
/* Replays the lanes and starts them, once. Errors of wal/replay.h; -RFE_WRONG_CATALOG. After a
 * failure some lanes may run already: the engine is good for engine_close alone. */
RF_NODISCARD int engine_start(struct engine *engine, struct err_msg *msg);
/* 0, or the first error of a lane. -ETIMEDOUT: a device does not answer, a lane still has threads,
 * and all that they look at stays: engine, schema, words, directory and environment must not be
 * freed. */
int engine_close(struct engine *engine, bool abandon);
RF_NODISCARD int engine_wait_prepared(struct engine *engine);

/* A tree path "root.db.d1": the database and the device's key in it. */
struct tree_path {
    const char *database;
    size_t database_bytes;
    const char *key;
    size_t key_bytes;
};
/* False: not of the form root.name.name[.name...], each a name of 1 to 255 bytes. */
bool tree_path_split(const char *device, struct tree_path *path_out);

/* A tag's value in a device's key; false: null. */
bool engine_key_tag(const void *key, uint32_t key_bytes, uint32_t tag_index,
                    const uint8_t **value_out, uint32_t *bytes_out);

/* Whether a data or delete record's payload (type: enum wal_record_type) has its one form, and names
 * only what the catalog has or had. *gone_out: every table that it names is dropped. -RFE_CORRUPT,
 * -RFE_NEWER_VERSION, -RFE_WRONG_CATALOG; why says what of the payload is wrong, without its place. */
RF_NODISCARD int engine_check_record(const struct schema *schema, uint8_t type,
                                     const uint8_t *payload, uint32_t bytes, bool *gone_out,
                                     struct err_msg *why);

/* See rf_write_batch, rf_write_async. */
RF_NODISCARD int engine_write(struct engine *engine, const struct rf_tablet *tablets, uint32_t n,
                              struct rf_error *error);

struct engine_queue;
RF_NODISCARD int engine_queue_open(struct engine *engine, struct engine_queue **queue_out);
void engine_queue_close(struct engine_queue *queue);
RF_NODISCARD int engine_write_async(struct engine_queue *queue, const struct rf_tablet *tablets,
                                    uint32_t n, int64_t wait_ns, void (*done)(void *user, int code),
                                    void *user, struct rf_error *error);
int engine_completions(struct engine_queue *queue, struct rf_completion *out, uint32_t max,
                       int64_t timeout_ns);
int engine_queue_eventfd(struct engine_queue *queue);
uint32_t engine_queue_in_flight(const struct engine_queue *queue);

struct engine_cursor;
RF_NODISCARD int engine_scan_open(struct engine *engine, const struct rf_scan_options *options,
                                  struct engine_cursor **cursor_out, struct rf_error *error);
RF_NODISCARD int engine_scan_next(struct engine_cursor *cursor, struct rf_tablet *rows_out);
void engine_scan_close(struct engine_cursor *cursor);
RF_NODISCARD int engine_count(struct engine *engine, const struct rf_scan_options *options,
                              uint64_t *rows_out, struct rf_error *error);

RF_NODISCARD int engine_delete(struct engine *engine, const struct rf_delete_options *options,
                               struct rf_error *error);

RF_NODISCARD int engine_flush(struct engine *engine);
RF_NODISCARD int engine_trim(struct engine *engine, const struct rf_trim_options *options,
                             uint64_t *position_out);
RF_NODISCARD int engine_resume(struct engine *engine, struct err_msg *msg);

/* Puts the newest version of metadata into the manifest when it has not got it: from then on an
 * older catalog in its place is refused. Durable when it returns 0. */
RF_NODISCARD int engine_save_version(struct engine *engine);

/* Asked by the plane until true; see plane.h. */
bool engine_view_is_closed(struct engine *engine, uint64_t view);

/* Fills what the engine knows; the rest is left alone. */
void engine_stats(struct engine *engine, struct rf_stats *stats);

#endif
