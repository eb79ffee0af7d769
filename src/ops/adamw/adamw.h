/* One step of AdamW over an array of parameters, in one pass (docs/MATH.md, 5.2). */
#ifndef FOCI_OPS_ADAMW_ADAMW_H
#define FOCI_OPS_ADAMW_ADAMW_H

#include "focal/base.h"
#include "ops/rows.h"

/* Arrays have count elements, belong to the caller and do not overlap. Each element is on its own:
 * a NaN or infinity in the gradient spoils its element, for good, and no other (foci_sum_squares
 * finds them before). A gradient whose square overflows float32 stops its element: the second
 * moment becomes infinite. */
typedef struct foci_adamw_args {
    int64_t count;         /* 0 is fine */
    float *weights;        /* the masters */
    float *gradient;       /* read; set to 0 where is_cleared */
    float *first, *second; /* moments, 0 before the first step */
    uint16_t *rounded;     /* the new weights in bfloat16, nearest even; or NULL */
    bool is_cleared;       /* the next step's gradients are added to 0: saves a pass */
    int64_t step;          /* which step this is, from 1 */
    double rate;           /* learning rate of this step, 0 or above */
    double beta1, beta2;   /* 0 or above, below 1 */
    double epsilon;        /* above 0 also as a float */
    double decay;          /* decoupled weight decay, 0 for none */
    double factor;         /* multiplies the gradient: 1, or less where it is clipped */
} foci_adamw_args;

/* float32, the same bits at any thread count; avx2 and avx512 agree to the bit, ref computes in
 * double and rounds what it stores. FOCAL_EINVAL on a bad call, before anything is written. */
focal_status foci_adamw(focal_ctx *ctx, const foci_adamw_args *args);

/* The numbers that a step needs beside the arrays, in the words of (5.2.3). */
typedef struct foci_adamw_pass {
    foci_adamw_args args;
    double step_rate;   /* rate / (1 - beta1^step) */
    double root_factor; /* 1 / sqrt(1 - beta2^step) */
    double shrink;      /* rate decay */
} foci_adamw_pass;

/* Checks the call and makes the numbers; kernels take what comes out. An element is a row. */
focal_status foci_adamw_prepare(focal_ctx *ctx, const foci_adamw_args *args, foci_adamw_pass *pass);
extern const foci_rows_op foci_adamw_op;

void foci_adamw_ref(const void *args, int64_t first, int64_t count);
void foci_adamw_avx2(const void *args, int64_t first, int64_t count);
void foci_adamw_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_ADAMW_ADAMW_H */
