/* The gradient of an embedding: PyTorch's, and sums in double on tables and widths of all sizes;
 * ids that repeat, once or always; strides, NaN, threads, failing memory, bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "ops/embed/embed.h"
#include "support/op_cases.h"
#include "support/route_cases.h"

static void check_golden(const golden_case *g, void *user)
{
    focal_ctx *ctx = user;
    const int64_t V = (int64_t)g->parameters[0], C = (int64_t)g->parameters[1];
    const int64_t T = (int64_t)g->parameters[2];
    float *dx = case_floats(g, "dx", T * C), *dtable = new_array((size_t)(V * C), sizeof *dtable);
    int32_t ids[16];
    for (int64_t t = 0; t < T; t++) ids[t] = (int32_t)case_doubles(g, "ids", T)[t];
    const foci_embed_backward_args args = {.V = V,
                                           .C = C,
                                           .T = T,
                                           .ids = ids,
                                           .scale = (float)g->parameters[3],
                                           .dx = dx,
                                           .dtable = dtable};
    assert_status(ctx, foci_embed_backward(ctx, &args), FOCAL_OK);
    assert_roundings(g->name, dtable, case_doubles(g, "dtable", V * C), NULL, V * C, 1.0);
    free(dx);
    free(dtable);
}

static void agrees_with_pytorch(void **state)
{
    each_golden_of("small_grads", "embed", 1, *state, check_golden);
}

/* Ids of one call: all equal, all apart, some common ones, and those at the ends of the table. */
enum { EQUAL, APART, COMMON, ENDS, PATTERNS };

static int32_t id_of(int pattern, int64_t t, int64_t V)
{
    switch (pattern) {
    case EQUAL:
        return (int32_t)(V / 2);
    case APART:
        return (int32_t)((t * 7919) % V);
    case COMMON:
        return (int32_t)(foci_random_u32(3, 1, (uint64_t)t) % 4
                             ? t % 3 % V
                             : foci_random_u32(3, 2, (uint64_t)t) % V);
    default:
        return (int32_t)(t % 2 ? V - 1 : 0);
    }
}

static void check_sums(focal_ctx *ctx, int64_t V, int64_t C, int64_t T, int pattern)
{
    char name[96];
    (void)snprintf(name, sizeof name, "V %d C %d T %d pattern %d", (int)V, (int)C, (int)T, pattern);
    grid dx = grid_new(T, C, FOCAL_F32, GRID_GAPS | GRID_MISALIGNED);
    grid table = grid_new(V, C, FOCAL_F32, GRID_MISALIGNED);
    float *values = new_normals(T * C, 1.0F, 1), *before = new_normals(V * C, 1.0F, 2);
    int32_t *ids = new_array((size_t)T, sizeof *ids);
    double *exact = to_doubles(before, V * C);
    bool *is_met = new_array((size_t)V, sizeof *is_met);
    grid_fill(&dx, values);
    grid_fill(&table, before);
    for (int64_t t = 0; t < T; t++) {
        ids[t] = id_of(pattern, t, V);
        is_met[ids[t]] = true;
        for (int64_t n = 0; n < C; n++)
            exact[ids[t] * C + n] += (double)0.3F * (double)values[t * C + n];
    }
    const foci_embed_backward_args args = {.V = V,
                                           .C = C,
                                           .T = T,
                                           .ids = ids,
                                           .scale = 0.3F,
                                           .dx = dx.data,
                                           .dx_stride = dx.stride,
                                           .dtable = table.data};
    assert_status(ctx, foci_embed_backward(ctx, &args), FOCAL_OK);
    assert_gaps_untouched(name, &table);
    float *got = grid_packed(&table);
    assert_roundings(name, got, exact, NULL, V * C, 1.001);
    for (int64_t v = 0; v < V; v++)
        if (!is_met[v]) assert_memory_equal(got + v * C, before + v * C, (size_t)C * sizeof *got);
    void *blocks[] = {values, before, ids, exact, is_met, got};
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) free(blocks[n]);
    grid_free(&dx);
    grid_free(&table);
}

static void sums_are_exact(void **state)
{
    /* V at the ends of the sort's digits, C of its blocks, T of its pieces */
    static const int64_t sizes[][3] = {{1, 1, 1},    {2, 3, 15},      {255, 7, 16}, {256, 256, 17},
                                       {257, 5, 33}, {70000, 2, 300}, {9, 600, 100}};
    for (size_t s = 0; s < FOCAL_COUNT(sizes); s++)
        for (int pattern = 0; pattern < PATTERNS; pattern++)
            check_sums(*state, sizes[s][0], sizes[s][1], sizes[s][2], pattern);
}

/* NaN reaches the row of its id and its own column. */
static void nan_stays_in_its_row(void **state)
{
    enum { V = 4, C = 5, T = 3 };
    float dx[T * C] = {0}, dtable[V * C] = {0};
    const int32_t ids[T] = {2, 1, 2};
    dx[C + 3] = NAN;
    const foci_embed_backward_args args = {
        .V = V, .C = C, .T = T, .ids = ids, .scale = 1.0F, .dx = dx, .dtable = dtable};
    assert_status(*state, foci_embed_backward(*state, &args), FOCAL_OK);
    for (int n = 0; n < V * C; n++) assert_int_equal(isnan(dtable[n]) != 0, n == C + 3);
}

static void make_gradient(focal_ctx *ctx, const void *problem, void *out)
{
    foci_embed_backward_args args = *(const foci_embed_backward_args *)problem;
    memset(out, 0, (size_t)(args.V * args.C) * sizeof(float));
    args.dtable = out;
    assert_status(ctx, foci_embed_backward(ctx, &args), FOCAL_OK);
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    enum { V = 50, C = 300, T = 999 };
    float *dx = new_normals((int64_t)T * C, 1.0F, 3);
    int32_t ids[T];
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        for (int t = 0; t < T; t++) ids[t] = id_of(pattern, t, V);
        const foci_embed_backward_args args = {
            .V = V, .C = C, .T = T, .ids = ids, .scale = 1.7F, .dx = dx};
        assert_same_bits("embed_backward", (size_t)V * C * sizeof(float), &args, make_gradient);
    }
    free(dx);
}

static focal_status call_backward(focal_ctx *ctx, const void *problem)
{
    return foci_embed_backward(ctx, problem);
}

/* A call without memory has written nothing: what it adds is there once, after the last. */
static void failing_memory(void **state)
{
    const float dx[4] = {1.0F, 2.0F, 3.0F, 4.0F};
    float dtable[6] = {0};
    const int32_t ids[2] = {1, 1};
    const foci_embed_backward_args args = {
        .V = 3, .C = 2, .T = 2, .ids = ids, .scale = 2.0F, .dx = dx, .dtable = dtable};
    assert_true(fail_each_request(*state, &args, call_backward) >= 1);
    assert_true(dtable[2] == 8.0F && dtable[3] == 12.0F && dtable[0] == 0.0F);
}

static void assert_bad(focal_ctx *ctx, foci_embed_backward_args args, const char *text)
{
    assert_status(ctx, foci_embed_backward(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    float dx[16] = {0}, dtable[16] = {0};
    const int32_t good_ids[2] = {0, 3}, above[2] = {0, 4}, below[2] = {-1, 0};
    const foci_embed_backward_args good = {
        .V = 4, .C = 4, .T = 2, .ids = good_ids, .scale = 1.0F, .dx = dx, .dtable = dtable};
    foci_embed_backward_args bad = good;
    assert_status(ctx, foci_embed_backward(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_embed_backward(NULL, &good), FOCAL_EINVAL);
    assert_status(ctx, foci_embed_backward(ctx, NULL), FOCAL_EINVAL);
    bad.dx = NULL;
    assert_bad(ctx, bad, "embed backward: ids, dx and dtable must be set");
    bad = good;
    bad.C = 0;
    assert_bad(ctx, bad, "embed backward: V 4, C 0 and T 2 must be 1 to 2147483647");
    bad = good;
    bad.V = INT64_MAX;
    assert_status(ctx, foci_embed_backward(ctx, &bad), FOCAL_EINVAL);
    bad = good;
    bad.dx_stride = 3;
    assert_bad(ctx, bad, "embed backward: dx: a stride of 3 does not fit 2 rows of 4");
    bad = good;
    bad.ids = above;
    assert_bad(ctx, bad, "embed backward: token 1 has the id 4, the table 4 rows");
    bad.ids = below;
    assert_bad(ctx, bad, "embed backward: token 0 has the id -1, the table 4 rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(agrees_with_pytorch, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(sums_are_exact, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(nan_stays_in_its_row, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(failing_memory, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("embed_backward", tests, NULL, NULL);
}
