/* Backward of a strip of keys and a panel of queries, and the products of what comes out, in
 * register tiles. */
#ifndef FOCI_OPS_ATTN_ATTN_BACKWARD_PAIRS_BODY_H
#define FOCI_OPS_ATTN_ATTN_BACKWARD_PAIRS_BODY_H

#include "ops/attn/attn_tile.h"

/* Gates change scores and gradients where they lie, as words of one float. */
enum { TAKES_GATES = PACK == 1 };

#include "ops/attn/attn_backward_blocks.h"

/* Weights and their gradients of one strip of keys and one panel of queries. `strip` counts from
 * the sub-block, which begins at entry begin + sub. has_gate: some pair of the tile is gated. */
FOCI_INLINE void backward_tile(const bwd_call *call, const bwd_item *item, const query_tile *tile,
                               const bwd_scratch *s, int32_t sub, int32_t strip, int32_t panel,
                               const bool has_gate)
{
    const float cap = call->a->softcap;
    const int32_t key = sub + strip * MR; /* in the block */
    const int32_t entry = item->begin + key;
    const int32_t column = panel * NR;
    const strip_bounds *bounds = &tile->bounds[panel];
    const bool is_masked = item->part >= 0 || bounds->lo_max > entry || bounds->hi_min < entry + MR;
    float weight[MR * NR], slope[MR * NR];
    vec x[MR][2];
    for (int r = 0; r < MR; r++) x[r][0] = x[r][1] = v_zero();
    tile_dot(x, s->k + key * call->k_words, call->k_words, s->q_t + panel * call->k_words * NR,
             call->k_words, 2);
    if (cap > 0.0F) {
        for (int r = 0; r < MR; r++) {
            for (int n = 0; n < 2; n++) {
                x[r][n] = soft_cap(x[r][n], cap);
                const vec y = v_mul(x[r][n], v_set1(1.0F / cap));
                v_store(slope + (int64_t)r * NR + (int64_t)n * VL,
                        v_fma(v_sub(v_zero(), y), y, v_set1(1.0F)));
            }
        }
    }
    gate_pairs pairs;
    if (has_gate) {
        tile_store(weight, NR, x);
        gate_tile(&call->gate, &s->gate, &tile->gate, tile->lse, key, entry, panel, weight, &pairs);
        tile_load(x, weight, NR);
    }
    const vec lse0 = v_load(tile->lse + column), lse1 = v_load(tile->lse + column + VL);
    float *p = s->p + ((int64_t)panel * SUB_KEYS + (int64_t)strip * MR) * (NR / PACK);
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) {
        /* the difference first: it is exact where it matters, at scores near lse */
        x[r][0] = v_exp(v_sub(x[r][0], lse0));
        x[r][1] = v_exp(v_sub(x[r][1], lse1));
    }
    uint32_t bits[MR][2];
    if (is_masked) {
        for (int r = 0; r < MR; r++) {
            for (int n = 0; n < 2; n++) {
                bits[r][n] = query_bits(tile, column + n * VL, entry + r, s->key_mask[key + r]);
                x[r][n] = v_select(bits[r][n], x[r][n], v_zero());
            }
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) {
        v_store(weight + (int64_t)r * NR, x[r][0]);
        v_store(weight + (int64_t)r * NR + VL, x[r][1]);
        v_store_packed(p + (int64_t)r * (NR / PACK), x[r][0], x[r][1]);
        x[r][0] = x[r][1] = v_zero();
    }
    if (has_gate) gate_hide(&pairs, p);
    tile_dot(x, s->v + key * call->v_words, call->v_words, s->dout_t + panel * call->v_words * NR,
             call->v_words, 2);
    const vec delta0 = v_load(tile->delta + column), delta1 = v_load(tile->delta + column + VL);
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) {
        x[r][0] = v_mul(v_load(weight + (int64_t)r * NR), v_sub(x[r][0], delta0));
        x[r][1] = v_mul(v_load(weight + (int64_t)r * NR + VL), v_sub(x[r][1], delta1));
    }
    if (has_gate) {
        tile_store(weight, NR, x);
        gate_gradients(&call->gate, &pairs, weight, gate_dm(&s->gate, strip, panel));
        tile_load(x, weight, NR);
    }
    if (cap > 0.0F) {
        for (int r = 0; r < MR; r++) {
            x[r][0] = v_mul(x[r][0], v_load(slope + (int64_t)r * NR));
            x[r][1] = v_mul(x[r][1], v_load(slope + (int64_t)r * NR + VL));
        }
    }
    if (is_masked) { /* again: 0 times what an unseen value holds may be NaN */
        for (int r = 0; r < MR; r++) {
            x[r][0] = v_select(bits[r][0], x[r][0], v_zero());
            x[r][1] = v_select(bits[r][1], x[r][1], v_zero());
        }
    }
    float *ds = s->ds + ((int64_t)panel * SUB_KEYS + (int64_t)strip * MR) * (NR / PACK);
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) v_store_packed(ds + (int64_t)r * (NR / PACK), x[r][0], x[r][1]);
    if (PACK == 2) {
        float *ds_c = s->ds_c + ((int64_t)panel * SUB_KEYS + (int64_t)strip * MR) / PACK * NR;
        for (int r = 0; r < MR; r += PACK) {
            vec lo = v_load(ds + (int64_t)r * (NR / PACK)),
                hi = v_load(ds + (int64_t)(r + PACK - 1) * (NR / PACK));
            v_zip(&lo, &hi);
            v_store(ds_c + (int64_t)r / PACK * NR, lo);
            v_store(ds_c + (int64_t)r / PACK * NR + VL, hi);
        }
    }
}

/* sums (MR, NR) += a b, where a gradient of 0 in b must not meet the infinities and NaNs in a:
 * column by column, with what it does not see cleared. */
static __attribute__((noinline)) void tile_dot_odd_left(float *sums, const float *a, int64_t lda,
                                                        const float *b, int64_t words)
{
    for (int column = 0; column < NR; column++) {
        float cleared[MR * (SUB_KEYS / PACK)];
        for (int r = 0; r < MR; r++)
            for (int64_t w = 0; w < words; w++)
                cleared[(int64_t)r * (SUB_KEYS / PACK) + w] =
                    word_where_met(a[r * lda + w], b[w * NR + column]);
        vec acc[MR][2];
        tile_load(acc, sums, NR);
        tile_dot(acc, cleared, SUB_KEYS / PACK, b, words, 2);
        float result[MR * NR];
        tile_store(result, NR, acc);
        for (int r = 0; r < MR; r++) sums[r * NR + column] = result[r * NR + column];
    }
}

/* dq_t[panel] += transposed keys x ds of the strips [from, to) of the sub-block. */
FOCI_INLINE void add_dq(const bwd_call *call, const bwd_scratch *s, int32_t sub, int32_t panel,
                        int32_t from, int32_t to)
{
    const int64_t ldk = KEY_BLOCK / PACK;
    const float *left = s->kt + (sub + from * MR) / PACK;
    const float *right = s->ds_c + ((int64_t)panel * SUB_KEYS + (int64_t)from * MR) / PACK * NR;
    const int64_t words = (int64_t)(to - from) * MR / PACK;
    float *sums = s->dq_t + panel * call->kt_rows * NR;
    for (int64_t d = 0; d < call->kt_rows; d += MR) {
        if (__builtin_expect(s->has_odd_k, 0)) {
            tile_dot_odd_left(sums + d * NR, left + d * ldk, ldk, right, words);
            continue;
        }
        vec acc[MR][2];
        tile_load(acc, sums + d * NR, NR);
        tile_dot(acc, left + d * ldk, ldk, right, words, 2);
        tile_store(sums + d * NR, NR, acc);
    }
}

/* dk or dv of a strip of keys += left factor (keys x queries of the panels [from, to)) x columns.
 */
FOCI_INLINE void add_key_sums(float *sums, int64_t stride, int64_t width, const float *left,
                              const float *columns, int32_t from, int32_t to, bool is_odd)
{
    add_product(sums, stride, width, left, columns, from, to, is_odd);
}

#endif /* FOCI_OPS_ATTN_ATTN_BACKWARD_PAIRS_BODY_H */
