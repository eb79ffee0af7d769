/* The vocabulary on AVX2 with FMA: 8 float lanes, packed words of one float. vec_avx512_core.h
 * says what each word means. */
#ifndef FOCI_SIMD_VEC_AVX2_H
#define FOCI_SIMD_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "base/f16.h"

typedef __m256 vec;

enum {
    VL = 8,
    MR = 6, /* 6 x 2 accumulators, 2 operands and a broadcast: 15 of 16 registers */
    NR = 16,
    /* Words of a sum in one round of a tile's loop: with one, counting and moving pointers are a
     * tenth of its instructions. */
    WORDS_A_ROUND = 4,
    ROWS_A_POINTER = 1, /* of a tile's left side */
    ROWS_AHEAD = 0,
    LOW_ROWS = 3, /* of the lowest tile */
    /* Packed rows of x alternate, tile by tile: six rows apart are six streams, which come from the
     * second cache a tenth more slowly than the one of a tile. */
    TURNS_ROWS = 1,
    CUT_WORDS = 2048, /* a sum of more is cut: a panel of it would fill the second cache */
    PACK = 1
};

static inline vec v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

/* VL words from any address. */
static inline vec v_load_words(const void *p)
{
    return _mm256_loadu_ps(p);
}

static inline void v_store(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}

static inline vec v_set1(float x)
{
    return _mm256_set1_ps(x);
}

static inline vec v_zero(void)
{
    return _mm256_setzero_ps();
}

static inline vec v_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec v_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

static inline vec v_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline vec v_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

static inline vec v_sqrt(vec x)
{
    return _mm256_sqrt_ps(x);
}

static inline vec v_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vec v_dot(vec acc, vec a, vec b)
{
    /* In these words, because gcc 12 has a tile's sums change registers in a loop of several words,
     * for which 16 are too few. */
    __asm__("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b));
    return acc;
}

static inline vec v_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

static inline vec v_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}

static inline vec v_abs(vec x)
{
    return _mm256_andnot_ps(v_set1(-0.0F), x);
}

static inline vec v_sign_of(vec x, vec s)
{
    return _mm256_or_ps(v_abs(x), _mm256_and_ps(v_set1(-0.0F), s));
}

static inline vec v_round(vec x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* In two steps, each within the range of an exponent. */
static inline vec v_scale2(vec x, vec n)
{
    const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    const __m256i bias = _mm256_set1_epi32(127), rest = _mm256_sub_epi32(whole, half);
    const __m256i first = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i second = _mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23);
    return v_mul(v_mul(x, _mm256_castsi256_ps(first)), _mm256_castsi256_ps(second));
}

static inline vec v_fma_alternate(vec a, vec b, vec c)
{
    return _mm256_fmaddsub_ps(a, b, c);
}

static inline vec v_swap_pairs(vec x)
{
    return _mm256_permute_ps(x, 0xB1);
}

/* All ones in the lanes whose bit is set. */
static inline __m256i v_lane_mask(uint32_t bits)
{
    const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int32_t)bits), lane), lane);
}

static inline vec v_select(uint32_t bits, vec a, vec b)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(v_lane_mask(bits)));
}

static inline vec v_select_interval(int32_t first, int32_t lo, int32_t hi, vec a, vec b)
{
    const __m256i lane =
        _mm256_add_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), _mm256_set1_epi32(first));
    const __m256i is_before = _mm256_cmpgt_epi32(_mm256_set1_epi32(lo), lane);
    const __m256i is_below = _mm256_cmpgt_epi32(_mm256_set1_epi32(hi), lane);
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(_mm256_andnot_si256(is_before, is_below)));
}

static inline uint32_t v_greater(vec a, vec b)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

static inline vec v_where_greater(vec a, vec b, vec x, vec y)
{
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}

static inline float v_reduce_max(vec x)
{
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_shuffle_ps(y, y, 1)));
}

static inline float v_reduce_add(vec x)
{
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_shuffle_ps(y, y, 1)));
}

static inline uint32_t v_inside(int32_t key, const int32_t *lo, const int32_t *hi)
{
    const __m256i k = _mm256_set1_epi32(key);
    const __m256i below = _mm256_cmpgt_epi32(_mm256_loadu_si256((const __m256i *)lo), k);
    const __m256i above = _mm256_cmpgt_epi32(_mm256_loadu_si256((const __m256i *)hi), k);
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_andnot_si256(below, above)));
}

/* Bit n: no bit of masks[n] is in mask. */
static inline uint32_t v_disjoint(const uint64_t masks[VL], uint64_t mask)
{
    uint32_t bits = 0;
    for (int n = 0; n < VL; n++) bits |= (uint32_t)((masks[n] & mask) == 0) << n;
    return bits;
}

/* 2^(y + lost): a polynomial on [-1/2, 1/2] and the exponent's bits; relative error at most
 * 1.3e-7. Below 2^-126 the result is 0. */
static inline vec v_exp2_sum(vec x, vec lost)
{
    const vec least = v_set1(-126.0F);
    const __m256 is_tiny = _mm256_cmp_ps(x, least, _CMP_LT_OQ);
    const vec y = _mm256_min_ps(v_set1(127.0F), _mm256_max_ps(least, x)); /* NaN passes */
    const vec n = _mm256_round_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const vec f = v_add(v_sub(y, n), lost);
    vec p = v_set1(0.00015345812F);
    p = v_fma(p, f, v_set1(0.0013399931F));
    p = v_fma(p, f, v_set1(0.0096184891F));
    p = v_fma(p, f, v_set1(0.055503286F));
    p = v_fma(p, f, v_set1(0.24022646F));
    p = v_fma(p, f, v_set1(0.69314718F));
    p = v_fma(p, f, v_set1(1.0F));
    const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(p), exponent);
    return _mm256_andnot_ps(is_tiny, _mm256_castsi256_ps(bits));
}

static inline vec v_exp2(vec x)
{
    return v_exp2_sum(x, v_zero());
}

static inline vec v_exp(vec x)
{
    const vec scale = v_set1(1.44269504F), rest = v_set1(1.925963e-8F);
    const vec y = v_mul(x, scale);
    const vec lost = v_fma(x, rest, _mm256_fmsub_ps(x, scale, y));
    /* an infinity lost itself: inf - inf */
    return v_exp2_sum(y, _mm256_and_ps(lost, _mm256_cmp_ps(lost, lost, _CMP_ORD_Q)));
}

static inline vec v_log(vec x)
{
    const __m256i bits = _mm256_castps_si256(x), least = _mm256_set1_epi32(0x3F3504F3);
    const __m256i n = _mm256_srai_epi32(_mm256_sub_epi32(bits, least), 23);
    const vec rest = _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(n, 23)));
    const vec f = v_sub(rest, v_set1(1.0F)), f2 = v_mul(f, f), power = _mm256_cvtepi32_ps(n);
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

static inline void v_store_packed(float *p, vec lo, vec hi)
{
    v_store(p, lo);
    v_store(p + VL, hi);
}

static inline vec v_load_some(const float *p, int64_t count)
{
    return _mm256_maskload_ps(p, v_lane_mask((1U << count) - 1U));
}

static inline void v_store_some(float *p, vec x, int64_t count)
{
    _mm256_maskstore_ps(p, v_lane_mask((1U << count) - 1U), x);
}

/* The first MR lanes. No masks: some processors take dozens of cycles for a masked store. */
static inline void v_store_rows(float *p, vec x)
{
    _mm_storeu_ps(p, _mm256_castps256_ps128(x));
    _mm_storel_pi((__m64 *)(void *)(p + 4), _mm256_extractf128_ps(x, 1));
}

static inline vec v_load_twice(const float *p, int64_t count)
{
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return _mm256_permutevar8x32_ps(v_load_some(p, count), twice);
}

static inline vec v_load_bf16(const uint16_t *p)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

static inline vec v_load_packed_some(const void *p, int64_t count)
{
    uint16_t some[VL] = {0};
    memcpy(some, p, (size_t)count * sizeof some[0]);
    return v_load_bf16(some);
}

static inline void v_store_bf16(uint16_t *p, vec x)
{
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF));
    const __m256 is_nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
    const __m256 rounded = _mm256_castsi256_ps(_mm256_add_epi32(bits, half));
    const __m256 quiet = _mm256_castsi256_ps(_mm256_or_si256(bits, _mm256_set1_epi32(0x400000)));
    const __m256 kept = _mm256_blendv_ps(rounded, quiet, is_nan);
    const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(kept), 16);
    const __m256i packed = _mm256_packus_epi32(high, high);
    const __m256i lower = _mm256_permute4x64_epi64(packed, 0x08);
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(lower));
}

static inline void v_store_bf16_some(uint16_t *p, vec x, int64_t count)
{
    uint16_t all[VL];
    v_store_bf16(all, x);
    memcpy(p, all, (size_t)count * sizeof *p);
}

static inline vec v_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

static inline void v_store_levels(int8_t *p, vec x)
{
    const vec half = v_sign_of(v_set1(0x1.FFFFFEp-2F), x);
    const __m256i whole = _mm256_cvttps_epi32(v_add(x, half));
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(words, words));
}

/* foci_f16_to_float() in lanes: AVX2 says nothing about float16 instructions. */
static inline vec v_widen_f16(__m128i h)
{
    const __m256i x = _mm256_cvtepu16_epi32(h);
    const __m256i rest = x & _mm256_set1_epi32(0x7FFF), bias = _mm256_set1_epi32(112 << 23);
    const __m256i is_odd = _mm256_cmpgt_epi32(rest, _mm256_set1_epi32(0x7BFF));
    const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x400), rest);
    const __m256i normal =
        _mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(rest, 13), bias), is_odd & bias);
    const vec small = v_mul(_mm256_cvtepi32_ps(rest), v_set1(0x1p-24F));
    const __m256i bits = _mm256_blendv_epi8(normal, _mm256_castps_si256(small), is_small);
    const __m256i sign = _mm256_slli_epi32(_mm256_xor_si256(x, rest), 16);
    return _mm256_castsi256_ps(bits | sign);
}

static inline vec v_load_f16(const uint8_t *h)
{
    return v_widen_f16(_mm_loadu_si128((const __m128i *)h));
}

static inline vec v_gather_f16(const char *const place[VL], int64_t offset)
{
    int16_t h[VL];
    for (int n = 0; n < VL; n++) memcpy(&h[n], place[n] + offset, sizeof h[n]);
    return v_widen_f16(_mm_setr_epi16(h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]));
}

static inline vec v_spread_f16(const uint8_t h[2])
{
    return v_set1(foci_f16_to_float((uint16_t)(h[0] | h[1] << 8)));
}

static inline vec v_load_levels(const int8_t *levels)
{
    return v_load_i8(levels);
}

static inline vec v_scale_levels(const int8_t *levels, vec scale)
{
    return v_mul(scale, v_load_i8(levels));
}

static inline void v_transpose(vec r[VL])
{
    vec t[VL];
    for (int n = 0; n < VL; n += 2) {
        t[n] = _mm256_unpacklo_ps(r[n], r[n + 1]);
        t[n + 1] = _mm256_unpackhi_ps(r[n], r[n + 1]);
    }
    for (int n = 0; n < VL; n += 4) {
        r[n] = _mm256_shuffle_ps(t[n], t[n + 2], 0x44);
        r[n + 1] = _mm256_shuffle_ps(t[n], t[n + 2], 0xEE);
        r[n + 2] = _mm256_shuffle_ps(t[n + 1], t[n + 3], 0x44);
        r[n + 3] = _mm256_shuffle_ps(t[n + 1], t[n + 3], 0xEE);
    }
    for (int b = 0; b < 4; b++) {
        t[b] = _mm256_permute2f128_ps(r[b], r[4 + b], 0x20);
        t[4 + b] = _mm256_permute2f128_ps(r[b], r[4 + b], 0x31);
    }
    memcpy(r, t, sizeof t);
}

static inline uint32_t v_odd_floats(vec x)
{
    const __m256i exponent = _mm256_set1_epi32(0x7F800000);
    const __m256i bits = _mm256_and_si256(_mm256_castps_si256(x), exponent);
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(bits, exponent)));
}

/* Turns NR columns of PACK rows into packed words: here the two halves of one row, which they
 * are already. */
static inline void v_zip(vec *lo, vec *hi)
{
    (void)lo;
    (void)hi;
}

/* Not zero when a word holds an infinity or a NaN. */
static inline uint32_t v_odd_words(vec x)
{
    return v_odd_floats(x);
}

static inline vec v_sum_quarters(vec a, vec b, vec c, vec d)
{
    return _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
}

static inline vec v_sum_lanes(const vec q[VL / 4])
{
    return v_add(_mm256_permute2f128_ps(q[0], q[1], 0x20),
                 _mm256_permute2f128_ps(q[0], q[1], 0x31));
}

typedef struct vec_sums {
    __m256d lo, hi;
} vec_sums;

static inline vec_sums v_sums_zero(void)
{
    return (vec_sums){_mm256_setzero_pd(), _mm256_setzero_pd()};
}

static inline vec_sums v_sums_add_squares(vec_sums sums, vec x)
{
    const __m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    const __m256d hi = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    return (vec_sums){_mm256_fmadd_pd(lo, lo, sums.lo), _mm256_fmadd_pd(hi, hi, sums.hi)};
}

static inline void v_sums_store(double p[VL], vec_sums sums)
{
    _mm256_storeu_pd(p, sums.lo);
    _mm256_storeu_pd(p + VL / 2, sums.hi);
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

#endif /* FOCI_SIMD_VEC_AVX2_H */
