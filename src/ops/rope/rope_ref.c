/* Reference rotation: one pair at a time, in double. */
#include "ops/rope/rope.h"

static void rotate_head(const foci_rope_args *a, int64_t token, double scale, const float *x,
                        void *out)
{
    const int64_t pairs = a->rotated / 2;
    for (int64_t n = 0; n < pairs; n++) {
        const bool is_halves = a->style == FOCI_ROPE_HALVES;
        const int64_t i = is_halves ? n : 2 * n, j = is_halves ? n + pairs : 2 * n + 1;
        const double c = (double)a->cos[token * pairs + n], s = (double)a->sin[token * pairs + n];
        const double u = (double)x[i], v = (double)x[j];
        foci_rows_put(out, a->out_dtype, i, (u * c - v * s) * scale);
        foci_rows_put(out, a->out_dtype, j, (v * c + u * s) * scale);
    }
    for (int64_t n = a->rotated; n < a->D; n++)
        foci_rows_put(out, a->out_dtype, n, (double)x[n] * scale);
}

void foci_rope_ref(const void *args, int64_t first, int64_t count)
{
    const foci_rope_args *a = args;
    for (int64_t t = first; t < first + count; t++)
        for (int64_t h = 0; h < a->H; h++) {
            const double factor =
                (double)foci_rope_row_scale(a->row_scales, a->has_head_scales, a->H, t, h);
            rotate_head(a, t, (double)a->scale * factor, a->x + t * a->x_stride + h * a->D,
                        foci_rows_at(a->out, a->out_dtype, t * a->out_stride + h * a->D));
        }
}
