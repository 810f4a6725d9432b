/* The verdict and the void set against the model of one lane (commit_model.py).
 *
 * The model walks a lane from reserve to the second crash, with fences, aborts, void records and
 * cuts, and asks its own replay about every image on the way, damaged ones included.
 * replay_images.py writes those images and the model's answers; here wal/verdict.c has to answer
 * each of them alike: refused or not, the end, the salt in force, the batches that are applied.
 * ctest: timeout=600 */
#include "base/bytes.h"
#include "wal/cut.h"
#include "wal/record.h"
#include "wal/verdict.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    BLOCKS = 30, /* usable ones of the first segment; the second stays empty */
    BLOCK = 128, /* one record each */
    SEGMENT = (BLOCKS + 2) * BLOCK,
    NUMBER = 3,
    KIND_FENCE = 3,
    KIND_ABORT = 4,
    KIND_CUT = 5,
};

struct cell {
    bool there;
    unsigned kind, salt, position, arg, state, mark;
};
struct image {
    struct cell cell[BLOCKS];
    unsigned cells;
    unsigned refused, p, salt;
    unsigned present[BLOCKS], present_count;
};

static uint64_t lsn_of(unsigned block)
{
    return NUMBER * (uint64_t)SEGMENT + BLOCK + (uint64_t)block * BLOCK;
}
static uint64_t salt_of(unsigned index)
{
    return 0x9e3779b97f4a7c15u * (index + 1);
}

/* ---- from a line to bytes ---- */

static void parse(char *line, struct image *im)
{
    memset(im, 0, sizeof *im);
    char *rest = NULL;
    char *word = strtok_r(line, " \n", &rest);
    im->refused = (unsigned)atoi(word);
    im->p = (unsigned)atoi(strtok_r(NULL, " \n", &rest));
    im->salt = (unsigned)atoi(strtok_r(NULL, " \n", &rest));
    while (strcmp(word = strtok_r(NULL, " \n", &rest), "|") != 0)
        im->present[im->present_count++] = (unsigned)atoi(word);
    while ((word = strtok_r(NULL, " \n", &rest)) != NULL) {
        assert_true(im->cells < BLOCKS);
        struct cell *c = &im->cell[im->cells++];
        if (strcmp(word, "-") == 0) continue;
        c->there = true;
        assert_int_equal(sscanf(word, "%u,%u,%u,%u,%u,%u", &c->kind, &c->salt, &c->position,
                                &c->arg, &c->state, &c->mark),
                         6);
    }
}

static void render_cut(uint8_t *at, const struct cell *c, unsigned block)
{
    uint8_t copies[2 * BLOCK];
    const struct wal_cut_plan plan = {
        .kind = WAL_CUT_PAIR, .p_lsn = lsn_of(c->position), .pair_lsn = lsn_of(c->position)};
    assert_in_range(block, c->position, c->position + 1);
    wal_cut_render(copies, &plan, BLOCK, salt_of(c->salt), salt_of(c->arg));
    memcpy(at, copies + (block - c->position) * BLOCK, BLOCK);
}

static void render(uint8_t *at, const struct cell *c, unsigned block)
{
    if (c->kind == KIND_CUT) {
        render_cut(at, c, block);
        return;
    }
    assert_int_equal(c->position, block);
    uint8_t payload[16];
    uint64_t named = lsn_of(c->arg);
    struct wal_record_head h = {.lsn = lsn_of(block),
                                .mark = lsn_of(c->mark),
                                .covered_bytes = BLOCK,
                                .version = WAL_RECORD_VERSION};
    if (c->kind == KIND_FENCE) {
        h.type = WAL_RECORD_FENCE;
        h.payload_bytes = WAL_FENCE_PAYLOAD_BYTES;
        wal_fence_encode(payload, named);
    } else if (c->kind == KIND_ABORT) {
        h.type = WAL_RECORD_ABORT;
        h.payload_bytes = wal_abort_payload_bytes(1);
        wal_abort_encode(payload, &named, 1);
    } else {
        h.type = c->state == 2 ? WAL_RECORD_VOID : WAL_RECORD_DATA;
        h.payload_bytes = c->state == 2 ? 0 : 8;
        store_u64(payload, block);
    }
    h.payload_checksum = wal_payload_checksum(payload, h.payload_bytes, salt_of(c->salt));
    memcpy(at + WAL_RECORD_HEAD_BYTES, payload, h.payload_bytes);
    wal_record_encode(at, &h, salt_of(c->salt));
}

/* ---- asking the C code ---- */

static void expect_alike(const struct image *im)
{
    static uint8_t bytes[2][SEGMENT];
    memset(bytes, 0, sizeof bytes);
    for (unsigned i = 0; i < im->cells; i++)
        if (im->cell[i].there) render(bytes[0] + BLOCK + (size_t)i * BLOCK, &im->cell[i], i);
    struct wal_verdict_segment segments[2];
    memset(segments, 0, sizeof segments);
    for (unsigned i = 0; i < 2; i++) {
        segments[i].head.number = NUMBER + i;
        segments[i].head.salt = salt_of(i == 0 ? 0 : 99);
        segments[i].image = bytes[i];
    }
    const struct wal_verdict_input in = {.segment_bytes = SEGMENT,
                                         .block_bytes = BLOCK,
                                         .head_number = NUMBER,
                                         .segments = segments,
                                         .count = 2};
    struct wal_verdict v;
    struct err_msg msg = {0};
    int rc = wal_verdict_judge(&in, &msg, &v);
    assert_int_equal(rc, im->refused ? -RFE_CORRUPT : 0);
    assert_int_equal(v.end_lsn, lsn_of(im->p));
    assert_true(v.salt == salt_of(im->salt));
    if (rc == 0) {
        struct wal_cursor c;
        struct wal_record_head h;
        const uint8_t *payload = NULL;
        unsigned n = 0;
        wal_cursor_init_judged(&c, &in, &v);
        while (wal_cursor_next(&c, &h, &payload) == WAL_STEP_RECORD) {
            if (!wal_verdict_applies(&v, &h)) continue;
            assert_true(n < im->present_count);
            assert_int_equal(load_u64(payload), im->present[n++]);
        }
        assert_int_equal(n, im->present_count);
    }
    wal_verdict_deinit(&v);
}

/* ---- the runs ---- */

struct tally {
    unsigned long images, refused, fences, aborts, cuts, voids;
};

static void count(struct tally *t, const struct image *im)
{
    t->images++;
    t->refused += im->refused;
    for (unsigned i = 0; i < im->cells; i++) {
        const struct cell *c = &im->cell[i];
        t->fences += c->there && c->kind == KIND_FENCE;
        t->aborts += c->there && c->kind == KIND_ABORT;
        t->cuts += c->there && c->kind == KIND_CUT;
        t->voids += c->there && c->kind < KIND_FENCE && c->state == 2;
    }
}

static void run(const char *arguments)
{
    char command[512];
    snprintf(command, sizeof command, "python3 -B '%s/tests/sim/replay_images.py' %s",
             RF_SOURCE_DIR, arguments);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    struct tally t = {0};
    struct image im;
    char line[1024];
    unsigned long states = 0, images = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "end %lu %lu", &states, &images) == 2) break;
        parse(line, &im);
        expect_alike(&im);
        count(&t, &im);
    }
    assert_int_equal(pclose(f), 0);
    print_message(
        "%s: states %lu, images %lu, refused %lu | fences %lu, aborts %lu, cut copies %lu, "
        "void records %lu\n",
        arguments, states, t.images, t.refused, t.fences, t.aborts, t.cuts, t.voids);
    assert_true(images > 0);
    assert_int_equal(t.images, images);
    assert_true(t.refused > 0 && t.fences > 0 && t.cuts > 0 && t.voids > 0 && t.aborts > 0);
}

static void sim_replay__sync_lane__answers_as_the_model(void **state)
{
    (void)state;
    run("mode=SYNC");
}

static void sim_replay__async_lane__answers_as_the_model(void **state)
{
    (void)state;
    run("mode=ASYNC");
}

static void sim_replay__three_batches__answers_as_the_model(void **state)
{
    (void)state;
    run("mode=SYNC batches=3 renew=0 limit=150000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sim_replay__sync_lane__answers_as_the_model),
        cmocka_unit_test(sim_replay__async_lane__answers_as_the_model),
        cmocka_unit_test(sim_replay__three_batches__answers_as_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
