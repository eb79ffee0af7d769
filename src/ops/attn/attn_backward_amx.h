/* Backward of a strip of keys and a panel of queries, and the products of what comes out, in AMX
 * tiles. All that attn_backward_blocks.h packs is a side of such tiles as it lies. */
#ifndef FOCI_OPS_ATTN_ATTN_BACKWARD_AMX_H
#define FOCI_OPS_ATTN_ATTN_BACKWARD_AMX_H

#include "ops/attn/attn_attend_amx.h"

enum { TAKES_GATES = 1 }; /* the straight-through one, which has no overlaps */

#include "ops/attn/attn_backward_blocks.h"

/* Scores (STRIP_ROWS, NR) of a strip of keys and a panel of queries, and beside them the products
 * of the keys' values with the panel's dout. */
FOCI_INLINE void pair_products(const bwd_call *call, const bwd_scratch *s, int32_t key,
                               int32_t panel, float *scores, float *dp)
{
    const float *k = s->k + key * call->k_words, *v = s->v + key * call->v_words;
    const float *q = s->q_t + panel * call->k_words * NR;
    const float *dout = s->dout_t + panel * call->v_words * NR;
    const int64_t k_bytes = call->k_words * 4, v_bytes = call->v_words * 4;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t w = 0; w < call->k_words; w += DEPTH_WORDS) {
        _tile_loadd(4, k + w, k_bytes);
        _tile_loadd(5, q + w * NR, PANEL_BYTES);
        _tile_loadd(6, q + w * NR + VL, PANEL_BYTES);
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 6);
    }
    for (int64_t w = 0; w < call->v_words; w += DEPTH_WORDS) {
        _tile_loadd(4, v + w, v_bytes);
        _tile_loadd(5, dout + w * NR, PANEL_BYTES);
        _tile_loadd(6, dout + w * NR + VL, PANEL_BYTES);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 6);
    }
    _tile_stored(0, scores, PANEL_BYTES);
    _tile_stored(1, scores + VL, PANEL_BYTES);
    _tile_stored(2, dp, PANEL_BYTES);
    _tile_stored(3, dp + VL, PANEL_BYTES);
}

/* A vector of queries and one key: the weight, and the gradient of the score in place of dp. */
FOCI_INLINE vec backward_pair(vec score, vec *dp, vec lse, vec delta, const bool has_cap, float cap,
                              const bool is_masked, uint32_t bits)
{
    vec slope = v_zero();
    if (has_cap) {
        score = soft_cap(score, cap);
        const vec y = v_mul(score, v_set1(1.0F / cap));
        slope = v_fma(v_sub(v_zero(), y), y, v_set1(1.0F));
    }
    /* the difference first: it is exact where it matters, at scores near lse */
    vec weight = v_exp(v_sub(score, lse));
    if (is_masked) weight = v_select(bits, weight, v_zero());
    *dp = v_mul(weight, v_sub(*dp, delta));
    if (has_cap) *dp = v_mul(*dp, slope);
    /* again: 0 times what an unseen value holds may be NaN */
    if (is_masked) *dp = v_select(bits, *dp, v_zero());
    return weight;
}

/* Weights and gradients of a strip, from its products: the left factors p and ds of dv and dk, and
 * ds_c, the right one of dq. */
FOCI_INLINE void backward_strip(const query_tile *tile, int32_t column, int32_t entry,
                                const uint64_t *key_mask, float cap, const float *scores,
                                const float *dp, float *p, float *ds, float *ds_c,
                                const bool has_cap, const bool is_masked)
{
    const vec lse0 = v_load(tile->lse + column), lse1 = v_load(tile->lse + column + VL);
    const vec delta0 = v_load(tile->delta + column), delta1 = v_load(tile->delta + column + VL);
    for (int r = 0; r < STRIP_ROWS; r++) {
        const int64_t at = (int64_t)r * NR, packed = (int64_t)r * (NR / PACK);
        uint32_t bits[2] = {0, 0};
        for (int n = 0; is_masked && n < 2; n++)
            bits[n] = query_bits(tile, column + n * VL, entry + r, key_mask[r]);
        vec ds0 = v_load(dp + at), ds1 = v_load(dp + at + VL);
        const vec p0 = backward_pair(v_load(scores + at), &ds0, lse0, delta0, has_cap, cap,
                                     is_masked, bits[0]);
        const vec p1 = backward_pair(v_load(scores + at + VL), &ds1, lse1, delta1, has_cap, cap,
                                     is_masked, bits[1]);
        v_store_packed(p + packed, p0, p1);
        v_store_packed(ds + packed, ds0, ds1);
        if (r % PACK == 0) continue;
        vec lo = v_load(ds + packed - NR / PACK), hi = v_load(ds + packed);
        v_zip(&lo, &hi);
        v_store(ds_c + at / PACK - NR / PACK, lo);
        v_store(ds_c + at / PACK - NR / PACK + VL, hi);
    }
}

/* The same where pairs are distant, straight-through (3.5.4, 3.5.5): also dm, of which hidden ones
 * have one, too, and nothing else. is_partly: not every pair is distant, nor need it be seen. */
FOCI_INLINE void gated_strip(const query_tile *tile, const gate_block *block, int32_t column,
                             int32_t key, int32_t entry, float cap, const float *scores,
                             const float *dp, float *p, float *ds, float *ds_c, float *dm,
                             const bool has_cap, const bool is_partly)
{
    const gate_queries *gate = &tile->gate;
    for (int r = 0; r < STRIP_ROWS; r++) {
        const int64_t packed = (int64_t)r * (NR / PACK);
        vec weight[2], slope[2];
        for (int n = 0; n < 2; n++) {
            const int32_t query = column + n * VL;
            const int64_t at = (int64_t)r * NR + (int64_t)n * VL;
            uint32_t hidden = v_disjoint(gate->mask + query, block->key_mask[key + r]);
            uint32_t distant = ~0U, seen = ~0U;
            if (is_partly) {
                distant = v_inside(entry + r, gate->lo + query, gate->hi + query);
                seen = query_bits(tile, query, entry + r, 0);
                hidden &= distant;
            }
            seen &= ~hidden;
            const vec lse = v_load(tile->lse + query);
            vec score = v_load(scores + at), by_x = v_set1(1.0F);
            if (has_cap) {
                score = soft_cap(score, cap);
                const vec y = v_mul(score, v_set1(1.0F / cap));
                by_x = v_fma(v_sub(v_zero(), y), y, by_x);
            }
            weight[n] = v_exp(v_sub(v_select(hidden, v_min(lse, score), score), lse));
            slope[n] = v_mul(weight[n], v_sub(v_load(dp + at), v_load(tile->delta + query)));
            v_store(dm + at, is_partly ? v_select(distant, slope[n], v_zero()) : slope[n]);
            if (has_cap) slope[n] = v_mul(slope[n], by_x);
            weight[n] = v_select(seen, weight[n], v_zero());
            slope[n] = v_select(seen, slope[n], v_zero());
        }
        v_store_packed(p + packed, weight[0], weight[1]);
        v_store_packed(ds + packed, slope[0], slope[1]);
        if (r % PACK == 0) continue;
        vec lo = v_load(ds + packed - NR / PACK), hi = v_load(ds + packed);
        v_zip(&lo, &hi);
        v_store(ds_c + (int64_t)(r / PACK) * NR, lo);
        v_store(ds_c + (int64_t)(r / PACK) * NR + VL, hi);
    }
}

/* Weights and their gradients of one strip of keys and one panel of queries. `strip` counts from
 * the sub-block, which begins at entry begin + sub. has_gate: some pair of the tile is gated. */
FOCI_INLINE void backward_tile(const bwd_call *call, const bwd_item *item, const query_tile *tile,
                               const bwd_scratch *s, int32_t sub, int32_t strip, int32_t panel,
                               const bool has_gate)
{
    float scores[STRIP_ROWS * NR] __attribute__((aligned(64)));
    float dp[STRIP_ROWS * NR] __attribute__((aligned(64)));
    const float cap = call->a->softcap;
    const int32_t key = sub + strip * STRIP_ROWS; /* in the block */
    const int32_t entry = item->begin + key, column = panel * NR;
    const strip_bounds *bounds = &tile->bounds[panel];
    const bool is_masked =
        item->part >= 0 || bounds->lo_max > entry || bounds->hi_min < entry + STRIP_ROWS;
    const int64_t at = (int64_t)panel * SUB_KEYS + (int64_t)strip * STRIP_ROWS;
    float *p = s->p + at * (NR / PACK), *ds = s->ds + at * (NR / PACK);
    float *ds_c = s->ds_c + at / PACK * NR;
    const uint64_t *key_mask = s->key_mask + key;
    pair_products(call, s, key, panel, scores, dp);
    if (has_gate) {
        float *dm = gate_dm(&s->gate, strip, panel);
        if (cap > 0.0F)
            gated_strip(tile, &s->gate, column, key, entry, cap, scores, dp, p, ds, ds_c, dm, true,
                        true);
        else if (!gate_is_all_distant(&tile->gate, panel, entry))
            gated_strip(tile, &s->gate, column, key, entry, cap, scores, dp, p, ds, ds_c, dm, false,
                        true);
        else
            gated_strip(tile, &s->gate, column, key, entry, cap, scores, dp, p, ds, ds_c, dm, false,
                        false);
        return;
    }
    if (cap > 0.0F)
        backward_strip(tile, column, entry, key_mask, cap, scores, dp, p, ds, ds_c, true, true);
    else if (is_masked)
        backward_strip(tile, column, entry, key_mask, cap, scores, dp, p, ds, ds_c, false, true);
    else
        backward_strip(tile, column, entry, key_mask, cap, scores, dp, p, ds, ds_c, false, false);
}

/* dk or dv of a strip of keys += left factor (keys x queries of the panels [from, to)) x columns.
 */
static void add_key_sums(float *sums, int64_t stride, int64_t width, const float *left,
                         const float *columns, int32_t from, int32_t to, bool is_odd)
{
    enum { LEFT_BYTES = NR / PACK * sizeof(float) };
    const int64_t sum_bytes = stride * 4;
    foci_tiles_see(left);
    for (int64_t c = 0; c * NR < width; c++, sums += NR) {
        const float *column = columns + c * ((int64_t)QUERY_TILE / PACK * NR);
        _tile_loadd(0, sums, sum_bytes);
        _tile_loadd(1, sums + VL, sum_bytes);
        for (int32_t p = from; p < to; p++) {
            const float *b = column + (int64_t)p * ((int64_t)NR / PACK * NR);
            float cleared[NR / PACK * NR];
            if (__builtin_expect(is_odd, 0)) {
                clear_odd(b, cleared);
                foci_tiles_see(cleared);
                b = cleared;
            }
            _tile_loadd(4, left + (int64_t)p * SUB_KEYS * (NR / PACK), LEFT_BYTES);
            _tile_loadd(6, b, PANEL_BYTES);
            _tile_loadd(7, b + VL, PANEL_BYTES);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
        }
        _tile_stored(0, sums, sum_bytes);
        _tile_stored(1, sums + VL, sum_bytes);
        for (int32_t p = from; is_odd && p < to; p++)
            add_odd(column + (int64_t)p * ((int64_t)NR / PACK * NR),
                    left + (int64_t)p * SUB_KEYS * (NR / PACK), NR / PACK, STRIP_ROWS, sums,
                    stride);
    }
}

/* sums (STRIP_ROWS, NR) += a b, where a gradient of 0 in b must not meet the infinities and NaNs in
 * a: those alone, one by one. The other elements of a go to `cleared`. */
static __attribute__((noinline)) void add_odd_left(const float *a, int64_t lda, const float *b,
                                                   float *cleared, float *sums)
{
    for (int r = 0; r < STRIP_ROWS; r++, a += lda, cleared += DEPTH_WORDS) {
        uint16_t left[DEPTH_WORDS * PACK];
        memcpy(left, a, sizeof left);
        for (int n = 0; n < DEPTH_WORDS * PACK; n++) {
            if ((left[n] & 0x7F80U) != 0x7F80U) continue;
            for (int column = 0; column < NR; column++) {
                uint16_t right[PACK];
                memcpy(right, b + (int64_t)n / PACK * NR + column, sizeof right);
                if ((right[n % PACK] & 0x7FFFU) != 0)
                    sums[r * NR + column] +=
                        foci_bf16_to_float(left[n]) * foci_bf16_to_float(right[n % PACK]);
            }
            left[n] = 0;
        }
        memcpy(cleared, left, sizeof left);
    }
}

/* dq_t[panel] += transposed keys x ds of the strips [from, to) of the sub-block. */
static void add_dq(const bwd_call *call, const bwd_scratch *s, int32_t sub, int32_t panel,
                   int32_t from, int32_t to)
{
    enum { STRIP_WORDS = STRIP_ROWS / PACK };
    const int64_t ldk = KEY_BLOCK / PACK;
    float *right = s->ds_c + (int64_t)panel * SUB_KEYS / PACK * NR;
    /* A tile is two strips deep. */
    const size_t strip_bytes = (size_t)STRIP_WORDS * NR * sizeof(float);
    if (from % 2 != 0) memset(right + (int64_t)--from * STRIP_WORDS * NR, 0, strip_bytes);
    if (to % 2 != 0) memset(right + (int64_t)to++ * STRIP_WORDS * NR, 0, strip_bytes);
    const int64_t first = (int64_t)from * STRIP_WORDS, last = (int64_t)to * STRIP_WORDS;
    foci_tiles_see(right);
    for (int64_t d = 0; d < call->kt_rows; d += STRIP_ROWS) {
        const float *left = s->kt + d * ldk + sub / PACK;
        float *sums = s->dq_t + (panel * call->kt_rows + d) * NR;
        float cleared[SUB_KEYS / PACK / DEPTH_WORDS][STRIP_ROWS * DEPTH_WORDS];
        for (int64_t w = first; s->has_odd_k && w < last; w += DEPTH_WORDS)
            add_odd_left(left + w, ldk, right + w * NR, cleared[w / DEPTH_WORDS], sums);
        foci_tiles_see(cleared);
        foci_tiles_see(sums);
        _tile_loadd(0, sums, PANEL_BYTES);
        _tile_loadd(1, sums + VL, PANEL_BYTES);
        for (int64_t w = first; w < last; w += DEPTH_WORDS) {
            if (__builtin_expect(s->has_odd_k, 0))
                _tile_loadd(4, cleared[w / DEPTH_WORDS], DEPTH_WORDS * 4);
            else
                _tile_loadd(4, left + w, ldk * 4);
            _tile_loadd(6, right + w * NR, PANEL_BYTES);
            _tile_loadd(7, right + w * NR + VL, PANEL_BYTES);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
        }
        _tile_stored(0, sums, PANEL_BYTES);
        _tile_stored(1, sums + VL, PANEL_BYTES);
    }
}

#endif /* FOCI_OPS_ATTN_ATTN_BACKWARD_AMX_H */
