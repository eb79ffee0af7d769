/* AVX-512 with bfloat16 dot products, packed words of two bfloat16: twice the rate. */
#ifndef FOCI_SIMD_VEC_AVX512BF16_H
#define FOCI_SIMD_VEC_AVX512BF16_H

#include "simd/vec_avx512_core.h"

enum { PACK = 2 };

/* acc + a0 b0 + a1 b1, lane by lane; the products are exact, sums are float32. */
static inline vec v_dot(vec acc, vec a, vec b)
{
    return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
}

static inline void v_store_packed(float *p, vec lo, vec hi)
{
    _mm512_storeu_ps(p, (__m512)_mm512_cvtne2ps_pbh(hi, lo));
}

/* The first `count` (fewer than VL PACK) bfloat16 from any address as packed words, zeros behind
 * them; reads no further. */
static inline vec v_load_packed_some(const void *p, int64_t count)
{
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16((1U << count) - 1U, p));
}

/* VL packed words: levels as they are, which is exact, and times their scale, rounded. (The
 * conversion takes subnormal numbers for zero; products of a float16 are none.) */
static inline vec v_load_levels(const int8_t *levels)
{
    return (vec)_mm512_cvtne2ps_pbh(v_load_i8(levels + VL), v_load_i8(levels));
}

static inline vec v_scale_levels(const int8_t *levels, vec scale)
{
    const vec lo = v_mul(scale, v_load_i8(levels)), hi = v_mul(scale, v_load_i8(levels + VL));
    return (vec)_mm512_cvtne2ps_pbh(hi, lo);
}

/* Turns NR columns of PACK rows into packed words: here 32 columns of two rows, and a word gets one
 * element of each. */
static inline void v_zip(vec *a, vec *b)
{
    const __m512i first =
        _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6,
                         37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
    const __m512i x = _mm512_castps_si512(*a), y = _mm512_castps_si512(*b);
    *a = _mm512_castsi512_ps(_mm512_permutex2var_epi16(x, first, y));
    *b = _mm512_castsi512_ps(_mm512_permutex2var_epi16(x, second, y));
}

/* Not zero when a word holds an infinity or a NaN. */
static inline uint32_t v_odd_words(vec x)
{
    const __m512i exponent = _mm512_set1_epi16(0x7F80);
    const __m512i bits = _mm512_and_si512(_mm512_castps_si512(x), exponent);
    return _mm512_cmpeq_epi16_mask(bits, exponent);
}

#endif /* FOCI_SIMD_VEC_AVX512BF16_H */
