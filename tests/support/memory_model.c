/* A focal_model put together from its parts. */
#include "support/memory_model.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

enum { MOST_LAYERS = 8, MOST_WIDTH = 256, MOST_VOCAB = 512, MOST_CONTEXT = 1 << 16 };

static focal_status make_tables(focal_model *model)
{
    const foci_config *c = &model->config;
    if (c->has_positions) return FOCAL_OK;
    model->config.rope.divisors = model->weights.rope_divisors;
    FOCAL_TRY(foci_rope_table(model->ctx, &c->rope, model->inv_freq[0], &model->rope_scale[0]));
    return foci_rope_table(model->ctx, &c->rope_local, model->inv_freq[1], &model->rope_scale[1]);
}

focal_status memory_model_from_gguf(focal_ctx *ctx, foci_gguf *gguf, focal_dtype precision,
                                    focal_model *out)
{
    *out = (focal_model){.ctx = ctx, .precision = precision};
    memcpy(out->fingerprint, "0123456789abcdef", FOCI_FINGERPRINT_BYTES);
    focal_status status = foci_config_from_gguf(ctx, gguf, &out->config);
    const foci_tensor_source source = {.gguf = gguf, .path = foci_gguf_path(gguf)};
    if (status == FOCAL_OK)
        status = foci_model_weights_bind(ctx, &source, &out->config, &out->weights);
    if (status == FOCAL_OK) status = make_tables(out);
    if (status != FOCAL_OK) memory_model_release(out);
    return status;
}

bool memory_model_is_small(const foci_config *c)
{
    const int64_t heads = (int64_t)c->H * c->D;
    return c->L <= MOST_LAYERS && c->C <= MOST_WIDTH && heads <= MOST_WIDTH && c->F <= MOST_WIDTH &&
           c->V <= MOST_VOCAB && (!c->has_positions || c->context <= MOST_CONTEXT / 4);
}

static foci_linear matrix(const foci_model_weights *w, int64_t N, int64_t K, bool has_bias)
{
    return (foci_linear){.w = w->vectors,
                         .dtype = FOCAL_F32,
                         .N = (int32_t)N,
                         .K = (int32_t)K,
                         .bias = has_bias ? w->vectors : NULL};
}

static foci_gain gain(const foci_config *c, const foci_model_weights *w)
{
    return (foci_gain){.weight = w->vectors,
                       .bias = c->norm == FOCI_NORM_LAYER ? w->vectors : NULL};
}

static void fill_layer(const foci_config *c, const foci_model_weights *w, foci_layer *layer)
{
    const int64_t Q = (int64_t)c->H * c->D, KV = (int64_t)c->G * c->D;
    *layer = (foci_layer){.out = matrix(w, c->C, Q, false),
                          .up = matrix(w, c->F, c->C, c->family->is_gpt2),
                          .down = matrix(w, c->C, c->F, false)};
    if (c->norm_place != FOCI_NORM_AFTER) layer->attn_norm = layer->ffn_norm = gain(c, w);
    if (c->norm_place != FOCI_NORM_BEFORE) layer->attn_post = layer->ffn_post = gain(c, w);
    if (c->qk_norm != FOCI_QK_NONE) layer->q_norm = layer->k_norm = gain(c, w);
    if (c->is_gated) layer->gate = matrix(w, c->F, c->C, false);
    if (c->family->is_gpt2) {
        layer->qkv = matrix(w, Q + 2 * KV, c->C, true);
    } else {
        layer->q = matrix(w, Q, c->C, true);
        layer->k = matrix(w, KV, c->C, true);
        layer->v = matrix(w, KV, c->C, true);
    }
}

/* Numbers that are learned are the beginning of the same ones. */
static focal_status fill_temperatures(focal_ctx *ctx, const foci_config *c, foci_model_weights *w)
{
    const foci_temperature_config *t = &c->temperature;
    if (!t->is_there) return FOCAL_OK;
    w->temperatures = foci_alloc(ctx, (size_t)c->L, sizeof *w->temperatures);
    w->heads = foci_alloc(ctx, (size_t)c->H, sizeof *w->heads);
    if (!w->temperatures || !w->heads) return FOCAL_ENOMEM;
    for (int32_t n = 0; n < c->H; n++) w->heads[n] = !t->has_heads || t->heads[n];
    for (int32_t n = 0; n < c->L; n++) {
        w->temperatures[n] = (foci_temperature){.kind = t->kind,
                                                .t = t->t,
                                                .c = t->c,
                                                .length = t->length,
                                                .u = w->vectors,
                                                .a = w->vectors,
                                                .lt = w->vectors,
                                                .heads = t->has_heads ? w->heads : NULL};
        if (foci_temperature_reaches(t, n)) w->layers[n].temperature = &w->temperatures[n];
    }
    return FOCAL_OK;
}

focal_status memory_model_from_config(focal_ctx *ctx, const foci_config *config,
                                      focal_dtype precision, focal_model *out)
{
    *out = (focal_model){.ctx = ctx, .config = *config, .precision = precision};
    memcpy(out->fingerprint, "0123456789abcdef", FOCI_FINGERPRINT_BYTES);
    foci_model_weights *w = &out->weights;
    const foci_config *c = &out->config;
    const int64_t rows[] = {c->V, c->F, c->C, (int64_t)c->H * c->D * 3,
                            c->has_positions ? c->context : 1};
    int64_t most = 1;
    const int64_t columns = foci_max64(foci_max64(c->C, c->F), (int64_t)c->H * c->D);
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) most = foci_max64(most, rows[n]);
    const int64_t count = most * columns;
    w->layers = foci_alloc(ctx, (size_t)c->L, sizeof *w->layers);
    w->vectors = foci_alloc(ctx, (size_t)count, sizeof(float));
    focal_status status = w->layers && w->vectors ? FOCAL_OK : FOCAL_ENOMEM;
    if (status == FOCAL_OK) {
        for (int64_t n = 0; n < count; n++) w->vectors[n] = (float)((n * 37 + 11) % 17 - 8) / 8.0F;
        for (int32_t n = 0; n < c->L; n++) fill_layer(c, w, &w->layers[n]);
        w->embed = w->head = matrix(w, c->V, c->C, false);
        if (c->has_positions) w->positions = matrix(w, c->context, c->C, false);
        w->final_norm = gain(c, w);
        w->is_tied = true;
        status = make_tables(out);
        if (status == FOCAL_OK) status = fill_temperatures(ctx, c, w);
    }
    if (status != FOCAL_OK) memory_model_release(out);
    return status;
}

void memory_model_release(focal_model *model)
{
    if (model->ctx) foci_model_weights_release(model->ctx, &model->weights);
    *model = (focal_model){.ctx = NULL};
}

focal_status memory_model_run(focal_model *model, void *logits)
{
    const int32_t V = model->config.V, ids[] = {V - 1, 0, V / 2};
    focal_cache *cache = NULL;
    FOCAL_TRY(focal_cache_new(model, NULL, &cache));
    focal_status status = FOCAL_OK;
    for (int32_t done = 0, count = 2; done < 3 && status == FOCAL_OK; done += count, count = 1) {
        const focal_batch_item item = {0, count, ids + done, logits ? 1 : 0};
        const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
        status = focal_forward(model, cache, &args);
    }
    focal_cache_free(cache);
    return status;
}
