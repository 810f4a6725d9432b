#include "cli/bench_source.h"

#include "cli/memory.h"
#include "cli/row.h"

#include "base/alloc.h"

#include <math.h>
#include <stdio.h>

enum { VARIANTS_MAX = 8, VARIANTS_BYTES = 1 << 20, DEVICE_NAME_BYTES = 10, COLUMN_NAME_BYTES = 24 };

struct variant {
    struct rf_column *column; /* the fields; behind them, in the table model, the TAG */
    int64_t *time;            /* of each row, from the batch's first */
    uint64_t points, bytes;
};

struct bench_source {
    const struct bench_options *o;
    const struct bench_replay *replay;
    uint64_t writer, made;
    int64_t interval;
    uint32_t variant_count;
    struct variant variant[VARIANTS_MAX];
    char (*column_name)[COLUMN_NAME_BYTES];
    int64_t *time;
    char *tags;
    uint32_t *tag_offsets;
    uint64_t tags_from; /* the first device that tags holds, UINT64_MAX: none */
    char device[64];
    struct rf_tablet tablet;
};

/* ---- values ---- */

struct walk {
    int64_t cents;
    uint64_t random;
};

/* The next value of 8 bytes, before it is made to fit a type: in hundredths, or random bits. */
static int64_t next_value(struct walk *w, int shape)
{
    if (shape == SHAPE_CONSTANT) return 4250;
    if (shape == SHAPE_RANDOM) return (int64_t)bench_random(&w->random);
    w->cents += (int64_t)(bench_random(&w->random) % 201) - 100;
    return w->cents;
}

static int32_t date_of(int64_t v)
{
    uint64_t n = (uint64_t)v;
    return (int32_t)(20260000 + (n / 28 % 12 + 1) * 100 + n % 28 + 1);
}

static void put_value(void *values, size_t i, enum rf_type type, int shape, int64_t v)
{
    double decimal = (double)v / 100;
    float narrow = (float)decimal;
    int32_t half = (int32_t)(uint32_t)(uint64_t)v;
    if (shape == SHAPE_RANDOM) {
        memcpy(&decimal, &v, sizeof decimal);
        memcpy(&narrow, &v, sizeof narrow);
    }
    switch (type) {
    case RF_BOOLEAN: ((uint8_t *)values)[i] = (uint8_t)(v & 1); break;
    case RF_INT32: ((int32_t *)values)[i] = half; break;
    case RF_DATE: ((int32_t *)values)[i] = date_of(v); break;
    case RF_FLOAT: ((float *)values)[i] = narrow; break;
    case RF_DOUBLE: ((double *)values)[i] = decimal; break;
    default: ((int64_t *)values)[i] = v; break;
    }
}

static void fill_text(char *out, size_t bytes, enum rf_type type, int shape, struct walk *w)
{
    char number[32];
    if (shape == SHAPE_CONSTANT) {
        memset(out, 'x', bytes);
    } else if (shape == SHAPE_WALK) {
        int n = snprintf(number, sizeof number, "%.2f", (double)next_value(w, shape) / 100);
        for (size_t i = 0; i < bytes; i++)
            out[i] = i < (size_t)n ? number[i] : '.';
    } else {
        for (size_t i = 0; i < bytes; i++) {
            uint64_t r = bench_random(&w->random);
            out[i] = type == RF_BLOB ? (char)(r & 0xff) : (char)(' ' + 1 + r % 94);
        }
    }
}

static void fill_column(const struct bench_options *o, struct rf_column *c, struct walk *w)
{
    size_t width = type_width(c->type), rows = o->rows;
    char *values = need_zalloc(rows * (width != 0 ? width : o->text_bytes) + 1);
    c->values = values;
    if (width != 0) {
        for (size_t i = 0; i < rows; i++)
            put_value(values, i, c->type, o->shape, next_value(w, o->shape));
        return;
    }
    uint32_t *offsets = need_zalloc((rows + 1) * sizeof *offsets);
    for (size_t i = 0; i < rows; i++) {
        fill_text(values + i * o->text_bytes, o->text_bytes, c->type, o->shape, w);
        offsets[i + 1] = (uint32_t)((i + 1) * o->text_bytes);
    }
    c->offsets = offsets;
}

/* Returns how many are null. */
static uint64_t fill_nulls(const struct bench_options *o, struct rf_column *c, uint64_t *random)
{
    uint64_t count = 0;
    if (o->nulls <= 0) return 0;
    uint8_t *nulls = need_zalloc((o->rows + 7) / 8);
    for (uint64_t i = 0; i < o->rows; i++) {
        if (bench_random_share(random) >= o->nulls) continue;
        nulls[i / 8] |= (uint8_t)(1u << i % 8);
        count++;
    }
    c->nulls = nulls;
    return count;
}

/* ---- times ---- */

/* Where each row lies, from the batch's first: partition by partition; in the table model the rows
 * go round the devices, each of which so has rising times. Then the share that is to be out of order
 * changes places at random. */
static void fill_times(const struct bench_options *o, int64_t interval, int64_t *time,
                       uint64_t *random)
{
    CHECK(o->rows > 0);
    for (uint64_t i = 0; i < o->rows; i++)
        time[i] = (int64_t)(i * o->partitions / o->rows) * interval + (int64_t)i;
    uint64_t displaced = (uint64_t)(o->out_of_order * (double)o->rows + 0.5);
    for (uint64_t n = 0; n + 1 < displaced; n += 2) {
        uint64_t a = bench_random(random) % o->rows, b = bench_random(random) % o->rows;
        int64_t t = time[a];
        time[a] = time[b];
        time[b] = t;
    }
}

/* ---- making one ---- */

/* By their type: a directory that is used again may have had another run's columns. */
static void name_column(char out[COLUMN_NAME_BYTES], enum rf_type type, uint32_t number)
{
    snprintf(out, COLUMN_NAME_BYTES, "%s_%u", type_name(type), number);
    for (char *p = out; *p != '\0'; p++)
        if (*p >= 'A' && *p <= 'Z') *p = (char)(*p - 'A' + 'a');
}

static void make_variant(struct bench_source *s, struct variant *v, uint64_t seed)
{
    const struct bench_options *o = s->o;
    uint64_t random = seed;
    v->column = need_zalloc((o->columns + 1) * sizeof *v->column);
    v->time = need_zalloc(o->rows * sizeof *v->time);
    v->bytes = 8 * o->rows;
    for (uint64_t i = 0; i < o->columns; i++) {
        struct rf_column *c = &v->column[i];
        struct walk walk = {.cents = 2000, .random = bench_random(&random)};
        c->name = s->column_name[i];
        c->type = o->type[i % o->type_count];
        c->category = RF_FIELD;
        fill_column(o, c, &walk);
        uint64_t there = o->rows - fill_nulls(o, c, &random);
        size_t width = type_width(c->type);
        v->points += there;
        v->bytes += there * (width != 0 ? width : o->text_bytes);
    }
    if (o->model == MODEL_TABLE) {
        v->column[o->columns] = (struct rf_column){.name = "device",
                                                   .type = RF_STRING,
                                                   .category = RF_TAG,
                                                   .values = s->tags,
                                                   .offsets = s->tag_offsets};
        v->bytes += DEVICE_NAME_BYTES * o->rows;
    }
    fill_times(o, s->interval, v->time, &random);
}

static uint32_t variants_for(const struct bench_options *o)
{
    uint64_t bytes = 0;
    CHECK(o->type_count > 0);
    for (size_t i = 0; i < o->type_count; i++)
        bytes += type_width(o->type[i]) != 0 ? type_width(o->type[i]) : o->text_bytes;
    bytes = bytes * o->columns / o->type_count * o->rows + 1;
    uint64_t n = VARIANTS_BYTES / bytes;
    return n < 1 ? 1 : n > VARIANTS_MAX ? VARIANTS_MAX : (uint32_t)n;
}

struct bench_source *bench_source_create(const struct bench_options *o, uint64_t writer,
                                         int64_t interval, const struct bench_replay *replay)
{
    struct bench_source *s = need_zalloc(sizeof *s);
    s->o = o;
    s->writer = writer;
    s->interval = interval;
    s->replay = replay;
    if (replay != NULL) return s;
    s->tags_from = UINT64_MAX;
    s->column_name = need_zalloc(o->columns * sizeof *s->column_name);
    for (uint32_t i = 0; i < o->columns; i++)
        name_column(s->column_name[i], o->type[i % o->type_count], i);
    s->time = need_zalloc(o->rows * sizeof *s->time);
    s->tags = need_zalloc(o->rows * DEVICE_NAME_BYTES);
    s->tag_offsets = need_zalloc((o->rows + 1) * sizeof *s->tag_offsets);
    for (uint64_t i = 0; i <= o->rows; i++)
        s->tag_offsets[i] = (uint32_t)(i * DEVICE_NAME_BYTES);
    s->variant_count = variants_for(o);
    for (uint32_t i = 0; i < s->variant_count; i++)
        make_variant(s, &s->variant[i], o->seed * 1000003 + writer * VARIANTS_MAX + i);
    return s;
}

void bench_source_destroy(struct bench_source *s)
{
    if (s == NULL) return;
    for (uint32_t v = 0; v < s->variant_count; v++) {
        for (uint64_t i = 0; i < s->o->columns; i++) {
            const struct rf_column *c = &s->variant[v].column[i];
            mem_free((void *)(uintptr_t)c->values);
            mem_free((void *)(uintptr_t)c->offsets);
            mem_free((void *)(uintptr_t)c->nulls);
        }
        mem_free(s->variant[v].column);
        mem_free(s->variant[v].time);
    }
    mem_free(s->column_name);
    mem_free(s->time);
    mem_free(s->tags);
    mem_free(s->tag_offsets);
    mem_free(s);
}

/* ---- the next one ---- */

/* Rows i, i + n, i + 2n, ... are of device first + i. */
static void name_devices(struct bench_source *s, uint64_t first)
{
    const struct bench_options *o = s->o;
    if (s->tags_from == first) return;
    s->tags_from = first;
    for (uint64_t i = 0; i < o->rows && i < o->tablet_devices; i++) {
        char name[32];
        snprintf(name, sizeof name, "d%09llu",
                 (unsigned long long)((first + i) % o->devices % 1000000000));
        memcpy(s->tags + i * DEVICE_NAME_BYTES, name, DEVICE_NAME_BYTES);
    }
    for (uint64_t i = o->tablet_devices; i < o->rows; i++)
        memcpy(s->tags + i * DEVICE_NAME_BYTES,
               s->tags + (i - o->tablet_devices) * DEVICE_NAME_BYTES, DEVICE_NAME_BYTES);
}

void bench_source_next(struct bench_source *s, struct bench_batch *batch_out)
{
    const struct bench_options *o = s->o;
    uint64_t made = s->made++;
    uint64_t n = made * o->writers + s->writer; /* of all writers' batches: no time comes twice */
    if (s->replay != NULL) {
        *batch_out = *bench_replay_batch(s->replay, n % bench_replay_batches(s->replay));
        return;
    }
    const struct variant *v = &s->variant[made % s->variant_count];
    int64_t first = (int64_t)(n * o->rows);
    for (uint64_t i = 0; i < o->rows; i++)
        s->time[i] = first + v->time[i];
    uint64_t device = n * o->tablet_devices % o->devices;
    s->tablet = (struct rf_tablet){
        .size = sizeof s->tablet,
        .rows = (uint32_t)o->rows,
        .columns = (uint32_t)o->columns + (o->model == MODEL_TABLE),
        .times = s->time,
        .column = v->column,
    };
    if (o->model == MODEL_TABLE) {
        name_devices(s, device);
        s->tablet.table = "bench";
    } else {
        snprintf(s->device, sizeof s->device, "root.bench.d%llu", (unsigned long long)device);
        s->tablet.device = s->device;
    }
    *batch_out = (struct bench_batch){&s->tablet, 1, o->rows, v->points, v->bytes};
}
