/* Rows of weights of any type as float32 or bfloat16: what quant offers to the operations that read
 * weights. */
#ifndef FOCI_OPS_EXPAND_H
#define FOCI_OPS_EXPAND_H

#include "focal/base.h"

/* can: whether the machine has what the kernel needs. The others write the values of count elements
 * (whole blocks of a known type, at any address) as float32, or the same floats rounded to
 * bfloat16. Every kernel writes the same bits, except for which NaN stands where a scale is NaN or
 * infinite. */
typedef struct foci_quant_kernel {
    const char *name;
    bool (*can)(const focal_ctx *ctx);
    void (*to_f32)(focal_dtype dtype, const void *from, int64_t count, float *to);
    void (*to_bf16)(focal_dtype dtype, const void *from, int64_t count, uint16_t *to);
} foci_quant_kernel;

/* The first kernel in the table that is allowed and can; NULL when the pinned one cannot. */
const foci_quant_kernel *foci_quant_pick(const focal_ctx *ctx);

#endif /* FOCI_OPS_EXPAND_H */
