/* Fragment by fragment: check the lease, copy its rows into the image, link its extent. A failed
 * check rolls everything back by one store to the batch's state. Nothing here waits, allocates or
 * logs: the range is reserved, and everybody behind it waits for it to be published. */
#include "engine/engine_impl.h"

/* ---- copying ---- */

/* By memcpy of a constant width, which is one move: a caller's doubles are no uint64_t to the
 * compiler, and need not be aligned. */
static inline void gather_by(uint8_t *restrict to, const uint8_t *restrict from,
                             const uint32_t *restrict order, uint32_t n, size_t width)
{
    for (uint32_t i = 0; i < n; i++)
        memcpy(to + i * width, from + order[i] * width, width);
}

static void gather(uint8_t *to, const uint8_t *from, const uint32_t *order, uint32_t n,
                   uint32_t width)
{
    if (width == 8)
        gather_by(to, from, order, n, 8);
    else if (width == 4)
        gather_by(to, from, order, n, 4);
    else
        gather_by(to, from, order, n, 1);
}

static inline void copy_fixed(uint8_t *dst, const struct tablet_group *g, const void *values,
                              uint32_t width, const struct batch_fragment *f)
{
    uint8_t *to = dst + (uint64_t)f->row_first * width;
    if (g->order == NULL)
        memcpy(to, (const uint8_t *)values + (uint64_t)f->row_first * width,
               (uint64_t)f->rows * width);
    else
        gather(to, values, g->order + f->row_first, f->rows, width);
}

/* Positions and bytes of a run of rows; column->bytes_done is where the bytes go on. */
static void copy_variable(uint8_t *payload, const struct tablet_group *g,
                          const struct batch_column_plan *plan, struct tablet_column *c,
                          const struct batch_fragment *f)
{
    uint32_t *positions = (uint32_t *)(void *)(payload + plan->values_off);
    uint8_t *data = payload + batch_data_off(plan->values_off, g->in->rows);
    const uint32_t *offsets = c->in->offsets;
    const uint8_t *values = c->in->values;
    uint32_t done = c->bytes_done;
    if (f->row_first == 0) positions[0] = 0;
    if (g->order == NULL) {
        uint32_t first = f->row_first, shift = offsets[first] - done;
        uint32_t bytes = offsets[first + f->rows] - offsets[first];
        if (bytes > 0) memcpy(data + done, values + offsets[first], bytes);
        for (uint32_t i = 1; i <= f->rows; i++)
            positions[first + i] = offsets[first + i] - shift;
        c->bytes_done = done + bytes;
        return;
    }
    for (uint32_t i = f->row_first; i < f->row_first + f->rows; i++) {
        uint32_t row = g->order[i], bytes = offsets[row + 1] - offsets[row];
        if (bytes > 0) memcpy(data + done, values + offsets[row], bytes);
        done += bytes;
        positions[i + 1] = done;
    }
    c->bytes_done = done;
}

static void copy_nulls(uint8_t *dst, const struct tablet_group *g, const uint8_t *nulls)
{
    uint32_t rows = g->in->rows, bytes = (rows + 7) / 8;
    if (g->order == NULL) {
        memcpy(dst, nulls, bytes);
        if (rows % 8 != 0) dst[bytes - 1] &= (uint8_t)((1u << rows % 8) - 1);
        return;
    }
    memset(dst, 0, bytes);
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t row = g->order[i];
        dst[i / 8] |= (uint8_t)((nulls[row / 8] >> (row % 8) & 1) << (i % 8));
    }
}

static void copy_fragment(uint8_t *payload, struct tablet_group *g,
                          const struct batch_group_plan *plan, const struct batch_fragment *f)
{
    copy_fixed(payload + plan->times_off, g, g->in->times, 8, f);
    for (uint32_t i = 0; i < g->column_count; i++) {
        struct tablet_column *c = &g->columns[i];
        const struct batch_column_plan *cp = &plan->columns[i];
        if (c->flags == BATCH_COLUMN_ALL_NULL) continue;
        /* A bitmap is one piece for all fragments: it comes with the first. */
        if (f->row_first == 0 && (c->flags & BATCH_COLUMN_HAS_NULLS) != 0)
            copy_nulls(payload + cp->nulls_off, g, c->in->nulls);
        if (c->width == 0)
            copy_variable(payload, g, cp, c, f);
        else
            copy_fixed(payload + cp->values_off, g, c->in->values, c->width, f);
    }
}

/* Rows of a fragment, on average, below which a group's columns are copied whole with its first one:
 * in pieces of a few bytes the calls would cost more than the copying. */
#define SHORT_FRAGMENT_ROWS 64u

static void copy_next(struct prepared *p, uint8_t *payload, const struct batch_fragment *f)
{
    struct tablet_group *g = &p->groups[f->group];
    const struct batch_group_plan *plan = &p->plan.groups[f->group];
    if (g->in->rows / g->fragment_count >= SHORT_FRAGMENT_ROWS || g->fragment_count == 1) {
        copy_fragment(payload, g, plan, f);
    } else if (f->row_first == 0) {
        const struct batch_fragment whole = {.rows = g->in->rows};
        copy_fragment(payload, g, plan, &whole);
    }
}

static void encode_frame(struct prepared *p, uint8_t *payload)
{
    batch_encode_frame(payload, &p->plan);
    uint32_t key_off = p->plan.keys_off;
    for (uint32_t i = 0; i < p->device_count; i++) {
        const struct tablet_device *d = &p->devices[i];
        batch_encode_device(payload, &p->plan, i, d->group, key_off, d->key, d->key_bytes);
        key_off += d->key_bytes;
    }
    for (uint32_t i = 0; i < p->fragment_count; i++)
        batch_encode_fragment(payload, &p->plan, i, &p->fragments[i]);
}

/* ---- the steps ---- */

int tablets_apply(struct prepared *p, const struct wal_reservation *r)
{
    struct engine *e = p->engine;
    struct memtable_segment *segment = r->image->owner;
    uint32_t payload_off = (uint32_t)(r->payload - r->image->base);
    memtable_begin(segment, r->arena_at, r->lsn);
    encode_frame(p, r->payload);
    for (uint32_t i = 0; i < p->fragment_count; i++) {
        const struct batch_fragment *f = &p->fragments[i];
        engine_step(STEP_FRAGMENT, i);
        if (RF_UNLIKELY(p->op->times != NULL)) stage_end_timed(p, STAGE_COPY);
        bool live = lease_check(e->o.words, e->o.clock, p->view);
        STAGE_END(p, STAGE_LEASE, lease);
        if (RF_UNLIKELY(!live)) {
            memtable_void(segment, r->arena_at);
            return -RFE_LEASE_FENCED_RETRY;
        }
        copy_next(p, r->payload, f);
        memtable_link(segment, r->arena_at, i, payload_off, f, p->devices[f->device].number);
    }
    STAGE_END(p, STAGE_COPY, copy);
    return 0;
}
