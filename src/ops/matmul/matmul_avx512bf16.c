#ifdef __AVX512BF16__
/* Products of weights on AVX-512 with bfloat16 dot products. */
#include "simd/vec_avx512bf16.h"

#include "ops/matmul/matmul_body.h"

#include "ops/matmul/bytes_avx512.h"
#include "ops/matmul/matmul_bytes_body.h"
#include "ops/matmul/matmul_run_body.h"

static bool can_run(const focal_ctx *ctx, const foci_matmul_args *args)
{
    return foci_on_host(ctx) && foci_has(ctx, FOCI_AVX512BF16) &&
           (args->x_dtype == FOCAL_BF16 || foci_takes_bytes(args));
}

const foci_matmul_kernel foci_matmul_avx512bf16 = {.name = "avx512bf16",
                                                   .can = can_run,
                                                   .run = run,
                                                   .run_bytes = multiply_bytes,
                                                   .run_many = multiply_many,
                                                   .reads_interleaved = true};
#else
/* Stands in where the compiler has no such instructions. */
#include "ops/matmul/matmul_kernels.h"

const foci_matmul_kernel foci_matmul_avx512bf16 = {
    .name = "avx512bf16", .can = foci_matmul_never_can, .run = foci_matmul_never_run};
#endif
