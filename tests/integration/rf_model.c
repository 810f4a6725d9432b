#include "rf_model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

static void *grown(void *all, uint32_t count, uint32_t *room, size_t bytes)
{
    if (count < *room) return all;
    uint32_t more = *room == 0 ? 8 : 2 * *room;
    all = realloc(all, more * bytes);
    if (all == NULL) abort();
    memset((char *)all + *room * bytes, 0, (more - *room) * bytes);
    *room = more;
    return all;
}

static uint8_t *copied(const void *data, size_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);
    if (copy == NULL) abort();
    if (bytes > 0) memcpy(copy, data, bytes);
    return copy;
}

uint32_t model_type_bytes(enum rf_type type)
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
    case RF_BLOB:
    case RF_STRING: return 0;
    }
    abort();
}

static void cell_clear(const struct model_relation *r, uint32_t column, struct model_cell *cell)
{
    if (cell->there && model_type_bytes(r->columns[column].type) == 0) free(cell->data);
    *cell = (struct model_cell){.there = false};
}

static void row_clear(const struct model_relation *r, struct model_row *row)
{
    for (uint32_t c = 0; c < row->cell_room; c++)
        cell_clear(r, c, &row->cells[c]);
    row->written = false;
}

static void relation_clear(struct model_relation *r)
{
    for (uint32_t d = 0; d < r->device_count; d++) {
        for (uint32_t i = 0; i < r->devices[d].row_count; i++) {
            row_clear(r, &r->devices[d].rows[i]);
            free(r->devices[d].rows[i].cells);
        }
        free(r->devices[d].rows);
        free(r->devices[d].key);
    }
    free(r->devices);
    free(r->columns);
    r->devices = NULL;
    r->columns = NULL;
    r->device_count = r->device_room = r->column_count = r->column_room = 0;
    r->exists = false;
    r->ttl = 0;
}

struct model *model_create(void)
{
    struct model *m = calloc(1, sizeof *m);
    if (m == NULL) abort();
    return m;
}

void model_destroy(struct model *m)
{
    for (uint32_t i = 0; i < m->relation_count; i++)
        relation_clear(&m->relations[i]);
    free(m->relations);
    free(m);
}

/* ---- names ---- */

struct model_relation *model_relation(struct model *m, const char *name, bool tree)
{
    for (uint32_t i = 0; i < m->relation_count; i++)
        if (strcmp(m->relations[i].name, name) == 0) return &m->relations[i];
    m->relations = realloc(m->relations, (m->relation_count + 1) * sizeof *m->relations);
    if (m->relations == NULL) abort();
    struct model_relation *r = &m->relations[m->relation_count++];
    memset(r, 0, sizeof *r);
    snprintf(r->name, sizeof r->name, "%s", name);
    r->tree = tree;
    return r;
}

size_t model_database_bytes(const char *device)
{
    const char *dot = strchr(device + 5, '.');
    return dot == NULL ? strlen(device) : (size_t)(dot - device);
}

bool model_same_database(const struct model_relation *r, const char *database,
                         size_t database_bytes)
{
    return r->tree && model_database_bytes(r->name) == database_bytes &&
           memcmp(r->name, database, database_bytes) == 0;
}

struct model_column *model_column(const struct model_relation *r, const char *name)
{
    for (uint32_t i = 0; i < r->column_count; i++)
        if (!r->columns[i].dropped && strcmp(r->columns[i].name, name) == 0) return &r->columns[i];
    return NULL;
}

uint32_t model_live_columns(const struct model_relation *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->column_count; i++)
        n += !r->columns[i].dropped;
    return n;
}

uint32_t model_tags(const struct model_relation *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->column_count; i++)
        n += r->columns[i].category == RF_TAG;
    return n;
}

static struct model_column *column_add(struct model_relation *r, const char *name,
                                       enum rf_type type, enum rf_category category)
{
    uint32_t tags = model_tags(r);
    r->columns = grown(r->columns, r->column_count, &r->column_room, sizeof *r->columns);
    struct model_column *c = &r->columns[r->column_count++];
    *c = (struct model_column){.type = type, .category = category, .tag_index = tags};
    snprintf(c->name, sizeof c->name, "%s", name);
    return c;
}

/* A database begins to exist with its first series, for all its devices. */
static void bear(struct model *m, struct model_relation *r, uint64_t position)
{
    if (r->exists) return;
    r->exists = true;
    r->born = position;
    if (!r->tree) return;
    size_t bytes = model_database_bytes(r->name);
    for (uint32_t i = 0; i < m->relation_count; i++) {
        struct model_relation *other = &m->relations[i];
        if (other == r || !model_same_database(other, r->name, bytes)) continue;
        if (other->exists) { /* the database was there before */
            r->born = other->born;
            r->ttl = other->ttl;
        }
        other->exists = true;
        other->born = r->born;
    }
}

/* ---- devices and rows ---- */

static int key_compare(const uint8_t *a, uint32_t a_bytes, const uint8_t *b, uint32_t b_bytes)
{
    uint32_t n = a_bytes < b_bytes ? a_bytes : b_bytes;
    int order = n == 0 ? 0 : memcmp(a, b, n);
    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* Devices stand by key, as scans yield them. */
static struct model_device *device_of(struct model_relation *r, const uint8_t *key, uint32_t bytes)
{
    uint32_t at = 0;
    for (; at < r->device_count; at++) {
        int order = key_compare(r->devices[at].key, r->devices[at].key_bytes, key, bytes);
        if (order == 0) return &r->devices[at];
        if (order > 0) break;
    }
    r->devices = grown(r->devices, r->device_count, &r->device_room, sizeof *r->devices);
    memmove(&r->devices[at + 1], &r->devices[at], (r->device_count - at) * sizeof *r->devices);
    r->device_count++;
    r->devices[at] = (struct model_device){.key = copied(key, bytes), .key_bytes = bytes};
    return &r->devices[at];
}

/* The first row at or behind time. */
static uint32_t row_place(const struct model_device *d, int64_t time)
{
    uint32_t low = 0, high = d->row_count;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (d->rows[mid].time < time)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct model_row *row_of(const struct model_relation *r, struct model_device *d,
                                int64_t time)
{
    uint32_t at = row_place(d, time);
    if (at == d->row_count || d->rows[at].time != time) {
        d->rows = grown(d->rows, d->row_count, &d->row_room, sizeof *d->rows);
        memmove(&d->rows[at + 1], &d->rows[at], (d->row_count - at) * sizeof *d->rows);
        d->row_count++;
        d->rows[at] = (struct model_row){.time = time};
    }
    struct model_row *row = &d->rows[at];
    if (row->cell_room < r->column_count) {
        row->cells = realloc(row->cells, r->column_count * sizeof *row->cells);
        if (row->cells == NULL) abort();
        memset(row->cells + row->cell_room, 0,
               (r->column_count - row->cell_room) * sizeof *row->cells);
        row->cell_room = r->column_count;
    }
    return row;
}

static bool null_at(const struct rf_column *c, uint32_t row)
{
    if (c->values == NULL && (model_type_bytes(c->type) != 0 || c->offsets == NULL)) return true;
    return c->nulls != NULL && (c->nulls[row / 8] >> (row % 8) & 1) != 0;
}

/* ---- writing ---- */

static int64_t oldest_kept(const struct model *m, const struct model_relation *r)
{
    return r->ttl > 0 ? m->now - r->ttl : INT64_MIN;
}

int model_expect_write(struct model *m, const struct rf_tablet *tablets, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct rf_tablet *t = &tablets[i];
        const char *name = t->table != NULL ? t->table : t->device;
        struct model_relation *r = model_relation(m, name, t->device != NULL);
        if (!r->exists) continue;
        for (uint32_t c = 0; c < t->columns; c++) {
            const struct model_column *have = model_column(r, t->column[c].name);
            if (have != NULL &&
                (have->type != t->column[c].type || have->category != t->column[c].category))
                return -RF_CODE_TYPE_MISMATCH;
        }
        for (uint32_t row = 0; row < t->rows; row++)
            if (t->times[row] < oldest_kept(m, r)) return -RF_CODE_OUT_OF_TTL;
    }
    return 0;
}

static uint32_t key_of(const struct model_relation *r, const struct rf_tablet *t, uint32_t row,
                       uint8_t *key)
{
    uint32_t bytes = 0, end = 0;
    for (uint32_t i = 0; i < r->column_count; i++) {
        if (r->columns[i].category != RF_TAG) continue;
        const struct rf_column *tag = NULL;
        for (uint32_t c = 0; c < t->columns; c++)
            if (strcmp(t->column[c].name, r->columns[i].name) == 0) tag = &t->column[c];
        if (tag == NULL || null_at(tag, row)) {
            key[bytes++] = 0;
            key[bytes++] = 0;
            continue;
        }
        uint32_t n = tag->offsets[row + 1] - tag->offsets[row];
        key[bytes++] = (uint8_t)(n + 1);
        key[bytes++] = (uint8_t)((n + 1) >> 8);
        if (n > 0) memcpy(key + bytes, (const char *)tag->values + tag->offsets[row], n);
        bytes += n;
        end = bytes;
    }
    return end;
}

static void write_cell(struct model_relation *r, struct model_row *row, uint32_t column,
                       const struct rf_column *in, uint32_t at)
{
    uint32_t width = model_type_bytes(in->type);
    struct model_cell *cell = &row->cells[column];
    cell_clear(r, column, cell);
    cell->there = true;
    if (width != 0) {
        cell->bytes = width;
        cell->bits = 0;
        memcpy(&cell->bits, (const char *)in->values + (size_t)at * width, width);
        return;
    }
    cell->bytes = in->offsets[at + 1] - in->offsets[at];
    const char *from = cell->bytes > 0 ? (const char *)in->values + in->offsets[at] : NULL;
    cell->data = copied(from, cell->bytes);
}

static void write_tablet(struct model *m, const struct rf_tablet *t, uint64_t position)
{
    const char *name = t->table != NULL ? t->table : t->device;
    struct model_relation *r = model_relation(m, name, t->device != NULL);
    bear(m, r, position);
    for (uint32_t c = 0; c < t->columns; c++)
        if (model_column(r, t->column[c].name) == NULL)
            (void)column_add(r, t->column[c].name, t->column[c].type, t->column[c].category);
    for (uint32_t i = 0; i < t->rows; i++) {
        uint8_t key[8192];
        uint32_t key_bytes = key_of(r, t, i, key);
        struct model_row *row = row_of(r, device_of(r, key, key_bytes), t->times[i]);
        row->written = true;
        for (uint32_t c = 0; c < t->columns; c++) {
            if (t->column[c].category == RF_TAG || null_at(&t->column[c], i)) continue;
            const struct model_column *have = model_column(r, t->column[c].name);
            write_cell(r, row, (uint32_t)(have - r->columns), &t->column[c], i);
        }
    }
}

void model_write(struct model *m, const struct rf_tablet *tablets, uint32_t n, uint64_t position)
{
    for (uint32_t i = 0; i < n; i++)
        write_tablet(m, &tablets[i], position);
}

/* ---- filters ---- */

/* The i-th tag of a key; false: null. */
static bool tag_of(const struct model_device *d, uint32_t tag_index, const uint8_t **value,
                   uint32_t *bytes)
{
    uint32_t at = 0;
    for (uint32_t i = 0; at < d->key_bytes; i++) {
        uint32_t n = (uint32_t)d->key[at] | (uint32_t)d->key[at + 1] << 8;
        at += 2;
        if (i == tag_index) {
            if (n == 0) return false;
            *value = d->key + at;
            *bytes = n - 1;
            return true;
        }
        if (n > 0) at += n - 1;
    }
    return false;
}

static bool passes(const struct model_relation *r, const struct model_device *d,
                   const struct rf_tag_filter *tags, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *value = NULL;
        uint32_t bytes = 0;
        bool there = tag_of(d, model_column(r, tags[i].name)->tag_index, &value, &bytes);
        if (there != (tags[i].value != NULL)) return false;
        if (there && (bytes != strlen(tags[i].value) || memcmp(value, tags[i].value, bytes) != 0))
            return false;
    }
    return true;
}

void model_delete(struct model *m, const struct rf_delete_options *o)
{
    struct model_relation *r =
        model_relation(m, o->table != NULL ? o->table : o->device, o->device != NULL);
    for (uint32_t d = 0; d < r->device_count; d++) {
        struct model_device *device = &r->devices[d];
        if (!passes(r, device, o->tags, o->tag_count)) continue;
        for (uint32_t i = 0; i < device->row_count; i++) {
            struct model_row *row = &device->rows[i];
            if (row->time < o->time_from || row->time > o->time_to) continue;
            if (o->columns == NULL) row_clear(r, row);
            for (uint32_t c = 0; c < o->column_count; c++) {
                uint32_t at = (uint32_t)(model_column(r, o->columns[c]) - r->columns);
                if (at < row->cell_room) cell_clear(r, at, &row->cells[at]);
            }
        }
    }
}

/* ---- changes ---- */

void model_create_table(struct model *m, const char *table, const struct rf_column_def *columns,
                        uint32_t n, int64_t ttl, uint64_t position)
{
    struct model_relation *r = model_relation(m, table, false);
    bear(m, r, position);
    r->ttl = ttl > 0 ? ttl : 0;
    model_add_columns(m, table, columns, n);
}

void model_add_columns(struct model *m, const char *name, const struct rf_column_def *columns,
                       uint32_t n)
{
    struct model_relation *r = model_relation(m, name, false);
    for (uint32_t i = 0; i < n; i++)
        (void)column_add(r, columns[i].name, columns[i].type, columns[i].category);
}

void model_drop_column(struct model *m, const char *name, const char *column)
{
    struct model_relation *r = model_relation(m, name, false);
    struct model_column *c = model_column(r, column);
    uint32_t at = (uint32_t)(c - r->columns);
    for (uint32_t d = 0; d < r->device_count; d++)
        for (uint32_t i = 0; i < r->devices[d].row_count; i++)
            if (at < r->devices[d].rows[i].cell_room)
                cell_clear(r, at, &r->devices[d].rows[i].cells[at]);
    c->dropped = true;
}

void model_rename_column(struct model *m, const char *table, const char *from, const char *to)
{
    struct model_column *c = model_column(model_relation(m, table, false), from);
    snprintf(c->name, sizeof c->name, "%s", to);
}

void model_drop_table(struct model *m, const char *name)
{
    size_t bytes = strlen(name);
    for (uint32_t i = 0; i < m->relation_count; i++) {
        struct model_relation *r = &m->relations[i];
        if (strcmp(r->name, name) == 0 || model_same_database(r, name, bytes)) relation_clear(r);
    }
}

void model_set_ttl(struct model *m, const char *name, int64_t ttl)
{
    size_t bytes = strlen(name);
    for (uint32_t i = 0; i < m->relation_count; i++) {
        struct model_relation *r = &m->relations[i];
        if (strcmp(r->name, name) == 0 || model_same_database(r, name, bytes))
            r->ttl = ttl > 0 ? ttl : 0;
    }
}

void model_create_series(struct model *m, const char *device, const char *measurement,
                         enum rf_type type, uint64_t position)
{
    struct model_relation *r = model_relation(m, device, true);
    bear(m, r, position);
    (void)column_add(r, measurement, type, RF_FIELD);
}

/* ---- comparing ---- */

__attribute__((format(printf, 2, 3))) static bool differs(struct model_why *why, const char *fmt,
                                                          ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(why->text, sizeof why->text, fmt, args);
    va_end(args);
    return false;
}

static bool row_exists(const struct model *m, const struct model_relation *r,
                       const struct model_row *row)
{
    if (!row->written || row->time < oldest_kept(m, r)) return false;
    if (!r->tree) return true;
    for (uint32_t c = 0; c < row->cell_room; c++)
        if (row->cells[c].there) return true;
    return false;
}

/* Rows that a scan has to yield, one after another. */
struct expected {
    const struct model *m;
    const struct model_relation *r;
    const struct rf_scan_options *o;
    uint32_t device;
    uint32_t row; /* rows done of this device */
    uint64_t left;
};

static const struct model_row *expected_next(struct expected *x,
                                             const struct model_device **device_out)
{
    for (; x->left > 0 && x->device < x->r->device_count; x->device++, x->row = 0) {
        const struct model_device *d = &x->r->devices[x->device];
        if (!passes(x->r, d, x->o->tags, x->o->tag_count)) continue;
        while (x->row < d->row_count) {
            uint32_t at = x->o->descending ? d->row_count - 1 - x->row : x->row;
            const struct model_row *row = &d->rows[at];
            x->row++;
            if (row->time < x->o->time_from || row->time > x->o->time_to) continue;
            if (!row_exists(x->m, x->r, row)) continue;
            x->left--;
            *device_out = d;
            return row;
        }
    }
    return NULL;
}

static bool compare_value(const struct rf_column *got, uint32_t at, bool there, const void *want,
                          uint32_t want_bytes)
{
    bool null = got->nulls != NULL && (got->nulls[at / 8] >> (at % 8) & 1) != 0;
    if (null != !there) return false;
    if (null) return true;
    uint32_t width = model_type_bytes(got->type);
    if (width != 0) return memcmp((const char *)got->values + (size_t)at * width, want, width) == 0;
    uint32_t bytes = got->offsets[at + 1] - got->offsets[at];
    return bytes == want_bytes &&
           (bytes == 0 || memcmp((const char *)got->values + got->offsets[at], want, bytes) == 0);
}

static bool compare_cell(const struct model_relation *r, const struct model_row *row,
                         const struct rf_column *got, uint32_t at)
{
    const struct model_column *c = model_column(r, got->name);
    if (c == NULL || c->type != got->type || c->category != got->category) return false;
    uint32_t i = (uint32_t)(c - r->columns);
    const struct model_cell none = {.there = false};
    const struct model_cell *cell = i < row->cell_room ? &row->cells[i] : &none;
    const void *want = model_type_bytes(c->type) == 0 ? cell->data : (const void *)&cell->bits;
    return compare_value(got, at, cell->there, want, cell->bytes);
}

/* Names and order of the columns of a chunk. */
static bool compare_head(const struct model_relation *r, const struct rf_scan_options *o,
                         const struct rf_tablet *t, struct model_why *why)
{
    uint32_t at = 0;
    for (int category = RF_TAG; category <= RF_FIELD; category++)
        for (uint32_t c = 0; c < r->column_count; c++) {
            if (r->columns[c].dropped || (int)r->columns[c].category != category) continue;
            if (category == RF_FIELD && o->columns != NULL) continue;
            if (at == t->columns || strcmp(t->column[at].name, r->columns[c].name) != 0)
                return differs(why, "%s: column %u is not \"%s\"", r->name, at, r->columns[c].name);
            at++;
        }
    for (uint32_t c = 0; c < o->column_count; c++, at++)
        if (at == t->columns || strcmp(t->column[at].name, o->columns[c]) != 0)
            return differs(why, "%s: column %u is not \"%s\"", r->name, at, o->columns[c]);
    if (at != t->columns) return differs(why, "%s: %u columns, not %u", r->name, t->columns, at);
    if ((t->table == NULL) != r->tree || strcmp(r->tree ? t->device : t->table, r->name) != 0)
        return differs(why, "%s: the chunk has another name", r->name);
    return true;
}

static bool compare_row(const struct model_relation *r, const struct model_device *d,
                        const struct model_row *row, const struct rf_tablet *t, uint32_t at,
                        struct model_why *why)
{
    if (row->time != t->times[at])
        return differs(why, "%s: a row at %" PRId64 " where %" PRId64 " was expected", r->name,
                       t->times[at], row->time);
    for (uint32_t c = 0; c < t->columns; c++) {
        const struct rf_column *got = &t->column[c];
        bool same;
        if (got->category == RF_TAG) {
            const uint8_t *value = NULL;
            uint32_t bytes = 0;
            bool there = tag_of(d, model_column(r, got->name)->tag_index, &value, &bytes);
            same = compare_value(got, at, there, value, bytes);
        } else {
            same = compare_cell(r, row, got, at);
        }
        if (!same)
            return differs(why, "%s: row at %" PRId64 ": column \"%s\" (type %d) differs", r->name,
                           row->time, got->name, (int)got->type);
    }
    return true;
}

static bool compare_rows(struct expected *x, struct rf_cursor *cursor, uint64_t *rows,
                         struct model_why *why)
{
    struct rf_tablet t;
    int rc;
    while ((rc = rf_scan_next(cursor, &t)) == 1) {
        if (t.rows == 0) return differs(why, "%s: a chunk without rows", x->r->name);
        if (!compare_head(x->r, x->o, &t, why)) return false;
        for (uint32_t i = 0; i < t.rows; i++, ++*rows) {
            const struct model_device *d;
            const struct model_row *row = expected_next(x, &d);
            if (row == NULL)
                return differs(why, "%s: a row too many, at %" PRId64, x->r->name, t.times[i]);
            if (!compare_row(x->r, d, row, &t, i, why)) return false;
        }
    }
    if (rc != 0) return differs(why, "%s: rf_scan_next: %d", x->r->name, rc);
    const struct model_device *d;
    const struct model_row *row = expected_next(x, &d);
    if (row != NULL)
        return differs(why, "%s: the row at %" PRId64 " is missing", x->r->name, row->time);
    return true;
}

bool model_compare_scan(struct model *m, struct rf_engine *e, const struct rf_scan_options *o,
                        struct model_why *why)
{
    const char *name = o->table != NULL ? o->table : o->device;
    const struct model_relation *r = model_relation(m, name, o->device != NULL);
    struct rf_cursor *cursor;
    struct rf_error error;
    uint64_t rows = 0, counted = 0;
    int rc = rf_scan_open(e, o, &cursor, &error);
    if (!r->exists) {
        int want = r->tree ? -RF_CODE_NO_DATABASE : -RF_CODE_NO_TABLE;
        if (rc == 0) rf_scan_close(cursor);
        return rc == want ? true : differs(why, "%s: rf_scan_open: %d, not %d", name, rc, want);
    }
    if (rc != 0) return differs(why, "%s: rf_scan_open: %d %s", name, rc, error.text);
    struct expected x = {.m = m, .r = r, .o = o, .left = o->limit};
    bool same = compare_rows(&x, cursor, &rows, why);
    rf_scan_close(cursor);
    if (!same) return false;
    rc = rf_count(e, o, &counted, &error);
    if (rc != 0) return differs(why, "%s: rf_count: %d %s", name, rc, error.text);
    if (counted != rows)
        return differs(why, "%s: rf_count: %" PRIu64 " of %" PRIu64 " rows", name, counted, rows);
    return true;
}

/* ---- tables ---- */

struct listing {
    struct model *m;
    struct model_why *why;
    uint32_t seen;
};

static int compare_table(void *ctx, const struct rf_table_info *info)
{
    struct listing *l = ctx;
    const struct model_relation *found = NULL;
    for (uint32_t i = 0; i < l->m->relation_count; i++) {
        const struct model_relation *r = &l->m->relations[i];
        if (r->exists && r->tree == info->tree &&
            (r->tree ? model_same_database(r, info->name, strlen(info->name))
                     : strcmp(r->name, info->name) == 0))
            found = r;
    }
    if (found == NULL && l->m->shared) return 0;
    if (found == NULL) return !differs(l->why, "rf_tables: \"%s\" is there", info->name);
    l->seen++;
    if (found->ttl != (info->ttl > 0 ? info->ttl : 0))
        return !differs(l->why, "rf_tables: \"%s\" has TTL %" PRId64 ", not %" PRId64, info->name,
                        info->ttl, found->ttl);
    if (info->tree) return 0;
    uint32_t at = 0;
    for (uint32_t c = 0; c < found->column_count; c++) {
        const struct model_column *want = &found->columns[c];
        if (want->dropped) continue;
        if (at == info->column_count || strcmp(info->columns[at].name, want->name) != 0 ||
            info->columns[at].type != want->type || info->columns[at].category != want->category)
            return !differs(l->why, "rf_tables: \"%s\": column %u is not \"%s\"", info->name, at,
                            want->name);
        at++;
    }
    if (at != info->column_count)
        return !differs(l->why, "rf_tables: \"%s\": %u columns, not %u", info->name,
                        info->column_count, at);
    return 0;
}

bool model_compare_tables(struct model *m, struct rf_engine *e, struct model_why *why)
{
    struct listing l = {.m = m, .why = why};
    int rc = rf_tables(e, compare_table, &l);
    if (rc < 0) return differs(why, "rf_tables: %d", rc);
    if (rc != 0) return false;
    uint32_t want = 0;
    for (uint32_t i = 0; i < m->relation_count; i++) {
        const struct model_relation *r = &m->relations[i];
        bool first = true; /* a database counts once */
        for (uint32_t k = 0; k < i && r->tree; k++)
            if (model_same_database(&m->relations[k], r->name, model_database_bytes(r->name)))
                first = false;
        want += r->exists && first;
    }
    return l.seen == want ? true : differs(why, "rf_tables: %u tables, not %u", l.seen, want);
}

bool model_compare_all(struct model *m, struct rf_engine *e, struct model_why *why)
{
    for (uint32_t i = 0; i < m->relation_count; i++)
        for (int down = 0; down < 2; down++) {
            struct rf_scan_options o;
            rf_scan_options_init(&o);
            o.descending = down != 0;
            if (m->relations[i].tree)
                o.device = m->relations[i].name;
            else
                o.table = m->relations[i].name;
            if (!model_compare_scan(m, e, &o, why)) return false;
        }
    return model_compare_tables(m, e, why);
}

uint64_t model_rows(const struct model *m)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < m->relation_count; i++)
        for (uint32_t d = 0; d < m->relations[i].device_count; d++)
            for (uint32_t k = 0; k < m->relations[i].devices[d].row_count; k++)
                rows += row_exists(m, &m->relations[i], &m->relations[i].devices[d].rows[k]);
    return rows;
}
