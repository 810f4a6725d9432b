#include "log_builder.h"

#include "base/alloc.h"
#include "base/bytes.h"

#include <errno.h>
#include <string.h>

static uint64_t next_salt(struct log_builder *b)
{
    b->seed += 0x9e3779b97f4a7c15u;
    uint64_t z = (b->seed ^ b->seed >> 30) * 0xbf58476d1ce4e5b9u;
    return (z ^ z >> 27) | 1;
}

void builder_heads(struct log_builder *b)
{
    if (b->segment_bytes < WAL_SEGMENT_BYTES_MIN) return; /* too small for a real header */
    for (uint32_t i = 0; i < b->count; i++) {
        wal_segment_head_encode(b->image[i], &b->head[i]);
        wal_segment_head_encode(b->image[i] + b->segment_bytes - b->block_bytes, &b->head[i]);
    }
}

void builder_init(struct log_builder *b, uint64_t segment_bytes, uint32_t block_bytes,
                  uint32_t count, uint64_t first_number, uint64_t seed, bool stale)
{
    CHECK(count >= 1 && count <= BUILDER_SEGMENTS_MAX);
    memset(b, 0, sizeof *b);
    b->segment_bytes = segment_bytes;
    b->block_bytes = block_bytes;
    b->count = count;
    b->seed = seed;
    for (uint32_t i = 0; i < count; i++) {
        b->image[i] = mem_alloc_aligned(4096, segment_bytes);
        CHECK(b->image[i] != NULL);
        memset(b->image[i], stale ? 0xa5 : 0, segment_bytes);
        b->head[i] = (struct wal_segment_head){.segment_bytes = segment_bytes,
                                               .block_bytes = block_bytes,
                                               .number = first_number + i,
                                               .generation = 1,
                                               .salt = next_salt(b)};
        memset(b->head[i].uuid, 0x11, WAL_UUID_BYTES);
    }
    builder_heads(b);
    b->lsn = lsn_first(first_number, segment_bytes, block_bytes);
    b->mark = b->lsn;
    b->salt = b->head[0].salt;
}

void builder_deinit(struct log_builder *b)
{
    for (uint32_t i = 0; i < b->count; i++)
        mem_free(b->image[i]);
    memset(b, 0, sizeof *b);
}

void builder_copy(struct log_builder *to, const struct log_builder *from)
{
    *to = *from;
    for (uint32_t i = 0; i < from->count; i++) {
        to->image[i] = mem_alloc_aligned(4096, from->segment_bytes);
        CHECK(to->image[i] != NULL);
        memcpy(to->image[i], from->image[i], from->segment_bytes);
    }
}

static uint32_t index_of(const struct log_builder *b, uint64_t lsn)
{
    uint64_t index = lsn_segment(lsn, b->segment_bytes) - b->head[0].number;
    CHECK(index < b->count);
    return (uint32_t)index;
}

uint8_t *builder_at(struct log_builder *b, uint64_t lsn)
{
    return b->image[index_of(b, lsn)] + lsn_offset(lsn, b->segment_bytes);
}

static uint64_t room(const struct log_builder *b)
{
    return b->segment_bytes - b->block_bytes - lsn_offset(b->lsn, b->segment_bytes);
}

static uint64_t put(struct log_builder *b, uint8_t type, const void *payload,
                    uint32_t payload_bytes, uint32_t covered_bytes)
{
    uint8_t *at = builder_at(b, b->lsn);
    if (payload_bytes != 0) memcpy(at + WAL_RECORD_HEAD_BYTES, payload, payload_bytes);
    const struct wal_record_head h = {.lsn = b->lsn,
                                      .mark = b->mark,
                                      .payload_checksum =
                                          wal_payload_checksum(payload, payload_bytes, b->salt),
                                      .payload_bytes = payload_bytes,
                                      .covered_bytes = covered_bytes,
                                      .type = type,
                                      .version = WAL_RECORD_VERSION};
    wal_record_encode(at, &h, b->salt);
    b->lsn += covered_bytes;
    if (room(b) == 0) {
        b->lsn = lsn_normal(b->lsn, b->segment_bytes, b->block_bytes);
        if (lsn_segment(b->lsn, b->segment_bytes) - b->head[0].number < b->count)
            b->salt = b->head[index_of(b, b->lsn)].salt;
    }
    return h.lsn;
}

void builder_next_segment(struct log_builder *b)
{
    put(b, WAL_RECORD_PAD, NULL, 0, (uint32_t)room(b));
}

uint64_t builder_append(struct log_builder *b, uint8_t type, const void *payload,
                        uint32_t payload_bytes)
{
    uint64_t covered = wal_record_covered(payload_bytes);
    if (covered > room(b)) builder_next_segment(b);
    CHECK(covered <= room(b));
    return put(b, type, payload, payload_bytes, (uint32_t)covered);
}

uint64_t builder_data(struct log_builder *b, const char *text)
{
    return builder_append(b, WAL_RECORD_DATA, text, (uint32_t)strlen(text) + 1);
}

uint64_t builder_void(struct log_builder *b, uint32_t covered_bytes)
{
    return put(b, WAL_RECORD_VOID, NULL, 0, covered_bytes);
}

uint64_t builder_fence(struct log_builder *b, uint64_t from_lsn)
{
    uint8_t payload[WAL_FENCE_PAYLOAD_BYTES];
    wal_fence_encode(payload, from_lsn);
    return builder_append(b, WAL_RECORD_FENCE, payload, sizeof payload);
}

uint64_t builder_abort(struct log_builder *b, const uint64_t *lsns, uint32_t n)
{
    uint8_t payload[8 + 8 * 16];
    CHECK(n <= 16);
    wal_abort_encode(payload, lsns, n);
    return builder_append(b, WAL_RECORD_ABORT, payload, wal_abort_payload_bytes(n));
}

uint64_t builder_close(struct log_builder *b)
{
    return builder_append(b, WAL_RECORD_CLOSE, NULL, 0);
}

void builder_group(struct log_builder *b)
{
    uint64_t rest = align_up(b->lsn, b->block_bytes) - b->lsn;
    if (rest != 0) put(b, WAL_RECORD_PAD, NULL, 0, (uint32_t)rest);
    b->mark = b->lsn;
}

void builder_cut(struct log_builder *b, uint64_t p_lsn)
{
    struct wal_cut_plan plan = wal_cut_plan(p_lsn, b->segment_bytes, b->block_bytes, false);
    uint32_t own = index_of(b, p_lsn);
    b->salt = next_salt(b);
    for (uint32_t i = own + (plan.kind != WAL_CUT_SALT); i < b->count; i++) {
        b->head[i].salt = next_salt(b);
        b->head[i].generation++;
        b->head[i].mark = p_lsn;
        if (i > own) b->head[i].cut_lsn = plan.kind == WAL_CUT_HEADER && i == own + 1 ? p_lsn : 0;
    }
    if (plan.kind == WAL_CUT_PAIR) {
        uint64_t old = b->head[own].salt; /* tests cut a segment's first life only */
        wal_cut_render(builder_at(b, plan.pair_lsn), &plan, b->block_bytes, old, b->salt);
    }
    if (plan.kind != WAL_CUT_PAIR || index_of(b, plan.append_lsn) != own)
        b->salt = b->head[index_of(b, plan.append_lsn)].salt;
    builder_heads(b);
    b->lsn = plan.append_lsn;
    b->mark = p_lsn;
}

struct wal_verdict_input builder_input(const struct log_builder *b,
                                       struct wal_verdict_segment *views)
{
    for (uint32_t i = 0; i < b->count; i++) {
        views[i].head = b->head[i];
        views[i].image = b->image[i];
    }
    return (struct wal_verdict_input){.lane = b->lane,
                                      .segment_bytes = b->segment_bytes,
                                      .block_bytes = b->block_bytes,
                                      .head_number = b->head[0].number,
                                      .segments = views,
                                      .count = b->count};
}

int builder_judge(const struct log_builder *b, struct err_msg *msg, struct wal_verdict *v_out)
{
    struct wal_verdict_segment views[BUILDER_SEGMENTS_MAX];
    const struct wal_verdict_input in = builder_input(b, views);
    return wal_verdict_judge(&in, msg, v_out);
}

/* ---- in files ---- */

void builder_write_files(const struct log_builder *b, struct io_env *env)
{
    char path[WAL_PATH_BYTES];
    wal_lane_path(path, b->lane);
    int rc = io_mkdir(env, path);
    CHECK(rc == 0 || rc == -EEXIST);
    for (uint32_t i = 0; i < b->count; i++) {
        struct io_file *file = NULL;
        wal_segment_path(path, b->lane, b->head[i].number);
        CHECK(io_open(env, path, IO_WRITE | IO_CREATE, &file) == 0);
        CHECK(io_truncate(file, b->segment_bytes) == 0);
        CHECK(io_pwrite(file, b->image[i], b->segment_bytes, 0, 0, NULL) == 0);
        CHECK(io_sync(file) == 0);
        io_close(file);
    }
    wal_lane_path(path, b->lane);
    CHECK(io_sync_dir(env, path) == 0 && io_sync_dir(env, ".") == 0);
}

void builder_lane_open(struct builder_lane *l, const struct log_builder *b, struct io_env *env)
{
    memset(l, 0, sizeof *l);
    l->env = env;
    l->segment_bytes = b->segment_bytes;
    l->count = b->count;
    for (uint32_t i = 0; i < b->count; i++) {
        struct wal_live_segment *s = &l->segment[i];
        char path[WAL_PATH_BYTES];
        s->number = b->head[i].number;
        wal_segment_path(path, b->lane, s->number);
        CHECK(io_open(env, path, IO_READ | IO_WRITE | IO_DIRECT, &s->file) == 0);
        CHECK(io_lock(s->file, true) == 0);
        s->image = mem_map(b->segment_bytes);
        CHECK(s->image != NULL);
    }
}

void builder_lane_close(struct builder_lane *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        io_close(l->segment[i].file);
        mem_unmap(l->segment[i].image, l->segment_bytes);
    }
    memset(l, 0, sizeof *l);
}

struct wal_replay_options builder_replay(const struct log_builder *b, struct builder_lane *l)
{
    struct wal_replay_options o = {.env = l->env,
                                   .lane = b->lane,
                                   .segment_bytes = b->segment_bytes,
                                   .block_bytes = b->block_bytes,
                                   .head_number = b->head[0].number,
                                   .segments = l->segment,
                                   .count = l->count};
    memcpy(o.uuid, b->head[0].uuid, WAL_UUID_BYTES);
    return o;
}

struct wal_cut_options builder_cut_options(const struct log_builder *b, struct builder_lane *l)
{
    return (struct wal_cut_options){.lane = b->lane,
                                    .segment_bytes = b->segment_bytes,
                                    .block_bytes = b->block_bytes,
                                    .segments = l->segment,
                                    .count = l->count};
}
