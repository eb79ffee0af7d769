/* What a temperature's call must satisfy, and its defaults. */
#include "ops/temperature/temperature_check.h"

#include <math.h>

#include "base/error.h"

static bool is_positive(float x)
{
    return isfinite(x) && x > 0.0F;
}

static focal_status check_parameters(focal_ctx *ctx, foci_temperature *t, float root)
{
    if (t->kind < FOCI_TEMPERATURE_CONSTANT || t->kind > FOCI_TEMPERATURE_LENGTH)
        return foci_fail(ctx, FOCAL_EINVAL, "temperature: there is no kind %d", (int)t->kind);
    if (t->t == 0.0F) t->t = 1.0F;
    if (!is_positive(t->t))
        return foci_fail(ctx, FOCAL_EINVAL, "temperature: t is %g, it must be above 0",
                         (double)t->t);
    if (t->low == 0.0F && t->high == 0.0F) {
        const bool is_paper = t->kind == FOCI_TEMPERATURE_LEARNED_PAPER;
        t->low = is_paper ? 0.442F * root : 0.2F;
        t->high = is_paper ? root : 1.2F;
    }
    if (!is_positive(t->low) || !is_positive(t->high) || t->low > t->high)
        return foci_fail(
            ctx, FOCAL_EINVAL,
            "temperature: bounds of %g and %g: the first must be above 0 and not above "
            "the second",
            (double)t->low, (double)t->high);
    if (t->c == 0.0F) t->c = 0.1F;
    if (t->kind == FOCI_TEMPERATURE_LENGTH && (!is_positive(t->c) || !is_positive(t->length)))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "temperature: c %g and a training length of %g: both must be above 0",
                         (double)t->c, (double)t->length);
    if (foci_temperature_reads_h(t) && !t->u)
        return foci_fail(ctx, FOCAL_EINVAL, "temperature: a learned one needs u");
    if (t->kind == FOCI_TEMPERATURE_LEARNED && !t->a)
        return foci_fail(ctx, FOCAL_EINVAL, "temperature: a learned one needs a");
    if (t->kind == FOCI_TEMPERATURE_PER_HEAD && !t->lt)
        return foci_fail(ctx, FOCAL_EINVAL, "temperature: one per head needs lt");
    return FOCAL_OK;
}

static focal_status check_sequences(focal_ctx *ctx, foci_temperature_args *a, int32_t whole[2])
{
    if (!a->sequence_starts) {
        whole[0] = 0;
        whole[1] = a->T;
        a->sequence_starts = whole;
        a->sequence_count = 1;
    }
    if (a->sequence_count < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "temperature: %d sequences, there must be at least 1",
                         a->sequence_count);
    const int32_t *starts = a->sequence_starts, count = a->sequence_count;
    /* in order, so that one that is too large ends the walk before the array can */
    for (int32_t s = 0; s < count; s++)
        if (starts[s] < 0 || starts[s] >= starts[s + 1] || starts[s + 1] > a->T)
            return foci_fail(ctx, FOCAL_EINVAL,
                             "temperature: sequence %d goes from token %d to %d of %d", s,
                             starts[s], starts[s + 1], a->T);
    if (starts[0] != 0 || starts[count] != a->T)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "temperature: the sequences go from token %d to %d, not from 0 to %d",
                         starts[0], starts[count], a->T);
    return FOCAL_OK;
}

static focal_status check_h(focal_ctx *ctx, foci_temperature_args *a)
{
    if (!a->h) return foci_fail(ctx, FOCAL_EINVAL, "temperature: a learned one needs h");
    if (a->C < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "temperature: C is %d, it must be at least 1", a->C);
    if (a->h_dtype != FOCAL_F32 && a->h_dtype != FOCAL_BF16)
        return foci_fail(ctx, FOCAL_EINVAL, "temperature: h is %s, it must be f32 or bf16",
                         focal_dtype_name(a->h_dtype));
    return foci_rows_check(ctx, "temperature: h", a->T, a->C, &a->h_stride);
}

static focal_status check_positions(focal_ctx *ctx, const foci_temperature_args *a)
{
    if (!a->positions)
        return foci_fail(ctx, FOCAL_EINVAL, "temperature: one by length needs positions");
    for (int32_t t = 0; t < a->T; t++)
        if (a->positions[t] < 0)
            return foci_fail(ctx, FOCAL_EINVAL, "temperature: token %d has position %d, below 0", t,
                             a->positions[t]);
    return FOCAL_OK;
}

focal_status foci_temperature_normalise(focal_ctx *ctx, const foci_temperature_args *args,
                                        foci_temperature_args *normal, foci_temperature *kept,
                                        int32_t whole[2])
{
    if (!args || !args->temperature || !args->factors)
        return foci_fail(ctx, FOCAL_EINVAL, "temperature: temperature and factors must be set");
    *normal = *args;
    *kept = *args->temperature;
    normal->temperature = kept;
    if (args->T < 1 || args->H < 1)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "temperature: %d tokens of %d heads: each must be at least 1", args->T,
                         args->H);
    if (!is_positive(args->root))
        return foci_fail(ctx, FOCAL_EINVAL, "temperature: the root is %g, it must be above 0",
                         (double)args->root);
    FOCAL_TRY(check_parameters(ctx, kept, args->root));
    if (foci_temperature_reads_h(kept)) FOCAL_TRY(check_h(ctx, normal));
    if (kept->kind == FOCI_TEMPERATURE_LENGTH) FOCAL_TRY(check_positions(ctx, normal));
    if (kept->kind == FOCI_TEMPERATURE_LEARNED_PAPER)
        FOCAL_TRY(check_sequences(ctx, normal, whole));
    return FOCAL_OK;
}
