#ifdef __AVX2__
/* Attention on AVX2. */
#include "simd/vec_avx2.h"

#include "ops/attn/attn_forward_body.h"

bool foci_attn_avx2_can(const focal_ctx *ctx, const focal_attn_args *args)
{
    const bool is_soft = args->gate && args->gate->kind != FOCAL_GATE_STRAIGHT;
    return foci_on_host(ctx) && foci_has(ctx, FOCI_AVX2) && !is_soft;
}

focal_status foci_attn_avx2_forward(focal_ctx *ctx, const focal_attn_args *args)
{
    return forward(ctx, args);
}
#endif
