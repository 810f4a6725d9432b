/* A lane's log, walked from its files as docs/format/wal.md says, and printed on the way.
 * Thread   one at a time */
#ifndef RF_CLI_DUMP_WALK_H
#define RF_CLI_DUMP_WALK_H

#include "cli/dump_format.h"

#include <stdio.h>

struct dump_segment {
    uint64_t number;
    const uint8_t *bytes; /* the whole file, segment_bytes long */
    struct dump_header header;
};

struct dump_lane {
    const struct dump_manifest *manifest;
    uint32_t index;
    const struct dump_segment *segment; /* rising by number, without a gap, from the head on */
    size_t count;                       /* >= 1 */
    bool payloads, rows;                /* how much of a record is printed */
};

struct dump_result {
    uint64_t records, discarded, faults;
    bool clean;
};

/* Prints to f; faults are lines that begin with "fault:". */
void dump_lane_print(FILE *f, const struct dump_lane *lane, struct dump_result *result_out);

#endif
