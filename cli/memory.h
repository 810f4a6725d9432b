/* Memory for the command: it can't do anything without, so it ends when there is none. What was
 * acknowledged is stored all the same.
 * Thread   any */
#ifndef RF_CLI_MEMORY_H
#define RF_CLI_MEMORY_H

#include <stddef.h>

/* Never NULL: ends the process with exit code 3. p may be NULL. */
void *need_realloc(void *p, size_t bytes);
void *need_zalloc(size_t bytes);
char *need_strndup(const char *s, size_t bytes);

/* Room for `count` elements of `size` bytes at *array, whose *capacity (in elements) at least
 * doubles when it grows. What was there stays. */
void need_room(void *array, size_t *capacity, size_t count, size_t size);

#endif
