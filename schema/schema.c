/* Tables and their columns; series.c has the tree model's series. */
#include "base/alloc.h"
#include "base/hash.h"
#include "schema/schema_impl.h"

#include <errno.h>
#include <string.h>

#define SCHEMA_MAGIC 0x52465343u

int schema_create(struct schema **schema_out)
{
    struct schema *s = mem_zalloc(sizeof *s);
    if (s == NULL) return -ENOMEM;
    s->magic = SCHEMA_MAGIC;
    s->tables.entry_bytes = sizeof(struct schema_table *);
    s->columns.entry_bytes = sizeof(struct schema_column);
    s->names.entry_bytes = sizeof(struct column_name);
    s->series.entry_bytes = sizeof(struct series);
    s->drops.entry_bytes = sizeof(uint64_t);
    *schema_out = s;
    return 0;
}

void schema_destroy(struct schema *s)
{
    if (s == NULL) return;
    CHECK(s->magic == SCHEMA_MAGIC);
    s->magic = 0;
    uint32_t count = atomic_load_explicit(&s->table_count, memory_order_relaxed);
    for (uint32_t i = 1; i <= count; i++)
        store_free(&s->store, schema_table_at(s, i));
    struct chunks *const chunks[] = {&s->tables, &s->columns, &s->names, &s->series, &s->drops};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++)
        chunks_deinit(&s->store, chunks[i]);
    struct slots *const slots[] = {&s->name_slots, &s->device_slots, &s->series_slots,
                                   &s->table_names, &s->table_numbers};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        slots_deinit(&s->store, slots[i]);
    store_deinit(&s->store);
    mem_free(s);
}

void schema_count(const struct schema *s, struct schema_counts *counts_out)
{
    *counts_out = (struct schema_counts){
        .tables = atomic_load_explicit(&s->live_tables, memory_order_relaxed),
        .columns = atomic_load_explicit(&s->live_columns, memory_order_relaxed),
        .series = atomic_load_explicit(&s->live_series, memory_order_relaxed),
        .bytes = atomic_load_explicit(&s->store.bytes, memory_order_relaxed) + sizeof *s,
    };
}

/* ---- names ---- */

uint64_t schema_name_hash(uint32_t table_number, const char *name, size_t name_bytes)
{
    return hash_keyed(name, name_bytes, table_number);
}

bool schema_name_is(const char *stored, const char *name, size_t name_bytes)
{
    /* Names have no NUL inside, so this stops at the end of the shorter one. */
    return strncmp(stored, name, name_bytes) == 0 && stored[name_bytes] == '\0';
}

static const char *copy_name(struct schema *s, const char *name, size_t name_bytes)
{
    char *copy = store_text(&s->store, name_bytes + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, name, name_bytes);
    copy[name_bytes] = '\0';
    return copy;
}

/* ---- entries by number ---- */

struct schema_table *schema_table_at(const struct schema *s, uint32_t number)
{
    struct schema_table **place = chunks_get(&s->tables, number);
    return place != NULL ? *place : NULL;
}

struct schema_column *schema_column_at(const struct schema *s, uint32_t id)
{
    return chunks_get(&s->columns, id);
}

const struct schema_column *schema_column_by_id(const struct schema *s, uint32_t id)
{
    const struct schema_column *c = schema_column_at(s, id);
    /* Its own chunk-mate may be under construction: a column is there once it has its name. Pair
     * S1: the release is the last store of make_column. */
    if (c == NULL || atomic_load_explicit(&c->name, memory_order_acquire) == NULL) return NULL;
    return c;
}

const struct schema_table *schema_table_of_column(const struct schema *s, uint32_t id)
{
    const struct schema_column *c = schema_column_by_id(s, id);
    return c != NULL ? schema_table_at(s, c->table) : NULL;
}

/* ---- tables ---- */

bool schema_table_exists(const struct schema_table *t, uint64_t version)
{
    /* Relaxed, here and in what follows: who acquired the view of a version sees every mark up to
     * it, and the marks of later versions are told by their number. */
    return t->created <= version &&
           version < atomic_load_explicit(&t->dropped, memory_order_relaxed);
}

const struct schema_table *schema_find_table(const struct schema *s, const char *name,
                                             size_t name_bytes, uint64_t version)
{
    struct probe p = probe_begin(&s->table_names, hash_keyed(name, name_bytes, 0));
    for (uint32_t number; (number = probe_next(&p)) != 0;) {
        const struct schema_table *t = schema_table_at(s, number);
        if (schema_table_exists(t, version) && schema_name_is(t->name, name, name_bytes)) return t;
    }
    return NULL;
}

struct schema_table *schema_table_to_change(struct schema *s, uint64_t incarnation)
{
    struct probe p =
        probe_begin(&s->table_numbers, hash_keyed(&incarnation, sizeof incarnation, 0));
    for (uint32_t number; (number = probe_next(&p)) != 0;) {
        struct schema_table *t = schema_table_at(s, number);
        if (t->incarnation == incarnation) return t;
    }
    return NULL;
}

const struct schema_table *schema_table_by_incarnation(const struct schema *s, uint64_t incarnation)
{
    struct probe p =
        probe_begin(&s->table_numbers, hash_keyed(&incarnation, sizeof incarnation, 0));
    for (uint32_t number; (number = probe_next(&p)) != 0;) {
        const struct schema_table *t = schema_table_at(s, number);
        if (t->incarnation == incarnation) return t;
    }
    return NULL;
}

int schema_each_table(const struct schema *s, uint64_t version,
                      int (*each)(void *ctx, const struct schema_table *table), void *ctx)
{
    /* S1: the count is stored after the table it makes reachable. */
    uint32_t count = atomic_load_explicit(&s->table_count, memory_order_acquire);
    for (uint32_t i = 1; i <= count; i++) {
        const struct schema_table *t = schema_table_at(s, i);
        if (!schema_table_exists(t, version)) continue;
        int rc = each(ctx, t);
        if (rc != 0) return rc;
    }
    return 0;
}

const char *schema_table_name(const struct schema_table *t)
{
    return t->name;
}
uint64_t schema_table_incarnation(const struct schema_table *t)
{
    return t->incarnation;
}
bool schema_table_is_tree(const struct schema_table *t)
{
    return t->tree;
}
int64_t schema_table_ttl(const struct schema_table *t)
{
    return atomic_load_explicit(&t->ttl, memory_order_relaxed);
}
uint32_t schema_table_tags(const struct schema_table *t)
{
    return atomic_load_explicit(&t->tag_count, memory_order_relaxed);
}

/* One word, so that nobody joins the beginning of one marker to the end of another. A reader whose
 * version lies before the last two changes of it may be told wrongly; such a reader is not decided:
 * schema_still_fits judges by the newest version. */
bool schema_table_is_marked(const struct schema_table *t, uint64_t version)
{
    uint64_t mark = atomic_load_explicit(&t->mark, memory_order_relaxed);
    return (version >= mark >> 1) == ((mark & 1) != 0);
}

static uint64_t table_name_hash(const void *ctx, uint32_t number)
{
    const struct schema_table *t = schema_table_at(ctx, number);
    return hash_keyed(t->name, strlen(t->name), 0);
}

static uint64_t table_number_hash(const void *ctx, uint32_t number)
{
    const struct schema_table *t = schema_table_at(ctx, number);
    return hash_keyed(&t->incarnation, sizeof t->incarnation, 0);
}

int schema_add_table(struct schema *s, const char *name, size_t name_bytes, uint64_t incarnation,
                     bool tree, int64_t ttl, uint64_t version, struct schema_table **table_out)
{
    CHECK(s->magic == SCHEMA_MAGIC && incarnation != 0 && version <= SCHEMA_VERSION_MAX);
    uint32_t number = atomic_load_explicit(&s->table_count, memory_order_relaxed) + 1;
    if (chunks_make(&s->store, &s->tables, number) != 0) return -ENOMEM;
    if (slots_reserve(&s->store, &s->table_names, 1, table_name_hash, s) != 0) return -ENOMEM;
    if (slots_reserve(&s->store, &s->table_numbers, 1, table_number_hash, s) != 0) return -ENOMEM;
    const char *copy = copy_name(s, name, name_bytes);
    if (copy == NULL) return -ENOMEM;
    struct schema_table *t = store_alloc(&s->store, sizeof *t);
    if (t == NULL) return -ENOMEM;
    t->schema = s;
    t->name = copy;
    t->incarnation = incarnation;
    t->created = version;
    t->number = number;
    t->tree = tree;
    atomic_init(&t->dropped, SCHEMA_NEVER);
    atomic_init(&t->mark, 0);
    atomic_init(&t->ttl, ttl);
    *(struct schema_table **)chunks_get(&s->tables, number) = t;
    slots_put(&s->table_names, table_name_hash(s, number), number);
    slots_put(&s->table_numbers, table_number_hash(s, number), number);
    atomic_store_explicit(&s->table_count, number, memory_order_release); /* S1 */
    figure_add(&s->live_tables, 1);
    if (table_out != NULL) *table_out = t;
    return 0;
}

/* ---- what takes away ---- */

void schema_note_taken(struct schema_table *t, uint64_t version)
{
    CHECK(version <= SCHEMA_VERSION_MAX);
    if (version > atomic_load_explicit(&t->taken, memory_order_relaxed))
        atomic_store_explicit(&t->taken, version, memory_order_relaxed);
}

void schema_mark_table(struct schema_table *t, uint64_t version)
{
    atomic_store_explicit(&t->mark, version << 1 | 1, memory_order_relaxed);
    schema_note_taken(t, version);
}

void schema_unmark_table(struct schema_table *t, uint64_t version)
{
    atomic_store_explicit(&t->mark, version << 1, memory_order_relaxed);
    schema_note_taken(t, version);
}

void schema_drop_table(struct schema_table *t, uint64_t version)
{
    CHECK(atomic_load_explicit(&t->dropped, memory_order_relaxed) == SCHEMA_NEVER);
    atomic_store_explicit(&t->dropped, version, memory_order_relaxed);
    schema_note_taken(t, version);
    figure_add(&t->schema->live_tables, (uint64_t)-1);
    figure_add(&t->schema->live_columns, -t->live_columns);
    figure_add(&t->schema->live_series, -t->live_series);
}

void schema_set_ttl(struct schema_table *t, int64_t ttl, uint64_t version)
{
    atomic_store_explicit(&t->ttl, ttl, memory_order_relaxed);
    atomic_store_explicit(&t->whole_changed, version, memory_order_relaxed);
    schema_note_taken(t, version);
}

void schema_end_column(struct schema_table *t, struct schema_column *c, uint64_t version)
{
    CHECK(atomic_load_explicit(&c->dropped, memory_order_relaxed) == SCHEMA_NEVER);
    atomic_store_explicit(&c->dropped, version, memory_order_relaxed);
    schema_note_taken(t, version);
    t->live_columns--;
    figure_add(&t->schema->live_columns, (uint64_t)-1);
}

void schema_drop_column(struct schema_table *t, uint32_t id, uint64_t version)
{
    struct schema_column *c = schema_column_at(t->schema, id);
    CHECK(c != NULL && c->table == t->number && c->category == SCHEMA_FIELD && !t->tree);
    schema_end_column(t, c, version);
}

/* A batch that still fits an earlier version is told by its columns; a change of TTL or of a TAG's
 * name counts however late it is, since only the last one is kept: a batch refused too often is written again. */
bool schema_still_fits(const struct schema_table *t, const void *key, size_t key_bytes,
                       const uint32_t *column_ids, uint32_t column_count, uint64_t then,
                       uint64_t now)
{
    if (RF_LIKELY(atomic_load_explicit(&t->taken, memory_order_relaxed) <= then)) return true;
    if (!schema_table_exists(t, now) || schema_table_is_marked(t, now)) return false;
    if (atomic_load_explicit(&t->whole_changed, memory_order_relaxed) > then) return false;
    for (uint32_t i = 0; i < column_count; i++) {
        const struct schema_column *c = schema_column_by_id(t->schema, column_ids[i]);
        CHECK(c != NULL && c->table == t->number);
        if (!schema_column_exists(c, now)) return false;
        if (t->tree) {
            if (!schema_has_series(t, key, key_bytes, c->id, now)) return false;
        } else if (schema_column_name(t, c, then) != schema_column_name(t, c, now)) {
            return false;
        }
    }
    return true;
}

/* ---- columns ---- */

static struct column_name *name_at(const struct schema *s, uint32_t number)
{
    return chunks_get(&s->names, number & ~NAME_LATER);
}

/* Under what name a column's own number lies in `names`. The name is loaded first: rename_column
 * stores `names` before it, so a name that is not the first one comes with the list that has the
 * first one. */
static const char *first_name(const struct schema *s, const struct schema_column *c,
                              uint32_t *names_out)
{
    const char *name = atomic_load_explicit(&c->name, memory_order_acquire);
    uint32_t names = atomic_load_explicit(&c->names, memory_order_acquire); /* S1 */
    *names_out = names;
    return names != 0 ? name_at(s, names)->name : name;
}

static bool is_named(const struct column_name *n, uint64_t version)
{
    return n->from <= version && version < atomic_load_explicit(&n->until, memory_order_relaxed);
}

const char *schema_column_name(const struct schema_table *t, const struct schema_column *c,
                               uint64_t version)
{
    if (t->tree) return atomic_load_explicit(&c->name, memory_order_acquire);
    uint32_t names;
    const char *first = first_name(t->schema, c, &names);
    for (; names != 0; names = atomic_load_explicit(&name_at(t->schema, names)->next,
                                                    memory_order_acquire)) { /* S1 */
        const struct column_name *n = name_at(t->schema, names);
        if (is_named(n, version)) return n->name;
    }
    return first;
}

/* The column, if `number` of `names` leads to one that has this name at version. */
static const struct schema_column *match(const struct schema_table *t, uint32_t number,
                                         const char *name, size_t name_bytes, uint64_t version)
{
    const struct schema *s = t->schema;
    const struct column_name *n = number & NAME_LATER ? name_at(s, number) : NULL;
    const struct schema_column *c = schema_column_at(s, n != NULL ? n->column : number);
    /* The table first: a column of the other model has no `names`. */
    if (c->table != t->number || !schema_column_exists(c, version)) return NULL;
    if (n != NULL) {
        if (!is_named(n, version) || !schema_name_is(n->name, name, name_bytes)) return NULL;
    } else {
        uint32_t names = 0;
        const char *first = t->tree ? atomic_load_explicit(&c->name, memory_order_acquire)
                                    : first_name(s, c, &names);
        if (!schema_name_is(first, name, name_bytes)) return NULL;
        if (names != 0 && !is_named(name_at(s, names), version)) return NULL;
    }
    return c;
}

const struct schema_column *schema_find_column(const struct schema_table *t, const char *name,
                                               size_t name_bytes, uint64_t version)
{
    struct probe p =
        probe_begin(&t->schema->name_slots, schema_name_hash(t->number, name, name_bytes));
    for (uint32_t number; (number = probe_next(&p)) != 0;) {
        const struct schema_column *c = match(t, number, name, name_bytes, version);
        if (c != NULL) return c;
    }
    return NULL;
}

const struct schema_column *schema_next_column(const struct schema_table *t, const char *name,
                                               size_t name_bytes, uint64_t version,
                                               struct schema_place *place)
{
    uint32_t number = place->next;
    if (number == 0) number = atomic_load_explicit(&t->first_column, memory_order_acquire); /* S1 */
    const struct schema_column *c =
        number != 0 ? match(t, number, name, name_bytes, version) : NULL;
    if (c == NULL) c = schema_find_column(t, name, name_bytes, version);
    if (c != NULL) place->next = atomic_load_explicit(&c->next, memory_order_acquire); /* S1 */
    return c;
}

const struct schema_column *schema_find_measurement(const struct schema_table *t,
                                                    const char *measurement,
                                                    size_t measurement_bytes, int type,
                                                    uint64_t version)
{
    const struct schema_column *newest = NULL;
    struct probe p = probe_begin(&t->schema->name_slots,
                                 schema_name_hash(t->number, measurement, measurement_bytes));
    for (uint32_t number; (number = probe_next(&p)) != 0;) {
        const struct schema_column *c = match(t, number, measurement, measurement_bytes, version);
        if (c != NULL && c->type == type && (newest == NULL || newest->id < c->id)) newest = c;
    }
    return newest;
}

const struct schema_column *schema_tag(const struct schema_table *t, uint32_t i, uint64_t version)
{
    /* S1: the count is stored after the tag that it makes reachable. */
    if (i >= atomic_load_explicit(&t->tag_count, memory_order_acquire)) return NULL;
    uint32_t id = atomic_load_explicit(&t->tag[i], memory_order_relaxed);
    const struct schema_column *c = schema_column_at(t->schema, id);
    return schema_column_exists(c, version) ? c : NULL;
}

int schema_each_column(const struct schema_table *t, uint64_t version,
                       int (*each)(void *ctx, const struct schema_column *column), void *ctx)
{
    uint32_t id = atomic_load_explicit(&t->first_column, memory_order_acquire); /* S1 */
    while (id != 0) {
        const struct schema_column *c = schema_column_at(t->schema, id);
        int rc = schema_column_exists(c, version) ? each(ctx, c) : 0;
        if (rc != 0) return rc;
        id = atomic_load_explicit(&c->next, memory_order_acquire); /* S1 */
    }
    return 0;
}

static uint64_t column_name_hash(const void *ctx, uint32_t number)
{
    const struct schema *s = ctx;
    const char *name;
    const struct schema_column *c;
    if (number & NAME_LATER) {
        c = schema_column_at(s, name_at(s, number)->column);
        name = name_at(s, number)->name;
    } else {
        c = schema_column_at(s, number);
        uint32_t names;
        name = schema_table_at(s, c->table)->tree
                   ? atomic_load_explicit(&c->name, memory_order_relaxed)
                   : first_name(s, c, &names);
    }
    return schema_name_hash(c->table, name, strlen(name));
}

static void link_column(struct schema_table *t, struct schema_column *c)
{
    _Atomic uint32_t *place =
        t->last_column == 0 ? &t->first_column : &schema_column_at(t->schema, t->last_column)->next;
    atomic_store_explicit(place, c->id, memory_order_release); /* S1 */
    t->last_column = c->id;
    if (c->category != SCHEMA_TAG) return;
    uint32_t tags = atomic_load_explicit(&t->tag_count, memory_order_relaxed);
    atomic_store_explicit(&t->tag[tags], c->id, memory_order_relaxed);
    atomic_store_explicit(&t->tag_count, tags + 1, memory_order_release); /* S1 */
}

int schema_add_column(struct schema_table *t, const char *name, size_t name_bytes, uint32_t id,
                      int type, int category, uint64_t version)
{
    struct schema *s = t->schema;
    uint32_t tags = atomic_load_explicit(&t->tag_count, memory_order_relaxed);
    CHECK(id != 0 && id <= SCHEMA_COLUMN_ID_MAX && version <= SCHEMA_VERSION_MAX);
    CHECK(schema_type_bytes(type) >= 0 && (category == SCHEMA_TAG || category == SCHEMA_FIELD));
    CHECK(category == SCHEMA_FIELD || (!t->tree && tags < SCHEMA_TAGS_MAX));
    if (chunks_make(&s->store, &s->columns, id) != 0) return -ENOMEM;
    if (slots_reserve(&s->store, &s->name_slots, 1, column_name_hash, s) != 0) return -ENOMEM;
    const char *copy = copy_name(s, name, name_bytes);
    if (copy == NULL) return -ENOMEM;
    struct schema_column *c = schema_column_at(s, id);
    CHECK(atomic_load_explicit(&c->name, memory_order_relaxed) == NULL); /* an id is used once */
    c->id = id;
    c->created_low = (uint32_t)version;
    c->created_high = (uint8_t)(version >> 32);
    c->table = t->number;
    c->type = (uint8_t)type;
    c->category = (uint8_t)category;
    c->tag_index = category == SCHEMA_TAG ? (uint8_t)tags : 0;
    atomic_store_explicit(&c->dropped, SCHEMA_NEVER, memory_order_relaxed);
    atomic_store_explicit(&c->name, copy, memory_order_release); /* S1 */
    slots_put(&s->name_slots, schema_name_hash(t->number, name, name_bytes), id);
    link_column(t, c);
    t->live_columns++;
    figure_add(&s->live_columns, 1);
    return 0;
}

/* Fills the next entry of `names`, which nobody can reach yet; its number. */
static uint32_t make_name(struct schema *s, const struct schema_column *c, const char *name,
                          uint64_t from, uint64_t until)
{
    uint32_t number = ++s->name_count;
    struct column_name *n = name_at(s, number);
    n->name = name;
    n->from = from;
    n->column = c->id;
    atomic_store_explicit(&n->until, until, memory_order_relaxed);
    return number;
}

int schema_rename_column(struct schema_table *t, uint32_t id, const char *to, size_t to_bytes,
                         uint64_t version)
{
    struct schema *s = t->schema;
    struct schema_column *c = schema_column_at(s, id);
    CHECK(c != NULL && c->table == t->number && !t->tree && version <= SCHEMA_VERSION_MAX);
    if (chunks_make(&s->store, &s->names, s->name_count + 1) != 0 ||
        chunks_make(&s->store, &s->names, s->name_count + 2) != 0)
        return -ENOMEM;
    if (slots_reserve(&s->store, &s->name_slots, 1, column_name_hash, s) != 0) return -ENOMEM;
    const char *copy = copy_name(s, to, to_bytes);
    if (copy == NULL) return -ENOMEM;

    const char *before = atomic_load_explicit(&c->name, memory_order_relaxed);
    uint32_t last = atomic_load_explicit(&c->names, memory_order_relaxed);
    uint32_t later = make_name(s, c, copy, version, SCHEMA_NEVER);
    slots_put(&s->name_slots, schema_name_hash(t->number, to, to_bytes), later | NAME_LATER);
    if (last == 0) {
        uint32_t first = make_name(s, c, before, schema_column_created(c), version);
        atomic_store_explicit(&name_at(s, first)->next, later, memory_order_relaxed);
        atomic_store_explicit(&c->names, first, memory_order_release); /* S1 */
    } else {
        struct column_name *n = name_at(s, last);
        for (uint32_t next; (next = atomic_load_explicit(&n->next, memory_order_relaxed)) != 0;)
            n = name_at(s, next);
        atomic_store_explicit(&n->until, version, memory_order_relaxed);
        atomic_store_explicit(&n->next, later, memory_order_release); /* S1 */
    }
    /* After `names`: see first_name. */
    atomic_store_explicit(&c->name, copy, memory_order_release);
    /* A record has its tags' values, but not which TAG columns its writer named. */
    if (c->category == SCHEMA_TAG)
        atomic_store_explicit(&t->whole_changed, version, memory_order_relaxed);
    schema_note_taken(t, version);
    return 0;
}
