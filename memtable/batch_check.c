/* Whether bytes are a batch or a delete in the one form that the table in batch.h allows.
 *
 * A walk from part to part: `at` is the end of what has been checked, and every offset found must
 * be the one that follows from the parts before it. So parts can't overlap, each byte is looked at
 * a bounded number of times whatever the counts say, and a size is compared with what is left
 * before anything behind it is read. */
#include "memtable/batch.h"
#include "memtable/batch_impl.h"

#include <inttypes.h>

struct walk {
    const uint8_t *payload;
    const char *kind;
    uint64_t bytes;
    uint64_t at;
    struct err_msg *msg;
};

static int bad(const struct walk *w, uint64_t off, const char *what, uint64_t expected,
               uint64_t found)
{
    return err_set(w->msg, -RFE_CORRUPT,
                   "%s payload: offset %" PRIu64 ": %s: expected %" PRIu64 ", found %" PRIu64,
                   w->kind, off, what, expected, found);
}

static int bad_range(const struct walk *w, uint64_t off, const char *what, uint64_t low,
                     uint64_t high, uint64_t found)
{
    return err_set(w->msg, -RFE_CORRUPT,
                   "%s payload: offset %" PRIu64 ": %s: expected %" PRIu64 "..%" PRIu64
                   ", found %" PRIu64,
                   w->kind, off, what, low, high, found);
}

static int bad_time(const struct walk *w, uint64_t off, const char *what, int64_t expected,
                    int64_t found)
{
    return err_set(w->msg, -RFE_CORRUPT,
                   "%s payload: offset %" PRIu64 ": %s: expected %" PRId64 ", found %" PRId64,
                   w->kind, off, what, expected, found);
}

static int check_u32(const struct walk *w, uint64_t off, const char *what, uint64_t expected)
{
    uint32_t found = load_u32(w->payload + off);
    return found == expected ? 0 : bad(w, off, what, expected, found);
}

static int check_count(const struct walk *w, uint64_t off, const char *what, uint32_t low,
                       uint32_t high)
{
    uint32_t found = load_u32(w->payload + off);
    return found >= low && found <= high ? 0 : bad_range(w, off, what, low, high, found);
}

/* Moves on behind a part of `size` bytes, if so many are left. size <= 2^40. */
static int take(struct walk *w, uint64_t size, const char *what)
{
    if (size > w->bytes - w->at) return bad_range(w, w->at, what, 0, w->bytes - w->at, size);
    w->at += size;
    return 0;
}

static int check_gap(struct walk *w)
{
    uint64_t end = align_up(w->at, PART_ALIGN);
    for (; w->at < end; w->at++)
        if (w->payload[w->at] != 0) return bad(w, w->at, "gap", 0, w->payload[w->at]);
    return 0;
}

/* Moves on over the gap before the next multiple of 8; the payload's end is one. */
static inline int take_gap(struct walk *w)
{
    return w->at % PART_ALIGN == 0 ? 0 : check_gap(w);
}

static int check_start(const struct walk *w, uint32_t head_bytes)
{
    if (w->bytes < head_bytes || w->bytes % PART_ALIGN != 0)
        return err_set(w->msg, -RFE_CORRUPT,
                       "%s payload: length: expected a multiple of 8 from %" PRIu32
                       " on, found %" PRIu64,
                       w->kind, head_bytes, w->bytes);
    uint16_t version = load_u16(w->payload);
    if (version > BATCH_VERSION)
        return err_set(w->msg, -RFE_NEWER_VERSION,
                       "%s payload: offset 0: version: expected %u, found %u", w->kind,
                       BATCH_VERSION, version);
    return version == BATCH_VERSION ? 0 : bad(w, 0, "version", BATCH_VERSION, version);
}

static int check_head(struct walk *w)
{
    int rc = check_start(w, BATCH_HEAD_BYTES);
    if (rc != 0) return rc;
    const uint8_t *head = w->payload;
    uint32_t groups = load_u16(head + HEAD_GROUP_COUNT);
    if (groups == 0) return bad_range(w, HEAD_GROUP_COUNT, "group_count", 1, BATCH_GROUPS_MAX, 0);
    rc = check_count(w, HEAD_DEVICE_COUNT, "device_count", 1, UINT32_MAX);
    if (rc != 0) return rc;
    rc = check_count(w, HEAD_FRAGMENT_COUNT, "fragment_count", 1, UINT32_MAX);
    if (rc != 0) return rc;
    if (load_u64(head + HEAD_ZERO) != 0)
        return bad(w, HEAD_ZERO, "reserved", 0, load_u64(head + HEAD_ZERO));
    w->at = BATCH_HEAD_BYTES;
    rc = take(w, (uint64_t)groups * BATCH_GROUP_BYTES, "groups");
    if (rc != 0) return rc;
    rc = check_u32(w, HEAD_DEVICES_OFF, "devices_off", w->at);
    if (rc != 0) return rc;
    rc = take(w, (uint64_t)load_u32(head + HEAD_DEVICE_COUNT) * BATCH_DEVICE_BYTES, "devices");
    if (rc != 0) return rc;
    rc = check_u32(w, HEAD_FRAGMENTS_OFF, "fragments_off", w->at);
    if (rc != 0) return rc;
    return take(w, (uint64_t)load_u32(head + HEAD_FRAGMENT_COUNT) * BATCH_FRAGMENT_BYTES,
                "fragments");
}

/* The entries of groups and columns; their data comes later. */
static int check_groups(struct walk *w, const struct batch_view *view)
{
    uint64_t fragments = 0;
    for (uint32_t g = 0; g < view->group_count; g++) {
        uint64_t off = BATCH_HEAD_BYTES + (uint64_t)g * BATCH_GROUP_BYTES;
        const uint8_t *entry = w->payload + off;
        int rc = check_count(w, off + GROUP_ROWS, "rows", 1, BATCH_ROWS_MAX);
        if (rc != 0) return rc;
        rc = check_count(w, off + GROUP_COLUMNS, "columns", 0, BATCH_COLUMNS_MAX);
        if (rc != 0) return rc;
        rc = check_u32(w, off + GROUP_COLUMNS_OFF, "columns_off", w->at);
        if (rc != 0) return rc;
        rc = take(w, (uint64_t)load_u32(entry + GROUP_COLUMNS) * BATCH_COLUMN_BYTES, "columns");
        if (rc != 0) return rc;
        rc = check_u32(w, off + GROUP_FRAGMENT_FIRST, "fragment_first", fragments);
        if (rc != 0) return rc;
        uint32_t left = (uint32_t)(view->fragment_count - fragments);
        rc = check_count(w, off + GROUP_FRAGMENT_COUNT, "fragment_count of group", 1, left);
        if (rc != 0) return rc;
        fragments += load_u32(entry + GROUP_FRAGMENT_COUNT);
    }
    if (fragments != view->fragment_count)
        return bad(w, HEAD_FRAGMENT_COUNT, "fragment_count", fragments, view->fragment_count);
    return 0;
}

static int check_devices(struct walk *w, const struct batch_view *view)
{
    for (uint32_t i = 0; i < view->device_count; i++) {
        uint64_t off = view->devices_off + (uint64_t)i * BATCH_DEVICE_BYTES;
        int rc = check_u32(w, off + DEVICE_KEY_OFF, "key_off", w->at);
        if (rc != 0) return rc;
        rc = check_count(w, off + DEVICE_KEY_BYTES, "key_bytes", 0, BATCH_KEY_BYTES_MAX);
        if (rc != 0) return rc;
        rc = check_count(w, off + DEVICE_GROUP, "group of device", 0, view->group_count - 1);
        if (rc != 0) return rc;
        rc = check_u32(w, off + DEVICE_ZERO, "reserved", 0);
        if (rc != 0) return rc;
        rc = take(w, load_u32(w->payload + off + DEVICE_KEY_BYTES), "key");
        if (rc != 0) return rc;
    }
    return take_gap(w);
}

static int check_nulls(struct walk *w, uint32_t rows)
{
    int rc = take(w, (rows + 7u) / 8u, "null bitmap");
    if (rc != 0) return rc;
    uint8_t last = w->payload[w->at - 1];
    if (rows % 8u != 0 && last >> (rows % 8u) != 0)
        return bad(w, w->at - 1, "bits behind the last row", 0, (uint64_t)last >> (rows % 8u));
    return take_gap(w);
}

static int check_text(struct walk *w, uint32_t rows)
{
    uint64_t off = w->at;
    int rc = take(w, 4u * ((uint64_t)rows + 1u), "positions");
    if (rc != 0) return rc;
    rc = check_u32(w, off, "first position", 0);
    if (rc != 0) return rc;
    const uint8_t *positions = w->payload + off;
    uint32_t before = 0;
    for (uint32_t r = 1; r <= rows; r++) {
        uint32_t position = load_u32(positions + 4u * (uint64_t)r);
        if (RF_UNLIKELY(position < before))
            return bad_range(w, off + 4u * (uint64_t)r, "position", before, UINT32_MAX, position);
        before = position;
    }
    rc = take_gap(w);
    return rc != 0 ? rc : take(w, before, "bytes");
}

static int check_column(struct walk *w, uint64_t off, uint32_t rows)
{
    const uint8_t *entry = w->payload + off;
    int width = batch_type_bytes(entry[COLUMN_TYPE]);
    uint8_t flags = entry[COLUMN_FLAGS];
    if (width < 0)
        return err_set(w->msg, -RFE_CORRUPT,
                       "%s payload: offset %" PRIu64 ": type: expected a known one, found %u",
                       w->kind, off + COLUMN_TYPE, entry[COLUMN_TYPE]);
    if (flags > BATCH_COLUMN_ALL_NULL)
        return bad_range(w, off + COLUMN_FLAGS, "flags", 0, BATCH_COLUMN_ALL_NULL, flags);
    if (load_u16(entry + COLUMN_ZERO) != 0)
        return bad(w, off + COLUMN_ZERO, "reserved", 0, load_u16(entry + COLUMN_ZERO));
    uint64_t nulls_off = flags == BATCH_COLUMN_HAS_NULLS ? w->at : 0;
    int rc = check_u32(w, off + COLUMN_NULLS_OFF, "nulls_off", nulls_off);
    if (rc != 0) return rc;
    if (flags == BATCH_COLUMN_HAS_NULLS) rc = check_nulls(w, rows);
    if (rc != 0) return rc;
    uint64_t values_off = flags == BATCH_COLUMN_ALL_NULL ? 0 : w->at;
    rc = check_u32(w, off + COLUMN_VALUES_OFF, "values_off", values_off);
    if (rc != 0 || flags == BATCH_COLUMN_ALL_NULL) return rc;
    rc = width == 0 ? check_text(w, rows) : take(w, (uint64_t)rows * (uint32_t)width, "values");
    return rc != 0 ? rc : take_gap(w);
}

static int check_data(struct walk *w, const struct batch_view *view)
{
    for (uint32_t g = 0; g < view->group_count; g++) {
        uint64_t off = BATCH_HEAD_BYTES + (uint64_t)g * BATCH_GROUP_BYTES;
        int rc = check_u32(w, off + GROUP_TIMES_OFF, "times_off", w->at);
        if (rc != 0) return rc;
        struct batch_group group;
        batch_read_group(view, g, &group);
        rc = take(w, (uint64_t)group.rows * sizeof(int64_t), "times");
        for (uint32_t c = 0; rc == 0 && c < group.column_count; c++)
            rc = check_column(w, group.columns_off + (uint64_t)c * BATCH_COLUMN_BYTES, group.rows);
        if (rc != 0) return rc;
    }
    return w->at == w->bytes ? 0 : bad(w, w->at, "length", w->at, w->bytes);
}

/* The times of a fragment whose rows are known to lie in its group. */
static int check_times(const struct walk *w, uint64_t off, const struct batch_fragment *fragment,
                       const int64_t *times)
{
    const int64_t *first = times + fragment->row_first;
    for (uint32_t r = 1; r < fragment->rows; r++) {
        if (first[r] >= first[r - 1]) continue;
        uint64_t time_off = (uint64_t)((const uint8_t *)(first + r) - w->payload);
        return err_set(w->msg, -RFE_CORRUPT,
                       "%s payload: offset %" PRIu64 ": time: expected at least %" PRId64
                       ", found %" PRId64,
                       w->kind, time_off, first[r - 1], first[r]);
    }
    if (fragment->time_min != first[0])
        return bad_time(w, off + FRAGMENT_TIME_MIN, "time_min", first[0], fragment->time_min);
    if (fragment->time_max != first[fragment->rows - 1])
        return bad_time(w, off + FRAGMENT_TIME_MAX, "time_max", first[fragment->rows - 1],
                        fragment->time_max);
    return 0;
}

static int check_device_of(const struct walk *w, uint64_t off, const struct batch_view *view,
                           uint32_t device, uint64_t incarnation)
{
    uint32_t group_index, key_bytes;
    const void *key;
    struct batch_group group;
    batch_read_device(view, device, &group_index, &key, &key_bytes);
    batch_read_group(view, group_index, &group);
    if (group.incarnation == incarnation) return 0;
    return bad(w, off + FRAGMENT_DEVICE, "table of device", incarnation, group.incarnation);
}

static int check_fragment(const struct walk *w, const struct batch_view *view, uint32_t index,
                          uint32_t group_index, const struct batch_group *group, uint64_t row)
{
    uint64_t off = view->fragments_off + (uint64_t)index * BATCH_FRAGMENT_BYTES;
    int rc = check_u32(w, off + FRAGMENT_GROUP, "group of fragment", group_index);
    if (rc != 0) return rc;
    rc = check_count(w, off + FRAGMENT_DEVICE, "device of fragment", 0, view->device_count - 1);
    if (rc != 0) return rc;
    rc = check_u32(w, off + FRAGMENT_ROW_FIRST, "row_first", row);
    if (rc != 0) return rc;
    uint32_t left = (uint32_t)(group->rows - row);
    rc = check_count(w, off + FRAGMENT_ROWS, "rows of fragment", 1, left);
    if (rc != 0) return rc;
    struct batch_fragment fragment;
    batch_read_fragment(view, index, &fragment);
    rc = check_device_of(w, off, view, fragment.device, group->incarnation);
    return rc != 0 ? rc : check_times(w, off, &fragment, group->times);
}

static int check_fragments(const struct walk *w, const struct batch_view *view)
{
    for (uint32_t g = 0; g < view->group_count; g++) {
        struct batch_group group;
        batch_read_group(view, g, &group);
        uint64_t row = 0;
        for (uint32_t i = 0; i < group.fragment_count; i++) {
            int rc = check_fragment(w, view, group.fragment_first + i, g, &group, row);
            if (rc != 0) return rc;
            struct batch_fragment fragment;
            batch_read_fragment(view, group.fragment_first + i, &fragment);
            row += fragment.rows;
        }
        if (row != group.rows)
            return bad(w, BATCH_HEAD_BYTES + (uint64_t)g * BATCH_GROUP_BYTES + GROUP_ROWS, "rows",
                       row, group.rows);
    }
    return 0;
}

int batch_check(const uint8_t *payload, uint32_t bytes, struct err_msg *msg)
{
    CHECK((uintptr_t)payload % PART_ALIGN == 0);
    struct walk w = {.payload = payload, .kind = "batch", .bytes = bytes, .msg = msg};
    struct batch_view view;
    int rc = check_head(&w);
    if (rc != 0) return rc;
    batch_open(&view, payload, bytes);
    rc = check_groups(&w, &view);
    if (rc != 0) return rc;
    rc = check_devices(&w, &view);
    if (rc != 0) return rc;
    rc = check_data(&w, &view);
    return rc != 0 ? rc : check_fragments(&w, &view);
}

static int check_delete_head(struct walk *w)
{
    int rc = check_start(w, BATCH_DELETE_BYTES);
    if (rc != 0) return rc;
    const uint8_t *head = w->payload;
    uint32_t flags = load_u16(head + DELETE_FLAGS);
    if (flags > BATCH_DELETE_ALL)
        return bad_range(w, DELETE_FLAGS, "flags", 0, BATCH_DELETE_ALL, flags);
    rc = check_count(w, DELETE_COLUMN_COUNT, "column_count", 0, BATCH_COLUMNS_MAX);
    if (rc != 0) return rc;
    bool all = flags == BATCH_DELETE_ALL;
    rc = check_count(w, DELETE_DEVICE_COUNT, "device_count", all ? 0 : 1, all ? 0 : UINT32_MAX);
    if (rc != 0) return rc;
    w->at = BATCH_DELETE_BYTES;
    rc = check_u32(w, DELETE_COLUMNS_OFF, "columns_off", w->at);
    if (rc != 0) return rc;
    rc = take(w, 4u * (uint64_t)load_u32(head + DELETE_COLUMN_COUNT), "columns");
    if (rc != 0) return rc;
    rc = take_gap(w);
    if (rc != 0) return rc;
    rc = check_u32(w, DELETE_DEVICES_OFF, "devices_off", w->at);
    if (rc != 0) return rc;
    return take(w, (uint64_t)load_u32(head + DELETE_DEVICE_COUNT) * BATCH_DEVICE_BYTES, "devices");
}

static int check_delete_keys(struct walk *w, const struct batch_delete *delete_)
{
    struct batch_key before = {0};
    for (uint32_t i = 0; i < delete_->device_count; i++) {
        uint64_t off = delete_->devices_off + (uint64_t)i * BATCH_DEVICE_BYTES;
        int rc = check_u32(w, off + DEVICE_KEY_OFF, "key_off", w->at);
        if (rc != 0) return rc;
        rc = check_count(w, off + DEVICE_KEY_BYTES, "key_bytes", 0, BATCH_KEY_BYTES_MAX);
        if (rc != 0) return rc;
        uint64_t zero = load_u64(w->payload + off + DEVICE_GROUP);
        if (zero != 0) return bad(w, off + DEVICE_GROUP, "reserved", 0, zero);
        rc = take(w, load_u32(w->payload + off + DEVICE_KEY_BYTES), "key");
        if (rc != 0) return rc;
        struct batch_key key;
        batch_read_delete_key(w->payload, delete_, i, &key);
        if (i > 0 && batch_key_compare(before.data, before.bytes, key.data, key.bytes) >= 0)
            return err_set(w->msg, -RFE_CORRUPT,
                           "%s payload: offset %" PRIu64 ": key: expected one behind key %" PRIu32
                           " in order, found one before it",
                           w->kind, off, i - 1);
        before = key;
    }
    int rc = take_gap(w);
    if (rc != 0) return rc;
    return w->at == w->bytes ? 0 : bad(w, w->at, "length", w->at, w->bytes);
}

int batch_decode_delete(const uint8_t *payload, uint32_t bytes, struct batch_delete *delete_out,
                        struct err_msg *msg)
{
    CHECK((uintptr_t)payload % PART_ALIGN == 0);
    struct walk w = {.payload = payload, .kind = "delete", .bytes = bytes, .msg = msg};
    struct batch_delete delete_;
    int rc = check_delete_head(&w);
    if (rc != 0) return rc;
    batch_open_delete(payload, &delete_);
    rc = check_delete_keys(&w, &delete_);
    if (rc != 0) return rc;
    *delete_out = delete_;
    return 0;
}
