// without landlock|namespaces|links|flags PROGRAM ARGUMENTS: becomes a program for which the kernel has no Landlock (its
// three calls do not exist), or that can make no namespaces of its own, as many systems have it for ordinary users, or
// whose file systems have no hard links (links), or neither those nor a rename that replaces nothing (flags).
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 3)
        return 3;
    int namespaces = strcmp(argv[1], "namespaces") == 0, flags = strcmp(argv[1], "flags") == 0;
    int links = flags || strcmp(argv[1], "links") == 0;
    unsigned first = links ? SYS_linkat : namespaces ? SYS_unshare : 444;
    unsigned last = links || namespaces ? first : 446;
    unsigned refusal = links || namespaces ? EPERM : ENOSYS;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        // Renames with flags: the lower half of the fifth argument.
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, flags ? SYS_renameat2 : ~0u, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[4])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 4, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | refusal),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        return 3;
    execv(argv[2], argv + 2);
    return 4;
}
