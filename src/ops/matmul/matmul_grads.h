/* Gradients of the linear product y = x w^T + bias, given dy: themselves products, one over the
 * outputs and one over the rows. */
#ifndef FOCI_OPS_MATMUL_MATMUL_GRADS_H
#define FOCI_OPS_MATMUL_MATMUL_GRADS_H

#include "focal/base.h"

/* dx (M,K) = dy w [+ dx]. dy and w are to each other as x and w in foci_matmul(): its types, its
 * rounding, w of every type as it lies in a file, dx overlapping neither. */
typedef struct foci_matmul_dx_args {
    int64_t M, N, K;
    const void *dy;       /* (M,N) */
    focal_dtype dy_dtype; /* float32, or bfloat16: the fast one */
    int64_t dy_stride;    /* elements from row to row, at least N */
    const void *w;        /* (N,K), rows one behind the other */
    focal_dtype w_dtype;
    bool w_is_transposed; /* w is (K,N) instead */
    bool w_is_interleaved;
    bool adds;            /* dx += instead of dx = */
    void *dx;             /* (M,K) */
    focal_dtype dx_dtype; /* float32 or bfloat16 */
    int64_t dx_stride;    /* at least K */
} foci_matmul_dx_args;

/* dw (N,K) = dy^T x [+ dw], dbias (N) = the sum of dy's rows [+ dbias]. Products of bfloat16 are
 * exact, sums float32. dw and dbias overlap nothing else. */
typedef struct foci_matmul_dw_args {
    int64_t M, N, K;
    focal_dtype dtype;     /* of dy and x: float32, or bfloat16: the fast one */
    const void *dy;        /* (M,N) */
    int64_t dy_stride;     /* elements from row to row, at least N */
    const void *x;         /* (M,K) */
    int64_t x_stride;      /* at least K */
    bool adds;             /* to dw and dbias */
    float *dw;             /* (N,K), rows one behind the other */
    bool dw_is_transposed; /* dw is (K,N) instead */
    float *dbias;          /* (N) or NULL */
} foci_matmul_dw_args;

/* Run the kernels of foci_matmul(); no bit depends on the number of threads.
 * Fail with FOCAL_EINVAL on a bad shape or a missing tensor, FOCAL_ENOMEM without scratch,
 * FOCAL_EUNSUPPORTED when the pinned kernel cannot; what the gradients then contain is
 * unspecified. */
focal_status foci_matmul_dx(focal_ctx *ctx, const foci_matmul_dx_args *args);
focal_status foci_matmul_dw(focal_ctx *ctx, const foci_matmul_dw_args *args);

#endif /* FOCI_OPS_MATMUL_MATMUL_GRADS_H */
