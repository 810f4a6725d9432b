/* Requests: copied, queued, waited for. */
#include "base/alloc.h"
#include "base/thread.h"
#include "plane/plane_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

static int64_t real_ns(void)
{
    return clock_read_ns(
        CLOCK_MONOTONIC); /* waits are measured by it whatever the test clock says */
}

/* ---- copying ---- */

struct copier {
    char *at, *end;
};

static const void *copy_bytes(struct copier *c, const void *bytes, size_t n)
{
    if (n == 0) return NULL;
    CHECK((size_t)(c->end - c->at) >= n);
    void *copy = c->at;
    memcpy(copy, bytes, n);
    c->at += n;
    return copy;
}

static bool add_size(size_t *sum, size_t count, size_t each)
{
    size_t bytes;
    return !__builtin_mul_overflow(count, each, &bytes) &&
           !__builtin_add_overflow(*sum, bytes, sum);
}

static bool measure(const struct plane_change *changes, uint32_t n, size_t *bytes_out)
{
    size_t sum = sizeof(struct request);
    bool ok = add_size(&sum, n, sizeof *changes);
    for (uint32_t i = 0; ok && i < n; i++) {
        const struct plane_change *c = &changes[i];
        ok = add_size(&sum, c->column_count, sizeof *c->columns) &&
             add_size(&sum, 1, c->table_bytes) && add_size(&sum, 1, c->key_bytes) &&
             add_size(&sum, 1, c->column_bytes) && add_size(&sum, 1, c->to_bytes);
        for (uint32_t j = 0; ok && j < c->column_count; j++)
            ok = add_size(&sum, 1, c->columns[j].name_bytes);
    }
    *bytes_out = sum;
    return ok;
}

static struct request *make_request(enum request_kind kind, size_t bytes)
{
    struct request *r = mem_alloc(bytes);
    if (r == NULL) return NULL;
    *r = (struct request){.kind = kind, .begun_ns = real_ns()};
    atomic_init(&r->holders, 2);
    atomic_init(&r->done, 0);
    return r;
}

/* One block: the request, its changes, all their columns, then the bytes, so that what has an
 * alignment comes first. */
static struct request *copy_changes(const struct plane_change *changes, uint32_t n)
{
    size_t bytes;
    if (!measure(changes, n, &bytes)) return NULL;
    struct request *r = make_request(REQUEST_CHANGE, bytes);
    if (r == NULL) return NULL;
    struct plane_change *copies = (struct plane_change *)(r + 1);
    struct plane_column *columns = (struct plane_column *)(copies + n);
    r->automatic = true;
    for (uint32_t i = 0; i < n; i++) {
        copies[i] = changes[i];
        copies[i].columns = columns;
        for (uint32_t j = 0; j < changes[i].column_count; j++)
            *columns++ = changes[i].columns[j];
        r->automatic &= changes[i].if_missing;
    }
    struct copier c = {(char *)columns, (char *)r + bytes};
    for (uint32_t i = 0; i < n; i++) {
        struct plane_change *ch = &copies[i];
        ch->table = copy_bytes(&c, ch->table, ch->table_bytes);
        ch->key = copy_bytes(&c, ch->key, ch->key_bytes);
        ch->column = copy_bytes(&c, ch->column, ch->column_bytes);
        ch->to = copy_bytes(&c, ch->to, ch->to_bytes);
    }
    for (struct plane_column *col = (struct plane_column *)(copies + n); col < columns; col++)
        col->name = copy_bytes(&c, col->name, col->name_bytes);
    r->catalog.changes = copies;
    r->catalog.change_count = n;
    return r;
}

struct request *request_of(struct catalog_request *c)
{
    return (struct request *)(void *)((char *)c - offsetof(struct request, catalog));
}

void request_release(struct request *r)
{
    /* Release and acquire: whoever frees it has seen all that the other did with it. */
    if (atomic_fetch_sub_explicit(&r->holders, 1, memory_order_acq_rel) != 1) return;
    mem_free(r->catalog.effects);
    mem_free(r);
}

/* ---- asking and answering ---- */

void plane_wake(struct plane *p)
{
    atomic_fetch_add_explicit(&p->wake, 1, memory_order_release); /* P2 */
    futex_wake_one(&p->wake);
}

void plane_answer(struct plane *p, struct request *r, int rc)
{
    /* The caller of one that took so long may be gone: then nobody else says why it failed. */
    bool late = real_ns() - r->begun_ns > p->o.commit_wait_ns;
    if (rc != 0 && late)
        log_warn(p->o.log, "plane.late_failure", "code=%s text=\"%s\"", err_name(rc), r->msg.text);
    if (rc == 0 && r->kind == REQUEST_CHANGE)
        atomic_fetch_add_explicit(&p->changes, 1, memory_order_relaxed);
    r->rc = rc;
    atomic_store_explicit(&r->done, 1, memory_order_release); /* P1 */
    futex_wake_all(&r->done);
    request_release(r);
}

/* Wakes the loop under the lock: plane_close takes it after, and so frees nothing that is in use. */
static int ask(struct plane *p, struct request *r)
{
    lock_acquire(&p->lock);
    bool closing = p->closing;
    if (!closing) {
        list_add(&p->asked, r);
        plane_wake(p);
    }
    lock_release(&p->lock);
    return closing ? -RFE_CLOSING : 0;
}

/* Queues it, waits, lets go. From the answer on, the plane may be gone. */
static int ask_and_wait(struct plane *p, struct request *r, int64_t wait_ns, struct err_msg *msg)
{
    /* The longest wait that options take is without end. */
    int64_t until_ns = wait_ns > INT64_MAX - r->begun_ns ? INT64_MAX : r->begun_ns + wait_ns;
    int rc = ask(p, r);
    if (rc != 0) {
        request_release(r);
        request_release(r);
        return err_set(msg, rc, "%s", err_text(rc));
    }
    while (atomic_load_explicit(&r->done, memory_order_acquire) == 0) { /* P1 */
        int64_t left_ns = until_ns - real_ns();
        if (left_ns > 0) {
            (void)futex_wait(&r->done, 0, left_ns);
            continue;
        }
        request_release(r);
        return err_set(msg, -RFE_UNKNOWN, "no answer within %" PRId64 " ms: it goes on",
                       wait_ns / 1000000);
    }
    rc = r->rc;
    if (rc != 0) (void)err_set(msg, rc, "%s", r->msg.code != 0 ? r->msg.text : err_text(rc));
    request_release(r);
    return rc;
}

int plane_change(struct plane *p, const struct plane_change *changes, uint32_t n, int64_t wait_ns,
                 struct err_msg *msg)
{
    if (n == 0) return err_set(msg, -EINVAL, "no change at all");
    if (p->o.read_only) return err_set(msg, -RFE_READ_ONLY, "%s", err_text(-RFE_READ_ONLY));
    for (uint32_t i = 0; n > 1 && i < n; i++)
        if (changes[i].kind == PLANE_DROP_TABLE)
            return err_set(msg, -RFE_SEMANTIC_ERROR, "a table is dropped by a request of its own");
    struct request *r = copy_changes(changes, n);
    if (r == NULL) return err_set(msg, -ENOMEM, "out of memory for a copy of %u changes", n);
    if (wait_ns < 0 || wait_ns > p->o.commit_wait_ns) wait_ns = p->o.commit_wait_ns;
    return ask_and_wait(p, r, wait_ns, msg);
}

/* ---- the lease ---- */

int plane_lease_ask(struct plane *p, struct plane_lease_request *request_out)
{
    if (p->o.read_only || p->o.lease != PLANE_LEASE_EXTERNAL) return -EOPNOTSUPP;
    /* Acquire only for form: a view that is old is refused when it comes back. */
    *request_out = (struct plane_lease_request){
        .asked_boot_ns = clock_boot_ns(p->o.clock),
        .view = atomic_load_explicit(&p->o.words->view, memory_order_acquire),
        .boot = p->boot,
    };
    return 0;
}

static int ask_lease(struct plane *p, enum request_kind kind,
                     const struct plane_lease_request *request, int64_t ttl_ms)
{
    struct request *r = make_request(kind, sizeof *r);
    if (r == NULL) return -ENOMEM;
    if (request != NULL)
        r->lease = (struct lease_request){request->asked_boot_ns, request->view, request->boot};
    r->ttl_ms = ttl_ms;
    return ask_and_wait(p, r, p->o.commit_wait_ns, NULL);
}

int plane_lease_grant(struct plane *p, const struct plane_lease_request *request, int64_t ttl_ms)
{
    if (p->o.read_only || p->o.lease != PLANE_LEASE_EXTERNAL) return -EOPNOTSUPP;
    return ask_lease(p, REQUEST_GRANT, request, ttl_ms);
}

int plane_lease_resume(struct plane *p, const struct plane_lease_request *request, int64_t ttl_ms)
{
    if (p->o.read_only || p->o.lease != PLANE_LEASE_EXTERNAL) return -EOPNOTSUPP;
    return ask_lease(p, REQUEST_RESUME, request, ttl_ms);
}

int plane_lease_fence(struct plane *p)
{
    if (p->o.read_only || p->o.lease == PLANE_LEASE_OFF) return -EOPNOTSUPP;
    return ask_lease(p, REQUEST_FENCE, NULL, 0);
}
