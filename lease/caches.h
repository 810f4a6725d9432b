/* The caches of metadata in a process: they register, and a fence empties them all.
 *
 * What is not registered here must not trust anything that a grantor pushed. A cache that could not
 * be emptied keeps the process fenced: the plane calls again until all could.
 *
 * Thread: registering and emptying are the plane's; a cache guards its own contents. */
#ifndef RF_LEASE_CACHES_H
#define RF_LEASE_CACHES_H

#include "base/check.h"
#include "lease/view.h"

#include <stdbool.h>
#include <stdint.h>

/* In the cache's own memory, which outlives its registration. */
struct lease_cache {
    const char *name;        /* for the event log */
    int (*empty)(void *ctx); /* 0: nothing of it is left; else it is called again later */
    void *ctx;
    struct lease_cache *next; /* ours */
};

struct lease_caches {
    struct lease_cache *first;
};

void lease_caches_init(struct lease_caches *caches);
/* -EEXIST: it is registered already. */
RF_NODISCARD int lease_caches_register(struct lease_caches *caches, struct lease_cache *cache);
/* -ENOENT: it is not registered. */
int lease_caches_unregister(struct lease_caches *caches, struct lease_cache *cache);

/* Empties every cache, also behind one that fails. Returns 0, or the first failure, and then
 * *failed_out names its cache (failed_out may be NULL). Answered to the holder as HOLDER_EMPTIED.
 */
RF_NODISCARD int lease_caches_empty(struct lease_caches *caches, const char **failed_out);

/* Whether a value fetched on demand may be kept: it was read at value_version, asked for under
 * view_asked, and view_now is the present view. Not if the process was fenced in between, nor if
 * what was applied since is newer than the value. The cache calls this under the lock that its
 * empty() takes, with a view loaded under that lock; else a fence could come between. */
static inline bool lease_cache_admits(uint64_t view_now, uint64_t view_asked,
                                      uint64_t value_version)
{
    return view_epoch(view_now) == view_epoch(view_asked) &&
           value_version >= view_version(view_now);
}

#endif
