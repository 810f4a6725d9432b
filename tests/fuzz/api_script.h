/* One run of the fuzz target for the public calls: the script's bytes, an engine on the fault
 * double, and what the reference model has to say of it. */
#ifndef RF_FUZZ_API_SCRIPT_H
#define RF_FUZZ_API_SCRIPT_H

#include "tests/integration/rf_model.h"
#include "tests/lib/engine_rig.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEPS_MAX   48u
#define ENTRIES_MAX (3 * STEPS_MAX)
#define CURSORS     2u
#define REQUESTS    2u
#define WALL_NS     INT64_C(1000000000000000000) /* of the test's clock, at the start */

/* A name that is not one of the relation's. */
#define BOGUS "nope"

/* What the script did, in order: the model is made from it anew whenever it is asked. */
enum entry_kind {
    ENTRY_DATA,
    ENTRY_DELETE,
    ENTRY_CREATE_TABLE,
    ENTRY_ADD_COLUMNS,
    ENTRY_DROP_COLUMN,
    ENTRY_RENAME_COLUMN,
    ENTRY_DROP_TABLE,
    ENTRY_SET_TTL,
    ENTRY_CREATE_SERIES
};
enum entry_state {
    ENTRY_IN_FLIGHT,
    ENTRY_ACKED, /* visible; on stable storage when `stable` says so */
    ENTRY_UNKNOWN,
    ENTRY_DEAD /* nothing of it but the columns it made */
};
struct entry {
    enum entry_kind kind;
    enum entry_state state;
    bool stable;
    bool async;
    bool wal_error;      /* UNKNOWN, by RF_CODE_WAL_ERROR: absent after rf_resume */
    uint64_t begin, end; /* lane 0's position before and after; of data and deletes */
    const struct rf_tablet *tablets;
    uint32_t tablet_count;
    struct rf_delete_options del;
    const char *table, *name, *to;
    const struct rf_column_def *defs;
    uint32_t def_count;
    int64_t ttl;
    enum rf_type type;
};

struct open_cursor {
    struct rf_cursor *cursor;
    uint64_t rows_expected, rows; /* UINT64_MAX: not known */
    int ended;                    /* 0: no; 1: by 0; else the error */
};

struct script {
    const uint8_t *at, *end;
    struct engine_rig rig;
    struct io_env *env;
    _Atomic int64_t now_ns[3];
    struct clock clock;
    struct model *model;
    bool stale; /* the model has to be made anew */
    struct entry entries[ENTRIES_MAX];
    uint32_t entry_count;
    struct rf_queue *queue;
    struct open_cursor cursors[CURSORS];
    struct rf_lease_request requests[REQUESTS];
    bool plain;     /* one lane and one region: what is lost is the end of one order */
    bool faulted;   /* a rule is in force that may fail an operation */
    bool hurt;      /* it may have failed since the engine was opened or resumed */
    bool delayed;   /* writes do not complete */
    bool full;      /* the disk has no room */
    bool unsettled; /* some batch's fate is not known */
    bool lapsed;    /* the clock was moved: an embedded lease may be over for a moment */
    bool gave_up;   /* a change may come yet: nothing can be compared any more */
    uint8_t fill;   /* of the values that are written next */
};

/* The next byte, 0 behind the end. */
static inline unsigned take(struct script *s)
{
    return s->at < s->end ? *s->at++ : 0;
}

/* api_tablets.c: everything lasts until the next run. NULL: no memory left for this run. */
void arena_reset(void);
void *arena_take(size_t bytes);
bool arena_is_low(void);
const char *script_relation(unsigned pick, bool *tree);
extern const char *const script_fields[4], *const script_tags[2];
const struct rf_tablet *script_tablets(struct script *s, uint32_t *count_out);
uint32_t script_defs(struct script *s, const struct rf_column_def **defs_out);

/* A row of filters, a range and columns, for scans and deletes. */
struct script_aim {
    const char *name;
    bool tree;
    struct rf_tag_filter tags[2];
    uint32_t tag_count;
    const char *columns[5];
    uint32_t column_count;
    int64_t from, to;
    bool bogus; /* asks for a column that is not there */
};
void script_aim(struct script *s, struct script_aim *aim);

/* api_oracle.c */
__attribute__((format(printf, 2, 3), noreturn)) void script_fail(const struct script *s,
                                                                 const char *fmt, ...);
void expect_code(const struct script *s, const char *call, int rc, int want);
/* A code that the header names for such a call. */
void expect_documented(const struct script *s, const char *call, int rc);
struct entry *script_entry(struct script *s, enum entry_kind kind, enum entry_state state);
struct model *script_model(struct script *s);
/* All that is known to be there is, and nothing else; finds out about what is unknown. */
void script_settle(struct script *s);
/* Compares everything, where that can be told. */
void script_compare(struct script *s);
bool script_can_compare(struct script *s);
struct rf_stats script_stats(struct script *s);
void script_all_stable(struct script *s);

#endif
