#include "tests/lib/make_batch.h"

#include "base/alloc.h"
#include "base/check.h"
#include "memtable/batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t make_partition(int64_t time, int64_t interval)
{
    int64_t quotient = time / interval;
    return time % interval < 0 ? quotient - 1 : quotient;
}

/* The end of the fragment that starts at row `first`. */
static uint32_t fragment_end(const struct make_tablet *tablet, uint32_t first, int64_t interval)
{
    const struct make_row *rows = tablet->rows;
    uint32_t end = first + 1;
    while (end < tablet->row_count && rows[end].device == rows[first].device &&
           make_partition(rows[end].time, interval) == make_partition(rows[first].time, interval))
        end++;
    return end;
}

static void plan_column(const struct make_column *column, uint32_t rows,
                        struct batch_column_plan *plan)
{
    *plan = (struct batch_column_plan){.id = column->id, .type = column->type};
    if (column->values == NULL) {
        plan->flags = BATCH_COLUMN_ALL_NULL;
        return;
    }
    uint32_t width = (uint32_t)batch_type_bytes(column->type);
    for (uint32_t r = 0; r < rows; r++) {
        if (column->values[r].data == NULL) plan->flags = BATCH_COLUMN_HAS_NULLS;
        if (column->values[r].data != NULL || width != 0)
            plan->value_bytes += width != 0 ? width : column->values[r].bytes;
    }
}

static void write_column(uint8_t *payload, const struct make_column *column, uint32_t rows,
                         const struct batch_column_plan *plan)
{
    if (column->values == NULL) return;
    uint32_t width = (uint32_t)batch_type_bytes(column->type);
    uint32_t position = 0;
    uint8_t *data = payload + batch_data_off(plan->values_off, rows);
    if ((plan->flags & BATCH_COLUMN_HAS_NULLS) != 0)
        memset(payload + plan->nulls_off, 0, (rows + 7) / 8);
    for (uint32_t r = 0; r < rows; r++) {
        const struct make_value *value = &column->values[r];
        uint8_t *at = payload + plan->values_off + (width != 0 ? r * width : r * 4);
        if (value->data == NULL) payload[plan->nulls_off + r / 8] |= (uint8_t)(1u << (r % 8));
        if (width != 0) {
            if (value->data != NULL)
                memcpy(at, value->data, width);
            else
                memset(at, 0xee, width);
            continue;
        }
        memcpy(at, &position, 4);
        if (value->data != NULL) {
            memcpy(data + position, value->data, value->bytes);
            position += value->bytes;
        }
    }
    if (width == 0) memcpy(payload + plan->values_off + rows * 4, &position, 4);
}

static void write_group(uint8_t *payload, const struct batch_plan *plan, uint32_t g,
                        const struct make_tablet *tablet, int64_t interval)
{
    const struct batch_group_plan *group = &plan->groups[g];
    for (uint32_t r = 0; r < tablet->row_count; r++)
        memcpy(payload + group->times_off + r * 8, &tablet->rows[r].time, 8);
    for (uint32_t c = 0; c < tablet->column_count; c++)
        write_column(payload, &tablet->columns[c], tablet->row_count, &group->columns[c]);
    uint32_t index = group->fragment_first;
    for (uint32_t r = 0, end; r < tablet->row_count; r = end) {
        end = fragment_end(tablet, r, interval);
        struct batch_fragment fragment = {
            .group = g,
            .device = tablet->rows[r].device,
            .row_first = r,
            .rows = end - r,
            .partition = make_partition(tablet->rows[r].time, interval),
            .time_min = tablet->rows[r].time,
            .time_max = tablet->rows[end - 1].time,
        };
        batch_encode_fragment(payload, plan, index++, &fragment);
    }
}

static uint32_t group_of_device(const struct make_batch *batch, uint32_t device)
{
    for (uint32_t g = 0; g < batch->tablet_count; g++)
        for (uint32_t r = 0; r < batch->tablets[g].row_count; r++)
            if (batch->tablets[g].rows[r].device == device) return g;
    return 0;
}

static void plan_groups(const struct make_batch *batch, struct batch_plan *plan)
{
    for (uint32_t g = 0; g < batch->tablet_count; g++) {
        const struct make_tablet *tablet = &batch->tablets[g];
        struct batch_group_plan *group = &plan->groups[g];
        *group = (struct batch_group_plan){.incarnation = tablet->incarnation,
                                           .rows = tablet->row_count,
                                           .column_count = tablet->column_count};
        group->columns = mem_zalloc_array(tablet->column_count + 1, sizeof *group->columns);
        CHECK(group->columns != NULL);
        for (uint32_t c = 0; c < tablet->column_count; c++)
            plan_column(&tablet->columns[c], tablet->row_count, &group->columns[c]);
        for (uint32_t r = 0; r < tablet->row_count; r = fragment_end(tablet, r, batch->interval))
            group->fragment_count++;
        plan->fragment_count += group->fragment_count;
    }
    for (uint32_t d = 0; d < batch->device_count; d++)
        plan->key_bytes += batch->keys[d].bytes;
}

uint32_t make_batch(const struct make_batch *batch, uint8_t **payload_out)
{
    struct batch_plan plan = {.region = batch->region,
                              .group_count = batch->tablet_count,
                              .device_count = batch->device_count};
    plan.groups = mem_zalloc_array(batch->tablet_count, sizeof *plan.groups);
    CHECK(plan.groups != NULL);
    plan_groups(batch, &plan);
    uint64_t bytes = batch_plan(&plan);
    CHECK(bytes != 0);
    uint8_t *payload = mem_alloc_aligned(64, bytes);
    CHECK(payload != NULL);
    memset(payload, 0xa5, bytes); /* what an image is full of: old bytes */
    batch_encode_frame(payload, &plan);
    uint32_t key_off = plan.keys_off;
    for (uint32_t d = 0; d < batch->device_count; d++) {
        batch_encode_device(payload, &plan, d, group_of_device(batch, d), key_off,
                            batch->keys[d].data, batch->keys[d].bytes);
        key_off += batch->keys[d].bytes;
    }
    for (uint32_t g = 0; g < batch->tablet_count; g++) {
        write_group(payload, &plan, g, &batch->tablets[g], batch->interval);
        mem_free(plan.groups[g].columns);
    }
    mem_free(plan.groups);
    *payload_out = payload;
    return (uint32_t)bytes;
}

uint64_t make_seed(const char *test)
{
    const char *given = getenv("RF_SEED");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0)
                                  : (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
    printf("%s: RF_SEED=%" PRIu64 "\n", test, seed);
    fflush(stdout);
    return seed;
}

uint64_t make_random(struct make_random *random)
{
    random->state += 0x9e3779b97f4a7c15u;
    uint64_t z = random->state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint32_t make_below(struct make_random *random, uint32_t below)
{
    return (uint32_t)(((make_random(random) >> 32) * below) >> 32);
}
