/* From the settings of a run to data and a model. */
#include "train/start.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/file.h"
#include "model/low_rank_model.h"
#include "text/corpus.h"
#include "train/group_setup.h"
#include "train/run_groups.h"
#include "train/shard_tokens.h"

static focal_status open_data(foci_start *s, const foci_run *run)
{
    const char *folder = run->data.shards;
    if (!foci_run_has_data(run)) return FOCAL_OK;
    FOCAL_TRY(foci_run_check_data(s->ctx, run));
    FOCAL_TRY(foci_shards_open(s->ctx, folder, false, &s->shards));
    s->info = foci_shards_describe(s->shards);
    s->tokens = foci_shard_tokens(s->shards);
    s->tokenizer_path = foci_path_join(s->ctx, folder, strlen(folder), "tokenizer.json");
    if (!s->tokenizer_path) return FOCAL_ENOMEM;
    if (access(s->tokenizer_path, F_OK) != 0) { /* sets of other programs have none */
        foci_free(s->ctx, s->tokenizer_path);
        s->tokenizer_path = NULL;
    }
    return FOCAL_OK;
}

/* The vocabulary must have a row for every id of the data. */
static focal_status check_vocabulary(const foci_start *s, const foci_run *run, const char *whose,
                                     int64_t vocabulary)
{
    if (vocabulary >= s->info.vocab) return FOCAL_OK;
    return foci_fail(s->ctx, FOCAL_EINVAL, "run: %s has %lld ids, the shards in %.300s have %d",
                     whose, (long long)vocabulary, run->data.shards, s->info.vocab);
}

/* Marks the numbers of a list; *marks stays NULL where it stands for all. */
static focal_status mark(focal_ctx *ctx, const char *key, const foci_run_list *list, int32_t count,
                         bool **marks)
{
    if (list->count == 0) return FOCAL_OK;
    const int64_t last = list->values[list->count - 1];
    if (last >= count)
        return foci_fail(ctx, FOCAL_EINVAL, "run: '%s' names number %lld, the model's last is %d",
                         key, (long long)last, count - 1);
    *marks = foci_alloc(ctx, (size_t)count, sizeof **marks);
    if (!*marks) return FOCAL_ENOMEM;
    memset(*marks, 0, (size_t)count * sizeof **marks);
    for (int64_t n = 0; n < list->count; n++) (*marks)[list->values[n]] = true;
    return FOCAL_OK;
}

/* Makes the trainable of a source, or a new one of the configuration. */
static focal_status make(foci_start *s, const foci_run *run, const foci_config *config,
                         focal_model *source)
{
    static const foci_temperature_kind kinds[] = {[FOCI_RUN_T_CONSTANT] = FOCI_TEMPERATURE_CONSTANT,
                                                  [FOCI_RUN_T_LEARNED] = FOCI_TEMPERATURE_LEARNED,
                                                  [FOCI_RUN_T_LEARNED_PAPER] =
                                                      FOCI_TEMPERATURE_LEARNED_PAPER,
                                                  [FOCI_RUN_T_PER_HEAD] = FOCI_TEMPERATURE_PER_HEAD,
                                                  [FOCI_RUN_T_LENGTH] = FOCI_TEMPERATURE_LENGTH};
    bool *layers = NULL, *heads = NULL;
    focal_status status =
        mark(s->ctx, "temperature.layers", &run->temperature.layers, config->L, &layers);
    if (status == FOCAL_OK)
        status = mark(s->ctx, "temperature.heads", &run->temperature.heads, config->H, &heads);
    const float t = (float)run->temperature.value;
    /* c = 0 of kind length is no length, and the choice has another meaning for it. */
    const bool is_flat =
        run->temperature.kind == FOCI_RUN_T_LENGTH && run->temperature.length_c == 0.0;
    const foci_temperature_choice choice = {.kind = is_flat ? FOCI_TEMPERATURE_CONSTANT
                                                            : kinds[run->temperature.kind],
                                            .t = t,
                                            .a = t,
                                            .c = (float)run->temperature.length_c,
                                            .length = (float)run->temperature.length_n0,
                                            .layers = layers,
                                            .heads = heads};
    const bool has_none = choice.kind == FOCI_TEMPERATURE_CONSTANT && t == 1.0F;
    const foci_trainable_options options = {
        .precision = run->precision == FOCI_RUN_F32 ? FOCAL_F32 : FOCAL_BF16,
        .has_fixed_qk_gains = run->model.qk_norm == FOCI_RUN_QK_PLAIN,
        .temperature = has_none ? NULL : &choice};
    if (status == FOCAL_OK)
        status = source ? foci_trainable_from(source, &options, &s->trainable)
                        : foci_trainable_new(s->ctx, config, (uint64_t)run->seed, &options,
                                             &s->trainable);
    foci_free(s->ctx, layers);
    foci_free(s->ctx, heads);
    return status;
}

/* The gains of the queries' norms, in all layers. */
static void begin_gains(const foci_trainable *t, float gain)
{
    const foci_model_weights *weights = &t->model->weights;
    for (int32_t n = 0; n < t->param_count; n++)
        for (int32_t layer = 0; layer < t->model->config.L; layer++)
            if (t->params[n].weights == weights->layers[layer].q_norm.weight)
                for (int64_t i = 0; i < t->params[n].cols; i++) t->params[n].weights[i] = gain;
}

static focal_status make_new(foci_start *s, const foci_run *run)
{
    const bool is_gpt2 = run->model.family == FOCI_RUN_GPT2;
    /* A Qwen3 without query-key norm is a Llama. */
    const char *family = is_gpt2                                  ? "gpt2"
                         : run->model.qk_norm == FOCI_RUN_QK_NONE ? "llama"
                                                                  : "qwen3";
    const int64_t vocabulary = run->model.vocabulary;
    if (vocabulary > 0) FOCAL_TRY(check_vocabulary(s, run, "model.vocabulary", vocabulary));
    const foci_shape shape = {.family = foci_family_of_hf(family),
                              .L = (int32_t)run->model.layers,
                              .C = (int32_t)run->model.width,
                              .H = (int32_t)run->model.heads,
                              .G = (int32_t)run->model.kv_heads,
                              .D = (int32_t)run->model.head_dim,
                              .F = (int32_t)run->model.ffn,
                              .V = vocabulary > 0 ? (int32_t)vocabulary : s->info.vocab,
                              .context = (int32_t)run->data.length,
                              .rope_base = run->model.rope_base,
                              .is_tied = run->model.tied};
    foci_config config;
    FOCAL_TRY(foci_config_new(s->ctx, &shape, &config));
    FOCAL_TRY(make(s, run, &config, NULL));
    if (run->model.qk_gain != 1.0) begin_gains(s->trainable, (float)run->model.qk_gain);
    return FOCAL_OK;
}

/* A new base of the rotation, or the context stretched by yarn, before training goes on. */
static focal_status change_rope(focal_ctx *ctx, const foci_run *run, focal_model *model)
{
    foci_config *c = &model->config;
    const double base = run->start.rope_base, factor = run->start.yarn_factor;
    if (base <= 0.0 && factor <= 1.0) return FOCAL_OK;
    if (c->has_positions)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: start.rope_base and start.yarn_factor say how rotations change, "
                         "%.300s has learned positions",
                         run->start.from);
    if (base > 0.0) c->rope.base = base;
    if (factor > 1.0) {
        if (c->rope.kind != FOCI_ROPE_PLAIN)
            return foci_fail(ctx, FOCAL_EINVAL,
                             "run: start.yarn_factor is %g, the context of %.300s is stretched "
                             "already",
                             factor, run->start.from);
        c->rope.kind = FOCI_ROPE_YARN;
        c->rope.factor = factor;
        c->rope.original_context = c->context;
        const double context = factor * c->context;
        c->context = context < FOCI_MAX_CONTEXT ? (int32_t)context : FOCI_MAX_CONTEXT;
    }
    return foci_rope_table(ctx, &c->rope, model->inv_freq[0], &model->rope_scale[0]);
}

/* Whether a model that was opened can read the windows, and ids, of the run. */
static focal_status check_source(foci_start *s, const foci_run *run, focal_model *source)
{
    foci_config *c = &source->config;
    const focal_tokenizer *tokenizer = focal_model_tokenizer(source);
    FOCAL_TRY(check_vocabulary(s, run, run->start.from, c->V));
    if (foci_run_has_data(run) && c->has_positions && run->data.length > c->context)
        return foci_fail(s->ctx, FOCAL_EINVAL,
                         "run: data.length is %lld, %.300s has %d learned positions",
                         (long long)run->data.length, run->start.from, c->context);
    c->context = (int32_t)foci_max64(c->context, run->data.length);
    if (s->shards && tokenizer && foci_tokenizer_fingerprint(tokenizer) != s->info.fingerprint)
        (void)snprintf(s->note, sizeof s->note,
                       "the shards were made with another tokenizer than that of %.300s",
                       run->start.from);
    return FOCAL_OK;
}

static focal_status make_from(foci_start *s, const foci_run *run, focal_model *source)
{
    const foci_config *c = &source->config;
    if (run->model.qk_norm == FOCI_RUN_QK_NONE && c->qk_norm != FOCI_QK_NONE)
        return foci_fail(s->ctx, FOCAL_EINVAL,
                         "run: model.qk_norm is none, %.300s has a norm of queries and keys: plain "
                         "leaves its gains as they are, gain trains them",
                         run->start.from);
    FOCAL_TRY(change_rope(s->ctx, run, source));
    FOCAL_TRY(check_source(s, run, source));
    return make(s, run, c, source);
}

static focal_status continue_model(foci_start *s, const foci_run *run)
{
    focal_model *source = NULL;
    FOCAL_TRY(focal_model_open(s->ctx, run->start.from, NULL, &source));
    const focal_status status = make_from(s, run, source);
    focal_model_close(source);
    return status;
}

/* LoRA as it begins. */
static focal_status begin_low_ranks(foci_start *s, const foci_run *run)
{
    const foci_run_list *list = &run->groups.layers;
    bool layers[FOCI_MAX_LAYERS] = {false};
    foci_low_rank_choice choice = {
        .rank = (int32_t)run->lora.rank, .alpha = run->lora.alpha, .seed = (uint64_t)run->seed};
    for (int place = 0; place < FOCI_LINEAR_PLACES; place++)
        choice.places[place] = run->lora.targets == FOCI_RUN_LORA_ALL || place == FOCI_LINEAR_Q ||
                               place == FOCI_LINEAR_V;
    for (int64_t n = 0; n < list->count; n++) {
        if (list->values[n] >= s->model->config.L)
            return foci_fail(s->ctx, FOCAL_EINVAL,
                             "run: 'groups.layers' names number %lld, the model's last is %d",
                             (long long)list->values[n], s->model->config.L - 1);
        layers[list->values[n]] = true;
        choice.layers = layers;
    }
    return foci_low_ranks_begin(s->model, &choice, &s->low_ranks);
}

/* Windows are as long as the model was made for, at most, where nobody says how long. */
static focal_status limit_length(const foci_start *s, foci_run *run)
{
    const int64_t most = foci_max64(s->made_for, 2);
    if (!foci_run_has_data(run) || foci_run_is_given(run, "data.length") ||
        run->data.length <= most)
        return FOCAL_OK;
    run->data.length = most;
    return foci_run_resolve(s->ctx, run); /* passes depend on it */
}

/* Groups or LoRA, which are all that learns beside s->model. */
static focal_status make_beside(foci_start *s, foci_run *run)
{
    s->made_for = s->model->config.context;
    FOCAL_TRY(limit_length(s, run));
    FOCAL_TRY(check_source(s, run, s->model));
    if (run->groups.method == FOCI_RUN_LORA) {
        FOCAL_TRY(begin_low_ranks(s, run));
        return foci_trainable_low_ranks(s->model, s->low_ranks, &s->trainable);
    }
    FOCAL_TRY(foci_group_setup(s->ctx, run, s->model, &s->groups));
    return foci_trainable_frozen(s->model, s->groups, &s->trainable);
}

/* The model stays where it lies. */
static focal_status freeze_model(foci_start *s, foci_run *run)
{
    const focal_model_options options = {.precision = run->precision == FOCI_RUN_F32 ? FOCAL_F32
                                                                                     : FOCAL_BF16,
                                         .has_precision = true};
    FOCAL_TRY(focal_model_open(s->ctx, run->start.from, &options, &s->model));
    return make_beside(s, run);
}

focal_status foci_start_check(focal_ctx *ctx, foci_run *run, focal_model *model)
{
    foci_start s = {.ctx = ctx, .model = model};
    const int32_t context = model->config.context;
    if (run->learn != FOCI_RUN_LEARN_GROUPS)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: learn = all makes a model of its own, there is none to check");
    const focal_status status = make_beside(&s, run);
    model->config.context = context;
    s.model = NULL; /* the caller's */
    foci_start_close(&s);
    return status;
}

/* Groups beside all weights, and where they learn alone at first, a second view of both. */
static focal_status add_groups(foci_start *s, const foci_run *run)
{
    if (!foci_run_has_groups(run)) return FOCAL_OK;
    FOCAL_TRY(foci_group_setup(s->ctx, run, s->trainable->model, &s->groups));
    FOCAL_TRY(foci_trainable_add_groups(s->trainable, s->groups));
    if (run->groups.first == 0) return FOCAL_OK;
    return foci_trainable_frozen(s->trainable->model, s->groups, &s->only_groups);
}

static focal_status make_model(foci_start *s, foci_run *run)
{
    if (run->learn == FOCI_RUN_LEARN_GROUPS) return freeze_model(s, run);
    FOCAL_TRY(run->start.from[0] != '\0' ? continue_model(s, run) : make_new(s, run));
    return add_groups(s, run);
}

/* What samples are written with. */
static focal_status open_tokenizer(foci_start *s)
{
    focal_model *model = s->trainable->model;
    if (!s->tokenizer_path || s->model) return FOCAL_OK;
    FOCAL_TRY(focal_tokenizer_open(s->ctx, s->tokenizer_path, &model->tokenizer));
    const int32_t size = focal_tokenizer_size(model->tokenizer);
    if (size <= model->config.V) return FOCAL_OK;
    return foci_fail(s->ctx, FOCAL_EFORMAT, "%s: a tokenizer of %d ids, the model has %d",
                     s->tokenizer_path, size, model->config.V);
}

focal_status foci_start_open(focal_ctx *ctx, foci_run *run, foci_start *start)
{
    *start = (foci_start){.ctx = ctx};
    focal_status status = open_data(start, run);
    if (status == FOCAL_OK) status = make_model(start, run);
    if (status == FOCAL_OK) status = open_tokenizer(start);
    if (status != FOCAL_OK) foci_start_close(start);
    return status;
}

void foci_start_close(foci_start *start)
{
    if (!start->ctx) return;
    foci_trainable_free(start->only_groups);
    foci_trainable_free(start->trainable);
    foci_groups_free(start->ctx, start->groups);
    foci_low_ranks_free(start->ctx, start->low_ranks);
    focal_model_close(start->model);
    foci_shards_close(start->shards);
    foci_free(start->ctx, start->tokenizer_path);
    *start = (foci_start){0};
}

void foci_start_ramp(const foci_start *start, const foci_run *run, int64_t step)
{
    const int64_t steps = run->start.ramp_steps;
    if (steps == 0) return;
    const double part = (double)foci_min64(step, steps) / (double)steps;
    const float value = (float)(1.0 + part * (run->temperature.value - 1.0));
    const foci_trainable *t = start->trainable;
    t->model->config.temperature.t = value;
    for (int32_t n = 0; n < t->model->config.L; n++) t->temperatures[n].t = value;
}
