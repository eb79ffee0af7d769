/* The small operations in double. Nothing here is fast or clever. */
#include "support/oracle_ops.h"

#include <math.h>
#include <stdlib.h>

#include "support/check.h"

/* (4.1.1), (4.1.2) */
void oracle_norm_rows(const oracle_norm *a, double *out, double *sizes)
{
    for (int64_t row = 0; row < a->rows; row++) {
        const double *x = a->x + row * a->width;
        double mean = 0.0, mean_size = 0.0, square = 0.0;
        for (int64_t n = 0; n < a->width && a->is_layer; n++) {
            mean += x[n] / (double)a->width;
            mean_size += fabs(x[n]) / (double)a->width;
        }
        for (int64_t n = 0; n < a->width; n++) square += pow(x[n] - mean, 2.0) / (double)a->width;
        const double r = 1.0 / sqrt(square + a->epsilon);
        for (int64_t n = 0; n < a->width; n++) {
            const double w = a->weight ? a->weight[n] : 1.0, o = a->weight ? a->offset : 0.0;
            const double b = a->bias ? a->bias[n] : 0.0;
            out[row * a->width + n] = (x[n] - mean) * r * (w + o) + b;
            if (sizes)
                sizes[row * a->width + n] =
                    (fabs(x[n]) + mean_size) * r * (fabs(w) + fabs(o)) + fabs(b);
        }
    }
}

/* (4.2.2) */
void oracle_rope_rotate(const oracle_rope *a, double *x, double *sizes)
{
    const int64_t pairs = a->rotated / 2;
    for (int64_t n = 0; n < a->T * a->H * a->D; n++) {
        if (sizes) sizes[n] = fabs(x[n] * a->scale);
    }
    for (int64_t row = 0; row < a->T * a->H; row++) {
        for (int64_t n = 0; n < pairs; n++) {
            const int64_t i = row * a->D + (a->is_pairs ? 2 * n : n);
            const int64_t j = row * a->D + (a->is_pairs ? 2 * n + 1 : n + pairs);
            const double c = a->cos[row / a->H * pairs + n], s = a->sin[row / a->H * pairs + n];
            const double u = x[i], v = x[j];
            x[i] = u * c - v * s;
            x[j] = v * c + u * s;
            if (!sizes) continue;
            sizes[i] = (fabs(u * c) + fabs(v * s)) * fabs(a->scale);
            sizes[j] = (fabs(v * c) + fabs(u * s)) * fabs(a->scale);
        }
    }
    for (int64_t n = 0; n < a->T * a->H * a->D; n++) x[n] *= a->scale;
}

/* (4.3.1) to (4.3.3), by other formulas than the library's where there are any */
double oracle_activation(int kind, double x)
{
    if (isinf(x)) return x > 0.0 ? x : 0.0;
    const double pi = acos(-1.0), u = sqrt(2.0 / pi) * (x + 0.044715 * pow(x, 3.0));
    if (kind == 0) return x < 0.0 ? x * exp(x) / (1.0 + exp(x)) : x / (1.0 + exp(-x));
    if (kind == 1)
        return x < 0.0 ? 0.5 * x * erfc(-x / sqrt(2.0)) : 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
    return x < 0.0 ? x * exp(2.0 * u) / (1.0 + exp(2.0 * u)) : 0.5 * x * (1.0 + tanh(u));
}

/* (4.4.1) */
double oracle_log_softmax(int64_t V, const double *x, double *log_probs)
{
    double max = x[0], sum = 0.0;
    for (int64_t n = 0; n < V; n++) max = x[n] > max ? x[n] : max;
    for (int64_t n = 0; n < V; n++) sum += exp(x[n] - max);
    for (int64_t n = 0; n < V && log_probs; n++) log_probs[n] = x[n] - (max + log(sum));
    return max + log(sum);
}

void oracle_top(int64_t V, const double *x, int64_t top, int32_t *ids)
{
    bool *is_taken = new_array((size_t)V, sizeof *is_taken);
    for (int64_t n = 0; n < top; n++) {
        int64_t best = -1;
        for (int64_t id = 0; id < V; id++)
            if (!is_taken[id] && (best < 0 || x[id] > x[best])) best = id;
        is_taken[best] = true;
        ids[n] = (int32_t)best;
    }
    free(is_taken);
}
