/* Rows of many tables and devices on their way to one rf_write_batch.
 *
 * Rows are copied in; the tablets borrow from the batch until the next batch_begin. Memory is kept
 * from batch to batch. A table's tablet has the columns that at least one of its rows has a value
 * for, in the order in which they were first seen or declared; where a row has none, it is null.
 * Thread   one at a time */
#ifndef RF_CLI_BATCH_H
#define RF_CLI_BATCH_H

#include "cli/row.h"

struct batch_column;
struct batch_table;

struct batch {
    struct batch_table *table;
    size_t table_count, table_capacity;
    struct rf_tablet *tablet;
    size_t *tablet_table; /* index in table of each tablet */
    size_t tablet_count, tablet_capacity, tablet_table_capacity;
    size_t last_table;
    uint64_t rows;
    uint64_t points; /* cells of FIELD columns that are not null */
};

/* Zeroed memory is an empty batch. */
void batch_deinit(struct batch *b);

void batch_begin(struct batch *b);

/* Gives a column its place before any row has it: tablets have their columns in the order in which
 * they were first declared or added. It stays for all later batches. */
void batch_declare(struct batch *b, struct text table, struct text column);

/* Adds a row; record: a number of the caller's, which batch_record_of_row gives back. False when
 * the row does not fit what is there (a name twice, a column of another type or kind than in an
 * earlier row of this batch): bad says why, and the batch is good for nothing but batch_begin. */
RF_NODISCARD bool batch_add(struct batch *b, const struct row *row, uint32_t record,
                            struct bad *bad);

/* Makes b->tablet[0..tablet_count - 1] ready. No batch_add may follow before batch_begin. */
void batch_finish(struct batch *b);

/* Of the finished batch: the record of a row; the first record, from row `from` on, that has a
 * value in a column (by index in the tablet). UINT32_MAX: there is none. */
uint32_t batch_record_of_row(const struct batch *b, uint32_t tablet, uint32_t row);
uint32_t batch_record_of_column(const struct batch *b, uint32_t tablet, uint32_t column,
                                uint32_t *row_in_out);

#endif
