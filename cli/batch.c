#include "cli/batch.h"

#include "cli/memory.h"

#include "base/alloc.h"
#include "base/hash.h"

#include <stdio.h>

enum { COLUMN_NONE = UINT32_MAX };

/* A column keeps its place and memory when a batch has no value for it: `filled` is 0 then. */
struct batch_column {
    char *name; /* NUL-terminated */
    size_t name_bytes;
    uint64_t name_hash;
    enum rf_type type; /* of this batch, as the category, once filled > 0 */
    enum rf_category category;
    uint32_t filled; /* rows that have an element; the newest one has a value */
    bool has_nulls;
    char *values;
    size_t value_bytes, value_capacity;
    uint32_t *offsets;
    size_t offset_capacity;
    uint8_t *nulls;
    size_t null_capacity;
};

struct batch_table {
    char *name;
    size_t name_bytes;
    int64_t *times;
    uint32_t *records;
    size_t time_capacity, record_capacity;
    uint32_t rows;
    struct batch_column *column;
    size_t column_count, column_capacity;
    uint32_t *slots; /* open addressing by name_hash: index of a column, or COLUMN_NONE */
    size_t slot_count;
    struct rf_column *out;
    size_t out_capacity;
    uint32_t *out_column; /* index in column of each of out */
    size_t out_column_capacity;
};

static void column_deinit(struct batch_column *c)
{
    mem_free(c->name);
    mem_free(c->values);
    mem_free(c->offsets);
    mem_free(c->nulls);
}

static void table_deinit(struct batch_table *t)
{
    for (size_t i = 0; i < t->column_count; i++)
        column_deinit(&t->column[i]);
    mem_free(t->name);
    mem_free(t->times);
    mem_free(t->records);
    mem_free(t->column);
    mem_free(t->slots);
    mem_free(t->out);
    mem_free(t->out_column);
}

void batch_deinit(struct batch *b)
{
    for (size_t i = 0; i < b->table_count; i++)
        table_deinit(&b->table[i]);
    mem_free(b->table);
    mem_free(b->tablet);
    mem_free(b->tablet_table);
    *b = (struct batch){0};
}

void batch_begin(struct batch *b)
{
    for (size_t i = 0; i < b->table_count; i++) {
        struct batch_table *t = &b->table[i];
        t->rows = 0;
        for (size_t j = 0; j < t->column_count; j++) {
            struct batch_column *c = &t->column[j];
            c->filled = 0;
            c->value_bytes = 0;
            c->has_nulls = false;
        }
    }
    b->tablet_count = 0;
    b->rows = 0;
    b->points = 0;
}

/* ---- finding tables and columns ---- */

static struct batch_table *table_of(struct batch *b, struct text name)
{
    for (size_t tried = 0; tried < b->table_count; tried++) {
        size_t i = (b->last_table + tried) % b->table_count;
        struct batch_table *t = &b->table[i];
        if (!text_equal((struct text){t->name, t->name_bytes}, name)) continue;
        b->last_table = i;
        return t;
    }
    need_room(&b->table, &b->table_capacity, b->table_count + 1, sizeof *b->table);
    b->last_table = b->table_count++;
    struct batch_table *t = &b->table[b->last_table];
    *t = (struct batch_table){.name = need_strndup(name.at, name.bytes), .name_bytes = name.bytes};
    return t;
}

static void slots_put(struct batch_table *t, uint32_t index)
{
    size_t slot = t->column[index].name_hash & (t->slot_count - 1);
    while (t->slots[slot] != COLUMN_NONE)
        slot = (slot + 1) & (t->slot_count - 1);
    t->slots[slot] = index;
}

static void slots_grow(struct batch_table *t)
{
    t->slot_count = t->slot_count == 0 ? 16 : t->slot_count * 2;
    t->slots = need_realloc(t->slots, t->slot_count * sizeof *t->slots);
    for (size_t i = 0; i < t->slot_count; i++)
        t->slots[i] = COLUMN_NONE;
    for (uint32_t i = 0; i < t->column_count; i++)
        slots_put(t, i);
}

static uint32_t add_column(struct batch_table *t, struct text name, uint64_t hash)
{
    need_room(&t->column, &t->column_capacity, t->column_count + 1, sizeof *t->column);
    uint32_t index = (uint32_t)t->column_count++;
    t->column[index] = (struct batch_column){
        .name = need_strndup(name.at, name.bytes), .name_bytes = name.bytes, .name_hash = hash};
    if (t->column_count * 2 > t->slot_count)
        slots_grow(t);
    else
        slots_put(t, index);
    return index;
}

static bool is_named(const struct batch_column *c, struct text name)
{
    return text_equal((struct text){c->name, c->name_bytes}, name);
}

/* guess: rows of a table mostly have the same columns in the same order. */
static uint32_t column_of(struct batch_table *t, struct text name, uint32_t guess)
{
    if (guess < t->column_count && is_named(&t->column[guess], name)) return guess;
    uint64_t hash = hash64(name.at, name.bytes, 0);
    for (size_t slot = hash; t->slot_count > 0; slot++) {
        uint32_t index = t->slots[slot & (t->slot_count - 1)];
        if (index == COLUMN_NONE) break;
        const struct batch_column *c = &t->column[index];
        if (c->name_hash == hash && is_named(c, name)) return index;
    }
    return add_column(t, name, hash);
}

void batch_declare(struct batch *b, struct text table, struct text column)
{
    struct batch_table *t = table_of(b, table);
    (void)column_of(t, column, (uint32_t)t->column_count);
}

/* ---- adding ---- */

/* Nulls for all rows below `rows` that have no element yet. */
static void pad(struct batch_column *c, uint32_t rows)
{
    if (c->filled == rows) return;
    size_t width = type_width(c->type);
    if (!c->has_nulls) {
        c->has_nulls = true;
        need_room(&c->nulls, &c->null_capacity, rows / 8 + 1, 1);
        memset(c->nulls, 0, c->null_capacity);
    }
    size_t known = c->null_capacity;
    need_room(&c->nulls, &c->null_capacity, rows / 8 + 1, 1);
    memset(c->nulls + known, 0, c->null_capacity - known);
    for (uint32_t r = c->filled; r < rows; r++)
        c->nulls[r / 8] |= (uint8_t)(1u << r % 8);
    if (width > 0) {
        size_t bytes = (rows - c->filled) * width;
        need_room(&c->values, &c->value_capacity, c->value_bytes + bytes, 1);
        memset(c->values + c->value_bytes, 0, bytes);
        c->value_bytes += bytes;
    } else {
        need_room(&c->offsets, &c->offset_capacity, rows + (size_t)1, sizeof *c->offsets);
        for (uint32_t r = c->filled; r < rows; r++)
            c->offsets[r] = (uint32_t)c->value_bytes;
        c->offsets[rows] = (uint32_t)c->value_bytes;
    }
    c->filled = rows;
}

static void append(struct batch_column *c, const struct cell *cell, uint32_t row)
{
    size_t width = type_width(c->type);
    size_t bytes = width > 0 ? width : cell->text.bytes;
    const void *from = width > 0 ? (const void *)&cell->boolean : cell->text.at;
    /* One byte at least: in a tablet a NULL array would say that every row is null. */
    need_room(&c->values, &c->value_capacity, c->value_bytes + bytes + 1, 1);
    if (width == 0) {
        need_room(&c->offsets, &c->offset_capacity, row + (size_t)2, sizeof *c->offsets);
        c->offsets[row] = (uint32_t)c->value_bytes;
        c->offsets[row + 1] = (uint32_t)(c->value_bytes + bytes);
    }
    if (bytes > 0) memcpy(c->values + c->value_bytes, from, bytes);
    c->value_bytes += bytes;
    if (c->has_nulls && row / 8 >= c->null_capacity) {
        size_t known = c->null_capacity;
        need_room(&c->nulls, &c->null_capacity, row / 8 + 1, 1);
        memset(c->nulls + known, 0, c->null_capacity - known);
    }
    c->filled = row + 1;
}

static bool kinds_match(const struct batch_column *c, const struct cell *cell, struct bad *bad)
{
    if (c->category != cell->category)
        return bad_set(bad, cell->column, "\"%s\" is a %s here and a %s in an earlier line",
                       c->name, cell->category == RF_TAG ? "tag" : "field",
                       c->category == RF_TAG ? "tag" : "field");
    if (c->type != cell->type)
        return bad_set(bad, cell->column, "\"%s\" is %s here and %s in an earlier line", c->name,
                       type_name(cell->type), type_name(c->type));
    return true;
}

static bool add_cell(struct batch_table *t, const struct cell *cell, uint32_t row, uint32_t *guess,
                     struct bad *bad)
{
    uint32_t index = column_of(t, cell->name, *guess);
    *guess = index + 1;
    struct batch_column *c = &t->column[index];
    if (c->filled == row + 1) return bad_set(bad, cell->column, "\"%s\" is there twice", c->name);
    if (c->filled == 0) {
        c->type = cell->type;
        c->category = cell->category;
    } else if (!kinds_match(c, cell, bad)) {
        return false;
    }
    if (type_width(c->type) == 0 && c->value_bytes + cell->text.bytes > UINT32_MAX)
        return bad_set(bad, cell->column, "\"%s\" has more than 4 GiB of text in one batch",
                       c->name);
    pad(c, row);
    append(c, cell, row);
    return true;
}

bool batch_add(struct batch *b, const struct row *row, uint32_t record, struct bad *bad)
{
    struct batch_table *t = table_of(b, row->table);
    uint32_t index = t->rows, guess = 0;
    need_room(&t->times, &t->time_capacity, index + (size_t)1, sizeof *t->times);
    need_room(&t->records, &t->record_capacity, index + (size_t)1, sizeof *t->records);
    t->times[index] = row->time;
    t->records[index] = record;
    for (size_t i = 0; i < row->cell_count; i++) {
        if (!add_cell(t, &row->cell[i], index, &guess, bad)) return false;
        b->points += row->cell[i].category == RF_FIELD;
    }
    t->rows++;
    b->rows++;
    return true;
}

/* ---- the tablets ---- */

static void finish_column(struct batch_table *t, uint32_t index, struct rf_column *out)
{
    struct batch_column *c = &t->column[index];
    pad(c, t->rows);
    *out = (struct rf_column){
        .name = c->name,
        .type = c->type,
        .category = c->category,
        .values = c->values,
        .offsets = type_width(c->type) == 0 ? c->offsets : NULL,
        .nulls = c->has_nulls ? c->nulls : NULL,
    };
}

static void finish_table(struct batch_table *t, struct rf_tablet *tablet)
{
    size_t columns = 0;
    for (uint32_t i = 0; i < t->column_count; i++) {
        if (t->column[i].filled == 0) continue;
        need_room(&t->out, &t->out_capacity, columns + 1, sizeof *t->out);
        need_room(&t->out_column, &t->out_column_capacity, columns + 1, sizeof *t->out_column);
        finish_column(t, i, &t->out[columns]);
        t->out_column[columns++] = i;
    }
    *tablet = (struct rf_tablet){
        .size = sizeof *tablet,
        .table = t->name,
        .rows = t->rows,
        .columns = (uint32_t)columns,
        .times = t->times,
        .column = t->out,
    };
}

void batch_finish(struct batch *b)
{
    for (size_t i = 0; i < b->table_count; i++) {
        if (b->table[i].rows == 0) continue;
        size_t n = b->tablet_count + 1;
        need_room(&b->tablet, &b->tablet_capacity, n, sizeof *b->tablet);
        need_room(&b->tablet_table, &b->tablet_table_capacity, n, sizeof *b->tablet_table);
        finish_table(&b->table[i], &b->tablet[b->tablet_count]);
        b->tablet_table[b->tablet_count++] = i;
    }
}

uint32_t batch_record_of_row(const struct batch *b, uint32_t tablet, uint32_t row)
{
    if (tablet >= b->tablet_count) return UINT32_MAX;
    const struct batch_table *t = &b->table[b->tablet_table[tablet]];
    return row < t->rows ? t->records[row] : UINT32_MAX;
}

uint32_t batch_record_of_column(const struct batch *b, uint32_t tablet, uint32_t column,
                                uint32_t *row_in_out)
{
    if (tablet >= b->tablet_count || column >= b->tablet[tablet].columns) return UINT32_MAX;
    const struct batch_table *t = &b->table[b->tablet_table[tablet]];
    const struct batch_column *c = &t->column[t->out_column[column]];
    for (uint32_t r = *row_in_out; r < t->rows; r++) {
        if (c->has_nulls && (c->nulls[r / 8] >> r % 8 & 1) != 0) continue;
        *row_in_out = r;
        return t->records[r];
    }
    return UINT32_MAX;
}
