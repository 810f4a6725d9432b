/* The trace of the fault double, crashes at any point of it, and damage. */
#include "io/fault_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- recording ---- */

void fault_emit_locked(struct fault_env *env, struct event event)
{
    disk_apply(&env->disk, &event, env->event_count);
    if (!env->options.record) {
        env->event_count++; /* still what orders changes */
        event_deinit(&event);
        return;
    }
    if (env->event_count == env->event_room) {
        env->event_room = env->event_room == 0 ? 256 : env->event_room * 2;
        env->events = fault_grow(env->events, env->event_room, sizeof env->events[0]);
    }
    env->events[env->event_count++] = event;
}

void fault_trace_free(struct fault_env *env)
{
    if (!env->options.record) return;
    for (size_t i = 0; i < env->event_count; i++)
        event_deinit(&env->events[i]);
    free(env->events);
    for (size_t i = 0; i < env->checkpoint_count; i++)
        disk_deinit(&env->checkpoints[i].disk);
    free(env->checkpoints);
    if (env->has_cursor) disk_deinit(&env->cursor.disk);
    disk_deinit(&env->start);
}

/* ---- reading ---- */

uint64_t fault_trace_length(struct io_env *base)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    uint64_t length = env->options.record ? env->event_count : 0;
    lock_release(&env->lock);
    return length;
}

void fault_trace_event(struct io_env *base, uint64_t at, struct fault_event *event_out)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    CHECK(env->options.record && at < env->event_count);
    const struct event *e = &env->events[at];
    *event_out = (struct fault_event){
        .kind = e->kind,
        .op = e->op,
        .flags = e->flags,
        .result = e->result,
        .offset = e->offset,
        .bytes = e->bytes,
        .mark = e->mark,
    };
    if (e->path != NULL)
        (void)snprintf(event_out->path, sizeof event_out->path, "%s", shared_str(e->path));
    lock_release(&env->lock);
}

enum fault_event_kind fault_trace_kind(struct io_env *env, uint64_t at)
{
    struct fault_event event;
    fault_trace_event(env, at, &event);
    return event.kind;
}

uint64_t fault_trace_mark(struct io_env *env, uint64_t at)
{
    struct fault_event event;
    fault_trace_event(env, at, &event);
    CHECK(event.kind == FAULT_EVENT_MARK);
    return event.mark;
}

void fault_mark(struct io_env *base, uint64_t value)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    fault_emit_locked(env, (struct event){.kind = FAULT_EVENT_MARK, .mark = value});
    lock_release(&env->lock);
}

void fault_trace_describe(struct io_env *env, uint64_t at, char *text, size_t bytes)
{
    static const char *const kinds[] = {"write submitted", "write completed",
                                        "sync submitted",  "sync completed",
                                        "truncate",        "name",
                                        "sync dir",        "mark"};
    struct fault_event e;
    fault_trace_event(env, at, &e);
    int used = snprintf(text, bytes, "%" PRIu64 " %s", at, kinds[e.kind]);
    if (used < 0 || (size_t)used >= bytes) return;
    text += used;
    bytes -= (size_t)used;
    switch (e.kind) {
    case FAULT_EVENT_WRITE_SUBMITTED:
    case FAULT_EVENT_WRITE_COMPLETED:
        (void)snprintf(
            text, bytes, " %s op=%" PRIu64 " offset=%" PRIu64 " bytes=%" PRIu64 "%s result=%d",
            e.path, e.op, e.offset, e.bytes, (e.flags & IO_DSYNC) != 0 ? " dsync" : "", e.result);
        break;
    case FAULT_EVENT_SYNC_SUBMITTED:
    case FAULT_EVENT_SYNC_COMPLETED:
        (void)snprintf(text, bytes, " %s op=%" PRIu64 " result=%d", e.path, e.op, e.result);
        break;
    case FAULT_EVENT_TRUNCATE:
        (void)snprintf(text, bytes, " %s size=%" PRIu64, e.path, e.offset);
        break;
    case FAULT_EVENT_NAME:
    case FAULT_EVENT_SYNC_DIR: (void)snprintf(text, bytes, " %s", e.path); break;
    case FAULT_EVENT_MARK: (void)snprintf(text, bytes, " %" PRIu64, e.mark); break;
    }
}

/* ---- crashes ---- */

/* The nearest disk at or before `at`: the cursor, a checkpoint, or the start. */
static void place_cursor(struct fault_env *env, uint64_t at)
{
    const struct disk *nearest = &env->start;
    uint64_t nearest_at = 0;
    for (size_t i = env->checkpoint_count; i-- > 0;) {
        if (env->checkpoints[i].at > at) continue;
        nearest = &env->checkpoints[i].disk;
        nearest_at = env->checkpoints[i].at;
        break;
    }
    if (env->has_cursor && env->cursor.at <= at && env->cursor.at >= nearest_at) return;
    if (env->has_cursor) disk_deinit(&env->cursor.disk);
    env->cursor.at = nearest_at;
    disk_copy(&env->cursor.disk, nearest);
    env->has_cursor = true;
}

static void add_checkpoint(struct fault_env *env)
{
    size_t count = env->checkpoint_count;
    if (count > 0 && env->checkpoints[count - 1].at >= env->cursor.at) return;
    if (count == env->checkpoint_room) {
        env->checkpoint_room = count == 0 ? 16 : count * 2;
        env->checkpoints =
            fault_grow(env->checkpoints, env->checkpoint_room, sizeof env->checkpoints[0]);
    }
    env->checkpoints[count].at = env->cursor.at;
    disk_copy(&env->checkpoints[count].disk, &env->cursor.disk);
    env->checkpoint_count++;
}

/* What was and was not durable just before event `at`. */
static const struct disk *disk_at(struct fault_env *env, uint64_t at)
{
    if (!env->options.record || at == env->event_count) return &env->disk;
    place_cursor(env, at);
    while (env->cursor.at < at) {
        disk_apply(&env->cursor.disk, &env->events[env->cursor.at], env->cursor.at);
        env->cursor.at++;
        if (env->cursor.at % FAULT_CHECKPOINT_STEP == 0) add_checkpoint(env);
    }
    return &env->cursor.disk;
}

int fault_crash(struct io_env *base, uint64_t at, fault_choice *choice, void *ctx,
                const struct fault_options *options, struct io_env **env_out,
                uint64_t *undecided_out)
{
    static const struct fault_options none;
    struct fault_env *env = fault_env_of(base);
    if (options == NULL) options = &none;
    struct disk disk;
    lock_acquire(&env->lock);
    CHECK(at <= (env->options.record ? env->event_count : 0));
    uint64_t undecided =
        disk_crash(&disk, disk_at(env, at), env->options.block_bytes, choice, ctx, options->seed);
    lock_release(&env->lock);
    *env_out = &fault_env_make(options, &disk)->base;
    if (undecided_out != NULL) *undecided_out = undecided;
    return 0;
}

enum fault_fate fault_choice_drop(void *ctx, uint64_t index, bool is_name)
{
    (void)ctx;
    (void)index;
    (void)is_name;
    return FAULT_DROP;
}

enum fault_fate fault_choice_keep(void *ctx, uint64_t index, bool is_name)
{
    (void)ctx;
    (void)index;
    (void)is_name;
    return FAULT_KEEP;
}

enum fault_fate fault_choice_seeded(void *ctx, uint64_t index, bool is_name)
{
    (void)index;
    uint64_t *state = ctx;
    uint64_t random = fault_mix((*state)++);
    if (is_name) return (random & 1) != 0 ? FAULT_KEEP : FAULT_DROP;
    return (enum fault_fate)(random % 3);
}

/* ---- damage ---- */

int fault_poke(struct io_env *base, const char *path, uint64_t offset, const void *bytes, size_t n)
{
    struct fault_env *env = fault_env_of(base);
    CHECK(n > 0 && n <= INT32_MAX);
    lock_acquire(&env->lock);
    int64_t node = fault_find_locked(env, path);
    if (node >= 0) {
        struct fault_write write =
            fault_write_begin_locked(env, (uint32_t)node, bytes, n, offset, IO_DSYNC);
        fault_write_end_locked(env, &write, (int64_t)n);
    }
    lock_release(&env->lock);
    return node < 0 ? (int)node : 0;
}

int fault_peek(struct io_env *base, const char *path, uint64_t offset, void *bytes, size_t n)
{
    struct fault_env *env = fault_env_of(base);
    lock_acquire(&env->lock);
    int64_t node = fault_find_locked(env, path);
    if (node >= 0) {
        uint64_t there = fault_read_locked(env, (uint32_t)node, bytes, n, offset);
        memset((char *)bytes + there, 0, n - there);
    }
    lock_release(&env->lock);
    return node < 0 ? (int)node : 0;
}

int fault_clone(struct io_env *base, struct io_env **env_out)
{
    struct fault_env *env = fault_env_of(base);
    struct disk disk;
    lock_acquire(&env->lock);
    disk_copy(&disk, &env->disk);
    struct fault_env *copy = fault_env_make(&env->options, &disk);
    fault_unload(copy); /* what was loaded is the durable side */
    names_copy(&copy->names, &env->names);
    copy->nodes = fault_alloc(env->node_count, sizeof copy->nodes[0]);
    copy->node_count = env->node_count;
    copy->node_room = env->node_count;
    for (uint32_t id = 0; id < env->node_count; id++) {
        const struct fault_node *from = &env->nodes[id];
        if (from->links == 0) continue; /* unlinked, and only open there */
        struct fault_node *to = &copy->nodes[id];
        to->is_dir = from->is_dir;
        to->links = from->links;
        to->path = shared_ref(from->path);
        image_copy(&to->image, &from->image);
    }
    copy->space = env->space;
    copy->next_op = env->next_op;
    copy->event_count = copy->options.record ? 0 : env->event_count;
    lock_release(&env->lock);
    *env_out = &copy->base;
    return 0;
}
