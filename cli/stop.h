/* Stopping in order: the first SIGINT or SIGTERM asks for it, the second one kills.
 * Thread   any */
#ifndef RF_CLI_STOP_H
#define RF_CLI_STOP_H

#include <stdbool.h>

/* Once, before threads are made. */
void stop_install(void);
bool stop_requested(void);
/* Readable once a stop is asked for, so that a wait for input can end; -1 before stop_install. */
int stop_fd(void);

#endif
