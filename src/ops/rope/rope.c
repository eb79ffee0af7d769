/* Rotary positions: angles in double, and the choice of a kernel for the rotation. */
#include "ops/rope/rope.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_rope_avx512},
    {"avx2", FOCI_AVX2, foci_rope_avx2},
    {"ref", 0, foci_rope_ref},
};
const foci_rows_op foci_rope_op = {"rope", kernels, FOCAL_COUNT(kernels)};

/* The C library's double functions reduce any angle exactly, and are few: a token's serve all its
 * heads and layers. */
static void make_angles(const void *args, int64_t first, int64_t count)
{
    const foci_rope_angles_args *a = args;
    const int64_t pairs = a->rotated / 2;
    for (int64_t t = first; t < first + count; t++)
        for (int64_t n = 0; n < pairs; n++) {
            const double exact = (double)a->positions[t] * (double)a->inv_freq[n];
            const float rounded = (float)a->positions[t] * a->inv_freq[n];
            const double angle = a->is_exact ? exact : (double)rounded;
            a->cos[t * pairs + n] = (float)(cos(angle) * (double)a->scale);
            a->sin[t * pairs + n] = (float)(sin(angle) * (double)a->scale);
        }
}

static const foci_rows_kernel angles_kernel = {"ref", 0, make_angles};

static focal_status check_rotated(focal_ctx *ctx, int32_t rotated, int32_t most)
{
    if (rotated >= 2 && rotated % 2 == 0 && rotated <= most) return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EINVAL,
                     "rope: the rotated width is %d, it must be even and 2 to %d", rotated, most);
}

focal_status foci_rope_angles(focal_ctx *ctx, const foci_rope_angles_args *args)
{
    if (!ctx) return FOCAL_EINVAL;
    if (!args || !args->positions || !args->inv_freq || !args->cos || !args->sin)
        return foci_fail(ctx, FOCAL_EINVAL, "rope: positions, inv_freq, cos and sin must be set");
    if (args->T < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "rope: T is %d, it must be at least 1", args->T);
    FOCAL_TRY(check_rotated(ctx, args->rotated, FOCI_ROPE_MAX_WIDTH));
    for (int32_t t = 0; t < args->T; t++)
        if (args->positions[t] < 0)
            return foci_fail(ctx, FOCAL_EINVAL, "rope: token %d has position %d, below 0", t,
                             args->positions[t]);
    foci_rows_spread(ctx, &angles_kernel, args, args->T, args->rotated);
    return FOCAL_OK;
}

focal_status foci_rope_normalise(focal_ctx *ctx, const foci_rope_args *args, foci_rope_args *normal)
{
    if (!args || (args->rotated != 0 && (!args->cos || !args->sin)) || !args->x || !args->out)
        return foci_fail(ctx, FOCAL_EINVAL, "rope: cos, sin, x and out must be set");
    *normal = *args;
    if (args->T < 1 || args->H < 1 || args->D < 1)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "rope: %d tokens of %d heads of %d: each must be at least 1", args->T,
                         args->H, args->D);
    if (args->rotated != 0) FOCAL_TRY(check_rotated(ctx, args->rotated, args->D));
    if (args->style != FOCI_ROPE_HALVES && args->style != FOCI_ROPE_PAIRS)
        return foci_fail(ctx, FOCAL_EINVAL, "rope: there is no style %d", (int)args->style);
    if (!isfinite(args->scale))
        return foci_fail(ctx, FOCAL_EINVAL, "rope: the scale must be a finite number");
    if (normal->scale == 0.0F) normal->scale = 1.0F;
    const int64_t wide = (int64_t)args->H * args->D;
    FOCAL_TRY(foci_rows_check(ctx, "rope: x", args->T, wide, &normal->x_stride));
    FOCAL_TRY(foci_rows_check(ctx, "rope: out", args->T, wide, &normal->out_stride));
    return foci_rows_check_out(ctx, "rope", args->out, args->out_dtype, normal->out_stride, args->x,
                               normal->x_stride);
}

focal_status foci_rope_apply(focal_ctx *ctx, const foci_rope_args *args)
{
    foci_rope_args normal = {0};
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_rope_normalise(ctx, args, &normal));
    return foci_rows_run(ctx, &foci_rope_op, &normal, normal.T, (int64_t)normal.H * normal.D);
}
