/* The gradient of norms for one instruction set: norm_avx2.c and norm_avx512.c include this after a
 * dialect and norm_body.h. */
#ifndef FOCI_OPS_NORM_NORM_BACKWARD_BODY_H
#define FOCI_OPS_NORM_NORM_BACKWARD_BODY_H

#include <string.h>

#include "ops/norm/norm_backward.h"
#include "ops/norm/norm_body.h"

/* A row of the call: z = (x - mean) scale is what forward multiplies by the weight, g the gradient
 * of z, and sub, along what of g the row has no say: its mean and its part along z. */
typedef struct norm_row_state {
    const float *x, *dy;
    vec mean, scale, sub, along;
} norm_row_state;

static inline vec weigh(const foci_norm_backward_args *a, vec dy, int64_t n, int64_t lanes)
{
    if (!a->weight) return dy;
    return v_mul(dy, v_add(v_load_lanes(a->weight + n, lanes), v_set1(a->weight_offset)));
}

static inline norm_row_state measure_row(const foci_norm_backward_args *a, const float *x,
                                         const float *dy)
{
    const int64_t width = a->width;
    const bool is_layer = a->kind == FOCI_NORM_LAYER;
    const float inverse = 1.0F / (float)width;
    norm_row_state s = {.x = x, .dy = dy};
    s.mean = is_layer ? v_set1(sum_of(x, width) / (float)width) : v_zero();
    vec squares = v_zero(), sum = v_zero(), product = v_zero();
    for (int64_t n = 0; n < width; n += VL) {
        const int64_t lanes = v_lanes(n, width);
        const vec y = v_keep_lanes(v_sub(v_load_lanes(x + n, lanes), s.mean), lanes);
        const vec g = weigh(a, v_load_lanes(dy + n, lanes), n, lanes);
        squares = v_fma(y, y, squares);
        sum = v_add(sum, g);
        product = v_fma(g, y, product);
    }
    const float scale = 1.0F / sqrtf(v_reduce_add(squares) / (float)width + a->epsilon);
    s.scale = v_set1(scale);
    s.sub = is_layer ? v_set1(v_reduce_add(sum) * inverse) : v_zero();
    /* Beyond the range of squares the row is constant; the product may be infinite there. */
    s.along = scale == 0.0F ? v_zero() : v_set1(v_reduce_add(product) * inverse * scale);
    return s;
}

/* (4.1.3), (4.1.4), and the row's terms of (4.1.5). dx may be dy: an element is read before it is
 * written. */
static inline void backward_row(const foci_norm_backward_args *a, const norm_row_state *s,
                                float *dx, float *dweight, float *dbias)
{
    for (int64_t n = 0; n < a->width; n += VL) {
        const int64_t lanes = v_lanes(n, a->width);
        const vec dy = v_load_lanes(s->dy + n, lanes);
        const vec z = v_mul(v_sub(v_load_lanes(s->x + n, lanes), s->mean), s->scale);
        if (dweight)
            v_store_lanes(dweight, FOCAL_F32, n, v_fma(dy, z, v_load_lanes(dweight + n, lanes)),
                          lanes);
        if (dbias)
            v_store_lanes(dbias, FOCAL_F32, n, v_add(dy, v_load_lanes(dbias + n, lanes)), lanes);
        if (!dx) continue;
        const vec g = v_sub(weigh(a, dy, n, lanes), s->sub);
        vec d = v_mul(s->scale, v_sub(g, v_mul(z, s->along)));
        if (a->adds) d = v_add(v_load_lanes(dx + n, lanes), d);
        v_store_lanes(dx, FOCAL_F32, n, d, lanes);
    }
}

static void norm_backward_rows(const foci_norm_backward_call *c, int64_t first, int64_t count)
{
    const foci_norm_backward_args *a = &c->args;
    const int64_t width = a->width, at = first / c->piece * width;
    float *dweight = c->dweights ? c->dweights + at : NULL;
    float *dbias = c->dbiases ? c->dbiases + at : NULL;
    if (dweight) memset(dweight, 0, (size_t)width * sizeof *dweight);
    if (dbias) memset(dbias, 0, (size_t)width * sizeof *dbias);
    for (int64_t row = first; row < first + count; row++) {
        const int64_t token = row / a->H, head = row % a->H * width;
        const norm_row_state s =
            measure_row(a, a->x + token * a->x_stride + head, a->dy + token * a->dy_stride + head);
        backward_row(a, &s, a->dx ? a->dx + token * a->dx_stride + head : NULL, dweight, dbias);
    }
}

#endif /* FOCI_OPS_NORM_NORM_BACKWARD_BODY_H */
