/* Stands in where focal is built without oneDNN: never chosen. */
#include "ops/matmul/matmul_kernels.h"

bool foci_matmul_onednn_can(const focal_ctx *ctx, const foci_matmul_args *args)
{
    (void)ctx;
    (void)args;
    return false;
}

focal_status foci_matmul_onednn_run(focal_ctx *ctx, const foci_matmul_args *args)
{
    return foci_matmul_ref_run(ctx, args);
}
