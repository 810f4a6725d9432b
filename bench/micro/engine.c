#include "bench/micro/engine.h"

#include "api/handle.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MEMORY_BYTES (8 * UINT64_C(20) << 20) /* 8 images of 16 MiB with their arenas */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

bool micro_open(struct micro_engine *m, struct bench_state *state, enum rf_sync sync)
{
    struct rf_options options;
    const char *base = getenv("RF_BENCH_DIR");
    (void)snprintf(m->dir, sizeof m->dir, "%.40s/micro-%d", base != NULL ? base : "/tmp",
                   (int)getpid());
    rf_options_init(&options);
    options.sync = sync;
    options.segment_bytes = UINT64_C(16) << 20;
    options.memory_bytes = MEMORY_BYTES;
    options.lease = RF_LEASE_OFF;
    options.wait_prepared = true;
    if (rf_open(m->dir, &options, &m->handle, NULL) != 0) {
        bench_fail(state, "no engine");
        return false;
    }
    m->engine = m->handle->engine;
    return true;
}

void micro_close(struct micro_engine *m)
{
    (void)rf_close(m->handle);
    (void)nftw(m->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void micro_rest(struct micro_engine *m)
{
    struct rf_trim_options trim;
    struct rf_stats s = {.size = sizeof s};
    rf_trim_options_init(&trim);
    trim.before_position = UINT64_MAX;
    if (rf_flush(m->handle) != 0 || rf_trim(m->handle, &trim, NULL) != 0) return;
    for (int i = 0; i < 2000; i++) {
        if (rf_stats(m->handle, &s) != 0 || (s.segments <= 2 && s.segments_free >= 5)) return;
        usleep(1000);
    }
}

bool micro_tablet(struct micro_tablet *t, uint32_t rows, uint32_t columns, uint32_t devices,
                  bool disorder)
{
    enum { NAME = 8, TAG = 8 };
    uint32_t tags = devices > 0 ? 1 : 0, n = columns + tags;
    size_t column_bytes = n * sizeof(struct rf_column), name_bytes = (size_t)n * NAME;
    size_t time_bytes = rows * sizeof(int64_t), offset_bytes = (rows + 2) / 2 * 8;
    size_t value_bytes = (size_t)rows * columns * sizeof(double);
    uint8_t *at = calloc(1, column_bytes + name_bytes + time_bytes + offset_bytes +
                                (size_t)rows * TAG + value_bytes);
    if (at == NULL) return false;
    t->heap = at;
    struct rf_column *c = (void *)at;
    char *names = (char *)at + column_bytes;
    int64_t *times = (void *)(names + name_bytes);
    uint32_t *offsets = (void *)((uint8_t *)times + time_bytes);
    char *tag = (char *)offsets + offset_bytes;
    double *values = (void *)(tag + (size_t)rows * TAG);
    for (uint32_t i = 0; i < rows; i++) {
        char text[TAG + 1];
        (void)snprintf(text, sizeof text, "d%07u", (devices > 0 ? i % devices : 0) % 10000000);
        memcpy(tag + (size_t)i * TAG, text, TAG);
        times[i] = (int64_t)(disorder ? rows - i : i) * 1000000;
        offsets[i + 1] = (i + 1) * TAG;
    }
    for (uint32_t i = 0; i < n; i++) {
        (void)snprintf(names + (size_t)i * NAME, NAME, "s%u", i % 100000);
        c[i] = (struct rf_column){.name = names + (size_t)i * NAME,
                                  .type = RF_DOUBLE,
                                  .category = RF_FIELD,
                                  .values = values + (size_t)(i - tags) * rows};
    }
    if (tags != 0)
        c[0] = (struct rf_column){.name = names,
                                  .type = RF_STRING,
                                  .category = RF_TAG,
                                  .values = tag,
                                  .offsets = offsets};
    t->tablet = (struct rf_tablet){.size = sizeof t->tablet,
                                   .table = tags != 0 ? "micro" : NULL,
                                   .device = tags != 0 ? NULL : "root.micro.d0",
                                   .rows = rows,
                                   .columns = n,
                                   .times = times,
                                   .column = c};
    return true;
}

void micro_tablet_free(struct micro_tablet *t)
{
    free(t->heap);
}

int micro_check(struct micro_engine *m, const struct rf_tablet *tablet, struct prepared *p)
{
    struct engine *e = m->engine;
    struct lease_look look = lease_look(e->o.words, e->o.clock);
    struct scratch *scratch = p->scratch;
    scratch_reset(scratch);
    *p = (struct prepared){.engine = e,
                           .scratch = scratch,
                           .op = p->op,
                           .view = look.view,
                           .version = view_version(look.view)};
    struct engine_want *wants;
    uint32_t want_count = 0;
    int rc = tablets_check(p, tablet, 1, &wants, &want_count);
    return rc == 0 && want_count != 0 ? -ENOENT : rc;
}
