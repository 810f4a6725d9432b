/* The manifest and the segment header: what is taken for valid is written back as the same bytes. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "wal/manifest.h"
#include "wal/segment.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void decode_manifest(const uint8_t *data, size_t bytes)
{
    struct wal_manifest m;
    struct err_msg msg = {0};
    if (wal_manifest_decode(data, bytes, "manifest", &msg, &m) != 0) {
        CHECK(msg.code != 0);
        return;
    }
    uint8_t *again = NULL;
    size_t n = 0;
    CHECK(wal_manifest_encode(&m, &msg, &again, &n) == 0);
    CHECK(n == bytes && memcmp(again, data, n) == 0);
    mem_free(again);
    wal_manifest_deinit(&m);
}

static void decode_segment_head(const uint8_t *data)
{
    struct wal_segment_head h;
    uint8_t again[WAL_BLOCK_BYTES_MIN];
    if (wal_segment_head_decode(data, WAL_BLOCK_BYTES_MIN, &h) != WAL_SEGMENT_HEAD_VALID) return;
    wal_segment_head_encode(again, &h);
    CHECK(memcmp(again, data, sizeof again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    decode_manifest(data, bytes);
    if (bytes >= 112) { /* with a right length and checksum, so that the lists are reached */
        uint8_t *sealed = mem_alloc(bytes);
        if (sealed == NULL) return 0;
        memcpy(sealed, data, bytes);
        memcpy(sealed, "RFMANIF1", 8);
        store_u64(sealed + 16, bytes);
        store_u64(sealed + bytes - 8, hash64(sealed, bytes - 8, 0));
        decode_manifest(sealed, bytes);
        mem_free(sealed);
    }
    if (bytes >= WAL_BLOCK_BYTES_MIN) {
        uint8_t sealed[WAL_BLOCK_BYTES_MIN];
        decode_segment_head(data);
        memcpy(sealed, data, sizeof sealed);
        memcpy(sealed, "RFSEGMT1", 8);
        store_u64(sealed + 88, hash64(sealed, 88, 0));
        decode_segment_head(sealed);
    }
    return 0;
}
