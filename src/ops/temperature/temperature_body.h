/* Products of hidden states with u, and their gradient, for one instruction set:
 * temperature_avx2.c and temperature_avx512.c include this after a dialect. */
#ifndef FOCI_OPS_TEMPERATURE_TEMPERATURE_BODY_H
#define FOCI_OPS_TEMPERATURE_TEMPERATURE_BODY_H

#include <string.h>

#include "ops/temperature/temperature.h"
#include "simd/vec_rows.h"

static void temperature_rows(const foci_temperature_products *p, int64_t first, int64_t count)
{
    for (int64_t t = first; t < first + count; t++) {
        vec sum = v_zero();
        for (int64_t n = 0; n < p->C; n += VL) {
            const int64_t lanes = v_lanes(n, p->C);
            sum = v_fma(v_load_lanes_of(p->h, p->h_dtype, t * p->h_stride + n, lanes),
                        v_load_lanes(p->u + n, lanes), sum);
        }
        p->products[t * p->products_stride] = v_reduce_add(sum);
    }
}

static void temperature_backward_rows(const foci_temperature_spread *s, int64_t first,
                                      int64_t count)
{
    float *du = s->dus ? s->dus + first / s->piece * s->C : NULL;
    if (du) memset(du, 0, (size_t)s->C * sizeof *du);
    for (int64_t t = first; t < first + count; t++) {
        const vec slope = v_set1(s->slopes[t]);
        float *dh = s->dh ? s->dh + t * s->dh_stride : NULL;
        for (int64_t n = 0; n < s->C; n += VL) {
            const int64_t lanes = v_lanes(n, s->C);
            if (du) {
                const vec h = v_load_lanes_of(s->h, s->h_dtype, t * s->h_stride + n, lanes);
                v_store_lanes(du, FOCAL_F32, n, v_fma(slope, h, v_load_lanes(du + n, lanes)),
                              lanes);
            }
            if (dh)
                v_store_lanes(
                    dh, FOCAL_F32, n,
                    v_fma(slope, v_load_lanes(s->u + n, lanes), v_load_lanes(dh + n, lanes)),
                    lanes);
        }
    }
}

#endif /* FOCI_OPS_TEMPERATURE_TEMPERATURE_BODY_H */
