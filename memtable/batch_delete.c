/* The payload of a delete record. Its check is in batch_check.c. */
#include "memtable/batch.h"
#include "memtable/batch_impl.h"

#include <string.h>

int batch_key_compare(const void *a, uint32_t a_bytes, const void *b, uint32_t b_bytes)
{
    uint32_t common = a_bytes < b_bytes ? a_bytes : b_bytes;
    int order = common == 0 ? 0 : memcmp(a, b, common);
    if (order != 0) return order;
    return (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static uint64_t columns_end(const struct batch_delete *delete_)
{
    return BATCH_DELETE_BYTES + align_up(4u * (uint64_t)delete_->column_count, PART_ALIGN);
}

uint64_t batch_delete_bytes(const struct batch_delete *delete_, const struct batch_key *keys)
{
    uint64_t bytes = columns_end(delete_) + (uint64_t)delete_->device_count * BATCH_DEVICE_BYTES;
    for (uint32_t i = 0; i < delete_->device_count && bytes <= BATCH_BYTES_MAX; i++)
        bytes += keys[i].bytes;
    bytes = align_up(bytes, PART_ALIGN);
    return bytes > BATCH_BYTES_MAX ? 0 : bytes;
}

static void encode_keys(uint8_t *payload, uint64_t devices_off, const struct batch_delete *delete_,
                        const struct batch_key *keys)
{
    uint64_t key_off = devices_off + (uint64_t)delete_->device_count * BATCH_DEVICE_BYTES;
    for (uint32_t i = 0; i < delete_->device_count; i++) {
        CHECK(keys[i].bytes <= BATCH_KEY_BYTES_MAX);
        CHECK(i == 0 || batch_key_compare(keys[i - 1].data, keys[i - 1].bytes, keys[i].data,
                                          keys[i].bytes) < 0);
        uint8_t *entry = payload + devices_off + (uint64_t)i * BATCH_DEVICE_BYTES;
        store_u32(entry + DEVICE_KEY_OFF, (uint32_t)key_off);
        store_u32(entry + DEVICE_KEY_BYTES, keys[i].bytes);
        store_u64(entry + DEVICE_GROUP, 0);
        if (keys[i].bytes != 0) memcpy(payload + key_off, keys[i].data, keys[i].bytes);
        key_off += keys[i].bytes;
    }
    memset(payload + key_off, 0, (size_t)(align_up(key_off, PART_ALIGN) - key_off));
}

void batch_encode_delete(uint8_t *payload, const struct batch_delete *delete_,
                         const struct batch_key *keys)
{
    CHECK(delete_->column_count <= BATCH_COLUMNS_MAX);
    CHECK(delete_->all_devices == (delete_->device_count == 0));
    uint64_t devices_off = columns_end(delete_);
    store_u16(payload + DELETE_VERSION, BATCH_VERSION);
    store_u16(payload + DELETE_FLAGS, delete_->all_devices ? BATCH_DELETE_ALL : 0);
    store_u32(payload + DELETE_REGION, delete_->region);
    store_u64(payload + DELETE_INCARNATION, delete_->incarnation);
    store_u32(payload + DELETE_COLUMN_COUNT, delete_->column_count);
    store_u32(payload + DELETE_DEVICE_COUNT, delete_->device_count);
    store_u32(payload + DELETE_COLUMNS_OFF, BATCH_DELETE_BYTES);
    store_u32(payload + DELETE_DEVICES_OFF, (uint32_t)devices_off);
    store_i64(payload + DELETE_TIME_FROM, delete_->time_from);
    store_i64(payload + DELETE_TIME_TO, delete_->time_to);
    for (uint32_t i = 0; i < delete_->column_count; i++)
        store_u32(payload + BATCH_DELETE_BYTES + 4u * (uint64_t)i, delete_->columns[i]);
    uint64_t ids_end = BATCH_DELETE_BYTES + 4u * (uint64_t)delete_->column_count;
    memset(payload + ids_end, 0, (size_t)(devices_off - ids_end));
    encode_keys(payload, devices_off, delete_, keys);
}

void batch_open_delete(const uint8_t *payload, struct batch_delete *delete_out)
{
    const uint8_t *columns = payload + load_u32(payload + DELETE_COLUMNS_OFF);
    *delete_out = (struct batch_delete){
        .region = load_u32(payload + DELETE_REGION),
        .incarnation = load_u64(payload + DELETE_INCARNATION),
        .column_count = load_u32(payload + DELETE_COLUMN_COUNT),
        .columns = (const uint32_t *)(const void *)columns,
        .all_devices = (load_u16(payload + DELETE_FLAGS) & BATCH_DELETE_ALL) != 0,
        .device_count = load_u32(payload + DELETE_DEVICE_COUNT),
        .time_from = load_i64(payload + DELETE_TIME_FROM),
        .time_to = load_i64(payload + DELETE_TIME_TO),
        .devices_off = load_u32(payload + DELETE_DEVICES_OFF),
    };
}

void batch_read_delete_key(const uint8_t *payload, const struct batch_delete *delete_,
                           uint32_t device, struct batch_key *key_out)
{
    DCHECK(device < delete_->device_count);
    const uint8_t *entry = payload + delete_->devices_off + (uint64_t)device * BATCH_DEVICE_BYTES;
    *key_out = (struct batch_key){.data = payload + load_u32(entry + DEVICE_KEY_OFF),
                                  .bytes = load_u32(entry + DEVICE_KEY_BYTES)};
}

bool batch_delete_covers(const uint8_t *payload, const struct batch_delete *delete_,
                         const void *key, uint32_t key_bytes)
{
    if (delete_->all_devices) return true;
    uint32_t low = 0, high = delete_->device_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        struct batch_key found;
        batch_read_delete_key(payload, delete_, middle, &found);
        int order = batch_key_compare(found.data, found.bytes, key, key_bytes);
        if (order == 0) return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}
