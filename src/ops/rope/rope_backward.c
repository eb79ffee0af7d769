/* The gradient of the rotation: check the call, then run the first kernel that can take it. */
#include "ops/rope/rope_backward.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_rope_backward_avx512},
    {"avx2", FOCI_AVX2, foci_rope_backward_avx2},
    {"ref", 0, foci_rope_backward_ref},
};
const foci_rows_op foci_rope_backward_op = {"rope_backward", kernels, FOCAL_COUNT(kernels)};

static focal_status check_shape(focal_ctx *ctx, const foci_rope_backward_args *a)
{
    if (a->T < 1 || a->H < 1 || a->D < 1)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "rope backward: %d tokens of %d heads of %d: each must be at least 1",
                         a->T, a->H, a->D);
    if (a->rotated < 0 || a->rotated % 2 != 0 || a->rotated > a->D)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "rope backward: the rotated width is %d, it must be even and 0 to %d",
                         a->rotated, a->D);
    if (a->style != FOCI_ROPE_HALVES && a->style != FOCI_ROPE_PAIRS)
        return foci_fail(ctx, FOCAL_EINVAL, "rope backward: there is no style %d", (int)a->style);
    if (!isfinite(a->scale))
        return foci_fail(ctx, FOCAL_EINVAL, "rope backward: the scale must be a finite number");
    return FOCAL_OK;
}

focal_status foci_rope_backward_normalise(focal_ctx *ctx, const foci_rope_backward_args *args,
                                          foci_rope_backward_args *normal)
{
    if (!args || (args->rotated != 0 && (!args->cos || !args->sin)) || !args->dout || !args->dx)
        return foci_fail(ctx, FOCAL_EINVAL, "rope backward: cos, sin, dout and dx must be set");
    if (!args->out != !args->dots)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "rope backward: out and dots must both be set, or none");
    *normal = *args;
    if (!args->out) normal->out_stride = 0; /* whatever it is, nothing is there */
    FOCAL_TRY(check_shape(ctx, args));
    if (normal->scale == 0.0F) normal->scale = 1.0F;
    const int64_t wide = (int64_t)args->H * args->D;
    FOCAL_TRY(foci_rows_check(ctx, "rope backward: dout", args->T, wide, &normal->dout_stride));
    FOCAL_TRY(foci_rows_check(ctx, "rope backward: dx", args->T, wide, &normal->dx_stride));
    if (args->out)
        FOCAL_TRY(foci_rows_check(ctx, "rope backward: out", args->T, wide, &normal->out_stride));
    if (args->dout_dtype != FOCAL_F32 && args->dout_dtype != FOCAL_BF16)
        return foci_fail(ctx, FOCAL_EINVAL, "rope backward: dout is %s, it must be f32 or bf16",
                         focal_dtype_name(args->dout_dtype));
    if (args->dx == args->dout &&
        (args->dx_dtype != args->dout_dtype || normal->dx_stride != normal->dout_stride))
        return foci_fail(
            ctx, FOCAL_EINVAL,
            "rope backward: in place, dx must have the type and the stride %lld of dout",
            (long long)normal->dout_stride);
    return foci_rows_check_out(ctx, "rope backward: dx", args->dx, args->dx_dtype,
                               normal->dx_stride, NULL, 0);
}

focal_status foci_rope_backward(focal_ctx *ctx, const foci_rope_backward_args *args)
{
    foci_rope_backward_args normal = {0};
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_rope_backward_normalise(ctx, args, &normal));
    return foci_rows_run(ctx, &foci_rope_backward_op, &normal, normal.T,
                         (int64_t)normal.H * normal.D);
}
