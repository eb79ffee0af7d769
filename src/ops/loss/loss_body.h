/* Log-probabilities for one instruction set: loss_avx2.c and loss_avx512.c include this after a
 * dialect. */
#ifndef FOCI_OPS_LOSS_LOSS_BODY_H
#define FOCI_OPS_LOSS_LOSS_BODY_H

#include <math.h>

#include "ops/loss/loss.h"
#include "ops/loss/loss_sums.h"

static void loss_row(const foci_loss_args *a, int64_t row)
{
    const float *x = a->logits + row * a->logits_stride;
    const int32_t target = a->targets ? a->targets[row] : FOCI_LOSS_NO_TARGET;
    const row_sums sums = sums_of(x, a->V);
    const float max = sums.max;
    const double log_sum = log(sums.sum);
    if (a->lse) a->lse[row] = (double)max + log_sum;
    if (a->nll) a->nll[row] = target < 0 ? 0.0 : (double)max - (double)x[target] + log_sum;
    if (!a->log_probs) return;
    float *out = a->log_probs + row * a->log_probs_stride;
    for (int64_t n = 0; n < a->V; n += VL) {
        const int64_t lanes = v_lanes(n, a->V);
        const vec y = v_sub(v_load_lanes(x + n, lanes), v_set1(max));
        v_store_lanes(out, FOCAL_F32, n, v_sub(y, v_set1((float)log_sum)), lanes);
    }
}

static void loss_rows(const foci_loss_args *a, int64_t first, int64_t count)
{
    for (int64_t row = first; row < first + count; row++) loss_row(a, row);
}

#endif /* FOCI_OPS_LOSS_LOSS_BODY_H */
