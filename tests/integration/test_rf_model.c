/* ctest: concurrent timeout=300
 *
 * A random stream of everything that the public header offers, fed to the engine and to a reference
 * model, which have to agree on every answer and on every cell.
 *
 *   RF_SEED=n    that seed       RF_STEPS=n   so many steps a setting (default 200)
 *
 *   RF_KEEP=1    leave the directory of a run that failed
 *
 * Each run is a process of its own, so that a crash is a failure like any other. A stream that fails
 * is made shorter, step by step, for up to RF_SHRINK_S seconds (default 60) and then told. */
#include "rf_model.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- what a stream is made of ---- */

enum kind {
    STEP_WRITE,
    STEP_BURST, /* asynchronous writes, several in flight */
    STEP_DELETE,
    STEP_CHANGE, /* DDL */
    STEP_FENCE,
    STEP_RESTART,
    STEP_QUERY,
    STEP_UPKEEP, /* flush, trim, statistics */
    KINDS
};
static const char *const kind_names[KINDS] = {"write", "burst",   "delete", "change",
                                              "fence", "restart", "query",  "upkeep"};
static const uint32_t kind_weight[KINDS] = {34, 9, 14, 16, 7, 6, 8, 6};

struct setting {
    const char *name;
    enum rf_sync sync;
    enum rf_backend backend;
    uint32_t lanes, regions;
    bool mixed; /* another mode with each opening */
};

struct run {
    const struct setting *setting;
    uint64_t seed;
    bool tell;
    bool careful; /* compare after each step */
    char dir[64];
    struct model *m;
    struct rf_engine *e;
    struct rf_queue *queue;
    struct model_random random;
    struct rf_lease_request old_request;
    uint32_t spanning; /* batches refused because they span regions */
    struct model_why why;
    char what[400];
    unsigned char *arena; /* of one step */
    size_t arena_used;
    /* Names of this run's own, so that several can share an engine. */
    char table[3][16];
    char device[4][24];
    char database[2][16];
    bool among_others;
};

/* What a run's process leaves to its parent. */
struct outcome {
    uint32_t done[KINDS];
    uint32_t steps;
    uint32_t failed_at; /* index in the list of steps */
    uint64_t rows, points, refused, spanning;
    struct model_why why;
};

static struct outcome *shared;

__attribute__((format(printf, 2, 3))) static bool wrong(struct run *run, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(run->why.text, sizeof run->why.text, fmt, args);
    va_end(args);
    return false;
}

__attribute__((format(printf, 2, 3))) static void say(struct run *run, const char *fmt, ...)
{
    size_t at = strlen(run->what);
    va_list args;
    va_start(args, fmt);
    vsnprintf(run->what + at, sizeof run->what - at, fmt, args);
    va_end(args);
}

/* ---- memory of one step ---- */

#define ARENA_BYTES ((size_t)24 << 20)

static void *take(struct run *run, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (run->arena_used + bytes > ARENA_BYTES) abort();
    void *p = run->arena + run->arena_used;
    run->arena_used += bytes;
    memset(p, 0xa5, bytes);
    return p;
}

/* ---- tablets ---- */

static const char *const table_names[] = {"cpu", "mem", "net"};
static const char *const device_names[] = {"ln.d0", "ln.d1.x", "ln.d2", "sg.d0"};
static const char *const tag_names[] = {"host", "rack", "zone", "slot"};
static const char *const field_names[] = {"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"};
static const enum rf_type types[] = {RF_BOOLEAN, RF_INT32, RF_INT64,     RF_FLOAT, RF_DOUBLE,
                                     RF_TEXT,    RF_BLOB,  RF_TIMESTAMP, RF_DATE,  RF_STRING};
#define COUNT(a) ((uint32_t)(sizeof(a) / sizeof *(a)))

static const char long_tag[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                               "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                               "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
                               "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
                               "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
                               "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzz";
static const char *const tag_values[] = {"", "a", "b", "bb", "h-17", "\xc3\xa9", long_tag, NULL};

static const char *random_tag(struct run *run)
{
    return tag_values[model_below(&run->random, COUNT(tag_values))];
}

static int64_t random_time(struct run *run)
{
    struct model_random *r = &run->random;
    switch (model_below(r, 16)) {
    case 0: return INT64_MIN + model_below(r, 4);
    case 1: return INT64_MAX - model_below(r, 4);
    case 2: return (int64_t)model_below(r, 40000) - 20000;
    case 3: return -1000 + (int64_t)model_below(r, 3) - 1; /* about a partition's edge */
    default: return (int64_t)model_below(r, 1200) - 600;
    }
}

static const int64_t *random_times(struct run *run, uint32_t rows)
{
    int64_t *t = take(run, rows * sizeof *t);
    uint32_t shape = model_below(&run->random, 4);
    int64_t at = (int64_t)model_below(&run->random, 4000) - 2000;
    for (uint32_t i = 0; i < rows; i++) {
        if (shape == 0)
            t[i] = random_time(run);
        else if (shape == 1)
            t[i] = at + model_below(&run->random, 30); /* duplicates, out of order */
        else
            t[i] = at += model_below(&run->random, shape == 2 ? 3 : 120);
    }
    return t;
}

static uint8_t *random_nulls(struct run *run, uint32_t rows)
{
    uint32_t shape = model_below(&run->random, 6), percent = model_below(&run->random, 100);
    if (shape < 2) return NULL;
    uint8_t *nulls = take(run, rows / 8 + 1); /* bits behind the last row are left as they are */
    for (uint32_t i = 0; i < rows; i++) {
        bool null = shape == 2 || (shape > 3 && model_chance(&run->random, percent));
        nulls[i / 8] = (uint8_t)((nulls[i / 8] & ~(1u << i % 8)) | (unsigned)null << i % 8);
    }
    return nulls;
}

static uint64_t random_bits(struct run *run, enum rf_type type)
{
    static const uint64_t doubles[] = {UINT64_C(0x7ff0000000000000),
                                       UINT64_C(0xfff0000000000000),
                                       UINT64_C(0x7ff8000000000000),
                                       UINT64_C(0x7ff0000000000001),
                                       UINT64_C(0xffffffffffffffff),
                                       UINT64_C(0x8000000000000000),
                                       1};
    static const uint32_t floats[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0x80000000};
    if (type == RF_DOUBLE && model_chance(&run->random, 30))
        return doubles[model_below(&run->random, COUNT(doubles))];
    if (type == RF_FLOAT && model_chance(&run->random, 30))
        return floats[model_below(&run->random, COUNT(floats))];
    return model_random(&run->random);
}

static void random_fixed(struct run *run, struct rf_column *c, uint32_t rows)
{
    uint32_t width = model_type_bytes(c->type);
    uint8_t *values = take(run, (size_t)rows * width);
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t bits = random_bits(run, c->type);
        if (c->type == RF_BOOLEAN) bits &= 1;
        memcpy(values + (size_t)i * width, &bits, width);
    }
    c->values = values;
}

static void random_variable(struct run *run, struct rf_column *c, uint32_t rows)
{
    uint32_t *offsets = take(run, (rows + 1) * sizeof *offsets);
    uint32_t longest = model_chance(&run->random, 5) ? 3000 : 1 + model_below(&run->random, 20);
    uint32_t at = model_below(&run->random, 3);
    uint8_t *values = take(run, (size_t)rows * longest + 4);
    offsets[0] = at;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t bytes = model_chance(&run->random, 20) ? 0 : model_below(&run->random, longest);
        for (uint32_t b = 0; b < bytes; b++) /* text stays text */
            values[at++] = c->type == RF_BLOB ? (uint8_t)model_random(&run->random)
                                              : (uint8_t)('a' + model_below(&run->random, 26));
        offsets[i + 1] = at;
    }
    c->values = values;
    c->offsets = offsets;
}

static void random_tags(struct run *run, struct rf_column *c, uint32_t rows, bool one)
{
    uint32_t *offsets = take(run, (rows + 1) * sizeof *offsets);
    uint8_t *nulls = take(run, rows / 8 + 1);
    char *values = take(run, (size_t)rows * sizeof long_tag);
    uint32_t at = 0;
    const char *same = random_tag(run);
    offsets[0] = 0;
    for (uint32_t i = 0; i < rows; i++) {
        const char *v = one ? same : random_tag(run);
        size_t bytes = v == NULL ? 0 : strlen(v);
        if (bytes > 0) memcpy(values + at, v, bytes);
        offsets[i + 1] = at += (uint32_t)bytes;
        nulls[i / 8] = (uint8_t)((nulls[i / 8] & ~(1u << i % 8)) | (unsigned)(v == NULL) << i % 8);
    }
    c->values = values;
    c->offsets = offsets;
    c->nulls = nulls;
    if (one && same == NULL && model_chance(&run->random, 50)) /* null in every row */
        *c = (struct rf_column){.name = c->name, .type = c->type, .category = c->category};
}

/* How a tablet may be. */
struct taste {
    bool only_known; /* no new table, no new column */
    bool one_device;
    bool bad_type;
};

static enum rf_type type_of_name(struct run *run, const char *relation, const char *name)
{
    /* Two tablets of one batch have to agree on a column that is new. */
    uint64_t h = run->random.state == 0;
    for (const char *p = relation; *p != '\0'; p++)
        h = h * 31 + (unsigned char)*p;
    for (const char *p = name; *p != '\0'; p++)
        h = h * 31 + (unsigned char)*p;
    const struct model_relation *r =
        model_relation(run->m, relation, strchr(relation, '.') != NULL);
    struct model_random once = {.state = h + r->column_count * 977};
    return types[model_below(&once, COUNT(types))];
}

static void add_columns(struct run *run, struct rf_tablet *t, struct rf_column *columns,
                        const struct model_relation *r, const struct taste *taste)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < COUNT(tag_names) && !r->tree; i++) {
        bool known = model_column(r, tag_names[i]) != NULL;
        if (!model_chance(&run->random, known ? 80 : r->exists ? 3 : 40)) continue;
        if (!known && taste->only_known) continue;
        columns[n++] = (struct rf_column){.name = tag_names[i], .type = RF_STRING};
    }
    for (uint32_t i = 0; i < COUNT(field_names); i++) {
        const struct model_column *known = model_column(r, field_names[i]);
        if (!model_chance(&run->random, known != NULL ? 60 : r->exists ? 6 : 40)) continue;
        if (known == NULL && taste->only_known) continue;
        if (known != NULL && known->category == RF_TAG) continue; /* a tag was renamed to it */
        columns[n++] = (struct rf_column){
            .name = field_names[i],
            .type = known != NULL ? known->type : type_of_name(run, r->name, field_names[i]),
            .category = RF_FIELD};
    }
    if (n == 0 && r->tree) { /* needs one */
        const struct model_column *known = model_column(r, "f0");
        columns[n++] = (struct rf_column){.name = "f0",
                                          .type = known != NULL ? known->type
                                                                : type_of_name(run, r->name, "f0"),
                                          .category = RF_FIELD};
    }
    if (taste->bad_type && n > 0) {
        struct rf_column *c = &columns[n - 1];
        /* Of a column that is there: two tablets of a batch agree on what is new. */
        if (c->category == RF_FIELD && model_column(r, c->name) != NULL)
            c->type = c->type == RF_INT32 ? RF_DOUBLE : RF_INT32;
    }
    for (uint32_t i = n; i > 1; i--) { /* in any order */
        uint32_t k = model_below(&run->random, i);
        struct rf_column swap = columns[i - 1];
        columns[i - 1] = columns[k];
        columns[k] = swap;
    }
    t->columns = n;
    t->column = columns;
}

static uint32_t random_rows(struct run *run)
{
    switch (model_below(&run->random, 10)) {
    case 0:
    case 1: return 1;
    case 2: return 1 + model_below(&run->random, 400);
    case 3: return 8 * (1 + model_below(&run->random, 8));
    default: return 1 + model_below(&run->random, 40);
    }
}

static void random_tablet(struct run *run, struct rf_tablet *t, const struct taste *taste)
{
    bool tree = model_chance(&run->random, 35);
    const char *name = tree ? run->device[model_below(&run->random, COUNT(device_names))]
                            : run->table[model_below(&run->random, COUNT(table_names))];
    struct rf_column *columns =
        take(run, (COUNT(tag_names) + COUNT(field_names)) * sizeof *columns);
    *t = (struct rf_tablet){.size = sizeof *t,
                            .table = tree ? NULL : name,
                            .device = tree ? name : NULL,
                            .rows = random_rows(run)};
    t->times = random_times(run, t->rows);
    add_columns(run, t, columns, model_relation(run->m, name, tree), taste);
    for (uint32_t i = 0; i < t->columns; i++) {
        struct rf_column *c = &columns[i];
        if (c->category == RF_TAG) {
            random_tags(run, c, t->rows, taste->one_device);
            continue;
        }
        if (model_chance(&run->random, 4)) continue; /* a NULL array */
        c->nulls = random_nulls(run, t->rows);
        if (model_type_bytes(c->type) == 0)
            random_variable(run, c, t->rows);
        else
            random_fixed(run, c, t->rows);
    }
    say(run, " %s[%u rows, %u columns, from %" PRId64 "]", name, t->rows, t->columns, t->times[0]);
}

/* ---- writes ---- */

static uint64_t position(struct run *run)
{
    struct rf_stats s = {.size = sizeof s};
    return rf_stats(run->e, &s) == 0 ? s.position : 0;
}

/* New columns wait for the catalog's disk, which may be slow here: that is no failure. */
static int write_patiently(struct run *run, const struct rf_tablet *t, uint32_t n,
                           struct rf_error *error)
{
    int rc = 0;
    for (int i = 0; i < 100; i++) {
        rc = n == 1 ? rf_write(run->e, t, error) : rf_write_batch(run->e, t, n, error);
        if (rc != -RF_CODE_WRITE_REJECT) break;
    }
    return rc;
}

static bool spans(struct run *run, int rc)
{
    if (run->setting->regions == 1 || rc != -RF_CODE_SPANS_REGIONS) return false;
    run->spanning++;
    return true;
}

static bool step_write(struct run *run, struct outcome *out)
{
    struct model_random *r = &run->random;
    struct taste taste = {.one_device = model_chance(r, run->setting->regions > 1 ? 80 : 30),
                          .bad_type = model_chance(r, 6)};
    uint32_t n = model_chance(r, run->setting->regions > 1 ? 15 : 35) ? 2 + model_below(r, 3) : 1;
    struct rf_tablet t[4];
    for (uint32_t i = 0; i < n; i++)
        random_tablet(run, &t[i], &taste);
    int want = model_expect_write(run->m, t, n);
    uint64_t before = position(run);
    struct rf_error error = {.text = ""};
    int rc = write_patiently(run, t, n, &error);
    if (want == 0 && spans(run, rc)) return true;
    if (rc != want) return wrong(run, "rf_write: %d (%s), not %d", rc, error.text, want);
    if (rc != 0) {
        out->refused++;
        return true;
    }
    model_write(run->m, t, n, before);
    for (uint32_t i = 0; i < n; i++)
        out->points += (uint64_t)t[i].rows * t[i].columns;
    return true;
}

static bool collect(struct run *run, uint32_t n, int *codes)
{
    for (uint32_t got = 0; got < n;) {
        struct rf_completion c[8];
        int k = rf_completions(run->queue, c, 8, 60000);
        if (k <= 0) return wrong(run, "rf_completions: %d with %u to come", k, n - got);
        for (int i = 0; i < k; i++)
            codes[(uintptr_t)c[i].user] = c[i].code;
        got += (uint32_t)k;
    }
    if (rf_queue_in_flight(run->queue) != 0) return wrong(run, "in flight after all came");
    return true;
}

static bool step_burst(struct run *run, struct outcome *out)
{
    struct taste taste = {.one_device = model_chance(&run->random, 50)};
    uint32_t n = 2 + model_below(&run->random, 6), begun = 0;
    int codes[8];
    for (uint32_t i = 0; i < n; i++) {
        struct rf_tablet t;
        random_tablet(run, &t, &taste);
        int want = model_expect_write(run->m, &t, 1);
        uint64_t before = position(run);
        struct rf_error error = {.text = ""};
        int rc = 0;
        for (int k = 0; k < 100; k++) {
            rc = rf_write_async(run->queue, &t, 1, 5000, NULL, (void *)(uintptr_t)begun, &error);
            if (rc != -RF_CODE_WRITE_REJECT) break;
        }
        if (want == 0 && spans(run, rc)) continue;
        if (rc != want) return wrong(run, "rf_write_async: %d (%s), not %d", rc, error.text, want);
        if (rc != 0) continue;
        begun++;
        model_write(run->m, &t, 1, before);
        out->points += (uint64_t)t.rows * t.columns;
    }
    if (!collect(run, begun, codes)) return false;
    for (uint32_t i = 0; i < begun; i++)
        if (codes[i] != 0) return wrong(run, "completion %u carries %d", i, codes[i]);
    return true;
}

/* ---- what queries and deletes are about ---- */

struct aim {
    const struct model_relation *r;
    struct rf_tag_filter tags[4];
    uint32_t tag_count;
    const char *columns[16];
    uint32_t column_count;
    int64_t from, to;
};

static void random_range(struct run *run, struct aim *a)
{
    a->from = INT64_MIN;
    a->to = INT64_MAX;
    uint32_t shape = model_below(&run->random, 6);
    if (shape == 0) return;
    if (shape != 1) a->from = random_time(run);
    if (shape != 2) a->to = random_time(run);
    if (a->from > a->to && shape < 5) { /* else: covers nothing */
        int64_t swap = a->from;
        a->from = a->to;
        a->to = swap;
    }
}

static void random_aim(struct run *run, struct aim *a)
{
    struct model_random *r = &run->random;
    bool tree = model_chance(r, 35);
    const char *name = tree ? run->device[model_below(r, COUNT(device_names))]
                            : run->table[model_below(r, COUNT(table_names))];
    *a = (struct aim){.r = model_relation(run->m, name, tree)};
    random_range(run, a);
    if (!a->r->exists) return;
    bool some = model_chance(r, 40);
    for (uint32_t i = 0; i < a->r->column_count; i++) {
        const struct model_column *c = &a->r->columns[i];
        if (c->dropped) continue;
        if (c->category == RF_TAG && model_chance(r, 25))
            a->tags[a->tag_count++] =
                (struct rf_tag_filter){.name = c->name, .value = random_tag(run)};
        if (c->category == RF_FIELD && some && a->column_count < 16 && model_chance(r, 50))
            a->columns[a->column_count++] = c->name;
    }
    if (a->column_count > 1 && model_chance(r, 50)) { /* in an order of their own */
        const char *swap = a->columns[0];
        a->columns[0] = a->columns[a->column_count - 1];
        a->columns[a->column_count - 1] = swap;
    }
}

static void say_aim(struct run *run, const struct aim *a)
{
    say(run, " %s [%" PRId64 ", %" PRId64 "] %u columns, %u tags:", a->r->name, a->from, a->to,
        a->column_count, a->tag_count);
    for (uint32_t i = 0; i < a->tag_count; i++)
        say(run, " %s=%.8s", a->tags[i].name, a->tags[i].value ? a->tags[i].value : "(null)");
    for (uint32_t i = 0; i < a->column_count; i++)
        say(run, " %s", a->columns[i]);
}

static bool step_query(struct run *run, struct outcome *out)
{
    (void)out;
    for (int i = 0; i < 4; i++) {
        struct aim a;
        struct rf_scan_options o;
        random_aim(run, &a);
        if (i == 3) say_aim(run, &a);
        rf_scan_options_init(&o);
        if (a.r->tree)
            o.device = a.r->name;
        else
            o.table = a.r->name;
        o.tags = a.tag_count > 0 ? a.tags : NULL;
        o.tag_count = a.tag_count;
        o.columns = a.column_count > 0 ? a.columns : NULL;
        o.column_count = a.column_count;
        o.time_from = a.from;
        o.time_to = a.to;
        o.descending = model_chance(&run->random, 50);
        if (model_chance(&run->random, 40)) o.limit = model_below(&run->random, 60);
        if (!model_compare_scan(run->m, run->e, &o, &run->why)) return false;
    }
    return model_compare_tables(run->m, run->e, &run->why);
}

static bool step_delete(struct run *run, struct outcome *out)
{
    (void)out;
    struct aim a;
    struct rf_delete_options o;
    random_aim(run, &a);
    say_aim(run, &a);
    rf_delete_options_init(&o);
    if (a.r->tree)
        o.device = a.r->name;
    else
        o.table = a.r->name;
    o.tags = a.tag_count > 0 ? a.tags : NULL;
    o.tag_count = a.tag_count;
    o.columns = a.column_count > 0 ? a.columns : NULL;
    o.column_count = a.column_count;
    o.time_from = a.from;
    o.time_to = a.to;
    struct rf_error error = {.text = ""};
    int want = a.r->exists ? 0 : a.r->tree ? -RF_CODE_NO_DATABASE : -RF_CODE_NO_TABLE;
    int rc = rf_delete(run->e, &o, &error);
    if (rc != want) return wrong(run, "rf_delete: %d (%s), not %d", rc, error.text, want);
    if (rc == 0) model_delete(run->m, &o);
    return true;
}

/* ---- changes ---- */

static bool answered(struct run *run, const char *call, int rc, int want,
                     const struct rf_error *error)
{
    say(run, " %s: %d", call, rc);
    return rc == want ? true : wrong(run, "%s: %d (%s), not %d", call, rc, error->text, want);
}

static uint32_t random_defs(struct run *run, struct rf_column_def *defs, bool tags)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < COUNT(tag_names) && tags; i++)
        if (model_chance(&run->random, 40))
            defs[n++] = (struct rf_column_def){tag_names[i], RF_STRING, RF_TAG};
    for (uint32_t i = 0; i < COUNT(field_names); i++)
        if (model_chance(&run->random, 25))
            defs[n++] = (struct rf_column_def){
                field_names[i], types[model_below(&run->random, COUNT(types))], RF_FIELD};
    return n;
}

static bool change_create(struct run *run, const char *table)
{
    struct rf_column_def defs[16];
    struct rf_error error = {.text = ""};
    uint32_t n = random_defs(run, defs, true);
    bool there = model_relation(run->m, table, false)->exists;
    uint64_t before = position(run);
    int rc = rf_table_create(run->e, table, defs, n, 0, &error);
    if (!answered(run, "rf_table_create", rc, there ? -RF_CODE_TABLE_EXISTS : 0, &error))
        return false;
    if (rc == 0) model_create_table(run->m, table, defs, n, 0, before);
    return true;
}

static bool change_add(struct run *run, const char *table)
{
    struct rf_column_def defs[16];
    struct rf_error error = {.text = ""};
    const struct model_relation *r = model_relation(run->m, table, false);
    uint32_t n = random_defs(run, defs, model_chance(&run->random, 20));
    int want = r->exists ? 0 : -RF_CODE_NO_TABLE;
    for (uint32_t i = 0; i < n && r->exists; i++)
        if (model_column(r, defs[i].name) != NULL) want = -RF_CODE_COLUMN_EXISTS;
    int rc = rf_table_add_columns(run->e, table, defs, n, &error);
    if (!answered(run, "rf_table_add_columns", rc, want, &error)) return false;
    if (rc == 0) model_add_columns(run->m, table, defs, n);
    return true;
}

/* Any name that a column may have, live ones more often. */
static const char *some_column(struct run *run, const struct model_relation *r)
{
    if (r->column_count > 0 && model_chance(&run->random, 80))
        return r->columns[model_below(&run->random, r->column_count)].name;
    return field_names[model_below(&run->random, COUNT(field_names))];
}

static bool change_drop_column(struct run *run, const char *table)
{
    struct rf_error error = {.text = ""};
    const struct model_relation *r = model_relation(run->m, table, false);
    char name[32];
    snprintf(name, sizeof name, "%s", some_column(run, r));
    const struct model_column *c = model_column(r, name);
    int want = !r->exists              ? -RF_CODE_NO_TABLE
               : c == NULL             ? -RF_CODE_NO_COLUMN
               : c->category == RF_TAG ? -RF_CODE_SEMANTIC_ERROR
                                       : 0;
    say(run, " %s.%s", table, name);
    int rc = rf_table_drop_column(run->e, table, name, &error);
    if (!answered(run, "rf_table_drop_column", rc, want, &error)) return false;
    if (rc == 0) model_drop_column(run->m, table, name);
    return true;
}

static bool change_rename(struct run *run, const char *table)
{
    struct rf_error error = {.text = ""};
    const struct model_relation *r = model_relation(run->m, table, false);
    char from[32], to[32];
    snprintf(from, sizeof from, "%s", some_column(run, r));
    const struct model_column *c = model_column(r, from);
    if (c != NULL && c->category == RF_TAG) /* keep the two pools apart */
        snprintf(to, sizeof to, "%s", tag_names[model_below(&run->random, COUNT(tag_names))]);
    else
        snprintf(to, sizeof to, "%s", field_names[model_below(&run->random, COUNT(field_names))]);
    int want = !r->exists                                             ? -RF_CODE_NO_TABLE
               : c == NULL                                            ? -RF_CODE_NO_COLUMN
               : strcmp(from, to) != 0 && model_column(r, to) != NULL ? -RF_CODE_COLUMN_EXISTS
                                                                      : 0;
    say(run, " %s.%s to %s", table, from, to);
    int rc = rf_table_rename_column(run->e, table, from, to, &error);
    if (!answered(run, "rf_table_rename_column", rc, want, &error)) return false;
    if (rc == 0) model_rename_column(run->m, table, from, to);
    return true;
}

/* A table's or a database's name, and whether it is there. */
static const char *some_table(struct run *run, bool *there)
{
    uint32_t i = model_below(&run->random, COUNT(table_names) + 2);
    if (i < COUNT(table_names)) {
        *there = model_relation(run->m, run->table[i], false)->exists;
        return run->table[i];
    }
    i -= COUNT(table_names);
    *there = model_relation(run->m, run->device[i == 0 ? 0 : 3], true)->exists;
    return run->database[i];
}

static bool change_drop_table(struct run *run)
{
    struct rf_error error = {.text = ""};
    bool there;
    const char *name = some_table(run, &there);
    say(run, " %s", name);
    int rc = rf_table_drop(run->e, name, &error);
    if (!answered(run, "rf_table_drop", rc, there ? 0 : -RF_CODE_NO_TABLE, &error)) return false;
    if (rc == 0) model_drop_table(run->m, name);
    return true;
}

/* Either hides all but the last times, or the first times alone, whenever the test runs. */
static bool change_ttl(struct run *run)
{
    struct rf_error error = {.text = ""};
    static const int64_t day = INT64_C(86400) * 1000000000;
    const int64_t ttls[] = {0, 0, -5, INT64_MAX, day};
    int64_t ttl = ttls[model_below(&run->random, COUNT(ttls))];
    bool there;
    const char *name = some_table(run, &there);
    say(run, " %s %" PRId64, name, ttl);
    int rc = rf_table_set_ttl(run->e, name, ttl, &error);
    if (!answered(run, "rf_table_set_ttl", rc, there ? 0 : -RF_CODE_NO_TABLE, &error)) return false;
    if (rc == 0) model_set_ttl(run->m, name, ttl);
    return true;
}

static bool change_series(struct run *run, bool drop)
{
    struct rf_error error = {.text = ""};
    const char *device = run->device[model_below(&run->random, COUNT(device_names))];
    const struct model_relation *r = model_relation(run->m, device, true);
    char name[32];
    snprintf(name, sizeof name, "%s", some_column(run, r));
    bool there = model_column(r, name) != NULL;
    say(run, " %s.%s", device, name);
    if (drop) {
        int want = !r->exists ? -RF_CODE_NO_TABLE : there ? 0 : -RF_CODE_NO_COLUMN;
        int rc = rf_series_drop(run->e, device, name, &error);
        if (!answered(run, "rf_series_drop", rc, want, &error)) return false;
        if (rc == 0) model_drop_column(run->m, device, name);
        return true;
    }
    enum rf_type type = types[model_below(&run->random, COUNT(types))];
    uint64_t before = position(run);
    int rc = rf_series_create(run->e, device, name, type, &error);
    if (!answered(run, "rf_series_create", rc, there ? -RF_CODE_COLUMN_EXISTS : 0, &error))
        return false;
    if (rc == 0) model_create_series(run->m, device, name, type, before);
    return true;
}

static bool step_change(struct run *run, struct outcome *out)
{
    (void)out;
    const char *table = run->table[model_below(&run->random, COUNT(table_names))];
    switch (model_below(&run->random, 12)) {
    case 0: return change_create(run, table);
    case 1:
    case 2: return change_add(run, table);
    case 3:
    case 4: return change_drop_column(run, table);
    case 5:
    case 6: return change_rename(run, table);
    case 7: return change_drop_table(run);
    case 8: return change_ttl(run);
    case 9: return change_series(run, false);
    default: return change_series(run, true);
    }
}

/* ---- the lease ---- */

static bool resume_lease(struct run *run)
{
    struct rf_lease_request request;
    int rc = rf_lease_ask(run->e, &request);
    if (rc != 0) return wrong(run, "rf_lease_ask: %d", rc);
    rc = rf_lease_resume(run->e, &request, 3600000);
    if (rc != 0) return wrong(run, "rf_lease_resume: %d", rc);
    run->old_request = request;
    return true;
}

/* Everything is refused, and says so, while the lease is ended. */
static bool refused_while_fenced(struct run *run)
{
    struct taste taste = {.only_known = true, .one_device = true};
    struct rf_tablet t;
    random_tablet(run, &t, &taste);
    int rc = rf_write_async(run->queue, &t, 1, 0, NULL, NULL, NULL);
    if (rc != -RF_CODE_LEASE_FENCED_RETRY) return wrong(run, "fenced: rf_write_async: %d", rc);
    struct rf_scan_options o;
    struct rf_cursor *cursor;
    uint64_t rows;
    rf_scan_options_init(&o);
    o.table = run->table[0];
    rc = rf_scan_open(run->e, &o, &cursor, NULL);
    if (rc != -RF_CODE_LEASE_FENCED) return wrong(run, "fenced: rf_scan_open: %d", rc);
    rc = rf_count(run->e, &o, &rows, NULL);
    if (rc != -RF_CODE_LEASE_FENCED) return wrong(run, "fenced: rf_count: %d", rc);
    struct rf_stats s = {.size = sizeof s};
    if (rf_stats(run->e, &s) != 0 || !s.fenced_now) return wrong(run, "fenced: not in rf_stats");
    rc = rf_lease_grant(run->e, &run->old_request, 3600000);
    if (rc != -ESTALE) return wrong(run, "fenced: a grant asked for before: %d", rc);
    if (!model_chance(&run->random, 25)) return true;
    rc = rf_write(run->e, &t, NULL); /* waits its time first */
    if (rc != -RF_CODE_LEASE_FENCED_RETRY) return wrong(run, "fenced: rf_write: %d", rc);
    struct rf_delete_options d;
    rf_delete_options_init(&d);
    d.table = run->table[0];
    rc = rf_delete(run->e, &d, NULL);
    return rc == -RF_CODE_LEASE_FENCED_RETRY ? true : wrong(run, "fenced: rf_delete: %d", rc);
}

static bool step_fence(struct run *run, struct outcome *out)
{
    /* Some batches are under way: each is decided before the fence, or never; in a lane those are a
     * prefix of what was begun. */
    struct taste taste = {.only_known = true, .one_device = true};
    uint32_t n = model_below(&run->random, 6), begun = 0;
    struct rf_tablet t[6];
    int codes[8];
    for (uint32_t i = 0; i < n; i++) {
        random_tablet(run, &t[begun], &taste);
        const char *name = t[begun].table != NULL ? t[begun].table : t[begun].device;
        const struct model_relation *r = model_relation(run->m, name, t[begun].device != NULL);
        bool known = r->exists && t[begun].columns > 0;
        for (uint32_t c = 0; c < t[begun].columns; c++)
            known = known && model_column(r, t[begun].column[c].name) != NULL;
        if (!known || model_expect_write(run->m, &t[begun], 1) != 0) continue;
        int rc =
            rf_write_async(run->queue, &t[begun], 1, 5000, NULL, (void *)(uintptr_t)begun, NULL);
        if (rc != 0) return wrong(run, "rf_write_async: %d", rc);
        begun++;
    }
    int rc = rf_lease_fence(run->e);
    if (rc != 0) return wrong(run, "rf_lease_fence: %d", rc);
    if (!collect(run, begun, codes)) return false;
    bool ended = false;
    for (uint32_t i = 0; i < begun; i++) {
        if (codes[i] != 0 && codes[i] != -RF_CODE_LEASE_FENCED_RETRY)
            return wrong(run, "completion %u carries %d", i, codes[i]);
        if (codes[i] == 0 && ended && run->setting->lanes == 1)
            return wrong(run, "batch %u was decided after one that was not", i);
        ended = ended || codes[i] != 0;
        say(run, " %d", codes[i]);
        if (codes[i] == 0) model_write(run->m, &t[i], 1, 0);
    }
    out->refused += ended;
    if (!refused_while_fenced(run)) return false;
    /* Changes go to who owns the tables, fenced or not. */
    if (model_chance(&run->random, 40) && !step_change(run, out)) return false;
    return resume_lease(run);
}

/* ---- opening and upkeep ---- */

static bool open_engine(struct run *run)
{
    struct rf_options o;
    struct rf_error error = {.text = ""};
    rf_options_init(&o);
    o.segment_bytes = 1 << 20;
    o.memory_bytes = UINT64_C(200) << 20;
    o.log_bytes_max = UINT64_C(128) << 20;
    o.lanes = run->setting->lanes;
    o.regions = run->setting->regions;
    o.partition_interval = 1000;
    o.sync = run->setting->sync;
    o.backend = run->setting->backend;
    if (run->setting->mixed) {
        o.sync = (enum rf_sync)model_below(&run->random, 3);
        o.backend = (enum rf_backend)model_below(&run->random, 3);
    }
    o.lease = RF_LEASE_EXTERNAL;
    o.write_wait_ms = 120;
    o.log_level = RF_LOG_ERROR;
    say(run, " sync %d backend %d", (int)o.sync, (int)o.backend);
    int rc = rf_open(run->dir, &o, &run->e, &error);
    if (rc != 0) return wrong(run, "rf_open: %d %s", rc, error.text);
    rc = rf_queue_open(run->e, &run->queue);
    if (rc != 0) return wrong(run, "rf_queue_open: %d", rc);
    return resume_lease(run);
}

static bool close_engine(struct run *run)
{
    rf_queue_close(run->queue);
    int rc = rf_close(run->e);
    run->e = NULL;
    return rc == 0 ? true : wrong(run, "rf_close: %d", rc);
}

static void print_fault(void *ctx, const char *text)
{
    (void)ctx;
    fprintf(stderr, "%s\n", text);
}

/* What lies there while nobody has it open: clean, and the same to somebody who only reads. */
static bool look_while_closed(struct run *run)
{
    enum rf_verdict verdict = RF_VERDICT_CORRUPT;
    int rc = rf_verify(run->dir, 1000, print_fault, NULL, &verdict, NULL);
    if (rc != 0 || verdict != RF_VERDICT_CLEAN)
        return wrong(run, "rf_verify: %d, verdict %d", rc, (int)verdict);
    struct rf_options o;
    struct rf_error error = {.text = ""};
    rf_options_init(&o);
    o.flags = RF_READ_ONLY;
    rc = rf_open(run->dir, &o, &run->e, &error);
    if (rc != 0) return wrong(run, "rf_open to read: %d %s", rc, error.text);
    bool same = model_compare_all(run->m, run->e, &run->why);
    rc = rf_close(run->e);
    run->e = NULL;
    return same && rc != 0 ? wrong(run, "rf_close: %d", rc) : same;
}

static bool step_restart(struct run *run, struct outcome *out)
{
    (void)out;
    if (!close_engine(run)) return false;
    if (model_chance(&run->random, 30) && !look_while_closed(run)) return false;
    if (!open_engine(run)) return false;
    struct rf_stats s = {.size = sizeof s};
    if (rf_stats(run->e, &s) != 0 || !s.opened_clean || s.discarded_records != 0)
        return wrong(run,
                     "opened after a close, and not clean: %" PRIu64 " records discarded, "
                     "%" PRIu64 " batches found",
                     s.discarded_records, s.replayed_batches);
    return model_compare_all(run->m, run->e, &run->why);
}

/* Frees what lies below the oldest table that is left: nobody may miss a row. */
static bool trim(struct run *run)
{
    if (run->setting->lanes > 1) return true; /* positions of other lanes are not told */
    uint64_t before = position(run), reached = 0;
    for (uint32_t i = 0; i < run->m->relation_count; i++)
        if (run->m->relations[i].exists && run->m->relations[i].born < before)
            before = run->m->relations[i].born;
    if (before == 0) return true;
    struct rf_trim_options o;
    rf_trim_options_init(&o);
    o.before_position = before;
    int rc = rf_trim(run->e, &o, &reached);
    say(run, " trim below %" PRIu64 " reached %" PRIu64, before, reached);
    if (rc != 0) return wrong(run, "rf_trim: %d", rc);
    return reached <= before ? true : wrong(run, "rf_trim went too far");
}

static bool step_upkeep(struct run *run, struct outcome *out)
{
    (void)out;
    int rc = rf_flush(run->e);
    if (rc != 0) return wrong(run, "rf_flush: %d", rc);
    struct rf_stats s = {.size = sizeof s};
    rc = rf_stats(run->e, &s);
    if (rc != 0) return wrong(run, "rf_stats: %d", rc);
    if (s.durable_position < s.position)
        return wrong(run, "after rf_flush: durable %" PRIu64 ", visible %" PRIu64,
                     s.durable_position, s.position);
    if (s.unknown != 0 || s.latched) return wrong(run, "rf_stats: unknown or latched");
    return trim(run);
}

/* ---- one run ---- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    struct model_random r = {.state = a ^ b * UINT64_C(0xd1342543de82ef95)};
    return model_random(&r);
}

/* Of each hundred steps, as many of a kind as its weight says. */
static enum kind kind_of(uint64_t seed, uint32_t step)
{
    static const uint32_t strides[] = {37, 63, 11, 77, 29, 83, 13, 91}; /* prime to 100 */
    uint64_t block = mix(seed, UINT64_C(1) << 32 | step / 100);
    uint32_t dice = (uint32_t)(step % 100 * strides[block % 8] + block / 8 % 100) % 100;
    uint32_t kind = 0;
    while (dice >= kind_weight[kind])
        dice -= kind_weight[kind++];
    return (enum kind)kind;
}

static bool one_step(struct run *run, uint32_t step, struct outcome *out)
{
    static bool (*const steps[KINDS])(struct run *, struct outcome *) = {
        step_write, step_burst,   step_delete, step_change,
        step_fence, step_restart, step_query,  step_upkeep};
    run->random.state = mix(run->seed, step);
    run->arena_used = 0;
    run->what[0] = '\0';
    enum kind kind = kind_of(run->seed, step);
    out->done[kind]++;
    bool good = steps[kind](run, out);
    if (good && run->careful) good = model_compare_all(run->m, run->e, &run->why);
    if (run->tell)
        fprintf(stderr, "  step %u %s%s%s%s\n", step, kind_names[kind], run->what,
                good ? "" : " -> ", good ? "" : run->why.text);
    return good;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

/* prefix: of its tables' and databases' names. */
static void begin_run(struct run *run, const char *prefix)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    run->arena = malloc(ARENA_BYTES);
    if (run->arena == NULL) abort();
    run->m = model_create();
    run->m->now = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    run->m->shared = run->among_others;
    for (uint32_t i = 0; i < COUNT(table_names); i++) {
        snprintf(run->table[i], sizeof run->table[i], "%s%s", prefix, table_names[i]);
        (void)model_relation(run->m, run->table[i], false);
    }
    for (uint32_t i = 0; i < COUNT(device_names); i++) {
        snprintf(run->device[i], sizeof run->device[i], "root.%s%s", prefix, device_names[i]);
        (void)model_relation(run->m, run->device[i], true);
    }
    snprintf(run->database[0], sizeof run->database[0], "root.%sln", prefix);
    snprintf(run->database[1], sizeof run->database[1], "root.%ssg", prefix);
    run->random.state = run->seed;
}

static void end_run(struct run *run)
{
    model_destroy(run->m);
    free(run->arena);
}

static bool run_steps(struct run *run, const uint32_t *steps, uint32_t n, struct outcome *out)
{
    begin_run(run, "");
    bool good = open_engine(run);
    for (uint32_t i = 0; i < n && good; i++) {
        out->failed_at = i;
        good = one_step(run, steps[i], out);
        if (good && i % 40 == 39) good = model_compare_all(run->m, run->e, &run->why);
        out->steps = i + 1;
    }
    if (good) good = model_compare_all(run->m, run->e, &run->why) && close_engine(run);
    out->rows = model_rows(run->m);
    out->spanning = run->spanning;
    out->why = run->why;
    end_run(run);
    return good;
}

/* ---- several at once ---- */

#define TOGETHER 4

struct together {
    pthread_t thread;
    struct run run;
    struct outcome out;
    uint32_t steps;
    bool good;
};

static void *run_beside_others(void *arg)
{
    struct together *t = arg;
    struct run *run = &t->run;
    t->good = rf_queue_open(run->e, &run->queue) == 0;
    for (uint32_t i = 0; i < t->steps && t->good; i++) {
        enum kind kind = kind_of(run->seed, i);
        if (kind == STEP_FENCE || kind == STEP_RESTART || kind == STEP_UPKEEP) continue;
        t->good = one_step(run, i, &t->out);
        t->out.failed_at = i;
        if (t->good && i % 40 == 39) t->good = model_compare_all(run->m, run->e, &run->why);
    }
    rf_queue_close(run->queue);
    return NULL;
}

/* Each thread its own tables and its own model, all on one engine: what the others change of the
 * schema must not be noticed. Then once more after a restart. */
static bool run_together(const struct setting *setting, uint64_t seed, uint32_t steps,
                         const char *dir)
{
    static struct together all[TOGETHER];
    static struct run host;
    bool good = true;
    host = (struct run){.setting = setting, .seed = seed};
    snprintf(host.dir, sizeof host.dir, "%s", dir);
    if (!open_engine(&host)) return false;
    for (int i = 0; i < TOGETHER; i++) {
        char prefix[4] = {(char)('a' + i), '\0'};
        all[i].run = (struct run){
            .setting = setting, .seed = mix(seed, (uint64_t)i), .e = host.e, .among_others = true};
        all[i].steps = steps;
        begin_run(&all[i].run, prefix);
        if (pthread_create(&all[i].thread, NULL, run_beside_others, &all[i]) != 0) abort();
    }
    for (int i = 0; i < TOGETHER; i++) {
        (void)pthread_join(all[i].thread, NULL);
        if (!all[i].good)
            fprintf(stderr, "thread %d, step %u:%s -> %s\n", i, all[i].out.failed_at,
                    all[i].run.what, all[i].run.why.text);
        good = good && all[i].good;
    }
    for (int again = 0; again < 2 && good; again++) {
        if (again == 1) good = close_engine(&host) && open_engine(&host);
        for (int i = 0; i < TOGETHER && good; i++) {
            good = model_compare_all(all[i].run.m, host.e, &all[i].run.why);
            if (!good) fprintf(stderr, "thread %d: %s\n", i, all[i].run.why.text);
            shared->points += all[i].out.points;
            shared->rows += model_rows(all[i].run.m);
        }
    }
    for (int i = 0; i < TOGETHER; i++)
        end_run(&all[i].run);
    return close_engine(&host) && good;
}

/* In a process of its own. True: engine and model agreed to the end. */
static bool run_apart(const struct setting *setting, uint64_t seed, const uint32_t *steps,
                      uint32_t n, bool careful, bool tell)
{
    struct run run = {.setting = setting, .seed = seed, .careful = careful, .tell = tell};
    snprintf(run.dir, sizeof run.dir, "/var/tmp/rf-model-XXXXXX");
    assert_non_null(mkdtemp(run.dir));
    memset(shared, 0, sizeof *shared);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) _exit(run_steps(&run, steps, n, shared) ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        snprintf(shared->why.text, sizeof shared->why.text, "ended by signal %d", WTERMSIG(status));
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!good && getenv("RF_KEEP") != NULL)
        print_message("kept: %s\n", run.dir);
    else
        (void)nftw(run.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return good;
}

/* ---- shrinking ---- */

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

/* Leaves out runs of steps, ever shorter ones, while what is left still fails. */
static uint32_t shrink(const struct setting *setting, uint64_t seed, uint32_t *steps, uint32_t n)
{
    time_t until = time(NULL) + (time_t)number_of("RF_SHRINK_S", 60);
    uint32_t *fewer = malloc(n * sizeof *fewer);
    assert_non_null(fewer);
    for (uint32_t width = (n + 1) / 2; width > 0; width /= 2)
        for (uint32_t at = 0; at < n && time(NULL) < until;) {
            uint32_t left = 0;
            for (uint32_t i = 0; i < n; i++)
                if (i < at || i >= at + width) fewer[left++] = steps[i];
            if (left == 0 || run_apart(setting, seed, fewer, left, true, false)) {
                at += width;
                continue;
            }
            n = shared->failed_at < left ? shared->failed_at + 1 : left;
            memcpy(steps, fewer, n * sizeof *steps);
        }
    free(fewer);
    return n;
}

static void tell_failure(const struct setting *setting, uint64_t seed, uint32_t *steps)
{
    uint32_t n = shared->failed_at + 1;
    print_error("seed %" PRIu64 ", %s: step %u: %s\n", seed, setting->name, shared->failed_at,
                shared->why.text);
    n = shrink(setting, seed, steps, n);
    print_error("the shortest stream found that fails, %u steps:\n", n);
    (void)run_apart(setting, seed, steps, n, true, true);
    fail_msg("RF_SEED=%" PRIu64 " %s: %s", seed, setting->name, shared->why.text);
}

static void model_run(const struct setting *setting)
{
    uint32_t n = (uint32_t)number_of("RF_STEPS", 200);
    uint64_t seed = number_of("RF_SEED", (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid());
    uint32_t *steps = malloc(n * sizeof *steps);
    assert_non_null(steps);
    for (uint32_t i = 0; i < n; i++)
        steps[i] = i;
    print_message("%s: RF_SEED=%" PRIu64 " RF_STEPS=%u\n", setting->name, seed, n);
    if (!run_apart(setting, seed, steps, n, false, false)) tell_failure(setting, seed, steps);
    print_message("  %" PRIu64 " rows left, %" PRIu64 " points written, %" PRIu64
                  " refused, %" PRIu64 " spanning regions;",
                  shared->rows, shared->points, shared->refused, shared->spanning);
    for (int k = 0; k < KINDS; k++)
        print_message(" %s %u", kind_names[k], shared->done[k]);
    print_message("\n");
    assert_int_equal(shared->steps, n);
    for (int k = 0; k < KINDS && n % 100 == 0; k++)
        if (shared->done[k] * 100 < 5 * n)
            fail_msg("%s: %u of %u steps are less than 5 %%", kind_names[k], shared->done[k], n);
    free(steps);
}

static void rf_model__durable_one_lane__agrees(void **state)
{
    (void)state;
    model_run(&(struct setting){"always, one lane", RF_SYNC_ALWAYS, RF_BACKEND_AUTO, 1, 1, false});
}
static void rf_model__async_one_lane__agrees(void **state)
{
    (void)state;
    model_run(&(struct setting){"async, one lane", RF_SYNC_ASYNC, RF_BACKEND_AUTO, 1, 1, false});
}
static void rf_model__off_two_lanes__agrees(void **state)
{
    (void)state;
    model_run(&(struct setting){"off, two lanes", RF_SYNC_OFF, RF_BACKEND_POSIX, 2, 5, false});
}
static void rf_model__mixed_modes_two_lanes__agrees(void **state)
{
    (void)state;
    model_run(&(struct setting){"mixed, two lanes", RF_SYNC_ALWAYS, RF_BACKEND_AUTO, 2, 4, true});
}

static void rf_model__four_threads__each_agrees(void **state)
{
    (void)state;
    static const struct setting settings[] = {
        {"always, four threads", RF_SYNC_ALWAYS, RF_BACKEND_AUTO, 1, 1, false},
        {"async, two lanes, four threads", RF_SYNC_ASYNC, RF_BACKEND_AUTO, 2, 3, false}};
    uint32_t n = (uint32_t)number_of("RF_STEPS", 200) / 2;
    for (int i = 0; i < 2; i++) {
        char dir[] = "/var/tmp/rf-model-XXXXXX";
        uint64_t seed = number_of("RF_SEED", (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid());
        print_message("%s: RF_SEED=%" PRIu64 "\n", settings[i].name, seed);
        assert_non_null(mkdtemp(dir));
        memset(shared, 0, sizeof *shared);
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) _exit(run_together(&settings[i], seed, n, dir) ? 0 : 1);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        print_message("  %" PRIu64 " points written\n", shared->points);
        assert_int_equal(status, 0);
    }
}

/* test_rf_model '*async*' runs what fits the pattern. */
int main(int argc, char **argv)
{
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rf_model__durable_one_lane__agrees),
        cmocka_unit_test(rf_model__async_one_lane__agrees),
        cmocka_unit_test(rf_model__off_two_lanes__agrees),
        cmocka_unit_test(rf_model__mixed_modes_two_lanes__agrees),
        cmocka_unit_test(rf_model__four_threads__each_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
