/* Which model a text and some minutes can fill. A ladder of shapes, each about twice the one
 * before; the plan takes the largest that the time, the text and the memory allow, and then the
 * batch, the steps and the rates that go with it. */
#include "focal/plan.h"

#include <math.h>

#include "base/error.h"
#include "base/sizes.h"

typedef struct rung {
    int32_t layers, width, ffn;
} rung;

/* Narrower heads leave half of the machine idle in attention. */
enum { HEAD_WIDTH = 64, NARROW_HEAD = 32 };

/* ffn is 8/3 of the width, in whole cache lines; depth grows with the width. */
static const rung ladder[] = {
    {2, 64, 192},    {4, 64, 192},     {4, 96, 256},     {3, 128, 384},
    {5, 128, 384},   {4, 192, 512},    {6, 192, 512},    {6, 256, 704},
    {8, 320, 896},   {8, 384, 1024},   {8, 512, 1408},   {12, 576, 1536},
    {12, 768, 2048}, {16, 1024, 2816}, {24, 1280, 3456}, {24, 2048, 5504},
};

/* Tokens that a model should see for each of its parameters. Compute-optimal training comes to 20
 * (Hoffmann and others, 2022); small models on a text that they read again do best with fewer. */
static const double tokens_a_parameter = 10.0;
/* How often a text may be read. Reading it four times is nearly as good as four times the text, and
 * after some sixteen little is gained (Muennighoff and others, 2023). */
static const double most_epochs = 12.0;
/* Parameters for each token of the text: beyond, a model learns the text by heart before the last
 * epoch, and validation gets worse. */
static const double parameters_a_token = 4.0;
/* Of the time, what is left for steps beside validation, samples and checkpoints. */
static const double steps_share = 0.93;

enum {
    VOCAB_LEAST = 512,
    VOCAB_MOST = 16384,
    VOCAB_BYTES = 400, /* of text for each token of the vocabulary: about a hundred uses of each */
    VOCAB_WIDTHS = 32, /* tokens of the vocabulary for each dimension: the head stays below half */
    LENGTH_LEAST = 32,
    LENGTH_MOST = 2048,
    WINDOWS_LEAST = 24, /* of the text */
    STEPS_WANTED = 600, /* that a run should have before its batch grows */
    BATCH_LEAST = 512,  /* tokens */
    STEPS_MOST = 1000000000,
    STOPS = 10,          /* validations of a run, and samples */
    VALID_WANTED = 60000 /* tokens */
};

static int32_t power_below(double x)
{
    int32_t power = 1;
    while (2.0 * power <= x && power < 1 << 29) power *= 2;
    return power;
}

static double clamp(double x, double least, double most)
{
    return fmin(fmax(x, least), most);
}

/* English with a vocabulary of its own; other texts are not so far from it that it matters. */
static double bytes_a_token(int32_t vocab)
{
    return clamp(2.25 + 0.52 * log2((double)vocab / VOCAB_LEAST), 1.3, 4.6);
}

static int32_t choose_vocab(const focal_plan_input *in, const rung *r)
{
    if (in->vocab > 0) return in->vocab;
    const double by_text = (double)in->text_bytes / VOCAB_BYTES;
    return power_below(
        clamp(fmin(by_text, (double)VOCAB_WIDTHS * r->width), VOCAB_LEAST, VOCAB_MOST));
}

/* About twice the width, and no longer than documents are or than gives enough windows. */
static int32_t choose_length(const focal_plan_input *in, const focal_plan *p)
{
    const double mean = (double)p->tokens / (double)foci_max64(in->documents, 1);
    const double longest = fmin(2.0 * mean, (double)p->tokens / WINDOWS_LEAST);
    return power_below(clamp(fmin(2.0 * p->width, longest), LENGTH_LEAST, LENGTH_MOST));
}

/* Tokens a step that a model of this size can use: noise falls with the batch, and small models are
 * not precise enough to see it. */
static double largest_batch(double parameters)
{
    return clamp(power_below(4096.0 * sqrt(parameters / 1e6)), 4096.0, 32768.0);
}

/* The memory of a step, at most: weights, gradients and two moments in float32, what products read
 * in bfloat16, and what forward keeps for backward. tests/unit/test_plan.c holds it against what
 * steps take. */
static double memory_of(const focal_plan *p)
{
    const double rows = (double)p->batch / p->accumulation * p->length;
    const double kept = 80.0 * p->layers * p->width + 40.0 * p->width + 4.0 * p->vocab + 4096.0;
    return 18.0 * (double)p->parameter_count + rows * kept + 16e6;
}

/* A rung with all that depends on it but the run. */
static void set_shape(const focal_plan_input *in, const rung *r, focal_plan *p)
{
    const double C = r->width;
    *p = (focal_plan){.layers = r->layers,
                      .width = r->width,
                      .ffn = r->ffn,
                      .heads = r->width / (r->width % HEAD_WIDTH == 0 ? HEAD_WIDTH : NARROW_HEAD),
                      .batch = 1,
                      .accumulation = 1};
    p->vocab = choose_vocab(in, r);
    p->tokens =
        in->tokens > 0 ? in->tokens : (int64_t)((double)in->text_bytes / bytes_a_token(p->vocab));
    p->valid_share = clamp((double)VALID_WANTED / (double)p->tokens, 0.0005, 0.1);
    p->length = choose_length(in, p);
    const double products = r->layers * (4.0 * C * C + 3.0 * C * r->ffn) + p->vocab * C;
    p->parameter_count = (int64_t)(products + (2.0 * r->layers + 1.0) * C);
    p->token_flops = 6.0 * products + 7.0 * C * (p->length + 1.0) * r->layers;
}

/* Tokens of the text that are trained on, and the most that are read in all epochs. */
static double training_tokens(const focal_plan *p)
{
    return (1.0 - p->valid_share) * (double)p->tokens;
}

static double most_tokens(const focal_plan *p)
{
    return most_epochs * training_tokens(p);
}

static double affordable_tokens(const focal_plan_input *in, const focal_plan *p)
{
    return 60.0 * in->minutes * in->flops * steps_share / p->token_flops;
}

/* Why a model is too large, if it is. */
static bool is_beyond(const focal_plan_input *in, const focal_plan *p, focal_plan_limit *limit)
{
    const double parameters = (double)p->parameter_count;
    const double wanted = fmin(tokens_a_parameter * parameters, most_tokens(p));
    if (in->memory_bytes > 0 && memory_of(p) > (double)in->memory_bytes)
        *limit = FOCAL_PLAN_MEMORY;
    else if (parameters > parameters_a_token * training_tokens(p))
        *limit = FOCAL_PLAN_TEXT;
    else if (wanted > affordable_tokens(in, p))
        *limit = FOCAL_PLAN_TIME;
    else
        return false;
    return true;
}

/* Steps of as many tokens as the model can use, and many enough of them. */
static void set_steps(const focal_plan_input *in, focal_plan *p)
{
    const double whole = fmin(affordable_tokens(in, p), most_tokens(p));
    const double most = largest_batch((double)p->parameter_count);
    const double rows = power_below(clamp(whole / STEPS_WANTED, BATCH_LEAST, most));
    const double windows = training_tokens(p) / p->length;
    p->batch = (int32_t)fmax(1.0, fmin(rows / p->length, power_below(windows)));
    p->steps = (int64_t)clamp(floor(whole / ((double)p->batch * p->length)), 1.0, STEPS_MOST);
    while (in->memory_bytes > 0 && memory_of(p) > (double)in->memory_bytes &&
           p->accumulation < p->batch)
        p->accumulation *= 2; /* both are powers of two */
    p->memory_bytes = (size_t)memory_of(p);
}

/* Rates, and when the run stops to look. */
static void set_course(const focal_plan_input *in, focal_plan *p)
{
    const double step_tokens = (double)p->batch * p->length, steps = (double)p->steps;
    const double whole = steps * step_tokens;
    p->rate = 0.0015 * sqrt(512.0 / p->width);
    p->warmup = (int64_t)clamp(steps / 20.0, 1.0, 200.0);
    p->epochs = whole / training_tokens(p);
    p->seconds = whole * p->token_flops / in->flops;
    p->valid_every = (int64_t)fmax(1.0, ceil(steps / STOPS));
    p->sample_every = p->valid_every;
    /* A validation at each stop takes a hundredth of the time at most: its passes cost a third. */
    p->valid_tokens = (int64_t)clamp(0.03 * whole / STOPS, p->length, 131072.0);
    /* A kill loses a twentieth of the run, between half a minute and ten. */
    const double between = clamp(p->seconds / 20.0, 30.0, 600.0);
    p->checkpoint_every = (int64_t)fmax(1.0, ceil(steps * between / fmax(p->seconds, 1e-9)));
}

static focal_status check_input(focal_ctx *ctx, const focal_plan_input *in)
{
    if (in->tokens == 0 && in->text_bytes < FOCAL_PLAN_LEAST_BYTES)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "train: %lld bytes of text are too few to learn from: %d are the least, "
                         "and from about a million on a model begins to write words",
                         (long long)in->text_bytes, FOCAL_PLAN_LEAST_BYTES);
    if (in->tokens != 0 && in->tokens < FOCAL_PLAN_LEAST_TOKENS)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "train: the text has %lld tokens, %d are the least: it is too short, or "
                         "always says the same",
                         (long long)in->tokens, FOCAL_PLAN_LEAST_TOKENS);
    if (in->vocab < 0 || in->documents < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "plan: a vocabulary of %d, %lld documents", in->vocab,
                         (long long)in->documents);
    if (!(in->minutes > 0.0 && in->minutes <= 1e9) || !(in->flops > 0.0 && in->flops <= 1e21))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "plan: %g minutes of %g operations a second: both must be above 0",
                         in->minutes, in->flops);
    return FOCAL_OK;
}

focal_status focal_plan_make(focal_ctx *ctx, const focal_plan_input *input, focal_plan *plan)
{
    focal_plan_limit limit = FOCAL_PLAN_LADDER;
    *plan = (focal_plan){0};
    FOCAL_TRY(check_input(ctx, input));
    set_shape(input, &ladder[0], plan);
    if (input->memory_bytes > 0 && memory_of(plan) > (double)input->memory_bytes)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "train: the smallest model takes %.0f MB of memory, there are %.0f",
                         1e-6 * memory_of(plan), 1e-6 * (double)input->memory_bytes);
    for (size_t n = 1; n < FOCAL_COUNT(ladder); n++) {
        focal_plan larger;
        set_shape(input, &ladder[n], &larger);
        if (is_beyond(input, &larger, &limit)) break;
        *plan = larger;
    }
    plan->limit = limit;
    set_steps(input, plan);
    set_course(input, plan);
    return FOCAL_OK;
}
