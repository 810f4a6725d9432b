#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

void progress_init(struct progress *p, bool wanted, uint64_t bytes_total)
{
    p->is_on = wanted && isatty(STDERR_FILENO);
    p->is_shown = false;
    p->bytes_total = bytes_total;
    p->shown_ns = 0;
}

void progress_bytes(struct progress *p, uint64_t bytes_done)
{
    /* Relaxed: a figure for the eye, nothing hangs on it. */
    atomic_store_explicit(&p->bytes_done, bytes_done, memory_order_relaxed);
}

void progress_show(struct progress *p, uint64_t rows, int64_t elapsed_ns)
{
    if (!p->is_on || elapsed_ns - p->shown_ns < 200000000) return;
    uint64_t done = atomic_load_explicit(&p->bytes_done, memory_order_relaxed);
    double seconds = (double)elapsed_ns / 1e9;
    p->shown_ns = elapsed_ns;
    p->is_shown = true;
    fprintf(stderr, "\r\033[K%" PRIu64 " rows, %.0f rows/s", rows, (double)rows / seconds);
    if (p->bytes_total > 0)
        fprintf(stderr, ", %.0f %%", 100 * (double)done / (double)p->bytes_total);
    fflush(stderr);
}

void progress_clear(struct progress *p)
{
    if (p->is_shown) fputs("\r\033[K", stderr);
    p->is_shown = false;
}
