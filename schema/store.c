#include "schema/store.h"

#include "base/alloc.h"

#include <errno.h>
#include <string.h>

#define TEXT_BYTES ((size_t)16 << 10)
#define SLOTS_MIN  16
#define CHUNKS_MIN 16
#define CELL_BYTES sizeof(uint32_t)

struct store_text {
    struct store_text *older;
    size_t bytes;
    char data[];
};

void *store_alloc(struct store *store, size_t bytes)
{
    void *p = mem_zalloc(bytes);
    if (p != NULL)
        atomic_fetch_add_explicit(&store->bytes, mem_usable_bytes(p), memory_order_relaxed);
    return p;
}

void store_free(struct store *store, void *p)
{
    if (p == NULL) return;
    atomic_fetch_sub_explicit(&store->bytes, mem_usable_bytes(p), memory_order_relaxed);
    mem_free(p);
}

char *store_text(struct store *store, size_t bytes)
{
    struct store_text *text = store->text;
    if (text == NULL || text->bytes - store->text_used < bytes) {
        size_t room = TEXT_BYTES - sizeof *text;
        if (room < bytes) room = bytes;
        text = store_alloc(store, sizeof *text + room);
        if (text == NULL) return NULL;
        text->older = store->text;
        text->bytes = room;
        store->text = text;
        store->text_used = 0;
    }
    char *p = text->data + store->text_used;
    store->text_used += bytes;
    return p;
}

void store_deinit(struct store *store)
{
    while (store->text != NULL) {
        struct store_text *older = store->text->older;
        store_free(store, store->text);
        store->text = older;
    }
    CHECK(atomic_load_explicit(&store->bytes, memory_order_relaxed) == 0);
}

/* ---- chunks ---- */

static int grow_directory(struct store *store, struct chunks *c, struct chunk_directory *d,
                          size_t at, struct chunk_directory **grown_out)
{
    size_t capacity = d != NULL ? d->capacity : CHUNKS_MIN / 2;
    do {
        capacity *= 2;
    } while (capacity <= at);
    struct chunk_directory *grown =
        store_alloc(store, sizeof *grown + capacity * sizeof grown->chunk[0]);
    if (grown == NULL) return -ENOMEM;
    grown->older = d;
    grown->capacity = capacity;
    for (size_t i = 0; d != NULL && i < d->capacity; i++) {
        /* Relaxed: both are this thread's own until the store below. */
        void *chunk = atomic_load_explicit(&d->chunk[i], memory_order_relaxed);
        atomic_store_explicit(&grown->chunk[i], chunk, memory_order_relaxed);
    }
    atomic_store_explicit(&c->directory, grown, memory_order_release); /* S2 */
    *grown_out = grown;
    return 0;
}

int chunks_make(struct store *store, struct chunks *c, uint32_t number)
{
    size_t at = number >> CHUNK_BITS;
    struct chunk_directory *d = atomic_load_explicit(&c->directory, memory_order_relaxed);
    if (d == NULL || at >= d->capacity) {
        int rc = grow_directory(store, c, d, at, &d);
        if (rc != 0) return rc;
    }
    if (atomic_load_explicit(&d->chunk[at], memory_order_relaxed) != NULL) return 0;
    void *chunk = store_alloc(store, CHUNK_ENTRIES * c->entry_bytes);
    if (chunk == NULL) return -ENOMEM;
    atomic_store_explicit(&d->chunk[at], chunk, memory_order_release); /* S2 */
    return 0;
}

void chunks_deinit(struct store *store, struct chunks *c)
{
    struct chunk_directory *d = atomic_load_explicit(&c->directory, memory_order_relaxed);
    for (size_t i = 0; d != NULL && i < d->capacity; i++)
        store_free(store, atomic_load_explicit(&d->chunk[i], memory_order_relaxed));
    while (d != NULL) {
        struct chunk_directory *older = d->older;
        store_free(store, d);
        d = older;
    }
    atomic_store_explicit(&c->directory, NULL, memory_order_relaxed);
}

/* ---- slots ---- */

static bool fits(const struct slot_table *t, uint64_t count)
{
    return t != NULL && count * 16 <= (t->mask + 1) * 13;
}

static void put(struct slot_table *t, uint64_t hash, uint32_t number)
{
    uint64_t at = hash;
    /* Relaxed: only this thread stores into cells. */
    while (atomic_load_explicit(&t->cell[at & t->mask], memory_order_relaxed) != 0)
        at++;
    atomic_store_explicit(&t->cell[at & t->mask], number, memory_order_release); /* S1 */
}

static struct slot_table *make_table(struct store *store, uint64_t capacity)
{
    struct slot_table *t = store_alloc(store, sizeof *t);
    if (t == NULL) return NULL;
    t->mask = capacity - 1;
    t->cell = store_alloc(store, capacity * CELL_BYTES);
    if (t->cell == NULL) {
        store_free(store, t);
        return NULL;
    }
    return t;
}

int slots_reserve(struct store *store, struct slots *s, uint64_t more,
                  uint64_t (*hash_of)(const void *ctx, uint32_t number), const void *ctx)
{
    struct slot_table *t = atomic_load_explicit(&s->table, memory_order_relaxed);
    if (fits(t, s->used + more)) return 0;
    uint64_t capacity = t != NULL ? (t->mask + 1) * 2 : SLOTS_MIN;
    while (capacity * 13 < (s->used + more) * 16)
        capacity *= 2;
    struct slot_table *grown = make_table(store, capacity);
    if (grown == NULL) return -ENOMEM;
    grown->older = t;
    for (uint64_t i = 0; t != NULL && i <= t->mask; i++) {
        uint32_t number = atomic_load_explicit(&t->cell[i], memory_order_relaxed);
        if (number != 0) put(grown, hash_of(ctx, number), number);
    }
    atomic_store_explicit(&s->table, grown, memory_order_release); /* S2 */
    return 0;
}

void slots_put(struct slots *s, uint64_t hash, uint32_t number)
{
    struct slot_table *t = atomic_load_explicit(&s->table, memory_order_relaxed);
    CHECK(number != 0 && fits(t, s->used + 1));
    put(t, hash, number);
    s->used++;
}

void slots_deinit(struct store *store, struct slots *s)
{
    struct slot_table *t = atomic_load_explicit(&s->table, memory_order_relaxed);
    while (t != NULL) {
        struct slot_table *older = t->older;
        store_free(store, t->cell);
        store_free(store, t);
        t = older;
    }
    atomic_store_explicit(&s->table, NULL, memory_order_relaxed);
}
