/* The segment header's bytes, its two copies, and the names of segment files. */
#include "wal/segment.h"

#include "base/bytes.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    OFF_MAGIC = 0,
    OFF_VERSION = 8,
    OFF_LANE = 12,
    OFF_UUID = 16,
    OFF_SEGMENT_BYTES = 32,
    OFF_BLOCK_BYTES = 40,
    OFF_RESERVED = 44,
    OFF_NUMBER = 48,
    OFF_GENERATION = 56,
    OFF_SALT = 64,
    OFF_MARK = 72,
    OFF_CUT = 80,
    OFF_CHECKSUM = 88,
    HEAD_BYTES = 96,
};
_Static_assert(OFF_UUID + WAL_UUID_BYTES == OFF_SEGMENT_BYTES, "no gap");
_Static_assert(OFF_CHECKSUM + sizeof(uint64_t) == HEAD_BYTES, "the checksum ends the header");
_Static_assert(HEAD_BYTES <= WAL_BLOCK_BYTES_MIN, "the header fits the smallest block");

static const uint8_t magic[8] = {'R', 'F', 'S', 'E', 'G', 'M', 'T', '1'};

static bool power_of_two(uint64_t v)
{
    return v != 0 && (v & (v - 1)) == 0;
}

static bool keeps_table(const struct wal_segment_head *h)
{
    return h->lane < WAL_LANES_MAX && power_of_two(h->segment_bytes) &&
           h->segment_bytes >= WAL_SEGMENT_BYTES_MIN && h->segment_bytes <= WAL_SEGMENT_BYTES_MAX &&
           power_of_two(h->block_bytes) && h->block_bytes >= WAL_BLOCK_BYTES_MIN &&
           h->block_bytes <= WAL_BLOCK_BYTES_MAX && h->number >= 1 &&
           h->number <= WAL_SEGMENT_NUMBER_MAX && h->generation >= 1 && h->salt != 0;
}

void wal_segment_head_encode(uint8_t *block, const struct wal_segment_head *h)
{
    CHECK(keeps_table(h));
    memset(block, 0, h->block_bytes);
    memcpy(block + OFF_MAGIC, magic, sizeof magic);
    store_u32(block + OFF_VERSION, WAL_SEGMENT_VERSION);
    store_u32(block + OFF_LANE, h->lane);
    memcpy(block + OFF_UUID, h->uuid, WAL_UUID_BYTES);
    store_u64(block + OFF_SEGMENT_BYTES, h->segment_bytes);
    store_u32(block + OFF_BLOCK_BYTES, h->block_bytes);
    store_u64(block + OFF_NUMBER, h->number);
    store_u64(block + OFF_GENERATION, h->generation);
    store_u64(block + OFF_SALT, h->salt);
    store_u64(block + OFF_MARK, h->mark);
    store_u64(block + OFF_CUT, h->cut_lsn);
    store_u64(block + OFF_CHECKSUM, hash64(block, OFF_CHECKSUM, 0));
}

static bool all_zero(const uint8_t *p, size_t bytes)
{
    return bytes == 0 || (p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0);
}

enum wal_segment_head_state wal_segment_head_decode(const uint8_t *block, uint32_t block_bytes,
                                                    struct wal_segment_head *out)
{
    if (memcmp(block + OFF_MAGIC, magic, sizeof magic) != 0) return WAL_SEGMENT_HEAD_INVALID;
    if (load_u64(block + OFF_CHECKSUM) != hash64(block, OFF_CHECKSUM, 0))
        return WAL_SEGMENT_HEAD_INVALID;
    if (load_u32(block + OFF_VERSION) > WAL_SEGMENT_VERSION) return WAL_SEGMENT_HEAD_NEWER;
    struct wal_segment_head h = {
        .segment_bytes = load_u64(block + OFF_SEGMENT_BYTES),
        .block_bytes = load_u32(block + OFF_BLOCK_BYTES),
        .lane = load_u32(block + OFF_LANE),
        .number = load_u64(block + OFF_NUMBER),
        .generation = load_u64(block + OFF_GENERATION),
        .salt = load_u64(block + OFF_SALT),
        .mark = load_u64(block + OFF_MARK),
        .cut_lsn = load_u64(block + OFF_CUT),
    };
    memcpy(h.uuid, block + OFF_UUID, WAL_UUID_BYTES);
    if (load_u32(block + OFF_VERSION) != WAL_SEGMENT_VERSION || load_u32(block + OFF_RESERVED) != 0)
        return WAL_SEGMENT_HEAD_INVALID;
    if (!all_zero(block + HEAD_BYTES, block_bytes - HEAD_BYTES)) return WAL_SEGMENT_HEAD_INVALID;
    if (!keeps_table(&h) || h.block_bytes != block_bytes) return WAL_SEGMENT_HEAD_INVALID;
    *out = h;
    return WAL_SEGMENT_HEAD_VALID;
}

static bool names_id(const struct wal_segment_head *h, const struct wal_segment_id *id)
{
    return memcmp(h->uuid, id->uuid, WAL_UUID_BYTES) == 0 &&
           h->segment_bytes == id->segment_bytes && h->block_bytes == id->block_bytes &&
           h->lane == id->lane && h->number == id->number;
}

static int no_valid_copy(const struct wal_segment_head *other, const struct wal_segment_id *id,
                         const char *name, struct err_msg *msg)
{
    if (other == NULL)
        return err_set(msg, -RFE_CORRUPT,
                       "%s: offset 0 and offset %" PRIu64
                       ": expected a segment header, found no valid copy",
                       name, id->segment_bytes - id->block_bytes);
    return err_set(msg, -RFE_CORRUPT,
                   "%s: offset 0: expected the header of segment %" PRIu64 " of lane %" PRIu32
                   " of this directory, found segment %" PRIu64 " of lane %" PRIu32 "%s",
                   name, id->number, id->lane, other->number, other->lane,
                   memcmp(other->uuid, id->uuid, WAL_UUID_BYTES) != 0 ? " of another directory"
                                                                      : "");
}

int wal_segment_choose(const uint8_t *first, const uint8_t *last, const struct wal_segment_id *id,
                       const char *name, struct err_msg *msg, struct wal_segment_head *head_out,
                       int *weak_copy_out)
{
    const uint8_t *block[2] = {first, last};
    struct wal_segment_head h[2];
    bool valid[2];
    const struct wal_segment_head *other = NULL;
    for (int i = 0; i < 2; i++) {
        enum wal_segment_head_state s = wal_segment_head_decode(block[i], id->block_bytes, &h[i]);
        if (s == WAL_SEGMENT_HEAD_NEWER)
            return err_set(msg, -RFE_NEWER_VERSION,
                           "%s: offset %" PRIu64 ": segment header of version %" PRIu32
                           ", known up to %u",
                           name, i == 0 ? 0 : id->segment_bytes - id->block_bytes,
                           load_u32(block[i] + OFF_VERSION), WAL_SEGMENT_VERSION);
        valid[i] = s == WAL_SEGMENT_HEAD_VALID && names_id(&h[i], id);
        if (s == WAL_SEGMENT_HEAD_VALID && !valid[i]) other = &h[i];
    }
    if (!valid[0] && !valid[1]) return no_valid_copy(other, id, name, msg);
    int best = !valid[0] || (valid[1] && h[1].generation > h[0].generation) ? 1 : 0;
    bool equal = valid[0] && valid[1] && memcmp(first, last, id->block_bytes) == 0;
    *head_out = h[best];
    *weak_copy_out = equal ? -1 : 1 - best;
    return 0;
}

void wal_lane_path(char out[WAL_PATH_BYTES], uint32_t lane)
{
    CHECK(lane < WAL_LANES_MAX);
    snprintf(out, WAL_PATH_BYTES, "lane-%02" PRIu32, lane);
}

void wal_segment_path(char out[WAL_PATH_BYTES], uint32_t lane, uint64_t number)
{
    CHECK(lane < WAL_LANES_MAX && number >= 1);
    snprintf(out, WAL_PATH_BYTES, "lane-%02" PRIu32 "/%010" PRIu64, lane, number);
}

void wal_free_path(char out[WAL_PATH_BYTES], uint32_t lane, uint64_t number)
{
    CHECK(lane < WAL_LANES_MAX && number >= 1);
    snprintf(out, WAL_PATH_BYTES, "lane-%02" PRIu32 "/free-%010" PRIu64, lane, number);
}

enum wal_name_kind wal_segment_parse_name(const char *name, uint64_t *number_out)
{
    enum wal_name_kind kind = WAL_NAME_SEGMENT;
    if (strncmp(name, "free-", 5) == 0) {
        kind = WAL_NAME_FREE;
        name += 5;
    }
    if (strlen(name) != 10) return WAL_NAME_OTHER; /* WAL_SEGMENT_NUMBER_MAX has ten digits */
    uint64_t number = 0;
    for (const char *c = name; *c != '\0'; c++) {
        if (*c < '0' || *c > '9') return WAL_NAME_OTHER;
        number = number * 10 + (uint64_t)(*c - '0');
    }
    if (number == 0 || number > WAL_SEGMENT_NUMBER_MAX) return WAL_NAME_OTHER;
    *number_out = number;
    return kind;
}
