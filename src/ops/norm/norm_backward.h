/* The gradient of RMSNorm and LayerNorm (docs/MATH.md, 4.1). */
#ifndef FOCI_OPS_NORM_NORM_BACKWARD_H
#define FOCI_OPS_NORM_NORM_BACKWARD_H

#include "ops/norm/norm.h"

/* T tokens, each H rows of `width`, as forward had them; the statistics are computed again. */
typedef struct foci_norm_backward_args {
    foci_norm_kind kind;
    int32_t T, H, width; /* H 0: 1 */
    const float *x;      /* (T, H, width) what forward read */
    int64_t x_stride;    /* floats from token to token; 0: H width */
    const float *weight; /* (width); NULL: 1 */
    float weight_offset;
    float epsilon;
    const float *dy; /* (T, H, width) the gradient of forward's out */
    int64_t dy_stride;
    float *dx; /* (T, H, width); may be dy, with the same stride; NULL: not wanted */
    int64_t dx_stride;
    bool adds;      /* dx += instead of dx = : what goes around the norm is there already */
    float *dweight; /* (width) += , summed over tokens and heads; NULL: not wanted */
    float *dbias;   /* (width) += ; NULL: not wanted */
} foci_norm_backward_args;

/* Sums over rows are made of pieces that the shape fixes, joined in order: the same bits at any
 * thread count. A NaN stays in its row of dx, but reaches every column of dweight. A row whose
 * squares are beyond float32 is constant, so its dx is 0. FOCAL_EINVAL on a bad shape, FOCAL_ENOMEM
 * without scratch: then nothing was written. */
focal_status foci_norm_backward(focal_ctx *ctx, const foci_norm_backward_args *args);

/* Checks the call and fills in H and the strides. */
focal_status foci_norm_backward_normalise(focal_ctx *ctx, const foci_norm_backward_args *args,
                                          foci_norm_backward_args *normal);

/* What kernels take: rows come in whole pieces, and piece n sums its rows' part of dweight and
 * dbias into row n of the two arrays, each NULL where it is not wanted. */
typedef struct foci_norm_backward_call {
    foci_norm_backward_args args;
    int64_t piece;             /* rows */
    float *dweights, *dbiases; /* (pieces, width) */
} foci_norm_backward_call;

extern const foci_rows_op foci_norm_backward_op;
/* A normalised call by this kernel. */
focal_status foci_norm_backward_by(focal_ctx *ctx, const foci_rows_kernel *kernel,
                                   const foci_norm_backward_args *normal);

void foci_norm_backward_ref(const void *call, int64_t first, int64_t count);
void foci_norm_backward_avx2(const void *call, int64_t first, int64_t count);
void foci_norm_backward_avx512(const void *call, int64_t first, int64_t count);

#endif /* FOCI_OPS_NORM_NORM_BACKWARD_H */
