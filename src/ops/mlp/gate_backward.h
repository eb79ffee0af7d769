/* The gradient of what stands between the two products of a feed-forward layer (docs/MATH.md, 4.3).
 */
#ifndef FOCI_OPS_MLP_GATE_BACKWARD_H
#define FOCI_OPS_MLP_GATE_BACKWARD_H

#include "ops/mlp/gate.h"

typedef struct foci_gate_backward_args {
    foci_activation activation;
    int32_t T, F;
    const float *gate;              /* (T, F) as forward had it */
    const float *up;                /* (T, F); NULL: forward had none */
    const float *dout;              /* (T, F) */
    int64_t gate_stride, up_stride; /* 0: F */
    int64_t dout_stride;
    void *dgate; /* (T, F) */
    void *dup;   /* (T, F); NULL exactly where up is. Beside dgate in one array: a stride of 2 F */
    focal_dtype dtype; /* of dgate and dup: float32 or bfloat16 */
    int64_t dgate_stride, dup_stride;
    void *hidden; /* (T, F) what forward wrote, once more, bit for bit; NULL: not wanted */
    focal_dtype hidden_dtype;
    int64_t hidden_stride;
} foci_gate_backward_args;

/* Each of dgate, dup and hidden may lie in the place of gate, up or dout, in float32 with the same
 * stride; otherwise nothing overlaps. The slopes of silu and gelu are within 4e-7 of the sizes of
 * their two terms; that of gelu_tanh is within 4e-7, because the error of its exponent grows with
 * it. FOCAL_EINVAL on a bad shape. */
focal_status foci_gate_backward(focal_ctx *ctx, const foci_gate_backward_args *args);

/* Checks the call and fills in the strides; kernels take what comes out. */
focal_status foci_gate_backward_normalise(focal_ctx *ctx, const foci_gate_backward_args *args,
                                          foci_gate_backward_args *normal);
extern const foci_rows_op foci_gate_backward_op;

void foci_gate_backward_ref(const void *args, int64_t first, int64_t count);
void foci_gate_backward_avx2(const void *args, int64_t first, int64_t count);
void foci_gate_backward_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_MLP_GATE_BACKWARD_H */
