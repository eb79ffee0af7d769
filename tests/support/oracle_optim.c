/* Gradients of losses, and the optimisers, in double: the second definition. */
#include "support/oracle_optim.h"

#include <math.h>
#include <stdlib.h>

#include "support/check.h"
#include "support/oracle_ops.h"

double oracle_loss_value(const oracle_loss *a, const double *raw)
{
    double *y = new_array((size_t)a->V, sizeof *y);
    for (int64_t n = 0; n < a->V; n++)
        y[n] = a->cap > 0.0 ? a->cap * tanh(raw[n] / a->cap) : raw[n];
    const double lse = oracle_log_softmax(a->V, y, NULL);
    const double value = a->scale * (lse - y[a->target] + a->z * lse * lse);
    free(y);
    return value;
}

static double slope_of(double y, double cap)
{
    return cap > 0.0 ? 1.0 - (y / cap) * (y / cap) : 1.0;
}

void oracle_loss_gradient(const oracle_loss *a, const double *capped, double *dlogits, double *nll,
                          double *lse)
{
    *nll = *lse = 0.0;
    for (int64_t n = 0; n < a->V; n++) dlogits[n] = 0.0;
    if (a->target < 0) return;
    *lse = oracle_log_softmax(a->V, capped, NULL);
    *nll = *lse - capped[a->target];
    for (int64_t n = 0; n < a->V; n++) {
        const double p = exp(capped[n] - *lse), hot = n == a->target ? 1.0 : 0.0;
        dlogits[n] = a->scale * (p - hot + 2.0 * a->z * *lse * p) * slope_of(capped[n], a->cap);
    }
}

double oracle_kl(int64_t V, const double *teacher, const double *student, double scale, double cap,
                 double *dlogits)
{
    const double lse_t = oracle_log_softmax(V, teacher, NULL);
    const double lse_s = oracle_log_softmax(V, student, NULL);
    double kl = 0.0;
    for (int64_t n = 0; n < V; n++) {
        const double pt = exp(teacher[n] - lse_t), ps = exp(student[n] - lse_s);
        if (pt > 0.0) kl += pt * ((teacher[n] - lse_t) - (student[n] - lse_s));
        dlogits[n] = scale * (ps - pt) * slope_of(student[n], cap);
    }
    return kl;
}

void oracle_adamw_step(const oracle_adamw *a, double g, double *w, double *m, double *v)
{
    *m = a->beta1 * *m + (1.0 - a->beta1) * g;
    *v = a->beta2 * *v + (1.0 - a->beta2) * g * g;
    const double m_hat = *m / (1.0 - pow(a->beta1, (double)a->step));
    const double v_hat = *v / (1.0 - pow(a->beta2, (double)a->step));
    *w = *w - a->rate * a->decay * *w - a->rate * m_hat / (sqrt(v_hat) + a->epsilon);
}

/* out (M,N) = x (M,K) y (K,N) */
static void multiply(int64_t M, int64_t N, int64_t K, const double *x, const double *y, double *out)
{
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            double sum = 0.0;
            for (int64_t k = 0; k < K; k++) sum += x[i * K + k] * y[k * N + j];
            out[i * N + j] = sum;
        }
}

/* x <- a x + (b A + c A^2) x, five times, A = x x^T, whatever the shape: for a tall x that is the
 * same as turning it, only slower. */
static void orthogonalise(int64_t rows, int64_t cols, double *x)
{
    const size_t small = (size_t)(rows * rows), whole = (size_t)(rows * cols);
    double *turned = new_array(whole, sizeof *turned), *next = new_array(whole, sizeof *next);
    double *gram = new_array(small, sizeof *gram), *square = new_array(small, sizeof *square);
    double norm = 0.0;
    for (size_t n = 0; n < whole; n++) norm += x[n] * x[n];
    for (size_t n = 0; n < whole && norm > 0.0; n++) x[n] /= sqrt(norm);
    for (int step = 0; step < 5; step++) {
        for (int64_t n = 0; n < rows * cols; n++) turned[n % cols * rows + n / cols] = x[n];
        multiply(rows, rows, cols, x, turned, gram);
        multiply(rows, rows, rows, gram, gram, square);
        for (size_t n = 0; n < small; n++) gram[n] = -4.7750 * gram[n] + 2.0315 * square[n];
        multiply(rows, cols, rows, gram, x, next);
        for (size_t n = 0; n < whole; n++) x[n] = 3.4445 * x[n] + next[n];
    }
    free(turned);
    free(next);
    free(gram);
    free(square);
}

void oracle_muon_step(const oracle_muon *a, const double *g, double *w, double *m)
{
    const int64_t count = a->rows * a->cols;
    const double rows = (double)a->rows, cols = (double)a->cols;
    const double size =
        a->is_by_shape ? sqrt(fmax(1.0, rows / cols)) : 0.2 * sqrt(fmax(rows, cols));
    double *x = new_array((size_t)count, sizeof *x);
    for (int64_t n = 0; n < count; n++) {
        m[n] = a->beta * m[n] + (1.0 - a->beta) * g[n];
        x[n] = a->is_plain ? m[n] : (1.0 - a->beta) * g[n] + a->beta * m[n];
    }
    orthogonalise(a->rows, a->cols, x);
    for (int64_t n = 0; n < count; n++) w[n] -= a->rate * a->decay * w[n] + a->rate * size * x[n];
    free(x);
}
