/* Log-probabilities of rows of logits, the loss of target ids, and the likeliest ids
 * (docs/MATH.md, 4.4). */
#ifndef FOCI_OPS_LOSS_LOSS_H
#define FOCI_OPS_LOSS_LOSS_H

#include "focal/base.h"
#include "ops/rows.h"

enum { FOCI_LOSS_NO_TARGET = -1, FOCI_LOSS_MAX_TOP = 100 };

/* A row whose largest logit is infinite, or that holds NaN, has NaN for every result. */
typedef struct foci_loss_args {
    int32_t T, V;
    const float *logits;    /* (T, V) */
    int64_t logits_stride;  /* 0: V */
    const int32_t *targets; /* (T) ids below V, or FOCI_LOSS_NO_TARGET; NULL: none */
    double *nll;            /* (T) minus the target's log-probability, 0 without target; or NULL */
    double *lse;            /* (T) log of the sum of e^logit; or NULL */
    float *log_probs;       /* (T, V), may be logits, with the same stride; or NULL */
    int64_t log_probs_stride;
} foci_loss_args;

/* Exponentials in float32, their sum in double. FOCAL_EINVAL on a bad shape or target, before
 * anything is written. */
focal_status foci_log_softmax_rows(focal_ctx *ctx, const foci_loss_args *args);

/* Checks the call and fills in the strides; kernels take what comes out. */
focal_status foci_loss_normalise(focal_ctx *ctx, const foci_loss_args *args,
                                 foci_loss_args *normal);
extern const foci_rows_op foci_loss_op;

typedef struct foci_top_args {
    int32_t T, V;
    const float *logits; /* (T, V) */
    int64_t logits_stride;
    int32_t top;      /* 1 to FOCI_LOSS_MAX_TOP, at most V */
    int32_t *ids;     /* (T, top) likeliest first, ties to the lower id, NaN last */
    float *log_probs; /* (T, top) */
} foci_top_args;

/* FOCAL_ENOMEM without scratch for T numbers. */
focal_status foci_top_log_probs(focal_ctx *ctx, const foci_top_args *args);

void foci_loss_ref(const void *args, int64_t first, int64_t count);
void foci_loss_avx2(const void *args, int64_t first, int64_t count);
void foci_loss_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_LOSS_LOSS_H */
