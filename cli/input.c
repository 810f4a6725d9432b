#include "cli/input.h"

#include "cli/memory.h"
#include "cli/source.h"

#include "base/alloc.h"
#include "base/errors.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 128 << 10 };

/* Where in a record the reader stands: enough to know which LF ends it. */
enum quote_state { AT_FIELD_START, IN_PLAIN, IN_QUOTES, AFTER_QUOTE };

struct input {
    const char *const *files;
    size_t file_count;
    enum record_ends ends;

    struct source *source; /* NULL: none is open */
    size_t file_index;
    uint64_t line; /* of the next record in the file */
    uint64_t lines_done;
    bool file_ended; /* all its bytes are in rest */
    bool mark_seen;  /* the file's beginning was looked at */

    char *rest; /* read, not yet in a block */
    size_t rest_bytes, rest_capacity;

    uint64_t bytes_before; /* of the files that are done */
    uint64_t bytes_total;
};

void block_deinit(struct block *block)
{
    mem_free(block->text);
    mem_free(block->record);
    *block = (struct block){0};
}

struct input *input_create(const char *const *files, size_t count, enum record_ends ends)
{
    struct input *input = need_zalloc(sizeof *input);
    *input = (struct input){.files = files, .file_count = count, .ends = ends};
    return input;
}

void input_destroy(struct input *input)
{
    if (input == NULL) return;
    source_close(input->source);
    mem_free(input->rest);
    mem_free(input);
}

static bool is_stdin(const char *file)
{
    return strcmp(file, "-") == 0;
}

bool input_check(struct input *input, char *why_out, size_t why_bytes)
{
    bool total_known = true;
    uint64_t total = 0;
    for (size_t i = 0; i < input->file_count; i++) {
        const char *file = input->files[i];
        struct stat st;
        if (is_stdin(file)) {
            total_known = false;
            continue;
        }
        int rc = stat(file, &st) != 0 || access(file, R_OK) != 0 ? errno : 0;
        if (rc == 0 && S_ISDIR(st.st_mode)) rc = EISDIR;
        if (rc != 0) {
            snprintf(why_out, why_bytes, "%s: %s", file, err_text(-rc));
            return false;
        }
        total += (uint64_t)st.st_size;
        total_known = total_known && S_ISREG(st.st_mode);
    }
    input->bytes_total = total_known ? total : 0;
    return true;
}

uint64_t input_bytes_done(const struct input *input)
{
    uint64_t now = input->source != NULL ? source_bytes_taken(input->source) : 0;
    return input->bytes_before + now;
}

uint64_t input_bytes_total(const struct input *input)
{
    return input->bytes_total;
}

/* ---- bytes ---- */

static int open_next(struct input *input, char *why_out, size_t why_bytes)
{
    const char *file = input->files[input->file_index];
    int rc = source_open(file, &input->source);
    if (rc != 0) {
        snprintf(why_out, why_bytes, "%s: %s", file, err_text(rc));
        return INPUT_FAILED;
    }
    input->line = 1;
    input->file_ended = false;
    input->mark_seen = false;
    return 0;
}

static void close_file(struct input *input)
{
    input->bytes_before = input_bytes_done(input);
    source_close(input->source);
    input->source = NULL;
    input->file_index++;
}

/* Adds to rest; 0 also at the file's end, which file_ended then says. */
static int read_more(struct input *input, char *why_out, size_t why_bytes)
{
    const char *why = NULL;
    need_room(&input->rest, &input->rest_capacity, input->rest_bytes + READ_BYTES, 1);
    ssize_t n = source_read(input->source, input->rest + input->rest_bytes, READ_BYTES, &why);
    if (n == -EINTR) return INPUT_INTERRUPTED;
    if (n < 0) {
        snprintf(why_out, why_bytes, "%s: %s", input->files[input->file_index],
                 why != NULL ? why : err_text((int)n));
        return INPUT_FAILED;
    }
    input->rest_bytes += (size_t)n;
    input->file_ended = n == 0;
    return 0;
}

/* ---- records ---- */

struct scan {
    size_t begin; /* of the record that is being looked for */
    size_t at;
    enum quote_state state;
    uint64_t lines;    /* LFs inside the record so far */
    size_t first_line; /* where the record's first LF is, 0: none yet */
};

static enum quote_state next_state(enum quote_state state, char c)
{
    switch (state) {
    case IN_QUOTES: return c == '"' ? AFTER_QUOTE : IN_QUOTES;
    case AFTER_QUOTE:
        if (c == '"') return IN_QUOTES;
        break;
    case AT_FIELD_START:
        if (c == '"') return IN_QUOTES;
        break;
    case IN_PLAIN: break;
    }
    return c == ',' ? AT_FIELD_START : IN_PLAIN;
}

/* Moves on to the LF that ends the record; false when the bytes end before it. */
static bool find_end(const struct input *input, struct scan *s)
{
    const char *rest = input->rest;
    if (s->at >= input->rest_bytes) return false;
    if (input->ends == ENDS_WITH_LINE) {
        const char *lf = memchr(rest + s->at, '\n', input->rest_bytes - s->at);
        s->at = lf != NULL ? (size_t)(lf - rest) : input->rest_bytes;
        return lf != NULL;
    }
    for (; s->at < input->rest_bytes; s->at++) {
        char c = rest[s->at];
        if (c == '\n') {
            if (s->state != IN_QUOTES) return true;
            if (s->lines++ == 0) s->first_line = s->at;
        }
        s->state = next_state(s->state, c);
    }
    return false;
}

static void put_record(struct input *input, struct block *block, struct scan *s)
{
    need_room(&block->record, &block->record_capacity, block->record_count + 1,
              sizeof *block->record);
    block->record[block->record_count++] =
        (struct input_record){s->begin, s->at - s->begin, input->line};
    input->line += s->lines + 1;
    input->lines_done += s->lines + 1;
    s->begin = s->at + 1;
    s->at = s->begin;
    s->state = AT_FIELD_START;
    s->lines = 0;
    s->first_line = 0;
}

/* An open quote that swallows more than a record may have: its first line alone is the record. */
static void cut_to_first_line(struct scan *s)
{
    if (s->lines == 0) return;
    s->at = s->first_line;
    s->lines = 0;
}

/* At the end of a file: what is left is a record although no LF ends it. */
static bool take_last(struct input *input, struct block *block, struct scan *s)
{
    if (s->begin >= input->rest_bytes) return false;
    if (s->state == IN_QUOTES) cut_to_first_line(s);
    put_record(input, block, s);
    return true;
}

/* What was found goes into the block, the rest stays for the next one. */
static void hand_over(struct input *input, struct block *block, size_t bytes)
{
    if (bytes > input->rest_bytes) bytes = input->rest_bytes; /* a last line without LF */
    need_room(&block->text, &block->capacity, bytes + 1, 1);
    if (bytes > 0) memcpy(block->text, input->rest, bytes);
    block->bytes = bytes;
    input->rest_bytes -= bytes;
    if (input->rest_bytes > 0) memmove(input->rest, input->rest + bytes, input->rest_bytes);
    block->lines_through = input->lines_done;
}

static int skip_mark(struct input *input, char *why_out, size_t why_bytes)
{
    if (input->mark_seen) return 0;
    while (input->rest_bytes < 3 && !input->file_ended) {
        int rc = read_more(input, why_out, why_bytes);
        if (rc != 0) return rc;
    }
    input->mark_seen = true;
    if (input->rest_bytes >= 3 && memcmp(input->rest, "\xef\xbb\xbf", 3) == 0) {
        input->rest_bytes -= 3;
        memmove(input->rest, input->rest + 3, input->rest_bytes);
    }
    return 0;
}

static int find_records(struct input *input, size_t records_max, struct block *block,
                        size_t *bytes_out, char *why_out, size_t why_bytes)
{
    struct scan s = {0};
    while (block->record_count < records_max) {
        if (find_end(input, &s)) {
            put_record(input, block, &s);
        } else if (s.at - s.begin > INPUT_RECORD_BYTES_MAX && s.lines > 0) {
            cut_to_first_line(&s);
            put_record(input, block, &s);
        } else if (s.at - s.begin > INPUT_RECORD_BYTES_MAX) {
            snprintf(why_out, why_bytes, "%s:%llu: the line is longer than %d MiB",
                     input->files[input->file_index], (unsigned long long)input->line,
                     INPUT_RECORD_BYTES_MAX >> 20);
            return INPUT_FAILED;
        } else if (!input->file_ended) {
            int rc = read_more(input, why_out, why_bytes);
            if (rc != 0) return rc;
        } else if (!take_last(input, block, &s)) {
            break;
        }
    }
    *bytes_out = s.begin;
    return block->record_count > 0 ? INPUT_BLOCK : INPUT_END;
}

static int fill(struct input *input, size_t records_max, struct block *block, char *why_out,
                size_t why_bytes)
{
    size_t bytes = 0;
    uint64_t line = input->line, lines_done = input->lines_done;
    int rc = find_records(input, records_max, block, &bytes, why_out, why_bytes);
    if (rc < 0) { /* nothing was handed over: the next call finds the same records again */
        block->record_count = 0;
        input->line = line;
        input->lines_done = lines_done;
        return rc;
    }
    hand_over(input, block, bytes);
    return rc;
}

int input_next(struct input *input, size_t records_max, struct block *block_out, char *why_out,
               size_t why_bytes)
{
    block_out->record_count = 0;
    block_out->bytes = 0;
    while (input->file_index < input->file_count) {
        if (input->source == NULL) {
            if (open_next(input, why_out, why_bytes) != 0) return INPUT_FAILED;
        }
        int rc = skip_mark(input, why_out, why_bytes);
        if (rc != 0) return rc;
        block_out->file = input->files[input->file_index];
        block_out->file_index = input->file_index;
        rc = fill(input, records_max, block_out, why_out, why_bytes);
        if (rc != INPUT_END) return rc;
        close_file(input);
    }
    block_out->lines_through = input->lines_done;
    return INPUT_END;
}
