/* Reference dequantisation, one element at a time: this file says what the blocks mean. The order
 * of the float operations is part of that, since every kernel gives the same bits. */
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "base/sizes.h"
#include "ops/blocks.h"
#include "ops/quant/quant_kernels.h"

/* Element n of a small block of 4-bit levels, and bit n of `high` as the fifth. */
static int small_nibble(const uint8_t q[FOCI_BLOCK / 2], int n)
{
    return q[n % 16] >> n / 16 * 4 & 15;
}

static int small_high(const uint8_t high[FOCI_BLOCK / 8], int n)
{
    return (high[n / 8] >> n % 8 & 1) << 4;
}

/* Element n of a K block: two bits (q2_k, q3_k), one bit (q3_k, q5_k), four bits (q4_k, q5_k). */
static int super_pair(const uint8_t q[FOCI_SUPER_BLOCK / 4], int n)
{
    return q[n / 128 * 32 + n % 32] >> n / 32 % 4 * 2 & 3;
}

static int super_bit(const uint8_t high[FOCI_SUPER_BLOCK / 8], int n)
{
    return high[n % 32] >> n / 32 & 1;
}

static int super_nibble(const uint8_t q[FOCI_SUPER_BLOCK / 2], int n)
{
    return q[n / 64 * 32 + n % 32] >> n / 32 % 2 * 4 & 15;
}

static void expand_f32(const void *block, float *y)
{
    memcpy(y, block, sizeof *y);
}

static void expand_bf16(const void *block, float *y)
{
    const uint8_t *b = block;
    *y = foci_bf16_to_float((uint16_t)(b[0] | b[1] << 8));
}

static void expand_f16(const void *block, float *y)
{
    *y = foci_f16_read(block);
}

static void expand_q8_0(const void *block, float *y)
{
    const foci_q8_0 *b = block;
    const float d = foci_f16_read(b->d);
    for (int n = 0; n < FOCI_BLOCK; n++) y[n] = d * (float)b->q[n];
}

static void expand_q4_0(const void *block, float *y)
{
    const foci_q4_0 *b = block;
    const float d = foci_f16_read(b->d);
    for (int n = 0; n < FOCI_BLOCK; n++) y[n] = d * (float)(small_nibble(b->q, n) - 8);
}

static void expand_q4_1(const void *block, float *y)
{
    const foci_q4_1 *b = block;
    const float d = foci_f16_read(b->d), m = foci_f16_read(b->m);
    for (int n = 0; n < FOCI_BLOCK; n++) y[n] = d * (float)small_nibble(b->q, n) + m;
}

static void expand_q5_0(const void *block, float *y)
{
    const foci_q5_0 *b = block;
    const float d = foci_f16_read(b->d);
    for (int n = 0; n < FOCI_BLOCK; n++)
        y[n] = d * (float)((small_nibble(b->q, n) | small_high(b->high, n)) - 16);
}

static void expand_q5_1(const void *block, float *y)
{
    const foci_q5_1 *b = block;
    const float d = foci_f16_read(b->d), m = foci_f16_read(b->m);
    for (int n = 0; n < FOCI_BLOCK; n++)
        y[n] = d * (float)(small_nibble(b->q, n) | small_high(b->high, n)) + m;
}

static void expand_iq4_nl(const void *block, float *y)
{
    const foci_iq4_nl *b = block;
    const float d = foci_f16_read(b->d);
    for (int n = 0; n < FOCI_BLOCK; n++)
        y[n] = d * (float)foci_iq4_nl_values[small_nibble(b->q, n)];
}

static void expand_q2_k(const void *block, float *y)
{
    const foci_q2_k *b = block;
    const float d = foci_f16_read(b->d), m = foci_f16_read(b->m);
    for (int n = 0; n < FOCI_SUPER_BLOCK; n++) {
        const int scales = b->scales[n / 16];
        y[n] = d * (float)(scales & 15) * (float)super_pair(b->q, n) - m * (float)(scales >> 4);
    }
}

static void expand_q3_k(const void *block, float *y)
{
    const foci_q3_k *b = block;
    const float d = foci_f16_read(b->d);
    for (int n = 0; n < FOCI_SUPER_BLOCK; n++) {
        const int q = super_pair(b->q, n) | super_bit(b->high, n) << 2;
        y[n] = d * (float)foci_q3_k_scale(b->scales, n / 16) * (float)(q - 4);
    }
}

static void expand_q4_k(const void *block, float *y)
{
    const foci_q4_k *b = block;
    const float d = foci_f16_read(b->d), m = foci_f16_read(b->m);
    for (int n = 0; n < FOCI_SUPER_BLOCK; n++) {
        const float scale = d * (float)foci_k_scale(b->scales, n / 32);
        y[n] = scale * (float)super_nibble(b->q, n) - m * (float)foci_k_min(b->scales, n / 32);
    }
}

static void expand_q5_k(const void *block, float *y)
{
    const foci_q5_k *b = block;
    const float d = foci_f16_read(b->d), m = foci_f16_read(b->m);
    for (int n = 0; n < FOCI_SUPER_BLOCK; n++) {
        const int q = super_nibble(b->q, n) | super_bit(b->high, n) << 4;
        const float scale = d * (float)foci_k_scale(b->scales, n / 32);
        y[n] = scale * (float)q - m * (float)foci_k_min(b->scales, n / 32);
    }
}

static void expand_q6_k(const void *block, float *y)
{
    const foci_q6_k *b = block;
    const float d = foci_f16_read(b->d);
    for (int n = 0; n < FOCI_SUPER_BLOCK; n++) {
        const int run = n / 16, low = b->q[n / 128 * 64 + n % 64] >> n / 64 % 2 * 4 & 15;
        y[n] = d * (float)b->scales[run] * (float)((low | super_pair(b->high, n) << 4) - 32);
    }
}

static void (*const expanders[])(const void *block, float *y) = {
    [FOCAL_F32] = expand_f32,   [FOCAL_BF16] = expand_bf16,     [FOCAL_F16] = expand_f16,
    [FOCAL_Q8_0] = expand_q8_0, [FOCAL_Q4_0] = expand_q4_0,     [FOCAL_Q4_1] = expand_q4_1,
    [FOCAL_Q5_0] = expand_q5_0, [FOCAL_Q5_1] = expand_q5_1,     [FOCAL_Q2_K] = expand_q2_k,
    [FOCAL_Q3_K] = expand_q3_k, [FOCAL_Q4_K] = expand_q4_k,     [FOCAL_Q5_K] = expand_q5_k,
    [FOCAL_Q6_K] = expand_q6_k, [FOCAL_IQ4_NL] = expand_iq4_nl,
};

bool foci_quant_ref_can(const focal_ctx *ctx)
{
    return foci_on_host(ctx);
}

void foci_quant_ref_to_f32(focal_dtype dtype, const void *from, int64_t count, float *to)
{
    const int32_t elements = focal_dtype_block(dtype);
    const size_t bytes = focal_dtype_block_bytes(dtype);
    const uint8_t *block = from;
    for (int64_t n = 0; n < count; n += elements, block += bytes) expanders[dtype](block, to + n);
}

void foci_quant_ref_to_bf16(focal_dtype dtype, const void *from, int64_t count, uint16_t *to)
{
    const int32_t elements = focal_dtype_block(dtype);
    const size_t bytes = focal_dtype_block_bytes(dtype);
    const uint8_t *block = from;
    float y[FOCI_SUPER_BLOCK];
    for (int64_t n = 0; n < count; n += elements, block += bytes) {
        expanders[dtype](block, y);
        for (int32_t i = 0; i < elements; i++) to[n + i] = foci_bf16_from_float(y[i]);
    }
}
