#ifdef __AVX2__
/* Products of weights on AVX2. */
#define FOCI_HAS_LEVELS
#include "simd/vec_avx2.h"

#include "ops/matmul/matmul_body.h"

#include "ops/matmul/bytes_avx2.h"
#include "ops/matmul/matmul_bytes_body.h"
#include "ops/matmul/matmul_run_body.h"

static bool can_run(const focal_ctx *ctx, const foci_matmul_args *args)
{
    (void)args;
    return foci_on_host(ctx) && foci_has(ctx, FOCI_AVX2);
}

const foci_matmul_kernel foci_matmul_avx2 = {.name = "avx2",
                                             .can = can_run,
                                             .run = run,
                                             .run_bytes = multiply_bytes,
                                             .run_many = multiply_many,
                                             .has_levels = HAS_LEVELS};
#else
/* Stands in where the compiler has no such instructions. */
#include "ops/matmul/matmul_kernels.h"

const foci_matmul_kernel foci_matmul_avx2 = {
    .name = "avx2", .can = foci_matmul_never_can, .run = foci_matmul_never_run};
#endif
