/* Loading: input in blocks, blocks into batches, batches into the engine, in the input's order.
 *
 * Several writers parse side by side, but hand their batches over in turn, so the engine sees them
 * in the input's order however many there are: the last of two lines about one cell wins. What
 * overlaps is the parsing and the waiting for the disk.
 *
 * A block is the next `batch_rows` lines of one file; it is one atomic batch. A line that is
 * refused refuses its batch, and ends the load once all batches before it are settled; with
 * --skip-bad it is put aside, and the batch goes on without it.
 *
 * Acks     The number of leading lines of the whole input that are safely stored (or put aside),
 *          one line each time it grows, written after the engine's acknowledgement. With
 *          RF_SYNC_ASYNC and RF_SYNC_OFF an acknowledgement promises no disk: there it follows a
 *          flush, at most one a second. A line is one write: after a kill it is whole or absent. */
#ifndef RF_CLI_LOADER_H
#define RF_CLI_LOADER_H

#include "cli/csv.h"
#include "cli/store.h"

#include "base/hist.h"

struct load_options {
    const char *const *files;
    size_t file_count;
    const struct csv_options *csv; /* NULL: line protocol */
    struct timefmt time;           /* of line protocol */
    uint64_t batch_rows;
    uint64_t writers;
    bool is_durable;       /* RF_SYNC_ALWAYS */
    int64_t wait_ms;       /* for room, of an asynchronous write */
    const char *acks_file; /* NULL: none */
    const char *bad_file;  /* NULL: the first bad line ends the load */
    bool wants_progress;   /* on stderr */
};

struct load_result {
    enum exit_code code;
    char why[1024]; /* when code is neither EXIT_OK nor EXIT_STOPPED: file:line:column: reason */
    const char *advice;
    uint64_t rows, points, batches; /* acknowledged */
    uint64_t lines, lines_bad;      /* leading lines stored or put aside; of them put aside */
    int64_t ns;
    struct hist latency;            /* ns from handing a batch over to its acknowledgement */
    char table[NAME_BYTES_MAX + 1]; /* one that was loaded */
};

void load_run(struct rf_engine *engine, const struct load_options *options,
              struct load_result *result_out);

#endif
