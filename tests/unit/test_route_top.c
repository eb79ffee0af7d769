/* The k best groups: of every kernel exactly the oracle's, with ties, NaN and infinities. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "focal/route.h"
#include "ops/route/route_top.h"
#include "support/op_cases.h"
#include "support/oracle_route.h"
#include "support/route_cases.h"

/* got (rows, k) and one behind them, which nobody may have written. */
static void assert_groups(const char *name, const int32_t *got, const int32_t *exact, int64_t rows,
                          int32_t k)
{
    for (int64_t i = 0; i < rows * k; i++)
        if (got[i] != exact[i])
            fail_msg("%s: row %lld of %lld, k %d: place %lld is %d, expected %d", name,
                     (long long)(i / k), (long long)rows, k, (long long)(i % k), got[i], exact[i]);
    assert_int_equal(got[rows * k], -7);
}

static void clear(int32_t *got, int64_t count)
{
    for (int64_t i = 0; i < count; i++) got[i] = -7;
}

static void check(focal_ctx *ctx, int64_t rows, int32_t K, int32_t k, const float *s)
{
    const int64_t n = rows * k, half = rows / 2;
    int32_t *got = new_array((size_t)n + 1, sizeof *got),
            *exact = new_array((size_t)n, sizeof *got);
    double *s64 = to_doubles(s, rows * K);
    oracle_route_top(rows, K, k, s64, exact);
    clear(got, n + 1);
    assert_status(ctx, focal_route_top(ctx, rows, K, k, s, got), FOCAL_OK);
    assert_groups("call", got, exact, rows, k);
    size_t next = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_route_top_op, &next));) {
        const foci_route_top_args args = {.K = K, .top = k, .s = s, .groups = got};
        clear(got, n + 1);
        kernel->run(&args, half, rows - half); /* in two pieces, as threads would */
        kernel->run(&args, 0, half);
        assert_groups(kernel->name, got, exact, rows, k);
        note_ran("membership", kernel->name);
    }
    free(got);
    free(exact);
    free(s64);
}

static const int32_t all_K[] = {1, 2, 3, 4, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64};
static const int64_t all_rows[] = {1, 2, 7, 16, 33, 257};

static void without_ties(void **state)
{
    for (size_t m = 0; m < FOCAL_COUNT(all_K); m++)
        for (size_t r = 0; r < FOCAL_COUNT(all_rows); r++) {
            const int32_t K = all_K[m];
            const int64_t n = all_rows[r] * K;
            float *s = new_array((size_t)n, sizeof *s);
            fill_normals(s, n, 4.0F, 100 * m + r);
            check(*state, all_rows[r], K, 1, s);
            check(*state, all_rows[r], K, K < 4 ? K : 4, s);
            check(*state, all_rows[r], K, (K + 1) / 2, s);
            check(*state, all_rows[r], K, K, s);
            free(s);
        }
    note_without("membership", "avx512bf16");
    assert_ran("membership", "ref");
}

/* Few values, so nearly every row has ties; the two zeros are equal. */
static const float few[] = {-1.0F, -0.0F, 0.0F, 1.0F, -INFINITY, INFINITY, NAN};

static void with_ties(void **state)
{
    for (size_t m = 0; m < FOCAL_COUNT(all_K); m++)
        for (uint32_t kinds = 1; kinds <= FOCAL_COUNT(few); kinds++) {
            const int32_t K = all_K[m];
            const int64_t rows = 50, n = rows * K;
            float *s = new_array((size_t)n, sizeof *s);
            for (int64_t i = 0; i < n; i++)
                s[i] = few[foci_random_below(m, kinds, (uint64_t)i, kinds)];
            check(*state, rows, K, 1, s);
            check(*state, rows, K, K < 4 ? K : 4, s);
            check(*state, rows, K, K, s);
            free(s);
        }
}

/* NaN counts as -inf: it loses to every number, ties with -inf, and a row of nothing else still
 * gives the first k groups. */
static void nan_comes_last(void **state)
{
    focal_ctx *ctx = *state;
    const float s[] = {NAN, -1e30F,    NAN,  2.0F,     /**/ NAN, NAN, NAN, NAN, /**/
                       NAN, -INFINITY, 0.0F, -INFINITY};
    const int32_t expected[] = {3, 1, 0, 0, 1, 2, 2, 0, 1};
    int32_t groups[9];
    assert_status(ctx, focal_route_top(ctx, 3, 4, 3, s, groups), FOCAL_OK);
    assert_memory_equal(groups, expected, sizeof expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_ties, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(with_ties, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(nan_comes_last, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("route_top", tests, NULL, NULL);
}
