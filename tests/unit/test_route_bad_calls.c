/* Wrong calls of routing get EINVAL and one line that says why, and write nothing. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "focal/route.h"
#include "support/route_cases.h"
#include "support/start_cases.h"

/* A valid call that a test then spoils in one place. */
typedef struct good_call {
    route_case *c;
    focal_router router;
    focal_route_args args;
    focal_route_grads grads;
} good_call;

static good_call good_call_new(void)
{
    const route_shape shape = {5, 6, 4, 3, 2, CASE_OFFSETS | CASE_BETA};
    good_call g = {.c = route_case_new(shape, 1)};
    route_case *c = g.c;
    g.router = c->router;
    g.args = c->args;
    g.args.sk = route_case_floats(c, c->s_count);
    g.args.sq = route_case_floats(c, c->s_count);
    g.grads = (focal_route_grads){.dsk = c->dsk,
                                  .dsq = c->dsq,
                                  .dh = route_case_floats(c, c->h_count),
                                  .dpk = route_case_floats(c, c->p_count),
                                  .dpq = route_case_floats(c, c->p_count),
                                  .dak = route_case_floats(c, c->a_count),
                                  .daq = route_case_floats(c, c->a_count),
                                  .de = route_case_floats(c, c->e_count)};
    return g;
}

/* Both directions refuse the call. */
static void refuse(focal_ctx *ctx, good_call *g)
{
    g->args.router = &g->router;
    assert_status(ctx, focal_route_scores(ctx, &g->args), FOCAL_EINVAL);
    assert_true(is_fill_nan(g->args.sk, 0, FOCAL_F32));
    assert_status(ctx, focal_route_scores_backward(ctx, &g->args, &g->grads), FOCAL_EINVAL);
    assert_true(is_fill_nan(g->grads.dh, 0, FOCAL_F32));
}

static void sizes_of_scores(void **state)
{
    focal_ctx *ctx = *state;
    static const int32_t bad[] = {0, -1, INT32_MIN};
    good_call good = good_call_new();
    for (size_t n = 0; n < FOCAL_COUNT(bad); n++) {
        good_call g = good;
        g.args.T = bad[n];
        refuse(ctx, &g);
        g = good;
        g.router.C = bad[n];
        refuse(ctx, &g);
        g = good;
        g.router.R = bad[n];
        refuse(ctx, &g);
        g = good;
        g.router.K = bad[n];
        refuse(ctx, &g);
        g = good;
        g.router.routers = bad[n];
        refuse(ctx, &g);
    }
    good_call g = good;
    g.router.K = FOCAL_MAX_GROUPS + 1;
    refuse(ctx, &g);
    g.router.K = INT32_MAX;
    refuse(ctx, &g);
    g = good;
    g.router.R = 257;
    refuse(ctx, &g);
    g.router.R = INT32_MAX;
    refuse(ctx, &g);
    g = good;
    g.router.routers = INT32_MAX;
    refuse(ctx, &g);
    g = good;
    g.args.h_stride = g.router.C - 1;
    refuse(ctx, &g);
    g.args.h_stride = -g.router.C;
    refuse(ctx, &g);
    g.args.h_stride = INT64_MIN;
    refuse(ctx, &g);
    g = good; /* the last token's address would not fit */
    g.args.h_stride = INT64_MAX;
    refuse(ctx, &g);
    g = good;
    g.args.sq_from = -1;
    refuse(ctx, &g);
    g.args.sq_from = g.args.T + 1;
    refuse(ctx, &g);
    g = good;
    g.router.sharpness = NAN;
    refuse(ctx, &g);
    g.router.sharpness = INFINITY;
    refuse(ctx, &g);
    route_case_free(good.c);
}

static void pointers_of_scores(void **state)
{
    focal_ctx *ctx = *state;
    good_call good = good_call_new(), g = good;
    g.args.h = NULL;
    refuse(ctx, &g);
    g = good;
    g.router.pk = NULL;
    refuse(ctx, &g);
    g = good;
    g.router.e = NULL;
    refuse(ctx, &g);
    g = good;
    g.args.router = NULL;
    assert_status(ctx, focal_route_scores(ctx, &g.args), FOCAL_EINVAL);
    assert_status(ctx, focal_route_scores_backward(ctx, &g.args, &g.grads), FOCAL_EINVAL);
    assert_status(ctx, focal_route_scores(ctx, NULL), FOCAL_EINVAL);
    assert_status(ctx, focal_route_scores_backward(ctx, NULL, &g.grads), FOCAL_EINVAL);
    g.args.router = &g.router;
    assert_status(ctx, focal_route_scores_backward(ctx, &g.args, NULL), FOCAL_EINVAL);
    g.router.pq = NULL; /* with one projection there is no dpq and no daq */
    assert_status(ctx, focal_route_scores_backward(ctx, &g.args, &g.grads), FOCAL_EINVAL);
    g.grads.dpq = NULL;
    assert_status(ctx, focal_route_scores_backward(ctx, &g.args, &g.grads), FOCAL_EINVAL);
    assert_true(is_fill_nan(g.grads.dh, 0, FOCAL_F32));
    g.grads.daq = NULL;
    assert_status(ctx, focal_route_scores_backward(ctx, &g.args, &g.grads), FOCAL_OK);
    route_case_free(good.c);
}

enum { ROWS = 6, K = 4 };

static void softmax(void **state)
{
    focal_ctx *ctx = *state;
    float s[ROWS * K] = {0}, g[ROWS * K];
    static const int32_t bad_K[] = {0, -1, FOCAL_MAX_GROUPS + 1, INT32_MAX, INT32_MIN};
    static const int64_t bad_rows[] = {-1, INT64_MIN, INT64_MAX};
    for (size_t n = 0; n < FOCAL_COUNT(bad_K); n++) {
        assert_status(ctx, focal_route_soften(ctx, ROWS, bad_K[n], s, g), FOCAL_EINVAL);
        assert_status(ctx, focal_route_soften_backward(ctx, ROWS, bad_K[n], s, s, g), FOCAL_EINVAL);
    }
    for (size_t n = 0; n < FOCAL_COUNT(bad_rows); n++) {
        assert_status(ctx, focal_route_soften(ctx, bad_rows[n], K, s, g), FOCAL_EINVAL);
        assert_status(ctx, focal_route_soften_backward(ctx, bad_rows[n], K, s, s, g), FOCAL_EINVAL);
    }
    assert_status(ctx, focal_route_soften(ctx, ROWS, K, NULL, g), FOCAL_EINVAL);
    assert_status(ctx, focal_route_soften(ctx, ROWS, K, s, NULL), FOCAL_EINVAL);
    assert_status(ctx, focal_route_soften_backward(ctx, ROWS, K, NULL, s, g), FOCAL_EINVAL);
    assert_status(ctx, focal_route_soften_backward(ctx, ROWS, K, s, NULL, g), FOCAL_EINVAL);
    assert_status(ctx, focal_route_soften_backward(ctx, ROWS, K, s, s, NULL), FOCAL_EINVAL);
}

typedef struct sinkhorn_sizes {
    int32_t T, routers, K, rounds;
} sinkhorn_sizes;

static void sinkhorn(void **state)
{
    focal_ctx *ctx = *state;
    float s[ROWS * K] = {0}, g[ROWS * K];
    static const sinkhorn_sizes bad[] = {
        {0, 1, 4, 1},  {-3, 1, 4, 1}, {6, 0, 4, 1},         {6, -1, 4, 1},
        {6, 1, 0, 1},  {6, 1, 65, 1}, {6, INT32_MAX, 4, 1}, {6, 1, -4, 1},
        {6, 1, 4, -1}, {6, 1, 4, 0},  {6, 1, 4, INT32_MIN},
    };
    for (size_t n = 0; n < FOCAL_COUNT(bad); n++) {
        const sinkhorn_sizes b = bad[n];
        assert_status(ctx, focal_route_sinkhorn(ctx, b.T, b.routers, b.K, b.rounds, s, g),
                      FOCAL_EINVAL);
        assert_status(ctx,
                      focal_route_sinkhorn_backward(ctx, b.T, b.routers, b.K, b.rounds, s, s, g),
                      FOCAL_EINVAL);
    }
    assert_status(ctx, focal_route_sinkhorn(ctx, ROWS, 1, K, 2, NULL, g), FOCAL_EINVAL);
    assert_status(ctx, focal_route_sinkhorn(ctx, ROWS, 1, K, 2, s, NULL), FOCAL_EINVAL);
    assert_status(ctx, focal_route_sinkhorn_backward(ctx, ROWS, 1, K, 2, NULL, s, g), FOCAL_EINVAL);
    assert_status(ctx, focal_route_sinkhorn_backward(ctx, ROWS, 1, K, 2, s, NULL, g), FOCAL_EINVAL);
    assert_status(ctx, focal_route_sinkhorn_backward(ctx, ROWS, 1, K, 2, s, s, NULL), FOCAL_EINVAL);
}

static void balance(void **state)
{
    focal_ctx *ctx = *state;
    float sk[ROWS * K] = {0}, beta[K] = {0}, load[K];
    const focal_balance_args good = {.T = ROWS,
                                     .routers = 1,
                                     .K = K,
                                     .top = 1,
                                     .rate = 0.1F,
                                     .sk = sk,
                                     .beta = beta,
                                     .load = load};
    focal_balance_args bad[24];
    size_t n = 0;
    for (size_t m = 0; m < FOCAL_COUNT(bad); m++) bad[m] = good;
    bad[n++].T = 0;
    bad[n++].T = -1;
    bad[n++].routers = 0;
    bad[n++].routers = INT32_MAX;
    bad[n++].K = 0;
    bad[n++].K = FOCAL_MAX_GROUPS + 1;
    bad[n++].K = -4;
    bad[n++].top = 0;
    bad[n++].top = -1;
    bad[n++].top = K + 1;
    bad[n++].rounds = -1;
    bad[n++].rounds = INT32_MIN;
    bad[n++].rate = NAN;
    bad[n++].rate = INFINITY;
    bad[n++].rate = -INFINITY;
    bad[n++].kind = (focal_balance_kind)2;
    bad[n++].sk = NULL;
    bad[n++].beta = NULL;
    for (size_t m = 0; m < n; m++) {
        const focal_status status = focal_route_balance(ctx, &bad[m]);
        if (status != FOCAL_EINVAL) print_error("bad balance %zu\n", m);
        assert_status(ctx, status, FOCAL_EINVAL);
        for (int64_t c = 0; c < K; c++) assert_true(beta[c] == 0.0F);
    }
    assert_status(ctx, focal_route_balance(ctx, NULL), FOCAL_EINVAL);
    assert_status(ctx, focal_route_balance(ctx, &good), FOCAL_OK);
}

static void top(void **state)
{
    focal_ctx *ctx = *state;
    float s[ROWS * K] = {0};
    int32_t groups[ROWS * K];
    assert_status(ctx, focal_route_top(ctx, -1, K, 1, s, groups), FOCAL_EINVAL);
    assert_status(ctx, focal_route_top(ctx, INT64_MAX, K, 1, s, groups), FOCAL_EINVAL);
    assert_status(ctx, focal_route_top(ctx, ROWS, 0, 1, s, groups), FOCAL_EINVAL);
    assert_status(ctx, focal_route_top(ctx, ROWS, -K, 1, s, groups), FOCAL_EINVAL);
    assert_status(ctx, focal_route_top(ctx, ROWS, FOCAL_MAX_GROUPS + 1, 1, s, groups),
                  FOCAL_EINVAL);
    assert_status(ctx, focal_route_top(ctx, ROWS, K, 0, s, groups), FOCAL_EINVAL);
    assert_status(ctx, focal_route_top(ctx, ROWS, K, -1, s, groups), FOCAL_EINVAL);
    assert_status(ctx, focal_route_top(ctx, ROWS, K, K + 1, s, groups), FOCAL_EINVAL);
    assert_status(ctx, focal_route_top(ctx, ROWS, K, INT32_MAX, s, groups), FOCAL_EINVAL);
    assert_status(ctx, focal_route_top(ctx, ROWS, K, 1, NULL, groups), FOCAL_EINVAL);
    assert_status(ctx, focal_route_top(ctx, ROWS, K, 1, s, NULL), FOCAL_EINVAL);
}

static void statistics(void **state)
{
    focal_ctx *ctx = *state;
    float g[ROWS * K] = {0};
    double load[K], entropy;
    static const int32_t bad[][4] = {
        /* T, routers, K, router */
        {0, 1, K, 0},         {-1, 1, K, 0},        {3, 0, K, 0},        {3, 2, 0, 0},
        {3, 2, 65, 0},        {3, 2, K, 2},         {3, 2, K, -1},       {3, -2, K, 0},
        {3, INT32_MAX, K, 0}, {3, 2, K, INT32_MAX}, {3, 2, INT32_MIN, 0}};
    for (size_t n = 0; n < FOCAL_COUNT(bad); n++)
        assert_status(ctx,
                      focal_route_soft_stats(ctx, bad[n][0], bad[n][1], bad[n][2], bad[n][3], g,
                                             load, &entropy),
                      FOCAL_EINVAL);
    assert_status(ctx, focal_route_soft_stats(ctx, 3, 2, K, 0, NULL, load, &entropy), FOCAL_EINVAL);
}

static void start(void **state)
{
    focal_ctx *ctx = *state;
    const start_shape shape = {30, 6, 4, 2, 4, 2, 3, 2, START_ROPE};
    start_case *c = start_case_new(shape, 1);
    const focal_route_start_args good = c->args;
    enum { PLACES = 64 };
    focal_route_start_args *bad = new_array(PLACES, sizeof *bad);
    size_t n = 0;
    for (size_t m = 0; m < PLACES; m++) bad[m] = good;
    bad[n++].T = 0;
    bad[n++].T = -1;
    bad[n++].C = 0;
    bad[n++].C = INT32_MIN;
    bad[n++].H = 0;
    bad[n++].H = 3; /* not a multiple of G */
    bad[n++].G = 0;
    bad[n++].G = -2;
    bad[n++].D = 0;
    bad[n++].D = -4;
    bad[n++].D = 3; /* rope turns pairs */
    bad[n++].R = 0;
    bad[n++].R = 5; /* a head has four directions */
    bad[n++].R = 257;
    bad[n++].R = -1;
    bad[n++].K = 0;
    bad[n++].K = FOCAL_MAX_GROUPS + 1;
    bad[n++].K = -3;
    bad[n++].routers = 0;
    bad[n++].routers = 3;
    bad[n++].routers = -1;
    bad[n++].h = NULL;
    bad[n++].q = NULL;
    bad[n++].k = NULL;
    bad[n++].wq = NULL; /* one of two */
    bad[n++].wk = NULL;
    bad[n++].pk = NULL;
    bad[n++].pq = NULL;
    bad[n++].ak = NULL;
    bad[n++].aq = NULL;
    bad[n++].e = NULL;
    bad[n++].distance_min = -1;
    bad[n++].distance_max = good.distance_min - 1;
    bad[n++].kmeans_rounds = -1;
    const float no_frequency[][2] = {{NAN, 0.1F}, {1.0F, NAN}, {INFINITY, 0.1F}};
    for (size_t m = 0; m < FOCAL_COUNT(no_frequency); m++) bad[n++].rope_freq = no_frequency[m];
    assert_true(n <= PLACES);
    for (size_t m = 0; m < n; m++) {
        const focal_status status = focal_route_start(ctx, &bad[m]);
        if (status != FOCAL_EINVAL) print_error("bad start %zu\n", m);
        assert_status(ctx, status, FOCAL_EINVAL);
        assert_true(is_fill_nan(c->args.pk, 0, FOCAL_F32));
        assert_true(is_fill_nan(c->args.e, 0, FOCAL_F32));
    }
    assert_status(ctx, focal_route_start(ctx, NULL), FOCAL_EINVAL);
    assert_status(ctx, focal_route_start(ctx, &good), FOCAL_OK);
    free(bad);
    start_case_free(c);
}

/* Sizes whose scratch cannot be had, or whose product does not fit, are no crash either. The
 * arrays are not that large: the call must end before it reads them. */
static void huge_scratch(void **state)
{
    focal_ctx *ctx = *state;
    float s[ROWS * K] = {0}, g[ROWS * K];
    memory_fail(1, true);
    assert_status(
        ctx, focal_route_sinkhorn_backward(ctx, INT32_MAX, 65536, FOCAL_MAX_GROUPS, 100, s, s, g),
        FOCAL_ENOMEM);
    memory_fail(0, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sizes_of_scores, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(pointers_of_scores, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(softmax, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(sinkhorn, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(balance, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(top, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(statistics, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(start, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(huge_scratch, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("route_bad_calls", tests, NULL, NULL);
}
