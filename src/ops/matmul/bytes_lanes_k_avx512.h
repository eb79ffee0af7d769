/* Sixteen interleaved rows of K blocks times bytes of x, on AVX-512 with byte dot products (VNNI):
 * one row a lane, as in bytes_lanes_avx512.h. Scales of 16 rows are unpacked at once, a byte of a
 * lane each. */
#ifndef FOCI_OPS_MATMUL_BYTES_LANES_K_AVX512_H
#define FOCI_OPS_MATMUL_BYTES_LANES_K_AVX512_H

#include "ops/matmul/bytes_lanes_avx512.h"

/* Word n of a block, of all rows; p is where its words begin. */
FOCI_INLINE __m512i lane_word(const uint8_t *p, int n)
{
    return _mm512_loadu_si512(p + (ptrdiff_t)64 * n);
}

/* Byte n of each lane, unsigned or signed, as a float. */
FOCI_INLINE __m512 lane_byte(__m512i lanes, int n)
{
    const __m512i byte = _mm512_srli_epi32(lanes, (unsigned)(8 * n));
    return _mm512_cvtepi32_ps(n == 3 ? byte : _mm512_and_si512(byte, _mm512_set1_epi32(255)));
}

FOCI_INLINE __m512 lane_signed_byte(__m512i lanes, int n)
{
    const __m512i top = _mm512_slli_epi32(lanes, (unsigned)(24 - 8 * n));
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(top, 24));
}

/* To the left where `by` is above 0, else to the right; bits stay in their bytes once masked. */
FOCI_INLINE __m512i shift_bits(__m512i lanes, int by, char mask)
{
    const __m512i moved =
        by > 0 ? _mm512_slli_epi32(lanes, (unsigned)by) : _mm512_srli_epi32(lanes, (unsigned)-by);
    return _mm512_and_si512(moved, _mm512_set1_epi8(mask));
}

/* ---- q4_k and q5_k: 8 runs of 32 ---- */

/* The 6-bit scales and minima of runs 0 to 3, and of 4 to 7; a run a byte. */
typedef struct lane_scales {
    __m512i scales[2], mins[2];
} lane_scales;

/* p: the three words that hold them, as foci_k_scale() and foci_k_min() say. */
FOCI_INLINE lane_scales unpack_six_bits(const uint8_t *p)
{
    const __m512i a = lane_word(p, 0), b = lane_word(p, 1), c = lane_word(p, 2);
    lane_scales s;
    s.scales[0] = shift_bits(a, 0, 0x3F);
    s.mins[0] = shift_bits(b, 0, 0x3F);
    s.scales[1] = _mm512_or_si512(shift_bits(c, 0, 15), shift_bits(a, -2, 0x30));
    s.mins[1] = _mm512_or_si512(shift_bits(c, -4, 15), shift_bits(b, -2, 0x30));
    return s;
}

/* Run `run`; q: the eight words that it shares with its neighbour, high: those of fifth bits. */
FOCI_INLINE lane_levels unpack_run(const uint8_t *q, const uint8_t *high, const focal_dtype type,
                                   int run)
{
    lane_levels b;
#pragma GCC unroll 8
    for (int n = 0; n < 2 * LANE_WORDS; n++) {
        __m512i word = lane_word(q, n);
        if (run % 2 == 1) word = _mm512_srli_epi16(word, 4);
        word = type == FOCAL_Q5_K ? join_levels(word, shift_bits(lane_word(high, n), 4 - run, 16))
                                  : _mm512_and_si512(word, _mm512_set1_epi8(15));
        if (n < LANE_WORDS)
            b.lo[n] = word;
        else
            b.hi[n - LANE_WORDS] = word;
    }
    return b;
}

/* total[c] += a block of each row with row c of x. */
FOCI_INLINE void add_long_runs(const uint8_t *block, const focal_dtype type, const byte_x *x,
                               __m512 total[BYTE_SUMS], const int count)
{
    const uint8_t *words = block + 64, *high = words + (ptrdiff_t)3 * 64;
    const uint8_t *q = type == FOCAL_Q5_K ? high + (ptrdiff_t)8 * 64 : high;
    const lane_scales s = unpack_six_bits(words);
    __m512 dots[BYTE_SUMS], mins[BYTE_SUMS];
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) dots[c] = mins[c] = _mm512_setzero_ps();
#pragma GCC unroll 8
    for (int run = 0; run < 8; run++) {
        if (run % 2 == 0)
            ask_for(block + BYTES_AHEAD + LANE_ROWS / 8 * k_block_bytes(type) * run,
                    LANE_ROWS * k_block_bytes(type) / 4);
        const lane_levels b = unpack_run(q + (ptrdiff_t)(run / 2) * 512, high, type, run);
        const __m512 scale = lane_byte(s.scales[run / 4], run % 4);
        const __m512 min = lane_byte(s.mins[run / 4], run % 4);
#pragma GCC unroll 4
        for (int c = 0; c < count; c++) {
            const float *factor = x->factor + c * x->factor_stride + run;
            const int64_t place = (int64_t)run / 4 * 128 + (int64_t)run % 4 * 16;
            const __m512 scaled =
                _mm512_mul_ps(dot_row(&b, x, c, place, 64), _mm512_set1_ps(factor[0]));
            dots[c] = _mm512_fmadd_ps(scaled, scale, dots[c]);
            mins[c] = _mm512_fmadd_ps(min, _mm512_set1_ps(factor[8]), mins[c]);
        }
    }
    const __m512 d = load_halves(block), m = load_halves(block + 32);
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) {
        total[c] = _mm512_fmadd_ps(dots[c], d, total[c]);
        total[c] = _mm512_fnmadd_ps(mins[c], m, total[c]);
    }
}

/* ---- q2_k, q3_k and q6_k: 16 runs of 16 ---- */

/* Where the words of a block begin, and its 16-bit numbers. */
typedef struct short_block {
    const uint8_t *q, *high, *scales, *d;
} short_block;

FOCI_INLINE short_block short_block_of(const uint8_t *p, const focal_dtype type)
{
    const ptrdiff_t word = 64;
    if (type == FOCAL_Q2_K) return (short_block){p + 4 * word, p, p, p + 20 * word};
    if (type == FOCAL_Q3_K) return (short_block){p + 8 * word, p, p + 24 * word, p + 27 * word};
    return (short_block){p, p + 32 * word, p + 48 * word, p + 52 * word};
}

/* Elements 4 n .. 4 n + 3 of a run, as foci_q2_k, foci_q3_k and foci_q6_k say: of each 128 elements
 * (a part), those a quarter apart share bytes. */
FOCI_INLINE __m512i short_levels(const short_block *b, const focal_dtype type, int run, int n)
{
    const int part = run / 8, quarter = run % 8 / 2, at = run % 2 * LANE_WORDS + n;
    if (type == FOCAL_Q6_K) {
        const __m512i q = lane_word(b->q, part * 16 + quarter % 2 * 8 + at);
        const __m512i high = lane_word(b->high, part * 8 + at);
        return join_levels(quarter < 2 ? q : _mm512_srli_epi16(q, 4),
                           shift_bits(high, 4 - 2 * quarter, 0x30));
    }
    const __m512i low = shift_bits(lane_word(b->q, part * 8 + at), -2 * quarter, 3);
    if (type == FOCAL_Q2_K) return low;
    return _mm512_or_si512(low, shift_bits(lane_word(b->high, at), 2 - (4 * part + quarter), 4));
}

/* The integer that scales a run. */
FOCI_INLINE __m512 short_scale(const short_block *b, const focal_dtype type, int run)
{
    const int four = run / 4;
    if (type == FOCAL_Q6_K) return lane_signed_byte(lane_word(b->scales, four), run % 4);
    if (type == FOCAL_Q2_K)
        return lane_byte(shift_bits(lane_word(b->scales, four), 0, 15), run % 4);
    const __m512i low = shift_bits(lane_word(b->scales, four % 2), -4 * (four / 2), 15);
    const __m512i high = shift_bits(lane_word(b->scales, 2), 4 - 2 * four, 0x30);
    return _mm512_sub_ps(lane_byte(_mm512_or_si512(low, high), run % 4), _mm512_set1_ps(32.0F));
}

/* Sums of products with the 16 elements of x from `place` on, as floats. */
FOCI_INLINE __m512 dot_short(const __m512i levels[LANE_WORDS], const byte_x *x, int c,
                             int64_t place)
{
    const int8_t *x_high = x->high + c * x->q_stride + place;
    const int8_t *x_low = x->low + c * x->q_stride + place;
    __m512i high = _mm512_setzero_si512(), low = high;
#pragma GCC unroll 4
    for (int n = 0; n < LANE_WORDS; n++) {
        high = _mm512_dpbusd_epi32(high, levels[n], broadcast_word(x_high + (ptrdiff_t)4 * n));
        low = _mm512_dpbusd_epi32(low, levels[n], broadcast_word(x_low + (ptrdiff_t)4 * n));
    }
    return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low));
}

/* The same as add_long_runs(). */
FOCI_INLINE void add_short_runs(const uint8_t *block, const focal_dtype type, const byte_x *x,
                                __m512 total[BYTE_SUMS], const int count)
{
    const short_block b = short_block_of(block, type);
    const bool has_m = type == FOCAL_Q2_K;
    __m512 sums[BYTE_SUMS], mins[BYTE_SUMS];
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) sums[c] = mins[c] = _mm512_setzero_ps();
#pragma GCC unroll 16
    for (int run = 0; run < 16; run++) {
        __m512i levels[LANE_WORDS];
        if (run % 4 == 0)
            ask_for(block + BYTES_AHEAD + run * k_block_bytes(type), 4 * k_block_bytes(type));
#pragma GCC unroll 4
        for (int n = 0; n < LANE_WORDS; n++) levels[n] = short_levels(&b, type, run, n);
        const __m512 scale = short_scale(&b, type, run);
        const __m512i upper = shift_bits(lane_word(b.scales, run / 4), -4, 15);
#pragma GCC unroll 4
        for (int c = 0; c < count; c++) {
            const float *factor = x->factor + c * x->factor_stride + run;
            const __m512 dots = dot_short(levels, x, c, (int64_t)16 * run);
            const __m512 d_x = _mm512_set1_ps(factor[0]), sum_x = _mm512_set1_ps(factor[16]);
            const __m512 scaled =
                has_m ? _mm512_mul_ps(dots, d_x) : _mm512_fmadd_ps(dots, d_x, sum_x);
            sums[c] = _mm512_fmadd_ps(scaled, scale, sums[c]);
            if (has_m) mins[c] = _mm512_fmadd_ps(lane_byte(upper, run % 4), sum_x, mins[c]);
        }
    }
    const __m512 d = load_halves(b.d);
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) {
        total[c] = _mm512_fmadd_ps(sums[c], d, total[c]);
        if (has_m) total[c] = _mm512_fnmadd_ps(mins[c], load_halves(b.d + 32), total[c]);
    }
}

/* As sum_lanes(), of interleaved rows. */
FOCI_INLINE void sum_k_lanes(const byte_group *w, const focal_dtype type, const byte_x *x_from,
                             float *sums, int64_t stride, const int count)
{
    __m512 total[BYTE_SUMS];
    byte_x x = *x_from;
    const uint8_t *block = w->first;
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) total[c] = _mm512_setzero_ps();
    for (int64_t n = 0; n < w->K / FOCI_BYTE_SPAN; n++) {
        if (type == FOCAL_Q4_K || type == FOCAL_Q5_K)
            add_long_runs(block, type, &x, total, count);
        else
            add_short_runs(block, type, &x, total, count);
        step_x(&x, FOCI_BYTE_SPAN, FOCI_BYTE_FACTORS);
        block += LANE_ROWS * k_block_bytes(type);
    }
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) _mm512_storeu_ps(sums + c * stride, total[c]);
}

#endif /* FOCI_OPS_MATMUL_BYTES_LANES_K_AVX512_H */
