/* From texts to settings: a first guess at the machine's speed gives a model, some steps of it give
 * the speed, and that gives the settings. */
#include "text_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "focal/bench.h"
#include "focal/corpus.h"
#include "measure.h"

enum {
    EXCERPT_TOKENS = 200,
    PROMPT_BYTES = 48,
    PROMPT_WORDS = 4,
    SAMPLE_TOKENS = 60,
    PROBE_STEPS = 3,
    PROBES = 2
};

static const double usual_share = 0.4; /* of the peak that training reaches */
static const double probe_seconds = 0.4;
static const double memory_share = 0.5; /* of the machine's: others live here too */
static const double steps_share = 0.93; /* of a run's time; validation and samples take the rest */

static bool has_bf16(const focal_ctx *ctx)
{
    return strstr(focal_ctx_features(ctx), "avx512bf16") != NULL;
}

static size_t memory_limit(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) return 0;
    return (size_t)(memory_share * (double)pages * (double)page_bytes);
}

int text_plan_check(focal_ctx *ctx, int64_t text_bytes)
{
    focal_plan plan;
    const focal_plan_input input = {.text_bytes = text_bytes, .minutes = 1.0, .flops = 1e9};
    const focal_status status = focal_plan_make(ctx, &input, &plan);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
}

static focal_status guess(focal_ctx *ctx, focal_plan_input *input, focal_plan *plan)
{
    double gflops = 0.0;
    const focal_status status =
        focal_bench_peak(ctx, has_bf16(ctx) ? FOCAL_BF16 : FOCAL_F32, &gflops);
    input->flops = usual_share * 1e9 * gflops;
    input->memory_bytes = memory_limit();
    return status == FOCAL_OK ? focal_plan_make(ctx, input, plan) : status;
}

int text_plan_first(focal_ctx *ctx, const focal_plan_input *input, focal_plan *plan)
{
    focal_plan_input with = *input;
    const focal_status status = guess(ctx, &with, plan);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
}

static focal_status time_steps(focal_train_bench *bench, double *flops)
{
    const focal_train_cost cost = focal_train_bench_cost(bench);
    double loss, best = (double)INFINITY;
    focal_status status = focal_train_bench_step(bench, &loss); /* warm */
    const double began = measure_now();
    for (int n = 0;
         status == FOCAL_OK && (n < PROBE_STEPS || measure_now() - began < probe_seconds); n++) {
        const double before = measure_now();
        status = focal_train_bench_step(bench, &loss);
        best = fmin(best, measure_now() - before);
    }
    *flops = cost.flops / best;
    return status;
}

/* Steps of the plan's model; large ones with fewer windows. */
static focal_status probe(focal_ctx *ctx, const focal_plan *plan, double guessed, double *flops)
{
    focal_train_bench *bench = NULL;
    const double window = plan->token_flops * plan->length / guessed; /* seconds */
    const int32_t most = plan->batch / plan->accumulation;
    const focal_train_shape shape = {.layers = plan->layers,
                                     .width = plan->width,
                                     .ffn = plan->ffn,
                                     .heads = plan->heads,
                                     .vocab = plan->vocab,
                                     .length = plan->length,
                                     .batch =
                                         (int32_t)fmax(1.0, fmin(most, probe_seconds / window)),
                                     .dtype = has_bf16(ctx) ? FOCAL_BF16 : FOCAL_F32,
                                     .seed = 1};
    focal_status status = focal_train_bench_new(ctx, &shape, &bench);
    if (status == FOCAL_OK) status = time_steps(bench, flops);
    focal_train_bench_free(bench);
    return status;
}

static focal_status measure_plan_of(focal_ctx *ctx, focal_plan_input *input, focal_plan *plan)
{
    focal_status status = guess(ctx, input, plan);
    for (int n = 0; n < PROBES && status == FOCAL_OK; n++) {
        const focal_plan before = *plan;
        status = probe(ctx, plan, input->flops, &input->flops);
        if (status == FOCAL_OK) status = focal_plan_make(ctx, input, plan);
        if (plan->layers == before.layers && plan->width == before.width) break;
    }
    focal_ctx_trim(ctx);
    return status;
}

static bool is_set(const train_request *request, const char *key)
{
    const size_t length = strlen(key);
    for (int32_t n = 0; n < request->sets.count; n++)
        if (strncmp(request->sets.items[n], key, length) == 0 &&
            strchr(" \t=", request->sets.items[n][length]))
            return true;
    return false;
}

static focal_status set_number(focal_run *run, const char *key, double value)
{
    char assignment[128];
    (void)snprintf(assignment, sizeof assignment, "%s=%.9g", key, value);
    return focal_run_set(run, assignment);
}

/* The first words of a line that is not trained on. */
static void find_prompt(const char *text, size_t bytes, char prompt[PROMPT_BYTES])
{
    const char *end = text + bytes, *line = text;
    size_t used = 0;
    int words = 0;
    while (line < end && *line != '\n') line++;
    while (line < end && (unsigned char)*line <= ' ') line++;
    for (; line < end && used < PROMPT_BYTES - 1; line++) {
        const unsigned char c = (unsigned char)*line;
        if (c == ' ' && ++words == PROMPT_WORDS) break;
        if (c < ' ' || c == 0x7F || strchr("\"`$\\!", c)) break;
        prompt[used++] = (char)c;
    }
    /* A character that was cut is left out, and so are spaces. */
    if (line < end && ((unsigned char)*line & 0xC0) == 0x80) {
        while (used > 0 && ((unsigned char)prompt[used - 1] & 0xC0) == 0x80) used--;
        if (used > 0 && (unsigned char)prompt[used - 1] >= 0xC0) used--;
    }
    while (used > 0 && prompt[used - 1] == ' ') used--;
    prompt[used] = '\0';
}

static int set_samples(focal_ctx *ctx, const focal_plan *plan, const char *shards, focal_run *run)
{
    char prompt[PROMPT_BYTES];
    focal_buffer text = {0};
    const int64_t begin = (int64_t)((1.0 - plan->valid_share) * (double)plan->tokens);
    const int64_t left = plan->tokens - begin;
    const focal_status status =
        focal_shards_text(ctx, shards, begin, left < EXCERPT_TOKENS ? left : EXCERPT_TOKENS, &text);
    if (status == FOCAL_OK) find_prompt(text.data, text.bytes, prompt);
    focal_buffer_free(ctx, &text);
    return status == FOCAL_OK ? train_set_text(ctx, run, "samples.prompt", prompt)
                              : cli_fail_ctx(ctx, status);
}

static focal_status set_shape(const focal_plan *plan, focal_run *run)
{
    const struct {
        const char *key;
        double value;
    } values[] = {
        {"data.length", plan->length},
        {"data.batch", plan->batch},
        {"data.accumulation", plan->accumulation},
        {"data.valid_share", plan->valid_share},
        {"model.vocabulary", 0},
        {"model.layers", plan->layers},
        {"model.width", plan->width},
        {"model.ffn", plan->ffn},
        {"model.heads", plan->heads},
        {"optimiser.lr", plan->rate},
        {"validation.every", (double)plan->valid_every},
        {"validation.tokens", (double)plan->valid_tokens},
        {"samples.every", (double)plan->sample_every},
        {"samples.tokens", fmin(SAMPLE_TOKENS, floor(0.5 * plan->length))},
        {"checkpoint.every", (double)plan->checkpoint_every},
    };
    focal_status status = FOCAL_OK;
    for (size_t n = 0; n < CLI_COUNT(values) && status == FOCAL_OK; n++)
        status = set_number(run, values[n].key, values[n].value);
    return status;
}

/* A text that is read as often as it may be ends the run; else the time does. Steps that --set
 * gives are not cut short by minutes that nobody gave. */
static focal_status set_end(const train_request *request, const focal_plan *plan, double minutes,
                            focal_run *run)
{
    if (is_set(request, "schedule.minutes")) return FOCAL_OK;
    if (is_set(request, "schedule.steps"))
        return request->is_timed ? set_number(run, "schedule.minutes", minutes) : FOCAL_OK;
    const focal_status status = set_number(run, "schedule.warmup", (double)plan->warmup);
    if (status != FOCAL_OK) return status;
    if (plan->seconds < 0.8 * 60.0 * minutes)
        return set_number(run, "schedule.steps", (double)plan->steps);
    return set_number(run, "schedule.minutes", minutes);
}

static const char *amount(double x, char out[32])
{
    if (x < 1e4)
        (void)snprintf(out, 32, "%.0f", x);
    else if (x < 1e6)
        (void)snprintf(out, 32, "%.0f thousand", 1e-3 * x);
    else
        (void)snprintf(out, 32, x < 1e8 ? "%.1f million" : "%.0f million", 1e-6 * x);
    return out;
}

static const char *duration(double seconds, char out[32])
{
    if (seconds < 120.0)
        (void)snprintf(out, 32, "%.0f seconds", fmax(1.0, seconds));
    else if (seconds < 7200.0)
        (void)snprintf(out, 32, "%.0f minutes", seconds / 60.0);
    else
        (void)snprintf(out, 32, "%.1f hours", seconds / 3600.0);
    return out;
}

static double get_number(const focal_run *run, const char *key)
{
    char value[FOCAL_RUN_VALUE];
    return focal_run_get(run, key, value) == FOCAL_OK ? strtod(value, NULL) : 0.0;
}

/* The plan with the end that the settings say, whichever limit comes first. */
static focal_plan foresee(const focal_plan *plan, const focal_run *run)
{
    focal_plan p = *plan;
    const double steps = get_number(run, "schedule.steps");
    const double limit = 60.0 * get_number(run, "schedule.minutes");
    const double step_seconds = plan->seconds / steps_share / (double)plan->steps;
    const double in_time = limit > 0.0 ? fmax(1.0, floor(limit / step_seconds)) : steps;
    p.steps = (int64_t)(steps > 0.0 ? fmin(steps, in_time) : in_time);
    p.seconds = (double)p.steps * step_seconds;
    p.epochs *= (double)p.steps / (double)plan->steps;
    return p;
}

void text_plan_explain(const train_request *request, const focal_plan *planned, double minutes,
                       const focal_run *run)
{
    const focal_plan foreseen = foresee(planned, run), *plan = &foreseen;
    const int32_t ends = is_set(request, "schedule.steps") + is_set(request, "schedule.minutes");
    const bool is_short = ends == 0 && planned->seconds < 0.5 * 60.0 * minutes;
    char a[32], b[32], c[32];
    static const char *const reasons[] = {
        [FOCAL_PLAN_TIME] = "as large as the time allows; more minutes give a larger one",
        [FOCAL_PLAN_TEXT] = "as large as this text can fill; more text gives a better one",
        [FOCAL_PLAN_MEMORY] = "as large as the memory allows",
        [FOCAL_PLAN_LADDER] = "the largest that is chosen without a run file",
    };
    (void)fprintf(stderr, "text: %s tokens, of a vocabulary of %d\n",
                  amount((double)plan->tokens, a), plan->vocab);
    (void)fprintf(stderr, "model: %s parameters, %d layers of width %d: %s\n",
                  amount((double)plan->parameter_count, a), plan->layers, plan->width,
                  reasons[plan->limit]);
    (void)fprintf(stderr,
                  "training: about %s steps of %s tokens, the text %.*f times, in about %s%s\n\n",
                  amount((double)plan->steps, a), amount((double)plan->batch * plan->length, b),
                  plan->epochs < 10.0 ? 1 : 0, plan->epochs, duration(plan->seconds, c),
                  is_short ? ": reading it more often would not help" : "");
    if (request->sets.count > ends) (void)fprintf(stderr, "but for what --set says\n");
}

int text_plan_run(focal_ctx *ctx, const train_request *request, const char *shards, double minutes,
                  focal_plan *plan, focal_run *run)
{
    focal_shards_info info;
    focal_status status = focal_shards_describe(ctx, shards, &info);
    if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
    focal_plan_input input = {.text_bytes = 4 * info.tokens,
                              .tokens = info.tokens,
                              .documents = info.documents,
                              .vocab = info.vocab,
                              .minutes = minutes};
    cli_progress("%s", "measuring what the machine can do");
    status = measure_plan_of(ctx, &input, plan);
    cli_progress("%s", "");
    if (status == FOCAL_OK)
        status = focal_run_set(run, has_bf16(ctx) ? "precision=bf16" : "precision=f32");
    if (status == FOCAL_OK) status = set_shape(plan, run);
    if (status == FOCAL_OK) status = set_end(request, plan, minutes, run);
    if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
    const int code = train_set_text(ctx, run, "data.shards", shards);
    return code == CLI_DONE ? set_samples(ctx, plan, shards, run) : code;
}
