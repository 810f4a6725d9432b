/* What a scan or a delete is about: table, columns, filters, devices. */
#include "engine/scan.h"

#include <stdlib.h>

static int add_want(struct scan_target *t, const struct schema_column *c, const char *name)
{
    if (t->want_count == t->want_room) {
        uint32_t room = t->want_room == 0 ? 16 : 2 * t->want_room;
        struct memtable_want *wants = mem_realloc(t->wants, room * sizeof *wants);
        if (wants == NULL) return -ENOMEM;
        t->wants = wants;
        const char **names = mem_realloc(t->want_names, room * sizeof *names);
        if (names == NULL) return -ENOMEM;
        t->want_names = names;
        t->want_room = room;
    }
    t->wants[t->want_count] = (struct memtable_want){.id = c->id, .type = c->type};
    t->want_names[t->want_count++] = name;
    return 0;
}

struct all_fields {
    struct scan_target *t;
    uint64_t version;
};

static int each_field(void *ctx, const struct schema_column *c)
{
    struct all_fields *a = ctx;
    if (c->category != SCHEMA_FIELD) return 0;
    return add_want(a->t, c, schema_column_name(a->t->table, c, a->version));
}

/* Tree model: a row is there while it has a cell in some series that is there. */
static int each_live(void *ctx, const struct schema_column *c)
{
    struct scan_target *t = ctx;
    if (t->live_count == t->live_room) {
        uint32_t room = t->live_room == 0 ? 16 : 2 * t->live_room;
        uint32_t *live = mem_realloc(t->live, room * sizeof *live);
        if (live == NULL) return -ENOMEM;
        t->live = live;
        t->live_room = room;
    }
    t->live[t->live_count++] = c->id;
    return 0;
}

static int ids_rising(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int find_live(struct scan_target *t, uint64_t version)
{
    t->live = mem_alloc(sizeof *t->live); /* never NULL: no series is none, not all */
    if (t->live == NULL) return -ENOMEM;
    t->live_room = 1;
    int rc = schema_each_series(t->table, t->key, t->key_bytes, version, each_live, t);
    if (t->live_count > 1) qsort(t->live, t->live_count, sizeof *t->live, ids_rising);
    return rc;
}

static int find_columns(struct scan_target *t, const struct scan_names *n, uint64_t version,
                        struct rf_error *error)
{
    if (n->columns == NULL) {
        struct all_fields a = {.t = t, .version = version};
        if (t->tree)
            return schema_each_series(t->table, t->key, t->key_bytes, version, each_field, &a);
        return schema_each_column(t->table, version, each_field, &a);
    }
    for (uint32_t i = 0; i < n->column_count; i++) {
        const char *name = n->columns[i] != NULL ? n->columns[i] : "";
        const struct schema_column *c =
            t->tree
                ? schema_find_series(t->table, t->key, t->key_bytes, name, strlen(name), version)
                : schema_find_column(t->table, name, strlen(name), version);
        if (c == NULL || c->category != SCHEMA_FIELD)
            return engine_fail(error, -RFE_NO_COLUMN, RF_NONE, i, RF_NONE, "no field \"%s\" in %s",
                               name, t->tree ? n->device : n->table);
        int rc = add_want(t, c, schema_column_name(t->table, c, version));
        if (rc != 0) return rc;
    }
    return 0;
}

static int find_tags(struct scan_target *t, const struct scan_names *n, uint64_t version,
                     struct rf_error *error)
{
    for (; t->tag_count < SCHEMA_TAGS_MAX; t->tag_count++) {
        const struct schema_column *tag = schema_tag(t->table, t->tag_count, version);
        if (tag == NULL) break;
        t->tag_names[t->tag_count] = schema_column_name(t->table, tag, version);
    }
    for (uint32_t i = 0; i < n->tag_count; i++) {
        const struct rf_tag_filter *f = &n->tags[i];
        const char *name = f->name != NULL ? f->name : "";
        const struct schema_column *c = schema_find_column(t->table, name, strlen(name), version);
        if (c == NULL || c->category != SCHEMA_TAG)
            return engine_fail(error, -RFE_NO_COLUMN, RF_NONE, RF_NONE, RF_NONE,
                               "no tag \"%s\" in %s", name, n->table);
        if (t->tag_filtered[c->tag_index])
            return engine_fail(error, -EINVAL, RF_NONE, RF_NONE, RF_NONE,
                               "tag \"%s\" is asked for twice", name);
        t->tag_filtered[c->tag_index] = true;
        t->filter[c->tag_index].null = f->value == NULL;
        if (f->value == NULL) continue;
        size_t bytes = strlen(f->value);
        if (bytes > SCHEMA_KEY_BYTES_MAX) bytes = SCHEMA_KEY_BYTES_MAX; /* matches nothing */
        t->filter[c->tag_index].value = (uint8_t *)mem_strndup(f->value, bytes);
        if (t->filter[c->tag_index].value == NULL) return -ENOMEM;
        t->filter[c->tag_index].bytes = (uint32_t)bytes;
    }
    return 0;
}

static int find_table(struct scan_target *t, struct engine *e, const struct scan_names *n,
                      uint64_t version, struct rf_error *error)
{
    const char *name = n->table;
    size_t bytes = name != NULL ? strlen(name) : 0;
    t->tree = n->device != NULL;
    if (t->tree) {
        struct tree_path path;
        if (!tree_path_split(n->device, &path))
            return engine_fail(error, -RFE_BAD_NAME, RF_NONE, RF_NONE, RF_NONE,
                               "\"%s\" is no device: root.<database>.<device>", n->device);
        if (path.key_bytes > SCHEMA_KEY_BYTES_MAX)
            return engine_fail(error, -RFE_LIMIT, RF_NONE, RF_NONE, RF_NONE,
                               "the path is too long");
        name = path.database;
        bytes = path.database_bytes;
        memcpy(t->key, path.key, path.key_bytes);
        t->key_bytes = (uint32_t)path.key_bytes;
    }
    t->table = schema_find_table(e->o.schema, name, bytes, version);
    if (t->table == NULL || schema_table_is_tree(t->table) != t->tree)
        return engine_fail(error, t->tree ? -RFE_NO_DATABASE : -RFE_NO_TABLE, RF_NONE, RF_NONE,
                           RF_NONE, "no %s \"%.*s\"", t->tree ? "database" : "table", (int)bytes,
                           name);
    t->incarnation = schema_table_incarnation(t->table);
    return 0;
}

int scan_target_init(struct scan_target *t, struct engine *e, const struct scan_names *n,
                     uint64_t version, struct rf_error *error)
{
    memset(t, 0, sizeof *t);
    if ((n->table == NULL) == (n->device == NULL))
        return engine_fail(error, -EINVAL, RF_NONE, RF_NONE, RF_NONE, "set either table or device");
    if (n->device != NULL && n->tag_count > 0)
        return engine_fail(error, -EINVAL, RF_NONE, RF_NONE, RF_NONE, "the tree model has no tags");
    int rc = find_table(t, e, n, version, error);
    if (rc == 0 && !t->tree) rc = find_tags(t, n, version, error);
    if (rc == 0) rc = find_columns(t, n, version, error);
    if (rc == 0 && t->tree) rc = find_live(t, version);
    return rc;
}

void scan_target_deinit(struct scan_target *t)
{
    for (uint32_t i = 0; i < SCHEMA_TAGS_MAX; i++)
        mem_free(t->filter[i].value);
    mem_free(t->wants);
    mem_free(t->want_names);
    mem_free(t->live);
}

bool scan_target_fits(const struct scan_target *t, uint64_t then, uint64_t now)
{
    uint32_t ids[64], n = 0;
    const void *key = t->tree ? t->key : NULL;
    if (!schema_still_fits(t->table, key, t->key_bytes, NULL, 0, then, now)) return false;
    for (uint32_t i = 0; i < t->want_count; i++) {
        ids[n++] = t->wants[i].id;
        if (n < 64 && i + 1 < t->want_count) continue;
        if (!schema_still_fits(t->table, key, t->key_bytes, ids, n, then, now)) return false;
        n = 0;
    }
    return true;
}

bool engine_key_tag(const void *key, uint32_t key_bytes, uint32_t tag_index,
                    const uint8_t **value_out, uint32_t *bytes_out)
{
    const uint8_t *p = key, *end = p + key_bytes;
    for (uint32_t i = 0; p + 2 <= end; i++) {
        uint32_t n = load_u16(p);
        if (i == tag_index) {
            if (n == 0) return false;
            *value_out = p + 2;
            *bytes_out = n - 1;
            return true;
        }
        p += n == 0 ? 2 : 2 + (n - 1);
    }
    return false; /* trailing nulls are cut */
}

static bool passes(const struct scan_target *t, const void *key, uint32_t key_bytes)
{
    for (uint32_t i = 0; i < t->tag_count; i++) {
        if (!t->tag_filtered[i]) continue;
        const uint8_t *value = NULL;
        uint32_t bytes = 0;
        bool there = engine_key_tag(key, key_bytes, i, &value, &bytes);
        if (there == t->filter[i].null) return false;
        if (there && (bytes != t->filter[i].bytes || memcmp(value, t->filter[i].value, bytes) != 0))
            return false;
    }
    return true;
}

int scan_target_devices(const struct scan_target *t, struct engine *e, uint32_t **numbers_out,
                        uint32_t *count_out)
{
    if (t->tree) {
        uint32_t number = devices_find(e->devices, t->incarnation, t->key, t->key_bytes);
        *count_out = number != UINT32_MAX;
        *numbers_out = mem_alloc(sizeof **numbers_out);
        if (*numbers_out == NULL) return -ENOMEM;
        **numbers_out = number;
        return 0;
    }
    uint32_t *numbers, count, kept = 0;
    int rc = devices_of_table(e->devices, t->incarnation, &numbers, &count);
    if (rc != 0) return rc;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t incarnation;
        const void *key;
        uint32_t key_bytes;
        devices_key(e->devices, numbers[i], &incarnation, &key, &key_bytes);
        if (passes(t, key, key_bytes)) numbers[kept++] = numbers[i];
    }
    *numbers_out = numbers;
    *count_out = kept;
    return 0;
}
