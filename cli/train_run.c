/* A training run as people see it: a line that keeps up with it, a plain one now and then where
 * there is no terminal, and at the end where the model is. Signals save and end it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "character.h"
#include "focal/bench.h"
#include "json_text.h"
#include "measure.h"
#include "model_file.h"
#include "shell_word.h"
#include "stop.h"
#include "train.h"

enum { PEAK_SAMPLES = 5, PATH_BYTES = 4096, SENTENCE_BYTES = 1024, SUMMARY_BYTES = 4096 };

static const double line_seconds = 0.1;   /* between lines on a terminal */
static const double plain_seconds = 10.0; /* and elsewhere */

typedef struct display {
    bool is_quiet, is_terminal;
    double last;               /* when a line was last shown */
    char note[SENTENCE_BYTES]; /* the last one */
} display;

static void show_step(void *user, const focal_train_step *step)
{
    display *d = user;
    const double now = measure_now();
    char line[FOCAL_TRAIN_LINE];
    if (d->is_quiet || now - d->last < (d->is_terminal ? line_seconds : plain_seconds)) return;
    d->last = now;
    focal_train_line(step, line);
    if (d->is_terminal)
        cli_progress("%s", line);
    else
        (void)fprintf(stderr, "%s\n", line);
}

static void show_validation(void *user, const focal_train_validation *found)
{
    const display *d = user;
    if (d->is_quiet) return;
    cli_progress("%s", "");
    (void)fprintf(stderr, "step %lld  validation %.4f", (long long)found->step, found->loss);
    if (found->has_kl) (void)fprintf(stderr, "  kl %.4f", found->kl);
    (void)fprintf(stderr, "\n");
}

/* One line that commands no terminal: a model that has learned little writes any byte. */
static void print_plain(const char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        uint32_t code = 0;
        const size_t bytes = character_read(text, left, &code);
        const bool is_control = code < 0x20 || (code >= 0x7F && code < 0xA0);
        if (*text == '\n' || *text == '\t')
            (void)fputc(' ', stderr);
        else if (bytes == 0 || is_control)
            (void)fputc('?', stderr);
        else
            (void)fwrite(text, 1, bytes, stderr);
        text += bytes > 0 ? bytes : 1;
        left -= bytes > 0 ? bytes : 1;
    }
}

static void show_sample(void *user, int64_t step, const char *text)
{
    const display *d = user;
    if (d->is_quiet) return;
    cli_progress("%s", "");
    (void)fprintf(stderr, "step %lld  writes: ", (long long)step);
    print_plain(text);
    (void)fputc('\n', stderr);
}

static void show_note(void *user, const char *sentence)
{
    display *d = user;
    (void)snprintf(d->note, sizeof d->note, "%s", sentence);
    if (d->is_quiet) return;
    cli_progress("%s", "");
    (void)fprintf(stderr, "%s\n", sentence);
}

static void show_warning(void *user, const char *sentence)
{
    (void)user;
    cli_progress("%s", "");
    (void)fprintf(stderr, "%s\n", sentence);
}

static bool must_stop(void *user)
{
    (void)user;
    return stop_is_asked();
}

/* Operations a second that the machine reaches now, the median of a few short samples; 0 where it
 * cannot be told. */
static double find_peak(focal_ctx *ctx, const focal_run *run)
{
    char precision[FOCAL_RUN_VALUE];
    measure_samples samples = {0};
    double peak = 0.0, gflops = 0.0;
    if (focal_run_get(run, "precision", precision) != FOCAL_OK) return 0.0;
    const focal_dtype dtype = strcmp(precision, "f32") == 0 ? FOCAL_F32 : FOCAL_BF16;
    for (int n = 0; n < PEAK_SAMPLES; n++)
        if (focal_bench_peak(ctx, dtype, &gflops) != FOCAL_OK || !measure_add(&samples, gflops))
            break;
    if (samples.count > 0) peak = 1e9 * measure_median(&samples);
    measure_free(&samples);
    return peak;
}

static bool has_file(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_BYTES &&
           access(path, F_OK) == 0;
}

static int print_summary(const char *folder)
{
    char path[PATH_BYTES];
    size_t bytes = 0;
    (void)snprintf(path, sizeof path, "%s/summary.json", folder);
    char *text = cli_read_text(path, SUMMARY_BYTES, &bytes);
    if (!text) return CLI_FAILED;
    (void)fwrite(text, 1, bytes, stdout);
    free(text);
    return CLI_DONE;
}

static bool has_value(const focal_run *run, const char *key, const char *value)
{
    char text[FOCAL_RUN_VALUE];
    return focal_run_get(run, key, text) == FOCAL_OK && strcmp(text, value) == 0;
}

/* The command that makes the model write, from what its samples began with. */
static void print_command(const focal_run *run, const char *out)
{
    char prompt[FOCAL_RUN_VALUE], path[PATH_BYTES];
    train_get_text(run, "samples.prompt", prompt);
    /* What takes several lines is no plain text to type. */
    const bool has_one = prompt[0] != '\0' && !strpbrk(prompt, "\n\t");
    (void)snprintf(path, sizeof path, "%s/model", out);
    if (has_value(run, "temperature.kind", "learned-paper")) {
        printf("the model cannot write, since its temperature depends on later tokens; it is ");
        shell_print_path(path);
        printf("\n");
        return;
    }
    printf("the model writes with:\n  focal generate -m ");
    shell_print_path(path);
    if (!has_value(run, "groups.count", "0")) {
        (void)snprintf(path, sizeof path, "%s/adapter", out);
        printf(" --adapter ");
        shell_print_path(path);
    }
    printf(" -n 100 -p ");
    shell_print_quoted(has_one ? prompt : "Once upon a time");
    printf("\n");
}

static bool is_fit(const focal_run *run)
{
    return has_value(run, "learn", "groups");
}

/* The command that runs the model with what was fitted to it. */
static void print_adapter(const focal_run *run, const char *out)
{
    char model[FOCAL_RUN_VALUE];
    train_get_text(run, "start.from", model);
    printf("the model runs with it:\n  focal generate -m ");
    shell_print_quoted(model);
    printf(" --adapter ");
    shell_print_path(out);
    printf(" -n 100 -p 'Once upon a time'\n");
}

/* What there is now, and what to do with it. */
static void print_end(const focal_run *run, const train_request *request,
                      const focal_train_result *r)
{
    const char *out = request->out;
    printf("%s after %lld steps, %lld tokens",
           r->end == FOCAL_TRAIN_FINISHED ? "finished" : "stopped", (long long)r->step,
           (long long)r->tokens);
    if (r->loss == r->loss) printf(": loss %.4f", r->loss);
    if (r->valid_loss == r->valid_loss) printf(", validation %.4f", r->valid_loss);
    printf("\n");
    if (r->end == FOCAL_TRAIN_STOPPED) {
        printf("goes on with: focal %s ", request->verb);
        shell_print_path(out);
        printf("\n");
    }
    if (is_fit(run)) {
        if (has_file(out, "adapter_config.json")) print_adapter(run, out);
        return;
    }
    if (has_file(out, "model/tokenizer.json"))
        print_command(run, out);
    else if (has_file(out, "model/config.json"))
        printf("the model is %s/model\n", out);
}

/* What can be done about a spike is not what is set already. */
static int fail_spiked(const focal_run *run, const train_request *request, const char *sentence)
{
    char on_spike[FOCAL_RUN_VALUE];
    if (focal_run_get(run, "on_spike", on_spike) == FOCAL_OK && strcmp(on_spike, "skip") == 0)
        return cli_fail("%s; leaving steps out does not help: a lower optimiser.lr in another "
                        "folder may, or a higher spike_threshold here",
                        sentence);
    return cli_fail("%s; `focal %s %s --set on_spike=skip` leaves such steps out", sentence,
                    request->verb, request->out);
}

static int end_run(focal_ctx *ctx, focal_status status, const focal_run *run,
                   const train_request *request, const focal_train_result *result, const display *d)
{
    int code = CLI_DONE;
    if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
    if (result->end == FOCAL_TRAIN_SPIKED)
        code = fail_spiked(run, request, d->is_quiet ? d->note : "the state before it is saved");
    else if (result->end == FOCAL_TRAIN_STOPPED)
        code = stop_code();
    if (request->is_json) {
        const int printed = print_summary(request->out);
        if (code == CLI_DONE) code = printed;
    } else if (result->end != FOCAL_TRAIN_SPIKED && !request->is_quiet) {
        print_end(run, request, result);
    }
    return code;
}

int train_run(focal_ctx *ctx, focal_run *run, const train_request *request)
{
    display d = {.is_quiet = request->is_quiet, .is_terminal = isatty(STDERR_FILENO) == 1};
    const focal_train_watch watch = {.user = &d,
                                     .on_step = show_step,
                                     .on_validation = show_validation,
                                     .on_sample = show_sample,
                                     .on_note = show_note,
                                     .on_warning = show_warning,
                                     .must_stop = must_stop};
    focal_train_result result = {0};
    stop_catch();
    const double peak = request->is_quiet ? 0.0 : find_peak(ctx, run);
    const focal_status status = focal_train(ctx, run, request->out, peak, &watch, &result);
    cli_progress("%s", "");
    return end_run(ctx, status, run, request, &result, &d);
}
