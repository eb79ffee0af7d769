/* One call of a kernel for one instruction set: by integers where they serve, else by tiles.
 * Included after the two bodies. */
#ifndef FOCI_OPS_MATMUL_MATMUL_RUN_BODY_H
#define FOCI_OPS_MATMUL_MATMUL_RUN_BODY_H

#include "ops/matmul/matmul_body.h"
#include "ops/matmul/matmul_bytes_body.h"

static focal_status run(focal_ctx *ctx, const foci_matmul_args *args)
{
    const bool is_read = !args->w_is_interleaved || READS_INTERLEAVED;
    return foci_takes_bytes(args) && is_read ? multiply_bytes(ctx, args, 1) : multiply(ctx, args);
}

#endif /* FOCI_OPS_MATMUL_MATMUL_RUN_BODY_H */
