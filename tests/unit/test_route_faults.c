/* Memory runs out at every place in turn: each operation of routing says so, leaks nothing, and the
 * context works afterwards as if nothing had been. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "ops/route/route_kernels.h"
#include "support/route_cases.h"
#include "support/start_cases.h"

enum { MOST_REQUESTS = 1000 };

/* One operation on fixed inputs; its result goes to `out`, which is cleared before. */
typedef struct operation {
    const char *name;
    focal_status (*call)(focal_ctx *ctx, const void *problem, float *out);
    const void *problem;
    int64_t out_count;
} operation;

/* Fails the n-th request, alone or with all that follow, for n = 1.. until the call needs fewer. A
 * single failure may be made good by giving back kept blocks; with none after it, it may not. */
static void fail_everywhere(const operation *o, bool fail_on)
{
    focal_ctx *ctx = new_ctx(2);
    const size_t bytes = (size_t)o->out_count * sizeof(float);
    float *out = new_array((size_t)o->out_count, sizeof *out);
    float *expected = new_array((size_t)o->out_count, sizeof *out);
    assert_status(ctx, o->call(ctx, o->problem, expected), FOCAL_OK);
    focal_ctx_trim(ctx);
    const int64_t live = memory_live_blocks();
    int64_t failed = 0;
    for (int64_t n = 1;; n++) {
        if (n > MOST_REQUESTS) fail_msg("%s: more than %d requests", o->name, MOST_REQUESTS);
        memset(out, 0, bytes);
        memory_fail(n, fail_on);
        const focal_status status = o->call(ctx, o->problem, out);
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        if (was_reached && (fail_on || status != FOCAL_OK))
            assert_status(ctx, status, FOCAL_ENOMEM);
        failed += status != FOCAL_OK;
        focal_ctx_trim(ctx);
        if (memory_live_blocks() != live)
            fail_msg("%s: %lld blocks left after request %lld failed", o->name,
                     (long long)(memory_live_blocks() - live), (long long)n);
        memset(out, 0, bytes);
        assert_status(ctx, o->call(ctx, o->problem, out), FOCAL_OK);
        assert_memory_equal(out, expected, bytes);
        focal_ctx_trim(ctx);
        if (!was_reached) break;
    }
    print_message("%s: %lld calls ran out of memory\n", o->name, (long long)failed);
    focal_ctx_close(ctx);
    assert_int_equal(memory_live_blocks(), 0);
    free(out);
    free(expected);
}

static focal_status call_scores(focal_ctx *ctx, const void *problem, float *out)
{
    const route_case *c = problem;
    focal_route_args args = c->args;
    args.sk = out;
    args.sq = out + c->s_count;
    return focal_route_scores(ctx, &args);
}

static focal_status call_backward(focal_ctx *ctx, const void *problem, float *out)
{
    const route_case *c = problem;
    focal_route_grads grads = {.dsk = c->dsk, .dsq = c->dsq};
    grads.dh = out;
    grads.dpk = grads.dh + c->h_count;
    grads.dpq = grads.dpk + c->p_count;
    grads.dak = grads.dpq + c->p_count;
    grads.daq = grads.dak + c->a_count;
    grads.de = grads.daq + c->a_count;
    return focal_route_scores_backward(ctx, &c->args, &grads);
}

enum { T = 300, ROUTERS = 2, ROWS = T * ROUTERS, K = 5, TOP = 3 };
enum { SCORES = ROWS * K, BETAS = ROUTERS * K, CHOSEN = ROWS * TOP, DOUBLES = 2 * K };

static focal_status call_soften(focal_ctx *ctx, const void *problem, float *out)
{
    return focal_route_soften(ctx, ROWS, K, problem, out);
}

static focal_status call_soften_backward(focal_ctx *ctx, const void *problem, float *out)
{
    return focal_route_soften_backward(ctx, ROWS, K, problem, problem, out);
}

static focal_status call_sinkhorn(focal_ctx *ctx, const void *problem, float *out)
{
    return focal_route_sinkhorn(ctx, T, ROUTERS, K, 5, problem, out);
}

static focal_status call_sinkhorn_backward(focal_ctx *ctx, const void *problem, float *out)
{
    return focal_route_sinkhorn_backward(ctx, T, ROUTERS, K, 5, problem, problem, out);
}

static focal_status call_balance(focal_ctx *ctx, const void *problem, float *out)
{
    memcpy(out, problem, SCORES * sizeof *out);
    memset(out + SCORES, 0, 2 * sizeof *out * BETAS);
    const focal_balance_args args = {.T = T,
                                     .routers = ROUTERS,
                                     .K = K,
                                     .top = 1,
                                     .rate = 0.5F,
                                     .sk = out,
                                     .beta = out + SCORES,
                                     .load = out + SCORES + BETAS};
    return focal_route_balance(ctx, &args);
}

static focal_status call_top(focal_ctx *ctx, const void *problem, float *out)
{
    return focal_route_top(ctx, ROWS, K, TOP, problem, (int32_t *)(void *)out);
}

static focal_status call_stats(focal_ctx *ctx, const void *problem, float *out)
{
    double load[K], entropy = 0.0;
    const focal_status status =
        focal_route_soft_stats(ctx, T, ROUTERS, K, 1, problem, load, &entropy);
    if (status == FOCAL_OK) memcpy(out, load, sizeof load);
    return status;
}

static focal_status call_start(focal_ctx *ctx, const void *problem, float *out)
{
    const start_case *c = problem;
    focal_route_start_args args = c->args;
    args.pk = out;
    args.pq = args.pk + c->p_count;
    args.ak = args.pq + c->p_count;
    args.aq = args.ak + c->a_count;
    args.e = args.aq + c->a_count;
    return focal_route_start(ctx, &args);
}

static void check(operation o)
{
    fail_everywhere(&o, true);
    fail_everywhere(&o, false);
}

static void scores(void **state)
{
    (void)state;
    const route_shape shape = {300, 40, 16, 16, 3, CASE_OFFSETS | CASE_BETA};
    route_case *c = route_case_new(shape, 1);
    check((operation){"scores", call_scores, c, 2 * c->s_count});
    check((operation){"scores backward", call_backward, c,
                      c->h_count + 2 * c->p_count + 2 * c->a_count + c->e_count});
    route_case_free(c);
}

static void groups(void **state)
{
    (void)state;
    float *s = new_array(SCORES, sizeof *s);
    fill_normals(s, SCORES, 2.0F, 6);
    check((operation){"softmax", call_soften, s, SCORES});
    check((operation){"softmax backward", call_soften_backward, s, SCORES});
    check((operation){"sinkhorn", call_sinkhorn, s, SCORES});
    check((operation){"sinkhorn backward", call_sinkhorn_backward, s, SCORES});
    check((operation){"balance", call_balance, s, SCORES + BETAS + BETAS});
    check((operation){"top", call_top, s, CHOSEN});
    for (int64_t n = 0; n < SCORES; n++) s[n] = 0.2F;
    check((operation){"statistics", call_stats, s, DOUBLES});
    free(s);
}

static void start(void **state)
{
    (void)state;
    static const unsigned flags[] = {START_ROPE | START_BIAS, START_ROPE | START_FITTED};
    for (size_t n = 0; n < FOCAL_COUNT(flags); n++) {
        const start_shape shape = {60, 12, 4, 2, 4, 3, 4, n == 0 ? 2 : 1, flags[n]};
        start_case *c = start_case_new(shape, 2);
        check((operation){"start", call_start, c, 2 * (c->p_count + c->a_count) + c->e_count});
        start_case_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores),
        cmocka_unit_test(groups),
        cmocka_unit_test(start),
    };
    return cmocka_run_group_tests_name("route_faults", tests, NULL, NULL);
}
