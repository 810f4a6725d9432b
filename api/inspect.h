/* A directory read without being opened as an engine: for verify and salvage. */
#ifndef RF_API_INSPECT_H
#define RF_API_INSPECT_H

#include "base/alloc.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "io/io.h"
#include "lease/view.h"
#include "plane/plane.h"
#include "schema/schema.h"
#include "wal/cut.h"
#include "wal/dir.h"
#include "wal/replay.h"

struct inspect {
    struct io_env *env;
    struct wal_dir dir;
    bool dir_open;
    struct schema *schema;
    struct lease_words words;
    struct clock clock;
    struct log log;      /* quiet */
    struct plane *plane; /* of a private copy of the catalog, read only */
};

/* Opens and locks the directory to read. -RFE_UNFINISHED, -RFE_IN_USE, ... Deinit it always. */
RF_NODISCARD int inspect_init(struct inspect *in, const char *dir, int64_t lock_wait_ms,
                              struct err_msg *msg);
/* Loads the catalog into in->schema. */
RF_NODISCARD int inspect_catalog(struct inspect *in, struct err_msg *msg);
void inspect_deinit(struct inspect *in);

/* One lane's live segments with an image each, not yet read. */
struct inspect_lane {
    struct wal_live_segment *segments;
    uint32_t count;
    uint64_t segment_bytes;
};
RF_NODISCARD int inspect_lane_init(struct inspect *in, uint32_t lane, struct inspect_lane *out);
void inspect_lane_deinit(struct inspect_lane *lane);

#endif
