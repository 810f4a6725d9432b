/* Scans against a model that applies every batch and delete in order to a small table of cells. */
#include "base/alloc.h"
#include "memtable/memtable.h"
#include "tests/lib/make_batch.h"
#include "tests/lib/memtable_store.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

/* ---- the model ---- */

#define COLUMNS 6u
#define DEVICES 3u
#define TABLES  2u
#define TIMES   28u

static const uint32_t column_ids[COLUMNS] = {100, 3, 77, 50, 9, 70000};
static const uint8_t column_types[COLUMNS] = {2, 5, 0, 4, 1, 10};
static const char *const device_keys[DEVICES] = {"", "a", "ab"};

struct cell {
    bool present;
    uint8_t bytes;
    uint8_t data[14];
};
struct write_row {
    uint32_t device; /* within its table */
    uint32_t time_index;
    struct cell cells[COLUMNS];
};
struct op {
    uint64_t lsn;
    bool is_void;
    bool is_delete;
    uint32_t table;
    /* write: rows in the order in which later wins */
    uint32_t row_count;
    struct write_row *rows;
    uint32_t *row_tables;
    /* delete */
    uint32_t device_mask, column_mask; /* column_mask 0: whole rows */
    int64_t from, to;
};

struct model_row {
    bool exists;
    struct cell cells[COLUMNS];
};

static int64_t time_of(uint32_t index)
{
    if (index == 0) return INT64_MIN;
    if (index == 1) return INT64_MIN + 1;
    if (index == TIMES - 1) return INT64_MAX;
    if (index == TIMES - 2) return INT64_MAX - 1;
    return (int64_t)index * 7 - 100;
}

static void model_apply(const struct op *op, uint32_t table, uint32_t device,
                        struct model_row rows[TIMES])
{
    for (uint32_t r = 0; !op->is_delete && r < op->row_count; r++) {
        const struct write_row *row = &op->rows[r];
        if (op->row_tables[r] != table || row->device != device) continue;
        struct model_row *to = &rows[row->time_index];
        to->exists = true;
        for (uint32_t c = 0; c < COLUMNS; c++)
            if (row->cells[c].present) to->cells[c] = row->cells[c];
    }
    if (!op->is_delete || op->table != table || (op->device_mask >> device & 1) == 0) return;
    for (uint32_t t = 0; t < TIMES; t++) {
        if (time_of(t) < op->from || time_of(t) > op->to) continue;
        if (op->column_mask == 0) rows[t] = (struct model_row){0};
        for (uint32_t c = 0; c < COLUMNS; c++)
            if ((op->column_mask >> c & 1) != 0) rows[t].cells[c] = (struct cell){0};
    }
}

static bool model_row_shows(const struct model_row *row, bool rows_without_cells)
{
    bool any = false;
    for (uint32_t c = 0; c < COLUMNS; c++)
        any |= row->cells[c].present;
    return rows_without_cells ? row->exists : any;
}

/* ---- random streams ---- */

struct stream {
    struct make_random random;
    struct store store;
    struct op *ops;
    uint32_t op_count;
    uint32_t deletes_of_8; /* how many of 8 ops are deletes */
    uint64_t rows, deletes, voids;
};

static uint32_t below(struct stream *stream, uint32_t n)
{
    return make_below(&stream->random, n);
}

static struct cell random_cell(struct stream *stream, uint32_t column)
{
    static const uint8_t widths[] = {8, 0, 1, 8, 4, 0};
    struct cell cell = {.present = below(stream, 4) != 0};
    if (!cell.present) return cell;
    cell.bytes = widths[column] != 0 ? widths[column] : (uint8_t)below(stream, 13);
    for (uint32_t i = 0; i < cell.bytes; i++)
        cell.data[i] = column == 2 ? (uint8_t)below(stream, 2) : (uint8_t)below(stream, 256);
    return cell;
}

static int by_device_and_time(const void *a, const void *b)
{
    const struct write_row *x = a, *y = b;
    if (x->device != y->device) return x->device < y->device ? -1 : 1;
    if (x->time_index != y->time_index) return x->time_index < y->time_index ? -1 : 1;
    return 0;
}

/* One tablet of random rows, appended to the op's. The order of equal rows is the sort's: the model
 * takes them as they stand afterwards. */
static void random_tablet(struct stream *stream, struct op *op, struct make_tablet *tablet)
{
    uint32_t rows = 1 + below(stream, 14), first = op->row_count;
    uint32_t table = below(stream, TABLES);
    uint32_t mask = below(stream, 8) == 0 ? 0 : 1 + below(stream, (1u << COLUMNS) - 1);
    uint32_t base = below(stream, TIMES), spread = 1 + below(stream, TIMES);
    for (uint32_t r = 0; r < rows; r++) {
        struct write_row *row = &op->rows[op->row_count];
        *row = (struct write_row){.device = below(stream, DEVICES),
                                  .time_index = (base + below(stream, spread)) % TIMES};
        for (uint32_t c = 0; c < COLUMNS; c++)
            if ((mask >> c & 1) != 0) row->cells[c] = random_cell(stream, c);
        op->row_tables[op->row_count++] = table;
    }
    qsort(&op->rows[first], rows, sizeof *op->rows, by_device_and_time);
    struct make_row *make_rows = mem_zalloc_array(rows, sizeof *make_rows);
    struct make_column *columns = mem_zalloc_array(COLUMNS, sizeof *columns);
    for (uint32_t r = 0; r < rows; r++)
        make_rows[r] = (struct make_row){.device = table * DEVICES + op->rows[first + r].device,
                                         .time = time_of(op->rows[first + r].time_index)};
    uint32_t count = 0, start = below(stream, COLUMNS);
    for (uint32_t i = 0; i < COLUMNS; i++) {
        uint32_t c = (start + i) % COLUMNS;
        if ((mask >> c & 1) == 0) continue;
        struct make_value *values = mem_zalloc_array(rows, sizeof *values);
        bool any = false;
        for (uint32_t r = 0; r < rows; r++) {
            const struct cell *cell = &op->rows[first + r].cells[c];
            if (cell->present) values[r] = (struct make_value){cell->data, cell->bytes};
            any |= cell->present;
        }
        if (!any) mem_free(values);
        columns[count++] =
            (struct make_column){column_ids[c], column_types[c], any ? values : NULL};
    }
    *tablet = (struct make_tablet){.incarnation = 40 + table,
                                   .row_count = rows,
                                   .rows = make_rows,
                                   .column_count = count,
                                   .columns = columns};
}

static void free_tablet(const struct make_tablet *tablet)
{
    for (uint32_t c = 0; c < tablet->column_count; c++)
        mem_free((void *)(uintptr_t)tablet->columns[c].values);
    mem_free((void *)(uintptr_t)tablet->columns);
    mem_free((void *)(uintptr_t)tablet->rows);
}

static struct store_place random_write(struct stream *stream, struct op *op)
{
    struct make_tablet tablets[3];
    struct make_value keys[TABLES * DEVICES];
    uint32_t tablet_count = 1 + below(stream, 3);
    op->rows = mem_zalloc_array(3 * 14, sizeof *op->rows);
    op->row_tables = mem_zalloc_array(3 * 14, sizeof *op->row_tables);
    for (uint32_t g = 0; g < tablet_count; g++)
        random_tablet(stream, op, &tablets[g]);
    for (uint32_t d = 0; d < TABLES * DEVICES; d++)
        keys[d] = (struct make_value){device_keys[d % DEVICES],
                                      (uint32_t)strlen(device_keys[d % DEVICES])};
    struct make_batch batch = {.tablet_count = tablet_count,
                               .tablets = tablets,
                               .interval = 1 + below(stream, 60),
                               .device_count = TABLES * DEVICES,
                               .keys = keys};
    uint8_t *payload;
    uint32_t bytes = make_batch(&batch, &payload);
    struct err_msg msg = {0};
    if (batch_check(payload, bytes, &msg) != 0) fail_msg("%s", msg.text);
    struct store_place place = store_batch(&stream->store, payload, bytes);
    mem_free(payload);
    for (uint32_t g = 0; g < tablet_count; g++)
        free_tablet(&tablets[g]);
    stream->rows += op->row_count;
    return place;
}

static struct store_place random_delete(struct stream *stream, struct op *op)
{
    uint32_t ids[COLUMNS + 1], id_count = 0, key_count = 0;
    struct batch_key keys[DEVICES];
    op->is_delete = true;
    op->table = below(stream, TABLES);
    op->column_mask = below(stream, 2) == 0 ? 0 : 1 + below(stream, (1u << COLUMNS) - 1);
    op->device_mask = 1 + below(stream, (1u << DEVICES) - 1);
    uint32_t first = below(stream, TIMES), last = below(stream, TIMES);
    op->from = time_of(first);
    op->to = time_of(last); /* may end before it starts */
    if (below(stream, 2) == 0 && op->to < op->from) op->to = op->from;
    for (uint32_t c = 0; c < COLUMNS; c++)
        if ((op->column_mask >> c & 1) != 0) ids[id_count++] = column_ids[c];
    if (id_count != 0) ids[id_count++] = 4711; /* a column that nobody has */
    bool all = op->device_mask == (1u << DEVICES) - 1;
    for (uint32_t d = 0; d < DEVICES && !all; d++)
        if ((op->device_mask >> d & 1) != 0)
            keys[key_count++] =
                (struct batch_key){device_keys[d], (uint32_t)strlen(device_keys[d])};
    const struct batch_delete delete_ = {.incarnation = 40 + op->table,
                                         .column_count = id_count,
                                         .columns = ids,
                                         .all_devices = all,
                                         .device_count = key_count,
                                         .time_from = op->from,
                                         .time_to = op->to};
    stream->deletes++;
    return store_delete(&stream->store, &delete_, keys);
}

static void random_op(struct stream *stream)
{
    struct op *op = &stream->ops[stream->op_count++];
    if (below(stream, 16) == 0) store_next(&stream->store);
    struct store_place place = below(stream, 8) < stream->deletes_of_8 ? random_delete(stream, op)
                                                                       : random_write(stream, op);
    op->lsn = place.lsn;
    op->is_void = below(stream, 8) == 0;
    if (op->is_void) {
        memtable_void(place.segment, place.at);
        stream->voids++;
    }
    assert_int_equal(memtable_is_void(place.segment, place.at), op->is_void);
}

struct asked {
    struct memtable_want wants[COLUMNS + 4];
    uint32_t columns[COLUMNS + 4]; /* COLUMNS: null in every row */
};

static void random_wants(struct stream *stream, struct asked *asked, struct memtable_query *query)
{
    query->want_count = below(stream, COLUMNS + 5);
    for (uint32_t w = 0; w < query->want_count; w++) {
        uint32_t c = below(stream, COLUMNS);
        asked->columns[w] = c;
        asked->wants[w] = (struct memtable_want){column_ids[c], column_types[c]};
        if (below(stream, 12) != 0) continue;
        asked->columns[w] = COLUMNS;
        asked->wants[w].id += below(stream, 2) == 0 ? 1 : 0;
        asked->wants[w].type = (uint8_t)(column_types[c] == 1 ? 2 : 1);
    }
    query->wants = asked->wants;
}

static void check_row(const struct memtable_query *query, const struct asked *asked,
                      const struct model_row *row, const struct memtable_cell *cells)
{
    for (uint32_t w = 0; w < query->want_count; w++) {
        static const struct cell null_cell;
        const struct cell *cell =
            asked->columns[w] == COLUMNS ? &null_cell : &row->cells[asked->columns[w]];
        assert_int_equal(cells[w].data != NULL, cell->present);
        if (!cell->present) continue;
        assert_int_equal(cells[w].bytes, cell->bytes);
        assert_memory_equal(cells[w].data, cell->data, cell->bytes);
    }
}

/* Walks the scan in chunks of random sizes beside the model's rows. */
static void check_scan(struct stream *stream, struct memtable_scan *scan,
                       const struct memtable_query *query, const struct asked *asked,
                       const struct model_row rows[TIMES])
{
    int64_t times[8];
    struct memtable_cell cells[8 * (COLUMNS + 4) + 1];
    uint32_t next = 0, chunk = 1 + below(stream, 8);
    int64_t count = 0, at = 0;
    for (; next < TIMES; next++) {
        uint32_t t = query->descending ? TIMES - 1 - next : next;
        if (time_of(t) < query->time_from || time_of(t) > query->time_to ||
            !model_row_shows(&rows[t], query->rows_without_cells))
            continue;
        if (at == count) {
            count = memtable_scan_next(scan, times, cells, chunk);
            assert_in_range(count, 1, chunk);
            at = 0;
        }
        assert_int_equal(times[at], time_of(t));
        check_row(query, asked, &rows[t], cells + at * query->want_count);
        at++;
    }
    assert_int_equal(at, count);
    assert_int_equal(memtable_scan_next(scan, times, cells, chunk), 0);
    assert_int_equal(memtable_scan_next(scan, times, cells, chunk), 0);
}

static void random_query(struct stream *stream)
{
    struct asked asked;
    struct model_row rows[TIMES] = {0};
    uint32_t table = below(stream, TABLES), device = below(stream, DEVICES);
    uint32_t first = below(stream, TIMES), last = first + below(stream, TIMES - first);
    struct memtable_query query = {.incarnation = 40 + table,
                                   .key = device_keys[device],
                                   .key_bytes = (uint32_t)strlen(device_keys[device]),
                                   .time_from = INT64_MIN,
                                   .time_to = INT64_MAX,
                                   .descending = below(stream, 2) == 0,
                                   .rows_without_cells = below(stream, 2) == 0};
    if (below(stream, 2) == 0) {
        query.time_from = time_of(first);
        query.time_to = time_of(last);
    }
    query.device =
        devices_find(stream->store.devices, query.incarnation, query.key, query.key_bytes);
    if (query.device == UINT32_MAX) return;
    random_wants(stream, &asked, &query);
    uint32_t seen = below(stream, 2) == 0 ? stream->op_count : below(stream, stream->op_count + 1);
    for (uint32_t i = 0; i < seen; i++)
        if (!stream->ops[i].is_void) model_apply(&stream->ops[i], table, device, rows);
    struct memtable_snapshot snapshot = {
        .segments = stream->store.segments,
        .segment_count = stream->store.segment_count,
        .visible = seen == stream->op_count ? stream->store.visible : stream->ops[seen].lsn};
    struct memtable_scan *scan;
    assert_int_equal(memtable_scan_open(&snapshot, &query, &scan), 0);
    check_scan(stream, scan, &query, &asked, rows);
    memtable_scan_close(scan);
}

static void memtable_scan__random_streams__as_the_model(void **state)
{
    (void)state;
    uint64_t seed = make_seed("memtable_scan");
    uint64_t queries = 0, rows = 0, deletes = 0, voids = 0;
    int64_t heap_before = alloc_bytes_in_use();
    for (uint32_t round = 0; round < 250; round++) {
        struct stream stream = {.random = {seed + round}, .deletes_of_8 = 1 + round % 6};
        uint32_t ops = 1 + below(&stream, 50);
        store_init(&stream.store, 1u << 18, 1u << 16);
        stream.ops = mem_zalloc_array(ops, sizeof *stream.ops);
        for (uint32_t i = 0; i < ops; i++) {
            random_op(&stream);
            for (uint32_t q = 0; q < 4; q++, queries++)
                random_query(&stream);
        }
        rows += stream.rows;
        deletes += stream.deletes;
        voids += stream.voids;
        for (uint32_t i = 0; i < ops; i++) {
            mem_free(stream.ops[i].rows);
            mem_free(stream.ops[i].row_tables);
        }
        mem_free(stream.ops);
        store_deinit(&stream.store);
    }
    printf("%" PRIu64 " queries over %" PRIu64 " rows, %" PRIu64 " deletes, %" PRIu64 " voids\n",
           queries, rows, deletes, voids);
    assert_true(deletes > 100 && voids > 100);
    assert_int_equal(alloc_bytes_in_use(), heap_before);
}

/* ---- single points ---- */

/* One tablet of one device with an INT64 column 100, an INT32 column 9 and a TEXT column 3. */
struct small_row {
    int64_t time;
    int64_t value; /* INT64_MIN: null */
    const char *text;
};
static struct store_place write_small(struct store *store, const char *key, uint32_t row_count,
                                      const struct small_row *small)
{
    struct make_row *rows = mem_zalloc_array(row_count, sizeof *rows);
    struct make_value *numbers = mem_zalloc_array(row_count, sizeof *numbers);
    struct make_value *texts = mem_zalloc_array(row_count, sizeof *texts);
    for (uint32_t r = 0; r < row_count; r++) {
        rows[r] = (struct make_row){0, small[r].time};
        if (small[r].value != INT64_MIN) numbers[r] = (struct make_value){&small[r].value, 8};
        if (small[r].text != NULL)
            texts[r] = (struct make_value){small[r].text, (uint32_t)strlen(small[r].text)};
    }
    const struct make_column columns[] = {{100, 2, numbers}, {3, 5, texts}};
    const struct make_tablet tablet = {40, row_count, rows, 2, columns};
    const struct make_value name = {key, (uint32_t)strlen(key)};
    const struct make_batch batch = {0, 1, &tablet, INT64_MAX, 1, &name};
    uint8_t *payload;
    uint32_t bytes = make_batch(&batch, &payload);
    struct store_place place = store_batch(store, payload, bytes);
    mem_free(payload);
    mem_free(rows);
    mem_free(numbers);
    mem_free(texts);
    return place;
}

static const struct memtable_want small_wants[] = {{100, 2}, {3, 5}};

static struct memtable_query query_small(const struct store *store, const char *key)
{
    struct memtable_query query = {.incarnation = 40,
                                   .key = key,
                                   .key_bytes = (uint32_t)strlen(key),
                                   .wants = small_wants,
                                   .want_count = 2,
                                   .time_from = INT64_MIN,
                                   .time_to = INT64_MAX};
    query.device = devices_find(store->devices, 40, key, query.key_bytes);
    assert_int_not_equal(query.device, UINT32_MAX);
    return query;
}

/* Expects exactly these rows, each way. */
static void expect_small(struct store *store, struct memtable_query query, uint32_t row_count,
                         const struct small_row *small)
{
    struct memtable_snapshot snapshot = store_snapshot(store);
    for (int down = 0; down < 2; down++) {
        struct memtable_scan *scan;
        int64_t time, value;
        struct memtable_cell cells[2];
        query.descending = down != 0;
        assert_int_equal(memtable_scan_open(&snapshot, &query, &scan), 0);
        for (uint32_t i = 0; i < row_count; i++) {
            const struct small_row *row = &small[down != 0 ? row_count - 1 - i : i];
            assert_int_equal(memtable_scan_next(scan, &time, cells, 1), 1);
            assert_int_equal(time, row->time);
            assert_int_equal(cells[0].data != NULL, row->value != INT64_MIN);
            if (cells[0].data != NULL) {
                memcpy(&value, cells[0].data, 8);
                assert_int_equal(value, row->value);
            }
            assert_int_equal(cells[1].data != NULL, row->text != NULL);
            if (row->text == NULL) continue;
            assert_int_equal(cells[1].bytes, strlen(row->text));
            assert_memory_equal(cells[1].data, row->text, cells[1].bytes);
        }
        assert_int_equal(memtable_scan_next(scan, &time, cells, 1), 0);
        memtable_scan_close(scan);
    }
}

static void memtable_scan__same_time_in_one_extent__later_row_wins_cell_by_cell(void **state)
{
    (void)state;
    struct store store;
    store_init(&store, 1 << 18, 1 << 16);
    const struct small_row written[] = {
        {5, 1, "old"}, {5, 2, NULL}, {5, INT64_MIN, ""}, {6, INT64_MIN, NULL}};
    const struct small_row with[] = {{5, 2, ""}, {6, INT64_MIN, NULL}};
    write_small(&store, "d", 4, written);
    struct memtable_query query = query_small(&store, "d");
    expect_small(&store, query, 1, with); /* tree model: a row of nulls is none */
    query.rows_without_cells = true;
    expect_small(&store, query, 2, with);
    store_deinit(&store);
}

static void memtable_scan__deletes__by_order_range_column_and_device(void **state)
{
    (void)state;
    struct store store;
    static const uint32_t number_column[] = {100}, both[] = {3, 100};
    const struct batch_key keys[] = {{"d", 1}, {"e", 1}};
    const struct small_row rows[] = {{INT64_MIN, 1, "a"}, {0, 2, "b"}, {INT64_MAX, 3, "c"}};
    struct batch_delete delete_ = {
        .incarnation = 40, .device_count = 2, .time_from = 0, .time_to = 0};
    store_init(&store, 1 << 18, 1 << 16);
    write_small(&store, "d", 3, rows);
    write_small(&store, "f", 3, rows);
    struct memtable_query query = query_small(&store, "d");

    /* A whole row; another device and another table keep theirs. */
    struct store_place place = store_delete(&store, &delete_, keys);
    const struct small_row without_zero[] = {rows[0], rows[2]};
    expect_small(&store, query, 2, without_zero);
    expect_small(&store, query_small(&store, "f"), 3, rows);
    query.incarnation = 41;
    expect_small(&store, query, 3, rows); /* another table's delete */
    query.incarnation = 40;
    /* Void, it counts no more. */
    memtable_void(place.segment, place.at);
    expect_small(&store, query, 3, rows);

    /* A column, at both ends of time. */
    delete_ = (struct batch_delete){.incarnation = 40,
                                    .column_count = 1,
                                    .columns = number_column,
                                    .all_devices = true,
                                    .time_from = INT64_MIN,
                                    .time_to = INT64_MAX};
    store_delete(&store, &delete_, NULL);
    const struct small_row texts[] = {
        {INT64_MIN, INT64_MIN, "a"}, {0, INT64_MIN, "b"}, {INT64_MAX, INT64_MIN, "c"}};
    expect_small(&store, query, 3, texts);
    /* What is written later is not covered. */
    const struct small_row again = {0, 9, NULL}, after[] = {texts[0], {0, 9, "b"}, texts[2]};
    write_small(&store, "d", 1, &again);
    expect_small(&store, query, 3, after);
    /* Every column: the row is gone in the tree model, and stays in the table model. */
    delete_.column_count = 2;
    delete_.columns = both;
    delete_.time_from = delete_.time_to = INT64_MAX;
    store_delete(&store, &delete_, NULL);
    const struct small_row empty[] = {after[0], after[1], {INT64_MAX, INT64_MIN, NULL}};
    expect_small(&store, query, 2, empty);
    query.rows_without_cells = true;
    expect_small(&store, query, 3, empty);
    store_deinit(&store);
}

static void memtable_scan__column_not_asked_for__still_makes_the_row(void **state)
{
    (void)state;
    struct store store;
    static const struct memtable_want text[] = {{999, 2}, {3, 5}};
    const struct small_row rows[] = {{1, 1, NULL}, {2, INT64_MIN, NULL}, {3, INT64_MIN, "x"}};
    const struct small_row shown[] = {{1, INT64_MIN, NULL}, {3, INT64_MIN, "x"}};
    store_init(&store, 1 << 18, 1 << 16);
    write_small(&store, "d", 3, rows);
    struct memtable_query query = query_small(&store, "d");
    query.wants = text;
    expect_small(&store, query, 2, shown);
    /* Its cell deleted, it makes none. */
    static const uint32_t number_column[] = {100};
    const struct batch_delete delete_ = {.incarnation = 40,
                                         .column_count = 1,
                                         .columns = number_column,
                                         .all_devices = true,
                                         .time_to = 10};
    store_delete(&store, &delete_, NULL);
    expect_small(&store, query, 1, &shown[1]);
    store_deinit(&store);
}

static void memtable_scan__no_wants__times_alone(void **state)
{
    (void)state;
    struct store store;
    const struct small_row rows[] = {{1, 1, NULL}, {2, INT64_MIN, NULL}, {3, INT64_MIN, "x"}};
    int64_t times[4];
    struct memtable_scan *scan;
    store_init(&store, 1 << 18, 1 << 16);
    write_small(&store, "d", 3, rows);
    struct memtable_snapshot snapshot = store_snapshot(&store);
    struct memtable_query query = query_small(&store, "d");
    query.wants = NULL;
    query.want_count = 0;
    assert_int_equal(memtable_scan_open(&snapshot, &query, &scan), 0);
    assert_int_equal(memtable_scan_next(scan, times, NULL, 4), 2);
    assert_int_equal(times[1], 3);
    memtable_scan_close(scan);
    query.time_from = 2;
    query.time_to = 1;
    assert_int_equal(memtable_scan_open(&snapshot, &query, &scan), 0);
    assert_int_equal(memtable_scan_next(scan, times, NULL, 4), 0);
    memtable_scan_close(scan);
    store_deinit(&store);
}

/* Overlapping extents, so that many streams are open; the k-th allocation fails. */
static void memtable_scan__no_memory__enomem_and_no_row_lost(void **state)
{
    (void)state;
    struct store store;
    store_init(&store, 1 << 20, 1 << 18);
    for (int64_t i = 0; i < 40; i++) {
        const struct small_row rows[] = {{i, i, "a"}, {i + 100, i, "b"}};
        write_small(&store, "d", 2, rows);
    }
    const struct batch_delete delete_ = {
        .incarnation = 40, .all_devices = true, .time_from = 50, .time_to = 60};
    store_delete(&store, &delete_, NULL);
    struct memtable_snapshot snapshot = store_snapshot(&store);
    struct memtable_query query = query_small(&store, "d");
    int64_t before = alloc_bytes_in_use();
    uint32_t failed_opens = 0, failed_calls = 0;
    for (uint64_t k = 1; k < 200; k++) {
        struct memtable_scan *scan;
        struct memtable_cell cells[6];
        int64_t times[3], next = 0, count;
        alloc_fail_at(k);
        int rc = memtable_scan_open(&snapshot, &query, &scan);
        if (rc != 0) {
            assert_int_equal(rc, -ENOMEM);
            failed_opens++;
            continue;
        }
        while ((count = memtable_scan_next(scan, times, cells, k % 2 == 0 ? 1 : 3)) != 0) {
            if (count < 0) {
                assert_int_equal(count, -ENOMEM);
                failed_calls++;
            }
            for (int64_t i = 0; i < count; i++, next++)
                assert_int_equal(times[i], next < 40 ? next : next + 60);
        }
        assert_int_equal(next, 80);
        memtable_scan_close(scan);
        alloc_fail_at(0);
        assert_int_equal(alloc_bytes_in_use(), before);
    }
    alloc_fail_at(0);
    printf("%u opens and %u calls without memory\n", failed_opens, failed_calls);
    assert_true(failed_opens >= 5 && failed_calls >= 20);
    store_deinit(&store);
}

/* ---- sizes and times ---- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define EXTENTS 100000u
#else
#define EXTENTS 1000000u
#endif

static const char *const orders[] = {"in order", "backwards", "shuffled", "one time"};

static int64_t time_in_order(uint32_t order, uint32_t i, uint32_t count)
{
    if (order == 0) return i;
    if (order == 1) return (int64_t)count - 1 - i;
    if (order == 2) return (int64_t)((uint64_t)i * 387099731u % count); /* a permutation */
    return 5;
}

/* Every row an extent of its own. Returns the time that opening and reading it all took. */
static uint64_t scan_all(const struct memtable_snapshot *snapshot,
                         const struct memtable_query *query, uint32_t expected_rows)
{
    static int64_t times[1024];
    static struct memtable_cell cells[2048];
    struct memtable_scan *scan;
    uint64_t began = now_ns();
    uint32_t rows = 0;
    int64_t count, sum = 0;
    assert_int_equal(memtable_scan_open(snapshot, query, &scan), 0);
    while ((count = memtable_scan_next(scan, times, cells, 1024)) > 0) {
        for (int64_t i = 0; i < count; i++)
            sum += cells[2 * i].data[0];
        rows += (uint32_t)count;
    }
    assert_int_equal(count, 0);
    memtable_scan_close(scan);
    assert_int_equal(rows, expected_rows);
    assert_true(sum > 0);
    return now_ns() - began;
}

static void memtable_scan__a_million_extents__in_less_than_seconds(void **state)
{
    (void)state;
    for (uint32_t order = 0; order < 4; order++) {
        struct store store;
        const uint32_t count = order == 0 ? EXTENTS : EXTENTS / 4;
        store_init(&store, 64u << 20, 16u << 20);
        uint64_t linking = 0;
        const struct small_row first = {0, 1, "x"};
        write_small(&store, "d", 1, &first);
        struct store_place model = {.segment = store.segments[0], .payload_off = 4096 + 64};
        uint32_t bytes = store.image_used - 4096 - 64;
        for (uint32_t i = 0; i < count; i++) {
            struct store_place place = store_reserve(&store, bytes, 1);
            uint8_t *payload = place.segment->image + place.payload_off;
            memcpy(payload, model.segment->image + model.payload_off, bytes);
            struct batch_view view;
            struct batch_group group;
            struct batch_fragment fragment;
            batch_open(&view, payload, bytes);
            batch_read_group(&view, 0, &group);
            int64_t time = time_in_order(order, i, count);
            memcpy((uint8_t *)(uintptr_t)group.times, &time, sizeof time);
            batch_read_fragment(&view, 0, &fragment);
            fragment.time_min = fragment.time_max = time;
            uint64_t began = now_ns();
            memtable_link(place.segment, place.at, 0, place.payload_off, &fragment, 0);
            linking += now_ns() - began;
        }
        struct memtable_snapshot snapshot = store_snapshot(&store);
        struct memtable_query query = query_small(&store, "d");
        uint32_t rows = order == 3 ? 2 : count;
        uint64_t up = scan_all(&snapshot, &query, rows);
        query.descending = true;
        uint64_t down = scan_all(&snapshot, &query, rows);
        printf("%u extents of one row, %s: link %.0f ns each, scan %.0f ms, descending %.0f ms\n",
               count, orders[order], (double)linking / count, (double)up / 1e6, (double)down / 1e6);
        /* Quadratic behaviour would take hours. */
        assert_true(up < 20000000000u && down < 20000000000u);
        store_deinit(&store);
    }
}

/* Batches of a hundred devices, ten rounds over all of them: as many extents as the test above has,
 * spread out. */
static void memtable_scan__many_devices__each_its_own_rows(void **state)
{
    (void)state;
    const uint32_t device_count = EXTENTS / 10, at_once = 100, rounds = 10;
    struct store store;
    struct make_row rows[100];
    struct make_value keys[100], numbers[100];
    char names[100][16];
    int64_t values[100];
    store_init(&store, 64u << 20, 16u << 20);
    uint64_t began = now_ns();
    for (uint32_t i = 0; i < rounds * device_count; i += at_once) {
        for (uint32_t d = 0; d < at_once; d++) {
            int bytes = snprintf(names[d], sizeof names[d], "h%u", (i + d) % device_count);
            values[d] = 1 + i + d;
            keys[d] = (struct make_value){names[d], (uint32_t)bytes};
            rows[d] = (struct make_row){d, i / device_count};
            numbers[d] = (struct make_value){&values[d], 8};
        }
        const struct make_column column = {100, 2, numbers};
        const struct make_tablet tablet = {40, at_once, rows, 1, &column};
        const struct make_batch batch = {0, 1, &tablet, 1000, at_once, keys};
        uint8_t *payload;
        uint32_t bytes = make_batch(&batch, &payload);
        store_batch(&store, payload, bytes);
        mem_free(payload);
    }
    uint64_t written = now_ns();
    struct memtable_snapshot snapshot = store_snapshot(&store);
    assert_int_equal(devices_count(store.devices), device_count);
    for (uint32_t d = 0; d < device_count; d++) {
        char name[16];
        int64_t times[16], value;
        struct memtable_cell cells[32];
        struct memtable_scan *scan;
        (void)snprintf(name, sizeof name, "h%u", d);
        struct memtable_query query = query_small(&store, name);
        assert_int_equal(memtable_scan_open(&snapshot, &query, &scan), 0);
        assert_int_equal(memtable_scan_next(scan, times, cells, 16), rounds);
        for (uint32_t r = 0; r < rounds; r++) {
            memcpy(&value, cells[2 * r].data, 8);
            assert_int_equal(times[r], r);
            assert_int_equal(value, 1 + (int64_t)r * device_count + d);
            assert_null(cells[2 * r + 1].data);
        }
        memtable_scan_close(scan);
    }
    printf("%u devices with %u extents each in %u segments: write %.0f ns an extent, scan %.0f ns "
           "a device\n",
           device_count, rounds, store.segment_count,
           (double)(written - began) / (rounds * device_count),
           (double)(now_ns() - written) / device_count);
    store_deinit(&store);
}

/* Deletes that overlap, and ones that lie side by side: neither is looked at for every row. */
static void memtable_scan__many_deletes__time_grows_with_their_number_alone(void **state)
{
    (void)state;
    struct store store;
    store_init(&store, 64u << 20, 16u << 20);
    const uint32_t rows = 400000, deletes = 40000;
    struct small_row *small = mem_zalloc_array(rows, sizeof *small);
    for (uint32_t i = 0; i < rows; i++)
        small[i] = (struct small_row){(int64_t)i, 1 + (int64_t)i % 100, "t"};
    write_small(&store, "d", rows, small);
    mem_free(small);
    static const uint32_t text_column[] = {3};
    for (uint32_t i = 0; i < deletes; i++) {
        struct batch_delete delete_ = {.incarnation = 40,
                                       .all_devices = true,
                                       .column_count = i % 2,
                                       .columns = text_column,
                                       .time_from = 10 * (int64_t)i,
                                       .time_to = i % 2 == 1 ? INT64_MAX : 10 * (int64_t)i};
        store_delete(&store, &delete_, NULL);
    }
    struct memtable_snapshot snapshot = store_snapshot(&store);
    struct memtable_query query = query_small(&store, "d");
    uint64_t took = scan_all(&snapshot, &query, rows - deletes / 2);
    printf("%u rows under %u deletes: %.0f ms\n", rows, deletes, (double)took / 1e6);
    assert_true(took < 20000000000u);
    store_deinit(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memtable_scan__random_streams__as_the_model),
        cmocka_unit_test(memtable_scan__same_time_in_one_extent__later_row_wins_cell_by_cell),
        cmocka_unit_test(memtable_scan__deletes__by_order_range_column_and_device),
        cmocka_unit_test(memtable_scan__column_not_asked_for__still_makes_the_row),
        cmocka_unit_test(memtable_scan__no_wants__times_alone),
        cmocka_unit_test(memtable_scan__no_memory__enomem_and_no_row_lost),
        cmocka_unit_test(memtable_scan__a_million_extents__in_less_than_seconds),
        cmocka_unit_test(memtable_scan__many_devices__each_its_own_rows),
        cmocka_unit_test(memtable_scan__many_deletes__time_grows_with_their_number_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
