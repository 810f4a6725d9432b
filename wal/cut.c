/* The durable cut, in the order that wal/cut.h gives. */
#include "wal/cut.h"

#include "base/bytes.h"
#include "wal/record.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

struct wal_cut_plan wal_cut_plan(uint64_t p_lsn, uint64_t segment_bytes, uint32_t block_bytes,
                                 bool resume)
{
    uint64_t number = lsn_segment(p_lsn, segment_bytes);
    uint64_t end = lsn_end(number, segment_bytes, block_bytes);
    uint64_t first = lsn_first(number, segment_bytes, block_bytes);
    CHECK(p_lsn >= first && p_lsn <= end && p_lsn % WAL_RECORD_ALIGN == 0);
    struct wal_cut_plan plan = {.p_lsn = p_lsn};
    uint64_t pair = align_up(p_lsn, block_bytes);
    if (!resume && p_lsn == first) {
        plan.kind = WAL_CUT_SALT;
        plan.append_lsn = p_lsn;
    } else if (!resume && pair + 2 * (uint64_t)block_bytes <= end) {
        plan.kind = WAL_CUT_PAIR;
        plan.pair_lsn = pair;
        plan.append_lsn = lsn_normal(pair + 2 * (uint64_t)block_bytes, segment_bytes, block_bytes);
    } else {
        plan.kind = WAL_CUT_HEADER;
        plan.append_lsn = lsn_first(number + 1, segment_bytes, block_bytes);
    }
    return plan;
}

void wal_cut_render(uint8_t *blocks, const struct wal_cut_plan *plan, uint32_t block_bytes,
                    uint64_t old_salt, uint64_t new_salt)
{
    memset(blocks, 0, 2 * (size_t)block_bytes);
    for (uint32_t i = 0; i < 2; i++) {
        uint8_t *block = blocks + (size_t)i * block_bytes;
        uint8_t *payload = block + WAL_RECORD_HEAD_BYTES;
        wal_cut_encode(payload, plan->p_lsn, new_salt);
        const struct wal_record_head h = {
            .lsn = plan->pair_lsn + (uint64_t)i * block_bytes,
            .mark = plan->p_lsn,
            .payload_checksum = wal_payload_checksum(payload, WAL_CUT_PAYLOAD_BYTES, old_salt),
            .payload_bytes = WAL_CUT_PAYLOAD_BYTES,
            .covered_bytes = block_bytes,
            .type = WAL_RECORD_CUT,
            .version = WAL_RECORD_VERSION,
        };
        wal_record_encode(block, &h, old_salt);
    }
}

static int failed(struct err_msg *msg, const struct wal_cut_options *o, uint64_t number, int rc)
{
    char path[WAL_PATH_BYTES];
    wal_segment_path(path, o->lane, number);
    return err_set(msg, rc, "%s: writing the cut: %s", path, err_text(rc));
}

/* A new life for a segment: fresh salt, p as its mark. */
static int renew(const struct wal_cut_options *o, struct wal_live_segment *s, uint64_t cut_lsn,
                 struct err_msg *msg)
{
    struct wal_segment_head h = s->head;
    int rc = wal_salt_new(&h.salt);
    if (rc != 0) return failed(msg, o, s->number, rc);
    h.generation++;
    h.mark = o->p_lsn;
    h.cut_lsn = cut_lsn;
    rc = wal_segment_head_rewrite(s->file, &h, s->weak_copy);
    if (rc != 0) return failed(msg, o, s->number, rc);
    s->head = h;
    s->weak_copy = -1;
    return 0;
}

/* Later segments, the last first: when the next one's header names the cut, it is the last thing
 * that is written, and the cut is in force at once. */
static int renew_later(const struct wal_cut_options *o, const struct wal_cut_plan *plan,
                       uint32_t own, struct err_msg *msg)
{
    for (uint32_t i = o->count; i-- > own + 1;) {
        bool names_cut = plan->kind == WAL_CUT_HEADER && i == own + 1;
        int rc = renew(o, &o->segments[i], names_cut ? plan->p_lsn : 0, msg);
        if (rc != 0) return rc;
    }
    return 0;
}

static int write_pair(const struct wal_cut_options *o, const struct wal_cut_plan *plan,
                      struct wal_live_segment *s, uint64_t salt, struct err_msg *msg)
{
    uint64_t offset = lsn_offset(plan->pair_lsn, o->segment_bytes);
    uint8_t *blocks = s->image + offset;
    wal_cut_render(blocks, plan, o->block_bytes, o->salt, salt);
    int rc = io_pwrite(s->file, blocks, 2 * (size_t)o->block_bytes, offset, 0, NULL);
    if (rc == 0) rc = io_sync(s->file);
    return rc == 0 ? 0 : failed(msg, o, s->number, rc);
}

int wal_cut_write(const struct wal_cut_options *o, struct err_msg *msg,
                  struct wal_append_point *point_out)
{
    struct wal_cut_plan plan = wal_cut_plan(o->p_lsn, o->segment_bytes, o->block_bytes, o->resume);
    uint64_t number = lsn_segment(o->p_lsn, o->segment_bytes);
    CHECK(o->count > 0 && number >= o->segments[0].number);
    uint32_t own = (uint32_t)(number - o->segments[0].number);
    CHECK(own < o->count && o->segments[own].number == number);
    uint64_t append_number = lsn_segment(plan.append_lsn, o->segment_bytes);
    if (append_number > o->segments[o->count - 1].number)
        return failed(msg, o, append_number, -ENOENT);

    int rc = renew_later(o, &plan, own, msg);
    if (rc != 0) return rc;
    uint64_t salt = 0;
    if (plan.kind == WAL_CUT_SALT) {
        rc = renew(o, &o->segments[own], o->segments[own].head.cut_lsn, msg);
    } else if (plan.kind == WAL_CUT_PAIR) {
        rc = wal_salt_new(&salt);
        if (rc == 0) rc = write_pair(o, &plan, &o->segments[own], salt, msg);
    }
    if (rc != 0) return rc;
    bool pair_goes_on = plan.kind == WAL_CUT_PAIR && append_number == number;
    point_out->lsn = plan.append_lsn;
    point_out->salt = pair_goes_on ? salt : o->segments[own + append_number - number].head.salt;
    return 0;
}

int wal_cut_after_replay(const struct wal_cut_options *o, const struct wal_verdict *v,
                         struct err_msg *msg, struct wal_append_point *point_out)
{
    CHECK(v->kind == WAL_VERDICT_CLEAN || v->kind == WAL_VERDICT_CUT);
    for (uint32_t i = 0; i < o->count; i++) {
        struct wal_live_segment *s = &o->segments[i];
        int rc = wal_segment_head_heal(s->file, &s->head, s->weak_copy);
        if (rc != 0) return failed(msg, o, s->number, rc);
        s->weak_copy = -1;
    }
    if (!v->cut_needed) {
        *point_out = (struct wal_append_point){v->end_lsn, v->salt};
        return 0;
    }
    struct wal_cut_options now = *o;
    now.p_lsn = v->end_lsn;
    now.salt = v->salt;
    now.resume = false;
    return wal_cut_write(&now, msg, point_out);
}
