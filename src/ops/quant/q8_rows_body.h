/* Rows as q8_0 for one instruction set: q8_rows_avx2.c and q8_rows_avx512.c include this after a
 * dialect. The operations on each number are those of foci_quantize_q8_0(), and so are the bits. */
#ifndef FOCI_OPS_QUANT_Q8_ROWS_BODY_H
#define FOCI_OPS_QUANT_Q8_ROWS_BODY_H

#include <math.h>

#include "ops/blocks.h"
#include "ops/quant/q8_rows.h"

static inline void quantize_block(const float *x, foci_q8_0 *block)
{
    vec most = v_zero();
    uint32_t odd = 0;
    for (int n = 0; n < FOCI_BLOCK; n += VL) {
        const vec y = v_load(x + n);
        odd |= v_odd_floats(y);
        most = v_max(most, v_abs(y));
    }
    if (__builtin_expect(odd != 0, 0)) {
        foci_q8_0_spoil(block);
        return;
    }
    const float d = v_reduce_max(most) / 127.0F, scale = d == 0.0F ? 0.0F : 1.0F / d;
    foci_f16_write(block->d, d);
    /* infinite for a d that is 0 as a float16 */
    const vec factor = v_set1(isfinite(scale) ? scale : 0.0F);
    for (int n = 0; n < FOCI_BLOCK; n += VL)
        v_store_levels(block->q + n, v_mul(v_load(x + n), factor));
}

static void q8_rows(const foci_q8_rows_args *a, int64_t first, int64_t count)
{
    foci_q8_0 *block = (foci_q8_0 *)a->out + first * (a->width / FOCI_BLOCK);
    for (int64_t row = first; row < first + count; row++)
        for (int64_t n = 0; n < a->width; n += FOCI_BLOCK, block++)
            quantize_block(a->x + row * a->x_stride + n, block);
}

#endif /* FOCI_OPS_QUANT_Q8_ROWS_BODY_H */
