/* The small operations as plain float32 loops: what a kernel's error is measured against. */
#ifndef FOCAL_TESTS_PLAIN_OPS_H
#define FOCAL_TESTS_PLAIN_OPS_H

#include "ops/mlp/gate.h"
#include "ops/norm/norm.h"
#include "ops/rope/rope.h"

/* Of a call with its defaults filled in; out is packed float32. */
void plain_norm(const foci_norm_args *a, float *out);
void plain_rope(const foci_rope_args *a, float *out);
void plain_gate(const foci_gate_args *a, float *out);
void plain_log_softmax(int64_t V, const float *x, float *log_probs);
float plain_soft_cap(float x, float cap);

#endif /* FOCAL_TESTS_PLAIN_OPS_H */
