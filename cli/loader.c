#include "cli/loader.h"

#include "cli/acks.h"
#include "cli/bad_lines.h"
#include "cli/batch.h"
#include "cli/input.h"
#include "cli/lp.h"
#include "cli/memory.h"
#include "cli/progress.h"
#include "cli/stop.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { FLUSH_EVERY_NS = 1000000000 };

struct loader {
    struct rf_engine *engine;
    const struct load_options *o;
    struct load_result *result;
    int64_t started_ns;

    /* Under input_lock: the input, and what its files' headers say. */
    pthread_mutex_t input_lock;
    struct input *input;
    uint64_t blocks_taken;
    struct csv_header **header; /* by file; NULL: not read yet */
    struct text *header_text;   /* by file, as it lies in the file */
    bool input_ended;

    /* Under turn_lock: whose batch goes to the engine next. */
    pthread_mutex_t turn_lock;
    pthread_cond_t turn_moved;
    uint64_t turn;
    uint64_t failed_block; /* lowest one that failed */
    /* W: under turn_lock. R: any worker. Relaxed: a reader outside of the lock only saves work by
     * it; what counts is read again under the lock. */
    atomic_bool stopped;

    /* Under done_lock: what is acknowledged. The result's counts too. */
    pthread_mutex_t done_lock;
    struct acks acks;
    struct bad_lines bad;
    struct progress progress;
    int64_t flushed_ns;
};

struct worker {
    struct loader *l;
    pthread_t thread;
    struct rf_queue *queue; /* NULL: writes block */
    struct block block;
    uint64_t number;                 /* of the block */
    size_t first;                    /* record of the block that is no header */
    const struct csv_header *header; /* NULL: line protocol */
    const struct csv_header *declared;
    char **aside; /* by record: why it is put aside, NULL: it is not */
    size_t aside_capacity;
    struct batch batch;
    struct row row;
    struct csv_record scratch;
    int64_t submitted_ns;
    enum exit_code code; /* of this block; why says more when it is not EXIT_OK */
    char why[1024];
    const char *advice;
};

static int64_t now_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

/* ---- places ---- */

/* "file:line:column: why". A CSV record can span lines: the column is in the line it lies in. */
static void describe(const struct worker *w, size_t record, size_t column, const char *why,
                     char *out, size_t out_bytes)
{
    struct text text = block_text(&w->block, record);
    uint64_t line = w->block.record[record].line;
    const char *at = text.at;
    if (column > 0) {
        const char *end = text.at + (column - 1 < text.bytes ? column - 1 : text.bytes);
        for (const char *lf; (lf = memchr(at, '\n', (size_t)(end - at))) != NULL; at = lf + 1)
            line++;
        column -= (size_t)(at - text.at);
        snprintf(out, out_bytes, "%s:%llu:%zu: %s", w->block.file, (unsigned long long)line, column,
                 why);
    } else {
        snprintf(out, out_bytes, "%s:%llu: %s", w->block.file, (unsigned long long)line, why);
    }
}

static void fail(struct worker *w, enum exit_code code, const char *why)
{
    w->code = code;
    snprintf(w->why, sizeof w->why, "%s", why);
}

static void fail_at(struct worker *w, size_t record, const struct bad *bad)
{
    w->code = EXIT_REFUSED;
    describe(w, record, bad->column, bad->why, w->why, sizeof w->why);
}

/* ---- taking a block ---- */

/* The first record of a file that holds anything is its header. */
static bool read_header(struct worker *w)
{
    struct loader *l = w->l;
    size_t file = w->block.file_index;
    while (w->first < w->block.record_count) {
        size_t record = w->first++;
        struct text text = block_text(&w->block, record);
        struct bad bad = {0};
        if (text.bytes == 0 || (text.bytes == 1 && text.at[0] == '\r')) continue;
        struct csv_header *header = need_zalloc(sizeof *header);
        if (!csv_header_init(header, l->o->csv, text, &bad)) {
            mem_free(header);
            fail_at(w, record, &bad);
            return false;
        }
        l->header[file] = header;
        l->header_text[file] = (struct text){need_strndup(text.at, text.bytes), text.bytes};
        return true;
    }
    return true;
}

static void prepare_csv(struct worker *w)
{
    struct loader *l = w->l;
    size_t file = w->block.file_index;
    w->first = 0;
    if (l->header[file] == NULL && !read_header(w)) return;
    struct csv_header *header = l->header[file];
    w->header = header;
    for (size_t i = w->first; header != NULL && header->unsettled > 0; i++) {
        if (i == w->block.record_count) break;
        csv_settle(header, block_text(&w->block, i), &w->scratch);
    }
}

/* False when there is no more to do. A failure to read is a block too: it waits for its turn, so
 * that everything in front of it is stored. */
static bool take_block(struct worker *w)
{
    struct loader *l = w->l;
    char why[512] = "";
    int rc = INPUT_INTERRUPTED;
    w->code = EXIT_OK;
    w->advice = NULL;
    pthread_mutex_lock(&l->input_lock);
    while (rc == INPUT_INTERRUPTED && !l->input_ended && !stop_requested() &&
           !atomic_load_explicit(&l->stopped, memory_order_relaxed))
        rc = input_next(l->input, l->o->batch_rows, &w->block, why, sizeof why);
    if (rc == INPUT_END || rc == INPUT_FAILED) l->input_ended = true;
    if (rc == INPUT_BLOCK || rc == INPUT_FAILED) w->number = l->blocks_taken++;
    if (rc == INPUT_FAILED) fail(w, EXIT_ENVIRONMENT, why);
    if (rc == INPUT_BLOCK && l->o->csv != NULL) prepare_csv(w);
    progress_bytes(&l->progress, input_bytes_done(l->input));
    pthread_mutex_unlock(&l->input_lock);
    return rc == INPUT_BLOCK || rc == INPUT_FAILED;
}

/* ---- a block becomes a batch ---- */

enum parsed { PARSED_ROW, PARSED_NOTHING, PARSED_BAD };

static enum parsed parse_record(struct worker *w, size_t record, struct bad *bad)
{
    struct text text = block_text(&w->block, record);
    if (w->l->o->csv == NULL) {
        enum lp_result result = lp_parse(text, &w->l->o->time, &w->row, bad);
        return result == LP_ROW ? PARSED_ROW : result == LP_BAD ? PARSED_BAD : PARSED_NOTHING;
    }
    if (w->header == NULL) return PARSED_NOTHING; /* blank lines before the header */
    enum csv_result result = csv_parse(w->header, text, &w->scratch, &w->row, bad);
    return result == CSV_ROW ? PARSED_ROW : result == CSV_BAD ? PARSED_BAD : PARSED_NOTHING;
}

static void put_aside(struct worker *w, size_t record, const struct bad *bad)
{
    char why[1024];
    if (w->aside[record] != NULL) return;
    describe(w, record, bad->column, bad->why, why, sizeof why);
    w->aside[record] = need_strndup(why, strlen(why));
}

static void clear_aside(struct worker *w, size_t records)
{
    for (size_t i = 0; i < w->aside_capacity; i++) {
        mem_free(w->aside[i]);
        w->aside[i] = NULL;
    }
    size_t known = w->aside_capacity;
    need_room(&w->aside, &w->aside_capacity, records, sizeof *w->aside);
    for (size_t i = known; i < w->aside_capacity; i++)
        w->aside[i] = NULL;
}

enum built { BUILT, BUILD_AGAIN, BUILD_FAILED };

static enum built build_once(struct worker *w)
{
    bool skips = w->l->o->bad_file != NULL;
    batch_begin(&w->batch);
    for (size_t i = w->first; i < w->block.record_count; i++) {
        struct bad bad = {0};
        if (w->aside[i] != NULL) continue;
        enum parsed parsed = parse_record(w, i, &bad);
        if (parsed == PARSED_NOTHING) continue;
        bool fits = parsed == PARSED_ROW && batch_add(&w->batch, &w->row, (uint32_t)i, &bad);
        if (fits) continue;
        if (!skips) {
            fail_at(w, i, &bad);
            return BUILD_FAILED;
        }
        put_aside(w, i, &bad);
        if (parsed == PARSED_ROW) return BUILD_AGAIN; /* a part of it is in the batch */
    }
    batch_finish(&w->batch);
    return BUILT;
}

/* A table that is made by CSV has its columns in the header's order. */
static void declare_columns(struct worker *w)
{
    if (w->header == NULL || w->declared == w->header) return;
    w->declared = w->header;
    for (size_t i = 0; i < w->header->count; i++)
        if (w->header->column[i].role != CSV_TIME)
            batch_declare(&w->batch, w->header->options->table, w->header->column[i].name);
}

static void build(struct worker *w)
{
    enum built built;
    declare_columns(w);
    do
        built = build_once(w);
    while (built == BUILD_AGAIN);
}

/* ---- the engine refuses ---- */

/* Where in its record a column stands: the record is parsed once more to find out. */
static size_t column_in_record(struct worker *w, size_t record, const char *name)
{
    struct bad bad = {0};
    if (name == NULL || parse_record(w, record, &bad) != PARSED_ROW) return 0;
    for (size_t i = 0; i < w->row.cell_count; i++)
        if (text_is(w->row.cell[i].name, name)) return w->row.cell[i].column;
    return 0;
}

/* The next record, from *row on, that an error is about; UINT32_MAX: there is none. */
static uint32_t record_of_error(const struct worker *w, const struct rf_error *error, uint32_t *row)
{
    if (error->tablet == RF_NONE) return UINT32_MAX;
    if (error->row != RF_NONE)
        return *row == 0 ? batch_record_of_row(&w->batch, error->tablet, error->row) : UINT32_MAX;
    if (error->column == RF_NONE) return UINT32_MAX;
    return batch_record_of_column(&w->batch, error->tablet, error->column, row);
}

static const char *column_of_error(const struct worker *w, const struct rf_error *error)
{
    bool is_there = error->tablet < w->batch.tablet_count && error->column != RF_NONE &&
                    error->column < w->batch.tablet[error->tablet].columns;
    return is_there ? w->batch.tablet[error->tablet].column[error->column].name : NULL;
}

/* Puts aside every line that the engine refuses for its content. False: it is not that. */
static bool put_refused_aside(struct worker *w, int code, const struct rf_error *error)
{
    const char *name = column_of_error(w, error);
    uint32_t row = 0, record;
    bool any = false;
    if (w->l->o->bad_file == NULL || exit_of(code) != EXIT_REFUSED) return false;
    for (; (record = record_of_error(w, error, &row)) != UINT32_MAX; row++) {
        struct bad bad = {0};
        bad_set(&bad, column_in_record(w, record, name), "%s (%s)", error->text,
                rf_code_name(code));
        put_aside(w, record, &bad);
        any = true;
    }
    return any;
}

static void fail_refused(struct worker *w, int code, const struct rf_error *error)
{
    char why[640];
    uint32_t row = 0, record = record_of_error(w, error, &row);
    const char *text = error->text[0] != '\0' ? error->text : rf_strerror(code);
    snprintf(why, sizeof why, "%s (%s)", text, rf_code_name(code));
    w->code = exit_of(code);
    w->advice = advice_for(code);
    if (record != UINT32_MAX) {
        size_t column = column_in_record(w, record, column_of_error(w, error));
        describe(w, record, column, why, w->why, sizeof w->why);
        return;
    }
    const struct input_record *first = &w->block.record[0];
    const struct input_record *last = &w->block.record[w->block.record_count - 1];
    snprintf(w->why, sizeof w->why, "%s:%llu-%llu: %s", w->block.file,
             (unsigned long long)first->line, (unsigned long long)last->line, why);
}

/* ---- handing over, in turn ---- */

static int hand_over(struct worker *w, struct rf_error *error)
{
    struct loader *l = w->l;
    const struct batch *b = &w->batch;
    *error = (struct rf_error){.tablet = RF_NONE, .column = RF_NONE, .row = RF_NONE};
    w->submitted_ns = now_ns();
    if (w->queue == NULL)
        return rf_write_batch(l->engine, b->tablet, (uint32_t)b->tablet_count, error);
    return rf_write_async(w->queue, b->tablet, (uint32_t)b->tablet_count, l->o->wait_ms, NULL, NULL,
                          error);
}

/* The lines put aside are written once the batch is taken: a batch that fails keeps its lines. */
static void keep_aside(struct worker *w)
{
    struct loader *l = w->l;
    for (size_t i = 0; i < w->block.record_count; i++) {
        if (w->aside[i] == NULL) continue;
        struct text *header = l->o->csv != NULL ? &l->header_text[w->block.file_index] : NULL;
        pthread_mutex_lock(&l->done_lock);
        progress_clear(&l->progress);
        int rc = bad_lines_add(&l->bad, header, block_text(&w->block, i), w->aside[i]);
        pthread_mutex_unlock(&l->done_lock);
        if (rc == 0) continue;
        char why[512];
        snprintf(why, sizeof why, "%s: %s", l->o->bad_file, rf_strerror(rc));
        fail(w, EXIT_ENVIRONMENT, why);
        return;
    }
}

static void submit(struct worker *w)
{
    struct rf_error error;
    int rc = 0;
    while (w->batch.tablet_count > 0) {
        rc = hand_over(w, &error);
        if (rc == 0) break;
        if (!put_refused_aside(w, rc, &error)) {
            fail_refused(w, rc, &error);
            return;
        }
        build(w);
        if (w->code != EXIT_OK) return;
    }
    keep_aside(w);
}

/* Waits until all blocks in front are handed over. False: one of them failed, and nothing behind it
 * may be stored. */
static bool begin_turn(struct worker *w)
{
    struct loader *l = w->l;
    pthread_mutex_lock(&l->turn_lock);
    while (l->turn != w->number)
        pthread_cond_wait(&l->turn_moved, &l->turn_lock);
    bool goes_on = !atomic_load_explicit(&l->stopped, memory_order_relaxed);
    pthread_mutex_unlock(&l->turn_lock);
    return goes_on;
}

/* Of several failures the one that stands first in the input is told. */
static void note_failure(struct worker *w)
{
    struct loader *l = w->l;
    bool is_first =
        !atomic_load_explicit(&l->stopped, memory_order_relaxed) || w->number < l->failed_block;
    atomic_store_explicit(&l->stopped, true, memory_order_relaxed);
    if (!is_first) return;
    l->failed_block = w->number;
    l->result->code = w->code;
    l->result->advice = w->advice;
    snprintf(l->result->why, sizeof l->result->why, "%s", w->why);
}

static void end_turn(struct worker *w)
{
    struct loader *l = w->l;
    pthread_mutex_lock(&l->turn_lock);
    if (w->code != EXIT_OK) note_failure(w);
    l->turn++;
    pthread_cond_broadcast(&l->turn_moved);
    pthread_mutex_unlock(&l->turn_lock);
}

/* ---- acknowledged ---- */

static int say_stored(struct loader *l, int64_t now, bool is_end)
{
    uint64_t lines = l->acks.lines_done;
    int rc = bad_lines_sync(&l->bad);
    if (rc != 0) return rc;
    if (!l->o->is_durable) {
        if (!is_end && (l->acks.fd < 0 || now - l->flushed_ns < FLUSH_EVERY_NS)) return 0;
        rc = rf_flush(l->engine);
        if (rc != 0) return rc;
        l->flushed_ns = now_ns();
    }
    return acks_write(&l->acks, lines);
}

static void count(struct worker *w, int64_t now)
{
    struct load_result *r = w->l->result;
    if (w->batch.tablet_count == 0) return;
    r->rows += w->batch.rows;
    r->points += w->batch.points;
    r->batches++;
    hist_add(&r->latency, (uint64_t)(now - w->submitted_ns));
    snprintf(r->table, sizeof r->table, "%s", w->batch.tablet[0].table);
}

static void acknowledged(struct worker *w)
{
    struct loader *l = w->l;
    int64_t now = now_ns();
    pthread_mutex_lock(&l->done_lock);
    count(w, now);
    acks_done(&l->acks, w->number, w->block.lines_through);
    int rc = say_stored(l, now, false);
    progress_show(&l->progress, l->result->rows, now - l->started_ns);
    pthread_mutex_unlock(&l->done_lock);
    if (rc == 0) return;
    char why[512];
    snprintf(why, sizeof why, "what is stored can't be told: %s", rf_strerror(rc));
    fail(w, exit_of(rc), why);
}

static void await(struct worker *w)
{
    struct rf_completion completion;
    struct rf_error error = {.tablet = RF_NONE, .column = RF_NONE, .row = RF_NONE};
    int n = rf_completions(w->queue, &completion, 1, -1);
    int code = n < 0 ? n : completion.code;
    if (code != 0) fail_refused(w, code, &error);
}

static void process(struct worker *w)
{
    clear_aside(w, w->block.record_count);
    batch_begin(&w->batch);
    if (w->code == EXIT_OK) build(w);
    bool goes_on = begin_turn(w);
    if (goes_on && w->code == EXIT_OK) submit(w);
    enum exit_code in_turn = goes_on ? w->code : EXIT_OK;
    bool is_stored = goes_on && in_turn == EXIT_OK;
    if (!goes_on) w->code = EXIT_OK; /* what failed in front is what is told */
    end_turn(w);
    if (is_stored && w->queue != NULL && w->batch.tablet_count > 0) await(w);
    if (is_stored && w->code == EXIT_OK) acknowledged(w);
    if (!is_stored || w->code == EXIT_OK) return;
    pthread_mutex_lock(&w->l->turn_lock);
    note_failure(w);
    pthread_mutex_unlock(&w->l->turn_lock);
}

/* ---- the whole ---- */

static void *work(void *arg)
{
    struct worker *w = arg;
    while (take_block(w))
        process(w);
    return NULL;
}

static void worker_deinit(struct worker *w)
{
    clear_aside(w, 0);
    mem_free(w->aside);
    if (w->queue != NULL) rf_queue_close(w->queue);
    block_deinit(&w->block);
    batch_deinit(&w->batch);
    row_deinit(&w->row);
    csv_record_deinit(&w->scratch);
}

static int run_workers(struct loader *l)
{
    size_t count = l->o->writers, started = 0;
    struct worker *worker = need_zalloc(count * sizeof *worker);
    int rc = 0;
    for (size_t i = 0; i < count; i++)
        worker[i].l = l;
    for (size_t i = 0; rc == 0 && count > 1 && i < count; i++)
        rc = rf_queue_open(l->engine, &worker[i].queue);
    if (rc == 0 && count == 1) work(&worker[0]);
    while (rc == 0 && count > 1 && started < count) {
        rc = -pthread_create(&worker[started].thread, NULL, work, &worker[started]);
        if (rc == 0) started++;
    }
    if (rc != 0) atomic_store_explicit(&l->stopped, true, memory_order_relaxed);
    for (size_t i = 0; i < started; i++)
        pthread_join(worker[i].thread, NULL);
    for (size_t i = 0; i < count; i++)
        worker_deinit(&worker[i]);
    mem_free(worker);
    return rc;
}

static void set_result(struct load_result *r, int rc, const char *what)
{
    if (rc == 0 || r->code != EXIT_OK) return;
    r->code = exit_of(rc);
    r->advice = advice_for(rc);
    snprintf(r->why, sizeof r->why, "%s: %s (%s)", what, rf_strerror(rc), rf_code_name(rc));
}

static void loader_deinit(struct loader *l)
{
    for (size_t i = 0; i < l->o->file_count; i++) {
        if (l->header[i] != NULL) csv_header_deinit(l->header[i]);
        mem_free(l->header[i]);
        mem_free((void *)(uintptr_t)l->header_text[i].at);
    }
    mem_free(l->header);
    mem_free(l->header_text);
    input_destroy(l->input);
    acks_deinit(&l->acks);
    bad_lines_deinit(&l->bad);
}

static void load_all(struct loader *l)
{
    struct load_result *r = l->result;
    if (!input_check(l->input, r->why, sizeof r->why)) {
        r->code = EXIT_ENVIRONMENT;
        return;
    }
    set_result(r, acks_init(&l->acks, l->o->acks_file), l->o->acks_file);
    set_result(r, bad_lines_init(&l->bad, l->o->bad_file), l->o->bad_file);
    if (r->code != EXIT_OK) return;
    progress_init(&l->progress, l->o->wants_progress, input_bytes_total(l->input));
    set_result(r, run_workers(l), "the writers");
    progress_clear(&l->progress);
    set_result(r, say_stored(l, 0, true), "flushing");
    r->lines = l->acks.lines_done;
    r->lines_bad = l->bad.count;
    if (r->code == EXIT_OK && !l->input_ended) r->code = EXIT_STOPPED;
}

void load_run(struct rf_engine *engine, const struct load_options *options,
              struct load_result *result_out)
{
    struct loader l = {
        .engine = engine,
        .o = options,
        .result = result_out,
        .started_ns = now_ns(),
        .input_lock = PTHREAD_MUTEX_INITIALIZER,
        .turn_lock = PTHREAD_MUTEX_INITIALIZER,
        .turn_moved = PTHREAD_COND_INITIALIZER,
        .done_lock = PTHREAD_MUTEX_INITIALIZER,
        .acks = {.fd = -1},
        .bad = {.fd = -1},
    };
    enum record_ends ends = options->csv != NULL ? ENDS_OUTSIDE_QUOTES : ENDS_WITH_LINE;
    *result_out = (struct load_result){0};
    hist_init(&result_out->latency);
    l.input = input_create(options->files, options->file_count, ends);
    l.header = need_zalloc((options->file_count + 1) * sizeof(struct csv_header *));
    l.header_text = need_zalloc((options->file_count + 1) * sizeof *l.header_text);
    load_all(&l);
    result_out->ns = now_ns() - l.started_ns;
    loader_deinit(&l);
}
