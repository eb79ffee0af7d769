/* The vocabulary of vector operations on AVX-512: 16 float lanes. Kernels are written once in
 * these words and compiled for each instruction set; vec_avx2.h is the other dialect. What a
 * dialect adds on top (vec_avx512.h, vec_avx512bf16.h) is how a 32-bit word of packed data is
 * multiplied: one float, or a pair of bfloat16. */
#ifndef FOCI_SIMD_VEC_AVX512_CORE_H
#define FOCI_SIMD_VEC_AVX512_CORE_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

typedef __m512 vec;

enum {
    VL = 16, /* lanes of a vector */
#ifdef FOCI_WIDE_TILE
    MR = 8,             /* rows of a register tile: 8 x 3 accumulators, 3 operands, 5 to spare */
    NR = 48,            /* columns of a register tile: three vectors */
    ROWS_A_POINTER = 4, /* of a tile's left side */
    ROWS_AHEAD = 24,    /* words, that alternating rows are asked for */
#else
    MR = 12,            /* 12 x 2 accumulators, 2 operands, 6 to spare */
    NR = 32,            /* two vectors */
    ROWS_A_POINTER = 3, /* 12 pointers are too many */
    ROWS_AHEAD = 0,     /* not at all: what was measured came by itself */
#endif
    LOW_ROWS = MR / 4, /* of the lowest tile */
    TURNS_ROWS = 0,    /* packed rows of a left side lie as they are, unless that lies transposed */
    CUT_WORDS = 1 << 30, /* no sum is cut */
    WORDS_A_ROUND = 1    /* of a sum, in a tile's loop: 24 multiply-adds are enough */
};

static inline vec v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

/* VL words from any address. */
static inline vec v_load_words(const void *p)
{
    return _mm512_loadu_ps(p);
}

static inline void v_store(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}

static inline vec v_set1(float x)
{
    return _mm512_set1_ps(x);
}

static inline vec v_zero(void)
{
    return _mm512_setzero_ps();
}

static inline vec v_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec v_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec v_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec v_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

static inline vec v_sqrt(vec x)
{
    return _mm512_sqrt_ps(x);
}

/* a b + c, rounded once. */
static inline vec v_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* When one is NaN: b. */
static inline vec v_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

static inline vec v_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

static inline vec v_abs(vec x)
{
    return _mm512_abs_ps(x);
}

/* The absolute value of x with the sign of s. */
static inline vec v_sign_of(vec x, vec s)
{
    const vec sign = v_set1(-0.0F);
    return _mm512_or_ps(_mm512_andnot_ps(sign, x), _mm512_and_ps(sign, s));
}

/* To the nearest whole number, ties to even. */
static inline vec v_round(vec x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x 2^n for a whole n from -252 to 252: an infinity, a subnormal or 0 where the range ends. */
static inline vec v_scale2(vec x, vec n)
{
    return _mm512_scalef_ps(x, n);
}

/* a b - c in even lanes, a b + c in odd ones. */
static inline vec v_fma_alternate(vec a, vec b, vec c)
{
    return _mm512_fmaddsub_ps(a, b, c);
}

/* Lanes 2n and 2n + 1 change places. */
static inline vec v_swap_pairs(vec x)
{
    return _mm512_permute_ps(x, 0xB1);
}

/* Lane n is a's where bit n is set, else b's. */
static inline vec v_select(uint32_t bits, vec a, vec b)
{
    return _mm512_mask_blend_ps((__mmask16)bits, b, a);
}

/* a where first + n lies in [lo, hi), else b. */
static inline vec v_select_interval(int32_t first, int32_t lo, int32_t hi, vec a, vec b)
{
    const __m512i n = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i lane = _mm512_add_epi32(n, _mm512_set1_epi32(first));
    const __mmask16 is_behind = _mm512_cmpge_epi32_mask(lane, _mm512_set1_epi32(lo));
    return _mm512_mask_blend_ps(
        _mm512_mask_cmplt_epi32_mask(is_behind, lane, _mm512_set1_epi32(hi)), b, a);
}

/* Bit n: a > b in lane n (false for NaN). */
static inline uint32_t v_greater(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

/* Lane n is x's where a is greater than b there (false for NaN), else y's. */
static inline vec v_where_greater(vec a, vec b, vec x, vec y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), y, x);
}

static inline float v_reduce_max(vec x)
{
    return _mm512_reduce_max_ps(x);
}

static inline float v_reduce_add(vec x)
{
    return _mm512_reduce_add_ps(x);
}

/* Bit n: lo[n] <= key < hi[n]. */
static inline uint32_t v_inside(int32_t key, const int32_t *lo, const int32_t *hi)
{
    const __m512i k = _mm512_set1_epi32(key);
    return _mm512_cmple_epi32_mask(_mm512_loadu_si512(lo), k) &
           _mm512_cmpgt_epi32_mask(_mm512_loadu_si512(hi), k);
}

/* Bit n: no bit of masks[n] is in mask. */
static inline uint32_t v_disjoint(const uint64_t masks[VL], uint64_t mask)
{
    const __m512i m = _mm512_set1_epi64((long long)mask);
    const uint32_t lo = _mm512_testn_epi64_mask(_mm512_loadu_si512(masks), m);
    const uint32_t hi = _mm512_testn_epi64_mask(_mm512_loadu_si512(masks + VL / 2), m);
    return lo | hi << VL / 2;
}

/* 2^f for f in [0,1], relative error at most 1.3e-7 (the polynomial's is 2e-9, the rest is
 * rounding). */
static inline vec v_exp2_fraction(vec f)
{
    vec p = v_set1(0.00021702255F);
    p = v_fma(p, f, v_set1(0.0012439688F));
    p = v_fma(p, f, v_set1(0.0096788406F));
    p = v_fma(p, f, v_set1(0.055483341F));
    p = v_fma(p, f, v_set1(0.24022983F));
    p = v_fma(p, f, v_set1(0.69314700F));
    return v_fma(p, f, v_set1(1.0F));
}

/* 2^x with the error of v_exp2_fraction(). -inf gives 0, NaN stays. scalef takes the floor of the
 * exponent itself, so only the fraction is computed. */
static inline vec v_exp2(vec x)
{
    const vec f = _mm512_reduce_ps(x, 0x09); /* x - floor(x); 0 for infinities */
    return _mm512_scalef_ps(v_exp2_fraction(f), x);
}

/* e^x, as exact at large |x| as near 0: what x log2(e) loses by rounding is added back. */
static inline vec v_exp(vec x)
{
    const vec scale = v_set1(1.44269504F), rest = v_set1(1.925963e-8F);
    const vec y = v_mul(x, scale);
    const vec f = _mm512_reduce_ps(y, 0x09);
    const vec lost = v_fma(x, rest, _mm512_fmsub_ps(x, scale, y));
    /* an infinity lost itself: inf - inf; its fraction is 0 anyway */
    const __mmask16 is_finite = _mm512_cmp_ps_mask(lost, lost, _CMP_ORD_Q);
    return _mm512_scalef_ps(v_exp2_fraction(_mm512_mask_add_ps(f, is_finite, f, lost)), y);
}

/* ln x of a positive, finite, normal x: x = 2^n (1 + f) with 1 + f in [sqrt 1/2, sqrt 2), Cephes'
 * polynomial in f, and ln 2 in two parts. Relative error at most 8.2e-8 (on all floats from 1e-6 to
 * 64). */
static inline vec v_log(vec x)
{
    const __m512i bits = _mm512_castps_si512(x), least = _mm512_set1_epi32(0x3F3504F3);
    const __m512i n = _mm512_srai_epi32(_mm512_sub_epi32(bits, least), 23);
    const vec rest = _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(n, 23)));
    const vec f = v_sub(rest, v_set1(1.0F)), f2 = v_mul(f, f), power = _mm512_cvtepi32_ps(n);
    vec p = v_set1(7.0376836292e-2F);
    p = v_fma(p, f, v_set1(-1.1514610310e-1F));
    p = v_fma(p, f, v_set1(1.1676998740e-1F));
    p = v_fma(p, f, v_set1(-1.2420140846e-1F));
    p = v_fma(p, f, v_set1(1.4249322787e-1F));
    p = v_fma(p, f, v_set1(-1.6668057665e-1F));
    p = v_fma(p, f, v_set1(2.0000714765e-1F));
    p = v_fma(p, f, v_set1(-2.4999993993e-1F));
    p = v_fma(p, f, v_set1(3.3333331174e-1F));
    p = v_fma(power, v_set1(-2.12194440e-4F), v_mul(v_mul(p, f), f2));
    p = v_add(f, v_fma(f2, v_set1(-0.5F), p));
    return v_fma(power, v_set1(0.693359375F), p);
}

/* The first `count` (1 .. VL) floats, zeros behind them; reads no further. */
static inline vec v_load_some(const float *p, int64_t count)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1U << count) - 1U), p);
}

static inline void v_store_some(float *p, vec x, int64_t count)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1U << count) - 1U), x);
}

/* The first MR lanes. */
static inline void v_store_rows(float *p, vec x)
{
    v_store_some(p, x, MR);
}

/* Each of the first `count` (1 .. VL / 2) floats twice, side by side; reads no further. */
static inline vec v_load_twice(const float *p, int64_t count)
{
    const __m512i twice = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    return _mm512_permutexvar_ps(twice, v_load_some(p, count));
}

/* VL bfloat16 as floats, and back (nearest even, NaN stays NaN). */
static inline vec v_load_bf16(const uint16_t *p)
{
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

static inline __m256i v_to_bf16(vec x)
{
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i rounded = _mm512_add_epi32(bits, half);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __m512i kept = _mm512_mask_blend_epi32(is_nan, rounded, quiet);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16));
}

static inline void v_store_bf16(uint16_t *p, vec x)
{
    _mm256_storeu_si256((__m256i *)p, v_to_bf16(x));
}

static inline void v_store_bf16_some(uint16_t *p, vec x, int64_t count)
{
    _mm256_mask_storeu_epi16(p, (__mmask16)((1U << count) - 1U), v_to_bf16(x));
}

/* VL signed bytes as floats. */
static inline vec v_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* VL floats between -128 and 128 as signed bytes: to nearest, ties away from zero. (The number
 * before a half, because 0.5 less a little plus 0.5 would round up to 1.) */
static inline void v_store_levels(int8_t *p, vec x)
{
    const vec half = v_sign_of(v_set1(0x1.FFFFFEp-2F), x);
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(v_add(x, half))));
}

/* VL float16 as floats, and one of them in every lane, from any address. */
static inline vec v_load_f16(const uint8_t *h)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)h));
}

/* The float16 at each of VL places. */
static inline vec v_gather_f16(const char *const place[VL], int64_t offset)
{
    int16_t h[VL];
    for (int n = 0; n < VL; n++) memcpy(&h[n], place[n] + offset, sizeof h[n]);
    /* From stores of two bytes a vector could not be loaded before they are all done. */
    const __m128i lo = _mm_setr_epi16(h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]);
    const __m128i hi = _mm_setr_epi16(h[8], h[9], h[10], h[11], h[12], h[13], h[14], h[15]);
    return _mm512_cvtph_ps(_mm256_set_m128i(hi, lo));
}

static inline vec v_spread_f16(const uint8_t h[2])
{
    const __m128i half = _mm_cvtsi32_si128(h[0] | h[1] << 8);
    return _mm512_broadcastss_ps(_mm_maskz_cvtph_ps(1, half));
}

/* Rows of VL words become columns. */
static inline void v_transpose(vec r[VL])
{
    vec t[VL];
    for (int n = 0; n < VL; n += 2) {
        t[n] = _mm512_unpacklo_ps(r[n], r[n + 1]);
        t[n + 1] = _mm512_unpackhi_ps(r[n], r[n + 1]);
    }
    for (int n = 0; n < VL; n += 4) {
        r[n] = _mm512_shuffle_ps(t[n], t[n + 2], 0x44);
        r[n + 1] = _mm512_shuffle_ps(t[n], t[n + 2], 0xEE);
        r[n + 2] = _mm512_shuffle_ps(t[n + 1], t[n + 3], 0x44);
        r[n + 3] = _mm512_shuffle_ps(t[n + 1], t[n + 3], 0xEE);
    }
    /* r[4a + b] holds, in its four quarters q, column 4q + b of rows 4a .. 4a + 3. */
    for (int b = 0; b < 4; b++) {
        const vec lo01 = _mm512_shuffle_f32x4(r[b], r[4 + b], 0x44);
        const vec hi01 = _mm512_shuffle_f32x4(r[b], r[4 + b], 0xEE);
        const vec lo23 = _mm512_shuffle_f32x4(r[8 + b], r[12 + b], 0x44);
        const vec hi23 = _mm512_shuffle_f32x4(r[8 + b], r[12 + b], 0xEE);
        t[b] = _mm512_shuffle_f32x4(lo01, lo23, 0x88);
        t[4 + b] = _mm512_shuffle_f32x4(lo01, lo23, 0xDD);
        t[8 + b] = _mm512_shuffle_f32x4(hi01, hi23, 0x88);
        t[12 + b] = _mm512_shuffle_f32x4(hi01, hi23, 0xDD);
    }
    memcpy(r, t, sizeof t);
}

/* True when a lane is infinite or NaN. */
static inline uint32_t v_odd_floats(vec x)
{
    return _mm512_fpclass_ps_mask(x, 0x99);
}

/* Sums of the lanes of many vectors, in two steps. First of four: quarter q of the result holds
 * the sums of quarter q of a, b, c and d. */
static inline vec v_sum_quarters(vec a, vec b, vec c, vec d)
{
    const vec ab = v_add(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const vec cd = v_add(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512d x = _mm512_castps_pd(ab), y = _mm512_castps_pd(cd);
    return v_add(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                 _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}

/* Then of VL / 4 such: lane n of the result is the sum of the lanes of vector n. */
static inline vec v_sum_lanes(const vec q[VL / 4])
{
    const vec lo =
        v_add(_mm512_shuffle_f32x4(q[0], q[1], 0x88), _mm512_shuffle_f32x4(q[0], q[1], 0xDD));
    const vec hi =
        v_add(_mm512_shuffle_f32x4(q[2], q[3], 0x88), _mm512_shuffle_f32x4(q[2], q[3], 0xDD));
    return v_add(_mm512_shuffle_f32x4(lo, hi, 0x88), _mm512_shuffle_f32x4(lo, hi, 0xDD));
}

/* Sums in double, one a lane. */
typedef struct vec_sums {
    __m512d lo, hi;
} vec_sums;

static inline vec_sums v_sums_zero(void)
{
    return (vec_sums){_mm512_setzero_pd(), _mm512_setzero_pd()};
}

/* sums + x^2, lane by lane; the square of a float is exact in double. */
static inline vec_sums v_sums_add_squares(vec_sums sums, vec x)
{
    const __m512d lo = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    const __m512d hi = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    return (vec_sums){_mm512_fmadd_pd(lo, lo, sums.lo), _mm512_fmadd_pd(hi, hi, sums.hi)};
}

static inline void v_sums_store(double p[VL], vec_sums sums)
{
    _mm512_storeu_pd(p, sums.lo);
    _mm512_storeu_pd(p + VL / 2, sums.hi);
}

/* Asks for the line at p, for now and for a little later. Always inlined: gcc takes a function that
 * does nothing else for one without effect and drops its calls. */
static inline __attribute__((always_inline)) void v_prefetch(const void *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T0);
}

static inline __attribute__((always_inline)) void v_prefetch_far(const void *p)
{
    _mm_prefetch((const char *)p, _MM_HINT_T1);
}

#endif /* FOCI_SIMD_VEC_AVX512_CORE_H */
