/* rf_salvage: every whole record outside damage, written again into a new directory. */
#include "api/salvage.h"

#include "api/handle.h"
#include "base/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct salvaging {
    struct inspect in;
    struct rf_engine *to;
    void (*lost)(void *ctx, const char *text);
    void *ctx;
    struct rf_salvage_report report;
    struct rf_error *error;
};

static void tell(struct salvaging *s, const char *text)
{
    if (s->lost != NULL) s->lost(s->ctx, text);
}

static void unreadable(void *ctx, const char *text)
{
    tell(ctx, text);
}

static void tell_holes(struct salvaging *s, uint32_t lane, const struct salvage_lane *l)
{
    uint64_t segment_bytes = s->in.dir.manifest.segment_bytes;
    for (uint32_t i = 0; i < l->hole_count; i++) {
        char path[WAL_PATH_BYTES], text[256];
        uint64_t lsn = l->holes[i].lsn;
        wal_segment_path(path, lane, lsn_segment(lsn, segment_bytes));
        snprintf(text, sizeof text,
                 "%s: offset %" PRIu64 ": %" PRIu64 " bytes hold no whole record", path,
                 lsn_offset(lsn, segment_bytes), l->holes[i].bytes);
        if (!l->holes[i].told) tell(s, text);
        s->report.places++;
        s->report.bytes_lost += l->holes[i].bytes;
    }
}

static void lose_record(struct salvaging *s, uint32_t lane, const struct salvage_record *r,
                        const char *why)
{
    char text[sizeof(struct rf_error) + 96];
    snprintf(text, sizeof text, "lane %" PRIu32 ", position %" PRIu64 ": %s", lane, r->head.lsn,
             why);
    tell(s, text);
    s->report.places++;
    s->report.bytes_lost += r->head.covered_bytes;
}

/* What a record itself is to blame for: it is lost, and the next one is looked at. */
static bool is_of_record(int rc)
{
    switch (rc) {
    case -RFE_BAD_TABLET:
    case -RFE_BAD_NAME:
    case -RFE_LIMIT:
    case -RFE_TYPE_MISMATCH:
    case -RFE_NO_TABLE:
    case -RFE_NO_DATABASE:
    case -RFE_NO_COLUMN:
    case -RFE_SEMANTIC_ERROR:
    case -RFE_ENTRY_TOO_LARGE:
    case -RFE_SPANS_REGIONS: return true;
    default: return false;
    }
}

/* A record whose checksum is right but which makes no sense, or names what the catalog never had, was
 * written by something else. */
static int write_record(struct salvaging *s, uint32_t lane, const struct salvage_record *r)
{
    struct err_msg bad = {.code = 0};
    struct rf_error why = {.code = 0};
    uint64_t rows = 0;
    bool gone;
    int rc = engine_check_record(s->in.schema, r->head.type, r->payload, r->head.payload_bytes,
                                 &gone, &bad);
    if (rc != 0) {
        lose_record(s, lane, r, bad.text);
        return 0;
    }
    rc = salvage_write(&s->in, s->to, r, &rows, &why);
    if (is_of_record(rc)) {
        lose_record(s, lane, r, why.text);
        return 0;
    }
    if (rc != 0 && why.code == 0) (void)handle_error(&why, rc, NULL);
    if (rc != 0) *s->error = why;
    s->report.batches += rc == 0;
    s->report.rows += rc == 0 ? rows : 0;
    return rc;
}

static int write_lane(struct salvaging *s, uint32_t lane)
{
    struct inspect_lane images;
    struct salvage_lane l;
    int rc = salvage_find(&s->in, lane, &images, unreadable, s, &l);
    if (rc == 0) tell_holes(s, lane, &l);
    for (uint32_t i = 0; i < l.record_count && rc == 0; i++)
        rc = write_record(s, lane, &l.records[i]);
    salvage_lane_deinit(&l);
    inspect_lane_deinit(&images);
    return rc;
}

static int open_target(struct salvaging *s, const char *to)
{
    const struct wal_manifest *m = &s->in.dir.manifest;
    struct rf_options o;
    uint64_t segments = 8;
    rf_options_init(&o);
    for (uint32_t i = 0; i < m->lanes; i++)
        segments += s->in.dir.lane[i].live_count + 4;
    o.flags = RF_CREATE | RF_EXCLUSIVE;
    o.segment_bytes = m->segment_bytes;
    o.lanes = m->lanes;
    o.regions = m->regions;
    o.partition_interval = m->partition_interval;
    o.time_unit = (enum rf_time_unit)m->time_unit;
    o.sync = RF_SYNC_ASYNC; /* closing makes all of it durable at once */
    o.lease = RF_LEASE_OFF;
    o.memory_bytes = segments * wal_image_bytes(m->segment_bytes);
    struct stat st;
    if (handle_seams.env == NULL && stat(to, &st) == 0)
        return handle_error(s->error, -EEXIST, NULL);
    return rf_open(to, &o, &s->to, s->error);
}

static int salvage(struct salvaging *s, const char *to, struct err_msg *msg)
{
    int rc = inspect_catalog(&s->in, msg);
    if (rc != 0) return rc;
    rc = open_target(s, to);
    if (rc != 0) return rc;
    rc = salvage_tables(&s->in, s->to, s->error);
    for (uint32_t i = 0; i < s->in.dir.manifest.lanes && rc == 0; i++)
        rc = write_lane(s, i);
    if (rc == 0) rc = salvage_ttls(&s->in, s->to, s->error);
    int closed = rf_close(s->to);
    return rc != 0 ? rc : closed;
}

int rf_salvage(const char *from, const char *to, void (*lost)(void *ctx, const char *text),
               void *ctx, struct rf_salvage_report *report_out, struct rf_error *error_out)
{
    struct rf_error error = {.code = 0};
    struct err_msg msg = {.code = 0};
    THREAD_NOT_CANCELLED();
    struct salvaging s = {.lost = lost, .ctx = ctx, .error = &error};
    int rc = inspect_init(&s.in, from, -1, &msg);
    if (rc == 0) rc = salvage(&s, to, &msg);
    inspect_deinit(&s.in);
    if (rc != 0 && error.code != 0 && error_out != NULL) *error_out = error;
    if (rc != 0) return error.code != 0 ? rc : handle_error(error_out, rc, &msg);
    if (report_out != NULL) {
        size_t size = report_out->size < sizeof s.report ? report_out->size : sizeof s.report;
        s.report.size = report_out->size;
        memcpy(report_out, &s.report, size);
    }
    return 0;
}
