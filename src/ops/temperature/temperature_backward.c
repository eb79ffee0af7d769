/* Gradients of temperatures: from the dots of queries to the slope of each token's t, and on to
 * what made it. */
#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "ops/temperature/temperature.h"
#include "ops/temperature/temperature_check.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_temperature_backward_avx512},
    {"avx2", FOCI_AVX2, foci_temperature_backward_avx2},
    {"ref", 0, foci_temperature_backward_ref},
};
const foci_rows_op foci_temperature_backward_op = {"temperature_backward", kernels,
                                                   FOCAL_COUNT(kernels)};

/* -(1 / tau) times the sum over the heads that have it: what (2.8) and (2.9) begin with. */
static double slope_of_tau(const foci_temperature_args *a, const float *dots, int64_t token)
{
    const int64_t heads = foci_temperature_is_per_head(a->temperature) ? a->H : 1;
    double sum = 0.0, factor = 0.0;
    for (int64_t h = 0; h < a->H; h++) {
        if (!foci_temperature_has(a->temperature, h)) continue;
        sum += (double)dots[token * a->H + h];
        factor = (double)a->factors[token * heads + (heads > 1 ? h : 0)];
    }
    return -factor * sum;
}

/* The gradient of each token's h . u; the clip lets it pass. */
static void make_slopes(const foci_temperature_args *a, const float *dots, float *slopes)
{
    if (a->temperature->kind == FOCI_TEMPERATURE_LEARNED) { /* (2.8) */
        for (int64_t t = 0; t < a->T; t++)
            slopes[t] = (float)(slope_of_tau(a, dots, t) * (double)a->root);
        return;
    }
    for (int32_t s = 0; s < a->sequence_count; s++) { /* (2.9) */
        const int64_t first = a->sequence_starts[s], last = a->sequence_starts[s + 1];
        double sum = 0.0;
        for (int64_t t = first; t < last; t++) sum += slope_of_tau(a, dots, t);
        for (int64_t t = first; t < last; t++) slopes[t] = (float)(sum / (double)(last - first));
    }
}

/* (2.10) */
static focal_status spread_slopes(focal_ctx *ctx, const foci_temperature_args *a,
                                  const foci_temperature_grads *grads)
{
    const foci_rows_kernel *kernel = foci_rows_pick(ctx, &foci_temperature_backward_op);
    if (!kernel) return foci_rows_cannot(ctx, &foci_temperature_backward_op);
    const int64_t piece = foci_rows_sum_piece(a->T, a->C), pieces = foci_pieces(a->T, piece);
    float *slopes = foci_scratch(ctx, (size_t)a->T, sizeof *slopes);
    float *dus = foci_scratch(ctx, grads->du ? (size_t)(pieces * a->C) : 1, sizeof *dus);
    focal_status status = slopes && dus ? FOCAL_OK : FOCAL_ENOMEM;
    if (status != FOCAL_OK) goto done;
    make_slopes(a, grads->dots, slopes);
    if (grads->da && a->temperature->kind == FOCI_TEMPERATURE_LEARNED) {
        double sum = 0.0;
        for (int64_t t = 0; t < a->T; t++) sum += (double)slopes[t];
        *grads->da = (float)((double)*grads->da + sum);
    }
    const foci_temperature_spread call = {.C = a->C,
                                          .h = a->h,
                                          .h_dtype = a->h_dtype,
                                          .h_stride = a->h_stride,
                                          .u = a->temperature->u,
                                          .slopes = slopes,
                                          .dh = grads->dh,
                                          .dh_stride = grads->dh_stride,
                                          .piece = piece,
                                          .dus = grads->du ? dus : NULL};
    if (grads->dh || grads->du) foci_rows_spread_by(ctx, kernel, &call, a->T, piece);
    if (grads->du) foci_rows_join(ctx, dus, pieces, a->C, grads->du);
done:
    foci_scratch_free(ctx, dus);
    foci_scratch_free(ctx, slopes);
    return status;
}

/* (2.4) */
static void sum_heads(const foci_temperature_args *a, const foci_temperature_grads *grads)
{
    for (int64_t h = 0; h < a->H; h++) {
        double sum = 0.0;
        for (int64_t t = 0; t < a->T; t++) sum += (double)grads->dots[t * a->H + h];
        if (foci_temperature_has(a->temperature, h))
            grads->dlt[h] = (float)((double)grads->dlt[h] - sum);
    }
}

focal_status foci_temperature_backward(focal_ctx *ctx, const foci_temperature_args *args,
                                       const foci_temperature_grads *grads)
{
    foci_temperature_args normal = {0};
    foci_temperature kept;
    int32_t whole[2];
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_temperature_normalise(ctx, args, &normal, &kept, whole));
    if (!grads || !grads->dots)
        return foci_fail(ctx, FOCAL_EINVAL, "temperature backward: dots must be set");
    foci_temperature_grads filled = *grads;
    if (kept.kind == FOCI_TEMPERATURE_PER_HEAD && filled.dlt) sum_heads(&normal, &filled);
    if (!foci_temperature_reads_h(&kept)) return FOCAL_OK;
    if (filled.dh)
        FOCAL_TRY(foci_rows_check(ctx, "temperature backward: dh", normal.T, normal.C,
                                  &filled.dh_stride));
    return spread_slopes(ctx, &normal, &filled);
}
