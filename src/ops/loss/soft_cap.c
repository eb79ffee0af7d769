/* The soft-cap: the check, the choice of a kernel, and the reference in double. */
#include "ops/loss/soft_cap.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_soft_cap_avx512},
    {"avx2", FOCI_AVX2, foci_soft_cap_avx2},
    {"ref", 0, foci_soft_cap_ref},
};
const foci_rows_op foci_soft_cap_op = {"soft_cap", kernels, FOCAL_COUNT(kernels)};

void foci_soft_cap_ref(const void *args, int64_t first, int64_t count)
{
    const foci_soft_cap_args *a = args;
    for (int64_t n = first; n < first + count; n++)
        a->x[n] = (float)((double)a->cap * tanh((double)a->x[n] / (double)a->cap));
}

focal_status foci_soft_cap(focal_ctx *ctx, float *x, int64_t count, float cap)
{
    if (!ctx) return FOCAL_EINVAL;
    if (!x) return foci_fail(ctx, FOCAL_EINVAL, "soft_cap: x must be set");
    if (count < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "soft_cap: the count is %lld, it must be 0 or more",
                         (long long)count);
    if (!isfinite(cap) || cap <= 0.0F)
        return foci_fail(ctx, FOCAL_EINVAL, "soft_cap: the cap is %g, it must be above 0",
                         (double)cap);
    foci_soft_cap_args args = {.cap = cap};
    args.x = x;
    return foci_rows_run(ctx, &foci_soft_cap_op, &args, count, 1);
}
