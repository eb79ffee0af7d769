/* Gradients of losses with respect to rows of logits: the cross-entropy of target ids with an
 * optional z-loss, and the divergence of a student from its teacher (docs/MATH.md, 4.4). Rows
 * may be any part of the (positions, V) array: a caller goes through it in chunks. */
#ifndef FOCI_OPS_LOSS_LOSS_BACKWARD_H
#define FOCI_OPS_LOSS_LOSS_BACKWARD_H

#include "focal/base.h"
#include "ops/rows.h"

/* A row without a target adds nothing: it is not read, its gradient, nll and lse are 0. A row whose
 * largest logit is infinite, or that holds NaN, has NaN for every result; other rows do not see it.
 * The loss of a row is scale (nll + z lse^2), which a caller sums from nll and lse. */
typedef struct foci_loss_backward_args {
    int32_t T, V;
    const float *logits;    /* (T, V), soft-capped already where soft_cap is not 0 */
    int64_t logits_stride;  /* 0: V */
    const int32_t *targets; /* (T) ids below V, or FOCI_LOSS_NO_TARGET */
    double scale;           /* of every row's loss: 1 / positions, say */
    double z;               /* coefficient of lse^2; 0: no z-loss */
    float soft_cap;         /* the gradient is that before the cap (4.5.2); 0: there is none */
    void *dlogits;          /* (T, V) written; float32 may be logits, with the same stride */
    focal_dtype dlogits_dtype;
    int64_t dlogits_stride; /* 0: V */
    double *nll;            /* (T) or NULL */
    double *lse;            /* (T) or NULL */
} foci_loss_backward_args;

/* Exponentials in float32, their sum in double, the target's own element in double. FOCAL_EINVAL on
 * a bad shape, target or number, before anything is written. */
focal_status foci_loss_backward(focal_ctx *ctx, const foci_loss_backward_args *args);

/* KL(teacher || student) of each row and the gradient with respect to the student's logits. A logit
 * of minus infinity is probability 0: the teacher's adds nothing, the student's makes the
 * divergence infinite where the teacher's is not 0. NaN as above, from either. */
typedef struct foci_kl_args {
    int32_t T, V;
    const float *teacher; /* (T, V) logits */
    const float *student; /* (T, V) logits; both soft-capped already where soft_cap is not 0 */
    int64_t teacher_stride, student_stride; /* 0: V */
    double scale;                           /* of the gradient */
    float soft_cap;                         /* as above; 0: none */
    void *dlogits;                          /* (T, V) written; float32 may be student */
    focal_dtype dlogits_dtype;
    int64_t dlogits_stride;
    double *kl; /* (T), without scale; or NULL */
} foci_kl_args;

focal_status foci_kl_backward(focal_ctx *ctx, const foci_kl_args *args);

/* Check the call and fill in the strides; kernels take what comes out. */
focal_status foci_loss_backward_normalise(focal_ctx *ctx, const foci_loss_backward_args *args,
                                          foci_loss_backward_args *normal);
focal_status foci_kl_normalise(focal_ctx *ctx, const foci_kl_args *args, foci_kl_args *normal);
extern const foci_rows_op foci_loss_backward_op, foci_kl_op;

void foci_loss_backward_ref(const void *args, int64_t first, int64_t count);
void foci_loss_backward_avx2(const void *args, int64_t first, int64_t count);
void foci_loss_backward_avx512(const void *args, int64_t first, int64_t count);
void foci_kl_ref(const void *args, int64_t first, int64_t count);
void foci_kl_avx2(const void *args, int64_t first, int64_t count);
void foci_kl_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_LOSS_LOSS_BACKWARD_H */
