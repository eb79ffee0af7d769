#ifdef __AVX2__
/* Dequantisation on AVX2. */
#include "simd/vec_avx2.h"

static inline void widen(__m128i bytes, vec x[2])
{
    x[0] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    x[1] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes)));
}

static inline void spread_pair(const uint8_t h[4], vec x[2])
{
    x[0] = v_spread_f16(h);
    x[1] = v_spread_f16(h + 2);
}

static inline void store32_bf16(uint16_t *to, const vec x[4])
{
    for (int64_t n = 0; n < 4; n++) v_store_bf16(to + VL * n, x[n]);
}

static inline void scale_nibbles(__m256i nibbles, __m128i table, vec scale, vec offset, vec x[4])
{
    const __m256i levels = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), nibbles);
    widen(_mm256_castsi256_si128(levels), x);
    widen(_mm256_extracti128_si256(levels, 1), x + 2);
    for (int n = 0; n < 4; n++) x[n] = v_add(v_mul(scale, x[n]), offset);
}

static inline void nibbles_f32(float *to, __m256i nibbles, __m128i table, vec scale, vec offset)
{
    vec x[4];
    scale_nibbles(nibbles, table, scale, offset, x);
    for (int64_t n = 0; n < 4; n++) v_store(to + VL * n, x[n]);
}

static inline void nibbles_bf16(uint16_t *to, __m256i nibbles, __m128i table, vec scale, vec offset)
{
    vec x[4];
    scale_nibbles(nibbles, table, scale, offset, x);
    store32_bf16(to, x);
}

#include "ops/quant/quant_body.h"

bool foci_quant_avx2_can(const focal_ctx *ctx)
{
    return foci_on_host(ctx) && foci_has(ctx, FOCI_AVX2);
}

void foci_quant_avx2_to_f32(focal_dtype dtype, const void *from, int64_t count, float *to)
{
    expand(TO_F32, dtype, from, count, to);
}

void foci_quant_avx2_to_bf16(focal_dtype dtype, const void *from, int64_t count, uint16_t *to)
{
    expand(TO_BF16, dtype, from, count, to);
}
#else
/* Stands in where the compiler has no AVX2: never chosen. */
#include "ops/quant/quant_kernels.h"

bool foci_quant_avx2_can(const focal_ctx *ctx)
{
    (void)ctx;
    return false;
}

void foci_quant_avx2_to_f32(focal_dtype dtype, const void *from, int64_t count, float *to)
{
    foci_quant_ref_to_f32(dtype, from, count, to);
}

void foci_quant_avx2_to_bf16(focal_dtype dtype, const void *from, int64_t count, uint16_t *to)
{
    foci_quant_ref_to_bf16(dtype, from, count, to);
}
#endif
