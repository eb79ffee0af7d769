/* Every routing kernel makes the scores of the double oracle: shapes that break tiles, strides,
 * misaligned arrays, one or both sides, vectors of length 0. Soft groups and their statistics. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "ops/route/route_kernels.h"
#include "support/oracle_route.h"
#include "support/plain_route.h"
#include "support/route_cases.h"

/* One side's results of a case. */
typedef struct scores {
    float *got, *plain;
    double *exact, *size;
} scores;

static scores scores_new(route_case *c)
{
    return (scores){route_case_floats(c, c->s_count), route_case_floats(c, c->s_count),
                    route_case_doubles(c, c->s_count), route_case_doubles(c, c->s_count)};
}

static void assert_scores(const route_case *c, const char *kernel, const scores *s)
{
    char name[192];
    (void)snprintf(name, sizeof name, "%s, %s", kernel, route_shape_text(c->shape));
    const error_bound bound = {.name = name,
                               .plain = s->plain,
                               .exact = s->exact,
                               .magnitude = s->size,
                               .count = c->s_count,
                               .factor = 2.0};
    assert_within(&bound, s->got);
    assert_end_untouched(name, s->got, c->s_count);
}

static void expected_scores(route_case *c, scores *k, scores *q)
{
    oracle_route_scores(&c->exact, c->shape.T, c->h, k->exact, q->exact);
    const oracle_route_sizes sizes = {.sk = k->size, .sq = q->size};
    oracle_route_scores_sizes(&c->exact, c->shape.T, c->h, NULL, NULL, &sizes);
    focal_route_args plain = c->args;
    plain.sk = k->plain;
    plain.sq = q->plain;
    plain_route_scores(&plain);
}

static void kernels_match_oracle(void **state)
{
    focal_ctx *ctx = *state;
    for (int64_t n = 0; n < route_shape_count(); n++) {
        route_case *c = route_case_new(route_shape_at(n), (uint64_t)n + 1);
        scores k = scores_new(c), q = scores_new(c);
        expected_scores(c, &k, &q);
        c->args.sk = k.got;
        c->args.sq = q.got;
        for (size_t m = 0; m < foci_route_kernel_count; m++) {
            const foci_route_kernel *kernel = &foci_route_kernels[m];
            if (!kernel_takes(ctx, kernel, &c->args)) continue;
            fill_nan(k.got, (size_t)c->s_count, FOCAL_F32);
            fill_nan(q.got, (size_t)c->s_count, FOCAL_F32);
            run_forward(ctx, kernel, &c->args);
            assert_scores(c, kernel->name, &k);
            assert_scores(c, kernel->name, &q);
            note_ran("route", kernel->name);
        }
        route_case_free(c);
    }
    note_without("route", "avx512bf16"); /* routers are float32 */
    assert_ran("route", "ref");
}

/* Through the public call: either side may be left out and does not change the other's bits. */
static void one_side_alone(void **state)
{
    focal_ctx *ctx = *state;
    for (int64_t n = 0; n < route_shape_count(); n += 7) {
        route_case *c = route_case_new(route_shape_at(n), (uint64_t)n + 1);
        scores k = scores_new(c), q = scores_new(c);
        c->args.sk = k.got;
        c->args.sq = q.got;
        assert_status(ctx, focal_route_scores(ctx, &c->args), FOCAL_OK);
        expected_scores(c, &k, &q);
        assert_scores(c, "both", &k);
        assert_scores(c, "both", &q);
        c->args.sk = k.plain;
        c->args.sq = NULL;
        assert_status(ctx, focal_route_scores(ctx, &c->args), FOCAL_OK);
        assert_memory_equal(k.plain, k.got, (size_t)c->s_count * sizeof(float));
        c->args.sk = NULL;
        c->args.sq = q.plain;
        assert_status(ctx, focal_route_scores(ctx, &c->args), FOCAL_OK);
        assert_memory_equal(q.plain, q.got, (size_t)c->s_count * sizeof(float));
        /* and of queries, those of the last tokens alone */
        c->args.sk = k.plain;
        c->args.sq_from = c->shape.T / 2;
        const int64_t skipped = c->s_count / c->shape.T * c->args.sq_from;
        fill_nan(q.plain, (size_t)c->s_count, FOCAL_F32);
        assert_status(ctx, focal_route_scores(ctx, &c->args), FOCAL_OK);
        assert_memory_equal(k.plain, k.got, (size_t)c->s_count * sizeof(float));
        assert_memory_equal(q.plain + skipped, q.got + skipped,
                            (size_t)(c->s_count - skipped) * sizeof(float));
        route_case_free(c);
    }
}

/* A vector of length 0 stays 0: a zero token has the scores beta, a zero centroid too. */
static void length_zero_stays_zero(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 20, C = 24, R = 16, K = 5 };
    float h[T * C], p[C * R], e[K * R], beta[K] = {0.5F, -1.0F, 2.0F, 0.0F, 0.25F};
    float sk[T * K], sq[T * K];
    fill_normals(h, (int64_t)T * C, 1.0F, 1);
    fill_normals(p, (int64_t)C * R, 1.0F, 2);
    fill_normals(e, (int64_t)K * R, 1.0F, 3);
    memset(&h[3 * (size_t)C], 0, C * sizeof *h);
    memset(&h[19 * (size_t)C], 0, C * sizeof *h);
    memset(&e[2 * (size_t)R], 0, R * sizeof *e);
    const focal_router router = {
        .C = C, .R = R, .K = K, .routers = 1, .pk = p, .e = e, .beta = beta};
    const focal_route_args args = {.router = &router, .T = T, .h = h, .sk = sk, .sq = sq};
    for (size_t m = 0; m < foci_route_kernel_count; m++) {
        const foci_route_kernel *kernel = &foci_route_kernels[m];
        if (!kernel_takes(ctx, kernel, &args)) continue;
        run_forward(ctx, kernel, &args);
        for (int64_t i = 0; i < T; i++)
            for (int64_t c = 0; c < K; c++) {
                assert_true(isfinite(sk[i * K + c]) && isfinite(sq[i * K + c]));
                if (i != 3 && i != 19 && c != 2) continue;
                assert_true(sk[i * K + c] == beta[c]);
                assert_true(sq[i * K + c] == 0.0F);
            }
    }
}

/* A token that is NaN or infinite spoils its own rows and no other. */
static void a_bad_token_stays_alone(void **state)
{
    focal_ctx *ctx = *state;
    const route_shape shape = {
        .T = 33, .C = 48, .R = 16, .K = 16, .routers = 3, .flags = CASE_OFFSETS | CASE_BETA};
    route_case *c = route_case_new(shape, 5);
    scores k = scores_new(c), q = scores_new(c);
    const int64_t row = (int64_t)shape.routers * shape.K;
    for (size_t m = 0; m < foci_route_kernel_count; m++) {
        const foci_route_kernel *kernel = &foci_route_kernels[m];
        c->args.sk = k.plain;
        c->args.sq = q.plain;
        if (!kernel_takes(ctx, kernel, &c->args)) continue;
        run_forward(ctx, kernel, &c->args);
        float *h = route_case_floats(c, c->h_count);
        memcpy(h, c->args.h, (size_t)c->h_count * sizeof *h);
        h[17 * 48 + 5] = NAN;
        focal_route_args bad = c->args;
        bad.h = h;
        bad.sk = k.got;
        bad.sq = q.got;
        run_forward(ctx, kernel, &bad);
        for (int64_t n = 0; n < c->s_count; n++) {
            if (n / row == 17) {
                assert_true(isnan(k.got[n]) && isnan(q.got[n]));
            } else {
                assert_true(k.got[n] == k.plain[n] && q.got[n] == q.plain[n]);
            }
        }
    }
    route_case_free(c);
}

typedef struct soft_shape {
    int64_t rows;
    int32_t K;
    float spread;
} soft_shape;

static const soft_shape soft_shapes[] = {
    {1, 1, 1.0F},   {1, 2, 10.0F},   {3, 3, 1.0F},    {16, 4, 5.0F},    {17, 16, 10.0F},
    {33, 17, 3.0F}, {100, 64, 8.0F}, {257, 63, 1.0F}, {1001, 5, 60.0F}, {40, 16, 0.0F},
};

static double largest(const float *x, int64_t n)
{
    double result = 0.0;
    for (int64_t i = 0; i < n; i++) result = fmax(result, fabs((double)x[i]));
    return result;
}

/* Roundoff of s reaches g multiplied by |s|, so that is what errors are measured against. */
static void assert_groups(const char *name, const float *got, const float *plain,
                          const double *exact, int64_t n, double size)
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
    free(sizes);
}

static void softmax_and_gradient(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t m = 0; m < FOCAL_COUNT(soft_shapes); m++) {
        const int64_t rows = soft_shapes[m].rows, K = soft_shapes[m].K, n = rows * K;
        const size_t count = (size_t)n;
        float *s = new_array(count + 1, 4), *g = new_array(count + 1, 4),
              *dg = new_array(count + 1, 4), *ds = new_array(count + 1, 4),
              *plain = new_array(count, 4);
        fill_normals(s, n, soft_shapes[m].spread, m + 1);
        fill_normals(dg, n, 1.0F, m + 20);
        fill_nan(g, count + 1, FOCAL_F32);
        fill_nan(ds, count + 1, FOCAL_F32);
        double *s64 = to_doubles(s, n), *dg64 = to_doubles(dg, n);
        double *exact = new_array(count, sizeof *exact);

        assert_status(ctx, focal_route_soften(ctx, rows, (int32_t)K, s, g), FOCAL_OK);
        oracle_route_soften(rows, K, s64, exact);
        plain_route_soften(rows, K, s, plain);
        assert_groups("softmax", g, plain, exact, n, 1.0 + largest(s, n));
        assert_end_untouched("g", g, n);

        double *g64 = to_doubles(g, n); /* backward is a function of g as it is */
        assert_status(ctx, focal_route_soften_backward(ctx, rows, (int32_t)K, g, dg, ds), FOCAL_OK);
        oracle_route_soften_backward(rows, K, g64, dg64, exact);
        plain_route_soften_backward(rows, K, g, dg, plain);
        assert_groups("softmax backward", ds, plain, exact, n, largest(dg, n));
        assert_end_untouched("ds", ds, n);

        /* in place: the same bits */
        assert_status(ctx, focal_route_soften(ctx, rows, (int32_t)K, s, s), FOCAL_OK);
        assert_memory_equal(s, g, count * sizeof *s);
        assert_status(ctx, focal_route_soften_backward(ctx, rows, (int32_t)K, g, dg, dg), FOCAL_OK);
        assert_memory_equal(dg, ds, count * sizeof *ds);
        free(s);
        free(g);
        free(dg);
        free(ds);
        free(plain);
        free(s64);
        free(dg64);
        free(g64);
        free(exact);
    }
}

/* Scores of any size: no overflow, rows sum to 1; a group at -inf gets nothing, and where all are
 * at -inf none gets anything. NaN shows. */
static void softmax_of_extremes(void **state)
{
    focal_ctx *ctx = *state;
    float s[] = {3e38F, -3e38F, 0.0F, 1e4F, 1e4F, -1e4F, -INFINITY, 1.0F, 1.0F}, g[9];
    assert_status(ctx, focal_route_soften(ctx, 3, 3, s, g), FOCAL_OK);
    assert_true(g[0] == 1.0F && g[1] == 0.0F && g[2] == 0.0F);
    assert_true(g[3] == 0.5F && g[4] == 0.5F && g[5] == 0.0F);
    assert_true(g[6] == 0.0F && g[7] == 0.5F && g[8] == 0.5F);
    float odd[] = {-INFINITY, -INFINITY, NAN, NAN, -INFINITY, NAN, 1.0F, NAN};
    assert_status(ctx, focal_route_soften(ctx, 4, 2, odd, g), FOCAL_OK);
    assert_true(g[0] == 0.0F && g[1] == 0.0F);
    for (int n = 2; n < 8; n++) assert_true(isnan(g[n]));
}

/* The table that calls choose from, from outside; the reference is last and always usable. */
static void kernels_have_names(void **state)
{
    focal_ctx *ctx = *state;
    const int32_t count = (int32_t)foci_route_kernel_count;
    bool is_usable = true;
    assert_null(focal_route_kernel_at(ctx, -1, &is_usable));
    assert_null(focal_route_kernel_at(ctx, count, &is_usable));
    const char *fastest = NULL;
    for (int32_t n = 0; n < count; n++) {
        const char *name = focal_route_kernel_at(ctx, n, &is_usable);
        assert_string_equal(name, foci_route_kernels[n].name);
        assert_string_equal(focal_route_kernel_at(ctx, n, NULL), name);
        if (is_usable && !fastest) fastest = name;
    }
    assert_string_equal(focal_route_kernel_at(ctx, count - 1, &is_usable), "ref");
    assert_true(is_usable);
    (void)focal_route_kernel_at(NULL, count - 1, &is_usable);
    assert_false(is_usable);

    const route_shape shape = {.T = 5, .C = 6, .R = 4, .K = 3, .routers = 2};
    route_case *c = route_case_new(shape, 1);
    assert_string_equal(focal_route_kernel_name(ctx, &c->args), fastest);
    foci_ctx_mask_features(ctx, 0);
    assert_string_equal(focal_route_kernel_name(ctx, &c->args), "ref");
    (void)focal_route_kernel_at(ctx, 0, &is_usable);
    assert_false(is_usable);
    c->args.T = 0;
    assert_null(focal_route_kernel_name(ctx, &c->args));
    assert_null(focal_route_kernel_name(NULL, &c->args));
    assert_null(focal_route_kernel_name(ctx, NULL));
    route_case_free(c);
}

/* A pinned kernel that cannot run here has no name; one that routing lacks pins nothing. */
static void pins_are_named(void **state)
{
    (void)state;
    const char *const pins[] = {"ref", "avx2", "avx512bf16"};
    const route_shape shape = {.T = 5, .C = 6, .R = 4, .K = 3, .routers = 2};
    route_case *c = route_case_new(shape, 1);
    for (size_t n = 0; n < FOCAL_COUNT(pins); n++) {
        const focal_ctx_options options = {.threads = 1, .kernel = pins[n]};
        focal_ctx *ctx = NULL;
        assert_int_equal(focal_ctx_open(&options, &ctx, NULL), FOCAL_OK);
        foci_ctx_mask_features(ctx, 0);
        const char *name = focal_route_kernel_name(ctx, &c->args);
        if (n == 1)
            assert_null(name);
        else
            assert_string_equal(name, "ref");
        focal_ctx_close(ctx);
    }
    route_case_free(c);
}

static void statistics_of_groups(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 67, ROUTERS = 3, K = 6, ROWS = T * ROUTERS };
    float g[ROWS * K];
    fill_normals(g, (int64_t)ROWS * K, 2.0F, 9);
    assert_status(ctx, focal_route_soften(ctx, ROWS, K, g, g), FOCAL_OK);
    for (int64_t c = 0; c < K; c++) g[(5 * ROUTERS + 1) * (int64_t)K + c] = c == 2 ? 1.0F : 0.0F;
    double *g64 = to_doubles(g, (int64_t)ROWS * K);
    for (int32_t r = 0; r < ROUTERS; r++) {
        double load[K], exact[K], entropy = -1.0;
        assert_status(ctx, focal_route_soft_stats(ctx, T, ROUTERS, K, r, g, load, &entropy),
                      FOCAL_OK);
        const double exact_entropy = oracle_route_soft_stats(T, ROUTERS, K, r, g64, exact);
        assert_doubles_within("load", load, exact, K, 1e-6);
        assert_doubles_within("entropy", &entropy, &exact_entropy, 1, 1e-6);
    }
    free(g64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(one_side_alone, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(length_zero_stays_zero, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_bad_token_stays_alone, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_have_names, open_ctx, close_ctx),
        cmocka_unit_test(pins_are_named),
        cmocka_unit_test_setup_teardown(softmax_and_gradient, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(softmax_of_extremes, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(statistics_of_groups, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
