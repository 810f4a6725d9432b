#include "cli/row.h"

#include "cli/memory.h"

#include "base/alloc.h"

void row_deinit(struct row *row)
{
    mem_free(row->cell);
    mem_free(row->scratch);
    *row = (struct row){0};
}

void row_begin(struct row *row, size_t line_bytes)
{
    row->table = (struct text){"", 0};
    row->time = 0;
    row->cell_count = 0;
    row->scratch_used = 0;
    /* Texts without their escapes are no longer than with them, so nothing moves while in use. */
    need_room(&row->scratch, &row->scratch_bytes, line_bytes, 1);
}

struct cell *row_add(struct row *row)
{
    need_room(&row->cell, &row->cell_capacity, row->cell_count + 1, sizeof *row->cell);
    struct cell *cell = &row->cell[row->cell_count++];
    *cell = (struct cell){0};
    return cell;
}

static const struct {
    const char *name;
    enum rf_type type;
} types[] = {
    {"BOOLEAN", RF_BOOLEAN},     {"INT32", RF_INT32},   {"INT64", RF_INT64},
    {"FLOAT", RF_FLOAT},         {"DOUBLE", RF_DOUBLE}, {"TEXT", RF_TEXT},
    {"TIMESTAMP", RF_TIMESTAMP}, {"DATE", RF_DATE},     {"BLOB", RF_BLOB},
    {"STRING", RF_STRING},
};

const char *type_name(enum rf_type type)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].type == type) return types[i].name;
    return NULL;
}

bool type_from_name(struct text name, enum rf_type *type_out)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (text_is_nocase(name, types[i].name)) {
            *type_out = types[i].type;
            return true;
        }
    return false;
}

size_t type_width(enum rf_type type)
{
    switch (type) {
    case RF_BOOLEAN: return 1;
    case RF_INT32:
    case RF_FLOAT:
    case RF_DATE: return 4;
    case RF_INT64:
    case RF_DOUBLE:
    case RF_TIMESTAMP: return 8;
    case RF_TEXT:
    case RF_STRING:
    case RF_BLOB: return 0;
    }
    CHECK(false);
    return 0;
}
