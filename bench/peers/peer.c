/* What the peers have in common: threads that put tablets until the time is over. */
#include "bench/macro/bench.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS_MAX 64u

struct putter {
    struct peer *peer;
    uint32_t thread;
    double end;
    uint64_t tablets;
};

static void *put_until(void *arg)
{
    struct putter *p = arg;
    do {
        p->peer->put(p->peer, p->thread);
        p->tablets += p->peer->tablets_a_put;
    } while (now_seconds() < p->end);
    return NULL;
}

void measure_peer(void *ctx, struct sample *out)
{
    const struct peer_side *side = ctx;
    struct peer *peer = side->peer;
    struct putter putters[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    if (peer->threads > THREADS_MAX) die("too many threads for a peer");
    double cpu = cpu_seconds(), began = now_seconds();
    uint64_t tablets = 0;
    for (uint32_t i = 0; i < peer->threads; i++) {
        putters[i] = (struct putter){.peer = peer, .thread = i, .end = began + side->seconds};
        if (i > 0 && pthread_create(&threads[i], NULL, put_until, &putters[i]) != 0)
            die("no thread for a peer");
    }
    (void)put_until(&putters[0]);
    for (uint32_t i = 1; i < peer->threads; i++)
        pthread_join(threads[i], NULL);
    double seconds = now_seconds() - began;
    for (uint32_t i = 0; i < peer->threads; i++)
        tablets += putters[i].tablets;
    out->value = (double)(tablets * peer->points) / seconds;
    out->cpu_s_per_mpoint = (cpu_seconds() - cpu) * 1e6 / (double)(tablets * peer->points);
}

void peer_close(struct peer *peer)
{
    if (peer == NULL) return;
    peer->close(peer);
    free(peer);
}
