/* Lists the parameters of a configuration, twice: the first pass counts, the second points into the
 * memory and fills it. */
#include "model/trainable.h"

#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/sizes.h"
#include "focal/quant.h"
#include "model/low_rank_model.h"

static const float deviation = 0.02F;

/* A pass over all parameters. */
typedef struct builder {
    foci_trainable *t;
    const foci_config *config;
    const foci_model_weights *source; /* NULL: a new model */
    const foci_trainable_options *options;
    foci_weight_names names;
    uint64_t seed;
    bool is_placed; /* false in the pass that counts */
} builder;

/* How the numbers of a new tensor begin. */
typedef struct start {
    float value, deviation;
} start;

static void fill_new(const builder *b, const foci_param *param, start from)
{
    const uint64_t stream = (uint64_t)b->t->param_count;
    const int64_t count = param->rows * param->cols;
    for (int64_t n = 0; n < count; n++)
        param->weights[n] = from.deviation > 0.0F
                                ? from.deviation * foci_random_normal(b->seed, stream, (uint64_t)n)
                                : from.value;
}

/* Takes the next tensor's place; NULL in the pass that counts. */
static foci_param *add_param(builder *b, int32_t layer, const char *part, const char *suffix,
                             int64_t rows, int64_t cols, bool is_trained)
{
    foci_trainable *t = b->t;
    const size_t count = (size_t)foci_round_up(rows * cols, FOCI_PARAM_STEP);
    const bool is_matrix = rows > 1;
    const bool is_rounded = is_matrix && b->options->precision == FOCAL_BF16;
    foci_param *param = b->is_placed ? &t->params[t->param_count] : NULL;
    if (param) {
        *param = (foci_param){.rows = rows,
                              .cols = cols,
                              .is_matrix = is_matrix,
                              .is_in_layer = layer >= 0,
                              .weights = t->weights + t->weight_count,
                              .gradient = is_trained ? t->gradients + t->gradient_count : NULL,
                              .rounded = is_rounded ? t->rounded + t->rounded_count : NULL};
        foci_weight_name(&b->names, layer, part, suffix, param->name);
    }
    t->weight_count += count;
    if (is_trained) t->gradient_count += count;
    if (is_rounded) t->rounded_count += count;
    t->param_count++;
    return param;
}

static float *add_vector(builder *b, int32_t layer, const char *part, const char *suffix,
                         int64_t count, const float *from, float value, bool is_trained,
                         const float **to)
{
    foci_param *param = add_param(b, layer, part, suffix, 1, count, is_trained);
    if (!param) return NULL;
    if (from)
        memcpy(param->weights, from, (size_t)count * sizeof *from);
    else
        fill_new(b, param, (start){value, 0.0F});
    *to = param->weights;
    return param->gradient;
}

static void add_gain(builder *b, int32_t layer, const char *part, int64_t count,
                     const foci_gain *from, bool is_trained, foci_gain *to, foci_gain_grads *grads)
{
    const bool has_bias = b->source ? from->bias != NULL : b->config->norm == FOCI_NORM_LAYER;
    if (b->source && !from->weight) return;
    *to = (foci_gain){.dtype = FOCAL_F32, .bias_dtype = FOCAL_F32};
    grads->weight = add_vector(b, layer, part, "weight", count, b->source ? from->weight : NULL,
                               1.0F - b->config->norm_offset, is_trained, &to->weight);
    if (has_bias)
        grads->bias = add_vector(b, layer, part, "bias", count, b->source ? from->bias : NULL, 0.0F,
                                 is_trained, &to->bias);
}

static void add_linear(builder *b, int32_t layer, const char *part, int64_t N, int64_t K,
                       const foci_linear *from, float spread, foci_linear *to,
                       foci_linear_grads *grads)
{
    const bool is_new = b->source == NULL;
    if (!is_new && !from->w) return;
    /* A new GPT-2 lies as its own files do. */
    const bool is_gpt2 = b->config->family->is_gpt2;
    const bool is_transposed = is_new ? is_gpt2 && layer >= 0 : from->is_transposed;
    const int64_t rows = is_transposed ? K : N, cols = is_transposed ? N : K;
    foci_param *param = add_param(b, layer, part, "weight", rows, cols, true);
    const bool has_bias = is_new ? is_gpt2 && layer >= 0 : from->bias != NULL;
    *to = (foci_linear){.N = (int32_t)N, .K = (int32_t)K, .is_transposed = is_transposed};
    if (param) {
        if (is_new)
            fill_new(b, param, (start){0.0F, spread});
        else
            foci_linear_expand(from, param->weights);
        to->dtype = param->rounded ? FOCAL_BF16 : FOCAL_F32;
        to->w = param->rounded ? (const void *)param->rounded : (const void *)param->weights;
        grads->w = param->gradient;
    }
    if (!has_bias) return;
    to->bias_dtype = FOCAL_F32;
    grads->bias =
        add_vector(b, layer, part, "bias", N, is_new ? NULL : from->bias, 0.0F, true, &to->bias);
}

/* The temperature of a layer; its parameters are listed behind the weights of the layer. */
static void add_temperature(builder *b, int32_t n)
{
    static const foci_temperature none;
    foci_trainable *t = b->t;
    const foci_config *c = &t->model->config;
    const foci_temperature_config *scope = &c->temperature;
    const foci_temperature_choice *choice = b->options->temperature;
    foci_layer_grads *grads = &t->layers[n];
    if (!foci_temperature_reaches(scope, n)) return;
    const foci_temperature *from = b->source ? b->source->layers[n].temperature : NULL;
    if (!from) from = &none;
    foci_temperature *to = &t->temperatures[n];
    *to = (foci_temperature){.kind = scope->kind,
                             .t = scope->t,
                             .c = scope->c,
                             .length = scope->length,
                             .heads = scope->has_heads ? t->heads : NULL};
    const char *part = b->names.temperature;
    if (scope->kind == FOCI_TEMPERATURE_LEARNED || scope->kind == FOCI_TEMPERATURE_LEARNED_PAPER)
        grads->u = add_vector(b, n, part, "u", c->C, from->u, 0.0F, true, &to->u);
    if (scope->kind == FOCI_TEMPERATURE_LEARNED)
        grads->a = add_vector(b, n, part, "a", 1, from->a,
                              choice && choice->a > 0.0F ? choice->a : 0.6F, true, &to->a);
    if (scope->kind == FOCI_TEMPERATURE_PER_HEAD)
        grads->lt = add_vector(b, n, part, "lt", c->H, from->lt, logf(scope->t), true, &to->lt);
    t->model->weights.layers[n].temperature = to;
}

static void add_layer(builder *b, int32_t n)
{
    static const foci_layer none;
    const foci_config *c = b->config;
    const foci_weight_names *names = &b->names;
    const foci_layer *from = b->source ? &b->source->layers[n] : &none;
    foci_layer *to = &b->t->model->weights.layers[n];
    foci_layer_grads *grads = &b->t->layers[n];
    const int64_t Q = (int64_t)c->H * c->D, KV = (int64_t)c->G * c->D;
    const float last = deviation / sqrtf(2.0F * (float)c->L);
    const bool trains_gains = !b->options->has_fixed_qk_gains;
    if (c->norm_place != FOCI_NORM_AFTER) {
        add_gain(b, n, names->attn_norm, c->C, &from->attn_norm, true, &to->attn_norm,
                 &grads->attn_norm);
        add_gain(b, n, names->ffn_norm, c->C, &from->ffn_norm, true, &to->ffn_norm,
                 &grads->ffn_norm);
    }
    if (c->norm_place != FOCI_NORM_BEFORE) {
        add_gain(b, n, names->attn_post, c->C, &from->attn_post, true, &to->attn_post,
                 &grads->attn_post);
        add_gain(b, n, names->ffn_post, c->C, &from->ffn_post, true, &to->ffn_post,
                 &grads->ffn_post);
    }
    if (c->qk_norm != FOCI_QK_NONE) {
        const bool is_head = c->qk_norm == FOCI_QK_HEAD;
        add_gain(b, n, names->q_norm, is_head ? c->D : Q, &from->q_norm, trains_gains, &to->q_norm,
                 &grads->q_norm);
        add_gain(b, n, names->k_norm, is_head ? c->D : KV, &from->k_norm, trains_gains, &to->k_norm,
                 &grads->k_norm);
    }
    if (c->family->is_gpt2) {
        add_linear(b, n, names->qkv, Q + 2 * KV, c->C, &from->qkv, deviation, &to->qkv,
                   &grads->qkv);
    } else {
        add_linear(b, n, names->q, Q, c->C, &from->q, deviation, &to->q, &grads->q);
        add_linear(b, n, names->k, KV, c->C, &from->k, deviation, &to->k, &grads->k);
        add_linear(b, n, names->v, KV, c->C, &from->v, deviation, &to->v, &grads->v);
    }
    add_linear(b, n, names->out, c->C, Q, &from->out, last, &to->out, &grads->out);
    if (c->is_gated)
        add_linear(b, n, names->gate, c->F, c->C, &from->gate, deviation, &to->gate, &grads->gate);
    add_linear(b, n, names->up, c->F, c->C, &from->up, deviation, &to->up, &grads->up);
    add_linear(b, n, names->down, c->C, c->F, &from->down, last, &to->down, &grads->down);
    add_temperature(b, n);
}

static void add_all(builder *b)
{
    static const foci_model_weights none;
    const foci_config *c = b->config;
    const foci_model_weights *from = b->source ? b->source : &none;
    foci_trainable *t = b->t;
    foci_model_weights *w = &t->model->weights;
    t->param_count = 0;
    t->weight_count = t->gradient_count = t->rounded_count = 0;
    add_linear(b, -1, b->names.embed, c->V, c->C, &from->embed, deviation, &w->embed, &t->embed);
    if (c->has_positions)
        add_linear(b, -1, b->names.positions, c->context, c->C, &from->positions, deviation,
                   &w->positions, &t->positions);
    add_gain(b, -1, b->names.final_norm, c->C, &from->final_norm, true, &w->final_norm,
             &t->final_norm);
    w->is_tied = b->source ? from->is_tied : c->is_tied;
    if (w->is_tied) {
        w->head = w->embed;
        t->head = t->embed;
    } else {
        add_linear(b, -1, b->names.head, c->V, c->C, &from->head, deviation, &w->head, &t->head);
    }
    for (int32_t n = 0; n < c->L; n++) add_layer(b, n);
}

/* Tables of rotation are the configuration's; a file's divisors are copied. */
static focal_status copy_rope(focal_model *to, const focal_model *from)
{
    const int32_t pairs = to->config.rope.rotated / 2;
    memcpy(to->inv_freq, from->inv_freq, sizeof to->inv_freq);
    memcpy(to->rope_scale, from->rope_scale, sizeof to->rope_scale);
    if (!from->weights.rope_divisors) return FOCAL_OK;
    to->weights.rope_divisors = foci_alloc(to->ctx, (size_t)pairs, sizeof(float));
    if (!to->weights.rope_divisors) return FOCAL_ENOMEM;
    memcpy(to->weights.rope_divisors, from->weights.rope_divisors, (size_t)pairs * sizeof(float));
    to->config.rope.divisors = to->weights.rope_divisors;
    return FOCAL_OK;
}

static focal_status make_rope(focal_model *model)
{
    const foci_config *c = &model->config;
    if (c->has_positions) return FOCAL_OK;
    FOCAL_TRY(foci_rope_table(model->ctx, &c->rope, model->inv_freq[0], &model->rope_scale[0]));
    return foci_rope_table(model->ctx, &c->rope_local, model->inv_freq[1], &model->rope_scale[1]);
}

/* A list that names all is none. */
static bool has_gap(const bool *marks, int32_t count)
{
    for (int32_t n = 0; marks && n < count; n++)
        if (!marks[n]) return true;
    return false;
}

static focal_status scope_of(focal_ctx *ctx, const foci_temperature_choice *choice,
                             const foci_config *c, foci_temperature_config *to)
{
    *to = (foci_temperature_config){.is_there = true,
                                    .kind = choice->kind,
                                    .t = choice->t == 0.0F ? 1.0F : choice->t,
                                    .has_layers = has_gap(choice->layers, c->L),
                                    .has_heads = has_gap(choice->heads, c->H)};
    if (choice->kind == FOCI_TEMPERATURE_LENGTH) {
        to->c = choice->c == 0.0F ? 0.1F : choice->c;
        to->length = choice->length;
    }
    if (to->has_layers) memcpy(to->layers, choice->layers, (size_t)c->L * sizeof *to->layers);
    if (to->has_heads && c->H > FOCI_MAX_LISTED_HEADS)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "training: a temperature for some of %d heads, at most %d can be", c->H,
                         FOCI_MAX_LISTED_HEADS);
    if (to->has_heads) memcpy(to->heads, choice->heads, (size_t)c->H * sizeof *to->heads);
    return FOCAL_OK;
}

/* The temperature that the model will have. One that it has already stays: a choice may move its
 * numbers, but what was learned under one kind and scope means nothing under another. A constant 1
 * is no choice. */
static focal_status choose_temperature(const builder *b, foci_temperature_config *to)
{
    const foci_temperature_choice *choice = b->options->temperature;
    const foci_temperature_config *own = &b->config->temperature;
    *to = *own;
    if (!choice) return FOCAL_OK;
    const bool asks_nothing = choice->kind == FOCI_TEMPERATURE_CONSTANT && choice->t == 1.0F;
    if (own->is_there && asks_nothing) return FOCAL_OK;
    FOCAL_TRY(scope_of(b->t->ctx, choice, b->config, to));
    if (!own->is_there || (own->kind == to->kind && own->has_layers == to->has_layers &&
                           own->has_heads == to->has_heads &&
                           memcmp(own->layers, to->layers, sizeof own->layers) == 0 &&
                           memcmp(own->heads, to->heads, sizeof own->heads) == 0))
        return FOCAL_OK;
    return foci_fail(b->t->ctx, FOCAL_EINVAL,
                     "training: the model has a temperature of kind %s, which stays: kind, layers "
                     "and heads must be the same",
                     foci_temperature_kind_name(own->kind));
}

void *foci_trainable_zeros(focal_ctx *ctx, size_t count, size_t size)
{
    void *block = foci_alloc(ctx, count, size);
    if (block) memset(block, 0, count * size);
    return block;
}

static focal_status build(builder *b, const focal_model *source)
{
    foci_trainable *t = b->t;
    const foci_config *c = b->config;
    t->model = foci_trainable_zeros(t->ctx, 1, sizeof *t->model);
    if (!t->model) return FOCAL_ENOMEM;
    t->model->ctx = t->ctx;
    t->layers = foci_trainable_zeros(t->ctx, (size_t)c->L, sizeof *t->layers);
    t->temperatures = foci_trainable_zeros(t->ctx, (size_t)c->L, sizeof *t->temperatures);
    t->heads = foci_trainable_zeros(t->ctx, (size_t)c->H, sizeof *t->heads);
    if (!t->layers || !t->temperatures || !t->heads) return FOCAL_ENOMEM;
    t->model->config = *c;
    foci_temperature_config *temperature = &t->model->config.temperature;
    FOCAL_TRY(choose_temperature(b, temperature));
    if (temperature->has_heads)
        memcpy(t->heads, temperature->heads, (size_t)c->H * sizeof *t->heads);
    t->model->precision = b->options->precision;
    t->model->weights.layers = foci_trainable_zeros(t->ctx, (size_t)c->L, sizeof(foci_layer));
    if (!t->model->weights.layers) return FOCAL_ENOMEM;
    FOCAL_TRY(source ? copy_rope(t->model, source) : make_rope(t->model));
    b->names = foci_weight_names_hf(c);
    add_all(b);
    t->params = foci_trainable_zeros(t->ctx, (size_t)t->param_count, sizeof *t->params);
    t->weights = foci_trainable_zeros(t->ctx, t->weight_count, sizeof *t->weights);
    t->gradients = foci_trainable_zeros(t->ctx, t->gradient_count, sizeof *t->gradients);
    t->rounded = foci_trainable_zeros(t->ctx, t->rounded_count + 1, sizeof *t->rounded);
    if (!t->params || !t->weights || !t->gradients || !t->rounded) return FOCAL_ENOMEM;
    b->is_placed = true;
    add_all(b);
    foci_trainable_round(t);
    return FOCAL_OK;
}

static focal_status make(focal_ctx *ctx, builder *b, const focal_model *source,
                         foci_trainable **out)
{
    *out = NULL;
    if (b->options->precision != FOCAL_F32 && b->options->precision != FOCAL_BF16)
        return foci_fail(ctx, FOCAL_EINVAL, "training: %s is not f32 or bf16",
                         focal_dtype_name(b->options->precision));
    b->t = foci_trainable_zeros(ctx, 1, sizeof *b->t);
    if (!b->t) return FOCAL_ENOMEM;
    b->t->ctx = ctx;
    const focal_status status = build(b, source);
    if (status != FOCAL_OK) {
        foci_trainable_free(b->t);
        return status;
    }
    *out = b->t;
    return FOCAL_OK;
}

focal_status foci_trainable_from(focal_model *source, const foci_trainable_options *options,
                                 foci_trainable **out)
{
    builder b = {.config = &source->config, .source = &source->weights, .options = options};
    return make(source->ctx, &b, source, out);
}

focal_status foci_trainable_new(focal_ctx *ctx, const foci_config *config, uint64_t seed,
                                const foci_trainable_options *options, foci_trainable **out)
{
    builder b = {.config = config, .options = options, .seed = seed};
    return make(ctx, &b, NULL, out);
}

void foci_trainable_free(foci_trainable *trainable)
{
    if (!trainable) return;
    focal_ctx *ctx = trainable->ctx;
    if (trainable->low_ranks) foci_model_set_low_ranks(trainable->model, NULL);
    if (!trainable->is_frozen) focal_model_close(trainable->model);
    foci_free(ctx, trainable->layers);
    foci_free(ctx, trainable->group_temperatures);
    foci_free(ctx, trainable->temperatures);
    foci_free(ctx, trainable->heads);
    foci_free(ctx, trainable->params);
    foci_free(ctx, trainable->weights);
    foci_free(ctx, trainable->gradients);
    foci_free(ctx, trainable->rounded);
    foci_free(ctx, trainable);
}

void foci_trainable_round(foci_trainable *trainable)
{
    for (int32_t n = 0; n < trainable->param_count; n++) {
        const foci_param *param = &trainable->params[n];
        const int64_t count = param->rows * param->cols;
        for (int64_t i = 0; param->rounded && i < count; i++)
            param->rounded[i] = foci_bf16_from_float(param->weights[i]);
    }
}
