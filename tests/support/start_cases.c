/* Cases for the start of a router. */
#include "support/start_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/check.h"
#include "support/route_cases.h"

static float *floats(int64_t n)
{
    float *x = new_array((size_t)n, sizeof *x);
    fill_nan(x, (size_t)n, FOCAL_F32);
    return x;
}

static float *normals(int64_t n, float scale, uint64_t seed)
{
    float *x = floats(n);
    fill_normals(x, n, scale, seed);
    return x;
}

/* y (T, n) = h w^T + b, each rounded once. */
static float *apply(const start_case *c, const float *w, const float *b, int64_t n)
{
    const int64_t T = c->shape.T, C = c->shape.C;
    float *y = floats(T * n);
    for (int64_t i = 0; i < T; i++)
        for (int64_t o = 0; o < n; o++) {
            double sum = b ? (double)b[o] : 0.0;
            for (int64_t d = 0; d < C; d++) sum += (double)c->h[i * C + d] * (double)w[o * C + d];
            y[i * n + o] = (float)sum;
        }
    return y;
}

start_case *start_case_new(start_shape s, uint64_t seed)
{
    start_case *c = new_array(1, sizeof *c);
    const int64_t T = s.T, C = s.C, H = s.H, G = s.G, D = s.D;
    const bool is_shared = (s.flags & START_SHARED) != 0;
    seed *= 7919;
    c->shape = s;
    c->p_count = (int64_t)s.routers * C * s.R;
    c->a_count = (int64_t)s.routers * s.R;
    c->e_count = (int64_t)s.routers * s.K * s.R;
    c->h = normals(T * C, 1.0F, seed + 1);
    for (int64_t n = 0; n < T * C; n++) /* directions of unequal strength, a mean that is not 0 */
        c->h[n] = c->h[n] * (1.5F - (float)(n % C) / (float)C) + 0.3F * (float)(n % C % 3);
    c->wq = normals(H * D * C, 0.5F, seed + 2);
    c->wk = normals(G * D * C, 0.5F, seed + 3);
    c->bq = s.flags & START_BIAS ? normals(H * D, 1.0F, seed + 4) : NULL;
    c->q = apply(c, c->wq, c->bq, H * D);
    c->k = apply(c, c->wk, NULL, G * D);
    if (s.flags & (START_ROPE | START_INTERLEAVED)) {
        c->freq = floats(D / 2);
        for (int64_t n = 0; n < D / 2; n++) c->freq[n] = powf(100.0F, -2.0F * (float)n / (float)D);
    }
    c->args = (focal_route_start_args){.T = s.T,
                                       .C = s.C,
                                       .H = s.H,
                                       .G = s.G,
                                       .D = s.D,
                                       .R = s.R,
                                       .K = s.K,
                                       .routers = s.routers,
                                       .is_shared = is_shared,
                                       .h = c->h,
                                       .q = c->q,
                                       .k = c->k,
                                       .wq = s.flags & START_FITTED ? NULL : c->wq,
                                       .wk = s.flags & START_FITTED ? NULL : c->wk,
                                       .bq = c->bq,
                                       .rope_freq = c->freq,
                                       .is_interleaved = (s.flags & START_INTERLEAVED) != 0,
                                       .distance_min = 4,
                                       .distance_max = 60,
                                       .seed = seed,
                                       .pk = floats(c->p_count),
                                       .ak = floats(c->a_count),
                                       .e = floats(c->e_count),
                                       .pq = is_shared ? NULL : floats(c->p_count),
                                       .aq = is_shared ? NULL : floats(c->a_count)};
    return c;
}

void start_case_free(start_case *c)
{
    free(c->h);
    free(c->q);
    free(c->k);
    free(c->wq);
    free(c->wk);
    free(c->bq);
    free(c->freq);
    free(c->args.pk);
    free(c->args.pq);
    free(c->args.ak);
    free(c->args.aq);
    free(c->args.e);
    free(c);
}

/* (routers, m, n) = x (routers, m, R) y (routers, n, R)^T */
static double *product(const start_case *c, int64_t m, int64_t n, const double *x, const double *y)
{
    const int64_t R = c->shape.R;
    double *out = new_array((size_t)(c->shape.routers * m * n), sizeof *out);
    for (int64_t r = 0; r < c->shape.routers; r++)
        for (int64_t a = 0; a < m; a++)
            for (int64_t b = 0; b < n; b++)
                for (int64_t d = 0; d < R; d++)
                    out[(r * m + a) * n + b] += x[(r * m + a) * R + d] * y[(r * n + b) * R + d];
    return out;
}

static start_products make_products(const start_case *c, const double *pk, const double *pq,
                                    const double *ak, const double *aq)
{
    const int64_t C = c->shape.C;
    start_products p = {.pkpk = product(c, C, C, pk, pk), .pkak = product(c, C, 1, pk, ak)};
    if (c->args.is_shared) return p;
    p.pkpq = product(c, C, C, pk, pq);
    p.pqpq = product(c, C, C, pq, pq);
    p.pkaq = product(c, C, 1, pk, aq);
    return p;
}

start_products products_of(const start_case *c)
{
    const bool is_shared = c->args.is_shared;
    double *pk = to_doubles(c->args.pk, c->p_count), *ak = to_doubles(c->args.ak, c->a_count);
    double *pq = is_shared ? NULL : to_doubles(c->args.pq, c->p_count);
    double *aq = is_shared ? NULL : to_doubles(c->args.aq, c->a_count);
    const start_products p = make_products(c, pk, pq, ak, aq);
    free(pk);
    free(ak);
    free(pq);
    free(aq);
    return p;
}

start_products exact_products(const start_case *c, double *gap)
{
    const start_shape s = c->shape;
    const bool is_fitted = (s.flags & START_FITTED) != 0;
    double *h = to_doubles(c->h, (int64_t)s.T * s.C);
    double *q = to_doubles(c->q, (int64_t)s.T * s.H * s.D);
    double *k = to_doubles(c->k, (int64_t)s.T * s.G * s.D);
    double *wq = to_doubles(c->wq, (int64_t)s.H * s.D * s.C);
    double *wk = to_doubles(c->wk, (int64_t)s.G * s.D * s.C);
    double *bq = c->bq ? to_doubles(c->bq, (int64_t)s.H * s.D) : NULL;
    double *freq = c->freq ? to_doubles(c->freq, s.D / 2) : NULL;
    double *pk = new_array((size_t)c->p_count, sizeof *pk);
    double *pq = new_array((size_t)c->p_count, sizeof *pq);
    double *ak = new_array((size_t)c->a_count, sizeof *ak);
    double *aq = new_array((size_t)c->a_count, sizeof *aq);
    oracle_start start = {.T = s.T,
                          .C = s.C,
                          .H = s.H,
                          .G = s.G,
                          .D = s.D,
                          .R = s.R,
                          .routers = s.routers,
                          .is_shared = c->args.is_shared,
                          .is_interleaved = c->args.is_interleaved,
                          .h = h,
                          .q = q,
                          .k = k,
                          .wq = is_fitted ? NULL : wq,
                          .wk = is_fitted ? NULL : wk,
                          .bq = bq,
                          .rope_freq = freq,
                          .distance_min = c->args.distance_min,
                          .distance_max = c->args.distance_max,
                          .pk = pk,
                          .pq = pq,
                          .ak = ak,
                          .aq = aq};
    oracle_route_start(&start);
    *gap = start.gap;
    const start_products p = make_products(c, pk, pq, ak, aq);
    double *all[] = {h, q, k, wq, wk, bq, freq, pk, pq, ak, aq};
    for (size_t n = 0; n < FOCAL_COUNT(all); n++) free(all[n]);
    return p;
}

void products_free(start_products p)
{
    free(p.pkpk);
    free(p.pkpq);
    free(p.pqpq);
    free(p.pkak);
    free(p.pkaq);
}

static void assert_product(const start_case *c, const char *name, const double *got,
                           const double *exact, int64_t width, double tolerance)
{
    const start_shape s = c->shape;
    char text[160];
    (void)snprintf(text, sizeof text, "%s, T %d C %d H %d G %d D %d R %d routers %d flags %u", name,
                   s.T, s.C, s.H, s.G, s.D, s.R, s.routers, s.flags);
    assert_doubles_within(text, got, exact, s.routers * width, tolerance);
}

void assert_products_within(const start_case *c, start_products got, start_products exact,
                            double tolerance)
{
    const int64_t C = c->shape.C;
    assert_product(c, "pk pk^T", got.pkpk, exact.pkpk, C * C, tolerance);
    assert_product(c, "pk ak", got.pkak, exact.pkak, C, tolerance);
    if (c->args.is_shared) return;
    assert_product(c, "pk pq^T", got.pkpq, exact.pkpq, C * C, tolerance);
    assert_product(c, "pq pq^T", got.pqpq, exact.pqpq, C * C, tolerance);
    assert_product(c, "pk aq", got.pkaq, exact.pkaq, C, tolerance);
}

double *unit_keys(const start_case *c, int64_t router)
{
    const int64_t T = c->shape.T, C = c->shape.C, R = c->shape.R;
    const float *p = c->args.pk + router * C * R, *a = c->args.ak + router * R;
    double *z = new_array((size_t)(T * R), sizeof *z);
    for (int64_t i = 0; i < T; i++) {
        for (int64_t d = 0; d < R; d++) {
            z[i * R + d] = (double)a[d];
            for (int64_t n = 0; n < C; n++)
                z[i * R + d] += (double)c->h[i * C + n] * (double)p[n * R + d];
        }
        oracle_unit(R, z + i * R);
    }
    return z;
}
