#include "cli/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static atomic_bool requested;
static int fd = -1;

static void on_signal(int signal_number)
{
    (void)signal_number;
    int saved = errno;
    static const uint64_t one = 1;
    /* Relaxed is enough: the flag carries nothing else with it. */
    atomic_store_explicit(&requested, true, memory_order_relaxed);
    if (write(fd, &one, sizeof one) < 0) { /* full only when it is readable already */
    }
    errno = saved;
}

void stop_install(void)
{
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* One shot: the second signal finds the default, which ends the process. */
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool stop_requested(void)
{
    return atomic_load_explicit(&requested, memory_order_relaxed);
}

int stop_fd(void)
{
    return fd;
}
