/* What stands between the two products of a feed-forward layer (docs/MATH.md, 4.3). */
#ifndef FOCI_OPS_MLP_GATE_H
#define FOCI_OPS_MLP_GATE_H

#include "focal/base.h"
#include "ops/activation.h"
#include "ops/rows.h"

typedef struct foci_gate_args {
    foci_activation activation;
    int32_t T, F;
    const float *gate; /* (T, F) */
    const float *up;   /* (T, F); NULL: out = activation(gate). The halves of one array: a stride
                          of 2 F, and up = gate + F */
    int64_t gate_stride, up_stride; /* 0: F */
    void *out;                      /* (T, F); may be gate or up, float32 with the same stride */
    focal_dtype out_dtype;          /* float32 or bfloat16 */
    int64_t out_stride;
} foci_gate_args;

/* out = activation(gate) * up. silu is within 2 units in the last place of the exact one rounded to
 * float32, gelu within 6; gelu_tanh within 2 for x >= 0, else within 1.2e-7 |x|: the error of its
 * exponent grows with it, where PyTorch's own loses all digits. */
focal_status foci_gate(focal_ctx *ctx, const foci_gate_args *args);

/* Checks the call and fills in the strides; kernels take what comes out. */
focal_status foci_gate_normalise(focal_ctx *ctx, const foci_gate_args *args,
                                 foci_gate_args *normal);
extern const foci_rows_op foci_gate_op;

void foci_gate_ref(const void *args, int64_t first, int64_t count);
void foci_gate_avx2(const void *args, int64_t first, int64_t count);
void foci_gate_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_MLP_GATE_H */
