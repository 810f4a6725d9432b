#include "base/thread.h"

#include "base/alloc.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAME_BYTES  16 /* the kernel's limit, NUL included */
#define STACK_BYTES ((size_t)256 << 10)

struct start {
    void *(*run)(void *);
    void *arg;
    char name[NAME_BYTES];
};

static void *run_named(void *arg)
{
    struct start start = *(struct start *)arg;
    mem_free(arg);
    (void)pthread_setname_np(pthread_self(), start.name); /* only a name: fails without /proc */
    return start.run(start.arg);
}

/* A new thread inherits its creator's mask, so the creator blocks all signals meanwhile: blocking
 * them in the new thread would leave a gap in which a host's handler could run there. */
static int create_masked(pthread_t *thread_out, const pthread_attr_t *attr, struct start *start)
{
    sigset_t all, before;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    int rc = -pthread_create(thread_out, attr, run_named, start);
    CHECK(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    return rc;
}

int thread_start(pthread_t *thread_out, const char *name, void *(*run)(void *), void *arg)
{
    size_t name_bytes = strlen(name);
    CHECK(name_bytes < NAME_BYTES);
    struct start *start = mem_alloc(sizeof *start);
    if (start == NULL) return -ENOMEM;
    start->run = run;
    start->arg = arg;
    memcpy(start->name, name, name_bytes + 1);

    pthread_t thread;
    pthread_attr_t attr;
    int rc = -pthread_attr_init(&attr);
    if (rc != 0) goto free_start;
    rc = -pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (rc != 0) goto destroy_attr;
    rc = create_masked(&thread, &attr, start);
    if (rc != 0) goto destroy_attr;
    pthread_attr_destroy(&attr);
    *thread_out = thread;
    return 0;
destroy_attr:
    pthread_attr_destroy(&attr);
free_start:
    mem_free(start);
    return rc;
}

void thread_join(pthread_t thread)
{
    CHECK(pthread_join(thread, NULL) == 0);
}

int futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct timespec limit = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    long rc = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_ns < 0 ? NULL : &limit,
                      NULL, 0);
    if (rc == 0 || errno == EAGAIN || errno == EINTR) return 0;
    CHECK(errno == ETIMEDOUT);
    return -ETIMEDOUT;
}

static void wake(_Atomic uint32_t *word, int count)
{
    CHECK(syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0) >= 0);
}

void futex_wake_one(_Atomic uint32_t *word)
{
    wake(word, 1);
}

void futex_wake_all(_Atomic uint32_t *word)
{
    wake(word, INT_MAX);
}
