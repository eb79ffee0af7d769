#ifdef __AMX_BF16__
/* Attention forward on AMX tiles; a few queries and backward are those of the bfloat16 dot
 * products. */
#include "simd/vec_avx512bf16.h"

#include "ops/attn/attn_attend_amx.h"
#include "ops/attn/attn_decode_body.h"
#include "ops/attn/attn_decode_q8_vnni.h"

bool foci_attn_amx_can(const focal_ctx *ctx, const focal_attn_args *args)
{
    return foci_has(ctx, FOCI_AMX) && foci_attn_avx512bf16_can(ctx, args);
}

focal_status foci_attn_amx_forward(focal_ctx *ctx, const focal_attn_args *args)
{
    return forward(ctx, args, &integer_levels);
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
#endif
