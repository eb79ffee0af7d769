/* Keys and values in q8_0, read where they lie: every kernel agrees with the double oracle on what
 * the blocks say, in one block and in pages; what is odd in a block stays in the rows that see it;
 * the same bits at any thread count; wrong calls. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/attn/attn_kernels.h"
#include "support/cases.h"

enum { RANDOM_CASES = 200, F16_NAN = 0x7E00, F16_INFINITY = 0x7C00 };

/* Runs a kernel on a case; false when it does not take it. */
static bool run_kernel(focal_ctx *ctx, const foci_attn_kernel *kernel, attn_case *c)
{
    focal_attn_args normal;
    focal_attn_seq single;
    focal_attn_gate gate;
    const focal_status status = foci_attn_normalise(ctx, &c->args, &normal, &single, &gate);
    if (status != FOCAL_OK) fail_msg("%s: %s", focal_ctx_error(ctx), attn_case_text(c));
    if (!kernel->can(ctx, &normal)) return false;
    attn_case_clear_forward(c);
    assert_status(ctx, kernel->forward(ctx, &normal), FOCAL_OK);
    note_ran("attn q8", kernel->name);
    return true;
}

static void check_kernels(focal_ctx *ctx, attn_spec spec, uint64_t seed)
{
    spec = attn_spec_q8(spec);
    attn_case *c = attn_case_new(&spec, seed);
    for (size_t n = 0; n < foci_attn_kernel_count; n++)
        if (run_kernel(ctx, &foci_attn_kernels[n], c))
            attn_case_check_forward(c, foci_attn_kernels[n].name);
    attn_case_free(c);
}

/* The cases of test_attn in both types of q: the pairs of the type that has them need it. */
static void kernels_match_oracle(void **state)
{
    for (size_t n = 0; n < attn_spec_count; n++) {
        for (int dtype = FOCAL_F32; dtype <= FOCAL_BF16; dtype++) {
            attn_spec spec = attn_specs[n];
            spec.dtype = (focal_dtype)dtype;
            check_kernels(*state, spec, (uint64_t)n + 1);
        }
    }
}

static void kernels_match_oracle_on_mixtures(void **state)
{
    for (uint64_t seed = 1; seed <= RANDOM_CASES; seed++)
        check_kernels(*state, attn_spec_random(seed, false), seed);
}

static void kernels_match_oracle_on_long_texts(void **state)
{
    for (size_t n = 0; n < attn_long_spec_count; n++)
        check_kernels(*state, attn_long_specs[n], (uint64_t)n + 1);
}

/* clang-format off */
static const attn_spec odd_specs[] = {
    {.T = 70, .S = 70, .H = 2, .G = 1, .D = 32},
    {.T = 70, .S = 70, .H = 4, .G = 2, .D = 64, .dtype = FOCAL_BF16},
    {.T = 1, .S = 150, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 20, .sinks = 2},
    {.T = 5, .S = 150, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 20, .sinks = 2, .dtype
     = FOCAL_BF16},
    {.T = 3, .S = 90, .H = 2, .G = 2, .D = 32, .Dv = 96, .dtype = FOCAL_BF16},
    {.T = 90, .S = 90, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 6, .sinks = 2, .groups
     = GROUPS_RANDOM, .K = 8, .top = 2, .dtype = FOCAL_BF16},
    {.T = 90, .S = 90, .H = 4, .G = 2, .D = 32, .has_window = true, .window = 6, .sinks = 2, .groups
     = GROUPS_RANDOM, .mode = FOCAL_SHARED, .K = 8, .top = 2, .has_one_router = true},
    {.T = 3, .S = 140, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 6, .sinks = 2, .groups
     = GROUPS_RANDOM, .K = 8, .top = 2},
    {.T = 40, .S = 140, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 6, .sinks = 2,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2, .page_rows = 7, .is_permuted = true},
};
/* clang-format on */

/* Bad scales in all blocks of a key, and in those of its value. */
static void poison_key(attn_case *c, int32_t j, int32_t g)
{
    for (int32_t d = 0; d < c->spec.D; d += 32)
        attn_case_set_scale(attn_case_key(c, 0, j, g), d, d % 64 == 0 ? F16_NAN : F16_INFINITY);
    for (int32_t d = 0; d < c->problems[0].Dv; d += 32)
        attn_case_set_scale(attn_case_value(c, 0, j, g), d, d % 64 == 0 ? F16_INFINITY : F16_NAN);
}

/* Rows that do not see the key are as they were, bit for bit; a row that sees it is NaN. */
static void check_poisoned(const attn_case *c, const char *kernel, const float *after,
                           const float *before, int32_t j, int32_t g)
{
    const oracle_attn *a = &c->problems[0];
    for (int64_t row = 0; row < (int64_t)a->T * a->H; row++) {
        const int32_t i = (int32_t)(row / a->H), h = (int32_t)(row % a->H);
        const float *x = after + row * a->Dv;
        if (h / (a->H / a->G) == g && oracle_sees(a, h, i, j)) {
            for (int32_t d = 0; d < a->Dv; d++)
                if (!isnan(x[d]))
                    fail_msg("%s: %g at %d: %s", kernel, (double)x[d], d, attn_case_text(c));
        } else if (memcmp(x, before + row * a->Dv, (size_t)a->Dv * sizeof *x) != 0) {
            fail_msg("%s: key %d of head %d reached query %d of head %d: %s", kernel, j, g, i, h,
                     attn_case_text(c));
        }
    }
}

static void bad_scales_reach_only_who_sees_them(void **state)
{
    for (size_t n = 0; n < foci_attn_kernel_count; n++) {
        for (size_t s = 0; s < FOCAL_COUNT(odd_specs); s++) {
            const attn_spec spec = attn_spec_q8(odd_specs[s]);
            for (int32_t j = 0; j < spec.S; j += 1 + spec.S / 11) {
                attn_case *c = attn_case_new(&spec, 3);
                if (run_kernel(*state, &foci_attn_kernels[n], c)) {
                    float *before = attn_case_out(c);
                    poison_key(c, j, j % spec.G);
                    assert_true(run_kernel(*state, &foci_attn_kernels[n], c));
                    float *after = attn_case_out(c);
                    check_poisoned(c, foci_attn_kernels[n].name, after, before, j, j % spec.G);
                    free(before);
                    free(after);
                }
                attn_case_free(c);
            }
        }
    }
}

/* A bad scale in a block of a value is in the 32 columns of that block, and in no other. */
static void bad_scales_stay_in_their_columns(void **state)
{
    for (size_t n = 0; n < foci_attn_kernel_count; n++) {
        for (size_t s = 0; s < FOCAL_COUNT(odd_specs); s++) {
            const attn_spec spec = attn_spec_q8(odd_specs[s]);
            attn_case *c = attn_case_new(&spec, 4);
            const oracle_attn *a = &c->problems[0];
            const int32_t j = spec.S - 1; /* the last query sees itself */
            attn_case_set_scale(attn_case_value(c, 0, j, 0), a->Dv - 1, F16_NAN);
            if (run_kernel(*state, &foci_attn_kernels[n], c)) {
                float *out = attn_case_out(c);
                const float *last = out + ((int64_t)a->T - 1) * a->H * a->Dv;
                for (int32_t d = 0; d < a->Dv; d++)
                    if (isnan(last[d]) != (d >= a->Dv - 32))
                        fail_msg("%s: %g at %d: %s", foci_attn_kernels[n].name, (double)last[d], d,
                                 attn_case_text(c));
                free(out);
            }
            attn_case_free(c);
        }
    }
}

/* clang-format off */
static const attn_spec thread_specs[] = {
    {.T = 300, .S = 300, .H = 9, .G = 3, .D = 64, .dtype = FOCAL_BF16},
    {.T = 1, .S = 2000, .H = 4, .G = 2, .D = 64, .dtype = FOCAL_BF16},
    {.T = 7, .S = 1500, .H = 4, .G = 2, .D = 64},
    {.T = 400, .S = 400, .H = 2, .G = 1, .D = 64, .has_window = true, .window = 30, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2},
    {.H = 4, .G = 2, .D = 32, .seq_count = 4, .page_rows = 16, .dtype = FOCAL_BF16,
     .lengths = {{1, 900}, {200, 200}, {3, 3}, {16, 400}}},
};
/* clang-format on */

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    for (size_t s = 0; s < FOCAL_COUNT(thread_specs); s++) {
        const attn_spec spec = attn_spec_q8(thread_specs[s]);
        attn_case *c = attn_case_new(&spec, 7);
        for (size_t n = 0; n < foci_attn_kernel_count; n++) {
            float *first = NULL;
            for (int32_t threads = 1; threads <= 5; threads += 2) {
                focal_ctx *ctx = new_ctx(threads);
                if (run_kernel(ctx, &foci_attn_kernels[n], c)) {
                    float *out = attn_case_out(c);
                    const size_t count =
                        (size_t)c->query_at[c->seq_count] * (size_t)spec.H * (size_t)spec.D;
                    if (first && memcmp(first, out, count * sizeof *out) != 0)
                        fail_msg("%s: %d threads: %s", foci_attn_kernels[n].name, threads,
                                 attn_case_text(c));
                    if (!first)
                        first = out;
                    else
                        free(out);
                }
                focal_ctx_close(ctx);
            }
            free(first);
        }
        attn_case_free(c);
    }
}

static void expect(focal_ctx *ctx, const focal_attn_args *args, const char *sentence)
{
    int64_t pairs;
    assert_status(ctx, focal_attn_forward(ctx, args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), sentence);
    assert_status(ctx, focal_attn_pairs(ctx, args, &pairs), FOCAL_EINVAL);
    assert_null(focal_attn_kernel_name(ctx, args));
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    const attn_spec spec = {.T = 9, .S = 9, .H = 4, .G = 2, .D = 64, .has_q8_keys = true};
    attn_case *c = attn_case_new(&spec, 1);
    focal_attn_args args = c->args;
    args.D = 48;
    expect(ctx, &args, "attn: head widths 48 and 48 are not whole blocks of 32 (q8_0)");
    args = c->args;
    args.Dv = 1;
    expect(ctx, &args, "attn: head widths 64 and 1 are not whole blocks of 32 (q8_0)");
    args = c->args;
    args.k_stride = 130;
    expect(ctx, &args, "attn: strides 130 and 128 are not whole blocks of 32 (q8_0)");
    args.k_stride = 160;
    args.v_stride = 159;
    expect(ctx, &args, "attn: strides 160 and 159 are not whole blocks of 32 (q8_0)");
    args = c->args;
    args.k_stride = INT64_MAX / 64 * 32;
    expect(ctx, &args, "attn: sequence 0 has k rows out of range");
    args = c->args;
    args.dtype = FOCAL_Q8_0;
    expect(ctx, &args, "attn: dtype 3 is not f32 or bf16");
    args = c->args;
    float memberships[36] = {0};
    const focal_attn_gate gate = {
        .kind = FOCAL_GATE_PAPER, .K = 1, .routers = 1, .gq = memberships, .gk = memberships};
    args.gate = &gate;
    args.has_window = true;
    expect(ctx, &args, "attn: a gate takes no keys in q8_0");
    float *room = new_array((size_t)9 * 4 * 64, sizeof *room);
    const focal_attn_grads grads = {.dout = room, .dq = room, .dk = room, .dv = room};
    assert_status(ctx, focal_attn_backward(ctx, &c->args, &grads), FOCAL_EUNSUPPORTED);
    assert_string_equal(focal_ctx_error(ctx), "attn: backward takes no keys in q8_0");
    free(room);
    attn_case_free(c);
}

static void memory_may_run_out(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t s = 0; s < FOCAL_COUNT(thread_specs); s++) {
        const attn_spec spec = attn_spec_q8(thread_specs[s]);
        attn_case *c = attn_case_new(&spec, 2);
        for (int64_t n = 1;; n++) {
            focal_ctx_trim(ctx);
            memory_fail(n, false);
            const focal_status status = focal_attn_forward(ctx, &c->args);
            memory_fail(0, false);
            if (status == FOCAL_OK) break;
            assert_int_equal(status, FOCAL_ENOMEM);
        }
        attn_case_check_forward(c, "public");
        attn_case_free(c);
    }
}

static void required_kernels_ran(void **state)
{
    (void)state;
    assert_ran("attn q8", "ref");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle_on_mixtures, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle_on_long_texts, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_scales_reach_only_who_sees_them, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_scales_stay_in_their_columns, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
        cmocka_unit_test(required_kernels_ran),
    };
    return cmocka_run_group_tests_name("attn_q8", tests, NULL, NULL);
}
