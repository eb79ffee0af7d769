/* Children by fork and exec of the running program. */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

enum { CANNOT_RUN = 127 };

/* Only what is safe between fork and exec. */
static _Noreturn void become(const child_call *call, char **arguments, pid_t parent)
{
    const int input = open("/dev/null", O_RDONLY);
    const int messages = open(call->messages, O_WRONLY | O_CREAT | O_APPEND, 0666);
    const int output =
        call->output ? open(call->output, O_WRONLY | O_CREAT | O_APPEND, 0666) : messages;
    (void)setpgid(0, 0); /* a terminal's signals come from the parent, and once */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || input < 0 || messages < 0 || output < 0 ||
        dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(messages, STDERR_FILENO) < 0)
        _exit(CANNOT_RUN);
    (void)execv("/proc/self/exe", arguments);
    _exit(CANNOT_RUN);
}

pid_t child_start(const child_call *call)
{
    char threads[32];
    const pid_t parent = getpid();
    char **arguments = calloc((size_t)call->count + 2, sizeof *arguments);
    if (!arguments) {
        (void)cli_fail("no memory to start a command");
        return 0;
    }
    static char program[] = "focal";
    arguments[0] = program;
    for (int32_t n = 0; n < call->count; n++) {
        arguments[n + 1] = strdup(call->words[n]);
        if (!arguments[n + 1]) break;
    }
    const bool is_whole = call->count == 0 || arguments[call->count];
    (void)snprintf(threads, sizeof threads, "%lld", (long long)call->threads);
    if (call->threads > 0) (void)setenv("OMP_NUM_THREADS", threads, 1);
    (void)fflush(NULL); /* or both would write what is held */
    const pid_t child = is_whole ? fork() : -1;
    if (child == 0) become(call, arguments, parent);
    if (child < 0) (void)cli_fail("a command cannot be started: %s", strerror(errno));
    for (int32_t n = 0; n < call->count; n++) free(arguments[n + 1]);
    free(arguments);
    return child < 0 ? 0 : child;
}

bool child_has_ended(pid_t child, int *code)
{
    int state = 0;
    const pid_t found = waitpid(child, &state, WNOHANG);
    if (found == 0 || (found < 0 && errno == EINTR)) return false;
    *code = found < 0            ? CLI_FAILED
            : WIFSIGNALED(state) ? 128 + WTERMSIG(state)
                                 : WEXITSTATUS(state);
    return true;
}
