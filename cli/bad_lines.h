/* The lines that --skip-bad puts aside, in a file that can be mended and loaded; and the messages
 * that say why, of which the first few are printed.
 * Thread   one at a time */
#ifndef RF_CLI_BAD_LINES_H
#define RF_CLI_BAD_LINES_H

#include "cli/text.h"

struct bad_lines {
    int fd; /* -1: none */
    bool has_header;
    bool is_dirty; /* written, not yet synced */
    uint64_t count;
};

/* file: NULL for none; made, or appended to. 0 or a negative errno. */
RF_NODISCARD int bad_lines_init(struct bad_lines *b, const char *file);
void bad_lines_deinit(struct bad_lines *b);

/* header: of a CSV file, goes first into an empty file; NULL: none. message: "file:line: why".
 * 0 or a negative errno. */
RF_NODISCARD int bad_lines_add(struct bad_lines *b, const struct text *header, struct text line,
                               const char *message);

/* What was added is on stable storage. 0 or a negative errno. */
RF_NODISCARD int bad_lines_sync(struct bad_lines *b);

#endif
