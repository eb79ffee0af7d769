/* The attention block of a pass with gradients, forward and back. */
#include "base/error.h"
#include "model/backward_pass.h"
#include "model/layer_temperature.h"
#include "ops/norm/norm_backward.h"
#include "ops/rope/rope_backward.h"

/* What attention reads of the stream, in float32 too where that is kept: routers read it so, a
 * teacher has none. */
static focal_status read_for_attention(const foci_pass *p, int32_t n)
{
    const foci_gain *gain = &p->model->weights.layers[n].attn_norm;
    const foci_kept *a = foci_kept_of(p, n);
    if (!a->h_exact || !gain->weight || p->is_teacher)
        return foci_pass_read(p, gain, p->x[n], a->h);
    foci_norm_args args = foci_stream_norm(&p->model->config, gain, p->T, p->x[n]);
    args.out = a->h;
    args.out_dtype = p->act;
    args.unrounded = a->h_exact;
    TIMED(p, "norm", 0.0, foci_norm(p->ctx, &args));
    return FOCAL_OK;
}

/* What attention reads, in float32. */
static const float *exact_input(const foci_pass *p, int32_t n)
{
    const foci_kept *a = foci_kept_of(p, n);
    if (!p->model->weights.layers[n].attn_norm.weight) return p->x[n];
    return p->act == FOCAL_F32 ? a->h : a->h_exact;
}

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
    const foci_product three[] = {{&w->q, to.q, to.stride, false},
                                  {&w->k, to.k, to.stride, false},
                                  {&w->v, to.v, to.stride, false}};
    return foci_pass_multiply_several(p, "q k v", a->h, three, 3);
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

bool foci_pass_learns_temperature(const foci_pass *p, int32_t layer)
{
    const foci_layer_grads *grads = &p->t->layers[layer];
    if (p->is_untouched && p->t->group_temperatures) return false;
    return grads->u || grads->a || grads->lt;
}

static focal_status temperature_back(const foci_pass *p, int32_t layer)
{
    const foci_layer_grads *grads = &p->t->layers[layer];
    if (!foci_pass_learns_temperature(p, layer)) return FOCAL_OK;
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
    if (forward.row_scales && foci_pass_learns_temperature(p, layer)) {
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
    FOCAL_TRY(foci_pass_convert(p, c->H, c->D, heads.q, heads.stride, p->observed_q, FOCAL_F32));
    FOCAL_TRY(foci_pass_convert(p, c->G, c->D, heads.k, heads.stride, p->observed_k, FOCAL_F32));
    const foci_observed observed = {
        .T = p->T, .h = exact_input(p, n), .q = p->observed_q, .k = p->observed_k};
    return p->options->observe(p->options->observe_arg, n, &observed);
}

focal_status foci_pass_attention_inside(const foci_pass *p, int32_t n)
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
    if (foci_pass_is_over(p)) return FOCAL_OK;
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

focal_status foci_pass_attention_out(const foci_pass *p, int32_t n)
{
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_kept *a = foci_kept_of(p, n);
    return foci_pass_join(p, "attention out", &w->out, a->o, &w->attn_post, a->attn_y, p->x[n],
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
    return foci_pass_convert(p, 1, (int32_t)d.stride, p->heads, d.stride, p->dheads, p->act);
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

focal_status foci_pass_attention_back(const foci_pass *p, int32_t n)
{
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_layer_grads *grads = &p->t->layers[n];
    const foci_kept *a = foci_kept_of(p, n);
    const int64_t C = p->model->config.C;
    const bool is_lowest = n == p->lowest; /* nothing below learns */
    FOCAL_TRY(foci_pass_join_back(p, &w->attn_post, &grads->attn_post, a->attn_y));
    FOCAL_TRY(foci_pass_weight_gradient(p, "attention out, weights", &w->out, &grads->out, p->dy, C,
                                        a->o));
    FOCAL_TRY(foci_pass_multiply_back(p, "attention out, back", &w->out, p->dy, C, p->dout, p->act,
                                      false));
    FOCAL_TRY(attend_back(p, n));
    TIMED(p, "heads, back", 0.0, heads_back(p, n));
    FOCAL_TRY(project_back(p, n, !is_lowest));
    FOCAL_TRY(temperature_back(p, n));
    if (foci_pass_has_router(p, n)) FOCAL_TRY(foci_pass_route_back(p, n, exact_input(p, n)));
    return is_lowest ? FOCAL_OK : foci_pass_read_back(p, &w->attn_norm, &grads->attn_norm, p->x[n]);
}
