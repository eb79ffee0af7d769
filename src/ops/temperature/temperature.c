/* Factors of temperatures: products h . u by a kernel, and from them or from numbers 1 / tau. */
#include "ops/temperature/temperature.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"
#include "ops/temperature/temperature_check.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_temperature_avx512},
    {"avx2", FOCI_AVX2, foci_temperature_avx2},
    {"ref", 0, foci_temperature_ref},
};
const foci_rows_op foci_temperature_op = {"temperature", kernels, FOCAL_COUNT(kernels)};

bool foci_temperature_is_per_head(const foci_temperature *temperature)
{
    return temperature->heads || temperature->kind == FOCI_TEMPERATURE_PER_HEAD;
}

/* NaN stays NaN, where fmin and fmax would hide it. */
static double clip(double x, float low, float high)
{
    if (x < (double)low) return (double)low;
    return x > (double)high ? (double)high : x;
}

/* Products lie where the factors will be: in the first of each token. */
static focal_status make_products(focal_ctx *ctx, const foci_temperature_args *a)
{
    const foci_temperature_products call = {
        .C = a->C,
        .h = a->h,
        .h_dtype = a->h_dtype,
        .h_stride = a->h_stride,
        .u = a->temperature->u,
        .products = a->factors,
        .products_stride = foci_temperature_is_per_head(a->temperature) ? a->H : 1};
    return foci_rows_run(ctx, &foci_temperature_op, &call, a->T, a->C);
}

/* (2.6): the mean of its sequence's products in the place of each. */
static void average(const foci_temperature_args *a, int64_t stride)
{
    for (int32_t s = 0; s < a->sequence_count; s++) {
        const int64_t first = a->sequence_starts[s], last = a->sequence_starts[s + 1];
        double sum = 0.0;
        for (int64_t t = first; t < last; t++) sum += (double)a->factors[t * stride];
        for (int64_t t = first; t < last; t++)
            a->factors[t * stride] = (float)(sum / (double)(last - first));
    }
}

/* tau of a head that has the temperature; product is h . u, or its mean. */
static double tau(const foci_temperature_args *a, double product, int64_t token, int64_t head)
{
    const foci_temperature *t = a->temperature;
    const double root = (double)a->root;
    switch (t->kind) {
    case FOCI_TEMPERATURE_LEARNED: /* (2.5) */
        return clip(product + (double)*t->a, t->low, t->high) * root;
    case FOCI_TEMPERATURE_LEARNED_PAPER: /* (2.6) */
        return clip(product, t->low, t->high);
    case FOCI_TEMPERATURE_PER_HEAD:
        return exp((double)t->lt[head]) * root;
    case FOCI_TEMPERATURE_LENGTH: { /* (2.7) */
        const double ratio = ((double)a->positions[token] + 1.0) / (double)t->length;
        return (double)t->t / (1.0 + (double)t->c * log(fmax(1.0, ratio))) * root;
    }
    default:
        return (double)t->t * root;
    }
}

focal_status foci_temperature_factors(focal_ctx *ctx, const foci_temperature_args *args)
{
    foci_temperature_args normal = {0};
    foci_temperature kept;
    int32_t whole[2];
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_temperature_normalise(ctx, args, &normal, &kept, whole));
    const foci_temperature_args *a = &normal;
    const int64_t heads = foci_temperature_is_per_head(&kept) ? a->H : 1;
    if (foci_temperature_reads_h(&kept)) FOCAL_TRY(make_products(ctx, a));
    if (kept.kind == FOCI_TEMPERATURE_LEARNED_PAPER) average(a, heads);
    for (int64_t t = 0; t < a->T; t++) {
        float *factors = a->factors + t * heads;
        const double product = foci_temperature_reads_h(&kept) ? (double)factors[0] : 0.0;
        for (int64_t h = 0; h < heads; h++)
            factors[h] = (float)(1.0 / (foci_temperature_has(&kept, h) ? tau(a, product, t, h)
                                                                       : (double)a->root));
    }
    return FOCAL_OK;
}
