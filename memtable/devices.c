/* Devices: (table incarnation, key) -> dense number, looked up without a lock.
 *
 * Entries stand in chunks that are never moved; a number leads to its chunk by two fixed steps. The
 * hash table holds numbers alone, 4 bytes a slot: of a hash of 32 bits the first k say the home of
 * a table of 2^k slots, and the other 32 - k stand in the slot beside the number, which needs k
 * bits. So a slot that matches is nearly always the right one, and the entry is looked at once.
 * Table g has FIRST_SLOTS << g slots; growing fills the next one and publishes g. Older tables stay
 * until the end, since nobody knows who still looks at them; all of them together are as large as
 * the newest. The devices of one table hang in a chain, newest first.
 *
 * One registers at a time, under the lock. Orders:
 *   D  slot (release) / slot (acquire): entry, key, chunk and its way are written before the slot.
 *   G  generation (release) / generation (acquire): the new table is filled before it is found.
 *   T  a table's newest (release) / newest (acquire): the entries of the chain.
 * Bytes a device, worst just behind a growth: entry 24, slots 2 * 4 / (3 / 8) = 21.3, chunks and
 * tables 1. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/lock.h"
#include "memtable/memtable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_ENTRIES   256u  /* 6 KiB, a size of the allocator */
#define LEAF_CHUNKS     4096u /* a million devices */
#define TOP_LEAVES      1024u
#define DEVICES_MAX     (CHUNK_ENTRIES * LEAF_CHUNKS * TOP_LEAVES) /* 2^30 */
#define FIRST_SLOTS     1024u
#define FIRST_SLOTS_LOG 10u
#define GENERATIONS     22u
#define TABLE_BUCKETS   1024u
#define KEY_BLOCK_MIN   8192u
#define KEY_BLOCK_MAX   (256u << 10)
#define KEY_PREFIX      2u /* the key's length, before its bytes */
#define NO_DEVICE       UINT32_MAX

/* At most three quarters of the last table's 2^31 slots are taken, so a slot keeps a bit of tag. */
_Static_assert(FIRST_SLOTS_LOG + GENERATIONS - 1 <= 31, "number and tag fit 32 bits");
_Static_assert((uint64_t)DEVICES_MAX * 4 <= 3ull << (FIRST_SLOTS_LOG + GENERATIONS - 1),
               "the last table holds every device");
_Static_assert(KEY_BLOCK_MIN >= KEY_PREFIX + BATCH_KEY_BYTES_MAX + 16, "a key fits any block");

struct device_entry {
    uint64_t incarnation;
    const uint8_t *key; /* KEY_PREFIX bytes of length, then the key */
    uint32_t hash;
    uint32_t next; /* of the same table, registered before; NO_DEVICE at the end */
};
_Static_assert(sizeof(struct device_entry) == 24, "counted at the head of this file");

struct device_chunk {
    struct device_entry entries[CHUNK_ENTRIES];
};
struct device_leaf {
    struct device_chunk *chunks[LEAF_CHUNKS];
};

/* One table's chain. Never freed before the end; buckets are pushed under the lock. */
struct device_table {
    struct device_table *next;
    uint64_t incarnation;
    _Atomic uint32_t newest; /* pair T */
    _Atomic uint32_t count;  /* stored before newest: never below what the chain shows */
};

struct key_block {
    struct key_block *before;
    uint64_t bytes; /* of the bytes below */
    uint8_t data[];
};

struct devices {
    _Atomic uint32_t generation; /* pair G */
    _Atomic uint32_t *slots[GENERATIONS];
    struct device_leaf *leaves[TOP_LEAVES];
    _Atomic(struct device_table *) tables[TABLE_BUCKETS];
    _Atomic uint32_t count;
    _Atomic uint64_t bytes;

    struct lock lock; /* below: who registers */
    struct key_block *key_block;
    uint64_t key_used; /* of key_block */
    uint64_t key_bytes;
};

static struct device_entry *entry_of(const struct devices *devices, uint32_t number)
{
    struct device_leaf *leaf = devices->leaves[number / CHUNK_ENTRIES / LEAF_CHUNKS];
    return &leaf->chunks[number / CHUNK_ENTRIES % LEAF_CHUNKS]->entries[number % CHUNK_ENTRIES];
}

uint32_t devices_hash(uint64_t incarnation, const void *key, uint32_t key_bytes)
{
    return (uint32_t)(hash_keyed(key, key_bytes, incarnation * 0x9e3779b97f4a7c15u) >> 32);
}

static void count_bytes(struct devices *devices, uint64_t bytes)
{
    atomic_fetch_add_explicit(&devices->bytes, bytes, memory_order_relaxed); /* a figure alone */
}

int devices_create(struct devices **devices_out)
{
    struct devices *devices = mem_zalloc(sizeof *devices);
    if (devices == NULL) return -ENOMEM;
    devices->slots[0] = mem_zalloc_array(FIRST_SLOTS, sizeof *devices->slots[0]);
    devices->leaves[0] = mem_zalloc(sizeof *devices->leaves[0]);
    if (devices->slots[0] == NULL || devices->leaves[0] == NULL) {
        mem_free((void *)(uintptr_t)devices->slots[0]);
        mem_free(devices->leaves[0]);
        mem_free(devices);
        return -ENOMEM;
    }
    lock_init(&devices->lock, LOCK_RANK_ENGINE);
    *devices_out = devices;
    return 0;
}

void devices_destroy(struct devices *devices)
{
    if (devices == NULL) return;
    for (uint32_t g = 0; g < GENERATIONS; g++)
        mem_free((void *)(uintptr_t)devices->slots[g]);
    for (uint32_t t = 0; t < TOP_LEAVES && devices->leaves[t] != NULL; t++) {
        for (uint32_t c = 0; c < LEAF_CHUNKS; c++)
            mem_free(devices->leaves[t]->chunks[c]);
        mem_free(devices->leaves[t]);
    }
    for (uint32_t b = 0; b < TABLE_BUCKETS; b++) {
        struct device_table *table =
            atomic_load_explicit(&devices->tables[b], memory_order_relaxed);
        while (table != NULL) {
            struct device_table *next = table->next;
            mem_free(table);
            table = next;
        }
    }
    while (devices->key_block != NULL) {
        struct key_block *before = devices->key_block->before;
        mem_free(devices->key_block);
        devices->key_block = before;
    }
    lock_deinit(&devices->lock);
    mem_free(devices);
}

static bool entry_is(const struct device_entry *entry, uint64_t incarnation, const void *key,
                     uint32_t key_bytes)
{
    return entry->incarnation == incarnation && load_u16(entry->key) == key_bytes &&
           (key_bytes == 0 || memcmp(entry->key + KEY_PREFIX, key, key_bytes) == 0);
}

static uint32_t find_hashed(const struct devices *devices, uint32_t hash, uint64_t incarnation,
                            const void *key, uint32_t key_bytes)
{
    /* Pair G, acquire side. A table that is no longer the newest lacks only devices that are being
     * registered beside this call. */
    uint32_t generation = atomic_load_explicit(&devices->generation, memory_order_acquire);
    const _Atomic uint32_t *slots = devices->slots[generation];
    uint32_t log = FIRST_SLOTS_LOG + generation;
    uint32_t mask = (1u << log) - 1;
    for (uint32_t i = hash >> (32 - log);; i = (i + 1) & mask) {
        uint32_t slot = atomic_load_explicit(&slots[i], memory_order_acquire); /* pair D */
        if (slot == 0) return NO_DEVICE;
        if (((slot ^ (hash << log)) & ~mask) != 0) continue;
        uint32_t number = (slot & mask) - 1;
        if (entry_is(entry_of(devices, number), incarnation, key, key_bytes)) return number;
    }
}

uint32_t devices_find(const struct devices *devices, uint64_t incarnation, const void *key,
                      uint32_t key_bytes)
{
    return find_hashed(devices, devices_hash(incarnation, key, key_bytes), incarnation, key,
                       key_bytes);
}

/* ---- registering, all under the lock ---- */

static void put_slot(_Atomic uint32_t *slots, uint32_t log, uint32_t hash, uint32_t number,
                     memory_order order)
{
    uint32_t mask = (1u << log) - 1;
    uint32_t i = hash >> (32 - log);
    while (atomic_load_explicit(&slots[i], memory_order_relaxed) != 0)
        i = (i + 1) & mask;
    atomic_store_explicit(&slots[i], (hash << log) | (number + 1), order);
}

/* Room for one more slot: the next table when three quarters are taken. */
static int reserve_slot(struct devices *devices, uint32_t count)
{
    uint32_t generation = atomic_load_explicit(&devices->generation, memory_order_relaxed);
    uint32_t log = FIRST_SLOTS_LOG + generation;
    if ((uint64_t)count * 4 < 3ull << log) return 0;
    CHECK(generation + 1 < GENERATIONS);
    log++;
    _Atomic uint32_t *slots = mem_zalloc_array((size_t)1 << log, sizeof *slots);
    if (slots == NULL) return -ENOMEM;
    for (uint32_t number = 0; number < count; number++)
        put_slot(slots, log, entry_of(devices, number)->hash, number, memory_order_relaxed);
    devices->slots[generation + 1] = slots;
    count_bytes(devices, ((uint64_t)1 << log) * sizeof *slots);
    /* Pair G, release side. If relaxed, a reader can see g and find no table, or an empty one. */
    atomic_store_explicit(&devices->generation, generation + 1, memory_order_release);
    return 0;
}

/* Makes the way to entry `number` exist. */
static int reserve_entry(struct devices *devices, uint32_t number)
{
    struct device_leaf **leaf = &devices->leaves[number / CHUNK_ENTRIES / LEAF_CHUNKS];
    if (*leaf == NULL) {
        *leaf = mem_zalloc(sizeof **leaf);
        if (*leaf == NULL) return -ENOMEM;
        count_bytes(devices, sizeof **leaf);
    }
    struct device_chunk **chunk = &(*leaf)->chunks[number / CHUNK_ENTRIES % LEAF_CHUNKS];
    if (*chunk == NULL) {
        *chunk = mem_zalloc(sizeof **chunk);
        if (*chunk == NULL) return -ENOMEM;
        count_bytes(devices, sizeof **chunk);
    }
    return 0;
}

/* Blocks grow with what is stored, so that few devices cost little and many waste little. */
static int reserve_key(struct devices *devices, uint32_t key_bytes)
{
    struct key_block *block = devices->key_block;
    if (block != NULL && block->bytes - devices->key_used >= KEY_PREFIX + key_bytes) return 0;
    uint64_t size = KEY_BLOCK_MIN;
    while (size < KEY_BLOCK_MAX && size < devices->key_bytes / 8)
        size *= 2;
    block = mem_alloc(size);
    if (block == NULL) return -ENOMEM;
    block->before = devices->key_block;
    block->bytes = size - sizeof *block;
    devices->key_block = block;
    devices->key_used = 0;
    return 0;
}

static const uint8_t *store_key(struct devices *devices, const void *key, uint32_t key_bytes)
{
    uint8_t *at = devices->key_block->data + devices->key_used;
    store_u16(at, (uint16_t)key_bytes);
    if (key_bytes != 0) memcpy(at + KEY_PREFIX, key, key_bytes);
    devices->key_used += KEY_PREFIX + key_bytes;
    devices->key_bytes += KEY_PREFIX + key_bytes;
    return at;
}

static uint32_t table_bucket(uint64_t incarnation)
{
    return (uint32_t)((incarnation * 0x9e3779b97f4a7c15u) >> 32) % TABLE_BUCKETS;
}

static struct device_table *find_table(const struct devices *devices, uint64_t incarnation)
{
    /* Acquire, paired with the release in reserve_table(): its fields, and those of the tables
     * behind it, were written before it was pushed. */
    struct device_table *table =
        atomic_load_explicit(&devices->tables[table_bucket(incarnation)], memory_order_acquire);
    while (table != NULL && table->incarnation != incarnation)
        table = table->next;
    return table;
}

static struct device_table *reserve_table(struct devices *devices, uint64_t incarnation)
{
    struct device_table *table = find_table(devices, incarnation);
    if (table != NULL) return table;
    table = mem_zalloc(sizeof *table);
    if (table == NULL) return NULL;
    _Atomic(struct device_table *) *bucket = &devices->tables[table_bucket(incarnation)];
    table->next = atomic_load_explicit(bucket, memory_order_relaxed); /* ours: under the lock */
    table->incarnation = incarnation;
    atomic_store_explicit(&table->newest, NO_DEVICE, memory_order_relaxed);
    atomic_store_explicit(bucket, table, memory_order_release); /* see find_table() */
    count_bytes(devices, sizeof *table);
    return table;
}

/* All that can fail comes first; what it has reserved is used by the next device. */
static int register_locked(struct devices *devices, uint32_t hash, uint64_t incarnation,
                           const void *key, uint32_t key_bytes, uint32_t *number_out)
{
    uint32_t number = atomic_load_explicit(&devices->count, memory_order_relaxed); /* ours */
    if (number >= DEVICES_MAX) return -ENOMEM;
    struct device_table *table = reserve_table(devices, incarnation);
    if (table == NULL || reserve_entry(devices, number) != 0 ||
        reserve_key(devices, key_bytes) != 0 || reserve_slot(devices, number) != 0)
        return -ENOMEM;
    *entry_of(devices, number) = (struct device_entry){
        .incarnation = incarnation,
        .key = store_key(devices, key, key_bytes),
        .hash = hash,
        .next = atomic_load_explicit(&table->newest, memory_order_relaxed), /* ours */
    };
    uint32_t of_table = atomic_load_explicit(&table->count, memory_order_relaxed) + 1;
    atomic_store_explicit(&table->count, of_table, memory_order_relaxed); /* released by newest */
    atomic_store_explicit(&table->newest, number, memory_order_release);  /* pair T */
    uint32_t generation = atomic_load_explicit(&devices->generation, memory_order_relaxed);
    /* Pair D, release side. If relaxed, a reader can find a number whose entry is still zeros. */
    put_slot(devices->slots[generation], FIRST_SLOTS_LOG + generation, hash, number,
             memory_order_release);
    atomic_store_explicit(&devices->count, number + 1, memory_order_release);
    *number_out = number;
    return 0;
}

int devices_intern_hashed(struct devices *devices, uint32_t hash, uint64_t incarnation,
                          const void *key, uint32_t key_bytes, uint32_t *number_out)
{
    CHECK(key_bytes <= BATCH_KEY_BYTES_MAX);
    uint32_t number = find_hashed(devices, hash, incarnation, key, key_bytes);
    int rc = 0;
    if (number == NO_DEVICE) {
        lock_acquire(&devices->lock);
        number = find_hashed(devices, hash, incarnation, key, key_bytes);
        if (number == NO_DEVICE)
            rc = register_locked(devices, hash, incarnation, key, key_bytes, &number);
        lock_release(&devices->lock);
    }
    if (rc == 0) *number_out = number;
    return rc;
}

int devices_intern(struct devices *devices, uint64_t incarnation, const void *key,
                   uint32_t key_bytes, uint32_t *number_out)
{
    return devices_intern_hashed(devices, devices_hash(incarnation, key, key_bytes), incarnation,
                                 key, key_bytes, number_out);
}

/* ---- reading ---- */

void devices_key(const struct devices *devices, uint32_t number, uint64_t *incarnation_out,
                 const void **key_out, uint32_t *key_bytes_out)
{
    const struct device_entry *entry = entry_of(devices, number);
    *incarnation_out = entry->incarnation;
    *key_out = entry->key + KEY_PREFIX;
    *key_bytes_out = load_u16(entry->key);
}

uint32_t devices_count(const struct devices *devices)
{
    return atomic_load_explicit(&devices->count, memory_order_acquire);
}

uint64_t devices_bytes(const struct devices *devices)
{
    return atomic_load_explicit(&devices->bytes, memory_order_relaxed);
}

/* The key's first 8 bytes stand beside the number, so that most comparisons need no look at it. */
struct sort_item {
    uint64_t prefix;
    const uint8_t *key;
    uint32_t number;
};

static int compare_items(const void *a, const void *b)
{
    const struct sort_item *x = a, *y = b;
    if (x->prefix != y->prefix) return x->prefix < y->prefix ? -1 : 1;
    return batch_key_compare(x->key + KEY_PREFIX, load_u16(x->key), y->key + KEY_PREFIX,
                             load_u16(y->key));
}

/* Zeros stand in for what a short key lacks; keys that differ in that alone are compared whole. */
static uint64_t prefix_of(const uint8_t *key)
{
    uint8_t first[8] = {0};
    uint32_t bytes = load_u16(key);
    memcpy(first, key + KEY_PREFIX, bytes < sizeof first ? bytes : sizeof first);
    return __builtin_bswap64(load_u64(first));
}

int devices_of_table(const struct devices *devices, uint64_t incarnation, uint32_t **numbers_out,
                     uint32_t *count_out)
{
    const struct device_table *table = find_table(devices, incarnation);
    uint32_t number = NO_DEVICE, room = 0, count = 0;
    if (table != NULL) {
        number = atomic_load_explicit(&table->newest, memory_order_acquire); /* pair T */
        room = atomic_load_explicit(&table->count, memory_order_relaxed);
    }
    struct sort_item *items = mem_zalloc_array((size_t)room + 1, sizeof *items);
    if (items == NULL) return -ENOMEM;
    while (number != NO_DEVICE) {
        const struct device_entry *entry = entry_of(devices, number);
        CHECK(count < room);
        items[count++] = (struct sort_item){
            .prefix = prefix_of(entry->key), .key = entry->key, .number = number};
        number = entry->next;
    }
    qsort(items, count, sizeof *items, compare_items);
    uint32_t *numbers = mem_zalloc_array((size_t)count + 1, sizeof *numbers);
    if (numbers == NULL) {
        mem_free(items);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = items[i].number;
    mem_free(items);
    *numbers_out = numbers;
    *count_out = count;
    return 0;
}
