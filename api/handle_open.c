/* Opening: the options, the directory, the catalog, the log, in this order; closing backwards. */
#include "api/handle.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CATALOG_NAME "catalog.db"

/* ---- options ---- */

void rf_options_init(struct rf_options *o)
{
    *o = (struct rf_options){
        .size = sizeof *o,
        .flags = RF_CREATE,
        .segment_bytes = UINT64_C(64) << 20,
        .lanes = 1,
        .regions = 1,
        .time_unit = RF_TIME_NS,
        .sync = RF_SYNC_ALWAYS,
        .write_wait_ms = 10000,
        .durable_wait_ms = 60000,
        .lock_wait_ms = -1,
        .backend = RF_BACKEND_AUTO,
        .queue_depth = 4,
        .auto_create = true,
        .lease = RF_LEASE_EMBEDDED,
        .lease_ms = 20000,
        .log_level = RF_LOG_WARN,
    };
}

static uint64_t default_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t quarter = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 4 : 0;
    uint64_t gib = UINT64_C(1) << 30;
    return quarter == 0 || quarter > gib ? gib : quarter;
}

struct bound {
    const char *name;
    int64_t value, min, max;
};

static int check_options(const struct rf_options *o, struct err_msg *msg)
{
    const struct bound bounds[] = {
        {"segment_bytes", (int64_t)o->segment_bytes, 1 << 20, 1 << 30},
        {"lanes", o->lanes, 1, WAL_LANES_MAX},
        {"regions", o->regions, o->lanes, 1024},
        {"partition_interval", o->partition_interval, 0, INT64_MAX},
        {"time_unit", (int64_t)o->time_unit, 0, RF_TIME_MS},
        {"sync", (int64_t)o->sync, 0, RF_SYNC_OFF},
        {"backend", (int64_t)o->backend, 0, RF_BACKEND_POSIX},
        {"queue_depth", o->queue_depth, 1, 64},
        {"lease", (int64_t)o->lease, 0, RF_LEASE_OFF},
        {"lease_ms", o->lease_ms, 100, INT64_C(86400000)},
        {"log_level", (int64_t)o->log_level, 0, RF_LOG_OFF},
        {"write_wait_ms", o->write_wait_ms, 0, INT64_MAX / 1000000},
        {"durable_wait_ms", o->durable_wait_ms, 1, INT64_MAX / 1000000},
        {"lock_wait_ms", o->lock_wait_ms, -1, INT64_MAX / 1000000},
    };
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        if (bounds[i].value < bounds[i].min || bounds[i].value > bounds[i].max)
            return err_set(msg, -EINVAL,
                           "options: %s is %" PRId64 ", allowed are %" PRId64 "..%" PRId64,
                           bounds[i].name, bounds[i].value, bounds[i].min, bounds[i].max);
    if ((o->segment_bytes & (o->segment_bytes - 1)) != 0)
        return err_set(msg, -EINVAL, "options: segment_bytes is %" PRIu64 ", not a power of two",
                       o->segment_bytes);
    if ((o->flags & ~7u) != 0) return err_set(msg, -EINVAL, "options: flags is %" PRIu32, o->flags);
    return 0;
}

static int take_options(struct rf_engine *h, const struct rf_options *given, struct err_msg *msg)
{
    rf_options_init(&h->options);
    if (given != NULL) {
        if (given->size < sizeof(size_t) || given->size > 4096)
            return err_set(msg, -EINVAL, "options: size is %zu: use rf_options_init", given->size);
        size_t n = given->size < sizeof *given ? given->size : sizeof *given;
        memcpy(&h->options, given, n);
        h->options.size = sizeof h->options;
    }
    if (h->options.memory_bytes == 0) h->options.memory_bytes = default_memory();
    h->log = (struct log){
        .level = (enum log_level)h->options.log_level,
        .callback =
            (void (*)(void *, int, const char *, const char *))(void (*)(void))h->options.log,
        .ctx = h->options.log_ctx,
    };
    return check_options(&h->options, msg);
}

/* ---- the directory ---- */

static int open_env(struct rf_engine *h, const char *dir, struct err_msg *msg)
{
    if (handle_seams.env != NULL) {
        h->env = handle_seams.env;
        return 0;
    }
    bool create = (h->options.flags & RF_CREATE) != 0 && (h->options.flags & RF_READ_ONLY) == 0;
    struct stat st;
    if (stat(dir, &st) != 0) {
        int error = errno;
        if (error != ENOENT || !create)
            return err_set(msg, -error, "%s: %s", dir, err_text(-error));
    } else if (!S_ISDIR(st.st_mode)) {
        return err_set(msg, -RFE_NOT_OURS, "%s: not a directory", dir);
    }
    int rc = io_env_open(dir, &h->env);
    if (rc != 0) return err_set(msg, rc, "%s: %s", dir, err_text(rc));
    h->env_is_ours = true;
    if (create) {
        rc = io_mkdir(h->env, ".");
        if (rc != 0 && rc != -EEXIST) return err_set(msg, rc, "%s: %s", dir, err_text(rc));
    }
    return 0;
}

/* ---- the catalog and its plane ---- */

static bool view_is_closed(void *ctx, uint64_t view)
{
    struct rf_engine *h = ctx;
    struct engine *e = atomic_load(&h->engine);
    return e == NULL || engine_view_is_closed(e, view);
}

static int open_plane(struct rf_engine *h, const struct wal_manifest *m, const char *path,
                      bool create, struct err_msg *msg)
{
    bool read_only = (h->options.flags & RF_READ_ONLY) != 0;
    struct plane_options o = {
        .catalog_path = path,
        .vfs = read_only ? NULL : handle_seams.vfs, /* a copy lies on the real disk */
        .create = create,
        .read_only = read_only,
        .generation = m->catalog_generation,
        .version_min = m->version_obeyed,
        .lease = read_only ? PLANE_LEASE_OFF : (enum plane_lease)h->options.lease,
        .lease_ns = h->options.lease_ms * 1000000,
        .commit_wait_ns = h->options.durable_wait_ms * 1000000,
        .clock = &h->clock,
        .log = &h->log,
        .schema = h->schema,
        .words = &h->words,
        .view_is_closed = view_is_closed,
        .ctx = h,
    };
    memcpy(o.uuid, m->uuid, sizeof o.uuid);
    return plane_open(&o, &h->plane, msg);
}

static int catalog_path(const char *dir, char *out, size_t out_bytes)
{
    char real[PATH_MAX];
    if (handle_seams.env != NULL) { /* the double has no folders above its root */
        memcpy(out, CATALOG_NAME, sizeof CATALOG_NAME);
        return 0;
    }
    if (realpath(dir, real) == NULL) return -errno;
    int n = snprintf(out, out_bytes, "%s/" CATALOG_NAME, real);
    return n < 0 || (size_t)n >= out_bytes ? -ENAMETOOLONG : 0;
}

struct opening {
    struct rf_engine *h;
    const char *dir;
    struct err_msg *msg;
};

/* Inside a creation, before its manifest: leftovers of an unfinished one go, the catalog is made. */
static int make_catalog(void *ctx, struct wal_manifest *m)
{
    struct opening *o = ctx;
    static const char *const old[] = {CATALOG_NAME, CATALOG_NAME "-journal"};
    char path[PATH_MAX];
    for (int i = 0; i < 2; i++) {
        int rc = io_unlink(o->h->env, old[i]);
        if (rc != 0 && rc != -ENOENT) return rc;
    }
    m->catalog_generation = 1;
    m->version_obeyed = 0;
    int rc = catalog_path(o->dir, path, sizeof path);
    if (rc != 0) return rc;
    if (o->h->plane != NULL) { /* a creation that was tried again */
        plane_close(o->h->plane);
        o->h->plane = NULL;
    }
    return open_plane(o->h, m, path, true, o->msg);
}

static int open_existing_catalog(struct rf_engine *h, const char *dir, struct err_msg *msg)
{
    char path[PATH_MAX];
    if ((h->options.flags & RF_READ_ONLY) != 0) {
        char *copy;
        int rc = catalog_copy_make(h->env, &copy, msg);
        if (rc != 0) return rc;
        rc = open_plane(h, &h->dir.manifest, copy, false, msg);
        catalog_copy_remove(copy);
        return rc;
    }
    int rc = catalog_path(dir, path, sizeof path);
    if (rc != 0) return err_set(msg, rc, "%s: %s", dir, err_text(rc));
    return open_plane(h, &h->dir.manifest, path, false, msg);
}

static int open_dir(struct opening *o)
{
    struct rf_engine *h = o->h;
    const struct rf_options *opt = &h->options;
    static const int64_t unit_ns[] = {1, 1000, 1000000};
    int64_t week = INT64_C(7) * 86400 * 1000000000 / unit_ns[opt->time_unit];
    struct wal_dir_options d = {
        .env = h->env,
        .read_only = (opt->flags & RF_READ_ONLY) != 0,
        .create = (opt->flags & RF_CREATE) != 0,
        .wait_ns = opt->lock_wait_ms < 0 ? -1 : opt->lock_wait_ms * 1000000,
        .log = &h->log,
        .fresh = {.segment_bytes = opt->segment_bytes,
                  .lanes = opt->lanes,
                  .regions = opt->regions,
                  .partition_interval =
                      opt->partition_interval != 0 ? opt->partition_interval : week,
                  .time_unit = (enum wal_time_unit)opt->time_unit,
                  .before_manifest = make_catalog,
                  .ctx = o},
    };
    struct err_msg why = {.code = 0};
    int rc = wal_dir_open(&d, &why, &h->dir);
    if (rc != 0)
        return err_set(o->msg, rc, "%s: %s", o->dir, why.code != 0 ? why.text : err_text(rc));
    h->dir_open = true;
    if ((opt->flags & RF_EXCLUSIVE) != 0 && !h->dir.created)
        return err_set(o->msg, -EEXIST, "%s: an engine is there already", o->dir);
    return h->plane != NULL ? 0 : open_existing_catalog(h, o->dir, o->msg);
}

/* ---- the engine ---- */

static int create_missing(void *ctx, const struct engine_want *wants, uint32_t n, int64_t wait_ns,
                          struct err_msg *msg)
{
    struct rf_engine *h = ctx;
    struct plane_change *changes = mem_zalloc_array(n, sizeof *changes);
    size_t column_count = 0;
    for (uint32_t i = 0; i < n; i++)
        column_count += wants[i].column_count;
    struct plane_column *columns = mem_zalloc_array(column_count + 1, sizeof *columns);
    int rc = -ENOMEM;
    struct plane_column *at = columns;
    if (changes == NULL || columns == NULL) goto done;
    for (uint32_t i = 0; i < n; i++) {
        const struct engine_want *w = &wants[i];
        changes[i] = (struct plane_change){
            .kind = w->tree ? PLANE_CREATE_SERIES : PLANE_ADD_COLUMNS,
            .if_missing = true,
            .table = w->table,
            .table_bytes = w->table_bytes,
            .tree = w->tree,
            .key = w->key,
            .key_bytes = w->key_bytes,
            .columns = at,
            .column_count = w->column_count,
        };
        for (uint32_t c = 0; c < w->column_count; c++)
            *at++ = (struct plane_column){.name = w->columns[c].name,
                                          .name_bytes = w->columns[c].name_bytes,
                                          .type = w->columns[c].type,
                                          .category = w->columns[c].category};
    }
    rc = plane_change(h->plane, changes, n, wait_ns, msg);
done:
    mem_free(columns);
    mem_free(changes);
    return rc;
}

static uint64_t newest_version(void *ctx)
{
    const struct rf_engine *h = ctx;
    return plane_version(h->plane);
}

static int open_engine(struct rf_engine *h, struct err_msg *msg)
{
    const struct rf_options *opt = &h->options;
    struct engine_options o = {
        .dir = &h->dir,
        .schema = h->schema,
        .words = &h->words,
        .clock = &h->clock,
        .log = &h->log,
        .mode = (enum wal_mode)opt->sync,
        .backend = (enum io_backend)opt->backend,
        .buffered = opt->buffered,
        .auto_create = opt->auto_create,
        .stages = opt->stages,
        .read_only = (opt->flags & RF_READ_ONLY) != 0,
        .depth = opt->queue_depth,
        .memory_bytes = opt->memory_bytes,
        .log_bytes_max = opt->log_bytes_max,
        .write_wait_ns = opt->write_wait_ms * 1000000,
        .durable_wait_ns = opt->durable_wait_ms * 1000000,
        .trace = opt->trace,
        .trace_ctx = opt->trace_ctx,
        .close_wait_ns = handle_seams.close_wait_ns,
        .hooks = {.ctx = h, .create = create_missing, .version = newest_version},
    };
    struct engine *engine;
    int rc = engine_create(&o, &engine, msg);
    if (rc != 0) return rc;
    rc = engine_start(engine, msg);
    h->started = rc == 0;
    atomic_store(&h->engine, engine); /* what failed half way has lanes to be closed, too */
    if (rc != 0) return rc;
    /* After a crash the catalog is ahead of what the last trim or close had told the manifest. */
    rc = engine_save_version(engine);
    if (rc != 0) return err_set(msg, rc, "the manifest could not be written: %s", err_text(rc));
    if (opt->wait_prepared && !o.read_only) rc = engine_wait_prepared(engine);
    return rc == 0 ? 0 : err_set(msg, rc, "segments could not be made ready: %s", err_text(rc));
}

/* ---- all of it ---- */

int handle_open(const char *dir, const struct rf_options *options, struct rf_engine **handle_out,
                struct err_msg *msg)
{
    if (dir == NULL || dir[0] == '\0') return err_set(msg, -EINVAL, "the directory has no name");
    struct rf_engine *h = mem_alloc_aligned(RF_CACHE_LINE, sizeof *h);
    if (h == NULL) return err_set(msg, -ENOMEM, "out of memory");
    memset(h, 0, sizeof *h);
    h->magic = HANDLE_MAGIC;
    h->fork_generation = handle_fork_generation();
    if (handle_seams.clock != NULL) h->clock = *handle_seams.clock;
    struct opening o = {.h = h, .dir = dir, .msg = msg};
    int rc = take_options(h, options, msg);
    if (rc == 0) rc = schema_create(&h->schema);
    if (rc == 0) rc = open_env(h, dir, msg);
    if (rc == 0) rc = open_dir(&o);
    if (rc == 0) rc = open_engine(h, msg);
    if (rc != 0) {
        (void)err_set(msg, rc, "%s: %s", dir, err_text(rc));
        (void)handle_close(h);
        return rc;
    }
    *handle_out = h;
    return 0;
}

/* Handles whose device never answered: a lane's threads still look at what they have. Reachable from
 * here, so that a leak checker knows that they are meant. */
static struct rf_engine *_Atomic left_open;

static void leave_open(struct rf_engine *h, struct engine *e)
{
    log_error(&h->log, "engine.close_leaked", "what=\"a device does not answer\"");
    atomic_store(&h->engine, e);
    h->log.level = LOG_LEVEL_OFF; /* the host's callback is not called after rf_close */
    h->magic = 0;
    h->left_next = atomic_load(&left_open);
    while (!atomic_compare_exchange_weak(&left_open, &h->left_next, h)) {
    }
}

int handle_close(struct rf_engine *h)
{
    bool abandon = handle_check(h) != 0;
    int rc = 0;
    struct engine *e = atomic_load(&h->engine);
    /* The engine first: closing flushes, and deciding needs the plane's lease. */
    if (e != NULL) {
        bool saves = h->started && !abandon;
        if (saves) rc = engine_flush(e);
        if (saves && rc == 0) rc = engine_save_version(e);
        atomic_store(&h->engine, NULL);
    }
    if (h->plane != NULL && abandon)
        plane_abandon(h->plane);
    else if (h->plane != NULL)
        plane_close(h->plane);
    if (e != NULL) {
        int one = engine_close(e, abandon);
        if (rc == 0) rc = one;
        if (one == -ETIMEDOUT) {
            leave_open(h, e);
            return rc;
        }
    }
    if (h->dir_open) wal_dir_close(&h->dir);
    if (h->schema != NULL) schema_destroy(h->schema);
    if (h->env_is_ours) io_env_close(h->env);
    h->magic = 0;
    mem_free(h);
    return rc;
}
