/* The checksum of a record's payload. */
#include "bench/shim/shim.h"
#include "wal/record.h"

#include <stdlib.h>
#include <string.h>

static void checksum(struct bench_state *state)
{
    size_t bytes = (size_t)bench_arg(state, 0);
    uint8_t *data = malloc(bytes);
    if (data == NULL) {
        bench_fail(state, "no memory");
        return;
    }
    memset(data, 7, bytes);
    while (bench_next(state))
        bench_use(wal_payload_checksum(data, bytes, 1));
    bench_bytes(state, bench_rounds(state) * (int64_t)bytes);
    free(data);
}
BENCH(checksum, 128, 4096, 90112, 1048576)
