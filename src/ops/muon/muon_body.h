/* The passes of Muon for one instruction set: muon_avx2.c and muon_avx512.c include this after a
 * dialect. */
#ifndef FOCI_OPS_MUON_MUON_BODY_H
#define FOCI_OPS_MUON_MUON_BODY_H

#include "base/sizes.h"
#include "ops/muon/muon_passes.h"
#include "simd/vec_rows.h"

static inline vec load_elements(const void *array, focal_dtype dtype, int64_t at, int64_t lanes)
{
    if (dtype == FOCAL_F32) return v_load_lanes((const float *)array + at, lanes);
    const uint16_t *p = (const uint16_t *)array + at;
    if (lanes == VL) return v_load_bf16(p);
    uint16_t some[VL] = {0};
    memcpy(some, p, (size_t)lanes * sizeof some[0]);
    return v_load_bf16(some);
}

static void momentum(const foci_muon_pass *p, int64_t first, int64_t count)
{
    const foci_muon_args *a = p->args;
    const vec factor = v_set1((float)a->factor), beta = v_set1((float)a->beta);
    const vec rest = v_set1((float)(1.0 - a->beta));
    for (int64_t n = first; n < first + count; n += VL) {
        const int64_t lanes = v_lanes(n, first + count);
        const vec g = v_mul(v_load_lanes(a->gradient + n, lanes), factor);
        const vec old = v_load_lanes(a->momentum + n, lanes);
        const vec m = v_fma(rest, v_sub(g, old), old);
        v_store_lanes(a->momentum, FOCAL_F32, n, m, lanes);
        v_store_lanes(p->out, FOCAL_F32, n, a->is_plain ? m : v_fma(beta, v_sub(m, g), g), lanes);
        if (a->is_cleared) v_store_lanes(a->gradient, FOCAL_F32, n, v_zero(), lanes);
    }
}

static void mix(const foci_muon_pass *p, int64_t first, int64_t count)
{
    const vec alpha = v_set1((float)p->alpha), beta = v_set1((float)p->beta);
    for (int64_t n = first; n < first + count; n += VL) {
        const int64_t lanes = v_lanes(n, first + count);
        vec sum = v_mul(alpha, load_elements(p->x, p->x_dtype, n, lanes));
        if (p->y) sum = v_fma(beta, v_load_lanes(p->y + n, lanes), sum);
        v_store_lanes(p->out, p->out_dtype, n, sum, lanes);
    }
}

/* VL rows of out from row i on, VL columns from j on, or what is left of them. */
static void turn_block(const foci_muon_pass *p, int64_t i, int64_t j)
{
    const int64_t height = v_lanes(i, p->cols), width = v_lanes(j, p->rows);
    const float *x = (const float *)p->x + j * p->x_stride + i;
    vec block[VL];
    for (int64_t n = 0; n < VL; n++)
        block[n] = n < width ? v_load_lanes(x + n * p->x_stride, height) : v_zero();
    v_transpose(block);
    for (int64_t n = 0; n < height; n++)
        v_store_lanes(p->out, FOCAL_F32, (i + n) * p->out_stride + j, block[n], width);
}

static void turn(const foci_muon_pass *p, int64_t first, int64_t count)
{
    const int64_t last = foci_min64(p->cols, (first + count) * FOCI_MUON_BAND);
    for (int64_t i = first * FOCI_MUON_BAND; i < last; i += VL)
        for (int64_t j = 0; j < p->rows; j += VL) turn_block(p, i, j);
}

static void update(const foci_muon_pass *p, int64_t first, int64_t count)
{
    const foci_muon_args *a = p->args;
    const vec alpha = v_set1((float)p->alpha), beta = v_set1((float)p->beta);
    for (int64_t n = first; n < first + count; n += VL) {
        const int64_t lanes = v_lanes(n, first + count);
        const vec x = v_load_lanes((const float *)p->x + n, lanes);
        const vec w0 = v_load_lanes(a->weights + n, lanes);
        const vec w = v_sub(w0, v_fma(alpha, x, v_mul(beta, w0)));
        v_store_lanes(a->weights, FOCAL_F32, n, w, lanes);
        if (a->rounded) v_store_lanes(a->rounded, FOCAL_BF16, n, w, lanes);
    }
}

static void muon_rows(const foci_muon_pass *p, int64_t first, int64_t count)
{
    switch (p->kind) {
    case FOCI_MUON_MOMENTUM:
        momentum(p, first, count);
        break;
    case FOCI_MUON_MIX:
        mix(p, first, count);
        break;
    case FOCI_MUON_TURN:
        turn(p, first, count);
        break;
    case FOCI_MUON_UPDATE:
        update(p, first, count);
        break;
    }
}

#endif /* FOCI_OPS_MUON_MUON_BODY_H */
