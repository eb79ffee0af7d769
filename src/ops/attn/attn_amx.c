#if defined(__AMX_BF16__) || defined(__AMXBF16__)
/* Attention on AMX tiles, and on the bfloat16 dot products where there are too few queries. */
#include "simd/vec_avx512bf16.h"

#include "ops/attn/attn_attend_amx.h"
#include "ops/attn/attn_backward_amx.h"

#include "ops/attn/attn_backward_body.h"
#include "ops/attn/attn_decode_body.h"
#include "ops/attn/attn_decode_q8_vnni.h"

bool foci_attn_amx_can(const focal_ctx *ctx, const focal_attn_args *args)
{
    /* A straight-through gate changes nothing forward; the others need overlaps, in floats. */
    return foci_on_host(ctx) && foci_has(ctx, FOCI_AMX) && args->dtype == FOCAL_BF16 &&
           (!args->gate || args->gate->kind == FOCAL_GATE_STRAIGHT);
}

focal_status foci_attn_amx_forward(focal_ctx *ctx, const focal_attn_args *args)
{
    return forward(ctx, args, &integer_levels);
}

focal_status foci_attn_amx_backward(focal_ctx *ctx, const focal_attn_args *args,
                                    const focal_attn_grads *grads)
{
    return backward(ctx, args, grads);
}
#else
/* Stands in where the compiler has no tiles: never chosen. */
#include "ops/attn/attn_kernels.h"

bool foci_attn_amx_can(const focal_ctx *ctx, const focal_attn_args *args)
{
    (void)ctx;
    (void)args;
    return false;
}

focal_status foci_attn_amx_forward(focal_ctx *ctx, const focal_attn_args *args)
{
    return foci_attn_ref_forward(ctx, args);
}

focal_status foci_attn_amx_backward(focal_ctx *ctx, const focal_attn_args *args,
                                    const focal_attn_grads *grads)
{
    return foci_attn_ref_backward(ctx, args, grads);
}
#endif
