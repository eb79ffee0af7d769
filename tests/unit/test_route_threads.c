/* The same call gives the same bits with 1, 2, 3 and 5 threads, for every operation of routing. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "ops/route/route_kernels.h"
#include "support/route_cases.h"
#include "support/start_cases.h"

static const int32_t thread_counts[] = {1, 2, 3, 5};

/* What one context made: the floats of all operations, one after the other. */
typedef struct results {
    float *data;
    int64_t count, room;
} results;

/* n floats at the end of the results. */
static float *take(results *r, int64_t n)
{
    assert_true(r->count + n <= r->room);
    float *place = r->data + r->count;
    r->count += n;
    return place;
}

static results results_new(int64_t room)
{
    results r = {.data = new_array((size_t)room, sizeof(float)), .room = room};
    fill_nan(r.data, (size_t)room, FOCAL_F32);
    return r;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Runs make() on contexts of every thread count and requires equal bytes. */
static void same_bits(void (*make)(focal_ctx *ctx, const void *problem, results *to),
                      const void *problem, int64_t room)
{
    results first = results_new(room);
    for (size_t n = 0; n < FOCAL_COUNT(thread_counts); n++) {
        focal_ctx *ctx = new_ctx(thread_counts[n]);
        assert_int_equal(focal_ctx_threads(ctx), thread_counts[n]);
        results now = results_new(room);
        make(ctx, problem, n == 0 ? &first : &now);
        for (int64_t i = 0; i < first.count && n > 0; i++)
            if (bits_of(now.data[i]) != bits_of(first.data[i]))
                fail_msg("%d threads: float %lld is %.9g, with one thread %.9g", thread_counts[n],
                         (long long)i, (double)now.data[i], (double)first.data[i]);
        free(now.data);
        focal_ctx_close(ctx);
    }
    free(first.data);
}

static void make_scores(focal_ctx *ctx, const void *problem, results *to)
{
    const route_case *c = problem;
    for (size_t m = 0; m < foci_route_kernel_count; m++) {
        const foci_route_kernel *kernel = &foci_route_kernels[m];
        if (!kernel_takes(ctx, kernel, &c->args)) continue;
        focal_route_args args = c->args;
        args.sk = take(to, c->s_count);
        args.sq = take(to, c->s_count);
        run_forward(ctx, kernel, &args);
        const focal_route_grads grads = {.dsk = c->dsk,
                                         .dsq = c->dsq,
                                         .dh = take(to, c->h_count),
                                         .dpk = take(to, c->p_count),
                                         .dpq = take(to, c->p_count),
                                         .dak = take(to, c->a_count),
                                         .daq = take(to, c->a_count),
                                         .de = take(to, c->e_count)};
        run_backward(ctx, kernel, &args, &grads);
        note_ran("route", kernel->name);
    }
}

static void scores_and_gradients(void **state)
{
    (void)state;
    static const route_shape shapes[] = {
        {1, 16, 16, 4, 1, CASE_OFFSETS},
        {33, 48, 16, 16, 3, CASE_OFFSETS | CASE_BETA},
        {1100, 40, 16, 16, 3, CASE_OFFSETS | CASE_STRIDE},
        {777, 65, 17, 5, 1, CASE_RAW},
    };
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) {
        route_case *c = route_case_new(shapes[n], n + 1);
        const int64_t room =
            2 * c->s_count + c->h_count + 2 * c->p_count + 2 * c->a_count + c->e_count;
        same_bits(make_scores, c, (int64_t)foci_route_kernel_count * room);
        route_case_free(c);
    }
    note_without("route", "avx512bf16"); /* routers are float32 */
    assert_ran("route", "ref");
}

typedef struct groups_problem {
    int32_t T, routers, K;
    float *s, *dg;
} groups_problem;

static void make_groups(focal_ctx *ctx, const void *problem, results *to)
{
    const groups_problem *p = problem;
    const int64_t rows = (int64_t)p->T * p->routers, n = rows * p->K;
    float *g = take(to, n);
    assert_status(ctx, focal_route_soften(ctx, rows, p->K, p->s, g), FOCAL_OK);
    assert_status(ctx, focal_route_soften_backward(ctx, rows, p->K, g, p->dg, take(to, n)),
                  FOCAL_OK);
    assert_status(ctx, focal_route_sinkhorn(ctx, p->T, p->routers, p->K, 4, p->s, take(to, n)),
                  FOCAL_OK);
    assert_status(
        ctx,
        focal_route_sinkhorn_backward(ctx, p->T, p->routers, p->K, 4, p->s, p->dg, take(to, n)),
        FOCAL_OK);
    for (int kind = 0; kind < 2; kind++) {
        const int64_t betas = (int64_t)p->routers * p->K;
        const focal_balance_args balance = {.kind = (focal_balance_kind)kind,
                                            .T = p->T,
                                            .routers = p->routers,
                                            .K = p->K,
                                            .top = 2,
                                            .rate = 0.3F,
                                            .sk = take(to, n),
                                            .beta = take(to, betas),
                                            .load = take(to, betas)};
        memcpy(balance.sk, p->s, (size_t)n * sizeof(float));
        memset(balance.beta, 0, (size_t)betas * sizeof(float));
        assert_status(ctx, focal_route_balance(ctx, &balance), FOCAL_OK);
    }
    int32_t *groups = new_array((size_t)(rows * 2), sizeof *groups);
    assert_status(ctx, focal_route_top(ctx, rows, p->K, 2, p->s, groups), FOCAL_OK);
    memcpy(take(to, rows * 2), groups, (size_t)(rows * 2) * sizeof *groups);
    free(groups);
    double stats[FOCAL_MAX_GROUPS + 1];
    assert_status(
        ctx,
        focal_route_soft_stats(ctx, p->T, p->routers, p->K, p->routers - 1, g, stats + 1, stats),
        FOCAL_OK);
    memcpy(take(to, 2 * ((int64_t)p->K + 1)), stats, (size_t)(p->K + 1) * sizeof *stats);
}

static void groups_and_balance(void **state)
{
    (void)state;
    static const groups_problem shapes[] = {
        {2, 1, 3, NULL, NULL}, {100, 3, 16, NULL, NULL}, {1300, 2, 17, NULL, NULL}};
    for (size_t m = 0; m < FOCAL_COUNT(shapes); m++) {
        groups_problem p = shapes[m];
        const int64_t n = (int64_t)p.T * p.routers * p.K;
        p.s = new_array((size_t)n, sizeof *p.s);
        p.dg = new_array((size_t)n, sizeof *p.dg);
        fill_normals(p.s, n, 3.0F, m + 1);
        fill_normals(p.dg, n, 1.0F, m + 10);
        same_bits(make_groups, &p, 16 * n + 1000);
        free(p.s);
        free(p.dg);
    }
}

static void make_start(focal_ctx *ctx, const void *problem, results *to)
{
    const start_case *c = problem;
    focal_route_start_args args = c->args;
    args.pk = take(to, c->p_count);
    args.pq = take(to, c->p_count);
    args.ak = take(to, c->a_count);
    args.aq = take(to, c->a_count);
    args.e = take(to, c->e_count);
    assert_status(ctx, focal_route_start(ctx, &args), FOCAL_OK);
}

static void start(void **state)
{
    (void)state;
    static const start_shape shapes[] = {
        {600, 24, 9, 3, 8, 6, 16, 3, START_ROPE | START_BIAS},
        {300, 16, 4, 2, 8, 6, 8, 1, START_ROPE | START_FITTED},
    };
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) {
        start_case *c = start_case_new(shapes[n], n + 1);
        same_bits(make_start, c, 2 * (c->p_count + c->a_count) + c->e_count);
        start_case_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_and_gradients),
        cmocka_unit_test(groups_and_balance),
        cmocka_unit_test(start),
    };
    return cmocka_run_group_tests_name("route_threads", tests, NULL, NULL);
}
