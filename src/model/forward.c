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
#include "base/pool.h"
#include "base/profile.h"
#include "base/sizes.h"
#include "focal/attn.h"
#include "focal/quant.h"
#include "model/cache.h"
#include "model/layer_temperature.h"
#include "model/random_groups.h"
#include "ops/embed/embed.h"
#include "ops/gated.h"
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
    void *h;            /* (T,C) of act: what attention and feed-forward read; and o_act */
    float *qkv;         /* (T, (H + 2 G) D); and hidden */
    float *k_rows;      /* (threads, PLACE_ROWS, G, D) keys on their way into a cache of q8_0 */
    void *q;            /* (T,H,D) of attn */
    void *o;            /* (T,H,D) of attn */
    void *o_act;        /* the same in act; o itself where they are equal. h has been read then */
    float *y;           /* (T,C) what a block gives, where it is normalised before it is added */
    float *gate, *up;   /* (T,F), of few rows and where something is added to them */
    void *hidden;       /* (T,F) of act; qkv has been read then */
    float *factors;     /* (T,H) of temperatures, where the model has any */
    float *low;         /* (T,rank) of low-rank additions, where the model has any */
    int32_t *ids;       /* (T) */
    int32_t *positions; /* (T) */
    float *cos[2], *sin[2]; /* (T, rotated / 2) of global and of windowed layers */
    focal_attn_seq *seqs;   /* (item_count, stores) */
    /* Of layers with groups. */
    float *key_scores, *query_scores;   /* (T, routers, K) */
    int32_t *key_groups, *query_groups; /* (T, routers), (T, routers, top) */
    focal_keys *keys;                   /* (item_count, stores) the sets of the layer at work */
    char *chain_rows;                   /* (threads, PLACE_ROWS) rows on their way into chains */
    /* Of layers whose distant logits are multiplied: a gate of one group (docs/MATH.md, 3.6). */
    float *scale_q, *scale_k; /* (T), (the longest text) */
    focal_attn_gate scale;
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

static foci_matmul_args product_args(const pass *p, const void *x, const product *one)
{
    const foci_linear *w = one->w;
    return (foci_matmul_args){
        .M = p->T,
        .N = w->N,
        .K = w->K,
        .x = x,
        .x_dtype = p->act,
        .rounds_x = p->model->precision == FOCAL_BF16,
        .x_stride = w->K,
        .w = w->w,
        .w_dtype = w->dtype,
        .w_is_transposed = w->is_transposed,
        .w_is_interleaved = w->is_interleaved,
        .bias = w->bias,
        .adds = one->adds,
        .out = one->out,
        .out_dtype = FOCAL_F32,
        .out_stride = one->out_stride,
    };
}

static focal_status add_low_rank(const pass *p, const void *x, const product *one)
{
    const foci_low_rank_args args = {
        .low = one->w->added, .T = p->T, .dtype = p->act, .x = x, .h = p->low};
    TIMED(p, "lora", no_cost, foci_low_rank_forward(p->ctx, &args, one->out, one->out_stride));
    return FOCAL_OK;
}

/* Products that read the same x, and what is added to them. */
static focal_status linears(const pass *p, const char *name, const void *x, const product *products,
                            int32_t count)
{
    foci_matmul_args args[FOCI_MATMUL_SEVERAL];
    foci_cost cost = no_cost;
    for (int32_t n = 0; n < count; n++) {
        args[n] = product_args(p, x, &products[n]);
        const foci_cost more = linear_cost(p->T, products[n].w);
        cost.flops += more.flops;
        cost.bytes += more.bytes;
    }
    TIMED(p, name, cost, foci_matmul_several(p->ctx, args, count));
    for (int32_t n = 0; n < count; n++)
        if (products[n].w->added) FOCAL_TRY(add_low_rank(p, x, &products[n]));
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

/* The same where a router reads it too, always in float32: *h. */
static focal_status read_routed_stream(const pass *p, const foci_gain *gain, const float **h)
{
    const int32_t C = p->model->config.C;
    *h = p->h;
    if (p->act == FOCAL_F32) return read_stream(p, gain);
    *h = p->x;
    if (gain->weight) {
        FOCAL_TRY(normalise(p, gain, p->T, p->x, p->y, FOCAL_F32));
        *h = p->y;
    }
    return convert(p, p->T, 1, C, *h, C, 1.0F, p->h, p->act);
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

/* How a layer's rows of q, k or v (T,H,D) become what attention reads: H, x and scale are given; q
 * and k turn by their positions. */
static focal_status rotation(const pass *p, int32_t layer, bool turns, foci_rope_args *args)
{
    const foci_config *c = &p->model->config;
    const bool is_local = c->is_local[layer];
    args->T = p->T;
    args->D = c->D;
    args->x_stride = qkv_stride(c);
    if (turns && !c->has_positions) {
        args->rotated = (is_local ? &c->rope_local : &c->rope)->rotated;
        args->style = c->rope_style;
        args->cos = p->cos[is_local];
        args->sin = p->sin[is_local];
    }
    args->out = p->q; /* of k and v a page, later */
    args->out_dtype = p->attn;
    const foci_rope_args given = *args;
    return foci_rope_normalise(p->ctx, &given, args);
}

/* The factors of a layer's temperature. One that averages over tokens to come is no use here: it
 * has them only where a whole text is read at once for its losses. */
static focal_status find_factors(const pass *p, foci_layer_temperature temperature)
{
    const foci_config *c = &p->model->config;
    const focal_batch_item *items = p->args->items;
    if (temperature.acts->kind == FOCI_TEMPERATURE_LEARNED_PAPER) {
        const bool is_whole = p->args->item_count == 1 && p->args->targets &&
                              p->cache->seqs[items[0].sequence].length == 0;
        if (!is_whole)
            return foci_fail(
                p->ctx, FOCAL_EUNSUPPORTED,
                "forward: this model's temperature averages over the whole text, so it "
                "cannot generate");
    }
    const foci_temperature_args args = {.temperature = temperature.acts,
                                        .T = p->T,
                                        .H = c->H,
                                        .C = c->C,
                                        .h = p->h,
                                        .h_dtype = p->act,
                                        .positions = p->positions,
                                        .root = temperature.root,
                                        .factors = p->factors};
    return foci_temperature_factors(p->ctx, &args);
}

/* How many texts' parts attention sees: one, or one for each router that has its own pages. */
static int32_t store_count(const focal_cache *cache)
{
    return cache->groups ? cache->seqs[0].chains->stores : 1;
}

/* The first row of the pass that has keys beyond its window and the sinks; T: none has. */
static int64_t first_distant_row(const pass *p)
{
    const foci_groups_run *run = &p->cache->run;
    const int64_t near = (int64_t)run->window + 1 + run->sinks;
    int64_t row = 0;
    for (int32_t n = 0; n < p->args->item_count; row += p->args->items[n++].count) {
        const focal_batch_item *item = &p->args->items[n];
        const int64_t length = p->cache->seqs[item->sequence].length;
        if (length + item->count > near) return row + foci_max64(near - length, 0);
    }
    return row;
}

/* Scores of the pass's rows: of keys, and of queries from `first` on. */
static focal_status score_rows(const pass *p, const focal_router *router, const float *h,
                               int64_t first)
{
    const focal_route_args args = {.router = router,
                                   .T = p->T,
                                   .h = h,
                                   .sk = p->key_scores,
                                   .sq = first < p->T ? p->query_scores : NULL,
                                   .sq_from = (int32_t)first};
    return focal_route_scores(p->ctx, &args);
}

/* The groups of the pass's tokens as keys, and those that they look into. Queries before the first
 * that has distant keys would find nothing in any group, so theirs are not computed. */
static focal_status find_groups(const pass *p, int32_t layer, const float *h)
{
    const foci_groups *groups = p->cache->groups;
    const focal_router *router = &groups->layers[layer].router;
    const int32_t K = router->K, top = p->cache->run.top;
    const int64_t rows = (int64_t)p->T * router->routers;
    if (groups->shape.source == FOCI_GROUPS_RANDOM) {
        foci_random_groups(&groups->shape, layer, p->T, p->positions, top,
                           groups->shape.mode == FOCAL_SHARED ? NULL : p->key_groups,
                           p->query_groups);
        return FOCAL_OK;
    }
    if (groups->shape.mode == FOCAL_SHARED) {
        FOCAL_TRY(score_rows(p, router, h, p->T));
        return focal_route_top(p->ctx, rows, K, top, p->key_scores, p->query_groups);
    }
    const int64_t first = first_distant_row(p), near = first * router->routers;
    FOCAL_TRY(score_rows(p, router, h, first));
    FOCAL_TRY(focal_route_top(p->ctx, rows, K, 1, p->key_scores, p->key_groups));
    for (int64_t n = 0; n < near * top; n++) p->query_groups[n] = (int32_t)(n % top);
    if (near == rows) return FOCAL_OK;
    return focal_route_top(p->ctx, rows - near, K, top, p->query_scores + near * K,
                           p->query_groups + near * top);
}

/* The pass's tokens in the chains of their groups, where their keys and values will lie, and the
 * sets that attention reads. */
static focal_status route(const pass *p, int32_t layer, const float *h)
{
    const foci_groups_shape *shape = &p->cache->groups->shape;
    const int32_t stores = store_count(p->cache);
    FOCAL_TRY(find_groups(p, layer, h));
    int64_t row = 0;
    for (int32_t n = 0; n < p->args->item_count; row += p->args->items[n++].count) {
        const focal_batch_item *item = &p->args->items[n];
        foci_chains *chains = p->cache->seqs[item->sequence].chains;
        const int64_t first = row * shape->routers;
        FOCAL_TRY(foci_chains_append(chains, layer, item->count,
                                     p->query_groups + first * p->cache->run.top,
                                     p->key_groups + first));
        for (int32_t r = 0; r < stores; r++)
            p->keys[n * stores + r] = foci_chains_keys(chains, layer, r);
    }
    return FOCAL_OK;
}

/* A layer's q, k and v on their way to q and to the cache. */
typedef struct placing {
    const pass *p;
    int32_t layer;
    const foci_rows_kernel *rotate, *quantise; /* quantise: of a cache of q8_0 */
    foci_rope_args q, kv[2];
} placing;

enum { PLACE_ROWS = 32 /* of an item */ };

/* `count` rows of k or v to where they stay. */
static void place_page(const placing *s, int32_t is_value, int64_t row, int64_t count, char *to,
                       int32_t thread)
{
    const pass *p = s->p;
    foci_rope_args rows = s->kv[is_value];
    rows.out = to;
    rows.x += row * rows.x_stride;
    if (rows.cos) {
        rows.cos += row * (rows.rotated / 2);
        rows.sin += row * (rows.rotated / 2);
    }
    if (!s->quantise) {
        s->rotate->run(&rows, 0, count);
        return;
    }
    const int64_t width = (int64_t)rows.H * rows.D;
    foci_q8_rows_args blocks = {
        .rows = count, .width = width, .x = rows.x, .x_stride = rows.x_stride, .out = to};
    if (!is_value) {
        rows.out = p->k_rows + (int64_t)thread * PLACE_ROWS * width;
        rows.out_dtype = FOCAL_F32;
        blocks.x = rows.out;
        blocks.x_stride = width;
        s->rotate->run(&rows, 0, count);
    }
    s->quantise->run(&blocks, 0, count);
}

/* `count` rows of an item's k or v, from its token `token` on, to their groups' chains. */
static void place_chains(const placing *s, int32_t n, int32_t is_value, int64_t row, int64_t count,
                         int32_t token, int32_t thread)
{
    const pass *p = s->p;
    const foci_chains *chains = p->cache->seqs[p->args->items[n].sequence].chains;
    const int64_t bytes = p->cache->row_bytes;
    char *rows = p->chain_rows + (int64_t)thread * PLACE_ROWS * bytes;
    place_page(s, is_value, row, count, rows, thread);
    for (int32_t r = 0; r < chains->stores; r++) {
        const int32_t *place = p->keys[n * chains->stores + r].position_row;
        const char *from = rows + r * chains->row_bytes;
        for (int64_t i = 0; i < count; i++, from += bytes) {
            const int32_t to = place ? place[token + i] : token + (int32_t)i;
            memcpy(foci_chains_row(chains, s->layer, r, is_value, to), from,
                   (size_t)chains->row_bytes);
        }
    }
}

/* Rows [begin, end) of q, k and v; those of an item that share a page go there together. */
static void place_rows(void *arg, int64_t index, int32_t thread)
{
    const placing *s = arg;
    const pass *p = s->p;
    const bool has_groups = foci_cache_has_groups(p->cache, s->layer);
    const int64_t begin = index * PLACE_ROWS, end = foci_min64(p->T, begin + PLACE_ROWS);
    s->rotate->run(&s->q, begin, end - begin);
    int64_t first = 0; /* row of the item */
    for (int32_t n = 0; n < p->args->item_count; first += p->args->items[n++].count) {
        const focal_batch_item *item = &p->args->items[n];
        const foci_cache_seq *seq = &p->cache->seqs[item->sequence];
        const int64_t last = foci_min64(end, first + item->count);
        for (int64_t row = foci_max64(begin, first), take; row < last; row += take) {
            const int32_t token = seq->length + (int32_t)(row - first);
            take = last - row;
            if (!has_groups) take = foci_min64(take, FOCI_PAGE_ROWS - token % FOCI_PAGE_ROWS);
            for (int32_t is_value = 0; is_value < 2; is_value++)
                if (has_groups)
                    place_chains(s, n, is_value, row, take, token, thread);
                else
                    place_page(s, is_value, row, take,
                               foci_cache_row(p->cache, seq, s->layer, is_value, token), thread);
        }
    }
}

/* q as attention reads it; k and v into the cache. */
static focal_status place_qkv(const pass *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    const float *k = p->qkv + (int64_t)c->H * c->D, *v = k + (int64_t)c->G * c->D;
    const bool is_q8 = p->cache->dtype == FOCAL_Q8_0;
    placing s = {.p = p,
                 .layer = layer,
                 .rotate = foci_rows_pick(p->ctx, &foci_rope_op),
                 .q = {.H = c->H, .x = p->qkv, .scale = c->attn_scale},
                 .kv = {{.H = c->G, .x = k}, {.H = c->G, .x = v}}};
    if (is_q8) s.quantise = foci_rows_pick(p->ctx, &foci_q8_rows_op);
    if (!s.rotate || (is_q8 && !s.quantise))
        return foci_fail(p->ctx, FOCAL_EUNSUPPORTED,
                         "forward: the pinned kernel %s cannot run here", focal_ctx_kernel(p->ctx));
    const foci_layer_temperature temperature =
        foci_layer_temperature_of(p->model, layer, p->model->adapter_temperatures);
    if (temperature.acts) {
        FOCAL_TRY(find_factors(p, temperature));
        s.q.scale = 1.0F;
        s.q.row_scales = p->factors;
        s.q.has_head_scales = foci_temperature_is_per_head(temperature.acts);
    }
    FOCAL_TRY(rotation(p, layer, true, &s.q));
    FOCAL_TRY(rotation(p, layer, true, &s.kv[0]));
    FOCAL_TRY(rotation(p, layer, false, &s.kv[1]));
    foci_parallel(p->ctx, foci_pieces(p->T, PLACE_ROWS), place_rows, &s);
    return FOCAL_OK;
}

/* Whether a layer sees window and sinks alone, by an adapter's wish. */
static bool is_near_only(const focal_model *model, int32_t layer)
{
    return model->near && model->near->shape.layers[layer];
}

/* Whether the logits of a layer's distant pairs are multiplied. */
static bool is_scaled(const focal_model *model, int32_t layer)
{
    return model->scaled && model->scaled->shape.layers[layer];
}

/* A layer's call of attention, but for the texts. */
static focal_attn_args attention_args(const pass *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    const bool has_scale = is_scaled(p->model, layer);
    const bool is_near = is_near_only(p->model, layer) || has_scale;
    return (focal_attn_args){.H = c->H,
                             .G = c->G,
                             .D = c->D,
                             .dtype = p->attn,
                             .has_q8_keys = p->cache->dtype == FOCAL_Q8_0,
                             .q = p->q,
                             .has_window = c->is_local[layer] || is_near,
                             .window = is_near ? p->cache->run.window : c->window,
                             .sinks = is_near ? p->cache->run.sinks : 0,
                             .softcap = c->attn_softcap,
                             .gate = has_scale ? &p->scale : NULL,
                             .seq_count = p->args->item_count,
                             .seqs = p->seqs,
                             .page_rows = FOCI_PAGE_ROWS,
                             .out = p->o};
}

/* Attention over everything that the cache holds, read where it lies. */
static focal_status attend_all(const pass *p, int32_t layer)
{
    int32_t row = 0;
    for (int32_t n = 0; n < p->args->item_count; n++) {
        const focal_batch_item *item = &p->args->items[n];
        const foci_cache_seq *seq = &p->cache->seqs[item->sequence];
        p->seqs[n] = (focal_attn_seq){.T = item->count,
                                      .S = seq->length + item->count,
                                      .q_row = row,
                                      .k_pages = foci_cache_pages(p->cache, seq, layer, 0),
                                      .v_pages = foci_cache_pages(p->cache, seq, layer, 1),
                                      .page_count = seq->page_count};
        row += item->count;
    }
    const focal_attn_args args = attention_args(p, layer);
    return focal_attn_forward(p->ctx, &args);
}

/* Attention over the keys that the groups name. Key heads that have pages of their own are
 * sequences of their own. */
static focal_status attend_groups(const pass *p, int32_t layer)
{
    const int32_t stores = store_count(p->cache);
    focal_attn_args args = attention_args(p, layer);
    args.has_window = true;
    args.window = p->cache->run.window;
    args.sinks = p->cache->run.sinks;
    args.page_rows = FOCI_CHAIN_ROWS;
    args.q_stride = args.out_stride = (int64_t)args.H * args.D;
    args.H /= stores;
    args.G /= stores;
    args.seq_count *= stores;
    int32_t row = 0;
    for (int32_t n = 0; n < p->args->item_count; row += p->args->items[n++].count) {
        const focal_batch_item *item = &p->args->items[n];
        const foci_cache_seq *seq = &p->cache->seqs[item->sequence];
        for (int32_t r = 0; r < stores; r++) {
            const foci_chain_store *store = foci_chains_store(seq->chains, layer, r);
            p->seqs[n * stores + r] =
                (focal_attn_seq){.T = item->count,
                                 .S = seq->length + item->count,
                                 .q_row = row,
                                 .q_head = r * args.H,
                                 .k_pages = (const void *const *)store->pages[0],
                                 .v_pages = (const void *const *)store->pages[1],
                                 .page_count = store->page_count,
                                 .keys = &p->keys[n * stores + r]};
        }
    }
    return focal_attn_forward(p->ctx, &args);
}

static focal_status attend(const pass *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    FOCAL_TRY(foci_cache_has_groups(p->cache, layer) ? attend_groups(p, layer)
                                                     : attend_all(p, layer));
    if (p->o_act == p->o) return FOCAL_OK;
    const int64_t count = (int64_t)p->T * c->H * c->D;
    if (p->attn == FOCAL_BF16) return focal_dequantize(FOCAL_BF16, p->o, count, p->o_act);
    return convert(p, p->T, c->H, c->D, p->o, (int64_t)c->H * c->D, 1.0F, p->o_act, p->act);
}

/* Pairs of an item that a group's list gives, for one head of the store. */
static double listed_pairs(const focal_keys *keys)
{
    double pairs = 0.0;
    for (int32_t r = 0; r < keys->routers; r++)
        for (int64_t n = 0; n < keys->query_begin[r * (keys->K + 1) + keys->K]; n++)
            pairs += keys->query_end[r * keys->query_stride + n];
    return pairs / keys->routers;
}

/* Scores and sums of values for every pair that is seen; keys and values are read once. */
static foci_cost attention_cost(const pass *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    const bool has_groups = foci_cache_has_groups(p->cache, layer);
    const int32_t stores = has_groups ? store_count(p->cache) : 1;
    const foci_groups_run *run = &p->cache->run;
    const bool is_adapted = has_groups || is_near_only(p->model, layer);
    const double near = is_adapted ? (double)run->window + 1.0 + run->sinks : c->window + 1.0;
    double pairs = 0.0, keys = 0.0;
    for (int32_t n = 0; n < p->args->item_count; n++) {
        const double count = p->args->items[n].count;
        const double before = p->cache->seqs[p->args->items[n].sequence].length;
        const bool is_near = is_adapted || c->is_local[layer];
        const double most = is_near ? fmin(near, before + count) : before + count;
        /* query i of the item sees before + i + 1 keys, or `most` */
        const double rising = fmin(fmax(most - before, 0.0), count);
        pairs += rising * before + 0.5 * rising * (rising + 1.0) + (count - rising) * most;
        double listed = 0.0;
        for (int32_t r = 0; has_groups && r < stores; r++)
            listed += listed_pairs(&p->keys[n * stores + r]) / stores;
        pairs += listed;
        keys += fmin(most + count - 1.0 + listed, before + count);
    }
    const double width = (double)c->D * (double)focal_dtype_bytes(p->cache->dtype);
    return (foci_cost){4.0 * c->D * c->H * pairs, 2.0 * c->G * width * keys};
}

static focal_status attention_block(const pass *p, int32_t n)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[n];
    if (foci_cache_has_groups(p->cache, n)) {
        const float *h = NULL;
        FOCAL_TRY(read_routed_stream(p, &w->attn_norm, &h));
        TIMED(p, "router", no_cost, route(p, n, h));
    } else {
        FOCAL_TRY(read_stream(p, &w->attn_norm));
    }
    FOCAL_TRY(project(p, w));
    FOCAL_TRY(normalise_heads(p, &w->q_norm, c->H, p->qkv));
    FOCAL_TRY(normalise_heads(p, &w->k_norm, c->G, p->qkv + (int64_t)c->H * c->D));
    TIMED(p, "rotate, cache", no_cost, place_qkv(p, n));
    TIMED(p, "attention", attention_cost(p, n), attend(p, n));
    return join_stream(p, "attention out", &w->out, p->o_act, &w->attn_post);
}

/* hidden = activation(h gate^T) * (h up^T), or activation(h up^T) in families without a gate. */
static focal_status feed_forward_in(const pass *p, const foci_layer *w)
{
    const foci_config *c = &p->model->config;
    const bool is_gated = c->is_gated;
    const product in[] = {{is_gated ? &w->gate : &w->up, p->gate, c->F, false},
                          {&w->up, p->up, c->F, false}};
    if (!p->is_few && !in[0].w->added && !w->up.added) {
        foci_matmul_args args[] = {product_args(p, p->h, &in[0]), product_args(p, p->h, &in[1])};
        foci_cost cost = linear_cost(p->T, in[0].w);
        const foci_cost more = is_gated ? linear_cost(p->T, in[1].w) : no_cost;
        cost.flops += more.flops;
        cost.bytes += more.bytes;
        args[0].out = p->hidden;
        args[0].out_dtype = p->act;
        TIMED(p, "feed-forward in", cost,
              foci_matmul_gated(p->ctx, args, is_gated ? 2 : 1, c->activation));
        return FOCAL_OK;
    }
    const foci_gate_args gate = {
        .activation = c->activation,
        .T = p->T,
        .F = c->F,
        .gate = p->gate,
        .up = is_gated ? p->up : NULL,
        .out = p->hidden,
        .out_dtype = p->act,
    };
    FOCAL_TRY(linears(p, "feed-forward in", p->h, in, is_gated ? 2 : 1));
    TIMED(p, "activation", no_cost, foci_gate(p->ctx, &gate));
    return FOCAL_OK;
}

static focal_status feed_forward_block(const pass *p, int32_t n)
{
    const foci_layer *w = &p->model->weights.layers[n];
    FOCAL_TRY(read_stream(p, &w->ffn_norm));
    FOCAL_TRY(feed_forward_in(p, w));
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

/* Tokens of the longest text behind the pass. */
static int64_t longest(const pass *p)
{
    int64_t most = 0;
    for (int32_t n = 0; n < p->args->item_count; n++) {
        const focal_batch_item *item = &p->args->items[n];
        most = foci_max64(most, (int64_t)p->cache->seqs[item->sequence].length + item->count);
    }
    return most;
}

static size_t lay_out(pass *p, char *base)
{
    const foci_config *c = &p->model->config;
    const int64_t T = p->T, Q = (int64_t)c->H * c->D;
    const size_t act = focal_dtype_bytes(p->act), attn = focal_dtype_bytes(p->attn);
    size_t used = 0;
    p->x = take(base, &used, T * c->C, sizeof(float));
    /* Memory that holds one thing for attention, another for the feed-forward layer. */
    p->h = p->o_act = take(base, &used, T * foci_max64(c->C, Q), act);
    const int64_t qkv_bytes = qkv_stride(c) * (int64_t)sizeof(float);
    p->hidden = take(base, &used, T * foci_max64(qkv_bytes, c->F * (int64_t)act), 1);
    p->qkv = p->hidden;
    const int64_t k_rows = p->cache->dtype == FOCAL_Q8_0 ? focal_ctx_threads(p->ctx) : 0;
    p->k_rows = take(base, &used, k_rows * PLACE_ROWS * c->G * c->D, sizeof(float));
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
    const int64_t parts = (int64_t)p->args->item_count * store_count(p->cache);
    const int64_t routed = groups ? T * groups->shape.routers : 0;
    p->seqs = take(base, &used, parts, sizeof *p->seqs);
    p->keys = take(base, &used, groups ? parts : 0, sizeof *p->keys);
    p->key_scores = take(base, &used, groups ? routed * groups->shape.K : 0, sizeof(float));
    p->query_scores = take(base, &used, groups ? routed * groups->shape.K : 0, sizeof(float));
    p->key_groups = take(base, &used, routed, sizeof(int32_t));
    p->query_groups = take(base, &used, routed * p->cache->run.top, sizeof(int32_t));
    p->chain_rows = take(base, &used, groups ? (int64_t)focal_ctx_threads(p->ctx) * PLACE_ROWS : 0,
                         (size_t)p->cache->row_bytes);
    p->scale_q = take(base, &used, p->model->scaled ? T : 0, sizeof(float));
    p->scale_k = take(base, &used, p->model->scaled ? longest(p) : 0, sizeof(float));
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

static void set_scale(pass *p)
{
    const float scale = expf(*p->model->scaled->log_scale);
    const int64_t keys = longest(p);
    for (int64_t i = 0; i < p->T; i++) p->scale_q[i] = scale;
    for (int64_t j = 0; j < keys; j++) p->scale_k[j] = 1.0F;
    p->scale = (focal_attn_gate){
        .kind = FOCAL_GATE_SCALE, .K = 1, .routers = 1, .gq = p->scale_q, .gk = p->scale_k};
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
    if (p->model->scaled) set_scale(p);
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
