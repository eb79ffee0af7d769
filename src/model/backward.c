/* The gradient of the whole model: the forward pass once more, keeping what backward needs, and
 * then its mirror, last operation first. It reads in the order of docs/MATH.md; every line is an
 * operation of ops/, and rows are the tokens of all sequences.
 *
 * x is the residual stream and dx its gradient, always float32. What products read is in the
 * model's precision, gradients too. */
#include "model/backward.h"

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "model/backward_pass.h"
#include "ops/embed/embed.h"
#include "ops/mlp/gate_backward.h"
#include "ops/residual/add.h"

/* ---- Feed-forward ---- */

/* Nobody reads again what a teacher or a loss alone computes on the way. */
static bool goes_only_forward(const foci_pass *p)
{
    return p->is_teacher || p->options->is_loss_only;
}

static focal_status feed_forward_inside(const foci_pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    const foci_kept *a = foci_kept_of(p, n);
    FOCAL_TRY(foci_pass_read(p, &w->ffn_norm, p->x_mid[n], a->h_ffn));
    const foci_product in[] = {{c->is_gated ? &w->gate : &w->up, a->gate, c->F, false},
                               {&w->up, a->up, c->F, false}};
    const int32_t count = c->is_gated ? 2 : 1;
    if (goes_only_forward(p) && !foci_pass_added_to(p, in[0].w) && !foci_pass_added_to(p, &w->up))
        return foci_pass_multiply_gated(p, a, in, count);
    FOCAL_TRY(foci_pass_multiply_several(p, "feed-forward in", a->h_ffn, in, count));
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
    return foci_pass_join(p, "feed-forward out", &w->down, a->hidden, &w->ffn_post, a->ffn_y,
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
    FOCAL_TRY(foci_pass_join_back(p, &w->ffn_post, &grads->ffn_post, a->ffn_y));
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
    return foci_pass_read_back(p, &w->ffn_norm, &grads->ffn_norm, p->x_mid[n]);
}

/* ---- Both ends ---- */

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
    for (int is_local = 0; is_local < (foci_has_windows(c) ? 2 : 1); is_local++) {
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
    FOCAL_TRY(foci_pass_attention_inside(p, n));
    if (p->recompute == FOCI_RECOMPUTE_BLOCK)
        FOCAL_TRY(foci_pass_attention_out(p, n));
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
        FOCAL_TRY(foci_pass_attention_inside(p, n));
        if (foci_pass_is_over(p)) return FOCAL_OK;
        FOCAL_TRY(foci_pass_attention_out(p, n));
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
        FOCAL_TRY(foci_pass_attention_back(p, n));
    }
    if (p->lowest < 0) TIMED(p, "embedding, back", 0.0, embed_back(p));
    return FOCAL_OK;
}

static focal_status run(const foci_pass *p)
{
    if (p->options->is_kl) FOCAL_TRY(teach(p));
    FOCAL_TRY(go_forward(p));
    if (foci_pass_is_over(p)) return FOCAL_OK;
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
    while (n < p->model->config.L && !foci_pass_learns_temperature(p, n) &&
           !foci_pass_has_router(p, n) && !foci_pass_is_scaled(p, n) && !learns_low_ranks(p, n))
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
