/* The first half of a feed-forward layer: products that an activation joins. */
#ifndef FOCI_OPS_GATED_H
#define FOCI_OPS_GATED_H

#include "ops/activation.h"
#include "ops/matmul/matmul.h"

/* out of args[0] = activation(product 0) * product 1, or without the second factor when count is 1.
 * Both products are of one x and have the same N; where the second would go is not looked at, and
 * neither adds. The bits are those of the products in float32 and foci_gate().
 * Fails as foci_matmul() does. */
focal_status foci_matmul_gated(focal_ctx *ctx, const foci_matmul_args *args, int32_t count,
                               foci_activation activation);

#endif /* FOCI_OPS_GATED_H */
