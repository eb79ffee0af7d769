/* The streamed rows where keys and values are blocks of q8_0. A key's levels are scaled as they are
 * loaded. A value's are not: its scales go into the weights, so that what a row does not see has a
 * weight of 0 and, levels being finite, no influence. Part of attn_decode_body.h. */
#ifndef FOCI_OPS_ATTN_ATTN_DECODE_Q8_BODY_H
#define FOCI_OPS_ATTN_ATTN_DECODE_Q8_BODY_H

/* scale[b][n]: of block b of row n, for VL rows. */
FOCI_INLINE void q8_scales(const char *const row[VL], int64_t blocks, float *scale, int64_t stride)
{
    for (int64_t b = 0; b < blocks; b++)
        v_store(scale + b * stride, v_gather_f16(row, b * Q8_BYTES));
}

/* Like score_lanes(); scale: (D / 32, VL) of these keys. */
FOCI_INLINE void q8_score_lanes(const stream *st, int32_t first, const int count,
                                const char *const k[VL], const char *const next[VL],
                                const float *scale, float *scores, const int64_t D)
{
    const float *q = st->q + first * st->q_stride;
    vec sums[ROW_SET][VL / 4];
#pragma GCC unroll 4
    for (int four = 0; four < VL / 4; four++) {
        vec part[ROW_SET][4];
#pragma GCC unroll 4
        for (int n = 0; n < 4; n++) {
            const int key = 4 * four + n;
            if (first == 0) ask_for(next[key], st->k_bytes);
#pragma GCC unroll 4
            for (int r = 0; r < count; r++) part[r][n] = v_zero();
            for (int64_t d = 0; d < D; d += (int64_t)VL * PACK) {
                const vec x =
                    v_scale_levels(q8_levels(k[key], d), v_set1(scale[d / Q8_LEVELS * VL + key]));
#pragma GCC unroll 4
                for (int r = 0; r < count; r++)
                    part[r][n] = v_dot(part[r][n], v_load(q + r * st->q_stride + d / PACK), x);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < count; r++)
            sums[r][four] = v_sum_quarters(part[r][0], part[r][1], part[r][2], part[r][3]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < count; r++)
        v_store(scores + (int64_t)r * STREAM_KEYS, v_sum_lanes(sums[r]));
}

FOCI_INLINE void q8_score_sets(const stream *st, const char *const k[VL],
                               const char *const next[VL], float *scores, const int64_t D)
{
    float scale[MAX_BLOCKS * VL];
    q8_scales(k, D / Q8_LEVELS, scale, VL);
    int32_t first = 0, count = st->rows;
    for (; count >= ROW_SET; count -= ROW_SET, first += ROW_SET)
        q8_score_lanes(st, first, ROW_SET, k, next, scale, scores + (int64_t)first * STREAM_KEYS,
                       D);
    float *to = scores + (int64_t)first * STREAM_KEYS;
    if (count == 3) q8_score_lanes(st, first, 3, k, next, scale, to, D);
    if (count == 2) q8_score_lanes(st, first, 2, k, next, scale, to, D);
    if (count == 1) q8_score_lanes(st, first, 1, k, next, scale, to, D);
}

/* Like stream_scores(); the usual width is known to the compiler. */
static void q8_scores(const stream *st, const stream_turn *turn, const stream_turn *next, int half)
{
    const int64_t D = st->call->a->D;
    if (D == 64)
        q8_score_sets(st, turn->k + half, next->k + half, st->s + half, 64);
    else
        q8_score_sets(st, turn->k + half, next->k + half, st->s + half, D);
}

/* weights[b][r][..], packed words: the weights of all rows for the turn's keys times the scales of
 * block b of their values. */
static void q8_weights(const stream *st, const char *const v[STREAM_KEYS], int64_t blocks,
                       float *weights)
{
    float scale[MAX_BLOCKS * STREAM_KEYS];
    for (int half = 0; half < STREAM_KEYS; half += VL)
        q8_scales(v + half, blocks, scale + half, STREAM_KEYS);
    for (int64_t b = 0; b < blocks; b++) {
        const vec lo = v_load(scale + b * STREAM_KEYS), hi = v_load(scale + b * STREAM_KEYS + VL);
        for (int32_t r = 0; r < st->rows; r++, weights += STREAM_KEYS / PACK) {
            const float *p = st->p + (int64_t)r * STREAM_KEYS;
            const vec x = v_mul(v_load(p), lo), y = v_mul(v_load(p + VL), hi);
            v_store_packed(weights, v_select(st->seen[r], x, v_zero()),
                           v_select(st->seen[r] >> VL, y, v_zero()));
        }
    }
}

/* Like stream_values(), for `sets` panels of columns at a time. */
FOCI_INLINE void q8_values(stream *st, int32_t first, const int count, const char *const v[],
                           const char *const next[], const float *weights, int32_t keys,
                           const int sets)
{
    const int64_t stride = st->call->o_stride;
    float *o = st->o + first * stride;
    for (int64_t column = 0; column < st->call->a->Dv; column += (int64_t)sets * NR) {
        vec acc[ROW_SET][2 * VALUE_SETS];
#pragma GCC unroll 4
        for (int r = 0; r < count; r++) {
#pragma GCC unroll 4
            for (int c = 0; c < 2 * sets; c++)
                acc[r][c] = v_load(o + r * stride + column + (int64_t)c * VL);
        }
        for (int32_t n = 0; n < keys; n += PACK) {
            if (first == 0 && column == 0) {
                ask_for(next[n], st->v_bytes);
                if (PACK == 2) ask_for(next[n + 1], st->v_bytes);
            }
#pragma GCC unroll 2
            for (int c = 0; c < sets; c++) {
                const int64_t at = column + (int64_t)c * NR;
                const float *p =
                    weights + (at / Q8_LEVELS * st->rows + first) * (STREAM_KEYS / PACK) + n / PACK;
                vec lo = v_load_levels(q8_levels(v[n], at));
                vec hi = v_load_levels(q8_levels(v[n + PACK - 1], at + (PACK == 1 ? VL : 0)));
                v_zip(&lo, &hi);
#pragma GCC unroll 4
                for (int r = 0; r < count; r++) {
                    const vec weight = v_set1(p[(int64_t)r * (STREAM_KEYS / PACK)]);
                    acc[r][(int64_t)2 * c] = v_dot(acc[r][(int64_t)2 * c], weight, lo);
                    acc[r][2 * c + 1] = v_dot(acc[r][2 * c + 1], weight, hi);
                }
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < count; r++) {
#pragma GCC unroll 4
            for (int c = 0; c < 2 * sets; c++)
                v_store(o + r * stride + column + (int64_t)c * VL, acc[r][c]);
        }
    }
}

FOCI_INLINE void q8_value_sets(stream *st, const char *const v[], const char *const next[],
                               const float *weights, int32_t keys, const int sets)
{
    int32_t first = 0, count = st->rows;
    for (; count >= ROW_SET; count -= ROW_SET, first += ROW_SET)
        q8_values(st, first, ROW_SET, v, next, weights, keys, sets);
    if (count == 3) q8_values(st, first, 3, v, next, weights, keys, sets);
    if (count == 2) q8_values(st, first, 2, v, next, weights, keys, sets);
    if (count == 1) q8_values(st, first, 1, v, next, weights, keys, sets);
}

/* The turn's values, `count` of them; the turn then has none missing. */
static void q8_value_rows(stream *st, stream_turn *turn, const stream_turn *next, int32_t count)
{
    float weights[MAX_BLOCKS * STREAM_ROWS * (STREAM_KEYS / PACK)];
    for (int32_t n = count; n < STREAM_KEYS; n++) turn->v[n] = turn->v[0]; /* not seen */
    q8_weights(st, turn->v, st->call->a->Dv / Q8_LEVELS, weights);
    const int32_t keys = (int32_t)foci_round_up(count, PACK);
    if (st->call->a->Dv % (VALUE_SETS * NR) == 0)
        q8_value_sets(st, turn->v, next->v, weights, keys, VALUE_SETS);
    else
        q8_value_sets(st, turn->v, next->v, weights, keys, 1);
}

static void q8_begin(stream *st)
{
    (void)st;
}

static const q8_stream float_levels = {q8_begin, q8_scores, q8_value_rows};

#endif /* FOCI_OPS_ATTN_ATTN_DECODE_Q8_BODY_H */
