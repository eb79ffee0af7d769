/* Temperatures of attention (docs/MATH.md, 2): the factor 1 / tau of each token's query, which rope
 * multiplies by (its row_scales), and the gradients of what a temperature is made of. */
#ifndef FOCI_OPS_TEMPERATURE_TEMPERATURE_H
#define FOCI_OPS_TEMPERATURE_TEMPERATURE_H

#include "focal/base.h"
#include "ops/rows.h"

typedef enum foci_temperature_kind {
    FOCI_TEMPERATURE_CONSTANT,      /* t */
    FOCI_TEMPERATURE_LEARNED,       /* t_i = clip(h_i . u + a, low, high) */
    FOCI_TEMPERATURE_LEARNED_PAPER, /* tau = clip(mean over the sequence of h_i . u, low, high) */
    FOCI_TEMPERATURE_PER_HEAD,      /* t_h = exp(lt_h) */
    FOCI_TEMPERATURE_LENGTH         /* t_i = t / (1 + c ln(max(1, (position + 1) / length))) */
} foci_temperature_kind;

/* The temperature of one layer; all zero is t = 1. What a kind does not name is not looked at. */
typedef struct foci_temperature {
    foci_temperature_kind kind;
    float t;         /* constant, length; 0: 1 */
    float low, high; /* learned: bounds of t, both 0: 0.2 and 1.2; paper: of tau, both 0: 0.442 root
                        and root. Gradients pass straight through */
    float c;         /* length; 0: 0.1 */
    float length;    /* length: tokens of the training context */
    const float *u;  /* (C) learned, paper */
    const float *a;  /* (1) learned */
    const float *lt; /* (H) per head */
    const bool *heads; /* (H) which heads have it, the others t = 1; NULL: all */
} foci_temperature;

/* True: factors are (T, H); false: (T), the same for all heads. */
bool foci_temperature_is_per_head(const foci_temperature *temperature);

/* T tokens of all sequences of the call, one behind the other. */
typedef struct foci_temperature_args {
    const foci_temperature *temperature;
    int32_t T, H, C;
    const void *h; /* (T, C) what the projections read; learned and paper, else not looked at */
    focal_dtype h_dtype;            /* float32 or bfloat16 */
    int64_t h_stride;               /* elements from token to token; 0: C */
    const int32_t *positions;       /* (T), each 0 or more, in its sequence; length only */
    const int32_t *sequence_starts; /* (sequence_count + 1) ascending from 0 to T, the first tokens
                                       of the sequences; paper only; NULL: one sequence */
    int32_t sequence_count;
    float root;     /* sqrt(D), or the model's own number in its place: tau = t root */
    float *factors; /* (T) or (T, H): 1 / tau. Backward reads what forward wrote */
} foci_temperature_args;

/* A NaN in h reaches the factor of its own token (paper: of its sequence) and no other.
 * FOCAL_EINVAL on a bad shape or parameter. */
focal_status foci_temperature_factors(focal_ctx *ctx, const foci_temperature_args *args);

/* What each is the gradient of says its name; all are added to, NULL: not wanted. Kinds without
 * that parameter leave it alone. */
typedef struct foci_temperature_grads {
    const float *dots; /* (T, H) q' . dq' of rope's backward */
    float *du;         /* (C) */
    float *da;         /* (1) */
    float *dlt;        /* (H) */
    float *dh;         /* (T, C) */
    int64_t dh_stride; /* floats from token to token; 0: C */
} foci_temperature_grads;

/* The same bits at any thread count. FOCAL_ENOMEM without scratch: then nothing was written. */
focal_status foci_temperature_backward(focal_ctx *ctx, const foci_temperature_args *args,
                                       const foci_temperature_grads *grads);

/* What the forward kernels take: products[t * products_stride] = h_t . u. */
typedef struct foci_temperature_products {
    int64_t C;
    const void *h;
    focal_dtype h_dtype;
    int64_t h_stride;
    const float *u;
    float *products;
    int64_t products_stride;
} foci_temperature_products;

/* What the backward kernels take: dh_t += slopes_t u, and piece n (whole pieces only) sums its
 * slopes_t h_t into row n of dus; dh, dus NULL: not wanted. */
typedef struct foci_temperature_spread {
    int64_t C;
    const void *h;
    focal_dtype h_dtype;
    int64_t h_stride;
    const float *u, *slopes; /* (C), (T) */
    float *dh;               /* (T, C) */
    int64_t dh_stride, piece;
    float *dus; /* (pieces, C) */
} foci_temperature_spread;

extern const foci_rows_op foci_temperature_op, foci_temperature_backward_op;

void foci_temperature_ref(const void *products, int64_t first, int64_t count);
void foci_temperature_avx2(const void *products, int64_t first, int64_t count);
void foci_temperature_avx512(const void *products, int64_t first, int64_t count);
void foci_temperature_backward_ref(const void *spread, int64_t first, int64_t count);
void foci_temperature_backward_avx2(const void *spread, int64_t first, int64_t count);
void foci_temperature_backward_avx512(const void *spread, int64_t first, int64_t count);

#endif /* FOCI_OPS_TEMPERATURE_TEMPERATURE_H */
