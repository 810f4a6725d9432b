/* The grantor's side of the metadata lease (a ConfigNode's), and the verdict of a broadcast.
 *
 * Pure steps as the holder's: the time is an argument, always CLOCK_MONOTONIC as read after the
 * event was received, never a time that an event loop keeps. What must be committed before a step
 * is said at the step; committing, and sending, are the driver's.
 *
 * Nothing here asks whether a holder is alive. For each boot the grantor keeps one figure, the
 * latest moment, by its own clock, at which a lease that it may have granted can end; and for each
 * change, that figure as it was when the change got its version: no later offer is of use below it.
 *
 * Thread: the plane's. */
#ifndef RF_LEASE_GRANTOR_H
#define RF_LEASE_GRANTOR_H

#include "base/check.h"
#include "lease/messages.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grantor_config {
    int64_t ttl_ns;         /* T, the length of a lease */
    int64_t linger_ns;      /* S, how long a leader grants after its last committed entry */
    int64_t margin_ns;      /* what clocks may differ by, see grantor_margin_min_ns() */
    uint32_t rho_ppm;       /* how far a clock's rate may be from true, in millionths, below 10^6 */
    int64_t heartbeat_ns;   /* an offer to each boot this often */
    int64_t rebroadcast_ns; /* content again to a boot that has not promised it */
    bool single;            /* the only ConfigNode: its directory's lock stands for leadership */
};

/* T 20 s, S 2 s, margin 5 s, rho 10 %, heartbeat and broadcast each second. */
void grantor_config_init(struct grantor_config *config);

/* The smallest sound margin: 2 rho (T + S) / (1 - rho), rounded up; INT64_MAX when there is none.
 */
int64_t grantor_margin_min_ns(int64_t ttl_ns, int64_t linger_ns, uint32_t rho_ppm);

enum grantor_verdict {
    GRANTOR_PROCEED, /* every boot is safe: commit that the change is complete */
    GRANTOR_WAIT,    /* somebody may still trust what was before */
    GRANTOR_FAIL     /* the ConfigNode's own checks refuse the change; no boot ever does */
};

enum grantor_halt {
    GRANTOR_RUNS,
    GRANTOR_TERM_ABOVE,   /* a holder has obeyed a later leader */
    GRANTOR_PROMISE_ABOVE /* a holder knows more versions than this store: it was set back */
};

/* A life of a DataNode's process, as the store has it. */
struct grantor_registration {
    uint64_t node;
    uint64_t boot;    /* 1 and up, never used twice */
    uint64_t version; /* the newest when it registered: it is never given less */
    bool removed;     /* its node was removed: it is offered nothing, and forgotten later */
};

/* What the store has, for a leader that begins. */
struct grantor_store {
    uint64_t version;       /* the newest */
    uint64_t floor;         /* the newest complete one */
    int64_t ttl_longest_ns; /* the longest T that was ever handed out */
    const struct grantor_registration *boots;
    size_t boot_count;
};

struct grantor_boot {
    struct grantor_registration registered;
    uint64_t promise;
    int64_t asked_ns;         /* the newest instant it has sent, by its clock; -1: none */
    int64_t read_ns;          /* by this clock, when that status had been read */
    int64_t granted_until_ns; /* 0: never granted anything */
    int64_t heartbeat_due_ns;
    int64_t broadcast_due_ns;
    bool pull;
    bool leaving; /* removed, or a newer boot of its node has registered, or it stopped for good */
};

struct grantor_figure {
    uint64_t boot;
    int64_t until_ns;
};
struct grantor_change {
    uint64_t version; /* the figures hold for it, and for what lies between it and the one before */
    struct grantor_figure *figures; /* of the boots that were registered before it */
    size_t figure_count;
};

struct grantor {
    struct grantor_config config;
    bool leads;
    enum grantor_halt halt;
    uint64_t halt_boot; /* whose status it was, and the number in it */
    uint64_t halt_number;
    uint64_t term;
    int64_t confirmed_ns; /* proposal of the newest committed entry of this term; -1: none */
    int64_t now_ns;       /* the latest time that any step was given */
    uint64_t version;
    uint64_t floor;
    int64_t ttl_longest_ns;
    struct grantor_boot *boots;
    size_t boot_count, boot_capacity;
    struct grantor_change *changes; /* not complete, in order of version */
    size_t change_count, change_capacity;
};

/* Returns 0; -EINVAL: T, S, a period or rho out of range, or a margin below
 * grantor_margin_min_ns(). Owns memory until grantor_deinit(), which takes a zeroed one too. */
RF_NODISCARD int grantor_init(struct grantor *g, const struct grantor_config *config);
void grantor_deinit(struct grantor *g);

/* Begins to lead in `term`: a new leader, or a ConfigNode that starts. Every registered boot counts
 * as granted until now + S + the longest T, since nobody here knows what was granted before.
 * Returns 0; -EINVAL: a term not above the last one, or a store that does not fit together, whose
 * longest T is below the configured one (store that first), or asks for a larger margin; -ENOMEM.
 * On an error it does not lead. */
RF_NODISCARD int grantor_lead(struct grantor *g, uint64_t term, const struct grantor_store *store,
                              int64_t now_ns);
void grantor_resign(struct grantor *g);

/* An entry of `term`, proposed by this node at proposed_ns by this clock, has been committed. */
void grantor_confirm(struct grantor *g, uint64_t term, int64_t proposed_ns);

/* Rule 6: leads, was not halted, and (unless it is the single one) an entry of its own term that it
 * proposed less than S ago has been committed. */
bool grantor_may_grant(const struct grantor *g, int64_t now_ns);

/* A registration was committed. Returns 0; -EINVAL: its boot number is not new, or its version is
 * not the newest; -EAGAIN: it does not lead; -ENOMEM (call again: it is offered nothing before). */
RF_NODISCARD int grantor_register(struct grantor *g, const struct grantor_registration *registered);

/* A status was read at now_ns, by the clock as it stood after that.
 * Returns 0; -EAGAIN: it does not lead; -ENOENT: no such boot is registered; -EINVAL: a number out
 * of range; -ESTALE: it tells of a later term or of more versions than there are: it halts. */
RF_NODISCARD int grantor_read_status(struct grantor *g, const struct lease_status *status,
                                     int64_t now_ns);

/* An offer for `boot`, to be sent as it is. Its bound is noted here, before it can leave (rule 2).
 * content must lead to the newest version; base is of a delta.
 * Returns 0; -EAGAIN: it may not grant now; -ENOENT: not registered, or removed. */
RF_NODISCARD int grantor_offer(struct grantor *g, uint64_t boot, enum lease_content content,
                               uint64_t base, int64_t now_ns, struct lease_offer *offer_out);

/* The next offer that is due: an answer to a pull, a broadcast, a heartbeat. The driver calls it
 * until it returns false, and again at grantor_next_ns() and after each event. */
bool grantor_next_offer(struct grantor *g, int64_t now_ns, struct lease_offer *offer_out);
int64_t grantor_next_ns(const struct grantor *g);

/* A change was committed as `version`; nobody has been told. Keeps the figure of each boot.
 * Returns 0; -EINVAL: not the number after the newest; -EOVERFLOW: above LEASE_VERSION_MAX;
 * -EAGAIN: it does not lead; -ENOMEM: call again, with nothing told meanwhile. */
RF_NODISCARD int grantor_change_begin(struct grantor *g, uint64_t version);

/* The verdict of the broadcast of `version`. refused: the ConfigNode's own checks say no. */
enum grantor_verdict grantor_verdict(const struct grantor *g, uint64_t version, bool refused,
                                     int64_t now_ns);
/* The boots that are not safe, at most capacity of them; returns how many there are. */
size_t grantor_unsafe(const struct grantor *g, uint64_t version, int64_t now_ns,
                      uint64_t *boots_out, size_t capacity);
/* How long a verdict can take from the change's version on: T + S + margin + a round. */
int64_t grantor_budget_ns(const struct grantor *g);

/* That `version` is complete was committed, on a verdict of PROCEED: so is all before it. Returns
 * 0; -EAGAIN: somebody is not safe, or it does not lead; -EINVAL: above the newest. */
RF_NODISCARD int grantor_complete(struct grantor *g, uint64_t version, int64_t now_ns);

/* Another T. One above the longest ever handed out has to be stored before it is first used:
 * returns 1 then, and grantor_ttl_stored() puts it into use. 0: in use. -EINVAL: out of range, or
 * it asks for a larger margin. */
RF_NODISCARD int grantor_set_ttl(struct grantor *g, int64_t ttl_ns);
RF_NODISCARD int grantor_ttl_stored(struct grantor *g, int64_t ttl_ns);

/* That a node is removed was committed: its boots are offered nothing any more, and waited for as
 * long as a lease of theirs may live. */
void grantor_remove_node(struct grantor *g, uint64_t node);

/* Takes out one boot that is leaving (removed, stopped, or followed by a newer boot of its node)
 * and whose leases are over, and names it, so that the store forgets it too. False: none. */
bool grantor_forget(struct grantor *g, int64_t now_ns, uint64_t *boot_out);

const struct grantor_boot *grantor_find(const struct grantor *g, uint64_t boot);

#endif
