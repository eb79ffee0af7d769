/* Scores of keys in q8_0 by integer dot products, which need no expansion of the levels: for
 * AVX-512 with VNNI, included by attn_avx512bf16.c after attn_decode_body.h.
 *
 * A query row becomes integers of 16 bits with one unit for all: the largest has 15 bits, against
 * the 8 of a bfloat16. Products are then exact until a block's scale multiplies their sum. (The
 * same for weights and values gains as much again, but a weight of 2^-15 of the largest is lost
 * then, and with it a column in which the larger ones have levels of 0.) */
#ifndef FOCI_OPS_ATTN_ATTN_DECODE_Q8_VNNI_H
#define FOCI_OPS_ATTN_ATTN_DECODE_Q8_VNNI_H

#include "ops/attn/attn_decode_body.h"

enum { QUADS = Q8_LEVELS / 4 }; /* words of four levels in a block */

static const float q_most = 127.0F * 256.0F + 127.0F; /* both bytes of it are in -128 .. 127 */

/* Numbers below are as good as 0, and their unit would not be a normal number. */
static const float unit_least = 0x1p-80F;

static __m256i load_block(const char *row, int64_t b)
{
    return _mm256_loadu_si256((const __m256i *)(row + b * Q8_BYTES + Q8_SCALE_BYTES));
}

/* Each query row in place: the upper bytes of its integers, then the lower ones. */
static void integer_begin(stream *st)
{
    const int64_t D = st->call->a->D;
    for (int32_t r = 0; r < st->rows; r++) {
        float x[FOCAL_MAX_HEAD_WIDTH], most = 0.0F;
        const uint16_t *from = (const uint16_t *)(const void *)(st->q + r * st->q_stride);
        bool is_finite = true;
        for (int64_t d = 0; d < D; d++) {
            x[d] = foci_bf16_to_float(from[d]);
            is_finite = is_finite && isfinite(x[d]);
            most = fmaxf(most, fabsf(x[d]));
        }
        const float scale = is_finite && most > unit_least ? q_most / most : 0.0F;
        st->q_unit[r] = !is_finite ? NAN : scale > 0.0F ? most / q_most : 0.0F;
        int8_t *upper = (int8_t *)(st->q + r * st->q_stride), *lower = upper + D;
        memset(st->q_bias[r], 0, sizeof st->q_bias[r]);
        for (int64_t d = 0; d < D; d++) {
            const int32_t whole = scale > 0.0F ? (int32_t)lrintf(x[d] * scale) : 0;
            const int32_t high = (whole + 128) >> 8;
            upper[d] = (int8_t)high;
            lower[d] = (int8_t)(whole - high * 256);
            st->q_bias[r][d / Q8_LEVELS] -= 128 * whole;
        }
    }
}

/* 32 products for each of VL keys: a block's levels + 128, four a word, against row r. */
FOCI_INLINE vec dot_block(const stream *st, int32_t r, int64_t b, const vec levels[QUADS])
{
    const char *upper = (const char *)(st->q + r * st->q_stride) + b * Q8_LEVELS;
    const char *lower = upper + st->call->a->D;
    __m512i high = _mm512_setzero_si512(), low = _mm512_set1_epi32(st->q_bias[r][b]);
#pragma GCC unroll 8
    for (int n = 0; n < QUADS; n++) {
        int32_t four[2];
        memcpy(&four[0], upper + (int64_t)4 * n, sizeof four[0]);
        memcpy(&four[1], lower + (int64_t)4 * n, sizeof four[1]);
        const __m512i x = _mm512_castps_si512(levels[n]);
        high = _mm512_dpbusd_epi32(high, x, _mm512_set1_epi32(four[0]));
        low = _mm512_dpbusd_epi32(low, x, _mm512_set1_epi32(four[1]));
    }
    return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low));
}

/* Scores of all rows against VL keys, of blocks b and, with is_pair, b + 1. */
FOCI_INLINE void add_scores(const stream *st, const char *const k[VL], int64_t b, float *scores,
                            const bool is_pair)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    vec words[VL];
#pragma GCC unroll 16
    for (int n = 0; n < VL; n++) {
        __m512i both = _mm512_castsi256_si512(load_block(k[n], b));
        if (is_pair) both = _mm512_inserti64x4(both, load_block(k[n], b + 1), 1);
        words[n] = _mm512_castsi512_ps(_mm512_xor_si512(both, sign));
    }
    v_transpose(words);
    const vec first = v_gather_f16(k, b * Q8_BYTES);
    const vec second = is_pair ? v_gather_f16(k, (b + 1) * Q8_BYTES) : v_zero();
    for (int32_t r = 0; r < st->rows; r++, scores += STREAM_KEYS) {
        const vec unit = v_set1(st->q_unit[r]);
        vec sum = v_mul(dot_block(st, r, b, words), first);
        if (is_pair) sum = v_fma(dot_block(st, r, b + 1, words + QUADS), second, sum);
        v_store(scores, b == 0 ? v_mul(sum, unit) : v_fma(sum, unit, v_load(scores)));
    }
}

static void integer_scores(const stream *st, const stream_turn *turn, const stream_turn *next,
                           int half)
{
    const int64_t blocks = st->call->a->D / Q8_LEVELS;
    const char *const *k = turn->k + half;
    for (int n = 0; n < VL; n++) ask_for(next->k[half + n], st->k_bytes);
    int64_t b = 0;
    for (; b + 1 < blocks; b += 2) add_scores(st, k, b, st->s + half, true);
    if (b < blocks) add_scores(st, k, b, st->s + half, false);
}

static const q8_stream integer_levels = {integer_begin, integer_scores, q8_value_rows};

#endif /* FOCI_OPS_ATTN_ATTN_DECODE_Q8_VNNI_H */
