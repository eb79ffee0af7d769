/* Gradients of losses: check the call, then run the first kernel that can take it. */
#include "ops/loss/loss_backward.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"
#include "ops/loss/loss.h"

static const foci_rows_kernel loss_kernels[] = {
    {"avx512", FOCI_AVX512, foci_loss_backward_avx512},
    {"avx2", FOCI_AVX2, foci_loss_backward_avx2},
    {"ref", 0, foci_loss_backward_ref},
};
const foci_rows_op foci_loss_backward_op = {"loss_backward", loss_kernels,
                                            FOCAL_COUNT(loss_kernels)};

static const foci_rows_kernel kl_kernels[] = {
    {"avx512", FOCI_AVX512, foci_kl_avx512},
    {"avx2", FOCI_AVX2, foci_kl_avx2},
    {"ref", 0, foci_kl_ref},
};
const foci_rows_op foci_kl_op = {"kl", kl_kernels, FOCAL_COUNT(kl_kernels)};

static focal_status check_numbers(focal_ctx *ctx, const char *op, double scale, double z,
                                  float soft_cap)
{
    if (!isfinite(scale))
        return foci_fail(ctx, FOCAL_EINVAL, "%s: the scale is %g, it must be finite", op, scale);
    if (!isfinite(z) || z < 0.0)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: z is %g, it must be 0 or above", op, z);
    if (!isfinite(soft_cap) || soft_cap < 0.0F)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: the soft-cap is %g, it must be 0 or above", op,
                         (double)soft_cap);
    return FOCAL_OK;
}

static focal_status check_targets(focal_ctx *ctx, const foci_loss_backward_args *a)
{
    for (int32_t t = 0; t < a->T; t++)
        if (a->targets[t] != FOCI_LOSS_NO_TARGET && (a->targets[t] < 0 || a->targets[t] >= a->V))
            return foci_fail(ctx, FOCAL_EINVAL,
                             "loss_backward: the target of row %d is %d, it must be %d or below %d",
                             t, a->targets[t], FOCI_LOSS_NO_TARGET, a->V);
    return FOCAL_OK;
}

focal_status foci_loss_backward_normalise(focal_ctx *ctx, const foci_loss_backward_args *args,
                                          foci_loss_backward_args *normal)
{
    if (!args || !args->logits || !args->targets || !args->dlogits)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "loss_backward: logits, targets and dlogits must be set");
    *normal = *args;
    if (args->T < 1 || args->V < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "loss_backward: %d rows of %d: both must be at least 1",
                         args->T, args->V);
    FOCAL_TRY(check_numbers(ctx, "loss_backward", args->scale, args->z, args->soft_cap));
    FOCAL_TRY(
        foci_rows_check(ctx, "loss_backward: logits", args->T, args->V, &normal->logits_stride));
    FOCAL_TRY(
        foci_rows_check(ctx, "loss_backward: dlogits", args->T, args->V, &normal->dlogits_stride));
    FOCAL_TRY(foci_rows_check_out(ctx, "loss_backward", args->dlogits, args->dlogits_dtype,
                                  normal->dlogits_stride, args->logits, normal->logits_stride));
    return check_targets(ctx, args);
}

focal_status foci_loss_backward(focal_ctx *ctx, const foci_loss_backward_args *args)
{
    foci_loss_backward_args normal = {0};
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_loss_backward_normalise(ctx, args, &normal));
    return foci_rows_run(ctx, &foci_loss_backward_op, &normal, normal.T, normal.V);
}

focal_status foci_kl_normalise(focal_ctx *ctx, const foci_kl_args *args, foci_kl_args *normal)
{
    if (!args || !args->teacher || !args->student || !args->dlogits)
        return foci_fail(ctx, FOCAL_EINVAL, "kl: teacher, student and dlogits must be set");
    *normal = *args;
    if (args->T < 1 || args->V < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "kl: %d rows of %d: both must be at least 1", args->T,
                         args->V);
    if (args->dlogits == (const void *)args->teacher)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "kl: dlogits may be the student's logits, not the "
                         "teacher's");
    FOCAL_TRY(check_numbers(ctx, "kl", args->scale, 0.0, args->soft_cap));
    FOCAL_TRY(foci_rows_check(ctx, "kl: teacher", args->T, args->V, &normal->teacher_stride));
    FOCAL_TRY(foci_rows_check(ctx, "kl: student", args->T, args->V, &normal->student_stride));
    FOCAL_TRY(foci_rows_check(ctx, "kl: dlogits", args->T, args->V, &normal->dlogits_stride));
    return foci_rows_check_out(ctx, "kl", args->dlogits, args->dlogits_dtype,
                               normal->dlogits_stride, args->student, normal->student_stride);
}

focal_status foci_kl_backward(focal_ctx *ctx, const foci_kl_args *args)
{
    foci_kl_args normal = {0};
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_kl_normalise(ctx, args, &normal));
    return foci_rows_run(ctx, &foci_kl_op, &normal, normal.T, normal.V);
}
