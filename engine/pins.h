/* Pins: what scans hold so that no segment they look at is recycled.
 *
 * A pin belongs to the engine, not to a thread. While a call runs on its scan it is busy; between
 * calls it is idle, and an idle pin that stands in the way for longer than a limit is revoked: its
 * scan takes a new snapshot when it goes on. So a forgotten cursor stops nobody.
 *
 * Order (H1): a reader makes its pin hold everything, then loads the heads, then narrows the pin
 * to them. Who frees moves the head, then looks at the pins. Both are sequentially consistent, so
 * one of the two sees the other.
 *
 * Thread: any; one pin one thread at a time, but for pins_hold. */
#ifndef RF_ENGINE_PINS_H
#define RF_ENGINE_PINS_H

#include "base/check.h"
#include "wal/segment.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PINS_MAX 1024u

enum pin_state { PIN_FREE, PIN_BUSY, PIN_IDLE, PIN_REVOKED };

struct pin {
    _Alignas(RF_CACHE_LINE) _Atomic uint32_t state;
    _Atomic int64_t idle_since_ns;
    _Atomic uint64_t from[WAL_LANES_MAX]; /* oldest segment held, by lane; 0: all */
};

struct pins {
    struct pin pin[PINS_MAX];
};

/* A busy pin that holds everything, or NULL when PINS_MAX are taken. */
RF_NODISCARD struct pin *pins_acquire(struct pins *pins);
void pins_release(struct pin *pin);
/* Narrows a busy pin to the segments from `number` on. */
void pin_narrow(struct pin *pin, uint32_t lane, uint64_t number);
/* Holds everything again, before new heads are loaded. */
void pin_widen(struct pin *pin, uint32_t lanes);
/* Between calls. pin_busy: false when it has been revoked meanwhile (it is busy then all the same,
 * and must be widened before anything is looked at). */
void pin_idle(struct pin *pin, int64_t now_ns);
RF_NODISCARD bool pin_busy(struct pin *pin);

/* Whether some pin holds this segment of the lane. Idle ones that have been so for limit_ns are
 * revoked instead. */
bool pins_hold(struct pins *pins, uint32_t lane, uint64_t number, int64_t now_ns, int64_t limit_ns);

#endif
