/* The bytes of a directory, read a second time: straight from docs/format/wal.md, sharing nothing
 * with the engine's own readers but the hash. So `dump` tests the page, and the page the engine.
 *
 * Thread   all calls are pure: any thread, no allocation */
#ifndef RF_CLI_DUMP_FORMAT_H
#define RF_CLI_DUMP_FORMAT_H

#include "cli/text.h"

struct dump_manifest {
    uint8_t uuid[16];
    uint64_t segment_bytes;
    uint32_t block_bytes;
    uint32_t lanes;
    uint32_t time_unit; /* 0 ns, 1 us, 2 ms */
    int64_t partition_interval;
    uint64_t sequence;
    uint64_t catalog_generation;
    uint64_t version_obeyed;
    uint32_t regions, sealed_count, delete_count;
    uint64_t head[16];
};
/* False: why says what is wrong, with the offset as its column. */
RF_NODISCARD bool dump_manifest_decode(const uint8_t *bytes, size_t n, struct dump_manifest *out,
                                       struct bad *why);

struct dump_header {
    uint64_t generation, salt, mark, cut;
};
/* One copy of a segment's header: a block of m->block_bytes. */
RF_NODISCARD bool dump_header_decode(const uint8_t *block, const struct dump_manifest *m,
                                     uint32_t lane, uint64_t number, struct dump_header *out,
                                     struct bad *why);

enum dump_type {
    DUMP_DATA = 1,
    DUMP_DELETE,
    DUMP_VOID,
    DUMP_PAD,
    DUMP_FENCE,
    DUMP_ABORT,
    DUMP_CUT,
    DUMP_MARK,
    DUMP_CLOSE,
};
const char *dump_type_name(uint32_t type);

enum { DUMP_HEAD_BYTES = 64 };
enum dump_state {
    DUMP_NONE,   /* no header under this salt */
    DUMP_NEWER,  /* a later version's */
    DUMP_BROKEN, /* a valid header; its payload does not hold */
    DUMP_WHOLE
};
struct dump_record {
    uint64_t lsn, mark;
    uint32_t payload_bytes, covered_bytes;
    uint32_t type;
    const uint8_t *payload;
};
/* bytes: from the record's first byte to the end of the segment's usable bytes, `left` of them. */
enum dump_state dump_record_decode(const uint8_t *bytes, size_t left, uint64_t salt, uint64_t lsn,
                                   struct dump_record *out);

#endif
