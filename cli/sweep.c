/* focal sweep: a grid of training runs from one file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "model_file.h"
#include "options.h"
#include "sweep_made.h"
#include "sweep_run.h"

_Static_assert((int)FOCAL_SWEEP_WORDS <= (int)CLI_MAX_TEXTS, "focal takes what a sweep makes");

typedef struct sweep_options {
    cli_texts path, sets, inputs;
    const char *out;
    int64_t threads, jobs;
    bool is_dry;
} sweep_options;

static int print_command(focal_sweep_when when, const focal_sweep_command *command)
{
    const char *at = command->words.data;
    printf("%s focal", when == FOCAL_SWEEP_AFTER ? "after a run:" : "before:");
    for (int32_t n = 0; n < command->count; n++, at += strlen(at) + 1) printf(" %s", at);
    printf("\n");
    return CLI_DONE;
}

/* A command that focal does not have is said before hours of runs, not behind the first. */
static int check_command(focal_sweep_when when, const focal_sweep_command *command)
{
    if (cli_has_verb(command->words.data)) return CLI_DONE;
    return cli_fail("sweep: focal has no command '%.64s', which `%s` asks for", command->words.data,
                    when == FOCAL_SWEEP_AFTER ? "after" : "prepare");
}

static int each_command(focal_ctx *ctx, focal_sweep *sweep, focal_sweep_when when,
                        int (*visit)(focal_sweep_when when, const focal_sweep_command *command))
{
    focal_sweep_command command = {0};
    bool is_there = true;
    int code = CLI_DONE;
    for (int32_t n = 0; code == CLI_DONE && is_there; n++) {
        const focal_status status = focal_sweep_command_at(sweep, when, n, 0, &command, &is_there);
        if (status != FOCAL_OK)
            code = cli_fail_ctx(ctx, status);
        else if (is_there)
            code = visit(when, &command);
    }
    focal_buffer_free(ctx, &command.words);
    return code;
}

/* What would be done. */
static int print_plan(focal_ctx *ctx, focal_sweep *sweep)
{
    const int32_t count = focal_sweep_run_count(sweep);
    int64_t tokens = 0;
    bool is_known = true;
    int code = each_command(ctx, sweep, FOCAL_SWEEP_PREPARE, print_command);
    for (int32_t n = 0; code == CLI_DONE && n < count; n++) {
        focal_sweep_run run;
        const focal_status status = focal_sweep_run_at(sweep, n, &run);
        if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
        printf("%-32s %s", run.name, run.difference);
        if (run.tokens > 0) printf("  (%.2f M tokens)", 1e-6 * (double)run.tokens);
        printf("\n");
        tokens += run.tokens;
        is_known &= run.tokens > 0;
    }
    if (code == CLI_DONE) code = each_command(ctx, sweep, FOCAL_SWEEP_AFTER, print_command);
    if (code == CLI_DONE)
        printf("%d runs, %s%.2f M tokens\n", count, is_known ? "" : "more than ",
               1e-6 * (double)tokens);
    return code;
}

static int make_folder(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return CLI_DONE;
    return cli_fail("%s: %s", path, strerror(errno));
}

/* The file itself, below the command that gave it a meaning. */
static int copy_sweep_file(const sweep_options *o, const char *path)
{
    size_t bytes = 0;
    char *text = cli_read_text(o->path.items[0], CLI_PROMPT_BYTES, &bytes);
    if (!text) return CLI_FAILED;
    FILE *file = fopen(path, "w");
    if (file) {
        (void)fprintf(file, "# focal sweep %s -o %s", o->path.items[0], o->out);
        for (int32_t n = 0; n < o->inputs.count; n++)
            (void)fprintf(file, " --input %s", o->inputs.items[n]);
        for (int32_t n = 0; n < o->sets.count; n++)
            (void)fprintf(file, " --set %s", o->sets.items[n]);
        (void)fprintf(file, "\n");
        (void)fwrite(text, 1, bytes, file);
    }
    free(text);
    const bool is_written = file && !ferror(file);
    if (file && fclose(file) == 0 && is_written) return CLI_DONE;
    return cli_fail("%s: %s", path, strerror(errno));
}

/* Folders, and a run file for each run, all before the first begins. */
static int write_settings(focal_ctx *ctx, focal_sweep *sweep, const sweep_options *o)
{
    char path[CLI_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/settings", o->out);
    int code = make_folder(path);
    (void)snprintf(path, sizeof path, "%s/data", o->out);
    if (code == CLI_DONE) code = make_folder(path);
    (void)snprintf(path, sizeof path, "%s/sweep.conf", o->out);
    if (code == CLI_DONE) code = copy_sweep_file(o, path);
    for (int32_t n = 0; code == CLI_DONE && n < focal_sweep_run_count(sweep); n++) {
        focal_sweep_run run;
        focal_status status = focal_sweep_run_at(sweep, n, &run);
        (void)snprintf(path, sizeof path, "%s/settings/%s.conf", o->out, run.name);
        if (status == FOCAL_OK) status = focal_sweep_run_write(sweep, n, path);
        if (status != FOCAL_OK) code = cli_fail_ctx(ctx, status);
    }
    return code;
}

/* Whether an input was not given: the first such. */
static bool lacks_input(const focal_sweep *sweep, focal_sweep_input *input)
{
    for (int32_t n = 0; focal_sweep_input_at(sweep, n, input); n++)
        if (!input->path) return true;
    return false;
}

/* What the folder holds already must be of this sweep. */
static int check_folder(focal_ctx *ctx, focal_sweep *sweep)
{
    for (int32_t n = 0; n < focal_sweep_run_count(sweep); n++) {
        const focal_status status = focal_sweep_run_check(sweep, n);
        if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
    }
    return made_check_all(ctx, sweep);
}

static int plan(focal_ctx *ctx, focal_sweep *sweep, const sweep_options *o)
{
    for (int32_t n = 0; n < o->sets.count; n++)
        if (focal_sweep_set(sweep, o->sets.items[n]) != FOCAL_OK)
            return cli_wrong("%s", focal_ctx_error(ctx));
    for (int32_t n = 0; n < o->inputs.count; n++)
        if (focal_sweep_give(sweep, o->inputs.items[n]) != FOCAL_OK)
            return cli_wrong("%s", focal_ctx_error(ctx));
    const focal_status status = focal_sweep_plan(sweep, o->out ? o->out : "OUT");
    if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
    const int code = each_command(ctx, sweep, FOCAL_SWEEP_PREPARE, check_command);
    if (code != CLI_DONE) return code;
    return each_command(ctx, sweep, FOCAL_SWEEP_AFTER, check_command);
}

/* Commands that lack an input are none that could be compared. */
static int show_sweep(focal_ctx *ctx, focal_sweep *sweep, const sweep_options *o)
{
    focal_sweep_input input;
    int code = CLI_DONE;
    if (o->out && !lacks_input(sweep, &input)) code = check_folder(ctx, sweep);
    return code == CLI_DONE ? print_plan(ctx, sweep) : code;
}

/* A lock of the system's on the folder itself: it goes with the process, however that ends. */
static int take_folder(const char *out, int *lock)
{
    const int code = make_folder(out);
    if (code != CLI_DONE) return code;
    *lock = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock >= 0 && flock(*lock, LOCK_EX | LOCK_NB) == 0) return CLI_DONE;
    if (*lock >= 0 && errno == EWOULDBLOCK)
        return cli_fail("%s: another sweep is at work in this folder", out);
    return cli_fail("%s: %s", out, strerror(errno));
}

static int run_sweep(focal_ctx *ctx, focal_sweep *sweep, const sweep_options *o)
{
    const sweep_request request = {o->out, focal_ctx_threads(ctx), o->jobs};
    focal_sweep_input input;
    if (lacks_input(sweep, &input))
        return cli_wrong("sweep: --input %s=PATH is missing: %s", input.name, input.about);
    int lock = -1;
    int code = check_folder(ctx, sweep); /* before the record of what is there is written over */
    if (code == CLI_DONE) code = take_folder(o->out, &lock);
    if (code == CLI_DONE) code = write_settings(ctx, sweep, o);
    if (code == CLI_DONE) code = sweep_run_all(ctx, sweep, &request);
    if (lock >= 0) (void)close(lock);
    return code;
}

static int do_sweep(const sweep_options *o)
{
    focal_ctx *ctx = NULL;
    focal_sweep *sweep = NULL;
    int code = cli_open_ctx(o->threads, NULL, &ctx);
    if (code != CLI_DONE) return code;
    const focal_status status = focal_sweep_open(ctx, o->path.items[0], &sweep);
    code = status == FOCAL_OK ? plan(ctx, sweep, o) : cli_fail_ctx(ctx, status);
    if (code == CLI_DONE) code = o->is_dry ? show_sweep(ctx, sweep, o) : run_sweep(ctx, sweep, o);
    focal_sweep_free(sweep);
    focal_ctx_close(ctx);
    return code;
}

#define ABOUT                                                                                      \
    "Trains every run of a sweep file (docs/TRAINING.md), one after another or several at once.\n" \
    "The whole grid is checked before the first run begins. What is finished is not done again,\n" \
    "what was stopped goes on. A run that fails is told, and the others follow."

int cli_sweep(int argc, char **argv)
{
    static sweep_options o; /* its lists are long */
    o = (sweep_options){.jobs = 1};
    const cli_option options[] = {
        {"output", 'o', CLI_TEXT, &o.out, "DIR", "folder of the sweep; each run gets one in it", 0,
         0, NULL, NULL},
        {"input", 'i', CLI_TEXTS, &o.inputs, "NAME=PATH", "what the sweep file asks for", 0, 0,
         NULL, NULL},
        {"set", 0, CLI_TEXTS, &o.sets, "KEY=VALUE", "for every run, over what the files say", 0, 0,
         NULL, NULL},
        {"jobs", 'j', CLI_INT, &o.jobs, "N", "runs at once, which share the threads [1]", 1, 256,
         NULL, NULL},
        {"dry-run", 'n', CLI_FLAG, &o.is_dry, NULL, "only list commands and runs", 0, 0, NULL,
         NULL},
        cli_threads_option(&o.threads),
    };
    const cli_usage usage = {
        .command = "focal sweep",
        .about = ABOUT,
        .examples =
            "  focal sweep runs/temperature.sweep --dry-run\n"
            "  focal sweep runs/temperature.sweep -o out --input texts=books\n"
            "  focal sweep runs/size.sweep -o out -i texts=books --set schedule.steps=200\n",
        .arguments = "SWEEP",
        .taken = &o.path,
        .least = 1,
        .most = 1,
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    const int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    if (!o.out && !o.is_dry)
        return cli_wrong("sweep: -o DIR says where the runs go; see focal sweep --help");
    return do_sweep(&o);
}
