#include "lease/caches.h"

#include <errno.h>
#include <stddef.h>

void lease_caches_init(struct lease_caches *caches)
{
    caches->first = NULL;
}

int lease_caches_register(struct lease_caches *caches, struct lease_cache *cache)
{
    CHECK(cache->empty != NULL && cache->name != NULL);
    for (struct lease_cache *c = caches->first; c != NULL; c = c->next)
        if (c == cache) return -EEXIST;
    cache->next = caches->first;
    caches->first = cache;
    return 0;
}

int lease_caches_unregister(struct lease_caches *caches, struct lease_cache *cache)
{
    for (struct lease_cache **at = &caches->first; *at != NULL; at = &(*at)->next) {
        if (*at != cache) continue;
        *at = cache->next;
        cache->next = NULL;
        return 0;
    }
    return -ENOENT;
}

int lease_caches_empty(struct lease_caches *caches, const char **failed_out)
{
    int first = 0;
    for (struct lease_cache *c = caches->first; c != NULL; c = c->next) {
        int rc = c->empty(c->ctx);
        if (rc == 0 || first != 0) continue;
        first = rc;
        if (failed_out != NULL) *failed_out = c->name;
    }
    return first;
}
