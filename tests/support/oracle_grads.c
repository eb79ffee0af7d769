/* Gradients of the small operations in double. Nothing here is fast or clever. */
#include "support/oracle_grads.h"

#include <math.h>
#include <stdlib.h>

#include "support/check.h"

/* (4.1.3) to (4.1.5) of one row, the sums over rows added up. */
static void norm_backward_row(const oracle_norm *a, const double *x, const double *dy,
                              const oracle_norm_grads *grads, int64_t at)
{
    const double width = (double)a->width;
    double mean = 0.0, mean_size = 0.0, square = 0.0;
    for (int64_t n = 0; n < a->width && a->is_layer; n++) {
        mean += x[n] / width;
        mean_size += fabs(x[n]) / width;
    }
    for (int64_t n = 0; n < a->width; n++) square += pow(x[n] - mean, 2.0) / width;
    const double r = 1.0 / sqrt(square + a->epsilon);
    double g_mean = 0.0, g_size = 0.0, gz_mean = 0.0, gz_size = 0.0;
    for (int64_t n = 0; n < a->width; n++) {
        const double w = a->weight ? a->weight[n] + a->offset : 1.0;
        const double w_size = a->weight ? fabs(a->weight[n]) + fabs(a->offset) : 1.0;
        if (a->is_layer) g_mean += dy[n] * w / width;
        if (a->is_layer) g_size += fabs(dy[n]) * w_size / width;
        gz_mean += dy[n] * w * (x[n] - mean) * r / width;
        gz_size += fabs(dy[n]) * w_size * (fabs(x[n]) + mean_size) * r / width;
    }
    for (int64_t n = 0; n < a->width; n++) {
        const double w = a->weight ? a->weight[n] + a->offset : 1.0;
        const double w_size = a->weight ? fabs(a->weight[n]) + fabs(a->offset) : 1.0;
        const double z = (x[n] - mean) * r, z_size = (fabs(x[n]) + mean_size) * r;
        if (grads->dx) grads->dx[at + n] = r * (dy[n] * w - g_mean - z * gz_mean);
        if (grads->dx_sizes)
            grads->dx_sizes[at + n] = r * (fabs(dy[n]) * w_size + g_size + z_size * gz_size);
        if (grads->dweight) grads->dweight[n] += dy[n] * z;
        if (grads->dweight_sizes) grads->dweight_sizes[n] += fabs(dy[n]) * z_size;
        if (grads->dbias) grads->dbias[n] += dy[n];
        if (grads->dbias_sizes) grads->dbias_sizes[n] += fabs(dy[n]);
    }
}

void oracle_norm_backward(const oracle_norm *a, const double *dy, const oracle_norm_grads *grads)
{
    double *const sums[] = {grads->dweight, grads->dweight_sizes, grads->dbias, grads->dbias_sizes};
    for (size_t s = 0; s < FOCAL_COUNT(sums); s++)
        for (int64_t n = 0; n < a->width && sums[s]; n++) sums[s][n] = 0.0;
    for (int64_t row = 0; row < a->rows; row++)
        norm_backward_row(a, a->x + row * a->width, dy + row * a->width, grads, row * a->width);
}

/* (4.3.5) to (4.3.7) */
double oracle_activation_slope(int kind, double x, double *size)
{
    const double pi = acos(-1.0);
    double level, rest; /* the two terms of the derivative */
    if (isinf(x)) {
        level = x > 0.0 ? 1.0 : 0.0;
        rest = 0.0;
    } else if (kind == 1) {
        level = 0.5 * erfc(-x / sqrt(2.0));
        rest = x * exp(-x * x / 2.0) / sqrt(2.0 * pi);
    } else {
        const double v = kind == 0 ? x : 2.0 * sqrt(2.0 / pi) * (x + 0.044715 * pow(x, 3.0));
        const double dv = kind == 0 ? 1.0 : 2.0 * sqrt(2.0 / pi) * (1.0 + 3.0 * 0.044715 * x * x);
        level = v < 0.0 ? exp(v) / (1.0 + exp(v)) : 1.0 / (1.0 + exp(-v));
        const double other = v < 0.0 ? 1.0 / (1.0 + exp(v)) : exp(-v) / (1.0 + exp(-v));
        rest = x * level * other * dv;
    }
    if (size) *size = level + fabs(rest);
    return level + rest;
}

/* (4.2.7): the transposed matrix. */
void oracle_rope_backward(const oracle_rope *a, double *dx, double *sizes)
{
    const int64_t angles = a->T * (a->rotated / 2);
    double *minus = new_array((size_t)angles, sizeof *minus);
    oracle_rope back = *a;
    for (int64_t n = 0; n < angles; n++) minus[n] = -a->sin[n];
    back.sin = minus;
    oracle_rope_rotate(&back, dx, sizes);
    free(minus);
}

static double clip(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

static double product(const oracle_temperature *a, int64_t i)
{
    double sum = 0.0;
    for (int64_t n = 0; n < a->C; n++) sum += a->h[i * a->C + n] * a->u[n];
    return sum;
}

/* The sequence of token i: its first token, and the first of the next. */
static void find_sequence(const oracle_temperature *a, int64_t i, int64_t *first, int64_t *last)
{
    int64_t s = 0;
    while (a->starts[s + 1] <= i) s++;
    *first = a->starts[s];
    *last = a->starts[s + 1];
}

/* tau_ih of a head that has a temperature. */
static double tau(const oracle_temperature *a, int64_t i, int64_t h)
{
    int64_t first, last;
    double sum = 0.0;
    switch (a->kind) {
    case 0: /* (2.1) */
        return a->t * a->root;
    case 1: /* (2.5) */
        return clip(product(a, i) + a->a, a->low, a->high) * a->root;
    case 2: /* (2.6) */
        find_sequence(a, i, &first, &last);
        for (int64_t n = first; n < last; n++) sum += product(a, n);
        return clip(sum / (double)(last - first), a->low, a->high);
    case 3: /* (2.4) */
        return exp(a->lt[h]) * a->root;
    default: /* (2.7) */
        return a->t / (1.0 + a->slope * log(fmax(1.0, (a->positions[i] + 1.0) / a->length))) *
               a->root;
    }
}

void oracle_temperature_factors(const oracle_temperature *a, double *factors)
{
    for (int64_t i = 0; i < a->T; i++)
        for (int64_t h = 0; h < a->H; h++)
            factors[i * a->H + h] = 1.0 / (!a->heads || a->heads[h] ? tau(a, i, h) : a->root);
}

/* (2.2), (2.3) and through h . u; the clip lets everything pass. */
void oracle_temperature_backward(const oracle_temperature *a, const double *dots, double *dh,
                                 double *du, double *da, double *dlt)
{
    for (int64_t n = 0; n < a->T * a->C && dh; n++) dh[n] = 0.0;
    for (int64_t n = 0; n < a->C && du; n++) du[n] = 0.0;
    for (int64_t n = 0; n < a->H && dlt; n++) dlt[n] = 0.0;
    if (da) *da = 0.0;
    for (int64_t i = 0; i < a->T; i++)
        for (int64_t h = 0; h < a->H; h++) {
            if (a->heads && !a->heads[h]) continue;
            const double dtau = -dots[i * a->H + h] / tau(a, i, h);
            int64_t first = i, last = i + 1;
            if (a->kind == 3 && dlt) dlt[h] -= dots[i * a->H + h];
            if (a->kind != 1 && a->kind != 2) continue;
            if (a->kind == 2) find_sequence(a, i, &first, &last);
            if (a->kind == 1 && da) *da += dtau * a->root;
            for (int64_t from = first; from < last; from++) {
                const double d = a->kind == 1 ? dtau * a->root : dtau / (double)(last - first);
                for (int64_t n = 0; n < a->C && du; n++) du[n] += d * a->h[from * a->C + n];
                for (int64_t n = 0; n < a->C && dh; n++) dh[from * a->C + n] += d * a->u[n];
            }
        }
}
