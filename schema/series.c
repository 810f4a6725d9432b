/* The tree model's series: which column a device's measurement is. */
#include "base/bytes.h"
#include "base/hash.h"
#include "schema/schema_impl.h"

#include <errno.h>
#include <string.h>

static uint64_t device_hash(uint32_t table_number, const void *key, size_t key_bytes)
{
    return hash_keyed(key, key_bytes, table_number);
}

static uint64_t measurement_hash(uint64_t device, const char *name, size_t name_bytes)
{
    return hash_keyed(name, name_bytes, device);
}

static struct series *series_at(const struct schema *s, uint32_t number)
{
    return chunks_get(&s->series, number);
}

static const char *measurement_of(const struct schema *s, const struct series *e)
{
    /* Relaxed: in the tree model nothing is renamed. */
    return atomic_load_explicit(&schema_column_at(s, e->column)->name, memory_order_relaxed);
}

static bool is_of(const struct schema *s, const struct series *e, uint32_t table_number,
                  const void *key, size_t key_bytes)
{
    return load_u16(e->key) == key_bytes && memcmp(e->key + 2, key, key_bytes) == 0 &&
           schema_column_at(s, e->column)->table == table_number;
}

static bool series_exists(const struct schema *s, const struct series *e, uint64_t version)
{
    uint64_t created = (uint64_t)e->created_high << 32 | e->created_low;
    if (version < created) return false;
    uint32_t drop = atomic_load_explicit(&e->drop, memory_order_acquire); /* S1 */
    return drop == 0 || version < *(const uint64_t *)chunks_get(&s->drops, drop);
}

/* The number of a device's first series, 0: it has none. */
static uint32_t find_device(const struct schema_table *t, const void *key, size_t key_bytes)
{
    if (!t->tree) return 0;
    struct probe p = probe_begin(&t->schema->device_slots, device_hash(t->number, key, key_bytes));
    for (uint32_t number; (number = probe_next(&p)) != 0;)
        if (is_of(t->schema, series_at(t->schema, number), t->number, key, key_bytes))
            return number;
    return 0;
}

static uint32_t next_of(const struct series *e)
{
    return atomic_load_explicit(&e->next, memory_order_acquire); /* S1 */
}

/* What a look-up asks for. */
struct wanted {
    const void *key;
    size_t key_bytes;
    const char *measurement;
    size_t measurement_bytes;
    uint32_t column_id; /* 0: any */
    uint64_t version;
};

/* All but the device. */
static bool answers(const struct schema *s, const struct series *e, const struct wanted *w)
{
    return (w->column_id == 0 || e->column == w->column_id) && series_exists(s, e, w->version) &&
           schema_name_is(measurement_of(s, e), w->measurement, w->measurement_bytes);
}

static struct series *find_indexed(const struct schema_table *t, const struct wanted *w)
{
    const struct schema *s = t->schema;
    uint64_t device = device_hash(t->number, w->key, w->key_bytes);
    struct probe p = probe_begin(&s->series_slots,
                                 measurement_hash(device, w->measurement, w->measurement_bytes));
    for (uint32_t number; (number = probe_next(&p)) != 0;) {
        struct series *e = series_at(s, number);
        if (answers(s, e, w) && is_of(s, e, t->number, w->key, w->key_bytes)) return e;
    }
    return NULL;
}

static struct series *find(const struct schema_table *t, const struct wanted *w)
{
    const struct schema *s = t->schema;
    uint32_t number = find_device(t, w->key, w->key_bytes);
    if (number == 0) return NULL;
    /* S1: who sees the flag sees the table with every series of the device in it. */
    if (atomic_load_explicit(&series_at(s, number)->indexed, memory_order_acquire) != 0)
        return find_indexed(t, w);
    for (; number != 0; number = next_of(series_at(s, number))) {
        struct series *e = series_at(s, number);
        if (answers(s, e, w)) return e;
    }
    return NULL;
}

const struct schema_column *schema_find_series(const struct schema_table *t, const void *key,
                                               size_t key_bytes, const char *measurement,
                                               size_t measurement_bytes, uint64_t version)
{
    const struct series *e = find(t, &(struct wanted){.key = key,
                                                      .key_bytes = key_bytes,
                                                      .measurement = measurement,
                                                      .measurement_bytes = measurement_bytes,
                                                      .version = version});
    return e != NULL ? schema_column_at(t->schema, e->column) : NULL;
}

const struct schema_column *schema_next_series(const struct schema_table *t, const void *key,
                                               size_t key_bytes, const char *measurement,
                                               size_t measurement_bytes, uint64_t version,
                                               struct schema_place *place)
{
    const struct wanted w = {.key = key,
                             .key_bytes = key_bytes,
                             .measurement = measurement,
                             .measurement_bytes = measurement_bytes,
                             .version = version};
    uint32_t number = place->next != 0 ? place->next : find_device(t, key, key_bytes);
    if (number == 0) return NULL;
    const struct series *e = series_at(t->schema, number);
    if (!answers(t->schema, e, &w)) e = find(t, &w);
    if (e == NULL) return NULL;
    place->next = next_of(e);
    return schema_column_at(t->schema, e->column);
}

/* The series of this device and column that is there at version: at most one is, ever. */
static struct series *find_of_column(const struct schema_table *t, const void *key,
                                     size_t key_bytes, const struct schema_column *c,
                                     uint64_t version)
{
    const char *name = atomic_load_explicit(&c->name, memory_order_relaxed);
    return find(t, &(struct wanted){.key = key,
                                    .key_bytes = key_bytes,
                                    .measurement = name,
                                    .measurement_bytes = strlen(name),
                                    .column_id = c->id,
                                    .version = version});
}

bool schema_has_series(const struct schema_table *t, const void *key, size_t key_bytes,
                       uint32_t column_id, uint64_t version)
{
    const struct schema_column *c = schema_column_at(t->schema, column_id);
    return find_of_column(t, key, key_bytes, c, version) != NULL;
}

int schema_each_series(const struct schema_table *t, const void *key, size_t key_bytes,
                       uint64_t version, int (*each)(void *ctx, const struct schema_column *column),
                       void *ctx)
{
    const struct schema *s = t->schema;
    for (uint32_t number = find_device(t, key, key_bytes); number != 0;
         number = next_of(series_at(s, number))) {
        const struct series *e = series_at(s, number);
        int rc = series_exists(s, e, version) ? each(ctx, schema_column_at(s, e->column)) : 0;
        if (rc != 0) return rc;
    }
    return 0;
}

/* ---- changes ---- */

static uint64_t hash_of_device(const void *ctx, uint32_t number)
{
    const struct schema *s = ctx;
    const struct series *e = series_at(s, number);
    return device_hash(schema_column_at(s, e->column)->table, e->key + 2, load_u16(e->key));
}

static uint64_t hash_of_series(const void *ctx, uint32_t number)
{
    const char *name = measurement_of(ctx, series_at(ctx, number));
    return measurement_hash(hash_of_device(ctx, number), name, strlen(name));
}

static const unsigned char *copy_key(struct schema *s, const void *key, size_t key_bytes)
{
    unsigned char *copy = (unsigned char *)store_text(&s->store, key_bytes + 2);
    if (copy == NULL) return NULL;
    store_u16(copy, (uint16_t)key_bytes);
    if (key_bytes != 0) memcpy(copy + 2, key, key_bytes);
    return copy;
}

/* Puts a series behind the others of its device; once there are enough, all of them into the table
 * as well. A reader that has not seen the flag walks the list, which has every one. */
static void link_series(struct schema *s, uint32_t first_number, uint32_t number)
{
    struct series *first = series_at(s, first_number);
    atomic_store_explicit(&series_at(s, first->tail)->next, number, memory_order_release); /* S1 */
    first->tail = number;
    if (atomic_load_explicit(&first->indexed, memory_order_relaxed) != 0) {
        slots_put(&s->series_slots, hash_of_series(s, number), number);
        return;
    }
    if (++first->count < INDEXED_FROM) return;
    for (uint32_t n = first_number; n != 0; n = next_of(series_at(s, n)))
        slots_put(&s->series_slots, hash_of_series(s, n), n);
    atomic_store_explicit(&first->indexed, 1, memory_order_release); /* S1 */
}

int schema_add_series(struct schema_table *t, const void *key, size_t key_bytes, uint32_t column_id,
                      uint64_t version)
{
    struct schema *s = t->schema;
    struct schema_column *c = schema_column_at(s, column_id);
    CHECK(t->tree && key_bytes <= SCHEMA_KEY_BYTES_MAX && version <= SCHEMA_VERSION_MAX);
    CHECK(c != NULL && c->table == t->number);
    uint32_t number = s->series_count + 1;
    if (chunks_make(&s->store, &s->series, number) != 0) return -ENOMEM;
    if (slots_reserve(&s->store, &s->device_slots, 1, hash_of_device, s) != 0) return -ENOMEM;
    if (slots_reserve(&s->store, &s->series_slots, INDEXED_FROM, hash_of_series, s) != 0)
        return -ENOMEM;
    uint32_t first = find_device(t, key, key_bytes);
    const unsigned char *copy = first != 0 ? series_at(s, first)->key : copy_key(s, key, key_bytes);
    if (copy == NULL) return -ENOMEM;

    s->series_count = number;
    struct series *e = series_at(s, number);
    e->key = copy;
    e->column = column_id;
    e->created_low = (uint32_t)version;
    e->created_high = (uint8_t)(version >> 32);
    if (first != 0) {
        link_series(s, first, number);
    } else {
        e->tail = number;
        e->count = 1;
        slots_put(&s->device_slots, hash_of_device(s, number), number);
    }
    c->series++;
    t->live_series++;
    figure_add(&s->live_series, 1);
    return 0;
}

int schema_drop_series(struct schema_table *t, const void *key, size_t key_bytes,
                       uint32_t column_id, uint64_t version)
{
    struct schema *s = t->schema;
    struct schema_column *c = schema_column_at(s, column_id);
    CHECK(c != NULL && c->table == t->number);
    struct series *e = find_of_column(t, key, key_bytes, c, version);
    CHECK(e != NULL && c->series > 0);
    if (chunks_make(&s->store, &s->drops, s->drop_count + 1) != 0) return -ENOMEM;
    uint32_t drop = ++s->drop_count;
    *(uint64_t *)chunks_get(&s->drops, drop) = version;
    atomic_store_explicit(&e->drop, drop, memory_order_release); /* S1 */
    schema_note_taken(t, version);
    t->live_series--;
    figure_add(&s->live_series, (uint64_t)-1);
    if (--c->series == 0) schema_end_column(t, c, version);
    return 0;
}
