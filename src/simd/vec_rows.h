/* Walking a row whose width is any number: whole vectors, then the lanes that are left. Included
 * after a dialect. A loop steps by VL and takes the lanes at n:
 *
 *     for (int64_t n = 0; n < width; n += VL) { const int64_t lanes = v_lanes(n, width); ... } */
#ifndef FOCI_SIMD_VEC_ROWS_H
#define FOCI_SIMD_VEC_ROWS_H

#include <string.h>

#include "focal/base.h"

static inline int64_t v_lanes(int64_t n, int64_t width)
{
    return width - n < VL ? width - n : VL;
}

/* Lanes behind the last are 0. */
static inline vec v_load_lanes(const float *p, int64_t lanes)
{
    return lanes < VL ? v_load_some(p, lanes) : v_load(p);
}

/* x with 0 in the lanes behind the last. */
static inline vec v_keep_lanes(vec x, int64_t lanes)
{
    return lanes < VL ? v_select((1U << lanes) - 1U, x, v_zero()) : x;
}

/* Element `at` of an array of float32 or bfloat16, and those after it; zeros behind the last. */
static inline vec v_load_lanes_of(const void *array, focal_dtype dtype, int64_t at, int64_t lanes)
{
    if (dtype != FOCAL_BF16) return v_load_lanes((const float *)array + at, lanes);
    if (lanes == VL) return v_load_bf16((const uint16_t *)array + at);
    uint16_t some[VL] = {0};
    memcpy(some, (const uint16_t *)array + at, (size_t)lanes * sizeof *some);
    return v_load_bf16(some);
}

static inline void v_store_lanes(void *array, focal_dtype dtype, int64_t at, vec x, int64_t lanes)
{
    if (dtype == FOCAL_BF16) {
        uint16_t *p = (uint16_t *)array + at;
        if (lanes < VL)
            v_store_bf16_some(p, x, lanes);
        else
            v_store_bf16(p, x);
    } else {
        float *p = (float *)array + at;
        if (lanes < VL)
            v_store_some(p, x, lanes);
        else
            v_store(p, x);
    }
}

#endif /* FOCI_SIMD_VEC_ROWS_H */
