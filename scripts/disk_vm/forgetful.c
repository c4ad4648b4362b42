/* Starts a program whose syncs do nothing: the kernel answers fsync, fdatasync, msync and sync_file_range with success,
 * and does not carry them out. A filter of system calls reaches those as well that do not go through the C library.
 *
 *   forgetful EVERY PROGRAM ARGUMENTS...      forgets every sync (1), or one of so many */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
/* Jumps over `ahead` statements if the loaded word is `word`. */
#define SKIP_IF(word, ahead) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, word, ahead, 0)

/* Installs the filter, and returns a file that hears of the calls if one is asked for. */
static long filter(unsigned answer, unsigned flags) {
    struct sock_filter statements[] = {
        LOAD(arch),
        SKIP_IF(AUDIT_ARCH_X86_64, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        LOAD(nr),
        SKIP_IF(SYS_fsync, 4),
        SKIP_IF(SYS_fdatasync, 3),
        SKIP_IF(SYS_msync, 2),
        SKIP_IF(SYS_sync_file_range, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, answer),
    };
    struct sock_fprog program = {sizeof(statements) / sizeof(*statements), statements};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static int failed(const char *what) {
    perror(what);
    return 1;
}

/* Answers the calls: lets the kernel carry them out, but for one of so many. */
static int answer(int calls, unsigned long every) {
    for (unsigned long number = 1;;) {
        struct seccomp_notif call;
        memset(&call, 0, sizeof(call));
        if (ioctl(calls, SECCOMP_IOCTL_NOTIF_RECV, &call)) {
            if (errno == EINTR || errno == ENOENT) continue;
            return failed("SECCOMP_IOCTL_NOTIF_RECV");
        }
        struct seccomp_notif_resp response = {.id = call.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        if (number++ % every == 0) response.flags = 0;
        /* It fails if the process was killed meanwhile. */
        ioctl(calls, SECCOMP_IOCTL_NOTIF_SEND, &response);
    }
}

int main(int count, char **arguments) {
    unsigned long every = count < 3 ? 0 : strtoul(arguments[1], NULL, 10);
    if (every == 0) return 2;
    if (every == 1) {
        if (filter(SECCOMP_RET_ERRNO, 0) < 0) return failed("seccomp");
    } else {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC)) return failed("pipe2");
        /* The child that answers shares the table of files until the program starts, and is not filtered itself. */
        long child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, 0);
        if (child < 0) return failed("clone");
        int calls;
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (read(ends[0], &calls, sizeof(calls)) != sizeof(calls)) return 1;
            return answer(calls, every);
        }
        calls = filter(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
        if (calls < 0) return failed("seccomp");
        if (write(ends[1], &calls, sizeof(calls)) != sizeof(calls)) return failed("write");
    }
    execvp(arguments[2], arguments + 2);
    return failed(arguments[2]);
}
