/* ISO 8601 and strptime's patterns to and from counts of a unit. */
#include "cli/timefmt.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

enum { DAY_SECONDS = 86400, SECOND_NS = 1000000000 };
/* Beyond these years no int64 of seconds has a day: 292,277,026,596 is the last one. */
#define YEAR_MAX INT64_C(292277026600)

/* A point of time, exact: seconds since 1970 and what goes beyond them. */
struct instant {
    int64_t seconds;
    int64_t ns; /* 0..999,999,999 */
};

static const int64_t unit_per_second[] = {SECOND_NS, 1000000, 1000, 1};
static const char *const unit_names[] = {"ns", "us", "ms", "s"};

bool timefmt_unit(const char *name, enum time_unit *unit_out)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(name, unit_names[i]) == 0) {
            *unit_out = (enum time_unit)i;
            return true;
        }
    return false;
}

const char *timefmt_unit_name(enum time_unit unit)
{
    return unit_names[unit];
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_in_month(int64_t year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days since 1970-01-01. Years begin in March here, so that the leap day is the last one; 400 years
 * have 146,097 days. */
static int64_t days_from_civil(int64_t year, int month, int day)
{
    year -= month <= 2;
    int64_t era = floor_div(year, 400);
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void civil_from_days(int64_t days, int64_t *year, int *month, int *day)
{
    days += 719468;
    int64_t era = floor_div(days, 146097);
    int64_t doe = days - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t march_month = (5 * doy + 2) / 153;
    *day = (int)(doy - (153 * march_month + 2) / 5 + 1);
    *month = (int)(march_month < 10 ? march_month + 3 : march_month - 9);
    *year = yoe + era * 400 + (*month <= 2);
}

/* ---- from text ---- */

struct scan {
    const char *at, *end;
};

static bool take(struct scan *s, char c)
{
    if (s->at == s->end || *s->at != c) return false;
    s->at++;
    return true;
}

/* Between min and max digits, as many as there are. */
static bool take_digits(struct scan *s, int min, int max, int64_t *value)
{
    int count = 0;
    *value = 0;
    while (count < max && s->at < s->end && isdigit((unsigned char)*s->at)) {
        *value = *value * 10 + (*s->at++ - '0');
        count++;
    }
    return count >= min;
}

static bool take_fraction(struct scan *s, int64_t *ns)
{
    const char *begin = s->at;
    if (!take_digits(s, 1, 9, ns)) return false;
    for (int64_t digits = s->at - begin; digits < 9; digits++)
        *ns *= 10;
    return s->at == s->end || !isdigit((unsigned char)*s->at);
}

static bool take_year(struct scan *s, int64_t *year)
{
    bool negative = s->at < s->end && *s->at == '-';
    if (!negative && !(s->at < s->end && *s->at == '+')) return take_digits(s, 4, 4, year);
    s->at++;
    if (!take_digits(s, 4, 12, year) || *year > YEAR_MAX) return false;
    if (negative) *year = -*year;
    return true;
}

static bool take_date(struct scan *s, int64_t *days)
{
    int64_t year, month, day;
    if (!take_year(s, &year)) return false;
    if (!take(s, '-') || !take_digits(s, 2, 2, &month)) return false;
    if (!take(s, '-') || !take_digits(s, 2, 2, &day)) return false;
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, (int)month)) return false;
    *days = days_from_civil(year, (int)month, (int)day);
    return true;
}

static bool take_clock(struct scan *s, int64_t *seconds, int64_t *ns)
{
    int64_t hour, minute, second = 0;
    if (!take_digits(s, 2, 2, &hour)) return false;
    if (!take(s, ':') || !take_digits(s, 2, 2, &minute)) return false;
    if (take(s, ':')) {
        if (!take_digits(s, 2, 2, &second)) return false;
        if ((take(s, '.') || take(s, ',')) && !take_fraction(s, ns)) return false;
    }
    if (hour > 23 || minute > 59 || second > 59) return false;
    *seconds = hour * 3600 + minute * 60 + second;
    return true;
}

static bool take_zone(struct scan *s, int64_t *offset)
{
    *offset = 0;
    if (s->at == s->end || take(s, 'Z') || take(s, 'z')) return true;
    bool west = *s->at == '-';
    int64_t hours, minutes = 0;
    if (!take(s, '+') && !take(s, '-')) return false;
    if (!take_digits(s, 2, 2, &hours)) return false;
    bool colon = take(s, ':');
    if ((colon || s->at < s->end) && !take_digits(s, 2, 2, &minutes)) return false;
    if (hours > 23 || minutes > 59) return false;
    *offset = (hours * 3600 + minutes * 60) * (west ? -1 : 1);
    return true;
}

enum scanned { SCANNED, SCAN_FAILED, SCAN_RANGE };

static enum scanned combine(int64_t days, int64_t clock_seconds, int64_t ns, int64_t offset,
                            struct instant *out)
{
    int64_t seconds;
    if (__builtin_mul_overflow(days, (int64_t)DAY_SECONDS, &seconds)) return SCAN_RANGE;
    if (__builtin_add_overflow(seconds, clock_seconds - offset, &seconds)) return SCAN_RANGE;
    *out = (struct instant){seconds, ns};
    return SCANNED;
}

static enum scanned parse_iso(struct text t, struct instant *out)
{
    struct scan s = {t.at, t.at + t.bytes};
    int64_t days, clock_seconds = 0, ns = 0, offset = 0;
    if (!take_date(&s, &days)) return SCAN_FAILED;
    if (take(&s, 'T') || take(&s, 't') || take(&s, ' ')) {
        if (!take_clock(&s, &clock_seconds, &ns) || !take_zone(&s, &offset)) return SCAN_FAILED;
    }
    if (s.at != s.end) return SCAN_FAILED;
    return combine(days, clock_seconds, ns, offset, out);
}

/* strptime knows no fractions: the pattern is cut at each %f, and the pieces fill one struct tm. */
static const char *parse_piece(const char *at, const char *pattern, size_t pattern_bytes,
                               struct tm *tm)
{
    char piece[128];
    if (pattern_bytes >= sizeof piece) return NULL;
    if (pattern_bytes == 0) return at;
    memcpy(piece, pattern, pattern_bytes);
    piece[pattern_bytes] = '\0';
    return strptime(at, piece, tm);
}

static const char *find_fraction(const char *pattern)
{
    for (; *pattern != '\0'; pattern++) {
        if (pattern[0] != '%') continue;
        if (pattern[1] == 'f') return pattern;
        if (pattern[1] != '\0') pattern++;
    }
    return NULL;
}

static enum scanned parse_pattern(const char *pattern, struct text t, struct instant *out)
{
    char copy[256];
    if (t.bytes >= sizeof copy || memchr(t.at, '\0', t.bytes) != NULL) return SCAN_FAILED;
    memcpy(copy, t.at, t.bytes);
    copy[t.bytes] = '\0';

    struct tm tm = {.tm_year = 70, .tm_mday = 1};
    int64_t ns = 0;
    const char *at = copy;
    for (const char *f; (f = find_fraction(pattern)) != NULL; pattern = f + 2) {
        at = parse_piece(at, pattern, (size_t)(f - pattern), &tm);
        if (at == NULL) return SCAN_FAILED;
        struct scan s = {at, copy + t.bytes};
        if (!take_fraction(&s, &ns)) return SCAN_FAILED;
        at = s.at;
    }
    at = parse_piece(at, pattern, strlen(pattern), &tm);
    if (at == NULL || *at != '\0') return SCAN_FAILED;
    int64_t year = (int64_t)tm.tm_year + 1900;
    if (tm.tm_mday < 1 || tm.tm_mday > days_in_month(year, tm.tm_mon + 1) || tm.tm_sec > 59)
        return SCAN_FAILED;
    return combine(days_from_civil(year, tm.tm_mon + 1, tm.tm_mday),
                   tm.tm_hour * 3600 + tm.tm_min * 60 + tm.tm_sec, ns, tm.tm_gmtoff, out);
}

/* ---- to the directory's unit ---- */

/* a units of which `per` make one of the result's. */
static bool scale_down(int64_t a, int64_t per, enum time_round round, int64_t *out)
{
    bool inexact = a % per != 0;
    if (inexact && round == TIME_EXACT) return false;
    *out = floor_div(a, per) +
           inexact; /* the quotient is at most INT64_MAX / 1000 where anything is inexact */
    return true;
}

enum scaled { SCALED, SCALE_RANGE, SCALE_INEXACT };

static enum scaled scale_instant(struct instant i, const struct timefmt *f, int64_t *out)
{
    int64_t per_second = unit_per_second[f->stored];
    int64_t step = SECOND_NS / per_second, below;
    if (!scale_down(i.ns, step, f->round, &below)) return SCALE_INEXACT;
    /* Near INT64_MIN the product alone may lie outside while the sum does not. */
    __int128 sum = (__int128)i.seconds * per_second + below;
    if (sum < INT64_MIN || sum > INT64_MAX) return SCALE_RANGE;
    *out = (int64_t)sum;
    return SCALED;
}

static enum scaled scale_integer(int64_t value, const struct timefmt *f, int64_t *out)
{
    int64_t in = unit_per_second[f->in], stored = unit_per_second[f->stored];
    if (in >= stored) return scale_down(value, in / stored, f->round, out) ? SCALED : SCALE_INEXACT;
    return __builtin_mul_overflow(value, stored / in, out) ? SCALE_RANGE : SCALED;
}

static int shown(struct text t)
{
    return t.bytes > 60 ? 60 : (int)t.bytes;
}

static bool looks_like_integer(struct text t)
{
    size_t i = t.bytes > 0 && (t.at[0] == '-' || t.at[0] == '+');
    if (i == t.bytes) return false;
    for (; i < t.bytes; i++)
        if (!isdigit((unsigned char)t.at[i])) return false;
    return true;
}

bool timefmt_parse(const struct timefmt *f, struct text t, size_t column, int64_t *time_out,
                   struct bad *bad)
{
    const char *stored = unit_names[f->stored];
    enum scaled scaled = SCALE_RANGE;
    int64_t integer;
    if (f->pattern == NULL && looks_like_integer(t)) {
        if (text_to_i64(t, &integer)) scaled = scale_integer(integer, f, time_out);
    } else {
        struct instant instant;
        enum scanned scanned =
            f->pattern != NULL ? parse_pattern(f->pattern, t, &instant) : parse_iso(t, &instant);
        if (scanned == SCAN_FAILED && f->pattern != NULL)
            return bad_set(bad, column, "the time \"%.*s\" does not match \"%s\"", shown(t), t.at,
                           f->pattern);
        if (scanned == SCAN_FAILED)
            return bad_set(bad, column, "\"%.*s\" is no time: an integer or 2026-01-31T12:30:00Z",
                           shown(t), t.at);
        if (scanned == SCANNED) scaled = scale_instant(instant, f, time_out);
    }
    if (scaled == SCALE_RANGE)
        return bad_set(bad, column, "the time %.*s lies outside what 64 bits of %s hold", shown(t),
                       t.at, stored);
    if (scaled == SCALE_INEXACT)
        return bad_set(bad, column,
                       "the time %.*s is not a whole number of %s, the directory's "
                       "unit",
                       shown(t), t.at, stored);
    return true;
}

/* ---- to text ---- */

/* Appends to out, of TIME_TEXT_BYTES in all; what is written always fits. */
__attribute__((format(printf, 3, 4))) static size_t put(char *out, size_t at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(out + at, TIME_TEXT_BYTES - at, fmt, args);
    va_end(args);
    CHECK(n >= 0 && at + (size_t)n < TIME_TEXT_BYTES);
    return at + (size_t)n;
}

static size_t put_year(char *out, int64_t year)
{
    if (year >= 0 && year <= 9999) return put(out, 0, "%04d", (int)year);
    return put(out, 0, "%c%06lld", year < 0 ? '-' : '+', (long long)(year < 0 ? -year : year));
}

size_t timefmt_iso(char out[TIME_TEXT_BYTES], int64_t time, enum time_unit unit)
{
    int64_t per_second = unit_per_second[unit];
    int64_t seconds = floor_div(time, per_second);
    int64_t below = time % per_second;
    if (below < 0) below += per_second;
    int64_t ns = below * (SECOND_NS / per_second);
    int64_t days = floor_div(seconds, DAY_SECONDS), year;
    int of_day = (int)(seconds - days * DAY_SECONDS), month, day;
    civil_from_days(days, &year, &month, &day);

    size_t n = put_year(out, year);
    n = put(out, n, "-%02d-%02dT%02d:%02d:%02d", month, day, of_day / 3600, of_day / 60 % 60,
            of_day % 60);
    if (ns % 1000 != 0)
        n = put(out, n, ".%09d", (int)ns);
    else if (ns % 1000000 != 0)
        n = put(out, n, ".%06d", (int)(ns / 1000));
    else if (ns != 0)
        n = put(out, n, ".%03d", (int)(ns / 1000000));
    return put(out, n, "Z");
}

bool timefmt_parse_date(struct text t, int32_t *date_out)
{
    struct scan s = {t.at, t.at + t.bytes};
    int64_t year, month, day;
    if (!take_digits(&s, 4, 4, &year)) return false;
    bool dashes = take(&s, '-');
    if (!take_digits(&s, 2, 2, &month) || (dashes && !take(&s, '-'))) return false;
    if (!take_digits(&s, 2, 2, &day) || s.at != s.end) return false;
    if (year < 1 || month < 1 || month > 12) return false;
    if (day < 1 || day > days_in_month(year, (int)month)) return false;
    *date_out = (int32_t)(year * 10000 + month * 100 + day);
    return true;
}

size_t timefmt_date(char out[TIME_TEXT_BYTES], int32_t date)
{
    int64_t value = date < 0 ? -(int64_t)date : date;
    return put(out, 0, "%s%04d-%02d-%02d", date < 0 ? "-" : "", (int)(value / 10000),
               (int)(value / 100 % 100), (int)(value % 100));
}
