/* Reference gradient of gates: one element at a time, in double. */
#include <math.h>

#include "ops/mlp/gate_backward.h"

static const double root = 0.79788456080286535588;    /* sqrt(2 / pi) */
static const double density = 0.39894228040143267794; /* 1 / sqrt(2 pi) */

/* S of (4.3.5) and (4.3.7), or Phi. */
static double level(foci_activation activation, double x)
{
    switch (activation) {
    case FOCI_GELU:
        return 0.5 * erfc(-x * sqrt(0.5));
    case FOCI_GELU_TANH:
        return 1.0 / (1.0 + exp(-2.0 * root * (x + 0.044715 * x * x * x)));
    default:
        return 1.0 / (1.0 + exp(-x));
    }
}

/* (4.3.5) to (4.3.7). Far from 0 it is 0 or 1, where the formulas would multiply infinities by 0.
 */
static double slope(foci_activation activation, double x)
{
    const double s = level(activation, x);
    if (fabs(x) > 1000.0) return s;
    switch (activation) {
    case FOCI_GELU:
        return s + x * density * exp(-0.5 * x * x);
    case FOCI_GELU_TANH:
        return s + x * s * level(activation, -x) * 2.0 * root * (1.0 + 3.0 * 0.044715 * x * x);
    default:
        return s + x * s * level(activation, -x);
    }
}

void foci_gate_backward_ref(const void *args, int64_t first, int64_t count)
{
    const foci_gate_backward_args *a = args;
    for (int64_t t = first; t < first + count; t++)
        for (int64_t n = 0; n < a->F; n++) {
            const double x = (double)a->gate[t * a->gate_stride + n];
            const double up = a->up ? (double)a->up[t * a->up_stride + n] : 1.0;
            const double dout = (double)a->dout[t * a->dout_stride + n];
            const double active = x == -HUGE_VAL ? 0.0 : x * level(a->activation, x);
            foci_rows_put(a->dgate, a->dtype, t * a->dgate_stride + n,
                          dout * up * slope(a->activation, x));
            if (a->dup) foci_rows_put(a->dup, a->dtype, t * a->dup_stride + n, dout * active);
            if (a->hidden)
                foci_rows_put(a->hidden, a->hidden_dtype, t * a->hidden_stride + n,
                              a->up ? active * up : active);
        }
}
