/* Reading a batch whose bytes are known to be whole: no call here looks at a bound. */
#include "memtable/batch.h"
#include "memtable/batch_impl.h"

void batch_open(struct batch_view *view, const uint8_t *payload, uint32_t bytes)
{
    *view = (struct batch_view){
        .payload = payload,
        .bytes = bytes,
        .region = load_u32(payload + HEAD_REGION),
        .group_count = load_u16(payload + HEAD_GROUP_COUNT),
        .device_count = load_u32(payload + HEAD_DEVICE_COUNT),
        .fragment_count = load_u32(payload + HEAD_FRAGMENT_COUNT),
        .devices_off = load_u32(payload + HEAD_DEVICES_OFF),
        .fragments_off = load_u32(payload + HEAD_FRAGMENTS_OFF),
    };
}

void batch_read_group(const struct batch_view *view, uint32_t group, struct batch_group *out)
{
    DCHECK(group < view->group_count);
    const uint8_t *entry = view->payload + BATCH_HEAD_BYTES + (uint64_t)group * BATCH_GROUP_BYTES;
    *out = (struct batch_group){
        .incarnation = load_u64(entry + GROUP_INCARNATION),
        .rows = load_u32(entry + GROUP_ROWS),
        .column_count = load_u32(entry + GROUP_COLUMNS),
        .columns_off = load_u32(entry + GROUP_COLUMNS_OFF),
        .times = (const int64_t *)(const void *)(view->payload + load_u32(entry + GROUP_TIMES_OFF)),
        .fragment_first = load_u32(entry + GROUP_FRAGMENT_FIRST),
        .fragment_count = load_u32(entry + GROUP_FRAGMENT_COUNT),
    };
}

void batch_read_column(const struct batch_view *view, const struct batch_group *group,
                       uint32_t index, struct batch_column *out)
{
    DCHECK(index < group->column_count);
    const uint8_t *entry =
        view->payload + group->columns_off + (uint64_t)index * BATCH_COLUMN_BYTES;
    uint8_t flags = entry[COLUMN_FLAGS];
    uint32_t values_off = load_u32(entry + COLUMN_VALUES_OFF);
    *out = (struct batch_column){
        .id = load_u32(entry + COLUMN_ID),
        .type = entry[COLUMN_TYPE],
        .all_null = (flags & BATCH_COLUMN_ALL_NULL) != 0,
    };
    if (out->all_null) return;
    if ((flags & BATCH_COLUMN_HAS_NULLS) != 0)
        out->nulls = view->payload + load_u32(entry + COLUMN_NULLS_OFF);
    out->values = view->payload + values_off;
    if (batch_type_bytes(out->type) == 0) {
        out->offsets = (const uint32_t *)out->values;
        out->data = view->payload + batch_data_off(values_off, group->rows);
    }
}

void batch_read_column_type(const struct batch_view *view, const struct batch_group *group,
                            uint32_t index, uint32_t *id_out, uint8_t *type_out)
{
    DCHECK(index < group->column_count);
    const uint8_t *entry =
        view->payload + group->columns_off + (uint64_t)index * BATCH_COLUMN_BYTES;
    *id_out = load_u32(entry + COLUMN_ID);
    *type_out = entry[COLUMN_TYPE];
}

static uint32_t column_id(const struct batch_view *view, const struct batch_group *group,
                          uint32_t index)
{
    return load_u32(view->payload + group->columns_off + (uint64_t)index * BATCH_COLUMN_BYTES +
                    COLUMN_ID);
}

bool batch_find_column(const struct batch_view *view, const struct batch_group *group, uint32_t id,
                       uint32_t hint, struct batch_column *out)
{
    uint32_t index = hint;
    if (hint >= group->column_count || column_id(view, group, hint) != id) {
        for (index = 0; index < group->column_count; index++)
            if (column_id(view, group, index) == id) break;
        if (index == group->column_count) return false;
    }
    batch_read_column(view, group, index, out);
    return true;
}

void batch_read_device(const struct batch_view *view, uint32_t device, uint32_t *group_out,
                       const void **key_out, uint32_t *key_bytes_out)
{
    DCHECK(device < view->device_count);
    const uint8_t *entry =
        view->payload + view->devices_off + (uint64_t)device * BATCH_DEVICE_BYTES;
    *group_out = load_u32(entry + DEVICE_GROUP);
    *key_out = view->payload + load_u32(entry + DEVICE_KEY_OFF);
    *key_bytes_out = load_u32(entry + DEVICE_KEY_BYTES);
}

void batch_read_fragment(const struct batch_view *view, uint32_t index, struct batch_fragment *out)
{
    DCHECK(index < view->fragment_count);
    const uint8_t *entry =
        view->payload + view->fragments_off + (uint64_t)index * BATCH_FRAGMENT_BYTES;
    *out = (struct batch_fragment){
        .group = load_u32(entry + FRAGMENT_GROUP),
        .device = load_u32(entry + FRAGMENT_DEVICE),
        .row_first = load_u32(entry + FRAGMENT_ROW_FIRST),
        .rows = load_u32(entry + FRAGMENT_ROWS),
        .partition = load_i64(entry + FRAGMENT_PARTITION),
        .time_min = load_i64(entry + FRAGMENT_TIME_MIN),
        .time_max = load_i64(entry + FRAGMENT_TIME_MAX),
    };
}
