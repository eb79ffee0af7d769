/* The gradient of norms: check the call, run pieces of rows, join their sums in order. */
#include "ops/norm/norm_backward.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_norm_backward_avx512},
    {"avx2", FOCI_AVX2, foci_norm_backward_avx2},
    {"ref", 0, foci_norm_backward_ref},
};
const foci_rows_op foci_norm_backward_op = {"norm_backward", kernels, FOCAL_COUNT(kernels)};

focal_status foci_norm_backward_normalise(focal_ctx *ctx, const foci_norm_backward_args *args,
                                          foci_norm_backward_args *normal)
{
    if (!args || !args->x || !args->dy || (!args->dx && !args->dweight && !args->dbias))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "norm backward: x, dy and one of dx, dweight and dbias must be set");
    *normal = *args;
    if (normal->H == 0) normal->H = 1;
    if (args->T < 1 || normal->H < 1 || args->width < 1)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "norm backward: %d tokens of %d rows of %d: each must be at least 1",
                         args->T, args->H, args->width);
    if (args->kind != FOCI_NORM_RMS && args->kind != FOCI_NORM_LAYER)
        return foci_fail(ctx, FOCAL_EINVAL, "norm backward: there is no kind %d", (int)args->kind);
    if (!(args->epsilon >= 0.0F) || !isfinite(args->epsilon))
        return foci_fail(ctx, FOCAL_EINVAL, "norm backward: epsilon is %g, it must be 0 or more",
                         (double)args->epsilon);
    const int64_t wide = (int64_t)normal->H * args->width;
    FOCAL_TRY(foci_rows_check(ctx, "norm backward: x", args->T, wide, &normal->x_stride));
    FOCAL_TRY(foci_rows_check(ctx, "norm backward: dy", args->T, wide, &normal->dy_stride));
    if (!args->dx) return FOCAL_OK;
    FOCAL_TRY(foci_rows_check(ctx, "norm backward: dx", args->T, wide, &normal->dx_stride));
    return foci_rows_check_out(ctx, "norm backward", args->dx, FOCAL_F32, normal->dx_stride,
                               args->dy, normal->dy_stride);
}

focal_status foci_norm_backward_by(focal_ctx *ctx, const foci_rows_kernel *kernel,
                                   const foci_norm_backward_args *normal)
{
    const int64_t rows = (int64_t)normal->T * normal->H, width = normal->width;
    foci_norm_backward_call call = {*normal, foci_rows_sum_piece(rows, width), NULL, NULL};
    const int64_t pieces = foci_pieces(rows, call.piece);
    const int sums = (normal->dweight != NULL) + (normal->dbias != NULL);
    float *scratch = NULL;
    if (sums > 0) {
        scratch = foci_scratch(ctx, (size_t)(pieces * width), (size_t)sums * sizeof *scratch);
        if (!scratch) return FOCAL_ENOMEM;
        call.dweights = normal->dweight ? scratch : NULL;
        call.dbiases = normal->dbias ? scratch + (sums - 1) * pieces * width : NULL;
    }
    foci_rows_spread_by(ctx, kernel, &call, rows, call.piece);
    if (normal->dweight) foci_rows_join(ctx, call.dweights, pieces, width, normal->dweight);
    if (normal->dbias) foci_rows_join(ctx, call.dbiases, pieces, width, normal->dbias);
    foci_scratch_free(ctx, scratch);
    return FOCAL_OK;
}

focal_status foci_norm_backward(focal_ctx *ctx, const foci_norm_backward_args *args)
{
    foci_norm_backward_args normal = {0};
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_norm_backward_normalise(ctx, args, &normal));
    const foci_rows_kernel *kernel = foci_rows_pick(ctx, &foci_norm_backward_op);
    if (!kernel) return foci_rows_cannot(ctx, &foci_norm_backward_op);
    return foci_norm_backward_by(ctx, kernel, &normal);
}
