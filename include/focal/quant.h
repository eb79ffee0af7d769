/* Weights in GGUF's types: from blocks to float32, and from float32 to blocks. */
#ifndef FOCAL_QUANT_H
#define FOCAL_QUANT_H

#include "focal/base.h"

FOCAL_BEGIN_DECLS

/* to[0..count-1] = the values of count elements, which lie in whole blocks at any address. The
 * values are those of the gguf package, bit for bit; a block whose scale is infinite or NaN gives
 * infinities and NaN. FOCAL_EINVAL when the type is unknown, count is negative or not a whole
 * number of blocks, or a pointer is missing. Needs no context and may run on several threads. */
FOCAL_API focal_status focal_dequantize(focal_dtype dtype, const void *from, int64_t count,
                                        float *to);

/* Writes rows of width numbers, a whole number of blocks each, as packed blocks of that type. f16,
 * bf16, q8_0, q4_0, q4_1, q5_0 and q5_1 are those of llama.cpp bit for bit; the K types and iq4_nl
 * are searched for the least squared error. The same numbers give the same bytes at any thread
 * count. from and to do not overlap; `to` may have any address.
 * FOCAL_EINVAL, with the index, when a number is infinite or NaN, or so large that it or the scale
 * of its block would become infinite; what `to` then contains is unspecified. */
FOCAL_API focal_status focal_quantize(focal_ctx *ctx, focal_dtype dtype, const float *from,
                                      int64_t rows, int64_t width, void *to);

FOCAL_END_DECLS
#endif /* FOCAL_QUANT_H */
