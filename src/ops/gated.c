/* The first half of a feed-forward layer: its products and the gate, joined where a kernel can. */
#include "ops/gated.h"

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "ops/matmul/matmul_kernels.h"
#include "ops/mlp/gate.h"

enum { APART_ROWS = 256 }; /* of a gate whose products no kernel joins: bounds the scratch */

/* A product to float32, and then the gate: some rows at a time. */
static focal_status gate_apart(focal_ctx *ctx, const foci_matmul_args *args, int32_t count,
                               foci_activation activation)
{
    const int64_t N = args->N, most = foci_min64(args->M, APART_ROWS);
    const int64_t x_step = args->x_is_transposed ? 1 : args->x_stride;
    const size_t x_bytes = (size_t)x_step * focal_dtype_bytes(args->x_dtype);
    const size_t out_bytes = (size_t)args->out_stride * focal_dtype_bytes(args->out_dtype);
    float *sums = foci_scratch(ctx, (size_t)(count * most), (size_t)N * sizeof(float));
    focal_status status = sums ? FOCAL_OK : FOCAL_ENOMEM;
    for (int64_t m = 0; m < args->M && status == FOCAL_OK; m += most) {
        const int64_t rows = foci_min64(args->M - m, most);
        foci_matmul_args part[2];
        for (int32_t n = 0; n < count; n++) {
            part[n] = args[n];
            part[n].M = rows;
            part[n].x = (const char *)args->x + (size_t)m * x_bytes;
            part[n].out = sums + n * most * N;
            part[n].out_dtype = FOCAL_F32;
            part[n].out_stride = N;
        }
        const foci_gate_args gate = {.activation = activation,
                                     .T = (int32_t)rows,
                                     .F = (int32_t)N,
                                     .gate = sums,
                                     .up = count > 1 ? sums + most * N : NULL,
                                     .out = (char *)args->out + (size_t)m * out_bytes,
                                     .out_dtype = args->out_dtype,
                                     .out_stride = args->out_stride};
        status = foci_matmul_several(ctx, part, count);
        if (status == FOCAL_OK) status = foci_gate(ctx, &gate);
    }
    foci_scratch_free(ctx, sums);
    return status;
}

static focal_status check_gated(focal_ctx *ctx, const foci_matmul_args *args, int32_t count,
                                foci_activation activation)
{
    if (count < 1 || count > 2)
        return foci_fail(ctx, FOCAL_EINVAL, "matmul: a gate of %d products, it has 1 or 2", count);
    if (activation < FOCI_SILU || activation > FOCI_GELU_TANH)
        return foci_fail(ctx, FOCAL_EINVAL, "matmul: there is no activation %d", (int)activation);
    for (int32_t n = 0; n < count; n++) {
        foci_matmul_args a = args[n];
        a.out = args->out;
        a.out_dtype = args->out_dtype;
        a.out_stride = args->out_stride;
        FOCAL_TRY(foci_matmul_check(ctx, &a));
        if (a.adds || a.N != args->N || !foci_matmul_share_x(&a, args))
            return foci_fail(ctx, FOCAL_EINVAL,
                             "matmul: products of a gate must have one x and %lld outputs and not "
                             "add to them",
                             (long long)args->N);
    }
    return FOCAL_OK;
}

focal_status foci_matmul_gated(focal_ctx *ctx, const foci_matmul_args *args, int32_t count,
                               foci_activation activation)
{
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(check_gated(ctx, args, count, activation));
    const foci_matmul_kernel *kernel = foci_matmul_pick_many(ctx, args, count);
    if (kernel) return kernel->run_many(ctx, args, count, &activation);
    return gate_apart(ctx, args, count, activation);
}
