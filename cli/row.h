/* One row of input, whatever its format: what the parsers make and what a batch takes.
 *
 * Texts borrow from the line that was parsed, or from the row's own scratch where escapes had to
 * go; both last until the next line is parsed into the same row.
 * Thread   one at a time */
#ifndef RF_CLI_ROW_H
#define RF_CLI_ROW_H

#include "cli/text.h"

#include "ringfence/ringfence.h"

struct cell {
    struct text name;
    size_t column; /* of its first byte in the line, from 1 */
    enum rf_category category;
    enum rf_type type;
    union {
        uint8_t boolean;
        int32_t i32; /* INT32, DATE */
        int64_t i64; /* INT64, TIMESTAMP */
        float f32;
        double f64;
        struct text text; /* TEXT, STRING, BLOB */
    };
};

struct row {
    struct text table;
    int64_t time;
    struct cell *cell;
    size_t cell_count;
    size_t cell_capacity;
    char *scratch;
    size_t scratch_used;
    size_t scratch_bytes;
};

/* Zeroed memory is an empty row. */
void row_deinit(struct row *row);
/* Empties it, and makes room for every text that a line of so many bytes can hold. */
void row_begin(struct row *row, size_t line_bytes);
/* Lent until the next call; its fields are to be set. */
struct cell *row_add(struct row *row);

/* Names of types as in --types: "INT64"; NULL and false when there is none. */
const char *type_name(enum rf_type type);
RF_NODISCARD bool type_from_name(struct text name, enum rf_type *type_out);
/* Bytes of one value; 0: as many as it has (TEXT, STRING, BLOB). */
size_t type_width(enum rf_type type);

#endif
