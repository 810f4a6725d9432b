#include "tests/lib/child.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

int child_run(int (*body)(void *ctx), void *ctx)
{
    fflush(NULL); /* else both processes print what is buffered */
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(body(ctx));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1 - WTERMSIG(status);
}

static int install(struct sock_filter *filter, unsigned short count)
{
    struct sock_fprog program = {.len = count, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -errno;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 ? 0 : -errno;
}

static uint32_t verdict(int error)
{
    return error == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | (uint32_t)error;
}

int child_refuse_calls(long first, long last, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)first, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)last, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, verdict(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return install(filter, sizeof filter / sizeof filter[0]);
}

int child_refuse_open_flags(uint32_t bits, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, verdict(error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return install(filter, sizeof filter / sizeof filter[0]);
}
