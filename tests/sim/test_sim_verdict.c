/* Every image that a crash can leave of a small log, judged by wal/verdict.c itself.
 *
 * A life publishes records in order, submits whole blocks in order, at most QD in flight, which
 * complete in any order; each record carries the durable position known when it was published. At
 * every state the power fails with each subset of what is in flight on disk. Then the verdict must
 *   refuse none of these images, and find every acknowledged record in each;
 *   refuse the image with one of its records or blocks damaged, if a mark that is left lies above.
 * Then the log is cut, with a crash at each write of the cut, and lives a second time; after its
 * second crash, moreover, nothing of the first life that had been discarded may be back.
 *
 * It runs with one record a block, whole blocks kept or dropped, where the counts are those of the
 * model in Python that the design was checked with; and with two records a block, torn in the
 * middle as well.
 * ctest: timeout=300 */
#include "base/alloc.h"
#include "base/bytes.h"
#include "wal/cut.h"
#include "wal/record.h"
#include "wal/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    BLOCKS = 10, /* usable ones of the first segment; the second stays empty */
    PER_MAX = 2, /* records a block */
    SLOTS = BLOCKS * PER_MAX,
    SLOT_BYTES = 128, /* header and payload of one record */
    LIFE_MAX = 6,     /* records a life */
    NUMBER = 5,       /* of the first segment */
};

/* ---- images: cells, and the bytes they stand for ---- */

enum cell_kind { CELL_NONE, CELL_DATA, CELL_CUT, CELL_BAD };
struct cell {
    uint8_t kind, salt, id, mark, p, new_salt; /* mark and p as slots; p, new_salt of a cut */
};
struct log_image {
    struct cell cell[SLOTS];
};

static uint32_t per; /* records a block in this run */

static uint32_t block_bytes(void)
{
    return per * SLOT_BYTES;
}
static uint64_t segment_bytes(void)
{
    return (BLOCKS + 2) * (uint64_t)block_bytes();
}
static uint64_t slot_lsn(unsigned slot)
{
    return NUMBER * segment_bytes() + block_bytes() + (uint64_t)slot * SLOT_BYTES;
}
static uint64_t salt_of(unsigned index)
{
    return 0x9e3779b97f4a7c15u * (index + 1);
}

static void render_data(uint8_t *at, const struct cell *c, unsigned slot)
{
    uint8_t *payload = at + WAL_RECORD_HEAD_BYTES;
    memset(payload, c->id, 8);
    struct wal_record_head h = {.lsn = slot_lsn(slot),
                                .mark = slot_lsn(c->mark),
                                .payload_checksum =
                                    wal_payload_checksum(payload, 8, salt_of(c->salt)),
                                .payload_bytes = 8,
                                .covered_bytes = SLOT_BYTES,
                                .type = WAL_RECORD_DATA,
                                .version = WAL_RECORD_VERSION};
    wal_record_encode(at, &h, salt_of(c->salt));
}

/* The real writer's bytes: both copies are rendered, the one of this slot is taken. */
static void render_cut(uint8_t *at, const struct cell *c, unsigned slot)
{
    uint8_t blocks[2 * PER_MAX * SLOT_BYTES];
    struct wal_cut_plan plan = wal_cut_plan(slot_lsn(c->p), segment_bytes(), block_bytes(), false);
    plan.kind = WAL_CUT_PAIR; /* an empty log's cut is a new salt; here it is a pair like others */
    plan.pair_lsn = align_up(slot_lsn(c->p), block_bytes());
    unsigned copy = (unsigned)((slot_lsn(slot) - plan.pair_lsn) / block_bytes());
    assert_in_range(copy, 0, 1);
    wal_cut_render(blocks, &plan, block_bytes(), salt_of(c->salt), salt_of(c->new_salt));
    memcpy(at, blocks + copy * block_bytes(), SLOT_BYTES);
}

static void render(const struct log_image *im, uint8_t *bytes)
{
    memset(bytes, 0, segment_bytes());
    for (unsigned slot = 0; slot < BLOCKS * per; slot++) {
        uint8_t *at = bytes + block_bytes() + (size_t)slot * SLOT_BYTES;
        const struct cell *c = &im->cell[slot];
        if (c->kind == CELL_DATA) render_data(at, c, slot);
        if (c->kind == CELL_CUT) render_cut(at, c, slot);
        if (c->kind == CELL_BAD) memset(at, 0x5a, SLOT_BYTES);
    }
}

struct outcome {
    bool refused, cut_needed;
    unsigned p; /* slot */
    unsigned n;
    uint8_t ids[SLOTS];
    uint64_t salt, discarded;
};

static struct outcome judge(const struct log_image *im)
{
    static uint8_t bytes[2][(BLOCKS + 2) * PER_MAX * SLOT_BYTES];
    render(im, bytes[0]);
    memset(bytes[1], 0, sizeof bytes[1]);
    struct wal_verdict_segment segments[2];
    memset(segments, 0, sizeof segments);
    for (int i = 0; i < 2; i++) {
        segments[i].head.number = NUMBER + (uint64_t)i;
        segments[i].head.salt = salt_of(i == 0 ? 0 : 99);
        segments[i].image = bytes[i];
    }
    const struct wal_verdict_input in = {.segment_bytes = segment_bytes(),
                                         .block_bytes = block_bytes(),
                                         .head_number = NUMBER,
                                         .segments = segments,
                                         .count = 2};
    struct outcome o = {0};
    struct wal_verdict v;
    struct err_msg msg = {0};
    int rc = wal_verdict_judge(&in, &msg, &v);
    assert_true(rc == 0 || rc == -RFE_CORRUPT);
    o.refused = rc != 0;
    o.cut_needed = v.cut_needed;
    o.p = (unsigned)((v.end_lsn - slot_lsn(0)) / SLOT_BYTES);
    o.salt = v.salt;
    o.discarded = v.discarded_records;
    struct wal_cursor c;
    struct wal_record_head h;
    const uint8_t *payload = NULL;
    wal_cursor_init(&c, &in);
    while (wal_cursor_next(&c, &h, &payload) == WAL_STEP_RECORD)
        if (wal_verdict_applies(&v, &h)) o.ids[o.n++] = payload[0];
    wal_verdict_deinit(&v);
    return o;
}

/* ---- a set of numbers ---- */

struct set {
    uint64_t *key; /* 0: free */
    size_t room, count;
};
static bool set_add(struct set *s, uint64_t key)
{
    key++;
    if ((s->count + 1) * 2 > s->room) {
        struct set bigger = {.room = s->room != 0 ? s->room * 2 : 1024};
        bigger.key = mem_zalloc_array(bigger.room, sizeof *bigger.key);
        assert_non_null(bigger.key);
        for (size_t i = 0; i < s->room; i++)
            if (s->key[i] != 0) set_add(&bigger, s->key[i] - 1);
        mem_free(s->key);
        *s = bigger;
    }
    size_t at = (key * 0x9e3779b97f4a7c15u) % s->room;
    for (; s->key[at] != 0; at = (at + 1) % s->room)
        if (s->key[at] == key) return false;
    s->key[at] = key;
    s->count++;
    return true;
}

/* ---- one life ---- */

struct life {
    const struct log_image *base;
    unsigned start, records, depth; /* start: first slot, at a block's begin */
    uint8_t salt, first_id;
    void (*crashed)(void *ctx, const struct log_image *im, unsigned acknowledged);
    void *ctx;
    struct set states, images;
};
struct state {
    unsigned published, submitted; /* records, blocks */
    unsigned in_flight, done;      /* bits of blocks */
    uint8_t mark[LIFE_MAX];
};

static unsigned durable_blocks(const struct state *s)
{
    unsigned n = 0;
    while (s->done >> n & 1)
        n++;
    return n;
}

static uint64_t state_key(const struct state *s)
{
    uint64_t k = s->published | s->submitted << 3 | s->in_flight << 6 | s->done << 12;
    for (unsigned i = 0; i < LIFE_MAX; i++)
        k |= (uint64_t)s->mark[i] << (18 + 5 * i);
    return k;
}

/* Reports the crash that leaves these slots of the life on disk, once for each image. */
static void crash_with(struct life *l, const struct state *s, unsigned on_disk)
{
    unsigned acknowledged = durable_blocks(s) * per;
    uint64_t key = acknowledged;
    struct log_image im = *l->base;
    for (unsigned i = 0; i < l->records; i++) {
        if (!(on_disk >> i & 1)) continue;
        key |= (uint64_t)(1u << 5 | s->mark[i]) << (4 + 6 * i);
        im.cell[l->start + i] = (struct cell){.kind = CELL_DATA,
                                              .salt = l->salt,
                                              .id = (uint8_t)(l->first_id + i),
                                              .mark = s->mark[i]};
    }
    if (set_add(&l->images, key)) l->crashed(l->ctx, &im, acknowledged);
}

static unsigned slots_of(unsigned blocks)
{
    unsigned slots = 0;
    for (unsigned b = 0; b < LIFE_MAX; b++)
        if (blocks >> b & 1) slots |= ((1u << per) - 1) << (b * per);
    return slots;
}

static void crash_here(struct life *l, const struct state *s)
{
    unsigned kept = slots_of(s->done), loose = slots_of(s->in_flight);
    for (unsigned sub = loose;; sub = (sub - 1) & loose) { /* every subset: with two records a */
        crash_with(l, s, kept | sub);                      /* block, that is torn ones as well */
        if (sub == 0) break;
    }
}

static void live(struct life *l, const struct state *s)
{
    if (!set_add(&l->states, state_key(s))) return;
    crash_here(l, s);
    bool room = (unsigned)__builtin_popcount(s->in_flight) < l->depth;
    if (s->published < l->records && s->published < (s->submitted + 1) * per && (per > 1 || room)) {
        struct state next = *s;
        next.mark[next.published++] = (uint8_t)(l->start + durable_blocks(s) * per);
        if (per == 1) next.in_flight |= 1u << next.submitted++;
        live(l, &next);
    }
    if (per > 1 && room && s->published == (s->submitted + 1) * per) {
        struct state next = *s;
        next.in_flight |= 1u << next.submitted++;
        live(l, &next);
    }
    for (unsigned b = 0; b < LIFE_MAX; b++) {
        if (!(s->in_flight >> b & 1)) continue;
        struct state next = *s;
        next.in_flight &= ~(1u << b);
        next.done |= 1u << b;
        live(l, &next);
    }
}

static size_t live_all(struct life *l)
{
    struct state s = {0};
    live(l, &s);
    size_t images = l->images.count;
    mem_free(l->states.key);
    mem_free(l->images.key);
    return images;
}

/* ---- the first crash, and damage ---- */

struct count {
    unsigned long refused, lost, damaged, silent, unmarked;
    unsigned long cut_crashes, cut_changed, second, ghosts, second_lost, second_damaged, missed;
    unsigned depth, second_records;
};

static unsigned highest_mark(const struct log_image *im)
{
    unsigned mark = 0;
    for (unsigned i = 0; i < BLOCKS * per; i++)
        if (im->cell[i].kind == CELL_DATA || im->cell[i].kind == CELL_CUT)
            mark = im->cell[i].mark > mark ? im->cell[i].mark : mark;
    return mark;
}

/* Damages `width` slots from slot k on. Silent damage is allowed only where no mark that is left
 * lies above it. */
static void damage(const struct log_image *im, unsigned k, unsigned width, struct count *n)
{
    struct log_image bad = *im;
    for (unsigned i = 0; i < width; i++)
        bad.cell[k + i] = (struct cell){.kind = CELL_BAD};
    n->damaged++;
    if (judge(&bad).refused) return;
    n->silent++;
    n->unmarked += highest_mark(&bad) <= k;
}

static void first_crash(void *ctx, const struct log_image *im, unsigned acknowledged)
{
    struct count *n = ctx;
    struct outcome o = judge(im);
    n->refused += o.refused;
    bool lost = o.n < acknowledged;
    for (unsigned i = 0; i < o.n; i++)
        lost |= o.ids[i] != 'a' + i;
    n->lost += lost;
    for (unsigned k = 0; k < acknowledged; k++)
        damage(im, k, 1, n);
    for (unsigned k = 0; per > 1 && k < acknowledged; k += per)
        damage(im, k, per, n);
}

/* ---- the cut, a second life, a second crash ---- */

struct second {
    struct count *n;
    struct outcome before;
    unsigned append; /* slot */
};

static void second_damage(const struct log_image *im, unsigned k, const struct second *s)
{
    struct log_image bad = *im;
    bad.cell[k] = (struct cell){.kind = CELL_BAD};
    if (highest_mark(&bad) <= k) return;
    s->n->second_damaged++;
    s->n->missed += !judge(&bad).refused;
}

static void second_crash(void *ctx, const struct log_image *im, unsigned acknowledged)
{
    struct second *s = ctx;
    struct outcome o = judge(im);
    s->n->second++;
    bool lost = o.refused || o.n < s->before.n + acknowledged ||
                memcmp(o.ids, s->before.ids, s->before.n) != 0;
    bool ghost = false;
    for (unsigned i = s->before.n; i < o.n; i++) {
        ghost |= o.ids[i] < 'A' || o.ids[i] > 'Z';
        lost |= !ghost && o.ids[i] != 'A' + (i - s->before.n);
    }
    s->n->second_lost += lost;
    s->n->ghosts += ghost;
    for (unsigned k = 0; k < BLOCKS * per; k++) {
        bool in_log = k < s->before.p || (k >= s->append && im->cell[k].salt == 1);
        if (im->cell[k].kind == CELL_CUT || (in_log && im->cell[k].kind == CELL_DATA))
            second_damage(im, k, s);
    }
}

/* Puts copy i of a cut at p into the image. */
static void put_cut(struct log_image *im, unsigned p, unsigned i, uint8_t new_salt)
{
    unsigned at = (p + per - 1) / per * per + i * per;
    for (unsigned k = 0; k < per; k++)
        im->cell[at + k] = (struct cell){0};
    im->cell[at] =
        (struct cell){.kind = CELL_CUT, .mark = (uint8_t)p, .p = (uint8_t)p, .new_salt = new_salt};
}

static void expect_same(const struct log_image *im, const struct outcome *before, struct count *n)
{
    struct outcome o = judge(im);
    n->cut_crashes++;
    n->cut_changed += o.refused || o.n != before->n || memcmp(o.ids, before->ids, o.n) != 0;
}

static void cut_and_go_on(void *ctx, const struct log_image *im, unsigned acknowledged)
{
    (void)acknowledged;
    struct second s = {.n = ctx, .before = judge(im)};
    unsigned p = s.before.p;
    s.append = (p + per - 1) / per * per + 2 * per;
    for (unsigned first = 0; first < 4; first++) { /* which copies the crashed cut left */
        struct log_image half = *im;
        for (unsigned i = 0; i < 2; i++)
            if (first >> i & 1) put_cut(&half, p, i, 7);
        expect_same(&half, &s.before, s.n);
        for (unsigned again = 0; first < 3 && again < 4; again++) { /* and the one after it */
            struct log_image half2 = half;
            for (unsigned i = 0; i < 2; i++)
                if (again >> i & 1) put_cut(&half2, p, i, 1);
            expect_same(&half2, &s.before, s.n);
        }
    }
    struct log_image cut = *im;
    put_cut(&cut, p, 0, 1);
    put_cut(&cut, p, 1, 1);
    struct life l = {.base = &cut,
                     .start = s.append,
                     .records = s.n->second_records,
                     .depth = s.n->depth,
                     .salt = 1,
                     .first_id = 'A',
                     .crashed = second_crash,
                     .ctx = &s};
    live_all(&l);
}

/* The same, but appended at p under the same salt: what a log without cuts does. */
static void no_cut(void *ctx, const struct log_image *im, unsigned acknowledged)
{
    (void)acknowledged;
    struct second s = {.n = ctx, .before = judge(im)};
    s.append = (s.before.p + per - 1) / per * per;
    struct life l = {.base = im,
                     .start = s.append,
                     .records = s.n->second_records,
                     .depth = s.n->depth,
                     .first_id = 'A',
                     .crashed = second_crash,
                     .ctx = &s};
    live_all(&l);
}

/* ---- the runs ---- */

static size_t first_life(unsigned depth, unsigned records, struct count *n,
                         void (*crashed)(void *, const struct log_image *, unsigned))
{
    struct log_image empty;
    memset(&empty, 0, sizeof empty);
    struct life l = {.base = &empty,
                     .records = records,
                     .depth = depth,
                     .first_id = 'a',
                     .crashed = crashed,
                     .ctx = n};
    return live_all(&l);
}

/* What the model in Python counts with one record a block: states, damaged, silently cut. */
static const unsigned long python[4][3] = {{0}, {9, 16, 4}, {62, 143, 55}, {86, 173, 73}};

static void sim_verdict__one_record_a_block__is_the_model(void **state)
{
    (void)state;
    per = 1;
    for (unsigned depth = 1; depth <= 3; depth++) {
        struct count n = {.depth = depth};
        size_t states = first_life(depth, 4, &n, first_crash);
        print_message("one a block, depth %u: states %zu, refused %lu, lost %lu | damaged %lu, "
                      "silently cut %lu, of them unmarked %lu\n",
                      depth, states, n.refused, n.lost, n.damaged, n.silent, n.unmarked);
        assert_int_equal(states, python[depth][0]);
        assert_int_equal(n.damaged, python[depth][1]);
        assert_int_equal(n.silent, python[depth][2]);
        assert_int_equal(n.unmarked, n.silent);
        assert_int_equal(n.refused, 0);
        assert_int_equal(n.lost, 0);
    }
}

static void sim_verdict__two_records_a_block__holds(void **state)
{
    (void)state;
    per = 2;
    for (unsigned depth = 1; depth <= 3; depth++) {
        struct count n = {.depth = depth};
        size_t states = first_life(depth, 6, &n, first_crash);
        print_message("two a block, depth %u: states %zu, refused %lu, lost %lu | damaged %lu, "
                      "silently cut %lu, of them unmarked %lu\n",
                      depth, states, n.refused, n.lost, n.damaged, n.silent, n.unmarked);
        assert_true(states > python[depth][0]);
        assert_true(n.damaged > n.silent);
        assert_int_equal(n.unmarked, n.silent);
        assert_int_equal(n.refused, 0);
        assert_int_equal(n.lost, 0);
    }
}

static void run_second(unsigned depth, unsigned first, unsigned second, struct count *n)
{
    *n = (struct count){.depth = depth, .second_records = second};
    first_life(depth, first, n, cut_and_go_on);
    print_message("%u a block, depth %u, cut: crashes in the cut %lu, changed %lu | second crashes "
                  "%lu, ghosts %lu, lost or refused %lu | damaged %lu, missed %lu\n",
                  per, depth, n->cut_crashes, n->cut_changed, n->second, n->ghosts, n->second_lost,
                  n->second_damaged, n->missed);
    assert_int_equal(n->cut_changed, 0);
    assert_int_equal(n->ghosts, 0);
    assert_int_equal(n->second_lost, 0);
    assert_int_equal(n->missed, 0);
    assert_true(n->second_damaged > 0 && n->cut_crashes > 0);
}

static void sim_verdict__cut_and_second_crash__bring_nothing_back(void **state)
{
    (void)state;
    struct count n;
    per = 1;
    for (unsigned depth = 1; depth <= 3; depth++) {
        run_second(depth, 4, 2, &n);
        if (depth == 3) assert_int_equal(n.second, 774); /* as in Python */
    }
    per = 2;
    for (unsigned depth = 1; depth <= 3; depth++)
        run_second(depth, 6, 4, &n);
}

/* The control: without the cut's new salt the same run finds discarded records coming back, as many
 * as the model in Python does. */
static void sim_verdict__no_cut__discarded_records_come_back(void **state)
{
    (void)state;
    per = 1;
    struct count n = {.depth = 3, .second_records = 2};
    first_life(3, 4, &n, no_cut);
    print_message("no cut: second crashes %lu, ghosts %lu\n", n.second, n.ghosts);
    assert_int_equal(n.second, 774);
    assert_int_equal(n.ghosts, 83);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim_verdict__one_record_a_block__is_the_model),
        cmocka_unit_test(sim_verdict__two_records_a_block__holds),
        cmocka_unit_test(sim_verdict__cut_and_second_crash__bring_nothing_back),
        cmocka_unit_test(sim_verdict__no_cut__discarded_records_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
