/* Addition: every element once, in place too, at any thread count; bad calls. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "ops/residual/add.h"
#include "support/op_cases.h"

static void sums_are_exact(void **state)
{
    focal_ctx *ctx = *state;
    static const int64_t counts[] = {0, 1, 7, 8, 9, 16383, 16384, 16385, 50001};
    for (size_t m = 0; m < FOCAL_COUNT(counts); m++) {
        const int64_t count = counts[m];
        const size_t bytes = (size_t)count * sizeof(float);
        float *a = new_normals(count + 1, 1.0F, 1), *b = new_normals(count + 1, 1.0F, 2);
        float *out = new_array((size_t)count + 2, sizeof *out), *sum = out + 1;
        fill_nan(out, (size_t)count + 2, FOCAL_F32);
        assert_status(ctx, foci_add(ctx, sum, a, b, count), FOCAL_OK);
        for (int64_t n = 0; n < count; n++) assert_true(sum[n] == a[n] + b[n]);
        assert_true(is_fill_nan(out, 0, FOCAL_F32));
        assert_true(is_fill_nan(sum, (size_t)count, FOCAL_F32));
        float *kept = new_array((size_t)count + 1, sizeof *kept);
        memcpy(kept, a, bytes);
        assert_status(ctx, foci_add(ctx, a, a, b, count), FOCAL_OK);
        assert_memory_equal(a, sum, bytes);
        assert_status(ctx, foci_add(ctx, b, kept, b, count), FOCAL_OK);
        assert_memory_equal(b, sum, bytes);
        free(a);
        free(b);
        free(out);
        free(kept);
    }
}

static void make_sum(focal_ctx *ctx, const void *problem, void *out)
{
    assert_status(ctx, foci_add(ctx, out, problem, (const float *)problem + 1, 70000), FOCAL_OK);
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    float *x = new_normals(70001, 1.0F, 3);
    assert_same_bits("add", 70000 * sizeof *x, x, make_sum);
    free(x);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    float x[1] = {0};
    assert_int_equal(foci_add(NULL, x, x, x, 1), FOCAL_EINVAL);
    assert_status(ctx, foci_add(ctx, x, NULL, x, 1), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "add: out, a and b must be set");
    assert_status(ctx, foci_add(ctx, x, x, x, -1), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "add: the count is -1, it must be 0 or more");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sums_are_exact, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("add", tests, NULL, NULL);
}
