/* Where the time of batches goes: a histogram a stage, the slowest batches whole, and the newest
 * ones for a trace.
 *
 * Each writer keeps its own, so that telling costs no lock; profile_sum puts them together.
 * Thread   a struct profile_part belongs to one writer */
#ifndef RF_CLI_PROFILE_H
#define RF_CLI_PROFILE_H

#include "cli/bench_report.h"

/* A batch, as it was told. */
struct profile_batch {
    int64_t start_ns, total_ns;
    int64_t stage_ns[RF_STAGES];
    uint64_t position;
    uint32_t writer, lane;
    int32_t code;
};

enum { PROFILE_SLOWEST = 16384 }; /* kept whole: the slowest 0.1 % of 16 million batches */

struct profile_part {
    struct hist stage[RF_STAGES], total;
    int64_t stage_sum[RF_STAGES];
    struct profile_batch *slow; /* a heap, the quickest of them first */
    size_t slow_count, slow_capacity;
    struct profile_batch *newest; /* a ring */
    size_t newest_count, newest_capacity;
};
void profile_part_init(struct profile_part *p, size_t newest_capacity);
void profile_part_deinit(struct profile_part *p);
void profile_part_add(struct profile_part *p, const struct profile_batch *b);

/* All parts together. */
struct profile {
    struct hist stage[RF_STAGES], total;
    int64_t stage_sum[RF_STAGES];
    uint64_t batches;
    struct profile_batch *slow; /* the slowest 0.1 %, at least one, slowest first */
    size_t slow_count;
    int64_t slow_sum[RF_STAGES], slow_total;
    bool slow_is_cut; /* there are more than were kept */
};
void profile_sum(struct profile *p, const struct profile_part *parts, size_t count);
void profile_deinit(struct profile *p);

void profile_text(const struct profile *p, FILE *f);
/* Members of an object that the caller opens and closes. */
void profile_json(const struct profile *p, struct json *j);
/* One SVG, complete. */
void profile_svg(const struct profile *p, const char *title, FILE *f);
/* Chrome's trace format; returns how many batches are in it. */
size_t profile_trace(const struct profile_part *parts, size_t count, const struct profile *p,
                     bool blocking, FILE *f);

#endif
