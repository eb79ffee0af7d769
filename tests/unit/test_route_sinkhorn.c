/* The paper's balance: Sinkhorn and the gradient through its rounds against the double oracle, and
 * the identity that the causal balance rests on. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "focal/route.h"
#include "support/oracle_route.h"
#include "support/plain_route.h"
#include "support/route_cases.h"

typedef struct sinkhorn_shape {
    int32_t T, routers, K, rounds;
    float spread;
} sinkhorn_shape;

static const sinkhorn_shape shapes[] = {
    {1, 1, 1, 1, 1.0F},    {1, 1, 4, 10, 3.0F},   {2, 3, 2, 1, 1.0F},    {7, 1, 3, 10, 2.0F},
    {16, 3, 1, 3, 5.0F},   {16, 1, 16, 10, 4.0F}, {17, 3, 17, 2, 1.0F},  {31, 1, 4, 10, 10.0F},
    {33, 3, 16, 10, 3.0F}, {100, 1, 64, 5, 2.0F}, {100, 3, 2, 30, 1.0F}, {257, 3, 5, 10, 3.0F},
    {3, 1, 64, 10, 3.0F},  {600, 1, 17, 3, 2.0F}, {40, 1, 8, 1, 0.0F},
};

/* A difference in s reaches g multiplied by |s|, and ds by dg beside it. */
static void assert_near(const char *what, sinkhorn_shape p, const float *got, const float *plain,
                        const double *exact, int64_t n, double size)
{
    char name[128];
    (void)snprintf(name, sizeof name, "%s, T %d routers %d K %d rounds %d", what, p.T, p.routers,
                   p.K, p.rounds);
    double *sizes = new_array((size_t)n, sizeof *sizes);
    for (int64_t i = 0; i < n; i++) sizes[i] = size;
    const error_bound bound = {.name = name,
                               .plain = plain,
                               .exact = exact,
                               .magnitude = sizes,
                               .count = n,
                               .factor = 2.0};
    assert_within(&bound, got);
    assert_end_untouched(name, got, n);
    free(sizes);
}

static double largest(const float *x, int64_t n)
{
    double result = 0.0;
    for (int64_t i = 0; i < n; i++) result = fmax(result, fabs((double)x[i]));
    return result;
}

static void matches_oracle(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t m = 0; m < FOCAL_COUNT(shapes); m++) {
        const sinkhorn_shape p = shapes[m];
        const int64_t n = (int64_t)p.T * p.routers * p.K;
        const size_t count = (size_t)n;
        float *s = new_array(count, 4), *dg = new_array(count, 4), *got = new_array(count + 1, 4),
              *plain = new_array(count, 4);
        fill_normals(s, n, p.spread, m + 1);
        fill_normals(dg, n, 1.0F, m + 40);
        double *s64 = to_doubles(s, n), *dg64 = to_doubles(dg, n);
        double *exact = new_array(count, sizeof *exact);
        const double size = 1.0 + largest(s, n);

        fill_nan(got, count + 1, FOCAL_F32);
        assert_status(ctx, focal_route_sinkhorn(ctx, p.T, p.routers, p.K, p.rounds, s, got),
                      FOCAL_OK);
        oracle_route_sinkhorn(p.T, p.routers, p.K, p.rounds, s64, exact);
        plain_route_sinkhorn(p.T, p.routers, p.K, p.rounds, s, plain);
        assert_near("sinkhorn", p, got, plain, exact, n, size);

        fill_nan(got, count + 1, FOCAL_F32);
        assert_status(ctx,
                      focal_route_sinkhorn_backward(ctx, p.T, p.routers, p.K, p.rounds, s, dg, got),
                      FOCAL_OK);
        oracle_route_sinkhorn_backward(p.T, p.routers, p.K, p.rounds, s64, dg64, exact);
        plain_route_sinkhorn_backward(p.T, p.routers, p.K, p.rounds, s, dg, plain);
        assert_near("sinkhorn backward", p, got, plain, exact, n, size * largest(dg, n));
        free(s);
        free(dg);
        free(got);
        free(plain);
        free(s64);
        free(dg64);
        free(exact);
    }
}

/* 3.2: g is softmax(s + beta) with one beta for all rows, whatever the rounds; each router has its
 * own. beta is read off one row. */
static void is_softmax_with_one_beta(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 45, ROUTERS = 2, K = 6, ROWS = T * ROUTERS, N = ROWS * K, FROM = 8 * ROUTERS };
    float s[N], g[N], shifted[N], again[N];
    fill_normals(s, N, 2.0F, 3);
    for (int32_t rounds = 1; rounds <= 30; rounds = rounds * 2 + 1) {
        assert_status(ctx, focal_route_sinkhorn(ctx, T, ROUTERS, K, rounds, s, g), FOCAL_OK);
        for (int64_t i = 0; i < N; i++) {
            const int64_t row = (FROM + i / K % ROUTERS) * K + i % K;
            shifted[i] = s[i] + logf(g[row]) - s[row];
        }
        assert_status(ctx, focal_route_soften(ctx, ROWS, K, shifted, again), FOCAL_OK);
        for (int64_t i = 0; i < N; i++) assert_true(fabsf(again[i] - g[i]) < 1e-5F);
    }
}

/* Ends on rows, and the columns get there: T/K each. */
static void fills_groups_evenly(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 120, K = 8 };
    float s[T * K], g[T * K];
    fill_normals(s, (int64_t)T * K, 2.0F, 4);
    for (int64_t i = 0; i < T; i++) s[i * K] += 6.0F;
    assert_status(ctx, focal_route_sinkhorn(ctx, T, 1, K, 60, s, g), FOCAL_OK);
    for (int64_t i = 0; i < T; i++) {
        double sum = 0.0;
        for (int64_t c = 0; c < K; c++) sum += (double)g[i * K + c];
        assert_true(fabs(sum - 1.0) < 1e-5);
    }
    for (int64_t c = 0; c < K; c++) {
        double sum = 0.0;
        for (int64_t i = 0; i < T; i++) sum += (double)g[i * K + c];
        assert_true(fabs(sum - (double)T / K) < 1e-3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(matches_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(is_softmax_with_one_beta, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(fills_groups_evenly, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("route_sinkhorn", tests, NULL, NULL);
}
