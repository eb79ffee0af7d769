/* The attention block of a forward pass: projections, query-key norm, keys and values into the
 * cache, attention over all of it or over what groups name, and the product behind it. */
#include <math.h>

#include "base/error.h"
#include "base/sizes.h"
#include "focal/quant.h"
#include "model/forward_pass.h"

static focal_status project(const foci_forward *p, const foci_layer *w)
{
    const foci_config *c = &p->model->config;
    const int64_t stride = foci_qkv_stride(c);
    float *q = p->qkv, *k = q + (int64_t)c->H * c->D, *v = k + (int64_t)c->G * c->D;
    if (w->qkv.w) return foci_forward_linear(p, "q k v", &w->qkv, p->h, q, stride, false);
    const foci_product three[] = {
        {&w->q, q, stride, false}, {&w->k, k, stride, false}, {&w->v, v, stride, false}};
    return foci_forward_linears(p, "q k v", p->h, three, 3);
}

/* Query-key norm, in place. */
static focal_status normalise_heads(const foci_forward *p, const foci_gain *gain, int32_t heads,
                                    void *x)
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
        .x_stride = foci_qkv_stride(c),
        .weight = gain->weight,
        .weight_offset = c->norm_offset,
        .epsilon = c->epsilon,
        .out = x,
        .out_dtype = FOCAL_F32,
        .out_stride = foci_qkv_stride(c),
    };
    return foci_norm(p->ctx, &args);
}

/* What attention reads of the stream, and in float32 what a router reads: *h. */
static focal_status read_routed_stream(const foci_forward *p, const foci_gain *gain,
                                       const float **h)
{
    *h = gain->weight ? p->h : p->x;
    if (!gain->weight || p->act == FOCAL_F32) return foci_forward_read(p, gain);
    foci_norm_args args = foci_stream_norm(&p->model->config, gain, p->T, p->x);
    args.out = p->h;
    args.out_dtype = p->act;
    args.unrounded = p->y;
    *h = p->y;
    TIMED(p, "norm", foci_no_cost, foci_norm(p->ctx, &args));
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
static focal_attn_args attention_args(const foci_forward *p, int32_t layer)
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
                             .window = is_near ? p->cache->use.window : c->window,
                             .sinks = is_near ? p->cache->use.sinks : 0,
                             .softcap = c->attn_softcap,
                             .gate = has_scale ? &p->scale : NULL,
                             .seq_count = p->args->item_count,
                             .seqs = p->seqs,
                             .page_rows = FOCI_PAGE_ROWS,
                             .out = p->o};
}

/* Attention over everything that the cache holds, read where it lies. */
static focal_status attend_all(const foci_forward *p, int32_t layer)
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
static focal_status attend_groups(const foci_forward *p, int32_t layer)
{
    const int32_t stores = foci_forward_stores(p->cache);
    focal_attn_args args = attention_args(p, layer);
    args.has_window = true;
    args.window = p->cache->use.window;
    args.sinks = p->cache->use.sinks;
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

static focal_status attend(const foci_forward *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    FOCAL_TRY(foci_cache_has_groups(p->cache, layer) ? attend_groups(p, layer)
                                                     : attend_all(p, layer));
    if (p->o_act == p->o) return FOCAL_OK;
    const int64_t count = (int64_t)p->T * c->H * c->D;
    if (p->attn == FOCAL_BF16) return focal_dequantize(FOCAL_BF16, p->o, count, p->o_act);
    return foci_forward_convert(p, p->T, c->H, c->D, p->o, (int64_t)c->H * c->D, p->o_act, p->act);
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
static foci_cost attention_cost(const foci_forward *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    const bool has_groups = foci_cache_has_groups(p->cache, layer);
    const int32_t stores = has_groups ? foci_forward_stores(p->cache) : 1;
    const foci_groups_use *use = &p->cache->use;
    const bool is_adapted = has_groups || is_near_only(p->model, layer);
    const double near = is_adapted ? (double)use->window + 1.0 + use->sinks : c->window + 1.0;
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

focal_status foci_forward_attend(const foci_forward *p, int32_t layer)
{
    const foci_config *c = &p->model->config;
    const foci_layer *w = &p->model->weights.layers[layer];
    if (foci_cache_has_groups(p->cache, layer)) {
        const float *h = NULL;
        FOCAL_TRY(read_routed_stream(p, &w->attn_norm, &h));
        TIMED(p, "router", foci_no_cost, foci_forward_route(p, layer, h));
    } else {
        FOCAL_TRY(foci_forward_read(p, &w->attn_norm));
    }
    FOCAL_TRY(project(p, w));
    FOCAL_TRY(normalise_heads(p, &w->q_norm, c->H, p->qkv));
    FOCAL_TRY(normalise_heads(p, &w->k_norm, c->G, p->qkv + (int64_t)c->H * c->D));
    TIMED(p, "rotate, cache", foci_no_cost, foci_forward_place(p, layer));
    TIMED(p, "attention", attention_cost(p, layer), attend(p, layer));
    return foci_forward_join(p, "attention out", &w->out, p->o_act, &w->attn_post);
}
