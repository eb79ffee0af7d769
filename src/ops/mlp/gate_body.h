/* Activations for one instruction set: gate_avx2.c and gate_avx512.c include this after a dialect.
 */
#ifndef FOCI_OPS_MLP_GATE_BODY_H
#define FOCI_OPS_MLP_GATE_BODY_H

#include "ops/activate_body.h"
#include "ops/mlp/gate.h"
#include "simd/vec_rows.h"

static void gate_rows(const foci_gate_args *a, int64_t first, int64_t count)
{
    for (int64_t t = first; t < first + count; t++) {
        const float *gate = a->gate + t * a->gate_stride;
        const float *up = a->up ? a->up + t * a->up_stride : NULL;
        for (int64_t n = 0; n < a->F; n += VL) {
            const int64_t lanes = v_lanes(n, a->F);
            vec y = activate(a->activation, v_load_lanes(gate + n, lanes));
            if (up) y = v_mul(y, v_load_lanes(up + n, lanes));
            v_store_lanes(a->out, a->out_dtype, t * a->out_stride + n, y, lanes);
        }
    }
}

#endif /* FOCI_OPS_MLP_GATE_BODY_H */
