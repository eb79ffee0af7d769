/* Names to tensors, for both file formats: one table of roles, filled per layer. Two passes: the
 * first counts the floats of norms and biases, the second points into them. */
#include "model/model_weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "focal/quant.h"
#include "model/groups.h"
#include "model/weight_names.h"
#include "ops/interleave.h"

/* A pass over all names. */
typedef struct binder {
    focal_ctx *ctx;
    const foci_tensor_source *source;
    const foci_config *config;
    foci_weight_names names;
    float *vectors; /* NULL in the pass that counts */
    size_t vector_count;
    int64_t found; /* tensors of the file that have a role */
    focal_status status;
} binder;

void foci_linear_expand(const foci_linear *linear, float *to)
{
    foci_interleaved_part row = {
        .dtype = linear->dtype, .w = linear->w, .K = linear->K, .count = linear->K};
    if (!linear->is_interleaved) /* cannot fail: rows are whole blocks */
        (void)focal_dequantize(linear->dtype, linear->w, (int64_t)linear->N * linear->K, to);
    for (; linear->is_interleaved && row.row < linear->N; row.row++, to += linear->K)
        foci_interleaved_expand(&row, NULL, FOCAL_F32, to);
}

static int64_t source_count(const foci_tensor_source *source)
{
    return source->gguf ? foci_gguf_tensor_count(source->gguf)
                        : foci_safetensors_tensor_count(source->safetensors);
}

static const foci_tensor *source_at(const foci_tensor_source *source, int64_t n)
{
    return source->gguf ? foci_gguf_tensor_at(source->gguf, n)
                        : foci_safetensors_tensor_at(source->safetensors, n);
}

static const foci_tensor *source_find(const foci_tensor_source *source, const char *name)
{
    return source->gguf ? foci_gguf_tensor(source->gguf, name)
                        : foci_safetensors_tensor(source->safetensors, name);
}

/* The tensor "PART.SUFFIX" of a layer (-1: of the model), or NULL. */
static const foci_tensor *find_part(binder *b, int32_t layer, const char *part, const char *suffix,
                                    char name[FOCI_WEIGHT_NAME_BYTES])
{
    name[0] = '\0';
    if (!part) return NULL;
    foci_weight_name(&b->names, layer, part, suffix, name);
    const foci_tensor *tensor = source_find(b->source, name);
    if (tensor) b->found++;
    return tensor;
}

static void fail_shape(binder *b, const foci_tensor *tensor, int64_t rows, int64_t columns)
{
    if (b->status == FOCAL_OK)
        b->status = foci_fail(b->ctx, FOCAL_EFORMAT,
                              "%s: tensor '%.100s' is %lld x %lld, the configuration says %lld x "
                              "%lld",
                              b->source->path, tensor->name,
                              (long long)(tensor->dims > 1 ? tensor->shape[0] : 1),
                              (long long)tensor->shape[tensor->dims > 1 ? 1 : 0], (long long)rows,
                              (long long)columns);
}

static void fail_missing(binder *b, const char *name)
{
    const foci_safetensors *file = b->source->safetensors;
    const int64_t others = file ? foci_safetensors_other_count(file) : 0;
    for (int64_t n = 0; n < others && b->status == FOCAL_OK; n++) {
        const foci_safetensors_other other = foci_safetensors_other_at(file, n);
        if (strcmp(other.name, name) == 0)
            b->status = foci_fail(b->ctx, FOCAL_EUNSUPPORTED,
                                  "%s: tensor '%s' is of type %s, read are F32, F16 and BF16",
                                  b->source->path, name, other.type);
    }
    if (b->status == FOCAL_OK)
        b->status = foci_fail(b->ctx, FOCAL_EFORMAT, "%s: the tensor '%s' is missing",
                              b->source->path, name);
}

/* A norm's weight or a bias as float32; NULL when the file has none. */
static const float *bind_vector(binder *b, int32_t layer, const char *part, const char *suffix,
                                int64_t count, focal_dtype *dtype, bool is_needed)
{
    char name[FOCI_WEIGHT_NAME_BYTES];
    const foci_tensor *tensor = find_part(b, layer, part, suffix, name);
    if (!tensor) {
        if (is_needed) fail_missing(b, name);
        return NULL;
    }
    *dtype = tensor->dtype;
    if (tensor->dims != 1 || tensor->shape[0] != count) {
        fail_shape(b, tensor, 1, count);
        return NULL;
    }
    const size_t at = b->vector_count;
    b->vector_count += (size_t)count;
    if (!b->vectors || b->status != FOCAL_OK) return NULL;
    float *vector = b->vectors + at;
    focal_dequantize(tensor->dtype, tensor->data, count, vector);
    for (int64_t n = 0; n < count; n++)
        if (!isfinite(vector[n]) && b->status == FOCAL_OK)
            b->status = foci_fail(b->ctx, FOCAL_EFORMAT, "%s: element %lld of '%.100s' is %s",
                                  b->source->path, (long long)n, tensor->name,
                                  isnan(vector[n]) ? "not a number" : "infinite");
    return vector;
}

static foci_gain bind_gain(binder *b, int32_t layer, const char *part, int64_t count)
{
    const bool has_bias = b->config->norm == FOCI_NORM_LAYER;
    foci_gain gain = {.weight = NULL};
    gain.weight = bind_vector(b, layer, part, "weight", count, &gain.dtype, true);
    if (has_bias) gain.bias = bind_vector(b, layer, part, "bias", count, &gain.bias_dtype, false);
    return gain;
}

static foci_linear bind_linear(binder *b, int32_t layer, const char *part, int64_t N, int64_t K,
                               bool is_needed)
{
    char name[FOCI_WEIGHT_NAME_BYTES];
    foci_linear linear = {.N = (int32_t)N, .K = (int32_t)K};
    const foci_tensor *tensor = find_part(b, layer, part, "weight", name);
    if (!tensor) {
        if (is_needed) fail_missing(b, name);
        return linear;
    }
    /* GPT-2's own files hold its layers (but not its embeddings) transposed. */
    linear.is_transposed = b->config->family->is_gpt2 && !b->source->gguf && layer >= 0;
    const int64_t rows = linear.is_transposed ? K : N, columns = linear.is_transposed ? N : K;
    if (tensor->dims != 2 || tensor->shape[0] != rows || tensor->shape[1] != columns) {
        fail_shape(b, tensor, rows, columns);
        return linear;
    }
    linear.w = tensor->data;
    linear.dtype = tensor->dtype;
    /* A table of embeddings has none: one in a file would be left out. */
    if (part != b->names.embed && part != b->names.positions)
        linear.bias = bind_vector(b, layer, part, "bias", N, &linear.bias_dtype, false);
    return linear;
}

static void bind_layer(binder *b, int32_t n, foci_layer *layer)
{
    const foci_config *c = b->config;
    const foci_weight_names *names = &b->names;
    const int64_t Q = (int64_t)c->H * c->D, KV = (int64_t)c->G * c->D;
    *layer = (foci_layer){0};
    if (c->norm_place != FOCI_NORM_AFTER) {
        layer->attn_norm = bind_gain(b, n, names->attn_norm, c->C);
        layer->ffn_norm = bind_gain(b, n, names->ffn_norm, c->C);
    }
    if (c->norm_place != FOCI_NORM_BEFORE) {
        layer->attn_post = bind_gain(b, n, names->attn_post, c->C);
        layer->ffn_post = bind_gain(b, n, names->ffn_post, c->C);
    }
    if (c->qk_norm != FOCI_QK_NONE) {
        const bool is_head = c->qk_norm == FOCI_QK_HEAD;
        layer->q_norm = bind_gain(b, n, names->q_norm, is_head ? c->D : Q);
        layer->k_norm = bind_gain(b, n, names->k_norm, is_head ? c->D : KV);
    }
    if (c->family->is_gpt2) {
        layer->qkv = bind_linear(b, n, names->qkv, Q + 2 * KV, c->C, true);
    } else {
        layer->q = bind_linear(b, n, names->q, Q, c->C, true);
        layer->k = bind_linear(b, n, names->k, KV, c->C, true);
        layer->v = bind_linear(b, n, names->v, KV, c->C, true);
    }
    layer->out = bind_linear(b, n, names->out, c->C, Q, true);
    if (c->is_gated) layer->gate = bind_linear(b, n, names->gate, c->F, c->C, true);
    layer->up = bind_linear(b, n, names->up, c->F, c->C, true);
    layer->down = bind_linear(b, n, names->down, c->C, c->F, true);
}

/* A head's temperature must be a number that queries can be divided by. */
static void check_logs(binder *b, const float *lt)
{
    const int32_t H = b->config->H;
    for (int32_t n = 0; lt && n < H && b->status == FOCAL_OK; n++)
        if (!(fabs((double)lt[n]) <= FOCI_MOST_LOG))
            b->status = foci_fail(b->ctx, FOCAL_EFORMAT,
                                  "%s: the logarithm of a temperature is %g, %g to %g are accepted",
                                  b->source->path, (double)lt[n], -FOCI_MOST_LOG, FOCI_MOST_LOG);
}

static void bind_temperature(binder *b, int32_t n, foci_model_weights *w)
{
    const foci_config *c = b->config;
    const foci_temperature_config *t = &c->temperature;
    const char *part = b->names.temperature;
    focal_dtype dtype;
    if (!foci_temperature_reaches(t, n)) return;
    foci_temperature *to = &w->temperatures[n];
    *to = (foci_temperature){
        .kind = t->kind, .t = t->t, .c = t->c, .length = t->length, .heads = w->heads};
    if (t->kind == FOCI_TEMPERATURE_LEARNED || t->kind == FOCI_TEMPERATURE_LEARNED_PAPER)
        to->u = bind_vector(b, n, part, "u", c->C, &dtype, true);
    if (t->kind == FOCI_TEMPERATURE_LEARNED) to->a = bind_vector(b, n, part, "a", 1, &dtype, true);
    if (t->kind == FOCI_TEMPERATURE_PER_HEAD)
        to->lt = bind_vector(b, n, part, "lt", c->H, &dtype, true);
    check_logs(b, to->lt);
    w->layers[n].temperature = to;
}

static void bind_all(binder *b, foci_model_weights *w)
{
    const foci_config *c = b->config;
    b->found = 0;
    b->vector_count = 0;
    w->embed = bind_linear(b, -1, b->names.embed, c->V, c->C, true);
    if (c->has_positions)
        w->positions = bind_linear(b, -1, b->names.positions, c->context, c->C, true);
    w->final_norm = bind_gain(b, -1, b->names.final_norm, c->C);
    w->head = bind_linear(b, -1, b->names.head, c->V, c->C, false);
    w->is_tied = !w->head.w || c->is_tied;
    if (w->is_tied) w->head = w->embed;
    for (int32_t n = 0; n < c->L && b->status == FOCAL_OK; n++) {
        bind_layer(b, n, &w->layers[n]);
        bind_temperature(b, n, w);
    }
}

static bool ends_in(const char *name, const char *suffix)
{
    const size_t length = strlen(name), tail = strlen(suffix);
    return length >= tail && strcmp(name + length - tail, suffix) == 0;
}

/* Tensors that files hold and nobody computes with: old buffers, and what sees pictures. */
static bool is_idle(const binder *b, const char *name)
{
    if (b->source->gguf) return strcmp(name, "rope_freqs.weight") == 0;
    return ends_in(name, ".rotary_emb.inv_freq") || ends_in(name, ".attn.bias") ||
           ends_in(name, ".attn.masked_bias") || strstr(name, "vision_tower.") ||
           strstr(name, "multi_modal_projector.");
}

/* Every tensor has a role, or changes nothing: another might be a part of the model that we would
 * leave out. */
static focal_status check_unused(binder *b)
{
    int64_t idle = 0;
    const int64_t count = source_count(b->source);
    for (int64_t n = 0; n < count; n++) idle += is_idle(b, source_at(b->source, n)->name);
    if (b->found + idle == count) return FOCAL_OK;
    return foci_fail(b->ctx, FOCAL_EUNSUPPORTED,
                     "%s: %lld of its %lld tensors have no place in a %s model", b->source->path,
                     (long long)(count - idle - b->found), (long long)count,
                     b->config->family->name);
}

/* Llama 3's scaling comes as a tensor in GGUF files. */
static focal_status bind_divisors(binder *b, foci_model_weights *w)
{
    const int32_t pairs = b->config->rope.rotated / 2;
    const foci_tensor *tensor =
        b->source->gguf ? foci_gguf_tensor(b->source->gguf, "rope_freqs.weight") : NULL;
    if (!tensor || b->config->has_positions) return FOCAL_OK;
    if (tensor->dims != 1 || tensor->shape[0] != pairs || tensor->dtype != FOCAL_F32)
        return foci_fail(b->ctx, FOCAL_EFORMAT, "%s: 'rope_freqs.weight' must be %d numbers in f32",
                         b->source->path, pairs);
    w->rope_divisors = foci_alloc(b->ctx, (size_t)pairs, sizeof(float));
    if (!w->rope_divisors) return FOCAL_ENOMEM;
    focal_dequantize(FOCAL_F32, tensor->data, pairs, w->rope_divisors);
    for (int32_t n = 0; n < pairs; n++)
        if (!(w->rope_divisors[n] > 0.0F) || !isfinite(w->rope_divisors[n]))
            return foci_fail(b->ctx, FOCAL_EFORMAT,
                             "%s: element %d of 'rope_freqs.weight' is %g, it must be above 0",
                             b->source->path, n, (double)w->rope_divisors[n]);
    return FOCAL_OK;
}

/* Models with pictures keep the language model under another name, and GPT-2's first files have
 * names without "transformer.". */
static void choose_prefix(binder *b)
{
    static const char *const prefixes[] = {"", "language_model.", "model.language_model."};
    char name[FOCI_WEIGHT_NAME_BYTES];
    b->names.prefix = "";
    if (b->source->gguf) return;
    for (size_t n = 0; n < FOCAL_COUNT(prefixes); n++) {
        b->names.prefix = prefixes[n];
        if (find_part(b, -1, b->names.embed, "weight", name)) return;
    }
    b->names.prefix = "";
    if (!b->config->family->is_gpt2 && source_find(b->source, "model.language_model.embed_tokens."
                                                              "weight")) {
        b->names.embed = "model.language_model.embed_tokens";
        b->names.final_norm = "model.language_model.norm";
        b->names.layer = "model.language_model.layers.";
    } else if (b->config->family->is_gpt2 && source_find(b->source, "wte.weight")) {
        b->names.embed = "wte";
        b->names.positions = "wpe";
        b->names.final_norm = "ln_f";
        b->names.layer = "h.";
    }
}

static focal_status take_temperatures(focal_ctx *ctx, const foci_config *c, foci_model_weights *w)
{
    const foci_temperature_config *t = &c->temperature;
    if (!t->is_there) return FOCAL_OK;
    w->temperatures = foci_alloc(ctx, (size_t)c->L, sizeof *w->temperatures);
    if (!w->temperatures) return FOCAL_ENOMEM;
    if (!t->has_heads) return FOCAL_OK;
    w->heads = foci_alloc(ctx, (size_t)c->H, sizeof *w->heads);
    if (!w->heads) return FOCAL_ENOMEM;
    memcpy(w->heads, t->heads, (size_t)c->H * sizeof *w->heads);
    return FOCAL_OK;
}

focal_status foci_model_weights_bind(focal_ctx *ctx, const foci_tensor_source *source,
                                     const foci_config *config, foci_model_weights *out)
{
    binder b = {.ctx = ctx, .source = source, .config = config};
    foci_model_weights w = {0};
    *out = w;
    b.names = source->gguf ? foci_weight_names_gguf() : foci_weight_names_hf(config);
    choose_prefix(&b);
    w.layers = foci_alloc(ctx, (size_t)config->L, sizeof *w.layers);
    if (!w.layers || take_temperatures(ctx, config, &w) != FOCAL_OK) {
        foci_model_weights_release(ctx, &w);
        return FOCAL_ENOMEM;
    }
    bind_all(&b, &w);
    if (b.status == FOCAL_OK) b.status = check_unused(&b);
    if (b.status == FOCAL_OK) {
        b.vectors = foci_alloc(ctx, b.vector_count, sizeof(float));
        if (!b.vectors) b.status = FOCAL_ENOMEM;
        w.vectors = b.vectors;
    }
    if (b.status == FOCAL_OK) bind_all(&b, &w);
    if (b.status == FOCAL_OK) b.status = bind_divisors(&b, &w);
    if (b.status != FOCAL_OK) {
        foci_model_weights_release(ctx, &w);
        return b.status;
    }
    *out = w;
    return FOCAL_OK;
}

void foci_model_weights_release(focal_ctx *ctx, foci_model_weights *weights)
{
    foci_free(ctx, weights->layers);
    foci_free(ctx, weights->vectors);
    foci_free(ctx, weights->rope_divisors);
    foci_free(ctx, weights->temperatures);
    foci_free(ctx, weights->heads);
    *weights = (foci_model_weights){0};
}
