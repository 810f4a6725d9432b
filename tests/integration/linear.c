#include "linear.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = LINEAR_OPS_MAX / 64, STATES_MAX = 1 << 20, SLOTS = 2 * STATES_MAX };

/* What has been taken into the order, and what it left. */
struct state {
    uint64_t taken[WORDS];
    int32_t cell[LINEAR_CELLS];
};

/* Begins and ends of what is not yet in the order, by time. */
struct entry {
    const struct linear_op *op;
    bool is_end;
    struct entry *before, *after, *end; /* end: of a begin */
};

struct search {
    struct entry head, entries[2 * LINEAR_OPS_MAX];
    const struct linear_op *ops;
    struct state now;
    struct {
        struct entry *entry;
        int32_t cell[LINEAR_CELLS];
    } stack[LINEAR_OPS_MAX];
    uint32_t depth;
    struct state *seen; /* STATES_MAX */
    uint32_t *slots;    /* SLOTS: index in seen, plus one */
    uint32_t seen_count;
};

static int64_t time_of(const struct entry *e)
{
    return e->is_end ? e->op->end : e->op->begin;
}

/* Of two at one moment the begin comes first: they ran side by side. */
static int by_time(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (time_of(x) != time_of(y)) return time_of(x) < time_of(y) ? -1 : 1;
    if (x->is_end != y->is_end) return x->is_end ? 1 : -1;
    return x->op < y->op ? -1 : x->op > y->op;
}

static void chain(struct search *s, uint32_t n)
{
    struct entry *begin_of[LINEAR_OPS_MAX];
    qsort(s->entries, 2 * (size_t)n, sizeof s->entries[0], by_time);
    struct entry *last = &s->head;
    for (uint32_t i = 0; i < 2 * n; i++) {
        struct entry *e = &s->entries[i];
        size_t op = (size_t)(e->op - s->ops);
        if (!e->is_end) begin_of[op] = e;
        if (e->is_end) begin_of[op]->end = e;
        e->before = last;
        last->after = e;
        last = e;
    }
    last->after = NULL;
}

static void unlink_entry(struct entry *e)
{
    e->before->after = e->after;
    if (e->after != NULL) e->after->before = e->before;
}

static void link_entry(struct entry *e)
{
    e->before->after = e;
    if (e->after != NULL) e->after->before = e;
}

/* What op makes of the cells; false: it can't come now, since it read something else. */
static bool step(const struct linear_op *op, int32_t *cell)
{
    for (uint32_t i = 0; i < LINEAR_CELLS; i++) {
        if ((op->cells >> i & 1) == 0) continue;
        if (op->kind == LINEAR_READ && op->value[i] != cell[i]) return false;
        if (op->kind != LINEAR_READ) cell[i] = op->kind == LINEAR_WRITE ? op->value[i] : 0;
    }
    return true;
}

static uint64_t hash(const struct state *state)
{
    uint64_t words[sizeof *state / 8], h = 0;
    memcpy(words, state, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        h = (h ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        h ^= h >> 29;
    }
    return h;
}

/* 1: it is new; 0: it led nowhere before; -1: no room. */
static int remember(struct search *s, const struct state *state)
{
    uint64_t at = hash(state) % SLOTS;
    for (; s->slots[at] != 0; at = (at + 1) % SLOTS)
        if (memcmp(&s->seen[s->slots[at] - 1], state, sizeof *state) == 0) return 0;
    if (s->seen_count == STATES_MAX) return -1;
    s->seen[s->seen_count++] = *state;
    s->slots[at] = s->seen_count;
    return 1;
}

/* Takes a begin as the next of the order, if that is possible and new. */
static int try_next(struct search *s, struct entry *e)
{
    struct state next = s->now;
    size_t op = (size_t)(e->op - s->ops);
    if (!step(e->op, next.cell)) return 0;
    next.taken[op / 64] |= UINT64_C(1) << op % 64;
    int is_new = remember(s, &next);
    if (is_new <= 0) return is_new;
    s->stack[s->depth].entry = e;
    memcpy(s->stack[s->depth++].cell, s->now.cell, sizeof next.cell);
    s->now = next;
    unlink_entry(e);
    unlink_entry(e->end);
    return 1;
}

static struct entry *take_back(struct search *s)
{
    struct entry *e = s->stack[--s->depth].entry;
    size_t op = (size_t)(e->op - s->ops);
    memcpy(s->now.cell, s->stack[s->depth].cell, sizeof s->now.cell);
    s->now.taken[op / 64] &= ~(UINT64_C(1) << op % 64);
    link_entry(e->end);
    link_entry(e);
    return e;
}

static enum linear_answer search(struct search *s)
{
    struct entry *e = s->head.after;
    while (s->head.after != NULL) {
        if (!e->is_end) {
            int taken = try_next(s, e);
            if (taken < 0) return LINEAR_GAVE_UP;
            e = taken > 0 ? s->head.after : e->after;
        } else if (s->depth == 0) {
            return LINEAR_NO; /* it has ended, and nothing that could come before helps */
        } else {
            e = take_back(s)->after;
        }
    }
    return LINEAR_YES;
}

enum linear_answer linear_check(const struct linear_op *ops, uint32_t n)
{
    struct search *s = calloc(1, sizeof *s);
    if (s == NULL || n > LINEAR_OPS_MAX) abort();
    s->ops = ops;
    s->seen = malloc(STATES_MAX * sizeof *s->seen);
    s->slots = calloc(SLOTS, sizeof *s->slots);
    if (s->seen == NULL || s->slots == NULL) abort();
    for (uint32_t i = 0; i < n; i++) {
        s->entries[2 * i] = (struct entry){.op = &ops[i]};
        s->entries[2 * i + 1] = (struct entry){.op = &ops[i], .is_end = true};
    }
    chain(s, n);
    enum linear_answer answer = search(s);
    free(s->seen);
    free(s->slots);
    free(s);
    return answer;
}

static int by_begin(const void *a, const void *b)
{
    const struct linear_op *x = a, *y = b;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

void linear_print(const struct linear_op *ops, uint32_t n)
{
    static const char *const names[] = {"write", "delete", "read"};
    struct linear_op *sorted = malloc((n + 1) * sizeof *sorted);
    if (sorted == NULL) abort();
    memcpy(sorted, ops, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_begin);
    for (uint32_t i = 0; i < n; i++) {
        const struct linear_op *o = &sorted[i];
        fprintf(stderr, "thread %d  %8" PRId64 " .. ", o->thread, o->begin - sorted[0].begin);
        if (o->end == LINEAR_NEVER)
            fprintf(stderr, "   never");
        else
            fprintf(stderr, "%8" PRId64, o->end - sorted[0].begin);
        fprintf(stderr, " ns  %-6s", names[o->kind]);
        for (uint32_t c = 0; c < LINEAR_CELLS; c++)
            if ((o->cells >> c & 1) != 0) fprintf(stderr, " %u=%" PRId32, c, o->value[c]);
        fprintf(stderr, "\n");
    }
    free(sorted);
}
