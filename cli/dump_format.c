#include "cli/dump_format.h"

#include "base/bytes.h"
#include "base/hash.h"

#include <inttypes.h>

#define SEGMENT_NUMBER_MAX UINT64_C(8000000000)

static bool is_power_between(uint64_t v, uint64_t min, uint64_t max)
{
    return v >= min && v <= max && (v & (v - 1)) == 0;
}

static bool are_zero(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0) return false;
    return true;
}

/* ---- the manifest ---- */

enum { MANIFEST_FIXED_BYTES = 104, CHECKSUM_BYTES = 8 };

static bool manifest_is_sound(const uint8_t *bytes, size_t n, struct bad *why)
{
    if (n < MANIFEST_FIXED_BYTES + CHECKSUM_BYTES)
        return bad_set(why, n, "the manifest has %zu bytes, too few", n);
    if (memcmp(bytes, "RFMANIF1", 8) != 0)
        return bad_set(why, 0, "expected the magic RFMANIF1: this is no manifest");
    if (load_u32(bytes + 8) > 1)
        return bad_set(why, 8, "version %" PRIu32 ", 1 is the newest known", load_u32(bytes + 8));
    if (load_u64(bytes + 16) != n)
        return bad_set(why, 16, "the file has %zu bytes, expected %" PRIu64, n,
                       load_u64(bytes + 16));
    uint64_t sum = hash64(bytes, n - CHECKSUM_BYTES, 0);
    uint64_t stored = load_u64(bytes + n - CHECKSUM_BYTES);
    if (sum != stored)
        return bad_set(why, n - CHECKSUM_BYTES,
                       "checksum expected %016" PRIx64 ", found %016" PRIx64, sum, stored);
    return true;
}

static bool manifest_is_in_range(const struct dump_manifest *m, size_t n, struct bad *why)
{
    if (!is_power_between(m->segment_bytes, 1 << 20, 1 << 30))
        return bad_set(why, 40, "segment_bytes is %" PRIu64, m->segment_bytes);
    if (!is_power_between(m->block_bytes, 512, 65536))
        return bad_set(why, 48, "block_bytes is %" PRIu32, m->block_bytes);
    if (m->lanes < 1 || m->lanes > 16) return bad_set(why, 52, "lanes is %" PRIu32, m->lanes);
    if (m->time_unit > 2) return bad_set(why, 54, "time_unit is %" PRIu32, m->time_unit);
    if (m->regions < 1 || m->regions > 65536)
        return bad_set(why, 88, "regions is %" PRIu32, m->regions);
    size_t lists = MANIFEST_FIXED_BYTES + 8 * (size_t)m->lanes + 4 * (size_t)m->regions;
    if (lists + CHECKSUM_BYTES > n) return bad_set(why, 104, "the lists do not fit the file");
    return true;
}

bool dump_manifest_decode(const uint8_t *bytes, size_t n, struct dump_manifest *out,
                          struct bad *why)
{
    if (!manifest_is_sound(bytes, n, why)) return false;
    struct dump_manifest m = {
        .segment_bytes = load_u64(bytes + 40),
        .block_bytes = load_u32(bytes + 48),
        .lanes = load_u16(bytes + 52),
        .time_unit = load_u16(bytes + 54),
        .partition_interval = load_i64(bytes + 56),
        .sequence = load_u64(bytes + 64),
        .catalog_generation = load_u64(bytes + 72),
        .version_obeyed = load_u64(bytes + 80),
        .regions = load_u32(bytes + 88),
        .sealed_count = load_u32(bytes + 92),
        .delete_count = load_u32(bytes + 96),
    };
    memcpy(m.uuid, bytes + 24, sizeof m.uuid);
    if (!manifest_is_in_range(&m, n, why)) return false;
    for (uint32_t i = 0; i < m.lanes; i++) {
        m.head[i] = load_u64(bytes + MANIFEST_FIXED_BYTES + 8 * (size_t)i);
        if (m.head[i] < 1 || m.head[i] > SEGMENT_NUMBER_MAX)
            return bad_set(why, MANIFEST_FIXED_BYTES + 8 * (size_t)i,
                           "the head of lane %" PRIu32 " is %" PRIu64, i, m.head[i]);
    }
    *out = m;
    return true;
}

/* ---- a segment's header ---- */

enum { SEGMENT_HEADER_BYTES = 96 };

bool dump_header_decode(const uint8_t *block, const struct dump_manifest *m, uint32_t lane,
                        uint64_t number, struct dump_header *out, struct bad *why)
{
    if (memcmp(block, "RFSEGMT1", 8) != 0) return bad_set(why, 0, "expected the magic RFSEGMT1");
    uint64_t sum = hash64(block, 88, 0), stored = load_u64(block + 88);
    if (sum != stored)
        return bad_set(why, 88, "checksum expected %016" PRIx64 ", found %016" PRIx64, sum, stored);
    if (load_u32(block + 8) != 1)
        return bad_set(why, 8, "version %" PRIu32 ", expected 1", load_u32(block + 8));
    if (load_u32(block + 12) != lane)
        return bad_set(why, 12, "lane %" PRIu32 ", expected %" PRIu32, load_u32(block + 12), lane);
    if (memcmp(block + 16, m->uuid, 16) != 0)
        return bad_set(why, 16, "the uuid is another directory's");
    if (load_u64(block + 32) != m->segment_bytes || load_u32(block + 40) != m->block_bytes)
        return bad_set(why, 32, "the sizes are not the manifest's");
    if (load_u64(block + 48) != number)
        return bad_set(why, 48, "number %" PRIu64 ", expected %" PRIu64, load_u64(block + 48),
                       number);
    if (load_u64(block + 56) == 0 || load_u64(block + 64) == 0)
        return bad_set(why, 56, "generation or salt is 0");
    if (!are_zero(block + SEGMENT_HEADER_BYTES, m->block_bytes - SEGMENT_HEADER_BYTES))
        return bad_set(why, SEGMENT_HEADER_BYTES, "the rest of the header's block is not zero");
    *out = (struct dump_header){
        .generation = load_u64(block + 56),
        .salt = load_u64(block + 64),
        .mark = load_u64(block + 72),
        .cut = load_u64(block + 80),
    };
    return true;
}

/* ---- a record ---- */

const char *dump_type_name(uint32_t type)
{
    static const char *const names[] = {"unknown", "data",  "delete", "void", "pad",
                                        "fence",   "abort", "cut",    "mark", "close"};
    return names[type <= DUMP_CLOSE ? type : 0];
}

static bool has_no_payload(uint32_t type)
{
    return type == DUMP_VOID || type == DUMP_PAD || type == DUMP_MARK || type == DUMP_CLOSE;
}

enum dump_state dump_record_decode(const uint8_t *bytes, size_t left, uint64_t salt, uint64_t lsn,
                                   struct dump_record *out)
{
    if (left < DUMP_HEAD_BYTES || load_u64(bytes + 8) != lsn) return DUMP_NONE;
    uint64_t sum = hash64(bytes + 8, 56, salt);
    if (load_u64(bytes) != (sum != 0 ? sum : 1)) return DUMP_NONE;
    struct dump_record r = {
        .lsn = lsn,
        .mark = load_u64(bytes + 16),
        .payload_bytes = load_u32(bytes + 32),
        .covered_bytes = load_u32(bytes + 36),
        .type = bytes[40],
        .payload = bytes + DUMP_HEAD_BYTES,
    };
    bool is_known =
        bytes[41] == 1 && r.type >= DUMP_DATA && r.type <= DUMP_CLOSE && are_zero(bytes + 42, 22);
    if (!is_known) {
        *out = r;
        return DUMP_NEWER;
    }
    bool fits = r.covered_bytes % 64 == 0 && r.covered_bytes <= left &&
                r.covered_bytes >= DUMP_HEAD_BYTES + (uint64_t)r.payload_bytes;
    if (!fits || (has_no_payload(r.type) && r.payload_bytes != 0)) return DUMP_NONE;
    *out = r;
    if (r.type == DUMP_VOID || r.type == DUMP_PAD) return DUMP_WHOLE;
    uint64_t payload_sum = r.payload_bytes > 0 ? hash64(r.payload, r.payload_bytes, salt) : 0;
    return payload_sum == load_u64(bytes + 24) ? DUMP_WHOLE : DUMP_BROKEN;
}
