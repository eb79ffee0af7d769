/* Reference gradient of the rotation: one pair at a time, in double. */
#include "ops/rope/rope_backward.h"

static double get(const void *array, focal_dtype dtype, int64_t at)
{
    if (dtype == FOCAL_BF16) return (double)foci_bf16_to_float(((const uint16_t *)array)[at]);
    return (double)((const float *)array)[at];
}

/* (4.2.7) of the head that begins at element `from` of dout and `to` of dx. */
static void turn_back(const foci_rope_backward_args *a, int64_t t, double scale, int64_t from,
                      int64_t to)
{
    const int64_t pairs = a->rotated / 2;
    for (int64_t n = 0; n < pairs; n++) {
        const bool is_halves = a->style == FOCI_ROPE_HALVES;
        const int64_t i = is_halves ? n : 2 * n, j = is_halves ? n + pairs : 2 * n + 1;
        const double c = (double)a->cos[t * pairs + n], s = (double)a->sin[t * pairs + n];
        const double du = get(a->dout, a->dout_dtype, from + i);
        const double dv = get(a->dout, a->dout_dtype, from + j);
        foci_rows_put(a->dx, a->dx_dtype, to + i, (du * c + dv * s) * scale);
        foci_rows_put(a->dx, a->dx_dtype, to + j, (dv * c - du * s) * scale);
    }
    for (int64_t n = a->rotated; n < a->D; n++)
        foci_rows_put(a->dx, a->dx_dtype, to + n, get(a->dout, a->dout_dtype, from + n) * scale);
}

static double dot(const foci_rope_backward_args *a, int64_t from, int64_t at)
{
    double sum = 0.0;
    for (int64_t n = 0; n < a->D; n++)
        sum += get(a->out, a->dout_dtype, at + n) * get(a->dout, a->dout_dtype, from + n);
    return sum;
}

void foci_rope_backward_ref(const void *args, int64_t first, int64_t count)
{
    const foci_rope_backward_args *a = args;
    for (int64_t t = first; t < first + count; t++)
        for (int64_t h = 0; h < a->H; h++) {
            const int64_t from = t * a->dout_stride + h * a->D;
            const double factor =
                (double)foci_rope_row_scale(a->row_scales, a->has_head_scales, a->H, t, h);
            /* before dx is written, which may be dout */
            if (a->dots) a->dots[t * a->H + h] = (float)dot(a, from, t * a->out_stride + h * a->D);
            turn_back(a, t, (double)a->scale * factor, from, t * a->dx_stride + h * a->D);
        }
}
