/* Laying out a batch: sizes and offsets first, then the bytes. */
#include "memtable/batch.h"

#include "memtable/batch_impl.h"

#include <string.h>

static uint64_t null_bytes(uint32_t rows)
{
    return (rows + 7u) / 8u;
}

/* Places a column's parts behind `end` and returns the new end. */
static uint64_t plan_column(struct batch_column_plan *column, uint32_t rows, uint64_t end)
{
    int width = batch_type_bytes(column->type);
    bool has_nulls = (column->flags & BATCH_COLUMN_HAS_NULLS) != 0;
    bool all_null = (column->flags & BATCH_COLUMN_ALL_NULL) != 0;
    CHECK(width >= 0);
    CHECK((column->flags & ~(BATCH_COLUMN_HAS_NULLS | BATCH_COLUMN_ALL_NULL)) == 0);
    CHECK(!(has_nulls && all_null));
    column->nulls_off = 0;
    column->values_off = 0;
    if (all_null) {
        CHECK(column->value_bytes == 0);
        return end;
    }
    if (has_nulls) {
        column->nulls_off = (uint32_t)end;
        end += align_up(null_bytes(rows), PART_ALIGN);
    }
    column->values_off = (uint32_t)end;
    if (width == 0)
        end += align_up(4u * ((uint64_t)rows + 1u), PART_ALIGN);
    else
        CHECK(column->value_bytes == (uint64_t)rows * (uint32_t)width);
    return end + align_up(column->value_bytes, PART_ALIGN);
}

/* The parts with one entry a thing; returns the end of the last, the column entries. */
static uint64_t plan_entries(struct batch_plan *plan)
{
    uint64_t end = BATCH_HEAD_BYTES + (uint64_t)plan->group_count * BATCH_GROUP_BYTES;
    plan->devices_off = (uint32_t)end;
    end += (uint64_t)plan->device_count * BATCH_DEVICE_BYTES;
    if (end > BATCH_BYTES_MAX) return end;
    plan->fragments_off = (uint32_t)end;
    end += (uint64_t)plan->fragment_count * BATCH_FRAGMENT_BYTES;
    uint64_t fragments = 0;
    for (uint32_t g = 0; g < plan->group_count && end <= BATCH_BYTES_MAX; g++) {
        struct batch_group_plan *group = &plan->groups[g];
        CHECK(group->rows >= 1 && group->rows <= BATCH_ROWS_MAX);
        CHECK(group->column_count <= BATCH_COLUMNS_MAX);
        CHECK(group->fragment_count >= 1);
        group->fragment_first = (uint32_t)fragments;
        fragments += group->fragment_count;
        group->columns_off = (uint32_t)end;
        end += (uint64_t)group->column_count * BATCH_COLUMN_BYTES;
    }
    CHECK(end > BATCH_BYTES_MAX || fragments == plan->fragment_count);
    return end;
}

uint64_t batch_plan(struct batch_plan *plan)
{
    CHECK(plan->group_count >= 1 && plan->group_count <= BATCH_GROUPS_MAX);
    CHECK(plan->device_count >= 1 && plan->fragment_count >= 1);
    uint64_t end = plan_entries(plan);
    if (end > BATCH_BYTES_MAX) return 0;
    plan->keys_off = (uint32_t)end;
    end += align_up(plan->key_bytes, PART_ALIGN);
    for (uint32_t g = 0; g < plan->group_count; g++) {
        struct batch_group_plan *group = &plan->groups[g];
        if (end > BATCH_BYTES_MAX) return 0;
        group->times_off = (uint32_t)end;
        end += (uint64_t)group->rows * sizeof(int64_t);
        for (uint32_t c = 0; c < group->column_count; c++) {
            if (end > BATCH_BYTES_MAX) return 0;
            end = plan_column(&group->columns[c], group->rows, end);
        }
    }
    return end > BATCH_BYTES_MAX ? 0 : end;
}

/* Zeros what lies between the end of a part and the next multiple of 8. */
static void zero_gap(uint8_t *payload, uint64_t end)
{
    memset(payload + end, 0, (size_t)(align_up(end, PART_ALIGN) - end));
}

static void encode_column(uint8_t *payload, uint64_t entry_off,
                          const struct batch_column_plan *column, uint32_t rows)
{
    uint8_t *entry = payload + entry_off;
    store_u32(entry + COLUMN_ID, column->id);
    entry[COLUMN_TYPE] = column->type;
    entry[COLUMN_FLAGS] = column->flags;
    store_u16(entry + COLUMN_ZERO, 0);
    store_u32(entry + COLUMN_VALUES_OFF, column->values_off);
    store_u32(entry + COLUMN_NULLS_OFF, column->nulls_off);
    if ((column->flags & BATCH_COLUMN_ALL_NULL) != 0) return;
    if ((column->flags & BATCH_COLUMN_HAS_NULLS) != 0)
        zero_gap(payload, column->nulls_off + null_bytes(rows));
    uint64_t values_off = column->values_off;
    if (batch_type_bytes(column->type) == 0) {
        zero_gap(payload, values_off + 4u * ((uint64_t)rows + 1u));
        values_off = batch_data_off(column->values_off, rows);
    }
    zero_gap(payload, values_off + column->value_bytes);
}

void batch_encode_frame(uint8_t *payload, const struct batch_plan *plan)
{
    store_u16(payload + HEAD_VERSION, BATCH_VERSION);
    store_u16(payload + HEAD_GROUP_COUNT, (uint16_t)plan->group_count);
    store_u32(payload + HEAD_REGION, plan->region);
    store_u32(payload + HEAD_DEVICE_COUNT, plan->device_count);
    store_u32(payload + HEAD_FRAGMENT_COUNT, plan->fragment_count);
    store_u32(payload + HEAD_DEVICES_OFF, plan->devices_off);
    store_u32(payload + HEAD_FRAGMENTS_OFF, plan->fragments_off);
    store_u64(payload + HEAD_ZERO, 0);
    zero_gap(payload, (uint64_t)plan->keys_off + plan->key_bytes);
    for (uint32_t g = 0; g < plan->group_count; g++) {
        const struct batch_group_plan *group = &plan->groups[g];
        uint8_t *entry = payload + BATCH_HEAD_BYTES + (uint64_t)g * BATCH_GROUP_BYTES;
        store_u64(entry + GROUP_INCARNATION, group->incarnation);
        store_u32(entry + GROUP_ROWS, group->rows);
        store_u32(entry + GROUP_COLUMNS, group->column_count);
        store_u32(entry + GROUP_COLUMNS_OFF, group->columns_off);
        store_u32(entry + GROUP_TIMES_OFF, group->times_off);
        store_u32(entry + GROUP_FRAGMENT_FIRST, group->fragment_first);
        store_u32(entry + GROUP_FRAGMENT_COUNT, group->fragment_count);
        for (uint32_t c = 0; c < group->column_count; c++)
            encode_column(payload, group->columns_off + (uint64_t)c * BATCH_COLUMN_BYTES,
                          &group->columns[c], group->rows);
    }
}

void batch_encode_device(uint8_t *payload, const struct batch_plan *plan, uint32_t device,
                         uint32_t group, uint32_t key_off, const void *key, uint32_t key_bytes)
{
    CHECK(device < plan->device_count && group < plan->group_count);
    CHECK(key_bytes <= BATCH_KEY_BYTES_MAX && key_off >= plan->keys_off &&
          (uint64_t)key_off + key_bytes <= (uint64_t)plan->keys_off + plan->key_bytes);
    uint8_t *entry = payload + plan->devices_off + (uint64_t)device * BATCH_DEVICE_BYTES;
    store_u32(entry + DEVICE_KEY_OFF, key_off);
    store_u32(entry + DEVICE_KEY_BYTES, key_bytes);
    store_u32(entry + DEVICE_GROUP, group);
    store_u32(entry + DEVICE_ZERO, 0);
    if (key_bytes != 0) memcpy(payload + key_off, key, key_bytes);
}

void batch_encode_fragment(uint8_t *payload, const struct batch_plan *plan, uint32_t index,
                           const struct batch_fragment *fragment)
{
    CHECK(index < plan->fragment_count);
    uint8_t *entry = payload + plan->fragments_off + (uint64_t)index * BATCH_FRAGMENT_BYTES;
    store_u32(entry + FRAGMENT_GROUP, fragment->group);
    store_u32(entry + FRAGMENT_DEVICE, fragment->device);
    store_u32(entry + FRAGMENT_ROW_FIRST, fragment->row_first);
    store_u32(entry + FRAGMENT_ROWS, fragment->rows);
    store_i64(entry + FRAGMENT_PARTITION, fragment->partition);
    store_i64(entry + FRAGMENT_TIME_MIN, fragment->time_min);
    store_i64(entry + FRAGMENT_TIME_MAX, fragment->time_max);
}
