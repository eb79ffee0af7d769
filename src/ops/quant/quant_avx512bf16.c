#ifdef __AVX512BF16__
/* Dequantisation on AVX-512 with bfloat16 conversions, which round as we do but take subnormal
 * numbers for zero. */
#include "ops/quant/quant_avx512.h"

static inline void store32_bf16(uint16_t *to, const vec x[2])
{
    const __m512bh both = _mm512_cvtne2ps_pbh(x[1], x[0]);
    memcpy(to, &both, sizeof both);
}

static inline void nibbles_bf16(uint16_t *to, __m256i nibbles, __m128i table, vec scale, vec offset)
{
    pick_bf16(to, nibbles, (__m256i)_mm512_cvtneps_pbh(nibble_values(table, scale, offset)));
}

#include "ops/quant/quant_body.h"

bool foci_quant_avx512bf16_can(const focal_ctx *ctx)
{
    return foci_on_host(ctx) && foci_has(ctx, FOCI_AVX512 | FOCI_AVX512BF16);
}

void foci_quant_avx512bf16_to_f32(focal_dtype dtype, const void *from, int64_t count, float *to)
{
    expand(TO_F32, dtype, from, count, to);
}

void foci_quant_avx512bf16_to_bf16(focal_dtype dtype, const void *from, int64_t count, uint16_t *to)
{
    expand(TO_BF16, dtype, from, count, to);
}
#else
/* Stands in where the compiler has no AVX-512 with bfloat16: never chosen. */
#include "ops/quant/quant_kernels.h"

bool foci_quant_avx512bf16_can(const focal_ctx *ctx)
{
    (void)ctx;
    return false;
}

void foci_quant_avx512bf16_to_f32(focal_dtype dtype, const void *from, int64_t count, float *to)
{
    foci_quant_ref_to_f32(dtype, from, count, to);
}

void foci_quant_avx512bf16_to_bf16(focal_dtype dtype, const void *from, int64_t count, uint16_t *to)
{
    foci_quant_ref_to_bf16(dtype, from, count, to);
}
#endif
