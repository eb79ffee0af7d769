/* AdamW: the check, the choice of a kernel, and the reference in double. */
#include "ops/adamw/adamw.h"

#include <math.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "base/error.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_adamw_avx512},
    {"avx2", FOCI_AVX2, foci_adamw_avx2},
    {"ref", 0, foci_adamw_ref},
};
const foci_rows_op foci_adamw_op = {"adamw", kernels, FOCAL_COUNT(kernels)};

void foci_adamw_ref(const void *args, int64_t first, int64_t count)
{
    const foci_adamw_pass *pass = args;
    const foci_adamw_args *a = &pass->args;
    for (int64_t n = first; n < first + count; n++) {
        const double g = a->factor * (double)a->gradient[n], w = (double)a->weights[n];
        const double m = (double)a->first[n] + (1.0 - a->beta1) * (g - (double)a->first[n]);
        const double v = (double)a->second[n] + (1.0 - a->beta2) * (g * g - (double)a->second[n]);
        const double root = sqrt(v) * pass->root_factor + a->epsilon;
        a->first[n] = (float)m;
        a->second[n] = (float)v;
        a->weights[n] = (float)(w - (pass->step_rate * (m / root) + pass->shrink * w));
        if (a->rounded) a->rounded[n] = foci_bf16_from_float(a->weights[n]);
        if (a->is_cleared) a->gradient[n] = 0.0F;
    }
}

static focal_status check_numbers(focal_ctx *ctx, const foci_adamw_args *a)
{
    const struct {
        const char *name;
        double value, end; /* 0 <= value < end */
    } numbers[] = {{"rate", a->rate, (double)INFINITY},
                   {"beta1", a->beta1, 1.0},
                   {"beta2", a->beta2, 1.0},
                   {"decay", a->decay, (double)INFINITY},
                   {"factor", a->factor, (double)INFINITY}};
    for (size_t n = 0; n < FOCAL_COUNT(numbers); n++)
        if (!(numbers[n].value >= 0.0 && numbers[n].value < numbers[n].end))
            return foci_fail(ctx, FOCAL_EINVAL, "adamw: %s is %g, it must be 0 or above, below %g",
                             numbers[n].name, numbers[n].value, numbers[n].end);
    if (!((float)a->epsilon > 0.0F && isfinite(a->epsilon)))
        return foci_fail(ctx, FOCAL_EINVAL, "adamw: epsilon is %g, it must be a float above 0",
                         a->epsilon);
    if (a->step < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "adamw: the step is %lld, it must be at least 1",
                         (long long)a->step);
    return FOCAL_OK;
}

focal_status foci_adamw_prepare(focal_ctx *ctx, const foci_adamw_args *args, foci_adamw_pass *pass)
{
    if (!args || !args->weights || !args->gradient || !args->first || !args->second)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "adamw: weights, gradient and both moments must be set");
    if (args->count < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "adamw: the count is %lld, it must be 0 or more",
                         (long long)args->count);
    FOCAL_TRY(check_numbers(ctx, args));
    *pass = (foci_adamw_pass){
        .args = *args,
        .step_rate = args->rate / (1.0 - pow(args->beta1, (double)args->step)),
        .root_factor = 1.0 / sqrt(1.0 - pow(args->beta2, (double)args->step)),
        .shrink = args->rate * args->decay,
    };
    return FOCAL_OK;
}

focal_status foci_adamw(focal_ctx *ctx, const foci_adamw_args *args)
{
    foci_adamw_pass pass;
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_adamw_prepare(ctx, args, &pass));
    return foci_rows_run(ctx, &foci_adamw_op, &pass, args->count, 1);
}
