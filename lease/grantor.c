/* The grantor's steps; the rules are numbered as in docs/lease.md. */
#include "lease/grantor.h"

#include "base/alloc.h"

#include <errno.h>
#include <string.h>

#define SECOND_NS   ((int64_t)1000000000)
#define MILLION     1000000u
#define PERIOD_MAX  (INT64_MAX / 16) /* so that no sum of a time and a few periods overflows */
#define NEVER_ASKED ((int64_t)-1)

static int64_t later_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static uint64_t higher_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Time never runs back here, whatever a driver says: a figure that is too early would be unsound.
 */
static int64_t note_now(struct grantor *g, int64_t now_ns)
{
    CHECK(now_ns >= 0 && now_ns < INT64_MAX / 2);
    g->now_ns = later_of(g->now_ns, now_ns);
    return g->now_ns;
}

void grantor_config_init(struct grantor_config *config)
{
    *config = (struct grantor_config){
        .ttl_ns = 20 * SECOND_NS,
        .linger_ns = 2 * SECOND_NS,
        .margin_ns = 5 * SECOND_NS,
        .rho_ppm = 100000,
        .heartbeat_ns = SECOND_NS,
        .rebroadcast_ns = SECOND_NS,
    };
}

int64_t grantor_margin_min_ns(int64_t ttl_ns, int64_t linger_ns, uint32_t rho_ppm)
{
    if (rho_ppm >= MILLION || ttl_ns < 0 || linger_ns < 0) return INT64_MAX;
    __int128 numerator = (__int128)2 * rho_ppm * ((__int128)ttl_ns + linger_ns);
    __int128 denominator = MILLION - rho_ppm;
    __int128 margin = (numerator + denominator - 1) / denominator;
    return margin > INT64_MAX ? INT64_MAX : (int64_t)margin;
}

static bool ttl_fits(const struct grantor_config *c, int64_t ttl_ns)
{
    if (ttl_ns <= 0 || ttl_ns > PERIOD_MAX) return false;
    return c->margin_ns >= grantor_margin_min_ns(ttl_ns, c->linger_ns, c->rho_ppm);
}

int grantor_init(struct grantor *g, const struct grantor_config *config)
{
    const struct grantor_config *c = config;
    if (c->linger_ns <= 0 || c->linger_ns > PERIOD_MAX) return -EINVAL;
    if (c->heartbeat_ns <= 0 || c->heartbeat_ns > PERIOD_MAX) return -EINVAL;
    if (c->rebroadcast_ns <= 0 || c->rebroadcast_ns > PERIOD_MAX) return -EINVAL;
    if (c->rho_ppm >= MILLION || c->margin_ns <= 0 || c->margin_ns > PERIOD_MAX) return -EINVAL;
    if (!ttl_fits(c, c->ttl_ns)) return -EINVAL;
    *g = (struct grantor){.config = *c, .confirmed_ns = NEVER_ASKED};
    return 0;
}

static void drop_changes(struct grantor *g, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mem_free(g->changes[i].figures);
    g->change_count -= count;
    for (size_t i = 0; i < g->change_count; i++)
        g->changes[i] = g->changes[i + count];
}

void grantor_deinit(struct grantor *g)
{
    drop_changes(g, g->change_count);
    mem_free(g->changes);
    mem_free(g->boots);
    *g = (struct grantor){0};
}

static struct grantor_boot *find(struct grantor *g, uint64_t boot)
{
    for (size_t i = 0; i < g->boot_count; i++)
        if (g->boots[i].registered.boot == boot) return &g->boots[i];
    return NULL;
}

const struct grantor_boot *grantor_find(const struct grantor *g, uint64_t boot)
{
    for (size_t i = 0; i < g->boot_count; i++)
        if (g->boots[i].registered.boot == boot) return &g->boots[i];
    return NULL;
}

static bool grow(void **items, size_t *capacity, size_t wanted, size_t item_bytes)
{
    if (wanted <= *capacity) return true;
    size_t more = *capacity == 0 ? 8 : *capacity * 2; /* one more is wanted than there are */
    void *p = mem_realloc(*items, more * item_bytes);
    if (p == NULL) return false;
    *items = p;
    *capacity = more;
    return true;
}

/* A boot that registered at some version is never given less, and says so itself by what it has
 * been shown: that version is its first promise. */
static int add_boot(struct grantor *g, const struct grantor_registration *r, int64_t until_ns)
{
    void *boots = g->boots;
    if (!grow(&boots, &g->boot_capacity, g->boot_count + 1, sizeof(*g->boots))) return -ENOMEM;
    g->boots = boots;
    for (size_t i = 0; i < g->boot_count; i++)
        if (g->boots[i].registered.node == r->node) g->boots[i].leaving = true;
    g->boots[g->boot_count++] = (struct grantor_boot){
        .registered = *r,
        .promise = r->version,
        .asked_ns = NEVER_ASKED,
        .granted_until_ns = until_ns,
        .leaving = r->removed,
    };
    return 0;
}

/* The figures as they are now, for a change of which nobody has been told. */
static int add_change(struct grantor *g, uint64_t version)
{
    void *changes = g->changes;
    if (!grow(&changes, &g->change_capacity, g->change_count + 1, sizeof(*g->changes)))
        return -ENOMEM;
    g->changes = changes;
    struct grantor_figure *figures = mem_zalloc_array(g->boot_count + 1, sizeof(*figures));
    if (figures == NULL) return -ENOMEM;
    for (size_t i = 0; i < g->boot_count; i++) {
        figures[i].boot = g->boots[i].registered.boot;
        figures[i].until_ns = g->boots[i].granted_until_ns;
    }
    g->changes[g->change_count++] = (struct grantor_change){
        .version = version,
        .figures = figures,
        .figure_count = g->boot_count,
    };
    return 0;
}

static bool store_fits(const struct grantor *g, const struct grantor_store *s)
{
    if (s->version > LEASE_VERSION_MAX || s->floor > s->version) return false;
    if (s->ttl_longest_ns < g->config.ttl_ns) return false;
    if (!ttl_fits(&g->config, s->ttl_longest_ns)) return false;
    for (size_t i = 0; i < s->boot_count; i++) {
        const struct grantor_registration *r = &s->boots[i];
        if (r->boot == 0 || r->version > s->version) return false;
        if (i > 0 && r->boot <= s->boots[i - 1].boot) return false;
    }
    return true;
}

/* Rule 6. What an earlier leader granted is not known here, so the figures are what it can have
 * been at the most. The open changes share them, and so one entry, that of the newest. */
int grantor_lead(struct grantor *g, uint64_t term, const struct grantor_store *s, int64_t now_ns)
{
    if (term <= g->term || !store_fits(g, s)) return -EINVAL;
    int64_t now = note_now(g, now_ns);
    g->leads = false;
    g->halt = GRANTOR_RUNS;
    g->boot_count = 0;
    drop_changes(g, g->change_count);
    g->term = term;
    g->version = s->version;
    g->floor = s->floor;
    g->ttl_longest_ns = s->ttl_longest_ns;
    g->confirmed_ns = NEVER_ASKED;
    int64_t until_ns = now + g->config.linger_ns + g->ttl_longest_ns;
    for (size_t i = 0; i < s->boot_count; i++)
        if (add_boot(g, &s->boots[i], until_ns) != 0) return -ENOMEM;
    if (s->floor < s->version && add_change(g, s->version) != 0) return -ENOMEM;
    g->leads = true;
    return 0;
}

void grantor_resign(struct grantor *g)
{
    g->leads = false;
}

void grantor_confirm(struct grantor *g, uint64_t term, int64_t proposed_ns)
{
    if (g->leads && term == g->term) g->confirmed_ns = later_of(g->confirmed_ns, proposed_ns);
}

bool grantor_may_grant(const struct grantor *g, int64_t now_ns)
{
    if (!g->leads || g->halt != GRANTOR_RUNS) return false;
    if (g->config.single) return true;
    int64_t now = later_of(g->now_ns, now_ns);
    return g->confirmed_ns != NEVER_ASKED && now - g->confirmed_ns < g->config.linger_ns;
}

int grantor_register(struct grantor *g, const struct grantor_registration *r)
{
    if (!g->leads) return -EAGAIN;
    if (r->boot == 0 || r->version != g->version) return -EINVAL;
    if (g->boot_count > 0 && r->boot <= g->boots[g->boot_count - 1].registered.boot) return -EINVAL;
    return add_boot(g, r, 0);
}

static int halt(struct grantor *g, enum grantor_halt why, uint64_t boot, uint64_t number)
{
    g->halt = why;
    g->halt_boot = boot;
    g->halt_number = number;
    return -ESTALE;
}

int grantor_read_status(struct grantor *g, const struct lease_status *st, int64_t now_ns)
{
    int64_t now = note_now(g, now_ns);
    if (!g->leads) return -EAGAIN;
    if (st->promise > LEASE_PROMISE_ALL || st->asked_ns < 0) return -EINVAL;
    if (st->term > g->term) return halt(g, GRANTOR_TERM_ABOVE, st->boot, st->term);
    if (st->promise > g->version && st->promise != LEASE_PROMISE_ALL)
        return halt(g, GRANTOR_PROMISE_ABOVE, st->boot, st->promise);
    struct grantor_boot *b = find(g, st->boot);
    if (b == NULL) return -ENOENT;
    b->promise = higher_of(b->promise, st->promise);
    if (b->promise == LEASE_PROMISE_ALL) b->leaving = true;
    /* A status that comes twice keeps the moment of its first reading: it was asked before that. */
    if (st->asked_ns > b->asked_ns) {
        b->asked_ns = st->asked_ns;
        b->read_ns = now;
    }
    b->pull |= st->pull;
    return 0;
}

int grantor_offer(struct grantor *g, uint64_t boot, enum lease_content content, uint64_t base,
                  int64_t now_ns, struct lease_offer *offer_out)
{
    int64_t now = note_now(g, now_ns);
    if (!grantor_may_grant(g, now)) return -EAGAIN;
    struct grantor_boot *b = find(g, boot);
    if (b == NULL || b->registered.removed) return -ENOENT;
    struct lease_offer o = {
        .term = g->term,
        .boot = boot,
        .version = g->version,
        .floor = g->floor,
        .content = content,
        .base = content == LEASE_CONTENT_DELTA ? base : 0,
    };
    /* Rule 2. The instant was on the holder's clock before read_ns was on this one, so a lease from
     * it is over at read_ns + T, but for the clocks' rates: those are the margin. */
    if (b->asked_ns != NEVER_ASKED && now - b->read_ns < g->config.ttl_ns) {
        o.asked_ns = b->asked_ns;
        o.ttl_ns = g->config.ttl_ns;
        b->granted_until_ns = later_of(b->granted_until_ns, b->read_ns + o.ttl_ns);
    }
    b->heartbeat_due_ns = now + g->config.heartbeat_ns;
    if (content != LEASE_CONTENT_NONE) {
        b->pull = false;
        b->broadcast_due_ns = now + g->config.rebroadcast_ns;
    }
    *offer_out = o;
    return 0;
}

static bool lags(const struct grantor *g, const struct grantor_boot *b)
{
    return b->promise < g->version;
}

bool grantor_next_offer(struct grantor *g, int64_t now_ns, struct lease_offer *offer_out)
{
    int64_t now = note_now(g, now_ns);
    if (!grantor_may_grant(g, now)) return false;
    for (size_t i = 0; i < g->boot_count; i++) {
        const struct grantor_boot *b = &g->boots[i];
        enum lease_content content = LEASE_CONTENT_NONE;
        if (b->registered.removed) continue;
        if (b->pull)
            content = LEASE_CONTENT_SNAPSHOT;
        else if (lags(g, b) && now >= b->broadcast_due_ns)
            content = LEASE_CONTENT_DELTA;
        else if (now < b->heartbeat_due_ns)
            continue;
        return grantor_offer(g, b->registered.boot, content, b->promise, now, offer_out) == 0;
    }
    return false;
}

int64_t grantor_next_ns(const struct grantor *g)
{
    int64_t next_ns = g->now_ns + g->config.heartbeat_ns;
    for (size_t i = 0; i < g->boot_count; i++) {
        const struct grantor_boot *b = &g->boots[i];
        if (b->registered.removed) continue;
        int64_t due_ns = b->heartbeat_due_ns;
        if (lags(g, b) && b->broadcast_due_ns < due_ns) due_ns = b->broadcast_due_ns;
        if (due_ns < next_ns) next_ns = due_ns;
    }
    return next_ns;
}

int grantor_change_begin(struct grantor *g, uint64_t version)
{
    if (!g->leads) return -EAGAIN;
    if (version > LEASE_VERSION_MAX) return -EOVERFLOW;
    if (version != g->version + 1) return -EINVAL;
    int rc = add_change(g, version);
    if (rc != 0) return rc;
    g->version = version;
    for (size_t i = 0; i < g->boot_count; i++)
        g->boots[i].broadcast_due_ns = 0; /* this version has been told to nobody */
    return 0;
}

/* Rule 7, for one boot and one change. A boot that is no longer listed was forgotten after the end
 * of all its leases. */
static bool is_safe(const struct grantor *g, const struct grantor_figure *f, uint64_t version,
                    int64_t now)
{
    const struct grantor_boot *b = grantor_find(g, f->boot);
    if (b == NULL || b->promise >= version || f->until_ns == 0) return true;
    return now - f->until_ns > g->config.margin_ns;
}

/* Of a version above the floor: there is an entry for each, and the newest is the last one. */
static const struct grantor_change *find_change(const struct grantor *g, uint64_t version)
{
    size_t i = 0;
    while (i < g->change_count && g->changes[i].version < version)
        i++;
    CHECK(i < g->change_count);
    return &g->changes[i];
}

size_t grantor_unsafe(const struct grantor *g, uint64_t version, int64_t now_ns,
                      uint64_t *boots_out, size_t capacity)
{
    size_t count = 0;
    if (version <= g->floor) return 0;
    const struct grantor_change *c = find_change(g, version);
    for (size_t i = 0; i < c->figure_count; i++) {
        if (is_safe(g, &c->figures[i], version, now_ns)) continue;
        if (count < capacity) boots_out[count] = c->figures[i].boot;
        count++;
    }
    return count;
}

enum grantor_verdict grantor_verdict(const struct grantor *g, uint64_t version, bool refused,
                                     int64_t now_ns)
{
    if (refused) return GRANTOR_FAIL;
    if (!g->leads || g->halt != GRANTOR_RUNS || version > g->version) return GRANTOR_WAIT;
    return grantor_unsafe(g, version, now_ns, NULL, 0) == 0 ? GRANTOR_PROCEED : GRANTOR_WAIT;
}

int64_t grantor_budget_ns(const struct grantor *g)
{
    const struct grantor_config *c = &g->config;
    return later_of(c->ttl_ns, g->ttl_longest_ns) + c->linger_ns + c->margin_ns + c->rebroadcast_ns;
}

int grantor_complete(struct grantor *g, uint64_t version, int64_t now_ns)
{
    if (version > g->version) return -EINVAL;
    if (grantor_verdict(g, version, false, now_ns) != GRANTOR_PROCEED) return -EAGAIN;
    g->floor = higher_of(g->floor, version);
    size_t done = 0;
    while (done < g->change_count && g->changes[done].version <= version)
        done++;
    drop_changes(g, done);
    return 0;
}

int grantor_set_ttl(struct grantor *g, int64_t ttl_ns)
{
    if (!ttl_fits(&g->config, ttl_ns)) return -EINVAL;
    if (ttl_ns > g->ttl_longest_ns) return 1;
    g->config.ttl_ns = ttl_ns;
    return 0;
}

int grantor_ttl_stored(struct grantor *g, int64_t ttl_ns)
{
    if (!ttl_fits(&g->config, ttl_ns)) return -EINVAL;
    g->ttl_longest_ns = later_of(g->ttl_longest_ns, ttl_ns);
    g->config.ttl_ns = ttl_ns;
    return 0;
}

void grantor_remove_node(struct grantor *g, uint64_t node)
{
    for (size_t i = 0; i < g->boot_count; i++) {
        if (g->boots[i].registered.node != node) continue;
        g->boots[i].leaving = true;
        g->boots[i].registered.removed = true;
    }
}

bool grantor_forget(struct grantor *g, int64_t now_ns, uint64_t *boot_out)
{
    int64_t now = note_now(g, now_ns);
    if (!g->leads) return false;
    for (size_t i = 0; i < g->boot_count; i++) {
        const struct grantor_boot *b = &g->boots[i];
        bool over = b->granted_until_ns == 0 || b->promise == LEASE_PROMISE_ALL ||
                    now - b->granted_until_ns > g->config.margin_ns;
        if (!b->leaving || !over) continue;
        *boot_out = b->registered.boot;
        g->boot_count--;
        for (size_t k = i; k < g->boot_count; k++)
            g->boots[k] = g->boots[k + 1];
        return true;
    }
    return false;
}
