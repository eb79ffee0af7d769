/* Memory that runs out during a product: the n-th request fails, for every n until the call
 * succeeds. It must say ENOMEM, leave nothing behind, and the context must still work. */
#include "support/check.h"

#include "ops/matmul/matmul_kernels.h"
#include "support/matmul_cases.h"

/* clang-format off */
static const matmul_spec specs[] = {
    {.M = 3, .N = 40, .K = 64, .w = FOCAL_Q8_0},
    {.M = 1, .N = 40, .K = 64},
    {.M = 80, .N = 70, .K = 64, .w = FOCAL_Q8_0},
    {.M = 80, .N = 70, .K = 64},
    {.M = 80, .N = 70, .K = 64, .x = FOCAL_BF16, .w = FOCAL_Q4_1, .out = FOCAL_BF16},
    {.M = 80, .N = 70, .K = 64, .is_transposed = true, .w = FOCAL_F16},
    {.M = 90, .N = 300, .K = 90, .is_transposed = true, .w = FOCAL_Q4_1},
    {.M = 90, .N = 200, .K = 90, .is_transposed = true, .x_is_transposed = true},
};
/* clang-format on */

enum { MANY = 100 };

/* fails_on: all requests after the n-th fail too, so that no second try helps. */
static void fail_each_request(focal_ctx *ctx, const foci_matmul_kernel *kernel, matmul_case *c,
                              bool fails_on)
{
    for (int64_t n = 1;; n++) {
        assert_true(n < MANY);
        focal_ctx_trim(ctx); /* kept scratch would hide requests */
        const int64_t live = memory_live_blocks();
        matmul_case_clear(c);
        memory_fail(n, fails_on);
        const focal_status status = kernel->run(ctx, &c->args);
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        focal_ctx_trim(ctx);
        assert_int_equal(memory_live_blocks(), live);
        if (status == FOCAL_OK) {
            matmul_case_check(c, kernel->name); /* right, with a second try or without */
            if (!was_reached) return;
            assert_false(fails_on);
            continue;
        }
        assert_status(ctx, status, FOCAL_ENOMEM);
        matmul_case_clear(c);
        assert_status(ctx, kernel->run(ctx, &c->args), FOCAL_OK);
        matmul_case_check(c, kernel->name);
    }
}

static void memory_may_run_out_anywhere(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t s = 0; s < FOCAL_COUNT(specs); s++) {
        matmul_case *c = matmul_case_new(&specs[s], (uint64_t)s + 1);
        for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
            const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
            if (!kernel->can(ctx, &c->args)) continue;
            fail_each_request(ctx, kernel, c, true);
            fail_each_request(ctx, kernel, c, false);
            note_ran("matmul faults", kernel->name);
        }
        matmul_case_free(c);
    }
    assert_ran("matmul faults", "ref");
}

/* The second of two equal calls takes no memory at all: scratch is kept. */
static void equal_calls_allocate_once(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t s = 0; s < FOCAL_COUNT(specs); s++) {
        matmul_case *c = matmul_case_new(&specs[s], (uint64_t)s + 1);
        assert_status(ctx, foci_matmul(ctx, &c->args), FOCAL_OK);
        memory_fail(1, true);
        assert_status(ctx, foci_matmul(ctx, &c->args), FOCAL_OK);
        memory_fail(0, false);
        matmul_case_free(c);
        focal_ctx_trim(ctx);
    }
}

/* Scratch does not grow with the rows of x. */
static void scratch_is_bounded(void **state)
{
    focal_ctx *ctx = *state;
    const matmul_spec spec = {.M = 4032, .N = 50, .K = 32, .w = FOCAL_Q8_0};
    matmul_case *c = matmul_case_new(&spec, 1);
    for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
        const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
        size_t bytes[2] = {0, 0};
        for (int half = 0; half < 2 && kernel->can(ctx, &c->args); half++) {
            foci_matmul_args a = c->args;
            a.M >>= half;
            focal_ctx_trim(ctx);
            focal_ctx_memory_reset(ctx);
            assert_status(ctx, kernel->run(ctx, &a), FOCAL_OK);
            bytes[half] = focal_ctx_memory(ctx).peak_bytes;
        }
        assert_int_equal(bytes[0], bytes[1]);
    }
    matmul_case_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_may_run_out_anywhere, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(equal_calls_allocate_once, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(scratch_is_bounded, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("matmul_faults", tests, NULL, NULL);
}
