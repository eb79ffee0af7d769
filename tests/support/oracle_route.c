/* Routing in double precision: scores, soft groups, Sinkhorn, balance and top-k. The start of 3.4
 * is in oracle_route_start.c. */
#include "support/oracle_route.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

static double *zeros(int64_t n)
{
    return new_array((size_t)n, sizeof(double));
}

static double dot(int64_t n, const double *x, const double *y)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

void oracle_unit(int64_t n, double *x)
{
    const double length = sqrt(dot(n, x, x));
    for (int64_t i = 0; i < n && length > 0.0; i++) x[i] /= length;
}

/* dx for y = x / |x|: (dy - y (y . dy)) / |x|; with is_raw y = x. */
static void normed_backward(bool is_raw, int64_t n, const double *x, const double *dy, double *dx)
{
    const double length = sqrt(dot(n, x, x));
    const double along = length > 0.0 ? dot(n, x, dy) / (length * length) : 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (is_raw)
            dx[i] = dy[i];
        else
            dx[i] = length > 0.0 ? (dy[i] - x[i] * along) / length : 0.0;
    }
}

/* One router's one side: x = h p + a, y = x or unit(x), s_c = sharpness y . u_c + beta_c. */
typedef struct side {
    const double *p, *a, *beta; /* (C,R), (R) or NULL, (K) or NULL */
} side;

static side key_side(const oracle_router *t, int64_t r)
{
    return (side){t->pk + r * t->C * t->R, t->ak ? t->ak + r * t->R : NULL,
                  t->beta ? t->beta + r * t->K : NULL};
}

static side query_side(const oracle_router *t, int64_t r)
{
    side own = {t->pq ? t->pq + r * t->C * t->R : NULL, t->aq ? t->aq + r * t->R : NULL, NULL};
    if (!t->pq) {
        own = key_side(t, r);
        own.beta = NULL;
    }
    return own;
}

/* x: (R) */
static void project(const oracle_router *t, side s, const double *h, double *x)
{
    for (int64_t d = 0; d < t->R; d++) {
        x[d] = s.a ? s.a[d] : 0.0;
        for (int64_t c = 0; c < t->C; c++) x[d] += h[c] * s.p[c * t->R + d];
    }
}

/* The rows of e as scores use them, (K,R). */
static void normed_centroids(const oracle_router *t, int64_t r, double *u)
{
    memcpy(u, t->e + r * t->K * t->R, (size_t)(t->K * t->R) * sizeof *u);
    for (int64_t c = 0; c < t->K && !t->is_raw; c++) oracle_unit(t->R, u + c * t->R);
}

static void side_scores(const oracle_router *t, side side_of, int64_t r, int64_t T, const double *h,
                        double *s)
{
    double *u = zeros(t->K * t->R), *y = zeros(t->R);
    normed_centroids(t, r, u);
    for (int64_t i = 0; i < T; i++) {
        project(t, side_of, h + i * t->C, y);
        if (!t->is_raw) oracle_unit(t->R, y);
        for (int64_t c = 0; c < t->K; c++)
            s[(i * t->routers + r) * t->K + c] =
                t->sharpness * dot(t->R, y, u + c * t->R) + (side_of.beta ? side_of.beta[c] : 0.0);
    }
    free(u);
    free(y);
}

void oracle_route_scores(const oracle_router *router, int64_t T, const double *h, double *sk,
                         double *sq)
{
    for (int64_t r = 0; r < router->routers; r++) {
        if (sk) side_scores(router, key_side(router, r), r, T, h, sk);
        if (sq) side_scores(router, query_side(router, r), r, T, h, sq);
    }
}

/* Adds one side's part to dh (T,C), dp (C,R), da (R) and du (K,R), the gradient of the normed
 * centroids. */
static void side_backward(const oracle_router *t, side side_of, int64_t r, int64_t T,
                          const double *h, const double *ds, double *dh, double *dp, double *da,
                          double *du)
{
    double *u = zeros(t->K * t->R), *x = zeros(t->R), *y = zeros(t->R), *dy = zeros(t->R),
           *dx = zeros(t->R);
    normed_centroids(t, r, u);
    for (int64_t i = 0; i < T; i++) {
        const double *ds_i = ds + (i * t->routers + r) * t->K;
        project(t, side_of, h + i * t->C, x);
        memcpy(y, x, (size_t)t->R * sizeof *y);
        if (!t->is_raw) oracle_unit(t->R, y);
        for (int64_t d = 0; d < t->R; d++) {
            dy[d] = 0.0;
            for (int64_t c = 0; c < t->K; c++) {
                dy[d] += t->sharpness * ds_i[c] * u[c * t->R + d];
                du[c * t->R + d] += t->sharpness * ds_i[c] * y[d];
            }
        }
        normed_backward(t->is_raw, t->R, x, dy, dx);
        for (int64_t d = 0; d < t->R; d++) {
            da[d] += dx[d];
            for (int64_t c = 0; c < t->C; c++) {
                dp[c * t->R + d] += h[i * t->C + c] * dx[d];
                dh[i * t->C + c] += side_of.p[c * t->R + d] * dx[d];
            }
        }
    }
    free(u);
    free(x);
    free(y);
    free(dy);
    free(dx);
}

static void hand_over(double *to, double *from, int64_t n)
{
    if (to) memcpy(to, from, (size_t)n * sizeof *to);
    free(from);
}

void oracle_route_scores_backward(const oracle_router *router, int64_t T, const double *h,
                                  const double *dsk, const double *dsq,
                                  const oracle_route_grads *grads)
{
    const oracle_router *t = router;
    const int64_t p_size = t->C * t->R, e_size = t->K * t->R;
    double *dh = zeros(T * t->C), *de = zeros(t->routers * e_size), *du = zeros(e_size);
    double *dpk = zeros(t->routers * p_size), *dak = zeros(t->routers * t->R);
    double *dpq = zeros(t->routers * p_size), *daq = zeros(t->routers * t->R);
    for (int64_t r = 0; r < t->routers; r++) {
        memset(du, 0, (size_t)e_size * sizeof *du);
        double *dp_of_query = t->pq ? dpq : dpk, *da_of_query = t->pq ? daq : dak;
        if (dsk)
            side_backward(t, key_side(t, r), r, T, h, dsk, dh, dpk + r * p_size, dak + r * t->R,
                          du);
        if (dsq)
            side_backward(t, query_side(t, r), r, T, h, dsq, dh, dp_of_query + r * p_size,
                          da_of_query + r * t->R, du);
        for (int64_t c = 0; c < t->K; c++)
            normed_backward(t->is_raw, t->R, t->e + r * e_size + c * t->R, du + c * t->R,
                            de + r * e_size + c * t->R);
    }
    free(du);
    hand_over(grads->dh, dh, T * t->C);
    hand_over(grads->dpk, dpk, t->routers * p_size);
    hand_over(grads->dpq, dpq, t->routers * p_size);
    hand_over(grads->dak, dak, t->routers * t->R);
    hand_over(grads->daq, daq, t->routers * t->R);
    hand_over(grads->de, de, t->routers * e_size);
}

/* The sizes of one side, added to dh, dp, da and du; s is overwritten. ds may be NULL. */
typedef struct side_sizes {
    double *s, *dh, *dp, *da, *du;
} side_sizes;

static void side_measure(const oracle_router *t, side side_of, int64_t r, int64_t T,
                         const double *h, const double *ds, side_sizes to)
{
    double *u = zeros(t->K * t->R), *x = zeros(t->R), *y = zeros(t->R), *dy = zeros(t->R);
    normed_centroids(t, r, u);
    for (int64_t i = 0; i < T; i++) {
        project(t, side_of, h + i * t->C, x);
        const double length = t->is_raw ? 1.0 : sqrt(dot(t->R, x, x)) + 1e-30;
        double along = 0.0;
        for (int64_t d = 0; d < t->R; d++) {
            y[d] = side_of.a ? fabs(side_of.a[d]) : 0.0;
            for (int64_t c = 0; c < t->C; c++)
                y[d] += fabs(h[i * t->C + c] * side_of.p[c * t->R + d]);
            y[d] /= length;
        }
        for (int64_t c = 0; c < t->K; c++) {
            double sum = side_of.beta ? fabs(side_of.beta[c]) : 0.0;
            for (int64_t d = 0; d < t->R; d++) sum += t->sharpness * y[d] * fabs(u[c * t->R + d]);
            to.s[(i * t->routers + r) * t->K + c] = sum;
        }
        for (int64_t d = 0; d < t->R && ds; d++) {
            dy[d] = 0.0;
            for (int64_t c = 0; c < t->K; c++) {
                const double weight = t->sharpness * fabs(ds[(i * t->routers + r) * t->K + c]);
                dy[d] += weight * fabs(u[c * t->R + d]);
                to.du[c * t->R + d] += weight * y[d];
            }
            along += y[d] * dy[d];
        }
        for (int64_t d = 0; d < t->R && ds; d++) {
            const double dx = t->is_raw ? dy[d] : (dy[d] + y[d] * along) / length;
            to.da[d] += dx;
            for (int64_t c = 0; c < t->C; c++) {
                to.dp[c * t->R + d] += fabs(h[i * t->C + c]) * dx;
                to.dh[i * t->C + c] += fabs(side_of.p[c * t->R + d]) * dx;
            }
        }
    }
    free(u);
    free(x);
    free(y);
    free(dy);
}

/* (du + |u| (|u| . du)) / |e|, row by row, in place of du. */
static void measure_centroids(const oracle_router *t, int64_t r, const double *du, double *de)
{
    for (int64_t c = 0; c < t->K; c++) {
        const double *e = t->e + (r * t->K + c) * t->R;
        const double length = sqrt(dot(t->R, e, e)) + 1e-30;
        double along = 0.0;
        for (int64_t d = 0; d < t->R; d++) along += fabs(e[d]) * du[c * t->R + d] / length;
        for (int64_t d = 0; d < t->R; d++)
            de[c * t->R + d] = t->is_raw
                                   ? du[c * t->R + d]
                                   : (du[c * t->R + d] + fabs(e[d]) / length * along) / length;
    }
}

void oracle_route_scores_sizes(const oracle_router *router, int64_t T, const double *h,
                               const double *dsk, const double *dsq,
                               const oracle_route_sizes *sizes)
{
    const oracle_router *t = router;
    const int64_t p_size = t->C * t->R, e_size = t->K * t->R, s_size = T * t->routers * t->K;
    double *sk = zeros(s_size), *sq = zeros(s_size), *dh = zeros(T * t->C);
    double *du = zeros(e_size), *de = zeros(t->routers * e_size);
    double *dpk = zeros(t->routers * p_size), *dak = zeros(t->routers * t->R);
    double *dpq = zeros(t->routers * p_size), *daq = zeros(t->routers * t->R);
    for (int64_t r = 0; r < t->routers; r++) {
        memset(du, 0, (size_t)e_size * sizeof *du);
        const side_sizes of_keys = {sk, dh, dpk + r * p_size, dak + r * t->R, du};
        const side_sizes of_queries = {sq, dh, (t->pq ? dpq : dpk) + r * p_size,
                                       (t->pq ? daq : dak) + r * t->R, du};
        side_measure(t, key_side(t, r), r, T, h, dsk, of_keys);
        side_measure(t, query_side(t, r), r, T, h, dsq, of_queries);
        measure_centroids(t, r, du, de + r * e_size);
    }
    free(du);
    hand_over(sizes->sk, sk, s_size);
    hand_over(sizes->sq, sq, s_size);
    hand_over(sizes->dh, dh, T * t->C);
    hand_over(sizes->dpk, dpk, t->routers * p_size);
    hand_over(sizes->dpq, dpq, t->routers * p_size);
    hand_over(sizes->dak, dak, t->routers * t->R);
    hand_over(sizes->daq, daq, t->routers * t->R);
    hand_over(sizes->de, de, t->routers * e_size);
}

/* log sum exp of n numbers, step apart. */
static double log_sum(int64_t n, int64_t step, const double *x)
{
    double max = -HUGE_VAL, sum = 0.0;
    for (int64_t i = 0; i < n; i++) max = fmax(max, x[i * step]);
    if (isinf(max)) return max;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i * step] - max);
    return max + log(sum);
}

void oracle_route_soften(int64_t rows, int64_t K, const double *s, double *g)
{
    for (int64_t i = 0; i < rows; i++) {
        const double lse = log_sum(K, 1, s + i * K);
        for (int64_t c = 0; c < K; c++) g[i * K + c] = exp(s[i * K + c] - lse);
    }
}

void oracle_route_soften_backward(int64_t rows, int64_t K, const double *g, const double *dg,
                                  double *ds)
{
    for (int64_t i = 0; i < rows; i++) {
        const double mean = dot(K, g + i * K, dg + i * K);
        for (int64_t c = 0; c < K; c++) ds[i * K + c] = g[i * K + c] * (dg[i * K + c] - mean);
    }
}

/* All logs of one router's Sinkhorn: step 0 is s, step 2n+1 has columns done for the n-th time,
 * step 2n+2 rows. (2 rounds + 1, T, K) */
static double *sinkhorn_logs(int64_t T, int64_t routers, int64_t K, int64_t rounds, int64_t r,
                             const double *s)
{
    const int64_t size = T * K;
    double *logs = zeros((2 * rounds + 1) * size);
    for (int64_t i = 0; i < T; i++)
        for (int64_t c = 0; c < K; c++) logs[i * K + c] = s[(i * routers + r) * K + c];
    for (int64_t n = 0; n < rounds; n++) {
        const double *before = logs + 2 * n * size;
        double *columns = logs + (2 * n + 1) * size, *rows = logs + (2 * n + 2) * size;
        for (int64_t c = 0; c < K; c++) {
            const double lse = log_sum(T, K, before + c);
            for (int64_t i = 0; i < T; i++)
                columns[i * K + c] = before[i * K + c] - lse + log((double)T / (double)K);
        }
        for (int64_t i = 0; i < T; i++) {
            const double lse = log_sum(K, 1, columns + i * K);
            for (int64_t c = 0; c < K; c++) rows[i * K + c] = columns[i * K + c] - lse;
        }
    }
    return logs;
}

void oracle_route_sinkhorn(int64_t T, int64_t routers, int64_t K, int64_t rounds, const double *s,
                           double *g)
{
    for (int64_t r = 0; r < routers; r++) {
        double *logs = sinkhorn_logs(T, routers, K, rounds, r, s);
        const double *last = logs + 2 * rounds * T * K;
        for (int64_t i = 0; i < T; i++)
            for (int64_t c = 0; c < K; c++) g[(i * routers + r) * K + c] = exp(last[i * K + c]);
        free(logs);
    }
}

/* In reverse over the stored logs: y = x - log sum exp x has dx = dy - softmax(x) sum dy, over
 * rows and over columns. */
void oracle_route_sinkhorn_backward(int64_t T, int64_t routers, int64_t K, int64_t rounds,
                                    const double *s, const double *dg, double *ds)
{
    double *d = zeros(T * K);
    for (int64_t r = 0; r < routers; r++) {
        double *logs = sinkhorn_logs(T, routers, K, rounds, r, s);
        const double *last = logs + 2 * rounds * T * K;
        for (int64_t i = 0; i < T; i++)
            for (int64_t c = 0; c < K; c++)
                d[i * K + c] = exp(last[i * K + c]) * dg[(i * routers + r) * K + c];
        for (int64_t n = rounds - 1; n >= 0; n--) {
            const double *before = logs + 2 * n * T * K, *columns = before + T * K;
            for (int64_t i = 0; i < T; i++) {
                const double lse = log_sum(K, 1, columns + i * K);
                double sum = 0.0;
                for (int64_t c = 0; c < K; c++) sum += d[i * K + c];
                for (int64_t c = 0; c < K; c++) d[i * K + c] -= exp(columns[i * K + c] - lse) * sum;
            }
            for (int64_t c = 0; c < K; c++) {
                const double lse = log_sum(T, K, before + c);
                double sum = 0.0;
                for (int64_t i = 0; i < T; i++) sum += d[i * K + c];
                for (int64_t i = 0; i < T; i++) d[i * K + c] -= exp(before[i * K + c] - lse) * sum;
            }
        }
        for (int64_t i = 0; i < T; i++)
            for (int64_t c = 0; c < K; c++) ds[(i * routers + r) * K + c] = d[i * K + c];
        free(logs);
    }
    free(d);
}

static double without_nan(double x)
{
    return isnan(x) ? -HUGE_VAL : x;
}

/* How many groups come before c in the order of top-k. */
static int64_t rank_of(int64_t K, const double *s, int64_t c)
{
    const double own = without_nan(s[c]);
    int64_t rank = 0;
    for (int64_t other = 0; other < K; other++) {
        const double x = without_nan(s[other]);
        if (x > own || (x == own && other < c)) rank++;
    }
    return rank;
}

void oracle_route_top(int64_t rows, int64_t K, int64_t k, const double *s, int32_t *groups)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < K; c++) {
            const int64_t rank = rank_of(K, s + i * K, c);
            if (rank < k) groups[i * k + rank] = (int32_t)c;
        }
}

/* The least distance between a score that is among the top and one that is not. */
static double top_gap(int64_t K, int64_t top, const double *s)
{
    double lowest_in = HUGE_VAL, highest_out = -HUGE_VAL;
    for (int64_t c = 0; c < K; c++) {
        if (rank_of(K, s, c) < top)
            lowest_in = fmin(lowest_in, s[c]);
        else
            highest_out = fmax(highest_out, s[c]);
    }
    return lowest_in - highest_out;
}

/* One router's load (K): half soft, half hard. */
static void measure_load(oracle_balance *b, int64_t r, double *load)
{
    double *g = zeros(b->K);
    for (int64_t c = 0; c < b->K; c++) load[c] = 0.0;
    for (int64_t i = 0; i < b->T; i++) {
        const double *s = b->sk + (i * b->routers + r) * b->K;
        oracle_route_soften(1, b->K, s, g);
        for (int64_t c = 0; c < b->K; c++) {
            const double hard = rank_of(b->K, s, c) < b->top ? 1.0 / (double)b->top : 0.0;
            load[c] += 0.5 * (g[c] + hard) / (double)b->T;
        }
        b->margin = fmin(b->margin, top_gap(b->K, b->top, s));
    }
    free(g);
}

static double sign(double x)
{
    return (double)((x > 0.0) - (x < 0.0));
}

void oracle_route_balance(oracle_balance *b)
{
    double *moved = zeros(b->K);
    b->margin = HUGE_VAL;
    for (int64_t r = 0; r < b->routers; r++) {
        double *beta = b->beta + r * b->K, *load = b->load + r * b->K;
        for (int64_t n = 0; n < b->rounds; n++) {
            measure_load(b, r, load);
            double mean = 0.0;
            for (int64_t c = 0; c < b->K; c++) {
                const double missing = 1.0 / (double)b->K - load[c];
                moved[c] = b->kind == FOCAL_BALANCE_LOG
                               ? beta[c] - b->rate * log((double)b->K * load[c] + 0.02)
                               : beta[c] + b->rate * sign(missing);
                if (b->kind == FOCAL_BALANCE_SIGN) b->margin = fmin(b->margin, fabs(missing));
                mean += moved[c] / (double)b->K;
            }
            for (int64_t c = 0; c < b->K; c++) {
                if (b->kind == FOCAL_BALANCE_LOG) moved[c] -= mean;
                for (int64_t i = 0; i < b->T; i++)
                    b->sk[(i * b->routers + r) * b->K + c] += moved[c] - beta[c];
                beta[c] = moved[c];
            }
        }
    }
    free(moved);
}

double oracle_route_soft_stats(int64_t T, int64_t routers, int64_t K, int64_t router,
                               const double *g, double *load)
{
    double entropy = 0.0;
    for (int64_t c = 0; c < K; c++) load[c] = 0.0;
    for (int64_t i = 0; i < T; i++)
        for (int64_t c = 0; c < K; c++) {
            const double p = g[(i * routers + router) * K + c];
            load[c] += p / (double)T;
            if (p > 0.0) entropy -= p * log(p) / (double)T;
        }
    return entropy;
}
