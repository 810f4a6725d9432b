#include "plane/plane.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "plane/plane_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#define PLANE_MAGIC     0x5246504cu
#define MEMORY_RETRY_NS ((int64_t)10000000)
#define WORKER_IDLE_NS  ((int64_t)100000000)
#define LEASE_NS_MIN    ((int64_t)1000000)

/* ---- the worker ---- */

static void *work(void *arg)
{
    struct plane *p = arg;
    bool cached = false;
    for (;;) {
        uint32_t job = atomic_load_explicit(&p->job, memory_order_acquire); /* P3 */
        if (job == JOB_STOP) return NULL;
        if (job != JOB_GIVEN) {
            if (futex_wait(&p->job, job, cached ? WORKER_IDLE_NS : -1) == -ETIMEDOUT) {
                catalog_idle(p->catalog);
                cached = false;
            }
            continue;
        }
        p->job_committed = catalog_run(p->catalog, p->job_first, &p->job_version);
        cached = true;
        atomic_store_explicit(&p->job, JOB_DONE, memory_order_release); /* P3 */
        plane_wake(p);
    }
}

/* ---- the loop ---- */

/* Moves what was asked to where it waits; false when the plane is closing. */
static bool take_asked(struct plane *p)
{
    lock_acquire(&p->lock);
    struct request_list asked = p->asked;
    p->asked = (struct request_list){0};
    bool closing = p->closing;
    lock_release(&p->lock);
    for (struct request *r; (r = list_take(&asked)) != NULL;)
        list_add(r->kind == REQUEST_CHANGE ? &p->waiting : &p->lease_requests, r);
    return !closing;
}

static void stand_still_while_held(struct plane *p)
{
    if (atomic_load_explicit(&p->hold, memory_order_acquire) == 0) return;
    atomic_store_explicit(&p->held, 1, memory_order_release);
    futex_wake_all(&p->held);
    while (atomic_load_explicit(&p->hold, memory_order_acquire) != 0)
        (void)futex_wait(&p->hold, 1, -1);
    atomic_store_explicit(&p->held, 0, memory_order_release);
    futex_wake_all(&p->held);
}

static int64_t wait_ns(struct plane *p)
{
    int64_t ns = plane_lease_wait_ns(p);
    return p->out_of_memory && ns > MEMORY_RETRY_NS ? MEMORY_RETRY_NS : ns;
}

static void *run(void *arg)
{
    struct plane *p = arg;
    for (;;) {
        uint32_t seen = atomic_load_explicit(&p->wake, memory_order_acquire); /* P2 */
        atomic_fetch_add_explicit(&p->turns, 1, memory_order_relaxed);
        stand_still_while_held(p);
        if (!take_asked(p)) return NULL;
        plane_end_job(p);
        if (plane_do_effects(p)) plane_lease_changed(p);
        plane_lease_turn(p);
        plane_lease_poll_closing(p);
        plane_lease_answer(p);
        plane_answer_changes(p);
        plane_begin_job(p);
        int64_t ns = wait_ns(p);
        if (ns > 0) (void)futex_wait(&p->wake, seen, ns);
    }
}

/* ---- opening ---- */

static int start_threads(struct plane *p, struct err_msg *msg)
{
    int rc = thread_start(&p->worker, "rf-catalog", work, p);
    if (rc != 0) return err_set(msg, rc, "starting the catalog's thread");
    rc = thread_start(&p->thread, "rf-plane", run, p);
    if (rc == 0) return 0;
    atomic_store_explicit(&p->job, JOB_STOP, memory_order_release); /* P3 */
    futex_wake_one(&p->job);
    thread_join(p->worker);
    return err_set(msg, rc, "starting the plane's thread");
}

/* Nobody changes anything, so there is nothing to grant, and no catalog to keep. */
static void open_read_only(struct plane *p)
{
    catalog_close(p->catalog);
    p->catalog = NULL;
    uint64_t version = atomic_load_explicit(&p->version, memory_order_relaxed);
    lease_publish_view(p->o.words, view_make(1, version));
    lease_publish_deadline(p->o.words, LEASE_OFF);
}

static int open_catalog(struct plane *p, struct err_msg *msg)
{
    struct catalog_options co = {
        .path = p->o.catalog_path,
        .vfs = p->o.vfs,
        .create = p->o.create,
        .read_only = p->o.read_only,
        .generation = p->o.generation,
        .version_min = p->o.version_min,
    };
    memcpy(co.uuid, p->o.uuid, sizeof co.uuid);
    int rc = catalog_open(&co, p->o.schema, &p->catalog, msg);
    if (rc == 0) atomic_init(&p->version, catalog_version(p->catalog));
    return rc;
}

/* Never 0, which is no boot. */
static int draw_boot(struct plane *p, struct err_msg *msg)
{
    do {
        if (getrandom(&p->boot, sizeof p->boot, 0) != (ssize_t)sizeof p->boot)
            return err_set(msg, -errno, "getrandom");
    } while (p->boot == 0);
    return 0;
}

int plane_open(const struct plane_options *o, struct plane **plane_out, struct err_msg *msg)
{
    if (!o->read_only && o->lease == PLANE_LEASE_EMBEDDED && o->lease_ns < LEASE_NS_MIN)
        return err_set(msg, -EINVAL, "lease_ns %" PRId64 ": at least %" PRId64, o->lease_ns,
                       LEASE_NS_MIN);
    struct plane *p = mem_zalloc(sizeof *p);
    if (p == NULL) return err_set(msg, -ENOMEM, "out of memory for the plane");
    p->magic = PLANE_MAGIC;
    p->o = *o;
    lock_init(&p->lock, LOCK_RANK_PLANE);
    int rc = draw_boot(p, msg);
    if (rc == 0) rc = open_catalog(p, msg);
    if (rc != 0) goto free_plane;
    if (o->read_only) {
        open_read_only(p);
    } else {
        plane_lease_init(p);
        rc = start_threads(p, msg);
        if (rc != 0) goto close_catalog;
    }
    *plane_out = p;
    return 0;
close_catalog:
    catalog_close(p->catalog);
free_plane:
    lock_deinit(&p->lock);
    mem_free(p);
    return rc;
}

/* ---- closing ---- */

static void answer_all(struct plane *p, struct request_list *list, int rc)
{
    for (struct request *r; (r = list_take(list)) != NULL;)
        plane_answer(p, r, rc);
}

static void stop_threads(struct plane *p)
{
    lock_acquire(&p->lock);
    p->closing = true;
    lock_release(&p->lock);
    atomic_store_explicit(&p->hold, 0, memory_order_release);
    futex_wake_all(&p->hold);
    plane_wake(p);
    thread_join(p->thread);
    /* The worker ends its job first: a commit is not left in the middle. */
    while (atomic_load_explicit(&p->job, memory_order_acquire) == JOB_GIVEN) /* P3 */
        (void)futex_wait(&p->job, JOB_GIVEN, WORKER_IDLE_NS);
    atomic_store_explicit(&p->job, JOB_STOP, memory_order_release); /* P3 */
    futex_wake_one(&p->job);
    thread_join(p->worker);
}

void plane_close(struct plane *p)
{
    if (p == NULL) return;
    CHECK(p->magic == PLANE_MAGIC);
    if (!p->o.read_only) {
        stop_threads(p);
        plane_lease_stop(p);
        answer_all(p, &p->lease_requests, -RFE_CLOSING);
        for (struct request *r; (r = list_take(&p->waiting)) != NULL;)
            plane_answer(p, r, r->catalog.finish_drop ? -RFE_UNKNOWN : -RFE_CLOSING);
        for (struct request *r; (r = list_take(&p->group)) != NULL;) {
            r->msg = r->catalog.msg;
            plane_answer(p, r, r->catalog.rc != 0 ? r->catalog.rc : -RFE_UNKNOWN);
        }
        answer_all(p, &p->published, -RFE_UNKNOWN);
        catalog_close(p->catalog);
    }
    lock_deinit(&p->lock);
    p->magic = 0;
    mem_free(p);
}

void plane_abandon(struct plane *p)
{
    if (p == NULL) return;
    CHECK(p->magic == PLANE_MAGIC);
    /* Requests, the catalog and its connection belong to threads that this process does not have,
     * in whatever state the fork met them: they are left. */
    p->magic = 0;
    mem_free(p);
}

/* ---- figures, and the seam ---- */

uint64_t plane_version(const struct plane *p)
{
    return atomic_load_explicit(&p->version, memory_order_relaxed);
}

void plane_get_stats(const struct plane *p, struct plane_stats *stats_out)
{
    *stats_out = (struct plane_stats){
        .commits = atomic_load_explicit(&p->commits, memory_order_relaxed),
        .changes = atomic_load_explicit(&p->changes, memory_order_relaxed),
        .fences = atomic_load_explicit(&p->fences, memory_order_relaxed),
        .turns = atomic_load_explicit(&p->turns, memory_order_relaxed),
    };
}

void plane_hold(struct plane *p, bool hold)
{
    if (p->o.read_only) return;
    uint32_t other = hold ? 0 : 1;
    atomic_store_explicit(&p->hold, hold ? 1 : 0, memory_order_release);
    futex_wake_all(&p->hold);
    plane_wake(p);
    while (atomic_load_explicit(&p->held, memory_order_acquire) == other)
        (void)futex_wait(&p->held, other, -1);
}
