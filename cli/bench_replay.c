/* A file of line protocol, as batches in memory. */
#include "cli/batch.h"
#include "cli/bench_source.h"
#include "cli/input.h"
#include "cli/lp.h"
#include "cli/memory.h"

#include "base/alloc.h"

#include <stdio.h>

struct bench_replay {
    struct batch *batch;
    struct bench_batch *face;
    size_t count, batch_capacity, face_capacity;
};

static uint64_t bytes_of(const struct rf_tablet *t)
{
    uint64_t bytes = 8 * (uint64_t)t->rows;
    for (uint32_t i = 0; i < t->columns; i++) {
        const struct rf_column *c = &t->column[i];
        for (uint32_t row = 0; row < t->rows; row++) {
            bool is_null = c->nulls != NULL && (c->nulls[row / 8] >> row % 8 & 1) != 0;
            if (is_null) continue;
            bytes +=
                c->offsets != NULL ? c->offsets[row + 1] - c->offsets[row] : type_width(c->type);
        }
    }
    return bytes;
}

/* One block of lines as a batch. */
static bool add_block(struct bench_replay *r, const struct block *block, const struct timefmt *time,
                      struct row *row, const char *command)
{
    need_room(&r->batch, &r->batch_capacity, r->count + 1, sizeof *r->batch);
    struct batch *b = &r->batch[r->count++];
    *b = (struct batch){0};
    batch_begin(b);
    for (size_t i = 0; i < block->record_count; i++) {
        struct bad bad = {0};
        enum lp_result parsed = lp_parse(block_text(block, i), time, row, &bad);
        if (parsed == LP_NOTHING) continue;
        if (parsed == LP_ROW && batch_add(b, row, (uint32_t)i, &bad)) continue;
        fprintf(stderr, "ringfence %s: %s:%llu:%zu: %s\n", command, block->file,
                (unsigned long long)block->record[i].line, bad.column, bad.why);
        return false;
    }
    batch_finish(b);
    if (b->tablet_count > 0) return true;
    batch_deinit(b); /* comments and empty lines only */
    r->count--;
    return true;
}

/* The batches stand still now: what is lent of them can be kept. */
static void make_faces(struct bench_replay *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct batch *b = &r->batch[i];
        need_room(&r->face, &r->face_capacity, i + 1, sizeof *r->face);
        r->face[i] =
            (struct bench_batch){b->tablet, (uint32_t)b->tablet_count, b->rows, b->points, 0};
        for (size_t t = 0; t < b->tablet_count; t++)
            r->face[i].bytes += bytes_of(&b->tablet[t]);
    }
}

enum exit_code bench_replay_load(const struct bench_options *o, enum rf_time_unit unit,
                                 struct bench_replay **replay_out)
{
    struct bench_replay *r = need_zalloc(sizeof *r);
    struct input *input = input_create(&o->replay, 1, ENDS_WITH_LINE);
    struct block block = {0};
    struct row row = {0};
    const struct timefmt time = {UNIT_NS, (enum time_unit)unit, TIME_EXACT, NULL};
    char why[512] = "";
    enum exit_code code = EXIT_OK;
    while (code == EXIT_OK) {
        int rc = input_next(input, o->rows, &block, why, sizeof why);
        if (rc == INPUT_END) break;
        if (rc == INPUT_INTERRUPTED) {
            code = EXIT_STOPPED;
        } else if (rc == INPUT_FAILED) {
            fprintf(stderr, "ringfence %s: %s\n", o->command, why);
            code = EXIT_ENVIRONMENT;
        } else if (!add_block(r, &block, &time, &row, o->command)) {
            code = EXIT_REFUSED;
        }
    }
    block_deinit(&block);
    row_deinit(&row);
    input_destroy(input);
    if (code == EXIT_OK && r->count == 0) {
        fprintf(stderr, "ringfence %s: %s has no rows\n", o->command, o->replay);
        code = EXIT_REFUSED;
    }
    make_faces(r);
    if (code == EXIT_OK)
        *replay_out = r;
    else
        bench_replay_destroy(r);
    return code;
}

void bench_replay_destroy(struct bench_replay *r)
{
    if (r == NULL) return;
    for (size_t i = 0; i < r->count; i++)
        batch_deinit(&r->batch[i]);
    mem_free(r->batch);
    mem_free(r->face);
    mem_free(r);
}

size_t bench_replay_batches(const struct bench_replay *r)
{
    return r->count;
}

const struct bench_batch *bench_replay_batch(const struct bench_replay *r, size_t i)
{
    return &r->face[i];
}
