/* A key that a query does not see has no influence on it, whatever it holds: NaN in its row of k
 * and v must not change one bit of the queries that do not see it. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/attn/attn_kernels.h"
#include "support/cases.h"

/* clang-format off */
static const attn_spec specs[] = {
    {.T = 70, .S = 70, .H = 2, .G = 1, .D = 16},
    {.T = 70, .S = 70, .H = 4, .G = 2, .D = 64, .dtype = FOCAL_BF16},
    {.T = 1, .S = 150, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 20, .sinks = 2},
    {.T = 5, .S = 150, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 20, .sinks = 2, .dtype
     = FOCAL_BF16},
    {.T = 60, .S = 60, .H = 2, .G = 1, .D = 16, .is_bidirectional = true, .has_window = true,
     .window = 4, .sinks = 1},
    {.T = 90, .S = 90, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 6, .sinks = 2, .groups
     = GROUPS_RANDOM, .K = 4, .top = 1},
    {.T = 90, .S = 90, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 6, .sinks = 2, .groups
     = GROUPS_RANDOM, .K = 8, .top = 2, .dtype = FOCAL_BF16},
    {.T = 90, .S = 90, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 6, .sinks = 2, .groups
     = GROUPS_RANDOM, .mode = FOCAL_SHARED, .K = 8, .top = 2, .has_one_router = true},
    {.T = 3, .S = 140, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 6, .sinks = 2, .groups
     = GROUPS_RANDOM, .K = 8, .top = 2},
    {.T = 40, .S = 140, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 6, .sinks = 2,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2, .page_rows = 7, .is_permuted = true},
};
/* clang-format on */

static void poison_key(attn_case *c, int32_t j, int32_t g)
{
    const int32_t Dv = c->problems[0].Dv;
    for (int32_t d = 0; d < c->spec.D; d++)
        element_set(attn_case_key(c, 0, j, g), d, c->spec.dtype, NAN);
    for (int32_t d = 0; d < Dv; d++)
        element_set(attn_case_value(c, 0, j, g), d, c->spec.dtype, d % 2 == 0 ? NAN : INFINITY);
}

/* A kernel's run of a case, forward and where the case has gradients backward. */
static void run_kernel(focal_ctx *ctx, const foci_attn_kernel *kernel, attn_case *c,
                       bool has_gradients)
{
    focal_attn_args normal;
    focal_attn_seq single;
    focal_attn_gate gate;
    assert_status(ctx, foci_attn_normalise(ctx, &c->args, &normal, &single, &gate), FOCAL_OK);
    assert_true(kernel->can(ctx, &normal));
    if (has_gradients) {
        attn_case_clear_backward(c);
        assert_status(ctx, kernel->backward(ctx, &normal, &c->grads), FOCAL_OK);
    } else {
        attn_case_clear_forward(c);
        assert_status(ctx, kernel->forward(ctx, &normal), FOCAL_OK);
    }
}

static bool kernel_takes(focal_ctx *ctx, const foci_attn_kernel *kernel, attn_case *c)
{
    focal_attn_args normal;
    focal_attn_seq single;
    focal_attn_gate gate;
    assert_status(ctx, foci_attn_normalise(ctx, &c->args, &normal, &single, &gate), FOCAL_OK);
    return kernel->can(ctx, &normal);
}

/* The rows of x (T, H, width) whose query does not see key j of head g are as in `before`, bit
 * for bit, and finite. */
static void check_rows(const attn_case *c, const char *name, const float *x, const float *before,
                       int32_t width, int32_t j, int32_t g)
{
    const oracle_attn *a = &c->problems[0];
    for (int32_t i = 0; i < a->T; i++) {
        for (int32_t h = 0; h < a->H; h++) {
            if (h / (a->H / a->G) == g && oracle_sees(a, h, i, j)) continue;
            const int64_t at = ((int64_t)i * a->H + h) * width;
            if (memcmp(x + at, before + at, (size_t)width * sizeof *x) == 0 && isfinite(x[at]))
                continue;
            fail_msg("%s: key %d of head %d reached query %d of head %d: %s", name, j, g, i, h,
                     attn_case_text(c));
        }
    }
}

static float *packed_dq(const attn_case *c)
{
    const int64_t count = (int64_t)c->spec.T * c->spec.H * c->spec.D;
    float *result = new_array((size_t)count, sizeof *result);
    for (int64_t n = 0; n < count; n++) result[n] = element_get(c->grads.dq, n, c->spec.dtype);
    return result;
}

static void poison_one_key(focal_ctx *ctx, const foci_attn_kernel *kernel, const attn_spec *spec,
                           int32_t j, int32_t g)
{
    const bool has_gradients = spec->page_rows == 0 && !spec->is_permuted;
    attn_case *c = attn_case_new(spec, 3);
    if (has_gradients) attn_case_want_gradients(c);
    if (!kernel_takes(ctx, kernel, c)) {
        attn_case_free(c);
        return;
    }
    float *dq_before = NULL;
    if (has_gradients) {
        run_kernel(ctx, kernel, c, true);
        dq_before = packed_dq(c);
    }
    run_kernel(ctx, kernel, c, false);
    float *before = attn_case_out(c);
    poison_key(c, j, g);
    run_kernel(ctx, kernel, c, false);
    float *after = attn_case_out(c);
    check_rows(c, kernel->name, after, before, c->problems[0].Dv, j, g);
    if (has_gradients) {
        run_kernel(ctx, kernel, c, true);
        float *dq = packed_dq(c);
        check_rows(c, kernel->name, dq, dq_before, c->spec.D, j, g);
        free(dq);
    }
    free(dq_before);
    free(before);
    free(after);
    attn_case_free(c);
    note_ran("attn poison", kernel->name);
}

static void hidden_keys_have_no_influence(void **state)
{
    for (size_t n = 0; n < foci_attn_kernel_count; n++)
        for (size_t s = 0; s < FOCAL_COUNT(specs); s++)
            for (int32_t j = 0; j < specs[s].S; j += 1 + specs[s].S / 11)
                poison_one_key(*state, &foci_attn_kernels[n], &specs[s], j, j % specs[s].G);
    assert_ran("attn poison", "ref");
}

static bool is_seen(const attn_case *c, int32_t j, int32_t g)
{
    const oracle_attn *a = &c->problems[0];
    for (int32_t i = 0; i < a->T; i++)
        for (int32_t h = g * (a->H / a->G); h < (g + 1) * (a->H / a->G); h++)
            if (oracle_sees(a, h, i, j)) return true;
    return false;
}

/* All keys that nobody sees at once; then the exact result, and gradients of 0 for those keys. */
static void keys_nobody_sees_change_nothing(void **state)
{
    focal_ctx *ctx = *state;
    int64_t poisoned = 0;
    for (size_t n = 0; n < foci_attn_kernel_count; n++) {
        for (size_t s = 0; s < FOCAL_COUNT(specs); s++) {
            const bool has_gradients = specs[s].page_rows == 0 && !specs[s].is_permuted;
            attn_case *c = attn_case_new(&specs[s], 9);
            if (has_gradients) attn_case_want_gradients(c);
            for (int32_t j = 0; j < specs[s].S; j++) {
                for (int32_t g = 0; g < specs[s].G; g++) {
                    if (is_seen(c, j, g)) continue;
                    poison_key(c, j, g);
                    poisoned++;
                }
            }
            if (kernel_takes(ctx, &foci_attn_kernels[n], c)) {
                run_kernel(ctx, &foci_attn_kernels[n], c, false);
                attn_case_check_forward(c, foci_attn_kernels[n].name);
                if (has_gradients) {
                    run_kernel(ctx, &foci_attn_kernels[n], c, true);
                    attn_case_check_backward(c, foci_attn_kernels[n].name);
                }
            }
            attn_case_free(c);
        }
    }
    assert_true(poisoned > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(hidden_keys_have_no_influence, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(keys_nobody_sees_change_nothing, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("attn_poison", tests, NULL, NULL);
}
