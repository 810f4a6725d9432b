/* rf_verify: everything is read and judged, nothing is written. */
#include "api/handle.h"
#include "api/inspect.h"
#include "base/thread.h"
#include "memtable/batch.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct verifying {
    struct inspect in;
    bool catalog;
    uint32_t lane;
    struct err_msg *msg;
    void (*fault)(void *ctx, const char *text);
    void *ctx;
    enum rf_verdict verdict;
};

static void tell(struct verifying *v, int rc, const struct err_msg *msg)
{
    v->verdict = RF_VERDICT_CORRUPT;
    if (v->fault != NULL) v->fault(v->ctx, msg->code != 0 ? msg->text : err_text(rc));
}

/* Damage is told and the look goes on; anything else ends it. */
static bool is_damage(int rc)
{
    return rc == -RFE_CORRUPT || rc == -RFE_NEWER_VERSION || rc == -RFE_WRONG_CATALOG;
}

static int bad_record(struct verifying *v, uint64_t lsn, int rc, const char *why)
{
    const struct wal_manifest *m = &v->in.dir.manifest;
    char path[WAL_PATH_BYTES];
    wal_segment_path(path, v->lane, lsn_segment(lsn, m->segment_bytes));
    return err_set(v->msg, rc, "%s: offset %" PRIu64 ": %s", path,
                   lsn_offset(lsn, m->segment_bytes), why);
}

static int check_record(void *ctx, const struct wal_record_head *h, const uint8_t *payload,
                        uint64_t lsn)
{
    struct verifying *v = ctx;
    struct err_msg why = {.code = 0};
    struct batch_delete d;
    bool gone;
    int rc;
    if (v->catalog)
        rc = engine_check_record(v->in.schema, h->type, payload, h->payload_bytes, &gone, &why);
    else if (h->type == WAL_RECORD_DELETE)
        rc = batch_decode_delete(payload, h->payload_bytes, &d, &why);
    else
        rc = batch_check(payload, h->payload_bytes, &why);
    return rc != 0 ? bad_record(v, lsn, rc, why.text) : 0;
}

static int verify_lane(struct verifying *v, uint32_t lane)
{
    const struct wal_manifest *m = &v->in.dir.manifest;
    struct inspect_lane l;
    struct err_msg msg = {.code = 0};
    v->lane = lane;
    v->msg = &msg;
    int rc = inspect_lane_init(&v->in, lane, &l);
    if (rc == 0) {
        struct wal_replay_options o = {
            .env = v->in.env,
            .log = &v->in.log,
            .lane = lane,
            .segment_bytes = m->segment_bytes,
            .block_bytes = m->block_bytes,
            .head_number = m->head[lane],
            .segments = l.segments,
            .count = l.count,
            .read_only = true,
            .record = check_record,
            .ctx = v,
        };
        memcpy(o.uuid, m->uuid, WAL_UUID_BYTES);
        struct wal_replay_result result;
        rc = wal_replay(&o, &msg, &result);
        if (rc == 0 && result.verdict.kind == WAL_VERDICT_CUT && v->verdict == RF_VERDICT_CLEAN)
            v->verdict = RF_VERDICT_CUT;
        wal_replay_result_deinit(&result);
    }
    inspect_lane_deinit(&l);
    if (!is_damage(rc)) return rc;
    tell(v, rc, &msg);
    return 0;
}

static int verify(struct verifying *v, struct err_msg *msg)
{
    struct err_msg why = {.code = 0};
    int rc = inspect_catalog(&v->in, &why);
    v->catalog = rc == 0;
    if (is_damage(rc) || rc == -RFE_METADATA_ERROR)
        tell(v, rc, &why);
    else if (rc != 0)
        return err_set(msg, rc, "%s", why.text);
    for (uint32_t i = 0; i < v->in.dir.manifest.lanes; i++) {
        rc = verify_lane(v, i);
        if (rc != 0) return err_set(msg, rc, "lane %" PRIu32 ": %s", i, err_text(rc));
    }
    return 0;
}

int rf_verify(const char *dir, int64_t lock_wait_ms, void (*fault)(void *ctx, const char *text),
              void *ctx, enum rf_verdict *verdict_out, struct rf_error *error_out)
{
    THREAD_NOT_CANCELLED();
    struct verifying v = {.fault = fault, .ctx = ctx, .verdict = RF_VERDICT_CLEAN};
    struct err_msg msg = {.code = 0};
    int rc = inspect_init(&v.in, dir, lock_wait_ms, &msg);
    if (rc == -RFE_UNFINISHED) {
        v.verdict = RF_VERDICT_UNFINISHED;
        rc = 0;
    } else if (rc == -RFE_CORRUPT) { /* the manifest */
        tell(&v, rc, &msg);
        rc = 0;
    } else if (rc == 0) {
        rc = verify(&v, &msg);
    }
    inspect_deinit(&v.in);
    if (rc != 0) return handle_error(error_out, rc, &msg);
    *verdict_out = v.verdict;
    return 0;
}
