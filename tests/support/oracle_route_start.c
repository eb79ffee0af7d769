/* The start of a router from the model's own heads (docs/MATH.md, 3.4), in double precision and
 * with one decomposition for everything: one-sided Jacobi. */
#include "support/oracle_route.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

enum { MAX_SWEEPS = 60 };

static double *zeros(int64_t n)
{
    return new_array((size_t)n, sizeof(double));
}

/* c (m,n) += a (m,l) b (l,n) */
static void multiply_add(int64_t m, int64_t l, int64_t n, const double *a, const double *b,
                         double *c)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < l; j++)
            for (int64_t o = 0; o < n; o++) c[i * n + o] += a[i * l + j] * b[j * n + o];
}

/* The columns a_i and a_j of a (m,n) turned by cosine and sine. */
static void turn_columns(int64_t m, int64_t n, double *a, int64_t i, int64_t j, double cosine,
                         double sine)
{
    for (int64_t row = 0; row < m; row++) {
        const double x = a[row * n + i], y = a[row * n + j];
        a[row * n + i] = cosine * x - sine * y;
        a[row * n + j] = sine * x + cosine * y;
    }
}

/* a (m,n) = u diag(sigma) v^T, sigma descending: columns of a are turned until all are orthogonal;
 * v (n,n) collects the turns, u (m,n) is what became of a, divided by the lengths sigma (n). */
static void decompose(int64_t m, int64_t n, const double *a, double *u, double *sigma, double *v)
{
    memcpy(u, a, (size_t)(m * n) * sizeof *u);
    memset(v, 0, (size_t)(n * n) * sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i * n + i] = 1.0;
    bool is_done = false;
    for (int sweep = 0; sweep < MAX_SWEEPS && !is_done; sweep++) {
        is_done = true;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i + 1; j < n; j++) {
                double xx = 0.0, yy = 0.0, xy = 0.0;
                for (int64_t row = 0; row < m; row++) {
                    const double x = u[row * n + i], y = u[row * n + j];
                    xx += x * x;
                    yy += y * y;
                    xy += x * y;
                }
                if (fabs(xy) > 1e-14 * sqrt(xx * yy)) {
                    const double zeta = (yy - xx) / (2.0 * xy);
                    const double tangent =
                        copysign(1.0, zeta) / (fabs(zeta) + sqrt(1.0 + zeta * zeta));
                    const double cosine = 1.0 / sqrt(1.0 + tangent * tangent);
                    turn_columns(m, n, u, i, j, cosine, cosine * tangent);
                    turn_columns(n, n, v, i, j, cosine, cosine * tangent);
                    is_done = false;
                }
                if (xx < yy) { /* keeps the longer column first; the sign does not matter */
                    turn_columns(m, n, u, i, j, 0.0, 1.0);
                    turn_columns(n, n, v, i, j, 0.0, 1.0);
                    is_done = false;
                }
            }
    }
    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int64_t row = 0; row < m; row++) sum += u[row * n + i] * u[row * n + i];
        sigma[i] = sqrt(sum);
        for (int64_t row = 0; row < m; row++)
            u[row * n + i] *= sigma[i] > 0.0 ? 1.0 / sigma[i] : 0.0;
    }
}

/* power (n,n) = a^exponent for a symmetric a with no negative eigenvalue; eigenvalues are raised
 * to 1e-5 of the largest. */
static void matrix_power(int64_t n, const double *a, double exponent, double *power)
{
    double *u = zeros(n * n), *sigma = zeros(n), *v = zeros(n * n);
    decompose(n, n, a, u, sigma, v);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            power[i * n + j] = 0.0;
            for (int64_t d = 0; d < n; d++)
                power[i * n + j] +=
                    v[i * n + d] * v[j * n + d] * pow(fmax(sigma[d], 1e-5 * sigma[0]), exponent);
        }
    free(u);
    free(sigma);
    free(v);
}

/* m (D,D) = mean over tokens of x x^T for head n of x (T, heads, D), the mean taken off first when
 * is_centred. */
static void second_moment(const double *x, int64_t T, int64_t heads, int64_t D, int64_t n,
                          bool is_centred, double *m)
{
    double *mean = zeros(D);
    for (int64_t i = 0; i < T && is_centred; i++)
        for (int64_t d = 0; d < D; d++) mean[d] += x[(i * heads + n) * D + d] / (double)T;
    memset(m, 0, (size_t)(D * D) * sizeof *m);
    for (int64_t i = 0; i < T; i++)
        for (int64_t a = 0; a < D; a++)
            for (int64_t b = 0; b < D; b++)
                m[a * D + b] += (x[(i * heads + n) * D + a] - mean[a]) *
                                (x[(i * heads + n) * D + b] - mean[b]) / (double)T;
    free(mean);
}

/* rot (D,D): the mean over d = distance_min..distance_max of the rotation by -d. A query at i and
 * a key at j meet as (R_i q) . (R_j k) = q . R_(j-i) k, and j - i = -d. */
static void mean_rotation(const oracle_start *s, double *rot)
{
    const int64_t D = s->D;
    memset(rot, 0, (size_t)(D * D) * sizeof *rot);
    for (int64_t d = 0; d < D; d++) rot[d * D + d] = 1.0;
    for (int64_t n = 0; n < D / 2 && s->rope_freq; n++) {
        const int64_t a = s->is_interleaved ? 2 * n : n, b = s->is_interleaved ? a + 1 : n + D / 2;
        double cosine = 0.0, sine = 0.0;
        for (int64_t d = s->distance_min; d <= s->distance_max; d++) {
            cosine += cos(-(double)d * s->rope_freq[n]);
            sine += sin(-(double)d * s->rope_freq[n]);
        }
        const double count = (double)(s->distance_max - s->distance_min + 1);
        rot[a * D + a] = rot[b * D + b] = cosine / count;
        rot[a * D + b] = -sine / count;
        rot[b * D + a] = sine / count;
    }
}

/* w (width, C) that minimises |h w^T - x|^2 for x (T, width): w^T = v sigma^-1 u^T x. */
static void least_squares(int64_t T, int64_t C, int64_t width, const double *h, const double *x,
                          double *w)
{
    double *u = zeros(T * C), *sigma = zeros(C), *v = zeros(C * C);
    decompose(T, C, h, u, sigma, v);
    memset(w, 0, (size_t)(width * C) * sizeof *w);
    for (int64_t o = 0; o < width; o++)
        for (int64_t n = 0; n < C && sigma[n] > 1e-12 * sigma[0]; n++) {
            double along = 0.0;
            for (int64_t i = 0; i < T; i++) along += u[i * C + n] * x[i * width + o];
            for (int64_t c = 0; c < C; c++) w[o * C + c] += v[c * C + n] * along / sigma[n];
        }
    free(u);
    free(sigma);
    free(v);
}

/* The factor that gives n numbers the rms 1/sqrt(C). */
static double scale_to_rms(int64_t n, int64_t C, const double *x)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sum > 0.0 ? sqrt((double)n / ((double)C * sum)) : 0.0;
}

/* What one router is made from: key heads first_key.. and the query heads that use them. */
typedef struct heads {
    int64_t first_key, keys, first_query, queries;
    double *n_root, *n_inverse; /* (keys, D, D): N^(1/2), N^(-1/2) */
    double *m_root, *m_inverse; /* (queries, D, D) */
} heads;

static heads heads_of(const oracle_start *s, int64_t r)
{
    const int64_t D = s->D, square = D * D, keys = s->G / s->routers, queries = s->H / s->routers;
    heads of = {r * keys,
                keys,
                r * queries,
                queries,
                zeros(keys * square),
                zeros(keys * square),
                zeros(queries * square),
                zeros(queries * square)};
    double *m = zeros(square);
    for (int64_t n = 0; n < keys; n++) {
        second_moment(s->k, s->T, s->G, D, of.first_key + n, true, m);
        matrix_power(D, m, 0.5, of.n_root + n * square);
        matrix_power(D, m, -0.5, of.n_inverse + n * square);
    }
    for (int64_t n = 0; n < queries; n++) {
        second_moment(s->q, s->T, s->H, D, of.first_query + n, false, m);
        matrix_power(D, m, 0.5, of.m_root + n * square);
        matrix_power(D, m, -0.5, of.m_inverse + n * square);
    }
    free(m);
    return of;
}

static void heads_free(heads of)
{
    free(of.n_root);
    free(of.n_inverse);
    free(of.m_root);
    free(of.m_inverse);
}

/* x (queries D, keys D): for each query head M^(1/2) Rot N^(1/2) in its key head's columns. */
static void stack_blocks(const oracle_start *s, heads of, double *x)
{
    const int64_t D = s->D, width = of.keys * D;
    double *rot = zeros(D * D), *half = zeros(D * D), *block = zeros(D * D);
    mean_rotation(s, rot);
    for (int64_t n = 0; n < of.queries; n++) {
        const int64_t key = n / (of.queries / of.keys);
        memset(half, 0, (size_t)(D * D) * sizeof *half);
        memset(block, 0, (size_t)(D * D) * sizeof *block);
        multiply_add(D, D, D, of.m_root + n * D * D, rot, half);
        multiply_add(D, D, D, half, of.n_root + key * D * D, block);
        for (int64_t a = 0; a < D; a++)
            for (int64_t b = 0; b < D; b++) x[(n * D + a) * width + key * D + b] = block[a * D + b];
    }
    free(rot);
    free(half);
    free(block);
}

/* map (R, n D) = sigma^(1/2) directions^T diag(inverse): what takes the n heads' vectors, one after
 * the other, to the router. directions: (n D, width), of which the first R columns count. */
static void router_map(int64_t R, int64_t n, int64_t D, int64_t width, const double *directions,
                       const double *sigma, const double *inverse, double *map)
{
    for (int64_t d = 0; d < R; d++)
        for (int64_t head = 0; head < n; head++)
            for (int64_t b = 0; b < D; b++) {
                double sum = 0.0;
                for (int64_t a = 0; a < D; a++)
                    sum += directions[(head * D + a) * width + d] * inverse[(head * D + a) * D + b];
                map[(d * n + head) * D + b] = sqrt(sigma[d]) * sum;
            }
}

/* p (C,R) = (map w)^T, scaled; returns the scale. map: (R, n), w: (n, C). */
static double make_projection(int64_t C, int64_t R, int64_t n, const double *map, const double *w,
                              double *p)
{
    for (int64_t c = 0; c < C; c++)
        for (int64_t d = 0; d < R; d++) {
            p[c * R + d] = 0.0;
            for (int64_t o = 0; o < n; o++) p[c * R + d] += map[d * n + o] * w[o * C + c];
        }
    const double scale = scale_to_rms(C * R, C, p);
    for (int64_t i = 0; i < C * R; i++) p[i] *= scale;
    return scale;
}

static void start_router(oracle_start *s, int64_t r, const double *wq, const double *wk)
{
    const int64_t D = s->D, C = s->C, R = s->R;
    heads of = heads_of(s, r);
    const int64_t rows = of.queries * D, width = of.keys * D;
    double *x = zeros(rows * width), *u = zeros(rows * width), *sigma = zeros(width),
           *v = zeros(width * width), *map = zeros(R * rows);
    stack_blocks(s, of, x);
    decompose(rows, width, x, u, sigma, v);
    if (R < width) s->gap = fmin(s->gap, (sigma[R - 1] - sigma[R]) / sigma[0]);

    double *pk = s->pk + r * C * R, *ak = s->ak + r * R;
    router_map(R, of.keys, D, width, v, sigma, of.n_inverse, map);
    (void)make_projection(C, R, width, map, wk + of.first_key * D * C, pk);
    for (int64_t d = 0; d < R; d++) {
        ak[d] = 0.0;
        for (int64_t i = 0; i < s->T; i++)
            for (int64_t c = 0; c < C; c++) ak[d] -= s->h[i * C + c] * pk[c * R + d] / (double)s->T;
    }
    if (!s->is_shared) {
        router_map(R, of.queries, D, width, u, sigma, of.m_inverse, map);
        const double scale =
            make_projection(C, R, rows, map, wq + of.first_query * D * C, s->pq + r * C * R);
        for (int64_t d = 0; d < R; d++) {
            double sum = 0.0;
            for (int64_t o = 0; o < rows && s->bq; o++)
                sum += map[d * rows + o] * s->bq[of.first_query * D + o];
            s->aq[r * R + d] = scale * sum;
        }
    }
    free(x);
    free(u);
    free(sigma);
    free(v);
    free(map);
    heads_free(of);
}

void oracle_route_start(oracle_start *s)
{
    double *wq = zeros(s->H * s->D * s->C), *wk = zeros(s->G * s->D * s->C);
    if (!s->wq) {
        least_squares(s->T, s->C, s->H * s->D, s->h, s->q, wq);
        least_squares(s->T, s->C, s->G * s->D, s->h, s->k, wk);
    }
    s->gap = 1.0;
    for (int64_t r = 0; r < s->routers; r++)
        start_router(s, r, s->wq ? s->wq : wq, s->wk ? s->wk : wk);
    free(wq);
    free(wk);
}

double oracle_kmeans_round(int64_t T, int64_t R, int64_t K, const double *z, double *e)
{
    double margin = HUGE_VAL;
    double *sums = zeros(K * R);
    for (int64_t i = 0; i < T; i++) {
        double best = -HUGE_VAL, second = -HUGE_VAL;
        int64_t chosen = 0;
        for (int64_t c = 0; c < K; c++) {
            double score = 0.0;
            for (int64_t d = 0; d < R; d++) score += z[i * R + d] * e[c * R + d];
            if (score > best) {
                second = best;
                best = score;
                chosen = c;
            } else {
                second = fmax(second, score);
            }
        }
        margin = fmin(margin, best - second);
        for (int64_t d = 0; d < R; d++) sums[chosen * R + d] += z[i * R + d];
    }
    for (int64_t c = 0; c < K; c++) {
        for (int64_t d = 0; d < R; d++) e[c * R + d] = sums[c * R + d] + 1e-3 * e[c * R + d];
        oracle_unit(R, e + c * R);
    }
    free(sums);
    return margin;
}
