/* Log-probabilities: check the call, then run the first kernel that can take it. The likeliest ids
 * of a row on top of that. */
#include "ops/loss/loss.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_loss_avx512},
    {"avx2", FOCI_AVX2, foci_loss_avx2},
    {"ref", 0, foci_loss_ref},
};
const foci_rows_op foci_loss_op = {"loss", kernels, FOCAL_COUNT(kernels)};

focal_status foci_loss_normalise(focal_ctx *ctx, const foci_loss_args *args, foci_loss_args *normal)
{
    if (!args || !args->logits || (!args->nll && !args->lse && !args->log_probs))
        return foci_fail(ctx, FOCAL_EINVAL, "loss: logits and a place for results must be set");
    if (args->nll && !args->targets) return foci_fail(ctx, FOCAL_EINVAL, "loss: nll needs targets");
    *normal = *args;
    if (args->T < 1 || args->V < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "loss: %d rows of %d: both must be at least 1", args->T,
                         args->V);
    FOCAL_TRY(foci_rows_check(ctx, "loss: logits", args->T, args->V, &normal->logits_stride));
    for (int32_t t = 0; t < args->T && args->targets; t++)
        if (args->targets[t] != FOCI_LOSS_NO_TARGET &&
            (args->targets[t] < 0 || args->targets[t] >= args->V))
            return foci_fail(ctx, FOCAL_EINVAL,
                             "loss: the target of row %d is %d, it must be %d or below %d", t,
                             args->targets[t], FOCI_LOSS_NO_TARGET, args->V);
    if (!args->log_probs) return FOCAL_OK;
    FOCAL_TRY(foci_rows_check(ctx, "loss: log_probs", args->T, args->V, &normal->log_probs_stride));
    return foci_rows_check_out(ctx, "loss", args->log_probs, FOCAL_F32, normal->log_probs_stride,
                               args->logits, normal->logits_stride);
}

focal_status foci_log_softmax_rows(focal_ctx *ctx, const foci_loss_args *args)
{
    foci_loss_args normal = {0};
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_loss_normalise(ctx, args, &normal));
    return foci_rows_run(ctx, &foci_loss_op, &normal, normal.T, normal.V);
}

typedef struct top_rows {
    const foci_top_args *args;
    int64_t stride;
    const double *lse;
} top_rows;

static float rank_of(float x)
{
    return isnan(x) ? -INFINITY : x;
}

/* The best so far, in order; an id enters before those that are smaller. At most `top` moves an id,
 * and few ids enter unless the row ascends. */
static void find_top(const void *args, int64_t first, int64_t count)
{
    const top_rows *r = args;
    const foci_top_args *a = r->args;
    for (int64_t t = first; t < first + count; t++) {
        const float *x = a->logits + t * r->stride;
        int32_t *ids = a->ids + t * a->top, held = 0;
        for (int32_t id = 0; id < a->V; id++) {
            const float rank = rank_of(x[id]);
            if (held == a->top && !(rank > rank_of(x[ids[held - 1]]))) continue;
            int32_t at = held < a->top ? held++ : held - 1;
            for (; at > 0 && rank > rank_of(x[ids[at - 1]]); at--) ids[at] = ids[at - 1];
            ids[at] = id;
        }
        for (int32_t n = 0; n < a->top; n++)
            a->log_probs[t * a->top + n] = (float)((double)x[ids[n]] - r->lse[t]);
    }
}

static const foci_rows_kernel top_kernel = {"ref", 0, find_top};

focal_status foci_top_log_probs(focal_ctx *ctx, const foci_top_args *args)
{
    if (!ctx) return FOCAL_EINVAL;
    if (!args || !args->ids || !args->log_probs)
        return foci_fail(ctx, FOCAL_EINVAL, "top: ids and log_probs must be set");
    if (args->top < 1 || args->top > FOCI_LOSS_MAX_TOP || args->top > args->V)
        return foci_fail(ctx, FOCAL_EINVAL, "top: %d of %d logits asked for, it must be 1 to %d",
                         args->top, args->V,
                         args->V < FOCI_LOSS_MAX_TOP ? args->V : FOCI_LOSS_MAX_TOP);
    const size_t count = args->T > 0 ? (size_t)args->T : 1;
    double *lse = foci_scratch(ctx, count, sizeof *lse);
    if (!lse) return FOCAL_ENOMEM;
    foci_loss_args loss = {.T = args->T,
                           .V = args->V,
                           .logits = args->logits,
                           .logits_stride = args->logits_stride,
                           .lse = lse};
    const focal_status status = foci_log_softmax_rows(ctx, &loss);
    if (status == FOCAL_OK) {
        const int64_t stride = args->logits_stride ? args->logits_stride : args->V;
        const top_rows rows = {args, stride, lse};
        foci_rows_spread(ctx, &top_kernel, &rows, args->T, args->V);
    }
    foci_scratch_free(ctx, lse);
    return status;
}
