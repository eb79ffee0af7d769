/* focal: one program, one file a verb. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const cli_verb verbs[] = {
    {"bench", "measure attention, routing and the machine", cli_bench},
    {"chat", "a conversation with a model", cli_chat},
    {"demo", "attention over 16,384 tokens, dense against groups, as a table and a picture",
     cli_demo},
    {"eval", "how well a model does", cli_eval},
    {"export", "write a model in another format or type", cli_export},
    {"fit", "routers and temperatures for a model that stays as it is", cli_fit},
    {"generate", "continue a prompt", cli_generate},
    {"info", "what a model is; or this build and machine", cli_info},
    {"pull", "fetch a model", cli_pull},
    {"report", "compare training runs: curves, spreads, tables in one page", cli_report},
    {"sweep", "train a grid of models", cli_sweep},
    {"tokenize", "text to token ids, and back", cli_tokenize},
    {"train", "train a model, or go on with one", cli_train},
};

bool cli_has_verb(const char *name)
{
    for (size_t n = 0; n < CLI_COUNT(verbs); n++)
        if (strcmp(verbs[n].name, name) == 0) return true;
    return false;
}

/* Nothing here leaves a half-written file under its final name, so leaving at once is safe, and a
 * long kernel call need not be waited for. */
static void on_interrupt(int number)
{
    (void)number;
    _exit(CLI_INTERRUPTED);
}

int main(int argc, char **argv)
{
    (void)signal(SIGINT, on_interrupt);
    (void)signal(SIGXFSZ,
                 SIG_IGN); /* a limit on files is then an error of write(), like a full disk */
    int code = CLI_DONE;
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0))
        printf("focal %d.%d.%d\n", FOCAL_VERSION_MAJOR, FOCAL_VERSION_MINOR, FOCAL_VERSION_PATCH);
    else
        code = cli_run_verb("focal", "focal: attention that looks where it matters.", verbs,
                            CLI_COUNT(verbs), argc, argv);
    /* A full disk or a closed pipe must not look like success; what went wrong before says more. */
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        const int failed = cli_output_failed();
        if (code == CLI_DONE) code = failed;
    }
    return code;
}
