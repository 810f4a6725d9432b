#include "tests/lib/engine_rig.h"

#include "api/handle.h"
#include "tests/lib/fault_vfs.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void engine_rig_init(struct engine_rig *rig, struct io_env *env)
{
    memset(rig, 0, sizeof *rig);
    rig->env = env;
    rig->dir = "double";
    rf_options_init(&rig->o);
    rig->o.segment_bytes = 1 << 20;
    rig->o.memory_bytes = 5 * ((1 << 20) + (1 << 18));
    rig->o.partition_interval = STORY_INTERVAL;
    rig->o.write_wait_ms = 3000;
    rig->o.lock_wait_ms = 1000;
    rig->o.log_level = RF_LOG_OFF;
}

static void take_seams(struct engine_rig *rig)
{
    static uint32_t count;
    handle_seams = (struct handle_seams){
        .env = rig->env, .clock = rig->clock, .close_wait_ns = rig->close_wait_ns};
    if (rig->env == NULL) return;
    snprintf(rig->vfs, sizeof rig->vfs, "rig-%u", count++);
    fault_vfs_register(rig->vfs, rig->env);
    handle_seams.vfs = rig->vfs;
}

static void drop_seams(struct engine_rig *rig)
{
    handle_seams = (struct handle_seams){.env = NULL};
    if (rig->env != NULL) fault_vfs_unregister(rig->vfs);
}

int engine_rig_open(struct engine_rig *rig)
{
    take_seams(rig);
    rig->error = (struct rf_error){.code = 0};
    rig->e = NULL;
    int rc = rf_open(rig->dir, &rig->o, &rig->e, &rig->error);
    if (rc != 0) {
        rig->e = NULL;
        drop_seams(rig);
    }
    return rc;
}

int engine_rig_close(struct engine_rig *rig)
{
    if (rig->e == NULL) return 0;
    int rc = rf_close(rig->e);
    rig->e = NULL;
    drop_seams(rig);
    return rc;
}

static void hear_fault(void *ctx, const char *text)
{
    struct engine_rig *rig = ctx;
    if (rig->fault[0] == '\0') snprintf(rig->fault, sizeof rig->fault, "%s", text);
    if (!rig->quiet) printf("verify: %s\n", text);
}

enum rf_verdict engine_rig_verify(struct engine_rig *rig)
{
    enum rf_verdict verdict = RF_VERDICT_CORRUPT;
    take_seams(rig);
    rig->fault[0] = '\0';
    int rc = rf_verify(rig->dir, 1000, hear_fault, rig, &verdict, &rig->error);
    drop_seams(rig);
    if (rc != 0) fail_msg("rf_verify: %d %s", rc, rig->error.text);
    return verdict;
}

/* ---- tablets ---- */

/* One byte says whose row it is, so that a row of another one is seen. */
static uint8_t pattern(uint32_t writer, uint32_t batch, uint32_t row)
{
    return (uint8_t)(writer * 91 + batch * 37 + row * 11 + 1);
}

static int64_t row_time(uint32_t batch, uint32_t row)
{
    if (row == 0) return 0;
    if (row <= STORY_LOW) return (int64_t)batch * 100 + row;
    return (int64_t)(row - STORY_LOW) * 2 * STORY_INTERVAL + (int64_t)batch * 100 + row;
}

void story_tablet(struct story_tablet *t, uint32_t writer, uint32_t batch, uint32_t blob_bytes,
                  uint32_t extra)
{
    t->blob = malloc((size_t)blob_bytes * STORY_ROWS + 1);
    assert_non_null(t->blob);
    uint32_t tag_bytes = 2;
    for (uint32_t i = 0; i < STORY_ROWS; i++) {
        t->times[i] = row_time(batch, i);
        t->n[i] = batch;
        t->extra[i] = batch;
        t->tag_offsets[i + 1] = (i + 1) * tag_bytes;
        t->blob_offsets[i + 1] = (i + 1) * blob_bytes;
        snprintf(t->tags + (size_t)2 * i, 3, "w%u", writer % 10);
        memset(t->blob + (size_t)i * blob_bytes, pattern(writer, batch, i), blob_bytes);
    }
    t->tag_offsets[0] = t->blob_offsets[0] = 0;
    snprintf(t->extra_name, sizeof t->extra_name, "x%u", extra);
    t->column[0] = (struct rf_column){.name = "w",
                                      .type = RF_STRING,
                                      .category = RF_TAG,
                                      .values = t->tags,
                                      .offsets = t->tag_offsets};
    t->column[1] =
        (struct rf_column){.name = "n", .type = RF_INT64, .category = RF_FIELD, .values = t->n};
    t->column[2] = (struct rf_column){.name = "blob",
                                      .type = RF_BLOB,
                                      .category = RF_FIELD,
                                      .values = t->blob,
                                      .offsets = t->blob_offsets};
    t->column[3] = (struct rf_column){
        .name = t->extra_name, .type = RF_DOUBLE, .category = RF_FIELD, .values = t->extra};
    t->tablet = (struct rf_tablet){.size = sizeof t->tablet,
                                   .table = STORY_TABLE,
                                   .rows = STORY_ROWS,
                                   .columns = extra != 0 ? 4 : 3,
                                   .times = t->times,
                                   .column = t->column};
}

void story_free(struct story_tablet *t)
{
    free(t->blob);
    t->blob = NULL;
}

void story_delete(struct rf_delete_options *o, struct rf_tag_filter *tag, char tag_text[4],
                  uint32_t writer, uint32_t batch)
{
    rf_delete_options_init(o);
    snprintf(tag_text, 4, "w%u", writer % 10);
    *tag = (struct rf_tag_filter){.name = "w", .value = tag_text};
    o->table = STORY_TABLE;
    o->tags = tag;
    o->tag_count = 1;
    o->time_from = row_time(batch, 1);
    o->time_to = row_time(batch, STORY_LOW);
}

/* ---- reading back ---- */

static bool same_bytes(const uint8_t *bytes, uint32_t n, uint8_t value)
{
    for (uint32_t i = 0; i < n; i++)
        if (bytes[i] != value) return false;
    return true;
}

static bool is_null(const struct rf_column *c, uint32_t row)
{
    return c->values == NULL || (c->nulls != NULL && (c->nulls[row / 8] >> (row % 8) & 1) != 0);
}

static bool take_row(const struct rf_tablet *t, uint32_t i, struct story_found *f)
{
    const struct rf_column *tag = &t->column[0], *n = &t->column[1], *blob = &t->column[2];
    const char *text = (const char *)tag->values + tag->offsets[i];
    uint32_t writer = (uint32_t)(text[1] - '0'), row = 0;
    if (is_null(n, i) || is_null(blob, i)) return false;
    int64_t batch = ((const int64_t *)n->values)[i];
    if (writer >= STORY_WRITERS || batch < 1 || batch >= (int64_t)STORY_BATCHES) return false;
    while (row < STORY_ROWS && row_time((uint32_t)batch, row) != t->times[i])
        row++;
    if (row == STORY_ROWS) return false;
    const uint8_t *bytes = (const uint8_t *)blob->values + blob->offsets[i];
    uint32_t blob_bytes = blob->offsets[i + 1] - blob->offsets[i];
    if (!same_bytes(bytes, blob_bytes, pattern(writer, (uint32_t)batch, row))) return false;
    f->rows++;
    if (row == 0) {
        if (f->newest[writer] != 0) return false;
        f->newest[writer] = (uint32_t)batch;
    } else if (row <= STORY_LOW) {
        f->low[writer][batch]++;
    } else {
        f->high[writer][batch]++;
    }
    return true;
}

bool story_scan(struct rf_engine *e, struct story_found *found_out)
{
    static const char *const columns[] = {"n", "blob"};
    struct rf_scan_options o;
    struct rf_cursor *cursor;
    struct rf_tablet t;
    struct rf_error error;
    memset(found_out, 0, sizeof *found_out);
    rf_scan_options_init(&o);
    o.table = STORY_TABLE;
    o.columns = columns;
    o.column_count = 2;
    int rc = rf_scan_open(e, &o, &cursor, &error);
    if (rc == -RF_CODE_NO_TABLE) return true;
    if (rc != 0) {
        printf("scan: %d %s\n", rc, error.text);
        return false;
    }
    bool good = true;
    while (good && (rc = rf_scan_next(cursor, &t)) == 1)
        for (uint32_t i = 0; i < t.rows && good; i++) {
            good = take_row(&t, i, found_out);
            if (!good) printf("a row that nobody wrote, or twice: time %" PRId64 "\n", t.times[i]);
        }
    rf_scan_close(cursor);
    if (rc < 0) printf("scan: %d\n", rc);
    return good && rc == 0;
}

/* ---- what has to be found ---- */

bool story_wrong(const char *what, uint32_t writer, uint32_t batch, uint64_t got)
{
    printf("writer %u, batch %u: %s (%" PRIu64 ")\n", writer, batch, what, got);
    return false;
}

static bool batch_is_right(const struct story_told *told, const struct story_found *f, uint32_t w,
                           uint32_t b)
{
    uint32_t high = f->high[w][b], low = f->low[w][b];
    if (high != 0 && high != STORY_HIGH) return story_wrong("torn", w, b, high);
    if (low != 0 && low != STORY_LOW) return story_wrong("torn at its low rows", w, b, low);
    switch (told->high[w][b]) {
    case FATE_NONE:
    case FATE_ABSENT:
        return high == 0 && low == 0 ? true
                                     : story_wrong("there, and must not be", w, b, high + low);
    case FATE_PRESENT:
        if (high == 0) return story_wrong("acknowledged and lost", w, b, 0);
        break;
    default: break;
    }
    if (high == 0) return low == 0 ? true : story_wrong("half of it", w, b, low);
    if (told->low[w][b] == FATE_PRESENT && low == 0) return story_wrong("low rows lost", w, b, 0);
    if (told->low[w][b] == FATE_ABSENT && low != 0)
        return story_wrong("deleted and there", w, b, low);
    return true;
}

bool story_is_right(const struct story_told *told, const struct story_found *f)
{
    for (uint32_t w = 0; w < STORY_WRITERS; w++) {
        uint32_t newest = 0;
        for (uint32_t b = 1; b < STORY_BATCHES; b++) {
            if (!batch_is_right(told, f, w, b)) return false;
            if (f->high[w][b] != 0) newest = b;
        }
        if (f->newest[w] != newest)
            return story_wrong("not the newest at time 0", w, newest, f->newest[w]);
    }
    return true;
}

void story_settle(struct story_told *told, const struct story_found *found)
{
    for (uint32_t w = 0; w < STORY_WRITERS; w++)
        for (uint32_t b = 1; b < STORY_BATCHES; b++) {
            if (told->high[w][b] == FATE_NONE) continue;
            told->high[w][b] = found->high[w][b] != 0 ? FATE_PRESENT : FATE_ABSENT;
            told->low[w][b] = found->low[w][b] != 0 ? FATE_PRESENT : FATE_ABSENT;
        }
}

struct table_text {
    char letter;
    char *text;
    size_t bytes, used;
};

static int add_table(void *ctx, const struct rf_table_info *info)
{
    struct table_text *t = ctx;
    if (info->name[0] != t->letter) return 0;
    t->used += (size_t)snprintf(t->text + t->used, t->bytes - t->used, "%s(", info->name);
    for (uint32_t i = 0; i < info->column_count; i++)
        t->used += (size_t)snprintf(t->text + t->used, t->bytes - t->used, "%s:%d,",
                                    info->columns[i].name, (int)info->columns[i].type);
    t->used += (size_t)snprintf(t->text + t->used, t->bytes - t->used, ");");
    assert_true(t->used < t->bytes);
    return 0;
}

void story_tables(struct rf_engine *e, char letter, char *text, size_t bytes)
{
    struct table_text t = {.letter = letter, .text = text, .bytes = bytes};
    text[0] = '\0';
    assert_int_equal(rf_tables(e, add_table, &t), 0);
}
