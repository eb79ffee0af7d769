/* Signals that ask a long command to end. */
#include "stop.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t asked; /* the signal; 0: none */

static void on_signal(int number)
{
    asked = number;
    if (number == SIGINT) (void)signal(SIGINT, SIG_DFL); /* whoever cannot wait asks again */
}

void stop_catch(void)
{
    struct sigaction hangup;
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        (void)signal(SIGHUP, on_signal);
}

bool stop_is_asked(void)
{
    return asked != 0;
}

int stop_code(void)
{
    return asked != 0 ? 128 + (int)asked : -1;
}
