/* The list of kernels: every operation's table to its end, one of each chosen, and that one the
 * fastest that the machine has, or the pinned one. */
#include "support/check.h"

#include <string.h>

#include "base/ctx.h"
#include "focal/model.h"

static const char *const operations[] = {"norm",
                                         "matmul",
                                         "quant",
                                         "rope",
                                         "q8_rows",
                                         "route",
                                         "route_top",
                                         "attn",
                                         "gate",
                                         "soft_cap",
                                         "loss",
                                         "temperature",
                                         "loss_backward",
                                         "kl",
                                         "gate_backward",
                                         "rope_backward",
                                         "temperature_backward",
                                         "norm_backward",
                                         "sum_squares",
                                         "adamw"};

/* Every operation has a chosen kernel: the pinned one, or the first that runs here. */
static void check_list(focal_ctx *ctx, const char *pinned)
{
    focal_kernel_info kernel;
    size_t op = 0;
    bool has_usable = false, has_picked = false;
    int32_t n = 0;
    for (; focal_kernel_at(ctx, n, &kernel); n++) {
        if (strcmp(kernel.operation, operations[op]) != 0) { /* the next table begins */
            assert_true(has_picked);
            assert_true(++op < FOCAL_COUNT(operations));
            assert_string_equal(kernel.operation, operations[op]);
            has_usable = has_picked = false;
        }
        const bool is_first = kernel.is_usable && !has_usable;
        const bool is_expected = pinned ? strcmp(kernel.name, pinned) == 0 : is_first;
        if (kernel.is_picked != is_expected)
            fail_msg("%s %s: chosen %d", kernel.operation, kernel.name, kernel.is_picked);
        has_usable = has_usable || kernel.is_usable;
        has_picked = has_picked || kernel.is_picked;
    }
    assert_true(has_picked);
    assert_int_equal(op, FOCAL_COUNT(operations) - 1);
    assert_string_equal(kernel.name, "ref"); /* every table ends in it */
    assert_false(focal_kernel_at(ctx, -1, &kernel));
    assert_false(focal_kernel_at(ctx, n, &kernel));
    assert_false(focal_kernel_at(ctx, INT32_MAX, &kernel));
}

static void one_of_each_is_chosen(void **state)
{
    focal_ctx *ctx = *state;
    static const unsigned sets[] = {0, FOCI_AVX2, FOCI_AVX2 | FOCI_AVX512, ~0U};
    for (size_t n = 0; n < FOCAL_COUNT(sets); n++) {
        foci_ctx_mask_features(ctx, sets[n]);
        check_list(ctx, NULL);
        assert_int_equal(focal_default_precision(ctx),
                         foci_has(ctx, FOCI_AVX2) ? FOCAL_BF16 : FOCAL_F32);
    }
}

static void a_pinned_one_is_chosen(void **state)
{
    (void)state;
    focal_ctx *ctx = NULL;
    const focal_ctx_options options = {.threads = 1, .kernel = "ref"};
    assert_int_equal(focal_ctx_open(&options, &ctx, NULL), FOCAL_OK);
    check_list(ctx, "ref");
    focal_ctx_close(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_of_each_is_chosen, open_ctx, close_ctx),
        cmocka_unit_test(a_pinned_one_is_chosen),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
