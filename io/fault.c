#include "io/fault_impl.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- environments ---- */

static struct shared *join_path(const struct fault_env *env, uint32_t dir, const char *name)
{
    if (dir == FAULT_ROOT) return shared_text(name);
    char path[PATH_MAX];
    int bytes = snprintf(path, sizeof path, "%s/%s", shared_str(env->nodes[dir].path), name);
    CHECK(bytes > 0 && (size_t)bytes < sizeof path); /* both came in one path */
    return shared_text(path);
}

/* Gives every node below dir that has a name its path and its link. */
static void adopt_names(struct fault_env *env, uint32_t dir)
{
    for (size_t i = 0; i < env->names.count; i++) {
        const struct name_entry *entry = &env->names.entries[i];
        if (entry->dir != dir) continue;
        struct fault_node *node = &env->nodes[entry->node];
        shared_put(node->path); /* a crash may leave a file with two names */
        node->path = join_path(env, dir, shared_str(entry->name));
        node->links++;
        if (node->is_dir && node->links == 1) adopt_names(env, entry->node);
    }
}

static void free_node(struct fault_node *node)
{
    image_deinit(&node->image);
    shared_put(node->path);
    *node = (struct fault_node){0};
}

/* The volatile side as the durable one is. */
static void load_disk(struct fault_env *env)
{
    names_copy(&env->names, &env->disk.names);
    env->node_count = (uint32_t)env->disk.node_count;
    env->node_room = env->node_count;
    env->nodes = fault_alloc(env->node_count, sizeof env->nodes[0]);
    for (uint32_t id = 0; id < env->node_count; id++) {
        const struct disk_node *from = env->disk.nodes[id];
        if (from == NULL) continue;
        env->nodes[id].is_dir = from->is_dir;
        image_copy(&env->nodes[id].image, &from->durable);
    }
    env->nodes[FAULT_ROOT].path = shared_text(".");
    env->nodes[FAULT_ROOT].links = 1;
    adopt_names(env, FAULT_ROOT);
    for (uint32_t id = 0; id < env->node_count; id++)
        if (env->nodes[id].links == 0) free_node(&env->nodes[id]);
}

void fault_unload(struct fault_env *env)
{
    names_deinit(&env->names);
    for (uint32_t id = 0; id < env->node_count; id++)
        free_node(&env->nodes[id]);
    free(env->nodes);
}

struct fault_env *fault_env_make(const struct fault_options *options, struct disk *disk)
{
    struct fault_env *env = fault_alloc(1, sizeof *env);
    io_env_init(&env->base, &fault_ops);
    lock_init(&env->lock, LOCK_RANK_IO);
    env->options = *options;
    if (env->options.block_bytes == 0) env->options.block_bytes = 4096;
    CHECK(env->options.block_bytes % FAULT_SECTOR_BYTES == 0);
    env->random = env->options.seed;
    env->space = UINT64_MAX;
    env->disk = *disk;
    *disk = (struct disk){0};
    load_disk(env);
    if (env->options.record) disk_copy(&env->start, &env->disk);
    return env;
}

int fault_env_open(const struct fault_options *options, struct io_env **env_out)
{
    struct disk disk;
    disk_init(&disk);
    *env_out = &fault_env_make(options, &disk)->base;
    return 0;
}

static void fault_env_close(struct io_env *base)
{
    struct fault_env *env = fault_env_of(base);
    CHECK(env->open_files == 0 && env->queues == NULL);
    fault_trace_free(env);
    disk_deinit(&env->disk);
    fault_unload(env);
    lock_deinit(&env->lock);
    base->magic = 0;
    free(env);
}

static struct fault_file *file_of(struct io_file *file)
{
    return (struct fault_file *)file;
}

/* ---- rules ---- */

int fault_add(struct io_env *base, const struct fault_rule *rule)
{
    struct fault_env *env = fault_env_of(base);
    CHECK(rule->kind != FAULT_ERROR || rule->error > 0);
    lock_acquire(&env->lock);
    int rc = env->rule_count < FAULT_RULES_MAX ? 0 : -ENOSPC;
    if (rc == 0) env->rules[env->rule_count++] = (struct fault_rule_state){.rule = *rule};
    lock_release(&env->lock);
    return rc;
}

void fault_clear(struct io_env *base)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    env->rule_count = 0;
    lock_release(&env->lock);
}

uint64_t fault_operations(struct io_env *base, unsigned targets)
{
    struct fault_env *env = fault_env_of(base);
    uint64_t sum = 0;
    lock_acquire(&env->lock);
    for (unsigned bit = 0; bit < FAULT_TARGETS; bit++)
        if ((targets & 1u << bit) != 0) sum += env->operations[bit];
    lock_release(&env->lock);
    return sum;
}

void fault_set_space(struct io_env *base, uint64_t bytes)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    env->space = bytes;
    lock_release(&env->lock);
}

void fault_release(struct io_env *base)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    fault_release_queues_locked(env);
    env->releases++;
    lock_release(&env->lock);
}

static bool rule_names(const struct fault_rule *rule, const char *path)
{
    return path != NULL && strstr(path, rule->path) != NULL;
}

struct fault_verdict fault_judge_locked(struct fault_env *env, enum fault_target target,
                                        const char *path, const char *other_path)
{
    env->operations[__builtin_ctz(target)]++;
    struct fault_verdict verdict = {0};
    for (uint32_t i = 0; i < env->rule_count; i++) {
        struct fault_rule_state *state = &env->rules[i];
        const struct fault_rule *rule = &state->rule;
        if ((rule->targets & target) == 0 || state->used >= rule->times) continue;
        if (rule->path != NULL && !rule_names(rule, path) && !rule_names(rule, other_path))
            continue;
        if (state->passed < rule->skip) {
            state->passed++;
            break;
        }
        state->used++;
        switch (rule->kind) {
        case FAULT_ERROR: verdict.error = -rule->error; break;
        case FAULT_SHORT:
            verdict.is_short = true;
            verdict.short_bytes = rule->short_bytes;
            verdict.short_error = rule->error == 0 ? -ENOSPC : -rule->error;
            break;
        case FAULT_HANG: verdict.delay = verdict.hang = true; break;
        case FAULT_DELAY: verdict.delay = true; break;
        }
        break;
    }
    return verdict;
}

/* For what is no queue's request: a call that hangs holds its thread here. */
static struct fault_verdict judge_call_locked(struct fault_env *env, enum fault_target target,
                                              const char *path, const char *other_path)
{
    struct fault_verdict verdict = fault_judge_locked(env, target, path, other_path);
    uint64_t before = env->releases;
    while (verdict.hang && env->releases == before) {
        lock_release(&env->lock);
        const struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
        lock_acquire(&env->lock);
    }
    return verdict;
}

static const char *node_path(const struct fault_env *env, uint32_t node)
{
    return shared_str(env->nodes[node].path);
}

/* ---- paths ---- */

/* Walks to the directory of the last component and gives that component, or "" for the root. */
static int64_t walk(struct fault_env *env, const char *path, char *last)
{
    uint32_t dir = FAULT_ROOT;
    last[0] = '\0';
    for (;;) {
        path += strspn(path, "/");
        size_t bytes = strcspn(path, "/");
        if (bytes == 0) return dir;
        if (bytes > NAME_MAX) return -ENAMETOOLONG;
        if ((bytes == 1 && path[0] == '.') || (bytes == 2 && memcmp(path, "..", 2) == 0)) {
            if (dir != FAULT_ROOT || last[0] != '\0') return -EINVAL; /* nobody needs more */
            path += bytes;
            continue;
        }
        if (last[0] != '\0') {
            const struct name_entry *entry = names_find(&env->names, dir, last);
            if (entry == NULL) return -ENOENT;
            dir = entry->node;
            if (!env->nodes[dir].is_dir) return -ENOTDIR;
        }
        memcpy(last, path, bytes);
        last[bytes] = '\0';
        path += bytes;
    }
}

int64_t fault_find_locked(struct fault_env *env, const char *path)
{
    char last[NAME_MAX + 1];
    int64_t dir = walk(env, path, last);
    if (dir < 0 || last[0] == '\0') return dir;
    const struct name_entry *entry = names_find(&env->names, (uint32_t)dir, last);
    return entry == NULL ? -ENOENT : (int64_t)entry->node;
}

static int64_t find_dir(struct fault_env *env, const char *path)
{
    int64_t node = fault_find_locked(env, path);
    return node >= 0 && !env->nodes[node].is_dir ? -ENOTDIR : node;
}

/* Makes a file or directory and its name. */
static uint32_t make_node(struct fault_env *env, uint32_t dir, const char *name, bool is_dir)
{
    if (env->node_count == env->node_room) {
        env->node_room = env->node_room * 2 + 8;
        env->nodes = fault_grow(env->nodes, env->node_room, sizeof env->nodes[0]);
    }
    uint32_t id = env->node_count++;
    struct shared *path = join_path(env, dir, name), *text = shared_text(name);
    env->nodes[id] = (struct fault_node){.is_dir = is_dir, .links = 1, .path = path};
    names_set(&env->names, dir, text, id);
    fault_emit_locked(env, (struct event){
                               .kind = FAULT_EVENT_NAME,
                               .name_op = NAME_LINK,
                               .node = id,
                               .is_dir = is_dir,
                               .dir = dir,
                               .name = text,
                               .path = shared_ref(path),
                           });
    return id;
}

static void give_back(struct fault_env *env, uint64_t bytes)
{
    if (env->space != UINT64_MAX) env->space += bytes;
}

/* Ends a node that has neither name nor descriptor. */
static void drop_if_unused(struct fault_env *env, uint32_t id)
{
    struct fault_node *node = &env->nodes[id];
    if (node->links > 0 || node->opens > 0) return;
    give_back(env, node->image.bytes);
    free_node(node);
}

/* ---- files ---- */

static struct fault_file *new_file(struct fault_env *env, uint32_t node, unsigned flags)
{
    struct fault_file *file = fault_alloc(1, sizeof *file);
    io_file_init(&file->base, &env->base);
    file->node = node;
    file->flags = flags;
    env->nodes[node].opens++;
    env->open_files++;
    return file;
}

static int open_locked(struct fault_env *env, const char *path, unsigned flags,
                       struct io_file **file_out)
{
    struct fault_verdict verdict = judge_call_locked(env, FAULT_ON_OPEN, path, NULL);
    if (verdict.error != 0) return verdict.error;
    char last[NAME_MAX + 1];
    int64_t dir = walk(env, path, last);
    if (dir < 0) return (int)dir;
    if (last[0] == '\0') return -EISDIR;
    const struct name_entry *entry = names_find(&env->names, (uint32_t)dir, last);
    uint32_t node;
    if (entry != NULL) {
        node = entry->node;
        if ((flags & IO_EXCL) != 0) return -EEXIST;
        if (env->nodes[node].is_dir) return -EISDIR;
    } else {
        if ((flags & IO_CREATE) == 0) return -ENOENT;
        node = make_node(env, (uint32_t)dir, last, false);
    }
    *file_out = &new_file(env, node, flags)->base;
    return 0;
}

static int fault_open(struct io_env *base, const char *path, unsigned flags,
                      struct io_file **file_out)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    int rc = open_locked(env, path, flags, file_out);
    lock_release(&env->lock);
    return rc;
}

static void unlock_file(struct fault_env *env, struct fault_file *file)
{
    struct fault_node *node = &env->nodes[file->node];
    if (file->lock == 1) node->lock_shared--;
    if (file->lock == 2) node->lock_exclusive = false;
    file->lock = 0;
}

static void fault_close(struct io_file *base)
{
    struct fault_file *file = file_of(base);
    struct fault_env *env = fault_env_of(base->env);
    lock_acquire(&env->lock);
    unlock_file(env, file);
    env->nodes[file->node].opens--;
    env->open_files--;
    drop_if_unused(env, file->node);
    lock_release(&env->lock);
    base->magic = 0;
    free(file);
}

int fault_check_transfer(const struct fault_env *env, const struct fault_file *file, bool is_write,
                         const void *buf, uint64_t bytes, uint64_t offset)
{
    if ((file->flags & (is_write ? IO_WRITE : IO_READ)) == 0) return -EBADF;
    if ((file->flags & IO_DIRECT) == 0) return 0;
    uint32_t block = env->options.block_bytes;
    bool aligned =
        bytes % block == 0 && offset % block == 0 && (uintptr_t)buf % FAULT_SECTOR_BYTES == 0;
    return aligned ? 0 : -EINVAL;
}

uint64_t fault_read_locked(struct fault_env *env, uint32_t node, void *buf, uint64_t bytes,
                           uint64_t offset)
{
    const struct image *image = &env->nodes[node].image;
    uint64_t there = offset < image->bytes ? image->bytes - offset : 0;
    if (bytes > there) bytes = there;
    image_read(image, offset, buf, bytes);
    return bytes;
}

static int fault_pread(struct io_file *base, void *buf, size_t bytes, uint64_t offset,
                       size_t *done_out)
{
    struct fault_file *file = file_of(base);
    struct fault_env *env = fault_env_of(base->env);
    lock_acquire(&env->lock);
    struct fault_verdict verdict =
        judge_call_locked(env, FAULT_ON_READ, node_path(env, file->node), NULL);
    int rc = verdict.error;
    if (rc == 0) rc = fault_check_transfer(env, file, false, buf, bytes, offset);
    if (rc == 0 && verdict.is_short && verdict.short_bytes < bytes) bytes = verdict.short_bytes;
    if (rc == 0) *done_out = fault_read_locked(env, file->node, buf, bytes, offset);
    lock_release(&env->lock);
    return rc;
}

/* ---- writing ---- */

/* A write's bytes and around them what is in the file now, to whole sectors: a sector lands whole
 * or not at all, with everything that was in the cache for it. */
static struct shared *whole_sectors(struct fault_env *env, const struct fault_write *write,
                                    uint64_t bytes, uint64_t *start_out)
{
    uint64_t start = write->offset / FAULT_SECTOR_BYTES * FAULT_SECTOR_BYTES;
    uint64_t end = write->offset + bytes;
    end = (end + FAULT_SECTOR_BYTES - 1) / FAULT_SECTOR_BYTES * FAULT_SECTOR_BYTES;
    *start_out = start;
    if (start == write->offset && end == write->offset + write->bytes)
        return shared_ref(write->data);
    unsigned char *whole = fault_alloc(end - start, 1);
    image_read(&env->nodes[write->node].image, start, whole, end - start);
    unsigned char *to = whole + (write->offset - start);
    if (write->data->zero)
        memset(to, 0, bytes);
    else
        memcpy(to, write->data->data, bytes);
    struct shared *shared = shared_bytes(whole, end - start);
    free(whole);
    return shared;
}

struct fault_write fault_write_begin_locked(struct fault_env *env, uint32_t node, const void *buf,
                                            uint64_t bytes, uint64_t offset, unsigned flags)
{
    struct fault_write write = {
        .op = env->next_op++,
        .node = node,
        .flags = flags,
        .offset = offset,
        .bytes = bytes,
        .data = shared_bytes(buf, bytes),
    };
    struct event event = {
        .kind = FAULT_EVENT_WRITE_SUBMITTED,
        .op = write.op,
        .node = node,
        .flags = flags,
        .offset = offset,
        .bytes = bytes,
        .path = shared_ref(env->nodes[node].path),
    };
    event.data = whole_sectors(env, &write, bytes, &event.data_start);
    fault_emit_locked(env, event);
    return write;
}

int64_t fault_room_locked(const struct fault_env *env, uint32_t node, uint64_t bytes,
                          uint64_t offset)
{
    uint64_t size = env->nodes[node].image.bytes;
    if (offset + bytes <= size || offset + bytes - size <= env->space) return (int64_t)bytes;
    uint64_t reach = (size + env->space) / FAULT_SECTOR_BYTES * FAULT_SECTOR_BYTES;
    return reach > offset ? (int64_t)(reach - offset) : -ENOSPC;
}

void fault_write_end_locked(struct fault_env *env, struct fault_write *write, int64_t done)
{
    struct image *image = &env->nodes[write->node].image;
    struct event event = {
        .kind = FAULT_EVENT_WRITE_COMPLETED,
        .op = write->op,
        .node = write->node,
        .flags = write->flags,
        .result = (int32_t)done,
        .offset = write->offset,
        .bytes = write->bytes,
        .path = shared_ref(env->nodes[write->node].path),
    };
    if (done > 0) {
        uint64_t bytes = (uint64_t)done;
        if (bytes < write->bytes) event.data = whole_sectors(env, write, bytes, &event.data_start);
        image_write(image, write->offset, write->data->zero ? NULL : write->data->data, bytes);
        uint64_t end = write->offset + bytes;
        if (end > image->bytes) {
            if (env->space != UINT64_MAX) env->space -= end - image->bytes;
            image->bytes = end;
        }
    }
    shared_put(write->data);
    write->data = NULL;
    fault_emit_locked(env, event);
}

static int pwrite_locked(struct fault_env *env, struct fault_file *file, const void *buf,
                         size_t bytes, uint64_t offset, unsigned flags, size_t *done_out)
{
    struct fault_verdict verdict =
        judge_call_locked(env, FAULT_ON_WRITE, node_path(env, file->node), NULL);
    int rc = fault_check_transfer(env, file, true, buf, bytes, offset);
    if (rc != 0 || bytes == 0) return rc != 0 ? rc : verdict.error;
    CHECK(bytes <= INT32_MAX); /* enough for a test, and an event's result */
    struct fault_write write = fault_write_begin_locked(env, file->node, buf, bytes, offset, flags);
    int64_t done = verdict.error;
    if (done == 0) done = fault_room_locked(env, file->node, bytes, offset);
    if (done >= 0 && done < (int64_t)bytes) rc = -ENOSPC;
    if (done >= 0 && verdict.is_short && verdict.short_bytes < done) {
        done = verdict.short_bytes;
        rc = verdict.short_error;
    }
    fault_write_end_locked(env, &write, done);
    if (done < 0) return (int)done;
    *done_out = (size_t)done;
    return rc;
}

static int fault_pwrite(struct io_file *base, const void *buf, size_t bytes, uint64_t offset,
                        unsigned flags, size_t *done_out)
{
    struct fault_env *env = fault_env_of(base->env);
    lock_acquire(&env->lock);
    int rc = pwrite_locked(env, file_of(base), buf, bytes, offset, flags, done_out);
    lock_release(&env->lock);
    return rc;
}

static int fault_sync(struct io_file *base)
{
    struct fault_file *file = file_of(base);
    struct fault_env *env = fault_env_of(base->env);
    lock_acquire(&env->lock);
    struct fault_verdict verdict =
        judge_call_locked(env, FAULT_ON_SYNC, node_path(env, file->node), NULL);
    struct event event = {
        .kind = FAULT_EVENT_SYNC_SUBMITTED,
        .op = env->next_op++,
        .node = file->node,
        .path = shared_ref(env->nodes[file->node].path),
    };
    fault_emit_locked(env, event);
    event.kind = FAULT_EVENT_SYNC_COMPLETED;
    event.result = verdict.error;
    event.path = shared_ref(env->nodes[file->node].path);
    fault_emit_locked(env, event);
    lock_release(&env->lock);
    return verdict.error;
}

static int truncate_locked(struct fault_env *env, struct fault_file *file, uint64_t bytes)
{
    struct fault_verdict verdict =
        judge_call_locked(env, FAULT_ON_SIZE, node_path(env, file->node), NULL);
    if (verdict.error != 0) return verdict.error;
    if ((file->flags & IO_WRITE) == 0) return -EINVAL; /* as ftruncate */
    struct image *image = &env->nodes[file->node].image;
    if (bytes > image->bytes) {
        if (bytes - image->bytes > env->space) return -ENOSPC;
        if (env->space != UINT64_MAX) env->space -= bytes - image->bytes;
    } else {
        give_back(env, image->bytes - bytes);
    }
    image_resize(image, bytes);
    fault_emit_locked(env, (struct event){
                               .kind = FAULT_EVENT_TRUNCATE,
                               .node = file->node,
                               .offset = bytes,
                               .path = shared_ref(env->nodes[file->node].path),
                           });
    return 0;
}

static int fault_truncate(struct io_file *base, uint64_t bytes)
{
    struct fault_env *env = fault_env_of(base->env);
    lock_acquire(&env->lock);
    int rc = truncate_locked(env, file_of(base), bytes);
    lock_release(&env->lock);
    return rc;
}

static int fault_size(struct io_file *base, uint64_t *bytes_out)
{
    struct fault_file *file = file_of(base);
    struct fault_env *env = fault_env_of(base->env);
    lock_acquire(&env->lock);
    struct fault_verdict verdict =
        judge_call_locked(env, FAULT_ON_SIZE, node_path(env, file->node), NULL);
    if (verdict.error == 0) *bytes_out = env->nodes[file->node].image.bytes;
    lock_release(&env->lock);
    return verdict.error;
}

static int fault_geometry(struct io_file *base, struct io_geometry *geometry_out)
{
    const struct fault_env *env = fault_env_of(base->env); /* options never change */
    *geometry_out = (struct io_geometry){
        .block_bytes = env->options.block_bytes,
        .memory_align = FAULT_SECTOR_BYTES,
        .direct = (file_of(base)->flags & IO_DIRECT) != 0,
        .fua = env->options.fua,
    };
    return 0;
}

/* ---- locks ---- */

static int lock_file(struct fault_env *env, struct fault_file *file, bool exclusive)
{
    struct fault_node *node = &env->nodes[file->node];
    bool others_shared = node->lock_shared > (file->lock == 1 ? 1u : 0u);
    bool other_exclusive = node->lock_exclusive && file->lock != 2;
    if (other_exclusive || (exclusive && others_shared)) return -EAGAIN;
    unlock_file(env, file);
    file->lock = exclusive ? 2 : 1;
    if (exclusive)
        node->lock_exclusive = true;
    else
        node->lock_shared++;
    return 0;
}

static int fault_lock(struct io_file *base, bool exclusive)
{
    struct fault_file *file = file_of(base);
    struct fault_env *env = fault_env_of(base->env);
    lock_acquire(&env->lock);
    int rc = judge_call_locked(env, FAULT_ON_LOCK, node_path(env, file->node), NULL).error;
    if (rc == 0 && (file->flags & (exclusive ? IO_WRITE : IO_READ)) == 0) rc = -EBADF;
    if (rc == 0) rc = lock_file(env, file, exclusive);
    lock_release(&env->lock);
    return rc;
}

static int fault_lock_dir(struct io_env *base, const char *path, bool exclusive,
                          struct io_file **file_out)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    int rc = judge_call_locked(env, FAULT_ON_LOCK, path, NULL).error;
    int64_t node = rc != 0 ? rc : find_dir(env, path);
    struct fault_file *file = NULL;
    if (node < 0) {
        rc = (int)node;
    } else {
        file = new_file(env, (uint32_t)node, 0);
        rc = lock_file(env, file, exclusive);
    }
    lock_release(&env->lock);
    if (rc == 0)
        *file_out = &file->base;
    else if (file != NULL)
        fault_close(&file->base);
    return rc;
}

/* ---- names ---- */

static void remove_name(struct fault_env *env, uint32_t dir, const char *name)
{
    uint32_t node = names_find(&env->names, dir, name)->node;
    names_remove(&env->names, dir, name);
    env->nodes[node].links--;
    drop_if_unused(env, node);
}

static int rename_locked(struct fault_env *env, const char *from, const char *to)
{
    int rc = judge_call_locked(env, FAULT_ON_NAME, from, to).error;
    if (rc != 0) return rc;
    char from_name[NAME_MAX + 1], to_name[NAME_MAX + 1];
    int64_t from_dir = walk(env, from, from_name), to_dir = walk(env, to, to_name);
    if (from_dir < 0 || to_dir < 0) return (int)(from_dir < 0 ? from_dir : to_dir);
    if (from_name[0] == '\0' || to_name[0] == '\0') return -EBUSY;
    const struct name_entry *entry = names_find(&env->names, (uint32_t)from_dir, from_name);
    if (entry == NULL) return -ENOENT;
    uint32_t node = entry->node;
    const struct name_entry *over = names_find(&env->names, (uint32_t)to_dir, to_name);
    if (over != NULL) {
        uint32_t old = over->node;
        if (old == node) return 0;
        if (env->nodes[old].is_dir) return -EISDIR; /* nobody renames over a directory */
        remove_name(env, (uint32_t)to_dir, to_name);
    }
    struct shared *name = shared_text(to_name);
    names_remove(&env->names, (uint32_t)from_dir, from_name);
    names_set(&env->names, (uint32_t)to_dir, name, node);
    shared_put(env->nodes[node].path);
    env->nodes[node].path = join_path(env, (uint32_t)to_dir, to_name);
    fault_emit_locked(env, (struct event){
                               .kind = FAULT_EVENT_NAME,
                               .name_op = NAME_RENAME,
                               .node = node,
                               .dir = (uint32_t)to_dir,
                               .dir_from = (uint32_t)from_dir,
                               .name = name,
                               .name_from = shared_text(from_name),
                               .path = shared_ref(env->nodes[node].path),
                           });
    return 0;
}

static int fault_rename(struct io_env *base, const char *from, const char *to)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    int rc = rename_locked(env, from, to);
    lock_release(&env->lock);
    return rc;
}

static int unlink_locked(struct fault_env *env, const char *path)
{
    int rc = judge_call_locked(env, FAULT_ON_NAME, path, NULL).error;
    if (rc != 0) return rc;
    char last[NAME_MAX + 1];
    int64_t dir = walk(env, path, last);
    if (dir < 0) return (int)dir;
    const struct name_entry *entry = names_find(&env->names, (uint32_t)dir, last);
    if (entry == NULL) return -ENOENT;
    uint32_t node = entry->node;
    if (env->nodes[node].is_dir) return -EISDIR;
    struct event event = {
        .kind = FAULT_EVENT_NAME,
        .name_op = NAME_UNLINK,
        .node = node,
        .dir = (uint32_t)dir,
        .name = shared_text(last),
        .path = shared_ref(env->nodes[node].path),
    };
    remove_name(env, (uint32_t)dir, last);
    fault_emit_locked(env, event);
    return 0;
}

static int fault_unlink(struct io_env *base, const char *path)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    int rc = unlink_locked(env, path);
    lock_release(&env->lock);
    return rc;
}

static int fault_mkdir(struct io_env *base, const char *path)
{
    struct fault_env *env = fault_env_of(base);
    char last[NAME_MAX + 1];
    lock_acquire(&env->lock);
    int rc = judge_call_locked(env, FAULT_ON_NAME, path, NULL).error;
    int64_t dir = rc != 0 ? rc : walk(env, path, last);
    if (dir < 0)
        rc = (int)dir;
    else if (last[0] == '\0' || names_find(&env->names, (uint32_t)dir, last) != NULL)
        rc = -EEXIST;
    else
        (void)make_node(env, (uint32_t)dir, last, true);
    lock_release(&env->lock);
    return rc;
}

static int fault_sync_dir(struct io_env *base, const char *path)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    int rc = judge_call_locked(env, FAULT_ON_SYNC_DIR, path, NULL).error;
    int64_t node = rc != 0 ? rc : find_dir(env, path);
    if (node < 0)
        rc = (int)node;
    else
        fault_emit_locked(env, (struct event){
                                   .kind = FAULT_EVENT_SYNC_DIR,
                                   .node = (uint32_t)node,
                                   .path = shared_ref(env->nodes[node].path),
                               });
    lock_release(&env->lock);
    return rc;
}

struct listed {
    struct shared *name;
    bool is_dir;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(shared_str(((const struct listed *)a)->name),
                  shared_str(((const struct listed *)b)->name));
}

static int fault_list(struct io_env *base, const char *path,
                      int (*each)(void *ctx, const char *name, bool is_dir), void *ctx)
{
    struct fault_env *env = fault_env_of(base);
    struct listed *list = NULL;
    size_t count = 0;
    lock_acquire(&env->lock);
    int rc = judge_call_locked(env, FAULT_ON_NAME, path, NULL).error;
    int64_t dir = rc != 0 ? rc : find_dir(env, path);
    if (dir < 0) rc = (int)dir;
    if (rc == 0) list = fault_alloc(env->names.count + 1, sizeof *list);
    for (size_t i = 0; rc == 0 && i < env->names.count; i++) {
        const struct name_entry *entry = &env->names.entries[i];
        if (entry->dir != dir) continue;
        list[count++] = (struct listed){.name = shared_ref(entry->name),
                                        .is_dir = env->nodes[entry->node].is_dir};
    }
    lock_release(&env->lock); /* before the calls: they may use the environment */
    if (count > 1) qsort(list, count, sizeof *list, by_name);
    for (size_t i = 0; i < count; i++) {
        if (rc == 0) rc = each(ctx, shared_str(list[i].name), list[i].is_dir);
        shared_put(list[i].name);
    }
    free(list);
    return rc;
}

const struct io_env_ops fault_ops = {
    .close = fault_env_close,
    .open = fault_open,
    .file_close = fault_close,
    .pread = fault_pread,
    .pwrite = fault_pwrite,
    .sync = fault_sync,
    .truncate = fault_truncate,
    .size = fault_size,
    .geometry = fault_geometry,
    .lock = fault_lock,
    .rename = fault_rename,
    .unlink = fault_unlink,
    .mkdir = fault_mkdir,
    .sync_dir = fault_sync_dir,
    .list = fault_list,
    .lock_dir = fault_lock_dir,
    .queue_open = fault_queue_open,
};
