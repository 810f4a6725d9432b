/* Records written again by names: the old catalog says what the numbers mean. */
#include "api/salvage.h"

#include "api/handle.h"
#include "engine/engine.h"
#include "engine/scratch.h"
#include "memtable/batch.h"

#include <errno.h>
#include <string.h>

/* Zeroed; everything one record needs is given back as one. */
static void *piece(struct scratch *p, size_t count, size_t bytes)
{
    void *m = scratch_array(p, count + 1, bytes);
    if (m != NULL) memset(m, 0, (count + 1) * bytes);
    return m;
}

struct group_copy {
    const struct schema *schema;
    const struct schema_table *table;
    const struct batch_view *view;
    struct batch_group group;
    uint32_t first, rows; /* of the group */
};

static const uint8_t *copy_nulls(struct scratch *p, const uint8_t *nulls, uint32_t first,
                                 uint32_t rows)
{
    if (nulls == NULL) return NULL;
    uint8_t *out = piece(p, (rows + 7) / 8, 1);
    if (out == NULL) return NULL;
    for (uint32_t i = 0; i < rows; i++)
        out[i / 8] |= (uint8_t)((nulls[(first + i) / 8] >> ((first + i) % 8) & 1) << (i % 8));
    return out;
}

/* A FIELD column of rows [first, first + rows); the name is the schema's. */
static bool put_field(struct scratch *p, const struct group_copy *g, const struct batch_column *c,
                      const char *name, struct rf_column *out)
{
    *out = (struct rf_column){.name = name, .type = (enum rf_type)c->type, .category = RF_FIELD};
    if (c->all_null) return true;
    out->nulls = copy_nulls(p, c->nulls, g->first, g->rows);
    if (c->nulls != NULL && out->nulls == NULL) return false;
    if (c->offsets != NULL) {
        out->offsets = c->offsets + g->first;
        out->values = c->data;
    } else {
        out->values =
            (const uint8_t *)c->values + (size_t)g->first * (size_t)batch_type_bytes(c->type);
    }
    return true;
}

/* The TAG columns of a whole group, out of its devices' keys. */
static int put_tags(struct scratch *p, const struct group_copy *g, struct rf_column *columns,
                    uint32_t *count)
{
    for (uint32_t tag = 0;; tag++) {
        const struct schema_column *sc = schema_tag(g->table, tag, SCHEMA_VERSION_MAX);
        if (sc == NULL) return 0;
        uint32_t *offsets = piece(p, g->rows + 1, sizeof *offsets);
        uint8_t *nulls = piece(p, (g->rows + 7) / 8, 1);
        uint64_t bytes = 0;
        for (int pass = 0; pass < 2; pass++) {
            uint8_t *values = pass == 0 ? NULL : piece(p, bytes, 1);
            if (offsets == NULL || nulls == NULL || (pass == 1 && values == NULL)) return -ENOMEM;
            uint32_t row = 0, at = 0;
            for (uint32_t f = 0; f < g->group.fragment_count; f++) {
                struct batch_fragment fragment;
                const void *key;
                const uint8_t *value = NULL;
                uint32_t key_bytes, group, n = 0;
                batch_read_fragment(g->view, g->group.fragment_first + f, &fragment);
                batch_read_device(g->view, fragment.device, &group, &key, &key_bytes);
                bool there = engine_key_tag(key, key_bytes, tag, &value, &n);
                for (uint32_t i = 0; i < fragment.rows; i++, row++) {
                    if (pass == 0) {
                        bytes += n;
                        continue;
                    }
                    if (!there) nulls[row / 8] |= (uint8_t)(1u << row % 8);
                    if (n > 0) memcpy(values + at, value, n);
                    offsets[row] = at;
                    at += n;
                }
            }
            if (pass == 0) continue;
            offsets[row] = at;
            columns[(*count)++] =
                (struct rf_column){.name = schema_column_name(g->table, sc, SCHEMA_VERSION_MAX),
                                   .type = RF_STRING,
                                   .category = RF_TAG,
                                   .values = values,
                                   .offsets = offsets,
                                   .nulls = nulls};
        }
    }
}

static int put_fields(struct scratch *p, const struct group_copy *g, const void *key,
                      uint32_t key_bytes, struct rf_column *columns, uint32_t *count)
{
    for (uint32_t i = 0; i < g->group.column_count; i++) {
        struct batch_column c;
        batch_read_column(g->view, &g->group, i, &c);
        const struct schema_column *sc = schema_column_by_id(g->schema, c.id);
        if (sc == NULL || !schema_column_exists(sc, SCHEMA_VERSION_MAX)) continue;
        const char *name = schema_column_name(g->table, sc, SCHEMA_VERSION_MAX);
        if (key != NULL) { /* a series that was dropped, or made anew under another column */
            const struct schema_column *now = schema_find_series(g->table, key, key_bytes, name,
                                                                 strlen(name), SCHEMA_VERSION_MAX);
            if (now == NULL || now->id != c.id) continue;
        }
        if (!put_field(p, g, &c, name, &columns[*count])) return -ENOMEM;
        ++*count;
    }
    return 0;
}

static char *tree_path(struct scratch *p, const struct schema_table *table, const void *key,
                       uint32_t key_bytes)
{
    const char *database = schema_table_name(table);
    size_t n = strlen(database);
    char *path = piece(p, n + key_bytes + 2, 1);
    if (path == NULL) return NULL;
    memcpy(path, database, n);
    path[n] = '.';
    memcpy(path + n + 1, key, key_bytes);
    return path;
}

/* One tablet: a whole group of the table model, or one fragment of the tree model. */
static int put_tablet(struct scratch *p, const struct group_copy *g, uint32_t fragment,
                      struct rf_tablet *t)
{
    bool tree = schema_table_is_tree(g->table);
    struct rf_column *columns =
        piece(p, (size_t)g->group.column_count + SCHEMA_TAGS_MAX, sizeof *columns);
    if (columns == NULL) return -ENOMEM;
    const void *key = NULL;
    uint32_t key_bytes = 0, group;
    if (tree) {
        struct batch_fragment f;
        batch_read_fragment(g->view, fragment, &f);
        batch_read_device(g->view, f.device, &group, &key, &key_bytes);
    }
    *t = (struct rf_tablet){
        .size = sizeof *t, .rows = g->rows, .times = g->group.times + g->first, .column = columns};
    if (tree)
        t->device = tree_path(p, g->table, key, key_bytes);
    else
        t->table = schema_table_name(g->table);
    if (tree && t->device == NULL) return -ENOMEM;
    int rc = tree ? 0 : put_tags(p, g, columns, &t->columns);
    return rc != 0 ? rc : put_fields(p, g, key, key_bytes, columns, &t->columns);
}

static int put_group(struct inspect *in, struct scratch *p, const struct batch_view *v,
                     uint32_t index, struct rf_tablet *tablets, uint32_t *count)
{
    struct group_copy g = {.schema = in->schema, .view = v};
    batch_read_group(v, index, &g.group);
    g.table = schema_table_by_incarnation(in->schema, g.group.incarnation);
    if (g.table == NULL || !schema_table_exists(g.table, SCHEMA_VERSION_MAX)) return 0;
    if (!schema_table_is_tree(g.table)) {
        g.rows = g.group.rows;
        int rc = put_tablet(p, &g, 0, &tablets[*count]);
        if (rc == 0) ++*count;
        return rc;
    }
    /* The fragments of one device, which are all that a tablet of this model has, are one tablet
     * again: with one each, every column would be named once a partition. */
    for (uint32_t i = 0, last; i < g.group.fragment_count; i = last + 1) {
        struct batch_fragment f, next;
        batch_read_fragment(v, g.group.fragment_first + i, &f);
        g.first = f.row_first;
        g.rows = f.rows;
        for (last = i; last + 1 < g.group.fragment_count; last++) {
            batch_read_fragment(v, g.group.fragment_first + last + 1, &next);
            if (next.device != f.device) break;
            g.rows += next.rows;
        }
        int rc = put_tablet(p, &g, g.group.fragment_first + i, &tablets[*count]);
        if (rc != 0) return rc;
        if (tablets[*count].columns > 0) ++*count; /* else all of its series are gone */
    }
    return 0;
}

static int write_data(struct inspect *in, struct rf_engine *to, const struct salvage_record *r,
                      struct scratch *p, uint64_t *rows_out, struct rf_error *error)
{
    struct batch_view v;
    batch_open(&v, r->payload, r->head.payload_bytes);
    struct rf_tablet *tablets = piece(p, (size_t)v.group_count + v.fragment_count, sizeof *tablets);
    uint32_t count = 0;
    if (tablets == NULL) return -ENOMEM;
    for (uint32_t i = 0; i < v.group_count; i++) {
        int rc = put_group(in, p, &v, i, tablets, &count);
        if (rc != 0) return rc;
    }
    for (uint32_t i = 0; i < count; i++)
        *rows_out += tablets[i].rows;
    return count == 0 ? 0 : rf_write_batch(to, tablets, count, error);
}

/* ---- deletes ---- */

/* Tree model: what the target does not have, since nothing of it was saved, needs no delete. */
static int delete_series(struct rf_engine *to, const struct rf_delete_options *o,
                         struct rf_error *error)
{
    int rc = rf_delete(to, o, error);
    if (rc == -RFE_NO_DATABASE) return 0;
    if (rc != -RFE_NO_COLUMN) return rc;
    rc = 0;
    for (uint32_t i = 0; i < o->column_count && rc == 0; i++) {
        struct rf_delete_options one = *o;
        one.columns = &o->columns[i];
        one.column_count = 1;
        rc = rf_delete(to, &one, error);
        if (rc == -RFE_NO_COLUMN) rc = 0;
    }
    return rc;
}

static int delete_device(struct rf_engine *to, const struct schema_table *table, const void *key,
                         uint32_t key_bytes, struct rf_delete_options *o, struct scratch *p,
                         struct rf_error *error)
{
    struct rf_tag_filter filters[SCHEMA_TAGS_MAX];
    o->table = o->device = NULL;
    o->tag_count = 0;
    if (schema_table_is_tree(table)) {
        o->device = tree_path(p, table, key, key_bytes);
        return o->device == NULL ? -ENOMEM : delete_series(to, o, error);
    }
    o->table = schema_table_name(table);
    for (uint32_t i = 0; i < SCHEMA_TAGS_MAX; i++) {
        const struct schema_column *tag = schema_tag(table, i, SCHEMA_VERSION_MAX);
        if (tag == NULL) break;
        const uint8_t *value = NULL;
        uint32_t n = 0;
        char *copy = NULL;
        if (engine_key_tag(key, key_bytes, i, &value, &n)) {
            if (memchr(value, 0, n) != NULL) /* a filter would end there: another device's */
                return handle_error(error, -RFE_BAD_NAME, NULL);
            copy = piece(p, n, 1);
            if (copy == NULL) return -ENOMEM;
            memcpy(copy, value, n);
        }
        filters[o->tag_count++] = (struct rf_tag_filter){
            .name = schema_column_name(table, tag, SCHEMA_VERSION_MAX), .value = copy};
    }
    o->tags = filters;
    int rc = rf_delete(to, o, error);
    o->tags = NULL; /* filters ends with this call */
    return rc;
}

static int write_delete(struct inspect *in, struct rf_engine *to, const struct salvage_record *r,
                        struct scratch *p, struct rf_error *error)
{
    struct batch_delete d;
    batch_open_delete(r->payload, &d);
    const struct schema_table *table = schema_table_by_incarnation(in->schema, d.incarnation);
    if (table == NULL || !schema_table_exists(table, SCHEMA_VERSION_MAX)) return 0;
    struct rf_delete_options o;
    rf_delete_options_init(&o);
    o.time_from = d.time_from;
    o.time_to = d.time_to;
    const char **names = piece(p, d.column_count, sizeof *names);
    if (names == NULL) return -ENOMEM;
    for (uint32_t i = 0; i < d.column_count; i++) {
        const struct schema_column *c = schema_column_by_id(in->schema, d.columns[i]);
        if (c != NULL && schema_column_exists(c, SCHEMA_VERSION_MAX))
            names[o.column_count++] = schema_column_name(table, c, SCHEMA_VERSION_MAX);
    }
    if (d.column_count > 0 && o.column_count == 0) return 0; /* all of its columns are gone */
    o.columns = o.column_count > 0 ? names : NULL;
    if (d.all_devices) {
        o.table = schema_table_name(table);
        return rf_delete(to, &o, error);
    }
    int rc = 0;
    for (uint32_t i = 0; i < d.device_count && rc == 0; i++) {
        struct batch_key key;
        batch_read_delete_key(r->payload, &d, i, &key);
        rc = delete_device(to, table, key.data, key.bytes, &o, p, error);
    }
    return rc;
}

int salvage_write(struct inspect *in, struct rf_engine *to, const struct salvage_record *r,
                  uint64_t *rows_out, struct rf_error *error)
{
    struct scratch_pool pool;
    scratch_pool_init(&pool);
    struct scratch *p = scratch_acquire(&pool);
    if (p == NULL) return -ENOMEM;
    *rows_out = 0;
    int rc = r->head.type == WAL_RECORD_DELETE ? write_delete(in, to, r, p, error)
                                               : write_data(in, to, r, p, rows_out, error);
    scratch_release(&pool, p);
    scratch_pool_deinit(&pool);
    return rc;
}

/* ---- tables ---- */

struct making {
    struct rf_engine *to;
    struct rf_error *error;
    const struct schema_table *table;
    struct rf_column_def *columns;
    uint32_t count;
};

static int each_column(void *ctx, const struct schema_column *c)
{
    struct making *m = ctx;
    struct rf_column_def *more = mem_realloc(m->columns, (m->count + 1) * sizeof *more);
    if (more == NULL) return -ENOMEM;
    m->columns = more;
    more[m->count++] =
        (struct rf_column_def){.name = schema_column_name(m->table, c, SCHEMA_VERSION_MAX),
                               .type = (enum rf_type)c->type,
                               .category = (enum rf_category)c->category};
    return 0;
}

static int make_table(void *ctx, const struct schema_table *table)
{
    struct making *m = ctx;
    if (schema_table_is_tree(table)) return 0; /* its series come with their rows */
    m->table = table;
    m->columns = NULL;
    m->count = 0;
    int rc = schema_each_column(table, SCHEMA_VERSION_MAX, each_column, m);
    if (rc == 0)
        rc = rf_table_create(m->to, schema_table_name(table), m->columns, m->count, 0, m->error);
    mem_free(m->columns);
    return rc;
}

int salvage_tables(struct inspect *in, struct rf_engine *to, struct rf_error *error)
{
    struct making m = {.to = to, .error = error};
    return schema_each_table(in->schema, SCHEMA_VERSION_MAX, make_table, &m);
}

static int set_ttl(void *ctx, const struct schema_table *table)
{
    struct making *m = ctx;
    int64_t ttl = schema_table_ttl(table);
    if (ttl <= 0 || schema_table_is_tree(table)) return 0;
    return rf_table_set_ttl(m->to, schema_table_name(table), ttl, m->error);
}

int salvage_ttls(struct inspect *in, struct rf_engine *to, struct rf_error *error)
{
    struct making m = {.to = to, .error = error};
    return schema_each_table(in->schema, SCHEMA_VERSION_MAX, set_ttl, &m);
}
