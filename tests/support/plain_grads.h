/* Gradients of the small operations as plain float32 loops: what a kernel's error is measured
 * against. */
#ifndef FOCAL_TESTS_PLAIN_GRADS_H
#define FOCAL_TESTS_PLAIN_GRADS_H

#include "ops/mlp/gate_backward.h"
#include "ops/norm/norm_backward.h"

/* Of a call with its defaults filled in; dx (T, H, width) is packed and written, dweight and dbias
 * (width) are sums from 0. */
void plain_norm_backward(const foci_norm_backward_args *a, float *dx, float *dweight, float *dbias);

/* dgate and dup (T, F), packed; dup is not written where there is no up. */
void plain_gate_backward(const foci_gate_backward_args *a, float *dgate, float *dup);

#endif /* FOCAL_TESTS_PLAIN_GRADS_H */
