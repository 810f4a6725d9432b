#include "cli/bench_pace.h"
#include "cli/bench_run_impl.h"

#include "cli/memory.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/prctl.h>

/* An open loop that is behind at its end may go on for so long to begin what was due. */
enum { GRACE_NS = 1000000000 };
enum { STALLS_TO_MERGE = 65536 };

/* Of this thread, for the trace, which comes on the thread that collects. */
static _Thread_local struct writer *self;

void bench_writer_trace(void *ctx, const struct rf_trace *trace)
{
    struct run *run = ctx;
    if (self == NULL) return;
    /* Its own flight is not known here: a closed loop intends a batch when it calls. */
    bool counts = trace->start_ns >= run->counts_from_ns;
    run->trace->batch(run->trace->ctx, self->number, counts, trace);
}

/* ---- answers ---- */

static void note_stall(struct writer *w, const struct bench_flight *f, int64_t now_ns)
{
    struct run *run = w->run;
    /* An open loop that can't keep up has one stall of a million batches: it is kept as one. */
    if (w->stall_count == STALLS_TO_MERGE)
        w->stall_count = bench_merge_stalls(w->stall, w->stall_count);
    if (w->stall_count == STALLS_TO_MERGE) return; /* as many that stand apart: enough is known */
    need_room(&w->stall, &w->stall_capacity, w->stall_count + 1, sizeof *w->stall);
    w->stall[w->stall_count++] = (struct bench_stall){
        .at_ns = f->intended_ns - run->counts_from_ns,
        .took_ns = now_ns - f->intended_ns,
        .batches = 1,
        .late_ns = f->called_ns - f->intended_ns,
        .in_call_ns = f->returned_ns - f->called_ns,
        .writer = w->number,
    };
}

static void take_answer(struct writer *w, struct bench_flight *f, int code, int64_t now_ns)
{
    struct run *run = w->run;
    if (code == 0) {
        atomic_store_explicit(&w->batches_done, w->batches_done + 1, memory_order_relaxed);
        atomic_store_explicit(&w->points_done, w->points_done + f->points, memory_order_relaxed);
    } else if (!rf_code_is_retryable(code) || code == -RF_CODE_WAL_ERROR) {
        bench_fail(run, code, NULL);
    }
    if (f->intended_ns >= run->counts_from_ns) {
        w->last_ns = now_ns;
        if (code == 0) {
            w->batches++;
            w->rows += f->rows;
            w->points += f->points;
            w->bytes += f->bytes;
            hist_add(w->latency, (uint64_t)(now_ns - f->intended_ns));
        } else {
            w->refused += code != -RF_CODE_UNKNOWN;
            w->unknown += code == -RF_CODE_UNKNOWN;
        }
        if (now_ns - f->intended_ns > run->o->stall_ms * 1000000) note_stall(w, f, now_ns);
    }
    f->next = w->flights_free;
    w->flights_free = f;
}

/* Waits for answers at most until until_ns (INT64_MAX: for one); takes all that are there. */
static void collect(struct writer *w, int64_t until_ns)
{
    struct rf_completion c[64];
    int n = rf_completions(w->queue, c, 64, until_ns == INT64_MAX ? 100 : 0);
    if (n == 0 && until_ns > 0 && until_ns != INT64_MAX) {
        /* An open loop's next turn is no whole number of milliseconds away. */
        int64_t left = until_ns - bench_now_ns();
        if (left <= 0) return;
        struct pollfd p = {.fd = rf_queue_eventfd(w->queue), .events = POLLIN};
        struct timespec t = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        (void)ppoll(&p, 1, &t, NULL);
        n = rf_completions(w->queue, c, 64, 0);
    }
    int64_t now_ns = bench_now_ns();
    for (int i = 0; i < n; i++)
        take_answer(w, c[i].user, c[i].code, now_ns);
    if (n < 0) bench_fail(w->run, n, NULL);
}

/* ---- beginning ---- */

/* False: the run is over for this batch. */
static bool may_begin(struct writer *w, int64_t intended_ns, uint64_t points)
{
    struct run *run = w->run;
    if (bench_stopping(run) || intended_ns >= run->end_ns) return false;
    if (run->o->points == 0 || intended_ns < run->counts_from_ns) return true;
    return atomic_fetch_add_explicit(&run->points_begun, points, memory_order_relaxed) <
           run->o->points;
}

static void begin(struct writer *w, const struct bench_batch *b, int64_t intended_ns)
{
    struct run *run = w->run;
    struct bench_flight *f = w->flights_free;
    struct rf_error error = {0};
    w->flights_free = f->next;
    *f = (struct bench_flight){.intended_ns = intended_ns,
                               .called_ns = bench_now_ns(),
                               .rows = b->rows,
                               .points = b->points,
                               .bytes = b->bytes};
    if (run->o->rate == 0) f->intended_ns = f->called_ns;
    if (w->queue == NULL) {
        int code = rf_write_batch(run->engine, b->tablets, b->tablet_count, &error);
        int64_t now_ns = bench_now_ns();
        f->returned_ns = f->called_ns; /* the call is the whole of it */
        if (code != 0 && !rf_code_is_retryable(code)) bench_fail(run, code, &error);
        take_answer(w, f, code, now_ns);
        return;
    }
    int code = rf_write_async(w->queue, b->tablets, b->tablet_count, run->o->write_wait_ms, NULL, f,
                              &error);
    f->returned_ns = bench_now_ns();
    if (code == 0) return;
    if (!rf_code_is_retryable(code)) bench_fail(run, code, &error);
    take_answer(w, f, code, f->returned_ns);
}

/* Until a flight is free and the time has come; false: the run was stopped. */
static bool wait_for_turn(struct writer *w, int64_t intended_ns)
{
    while (!bench_stopping(w->run)) {
        if (w->queue == NULL) {
            if (intended_ns > bench_now_ns()) {
                struct timespec t = {intended_ns / 1000000000, intended_ns % 1000000000};
                (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
            }
            return true;
        }
        bool is_free = w->flights_free != NULL;
        int64_t left = intended_ns - bench_now_ns();
        if (is_free && left <= 0) {
            collect(w, 0);
            return true;
        }
        collect(w, is_free ? intended_ns : INT64_MAX);
    }
    return false;
}

static void write_until_end(struct writer *w)
{
    struct run *run = w->run;
    struct bench_pace pace = {run->start_ns, run->o->rate, run->o->writers};
    for (uint64_t k = 0;; k++) {
        struct bench_batch b;
        bench_source_next(w->source, &b);
        int64_t intended_ns =
            run->o->rate != 0 ? bench_pace_ns(&pace, w->number, k) : run->start_ns;
        if (!wait_for_turn(w, intended_ns)) break;
        if (run->o->rate == 0) intended_ns = bench_now_ns();
        if (!may_begin(w, intended_ns, b.points)) break;
        if (run->o->rate != 0 && bench_now_ns() - GRACE_NS >= run->end_ns) {
            w->not_begun = bench_pace_left(&pace, intended_ns, run->end_ns);
            break;
        }
        begin(w, &b, intended_ns);
    }
    while (w->queue != NULL && rf_queue_in_flight(w->queue) > 0)
        collect(w, INT64_MAX);
}

void *bench_writer_run(void *arg)
{
    struct writer *w = arg;
    const struct bench_options *o = w->run->o;
    char name[16];
    self = w;
    snprintf(name, sizeof name, "writer-%02u", w->number % 1000);
    pthread_setname_np(pthread_self(), name);
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* an open loop begins on time */
    w->flights = need_zalloc(o->in_flight * sizeof *w->flights);
    for (uint64_t i = 0; i < o->in_flight; i++) {
        w->flights[i].next = w->flights_free;
        w->flights_free = &w->flights[i];
    }
    if (o->in_flight > 1) {
        int rc = rf_queue_open(w->run->engine, &w->queue);
        if (rc != 0) {
            bench_fail(w->run, rc, NULL);
            return NULL;
        }
    }
    write_until_end(w);
    rf_queue_close(w->queue);
    return NULL;
}
