/* Reference gradient of norms: row by row, in double. */
#include <math.h>

#include "base/sizes.h"
#include "ops/norm/norm_backward.h"

enum { COLUMNS = 64 }; /* whose sums are kept in double at a time */

/* Of one row: x -> (x - mean) scale. */
typedef struct statistics {
    double mean, scale;
} statistics;

static const float *row_of(const float *array, int64_t stride, const foci_norm_backward_args *a,
                           int64_t row)
{
    return array + row / a->H * stride + row % a->H * a->width;
}

static statistics measure(const foci_norm_backward_args *a, const float *x)
{
    const int64_t width = a->width;
    double mean = 0.0, squares = 0.0;
    for (int64_t n = 0; n < width && a->kind == FOCI_NORM_LAYER; n++)
        mean += (double)x[n] / (double)width;
    for (int64_t n = 0; n < width; n++) squares += ((double)x[n] - mean) * ((double)x[n] - mean);
    /* A float, as in forward. */
    const double mean_square = (double)(float)squares / (double)width;
    return (statistics){mean, 1.0 / sqrt(mean_square + (double)a->epsilon)};
}

static double weight_at(const foci_norm_backward_args *a, int64_t n)
{
    return a->weight ? (double)a->weight[n] + (double)a->weight_offset : 1.0;
}

/* (4.1.3), (4.1.4) */
static void backward_row(const foci_norm_backward_args *a, const float *x, const float *dy,
                         float *dx)
{
    const statistics s = measure(a, x);
    const double width = (double)a->width;
    double mean_g = 0.0, mean_gz = 0.0;
    for (int64_t n = 0; n < a->width; n++) {
        const double g = (double)dy[n] * weight_at(a, n), z = ((double)x[n] - s.mean) * s.scale;
        if (a->kind == FOCI_NORM_LAYER) mean_g += g / width;
        mean_gz += g * z / width;
    }
    for (int64_t n = 0; n < a->width; n++) {
        const double g = (double)dy[n] * weight_at(a, n), z = ((double)x[n] - s.mean) * s.scale;
        const double d = s.scale * (g - mean_g - z * mean_gz);
        dx[n] = (float)(a->adds ? (double)dx[n] + d : d);
    }
}

/* (4.1.5) for columns first_column .. last_column - 1 of the rows of a piece. */
static void sum_columns(const foci_norm_backward_call *c, int64_t first, int64_t count,
                        int64_t first_column, int64_t last_column)
{
    const foci_norm_backward_args *a = &c->args;
    const int64_t at = first / c->piece * a->width;
    double dweight[COLUMNS] = {0}, dbias[COLUMNS] = {0};
    for (int64_t row = first; row < first + count; row++) {
        const float *x = row_of(a->x, a->x_stride, a, row);
        const float *dy = row_of(a->dy, a->dy_stride, a, row);
        const statistics s = measure(a, x);
        for (int64_t n = first_column; n < last_column; n++) {
            dweight[n - first_column] += (double)dy[n] * ((double)x[n] - s.mean) * s.scale;
            dbias[n - first_column] += (double)dy[n];
        }
    }
    for (int64_t n = first_column; n < last_column; n++) {
        if (c->dweights) c->dweights[at + n] = (float)dweight[n - first_column];
        if (c->dbiases) c->dbiases[at + n] = (float)dbias[n - first_column];
    }
}

void foci_norm_backward_ref(const void *call, int64_t first, int64_t count)
{
    const foci_norm_backward_call *c = call;
    const foci_norm_backward_args *a = &c->args;
    for (int64_t n = 0; n < a->width && (c->dweights || c->dbiases); n += COLUMNS)
        sum_columns(c, first, count, n, foci_min64(n + COLUMNS, a->width));
    /* Only now, because dx may be dy. */
    for (int64_t row = first; row < first + count && a->dx; row++)
        backward_row(a, row_of(a->x, a->x_stride, a, row), row_of(a->dy, a->dy_stride, a, row),
                     a->dx + row / a->H * a->dx_stride + row % a->H * a->width);
}
