/* Reads all that a batch or a delete says, so that a sanitizer sees every byte it leads to. */
#ifndef RF_TESTS_READ_BATCH_H
#define RF_TESTS_READ_BATCH_H

#include <stdint.h>

/* A value that depends on every byte read; the payload has passed batch_check. */
uint64_t read_whole_batch(const uint8_t *payload, uint32_t bytes);
/* As above; the payload has passed batch_decode_delete. */
uint64_t read_whole_delete(const uint8_t *payload);

#endif
