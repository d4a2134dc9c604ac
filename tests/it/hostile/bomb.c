// Starts processes until the system says no or there are as many as asked for, says how many there were and why it
// stopped, then ends them all. They share its memory: what is tried is their number.
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int rest(void *unused) {
    for (;;)
        pause();
    return 0;
}

int main(int argc, char **argv) {
    long most = argc > 1 ? atol(argv[1]) : 0, made = 0;
    pid_t *pids = calloc(most, sizeof *pids);
    const char *why = "out";
    for (; made < most; made++) {
        char *stack = malloc(8192);
        pids[made] = clone(rest, stack + 8192, CLONE_VM | SIGCHLD, 0);
        if (pids[made] < 0) {
            why = strerrorname_np(errno);
            break;
        }
    }
    printf("%ld %s\n", made, why);
    for (long i = 0; i < made; i++)
        kill(pids[i], SIGKILL);
    for (long i = 0; i < made; i++)
        waitpid(pids[i], 0, 0);
    return 0;
}
