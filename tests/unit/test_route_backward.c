/* Every routing kernel makes the gradients of the double oracle. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/route/route_kernels.h"
#include "support/oracle_route.h"
#include "support/plain_route.h"
#include "support/route_cases.h"

enum { DH, DPK, DPQ, DAK, DAQ, DE, GRADS };
static const char *const grad_names[GRADS] = {"dh", "dpk", "dpq", "dak", "daq", "de"};

/* One gradient: what a kernel made, what plain loops made, what it is. count 0: the case has
 * none. dh lies with strides in got and plain. */
typedef struct gradient {
    int64_t count;
    float *got, *plain;
    double *exact, *size;
} gradient;

static void gradients_new(route_case *c, gradient *g)
{
    const route_shape s = c->shape;
    const bool is_one = (s.flags & CASE_ONE) != 0;
    const int64_t counts[GRADS] = {(int64_t)s.T * s.C,      c->p_count,
                                   is_one ? 0 : c->p_count, c->a_count,
                                   is_one ? 0 : c->a_count, c->e_count};
    for (int n = 0; n < GRADS; n++) {
        const int64_t floats = n == DH ? c->h_count : counts[n];
        g[n] = (gradient){.count = counts[n]};
        if (counts[n] == 0) continue;
        g[n].got = route_case_floats(c, floats);
        g[n].plain = route_case_floats(c, floats);
        g[n].exact = route_case_doubles(c, counts[n]);
        g[n].size = route_case_doubles(c, counts[n]);
    }
}

static focal_route_grads grads_of(const route_case *c, const gradient *g, bool is_plain)
{
    float *at[GRADS];
    for (int n = 0; n < GRADS; n++) at[n] = is_plain ? g[n].plain : g[n].got;
    return (focal_route_grads){c->dsk, c->dsq, at[DH], at[DPK], at[DPQ], at[DAK], at[DAQ], at[DE]};
}

static void expected_gradients(route_case *c, gradient *g, bool has_keys, bool has_queries)
{
    const double *dsk = has_keys ? c->dsk64 : NULL, *dsq = has_queries ? c->dsq64 : NULL;
    const oracle_route_grads exact = {g[DH].exact,  g[DPK].exact, g[DPQ].exact,
                                      g[DAK].exact, g[DAQ].exact, g[DE].exact};
    oracle_route_scores_backward(&c->exact, c->shape.T, c->h, dsk, dsq, &exact);
    const oracle_route_sizes sizes = {NULL,        NULL,        g[DH].size,  g[DPK].size,
                                      g[DPQ].size, g[DAK].size, g[DAQ].size, g[DE].size};
    oracle_route_scores_sizes(&c->exact, c->shape.T, c->h, dsk, dsq, &sizes);
    focal_route_grads plain = grads_of(c, g, true);
    if (!has_keys) plain.dsk = NULL;
    if (!has_queries) plain.dsq = NULL;
    plain_route_scores_backward(&c->args, &plain);
}

/* x (T,C) without the strides, in place; what lies between tokens must be untouched. */
static void pack_tokens(const route_case *c, float *x)
{
    const int64_t C = c->shape.C, stride = c->args.h_stride ? c->args.h_stride : C;
    for (int64_t i = 0; i + 1 < c->shape.T; i++)
        for (int64_t n = C; n < stride; n++)
            if (!is_fill_nan(x, (size_t)(i * stride + n), FOCAL_F32))
                fail_msg("dh: written between tokens, after token %lld", (long long)i);
    for (int64_t i = 1; i < c->shape.T; i++)
        memmove(x + i * C, x + i * stride, (size_t)C * sizeof *x);
}

static void assert_gradients(const route_case *c, const char *kernel, const gradient *g)
{
    for (int n = 0; n < GRADS; n++) {
        char name[192];
        if (g[n].count == 0) continue;
        (void)snprintf(name, sizeof name, "%s %s, %s", kernel, grad_names[n],
                       route_shape_text(c->shape));
        assert_end_untouched(name, g[n].got, n == DH ? c->h_count : g[n].count);
        if (n == DH) pack_tokens(c, g[n].got);
        const error_bound bound = {.name = name,
                                   .plain = g[n].plain,
                                   .exact = g[n].exact,
                                   .magnitude = g[n].size,
                                   .count = g[n].count,
                                   .factor = 2.0};
        assert_within(&bound, g[n].got);
    }
}

static void refill(const route_case *c, gradient *g)
{
    for (int n = 0; n < GRADS; n++)
        if (g[n].count > 0)
            fill_nan(g[n].got, (size_t)(n == DH ? c->h_count : g[n].count), FOCAL_F32);
}

/* n: which of the shapes; sides: 1 keys, 2 queries, 3 both. */
static void check_case(focal_ctx *ctx, int64_t n, unsigned sides)
{
    route_case *c = route_case_new(route_shape_at(n), (uint64_t)n + 301);
    gradient g[GRADS];
    gradients_new(c, g);
    expected_gradients(c, g, (sides & 1) != 0, (sides & 2) != 0);
    pack_tokens(c, g[DH].plain);
    for (size_t m = 0; m < foci_route_kernel_count; m++) {
        const foci_route_kernel *kernel = &foci_route_kernels[m];
        if (!kernel_takes(ctx, kernel, &c->args)) continue;
        refill(c, g);
        focal_route_grads grads = grads_of(c, g, false);
        if (!(sides & 1)) grads.dsk = NULL;
        if (!(sides & 2)) grads.dsq = NULL;
        run_backward(ctx, kernel, &c->args, &grads);
        assert_gradients(c, kernel->name, g);
        note_ran("route", kernel->name);
    }
    route_case_free(c);
}

static void kernels_match_oracle(void **state)
{
    for (int64_t n = 0; n < route_shape_count(); n++) check_case(*state, n, 3);
    note_without("route", "avx512bf16"); /* routers are float32 */
    assert_ran("route", "ref");
}

static void one_side_alone(void **state)
{
    for (int64_t n = 0; n < route_shape_count(); n += 4) {
        check_case(*state, n, 1);
        check_case(*state, n, 2);
    }
}

/* No gradient of the scores at all: zeros everywhere, through the public call. */
static void no_side_gives_zeros(void **state)
{
    focal_ctx *ctx = *state;
    for (int64_t n = 0; n < route_shape_count(); n += 9) {
        route_case *c = route_case_new(route_shape_at(n), 3);
        gradient g[GRADS];
        gradients_new(c, g);
        focal_route_grads grads = grads_of(c, g, false);
        grads.dsk = grads.dsq = NULL;
        assert_status(ctx, focal_route_scores_backward(ctx, &c->args, &grads), FOCAL_OK);
        pack_tokens(c, g[DH].got);
        for (int m = 0; m < GRADS; m++)
            for (int64_t i = 0; i < g[m].count; i++) assert_true(g[m].got[i] == 0.0F);
        route_case_free(c);
    }
}

/* Each gradient may be left out, which does not change the bits of the others. */
static void each_gradient_is_optional(void **state)
{
    focal_ctx *ctx = *state;
    for (int64_t n = 0; n < route_shape_count(); n += 5) {
        route_case *c = route_case_new(route_shape_at(n), 4);
        gradient g[GRADS];
        gradients_new(c, g);
        focal_route_grads all = grads_of(c, g, true);
        assert_status(ctx, focal_route_scores_backward(ctx, &c->args, &all), FOCAL_OK);
        for (int left_out = 0; left_out <= GRADS; left_out++) {
            refill(c, g);
            gradient some[GRADS];
            memcpy(some, g, sizeof some);
            for (int m = 0; m < GRADS; m++) /* the last pass leaves out all but one */
                if (left_out < GRADS ? m == left_out : m != (int)n % GRADS) some[m].got = NULL;
            const focal_route_grads grads = grads_of(c, some, false);
            assert_status(ctx, focal_route_scores_backward(ctx, &c->args, &grads), FOCAL_OK);
            for (int m = 0; m < GRADS; m++) {
                const int64_t count = m == DH ? c->h_count : g[m].count;
                if (count > 0 && some[m].got)
                    assert_memory_equal(some[m].got, g[m].plain, (size_t)count * sizeof(float));
            }
        }
        route_case_free(c);
    }
}

/* Vectors of length 0 have gradient 0, and harm nobody else. */
static void length_zero_has_gradient_zero(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 18, C = 12, R = 16, K = 5 };
    float h[T * C], p[C * R], e[K * R], ds[T * K], dh[T * C], dp[C * R], de[K * R];
    fill_normals(h, (int64_t)T * C, 1.0F, 1);
    fill_normals(p, (int64_t)C * R, 1.0F, 2);
    fill_normals(e, (int64_t)K * R, 1.0F, 3);
    fill_normals(ds, (int64_t)T * K, 1.0F, 4);
    memset(&h[4 * (size_t)C], 0, C * sizeof *h);
    memset(&e[3 * (size_t)R], 0, R * sizeof *e);
    const focal_router router = {.C = C, .R = R, .K = K, .routers = 1, .pk = p, .e = e};
    const focal_route_args args = {.router = &router, .T = T, .h = h};
    const focal_route_grads grads = {.dsk = ds, .dsq = ds, .dh = dh, .dpk = dp, .de = de};
    for (size_t m = 0; m < foci_route_kernel_count; m++) {
        const foci_route_kernel *kernel = &foci_route_kernels[m];
        if (!kernel_takes(ctx, kernel, &args)) continue;
        run_backward(ctx, kernel, &args, &grads);
        for (int64_t c = 0; c < C; c++) assert_true(dh[4 * (int64_t)C + c] == 0.0F);
        for (int64_t d = 0; d < R; d++) assert_true(de[3 * (int64_t)R + d] == 0.0F);
        for (int64_t n = 0; n < (int64_t)T * C; n++) assert_true(isfinite(dh[n]));
        for (int64_t n = 0; n < (int64_t)C * R; n++) assert_true(isfinite(dp[n]));
        for (int64_t n = 0; n < (int64_t)K * R; n++) assert_true(isfinite(de[n]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(one_side_alone, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(no_side_gives_zeros, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(each_gradient_is_optional, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(length_zero_has_gradient_zero, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("route_backward", tests, NULL, NULL);
}
