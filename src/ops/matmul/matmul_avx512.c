#ifdef __AVX512DQ__
/* Products of weights on AVX-512. A wide tile: some processors load one register of 512 bits in a
 * cycle, not two, and 8 x 48 needs 11 of them for 24 multiply-adds, where 12 x 32 needs 14. */
#define FOCI_WIDE_TILE
#include "simd/vec_avx512.h"

#include "ops/matmul/matmul_body.h"

/* Without VNNI there is nothing in the wider registers that bytes would gain. */
#include "ops/matmul/bytes_avx2.h"
#include "ops/matmul/matmul_bytes_body.h"
#include "ops/matmul/matmul_run_body.h"

static bool can_run(const focal_ctx *ctx, const foci_matmul_args *args)
{
    (void)args;
    return foci_on_host(ctx) && foci_has(ctx, FOCI_AVX512);
}

const foci_matmul_kernel foci_matmul_avx512 = {.name = "avx512",
                                               .can = can_run,
                                               .run = run,
                                               .run_bytes = multiply_bytes,
                                               .run_many = multiply_many};
#else
/* Stands in where the compiler has no such instructions. */
#include "ops/matmul/matmul_kernels.h"

const foci_matmul_kernel foci_matmul_avx512 = {
    .name = "avx512", .can = foci_matmul_never_can, .run = foci_matmul_never_run};
#endif
