/* Log-probabilities for one instruction set: loss_avx2.c and loss_avx512.c include this after a
 * dialect. */
#ifndef FOCI_OPS_LOSS_LOSS_BODY_H
#define FOCI_OPS_LOSS_LOSS_BODY_H

#include <math.h>

#include "ops/loss/loss.h"
#include "simd/vec_math.h"
#include "simd/vec_rows.h"

enum { BLOCK = 16 * VL }; /* terms that are added in float32; such sums are added in double */

/* NaN is passed over here and found by the sum. */
static float largest_of(const float *x, int64_t width)
{
    const vec least = v_set1(-INFINITY);
    vec max = least;
    for (int64_t n = 0; n < width; n += VL) {
        const int64_t lanes = v_lanes(n, width);
        const vec y = v_load_lanes(x + n, lanes);
        max = v_max(lanes < VL ? v_select((1U << lanes) - 1U, y, least) : y, max);
    }
    return v_reduce_max(max);
}

static double sum_of_exp(const float *x, vec max, int64_t width)
{
    double total = 0.0;
    for (int64_t first = 0; first < width; first += BLOCK) {
        const int64_t last = width - first < BLOCK ? width : first + BLOCK;
        vec sum = v_zero();
        for (int64_t n = first; n < last; n += VL) {
            const int64_t lanes = v_lanes(n, last);
            const vec e = v_exp_fine(v_sub(v_load_lanes(x + n, lanes), max));
            sum = v_add(sum, v_keep_lanes(e, lanes));
        }
        total += (double)v_reduce_add(sum);
    }
    return total;
}

static void loss_row(const foci_loss_args *a, int64_t row)
{
    const float *x = a->logits + row * a->logits_stride;
    const int32_t target = a->targets ? a->targets[row] : FOCI_LOSS_NO_TARGET;
    const float max = largest_of(x, a->V);
    const double log_sum = log(sum_of_exp(x, v_set1(max), a->V));
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
