#include "rf_kit.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

void kit_dir(char *path_out)
{
    snprintf(path_out, KIT_PATH_BYTES, "/var/tmp/rf-kit-XXXXXX");
    assert_non_null(mkdtemp(path_out));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void kit_remove(const char *path)
{
    assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

void kit_options(struct rf_options *o)
{
    rf_options_init(o);
    o->segment_bytes = 1 << 20;
    o->memory_bytes = 24 << 20;
    o->log_bytes_max = 16 << 20;
    o->log_level = RF_LOG_ERROR;
}

struct rf_engine *kit_open(const char *dir, const struct rf_options *options)
{
    struct rf_engine *e = NULL;
    struct rf_error error = {.text = ""};
    int rc = rf_open(dir, options, &e, &error);
    if (rc != 0) fail_msg("rf_open: %d %s", rc, error.text);
    return e;
}

struct rf_stats kit_stats(struct rf_engine *e)
{
    struct rf_stats s = {.size = sizeof s};
    assert_int_equal(rf_stats(e, &s), 0);
    return s;
}

uint64_t kit_count(struct rf_engine *e, const char *table)
{
    struct rf_scan_options o;
    struct rf_error error = {.text = ""};
    uint64_t rows = 0;
    rf_scan_options_init(&o);
    o.table = table;
    int rc = rf_count(e, &o, &rows, &error);
    if (rc != 0) fail_msg("rf_count %s: %d %s", table, rc, error.text);
    return rows;
}

int64_t kit_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

const struct rf_tablet *kit_row(const char *table, const char *host, int64_t time, int64_t value)
{
    static _Thread_local int64_t times[1], values[1];
    static _Thread_local uint32_t offsets[2];
    static _Thread_local struct rf_column columns[2];
    static _Thread_local struct rf_tablet tablet;
    times[0] = time;
    values[0] = value;
    columns[0] =
        (struct rf_column){.name = "v", .type = RF_INT64, .category = RF_FIELD, .values = values};
    offsets[1] = host != NULL ? (uint32_t)strlen(host) : 0;
    columns[1] = (struct rf_column){
        .name = "host", .type = RF_STRING, .category = RF_TAG, .values = host, .offsets = offsets};
    tablet = (struct rf_tablet){.size = sizeof tablet,
                                .table = table,
                                .rows = 1,
                                .columns = host != NULL ? 2 : 1,
                                .times = times,
                                .column = columns};
    return &tablet;
}

void kit_write(struct rf_engine *e, const char *table, const char *host, int64_t time,
               int64_t value)
{
    struct rf_error error = {.text = ""};
    int rc = rf_write(e, kit_row(table, host, time, value), &error);
    if (rc != 0) fail_msg("rf_write: %d %s", rc, error.text);
}
