/* One line on a terminal that says how far a load is. Nothing where stderr is no terminal.
 * Thread   progress_bytes any; the others one at a time */
#ifndef RF_CLI_PROGRESS_H
#define RF_CLI_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool is_on;
    bool is_shown;
    uint64_t bytes_total; /* 0: not known */
    int64_t shown_ns;     /* when, since the load began */
    atomic_uint_least64_t bytes_done;
};

/* wanted: false keeps it silent on a terminal too. */
void progress_init(struct progress *p, bool wanted, uint64_t bytes_total);
void progress_bytes(struct progress *p, uint64_t bytes_done);
/* At most five times a second. */
void progress_show(struct progress *p, uint64_t rows, int64_t elapsed_ns);
/* Takes the line away, before something else is printed and at the end. */
void progress_clear(struct progress *p);

#endif
