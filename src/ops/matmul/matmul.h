/* The product of all linear layers, with weights of every type as they lie in a file. */
#ifndef FOCI_OPS_MATMUL_MATMUL_H
#define FOCI_OPS_MATMUL_MATMUL_H

#include "focal/base.h"

/* out (M,N) = x w^T [+ bias] [+ out].
 *
 * x float32 is the exact path: weights become float32, products and sums are float32. x bfloat16 is
 * the fast one: weights are rounded to bfloat16 (nothing is lost when they are), products are
 * exact, sums float32. rounds_x is the fastest where weights are quantised: x may be rounded to
 * whole numbers, and runs of elements are then multiplied and summed exactly, as integers, and
 * scaled in float32. float32 x, which is for few rows, is rounded to 16 bits, one scale for each 32
 * elements; bfloat16 x of more than FOCI_MATMUL_FEW rows to 8 bits, one for each 16, by kernels
 * that multiply bytes much faster than bfloat16 (docs/adr/0012). A row of w as it lies holds whole
 * blocks of its type; its bytes may lie at any address. x, bias and out lie at a multiple of
 * their element and belong to the caller; out overlaps neither x nor w, though rows of x and out
 * may alternate in one buffer of the same stride in bytes. */
typedef struct foci_matmul_args {
    int64_t M, N, K;
    const void *x; /* (M,K) */
    focal_dtype x_dtype;
    int64_t x_stride;     /* elements from row to row as they lie, at least a row */
    bool x_is_transposed; /* x is (K,M) instead */
    bool rounds_x;
    const void *w; /* (N,K) */
    focal_dtype w_dtype;
    bool w_is_transposed;  /* w is (K,N) instead */
    bool w_is_interleaved; /* its rows, as they lie, in the order of ops/interleave.h */
    int64_t w_stride;      /* as x_stride, whole blocks; 0: rows one behind the other */
    const float *bias;     /* (N) or NULL */
    bool adds;             /* out += instead of out = */
    void *out;             /* (M,N) */
    focal_dtype out_dtype;
    int64_t out_stride; /* at least N */
} foci_matmul_args;

/* The bits of a row depend neither on the number of threads nor on what the other rows hold. Up to
 * FOCI_MATMUL_FEW rows they do not depend on how many there are either: decoding alone and in
 * company is the same.
 * Fails with FOCAL_EINVAL on a bad shape or a missing tensor, FOCAL_ENOMEM without scratch,
 * FOCAL_EUNSUPPORTED when the pinned kernel cannot; what out then contains is unspecified. */
focal_status foci_matmul(focal_ctx *ctx, const foci_matmul_args *args);

/* Several products of one x (same M, K, x, x_dtype and x_stride), all at once where a kernel can,
 * with the bits of one after the other. Outputs must not overlap. */
focal_status foci_matmul_several(focal_ctx *ctx, const foci_matmul_args *args, int32_t count);

/* Whether few rows of x, rounded, meet (N,K) weights of this type faster when these are
 * interleaved. */
bool foci_matmul_wants_interleaved(const focal_ctx *ctx, focal_dtype dtype, int64_t N, int64_t K);

enum { FOCI_MATMUL_FEW = 64, FOCI_MATMUL_SEVERAL = 4 };

#endif /* FOCI_OPS_MATMUL_MATMUL_H */
