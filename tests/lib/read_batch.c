#include "tests/lib/read_batch.h"

#include "base/check.h"
#include "memtable/batch.h"

static uint64_t mix_bytes(uint64_t sum, const void *data, uint64_t bytes)
{
    const uint8_t *p = data;
    for (uint64_t i = 0; i < bytes; i++)
        sum = sum * 31u + p[i];
    return sum;
}

static uint64_t read_column(const struct batch_column *column, uint32_t rows)
{
    uint64_t sum = column->id;
    if (column->nulls != NULL) sum = mix_bytes(sum, column->nulls, (rows + 7u) / 8u);
    if (column->all_null) return sum;
    if (column->offsets == NULL)
        return mix_bytes(sum, column->values,
                         (uint64_t)rows * (uint32_t)batch_type_bytes(column->type));
    for (uint32_t r = 0; r < rows; r++) {
        CHECK(column->offsets[r] <= column->offsets[r + 1]);
        sum = mix_bytes(sum, column->data + column->offsets[r],
                        column->offsets[r + 1] - column->offsets[r]);
    }
    return sum;
}

static uint64_t read_group(const struct batch_view *view, uint32_t index)
{
    struct batch_group group;
    batch_read_group(view, index, &group);
    uint64_t sum = mix_bytes(group.incarnation, group.times, (uint64_t)group.rows * 8);
    for (uint32_t c = 0; c < group.column_count; c++) {
        struct batch_column column, found;
        batch_read_column(view, &group, c, &column);
        CHECK(batch_find_column(view, &group, column.id, c, &found) && found.id == column.id);
        sum = sum * 31u + read_column(&column, group.rows);
    }
    return sum;
}

uint64_t read_whole_batch(const uint8_t *payload, uint32_t bytes)
{
    struct batch_view view;
    batch_open(&view, payload, bytes);
    uint64_t sum = view.region;
    for (uint32_t d = 0; d < view.device_count; d++) {
        uint32_t group, key_bytes;
        const void *key;
        batch_read_device(&view, d, &group, &key, &key_bytes);
        CHECK(group < view.group_count);
        sum = mix_bytes(sum, key, key_bytes);
    }
    for (uint32_t g = 0; g < view.group_count; g++)
        sum = sum * 31u + read_group(&view, g);
    uint64_t rows = 0, rows_of_groups = 0;
    for (uint32_t f = 0; f < view.fragment_count; f++) {
        struct batch_fragment fragment;
        struct batch_group group;
        batch_read_fragment(&view, f, &fragment);
        batch_read_group(&view, fragment.group, &group);
        CHECK(fragment.device < view.device_count);
        CHECK(group.times[fragment.row_first] == fragment.time_min);
        CHECK(group.times[fragment.row_first + fragment.rows - 1] == fragment.time_max);
        rows += fragment.rows;
    }
    for (uint32_t g = 0; g < view.group_count; g++) {
        struct batch_group group;
        batch_read_group(&view, g, &group);
        rows_of_groups += group.rows;
    }
    CHECK(rows == rows_of_groups);
    return sum;
}

uint64_t read_whole_delete(const uint8_t *payload)
{
    struct batch_delete delete_;
    batch_open_delete(payload, &delete_);
    uint64_t sum = mix_bytes(delete_.incarnation, delete_.columns,
                             (uint64_t)delete_.column_count * sizeof *delete_.columns);
    for (uint32_t d = 0; d < delete_.device_count; d++) {
        struct batch_key key;
        batch_read_delete_key(payload, &delete_, d, &key);
        CHECK(batch_delete_covers(payload, &delete_, key.data, key.bytes));
        sum = mix_bytes(sum, key.data, key.bytes);
    }
    return sum;
}
