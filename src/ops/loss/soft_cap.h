/* The soft-cap of final logits: cap tanh(x / cap), element by element (docs/MATH.md, 4.5). */
#ifndef FOCI_OPS_LOSS_SOFT_CAP_H
#define FOCI_OPS_LOSS_SOFT_CAP_H

#include "focal/base.h"
#include "ops/rows.h"

/* In place on `count` elements (0 is fine); cap is above 0, else FOCAL_EINVAL. */
focal_status foci_soft_cap(focal_ctx *ctx, float *x, int64_t count, float cap);

typedef struct foci_soft_cap_args {
    float *x;
    float cap;
} foci_soft_cap_args;

/* An element is a row. */
extern const foci_rows_op foci_soft_cap_op;

void foci_soft_cap_ref(const void *args, int64_t first, int64_t count);
void foci_soft_cap_avx2(const void *args, int64_t first, int64_t count);
void foci_soft_cap_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_LOSS_SOFT_CAP_H */
