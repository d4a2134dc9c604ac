// Becomes a program for which the kernel's Landlock is as old as the first argument says: whoever asks for its version
// is answered by the process around it.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION)
enum { CREATE_RULESET = 444, VERSION = 1 };

static pid_t child;

static void pass_on(int signal) {
    kill(child, signal);
}

int main(int argc, char **argv) {
    int found[2];
    if (argc < 3 || pipe(found)) return 3;
    // Shares its descriptors with this process until it executes the program.
    child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (child < 0) return 3;
    if (child == 0) {
        struct sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CREATE_RULESET, 0, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, VERSION, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {sizeof code / sizeof *code, code};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) _exit(3);
        int listener =
            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
        if (write(found[1], &listener, sizeof listener) != sizeof listener || listener < 0) _exit(3);
        execv(argv[2], argv + 2);
        _exit(4);
    }
    signal(SIGTERM, pass_on);
    int listener = -1;
    if (read(found[0], &listener, sizeof listener) != sizeof listener || listener < 0) return 3;
    for (;;) {
        struct pollfd ready = {listener, POLLIN, 0};
        poll(&ready, 1, 50);
        if (ready.revents & POLLIN) {
            struct seccomp_notif asked;
            memset(&asked, 0, sizeof asked);
            if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) == 0) {
                struct seccomp_notif_resp told = {.id = asked.id, .val = atoi(argv[1])};
                ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &told);
            }
        }
        int status;
        if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
    }
}
