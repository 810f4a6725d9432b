/* What becomes of a change between the queue and its answer. */
#include "base/alloc.h"
#include "base/thread.h"
#include "plane/plane_impl.h"

#include <errno.h>

/* ---- the transaction ---- */

void plane_begin_job(struct plane *p)
{
    if (p->group.first != NULL || p->waiting.first == NULL) return;
    struct catalog_request *first = NULL, **end = &first;
    for (struct request *r; (r = list_take(&p->waiting)) != NULL;) {
        /* Whoever writes under a lease that is over is refused anyhow. What was asked for by name
         * goes on: the catalog is this plane's own, and a host that reloads makes tables. */
        if (r->automatic && p->holder->state != HOLDER_NORMAL) {
            plane_answer(p, r, -RFE_LEASE_FENCED);
            continue;
        }
        r->catalog.next = NULL;
        *end = &r->catalog;
        end = &r->catalog.next;
        list_add(&p->group, r);
    }
    if (first == NULL) return;
    p->job_first = first;
    atomic_store_explicit(&p->job, JOB_GIVEN, memory_order_release); /* P3 */
    futex_wake_one(&p->job);
}

/* A drop that failed behind its marker says what is left of it. */
static void answer_failed(struct plane *p, struct request *r)
{
    const struct catalog_request *c = &r->catalog;
    if (c->finish_drop && c->rc != -RFE_NO_TABLE)
        (void)err_set(&r->msg, c->rc, "%.300s; the table stays marked: drop it again", c->msg.text);
    else
        r->msg = c->msg;
    plane_answer(p, r, c->rc);
}

void plane_end_job(struct plane *p)
{
    if (p->applying || atomic_load_explicit(&p->job, memory_order_acquire) != JOB_DONE)
        return; /* P3 */
    /* Relaxed: the worker looks at nothing of the job again until it is given the next one. */
    atomic_store_explicit(&p->job, JOB_NONE, memory_order_relaxed);
    if (p->job_committed) {
        atomic_store_explicit(&p->version, p->job_version, memory_order_relaxed);
        atomic_fetch_add_explicit(&p->commits, 1, memory_order_relaxed);
    }
    struct request_list group = p->group;
    p->group = (struct request_list){0};
    for (struct request *r; (r = list_take(&group)) != NULL;) {
        if (r->catalog.rc != 0) {
            answer_failed(p, r);
            continue;
        }
        r->version = p->job_version;
        r->effects_done = 0;
        list_add(&p->group, r);
    }
    p->applying = true;
}

/* ---- the schema ---- */

static int do_effect(struct schema *schema, const struct catalog_effect *e, uint64_t version)
{
    if (e->kind == EFFECT_ADD_TABLE)
        return schema_add_table(schema, e->text, e->text_bytes, e->incarnation, e->tree, e->ttl,
                                version, NULL);
    struct schema_table *t = schema_table_to_change(schema, e->incarnation);
    CHECK(t != NULL);
    switch (e->kind) {
    case EFFECT_ADD_COLUMN:
        return schema_add_column(t, e->text, e->text_bytes, e->id, e->type, e->category, version);
    case EFFECT_ADD_SERIES: return schema_add_series(t, e->key, e->key_bytes, e->id, version);
    case EFFECT_RENAME_COLUMN:
        return schema_rename_column(t, e->id, e->text, e->text_bytes, version);
    case EFFECT_DROP_SERIES: return schema_drop_series(t, e->key, e->key_bytes, e->id, version);
    case EFFECT_MARK_TABLE: schema_mark_table(t, version); return 0;
    case EFFECT_DROP_TABLE: schema_drop_table(t, version); return 0;
    case EFFECT_DROP_COLUMN: schema_drop_column(t, e->id, version); return 0;
    case EFFECT_SET_TTL: schema_set_ttl(t, e->ttl, version); return 0;
    case EFFECT_ADD_TABLE: break;
    }
    CHECK(false);
    return 0;
}

/* What is committed has to be done sometime: without memory the loop comes again. Nobody sees the
 * half of it, since its version is not published. */
bool plane_do_effects(struct plane *p)
{
    if (!p->applying) return false;
    p->out_of_memory = false;
    for (struct request *r = p->group.first; r != NULL; r = r->next) {
        for (; r->effects_done < r->catalog.effect_count; r->effects_done++) {
            const struct catalog_effect *e = &r->catalog.effects[r->effects_done];
            if (do_effect(p->o.schema, e, r->version) == 0) continue;
            p->out_of_memory = true;
            return false;
        }
    }
    p->applying = false;
    for (struct request *r; (r = list_take(&p->group)) != NULL;)
        list_add(&p->published, r);
    return true;
}

/* ---- the answer ---- */

static bool is_due(const struct plane *p, const struct request *r)
{
    if (holder_has_promised(p->holder, r->version)) return true;
    return r->automatic && p->holder->applied >= r->version;
}

void plane_answer_changes(struct plane *p)
{
    struct request_list still = p->published;
    p->published = (struct request_list){0};
    for (struct request *r; (r = list_take(&still)) != NULL;) {
        struct catalog_request *c = &r->catalog;
        if (!is_due(p, r)) {
            list_add(&p->published, r);
        } else if (c->changes[0].kind == PLANE_DROP_TABLE && !c->finish_drop) {
            c->finish_drop = true;
            c->effect_count = 0;
            list_add(&p->waiting, r);
        } else {
            plane_answer(p, r, 0);
        }
    }
}
