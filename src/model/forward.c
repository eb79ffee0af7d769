/* The forward pass: one for prompts, decoding and loss. It reads in the order of the paper; every
 * line is an operation of ops/, and rows are the tokens of all texts of the batch.
 *
 * x is the residual stream, always float32. What products read is in the model's precision:
 * float32 is the reference, bfloat16 the fast path. There, where rows are few and weights
 * quantised, they read integers: a product then takes as long as its weights take to come from
 * memory. */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "focal/quant.h"
#include "model/forward_pass.h"
#include "ops/embed/embed.h"
#include "ops/loss/loss.h"
#include "ops/loss/soft_cap.h"
#include "ops/matmul/matmul.h"
#include "ops/residual/add.h"

enum { HEAD_ROWS = 128 /* rows of logits at a time, where they are not asked for */ };

/* Whether so many rows meet these weights as integers. */
static bool takes_integers(const focal_model *model, const foci_linear *w, int32_t rows)
{
    return model->precision == FOCAL_BF16 && rows <= FOCI_MATMUL_FEW &&
           focal_dtype_block(w->dtype) > 1;
}

/* hidden = activation(h gate^T) * (h up^T), or activation(h up^T) in families without a gate. */
static focal_status feed_forward_in(const foci_forward *p, const foci_layer *w)
{
    const foci_config *c = &p->model->config;
    const int32_t count = c->is_gated ? 2 : 1;
    const foci_product in[] = {{c->is_gated ? &w->gate : &w->up, p->gate, c->F, false},
                               {&w->up, p->up, c->F, false}};
    if (!p->is_few && !in[0].w->added && !w->up.added) return foci_forward_gated(p, in, count);
    const foci_gate_args gate = {
        .activation = c->activation,
        .T = p->T,
        .F = c->F,
        .gate = p->gate,
        .up = c->is_gated ? p->up : NULL,
        .out = p->hidden,
        .out_dtype = p->act,
    };
    FOCAL_TRY(foci_forward_linears(p, "feed-forward in", p->h, in, count));
    TIMED(p, "activation", foci_no_cost, foci_gate(p->ctx, &gate));
    return FOCAL_OK;
}

static focal_status feed_forward_block(const foci_forward *p, int32_t n)
{
    const foci_layer *w = &p->model->weights.layers[n];
    FOCAL_TRY(foci_forward_read(p, &w->ffn_norm));
    FOCAL_TRY(feed_forward_in(p, w));
    return foci_forward_join(p, "feed-forward out", &w->down, p->hidden, &w->ffn_post);
}

/* x = the embeddings of the tokens and, in GPT-2, of their positions; and the angles of the others'
 * positions. */
static focal_status embed(const foci_forward *p)
{
    const foci_config *c = &p->model->config;
    const foci_model_weights *w = &p->model->weights;
    const foci_embed_table tokens = foci_linear_table(&w->embed);
    const foci_embed_table places = foci_linear_table(&w->positions);
    FOCAL_TRY(foci_embed(p->ctx, &tokens, p->ids, p->T, c->embed_scale, p->x));
    if (c->has_positions) {
        FOCAL_TRY(foci_embed(p->ctx, &places, p->positions, p->T, 1.0F, p->y));
        return foci_add(p->ctx, p->x, p->x, p->y, (int64_t)p->T * c->C);
    }
    for (int is_local = 0; is_local < 2; is_local++) {
        const foci_rope_config *rope = is_local ? &c->rope_local : &c->rope;
        const foci_rope_angles_args args = {.T = p->T,
                                            .rotated = rope->rotated,
                                            .positions = p->positions,
                                            .inv_freq = p->model->inv_freq[is_local],
                                            .scale = p->model->rope_scale[is_local],
                                            .cos = p->cos[is_local],
                                            .sin = p->sin[is_local]};
        if (is_local && !foci_has_windows(c)) break;
        FOCAL_TRY(foci_rope_angles(p->ctx, &args));
    }
    return FOCAL_OK;
}

/* Logits of the rows [first, first + count). */
static focal_status head(const foci_forward *p, int32_t first, int32_t count, float *logits)
{
    const foci_config *c = &p->model->config;
    const foci_model_weights *w = &p->model->weights;
    foci_forward rows = *p; /* a long prompt has few rows here */
    rows.T = count;
    rows.is_few = takes_integers(p->model, &w->head, count);
    rows.act = rows.is_few ? FOCAL_F32 : p->model->precision;
    void *h = rows.is_few ? p->y : p->h;
    FOCAL_TRY(foci_forward_normalise(p, &w->final_norm, count, p->x + (int64_t)first * c->C, h,
                                     rows.act));
    FOCAL_TRY(foci_forward_linear(&rows, "vocabulary", &w->head, h, logits, c->V, false));
    if (c->final_softcap == 0.0F) return FOCAL_OK;
    return foci_soft_cap(p->ctx, logits, (int64_t)count * c->V, c->final_softcap);
}

/* The losses of an item's rows, a few rows of logits at a time; those that are wanted are kept. */
static focal_status score_item(const foci_forward *p, int32_t first, const focal_batch_item *item,
                               float *scratch, float *wanted)
{
    const int64_t V = p->model->config.V;
    const int32_t from = first + item->count - item->logits_count;
    for (int32_t row = first, take; row < first + item->count; row += take) {
        take = (int32_t)foci_min64(first + item->count - row, HEAD_ROWS);
        FOCAL_TRY(head(p, row, take, scratch));
        const foci_loss_args loss = {.T = take,
                                     .V = (int32_t)V,
                                     .logits = scratch,
                                     .targets = p->args->targets + row,
                                     .nll = p->args->nll + row};
        FOCAL_TRY(foci_log_softmax_rows(p->ctx, &loss));
        for (int32_t n = (int32_t)foci_max64(from - row, 0); wanted && n < take; n++)
            memcpy(wanted + (row + n - from) * V, scratch + n * V, (size_t)V * sizeof(float));
    }
    return FOCAL_OK;
}

static focal_status score(const foci_forward *p)
{
    const int64_t V = p->model->config.V;
    float *wanted = p->args->logits, *scratch = NULL;
    focal_status status = FOCAL_OK;
    if (p->args->targets) {
        const int64_t rows = foci_min64(p->T, HEAD_ROWS);
        scratch = foci_scratch(p->ctx, (size_t)(rows * V), sizeof(float));
        if (!scratch) return FOCAL_ENOMEM;
    }
    int32_t row = 0;
    for (int32_t n = 0; n < p->args->item_count && status == FOCAL_OK; n++) {
        const focal_batch_item *item = &p->args->items[n];
        const int32_t count = item->logits_count;
        if (scratch)
            status = score_item(p, row, item, scratch, wanted);
        else if (count > 0)
            status = head(p, row + item->count - count, count, wanted);
        if (wanted) wanted += count * V;
        row += item->count;
    }
    foci_scratch_free(p->ctx, scratch);
    return status;
}

/* Cuts pieces from one allocation; base NULL only counts. */
static void *take(char *base, size_t *used, int64_t count, size_t size)
{
    void *piece = base ? base + *used : NULL;
    *used += (size_t)foci_round_up(count * (int64_t)size, 64);
    return piece;
}

/* Tokens of the longest text behind the pass. */
static int64_t longest(const foci_forward *p)
{
    int64_t most = 0;
    for (int32_t n = 0; n < p->args->item_count; n++) {
        const focal_batch_item *item = &p->args->items[n];
        most = foci_max64(most, (int64_t)p->cache->seqs[item->sequence].length + item->count);
    }
    return most;
}

static size_t lay_out(foci_forward *p, char *base)
{
    const foci_config *c = &p->model->config;
    const int64_t T = p->T, Q = (int64_t)c->H * c->D;
    const size_t act = focal_dtype_bytes(p->act), attn = focal_dtype_bytes(p->attn);
    size_t used = 0;
    p->x = take(base, &used, T * c->C, sizeof(float));
    /* Memory that holds one thing for attention, another for the feed-forward layer. */
    p->h = p->o_act = take(base, &used, T * foci_max64(c->C, Q), act);
    const int64_t qkv_bytes = foci_qkv_stride(c) * (int64_t)sizeof(float);
    p->hidden = take(base, &used, T * foci_max64(qkv_bytes, c->F * (int64_t)act), 1);
    p->qkv = p->hidden;
    const int64_t k_rows = p->cache->dtype == FOCAL_Q8_0 ? focal_ctx_threads(p->ctx) : 0;
    p->k_rows = take(base, &used, k_rows * FOCI_PLACE_ROWS * c->G * c->D, sizeof(float));
    p->q = take(base, &used, T * Q, attn);
    p->o = p->act == p->attn ? p->o_act : take(base, &used, T * Q, attn);
    p->y = take(base, &used, T * c->C, sizeof(float));
    const foci_low_ranks *low_ranks = p->model->low_ranks;
    /* Many rows go from sums to hidden at once, where nothing is added to the sums. */
    const int64_t few = p->is_few || low_ranks ? T : 0;
    p->gate = take(base, &used, few * c->F, sizeof(float));
    p->up = c->is_gated ? take(base, &used, few * c->F, sizeof(float)) : NULL;
    p->low = take(base, &used, low_ranks ? T * low_ranks->rank : 0, sizeof(float));
    bool has_temperature = p->model->adapter_temperatures != NULL;
    for (int32_t n = 0; n < c->L; n++)
        has_temperature |= p->model->weights.layers[n].temperature != NULL;
    p->factors = take(base, &used, has_temperature ? T * c->H : 0, sizeof(float));
    p->ids = take(base, &used, T, sizeof(int32_t));
    p->positions = take(base, &used, T, sizeof(int32_t));
    for (int is_local = 0; is_local < 2; is_local++) {
        const int64_t pairs = (is_local ? &c->rope_local : &c->rope)->rotated / 2;
        p->cos[is_local] = take(base, &used, T * pairs, sizeof(float));
        p->sin[is_local] = take(base, &used, T * pairs, sizeof(float));
    }
    const foci_groups *groups = p->cache->groups;
    const int64_t parts = (int64_t)p->args->item_count * foci_forward_stores(p->cache);
    const int64_t routed = groups ? T * groups->shape.routers : 0;
    p->seqs = take(base, &used, parts, sizeof *p->seqs);
    p->keys = take(base, &used, groups ? parts : 0, sizeof *p->keys);
    p->key_scores = take(base, &used, groups ? routed * groups->shape.K : 0, sizeof(float));
    p->query_scores = take(base, &used, groups ? routed * groups->shape.K : 0, sizeof(float));
    p->key_groups = take(base, &used, routed, sizeof(int32_t));
    p->query_groups = take(base, &used, routed * p->cache->use.top, sizeof(int32_t));
    p->chain_rows =
        take(base, &used, groups ? (int64_t)focal_ctx_threads(p->ctx) * FOCI_PLACE_ROWS : 0,
             (size_t)p->cache->row_bytes);
    p->scale_q = take(base, &used, p->model->scaled ? T : 0, sizeof(float));
    p->scale_k = take(base, &used, p->model->scaled ? longest(p) : 0, sizeof(float));
    return used;
}

static focal_status check_items(foci_forward *p)
{
    focal_ctx *ctx = p->ctx;
    const foci_config *c = &p->model->config;
    const focal_forward_args *a = p->args;
    int64_t total = 0, rows = 0;
    if (a->item_count < 1 || !a->items) return foci_fail(ctx, FOCAL_EINVAL, "forward: no tokens");
    for (int32_t n = 0; n < a->item_count; n++) {
        const focal_batch_item *item = &a->items[n];
        if (item->count < 1 || !item->ids || item->logits_count < 0 ||
            item->logits_count > item->count)
            return foci_fail(ctx, FOCAL_EINVAL, "forward: item %d has %d tokens and %d logits", n,
                             item->count, item->logits_count);
        if (item->sequence < 0 || item->sequence >= p->cache->seq_count)
            return foci_fail(ctx, FOCAL_EINVAL, "forward: sequence %d, the cache has %d",
                             item->sequence, p->cache->seq_count);
        for (int32_t m = 0; m < n; m++)
            if (a->items[m].sequence == item->sequence)
                return foci_fail(ctx, FOCAL_EINVAL, "forward: sequence %d twice in one batch",
                                 item->sequence);
        const int64_t end = (int64_t)p->cache->seqs[item->sequence].length + item->count;
        if (c->has_positions && end > c->context)
            return foci_fail(ctx, FOCAL_EINVAL, "forward: %lld tokens, the model has %d positions",
                             (long long)end, c->context);
        total += item->count;
        rows += item->logits_count;
    }
    if (rows > 0 && !a->logits) return foci_fail(ctx, FOCAL_EINVAL, "forward: no place for logits");
    if (!a->targets != !a->nll)
        return foci_fail(ctx, FOCAL_EINVAL, "forward: targets and nll go together");
    if (total > FOCI_MAX_CONTEXT)
        return foci_fail(ctx, FOCAL_EINVAL, "forward: %lld tokens in one batch, at most %d",
                         (long long)total, FOCI_MAX_CONTEXT);
    p->T = (int32_t)total;
    return FOCAL_OK;
}

static void set_scale(foci_forward *p)
{
    const float scale = expf(*p->model->scaled->log_scale);
    const int64_t keys = longest(p);
    for (int64_t i = 0; i < p->T; i++) p->scale_q[i] = scale;
    for (int64_t j = 0; j < keys; j++) p->scale_k[j] = 1.0F;
    p->scale = (focal_attn_gate){
        .kind = FOCAL_GATE_SCALE, .K = 1, .routers = 1, .gq = p->scale_q, .gk = p->scale_k};
}

static focal_status run_pass(foci_forward *p)
{
    const focal_forward_args *a = p->args;
    int32_t row = 0;
    for (int32_t n = 0; n < a->item_count; n++) {
        const focal_batch_item *item = &a->items[n];
        for (int32_t i = 0; i < item->count; i++, row++) {
            p->ids[row] = item->ids[i];
            p->positions[row] = p->cache->seqs[item->sequence].length + i;
        }
    }
    if (p->model->scaled) set_scale(p);
    TIMED(p, "embedding", foci_no_cost, embed(p));
    for (int32_t n = 0; n < p->model->config.L; n++) {
        FOCAL_TRY(foci_forward_attend(p, n));
        FOCAL_TRY(feed_forward_block(p, n));
    }
    return score(p);
}

focal_status focal_forward(focal_model *model, focal_cache *cache, const focal_forward_args *args)
{
    foci_forward p = {.ctx = model->ctx, .model = model, .cache = cache, .args = args};
    p.act = model->precision;
    p.attn = cache->dtype == FOCAL_Q8_0 ? model->precision : cache->dtype;
    if (cache->model != model)
        return foci_fail(p.ctx, FOCAL_EINVAL, "forward: the cache belongs to another model");
    if (cache->groups != model->groups || cache->adapter_hash != model->adapter_hash)
        return foci_fail(p.ctx, FOCAL_EINVAL,
                         "forward: the cache was made before the model's adapter was changed");
    if (model->scaled && cache->dtype == FOCAL_Q8_0)
        return foci_fail(p.ctx, FOCAL_EUNSUPPORTED,
                         "forward: a scale on distant logits takes no cache in q8_0");
    FOCAL_TRY(check_items(&p));
    p.is_few = takes_integers(model, &model->weights.layers[0].down, p.T);
    if (p.is_few) p.act = FOCAL_F32;
    for (int32_t n = 0; n < args->item_count; n++)
        FOCAL_TRY(foci_cache_reserve(cache, args->items[n].sequence, args->items[n].count));
    p.memory = foci_scratch(p.ctx, lay_out(&p, NULL), 1);
    if (!p.memory) return FOCAL_ENOMEM;
    (void)lay_out(&p, p.memory);
    const focal_status status = run_pass(&p);
    foci_scratch_free(p.ctx, p.memory);
    for (int32_t n = 0; n < args->item_count; n++) {
        const int32_t sequence = args->items[n].sequence;
        if (status == FOCAL_OK)
            cache->seqs[sequence].length += args->items[n].count;
        else
            foci_cache_roll_back(cache, sequence);
    }
    return status;
}
