/* Jacobi's rotations: slow, but accurate to the last digits, short, and always the same bits. */
#include "ops/route/route_matrix.h"

#include <math.h>
#include <string.h>

enum { MAX_SWEEPS = 60 }; /* ten are enough for finite numbers */

typedef struct rotation {
    double c, s, t; /* cosine, sine, tangent */
} rotation;

/* The rotation that makes the off-diagonal `apq` of [[app, apq], [apq, aqq]] zero. */
static rotation rotation_for(double app, double aqq, double apq)
{
    const double theta = (aqq - app) / (2.0 * apq);
    const double t = (theta >= 0.0 ? 1.0 : -1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
    const double c = 1.0 / sqrt(t * t + 1.0);
    return (rotation){c, t * c, t};
}

/* x, y <- c x - s y, s x + c y. */
static void rotate(int64_t n, double *x, double *y, rotation r)
{
    for (int64_t i = 0; i < n; i++) {
        const double a = x[i], b = y[i];
        x[i] = r.c * a - r.s * b;
        y[i] = r.s * a + r.c * b;
    }
}

static void set_identity(int64_t n, double *a)
{
    memset(a, 0, (size_t)(n * n) * sizeof *a);
    for (int64_t i = 0; i < n; i++) a[i * n + i] = 1.0;
}

/* a <- J^T a J for the rotation in the plane (p, q); a stays symmetric. */
static void rotate_both_sides(int64_t n, double *a, int64_t p, int64_t q)
{
    const double app = a[p * n + p], aqq = a[q * n + q], apq = a[p * n + q];
    const rotation r = rotation_for(app, aqq, apq);
    rotate(n, a + p * n, a + q * n, r);
    for (int64_t i = 0; i < n; i++) {
        a[i * n + p] = a[p * n + i];
        a[i * n + q] = a[q * n + i];
    }
    a[p * n + p] = app - r.t * apq;
    a[q * n + q] = aqq + r.t * apq;
    a[p * n + q] = a[q * n + p] = 0.0;
}

void foci_matrix_eigen(int64_t n, double *a, double *values, double *vectors)
{
    set_identity(n, vectors);
    for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
        bool is_done = true;
        for (int64_t p = 0; p < n; p++) {
            for (int64_t q = p + 1; q < n; q++) {
                const double apq = a[p * n + q];
                if (!(fabs(apq) > 1e-16 * sqrt(fabs(a[p * n + p] * a[q * n + q])) + 1e-300))
                    continue;
                rotate(n, vectors + p * n, vectors + q * n,
                       rotation_for(a[p * n + p], a[q * n + q], apq));
                rotate_both_sides(n, a, p, q);
                is_done = false;
            }
        }
        if (is_done) break;
    }
    for (int64_t i = 0; i < n; i++) values[i] = a[i * n + i];
}

void foci_matrix_roots(int64_t n, double floor, double *a, double *root, double *inverse_root,
                       double *work)
{
    double *values = work, *vectors = work + n, largest = 0.0;
    foci_matrix_eigen(n, a, values, vectors);
    for (int64_t i = 0; i < n; i++) largest = values[i] > largest ? values[i] : largest;
    memset(root, 0, (size_t)(n * n) * sizeof *root);
    memset(inverse_root, 0, (size_t)(n * n) * sizeof *inverse_root);
    for (int64_t k = 0; k < n; k++) {
        const double least = floor * largest;
        const double value = sqrt(values[k] > least ? values[k] : least);
        const double inverse = value > 0.0 ? 1.0 / value : 0.0;
        const double *v = vectors + k * n;
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                root[i * n + j] += value * v[i] * v[j];
                inverse_root[i * n + j] += inverse * v[i] * v[j];
            }
        }
    }
}

static double dot(int64_t n, const double *x, const double *y)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

static void swap_rows(int64_t n, double *x, double *y)
{
    for (int64_t i = 0; i < n; i++) {
        const double a = x[i];
        x[i] = y[i];
        y[i] = a;
    }
}

static void sort_and_sign(int64_t m, int64_t n, double *columns, double *sigma, double *v)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t best = i, peak = 0;
        for (int64_t j = i + 1; j < n; j++)
            if (sigma[j] > sigma[best]) best = j;
        if (best != i) {
            swap_rows(1, sigma + i, sigma + best);
            swap_rows(m, columns + i * m, columns + best * m);
            swap_rows(n, v + i * n, v + best * n);
        }
        for (int64_t j = 1; j < n; j++)
            if (fabs(v[i * n + j]) > fabs(v[i * n + peak])) peak = j;
        if (v[i * n + peak] >= 0.0) continue;
        for (int64_t j = 0; j < n; j++) v[i * n + j] = -v[i * n + j];
        for (int64_t j = 0; j < m; j++) columns[i * m + j] = -columns[i * m + j];
    }
}

void foci_matrix_svd(int64_t m, int64_t n, double *columns, double *sigma, double *v)
{
    set_identity(n, v);
    for (int sweep = 0; sweep < MAX_SWEEPS; sweep++) {
        bool is_done = true;
        for (int64_t p = 0; p < n; p++) {
            for (int64_t q = p + 1; q < n; q++) {
                double *x = columns + p * m, *y = columns + q * m;
                const double xx = dot(m, x, x), yy = dot(m, y, y), xy = dot(m, x, y);
                if (!(fabs(xy) > 1e-14 * sqrt(xx * yy))) continue;
                const rotation r = rotation_for(xx, yy, xy);
                rotate(m, x, y, r);
                rotate(n, v + p * n, v + q * n, r);
                is_done = false;
            }
        }
        if (is_done) break;
    }
    for (int64_t i = 0; i < n; i++) sigma[i] = sqrt(dot(m, columns + i * m, columns + i * m));
    sort_and_sign(m, n, columns, sigma, v);
}

bool foci_matrix_cholesky(int64_t n, double *a)
{
    for (int64_t i = 0; i < n; i++) {
        double *row = a + i * n;
        for (int64_t j = 0; j < i; j++) row[j] = (row[j] - dot(j, row, a + j * n)) / a[j * n + j];
        const double pivot = row[i] - dot(i, row, row);
        if (!(pivot > 0.0)) return false;
        row[i] = sqrt(pivot);
    }
    return true;
}

void foci_matrix_solve(int64_t n, const double *factored, double *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (x[i] - dot(i, factored + i * n, x)) / factored[i * n + i];
    for (int64_t i = n - 1; i >= 0; i--) {
        x[i] /= factored[i * n + i];
        for (int64_t j = 0; j < i; j++) x[j] -= factored[i * n + j] * x[i];
    }
}
