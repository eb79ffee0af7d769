/* Gradients of losses for one instruction set: loss_backward_avx2.c and loss_backward_avx512.c
 * include this after a dialect. A row is read twice (sums, gradient) and stays in the second-level
 * cache meanwhile; its exponentials are made twice, which costs less than keeping them. */
#ifndef FOCI_OPS_LOSS_LOSS_BACKWARD_BODY_H
#define FOCI_OPS_LOSS_LOSS_BACKWARD_BODY_H

#include <math.h>

#include "ops/loss/loss.h"
#include "ops/loss/loss_backward.h"
#include "ops/loss/loss_sums.h"

/* (4.5.2); inverse is 1 / cap, 0 without one. */
static inline vec cap_slope(vec x, vec inverse)
{
    const vec one = v_set1(1.0F), part = v_mul(x, inverse);
    return v_mul(v_sub(one, part), v_add(one, part));
}

static inline double cap_slope_of(double x, double cap)
{
    return cap > 0.0 ? (1.0 - x / cap) * (1.0 + x / cap) : 1.0;
}

static inline float inverse_of(float cap)
{
    return cap > 0.0F ? 1.0F / cap : 0.0F;
}

static void store_zeros(void *out, focal_dtype dtype, int64_t at, int64_t width)
{
    for (int64_t n = 0; n < width; n += VL)
        v_store_lanes(out, dtype, at + n, v_zero(), v_lanes(n, width));
}

static void loss_backward_row(const foci_loss_backward_args *a, int64_t row)
{
    const float *x = a->logits + row * a->logits_stride;
    const int64_t target = a->targets[row], at = row * a->dlogits_stride;
    double nll = 0.0, lse = 0.0;
    if (target < 0) {
        store_zeros(a->dlogits, a->dlogits_dtype, at, a->V);
    } else {
        const row_sums sums = sums_of(x, a->V);
        const float max = sums.max;
        const double log_sum = log(sums.sum);
        lse = (double)max + log_sum;
        nll = (double)max - (double)x[target] + log_sum;
        const double pull = 2.0 * a->z * lse;
        /* Where the target is likely p - 1 cancels: its element is made apart, before it may be
         * overwritten. */
        const double own = a->scale * (expm1(-nll) + pull * exp(-nll)) *
                           cap_slope_of((double)x[target], (double)a->soft_cap);
        const vec factor = v_set1((float)(a->scale * (1.0 + pull) / sums.sum));
        const vec inverse = v_set1(inverse_of(a->soft_cap));
        for (int64_t n = 0; n < a->V; n += VL) {
            const int64_t lanes = v_lanes(n, a->V);
            const vec y = v_load_lanes(x + n, lanes);
            vec g = v_mul(v_exp_fine(v_sub(y, v_set1(max))), factor);
            if (a->soft_cap > 0.0F) g = v_mul(g, cap_slope(y, inverse));
            v_store_lanes(a->dlogits, a->dlogits_dtype, at + n, g, lanes);
        }
        foci_rows_put(a->dlogits, a->dlogits_dtype, at + target, own);
    }
    if (a->nll) a->nll[row] = nll;
    if (a->lse) a->lse[row] = lse;
}

static void loss_backward_rows(const foci_loss_backward_args *a, int64_t first, int64_t count)
{
    for (int64_t row = first; row < first + count; row++) loss_backward_row(a, row);
}

static void kl_row(const foci_kl_args *a, int64_t row)
{
    const float *t = a->teacher + row * a->teacher_stride,
                *s = a->student + row * a->student_stride;
    const row_sums teacher = sums_of(t, a->V), student = sums_of(s, a->V);
    /* log p_t - log p_s = (t - its largest) - (s - its largest) - shift */
    const double shift = log(teacher.sum) - log(student.sum);
    const vec part_t = v_set1((float)(1.0 / teacher.sum)),
              part_s = v_set1((float)(1.0 / student.sum));
    const vec scale = v_set1((float)a->scale), inverse = v_set1(inverse_of(a->soft_cap));
    double kl = 0.0;
    for (int64_t first = 0; first < a->V; first += BLOCK) {
        const int64_t last = a->V - first < BLOCK ? a->V : first + BLOCK;
        vec sum = v_zero();
        for (int64_t n = first; n < last; n += VL) {
            const int64_t lanes = v_lanes(n, last);
            const vec y = v_load_lanes(s + n, lanes);
            const vec yt = v_sub(v_load_lanes(t + n, lanes), v_set1(teacher.max));
            const vec ys = v_sub(y, v_set1(student.max));
            const vec pt = v_mul(v_exp_fine(yt), part_t), ps = v_mul(v_exp_fine(ys), part_s);
            vec g = v_mul(v_sub(ps, pt), scale);
            if (a->soft_cap > 0.0F) g = v_mul(g, cap_slope(y, inverse));
            const vec term = v_mul(pt, v_sub(v_sub(yt, ys), v_set1((float)shift)));
            /* 0 times an infinity would be NaN; NaN itself is met by the sums */
            const vec kept = v_select(v_greater(pt, v_zero()), term, v_zero());
            sum = v_add(sum, v_keep_lanes(kept, lanes));
            v_store_lanes(a->dlogits, a->dlogits_dtype, row * a->dlogits_stride + n, g, lanes);
        }
        kl += (double)v_reduce_add(sum);
    }
    if (a->kl) a->kl[row] = isnan(shift) ? shift : kl;
}

static void kl_rows(const foci_kl_args *a, int64_t first, int64_t count)
{
    for (int64_t row = first; row < first + count; row++) kl_row(a, row);
}

#endif /* FOCI_OPS_LOSS_LOSS_BACKWARD_BODY_H */
