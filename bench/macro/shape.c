/* Tablets of every shape, made once: what is measured is the engine, not the making of data. */
#include "bench/macro/bench.h"

#include <stdlib.h>
#include <string.h>

const struct shape shape_main = {.name = "main", .rows = 1000, .columns = 10};
const struct shape shape_small = {.name = "small", .rows = 1, .columns = 10};
const struct shape shape_wide = {.name = "wide", .rows = 1, .columns = 10000};
const struct shape shape_narrow = {.name = "narrow", .rows = 100000, .columns = 1};
const struct shape shape_text = {.name = "text", .rows = 100, .columns = 10, .text_bytes = 100};
const struct shape shape_fleet = {.name = "fleet", .rows = 1000, .columns = 10, .devices = 1000};
const struct shape shape_turns = {
    .name = "turns", .rows = 1000, .columns = 10, .devices = 1, .turns = 100000};
const struct shape shape_disorder = {
    .name = "disorder", .rows = 1000, .columns = 10, .disorder = true};
const struct shape shape_partitions = {
    .name = "partitions", .rows = 1024, .columns = 10, .partitions = true};

#define TIME_BASE    INT64_C(1764547200000000000)
#define PARTITION_NS INT64_C(604800000000000)
#define TAG_BYTES    8u

static void *keep(struct tablets *t, size_t bytes)
{
    if (t->heap_count == sizeof t->heap / sizeof t->heap[0]) die("too many parts in a shape");
    void *p = xalloc(bytes);
    t->heap[t->heap_count++] = p;
    return p;
}

/* splitmix64: the same numbers on every run. */
static uint64_t number_of(uint64_t at)
{
    uint64_t z = (at + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void make_times(int64_t *times, const struct shape *s, uint64_t window)
{
    int64_t step = s->partitions ? PARTITION_NS / 16 : 1000000000;
    int64_t base = s->partitions ? TIME_BASE / PARTITION_NS * PARTITION_NS : TIME_BASE;
    for (uint32_t i = 0; i < s->rows; i++)
        times[i] = base + ((int64_t)window * s->rows + i) * step;
    /* Every second row changes place with another one: half of them are out of order. */
    for (uint32_t i = 0; s->disorder && i + 1 < s->rows; i += 4) {
        uint32_t other = (uint32_t)(number_of(i) % s->rows);
        int64_t was = times[i];
        times[i] = times[other];
        times[other] = was;
    }
}

static void make_doubles(double *values, uint64_t count)
{
    double walk = 20;
    for (uint64_t i = 0; i < count; i++) {
        walk += (double)(int64_t)(number_of(i) % 201 - 100) / 100;
        values[i] = walk;
    }
}

static void make_fields(struct tablets *t, struct rf_column *columns, uint32_t first)
{
    const struct shape *s = t->shape;
    char *names = keep(t, (size_t)s->columns * 8);
    uint64_t width = s->text_bytes != 0 ? s->text_bytes : sizeof(double);
    char *values = keep(t, s->columns * s->rows * width);
    uint32_t *offsets = NULL;
    if (s->text_bytes == 0) {
        make_doubles((double *)(void *)values, (uint64_t)s->columns * s->rows);
    } else {
        offsets = keep(t, (s->rows + 1) * sizeof *offsets);
        for (uint32_t i = 0; i <= s->rows; i++)
            offsets[i] = i * s->text_bytes;
        for (uint64_t i = 0; i < s->columns * s->rows * width; i++)
            values[i] = (char)('a' + number_of(i) % 26);
    }
    for (uint32_t i = 0; i < s->columns; i++) {
        char *name = names + (size_t)i * 8;
        (void)snprintf(name, 8, "s%u", i % 1000000);
        columns[first + i] = (struct rf_column){
            .name = name,
            .type = s->text_bytes != 0 ? RF_TEXT : RF_DOUBLE,
            .category = RF_FIELD,
            .values = values + (uint64_t)i * s->rows * width,
            .offsets = offsets,
        };
    }
}

static void make_tags(struct tablets *t, struct rf_column *column, uint32_t writer)
{
    const struct shape *s = t->shape;
    uint64_t *values = keep(t, s->rows * TAG_BYTES);
    uint32_t *offsets = keep(t, (s->rows + 1) * sizeof *offsets);
    for (uint32_t i = 0; i < s->rows; i++) {
        char text[TAG_BYTES + 1];
        (void)snprintf(text, sizeof text, "%c%07u", 'a' + (char)(writer % 26),
                       i % s->devices % 10000000);
        memcpy(&values[i], text, TAG_BYTES);
        offsets[i + 1] = (i + 1) * TAG_BYTES;
    }
    if (s->turns != 0) t->tag_values = values;
    *column = (struct rf_column){.name = "device",
                                 .type = RF_STRING,
                                 .category = RF_TAG,
                                 .values = values,
                                 .offsets = offsets};
}

static void make_pieces(struct tablets *t)
{
    const struct rf_tablet *tablet = &t->tablet[0];
    t->pieces = xalloc((2 * tablet->columns + 1) * sizeof *t->pieces);
    t->pieces[t->piece_count++] = (struct piece){tablet->times, tablet->rows * sizeof(int64_t)};
    for (uint32_t i = 0; i < tablet->columns; i++) {
        const struct rf_column *c = &tablet->column[i];
        size_t bytes = (size_t)tablet->rows * sizeof(double);
        if (c->offsets != NULL) {
            bytes = c->offsets[tablet->rows];
            t->pieces[t->piece_count++] =
                (struct piece){c->offsets, (tablet->rows + 1) * sizeof *c->offsets};
        }
        t->pieces[t->piece_count++] = (struct piece){c->values, bytes};
    }
    for (uint32_t i = 0; i < t->piece_count; i++)
        t->bytes += t->pieces[i].bytes;
}

void tablets_make(struct tablets *t, const struct shape *s, uint32_t writer)
{
    *t = (struct tablets){.shape = s, .points = (uint64_t)s->rows * s->columns};
    uint32_t tags = s->devices != 0 ? 1 : 0;
    struct rf_column *columns = keep(t, (s->columns + tags) * sizeof *columns);
    char *device = keep(t, 64);
    (void)snprintf(device, 64, "root.bench_%s.d%u", s->name, writer);
    make_fields(t, columns, tags);
    if (tags != 0) make_tags(t, columns, writer);
    int64_t *times = keep(t, (size_t)TABLETS * s->rows * sizeof *times);
    for (uint32_t i = 0; i < TABLETS; i++) {
        make_times(times + (size_t)i * s->rows, s, i);
        t->tablet[i] = (struct rf_tablet){.size = sizeof t->tablet[i],
                                          .table = tags != 0 ? s->name : NULL,
                                          .device = tags != 0 ? NULL : device,
                                          .rows = s->rows,
                                          .columns = s->columns + tags,
                                          .times = times + (size_t)i * s->rows,
                                          .column = columns};
    }
    make_pieces(t);
}

void tablets_free(struct tablets *t)
{
    for (uint32_t i = 0; i < t->heap_count; i++)
        free(t->heap[i]);
    free(t->pieces);
}

const struct rf_tablet *tablets_next(struct tablets *t, uint64_t number)
{
    if (t->tag_values != NULL) {
        char text[TAG_BYTES + 1];
        uint64_t word;
        (void)snprintf(text, sizeof text, "t%07u", (unsigned)(number % t->shape->turns % 10000000));
        memcpy(&word, text, TAG_BYTES);
        for (uint32_t i = 0; i < t->shape->rows; i++)
            t->tag_values[i] = word;
    }
    return &t->tablet[number % TABLETS];
}

uint8_t *tablet_value(const struct tablets *t, size_t *bytes_out)
{
    uint8_t *value = xalloc(t->bytes);
    size_t at = 0;
    for (uint32_t i = 0; i < t->piece_count; i++) {
        memcpy(value + at, t->pieces[i].data, t->pieces[i].bytes);
        at += t->pieces[i].bytes;
    }
    *bytes_out = at;
    return value;
}
