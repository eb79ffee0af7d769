/* Norms: check the call, then run the first kernel that can take it. */
#include "ops/norm/norm.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_norm_avx512},
    {"avx2", FOCI_AVX2, foci_norm_avx2},
    {"ref", 0, foci_norm_ref},
};
const foci_rows_op foci_norm_op = {"norm", kernels, FOCAL_COUNT(kernels)};

focal_status foci_norm_normalise(focal_ctx *ctx, const foci_norm_args *args, foci_norm_args *normal)
{
    if (!args || !args->x || !args->out)
        return foci_fail(ctx, FOCAL_EINVAL, "norm: x and out must be set");
    *normal = *args;
    if (normal->H == 0) normal->H = 1;
    if (args->T < 1 || normal->H < 1 || args->width < 1)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "norm: %d tokens of %d rows of %d: each must be at least 1", args->T,
                         args->H, args->width);
    if (args->kind != FOCI_NORM_RMS && args->kind != FOCI_NORM_LAYER)
        return foci_fail(ctx, FOCAL_EINVAL, "norm: there is no kind %d", (int)args->kind);
    if (!(args->epsilon >= 0.0F) || !isfinite(args->epsilon))
        return foci_fail(ctx, FOCAL_EINVAL, "norm: epsilon is %g, it must be 0 or more",
                         (double)args->epsilon);
    const int64_t wide = (int64_t)normal->H * args->width;
    FOCAL_TRY(foci_rows_check(ctx, "norm: x", args->T, wide, &normal->x_stride));
    FOCAL_TRY(foci_rows_check(ctx, "norm: out", args->T, wide, &normal->out_stride));
    return foci_rows_check_out(ctx, "norm", args->out, args->out_dtype, normal->out_stride, args->x,
                               normal->x_stride);
}

focal_status foci_norm(focal_ctx *ctx, const foci_norm_args *args)
{
    foci_norm_args normal = {0};
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_norm_normalise(ctx, args, &normal));
    return foci_rows_run(ctx, &foci_norm_op, &normal, (int64_t)normal.T * normal.H, normal.width);
}
