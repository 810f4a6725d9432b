/* The bytes of a record header and of the log's own payloads; wal/record.h has the tables. */
#include "wal/record.h"

#include "base/bytes.h"
#include "base/hash.h"

#include <string.h>

enum {
    OFF_CHECKSUM = 0,
    OFF_LSN = 8,
    OFF_MARK = 16,
    OFF_PAYLOAD_CHECKSUM = 24,
    OFF_PAYLOAD_BYTES = 32,
    OFF_COVERED_BYTES = 36,
    OFF_TYPE = 40,
    OFF_VERSION = 41,
    OFF_RESERVED = 42,
};
_Static_assert(OFF_PAYLOAD_CHECKSUM + sizeof(uint64_t) == OFF_PAYLOAD_BYTES, "no gap");
_Static_assert(OFF_COVERED_BYTES + sizeof(uint32_t) == OFF_TYPE, "no gap");
_Static_assert(OFF_RESERVED < WAL_RECORD_HEAD_BYTES, "the header has reserved bytes");

/* Zero marks "no header" at the first byte, so that zeros are refused before anything is hashed. */
static uint64_t head_checksum(const uint8_t in[WAL_RECORD_HEAD_BYTES], uint64_t salt)
{
    uint64_t sum = hash64(in + OFF_LSN, WAL_RECORD_HEAD_BYTES - OFF_LSN, salt);
    return sum != 0 ? sum : 1; /* unreachable: zero is one in 2^64 */
}

static bool type_has_payload(uint8_t type)
{
    return wal_record_is_batch(type) || type == WAL_RECORD_FENCE || type == WAL_RECORD_ABORT ||
           type == WAL_RECORD_CUT;
}

static bool sizes_fit(const struct wal_record_head *h)
{
    if (h->covered_bytes % WAL_RECORD_ALIGN != 0 || h->covered_bytes > WAL_RECORD_COVERED_MAX)
        return false;
    if ((uint64_t)h->payload_bytes + WAL_RECORD_HEAD_BYTES > h->covered_bytes) return false;
    if (h->payload_bytes == 0) return h->payload_checksum == 0;
    return type_has_payload(h->type);
}

void wal_record_encode(uint8_t out[WAL_RECORD_HEAD_BYTES], const struct wal_record_head *h,
                       uint64_t salt)
{
    CHECK(h->type >= WAL_RECORD_DATA && h->type <= WAL_RECORD_TYPE_LAST);
    CHECK(h->version == WAL_RECORD_VERSION && sizes_fit(h));
    CHECK(h->lsn % WAL_RECORD_ALIGN == 0);

    store_u64(out + OFF_LSN, h->lsn);
    store_u64(out + OFF_MARK, h->mark);
    store_u64(out + OFF_PAYLOAD_CHECKSUM, h->payload_checksum);
    store_u32(out + OFF_PAYLOAD_BYTES, h->payload_bytes);
    store_u32(out + OFF_COVERED_BYTES, h->covered_bytes);
    out[OFF_TYPE] = h->type;
    out[OFF_VERSION] = h->version;
    memset(out + OFF_RESERVED, 0, WAL_RECORD_HEAD_BYTES - OFF_RESERVED);
    store_u64(out + OFF_CHECKSUM, head_checksum(out, salt));
}

static bool reserved_is_zero(const uint8_t in[WAL_RECORD_HEAD_BYTES])
{
    for (unsigned i = OFF_RESERVED; i < WAL_RECORD_HEAD_BYTES; i++)
        if (in[i] != 0) return false;
    return true;
}

enum wal_record_state wal_record_decode(const uint8_t in[WAL_RECORD_HEAD_BYTES], uint64_t salt,
                                        uint64_t expected_lsn, struct wal_record_head *out)
{
    /* The position first: it refuses nearly everything that is no header without a hash. */
    if (load_u64(in + OFF_LSN) != expected_lsn) return WAL_RECORD_INVALID;
    if (load_u64(in + OFF_CHECKSUM) != head_checksum(in, salt)) return WAL_RECORD_INVALID;

    struct wal_record_head h = {
        .lsn = expected_lsn,
        .mark = load_u64(in + OFF_MARK),
        .payload_checksum = load_u64(in + OFF_PAYLOAD_CHECKSUM),
        .payload_bytes = load_u32(in + OFF_PAYLOAD_BYTES),
        .covered_bytes = load_u32(in + OFF_COVERED_BYTES),
        .type = in[OFF_TYPE],
        .version = in[OFF_VERSION],
    };
    if (h.version != WAL_RECORD_VERSION || h.type == 0 || h.type > WAL_RECORD_TYPE_LAST ||
        !reserved_is_zero(in)) {
        *out = h;
        return WAL_RECORD_NEWER;
    }
    if (!sizes_fit(&h)) return WAL_RECORD_INVALID;
    *out = h;
    return WAL_RECORD_VALID;
}

uint64_t wal_payload_checksum(const void *payload, size_t payload_bytes, uint64_t salt)
{
    return payload_bytes == 0 ? 0 : hash64(payload, payload_bytes, salt);
}

bool wal_payload_whole(const struct wal_record_head *h, const void *payload, uint64_t salt)
{
    return h->payload_checksum == wal_payload_checksum(payload, h->payload_bytes, salt);
}

const char *wal_record_type_name(uint8_t type)
{
    static const char *const names[] = {
        [WAL_RECORD_DATA] = "data", [WAL_RECORD_DELETE] = "delete", [WAL_RECORD_VOID] = "void",
        [WAL_RECORD_PAD] = "pad",   [WAL_RECORD_FENCE] = "fence",   [WAL_RECORD_ABORT] = "abort",
        [WAL_RECORD_CUT] = "cut",   [WAL_RECORD_MARK] = "mark",     [WAL_RECORD_CLOSE] = "close",
    };
    if (type == 0 || type > WAL_RECORD_TYPE_LAST) return "unknown";
    return names[type];
}

void wal_fence_encode(uint8_t out[WAL_FENCE_PAYLOAD_BYTES], uint64_t from_lsn)
{
    store_u64(out, from_lsn);
}

bool wal_fence_decode(const uint8_t *in, uint32_t payload_bytes, uint64_t own_lsn,
                      uint64_t *from_lsn_out)
{
    if (payload_bytes != WAL_FENCE_PAYLOAD_BYTES) return false;
    uint64_t from = load_u64(in);
    if (from > own_lsn) return false;
    *from_lsn_out = from;
    return true;
}

void wal_abort_encode(uint8_t *out, const uint64_t *lsns, uint32_t n)
{
    CHECK(n >= 1 && n <= WAL_ABORT_LSNS_MAX);
    store_u32(out, n);
    store_u32(out + 4, 0);
    for (uint32_t i = 0; i < n; i++)
        store_u64(out + 8 + 8 * (size_t)i, lsns[i]);
}

bool wal_abort_decode(const uint8_t *in, uint32_t payload_bytes, uint64_t own_lsn, uint32_t *n_out)
{
    if (payload_bytes < 16) return false;
    uint32_t n = load_u32(in);
    if (n == 0 || n > WAL_ABORT_LSNS_MAX || payload_bytes != wal_abort_payload_bytes(n))
        return false;
    if (load_u32(in + 4) != 0) return false;
    for (uint32_t i = 0; i < n; i++)
        if (wal_abort_lsn(in, i) >= own_lsn) return false;
    *n_out = n;
    return true;
}

uint64_t wal_abort_lsn(const uint8_t *in, uint32_t i)
{
    return load_u64(in + 8 + 8 * (size_t)i);
}

void wal_cut_encode(uint8_t out[WAL_CUT_PAYLOAD_BYTES], uint64_t p_lsn, uint64_t new_salt)
{
    CHECK(new_salt != 0);
    store_u64(out, p_lsn);
    store_u64(out + 8, new_salt);
}

bool wal_cut_decode(const uint8_t *in, uint32_t payload_bytes, uint64_t own_lsn,
                    uint64_t *p_lsn_out, uint64_t *new_salt_out)
{
    if (payload_bytes != WAL_CUT_PAYLOAD_BYTES) return false;
    uint64_t p = load_u64(in);
    uint64_t salt = load_u64(in + 8);
    if (p > own_lsn || salt == 0) return false;
    *p_lsn_out = p;
    *new_salt_out = salt;
    return true;
}
