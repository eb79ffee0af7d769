/* Norms for one instruction set: norm_avx2.c and norm_avx512.c include this after a dialect. */
#ifndef FOCI_OPS_NORM_NORM_BODY_H
#define FOCI_OPS_NORM_NORM_BODY_H

#include <math.h>

#include "ops/norm/norm.h"
#include "simd/vec_rows.h"

static inline float sum_of(const float *x, int64_t width)
{
    vec sum = v_zero();
    for (int64_t n = 0; n < width; n += VL)
        sum = v_add(sum, v_load_lanes(x + n, v_lanes(n, width)));
    return v_reduce_add(sum);
}

static inline float squares_of(const float *x, vec mean, int64_t width)
{
    vec sum = v_zero();
    for (int64_t n = 0; n < width; n += VL) {
        const int64_t lanes = v_lanes(n, width);
        const vec y = v_keep_lanes(v_sub(v_load_lanes(x + n, lanes), mean), lanes);
        sum = v_fma(y, y, sum);
    }
    return v_reduce_add(sum);
}

/* Multiplied in the order of transformers: by the scale, then by the weight. */
static void norm_row(const foci_norm_args *a, const float *x, void *out, focal_dtype dtype)
{
    const int64_t width = a->width;
    const bool is_layer = a->kind == FOCI_NORM_LAYER;
    const vec mean = is_layer ? v_set1(sum_of(x, width) / (float)width) : v_zero();
    const float mean_square = squares_of(x, mean, width) / (float)width;
    const vec scale = v_set1(1.0F / sqrtf(mean_square + a->epsilon));
    const vec offset = v_set1(a->weight_offset);
    for (int64_t n = 0; n < width; n += VL) {
        const int64_t lanes = v_lanes(n, width);
        vec y = v_mul(v_sub(v_load_lanes(x + n, lanes), mean), scale);
        if (a->weight) y = v_mul(y, v_add(v_load_lanes(a->weight + n, lanes), offset));
        if (a->bias) y = v_add(y, v_load_lanes(a->bias + n, lanes));
        v_store_lanes(out, dtype, n, y, lanes);
    }
}

static void norm_rows(const foci_norm_args *a, int64_t first, int64_t count)
{
    for (int64_t row = first; row < first + count; row++) {
        const int64_t token = row / a->H, at = row % a->H * a->width;
        norm_row(a, a->x + token * a->x_stride + at,
                 foci_rows_at(a->out, a->out_dtype, token * a->out_stride + at), a->out_dtype);
    }
    /* Once more and not row by row with out: a store waits for those before it, and lines of out
     * may have to come from another core's cache. */
    for (int64_t row = first; a->unrounded && row < first + count; row++) {
        const int64_t token = row / a->H, at = row % a->H * a->width;
        norm_row(a, a->x + token * a->x_stride + at, a->unrounded + row * a->width, FOCAL_F32);
    }
}

#endif /* FOCI_OPS_NORM_NORM_BODY_H */
