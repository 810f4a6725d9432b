/* JSON, written piece by piece to a stream. Commas and nesting are kept here; the order is the
 * caller's. It is only ever written, row by row and with the shortest numbers, so a library that
 * builds trees would be of no use.
 * Thread   one at a time */
#ifndef RF_CLI_JSON_H
#define RF_CLI_JSON_H

#include "cli/text.h"

#include <stdio.h>

struct json {
    FILE *file;
    bool needs_comma;
};

/* key: NULL in an array and outside of everything. */
void json_open(struct json *j, const char *key, char bracket); /* '{' or '[' */
void json_close(struct json *j, char bracket);                 /* '}' or ']' */
void json_text(struct json *j, const char *key, struct text value);
void json_string(struct json *j, const char *key, const char *value);
void json_i64(struct json *j, const char *key, int64_t value);
void json_u64(struct json *j, const char *key, uint64_t value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
/* JSON has no NaN and no infinities: they become "NaN", "inf", "-inf". */
void json_double(struct json *j, const char *key, double value);
void json_float(struct json *j, const char *key, float value);
/* As "0x00ff". */
void json_blob(struct json *j, const char *key, struct text bytes);
/* After the outermost bracket: ends the line. */
void json_end_line(struct json *j);

/* 0x and two hexadecimal digits a byte. */
void put_hex(FILE *f, struct text bytes);

#endif
