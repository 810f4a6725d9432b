/* Which place in a device's key a TAG column will have that the batch itself is about to make: behind
 * the table's own, in the order in which the batch's tablets name them, each name once. So the
 * devices of a batch, and with them its region, are known before anything is made. */
#include "engine/engine_impl.h"

struct new_tag {
    const char *table; /* NULL: an empty slot */
    const char *tag;   /* NULL: of the table as a whole, and place counts its new TAGs */
    uint32_t place;
};

static uint64_t hash_of(const char *table, const char *tag)
{
    uint64_t seed = tag != NULL ? hash_keyed(tag, strlen(tag), 1) : 0;
    return hash_keyed(table, strlen(table), seed);
}

static bool is_of(const struct new_tag *e, const char *table, const char *tag)
{
    if (strcmp(e->table, table) != 0) return false;
    return tag == NULL || e->tag == NULL ? tag == e->tag : strcmp(e->tag, tag) == 0;
}

/* The entry, or the empty slot where it belongs. */
static struct new_tag *find(const struct new_tags *n, const char *table, const char *tag)
{
    uint64_t at = hash_of(table, tag) & (n->slots - 1);
    while (n->slot[at].table != NULL && !is_of(&n->slot[at], table, tag))
        at = (at + 1) & (n->slots - 1);
    return &n->slot[at];
}

/* Room for two more, at most half of the slots taken. */
static int grow(struct prepared *p)
{
    struct new_tags *n = &p->new_tags, larger = {.slots = n->slots == 0 ? 64 : 4 * n->slots};
    if (2 * (n->used + 2) <= n->slots) return 0;
    larger.slot = scratch_array(p->scratch, larger.slots, sizeof *larger.slot);
    if (larger.slot == NULL) return -ENOMEM;
    memset(larger.slot, 0, larger.slots * sizeof *larger.slot);
    for (uint32_t i = 0; i < n->slots; i++)
        if (n->slot[i].table != NULL) *find(&larger, n->slot[i].table, n->slot[i].tag) = n->slot[i];
    larger.used = n->used;
    *n = larger;
    return 0;
}

int new_tag_place(struct prepared *p, const char *table, const char *tag, uint32_t existing,
                  uint32_t *place_out)
{
    if (grow(p) != 0) return -ENOMEM;
    struct new_tags *n = &p->new_tags;
    struct new_tag *e = find(n, table, tag);
    if (e->table == NULL) {
        struct new_tag *all = find(n, table, NULL);
        if (all->table == NULL) {
            *all = (struct new_tag){.table = table};
            n->used++;
        }
        e = find(n, table, tag); /* its slot may just have been taken */
        *e = (struct new_tag){.table = table, .tag = tag, .place = existing + all->place++};
        n->used++;
    }
    *place_out = e->place;
    return 0;
}
