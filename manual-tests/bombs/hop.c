// Is always another process: each starts the next one and ends.
#include <unistd.h>

int main(void) {
    for (int copies = 0; copies < 8; copies++)
        fork();
    for (;;)
        if (fork() > 0)
            _exit(0);
}
