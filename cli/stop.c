/* Signals that ask a long command to end. */
#include "stop.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>

enum { AGAIN_SECONDS = 1 }; /* timeout(1) sends its signal twice at once: that is one asking */

static volatile sig_atomic_t asked; /* the signal; 0: none */

static void on_signal(int number)
{
    static struct timespec first; /* only here */
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (number == SIGINT && asked == SIGINT && now.tv_sec - first.tv_sec > AGAIN_SECONDS) {
        (void)signal(SIGINT, SIG_DFL); /* whoever cannot wait asks again */
        (void)raise(SIGINT);
    }
    if (asked == 0) first = now;
    asked = number;
}

void stop_catch_with(void (*handler)(int))
{
    struct sigaction hangup;
    (void)signal(SIGINT, handler);
    (void)signal(SIGTERM, handler);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        (void)signal(SIGHUP, handler);
}

void stop_catch(void)
{
    stop_catch_with(on_signal);
}

bool stop_is_asked(void)
{
    return asked != 0;
}

int stop_code(void)
{
    return asked != 0 ? 128 + (int)asked : -1;
}
