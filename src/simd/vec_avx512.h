/* AVX-512, packed words of one float: products in float32. */
#ifndef FOCI_SIMD_VEC_AVX512_H
#define FOCI_SIMD_VEC_AVX512_H

#include "simd/vec_avx512_core.h"

enum { PACK = 1 }; /* elements in a packed word */

/* acc + a b, lane by lane. */
static inline vec v_dot(vec acc, vec a, vec b)
{
    return _mm512_fmadd_ps(a, b, acc);
}

/* Stores the NR elements of a row of a register tile as packed words. */
static inline void v_store_packed(float *p, vec lo, vec hi)
{
    v_store(p, lo);
    v_store(p + VL, hi);
}

/* The first `count` (fewer than VL PACK) bfloat16 from any address as packed words, zeros behind
 * them; reads no further. */
static inline vec v_load_packed_some(const void *p, int64_t count)
{
    const __m256i some = _mm256_maskz_loadu_epi16((__mmask16)((1U << count) - 1U), p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(some), 16));
}

/* VL packed words: levels as they are, and times their scale. */
static inline vec v_load_levels(const int8_t *levels)
{
    return v_load_i8(levels);
}

static inline vec v_scale_levels(const int8_t *levels, vec scale)
{
    return v_mul(scale, v_load_i8(levels));
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

#endif /* FOCI_SIMD_VEC_AVX512_H */
