/* Quantising by rounding: the scale comes from the largest numbers of a block, every level is the
 * nearest to its number. The order of the float operations is llama.cpp's, and so are the bits. */
#include <math.h>
#include <string.h>

#include "base/bf16.h"
#include "ops/blocks.h"
#include "ops/quant/quant_kernels.h"

bool foci_quantize_f32(const float *x, void *block)
{
    memcpy(block, x, sizeof *x);
    return true;
}

bool foci_quantize_bf16(const float *x, void *block)
{
    const uint16_t half = foci_bf16_from_float(*x);
    uint8_t *b = block;
    b[0] = (uint8_t)half;
    b[1] = (uint8_t)(half >> 8);
    return isfinite(foci_bf16_to_float(half));
}

bool foci_quantize_f16(const float *x, void *block)
{
    foci_f16_write(block, *x);
    return isfinite(foci_f16_read(block));
}

/* Infinite where d is below 2^-128. The float16 of such a d is 0, so the levels mean nothing; they
 * are set to 0, as the gguf package does. */
static float inverse(float d)
{
    return d == 0.0F ? 0.0F : 1.0F / d;
}

bool foci_quantize_q8_0(const float *x, void *block)
{
    foci_q8_0 *b = block;
    float most = 0.0F;
    for (int n = 0; n < FOCI_BLOCK; n++) most = fmaxf(most, fabsf(x[n]));
    const float d = most / 127.0F, scale = inverse(d);
    foci_f16_write(b->d, d);
    for (int n = 0; n < FOCI_BLOCK; n++)
        b->q[n] = isfinite(scale) ? (int8_t)roundf(x[n] * scale) : 0;
    return isfinite(foci_f16_read(b->d));
}

/* The number of largest magnitude, the first one of equals. */
static float signed_most(const float *x)
{
    float most = x[0];
    for (int n = 1; n < FOCI_BLOCK; n++)
        if (fabsf(x[n]) > fabsf(most)) most = x[n];
    return most;
}

/* Levels (x - least) scale + offset, cut to integers up to top; offset has the half that rounds. */
static void round_levels(const float *x, float least, float scale, float offset, int top,
                         uint8_t q[FOCI_BLOCK])
{
    memset(q, 0, FOCI_BLOCK);
    for (int n = 0; n < FOCI_BLOCK && isfinite(scale); n++) {
        const int level = (int)((x[n] - least) * scale + offset);
        q[n] = (uint8_t)(level < top ? level : top);
    }
}

static void range(const float *x, float *least, float *most)
{
    *least = *most = x[0];
    for (int n = 1; n < FOCI_BLOCK; n++) {
        *least = fminf(*least, x[n]);
        *most = fmaxf(*most, x[n]);
    }
}

/* Lower four bits of element n and n + 16 into one byte; the fifth bits into high. */
static void pack_nibbles(const uint8_t q[FOCI_BLOCK], uint8_t packed[FOCI_BLOCK / 2])
{
    for (int n = 0; n < FOCI_BLOCK / 2; n++)
        packed[n] = (uint8_t)((q[n] & 15) | (q[n + FOCI_BLOCK / 2] & 15) << 4);
}

static void pack_high(const uint8_t q[FOCI_BLOCK], uint8_t high[FOCI_BLOCK / 8])
{
    memset(high, 0, FOCI_BLOCK / 8);
    for (int n = 0; n < FOCI_BLOCK; n++) high[n / 8] |= (uint8_t)((q[n] >> 4) << n % 8);
}

bool foci_quantize_q4_0(const float *x, void *block)
{
    foci_q4_0 *b = block;
    uint8_t q[FOCI_BLOCK];
    const float d = signed_most(x) / -8.0F;
    round_levels(x, 0.0F, inverse(d), 8.5F, 15, q);
    foci_f16_write(b->d, d);
    pack_nibbles(q, b->q);
    return isfinite(foci_f16_read(b->d));
}

bool foci_quantize_q5_0(const float *x, void *block)
{
    foci_q5_0 *b = block;
    uint8_t q[FOCI_BLOCK];
    const float d = signed_most(x) / -16.0F;
    round_levels(x, 0.0F, inverse(d), 16.5F, 31, q);
    foci_f16_write(b->d, d);
    pack_nibbles(q, b->q);
    pack_high(q, b->high);
    return isfinite(foci_f16_read(b->d));
}

bool foci_quantize_q4_1(const float *x, void *block)
{
    foci_q4_1 *b = block;
    uint8_t q[FOCI_BLOCK];
    float least, most;
    range(x, &least, &most);
    const float d = (most - least) / 15.0F;
    foci_f16_write(b->d, d);
    foci_f16_write(b->m, least);
    if (!isfinite(foci_f16_read(b->d)) || !isfinite(foci_f16_read(b->m))) return false;
    round_levels(x, least, inverse(d), 0.5F, 15, q);
    pack_nibbles(q, b->q);
    return true;
}

bool foci_quantize_q5_1(const float *x, void *block)
{
    foci_q5_1 *b = block;
    uint8_t q[FOCI_BLOCK];
    float least, most;
    range(x, &least, &most);
    const float d = (most - least) / 31.0F;
    foci_f16_write(b->d, d);
    foci_f16_write(b->m, least);
    if (!isfinite(foci_f16_read(b->d)) || !isfinite(foci_f16_read(b->m))) return false;
    round_levels(x, least, inverse(d), 0.5F, 31, q);
    pack_nibbles(q, b->q);
    pack_high(q, b->high);
    return true;
}
