#ifdef __AVX512DQ__
/* Products of weights on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/matmul/matmul_body.h"

bool foci_matmul_avx512_can(const focal_ctx *ctx, const foci_matmul_args *args)
{
    return foci_on_host(ctx) && foci_has(ctx, FOCI_AVX512) && args->x_dtype != FOCAL_Q8_0;
}

focal_status foci_matmul_avx512_run(focal_ctx *ctx, const foci_matmul_args *args)
{
    return multiply(ctx, args);
}
#else
/* Stands in where the compiler has no such instructions: never chosen. */
#include "ops/matmul/matmul_kernels.h"

bool foci_matmul_avx512_can(const focal_ctx *ctx, const foci_matmul_args *args)
{
    (void)ctx;
    (void)args;
    return false;
}

focal_status foci_matmul_avx512_run(focal_ctx *ctx, const foci_matmul_args *args)
{
    return foci_matmul_ref_run(ctx, args);
}
#endif
