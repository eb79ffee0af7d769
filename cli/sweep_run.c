/* A sweep at work: jobs side by side, each a child that trains and children that measure its model.
 * What is done is known by files alone, so a sweep goes on wherever it was stopped. */
#include "sweep_run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "child_log.h"
#include "cli.h"
#include "measure.h"
#include "model_file.h"
#include "shell_word.h"
#include "stop.h"
#include "sweep_after.h"
#include "sweep_made.h"

enum { MOST_JOBS = 256 };

/* The signal that asked for the end; 0: none. */
static volatile sig_atomic_t asked;

static void on_signal(int number)
{
    asked = number;
}

/* What runs are told when the sweep is to end. A terminal sends SIGINT to them too, and a second
 * one would end them before they have saved. */
static int told_number(void)
{
    return asked == SIGINT ? SIGTERM : (int)asked;
}

/* A run at work. */
typedef struct job {
    pid_t child; /* 0: none */
    int32_t run;
    int32_t after; /* the command that is at work; -1: training */
    int64_t begin; /* of what its child says, in settings/NAME.txt */
    char name[FOCAL_SWEEP_NAME];
} job;

typedef struct sweep_work {
    focal_ctx *ctx;
    focal_sweep *sweep;
    const sweep_request *request;
    job jobs[MOST_JOBS];
    int64_t job_threads;
    int32_t next; /* run that is looked at next */
    int32_t finished, skipped, failed;
    int64_t tokens_done, tokens_left; /* of this session, and of what is not done */
    double started, shown;
} sweep_work;

/* "OUT/FOLDER/NAMEEND"; the room is as large as the plan lets names be. */
static const char *path_of(char path[CLI_PATH_BYTES], const sweep_work *w, const char *folder,
                           const char *name, const char *end)
{
    (void)snprintf(path, CLI_PATH_BYTES, "%s/%s%s%s%s", w->request->out, folder, *folder ? "/" : "",
                   name, end);
    return path;
}

/* The whole of a small file; NULL when it cannot be read. free() it. */
static char *read_whole(const char *path)
{
    size_t bytes = 0;
    char *data = access(path, R_OK) == 0 ? cli_read_text(path, CLI_PROMPT_BYTES, &bytes) : NULL;
    char *text = data ? strndup(data, bytes) : NULL;
    free(data);
    return text;
}

/* Whether two run files say the same, but for where the shards are: they may have been moved, or
 * not been made yet when the path was to be whole. */
static bool is_same_run(const char *a, const char *b)
{
    static const char shards[] = "data.shards = ";
    while (a && b && *a && *b) {
        const size_t a_bytes = strcspn(a, "\n"), b_bytes = strcspn(b, "\n");
        const bool is_shards =
            strncmp(a, shards, strlen(shards)) == 0 && strncmp(b, shards, strlen(shards)) == 0;
        if (!is_shards && (a_bytes != b_bytes || memcmp(a, b, a_bytes) != 0)) return false;
        a += a_bytes + (a[a_bytes] != '\0');
        b += b_bytes + (b[b_bytes] != '\0');
    }
    return a && b && *a == *b;
}

static bool is_trained(const sweep_work *w, const char *name)
{
    char path[CLI_PATH_BYTES];
    char *summary = read_whole(path_of(path, w, name, "summary.json", ""));
    char *own = read_whole(path_of(path, w, name, "run.conf", ""));
    char *wanted = read_whole(path_of(path, w, "settings", name, ".conf"));
    const bool is_done =
        summary && is_same_run(own, wanted) && strstr(summary, "\"state\":\"finished\"") != NULL;
    free(summary);
    free(own);
    free(wanted);
    return is_done;
}

static bool has_after(const sweep_work *w, int32_t run)
{
    focal_sweep_command command = {0};
    bool is_there = false;
    if (focal_sweep_command_at(w->sweep, FOCAL_SWEEP_AFTER, 0, run, &command, &is_there) !=
        FOCAL_OK)
        is_there = true; /* starting it will say what is wrong */
    focal_buffer_free(w->ctx, &command.words);
    return is_there;
}

static bool is_measured(const sweep_work *w, const char *name, int32_t run)
{
    char path[CLI_PATH_BYTES];
    return !has_after(w, run) ||
           after_is_done(w->ctx, w->sweep, run, path_of(path, w, name, "after.jsonl", ""));
}

/* Starts focal with words that have a NUL behind each. */
static pid_t start_words(const focal_sweep_command *command, const char *output,
                         const char *messages, int64_t threads)
{
    const char **words = calloc((size_t)command->count + 1, sizeof *words);
    if (!words) return 0;
    const char *at = command->words.data;
    for (int32_t n = 0; n < command->count; n++, at += strlen(at) + 1) words[n] = at;
    const child_call call = {words, command->count, output, messages, threads};
    const pid_t child = child_start(&call);
    free(words);
    return child;
}

static void start_training(const sweep_work *w, job *j)
{
    char settings[CLI_PATH_BYTES], folder[CLI_PATH_BYTES], messages[CLI_PATH_BYTES], threads[32];
    (void)snprintf(threads, sizeof threads, "%lld", (long long)w->job_threads);
    const char *const words[] = {"train", path_of(settings, w, "settings", j->name, ".conf"),
                                 "-o",    path_of(folder, w, "", j->name, ""),
                                 "-t",    threads};
    const child_call call = {words, CLI_COUNT(words), NULL,
                             path_of(messages, w, "settings", j->name, ".txt"), 0};
    j->begin = child_log_end(messages);
    j->child = child_start(&call);
}

static int append_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    if (!file) return cli_fail("%s: %s", path, strerror(errno));
    (void)fputs(text, file);
    const bool is_written = !ferror(file);
    if (fclose(file) == 0 && is_written) return CLI_DONE;
    return cli_fail("%s: %s", path, strerror(errno));
}

/* The command that follows; child 0 when there is none any more or, with a code, it cannot be. */
static int start_after(const sweep_work *w, job *j)
{
    char part[CLI_PATH_BYTES], messages[CLI_PATH_BYTES];
    focal_sweep_command command = {0};
    bool is_there = false;
    int code = CLI_DONE;
    (void)path_of(part, w, j->name, "after.jsonl", ".part");
    (void)path_of(messages, w, "settings", j->name, ".txt");
    if (j->after == 0) (void)unlink(part);
    j->child = 0;
    j->begin = child_log_end(messages);
    const focal_status status =
        focal_sweep_command_at(w->sweep, FOCAL_SWEEP_AFTER, j->after, j->run, &command, &is_there);
    if (status != FOCAL_OK) {
        code = cli_fail_ctx(w->ctx, status);
    } else if (is_there) {
        char *head = after_head(&command);
        code = head ? append_text(part, head) : CLI_FAILED;
        free(head);
        if (code == CLI_DONE) j->child = start_words(&command, part, messages, w->job_threads);
        if (!j->child) code = CLI_FAILED;
    }
    focal_buffer_free(w->ctx, &command.words);
    return code;
}

static void tell(const sweep_work *w, const char *name, const char *what)
{
    const int32_t total = focal_sweep_run_count(w->sweep);
    const double seconds = measure_now() - w->started;
    cli_progress("%s", "");
    (void)fprintf(stderr, "%d of %d  %s: %s", w->finished + w->skipped + w->failed, total, name,
                  what);
    if (w->tokens_done > 0 && w->tokens_left > 0)
        (void)fprintf(stderr, "; about %.0f min left",
                      seconds * (double)w->tokens_left / (double)w->tokens_done / 60.0);
    (void)fprintf(stderr, "\n");
}

/* A run ends here, whichever way: `code` is its last child's. */
static void end_job(sweep_work *w, job *j, int code)
{
    char messages[CLI_PATH_BYTES], line[CHILD_LINE_BYTES];
    const bool is_done = code == CLI_DONE;
    focal_sweep_run run;
    if (focal_sweep_run_at(w->sweep, j->run, &run) == FOCAL_OK) {
        w->tokens_left -= run.tokens;
        if (is_done) w->tokens_done += run.tokens;
    }
    j->child = 0;
    (void)path_of(messages, w, "settings", j->name, ".txt");
    if (is_done) {
        w->finished++;
        child_log_last(messages, 0, "finished", line); /* perhaps in an earlier attempt */
        tell(w, j->name, line[0] ? line : "finished");
    } else if (asked == 0) {
        char sentence[CHILD_LINE_BYTES + CLI_PATH_BYTES + 32];
        w->failed++;
        child_log_failure(messages, j->begin, code, line);
        (void)snprintf(sentence, sizeof sentence, "failed: %s (all it said: %s)", line, messages);
        tell(w, j->name, sentence);
    }
}

/* What comes next for a run whose child has ended. */
static void go_on(sweep_work *w, job *j, int code)
{
    char part[CLI_PATH_BYTES], whole[CLI_PATH_BYTES];
    if (code != CLI_DONE || asked != 0) {
        end_job(w, j, code != CLI_DONE ? code : CLI_FAILED);
        return;
    }
    if (j->after < 0 && is_measured(w, j->name, j->run)) {
        end_job(w, j, CLI_DONE);
        return;
    }
    j->after++;
    if (start_after(w, j) != CLI_DONE) {
        end_job(w, j, CLI_FAILED);
        return;
    }
    if (j->child) return;
    (void)path_of(part, w, j->name, "after.jsonl", ".part");
    (void)path_of(whole, w, j->name, "after.jsonl", "");
    end_job(w, j, rename(part, whole) == 0 ? CLI_DONE : CLI_FAILED);
}

/* Gives a free place the next run that is not done. */
static void start_next(sweep_work *w, job *j)
{
    focal_sweep_run run;
    for (; !j->child && w->next < focal_sweep_run_count(w->sweep); w->next++) {
        if (focal_sweep_run_at(w->sweep, w->next, &run) != FOCAL_OK) continue;
        *j = (job){.run = w->next, .after = -1};
        (void)snprintf(j->name, sizeof j->name, "%s", run.name);
        const bool has_model = is_trained(w, j->name);
        if (has_model && is_measured(w, j->name, j->run)) {
            w->skipped++;
            w->tokens_left -= run.tokens;
        } else if (has_model) {
            go_on(w, j, CLI_DONE);
        } else {
            start_training(w, j);
            if (!j->child) end_job(w, j, CLI_FAILED);
        }
    }
}

static void show(sweep_work *w)
{
    char messages[CLI_PATH_BYTES], line[CHILD_LINE_BYTES];
    const double now = measure_now();
    if (now - w->shown < 1.0) return;
    w->shown = now;
    for (int64_t n = 0; n < w->request->jobs; n++) {
        const job *j = &w->jobs[n];
        if (!j->child) continue;
        child_log_last(path_of(messages, w, "settings", j->name, ".txt"), j->begin, "", line);
        cli_progress("run %d of %d  %s: %.100s", j->run + 1, focal_sweep_run_count(w->sweep),
                     j->name, j->after >= 0 ? "measuring" : line);
        return;
    }
}

static void take_a_moment(void)
{
    const struct timespec moment = {.tv_nsec = 50000000};
    (void)nanosleep(&moment, NULL);
}

static void run_jobs(sweep_work *w)
{
    bool is_told = false;
    for (bool is_busy = true; is_busy;) {
        is_busy = false;
        for (int64_t n = 0; n < w->request->jobs; n++) {
            job *j = &w->jobs[n];
            int code = CLI_DONE;
            if (j->child && child_has_ended(j->child, &code)) go_on(w, j, code);
            if (!j->child && asked == 0) start_next(w, j);
            if (j->child && asked != 0 && !is_told) (void)kill(j->child, told_number());
            is_busy |= j->child != 0;
        }
        is_told = asked != 0;
        show(w);
        if (is_busy) take_a_moment();
    }
    cli_progress("%s", "");
}

/* Waits for one command, with signals handed on. */
static int wait_for(pid_t child)
{
    int code = CLI_DONE;
    bool is_told = false;
    while (!child_has_ended(child, &code)) {
        if (asked != 0 && !is_told) {
            (void)kill(child, told_number());
            is_told = true;
        }
        take_a_moment();
    }
    return code;
}

static int prepare_output(const sweep_work *w, const focal_sweep_command *command)
{
    char messages[CLI_PATH_BYTES], line[CHILD_LINE_BYTES];
    bool is_there = false;
    int code = made_check(command, &is_there);
    if (code != CLI_DONE || is_there) return code;
    (void)path_of(messages, w, "settings", "prepare", ".log");
    (void)fprintf(stderr, "preparing %s\n", command->output);
    code = made_note(command);
    if (code != CLI_DONE) return code;
    const int64_t begin = child_log_end(messages);
    const pid_t child = start_words(command, NULL, messages, w->request->threads);
    code = child ? wait_for(child) : CLI_FAILED;
    if (code == CLI_DONE && access(command->output, F_OK) != 0)
        return cli_fail("the command that should make %s did not", command->output);
    if (code == CLI_DONE || asked != 0) return code;
    child_log_failure(messages, begin, code, line);
    return cli_fail("preparing %s: %s", command->output, line);
}

static int prepare_all(const sweep_work *w)
{
    focal_sweep_command command = {0};
    int code = CLI_DONE;
    for (int32_t n = 0; code == CLI_DONE && asked == 0; n++) {
        bool is_there = false;
        const focal_status status =
            focal_sweep_command_at(w->sweep, FOCAL_SWEEP_PREPARE, n, -1, &command, &is_there);
        if (status != FOCAL_OK)
            code = cli_fail_ctx(w->ctx, status);
        else if (is_there)
            code = prepare_output(w, &command);
        if (!is_there) break;
    }
    focal_buffer_free(w->ctx, &command.words);
    return code;
}

static int64_t count_tokens(focal_sweep *sweep)
{
    int64_t tokens = 0;
    focal_sweep_run run;
    for (int32_t n = 0; n < focal_sweep_run_count(sweep); n++)
        if (focal_sweep_run_at(sweep, n, &run) == FOCAL_OK) tokens += run.tokens;
    return tokens;
}

/* The command that shows what came out. */
static void print_report(const sweep_work *w)
{
    const char *baseline = focal_sweep_baseline(w->sweep);
    printf("focal report ");
    shell_print_path(w->request->out);
    if (*baseline) {
        printf(" --baseline ");
        shell_print_quoted(baseline);
    }
    printf("\n");
}

int sweep_run_all(focal_ctx *ctx, focal_sweep *sweep, const sweep_request *request)
{
    sweep_work *w = calloc(1, sizeof *w);
    if (!w) return cli_fail("no memory for the sweep");
    *w = (sweep_work){.ctx = ctx, .sweep = sweep, .request = request};
    w->job_threads = request->threads / request->jobs > 0 ? request->threads / request->jobs : 1;
    w->tokens_left = count_tokens(sweep);
    w->started = measure_now();
    stop_catch_with(on_signal);
    int code = prepare_all(w);
    if (code == CLI_DONE && asked == 0) run_jobs(w);
    if (asked != 0) {
        code = 128 + (int)asked;
        (void)fprintf(stderr, "stopped: the same command goes on from here\n");
    } else if (code == CLI_DONE) {
        (void)fprintf(stderr, "%d runs finished, %d were before, %d failed\n", w->finished,
                      w->skipped, w->failed);
        print_report(w);
        if (w->failed > 0) code = CLI_FAILED;
    }
    free(w);
    return code;
}
