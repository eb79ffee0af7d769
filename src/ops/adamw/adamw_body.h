/* AdamW for one instruction set: adamw_avx2.c and adamw_avx512.c include this after a dialect.
 * Every operation rounds as IEEE says and lanes do not meet, so both have the same bits. */
#ifndef FOCI_OPS_ADAMW_ADAMW_BODY_H
#define FOCI_OPS_ADAMW_ADAMW_BODY_H

#include "ops/adamw/adamw.h"
#include "simd/vec_rows.h"

static void adamw_elements(const foci_adamw_pass *pass, int64_t first, int64_t count)
{
    const foci_adamw_args *a = &pass->args;
    const vec factor = v_set1((float)a->factor), epsilon = v_set1((float)a->epsilon);
    const vec rest1 = v_set1((float)(1.0 - a->beta1)), rest2 = v_set1((float)(1.0 - a->beta2));
    const vec root_factor = v_set1((float)pass->root_factor);
    const vec step_rate = v_set1((float)pass->step_rate), shrink = v_set1((float)pass->shrink);
    for (int64_t n = first; n < first + count; n += VL) {
        const int64_t lanes = v_lanes(n, first + count);
        const vec g = v_mul(v_load_lanes(a->gradient + n, lanes), factor);
        const vec m0 = v_load_lanes(a->first + n, lanes), v0 = v_load_lanes(a->second + n, lanes);
        const vec w0 = v_load_lanes(a->weights + n, lanes);
        /* As old + part (new - old): where beta and 1 - beta are rounded apart their sum is not 1,
         * and the mean drifts. */
        const vec m = v_fma(rest1, v_sub(g, m0), m0);
        const vec v = v_fma(rest2, v_sub(v_mul(g, g), v0), v0);
        const vec ratio = v_div(m, v_fma(v_sqrt(v), root_factor, epsilon));
        /* What is taken off is summed first: 1 - rate decay would lose most of its digits. */
        const vec w = v_sub(w0, v_fma(step_rate, ratio, v_mul(shrink, w0)));
        v_store_lanes(a->first, FOCAL_F32, n, m, lanes);
        v_store_lanes(a->second, FOCAL_F32, n, v, lanes);
        v_store_lanes(a->weights, FOCAL_F32, n, w, lanes);
        if (a->rounded) v_store_lanes(a->rounded, FOCAL_BF16, n, w, lanes);
        if (a->is_cleared) v_store_lanes(a->gradient, FOCAL_F32, n, v_zero(), lanes);
    }
}

#endif /* FOCI_OPS_ADAMW_ADAMW_BODY_H */
