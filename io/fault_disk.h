/* What a power failure would find: the durable side of the fault double.
 *
 * A disk is fed the events of a trace, one at a time and in order, and knows at each point what is
 * durable for certain and what is not:
 *   a write       in flight from its submission, done from its completion; durable at its
 *                 completion when it carried IO_DSYNC, else at the completion of a sync that was
 *                 submitted after it was done. A sync that fails makes nothing durable, and what
 *                 it was to cover is not covered by a later one either: the kernel may have
 *                 dropped it.
 *   a new size    as a write that is done at once.
 *   a name        durable at the sync of its directory; a rename, of both of its directories.
 * Changes of one file come in order of completion, then those in flight; a crash applies the ones
 * that are durable or kept in this order.
 *
 * Thread: none of its own; the environment's lock covers it. */
#ifndef RF_IO_FAULT_DISK_H
#define RF_IO_FAULT_DISK_H

#include "io/fault.h"
#include "io/fault_image.h"

#include <stdatomic.h>

#define FAULT_SECTOR_BYTES 512u /* written whole or not at all */
#define FAULT_ROOT         0u   /* the node of the root directory */

/* Bytes or a name, shared by the trace and any number of disks. */
struct shared {
    _Atomic uint32_t refs;
    bool zero; /* all of it is zero, and data is not there */
    size_t bytes;
    unsigned char data[];
};
struct shared *shared_bytes(const void *data, size_t bytes);
struct shared *shared_text(const char *text);
struct shared *shared_ref(struct shared *s); /* NULL stays NULL */
void shared_put(struct shared *s);           /* NULL is allowed */
static inline const char *shared_str(const struct shared *s)
{
    return (const char *)s->data;
}

enum name_op { NAME_LINK, NAME_UNLINK, NAME_RENAME };

/* One entry of the trace, and what a disk is fed. */
struct event {
    enum fault_event_kind kind;
    uint64_t op;         /* joins submission and completion */
    uint32_t node;       /* the file; of a name, what it names; of SYNC_DIR, the directory */
    unsigned flags;      /* IO_DSYNC */
    int32_t result;      /* of a completion */
    uint64_t offset;     /* as asked; of TRUNCATE, the new size */
    uint64_t bytes;      /* as asked */
    uint64_t data_start; /* of data: offset rounded down to a sector */
    struct shared *data; /* whole sectors, as they are after the write. A completion that came back
                            short has its own */
    struct shared *path; /* for people */
    enum name_op name_op;
    bool is_dir;                     /* NAME_LINK: what was made */
    uint32_t dir, dir_from;          /* of a name */
    struct shared *name, *name_from; /* name_from: of a rename */
    uint64_t mark;
};
void event_deinit(struct event *e);

/* ---- names ---- */

struct names {
    struct name_entry {
        uint32_t dir, node;
        struct shared *name;
    } * entries;
    size_t count, room;
};
/* NULL: no such name. Until the next change of the names. */
struct name_entry *names_find(const struct names *names, uint32_t dir, const char *name);
void names_set(struct names *names, uint32_t dir, struct shared *name, uint32_t node);
void names_remove(struct names *names, uint32_t dir, const char *name);
void names_copy(struct names *to, const struct names *from);
void names_deinit(struct names *names);

/* ---- disks ---- */

enum change_state { CHANGE_IN_FLIGHT, CHANGE_DONE, CHANGE_DOOMED, CHANGE_DURABLE };
struct change {     /* of one file's bytes, not in its durable image yet */
    uint64_t event; /* the one that submitted it */
    uint64_t op;
    uint64_t done_order; /* counts completions; of a change that is done */
    enum change_state state;
    bool is_size;
    bool dsync;
    uint64_t start, end; /* of data: whole sectors. is_size: end is the new size */
    uint64_t file_end;   /* where the write ended in truth: the size that it makes at least */
    struct shared *data;
};

struct disk_node { /* shared between disks until one of them changes it */
    _Atomic uint32_t refs;
    bool is_dir;
    struct image durable;
    struct change *changes;
    size_t count, room;
};

struct name_change {
    uint64_t event;
    enum name_op op;
    uint32_t dir, dir_from, node;
    struct shared *name, *name_from;
    bool wants_dir, wants_dir_from; /* syncs that are still to come */
};

struct disk_sync { /* one in flight */
    uint64_t op;
    uint64_t order; /* done changes below it are covered */
};

struct disk {
    struct disk_node **nodes; /* NULL: gone, no name leads to it */
    size_t node_count, node_room;
    struct names names;
    struct name_change *name_changes;
    size_t name_count, name_room;
    struct disk_sync *syncs;
    size_t sync_count, sync_room;
    uint64_t done_order;
};

void disk_init(struct disk *disk); /* with an empty root, durable */
void disk_deinit(struct disk *disk);
void disk_copy(struct disk *to, const struct disk *from);
void disk_apply(struct disk *disk, const struct event *event, uint64_t index);

/* Makes *to what a crash of from leaves, all of it durable. Returns how many things were not
 * durable, each of which was asked for. tear_seed: which sectors a torn block keeps. */
uint64_t disk_crash(struct disk *to, const struct disk *from, uint32_t block_bytes,
                    fault_choice *choice, void *ctx, uint64_t tear_seed);

uint64_t fault_mix(uint64_t x); /* a well-mixed function of x: SplitMix64's last step */

#endif
