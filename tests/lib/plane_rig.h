/* A plane in a fresh directory, with lanes that the test speaks for. */
#ifndef RF_TESTS_PLANE_RIG_H
#define RF_TESTS_PLANE_RIG_H

#include "plane/plane.h"
#include "tests/lib/tempdir.h"

struct plane_rig {
    char dir[TEMPDIR_BYTES];
    char path[TEMPDIR_BYTES + 16];
    struct plane_options o;
    struct clock clock;
    _Atomic int64_t test_ns[3]; /* used when clock.test_ns points here */
    struct log log;
    struct schema *schema;
    struct lease_words words;
    struct plane *plane;
    _Atomic bool open_views;     /* lanes are still inside: nothing closes */
    _Atomic uint64_t asked_view; /* the last one that was asked about */
    _Atomic uint64_t asked_count;
    _Atomic uint32_t log_fenced; /* events plane.fenced */
    _Atomic uint32_t log_late;   /* events plane.late_failure */
};

/* With options filled: create, an embedded lease of 20 s, 10 s of wait; the test may change them. */
struct plane_rig *plane_rig_create(void);
/* Opens; the test fails when that fails. */
void plane_rig_open(struct plane_rig *rig);
/* Opens and returns the code; a plane is there only if it is 0. */
int plane_rig_try_open(struct plane_rig *rig, struct err_msg *msg);
void plane_rig_close(struct plane_rig *rig);
/* Closes if open, and removes the directory. */
void plane_rig_destroy(struct plane_rig *rig);

/* The present view, and its version. */
uint64_t rig_view(struct plane_rig *rig);
uint64_t rig_version(struct plane_rig *rig);
bool rig_is_live(struct plane_rig *rig);

/* Changes, each by itself; the code. Types: DOUBLE fields unless said. */
int rig_create_table(struct plane_rig *rig, const char *table);
int rig_add_column(struct plane_rig *rig, const char *table, const char *column);
int rig_add_column_of(struct plane_rig *rig, const char *table, const char *column, int type,
                      int category, bool if_missing);
int rig_drop_column(struct plane_rig *rig, const char *table, const char *column);
int rig_rename_column(struct plane_rig *rig, const char *table, const char *from, const char *to);
int rig_set_ttl(struct plane_rig *rig, const char *table, int64_t ttl);
int rig_drop_table(struct plane_rig *rig, const char *table);
int rig_create_series(struct plane_rig *rig, const char *database, const char *key,
                      const char *measurement, int type, bool if_missing);
int rig_drop_series(struct plane_rig *rig, const char *database, const char *key,
                    const char *measurement);

/* What the newest view has; 0: nothing. */
uint64_t rig_table(struct plane_rig *rig, const char *table);
uint32_t rig_column(struct plane_rig *rig, const char *table, const char *column);
uint32_t rig_series(struct plane_rig *rig, const char *database, const char *key,
                    const char *measurement);

/* Runs SQL on the catalog of a closed rig; the first column of the first row as a number, or -1. */
int64_t rig_sql(struct plane_rig *rig, const char *sql);

/* Waits, at most ten seconds, until the condition holds; the test fails when it does not. */
#define RIG_AWAIT(condition)                        \
    do {                                            \
        int rig_tries = 0;                          \
        while (!(condition) && rig_tries++ < 10000) \
            rig_sleep_ms(1);                        \
        assert_true(condition);                     \
    } while (0)
void rig_sleep_ms(int64_t ms);

#endif
