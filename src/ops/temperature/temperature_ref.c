/* Reference products of hidden states with u, and their gradient, in double. */
#include "base/sizes.h"
#include "ops/temperature/temperature.h"

enum { COLUMNS = 64 }; /* whose sums are kept in double at a time */

static double get(const void *array, focal_dtype dtype, int64_t at)
{
    if (dtype == FOCAL_BF16) return (double)foci_bf16_to_float(((const uint16_t *)array)[at]);
    return (double)((const float *)array)[at];
}

void foci_temperature_ref(const void *products, int64_t first, int64_t count)
{
    const foci_temperature_products *p = products;
    for (int64_t t = first; t < first + count; t++) {
        double sum = 0.0;
        for (int64_t n = 0; n < p->C; n++)
            sum += get(p->h, p->h_dtype, t * p->h_stride + n) * (double)p->u[n];
        p->products[t * p->products_stride] = (float)sum;
    }
}

static void sum_columns(const foci_temperature_spread *s, int64_t first, int64_t count,
                        int64_t first_column, int64_t last_column)
{
    double sums[COLUMNS] = {0};
    for (int64_t t = first; t < first + count; t++)
        for (int64_t n = first_column; n < last_column; n++)
            sums[n - first_column] +=
                (double)s->slopes[t] * get(s->h, s->h_dtype, t * s->h_stride + n);
    for (int64_t n = first_column; n < last_column; n++)
        s->dus[first / s->piece * s->C + n] = (float)sums[n - first_column];
}

void foci_temperature_backward_ref(const void *spread, int64_t first, int64_t count)
{
    const foci_temperature_spread *s = spread;
    for (int64_t n = 0; n < s->C && s->dus; n += COLUMNS)
        sum_columns(s, first, count, n, foci_min64(n + COLUMNS, s->C));
    for (int64_t t = first; t < first + count && s->dh; t++)
        for (int64_t n = 0; n < s->C; n++) {
            float *dh = s->dh + t * s->dh_stride + n;
            *dh = (float)((double)*dh + (double)s->slopes[t] * (double)s->u[n]);
        }
}
