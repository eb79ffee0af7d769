/* From the rows of q, k and v that products gave to those that attention reads: turned by their
 * positions, divided by their temperature, k and v in the cache's pages or their groups' chains. */
#include <string.h>

#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "model/forward_pass.h"
#include "model/layer_temperature.h"
#include "ops/quant/q8_rows.h"
#include "ops/rope/rope.h"

/* How a layer's rows of q, k or v (T,H,D) become what attention reads: H, x and scale are given; q
 * and k turn by their positions. */
static focal_status rotation(const foci_forward *p, int32_t layer, bool turns, foci_rope_args *args)
{
    const foci_config *c = &p->model->config;
    const bool is_local = c->is_local[layer];
    args->T = p->T;
    args->D = c->D;
    args->x_stride = foci_qkv_stride(c);
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
static focal_status find_factors(const foci_forward *p, foci_layer_temperature temperature)
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

/* A layer's q, k and v on their way to q and to the cache. */
typedef struct placing {
    const foci_forward *p;
    int32_t layer;
    const foci_rows_kernel *rotate, *quantise; /* quantise: of a cache of q8_0 */
    foci_rope_args q, kv[2];
} placing;

/* `count` rows of k or v to where they stay. */
static void place_page(const placing *s, int32_t is_value, int64_t row, int64_t count, char *to,
                       int32_t thread)
{
    const foci_forward *p = s->p;
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
        rows.out = p->k_rows + (int64_t)thread * FOCI_PLACE_ROWS * width;
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
    const foci_forward *p = s->p;
    const foci_chains *chains = p->cache->seqs[p->args->items[n].sequence].chains;
    const int64_t bytes = p->cache->row_bytes;
    char *rows = p->chain_rows + (int64_t)thread * FOCI_PLACE_ROWS * bytes;
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
    const foci_forward *p = s->p;
    const bool has_groups = foci_cache_has_groups(p->cache, s->layer);
    const int64_t begin = index * FOCI_PLACE_ROWS, end = foci_min64(p->T, begin + FOCI_PLACE_ROWS);
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

focal_status foci_forward_place(const foci_forward *p, int32_t layer)
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
    foci_parallel_rows(p->ctx, foci_pieces(p->T, FOCI_PLACE_ROWS), place_rows, &s);
    return FOCAL_OK;
}
