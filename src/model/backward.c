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
#include "base/profile.h"
#include "base/sizes.h"
#include "focal/attn.h"
#include "ops/embed/embed.h"
#include "ops/loss/loss.h"
#include "ops/loss/loss_backward.h"
#include "ops/loss/soft_cap.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_grads.h"
#include "ops/mlp/gate_backward.h"
#include "ops/norm/norm_backward.h"
#include "ops/residual/add.h"
#include "ops/rope/rope_backward.h"

enum { HEAD_BYTES = 64 << 20 /* of logits at a time */ };

/* What a layer computes between two places of the stream, and backward reads again. */
typedef struct kept {
    void *h;          /* (T,C) what q, k and v are made of */
    float *qkv;       /* (T, (H + 2 G) D) before query-key norm */
    void *q, *k, *v;  /* (T,H,D), (T,G,D) twice: what attention reads */
    void *o;          /* (T,H,D) */
    float *lse;       /* (T,H) */
    float *factors;   /* (T) or (T,H) 1 / tau, where the layer has a temperature */
    float *attn_y;    /* (T,C) before the norm behind attention, where there is one */
    void *h_ffn;      /* (T,C) what feed-forward reads */
    float *gate, *up; /* (T,F) */
    void *hidden;     /* (T,F) */
    float *ffn_y;     /* (T,C) as attn_y */
} kept;

/* The arrays of one call. */
typedef struct pass {
    focal_ctx *ctx;
    foci_trainable *t;
    const focal_model *model;
    const foci_batch *batch;
    const foci_backward_options *options;
    foci_recompute recompute;
    int32_t T;
    focal_dtype act;
    int32_t head_rows;
    float **x;     /* (L + 1) the stream before each layer, and behind the last */
    float **x_mid; /* (L) between attention and feed-forward */
    kept *kept;    /* (L), or one for all */
    float *dx;     /* (T,C) */
    void *dy;      /* (T,C) of act: dx as products read it */
    float *dh;     /* (T,C) */
    float *heads;  /* (T, (H + 2 G) D) normalised heads on their way to attention; and dqkv */
    void *dheads;  /* the same of act */
    void *dq, *dk, *dv, *dout; /* of attention */
    float *dhidden;            /* (T,F) */
    void *dgate, *dup;         /* (T,F) of act */
    void *h_last;              /* (T,C) of act: what the head reads */
    float *logits;             /* (head_rows, V) */
    void *dlogits;             /* the same of act; logits itself in float32 */
    double *nll;               /* (head_rows) */
    float *dots;               /* (T,H) of temperatures */
    int32_t *starts;           /* (span_count + 1) */
    int32_t *positions;        /* (T) */
    float *cos[2], *sin[2];
    focal_attn_seq *seqs;
    char *memory;
} pass;

/* Runs an operation under its name in the profile; its cost is looked at only then. */
#define TIMED(p, name, flops, call)                                                                \
    do {                                                                                           \
        const double timed_begin_ = foci_profile_begin((p)->ctx);                                  \
        FOCAL_TRY(call);                                                                           \
        if (foci_profile_is_on((p)->ctx))                                                          \
            foci_profile_end((p)->ctx, name, timed_begin_, (foci_cost){flops, 0.0});               \
    } while (0)

static int64_t qkv_stride(const foci_config *c)
{
    return ((int64_t)c->H + 2 * (int64_t)c->G) * c->D;
}

static kept *kept_of(const pass *p, int32_t layer)
{
    return &p->kept[p->recompute == FOCI_RECOMPUTE_NONE ? layer : 0];
}

/* ---- Products ---- */

static double product_flops(const pass *p, const foci_linear *w)
{
    return 2.0 * p->T * (double)w->N * (double)w->K;
}

static foci_matmul_args product_args(const pass *p, const foci_linear *w, const void *x, float *out,
                                     int64_t out_stride, bool adds)
{
    return (foci_matmul_args){.M = p->T,
                              .N = w->N,
                              .K = w->K,
                              .x = x,
                              .x_dtype = p->act,
                              .x_stride = w->K,
                              .w = w->w,
                              .w_dtype = w->dtype,
                              .w_is_transposed = w->is_transposed,
                              .bias = w->bias,
                              .adds = adds,
                              .out = out,
                              .out_dtype = FOCAL_F32,
                              .out_stride = out_stride};
}

/* out (T,N) = x w^T + bias, or += . */
static focal_status multiply(const pass *p, const char *name, const foci_linear *w, const void *x,
                             float *out, int64_t out_stride, bool adds)
{
    const foci_matmul_args args = product_args(p, w, x, out, out_stride, adds);
    TIMED(p, name, product_flops(p, w), foci_matmul(p->ctx, &args));
    return FOCAL_OK;
}

/* dx (T,K) = dy w, or += . */
static focal_status multiply_back(const pass *p, const char *name, const foci_linear *w,
                                  const void *dy, int64_t dy_stride, void *dx, focal_dtype dx_dtype,
                                  bool adds)
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
                                      .adds = adds,
                                      .dx = dx,
                                      .dx_dtype = dx_dtype,
                                      .dx_stride = w->K};
    TIMED(p, name, product_flops(p, w), foci_matmul_dx(p->ctx, &args));
    return FOCAL_OK;
}

/* dw += dy^T x, dbias += the sum of dy's rows. */
static focal_status add_weight_gradient(const pass *p, const char *name, const foci_linear *w,
                                        const foci_linear_grads *grads, const void *dy,
                                        int64_t dy_stride, const void *x)
{
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
static focal_status convert(const pass *p, int32_t H, int32_t D, const float *x, int64_t x_stride,
                            void *out, focal_dtype out_dtype)
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

static focal_status normalise(const pass *p, const foci_gain *gain, const float *x, void *out,
                              focal_dtype out_dtype)
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

/* dx = the gradient of what the norm read, or += ; dx may be dy. */
static focal_status normalise_back(const pass *p, const foci_gain *gain,
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
static focal_status read_stream(const pass *p, const foci_gain *gain, const float *x, void *h)
{
    const int32_t C = p->model->config.C;
    if (gain->weight) return normalise(p, gain, x, h, p->act);
    return convert(p, 1, C, x, C, h, p->act);
}

/* dx += the gradient that came to h. */
static focal_status read_stream_back(const pass *p, const foci_gain *gain,
                                     const foci_gain_grads *grads, const float *x)
{
    if (gain->weight) return normalise_back(p, gain, grads, x, p->dh, p->dx, true);
    return foci_add(p->ctx, p->dx, p->dx, p->dh, (int64_t)p->T * p->model->config.C);
}

/* to = from + what a block gives through w, normalised where the family does it there. */
static focal_status join_stream(const pass *p, const char *name, const foci_linear *w,
                                const void *block, const foci_gain *gain, float *y,
                                const float *from, float *to)
{
    const int64_t count = (int64_t)p->T * p->model->config.C;
    if (!gain->weight) {
        memcpy(to, from, (size_t)count * sizeof *to);
        return multiply(p, name, w, block, to, w->N, true);
    }
    FOCAL_TRY(multiply(p, name, w, block, y, w->N, false));
    FOCAL_TRY(normalise(p, gain, y, to, FOCAL_F32));
    return foci_add(p->ctx, to, to, from, count);
}

/* dy = the gradient of what w gave, as products read it. */
static focal_status join_stream_back(const pass *p, const foci_gain *gain,
                                     const foci_gain_grads *grads, const float *y)
{
    const int32_t C = p->model->config.C;
    if (!gain->weight) return convert(p, 1, C, p->dx, C, p->dy, p->act);
    FOCAL_TRY(normalise_back(p, gain, grads, y, p->dx, p->dh, false));
    return convert(p, 1, C, p->dh, C, p->dy, p->act);
}

/* ---- Attention ---- */

/* q, k and v of a token lie side by side. */
typedef struct thirds {
    int64_t stride;
    float *q, *k, *v;
} thirds;

static thirds cut(const pass *p, float *qkv)
{
    const foci_config *c = &p->model->config;
    float *k = qkv + (int64_t)c->H * c->D;
    return (thirds){qkv_stride(c), qkv, k, k + (int64_t)c->G * c->D};
}

static focal_status project(const pass *p, const foci_layer *w, const kept *a)
{
    const thirds to = cut(p, a->qkv);
    if (w->qkv.w) return multiply(p, "q k v", &w->qkv, a->h, to.q, to.stride, false);
    const foci_matmul_args args[] = {product_args(p, &w->q, a->h, to.q, to.stride, false),
                                     product_args(p, &w->k, a->h, to.k, to.stride, false),
                                     product_args(p, &w->v, a->h, to.v, to.stride, false)};
    TIMED(p, "q k v", product_flops(p, &w->q) + product_flops(p, &w->k) + product_flops(p, &w->v),
          foci_matmul_several(p->ctx, args, 3));
    return FOCAL_OK;
}

static focal_status normalise_heads(const pass *p, const foci_gain *gain, int32_t heads,
                                    const float *x, float *out)
{
    const foci_config *c = &p->model->config;
    const bool is_head = c->qk_norm == FOCI_QK_HEAD;
    foci_norm_args args = {.kind = c->norm,
                           .T = p->T,
                           .H = is_head ? heads : 1,
                           .width = is_head ? c->D : heads * c->D,
                           .x = x,
                           .x_stride = qkv_stride(c),
                           .weight = gain->weight,
                           .weight_offset = c->norm_offset,
                           .epsilon = c->epsilon,
                           .out_dtype = FOCAL_F32,
                           .out_stride = qkv_stride(c)};
    args.out = out;
    return foci_norm(p->ctx, &args);
}

/* In place on the gradient of the heads. */
static focal_status normalise_heads_back(const pass *p, const foci_gain *gain,
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
                                    .x_stride = qkv_stride(c),
                                    .weight = gain->weight,
                                    .weight_offset = c->norm_offset,
                                    .epsilon = c->epsilon,
                                    .dy = dx,
                                    .dy_stride = qkv_stride(c),
                                    .dx_stride = qkv_stride(c),
                                    .dweight = grads->weight};
    args.dx = dx;
    return foci_norm_backward(p->ctx, &args);
}

/* The temperature of a layer that has one, with what it is computed from. */
static foci_temperature_args temperature_args(const pass *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    const kept *a = kept_of(p, layer);
    return (foci_temperature_args){.temperature = p->model->weights.layers[layer].temperature,
                                   .T = p->T,
                                   .H = c->H,
                                   .C = c->C,
                                   .h = a->h,
                                   .h_dtype = p->act,
                                   .positions = p->positions,
                                   .sequence_starts = p->starts,
                                   .sequence_count = p->batch->span_count,
                                   .root = 1.0F / c->attn_scale,
                                   .factors = a->factors};
}

static bool learns_temperature(const pass *p, int32_t layer)
{
    const foci_layer_grads *grads = &p->t->layers[layer];
    return grads->u || grads->a || grads->lt;
}

static focal_status temperature_back(const pass *p, int32_t layer)
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

static foci_rope_args placing(const pass *p, int32_t layer, third which)
{
    const foci_config *c = &p->model->config;
    const foci_temperature *temperature = p->model->weights.layers[layer].temperature;
    const bool is_local = c->is_local[layer];
    foci_rope_args args = {.T = p->T,
                           .H = which == THIRD_Q ? c->H : c->G,
                           .D = c->D,
                           .x_stride = qkv_stride(c),
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
    args.row_scales = kept_of(p, layer)->factors;
    args.has_head_scales = foci_temperature_is_per_head(temperature);
    return args;
}

static focal_status place(const pass *p, int32_t layer, third which, const float *x, void *out)
{
    foci_rope_args args = placing(p, layer, which);
    args.x = x;
    args.out = out;
    return foci_rope_apply(p->ctx, &args);
}

static focal_status place_back(const pass *p, int32_t layer, third which, const void *dout,
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
        args.out = kept_of(p, layer)->q;
        args.dots = p->dots;
    }
    args.dx = dx;
    return foci_rope_backward(p->ctx, &args);
}

static focal_attn_args attention_args(const pass *p, int32_t layer, const kept *a)
{
    const foci_config *c = &p->model->config;
    return (focal_attn_args){.H = c->H,
                             .G = c->G,
                             .D = c->D,
                             .dtype = p->act,
                             .q = a->q,
                             .k = a->k,
                             .v = a->v,
                             .has_window = c->is_local[layer],
                             .window = c->window,
                             .softcap = c->attn_softcap,
                             .seq_count = p->batch->span_count,
                             .seqs = p->seqs,
                             .out = a->o,
                             .lse = a->lse};
}

/* Scores and sums of values, for each pair that is seen. */
static double attention_flops(const pass *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    double pairs = 0.0;
    for (int32_t n = 0; n < p->batch->span_count; n++) {
        const double count = p->batch->spans[n].count;
        const double most = c->is_local[layer] ? (double)c->window + 1.0 : count;
        const double rising = most < count ? most : count;
        pairs += 0.5 * rising * (rising + 1.0) + (count - rising) * most;
    }
    return 4.0 * c->D * c->H * pairs;
}

/* Everything of attention but its last product. */
static focal_status attention_inside(const pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    const kept *a = kept_of(p, n);
    const thirds raw = cut(p, a->qkv), heads = cut(p, p->heads);
    const bool has_norm = c->qk_norm != FOCI_QK_NONE;
    FOCAL_TRY(read_stream(p, &w->attn_norm, p->x[n], a->h));
    FOCAL_TRY(project(p, w, a));
    if (has_norm) {
        FOCAL_TRY(normalise_heads(p, &w->q_norm, c->H, raw.q, heads.q));
        FOCAL_TRY(normalise_heads(p, &w->k_norm, c->G, raw.k, heads.k));
    }
    if (w->temperature) {
        const foci_temperature_args temperature = temperature_args(p, n);
        FOCAL_TRY(foci_temperature_factors(p->ctx, &temperature));
    }
    FOCAL_TRY(place(p, n, THIRD_Q, has_norm ? heads.q : raw.q, a->q));
    FOCAL_TRY(place(p, n, THIRD_K, has_norm ? heads.k : raw.k, a->k));
    FOCAL_TRY(place(p, n, THIRD_V, raw.v, a->v));
    const focal_attn_args args = attention_args(p, n, a);
    TIMED(p, "attention", attention_flops(p, n), focal_attn_forward(p->ctx, &args));
    return FOCAL_OK;
}

static focal_status attention_out(const pass *p, int32_t n)
{
    const foci_layer *w = &p->model->weights.layers[n];
    const kept *a = kept_of(p, n);
    return join_stream(p, "attention out", &w->out, a->o, &w->attn_post, a->attn_y, p->x[n],
                       p->x_mid[n]);
}

/* The gradients of q, k and v, side by side and as products read them, in dheads. */
static focal_status heads_back(const pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_layer_grads *grads = &p->t->layers[n];
    const thirds raw = cut(p, kept_of(p, n)->qkv), d = cut(p, p->heads);
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

/* q, k and v as one matrix, where they and so their gradients lie one behind the other: their
 * gradients are then one product each. w NULL: they do not. */
static foci_linear joined(const foci_linear *q, const foci_linear *k, const foci_linear *v)
{
    const int64_t size = (int64_t)focal_dtype_bytes(q->dtype);
    const char *behind_q = (const char *)q->w + (int64_t)q->N * q->K * size;
    const char *behind_k = (const char *)k->w + (int64_t)k->N * k->K * size;
    if (q->is_transposed || q->bias || k->w != (const void *)behind_q ||
        v->w != (const void *)behind_k)
        return (foci_linear){0};
    foci_linear all = *q;
    all.N += k->N + v->N;
    return all;
}

static focal_status project_back(const pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_layer_grads *grads = &p->t->layers[n];
    const int64_t stride = qkv_stride(c), size = (int64_t)focal_dtype_bytes(p->act);
    const char *dq = p->dheads, *dk = dq + (int64_t)c->H * c->D * size;
    const char *dv = dk + (int64_t)c->G * c->D * size;
    const void *h = kept_of(p, n)->h;
    const foci_linear all = w->qkv.w ? w->qkv : joined(&w->q, &w->k, &w->v);
    if (all.w) {
        const foci_linear_grads *to = w->qkv.w ? &grads->qkv : &grads->q;
        FOCAL_TRY(add_weight_gradient(p, "q k v, weights", &all, to, dq, stride, h));
        return multiply_back(p, "q k v, back", &all, dq, stride, p->dh, FOCAL_F32, false);
    }
    FOCAL_TRY(add_weight_gradient(p, "q k v, weights", &w->q, &grads->q, dq, stride, h));
    FOCAL_TRY(add_weight_gradient(p, "q k v, weights", &w->k, &grads->k, dk, stride, h));
    FOCAL_TRY(add_weight_gradient(p, "q k v, weights", &w->v, &grads->v, dv, stride, h));
    FOCAL_TRY(multiply_back(p, "q k v, back", &w->q, dq, stride, p->dh, FOCAL_F32, false));
    FOCAL_TRY(multiply_back(p, "q k v, back", &w->k, dk, stride, p->dh, FOCAL_F32, true));
    return multiply_back(p, "q k v, back", &w->v, dv, stride, p->dh, FOCAL_F32, true);
}

static focal_status attention_back(const pass *p, int32_t n)
{
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_layer_grads *grads = &p->t->layers[n];
    const kept *a = kept_of(p, n);
    const int64_t C = p->model->config.C;
    FOCAL_TRY(join_stream_back(p, &w->attn_post, &grads->attn_post, a->attn_y));
    FOCAL_TRY(
        add_weight_gradient(p, "attention out, weights", &w->out, &grads->out, p->dy, C, a->o));
    FOCAL_TRY(multiply_back(p, "attention out, back", &w->out, p->dy, C, p->dout, p->act, false));
    const focal_attn_args args = attention_args(p, n, a);
    const focal_attn_grads d = {.dout = p->dout, .dq = p->dq, .dk = p->dk, .dv = p->dv};
    TIMED(p, "attention, back", 2.5 * attention_flops(p, n),
          focal_attn_backward(p->ctx, &args, &d));
    TIMED(p, "heads, back", 0.0, heads_back(p, n));
    FOCAL_TRY(project_back(p, n));
    FOCAL_TRY(temperature_back(p, n));
    return read_stream_back(p, &w->attn_norm, &grads->attn_norm, p->x[n]);
}

/* ---- Feed-forward ---- */

static focal_status feed_forward_inside(const pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    const kept *a = kept_of(p, n);
    FOCAL_TRY(read_stream(p, &w->ffn_norm, p->x_mid[n], a->h_ffn));
    const foci_matmul_args args[] = {
        product_args(p, c->is_gated ? &w->gate : &w->up, a->h_ffn, a->gate, c->F, false),
        product_args(p, &w->up, a->h_ffn, a->up, c->F, false)};
    const int32_t count = c->is_gated ? 2 : 1;
    TIMED(p, "feed-forward in", count * product_flops(p, &w->up),
          foci_matmul_several(p->ctx, args, count));
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

static focal_status feed_forward_out(const pass *p, int32_t n)
{
    const foci_layer *w = &p->model->weights.layers[n];
    const kept *a = kept_of(p, n);
    return join_stream(p, "feed-forward out", &w->down, a->hidden, &w->ffn_post, a->ffn_y,
                       p->x_mid[n], p->x[n + 1]);
}

static focal_status feed_forward_back(const pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_layer_grads *grads = &p->t->layers[n];
    const kept *a = kept_of(p, n);
    const foci_linear *first = c->is_gated ? &w->gate : &w->up;
    const foci_linear_grads *first_grads = c->is_gated ? &grads->gate : &grads->up;
    FOCAL_TRY(join_stream_back(p, &w->ffn_post, &grads->ffn_post, a->ffn_y));
    FOCAL_TRY(add_weight_gradient(p, "feed-forward out, weights", &w->down, &grads->down, p->dy,
                                  c->C, a->hidden));
    FOCAL_TRY(multiply_back(p, "feed-forward out, back", &w->down, p->dy, c->C, p->dhidden,
                            FOCAL_F32, false));
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
    FOCAL_TRY(add_weight_gradient(p, "feed-forward in, weights", first, first_grads, p->dgate, c->F,
                                  a->h_ffn));
    FOCAL_TRY(
        multiply_back(p, "feed-forward in, back", first, p->dgate, c->F, p->dh, FOCAL_F32, false));
    if (c->is_gated) {
        FOCAL_TRY(add_weight_gradient(p, "feed-forward in, weights", &w->up, &grads->up, p->dup,
                                      c->F, a->h_ffn));
        FOCAL_TRY(multiply_back(p, "feed-forward in, back", &w->up, p->dup, c->F, p->dh, FOCAL_F32,
                                true));
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

static focal_status embed(const pass *p)
{
    const foci_config *c = &p->model->config;
    const foci_model_weights *w = &p->model->weights;
    FOCAL_TRY(foci_embed(p->ctx, w->embed.w, w->embed.dtype, c->V, c->C, p->batch->ids, p->T,
                         c->embed_scale, p->x[0]));
    if (c->has_positions) {
        FOCAL_TRY(foci_embed(p->ctx, w->positions.w, w->positions.dtype, c->context, c->C,
                             p->positions, p->T, 1.0F, p->dh));
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

static focal_status embed_back(const pass *p)
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

static void add_losses(const pass *p, int32_t first, int32_t count, foci_batch_loss *loss)
{
    for (int32_t n = 0; n < count; n++) {
        loss->nll += p->nll[n];
        loss->targets += p->batch->targets[first + n] != FOCI_LOSS_NO_TARGET;
    }
}

/* The losses of some rows, and what they give to the head and, in dh, to what it read. */
static focal_status head_rows(const pass *p, int32_t first, int32_t count, foci_batch_loss *loss)
{
    const foci_config *c = &p->model->config;
    const foci_linear *w = &p->model->weights.head;
    pass rows = *p;
    rows.T = count;
    const char *h =
        (const char *)p->h_last + (int64_t)first * c->C * (int64_t)focal_dtype_bytes(p->act);
    FOCAL_TRY(multiply(&rows, "vocabulary", w, h, p->logits, c->V, false));
    if (c->final_softcap != 0.0F)
        FOCAL_TRY(foci_soft_cap(p->ctx, p->logits, (int64_t)count * c->V, c->final_softcap));
    if (p->options->is_loss_only) {
        const foci_loss_args args = {.T = count,
                                     .V = c->V,
                                     .logits = p->logits,
                                     .targets = p->batch->targets + first,
                                     .nll = p->nll};
        TIMED(p, "loss", 0.0, foci_log_softmax_rows(p->ctx, &args));
        add_losses(p, first, count, loss);
        return FOCAL_OK;
    }
    const foci_loss_backward_args args = {.T = count,
                                          .V = c->V,
                                          .logits = p->logits,
                                          .targets = p->batch->targets + first,
                                          .scale = p->options->scale,
                                          .z = p->options->z,
                                          .soft_cap = c->final_softcap,
                                          .dlogits = p->dlogits,
                                          .dlogits_dtype = p->act,
                                          .nll = p->nll};
    TIMED(p, "loss", 0.0, foci_loss_backward(p->ctx, &args));
    add_losses(p, first, count, loss);
    FOCAL_TRY(
        add_weight_gradient(&rows, "vocabulary, weights", w, &p->t->head, p->dlogits, c->V, h));
    return multiply_back(&rows, "vocabulary, back", w, p->dlogits, c->V,
                         p->dh + (int64_t)first * c->C, FOCAL_F32, false);
}

/* The loss, and dx behind the last layer. */
static focal_status head(const pass *p, foci_batch_loss *loss)
{
    const foci_config *c = &p->model->config;
    const foci_gain *gain = &p->model->weights.final_norm;
    FOCAL_TRY(normalise(p, gain, p->x[c->L], p->h_last, p->act));
    for (int32_t row = 0, count; row < p->T; row += count) {
        count = (int32_t)foci_min64(p->T - row, p->head_rows);
        FOCAL_TRY(head_rows(p, row, count, loss));
    }
    if (p->options->is_loss_only) return FOCAL_OK;
    return normalise_back(p, gain, &p->t->final_norm, p->x[c->L], p->dh, p->dx, false);
}

/* ---- The whole ---- */

/* What forward has computed of a layer and not kept. */
static focal_status compute_again(const pass *p, int32_t n)
{
    const foci_layer *w = &p->model->weights.layers[n];
    const kept *a = kept_of(p, n);
    const int64_t C = p->model->config.C;
    if (p->recompute == FOCI_RECOMPUTE_NONE) return FOCAL_OK;
    FOCAL_TRY(attention_inside(p, n));
    if (p->recompute == FOCI_RECOMPUTE_BLOCK)
        FOCAL_TRY(attention_out(p, n));
    else if (w->attn_post.weight)
        FOCAL_TRY(multiply(p, "attention out", &w->out, a->o, a->attn_y, C, false));
    FOCAL_TRY(feed_forward_inside(p, n));
    if (!w->ffn_post.weight) return FOCAL_OK;
    return multiply(p, "feed-forward out", &w->down, a->hidden, a->ffn_y, C, false);
}

static focal_status run(const pass *p, foci_batch_loss *loss)
{
    const int32_t L = p->model->config.L;
    TIMED(p, "embedding", 0.0, embed(p));
    for (int32_t n = 0; n < L; n++) {
        FOCAL_TRY(attention_inside(p, n));
        FOCAL_TRY(attention_out(p, n));
        FOCAL_TRY(feed_forward_inside(p, n));
        FOCAL_TRY(feed_forward_out(p, n));
    }
    FOCAL_TRY(head(p, loss));
    for (int32_t n = p->options->is_loss_only ? 0 : L; n-- > 0;) {
        FOCAL_TRY(compute_again(p, n));
        FOCAL_TRY(feed_forward_back(p, n));
        FOCAL_TRY(attention_back(p, n));
    }
    if (!p->options->is_loss_only) TIMED(p, "embedding, back", 0.0, embed_back(p));
    return FOCAL_OK;
}

/* Cuts pieces from one allocation; base NULL only counts. */
typedef struct cutter {
    char *base;
    size_t used;
} cutter;

static void *take(cutter *from, int64_t count, size_t size)
{
    void *piece = from->base ? from->base + from->used : NULL;
    from->used += (size_t)foci_round_up(count * (int64_t)size, 64);
    return piece;
}

static bool has_temperature(const pass *p)
{
    for (int32_t n = 0; n < p->model->config.L; n++)
        if (p->model->weights.layers[n].temperature) return true;
    return false;
}

static kept take_kept(const pass *p, cutter *from)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[0];
    const int64_t T = p->T, Q = (int64_t)c->H * c->D, KV = (int64_t)c->G * c->D;
    const size_t act = focal_dtype_bytes(p->act), single = sizeof(float);
    return (kept){.h = take(from, T * c->C, act),
                  .qkv = take(from, T * qkv_stride(c), single),
                  .q = take(from, T * Q, act),
                  .k = take(from, T * KV, act),
                  .v = take(from, T * KV, act),
                  .o = take(from, T * Q, act),
                  .lse = take(from, T * c->H, single),
                  .factors = has_temperature(p) ? take(from, T * c->H, single) : NULL,
                  .attn_y = w->attn_post.weight ? take(from, T * c->C, single) : NULL,
                  .h_ffn = take(from, T * c->C, act),
                  .gate = take(from, T * c->F, single),
                  .up = c->is_gated ? take(from, T * c->F, single) : NULL,
                  .hidden = take(from, T * c->F, act),
                  .ffn_y = w->ffn_post.weight ? take(from, T * c->C, single) : NULL};
}

/* The stream at every layer, and what else is kept. */
static void take_layers(pass *p, cutter *from)
{
    const foci_config *c = &p->model->config;
    const foci_recompute level = p->recompute;
    const int64_t T = p->T;
    p->x = take(from, (int64_t)c->L + 1, sizeof *p->x);
    p->x_mid = take(from, c->L, sizeof *p->x_mid);
    p->kept = take(from, c->L, sizeof *p->kept);
    for (int32_t n = 0; n <= c->L; n++) {
        float *x = take(from, T * c->C, sizeof(float));
        if (from->base) p->x[n] = x;
    }
    float *x_mid = NULL;
    for (int32_t n = 0; n < c->L; n++) {
        if (n == 0 || level != FOCI_RECOMPUTE_BLOCK) x_mid = take(from, T * c->C, sizeof(float));
        if (from->base) p->x_mid[n] = x_mid;
    }
    for (int32_t n = 0; n < (level == FOCI_RECOMPUTE_NONE ? c->L : 1); n++) {
        const kept one = take_kept(p, from);
        if (from->base) p->kept[n] = one;
    }
}

static size_t lay_out(pass *p, char *base)
{
    const foci_config *c = &p->model->config;
    const int64_t T = p->T, Q = (int64_t)c->H * c->D, KV = (int64_t)c->G * c->D;
    const size_t act = focal_dtype_bytes(p->act), single = sizeof(float);
    const bool is_rounded = p->act != FOCAL_F32;
    cutter from = {.used = 0};
    from.base = base;
    take_layers(p, &from);
    p->head_rows = (int32_t)foci_min64(T, foci_max64(HEAD_BYTES / (c->V * (int64_t)single), 16));
    p->dx = take(&from, T * c->C, single);
    p->dy = take(&from, T * c->C, act);
    p->dh = take(&from, T * c->C, single);
    p->heads = take(&from, T * qkv_stride(c), single);
    p->dheads = is_rounded ? take(&from, T * qkv_stride(c), act) : p->heads;
    p->dq = take(&from, T * Q, act);
    p->dk = take(&from, T * KV, act);
    p->dv = take(&from, T * KV, act);
    p->dout = take(&from, T * Q, act);
    p->dhidden = take(&from, T * c->F, single);
    p->dgate = take(&from, T * c->F, act);
    p->dup = c->is_gated ? take(&from, T * c->F, act) : NULL;
    p->h_last = take(&from, T * c->C, act);
    p->logits = take(&from, (int64_t)p->head_rows * c->V, single);
    p->dlogits = is_rounded ? take(&from, (int64_t)p->head_rows * c->V, act) : p->logits;
    p->nll = take(&from, p->head_rows, sizeof *p->nll);
    p->dots = has_temperature(p) ? take(&from, T * c->H, single) : NULL;
    p->starts = take(&from, (int64_t)p->batch->span_count + 1, sizeof *p->starts);
    p->positions = take(&from, T, sizeof *p->positions);
    for (int is_local = 0; is_local < 2; is_local++) {
        const int64_t pairs = (is_local ? &c->rope_local : &c->rope)->rotated / 2;
        p->cos[is_local] = take(&from, T * pairs, single);
        p->sin[is_local] = take(&from, T * pairs, single);
    }
    p->seqs = take(&from, p->batch->span_count, sizeof *p->seqs);
    return from.used;
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

static void fill_spans(const pass *p)
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

focal_status foci_backward(foci_trainable *trainable, const foci_batch *batch,
                           const foci_backward_options *options, foci_batch_loss *loss)
{
    pass p = {.ctx = trainable->ctx,
              .t = trainable,
              .model = trainable->model,
              .batch = batch,
              .options = options,
              /* A loss alone keeps nothing, and computes nothing again. */
              .recompute = options->is_loss_only ? FOCI_RECOMPUTE_BLOCK : options->recompute,
              .T = batch->T,
              .act = trainable->model->precision};
    *loss = (foci_batch_loss){0};
    FOCAL_TRY(check_batch(p.ctx, &p.model->config, batch));
    p.memory = foci_scratch(p.ctx, lay_out(&p, NULL), 1);
    if (!p.memory) return FOCAL_ENOMEM;
    (void)lay_out(&p, p.memory);
    fill_spans(&p);
    const focal_status status = run(&p, loss);
    foci_scratch_free(p.ctx, p.memory);
    return status;
}

size_t foci_backward_bytes(const foci_trainable *trainable, int32_t T, int32_t span_count,
                           foci_recompute recompute)
{
    const foci_batch batch = {.T = T, .span_count = span_count};
    const foci_backward_options options = {.recompute = recompute};
    pass p = {.model = trainable->model,
              .batch = &batch,
              .options = &options,
              .recompute = recompute,
              .T = T,
              .act = trainable->model->precision};
    return lay_out(&p, NULL);
}
