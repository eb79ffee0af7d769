/* The gradient of gates: check the call, then run the first kernel that can take it. */
#include "ops/mlp/gate_backward.h"

#include "base/ctx.h"
#include "base/error.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_gate_backward_avx512},
    {"avx2", FOCI_AVX2, foci_gate_backward_avx2},
    {"ref", 0, foci_gate_backward_ref},
};
const foci_rows_op foci_gate_backward_op = {"gate_backward", kernels, FOCAL_COUNT(kernels)};

/* One of the three results, which may lie where an input lies. */
static focal_status check_result(focal_ctx *ctx, const char *what, const void *out,
                                 focal_dtype dtype, int64_t *stride,
                                 const foci_gate_backward_args *a)
{
    if (!out) return FOCAL_OK;
    FOCAL_TRY(foci_rows_check(ctx, what, a->T, a->F, stride));
    FOCAL_TRY(foci_rows_check_out(ctx, what, out, dtype, *stride, a->gate, a->gate_stride));
    FOCAL_TRY(foci_rows_check_out(ctx, what, out, dtype, *stride, a->up, a->up_stride));
    return foci_rows_check_out(ctx, what, out, dtype, *stride, a->dout, a->dout_stride);
}

focal_status foci_gate_backward_normalise(focal_ctx *ctx, const foci_gate_backward_args *args,
                                          foci_gate_backward_args *normal)
{
    if (!args || !args->gate || !args->dout || !args->dgate)
        return foci_fail(ctx, FOCAL_EINVAL, "gate backward: gate, dout and dgate must be set");
    if (!args->up != !args->dup)
        return foci_fail(ctx, FOCAL_EINVAL, "gate backward: up and dup must both be set, or none");
    *normal = *args;
    if (args->T < 1 || args->F < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "gate backward: %d rows of %d: both must be at least 1",
                         args->T, args->F);
    if (args->activation < FOCI_SILU || args->activation > FOCI_GELU_TANH)
        return foci_fail(ctx, FOCAL_EINVAL, "gate backward: there is no activation %d",
                         (int)args->activation);
    FOCAL_TRY(foci_rows_check(ctx, "gate backward: gate", args->T, args->F, &normal->gate_stride));
    if (args->up)
        FOCAL_TRY(foci_rows_check(ctx, "gate backward: up", args->T, args->F, &normal->up_stride));
    FOCAL_TRY(foci_rows_check(ctx, "gate backward: dout", args->T, args->F, &normal->dout_stride));
    FOCAL_TRY(check_result(ctx, "gate backward: dgate", args->dgate, args->dtype,
                           &normal->dgate_stride, normal));
    FOCAL_TRY(check_result(ctx, "gate backward: dup", args->dup, args->dtype, &normal->dup_stride,
                           normal));
    return check_result(ctx, "gate backward: hidden", args->hidden, args->hidden_dtype,
                        &normal->hidden_stride, normal);
}

focal_status foci_gate_backward(focal_ctx *ctx, const foci_gate_backward_args *args)
{
    foci_gate_backward_args normal = {0};
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_gate_backward_normalise(ctx, args, &normal));
    return foci_rows_run(ctx, &foci_gate_backward_op, &normal, normal.T, normal.F);
}
