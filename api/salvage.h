/* Inside salvage: finding whole records in damaged segments, and writing them again. */
#ifndef RF_API_SALVAGE_H
#define RF_API_SALVAGE_H

#include "api/inspect.h"
#include "ringfence/ringfence.h"
#include "wal/record.h"
#include "wal/verdict.h"

/* A whole batch that was found. */
struct salvage_record {
    struct wal_record_head head;
    const uint8_t *payload; /* in the segment's image */
};

/* Bytes without a whole record. */
struct salvage_hole {
    uint64_t lsn;
    uint64_t bytes;
    bool told; /* by salvage_find already: a segment that is missing or has no header */
};

struct salvage_lane {
    struct salvage_record *records; /* by lsn, of the log: void and discarded ones left out */
    uint32_t record_count, record_room;
    struct salvage_hole *holes; /* below the largest mark */
    uint32_t hole_count, hole_room;
    uint64_t mark_lsn;
};

/* Reads and walks one lane. unreadable(ctx, text) names segments that are missing or without a
 * header. Deinit it
 * always; the records point into lane's images. */
RF_NODISCARD int salvage_find(struct inspect *in, uint32_t lane, struct inspect_lane *images,
                              void (*unreadable)(void *ctx, const char *text), void *ctx,
                              struct salvage_lane *out);
void salvage_lane_deinit(struct salvage_lane *lane);

/* Writes one record's batch or delete into `to` by names, at the catalog's newest version. The record
 * has passed engine_check_record. *rows_out: rows written. Errors of rf_write_batch and rf_delete. */
RF_NODISCARD int salvage_write(struct inspect *in, struct rf_engine *to,
                               const struct salvage_record *record, uint64_t *rows_out,
                               struct rf_error *error);
/* Makes every table and database column of the old catalog in `to`. */
RF_NODISCARD int salvage_tables(struct inspect *in, struct rf_engine *to, struct rf_error *error);
/* Sets the tables' TTLs, once everything is written. */
RF_NODISCARD int salvage_ttls(struct inspect *in, struct rf_engine *to, struct rf_error *error);

#endif
