#include "api/handle.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

struct handle_seams handle_seams;

/* ---- fork ---- */

static _Atomic uint32_t fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
    atomic_fetch_add(&fork_generation, 1);
}
static void register_fork(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

uint32_t handle_fork_generation(void)
{
    (void)pthread_once(&fork_once, register_fork);
    return atomic_load(&fork_generation);
}

int handle_check(const struct rf_engine *h)
{
    CHECK(h != NULL && h->magic == HANDLE_MAGIC);
    if (atomic_load_explicit(&fork_generation, memory_order_relaxed) != h->fork_generation)
        return -RFE_FORKED;
    return 0;
}

int handle_error(struct rf_error *error, int code, const struct err_msg *msg)
{
    if (error == NULL) return code;
    *error = (struct rf_error){.code = code, .tablet = RF_NONE, .column = RF_NONE, .row = RF_NONE};
    const char *text = msg != NULL && msg->code != 0 ? msg->text : err_text(code);
    size_t n = strlen(text);
    if (n >= sizeof error->text) n = sizeof error->text - 1;
    memcpy(error->text, text, n);
    return code;
}
