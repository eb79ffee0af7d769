/* The gradient of the whole model: the forward pass once more, keeping what backward needs, and
 * then its mirror, last operation first. It reads in the order of docs/MATH.md; every line is an
 * operation of ops/, and rows are the tokens of all sequences.
 *
 * x is the residual stream and dx its gradient, always float32. What products read is in the
 * model's precision, gradients too. */
#include "model/backward.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "model/backward_pass.h"
#include "model/layer_temperature.h"
#include "ops/embed/embed.h"
#include "ops/gated.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_grads.h"
#include "ops/mlp/gate_backward.h"
#include "ops/norm/norm_backward.h"
#include "ops/residual/add.h"
#include "ops/rope/rope_backward.h"

/* ---- Products ---- */

/* What is added to a layer in this pass; NULL: nothing. What learns does not act in the untouched
 * model. */
static const foci_low_rank *added_to(const foci_pass *p, const foci_linear *w)
{
    return p->is_untouched && p->t->low_ranks ? NULL : w->added;
}

static foci_low_rank_args low_rank_args(const foci_pass *p, const foci_low_rank *low, const void *x,
                                        const void *dy, int64_t dy_stride)
{
    return (foci_low_rank_args){.low = low,
                                .T = p->T,
                                .dtype = p->act,
                                .x = x,
                                .dy = dy,
                                .dy_stride = dy_stride,
                                .h = p->low,
                                .h_act = p->low_act};
}

static double product_flops(const foci_pass *p, const foci_linear *w)
{
    return 2.0 * p->T * (double)w->N * (double)w->K;
}

static foci_matmul_args product_args(const foci_pass *p, const foci_linear *w, const void *x,
                                     float *out, int64_t out_stride, bool adds)
{
    return (foci_matmul_args){.M = p->T,
                              .N = w->N,
                              .K = w->K,
                              .x = x,
                              .x_dtype = p->act,
                              .x_stride = w->K,
                              .rounds_x = p->act == FOCAL_BF16, /* as where the model runs */
                              .w = w->w,
                              .w_dtype = w->dtype,
                              .w_is_transposed = w->is_transposed,
                              .w_is_interleaved = w->is_interleaved,
                              .bias = w->bias,
                              .adds = adds,
                              .out = out,
                              .out_dtype = FOCAL_F32,
                              .out_stride = out_stride};
}

/* A product: out = (or, when adds, +=) x w^T + bias, and what is added to it. */
typedef struct product {
    const foci_linear *w;
    float *out;
    int64_t out_stride;
    bool adds;
} product;

/* Products that read the same x. */
static focal_status multiply_several(const foci_pass *p, const char *name, const void *x,
                                     const product *products, int32_t count)
{
    foci_matmul_args args[FOCI_MATMUL_SEVERAL];
    double flops = 0.0;
    for (int32_t n = 0; n < count; n++) {
        const product *one = &products[n];
        args[n] = product_args(p, one->w, x, one->out, one->out_stride, one->adds);
        flops += product_flops(p, one->w);
    }
    TIMED(p, name, flops, foci_matmul_several(p->ctx, args, count));
    for (int32_t n = 0; n < count; n++) {
        const product *one = &products[n];
        const foci_low_rank *low = added_to(p, one->w);
        if (!low) continue;
        const foci_low_rank_args rows = low_rank_args(p, low, x, NULL, 0);
        TIMED(p, "lora", 0.0, foci_low_rank_forward(p->ctx, &rows, one->out, one->out_stride));
    }
    return FOCAL_OK;
}

focal_status foci_pass_multiply(const foci_pass *p, const char *name, const foci_linear *w,
                                const void *x, float *out, int64_t out_stride, bool adds)
{
    product one = {.w = w, .out_stride = out_stride, .adds = adds};
    one.out = out;
    return multiply_several(p, name, x, &one, 1);
}

focal_status foci_pass_multiply_back(const foci_pass *p, const char *name, const foci_linear *w,
                                     const void *dy, int64_t dy_stride, void *dx,
                                     focal_dtype dx_dtype, bool adds)
{
    const foci_matmul_dx_args args = {.M = p->T,
                                      .N = w->N,
                                      .K = w->K,
                                      .dy = dy,
                                      .dy_dtype = p->act,
                                      .dy_stride = dy_stride,
                                      .w = w->w,
                                      .w_dtype = w->dtype,
                                      .w_is_transposed = w->is_transposed,
                                      .w_is_interleaved = w->is_interleaved,
                                      .adds = adds,
                                      .dx = dx,
                                      .dx_dtype = dx_dtype,
                                      .dx_stride = w->K};
    TIMED(p, name, product_flops(p, w), foci_matmul_dx(p->ctx, &args));
    const foci_low_rank *low = added_to(p, w);
    if (!low) return FOCAL_OK;
    const foci_low_rank_args rows = low_rank_args(p, low, NULL, dy, dy_stride);
    TIMED(p, "lora, back", 0.0, foci_low_rank_dx(p->ctx, &rows, dx, dx_dtype));
    return FOCAL_OK;
}

focal_status foci_pass_weight_gradient(const foci_pass *p, const char *name, const foci_linear *w,
                                       const foci_linear_grads *grads, const void *dy,
                                       int64_t dy_stride, const void *x)
{
    const foci_low_rank *low = added_to(p, w);
    if (low && grads->low_a) {
        const foci_low_rank_args rows = low_rank_args(p, low, x, dy, dy_stride);
        TIMED(p, "lora, weights", 0.0, foci_low_rank_dw(p->ctx, &rows, grads->low_a, grads->low_b));
    }
    if (!grads->w) return FOCAL_OK;
    const foci_matmul_dw_args args = {.M = p->T,
                                      .N = w->N,
                                      .K = w->K,
                                      .dtype = p->act,
                                      .dy = dy,
                                      .dy_stride = dy_stride,
                                      .x = x,
                                      .x_stride = w->K,
                                      .adds = true,
                                      .dw = grads->w,
                                      .dw_is_transposed = w->is_transposed,
                                      .dbias = grads->bias};
    TIMED(p, name, product_flops(p, w), foci_matmul_dw(p->ctx, &args));
    return FOCAL_OK;
}

/* ---- Small operations ---- */

/* (rows, H, D) numbers of any stride in another type or place. */
static focal_status convert(const foci_pass *p, int32_t H, int32_t D, const float *x,
                            int64_t x_stride, void *out, focal_dtype out_dtype)
{
    const foci_rope_args args = {.T = p->T,
                                 .H = H,
                                 .D = D,
                                 .x = x,
                                 .x_stride = x_stride,
                                 .out = out,
                                 .out_dtype = out_dtype};
    return foci_rope_apply(p->ctx, &args);
}

focal_status foci_pass_normalise(const foci_pass *p, const foci_gain *gain, const float *x,
                                 void *out, focal_dtype out_dtype)
{
    const foci_config *c = &p->model->config;
    const foci_norm_args args = {.kind = c->norm,
                                 .T = p->T,
                                 .width = c->C,
                                 .x = x,
                                 .weight = gain->weight,
                                 .weight_offset = c->norm_offset,
                                 .bias = gain->bias,
                                 .epsilon = c->epsilon,
                                 .out = out,
                                 .out_dtype = out_dtype};
    TIMED(p, "norm", 0.0, foci_norm(p->ctx, &args));
    return FOCAL_OK;
}

focal_status foci_pass_normalise_back(const foci_pass *p, const foci_gain *gain,
                                      const foci_gain_grads *grads, const float *x, const float *dy,
                                      float *dx, bool adds)
{
    const foci_config *c = &p->model->config;
    foci_norm_backward_args args = {.kind = c->norm,
                                    .T = p->T,
                                    .width = c->C,
                                    .x = x,
                                    .weight = gain->weight,
                                    .weight_offset = c->norm_offset,
                                    .epsilon = c->epsilon,
                                    .dy = dy,
                                    .adds = adds,
                                    .dweight = grads->weight,
                                    .dbias = grads->bias};
    args.dx = dx;
    TIMED(p, "norm, back", 0.0, foci_norm_backward(p->ctx, &args));
    return FOCAL_OK;
}

/* What a block reads of the stream, normalised where the family does it here. */
static focal_status read_stream(const foci_pass *p, const foci_gain *gain, const float *x, void *h)
{
    const int32_t C = p->model->config.C;
    if (gain->weight) return foci_pass_normalise(p, gain, x, h, p->act);
    return convert(p, 1, C, x, C, h, p->act);
}

/* The same of attention, in float32 first where that is kept: routers read it so, a teacher has
 * none. */
static focal_status read_for_attention(const foci_pass *p, int32_t n)
{
    const int32_t C = p->model->config.C;
    const foci_gain *gain = &p->model->weights.layers[n].attn_norm;
    const foci_kept *a = foci_kept_of(p, n);
    if (!a->h_exact || !gain->weight || p->is_teacher) return read_stream(p, gain, p->x[n], a->h);
    FOCAL_TRY(foci_pass_normalise(p, gain, p->x[n], a->h_exact, FOCAL_F32));
    return convert(p, 1, C, a->h_exact, C, a->h, p->act);
}

/* What attention reads, in float32. */
static const float *exact_input(const foci_pass *p, int32_t n)
{
    const foci_kept *a = foci_kept_of(p, n);
    if (!p->model->weights.layers[n].attn_norm.weight) return p->x[n];
    return p->act == FOCAL_F32 ? a->h : a->h_exact;
}

/* dx += the gradient that came to h. */
static focal_status read_stream_back(const foci_pass *p, const foci_gain *gain,
                                     const foci_gain_grads *grads, const float *x)
{
    if (gain->weight) return foci_pass_normalise_back(p, gain, grads, x, p->dh, p->dx, true);
    return foci_add(p->ctx, p->dx, p->dx, p->dh, (int64_t)p->T * p->model->config.C);
}

/* to = from + what a block gives through w, normalised where the family does it there. */
static focal_status join_stream(const foci_pass *p, const char *name, const foci_linear *w,
                                const void *block, const foci_gain *gain, float *y,
                                const float *from, float *to)
{
    const int64_t count = (int64_t)p->T * p->model->config.C;
    if (!gain->weight) {
        memcpy(to, from, (size_t)count * sizeof *to);
        return foci_pass_multiply(p, name, w, block, to, w->N, true);
    }
    FOCAL_TRY(foci_pass_multiply(p, name, w, block, y, w->N, false));
    FOCAL_TRY(foci_pass_normalise(p, gain, y, to, FOCAL_F32));
    return foci_add(p->ctx, to, to, from, count);
}

/* dy = the gradient of what w gave, as products read it. */
static focal_status join_stream_back(const foci_pass *p, const foci_gain *gain,
                                     const foci_gain_grads *grads, const float *y)
{
    const int32_t C = p->model->config.C;
    if (!gain->weight) return convert(p, 1, C, p->dx, C, p->dy, p->act);
    FOCAL_TRY(foci_pass_normalise_back(p, gain, grads, y, p->dx, p->dh, false));
    return convert(p, 1, C, p->dh, C, p->dy, p->act);
}

/* ---- Attention ---- */

/* q, k and v of a token lie side by side. */
typedef struct thirds {
    int64_t stride;
    float *q, *k, *v;
} thirds;

static thirds cut(const foci_pass *p, float *qkv)
{
    const foci_config *c = &p->model->config;
    float *k = qkv + (int64_t)c->H * c->D;
    return (thirds){foci_qkv_stride(c), qkv, k, k + (int64_t)c->G * c->D};
}

static focal_status project(const foci_pass *p, const foci_layer *w, const foci_kept *a)
{
    const thirds to = cut(p, a->qkv);
    if (w->qkv.w) return foci_pass_multiply(p, "q k v", &w->qkv, a->h, to.q, to.stride, false);
    const product three[] = {{&w->q, to.q, to.stride, false},
                             {&w->k, to.k, to.stride, false},
                             {&w->v, to.v, to.stride, false}};
    return multiply_several(p, "q k v", a->h, three, 3);
}

static focal_status normalise_heads(const foci_pass *p, const foci_gain *gain, int32_t heads,
                                    const float *x, float *out)
{
    const foci_config *c = &p->model->config;
    const bool is_head = c->qk_norm == FOCI_QK_HEAD;
    foci_norm_args args = {.kind = c->norm,
                           .T = p->T,
                           .H = is_head ? heads : 1,
                           .width = is_head ? c->D : heads * c->D,
                           .x = x,
                           .x_stride = foci_qkv_stride(c),
                           .weight = gain->weight,
                           .weight_offset = c->norm_offset,
                           .epsilon = c->epsilon,
                           .out_dtype = FOCAL_F32,
                           .out_stride = foci_qkv_stride(c)};
    args.out = out;
    return foci_norm(p->ctx, &args);
}

/* In place on the gradient of the heads. */
static focal_status normalise_heads_back(const foci_pass *p, const foci_gain *gain,
                                         const foci_gain_grads *grads, int32_t heads,
                                         const float *x, float *dx)
{
    const foci_config *c = &p->model->config;
    const bool is_head = c->qk_norm == FOCI_QK_HEAD;
    foci_norm_backward_args args = {.kind = c->norm,
                                    .T = p->T,
                                    .H = is_head ? heads : 1,
                                    .width = is_head ? c->D : heads * c->D,
                                    .x = x,
                                    .x_stride = foci_qkv_stride(c),
                                    .weight = gain->weight,
                                    .weight_offset = c->norm_offset,
                                    .epsilon = c->epsilon,
                                    .dy = dx,
                                    .dy_stride = foci_qkv_stride(c),
                                    .dx_stride = foci_qkv_stride(c),
                                    .dweight = grads->weight};
    args.dx = dx;
    return foci_norm_backward(p->ctx, &args);
}

static foci_layer_temperature temperature_of(const foci_pass *p, int32_t layer)
{
    return foci_layer_temperature_of(p->model, layer,
                                     p->is_untouched ? NULL : p->t->group_temperatures);
}

/* The temperature of a layer that has one, with what it is computed from. */
static foci_temperature_args temperature_args(const foci_pass *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    const foci_kept *a = foci_kept_of(p, layer);
    const foci_layer_temperature temperature = temperature_of(p, layer);
    return (foci_temperature_args){.temperature = temperature.acts,
                                   .T = p->T,
                                   .H = c->H,
                                   .C = c->C,
                                   .h = a->h,
                                   .h_dtype = p->act,
                                   .positions = p->positions,
                                   .sequence_starts = p->starts,
                                   .sequence_count = p->batch->span_count,
                                   .root = temperature.root,
                                   .factors = a->factors};
}

static bool learns_temperature(const foci_pass *p, int32_t layer)
{
    const foci_layer_grads *grads = &p->t->layers[layer];
    if (p->is_untouched && p->t->group_temperatures) return false;
    return grads->u || grads->a || grads->lt;
}

static focal_status temperature_back(const foci_pass *p, int32_t layer)
{
    const foci_layer_grads *grads = &p->t->layers[layer];
    if (!learns_temperature(p, layer)) return FOCAL_OK;
    const foci_temperature_args args = temperature_args(p, layer);
    const foci_temperature_grads to = {
        .dots = p->dots, .du = grads->u, .da = grads->a, .dlt = grads->lt, .dh = p->dh};
    return foci_temperature_backward(p->ctx, &args, &to);
}

/* How rows of q, k or v become what attention reads: q and k turn by their positions, and q is
 * divided by its temperature. */
typedef enum third { THIRD_Q, THIRD_K, THIRD_V } third;

static foci_rope_args placing(const foci_pass *p, int32_t layer, third which)
{
    const foci_config *c = &p->model->config;
    const foci_temperature *temperature = temperature_of(p, layer).acts;
    const bool is_local = c->is_local[layer];
    foci_rope_args args = {.T = p->T,
                           .H = which == THIRD_Q ? c->H : c->G,
                           .D = c->D,
                           .x_stride = foci_qkv_stride(c),
                           .out_dtype = p->act};
    if (which != THIRD_V && !c->has_positions) {
        args.rotated = (is_local ? &c->rope_local : &c->rope)->rotated;
        args.style = c->rope_style;
        args.cos = p->cos[is_local];
        args.sin = p->sin[is_local];
    }
    if (which != THIRD_Q) return args;
    if (!temperature) {
        args.scale = c->attn_scale;
        return args;
    }
    args.row_scales = foci_kept_of(p, layer)->factors;
    args.has_head_scales = foci_temperature_is_per_head(temperature);
    return args;
}

static focal_status place(const foci_pass *p, int32_t layer, third which, const float *x, void *out)
{
    foci_rope_args args = placing(p, layer, which);
    args.x = x;
    args.out = out;
    return foci_rope_apply(p->ctx, &args);
}

static focal_status place_back(const foci_pass *p, int32_t layer, third which, const void *dout,
                               float *dx)
{
    const foci_rope_args forward = placing(p, layer, which);
    foci_rope_backward_args args = {.T = forward.T,
                                    .H = forward.H,
                                    .D = forward.D,
                                    .rotated = forward.rotated,
                                    .style = forward.style,
                                    .cos = forward.cos,
                                    .sin = forward.sin,
                                    .scale = forward.scale,
                                    .row_scales = forward.row_scales,
                                    .has_head_scales = forward.has_head_scales,
                                    .dout = dout,
                                    .dout_dtype = p->act,
                                    .dx_dtype = FOCAL_F32,
                                    .dx_stride = forward.x_stride};
    if (forward.row_scales && learns_temperature(p, layer)) {
        args.out = foci_kept_of(p, layer)->q;
        args.dots = p->dots;
    }
    args.dx = dx;
    return foci_rope_backward(p->ctx, &args);
}

static focal_attn_args attention_args(const foci_pass *p, int32_t layer, const foci_kept *a)
{
    const foci_config *c = &p->model->config;
    const bool is_near = foci_pass_is_near(p, layer);
    return (focal_attn_args){.H = c->H,
                             .G = c->G,
                             .D = c->D,
                             .dtype = p->act,
                             .q = a->q,
                             .k = a->k,
                             .v = a->v,
                             .has_window = c->is_local[layer] || is_near,
                             .window = is_near ? p->t->groups->window : c->window,
                             .sinks = is_near ? p->t->groups->sinks : 0,
                             .softcap = c->attn_softcap,
                             .seq_count = p->batch->span_count,
                             .seqs = p->seqs,
                             .out = a->o,
                             .lse = a->lse};
}

/* Scores and sums of values, for each pair that is seen. */
static double attention_flops(const foci_pass *p, const focal_attn_args *args)
{
    int64_t pairs = 0;
    if (focal_attn_pairs(p->ctx, args, &pairs) != FOCAL_OK) return 0.0;
    return 4.0 * p->model->config.D * (double)pairs;
}

/* Shows the observer what a layer's router could read. */
static focal_status show(const foci_pass *p, int32_t n, thirds heads)
{
    const foci_config *c = &p->model->config;
    FOCAL_TRY(convert(p, c->H, c->D, heads.q, heads.stride, p->observed_q, FOCAL_F32));
    FOCAL_TRY(convert(p, c->G, c->D, heads.k, heads.stride, p->observed_k, FOCAL_F32));
    const foci_observed observed = {
        .T = p->T, .h = exact_input(p, n), .q = p->observed_q, .k = p->observed_k};
    return p->options->observe(p->options->observe_arg, n, &observed);
}

/* Everything of attention but its last product. */
static focal_status attention_inside(const foci_pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_kept *a = foci_kept_of(p, n);
    const thirds raw = cut(p, a->qkv), heads = cut(p, p->heads);
    const bool has_norm = c->qk_norm != FOCI_QK_NONE;
    FOCAL_TRY(read_for_attention(p, n));
    if (foci_pass_has_groups(p, n)) FOCAL_TRY(foci_pass_route(p, n, exact_input(p, n)));
    FOCAL_TRY(project(p, w, a));
    if (has_norm) {
        FOCAL_TRY(normalise_heads(p, &w->q_norm, c->H, raw.q, heads.q));
        FOCAL_TRY(normalise_heads(p, &w->k_norm, c->G, raw.k, heads.k));
    }
    if (p->options->observe && !p->is_teacher && !p->is_again)
        FOCAL_TRY(show(p, n, has_norm ? heads : raw));
    if (temperature_of(p, n).acts) {
        const foci_temperature_args temperature = temperature_args(p, n);
        FOCAL_TRY(foci_temperature_factors(p->ctx, &temperature));
    }
    FOCAL_TRY(place(p, n, THIRD_Q, has_norm ? heads.q : raw.q, a->q));
    FOCAL_TRY(place(p, n, THIRD_K, has_norm ? heads.k : raw.k, a->k));
    FOCAL_TRY(place(p, n, THIRD_V, raw.v, a->v));
    focal_attn_args args = attention_args(p, n, a);
    focal_attn_gate gate;
    if (foci_pass_has_groups(p, n)) FOCAL_TRY(foci_pass_group_attention(p, n, false, &args, &gate));
    if (foci_pass_is_scaled(p, n)) foci_pass_scale_attention(p, &args, &gate);
    TIMED(p, "attention", attention_flops(p, &args), focal_attn_forward(p->ctx, &args));
    return FOCAL_OK;
}

static focal_status attention_out(const foci_pass *p, int32_t n)
{
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_kept *a = foci_kept_of(p, n);
    return join_stream(p, "attention out", &w->out, a->o, &w->attn_post, a->attn_y, p->x[n],
                       p->x_mid[n]);
}

/* The gradients of q, k and v, side by side and as products read them, in dheads. */
static focal_status heads_back(const foci_pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_layer_grads *grads = &p->t->layers[n];
    const thirds raw = cut(p, foci_kept_of(p, n)->qkv), d = cut(p, p->heads);
    FOCAL_TRY(place_back(p, n, THIRD_Q, p->dq, d.q));
    FOCAL_TRY(place_back(p, n, THIRD_K, p->dk, d.k));
    FOCAL_TRY(place_back(p, n, THIRD_V, p->dv, d.v));
    if (c->qk_norm != FOCI_QK_NONE) {
        FOCAL_TRY(normalise_heads_back(p, &w->q_norm, &grads->q_norm, c->H, raw.q, d.q));
        FOCAL_TRY(normalise_heads_back(p, &w->k_norm, &grads->k_norm, c->G, raw.k, d.k));
    }
    if (p->act == FOCAL_F32) return FOCAL_OK;
    return convert(p, 1, (int32_t)d.stride, p->heads, d.stride, p->dheads, p->act);
}

static const char *behind(const foci_linear *w)
{
    return (const char *)w->w + (int64_t)w->N * w->K / focal_dtype_block(w->dtype) *
                                    (int64_t)focal_dtype_block_bytes(w->dtype);
}

/* q, k and v as one matrix, where they and so their gradients lie one behind the other: their
 * gradients are then one product each. w NULL: they do not. */
static foci_linear joined(const foci_linear *q, const foci_linear *k, const foci_linear *v)
{
    if (q->is_transposed || q->bias || q->added || k->added || v->added || k->dtype != q->dtype ||
        v->dtype != q->dtype || k->is_interleaved != q->is_interleaved ||
        v->is_interleaved != q->is_interleaved || k->w != (const void *)behind(q) ||
        v->w != (const void *)behind(k))
        return (foci_linear){0};
    foci_linear all = *q;
    all.N += k->N + v->N;
    return all;
}

/* The gradients of the projections, and dh where something below learns. */
static focal_status project_back(const foci_pass *p, int32_t n, bool wants_dh)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_layer_grads *grads = &p->t->layers[n];
    const int64_t stride = foci_qkv_stride(c), size = (int64_t)focal_dtype_bytes(p->act);
    const char *dq = p->dheads, *dk = dq + (int64_t)c->H * c->D * size;
    const char *dv = dk + (int64_t)c->G * c->D * size;
    const void *h = foci_kept_of(p, n)->h;
    const foci_linear all = w->qkv.w ? w->qkv : joined(&w->q, &w->k, &w->v);
    if (all.w) {
        const foci_linear_grads *to = w->qkv.w ? &grads->qkv : &grads->q;
        FOCAL_TRY(foci_pass_weight_gradient(p, "q k v, weights", &all, to, dq, stride, h));
        if (!wants_dh) return FOCAL_OK;
        return foci_pass_multiply_back(p, "q k v, back", &all, dq, stride, p->dh, FOCAL_F32, false);
    }
    FOCAL_TRY(foci_pass_weight_gradient(p, "q k v, weights", &w->q, &grads->q, dq, stride, h));
    FOCAL_TRY(foci_pass_weight_gradient(p, "q k v, weights", &w->k, &grads->k, dk, stride, h));
    FOCAL_TRY(foci_pass_weight_gradient(p, "q k v, weights", &w->v, &grads->v, dv, stride, h));
    if (!wants_dh) return FOCAL_OK;
    FOCAL_TRY(
        foci_pass_multiply_back(p, "q k v, back", &w->q, dq, stride, p->dh, FOCAL_F32, false));
    FOCAL_TRY(foci_pass_multiply_back(p, "q k v, back", &w->k, dk, stride, p->dh, FOCAL_F32, true));
    return foci_pass_multiply_back(p, "q k v, back", &w->v, dv, stride, p->dh, FOCAL_F32, true);
}

/* The gradients of q, k and v, and of soft memberships where a router acts, or of a scale. */
static focal_status attend_back(const foci_pass *p, int32_t n)
{
    const foci_kept *a = foci_kept_of(p, n);
    focal_attn_args args = attention_args(p, n, a);
    focal_attn_gate gate;
    focal_attn_grads d = {.dout = p->dout, .dq = p->dq, .dk = p->dk, .dv = p->dv};
    if (foci_pass_has_groups(p, n)) FOCAL_TRY(foci_pass_group_attention(p, n, true, &args, &gate));
    if (foci_pass_is_scaled(p, n)) foci_pass_scale_attention(p, &args, &gate);
    if (args.gate) {
        d.dgq = p->dgq;
        d.dgk = p->dgk;
    }
    TIMED(p, "attention, back", 2.5 * attention_flops(p, &args),
          focal_attn_backward(p->ctx, &args, &d));
    if (foci_pass_is_scaled(p, n)) foci_pass_scale_back(p);
    return FOCAL_OK;
}

static focal_status attention_back(const foci_pass *p, int32_t n)
{
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_layer_grads *grads = &p->t->layers[n];
    const foci_kept *a = foci_kept_of(p, n);
    const int64_t C = p->model->config.C;
    const bool is_lowest = n == p->lowest; /* nothing below learns */
    FOCAL_TRY(join_stream_back(p, &w->attn_post, &grads->attn_post, a->attn_y));
    FOCAL_TRY(foci_pass_weight_gradient(p, "attention out, weights", &w->out, &grads->out, p->dy, C,
                                        a->o));
    FOCAL_TRY(foci_pass_multiply_back(p, "attention out, back", &w->out, p->dy, C, p->dout, p->act,
                                      false));
    FOCAL_TRY(attend_back(p, n));
    TIMED(p, "heads, back", 0.0, heads_back(p, n));
    FOCAL_TRY(project_back(p, n, !is_lowest));
    FOCAL_TRY(temperature_back(p, n));
    if (foci_pass_has_router(p, n)) FOCAL_TRY(foci_pass_route_back(p, n, exact_input(p, n)));
    return is_lowest ? FOCAL_OK : read_stream_back(p, &w->attn_norm, &grads->attn_norm, p->x[n]);
}

/* ---- Feed-forward ---- */

/* Nobody reads again what a teacher or a loss alone computes on the way. */
static bool goes_only_forward(const foci_pass *p)
{
    return p->is_teacher || p->options->is_loss_only;
}

/* hidden without gate and up: the same bits. */
static focal_status multiply_gated(const foci_pass *p, const foci_kept *a, const product *in,
                                   int32_t count)
{
    const foci_config *c = &p->model->config;
    foci_matmul_args args[2];
    for (int32_t n = 0; n < count; n++)
        args[n] = product_args(p, in[n].w, a->h_ffn, in[n].out, in[n].out_stride, false);
    args[0].out = a->hidden;
    args[0].out_dtype = p->act;
    TIMED(p, "feed-forward in", count * product_flops(p, in[0].w),
          foci_matmul_gated(p->ctx, args, count, c->activation));
    return FOCAL_OK;
}

static focal_status feed_forward_inside(const foci_pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_kept *a = foci_kept_of(p, n);
    FOCAL_TRY(read_stream(p, &w->ffn_norm, p->x_mid[n], a->h_ffn));
    const product in[] = {{c->is_gated ? &w->gate : &w->up, a->gate, c->F, false},
                          {&w->up, a->up, c->F, false}};
    const int32_t count = c->is_gated ? 2 : 1;
    if (goes_only_forward(p) && !added_to(p, in[0].w) && !added_to(p, &w->up))
        return multiply_gated(p, a, in, count);
    FOCAL_TRY(multiply_several(p, "feed-forward in", a->h_ffn, in, count));
    const foci_gate_args gate = {.activation = c->activation,
                                 .T = p->T,
                                 .F = c->F,
                                 .gate = a->gate,
                                 .up = c->is_gated ? a->up : NULL,
                                 .out = a->hidden,
                                 .out_dtype = p->act};
    TIMED(p, "activation", 0.0, foci_gate(p->ctx, &gate));
    return FOCAL_OK;
}

static focal_status feed_forward_out(const foci_pass *p, int32_t n)
{
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_kept *a = foci_kept_of(p, n);
    return join_stream(p, "feed-forward out", &w->down, a->hidden, &w->ffn_post, a->ffn_y,
                       p->x_mid[n], p->x[n + 1]);
}

static focal_status feed_forward_back(const foci_pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_layer_grads *grads = &p->t->layers[n];
    const foci_kept *a = foci_kept_of(p, n);
    const foci_linear *first = c->is_gated ? &w->gate : &w->up;
    const foci_linear_grads *first_grads = c->is_gated ? &grads->gate : &grads->up;
    FOCAL_TRY(join_stream_back(p, &w->ffn_post, &grads->ffn_post, a->ffn_y));
    FOCAL_TRY(foci_pass_weight_gradient(p, "feed-forward out, weights", &w->down, &grads->down,
                                        p->dy, c->C, a->hidden));
    FOCAL_TRY(foci_pass_multiply_back(p, "feed-forward out, back", &w->down, p->dy, c->C,
                                      p->dhidden, FOCAL_F32, false));
    const foci_gate_backward_args gate = {.activation = c->activation,
                                          .T = p->T,
                                          .F = c->F,
                                          .gate = a->gate,
                                          .up = c->is_gated ? a->up : NULL,
                                          .dout = p->dhidden,
                                          .dgate = p->dgate,
                                          .dup = c->is_gated ? p->dup : NULL,
                                          .dtype = p->act};
    TIMED(p, "activation, back", 0.0, foci_gate_backward(p->ctx, &gate));
    FOCAL_TRY(foci_pass_weight_gradient(p, "feed-forward in, weights", first, first_grads, p->dgate,
                                        c->F, a->h_ffn));
    FOCAL_TRY(foci_pass_multiply_back(p, "feed-forward in, back", first, p->dgate, c->F, p->dh,
                                      FOCAL_F32, false));
    if (c->is_gated) {
        FOCAL_TRY(foci_pass_weight_gradient(p, "feed-forward in, weights", &w->up, &grads->up,
                                            p->dup, c->F, a->h_ffn));
        FOCAL_TRY(foci_pass_multiply_back(p, "feed-forward in, back", &w->up, p->dup, c->F, p->dh,
                                          FOCAL_F32, true));
    }
    return read_stream_back(p, &w->ffn_norm, &grads->ffn_norm, p->x_mid[n]);
}

/* ---- Both ends ---- */

static bool has_windows(const foci_config *c)
{
    for (int32_t n = 0; n < c->L; n++)
        if (c->is_local[n]) return true;
    return false;
}

static focal_status embed(const foci_pass *p)
{
    const foci_config *c = &p->model->config;
    const foci_model_weights *w = &p->model->weights;
    const foci_embed_table tokens = foci_linear_table(&w->embed);
    const foci_embed_table places = foci_linear_table(&w->positions);
    FOCAL_TRY(foci_embed(p->ctx, &tokens, p->batch->ids, p->T, c->embed_scale, p->x[0]));
    if (c->has_positions) {
        FOCAL_TRY(foci_embed(p->ctx, &places, p->positions, p->T, 1.0F, p->dh));
        return foci_add(p->ctx, p->x[0], p->x[0], p->dh, (int64_t)p->T * c->C);
    }
    for (int is_local = 0; is_local < (has_windows(c) ? 2 : 1); is_local++) {
        const foci_rope_angles_args args = {.T = p->T,
                                            .rotated =
                                                (is_local ? &c->rope_local : &c->rope)->rotated,
                                            .positions = p->positions,
                                            .inv_freq = p->model->inv_freq[is_local],
                                            .scale = p->model->rope_scale[is_local],
                                            .cos = p->cos[is_local],
                                            .sin = p->sin[is_local]};
        FOCAL_TRY(foci_rope_angles(p->ctx, &args));
    }
    return FOCAL_OK;
}

static focal_status embed_back(const foci_pass *p)
{
    const foci_config *c = &p->model->config;
    const foci_embed_backward_args tokens = {.V = c->V,
                                             .C = c->C,
                                             .T = p->T,
                                             .ids = p->batch->ids,
                                             .scale = c->embed_scale,
                                             .dx = p->dx,
                                             .dtable = p->t->embed.w};
    const foci_embed_backward_args places = {.V = c->context,
                                             .C = c->C,
                                             .T = p->T,
                                             .ids = p->positions,
                                             .scale = 1.0F,
                                             .dx = p->dx,
                                             .dtable = p->t->positions.w};
    FOCAL_TRY(foci_embed_backward(p->ctx, &tokens));
    return c->has_positions ? foci_embed_backward(p->ctx, &places) : FOCAL_OK;
}

/* ---- The whole ---- */

/* What forward has computed of a layer and not kept. */
static focal_status compute_again(const foci_pass *p, int32_t n)
{
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_kept *a = foci_kept_of(p, n);
    const int64_t C = p->model->config.C;
    FOCAL_TRY(attention_inside(p, n));
    if (p->recompute == FOCI_RECOMPUTE_BLOCK)
        FOCAL_TRY(attention_out(p, n));
    else if (w->attn_post.weight)
        FOCAL_TRY(foci_pass_multiply(p, "attention out", &w->out, a->o, a->attn_y, C, false));
    FOCAL_TRY(feed_forward_inside(p, n));
    if (!w->ffn_post.weight) return FOCAL_OK;
    return foci_pass_multiply(p, "feed-forward out", &w->down, a->hidden, a->ffn_y, C, false);
}

static focal_status go_forward(const foci_pass *p)
{
    TIMED(p, "embedding", 0.0, embed(p));
    for (int32_t n = 0; n < p->model->config.L; n++) {
        FOCAL_TRY(attention_inside(p, n));
        FOCAL_TRY(attention_out(p, n));
        FOCAL_TRY(feed_forward_inside(p, n));
        FOCAL_TRY(feed_forward_out(p, n));
    }
    return FOCAL_OK;
}

/* The untouched model goes first, in the arrays that the student then writes; those of one layer
 * serve all, so that they stay in the caches. */
static focal_status teach(const foci_pass *p)
{
    foci_pass teacher = *p;
    teacher.is_teacher = teacher.is_untouched = true;
    teacher.recompute = FOCI_RECOMPUTE_BLOCK;
    FOCAL_TRY(go_forward(&teacher));
    return foci_pass_head_input(&teacher, p->h_teacher);
}

static focal_status go_back(const foci_pass *p)
{
    const int32_t L = p->model->config.L;
    foci_pass again = *p;
    again.is_again = true;
    for (int32_t n = L; n-- > foci_max64(p->lowest, 0);) {
        /* What the last layer computed lies there still. */
        if (p->recompute != FOCI_RECOMPUTE_NONE && n < L - 1) FOCAL_TRY(compute_again(&again, n));
        FOCAL_TRY(feed_forward_back(p, n));
        FOCAL_TRY(attention_back(p, n));
    }
    if (p->lowest < 0) TIMED(p, "embedding, back", 0.0, embed_back(p));
    return FOCAL_OK;
}

static focal_status run(const foci_pass *p)
{
    if (p->options->is_kl) FOCAL_TRY(teach(p));
    FOCAL_TRY(go_forward(p));
    FOCAL_TRY(foci_pass_head(p));
    return p->options->is_loss_only ? FOCAL_OK : go_back(p);
}

static bool learns_low_ranks(const foci_pass *p, int32_t layer)
{
    const foci_low_ranks *low_ranks = p->is_untouched ? NULL : p->t->low_ranks;
    for (int at = 0; low_ranks && at < FOCI_LINEAR_PLACES; at++)
        if (low_ranks->layers[layer][at].a) return true;
    return false;
}

/* The lowest layer of which anything learns in this pass; -1 where all weights do. */
static int32_t lowest_that_learns(const foci_pass *p)
{
    int32_t n = 0;
    if (!p->t->is_frozen) return -1;
    while (n < p->model->config.L && !learns_temperature(p, n) && !foci_pass_has_router(p, n) &&
           !foci_pass_is_scaled(p, n) && !learns_low_ranks(p, n))
        n++;
    return n;
}

static focal_status check_batch(focal_ctx *ctx, const foci_config *c, const foci_batch *batch)
{
    if (batch->T < 1 || batch->T > FOCI_MAX_CONTEXT || !batch->ids || !batch->targets)
        return foci_fail(ctx, FOCAL_EINVAL, "backward: a batch of %d tokens, 1 to %d are possible",
                         batch->T, FOCI_MAX_CONTEXT);
    int32_t row = 0;
    for (int32_t n = 0; n < batch->span_count; n++) {
        const foci_span *span = &batch->spans[n];
        if (span->start != row || span->count < 1 || span->count > batch->T - row)
            return foci_fail(ctx, FOCAL_EINVAL,
                             "backward: sequence %d has %d tokens from row %d on, of %d rows", n,
                             span->count, span->start, batch->T);
        if (c->has_positions && span->count > c->context)
            return foci_fail(ctx, FOCAL_EINVAL, "backward: %d tokens, the model has %d positions",
                             span->count, c->context);
        row += span->count;
    }
    if (row != batch->T)
        return foci_fail(ctx, FOCAL_EINVAL, "backward: sequences of %d rows, the batch has %d", row,
                         batch->T);
    return FOCAL_OK;
}

static void fill_spans(const foci_pass *p)
{
    for (int32_t n = 0; n < p->batch->span_count; n++) {
        const foci_span *span = &p->batch->spans[n];
        p->seqs[n] = (focal_attn_seq){
            .T = span->count, .S = span->count, .q_row = span->start, .k_row = span->start};
        for (int32_t i = 0; i < span->count; i++) p->positions[span->start + i] = i;
        p->starts[n] = span->start;
    }
    p->starts[p->batch->span_count] = p->T;
}

static foci_pass begin(foci_trainable *trainable, const foci_batch *batch,
                       const foci_backward_options *options)
{
    return (foci_pass){.ctx = trainable->ctx,
                       .t = trainable,
                       .model = trainable->model,
                       .batch = batch,
                       .options = options,
                       /* A loss alone keeps nothing, and computes nothing again. */
                       .recompute =
                           options->is_loss_only ? FOCI_RECOMPUTE_BLOCK : options->recompute,
                       .is_untouched = options->is_untouched,
                       .T = batch->T,
                       .act = trainable->model->precision};
}

focal_status foci_backward(foci_trainable *trainable, const foci_batch *batch,
                           const foci_backward_options *options, foci_batch_loss *loss)
{
    foci_pass p = begin(trainable, batch, options);
    *loss = (foci_batch_loss){0};
    p.loss = loss;
    FOCAL_TRY(check_batch(p.ctx, &p.model->config, batch));
    FOCAL_TRY(foci_pass_begin_groups(&p));
    p.lowest = lowest_that_learns(&p);
    p.memory = foci_scratch(p.ctx, foci_pass_lay_out(&p, NULL), 1);
    if (!p.memory) return FOCAL_ENOMEM;
    (void)foci_pass_lay_out(&p, p.memory);
    fill_spans(&p);
    foci_pass_begin_scale(&p);
    focal_status status = foci_pass_make_keysets(&p);
    if (status == FOCAL_OK) status = run(&p);
    foci_pass_free_keysets(&p);
    foci_scratch_free(p.ctx, p.memory);
    return status;
}

size_t foci_backward_bytes(foci_trainable *trainable, int32_t T, int32_t span_count,
                           const foci_backward_options *options)
{
    const foci_batch batch = {.T = T, .span_count = span_count};
    foci_pass p = begin(trainable, &batch, options);
    if (foci_pass_begin_groups(&p) != FOCAL_OK) return 0;
    return foci_pass_lay_out(&p, NULL) + foci_pass_keyset_bytes(&p);
}
