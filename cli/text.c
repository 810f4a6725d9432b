/* Text: UTF-8, names, numbers in both directions, spelling help. */
#include "cli/text.h"

#include "cli/memory.h"

#include "base/alloc.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool text_is_nocase(struct text a, const char *s)
{
    size_t bytes = strlen(s);
    if (a.bytes != bytes) return false;
    for (size_t i = 0; i < bytes; i++)
        if (tolower((unsigned char)a.at[i]) != tolower((unsigned char)s[i])) return false;
    return true;
}

struct text text_trim(struct text t)
{
    while (t.bytes > 0 && (t.at[0] == ' ' || t.at[0] == '\t')) {
        t.at++;
        t.bytes--;
    }
    while (t.bytes > 0 && (t.at[t.bytes - 1] == ' ' || t.at[t.bytes - 1] == '\t'))
        t.bytes--;
    return t;
}

bool bad_set(struct bad *bad, size_t column, const char *fmt, ...)
{
    if (bad->why[0] != '\0') return false;
    va_list args;
    va_start(args, fmt);
    vsnprintf(bad->why, sizeof bad->why, fmt, args);
    va_end(args);
    bad->column = column;
    return false;
}

/* Length of the sequence that begins at p, 0 when there is no valid one. */
static size_t utf8_sequence(const uint8_t *p, size_t left)
{
    size_t bytes;
    uint32_t min, code;
    if (p[0] < 0x80) return 1;
    if ((p[0] & 0xe0) == 0xc0)
        bytes = 2, min = 0x80, code = p[0] & 0x1fu;
    else if ((p[0] & 0xf0) == 0xe0)
        bytes = 3, min = 0x800, code = p[0] & 0x0fu;
    else if ((p[0] & 0xf8) == 0xf0)
        bytes = 4, min = 0x10000, code = p[0] & 0x07u;
    else
        return 0;
    if (bytes > left) return 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (p[i] & 0x3fu);
    }
    if (code < min || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return 0;
    return bytes;
}

size_t text_utf8_length(struct text t)
{
    const uint8_t *p = (const uint8_t *)t.at;
    size_t i = 0;
    while (i < t.bytes) {
        uint64_t eight;
        if (i + sizeof eight <= t.bytes) {
            memcpy(&eight, p + i, sizeof eight);
            if ((eight & 0x8080808080808080u) == 0) {
                i += sizeof eight;
                continue;
            }
        }
        size_t bytes = utf8_sequence(p + i, t.bytes - i);
        if (bytes == 0) return i;
        i += bytes;
    }
    return t.bytes;
}

/* The first control character: C0, DEL, or C1 (in UTF-8 c2 80..9f). */
static size_t control_at(struct text t)
{
    for (size_t i = 0; i < t.bytes; i++) {
        unsigned char c = (unsigned char)t.at[i];
        if (c < 0x20 || c == 0x7f) return i;
        if (c == 0xc2 && i + 1 < t.bytes && (unsigned char)t.at[i + 1] < 0xa0) return i;
    }
    return t.bytes;
}

bool text_check_name(struct text t, const char *what, size_t column, struct bad *bad)
{
    if (t.bytes == 0) return bad_set(bad, column, "the %s's name is empty", what);
    if (t.bytes > NAME_BYTES_MAX)
        return bad_set(bad, column, "the %s's name has %zu bytes, at most %d are allowed", what,
                       t.bytes, NAME_BYTES_MAX);
    size_t control = control_at(t);
    if (control < t.bytes)
        return bad_set(bad, column + control, "control character 0x%02x in the %s's name",
                       (unsigned char)t.at[control], what);
    size_t valid = text_utf8_length(t);
    if (valid < t.bytes)
        return bad_set(bad, column + valid, "byte 0x%02x in the %s's name is not UTF-8",
                       (unsigned char)t.at[valid], what);
    if (strcmp(what, "table") != 0 && text_is(t, "time"))
        return bad_set(bad, column, "a %s can't be named \"time\": that is the time's own column",
                       what);
    return true;
}

bool text_to_i64(struct text t, int64_t *value_out)
{
    size_t i = t.bytes > 0 && (t.at[0] == '-' || t.at[0] == '+');
    bool negative = i == 1 && t.at[0] == '-';
    if (i == t.bytes) return false;
    /* Counted downwards, since INT64_MIN has no positive twin. */
    int64_t value = 0;
    for (; i < t.bytes; i++) {
        unsigned digit = (unsigned char)t.at[i] - (unsigned)'0';
        if (digit > 9) return false;
        if (__builtin_mul_overflow(value, 10, &value)) return false;
        if (__builtin_sub_overflow(value, (int64_t)digit, &value)) return false;
    }
    if (!negative && __builtin_sub_overflow((int64_t)0, value, &value)) return false;
    *value_out = value;
    return true;
}

/* What stands in front of, behind and above the point, as far as a fast exact answer needs it. */
struct decimal {
    uint64_t digits; /* of the first 19 significant ones */
    unsigned digit_count;
    int exponent; /* value = digits * 10^exponent */
    bool negative;
};

static size_t scan_digits(struct text t, size_t i, struct decimal *d, bool fraction)
{
    for (; i < t.bytes && isdigit((unsigned char)t.at[i]); i++) {
        unsigned digit = (unsigned char)t.at[i] - (unsigned)'0';
        if (d->digit_count >= 19) {
            d->digit_count++; /* too many for the fast answer */
            continue;
        }
        d->digits = d->digits * 10 + digit;
        if (d->digits != 0) d->digit_count++;
        if (fraction) d->exponent--;
    }
    return i;
}

static bool scan_exponent(struct text t, size_t i, struct decimal *d)
{
    if (i == t.bytes) return true;
    if (t.at[i] != 'e' && t.at[i] != 'E') return false;
    i++;
    bool negative = i < t.bytes && t.at[i] == '-';
    if (i < t.bytes && (t.at[i] == '-' || t.at[i] == '+')) i++;
    if (i == t.bytes) return false;
    int exponent = 0;
    for (; i < t.bytes; i++) {
        if (!isdigit((unsigned char)t.at[i])) return false;
        if (exponent < 100000) exponent = exponent * 10 + (t.at[i] - '0');
    }
    d->exponent += negative ? -exponent : exponent;
    return true;
}

static bool scan_decimal(struct text t, struct decimal *d)
{
    *d = (struct decimal){0};
    size_t i = 0;
    if (t.bytes > 0 && (t.at[0] == '-' || t.at[0] == '+')) {
        d->negative = t.at[0] == '-';
        i = 1;
    }
    size_t begin = i;
    i = scan_digits(t, i, d, false);
    size_t whole = i - begin, fraction = 0;
    if (i < t.bytes && t.at[i] == '.') {
        begin = ++i;
        i = scan_digits(t, i, d, true);
        fraction = i - begin;
    }
    if (whole + fraction == 0) return false;
    return scan_exponent(t, i, d);
}

/* The rest goes through the C library, which wants a NUL behind the number. */
static enum number slow_double(struct text t, double *value_out)
{
    char small[128];
    char *copy = t.bytes < sizeof small ? small : need_realloc(NULL, t.bytes + 1);
    memcpy(copy, t.at, t.bytes);
    copy[t.bytes] = '\0';
    double value = strtod(copy, NULL);
    if (copy != small) mem_free(copy);
    if (isinf(value)) return NUMBER_RANGE;
    *value_out = value;
    return NUMBER_OK;
}

enum number text_to_double(struct text t, double *value_out)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    struct decimal d;
    if (!scan_decimal(t, &d)) return NUMBER_NONE;
    /* Up to 2^53 and 10^22 both factors are exact, so one operation rounds once. */
    if (d.digit_count > 15 || d.exponent < -22 || d.exponent > 22) return slow_double(t, value_out);
    double value = (double)d.digits;
    value = d.exponent < 0 ? value / power[-d.exponent] : value * power[d.exponent];
    *value_out = d.negative ? -value : value;
    return NUMBER_OK;
}

bool text_to_nonfinite(struct text t, double *value_out)
{
    bool negative = t.bytes > 0 && t.at[0] == '-';
    if (t.bytes > 0 && (t.at[0] == '-' || t.at[0] == '+')) {
        t.at++;
        t.bytes--;
    }
    double value;
    if (text_is_nocase(t, "nan"))
        value = NAN;
    else if (text_is_nocase(t, "inf") || text_is_nocase(t, "infinity"))
        value = INFINITY;
    else
        return false;
    *value_out = negative ? -value : value;
    return true;
}

static size_t copy_nonfinite(char *out, double value)
{
    const char *spelled = isnan(value) ? "NaN" : value > 0 ? "inf" : "-inf";
    return (size_t)snprintf(out, NUMBER_TEXT_BYTES, "%s", spelled);
}

size_t text_from_double(char out[NUMBER_TEXT_BYTES], double value)
{
    if (!isfinite(value)) return copy_nonfinite(out, value);
    /* A decimal of 15 digits survives a double, so fewer need no trial; a double survives one of
     * 17. Subnormal numbers have fewer bits. */
    for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits < 17; digits++) {
        int bytes = snprintf(out, NUMBER_TEXT_BYTES, "%.*g", digits, value);
        if (strtod(out, NULL) == value) return (size_t)bytes;
    }
    return (size_t)snprintf(out, NUMBER_TEXT_BYTES, "%.17g", value);
}

size_t text_from_float(char out[NUMBER_TEXT_BYTES], float value)
{
    if (!isfinite(value)) return copy_nonfinite(out, (double)value);
    for (int digits = fabsf(value) < FLT_MIN ? 1 : 6; digits < 9; digits++) {
        int bytes = snprintf(out, NUMBER_TEXT_BYTES, "%.*g", digits, (double)value);
        if (strtof(out, NULL) == value) return (size_t)bytes;
    }
    return (size_t)snprintf(out, NUMBER_TEXT_BYTES, "%.9g", (double)value);
}

enum { WORD_BYTES_MAX = 64 };

/* Levenshtein's distance, over one row of the matrix. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_BYTES_MAX + 1];
    size_t a_bytes = strnlen(a, WORD_BYTES_MAX), b_bytes = strnlen(b, WORD_BYTES_MAX);
    for (size_t j = 0; j <= b_bytes; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_bytes; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_bytes; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_bytes];
}

const char *text_nearest(const char *typed, const char *const *words, size_t count)
{
    const char *nearest = NULL;
    size_t best = strlen(typed) / 3 + 2; /* farther than that is another word */
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(typed, words[i]);
        if (d < best) {
            best = d;
            nearest = words[i];
        }
    }
    return nearest;
}
