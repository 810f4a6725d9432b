/* What a data or delete record holds, printed. See docs/format/wal.md.
 * Thread   one at a time */
#ifndef RF_CLI_DUMP_PAYLOAD_H
#define RF_CLI_DUMP_PAYLOAD_H

#include "cli/dump_format.h"
#include "cli/timefmt.h"

#include <stdio.h>

struct dump_counts {
    uint64_t groups, devices, fragments, rows;
};
/* Checks a data payload's parts and counts them. False: why, with the offset in the payload. */
RF_NODISCARD bool dump_data_check(const uint8_t *payload, size_t n, struct dump_counts *counts_out,
                                  struct bad *why);
/* Of a payload that dump_data_check accepted: its columns, fragments and devices, a line each, and
 * with_rows each row's values. */
void dump_data_print(FILE *f, const uint8_t *payload, size_t n, enum time_unit unit,
                     bool with_rows);

/* Both for a delete: checks, and prints its lines. */
RF_NODISCARD bool dump_delete_print(FILE *f, const uint8_t *payload, size_t n, enum time_unit unit,
                                    bool with_devices, struct bad *why);

#endif
