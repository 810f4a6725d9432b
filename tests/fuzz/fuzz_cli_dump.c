/* Any bytes as a manifest, as a segment's header, and as the payloads of data and delete records:
 * refused, or printed without reading past their end. */
#include "cli/dump_payload.h"

#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static FILE *nowhere;
    if (nowhere == NULL) nowhere = fopen("/dev/null", "w");
    CHECK(nowhere != NULL);
    struct dump_manifest manifest;
    struct dump_record record;
    struct dump_counts counts;
    struct bad why = {0};
    CHECK(dump_manifest_decode(data, bytes, &manifest, &why) == (why.why[0] == '\0'));
    if (dump_record_decode(data, bytes, 7, 64, &record) == DUMP_WHOLE)
        CHECK(DUMP_HEAD_BYTES + (size_t)record.payload_bytes <= bytes);
    why = (struct bad){0};
    if (dump_data_check(data, bytes, &counts, &why))
        dump_data_print(nowhere, data, bytes, UNIT_NS, true);
    else
        CHECK(why.why[0] != '\0');
    why = (struct bad){0};
    CHECK(dump_delete_print(nowhere, data, bytes, UNIT_NS, true, &why) == (why.why[0] == '\0'));
    return 0;
}
