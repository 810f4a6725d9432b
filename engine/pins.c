#include "engine/pins.h"

struct pin *pins_acquire(struct pins *pins)
{
    for (uint32_t i = 0; i < PINS_MAX; i++) {
        struct pin *p = &pins->pin[i];
        uint32_t expected = PIN_FREE;
        if (atomic_load_explicit(&p->state, memory_order_relaxed) != PIN_FREE) continue;
        /* Sequentially consistent (H1): the pin stands before any head is loaded. from[] is 0. */
        if (atomic_compare_exchange_strong(&p->state, &expected, PIN_BUSY)) return p;
    }
    return NULL;
}

void pin_narrow(struct pin *pin, uint32_t lane, uint64_t number)
{
    atomic_store(&pin->from[lane], number);
}

void pin_widen(struct pin *pin, uint32_t lanes)
{
    for (uint32_t i = 0; i < lanes; i++)
        atomic_store(&pin->from[i], 0); /* H1 */
}

void pins_release(struct pin *pin)
{
    pin_widen(pin, WAL_LANES_MAX); /* so that the next holder begins with everything */
    atomic_store(&pin->state, PIN_FREE);
}

void pin_idle(struct pin *pin, int64_t now_ns)
{
    atomic_store(&pin->idle_since_ns, now_ns);
    atomic_store(&pin->state, PIN_IDLE);
}

bool pin_busy(struct pin *pin)
{
    return atomic_exchange(&pin->state, PIN_BUSY) == PIN_IDLE;
}

bool pins_hold(struct pins *pins, uint32_t lane, uint64_t number, int64_t now_ns, int64_t limit_ns)
{
    for (uint32_t i = 0; i < PINS_MAX; i++) {
        struct pin *p = &pins->pin[i];
        uint32_t state = atomic_load(&p->state); /* H1 */
        if (state == PIN_FREE || state == PIN_REVOKED) continue;
        if (atomic_load(&p->from[lane]) > number) continue;
        if (state == PIN_IDLE && now_ns - atomic_load(&p->idle_since_ns) >= limit_ns &&
            atomic_compare_exchange_strong(&p->state, &state, PIN_REVOKED))
            continue;
        return true;
    }
    return false;
}
