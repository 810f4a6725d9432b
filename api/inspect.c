#include "api/inspect.h"

#include "api/handle.h"

#include <errno.h>
#include <string.h>

int inspect_init(struct inspect *in, const char *dir, int64_t lock_wait_ms, struct err_msg *msg)
{
    memset(in, 0, sizeof *in);
    in->log.level = LOG_LEVEL_OFF;
    int rc = schema_create(&in->schema);
    if (rc == 0 && handle_seams.env != NULL)
        in->env = handle_seams.env;
    else if (rc == 0)
        rc = io_env_open(dir, &in->env);
    if (rc != 0) return err_set(msg, rc, "%s: %s", dir, err_text(rc));
    struct wal_dir_options o = {
        .env = in->env,
        .read_only = true,
        .wait_ns = lock_wait_ms < 0                     ? -1
                   : lock_wait_ms > INT64_MAX / 1000000 ? INT64_MAX
                                                        : lock_wait_ms * 1000000,
        .log = &in->log,
    };
    struct err_msg why = {.code = 0};
    rc = wal_dir_open(&o, &why, &in->dir);
    if (rc != 0) return err_set(msg, rc, "%s: %s", dir, why.code != 0 ? why.text : err_text(rc));
    in->dir_open = true;
    return 0;
}

static bool always_closed(void *ctx, uint64_t view)
{
    (void)ctx, (void)view;
    return true;
}

int inspect_catalog(struct inspect *in, struct err_msg *msg)
{
    const struct wal_manifest *m = &in->dir.manifest;
    char *copy;
    int rc = catalog_copy_make(in->env, &copy, msg);
    if (rc != 0) return rc;
    struct plane_options o = {
        .catalog_path = copy,
        .read_only = true,
        .generation = m->catalog_generation,
        .version_min = m->version_obeyed,
        .lease = PLANE_LEASE_OFF,
        .lease_ns = INT64_C(20000000000),
        .commit_wait_ns = INT64_C(60000000000),
        .clock = &in->clock,
        .log = &in->log,
        .schema = in->schema,
        .words = &in->words,
        .view_is_closed = always_closed,
    };
    memcpy(o.uuid, m->uuid, sizeof o.uuid);
    rc = plane_open(&o, &in->plane, msg);
    catalog_copy_remove(copy);
    return rc;
}

void inspect_deinit(struct inspect *in)
{
    if (in->plane != NULL) plane_close(in->plane);
    if (in->dir_open) wal_dir_close(&in->dir);
    if (in->env != NULL && in->env != handle_seams.env) io_env_close(in->env);
    if (in->schema != NULL) schema_destroy(in->schema);
}

int inspect_lane_init(struct inspect *in, uint32_t lane, struct inspect_lane *out)
{
    struct wal_dir_lane *files = &in->dir.lane[lane];
    *out = (struct inspect_lane){.segment_bytes = in->dir.manifest.segment_bytes};
    out->segments = mem_zalloc_array((size_t)files->live_count + 1, sizeof *out->segments);
    if (out->segments == NULL) return -ENOMEM;
    for (; out->count < files->live_count; out->count++) {
        struct wal_live_segment *s = &out->segments[out->count];
        s->number = files->live[out->count].number;
        s->file = files->live[out->count].file;
        s->image = mem_map(out->segment_bytes);
        if (s->image == NULL) return -ENOMEM;
    }
    return 0;
}

void inspect_lane_deinit(struct inspect_lane *lane)
{
    for (uint32_t i = 0; i < lane->count; i++)
        mem_unmap(lane->segments[i].image, lane->segment_bytes);
    mem_free(lane->segments);
}
