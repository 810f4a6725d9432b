/* A holder with its words and a test clock, and a driver that does what each step asks for, either
 * at once or when the test says so. */
#ifndef RF_TESTS_UNIT_LEASE_RIG_H
#define RF_TESTS_UNIT_LEASE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "lease/grantor.h"
#include "lease/holder.h"
#include "lease/view.h"

#define SECOND ((int64_t)1000000000)
#define MS     ((int64_t)1000000)

struct rig {
    struct holder h;
    struct lease_words words;
    _Atomic int64_t time_ns[3];
    struct clock clock;
    /* Who answers at once; off: the test feeds the event. */
    bool closes, empties, applies;
    uint64_t close_asked; /* the view of the last LEASE_CLOSE_VIEWS; 0: none since it was reset */
    uint64_t ticket;      /* of the last LEASE_APPLY_CONTENT; 0: none */
    struct lease_status status; /* the last one sent */
    size_t statuses, empties_asked, alarms, applies_asked;
    enum lease_alarm alarm;
    enum lease_content content;
};

static inline void rig_feed(struct rig *r, const struct holder_event *e);

static inline void rig_do(struct rig *r, const struct lease_actions *acts)
{
    for (size_t i = 0; i < acts->count; i++) {
        const struct lease_action *a = &acts->items[i];
        switch (a->type) {
        case LEASE_PUBLISH_DEADLINE: lease_publish_deadline(&r->words, a->deadline_ns); break;
        case LEASE_PUBLISH_VIEW: lease_publish_view(&r->words, a->view); break;
        case LEASE_EMPTY_CACHES: r->empties_asked++; break;
        case LEASE_CLOSE_VIEWS: r->close_asked = a->view; break;
        case LEASE_APPLY_CONTENT:
            r->ticket = a->apply.ticket;
            r->content = a->apply.content;
            r->applies_asked++;
            break;
        case LEASE_SEND_STATUS:
            r->status = a->status;
            r->statuses++;
            break;
        case LEASE_RAISE_ALARM:
            r->alarm = a->alarm;
            r->alarms++;
            break;
        }
    }
    for (size_t i = 0; i < acts->count; i++) {
        const struct lease_action *a = &acts->items[i];
        struct holder_event e = {0};
        if (a->type == LEASE_EMPTY_CACHES && r->empties)
            e = (struct holder_event){.type = HOLDER_EMPTIED, .ok = true};
        else if (a->type == LEASE_CLOSE_VIEWS && r->closes)
            e = (struct holder_event){.type = HOLDER_CLOSED, .view = a->view};
        else if (a->type == LEASE_APPLY_CONTENT && r->applies)
            e = (struct holder_event){.type = HOLDER_APPLIED,
                                      .applied = {.ticket = a->apply.ticket, .ok = true}};
        else
            continue;
        rig_feed(r, &e);
    }
}

static inline int64_t rig_now(const struct rig *r)
{
    return clock_boot_ns(&r->clock);
}

static inline void rig_feed(struct rig *r, const struct holder_event *e)
{
    struct lease_actions acts;
    assert_int_equal(holder_step(&r->h, e, rig_now(r), &acts), HOLDER_TAKEN);
    rig_do(r, &acts);
}

static inline void rig_time(struct rig *r, int64_t now_ns)
{
    atomic_store(&r->time_ns[0], now_ns);
}

static inline void rig_init(struct rig *r, int64_t now_ns)
{
    memset(r, 0, sizeof(*r));
    r->clock.test_ns = r->time_ns;
    r->closes = r->empties = r->applies = true;
    rig_time(r, now_ns);
    holder_init(&r->h, SECOND, 0);
    lease_publish_view(&r->words, view_make(1, 0));
}

static inline void rig_simple(struct rig *r, enum holder_event_type type)
{
    rig_feed(r, &(struct holder_event){.type = type});
}
static inline void rig_register(struct rig *r, uint64_t boot, uint64_t version)
{
    rig_feed(r,
             &(struct holder_event){.type = HOLDER_REGISTERED,
                                    .registered = {.boot = boot, .term = 1, .version = version}});
}
static inline void rig_closed(struct rig *r)
{
    assert_int_not_equal(r->close_asked, 0);
    rig_feed(r, &(struct holder_event){.type = HOLDER_CLOSED, .view = r->close_asked});
}
static inline void rig_applied(struct rig *r, bool ok)
{
    rig_feed(r, &(struct holder_event){.type = HOLDER_APPLIED,
                                       .applied = {.ticket = r->ticket, .ok = ok}});
}
static inline enum holder_answer rig_offer(struct rig *r, const struct lease_offer *o)
{
    struct holder_event e = {.type = HOLDER_OFFER, .offer = *o};
    struct lease_actions acts;
    enum holder_answer answer = holder_step(&r->h, &e, rig_now(r), &acts);
    rig_do(r, &acts);
    return answer;
}

/* An offer for boot 1 of term 1 from `asked_ns`, T = 20 s. */
static inline struct lease_offer rig_heartbeat(int64_t asked_ns, uint64_t version)
{
    return (struct lease_offer){.term = 1,
                                .boot = 1,
                                .asked_ns = asked_ns,
                                .ttl_ns = 20 * SECOND,
                                .version = version,
                                .content = LEASE_CONTENT_NONE};
}
static inline struct lease_offer rig_snapshot(int64_t asked_ns, uint64_t version)
{
    struct lease_offer o = rig_heartbeat(asked_ns, version);
    o.content = LEASE_CONTENT_SNAPSHOT;
    return o;
}
static inline struct lease_offer rig_delta(int64_t asked_ns, uint64_t base, uint64_t version)
{
    struct lease_offer o = rig_heartbeat(asked_ns, version);
    o.content = LEASE_CONTENT_DELTA;
    o.base = base;
    return o;
}

/* Boot 1, NORMAL at `version`, with a lease dated now. */
static inline void rig_normal(struct rig *r, int64_t now_ns, uint64_t version)
{
    rig_init(r, now_ns);
    rig_register(r, 1, 0);
    struct lease_offer o = rig_snapshot(now_ns, version);
    assert_int_equal(rig_offer(r, &o), HOLDER_TAKEN);
    assert_int_equal(r->h.state, HOLDER_NORMAL);
}

static inline int64_t rig_deadline(struct rig *r)
{
    return atomic_load(&r->words.deadline_ns);
}
static inline uint64_t rig_view(struct rig *r)
{
    return atomic_load(&r->words.view);
}
static inline bool rig_live(struct rig *r)
{
    return lease_look(&r->words, &r->clock).live;
}

#endif
