#ifdef __AVX512DQ__
/* Attention on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/attn/attn_attend_body.h"
#include "ops/attn/attn_backward_pairs_body.h"

#include "ops/attn/attn_backward_body.h"
#include "ops/attn/attn_decode_body.h"

bool foci_attn_avx512_can(const focal_ctx *ctx, const focal_attn_args *args)
{
    (void)args;
    return foci_on_host(ctx) && foci_has(ctx, FOCI_AVX512);
}

focal_status foci_attn_avx512_forward(focal_ctx *ctx, const focal_attn_args *args)
{
    return forward(ctx, args, &float_levels);
}

focal_status foci_attn_avx512_backward(focal_ctx *ctx, const focal_attn_args *args,
                                       const focal_attn_grads *grads)
{
    return backward(ctx, args, grads);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/attn/attn_kernels.h"

bool foci_attn_avx512_can(const focal_ctx *ctx, const focal_attn_args *args)
{
    (void)ctx;
    (void)args;
    return false;
}

focal_status foci_attn_avx512_forward(focal_ctx *ctx, const focal_attn_args *args)
{
    return foci_attn_ref_forward(ctx, args);
}

focal_status foci_attn_avx512_backward(focal_ctx *ctx, const focal_attn_args *args,
                                       const focal_attn_grads *grads)
{
    return foci_attn_ref_backward(ctx, args, grads);
}
#endif
