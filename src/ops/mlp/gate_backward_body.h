/* The gradient of gates for one instruction set: gate_avx2.c and gate_avx512.c include this after a
 * dialect. The activation itself is forward's own function, so that hidden has the same bits;
 * compilers see that its exponential is the one that the slope needs. */
#ifndef FOCI_OPS_MLP_GATE_BACKWARD_BODY_H
#define FOCI_OPS_MLP_GATE_BACKWARD_BODY_H

#include "ops/activate_body.h"
#include "ops/mlp/gate_backward.h"
#include "simd/vec_rows.h"

static inline vec hold(vec x, float most)
{
    return v_min(v_set1(most), v_max(v_set1(-most), x)); /* NaN passes */
}

/* S (1 + x (1 - S) slope) with S = 1 / (1 + e^y): (4.3.5), (4.3.7). */
static inline vec logistic_slope(vec x, vec y, vec slope)
{
    const vec one = v_set1(1.0F), most = v_set1(88.0F);
    vec n;
    const vec p = v_exp_parts(v_min(most, y), v_zero(), &n);
    const vec power = v_scale2(one, n);
    const vec s = v_div(one, v_fma(p, power, v_add(one, power)));
    const vec rest = v_mul(v_fma(p, power, power), s);
    const vec result = v_mul(s, v_fma(v_mul(x, rest), slope, one));
    return v_select(v_greater(y, most), v_zero(), result);
}

static inline vec silu_slope(vec x)
{
    return logistic_slope(hold(x, 128.0F), v_sub(v_zero(), x), v_set1(1.0F));
}

static inline vec gelu_tanh_slope(vec x)
{
    const vec linear = v_set1(-1.59576912F), cubic = v_set1(-0.0713548163F);
    const vec near = hold(x, 20.0F);
    const vec slope = v_fma(v_mul(near, near), v_set1(0.214064449F), v_set1(1.59576912F));
    return logistic_slope(near, v_mul(x, v_fma(v_mul(x, x), cubic, linear)), slope);
}

/* (4.3.6), with the tail of forward. */
static inline vec gelu_slope(vec x)
{
    const vec most = v_set1(20.0F), half = v_set1(-0.5F), size = v_min(most, v_abs(x));
    const vec tail = v_normal_tail(size), y = v_min(most, size);
    const vec level = v_select(v_greater(x, v_zero()), v_sub(v_set1(1.0F), tail), tail);
    const vec square = v_mul(y, y), lost = v_fma(y, y, v_sub(v_zero(), square));
    const vec power = v_exp_sum(v_mul(square, half), v_mul(lost, half));
    return v_fma(v_mul(hold(x, 20.0F), v_set1(0.398942280F)), power, level);
}

static inline vec slope_of(foci_activation activation, vec x)
{
    if (activation == FOCI_SILU) return silu_slope(x);
    return activation == FOCI_GELU ? gelu_slope(x) : gelu_tanh_slope(x);
}

/* (4.3.8) of row t. Everything is read before anything is written: results may lie in the place of
 * inputs. */
static inline void gate_backward_row(const foci_gate_backward_args *a, foci_activation activation,
                                     int64_t t)
{
    const float *gate = a->gate + t * a->gate_stride, *dout = a->dout + t * a->dout_stride;
    const float *up = a->up ? a->up + t * a->up_stride : NULL;
    for (int64_t n = 0; n < a->F; n += VL) {
        const int64_t lanes = v_lanes(n, a->F);
        const vec x = v_load_lanes(gate + n, lanes), d = v_load_lanes(dout + n, lanes);
        const vec active = activate(activation, x);
        vec dgate = v_mul(d, slope_of(activation, x)), hidden = active;
        if (up) {
            const vec u = v_load_lanes(up + n, lanes);
            hidden = v_mul(active, u);
            dgate = v_mul(dgate, u);
            v_store_lanes(a->dup, a->dtype, t * a->dup_stride + n, v_mul(d, active), lanes);
        }
        v_store_lanes(a->dgate, a->dtype, t * a->dgate_stride + n, dgate, lanes);
        if (a->hidden)
            v_store_lanes(a->hidden, a->hidden_dtype, t * a->hidden_stride + n, hidden, lanes);
    }
}

/* A loop for each activation: one that chooses inside cannot keep the constants of all three. */
static void gate_backward_rows(const foci_gate_backward_args *a, int64_t first, int64_t count)
{
    for (int64_t t = first; t < first + count; t++) {
        if (a->activation == FOCI_SILU)
            gate_backward_row(a, FOCI_SILU, t);
        else if (a->activation == FOCI_GELU)
            gate_backward_row(a, FOCI_GELU, t);
        else
            gate_backward_row(a, FOCI_GELU_TANH, t);
    }
}

#endif /* FOCI_OPS_MLP_GATE_BACKWARD_BODY_H */
