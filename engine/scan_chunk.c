/* Cells, where they stand in the images, into the columns of a tablet. */
#include "engine/scan.h"

int scan_chunk_init(struct scan_chunk *c, const struct scan_target *t)
{
    memset(c, 0, sizeof *c);
    uint32_t rows = SCAN_CHUNK_ROWS, wants = t->want_count, columns = wants + t->tag_count;
    if (wants > SCAN_CHUNK_CELLS / SCAN_CHUNK_ROWS) rows = SCAN_CHUNK_CELLS / wants;
    if (rows < 8) rows = 8;
    c->rows_max = rows;
    for (uint32_t w = 0; w < wants; w++)
        c->has_variable |= schema_type_bytes(t->wants[w].type) == 0;
    c->times = mem_zalloc_array(rows, sizeof *c->times);
    c->cells = mem_zalloc_array((size_t)rows * (wants + 1), sizeof *c->cells);
    c->columns = mem_zalloc_array(columns + 1, sizeof *c->columns);
    c->nulls = mem_zalloc_array((size_t)columns + 1, (rows + 7) / 8);
    c->offsets = mem_zalloc_array((size_t)(columns + 1) * (rows + 1), sizeof *c->offsets);
    c->values = mem_zalloc_array((size_t)(wants + 1) * rows, 8);
    if (c->times == NULL || c->cells == NULL || c->columns == NULL || c->nulls == NULL ||
        c->offsets == NULL || c->values == NULL)
        return -ENOMEM;
    return 0;
}

void scan_chunk_deinit(struct scan_chunk *c)
{
    mem_free(c->times);
    mem_free(c->cells);
    mem_free(c->columns);
    mem_free(c->nulls);
    mem_free(c->offsets);
    mem_free(c->values);
    mem_free(c->bytes);
}

/* Bytes that a row needs in all variable columns. */
static uint64_t row_bytes(const struct scan_chunk *c, const struct scan_target *t, uint32_t row)
{
    uint64_t bytes = 0;
    for (uint32_t w = 0; w < t->want_count; w++)
        if (schema_type_bytes(t->wants[w].type) == 0)
            bytes += c->cells[(uint64_t)row * t->want_count + w].bytes;
    return bytes;
}

/* Shortens rows->count to what may be lent at once; returns the bytes of these. */
static uint64_t limit_rows(const struct scan_chunk *c, const struct scan_target *t,
                           struct scan_rows *rows)
{
    uint64_t bytes = 0;
    if (!c->has_variable) return (uint64_t)rows->key_bytes * rows->count;
    for (uint32_t i = 0; i < rows->count; i++) {
        uint64_t more = rows->key_bytes + row_bytes(c, t, rows->first + i);
        if (i > 0 && bytes + more > SCAN_CHUNK_BYTES) {
            rows->count = i;
            break;
        }
        bytes += more;
    }
    return bytes;
}

/* Never NULL afterwards: a column of empty values is not one of nulls. */
static int make_room(struct scan_chunk *c, uint64_t bytes)
{
    if (c->bytes != NULL && bytes <= c->bytes_room) return 0;
    uint8_t *more = mem_alloc(bytes);
    if (more == NULL) return -ENOMEM;
    mem_free(c->bytes);
    c->bytes = more;
    c->bytes_room = bytes;
    return 0;
}

static size_t fill_tag(struct scan_chunk *c, const struct scan_target *t, uint32_t tag,
                       const struct scan_rows *rows, size_t at)
{
    uint32_t n = rows->count;
    struct rf_column *col = &c->columns[tag];
    uint32_t *offsets = c->offsets + (size_t)tag * (c->rows_max + 1);
    uint8_t *nulls = c->nulls + (size_t)tag * ((c->rows_max + 7) / 8);
    const uint8_t *value = NULL;
    uint32_t bytes = 0;
    bool there = engine_key_tag(rows->key, rows->key_bytes, tag, &value, &bytes);
    *col = (struct rf_column){.name = t->tag_names[tag],
                              .type = RF_STRING,
                              .category = RF_TAG,
                              .values = c->bytes + at,
                              .offsets = offsets};
    offsets[0] = 0;
    for (uint32_t r = 0; r < n; r++) {
        if (there && bytes > 0) memcpy(c->bytes + at, value, bytes);
        at += bytes;
        offsets[r + 1] = offsets[r] + bytes;
    }
    if (!there) {
        memset(nulls, 0xff, (n + 7) / 8);
        col->nulls = nulls;
    }
    return at;
}

static size_t fill_want(struct scan_chunk *c, const struct scan_target *t, uint32_t want,
                        const struct scan_rows *rows, size_t at)
{
    uint32_t n = rows->count;
    const struct memtable_cell *cell = &c->cells[(uint64_t)rows->first * t->want_count + want];
    uint32_t index = t->tag_count + want;
    struct rf_column *col = &c->columns[index];
    int width = schema_type_bytes(t->wants[want].type);
    uint32_t *offsets = c->offsets + (size_t)index * (c->rows_max + 1);
    uint8_t *nulls = c->nulls + (size_t)index * ((c->rows_max + 7) / 8);
    uint8_t *values = c->values + (size_t)want * c->rows_max * 8;
    bool any_null = false;
    *col = (struct rf_column){.name = t->want_names[want],
                              .type = (enum rf_type)t->wants[want].type,
                              .category = RF_FIELD,
                              .values = width == 0 ? c->bytes + at : values,
                              .offsets = width == 0 ? offsets : NULL};
    memset(nulls, 0, (n + 7) / 8);
    offsets[0] = 0;
    for (uint32_t r = 0; r < n; r++, cell += t->want_count) {
        uint32_t bytes = cell->data == NULL ? 0 : cell->bytes;
        if (cell->data == NULL) {
            nulls[r / 8] |= (uint8_t)(1u << r % 8);
            any_null = true;
        }
        if (width != 0) {
            if (bytes == 0)
                memset(values + (size_t)r * (size_t)width, 0, (size_t)width);
            else
                memcpy(values + (size_t)r * (size_t)width, cell->data, (size_t)width);
            continue;
        }
        if (bytes > 0) memcpy(c->bytes + at, cell->data, bytes);
        at += bytes;
        offsets[r + 1] = offsets[r] + bytes;
    }
    if (any_null) col->nulls = nulls;
    return at;
}

int scan_chunk_fill(struct scan_chunk *c, const struct scan_target *t, struct scan_rows *rows,
                    struct rf_tablet *rows_out)
{
    int rc = make_room(c, limit_rows(c, t, rows));
    if (rc != 0) return rc;
    size_t at = 0;
    for (uint32_t i = 0; i < t->tag_count; i++)
        at = fill_tag(c, t, i, rows, at);
    for (uint32_t i = 0; i < t->want_count; i++)
        at = fill_want(c, t, i, rows, at);
    *rows_out = (struct rf_tablet){.size = sizeof *rows_out,
                                   .rows = rows->count,
                                   .columns = t->tag_count + t->want_count,
                                   .times = c->times + rows->first,
                                   .column = c->columns};
    return 0;
}
