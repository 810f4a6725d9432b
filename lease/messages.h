/* The two messages between holders and grantor, and what a step asks its driver to do.
 *
 * Each message is a fact that stays true however late, lost, doubled or out of order it arrives. So
 * nothing in one is dated by a receipt, and neither side ever waits for a particular answer. How
 * they travel, and the bytes of the content, are the driver's. */
#ifndef RF_LEASE_MESSAGES_H
#define RF_LEASE_MESSAGES_H

#include "lease/view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The largest version that a change can have. The number behind it is no version: a promise of it
 * is a process that stops for good, and promises everything. */
#define LEASE_VERSION_MAX (VIEW_VERSION_MAX - 1)
#define LEASE_PROMISE_ALL VIEW_VERSION_MAX

/* Holder to grantor: "date a lease from this instant of my clock; I trust nothing below `promise`,
 * and never will again". A heartbeat's answer, an acknowledgement and "I am fenced" are all this.
 */
struct lease_status {
    uint64_t boot;
    int64_t asked_ns; /* the holder's CLOCK_BOOTTIME, read before the status leaves */
    uint64_t promise; /* a version, or LEASE_PROMISE_ALL */
    uint64_t term;    /* the highest it has seen, so that a leader hears of a later one */
    bool pull;        /* please answer with a snapshot; a wish, no rule rests on it */
};

enum lease_content {
    LEASE_CONTENT_NONE,
    LEASE_CONTENT_DELTA,   /* what leads from version `base` to `version` */
    LEASE_CONTENT_SNAPSHOT /* everything of `version`, marks in progress included */
};

/* Grantor to holder: "a lease of ttl from that instant, for caches of at least `version`; all up to
 * `floor` is complete". A heartbeat has no content, a broadcast has. */
struct lease_offer {
    uint64_t term;
    uint64_t boot;    /* whom it is for: another life of the same node has no use of it */
    int64_t asked_ns; /* of the status it answers, unchanged */
    int64_t ttl_ns;   /* T; 0: no lease in it */
    uint64_t version; /* the newest, and what the content leads to */
    uint64_t floor;   /* the newest complete version */
    enum lease_content content;
    uint64_t base; /* LEASE_CONTENT_DELTA only */
};

enum lease_alarm {
    LEASE_ALARM_OVERTAKEN,   /* a change was completed past a holder that thought itself alive: its
                              * clock had stood still */
    LEASE_ALARM_STORE_BACK,  /* the grantor's store has fewer versions than it had shown before */
    LEASE_ALARM_EPOCHS_ENDED /* fenced 2^24 times: only a new process can hold a lease again */
};

enum lease_action_type {
    LEASE_PUBLISH_DEADLINE, /* deadline_ns: lease_publish_deadline() */
    LEASE_PUBLISH_VIEW,     /* view: lease_publish_view() */
    LEASE_EMPTY_CACHES,     /* lease_caches_empty(), answered by HOLDER_EMPTIED */
    LEASE_CLOSE_VIEWS,      /* view: answered by HOLDER_CLOSED once nobody decides under an older
                             * one; after a fence, once each lane's fence record is durable too */
    LEASE_APPLY_CONTENT,    /* content, base, version, ticket: publish the schema snapshot that the
                             * offer's content makes, answered by HOLDER_APPLIED. The view that
                             * names it follows; a snapshot published after its view would let a
                             * writer join a new token to old tables */
    LEASE_SEND_STATUS,      /* status */
    LEASE_RAISE_ALARM       /* alarm */
};

struct lease_action {
    enum lease_action_type type;
    union {
        int64_t deadline_ns;
        uint64_t view;
        struct {
            enum lease_content content;
            uint64_t base, version, ticket;
        } apply;
        struct lease_status status;
        enum lease_alarm alarm;
    };
};

/* What one step asks for, to be done in this order, before the next event is fed. */
#define LEASE_ACTIONS_MAX 12
struct lease_actions {
    size_t count;
    struct lease_action items[LEASE_ACTIONS_MAX];
};

#endif
