#ifdef __AVX2__
/* Products of weights on AVX2. */
#include "simd/vec_avx2.h"

#include "ops/matmul/matmul_body.h"

#include "ops/matmul/bytes_avx2.h"
#include "ops/matmul/matmul_bytes_body.h"

bool foci_matmul_avx2_can(const focal_ctx *ctx, const foci_matmul_args *args)
{
    (void)args;
    return foci_on_host(ctx) && foci_has(ctx, FOCI_AVX2);
}

focal_status foci_matmul_avx2_run(focal_ctx *ctx, const foci_matmul_args *args)
{
    return foci_takes_bytes(args) ? multiply_bytes(ctx, args, 1) : multiply(ctx, args);
}

focal_status foci_matmul_avx2_bytes(focal_ctx *ctx, const foci_matmul_args *args, int32_t count)
{
    return multiply_bytes(ctx, args, count);
}

focal_status foci_matmul_avx2_many(focal_ctx *ctx, const foci_matmul_args *args, int32_t count,
                                   const foci_activation *activation)
{
    return multiply_many(ctx, args, count, activation);
}
#else
/* Stands in where the compiler has no such instructions: never chosen. */
#include "ops/matmul/matmul_kernels.h"

bool foci_matmul_avx2_can(const focal_ctx *ctx, const foci_matmul_args *args)
{
    (void)ctx;
    (void)args;
    return false;
}

focal_status foci_matmul_avx2_run(focal_ctx *ctx, const foci_matmul_args *args)
{
    return foci_matmul_ref_run(ctx, args);
}

focal_status foci_matmul_avx2_bytes(focal_ctx *ctx, const foci_matmul_args *args, int32_t count)
{
    (void)count;
    return foci_matmul_ref_run(ctx, args);
}

focal_status foci_matmul_avx2_many(focal_ctx *ctx, const foci_matmul_args *args, int32_t count,
                                   const foci_activation *activation)
{
    (void)count;
    (void)activation;
    return foci_matmul_ref_run(ctx, args);
}
#endif
