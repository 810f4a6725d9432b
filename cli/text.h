/* Pieces of text, and the numbers in them. A struct text borrows; it has no NUL at its end.
 *
 * Units    bytes
 * Thread   all calls are pure: any thread, no allocation */
#ifndef RF_CLI_TEXT_H
#define RF_CLI_TEXT_H

#include "base/check.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct text {
    const char *at;
    size_t bytes;
};

static inline struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}
static inline bool text_equal(struct text a, struct text b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.at, b.at, a.bytes) == 0);
}
static inline bool text_is(struct text a, const char *s)
{
    return text_equal(a, text_of(s));
}
/* Letters of ASCII compare without case. */
bool text_is_nocase(struct text a, const char *s);
/* Without the spaces and tabs around it. */
struct text text_trim(struct text t);

/* Why a piece of input is refused, and where in its line. The first reason stays. */
struct bad {
    size_t column; /* of a byte, from 1; 0: no place in the line */
    char why[400]; /* "" while nothing is bad */
};
/* Returns false, so that a parser can write `return bad_set(...)`. */
__attribute__((format(printf, 3, 4))) bool bad_set(struct bad *bad, size_t column, const char *fmt,
                                                   ...);

/* The position of the first byte that is no valid UTF-8, or t.bytes. */
size_t text_utf8_length(struct text t);

enum { NAME_BYTES_MAX = 255 };
/* True when t can name a table or a column: 1..255 bytes of UTF-8 without control characters, and
 * not "time". Else bad says why; what: "table", "tag", ...; column: where t begins. */
RF_NODISCARD bool text_check_name(struct text t, const char *what, size_t column, struct bad *bad);

/* Whole decimal integers with an optional sign. False: not one, or beyond int64. */
RF_NODISCARD bool text_to_i64(struct text t, int64_t *value_out);

enum number { NUMBER_OK, NUMBER_NONE, NUMBER_RANGE };
/* A decimal number [+-]digits[.digits][e[+-]digits], correctly rounded; NUMBER_RANGE when it is
 * one that no finite double is near to. NaN and infinities are NUMBER_NONE. */
enum number text_to_double(struct text t, double *value_out);
/* "nan", "inf", "infinity" in any case, with an optional sign. */
RF_NODISCARD bool text_to_nonfinite(struct text t, double *value_out);

enum { NUMBER_TEXT_BYTES = 32 };
/* The shortest decimal that reads back as the same number (0.1, 1e+300, -0); NaN, inf, -inf.
 * Returns its length; out is NUL-terminated. */
size_t text_from_double(char out[NUMBER_TEXT_BYTES], double value);
size_t text_from_float(char out[NUMBER_TEXT_BYTES], float value);

/* The one of the words that is nearest to the one typed, or NULL when none is near. */
const char *text_nearest(const char *typed, const char *const *words, size_t count);

#endif
