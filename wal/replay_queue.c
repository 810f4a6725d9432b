/* A ring of blocks of records between two threads.
 *
 * The producer fills a block and publishes it by one store of `published`; the consumer gives it
 * back by one store of `taken`. Both count blocks and are futex words, and each store is followed by
 * a wake: one for several hundred records. A block without records is the last.
 *   Q1  published (release) / published (acquire): the block's records are written before it.
 *   Q2  taken (release) / taken (acquire): the block was read to its end before it is filled again. */
#include "wal/replay_queue.h"

#include "base/alloc.h"
#include "base/thread.h"

#include <errno.h>
#include <stdatomic.h>

enum {
    RECORDS = 512, /* of a block */
    BLOCKS = 16,   /* of the ring */
};

struct item {
    struct wal_record_head head;
    const uint8_t *payload;
};

struct block {
    uint32_t count;
    struct item items[RECORDS];
};

struct replay_queue {
    wal_replay_record *record;
    void *ctx;
    /* The producer's. */
    struct block *filling;
    bool alone; /* no thread could be started, or none is worth it */
    bool started;
    pthread_t thread;
    _Alignas(RF_CACHE_LINE) _Atomic uint32_t published; /* W: producer. Q1 */
    _Alignas(RF_CACHE_LINE) _Atomic uint32_t taken;     /* W: consumer. Q2 */
    /* The consumer's; the producer's once it has joined it. */
    int rc;
    uint64_t applied;
    _Alignas(RF_CACHE_LINE) struct block blocks[BLOCKS];
};

int replay_queue_begin(wal_replay_record *record, void *ctx, struct replay_queue **queue_out)
{
    struct replay_queue *q = mem_alloc_aligned(RF_CACHE_LINE, sizeof *q);
    if (q == NULL) return -ENOMEM;
    q->record = record;
    q->ctx = ctx;
    q->filling = NULL;
    q->alone = q->started = false;
    atomic_init(&q->published, 0);
    atomic_init(&q->taken, 0);
    q->rc = 0;
    q->applied = 0;
    *queue_out = q;
    return 0;
}

static void apply(struct replay_queue *q, const struct block *b)
{
    for (uint32_t i = 0; i < b->count && q->rc == 0; i++) {
        const struct item *item = &b->items[i];
        q->rc = q->record(q->ctx, &item->head, item->payload, item->head.lsn);
        if (q->rc == 0) q->applied++;
    }
}

/* ---- the consumer ---- */

static void *consume(void *arg)
{
    struct replay_queue *q = arg;
    for (uint32_t n = 0;; n++) {
        while (atomic_load_explicit(&q->published, memory_order_acquire) == n) /* Q1 */
            (void)futex_wait(&q->published, n, -1);
        const struct block *b = &q->blocks[n % BLOCKS];
        bool last = b->count == 0;
        apply(q, b);
        atomic_store_explicit(&q->taken, n + 1, memory_order_release); /* Q2 */
        if (last) return NULL; /* q lives: the producer joins before it frees */
        futex_wake_one(&q->taken);
    }
}

/* ---- the producer ---- */

/* Relaxed: the producer alone stores it. */
static uint32_t published(const struct replay_queue *q)
{
    return atomic_load_explicit(&q->published, memory_order_relaxed);
}

bool replay_queue_full(const struct replay_queue *q)
{
    if (q->filling != NULL) return false;
    return published(q) - atomic_load_explicit(&q->taken, memory_order_acquire) == BLOCKS; /* Q2 */
}

static void begin_block(struct replay_queue *q)
{
    uint32_t taken;
    while (published(q) - (taken = atomic_load_explicit(&q->taken, memory_order_acquire)) == BLOCKS)
        (void)futex_wait(&q->taken, taken, -1);
    q->filling = &q->blocks[published(q) % BLOCKS];
    q->filling->count = 0;
}

/* Hands the block over, or applies it here. */
static void publish(struct replay_queue *q)
{
    const struct block *b = q->filling;
    q->filling = NULL;
    if (!q->started && !q->alone) {
        q->started = thread_start(&q->thread, "rf-replay", consume, q) == 0;
        q->alone = !q->started;
    }
    if (q->alone) {
        apply(q, b);
        return;
    }
    atomic_store_explicit(&q->published, published(q) + 1, memory_order_release); /* Q1 */
    futex_wake_one(&q->published);
}

void replay_queue_push(struct replay_queue *q, const struct wal_record_head *h,
                       const uint8_t *payload)
{
    if (q->filling == NULL) begin_block(q);
    struct block *b = q->filling;
    b->items[b->count++] = (struct item){.head = *h, .payload = payload};
    if (b->count == RECORDS) publish(q);
}

int replay_queue_end(struct replay_queue *q, uint64_t *applied_out)
{
    if (!q->started) q->alone = true;
    if (q->filling != NULL) publish(q);
    if (q->started) {
        begin_block(q);
        publish(q);
        thread_join(q->thread);
    }
    int rc = q->rc;
    *applied_out = q->applied;
    mem_free(q);
    return rc;
}
