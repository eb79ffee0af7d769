/* One step of Muon for a matrix of weights: its momentum, made nearly orthogonal by five
 * Newton-Schulz steps, is what the weights move by (docs/MATH.md, 5.3). */
#ifndef FOCI_OPS_MUON_MUON_H
#define FOCI_OPS_MUON_MUON_H

#include "focal/base.h"

/* out (M,N) = x w^T, or x w where w is (K,N); rows of x and w lie one behind the other. */
typedef struct foci_muon_factors {
    int64_t M, N, K;
    focal_dtype dtype;    /* of x and w: float32 or bfloat16 */
    const void *x;        /* (M,K) */
    const void *w;        /* (N,K) */
    bool w_is_transposed; /* w is (K,N) instead */
    float *out;           /* (M,N), sums in float32 */
    int64_t out_stride;   /* elements from row to row, at least N */
} foci_muon_factors;

/* The product of the caller's choice; nearly all the time goes there. */
typedef focal_status (*foci_muon_multiply)(focal_ctx *ctx, const foci_muon_factors *factors);

/* What the orthogonal matrix is multiplied by beside the rate. */
typedef enum foci_muon_rule {
    FOCI_MUON_AS_ADAMW, /* 0.2 sqrt(max(rows, cols)): as large as AdamW's step, whose rate it shares
                         */
    FOCI_MUON_BY_SHAPE  /* sqrt(max(1, rows / cols)) */
} foci_muon_rule;

/* Arrays are (rows, cols), packed, belong to the caller and do not overlap. A NaN or infinity in
 * the gradient or the momentum makes every weight NaN: foci_sum_squares finds it before. A gradient
 * whose norm is below 1e-30 moves nothing but the decay. */
typedef struct foci_muon_args {
    int32_t rows, cols; /* outputs and inputs of the layer */
    float *weights;     /* the masters */
    float *gradient;    /* read; set to 0 where is_cleared */
    float *momentum;    /* 0 before the first step */
    uint16_t *rounded;  /* the new weights in bfloat16, nearest even; or NULL */
    bool is_cleared;
    bool is_plain; /* the momentum itself, not Nesterov's look ahead */
    foci_muon_rule rule;
    focal_dtype dtype;  /* of the factors: bfloat16 is enough, float32 follows the definition */
    double rate, decay; /* learning rate and decoupled weight decay, 0 or above */
    double beta;        /* of the momentum: 0 or above, below 1 */
    double factor;      /* multiplies the gradient: 1, or less where it is clipped */
    foci_muon_multiply multiply;
} foci_muon_args;

/* The same bits at any thread count when multiply has them. FOCAL_EINVAL on a bad call and
 * FOCAL_ENOMEM without scratch (about five times the matrix), before anything is written; a failure
 * of multiply leaves the weights as they were, the momentum advanced and the gradient read. */
focal_status foci_muon(focal_ctx *ctx, const foci_muon_args *args);

#endif /* FOCI_OPS_MUON_MUON_H */
