#ifdef __AVX512BF16__
/* Attention on AVX-512 with bfloat16 dot products. */
#include "simd/vec_avx512bf16.h"

#include "ops/attn/attn_forward_body.h"

bool foci_attn_avx512bf16_can(const focal_ctx *ctx, const focal_attn_args *args)
{
    const bool is_soft = args->gate && args->gate->kind != FOCAL_GATE_STRAIGHT;
    return foci_on_host(ctx) && foci_has(ctx, FOCI_AVX512BF16) && !is_soft && args->dtype == FOCAL_BF16;
}

focal_status foci_attn_avx512bf16_forward(focal_ctx *ctx, const focal_attn_args *args)
{
    return forward(ctx, args);
}
#endif
