/* The causal balance: both updates of beta against the double oracle, and that they do balance. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "focal/route.h"
#include "support/oracle_route.h"
#include "support/plain_route.h"
#include "support/route_cases.h"

typedef struct balance_shape {
    focal_balance_kind kind;
    int32_t T, routers, K, top, rounds;
    float rate;
} balance_shape;

static const balance_shape shapes[] = {
    {FOCAL_BALANCE_LOG, 1, 1, 1, 1, 1, 0.5F},      {FOCAL_BALANCE_LOG, 1, 3, 4, 1, 3, 0.55F},
    {FOCAL_BALANCE_LOG, 2, 1, 2, 2, 2, 0.3F},      {FOCAL_BALANCE_LOG, 17, 3, 16, 1, 3, 0.55F},
    {FOCAL_BALANCE_LOG, 31, 1, 17, 5, 4, 0.2F},    {FOCAL_BALANCE_LOG, 100, 3, 3, 1, 10, 0.05F},
    {FOCAL_BALANCE_LOG, 257, 1, 64, 2, 3, 0.4F},   {FOCAL_BALANCE_LOG, 600, 1, 16, 1, 3, 0.55F},
    {FOCAL_BALANCE_SIGN, 1, 1, 2, 1, 1, 0.1F},     {FOCAL_BALANCE_SIGN, 7, 3, 4, 1, 5, 0.11F},
    {FOCAL_BALANCE_SIGN, 33, 1, 16, 2, 3, 0.11F},  {FOCAL_BALANCE_SIGN, 257, 3, 5, 1, 8, 0.02F},
    {FOCAL_BALANCE_SIGN, 100, 1, 17, 16, 3, 0.1F},
};

/* A call, its plain twin and its oracle, on the same numbers. */
typedef struct balance_case {
    focal_balance_args got, plain;
    oracle_balance exact;
    float *sk_before, *beta_before;
    int64_t s_count, beta_count;
} balance_case;

static float *copy(const float *x, int64_t n)
{
    float *y = new_array((size_t)n + 1, sizeof *y);
    memcpy(y, x, (size_t)n * sizeof *y);
    fill_nan(y + n, 1, FOCAL_F32);
    return y;
}

static balance_case case_new(balance_shape p, uint64_t seed)
{
    balance_case c = {.s_count = (int64_t)p.T * p.routers * p.K,
                      .beta_count = (int64_t)p.routers * p.K};
    float *sk = new_array((size_t)c.s_count, 4), *beta = new_array((size_t)c.beta_count, 4);
    fill_normals(sk, c.s_count, 3.0F, seed);
    fill_normals(beta, c.beta_count, 0.5F, seed + 1);
    for (int64_t i = 0; i < c.s_count; i++) sk[i] += beta[i % c.beta_count];
    c.got = (focal_balance_args){.kind = p.kind,
                                 .T = p.T,
                                 .routers = p.routers,
                                 .K = p.K,
                                 .top = p.top,
                                 .rounds = p.rounds,
                                 .rate = p.rate};
    c.plain = c.got;
    c.got.sk = copy(sk, c.s_count);
    c.got.beta = copy(beta, c.beta_count);
    c.got.load = copy(beta, c.beta_count);
    c.plain.sk = copy(sk, c.s_count);
    c.plain.beta = copy(beta, c.beta_count);
    c.plain.load = copy(beta, c.beta_count);
    c.exact = (oracle_balance){.kind = p.kind,
                               .T = p.T,
                               .routers = p.routers,
                               .K = p.K,
                               .top = p.top,
                               .rounds = p.rounds,
                               .rate = (double)p.rate,
                               .sk = to_doubles(sk, c.s_count),
                               .beta = to_doubles(beta, c.beta_count),
                               .load = to_doubles(beta, c.beta_count)};
    c.sk_before = sk;
    c.beta_before = beta;
    return c;
}

static void case_free(balance_case *c)
{
    free(c->got.sk);
    free(c->got.beta);
    free(c->got.load);
    free(c->plain.sk);
    free(c->plain.beta);
    free(c->plain.load);
    free(c->exact.sk);
    free(c->exact.beta);
    free(c->exact.load);
    free(c->sk_before);
    free(c->beta_before);
}

/* A case whose every choice is clear: roundoff cannot turn a group or a sign. */
static balance_case clear_case(balance_shape p, uint64_t seed)
{
    for (uint64_t attempt = 0; attempt < 200; attempt++) {
        balance_case c = case_new(p, seed + 2 * attempt);
        oracle_route_balance(&c.exact);
        if (c.exact.margin > 2e-5) return c;
        case_free(&c);
    }
    fail_msg("no clear case");
    return (balance_case){0};
}

static void assert_near(const char *name, const float *got, const float *plain, const double *exact,
                        int64_t n, double size)
{
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

static void matches_oracle(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t m = 0; m < FOCAL_COUNT(shapes); m++) {
        balance_case c = clear_case(shapes[m], 1000 * m + 1);
        assert_status(ctx, focal_route_balance(ctx, &c.got), FOCAL_OK);
        plain_route_balance(&c.plain);
        double size = 1.0; /* of the scores: their roundoff is the load's */
        for (int64_t i = 0; i < c.s_count; i++) size = fmax(size, fabs(c.exact.sk[i]));
        assert_near("load", c.got.load, c.plain.load, c.exact.load, c.beta_count, size);
        assert_near("beta", c.got.beta, c.plain.beta, c.exact.beta, c.beta_count, size);
        assert_near("sk", c.got.sk, c.plain.sk, c.exact.sk, c.s_count, size);
        case_free(&c);
    }
}

/* rounds 0 is 3; load may be NULL; neither changes a bit. */
static void defaults(void **state)
{
    focal_ctx *ctx = *state;
    const balance_shape p = {FOCAL_BALANCE_LOG, 50, 2, 7, 1, 3, 0.5F};
    balance_case three = case_new(p, 5), zero = case_new(p, 5);
    float *load = zero.got.load;
    zero.got.rounds = 0;
    zero.got.load = NULL;
    assert_status(ctx, focal_route_balance(ctx, &three.got), FOCAL_OK);
    assert_status(ctx, focal_route_balance(ctx, &zero.got), FOCAL_OK);
    assert_memory_equal(three.got.sk, zero.got.sk, (size_t)three.s_count * sizeof(float));
    assert_memory_equal(three.got.beta, zero.got.beta, (size_t)three.beta_count * sizeof(float));
    zero.got.load = load;
    case_free(&three);
    case_free(&zero);
}

/* Only differences of scores count: far from 0 the balance is the same and nothing overflows. */
static void scores_may_be_large(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 30, K = 4 };
    for (int step = -1; step <= 1; step++) {
        float sk[T * K], beta[K] = {0}, load[K], exact_load[K] = {0};
        for (int64_t i = 0; i < (int64_t)T * K; i++) /* group i % 3, and never the last, by far */
            sk[i] = 4096.0F * (float)step + (i % K == i / K % 3 ? 64.0F : 0.0F);
        for (int64_t c = 0; c < K - 1; c++) exact_load[c] = 1.0F / 3.0F;
        const focal_balance_args args = {.T = T,
                                         .routers = 1,
                                         .K = K,
                                         .top = 1,
                                         .rounds = 1,
                                         .rate = 0.5F,
                                         .sk = sk,
                                         .beta = beta,
                                         .load = load};
        assert_status(ctx, focal_route_balance(ctx, &args), FOCAL_OK);
        for (int64_t c = 0; c < K; c++) assert_true(fabsf(load[c] - exact_load[c]) < 1e-6F);
        for (int64_t c = 0; c < K; c++) assert_true(isfinite(beta[c]));
    }
}

/* What the kernel says of itself: sk moved exactly as beta did, and the log form is centred. */
static void scores_follow_beta(void **state)
{
    focal_ctx *ctx = *state;
    for (int kind = 0; kind < 2; kind++) {
        const balance_shape p = {(focal_balance_kind)kind, 40, 3, 8, 1, 3, 0.4F};
        balance_case c = case_new(p, 77);
        assert_status(ctx, focal_route_balance(ctx, &c.got), FOCAL_OK);
        for (int64_t i = 0; i < c.s_count; i++) {
            const float moved = c.got.beta[i % c.beta_count] - c.beta_before[i % c.beta_count];
            assert_true(fabsf(c.got.sk[i] - c.sk_before[i] - moved) < 1e-5F);
        }
        for (int64_t r = 0; r < p.routers && kind == FOCAL_BALANCE_LOG; r++) {
            double sum = 0.0;
            for (int64_t g = 0; g < p.K; g++) sum += (double)c.got.beta[r * p.K + g];
            assert_true(fabs(sum) < 1e-5);
        }
        case_free(&c);
    }
}

/* The share of the fullest group times K, by argmax. */
static double imbalance(const float *sk, int64_t T, int64_t K)
{
    int64_t counts[FOCAL_MAX_GROUPS] = {0}, most = 0;
    for (int64_t i = 0; i < T; i++) {
        int64_t best = 0;
        for (int64_t c = 1; c < K; c++)
            if (sk[i * K + c] > sk[i * K + best]) best = c;
        counts[best]++;
    }
    for (int64_t c = 0; c < K; c++) most = counts[c] > most ? counts[c] : most;
    return (double)(most * K) / (double)T;
}

/* A router that puts nearly everything into one group, balanced in small calls, as training
 * does: rate falling from eta to a tenth. */
static void balances_a_skewed_router(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 512, K = 16, CALLS = 40 };
    for (int kind = 0; kind < 2; kind++) {
        float sk[T * K], beta[K] = {0};
        fill_normals(sk, (int64_t)T * K, 2.0F, 8);
        for (int64_t i = 0; i < T; i++)
            for (int64_t c = 0; c < K; c++) sk[i * K + c] += c == 3 ? 6.0F : 0.2F * (float)c;
        assert_true(imbalance(sk, T, K) > 8.0);
        for (int call = 0; call < CALLS; call++) {
            const float left = 1.0F - 0.9F * (float)call / (CALLS - 1);
            const focal_balance_args args = {.kind = (focal_balance_kind)kind,
                                             .T = T,
                                             .routers = 1,
                                             .K = K,
                                             .top = 1,
                                             .rate = left * (kind == 0 ? 0.55F : 0.11F),
                                             .sk = sk,
                                             .beta = beta};
            assert_status(ctx, focal_route_balance(ctx, &args), FOCAL_OK);
        }
        assert_true(imbalance(sk, T, K) < 1.5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(matches_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(defaults, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(scores_may_be_large, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(scores_follow_beta, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(balances_a_skewed_router, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("route_balance", tests, NULL, NULL);
}
