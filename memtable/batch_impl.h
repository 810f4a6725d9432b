/* Inside of the batch format: where each field stands. The table is at the head of batch.h. */
#ifndef RF_MEMTABLE_BATCH_IMPL_H
#define RF_MEMTABLE_BATCH_IMPL_H

#include "base/bytes.h"
#include "memtable/batch.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "times, positions and values are read where they stand in the image");

#define BATCH_VERSION 1u
#define PART_ALIGN    8u

enum head_off {
    HEAD_VERSION = 0,
    HEAD_GROUP_COUNT = 2,
    HEAD_REGION = 4,
    HEAD_DEVICE_COUNT = 8,
    HEAD_FRAGMENT_COUNT = 12,
    HEAD_DEVICES_OFF = 16,
    HEAD_FRAGMENTS_OFF = 20,
    HEAD_ZERO = 24,
    HEAD_END = 32,
};
enum group_off {
    GROUP_INCARNATION = 0,
    GROUP_ROWS = 8,
    GROUP_COLUMNS = 12,
    GROUP_COLUMNS_OFF = 16,
    GROUP_TIMES_OFF = 20,
    GROUP_FRAGMENT_FIRST = 24,
    GROUP_FRAGMENT_COUNT = 28,
    GROUP_END = 32,
};
enum device_off {
    DEVICE_KEY_OFF = 0,
    DEVICE_KEY_BYTES = 4,
    DEVICE_GROUP = 8,
    DEVICE_ZERO = 12,
    DEVICE_END = 16,
};
enum fragment_off {
    FRAGMENT_GROUP = 0,
    FRAGMENT_DEVICE = 4,
    FRAGMENT_ROW_FIRST = 8,
    FRAGMENT_ROWS = 12,
    FRAGMENT_PARTITION = 16,
    FRAGMENT_TIME_MIN = 24,
    FRAGMENT_TIME_MAX = 32,
    FRAGMENT_END = 40,
};
enum column_off {
    COLUMN_ID = 0,
    COLUMN_TYPE = 4,
    COLUMN_FLAGS = 5,
    COLUMN_ZERO = 6,
    COLUMN_VALUES_OFF = 8,
    COLUMN_NULLS_OFF = 12,
    COLUMN_END = 16,
};
enum delete_off {
    DELETE_VERSION = 0,
    DELETE_FLAGS = 2,
    DELETE_REGION = 4,
    DELETE_INCARNATION = 8,
    DELETE_COLUMN_COUNT = 16,
    DELETE_DEVICE_COUNT = 20,
    DELETE_COLUMNS_OFF = 24,
    DELETE_DEVICES_OFF = 28,
    DELETE_TIME_FROM = 32,
    DELETE_TIME_TO = 40,
    DELETE_END = 48,
};

_Static_assert(HEAD_END == BATCH_HEAD_BYTES, "head");
_Static_assert(GROUP_END == BATCH_GROUP_BYTES, "group");
_Static_assert(DEVICE_END == BATCH_DEVICE_BYTES, "device");
_Static_assert(FRAGMENT_END == BATCH_FRAGMENT_BYTES, "fragment");
_Static_assert(COLUMN_END == BATCH_COLUMN_BYTES, "column");
_Static_assert(DELETE_END == BATCH_DELETE_BYTES, "delete");
_Static_assert(HEAD_ZERO + 8 == HEAD_END, "no gap before the groups");
_Static_assert(GROUP_FRAGMENT_COUNT + 4 == GROUP_END, "no gap at a group's end");
_Static_assert(DEVICE_ZERO + 4 == DEVICE_END, "no gap at a device's end");
_Static_assert(FRAGMENT_TIME_MAX + 8 == FRAGMENT_END, "no gap at a fragment's end");
_Static_assert(COLUMN_NULLS_OFF + 4 == COLUMN_END, "no gap at a column's end");
_Static_assert(DELETE_TIME_TO + 8 == DELETE_END, "no gap at a delete's end");
_Static_assert(BATCH_HEAD_BYTES % PART_ALIGN == 0 && BATCH_GROUP_BYTES % PART_ALIGN == 0 &&
                   BATCH_DEVICE_BYTES % PART_ALIGN == 0 && BATCH_FRAGMENT_BYTES % PART_ALIGN == 0 &&
                   BATCH_COLUMN_BYTES % PART_ALIGN == 0 && BATCH_DELETE_BYTES % PART_ALIGN == 0,
               "entries keep the alignment of what follows them");

#endif
