/* A disk that can lose its power, for one folder of one program. Loaded before the C library (LD_PRELOAD).
 *
 * A file's bytes are durable once the file was synced, a name once its folder was: each sync writes what became durable
 * below CUT_DISK. Files are known by inode and birth time, so that a name that was never synced shows nothing of an
 * earlier file, and a synced file without a durable name is not there.
 *   CUT_DISK/files/<key>   the bytes at the last sync of the file
 *   CUT_DISK/names/<path>  with % for /: one line a name, "<key> <f|d> <name>"
 * CUT_ROOT is the folder. At the CUT_AT-th sync below it the program is killed, before that sync counts, or after it
 * where CUT_AFTER is set. The syncs number CUT_REFUSE_FROM to CUT_REFUSE_TO of files with CUT_REFUSE in their path fail
 * as a broken disk makes them fail: EIO, and nothing becomes durable. CUT_PROGRAM names the only program that is
 * meant. Not here: what a power cut leaves of what was never synced; the test decides that. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int meant = -1;
static long syncs, refusable;

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? atol(text) : 0;
}

static int is_meant(void) {
    if (meant < 0) {
        char exe[PATH_MAX] = "";
        const char *program = getenv("CUT_PROGRAM");
        ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
        meant = getenv("CUT_ROOT") && getenv("CUT_DISK") && program && length > 0 && strcmp(exe, program) == 0;
    }
    return meant;
}

static int key_of(int dir, const char *name, int flags, char *key, size_t room, mode_t *mode) {
    struct statx s;
    if (statx(dir, name, flags | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &s)) return -1;
    snprintf(key, room, "%llu-%lld-%u", (unsigned long long)s.stx_ino, (long long)s.stx_btime.tv_sec, s.stx_btime.tv_nsec);
    *mode = s.stx_mode;
    return 0;
}

static void publish(const char *draft, const char *final) {
    if (rename(draft, final)) abort();
}

static void keep_bytes(int fd, const char *key) {
    char draft[PATH_MAX], final[PATH_MAX], buffer[65536];
    snprintf(draft, sizeof draft, "%s/draft", getenv("CUT_DISK"));
    snprintf(final, sizeof final, "%s/files/%s", getenv("CUT_DISK"), key);
    /* By its own descriptor: closing one of the file would take the program's locks with it. */
    int out = open(draft, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out < 0) abort();
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    off_t at = 0;
    ssize_t got;
    while ((got = pread(fd, buffer, sizeof buffer, at)) > 0) {
        if (write(out, buffer, got) != got) abort();
        at += got;
    }
    if (got < 0) { /* Open for writing only: nothing of SQLite's, so that another descriptor harms nothing. */
        int in = open(self, O_RDONLY);
        while (in >= 0 && (got = read(in, buffer, sizeof buffer)) > 0)
            if (write(out, buffer, got) != got) abort();
        if (in >= 0) close(in);
    }
    close(out);
    publish(draft, final);
}

static void keep_names(const char *path, const char *inner) {
    char draft[PATH_MAX], final[PATH_MAX], key[96];
    mode_t mode;
    snprintf(draft, sizeof draft, "%s/draft", getenv("CUT_DISK"));
    int prefix = snprintf(final, sizeof final, "%s/names/%%", getenv("CUT_DISK"));
    snprintf(final + prefix, sizeof final - prefix, "%s", inner);
    for (char *c = final + prefix; *c; c++) if (*c == '/') *c = '%';
    DIR *dir = opendir(path);
    FILE *out = fopen(draft, "w");
    if (!dir || !out) abort();
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (key_of(dirfd(dir), entry->d_name, 0, key, sizeof key, &mode)) continue;
        if (S_ISREG(mode) || S_ISDIR(mode)) fprintf(out, "%s %c %s\n", key, S_ISDIR(mode) ? 'd' : 'f', entry->d_name);
    }
    closedir(dir);
    fclose(out);
    publish(draft, final);
}

/* What a sync of this descriptor does to the disk; its result. */
static int synced(int fd, int (*real)(int)) {
    char link[64], path[PATH_MAX] = "", key[96];
    const char *root = getenv("CUT_ROOT"), *refuse = getenv("CUT_REFUSE");
    mode_t mode;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    size_t top = strlen(root);
    if (length <= 0 || strncmp(path, root, top) || (path[top] && path[top] != '/')) return real(fd);
    if (key_of(fd, "", AT_EMPTY_PATH, key, sizeof key, &mode)) return real(fd);
    if (refuse && strstr(path, refuse)) {
        refusable++;
        if (refusable >= number("CUT_REFUSE_FROM") && refusable <= number("CUT_REFUSE_TO")) {
            errno = EIO;
            return -1;
        }
    }
    syncs++;
    if (syncs == number("CUT_AT") && !getenv("CUT_AFTER")) kill(getpid(), SIGKILL);
    if (S_ISDIR(mode)) keep_names(path, path[top] ? path + top + 1 : "");
    else if (S_ISREG(mode)) keep_bytes(fd, key);
    if (syncs == number("CUT_AT")) kill(getpid(), SIGKILL);
    /* The machine's own disk need not be waited for. */
    return 0;
}

static int sync_call(int fd, const char *name) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    if (!is_meant()) return real(fd);
    pthread_mutex_lock(&lock);
    int result = synced(fd, real);
    int saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}

int fsync(int fd) { return sync_call(fd, "fsync"); }
int fdatasync(int fd) { return sync_call(fd, "fdatasync"); }
