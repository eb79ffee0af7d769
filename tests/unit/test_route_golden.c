/* The double oracle of routing against PyTorch and NumPy: tests/golden/route, made by
 * tools/golden_route.py. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/golden.h"
#include "support/oracle_route.h"

/* The tensor of that name, which the case must have. */
static const double *find(const golden_case *c, const char *name, int64_t count)
{
    const double *data = golden_get(c, name, count);
    if (!data) fail_msg("%s: no %s", c->name, name);
    return data;
}

/* Compares with the tensor of that name and frees got. */
static void expect(const golden_case *c, const char *name, double *got, int64_t count)
{
    char full_name[80];
    (void)snprintf(full_name, sizeof full_name, "%s: %s", c->name, name);
    assert_doubles_within(full_name, got, find(c, name, count), count, 1e-10);
    free(got);
}

static double *blank(int64_t n)
{
    double *x = new_array((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (double)NAN;
    return x;
}

static double *copy(const double *x, int64_t n)
{
    double *y = blank(n);
    memcpy(y, x, (size_t)n * sizeof *y);
    return y;
}

/* Runs check on every case whose name begins so; there must be `count` of them. */
static void for_each(const char *prefix, int count, void (*check)(const golden_case *c))
{
    golden *g = golden_open("route");
    int met = 0;
    for (int n = 0; n < g->case_count; n++) {
        if (strncmp(g->cases[n].name, prefix, strlen(prefix)) != 0) continue;
        check(&g->cases[n]);
        met++;
    }
    assert_int_equal(met, count);
    golden_close(g);
}

static void check_scores(const golden_case *c)
{
    const double *n = c->parameters;
    const int64_t T = (int64_t)n[0], C = (int64_t)n[1], R = (int64_t)n[2], K = (int64_t)n[3],
                  routers = (int64_t)n[4];
    const int64_t s_size = T * routers * K, p_size = routers * C * R, a_size = routers * R,
                  e_size = routers * K * R;
    const oracle_router t = {.C = C,
                             .R = R,
                             .K = K,
                             .routers = routers,
                             .is_raw = n[5] != 0.0,
                             .sharpness = n[6],
                             .pk = find(c, "pk", p_size),
                             .pq = golden_get(c, "pq", p_size),
                             .ak = golden_get(c, "ak", a_size),
                             .aq = golden_get(c, "aq", a_size),
                             .e = find(c, "e", e_size),
                             .beta = find(c, "beta", routers * K)};
    const double *h = find(c, "h", T * C);
    double *sk = blank(s_size), *sq = blank(s_size);
    oracle_route_scores(&t, T, h, sk, sq);
    expect(c, "sk", sk, s_size);
    expect(c, "sq", sq, s_size);
    const oracle_route_grads grads = {
        .dh = blank(T * C),
        .dpk = blank(p_size),
        .dpq = t.pq ? blank(p_size) : NULL,
        .dak = t.ak ? blank(a_size) : NULL,
        .daq = t.aq ? blank(a_size) : NULL,
        .de = blank(e_size),
    };
    oracle_route_scores_backward(&t, T, h, find(c, "dsk", s_size), find(c, "dsq", s_size), &grads);
    expect(c, "dh", grads.dh, T * C);
    expect(c, "dpk", grads.dpk, p_size);
    expect(c, "de", grads.de, e_size);
    if (t.pq) expect(c, "dpq", grads.dpq, p_size);
    if (t.ak) expect(c, "dak", grads.dak, a_size);
    if (t.aq) expect(c, "daq", grads.daq, a_size);
}

static void check_groups(const golden_case *c)
{
    const double *n = c->parameters;
    const int64_t T = (int64_t)n[0], routers = (int64_t)n[1], K = (int64_t)n[2],
                  rounds = (int64_t)n[3], size = T * routers * K;
    const double *s = find(c, "s", size), *dg = find(c, "dg", size);
    double *g = blank(size), *ds = blank(size), *load = blank(routers * K),
           *entropy = blank(routers);
    if (rounds == 0) {
        oracle_route_soften(T * routers, K, s, g);
        oracle_route_soften_backward(T * routers, K, g, dg, ds);
    } else {
        oracle_route_sinkhorn(T, routers, K, rounds, s, g);
        oracle_route_sinkhorn_backward(T, routers, K, rounds, s, dg, ds);
    }
    for (int64_t r = 0; r < routers; r++)
        entropy[r] = oracle_route_soft_stats(T, routers, K, r, g, load + r * K);
    expect(c, "g", g, size);
    expect(c, "ds", ds, size);
    expect(c, "load", load, routers * K);
    expect(c, "entropy", entropy, routers);
}

static void check_balance(const golden_case *c)
{
    const double *n = c->parameters;
    oracle_balance b = {.kind = n[0] == 0.0 ? FOCAL_BALANCE_LOG : FOCAL_BALANCE_SIGN,
                        .T = (int64_t)n[1],
                        .routers = (int64_t)n[2],
                        .K = (int64_t)n[3],
                        .top = (int64_t)n[4],
                        .rounds = (int64_t)n[5],
                        .rate = n[6]};
    const int64_t size = b.T * b.routers * b.K, betas = b.routers * b.K;
    b.sk = copy(find(c, "sk", size), size);
    b.beta = copy(find(c, "beta", betas), betas);
    b.load = blank(betas);
    oracle_route_balance(&b);
    assert_true(b.margin > 1e-6); /* the fixture must not hang on roundoff */
    expect(c, "sk_after", b.sk, size);
    expect(c, "beta_after", b.beta, betas);
    expect(c, "load", b.load, betas);
}

static void check_top(const golden_case *c)
{
    const int64_t rows = (int64_t)c->parameters[0], K = (int64_t)c->parameters[1],
                  k = (int64_t)c->parameters[2];
    const double *expected = find(c, "groups", rows * k);
    int32_t *groups = new_array((size_t)(rows * k), sizeof *groups);
    oracle_route_top(rows, K, k, find(c, "s", rows * K), groups);
    for (int64_t i = 0; i < rows * k; i++) assert_int_equal(groups[i], (int32_t)expected[i]);
    free(groups);
}

/* out (routers, m, n) = x (routers, m, R) y (routers, n, R)^T */
static double *products(int64_t routers, int64_t m, int64_t n, int64_t R, const double *x,
                        const double *y)
{
    double *out = new_array((size_t)(routers * m * n), sizeof *out);
    for (int64_t r = 0; r < routers; r++)
        for (int64_t a = 0; a < m; a++)
            for (int64_t b = 0; b < n; b++)
                for (int64_t d = 0; d < R; d++)
                    out[(r * m + a) * n + b] += x[(r * m + a) * R + d] * y[(r * n + b) * R + d];
    return out;
}

static void check_start(const golden_case *c)
{
    const double *n = c->parameters;
    oracle_start s = {.T = (int64_t)n[0],
                      .C = (int64_t)n[1],
                      .H = (int64_t)n[2],
                      .G = (int64_t)n[3],
                      .D = (int64_t)n[4],
                      .R = (int64_t)n[5],
                      .routers = (int64_t)n[6],
                      .is_interleaved = n[7] != 0.0,
                      .distance_min = (int64_t)n[8],
                      .distance_max = (int64_t)n[9]};
    const int64_t T = s.T, C = s.C, R = s.R, routers = s.routers;
    s.h = find(c, "h", T * C);
    s.q = find(c, "q", T * s.H * s.D);
    s.k = find(c, "k", T * s.G * s.D);
    s.wq = golden_get(c, "wq", s.H * s.D * C);
    s.wk = golden_get(c, "wk", s.G * s.D * C);
    s.bq = golden_get(c, "bq", s.H * s.D);
    s.rope_freq = find(c, "rope_freq", s.D / 2);
    s.pk = blank(routers * C * R);
    s.pq = blank(routers * C * R);
    s.ak = blank(routers * R);
    s.aq = blank(routers * R);
    oracle_route_start(&s);
    expect(c, "pkpk", products(routers, C, C, R, s.pk, s.pk), routers * C * C);
    expect(c, "pkpq", products(routers, C, C, R, s.pk, s.pq), routers * C * C);
    expect(c, "pqpq", products(routers, C, C, R, s.pq, s.pq), routers * C * C);
    expect(c, "pkak", products(routers, C, 1, R, s.pk, s.ak), routers * C);
    expect(c, "pkaq", products(routers, C, 1, R, s.pk, s.aq), routers * C);
    free(s.pk);
    free(s.pq);
    free(s.ak);
    free(s.aq);
}

static void check_kmeans(const golden_case *c)
{
    const int64_t T = (int64_t)c->parameters[0], R = (int64_t)c->parameters[1],
                  K = (int64_t)c->parameters[2];
    double *e = copy(find(c, "e", K * R), K * R);
    assert_true(oracle_kmeans_round(T, R, K, find(c, "z", T * R), e) > 1e-6);
    expect(c, "e_after", e, K * R);
}

static void scores_are_those_of_pytorch(void **state)
{
    (void)state;
    for_each("scores_", 4, check_scores);
}

static void groups_are_those_of_pytorch(void **state)
{
    (void)state;
    for_each("softmax", 1, check_groups);
    for_each("sinkhorn_", 3, check_groups);
}

static void balance_is_that_of_pytorch(void **state)
{
    (void)state;
    for_each("balance_", 3, check_balance);
}

static void top_is_that_of_numpy(void **state)
{
    (void)state;
    for_each("top", 1, check_top);
}

static void start_is_that_of_numpy(void **state)
{
    (void)state;
    for_each("start_", 4, check_start);
    for_each("kmeans", 1, check_kmeans);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_pytorch),
        cmocka_unit_test(groups_are_those_of_pytorch),
        cmocka_unit_test(balance_is_that_of_pytorch),
        cmocka_unit_test(top_is_that_of_numpy),
        cmocka_unit_test(start_is_that_of_numpy),
    };
    return cmocka_run_group_tests_name("route_golden", tests, NULL, NULL);
}
