/* Every attention kernel's gradients agree with the double oracle's, from the out and lse that an
 * exact forward leaves. */
#include "support/check.h"

#include <stdlib.h>

#include "ops/attn/attn_kernels.h"
#include "support/cases.h"

enum { RANDOM_CASES = 120 };

static void run_kernels(focal_ctx *ctx, const attn_spec *spec, uint64_t seed)
{
    attn_case *c = attn_case_new(spec, seed);
    attn_case_want_gradients(c);
    focal_attn_args normal;
    focal_attn_seq single;
    focal_attn_gate gate;
    const focal_status status = foci_attn_normalise(ctx, &c->args, &normal, &single, &gate);
    if (status != FOCAL_OK) fail_msg("%s: %s", focal_ctx_error(ctx), attn_case_text(c));
    for (size_t n = 0; n < foci_attn_kernel_count; n++) {
        const foci_attn_kernel *kernel = &foci_attn_kernels[n];
        if (!kernel->can(ctx, &normal)) continue;
        attn_case_clear_backward(c);
        assert_status(ctx, kernel->backward(ctx, &normal, &c->grads), FOCAL_OK);
        attn_case_check_backward(c, kernel->name);
        note_ran("attn backward", kernel->name);
    }
    attn_case_free(c);
}

static void kernels_match_oracle(void **state)
{
    for (size_t n = 0; n < attn_spec_count; n++)
        if (attn_specs[n].page_rows == 0 && !attn_specs[n].is_permuted)
            run_kernels(*state, &attn_specs[n], (uint64_t)n + 1);
}

static void kernels_match_oracle_on_mixtures(void **state)
{
    for (uint64_t seed = 1; seed <= RANDOM_CASES; seed++) {
        const attn_spec spec = attn_spec_random(seed + 10000, true);
        run_kernels(*state, &spec, seed);
    }
}

static void kernels_match_oracle_on_long_texts(void **state)
{
    for (size_t n = 0; n < attn_long_spec_count; n++)
        if (attn_long_specs[n].page_rows == 0 && attn_long_specs[n].T > 0)
            run_kernels(*state, &attn_long_specs[n], (uint64_t)n + 1);
}

/* The public calls, one after the other: backward from what forward really left. */
static void public_calls_follow_each_other(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t n = 0; n < attn_spec_count; n++) {
        if (attn_specs[n].page_rows > 0 || attn_specs[n].is_permuted) continue;
        if (attn_specs[n].dtype != FOCAL_F32) continue; /* out is not exact enough for the twin */
        attn_case *c = attn_case_new(&attn_specs[n], (uint64_t)n + 1);
        attn_case_want_gradients(c);
        attn_case_clear_backward(c);
        assert_status(ctx, focal_attn_forward(ctx, &c->args), FOCAL_OK);
        assert_status(ctx, focal_attn_backward(ctx, &c->args, &c->grads), FOCAL_OK);
        assert_non_null(focal_attn_kernel_name(ctx, &c->args));
        attn_case_check_backward(c, "public");
        attn_case_free(c);
    }
}

static void pages_and_moved_rows_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t n = 0; n < attn_spec_count; n++) {
        if (attn_specs[n].page_rows == 0 && !attn_specs[n].is_permuted) continue;
        attn_case *c = attn_case_new(&attn_specs[n], (uint64_t)n + 1);
        attn_case_want_gradients(c);
        assert_status(ctx, focal_attn_backward(ctx, &c->args, &c->grads), FOCAL_EUNSUPPORTED);
        attn_case_free(c);
    }
}

static void required_kernels_ran(void **state)
{
    (void)state;
    assert_ran("attn backward", "ref");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle_on_mixtures, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle_on_long_texts, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(public_calls_follow_each_other, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(pages_and_moved_rows_are_refused, open_ctx, close_ctx),
        cmocka_unit_test(required_kernels_ran),
    };
    return cmocka_run_group_tests_name("attn_backward", tests, NULL, NULL);
}
