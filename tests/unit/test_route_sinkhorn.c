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

/* A problem with bars (-inf), and what is left of router 0 without the rows and columns that are
 * barred altogether: the oracle's answer to that is the answer. */
enum { BAR_T = 300, BAR_ROUTERS = 2, BAR_K = 6, BAR_N = BAR_T * BAR_ROUTERS * BAR_K };
enum { NO_TOKEN = 7, NO_GROUP = 2, LATE_GROUP = 4, LATE_FROM = 270 };

static float *barred_scores(void)
{
    float *s = new_array(BAR_N, sizeof *s);
    fill_normals(s, BAR_N, 2.0F, 11);
    for (int64_t i = 0; i < BAR_T; i++) {
        float *row = s + i * BAR_ROUTERS * BAR_K;
        row[i % 5] = -INFINITY; /* every token is barred from something */
        row[NO_GROUP] = -INFINITY;
        if (i < LATE_FROM) row[LATE_GROUP] = -INFINITY; /* so no token of the first piece has it */
        for (int64_t c = 0; c < BAR_K && i == NO_TOKEN; c++) row[c] = -INFINITY;
    }
    return s;
}

static bool is_left(int64_t i, int64_t c)
{
    return i != NO_TOKEN && c != NO_GROUP;
}

/* Router 0 of x (T, routers, K), without what is barred altogether. */
static double *without_barred(const float *x)
{
    double *part = new_array((size_t)(BAR_T - 1) * (BAR_K - 1), sizeof *part);
    int64_t n = 0;
    for (int64_t i = 0; i < BAR_T; i++)
        for (int64_t c = 0; c < BAR_K; c++)
            if (is_left(i, c)) part[n++] = (double)x[i * BAR_ROUTERS * BAR_K + c];
    return part;
}

static void assert_as_without_barred(const char *what, const float *got, const double *exact)
{
    int64_t n = 0;
    for (int64_t i = 0; i < BAR_T; i++)
        for (int64_t c = 0; c < BAR_K; c++) {
            const double x = (double)got[i * BAR_ROUTERS * BAR_K + c];
            const double expected = is_left(i, c) ? exact[n++] : 0.0;
            if (!(fabs(x - expected) < 1e-5))
                fail_msg("%s: token %d, group %d: %.9g, expected %.9g", what, (int)i, (int)c, x,
                         expected);
        }
}

static void barred_groups_and_tokens_are_left_out(void **state)
{
    focal_ctx *ctx = *state;
    float *s = barred_scores(), *dg = new_array(BAR_N, 4), *got = new_array(BAR_N, 4);
    fill_normals(dg, BAR_N, 1.0F, 12);
    double *s64 = without_barred(s), *dg64 = without_barred(dg);
    double *exact = new_array((size_t)(BAR_T - 1) * (BAR_K - 1), sizeof *exact);
    for (int32_t rounds = 1; rounds <= 10; rounds += 9) {
        assert_status(ctx, focal_route_sinkhorn(ctx, BAR_T, BAR_ROUTERS, BAR_K, rounds, s, got),
                      FOCAL_OK);
        oracle_route_sinkhorn(BAR_T - 1, 1, BAR_K - 1, rounds, s64, exact);
        assert_as_without_barred("sinkhorn", got, exact);
        assert_status(
            ctx, focal_route_sinkhorn_backward(ctx, BAR_T, BAR_ROUTERS, BAR_K, rounds, s, dg, got),
            FOCAL_OK);
        oracle_route_sinkhorn_backward(BAR_T - 1, 1, BAR_K - 1, rounds, s64, dg64, exact);
        assert_as_without_barred("sinkhorn backward", got, exact);
    }
    free(s);
    free(dg);
    free(got);
    free(s64);
    free(dg64);
    free(exact);
}

/* Nothing left at all: zeros. */
static void everything_barred_is_zero(void **state)
{
    float s[12], dg[12], got[12];
    for (int n = 0; n < 12; n++) {
        s[n] = -INFINITY;
        dg[n] = 1.0F;
    }
    assert_status(*state, focal_route_sinkhorn(*state, 4, 1, 3, 5, s, got), FOCAL_OK);
    for (int n = 0; n < 12; n++) assert_true(got[n] == 0.0F);
    assert_status(*state, focal_route_sinkhorn_backward(*state, 4, 1, 3, 5, s, dg, got), FOCAL_OK);
    for (int n = 0; n < 12; n++) assert_true(got[n] == 0.0F);
}

/* NaN and +inf are not swallowed, and stay in their router. */
static void wrong_scores_show(void **state)
{
    const float wrong[] = {NAN, INFINITY};
    for (size_t m = 0; m < FOCAL_COUNT(wrong); m++) {
        float *s = barred_scores(), *got = new_array(BAR_N, 4), *dg = new_array(BAR_N, 4);
        s[20 * BAR_ROUTERS * BAR_K + BAR_K + 3] = wrong[m]; /* of router 1 */
        for (int direction = 0; direction < 2; direction++) {
            assert_status(*state,
                          direction == 0
                              ? focal_route_sinkhorn(*state, BAR_T, BAR_ROUTERS, BAR_K, 2, s, got)
                              : focal_route_sinkhorn_backward(*state, BAR_T, BAR_ROUTERS, BAR_K, 2,
                                                              s, dg, got),
                          FOCAL_OK);
            for (int64_t n = 0; n < BAR_N; n++)
                assert_int_equal(!isfinite(got[n]), n / BAR_K % BAR_ROUTERS == 1);
        }
        free(s);
        free(got);
        free(dg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(matches_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(is_softmax_with_one_beta, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(fills_groups_evenly, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(barred_groups_and_tokens_are_left_out, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(everything_barred_is_zero, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(wrong_scores_show, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("route_sinkhorn", tests, NULL, NULL);
}
