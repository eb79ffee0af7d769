/* Reference activations: one element at a time, in double. */
#include <math.h>

#include "ops/mlp/gate.h"

/* The limits at -infinity are 0, where the formulas would multiply it by 0. */
static double activate(foci_activation activation, double x)
{
    const double root = 0.79788456080286535588; /* sqrt(2 / pi) */
    if (x == -HUGE_VAL) return 0.0;
    switch (activation) {
    case FOCI_GELU:
        return 0.5 * x * erfc(-x * sqrt(0.5));
    case FOCI_GELU_TANH:
        return x / (1.0 + exp(-2.0 * root * (x + 0.044715 * x * x * x)));
    default:
        return x / (1.0 + exp(-x));
    }
}

void foci_gate_ref(const void *args, int64_t first, int64_t count)
{
    const foci_gate_args *a = args;
    for (int64_t t = first; t < first + count; t++)
        for (int64_t n = 0; n < a->F; n++) {
            double y = activate(a->activation, (double)a->gate[t * a->gate_stride + n]);
            if (a->up) y *= (double)a->up[t * a->up_stride + n];
            foci_rows_put(a->out, a->out_dtype, t * a->out_stride + n, y);
        }
}
