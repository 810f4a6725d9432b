/* Tablets checked in full, before anything is reserved, and looked up at one version. */
#include "engine/engine_impl.h"

#include <stdarg.h>
#include <stdio.h>

int engine_fail(struct rf_error *error, int code, uint32_t tablet, uint32_t column, uint32_t row,
                const char *fmt, ...)
{
    if (error == NULL) return code;
    *error = (struct rf_error){.code = code, .tablet = tablet, .column = column, .row = row};
    va_list args;
    va_start(args, fmt);
    vsnprintf(error->text, sizeof error->text, fmt, args);
    va_end(args);
    for (char *p = error->text; *p != '\0'; p++) /* one line, whatever a name has in it */
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = '?';
    return code;
}

bool tree_path_split(const char *device, struct tree_path *path_out)
{
    if (strncmp(device, "root.", 5) != 0) return false;
    const char *second = strchr(device + 5, '.');
    if (second == NULL) return false;
    /* Each node is a name; no character of more bytes has a dot among them. */
    for (const char *node = device + 5, *end; node != NULL; node = end != NULL ? end + 1 : NULL) {
        end = strchr(node, '.');
        if (schema_check_name(node, end != NULL ? (size_t)(end - node) : strlen(node)) != 0)
            return false;
    }
    *path_out = (struct tree_path){
        .database = device,
        .database_bytes = (size_t)(second - device),
        .key = second + 1,
        .key_bytes = strlen(second + 1),
    };
    return true;
}

/* ---- one column's arrays ---- */

static const char *type_name(int type)
{
    static const char *const names[] = {"BOOLEAN",   "INT32", "INT64",  "FLOAT",
                                        "DOUBLE",    "TEXT",  "VECTOR", "UNKNOWN",
                                        "TIMESTAMP", "DATE",  "BLOB",   "STRING"};
    return type >= 0 && type < (int)(sizeof names / sizeof names[0]) ? names[type] : "no type";
}

static uint32_t count_nulls(const uint8_t *nulls, uint32_t rows)
{
    uint32_t n = 0, at = 0;
    for (; at + 64 <= rows; at += 64)
        n += (uint32_t)__builtin_popcountll(load_u64(nulls + at / 8));
    for (; at < rows; at++)
        n += nulls[at / 8] >> (at % 8) & 1;
    return n;
}

static int check_offsets(const struct prepared *p, const struct rf_tablet *t, uint32_t tablet,
                         uint32_t index, uint64_t *bytes_out)
{
    const struct rf_column *c = &t->column[index];
    if (c->offsets == NULL)
        return engine_fail(p->error, -RFE_BAD_TABLET, tablet, index, RF_NONE,
                           "column \"%s\": a %s column needs offsets", c->name, type_name(c->type));
    for (uint32_t r = 0; r < t->rows; r++)
        if (c->offsets[r] > c->offsets[r + 1])
            return engine_fail(p->error, -RFE_BAD_TABLET, tablet, index, r,
                               "column \"%s\": offsets fall from %" PRIu32 " to %" PRIu32, c->name,
                               c->offsets[r], c->offsets[r + 1]);
    *bytes_out = c->offsets[t->rows] - c->offsets[0];
    return 0;
}

static int check_booleans(const struct prepared *p, const struct rf_tablet *t, uint32_t tablet,
                          uint32_t index)
{
    const struct rf_column *c = &t->column[index];
    const uint8_t *v = c->values;
    uint8_t all = 0;
    for (uint32_t r = 0; r < t->rows; r++)
        all |= v[r];
    if (all <= 1) return 0;
    for (uint32_t r = 0; r < t->rows; r++) {
        bool null = c->nulls != NULL && (c->nulls[r / 8] >> (r % 8) & 1);
        if (v[r] > 1 && !null)
            return engine_fail(p->error, -RFE_BAD_TABLET, tablet, index, r,
                               "column \"%s\": a BOOLEAN is 0 or 1, not %u", c->name, v[r]);
    }
    return 0;
}

/* Fills flags and sizes of a FIELD column whose id and type are known. */
static int check_field(const struct prepared *p, const struct rf_tablet *t, uint32_t tablet,
                       struct tablet_column *col, uint32_t *nulls_out)
{
    const struct rf_column *c = col->in;
    uint32_t nulls = c->values == NULL && !(col->width == 0 && c->offsets != NULL) ? t->rows
                     : c->nulls == NULL                                            ? 0
                                        : count_nulls(c->nulls, t->rows);
    col->flags = nulls == t->rows ? BATCH_COLUMN_ALL_NULL : nulls > 0 ? BATCH_COLUMN_HAS_NULLS : 0;
    *nulls_out = nulls;
    col->value_bytes = 0;
    if (col->flags == BATCH_COLUMN_ALL_NULL) return 0;
    uint64_t bytes = (uint64_t)t->rows * col->width;
    if (col->width == 0) {
        int rc = check_offsets(p, t, tablet, col->index, &bytes);
        if (rc != 0) return rc;
        if (bytes > 0 && c->values == NULL)
            return engine_fail(p->error, -RFE_BAD_TABLET, tablet, col->index, RF_NONE,
                               "column \"%s\" has offsets but no values", c->name);
    }
    if (bytes > UINT32_MAX)
        return engine_fail(p->error, -RFE_ENTRY_TOO_LARGE, tablet, col->index, RF_NONE,
                           "column \"%s\" holds %" PRIu64 " bytes", c->name, bytes);
    col->value_bytes = (uint32_t)bytes;
    return c->type == RF_BOOLEAN ? check_booleans(p, t, tablet, col->index) : 0;
}

/* ---- names of one tablet ---- */

/* Column indexes by name, open-addressed; 0 is empty. */
static int check_distinct(struct prepared *p, const struct rf_tablet *t, uint32_t tablet)
{
    uint32_t slots = 16;
    while (slots < 2 * t->columns)
        slots *= 2;
    uint32_t *set = scratch_array(p->scratch, slots, sizeof *set);
    if (set == NULL) return -ENOMEM;
    memset(set, 0, slots * sizeof *set);
    for (uint32_t i = 0; i < t->columns; i++) {
        const char *name = t->column[i].name;
        uint32_t at = (uint32_t)hash_keyed(name, strlen(name), 0) & (slots - 1);
        for (; set[at] != 0; at = (at + 1) & (slots - 1))
            if (strcmp(t->column[set[at] - 1].name, name) == 0)
                return engine_fail(p->error, -RFE_BAD_TABLET, tablet, i, RF_NONE,
                                   "column \"%s\" stands twice", name);
        set[at] = i + 1;
    }
    return 0;
}

static int check_shape(struct prepared *p, const struct rf_tablet *t, uint32_t tablet)
{
    if (t->size < sizeof *t)
        return engine_fail(p->error, -RFE_BAD_TABLET, tablet, RF_NONE, RF_NONE,
                           "size is %zu: set it to sizeof(struct rf_tablet)", t->size);
    if ((t->table == NULL) == (t->device == NULL))
        return engine_fail(p->error, -RFE_BAD_TABLET, tablet, RF_NONE, RF_NONE,
                           "set either table or device");
    if (t->rows == 0 || t->rows > BATCH_ROWS_MAX)
        return engine_fail(p->error, t->rows == 0 ? -RFE_BAD_TABLET : -RFE_LIMIT, tablet, RF_NONE,
                           RF_NONE, "%" PRIu32 " rows: a tablet has 1 to 2^24", t->rows);
    if (t->columns > SCHEMA_COLUMNS_MAX)
        return engine_fail(p->error, -RFE_LIMIT, tablet, RF_NONE, RF_NONE,
                           "%" PRIu32 " columns: a tablet has at most %d", t->columns,
                           SCHEMA_COLUMNS_MAX);
    if (t->times == NULL || (t->columns > 0 && t->column == NULL))
        return engine_fail(p->error, -RFE_BAD_TABLET, tablet, RF_NONE, RF_NONE,
                           "times or columns are missing");
    for (uint32_t i = 0; i < t->columns; i++) {
        const struct rf_column *c = &t->column[i];
        if (c->name == NULL)
            return engine_fail(p->error, -RFE_BAD_TABLET, tablet, i, RF_NONE,
                               "column %" PRIu32 " has no name", i);
        if (schema_type_bytes((int)c->type) < 0)
            return engine_fail(p->error, -RFE_BAD_TABLET, tablet, i, RF_NONE,
                               "column \"%s\": %d is no type", c->name, (int)c->type);
        if (c->category != RF_TAG && c->category != RF_FIELD)
            return engine_fail(p->error, -RFE_BAD_TABLET, tablet, i, RF_NONE,
                               "column \"%s\": %d is no category", c->name, (int)c->category);
    }
    return 0;
}

/* ---- look-ups ---- */

/* The wants of one tablet while they are gathered. */
struct want_list {
    struct engine_column_want *columns; /* room for all of the tablet's */
    uint32_t count;
};

static int want(struct prepared *p, const struct rf_tablet *t, uint32_t tablet, uint32_t index,
                struct want_list *wants)
{
    const struct rf_column *c = &t->column[index];
    size_t bytes = strlen(c->name);
    if (schema_check_name(c->name, bytes) != 0)
        return engine_fail(p->error, -RFE_BAD_NAME, tablet, index, RF_NONE,
                           "column %" PRIu32 ": not a usable name (1 to 255 bytes of UTF-8 without "
                           "control characters)",
                           index);
    if (!p->engine->o.auto_create)
        return engine_fail(p->error, -RFE_NO_COLUMN, tablet, index, RF_NONE,
                           "no column \"%s\" in %s", c->name,
                           t->table != NULL ? t->table : t->device);
    if (wants->columns == NULL) {
        wants->columns = scratch_array(p->scratch, t->columns, sizeof *wants->columns);
        if (wants->columns == NULL) return -ENOMEM;
    }
    wants->columns[wants->count++] = (struct engine_column_want){.name = c->name,
                                                                 .name_bytes = bytes,
                                                                 .type = (uint8_t)c->type,
                                                                 .category = (uint8_t)c->category};
    return 0;
}

static int check_tag(struct prepared *p, struct tablet_group *g, uint32_t tablet, uint32_t index,
                     uint32_t tag_index)
{
    const struct rf_column *c = &g->in->column[index];
    uint64_t bytes = 0;
    if (c->values != NULL || c->offsets != NULL) {
        int rc = check_offsets(p, g->in, tablet, index, &bytes);
        if (rc != 0) return rc;
        if (bytes > 0 && c->values == NULL)
            return engine_fail(p->error, -RFE_BAD_TABLET, tablet, index, RF_NONE,
                               "tag \"%s\" has offsets but no values", c->name);
    }
    g->tags[tag_index] = c;
    if (tag_index >= g->tag_count) g->tag_count = tag_index + 1;
    return 0;
}

static int check_values(struct prepared *p, struct tablet_group *g, uint32_t tablet, uint32_t index,
                        uint32_t id)
{
    const struct rf_column *c = &g->in->column[index];
    struct tablet_column *col = &g->columns[g->column_count++];
    *col = (struct tablet_column){.in = c,
                                  .index = index,
                                  .id = id,
                                  .type = (uint8_t)c->type,
                                  .width = (uint8_t)schema_type_bytes((int)c->type)};
    uint32_t nulls = 0;
    int rc = check_field(p, g->in, tablet, col, &nulls);
    g->points += g->in->rows - nulls;
    return rc;
}

static int found(struct prepared *p, struct tablet_group *g, uint32_t tablet, uint32_t index,
                 const struct schema_column *sc)
{
    const struct rf_column *c = &g->in->column[index];
    if (sc->type != (uint8_t)c->type || sc->category != (uint8_t)c->category)
        return engine_fail(p->error, -RFE_TYPE_MISMATCH, tablet, index, RF_NONE,
                           "column \"%s\" is a %s of type %s, not a %s of type %s", c->name,
                           sc->category == SCHEMA_TAG ? "TAG" : "FIELD", type_name(sc->type),
                           c->category == RF_TAG ? "TAG" : "FIELD", type_name(c->type));
    if (sc->category == SCHEMA_TAG) return check_tag(p, g, tablet, index, sc->tag_index);
    return check_values(p, g, tablet, index, sc->id);
}

/* A column that is to be made is checked as if it were there: a batch that is refused for its
 * values, its size or its devices must not leave columns behind. */
static int missing(struct prepared *p, struct tablet_group *g, uint32_t tablet, uint32_t index,
                   struct want_list *wants)
{
    int rc = want(p, g->in, tablet, index, wants);
    if (rc != 0) return rc;
    if (g->in->column[index].category != RF_TAG) return check_values(p, g, tablet, index, 0);
    uint32_t tags = 0;
    while (g->table != NULL && schema_tag(g->table, tags, p->version) != NULL)
        tags++;
    rc = new_tag_place(p, g->in->table, g->in->column[index].name, tags, &tags);
    if (rc != 0) return rc;
    if (tags >= SCHEMA_TAGS_MAX)
        return engine_fail(p->error, -RFE_LIMIT, tablet, index, RF_NONE,
                           "tag \"%s\": a table has at most %d TAG columns",
                           g->in->column[index].name, SCHEMA_TAGS_MAX);
    return check_tag(p, g, tablet, index, tags);
}

/* Each column's entry in the schema, NULL: there is none. Entries that come in the order in which
 * they were made can't be the same one twice; else the names are compared. */
static int find_columns(struct prepared *p, const struct tablet_group *g, uint32_t tablet,
                        const struct schema_column **out)
{
    const struct rf_tablet *t = g->in;
    struct schema_place place = {.next = 0};
    uint32_t last_id = 0;
    bool distinct = true;
    for (uint32_t i = 0; i < t->columns; i++) {
        const char *name = t->column[i].name;
        size_t bytes = strlen(name);
        if (g->table == NULL)
            out[i] = NULL;
        else if (t->table != NULL)
            out[i] = schema_next_column(g->table, name, bytes, p->version, &place);
        else
            out[i] = schema_next_series(g->table, g->tree_key, g->tree_key_bytes, name, bytes,
                                        p->version, &place);
        distinct = distinct && out[i] != NULL && out[i]->id > last_id;
        if (out[i] != NULL) last_id = out[i]->id;
    }
    return distinct ? 0 : check_distinct(p, t, tablet);
}

static int look_up_columns(struct prepared *p, struct tablet_group *g, uint32_t tablet,
                           struct want_list *wants)
{
    const struct rf_tablet *t = g->in;
    g->columns = scratch_array(p->scratch, t->columns, sizeof *g->columns);
    const struct schema_column **entries =
        scratch_array(p->scratch, t->columns, sizeof(const struct schema_column *));
    if (g->columns == NULL || entries == NULL) return -ENOMEM;
    int rc = find_columns(p, g, tablet, entries);
    for (uint32_t i = 0; i < t->columns && rc == 0; i++) {
        const struct rf_column *c = &t->column[i];
        const struct schema_column *sc = entries[i];
        if (t->device != NULL && c->category != RF_FIELD)
            return engine_fail(p->error, -RFE_BAD_TABLET, tablet, i, RF_NONE,
                               "column \"%s\": the tree model has no tags", c->name);
        if (c->category == RF_TAG && c->type != RF_STRING)
            return engine_fail(p->error, -RFE_TYPE_MISMATCH, tablet, i, RF_NONE,
                               "tag \"%s\" has to be a STRING", c->name);
        rc = sc == NULL ? missing(p, g, tablet, i, wants) : found(p, g, tablet, i, sc);
    }
    return rc;
}

bool engine_oldest_time(const struct engine *e, int64_t ttl, int64_t *oldest_out)
{
    static const int64_t unit_ns[] = {
        [WAL_TIME_NS] = 1, [WAL_TIME_US] = 1000, [WAL_TIME_MS] = 1000000};
    if (ttl <= 0) return false;
    int64_t now = clock_wall_ns(e->o.clock) / unit_ns[e->o.dir->manifest.time_unit];
    return !__builtin_sub_overflow(now, ttl, oldest_out);
}

static int check_ttl(struct prepared *p, const struct tablet_group *g, uint32_t tablet)
{
    int64_t ttl = schema_table_ttl(g->table), oldest;
    if (!engine_oldest_time(p->engine, ttl, &oldest)) return 0;
    for (uint32_t r = 0; r < g->in->rows; r++)
        if (g->in->times[r] < oldest)
            return engine_fail(p->error, -RFE_OUT_OF_TTL, tablet, RF_NONE, r,
                               "row %" PRIu32 " is %" PRId64 ", older than the TTL of %" PRId64
                               " allows (from %" PRId64 ")",
                               r, g->in->times[r], ttl, oldest);
    return 0;
}

/* The table (or database) and the device's key in it. */
static int look_up_table(struct prepared *p, struct tablet_group *g, uint32_t tablet,
                         struct engine_want *w)
{
    const struct rf_tablet *t = g->in;
    struct tree_path path;
    if (t->device != NULL) {
        if (!tree_path_split(t->device, &path))
            return engine_fail(p->error, -RFE_BAD_NAME, tablet, RF_NONE, RF_NONE,
                               "\"%s\" is no device: root.<database>.<device>", t->device);
        *w = (struct engine_want){.table = path.database,
                                  .table_bytes = path.database_bytes,
                                  .tree = true,
                                  .key = path.key,
                                  .key_bytes = path.key_bytes};
        g->tree_key = (const uint8_t *)path.key;
        g->tree_key_bytes = (uint32_t)path.key_bytes;
        if (path.key_bytes > SCHEMA_KEY_BYTES_MAX)
            return engine_fail(p->error, -RFE_LIMIT, tablet, RF_NONE, RF_NONE,
                               "the device's path has %zu bytes, more than %d", path.key_bytes,
                               SCHEMA_KEY_BYTES_MAX);
    } else {
        *w = (struct engine_want){.table = t->table, .table_bytes = strlen(t->table)};
    }
    g->table = schema_find_table(p->engine->o.schema, w->table, w->table_bytes, p->version);
    if (g->table == NULL && schema_check_name(w->table, w->table_bytes) != 0)
        return engine_fail(p->error, -RFE_BAD_NAME, tablet, RF_NONE, RF_NONE,
                           "not a usable table name (1 to 255 bytes of UTF-8 without control "
                           "characters)");
    if (g->table == NULL && !p->engine->o.auto_create)
        return engine_fail(p->error, t->device != NULL ? -RFE_NO_DATABASE : -RFE_NO_TABLE, tablet,
                           RF_NONE, RF_NONE, "no table \"%.*s\"", (int)w->table_bytes, w->table);
    if (g->table == NULL) return 0;
    if (schema_table_is_tree(g->table) != w->tree)
        return engine_fail(p->error, -RFE_SEMANTIC_ERROR, tablet, RF_NONE, RF_NONE,
                           "\"%.*s\" is a table of the other model", (int)w->table_bytes, w->table);
    if (schema_table_is_marked(g->table, p->version))
        return engine_fail(p->error, -RFE_SEMANTIC_ERROR, tablet, RF_NONE, RF_NONE,
                           "\"%.*s\" is being dropped", (int)w->table_bytes, w->table);
    return 0;
}

static int check_one(struct prepared *p, const struct rf_tablet *t, uint32_t tablet,
                     struct engine_want *w, bool *wanted_out)
{
    struct tablet_group *g = &p->groups[tablet];
    *g = (struct tablet_group){.in = t};
    struct want_list wants = {.columns = NULL};
    int rc = check_shape(p, t, tablet);
    if (rc != 0) return rc;
    p->rows += t->rows;
    uint64_t time_bytes = p->rows * sizeof(int64_t); /* the least that rows take */
    if (time_bytes > p->engine->segment_bytes)
        return tablets_too_large(p, tablet, time_bytes, "rows' times");
    rc = look_up_table(p, g, tablet, w);
    if (rc == 0) rc = look_up_columns(p, g, tablet, &wants);
    if (rc == 0 && g->table != NULL) rc = check_ttl(p, g, tablet);
    if (rc != 0) return rc;
    w->columns = wants.columns;
    w->column_count = wants.count;
    *wanted_out = wants.count > 0 || g->table == NULL;
    if (t->device != NULL && t->columns == 0)
        return engine_fail(p->error, -RFE_BAD_TABLET, tablet, RF_NONE, RF_NONE,
                           "a tablet of the tree model needs a column");
    p->points += g->points;
    return 0;
}

int tablets_check(struct prepared *p, const struct rf_tablet *tablets, uint32_t n,
                  struct engine_want **wants_out, uint32_t *want_count_out)
{
    *want_count_out = 0;
    if (n == 0 || n > BATCH_GROUPS_MAX)
        return engine_fail(p->error, -RFE_LIMIT, RF_NONE, RF_NONE, RF_NONE,
                           "%" PRIu32 " tablets: a batch has 1 to %u", n, BATCH_GROUPS_MAX);
    if (tablets == NULL)
        return engine_fail(p->error, -RFE_BAD_TABLET, RF_NONE, RF_NONE, RF_NONE,
                           "%" PRIu32 " tablets, and no array of them", n);
    p->groups = scratch_array(p->scratch, n, sizeof *p->groups);
    struct engine_want *wants = scratch_array(p->scratch, n, sizeof *wants);
    if (p->groups == NULL || wants == NULL) return -ENOMEM;
    p->group_count = n;
    for (uint32_t i = 0; i < n; i++) {
        bool wanted = false;
        int rc = check_one(p, &tablets[i], i, &wants[*want_count_out], &wanted);
        if (rc != 0) return rc;
        if (wanted) ++*want_count_out;
    }
    *wants_out = wants;
    return 0;
}
