/* The memory of a call: all arrays in one block, counted and then cut by the same lines. */
#include "base/sizes.h"
#include "model/backward_pass.h"

enum { HEAD_BYTES = 64 << 20 /* of logits at a time */ };

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

static bool has_temperature(const foci_pass *p)
{
    if (p->t->group_temperatures) return true;
    for (int32_t n = 0; n < p->model->config.L; n++)
        if (p->model->weights.layers[n].temperature) return true;
    return false;
}

/* Whether h is needed in float32 beside what products read. */
static bool has_exact(const foci_pass *p)
{
    return p->act != FOCAL_F32 && (p->router_count > 0 || p->options->observe);
}

static void take_memberships(const foci_pass *p, cutter *from, foci_kept *to)
{
    if (p->router_count == 0) return;
    const foci_groups_shape *s = &p->t->groups->shape;
    const int64_t rows = (int64_t)p->T * s->routers;
    const bool is_directed = s->mode == FOCAL_DIRECTED;
    if (p->sinkhorn_rounds > 0) to->sk = take(from, rows * s->K, sizeof(float));
    to->gk = take(from, rows * s->K, sizeof(float));
    to->gq = is_directed ? take(from, rows * s->K, sizeof(float)) : to->gk;
    if (is_directed) to->key_groups = take(from, rows, sizeof(int32_t));
    to->query_groups = take(from, rows * p->top, sizeof(int32_t));
}

static foci_kept take_kept(const foci_pass *p, cutter *from)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[0];
    const int64_t T = p->T, Q = (int64_t)c->H * c->D, KV = (int64_t)c->G * c->D;
    const size_t act = focal_dtype_bytes(p->act), single = sizeof(float);
    foci_kept kept = {.h = take(from, T * c->C, act),
                      .h_exact = has_exact(p) ? take(from, T * c->C, single) : NULL,
                      .qkv = take(from, T * foci_qkv_stride(c), single),
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
    take_memberships(p, from, &kept);
    return kept;
}

/* The stream at every layer, and what else is kept. A loss alone keeps nothing of it. */
static void take_layers(foci_pass *p, cutter *from)
{
    const foci_config *c = &p->model->config;
    const foci_recompute level = p->recompute;
    const int64_t T = p->T;
    p->x = take(from, (int64_t)c->L + 1, sizeof *p->x);
    p->x_mid = take(from, c->L, sizeof *p->x_mid);
    p->kept = take(from, c->L, sizeof *p->kept);
    float *x = NULL, *x_mid = NULL;
    for (int32_t n = 0; n <= c->L; n++) {
        if (n == 0 || !p->options->is_loss_only) x = take(from, T * c->C, sizeof(float));
        if (from->base) p->x[n] = x;
    }
    for (int32_t n = 0; n < c->L; n++) {
        if (n == 0 || level != FOCI_RECOMPUTE_BLOCK) x_mid = take(from, T * c->C, sizeof(float));
        if (from->base) p->x_mid[n] = x_mid;
    }
    for (int32_t n = 0; n < (level == FOCI_RECOMPUTE_NONE ? c->L : 1); n++) {
        const foci_kept one = take_kept(p, from);
        if (from->base) p->kept[n] = one;
    }
}

static void take_groups(foci_pass *p, cutter *from)
{
    if (p->router_count == 0) return;
    const foci_groups_shape *s = &p->t->groups->shape;
    const int64_t scores = (int64_t)p->T * s->routers * s->K, spans = p->batch->span_count;
    int64_t most = 0;
    for (int32_t n = 0; n < s->L; n++) {
        int64_t count = 0;
        for (int which = 0; which < FOCI_GROUP_TENSORS; which++)
            count += foci_groups_count(s, n, (foci_group_tensor)which);
        most = foci_max64(most, count);
    }
    p->keys = take(from, spans, sizeof *p->keys);
    p->grouped_seqs = take(from, spans, sizeof *p->grouped_seqs);
    if (p->options->is_loss_only) return;
    p->dgk = take(from, scores, sizeof(float));
    p->dgq = take(from, scores, sizeof(float));
    if (p->sinkhorn_rounds > 0) p->dsk = take(from, scores, sizeof(float));
    p->dh_route = take(from, (int64_t)p->T * s->C, sizeof(float));
    p->drouter = take(from, most, sizeof(float));
}

static void take_scale(foci_pass *p, cutter *from)
{
    const foci_groups *groups = p->options->groups && !p->is_untouched ? p->t->groups : NULL;
    if (!groups || !groups->log_scale) return;
    p->scale_q = take(from, p->T, sizeof(float));
    p->scale_k = take(from, p->T, sizeof(float));
    if (p->options->is_loss_only) return;
    p->dgq = take(from, p->T, sizeof(float));
    p->dgk = take(from, p->T, sizeof(float));
}

/* Of the way back; a loss alone needs little of it. */
static void take_gradients(foci_pass *p, cutter *from)
{
    const foci_config *c = &p->model->config;
    const int64_t T = p->T, Q = (int64_t)c->H * c->D, KV = (int64_t)c->G * c->D;
    const size_t act = focal_dtype_bytes(p->act), single = sizeof(float);
    p->dh = take(from, T * c->C, single);
    p->heads = take(from, T * foci_qkv_stride(c), single);
    if (p->options->is_loss_only) return;
    p->dx = take(from, T * c->C, single);
    p->dy = take(from, T * c->C, act);
    p->dheads = p->act != FOCAL_F32 ? take(from, T * foci_qkv_stride(c), act) : p->heads;
    p->dq = take(from, T * Q, act);
    p->dk = take(from, T * KV, act);
    p->dv = take(from, T * KV, act);
    p->dout = take(from, T * Q, act);
    p->dhidden = take(from, T * c->F, single);
    p->dgate = take(from, T * c->F, act);
    p->dup = c->is_gated ? take(from, T * c->F, act) : NULL;
    p->dots = has_temperature(p) ? take(from, T * c->H, single) : NULL;
}

static void take_low_ranks(foci_pass *p, cutter *from)
{
    if (!p->model->low_ranks) return;
    const int64_t count = (int64_t)p->T * p->model->low_ranks->rank;
    p->low = take(from, count, sizeof(float));
    p->low_act = p->act != FOCAL_F32 && !p->options->is_loss_only
                     ? take(from, count, focal_dtype_bytes(p->act))
                     : p->low;
}

static void take_head(foci_pass *p, cutter *from)
{
    const foci_config *c = &p->model->config;
    const int64_t T = p->T, least = 16;
    const size_t act = focal_dtype_bytes(p->act), single = sizeof(float);
    p->head_rows = (int32_t)foci_min64(T, foci_max64(HEAD_BYTES / (c->V * (int64_t)single), least));
    const int64_t logits = (int64_t)p->head_rows * c->V;
    p->h_last = take(from, T * c->C, act);
    p->logits = take(from, p->options->is_kl ? 2 * logits : logits, single);
    p->dlogits = p->act != FOCAL_F32 ? take(from, logits, act) : p->logits;
    p->nll = take(from, p->head_rows, sizeof *p->nll);
    if (!p->options->is_kl) return;
    p->h_teacher = take(from, T * c->C, act);
    p->h_both = take(from, 2 * (int64_t)p->head_rows * c->C, act);
}

size_t foci_pass_lay_out(foci_pass *p, char *base)
{
    const foci_config *c = &p->model->config;
    const int64_t T = p->T;
    cutter from = {.used = 0};
    from.base = base;
    take_layers(p, &from);
    take_gradients(p, &from);
    take_head(p, &from);
    take_groups(p, &from);
    take_scale(p, &from);
    take_low_ranks(p, &from);
    p->starts = take(&from, (int64_t)p->batch->span_count + 1, sizeof *p->starts);
    p->positions = take(&from, T, sizeof *p->positions);
    for (int is_local = 0; is_local < 2; is_local++) {
        const int64_t pairs = (is_local ? &c->rope_local : &c->rope)->rotated / 2;
        p->cos[is_local] = take(&from, T * pairs, sizeof(float));
        p->sin[is_local] = take(&from, T * pairs, sizeof(float));
    }
    p->seqs = take(&from, p->batch->span_count, sizeof *p->seqs);
    if (p->options->observe) {
        p->observed_q = take(&from, T * c->H * c->D, sizeof(float));
        p->observed_k = take(&from, T * c->G * c->D, sizeof(float));
    }
    return from.used;
}
