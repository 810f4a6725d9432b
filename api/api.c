/* The public calls: each checks its handle and hands on to engine or plane. */
#include "api/handle.h"
#include "base/thread.h"

#include <errno.h>
#include <string.h>

#define STRINGIFY_(x) #x
#define STRINGIFY(x)  STRINGIFY_(x)

const char *rf_version(void)
{
    return STRINGIFY(RF_VERSION_MAJOR) "." STRINGIFY(RF_VERSION_MINOR) "." STRINGIFY(
        RF_VERSION_PATCH);
}

const char *rf_strerror(int code)
{
    return err_text(code);
}

const char *rf_code_name(int code)
{
    return err_name(code);
}

int rf_code_is_retryable(int code)
{
    const struct err_row *row = err_find(code);
    if (row != NULL) return row->cls == ERR_CLASS_RETRY || row->cls == ERR_CLASS_UNKNOWN;
    return code == -EAGAIN || code == -EINTR || code == -ENOSPC || code == -ENOMEM;
}

const char *rf_stage_name(uint32_t stage)
{
    static const char *const names[RF_STAGES] = {
        "validate", "order", "split",  "reserve", "lease",  "copy",    "checksum",
        "publish",  "queue", "submit", "device",  "decide", "visible", "wake"};
    return stage < RF_STAGES ? names[stage] : NULL;
}

/* ---- life ---- */

int rf_open(const char *dir, const struct rf_options *options, struct rf_engine **engine_out,
            struct rf_error *error_out)
{
    struct err_msg msg = {.code = 0};
    THREAD_NOT_CANCELLED();
    int rc = handle_open(dir, options, engine_out, &msg);
    return rc == 0 ? 0 : handle_error(error_out, rc, &msg);
}

int rf_close(struct rf_engine *engine)
{
    THREAD_NOT_CANCELLED();
    return engine == NULL ? 0 : handle_close(engine);
}

/* ---- writing ---- */

static int forked(struct rf_error *error)
{
    return handle_error(error, -RFE_FORKED, NULL);
}

int rf_write_batch(struct rf_engine *h, const struct rf_tablet *tablets, uint32_t tablet_count,
                   struct rf_error *error_out)
{
    if (handle_check(h) != 0) return forked(error_out);
    return engine_write(h->engine, tablets, tablet_count, error_out);
}

int rf_write(struct rf_engine *h, const struct rf_tablet *tablet, struct rf_error *error_out)
{
    return rf_write_batch(h, tablet, 1, error_out);
}

/* A queue and a cursor remember their handle, so that a child of a fork is told. */
struct rf_queue {
    struct rf_engine *h;
    struct engine_queue *queue;
};
struct rf_cursor {
    struct rf_engine *h;
    struct engine_cursor *cursor;
};

int rf_queue_open(struct rf_engine *h, struct rf_queue **queue_out)
{
    int rc = handle_check(h);
    if (rc != 0) return rc;
    struct rf_queue *q = mem_zalloc(sizeof *q);
    if (q == NULL) return -ENOMEM;
    q->h = h;
    rc = engine_queue_open(h->engine, &q->queue);
    if (rc != 0) {
        mem_free(q);
        return rc;
    }
    *queue_out = q;
    return 0;
}

void rf_queue_close(struct rf_queue *q)
{
    if (q == NULL) return;
    if (handle_check(q->h) == 0) engine_queue_close(q->queue);
    mem_free(q);
}

int rf_write_async(struct rf_queue *q, const struct rf_tablet *tablets, uint32_t tablet_count,
                   int64_t wait_ms, void (*done)(void *user, int code), void *user,
                   struct rf_error *error_out)
{
    if (handle_check(q->h) != 0) return forked(error_out);
    int64_t wait_ns = wait_ms < 0 || wait_ms > INT64_MAX / 1000000 ? INT64_MAX : wait_ms * 1000000;
    return engine_write_async(q->queue, tablets, tablet_count, wait_ns, done, user, error_out);
}

int rf_completions(struct rf_queue *q, struct rf_completion *completions_out, uint32_t max,
                   int64_t timeout_ms)
{
    int rc = handle_check(q->h);
    return rc != 0 ? rc : engine_completions(q->queue, completions_out, max, timeout_ms);
}

int rf_queue_eventfd(struct rf_queue *q)
{
    int rc = handle_check(q->h);
    return rc != 0 ? rc : engine_queue_eventfd(q->queue);
}

uint32_t rf_queue_in_flight(const struct rf_queue *q)
{
    return engine_queue_in_flight(q->queue);
}

void rf_delete_options_init(struct rf_delete_options *o)
{
    *o =
        (struct rf_delete_options){.size = sizeof *o, .time_from = INT64_MIN, .time_to = INT64_MAX};
}

int rf_delete(struct rf_engine *h, const struct rf_delete_options *options,
              struct rf_error *error_out)
{
    if (handle_check(h) != 0) return forked(error_out);
    return engine_delete(h->engine, options, error_out);
}

/* ---- reading ---- */

void rf_scan_options_init(struct rf_scan_options *o)
{
    *o = (struct rf_scan_options){
        .size = sizeof *o, .time_from = INT64_MIN, .time_to = INT64_MAX, .limit = UINT64_MAX};
}

int rf_scan_open(struct rf_engine *h, const struct rf_scan_options *options,
                 struct rf_cursor **cursor_out, struct rf_error *error_out)
{
    if (handle_check(h) != 0) return forked(error_out);
    struct rf_cursor *c = mem_zalloc(sizeof *c);
    if (c == NULL) return handle_error(error_out, -ENOMEM, NULL);
    c->h = h;
    int rc = engine_scan_open(h->engine, options, &c->cursor, error_out);
    if (rc != 0) {
        mem_free(c);
        return rc;
    }
    *cursor_out = c;
    return 0;
}

int rf_scan_next(struct rf_cursor *c, struct rf_tablet *rows_out)
{
    int rc = handle_check(c->h);
    return rc != 0 ? rc : engine_scan_next(c->cursor, rows_out);
}

void rf_scan_close(struct rf_cursor *c)
{
    if (c == NULL) return;
    if (handle_check(c->h) == 0) engine_scan_close(c->cursor);
    mem_free(c);
}

int rf_count(struct rf_engine *h, const struct rf_scan_options *options, uint64_t *rows_out,
             struct rf_error *error_out)
{
    if (handle_check(h) != 0) return forked(error_out);
    return engine_count(h->engine, options, rows_out, error_out);
}

/* ---- upkeep ---- */

int rf_flush(struct rf_engine *h)
{
    THREAD_NOT_CANCELLED();
    int rc = handle_check(h);
    return rc != 0 ? rc : engine_flush(h->engine);
}

int rf_resume(struct rf_engine *h, struct rf_error *error_out)
{
    if (handle_check(h) != 0) return forked(error_out);
    struct err_msg msg = {.code = 0};
    THREAD_NOT_CANCELLED();
    int rc = engine_resume(h->engine, &msg);
    return rc == 0 ? 0 : handle_error(error_out, rc, &msg);
}

void rf_trim_options_init(struct rf_trim_options *o)
{
    *o = (struct rf_trim_options){.size = sizeof *o};
}

int rf_trim(struct rf_engine *h, const struct rf_trim_options *options, uint64_t *position_out)
{
    int rc = handle_check(h);
    if (rc != 0) return rc;
    if (options == NULL || options->size < sizeof *options) return -EINVAL;
    THREAD_NOT_CANCELLED();
    return engine_trim(h->engine, options, position_out);
}

static void lease_stats(const struct rf_engine *h, struct rf_stats *s)
{
    struct lease_look look = lease_look(&h->words, &h->clock);
    int64_t deadline = atomic_load(&h->words.deadline_ns);
    s->lease_epoch = view_epoch(look.view);
    s->schema_version = view_version(look.view);
    s->fenced_now = !look.live;
    s->lease_left_ms = deadline == LEASE_OFF ? INT64_MAX
                       : look.live           ? (deadline - clock_boot_ns(&h->clock)) / 1000000
                                             : 0;
}

static void made_with(const struct rf_engine *h, struct rf_stats *s)
{
    const struct wal_manifest *m = &h->dir.manifest;
    s->time_unit = (enum rf_time_unit)m->time_unit;
    s->lanes = m->lanes;
    s->regions = m->regions;
    s->segment_bytes = m->segment_bytes;
    s->partition_interval = m->partition_interval;
}

int rf_stats(struct rf_engine *h, struct rf_stats *stats_out)
{
    int rc = handle_check(h);
    if (rc != 0) return rc;
    struct rf_stats s = {.size = stats_out->size};
    if (s.size < sizeof(size_t)) return -EINVAL;
    engine_stats(h->engine, &s);
    lease_stats(h, &s);
    made_with(h, &s);
    struct schema_counts counts;
    schema_count(h->schema, &counts);
    s.tables = counts.tables;
    s.columns = counts.columns + counts.series;
    memcpy(stats_out, &s, s.size < sizeof s ? s.size : sizeof s);
    return 0;
}
