/* The gradient of the rotation of queries and keys (docs/MATH.md, 4.2). */
#ifndef FOCI_OPS_ROPE_ROPE_BACKWARD_H
#define FOCI_OPS_ROPE_ROPE_BACKWARD_H

#include "ops/rope/rope.h"

/* T tokens, each H heads of D, and the angles, scales and row_scales of the forward call. */
typedef struct foci_rope_backward_args {
    int32_t T, H, D, rotated;
    foci_rope_style style;
    const float *cos, *sin; /* (T, rotated / 2); NULL when nothing turns */
    float scale;            /* 0: 1 */
    const float *row_scales;
    bool has_head_scales;
    const void *dout;       /* (T, H, D) the gradient of forward's out */
    focal_dtype dout_dtype; /* float32 or bfloat16 */
    int64_t dout_stride;    /* elements from token to token; 0: H D */
    void *dx;               /* (T, H, D); may be dout, of the same type and stride */
    focal_dtype dx_dtype;   /* float32 or bfloat16 */
    int64_t dx_stride;
    /* What a temperature's gradient is made of: dots (T, H) = out . dout, head by head. */
    const void *out; /* (T, H, D) what forward wrote, of dout's type; NULL: no dots */
    int64_t out_stride;
    float *dots; /* NULL exactly where out is */
} foci_rope_backward_args;

/* dx is the rotation of dout by minus the angle, times the scales. FOCAL_EINVAL on a bad shape. */
focal_status foci_rope_backward(focal_ctx *ctx, const foci_rope_backward_args *args);

/* Checks the call and fills in strides and scale; kernels take what comes out. */
focal_status foci_rope_backward_normalise(focal_ctx *ctx, const foci_rope_backward_args *args,
                                          foci_rope_backward_args *normal);
extern const foci_rows_op foci_rope_backward_op;

void foci_rope_backward_ref(const void *args, int64_t first, int64_t count);
void foci_rope_backward_avx2(const void *args, int64_t first, int64_t count);
void foci_rope_backward_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_ROPE_ROPE_BACKWARD_H */
