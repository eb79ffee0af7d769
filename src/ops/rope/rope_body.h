/* The rotation for one instruction set: rope_avx2.c and rope_avx512.c include this after a dialect.
 * Both elements of a pair are read before either is written, so out may be x. */
#ifndef FOCI_OPS_ROPE_ROPE_BODY_H
#define FOCI_OPS_ROPE_ROPE_BODY_H

#include "ops/rope/rope.h"
#include "simd/vec_rows.h"

static inline void rotate_halves(const foci_rope_args *a, const float *cosines, const float *sines,
                                 const float *x, void *out)
{
    const int64_t pairs = a->rotated / 2;
    const vec scale = v_set1(a->scale);
    for (int64_t n = 0; n < pairs; n += VL) {
        const int64_t lanes = v_lanes(n, pairs);
        const vec c = v_load_lanes(cosines + n, lanes), s = v_load_lanes(sines + n, lanes);
        const vec u = v_load_lanes(x + n, lanes), v = v_load_lanes(x + pairs + n, lanes);
        const vec first = v_sub(v_mul(u, c), v_mul(v, s)); /* rounded as transformers does */
        const vec second = v_add(v_mul(v, c), v_mul(u, s));
        v_store_lanes(out, a->out_dtype, n, v_mul(first, scale), lanes);
        v_store_lanes(out, a->out_dtype, pairs + n, v_mul(second, scale), lanes);
    }
}

static inline void rotate_pairs(const foci_rope_args *a, const float *cosines, const float *sines,
                                const float *x, void *out)
{
    const vec scale = v_set1(a->scale);
    for (int64_t n = 0; n < a->rotated; n += VL) {
        const int64_t lanes = v_lanes(n, a->rotated);
        const vec c = v_load_twice(cosines + n / 2, lanes / 2);
        const vec s = v_load_twice(sines + n / 2, lanes / 2), y = v_load_lanes(x + n, lanes);
        const vec turned = v_fma_alternate(y, c, v_mul(v_swap_pairs(y), s));
        v_store_lanes(out, a->out_dtype, n, v_mul(turned, scale), lanes);
    }
}

static void rotate_head(const foci_rope_args *a, int64_t token, const float *x, void *out)
{
    if (a->rotated > 0) { /* else there are no angles to point at */
        const float *cosines = a->cos + token * (a->rotated / 2);
        const float *sines = a->sin + token * (a->rotated / 2);
        if (a->style == FOCI_ROPE_HALVES)
            rotate_halves(a, cosines, sines, x, out);
        else
            rotate_pairs(a, cosines, sines, x, out);
    }
    for (int64_t n = a->rotated; n < a->D; n += VL) {
        const int64_t lanes = v_lanes(n, a->D);
        const vec y = v_mul(v_load_lanes(x + n, lanes), v_set1(a->scale));
        v_store_lanes(out, a->out_dtype, n, y, lanes);
    }
}

static void rope_rows(const foci_rope_args *a, int64_t first, int64_t count)
{
    foci_rope_args row = *a; /* its scale becomes that of the head */
    for (int64_t t = first; t < first + count; t++)
        for (int64_t h = 0; h < a->H; h++) {
            if (a->row_scales)
                row.scale =
                    a->scale * foci_rope_row_scale(a->row_scales, a->has_head_scales, a->H, t, h);
            rotate_head(&row, t, a->x + t * a->x_stride + h * a->D,
                        foci_rows_at(a->out, a->out_dtype, t * a->out_stride + h * a->D));
        }
}

#endif /* FOCI_OPS_ROPE_ROPE_BODY_H */
