/* Times between text and int64.
 *
 * A time is a count of the directory's units (ns, us or ms) since 1970-01-01T00:00:00Z, without
 * leap seconds, in the proleptic Gregorian calendar. Every int64 has a text and is read back from
 * it. Text is an integer of `in` units, or ISO 8601:
 *
 *     2026-01-01   2026-01-01T12:30   2026-01-01T12:30:05.123456789Z   2026-01-01 12:30:05+02:00
 *     -000044-03-15   +292277026596-12-04T15:30:08Z
 *
 * Without a zone it is UTC. Years outside 0000..9999 carry a sign.
 * Thread   any; no call keeps anything */
#ifndef RF_CLI_TIMEFMT_H
#define RF_CLI_TIMEFMT_H

#include "cli/text.h"

enum time_unit { UNIT_NS, UNIT_US, UNIT_MS, UNIT_S };

/* "ns", "us", "ms", "s". */
RF_NODISCARD bool timefmt_unit(const char *name, enum time_unit *unit_out);
const char *timefmt_unit_name(enum time_unit unit);

/* What to do with a time that lies between two units of the directory. */
enum time_round {
    TIME_EXACT, /* refuse it: rounding could make one row of two */
    TIME_CEIL   /* the next one: right for an inclusive start and for an exclusive end */
};

struct timefmt {
    enum time_unit in;     /* of integers in the text */
    enum time_unit stored; /* of the result: NS, US or MS */
    enum time_round round;
    const char *pattern; /* strptime's, and %f for a fraction of 1..9 digits; NULL: as above */
};

/* False: bad says why, with `column` as the place. */
RF_NODISCARD bool timefmt_parse(const struct timefmt *f, struct text t, size_t column,
                                int64_t *time_out, struct bad *bad);

enum { TIME_TEXT_BYTES = 48 };
/* ISO 8601 in UTC with 0, 3, 6 or 9 digits of a second: as many as the value needs. Returns its
 * length; out is NUL-terminated. */
size_t timefmt_iso(char out[TIME_TEXT_BYTES], int64_t time, enum time_unit unit);

/* Dates as yyyymmdd, 0001-01-01..9999-12-31, written 2026-01-31. */
RF_NODISCARD bool timefmt_parse_date(struct text t, int32_t *date_out);
size_t timefmt_date(char out[TIME_TEXT_BYTES], int32_t date);

#endif
