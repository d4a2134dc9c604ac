// Ways out that no common program tries, one a word: prints "out" where it got through, else the error's name.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

static void told(const char *what, long result) {
    if (result >= 0)
        printf("%s out\n", what);
    else
        printf("%s %s\n", what, strerrorname_np(errno));
}

static long dial(const char *name, int abstract) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    size_t length = strlen(name);
    memcpy(to.sun_path + abstract, name, length);
    return connect(fd, (struct sockaddr *)&to, offsetof(struct sockaddr_un, sun_path) + abstract + length);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    const char *with = argc > 2 ? argv[2] : "0";
    char room[256] = {0};
    if (!strcmp(what, "vsock"))
        told(what, socket(AF_VSOCK, SOCK_STREAM, 0));
    else if (!strcmp(what, "icmp"))
        told(what, socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
    else if (!strcmp(what, "packet"))
        told(what, socket(AF_PACKET, SOCK_RAW, 0));
    else if (!strcmp(what, "io_uring"))
        told(what, syscall(SYS_io_uring_setup, 1, room));
    else if (!strcmp(what, "abstract"))
        told(what, dial(with, 1));
    else if (!strcmp(what, "path"))
        told(what, dial(with, 0));
    else if (!strcmp(what, "ptrace"))
        told(what, ptrace(PTRACE_ATTACH, atoi(with), 0, 0));
    else if (!strcmp(what, "kill"))
        told(what, kill(atoi(with), SIGKILL));
    else if (!strcmp(what, "everybody"))
        // A signal that nobody minds, should it get through.
        told(what, kill(-1, SIGWINCH));
    else if (!strcmp(what, "share"))
        // Told by its number, for "memory" and "forget".
        printf("%d\n", shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600));
    else if (!strcmp(what, "memory"))
        told(what, (long)shmat(atoi(with), 0, 0) == -1 ? -1 : 0);
    else if (!strcmp(what, "forget"))
        told(what, shmctl(atoi(with), IPC_RMID, 0));
    else if (!strcmp(what, "type"))
        told(what, ioctl(0, TIOCSTI, "x"));
    else if (!strcmp(what, "mount"))
        told(what, mount("none", with, "tmpfs", 0, 0));
    else if (!strcmp(what, "userns"))
        told(what, unshare(CLONE_NEWUSER));
    else if (!strcmp(what, "clone"))
        told(what, syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
    else if (!strcmp(what, "bpf"))
        told(what, syscall(SYS_bpf, 0, room, sizeof room));
    else if (!strcmp(what, "userfaultfd"))
        told(what, syscall(SYS_userfaultfd, 0));
    else if (!strcmp(what, "keyctl"))
        told(what, syscall(SYS_keyctl, 0, -3, 1));
    else
        return 2;
    return 0;
}
