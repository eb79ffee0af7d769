/* The gradient of the rotation for one instruction set: rope_avx2.c and rope_avx512.c include this
 * after a dialect. Both elements of a pair are read before either is written, so dx may be dout. */
#ifndef FOCI_OPS_ROPE_ROPE_BACKWARD_BODY_H
#define FOCI_OPS_ROPE_ROPE_BACKWARD_BODY_H

#include "ops/rope/rope_backward.h"
#include "simd/vec_rows.h"

/* A head: where its elements begin in each array, and all that multiplies it. */
typedef struct back_head {
    int64_t angles, from, to, out;
    float scale;
} back_head;

/* (4.2.7) */
static inline void turn_halves_back(const foci_rope_backward_args *a, focal_dtype dtype,
                                    const back_head *head)
{
    const int64_t pairs = a->rotated / 2;
    const float *cosines = a->cos + head->angles, *sines = a->sin + head->angles;
    const vec scale = v_set1(head->scale);
    for (int64_t n = 0; n < pairs; n += VL) {
        const int64_t lanes = v_lanes(n, pairs);
        const vec c = v_load_lanes(cosines + n, lanes), s = v_load_lanes(sines + n, lanes);
        const vec du = v_load_lanes_of(a->dout, dtype, head->from + n, lanes);
        const vec dv = v_load_lanes_of(a->dout, dtype, head->from + pairs + n, lanes);
        const vec first = v_add(v_mul(du, c), v_mul(dv, s));
        const vec second = v_sub(v_mul(dv, c), v_mul(du, s));
        v_store_lanes(a->dx, a->dx_dtype, head->to + n, v_mul(first, scale), lanes);
        v_store_lanes(a->dx, a->dx_dtype, head->to + pairs + n, v_mul(second, scale), lanes);
    }
}

static inline void turn_pairs_back(const foci_rope_backward_args *a, focal_dtype dtype,
                                   const back_head *head)
{
    const float *cosines = a->cos + head->angles, *sines = a->sin + head->angles;
    const vec scale = v_set1(head->scale);
    for (int64_t n = 0; n < a->rotated; n += VL) {
        const int64_t lanes = v_lanes(n, a->rotated);
        const vec c = v_load_twice(cosines + n / 2, lanes / 2);
        const vec s = v_sub(v_zero(), v_load_twice(sines + n / 2, lanes / 2));
        const vec d = v_load_lanes_of(a->dout, dtype, head->from + n, lanes);
        const vec turned = v_fma_alternate(d, c, v_mul(v_swap_pairs(d), s));
        v_store_lanes(a->dx, a->dx_dtype, head->to + n, v_mul(turned, scale), lanes);
    }
}

static inline float dot_head(const foci_rope_backward_args *a, focal_dtype dtype,
                             const back_head *head)
{
    vec sum = v_zero();
    for (int64_t n = 0; n < a->D; n += VL) {
        const int64_t lanes = v_lanes(n, a->D);
        sum = v_fma(v_load_lanes_of(a->out, dtype, head->out + n, lanes),
                    v_load_lanes_of(a->dout, dtype, head->from + n, lanes), sum);
    }
    return v_reduce_add(sum);
}

static inline void turn_head_back(const foci_rope_backward_args *a, focal_dtype dtype,
                                  const back_head *head)
{
    if (a->rotated > 0 && a->style == FOCI_ROPE_HALVES)
        turn_halves_back(a, dtype, head);
    else if (a->rotated > 0)
        turn_pairs_back(a, dtype, head);
    for (int64_t n = a->rotated; n < a->D; n += VL) {
        const int64_t lanes = v_lanes(n, a->D);
        const vec d = v_load_lanes_of(a->dout, dtype, head->from + n, lanes);
        v_store_lanes(a->dx, a->dx_dtype, head->to + n, v_mul(d, v_set1(head->scale)), lanes);
    }
}

static inline void rope_backward_head(const foci_rope_backward_args *a, focal_dtype dtype,
                                      int64_t t, int64_t h)
{
    const int64_t at = h * a->D;
    const back_head head = {
        .angles = t * (a->rotated / 2),
        .from = t * a->dout_stride + at,
        .to = t * a->dx_stride + at,
        .out = t * a->out_stride + at,
        .scale = a->scale * foci_rope_row_scale(a->row_scales, a->has_head_scales, a->H, t, h)};
    /* before dx is written, which may be dout */
    if (a->dots) a->dots[t * a->H + h] = dot_head(a, dtype, &head);
    turn_head_back(a, dtype, &head);
}

static void rope_backward_rows(const foci_rope_backward_args *a, int64_t first, int64_t count)
{
    for (int64_t t = first; t < first + count; t++)
        for (int64_t h = 0; h < a->H; h++) {
            if (a->dout_dtype == FOCAL_BF16)
                rope_backward_head(a, FOCAL_BF16, t, h);
            else
                rope_backward_head(a, FOCAL_F32, t, h);
        }
}

#endif /* FOCI_OPS_ROPE_ROPE_BACKWARD_BODY_H */
