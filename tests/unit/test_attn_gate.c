/* The training gates: every kernel's forward and gradients, to the memberships too, against the
 * oracle; and what the straight-through gate promises beyond that. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "ops/attn/attn_kernels.h"
#include "support/cases.h"

static void kernels_match_oracle(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t s = 0; s < attn_gate_spec_count; s++) {
        attn_case *c = attn_case_new(&attn_gate_specs[s], (uint64_t)s + 1);
        attn_case_want_gradients(c);
        focal_attn_args normal;
        focal_attn_seq single;
        focal_attn_gate gate;
        const focal_status status = foci_attn_normalise(ctx, &c->args, &normal, &single, &gate);
        if (status != FOCAL_OK) fail_msg("%s: %s", focal_ctx_error(ctx), attn_case_text(c));
        for (size_t n = 0; n < foci_attn_kernel_count; n++) {
            const foci_attn_kernel *kernel = &foci_attn_kernels[n];
            if (!kernel->can(ctx, &normal)) continue;
            attn_case_clear_forward(c);
            assert_status(ctx, kernel->forward(ctx, &normal), FOCAL_OK);
            attn_case_check_forward(c, kernel->name);
            attn_case_clear_backward(c);
            assert_status(ctx, kernel->backward(ctx, &normal, &c->grads), FOCAL_OK);
            attn_case_check_backward(c, kernel->name);
            note_ran("attn gate", kernel->name);
        }
        attn_case_free(c);
    }
    note_without("attn gate", "avx512bf16"); /* memberships are floats: avx512 takes the call */
    assert_ran("attn gate", "ref");
}

/* Training runs what inference runs: forward, dq, dk and dv are those of the key sets alone. */
static void straight_gate_changes_no_other_gradient(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t s = 0; s < attn_gate_spec_count; s++) {
        if (attn_gate_specs[s].gate != FOCAL_GATE_STRAIGHT) continue;
        attn_spec spec = attn_gate_specs[s];
        attn_case *gated = attn_case_new(&spec, (uint64_t)s + 1);
        attn_case_want_gradients(gated);
        attn_case_clear_backward(gated);
        assert_status(ctx, focal_attn_forward(ctx, &gated->args), FOCAL_OK);
        assert_status(ctx, focal_attn_backward(ctx, &gated->args, &gated->grads), FOCAL_OK);
        spec.gate = 0;
        attn_case *hard = attn_case_new(&spec, (uint64_t)s + 1);
        attn_case_want_gradients(hard);
        attn_case_clear_backward(hard);
        /* The same tensors, judged by the results of the other. */
        hard->args.out = gated->args.out;
        hard->args.lse = gated->args.lse;
        hard->grads = gated->grads;
        hard->grads.dgq = hard->grads.dgk = NULL;
        attn_case_check_forward(hard, "straight");
        attn_case_check_backward(hard, "straight");
        attn_case_free(hard);
        attn_case_free(gated);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(straight_gate_changes_no_other_gradient, open_ctx,
                                        close_ctx),
    };
    return cmocka_run_group_tests_name("attn_gate", tests, NULL, NULL);
}
