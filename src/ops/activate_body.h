/* Activations of a vector for one instruction set, included after a dialect: for gates, and for
 * products that end in one. */
#ifndef FOCI_OPS_ACTIVATE_BODY_H
#define FOCI_OPS_ACTIVATE_BODY_H

#include "ops/activation.h"
#include "simd/vec_math.h"

static inline vec silu(vec x)
{
    return v_over_one_plus_exp(x, v_sub(v_zero(), x));
}

/* max(x, 0) - |x| times the tail: nothing cancels on either side of 0. */
static inline vec gelu(vec x)
{
    const vec size = v_min(v_set1(20.0F), v_abs(x)); /* the tail is 0 there, infinity not */
    return v_sub(v_max(x, v_zero()), v_mul(size, v_normal_tail(size)));
}

/* (1 + tanh u) / 2 = 1 / (1 + e^(-2u)), which does not cancel for negative u. */
static inline vec gelu_tanh(vec x)
{
    const vec linear = v_set1(-1.59576912F), cubic = v_set1(-0.0713548163F);
    return v_over_one_plus_exp(x, v_mul(x, v_fma(v_mul(x, x), cubic, linear)));
}

static inline vec activate(foci_activation activation, vec x)
{
    if (activation == FOCI_SILU) return silu(x);
    return activation == FOCI_GELU ? gelu(x) : gelu_tanh(x);
}

#endif /* FOCI_OPS_ACTIVATE_BODY_H */
