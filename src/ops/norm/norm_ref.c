/* Reference norms: one row at a time, in double. */
#include <math.h>

#include "ops/norm/norm.h"

static void norm_row(const foci_norm_args *a, const float *x, void *out, float *unrounded)
{
    const int64_t width = a->width;
    double mean = 0.0, squares = 0.0;
    for (int64_t n = 0; n < width && a->kind == FOCI_NORM_LAYER; n++)
        mean += (double)x[n] / (double)width;
    for (int64_t n = 0; n < width; n++) squares += ((double)x[n] - mean) * ((double)x[n] - mean);
    /* A float: one beyond its range is infinite, and the row 0. */
    const double scale = 1.0 / sqrt((double)(float)squares / (double)width + (double)a->epsilon);
    for (int64_t n = 0; n < width; n++) {
        double y = ((double)x[n] - mean) * scale;
        if (a->weight) y *= (double)a->weight[n] + (double)a->weight_offset;
        if (a->bias) y += (double)a->bias[n];
        foci_rows_put(out, a->out_dtype, n, y);
        if (unrounded) unrounded[n] = (float)y;
    }
}

void foci_norm_ref(const void *args, int64_t first, int64_t count)
{
    const foci_norm_args *a = args;
    for (int64_t row = first; row < first + count; row++) {
        const int64_t token = row / a->H, at = row % a->H * a->width;
        norm_row(a, a->x + token * a->x_stride + at,
                 foci_rows_at(a->out, a->out_dtype, token * a->out_stride + at),
                 a->unrounded ? a->unrounded + row * a->width : NULL);
    }
}
