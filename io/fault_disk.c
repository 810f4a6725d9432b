#include "io/fault_disk.h"

#include <stdlib.h>
#include <string.h>

uint64_t fault_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* ---- shared bytes ---- */

struct shared *shared_bytes(const void *data, size_t bytes)
{
    bool zero = fault_is_zero(data, bytes);
    struct shared *s = fault_alloc(1, sizeof *s + (zero ? 0 : bytes));
    atomic_init(&s->refs, 1);
    s->zero = zero;
    s->bytes = bytes;
    if (!zero) memcpy(s->data, data, bytes);
    return s;
}

struct shared *shared_text(const char *text)
{
    size_t bytes = strlen(text) + 1;
    struct shared *s = fault_alloc(1, sizeof *s + bytes);
    atomic_init(&s->refs, 1);
    s->bytes = bytes;
    memcpy(s->data, text, bytes);
    return s;
}

struct shared *shared_ref(struct shared *s)
{
    /* Relaxed: who takes a reference holds one. */
    if (s != NULL) (void)atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void shared_put(struct shared *s)
{
    /* Acquire and release pair with each other: the last one frees after all others' reads. */
    if (s != NULL && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) free(s);
}

void event_deinit(struct event *e)
{
    shared_put(e->data);
    shared_put(e->path);
    shared_put(e->name);
    shared_put(e->name_from);
}

/* Room for one more element of an array that doubles. */
static void *room_for_one(void *array, size_t count, size_t *room, size_t bytes)
{
    if (count < *room) return array;
    *room = *room == 0 ? 8 : *room * 2;
    return fault_grow(array, *room, bytes);
}

/* ---- names ---- */

struct name_entry *names_find(const struct names *names, uint32_t dir, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (names->entries[i].dir == dir && strcmp(shared_str(names->entries[i].name), name) == 0)
            return &names->entries[i];
    return NULL;
}

void names_set(struct names *names, uint32_t dir, struct shared *name, uint32_t node)
{
    struct name_entry *entry = names_find(names, dir, shared_str(name));
    if (entry != NULL) {
        entry->node = node;
        return;
    }
    names->entries =
        room_for_one(names->entries, names->count, &names->room, sizeof names->entries[0]);
    names->entries[names->count++] =
        (struct name_entry){.dir = dir, .node = node, .name = shared_ref(name)};
}

void names_remove(struct names *names, uint32_t dir, const char *name)
{
    struct name_entry *entry = names_find(names, dir, name);
    if (entry == NULL) return;
    CHECK(names->entries != NULL && names->count > 0); /* it was found there */
    shared_put(entry->name);
    *entry = names->entries[--names->count];
}

void names_copy(struct names *to, const struct names *from)
{
    *to = (struct names){.count = from->count, .room = from->count};
    if (from->count == 0) return;
    to->entries = fault_alloc(from->count, sizeof to->entries[0]);
    for (size_t i = 0; i < from->count; i++) {
        to->entries[i] = from->entries[i];
        (void)shared_ref(to->entries[i].name);
    }
}

void names_deinit(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        shared_put(names->entries[i].name);
    free(names->entries);
    *names = (struct names){0};
}

/* ---- nodes ---- */

static struct disk_node *new_node(bool is_dir)
{
    struct disk_node *node = fault_alloc(1, sizeof *node);
    atomic_init(&node->refs, 1);
    node->is_dir = is_dir;
    return node;
}

static void put_node(struct disk_node *node)
{
    if (node == NULL) return;
    /* As in shared_put. */
    if (atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) != 1) return;
    for (size_t i = 0; i < node->count; i++)
        shared_put(node->changes[i].data);
    free(node->changes);
    image_deinit(&node->durable);
    free(node);
}

/* The node, made this disk's own; NULL when it is gone. */
static struct disk_node *own_node(struct disk *disk, uint32_t id)
{
    CHECK(id < disk->node_count);
    struct disk_node *node = disk->nodes[id];
    /* Acquire pairs with the release in put_node: others are done with it before we write. */
    if (node == NULL || atomic_load_explicit(&node->refs, memory_order_acquire) == 1) return node;
    struct disk_node *own = new_node(node->is_dir);
    image_copy(&own->durable, &node->durable);
    if (node->count > 0) {
        own->changes = fault_alloc(node->count, sizeof own->changes[0]);
        own->count = own->room = node->count;
        for (size_t i = 0; i < node->count; i++) {
            own->changes[i] = node->changes[i];
            (void)shared_ref(own->changes[i].data);
        }
    }
    put_node(node);
    disk->nodes[id] = own;
    return own;
}

static void set_node(struct disk *disk, uint32_t id, struct disk_node *node)
{
    while (disk->node_count <= id) {
        disk->nodes = room_for_one(disk->nodes, disk->node_count, &disk->node_room,
                                   sizeof(struct disk_node *));
        disk->nodes[disk->node_count++] = NULL;
    }
    CHECK(disk->nodes[id] == NULL);
    disk->nodes[id] = node;
}

/* ---- changes of a file ---- */

#define NO_OP UINT64_MAX /* of a change that no completion will ask for */

static bool changes_meet(const struct change *a, const struct change *b)
{
    if (a->is_size || b->is_size) return true;
    return a->start < b->end && b->start < a->end;
}

/* Applies the part of a change from..to (whole sectors of it) to an image. */
static void apply_part(struct image *image, const struct change *change, uint64_t from, uint64_t to)
{
    if (change->is_size) {
        image_resize(image, change->end);
        return;
    }
    const struct shared *data = change->data;
    image_write(image, from, data->zero ? NULL : data->data + (from - change->start), to - from);
    uint64_t reach = to < change->file_end ? to : change->file_end;
    if (image->bytes < reach) image->bytes = reach;
}

/* Takes a change out of the list; its data is the caller's. */
static struct change take_change(struct disk_node *node, size_t at)
{
    struct change change = node->changes[at];
    node->count--;
    memmove(&node->changes[at], &node->changes[at + 1],
            (node->count - at) * sizeof node->changes[0]);
    return change;
}

/* Moves durable changes into the durable image, each once no older change that stays meets it. */
static void fold_changes(struct disk_node *node)
{
    size_t kept = 0;
    for (size_t i = 0; i < node->count; i++) {
        struct change change = node->changes[i];
        bool fold = change.state == CHANGE_DURABLE;
        for (size_t older = 0; older < kept && fold; older++)
            fold = !changes_meet(&node->changes[older], &change);
        if (!fold) {
            node->changes[kept++] = change;
            continue;
        }
        apply_part(&node->durable, &change, change.start, change.end);
        shared_put(change.data);
    }
    node->count = kept;
}

/* What is older, done, and covered whole by a durable write can't show any more. */
static void drop_covered(struct disk_node *node, size_t at)
{
    const struct change cover = node->changes[at];
    for (size_t older = at; older-- > 0;) {
        const struct change *change = &node->changes[older];
        if (change->is_size || change->file_end > cover.file_end) continue;
        if (change->start >= cover.start && change->end <= cover.end)
            shared_put(take_change(node, older).data);
    }
}

static void add_change(struct disk_node *node, size_t at, struct change change)
{
    node->changes = room_for_one(node->changes, node->count, &node->room, sizeof node->changes[0]);
    memmove(&node->changes[at + 1], &node->changes[at],
            (node->count - at) * sizeof node->changes[0]);
    node->changes[at] = change;
    node->count++;
}

/* Where the changes that are done end, and those in flight begin. */
static size_t done_end(const struct disk_node *node)
{
    size_t at = node->count;
    while (at > 0 && node->changes[at - 1].state == CHANGE_IN_FLIGHT)
        at--;
    return at;
}

static void write_submitted(struct disk *disk, const struct event *e, uint64_t index)
{
    struct disk_node *node = own_node(disk, e->node);
    if (node == NULL) return;
    add_change(node, node->count,
               (struct change){
                   .event = index,
                   .op = e->op,
                   .state = CHANGE_IN_FLIGHT,
                   .dsync = (e->flags & IO_DSYNC) != 0,
                   .start = e->data_start,
                   .end = e->data_start + e->data->bytes,
                   .file_end = e->offset + e->bytes,
                   .data = shared_ref(e->data),
               });
}

static void write_completed(struct disk *disk, const struct event *e)
{
    struct disk_node *node = own_node(disk, e->node);
    if (node == NULL) return;
    size_t at = 0; /* a change of size has no op of its own: only writes are in flight */
    while (at < node->count &&
           (node->changes[at].state != CHANGE_IN_FLIGHT || node->changes[at].op != e->op))
        at++;
    CHECK(at < node->count);
    struct change change = take_change(node, at);
    if (e->result <= 0) {
        shared_put(change.data);
        return;
    }
    if (e->data != NULL) { /* short: less than was in flight is done */
        shared_put(change.data);
        change.data = shared_ref(e->data);
        change.end = change.start + e->data->bytes;
        change.file_end = e->offset + (uint64_t)e->result;
        change.dsync = false;
    }
    change.state = change.dsync ? CHANGE_DURABLE : CHANGE_DONE;
    change.done_order = disk->done_order++;
    size_t to = done_end(node);
    add_change(node, to, change);
    if (!change.dsync) return;
    drop_covered(node, to);
    fold_changes(node);
}

static void truncated(struct disk *disk, const struct event *e, uint64_t index)
{
    struct disk_node *node = own_node(disk, e->node);
    if (node == NULL) return;
    add_change(node, done_end(node),
               (struct change){
                   .event = index,
                   .op = NO_OP,
                   .state = CHANGE_DONE,
                   .done_order = disk->done_order++,
                   .is_size = true,
                   .end = e->offset,
               });
}

static void sync_submitted(struct disk *disk, const struct event *e)
{
    disk->syncs =
        room_for_one(disk->syncs, disk->sync_count, &disk->sync_room, sizeof disk->syncs[0]);
    disk->syncs[disk->sync_count++] = (struct disk_sync){.op = e->op, .order = disk->done_order};
}

static void sync_completed(struct disk *disk, const struct event *e)
{
    size_t at = 0;
    while (at < disk->sync_count && disk->syncs[at].op != e->op)
        at++;
    CHECK(at < disk->sync_count);
    uint64_t order = disk->syncs[at].order;
    disk->syncs[at] = disk->syncs[--disk->sync_count];
    struct disk_node *node = own_node(disk, e->node);
    if (node == NULL) return;
    for (size_t i = 0; i < node->count; i++) {
        struct change *change = &node->changes[i];
        if (change->state == CHANGE_DONE && change->done_order < order)
            change->state = e->result == 0 ? CHANGE_DURABLE : CHANGE_DOOMED;
    }
    fold_changes(node);
}

/* ---- changes of names ---- */

static void apply_name(struct names *names, const struct name_change *change)
{
    if (change->op == NAME_UNLINK) {
        names_remove(names, change->dir, shared_str(change->name));
        return;
    }
    if (change->op == NAME_RENAME) {
        const struct name_entry *from =
            names_find(names, change->dir_from, shared_str(change->name_from));
        if (from != NULL && from->node == change->node)
            names_remove(names, change->dir_from, shared_str(change->name_from));
    }
    names_set(names, change->dir, change->name, change->node);
}

static void name_changed(struct disk *disk, const struct event *e, uint64_t index)
{
    if (e->name_op == NAME_LINK) set_node(disk, e->node, new_node(e->is_dir));
    disk->name_changes = room_for_one(disk->name_changes, disk->name_count, &disk->name_room,
                                      sizeof disk->name_changes[0]);
    disk->name_changes[disk->name_count++] = (struct name_change){
        .event = index,
        .op = e->name_op,
        .dir = e->dir,
        .dir_from = e->dir_from,
        .node = e->node,
        .name = shared_ref(e->name),
        .name_from = shared_ref(e->name_from),
        .wants_dir = true,
        .wants_dir_from = e->name_op == NAME_RENAME && e->dir_from != e->dir,
    };
}

static void put_name_change(struct name_change *change)
{
    shared_put(change->name);
    shared_put(change->name_from);
}

static bool is_durable_name(const struct name_change *change)
{
    return !change->wants_dir && !change->wants_dir_from;
}

/* Frees the nodes that nothing durable or pending names any more. */
static void drop_unnamed(struct disk *disk)
{
    unsigned char *named = fault_alloc(disk->node_count, 1);
    named[FAULT_ROOT] = 1;
    for (size_t i = 0; i < disk->names.count; i++)
        named[disk->names.entries[i].node] = 1;
    for (size_t i = 0; i < disk->name_count; i++)
        named[disk->name_changes[i].node] = 1;
    for (size_t id = 0; id < disk->node_count; id++) {
        if (named[id] != 0) continue;
        put_node(disk->nodes[id]);
        disk->nodes[id] = NULL;
    }
    free(named);
}

static void dir_synced(struct disk *disk, const struct event *e)
{
    for (size_t i = 0; i < disk->name_count; i++) {
        struct name_change *change = &disk->name_changes[i];
        if (change->dir == e->node) change->wants_dir = false;
        if (change->dir_from == e->node) change->wants_dir_from = false;
    }
    size_t durable = 0; /* in order: a later change may stand on one that is not durable */
    while (durable < disk->name_count && is_durable_name(&disk->name_changes[durable])) {
        apply_name(&disk->names, &disk->name_changes[durable]);
        put_name_change(&disk->name_changes[durable]);
        durable++;
    }
    if (durable == 0) return;
    disk->name_count -= durable;
    memmove(disk->name_changes, disk->name_changes + durable,
            disk->name_count * sizeof disk->name_changes[0]);
    drop_unnamed(disk);
}

/* ---- disks ---- */

void disk_init(struct disk *disk)
{
    *disk = (struct disk){0};
    set_node(disk, FAULT_ROOT, new_node(true));
}

void disk_deinit(struct disk *disk)
{
    for (size_t i = 0; i < disk->node_count; i++)
        put_node(disk->nodes[i]);
    free(disk->nodes);
    names_deinit(&disk->names);
    for (size_t i = 0; i < disk->name_count; i++)
        put_name_change(&disk->name_changes[i]);
    free(disk->name_changes);
    free(disk->syncs);
    *disk = (struct disk){0};
}

static void copy_nodes(struct disk *to, const struct disk *from)
{
    to->node_count = to->node_room = from->node_count;
    to->nodes = fault_alloc(from->node_count, sizeof(struct disk_node *));
    for (size_t i = 0; i < from->node_count; i++) {
        to->nodes[i] = from->nodes[i];
        /* Relaxed: from holds one reference. */
        if (to->nodes[i] != NULL)
            (void)atomic_fetch_add_explicit(&to->nodes[i]->refs, 1, memory_order_relaxed);
    }
}

void disk_copy(struct disk *to, const struct disk *from)
{
    *to = (struct disk){.done_order = from->done_order};
    copy_nodes(to, from);
    names_copy(&to->names, &from->names);
    to->name_count = to->name_room = from->name_count;
    if (from->name_count > 0)
        to->name_changes = fault_alloc(from->name_count, sizeof to->name_changes[0]);
    for (size_t i = 0; i < from->name_count; i++) {
        to->name_changes[i] = from->name_changes[i];
        (void)shared_ref(to->name_changes[i].name);
        (void)shared_ref(to->name_changes[i].name_from);
    }
    to->sync_count = to->sync_room = from->sync_count;
    if (from->sync_count == 0) return;
    to->syncs = fault_alloc(from->sync_count, sizeof to->syncs[0]);
    memcpy(to->syncs, from->syncs, from->sync_count * sizeof to->syncs[0]);
}

void disk_apply(struct disk *disk, const struct event *event, uint64_t index)
{
    switch (event->kind) {
    case FAULT_EVENT_WRITE_SUBMITTED: write_submitted(disk, event, index); break;
    case FAULT_EVENT_WRITE_COMPLETED: write_completed(disk, event); break;
    case FAULT_EVENT_SYNC_SUBMITTED: sync_submitted(disk, event); break;
    case FAULT_EVENT_SYNC_COMPLETED: sync_completed(disk, event); break;
    case FAULT_EVENT_TRUNCATE: truncated(disk, event, index); break;
    case FAULT_EVENT_NAME: name_changed(disk, event, index); break;
    case FAULT_EVENT_SYNC_DIR: dir_synced(disk, event); break;
    case FAULT_EVENT_MARK: break;
    }
}

/* ---- crashes ---- */

/* A change that is not durable, with the fates of its parts. */
struct open_change {
    uint64_t event;
    const struct change *change; /* NULL: a name */
    enum fault_fate *fates;      /* one for each block that it touches */
    uint64_t index;              /* of the first of them */
};

struct crash {
    struct open_change *open;
    size_t count, room;
    uint32_t block_bytes;
    uint64_t tear_seed;
};

static void note_open(struct crash *crash, uint64_t event, const struct change *change)
{
    crash->open = room_for_one(crash->open, crash->count, &crash->room, sizeof crash->open[0]);
    crash->open[crash->count++] = (struct open_change){.event = event, .change = change};
}

static int by_event(const void *a, const void *b)
{
    uint64_t x = ((const struct open_change *)a)->event, y = ((const struct open_change *)b)->event;
    return (x > y) - (x < y);
}

static uint64_t part_count(const struct crash *crash, const struct open_change *open)
{
    const struct change *change = open->change;
    if (change == NULL || change->is_size) return 1;
    return (change->end - 1) / crash->block_bytes - change->start / crash->block_bytes + 1;
}

static uint64_t ask(struct crash *crash, fault_choice *choice, void *ctx)
{
    uint64_t asked = 0;
    if (crash->count > 1) qsort(crash->open, crash->count, sizeof crash->open[0], by_event);
    for (size_t i = 0; i < crash->count; i++) {
        struct open_change *open = &crash->open[i];
        uint64_t parts = part_count(crash, open);
        open->fates = fault_alloc(parts, sizeof open->fates[0]);
        open->index = asked;
        for (uint64_t part = 0; part < parts; part++)
            open->fates[part] = choice(ctx, asked++, open->change == NULL);
    }
    return asked;
}

/* Keeps some sectors of a block and drops others; a single sector is not torn, only kept or not. */
static void apply_torn(const struct crash *crash, struct image *image, const struct change *change,
                       uint64_t from, uint64_t to, uint64_t index)
{
    uint64_t sectors = (to - from) / FAULT_SECTOR_BYTES;
    uint64_t random = fault_mix(crash->tear_seed ^ fault_mix(index));
    uint64_t kept_always = random % sectors, dropped_always = sectors; /* none, of a single one */
    if (sectors > 1) dropped_always = (kept_always + 1 + (random >> 16) % (sectors - 1)) % sectors;
    for (uint64_t i = 0; i < sectors; i++) {
        bool keep = (fault_mix(random + i) & 1) != 0;
        if (sectors > 1 && i == kept_always) keep = true;
        if (i == dropped_always) keep = false;
        uint64_t at = from + i * FAULT_SECTOR_BYTES;
        if (keep) apply_part(image, change, at, at + FAULT_SECTOR_BYTES);
    }
}

static void apply_fates(const struct crash *crash, struct image *image,
                        const struct open_change *open)
{
    const struct change *change = open->change;
    if (change->is_size) {
        if (open->fates[0] == FAULT_KEEP) apply_part(image, change, 0, 0);
        return;
    }
    uint64_t from = change->start;
    for (uint64_t part = 0; from < change->end; part++) {
        uint64_t to = (from / crash->block_bytes + 1) * crash->block_bytes;
        if (to > change->end) to = change->end;
        if (open->fates[part] == FAULT_KEEP)
            apply_part(image, change, from, to);
        else if (open->fates[part] == FAULT_TEAR)
            apply_torn(crash, image, change, from, to, open->index + part);
        from = to;
    }
}

static const struct open_change *find_open(const struct crash *crash, const struct change *change)
{
    size_t low = 0, high = crash->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (crash->open[middle].event < change->event)
            low = middle + 1;
        else
            high = middle;
    }
    CHECK(low < crash->count && crash->open[low].change == change);
    return &crash->open[low];
}

/* A node as the crash leaves it. */
static struct disk_node *crash_node(const struct crash *crash, const struct disk_node *from)
{
    struct disk_node *node = new_node(from->is_dir);
    image_copy(&node->durable, &from->durable);
    for (size_t i = 0; i < from->count; i++) {
        const struct change *change = &from->changes[i];
        if (change->state == CHANGE_DURABLE)
            apply_part(&node->durable, change, change->start, change->end);
        else
            apply_fates(crash, &node->durable, find_open(crash, change));
    }
    return node;
}

static void crash_names(const struct crash *crash, struct disk *to, const struct disk *from)
{
    names_copy(&to->names, &from->names);
    size_t at = 0; /* open names are in the order of events in both lists */
    for (size_t i = 0; i < from->name_count; i++) {
        const struct name_change *change = &from->name_changes[i];
        bool keep = is_durable_name(change);
        if (!keep) {
            while (crash->open[at].change != NULL)
                at++;
            keep = crash->open[at++].fates[0] == FAULT_KEEP;
        }
        if (keep) apply_name(&to->names, change);
    }
}

uint64_t disk_crash(struct disk *to, const struct disk *from, uint32_t block_bytes,
                    fault_choice *choice, void *ctx, uint64_t tear_seed)
{
    struct crash crash = {.block_bytes = block_bytes, .tear_seed = tear_seed};
    for (size_t id = 0; id < from->node_count; id++) {
        const struct disk_node *node = from->nodes[id];
        for (size_t i = 0; node != NULL && i < node->count; i++)
            if (node->changes[i].state != CHANGE_DURABLE)
                note_open(&crash, node->changes[i].event, &node->changes[i]);
    }
    for (size_t i = 0; i < from->name_count; i++)
        if (!is_durable_name(&from->name_changes[i]))
            note_open(&crash, from->name_changes[i].event, NULL);
    uint64_t asked = ask(&crash, choice, ctx);

    *to = (struct disk){0};
    crash_names(&crash, to, from);
    copy_nodes(to, from);
    for (size_t id = 0; id < to->node_count; id++) {
        if (to->nodes[id] == NULL || to->nodes[id]->count == 0) continue;
        struct disk_node *node = crash_node(&crash, from->nodes[id]);
        put_node(to->nodes[id]);
        to->nodes[id] = node;
    }
    drop_unnamed(to);
    for (size_t i = 0; i < crash.count; i++)
        free(crash.open[i].fates);
    free(crash.open);
    return asked;
}
