/* Bytes as the payload of a data record and of a delete record: refused, or readable to the last
 * byte. */
#include "memtable/batch.h"
#include "tests/lib/read_batch.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct err_msg msg = {0};
    struct batch_delete delete_;
    if (bytes > BATCH_BYTES_MAX) return 0;
    uint8_t *payload = malloc(bytes != 0 ? bytes : 1); /* aligned, and ends where its bytes end */
    if (payload == NULL) return 0;
    if (bytes != 0) memcpy(payload, data, bytes);
    if (batch_check(payload, (uint32_t)bytes, &msg) == 0)
        (void)read_whole_batch(payload, (uint32_t)bytes);
    if (batch_decode_delete(payload, (uint32_t)bytes, &delete_, NULL) == 0)
        (void)read_whole_delete(payload);
    free(payload);
    return 0;
}
