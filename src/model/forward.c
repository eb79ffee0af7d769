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
#include "base/profile.h"
#include "base/sizes.h"
#include "focal/attn.h"
#include "focal/quant.h"
#include "model/cache.h"
#include "ops/embed/embed.h"
#include "ops/loss/loss.h"
#include "ops/loss/soft_cap.h"
#include "ops/matmul/matmul.h"
#include "ops/quant/q8_rows.h"
#include "ops/residual/add.h"

enum { HEAD_ROWS = 128 /* rows of logits at a time, where they are not asked for */ };

/* The arrays of one pass. */
typedef struct pass {
    focal_ctx *ctx;
    focal_model *model;
    focal_cache *cache;
    const focal_forward_args *args;
    int32_t T;          /* tokens of all items */
    bool is_few;        /* products may round what they read to 16 bits; act is float32 then */
    focal_dtype act;    /* of what products read */
    focal_dtype attn;   /* of attention's q and out, and of k and v but in q8_0 */
    float *x;           /* (T,C) */
    void *h;            /* (T,C) of act: what attention and feed-forward read */
    float *qkv;         /* (T, (H + 2 G) D) */
    float *k_rows;      /* (FOCI_PAGE_ROWS, G, D) keys on their way into a cache of q8_0 */
    void *q;            /* (T,H,D) of attn */
    void *o;            /* (T,H,D) of attn */
    void *o_act;        /* the same in act; o itself where they are equal */
    float *y;           /* (T,C) what a block gives, where it is normalised before it is added */
    float *gate, *up;   /* (T,F) */
    void *hidden;       /* (T,F) of act */
    int32_t *ids;       /* (T) */
    int32_t *positions; /* (T) */
    float *cos[2], *sin[2]; /* (T, rotated / 2) of global and of windowed layers */
    focal_attn_seq *seqs;   /* (item_count) */
    char *memory;
} pass;

/* Runs an operation under its name in the profile; its cost is looked at only then. */
#define TIMED(p, name, cost, call)                                                                 \
    do {                                                                                           \
        const double timed_begin_ = foci_profile_begin((p)->ctx);                                  \
        FOCAL_TRY(call);                                                                           \
        if (foci_profile_is_on((p)->ctx)) foci_profile_end((p)->ctx, name, timed_begin_, cost);    \
    } while (0)

static const foci_cost no_cost = {0.0, 0.0};

static foci_cost linear_cost(int32_t rows, const foci_linear *w)
{
    const double count = (double)w->N * (double)w->K;
    return (foci_cost){2.0 * rows * count, count / focal_dtype_block(w->dtype) *
                                               (double)focal_dtype_block_bytes(w->dtype)};
}

/* Whether so many rows meet these weights as integers. */
static bool takes_integers(const focal_model *model, const foci_linear *w, int32_t rows)
{
    return model->precision == FOCAL_BF16 && rows <= FOCI_MATMUL_FEW &&
           focal_dtype_block(w->dtype) > 1;
}

/* A product: out = (or, when adds, +=) x w^T + bias. */
typedef struct product {
    const foci_linear *w;
    float *out;
    int64_t out_stride;
    bool adds;
} product;

/* Products that read the same x. */
static focal_status linears(const pass *p, const char *name, const void *x, const product *products,
                            int32_t count)
{
    foci_matmul_args args[FOCI_MATMUL_SEVERAL];
    foci_cost cost = no_cost;
    for (int32_t n = 0; n < count; n++) {
        const foci_linear *w = products[n].w;

        args[n] = (foci_matmul_args){
            .M = p->T,
            .N = w->N,
            .K = w->K,
            .x = x,
            .x_dtype = p->act,
            .rounds_x = p->is_few,
            .x_stride = w->K,
            .w = w->w,
            .w_dtype = w->dtype,
            .w_is_transposed = w->is_transposed,
            .bias = w->bias,
            .adds = products[n].adds,
            .out = products[n].out,
            .out_dtype = FOCAL_F32,
            .out_stride = products[n].out_stride,
        };
        const foci_cost more = linear_cost(p->T, w);
        cost.flops += more.flops;
        cost.bytes += more.bytes;
    }
    TIMED(p, name, cost, foci_matmul_several(p->ctx, args, count));
    return FOCAL_OK;
}

static focal_status linear(const pass *p, const char *name, const foci_linear *w, const void *x,
                           float *out, int64_t out_stride, bool adds)
{
    product one = {.w = w, .out_stride = out_stride, .adds = adds};
    one.out = out;
    return linears(p, name, x, &one, 1);
}

/* rows of width C, float32, to out. */
static focal_status normalise(const pass *p, const foci_gain *gain, int32_t rows, const float *x,
                              void *out, focal_dtype out_dtype)
{
    const foci_config *c = &p->model->config;
    const foci_norm_args args = {
        .kind = c->norm,
        .T = rows,
        .width = c->C,
        .x = x,
        .weight = gain->weight,
        .weight_offset = c->norm_offset,
        .bias = gain->bias,
        .epsilon = c->epsilon,
        .out = out,
        .out_dtype = out_dtype,
    };
    TIMED(p, "norm", no_cost, foci_norm(p->ctx, &args));
    return FOCAL_OK;
}

/* (T, H, D) float32 rows of any stride to attention's or the products' type, scaled. */
static focal_status convert(const pass *p, int32_t rows, int32_t H, int32_t D, const float *x,
                            int64_t x_stride, float scale, void *out, focal_dtype out_dtype)
{
    const foci_rope_args args = {.T = rows,
                                 .H = H,
                                 .D = D,
                                 .x = x,
                                 .x_stride = x_stride,
                                 .scale = scale,
                                 .out = out,
                                 .out_dtype = out_dtype};
    return foci_rope_apply(p->ctx, &args);
}

/* What the next block reads: the residual stream, normalised where the family does it here. */
static focal_status read_stream(const pass *p, const foci_gain *gain)
{
    const int32_t C = p->model->config.C;
    if (gain->weight) return normalise(p, gain, p->T, p->x, p->h, p->act);
    return convert(p, p->T, 1, C, p->x, C, 1.0F, p->h, p->act);
}

/* x += what a block gives through w, normalised where the family does it there. */
static focal_status join_stream(const pass *p, const char *name, const foci_linear *w,
                                const void *from, const foci_gain *gain)
{
    const int32_t C = p->model->config.C;
    if (!gain->weight) return linear(p, name, w, from, p->x, C, true);
    FOCAL_TRY(linear(p, name, w, from, p->y, C, false));
    FOCAL_TRY(normalise(p, gain, p->T, p->y, p->y, FOCAL_F32));
    return foci_add(p->ctx, p->x, p->x, p->y, (int64_t)p->T * C);
}

static int64_t qkv_stride(const foci_config *c)
{
    return ((int64_t)c->H + 2 * (int64_t)c->G) * c->D;
}

static focal_status project(const pass *p, const foci_layer *w)
{
    const foci_config *c = &p->model->config;
    const int64_t stride = qkv_stride(c);
    float *q = p->qkv, *k = q + (int64_t)c->H * c->D, *v = k + (int64_t)c->G * c->D;
    if (w->qkv.w) return linear(p, "q k v", &w->qkv, p->h, q, stride, false);
    const product three[] = {
        {&w->q, q, stride, false}, {&w->k, k, stride, false}, {&w->v, v, stride, false}};
    return linears(p, "q k v", p->h, three, 3);
}

/* Query-key norm, in place. */
static focal_status normalise_heads(const pass *p, const foci_gain *gain, int32_t heads, void *x)
{
    const foci_config *c = &p->model->config;
    if (c->qk_norm == FOCI_QK_NONE) return FOCAL_OK;
    const bool is_head = c->qk_norm == FOCI_QK_HEAD;
    const foci_norm_args args = {
        .kind = c->norm,
        .T = p->T,
        .H = is_head ? heads : 1,
        .width = is_head ? c->D : heads * c->D,
        .x = x,
        .x_stride = qkv_stride(c),
        .weight = gain->weight,
        .weight_offset = c->norm_offset,
        .epsilon = c->epsilon,
        .out = x,
        .out_dtype = FOCAL_F32,
        .out_stride = qkv_stride(c),
    };
    return foci_norm(p->ctx, &args);
}

/* Rows [first, first + count) of q or k turned by their positions, and scaled. */
static focal_status rotate(const pass *p, int32_t layer, int32_t first, int32_t count,
                           const float *x, int32_t heads, float scale, void *out,
                           focal_dtype out_dtype)
{
    const foci_config *c = &p->model->config;
    const int64_t stride = qkv_stride(c);
    if (c->has_positions)
        return convert(p, count, heads, c->D, x + first * stride, stride, scale, out, out_dtype);
    const bool is_local = c->is_local[layer];
    const foci_rope_config *rope = is_local ? &c->rope_local : &c->rope;
    const int64_t angles = (int64_t)first * (rope->rotated / 2);
    const foci_rope_args args = {
        .T = count,
        .H = heads,
        .D = c->D,
        .rotated = rope->rotated,
        .style = c->rope_style,
        .cos = p->cos[is_local] + angles,
        .sin = p->sin[is_local] + angles,
        .x = x + first * stride,
        .x_stride = stride,
        .scale = scale,
        .out = out,
        .out_dtype = out_dtype,
    };
    return foci_rope_apply(p->ctx, &args);
}

/* Rows of k, rotated, or of v to the pages where they stay. */
static focal_status store_rows(const pass *p, int32_t layer, int32_t is_value, int32_t first,
                               int32_t count, char *to)
{
    const foci_config *c = &p->model->config;
    const int64_t stride = qkv_stride(c);
    const float *k = p->qkv + (int64_t)c->H * c->D, *v = k + (int64_t)c->G * c->D;
    if (p->cache->dtype == FOCAL_Q8_0) {
        if (!is_value)
            FOCAL_TRY(rotate(p, layer, first, count, k, c->G, 1.0F, p->k_rows, FOCAL_F32));
        const foci_q8_rows_args rows = {.rows = count,
                                        .width = (int64_t)c->G * c->D,
                                        .x = is_value ? v + first * stride : p->k_rows,
                                        .x_stride = is_value ? stride : 0,
                                        .out = to};
        return foci_q8_rows(p->ctx, &rows);
    }
    if (!is_value) return rotate(p, layer, first, count, k, c->G, 1.0F, to, p->cache->dtype);
    return convert(p, count, c->G, c->D, v + first * stride, stride, 1.0F, to, p->cache->dtype);
}

/* q as attention reads it; k and v into the cache, page by page. */
static focal_status place_qkv(const pass *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    FOCAL_TRY(rotate(p, layer, 0, p->T, p->qkv, c->H, c->attn_scale, p->q, p->attn));
    int32_t row = 0;
    for (int32_t n = 0; n < p->args->item_count; n++) {
        const focal_batch_item *item = &p->args->items[n];
        const foci_cache_seq *seq = &p->cache->seqs[item->sequence];
        for (int32_t done = 0, take; done < item->count; done += take, row += take) {
            const int32_t token = seq->length + done;
            take = (int32_t)foci_min64(item->count - done, FOCI_PAGE_ROWS - token % FOCI_PAGE_ROWS);
            for (int32_t is_value = 0; is_value < 2; is_value++)
                FOCAL_TRY(store_rows(p, layer, is_value, row, take,
                                     foci_cache_row(p->cache, seq, layer, is_value, token)));
        }
    }
    return FOCAL_OK;
}

/* Attention over everything that the cache holds, read where it lies. */
static focal_status attend(const pass *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    int32_t row = 0;
    for (int32_t n = 0; n < p->args->item_count; n++) {
        const focal_batch_item *item = &p->args->items[n];
        const foci_cache_seq *seq = &p->cache->seqs[item->sequence];
        p->seqs[n] = (focal_attn_seq){.T = item->count,
                                      .S = seq->length + item->count,
                                      .q_row = row,
                                      .k_pages = foci_cache_pages(seq, layer, 0),
                                      .v_pages = foci_cache_pages(seq, layer, 1),
                                      .page_count = seq->page_count};
        row += item->count;
    }
    const focal_attn_args args = {
        .H = c->H,
        .G = c->G,
        .D = c->D,
        .dtype = p->attn,
        .has_q8_keys = p->cache->dtype == FOCAL_Q8_0,
        .q = p->q,
        .has_window = c->is_local[layer],
        .window = c->window,
        .softcap = c->attn_softcap,
        .seq_count = p->args->item_count,
        .seqs = p->seqs,
        .page_rows = FOCI_PAGE_ROWS,
        .out = p->o,
    };
    FOCAL_TRY(focal_attn_forward(p->ctx, &args));
    if (p->o_act == p->o) return FOCAL_OK;
    const int64_t count = (int64_t)p->T * c->H * c->D;
    if (p->attn == FOCAL_BF16) return focal_dequantize(FOCAL_BF16, p->o, count, p->o_act);
    return convert(p, p->T, c->H, c->D, p->o, (int64_t)c->H * c->D, 1.0F, p->o_act, p->act);
}

/* Scores and sums of values for every pair that is seen; keys and values are read once. */
static foci_cost attention_cost(const pass *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    double pairs = 0.0, keys = 0.0;
    for (int32_t n = 0; n < p->args->item_count; n++) {
        const double count = p->args->items[n].count;
        const double before = p->cache->seqs[p->args->items[n].sequence].length;
        const double most = c->is_local[layer] ? (double)c->window + 1.0 : before + count;
        /* query i of the item sees before + i + 1 keys, or `most` */
        const double rising = fmin(fmax(most - before, 0.0), count);
        pairs += rising * before + 0.5 * rising * (rising + 1.0) + (count - rising) * most;
        keys += fmin(most + count - 1.0, before + count);
    }
    const double width = (double)c->D * (double)focal_dtype_bytes(p->cache->dtype);
    return (foci_cost){4.0 * c->D * c->H * pairs, 2.0 * c->G * width * keys};
}

static focal_status attention_block(const pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    FOCAL_TRY(read_stream(p, &w->attn_norm));
    FOCAL_TRY(project(p, w));
    FOCAL_TRY(normalise_heads(p, &w->q_norm, c->H, p->qkv));
    FOCAL_TRY(normalise_heads(p, &w->k_norm, c->G, p->qkv + (int64_t)c->H * c->D));
    TIMED(p, "rotate, cache", no_cost, place_qkv(p, n));
    TIMED(p, "attention", attention_cost(p, n), attend(p, n));
    return join_stream(p, "attention out", &w->out, p->o_act, &w->attn_post);
}

static focal_status feed_forward_block(const pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    FOCAL_TRY(read_stream(p, &w->ffn_norm));
    const product in[] = {{&w->up, p->up, c->F, false}, {&w->gate, p->gate, c->F, false}};
    FOCAL_TRY(linears(p, "feed-forward in", p->h, in, c->is_gated ? 2 : 1));
    const foci_gate_args gate = {
        .activation = c->activation,
        .T = p->T,
        .F = c->F,
        .gate = c->is_gated ? p->gate : p->up,
        .up = c->is_gated ? p->up : NULL,
        .out = p->hidden,
        .out_dtype = p->act,
    };
    TIMED(p, "activation", no_cost, foci_gate(p->ctx, &gate));
    return join_stream(p, "feed-forward out", &w->down, p->hidden, &w->ffn_post);
}

static bool has_windows(const foci_config *c)
{
    for (int32_t n = 0; n < c->L; n++)
        if (c->is_local[n]) return true;
    return false;
}

/* x = the embeddings of the tokens and, in GPT-2, of their positions; and the angles of the others'
 * positions. */
static focal_status embed(const pass *p)
{
    const foci_config *c = &p->model->config;
    const foci_model_weights *w = &p->model->weights;
    FOCAL_TRY(foci_embed(p->ctx, w->embed.w, w->embed.dtype, c->V, c->C, p->ids, p->T,
                         c->embed_scale, p->x));
    if (c->has_positions) {
        FOCAL_TRY(foci_embed(p->ctx, w->positions.w, w->positions.dtype, c->context, c->C,
                             p->positions, p->T, 1.0F, p->y));
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
        if (is_local && !has_windows(c)) break;
        FOCAL_TRY(foci_rope_angles(p->ctx, &args));
    }
    return FOCAL_OK;
}

/* Logits of the rows [first, first + count). */
static focal_status head(const pass *p, int32_t first, int32_t count, float *logits)
{
    const foci_config *c = &p->model->config;
    const foci_model_weights *w = &p->model->weights;
    pass rows = *p; /* a long prompt has few rows here */
    rows.T = count;
    rows.is_few = takes_integers(p->model, &w->head, count);
    rows.act = rows.is_few ? FOCAL_F32 : p->model->precision;
    void *h = rows.is_few ? p->y : p->h;
    FOCAL_TRY(normalise(p, &w->final_norm, count, p->x + (int64_t)first * c->C, h, rows.act));
    FOCAL_TRY(linear(&rows, "vocabulary", &w->head, h, logits, c->V, false));
    if (c->final_softcap == 0.0F) return FOCAL_OK;
    return foci_soft_cap(p->ctx, logits, (int64_t)count * c->V, c->final_softcap);
}

/* The losses of an item's rows, a few rows of logits at a time; those that are wanted are kept. */
static focal_status score_item(const pass *p, int32_t first, const focal_batch_item *item,
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
        for (int32_t n = (int32_t)foci_max64(from - row, 0); n < take; n++)
            memcpy(wanted + (row + n - from) * V, scratch + n * V, (size_t)V * sizeof(float));
    }
    return FOCAL_OK;
}

static focal_status score(const pass *p)
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
        if (p->args->targets)
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

static size_t lay_out(pass *p, char *base)
{
    const foci_config *c = &p->model->config;
    const int64_t T = p->T, Q = (int64_t)c->H * c->D, pairs = FOCI_MAX_ROPE_PAIRS;
    const size_t act = focal_dtype_bytes(p->act), attn = focal_dtype_bytes(p->attn);
    size_t used = 0;
    p->x = take(base, &used, T * c->C, sizeof(float));
    p->h = take(base, &used, T * c->C, act);
    p->qkv = take(base, &used, T * qkv_stride(c), sizeof(float));
    const int64_t k_rows = p->cache->dtype == FOCAL_Q8_0 ? foci_min64(T, FOCI_PAGE_ROWS) : 0;
    p->k_rows = take(base, &used, k_rows * c->G * c->D, sizeof(float));
    p->q = take(base, &used, T * Q, attn);
    p->o = take(base, &used, T * Q, attn);
    p->o_act = p->act == p->attn ? p->o : take(base, &used, T * Q, act);
    p->y = take(base, &used, T * c->C, sizeof(float));
    p->up = take(base, &used, T * c->F, sizeof(float));
    p->gate = c->is_gated ? take(base, &used, T * c->F, sizeof(float)) : NULL;
    p->hidden = take(base, &used, T * c->F, act);
    p->ids = take(base, &used, T, sizeof(int32_t));
    p->positions = take(base, &used, T, sizeof(int32_t));
    for (int n = 0; n < 2; n++) {
        p->cos[n] = take(base, &used, T * pairs, sizeof(float));
        p->sin[n] = take(base, &used, T * pairs, sizeof(float));
    }
    p->seqs = take(base, &used, p->args->item_count, sizeof *p->seqs);
    return used;
}

static focal_status check_items(pass *p)
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

static focal_status run_pass(pass *p)
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
    TIMED(p, "embedding", no_cost, embed(p));
    for (int32_t n = 0; n < p->model->config.L; n++) {
        FOCAL_TRY(attention_block(p, n));
        FOCAL_TRY(feed_forward_block(p, n));
    }
    return score(p);
}

focal_status focal_forward(focal_model *model, focal_cache *cache, const focal_forward_args *args)
{
    pass p = {.ctx = model->ctx, .model = model, .cache = cache, .args = args};
    p.act = model->precision;
    p.attn = cache->dtype == FOCAL_Q8_0 ? model->precision : cache->dtype;
    if (cache->model != model)
        return foci_fail(p.ctx, FOCAL_EINVAL, "forward: the cache belongs to another model");
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
    for (int32_t n = 0; status == FOCAL_OK && n < args->item_count; n++)
        cache->seqs[args->items[n].sequence].length += args->items[n].count;
    return status;
}
