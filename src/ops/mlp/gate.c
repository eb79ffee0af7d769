/* Activations and gates: check the call, then run the first kernel that can take it. */
#include "ops/mlp/gate.h"

#include "base/ctx.h"
#include "base/error.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_gate_avx512},
    {"avx2", FOCI_AVX2, foci_gate_avx2},
    {"ref", 0, foci_gate_ref},
};
const foci_rows_op foci_gate_op = {"gate", kernels, FOCAL_COUNT(kernels)};

focal_status foci_gate_normalise(focal_ctx *ctx, const foci_gate_args *args, foci_gate_args *normal)
{
    if (!args || !args->gate || !args->out)
        return foci_fail(ctx, FOCAL_EINVAL, "gate: gate and out must be set");
    *normal = *args;
    if (args->T < 1 || args->F < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "gate: %d rows of %d: both must be at least 1", args->T,
                         args->F);
    if (args->activation < FOCI_SILU || args->activation > FOCI_GELU_TANH)
        return foci_fail(ctx, FOCAL_EINVAL, "gate: there is no activation %d",
                         (int)args->activation);
    FOCAL_TRY(foci_rows_check(ctx, "gate: gate", args->T, args->F, &normal->gate_stride));
    if (args->up) FOCAL_TRY(foci_rows_check(ctx, "gate: up", args->T, args->F, &normal->up_stride));
    FOCAL_TRY(foci_rows_check(ctx, "gate: out", args->T, args->F, &normal->out_stride));
    FOCAL_TRY(foci_rows_check_out(ctx, "gate", args->out, args->out_dtype, normal->out_stride,
                                  args->gate, normal->gate_stride));
    return foci_rows_check_out(ctx, "gate", args->out, args->out_dtype, normal->out_stride,
                               args->up, normal->up_stride);
}

focal_status foci_gate(focal_ctx *ctx, const foci_gate_args *args)
{
    foci_gate_args normal = {0};
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_gate_normalise(ctx, args, &normal));
    return foci_rows_run(ctx, &foci_gate_op, &normal, normal.T, normal.F);
}
