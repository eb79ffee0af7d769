/* What LoRA adds to a linear layer: y += scale B (A x), with few rows of A. The layer's own
 * weights, of whatever type, stay as they are and are not expanded. */
#ifndef FOCI_MODEL_LOW_RANK_H
#define FOCI_MODEL_LOW_RANK_H

#include "focal/base.h"

/* The linear layers of a transformer's layer. */
typedef enum foci_linear_place {
    FOCI_LINEAR_QKV, /* side by side, in place of the next three */
    FOCI_LINEAR_Q,
    FOCI_LINEAR_K,
    FOCI_LINEAR_V,
    FOCI_LINEAR_OUT,
    FOCI_LINEAR_GATE,
    FOCI_LINEAR_UP,
    FOCI_LINEAR_DOWN,
    FOCI_LINEAR_PLACES
} foci_linear_place;

typedef struct foci_low_rank {
    float *a; /* (rank,K); NULL: nothing is added here */
    float *b; /* (N,rank) */
    int32_t N, K, rank;
    float scale;
} foci_low_rank;

/* ---- All that a model gets ---- */

enum { FOCI_MAX_LOW_RANK = 1 << 16 };

/* Outputs and inputs of a layer that gets an addition; N 0: it gets none. */
typedef struct foci_low_rank_size {
    int32_t N, K;
} foci_low_rank_size;

typedef struct foci_low_ranks_shape {
    int32_t L, rank;
    double alpha;
    bool is_root_scaled; /* scale = alpha / sqrt(rank) instead of alpha / rank */
    const foci_low_rank_size (*sizes)[FOCI_LINEAR_PLACES]; /* (L) */
} foci_low_ranks_shape;

typedef struct foci_low_ranks {
    int32_t L, rank;
    double alpha;
    bool is_root_scaled;
    foci_low_rank (*layers)[FOCI_LINEAR_PLACES]; /* (L) */
    float *numbers; /* behind all of them: layer after layer, place after place, A and then B */
    int64_t number_count;
} foci_low_ranks;

/* All numbers 0. FOCAL_EINVAL with the number and its limit, or when nothing gets an addition;
 * FOCAL_ENOMEM. */
focal_status foci_low_ranks_new(focal_ctx *ctx, const foci_low_ranks_shape *shape,
                                foci_low_ranks **out);
focal_status foci_low_ranks_copy(focal_ctx *ctx, const foci_low_ranks *from, foci_low_ranks **out);
void foci_low_ranks_free(focal_ctx *ctx, foci_low_ranks *low_ranks); /* NULL is fine */

/* ---- Products ---- */

/* Rows of a call. x, dy and h_act are of dtype: float32, or bfloat16, where A and B are rounded to
 * it as the weights of all products are. */
typedef struct foci_low_rank_args {
    const foci_low_rank *low;
    int64_t T;
    focal_dtype dtype;
    const void *x;  /* (T,K) */
    const void *dy; /* (T,N) */
    int64_t dy_stride;
    float *h;    /* (T,rank) scratch */
    void *h_act; /* (T,rank) scratch; h itself in float32 */
} foci_low_rank_args;

/* out (T,N) += scale (x A^T) B^T. Reads x, writes h. */
focal_status foci_low_rank_forward(focal_ctx *ctx, const foci_low_rank_args *args, float *out,
                                   int64_t out_stride);
/* dx (T,K) += scale (dy B) A. Reads dy, writes h and h_act. */
focal_status foci_low_rank_dx(focal_ctx *ctx, const foci_low_rank_args *args, void *dx,
                              focal_dtype dx_dtype);
/* da (rank,K) += scale (dy B)^T x, db (N,rank) += scale dy^T (x A^T). Reads x and dy, writes h and
 * h_act. */
focal_status foci_low_rank_dw(focal_ctx *ctx, const foci_low_rank_args *args, float *da, float *db);

#endif /* FOCI_MODEL_LOW_RANK_H */
