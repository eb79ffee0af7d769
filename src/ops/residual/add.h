/* The sum of two tensors: where a layer's result joins what went around it. */
#ifndef FOCI_OPS_RESIDUAL_ADD_H
#define FOCI_OPS_RESIDUAL_ADD_H

#include "focal/base.h"

/* out = a + b, `count` elements each (0 is fine). out may be a or b; otherwise nothing overlaps. */
focal_status foci_add(focal_ctx *ctx, float *out, const float *a, const float *b, int64_t count);

#endif /* FOCI_OPS_RESIDUAL_ADD_H */
