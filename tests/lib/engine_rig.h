/* A whole engine through rf_open on the fault double, its catalog in the same trace; and tablets
 * whose rows tell by whom, in which batch and how often they were written. */
#ifndef RF_TESTS_ENGINE_RIG_H
#define RF_TESTS_ENGINE_RIG_H

#include "base/clock.h"
#include "io/fault.h"
#include "ringfence/ringfence.h"

#include <stdbool.h>
#include <stdint.h>

struct engine_rig {
    struct io_env *env; /* the double; NULL: the directory `dir` of the real file system */
    const char *dir;
    const struct clock *clock; /* NULL: the real ones */
    int64_t close_wait_ns;     /* longest that closing waits for the double; 0: as it is */
    char vfs[32];
    struct rf_options o;
    struct rf_engine *e;
    struct rf_error error; /* of the last call that failed */
    bool quiet;            /* engine_rig_verify prints nothing */
    char fault[512];       /* the first one that it was told */
};

/* Options that suit a crash: 1 MiB segments, five of them, short waits, no log on stderr. */
void engine_rig_init(struct engine_rig *rig, struct io_env *env);
/* rf_open with the rig's seams; rig->e is NULL on failure. One open rig at a time. */
int engine_rig_open(struct engine_rig *rig);
int engine_rig_close(struct engine_rig *rig); /* 0 when it is not open */
/* rf_verify of the closed directory. Prints each fault, unless quiet. */
enum rf_verdict engine_rig_verify(struct engine_rig *rig);

/* ---- rows that tell what they are ----
 *
 * Batch b >= 1 of writer w is one tablet of the table "story", device w: a row at time 0 with n = b,
 * which every batch of w overwrites; STORY_LOW rows in partition 0 and STORY_HIGH ones in three
 * others, at times that no other batch has, with n = b. The blob is a pattern of (w, b, row). */
#define STORY_TABLE    "story"
#define STORY_INTERVAL INT64_C(1000000)
#define STORY_LOW      3u
#define STORY_HIGH     3u
#define STORY_ROWS     (1 + STORY_LOW + STORY_HIGH)
#define STORY_WRITERS  8u
#define STORY_BATCHES  512u /* a writer's, from 1 */

struct story_tablet {
    struct rf_tablet tablet;
    struct rf_column column[4];
    int64_t times[STORY_ROWS];
    int64_t n[STORY_ROWS];
    uint32_t tag_offsets[STORY_ROWS + 1], blob_offsets[STORY_ROWS + 1];
    double extra[STORY_ROWS];
    char tags[2 * STORY_ROWS + 1];
    char extra_name[16];
    uint8_t *blob;
};
/* extra: adds a column "x<extra>" that automatic creation makes; 0: none. blob_bytes: of each row.
 * The tablet points into *t, which must not move; story_free. */
void story_tablet(struct story_tablet *t, uint32_t writer, uint32_t batch, uint32_t blob_bytes,
                  uint32_t extra);
void story_free(struct story_tablet *t);
/* The low rows of a batch. */
void story_delete(struct rf_delete_options *o, struct rf_tag_filter *tag, char tag_text[4],
                  uint32_t writer, uint32_t batch);

/* What a scan of the table finds. */
struct story_found {
    uint8_t low[STORY_WRITERS][STORY_BATCHES]; /* rows of it that are there */
    uint8_t high[STORY_WRITERS][STORY_BATCHES];
    uint32_t newest[STORY_WRITERS]; /* n at time 0; 0: no such row */
    uint64_t rows;
};
/* Scans everything; prints and returns false when a row is what no batch has written, comes twice,
 * or when a scan fails. A missing table is no row. */
bool story_scan(struct rf_engine *e, struct story_found *found_out);

/* ---- what has to be found ---- */

enum story_fate { FATE_NONE, FATE_ABSENT, FATE_EITHER, FATE_PRESENT };
struct story_told {
    uint8_t high[STORY_WRITERS][STORY_BATCHES]; /* enum story_fate, of the batch */
    uint8_t low[STORY_WRITERS][STORY_BATCHES];  /* of its low rows, when the batch is there */
};
/* Whole batches, those that must be there and no other, the newest one at time 0. Prints the first
 * thing that is wrong. */
bool story_is_right(const struct story_told *told, const struct story_found *found);
/* What was found is there for good, what was not is not. */
void story_settle(struct story_told *told, const struct story_found *found);
/* Prints; returns false. */
bool story_wrong(const char *what, uint32_t writer, uint32_t batch, uint64_t got);

/* One line of what the tables with this first letter are: "d1(a:4,b:4);d3(...)...". */
void story_tables(struct rf_engine *e, char letter, char *text, size_t bytes);

#endif
