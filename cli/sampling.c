/* How tokens are chosen, from the command line; the names are llama.cpp's. */
#include "sampling.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "cli.h"

sampling_choice sampling_defaults(void)
{
    return (sampling_choice){.temperature = 0.8,
                             .top_k = 40,
                             .top_p = 0.95,
                             .min_p = 0.05,
                             .repeat_penalty = 1.0,
                             .repeat_last = 64,
                             .seed = -1};
}

void sampling_options(sampling_choice *c, cli_option *options)
{
    const cli_option rows[SAMPLING_OPTIONS] = {
        {"temp", 0, CLI_NUMBER, &c->temperature, "T",
         "temperature; 0 always takes the likeliest token [the model's, or 0.8]", 0, 100, NULL,
         &c->has_temperature},
        {"top-k", 0, CLI_INT, &c->top_k, "K",
         "choose among the K likeliest tokens; 0: all [the model's, or 40]", 0, 1 << 22, NULL,
         &c->has_top_k},
        {"top-p", 0, CLI_NUMBER, &c->top_p, "P",
         "choose among the likeliest that add up to P; 1: all [the model's, or 0.95]", 0, 1, NULL,
         &c->has_top_p},
        {"min-p", 0, CLI_NUMBER, &c->min_p, "P",
         "none below P times the likeliest; 0: all [the model's, or 0.05]", 0, 1, NULL,
         &c->has_min_p},
        {"repeat-penalty", 0, CLI_NUMBER, &c->repeat_penalty, "X",
         "divide the logits of recent tokens by X; 1: off [the model's, or 1]", 0.01, 100, NULL,
         &c->has_repeat_penalty},
        {"repeat-last-n", 0, CLI_INT, &c->repeat_last, "N",
         "how many tokens are recent; -1: all [64]", -1, 1 << 27, NULL, NULL},
        {"presence-penalty", 0, CLI_NUMBER, &c->presence_penalty, "X",
         "subtract X from the logits of recent tokens [0]", -100, 100, NULL, NULL},
        {"frequency-penalty", 0, CLI_NUMBER, &c->frequency_penalty, "X",
         "the same, for each time that they occur [0]", -100, 100, NULL, NULL},
        {"logit-bias", 0, CLI_TEXTS, &c->bias_texts, "ID+X",
         "add X to a token's logit: 15043+1, 2-inf; may be repeated", 0, 0, NULL, NULL},
        {"seed", 's', CLI_INT, &c->seed, "N",
         "seed of the random choice; -1: a new one each time [-1]", -1, 9e15, NULL, NULL},
    };
    for (int n = 0; n < SAMPLING_OPTIONS; n++) options[n] = rows[n];
}

/* Microseconds: two runs in one second differ, and --seed takes the number back. */
static int64_t seed_from_clock(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int sampling_make(const char *command, sampling_choice *c, focal_sampling *sampling)
{
    for (int32_t n = 0; n < c->bias_texts.count; n++) {
        char *end = NULL;
        const long id = strtol(c->bias_texts.items[n], &end, 10);
        const char *sign = end;
        const double bias = *sign == '+' || *sign == '-' ? strtod(sign, &end) : (double)NAN;
        if (sign == c->bias_texts.items[n] || *end || isnan(bias) || id < 0 || id > INT32_MAX)
            return cli_wrong("%s: --logit-bias must be an id, + or -, and a number, not '%s'",
                             command, c->bias_texts.items[n]);
        c->biases[n] = (focal_logit_bias){(int32_t)id, (float)bias};
    }
    if (c->seed < 0) c->seed = seed_from_clock();
    *sampling = (focal_sampling){
        .temperature = (float)c->temperature,
        .top_k = (int32_t)c->top_k,
        .top_p = (float)c->top_p,
        .min_p = (float)c->min_p,
        .repeat_penalty = (float)c->repeat_penalty,
        .presence_penalty = (float)c->presence_penalty,
        .frequency_penalty = (float)c->frequency_penalty,
        .repeat_last = (int32_t)(c->repeat_last == 0 ? 1 : c->repeat_last),
        .biases = c->biases,
        .bias_count = c->bias_texts.count,
        .seed = (uint64_t)c->seed,
    };
    if (c->repeat_last == 0) { /* nothing is recent */
        sampling->repeat_penalty = 1.0F;
        sampling->presence_penalty = sampling->frequency_penalty = 0.0F;
    }
    return -1;
}

void sampling_suggested(const sampling_choice *c, const focal_model *model,
                        focal_sampling *sampling)
{
    const focal_suggestion s = focal_model_suggest(model);
    if (s.has_temperature && !c->has_temperature) sampling->temperature = s.temperature;
    if (s.has_top_k && !c->has_top_k) sampling->top_k = s.top_k;
    if (s.has_top_p && !c->has_top_p) sampling->top_p = s.top_p;
    if (s.has_min_p && !c->has_min_p) sampling->min_p = s.min_p;
    if (s.has_repeat_penalty && !c->has_repeat_penalty) sampling->repeat_penalty = s.repeat_penalty;
}
