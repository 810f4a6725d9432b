/* Record headers and the log's own payloads: nothing read past its end, and what is taken for valid
 * is written back as the same bytes.
 *
 * Input: salt 8, lsn 8, header 64, payload. */
#include "base/bytes.h"
#include "base/hash.h"
#include "wal/record.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void decode_payload(const struct wal_record_head *h, const uint8_t *payload, size_t bytes)
{
    uint32_t n = (uint32_t)bytes;
    uint64_t from = 0, p = 0, salt = 0;
    uint32_t lsns = 0;
    uint8_t out[WAL_CUT_PAYLOAD_BYTES];
    if (wal_fence_decode(payload, n, h->lsn, &from)) {
        CHECK(from <= h->lsn);
        wal_fence_encode(out, from);
        CHECK(memcmp(out, payload, WAL_FENCE_PAYLOAD_BYTES) == 0);
    }
    if (wal_cut_decode(payload, n, h->lsn, &p, &salt)) {
        CHECK(p <= h->lsn && salt != 0);
        wal_cut_encode(out, p, salt);
        CHECK(memcmp(out, payload, WAL_CUT_PAYLOAD_BYTES) == 0);
    }
    if (wal_abort_decode(payload, n, h->lsn, &lsns))
        for (uint32_t i = 0; i < lsns; i++)
            CHECK(wal_abort_lsn(payload, i) < h->lsn);
}

static void decode(const uint8_t in[WAL_RECORD_HEAD_BYTES], uint64_t salt, uint64_t lsn,
                   const uint8_t *payload, size_t payload_bytes)
{
    struct wal_record_head h;
    if (wal_record_decode(in, salt, lsn, &h) != WAL_RECORD_VALID) return;
    CHECK(h.lsn == lsn && h.covered_bytes >= WAL_RECORD_HEAD_BYTES + h.payload_bytes);
    CHECK(wal_record_type_name(h.type)[0] != 'u');
    if (lsn % WAL_RECORD_ALIGN == 0) {
        uint8_t again[WAL_RECORD_HEAD_BYTES];
        wal_record_encode(again, &h, salt);
        CHECK(memcmp(again, in, sizeof again) == 0);
    }
    if (h.payload_bytes <= payload_bytes) (void)wal_payload_whole(&h, payload, salt);
    decode_payload(&h, payload, payload_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 16 + WAL_RECORD_HEAD_BYTES) return 0;
    uint64_t salt = load_u64(data), lsn = load_u64(data + 8);
    const uint8_t *payload = data + 16 + WAL_RECORD_HEAD_BYTES;
    size_t payload_bytes = bytes - 16 - WAL_RECORD_HEAD_BYTES;
    decode(data + 16, salt, lsn, payload, payload_bytes);

    /* With a right lsn and checksum under it, so that what lies behind them is reached. */
    uint8_t sealed[WAL_RECORD_HEAD_BYTES];
    memcpy(sealed, data + 16, sizeof sealed);
    store_u64(sealed + 8, lsn);
    uint64_t sum = hash64(sealed + 8, sizeof sealed - 8, salt);
    store_u64(sealed, sum != 0 ? sum : 1);
    decode(sealed, salt, lsn, payload, payload_bytes);
    return 0;
}
