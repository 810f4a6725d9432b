/* The bytes of one file, or of the standard input ("-"): plain, or unpacked when they are gzip
 * (one member or several, as cat leaves them).
 *
 * A read gives what is there, so a pipe's lines arrive when they are written.
 * Thread   one at a time */
#ifndef RF_CLI_SOURCE_H
#define RF_CLI_SOURCE_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct source;

/* 0, or a negative errno. */
RF_NODISCARD int source_open(const char *file, struct source **source_out);
void source_close(struct source *source); /* NULL is allowed */

/* Between 1 and bytes; 0 at the end; a negative errno (-EINTR: a signal
 * came first, or a stop was asked for, see cli/stop.h), or -EBADMSG
 * with a text in *why_out when what is packed is damaged or ends too early. */
RF_NODISCARD ssize_t source_read(struct source *source, void *to, size_t bytes,
                                 const char **why_out);

/* Bytes taken from the file, packed as they are there. */
uint64_t source_bytes_taken(const struct source *source);

#endif
