/* Ringfence: a write engine for time series.
 *
 * Tablets (rows of one device or table, column by column) go in; they come out of a crash, a lost
 * lease or a full disk whole or not at all. Rows are read back by device and time, last write wins
 * cell by cell.
 *
 *     struct rf_options options;
 *     struct rf_engine *engine;
 *     rf_options_init(&options);
 *     if (rf_open("data", &options, &engine, NULL) == 0) {
 *         rf_write(engine, &tablet, NULL);
 *         rf_close(engine);
 *     }
 *
 * Errors    0 or a negative code: below 200 an errno, from 200 Apache IoTDB's status, from 10,000
 *           our own (enum rf_code). rf_strerror() gives a text; a struct rf_error, where a call
 *           takes one (NULL is allowed), the place as well. RF_CODE_UNKNOWN and RF_CODE_WAL_ERROR
 *           mean that the outcome is not known: the same cells may be written again.
 * Threads   every call may come from any thread, at any time until rf_close() begins, except: one
 *           struct rf_cursor and one struct rf_queue belong to one thread at a time, and nothing
 *           may run beside rf_close(). Our own threads block all signals. After fork() the child
 *           gets -RF_CODE_FORKED from every call but rf_close(), which frees memory only.
 *           pthread_cancel() of a host's thread takes effect between our calls.
 * Ownership what goes in is borrowed for the call alone; what comes out says how long it lasts.
 * Sizes     structs that begin with `size` are filled by their _init call; fields are only ever
 *           added at the end, so an old program runs with a new library.
 * Text      names are UTF-8 without control characters, 1..255 bytes, NUL-terminated. */
#ifndef RINGFENCE_RINGFENCE_H
#define RINGFENCE_RINGFENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RF_API       __attribute__((visibility("default")))
#define RF_API_CHECK __attribute__((visibility("default"), warn_unused_result))
#else
#define RF_API
#define RF_API_CHECK
#endif

#define RF_VERSION_MAJOR 0
#define RF_VERSION_MINOR 1
#define RF_VERSION_PATCH 0

/* "0.1.0"; static. */
RF_API const char *rf_version(void);

/* ---- errors ---- */

enum rf_code {
    RF_CODE_EXECUTE_ERROR = 301,
    RF_CODE_INTERNAL = 305,
    RF_CODE_NO_DATABASE = 500,
    RF_CODE_METADATA_ERROR = 507,
    RF_CODE_LEASE_FENCED = 535,       /* reads: the lease has ended */
    RF_CODE_LEASE_FENCED_RETRY = 536, /* writes: the lease has ended, nothing was written */
    RF_CODE_NO_TABLE = 550,
    RF_CODE_TABLE_EXISTS = 551,
    RF_CODE_READ_ONLY = 600,
    RF_CODE_WRITE_REJECT = 606, /* no room within the wait */
    RF_CODE_OUT_OF_TTL = 607,
    RF_CODE_WAL_ERROR = 610, /* the log failed: outcome not known */
    RF_CODE_DISK_FULL = 611,
    RF_CODE_TYPE_MISMATCH = 614,
    RF_CODE_NO_COLUMN = 616,
    RF_CODE_COLUMN_EXISTS = 617,
    RF_CODE_ENTRY_TOO_LARGE = 620,
    RF_CODE_SEMANTIC_ERROR = 701,
    RF_CODE_UNKNOWN = 10000, /* a wait ran out: outcome not known */
    RF_CODE_SCHEMA_CHANGED = 10001,
    RF_CODE_CORRUPT = 10002,
    RF_CODE_NOT_OURS = 10003,
    RF_CODE_IN_USE = 10004,
    RF_CODE_NEWER_VERSION = 10005,
    RF_CODE_WRONG_CATALOG = 10006,
    RF_CODE_BAD_NAME = 10007,
    RF_CODE_BAD_TABLET = 10008,
    RF_CODE_LIMIT = 10009,
    RF_CODE_FORKED = 10010,
    RF_CODE_CLOSING = 10011,
    RF_CODE_SPANS_REGIONS = 10012,
    RF_CODE_LATCHED = 10013, /* a lane stopped after a failed write: rf_resume first */
    RF_CODE_UNFINISHED = 10014
};

/* A text for any returned code, also errno's; never NULL; static. */
RF_API const char *rf_strerror(int code);
/* "NO_TABLE", "ENOSPC", ...; never NULL; static. */
RF_API const char *rf_code_name(int code);
/* Whether the same call may succeed later: 1, or 0 when it must not be repeated unchanged. */
RF_API int rf_code_is_retryable(int code);

#define RF_NONE UINT32_MAX

/* Where and why a call failed. Filled only on failure. */
struct rf_error {
    int code;        /* as returned */
    uint32_t tablet; /* index in the call's tablets, or RF_NONE */
    uint32_t column; /* index in that tablet's columns, or RF_NONE */
    uint32_t row;    /* index in that tablet's rows, or RF_NONE */
    char text[496];  /* one line: what is wrong, with names, numbers, file and offset */
};

/* ---- opening ---- */

enum rf_sync {
    RF_SYNC_ALWAYS, /* acknowledged = on stable storage */
    RF_SYNC_ASYNC,  /* acknowledged = in memory, written behind: a crash may lose the newest ones,
                       never one from the middle */
    RF_SYNC_OFF     /* written at flush, close, or when the log needs the memory */
};
enum rf_time_unit { RF_TIME_NS, RF_TIME_US, RF_TIME_MS };
enum rf_backend { RF_BACKEND_AUTO, RF_BACKEND_URING, RF_BACKEND_POSIX };
enum rf_lease_mode {
    RF_LEASE_EMBEDDED, /* our plane thread grants and holds: a stuck plane fences the writers */
    RF_LEASE_EXTERNAL, /* the host feeds it by rf_lease_grant(); starts fenced */
    RF_LEASE_OFF       /* never fenced */
};
enum rf_open_flags {
    RF_CREATE = 1,    /* make the directory when it is missing */
    RF_READ_ONLY = 2, /* write nothing; works on a read-only mount */
    RF_EXCLUSIVE = 4  /* with RF_CREATE: -EEXIST when the directory holds an engine already */
};
enum rf_log_level { RF_LOG_DEBUG, RF_LOG_INFO, RF_LOG_WARN, RF_LOG_ERROR, RF_LOG_OFF };

#define RF_STAGES 14
struct rf_trace;

/* Defaults stand behind the semicolons. */
struct rf_options {
    size_t size;
    uint32_t flags; /* enum rf_open_flags; RF_CREATE */

    /* Fixed when the directory is made; what the directory has counts from then on. */
    uint64_t segment_bytes;      /* power of two, 1 MiB..1 GiB; 64 MiB */
    uint32_t lanes;              /* logs side by side, 1..16; 1 */
    uint32_t regions;            /* units of placement, lanes..1024; 1. A batch lies in one */
    int64_t partition_interval;  /* time units; 0 stands for 7 days */
    enum rf_time_unit time_unit; /* ns */

    /* For this opening. */
    enum rf_sync sync;           /* ALWAYS */
    uint64_t memory_bytes;       /* of segment images, arenas included; 0: 1 GiB or a quarter of the
                                    machine, whichever is less. At least four segments a lane */
    uint64_t log_bytes_max;      /* of all segments on disk; 0: as many as memory_bytes holds */
    int64_t write_wait_ms;       /* longest wait for room, a lease, new columns; 10,000 */
    int64_t durable_wait_ms;     /* longest wait for the disk, then RF_CODE_UNKNOWN; 60,000 */
    int64_t lock_wait_ms;        /* longest wait for the directory; 30,000; RF_READ_ONLY: 1,000 */
    enum rf_backend backend;     /* of the log's writes; AUTO */
    uint32_t queue_depth;        /* writes in flight a lane, 1..64; 4 */
    bool buffered;               /* through the page cache instead of direct I/O; false */
    bool auto_create;            /* tables, columns, series appear with the first write; true */
    bool wait_prepared;          /* open returns when every image and segment is ready; false */
    bool stages;                 /* time the stages of the write path, see struct rf_trace; false */
    enum rf_lease_mode lease;    /* EMBEDDED */
    int64_t lease_ms;            /* T of an embedded lease; 20,000 */
    enum rf_log_level log_level; /* WARN */
    /* Events, from any thread, or NULL for stderr. It must not call back into the engine. */
    void (*log)(void *ctx, enum rf_log_level level, const char *event, const char *fields);
    void *log_ctx;
    /* With stages: called once for each batch that was decided, when its answer is collected, on the
     * thread that collects it (in rf_write, rf_write_batch or rf_completions). Several threads may
     * be in it at a time. It must not call back into the engine; NULL: none. */
    void (*trace)(void *ctx, const struct rf_trace *trace);
    void *trace_ctx;
};

struct rf_engine;

RF_API void rf_options_init(struct rf_options *options);

/* Opens, or makes, the engine in directory dir; replays its log. options NULL: the defaults.
 *
 * Errors  -ENOENT (missing, no RF_CREATE), -EACCES, -ENOSPC, -ENOMEM, -EROFS, -EINVAL (an option
 *         out of range, named), RF_CODE_NOT_OURS, _IN_USE, _NEWER_VERSION, _CORRUPT (file, offset,
 *         expected, found: see `ringfence salvage`), _WRONG_CATALOG, _UNFINISHED (read-only)
 * Durable what open found is synced before it is trusted: no later power failure takes it back */
RF_API_CHECK int rf_open(const char *dir, const struct rf_options *options,
                         struct rf_engine **engine_out, struct rf_error *error_out);

/* Flushes, writes the close record, ends all threads, frees everything. Cursors and queues must be
 * closed before. Returns 0, or the first error of flushing; the engine is gone in any case. When the
 * disk does not answer for a minute, memory, threads and locks that its late answer may still need
 * are left until the process ends. */
RF_API int rf_close(struct rf_engine *engine);

/* ---- tablets ---- */

/* Apache IoTDB's type codes. */
enum rf_type {
    RF_BOOLEAN = 0, /* uint8_t, 0 or 1 */
    RF_INT32 = 1,
    RF_INT64 = 2,
    RF_FLOAT = 3,
    RF_DOUBLE = 4,
    RF_TEXT = 5,
    RF_TIMESTAMP = 8, /* int64_t */
    RF_DATE = 9,      /* int32_t, yyyymmdd */
    RF_BLOB = 10,
    RF_STRING = 11
};
enum rf_category { RF_TAG = 0, RF_FIELD = 1 };

struct rf_column {
    const char *name;
    enum rf_type type;
    enum rf_category category; /* tree model: RF_FIELD */
    /* rows elements of the type; TEXT, STRING, BLOB: the bytes of all rows, one after another.
     * They need no alignment. A null row's element has no meaning; no array at all (values and
     * offsets NULL) stands for null in every row. */
    const void *values;
    const uint32_t *offsets; /* TEXT, STRING, BLOB: rows + 1 positions in values, never falling */
    const uint8_t *nulls;    /* bit i (byte i / 8, bit i % 8) set: row i is null. NULL: none is */
};

/* Rows of one table (table model: the TAG columns say whose they are) or of one device (tree model:
 * path "root.db.d1": database root.db, device d1). Exactly one of table and device is set. */
struct rf_tablet {
    size_t size; /* sizeof(struct rf_tablet) */
    const char *table;
    const char *device;
    uint32_t rows;        /* 1..2^24 */
    uint32_t columns;     /* 0..65,535; their names differ */
    const int64_t *times; /* any order, any int64; of equal (device, time) the later row wins */
    const struct rf_column *column;
};

/* Writes one tablet, whole or not at all, and waits until it is acknowledged: visible to every scan
 * that begins later, final, and with RF_SYNC_ALWAYS on stable storage.
 *
 * A tablet is checked in full first; a bad one leaves no trace. A lapsed lease and a full log are
 * waited for up to write_wait_ms, then 536 or 606.
 * Errors  RF_CODE_BAD_TABLET, _BAD_NAME, _LIMIT, _TYPE_MISMATCH, _NO_TABLE, _NO_COLUMN,
 *         _SEMANTIC_ERROR (the table is being dropped), _OUT_OF_TTL, _ENTRY_TOO_LARGE,
 *         _WRITE_REJECT, _LEASE_FENCED_RETRY, _DISK_FULL, _READ_ONLY, _SPANS_REGIONS, _LATCHED;
 *         outcome not known: _WAL_ERROR, _UNKNOWN */
RF_API_CHECK int rf_write(struct rf_engine *engine, const struct rf_tablet *tablet,
                          struct rf_error *error_out);

/* Several tablets, 1..65,535, as one atomic batch: all their devices must lie in one region. */
RF_API_CHECK int rf_write_batch(struct rf_engine *engine, const struct rf_tablet *tablets,
                                uint32_t tablet_count, struct rf_error *error_out);

/* ---- asynchronous writes ---- */

struct rf_queue; /* collects completions; one thread at a time */

RF_API_CHECK int rf_queue_open(struct rf_engine *engine, struct rf_queue **queue_out);
/* Waits for all writes begun on it, at most durable_wait_ms; their completions are dropped. */
RF_API void rf_queue_close(struct rf_queue *queue);

struct rf_completion {
    void *user;
    int code; /* as rf_write returns; 536 and RF_CODE_SCHEMA_CHANGED: nothing was stored, write it
                 again (rf_write does so by itself) */
};

/* Begins a batch: checks and copies it before it returns, so the caller's columns are free then,
 * and never waits for the device, but for tables and columns that it is the first to name (up to
 * write_wait_ms). Waits for room at most wait_ms (0: RF_CODE_WRITE_REJECT at once). As many batches
 * as rf_options.lanes * 4,096 may be under way or uncollected, of all threads together.
 *
 * done, user  done(user, code) runs inside rf_completions(), on its caller's thread; may be NULL
 * Returns     0: a completion will come. Else an error of rf_write, and none will */
RF_API_CHECK int rf_write_async(struct rf_queue *queue, const struct rf_tablet *tablets,
                                uint32_t tablet_count, int64_t wait_ms,
                                void (*done)(void *user, int code), void *user,
                                struct rf_error *error_out);

/* Collects up to max completions in the order in which they came, waiting at most timeout_ms for
 * the first (0: not at all; negative: without limit; at once when nothing is in flight).
 * completions_out may be NULL (callbacks alone). Returns how many, or a negative code. */
RF_API int rf_completions(struct rf_queue *queue, struct rf_completion *completions_out,
                          uint32_t max, int64_t timeout_ms);

/* An eventfd of the queue's, readable while completions wait; for epoll. Neither read nor close it:
 * rf_completions clears it. */
RF_API int rf_queue_eventfd(struct rf_queue *queue);

/* Batches begun and not yet collected. */
RF_API uint32_t rf_queue_in_flight(const struct rf_queue *queue);

/* ---- reading ---- */

struct rf_tag_filter {
    const char *name;
    const char *value; /* NULL: the tag is null */
};

struct rf_scan_options {
    size_t size;
    const char *table;                /* exactly one of table and device */
    const char *device;               /* tree model, as in a tablet */
    const struct rf_tag_filter *tags; /* all must match */
    uint32_t tag_count;
    const char *const *columns; /* fields asked for, in this order; NULL: all */
    uint32_t column_count;
    int64_t time_from; /* inclusive; INT64_MIN */
    int64_t time_to;   /* inclusive; INT64_MAX */
    uint64_t limit;    /* rows; UINT64_MAX */
    bool descending;   /* newest first within each device; false */
};

struct rf_cursor;

RF_API void rf_scan_options_init(struct rf_scan_options *options);

/* A scan over what is acknowledged now: one snapshot, in which a batch is whole or absent, however
 * long the scan takes; but a cursor that is left alone for 2 s while its segments have been trimmed
 * and are needed goes on from a newer snapshot. Rows come by device key, then time. Writers never
 * wait for it.
 * Errors  RF_CODE_NO_TABLE, _NO_DATABASE, _NO_COLUMN, _BAD_NAME, _LEASE_FENCED, _LIMIT (1,024
 *         cursors are open), -EINVAL, -ENOMEM */
RF_API_CHECK int rf_scan_open(struct rf_engine *engine, const struct rf_scan_options *options,
                              struct rf_cursor **cursor_out, struct rf_error *error_out);

/* The next rows, as a tablet: TAG columns first, then the fields asked for. Lent until the next
 * call on this cursor; TEXT, STRING and BLOB of several rows take 4 MiB at most. Returns 1 (rows), 0
 * (the end), or a negative code: RF_CODE_LEASE_FENCED, RF_CODE_SCHEMA_CHANGED, -ENOMEM. An error
 * ends the scan: each later call returns it again. */
RF_API_CHECK int rf_scan_next(struct rf_cursor *cursor, struct rf_tablet *rows_out);
RF_API void rf_scan_close(struct rf_cursor *cursor); /* NULL is allowed */

/* Rows that a scan with these options would return. */
RF_API_CHECK int rf_count(struct rf_engine *engine, const struct rf_scan_options *options,
                          uint64_t *rows_out, struct rf_error *error_out);

/* ---- deleting ---- */

struct rf_delete_options {
    size_t size;
    const char *table; /* exactly one of table and device */
    const char *device;
    const struct rf_tag_filter *tags; /* the devices that match now */
    uint32_t tag_count;
    const char *const *columns; /* NULL: whole rows */
    uint32_t column_count;
    int64_t time_from; /* inclusive; INT64_MIN */
    int64_t time_to;   /* inclusive; INT64_MAX */
};

RF_API void rf_delete_options_init(struct rf_delete_options *options);

/* Deletes what was written before; what is written later in the same range stays. Logged and
 * acknowledged as a batch is, region by region: in each it is whole or absent; after an error or a
 * crash it may be there in some, and may be repeated. Errors as rf_write. */
RF_API_CHECK int rf_delete(struct rf_engine *engine, const struct rf_delete_options *options,
                           struct rf_error *error_out);

/* ---- tables and series ---- */

struct rf_column_def {
    const char *name;
    enum rf_type type; /* TAG: RF_STRING */
    enum rf_category category;
};

/* Each returns once the change is committed and no batch can be decided under the older schema.
 * RF_CODE_UNKNOWN: the disk took longer than durable_wait_ms; the change may come yet.
 * ttl: in time units; 0 or less: none. */
RF_API_CHECK int rf_table_create(struct rf_engine *engine, const char *table,
                                 const struct rf_column_def *columns, uint32_t column_count,
                                 int64_t ttl, struct rf_error *error_out);
RF_API_CHECK int rf_table_add_columns(struct rf_engine *engine, const char *table,
                                      const struct rf_column_def *columns, uint32_t column_count,
                                      struct rf_error *error_out);
/* Drops a FIELD column; a TAG column can't be dropped. */
RF_API_CHECK int rf_table_drop_column(struct rf_engine *engine, const char *table,
                                      const char *column, struct rf_error *error_out);
RF_API_CHECK int rf_table_rename_column(struct rf_engine *engine, const char *table,
                                        const char *from, const char *to,
                                        struct rf_error *error_out);
RF_API_CHECK int rf_table_set_ttl(struct rf_engine *engine, const char *table, int64_t ttl,
                                  struct rf_error *error_out);
RF_API_CHECK int rf_table_drop(struct rf_engine *engine, const char *table,
                               struct rf_error *error_out);
/* Tree model: one measurement of one device; its database is made when it is missing. */
RF_API_CHECK int rf_series_create(struct rf_engine *engine, const char *device,
                                  const char *measurement, enum rf_type type,
                                  struct rf_error *error_out);
RF_API_CHECK int rf_series_drop(struct rf_engine *engine, const char *device,
                                const char *measurement, struct rf_error *error_out);

struct rf_table_info {
    const char *name;
    bool tree; /* a database of the tree model */
    int64_t ttl;
    uint64_t incarnation;
    uint32_t column_count;
    const struct rf_column_def *columns; /* in order of creation; a tree database has none */
};
/* Calls each(ctx, info) for every table by name; info is lent for the call. A non-zero return stops
 * and is returned. */
RF_API int rf_tables(struct rf_engine *engine,
                     int (*each)(void *ctx, const struct rf_table_info *info), void *ctx);

/* ---- the lease, fed by the host (RF_LEASE_EXTERNAL) ---- */

struct rf_lease_request {
    int64_t asked_boot_ns; /* CLOCK_BOOTTIME before the request left */
    uint64_t view;
    uint64_t boot;
};

/* Stamps clock, view and boot. Call it before asking the coordinator. */
RF_API_CHECK int rf_lease_ask(struct rf_engine *engine, struct rf_lease_request *request_out);
/* The coordinator granted ttl_ms to this request: the deadline becomes the later of what it is and
 * asked + ttl. -EINVAL: ttl 0 or overflow, from the future, another boot; -ESTALE: an older view.
 */
RF_API_CHECK int rf_lease_grant(struct rf_engine *engine, const struct rf_lease_request *request,
                                int64_t ttl_ms);
/* Ends the lease now. Returns when nothing undecided can still be acknowledged under it. */
RF_API_CHECK int rf_lease_fence(struct rf_engine *engine);
/* Comes back after the host has reloaded what it trusts: a grant that also ends a fencing. */
RF_API_CHECK int rf_lease_resume(struct rf_engine *engine, const struct rf_lease_request *request,
                                 int64_t ttl_ms);

/* ---- upkeep ---- */

/* Everything acknowledged before is on stable storage when it returns 0, in every sync mode. */
RF_API_CHECK int rf_flush(struct rf_engine *engine);

/* After a failed write or sync of the log stopped a lane: goes on in a new segment on healthy
 * storage. What was undecided is absent then. 0 when nothing was stopped. */
RF_API_CHECK int rf_resume(struct rf_engine *engine, struct rf_error *error_out);

struct rf_trim_options {
    size_t size;
    uint64_t before_position; /* of each lane's log; 0: not by position */
    bool by_time;
    int64_t before_time; /* rows below it may go */
};
RF_API void rf_trim_options_init(struct rf_trim_options *options);
/* Frees whole segments from the oldest end whose every row is below the position or the time.
 * position_out (may be NULL): the position reached, in lane 0. */
RF_API_CHECK int rf_trim(struct rf_engine *engine, const struct rf_trim_options *options,
                         uint64_t *position_out);

/* Stages of the write path, in order: validate, order, split, reserve, lease, copy, checksum,
 * publish, queue, submit, device, decide, visible, wake. NULL from RF_STAGES on. */
RF_API const char *rf_stage_name(uint32_t stage);

/* One batch's way, for rf_options.trace; lent for the call. The stages follow one another without a
 * gap: their sum is the time from the call that began the batch to its answer being collected. Two
 * are told as if they were one piece each, though they take turns fragment by fragment: lease and
 * copy. lease also has the wait for a lapsed lease and what was tried before it; validate the making
 * of new tables and columns; wake the time until the caller came back for the answer. */
struct rf_trace {
    size_t size; /* of this struct, as the library has it */
    int code;    /* as rf_write returns */
    uint32_t lane;
    uint64_t position; /* in the lane's log */
    uint64_t rows, points, bytes;
    int64_t start_ns; /* CLOCK_MONOTONIC */
    int64_t stage_ns[RF_STAGES];
};

struct rf_latency {
    uint64_t count;
    uint64_t p50_ns, p90_ns, p99_ns, p999_ns, p9999_ns, max_ns;
    double mean_ns;
};

struct rf_stats {
    size_t size;                           /* set by the caller */
    uint64_t batches, rows, points, bytes; /* acknowledged since open */
    uint64_t rejected, fenced, unknown;    /* answers of 606, of 536, and unknown */
    uint64_t device_writes, device_syncs, device_bytes;
    uint64_t log_bytes, log_bytes_max, segments, segments_free;
    uint64_t segments_ready; /* of segments_free: a writer may go on in them at once */
    /* Segments that a writer came to before they were ready, though the log had room for them. */
    uint64_t segments_late;
    uint64_t room_waits; /* batches that found no room at first: of slots, a segment, or the log */
    uint64_t memory_bytes; /* mapped for images and arenas */
    uint64_t heap_bytes;   /* in use, as the allocator rounds them, by the library */
    uint64_t devices, tables, columns;
    uint64_t position;         /* lane 0: the visible end */
    uint64_t durable_position; /* lane 0 */
    uint64_t oldest_position;  /* lane 0 */
    uint64_t schema_version, lease_epoch;
    int64_t lease_left_ms; /* INT64_MAX: no end */
    bool fenced_now, latched;
    const char *backend;                /* "uring", "posix"; static */
    struct rf_latency write;            /* from call to decision, of what was acknowledged */
    struct rf_latency stage[RF_STAGES]; /* counts are 0 unless rf_options.stages */
    /* What opening found. */
    uint64_t replayed_batches, replayed_bytes, discarded_records, replay_ns, prepared_ns;
    bool opened_clean;
    /* What the directory was made with. */
    enum rf_time_unit time_unit;
    uint32_t lanes, regions;
    uint64_t segment_bytes;
    int64_t partition_interval; /* time units */
};
RF_API_CHECK int rf_stats(struct rf_engine *engine, struct rf_stats *stats_out);

/* ---- whole directories ---- */

enum rf_verdict { RF_VERDICT_CLEAN, RF_VERDICT_CUT, RF_VERDICT_CORRUPT, RF_VERDICT_UNFINISHED };

/* Reads everything, writes nothing. fault(ctx, text) is called for each fault: file, offset,
 * expected, found. Returns 0 with *verdict_out, or an error (not ours, in use, ...). */
RF_API_CHECK int rf_verify(const char *dir, int64_t lock_wait_ms,
                           void (*fault)(void *ctx, const char *text), void *ctx,
                           enum rf_verdict *verdict_out, struct rf_error *error_out);

struct rf_salvage_report {
    size_t size; /* set by the caller */
    uint64_t batches, rows, bytes_lost, places;
};
/* Copies every whole record outside damage into a new directory `to`, which must not exist, and
 * which opens clean. lost(ctx, text) names what could not be saved. `from` is only read. */
RF_API_CHECK int rf_salvage(const char *from, const char *to,
                            void (*lost)(void *ctx, const char *text), void *ctx,
                            struct rf_salvage_report *report_out, struct rf_error *error_out);

#ifdef __cplusplus
}
#endif

#endif
