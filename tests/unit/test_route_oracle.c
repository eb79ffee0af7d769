/* The double oracle of routing against itself: gradients against finite differences, and the
 * identities that docs/MATH.md states. Everything else in routing is judged by this oracle. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/oracle_route.h"

enum { DIRECTIONS = 5, EACH_ELEMENT_UP_TO = 160 };

static double *normals(int64_t n, uint64_t seed)
{
    double *x = new_array((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (double)foci_random_normal(seed, 7, (uint64_t)i);
    return x;
}

static double dot(int64_t n, const double *x, const double *y)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* A scalar function of n numbers, with what it needs beside them. */
typedef double (*scalar_function)(const void *problem, const double *x);

/* The slope of f at x along u, from four points: the error is of fourth order, so 1e-7 is about
 * the gradient and not about the step. */
static double slope(scalar_function f, const void *problem, int64_t n, const double *x,
                    const double *u)
{
    static const double at[] = {-2.0, -1.0, 1.0, 2.0};
    static const double weight[] = {1.0, -8.0, 8.0, -1.0};
    const double step = 2e-4 / sqrt(dot(n, u, u));
    double *moved = new_array((size_t)n, sizeof *moved), sum = 0.0;
    for (size_t p = 0; p < FOCAL_COUNT(at); p++) {
        for (int64_t i = 0; i < n; i++) moved[i] = x[i] + at[p] * step * u[i];
        sum += weight[p] * f(problem, moved);
    }
    free(moved);
    return sum / (12.0 * step);
}

static void assert_slope(const char *name, int64_t n, double measured, double expected, double size)
{
    if (fabs(measured - expected) <= 1e-7 * size) return;
    fail_msg("%s (%lld numbers): measured %.12g, gradient says %.12g", name, (long long)n, measured,
             expected);
}

static void assert_gradient(const char *name, scalar_function f, const void *problem, int64_t n,
                            const double *x, const double *gradient)
{
    /* with R = 1 a unit vector is a sign and the gradient 0: there is roundoff, but no size */
    const double size = fmax(sqrt(dot(n, gradient, gradient)), 1e-2);
    for (uint64_t d = 0; d < DIRECTIONS; d++) {
        double *u = normals(n, 1000 + d);
        const double length = sqrt(dot(n, u, u));
        assert_slope(name, n, slope(f, problem, n, x, u), dot(n, gradient, u), size * length);
        free(u);
    }
    double *u = new_array((size_t)n, sizeof *u);
    for (int64_t i = 0; i < n && n <= EACH_ELEMENT_UP_TO; i++) {
        u[i] = 1.0;
        assert_slope(name, n, slope(f, problem, n, x, u), gradient[i], size);
        u[i] = 0.0;
    }
    free(u);
}

/* All inputs of the scores in one vector: h, pk, pq, ak, aq, e. */
typedef struct scores_problem {
    int64_t T, C, R, K, routers;
    bool is_raw, is_shared, has_offsets;
    const double *weight; /* (2, T, routers, K): the loss is their sum with sk and sq */
} scores_problem;

static int64_t take(int64_t *at, int64_t n)
{
    const int64_t begin = *at;
    *at += n;
    return begin;
}

static int64_t problem_size(const scores_problem *p)
{
    const int64_t projections = p->is_shared ? 1 : 2, offsets = p->has_offsets ? projections : 0;
    return p->T * p->C + p->routers * p->R * (projections * p->C + offsets + p->K);
}

/* The router that x describes. */
static oracle_router unpack(const scores_problem *p, const double *x)
{
    int64_t at = p->T * p->C;
    const int64_t p_size = p->routers * p->C * p->R, a_size = p->routers * p->R;
    oracle_router t = {.C = p->C,
                       .R = p->R,
                       .K = p->K,
                       .routers = p->routers,
                       .is_raw = p->is_raw,
                       .sharpness = p->is_raw ? 1.5 : 10.0};
    t.pk = x + take(&at, p_size);
    if (!p->is_shared) t.pq = x + take(&at, p_size);
    if (p->has_offsets) t.ak = x + take(&at, a_size);
    if (p->has_offsets && !p->is_shared) t.aq = x + take(&at, a_size);
    t.e = x + take(&at, p->routers * p->K * p->R);
    assert_int_equal(at, problem_size(p));
    return t;
}

static double scores_loss(const void *problem, const double *x)
{
    const scores_problem *p = problem;
    const int64_t n = p->T * p->routers * p->K;
    const oracle_router t = unpack(p, x);
    double *s = new_array((size_t)(2 * n), sizeof *s);
    oracle_route_scores(&t, p->T, x, s, s + n);
    const double loss = dot(2 * n, p->weight, s);
    free(s);
    return loss;
}

static const scores_problem scores_problems[] = {
    /* T  C  R  K  routers, raw, shared, offsets */
    {1, 1, 1, 1, 1, false, false, true, NULL},    {2, 3, 2, 3, 1, false, false, true, NULL},
    {3, 4, 3, 2, 2, false, false, false, NULL},   {2, 3, 2, 4, 2, false, true, true, NULL},
    {3, 4, 3, 2, 1, true, true, false, NULL},     {2, 3, 2, 2, 2, true, false, true, NULL},
    {17, 20, 16, 5, 3, false, false, true, NULL}, {9, 12, 4, 16, 1, true, true, true, NULL},
};

static void scores_gradient(void **state)
{
    (void)state;
    for (size_t n = 0; n < FOCAL_COUNT(scores_problems); n++) {
        scores_problem p = scores_problems[n];
        const int64_t size = problem_size(&p);
        double *x = normals(size, n + 1);
        double *weight = normals(2 * p.T * p.routers * p.K, n + 50);
        double *gradient = new_array((size_t)size, sizeof *gradient);
        p.weight = weight;
        const oracle_router t = unpack(&p, x);
        const oracle_route_grads grads = {
            .dh = gradient,
            .dpk = gradient + (t.pk - x),
            .dpq = t.pq ? gradient + (t.pq - x) : NULL,
            .dak = t.ak ? gradient + (t.ak - x) : NULL,
            .daq = t.aq ? gradient + (t.aq - x) : NULL,
            .de = gradient + (t.e - x),
        };
        oracle_route_scores_backward(&t, p.T, x, weight, weight + p.T * p.routers * p.K, &grads);
        assert_gradient("scores", scores_loss, &p, size, x, gradient);
        free(x);
        free(weight);
        free(gradient);
    }
}

/* What errors are measured against must not be a loophole: never below the result, equal to it
 * where all terms are positive and nothing is divided, and of its order elsewhere. */
static void sizes_are_sums_of_absolute_terms(void **state)
{
    (void)state;
    enum { T = 6, C = 5, R = 4, K = 3, ROUTERS = 2, H = T * C, S = T * ROUTERS * K };
    enum { P = ROUTERS * C * R, A = ROUTERS * R, E = ROUTERS * K * R, B = ROUTERS * K };
    enum { INPUTS = H + P + P + A + A + E + B, DS = S + S, ALL = S + S + H + P + P + A + A + E };
    for (int is_raw = 0; is_raw < 2; is_raw++) {
        double *x = normals(INPUTS, 61), *ds = normals(DS, 62);
        for (int64_t n = 0; n < INPUTS && is_raw; n++) x[n] = fabs(x[n]);
        for (int64_t n = 0; n < DS && is_raw; n++) ds[n] = fabs(ds[n]);
        const oracle_router t = {.C = C,
                                 .R = R,
                                 .K = K,
                                 .routers = ROUTERS,
                                 .is_raw = is_raw != 0,
                                 .sharpness = 3.0,
                                 .pk = x + H,
                                 .pq = x + H + P,
                                 .ak = x + H + P + P,
                                 .aq = x + H + P + P + A,
                                 .e = x + H + P + P + A + A,
                                 .beta = x + INPUTS - B};
        double exact[ALL], size[ALL];
        oracle_route_scores(&t, T, x, exact, exact + S);
        double *at = exact + DS;
        const oracle_route_grads grads = {.dh = at,
                                          .dpk = at + H,
                                          .dpq = at + H + P,
                                          .dak = at + H + P + P,
                                          .daq = at + H + P + P + A,
                                          .de = at + ALL - DS - E};
        oracle_route_scores_backward(&t, T, x, ds, ds + S, &grads);
        at = size + DS;
        const oracle_route_sizes sizes = {.sk = size,
                                          .sq = size + S,
                                          .dh = at,
                                          .dpk = at + H,
                                          .dpq = at + H + P,
                                          .dak = at + H + P + P,
                                          .daq = at + H + P + P + A,
                                          .de = at + ALL - DS - E};
        oracle_route_scores_sizes(&t, T, x, ds, ds + S, &sizes);
        if (is_raw) assert_doubles_within("sizes", size, exact, ALL, 1e-14);
        double exact_sum = 0.0, size_sum = 0.0;
        for (int64_t n = 0; n < ALL; n++) {
            assert_true(size[n] >= fabs(exact[n]) * (1.0 - 1e-12));
            exact_sum += fabs(exact[n]);
            size_sum += size[n];
        }
        assert_true(size_sum < 20.0 * exact_sum);
        free(x);
        free(ds);
    }
}

/* Soft groups of s, by Sinkhorn or, with no rounds, by softmax. */
typedef struct groups_problem {
    int64_t T, routers, K, rounds;
    double spread; /* of the scores */
    const double *weight;
} groups_problem;

static double groups_loss(const void *problem, const double *x)
{
    const groups_problem *p = problem;
    const int64_t n = p->T * p->routers * p->K;
    double *g = new_array((size_t)n, sizeof *g);
    if (p->rounds == 0)
        oracle_route_soften(p->T * p->routers, p->K, x, g);
    else
        oracle_route_sinkhorn(p->T, p->routers, p->K, p->rounds, x, g);
    const double loss = dot(n, p->weight, g);
    free(g);
    return loss;
}

static const groups_problem groups_problems[] = {
    {1, 1, 2, 0, 1.0, NULL},    {3, 2, 4, 0, 2.0, NULL},   {40, 1, 16, 0, 4.0, NULL},
    {2, 1, 2, 1, 1.0, NULL},    {5, 1, 3, 1, 2.0, NULL},   {4, 2, 3, 2, 1.0, NULL},
    {7, 1, 4, 10, 3.0, NULL},   {3, 3, 2, 10, 2.0, NULL},  {6, 1, 7, 10, 3.0, NULL},
    {33, 2, 16, 10, 3.0, NULL}, {12, 1, 5, 25, 4.0, NULL},
};

static void groups_gradient(void **state)
{
    (void)state;
    for (size_t m = 0; m < FOCAL_COUNT(groups_problems); m++) {
        groups_problem p = groups_problems[m];
        const int64_t n = p.T * p.routers * p.K;
        double *s = normals(n, m + 100), *weight = normals(n, m + 200);
        double *g = new_array((size_t)n, sizeof *g), *ds = new_array((size_t)n, sizeof *ds);
        for (int64_t i = 0; i < n; i++) s[i] *= p.spread;
        p.weight = weight;
        oracle_route_soften(p.T * p.routers, p.K, s, g);
        if (p.rounds == 0)
            oracle_route_soften_backward(p.T * p.routers, p.K, g, weight, ds);
        else
            oracle_route_sinkhorn_backward(p.T, p.routers, p.K, p.rounds, s, weight, ds);
        assert_gradient(p.rounds == 0 ? "softmax" : "sinkhorn", groups_loss, &p, n, s, ds);
        free(s);
        free(weight);
        free(g);
        free(ds);
    }
}

/* 3.2: Sinkhorn of any length is softmax(s + beta) with one beta a sequence, here read off the
 * first row; and its rows sum to 1, its columns, after enough rounds, to T/K. */
static void sinkhorn_is_a_shifted_softmax(void **state)
{
    (void)state;
    enum { T = 37, K = 6 };
    double *s = normals((int64_t)T * K, 3);
    for (int64_t rounds = 1; rounds <= 200; rounds = rounds * 3 + 1) {
        double g[T * K], shifted[T * K], again[T * K];
        oracle_route_sinkhorn(T, 1, K, rounds, s, g);
        for (int64_t i = 0; i < T; i++)
            for (int64_t c = 0; c < K; c++) shifted[i * K + c] = s[i * K + c] + log(g[c]) - s[c];
        oracle_route_soften(T, K, shifted, again);
        assert_doubles_within("sinkhorn as softmax", again, g, (int64_t)T * K, 1e-13);
        for (int64_t c = 0; c < K && rounds > 100; c++) {
            double sum = 0.0;
            for (int64_t i = 0; i < T; i++) sum += g[i * K + c];
            assert_true(fabs(sum - (double)T / K) < 1e-9);
        }
    }
    free(s);
}

/* The margin says when two routes may differ: without ties it is positive, with one it is 0. */
static void balance_knows_its_margin(void **state)
{
    (void)state;
    double sk[] = {1.0, 2.0, 0.5, 3.0, 3.0, -1.0}, beta[3] = {0}, load[3];
    oracle_balance b = {.T = 1,
                        .routers = 1,
                        .K = 3,
                        .top = 1,
                        .rounds = 1,
                        .rate = 0.1,
                        .sk = sk,
                        .beta = beta,
                        .load = load};
    oracle_route_balance(&b);
    assert_true(fabs(b.margin - 1.0) < 1e-15);
    b.T = 2;
    sk[0] = 1.0, sk[1] = 2.0, sk[2] = 0.5;
    oracle_route_balance(&b);
    assert_true(b.margin == 0.0);
}

/* Without rope, unit second moments and R = D nothing is lost: zk.zq before the scaling is q.k, so
 * P_k P_q^T is a multiple of Wk^T Wq. */
static void start_keeps_every_direction(void **state)
{
    (void)state;
    enum { T = 60, C = 5, D = 4 };
    double *h = normals((int64_t)T * C, 21), *wq = normals((int64_t)D * C, 22),
           *wk = normals((int64_t)D * C, 23);
    double q[T * D] = {0}, k[T * D] = {0}, pk[C * D], pq[C * D], ak[D], aq[D];
    for (int64_t i = 0; i < T; i++)
        for (int64_t d = 0; d < D; d++)
            for (int64_t c = 0; c < C; c++) {
                q[i * D + d] += h[i * C + c] * wq[d * C + c];
                k[i * D + d] += h[i * C + c] * wk[d * C + c];
            }
    oracle_start s = {.T = T,
                      .C = C,
                      .H = 1,
                      .G = 1,
                      .D = D,
                      .R = D,
                      .routers = 1,
                      .h = h,
                      .q = q,
                      .k = k,
                      .wq = wq,
                      .wk = wk,
                      .pk = pk,
                      .pq = pq,
                      .ak = ak,
                      .aq = aq};
    for (int pass = 0; pass < 2; pass++) { /* the second with maps by least squares */
        oracle_route_start(&s);
        double product[C * C], expected[C * C], scale = 0.0, norm = 0.0;
        for (int64_t a = 0; a < C; a++)
            for (int64_t b = 0; b < C; b++) {
                product[a * C + b] = expected[a * C + b] = 0.0;
                for (int64_t d = 0; d < D; d++) {
                    product[a * C + b] += pk[a * D + d] * pq[b * D + d];
                    expected[a * C + b] += wk[d * C + a] * wq[d * C + b];
                }
                scale += product[a * C + b] * expected[a * C + b];
                norm += expected[a * C + b] * expected[a * C + b];
            }
        assert_true(scale > 0.0);
        for (int64_t n = 0; n < (int64_t)C * C; n++) expected[n] *= scale / norm;
        assert_doubles_within("pk pq^T", product, expected, (int64_t)C * C, 1e-12);
        s.wq = s.wk = NULL;
    }
    free(h);
    free(wq);
    free(wk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_gradient),
        cmocka_unit_test(sizes_are_sums_of_absolute_terms),
        cmocka_unit_test(groups_gradient),
        cmocka_unit_test(sinkhorn_is_a_shifted_softmax),
        cmocka_unit_test(balance_knows_its_margin),
        cmocka_unit_test(start_keeps_every_direction),
    };
    return cmocka_run_group_tests_name("route_oracle", tests, NULL, NULL);
}
