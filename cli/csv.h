/* CSV as RFC 4180 has it, one record at a time, and what its fields mean as a row.
 *
 * The first record is the header. A field may stand in quotes, where "" is one quote, and a comma
 * or a line's end is text; a quote anywhere else is refused. Records end with LF or CR LF. Empty
 * lines hold nothing.
 * Column types  --types, else the type that the table has, else what the first value looks like:
 *               a number (NaN, inf and Infinity are some) DOUBLE, true or false BOOLEAN, all else
 *               STRING. A later value of another kind is refused with its place.
 * Null          an unquoted field equal to --null; in columns that are no text a quoted one too.
 * BLOB          0x and hexadecimal digits. DATE 2026-01-31. TIMESTAMP as cli/timefmt.h has it.
 * Thread        a header is written by csv_settle alone; what csv_parse reads of a column was
 *               settled by the record that it parses or an earlier one */
#ifndef RF_CLI_CSV_H
#define RF_CLI_CSV_H

#include "cli/row.h"
#include "cli/timefmt.h"

struct csv_type {
    struct text column;
    enum rf_type type;
};

struct csv_options {
    struct text table;
    const struct text *tags; /* columns that are TAGs */
    size_t tag_count;
    struct text time;           /* the time's column */
    struct timefmt time_format; /* of the time's column */
    struct text null;
    const struct csv_type *types; /* asked for: each must be a column of the file */
    size_t type_count;
    const struct csv_type *known; /* of the table: columns that the file may have */
    size_t known_count;
};

struct csv_field {
    struct text text; /* without quotes, "" made one */
    size_t column;    /* in the record, from 1 */
    bool quoted;
};

/* A record in pieces. Zeroed memory is an empty one. */
struct csv_record {
    struct csv_field *field;
    size_t count, capacity;
    char *scratch;
    size_t scratch_bytes;
};
void csv_record_deinit(struct csv_record *record);

/* text: a record without its last line end, or with a CR of it. The fields borrow from text and
 * from record_out. */
RF_NODISCARD bool csv_split(struct text text, struct csv_record *record_out, struct bad *bad);

enum csv_role { CSV_TIME, CSV_TAG, CSV_FIELD };
struct csv_column {
    struct text name;
    enum csv_role role;
    enum rf_type type; /* once settled */
    bool settled;
};
struct csv_header {
    const struct csv_options *options; /* borrowed for the header's life */
    char *names;
    struct csv_column *column;
    size_t count;
    size_t unsettled;
};

/* Reads the header out of the first record. */
RF_NODISCARD bool csv_header_init(struct csv_header *header, const struct csv_options *options,
                                  struct text text, struct bad *bad);
void csv_header_deinit(struct csv_header *header);

/* Lets the columns without a type take it from this record. Records are to be given in order, each
 * before it is parsed, while header->unsettled > 0. Records that are not sound are passed over:
 * csv_parse will refuse them. */
void csv_settle(struct csv_header *header, struct text text, struct csv_record *scratch);

enum csv_result { CSV_ROW, CSV_NOTHING, CSV_BAD };

/* row_out: the row after CSV_ROW, borrowed from text, scratch and header. */
enum csv_result csv_parse(const struct csv_header *header, struct text text,
                          struct csv_record *scratch, struct row *row_out, struct bad *bad);

#endif
