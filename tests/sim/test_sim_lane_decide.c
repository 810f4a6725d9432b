/* ctest: timeout=600 */
/* The lane's decision in C, step by step in every order, against the rules of commit_model.py
 * (look=run): two batches, of which the first does not fit the new metadata, one change, one fencing,
 * one false lapse, one reader; other steps also between the decider's looks inside its section.
 *
 * The lane has no threads here, and its durable mark is moved by hand. A state is reached by doing
 * its steps again from a lane at rest; states that were seen are not gone into twice. */
#include "base/hash.h"
#include "tests/lib/lane_rig.h"
#include "wal/lane_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BATCHES   2u
#define STEPS_MAX 64u
#define STATES    (1u << 21)

enum act {
    TOKEN,           /* + batch: takes a token */
    RESERVE = 2,     /* + batch */
    CHECK_LEASE = 4, /* + batch: its one fragment; void when that fails */
    PUBLISH = 6,     /* + batch */
    DURABLE = 8,     /* one record more */
    DECIDE,
    LAPSE,
    RENEW,
    CHANGE, /* another version is published */
    PROMISE,
    FENCE, /* another epoch is published, not live */
    NORMAL,
    READER_VIEW,
    READER_V,
    READER_CHECK,
    ACTS,
};
/* AT_VIEW_TWICE: and what the plane does next at once, a promise behind a change, NORMAL behind a
 * fence. */
enum { AT_NONE, AT_DEADLINE, AT_VIEW, AT_VIEW_TWICE, AT_PLACES };

/* An act, and for DECIDE one that happens inside the section. */
struct step {
    uint8_t act, inner, place;
};

enum pc { AT_START, HAS_TOKEN, RESERVED, CHECKED, ENDED };

struct world {
    struct rig *rig;
    uint64_t base_seq; /* of this run's first record */
    uint64_t base_view;
    uint64_t token[BATCHES];
    enum pc pc[BATCHES];
    uint32_t id[BATCHES];
    bool lapsed, renewed, changed, promised, fenced, normal;
    uint32_t reader, reader_starts, seen; /* reader: 0.., 3 is answered */
    uint64_t reader_view;
    bool reader_late;      /* took V when the change was promised, with an older view */
    uint64_t decided_view; /* that the decider saw last */
    bool decided_live;     /* some look of this step's deciders found the lease live */
    bool closed_inside; /* of this step: a promise or NORMAL came between a look and its decision */
    const struct step *inside;
    const char *wrong;
};

static void apply(struct world *w, uint8_t act);

static uint64_t view_now(const struct world *w)
{
    return atomic_load(&w->rig->view);
}
static bool is_live(const struct world *w)
{
    return atomic_load(&w->rig->live);
}
static uint64_t epoch(uint64_t view)
{
    return view >> RIG_EPOCH_SHIFT;
}
static bool is_void(const struct world *w, uint32_t b)
{
    const struct rig_batch *x = &w->rig->batch[w->id[b]];
    return x->r.image->arena[x->r.arena_at + 4] != 0;
}

/* What a reader that takes V now sees. */
static uint32_t visible_batches(const struct world *w)
{
    uint32_t seen = 0;
    for (uint32_t b = 0; b < BATCHES; b++)
        if (w->pc[b] >= RESERVED && w->rig->batch[w->id[b]].r.lsn < wal_visible(w->rig->lane) &&
            !is_void(w, b))
            seen |= 1u << b;
    return seen;
}

/* ---- what may happen ---- */

static bool may(const struct world *w, uint8_t act)
{
    uint32_t b = act % 2;
    const struct wal_lane *lane = w->rig->lane;
    if (act < DURABLE) {
        enum pc needed = (enum pc)(act / 2);
        return w->pc[b] == needed && (act / 2 != TOKEN || is_live(w));
    }
    switch (act) {
    case DURABLE: return lane->o.mode == WAL_SYNC;
    case DECIDE: return true;
    case LAPSE: return !w->lapsed && !w->fenced;
    case RENEW: return w->lapsed && !w->renewed && !w->fenced;
    case CHANGE: return !w->changed && is_live(w);
    case PROMISE: return w->changed && !w->promised;
    case FENCE: return !w->fenced;
    case NORMAL: return w->fenced && !w->normal;
    case READER_VIEW: return w->reader == 0 && is_live(w) && w->reader_starts < 1;
    case READER_V: return w->reader == 1;
    case READER_CHECK: return w->reader == 2;
    default: return false;
    }
}

static bool may_inside(uint8_t act, uint8_t place)
{
    if (place == AT_VIEW_TWICE) return act == CHANGE || act == FENCE;
    return act >= LAPSE || (act >= PUBLISH && act < DURABLE) ||
           (act >= RESERVE && act < CHECK_LEASE);
}

/* ---- doing it ---- */

static void durable_step(struct world *w)
{
    struct wal_lane *lane = w->rig->lane;
    uint64_t next = atomic_load(&lane->next_seq);
    for (uint64_t seq = w->base_seq; seq != next; seq++) {
        const struct slot *s = lane_slot(lane, seq);
        if (!slot_is(s, seq, SLOT_PUBLISHED)) return;
        uint64_t end = s->lsn + s->covered_bytes;
        if (end <= atomic_load(&lane->durable)) continue;
        atomic_store(&lane->durable, end);
        return;
    }
}

static void inside(struct rig *rig, const char *hook)
{
    struct world *w = rig->inside_ctx;
    bool at_view = strcmp(hook, "view") == 0;
    if (at_view) w->decided_view = view_now(w);
    if (!at_view) w->decided_live |= is_live(w); /* it has just looked, nothing has come between */
    const struct step *s = w->inside;
    if (s == NULL || at_view != (s->place >= AT_VIEW)) return;
    w->inside = NULL; /* once */
    if (!may(w, s->inner)) return;
    apply(w, s->inner);
    if (s->place != AT_VIEW_TWICE) return;
    bool promised = w->promised, normal = w->normal;
    uint8_t next = s->inner == CHANGE ? PROMISE : NORMAL;
    if (may(w, next)) apply(w, next);
    w->closed_inside = w->promised != promised || w->normal != normal;
}

static void reader_step(struct world *w, uint8_t act)
{
    if (act == READER_VIEW) {
        w->reader_view = view_now(w);
        w->reader = 1;
        w->reader_starts++;
    } else if (act == READER_V) {
        w->seen = visible_batches(w);
        w->reader_late = w->promised && (w->reader_view & 1) == 0;
        w->reader = 2;
    } else if (is_live(w) && view_now(w) == w->reader_view) {
        w->reader = 3;
        if (w->reader_late) w->wrong = "a read of the older view is answered after the promise";
    } else {
        w->reader = 0;
    }
}

static void batch_step(struct world *w, uint32_t step, uint32_t b)
{
    if (step == TOKEN / 2) {
        w->token[b] = view_now(w);
        w->pc[b] = HAS_TOKEN;
    } else if (step == RESERVE / 2) {
        uint64_t now = view_now(w);
        atomic_store(&w->rig->view, w->token[b]); /* the rig reserves under what it finds there */
        assert_int_equal(rig_reserve(w->rig, w->id[b], 8 + 64 * b), 0);
        atomic_store(&w->rig->view, now);
        w->pc[b] = RESERVED;
    } else if (step == CHECK_LEASE / 2) {
        bool holds = is_live(w) && epoch(view_now(w)) == epoch(w->token[b]);
        w->pc[b] = holds ? CHECKED : ENDED;
        if (!holds) rig_give_up(w->rig, w->id[b]);
    } else {
        w->pc[b] = ENDED;
        rig_publish(w->rig, w->id[b]);
    }
}

static void apply(struct world *w, uint8_t act)
{
    struct rig *rig = w->rig;
    if (act < DURABLE) {
        batch_step(w, act / 2, act % 2);
        return;
    }
    switch (act) {
    case DURABLE: durable_step(w); break;
    case DECIDE: lane_decide(rig->lane); break;
    case LAPSE:
    case RENEW:
        w->lapsed = true;
        w->renewed = act == RENEW;
        atomic_store(&rig->live, act == RENEW);
        break;
    case CHANGE:
        w->changed = true;
        atomic_store(&rig->view, view_now(w) + 1);
        break;
    case PROMISE:
        if (wal_view_is_closed(rig->lane, view_now(w))) w->promised = true;
        break;
    case FENCE:
        w->fenced = true;
        atomic_store(&rig->live, false);
        atomic_store(&rig->view, view_now(w) + (UINT64_C(1) << RIG_EPOCH_SHIFT));
        break;
    case NORMAL:
        if (!wal_view_is_closed(rig->lane, view_now(w))) break;
        w->normal = true;
        if (w->changed) w->promised = true;
        atomic_store(&rig->live, true);
        break;
    default: reader_step(w, act); break;
    }
}

/* ---- what must hold ---- */

/* Of the slots of this run: what the control records below V say of the batch at lsn. */
static bool named_below_v(const struct world *w, uint64_t lsn)
{
    struct wal_lane *lane = w->rig->lane;
    for (uint64_t seq = w->base_seq; seq != atomic_load(&lane->decided_seq); seq++) {
        const struct slot *s = lane_slot(lane, seq);
        uint8_t type = atomic_load(&s->type);
        const uint8_t *payload = s->image->base + lsn_offset(s->lsn, lane->o.segment_bytes) + 64;
        if (s->lsn >= wal_visible(lane)) break;
        struct wal_void_set set = {0};
        const struct wal_record_head h = {
            .lsn = s->lsn, .type = type, .payload_bytes = s->payload_bytes};
        bool has = false;
        if (type == WAL_RECORD_FENCE || type == WAL_RECORD_ABORT) {
            assert_int_equal(wal_void_add(&set, &h, payload), 0);
            wal_void_seal(&set);
            has = wal_void_has(&set, lsn);
        }
        wal_void_deinit(&set);
        if (has) return true;
    }
    return false;
}

static void check_answer(struct world *w, uint32_t b)
{
    const struct rig_batch *x = &w->rig->batch[w->id[b]];
    bool named = named_below_v(w, x->r.lsn), below = x->r.lsn < wal_visible(w->rig->lane);
    if (!below) w->wrong = "answered before V has passed it";
    if (x->code == 0) {
        if (is_void(w, b)) w->wrong = "acknowledged and void";
        if (named) w->wrong = "an acknowledged batch lies in a void range";
    } else {
        if (!is_void(w, b)) w->wrong = "refused and not void";
        if (!named) w->wrong = "refused, and no record below V says so";
        bool unfit = x->code == -RFE_SCHEMA_CHANGED;
        if (unfit && (b != 0 || !w->changed)) w->wrong = "unfit, and it is not";
        if (!unfit && x->code != -RFE_LEASE_FENCED_RETRY) w->wrong = "another code";
        if (!unfit && !w->lapsed && !w->fenced) w->wrong = "fenced, and nothing had lapsed";
    }
}

/* was: who had been answered before the step. */
static void check_new_answers(struct world *w, const bool *was, bool was_promised, bool was_normal)
{
    for (uint32_t b = 0; b < BATCHES; b++) {
        if (w->pc[b] != ENDED || !rig_answered(w->rig, w->id[b])) continue;
        check_answer(w, b);
        if (was[b] || w->rig->batch[w->id[b]].code != 0) continue;
        if (epoch(w->token[b]) != epoch(w->decided_view))
            w->wrong = "acknowledged under another epoch";
        if (!w->decided_live) w->wrong = "acknowledged when the lease was over";
        bool unfit = b == 0 && w->changed && (w->token[b] & 1) == 0;
        if (unfit && (was_promised || w->closed_inside))
            w->wrong = "decided in an older view after the promise";
        if ((was_normal || w->closed_inside) && epoch(w->token[b]) != epoch(view_now(w)))
            w->wrong = "old view visible after NORMAL";
    }
    for (uint32_t b = 0; b < BATCHES; b++)
        if (w->reader == 3 && (w->seen >> b & 1) != 0 && is_void(w, b))
            w->wrong = "a reader was given rows that are then void";
    struct wal_lane *lane = w->rig->lane;
    if (lane->o.mode == WAL_SYNC && wal_visible(lane) > wal_durable(lane))
        w->wrong = "visible before it is durable";
    for (uint32_t b = 0; b < BATCHES; b++)
        if (w->pc[b] >= RESERVED && w->pc[b] < ENDED &&
            w->rig->batch[w->id[b]].r.lsn < wal_visible(lane))
            w->wrong = "visible before it is whole";
}

static void do_step(struct world *w, const struct step *s)
{
    bool was[BATCHES];
    for (uint32_t b = 0; b < BATCHES; b++)
        was[b] = w->pc[b] == ENDED && rig_answered(w->rig, w->id[b]);
    bool promised = w->promised, normal = w->normal;
    w->inside = s->place == AT_NONE ? NULL : s;
    w->decided_live = w->closed_inside = false;
    apply(w, s->act);
    w->inside = NULL;
    check_new_answers(w, was, promised, normal);
}

/* ---- runs ---- */

static void start_run(struct world *w, struct rig *rig)
{
    *w = (struct world){.rig = rig, .base_seq = atomic_load(&rig->lane->next_seq)};
    w->base_view = (epoch(atomic_load(&rig->view)) + 1) << RIG_EPOCH_SHIFT;
    atomic_store(&rig->view, w->base_view);
    atomic_store(&rig->live, true);
    rig->inside = inside;
    rig->inside_ctx = w;
    for (uint32_t b = 0; b < BATCHES; b++) {
        w->id[b] = 1 + b;
        memset(&rig->batch[w->id[b]], 0, sizeof rig->batch[0]);
    }
}

/* Whatever is open comes to its end; everybody has an answer then. The lane is at rest again. */
static void end_run(struct world *w)
{
    struct wal_lane *lane = w->rig->lane;
    for (uint32_t b = 0; b < BATCHES; b++)
        if (w->pc[b] == RESERVED || w->pc[b] == CHECKED) apply(w, (uint8_t)(PUBLISH + b));
    atomic_store(&w->rig->live, true);
    for (uint32_t n = 0; n < 12; n++) {
        durable_step(w);
        lane_decide(lane);
    }
    for (uint32_t b = 0; b < BATCHES && w->wrong == NULL; b++) {
        const struct rig_batch *x = &w->rig->batch[w->id[b]];
        if (w->pc[b] != ENDED || x->given_up) continue;
        if (!rig_answered(w->rig, w->id[b]))
            w->wrong = "never answered";
        else
            check_answer(w, b);
    }
    if (atomic_load(&lane->decided_seq) != atomic_load(&lane->next_seq))
        w->wrong = "undecided at the end";
    atomic_store(&lane->durable, wal_reserved(lane));
    atomic_store(&lane->scanned_seq, atomic_load(&lane->next_seq));
    if (wal_reserved(lane) % lane->o.segment_bytes > lane->o.segment_bytes / 2) {
        /* On to the next segment, as if this one were full. */
        lane->next_lsn = seg_end_lsn(lane, lane->cur->number);
        assert_int_equal(wal_trim(lane, wal_visible(lane)), 0);
        bool did = true;
        while (did)
            assert_int_equal(lane_prep_step(lane, &did), 0);
    }
}

/* All that the rules and the lane can still tell apart. */
static uint64_t state_key(const struct world *w)
{
    struct wal_lane *lane = w->rig->lane;
    uint64_t key[64];
    uint32_t n = 0;
    uint64_t first = w->base_seq, next = atomic_load(&lane->next_seq);
    key[n++] = w->pc[0] | w->pc[1] << 4 | (uint64_t)w->reader << 8 | (uint64_t)w->seen << 12 |
               (uint64_t)w->reader_starts << 16;
    key[n++] = (uint64_t)w->lapsed | w->renewed << 1 | w->changed << 2 | w->promised << 3 |
               w->fenced << 4 | w->normal << 5 | is_live(w) << 6 | w->reader_late << 7 |
               lane->fence_pending << 8;
    key[n++] = view_now(w) - w->base_view;
    key[n++] = w->reader != 0 ? w->reader_view - w->base_view : 0;
    for (uint32_t b = 0; b < BATCHES; b++) {
        key[n++] = w->pc[b] >= HAS_TOKEN ? w->token[b] - w->base_view : 0;
        key[n++] = w->pc[b] == ENDED && rig_answered(w->rig, w->id[b])
                       ? 1 + (uint64_t)(-w->rig->batch[w->id[b]].code)
                       : 0;
    }
    bool closing = atomic_load(&lane->close_view) == view_now(w);
    key[n++] = closing ? 1 + atomic_load(&lane->close_seq) - first : 0;
    key[n++] = atomic_load(&lane->decided_seq) - first;
    uint64_t durable = 0;
    for (uint64_t seq = first; seq != next && n < 60; seq++) {
        const struct slot *s = lane_slot(lane, seq);
        if (s->lsn + s->covered_bytes <= atomic_load(&lane->durable)) durable = seq - first + 1;
        bool published = slot_is(s, seq, SLOT_PUBLISHED);
        uint64_t named = s->named_by == SLOT_NOT_NAMED ? 0 : 1 + s->named_by - first;
        key[n++] = (uint64_t)atomic_load(&s->type) | (uint64_t)published << 8 | named << 16 |
                   (uint64_t)s->payload_bytes << 32;
    }
    key[n++] = durable;
    return hash64(key, n * sizeof key[0], 1);
}

struct node {
    uint32_t parent;
    uint32_t may; /* bits of enum act */
    struct step step;
};

struct search {
    struct rig *rig;
    struct node *nodes; /* STATES */
    uint64_t *seen;     /* STATES * 2, open addressed */
    uint32_t count;
    uint64_t runs;
};

static bool is_new(struct search *x, uint64_t key)
{
    if (key == 0) key = 1;
    uint64_t mask = (uint64_t)STATES * 2 - 1;
    for (uint64_t at = key & mask;; at = (at + 1) & mask) {
        if (x->seen[at] == key) return false;
        if (x->seen[at] != 0) continue;
        x->seen[at] = key;
        return true;
    }
}

static uint32_t path_to(const struct search *x, uint32_t node, struct step *path)
{
    uint32_t n = 0;
    for (; node != 0; node = x->nodes[node].parent)
        path[n++] = x->nodes[node].step;
    for (uint32_t i = 0; i < n / 2; i++) {
        struct step t = path[i];
        path[i] = path[n - 1 - i];
        path[n - 1 - i] = t;
    }
    return n;
}

static void tell_path(const struct world *w, const struct step *path, uint32_t n)
{
    static const char *const names[] = {
        "token 0",   "token 1", "reserve 0",   "reserve 1", "check 0",     "check 1", "publish 0",
        "publish 1", "durable", "decide",      "lapse",     "renew",       "change",  "promise",
        "fence",     "normal",  "reader view", "reader V",  "reader check"};
    printf("%s:\n", w->wrong);
    for (uint32_t i = 0; i < n; i++)
        printf("  %s%s%s%s\n", names[path[i].act],
               path[i].place == AT_NONE       ? ""
               : path[i].place == AT_DEADLINE ? ", behind its look at the deadline: "
                                              : ", behind its look at the view: ",
               path[i].place == AT_NONE ? "" : names[path[i].inner],
               path[i].place == AT_VIEW_TWICE ? " and what follows" : "");
}

static uint32_t all_that_may(const struct world *w)
{
    uint32_t bits = 0;
    for (uint8_t act = 0; act < ACTS; act++)
        if (may(w, act)) bits |= 1u << act;
    return bits;
}

/* One run: the steps to a state, one more, and to the end. */
static void try_step(struct search *x, uint32_t node, struct step *path, uint32_t n,
                     struct step last)
{
    struct world w;
    start_run(&w, x->rig);
    for (uint32_t i = 0; i < n; i++)
        do_step(&w, &path[i]);
    x->runs++;
    if (w.wrong == NULL) {
        do_step(&w, &last);
        path[n] = last;
        if (w.wrong == NULL && is_new(x, state_key(&w))) {
            assert_true(x->count < STATES);
            x->nodes[x->count++] = (struct node){node, all_that_may(&w), last};
        }
    }
    if (w.wrong == NULL) end_run(&w);
    if (w.wrong != NULL) tell_path(&w, path, n + 1);
    assert_null(w.wrong);
}

static void go_into(struct search *x, uint32_t node)
{
    struct step path[STEPS_MAX];
    uint32_t n = path_to(x, node, path);
    assert_true(n + 1 < STEPS_MAX);
    for (uint8_t act = 0; act < ACTS; act++) {
        if ((x->nodes[node].may >> act & 1) == 0) continue;
        try_step(x, node, path, n, (struct step){.act = act});
        for (uint8_t place = AT_DEADLINE; place < AT_PLACES; place++)
            if (may_inside(act, place))
                try_step(x, node, path, n, (struct step){DECIDE, act, place});
    }
}

static void explore(enum wal_mode mode)
{
    static struct rig rig;
    struct io_env *env;
    const struct fault_options fo = {.seed = 0};
    assert_int_equal(fault_env_open(&fo, &env), 0);
    const struct rig_options o = {.env = env, .mode = mode};
    rig_init(&rig, &o);
    /* Batch 0 (of id 1) fits no other version, batch 1 every one. */
    atomic_store(&rig.fits_from, UINT64_MAX);
    atomic_store(&rig.fits_always_from, 2);
    assert_int_equal(rig_open(&rig), 0);
    struct search x = {.rig = &rig, .count = 1};
    x.nodes = calloc(STATES, sizeof x.nodes[0]);
    x.seen = calloc((size_t)STATES * 2, sizeof x.seen[0]);
    assert_true(x.nodes != NULL && x.seen != NULL);
    struct world start;
    start_run(&start, &rig);
    x.nodes[0].may = all_that_may(&start);
    for (uint32_t node = 0; node < x.count; node++)
        go_into(&x, node);
    printf("mode %d: %" PRIu32 " states, %" PRIu64 " runs\n", mode, x.count, x.runs);
    assert_true(x.count > 1000);
    free(x.nodes);
    free(x.seen);
    assert_int_equal(wal_lane_close(rig.lane, true), 0); /* nothing of it went through the device */
    io_env_close(env);
}

static void sim_lane_decide__sync_every_order__keeps_the_models_rules(void **state)
{
    (void)state;
    explore(WAL_SYNC);
}
static void sim_lane_decide__async_every_order__keeps_the_models_rules(void **state)
{
    (void)state;
    explore(WAL_ASYNC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim_lane_decide__sync_every_order__keeps_the_models_rules),
        cmocka_unit_test(sim_lane_decide__async_every_order__keeps_the_models_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
