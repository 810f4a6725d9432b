/* Input files, plain or gzip or "-" for the standard input, one after another, in blocks of whole
 * records.
 *
 * A record is a line, or in CSV as many lines as its quotes hold together. The last line of a file
 * needs no LF. A byte order mark at a file's beginning is passed over. A record longer than
 * INPUT_RECORD_BYTES_MAX, and one whose quote is not closed by then or by the file's end, ends with
 * its first line, so that a parser refuses that one and reading goes on behind it.
 * Thread   one at a time; a block, once filled, is the caller's */
#ifndef RF_CLI_INPUT_H
#define RF_CLI_INPUT_H

#include "cli/text.h"

enum { INPUT_RECORD_BYTES_MAX = 64 << 20 };

enum record_ends { ENDS_WITH_LINE, ENDS_OUTSIDE_QUOTES };

struct input_record {
    size_t begin, bytes; /* in the block's text; without the LF */
    uint64_t line;       /* of its first byte in the file, from 1 */
};

struct block {
    char *text;
    size_t bytes, capacity;
    struct input_record *record;
    size_t record_count, record_capacity;
    const char *file;       /* name as given; lives as long as the input */
    size_t file_index;      /* counts files, from 0 */
    uint64_t lines_through; /* lines of the whole input up to this block's end */
};
/* Zeroed memory is an empty block. */
void block_deinit(struct block *block);
static inline struct text block_text(const struct block *block, size_t record)
{
    return (struct text){block->text + block->record[record].begin, block->record[record].bytes};
}

struct input;

/* files: borrowed. Never NULL. Nothing is opened yet. */
struct input *input_create(const char *const *files, size_t count, enum record_ends ends);
void input_destroy(struct input *input);

/* Whether all files are there and can be read, before anything is loaded. False: why_out. */
RF_NODISCARD bool input_check(struct input *input, char *why_out, size_t why_bytes);

enum input_result {
    INPUT_END = 0,          /* of all files */
    INPUT_BLOCK = 1,        /* block_out has at least one record */
    INPUT_INTERRUPTED = -1, /* a signal came while waiting for bytes; the call may be repeated */
    INPUT_FAILED = -2,      /* a file can't be read: why_out says which and why */
};
/* The next records of one file, at most records_max (>= 1). */
RF_NODISCARD int input_next(struct input *input, size_t records_max, struct block *block_out,
                            char *why_out, size_t why_bytes);

/* Bytes read from the files, as they lie on disk, and the sum of what they have (0: not known). */
uint64_t input_bytes_done(const struct input *input);
uint64_t input_bytes_total(const struct input *input);

#endif
