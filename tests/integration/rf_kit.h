/* What tests on the public header share: a directory, small engines, small tablets. */
#ifndef RF_KIT_H
#define RF_KIT_H

#include <ringfence/ringfence.h>

#include <stdbool.h>
#include <stdint.h>

#define KIT_PATH_BYTES 64

/* A new directory below /var/tmp, which is on a disk. Fails the test when there is none. */
void kit_dir(char *path_out);
void kit_remove(const char *path);

/* Segments of 1 MiB, 16 of them, a quiet log. */
void kit_options(struct rf_options *options);
/* Fails the test with the engine's text. */
struct rf_engine *kit_open(const char *dir, const struct rf_options *options);
struct rf_stats kit_stats(struct rf_engine *engine);
uint64_t kit_count(struct rf_engine *engine, const char *table);
int64_t kit_now_ns(void); /* CLOCK_MONOTONIC */

/* One row at `time` of table, with a FIELD "v" INT64; host NULL: no TAG. Lasts until the next call
 * on this thread. */
const struct rf_tablet *kit_row(const char *table, const char *host, int64_t time, int64_t value);
/* Writes it, or fails the test. */
void kit_write(struct rf_engine *engine, const char *table, const char *host, int64_t time,
               int64_t value);

#endif
