/* Quantised types from inside: the kernels that expand blocks, the table that calls choose from,
 * and the quantisers of single blocks. */
#ifndef FOCI_OPS_QUANT_QUANT_KERNELS_H
#define FOCI_OPS_QUANT_QUANT_KERNELS_H

#include "focal/quant.h"
#include "ops/expand.h"

/* Fastest first; the last one runs everywhere. Tests walk this table. */
extern const foci_quant_kernel foci_quant_kernels[];
extern const size_t foci_quant_kernel_count;

/* focal_dequantize() with the context's fastest kernel, and its results rounded to bfloat16. Both
 * run on the calling thread and may be called from work items. */
focal_status foci_dequantize(focal_ctx *ctx, focal_dtype dtype, const void *from, int64_t count,
                             float *to);
focal_status foci_dequantize_bf16(focal_ctx *ctx, focal_dtype dtype, const void *from,
                                  int64_t count, uint16_t *to);

bool foci_quant_ref_can(const focal_ctx *ctx);
void foci_quant_ref_to_f32(focal_dtype dtype, const void *from, int64_t count, float *to);
void foci_quant_ref_to_bf16(focal_dtype dtype, const void *from, int64_t count, uint16_t *to);

bool foci_quant_avx2_can(const focal_ctx *ctx);
void foci_quant_avx2_to_f32(focal_dtype dtype, const void *from, int64_t count, float *to);
void foci_quant_avx2_to_bf16(focal_dtype dtype, const void *from, int64_t count, uint16_t *to);

bool foci_quant_avx512_can(const focal_ctx *ctx);
void foci_quant_avx512_to_f32(focal_dtype dtype, const void *from, int64_t count, float *to);
void foci_quant_avx512_to_bf16(focal_dtype dtype, const void *from, int64_t count, uint16_t *to);

bool foci_quant_avx512bf16_can(const focal_ctx *ctx);
void foci_quant_avx512bf16_to_f32(focal_dtype dtype, const void *from, int64_t count, float *to);
void foci_quant_avx512bf16_to_bf16(focal_dtype dtype, const void *from, int64_t count,
                                   uint16_t *to);

/* Quantises the finite numbers x of one block; false when a float16 of the block would be
 * infinite. */
typedef bool (*foci_quantize_block)(const float *x, void *block);

/* By rounding (quantize_round.c). */
bool foci_quantize_f32(const float *x, void *block);
bool foci_quantize_bf16(const float *x, void *block);
bool foci_quantize_f16(const float *x, void *block);
bool foci_quantize_q8_0(const float *x, void *block);
bool foci_quantize_q4_0(const float *x, void *block);
bool foci_quantize_q4_1(const float *x, void *block);
bool foci_quantize_q5_0(const float *x, void *block);
bool foci_quantize_q5_1(const float *x, void *block);

/* By searching for the least squared error (quantize_search.c). */
bool foci_quantize_q2_k(const float *x, void *block);
bool foci_quantize_q3_k(const float *x, void *block);
bool foci_quantize_q4_k(const float *x, void *block);
bool foci_quantize_q5_k(const float *x, void *block);
bool foci_quantize_q6_k(const float *x, void *block);
bool foci_quantize_iq4_nl(const float *x, void *block);

#endif /* FOCI_OPS_QUANT_QUANT_KERNELS_H */
