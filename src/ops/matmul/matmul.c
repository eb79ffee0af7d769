/* Products of weights: check the call, then run the first kernel that can take it. */
#include "ops/matmul/matmul.h"

#include "base/ctx.h"
#include "base/error.h"
#include "ops/interleave.h"
#include "ops/matmul/bytes.h"
#include "ops/matmul/matmul_kernels.h"

/* oneDNN stands behind our own kernels: measured from 96 to 512 rows it takes between 4 % less and
 * 14 % more time, 63 % more for float32 at K = 1536, and its bits change with the number of rows.
 * It serves machines that have no vector kernel here. */
const foci_matmul_kernel *const foci_matmul_kernels[] = {
    &foci_matmul_amx,  &foci_matmul_avx512bf16, &foci_matmul_avx512,
    &foci_matmul_avx2, &foci_matmul_onednn,     &foci_matmul_ref,
};
const size_t foci_matmul_kernel_count = FOCAL_COUNT(foci_matmul_kernels);

bool foci_matmul_never_can(const focal_ctx *ctx, const foci_matmul_args *args)
{
    (void)ctx;
    (void)args;
    return false;
}

focal_status foci_matmul_never_run(focal_ctx *ctx, const foci_matmul_args *args)
{
    (void)args;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "matmul: this build lacks the kernel");
}

const foci_matmul_kernel *foci_matmul_pick(const focal_ctx *ctx, const foci_matmul_args *args)
{
    for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
        const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
        if (foci_ctx_allows(ctx, kernel->name) && kernel->can(ctx, args)) return kernel;
    }
    return NULL;
}

focal_status foci_matmul(focal_ctx *ctx, const foci_matmul_args *args)
{
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_matmul_check(ctx, args));
    const foci_matmul_kernel *kernel = foci_matmul_pick(ctx, args);
    if (kernel) return kernel->run(ctx, args);
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "matmul: the pinned kernel %s cannot take this call",
                     focal_ctx_kernel(ctx));
}

bool foci_matmul_share_x(const foci_matmul_args *a, const foci_matmul_args *b)
{
    return a->x == b->x && a->M == b->M && a->K == b->K && a->x_dtype == b->x_dtype &&
           a->x_stride == b->x_stride && a->x_is_transposed == b->x_is_transposed;
}

/* Whether a kernel takes a call by integers. */
static bool takes_bytes(const foci_matmul_kernel *kernel, const foci_matmul_args *args)
{
    return foci_takes_bytes(args) && (kernel->reads_interleaved || !args->w_is_interleaved);
}

/* All products read the same x, which may be rounded, and one kernel takes them together. */
static const foci_matmul_kernel *pick_together(focal_ctx *ctx, const foci_matmul_args *args,
                                               int32_t count)
{
    const foci_matmul_kernel *first = foci_matmul_pick(ctx, &args[0]);
    if (!first || !first->run_bytes || count < 2 || count > FOCI_MATMUL_SEVERAL) return NULL;
    for (int32_t n = 0; n < count; n++) {
        const foci_matmul_args *a = &args[n];
        if (!foci_matmul_share_x(a, args) || !takes_bytes(first, a) || !first->can(ctx, a))
            return NULL;
    }
    return first;
}

/* The same for many rows that are not rounded to 16 bits: all of them to 8, or none. */
const foci_matmul_kernel *foci_matmul_pick_many(const focal_ctx *ctx, const foci_matmul_args *args,
                                                int32_t count)
{
    const foci_matmul_kernel *first = foci_matmul_pick(ctx, &args[0]);
    if (!first || !first->run_many || args->M <= FOCI_MATMUL_FEW || count > FOCI_MATMUL_SEVERAL)
        return NULL;
    for (int32_t n = 0; n < count; n++) {
        const foci_matmul_args *a = &args[n];
        if (!foci_matmul_share_x(a, args) || takes_bytes(first, a) || !first->can(ctx, a) ||
            (first->has_levels && foci_takes_levels(a) != foci_takes_levels(args)))
            return NULL;
    }
    return first;
}

focal_status foci_matmul_several(focal_ctx *ctx, const foci_matmul_args *args, int32_t count)
{
    if (!ctx) return FOCAL_EINVAL;
    for (int32_t n = 0; n < count; n++) FOCAL_TRY(foci_matmul_check(ctx, &args[n]));
    const foci_matmul_kernel *kernel = pick_together(ctx, args, count);
    if (kernel) return kernel->run_bytes(ctx, args, count);
    kernel = count > 1 ? foci_matmul_pick_many(ctx, args, count) : NULL;
    if (kernel) return kernel->run_many(ctx, args, count, NULL);
    for (int32_t n = 0; n < count; n++) FOCAL_TRY(foci_matmul(ctx, &args[n]));
    return FOCAL_OK;
}

bool foci_matmul_wants_interleaved(const focal_ctx *ctx, focal_dtype dtype, int64_t N, int64_t K)
{
    const foci_matmul_args one = {.M = 1,
                                  .N = N,
                                  .K = K,
                                  .x_dtype = FOCAL_F32,
                                  .x_stride = K,
                                  .rounds_x = true,
                                  .w_dtype = dtype,
                                  .w_is_interleaved = true,
                                  .out_dtype = FOCAL_F32,
                                  .out_stride = N};
    if (!foci_interleave_can(dtype, N, K)) return false;
    const foci_matmul_kernel *kernel = foci_matmul_pick(ctx, &one);
    return kernel && takes_bytes(kernel, &one);
}
