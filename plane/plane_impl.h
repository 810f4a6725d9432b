/* Inside of the plane. plane.c has the threads and the loop, plane_change.c what becomes of a
 * change, plane_lease.c drives the lease's pure steps, plane_request.c copies, queues and waits. */
#ifndef RF_PLANE_PLANE_IMPL_H
#define RF_PLANE_PLANE_IMPL_H

#include "base/lock.h"
#include "lease/embedded.h"
#include "lease/external.h"
#include "plane/catalog.h"
#include "plane/plane.h"

#include <pthread.h>
#include <stdatomic.h>

enum request_kind { REQUEST_CHANGE, REQUEST_GRANT, REQUEST_RESUME, REQUEST_FENCE };

/* One call under way. Both the caller and the plane hold it; the last to let go frees it, so a
 * caller whose wait ran out may leave at any time. */
struct request {
    struct request *next;
    enum request_kind kind;
    _Atomic uint32_t holders;
    _Atomic uint32_t done; /* futex. W: plane's thread, once. R: caller. Pair P1 */
    /* W: plane's thread before done. R: caller after it. */
    int rc;
    struct err_msg msg;
    /* Plane's thread only. */
    int64_t begun_ns;
    struct catalog_request catalog;
    bool automatic; /* every change is if_missing */
    uint32_t effects_done;
    uint64_t version; /* what its answer waits for */
    struct lease_request lease;
    int64_t ttl_ms;
};

struct request_list {
    struct request *first, *last;
};

enum job_state { JOB_NONE, JOB_GIVEN, JOB_DONE, JOB_STOP };

#define VIEWS_CLOSING_MAX 8

struct plane {
    uint32_t magic;
    struct plane_options o;  /* catalog_path and vfs are not valid after opening */
    struct catalog *catalog; /* the worker's while a job is given */
    pthread_t thread, worker;

    _Atomic uint32_t wake; /* futex: grows when the loop has something to do. W: any. Pair P2 */
    struct lock lock;      /* guards the two below */
    struct request_list asked;
    bool closing;

    _Atomic uint32_t job; /* futex, enum job_state. Pair P3 */
    /* W: plane's thread before JOB_GIVEN, worker before JOB_DONE. */
    struct catalog_request *job_first;
    uint64_t job_version;
    bool job_committed;

    /* Plane's thread only. */
    struct request_list lease_requests; /* grant, resume, fence */
    struct request_list waiting;        /* for the next job */
    struct request_list group;          /* in the job, or its effects being done */
    struct request_list published;      /* for their answer's condition */
    bool applying;                      /* the group is committed, its effects are not all done */
    bool out_of_memory;                 /* an effect could not be done: again in a while */
    uint64_t applied_version;           /* the schema has everything of it */
    struct lease_embedded embedded;
    struct holder external;
    struct holder *holder;                    /* one of the two above */
    uint64_t closing_view[VIEWS_CLOSING_MAX]; /* oldest first */
    unsigned closing_count;
    int64_t closing_poll_ns;
    bool empty_asked, apply_asked;
    uint64_t apply_ticket;

    uint64_t boot;
    _Atomic uint32_t hold, held; /* futexes. W: test, plane's thread */
    _Atomic uint64_t version;    /* committed. W: plane's thread. R: any, relaxed: a figure */
    _Atomic uint64_t commits, changes, fences, turns; /* the same */
};

/* P1  request.done: release by plane_answer, acquire by the caller: it sees rc and msg.
 * P2  plane.wake: the asker adds to it after queueing, the loop reads it before it looks at the
 *     queue and sleeps only while it is the same. The lock orders the queue itself.
 * P3  plane.job: each side fills the job and then stores the state with release; the other loads it
 *     with acquire. */

void plane_wake(struct plane *p);

static inline void list_add(struct request_list *list, struct request *r)
{
    r->next = NULL;
    if (list->last != NULL)
        list->last->next = r;
    else
        list->first = r;
    list->last = r;
}
static inline struct request *list_take(struct request_list *list)
{
    struct request *r = list->first;
    if (r == NULL) return NULL;
    list->first = r->next;
    if (list->first == NULL) list->last = NULL;
    r->next = NULL;
    return r;
}

/* plane_request.c */
void request_release(struct request *r);
/* Sets the code, wakes the caller, lets go. r->msg is set by then if there is something to say. */
void plane_answer(struct plane *p, struct request *r, int rc);
/* As the request is wrapped in its catalog part. */
struct request *request_of(struct catalog_request *c);

/* plane_change.c: one part of a turn each */
void plane_begin_job(struct plane *p);
void plane_end_job(struct plane *p);
/* Does the effects of the committed group; true when it has just done the last. */
bool plane_do_effects(struct plane *p);
void plane_answer_changes(struct plane *p);

/* plane_lease.c */
void plane_lease_init(struct plane *p);
void plane_lease_turn(struct plane *p);
void plane_lease_changed(struct plane *p);
void plane_lease_poll_closing(struct plane *p);
void plane_lease_answer(struct plane *p);
/* When the loop has to look again, in ns from now. */
int64_t plane_lease_wait_ns(struct plane *p);
void plane_lease_stop(struct plane *p);

#endif
