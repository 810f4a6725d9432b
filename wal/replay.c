/* Replay: sync, read into the images, choose headers, judge, hand out. */
#include "wal/replay.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "wal/replay_queue.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    READ_BYTES = 1 << 20,
    READS_IN_FLIGHT = 8,
    STALLS_MAX = 8,
};

static int failed(const struct wal_replay_options *o, uint32_t index, const char *what, int rc,
                  struct err_msg *msg)
{
    char path[WAL_PATH_BYTES];
    wal_segment_path(path, o->lane, o->segments[index].number);
    return err_set(msg, rc, "%s: %s: %s", path, what, err_text(rc));
}

static int check_size(const struct wal_replay_options *o, uint32_t index, struct err_msg *msg)
{
    uint64_t bytes = 0;
    int rc = io_size(o->segments[index].file, &bytes);
    if (rc != 0) return failed(o, index, "size", rc, msg);
    if (bytes == o->segment_bytes) return 0;
    char path[WAL_PATH_BYTES];
    wal_segment_path(path, o->lane, o->segments[index].number);
    uint64_t place = bytes < o->segment_bytes ? bytes : o->segment_bytes;
    return err_set(msg, -RFE_CORRUPT,
                   "%s: offset %" PRIu64 ": expected a file of %" PRIu64 " bytes, found %" PRIu64,
                   path, place, o->segment_bytes, bytes);
}

static int sync_segment(const struct wal_replay_options *o, uint32_t index, struct err_msg *msg)
{
    int rc = io_sync(o->segments[index].file);
    if (rc == 0) return 0;
    if (o->read_only && (rc == -EROFS || rc == -EINVAL || rc == -EBADF)) return 0;
    return failed(o, index, "sync", rc, msg);
}

/* ---- reading: chunks of all segments in order, several in flight ---- */

struct chunk {
    uint64_t number; /* counted over all segments */
    uint32_t index;  /* of the segment */
    uint64_t offset;
    uint32_t bytes;  /* left to read */
    uint32_t stalls; /* answers in a row that read less than a block */
};
struct reading {
    const struct wal_replay_options *o;
    struct err_msg *msg;
    struct io_queue *queue;
    struct chunk chunk[READS_IN_FLIGHT];
    bool busy[READS_IN_FLIGHT];
    uint8_t *done;              /* one a chunk */
    uint64_t chunks;            /* of all segments */
    uint64_t next;              /* chunk to be asked for */
    uint64_t complete;          /* all below are read */
    struct replay_queue *early; /* records handed out before the verdict; NULL: none are */
    int failure;                /* of a read while waiting for early's room */
};

static uint32_t chunk_bytes(const struct wal_replay_options *o)
{
    return o->segment_bytes < READ_BYTES ? (uint32_t)o->segment_bytes : READ_BYTES;
}

static struct io_request request_of(const struct reading *r, uint32_t slot)
{
    const struct chunk *c = &r->chunk[slot];
    const struct wal_live_segment *s = &r->o->segments[c->index];
    return (struct io_request){.op = IO_OP_READ,
                               .file = s->file,
                               .buf = s->image + c->offset,
                               .bytes = c->bytes,
                               .offset = c->offset,
                               .user = slot};
}

static int fill_queue(struct reading *r)
{
    struct io_request requests[READS_IN_FLIGHT];
    uint32_t n = 0, size = chunk_bytes(r->o);
    uint64_t per_segment = r->o->segment_bytes / size;
    for (uint32_t slot = 0; slot < READS_IN_FLIGHT && r->next < r->chunks; slot++) {
        if (r->busy[slot]) continue;
        r->chunk[slot] = (struct chunk){.number = r->next,
                                        .index = (uint32_t)(r->next / per_segment),
                                        .offset = r->next % per_segment * size,
                                        .bytes = size};
        r->next++;
        r->busy[slot] = true;
        requests[n++] = request_of(r, slot);
    }
    return n == 0 ? 0 : io_queue_submit(r->queue, requests, n);
}

/* A read that came back short goes on where it ended, at a block's bound as direct I/O wants it;
 * less than a block is no step forward and is tried again, up to a bound. */
static int take_event(struct reading *r, const struct io_event *e)
{
    uint32_t slot = (uint32_t)e->user;
    struct chunk *c = &r->chunk[slot];
    if (e->result < 0) return failed(r->o, c->index, "read", e->result, r->msg);
    uint32_t got = (uint32_t)e->result;
    if (got != c->bytes) got -= got % r->o->block_bytes;
    c->offset += got;
    c->bytes -= got;
    if (c->bytes == 0) {
        r->busy[slot] = false;
        r->done[c->number] = 1;
        while (r->complete < r->chunks && r->done[r->complete] != 0)
            r->complete++;
        return 0;
    }
    c->stalls = got == 0 ? c->stalls + 1 : 0;
    if (c->stalls > STALLS_MAX) return failed(r->o, c->index, "read: no progress", -EIO, r->msg);
    const struct io_request again = request_of(r, slot);
    int rc = io_queue_submit(r->queue, &again, 1);
    return rc == 0 ? 0 : failed(r->o, c->index, "read", rc, r->msg);
}

/* Keeps the queue full and takes what has come, waiting for the first of it. Called only while a
 * chunk is missing, so something is in flight. */
static int pump(struct reading *r)
{
    struct io_event events[READS_IN_FLIGHT];
    int rc = fill_queue(r);
    if (rc != 0) return err_set(r->msg, rc, "replay: %s", err_text(rc));
    int n = io_queue_wait(r->queue, events, READS_IN_FLIGHT, -1);
    if (n < 0) return err_set(r->msg, n, "replay: %s", err_text(n));
    for (int i = 0; i < n && rc == 0; i++)
        rc = take_event(r, &events[i]);
    if (rc == 0) rc = fill_queue(r); /* before the judging goes on: the device is not to wait */
    return rc == 0 ? 0 : err_set(r->msg, rc, "replay: %s", err_text(rc));
}

/* The verdict asks for bytes as it goes: what has been read is judged while the rest is. */
static int need(void *ctx, uint32_t index, uint64_t bytes)
{
    struct reading *r = ctx;
    uint64_t size = chunk_bytes(r->o);
    uint64_t wanted = index * (r->o->segment_bytes / size) + (bytes + size - 1) / size;
    int rc = r->failure;
    while (r->complete < wanted && rc == 0)
        rc = pump(r);
    return rc;
}

/* The verdict has found a record: it is applied while the next ones are judged. Where applying is
 * slower, reading goes on meanwhile. */
static void hand_out_early(void *ctx, const struct wal_record_head *h, const uint8_t *payload)
{
    struct reading *r = ctx;
    if (!wal_record_is_batch(h->type)) return;
    while (replay_queue_full(r->early) && r->complete < r->chunks && r->failure == 0)
        r->failure = pump(r);
    replay_queue_push(r->early, h, payload);
}

static int reading_begin(struct reading *r)
{
    const struct wal_replay_options *o = r->o;
    r->chunks = o->count * (o->segment_bytes / chunk_bytes(o));
    r->done = mem_zalloc(r->chunks + 1);
    if (r->done == NULL) return -ENOMEM;
    const struct io_queue_options q = {
        .backend = o->backend, .depth = READS_IN_FLIGHT, .log = o->log};
    int rc = io_queue_open(o->env, &q, &r->queue);
    if (rc == 0) return 0;
    mem_free(r->done);
    return err_set(r->msg, rc, "replay: %s", err_text(rc));
}

static void reading_end(struct reading *r)
{
    io_queue_close(r->queue); /* waits: the images are the kernel's until then */
    mem_free(r->done);
}

/* ---- judging and handing out ---- */

static int read_head(const struct wal_replay_options *o, uint32_t index, struct err_msg *msg)
{
    struct wal_live_segment *s = &o->segments[index];
    struct wal_segment_id id = {.segment_bytes = o->segment_bytes,
                                .block_bytes = o->block_bytes,
                                .lane = o->lane,
                                .number = s->number};
    memcpy(id.uuid, o->uuid, WAL_UUID_BYTES);
    char path[WAL_PATH_BYTES];
    wal_segment_path(path, o->lane, s->number);
    return wal_segment_head_read(s->file, &id, path, msg, &s->head, &s->weak_copy);
}

/* Whether a batch is given to the caller now: in the one case what counts, in the other what does
 * not and was handed out early. */
static int give(const struct wal_replay_options *o, const struct wal_record_head *h,
                const uint8_t *payload, struct wal_replay_result *result)
{
    bool is_void = wal_void_has(&result->verdict.void_set, h->lsn);
    if (is_void) result->voided++;
    int rc = 0;
    if (o->take_back != NULL) {
        if (is_void) rc = o->take_back(o->ctx, h, payload, h->lsn);
        if (is_void && rc == 0) result->applied--;
    } else if (!is_void) {
        if (o->record != NULL) rc = o->record(o->ctx, h, payload, h->lsn);
        if (rc == 0) result->applied++;
    }
    return rc;
}

static int walk_again(const struct wal_replay_options *o, const struct wal_verdict_input *in,
                      struct wal_replay_result *result)
{
    const struct wal_void_set *void_set = &result->verdict.void_set;
    bool none_void = void_set->range_count == 0 && void_set->lsn_count == 0;
    if (o->take_back != NULL && none_void) return 0;
    struct wal_cursor c;
    struct wal_record_head h;
    const uint8_t *payload = NULL;
    wal_cursor_init_judged(&c, in, &result->verdict);
    while (wal_cursor_next(&c, &h, &payload) == WAL_STEP_RECORD) {
        int rc = wal_record_is_batch(h.type) ? give(o, &h, payload, result) : 0;
        if (rc != 0) return rc;
    }
    return 0;
}

static int judge_views(const struct wal_replay_options *o, struct reading *r,
                       const struct wal_verdict_segment *views, struct wal_replay_result *result)
{
    struct wal_verdict_input in = {.lane = o->lane,
                                   .segment_bytes = o->segment_bytes,
                                   .block_bytes = o->block_bytes,
                                   .head_number = o->head_number,
                                   .segments = views,
                                   .count = o->count,
                                   .need = need,
                                   .ctx = r};
    if (o->take_back != NULL) {
        int rc = replay_queue_begin(o->record, o->ctx, &r->early);
        if (rc != 0) return rc;
        in.record = hand_out_early;
    }
    int rc = wal_verdict_judge(&in, r->msg, &result->verdict);
    if (rc == 0) rc = need(r, o->count - 1, o->segment_bytes); /* the images are asked for whole */
    result->bytes_read = r->complete * chunk_bytes(o);
    if (r->early != NULL) {
        int early = replay_queue_end(r->early, &result->applied);
        if (rc == 0) rc = early;
    }
    return rc == 0 ? walk_again(o, &in, result) : rc;
}

static int judge(const struct wal_replay_options *o, struct reading *r,
                 struct wal_replay_result *result)
{
    struct wal_verdict_segment *views = mem_zalloc_array(o->count + 1, sizeof *views);
    if (views == NULL) return -ENOMEM;
    for (uint32_t i = 0; i < o->count; i++) {
        views[i].head = o->segments[i].head;
        views[i].image = o->segments[i].image;
    }
    int rc = judge_views(o, r, views, result);
    mem_free(views);
    return rc;
}

void wal_replay_result_deinit(struct wal_replay_result *r)
{
    wal_verdict_deinit(&r->verdict);
}

static int replay(const struct wal_replay_options *o, struct err_msg *msg,
                  struct wal_replay_result *result_out)
{
    memset(result_out, 0, sizeof *result_out);
    int rc = 0;
    for (uint32_t i = 0; i < o->count && rc == 0; i++) {
        rc = check_size(o, i, msg);
        if (rc == 0) rc = sync_segment(o, i, msg);
        if (rc == 0) rc = read_head(o, i, msg);
    }
    if (rc != 0) {
        if (rc == -RFE_CORRUPT) result_out->verdict.kind = WAL_VERDICT_CORRUPT;
        if (rc == -RFE_NEWER_VERSION) result_out->verdict.kind = WAL_VERDICT_NEWER;
        return rc;
    }
    struct reading r = {.o = o, .msg = msg};
    rc = reading_begin(&r);
    if (rc != 0) return rc;
    rc = judge(o, &r, result_out);
    reading_end(&r);
    return rc;
}

struct call {
    const struct wal_replay_options *o;
    struct err_msg *msg;
    struct wal_replay_result *result;
    int rc;
};

static void *call_run(void *arg)
{
    struct call *call = arg;
    call->rc = replay(call->o, call->msg, call->result);
    return NULL;
}

/* On a thread of its own, which is gone when the ring that it read by comes to its end: the kernel
 * then interrupts who has used it, and that is not to be a thread of the host's (io/uring.c). */
int wal_replay(const struct wal_replay_options *o, struct err_msg *msg,
               struct wal_replay_result *result_out)
{
    struct call call = {.o = o, .msg = msg, .result = result_out};
    pthread_t thread;
    if (thread_start(&thread, "rf-read", call_run, &call) == 0)
        thread_join(thread);
    else
        (void)call_run(&call);
    return call.rc;
}
