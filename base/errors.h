/* One table of errors for all of Ringfence. See errors.def for the rows and what they mean. */
#ifndef RF_BASE_ERRORS_H
#define RF_BASE_ERRORS_H

#include <stddef.h>

enum err_class { ERR_CLASS_RETRY, ERR_CLASS_REFUSE, ERR_CLASS_FATAL, ERR_CLASS_UNKNOWN };
enum err_retry { ERR_RETRY_NONE, ERR_RETRY_UNTIL_SUCCESS };

/* RFE_NO_TABLE == 550 and so on. Functions return 0 or the number negated. */
enum err_number {
#define RF_E(name, number, cls, retry, text) RFE_##name = (number),
#include "base/errors.def"
#undef RF_E
};

/* Numbers below this one are errno's. */
#define ERR_NUMBER_MIN 200

struct err_row {
    int number;
    const char *name;
    const char *text;
    enum err_class cls;
    enum err_retry retry;
};

/* The row of a returned code (negative) or of its number (positive); NULL when it has none (errno
 * codes have none). Thread: any. */
const struct err_row *err_find(int code);

/* A text for any code of ours or errno's, in English whatever the locale; never NULL, static. */
const char *err_text(int code);

/* "NO_TABLE", "ENOENT", "OK" for 0; never NULL, static. */
const char *err_name(int code);

/* A message under construction that names the place: file, line, offset, expected, found.
 * A function that fails fills it once, the first error wins; callers above may not overwrite it. */
#define ERR_MSG_BYTES 512
struct err_msg {
    int code;
    char text[ERR_MSG_BYTES];
};

/* Sets code and text when msg is non-NULL and still has code 0; returns code, so that a caller can
 * write `return err_set(msg, -RFE_CORRUPT, "%s: offset %" PRIu64 ...)`. */
__attribute__((format(printf, 3, 4))) int err_set(struct err_msg *msg, int code, const char *fmt,
                                                  ...);

#endif
