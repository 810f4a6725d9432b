/* Builds a lane's log in memory, byte for byte as a lane would leave it, for tests. */
#ifndef RF_TESTS_LOG_BUILDER_H
#define RF_TESTS_LOG_BUILDER_H

#include "io/io.h"
#include "wal/cut.h"
#include "wal/record.h"
#include "wal/replay.h"
#include "wal/segment.h"
#include "wal/verdict.h"

#include <stdbool.h>
#include <stdint.h>

#define BUILDER_SEGMENTS_MAX 8

struct log_builder {
    uint64_t segment_bytes;
    uint32_t block_bytes;
    uint32_t lane;
    uint32_t count; /* segments, numbered from head.number of the first on */
    struct wal_segment_head head[BUILDER_SEGMENTS_MAX];
    uint8_t *image[BUILDER_SEGMENTS_MAX]; /* with both header copies when the size allows them */
    uint64_t lsn;                         /* where the next record goes */
    uint64_t salt;                        /* in force there */
    uint64_t mark;                        /* that the next record carries */
    uint64_t seed;                        /* of salts, moved on */
};

/* first_number: of the first segment. Images are filled with old bytes when stale is true, else with
 * zeros. Salts come from seed. */
void builder_init(struct log_builder *b, uint64_t segment_bytes, uint32_t block_bytes,
                  uint32_t count, uint64_t first_number, uint64_t seed, bool stale);
void builder_deinit(struct log_builder *b);
/* A copy with images of its own. */
void builder_copy(struct log_builder *to, const struct log_builder *from);

/* Appends a record; goes to the next segment, with a pad, when it does not fit. Returns its lsn. */
uint64_t builder_append(struct log_builder *b, uint8_t type, const void *payload,
                        uint32_t payload_bytes);
uint64_t builder_data(struct log_builder *b, const char *text);
uint64_t builder_void(struct log_builder *b, uint32_t covered_bytes);
uint64_t builder_fence(struct log_builder *b, uint64_t from_lsn);
uint64_t builder_abort(struct log_builder *b, const uint64_t *lsns, uint32_t n);
uint64_t builder_close(struct log_builder *b);
/* Fills up the block with a pad; from here on everything before is durable: mark = lsn. */
void builder_group(struct log_builder *b);
/* Leaves the rest of the segment as one pad and goes on in the next. */
void builder_next_segment(struct log_builder *b);
/* What a replay that ends at p would write: sets lsn and salt behind it. */
void builder_cut(struct log_builder *b, uint64_t p_lsn);

/* Writes the headers into the images anew, after a change of b->head. */
void builder_heads(struct log_builder *b);
/* The bytes at an lsn. */
uint8_t *builder_at(struct log_builder *b, uint64_t lsn);

/* The verdict on the log as it is. views: BUILDER_SEGMENTS_MAX items, written. */
struct wal_verdict_input builder_input(const struct log_builder *b,
                                       struct wal_verdict_segment *views);
int builder_judge(const struct log_builder *b, struct err_msg *msg, struct wal_verdict *v_out);

/* ---- in files ---- */

/* Makes the lane's folder and its numbered files with the images, in an environment. */
void builder_write_files(const struct log_builder *b, struct io_env *env);

/* The lane as an open engine holds it: files locked, images of its own. */
struct builder_lane {
    struct io_env *env;
    struct wal_live_segment segment[BUILDER_SEGMENTS_MAX];
    uint64_t segment_bytes;
    uint32_t count;
};
void builder_lane_open(struct builder_lane *l, const struct log_builder *b, struct io_env *env);
void builder_lane_close(struct builder_lane *l);
/* Replay options that fit b and l; record and ctx are the test's to set. */
struct wal_replay_options builder_replay(const struct log_builder *b, struct builder_lane *l);
struct wal_cut_options builder_cut_options(const struct log_builder *b, struct builder_lane *l);

#endif
