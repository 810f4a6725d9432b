/* ctest: timeout=400 */
/* Damage to a whole directory: bits flipped, the log cut at any byte, blocks zeroed, swapped, copied,
 * taken from an older life of their segment; segments removed, renamed, swapped, shortened; headers
 * of zeros; manifest and catalog older, missing, or another directory's.
 *
 * What must come of it is worked out from the marks alone (docs/format/wal.md): the first record that
 * is not whole is damage when any mark left lies behind it, and the log's end when none does. Then
 * rf_verify must say so and name the place, rf_open must refuse with the same place or open with
 * exactly the batches before the end, the next opening must find the same, and rf_salvage must get
 * back every batch that is whole.
 *
 * RF_DAMAGE_CASES  flips and cuts each (default 150)
 * RF_SEED          which bits, bytes and blocks */
#include "tests/lib/engine_rig.h"
#include "tests/lib/make_batch.h"
#include "tests/lib/tempdir.h"
#include "wal/record.h"
#include "wal/segment.h"
#include "wal/verdict.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { SEGMENT = 1 << 20, BLOCK = 4096, SEGMENTS_MAX = 12, RECORDS_MAX = 1024, OPS_MAX = 256 };

/* ---- a log that its writer left ---- */

struct op {
    bool is_delete;
    uint32_t batch; /* of writer 0 */
    uint64_t lsn;   /* 0: trimmed */
};

struct record {
    struct wal_record_head head;
    uint32_t op; /* UINT32_MAX: no batch */
};

static struct {
    struct io_env *env;
    struct op op[OPS_MAX];
    uint32_t op_count;
    uint64_t first_number;
    uint32_t segment_count;
    uint8_t *image[SEGMENTS_MAX];
    struct wal_segment_head head[SEGMENTS_MAX];
    uint8_t *older_life; /* of a file that was used again */
    struct record record[RECORDS_MAX];
    uint32_t record_count;
    uint64_t end_lsn;
    bool closed;
    uint8_t *older_catalog, *older_manifest;
    size_t older_catalog_bytes, older_manifest_bytes;
} base;

static struct make_random chance;

static uint8_t *read_whole(struct io_env *env, const char *path, size_t *bytes_out)
{
    struct io_file *file;
    uint64_t bytes;
    assert_int_equal(io_open(env, path, IO_READ, &file), 0);
    assert_int_equal(io_size(file, &bytes), 0);
    io_close(file);
    uint8_t *data = malloc(bytes + 1);
    assert_non_null(data);
    assert_int_equal(fault_peek(env, path, 0, data, bytes), 0);
    *bytes_out = bytes;
    return data;
}

static void add_op(bool is_delete, uint32_t batch)
{
    assert_true(base.op_count < OPS_MAX);
    base.op[base.op_count++] = (struct op){.is_delete = is_delete, .batch = batch};
}

static void write_now(struct engine_rig *rig, uint32_t batch, uint32_t blob_bytes)
{
    struct story_tablet t;
    story_tablet(&t, 0, batch, blob_bytes, 0);
    if (rf_write(rig->e, &t.tablet, &rig->error) != 0) fail_msg("%s", rig->error.text);
    add_op(false, batch);
    story_free(&t);
}

static void delete_now(struct engine_rig *rig, uint32_t batch)
{
    struct rf_delete_options o;
    struct rf_tag_filter tag;
    char text[4];
    story_delete(&o, &tag, text, 0, batch);
    if (rf_delete(rig->e, &o, &rig->error) != 0) fail_msg("%s", rig->error.text);
    add_op(true, batch);
}

/* Several in flight, so that their marks lie far behind them: damage among the last ones is the
 * log's end, with whole records behind it. */
static void write_side_by_side(struct engine_rig *rig, uint32_t first, uint32_t n)
{
    struct rf_queue *queue;
    struct story_tablet t;
    struct rf_completion c;
    assert_int_equal(rf_queue_open(rig->e, &queue), 0);
    for (uint32_t i = 0; i < n; i++) {
        story_tablet(&t, 0, first + i, 300, 0);
        assert_int_equal(rf_write_async(queue, &t.tablet, 1, 2000, NULL, NULL, &rig->error), 0);
        add_op(false, first + i);
        story_free(&t);
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(rf_completions(queue, &c, 1, 10000), 1);
        assert_int_equal(c.code, 0);
    }
    rf_queue_close(queue);
}

static void live(struct engine_rig *rig)
{
    uint32_t batch = 1;
    struct rf_trim_options trim;
    struct rf_stats stats = {.size = sizeof stats};
    size_t bytes;
    write_now(rig, batch++, 100);
    base.older_catalog = read_whole(rig->env, "catalog.db", &base.older_catalog_bytes);
    base.older_manifest = read_whole(rig->env, "manifest", &base.older_manifest_bytes);
    const struct rf_column_def later = {"later", RF_INT64, RF_FIELD};
    assert_int_equal(rf_table_add_columns(rig->e, STORY_TABLE, &later, 1, &rig->error), 0);
    while (batch < 26) /* two segments */
        write_now(rig, batch++, 12000 + make_below(&chance, 3000));
    base.older_life = read_whole(rig->env, "lane-00/0000000002", &bytes);
    assert_int_equal(bytes, SEGMENT);
    rf_trim_options_init(&trim);
    assert_int_equal(rf_stats(rig->e, &stats), 0);
    trim.before_position = stats.position;
    assert_int_equal(rf_trim(rig->e, &trim, NULL), 0);
    while (batch < 50) {
        write_now(rig, batch, 10000 + make_below(&chance, 6000));
        if (batch % 5 == 0) delete_now(rig, batch - 1);
        batch++;
    }
    for (uint32_t i = 0; i < 12; i++)
        write_now(rig, batch++, make_below(&chance, 300));
    delete_now(rig, batch - 2);
    write_side_by_side(rig, batch, 12);
}

/* ---- what the log holds, record by record ---- */

static void number_records(void)
{
    struct wal_verdict_segment views[SEGMENTS_MAX];
    struct wal_cursor cursor;
    struct wal_record_head h;
    const uint8_t *payload;
    for (uint32_t i = 0; i < base.segment_count; i++)
        views[i] = (struct wal_verdict_segment){.head = base.head[i], .image = base.image[i]};
    struct wal_verdict_input in = {.segment_bytes = SEGMENT,
                                   .block_bytes = BLOCK,
                                   .head_number = base.first_number,
                                   .segments = views,
                                   .count = base.segment_count};
    uint32_t batches = 0;
    base.record_count = 0;
    wal_cursor_init(&cursor, &in);
    while (wal_cursor_next(&cursor, &h, &payload) == WAL_STEP_RECORD) {
        assert_true(base.record_count < RECORDS_MAX);
        base.record[base.record_count++] = (struct record){.head = h, .op = UINT32_MAX};
        if (h.type != WAL_RECORD_PAD) base.closed = h.type == WAL_RECORD_CLOSE;
        if (wal_record_is_batch(h.type)) batches++;
    }
    base.end_lsn = wal_cursor_lsn(&cursor);
    assert_true(batches <= base.op_count);
    /* One thread wrote them: the log has them in that order, but for the oldest, which are trimmed. */
    uint32_t op = base.op_count - batches;
    for (uint32_t i = 0; i < op; i++)
        base.op[i].lsn = 0;
    for (uint32_t i = 0; i < base.record_count; i++) {
        if (!wal_record_is_batch(base.record[i].head.type)) continue;
        bool is_delete = base.record[i].head.type == WAL_RECORD_DELETE;
        assert_int_equal(is_delete, base.op[op].is_delete);
        base.record[i].op = op;
        base.op[op++].lsn = base.record[i].head.lsn;
    }
}

static int note_segment(void *ctx, const char *name, bool is_dir)
{
    uint64_t number;
    (void)ctx;
    if (is_dir || wal_segment_parse_name(name, &number) != WAL_NAME_SEGMENT) return 0;
    if (base.segment_count == 0) base.first_number = number;
    assert_int_equal(number, base.first_number + base.segment_count);
    assert_true(base.segment_count < SEGMENTS_MAX);
    base.segment_count++;
    return 0;
}

static void path_of(uint32_t index, char out[WAL_PATH_BYTES])
{
    wal_segment_path(out, 0, base.first_number + index);
}

/* The log of a life: closed in order, or as a power failure behind its last answer leaves it. */
static void make_base(bool closed)
{
    struct engine_rig rig;
    struct io_env *env, *left;
    char path[WAL_PATH_BYTES];
    const struct fault_options o = {.seed = make_random(&chance), .record = true};
    memset(&base, 0, sizeof base);
    assert_int_equal(fault_env_open(&o, &env), 0);
    engine_rig_init(&rig, env);
    if (engine_rig_open(&rig) != 0) fail_msg("rf_open: %s", rig.error.text);
    live(&rig);
    uint64_t at = fault_trace_length(env);
    assert_int_equal(engine_rig_close(&rig), 0);
    if (closed) at = fault_trace_length(env);
    const struct fault_options plain = {.seed = 0};
    assert_int_equal(fault_crash(env, at, fault_choice_drop, NULL, &plain, &left, NULL), 0);
    io_env_close(env);
    base.env = left;
    assert_int_equal(io_list(left, "lane-00", note_segment, NULL), 0);
    for (uint32_t i = 0; i < base.segment_count; i++) {
        size_t bytes;
        path_of(i, path);
        base.image[i] = read_whole(left, path, &bytes);
        assert_int_equal(bytes, SEGMENT);
        assert_int_equal(wal_segment_head_decode(base.image[i], BLOCK, &base.head[i]),
                         WAL_SEGMENT_HEAD_VALID);
    }
    number_records();
    assert_int_equal(base.closed, closed);
    assert_true(base.first_number > 1 && base.segment_count >= 4);
}

static void drop_base(void)
{
    for (uint32_t i = 0; i < base.segment_count; i++)
        free(base.image[i]);
    free(base.older_life);
    free(base.older_catalog);
    free(base.older_manifest);
    io_env_close(base.env);
}

/* ---- what must come of damage ---- */

struct expected {
    enum rf_verdict verdict;
    uint64_t p_lsn;            /* of a cut: the end; of damage: its place */
    uint64_t salvage_end;      /* behind this one nothing was ever acknowledged */
    bool whole[RECORDS_MAX];   /* by record */
    bool any_place;            /* of damage: it need not be named by p_lsn */
    char file[WAL_PATH_BYTES]; /* of damage: is in what is told */
};

static const uint8_t *at_lsn(uint8_t *const *images, uint64_t lsn)
{
    return images[lsn / SEGMENT - base.first_number] + lsn % SEGMENT;
}

/* images: of the damaged log. Its headers are as they were. */
static struct expected work_out(uint8_t *const *images)
{
    struct expected x = {.verdict = base.closed ? RF_VERDICT_CLEAN : RF_VERDICT_CUT,
                         .p_lsn = base.end_lsn};
    uint64_t highest = 0;
    for (uint32_t i = 0; i < base.segment_count; i++)
        if (base.head[i].mark > highest) highest = base.head[i].mark;
    bool ended = false;
    for (uint32_t i = 0; i < base.record_count; i++) {
        const struct wal_record_head *h = &base.record[i].head;
        const uint8_t *was = at_lsn(base.image, h->lsn), *is = at_lsn(images, h->lsn);
        bool head_whole = memcmp(was, is, WAL_RECORD_HEAD_BYTES) == 0;
        x.whole[i] = head_whole && memcmp(was + WAL_RECORD_HEAD_BYTES, is + WAL_RECORD_HEAD_BYTES,
                                          h->payload_bytes) == 0;
        if (head_whole && h->mark > highest) highest = h->mark;
        if (x.whole[i] || ended) continue;
        ended = true;
        x.p_lsn = h->lsn;
        x.verdict = RF_VERDICT_CUT; /* also for the pad that ends the close record's block */
    }
    if (ended && x.p_lsn < highest) x.verdict = RF_VERDICT_CORRUPT;
    x.salvage_end = UINT64_MAX;
    for (uint32_t i = base.record_count; i-- > 0;)
        if (!x.whole[i] && base.record[i].head.lsn >= highest)
            x.salvage_end = base.record[i].head.lsn;
    wal_segment_path(x.file, 0, x.p_lsn / SEGMENT);
    return x;
}

static struct story_told told;
static struct story_found found;

/* Batches below end_lsn are there, as far as is_whole (NULL: all) says that they are whole. */
static void tell(uint64_t end_lsn, const bool *is_whole)
{
    memset(&told, 0, sizeof told);
    for (uint32_t i = 0; i < base.record_count; i++) {
        if (base.record[i].op == UINT32_MAX || base.record[i].head.lsn >= end_lsn) continue;
        if (is_whole != NULL && !is_whole[i]) continue;
        const struct op *op = &base.op[base.record[i].op];
        if (op->is_delete) {
            told.low[0][op->batch] = FATE_ABSENT;
        } else {
            told.high[0][op->batch] = FATE_PRESENT;
            told.low[0][op->batch] = FATE_PRESENT;
        }
    }
}

static struct {
    uint32_t logs, refused, cut, as_before, opened, salvaged;
} counts;

static char what[256]; /* the damage, for a failure's message */

static void wrong(const struct expected *x, const char *how, const char *text)
{
    fail_msg("%s: %s: %s; expected verdict %d at %s offset %" PRIu64, what, how, text,
             (int)x->verdict, x->file, x->p_lsn % SEGMENT);
}

/* The place that a message names: the file, and of a record the offset too. */
static bool names_the_place(const struct expected *x, const char *text)
{
    char place[96];
    if (strstr(text, x->file) == NULL) return false;
    snprintf(place, sizeof place, "offset %" PRIu64, x->p_lsn % SEGMENT);
    return x->any_place || strstr(text, place) != NULL;
}

static void open_and_look(struct engine_rig *rig, const struct expected *x)
{
    if (engine_rig_open(rig) != 0) wrong(x, "open", rig->error.text);
    tell(x->p_lsn, NULL);
    if (!story_scan(rig->e, &found) || !story_is_right(&told, &found))
        wrong(x, "rows", "see above");
    assert_int_equal(engine_rig_close(rig), 0);
    counts.opened++;
}

/* open_too: also what takes longer. */
static void check(struct io_env *env, const struct expected *x, bool open_too)
{
    struct engine_rig rig;
    engine_rig_init(&rig, env);
    rig.quiet = true;
    counts.logs++;
    enum rf_verdict verdict = engine_rig_verify(&rig);
    if (verdict != x->verdict) wrong(x, verdict == RF_VERDICT_CORRUPT ? rig.fault : "verdict", "");
    if (verdict == RF_VERDICT_CORRUPT) {
        counts.refused++;
        if (!names_the_place(x, rig.fault)) wrong(x, "verify", rig.fault);
        int rc = open_too ? engine_rig_open(&rig) : -RF_CODE_CORRUPT;
        if (rc != -RF_CODE_CORRUPT || (open_too && !names_the_place(x, rig.error.text)))
            wrong(x, "open", rc == 0 ? "it opened" : rig.error.text);
        return;
    }
    if (x->p_lsn != base.end_lsn)
        counts.cut++;
    else
        counts.as_before++;
    if (!open_too) return;
    open_and_look(&rig, x);
    open_and_look(&rig, x); /* again: the same */
}

/* ---- salvage: on real files ---- */

struct copying {
    struct io_env *env;
    const char *folder, *to;
};

static int copy_out(void *ctx, const char *name, bool is_dir)
{
    struct copying *c = ctx;
    char from[300], to[600];
    snprintf(from, sizeof from, "%s%s%s", c->folder, c->folder[0] != '\0' ? "/" : "", name);
    snprintf(to, sizeof to, "%s/%s", c->to, from);
    if (is_dir) {
        struct copying inside = {.env = c->env, .folder = from, .to = c->to};
        assert_int_equal(mkdir(to, 0755), 0);
        return io_list(c->env, from, copy_out, &inside);
    }
    size_t bytes;
    uint8_t *data = read_whole(c->env, from, &bytes);
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, bytes), bytes);
    close(fd);
    free(data);
    return 0;
}

/* Every whole batch is saved that replay would not discard; what is lost is told. */
static void salvage(struct io_env *env, const struct expected *x)
{
    char top[TEMPDIR_BYTES], from[TEMPDIR_BYTES + 8], to[TEMPDIR_BYTES + 8];
    struct rf_salvage_report report = {.size = sizeof report};
    struct engine_rig rig;
    tempdir_make(top);
    snprintf(from, sizeof from, "%s/from", top);
    snprintf(to, sizeof to, "%s/to", top);
    assert_int_equal(mkdir(from, 0755), 0);
    struct copying c = {.env = env, .folder = "", .to = from};
    assert_int_equal(io_list(env, ".", copy_out, &c), 0);
    engine_rig_init(&rig, NULL);
    if (rf_salvage(from, to, NULL, NULL, &report, &rig.error) != 0)
        wrong(x, "salvage", rig.error.text);
    if (report.places == 0) wrong(x, "salvage", "nothing is said to be lost");
    rig.dir = to;
    if (engine_rig_open(&rig) != 0) wrong(x, "open what was salvaged", rig.error.text);
    tell(x->salvage_end, x->whole);
    if (!story_scan(rig.e, &found) || !story_is_right(&told, &found))
        wrong(x, "rows of what was salvaged", "see above");
    assert_int_equal(engine_rig_close(&rig), 0);
    tempdir_remove(top);
    counts.salvaged++;
}

/* ---- damage to bytes ---- */

/* Changes bytes of a copy of segment `index` and of the double, and checks. */
struct damage {
    struct io_env *env;
    uint8_t *image[SEGMENTS_MAX];
};

static void damage_begin(struct damage *d)
{
    assert_int_equal(fault_clone(base.env, &d->env), 0);
    memcpy(d->image, base.image, sizeof d->image);
}

static void damage_bytes(struct damage *d, uint32_t index, uint64_t offset, const void *bytes,
                         size_t n)
{
    char path[WAL_PATH_BYTES];
    if (d->image[index] == base.image[index]) {
        d->image[index] = malloc(SEGMENT);
        assert_non_null(d->image[index]);
        memcpy(d->image[index], base.image[index], SEGMENT);
    }
    memmove(d->image[index] + offset, bytes, n);
    path_of(index, path);
    assert_int_equal(fault_poke(d->env, path, offset, d->image[index] + offset, n), 0);
}

static void damage_check(struct damage *d, bool open_too, bool salvage_too)
{
    struct expected x = work_out(d->image);
    check(d->env, &x, open_too);
    if (salvage_too && x.verdict == RF_VERDICT_CORRUPT) salvage(d->env, &x);
}

static void damage_end(struct damage *d)
{
    for (uint32_t i = 0; i < base.segment_count; i++)
        if (d->image[i] != base.image[i]) free(d->image[i]);
    io_env_close(d->env);
}

static uint32_t cases_wanted(void)
{
    const char *text = getenv("RF_DAMAGE_CASES");
    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : 150;
}

static const uint8_t zeros[SEGMENT];

/* Every record in turn: in its header, in its payload, behind it. */
static void flip_bits(void)
{
    for (uint32_t n = 0; n < cases_wanted(); n++) {
        const struct wal_record_head *h = &base.record[n % base.record_count].head;
        uint32_t reach = n / base.record_count % 3 == 0 ? WAL_RECORD_HEAD_BYTES : h->covered_bytes;
        uint64_t lsn = h->lsn + make_below(&chance, reach);
        uint32_t index = (uint32_t)(lsn / SEGMENT - base.first_number);
        uint8_t byte = *at_lsn(base.image, lsn) ^ (uint8_t)(1u << make_below(&chance, 8));
        struct damage d;
        snprintf(what, sizeof what, "a bit flipped at lsn %" PRIu64 ", record %s at %" PRIu64, lsn,
                 wal_record_type_name(h->type), h->lsn);
        damage_begin(&d);
        damage_bytes(&d, index, lsn % SEGMENT, &byte, 1);
        damage_check(&d, n % 4 == 0, n % 16 == 0);
        damage_end(&d);
    }
}

/* The log zeroed from a byte on, to the end of all segments: the last records' every byte first, then
 * anywhere. */
static void cut_log(void)
{
    uint64_t first = base.record[0].head.lsn;
    for (uint32_t n = 0; n < cases_wanted(); n++) {
        uint64_t lsn = base.end_lsn - 1 - n;
        if (n % 2 == 1) lsn = first + make_random(&chance) % (base.end_lsn - first);
        uint64_t offset = lsn % SEGMENT;
        if (offset < BLOCK || offset >= SEGMENT - BLOCK) continue; /* a header's */
        uint32_t index = (uint32_t)(lsn / SEGMENT - base.first_number);
        struct damage d;
        snprintf(what, sizeof what, "zeros from lsn %" PRIu64 " on", lsn);
        damage_begin(&d);
        damage_bytes(&d, index, offset, zeros, SEGMENT - BLOCK - offset);
        for (uint32_t i = index + 1; i < base.segment_count; i++)
            damage_bytes(&d, i, BLOCK, zeros, SEGMENT - 2 * BLOCK);
        damage_check(&d, n % 4 == 0, false);
        damage_end(&d);
    }
}

struct block {
    uint32_t index;
    uint64_t offset;
};

static struct block random_block(void)
{
    uint64_t first = base.record[0].head.lsn / BLOCK;
    uint64_t last = base.end_lsn / BLOCK;
    for (;;) {
        uint64_t at = (first + make_random(&chance) % (last - first + 1)) * BLOCK;
        if (make_below(&chance, 2) == 0) at = (last - make_below(&chance, 12)) * BLOCK;
        struct block b = {(uint32_t)(at / SEGMENT - base.first_number), at % SEGMENT};
        if (b.offset >= BLOCK && b.offset < SEGMENT - BLOCK) return b;
    }
}

static void damage_blocks(void)
{
    static const char *const names[] = {"zeroed", "swapped", "copied over another",
                                        "of an older life", "of random bytes"};
    for (uint32_t n = 0; n < cases_wanted(); n++) {
        struct block a = random_block(), b = random_block();
        uint8_t noise[BLOCK], kept[BLOCK];
        struct damage d;
        snprintf(what, sizeof what,
                 "block %s: segment %u offset %" PRIu64 ", segment %u offset %" PRIu64,
                 names[n % 5], a.index, a.offset, b.index, b.offset);
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (uint8_t)make_random(&chance);
        damage_begin(&d);
        memcpy(kept, base.image[a.index] + a.offset, BLOCK);
        switch (n % 5) {
        case 0: damage_bytes(&d, a.index, a.offset, zeros, BLOCK); break;
        case 1:
            damage_bytes(&d, a.index, a.offset, base.image[b.index] + b.offset, BLOCK);
            damage_bytes(&d, b.index, b.offset, kept, BLOCK);
            break;
        case 2: damage_bytes(&d, b.index, b.offset, kept, BLOCK); break;
        case 3: damage_bytes(&d, a.index, a.offset, base.older_life + a.offset, BLOCK); break;
        default: damage_bytes(&d, a.index, a.offset, noise, BLOCK); break;
        }
        damage_check(&d, n % 4 == 0, n % 16 == 0);
        damage_end(&d);
    }
}

/* A header has two copies: one is enough, none is damage of that segment. */
static void damage_headers(void)
{
    for (uint32_t i = 0; i < base.segment_count; i++)
        for (uint32_t which = 1; which <= 3; which++) {
            struct damage d;
            snprintf(what, sizeof what, "header copies %u of segment %u zeroed", which, i);
            damage_begin(&d);
            if ((which & 1) != 0) damage_bytes(&d, i, 0, zeros, BLOCK);
            if ((which & 2) != 0) damage_bytes(&d, i, SEGMENT - BLOCK, zeros, BLOCK);
            struct expected x = work_out(d.image);
            if (which == 3) {
                x.verdict = RF_VERDICT_CORRUPT;
                x.any_place = true;
                path_of(i, x.file);
            }
            check(d.env, &x, true);
            damage_end(&d);
        }
}

/* ---- damage to names and files ---- */

static void set_size(struct io_env *env, const char *path, uint64_t bytes)
{
    struct io_file *file;
    assert_int_equal(io_open(env, path, IO_READ | IO_WRITE, &file), 0);
    assert_int_equal(io_truncate(file, bytes), 0);
    assert_int_equal(io_sync(file), 0);
    io_close(file);
}

/* Damage of which only the file is known. */
static void check_refused(struct io_env *env, const char *file)
{
    struct expected x = {.verdict = RF_VERDICT_CORRUPT, .any_place = true};
    snprintf(x.file, sizeof x.file, "%s", file);
    check(env, &x, true);
}

/* The numbers have no gap, the manifest names the first, and what holds records has a successor. */
static void remove_segments(void)
{
    uint32_t newest = (uint32_t)(base.end_lsn / SEGMENT - base.first_number);
    for (uint32_t i = 0; i < base.segment_count; i++) {
        char path[WAL_PATH_BYTES];
        struct io_env *env;
        snprintf(what, sizeof what, "segment %u removed", i);
        assert_int_equal(fault_clone(base.env, &env), 0);
        path_of(i, path);
        assert_int_equal(io_unlink(env, path), 0);
        if (i > newest + 1) { /* never used, and not the successor either */
            struct expected x = work_out(base.image);
            check(env, &x, true);
        } else {
            check_refused(env, path);
        }
        io_env_close(env);
    }
}

static void rename_segments(void)
{
    static const char aside[] = "lane-00/0000000099";
    for (uint32_t i = 0; i + 1 < base.segment_count; i++) {
        char path[WAL_PATH_BYTES], other[WAL_PATH_BYTES];
        struct io_env *env;
        snprintf(what, sizeof what, "segment %u renamed", i);
        assert_int_equal(fault_clone(base.env, &env), 0);
        path_of(i, path);
        path_of(i + 1, other);
        assert_int_equal(io_rename(env, path, aside), 0);
        struct expected x = {.verdict = RF_VERDICT_CORRUPT, .any_place = true};
        snprintf(x.file, sizeof x.file, "lane-00/00000000"); /* the gap, or the stranger */
        check(env, &x, true);
        snprintf(what, sizeof what, "segments %u and %u swapped", i, i + 1);
        assert_int_equal(io_rename(env, other, path), 0);
        assert_int_equal(io_rename(env, aside, other), 0);
        check(env, &x, true);
        io_env_close(env);
    }
}

static void resize_segments(void)
{
    for (uint32_t i = 0; i < base.segment_count; i++)
        for (uint32_t n = 0; n < 4; n++) {
            uint64_t bytes = n == 0   ? 0
                             : n == 1 ? SEGMENT - BLOCK
                             : n == 2 ? SEGMENT + BLOCK
                                      : make_random(&chance) % SEGMENT;
            char path[WAL_PATH_BYTES];
            struct io_env *env;
            snprintf(what, sizeof what, "segment %u of %" PRIu64 " bytes", i, bytes);
            assert_int_equal(fault_clone(base.env, &env), 0);
            path_of(i, path);
            set_size(env, path, bytes);
            check_refused(env, path);
            io_env_close(env);
        }
}

static void put(struct io_env *env, const char *path, const void *data, size_t bytes)
{
    set_size(env, path, 0);
    set_size(env, path, bytes);
    if (bytes != 0) assert_int_equal(fault_poke(env, path, 0, data, bytes), 0);
}

/* Opening says code; the log is not to blame, and is as it was once the right file is back. */
static void check_code(struct io_env *env, int code)
{
    struct engine_rig rig;
    engine_rig_init(&rig, env);
    counts.logs++;
    counts.refused++;
    int rc = engine_rig_open(&rig);
    if (rc != -code) fail_msg("%s: %d %s", what, rc, rig.error.text);
}

static uint8_t *another_catalog(size_t *bytes_out)
{
    struct engine_rig rig;
    struct io_env *env;
    const struct fault_options o = {.seed = 0};
    assert_int_equal(fault_env_open(&o, &env), 0);
    engine_rig_init(&rig, env);
    assert_int_equal(engine_rig_open(&rig), 0);
    write_now(&rig, 1, 100);
    base.op_count--;
    const struct rf_column_def later = {"later", RF_INT64, RF_FIELD};
    assert_int_equal(rf_table_add_columns(rig.e, STORY_TABLE, &later, 1, &rig.error), 0);
    assert_int_equal(engine_rig_close(&rig), 0);
    uint8_t *data = read_whole(env, "catalog.db", bytes_out);
    io_env_close(env);
    return data;
}

static void change_the_other_files(void)
{
    struct io_env *env;
    size_t bytes, manifest_bytes;
    uint8_t *other = another_catalog(&bytes);
    uint8_t *manifest = read_whole(base.env, "manifest", &manifest_bytes);
    assert_int_equal(fault_clone(base.env, &env), 0);

    snprintf(what, sizeof what, "another directory's catalog");
    put(env, "catalog.db", other, bytes);
    check_code(env, RF_CODE_WRONG_CATALOG);
    snprintf(what, sizeof what, "an older catalog");
    put(env, "catalog.db", base.older_catalog, base.older_catalog_bytes);
    check_code(env, RF_CODE_WRONG_CATALOG);
    io_env_close(env);

    assert_int_equal(fault_clone(base.env, &env), 0);
    snprintf(what, sizeof what, "an older manifest");
    put(env, "manifest", base.older_manifest, base.older_manifest_bytes);
    check_code(env, RF_CODE_CORRUPT);
    snprintf(what, sizeof what, "a manifest cut short");
    for (size_t n = 0; n < manifest_bytes; n += 7) {
        put(env, "manifest", manifest, n);
        check_code(env,
                   n < 8 ? RF_CODE_NOT_OURS : RF_CODE_CORRUPT); /* without its magic, with it */
    }
    snprintf(what, sizeof what, "no manifest");
    assert_int_equal(io_unlink(env, "manifest"), 0);
    check_code(env, RF_CODE_NOT_OURS);
    io_env_close(env);
    free(manifest);
    free(other);
}

/* ---- the cases ---- */

static void damaged(bool closed, void (*const *kinds)(void), uint32_t n)
{
    uint64_t seed = make_seed("crash_damage");
    chance.state = seed + closed;
    memset(&counts, 0, sizeof counts);
    make_base(closed);
    for (uint32_t i = 0; i < n; i++)
        kinds[i]();
    printf("%u damaged logs: %u refused with their place, %u cut, %u as before; opened %u, "
           "salvaged %u\n",
           counts.logs, counts.refused, counts.cut, counts.as_before, counts.opened,
           counts.salvaged);
    drop_base();
}

static void (*const bytes_kinds[])(void) = {flip_bits, cut_log, damage_blocks, damage_headers};
static void (*const file_kinds[])(void) = {remove_segments, rename_segments, resize_segments,
                                           change_the_other_files};

static void crash_damage__bytes_of_a_closed_log__exact_verdict(void **state)
{
    (void)state;
    damaged(true, bytes_kinds, 4);
    assert_true(counts.cut > 0 && counts.refused > 0 && counts.salvaged > 0);
}

static void crash_damage__bytes_of_a_log_left_by_a_crash__exact_verdict(void **state)
{
    (void)state;
    damaged(false, bytes_kinds, 4);
    assert_true(counts.cut > 0 && counts.refused > 0 && counts.salvaged > 0);
}

static void crash_damage__files_gone_swapped_or_older__refused(void **state)
{
    (void)state;
    damaged(true, file_kinds, 4);
    damaged(false, file_kinds, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crash_damage__bytes_of_a_closed_log__exact_verdict),
        cmocka_unit_test(crash_damage__bytes_of_a_log_left_by_a_crash__exact_verdict),
        cmocka_unit_test(crash_damage__files_gone_swapped_or_older__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
