/* What both AVX-512 kernels of dequantisation share: the words that quant_body.h asks for. */
#ifndef FOCI_OPS_QUANT_QUANT_AVX512_H
#define FOCI_OPS_QUANT_QUANT_AVX512_H

#include "simd/vec_avx512_core.h"

static inline void widen(__m128i bytes, vec x[1])
{
    x[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

static inline void spread_pair(const uint8_t h[4], vec x[2])
{
    int32_t halves;
    memcpy(&halves, h, sizeof halves);
    const __m128 both = _mm_maskz_cvtph_ps(15, _mm_cvtsi32_si128(halves));
    x[0] = _mm512_broadcastss_ps(both);
    x[1] = _mm512_broadcastss_ps(_mm_movehdup_ps(both));
}

/* 4-bit levels: the 16 values once, then each where it is needed. */
static inline vec nibble_values(__m128i table, vec scale, vec offset)
{
    vec x;
    widen(table, &x);
    return v_add(v_mul(scale, x), offset);
}

static inline void nibbles_f32(float *to, __m256i nibbles, __m128i table, vec scale, vec offset)
{
    const vec values = nibble_values(table, scale, offset);
    const __m512i low = _mm512_cvtepu8_epi32(_mm256_castsi256_si128(nibbles));
    const __m512i high = _mm512_cvtepu8_epi32(_mm256_extracti128_si256(nibbles, 1));
    v_store(to, _mm512_permutexvar_ps(low, values));
    v_store(to + VL, _mm512_permutexvar_ps(high, values));
}

/* values: 16 bfloat16. */
static inline void pick_bf16(uint16_t *to, __m256i nibbles, __m256i values)
{
    const __m512i table = _mm512_castsi256_si512(values);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(nibbles), table));
}

#endif /* FOCI_OPS_QUANT_QUANT_AVX512_H */
