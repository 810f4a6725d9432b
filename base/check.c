#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Writes to the descriptor, not through stdio: the invariant that broke may be one that a stdio
 * lock waits for. */
void check_failed(const char *file, int line, const char *text)
{
    char message[512];
    int n = snprintf(message, sizeof message, "ringfence: %s:%d: broken invariant: %s\n", file,
                     line, text);
    if (n >= (int)sizeof message) n = (int)sizeof message - 1;
    if (n > 0 && write(STDERR_FILENO, message, (size_t)n) < 0) {
        /* The abort below says the rest. */
    }
    abort();
}
