/* Attention as plain loops in float32: what an honest, unclever implementation loses to rounding.
 * Kernels may lose twice that (check.h). With bfloat16 the weights, and in backward the gradients
 * of the logits, are rounded to bfloat16 before they multiply, as dot products of that type
 * need; every sum is float32; results in bfloat16 are rounded once, at the end. */
#ifndef FOCAL_TESTS_PLAIN_ATTN_H
#define FOCAL_TESTS_PLAIN_ATTN_H

#include "focal/base.h"
#include "support/oracle_attn.h"

/* out: (T,H,Dv); lse: (T,H). */
void plain_attn_forward(const oracle_attn *a, focal_dtype dtype, float *out, float *lse);

typedef struct plain_attn_grads {
    float *dq, *dk, *dv, *dgq, *dgk; /* as in oracle_attn_grads; dgq and dgk may be NULL */
} plain_attn_grads;

/* out and lse as a forward left them; dout: (T,H,Dv), of values that dtype can hold. */
void plain_attn_backward(const oracle_attn *a, focal_dtype dtype, const float *out,
                         const float *lse, const double *dout, const plain_attn_grads *result);

#endif /* FOCAL_TESTS_PLAIN_ATTN_H */
