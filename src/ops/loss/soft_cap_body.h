/* The soft-cap for one instruction set: soft_cap_avx2.c and soft_cap_avx512.c include this after a
 * dialect. */
#ifndef FOCI_OPS_LOSS_SOFT_CAP_BODY_H
#define FOCI_OPS_LOSS_SOFT_CAP_BODY_H

#include "ops/loss/soft_cap.h"
#include "simd/vec_math.h"
#include "simd/vec_rows.h"

static void soft_cap_rows(const foci_soft_cap_args *a, int64_t first, int64_t count)
{
    const vec cap = v_set1(a->cap);
    float *x = a->x + first;
    for (int64_t n = 0; n < count; n += VL) {
        const int64_t lanes = v_lanes(n, count);
        const vec y = v_mul(cap, v_tanh(v_div(v_load_lanes(x + n, lanes), cap)));
        v_store_lanes(x, FOCAL_F32, n, y, lanes);
    }
}

#endif /* FOCI_OPS_LOSS_SOFT_CAP_BODY_H */
