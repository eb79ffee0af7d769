/* Activations and gates: how far every kernel is from the exact functions over all sizes of input,
 * shapes, strides, halves of one array, misaligned, in place and bfloat16; PyTorch's results, odd
 * numbers, threads, bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "ops/mlp/gate.h"
#include "support/op_cases.h"
#include "support/oracle_ops.h"
#include "support/plain_ops.h"
#include "support/route_cases.h"

static const char *const names[] = {"silu", "gelu", "gelu_tanh"};

/* |got - exact| in units in the last place of exact. */
static double units(double got, double exact)
{
    int exponent;
    (void)frexp(exact, &exponent);
    return fabs(got - exact) / ldexp(1.0, exponent - 24);
}

static float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* What gate.h says: the worst over half a million floats of both signs, 1e-10 to 1e4. Less than 2.5
 * units from the exact number are at most 2 from its rounding. */
static void check_accuracy(focal_ctx *ctx, const foci_rows_kernel *kernel, foci_activation act)
{
    static const double most_units[] = {2.5, 5.6, 1.8}, most_of_x[] = {1.2e-7, 1.9e-7, 1.2e-7};
    enum { BATCH = 4096, STEP = 1501 };
    float x[BATCH], out[BATCH];
    double worst = 0.0, worst_right = 0.0, worst_of_x = 0.0;
    (void)ctx;
    for (uint32_t bits = 0x2EDBE6FFU; bits < 0x461C4000U; bits += BATCH / 2 * STEP) {
        for (uint32_t n = 0; n < BATCH; n++)
            x[n] = float_of_bits((bits + n / 2 * STEP) | (n % 2) << 31);
        const foci_gate_args args = {
            .activation = act, .T = 1, .F = BATCH, .gate = x, .out = out, .out_dtype = FOCAL_F32};
        kernel->run(&args, 0, 1);
        for (int n = 0; n < BATCH; n++) {
            const double exact = oracle_activation((int)act, (double)x[n]);
            worst_of_x = fmax(worst_of_x, fabs((double)out[n] - exact) / fabs((double)x[n]));
            if (fabs(exact) < 1e-36) {
                assert_true(fabsf(out[n]) < 2e-36F);
                continue;
            }
            const double error = units((double)out[n], exact);
            worst = fmax(worst, error);
            if (x[n] > 0.0F) worst_right = fmax(worst_right, error);
        }
    }
    print_message("%s, %s: %.2f units in the last place, %.2f for x > 0, %.2e |x|\n", kernel->name,
                  names[act], worst, worst_right, worst_of_x);
    assert_true((act == FOCI_GELU_TANH ? worst_right : worst) < most_units[act]);
    assert_true(worst_of_x <= most_of_x[act]);
}

static void functions_are_accurate(void **state)
{
    focal_ctx *ctx = *state;
    for (int act = 0; act < 3; act++) {
        size_t next = 0;
        for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_gate_op, &next));)
            check_accuracy(ctx, kernel, (foci_activation)act);
    }
}

typedef struct gate_case {
    char name[96];
    foci_gate_args args;
    grid gate, up, out;
    float *plain;
    double *exact, *sizes;
    int64_t count;
} gate_case;

enum { HAS_UP = 4 }; /* beside the flags of a grid */

static gate_case *gate_case_new(focal_ctx *ctx, foci_activation act, int32_t T, int32_t F,
                                unsigned flags)
{
    gate_case *c = new_array(1, sizeof *c);
    (void)snprintf(c->name, sizeof c->name, "%s T %d F %d flags %u", names[act], T, F, flags);
    c->count = (int64_t)T * F;
    c->gate = grid_new(T, F, FOCAL_F32, flags % 4);
    c->up = grid_new(T, F, FOCAL_F32, flags % 4 ^ GRID_GAPS);
    c->out = grid_new(T, F, FOCAL_F32, flags % 4 ^ GRID_MISALIGNED);
    float *gate = new_normals(c->count, 3.0F, flags + 1),
          *up = new_normals(c->count, 1.0F, flags + 2);
    grid_fill(&c->gate, gate);
    grid_fill(&c->up, up);
    const bool has_up = flags & HAS_UP;
    const foci_gate_args args = {.activation = act,
                                 .T = T,
                                 .F = F,
                                 .gate = c->gate.data,
                                 .gate_stride = c->gate.stride,
                                 .up = has_up ? c->up.data : NULL,
                                 .up_stride = c->up.stride,
                                 .out = c->out.data,
                                 .out_stride = c->out.stride};
    assert_status(ctx, foci_gate_normalise(ctx, &args, &c->args), FOCAL_OK);
    c->plain = new_array((size_t)c->count, sizeof *c->plain);
    c->exact = new_array((size_t)c->count, sizeof *c->exact);
    c->sizes = new_array((size_t)c->count, sizeof *c->sizes);
    plain_gate(&c->args, c->plain);
    for (int64_t n = 0; n < c->count; n++) {
        const double factor = has_up ? (double)up[n] : 1.0;
        c->exact[n] = oracle_activation((int)act, (double)gate[n]) * factor;
        c->sizes[n] = fabs((double)gate[n] * factor); /* plain loops round 1 + erf and 1 + tanh */
    }
    free(gate);
    free(up);
    return c;
}

static void gate_case_free(gate_case *c)
{
    grid_free(&c->gate);
    grid_free(&c->up);
    grid_free(&c->out);
    free(c->plain);
    free(c->exact);
    free(c->sizes);
    free(c);
}

/* In place of either input the same bits; in bfloat16 their rounding. */
static void check_other_places(const foci_rows_kernel *kernel, const gate_case *c, const float *got)
{
    grid half = grid_new(c->args.T, c->args.F, FOCAL_BF16, GRID_GAPS);
    foci_gate_args args = c->args;
    args.out = half.data;
    args.out_dtype = FOCAL_BF16;
    args.out_stride = half.stride;
    kernel->run(&args, 0, args.T);
    assert_gaps_untouched(c->name, &half);
    float *rounded = grid_packed(&half);
    for (int64_t n = 0; n < c->count; n++)
        assert_true(rounded[n] == foci_bf16_to_float(foci_bf16_from_float(got[n])));
    free(rounded);
    grid_free(&half);
    const grid *places[] = {&c->gate, &c->up};
    for (int place = 0; place < (c->args.up ? 2 : 1); place++) {
        float *kept = grid_packed(places[place]);
        args = c->args;
        args.out = places[place]->data;
        args.out_stride = places[place]->stride;
        kernel->run(&args, 0, args.T);
        assert_gaps_untouched(c->name, places[place]);
        float *in_place = grid_packed(places[place]);
        assert_memory_equal(in_place, got, (size_t)c->count * sizeof *got);
        grid_fill(places[place], kept);
        free(kept);
        free(in_place);
    }
}

static void kernels_match_oracle(void **state)
{
    focal_ctx *ctx = *state;
    static const int32_t widths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67, 129, 1536};
    for (size_t w = 0; w < FOCAL_COUNT(widths); w++)
        for (unsigned flags = 0; flags < 24; flags++) {
            gate_case *c = gate_case_new(ctx, (foci_activation)(flags / 8), 1 + (int32_t)w % 3,
                                         widths[w], flags % 8);
            size_t next = 0;
            for (const foci_rows_kernel *kernel;
                 (kernel = next_kernel(ctx, &foci_gate_op, &next));) {
                kernel->run(&c->args, 0, c->args.T);
                assert_gaps_untouched(c->name, &c->out);
                float *got = grid_packed(&c->out);
                const error_bound bound = {.name = c->name,
                                           .plain = c->plain,
                                           .exact = c->exact,
                                           .magnitude = c->sizes,
                                           .count = c->count,
                                           .factor = 2.0};
                assert_within(&bound, got);
                check_other_places(kernel, c, got);
                free(got);
                note_ran("gate", kernel->name);
            }
            gate_case_free(c);
        }
    note_without("gate", "avx512bf16"); /* rows are float32 */
    assert_ran("gate", "ref");
}

/* gate and up as halves of one array give what two arrays give. */
static void halves_of_one_array(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 3, F = 21, BOTH = 2 * F };
    float *both = new_normals((int64_t)T * BOTH, 1.0F, 9), gate[T][F], up[T][F], out[T][F];
    for (int64_t t = 0; t < T; t++) {
        memcpy(gate[t], both + t * BOTH, sizeof gate[t]);
        memcpy(up[t], both + t * BOTH + F, sizeof up[t]);
    }
    const foci_gate_args apart = {.T = T, .F = F, .gate = gate[0], .up = up[0], .out = gate};
    const foci_gate_args joined = {.T = T,
                                   .F = F,
                                   .gate = both,
                                   .gate_stride = BOTH,
                                   .up = both + F,
                                   .up_stride = BOTH,
                                   .out = out};
    assert_status(ctx, foci_gate(ctx, &joined), FOCAL_OK);
    assert_status(ctx, foci_gate(ctx, &apart), FOCAL_OK);
    assert_memory_equal(gate, out, sizeof out);
    free(both);
}

static void check_golden(const golden_case *g, void *user)
{
    focal_ctx *ctx = user;
    const int act = (int)g->parameters[0], count = (int)g->parameters[1];
    float *x = case_floats(g, "x", count), *up = case_floats(g, "up", count), out[256];
    double exact[256], sizes[256], gated_sizes[256];
    const double *expected = case_doubles(g, "out", count);
    for (int n = 0; n < count; n++) {
        exact[n] = oracle_activation(act, (double)x[n]);
        sizes[n] = fabs((double)x[n]);
        gated_sizes[n] = fabs((double)x[n] * (double)up[n]);
        if (fabs(exact[n] - expected[n]) > 1e-12 * fabs(expected[n]) + 1e-300)
            fail_msg("%s: %g at %g, expected %g", g->name, exact[n], (double)x[n], expected[n]);
    }
    foci_gate_args args = {
        .activation = (foci_activation)act, .T = 1, .F = count, .gate = x, .out = out};
    size_t next = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_gate_op, &next));) {
        args.up = NULL;
        kernel->run(&args, 0, 1);
        assert_roundings(g->name, out, case_doubles(g, "model", count), sizes, count, 4.0);
        args.up = up;
        kernel->run(&args, 0, 1);
        assert_roundings(g->name, out, case_doubles(g, "gated", count), gated_sizes, count, 4.0);
    }
    free(x);
    free(up);
}

static void agrees_with_pytorch(void **state)
{
    each_golden("activation_", 3, *state, check_golden);
}

static void odd_numbers(void **state)
{
    focal_ctx *ctx = *state;
    const float x[] = {NAN, INFINITY, -INFINITY, 0.0F, -0.0F, 3e38F, -3e38F, 1e-45F, -200.0F};
    enum { COUNT = sizeof x / sizeof x[0] };
    float out[COUNT];
    size_t next = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_gate_op, &next));)
        for (int act = 0; act < 3; act++) {
            const foci_gate_args args = {
                .activation = (foci_activation)act, .T = 1, .F = COUNT, .gate = x, .out = out};
            kernel->run(&args, 0, 1);
            assert_true(isnan(out[0]) && out[1] == INFINITY && out[2] == 0.0F);
            assert_true(out[3] == 0.0F && out[4] == 0.0F && out[5] == 3e38F && out[6] == 0.0F);
            assert_true(fabsf(out[7]) < 1e-44F && fabsf(out[8]) < 1e-36F);
        }
}

static void make_gate(focal_ctx *ctx, const void *problem, void *out)
{
    foci_gate_args args = *(const foci_gate_args *)problem;
    args.out = out;
    assert_status(ctx, foci_gate(ctx, &args), FOCAL_OK);
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    enum { T = 203, F = 251 };
    float *x = new_normals((int64_t)2 * T * F, 2.0F, 5);
    for (int act = 0; act < 3; act++) {
        const foci_gate_args args = {.activation = (foci_activation)act,
                                     .T = T,
                                     .F = F,
                                     .gate = x,
                                     .up = x + (int64_t)T * F};
        assert_same_bits("gate", (size_t)T * F * sizeof(float), &args, make_gate);
    }
    free(x);
}

static void assert_bad(focal_ctx *ctx, foci_gate_args args, const char *text)
{
    assert_status(ctx, foci_gate(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    float x[32] = {0}, up[32] = {0}, out[32];
    const foci_gate_args good = {.T = 2, .F = 8, .gate = x, .up = up, .out = out};
    foci_gate_args bad = good;
    assert_status(ctx, foci_gate(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_gate(NULL, &good), FOCAL_EINVAL);
    bad.gate = NULL;
    assert_bad(ctx, bad, "gate: gate and out must be set");
    bad = good;
    bad.F = 0;
    assert_bad(ctx, bad, "gate: 2 rows of 0: both must be at least 1");
    bad = good;
    bad.activation = (foci_activation)3;
    assert_bad(ctx, bad, "gate: there is no activation 3");
    bad = good;
    bad.up_stride = 5;
    assert_bad(ctx, bad, "gate: up: a stride of 5 does not fit 2 rows of 8");
    bad = good;
    bad.out_dtype = FOCAL_Q8_0;
    assert_bad(ctx, bad, "gate: out is q8_0, it must be f32 or bf16");
    bad = good;
    bad.out = up;
    bad.out_stride = 9;
    assert_bad(ctx, bad, "gate: in place, out must be f32 with the stride 8 of its input");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(functions_are_accurate, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(halves_of_one_array, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(agrees_with_pytorch, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_numbers, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
